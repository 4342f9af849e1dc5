//! Items that expire while a reshard moves them: DynamoDB deletes them by itself, wherever they lie.

use std::time::Duration;

use dynashard_core::ports::Consistency;
use dynashard_core::query::{PageBudget, Query};
use dynashard_core::{
    AttributeValue, Code, CollectionMetadata, FindingKind, NewItem, Phase, Precondition, Repair,
    Settings, Tally, Verification, VerifyObserver, VerifyOptions, Writer,
};
use dynashard_keys::Placement;
use dynashard_testkit::block_on;

use crate::reshard::MOVES;
use crate::world::{
    World, attributes, code, count, home, key, metadata, partition, stored, usual_settings,
};

const TTL: &str = "expires";

struct Ignored;

impl VerifyObserver for Ignored {
    fn found(&mut self, _: &dynashard_core::Finding) {}

    fn progress(&mut self, _: &Verification) {}
}

/// A collection in `move` from one shard to two, with an item at its old home.
fn in_move() -> World {
    let ttl_attribute = Some(TTL.to_owned());
    let world = World::with(Settings { ttl_attribute, ..usual_settings() });
    assert_ne!(home(MOVES, 1), home(MOVES, 2), "the name was chosen so");
    let phase = Phase::Move { from: count(1), to: count(2) };
    let metadata = CollectionMetadata { phase, ..metadata(2, 2, Placement::Xxh64) };
    world.memory.place_metadata(metadata);
    world.memory.place(&home(MOVES, 1), stored("before", 1));
    world
}

fn put(world: &World, expires: bool) {
    let mut attributes = attributes("new");
    if expires {
        attributes.insert(TTL.to_owned(), AttributeValue::Number(1_356_998_400_u64.into()));
    }
    let item = NewItem::new(key(MOVES), attributes, &usual_settings().schema);
    let item = item.expect("an item");
    let writer = world.writer();
    block_on(writer.put(&item, Precondition::None, world.deadline())).expect("a put");
}

/// A service was connected when items did not expire yet. What it put afterwards hid an old copy, which showed again when the
/// item expired, for good.
#[test]
fn regression_a_process_that_had_begun_before_items_expired_let_them_uncover_what_they_replaced() {
    let mut settings = usual_settings();
    let world = in_move();
    let old = world.directory_of(settings.clone()).pinning();
    block_on(old.lease().hold(world.deadline())).expect("it connects");
    settings.ttl_attribute = Some(TTL.to_owned());
    let new = world.directory_of(settings).pinning();
    block_on(new.lease().hold(world.deadline()))
        .expect("a function that is deployed with the attribute");
    // T' later the old one has read what the new one has pinned.
    world.clock.advance(dynashard_core::leases_end(crate::world::LEASE));
    let mut attributes = attributes("new");
    attributes.insert(TTL.to_owned(), AttributeValue::Number(1_356_998_400_u64.into()));
    let item = NewItem::new(key(MOVES), attributes, &usual_settings().schema);
    let (item, writer) = (item.expect("an item"), Writer::new(old));
    block_on(writer.put(&item, Precondition::None, world.deadline())).expect("a put");
    let marker = world.memory.stored(&home(MOVES, 1)).expect("a marker");
    assert!(!marker.is_live());
}

#[test]
fn regression_an_item_that_expired_uncovered_the_one_that_its_put_had_gone_past() {
    let world = in_move();
    put(&world, true);
    let marker = world.memory.stored(&home(MOVES, 1)).expect("a marker");
    assert!(!marker.is_live() && marker.attributes.is_empty(), "a marker must not expire");
    // DynamoDB deletes without a condition, and leaves nothing behind.
    world.memory.remove(&home(MOVES, 2));

    let reader = world.reader();
    let got = block_on(reader.get(&key(MOVES), None, Consistency::Strong, world.deadline()));
    assert_eq!(code(got), Code::ItemNotFound);
    let query = Query::all(partition());
    let page = block_on(reader.query(&query, PageBudget::UNLIMITED, world.deadline()));
    assert_eq!(page.expect("a page").items, []);
}

#[test]
fn a_put_that_does_not_expire_goes_past_the_old_home() {
    let world = in_move();
    put(&world, false);
    assert_eq!(world.stored(&home(MOVES, 1)), Some("before".to_owned()));
    assert_eq!(world.memory.requests().writes, 1);
}

/// As a function that was not told of the attribute may have left it.
#[test]
fn verify_finds_what_an_item_that_expires_would_uncover_and_repairs_it() {
    let world = in_move();
    let mut item = stored("new", 2);
    item.attributes.insert(TTL.to_owned(), AttributeValue::Number(1_356_998_400_u64.into()));
    world.memory.place(&home(MOVES, 2), item);
    for (repair, repaired) in [(Repair::Nothing, 0), (Repair::Certain, 1)] {
        let options =
            VerifyOptions { repair, patience: Duration::from_mins(1), ..VerifyOptions::default() };
        let verifier = world.verifier();
        let report = block_on(verifier.verify(&partition(), options, &mut Ignored));
        let findings = report.expect("a report").findings;
        assert_eq!(findings[&FindingKind::HiddenByExpiring], Tally { found: 1, repaired });
        assert_eq!(findings.len(), 1);
    }
    assert!(world.memory.stored(&home(MOVES, 1)).is_some_and(|marker| !marker.is_live()));
    assert_eq!(world.stored(&home(MOVES, 2)), Some("new".to_owned()));
}
