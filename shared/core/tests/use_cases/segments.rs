//! Which collections have metadata, as segments under a root list them.

use std::time::Duration;

use dynashard_core::ports::{Clock, StoreError};
use dynashard_core::{
    Code, CollectionMetadata, Deadline, Directory, KeyHash, Phase, Segment, Settings, leases_end,
};
use dynashard_keys::{PartitionKey, Placement, ShardCount};
use dynashard_testkit::{Fault, Operation, block_on};
use futures_util::future::join;

use crate::world::{LEASE, World, count, metadata, partition, usual_settings};

fn find(world: &World, directory: &Directory, of: &PartitionKey) -> CollectionMetadata {
    let found = block_on(directory.find(of, world.deadline())).expect("a look-up");
    CollectionMetadata::clone(&found.metadata)
}

fn dies() -> StoreError {
    StoreError::Misconfigured("it died".to_owned())
}

/// What was read of the root, of segments and of metadata.
fn reads(world: &World) -> [u64; 3] {
    [Operation::DirectoryGet, Operation::SegmentGet, Operation::MetadataGet]
        .map(|operation| world.store.attempts(operation))
}

/// Another collection of the same group of segments.
fn neighbour() -> PartitionKey {
    let group = |of: &PartitionKey| KeyHash::of(of).segment().group();
    let names = (0..).map(|n: u32| PartitionKey::new(format!("n{n}")).expect("a key"));
    let segment = |of: &PartitionKey| KeyHash::of(of).segment();
    let mut neighbours = names.filter(|name| {
        group(name) == group(&partition()) && segment(name) != segment(&partition())
    });
    neighbours.next().expect("one of many")
}

#[test]
fn cold_collections_of_a_stack_without_others_read_no_segment() {
    let world = World::new();
    let directory = world.directory();
    assert!(!find(&world, &directory, &partition()).is_enlisted());
    assert_eq!(reads(&world), [1, 0, 0]);
}

#[test]
fn a_segment_is_read_once_and_renewed_by_the_root() {
    let world = World::new();
    world.memory.place_metadata(metadata(1, 4, Placement::Xxh64));
    let directory = world.directory();
    let cold = neighbour();
    for _ in 0..3 {
        assert!(find(&world, &directory, &partition()).is_enlisted());
        assert!(!find(&world, &directory, &cold).is_enlisted());
        world.clock.advance(LEASE);
    }
    assert_eq!(reads(&world), [3, 2, 1], "the root of each lease");
}

/// An operation that stands on the lease of the root goes on when the count has risen, and the next one reads the metadata.
#[test]
fn metadata_that_rests_is_read_again_when_its_group_has_changed() {
    let world = World::new();
    world.memory.place_metadata(metadata(1, 4, Placement::Xxh64));
    let directory = world.directory();
    let shards = || find(&world, &directory, &partition()).number_of_shards.get();
    for _ in 0..2 {
        assert_eq!(shards(), 4);
        world.clock.advance(LEASE);
    }
    assert_eq!((shards(), reads(&world)[2]), (4, 1));
    world.memory.place_metadata(metadata(2, 8, Placement::Xxh64));
    assert_eq!(shards(), 4, "the lease of the root lives");
    world.clock.advance(LEASE);
    assert_eq!((shards(), reads(&world)[2]), (8, 2));
}

/// Nothing is raised when `forward` and `move` are over.
#[test]
fn metadata_of_a_collection_that_changes_is_good_for_its_own_lease() {
    let (from, to) = (count(4), count(8));
    // As just published: where `move` may be in force, metadata is read again for that.
    let last_updated_secs = World::new().clock.now().epoch_secs() + 3_600;
    let of = |shards, phase| {
        let metadata = metadata(1, shards, Placement::Xxh64);
        CollectionMetadata { phase, last_updated_secs, ..metadata }
    };
    let closed = CollectionMetadata { cleanup_pending: true, ..of(8, Phase::Stable) };
    let changing = [of(4, Phase::Forward { from, to }), of(8, Phase::Move { from, to }), closed];
    for (n, unrenewed) in changing.into_iter().enumerate() {
        let world = World::new();
        world.memory.place_metadata(unrenewed);
        let directory = world.directory();
        for _ in 0..3 {
            find(&world, &directory, &partition());
            world.clock.advance(LEASE);
        }
        assert_eq!(reads(&world)[2], 3, "{n}");
    }
}

