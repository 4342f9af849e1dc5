use std::collections::BTreeSet;

use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};

use super::*;

const START: Duration = Duration::from_secs(100);
const BYTES: usize = 10;
const ALL: usize = usize::MAX;

fn key(name: &str) -> PartitionKey {
    PartitionKey::new(name).expect("a partition key")
}

fn queued<R>(name: &str, row: R) -> Queued<R> {
    Queued { lane: key(name), row, bytes: BYTES }
}

fn of(rows: &[(&str, u32)]) -> Lanes<u32> {
    let mut lanes = Lanes::new(1_000, 100_000);
    for (name, row) in rows {
        lanes.push(queued(name, *row), START);
    }
    lanes
}

/// Lets so many more rows go.
fn release<R>(lanes: &mut Lanes<R>, limit: usize, now: Duration) {
    lanes.note(limit, now, |_| {});
    lanes.release(now);
}

fn written<R>(lanes: &mut Lanes<R>, queued: &Queued<R>, now: Duration) {
    lanes.done(queued, true, now);
}

#[test]
fn lanes_take_turns() {
    let mut lanes = of(&[("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("c", 6)]);
    let mut order = Vec::new();
    let mut now = START;
    while !lanes.is_empty() {
        release(&mut lanes, ALL, now);
        while let Some(queued) = lanes.next(now) {
            order.push(queued.row);
            written(&mut lanes, &queued, now);
        }
        now += Duration::from_millis(1);
    }
    assert_eq!(order, [1, 4, 5, 2, 6, 3]);
}

#[test]
fn a_row_goes_only_when_it_was_noted_and_released() {
    let mut lanes = of(&[("a", 1)]);
    assert!(lanes.next(START).is_none());
    let mut noted = Vec::new();
    lanes.note(ALL, START, |row| noted.push(*row));
    assert_eq!(noted, [1]);
    assert!(lanes.next(START).is_none());
    lanes.release(START);
    assert!(lanes.next(START).is_some());
}

#[test]
fn no_more_is_noted_than_asked_for_and_each_lane_in_its_turn() {
    let rows = (0..40).map(|n| (["a", "b", "c", "d"][n / 10], u32::try_from(n).expect("small")));
    let mut lanes = of(&rows.collect::<Vec<_>>());
    let mut noted = Vec::new();
    lanes.note(25, START, |row| noted.push(*row));
    lanes.release(START);
    assert_eq!(noted.len(), 25);
    lanes.note(ALL, START, |row| noted.push(*row));
    noted.sort_unstable();
    assert_eq!(noted, (0..40).collect::<Vec<_>>());
}

#[test]
fn a_lane_that_throttles_holds_up_no_other() {
    let rows = (0..200).map(|n| (if n < 100 { "hot" } else { "cold" }, n));
    let mut lanes = of(&rows.collect::<Vec<_>>());
    release(&mut lanes, ALL, START);
    let (mut now, mut cold) = (START, 0);
    while now < START + Duration::from_secs(2) {
        while let Some(queued) = lanes.next(now) {
            if queued.row < 100 {
                lanes.again(queued, false, now);
            } else {
                cold += 1;
                written(&mut lanes, &queued, now);
            }
        }
        now += Duration::from_millis(5);
    }
    assert_eq!(cold, 100);
}

#[test]
fn a_lane_that_answers_slowly_leaves_room() {
    let rows = (0..100).map(|n| ("a", n)).collect::<Vec<_>>();
    let mut lanes = of(&rows);
    release(&mut lanes, ALL, START);
    let late = START + Duration::from_mins(1);
    let under_way =
        (0..1_000_u32).filter(|n| lanes.next(late + Duration::from_secs(1) * *n).is_some());
    assert_eq!(under_way.count(), MAX_IN_FLIGHT);
}

/// A lane that had throttled was kept for ever.
#[test]
fn regression_lanes_that_had_throttled_were_never_dropped() {
    let mut lanes = of(&[("a", 1)]);
    release(&mut lanes, ALL, START);
    let row = lanes.next(START).expect("a row");
    lanes.again(row, false, START);
    let then = START + Duration::from_secs(2);
    let row = lanes.next(then).expect("a row");
    written(&mut lanes, &row, then);
    release(&mut lanes, ALL, then + Duration::from_secs(5));
    assert_eq!(lanes.by_key.len(), 1, "its pace may be needed again");
    release(&mut lanes, ALL, then + REST);
    assert_eq!(lanes.by_key.len(), 0);
}

/// What the table as a whole takes is shared by all lanes, however many there are.
#[test]
fn regression_each_lane_looked_for_the_limit_of_the_table_by_itself() {
    let mut lanes = Lanes::new(10_000, 1_000_000);
    for row in 0..1_000_u32 {
        lanes.push(queued(&format!("k{row}"), row), START);
    }
    release(&mut lanes, ALL, START);
    let row = lanes.next(START).expect("a row");
    lanes.again(row, true, START);
    let (mut now, mut sent) = (START, 0);
    while now < START + Duration::from_secs(1) {
        while let Some(queued) = lanes.next(now) {
            sent += 1;
            written(&mut lanes, &queued, now);
        }
        assert!(lanes.is_empty() || lanes.next_at() > Some(now), "it says when to go on");
        now += Duration::from_millis(5);
    }
    assert!((50..200).contains(&sent), "{sent}");
}

/// A row that is noted must not wait for a save that nothing asks for.
#[test]
fn lanes_ask_for_notes_when_no_row_may_go_and_not_while_all_is_under_way() {
    let rows = (0..100).map(|n| ("a", n)).collect::<Vec<_>>();
    let mut lanes = of(&rows);
    assert!(lanes.is_starved());
    release(&mut lanes, ALL, START);
    assert!(!lanes.is_starved());
    let late = START + Duration::from_mins(1);
    let under_way =
        (0..).zip(0..MAX_IN_FLIGHT).map(|(n, _)| lanes.next(late + Duration::from_secs(n)));
    assert_eq!(under_way.flatten().count(), MAX_IN_FLIGHT);
    assert!(lanes.next_at().is_none() && !lanes.is_starved());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is throttled, comes back or takes long, each row is written once, none comes before it was
    /// released, the bounds hold, and no lane goes twice while another is ready.
    #[test]
    fn every_row_comes_out_once(
        names in prop::collection::vec(0..6_u8, 1..300),
        fates in prop::collection::vec(any::<u8>(), 64),
        bound in 1..60_usize,
    ) {
        let mut lanes = Lanes::new(bound, 10 * bound);
        let mut input = names.iter().enumerate();
        let mut noted = BTreeSet::new();
        let mut done = Vec::new();
        let mut under_way = VecDeque::new();
        let (mut now, mut step) = (START, 0);
        let mut is_at_end = false;
        while !(is_at_end && lanes.is_empty()) {
            while lanes.has_room() && !is_at_end {
                match input.next() {
                    Some((row, name)) => lanes.push(queued(&format!("k{name}"), row), now),
                    None => is_at_end = true,
                }
            }
            prop_assert!(lanes.rows <= bound && lanes.bytes <= 10 * bound);
            lanes.note(7, now, |row| { noted.insert(*row); });
            lanes.release(now);
            let mut last = None;
            while let Some(queued) = lanes.next(now) {
                prop_assert!(noted.contains(&queued.row));
                let mut due = lanes.turns.iter().filter(|((at, _), _)| *at <= now);
                let is_alone = due.all(|(_, key)| *key == queued.lane);
                prop_assert!(last != Some(queued.lane.clone()) || is_alone);
                last = Some(queued.lane.clone());
                under_way.push_back(queued);
            }
            now += Duration::from_millis(3);
            for _ in 0..3 {
                let Some(queued) = under_way.pop_front() else { break };
                step += 1;
                match fates[step % fates.len()] % 8 {
                    5 => lanes.again(queued, false, now),
                    6 | 7 => under_way.push_back(queued),
                    _ => {
                        done.push(queued.row);
                        written(&mut lanes, &queued, now);
                    }
                }
            }
        }
        done.sort_unstable();
        prop_assert_eq!(done, (0..names.len()).collect::<Vec<_>>());
    }
}
