//! A consumer of the main table's stream. Only the records of one place are in order there.

use std::collections::{BTreeMap, VecDeque};

use dynashard_core::{StoredItem, Version};
use dynashard_keys::{PhysicalKey, PhysicalPartitionKey};
use dynashard_streams::{LogicalRecord, Position, Table};
use serde_json::{Value, json};

use crate::random::Random;
use crate::world::World;

/// Whether a consumer that keeps positions ends with what the table holds, in whatever order the stream's shards are read.
pub(crate) fn inspect(world: &World) {
    let table = Table { separator: world.settings().schema.separator, ..Table::default() };
    let (expected, streams) = {
        let tables = world.network.tables();
        let streams = tables.lives().into_iter().map(|(key, lives)| {
            lives.windows(2).filter_map(|pair| record(&key, pair)).collect::<VecDeque<_>>()
        });
        let streams = streams.collect::<Vec<_>>();
        let live = tables.contents().into_iter().filter(|(_, item, _)| item.is_live());
        let live = live.filter_map(|(at, item, _)| {
            let key = PhysicalPartitionKey::parse(at.partition.as_str(), table.separator);
            Some((keys(key.ok()?.0.as_str(), &at).to_string(), item.version.get()))
        });
        (live.collect::<BTreeMap<_, _>>(), streams)
    };
    let mut consumer = Consumer::default();
    for record in interleaved(streams, &Random::new(world.kernel.trace_hash())) {
        match table.logical(record) {
            Ok(Some(told)) => consumer.take(&told),
            Ok(None) => {}
            Err(error) => {
                world.history().violations.push(format!("a record of the stream: {error}"));
            }
        }
    }
    if consumer.held != expected {
        let what = format!("a consumer of the stream holds {:?}, not {expected:?}", consumer.held);
        world.history().violations.push(what);
    }
}

/// What a consumer keeps of each logical key.
#[derive(Default)]
struct Consumer {
    /// The versions of the items.
    held: BTreeMap<String, u64>,
    positions: BTreeMap<String, Position>,
}

impl Consumer {
    fn take(&mut self, told: &LogicalRecord) {
        let key = told.record["dynamodb"]["Keys"].to_string();
        if self.positions.get(&key).is_some_and(|kept| told.position.is_overtaken_by(kept)) {
            return;
        }
        self.positions.insert(key.clone(), told.position.clone());
        if told.record["eventName"] == "REMOVE" {
            self.held.remove(&key);
        } else {
            self.held.insert(key, told.version.unwrap_or(0));
        }
    }
}

/// The record of a change, as DynamoDB makes it: none where nothing changed.
fn record(key: &PhysicalKey, pair: &[Option<StoredItem>]) -> Option<Value> {
    let [old, new] = pair else { return None };
    let event = match (old, new) {
        (old, new) if old == new => return None,
        (None, _) => "INSERT",
        (_, None) => "REMOVE",
        _ => "MODIFY",
    };
    let keys = keys(key.partition.as_str(), key);
    let mut change = json!({ "Keys": keys });
    for (name, item) in [("OldImage", old), ("NewImage", new)] {
        let Some(item) = item else { continue };
        let mut image = keys.clone();
        image["_ds_g"] = json!({ "N": item.generation.get().to_string() });
        if item.version > Version::new(0) {
            image["_ds_v"] = json!({ "N": item.version.get().to_string() });
        }
        if item.forwarded {
            image["_ds_fwd"] = json!({ "BOOL": true });
        } else {
            // Each write has put something of its own.
            image["put"] = json!({ "N": item.version.get().to_string() });
        }
        change[name] = image;
    }
    Some(json!({ "eventName": event, "dynamodb": change }))
}

fn keys(partition: &str, at: &PhysicalKey) -> Value {
    json!({ "pk": { "S": partition }, "sk": { "S": at.sort.to_string() } })
}

/// All records, in an order that keeps that of each place.
fn interleaved(mut streams: Vec<VecDeque<Value>>, random: &Random) -> Vec<Value> {
    let mut records = Vec::new();
    while !streams.is_empty() {
        let next = random.index(streams.len());
        match streams[next].pop_front() {
            Some(record) => records.push(record),
            None => drop(streams.swap_remove(next)),
        }
    }
    records
}
