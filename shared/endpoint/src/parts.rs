//! What the parts of batches and transactions ask of their collections, of which the ledgers are told as of single requests.

use dynashard_core::{Deadline, Fate, Throttle};
use dynashard_keys::ItemKey;
use futures_util::future::{FutureExt, join_all};
use serde_json::Value;

use crate::call::Answer;
use crate::document::Members;
use crate::outcome::refused_by_limit;
use crate::table::ManagedTable;
use crate::value;

/// A request on an item of a managed table.
pub(crate) struct Part<'a> {
    pub(crate) table: &'a ManagedTable,
    pub(crate) key: ItemKey,
}

/// How many times as much a transaction takes as single requests (DynamoDB Developer Guide, "Read/write capacity for transactions").
const TRANSACTION: f64 = 2.0;

/// Takes note of the actions of a transaction, by their places in it, and of what this answer says of each. Nothing else was carried
/// out.
pub(crate) async fn note_writes(
    actions: Vec<(usize, Part<'_>, &Members)>,
    answer: &Answer,
    deadline: Deadline,
) {
    let Some(fates) = Fates::of(answer) else { return };
    let notes = actions.iter().map(|(at, Part { table, key }, action)| {
        let (requests, fate) = (table.requests(), fates.at(*at));
        let units = TRANSACTION * value::units_of_write(action);
        async move { requests.writer().took_part(key, units, fate, deadline).await }.boxed()
    });
    join_all(notes).await;
}

/// As [`note_writes`], of reads.
pub(crate) async fn note_reads(gets: Vec<(usize, Part<'_>, &Members)>, answer: &Answer) {
    let Some(fates) = Fates::of(answer) else { return };
    let members = answer.members();
    let found = members.get("Responses").and_then(Value::as_array);
    let reads = gets.into_iter().map(|(at, part, _)| {
        let item = found.and_then(|found| found.get(at)?["Item"].as_object());
        (part, TRANSACTION * units_of_read(item.map_or(0, value::bytes)), fates.at(at))
    });
    note_each_read(reads.collect()).await;
}

/// Takes note of the reads of a batch on these tables, as far as the answer tells of them: its members, or why nothing was read.
/// What it leaves over may have met a limit, or not.
pub(crate) async fn note_batch(
    body: &Members,
    tables: &[(&str, &ManagedTable)],
    answer: Result<&Members, &Answer>,
) {
    let mut reads = Vec::new();
    for (name, table) in tables {
        let request = body.get("RequestItems").map(|tables| &tables[*name]);
        let Some(request) = request else { continue };
        let keys = keys_in(table, &request["Keys"]);
        let members = match answer {
            Ok(members) => members,
            Err(refused) => {
                let Some(throttle) = refused_by_limit(refused) else { return };
                let part = |key| (Part { table, key }, 1.0, Fate::Throttled(throttle.clone()));
                reads.extend(keys.into_iter().map(part));
                continue;
            }
        };
        let left = members.get("UnprocessedKeys").map(|tables| &tables[*name]["Keys"]);
        let left = left.map(|left| keys_in(table, left)).unwrap_or_default();
        let keys = keys.into_iter().filter(|key| !left.contains(key)).collect::<Vec<_>>();
        let items = members.get("Responses").and_then(|tables| tables[*name].as_array());
        let items = items.into_iter().flatten().filter_map(Value::as_object);
        let bytes = items.map(value::bytes).sum::<usize>() / keys.len().max(1);
        let each = if request["ConsistentRead"] == true { 1.0 } else { 0.5 };
        let part = |key| (Part { table, key }, each * units_of_read(bytes), Fate::Done);
        reads.extend(keys.into_iter().map(part));
    }
    note_each_read(reads).await;
}

/// The keys of a list that are some of this table.
fn keys_in(table: &ManagedTable, keys: &Value) -> Vec<ItemKey> {
    let keys = keys.as_array().into_iter().flatten().filter_map(Value::as_object);
    keys.filter_map(|key| table.key_of(key).ok().flatten()).collect()
}

/// One for each 4 KB.
fn units_of_read(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes.div_ceil(4_096).max(1)).unwrap_or(u32::MAX))
}

