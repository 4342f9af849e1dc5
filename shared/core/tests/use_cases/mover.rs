//! How fast items move: as fast as the budget allows while nothing throttles, and less where
//! something does.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dynashard_core::ports::Clock;
use dynashard_core::{
    Advance, Error, Job, LaneKey, PartitionLimits, Rebalancer, ServerTime, Settings, StoredItem,
    Waits, leases_end,
};
use dynashard_keys::{PartitionKey, Placement};
use dynashard_testkit::{Fault, Operation, block_on};

use crate::world::{World, attributes, count, home, partition, stored, usual_settings};

/// Write units a second that the mover may take.
const BUDGET_WCU: u32 = 400;

/// What it takes to move an item of up to 1 KB.
const MOVE_WCU: u32 = 4;

const MOVES_PER_SEC: u32 = BUDGET_WCU / MOVE_WCU;

/// What a slice has of the minute of an invocation.
const SLICE: Duration = Duration::from_secs(59);

/// Long enough for a whole reshard in one slice.
const LONG: Duration = Duration::from_mins(5);

/// What it loses while it rises from a quarter of the budget to the whole.
const RISE: Duration = Duration::from_secs(4);

/// A request and its answer, much slower than DynamoDB's usual.
const ROUND_TRIP: Duration = Duration::from_millis(20);

/// A collection of `items` items that is to change its count, over a table that takes its time.
fn world(items: u32, from: u32, to: u32) -> World {
    world_with(items, from, to, BUDGET_WCU)
}

fn world_with(items: u32, from: u32, to: u32, mover_wcu: u32) -> World {
    let settings =
        Settings { mover_wcu, request_lifetime: Duration::from_secs(5), ..usual_settings() };
    world_of(items, from, to, settings)
}

fn world_of(items: u32, from: u32, to: u32, settings: Settings) -> World {
    let world = World::with_mover(settings);
    world.lay_out(1, from, Placement::Xxh64);
    world.clock.advance(Duration::from_mins(10));
    for n in 0..items {
        let sk = format!("{n:05}");
        world.memory.place(&home(&sk, from), stored(&sk, 1));
    }
    let scaler = world.scaler();
    let asked = block_on(scaler.request_count(&partition(), count(to), world.deadline()));
    asked.expect("it begins");
    world.store.delay(&world.clock, ROUND_TRIP);
    world
}

fn leaving(items: u32, from: u32, to: u32) -> u32 {
    let moves = (0..items).map(|n| format!("{n:05}")).filter(|sk| home(sk, from) != home(sk, to));
    u32::try_from(moves.count()).expect("few")
}

/// When each move was carried out, on the boot clock.
type Times = Arc<Mutex<Vec<Duration>>>;

/// Notes when each of `moves` moves is carried out. Those of `throttled` are refused once before.
fn watch(world: &World, moves: u32, throttled: &[u32]) -> Times {
    let times = Times::default();
    for n in 0..moves {
        let (clock, noted) = (world.clock.clone(), Arc::clone(&times));
        let note = move || noted.lock().expect("no panic").push(clock.now().boot);
        let refused = throttled.contains(&n).then(Fault::throttle);
        world.store.script(Operation::Transfer, refused.into_iter().chain([Fault::after(note)]));
    }
    times
}

/// Carries the change to its end, slice by slice, each in the next of so many environments.
fn finish(world: &World, environments: usize) {
    let rebalancers = (0..environments).map(|_| world.rebalancer()).collect::<Vec<_>>();
    for slice in 0..100 {
        let rebalancer = &rebalancers[slice % environments];
        match advance(world, rebalancer, SLICE) {
            Ok(Advance::Finished(_)) => return,
            Ok(Advance::Yielded { failed: None }) => {}
            Ok(Advance::Waiting { .. }) => world.clock.advance(Duration::from_secs(1)),
            other => panic!("{other:?}"),
        }
    }
    panic!("it never closed");
}

fn advance(world: &World, rebalancer: &Rebalancer, time: Duration) -> Result<Advance, Error> {
    let slice = block_on(rebalancer.advance(&partition(), 0, world.deadline_in(time)));
    slice.advance
}

