//! Errors as clients see them.

use dynashard_core::{Code, Error, Kind, Version};
use dynashard_keys::KeyError;
use serde::Serialize;

use crate::response::Response;

/// The longest detail of a problem. It may quote the request, which may be as large as an answer, and
/// escapes make it larger.
const MAX_DETAIL_BYTES: usize = 1_000;

/// For what somebody has to put right first: from so many seconds on, within so many.
const OPERATORS_RETRY_SECS: (u64, u64) = (30, 30);

/// A status, and a stable code that has it.
type StatusAndCode = (u16, &'static str);

const BAD_EVENT: StatusAndCode = (400, "bad_event");
const BAD_BODY: StatusAndCode = (400, "bad_body");
const BAD_HEADER: StatusAndCode = (400, "bad_header");
const KEY_NOT_GRANTED: StatusAndCode = (403, "key_not_granted");
const ROUTE_NOT_FOUND: StatusAndCode = (404, "route_not_found");
const BODY_TOO_LARGE: StatusAndCode = (413, "body_too_large");
const UNSUPPORTED_MEDIA_TYPE: StatusAndCode = (415, "unsupported_media_type");

/// The codes that are only an edge's, with what each means and what a caller does. All others are those of [`Code`].
const EDGE_CODES: [(StatusAndCode, &str, &str); 7] = [
    (BAD_EVENT, "The event of a direct invocation is not a request.", "correct the event"),
    (
        BAD_BODY,
        "The body is not JSON of this form, or holds a value that DynamoDB cannot hold, such as a number of 39 digits.",
        "correct the body: `detail` says what is wrong with it",
    ),
    (BAD_HEADER, "A header that the API reads is malformed.", "correct the header"),
    (
        KEY_NOT_GRANTED,
        "No rule of [`KeyGrants`](#who-may-touch-which-keys) grants the caller this partition key, or the request came \
         around the API.",
        "ask the operator. Nothing was read or written",
    ),
    (
        ROUTE_NOT_FOUND,
        "No function answers this method and path.",
        "correct the method or the path",
    ),
    (
        BODY_TOO_LARGE,
        "The body is larger than the stack's `MaxBodyBytes`, which `detail` names.",
        "send a smaller body, or fewer operations in a batch",
    ),
    (
        UNSUPPORTED_MEDIA_TYPE,
        "The body has another media type than the route takes.",
        "send the `Content-Type` that `detail` names",
    ),
];

/// A code of the API, for the pages.
#[derive(Debug)]
pub struct Explained {
    /// The HTTP status.
    pub status: u16,
    /// The stable code.
    pub code: &'static str,
    /// When it is answered.
    pub meaning: &'static str,
    /// What a caller does, in Markdown.
    pub remedy: &'static str,
}

/// An error as clients see it: `application/problem+json` (RFC 9457) with a stable code.
///
/// The problem `outcome_unknown` of a PUT or PATCH has an `ETag` header: the entity tag that the item
/// has if the write takes effect, so that the client can look for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    status: u16,
    code: &'static str,
    detail: String,
    /// What only the log may say.
    internal: Option<String>,
    /// The shards that could not be read.
    shards: Vec<u32>,
    /// The version that the item has if a write of unknown outcome takes effect.
    version: Option<Version>,
    /// Whether no cache is to give it to another request.
    is_uncacheable: bool,
    /// Why, if it was the core that refused, and what that hides.
    reasons: [Option<Code>; 2],
}

impl Problem {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Every status and code that a function answers with.
    pub fn all() -> impl Iterator<Item = Explained> {
        let of_core = Code::ALL.iter().map(|code| Explained {
            status: status_of(*code),
            code: code.as_str(),
            meaning: code.meaning(),
            remedy: code.remedy(),
        });
        let of_edge = EDGE_CODES.iter().map(|((status, code), meaning, remedy)| Explained {
            status: *status,
            code,
            meaning,
            remedy,
        });
        of_core.chain(of_edge)
    }

    /// What happened, for the log: for internal problems the whole truth.
    pub fn log_detail(&self) -> &str {
        self.internal.as_deref().unwrap_or(&self.detail)
    }

    /// What came is not a request.
    pub fn bad_event(detail: String) -> Self {
        Self::of(BAD_EVENT, detail)
    }

    pub(crate) fn bad_body(detail: String) -> Self {
        Self::of(BAD_BODY, detail)
    }

