//! Puts, patches and deletes.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use dynashard_core::ports::{Clock, Consistency, StoreError};
use dynashard_core::{
    AttributeValue, Attributes, Code, CollectionMetadata, Error, Generation, MAX_ITEM_BYTES,
    Precondition, Version, Writer, Written,
};
use dynashard_keys::{Placement, ShardId};
use dynashard_testkit::{Fault, Operation, Requests, block_on};

use crate::world::{
    LEASE, TIMEOUT, World, attributes, code, home, in_shard, in_shard_of, key, marker, metadata,
    outcome_unknown, partition, shard, stored, text_of,
};

const NONE: Precondition = Precondition::None;

fn put(world: &World, writer: &Writer, sk: &str, text: &str) {
    let item = world.new_item(sk, text);
    block_on(writer.put(&item, NONE, world.deadline())).expect("a put");
}

type Result = std::result::Result<Written, Error>;

fn result_of_put(world: &World, writer: &Writer, precondition: Precondition) -> Result {
    block_on(writer.put(&world.new_item("a", "new"), precondition, world.deadline()))
}

fn put_code(world: &World, writer: &Writer, precondition: Precondition) -> Code {
    code(result_of_put(world, writer, precondition))
}

fn result_of_patch(world: &World, writer: &Writer, precondition: Precondition) -> Result {
    block_on(writer.patch(&key("a"), attributes("new"), precondition, world.deadline()))
}

fn patch_code(world: &World, writer: &Writer, precondition: Precondition) -> Code {
    code(result_of_patch(world, writer, precondition))
}

fn delete_code(world: &World, writer: &Writer, precondition: Precondition) -> Code {
    code(block_on(writer.delete(&key("a"), precondition, world.deadline())))
}

#[test]
fn a_steady_put_is_one_request_and_reads_no_metadata() {
    const PUTS: u64 = 10_000;
    let world = World::new();
    world.lay_out(1, 16, Placement::Xxh64);
    let writer = world.writer();
    for n in 0..PUTS {
        put(&world, &writer, &n.to_string(), "new");
        world.clock.advance(Duration::from_millis(1));
    }
    // In ten seconds, with leases of the directory that are renewed after 3.75.
    let expected = Requests {
        writes: PUTS,
        directory_gets: 3,
        segment_gets: 1,
        metadata_gets: 1,
        ..Requests::default()
    };
    assert_eq!(world.memory.requests(), expected);
    assert_eq!(world.memory.contents().len(), 10_000);
    for (at, item) in world.memory.contents() {
        let sk = at.sort.to_string();
        assert_eq!((&at, item.generation), (&home(&sk, 16), Generation::new(1)));
    }
}

#[test]
fn versions_differ_between_writes_and_writers() {
    let world = World::new();
    let mut seen = HashSet::new();
    for _ in 0..2 {
        let writer = world.writer();
        for _ in 0..100 {
            let item = world.new_item("a", "new");
            let written = block_on(writer.put(&item, NONE, world.deadline())).expect("a put");
            assert!(seen.insert(written.version), "a version was drawn twice");
        }
    }
}

#[test]
fn the_first_write_of_a_key_is_one_request_and_leaves_no_metadata() {
    let world = World::new();
    let writer = world.writer();
    let item = world.new_item("a", "new");
    for n in 1..=3 {
        let written = block_on(writer.put(&item, NONE, world.deadline())).expect("a put");
        assert_eq!(written.shard, ShardId::new(0));
        let expected = Requests { writes: n, directory_gets: 1, ..Requests::default() };
        assert_eq!(world.memory.requests(), expected);
    }
    let stored = world.memory.contents();
    assert_eq!(stored[0].0.partition.as_str(), "EWR", "the key itself");
    assert_eq!(stored[0].1.generation, Generation::new(0));
    assert_eq!(world.memory.stored_metadata(&partition()), None);
    assert_eq!(world.memory.stored_directory().rev, 1);
}

#[test]
fn regression_a_write_was_begun_after_its_deadline_and_its_fate_unknown() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    world.store.script(Operation::MetadataGet, [Fault::after(world.passing(LEASE / 2))]);
    let (item, deadline) = (world.new_item("a", "new"), world.deadline_in(LEASE / 2));
    let refused = block_on(world.writer().put(&item, NONE, deadline));
    assert_eq!(code(refused), Code::DeadlineExceeded);
    assert_eq!(world.store.attempts(Operation::Write), 0);
}

