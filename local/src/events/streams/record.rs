//! One record of a stream, in the shape that Lambda gives it in its event.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde_json::Value;

use crate::plan::REGION;

/// A record on its way to the function.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) sequence_number: String,
    /// When the change was made, to the second (`ApproximateCreationDateTime`).
    pub(super) created: SystemTime,
    /// One number for all records of one item.
    item: u64,
    /// The record as the event carries it.
    json: String,
}

impl Record {
    /// Reads a record to which [`shaped`] has given its shape; nothing where it lacks what every
    /// record has.
    pub(super) fn read(shaped: &Value) -> Option<Self> {
        let change = &shaped["dynamodb"];
        let created_secs = change["ApproximateCreationDateTime"].as_f64()?;
        let mut item = DefaultHasher::new();
        change["Keys"].to_string().hash(&mut item);
        Some(Self {
            sequence_number: change["SequenceNumber"].as_str()?.to_owned(),
            created: SystemTime::UNIX_EPOCH + Duration::try_from_secs_f64(created_secs).ok()?,
            item: item.finish(),
            json: shaped.to_string(),
        })
    }

    /// Which of `count` lanes the record belongs to: one item is always in the same lane.
    pub(super) fn lane(&self, count: usize) -> usize {
        // The remainder is less than the count, which is a usize.
        usize::try_from(self.item % (count.max(1) as u64)).unwrap_or_default()
    }

    /// How many bytes it takes in an event.
    pub(super) fn len(&self) -> usize {
        self.json.len()
    }
}

/// Gives a record of the engine's `GetRecords` the shape of one in a Lambda event: "Example
/// DynamoDB Streams record event" in Lambda's developer guide.
pub(super) fn shaped(mut record: Value, stream_arn: &str) -> Value {
    record["eventSourceARN"] = stream_arn.into();
    // The engine names a region of its own.
    record["awsRegion"] = REGION.into();
    let created = &mut record["dynamodb"]["ApproximateCreationDateTime"];
    // Seconds without a fraction, as Lambda writes them.
    if let Some(secs) = created.as_f64()
        && let Ok(age) = Duration::try_from_secs_f64(secs)
    {
        *created = age.as_secs().into();
    }
    record
}

/// The event for a batch.
pub(super) fn event(batch: &[Record]) -> Bytes {
    let records: Vec<&str> = batch.iter().map(|record| record.json.as_str()).collect();
    format!("{{\"Records\":[{}]}}", records.join(",")).into()
}

#[cfg(test)]
pub(super) mod testing {
    use serde_json::json;

    use super::{Record, shaped};

    /// A record of the item `key` with the given sequence number, made at a second since the epoch.
    pub(in crate::events::streams) fn record(key: &str, number: u32, created_secs: u64) -> Record {
        let record = json!({
            "eventID": number.to_string(),
            "eventName": "INSERT",
            "dynamodb": {
                "ApproximateCreationDateTime": created_secs,
                "Keys": { "pk": { "S": key } },
                "SequenceNumber": number.to_string(),
            },
        });
        Record::read(&shaped(record, "arn")).expect("a record")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::testing::record;
    use super::*;

    #[test]
    fn one_item_is_always_in_the_same_lane_and_several_items_in_several() {
        let lane = |key: &str, number: u32| record(key, number, 0).lane(4);
        assert_eq!(lane("a", 1), lane("a", 2));
        let lanes: std::collections::BTreeSet<_> =
            (0..50).map(|item| lane(&item.to_string(), 1)).collect();
        assert_eq!(lanes.len(), 4);
    }

    #[test]
    fn a_record_without_a_required_member_is_refused() {
        for change in [
            json!({ "SequenceNumber": "1" }),
            json!({ "ApproximateCreationDateTime": 1 }),
            json!({ "ApproximateCreationDateTime": -1, "SequenceNumber": "1" }),
        ] {
            assert!(Record::read(&json!({ "dynamodb": change })).is_none(), "{change}");
        }
    }
}
