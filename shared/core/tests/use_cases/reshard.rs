//! A calculated collection changes its shard count while it is read and written, and a random one
//! shrinks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dynashard_core::ports::{Clock, Consistency, StoreError};
use dynashard_core::query::{PageBudget, Query, Strategy};
use dynashard_core::{
    Advance, Code, CollectionMetadata, Error, Generation, Job, PaceChange, Phase, Precondition,
    RequestDates, Settings, StoredItem, Version, leases_end,
};
use dynashard_keys::{PartitionKey, Placement, ShardId};
use dynashard_testkit::{Fault, Operation, Requests, block_on};

use crate::world::{
    LEASE, World, attributes, code, count, home, in_shard, in_shard_of, key, marker,
    outcome_unknown, partition, shard_at, stored, text_of, usual_settings,
};

/// H in these tests.
const LIFETIME: Duration = Duration::from_secs(20);

/// Long enough for a whole reshard in one slice.
pub(crate) const LONG: Duration = Duration::from_mins(5);

/// So many names that each shard of up to 16 holds some of them.
const MANY: u32 = 200;

fn settings() -> Settings {
    Settings { request_lifetime: LIFETIME, ..usual_settings() }
}

/// A collection of so many shards, long after its creation.
pub(crate) fn world(placement: Placement, shards: u32) -> World {
    world_with(placement, shards, settings())
}

fn world_with(placement: Placement, shards: u32, settings: Settings) -> World {
    let world = World::with_mover(settings);
    world.lay_out(1, shards, placement);
    world.clock.advance(Duration::from_mins(10));
    world
}

fn names() -> impl Iterator<Item = String> {
    (0..MANY).map(|n| format!("{n:03}"))
}

pub(crate) fn put(world: &World, sk: &str, text: &str) -> Result<ShardId, Error> {
    let item = world.new_item(sk, text);
    let put = world.writer();
    block_on(put.put(&item, Precondition::None, world.deadline())).map(|written| written.shard)
}

fn get(world: &World, sk: &str) -> Result<StoredItem, Error> {
    let reader = world.reader();
    let got = block_on(reader.get(&key(sk), None, Consistency::Strong, world.deadline()));
    got.map(|got| got.item)
}

pub(crate) fn scale(world: &World, shards: u32) -> Result<CollectionMetadata, Error> {
    block_on(world.scaler().request_count(&partition(), count(shards), world.deadline()))
}

pub(crate) fn advance(world: &World, time: Duration) -> Result<Advance, Error> {
    let rebalancer = world.rebalancer();
    let slice = block_on(rebalancer.advance(&partition(), 0, world.deadline_in(time)));
    slice.advance
}

pub(crate) fn metadata(world: &World) -> CollectionMetadata {
    world.memory.stored_metadata(&partition()).expect("the collection exists")
}

pub(crate) fn job(world: &World) -> Job {
    world.memory.stored_job(&partition()).expect("a job")
}

/// All of the collection, page by page.
fn walk(world: &World, strategy: Strategy, ascending: bool) -> Vec<String> {
    let reader = world.reader();
    let mut query = Query { strategy, ascending, limit: 7, ..Query::all(partition()) };
    let mut found = Vec::new();
    loop {
        let page = block_on(reader.query(&query, PageBudget::UNLIMITED, world.deadline()));
        let page = page.expect("a page");
        found.extend(page.items.into_iter().map(|(sort, _)| sort.to_string()));
        match page.cursor {
            Some(cursor) => query.cursor = Some(cursor),
            None => return found,
        }
    }
}

/// Checks that each of `names` lies where it belongs, and nothing else anywhere.
fn assert_at_home(world: &World, placement: Placement, shards: u32) {
    let contents = world.memory.contents();
    let placed = contents.iter().map(|(at, _)| at.clone()).collect::<BTreeSet<_>>();
    let homes = names().map(|name| {
        let home = placement.home(&key(&name), count(shards)).expect("a calculated placement");
        in_shard(&name, home.get())
    });
    assert_eq!(placed, homes.collect());
    assert!(contents.iter().all(|(_, item)| item.is_live()), "no marker is left");
}

/// What these requests cost beside reads of metadata.
pub(crate) fn cost(world: &World, operation: impl FnOnce()) -> Requests {
    let before = world.memory.requests();
    operation();
    let after = world.memory.requests();
    Requests {
        gets: after.gets - before.gets,
        writes: after.writes - before.writes,
        gets_of_both: after.gets_of_both - before.gets_of_both,
        transfers: after.transfers - before.transfers,
        ..Requests::default()
    }
}

/// An item whose home changes as the collection goes from one shard to two: at 1 afterwards.
pub(crate) const MOVES: &str = "c";

/// Begins a growth from one shard to two, with an item in it if `text` is given.
pub(crate) fn in_forward(text: Option<&str>) -> World {
    let world = world(Placement::Xxh64, 1);
    assert_ne!(home(MOVES, 2), home(MOVES, 1), "the name was chosen so");
    if text.is_some() {
        world.memory.place(&home(MOVES, 1), stored("before", 1));
    }
    scale(&world, 2).expect("it begins");
    world
}

pub(crate) fn in_move(text: Option<&str>) -> World {
    let world = in_forward(None);
    let moved = advance(&world, leases_end(LEASE) + Duration::from_secs(8));
    assert!(matches!(moved, Ok(Advance::Waiting { .. })), "{moved:?}");
    assert_eq!(metadata(&world).phase, Phase::Move { from: count(1), to: count(2) });
    // As a late request would put it there.
    if text.is_some() {
        world.memory.place(&home(MOVES, 1), stored("before", 1));
    }
    world
}

/// An item of another write than those of [`stored`].
fn written(text: &str, generation: u64) -> StoredItem {
    StoredItem { version: Version::new(2), ..stored(text, generation) }
}

/// Invariant I4.
#[test]
fn a_collection_changes_its_count_and_every_item_its_home() {
    for (placement, counts) in
        [(Placement::Xxh64, [1, 2, 16, 4, 1]), (Placement::Jump, [1, 3, 16, 5, 1])]
    {
        let world = world(placement, counts[0]);
        for name in names() {
            put(&world, &name, &name).expect("a put");
        }
        let expected = names().collect::<Vec<_>>();
        for (from, to) in counts.iter().zip(&counts[1..]) {
            let generation = metadata(&world).generation;
            scale(&world, *to).expect("it begins");
            let finished = advance(&world, LONG).expect("it goes on to the end");
            let Advance::Finished(after) = finished else { panic!("{from} -> {to}: {finished:?}") };
            assert_eq!((after.number_of_shards, after.phase), (count(*to), Phase::Stable));
            assert_eq!(after.generation, generation.next());
            assert_eq!(metadata(&world), after);
            assert_eq!(world.memory.stored_job(&partition()), None);
            assert_at_home(&world, placement, *to);
            assert_eq!(walk(&world, Strategy::Ordered, true), expected, "{from} -> {to}");
            world.clock.advance(leases_end(LEASE) + Duration::from_secs(1));
        }
    }
}

