//! Whole collections are looked over, and repaired, while clients write and reshards run.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use dynashard_core::ports::{self, Clock, Entropy, StoreError};
use dynashard_core::{
    Advance, Code, CollectionMetadata, Deadline, Digest, Directory, Error, Finding, FindingKind,
    Generation, HistoryEntry, Precondition, Rebalancer, Repair, Settings, StoredItem, Tally,
    Throttle, Verification, VerifyObserver, VerifyOptions, Version, leases_end,
};
use dynashard_keys::{PartitionKey, Placement, ShardCount, ShardId, SortKey};
use dynashard_testkit::{Fault, ManualClock, MemoryStore, Operation, SeededEntropy, block_on};

use crate::world::{
    LEASE, World, code, count, home, in_shard, in_shard_of, key, marker, outcome_unknown,
    partition, shard, stored, text_of, usual_settings,
};

/// So many items that each shard of up to 16 holds some.
const MANY: u32 = 120;

/// H in these tests.
const LIFETIME: Duration = Duration::from_secs(20);

/// What was found, as `kind shard sort key`, with a tick if it was repaired.
#[derive(Debug, Default)]
pub(crate) struct Found(pub(crate) Vec<String>);

impl VerifyObserver for Found {
    fn found(&mut self, finding: &Finding) {
        let Finding { kind, sort, shard, repaired, .. } = finding;
        let tick = if *repaired { " ✓" } else { "" };
        self.0.push(format!("{} {shard} {sort}{tick}", kind.as_str()));
    }

    fn progress(&mut self, _: &Verification) {}
}

fn run(world: &World, options: VerifyOptions) -> Result<(Verification, Vec<String>), Error> {
    let mut found = Found::default();
    let verifier = world.verifier();
    let report = block_on(verifier.verify(&partition(), options, &mut found))?;
    Ok((report, found.0))
}

#[track_caller]
fn verify(world: &World) -> (Verification, Vec<String>) {
    run(world, VerifyOptions::default()).expect("a report")
}

#[track_caller]
fn repair(world: &World) -> (Verification, Vec<String>) {
    run(world, VerifyOptions { repair: Repair::Misplaced, ..VerifyOptions::default() })
        .expect("a report")
}

fn names() -> impl Iterator<Item = String> {
    (0..MANY).map(|n| format!("{n:03}"))
}

/// A collection of so many shards with [`MANY`] items, long after its creation.
fn world(shards: u32) -> World {
    let world = World::with(settings());
    world.lay_out(1, shards, Placement::Xxh64);
    world.clock.advance(Duration::from_mins(10));
    for name in names() {
        world.place(&name, 1, shards);
    }
    world
}

/// A shard of so many in which the item does not belong.
fn elsewhere(sk: &str, shards: u32) -> u32 {
    (0..shards).find(|shard| in_shard(sk, *shard) != home(sk, shards)).expect("several shards")
}

fn scale(world: &World, shards: u32) {
    let scaled = world.scaler();
    block_on(scaled.request_count(&partition(), count(shards), world.deadline())).expect("begun");
}

fn advance(world: &World, time: Duration) -> Advance {
    rebalance(&world.memory, &world.clock, time)
}

/// A slice over the tables themselves: what befalls the verifier's requests is not for these.
fn rebalance(memory: &MemoryStore, clock: &ManualClock, time: Duration) -> Advance {
    let directory = Directory::new(
        ports::World::new(memory.clone(), memory.clone(), clock.clone(), SeededEntropy::new(7)),
        settings(),
    );
    let rebalancer = Rebalancer::new(directory);
    let deadline = Deadline::after(clock.now(), time);
    block_on(rebalancer.advance(&partition(), 0, deadline)).advance.expect("it goes on")
}

/// The mover is fast enough for a page of each source in a slice of seconds.
fn settings() -> Settings {
    Settings { request_lifetime: LIFETIME, mover_wcu: 4_000, ..usual_settings() }
}

