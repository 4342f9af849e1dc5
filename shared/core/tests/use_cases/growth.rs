//! A throttled random collection grows: readers first, writers when no reader can be left behind.

use std::collections::BTreeSet;
use std::time::Duration;

use dynashard_core::ports::{Clock, Consistency, StoreError};
use dynashard_core::query::{PageBudget, Query};
use dynashard_core::{
    Advance, Code, CollectionMetadata, Generation, HistoryEntry, Phase, Precondition, Reader,
    ScalingMode, ScalingPolicy, Settings, Sweep, Throttle, Writer, leases_end,
};
use dynashard_keys::{PartitionKey, Placement, ShardId};
use dynashard_testkit::{Fault, Operation, block_on};
use futures_util::future::join_all;

use crate::world::{
    LEASE, World, code, count, key, outcome_unknown, partition, shard_of, usual_settings,
};

/// Longer than T', and than the longest back-off after the cooldown.
const LONG: Duration = Duration::from_secs(71);

fn hot_partition() -> Fault {
    let throttle = Throttle::from_reason("TableWriteKeyRangeThroughputExceeded", None);
    Fault::Refuse(StoreError::Throttled(throttle))
}

/// A random collection of so many shards, long after its creation.
fn world(shards: u32) -> World {
    let world = World::random();
    world.lay_out(1, shards, Placement::Random);
    world.clock.advance(LONG);
    world
}

fn put(world: &World, writer: &Writer, sk: &str) {
    let item = world.new_item(sk, "new");
    block_on(writer.put(&item, Precondition::None, world.deadline())).expect("a put");
}

fn throttled_put(world: &World, writer: &Writer, sk: &str) {
    world.heat_up();
    world.store.script(Operation::Write, [hot_partition()]);
    put(world, writer, sk);
}

fn metadata(world: &World) -> CollectionMetadata {
    world.memory.stored_metadata(&partition()).expect("the collection exists")
}

fn read(world: &World, reader: &Reader) -> Vec<String> {
    let query = Query { consistency: Consistency::Strong, limit: 1_000, ..Query::all(partition()) };
    let page = block_on(reader.query(&query, PageBudget::UNLIMITED, world.deadline()));
    page.expect("a page").items.into_iter().map(|(sort, _)| sort.to_string()).collect()
}

fn advance(world: &World) -> Advance {
    let slice = block_on(world.rebalancer().advance(&partition(), 0, world.deadline()));
    slice.advance.expect("it advances")
}

#[test]
fn a_thousand_writers_that_meet_one_throttle_cause_one_growth() {
    let world = world(1);
    world.heat_up();
    let writers = (0..1_000).map(|_| world.writer()).collect::<Vec<_>>();
    world.store.script(Operation::Write, (0..1_000).map(|_| hot_partition()));
    let deadline = world.deadline();
    let items = (0..1_000).map(|n| world.new_item(&n.to_string(), "new")).collect::<Vec<_>>();
    let puts = writers.iter().zip(&items);
    let puts = puts.map(|(writer, item)| writer.put(item, Precondition::None, deadline));
    for written in block_on(join_all(puts)) {
        written.expect("the write itself is tried on");
    }
    let CollectionMetadata { phase, rev, generation, .. } = metadata(&world);
    assert_eq!(phase, Phase::Forward { from: count(1), to: count(2) });
    assert_eq!((rev, generation), (2, Generation::new(2)), "one change");
    assert_eq!(world.memory.contents().len(), 1_000);
}

