//! A small client of the HTTP API of the stack on this machine, and of the DynamoDB endpoint in front of it.

use bytes::Bytes;
use dynashard_aws::error::is_throttle;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode, request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use thiserror::Error;

/// Why a request failed.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    #[error("{request}: {why}")]
    Failed { request: String, why: String },
    #[error("{request} answered {status}: {body}")]
    Refused { request: String, status: StatusCode, body: String },
}

impl HttpError {
    /// Whether it is to be asked again: no environment was free, the function ran out of time, or DynamoDB throttles.
    pub(crate) fn is_busy(&self) -> bool {
        let Self::Refused { status, body, .. } = self else { return false };
        if [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(status) {
            return true;
        }
        let body = serde_json::from_str::<Value>(body).unwrap_or_default();
        let kind = body["__type"].as_str().unwrap_or_default();
        let kind = kind.rsplit_once('#').map_or(kind, |(_, kind)| kind);
        is_throttle(kind) || kind == "TransactionConflictException"
    }

    /// Whether the endpoint gives this stable code as the reason.
    pub(crate) fn says(&self, code: &str) -> bool {
        let Self::Refused { body, .. } = self else { return false };
        let body = serde_json::from_str::<Value>(body).unwrap_or_default();
        let said = body["message"].as_str().and_then(|text| text.strip_prefix("dynashard: "));
        said.and_then(|said| said.split(':').next()) == Some(code)
    }
}

/// A client that keeps its connections.
#[derive(Debug)]
pub(crate) struct Client {
    inner: HyperClient<HttpConnector, Full<Bytes>>,
    url: String,
}

impl Client {
    /// Of what has this address.
    pub(crate) fn new(url: &str) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let inner = HyperClient::builder(TokioExecutor::new()).build(connector);
        Self { inner, url: url.to_owned() }
    }

    /// Asks for what is there, and tells only whether that succeeds.
    pub(crate) async fn get(&self, path: &str) -> Result<(), HttpError> {
        let url = format!("{}{path}", self.url);
        self.ask(&format!("GET {url}"), Request::get(&url), Bytes::new()).await.map(drop)
    }

    /// Sends a request with a JSON body to the API, and reads the JSON of a successful answer.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, HttpError> {
        let url = format!("{}{path}", self.url);
        let request = Request::post(&url).header(CONTENT_TYPE, "application/json");
        self.send(format!("POST {url}"), request, body).await
    }

    /// Calls an operation of DynamoDB at an endpoint that takes it without a signature.
    pub(crate) async fn call(&self, operation: &str, body: &Value) -> Result<Value, HttpError> {
        let request = Request::post(&self.url)
            .header(CONTENT_TYPE, "application/x-amz-json-1.0")
            .header("x-amz-target", format!("DynamoDB_20120810.{operation}"));
        self.send(format!("{operation} at {}", self.url), request, body).await
    }

    async fn send(
        &self,
        name: String,
        request: request::Builder,
        body: &Value,
    ) -> Result<Value, HttpError> {
        let body = self.ask(&name, request, Bytes::from(body.to_string())).await?;
        let failed = |why: String| HttpError::Failed { request: name, why };
        serde_json::from_slice(&body).map_err(|e| failed(format!("the answer is not JSON: {e}")))
    }

    /// Sends a request, and returns the body of a successful answer.
    async fn ask(
        &self,
        name: &str,
        request: request::Builder,
        body: Bytes,
    ) -> Result<Bytes, HttpError> {
        let failed = |why: String| HttpError::Failed { request: name.to_owned(), why };
        let request = request.body(Full::new(body)).map_err(|e| failed(e.to_string()))?;
        let answer = self.inner.request(request).await.map_err(|e| failed(e.to_string()))?;
        let status = answer.status();
        let body =
            answer.into_body().collect().await.map_err(|e| failed(e.to_string()))?.to_bytes();
        if status.is_success() {
            return Ok(body);
        }
        let body = String::from_utf8_lossy(&body).into_owned();
        Err(HttpError::Refused { request: name.to_owned(), status, body })
    }
}
