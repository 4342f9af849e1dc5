//! Content negotiation, entity tags and preconditions.

use dynashard_core::{Precondition, Version};

use crate::{Format, Problem, Request};

/// The media type of DynamoDB's own JSON.
pub const DYNAMODB_JSON: &str = "application/x-amz-json-1.0";

/// The format of the body, from `Content-Type`. None at all is JSON, as curl users expect of an API
/// that speaks nothing else.
pub fn body_format(request: &Request) -> Result<Format, Problem> {
    match media_type(request.header("content-type").unwrap_or("application/json")).as_str() {
        "application/json" => Ok(Format::Plain),
        DYNAMODB_JSON => Ok(Format::DynamoDb),
        other => Err(Problem::unsupported_media_type(other, "application/json")),
    }
}

/// Checks that the body is plain JSON: its keys and counts have no other form.
pub fn expect_json(request: &Request) -> Result<(), Problem> {
    match body_format(request)? {
        Format::Plain => Ok(()),
        Format::DynamoDb => Err(Problem::unsupported_media_type(DYNAMODB_JSON, "application/json")),
    }
}

/// The media type of an item in this format.
pub fn media_type_of(format: Format) -> &'static str {
    match format {
        Format::Plain => "application/json",
        Format::DynamoDb => DYNAMODB_JSON,
    }
}

/// Checks that the body is a merge patch.
pub fn expect_merge_patch(request: &Request) -> Result<(), Problem> {
    match media_type(request.header("content-type").unwrap_or("application/json")).as_str() {
        "application/json" | "application/merge-patch+json" => Ok(()),
        other => Err(Problem::unsupported_media_type(other, "application/merge-patch+json")),
    }
}

/// The format that the client asks for in `Accept`: plain JSON unless it names DynamoDB's.
pub fn answer_format(request: &Request) -> Format {
    let accepted = request.header("accept").unwrap_or_default();
    if accepted.split(',').any(|accepted| media_type(accepted) == DYNAMODB_JSON) {
        Format::DynamoDb
    } else {
        Format::Plain
    }
}

/// What `If-Match` and `If-None-Match` ask for.
pub fn precondition(request: &Request) -> Result<Precondition, Problem> {
    match (request.header("if-match"), request.header("if-none-match")) {
        (None, None) => Ok(Precondition::None),
        (Some("*"), None) => Ok(Precondition::Exists),
        (Some(etag), None) => parse_etag(etag).map(Precondition::Version),
        (None, Some("*")) => Ok(Precondition::Absent),
        (None, Some(_)) => Err(Problem::bad_header("If-None-Match takes only *".to_owned())),
        (Some(_), Some(_)) => {
            Err(Problem::bad_header("If-Match and If-None-Match do not go together".to_owned()))
        }
    }
}

/// As [`precondition`], where only `If-Match` makes sense.
pub fn if_match(request: &Request) -> Result<Precondition, Problem> {
    match precondition(request)? {
        Precondition::Absent => Err(Problem::bad_header(
            "If-None-Match is for PUT; this method takes If-Match".to_owned(),
        )),
        precondition => Ok(precondition),
    }
}

/// The entity tag of a version.
pub fn etag(version: Version) -> String {
    format!("\"{:016x}\"", version.get())
}

fn parse_etag(text: &str) -> Result<Version, Problem> {
    let bad =
        || Problem::bad_header(format!("If-Match takes * or one ETag of this API, not {text}"));
    let digits = text
        .trim()
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .filter(|digits| digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
        .ok_or_else(bad)?;
    u64::from_str_radix(digits, 16).map(Version::new).map_err(|_| bad())
}

/// A media type without its parameters, in lower case.
fn media_type(header: &str) -> String {
    header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request {
        Request {
            method: "PUT".to_owned(),
            path: "/item".to_owned(),
            raw_query: String::new(),
            headers: headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
            body: Vec::new(),
        }
    }

    #[test]
    fn an_etag_reads_back() {
        for number in [0, 1, u64::MAX] {
            let version = Version::new(number);
            let etag = etag(version);
            let asked = precondition(&request(&[("if-match", &etag)]));
            assert_eq!(asked.ok(), Some(Precondition::Version(version)));
        }
    }

    #[test]
    fn other_tags_are_refused() {
        for tag in [
            "",
            "abc",
            "\"abc\"",
            "W/\"0000000000000001\"",
            "\"0000000000000001\", \"0000000000000002\"",
            "\"000000000000000g\"",
            "\"+000000000000001\"",
        ] {
            assert!(precondition(&request(&[("if-match", tag)])).is_err(), "{tag}");
        }
        assert!(precondition(&request(&[("if-none-match", "\"0000000000000001\"")])).is_err());
        assert!(precondition(&request(&[("if-match", "*"), ("if-none-match", "*")])).is_err());
        assert!(if_match(&request(&[("if-none-match", "*")])).is_err());
    }

    #[test]
    fn media_types_are_negotiated() {
        let of = |value| body_format(&request(&[("content-type", value)])).ok();
        assert_eq!(of("application/json; charset=utf-8"), Some(Format::Plain));
        assert_eq!(of("Application/X-AMZ-JSON-1.0"), Some(Format::DynamoDb));
        assert_eq!(of("text/plain"), None);
        assert_eq!(of("application/merge-patch+json"), None);
        let accept = |value| answer_format(&request(&[("accept", value)]));
        assert_eq!(accept("*/*"), Format::Plain);
        assert_eq!(accept("text/html, application/x-amz-json-1.0;q=0.9"), Format::DynamoDb);
    }
}
