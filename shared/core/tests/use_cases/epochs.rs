//! A collection whose sort keys have several shard counts: what lies behind a key grows, and the past stays where it is.

use std::collections::BTreeMap;
use std::time::Duration;

use dynashard_core::ports::{Clock, Consistency, SortRange, StoreError};
use dynashard_core::query::{PageBudget, Query, Strategy};
use dynashard_core::{
    Advance, BatchOperation, Code, CollectionMetadata, Epoch, Epochs, Error, Extent, Job, NewItem,
    Phase, Precondition, Throttle, VerifyOptions,
};
use dynashard_keys::{ItemKey, Placement};
use dynashard_testkit::{Fault, Operation, block_on};
use proptest::prelude::{ProptestConfig, any, prop, prop_assert_eq, prop_oneof};
use proptest::strategy::Strategy as _;
use proptest::test_runner::TestCaseError;

use crate::reshard::{LONG, advance, metadata, put, world};
use crate::verify::Found;
use crate::world::{
    World, attributes, code, count, home, in_shard, key, partition, sort, stored, text_of,
};

/// So many names that each shard of up to 16 holds some of them on both sides of [`BOUNDARY`].
const MANY: u32 = 200;
const BOUNDARY: &str = "149";

fn names() -> impl DoubleEndedIterator<Item = String> {
    (0..MANY).map(|n| format!("{n:03}"))
}

/// A collection with all names in so many shards.
fn filled(shards: u32) -> World {
    let world = world(Placement::Xxh64, shards);
    for name in names() {
        world.place(&name, 1, shards);
    }
    world
}

fn behind(boundary: &str) -> Extent {
    Extent::Behind { boundary: sort(boundary), descending: false }
}

fn change(world: &World, extent: &Extent, shards: u32) -> Result<CollectionMetadata, Error> {
    let change = (extent, count(shards));
    block_on(world.scaler().request_change(None, &partition(), change, world.deadline()))
}

/// As [`filled`], with all that lies behind each of these keys in so many shards.
fn divided(shards: u32, behind_keys: &[(&str, u32)]) -> World {
    let world = filled(shards);
    for (boundary, shards) in behind_keys {
        change(&world, &behind(boundary), *shards).expect("it begins");
        finish(&world);
    }
    world
}

/// Carries the running change to its end.
fn finish(world: &World) {
    for _ in 0..200 {
        match advance(world, LONG).expect("it goes on") {
            Advance::Finished(_) => return,
            _ => world.clock.advance(Duration::from_secs(30)),
        }
    }
    panic!("the change does not end");
}

/// All of the collection, page by page.
fn walk(world: &World, query: Query) -> Vec<String> {
    walk_within(world, query, usize::MAX)
}

/// As [`walk`], by pages of so many bytes, of which each item takes ten.
fn walk_within(world: &World, query: Query, max_bytes: usize) -> Vec<String> {
    let reader = world.reader();
    let mut query = query;
    let mut found = Vec::new();
    let budget = PageBudget { max_bytes, measure: &|_, _| 10 };
    loop {
        let page = block_on(reader.query(&query, budget, world.deadline()));
        let page = page.expect("a page");
        found.extend(page.items.into_iter().map(|(sort, _)| sort.to_string()));
        match page.cursor {
            Some(cursor) => query.cursor = Some(cursor),
            None => return found,
        }
    }
}

/// What is wrong with the collection.
fn findings(world: &World) -> Vec<String> {
    let mut found = Found::default();
    let (verifier, partition) = (world.verifier(), partition());
    let report = verifier.verify(&partition, VerifyOptions::default(), &mut found);
    block_on(report).expect("a report");
    found.0
}

