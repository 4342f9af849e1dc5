//! A page of a shard, as DynamoDB has written it: of most items no more is read than what they are merged by.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use dynashard_aws::attributes::{FORWARDED, GENERATION};
use dynashard_keys::RESERVED_PREFIX;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::keys::{KeyNames, Keys, Scalar};
use crate::document::Members;
use crate::value::stored_bytes;

/// What a shard has answered.
pub(super) struct ShardPage {
    pub(super) items: Vec<ShardItem>,
    /// What it goes on behind, if it does, by its own partition key.
    pub(super) next: Option<Members>,
    /// What DynamoDB says that it consumed.
    pub(super) consumed: Option<Value>,
}

/// An item of a shard.
pub(super) struct ShardItem {
    /// `None` where it lacks an attribute of the keys, so that the index is another one than it was.
    pub(super) keys: Option<Keys>,
    pub(super) generation: u64,
    /// Whether it only says that an item has moved.
    pub(super) is_marker: bool,
    /// The whole of it, by its collection's key and without what is ours.
    pub(super) text: Bytes,
    /// What that takes for DynamoDB.
    pub(super) bytes: usize,
}

/// The answer as it came.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Written<'a> {
    #[serde(borrow)]
    items: Vec<Attributes<'a>>,
    last_evaluated_key: Option<Members>,
    consumed_capacity: Option<Value>,
}

/// An item as it came, its attributes in that order.
struct Attributes<'a>(Vec<(Name<'a>, &'a RawValue)>);

/// A name that is copied only where it is written with escapes.
#[derive(Deserialize, Serialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl ShardPage {
    /// Reads an answer to `Query`.
    pub(super) fn of(body: &[u8], names: &KeyNames) -> Result<Self, serde_json::Error> {
        // Checked once: of bytes, each value that is not read would be checked anew.
        let body = str::from_utf8(body).map_err(serde_json::Error::custom)?;
        let Written { items: all, last_evaluated_key: next, consumed_capacity: consumed } =
            serde_json::from_str(body)?;
        let collection = json!({ "S": names.collection }).to_string();
        // One text for all of them: most of a page's time would go into one for each.
        let mut text = Vec::with_capacity(body.len());
        let mut shown = Vec::with_capacity(all.len());
        for item in &all {
            let from = text.len();
            let bytes = item.show((&names.partition, &collection), &mut text)?;
            shown.push((from..text.len(), bytes));
        }
        let text = Bytes::from(text);
        let items = all.iter().zip(shown).map(|(item, (range, bytes))| {
            let generation = item.read::<Value>(GENERATION);
            let generation = generation.and_then(|value| value["N"].as_str()?.parse().ok());
            ShardItem {
                keys: item.keys(names),
                generation: generation.unwrap_or_default(),
                is_marker: item.get(FORWARDED).is_some(),
                text: text.slice(range),
                bytes,
            }
        });
        Ok(Self { items: items.collect(), next, consumed })
    }
}

