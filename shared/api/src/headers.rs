//! Content negotiation, entity tags and preconditions.

use std::collections::BTreeSet;

use dynashard_core::{Code, Error, Precondition, Version};

use crate::json::Format;
use crate::problem::Problem;
use crate::request::Request;

/// The media type of DynamoDB's own JSON.
pub const DYNAMODB_JSON: &str = "application/x-amz-json-1.0";

/// The header of an answer that is an item: how many items were read to find it.
pub const ITEMS_READ: &str = "dynashard-items-read";

/// The header of the same answer: the read units that it consumed.
pub const CONSUMED_RCU: &str = "dynashard-consumed-rcu";

/// The header of an answer to a write: the write units that DynamoDB reported for it.
pub const CONSUMED_WCU: &str = "dynashard-consumed-wcu";

/// The format of the body, from `Content-Type`. Without the header it is JSON, as curl users expect
/// of an API that takes nothing else.
pub fn body_format(request: &Request) -> Result<Format, Problem> {
    match media_type(request.header("content-type").unwrap_or("application/json")).as_str() {
        "application/json" => Ok(Format::Plain),
        DYNAMODB_JSON => Ok(Format::DynamoDb),
        other => Err(Problem::unsupported_media_type(other, "application/json")),
    }
}

/// Checks that the body is JSON. Without attributes it is the same in either format.
pub fn expect_json(request: &Request) -> Result<(), Problem> {
    body_format(request).map(|_| ())
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

/// Checks that the body is plain JSON: it has attributes that DynamoDB's JSON is not taken for.
pub fn expect_plain_json(request: &Request) -> Result<(), Problem> {
    match body_format(request)? {
        Format::Plain => Ok(()),
        Format::DynamoDb => Err(Problem::unsupported_media_type(DYNAMODB_JSON, "application/json")),
    }
}

/// The format that the client asks for in `Accept`: plain JSON unless it names DynamoDB's.
pub fn answer_format(request: &Request) -> Format {
    let accepted = request.header("accept").unwrap_or_default();
    // A weight of 0 is a refusal (RFC 9110, 12.4.2).
    let is_refused = |range: &str| {
        let mut weights =
            range.split(';').filter_map(|parameter| parameter.trim().strip_prefix("q="));
        weights
            .any(|weight| weight.starts_with('0') && !weight.contains(|c| matches!(c, '1'..='9')))
    };
    let mut accepted = accepted.split(',').filter(|range| !is_refused(range));
    if accepted.any(|range| media_type(range) == DYNAMODB_JSON) {
        Format::DynamoDb
    } else {
        Format::Plain
    }
}

/// The precondition in `If-Match` and `If-None-Match`.
pub fn precondition(request: &Request) -> Result<Precondition, Problem> {
    match (request.header("if-match"), request.header("if-none-match")) {
        (None, None) => Ok(Precondition::None),
        (Some("*"), None) => Ok(Precondition::Exists),
        (Some(tags), None) => one_of(tags),
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
            "If-None-Match is for puts; this request takes If-Match".to_owned(),
        )),
        precondition => Ok(precondition),
    }
}

/// Refuses a precondition where none can hold: a counter has no version.
pub fn refuse_preconditions(request: &Request) -> Result<(), Problem> {
    match precondition(request)? {
        Precondition::None => Ok(()),
        _ => Err(Problem::bad_header("a counter takes no If-Match or If-None-Match".to_owned())),
    }
}

/// What a client asks of an item before it is sent: the preconditions of a read (RFC 9110, 13.1.1 and 13.1.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPreconditions {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
}

/// What one of the two headers names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Tags {
    /// `*`: whatever there is.
    Any,
    /// The versions whose tags are in the list.
    Of(BTreeSet<Version>),
}

impl Tags {
    /// Those of this header, if the request has it.
    fn of(
        request: &Request,
        header: &str,
        version: impl Fn(&str) -> Option<Version>,
    ) -> Result<Option<Self>, Problem> {
        Ok(match request.header(&header.to_ascii_lowercase()) {
            None => None,
            Some("*") => Some(Self::Any),
            Some(list) => {
                let tags = required_tags(list, header)?;
                Some(Self::Of(tags.into_iter().filter_map(version).collect()))
            }
        })
    }
}