#[test]
fn a_collection_in_order_is_clean_and_counted() {
    let world = world(4);
    let (report, found) = verify(&world);
    assert_eq!(found, [""; 0]);
    assert!(report.is_clean());
    assert_eq!((report.items, report.items_read), (MANY.into(), MANY.into()));
    assert_eq!(report.live_items.len(), 4);
    assert_eq!(report.live_items.values().sum::<u64>(), u64::from(MANY));
    assert_eq!((report.waiting_to_move, report.markers), (0, 0));
    assert!(!report.layout_changed);
    assert!(report.consumed_rcu >= 4.0);
    assert_eq!(report.metadata.number_of_shards, count(4));
}

#[test]
fn a_collection_that_does_not_exist_cannot_be_verified() {
    assert_eq!(code(run(&World::new(), VerifyOptions::default())), Code::CollectionNotFound);
}

#[test]
fn an_empty_collection_is_clean() {
    let world = World::new();
    world.lay_out(1, 8, Placement::Jump);
    let (report, found) = verify(&world);
    assert_eq!((report.items, report.digest, found.len()), (0, Digest::default(), 0));
}

#[test]
fn the_walk_does_not_depend_on_pages() {
    let world = world(8);
    world.memory.place(&in_shard("050", elsewhere("050", 8)), stored("copy", 1));
    let (whole, found) = verify(&world);
    world.memory.split_pages(1, 1);
    let (split, again) = verify(&world);
    assert_eq!(
        (split.digest, split.live_items, split.findings),
        (whole.digest, whole.live_items, whole.findings)
    );
    assert_eq!(again, found);
    assert_eq!(found.len(), 1);
}

#[test]
fn an_item_away_from_home_is_found_and_goes_home() {
    let world = world(4);
    let away = elsewhere("away", 4);
    let item = StoredItem { version: Version::new(77), ..stored("away", 1) };
    world.memory.place(&in_shard("away", away), item.clone());

    let (before, found) = verify(&world);
    assert_eq!(found, [format!("misplaced {away} away")]);
    assert!(!before.is_clean());
    assert_eq!(world.memory.stored(&home("away", 4)), None, "nobody asked for a repair");

    let (repaired, found) = repair(&world);
    assert_eq!(found, [format!("misplaced {away} away ✓")]);
    assert!(repaired.is_clean());
    assert_eq!(repaired.findings[&FindingKind::Misplaced], Tally { found: 1, repaired: 1 });
    assert_eq!(world.memory.stored(&home("away", 4)), Some(item), "with its version");
    assert_eq!(world.memory.stored(&in_shard("away", away)), None, "no marker is left");

    let (after, found) = verify(&world);
    assert_eq!((found.len(), after.items), (0, before.items));
    assert_eq!(after.digest, before.digest, "it held the item before, too");
}

#[test]
fn a_copy_beside_the_item_at_home_yields() {
    let world = world(4);
    world.lay_out(5, 4, Placement::Xxh64);
    // Moved later than the item at home was written; that one is what clients see all the same.
    let away = elsewhere("007", 4);
    world.memory.place(&in_shard("007", away), stored("copy", 5));
    let (doubled, found) = verify(&world);
    assert_eq!(found, [format!("duplicate {away} 007")]);
    assert_eq!(doubled.items, u64::from(MANY) + 1);

    let (_, found) = repair(&world);
    assert_eq!(found, [format!("duplicate {away} 007 ✓")]);
    assert_eq!(world.stored(&home("007", 4)).as_deref(), Some("007"));
    assert_eq!(world.memory.stored(&in_shard("007", away)), None);
    let (single, _) = verify(&world);
    assert_ne!(single.digest, doubled.digest, "a doubled item shows");
}

#[test]
fn of_several_copies_away_from_home_the_last_moved_goes_home() {
    let world = world(4);
    world.lay_out(5, 4, Placement::Xxh64);
    let away = (0..4).filter(|shard| in_shard("lost", *shard) != home("lost", 4));
    let away = away.collect::<Vec<_>>();
    for (shard, generation) in away.iter().zip([2, 5, 3]) {
        world
            .memory
            .place(&in_shard("lost", *shard), stored(&format!("of {generation}"), generation));
    }
    let (_, mut found) = repair(&world);
    found.sort();
    let mut expected = [
        format!("duplicate {} lost ✓", away[0]),
        format!("misplaced {} lost ✓", away[1]),
        format!("duplicate {} lost ✓", away[2]),
    ];
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(world.stored(&home("lost", 4)).as_deref(), Some("of 5"));
    assert_eq!(verify(&world).1, [""; 0]);
}

