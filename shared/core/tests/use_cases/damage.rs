//! Metadata and jobs that somebody has changed by hand: whoever reads them says which field is wrong,
//! and does nothing to items.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dynashard_core::{
    Claim, Code, CollectionMetadata, Error, Generation, HistoryEntry, Job, LaneKey, Phase,
    ServerTime, ShardRange,
};
use dynashard_keys::{Placement, ShardId, SortKey, SortKeyType};

use crate::reshard::{LONG, MOVES, advance, in_forward, in_move, job, metadata, put, scale, world};
use crate::world::{World, count, home, in_shard, partition, sort, stored};

/// What somebody does to a value, and the field that no longer fits then.
type Damage<T> = (fn(T) -> T, &'static str);

/// Says of a failure that it is damage, and of which field.
fn assert_names<T: std::fmt::Debug>(result: Result<T, Error>, what: &str, field: &str) {
    let error = result.expect_err(field);
    let message = error.message();
    assert_eq!(error.code(), Code::CorruptData, "{message}");
    let named = format!("the {what} item of \"EWR\" is damaged: {field}: ");
    assert!(message.starts_with(&named), "{field}: {message}");
}

#[test]
fn metadata_that_contradicts_itself_is_reported_and_nothing_is_done() {
    let in_move_already = |seen: CollectionMetadata| {
        let (from, to) = (count(1), count(2));
        CollectionMetadata { phase: Phase::Move { from, to }, ..seen }
    };
    let other_target = |seen: CollectionMetadata| {
        let phase = Phase::Forward { from: count(1), to: count(3) };
        CollectionMetadata { phase, ..seen }
    };
    let other_origin = |seen: CollectionMetadata| {
        let phase = Phase::Forward { from: count(4), to: count(2) };
        CollectionMetadata { phase, ..seen }
    };
    let no_change = |seen: CollectionMetadata| {
        let phase = Phase::Forward { from: count(1), to: count(1) };
        CollectionMetadata { phase, ..seen }
    };
    let damages: [Damage<CollectionMetadata>; 7] = [
        (in_move_already, "to"),
        (other_target, "to"),
        (other_origin, "from"),
        (no_change, "to"),
        (|seen| CollectionMetadata { number_of_shards: count(3), ..seen }, "number_of_shards"),
        (|seen| CollectionMetadata { number_of_shards: count(4), ..seen }, "number_of_shards"),
        (|seen| CollectionMetadata { shard_history: Vec::new(), ..seen }, "number_of_shards"),
    ];
    for (damage, field) in damages {
        let world = in_forward(Some("before"));
        world.memory.place_metadata(damage(metadata(&world)));
        let (contents, seen) = (world.memory.contents(), metadata(&world));
        assert_names(advance(&world, LONG), "metadata", field);
        assert_names(put(&world, MOVES, "new"), "metadata", field);
        assert_names(scale(&world, 8), "metadata", field);
        assert_eq!(world.memory.contents(), contents);
        assert_eq!(metadata(&world), seen);
    }
}

#[test]
fn a_random_collection_that_grows_is_never_in_move() {
    let world = world(Placement::Random, 2);
    scale(&world, 4).expect("it begins");
    let phase = Phase::Move { from: count(2), to: count(4) };
    let shard_history = metadata(&world).shard_history;
    let shard_history =
        shard_history.into_iter().map(|entry| HistoryEntry { count: count(4), ..entry });
    world.memory.place_metadata(CollectionMetadata {
        phase,
        number_of_shards: count(4),
        shard_history: shard_history.collect(),
        ..metadata(&world)
    });
    assert_names(advance(&world, LONG), "metadata", "phase");
}

fn shards(first: u32, last: u32) -> ShardRange {
    ShardRange { first: ShardId::new(first), last: ShardId::new(last) }
}

fn under_way(shard: u32, behind: SortKey) -> BTreeMap<ShardId, SortKey> {
    BTreeMap::from([(ShardId::new(shard), behind)])
}

fn claims(shard: u32) -> BTreeMap<ShardId, Claim> {
    let claim = Claim { worker: 7, lane: 0, until: ServerTime(0), wcu: 1 };
    BTreeMap::from([(ShardId::new(shard), claim)])
}

/// In a table whose sort keys are strings.
fn number() -> SortKey {
    SortKey::parse("7", SortKeyType::Number).expect("a number")
}

#[test]
fn a_job_that_does_not_fit_is_reported_and_nothing_is_done() {
    let damages: [Damage<Job>; 17] = [
        (|job| Job { generation: Generation::new(7), ..job }, "generation"),
        (|job| Job { from: count(4), ..job }, "from"),
        (|job| Job { to: count(4), ..job }, "to"),
        (|job| Job { to: count(1), ..job }, "to"),
        (|job| Job { then: Some(count(3)), ..job }, "then"),
        (|job| Job { then: Some(count(2)), ..job }, "then"),
        (|job| Job { marked: Some(shards(3, 2)), ..job }, "marked_last"),
        (|job| Job { marked: Some(shards(0, u32::MAX)), ..job }, "marked_last"),
        (|job| Job { done: BTreeSet::from([ShardId::new(1)]), ..job }, "done"),
        (|job| Job { marked: None, done: BTreeSet::from([ShardId::new(0)]), ..job }, "done"),
        (|job| Job { under_way: under_way(5, sort("a")), ..job }, "under_way"),
        (|job| Job { under_way: under_way(0, number()), ..job }, "under_way"),
        (
            |job| {
                let done = BTreeSet::from([ShardId::new(0)]);
                Job { under_way: under_way(0, sort("a")), done, ..job }
            },
            "under_way",
        ),
        (|job| Job { claims: claims(1), ..job }, "claims"),
        (|job| Job { last_lane: LaneKey::LAST + 1, ..job }, "last_lane"),
        (|job| Job { scanned: Some(ServerTime(1)), ..job }, "scanned"),
        (|job| Job { closed_seen: Some(ServerTime(1)), ..job }, "closed_seen"),
    ];
    for (damage, field) in damages {
        let world = in_move(Some("before"));
        world.memory.place_job(&partition(), Some(damage(job(&world))));
        let (contents, seen) = (world.memory.contents(), metadata(&world));
        assert_names(advance(&world, LONG), "job", field);
        assert_eq!(world.memory.contents(), contents, "{field}");
        assert_eq!(metadata(&world), seen, "{field}");
        put(&world, MOVES, "new").expect("writes go on");
    }
}

/// Nothing of what was done in the same round was noted, and nobody was told which item it was.
#[test]
fn regression_one_item_from_the_future_held_up_the_other_shards_and_could_not_be_found() {
    let world = world(Placement::Xxh64, 4);
    let names = (0..64).map(|n| format!("{n:02}")).collect::<Vec<_>>();
    for name in &names {
        put(&world, name, name).expect("a put");
    }
    scale(&world, 1).expect("it begins");
    let bad = names.iter().find(|name| home(name, 4) == in_shard(name, 2)).expect("one of many");
    let good = world.memory.stored(&in_shard(bad, 2)).expect("it lies there");
    world.memory.place(&in_shard(bad, 2), stored("damaged", 9));
    let error = advance(&world, LONG).expect_err("its metadata is behind");
    assert_eq!(error.code(), Code::MetadataBehind);
    assert_eq!(error.shards(), [ShardId::new(2)]);
    assert!(error.message().contains(&format!("the item with sort key {bad:?}")), "{error:?}");
    assert_eq!(job(&world).done, BTreeSet::from([1, 3].map(ShardId::new)));

    world.memory.place(&in_shard(bad, 2), good);
    for _ in 0..100 {
        advance(&world, LONG).expect("a slice");
        world.clock.advance(Duration::from_secs(1));
    }
    assert!(!metadata(&world).needs_rebalancing(), "it came to its end");
    assert!(names.iter().all(|name| world.stored(&in_shard(name, 0)) == Some(name.clone())));
}

/// Each call took the same eight shards first, and never came to another.
#[test]
fn regression_trouble_in_eight_shards_stopped_all_others() {
    let world = world(Placement::Xxh64, 16);
    let names = (0..400).map(|n| format!("{n:03}")).collect::<Vec<_>>();
    for name in &names {
        put(&world, name, name).expect("a put");
    }
    scale(&world, 1).expect("it begins");
    for shard in 1..=8 {
        let mut here = names.iter().filter(|name| home(name, 16) == in_shard(name, shard));
        let bad = here.next().expect("one of many");
        world.memory.place(&in_shard(bad, shard), stored("damaged", 9));
    }
    let error = advance(&world, LONG).expect_err("some metadata is behind");
    assert_eq!(error.code(), Code::MetadataBehind);
    assert_eq!(job(&world).done, (9..16).map(ShardId::new).collect());
}

#[test]
fn a_job_that_is_ahead_of_its_metadata_is_reported() {
    let ahead: [Damage<Job>; 3] = [
        (|job| Job { closing: true, scanned: Some(ServerTime(1)), ..job }, "closing"),
        (|job| Job { done: BTreeSet::from([ShardId::new(0)]), ..job }, "done"),
        (|job| Job { closed_seen: Some(ServerTime(1)), ..job }, "closed_seen"),
    ];
    for (damage, field) in ahead {
        let world = in_forward(Some("before"));
        world.memory.place_job(&partition(), Some(damage(job(&world))));
        assert_names(advance(&world, LONG), "job", field);
    }
    let world = in_forward(Some("before"));
    world
        .memory
        .place_job(&partition(), Some(Job { move_seen: Some(ServerTime(1)), ..job(&world) }));
    assert_names(advance(&world, LONG), "job", "move_seen");
}

#[test]
fn a_change_without_its_job_is_reported_and_nothing_is_done() {
    let world = in_forward(Some("before"));
    world.memory.place_job(&partition(), None);
    let contents = world.memory.contents();
    let error = advance(&world, LONG).expect_err("it has no job");
    assert_eq!(error.code(), Code::CorruptData);
    assert!(error.message().starts_with("the job item of \"EWR\" is missing"), "{error:?}");
    assert_eq!(world.memory.contents(), contents);
}

/// The reshard looked over, and every later request was told to come again a moment later.
#[test]
fn regression_a_phase_set_to_stable_by_hand_put_off_every_later_change_for_ever() {
    let world = in_move(Some("before"));
    let seen = metadata(&world);
    world.memory.place_metadata(CollectionMetadata { phase: Phase::Stable, ..seen });
    world.clock.advance(Duration::from_mins(10));
    assert_names(scale(&world, 8), "job", "closed_seen");
    assert_eq!(world.memory.stored(&home(MOVES, 1)), Some(stored("before", 1)));
}

/// A growth took the place of the job, and what the operator had asked for was forgotten.
#[test]
fn regression_a_growth_right_after_a_close_made_a_turn_round_forgotten() {
    let world: World = in_move(None);
    scale(&world, 1).expect("it is to be turned round");
    for _ in 0..100 {
        if metadata(&world).phase == Phase::Stable {
            break;
        }
        advance(&world, Duration::from_secs(4)).expect("a slice");
        world.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(metadata(&world).phase, Phase::Stable);
    assert_eq!(job(&world).then, Some(count(1)));
    world.clock.advance(Duration::from_mins(10));
    let refused = scale(&world, 8).expect_err("another change is to begin");
    assert_eq!(refused.code(), Code::ReshardRunning);
    assert_eq!(job(&world).then, Some(count(1)), "it is still to go back");
    scale(&world, 1).expect("that is what is about to begin");
}