#[test]
fn preconditions_decide_whether_a_put_happens() {
    let version = Precondition::Version(Version::new(1));
    let other = Precondition::Version(Version::new(2));
    // Whether it happens where there is: nothing, an item of version 1, a marker.
    for (precondition, happens) in [
        (NONE, [true, true, true]),
        (Precondition::Absent, [true, false, true]),
        (Precondition::Exists, [false, true, false]),
        (version, [false, true, false]),
        (other, [false, false, false]),
    ] {
        let states = [None, Some(stored("old", 1)), Some(marker(1))];
        for (state, happens) in states.into_iter().zip(happens) {
            let world = World::new();
            world.lay_out(1, 4, Placement::Xxh64);
            if let Some(item) = &state {
                world.memory.place(&home("a", 4), item.clone());
            }
            let item = world.new_item("a", "new");
            let put = block_on(world.writer().put(&item, precondition, world.deadline()));
            let case = format!("{precondition:?} of {state:?}");
            if happens {
                put.expect(&case);
                assert_eq!(world.stored(&home("a", 4)).as_deref(), Some("new"), "{case}");
            } else {
                assert_eq!(code(put), Code::PreconditionFailed, "{case}");
                assert_eq!(world.memory.stored(&home("a", 4)), state, "{case}");
            }
            assert_eq!(world.memory.requests().writes, 1, "{case}");
        }
    }
}

#[test]
fn a_put_whose_version_follows_from_its_item_can_be_sent_again() {
    let world = World::new();
    world.lay_out(1, 4, Placement::Xxh64);
    let writer = world.writer();
    let put = |version| {
        let (item, version) = (world.new_item("a", "new"), Version::new(version));
        block_on(writer.put_as(&item, version, Precondition::Absent, world.deadline()))
    };
    assert!(!put(7).expect("a put").was_there);
    let again = put(7).expect("it is there");
    assert!(again.was_there && again.version == Version::new(7));
    assert_eq!(code(put(8)), Code::PreconditionFailed, "another item");
    let a = key("a");
    let changed = writer.patch(&a, attributes("changed"), NONE, world.deadline());
    block_on(changed).expect("a patch");
    assert_eq!(code(put(7)), Code::PreconditionFailed, "a client has changed it");
    let stored = world.memory.stored(&home("a", 4)).expect("an item");
    assert_eq!(stored.attributes, attributes("changed"));
}

#[test]
fn preconditions_hold_in_a_collection_that_does_not_exist() {
    let version = Precondition::Version(Version::new(1));
    for precondition in [Precondition::Exists, version] {
        let world = World::new();
        let writer = world.writer();
        assert_eq!(delete_code(&world, &writer, precondition), Code::PreconditionFailed);
        assert_eq!(patch_code(&world, &writer, precondition), Code::PreconditionFailed);
        assert_eq!(put_code(&world, &writer, precondition), Code::PreconditionFailed);
        assert_eq!(world.memory.contents(), []);
    }
    let world = World::new();
    let writer = world.writer();
    for precondition in [NONE, Precondition::Absent] {
        block_on(writer.delete(&key("a"), precondition, world.deadline())).expect("a delete");
        assert_eq!(patch_code(&world, &writer, precondition), Code::ItemNotFound);
    }
    assert_eq!(world.memory.stored_metadata(&partition()), None, "it is cold");
    block_on(writer.put(&world.new_item("a", "new"), Precondition::Absent, world.deadline()))
        .expect("a put");
}

/// Invariant I32.
#[test]
fn that_a_collection_is_cold_is_believed_for_one_lease() {
    let world = World::new();
    let writer = world.writer();
    block_on(writer.delete(&key("a"), NONE, world.deadline())).expect("a delete of nothing");
    world.lay_out(3, 8, Placement::Xxh64);
    world.place("a", 3, 8);
    world.clock.advance(LEASE);
    block_on(writer.delete(&key("a"), NONE, world.deadline())).expect("a delete");
    assert_eq!(world.memory.contents(), []);
}

