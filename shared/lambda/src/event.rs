use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::Problem;
use crate::params::Params;

/// An HTTP request, as API Gateway's payload format 2.0 carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method, in capitals.
    pub method: String,
    /// The path, decoded by the gateway.
    pub path: String,
    /// The query string as it was sent.
    pub raw_query: String,
    /// The headers, by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// Reads an event. One that is no HTTP request of payload format 2.0 is a 400.
    pub fn from_event(event: &str) -> Result<Self, Problem> {
        let event = serde_json::from_str::<HttpEvent>(event).map_err(|e| {
            Problem::bad_event(format!(
                "the event is no API Gateway request in payload format 2.0: {e}"
            ))
        })?;
        let body = event.body.unwrap_or_default();
        let body = if event.is_base64_encoded {
            STANDARD
                .decode(body)
                .map_err(|_| Problem::bad_event("the event's body is no base64".to_owned()))?
        } else {
            body.into_bytes()
        };
        Ok(Self {
            method: event.request_context.http.method.to_ascii_uppercase(),
            path: event.raw_path,
            raw_query: event.raw_query_string,
            headers: event
                .headers
                .into_iter()
                .map(|(name, value)| (name.to_ascii_lowercase(), value))
                .collect(),
            body,
        })
    }

    /// The query parameters.
    pub fn params(&self) -> Result<Params, Problem> {
        Params::from_query_string(&self.raw_query)
    }

    /// A header's value, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// The fields of a payload 2.0 event that are used here. `aws_lambda_events` has the whole type,
/// but takes a missing method for GET.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HttpEvent {
    raw_path: String,
    #[serde(default)]
    raw_query_string: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    request_context: RequestContext,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

#[derive(Deserialize)]
struct RequestContext {
    http: HttpDescription,
}

#[derive(Deserialize)]
struct HttpDescription {
    method: String,
}
