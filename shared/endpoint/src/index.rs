//! The indexes of a table, as DynamoDB describes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dynashard_core::{Moment, TableSchema};
use parking_lot::Mutex;
use serde_json::Value;

use crate::document::Members;

/// An index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Index {
    /// Whether it is a local one.
    pub(crate) is_local: bool,
    /// The attributes that its entries are in the order of, but for the table's partition key.
    pub(crate) sort_keys: Vec<String>,
    /// The attributes that every entry has, and a key to begin behind: those of the index's key and of the table's.
    pub(crate) keys: BTreeSet<String>,
    /// The attributes that it projects beside them. `None` where it projects all.
    projected: Option<BTreeSet<String>>,
}

impl Index {
    /// The table itself, which has its items as an index of its own keys has its entries.
    pub(crate) fn of_table(schema: &TableSchema) -> Self {
        let keys = [&schema.partition_key_name, &schema.sort_key_name];
        Self {
            is_local: true,
            sort_keys: Vec::new(),
            keys: keys.into_iter().cloned().collect(),
            projected: None,
        }
    }

    /// The index of this description, if it is one.
    fn of(description: &Value, is_local: bool, schema: &TableSchema) -> Option<Self> {
        let names = |of_type: Option<&'static str>| {
            let elements = description["KeySchema"].as_array().into_iter().flatten();
            let elements = elements
                .filter(move |element| of_type.is_none_or(|of_type| element["KeyType"] == of_type));
            elements.filter_map(|element| element["AttributeName"].as_str().map(str::to_owned))
        };
        let of_table = [&schema.partition_key_name, &schema.sort_key_name];
        let projection = &description["Projection"];
        let more = projection["NonKeyAttributes"].as_array().into_iter().flatten();
        let more = more.filter_map(|name| name.as_str().map(str::to_owned));
        let projects_all = projection["ProjectionType"].as_str()? == "ALL";
        let projected = (!projects_all).then(|| more.collect());
        Some(Self {
            is_local,
            sort_keys: names(Some("RANGE"))
                .filter(|name| *name != schema.partition_key_name)
                .collect(),
            keys: names(None).chain(of_table.map(String::clone)).collect(),
            projected,
        })
    }

    /// Whether its entries have this attribute, if their items do.
    pub(crate) fn projects(&self, attribute: &str) -> bool {
        let is_projected = |projected: &BTreeSet<String>| {
            projected.contains(attribute) || self.keys.contains(attribute)
        };
        self.projected.as_ref().is_none_or(is_projected)
    }

    /// Whether a marker is in it. Those have the key of the table alone.
    pub(crate) fn may_hold_markers(&self) -> bool {
        self.keys.len() == 2
    }
}

/// What is known of the indexes of a table.
#[derive(Default)]
pub(crate) struct Indexes(Mutex<Option<Described>>);

/// The indexes by their names, and when they were described.
type Described = (Moment, BTreeMap<String, Arc<Index>>);

/// For how long a description is taken for true. An index is made anew in minutes.
const TERM: Duration = Duration::from_mins(1);

impl Indexes {
    /// The index of this name, if it was described lately.
    pub(crate) fn get(&self, name: &str, now: Moment) -> Option<Arc<Index>> {
        let held = self.0.lock();
        let (since, indexes) = held.as_ref()?;
        let is_recent = now.boot.saturating_sub(since.boot) < TERM;
        indexes.get(name).filter(|_| is_recent).cloned()
    }

    /// Takes in what `DescribeTable` was answered at this moment.
    pub(crate) fn learn(&self, answer: &Members, schema: &TableSchema, now: Moment) {
        let kinds = [("LocalSecondaryIndexes", true), ("GlobalSecondaryIndexes", false)];
        let indexes = kinds.into_iter().flat_map(|(kind, is_local)| {
            let all = answer.get("Table").and_then(|table| table[kind].as_array());
            all.into_iter().flatten().filter_map(move |described| {
                let name = described["IndexName"].as_str()?.to_owned();
                Some((name, Arc::new(Index::of(described, is_local, schema)?)))
            })
        });
        *self.0.lock() = Some((now, indexes.collect()));
    }

    /// Has them be described anew: something has shown that they are others now.
    pub(crate) fn forget(&self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn described(name: &str, keys: &[(&str, &str)], projection: &Value) -> Value {
        let keys =
            keys.iter().map(|(name, of_type)| json!({ "AttributeName": name, "KeyType": of_type }));
        json!({ "IndexName": name, "KeySchema": keys.collect::<Vec<_>>(), "Projection": projection })
    }

    #[test]
    fn an_index_is_known_by_its_description() {
        let all = json!({ "ProjectionType": "ALL" });
        let include = json!({ "ProjectionType": "INCLUDE", "NonKeyAttributes": ["x"] });
        let keys = json!({ "ProjectionType": "KEYS_ONLY" });
        let answer = json!({ "Table": {
            "LocalSecondaryIndexes": [described("local", &[("pk", "HASH"), ("n", "RANGE")], &all)],
            "GlobalSecondaryIndexes": [
                described("inverted", &[("sk", "HASH"), ("pk", "RANGE")], &keys),
                described("many", &[("pk", "HASH"), ("a", "HASH"), ("b", "RANGE"), ("c", "RANGE")], &include),
            ],
        } });
        let (indexes, now) = (Indexes::default(), Moment::default());
        let schema = TableSchema::default();
        assert!(indexes.get("local", now).is_none());
        indexes.learn(answer.as_object().expect("an object"), &schema, now);
        let get = |name| indexes.get(name, now).expect("it is described");
        let (local, inverted, many) = (get("local"), get("inverted"), get("many"));
        assert_eq!((&*local.sort_keys, local.is_local), (&["n".to_owned()][..], true));
        assert!(local.projects("whatever") && !local.may_hold_markers());
        assert!(inverted.sort_keys.is_empty() && inverted.may_hold_markers() && !inverted.is_local);
        assert!(inverted.projects("sk") && !inverted.projects("x"));
        assert_eq!(many.sort_keys, ["b", "c"]);
        assert!(many.projects("x") && many.projects("a") && !many.projects("_ds_g"));
        assert_eq!(Vec::from_iter(&many.keys), ["a", "b", "c", "pk", "sk"]);
        assert!(indexes.get("another", now).is_none());
        let later = Moment { boot: TERM, ..now };
        assert!(indexes.get("local", later).is_none());
        indexes.forget();
        assert!(indexes.get("local", now).is_none());
    }
}