#[test]
fn a_delete_is_one_request_and_can_be_repeated() {
    let world = World::new();
    world.lay_out(1, 4, Placement::Xxh64);
    world.place("a", 1, 4);
    let writer = world.writer();
    for writes in 1..=2 {
        block_on(writer.delete(&key("a"), NONE, world.deadline())).expect("a delete");
        assert_eq!(world.memory.contents(), []);
        let expected = Requests {
            writes,
            directory_gets: 1,
            segment_gets: 1,
            metadata_gets: 1,
            ..Requests::default()
        };
        assert_eq!(world.memory.requests(), expected);
    }
    assert_eq!(delete_code(&world, &writer, Precondition::Exists), Code::PreconditionFailed);
}

#[test]
fn a_patch_is_a_strong_read_and_a_guarded_write() {
    let world = World::new();
    world.lay_out(1, 4, Placement::Xxh64);
    let mut item = world.place("a", 1, 4);
    let number = |n: u64| AttributeValue::Number(n.into());
    item.attributes.extend([("kept".to_owned(), number(1)), ("gone".to_owned(), number(2))]);
    world.memory.place(&home("a", 4), item.clone());

    let mut patch = attributes("new");
    patch.insert("gone".to_owned(), AttributeValue::Null);
    patch.insert("pk".to_owned(), AttributeValue::String("EWR".to_owned()));
    let version = Precondition::Version(item.version);
    let written = block_on(world.writer().patch(&key("a"), patch, version, world.deadline()))
        .expect("a patch");

    let patched = world.memory.stored(&home("a", 4)).expect("the item");
    let text = AttributeValue::String("new".to_owned());
    let expected = Attributes::from([("kept".to_owned(), number(1)), ("text".to_owned(), text)]);
    assert_eq!(patched.attributes, expected);
    assert_eq!(patched.version, written.version);
    assert_ne!(patched.version, item.version);
    let expected = Requests {
        gets: 1,
        writes: 1,
        directory_gets: 1,
        segment_gets: 1,
        metadata_gets: 1,
        ..Requests::default()
    };
    assert_eq!(world.memory.requests(), expected);
}

/// Invariant I16.
#[test]
fn a_patch_of_nothing_or_of_a_marker_finds_no_item() {
    for state in [None, Some(marker(1))] {
        let world = World::new();
        world.lay_out(1, 1, Placement::Xxh64);
        if let Some(item) = &state {
            world.memory.place(&in_shard("a", 0), item.clone());
        }
        let writer = world.writer();
        assert_eq!(patch_code(&world, &writer, NONE), Code::ItemNotFound);
        assert_eq!(patch_code(&world, &writer, Precondition::Exists), Code::PreconditionFailed);
        assert_eq!(world.memory.stored(&in_shard("a", 0)), state);
        assert_eq!(world.memory.requests().writes, 0);
    }
}

#[test]
fn a_patch_that_makes_the_item_too_large_changes_nothing() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    let old = world.place("a", 1, 1);
    let large = AttributeValue::String("x".repeat(MAX_ITEM_BYTES));
    let patch = Attributes::from([("large".to_owned(), large)]);
    let refused = block_on(world.writer().patch(&key("a"), patch, NONE, world.deadline()));
    assert_eq!(code(refused), Code::ItemTooLarge);
    assert_eq!(world.memory.stored(&in_shard("a", 0)), Some(old));
}

/// Another writer puts this text between a patch's read and its write.
fn competitor(world: &World, attribute: &str) -> Fault {
    let (memory, text) = (world.memory.clone(), AttributeValue::String("theirs".to_owned()));
    let attribute = attribute.to_owned();
    Fault::before(move || {
        let at = in_shard("a", 0);
        let mut item = memory.stored(&at).expect("the item");
        item.attributes.insert(attribute, text);
        item.version = Version::new(item.version.get() + 1);
        memory.place(&at, item);
    })
}