/// Checks that all names are read back in order by every strategy, and that each is found.
fn assert_all_are_there(world: &World) {
    for strategy in [Strategy::Ordered, Strategy::Parallel, Strategy::RoundRobin] {
        for ascending in [true, false] {
            let query = Query { strategy, ascending, limit: 7, ..Query::all(partition()) };
            let mut expected = names().collect::<Vec<_>>();
            if !ascending {
                expected.reverse();
            }
            let mut found = walk(world, query);
            if metadata(world).epochs.is_one() && strategy != Strategy::Ordered {
                found.sort();
                expected.sort();
            }
            assert_eq!(found, expected, "{strategy:?}, ascending {ascending}");
        }
    }
    assert_eq!(findings(world), Vec::<String>::new());
}

#[test]
fn what_lies_behind_a_key_grows_and_nothing_else_moves() {
    let world = filled(1);
    let begun = change(&world, &behind(BOUNDARY), 4).expect("it begins");
    assert_eq!(begun.phase, Phase::Forward { from: count(1), to: count(4) });
    assert_all_are_there(&world);
    finish(&world);
    let after = metadata(&world);
    assert_eq!((after.number_of_shards, after.phase), (count(4), Phase::Stable));
    let homes = names().map(|name| if *name > *BOUNDARY { home(&name, 4) } else { home(&name, 1) });
    let mut homes = homes.collect::<Vec<_>>();
    homes.sort();
    let placed = world.memory.contents().into_iter().map(|(at, _)| at).collect::<Vec<_>>();
    assert_eq!(placed, homes, "the past lies where it lay, and no marker is left");
    let moved = names().filter(|name| **name > *BOUNDARY && home(name, 4) != home(name, 1));
    assert_eq!(after.items_moved, u64::try_from(moved.count()).expect("few"));
    assert_all_are_there(&world);
    for (name, shards) in [("0005", 1), (BOUNDARY, 1), ("1490", 4), ("999", 4)] {
        let shard = put(&world, name, "written").expect("a put");
        assert_eq!(in_shard(name, shard.get()), home(name, shards), "{name}");
    }
}

#[test]
fn epochs_are_merged_one_after_the_other_into_one() {
    let world = divided(1, &[("049", 2), ("099", 8), (BOUNDARY, 4)]);
    let counts =
        metadata(&world).epochs.older.iter().map(|epoch| epoch.count.get()).collect::<Vec<_>>();
    assert_eq!(counts, [1, 2, 8]);
    assert_all_are_there(&world);
    let mut changes = 0;
    while !metadata(&world).epochs.is_one() {
        change(&world, &Extent::Whole, 4).expect("it begins");
        assert_all_are_there(&world);
        finish(&world);
        assert_all_are_there(&world);
        changes += 1;
    }
    assert_eq!(changes, 3, "the newest has its count");
    let expected = names().map(|name| home(&name, 4)).collect::<std::collections::BTreeSet<_>>();
    let placed = world.memory.contents().into_iter().map(|(at, _)| at);
    assert_eq!(placed.collect::<std::collections::BTreeSet<_>>(), expected);
    assert_eq!(change(&world, &Extent::Whole, 4).map(|reached| reached.phase), Ok(Phase::Stable));
}

/// Newer keys sort lower, as where they begin with a time that counts down.
#[test]
fn keys_that_shrink_grow_below_a_key() {
    let world = filled(1);
    let extent = Extent::Behind { boundary: sort("049"), descending: true };
    change(&world, &extent, 4).expect("it begins");
    finish(&world);
    for (name, shards) in [("000", 4), ("049", 4), ("050", 1), ("199", 1)] {
        assert!(world.memory.stored(&home(name, shards)).is_some(), "{name}");
    }
    assert_all_are_there(&world);
    assert_eq!(code(change(&world, &behind("100"), 8)), Code::BadParameter, "it is of the past");
    change(&world, &behind("019"), 8).expect("which way keys are newer is known");
    finish(&world);
    assert!(world.memory.stored(&home("019", 8)).is_some());
    assert_all_are_there(&world);
}

