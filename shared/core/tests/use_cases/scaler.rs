//! Pre-sharding, and requests for another count that cannot be met.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dynashard_core::ports::Clock;
use dynashard_core::{
    Code, CollectionMetadata, Epoch, Epochs, Error, Extent, Generation, Grant, HistoryEntry, Kind,
    Phase, Precondition, Settings, Stage, leases_end,
};
use dynashard_keys::{PartitionKey, Placement};
use dynashard_testkit::{Fault, Operation, block_on};
use futures_util::future::join_all;

use crate::world::{
    LEASE, World, code, count, metadata, outcome_unknown, partition, sort, usual_settings,
};

/// H in these tests.
const LIFETIME: Duration = Duration::from_secs(20);

fn create(
    world: &World,
    placement: Option<Placement>,
    shards: u32,
) -> Result<CollectionMetadata, Error> {
    let scaler = world.scaler();
    block_on(scaler.create_collection(&partition(), placement, count(shards), world.deadline()))
}

/// Nobody else could change it for a day: the clocks of the others had not come to when it said that it was made.
#[test]
fn regression_a_collection_said_that_it_was_made_when_its_makers_wrong_clock_told() {
    let world = World::new();
    world.clock.advance_wall(Duration::from_hours(24));
    let created = create(&world, None, 1).expect("a new collection");
    assert_eq!(created.last_updated_secs, 1_356_998_400);
}

#[test]
fn a_collection_is_created_with_the_count_that_its_placement_needs() {
    for (placement, requested, gets) in [
        (None, 1, 1),
        (None, 3, 4),
        (Some(Placement::Xxh64), 129, 256),
        (Some(Placement::Jump), 3, 3),
        (Some(Placement::Random), 7, 7),
    ] {
        let world = World::new();
        let created = create(&world, placement, requested).expect("a new collection");
        let grows = gets > 1;
        let expected = CollectionMetadata {
            epochs: Epochs::default(),
            partition: partition(),
            number_of_shards: count(1),
            last_updated_secs: 1_356_998_400,
            shard_history: vec![HistoryEntry { at_secs: 1_356_998_400, count: count(1) }],
            generation: Generation::new(u64::from(grows)),
            phase: match gets {
                1 => Phase::Stable,
                _ => Phase::Forward { from: count(1), to: count(gets) },
            },
            placement: placement.unwrap_or_default(),
            rev: if grows { 2 } else { 1 },
            min_shards: count(gets),
            largest_count: count(gets),
            cleanup_pending: false,
            items_moved: 0,
        };
        assert_eq!(created, expected);
        assert_eq!(world.memory.stored_metadata(&partition()), Some(expected));
        assert_eq!(world.memory.stored_job(&partition()).is_some(), grows);
        assert!(world.memory.lists(&partition()));
    }
}

/// Who asks is answered when puts go to the new shards.
#[test]
fn a_creation_waits_until_the_new_shards_are_in_force() {
    for placement in [Placement::Xxh64, Placement::Random] {
        let world = World::new();
        let rebalancer = world.rebalancer();
        let deadline = world.deadline();
        let moves_on = Fault::before(move || {
            block_on(rebalancer.advance(&partition(), 0, deadline)).advance.expect("it goes on");
        });
        // The first looks are those of the creation.
        world.store.script(Operation::MetadataGet, [moves_on]);
        let created = create(&world, Some(placement), 4).expect("a new collection");
        assert_eq!(created.number_of_shards, count(4), "{:?}", created.phase);
        assert_eq!(created.min_shards, count(4));
    }
}

#[test]
fn a_count_that_the_stack_does_not_allow_is_refused() {
    let settings = Settings { max_shards: count(100), ..usual_settings() };
    // 65 shards make 128 under xxh64.
    for (placement, requested, is_allowed) in [
        (Placement::Jump, 100, true),
        (Placement::Jump, 101, false),
        (Placement::Xxh64, 64, true),
        (Placement::Xxh64, 65, false),
    ] {
        let world = World::with(settings.clone());
        let created = create(&world, Some(placement), requested);
        if is_allowed {
            created.expect("a new collection");
        } else {
            assert_eq!(code(created), Code::BadShardCount);
            assert_eq!(world.memory.requests().total(), 0);
        }
    }
}