#[test]
fn markers_that_nothing_accounts_for_are_removed() {
    let world = world(4);
    world.lay_out(3, 4, Placement::Xxh64);
    let away = elsewhere("010", 4);
    world.memory.place(&in_shard("010", away), marker(3));
    world.memory.place(&home("gone", 4), marker(2));
    let (report, mut found) = verify(&world);
    found.sort();
    let at_home = (0..4).find(|shard| in_shard("gone", *shard) == home("gone", 4)).expect("home");
    let mut expected = [format!("stray_marker {away} 010"), format!("stray_marker {at_home} gone")];
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(report.items, u64::from(MANY), "a marker is not an item");

    assert!(repair(&world).0.is_clean());
    assert_eq!(world.memory.stored(&in_shard("010", away)), None);
    assert_eq!(world.memory.stored(&home("gone", 4)), None);
    assert_eq!(world.stored(&home("010", 4)).as_deref(), Some("010"));
}

#[test]
fn what_is_ahead_of_the_metadata_is_found_and_never_touched() {
    let world = world(4);
    let away = elsewhere("ahead", 4);
    let ahead = [
        (home("001", 4), stored("001", 9)),
        (in_shard("ahead", away), stored("ahead", 9)),
        (home("marker", 4), marker(9)),
    ];
    for (at, item) in &ahead {
        world.memory.place(at, item.clone());
    }
    for (report, found) in [verify(&world), repair(&world)] {
        assert!(found.iter().all(|found| found.starts_with("ahead ")), "{found:?}");
        assert_eq!(report.findings[&FindingKind::Ahead], Tally { found: 3, repaired: 0 });
    }
    for (at, item) in ahead {
        assert_eq!(world.memory.stored(&at), Some(item));
    }
}

#[test]
fn shards_that_the_collection_once_had_are_looked_at() {
    let world = world(2);
    scale(&world, 16);
    let grown = advance(&world, Duration::from_mins(10));
    assert!(matches!(grown, Advance::Finished(_)), "{grown:?}");
    world.clock.advance(leases_end(LEASE) * 2);
    scale(&world, 2);
    let shrunk = advance(&world, Duration::from_mins(10));
    assert!(matches!(shrunk, Advance::Finished(_)), "{shrunk:?}");
    assert_eq!(verify(&world).1, [""; 0]);
    world.memory.place(&in_shard("late", 15), stored("late", 2));
    assert_eq!(verify(&world).1, ["misplaced 15 late"]);
    assert!(repair(&world).0.is_clean());
    assert_eq!(world.stored(&home("late", 2)).as_deref(), Some("late"));
}

#[test]
fn in_no_state_of_a_reshard_is_anything_wrong_and_the_digest_stays() {
    for (from, to) in [(2, 8), (8, 2)] {
        let world = world(from);
        let before = verify(&world).0.digest;
        scale(&world, to);
        let (mut waited, mut marked, mut states) = (false, false, 0);
        loop {
            let (report, found) = verify(&world);
            assert_eq!(found, [""; 0], "{:?}", report.metadata);
            assert_eq!((report.digest, report.items), (before, MANY.into()));
            waited |= report.waiting_to_move > 0;
            marked |= report.markers > 0;
            states += 1;
            match advance(&world, Duration::from_millis(3_500)) {
                Advance::Finished(_) => break,
                Advance::Waiting { .. } => world.clock.advance(Duration::from_secs(1)),
                _ => {}
            }
        }
        assert!(waited && marked && states > 10, "{from} -> {to}: {states} states");
        assert_eq!(verify(&world).0.digest, before);
    }
}

