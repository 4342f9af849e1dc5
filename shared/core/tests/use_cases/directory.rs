//! What is known about collections, and for how long.

use std::time::Duration;

use dynashard_core::ports::{self, Clock};
use dynashard_core::{Advance, Code, CollectionMetadata, Deadline, Directory, Known, leases_end};
use dynashard_keys::{PartitionKey, Placement, ShardCount};
use dynashard_testkit::{
    Fault, Faulty, ManualClock, MemoryStore, Operation, SeededEntropy, block_on,
};
use futures_util::future::{join, join_all};

use crate::world::{
    FRESH, LEASE, TIMEOUT, World, count, metadata, partition, resharding, usual_settings,
};

/// A metadata table whose answers take their time, so that requests can meet.
fn slow() -> (MemoryStore, Directory, Deadline) {
    let (memory, directory, _) = behind_a_store();
    let deadline = Deadline::after(directory.now(), TIMEOUT);
    (memory, directory, deadline)
}

/// One whose directory is throttled.
fn throttled() -> (MemoryStore, Directory, Faulty<MemoryStore>) {
    let (memory, directory, store) = behind_a_store();
    store.script(Operation::DirectoryGet, std::iter::repeat_with(Fault::throttle).take(1_000));
    (memory, directory, store)
}

fn behind_a_store() -> (MemoryStore, Directory, Faulty<MemoryStore>) {
    let clock = ManualClock::new();
    let settings = usual_settings();
    let memory = MemoryStore::new(clock.clone(), settings.schema.clone());
    let store = Faulty::new(memory.clone());
    store.delay(&clock, Duration::from_millis(10));
    let world = ports::World::new(store.clone(), store.clone(), clock, SeededEntropy::new(1));
    (memory, Directory::new(world, settings), store)
}

#[test]
fn concurrent_operations_share_one_read() {
    let (memory, directory, deadline) = slow();
    memory.place_metadata(metadata(1, 4, Placement::Xxh64));
    let partition = partition();
    let finds = (0..50).map(|_| directory.find(&partition, deadline));
    for found in block_on(join_all(finds)) {
        let found = found.expect("a look-up");
        assert_eq!(*found.metadata, metadata(1, 4, Placement::Xxh64));
    }
    let requests = memory.requests();
    assert_eq!((requests.directory_gets, requests.metadata_gets), (1, 1));
}

/// A write that is held for a minute read the directory for as long as that was throttled, and gets that are to be answered within
/// seconds waited for it.
#[test]
fn regression_whoever_waited_for_the_read_of_another_had_no_deadline() {
    let (_, directory, store) = throttled();
    let partition = partition();
    let now = directory.now();
    let patient = directory.find(&partition, Deadline::after(now, Duration::from_mins(1)));
    let answered = async {
        let hurried = directory.find(&partition, Deadline::after(now, Duration::from_secs(1)));
        let refused = hurried.await.expect_err("the directory is throttled");
        let took = directory.now().boot.saturating_sub(now.boot);
        store.clear(Operation::DirectoryGet);
        (refused.code(), took)
    };
    let (found, (code, took)) = block_on(join(patient, answered));
    found.expect("the directory answers in the end");
    assert_eq!(code, Code::Unavailable);
    assert!(took <= Duration::from_secs(1), "{took:?}");
}

/// Nothing is created for them, and nothing is asked about each of them.
#[test]
fn cold_collections_share_one_read_of_the_directory() {
    let (memory, directory, deadline) = slow();
    let partitions =
        (0..50).map(|n| PartitionKey::new(format!("cold {n}")).expect("a valid partition key"));
    let partitions = partitions.collect::<Vec<_>>();
    let finds = partitions.iter().map(|partition| directory.find(partition, deadline));
    for found in block_on(join_all(finds)) {
        let metadata = found.expect("a look-up").metadata;
        assert_eq!((metadata.number_of_shards, metadata.is_enlisted()), (count(1), false));
    }
    let requests = memory.requests();
    assert_eq!((requests.directory_gets, requests.total()), (1, 1));
}