/// Invariant I5.
#[test]
fn a_collection_is_read_whole_in_every_phase_and_direction() {
    let world = world(Placement::Xxh64, 2);
    for name in names() {
        put(&world, &name, &name).expect("a put");
    }
    let check = |world: &World, when: &str| {
        for strategy in [Strategy::Ordered, Strategy::Parallel] {
            for ascending in [true, false] {
                let mut found = walk(world, strategy, ascending);
                if !ascending {
                    found.reverse();
                }
                found.sort();
                assert!(found.into_iter().eq(names()), "{when} {strategy} {ascending}");
            }
        }
    };
    scale(&world, 8).expect("it begins");
    check(&world, "forward");
    // Some of them were touched, and some of those deleted.
    for name in names().step_by(3) {
        put(&world, &name, "again").expect("a put");
    }
    check(&world, "touched in forward");
    assert_eq!(get(&world, "003").map(|item| text_of(&item)), Ok("again".to_owned()));
    assert_eq!(get(&world, "004").map(|item| text_of(&item)), Ok("004".to_owned()));
    let time = leases_end(LEASE) + Duration::from_secs(10);
    assert!(matches!(
        advance(&world, time),
        Ok(Advance::Waiting { .. } | Advance::Yielded { failed: None })
    ));
    assert!(matches!(metadata(&world).phase, Phase::Move { .. }));
    check(&world, "move");
    advance(&world, LONG).expect("it goes on to the end");
    check(&world, "stable");
    assert_at_home(&world, Placement::Xxh64, 8);
}

/// Invariants I13, I14, I28, I31.
#[test]
fn operations_cost_what_the_protocol_says() {
    let strong_get = |world: &World| cost(world, || drop(get(world, MOVES)));
    let spent = |world: &World, operation: fn(&World)| cost(world, || operation(world));
    let blind: fn(&World) = |world| {
        put(world, MOVES, "new").expect("a put");
    };
    let delete: fn(&World) = |world| {
        let writer = world.writer();
        block_on(writer.delete(&key(MOVES), Precondition::None, world.deadline())).expect("done");
    };
    let create: fn(&World) = |world| {
        let item = world.new_item(MOVES, "new");
        let writer = world.writer();
        block_on(writer.put(&item, Precondition::Absent, world.deadline())).expect("created");
    };
    let replace: fn(&World) = |world| {
        let item = world.new_item(MOVES, "new");
        let writer = world.writer();
        block_on(writer.put(&item, Precondition::Exists, world.deadline())).expect("replaced");
    };
    let of = |gets, writes, gets_of_both, transfers| Requests {
        gets,
        writes,
        gets_of_both,
        transfers,
        ..Requests::default()
    };

    // An absent item is marked in `forward` only.
    for operation in [blind, delete, create] {
        let world = in_forward(None);
        assert_eq!(spent(&world, operation), of(1, 2, 0, 0));
        assert_eq!(world.memory.stored(&home(MOVES, 1)), Some(marker(2)));
        assert_eq!(spent(&world, blind), of(1, 1, 0, 0), "once marked");
    }
    assert_eq!(spent(&in_move(None), create), of(1, 1, 0, 0));
    // A put in `move` does not go near the old home, and a delete only reads there.
    let moving = in_move(None);
    assert_eq!(spent(&moving, blind), of(0, 1, 0, 0));
    assert_eq!(spent(&moving, delete), of(1, 1, 1, 0));
    assert_eq!(spent(&moving, delete), of(1, 0, 1, 0), "of nothing");
    assert_eq!(moving.memory.stored(&home(MOVES, 1)), None);

    // An item that was not moved yet is moved first, once.
    let begun: [fn(Option<&str>) -> World; 2] = [in_forward, in_move];
    for begun in begun {
        let world = begun(Some("before"));
        assert_eq!(strong_get(&world), of(1, 0, 1, 1));
        assert_eq!(strong_get(&world), of(1, 0, 0, 0), "a hit");
        let world = begun(Some("before"));
        assert_eq!(spent(&world, delete), of(1, 1, 0, 1));
        assert_eq!(spent(&world, delete), of(1, 1, 0, 0), "once marked");
    }
    assert_eq!(spent(&in_forward(Some("before")), replace), of(1, 1, 0, 1));
    // A replacement asks the new home first, and that is enough once the item has moved.
    let moving = in_move(Some("before"));
    assert_eq!(spent(&moving, replace), of(1, 2, 0, 1));
    assert_eq!(spent(&moving, replace), of(0, 1, 0, 0));
    let forward = in_forward(Some("before"));
    assert_eq!(spent(&forward, blind), of(1, 1, 0, 1));
    // But for puts in `move`: a delete lets what these went past give way.
    let moving = in_move(Some("before"));
    assert_eq!(spent(&moving, blind), of(0, 1, 0, 0));
    assert_eq!(spent(&moving, replace), of(0, 1, 0, 0));
    assert_eq!(spent(&moving, delete), of(1, 1, 0, 2));
    assert_eq!(spent(&moving, delete), of(1, 1, 0, 0), "once marked");

    // What does not move costs what it always does.
    let world = world(Placement::Xxh64, 1);
    let stays = names().find(|name| home(name, 2) == home(name, 1)).expect("half of them");
    scale(&world, 2).expect("it begins");
    let unmoved = cost(&world, || {
        put(&world, &stays, "new").expect("a put");
    });
    assert_eq!(unmoved, of(0, 1, 0, 0));
}

/// Invariants I14, I18.
#[test]
fn a_put_in_move_goes_past_what_lies_at_the_old_home() {
    let world = in_move(Some("before"));
    put(&world, MOVES, "new").expect("a put");
    assert_eq!(world.stored(&home(MOVES, 1)), Some("before".to_owned()), "left for the mover");
    let check = || {
        assert_eq!(get(&world, MOVES).map(|item| text_of(&item)), Ok("new".to_owned()));
        for strategy in [Strategy::Ordered, Strategy::Sequential] {
            assert_eq!(walk(&world, strategy, true), [MOVES]);
        }
    };
    check();
    advance(&world, LONG).expect("it goes on to the end");
    check();
    assert_eq!(world.memory.stored(&home(MOVES, 1)), None);
}

/// Invariant I3.
#[test]
fn what_a_put_went_past_does_not_come_back_when_the_item_is_deleted() {
    let world = in_move(Some("before"));
    put(&world, MOVES, "new").expect("a put");
    block_on(world.writer().delete(&key(MOVES), Precondition::None, world.deadline()))
        .expect("a delete");
    let is_gone = || {
        assert_eq!(code(get(&world, MOVES)), Code::ItemNotFound);
        assert_eq!(walk(&world, Strategy::Ordered, true), [""; 0]);
    };
    is_gone();
    advance(&world, LONG).expect("it goes on to the end");
    is_gone();
}