#[test]
fn a_reshard_may_go_on_while_the_walk_runs() {
    // However far the walk has come when the next step of the reshard is made.
    for every in [1, 2, 3, 5] {
        let world = world(2);
        world.memory.split_pages(3, usize::MAX);
        let before = verify(&world).0.digest;
        scale(&world, 8);
        let steps = (0..600).flat_map(|_| {
            let (memory, clock) = (world.memory.clone(), world.clock.clone());
            let step = Fault::before(move || {
                rebalance(&memory, &clock, Duration::from_millis(2_100));
                clock.advance(Duration::from_millis(1_700));
            });
            std::iter::once(step).chain((1..every).map(|_| Fault::before(|| {})))
        });
        world.store.script(Operation::Query, steps);
        let (report, found) = verify(&world);
        assert_eq!(found, [""; 0], "{every}");
        assert!(report.layout_changed, "{every}: the reshard went on");
        assert_eq!((report.items, report.digest), (MANY.into(), before), "{every}");
    }
}

#[test]
fn damage_is_found_and_repaired_while_a_reshard_runs() {
    let world = world(2);
    world.lay_out(2, 2, Placement::Xxh64);
    scale(&world, 8);
    advance(&world, leases_end(LEASE) + Duration::from_secs(4));
    let moves = |sk: &String| home(sk, 2) != home(sk, 8);
    let strays = names().filter(moves).take(2).collect::<Vec<_>>();
    let [beside, alone] = strays.as_slice() else { panic!("items that move") };
    let third = |sk: &str| {
        let places = [home(sk, 2), home(sk, 8)];
        (2..8).find(|shard| !places.contains(&in_shard(sk, *shard))).expect("a third shard")
    };
    // A copy beside an item that the reshard moves, and an item that lies in neither of its homes.
    world.memory.place(&in_shard(beside, third(beside)), stored("copy", 2));
    let lone = world.memory.stored(&home(alone, 8)).or(world.memory.stored(&home(alone, 2)));
    world.memory.remove(&home(alone, 2));
    world.memory.remove(&home(alone, 8));
    world.memory.place(&in_shard(alone, third(alone)), lone.expect("an item"));

    let mut expected = [
        format!("duplicate {} {beside}", third(beside)),
        format!("misplaced {} {alone}", third(alone)),
    ];
    expected.sort();
    let sorted = |mut found: Vec<String>| {
        found.sort();
        found
    };
    assert_eq!(sorted(verify(&world).1), expected);
    assert_eq!(sorted(repair(&world).1), expected.map(|found| found + " ✓"));
    assert_eq!(verify(&world).1, [""; 0]);
    assert_eq!(world.stored(&home(alone, 8)).as_deref(), Some(alone.as_str()));

    let finished = advance(&world, Duration::from_mins(10));
    assert!(matches!(finished, Advance::Finished(_)), "{finished:?}");
    let (report, found) = verify(&world);
    assert_eq!((found.len(), report.items), (0, MANY.into()));
}

/// A copy that nobody has seen, since it lay in a shard that readers did not ask, is where the next
/// count will look for the item.
#[test]
fn a_copy_at_the_home_to_come_gives_way_to_the_item() {
    let world = world(2);
    let sk = names().find(|sk| home(sk, 2) != home(sk, 4)).expect("an item that moves");
    world.memory.place(&home(&sk, 4), stored("stale", 1));
    scale(&world, 4);
    let new = (0..4).find(|shard| in_shard(&sk, *shard) == home(&sk, 4)).expect("home");
    assert_eq!(verify(&world).1, [format!("duplicate {new} {sk}")]);
    assert_eq!(repair(&world).1, [format!("duplicate {new} {sk} ✓")]);
    let finished = advance(&world, Duration::from_mins(10));
    assert!(matches!(finished, Advance::Finished(_)), "{finished:?}");
    assert_eq!(world.stored(&home(&sk, 4)), Some(sk));
    assert_eq!(verify(&world).1, [""; 0]);
}

#[test]
fn what_has_gone_when_it_is_looked_at_again_was_nothing() {
    let world = world(4);
    let away = in_shard("away", elsewhere("away", 4));
    world.memory.place(&away, stored("away", 1));
    let memory = world.memory.clone();
    let gone = away.clone();
    world.store.script(Operation::GetBoth, [Fault::before(move || memory.remove(&gone))]);
    let (report, found) = verify(&world);
    assert_eq!((found.len(), report.items), (0, MANY.into()));
}