#[test]
fn a_growth_of_the_future_is_turned_round_and_leaves_one_epoch() {
    let world = filled(2);
    change(&world, &behind(BOUNDARY), 8).expect("it begins");
    change(&world, &Extent::Newest, 2).expect("it is to turn round");
    finish(&world);
    assert!(metadata(&world).epochs.is_one());
    assert_eq!(metadata(&world).number_of_shards, count(2));
    assert_all_are_there(&world);
}

#[test]
fn a_page_of_one_epoch_asks_the_shards_of_that_one() {
    let world = divided(1, &[(BOUNDARY, 16)]);
    let asked = |range, limit| {
        let before = world.memory.requests().queries;
        let query = Query { range, limit, ..Query::all(partition()) };
        let page = block_on(world.reader().query(&query, PageBudget::UNLIMITED, world.deadline()));
        let page = page.expect("a page");
        (page.items.len(), page.items_read, world.memory.requests().queries - before)
    };
    assert_eq!(asked(SortRange::To(sort("099")), 50), (50, 50, 1));
    let (items, _, requests) = asked(SortRange::From(sort("170")), 10);
    assert_eq!((items, requests), (10, 16));
    let (items, _, requests) = asked(SortRange::BeginsWith("13".to_owned()), 50);
    assert_eq!((items, requests), (10, 1));
    let (items, _, requests) = asked(SortRange::BeginsWith("14".to_owned()), 50);
    assert_eq!((items, requests), (10, 17), "such keys may lie behind the boundary, too");
}

/// A page that ended there for a throttle said that the boundary was returned, and the next page began below it.
#[test]
fn regression_a_descending_query_passed_over_the_boundary() {
    let world = divided(1, &[("199", 2)]);
    let mut faults = vec![Fault::before(|| ())];
    faults.extend((0..100).map(|_| Fault::throttle()));
    world.store.script(Operation::Query, faults);
    let mut query = Query { ascending: false, limit: 1, ..Query::all(partition()) };
    let reader = world.reader();
    let page = block_on(reader.query(&query, PageBudget::UNLIMITED, world.deadline()));
    query.cursor = page.ok().and_then(|page| page.cursor);
    world.store.clear(Operation::Query);
    world.clock.advance(Duration::from_mins(1));
    assert_eq!(walk(&world, query).len(), 200);
}

/// A page that the items of one epoch had filled said that nothing follows, or went on behind items that had not fitted.
#[test]
fn regression_a_page_that_was_full_of_one_epoch_hid_the_next_one() {
    let world = divided(1, &[("099", 2), ("196", 4)]);
    for ascending in [true, false] {
        for max_bytes in [10, 30, 970, 1_000] {
            let query = Query { ascending, limit: 1_000, ..Query::all(partition()) };
            let found = walk_within(&world, query, max_bytes);
            assert_eq!(found.len(), 200, "ascending {ascending}, {max_bytes} bytes");
        }
    }
}

/// The shards of the newest epoch were left out while an older one changed.
#[test]
fn regression_the_widest_epoch_was_forgotten_while_another_one_changed() {
    let world = divided(1, &[(BOUNDARY, 16)]);
    let changes = change(&world, &Extent::Older(0), 4).expect("it begins");
    assert_eq!(
        (changes.phase, changes.widest()),
        (Phase::Forward { from: count(1), to: count(4) }, count(16))
    );
    assert_all_are_there(&world);
}

/// The change back was one of the newest epoch.
#[test]
fn regression_a_change_of_an_older_epoch_was_turned_round_in_the_newest() {
    let world = divided(2, &[(BOUNDARY, 8)]);
    change(&world, &Extent::Whole, 8).expect("the older one is merged");
    change(&world, &Extent::Older(0), 2).expect("it is to turn round");
    finish(&world);
    let after = metadata(&world);
    assert_eq!((after.number_of_shards, after.epochs.older.len()), (count(8), 1));
    assert_eq!(after.epochs.older[0].count, count(2));
    assert_all_are_there(&world);
}

