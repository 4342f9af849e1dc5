//! The three protocols that `CloudWatch` speaks, each read into and written from one [`Document`]:
//! Smithy RPC v2 CBOR, AWS JSON 1.0, and the AWS query protocol with its answers in XML. Clients
//! choose among them by their version.

mod cbor;
mod document;
mod json;
mod query;
#[cfg(test)]
mod tests;
mod xml;

pub(super) use document::{Call, Document, Members, structure};

use super::error::{ApiError, Fault};
use crate::ids;
use crate::server::Response;
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::Full;
use std::borrow::Cow;
use std::io::Read;

/// How a request is written, and so its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Cbor,
    Json,
    Query,
}

/// The largest request, before and after it is unpacked. `PutMetricData` takes 1 MB of them
/// (`CloudWatch` API: `PutMetricData`).
pub(super) const MAX_BODY: usize = 1 << 20;

impl Protocol {
    /// The protocol of a request; the query protocol is what has no mark of its own.
    pub(super) fn of(parts: &Parts) -> Self {
        if parts.headers.contains_key(SMITHY_PROTOCOL) {
            Self::Cbor
        } else if parts.headers.contains_key(TARGET) {
            Self::Json
        } else {
            Self::Query
        }
    }

    /// Reads a request.
    pub(super) fn read(self, parts: &Parts, body: &[u8]) -> Result<Call, ApiError> {
        let body = unpacked(parts, body)?;
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        match self {
            Self::Cbor => {
                if header(SMITHY_PROTOCOL) != Some(RPC_V2_CBOR) {
                    let problem = format!("the only value of smithy-protocol is {RPC_V2_CBOR}");
                    return Err(ApiError::new(Fault::UnknownOperation, problem));
                }
                let operation = parts
                    .uri
                    .path()
                    .strip_prefix(CBOR_PATH)
                    .filter(|operation| parts.method == Method::POST && !operation.is_empty());
                let operation = operation.ok_or_else(ApiError::no_operation)?.to_owned();
                Ok(Call { operation, input: cbor::read(&body)? })
            }
            Self::Json => {
                let target = header(TARGET).and_then(|target| target.split_once('.'));
                let operation = target.filter(|(service, _)| *service == SERVICE);
                let (_, operation) = operation.ok_or_else(ApiError::no_operation)?;
                Ok(Call { operation: operation.to_owned(), input: json::read(&body)? })
            }
            Self::Query => match parts.method {
                Method::GET => query::read(parts.uri.query().unwrap_or_default().as_bytes()),
                _ => query::read(&body),
            },
        }
    }

    /// Writes an answer to `operation`.
    pub(super) fn answer(self, operation: &str, output: &Document) -> Response {
        let id = ids::uuid();
        let body = match self {
            Self::Cbor => cbor::write(output),
            Self::Json => json::write(output),
            Self::Query => xml::answer(operation, output, &id),
        };
        self.respond(StatusCode::OK, body, &id)
    }

    /// Writes an error.
    pub(super) fn error(self, error: &ApiError) -> Response {
        let id = ids::uuid();
        if self == Self::Query {
            return self.respond(error.fault.status(), xml::error(error, &id), &id);
        }
        let output = structure([
            ("__type", Document::from(format!("{NAMESPACE}#{}", error.fault.shape()))),
            ("message", Document::from(error.message.as_str())),
        ]);
        let body = if self == Self::Cbor { cbor::write(&output) } else { json::write(&output) };
        let mut response = self.respond(error.fault.status(), body, &id);
        // Clients that know the error by its name of the query protocol find it here.
        let sender = if error.fault.status().is_server_error() { "Receiver" } else { "Sender" };
        let name = HeaderValue::from_str(&format!("{};{sender}", error.fault.code()));
        if let Ok(name) = name {
            response.headers_mut().insert(QUERY_ERROR, name);
        }
        response
    }

    fn respond(self, status: StatusCode, body: Vec<u8>, id: &str) -> Response {
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        let content_type = match self {
            Self::Cbor => "application/cbor",
            Self::Json => "application/x-amz-json-1.0",
            Self::Query => "text/xml",
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if self == Self::Cbor {
            headers.insert(SMITHY_PROTOCOL, HeaderValue::from_static(RPC_V2_CBOR));
        }
        if let Ok(id) = HeaderValue::from_str(id) {
            headers.insert(REQUEST_ID, id);
        }
        response
    }
}

const SERVICE: &str = "GraniteServiceVersion20100801";
const CBOR_PATH: &str = "/service/GraniteServiceVersion20100801/operation/";
const NAMESPACE: &str = "com.amazonaws.cloudwatch";
const RPC_V2_CBOR: &str = "rpc-v2-cbor";
const SMITHY_PROTOCOL: HeaderName = HeaderName::from_static("smithy-protocol");
const TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const QUERY_ERROR: HeaderName = HeaderName::from_static("x-amzn-query-error");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");

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