#[test]
fn a_writer_that_follows_a_reshard_is_not_taken_for_an_item_from_the_future() {
    let world = world(2);
    scale(&world, 4);
    let sk = names().find(|sk| home(sk, 2) != home(sk, 4)).expect("an item that moves");
    // The walk has read the metadata before the reshard began.
    let verifier = world.verifier();
    block_on(verifier.directory().find(&partition(), world.deadline())).expect("read");
    let item = world.new_item(&sk, "new");
    block_on(world.writer().put(&item, Precondition::None, world.deadline())).expect("a put");
    let mut found = Found::default();
    let report = block_on(verifier.verify(&partition(), VerifyOptions::default(), &mut found));
    assert_eq!((found.0.len(), report.expect("a report").items), (0, MANY.into()));
}

#[test]
fn a_client_may_change_an_item_between_its_repair_and_the_look_before() {
    let world = world(4);
    let away = in_shard("away", elsewhere("away", 4));
    world.memory.place(&away, stored("away", 1));
    // It is put at home after it was found missing there: the copy yields.
    let memory = world.memory.clone();
    let put = Fault::before(move || memory.place(&home("away", 4), stored("client's", 1)));
    world.store.script(Operation::Transfer, [put]);
    let (report, _) = repair(&world);
    assert!(report.is_clean());
    assert_eq!(world.stored(&home("away", 4)).as_deref(), Some("client's"));
    assert_eq!(world.memory.stored(&away), None);
}

#[test]
fn what_became_of_a_repair_is_looked_up_and_not_guessed() {
    for executed in [true, false] {
        let world = world(4);
        let away = in_shard("away", elsewhere("away", 4));
        world.memory.place(&away, stored("away", 1));
        let lost = if executed {
            Fault::ExecuteThen(outcome_unknown())
        } else {
            Fault::Refuse(outcome_unknown())
        };
        world.store.script(Operation::Transfer, [lost]);
        world.store.script(Operation::Write, [Fault::Refuse(StoreError::Conflict)]);
        let (report, found) = repair(&world);
        assert!(report.is_clean(), "{found:?}");
        assert_eq!(world.stored(&home("away", 4)).as_deref(), Some("away"));
        assert_eq!(world.memory.stored(&away), None);
    }
}

#[test]
fn throttles_delay_the_walk_and_a_shard_that_never_answers_ends_it() {
    let world = world(4);
    let throttles = std::iter::repeat_with(Fault::throttle).take(9);
    world.store.script(Operation::Query, throttles);
    assert_eq!(verify(&world).0.items, u64::from(MANY));

    world.store.throttle(shard(3));
    let error = run(&world, VerifyOptions::default()).expect_err("a shard is missing");
    assert_eq!(error.code(), Code::Throttled);
    assert!(error.to_string().contains("shard 3"), "{error}");
    let unknown = StoreError::Throttled(Throttle::unknown());
    world.store.relieve(&shard(3));
    world.store.script(Operation::Query, [Fault::Refuse(unknown)]);
    assert!(verify(&world).0.is_clean());
}

#[test]
fn the_walk_takes_no_more_read_units_than_it_may() {
    let world = world(4);
    world.memory.split_pages(1, usize::MAX);
    let began = world.clock.now().boot;
    let read_units = NonZeroU32::new(10);
    let options = VerifyOptions { read_units, ..VerifyOptions::default() };
    let (report, _) = run(&world, options).expect("a report");
    let secs = world.clock.now().boot.saturating_sub(began).as_secs_f64();
    assert!(report.consumed_rcu / secs <= 10.5, "{} in {secs} s", report.consumed_rcu);
    assert!(report.consumed_rcu / secs >= 5.0, "{} in {secs} s", report.consumed_rcu);
}

