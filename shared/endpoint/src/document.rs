//! The documents that requests and answers are.

use std::fmt;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The members of an object.
pub(crate) type Members = Map<String, Value>;

/// Reads an object. None of its objects may have a member twice: which of the two counts would be a guess. Whatever their names are,
/// they are members: to `serde_json` itself one is not (the test below has it).
pub(crate) fn read(body: &[u8]) -> Result<Members, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = Strict.deserialize(&mut deserializer)?;
    deserializer.end()?;
    match value {
        Value::Object(members) => Ok(members),
        _ => Err(serde_json::Error::custom("the body is not an object")),
    }
}

/// The text of an object.
pub(crate) fn written(members: &Members) -> Bytes {
    serde_json::to_vec(members).expect("all of it is JSON").into()
}

/// Leaves out what is null, which is what is absent.
pub(crate) fn without_nulls(members: Members) -> Members {
    members.into_iter().filter(|(_, value)| !value.is_null()).collect()
}

/// A value whose objects name each member once.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = all.next_element_seed(Self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Value, A::Error> {
        let mut members = Members::new();
        while let Some(name) = all.next_key::<String>()? {
            let value = all.next_value_seed(Self)?;
            if members.contains_key(&name) {
                return Err(A::Error::custom("an object has a member twice"));
            }
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_comes_twice_is_refused_wherever_it_is() {
        for body in [r#"{"TableName":"a","TableName":"b"}"#, r#"{"Item":{"pk":{"S":"a","S":"b"}}}"#]
        {
            assert!(read(body.as_bytes()).is_err(), "{body}");
        }
        let body = r#"{"A":[{"B":{"N":"1.50","S":"é"}},null,true,1,-2,1.5]}"#;
        let members = read(body.as_bytes()).expect("an object");
        assert_eq!(serde_json::to_string(&members).expect("JSON"), body);
        // An attribute of this name, first of a map, was an item that nobody could read again.
        let body = r#"{"a":{"M":{"$serde_json::private::RawValue":{"S":"x"}}}}"#;
        let members = read(body.as_bytes()).expect("an object");
        assert_eq!(written(&members), body);
        for body in ["", "[]", "{} x", "7", "\u{0}"] {
            assert!(read(body.as_bytes()).is_err(), "{body}");
        }
    }
}