/// How many moves there were in each second from the first of them on.
fn by_second(times: &Times) -> Vec<u32> {
    let times = times.lock().expect("no panic");
    let mut counts = Vec::new();
    for time in times.iter() {
        let second = usize::try_from(time.saturating_sub(times[0]).as_secs()).expect("few");
        counts.resize(counts.len().max(second + 1), 0);
        counts[second] += 1;
    }
    counts
}

#[test]
fn a_mover_that_nothing_throttles_reaches_nine_tenths_of_its_budget_and_never_passes_it() {
    // One source and several, fewer items than a slice moves and more.
    for (items, from, to) in [(4_000, 1, 2), (7_000, 1, 16), (7_000, 16, 1)] {
        for environments in [1, 3] {
            let case = format!("{items} items, {from} -> {to}, {environments} environments");
            let world = world(items, from, to);
            let moves = leaving(items, from, to);
            let times = watch(&world, moves, &[]);
            finish(&world, environments);
            assert_eq!(world.store.attempts(Operation::Transfer), u64::from(moves), "{case}");
            let times = times.lock().expect("no panic");
            let taken = times[times.len() - 1].saturating_sub(times[0]);
            let ideal = Duration::from_secs(1) * moves / MOVES_PER_SEC;
            let most = ideal.mul_f64(1.0 / 0.9) + RISE;
            assert!(taken <= most, "{case}: {taken:?}, ideally {ideal:?}");
            assert_within_budget(&times, MOVES_PER_SEC, &case);
        }
    }
}

/// Each change took all that it was allowed, and the table had no units left for its clients.
#[test]
fn regression_moves_of_many_collections_took_many_times_what_a_table_gives() {
    let all_movers_wcu = NonZeroU32::new(BUDGET_WCU);
    let lifetime = Duration::from_secs(5);
    let settings = Settings { all_movers_wcu, request_lifetime: lifetime, ..usual_settings() };
    let world = world_of(1_000, 1, 2, Settings { mover_wcu: BUDGET_WCU, ..settings });
    for other in ["JFK", "LGA", "BOS"] {
        let other = PartitionKey::new(other).expect("pk");
        let asked = block_on(world.scaler().request_count(&other, count(2), world.deadline()));
        asked.expect("it begins");
    }
    let moves = leaving(1_000, 1, 2);
    let times = watch(&world, moves, &[]);
    finish(&world, 2);
    let times = times.lock().expect("no panic");
    assert_eq!(times.len(), usize::try_from(moves).expect("few"));
    // So few that what one round has saved up shows.
    assert_within_budget(&times, MOVES_PER_SEC / 4 + 5, "one of four");
}

fn assert_within_budget(times: &[Duration], per_sec: u32, case: &str) {
    // What was unused before, of a twentieth of a second at most, may be spent at once.
    let most = usize::try_from(per_sec + per_sec / 20).expect("few");
    let bursts = times.windows(most + 1);
    let shortest = bursts.map(|burst| burst[most].saturating_sub(burst[0])).min().expect("many");
    assert!(shortest >= Duration::from_millis(990), "{case}: {most} moves in {shortest:?}");
}

/// What a put has gone past takes two transactions: the one that finds the put's item in the way,
/// and the one by which it gives way. Only one of them was paid for.
#[test]
fn regression_the_mover_passed_its_budget_where_puts_had_gone_past_the_old_home() {
    let items = 2_000;
    let world = world(items, 1, 2);
    let moves = leaving(items, 1, 2);
    for sk in (0..items).map(|n| format!("{n:05}")).filter(|sk| home(sk, 1) != home(sk, 2)) {
        world.memory.place(&home(&sk, 2), stored("put since", 2));
    }
    let times = watch(&world, 2 * moves, &[]);
    finish(&world, 1);
    let (sent, least) = (world.store.attempts(Operation::Transfer), 2 * u64::from(moves));
    // Where a slice ends between the two, the first is sent again, for sixteen items at most.
    assert!((least..=least + 3 * 16).contains(&sent), "{sent}, at least {least}");
    assert_within_budget(&times.lock().expect("no panic"), MOVES_PER_SEC, "all are in the way");
    let found = world.memory.contents().into_iter().filter(|(_, item)| item.is_live());
    assert_eq!(found.count(), usize::try_from(items).expect("few"), "each once");
}

