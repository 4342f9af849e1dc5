use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

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
        let Object(event) = serde_json::from_str::<Object<HttpEvent>>(event).map_err(|e| {
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
            method: event.request_context.0.http.0.method.to_ascii_uppercase(),
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
    request_context: Object<RequestContext>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

#[derive(Deserialize)]
struct RequestContext {
    http: Object<HttpDescription>,
}

#[derive(Deserialize)]
struct HttpDescription {
    method: String,
}

/// A struct that is read from a JSON object alone. What serde derives also takes an array of the
/// fields' values, and would carry out a request that nobody wrote.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_an_array_of_fields_was_carried_out_as_a_request() {
        for event in [
            r#"["/item","pk=a&sk=b",{},{"http":{"method":"DELETE"}},null,false]"#,
            r#"{"rawPath":"/item","requestContext":[{"method":"DELETE"}]}"#,
            r#"{"rawPath":"/item","requestContext":{"http":["DELETE"]}}"#,
        ] {
            let refused = Request::from_event(event).map_err(|problem| problem.code());
            assert_eq!(refused, Err("bad_event"), "{event}");
        }
        let event = r#"{"rawPath":"/item","requestContext":{"http":{"method":"delete"}}}"#;
        let request = Request::from_event(event).expect("all that is needed");
        assert_eq!((request.method.as_str(), request.path.as_str()), ("DELETE", "/item"));
    }
}
