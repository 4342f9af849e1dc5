//! The warm throughput of tables and their indexes, which the engine does not know: it is added to whatever describes a table.

use bytes::Bytes;
use dynashard_limits::partition::{Kind, Limits};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::answer::Members;

/// The answer to this operation with the warm throughput; `None` where it describes no table.
pub(super) fn describe(operation: &str, answer: &[u8], limits: &Limits) -> Option<Bytes> {
    let member = match operation {
        "DescribeTable" => "Table",
        "CreateTable" | "DeleteTable" | "UpdateTable" => "TableDescription",
        _ => return None,
    };
    let mut members = Members::of(answer)?;
    let table: Box<RawValue> = members.get(member)?;
    let mut table = Members::of(table.get().as_bytes())?;
    let provisioned = table.get("ProvisionedThroughput").unwrap_or_default();
    let own = to_raw_value(&warm_throughput(limits, &provisioned)).ok()?;
    let indexes = table.get(INDEXES).map(|indexes: Vec<Map<String, Value>>| {
        indexes.into_iter().map(|index| with_warm_throughput(index, limits)).collect::<Vec<_>>()
    });
    let indexes = indexes.map(|indexes| to_raw_value(&indexes)).transpose().ok()?;
    table.set(WARM, &own);
    if let Some(indexes) = &indexes {
        table.set(INDEXES, indexes);
    }
    let table = table.to_raw()?;
    members.set(member, &table);
    members.to_body()
}

const WARM: &str = "WarmThroughput";
const INDEXES: &str = "GlobalSecondaryIndexes";

/// The capacity of a provisioned table or index; 0 on demand.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Provisioned {
    read_capacity_units: u64,
    write_capacity_units: u64,
}

fn with_warm_throughput(mut index: Map<String, Value>, limits: &Limits) -> Map<String, Value> {
    let provisioned = index.get("ProvisionedThroughput");
    let provisioned = provisioned.and_then(|it| Provisioned::deserialize(it).ok());
    let warm = warm_throughput(limits, &provisioned.unwrap_or_default());
    index.insert(WARM.to_owned(), warm);
    index
}

/// What is provisioned is warm, however much that is (Developer Guide: "Understanding DynamoDB warm throughput").
fn warm_throughput(limits: &Limits, provisioned: &Provisioned) -> Value {
    let Provisioned { read_capacity_units, write_capacity_units } = *provisioned;
    json!({
        "ReadUnitsPerSecond": limits.warm_units(Kind::Read).max(read_capacity_units),
        "WriteUnitsPerSecond": limits.warm_units(Kind::Write).max(write_capacity_units),
        "Status": "ACTIVE",
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn described(table: &Value, operation: &str, limits: &Limits) -> Value {
        let member = if operation == "DescribeTable" { "Table" } else { "TableDescription" };
        let answer = json!({ member: table }).to_string();
        let answer = describe(operation, answer.as_bytes(), limits).expect("a table");
        serde_json::from_slice::<Value>(&answer).expect("JSON")[member].take()
    }

    fn warm(reads: u64, writes: u64) -> Value {
        json!({ "ReadUnitsPerSecond": reads, "WriteUnitsPerSecond": writes, "Status": "ACTIVE" })
    }

    #[test]
    fn tables_and_their_indexes_are_described_with_what_they_take_at_once() {
        let new = Limits {
            warm_rcu: NonZeroU32::new(12_000),
            warm_wcu: NonZeroU32::new(4_000),
            ..Limits::default()
        };
        let table = json!({
            "TableName": "Flights",
            "CreationDateTime": 1_795_169_410.123,
            "GlobalSecondaryIndexes": [{ "IndexName": "ByDay" }],
        });
        for operation in ["CreateTable", "DeleteTable", "DescribeTable", "UpdateTable"] {
            let table = described(&table, operation, &new);
            assert_eq!(table["WarmThroughput"], warm(12_000, 4_000), "{operation}");
            assert_eq!(table["GlobalSecondaryIndexes"][0]["WarmThroughput"], warm(12_000, 4_000));
            assert_eq!(table["CreationDateTime"], 1_795_169_410.123, "the rest stays");
        }
        let table = described(&table, "DescribeTable", &Limits::default());
        assert_eq!(table["WarmThroughput"], warm(4_096 * 3_000, 4_096 * 1_000), "all partitions");
        let provisioned = json!({ "ReadCapacityUnits": 5, "WriteCapacityUnits": 9_000 });
        let table = json!({ "ProvisionedThroughput": provisioned });
        let table = described(&table, "DescribeTable", &new);
        assert_eq!(table["WarmThroughput"], warm(12_000, 9_000));
        assert_eq!(table.get("GlobalSecondaryIndexes"), None);
    }

    #[test]
    fn other_answers_stay_as_they_are() {
        assert_eq!(describe("GetItem", br#"{"Table":{}}"#, &Limits::default()), None);
        assert_eq!(describe("DescribeTable", b"{}", &Limits::default()), None);
    }
}