/// It was paid for by what its attributes take, as if its key, and what the system adds, were free.
#[test]
fn regression_an_item_that_its_key_made_larger_than_a_kilobyte_was_paid_for_as_one() {
    let world = world(0, 1, 2);
    for sk in (0..1_000).map(|n| format!("{n:05}")) {
        let item = StoredItem { attributes: attributes(&"x".repeat(1_000)), ..stored(&sk, 1) };
        world.memory.place(&home(&sk, 1), item);
    }
    let moves = leaving(1_000, 1, 2);
    let times = watch(&world, moves, &[]);
    finish(&world, 1);
    assert_within_budget(&times.lock().expect("no panic"), MOVES_PER_SEC / 2, "2 KB each");
}

/// Growth from one shard has one source, and its end was not foretold before it was there. In the
/// closing scan the time was counted from `move` on, hours ago.
#[test]
fn regression_nobody_could_tell_how_long_the_scan_of_a_single_source_would_take() {
    const ITEMS: u32 = 4_000;
    let world = world(ITEMS, 1, 2);
    let moves = leaving(ITEMS, 1, 2);
    let times = watch(&world, moves, &[]);
    let partition = partition();
    let rebalancer = world.rebalancer();
    block_on(async {
        let working = std::pin::pin!(rebalancer.advance(&partition, 0, world.deadline_in(LONG)));
        let killed = std::pin::pin!(world.clock.sleep(Duration::from_secs(16)));
        futures_util::future::select(working, killed).await;
    });
    let so_far = u32::try_from(times.lock().expect("no panic").len()).expect("few");
    let metadata = world.memory.stored_metadata(&partition).expect("it is there");
    let reshard = metadata.reshard().expect("it runs");
    let job = world.memory.stored_job(&partition).expect("a job");
    let now = ServerTime(world.clock.now().epoch_secs());
    let waits =
        Waits::of(&Settings { request_lifetime: Duration::from_secs(5), ..usual_settings() });
    let progress = job.progress(&reshard, waits, now);
    let share = so_far * 100 / moves;
    assert!(progress.percent_done.abs_diff(share) <= 15, "{share} % are moved: {progress:?}");
    let left = u64::from((moves - so_far) / MOVES_PER_SEC);
    let eta_secs = progress.eta_secs.expect("it can be told");
    assert!((left / 2..=left * 3 + 10).contains(&eta_secs), "{left} s are left: {progress:?}");

    let closing = Job { closing: true, scan_began: Some(ServerTime(now.0 + 10_000)), ..job };
    let progress = closing.progress(&reshard, waits, ServerTime(now.0 + 10_002));
    let eta_secs = progress.eta_secs.expect("it can be told");
    assert!(eta_secs < 60, "it began 2 s ago: {progress:?}");
}

#[test]
fn what_a_sweep_has_no_time_for_is_left_and_no_failure() {
    let world = world(100, 1, 2);
    let sweep = block_on(world.rebalancer().sweep(world.deadline_in(Duration::from_secs(1))));
    assert_eq!((sweep.left, sweep.collections.len()), (1, 0));
    assert_eq!(sweep.unlisted, None);
}

/// Others may have to wait for a large answer.
#[test]
fn a_round_reads_what_it_moves_in_small_pages() {
    const ITEMS: u32 = 2_000;
    let world = world(ITEMS, 1, 2);
    finish(&world, 1);
    let queries = world.memory.requests().queries;
    let least = 2 * u64::from(ITEMS / 32);
    assert!(queries >= least, "32 items at a time while they and their markers go: {queries}");
}

