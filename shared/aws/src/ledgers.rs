//! How the metadata table stores the ledgers of collections, and what was decided about them.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use dynashard_core::ports::StoreError;
use dynashard_core::{Addition, DecisionHistory, DecisionRecord, Figure, Ledger, LedgerKind};
use dynashard_keys::PartitionKey;

use crate::attributes::number;

/// The attributes of an item with decisions. Must be kept stable.
pub(crate) const REV: &str = "rev";
const DECISIONS: &str = "decisions";

type Item = HashMap<String, AttributeValue>;

/// The key of a ledger, as text.
pub(crate) fn ledger_key(partition: &PartitionKey, kind: LedgerKind) -> String {
    format!("{}{partition}", kind.key_prefix())
}

/// The key of a collection's decisions, as text.
pub(crate) fn decisions_key(partition: &PartitionKey) -> String {
    format!("{}{partition}", DecisionHistory::KEY_PREFIX)
}

/// Reads a ledger without its key.
pub(crate) fn decode_ledger(item: Item) -> Ledger {
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
pub(crate) fn addition(
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
    (text, names, values)
}

/// The whole item of a history, without its key.
pub(crate) fn encode_decisions(history: &DecisionHistory) -> Item {
    let records = history.records.iter().map(|record| {
        let mut record = record.clone();
        let mut fields = Item::new();
        for (name, field) in texts(&mut record) {
            fields.insert(name.to_owned(), AttributeValue::S(field.clone()));
        }
        for (name, field) in numbers(&mut record) {
            fields.insert(name.to_owned(), number(*field));
        }
        for (name, field) in optional_texts(&mut record) {
            fields.extend(field.clone().map(|text| (name.to_owned(), AttributeValue::S(text))));
        }
        for (name, field) in optional_numbers(&mut record) {
            fields.extend(field.map(|value| (name.to_owned(), number(value))));
        }
        AttributeValue::M(fields)
    });
    Item::from([
        (REV.to_owned(), number(history.rev)),
        (DECISIONS.to_owned(), AttributeValue::L(records.collect())),
    ])
}

/// Reads a history. The error names the wrong field.
pub(crate) fn decode_decisions(
    partition: &PartitionKey,
    item: &Item,
) -> Result<DecisionHistory, StoreError> {
    let wrong = |field: &str| {
        let what = format!("the decisions of {partition:?} are damaged: {field}");
        StoreError::Corrupt(what)
    };
    let rev = number_of(item, REV).ok_or_else(|| wrong(REV))?;
    let Some(AttributeValue::L(list)) = item.get(DECISIONS) else { return Err(wrong(DECISIONS)) };
    let records = list.iter().map(|value| {
        let fields = value.as_m().map_err(|_| wrong(DECISIONS))?;
        let mut record = DecisionRecord::default();
        for (name, field) in texts(&mut record) {
            *field = text_of(fields, name).ok_or_else(|| wrong(name))?;
        }
        for (name, field) in numbers(&mut record) {
            *field = number_of(fields, name).ok_or_else(|| wrong(name))?;
        }
        for (name, field) in optional_texts(&mut record) {
            *field = text_of(fields, name);
        }
        for (name, field) in optional_numbers(&mut record) {
            *field = number_of(fields, name);
        }
        Ok(record)
    });
    Ok(DecisionHistory { rev, records: records.collect::<Result<Vec<_>, StoreError>>()? })
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

fn text_of(fields: &Item, name: &str) -> Option<String> {
    fields.get(name).and_then(|value| value.as_s().ok()).cloned()
}

fn number_of(fields: &Item, name: &str) -> Option<u64> {
    fields.get(name).and_then(|value| value.as_n().ok()).and_then(|text| text.parse().ok())
}
