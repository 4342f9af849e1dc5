//! What the engine says of streams that DynamoDB does not.

use bytes::Bytes;
use serde_json::Value;

/// The answer to this operation as DynamoDB would have it; `None` where it is so already.
pub(super) fn describe(operation: &str, answer: &[u8]) -> Option<Bytes> {
    let is_about_streams = matches!(operation, "DescribeStream" | "GetRecords");
    let mut answer: Value = is_about_streams.then(|| serde_json::from_slice(answer).ok())??;
    let is_other = if operation == "DescribeStream" {
        // The one shard that a stream has never ends.
        let shards = answer["StreamDescription"]["Shards"].as_array_mut()?;
        let ranges = shards.iter_mut().filter_map(|it| it["SequenceNumberRange"].as_object_mut());
        ranges.filter_map(|range| range.remove("EndingSequenceNumber")).count() > 0
    } else {
        let records = answer["Records"].as_array_mut()?;
        let came = records.len();
        records.retain(tells_of_a_change);
        records.len() < came
    };
    is_other.then(|| answer.to_string().into())
}

/// Whether a record tells of a change, as far as its images show: a write that leaves an item as it was makes none (Developer Guide:
/// "Change data capture for DynamoDB Streams").
pub(crate) fn tells_of_a_change(record: &Value) -> bool {
    let of = &record["dynamodb"];
    record["eventName"] != "MODIFY" || of["OldImage"].is_null() || of["OldImage"] != of["NewImage"]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn described(operation: &str, answer: &Value) -> Value {
        let answer = describe(operation, answer.to_string().as_bytes()).expect("an answer");
        serde_json::from_slice(&answer).expect("JSON")
    }

    /// Whoever reads only shards that are open read none.
    #[test]
    fn regression_the_open_shard_of_a_stream_had_an_end() {
        let shards = |range: Value| json!({ "StreamDescription": { "Shards": [{ "ShardId": "1", "SequenceNumberRange": range }] } });
        let ended = shards(json!({ "StartingSequenceNumber": "1", "EndingSequenceNumber": "9" }));
        let open = shards(json!({ "StartingSequenceNumber": "1" }));
        assert_eq!(described("DescribeStream", &ended), open);
        for (operation, as_it_is) in [("DescribeStream", open), ("ListStreams", json!({}))] {
            assert_eq!(describe(operation, as_it_is.to_string().as_bytes()), None, "{operation}");
        }
    }

    #[test]
    fn regression_a_write_that_changed_nothing_made_a_record() {
        let record = |name: &str, old: Value, new: Value| json!({ "eventName": name, "dynamodb": { "OldImage": old, "NewImage": new } });
        let (one, two) = (json!({ "a": { "N": "1" } }), json!({ "a": { "N": "2" } }));
        let kept = [
            record("INSERT", Value::Null, one.clone()),
            record("MODIFY", one.clone(), two.clone()),
            json!({ "eventName": "MODIFY", "dynamodb": { "Keys": {} } }),
        ];
        let mut all = kept.to_vec();
        all.insert(1, record("MODIFY", two.clone(), two));
        let answer = described("GetRecords", &json!({ "Records": all, "NextShardIterator": "n" }));
        assert_eq!(answer, json!({ "Records": kept, "NextShardIterator": "n" }));
    }
}