/// A hash that is listed may be another key's, and the first change of this one is announced by its segment alone.
#[test]
fn what_is_listed_without_metadata_is_read_again_with_each_lease() {
    let world = World::new();
    let hash = KeyHash::of(&partition());
    world.memory.place_listed(hash.segment(), &Segment::of([hash]));
    let directory = world.directory();
    for _ in 0..3 {
        assert!(!find(&world, &directory, &partition()).is_enlisted());
        world.clock.advance(LEASE);
    }
    assert_eq!(reads(&world)[2], 3);
}

/// T' counts from the answer to the raised count: until then others renew the layout of before.
/// Invariant I8.
#[test]
fn a_later_change_is_announced_before_its_wait_begins() {
    let world = World::new();
    world.memory.place_metadata(metadata(1, 4, Placement::Xxh64));
    let elsewhere = world.directory();
    let phase_known = || find(&world, &elsewhere, &partition()).phase;
    assert_eq!(phase_known(), Phase::Stable);
    block_on(world.scaler().request_count(&partition(), count(8), world.deadline()))
        .expect("begun");
    world.clock.advance(LEASE);
    assert_eq!(phase_known(), Phase::Stable, "nobody has raised the count");
    let began = world.clock.now();
    let slow = Fault::before(world.passing(leases_end(LEASE)));
    world.store.script(Operation::Raise, [Fault::throttle(), slow]);
    let deadline = world.deadline_in(leases_end(LEASE) + Duration::from_secs(4));
    block_on(world.rebalancer().advance(&partition(), 0, deadline)).advance.expect("it waits");
    let noted = world.memory.stored_job(&partition()).and_then(|job| job.forward_seen);
    let noted = noted.expect("noted").0;
    let raised = began.server_secs.map(|secs| secs + leases_end(LEASE).as_secs());
    assert!(Some(noted) >= raised, "{noted}, {raised:?}");
    let phase = world.memory.stored_metadata(&partition()).map(|metadata| metadata.phase);
    assert!(matches!(phase, Some(Phase::Forward { .. })), "{phase:?}");
    assert!(matches!(phase_known(), Phase::Forward { .. }), "the root counts it");
}

/// What was created with one shard rests before its first change, which its segment alone would not tell.
/// Invariant I8.
#[test]
fn the_first_change_of_a_collection_of_one_shard_is_announced_to_those_who_know_it() {
    let world = World::new();
    let (created, deadline) = (partition(), world.deadline());
    block_on(world.scaler().create_collection(&created, None, count(1), deadline))
        .expect("created");
    let elsewhere = world.directory();
    assert!(find(&world, &elsewhere, &partition()).is_enlisted());
    world.clock.advance(LEASE);
    assert_eq!(find(&world, &elsewhere, &partition()).number_of_shards, count(1));
    assert_eq!(reads(&world)[2], 1, "elsewhere, once");
    block_on(world.scaler().request_count(&partition(), count(4), world.deadline()))
        .expect("begun");
    let deadline = world.deadline_in(Duration::from_secs(3));
    block_on(world.rebalancer().advance(&partition(), 0, deadline)).advance.expect("it waits");
    world.clock.advance(LEASE);
    assert_ne!(find(&world, &elsewhere, &partition()).phase, Phase::Stable);
}

/// Whoever corrects a metadata item by hand raises nothing.
#[test]
fn metadata_is_read_again_after_a_while_whatever_the_root_counts() {
    let world = World::new();
    world.memory.place_metadata(metadata(1, 4, Placement::Xxh64));
    let directory = world.directory();
    let shards = || find(&world, &directory, &partition()).number_of_shards.get();
    assert_eq!(shards(), 4);
    world.memory.place_unlisted_metadata(metadata(1, 8, Placement::Xxh64));
    world.clock.advance(Duration::from_secs(599));
    assert_eq!(shards(), 4);
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(shards(), 8);
}

#[test]
fn a_segment_is_read_again_when_its_group_has_changed() {
    let world = World::new();
    world.memory.place_metadata(metadata(1, 4, Placement::Xxh64));
    let directory = world.directory();
    let cold = neighbour();
    assert!(!find(&world, &directory, &cold).is_enlisted());
    let listed = CollectionMetadata::stable(cold.clone(), Placement::Xxh64, count(2), 1);
    world.memory.place_metadata(listed);
    assert!(!find(&world, &directory, &cold).is_enlisted(), "the lease of the root lives");
    world.clock.advance(LEASE);
    assert!(find(&world, &directory, &cold).is_enlisted());
    assert_eq!(reads(&world), [2, 2, 1]);
}