/// A stack was set to allow fewer shards than a collection had, and a change of it could not be turned round.
#[test]
fn regression_a_shrink_from_more_shards_than_are_allowed_could_not_be_turned_round() {
    let world = World::with(Settings { max_shards: count(2), ..usual_settings() });
    let phase = Phase::Move { from: count(4), to: count(1) };
    world.memory.place_metadata(CollectionMetadata { phase, ..metadata(2, 1, Placement::Xxh64) });
    let ask = |shards| {
        block_on(world.scaler().request_count(&partition(), count(shards), world.deadline()))
    };
    assert_eq!(code(ask(8)), Code::BadShardCount);
    assert_ne!(ask(4).err().map(|error| error.code()), Some(Code::BadShardCount));
}

#[test]
fn a_collection_that_was_changed_before_is_not_created_again() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    assert_eq!(code(create(&world, None, 8)), Code::CollectionExists);
    let kept = world.memory.stored_metadata(&partition()).expect("metadata");
    assert_eq!(kept.number_of_shards, count(1));
}

/// Strong reads may see the list before the metadata. The collection passed for a cold one, and its
/// creation for complete.
#[test]
fn regression_a_creation_that_showed_in_part_was_answered_as_in_force() {
    let world = World::new();
    let (hides, shows) = (world.memory.clone(), world.memory.clone());
    let rebalancer = world.rebalancer();
    let deadline = world.deadline();
    let hidden = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&hidden);
    let hide = Fault::before(move || {
        *kept.lock().expect("no panic") = hides.stored_metadata(&partition());
        hides.remove_metadata(&partition());
    });
    let show = Fault::before(move || {
        shows.place_metadata(hidden.lock().expect("no panic").take().expect("it was hidden"));
        block_on(rebalancer.advance(&partition(), 0, deadline)).advance.expect("it goes on");
    });
    world.store.script(Operation::MetadataGet, [hide, show]);
    let created = create(&world, None, 4).expect("a new collection");
    assert_eq!(created.number_of_shards, count(4), "{:?}", created.phase);
}

/// All change one item, each as it has seen it.
#[test]
fn collections_that_are_created_at_once_are_all_listed() {
    for world in World::of_both_forms() {
        let partitions =
            (0..20).map(|n| PartitionKey::new(format!("hot {n}")).expect("a valid partition key"));
        let partitions = partitions.collect::<Vec<_>>();
        let scalers = partitions.iter().map(|_| world.scaler()).collect::<Vec<_>>();
        let created = partitions.iter().zip(&scalers).map(|(partition, scaler)| {
            scaler.create_collection(partition, None, count(1), world.deadline())
        });
        for created in block_on(join_all(created)) {
            created.expect("a new collection");
        }
        assert!(partitions.iter().all(|partition| world.memory.lists(partition)));
    }
}

#[test]
fn a_full_directory_refuses_further_collections_at_once() {
    for world in World::of_both_forms() {
        world.memory.fill_directory(&partition());
        let began = world.clock.now();
        assert_eq!(code(create(&world, None, 4)), Code::DirectoryFull);
        assert_eq!(world.clock.now(), began);
        let item = world.new_item("a", "new");
        block_on(world.writer().put(&item, Precondition::None, world.deadline())).expect("a put");
    }
}

#[test]
fn what_grow_keys_do_not_name_is_refused_and_nothing_is_written() {
    let grow_keys = "FLIGHT#*".parse().expect("patterns");
    let world = World::with(Settings { grow_keys, ..usual_settings() });
    assert_eq!(code(create(&world, None, 4)), Code::CollectionNotAllowed);
    assert_eq!(code(create(&world, None, 1)), Code::CollectionNotAllowed);
    let scaler = world.scaler();
    let requested = block_on(scaler.request_count(&partition(), count(4), world.deadline()));
    assert_eq!(code(requested), Code::CollectionNotAllowed);
    let flight = PartitionKey::new("FLIGHT#EWR").expect("a partition key");
    block_on(scaler.request_count(&flight, count(4), world.deadline())).expect("it may grow");
    assert!(world.memory.lists(&flight) && !world.memory.lists(&partition()));
    // What has grown may become plain again, and no larger.
    world.lay_out(1, 4, Placement::Xxh64);
    let ask =
        |shards| block_on(scaler.request_count(&partition(), count(shards), world.deadline()));
    assert_eq!(code(ask(8)), Code::CollectionNotAllowed);
    ask(1).expect("fewer shards");
}