/// Epochs of equal counts were left, and merging them began a change from a count to itself, which the metadata may not say.
#[test]
fn regression_a_way_back_that_was_withdrawn_left_epochs_of_equal_counts() {
    let world = divided(4, &[(BOUNDARY, 8)]);
    change(&world, &Extent::Newest, 4).expect("it begins");
    change(&world, &Extent::Newest, 8).expect("it is to turn round");
    // In slices that are too short to begin the way back, too.
    let closes = (0..100).any(|_| {
        drop(advance(&world, Duration::from_secs(4)).expect("it goes on"));
        world.clock.advance(Duration::from_secs(1));
        metadata(&world).phase == Phase::Stable
    });
    assert!(closes);
    assert_eq!(metadata(&world).epochs.older.len(), 1, "the way back is of the epoch");
    change(&world, &Extent::Newest, 4).expect("the way back is withdrawn");
    finish(&world);
    assert!(metadata(&world).epochs.is_one());
    assert_eq!(change(&world, &Extent::Whole, 4).map(|all| all.phase), Ok(Phase::Stable));
    assert_all_are_there(&world);
}

/// Asking for the count that the newest epoch has took back the way back of an older one.
#[test]
fn regression_a_way_back_of_an_older_epoch_was_withdrawn_by_a_request_for_the_newest() {
    let world = divided(2, &[(BOUNDARY, 8)]);
    change(&world, &Extent::Whole, 8).expect("the older one is merged");
    change(&world, &Extent::Older(0), 2).expect("it is to turn round");
    let closes = (0..100).any(|_| {
        drop(advance(&world, Duration::from_secs(4)).expect("it goes on"));
        world.clock.advance(Duration::from_secs(1));
        metadata(&world).phase == Phase::Stable
    });
    assert!(closes);
    change(&world, &Extent::Newest, 8).expect("it has the count");
    finish(&world);
    assert_eq!(metadata(&world).epochs.older.first().map(|epoch| epoch.count), Some(count(2)));
    assert_all_are_there(&world);
}

/// A writer that took the change for one that still runs noted its way back, and the whole collection was resharded.
#[test]
fn regression_a_way_back_of_an_epoch_that_was_merged_changed_all_others() {
    let world = divided(2, &[(BOUNDARY, 8)]);
    change(&world, &Extent::Whole, 8).expect("the older one is merged");
    let closes = (0..100).any(|_| {
        drop(advance(&world, Duration::from_secs(4)).expect("it goes on"));
        world.clock.advance(Duration::from_secs(1));
        metadata(&world).phase == Phase::Stable
    });
    assert!(closes && metadata(&world).epochs.is_one());
    let job = world.memory.stored_job(&partition()).expect("markers are left");
    let noted = Job { then: Some(count(2)), rev: job.rev + 1, ..job };
    world.memory.place_job(&partition(), Some(noted));
    finish(&world);
    let after = metadata(&world);
    assert_eq!((after.phase, after.number_of_shards), (Phase::Stable, count(8)));
    assert_all_are_there(&world);
}

#[test]
fn regression_what_cannot_be_an_epoch_is_refused_and_nothing_begins() {
    let random = world(Placement::Random, 2);
    assert_eq!(code(change(&random, &behind(BOUNDARY), 4)), Code::EpochsNotPossible);
    let world = filled(1);
    change(&world, &behind(BOUNDARY), 4).expect("it begins");
    assert_eq!(code(change(&world, &behind("180"), 8)), Code::ReshardRunning);
    finish(&world);
    assert_eq!(code(change(&world, &behind("100"), 8)), Code::BadParameter);
    // What lies between it and the newest epoch has one shard, though the newest has four.
    assert_eq!(code(change(&world, &behind("100"), 4)), Code::BadParameter);
    let again = change(&world, &behind("170"), 4).expect("it has the count");
    assert_eq!((again.phase, again.epochs.older.len()), (Phase::Stable, 1));
    let same = change(&world, &behind(BOUNDARY), 8).expect("the newest epoch grows in place");
    assert_eq!(
        (same.phase, same.epochs.older.len()),
        (Phase::Forward { from: count(4), to: count(8) }, 1)
    );
    assert_eq!(metadata(&random).phase, Phase::Stable);
}