#[test]
fn a_patch_that_lost_a_race_is_made_again_on_what_won() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    world.place("a", 1, 1);
    world.store.script(Operation::Write, [competitor(&world, "b"), competitor(&world, "c")]);
    for precondition in [NONE, Precondition::Exists] {
        let patch = block_on(world.writer().patch(
            &key("a"),
            attributes("ours"),
            precondition,
            world.deadline(),
        ));
        patch.expect("a patch");
    }
    let item = world.memory.stored(&in_shard("a", 0)).expect("the item");
    assert_eq!(text_of(&item), "ours");
    assert_eq!(item.attributes.keys().collect::<Vec<_>>(), ["b", "c", "text"]);
    assert_eq!(world.memory.requests().writes, 4, "two lost and two won");
}

#[test]
fn a_patch_of_a_version_that_lost_a_race_fails() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    let version = Precondition::Version(world.place("a", 1, 1).version);
    world.store.script(Operation::Write, [competitor(&world, "b")]);
    assert_eq!(patch_code(&world, &world.writer(), version), Code::PreconditionFailed);
    assert_eq!(world.stored(&in_shard("a", 0)).as_deref(), Some("a"), "theirs stays");
    let requests = world.memory.requests();
    assert_eq!((requests.gets, requests.writes), (1, 1), "what won need not be read");
}

#[test]
fn a_patch_whose_item_is_deleted_meanwhile_finds_none() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    world.place("a", 1, 1);
    let memory = world.memory.clone();
    let delete = Fault::before(move || memory.remove(&in_shard("a", 0)));
    world.store.script(Operation::Write, [delete]);
    assert_eq!(patch_code(&world, &world.writer(), NONE), Code::ItemNotFound);
    assert_eq!(world.memory.contents(), [], "a patch brings nothing back");
}

#[test]
fn a_patch_that_always_loses_is_contended_at_the_deadline() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    world.place("a", 1, 1);
    world.store.script(Operation::Write, (0..1_000).map(|_| competitor(&world, "b")));
    assert_eq!(patch_code(&world, &world.writer(), NONE), Code::Contended);
    assert_eq!(world.stored(&in_shard("a", 0)).as_deref(), Some("a"));
}

/// Invariant I6.
#[test]
fn a_write_that_is_not_answered_is_unknown_and_never_repeated() {
    let faults = || {
        [
            (Fault::Lose, false),
            (Fault::ExecuteUnanswered, true),
            (Fault::Refuse(outcome_unknown()), false),
            (Fault::ExecuteThen(outcome_unknown()), true),
        ]
    };
    // One look finds a put or a patch that took effect.
    let outcome = |applied| if applied { None } else { Some(Code::OutcomeUnknown) };
    for (fault, applied) in faults() {
        let world = World::new();
        world.lay_out(1, 1, Placement::Xxh64);
        world.store.script(Operation::Write, [fault]);
        let put = result_of_put(&world, &world.writer(), NONE);
        assert_eq!(put.err().map(|error| error.code()), outcome(applied));
        assert_eq!(world.store.attempts(Operation::Write), 1);
        assert_eq!(world.memory.stored(&in_shard("a", 0)).is_some(), applied);
    }
    for (fault, applied) in faults() {
        let world = World::new();
        world.lay_out(1, 1, Placement::Xxh64);
        world.place("a", 1, 1);
        world.store.script(Operation::Write, [fault]);
        assert_eq!(delete_code(&world, &world.writer(), NONE), Code::OutcomeUnknown);
        assert_eq!(world.store.attempts(Operation::Write), 1);
        assert_eq!(world.memory.stored(&in_shard("a", 0)).is_none(), applied);
    }
    for (fault, applied) in faults() {
        let world = World::new();
        world.lay_out(1, 1, Placement::Xxh64);
        world.place("a", 1, 1);
        world.store.script(Operation::Write, [fault]);
        let patch = result_of_patch(&world, &world.writer(), NONE);
        assert_eq!(patch.err().map(|error| error.code()), outcome(applied));
        assert_eq!(world.store.attempts(Operation::Write), 1);
        assert_eq!(world.stored(&in_shard("a", 0)).as_deref() == Some("new"), applied);
    }
}