impl ReadPreconditions {
    /// Those of a request.
    pub fn of(request: &Request) -> Result<Self, Problem> {
        Ok(Self {
            if_match: Tags::of(request, "If-Match", version)?,
            // A weak tag names the same version where nothing is replaced by what was read (RFC 9110, 8.8.3.2).
            if_none_match: Tags::of(request, "If-None-Match", |tag| {
                version(tag.strip_prefix("W/").unwrap_or(tag))
            })?,
        })
    }

    /// Whether an item that is there, in this version, is to be sent; it is not if the client has it. An item that is not
    /// the one that `If-Match` names is an error.
    pub fn wants(&self, version: Version) -> Result<bool, Problem> {
        let names = |tags: &Tags| match tags {
            Tags::Any => true,
            Tags::Of(versions) => versions.contains(&version),
        };
        if !self.if_match.as_ref().is_none_or(names) {
            let why = "the item is not a version that If-Match names";
            return Err(Error::new(Code::PreconditionFailed, why).into());
        }
        Ok(!self.if_none_match.as_ref().is_some_and(names))
    }
}

/// The version that a list of entity tags asks for. To clients a tag is opaque, so a tag that this
/// API never gave out matches nothing, and is not an error (RFC 9110, 13.1.1).
fn one_of(tags: &str) -> Result<Precondition, Problem> {
    let tags = required_tags(tags, "If-Match")?;
    let ours = tags.into_iter().filter_map(version).collect::<BTreeSet<_>>();
    let mut ours = ours.into_iter();
    match (ours.next(), ours.next()) {
        (None, _) => Ok(Precondition::Never),
        (Some(version), None) => Ok(Precondition::Version(version)),
        (Some(_), Some(_)) => {
            Err(Problem::bad_header("If-Match takes one ETag of this API".to_owned()))
        }
    }
}

/// The tags of the list that this header holds.
fn required_tags<'a>(list: &'a str, header: &str) -> Result<Vec<&'a str>, Problem> {
    entity_tags(list).ok_or_else(|| {
        Problem::bad_header(format!("{header} takes * or ETags in quotation marks, not {list}"))
    })
}

/// The tags of a list as they are written (RFC 9110, 8.8.3 and 5.6.1).
fn entity_tags(list: &str) -> Option<Vec<&str>> {
    let is_tag_character = |c: char| c == '!' || ('#'..='~').contains(&c) || !c.is_ascii();
    let mut tags = Vec::new();
    let mut rest = list;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            return (!tags.is_empty()).then_some(tags);
        }
        let quoted = rest.strip_prefix("W/").unwrap_or(rest);
        let (opaque, after) = quoted.strip_prefix('"')?.split_once('"')?;
        let after = after.trim_start_matches([' ', '\t']);
        if !opaque.chars().all(is_tag_character) || !(after.is_empty() || after.starts_with(',')) {
            return None;
        }
        tags.push(rest[..rest.len() - after.len()].trim_end());
        rest = after;
    }
}

/// The version that an entity tag of this API stands for.
fn version(tag: &str) -> Option<Version> {
    let digits = tag.strip_prefix('"')?.strip_suffix('"')?;
    if digits.len() != 16 || !digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok().map(Version::new)
}

