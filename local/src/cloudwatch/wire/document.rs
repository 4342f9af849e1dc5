//! Requests and answers before they are bytes of a protocol, and the reading of a request's members.

use super::super::error::ApiError;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use time::format_description::well_known::Iso8601;

/// A request, in whatever protocol it came.
#[derive(Debug)]
pub(in super::super) struct Call {
    /// Such as `GetMetricData`.
    pub(in super::super) operation: String,
    pub(in super::super) input: Document,
}

/// A value of a request or answer.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum Document {
    Null,
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    /// A scalar of the query protocol, which says nothing of its type.
    Untyped(String),
    /// Seconds since the Unix epoch.
    Timestamp(f64),
    List(Vec<Document>),
    Structure(Vec<(String, Document)>),
}

/// A structure of these members, without those that are null.
pub(in super::super) fn structure<const N: usize>(members: [(&str, Document); N]) -> Document {
    let members = members.into_iter().filter(|(_, value)| *value != Document::Null);
    Document::Structure(members.map(|(name, value)| (name.to_owned(), value)).collect())
}

impl Document {
    /// A moment to the millisecond, which is as exact as `CloudWatch` is.
    pub(in super::super) fn timestamp(time: SystemTime) -> Self {
        let age = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let millis = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        Self::Timestamp(Duration::from_millis(millis).as_secs_f64())
    }

    /// The beginning of an epoch second.
    pub(in super::super) fn second(second: u64) -> Self {
        Self::Timestamp(Duration::from_secs(second).as_secs_f64())
    }

    pub(in super::super) fn list<T: Into<Self>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

impl FromIterator<Document> for Document {
    /// A list.
    fn from_iter<I: IntoIterator<Item = Self>>(items: I) -> Self {
        Self::List(items.into_iter().collect())
    }
}

impl From<&str> for Document {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Document {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&String> for Document {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<f64> for Document {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Document {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<u32> for Document {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<u64> for Document {
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl<T: Into<Document>> From<Option<T>> for Document {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The members of a structure in a request. Members that are null count as absent, and unknown ones
/// are ignored.
#[derive(Clone, Debug)]
pub(in super::super) struct Members<'a> {
    members: &'a [(String, Document)],
    /// What errors put before a member's name, such as `MetricData.member.1.`.
    path: String,
}

impl<'a> Members<'a> {
    /// The members of a whole request, which may have no body.
    pub(in super::super) fn of(input: &'a Document) -> Result<Self, ApiError> {
        let members = match input {
            Document::Structure(members) => members.as_slice(),
            Document::Null => &[],
            _ => return Err(ApiError::unreadable("the request is not a structure")),
        };
        Ok(Self { members, path: String::new() })
    }

    /// What errors call a member.
    pub(in super::super) fn name(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    /// The value of a member that has to be there.
    pub(in super::super) fn require<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Self, &str) -> Result<Option<T>, ApiError>,
    ) -> Result<T, ApiError> {
        read(self, name)?.ok_or_else(|| ApiError::missing(&self.name(name)))
    }

    /// A text, which is not empty.
    pub(in super::super) fn text(&self, name: &str) -> Result<Option<&'a str>, ApiError> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => self.as_text(name, value).map(Some),
        }
    }

    pub(in super::super) fn number(&self, name: &str) -> Result<Option<f64>, ApiError> {
        self.get(name).map(|value| self.as_number(name, value)).transpose()
    }

    /// A whole number that is not negative.
    pub(in super::super) fn whole(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let whole = match value {
            Document::Integer(number) => u64::try_from(*number).ok(),
            Document::Untyped(text) => text.parse().ok(),
            _ => None,
        };
        whole.map(Some).ok_or_else(|| self.malformed(name, "a whole number"))
    }

    pub(in super::super) fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.get(name) {
            None => Ok(None),
            Some(Document::Boolean(value)) => Ok(Some(*value)),
            Some(Document::Untyped(text)) if text == "true" => Ok(Some(true)),
            Some(Document::Untyped(text)) if text == "false" => Ok(Some(false)),
            Some(_) => Err(self.malformed(name, "a boolean")),
        }
    }