#[test]
fn readers_take_the_new_shards_before_writers_do() {
    let world = world(1);
    let writer = world.writer();
    throttled_put(&world, &writer, "0");
    for n in 1..50 {
        put(&world, &world.writer(), &n.to_string());
    }
    let in_shard = |shard| {
        let contents = world.memory.contents();
        let shard = shard_of(Placement::Random, shard);
        contents.iter().filter(|(at, _)| at.partition == shard).count()
    };
    assert_eq!((in_shard(1), in_shard(2)), (50, 0), "writers wait");
    assert_eq!(metadata(&world).number_of_shards, count(1), "the count in force");

    let begun = world.clock.now();
    let Advance::Finished(finished) = advance(&world) else { panic!("a growth runs") };
    assert!(world.clock.now().certainly_since(begun) >= leases_end(LEASE));
    assert_eq!(finished, metadata(&world));
    assert_eq!((finished.phase, finished.number_of_shards), (Phase::Stable, count(2)));
    assert_eq!(finished.generation, Generation::new(2));
    assert_eq!(finished.shard_history.last().map(|entry| entry.count), Some(count(2)));
    for n in 50..100 {
        put(&world, &world.writer(), &n.to_string());
    }
    assert!(in_shard(2) > 0, "writers follow");
    assert_eq!(read(&world, &world.reader()).len(), 100);
    assert_eq!(advance(&world), Advance::Nothing);
}

/// Environments with leases of any age read and write through one growth after the other.
#[test]
fn nothing_is_out_of_sight_while_a_collection_grows() {
    let world = world(1);
    let (writers, readers) = ([world.writer(), world.writer()], [world.reader(), world.reader()]);
    let mut written = BTreeSet::new();
    for step in 0..400_u32 {
        let sk = format!("{step:04}");
        let writer = &writers[step as usize % 2];
        if step % 90 == 10 {
            throttled_put(&world, writer, &sk);
        } else {
            put(&world, writer, &sk);
        }
        written.insert(sk);
        if step % 90 == 40 {
            advance(&world);
        }
        world.clock.advance(Duration::from_millis(u64::from(step % 7) * 400));
        let seen = read(&world, &readers[step as usize / 3 % 2]);
        assert_eq!(seen, written.iter().cloned().collect::<Vec<_>>(), "step {step}");
    }
    assert!(metadata(&world).number_of_shards >= count(8), "{:?}", metadata(&world));
}

#[test]
fn a_cooldown_lies_between_two_growths() {
    let world = world(1);
    let writer = world.writer();
    throttled_put(&world, &writer, "a");
    advance(&world);
    world.clock.advance(Duration::from_secs(50));
    throttled_put(&world, &writer, "b");
    assert_eq!(metadata(&world).phase, Phase::Stable);
    world.clock.advance(Duration::from_secs(10));
    throttled_put(&world, &writer, "c");
    assert_eq!(metadata(&world).phase, Phase::Forward { from: count(2), to: count(4) });
}

#[test]
fn only_a_hot_partition_of_the_table_makes_a_collection_grow() {
    for reason in [
        "TableWriteProvisionedThroughputExceeded",
        "TableWriteAccountLimitExceeded",
        "TableWriteMaxOnDemandThroughputExceeded",
        "IndexWriteKeyRangeThroughputExceeded",
        "",
    ] {
        let world = world(1);
        world.heat_up();
        let throttle = Throttle::from_reason(reason, None);
        let refusal = Fault::Refuse(StoreError::Throttled(throttle));
        world.store.script(Operation::Write, [refusal]);
        put(&world, &world.writer(), "a");
        assert_eq!(metadata(&world).phase, Phase::Stable, "{reason}");
    }
}

#[test]
fn what_must_not_grow_does_not() {
    for (placement, policy) in [
        (Placement::Xxh64, ScalingPolicy { writers: false, ..ScalingPolicy::default() }),
        (Placement::Random, ScalingPolicy { writers: false, ..ScalingPolicy::default() }),
        (Placement::Random, ScalingPolicy { mode: ScalingMode::Off, ..ScalingPolicy::default() }),
        (
            Placement::Random,
            ScalingPolicy { mode: ScalingMode::DryRun, ..ScalingPolicy::default() },
        ),
    ] {
        let world = World::with(Settings { scaling: policy, ..usual_settings() });
        world.lay_out(1, 1, placement);
        world.clock.advance(LONG);
        throttled_put(&world, &world.writer(), "a");
        assert_eq!(metadata(&world).rev, 1, "{placement} {policy:?}");
    }
}

