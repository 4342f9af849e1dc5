//! The ledgers of collections, and what was decided about them, as DynamoDB holds them. The names must be kept stable.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use dynashard_core::ports::StoreError;
use dynashard_core::{Addition, DecisionHistory, DecisionRecord, Figure, Ledger};
use dynashard_keys::PartitionKey;

use crate::attributes::number;
use crate::records::codec::{Fill, Item, Reader};

/// What must be as it was seen of a history.
pub(super) const LOCK: &[&str] = &[REV];

/// The key attribute of the sparse index of decisions, and its only value.
pub const DECISIONS_INDEX_PARTITION: &str = "_ds_decisions";

const REV: &str = "rev";
const DECISIONS: &str = "decisions";

/// When DynamoDB may remove a ledger or a history, in epoch seconds: the metadata table's time to live. Nothing of the
/// protocol has it.
const EXPIRES: &str = "_ds_expires";

/// How long a ledger stays that nobody adds to. It is longer than any figure of it counts.
const LEDGER_SECS: u64 = 7 * 24 * 60 * 60;

/// How long a history stays after its last decision.
const DECISIONS_SECS: u64 = 30 * 24 * 60 * 60;

/// Reads a ledger without its key.
pub(super) fn decode_ledger(mut item: Item) -> Ledger {
    item.remove(EXPIRES);
    Ledger::of_figures(item.into_iter().map(|(name, value)| {
        let figure = match value {
            AttributeValue::N(text) => text.parse().ok().map(Figure::Sum),
            AttributeValue::Ns(texts) => {
                let numbers = texts.iter().map(|text| text.parse().ok());
                numbers.collect::<Option<_>>().map(Figure::Set)
            }
            _ => None,
        };
        (name, figure)
    }))
}

/// The update expression of an addition, with its names and values.
pub(super) fn addition(
    addition: &Addition,
) -> (String, HashMap<String, String>, HashMap<String, AttributeValue>) {
    let (mut names, mut values) = (HashMap::new(), HashMap::new());
    let mut adds = Vec::new();
    let sums = addition.figures().into_iter().map(|(name, value)| (name, number(value)));
    let sets = addition.sets().map(|(name, numbers)| {
        let numbers = numbers.iter().map(u32::to_string);
        (name, AttributeValue::Ns(numbers.collect()))
    });
    for (at, (name, value)) in sums.chain(sets).enumerate() {
        adds.push(format!("#a{at} :a{at}"));
        names.insert(format!("#a{at}"), name);
        values.insert(format!(":a{at}"), value);
    }
    let mut removes = Vec::new();
    for (at, name) in addition.expired.iter().enumerate() {
        removes.push(format!("#r{at}"));
        names.insert(format!("#r{at}"), name.clone());
    }
    let mut text = format!("ADD {}", adds.join(", "));
    if !removes.is_empty() {
        text.push_str(" REMOVE ");
        text.push_str(&removes.join(", "));
    }
    let seconds = addition.added.iter().map(|(bucket, _)| bucket);
    let seconds = seconds.chain(addition.sampled.iter().map(|(bucket, ..)| bucket));
    if let Some(newest) = seconds.map(|bucket| bucket.end_secs()).max() {
        text.push_str(" SET #e = :e");
        names.insert("#e".to_owned(), EXPIRES.to_owned());
        values.insert(":e".to_owned(), number(newest.saturating_add(LEDGER_SECS)));
    }
    (text, names, values)
}

pub(super) fn encode_decisions(history: &DecisionHistory) -> Item {
    let records = history.records.iter().map(|record| {
        let mut record = record.clone();
        let mut fields = Item::new();
        for (name, field) in texts(&mut record) {
            fields.put(name, field);
        }
        for (name, field) in numbers(&mut record) {
            fields.put(name, field);
        }
        for (name, field) in optional_texts(&mut record) {
            fields.put_if_any(name, field.as_ref());
        }
        for (name, field) in optional_numbers(&mut record) {
            fields.put_if_any(name, field.as_ref());
        }
        AttributeValue::M(fields)
    });
    let last_secs = history.records.iter().map(|record| record.last_secs).max().unwrap_or_default();
    let mut item = Item::from([(DECISIONS.to_owned(), AttributeValue::L(records.collect()))]);
    item.put(REV, &history.rev);
    item.put(EXPIRES, &last_secs.saturating_add(DECISIONS_SECS));
    item.put(DECISIONS_INDEX_PARTITION, &DECISIONS_INDEX_PARTITION.to_owned());
    item
}