/// One environment writes these names one after the other, and is then throttled, where the ledger says that so much is asked for.
fn throttled(older: u32, newest: u32, names: &[String], write_units: f64) -> CollectionMetadata {
    let world = World::new();
    let older = Epoch { count: count(older), boundary: sort("m") };
    let epochs = Epochs { older: vec![older], ..Epochs::default() };
    let stable = crate::world::metadata(2, newest, Placement::Xxh64);
    world.memory.place_metadata(CollectionMetadata { epochs, ..stable });
    for n in 0..1_000 {
        world.place(&format!("ma{n:04}"), 2, newest);
    }
    throttle(&world, names, write_units)
}

/// As [`throttled`], of what there is.
fn throttle(world: &World, names: &[String], write_units: f64) -> CollectionMetadata {
    world.clock.advance(Duration::from_mins(10));
    let writer = world.writer();
    let write = |name: &String| {
        let item = world.new_item(name, "text");
        block_on(writer.put(&item, Precondition::None, world.deadline())).expect("a put");
        world.clock.advance(Duration::from_millis(60));
    };
    names.iter().for_each(write);
    let into = Duration::from_nanos(world.clock.now().wall.subsec_nanos().into());
    world.clock.advance(Duration::from_millis(1_700).saturating_sub(into));
    world.ask_for(write_units, world.clock.now().wall);
    let throttle = Throttle::from_reason("TableWriteKeyRangeThroughputExceeded", None);
    world.store.script(Operation::Write, [Fault::Refuse(StoreError::Throttled(throttle))]);
    names.last().into_iter().for_each(write);
    metadata(world)
}

/// What a collection of one shard with these items begins when others were written at 3 times what a shard takes.
fn first_growth(
    items: impl Iterator<Item = u32>,
    written: impl Iterator<Item = u32>,
) -> (Option<String>, bool) {
    let world = World::new();
    world.memory.place_metadata(crate::world::metadata(2, 1, Placement::Xxh64));
    for n in items {
        world.place(&format!("{n:06}"), 1, 1);
    }
    let names = written.map(|n| format!("{n:06}")).collect::<Vec<_>>();
    let grows = throttle(&world, &names, 1.3 * 3.0);
    assert!(matches!(grows.phase, Phase::Forward { from, .. } if from == count(1)), "{grows:?}");
    let Epochs { older, descending, .. } = grows.epochs;
    (older.first().map(|epoch| epoch.boundary.to_string()), descending)
}

/// An operator had to begin the first epoch by hand, and whoever did not know that moved all of a log.
#[test]
fn regression_a_log_waited_for_an_operator_to_leave_its_past_where_it_was() {
    let up = first_growth(0..10_000, 10_000..10_040);
    assert_eq!(up, (Some("010028".to_owned()), false));
    // Newer keys sort lower.
    let down = first_growth(90_000..100_000, (89_960..90_000).rev());
    assert_eq!(down, (Some("089971".to_owned()), true));
}

/// Thousands of items of many kilobytes were read to know that there are thousands, which took too long, and then all of them moved.
#[test]
fn regression_a_log_of_large_items_was_counted_item_by_item() {
    let world = World::new();
    world.memory.place_metadata(crate::world::metadata(2, 1, Placement::Xxh64));
    for n in 0..600 {
        let large = stored(&"x".repeat(20_000), 1);
        world.memory.place(&home(&format!("{n:06}"), 1), large);
    }
    let names = (600..640).map(|n| format!("{n:06}")).collect::<Vec<_>>();
    let grows = throttle(&world, &names, 1.3 * 3.0);
    let boundary = grows.epochs.older.first().map(|epoch| epoch.boundary.to_string());
    assert_eq!(boundary, Some("000628".to_owned()), "they weigh as 12,000 of 1 KB");
}