/// Whether a look-up finds metadata of the collection, and how many requests for that it costs.
fn find(world: &World, look_up: &impl Fn() -> Known) -> (bool, u64) {
    let before = world.memory.requests().metadata_gets;
    let found = look_up().metadata.is_enlisted();
    (found, world.memory.requests().metadata_gets - before)
}

/// Metadata that the directory does not renew.
fn clearing_up() -> CollectionMetadata {
    CollectionMetadata { cleanup_pending: true, ..metadata(1, 4, Placement::Xxh64) }
}

#[test]
fn no_operation_begins_on_metadata_that_any_clock_says_is_old() {
    for source in [ManualClock::advance, ManualClock::advance_boot, ManualClock::advance_wall] {
        let world = World::new();
        world.memory.place_metadata(clearing_up());
        let directory = world.directory();
        let look_up =
            || block_on(directory.find(&partition(), world.deadline())).expect("a look-up");
        assert_eq!(find(&world, &look_up), (true, 1));
        source(&world.clock, FRESH.checked_sub(Duration::from_nanos(1)).expect("longer"));
        assert_eq!(find(&world, &look_up), (true, 0));
        source(&world.clock, Duration::from_nanos(1));
        assert_eq!(find(&world, &look_up), (true, 1));
    }
    // The server tells whole seconds: a difference of four may be little more than three.
    let world = World::new();
    world.memory.place_metadata(clearing_up());
    let directory = world.directory();
    let look_up = || block_on(directory.find(&partition(), world.deadline())).expect("a look-up");
    assert_eq!(find(&world, &look_up), (true, 1));
    world.clock.advance_server(Duration::from_secs(4));
    assert_eq!(find(&world, &look_up), (true, 0));
    world.clock.advance_server(Duration::from_secs(1));
    assert_eq!(find(&world, &look_up), (true, 1));
}

#[test]
fn a_lease_counts_from_before_its_read_was_sent() {
    for world in World::of_both_forms() {
        world.memory.place_metadata(clearing_up());
        let directory = world.directory();
        let look_up =
            || block_on(directory.find(&partition(), world.deadline())).expect("a look-up");
        let slow = Fault::after(world.passing(Duration::from_secs(3)));
        world.store.script(Operation::MetadataGet, [slow]);
        assert_eq!(find(&world, &look_up), (true, 1));
        assert_eq!(find(&world, &look_up), (true, 0));
        world.clock.advance(Duration::from_secs(1));
        assert_eq!(find(&world, &look_up), (true, 1), "four seconds after it was sent");
    }
}

#[test]
fn what_was_forgotten_is_read_again() {
    for world in World::of_both_forms() {
        world.lay_out(1, 4, Placement::Xxh64);
        let directory = world.directory();
        let look_up =
            || block_on(directory.find(&partition(), world.deadline())).expect("a look-up");
        assert_eq!(find(&world, &look_up), (true, 1));
        directory.forget(&partition());
        assert_eq!(find(&world, &look_up), (true, 1));
    }
}

/// Absence is what a leased, strong read has said.
/// Invariant I32.
#[test]
fn a_cold_collection_stands_on_the_lease_of_the_directory() {
    for source in [ManualClock::advance, ManualClock::advance_boot, ManualClock::advance_wall] {
        for world in World::of_both_forms() {
            let directory = world.directory();
            let look_up =
                || block_on(directory.find(&partition(), world.deadline())).expect("a look-up");
            assert_eq!(find(&world, &look_up), (false, 0));
            world.lay_out(1, 4, Placement::Xxh64);
            source(&world.clock, FRESH.checked_sub(Duration::from_nanos(1)).expect("longer"));
            assert_eq!(find(&world, &look_up), (false, 0), "the lease lives");
            assert_eq!(world.memory.requests().directory_gets, 1);
            source(&world.clock, Duration::from_nanos(1));
            assert_eq!(find(&world, &look_up), (true, 1));
            assert_eq!(world.memory.requests().directory_gets, 2);
        }
    }
}