    /// A header that is not understood, or that does not belong to the request.
    pub fn bad_header(detail: String) -> Self {
        Self::of(BAD_HEADER, detail)
    }

    pub(crate) fn bad_parameter(detail: String) -> Self {
        Self::of((400, Code::BadParameter.as_str()), detail)
    }

    pub(crate) fn missing_parameter(name: &str) -> Self {
        Self::bad_parameter(format!("the parameter {name} is missing"))
    }

    pub(crate) fn unsupported_media_type(got: &str, takes: &str) -> Self {
        let detail = format!("the body's media type is {got:?}; send Content-Type: {takes}");
        Self::of(UNSUPPORTED_MEDIA_TYPE, detail)
    }

    pub(crate) fn key_not_granted(detail: String) -> Self {
        Self::of(KEY_NOT_GRANTED, detail)
    }

    /// The body is larger than the stack admits.
    pub fn body_too_large(bytes: usize, max_bytes: usize) -> Self {
        let detail = format!("the body has {bytes} bytes; send at most {max_bytes} (MaxBodyBytes)");
        Self::of(BODY_TOO_LARGE, detail)
    }

    /// No function answers this method and path.
    pub fn no_route(method: &str, path: &str) -> Self {
        Self::of(ROUTE_NOT_FOUND, format!("this API has no {method} {path}"))
    }

    /// The problem as that of one operation of a batch: where it stands in the body, and the key that it names.
    #[must_use]
    pub(crate) fn of_operation(self, place: &str, pk: &str, sk: &str) -> Self {
        // A key may be longer than the detail, so it comes last.
        let detail = format!("{place}: {} (pk={pk:?} sk={sk:?})", self.detail);
        Self { detail: cut(detail), ..self }
    }

    fn of((status, code): StatusAndCode, detail: String) -> Self {
        Self {
            status,
            code,
            detail: cut(detail),
            internal: None,
            shards: Vec::new(),
            version: None,
            is_uncacheable: false,
            reasons: [None; 2],
        }
    }
}

/// The text in a length for a detail.
fn cut(mut detail: String) -> String {
    if detail.len() > MAX_DETAIL_BYTES {
        detail.truncate(detail.floor_char_boundary(MAX_DETAIL_BYTES));
        detail.push('…');
    }
    detail
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (status, code) = (status_of(error.code()), error.code().as_str());
        let (detail, internal) = match error.kind() {
            Kind::Data | Kind::Internal => (
                "an internal error occurred; give the request_id to the operator, whose log says why",
                true,
            ),
            Kind::Unavailable if error.code() == Code::SettingsMismatch => (error.message(), false),
            // What DynamoDB and the network said is for the log.
            Kind::Unavailable => (unavailable(&error), true),
            Kind::OutcomeUnknown => (
                "the request may have been executed, or may still be; read the item or the collection before you \
                 send it again, or send the write of an item with If-Match or If-None-Match",
                true,
            ),
            _ => (error.message(), false),
        };
        let of_shards = |text: &str| match error.shard_list() {
            Some(shards) => format!("{text} ({shards})"),
            None => text.to_owned(),
        };
        Self {
            internal: internal.then(|| of_shards(error.message())),
            shards: error.shards().iter().map(|shard| shard.get()).collect(),
            version: error.version(),
            reasons: [Some(error.code()), error.cause()],
            ..Self::of((status, code), of_shards(detail))
        }
    }
}

fn status_of(code: Code) -> u16 {
    match (code.kind(), code) {
        (_, Code::ItemTooLarge) => 413,
        (_, Code::PreconditionFailed) => 412,
        (_, Code::CursorExpired) => 410,
        (Kind::Invalid, _) => 400,
        (Kind::NotFound, _) => 404,
        (Kind::Conflict, _) => 409,
        (Kind::Throttled, _) => 429,
        (Kind::Unavailable, _) => 503,
        (Kind::OutcomeUnknown, _) => 504,
        (Kind::Data | Kind::Internal, _) => 500,
    }
}

/// A text that is true of reads and of writes.
fn unavailable(error: &Error) -> &'static str {
    match error.code() {
        Code::DeadlineExceeded => "the request ran out of time; send it again",
        Code::MetadataBehind => {
            "the items have a later generation than their collection's metadata; the operator has to \
             check whether the metadata table was restored or deleted"
        }
        _ if error.is_fault() => {
            "DynamoDB cannot be reached, or answers with a fault; send the request again"
        }
        _ => "DynamoDB did not answer in time; send the request again",
    }
}

