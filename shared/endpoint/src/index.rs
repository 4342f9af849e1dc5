//! The indexes of a table, as DynamoDB describes them.

use dynashard_aws::attributes::{FORWARDED, GENERATION};
use dynashard_core::{IndexAttribute, SecondaryIndex, TableSchema, Told};
use serde_json::Value;

use crate::document::Members;

/// The indexes in an answer of `DescribeTable`.
pub(crate) fn described_in<'a>(
    answer: &'a Members,
    schema: &'a TableSchema,
) -> impl Iterator<Item = SecondaryIndex> + 'a {
    let kinds = [("LocalSecondaryIndexes", true), ("GlobalSecondaryIndexes", false)];
    kinds.into_iter().flat_map(move |(kind, is_local)| {
        let all = answer.get("Table").and_then(|table| table[kind].as_array());
        all.into_iter().flatten().filter_map(move |described| index(described, is_local, schema))
    })
}

/// The index of this description, if it is one. Whether it is active DynamoDB says itself to who asks for it, and what type its keys
/// have.
fn index(description: &Value, is_local: bool, schema: &TableSchema) -> Option<SecondaryIndex> {
    let attributes = |of_type: &'static str| {
        let elements = description["KeySchema"].as_array().into_iter().flatten();
        let elements = elements.filter(move |element| element["KeyType"] == of_type);
        let names = elements.filter_map(|element| element["AttributeName"].as_str());
        names.map(|name| IndexAttribute { name: name.to_owned(), r#type: None }).collect()
    };
    let projection = &description["Projection"];
    let more = projection["NonKeyAttributes"].as_array().into_iter().flatten();
    let more = more.filter_map(|name| name.as_str().map(str::to_owned));
    let projects_all = projection["ProjectionType"].as_str()? == "ALL";
    let mut index = SecondaryIndex {
        name: description["IndexName"].as_str()?.to_owned(),
        is_local,
        is_active: true,
        partition_key: attributes("HASH"),
        sort_key: attributes("RANGE"),
        table_keys: [schema.partition_key_name.clone(), schema.sort_key_name.clone()],
        tells: Told::default(),
        projected: (!projects_all).then(|| more.collect()),
    };
    index.tells =
        Told { markers: index.projects(FORWARDED), generations: index.projects(GENERATION) };
    Some(index)
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
        let schema = TableSchema::default();
        let answer = answer.as_object().expect("an object");
        let indexes = described_in(answer, &schema).collect::<Vec<_>>();
        let [local, inverted, many] = indexes.as_slice() else { panic!("{indexes:?}") };
        let sort_key = |index: &SecondaryIndex| {
            let names = index.sort_key.iter().map(|key| key.name.clone());
            names.collect::<Vec<_>>()
        };
        assert_eq!((sort_key(local), local.is_local), (vec!["n".to_owned()], true));
        assert!(local.projects("whatever") && local.tells.markers && !local.may_hold_markers());
        assert!(inverted.may_hold_markers() && !inverted.tells.markers && !inverted.is_local);
        assert!(inverted.projects("sk") && !inverted.projects("x"));
        assert_eq!(sort_key(many), ["b", "c"]);
        assert!(many.projects("x") && many.projects("a") && !many.projects("_ds_g"));
        assert_eq!(Vec::from_iter(many.keys()), ["a", "b", "c", "pk", "sk"]);
    }
}
