//! A page of a shard, as DynamoDB has written it: of most items no more is read than what they are merged by.

use std::borrow::Cow;
use std::collections::BTreeMap;

use dynashard_aws::attributes::{FORWARDED, GENERATION};
use dynashard_keys::RESERVED_PREFIX;
use serde::Deserialize;
use serde::de::Error;
use serde_json::value::{RawValue, to_raw_value};
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
    pub(super) text: Box<RawValue>,
    /// What that takes for DynamoDB.
    pub(super) bytes: usize,
}

/// The answer as it came.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Written<'a> {
    #[serde(borrow)]
    items: Vec<BTreeMap<Name<'a>, &'a RawValue>>,
    last_evaluated_key: Option<Members>,
    consumed_capacity: Option<Value>,
}

/// A name that is copied only where it is written with escapes.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl ShardPage {
    /// Reads an answer to `Query`.
    pub(super) fn of(body: &[u8], names: &KeyNames) -> Result<Self, serde_json::Error> {
        // Checked once, and not again for each value of it.
        let body = str::from_utf8(body).map_err(serde_json::Error::custom)?;
        let Written { items, last_evaluated_key, consumed_capacity } = serde_json::from_str(body)?;
        let collection = to_raw_value(&json!({ "S": names.collection }))?;
        let items = items.iter().map(|item| ShardItem::of(item, names, &collection));
        let items = items.collect::<Result<_, _>>()?;
        Ok(Self { items, next: last_evaluated_key, consumed: consumed_capacity })
    }
}

impl ShardItem {
    fn of(
        item: &BTreeMap<Name<'_>, &RawValue>,
        names: &KeyNames,
        collection: &RawValue,
    ) -> Result<Self, serde_json::Error> {
        let is_ours = |name: &str| name.starts_with(RESERVED_PREFIX);
        let own = item.iter().map(|(Name(name), value)| match &**name {
            name if name == names.partition => (name, collection),
            name => (name, *value),
        });
        let own = own.filter(|(name, _)| !is_ours(name)).collect::<BTreeMap<_, _>>();
        let generation = read::<Value>(item, GENERATION);
        let generation = generation.as_ref().and_then(|value| value["N"].as_str()?.parse().ok());
        Ok(Self {
            keys: keys_of(item, names),
            generation: generation.unwrap_or_default(),
            is_marker: item.contains_key(&Name(FORWARDED.into())),
            bytes: own.iter().map(|(name, value)| name.len() + stored_bytes(value)).sum(),
            text: to_raw_value(&own)?,
        })
    }
}

/// The keys of an item, if it has them all.
fn keys_of(item: &BTreeMap<Name<'_>, &RawValue>, names: &KeyNames) -> Option<Keys> {
    let scalar = |name: &String| Scalar::of(&read(item, name)?);
    item.get(&Name((&*names.partition).into()))?;
    Some(Keys {
        place: names.place.iter().map(scalar).collect::<Option<_>>()?,
        common: names.common.iter().map(|name| read(item, name)).collect::<Option<_>>()?,
    })
}

/// An attribute.
fn read<'a, T: Deserialize<'a>>(item: &BTreeMap<Name<'_>, &'a RawValue>, name: &str) -> Option<T> {
    serde_json::from_str(item.get(&Name(name.into()))?.get()).ok()
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
        let shown = serde_json::from_str::<Members>(item.text.get()).expect("an item");
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
