//! The reading of a request's members.

use std::time::Duration;

use serde_json::{Map, Value};

use super::super::error::{ApiError, Fault};

/// The members of a structure in a request. Members that are null count as absent, and unknown ones
/// are ignored.
#[derive(Clone, Debug)]
pub(in super::super) struct Members<'a> {
    /// None of a request without a body.
    members: Option<&'a Map<String, Value>>,
    /// What errors put before a member's name, such as `MetricData.member.1.`.
    path: String,
}

impl<'a> Members<'a> {
    /// The members of a whole request, which may have no body.
    pub(in super::super) fn of(input: &'a Value) -> Result<Self, ApiError> {
        let members = input.as_object();
        if members.is_none() && !input.is_null() {
            return Err(ApiError::unreadable("the request is not a structure"));
        }
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
        self.get(name).map(|value| self.as_text(name, value)).transpose()
    }

    pub(in super::super) fn number(&self, name: &str) -> Result<Option<f64>, ApiError> {
        self.get(name).map(|value| self.as_number(name, value)).transpose()
    }

    /// A whole number that is not negative.
    pub(in super::super) fn whole(&self, name: &str) -> Result<Option<u64>, ApiError> {
        self.read(name, "a whole number", Value::as_u64)
    }

    /// A number of things, from 1 to `most`.
    pub(in super::super) fn size(
        &self,
        name: &str,
        most: usize,
    ) -> Result<Option<usize>, ApiError> {
        match self.whole(name)?.map(usize::try_from) {
            None => Ok(None),
            Some(Ok(size)) if (1..=most).contains(&size) => Ok(Some(size)),
            Some(_) => Err(ApiError::invalid(&self.name(name), &format!("must be 1 to {most}"))),
        }
    }

    /// The index of the first item of the page that is asked for.
    pub(in super::super) fn first_of_page(&self) -> Result<usize, ApiError> {
        self.text("NextToken")?.map_or(Ok(0), |token| {
            let text = "The value of NextToken is not valid";
            token.parse().map_err(|_| ApiError::new(Fault::INVALID_NEXT_TOKEN, text))
        })
    }

    pub(in super::super) fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.read(name, "a boolean", Value::as_bool)
    }

    /// A moment, in seconds since the Unix epoch. One before 1970 counts as 1970.
    pub(in super::super) fn timestamp(&self, name: &str) -> Result<Option<Duration>, ApiError> {
        self.read(name, "a timestamp", |value| {
            Duration::try_from_secs_f64(value.as_f64()?.max(0.0)).ok()
        })
    }

    pub(in super::super) fn structure(&self, name: &str) -> Result<Option<Self>, ApiError> {
        let members = self.read(name, "a structure", Value::as_object)?;
        let path = || self.name(&format!("{name}."));
        Ok(members.map(|members| Self { members: Some(members), path: path() }))
    }

    /// The structures of a list; none where it is absent.
    pub(in super::super) fn structures(&self, name: &str) -> Result<Vec<Self>, ApiError> {
        let items = self.items(name)?.iter().zip(1..);
        let structure = |(value, position): (&'a Value, usize)| {
            let members = value.as_object().ok_or_else(|| self.malformed(name, "a structure"))?;
            let path = self.name(&format!("{name}.member.{position}."));
            Ok(Self { members: Some(members), path })
        };
        items.map(structure).collect()
    }

    pub(in super::super) fn texts(&self, name: &str) -> Result<Vec<&'a str>, ApiError> {
        self.items(name)?.iter().map(|value| self.as_text(name, value)).collect()
    }

    pub(in super::super) fn numbers(&self, name: &str) -> Result<Vec<f64>, ApiError> {
        self.items(name)?.iter().map(|value| self.as_number(name, value)).collect()
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.members?.get(name).filter(|value| !value.is_null())
    }

    fn read<T>(
        &self,
        name: &str,
        wanted: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let value = self.get(name);
        value.map(|value| read(value).ok_or_else(|| self.malformed(name, wanted))).transpose()
    }

    fn items(&self, name: &str) -> Result<&'a [Value], ApiError> {
        Ok(self.read(name, "a list", Value::as_array)?.map_or(&[], Vec::as_slice))
    }

    fn as_text(&self, name: &str, value: &'a Value) -> Result<&'a str, ApiError> {
        match value.as_str() {
            Some("") => Err(ApiError::invalid(&self.name(name), "must not be empty")),
            text => text.ok_or_else(|| self.malformed(name, "a string")),
        }
    }

    fn as_number(&self, name: &str, value: &Value) -> Result<f64, ApiError> {
        let number = match value.as_str() {
            // JSON has no other way to write these, and they are refused for what they are.
            Some("NaN" | "Infinity" | "-Infinity") => Some(f64::NAN),
            _ => value.as_f64(),
        };
        number.ok_or_else(|| self.malformed(name, "a number"))
    }

    fn malformed(&self, name: &str, wanted: &str) -> ApiError {
        ApiError::unreadable(&format!("{} is not {wanted}", self.name(name)))
    }
}