/// The keys come in order in each round of a load that goes over them again and again, and in a small collection it may be the first.
#[test]
fn what_is_written_again_in_order_grows_in_place() {
    for (items, from) in [(20_000, 12_000), (7_000, 7_000), (20_000, 100)] {
        let first = first_growth(0..items, from..from + 40);
        assert_eq!(first, (None, false), "{items} items, written from {from} on");
    }
    // All at one end of the keys, in no order.
    let at_the_end = first_growth(0..20_000, (0..40).map(|n| 19_000 + n * 7_919 % 1_000));
    assert_eq!(at_the_end, (None, false));
}

#[test]
fn a_log_that_gets_hotter_begins_its_next_epoch_behind_the_newest_keys() {
    let names = (0..40).map(|n| format!("n{n:03}")).collect::<Vec<_>>();
    let grows = throttled(1, 4, &names, 1.3 * 4.0 * 3.0);
    assert!(matches!(grows.phase, Phase::Forward { from, .. } if from == count(4)), "{grows:?}");
    let boundary = grows.epochs.older.last().map(|epoch| epoch.boundary.to_string());
    assert_eq!((grows.epochs.older.len(), boundary.as_deref()), (2, Some("n028")));
}

/// Where a load goes over its keys again and again it has left the newest epoch: its capacity said that nothing was hot.
#[test]
fn regression_what_went_back_to_an_older_epoch_was_decided_on_by_the_count_of_the_newest() {
    let names = (0..40).map(|n| format!("a{n:03}")).collect::<Vec<_>>();
    let grows = throttled(1, 16, &names, 1.3 * 3.0);
    assert_eq!((grows.epochs.changing, grows.number_of_shards), (Some(0), count(16)));
    assert!(matches!(grows.phase, Phase::Forward { from, .. } if from == count(1)), "{grows:?}");
}

/// A backfill had all of the past move to as many shards as the load of all epochs asked for, whatever lay there. Nothing else of the
/// collection changes until that is over.
#[test]
fn regression_a_writer_moved_all_of_the_past_by_the_load_of_all_epochs() {
    for (kilobytes, expected) in [(1, Some(2)), (300, None)] {
        let world = World::new();
        let older = vec![Epoch { count: count(1), boundary: sort("m") }];
        let epochs = Epochs { older, ..Epochs::default() };
        let stable = crate::world::metadata(2, 16, Placement::Xxh64);
        world.memory.place_metadata(CollectionMetadata { epochs, ..stable });
        for n in 0..200 {
            let item = stored(&"x".repeat(kilobytes * 1_000), 1);
            world.memory.place(&home(&format!("a{n:03}"), 1), item);
        }
        let names = (0..40).map(|n| format!("b{n:03}")).collect::<Vec<_>>();
        let begun = match throttle(&world, &names, 1.3 * 8.0 * 3.0).phase {
            Phase::Forward { to, .. } => Some(to.get()),
            _ => None,
        };
        assert_eq!(begun, expected, "{kilobytes} KB");
    }
}

/// What is done next.
#[derive(Debug, Clone)]
enum Step {
    Put(u8),
    Patch(u8),
    Delete(u8),
    Batch(Vec<u8>),
    Get(u8),
    GetBatch(Vec<u8>),
    Query {
        ascending: bool,
        limit: u32,
        bytes: usize,
        range: u8,
        from: u8,
        to: u8,
    },
    /// A change begins, if none runs and it may.
    Change(u8, u8, u32),
    /// The rebalancer works for so many milliseconds.
    Advance(u64),
    /// Time passes, in milliseconds.
    Wait(u64),
}