/// A media type without its parameters, in lower case.
fn media_type(header: &str) -> String {
    header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::Response;

    fn request(headers: &[(&str, &str)]) -> Request {
        Request {
            method: "PUT".to_owned(),
            path: "/item".to_owned(),
            raw_query: String::new(),
            headers: headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
            body: Vec::new(),
            granted: crate::grants::GrantedKeys::all(),
        }
    }

    #[test]
    fn an_etag_reads_back() {
        for number in [0, 1, u64::MAX] {
            let version = Version::new(number);
            let etag = Response::empty(200).with_etag(version);
            let etag = etag.header("etag").expect("a tag").to_owned();
            let asked = precondition(&request(&[("if-match", &etag)]));
            assert_eq!(asked, Ok(Precondition::Version(version)));
        }
    }

    #[test]
    fn regression_an_entity_tag_of_others_was_a_bad_header() {
        for tags in [
            r#""""#,
            r#""abc""#,
            r#""a,b""#,
            r#""é""#,
            r#"W/"0000000000000001""#,
            r#""000000000000000g""#,
            r#""+000000000000001""#,
            r#""00000000000000AB""#,
            r#" "abc" ,, W/"def","#,
        ] {
            assert_eq!(
                precondition(&request(&[("if-match", tags)])),
                Ok(Precondition::Never),
                "{tags}"
            );
        }
        for tags in [
            r#""abc", "0000000000000001""#,
            r#""0000000000000001","0000000000000001""#,
            r#"W/"0000000000000002",	"0000000000000001" "#,
        ] {
            let one = Precondition::Version(Version::new(1));
            assert_eq!(precondition(&request(&[("if-match", tags)])), Ok(one), "{tags}");
        }
    }

    /// The item was sent whatever a read asked for.
    #[test]
    fn regression_the_preconditions_of_a_read_were_passed_over() {
        let wants = |headers: &[(&str, &str)]| {
            let preconditions = ReadPreconditions::of(&request(headers));
            preconditions.and_then(|asked| asked.wants(Version::new(1))).map_err(|p| p.code())
        };
        let (own, weak) = (r#""0000000000000001""#, r#"W/"0000000000000001""#);
        let other = r#""0000000000000002""#;
        let list = format!(r#""abc", {other},{own}"#);
        let (failed, bad) = (Err("precondition_failed"), Err("bad_header"));
        for (tags, if_match, if_none_match) in [
            ("*", Ok(true), Ok(false)),
            (own, Ok(true), Ok(false)),
            // If-Match compares strongly.
            (weak, failed, Ok(false)),
            (&list, Ok(true), Ok(false)),
            (other, failed, Ok(true)),
            (r#""abc""#, failed, Ok(true)),
            (r#"W/"""#, failed, Ok(true)),
            ("", bad, bad),
            ("0000000000000001", bad, bad),
            (r#""abc", *"#, bad, bad),
        ] {
            assert_eq!(wants(&[("if-match", tags)]), if_match, "If-Match: {tags}");
            assert_eq!(wants(&[("if-none-match", tags)]), if_none_match, "If-None-Match: {tags}");
        }
        assert_eq!(wants(&[]), Ok(true));
        // If-Match comes first (RFC 9110, 13.2.2).
        assert_eq!(wants(&[("if-match", own), ("if-none-match", own)]), Ok(false));
        assert_eq!(wants(&[("if-match", own), ("if-none-match", other)]), Ok(true));
        assert_eq!(wants(&[("if-match", other), ("if-none-match", own)]), failed);
    }

    #[test]
    fn what_is_not_an_entity_tag_is_refused() {
        for tags in [
            "",
            ",",
            "abc",
            "0000000000000001",
            r#"""#,
            r#""abc"#,
            r#""a b""#,
            r#""abc"def"#,
            r#""abc" "def""#,
            r#"w/"abc""#,
            r#"W/ "abc""#,
            r#""abc", *"#,
            r#""0000000000000001", "0000000000000002""#,
        ] {
            let refused =
                precondition(&request(&[("if-match", tags)])).map_err(|problem| problem.code());
            assert_eq!(refused, Err("bad_header"), "{tags}");
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
        assert_eq!(accept("application/x-amz-json-1.0;q=0.05"), Format::DynamoDb);
    }

    #[test]
    fn regression_a_format_that_a_client_refused_was_answered() {
        for weight in ["q=0", " q=0.000"] {
            let accept = format!("application/x-amz-json-1.0;{weight}, application/json");
            assert_eq!(answer_format(&request(&[("accept", &accept)])), Format::Plain, "{weight}");
        }
    }
}