impl From<KeyError> for Problem {
    fn from(error: KeyError) -> Self {
        Error::from(error).into()
    }
}

impl Problem {
    /// This problem as one that holds for this moment only: caches of HTTP may keep a 404 that says nothing of that (RFC 9111, 4.2.2).
    #[must_use]
    pub fn uncacheable(self) -> Self {
        Self { is_uncacheable: true, ..self }
    }

    /// The answer that says so, to the request of this id, by which the logs know it. `draw` is uniformly
    /// random: by it each client is told another time to come back, so that those who were refused together do
    /// not return together.
    pub fn respond(self, request_id: &str, draw: u64) -> Response {
        #[derive(Serialize)]
        struct Body<'a> {
            r#type: &'static str,
            title: &'a str,
            status: u16,
            code: &'a str,
            detail: &'a str,
            request_id: &'a str,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            shards: &'a [u32],
        }
        let title = http::StatusCode::from_u16(self.status)
            .ok()
            .and_then(|status| status.canonical_reason())
            .unwrap_or("Error");
        let body = Body {
            r#type: "about:blank",
            title,
            status: self.status,
            code: self.code,
            detail: &self.detail,
            request_id,
            shards: &self.shards,
        };
        let mut response = Response::json(self.status, &body)
            .with_header("content-type", "application/problem+json")
            .because_of(self.reasons.into_iter().flatten());
        if self.is_uncacheable {
            response = response.uncacheable();
        }
        if matches!(self.status, 429 | 503) {
            response = if self.code == Code::SettingsMismatch.as_str() {
                let (from, within) = OPERATORS_RETRY_SECS;
                response.with_header("retry-after", (from + draw % within).to_string())
            } else {
                response.with_retry_after(draw)
            };
        }
        if let Some(version) = self.version {
            response = response.with_etag(version);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_a_status_and_internals_stay_inside() {
        for code in Code::ALL {
            let response = Problem::from(Error::new(*code, "secret-4711")).respond("request-1", 0);
            assert!((400..=504).contains(&response.status()), "{code:?}");
            let hidden = *code != Code::SettingsMismatch
                && matches!(
                    code.kind(),
                    Kind::Data | Kind::Internal | Kind::Unavailable | Kind::OutcomeUnknown
                );
            assert_eq!(!response.body().contains("secret-4711"), hidden, "{code:?}");
            assert!(response.body().contains(code.as_str()), "{code:?}");
        }
    }

    #[test]
    fn those_who_are_refused_together_do_not_return_together() {
        let told = |draw| {
            let response =
                Problem::from(Error::new(Code::Throttled, "")).respond("request-1", draw);
            response.header("retry-after").expect("a time").to_owned()
        };
        let told = (0..100).map(told).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(told.into_iter().collect::<Vec<_>>(), ["1", "2", "3", "4"]);
    }

    #[test]
    fn retry_after_comes_with_what_may_be_repeated_and_never_with_an_unknown_outcome() {
        let retry_after = |code| {
            let response = Problem::from(Error::new(code, "")).respond("request-1", 0);
            (response.status(), response.header("retry-after").is_some())
        };
        assert_eq!(retry_after(Code::Throttled), (429, true));
        assert_eq!(retry_after(Code::Unavailable), (503, true));
        assert_eq!(retry_after(Code::OutcomeUnknown), (504, false));
        assert_eq!(retry_after(Code::Internal), (500, false));
    }

    #[test]
    fn regression_readers_were_told_that_nothing_was_written() {
        let unavailable = Code::ALL.iter().filter(|code| code.kind() == Kind::Unavailable);
        for code in unavailable {
            let response = Problem::from(Error::new(*code, "")).respond("request-1", 0);
            assert!(!response.body().contains("written"), "{}", response.body());
            let helps = ![Code::MetadataBehind, Code::SettingsMismatch].contains(code);
            assert_eq!(response.body().contains("again"), helps, "{}", response.body());
        }
    }

    #[test]
    fn regression_a_problem_repeated_megabytes_of_the_request() {
        let long = "é".repeat(2_000_000);
        let detail = Problem::bad_parameter(format!("x{long}")).log_detail().to_owned();
        assert_eq!(detail, format!("x{}…", "é".repeat(499)), "whole characters only");
        let exact = "x".repeat(MAX_DETAIL_BYTES);
        assert_eq!(Problem::bad_parameter(exact.clone()).log_detail(), exact);
    }
}