#[test]
fn a_throttle_halves_the_pace_of_the_mover_and_it_comes_back_by_a_tenth_each_second() {
    let world = world(5_000, 1, 2);
    let moves = leaving(5_000, 1, 2);
    // A burst is one piece of news, whatever it hits.
    let burst = (1_500..1_510).collect::<Vec<_>>();
    let times = watch(&world, moves, &burst);
    finish(&world, 1);
    let counts = by_second(&times);
    // What was refused is sent once more, and not paid for twice.
    let again = u32::try_from(burst.len()).expect("few");
    // In the first seconds it rises from a quarter.
    let halved = (8..counts.len()).find(|second| counts[*second] <= 60 + again);
    let halved = halved.unwrap_or_else(|| panic!("no second at half the pace: {counts:?}"));
    // The second in which a slice begins has 77 moves: what may be saved up does not make up for the
    // pause.
    // The burst may come in the middle of the second before.
    let before = &counts[8..halved.saturating_sub(1)];
    let slow = before.iter().filter(|count| **count < 85).collect::<Vec<_>>();
    assert!(slow.len() <= 1 && slow.iter().all(|count| **count >= 75), "before: {counts:?}");
    for (after, expected) in (0..5).zip([50, 60, 70, 80, 90]) {
        let count = counts[halved + after];
        assert!(count.abs_diff(expected) <= 5 + again, "{after} s after the throttle: {counts:?}");
    }
    let back = &counts[halved + 6..counts.len() - 1];
    assert!(!back.is_empty() && back.iter().all(|count| *count >= 85), "afterwards: {counts:?}");
    assert_eq!(counts.iter().sum::<u32>(), moves, "every item has moved");
}

/// The last round used up the time in which the note for the next slice is written, so the slice
/// failed instead.
#[test]
fn regression_a_slice_that_ended_within_a_request_asked_for_no_other() {
    for millis in (12_000..12_400).step_by(13) {
        let world = world(2_000, 1, 2);
        let slice = Duration::from_millis(millis);
        let advanced = advance(&world, &world.rebalancer(), slice);
        assert_eq!(advanced, Ok(Advance::Yielded { failed: None }), "{millis} ms");
        let job = world.memory.stored_job(&partition()).expect("a job");
        assert!(job.yielded && job.items_moved > 0, "{millis} ms: {job:?}");
    }
}

/// The sweep, or a second record, started another rebalancer in the middle of a scan: both moved the
/// same items, and every transaction of one of them was cancelled, and paid for.
#[test]
fn regression_two_rebalancers_moved_each_item_twice() {
    // In the middle of a round, after a slice that is over, and in the removal of the markers.
    two_rebalancers_move_each_item_once(5_000, 0, &[12_500, 30_000, 85_000]);
}

/// A round of so many items was reckoned as if each took a kilobyte. It lasted longer than a second
/// rebalancer watches for signs of the first.
#[test]
fn regression_a_round_of_large_items_looked_as_if_nobody_was_at_work() {
    two_rebalancers_move_each_item_once(1_000, 4, &[12_500, 15_000, 30_000]);
    two_rebalancers_move_each_item_once(60, 100, &[12_500, 20_000, 33_000]);
}

fn two_rebalancers_move_each_item_once(items: u32, kilobytes: usize, seconds_after: &[u64]) {
    let moves = u64::from(leaving(items, 1, 2));
    for &second_after in seconds_after {
        let world = world(items, 1, 2);
        for sk in (0..items).map(|n| format!("{n:05}")) {
            let contents = attributes(&"x".repeat(kilobytes * 1_024));
            let item = StoredItem { attributes: contents, ..stored(&sk, 1) };
            world.memory.place(&home(&sk, 1), item);
        }
        let (one, other) = (world.rebalancer(), world.rebalancer());
        let partition = partition();
        let mut ended = Vec::new();
        let first_slice = Duration::from_secs(30);
        block_on(async {
            // As the stream does: a slice that is over is followed by the next.
            let slices = async |rebalancer: &Rebalancer, mut time: Duration| {
                loop {
                    let slice = rebalancer.advance(&partition, 0, world.deadline_in(time)).await;
                    let advance = slice.advance.expect("a slice");
                    if advance != (Advance::Yielded { failed: None }) {
                        return advance;
                    }
                    time = LONG;
                }
            };
            let first = slices(&one, first_slice);
            let second = async {
                world.clock.sleep(Duration::from_millis(second_after)).await;
                slices(&other, LONG).await
            };
            let (first, second) = futures_util::future::join(first, second).await;
            ended.extend([first, second]);
        });
        assert_eq!(world.store.attempts(Operation::Transfer), moves, "{second_after}: {ended:?}");
        assert_eq!(world.store.attempts(Operation::Write), moves, "one removal for each marker");
        assert_eq!(world.memory.stored_job(&partition), None, "{second_after}: {ended:?}");
    }
}