pub(super) fn decode_decisions(
    partition: &PartitionKey,
    item: &Item,
) -> Result<DecisionHistory, StoreError> {
    let what = format!("the item of the decisions about {partition:?}");
    let whole = Reader { what: &what, item };
    let rev = whole.get(REV)?;
    let Some(AttributeValue::L(list)) = item.get(DECISIONS) else {
        return Err(whole.wrong(DECISIONS, "is missing or is not a list"));
    };
    let records = list.iter().map(|value| {
        let item = value.as_m().map_err(|_| whole.wrong(DECISIONS, "holds what is not a map"))?;
        let fields = Reader { item, ..whole };
        let mut record = DecisionRecord::default();
        for (name, field) in texts(&mut record) {
            *field = fields.get(name)?;
        }
        for (name, field) in numbers(&mut record) {
            *field = fields.get(name)?;
        }
        // What cannot be read of these is left out.
        for (name, field) in optional_texts(&mut record) {
            *field = fields.optional(name).unwrap_or_default();
        }
        for (name, field) in optional_numbers(&mut record) {
            *field = fields.optional(name).unwrap_or_default();
        }
        Ok(record)
    });
    let records = records.collect::<Result<Vec<_>, StoreError>>()?;
    Ok(DecisionHistory { rev, records })
}

fn texts(record: &mut DecisionRecord) -> [(&'static str, &mut String); 6] {
    [
        ("by", &mut record.by),
        ("diagnosis", &mut record.diagnosis),
        ("access", &mut record.access),
        ("action", &mut record.action),
        ("outcome", &mut record.outcome),
        ("reason", &mut record.reason),
    ]
}

fn numbers(record: &mut DecisionRecord) -> [(&'static str, &mut u64); 7] {
    [
        ("at", &mut record.at_secs),
        ("last", &mut record.last_secs),
        ("times", &mut record.times),
        ("from", &mut record.from),
        ("demand", &mut record.demand),
        ("granted", &mut record.granted),
        ("capacity", &mut record.capacity),
    ]
}

fn optional_texts(record: &mut DecisionRecord) -> [(&'static str, &mut Option<String>); 2] {
    [("hindrance", &mut record.hindrance), ("bound", &mut record.bound)]
}

fn optional_numbers(record: &mut DecisionRecord) -> [(&'static str, &mut Option<u64>); 2] {
    [("to", &mut record.to), ("hottest_percent", &mut record.hottest_percent)]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dynashard_core::{Bucket, Measures, Span};

    use super::*;

    /// Every cold key that was ever throttled left both of its items for good.
    #[test]
    fn regression_ledgers_and_decisions_stayed_for_good() {
        let bucket = Bucket::of(Span::Hour, Duration::from_secs(1_795_221_008));
        let measures = Measures { reports: 1.0, ..Measures::default() };
        let added = Addition { added: vec![(bucket, measures)], ..Addition::default() };
        let (text, names, values) = addition(&added);
        assert!(text.ends_with(" SET #e = :e"), "{text}");
        assert_eq!(names["#e"], "_ds_expires");
        assert_eq!(values[":e"], number(bucket.end_secs() + 7 * 86_400));
        let record = DecisionRecord { last_secs: 1_795_221_008, ..DecisionRecord::default() };
        let history = DecisionHistory { rev: 1, records: vec![record] };
        let item = encode_decisions(&history);
        assert_eq!(item["_ds_expires"], number(1_795_221_008_u64 + 30 * 86_400));
        let partition = PartitionKey::new("EWR").expect("a key");
        assert_eq!(decode_decisions(&partition, &item).expect("a history"), history);
    }

    /// What an environment writes down that is not drawn to report made an item without an end.
    #[test]
    fn regression_a_ledger_of_a_sample_alone_stayed_for_good() {
        let bucket = Bucket::of(Span::Second, Duration::from_secs(1_795_221_008));
        let sampled = vec![(bucket, 3, [7].into())];
        let (text, ..) = addition(&Addition { sampled, ..Addition::default() });
        assert!(text.ends_with(" SET #e = :e"), "{text}");
    }

    #[test]
    fn the_expiry_of_a_ledger_is_none_of_its_figures() {
        let item = Item::from([(EXPIRES.to_owned(), number(1_u64))]);
        assert_eq!(decode_ledger(item), Ledger::default());
    }
}