/// Invariant I6.
#[test]
fn a_write_that_is_answered_after_its_lease_counts_if_nothing_has_changed_and_is_never_repeated() {
    for has_changed in [false, true] {
        let world = World::new();
        world.lay_out(1, 1, Placement::Xxh64);
        world.place("a", 1, 1);
        let (passing, memory) = (world.passing(LEASE), world.memory.clone());
        let answered = move || {
            passing();
            if has_changed {
                memory.place_metadata(metadata(2, 4, Placement::Xxh64));
            }
        };
        world.store.script(Operation::Write, [Fault::after(answered)]);
        let deleted = block_on(world.writer().delete(&key("a"), NONE, world.deadline()));
        let expected = has_changed.then_some(Code::OutcomeUnknown);
        assert_eq!(deleted.err().map(|error| error.code()), expected);
        assert_eq!(world.store.attempts(Operation::Write), 1);
    }

    // A refusal has no effect, so it leaves no doubt whenever it comes.
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    world.place("a", 1, 1);
    world.store.script(Operation::Write, [Fault::after(world.passing(LEASE))]);
    let refused = put_code(&world, &world.writer(), Precondition::Absent);
    assert_eq!(refused, Code::PreconditionFailed);
    assert_eq!(world.store.attempts(Operation::Write), 2, "asked again under a new lease");
    assert_eq!(world.memory.requests().directory_gets, 2);
}

#[test]
fn a_throttled_write_is_sent_again_until_it_is_taken() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    let conflict = Fault::Refuse(StoreError::Conflict);
    world.store.script(Operation::Write, [Fault::throttle(), Fault::throttle(), conflict]);
    put(&world, &world.writer(), "a", "new");
    assert_eq!(world.store.attempts(Operation::Write), 4);
    assert_eq!(world.memory.requests().writes, 1);
}

#[test]
fn a_write_that_stays_throttled_gives_up_at_the_deadline() {
    for operation in [0, 1, 2] {
        let world = World::new();
        world.lay_out(1, 1, Placement::Xxh64);
        world.place("a", 1, 1);
        world.store.throttle(shard(0));
        let writer = world.writer().unpaced();
        let start = world.clock.now().boot;
        let code = match operation {
            0 => put_code(&world, &writer, NONE),
            1 => delete_code(&world, &writer, NONE),
            _ => patch_code(&world, &writer, NONE),
        };
        let elapsed = world.clock.now().boot.saturating_sub(start);
        assert_eq!(code, Code::Throttled);
        assert!(elapsed <= TIMEOUT, "it waited {elapsed:?}");
        assert!(elapsed > TIMEOUT / 2, "it gave up after {elapsed:?}");
        let attempts =
            world.store.attempts(Operation::Write) + world.store.attempts(Operation::Get);
        // The delays grow to half a second on average, and start far below it.
        assert!((20..200).contains(&attempts), "{attempts} attempts");
        let requests = world.memory.requests();
        let of_heat = requests.ledger_updates + requests.ledger_gets + requests.decisions;
        let expected =
            requests.directory_gets + requests.segment_gets + requests.metadata_gets + of_heat;
        assert_eq!(requests.total(), expected);
    }
}

/// Invariant I12.
#[test]
fn a_write_that_finds_a_newer_generation_reads_metadata_and_goes_to_the_new_home() {
    // An item that moves from shard 0 when one shard becomes four.
    let sk = (0..100).map(|n| n.to_string()).find(|sk| home(sk, 4) != home(sk, 1));
    let sk = sk.expect("one of them moves");
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    let writer = world.writer();
    put(&world, &writer, "other", "warms the cache");

    world.lay_out(3, 4, Placement::Xxh64);
    world.memory.place(&home(&sk, 1), marker(3));
    world.place(&sk, 3, 4);
    put(&world, &writer, &sk, "new");
    let item = world.memory.stored(&home(&sk, 4)).expect("the item");
    assert_eq!((text_of(&item).as_str(), item.generation), ("new", Generation::new(3)));
    assert_eq!(world.memory.stored(&home(&sk, 1)), Some(marker(3)), "the old home is untouched");
    assert_eq!(world.memory.requests().metadata_gets, 2);
}