/// Who meets an item ahead of its metadata finds its collection listed, whatever the root in hand counts, and reads no other.
#[test]
fn what_was_forgotten_is_looked_for_in_its_segment() {
    let world = World::new();
    let directory = world.directory();
    assert!(!find(&world, &directory, &partition()).is_enlisted());
    world.memory.place_unannounced_metadata(metadata(1, 4, Placement::Xxh64));
    assert!(!find(&world, &directory, &partition()).is_enlisted(), "the root counts nothing");
    directory.forget(&partition());
    assert!(find(&world, &directory, &partition()).is_enlisted());
    assert_eq!(reads(&world), [1, 1, 1]);
}

/// T' counts from the answer to the raised count, and not from the reads before it.
/// Invariant I32.
#[test]
fn the_first_change_is_announced_before_its_wait_begins() {
    let world = World::new();
    let four = ShardCount::new(4).expect("a count");
    block_on(world.scaler().request_count(&partition(), four, world.deadline())).expect("begun");
    assert_eq!(world.memory.count_of(&partition()), Some(0));
    let began = world.clock.now();
    let slow = Fault::before(world.passing(Duration::from_secs(3)));
    let lost = StoreError::OutcomeUnknown("the answer was lost".to_owned());
    let faults = [Fault::ExecuteThen(lost), Fault::throttle(), slow];
    world.store.script(Operation::Raise, faults);
    let deadline = world.deadline_in(leases_end(LEASE) + Duration::from_millis(2_500));
    block_on(world.rebalancer().advance(&partition(), 0, deadline)).advance.expect("it waits");
    assert!(world.memory.count_of(&partition()) >= Some(1));
    let job = world.memory.stored_job(&partition()).expect("a job");
    let noted = job.forward_seen.expect("noted").0;
    assert!(Some(noted) >= began.server_secs.map(|secs| secs + 3), "{job:?}");
    let phase = world.memory.stored_metadata(&partition()).map(|metadata| metadata.phase);
    assert!(matches!(phase, Some(Phase::Forward { .. })), "{phase:?}");
}

/// A controller that saw the metadata before it was announced goes by its own clock, and counts from the announcement.
/// Invariant I32.
#[test]
fn regression_a_wait_counted_from_before_the_announcement() {
    let world = World::new();
    block_on(world.scaler().request_count(&partition(), count(4), world.deadline()))
        .expect("begun");
    let slow = Fault::before(world.passing(leases_end(LEASE)));
    world.store.script(Operation::Raise, [slow]);
    let cold = world.directory();
    let deadline = world.deadline_in(leases_end(LEASE) + Duration::from_secs(4));
    block_on(world.rebalancer().advance(&partition(), 0, deadline)).advance.expect("it waits");
    assert_eq!(world.memory.count_of(&partition()), Some(1));
    let phase = world.memory.stored_metadata(&partition()).map(|metadata| metadata.phase);
    assert!(matches!(phase, Some(Phase::Forward { .. })), "{phase:?}");
    assert!(find(&world, &cold, &partition()).is_enlisted());
}

#[test]
fn a_collection_of_one_shard_is_announced_when_it_is_made_and_when_it_is_asked_for_again() {
    let world = World::new();
    let elsewhere = world.directory();
    assert!(!find(&world, &elsewhere, &partition()).is_enlisted());
    let create = || {
        let placement = Some(Placement::Random);
        block_on(world.scaler().create_collection(
            &partition(),
            placement,
            count(1),
            world.deadline(),
        ))
    };
    world.store.script(Operation::Raise, [Fault::Refuse(dies())]);
    create().expect("it is created all the same");
    assert_eq!(world.memory.count_of(&partition()), Some(0));
    assert_eq!(create().expect_err("it exists").code(), Code::CollectionExists);
    assert_eq!(world.memory.count_of(&partition()), Some(1));
    world.clock.advance(LEASE);
    assert_eq!(find(&world, &elsewhere, &partition()).placement, Placement::Random);
}