/// An older epoch had fewer shards, and so a shrink of the newest counted as growth, which was not allowed.
#[test]
fn regression_the_newest_epoch_could_not_become_plain_again_beside_a_narrow_one() {
    let grow_keys = "FLIGHT#*".parse().expect("patterns");
    let world = World::with(Settings { grow_keys, ..usual_settings() });
    let older = vec![Epoch { count: count(1), boundary: sort("m") }];
    let epochs = Epochs { older, ..Epochs::default() };
    let stable = crate::world::metadata(2, 16, Placement::Xxh64);
    world.memory.place_metadata(CollectionMetadata { epochs, ..stable });
    let ask = |extent: &Extent, shards| {
        let change = (extent, count(shards));
        let scaler = world.scaler();
        block_on(scaler.request_change(None, &partition(), change, world.deadline()))
    };
    assert_eq!(code(ask(&Extent::Newest, 32)), Code::CollectionNotAllowed);
    assert_eq!(code(ask(&Extent::Older(0), 4)), Code::CollectionNotAllowed);
    assert_eq!(code(ask(&Extent::Whole, 16)), Code::CollectionNotAllowed);
    let shrinks = ask(&Extent::Newest, 4).expect("fewer shards");
    assert_eq!(shrinks.phase, Phase::Forward { from: count(16), to: count(4) });
}

fn grant(digest: &str, most: u32) -> Grant {
    Grant::new(digest, NonZeroU32::new(most).expect("not zero"))
}

fn key(name: &str) -> PartitionKey {
    PartitionKey::new(name).expect("a partition key")
}

#[test]
fn a_grant_bounds_how_many_collections_are_enlisted_under_it() {
    let world = World::new();
    let scaler = world.scaler();
    let (tenant, other) = (grant("tenant", 2), grant("other", 1));
    let create = |grant, name: &str| {
        let (key, deadline) = (key(name), world.deadline());
        block_on(scaler.create_collection_under(Some(grant), &key, None, count(1), deadline))
            .map_err(|error| error.code())
    };
    let request = |name: &str, shards| {
        let (key, deadline) = (key(name), world.deadline());
        block_on(scaler.request_change(
            Some(&tenant),
            &key,
            (&Extent::Newest, count(shards)),
            deadline,
        ))
        .map_err(|error| error.code())
    };
    create(&tenant, "a").expect("the first");
    request("b", 2).expect("the second");
    for refused in [create(&tenant, "c"), request("c", 2)] {
        assert_eq!(refused.map(|_| ()), Err(Code::GrantExhausted));
    }
    assert_eq!(["a", "b", "c"].map(|name| world.memory.lists(&key(name))), [true, true, false]);
    assert_eq!(world.memory.stored_metadata(&key("c")), None);
    // One shard is what it has.
    request("c", 1).expect("it is not enlisted for that");
    assert_eq!(create(&tenant, "a").map(|_| ()), Err(Code::CollectionExists));
    create(&other, "c").expect("another grant");
    // What is enlisted may change, whoever enlisted it, and operators are not bound.
    world.clock.advance(Duration::from_mins(20));
    request("c", 2).expect("it is enlisted");
    block_on(scaler.create_collection(&key("d"), None, count(1), world.deadline())).expect("new");
}

#[test]
fn what_is_not_enlisted_is_not_counted() {
    let grow_keys = "hot*".parse().expect("patterns");
    let world = World::with(Settings { grow_keys, ..usual_settings() });
    let scaler = world.scaler();
    let tenant = grant("tenant", 1);
    let create = |name: &str, shards| {
        let (key, deadline) = (key(name), world.deadline());
        block_on(scaler.create_collection_under(Some(&tenant), &key, None, count(shards), deadline))
            .map_err(|error| error.code())
            .map(|_| ())
    };
    assert_eq!(create("cold", 1), Err(Code::CollectionNotAllowed));
    assert_eq!(create("hot", 257), Err(Code::BadShardCount));
    assert_eq!(world.store.attempts(Operation::GrantSave), 0);
    assert_eq!(create("hot", 2), Ok(()));
}

