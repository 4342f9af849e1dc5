//! The public `dynamodb` endpoint: everything that the engine behind it lacks of DynamoDB.
//!
//! It refuses requests whose signature is too old, which the resharding protocol stands on, tells
//! the time in a `Date` header, and counts. A request that may execute passes [`Front::admit`]
//! last, directly before it is handed over.

mod call;
mod counters;
mod signature;

pub use counters::{Counters, OperationCount};

use crate::clock::SharedClock;
use crate::ids;
use crate::server::{BodyError, Handler, Response, empty_response, json_response, read_body};
use bytes::Bytes;
use call::Call;
use counters::CounterStore;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, EXPECT, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::json;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

/// The endpoint in front of one engine.
#[derive(Debug)]
pub(crate) struct Front {
    engine: Authority,
    client: Client<HttpConnector, Full<Bytes>>,
    request_lifetime: Duration,
    clock: SharedClock,
    counters: CounterStore,
}

impl Front {
    /// A front of the engine at `engine` that hands over no request signed more than
    /// `request_lifetime` ago.
    pub(crate) fn new(engine: SocketAddr, request_lifetime: Duration, clock: SharedClock) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let authority = engine.to_string();
        Self {
            engine: authority.parse().expect("a socket address is an authority"),
            client: Client::builder(TokioExecutor::new()).pool_idle_timeout(None).build(connector),
            request_lifetime,
            clock,
            counters: CounterStore::default(),
        }
    }

    /// What the front has counted since it started.
    pub(crate) fn counters(&self) -> Counters {
        self.counters.snapshot()
    }

    /// Whether a request may execute now. The answer holds for this moment only, so nothing waits
    /// after it.
    ///
    /// Requests without a signing date are let through: the engine answers them with the error that
    /// fits, and executes none of them.
    fn admit(&self, parts: &Parts, now: SystemTime) -> Result<(), Refusal> {
        signature::check(parts, self.request_lifetime, now)
    }

    async fn forward(&self, request: Request<Incoming>) -> Result<Response, Refusal> {
        let (mut parts, body) = request.into_parts();
        let body = read_body(body, MAX_BODY).await.map_err(|error| match error {
            BodyError::TooLarge => Refusal::TOO_LARGE,
            BodyError::Broken => Refusal::BROKEN,
        })?;
        let call = Call::read(&parts.headers, &body);
        parts.uri = self.engine_uri(&parts.uri);
        remove_hop_headers(&mut parts.headers);
        if let Err(refusal) = self.admit(&parts, self.clock.now()) {
            self.counters.refused();
            return Err(refusal);
        }
        self.counters.requested(&call);
        let answer = self.client.request(Request::from_parts(parts, Full::new(body)));
        let (mut parts, body) = answer.await.map_err(|error| Refusal::engine(&error))?.into_parts();
        let body = read_body(body, usize::MAX).await.map_err(|_| Refusal::ENGINE_BROKE_OFF)?;
        if call.wants_capacity {
            self.counters.consumed(&call, &body);
        }
        remove_hop_headers(&mut parts.headers);
        Ok(Response::from_parts(parts, Full::new(body)))
    }

    fn engine_uri(&self, uri: &Uri) -> Uri {
        let mut parts = uri.clone().into_parts();
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = Some(self.engine.clone());
        // Only a path can be missing, and then it is the root.
        Uri::from_parts(parts).unwrap_or_else(|_| Uri::from_static("/"))
    }
}

impl Handler for Front {
    async fn handle(&self, request: Request<Incoming>, _peer: SocketAddr) -> Response {
        let mut response = match (request.method(), request.uri().path()) {
            (&Method::GET, "/") => health(),
            (&Method::GET, "/_dynashard/counters") => match serde_json::to_vec(&self.counters()) {
                Ok(body) => json_response(StatusCode::OK, body),
                Err(_) => empty_response(StatusCode::INTERNAL_SERVER_ERROR),
            },
            _ => match self.forward(request).await {
                Ok(response) => response,
                Err(refusal) => refusal.response(),
            },
        };
        let headers = response.headers_mut();
        // The functions take DynamoDB's time from here, so it must be the clock that signatures are
        // checked against.
        let date = httpdate::fmt_http_date(self.clock.now());
        if let Ok(date) = HeaderValue::from_str(&date) {
            headers.insert(DATE, date);
        }
        if !headers.contains_key(&REQUEST_ID)
            && let Ok(id) = HeaderValue::from_str(&ids::dynamodb_request_id())
        {
            headers.insert(REQUEST_ID, id);
        }
        response
    }
}

/// An error that the front answers itself, in DynamoDB's shape.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    /// The error's type with its namespace, as in `__type`.
    kind: &'static str,
    message: String,
}

impl Refusal {
    const TOO_LARGE: Self = Self {
        status: StatusCode::PAYLOAD_TOO_LARGE,
        kind: "com.amazon.coral.service#SerializationException",
        message: String::new(),
    };
    const BROKEN: Self = Self {
        status: StatusCode::BAD_REQUEST,
        kind: "com.amazon.coral.service#SerializationException",
        message: String::new(),
    };
    const ENGINE_BROKE_OFF: Self = Self {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        kind: "com.amazonaws.dynamodb.v20120810#InternalServerError",
        message: String::new(),
    };

    fn engine(error: &hyper_util::client::legacy::Error) -> Self {
        tracing::error!(error = error as &dyn std::error::Error, "the engine did not answer");
        Self::ENGINE_BROKE_OFF
    }

    fn response(&self) -> Response {
        let body = json!({ "__type": self.kind, "message": self.message }).to_string();
        let checksum = HeaderValue::from(crc32fast::hash(body.as_bytes()));
        let mut response = json_response(self.status, body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
        headers.insert(HeaderName::from_static("x-amz-crc32"), checksum);
        response
    }
}

/// DynamoDB takes requests of up to 16 MB.
const MAX_BODY: usize = 16 << 20;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");

fn health() -> Response {
    let body = Bytes::from_static(b"healthy: dynamodb.us-east-1.amazonaws.com ");
    let mut response = Response::new(Full::new(body));
    let text = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(CONTENT_TYPE, text);
    response
}

/// These describe one connection; each side of the front has its own.
fn remove_hop_headers(headers: &mut HeaderMap) {
    for name in [CONNECTION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING] {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests;