#[test]
fn collections_of_different_segments_are_enlisted_beside_each_other() {
    let world = World::new();
    let (one, other) = (world.scaler(), world.scaler());
    let begin = [partition(), neighbour()];
    let raced = join(
        one.request_count(&begin[0], count(2), world.deadline()),
        other.request_count(&begin[1], count(2), world.deadline()),
    );
    let (one, other) = block_on(raced);
    one.and(other).expect("both begin");
    assert_eq!(world.store.attempts(Operation::Enlist), 2, "nothing that both change");
    assert!(begin.iter().all(|of| world.memory.lists(of)));
}

/// Lists `n` collections in a directory that does so itself.
fn list(world: &World, names: std::ops::Range<u32>) -> Vec<PartitionKey> {
    let names = names.map(|n| PartitionKey::new(format!("listed {n}")).expect("a key"));
    let listed = |of: PartitionKey| {
        let metadata = CollectionMetadata::stable(of.clone(), Placement::Xxh64, count(2), 1);
        world.memory.place_metadata(metadata);
        of
    };
    names.map(listed).collect()
}

/// It may die at any point, and somebody may enlist a collection behind its scan.
#[test]
fn a_list_is_converted_whatever_happens_meanwhile() {
    let mut fault = 0;
    loop {
        let world = World::with_nothing_pinned(Settings {
            signature_age: Duration::from_secs(270),
            ..usual_settings()
        });
        let mut listed = list(&world, 0..20);
        let function = world.directory().pinning();
        find(&world, &function, &partition());
        let late = PartitionKey::new("enlisted late").expect("a key");
        let metadata = CollectionMetadata::stable(late.clone(), Placement::Xxh64, count(2), 1);
        let memory = world.memory.clone();
        world.store.script(
            Operation::MetadataScan,
            [Fault::after(move || memory.place_metadata(metadata))],
        );
        listed.push(late);
        world.store.script(
            Operation::DirectorySave,
            (0..fault).map(|_| Fault::before(|| ())).chain([Fault::Refuse(dies())]),
        );
        let operator = world.directory();
        let convert = || {
            let deadline = Deadline::after(world.clock.now(), Duration::from_mins(10));
            block_on(operator.pinned().convert(&world.store, deadline))
        };
        let first = convert();
        let was_interrupted = first.is_err();
        let pinned = first.or_else(|_| convert()).expect("converted");
        assert!(pinned.has_segments());
        assert_eq!((pinned.format, pinned.signature_age), (5, Duration::from_secs(270)));
        assert_eq!(convert(), Ok(pinned), "once is enough");
        assert_eq!(world.memory.stored_directory().hashes(), []);
        world.clock.advance(LEASE);
        for of in listed {
            assert!(find(&world, &function, &of).is_enlisted(), "{of} after {fault}");
        }
        assert!(!find(&world, &function, &partition()).is_enlisted());
        if !was_interrupted {
            break;
        }
        fault += 1;
    }
    assert!(fault >= 20, "each write was interrupted once: {fault}");
}

/// The list shows a collection before its metadata does: the transaction shows in part for up to V.
#[test]
fn a_conversion_lists_what_shows_within_v_only() {
    let world = World::with_nothing_pinned(usual_settings());
    list(&world, 0..1);
    let function = world.directory().pinning();
    find(&world, &function, &partition());
    let late = metadata(1, 4, Placement::Xxh64);
    world.memory.place_metadata(late.clone());
    world.memory.remove_metadata(&partition());
    let (memory, clock, began) = (world.memory.clone(), world.clock.clone(), world.clock.now());
    let shows = Fault::before(move || {
        if clock.now().certainly_since(began) >= leases_end(LEASE) {
            memory.place_unlisted_metadata(late);
        }
    });
    world.store.script(Operation::MetadataScan, [shows]);
    let deadline = Deadline::after(world.clock.now(), Duration::from_mins(10));
    block_on(function.pinned().convert(&world.store, deadline)).expect("converted");
    world.clock.advance(LEASE);
    assert!(find(&world, &function, &partition()).is_enlisted());
}

#[test]
fn nothing_is_converted_before_settings_are_pinned() {
    let world = World::with_nothing_pinned(usual_settings());
    list(&world, 0..2);
    let operator = world.directory();
    let converted = block_on(operator.pinned().convert(&world.store, world.deadline()));
    assert_eq!(converted.expect_err("nothing is pinned").code(), Code::SettingsMismatch);
    assert_eq!(world.memory.stored_directory().hashes().len(), 2);
}