/// One late write took effect twice: read, hidden by a put, and read again after a delete.
/// Invariant I28.
#[test]
fn regression_a_late_copy_was_seen_again_when_a_delete_that_had_looked_before_took_what_hid_it() {
    for there in [true, false] {
        let world = in_move(None);
        if there {
            put(&world, MOVES, "first").expect("a put");
        }
        let memory = world.memory.clone();
        let meanwhile = Fault::after(move || {
            memory.remove(&home(MOVES, 2));
            memory.place(&home(MOVES, 1), stored("late", 1));
            memory.place(&home(MOVES, 2), written("hides it", 2));
        });
        // Behind all that the delete looks at.
        world.store.script(Operation::GetBoth, [meanwhile]);
        block_on(world.writer().delete(&key(MOVES), Precondition::None, world.deadline()))
            .expect("a delete");
        let found = get(&world, MOVES).map(|item| text_of(&item));
        let expected = if there {
            Err(Code::ItemNotFound)
        } else {
            // There was nothing when it looked, so the put came behind it.
            Ok("hides it".to_owned())
        };
        assert_eq!(found.map_err(|error| error.code()), expected);
    }
}

/// Invariant I28.
#[test]
fn a_delete_that_other_writes_overtake_ends_all_the_same() {
    let world = in_move(None);
    put(&world, MOVES, "first").expect("a put");
    let overtaken = |n| {
        let memory = world.memory.clone();
        Fault::before(move || {
            memory.place(
                &home(MOVES, 2),
                StoredItem { version: Version::new(n), ..stored("other", 2) },
            );
        })
    };
    // The first is the delete's, the second the marker's, and the third the delete's again.
    world.store.script(Operation::Write, (2..=4).map(overtaken));
    block_on(world.writer().delete(&key(MOVES), Precondition::None, world.deadline()))
        .expect("a delete");
    assert_eq!(world.memory.stored(&home(MOVES, 1)), Some(marker(2)));
    assert_eq!(code(get(&world, MOVES)), Code::ItemNotFound);
}

/// Invariant I29.
#[test]
fn a_query_reads_a_source_again_while_it_holds_items_to_move() {
    let queries = |world: &World| {
        let before = world.memory.requests().queries;
        walk(world, Strategy::Ordered, true);
        world.memory.requests().queries - before
    };
    let world = in_move(None);
    assert_eq!(queries(&world), 2, "the source and the destination");
    world.memory.place(&home(MOVES, 1), stored("before", 1));
    assert_eq!(queries(&world), 3, "what the source alone has is looked at again");
    put(&world, MOVES, "new").expect("a put");
    assert_eq!(queries(&world), 2, "the destination has it");
}

/// The put was answered before the query began, and the item is deleted before the query comes to
/// its new home.
/// Invariants I29, I30.
#[test]
fn a_query_does_not_return_what_a_put_had_gone_past() {
    for strategy in [Strategy::Ordered, Strategy::Parallel] {
        let world = in_move(Some("before"));
        put(&world, MOVES, "new").expect("a put");
        let memory = world.memory.clone();
        let deleted = Fault::before(move || {
            memory.place(&home(MOVES, 1), marker(2));
            memory.remove(&home(MOVES, 2));
        });
        // The first query is of the source.
        world.store.script(Operation::Query, [Fault::before(|| {}), deleted]);
        assert_eq!(walk(&world, strategy, true), [""; 0], "{strategy}");
    }
}

/// What is read once more may have moved meanwhile, or been written over by a late request.
/// Invariants I5, I29.
#[test]
fn a_query_returns_what_moves_or_changes_between_its_waves() {
    let moved: fn(&World) -> Fault = |world| {
        let memory = world.memory.clone();
        Fault::before(move || {
            memory.place(&home(MOVES, 1), marker(2));
            memory.place(&home(MOVES, 2), stored("before", 2));
        })
    };
    let changed: fn(&World) -> Fault = |world| {
        let memory = world.memory.clone();
        Fault::before(move || memory.place(&home(MOVES, 1), written("late", 1)))
    };
    for (event, expected) in [(moved, "before"), (changed, "late")] {
        let world = in_move(Some("before"));
        let nothing = || Fault::before(|| {});
        world.store.script(Operation::Query, [nothing(), nothing(), event(&world)]);
        let page = block_on(world.reader().query(
            &Query::all(partition()),
            PageBudget::UNLIMITED,
            world.deadline(),
        ));
        let items = page.expect("a page").items;
        let found = items.iter().map(|(sort, item)| (sort.to_string(), text_of(item)));
        assert_eq!(found.collect::<Vec<_>>(), [(MOVES.to_owned(), expected.to_owned())]);
    }
}

/// Invariant I19.
#[test]
fn a_version_survives_the_move() {
    let world = in_forward(Some("before"));
    let seen = get(&world, MOVES).expect("the item").version;
    advance(&world, LONG).expect("it goes on to the end");
    let moved = get(&world, MOVES).expect("the item");
    assert_eq!((moved.version, moved.generation), (seen, Generation::new(2)));
    let item = world.new_item(MOVES, "after");
    let writer = world.writer();
    block_on(writer.put(&item, Precondition::Version(seen), world.deadline())).expect("a match");
}

/// Invariant I18.
#[test]
fn a_late_copy_at_the_old_home_gives_way_to_the_new_one() {
    let world = in_move(None);
    put(&world, MOVES, "new").expect("a put");
    world.memory.place(&home(MOVES, 1), stored("late", 1));
    assert_eq!(get(&world, MOVES).map(|item| text_of(&item)), Ok("new".to_owned()));
    assert_eq!(walk(&world, Strategy::Ordered, true), [MOVES]);
    let item = world.new_item(MOVES, "another");
    let created = block_on(world.writer().put(&item, Precondition::Absent, world.deadline()));
    assert_eq!(code(created), Code::PreconditionFailed);
    assert_eq!(world.memory.stored(&home(MOVES, 1)), Some(marker(2)));
    advance(&world, LONG).expect("it goes on to the end");
    assert_eq!(get(&world, MOVES).map(|item| text_of(&item)), Ok("new".to_owned()));
    assert_eq!(world.memory.stored(&home(MOVES, 1)), None);
}

/// Invariant I9.
#[test]
fn what_a_request_from_before_left_at_the_source_is_found_by_the_closing_scan() {
    let world = in_move(None);
    assert!(matches!(advance(&world, Duration::from_secs(15)), Ok(Advance::Waiting { .. })));
    assert!(!job(&world).closing, "requests from before may still come");
    world.memory.place(&home(MOVES, 1), stored("late", 1));
    advance(&world, LONG).expect("it goes on to the end");
    assert_eq!(get(&world, MOVES).map(|item| text_of(&item)), Ok("late".to_owned()));
    assert_eq!(world.memory.stored(&home(MOVES, 1)), None);
}