fn any_step() -> impl proptest::strategy::Strategy<Value = Step> {
    let name = || 0..40_u8;
    let several = || prop::collection::vec(0..40_u8, 1..8);
    prop_oneof![
        6 => name().prop_map(Step::Put),
        3 => name().prop_map(Step::Patch),
        3 => name().prop_map(Step::Delete),
        2 => several().prop_map(Step::Batch),
        3 => name().prop_map(Step::Get),
        2 => several().prop_map(Step::GetBatch),
        3 => (any::<bool>(), 1..12_u32, 10..150_usize, 0..5_u8, name(), name()).prop_map(
            |(ascending, limit, bytes, range, from, to)| {
                Step::Query { ascending, limit, bytes, range, from, to }
            }
        ),
        3 => (0..3_u8, name(), 0..4_u32).prop_map(|(extent, name, n)| Step::Change(extent, name, 1 << n)),
        4 => (100..9_000_u64).prop_map(Step::Advance),
        2 => (0..20_000_u64).prop_map(Step::Wait),
    ]
}

fn name_of(n: u8) -> String {
    format!("{n:02}")
}

/// What each step does to the collection, and to a map.
struct Run {
    world: World,
    model: BTreeMap<String, String>,
    descending: bool,
    written: u32,
}

impl Run {
    fn new(descending: bool) -> Self {
        let world = world(Placement::Xxh64, 1);
        Self { world, model: BTreeMap::new(), descending, written: 0 }
    }