#[test]
fn a_collection_that_shows_itself_enlisted_is_looked_up_again() {
    for world in World::of_both_forms() {
        let directory = world.directory();
        let look_up =
            || block_on(directory.find(&partition(), world.deadline())).expect("a look-up");
        assert_eq!(find(&world, &look_up), (false, 0));
        world.lay_out(1, 4, Placement::Xxh64);
        directory.forget(&partition());
        assert_eq!(find(&world, &look_up), (true, 1));
    }
}

/// Environments kept their writes to the throttled shard for most of a lease after the new ones took them.
#[test]
fn regression_a_growth_that_was_in_force_was_noticed_when_the_lease_ended() {
    let world = World::new();
    let forward = CollectionMetadata {
        last_updated_secs: world.clock.now().epoch_secs(),
        ..resharding()[0].clone()
    };
    world.memory.place_metadata(forward);
    let directory = world.directory();
    let look_up = || block_on(directory.find(&partition(), world.deadline())).expect("a look-up");
    let mut looks = Vec::new();
    let tick = Duration::from_millis(100);
    for tick_no in 0..200 {
        if find(&world, &look_up).1 > 0 {
            looks.push(tick * tick_no);
        }
        world.clock.advance(tick);
    }
    let due = leases_end(LEASE);
    let after = |look: &Duration| look.checked_sub(due).map(|after| after.as_millis());
    let late = looks.iter().filter_map(after).collect::<Vec<_>>();
    assert_eq!(
        late[..4],
        [50, 550, 1_050, 1_650],
        "it looks when the move is due, and then less often"
    );
    assert!(late.len() <= 9, "a move that does not come costs little: {late:?}");
    let early = looks.iter().filter(|look| after(look).is_none()).count();
    assert_eq!(early, 2, "before that the lease counts");
}

/// Else one operation of each lease waits for a read of the directory.
#[test]
fn the_directory_is_read_again_before_an_operation_has_to_wait_for_it() {
    let world = World::new();
    let directory = world.directory();
    let look_up = || block_on(directory.find(&partition(), world.deadline())).expect("a look-up");
    let renew = || block_on(directory.lease().renew_early(world.deadline()));
    let reads = || world.memory.requests().directory_gets;
    renew();
    assert_eq!(reads(), 0, "nobody has asked for anything yet");
    look_up();
    world.clock.advance((LEASE / 2).saturating_sub(Duration::from_nanos(1)));
    renew();
    assert_eq!(reads(), 1, "it is young");
    world.clock.advance(Duration::from_nanos(1));
    world.store.script(Operation::DirectoryGet, [Fault::Lose]);
    block_on(directory.lease().renew_early(world.deadline_in(Duration::from_millis(1))));
    renew();
    assert_eq!(reads(), 1, "it was lost, and a slow directory is not asked more often");
    world.clock.advance(FRESH);
    look_up();
    assert_eq!(reads(), 2);
    world.clock.advance(LEASE / 2);
    renew();
    assert_eq!(reads(), 3);
    world.clock.advance(FRESH.saturating_sub(LEASE / 2));
    look_up();
    assert_eq!(reads(), 3, "no operation has waited");
}

/// Hashes may collide, and the directory may show a collection before its metadata.
#[test]
fn a_listed_collection_without_metadata_is_cold() {
    for world in World::of_both_forms() {
        world.lay_out(1, 4, Placement::Xxh64);
        world.memory.remove_metadata(&partition());
        let directory = world.directory();
        let look_up =
            || block_on(directory.find(&partition(), world.deadline())).expect("a look-up");
        assert_eq!(find(&world, &look_up), (false, 1));
        world.lay_out(1, 4, Placement::Xxh64);
        world.clock.advance(FRESH.checked_sub(Duration::from_nanos(1)).expect("longer"));
        assert_eq!(
            find(&world, &look_up),
            (false, 0),
            "a lease of its own, from before the metadata"
        );
        world.clock.advance(Duration::from_nanos(1));
        assert_eq!(find(&world, &look_up), (true, 1));
    }
}