/// The time was too short for what all sources had begun, so everything was given up at once: slices
/// of that length came to nothing, for ever.
#[test]
fn regression_slices_too_short_for_a_round_moved_nothing() {
    let world = world(200, 8, 2);
    let short = Duration::from_millis(2_600);
    for _ in 0..300 {
        match advance(&world, &world.rebalancer(), short) {
            Ok(Advance::Finished(_)) => return,
            Ok(Advance::Waiting { .. }) => world.clock.advance(Duration::from_secs(1)),
            Ok(Advance::Yielded { failed: None }) => {}
            other => panic!("{other:?}"),
        }
    }
    panic!("it never closed: {:?}", world.memory.stored_job(&partition()));
}

/// Its units were more than the budget of a slice, so it never moved, and slices that could not begin
/// anything followed each other without a pause.
#[test]
fn regression_an_item_larger_than_a_slices_budget_never_moved() {
    let world = world_with(0, 1, 2, 10);
    let large = |sk: &str| {
        let mut item = stored(sk, 1);
        item.attributes = attributes(&"x".repeat(390 * 1_024));
        item
    };
    let leaves = |sk: &String| home(sk, 1) != home(sk, 2);
    for sk in (0..20).map(|n| format!("{n:05}")).filter(leaves).take(3) {
        world.memory.place(&home(&sk, 1), large(&sk));
    }
    let rebalancer = world.rebalancer();
    let mut slices = 0;
    loop {
        slices += 1;
        assert!(slices < 60, "it never closed");
        match advance(&world, &rebalancer, SLICE) {
            Ok(Advance::Finished(_)) => break,
            Ok(Advance::Yielded { failed: None }) => {}
            // As the sweep comes back.
            Ok(Advance::Waiting { .. }) => world.clock.advance(Duration::from_mins(1)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(world.store.attempts(Operation::Transfer), 3);
}

/// One source that throttled everything held the slice for its whole minute, and with it the
/// collections that were behind in the stream.
#[test]
fn regression_an_overloaded_source_held_a_slice_for_longer_than_it_goes_through_items() {
    let world = world(2_000, 1, 2);
    world.store.script(Operation::Transfer, (0..100_000).map(|_| Fault::throttle()));
    let rebalancer = world.rebalancer();
    let begun = world.clock.now();
    assert_eq!(advance(&world, &rebalancer, SLICE), Ok(Advance::Yielded { failed: None }));
    let taken = world.clock.now().certainly_since(begun);
    let most = leases_end(usual_settings().lease_term) + Duration::from_secs(15);
    assert!(taken < most, "{taken:?}");
}

#[test]
fn a_rebalancer_that_vanishes_is_replaced_by_the_next() {
    let world = world(3_000, 1, 2);
    let partition = partition();
    block_on(async {
        let rebalancer = world.rebalancer();
        let working = std::pin::pin!(rebalancer.advance(&partition, 0, world.deadline_in(LONG)));
        let killed = std::pin::pin!(world.clock.sleep(Duration::from_secs(15)));
        futures_util::future::select(working, killed).await;
    });
    let job = world.memory.stored_job(&partition).expect("a job");
    assert!(!job.yielded && job.items_moved > 0, "it was in the middle of it: {job:?}");
    finish(&world, 1);
}

/// Calls a rebalancer by a lane, as the stream does, until nothing is left to do. The one of `killed` is
/// killed in the middle of its first call, and called again.
async fn follow(world: &World, lane: u32, killed: Option<u32>) -> u64 {
    let partition = partition();
    let rebalancer = world.rebalancer();
    let (mut last_call, mut moved, mut to_be_killed) = (None, 0, killed == Some(lane));
    let mut is_called = lane == 0;
    while world.memory.stored_job(&partition).is_some() {
        let call = world.memory.stored_lane(&partition, lane);
        is_called |= call.is_some() && call != last_call;
        if !is_called {
            world.clock.sleep(Duration::from_millis(100)).await;
            continue;
        }
        last_call = call;
        let working =
            std::pin::pin!(rebalancer.advance(&partition, lane, world.deadline_in(SLICE)));
        let life = if std::mem::take(&mut to_be_killed) { Duration::from_secs(4) } else { LONG };
        let killed = std::pin::pin!(world.clock.sleep(life));
        is_called = match futures_util::future::select(working, killed).await {
            futures_util::future::Either::Left((slice, _)) => {
                moved += slice.reshard.map_or(0, |reshard| reshard.items_moved);
                // As the stream calls the first, or the sweep.
                lane == 0 && slice.advance.expect("a slice") != Advance::Nothing
            }
            futures_util::future::Either::Right(_) => true,
        };
    }
    moved
}

/// Each counted what all of them had moved, and the sum was many times what moved.
#[test]
fn several_rebalancers_side_by_side_move_each_item_once_and_keep_to_the_budget() {
    const ITEMS: u32 = 3_000;
    for killed in [None, Some(2)] {
        let settings = Settings {
            mover_wcu: BUDGET_WCU,
            moves_per_call: 25,
            request_lifetime: Duration::from_secs(5),
            ..usual_settings()
        };
        let world = world_of(ITEMS, 4, 16, settings);
        let moves = leaving(ITEMS, 4, 16);
        let times = watch(&world, moves, &[]);
        let counted = block_on(futures_util::future::join_all(
            (0..=LaneKey::LAST).map(|lane| follow(&world, lane, killed)),
        ));
        let at_work = counted.iter().filter(|moved| **moved > 0).count();
        assert!(at_work >= 4, "one for each source: {counted:?}");
        assert_eq!(world.memory.stored_lane(&partition(), 1), None, "the last step removes it");
        let times = times.lock().expect("no panic");
        // Each may have saved five moves up.
        assert_within_budget(&times, MOVES_PER_SEC + 15, &format!("{killed:?} killed"));
        let taken = times[times.len() - 1].saturating_sub(times[0]);
        let ideal = Duration::from_secs(1) * moves / MOVES_PER_SEC;
        if killed.is_none() {
            assert_eq!(world.store.attempts(Operation::Transfer), u64::from(moves));
            assert_eq!(counted.iter().sum::<u64>(), u64::from(moves), "{counted:?}");
            assert!(taken <= ideal.mul_f64(1.0 / 0.85) + RISE, "{taken:?}, ideally {ideal:?}");
        } else {
            assert!(taken <= ideal.mul_f64(1.5) + RISE, "{taken:?}, ideally {ideal:?}");
        }
    }
}

/// A page was left only when all its items were settled. The other source of the call was idle meanwhile,
/// and the claims of both lapsed.
#[test]
fn regression_a_source_that_refused_everything_held_up_the_others_of_its_call() {
    const ITEMS: u32 = 4_000;
    let world = world(ITEMS, 2, 4);
    world.store.throttle(home(&refused_item(), 2).partition);
    let rebalancer = world.rebalancer();
    assert_eq!(advance(&world, &rebalancer, SLICE), Ok(Advance::Yielded { failed: None }));
    let job = world.memory.stored_job(&partition()).expect("a job");
    // A slice has ten seconds, in which the pace rises.
    let share = u64::from(MOVES_PER_SEC / 2) * 10;
    assert!(job.items_moved >= share * 6 / 10, "{} of {share}", job.items_moved);
    assert!(job.claims.values().all(|claim| claim.until == ServerTime(0)), "{:?}", job.claims);
}

fn refused_item() -> String {
    (0..100).map(|n| format!("{n:05}")).find(|sk| home(sk, 2) != home(sk, 4)).expect("one leaves")
}

/// Pages in which nothing was to be done followed each other at once, and took whatever a partition reads in a second
/// from its clients.
#[test]
fn regression_a_scan_that_moved_nothing_took_all_of_a_partitions_reads() {
    // A page of the closing scan takes a second of it or more.
    let elapsed = |read_units| {
        let partition = PartitionLimits { read_units, ..PartitionLimits::default() };
        let request_lifetime = Duration::from_secs(5);
        let world =
            world_of(2_000, 1, 2, Settings { partition, request_lifetime, ..usual_settings() });
        let began = world.clock.now();
        finish(&world, 1);
        world.clock.now().certainly_since(began)
    };
    let [slow, fast] = [4, 3_000].map(elapsed);
    assert!(slow >= fast + Duration::from_secs(5), "{slow:?}, and {fast:?}");
}