/// A2 does not hold: DynamoDB takes older signatures than what is pinned allows for.
#[test]
fn nothing_closes_where_dynamodb_takes_older_dates() {
    let dates = Settings {
        signature_age: Duration::from_secs(270),
        request_lifetime: Duration::from_mins(2),
        ..settings()
    };
    let world = world_with(Placement::Xxh64, 1, dates);
    put(&world, MOVES, "old").expect("a put");
    scale(&world, 4).expect("it begins");
    world.memory.take_every_date(true);
    for _ in 0..3 {
        let refused = advance(&world, LONG).expect_err("it does not close");
        assert_eq!(refused.code(), Code::SettingsMismatch);
        for part in ["SignatureAgeSecs=270", "RequestLifetimeSecs=120", "dynashard doctor"] {
            assert!(refused.message().contains(part), "{refused}");
        }
    }
    assert!(!job(&world).closing, "what came late would be missed");
    world.memory.take_every_date(false);
    advance(&world, LONG).expect("it goes on to the end");
    assert_eq!(get(&world, MOVES).map(|item| text_of(&item)), Ok("old".to_owned()));
}

/// The sweep slept in each of its eight places until a change could close, and all others waited for that: thousands that had begun
/// together took hours.
#[test]
fn regression_changes_that_only_waited_kept_others_from_being_carried_on() {
    let world = world(Placement::Xxh64, 1);
    let names = (0..40).map(|n| PartitionKey::new(format!("hot-{n}")).expect("a partition key"));
    for name in names {
        block_on(world.scaler().request_count(&name, count(2), world.deadline())).expect("begun");
    }
    // Long enough for the waits of one of them.
    let sweep = block_on(world.rebalancer().sweep(world.deadline_in(Duration::from_mins(1))));
    let closed = |advance: &Result<Advance, Error>| matches!(advance, Ok(Advance::Finished(_)));
    let closed = sweep.collections.iter().filter(|(_, slice)| closed(&slice.advance)).count();
    assert_eq!((sweep.left, closed), (0, 40));
}

/// Who raises H has found out that requests live longer: those may have come behind the closing scan.
#[test]
fn a_lifetime_that_is_raised_before_the_close_takes_another_closing_scan() {
    let dates = Settings {
        signature_age: Duration::from_secs(270),
        request_lifetime: Duration::from_mins(2),
        ..settings()
    };
    let world = world_with(Placement::Xxh64, 1, dates.clone());
    let function = world.directory_of(dates).pinning();
    block_on(function.find(&partition(), world.deadline())).expect("pinned");
    scale(&world, 4).expect("it begins");
    for _ in 0..200 {
        if job(&world).scanned.is_some() {
            break;
        }
        advance(&world, Duration::from_secs(3)).expect("it goes on");
        world.clock.advance(Duration::from_secs(1));
    }
    assert!(job(&world).scanned.is_some(), "it is about to close");
    let dates = RequestDates { age: Duration::from_secs(270), lifetime: Duration::from_mins(12) };
    block_on(function.pinned().date(dates, world.deadline())).expect("raised");
    world.memory.place(&home(MOVES, 1), stored("late", 1));
    assert!(matches!(advance(&world, LONG), Ok(Advance::Waiting { .. })), "for the longer time");
    world.clock.advance(dates.lifetime);
    advance(&world, LONG).expect("it goes on to the end");
    assert_eq!(get(&world, MOVES).map(|item| text_of(&item)), Ok("late".to_owned()));
    assert_eq!(world.memory.stored(&home(MOVES, 1)), None);
}

/// Invariants I11, I22.
#[test]
fn a_rebalancer_that_dies_every_few_seconds_still_closes() {
    let world = world(Placement::Xxh64, 1);
    for name in names() {
        put(&world, &name, &name).expect("a put");
    }
    scale(&world, 4).expect("it begins");
    // What was done and not written down is lost, and so is all that was only waited for.
    for _ in 0..200 {
        match advance(&world, Duration::from_secs(3)) {
            Ok(Advance::Finished(_)) => return assert_at_home(&world, Placement::Xxh64, 4),
            Ok(Advance::Waiting { .. }) => world.clock.advance(Duration::from_secs(1)),
            Ok(Advance::Yielded { failed: None }) => {}
            other => panic!("{other:?}"),
        }
    }
    panic!("it never closed: {:?}", job(&world));
}

/// Two operators who ask for the same count at once: one of the two transactions is refused because of
/// the other.
#[test]
fn regression_an_operator_whose_request_met_the_same_one_was_told_to_slow_down() {
    let world = world(Placement::Xxh64, 1);
    world.store.script(Operation::Begin, [Fault::Refuse(StoreError::Conflict)]);
    let begun = scale(&world, 4).expect("it is asked for again");
    assert_eq!(begun.phase, Phase::Forward { from: count(1), to: count(4) });
    // The other one has begun it meanwhile.
    let other = self::world(Placement::Xxh64, 1);
    let memory = other.memory.clone();
    let conflict = Fault::ExecuteThen(StoreError::Conflict);
    other.store.script(Operation::Begin, [conflict]);
    assert_eq!(scale(&other, 4).expect("it runs"), metadata(&other));
    assert_eq!(memory.requests().metadata_transactions, 1);
}

/// The local clock stood in for the `Date` that an answer lacked, and one that ran ahead ended every wait.
/// Invariant I11.
#[test]
fn regression_an_answer_without_a_date_let_a_fast_local_clock_end_a_wait() {
    let world = world(Placement::Xxh64, 1);
    scale(&world, 2).expect("it begins");
    world.clock.advance_wall(Duration::from_hours(1));
    for reads_of_jobs in [0, 1, 1, 1_000] {
        world.store.leave_dates_out(reads_of_jobs);
        let advanced = advance(&world, Duration::from_millis(2_500));
        assert!(!matches!(advanced, Ok(Advance::Finished(_))), "{advanced:?}");
        let metadata = world.memory.stored_metadata(&partition()).expect("metadata");
        assert!(matches!(metadata.phase, Phase::Forward { .. }), "T' has not passed");
    }
    // Nothing else is the matter.
    world.store.leave_dates_out(0);
    world.clock.advance(LEASE * 2);
    assert!(advance(&world, LONG).is_ok());
    let metadata = world.memory.stored_metadata(&partition()).expect("metadata");
    assert!(!matches!(metadata.phase, Phase::Forward { .. }), "{metadata:?}");
}

/// Invariant I4.
#[test]
fn trouble_with_any_request_of_the_rebalancer_delays_it_and_no_more() {
    for operation in [
        Operation::Query,
        Operation::Transfer,
        Operation::Write,
        Operation::MetadataUpdate,
        Operation::JobSave,
        Operation::Finish,
        Operation::MetadataGet,
        Operation::JobGet,
        Operation::LaneCall,
        Operation::LaneRemoval,
    ] {
        for trouble in [
            Fault::throttle,
            || Fault::Refuse(outcome_unknown()),
            || Fault::ExecuteThen(outcome_unknown()),
        ] {
            // A call takes on one source, and calls another for the other.
            let world =
                world_with(Placement::Xxh64, 2, Settings { moves_per_call: 1, ..settings() });
            for name in names() {
                put(&world, &name, &name).expect("a put");
            }
            scale(&world, 4).expect("it begins");
            world.store.script(operation, (0..3).map(|_| trouble()));
            for _ in 0..10 {
                // Whatever a slice says of its end, the next one goes on.
                let _ = advance(&world, LONG);
                if world.memory.stored_job(&partition()).is_none() {
                    break;
                }
            }
            assert_at_home(&world, Placement::Xxh64, 4);
            assert_eq!(metadata(&world).phase, Phase::Stable, "{operation:?}");
            assert!(world.store.attempts(operation) > 0, "{operation:?}");
            assert_eq!(world.memory.stored_lane(&partition(), 1), None, "{operation:?}");
        }
    }
}

