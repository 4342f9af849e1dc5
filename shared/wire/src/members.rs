//! The members of requests and answers, which stay to the letter where nobody looks into them.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

/// The members of a request or an answer. Their values are not looked into.
#[derive(Debug)]
pub struct JsonMembers<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> JsonMembers<'a> {
    /// `None` if the body is not a JSON object.
    pub fn of(body: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(body).ok().map(Self)
    }

    /// A member; `None` where it is absent or has another shape.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.0.get(name)?.get()).ok()
    }

    /// Leaves one out.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// The object that they make.
    pub fn to_body(&self) -> Option<Bytes> {
        serde_json::to_vec(&self.0).ok().map(Bytes::from)
    }
}

/// The body with one member set to this value; `None` if the body is not a JSON object.
pub fn with_member(body: &[u8], name: &str, value: &Value) -> Option<Bytes> {
    let value = serde_json::value::to_raw_value(value).ok()?;
    let mut members = JsonMembers::of(body)?;
    members.0.insert(name.to_owned(), &value);
    members.to_body()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_member_is_set_beside_the_others_which_stay_to_the_letter() {
        let body = br#"{"B":{"z":1.50,"a":"\u00e9"},"A":"NONE"}"#;
        let changed = with_member(body, "A", &json!("TOTAL")).expect("an object");
        assert_eq!(changed, r#"{"A":"TOTAL","B":{"z":1.50,"a":"\u00e9"}}"#);
        assert_eq!(with_member(b"[]", "A", &json!(1)), None);
    }
}
