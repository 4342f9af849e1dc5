//! A small HTTP client for the stack on this machine.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use thiserror::Error;

/// Why a request failed.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    #[error("{method} {url}: {why}")]
    Failed { method: Method, url: String, why: String },
    #[error("{method} {url} answered {status}: {body}")]
    Refused { method: Method, url: String, status: StatusCode, body: String },
}

/// A client that keeps its connections. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    inner: HyperClient<HttpConnector, Full<Bytes>>,
}

impl Client {
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { inner: HyperClient::builder(TokioExecutor::new()).build(connector) }
    }

    /// Sends a request with a JSON body, if any, and reads the JSON of a successful answer.
    pub(crate) async fn json(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Value, HttpError> {
        let failed =
            |why: String| HttpError::Failed { method: method.clone(), url: url.to_owned(), why };
        let mut request = Request::builder().method(&method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let request = request.body(Full::new(body)).map_err(|e| failed(e.to_string()))?;
        let answer = self.inner.request(request).await.map_err(|e| failed(e.to_string()))?;
        let status = answer.status();
        let body =
            answer.into_body().collect().await.map_err(|e| failed(e.to_string()))?.to_bytes();
        if !status.is_success() {
            let body = String::from_utf8_lossy(&body).into_owned();
            return Err(HttpError::Refused { method, url: url.to_owned(), status, body });
        }
        serde_json::from_slice(&body).map_err(|e| failed(format!("the answer is not JSON: {e}")))
    }
}