/// The slice failed, and until the next sweep nothing moved.
#[test]
fn regression_a_throttled_note_of_the_rebalancer_ended_its_slice() {
    for operation in [Operation::JobSave, Operation::MetadataUpdate, Operation::Finish] {
        let world = world(Placement::Xxh64, 2);
        put(&world, MOVES, "before").expect("a put");
        scale(&world, 4).expect("it begins");
        world.store.script(operation, (0..3).map(|_| Fault::throttle()));
        let end = advance(&world, LONG);
        assert!(matches!(end, Ok(Advance::Finished(_))), "{operation:?}: {end:?}");
    }
}

/// The items of a round whose checkpoint was throttled were paid for, and nobody counted them.
#[test]
fn regression_items_of_a_checkpoint_that_was_not_written_were_not_counted() {
    let world = world(Placement::Xxh64, 1);
    for name in names() {
        put(&world, &name, &name).expect("a put");
    }
    scale(&world, 2).expect("it begins");
    let leaving = names().filter(|name| home(name, 2) != home(name, 1)).count();
    let every_other = |_| [Fault::throttle(), Fault::after(|| {})];
    world.store.script(Operation::JobSave, (0..50).flat_map(every_other));
    let (memory, counted) = (world.memory.clone(), Arc::new(AtomicU64::new(0)));
    let noted = Arc::clone(&counted);
    let look = Fault::before(move || {
        let job = memory.stored_job(&partition()).expect("a job");
        noted.store(job.items_moved, Ordering::Relaxed);
    });
    world.store.script(Operation::Finish, [look]);
    let slice = block_on(world.rebalancer().advance(&partition(), 0, world.deadline_in(LONG)));
    assert!(matches!(slice.advance, Ok(Advance::Finished(_))), "{:?}", slice.advance);
    let moved = slice.reshard.expect("items were moved").items_moved;
    assert_eq!((usize::try_from(moved), counted.load(Ordering::Relaxed)), (Ok(leaving), moved));
}

/// Invariants I4, I17.
#[test]
fn two_rebalancers_do_each_others_work_and_no_harm() {
    let world = world(Placement::Jump, 2);
    for name in names() {
        put(&world, &name, &name).expect("a put");
    }
    scale(&world, 5).expect("it begins");
    let rebalancers = [world.rebalancer(), world.rebalancer()];
    let deadline = world.deadline_in(LONG);
    loop {
        let partition = partition();
        let [one, other] = rebalancers.each_ref().map(|r| r.advance(&partition, 0, deadline));
        let (one, other) = block_on(futures_util::future::join(one, other));
        one.advance.expect("an outcome");
        other.advance.expect("an outcome");
        if world.memory.stored_job(&partition).is_none() {
            break;
        }
    }
    assert_at_home(&world, Placement::Jump, 5);
}

#[test]
fn a_slice_says_how_many_items_it_has_moved() {
    let world = world(Placement::Xxh64, 1);
    for name in names() {
        put(&world, &name, &name).expect("a put");
    }
    scale(&world, 2).expect("it begins");
    let leaving = names().filter(|name| home(name, 2) != home(name, 1)).count();
    let slice = block_on(world.rebalancer().advance(&partition(), 0, world.deadline_in(LONG)));
    slice.advance.expect("to its end");
    let reshard = slice.reshard.expect("items were moved");
    assert_eq!(usize::try_from(reshard.items_moved), Ok(leaving));
    assert!(Duration::from_secs(reshard.age_secs) >= leases_end(LEASE) * 3, "forward, H, V");
    assert_eq!(reshard.progress.map(|progress| progress.source_shards_done), Some(1));
    let again = block_on(world.rebalancer().advance(&partition(), 0, world.deadline_in(LONG)));
    assert_eq!((again.advance, again.reshard), (Ok(Advance::Nothing), None));
}

/// Invariant I7.
#[test]
fn a_running_reshard_can_be_turned_round_and_nothing_else() {
    let world = world(Placement::Xxh64, 2);
    for name in names() {
        put(&world, &name, &name).expect("a put");
    }
    scale(&world, 8).expect("it begins");
    assert_eq!(code(scale(&world, 4)), Code::ReshardRunning);
    scale(&world, 8).expect("it is on its way");
    assert_eq!(job(&world).then, None);
    scale(&world, 2).expect("it will go back");
    assert_eq!(job(&world).then, Some(count(2)));
    scale(&world, 8).expect("or not");
    assert_eq!(job(&world).then, None);
    scale(&world, 2).expect("it will go back");
    let finished = advance(&world, LONG + LONG).expect("there and back");
    let Advance::Finished(after) = finished else { panic!("{finished:?}") };
    assert_eq!(after.number_of_shards, count(2));
    let counts = after.shard_history.iter().map(|entry| entry.count.get()).collect::<Vec<_>>();
    assert_eq!(counts, [2, 8, 2]);
    assert_at_home(&world, Placement::Xxh64, 2);
}

/// Invariant I7.
#[test]
fn a_reshard_waits_until_leases_on_the_last_one_have_ended() {
    let world = in_move(Some("before"));
    // As far as the close, and no further.
    let begun = world.clock.now();
    loop {
        advance(&world, Duration::from_secs(4)).expect("a slice");
        if metadata(&world).phase == Phase::Stable {
            break;
        }
        world.clock.advance(Duration::from_secs(1));
        assert!(world.clock.now().certainly_since(begun) < LONG, "it never closed");
    }
    let soon = world.deadline_in(Duration::from_secs(2));
    let refused = block_on(world.scaler().request_count(&partition(), count(4), soon));
    assert_eq!(code(refused), Code::ReshardTooSoon);
    world.clock.advance(leases_end(LEASE) + Duration::from_secs(1));
    // The markers may still be there: the next job removes them with its own.
    assert!(metadata(&world).cleanup_pending);
    let mut tries = 0;
    while scale(&world, 4).is_err() {
        tries += 1;
        assert!(tries < 100);
        world.clock.advance(Duration::from_secs(1));
        advance(&world, Duration::from_millis(2_100)).expect("a slice");
    }
    advance(&world, LONG).expect("it goes on to the end");
    assert_eq!(get(&world, MOVES).map(|item| text_of(&item)), Ok("before".to_owned()));
    assert_eq!(world.memory.contents().len(), 1);
}