#[test]
fn metadata_that_stays_behind_its_items_is_reported_after_a_few_refreshes() {
    let reads_at_most = 7;
    for operation in [0, 1, 2] {
        let world = World::new();
        world.lay_out(1, 1, Placement::Xxh64);
        world.place("a", 2, 1);
        let writer = world.writer();
        let code = match operation {
            0 => put_code(&world, &writer, NONE),
            1 => delete_code(&world, &writer, NONE),
            _ => patch_code(&world, &writer, NONE),
        };
        assert_eq!(code, Code::MetadataBehind);
        assert_eq!(world.stored(&in_shard("a", 0)).as_deref(), Some("a"));
        let reads = world.memory.requests().metadata_gets;
        assert!((2..=reads_at_most).contains(&reads), "{reads} metadata reads");
    }
}

#[test]
fn a_write_whose_lease_runs_out_before_it_is_sent_goes_through_under_a_new_one() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    world.store.script(Operation::Write, [Fault::before(world.passing(LEASE))]);
    put(&world, &world.writer(), "a", "new");
    assert_eq!(world.stored(&in_shard("a", 0)).as_deref(), Some("new"));
    let expected = Requests {
        writes: 1,
        directory_gets: 2,
        segment_gets: 1,
        metadata_gets: 1,
        ..Requests::default()
    };
    assert_eq!(world.memory.requests(), expected, "the first was held back");
}

#[test]
fn a_write_fails_when_the_lease_has_run_out_and_metadata_cannot_be_read() {
    for (is_listed, read) in [(false, Operation::DirectoryGet), (true, Operation::MetadataGet)] {
        let of = || {
            let world = World::new();
            if is_listed {
                // The directory does not renew it.
                let metadata = metadata(1, 1, Placement::Xxh64);
                let clearing_up = CollectionMetadata { cleanup_pending: true, ..metadata };
                world.memory.place_metadata(clearing_up);
            }
            world
        };
        let world = of();
        let writer = world.writer();
        put(&world, &writer, "a", "old");
        world.clock.advance(LEASE);
        world.store.script(read, (0..1_000).map(|_| Fault::throttle()));
        assert_eq!(put_code(&world, &writer, NONE), Code::Throttled);
        assert_eq!(world.stored(&in_shard("a", 0)).as_deref(), Some("old"));

        let world = of();
        world.store.script(read, [Fault::Lose]);
        assert_eq!(put_code(&world, &world.writer(), NONE), Code::Unavailable);
    }
}

#[test]
fn what_a_patch_read_after_the_lease_is_read_again() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    world.place("a", 1, 1);
    world.store.script(Operation::Get, [Fault::after(world.passing(LEASE))]);
    let writer = world.writer();
    block_on(writer.patch(&key("a"), attributes("new"), NONE, world.deadline())).expect("a patch");
    let expected = Requests {
        gets: 2,
        writes: 1,
        directory_gets: 2,
        segment_gets: 1,
        metadata_gets: 1,
        ..Requests::default()
    };
    assert_eq!(world.memory.requests(), expected);
}

#[test]
fn regression_a_patch_whose_reads_outlast_every_lease_never_ended() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    world.place("a", 1, 1);
    world.store.script(Operation::Get, (0..100).map(|_| Fault::after(world.passing(LEASE))));
    assert_eq!(patch_code(&world, &world.writer(), NONE), Code::Unavailable);
    assert_eq!(world.store.attempts(Operation::Get), 4, "within twenty seconds");
}

#[test]
fn a_random_collection_takes_puts_in_any_shard_and_deletes_from_each() {
    let world = World::random();
    world.lay_out(1, 4, Placement::Random);
    let writer = world.writer();
    let mut used = BTreeSet::new();
    for n in 0..100 {
        let item = world.new_item(&n.to_string(), "new");
        let written = block_on(writer.put(&item, NONE, world.deadline())).expect("a put");
        assert!(
            world
                .memory
                .stored(&in_shard_of(Placement::Random, &n.to_string(), written.shard.get()))
                .is_some()
        );
        used.insert(written.shard.get());
    }
    assert!(used.iter().eq(&[1, 2, 3, 4]), "{used:?}");
    let reader = world.reader();
    for n in 0..100 {
        let key = key(&n.to_string());
        let got = block_on(reader.get(&key, None, Consistency::Strong, world.deadline()));
        got.expect("the item");
        block_on(writer.delete(&key, NONE, world.deadline())).expect("a delete");
    }
    assert_eq!(world.memory.contents(), []);
    assert_eq!(world.memory.requests().writes, 200, "nothing is deleted where nothing is");
}