/// The count may be one too high after a crash, and never too low.
#[test]
fn a_collection_is_counted_before_it_is_enlisted_and_once() {
    for fault in [Fault::Refuse(outcome_unknown()), Fault::Lose, Fault::ExecuteUnanswered] {
        let world = World::new();
        let scaler = world.scaler();
        let tenant = grant("tenant", 1);
        let create = |name: &str| {
            let (key, deadline) = (key(name), world.deadline());
            block_on(scaler.create_collection_under(Some(&tenant), &key, None, count(1), deadline))
                .map_err(|error| error.code())
                .map(|_| ())
        };
        world.store.script(Operation::Enlist, [fault]);
        assert_eq!(create("a"), Err(Code::OutcomeUnknown));
        assert_eq!(create("b"), Err(Code::GrantExhausted));
        assert!(matches!(create("a"), Ok(()) | Err(Code::CollectionExists)));
    }
    // Where it is not known whether it was counted, it is found out.
    for fault in [Fault::Refuse(outcome_unknown()), Fault::ExecuteThen(outcome_unknown())] {
        let world = World::new();
        let scaler = world.scaler();
        world.store.script(Operation::GrantSave, [fault]);
        let (tenant, key) = (grant("tenant", 1), key("a"));
        let request = scaler.request_change(
            Some(&tenant),
            &key,
            (&Extent::Newest, count(2)),
            world.deadline(),
        );
        block_on(request).expect("it is counted");
        assert_eq!(world.store.attempts(Operation::Enlist), 1);
    }
}

#[test]
fn writers_use_the_collection_as_it_was_created() {
    let world = World::new();
    let begun = create(&world, Some(Placement::Jump), 5).expect("a new collection");
    assert_eq!(begun.phase, Phase::Forward { from: count(1), to: count(5) }, "nobody moves it on");
    block_on(world.rebalancer().advance(&partition(), 0, world.deadline()))
        .advance
        .expect("a move");
    let writer = world.writer();
    let mut used = BTreeSet::new();
    for n in 0..100 {
        let item = world.new_item(&n.to_string(), "new");
        let put = writer.put(&item, Precondition::None, world.deadline());
        let written = block_on(put).expect("a put");
        assert_eq!(Placement::Jump.home(item.key(), count(5)), Some(written.shard));
        used.insert(written.shard.get());
    }
    assert!(used.iter().eq(&[0, 1, 2, 3, 4]), "{used:?}");
}

#[test]
fn a_creation_is_repeated_only_if_it_was_refused() {
    let world = World::new();
    world.store.script(Operation::Enlist, [Fault::throttle(), Fault::throttle()]);
    create(&world, None, 8).expect("a new collection");
    assert_eq!(world.store.attempts(Operation::Enlist), 3);

    for fault in [Fault::Refuse(outcome_unknown()), Fault::ExecuteThen(outcome_unknown())] {
        let world = World::new();
        world.store.script(Operation::Enlist, [fault]);
        assert_eq!(code(create(&world, None, 8)), Code::OutcomeUnknown);
        assert_eq!(world.store.attempts(Operation::Enlist), 1);
    }
}

#[test]
fn regression_a_creation_that_was_never_answered_hung_past_the_deadline() {
    for fault in [Fault::Lose, Fault::ExecuteUnanswered] {
        let world = World::new();
        world.store.script(Operation::Enlist, [fault]);
        assert_eq!(code(create(&world, None, 8)), Code::OutcomeUnknown);
        assert_eq!(world.store.attempts(Operation::Enlist), 1);
    }
}

#[test]
fn a_count_that_cannot_be_had_now_is_refused() {
    let world = World::new();
    let scaler = world.scaler();
    let request = |shards| {
        code(block_on(scaler.request_count(&partition(), count(shards), world.deadline())))
    };
    world.lay_out(1, 2, Placement::Xxh64);
    assert_eq!(request(257), Code::BadShardCount);
    let soon = world.deadline_in(Duration::from_secs(5));
    let began = world.clock.now();
    let refused = block_on(scaler.request_count(&partition(), count(4), soon));
    assert_eq!(code(refused), Code::ReshardTooSoon, "leases on the creation outlast the deadline");
    assert_eq!(world.clock.now(), began, "what is known at once is said at once");
    let kept = world.memory.stored_metadata(&partition()).expect("metadata");
    assert_eq!(kept.number_of_shards, count(2));
}

/// They were refused, 409, for the first seven seconds of every collection.
#[test]
fn regression_operators_had_to_ask_again_until_leases_had_ended() {
    for placement in [Placement::Xxh64, Placement::Random] {
        let world = World::new();
        world.lay_out(1, 2, placement);
        let created = world.clock.now();
        let scaler = world.scaler();
        let begun = block_on(scaler.request_count(&partition(), count(4), world.deadline()));
        let begun = begun.expect("it waits, and begins");
        assert_eq!(begun.phase, Phase::Forward { from: count(2), to: count(4) });
        let waited = world.clock.now().certainly_since(created);
        let settle = leases_end(LEASE);
        let shortly = Duration::from_secs(2);
        assert!(waited >= settle && waited < settle + shortly, "{waited:?} of {settle:?}");
    }
}