/// The rebalancer that removes the markers of the last reshard notes how far it is, and the request
/// was answered 409 `reshard_running` although nothing kept the next one from beginning.
#[test]
fn regression_an_operator_was_refused_because_a_rebalancer_had_noted_its_progress() {
    let world = in_move(Some("before"));
    while metadata(&world).phase != Phase::Stable {
        advance(&world, Duration::from_secs(4)).expect("a slice");
        world.clock.advance(Duration::from_secs(1));
    }
    while job(&world).closed_seen.is_none() {
        advance(&world, Duration::from_millis(2_100)).expect("a slice");
    }
    world.clock.advance(leases_end(LEASE) + Duration::from_secs(2));
    let memory = world.memory.clone();
    let faster = Fault::before(move || {
        let job = memory.stored_job(&partition()).expect("a job");
        memory.place_job(&partition(), Some(Job { rev: job.rev + 1, ..job }));
    });
    world.store.script(Operation::Begin, [faster]);
    scale(&world, 4).expect("it decides anew");
    assert_eq!(metadata(&world).phase, Phase::Forward { from: count(2), to: count(4) });
}

/// Invariants I4, I5.
#[test]
fn a_random_collection_shrinks_and_keeps_every_item_once() {
    let world = world(Placement::Random, 6);
    for name in names() {
        put(&world, &name, &name).expect("a put");
    }
    scale(&world, 2).expect("it begins");
    let shard = put(&world, "in forward", "new").expect("a put");
    assert!(shard.get() <= 2, "nothing new comes into a shard that is drained");
    let delete = |sk: &str| {
        let writer = world.writer();
        block_on(writer.delete(&key(sk), Precondition::None, world.deadline())).expect("done");
    };
    delete("000");
    let time = leases_end(LEASE) + Duration::from_secs(10);
    advance(&world, time).expect("as far as the move");
    assert!(matches!(metadata(&world).phase, Phase::Move { .. }));
    delete("001");
    assert_eq!(code(get(&world, "001")), Code::ItemNotFound);
    assert_eq!(get(&world, "002").map(|item| text_of(&item)), Ok("002".to_owned()));
    let expected = names().skip(2).chain(["in forward".to_owned()]).collect::<BTreeSet<_>>();
    let found = |world: &World| {
        let found = walk(world, Strategy::Ordered, true);
        assert!(found.is_sorted());
        found
    };
    assert!(found(&world).into_iter().eq(expected.iter().cloned()), "move");
    advance(&world, LONG).expect("it goes on to the end");
    assert!(found(&world).into_iter().eq(expected.iter().cloned()), "stable");
    assert_eq!(metadata(&world).number_of_shards, count(2));
    for (at, item) in world.memory.contents() {
        let shard = shard_at(Placement::Random, &at.partition);
        assert!((1..=2).contains(&shard.get()) && item.is_live(), "{at:?}");
    }
}

/// As a put leaves it behind that was repeated because nobody knew what had become of it. The mover
/// took the other copy for damage and tried for ever, and no other change could begin.
/// Invariant I18.
#[test]
fn regression_a_repeated_sort_key_kept_a_random_collection_from_shrinking() {
    let world = world(Placement::Random, 2);
    for shard in [1, 2] {
        world.memory.place(&in_shard_of(Placement::Random, "twice", shard), stored("twice", 1));
    }
    scale(&world, 1).expect("it begins");
    let end = advance(&world, LONG);
    assert!(matches!(end, Ok(Advance::Finished(_))), "{end:?}");
    assert_eq!(walk(&world, Strategy::Ordered, true), ["twice"]);
    assert_eq!(
        world.memory.contents(),
        [(in_shard_of(Placement::Random, "twice", 1), stored("twice", 1))]
    );
}

/// As a restored table may have it: a copy where no reader looks. The mover brought the copy home, and
/// then the item itself gave way to it; or the item did not move, and the copy in its way kept the
/// reshard from closing.
#[test]
fn regression_a_copy_that_no_reader_returns_took_the_place_of_its_item() {
    let moves = |sk: &String| home(sk, 2) != home(sk, 4);
    let stays = |sk: &String| home(sk, 2) == home(sk, 4);
    for chosen in [names().find(moves), names().find(stays)] {
        let sk = chosen.expect("many names");
        let world = world(Placement::Xxh64, 2);
        let elsewhere = [0, 1].map(|shard| in_shard(&sk, shard));
        for at in elsewhere.iter().filter(|at| **at != home(&sk, 2)) {
            world.memory.place(at, stored("copy", 1));
        }
        world.memory.place(&home(&sk, 2), stored("item", 1));
        scale(&world, 4).expect("it begins");
        let end = advance(&world, LONG);
        assert!(matches!(end, Ok(Advance::Finished(_))), "{end:?}");
        assert_eq!(get(&world, &sk).map(|item| text_of(&item)), Ok("item".to_owned()));
        assert_eq!(world.memory.contents().len(), 2, "the copy is left for `verify`");
    }
}

/// Nothing was said of it, and slice after slice came to it again.
#[test]
fn regression_a_rebalancer_that_metadata_was_behind_of_did_not_say_so() {
    let world = in_move(None);
    world.memory.place(&home(MOVES, 1), stored("from the future", 99));
    assert_eq!(code(advance(&world, LONG)), Code::MetadataBehind);
}

/// The checkpoint failed, since the job was not as seen any more, and the mover left the reshard to
/// another one, of which there was none.
#[test]
fn regression_an_operators_note_ended_the_slice_of_the_mover() {
    let world = in_move(Some("before"));
    let memory = world.memory.clone();
    let note = Fault::before(move || {
        let job = memory.stored_job(&partition()).expect("a job");
        memory.place_job(&partition(), Some(Job { rev: job.rev + 1, then: Some(count(1)), ..job }));
    });
    world.store.script(Operation::Transfer, [note]);
    let end = advance(&world, LONG);
    assert!(matches!(end, Ok(Advance::Finished(_))), "{end:?}");
    assert_eq!(metadata(&world).number_of_shards, count(1), "it was turned round");
}

/// It was answered 202, and then the count went back all the same.
#[test]
fn regression_to_turn_round_could_not_be_taken_back_once_the_reshard_had_closed() {
    let world = in_move(Some("before"));
    scale(&world, 1).expect("it will go back");
    while metadata(&world).phase != Phase::Stable {
        advance(&world, Duration::from_secs(4)).expect("a slice");
        world.clock.advance(Duration::from_secs(1));
    }
    assert_eq!((metadata(&world).number_of_shards, job(&world).then), (count(2), Some(count(1))));
    scale(&world, 2).expect("or not");
    let end = advance(&world, LONG);
    assert!(matches!(end, Ok(Advance::Finished(_))), "{end:?}");
    assert_eq!(metadata(&world).number_of_shards, count(2));
}

