//! Events, as Lambda hands them over.

use std::fmt;

use aws_lambda_events::apigw::ApiGatewayV2httpRequest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dynashard_api::problem::Problem;
use dynashard_api::request::Request;
use serde::Deserialize;
use serde_json::Value;

use crate::Admission;

/// What Lambda invokes a function with. Each function acts on some kinds and refuses the others.
#[derive(Debug)]
pub enum Event {
    /// A request of the API. So is what is not an object at all: its sender may wait for an answer.
    Request(HttpEvent),
    /// A schedule.
    Schedule,
    /// Records of a stream, or of another source that sends records.
    Stream(Value),
    /// Any other object: an alarm's change of state, if it is anything.
    Alarm(Value),
}

impl Event {
    /// Reads the text of an event, the only time that it is read.
    pub fn parse(event: &str) -> Self {
        let event = serde_json::from_str::<Value>(event);
        match event {
            Ok(event) if event.is_object() && event.get("requestContext").is_none() => {
                if event.get("Records").is_some() {
                    Self::Stream(event)
                } else if event.get("source").and_then(Value::as_str) == Some("aws.events") {
                    Self::Schedule
                } else {
                    Self::Alarm(event)
                }
            }
            event => Self::Request(HttpEvent(event.map_err(|error| error.to_string()))),
        }
    }

    /// The request that an event is. Any other event is one that its sender takes for a request: a 400.
    pub(crate) fn into_request(self, admission: &Admission) -> Result<Request, Problem> {
        match self {
            Self::Request(event) => event.into_request(admission),
            Self::Schedule | Self::Stream(_) | Self::Alarm(_) => Err(no_context()),
        }
    }

    /// The id by which API Gateway's access log knows the request, if the event has one.
    pub(crate) fn api_request_id(&self) -> Option<String> {
        let Self::Request(HttpEvent(Ok(event))) = self else { return None };
        event.pointer("/requestContext/requestId").and_then(Value::as_str).map(str::to_owned)
    }
}

/// An event with the context of a request, or why the text is not JSON.
#[derive(Debug)]
pub struct HttpEvent(Result<Value, String>);

impl HttpEvent {
    /// One that is not an HTTP request in payload format 2.0 is a 400, and one that the stack does not
    /// admit is a 403 or a 413.
    fn into_request(self, admission: &Admission) -> Result<Request, Problem> {
        let mut event = self.0.map_err(|e| malformed(&e))?;
        check_shape(&event)?;
        let granted =
            admission.grants.of_authorizer(event.pointer("/requestContext/authorizer"))?;
        // The library's type of a claim is a text, and nobody reads more of it.
        event["requestContext"]["authorizer"].take();
        let event = ApiGatewayV2httpRequest::deserialize(event).map_err(|e| malformed(&e))?;
        let body = event.body.unwrap_or_default();
        let body = if event.is_base64_encoded {
            STANDARD
                .decode(body)
                .map_err(|_| Problem::bad_event("the event's body is not base64".to_owned()))?
        } else {
            body.into_bytes()
        };
        if body.len() > admission.max_body_bytes {
            return Err(Problem::body_too_large(body.len(), admission.max_body_bytes));
        }
        // A header's value may hold more than ASCII, and does so as UTF-8: it came in JSON.
        let headers = event.headers.iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let raw_path = event.raw_path.ok_or_else(|| malformed(&"rawPath is missing"))?;
        Ok(Request {
            method: event.request_context.http.method.as_str().to_ascii_uppercase(),
            path: event
                .route_key
                .as_deref()
                .and_then(path_of_route)
                .map_or(raw_path, str::to_owned),
            raw_query: event.raw_query_string.unwrap_or_default(),
            headers: headers.collect(),
            body,
            granted,
        })
    }
}

/// The path that a route key such as `GET /item` names. In front of it the path of the request may have the name of a stage,
/// or the key by which a custom domain knows the API. The keys of routes that take any path (`$default`, `ANY /{proxy+}`) name
/// none.
fn path_of_route(route_key: &str) -> Option<&str> {
    let (_, path) = route_key.split_once(' ')?;
    (!path.contains('{')).then_some(path)
}