    fn next_text(&mut self) -> String {
        self.written += 1;
        format!("text {}", self.written)
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Put(n) => {
                let text = self.next_text();
                put(&self.world, &name_of(n), &text).map_err(failed)?;
                self.model.insert(name_of(n), text);
            }
            Step::Patch(n) => {
                let (text, deadline) = (self.next_text(), self.world.deadline());
                let (writer, key) = (self.world.writer(), key(&name_of(n)));
                let done = writer.patch(&key, attributes(&text), Precondition::None, deadline);
                let done = block_on(done).map(drop).map_err(|error| error.code());
                let there = self.model.get_mut(&name_of(n)).map(|there| *there = text);
                prop_assert_eq!(done, there.ok_or(Code::ItemNotFound));
            }
            Step::Delete(n) => {
                let (writer, deadline) = (self.world.writer(), self.world.deadline());
                block_on(writer.delete(&key(&name_of(n)), Precondition::None, deadline))
                    .map_err(failed)?;
                self.model.remove(&name_of(n));
            }
            Step::Batch(all) => self.write_batch(all)?,
            Step::Get(n) => self.get(n)?,
            Step::GetBatch(all) => self.read_batch(&all)?,
            Step::Query { ascending, limit, bytes, range, from, to } => {
                self.query(ascending, (limit, bytes), range, [from, to])?;
            }
            Step::Change(extent, n, shards) => {
                let extent = match extent {
                    0 => Extent::Newest,
                    1 => Extent::Whole,
                    _ => {
                        Extent::Behind { boundary: sort(&name_of(n)), descending: self.descending }
                    }
                };
                match change(&self.world, &extent, shards).map_err(|error| error.code()) {
                    Ok(_)
                    | Err(
                        Code::ReshardRunning
                        | Code::BadParameter
                        | Code::ReshardTooSoon
                        | Code::Contended,
                    ) => {}
                    Err(other) => return Err(TestCaseError::fail(other.as_str())),
                }
            }
            Step::Advance(millis) => {
                drop(advance(&self.world, Duration::from_millis(millis)).map_err(failed)?);
            }
            Step::Wait(millis) => self.world.clock.advance(Duration::from_millis(millis)),
        }
        Ok(())
    }

    fn write_batch(&mut self, all: Vec<u8>) -> Result<(), TestCaseError> {
        let distinct = all.into_iter().collect::<std::collections::BTreeSet<_>>();
        let mut operations = Vec::new();
        for n in distinct {
            let name = name_of(n);
            if n % 3 == 0 {
                self.model.remove(&name);
                operations.push(BatchOperation::Delete(key(&name)));
            } else {
                let text = self.next_text();
                let schema = &self.world.settings().schema;
                let item =
                    NewItem::new(key(&name), attributes(&text), schema).expect("a valid item");
                self.model.insert(name, text);
                operations.push(BatchOperation::Put(item));
            }
        }
        let writer = self.world.writer();
        let written = block_on(writer.batch(operations, self.world.deadline())).map_err(failed)?;
        prop_assert_eq!(written.unprocessed.len(), 0, "all of it is written");
        Ok(())
    }

    fn get(&self, n: u8) -> Result<(), TestCaseError> {
        let (reader, key) = (self.world.reader(), key(&name_of(n)));
        let got = reader.get(&key, None, Consistency::Strong, self.world.deadline());
        let got = block_on(got).map(|got| text_of(&got.item)).map_err(|error| error.code());
        prop_assert_eq!(got, self.model.get(&name_of(n)).cloned().ok_or(Code::ItemNotFound));
        Ok(())
    }

    fn read_batch(&self, all: &[u8]) -> Result<(), TestCaseError> {
        let mut keys = all.iter().map(|n| key(&name_of(*n))).collect::<Vec<_>>();
        keys.sort();
        keys.dedup();
        let reader = self.world.reader();
        let read = reader.batch_get(
            keys.clone(),
            None,
            Consistency::Strong,
            PageBudget::UNLIMITED,
            self.world.deadline(),
        );
        let read = block_on(read).map_err(failed)?;
        let found = read.items.iter().map(|(key, item)| (key.sort.to_string(), text_of(item)));
        let found = found.collect::<BTreeMap<_, _>>();
        let is_asked = |name: &&String| keys.contains(&ItemKey::new(partition(), sort(name)));
        let expected = self.model.iter().filter(|(name, _)| is_asked(name));
        prop_assert_eq!(found, expected.map(|(name, text)| (name.clone(), text.clone())).collect());
        Ok(())
    }

    fn query(
        &self,
        ascending: bool,
        (limit, bytes): (u32, usize),
        range: u8,
        [from, to]: [u8; 2],
    ) -> Result<(), TestCaseError> {
        let [low, high] = [from.min(to), from.max(to)].map(|n| sort(&name_of(n)));
        let range = match range {
            0 => SortRange::All,
            1 => SortRange::From(low),
            2 => SortRange::To(high),
            3 => SortRange::Between(low, high),
            _ => SortRange::BeginsWith(name_of(from)[..1].to_owned()),
        };
        let in_range = |name: &&String| range.contains(&sort(name));
        let mut expected = self.model.keys().filter(in_range).cloned().collect::<Vec<_>>();
        if !ascending {
            expected.reverse();
        }
        let consistency = Consistency::Strong;
        let query = Query {
            ascending,
            limit,
            range: range.clone(),
            consistency,
            ..Query::all(partition())
        };
        prop_assert_eq!(walk_within(&self.world, query, bytes), expected);
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` passes it")]
fn failed(error: Error) -> TestCaseError {
    TestCaseError::fail(format!("{error:?}"))
}

proptest::proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_collection_with_epochs_is_a_map(
        descending in any::<bool>(),
        steps in prop::collection::vec(any_step(), 1..60),
    ) {
        let mut run = Run::new(descending);
        for n in 0..40 {
            run.step(Step::Put(n))?;
        }
        for step in steps {
            run.step(step)?;
        }
        run.query(true, (9, 100), 0, [0, 39])?;
        if metadata(&run.world).needs_rebalancing() {
            finish(&run.world);
        }
        run.query(false, (9, 100), 0, [0, 39])?;
        prop_assert_eq!(findings(&run.world), Vec::<String>::new());
    }
}