impl<'a> Attributes<'a> {
    fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(Name(own), _)| own == name).map(|(_, value)| *value)
    }

    fn read<T: Deserialize<'a>>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// The keys, if it has them all.
    fn keys(&self, names: &KeyNames) -> Option<Keys> {
        self.get(&names.partition)?;
        let scalar = |name: &String| Scalar::of(&self.read(name)?);
        Some(Keys {
            place: names.place.iter().map(scalar).collect::<Option<_>>()?,
            common: names.common.iter().map(|name| self.read(name)).collect::<Option<_>>()?,
        })
    }

    /// Writes the item behind a text with another value for this attribute and without what is ours. Returns what it takes for
    /// DynamoDB.
    fn show(
        &self,
        (partition, collection): (&str, &str),
        text: &mut Vec<u8>,
    ) -> Result<usize, serde_json::Error> {
        let mut bytes = 0;
        let mut opening = b'{';
        for (name, value) in &self.0 {
            if name.0.starts_with(RESERVED_PREFIX) {
                continue;
            }
            let is_partition = name.0 == partition;
            let value = if is_partition { collection } else { value.get() };
            text.push(opening);
            serde_json::to_writer(&mut *text, name)?;
            text.push(b':');
            text.extend_from_slice(value.as_bytes());
            bytes += name.0.len() + stored_bytes(value);
            opening = b',';
        }
        if opening == b'{' {
            text.push(opening);
        }
        text.push(b'}');
        Ok(bytes)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Attributes<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfItem;

        impl<'de> Visitor<'de> for OfItem {
            type Value = Attributes<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an item")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
                let mut attributes = Vec::new();
                while let Some(attribute) = all.next_entry()? {
                    attributes.push(attribute);
                }
                Ok(Attributes(attributes))
            }
        }

        deserializer.deserialize_map(OfItem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    fn names() -> KeyNames {
        KeyNames {
            partition: "pk".to_owned(),
            collection: "hot".to_owned(),
            place: vec!["n".to_owned(), "sk".to_owned()],
            common: vec!["s".to_owned()],
        }
    }

    fn page(items: &Value) -> ShardPage {
        let body = json!({
            "Items": items,
            "Count": 7,
            "LastEvaluatedKey": { "pk": { "S": "hot#~2" }, "sk": { "S": "z" } },
            "ConsumedCapacity": { "CapacityUnits": 0.5 },
        });
        ShardPage::of(body.to_string().as_bytes(), &names()).expect("a page")
    }

    #[test]
    fn items_are_shown_as_they_are_written_without_what_is_ours() {
        let own = json!({
            "pk": { "S": "hot" }, "sk": { "S": "a\n\u{e9}" }, "n": { "N": "-1.5" }, "s": { "S": "x" },
            "a \"name\"": { "L": [{ "M": { "k\t": { "NULL": true } } }, { "BOOL": false }] },
            "b": { "B": "aGVsbG8=" }, "sets": { "M": { "s": { "SS": ["one", "two"] }, "n": { "NS": ["1", "22"] },
            "b": { "BS": ["YQ==", "YmM="] } } },
        });
        let mut stored = own.clone();
        for (name, value) in [
            ("pk", json!({ "S": "hot#~2" })),
            ("_ds_g", json!({ "N": "3" })),
            ("_ds_v", json!({ "N": "18446744073709551615" })),
            ("_ds_fwd", json!({ "BOOL": true })),
        ] {
            stored[name] = value;
        }
        let marker =
            json!({ "pk": { "S": "hot#~2" }, "sk": { "S": "b" }, "_ds_fwd": { "BOOL": true } });
        let ShardPage { items, next, consumed } = page(&json!([stored, marker]));
        let [item, marker] = items.as_slice() else { panic!("{} items", items.len()) };
        let shown = serde_json::from_slice::<Members>(&item.text).expect("an item");
        assert_eq!(Value::Object(shown.clone()), own);
        assert_eq!((item.generation, item.is_marker), (3, true));
        assert_eq!(item.bytes, value::bytes(&shown));
        let keys = item.keys.clone().expect("keys");
        let key = json!({ "pk": own["pk"], "sk": own["sk"], "n": own["n"], "s": own["s"] });
        assert_eq!(Value::Object(names().key(keys)), key);
        assert_eq!((marker.generation, marker.is_marker, &marker.keys), (0, true, &None));
        assert_eq!(next.expect("a key")["sk"], json!({ "S": "z" }));
        assert_eq!(consumed, Some(json!({ "CapacityUnits": 0.5 })));
    }

    #[test]
    fn what_is_no_page_is_not_taken_for_an_empty_one() {
        for body in ["", "[]", "{}", r#"{"Items":[7]}"#, r#"{"Items":[{"pk":{"S":"a"}]"#] {
            assert!(ShardPage::of(body.as_bytes(), &names()).is_err(), "{body}");
        }
        let empty = ShardPage::of(br#"{"Items":[],"Count":0}"#, &names()).expect("a page");
        assert!(empty.items.is_empty() && empty.next.is_none());
    }
}
