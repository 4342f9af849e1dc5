//! The sizes of index keys, which the engine does not look at: an item that an index would hold under a key that is too
//! long is not written (DynamoDB Developer Guide: "Detecting and correcting index key violations").

use dynashard_limits::capacity::Index;
use serde_json::Value;

use super::call::Verb;
use super::cost::ItemWork;
use super::dry_run::DryRun;
use super::job::ItemsJob;
use super::refusal::Refusal;
use super::tables::Table;

/// Of a partition key, in bytes.
const MAX_PARTITION_KEY: usize = 2_048;

/// Of a sort key, in bytes.
const MAX_SORT_KEY: usize = 1_024;

/// The refusal of a request that would write such an item. Blocks.
pub(super) fn check(
    dry_run: &DryRun,
    operation: &str,
    body: &[u8],
    items: &ItemsJob,
) -> Result<(), Refusal> {
    let works = &items.works;
    let mut violations = works.iter().map(of_put).collect::<Vec<_>>();
    if works.iter().any(|work| may_update_one(work, body)) {
        dry_run.look_at_updates(operation, body, works, |at, table, item| {
            violations[at] = violation(table, item);
        });
    }
    match violations.iter().flatten().next() {
        None => Ok(()),
        Some(_) if items.is_transactional() => {
            let reason =
                |violation: &Option<_>| violation.map(|message| ("ValidationError", message));
            Err(Refusal::cancelled(&violations.iter().map(reason).collect::<Vec<_>>()))
        }
        Some(message) => Err(Refusal::invalid(*message)),
    }
}

fn of_put(work: &ItemWork) -> Option<&'static str> {
    let target = work.target.as_ref().filter(|_| work.action.verb == Verb::Put)?;
    violation(&target.table, &work.action.image)
}

/// Whether an update could lead to one, so that it has to be tried out.
fn may_update_one(work: &ItemWork, body: &[u8]) -> bool {
    let is_long = |item: &Value, name: &String| size(item, name) > MAX_SORT_KEY;
    let target = work.target.as_ref().filter(|_| work.is_update());
    target.is_some_and(|target| {
        indexes(&target.table).any(|index| {
            let mut names = index.partition_key.iter().chain(&index.sort_key);
            body.len() > MAX_SORT_KEY
                || target.before.as_ref().is_some_and(|item| names.any(|name| is_long(item, name)))
        })
    })
}

fn violation(table: &Table, item: &Value) -> Option<&'static str> {
    indexes(table).find_map(|index| {
        let mut names = index.partition_key.iter().chain(&index.sort_key);
        if !names.all(|name| item.get(name).is_some()) {
            return None;
        }
        if index.partition_key.iter().any(|name| size(item, name) > MAX_PARTITION_KEY) {
            return Some(
                "One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes",
            );
        }
        let of_sort_key = index.sort_key.iter().map(|name| size(item, name)).sum::<usize>();
        (of_sort_key > MAX_SORT_KEY).then_some(
            "One or more parameter values were invalid: Aggregated size of all range keys has exceeded the size limit of 1024 bytes",
        )
    })
}

fn indexes(table: &Table) -> impl Iterator<Item = &Index> {
    table.global_indexes.iter().map(|global| &global.index).chain(&table.local_indexes)
}

/// The bytes of an attribute that may be a key. Numbers are never too long.
fn size(item: &Value, name: &str) -> usize {
    let value = item.get(name);
    let text = |kind| value.and_then(|value| value.get(kind)).and_then(Value::as_str);
    match (text("S"), text("B")) {
        (Some(text), _) => text.len(),
        // Four characters of Base64 are three bytes.
        (_, Some(base64)) => base64.trim_end_matches('=').len() * 3 / 4,
        _ => 0,
    }
}
