//! The protocols of `CloudWatch` that clients of today choose, each read into and written from the
//! same JSON value: Smithy RPC v2 CBOR, which the AWS SDK for Rust speaks, and AWS JSON 1.0, which
//! botocore and so the aws command speak.

mod cbor;
mod members;
#[cfg(test)]
mod tests;

pub(super) use members::Members;

use std::borrow::Cow;
use std::io::Read;

use axum::body::Body;
use flate2::read::GzDecoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

use super::error::{ApiError, Fault};
use crate::ids;
use crate::server::{IntoResponse, Response, set};

/// A request, in whatever protocol it came.
#[derive(Debug)]
pub(super) struct Call {
    /// Such as `GetMetricData`.
    pub(super) operation: String,
    /// Null of a request without a body.
    pub(super) input: Value,
}

/// How a request is written, and so its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Cbor,
    Json,
}

/// The largest request, before and after it is unpacked. `PutMetricData` takes 1 MB of them
/// (`CloudWatch` API: `PutMetricData`).
pub(super) const MAX_BODY: usize = 1 << 20;

impl Protocol {
    /// The protocol of a request, if it is one of these.
    pub(super) fn of(parts: &Parts) -> Option<Self> {
        if parts.headers.contains_key(SMITHY_PROTOCOL) {
            Some(Self::Cbor)
        } else {
            parts.headers.contains_key(TARGET).then_some(Self::Json)
        }
    }

    /// Reads a request.
    pub(super) fn read(self, parts: &Parts, body: &[u8]) -> Result<Call, ApiError> {
        let body = unpacked(parts, body)?;
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let operation = match self {
            Self::Cbor if header(SMITHY_PROTOCOL) != Some(RPC_V2_CBOR) => {
                let problem = format!("the only value of smithy-protocol is {RPC_V2_CBOR}");
                return Err(ApiError::new(Fault::UNKNOWN_OPERATION, problem));
            }
            Self::Cbor => parts.uri.path().strip_prefix(CBOR_PATH),
            Self::Json => header(TARGET).and_then(|target| target.strip_prefix(JSON_TARGET)),
        };
        let operation = operation.filter(|name| parts.method == Method::POST && !name.is_empty());
        let operation = operation.ok_or_else(|| {
            ApiError::new(Fault::UNKNOWN_OPERATION, "the request names no operation")
        })?;
        let input = match self {
            // An operation without input may have no body.
            _ if body.is_empty() => Value::Null,
            Self::Cbor => cbor::read(&body)?,
            Self::Json => serde_json::from_slice(&body)
                .map_err(|error| ApiError::unreadable(&format!("the body is not JSON: {error}")))?,
        };
        Ok(Call { operation: operation.to_owned(), input })
    }

    /// Writes an answer, without the members that are null.
    pub(super) fn answer(self, mut output: Value) -> Response {
        drop_nulls(&mut output);
        self.respond(StatusCode::OK, &output)
    }

    /// Writes an error.
    pub(super) fn error(self, ApiError { fault, message }: &ApiError) -> Response {
        let Fault(shape, code, status) = fault;
        let kind = format!("{NAMESPACE}#{shape}");
        let mut response = self.respond(*status, &json!({ "__type": kind, "message": message }));
        // Clients that know the error by its name of the query protocol find it here.
        set(&mut response, "x-amzn-query-error", &format!("{code};Sender"));
        response
    }

    fn respond(self, status: StatusCode, output: &Value) -> Response {
        let (content_type, body) = match self {
            Self::Cbor => ("application/cbor", cbor::write(output)),
            Self::Json => ("application/x-amz-json-1.0", output.to_string().into_bytes()),
        };
        let mut response = respond(status, content_type, body);
        if self == Self::Cbor {
            set(&mut response, SMITHY_PROTOCOL, RPC_V2_CBOR);
        }
        response
    }
}

/// The answer to a request in another protocol, which is most often AWS's query protocol: so it is in the XML of that.
pub(super) fn unknown_protocol() -> Response {
    const BODY: &str = "<ErrorResponse><Error><Type>Sender</Type><Code>UnknownProtocol</Code>\
        <Message>The local stack speaks rpc-v2-cbor and AWS JSON 1.0 alone, and not AWS's query protocol: \
        use a newer SDK or aws command, which choose these by themselves.</Message></Error></ErrorResponse>";
    respond(StatusCode::BAD_REQUEST, "text/xml", BODY)
}

const JSON_TARGET: &str = "GraniteServiceVersion20100801.";
const CBOR_PATH: &str = "/service/GraniteServiceVersion20100801/operation/";
const NAMESPACE: &str = "com.amazonaws.cloudwatch";
const RPC_V2_CBOR: &str = "rpc-v2-cbor";
const SMITHY_PROTOCOL: &str = "smithy-protocol";
const TARGET: &str = "x-amz-target";

fn respond(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = (status, [(CONTENT_TYPE, content_type)], body.into()).into_response();
    set(&mut response, "x-amzn-requestid", &ids::uuid());
    response
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// The body without its compression. One that unpacks to more than a request may be is refused
/// before it takes more memory than that.
fn unpacked<'a>(parts: &Parts, body: &'a [u8]) -> Result<Cow<'a, [u8]>, ApiError> {
    match parts.headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity") => return Ok(Cow::Borrowed(body)),
        Some(b"gzip") => {}
        Some(_) => return Err(ApiError::unreadable("the only encoding of a body is gzip")),
    }
    let mut unpacked = Vec::new();
    let limit = u64::try_from(MAX_BODY + 1).unwrap_or(u64::MAX);
    GzDecoder::new(body)
        .take(limit)
        .read_to_end(&mut unpacked)
        .map_err(|error| ApiError::unreadable(&format!("the body is not gzip: {error}")))?;
    if unpacked.len() > MAX_BODY {
        return Err(ApiError::too_large());
    }
    Ok(Cow::Owned(unpacked))
}