async fn note_each_read(reads: Vec<(Part<'_>, f64, Fate)>) {
    let notes = reads.iter().map(|(Part { table, key }, units, fate)| {
        let (requests, fate) = (table.requests(), fate.clone());
        async move { requests.reader().took_part(key, *units, fate).await }.boxed()
    });
    join_all(notes).await;
}

/// What became of the parts of a request.
enum Fates {
    /// One for all of them.
    All(Fate),
    /// By their places.
    Each(Vec<Fate>),
}

impl Fates {
    /// `None` of what DynamoDB calls wrong, or of what is unknown.
    fn of(answer: &Answer) -> Option<Self> {
        if answer.is_success() {
            return Some(Self::All(Fate::Done));
        }
        if let Some(throttle) = refused_by_limit(answer) {
            return Some(Self::All(Fate::Throttled(throttle)));
        }
        if !answer.is_error("TransactionCanceledException") {
            return None;
        }
        let members = answer.members();
        let reasons = members.get("CancellationReasons").and_then(Value::as_array);
        let mut fates = reasons.into_iter().flatten().map(fate).collect::<Vec<_>>();
        let is_repeated = |fate: &Fate| matches!(fate, Fate::Throttled(_) | Fate::Cancelled);
        if fates.iter().any(is_repeated) {
            let others = fates.iter_mut().filter(|fate| **fate == Fate::Refused);
            others.for_each(|fate| *fate = Fate::Cancelled);
        }
        Some(Self::Each(fates))
    }

    fn at(&self, place: usize) -> Fate {
        match self {
            Self::All(fate) => fate.clone(),
            Self::Each(fates) => fates.get(place).cloned().unwrap_or(Fate::Refused),
        }
    }
}

/// What a reason says of its action. It does not name the limit that was met, so that of a partition is taken, which growth relieves if
/// the ledgers say that the collection is full.
fn fate(reason: &Value) -> Fate {
    let text = |name: &str| reason[name].as_str().unwrap_or_default();
    match text("Code") {
        "ThrottlingError" | "ProvisionedThroughputExceeded" => {
            let is_of_index = text("Message").contains("secondary index");
            Fate::Throttled(of_partition(if is_of_index { "IndexWrite" } else { "TableWrite" }))
        }
        "TransactionConflict" => Fate::Cancelled,
        _ => Fate::Refused,
    }
}

fn of_partition(what: &str) -> Throttle {
    Throttle::from_reason(&format!("{what}KeyRangeThroughputExceeded"), None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fates(status: u16, body: &Value) -> Option<Vec<Fate>> {
        let fates = Fates::of(&Answer::own(status, body.to_string()))?;
        Some((0..3).map(|at| fates.at(at)).collect())
    }

    #[test]
    fn what_became_of_each_part_is_what_the_answer_says() {
        assert_eq!(fates(200, &json!({})), Some(vec![Fate::Done; 3]));
        assert_eq!(fates(500, &json!({})), None);
        assert_eq!(fates(400, &json!({ "__type": "x#ValidationException" })), None);
        let throttle = of_partition("TableWrite");
        let reasons = json!([{ "reason": "TableWriteKeyRangeThroughputExceeded" }]);
        let body = json!({ "__type": "x#ThrottlingException", "throttlingReasons": reasons });
        assert_eq!(fates(400, &body), Some(vec![Fate::Throttled(throttle.clone()); 3]));
        let index = of_partition("IndexWrite");
        let cancelled = json!({ "__type": "x#TransactionCanceledException", "CancellationReasons": [
            { "Code": "ThrottlingError", "Message": "the table" }, { "Code": "None" },
            { "Code": "ThrottlingError", "Message": "one or more global secondary indexes" },
        ] });
        let expected = [Fate::Throttled(throttle), Fate::Cancelled, Fate::Throttled(index)];
        assert_eq!(fates(400, &cancelled), Some(expected.to_vec()));
        for (code, fate) in
            [("ConditionalCheckFailed", Fate::Refused), ("TransactionConflict", Fate::Cancelled)]
        {
            let reasons = json!([{ "Code": "None" }, { "Code": code }, { "Code": "None" }]);
            let body = json!({ "__type": "x#TransactionCanceledException", "CancellationReasons": reasons });
            assert_eq!(fates(400, &body), Some(vec![fate; 3]), "{code}");
        }
    }
}
