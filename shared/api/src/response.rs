//! Answers.

use std::collections::BTreeMap;
use std::time::Duration;

use dynashard_core::{Code, Version};
use serde::Serialize;

/// An HTTP answer in API Gateway's payload format 2.0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    status_code: u16,
    headers: BTreeMap<&'static str, String>,
    body: String,
    is_base64_encoded: bool,
    #[serde(skip)]
    reasons: Vec<Code>,
}

/// The latest that a client is told to come back, in seconds. A growth comes into force three seconds after the decision, with
/// leases of two.
const LATEST_RETRY_SECS: u64 = 4;

impl Response {
    /// An answer without a body.
    pub fn empty(status: u16) -> Self {
        Self {
            status_code: status,
            headers: BTreeMap::new(),
            body: String::new(),
            is_base64_encoded: false,
            reasons: Vec::new(),
        }
    }

    /// An answer with a JSON body.
    pub fn json(status: u16, body: &impl Serialize) -> Self {
        let Ok(body) = serde_json::to_string(body) else {
            // JSON can write everything but maps whose keys are not strings, and no answer has one.
            return Self::empty(500);
        };
        let headers = BTreeMap::from([("content-type", "application/json".to_owned())]);
        Self { headers, body, ..Self::empty(status) }
    }

    /// The answer with the reasons why it, or a part of it, is a refusal.
    #[must_use]
    pub fn because_of(mut self, codes: impl IntoIterator<Item = Code>) -> Self {
        self.reasons.extend(codes);
        self
    }

    /// Why the answer, or a part of it, is a refusal: a reason for each part.
    pub fn reasons(&self) -> &[Code] {
        &self.reasons
    }

    /// Whether DynamoDB throttled what it answers, or a part of that.
    pub fn is_throttled(&self) -> bool {
        self.reasons.contains(&Code::Throttled)
    }

    /// The answer to `HEAD`: what is said of the answer to `GET`, and nothing of what that holds.
    #[must_use]
    pub fn without_body(mut self) -> Self {
        self.body.clear();
        self
    }

    /// The answer with a header set.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.insert(name, value.into());
        self
    }

    /// The answer with this version as the entity tag of the item that it is about.
    #[must_use]
    pub fn with_etag(self, version: Version) -> Self {
        self.with_header("etag", format!("\"{:016x}\"", version.get()))
    }

    /// The answer as one that caches of HTTP may give in its place while it is younger than `term`; by now it has this age (RFC 9111).
    /// One that is private goes to the caller alone. They mix up neither the formats of an item nor those who ask.
    #[must_use]
    pub fn cacheable(self, term: Duration, age: Duration, is_private: bool) -> Self {
        let private = if is_private { "private, " } else { "" };
        self.with_header("cache-control", format!("{private}max-age={}", term.as_secs()))
            .with_header("age", age.as_secs().to_string())
            .with_header("vary", "accept, authorization, origin")
    }

    /// The answer as one that holds for this moment only.
    #[must_use]
    pub fn uncacheable(self) -> Self {
        self.with_header("cache-control", "no-store")
    }

    /// The answer to a client that is to come back, at another time than others are.
    #[must_use]
    pub fn with_retry_after(self, draw: u64) -> Self {
        self.with_header("retry-after", (1 + draw % LATEST_RETRY_SECS).to_string())
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