/// The item was gone, and the client was told that nothing had happened.
/// Invariant I6.
#[test]
fn regression_a_delete_of_which_a_part_was_done_was_reported_as_not_done() {
    let answers = [Fault::after(|| {}), Fault::ExecuteUnanswered];
    for answer in answers {
        let world = World::random();
        world.lay_out(1, 2, Placement::Random);
        world.memory.place(&in_shard_of(Placement::Random, "a", 1), stored("old", 1));
        let refusals = (0..1_000).map(|_| Fault::Refuse(StoreError::Unavailable("down".into())));
        let first = [Fault::after(|| {})];
        world.store.script(Operation::Get, first.into_iter().chain(refusals));
        world.store.script(Operation::Write, [answer]);
        let writer = world.writer();
        let deleted = block_on(writer.delete(&key("a"), NONE, world.deadline()));
        assert_eq!(code(deleted), Code::OutcomeUnknown);
        assert_eq!(world.memory.contents(), []);
    }
}

/// Only two kinds of errors of the rest were taken for what they are; with any other, and with one that came
/// first, the client was told that nothing had happened.
/// Invariant I6.
#[test]
fn regression_a_delete_of_which_a_part_was_done_was_reported_as_refused_for_damage_or_permissions()
{
    let refusals = [
        (StoreError::Corrupt("no key".into()), Code::CorruptData),
        (StoreError::Misconfigured("expired".into()), Code::Internal),
        (StoreError::Rejected("a validation".into()), Code::RequestRejected),
    ];
    for (refusal, cause) in refusals {
        for refused_first in [false, true] {
            let world = World::random();
            world.lay_out(1, 2, Placement::Random);
            let holder = if refused_first { 2 } else { 1 };
            world.memory.place(&in_shard_of(Placement::Random, "a", holder), stored("old", 1));
            let mut answers = [Fault::after(|| {}), Fault::Refuse(refusal.clone())];
            if refused_first {
                answers.reverse();
            }
            world.store.script(Operation::Get, answers);
            let deleted = block_on(world.writer().delete(&key("a"), NONE, world.deadline()));
            let error = deleted.expect_err("a part failed");
            assert_eq!((error.code(), error.cause()), (Code::OutcomeUnknown, Some(cause)));
            assert_eq!(world.memory.contents(), []);
        }
    }
}

/// It was answered with the words of a metadata table that was restored alone, which raise an alarm.
#[test]
fn regression_a_reshard_noticed_at_the_deadline_was_reported_as_damage() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    world.place("a", 2, 1);
    let late = world.passing(TIMEOUT.saturating_sub(Duration::from_millis(500)));
    world.store.script(Operation::Write, [Fault::after(late)]);
    assert_eq!(put_code(&world, &world.writer(), NONE), Code::DeadlineExceeded);
}

/// The collection was left behind with one shard, and could not be pre-sharded any more.
#[test]
fn regression_a_refused_put_created_its_collection() {
    let version = Precondition::Version(Version::new(1));
    for precondition in [Precondition::Exists, version] {
        let world = World::new();
        assert_eq!(put_code(&world, &world.writer(), precondition), Code::PreconditionFailed);
        assert_eq!(world.memory.stored_metadata(&partition()), None);
    }
    let world = World::random();
    let refused = put_code(&world, &world.writer(), Precondition::Absent);
    assert_eq!(refused, Code::NotForPlacement);
    assert_eq!(world.memory.stored_metadata(&partition()), None);
}

#[test]
fn a_random_collection_refuses_what_must_know_an_items_shard() {
    let world = World::random();
    world.lay_out(1, 4, Placement::Random);
    let writer = world.writer();
    let version = Precondition::Version(Version::new(1));
    for precondition in [Precondition::Absent, Precondition::Exists, version] {
        assert_eq!(put_code(&world, &writer, precondition), Code::NotForPlacement);
        assert_eq!(delete_code(&world, &writer, precondition), Code::NotForPlacement);
    }
    assert_eq!(patch_code(&world, &writer, NONE), Code::NotForPlacement);
    assert_eq!(world.memory.requests().writes, 0);
}