#[test]
fn in_a_random_collection_any_shard_will_do_but_not_two() {
    let world = World::random();
    world.lay_out(3, 4, Placement::Random);
    for (n, name) in (0..).zip(names()) {
        world.memory.place(&in_shard_of(Placement::Random, &name, n % 4 + 1), stored(&name, 2));
    }
    assert_eq!(verify(&world).1, [""; 0]);
    world.memory.place(&in_shard_of(Placement::Random, "000", 3), stored("second", 2));
    let history = [2, 8, 4].map(|shards| HistoryEntry {
        at_secs: 1_356_998_400 + u64::from(shards),
        count: count(shards),
    });
    let metadata = world.memory.stored_metadata(&partition()).expect("metadata");
    let metadata = CollectionMetadata { shard_history: history.to_vec(), ..metadata };
    world.memory.place_metadata(metadata);
    world.memory.place(&in_shard_of(Placement::Random, "beyond", 7), stored("beyond", 2));
    world.memory.place(&in_shard_of(Placement::Random, "001", 8), stored("copy", 2));

    let (report, mut found) = repair(&world);
    found.sort();
    assert_eq!(found, ["duplicate 3 000", "duplicate 8 001 ✓", "misplaced 7 beyond ✓"]);
    assert!(!report.is_clean(), "which of two is right nobody knows");
    let arrived =
        (1..=4).filter_map(|shard| world.stored(&in_shard_of(Placement::Random, "beyond", shard)));
    assert_eq!(arrived.collect::<Vec<_>>(), ["beyond"]);
    assert_eq!(verify(&world).1, ["duplicate 3 000"]);
}

/// The history keeps twenty counts, and nothing else told how many shards there had been.
#[test]
fn regression_shards_of_long_ago_were_forgotten() {
    let world = World::with(settings());
    let first =
        CollectionMetadata::stable(partition(), Placement::Xxh64, ShardCount::ONE, 1_356_998_400);
    world.memory.place_metadata(first);
    for shards in [16].into_iter().chain([2, 1].into_iter().cycle().take(22)) {
        world.clock.advance(Duration::from_mins(10));
        scale(&world, shards);
        let is_done = |metadata: CollectionMetadata| {
            metadata.number_of_shards == count(shards) && !metadata.needs_rebalancing()
        };
        while !world.memory.stored_metadata(&partition()).is_some_and(is_done) {
            advance(&world, Duration::from_mins(1));
            world.clock.advance(Duration::from_secs(1));
        }
    }
    let metadata = world.memory.stored_metadata(&partition()).expect("metadata");
    assert!(metadata.shard_history.iter().all(|entry| entry.count < count(16)));
    world.memory.place(&in_shard("astray", 13), stored("astray", 1));
    assert_eq!(verify(&world).1, ["misplaced 13 astray"]);
}

#[test]
fn a_random_collection_that_shrinks_is_clean_all_the_way() {
    let world = World::with(settings());
    world.lay_out(3, 8, Placement::Random);
    world.clock.advance(Duration::from_mins(10));
    for (n, name) in (0..).zip(names()) {
        world.memory.place(&in_shard_of(Placement::Random, &name, n % 8 + 1), stored(&name, 2));
    }
    let before = verify(&world).0.digest;
    scale(&world, 3);
    let mut waited = false;
    loop {
        let (report, found) = verify(&world);
        assert_eq!((found.len(), report.digest), (0, before), "{found:?}");
        waited |= report.waiting_to_move > 0;
        match advance(&world, Duration::from_millis(3_500)) {
            Advance::Finished(_) => break,
            Advance::Waiting { .. } => world.clock.advance(Duration::from_secs(1)),
            _ => {}
        }
    }
    assert!(waited);
    assert_eq!(verify(&world).0.digest, before);
}