#[test]
fn a_throttled_collection_of_a_calculated_placement_begins_to_move() {
    for placement in [Placement::Xxh64, Placement::Jump] {
        let world = World::new();
        world.lay_out(1, 2, placement);
        world.clock.advance(LONG);
        throttled_put(&world, &world.writer(), "a");
        assert_eq!(metadata(&world).phase, Phase::Forward { from: count(2), to: count(4) });
        let job = world.memory.stored_job(&partition()).expect("a job");
        assert_eq!((job.generation, job.from, job.to), (Generation::new(2), count(2), count(4)));
    }
}

/// The removal of markers throttled a partition beside its clients, who took that for a reason to
/// grow once more.
#[test]
fn regression_a_collection_grew_for_throttles_of_its_own_rebalancer() {
    for placement in [Placement::Xxh64, Placement::Jump] {
        let world = World::new();
        world.lay_out(1, 1, placement);
        let created = metadata(&world);
        let entry =
            |shards| HistoryEntry { at_secs: created.last_updated_secs, count: count(shards) };
        world.memory.place_metadata(CollectionMetadata {
            number_of_shards: count(4),
            shard_history: vec![entry(1), entry(4)],
            cleanup_pending: true,
            rev: 4,
            ..created
        });
        world.clock.advance(LONG);
        let sk = |in_old_shard| {
            let is_wanted = |sk: &String| {
                let home = placement.home(&key(sk), count(4));
                (home == Some(ShardId::new(0))) == in_old_shard
            };
            (0..1_000).map(|n: u32| n.to_string()).find(is_wanted).expect("there are many names")
        };
        throttled_put(&world, &world.writer(), &sk(true));
        assert_eq!(metadata(&world).phase, Phase::Stable, "markers are removed from there");
        throttled_put(&world, &world.writer(), &sk(false));
        assert_eq!(metadata(&world).phase, Phase::Forward { from: count(4), to: count(8) });
    }
}

#[test]
fn a_growth_that_cannot_be_recorded_does_not_fail_the_write() {
    for fault in
        [Fault::throttle(), Fault::Refuse(outcome_unknown()), Fault::ExecuteThen(outcome_unknown())]
    {
        let world = world(1);
        world.store.script(Operation::Begin, [fault]);
        throttled_put(&world, &world.writer(), "a");
        assert_eq!(world.memory.contents().len(), 1);
    }
}

/// Each rebalancer has less time than T', and remembers nothing of the one before.
/// Invariant I11.
#[test]
fn a_growth_ends_however_often_its_rebalancer_is_killed() {
    let world = world(1);
    throttled_put(&world, &world.writer(), "a");
    let before = metadata(&world);
    let begun = world.clock.now();
    let mut in_force_after = None;
    for slice in 0.. {
        assert!(slice < 100, "it never ended");
        let deadline = world.deadline_in(Duration::from_secs(3));
        let slice = block_on(world.rebalancer().advance(&partition(), 0, deadline));
        let passed = world.clock.now().certainly_since(begun);
        if metadata(&world).phase == Phase::Stable {
            in_force_after.get_or_insert(passed);
        } else {
            assert_eq!(metadata(&world), before, "nothing changes before T' has passed");
        }
        match slice.advance.expect("a slice") {
            Advance::Finished(_) => break,
            Advance::Waiting { .. } => world.clock.advance(Duration::from_secs(1)),
            other => panic!("{other:?}"),
        }
    }
    let settle = leases_end(LEASE);
    assert!(in_force_after.expect("the new count") >= settle);
    assert!(world.clock.now().certainly_since(begun) >= settle * 2, "leases on forward, too");
    assert_eq!(world.memory.stored_job(&partition()), None);
}

#[test]
fn two_rebalancers_finish_one_growth_once() {
    let world = world(1);
    throttled_put(&world, &world.writer(), "a");
    let (one, other) = (world.rebalancer(), world.rebalancer());
    let (partition, deadline) = (partition(), world.deadline());
    let both = [one.advance(&partition, 0, deadline), other.advance(&partition, 0, deadline)];
    let slices = block_on(join_all(both)).into_iter();
    let advances = slices.map(|slice| slice.advance.expect("it advances"));
    let finished = advances.filter(|advance| matches!(advance, Advance::Finished(_)));
    assert_eq!(finished.count(), 1);
    assert_eq!((metadata(&world).rev, metadata(&world).number_of_shards), (4, count(2)));
}

