//! Requests as the events that API Gateway makes of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A request, to be sent as the event that API Gateway would make of it.
#[derive(Debug, Clone)]
pub struct Call {
    method: String,
    path: String,
    query: String,
    headers: BTreeMap<String, String>,
    body: Option<String>,
    is_base64: bool,
    authorizer: Option<Value>,
}

impl Call {
    /// A request line without its version: `PUT /item?pk=EWR&sk=1`.
    pub fn new(line: &str) -> Self {
        let (method, target) = line.split_once(' ').expect("a method and a target");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: BTreeMap::new(),
            body: None,
            is_base64: false,
            authorizer: None,
        }
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// From a caller whose token has this claim.
    #[must_use]
    pub fn with_claim(mut self, name: &str, value: &str) -> Self {
        self.authorizer = Some(json!({ "jwt": { "claims": { name: value }, "scopes": null } }));
        self
    }

    /// With a body that API Gateway takes for text, and no media type unless one is set.
    #[must_use]
    pub fn body(mut self, body: impl Into<String>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// With a body of `application/json`.
    #[must_use]
    pub fn json(self, body: impl Into<String>) -> Self {
        self.header("content-type", "application/json").body(body)
    }

    /// With a body in base64, as API Gateway sends what may not be text.
    #[must_use]
    pub fn base64(mut self, body: &str) -> Self {
        self.is_base64 = true;
        self.body(body)
    }

    /// The event that API Gateway would make of it.
    pub(crate) fn event(&self) -> String {
        let route = format!("{} {}", self.method, self.path);
        let mut event = json!({
            "version": "2.0",
            "routeKey": route,
            "rawPath": self.path,
            "rawQueryString": self.query,
            "headers": self.headers,
            "requestContext": {
                "accountId": "123456789012",
                "apiId": "a1b2c3d4e5",
                "http": {
                    "method": self.method,
                    "path": self.path,
                    "protocol": "HTTP/1.1",
                    "sourceIp": "203.0.113.7",
                    "userAgent": "curl/8.5.0",
                },
                "routeKey": route,
                "stage": "$default",
            },
            "isBase64Encoded": self.is_base64,
        });
        if let Some(authorizer) = &self.authorizer {
            event["requestContext"]["authorizer"] = authorizer.clone();
        }
        if let Some(body) = &self.body {
            event["body"] = json!(body);
        }
        event.to_string()
    }
}