/// Whatever lies wherever, a repair leaves each sort key once, at its home, with the item that
/// clients saw there if they saw one.
#[test]
fn any_damage_is_repaired_and_no_item_that_clients_see_is_touched() {
    for seed in 0..150 {
        let chance = SeededEntropy::new(seed);
        let world = world(4);
        world.lay_out(4, 4, Placement::Xxh64);
        let draw = |n: u64| chance.next_u64() % n;
        for _ in 0..draw(12) {
            let sk = format!("{:03}", draw(140));
            let at = in_shard(&sk, u32::try_from(draw(4)).expect("small"));
            let generation = draw(4) + 1;
            if draw(3) == 0 {
                world.memory.place(&at, marker(generation));
            } else {
                let version = Version::new(chance.next_u64());
                let item = StoredItem { version, ..stored(&format!("{seed} {sk}"), generation) };
                world.memory.place(&at, item);
            }
        }
        let at_home = |world: &World| {
            let contents = world.memory.contents().into_iter();
            let visible = contents
                .filter(|(at, item)| item.is_live() && *at == home(&at.sort.to_string(), 4));
            visible.map(|(at, item)| (at, text_of(&item))).collect::<Vec<_>>()
        };
        let seen = at_home(&world);
        let keys = |world: &World| {
            let contents = world.memory.contents().into_iter();
            let live = contents.filter(|(_, item)| item.is_live());
            live.map(|(at, _)| at.sort).collect::<BTreeSet<SortKey>>()
        };
        let (before, found) = verify(&world);
        let all = keys(&world);
        assert!(repair(&world).0.is_clean(), "seed {seed}: {found:?}");
        let (after, left) = verify(&world);
        assert_eq!(left, [""; 0], "seed {seed}: {found:?}");
        assert_eq!(after.items, u64::try_from(all.len()).expect("few"), "seed {seed}");
        assert_eq!(keys(&world), all, "seed {seed}: {found:?}");
        let now = at_home(&world);
        assert!(seen.iter().all(|item| now.contains(item)), "seed {seed}: {found:?}");
        assert!(world.memory.contents().iter().all(|(_, item)| item.is_live()), "seed {seed}");
        assert!(before.items >= after.items);
    }
}

#[test]
fn all_collections_are_listed_and_no_jobs() {
    let world = world(1);
    let names = ["JFK", "LGA"].map(|name| PartitionKey::new(name).expect("a partition key"));
    for name in &names {
        let metadata = world.memory.stored_metadata(&partition()).expect("metadata");
        let partition = name.clone();
        world.memory.place_metadata(CollectionMetadata { partition, ..metadata });
    }
    scale(&world, 2);
    world.memory.split_pages(1, usize::MAX);
    world.store.script(Operation::MetadataScan, [Fault::throttle()]);
    let verifier = world.verifier();
    let mut listed = Vec::new();
    let mut after = None;
    loop {
        let page = block_on(verifier.collections(&world.store, after.as_deref(), world.deadline()));
        let page = page.expect("a page");
        listed.extend(page.entries);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    listed.sort();
    let [jfk, lga] = names;
    assert_eq!(listed, [partition(), jfk, lga]);
}

/// It was taken for a cold collection, and what lay in its other shards for nobody's.
#[test]
fn regression_metadata_that_the_directory_does_not_list_was_verified_as_one_shard() {
    let world = world(4);
    let metadata = world.memory.stored_metadata(&partition()).expect("metadata");
    let restored = World::with(settings());
    restored.memory.place_unlisted_metadata(metadata);
    assert_eq!(code(run(&restored, VerifyOptions::default())), Code::CorruptData);
}

#[test]
fn a_finding_says_where_the_item_belongs() {
    struct First(Option<Finding>);
    impl VerifyObserver for First {
        fn found(&mut self, finding: &Finding) {
            self.0.get_or_insert_with(|| finding.clone());
        }

        fn progress(&mut self, _: &Verification) {}
    }
    let world = world(4);
    let away = elsewhere("away", 4);
    world.memory.place(&in_shard("away", away), stored("away", 1));
    let mut first = First(None);
    let verifier = world.verifier();
    block_on(verifier.verify(&partition(), VerifyOptions::default(), &mut first)).expect("done");
    let home = Placement::Xxh64.home(&key("away"), count(4));
    assert_eq!(
        first.0,
        Some(Finding {
            kind: FindingKind::Misplaced,
            sort: key("away").sort,
            shard: ShardId::new(away),
            home,
            generation: Generation::new(1),
            repaired: false,
        })
    );
}