#[test]
fn a_rebalancer_that_does_not_hear_of_its_success_reads_again() {
    for operation in [Operation::JobSave, Operation::MetadataUpdate, Operation::Finish] {
        let world = world(1);
        throttled_put(&world, &world.writer(), "a");
        world.store.script(operation, [Fault::ExecuteThen(outcome_unknown())]);
        let advance = advance(&world);
        let finished = matches!(advance, Advance::Finished(_));
        assert_eq!(finished, operation != Operation::Finish, "{operation:?}: {advance:?}");
        assert_eq!((metadata(&world).rev, metadata(&world).number_of_shards), (4, count(2)));
        assert_eq!(world.memory.stored_job(&partition()), None);
    }
}

/// Invariant I11.
#[test]
fn the_sweep_finds_what_the_stream_did_not_bring() {
    let world = world(2);
    throttled_put(&world, &world.writer(), "a");
    let sweep = || {
        let Sweep { collections, left, unlisted, .. } =
            block_on(world.rebalancer().sweep(world.deadline()));
        assert_eq!((left, unlisted), (0, None));
        collections
    };
    let swept = sweep();
    let [(found, slice)] = &swept[..] else { panic!("{swept:?}") };
    assert_eq!(*found, partition());
    assert!(matches!(slice.advance, Ok(Advance::Finished(_))));
    assert_eq!(sweep(), []);
    assert_eq!(metadata(&world).number_of_shards, count(4));
}

/// Where the list was cut off each time, the collections at its end were never looked at.
#[test]
fn regression_a_list_that_was_cut_off_always_began_at_the_start() {
    let world = world(1);
    world.memory.split_pages(1, usize::MAX);
    let names = ["a", "b", "c"].map(|name| PartitionKey::new(name).expect("a partition key"));
    for name in &names {
        // Without a job there is nothing to wait for.
        let phase = Phase::Forward { from: count(1), to: count(2) };
        let begun = CollectionMetadata { phase, partition: name.clone(), ..metadata(&world) };
        world.memory.place_metadata(begun);
    }
    let rebalancer = world.rebalancer();
    let sweep = || {
        // The first page comes, and the next one does not.
        world.store.script(Operation::MetadataQuery, [Fault::after(|| {}), Fault::Lose]);
        let sweep = block_on(rebalancer.sweep(world.deadline()));
        sweep.collections.into_iter().map(|(partition, _)| partition).collect::<Vec<_>>()
    };
    let swept = [sweep(), sweep(), sweep()];
    assert_eq!(swept, names.map(|name| vec![name]));

    // A first page that does not come is asked for from the start again. The third sweep, whose list was
    // over with its first page, has left the fault.
    let nothing = block_on(rebalancer.sweep(world.deadline()));
    assert!(nothing.collections.is_empty() && nothing.unlisted.is_some(), "{nothing:?}");
    assert_eq!(block_on(rebalancer.sweep(world.deadline())).collections.len(), 3);
}

#[test]
fn an_operator_asks_for_a_count_without_waiting_for_a_cooldown() {
    let world = world(1);
    let scale = |shards| {
        block_on(world.scaler().request_count(&partition(), count(shards), world.deadline()))
    };
    assert_eq!(scale(5).expect("it begins").phase, Phase::Forward { from: count(1), to: count(5) });
    assert_eq!(code(scale(6)), Code::ReshardRunning);
    assert_eq!(scale(5).expect("it is on its way").phase, metadata(&world).phase);
    advance(&world);
    let soon = world.deadline_in(Duration::from_secs(2));
    let refused = block_on(world.scaler().request_count(&partition(), count(6), soon));
    assert_eq!(code(refused), Code::ReshardTooSoon);
    world.clock.advance(leases_end(LEASE) + Duration::from_secs(1));
    assert_eq!(scale(5).expect("nothing to do").rev, 4);
    assert_eq!(code(scale(257)), Code::BadShardCount);
}
