//! What functions answer, and what every answer has to be.

use std::collections::BTreeMap;
use std::time::Duration;

use dynashard_core::Deadline;
use dynashard_lambda::{Event, Handler, Patience};
use dynashard_testkit::block_on;
use serde_json::{Value, json};

use crate::Call;

/// The most that Lambda takes as the answer of a function.
pub const MAX_LAMBDA_PAYLOAD_BYTES: usize = 6 * 1_024 * 1_024;

/// What only the log may say. [`Answer::assert_problem`] looks for it.
pub const SECRET: &str = "arn:aws:dynamodb:eu-central-1:123456789012:table/secret-4711";

const REQUEST_TIME: Duration = Duration::from_secs(20);

/// What a function answered, as Lambda would pass it on.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u64,
    /// The headers, whose names are in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body as it is sent.
    pub text: String,
    /// The body as JSON; null where it is empty.
    pub body: Value,
    /// What the whole answer takes on its way through Lambda.
    pub payload_bytes: usize,
}

impl Answer {
    /// Answers a request.
    pub fn of(handler: &impl Handler, call: &Call) -> Self {
        Self::of_event(handler, &call.event())
    }

    /// Answers whatever came as the event.
    pub fn of_event(handler: &impl Handler, event: &str) -> Self {
        let deadline = Deadline::after(handler.now(), REQUEST_TIME);
        let patience = Patience::new(handler.now());
        let answered = dynashard_lambda::answer(
            handler,
            Event::parse(event),
            "request-1",
            deadline,
            &patience,
        );
        let response = block_on(answered);
        let payload = serde_json::to_string(&response).expect("an answer is JSON");
        let mut answer = serde_json::from_str::<Value>(&payload).expect("an answer is JSON");
        assert_eq!(answer["isBase64Encoded"], false, "all answers are text");
        let text = answer["body"].as_str().expect("a body, if an empty one").to_owned();
        let body = if text.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} in the body {text}"))
        };
        Self {
            status: answer["statusCode"].as_u64().expect("a status"),
            headers: serde_json::from_value(answer["headers"].take()).expect("headers"),
            text,
            body,
            payload_bytes: payload.len(),
        }
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The answer as the files under `expected` have it.
    pub fn golden(&self) -> Value {
        json!({ "statusCode": self.status, "headers": self.headers, "body": self.body })
    }

    /// Asserts that this is a problem of the contract's shape.
    #[track_caller]
    pub fn assert_problem(&self, status: u64, code: &str, what: &str) {
        assert_eq!(
            (self.status, self.body["code"].as_str()),
            (status, Some(code)),
            "{what}: {}",
            self.text
        );
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{what}");
        assert_eq!(self.body["type"], "about:blank", "{what}");
        assert_eq!(self.body["status"], status, "{what}");
        for member in ["title", "detail"] {
            let text = self.body[member].as_str();
            assert!(text.is_some_and(|text| !text.is_empty()), "{what} has no {member}");
        }
        assert!(!self.text.contains(SECRET), "{what} told a secret: {}", self.text);
        let may_be_sent_again = matches!(status, 429 | 503);
        assert_eq!(self.header("retry-after").is_some(), may_be_sent_again, "{what}");
    }
}