/// The lease came from the directory, which was read after the metadata: whoever enlisted the collection
/// between the two did not wait for it.
/// Invariant I32.
#[test]
fn regression_a_cold_lease_began_after_the_read_that_it_stood_on() {
    for world in World::of_both_forms() {
        world.lay_out(1, 4, Placement::Xxh64);
        world.memory.remove_metadata(&partition());
        let directory = world.directory();
        let slow = Fault::after(world.passing(FRESH));
        world.store.script(Operation::MetadataGet, [slow]);
        let known = block_on(directory.find(&partition(), world.deadline())).expect("a look-up");
        assert!(!known.metadata.is_enlisted());
        assert!(!known.lease.is_fresh(world.clock.now()), "it counts from before that read");
    }
}

/// Somebody has restored or edited one of the two alone.
#[test]
fn metadata_that_the_directory_never_lists_is_reported() {
    for world in World::of_both_forms() {
        world.memory.place_unlisted_metadata(metadata(1, 4, Placement::Xxh64));
        let began = world.clock.now();
        let slice = block_on(world.rebalancer().advance(&partition(), 0, world.deadline()));
        let error = slice.advance.expect_err("a damage");
        assert_eq!(error.code(), Code::CorruptData);
        assert!(error.message().contains("the directory does not list it"), "{error}");
        let waited = world.clock.now().certainly_since(began);
        assert!(waited >= leases_end(LEASE), "transactions may show in part: {waited:?}");
    }
}

/// The time that the read of the metadata took counted as time for which the directory had not listed it. The simulation
/// found it: a transaction showed in part, and the read that followed was slow.
#[test]
fn regression_a_slow_read_of_metadata_was_taken_for_a_directory_that_never_lists_it() {
    for world in World::of_both_forms() {
        let listed = metadata(1, 4, Placement::Xxh64);
        world.memory.place_unlisted_metadata(listed.clone());
        let (memory, pass) = (world.memory.clone(), world.passing(leases_end(LEASE) * 2));
        let slow = Fault::after(move || {
            pass();
            memory.place_metadata(listed);
        });
        world.store.script(Operation::MetadataGet, [slow]);
        let slice = block_on(world.rebalancer().advance(&partition(), 0, world.deadline()));
        assert_eq!(slice.advance, Ok(Advance::Nothing));
    }
}

#[test]
fn the_cache_keeps_the_collections_that_were_used_last() {
    const KEPT: u32 = 10_000;
    let world = World::new();
    let directory = world.directory();
    let partition = |n: u32| PartitionKey::new(n.to_string()).expect("a valid partition key");
    let requests_of = |n| {
        let before = world.memory.requests().metadata_gets;
        let found = block_on(directory.find(&partition(n), world.deadline())).expect("a look-up");
        assert!(found.metadata.is_enlisted());
        world.memory.requests().metadata_gets - before
    };
    for n in 0..=KEPT {
        world.memory.place_metadata(CollectionMetadata::stable(
            partition(n),
            Placement::Xxh64,
            ShardCount::ONE,
            1,
        ));
    }
    assert_eq!((0..KEPT).map(requests_of).sum::<u64>(), u64::from(KEPT));
    assert_eq!((0..KEPT).map(requests_of).sum::<u64>(), 0, "all of them are kept");
    assert_eq!(requests_of(KEPT), 1);
    assert_eq!(requests_of(1), 0, "the second stays");
    assert_eq!(requests_of(0), 1, "the first made room");
}
