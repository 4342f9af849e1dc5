//! A small client of the HTTP API of the stack on this machine.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use thiserror::Error;

/// Why a request failed.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    #[error("POST {url}: {why}")]
    Failed { url: String, why: String },
    #[error("POST {url} answered {status}: {body}")]
    Refused { url: String, status: StatusCode, body: String },
}

impl HttpError {
    /// Whether the API asks to be asked again: no environment was free, or the function ran out of time.
    pub(crate) fn is_busy(&self) -> bool {
        let busy = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
        matches!(self, Self::Refused { status, .. } if busy.contains(status))
    }
}

/// A client that keeps its connections.
#[derive(Debug)]
pub(crate) struct Client {
    inner: HyperClient<HttpConnector, Full<Bytes>>,
    api: String,
}

impl Client {
    /// Of the API with this address.
    pub(crate) fn new(api: &str) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let inner = HyperClient::builder(TokioExecutor::new()).build(connector);
        Self { inner, api: api.to_owned() }
    }

    /// Sends a request with a JSON body, and reads the JSON of a successful answer.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, HttpError> {
        let url = format!("{}{path}", self.api);
        let failed = |why: String| HttpError::Failed { url: url.clone(), why };
        let request = Request::post(&url).header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(body.to_string())));
        let request = request.map_err(|e| failed(e.to_string()))?;
        let answer = self.inner.request(request).await.map_err(|e| failed(e.to_string()))?;
        let status = answer.status();
        let body =
            answer.into_body().collect().await.map_err(|e| failed(e.to_string()))?.to_bytes();
        if !status.is_success() {
            let body = String::from_utf8_lossy(&body).into_owned();
            return Err(HttpError::Refused { url, status, body });
        }
        serde_json::from_slice(&body).map_err(|e| failed(format!("the answer is not JSON: {e}")))
    }
}