/// The rebalancer had read the job before the operator wrote into it, and began what it had read.
#[test]
fn regression_to_turn_round_was_taken_back_and_begun_all_the_same() {
    let world = in_move(Some("before"));
    scale(&world, 1).expect("it will go back");
    while metadata(&world).phase != Phase::Stable || job(&world).closed_seen.is_none() {
        advance(&world, Duration::from_millis(2_100)).expect("a slice");
        world.clock.advance(Duration::from_secs(1));
    }
    world.clock.advance(leases_end(LEASE) + Duration::from_secs(1));
    let memory = world.memory.clone();
    let taken_back = Fault::before(move || {
        let job = memory.stored_job(&partition()).expect("a job");
        assert_eq!(job.then, Some(count(1)));
        memory.place_job(&partition(), Some(Job { rev: job.rev + 1, then: None, ..job }));
    });
    // The first look is the plan's, and the second that of the begin.
    world.store.script(Operation::JobGet, [Fault::before(|| {}), taken_back]);
    let end = advance(&world, LONG);
    assert!(matches!(end, Ok(Advance::Finished(_))), "{end:?}");
    assert_eq!(metadata(&world).number_of_shards, count(2));
}

/// Invariant I3.
#[test]
fn regression_a_delete_missed_an_item_whose_arrival_was_not_visible_yet() {
    // The marker is visible at the drained shard, and the copy is not at the kept one.
    let world = world(Placement::Random, 2);
    let drained = in_shard_of(Placement::Random, "a", 2);
    world.memory.place(&drained, stored("before", 1));
    scale(&world, 1).expect("it begins");
    let time = leases_end(LEASE) + Duration::from_secs(8);
    advance(&world, time).expect("as far as the move");
    assert_eq!(world.memory.stored(&drained), Some(marker(2)));
    let arrived =
        world.memory.stored(&in_shard_of(Placement::Random, "a", 1)).expect("the item has moved");
    let memory = world.memory.clone();
    memory.remove(&in_shard_of(Placement::Random, "a", 1));
    world.store.script(
        Operation::Write,
        [Fault::before(move || memory.place(&in_shard_of(Placement::Random, "a", 1), arrived))],
    );
    let writer = world.writer();
    block_on(writer.delete(&key("a"), Precondition::None, world.deadline())).expect("done");
    assert_eq!(code(get(&world, "a")), Code::ItemNotFound);
}

/// The transaction that brought the item is visible at its old home and not at its new one, where
/// there is nothing yet, or what an earlier reshard has left.
/// Invariant I1.
#[test]
fn regression_a_patch_did_not_find_an_item_whose_arrival_was_not_visible_yet() {
    for before in [None, Some(marker(1))] {
        let world = in_forward(Some("before"));
        let new = home(MOVES, 2);
        let arrived = StoredItem { generation: Generation::new(2), ..stored("before", 1) };
        let hide = {
            let (memory, new) = (world.memory.clone(), new.clone());
            move || match before {
                Some(marker) => memory.place(&new, marker),
                None => memory.remove(&new),
            }
        };
        let show = {
            let (memory, new) = (world.memory.clone(), new.clone());
            move || memory.place(&new, arrived)
        };
        world.store.script(Operation::Get, [Fault::after(|| {}), Fault::before(hide)]);
        world.store.script(Operation::GetBoth, [Fault::before(show)]);
        let (writer, key) = (world.writer(), key(MOVES));
        let patch = writer.patch(&key, attributes("after"), Precondition::Exists, world.deadline());
        block_on(patch).expect("the item is found");
        assert_eq!(world.stored(&new), Some("after".to_owned()));
    }
}

/// Metadata and job are read one after the other, and what happens between them is not damage.
#[test]
fn regression_a_reshard_that_went_on_between_two_reads_was_called_damaged() {
    type Change = fn(&World);
    let finished: Change = |world| {
        let stable = CollectionMetadata { phase: Phase::Stable, rev: 9, ..metadata(world) };
        world.memory.place_metadata(stable);
        world.memory.place_job(&partition(), None);
    };
    let begun_again: Change = |world| {
        let generation = Generation::new(7);
        let next = Job { generation, ..job(world) };
        world.memory.place_metadata(CollectionMetadata { generation, rev: 9, ..metadata(world) });
        world.memory.place_job(&partition(), Some(next));
    };
    for change in [finished, begun_again] {
        let world = Arc::new(in_forward(Some("before")));
        let meanwhile = {
            let world = Arc::clone(&world);
            move || change(&world)
        };
        world.store.script(Operation::JobGet, [Fault::before(meanwhile)]);
        advance(&world, LONG).expect("nothing is damaged");
        assert_eq!(metadata(&world).phase, Phase::Stable);
    }
}

/// [`names`] in so many shards, which take many slices to move.
fn with_a_slow_mover(mover_wcu: u32, shards: u32) -> World {
    let world = World::with_mover(Settings { mover_wcu, ..settings() });
    world.lay_out(1, shards, Placement::Xxh64);
    world.clock.advance(Duration::from_mins(10));
    for name in names() {
        put(&world, &name, &name).expect("a put");
    }
    world
}

