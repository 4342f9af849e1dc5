//! A row of the input, from its attributes to an item that may be written.

use dynashard_api::json::{AttributesJson, Format, SortKeyJson};
use dynashard_core::{
    AttributeValue, Attributes, Code, Error, NewItem, TableSchema, Version, item_bytes,
};
use dynashard_keys::{ItemKey, PartitionKey, SortKey, SortKeyType};
use xxhash_rust::xxh64::xxh64;

use crate::operator::Failure;

/// Which fields of a row are its key, and the table that it is to lie in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) partition: String,
    pub(super) sort: String,
    pub(super) schema: TableSchema,
}

/// A row that cannot be taken, with its key if it has one.
#[derive(Debug, PartialEq)]
pub(super) struct Refused {
    pub(super) key: Option<ItemKey>,
    pub(super) failure: Failure,
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self { key: None, failure }
    }
}

impl Keys {
    /// The item of a row. The fields of its key become the key and no attributes.
    pub(super) fn item(&self, mut attributes: Attributes) -> Result<NewItem, Refused> {
        let key = self.key(&mut attributes)?;
        let item = NewItem::new(key.clone(), attributes, &self.schema);
        item.map_err(|error| Refused { key: Some(key), failure: error.into() })
    }

    fn key(&self, attributes: &mut Attributes) -> Result<ItemKey, Failure> {
        let mut take = |name: &String| {
            let missing = || bad_key(format!("the key field {name:?} is missing"));
            attributes.remove(name).ok_or_else(missing)
        };
        let partition = match take(&self.partition)? {
            AttributeValue::String(text) => PartitionKey::new(text).map_err(Error::from)?,
            other => return Err(wrong_type(&self.partition, &other, "a string")),
        };
        let sort = match (take(&self.sort)?, self.schema.sort_key_type) {
            (AttributeValue::String(text), SortKeyType::String) => {
                SortKey::string(text).map_err(Error::from)?
            }
            (AttributeValue::Number(number), SortKeyType::Number) => SortKey::Number(number),
            (other, SortKeyType::String) => return Err(wrong_type(&self.sort, &other, "a string")),
            (other, SortKeyType::Number) => return Err(wrong_type(&self.sort, &other, "a number")),
        };
        Ok(ItemKey::new(partition, sort))
    }
}

/// The version of a row, which follows from its key and its attributes: the row is the same item whoever puts it, and
/// however often.
pub(super) fn version_of(item: &NewItem) -> Version {
    let (key, attributes) = (item.key(), AttributesJson(item.attributes(), Format::DynamoDb));
    let row = (key.partition.as_str(), SortKeyJson(&key.sort), attributes);
    // Texts and numbers cannot fail.
    Version::new(xxh64(&serde_json::to_vec(&row).unwrap_or_default(), 0))
}

/// What an item takes in the table, in bytes, without the attributes of the system's own.
pub(super) fn bytes_of(item: &NewItem) -> usize {
    let key = item.key();
    let sort = match &key.sort {
        SortKey::String(text) => text.len(),
        SortKey::Number(number) => number.stored_bytes(),
    };
    key.partition.as_str().len() + sort + item_bytes(item.attributes())
}

/// A row that is not the text that it should be.
pub(super) fn bad_body(detail: impl Into<String>) -> Failure {
    Failure { code: "bad_body", detail: detail.into() }
}

fn bad_key(detail: String) -> Failure {
    Failure { code: Code::BadKey.as_str(), detail }
}

fn wrong_type(name: &str, value: &AttributeValue, wanted: &str) -> Failure {
    let is = match value {
        AttributeValue::String(_) => "a string",
        AttributeValue::Number(_) => "a number",
        AttributeValue::Binary(_) => "binary",
        AttributeValue::Bool(_) => "a boolean",
        AttributeValue::Null => "null",
        AttributeValue::List(_) => "a list",
        AttributeValue::Map(_) => "a map",
        AttributeValue::StringSet(_)
        | AttributeValue::NumberSet(_)
        | AttributeValue::BinarySet(_) => "a set",
    };
    bad_key(format!("the key field {name:?} is {is}, and the table's is {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(partition: &str, sort: &str, sort_key_type: SortKeyType) -> Keys {
        let schema = TableSchema {
            partition_key_name: "id".to_owned(),
            sort_key_name: "at".to_owned(),
            sort_key_type,
            ..TableSchema::default()
        };
        Keys { partition: partition.to_owned(), sort: sort.to_owned(), schema }
    }

    fn row(fields: &[(&str, AttributeValue)]) -> Attributes {
        fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn text(text: &str) -> AttributeValue {
        AttributeValue::String(text.to_owned())
    }

    fn number(text: &str) -> AttributeValue {
        AttributeValue::Number(text.parse().expect("a number"))
    }

    #[test]
    fn the_fields_of_the_key_become_the_key_alone() {
        let fields = [("origin", text("EWR")), ("n", number("1.50")), ("dest", text("ORD"))];
        let item = keys("origin", "n", SortKeyType::Number).item(row(&fields)).expect("an item");
        assert_eq!(item.key().partition.as_str(), "EWR");
        assert_eq!(item.key().sort, SortKey::parse("1.5", SortKeyType::Number).expect("a key"));
        assert_eq!(item.attributes(), &row(&[("dest", text("ORD"))]));
        assert_eq!(bytes_of(&item), "EWR".len() + 3 + "destORD".len());
    }

    #[test]
    fn the_version_of_a_row_follows_from_all_of_it() {
        let version = |sort: &str, fields: &[(&str, AttributeValue)]| {
            let key = [("id", text("a")), ("at", text(sort))];
            let row = row(&[&key, fields].concat());
            version_of(&keys("id", "at", SortKeyType::String).item(row).expect("an item"))
        };
        let one = version("1", &[("n", number("1.50")), ("m", text("x"))]);
        assert_eq!(one, version("1", &[("m", text("x")), ("n", number("1.5"))]));
        for other in [
            version("2", &[("n", number("1.5")), ("m", text("x"))]),
            version("1", &[("n", text("1.5")), ("m", text("x"))]),
            version("1", &[("n", number("1.5")), ("m", text("x")), ("l", text(""))]),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn what_cannot_be_taken_is_refused_with_the_code_of_the_api() {
        let own = |fields: &[(&str, AttributeValue)]| {
            keys("id", "at", SortKeyType::String)
                .item(row(fields))
                .expect_err("refused")
                .failure
                .code
        };
        let id = ("id", text("a"));
        assert_eq!(own(&[("at", text("1"))]), "bad_key");
        assert_eq!(own(std::slice::from_ref(&id)), "bad_key");
        assert_eq!(own(&[("id", text("")), ("at", text("1"))]), "bad_key");
        assert_eq!(own(&[id.clone(), ("at", text(""))]), "bad_key");
        assert_eq!(own(&[id.clone(), ("at", number("1"))]), "bad_key");
        assert_eq!(own(&[("id", number("1")), ("at", text("1"))]), "bad_key");
        assert_eq!(own(&[id.clone(), ("at", text(&"x".repeat(1_025)))]), "bad_key");
        let at = ("at", text("1"));
        assert_eq!(own(&[id.clone(), at.clone(), ("_ds_g", number("1"))]), "reserved_attribute");
        let large = ("large", text(&"x".repeat(400 * 1_024)));
        assert_eq!(own(&[id, at, large]), "item_too_large");
        let other = keys("origin", "n", SortKeyType::String);
        let both = [("origin", text("EWR")), ("n", text("1")), ("id", text("x"))];
        assert_eq!(other.item(row(&both)).expect_err("refused").failure.code, "key_mismatch");
    }
}
