//! The warm throughput of tables and their indexes, which the engine does not know: it is added to whatever describes a table.

use bytes::Bytes;
use dynashard_limits::partition::{Kind, Limits};
use serde_json::{Value, json};

/// The answer to this operation with the warm throughput; `None` where it describes no table.
pub(super) fn describe(operation: &str, answer: &[u8], limits: &Limits) -> Option<Bytes> {
    let member = match operation {
        "DescribeTable" => "Table",
        "CreateTable" | "DeleteTable" | "UpdateTable" => "TableDescription",
        _ => return None,
    };
    let mut answer: Value = serde_json::from_slice(answer).ok()?;
    let table = answer.get_mut(member)?;
    let indexes = table.get_mut("GlobalSecondaryIndexes").and_then(Value::as_array_mut);
    indexes.into_iter().flatten().for_each(|index| add(index, limits));
    add(table, limits);
    Some(answer.to_string().into())
}

/// Adds the warm throughput of a table or index. What is provisioned is warm, however much that is (Developer Guide:
/// "Understanding DynamoDB warm throughput").
fn add(resource: &mut Value, limits: &Limits) {
    let provisioned = &resource["ProvisionedThroughput"];
    let warm = |kind, units: &str| {
        limits.warm_units(kind).max(provisioned[units].as_u64().unwrap_or_default())
    };
    resource["WarmThroughput"] = json!({
        "ReadUnitsPerSecond": warm(Kind::Read, "ReadCapacityUnits"),
        "WriteUnitsPerSecond": warm(Kind::Write, "WriteCapacityUnits"),
        "Status": "ACTIVE",
    });
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