/// A scan took all of a slice's minute. A collection whose record was behind it in the stream got its
/// new shards that much later.
#[test]
fn regression_a_long_scan_kept_other_collections_waiting() {
    let world = with_a_slow_mover(16, 1);
    scale(&world, 4).expect("it begins");
    let began = world.clock.now();
    assert_eq!(advance(&world, LONG), Ok(Advance::Yielded { failed: None }));
    let took = world.clock.now().boot.saturating_sub(began.boot);
    assert!(took < Duration::from_secs(30), "a wait of T', ten seconds and one page: {took:?}");
    for _ in 0..50 {
        match advance(&world, LONG) {
            Ok(Advance::Finished(_)) => return assert_at_home(&world, Placement::Xxh64, 4),
            Ok(Advance::Yielded { failed: None }) => {
                assert!(job(&world).yielded, "the next slice is asked for");
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("it never closed: {:?}", job(&world));
}

/// A collection in `move` whose first items, some thousand, were deleted since: each has left its
/// marker behind, and nothing at its new home. One item is behind them.
fn with_a_deleted_head() -> World {
    let world = in_move(None);
    let generation = metadata(&world).generation.get();
    let moved = (0..2_000).map(|n| format!("{n:05}")).filter(|sk| home(sk, 2) != home(sk, 1));
    for sk in moved {
        world.memory.place(&home(&sk, 1), marker(generation));
    }
    world.memory.place(&home("behind", 2), stored("behind", generation));
    world
}

fn first_page(world: &World, limit: u32, time: Duration) -> Vec<String> {
    let query = Query { limit, ..Query::all(partition()) };
    let reader = world.reader();
    let page = block_on(reader.query(&query, PageBudget::UNLIMITED, world.deadline_in(time)));
    page.expect("a page").items.into_iter().map(|(sort, _)| sort.to_string()).collect()
}

/// The head of a queue is made of these. With room for one item, windows did not grow.
#[test]
fn regression_a_page_of_one_passed_markers_one_by_one() {
    let world = with_a_deleted_head();
    let before = world.memory.requests().queries;
    for limit in [1, 2] {
        assert_eq!(first_page(&world, limit, Duration::from_secs(20)), ["behind"]);
    }
    let requests = world.memory.requests().queries - before;
    assert!(requests < 100, "{requests} for some thousand markers, twice");
}

/// Each marker without its item is asked for by itself, so that a wide window may take longer than a
/// lease lasts: then it was read as wide again, until the deadline.
#[test]
fn regression_a_window_that_outlasted_its_lease_was_read_again_as_wide() {
    let world = with_a_deleted_head();
    // A window of 512 takes 16 turns of 32, and so more than a lease.
    world.store.delay(&world.clock, Duration::from_millis(400));
    assert_eq!(first_page(&world, 1, Duration::from_mins(1)), ["behind"]);
}

/// No write leaves an item at both homes with that at the new one the older: somebody has put it
/// there. The mover tried until its slice was over, each time, and did not say why.
#[test]
fn regression_an_item_in_the_way_of_a_move_was_not_named() {
    let world = in_move(Some("before"));
    let generation = metadata(&world).generation.get();
    world.memory.place(&home(MOVES, 2), written("in the way", generation - 1));
    let before = world.memory.contents();
    let error = advance(&world, LONG).expect_err("somebody has to look");
    let message = error.to_string();
    assert_eq!(error.code(), Code::CorruptData, "{message}");
    for part in [&format!("sort key \"{MOVES}\""), "at its new one", "shard 0"] {
        assert!(message.contains(part), "{part} in {message}");
    }
    for home in [home(MOVES, 1), home(MOVES, 2)] {
        let there = before.iter().find(|(at, _)| *at == home).map(|(_, item)| item.clone());
        assert_eq!(world.memory.stored(&home), there, "nobody can say which is the item");
    }
    assert_eq!(
        world.memory.stored(&home("other", 2)).is_some(),
        home("other", 2) != home("other", 1)
    );
    let (writer, key, deadline) = (world.writer(), key(MOVES), world.deadline());
    let deleted = block_on(writer.delete(&key, Precondition::Exists, deadline));
    assert_eq!(code(deleted), Code::CorruptData, "it was tried until the deadline");
}

/// A slice that had asked for the next one failed as well, so that Lambda repeated it, and each time it asked again.
#[test]
fn regression_a_slice_beside_a_damaged_item_was_repeated_and_followed() {
    let world = with_a_slow_mover(5, 2);
    scale(&world, 8).expect("it begins");
    // One of the shard that is begun with.
    let moves = |name: &String| {
        let (from, to) = (home(name, 2), home(name, 8));
        from != to && from.partition.as_str() == partition().as_str()
    };
    let damaged = names().find(moves).expect("one");
    world.memory.place(&home(&damaged, 8), written("in the way", 1));
    let mut has_gone_on = false;
    for _ in 0..60 {
        match advance(&world, Duration::from_secs(15)) {
            Ok(Advance::Yielded { failed }) => {
                has_gone_on |= failed.is_some_and(|error| error.code() == Code::CorruptData);
            }
            Ok(Advance::Waiting { .. }) => world.clock.advance(Duration::from_secs(1)),
            Err(error) => {
                assert_eq!(error.code(), Code::CorruptData);
                assert!(!job(&world).yielded, "the next slice is asked for");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(has_gone_on, "no slice went on beside the damaged item");
}

/// A metadata table that answers each note at once, with an error that says nothing of its fate, had
/// the rebalancer read and write as fast as it could.
#[test]
fn regression_a_note_of_unknown_fate_was_repeated_without_a_pause() {
    let world = in_forward(None);
    let unknown = std::iter::repeat_with(|| Fault::Refuse(outcome_unknown()));
    world.store.script(Operation::JobSave, unknown.take(100_000));
    let slice = advance(&world, Duration::from_secs(10));
    assert!(matches!(slice, Ok(Advance::Yielded { .. } | Advance::Waiting { .. })), "{slice:?}");
    let notes = world.store.attempts(Operation::JobSave);
    assert!(notes < 200, "{notes} in ten seconds");
}

fn set_pace(world: &World, pace: PaceChange) -> bool {
    let set = block_on(world.scaler().set_pace(&partition(), pace, world.deadline()));
    set.expect("the job is there, or nothing runs")
}

const PAUSED: PaceChange = PaceChange { paused: Some(true), mover_wcu: None };
const RESUMED: PaceChange = PaceChange { paused: Some(false), mover_wcu: None };

#[test]
fn a_paused_change_moves_nothing_while_clients_go_on_and_ends_once_it_is_resumed() {
    let world = world(Placement::Xxh64, 1);
    for name in names() {
        put(&world, &name, &name).expect("a put");
    }
    assert!(!set_pace(&world, PAUSED), "nothing runs");
    scale(&world, 4).expect("it begins");
    assert!(set_pace(&world, PAUSED));
    assert!(job(&world).yielded, "the stream calls the next slice");
    for _ in 0..3 {
        let waits = advance(&world, LONG);
        assert!(matches!(waits, Ok(Advance::Waiting { .. })), "{waits:?}");
    }
    assert!(matches!(metadata(&world).phase, Phase::Move { .. }), "new shards take writes");
    assert_eq!(job(&world).items_moved, 0);
    put(&world, "new", "new").expect("a put");
    assert!(names().chain(["new".to_owned()]).eq(walk(&world, Strategy::Ordered, true)));
    assert!(set_pace(&world, RESUMED));
    // It is paused once more when all that is left is the removal of markers.
    while metadata(&world).phase != Phase::Stable {
        advance(&world, Duration::from_secs(9)).expect("it goes on");
        world.clock.advance(Duration::from_secs(1));
    }
    assert!(set_pace(&world, PAUSED));
    advance(&world, LONG).expect("it waits");
    assert!(metadata(&world).cleanup_pending);
    assert!(set_pace(&world, RESUMED));
    let finished = advance(&world, LONG);
    assert!(matches!(finished, Ok(Advance::Finished(_))), "{finished:?}");
}

#[test]
fn a_running_change_goes_as_fast_as_its_operator_says() {
    let world = world(Placement::Xxh64, 1);
    for name in names() {
        put(&world, &name, &name).expect("a put");
    }
    scale(&world, 4).expect("it begins");
    let rate = |wcu| PaceChange { paused: None, mover_wcu: Some(wcu) };
    // An item takes four units: one a second, after the leases have ended.
    assert!(set_pace(&world, rate(Some(4))));
    advance(&world, leases_end(LEASE) + Duration::from_secs(22)).expect("it goes on");
    let moved = job(&world).items_moved;
    assert!((5..=25).contains(&moved), "{moved} items in some twenty seconds");
    assert_eq!(job(&world).mover_wcu, Some(4));
    assert!(set_pace(&world, rate(None)));
    let finished = advance(&world, LONG);
    assert!(matches!(finished, Ok(Advance::Finished(_))), "{finished:?}");
}
