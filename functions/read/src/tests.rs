//! The read function over tables in memory, from the event to the answer.

mod activity;
mod bad_input;
mod caches;
mod contract;
mod fields;
mod fuzz;
mod golden;
mod grants;
mod in_body;
mod indexes;

use std::time::Duration;

use dynashard_core::ports::{Change, Clock, RecordStore};
use dynashard_core::{
    Addition, Bounds, Bucket, Deadline, DecisionHistory, DecisionRecord, LedgerKind, Measures,
    Reader, Span, Writer,
};
use dynashard_keys::{ItemKey, PartitionKey, SortKey};
use dynashard_testkit::block_on;

use crate::handler::ReadHandler;
use dynashard_eventkit::World;

fn handler(world: &World) -> ReadHandler {
    ReadHandler::new(Reader::new(world.directory()), world.admission.clone())
}

fn ewr() -> PartitionKey {
    PartitionKey::new("EWR").expect("a partition key")
}

/// The flights, while clients ask for more of one collection than its shards take.
fn throttled() -> World {
    let world = World::of_flights();
    add(&world, LedgerKind::Heat, Span::Second, &[5, 4, 3, 2]);
    let (at_secs, from) = (1_356_998_350, 4);
    let before = DecisionRecord { at_secs, last_secs: at_secs, from, ..decision() };
    // A decision that is made again keeps its place.
    let records = vec![decision(), before];
    let history = DecisionHistory { rev: 2, records };
    let seen = DecisionHistory::default();
    block_on(world.memory.commit(&[Change::of_decisions(&ewr(), &seen, history)]))
        .expect("it is saved");
    world
}

/// A counter from which somebody has taken.
fn counting() -> World {
    let world = World::of_flights();
    let writer = Writer::new(world.directory());
    let key = ItemKey::new(ewr(), SortKey::string("seats").expect("a sort key"));
    let bounds = Bounds { min: Some(0), max: Some(150) };
    for amount in [150, -32] {
        let deadline = Deadline::after(world.clock.now(), Duration::from_secs(5));
        block_on(writer.add_to_counter(&key, amount, bounds, deadline)).expect("it is added");
    }
    world
}

/// Adds 12,000 write units, and some read units, to each of the spans that began so many spans ago.
fn add(world: &World, kind: LedgerKind, span: Span, ago: &[u32]) {
    let now = world.clock.now().wall;
    let length = Duration::from_secs(span.secs());
    let added = ago.iter().map(|ago| {
        let (write_units, get_units, query_units) = (12_000.0, 30.0, 6.0);
        let measures = Measures { write_units, get_units, query_units, ..Measures::default() };
        (Bucket::of(span, now.saturating_sub(length * *ago)), measures)
    });
    let addition = Addition { added: added.collect(), ..Addition::default() };
    block_on(world.memory.add(&ewr(), kind, &addition)).expect("it is added");
}

fn decision() -> DecisionRecord {
    DecisionRecord {
        at_secs: 1_356_998_330,
        last_secs: 1_356_998_390,
        times: 2,
        by: "writer".to_owned(),
        diagnosis: "hot_key".to_owned(),
        access: "write".to_owned(),
        action: "grow".to_owned(),
        outcome: "dry_run".to_owned(),
        from: 8,
        to: Some(32),
        demand: 12_000,
        granted: 7_900,
        capacity: 8_000,
        reason: "clients ask for 12000 write units a second, and its shards take 8000; it grows from 8 to 32"
            .to_owned(),
        ..DecisionRecord::default()
    }
}