/// Refuses what [`ApiGatewayV2httpRequest`] would take for a request that nobody wrote: it reads an
/// array as the values of an object's fields, and a header with several values.
fn check_shape(event: &Value) -> Result<(), Problem> {
    for (pointer, name) in [
        ("", "the event"),
        ("/requestContext", "requestContext"),
        ("/requestContext/http", "requestContext.http"),
    ] {
        if !event.pointer(pointer).is_some_and(Value::is_object) {
            return Err(malformed(&format!("{name} is not an object")));
        }
    }
    let headers = event.get("headers").and_then(Value::as_object);
    match headers.into_iter().flatten().find(|(_, value)| !value.is_string()) {
        None => Ok(()),
        Some((name, _)) => Err(malformed(&format!("the header {name:?} is not a string"))),
    }
}

fn no_context() -> Problem {
    malformed(&"requestContext is not an object")
}

fn malformed(why: &dyn fmt::Display) -> Problem {
    Problem::bad_event(format!(
        "the event is not an API Gateway request in payload format 2.0: {why}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(event: &str, admission: &Admission) -> Result<Request, Problem> {
        Event::parse(event).into_request(admission)
    }

    #[test]
    fn each_kind_of_event_is_told_by_its_shape() {
        let kind = |event: &str| match Event::parse(event) {
            Event::Request(_) => "request",
            Event::Schedule => "schedule",
            Event::Stream(_) => "stream",
            Event::Alarm(_) => "alarm",
        };
        for (event, expected) in [
            (r#"{"requestContext":{}}"#, "request"),
            (r#"{"requestContext":null,"source":"aws.events","Records":[]}"#, "request"),
            ("", "request"),
            ("[]", "request"),
            (r#"{"source":"aws.events"}"#, "schedule"),
            (r#"{"Records":7}"#, "stream"),
            (r#"{"source":"aws.cloudwatch","detail":{}}"#, "alarm"),
            ("{}", "alarm"),
        ] {
            assert_eq!(kind(event), expected, "{event}");
        }
    }

    #[test]
    fn regression_an_array_of_fields_was_carried_out_as_a_request() {
        for event in [
            r#"["/item","pk=a&sk=b",{},{"http":{"method":"DELETE"}},null,false]"#,
            r#"{"rawPath":"/item","requestContext":[{"method":"DELETE"}]}"#,
            r#"{"rawPath":"/item","requestContext":{"http":["DELETE"]}}"#,
        ] {
            let refused = request(event, &Admission::default()).map_err(|problem| problem.code());
            assert_eq!(refused, Err("bad_event"), "{event}");
        }
        let event = r#"{"rawPath":"/item","requestContext":{"http":{"method":"delete"}}}"#;
        let request = request(event, &Admission::default()).expect("all that is needed");
        assert_eq!((request.method.as_str(), request.path.as_str()), ("DELETE", "/item"));
    }

    /// Behind a stage with a name, or a custom domain that knows the API by a key, every request was 404.
    #[test]
    fn regression_a_request_behind_another_path_had_no_route() {
        let path = |route_key: &str, raw_path: &str| {
            let event = format!(
                r#"{{"routeKey":{route_key},"rawPath":"{raw_path}","requestContext":{{"http":{{"method":"GET"}}}}}}"#
            );
            request(&event, &Admission::default()).expect("a request").path
        };
        for (route_key, raw_path) in [
            (r#""GET /query""#, "/prod/query"),
            (r#""GET /query""#, "/v1/flights/query"),
            (r#""GET /query""#, "/query/"),
            (r#""ANY /query""#, "/prod/query"),
            (r#""$default""#, "/query"),
            (r#""ANY /{proxy+}""#, "/query"),
            ("null", "/query"),
        ] {
            assert_eq!(path(route_key, raw_path), "/query", "{route_key} by {raw_path}");
        }
    }

    /// Were the header dropped, a write under a precondition would be carried out without it.
    #[test]
    fn a_header_keeps_what_is_not_ascii() {
        let event = r#"{"rawPath":"/item","headers":{"If-Match":"\"é\""},
                        "requestContext":{"http":{"method":"PUT"}}}"#;
        let request = request(event, &Admission::default()).expect("a request");
        assert_eq!(request.header("if-match"), Some("\"é\""));
    }
}