/// Where an operator who waits for `target` finds the collection.
fn status(world: &World, target: u32) -> (Stage, Option<u64>) {
    let scaler = world.scaler();
    let status = block_on(scaler.status(&partition(), count(target), world.deadline()));
    let status = status.expect("a reading");
    (status.stage, status.waits_until.map(|until| until.0))
}

#[test]
fn whoever_waits_for_a_count_is_told_when_it_is_there_and_when_it_never_will_be() {
    for placement in [Placement::Xxh64, Placement::Random] {
        let settings = Settings { request_lifetime: LIFETIME, ..usual_settings() };
        let world = World::with(settings);
        world.lay_out(1, 2, placement);
        world.clock.advance(LIFETIME);
        assert_eq!(status(&world, 2), (Stage::Reached, None));
        assert_eq!(status(&world, 4).0, Stage::Overtaken, "nobody has asked for it");
        let ask = |shards| {
            let scaler = world.scaler();
            block_on(scaler.request_count(&partition(), count(shards), world.deadline()))
        };
        ask(4).expect("begun");
        assert_eq!(status(&world, 4), (Stage::UnderWay, None), "not yet seen by anybody");
        assert_eq!(status(&world, 2).0, Stage::Overtaken);
        let turned_round = placement.is_calculated();
        if turned_round {
            ask(2).expect("noted");
        }
        let target = if turned_round { 2 } else { 4 };
        let rebalancer = world.rebalancer();
        let (mut waits, mut closed_between) = (0, false);
        for step in 0.. {
            assert!(step < 1_000, "it never gets there");
            let slice = world.deadline_in(Duration::from_secs(7));
            block_on(rebalancer.advance(&partition(), 0, slice)).advance.expect("it goes on");
            let (stage, until) = status(&world, target);
            waits += u32::from(until.is_some());
            let metadata = world.memory.stored_metadata(&partition()).expect("metadata");
            closed_between |=
                metadata.number_of_shards != count(target) && metadata.phase == Phase::Stable;
            if stage == Stage::Reached {
                break;
            }
            assert_eq!(stage, Stage::UnderWay, "{metadata:?}");
            world.clock.advance(Duration::from_millis(500));
        }
        assert!(waits > 0);
        assert_eq!(closed_between, turned_round);
        let metadata = world.memory.stored_metadata(&partition()).expect("metadata");
        assert_eq!((metadata.number_of_shards, metadata.phase), (count(target), Phase::Stable));
    }
}

/// The transfer of the first item beyond 10 GB was rejected, and the reshard never ended.
#[test]
fn regression_a_shrink_that_a_local_index_forbids_was_begun() {
    const LIMIT: u64 = 5_000_000_000;
    let world = World::new();
    world.lay_out(1, 4, Placement::Xxh64);
    world.clock.advance(Duration::from_hours(1));
    world.memory.index_locally(LIMIT + 1);
    let scaler = world.scaler();
    let request =
        |shards| block_on(scaler.request_count(&partition(), count(shards), world.deadline()));
    let refused = request(2).expect_err("fewer shards");
    assert_eq!(refused.code(), Code::ShardsTooLarge);
    assert_eq!(refused.kind(), Kind::Conflict);
    let kept = world.memory.stored_metadata(&partition()).expect("metadata");
    assert_eq!((kept.phase, kept.number_of_shards), (Phase::Stable, count(4)));

    // More shards hold no more than there is.
    let grown = request(8).expect("more shards");
    assert_eq!(grown.phase, Phase::Forward { from: count(4), to: count(8) });
    assert_eq!(code(request(4)), Code::ShardsTooLarge, "turned round it is a shrink");

    let knowing = world.scaler().whatever_their_size();
    block_on(knowing.request_count(&partition(), count(4), world.deadline()))
        .expect("an operator knows that they fit");

    let small = World::new();
    small.lay_out(1, 4, Placement::Xxh64);
    small.clock.advance(Duration::from_hours(1));
    small.memory.index_locally(LIMIT);
    let scaler = small.scaler();
    let shrunk = block_on(scaler.request_count(&partition(), count(2), small.deadline()))
        .expect("all items of the table fit under one key");
    assert_eq!(shrunk.phase, Phase::Forward { from: count(4), to: count(2) });
}