    /// A moment. One before 1970 counts as 1970.
    pub(in super::super) fn timestamp(&self, name: &str) -> Result<Option<Duration>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let secs = match value {
            Document::Timestamp(secs) | Document::Number(secs) => Some(*secs),
            #[expect(clippy::cast_precision_loss, reason = "the seconds of any date are exact")]
            Document::Integer(secs) => Some(*secs as f64),
            Document::Text(text) | Document::Untyped(text) => parse_time(text),
            _ => None,
        };
        let since_epoch = secs.and_then(|secs| Duration::try_from_secs_f64(secs.max(0.0)).ok());
        since_epoch.map(Some).ok_or_else(|| self.malformed(name, "a timestamp"))
    }

    pub(in super::super) fn structure(&self, name: &str) -> Result<Option<Self>, ApiError> {
        let value = self.get(name);
        value
            .map(|value| self.as_structure(name, value, self.name(&format!("{name}."))))
            .transpose()
    }

    /// The structures of a list; none where it is absent.
    pub(in super::super) fn structures(&self, name: &str) -> Result<Vec<Self>, ApiError> {
        let items = self.items(name)?.iter().zip(1..);
        items
            .map(|(value, position): (_, usize)| {
                self.as_structure(name, value, self.name(&format!("{name}.member.{position}.")))
            })
            .collect()
    }

    pub(in super::super) fn texts(&self, name: &str) -> Result<Vec<&'a str>, ApiError> {
        self.items(name)?.iter().map(|value| self.as_text(name, value)).collect()
    }

    pub(in super::super) fn numbers(&self, name: &str) -> Result<Vec<f64>, ApiError> {
        self.items(name)?.iter().map(|value| self.as_number(name, value)).collect()
    }

    fn get(&self, name: &str) -> Option<&'a Document> {
        let (_, value) = self.members.iter().find(|(known, _)| known == name)?;
        (*value != Document::Null).then_some(value)
    }

    fn items(&self, name: &str) -> Result<&'a [Document], ApiError> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Document::List(items)) => Ok(items),
            // So the query protocol writes an empty list.
            Some(Document::Untyped(text)) if text.is_empty() => Ok(&[]),
            Some(_) => Err(self.malformed(name, "a list")),
        }
    }

    fn as_structure(
        &self,
        name: &str,
        value: &'a Document,
        path: String,
    ) -> Result<Self, ApiError> {
        match value {
            Document::Structure(members) => Ok(Self { members, path }),
            _ => Err(self.malformed(name, "a structure")),
        }
    }

    fn as_text(&self, name: &str, value: &'a Document) -> Result<&'a str, ApiError> {
        match value {
            Document::Text(text) | Document::Untyped(text) if !text.is_empty() => Ok(text),
            Document::Text(_) | Document::Untyped(_) => {
                Err(ApiError::invalid(&self.name(name), "must not be empty"))
            }
            _ => Err(self.malformed(name, "a string")),
        }
    }

    fn as_number(&self, name: &str, value: &Document) -> Result<f64, ApiError> {
        let number = match value {
            Document::Number(number) => Some(*number),
            #[expect(clippy::cast_precision_loss, reason = "what is asked for is a double")]
            Document::Integer(number) => Some(*number as f64),
            Document::Untyped(text) => text.parse().ok(),
            // JSON has no other way to write these, and they are refused for what they are.
            Document::Text(text) if matches!(text.as_str(), "NaN" | "Infinity" | "-Infinity") => {
                text.parse().ok()
            }
            _ => None,
        };
        number.ok_or_else(|| self.malformed(name, "a number"))
    }

    fn malformed(&self, name: &str, wanted: &str) -> ApiError {
        ApiError::unreadable(&format!("{} is not {wanted}", self.name(name)))
    }
}

/// Seconds since the Unix epoch, of a time in ISO 8601 or a number of them.
fn parse_time(text: &str) -> Option<f64> {
    let date = OffsetDateTime::parse(text, &Iso8601::DEFAULT);
    #[expect(clippy::cast_precision_loss, reason = "exact to the microsecond")]
    let secs = |date: OffsetDateTime| (date.unix_timestamp_nanos() / 1_000) as f64 / 1e6;
    date.map(secs).ok().or_else(|| text.parse().ok())
}
