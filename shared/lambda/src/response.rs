use std::collections::BTreeMap;

use serde::Serialize;

/// An HTTP answer in API Gateway's payload format 2.0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    status_code: u16,
    headers: BTreeMap<&'static str, String>,
    body: String,
    is_base64_encoded: bool,
}

/// The JSON that attributes are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Plain JSON.
    #[default]
    Plain,
    /// DynamoDB's own, with a type for each value.
    DynamoDb,
}

impl Response {
    /// An answer without a body.
    pub fn empty(status: u16) -> Self {
        let (headers, body) = (BTreeMap::new(), String::new());
        Self { status_code: status, headers, body, is_base64_encoded: false }
    }

    /// An answer with a JSON body.
    pub fn json(status: u16, body: &impl Serialize) -> Self {
        let Ok(body) = serde_json::to_string(body) else {
            // Only a map whose keys are no strings cannot be written, and no answer has one.
            return Self::empty(500);
        };
        let headers = BTreeMap::from([("content-type", "application/json".to_owned())]);
        Self { status_code: status, headers, body, is_base64_encoded: false }
    }

    /// The answer with a header set.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.insert(name, value.into());
        self
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.status_code
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The body.
    pub fn body(&self) -> &str {
        &self.body
    }
}
