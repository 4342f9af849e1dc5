use std::collections::BTreeMap;

use dynashard_keys::{PartitionKey, Placement, Separator, ShardId};
use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};

use super::*;

const START: Duration = Duration::from_secs(100);
const SIZE: Size = Size { bytes: 10, units: 1.0 };
const ALL: usize = usize::MAX;

fn key(name: &str) -> PhysicalPartitionKey {
    let partition = PartitionKey::new(name).expect("a partition key");
    partition.at(ShardId::new(0), Placement::Xxh64, Separator::default())
}

fn of(rows: &[(&str, u32)]) -> LookAhead<u32> {
    let mut ahead = LookAhead::new(Bounds { rows: 1_000, bytes: 100_000 });
    for (name, row) in rows {
        ahead.push(key(name), *row, SIZE, START);
    }
    ahead
}

#[test]
fn lanes_take_turns() {
    let mut ahead = of(&[("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("c", 6)]);
    let mut order = Vec::new();
    let mut now = START;
    while !ahead.is_empty() {
        ahead.choose(ALL, |_| {});
        ahead.release(now);
        while let Some((id, row, size)) = ahead.next(now) {
            order.push(row);
            ahead.written(id, size, now);
        }
        now += Duration::from_millis(1);
    }
    assert_eq!(order, [1, 4, 5, 2, 6, 3]);
}

#[test]
fn a_row_goes_only_when_it_was_chosen_and_released() {
    let mut ahead = of(&[("a", 1)]);
    assert!(ahead.next(START).is_none());
    let mut chosen = Vec::new();
    ahead.choose(ALL, |row| chosen.push(*row));
    assert_eq!(chosen, [1]);
    assert!(ahead.next(START).is_none());
    ahead.release(START);
    assert!(ahead.next(START).is_some());
}

#[test]
fn no_more_is_chosen_than_asked_for_and_each_lane_in_its_turn() {
    let rows = (0..40).map(|n| (["a", "b", "c", "d"][n / 10], u32::try_from(n).expect("small")));
    let mut ahead = of(&rows.collect::<Vec<_>>());
    let mut chosen = Vec::new();
    ahead.choose(25, |row| chosen.push(*row));
    assert_eq!(chosen.len(), 25);
    ahead.choose(ALL, |row| chosen.push(*row));
    chosen.sort_unstable();
    assert_eq!(chosen, (0..40).collect::<Vec<_>>());
}

#[test]
fn a_lane_that_throttles_holds_up_no_other() {
    let rows = (0..200).map(|n| (if n < 100 { "hot" } else { "cold" }, n));
    let mut ahead = of(&rows.collect::<Vec<_>>());
    ahead.choose(ALL, |_| {});
    ahead.release(START);
    let (mut now, mut cold) = (START, 0);
    while now < START + Duration::from_secs(2) {
        while let Some((id, row, size)) = ahead.next(now) {
            if row < 100 {
                ahead.throttled(id, row, size, now);
            } else {
                cold += 1;
                ahead.written(id, size, now);
            }
        }
        now += Duration::from_millis(5);
    }
    assert_eq!(cold, 100);
}

#[test]
fn a_lane_that_answers_slowly_leaves_room() {
    let rows = (0..100).map(|n| ("a", n)).collect::<Vec<_>>();
    let mut ahead = of(&rows);
    ahead.choose(ALL, |_| {});
    ahead.release(START);
    let late = START + Duration::from_mins(1);
    let under_way =
        (0..1_000_u32).filter(|n| ahead.next(late + Duration::from_secs(1) * *n).is_some());
    assert_eq!(under_way.count(), MAX_IN_FLIGHT);
}

#[test]
fn rows_that_have_other_keys_by_now_change_lanes_at_once() {
    let rows = (0..100).map(|n| ("a", n)).collect::<Vec<_>>();
    let mut ahead = of(&rows);
    ahead.choose(10, |_| {});
    ahead.release(START);
    let (id, row, size) = ahead.next(START).expect("a row");
    assert_eq!(ahead.key(id), Some(&key("a")));
    let names = ["b", "c", "d", "e"];
    ahead.returned(id, row, size, |row| key(names[*row as usize % 4]), START);
    let (mut now, mut left) = (START, BTreeMap::new());
    while !ahead.is_empty() {
        ahead.choose(ALL, |_| {});
        ahead.release(now);
        while let Some((id, row, size)) = ahead.next(now) {
            left.insert(row, ahead.key(id).expect("a lane").clone());
            ahead.written(id, size, now);
        }
        now += Duration::from_millis(10);
    }
    assert!(now < START + Duration::from_millis(400), "at four times the pace: {now:?}");
    assert_eq!(left, (0..100).map(|n| (n, key(names[n as usize % 4]))).collect());
}

/// A lane that had throttled was kept for ever.
#[test]
fn regression_lanes_that_had_throttled_were_never_dropped() {
    let mut ahead = of(&[("a", 1)]);
    ahead.choose(ALL, |_| {});
    ahead.release(START);
    let (id, row, size) = ahead.next(START).expect("a row");
    ahead.throttled(id, row, size, START);
    let then = START + Duration::from_secs(2);
    let (id, _, size) = ahead.next(then).expect("a row");
    ahead.written(id, size, then);
    assert!(ahead.next(then + Duration::from_secs(5)).is_none());
    assert_eq!(ahead.lanes.len(), 1, "its pace may be needed again");
    assert!(ahead.next(then + REST).is_none());
    assert_eq!((ahead.lanes.len(), ahead.ids.len(), ahead.resting.len()), (0, 0, 0));
}

/// What the table as a whole takes is shared by all lanes, however many there are.
#[test]
fn regression_each_lane_looked_for_the_limit_of_the_table_by_itself() {
    let names = (0..1_000).map(|n| format!("k{n}")).collect::<Vec<_>>();
    let mut ahead = LookAhead::new(Bounds { rows: 10_000, bytes: 1_000_000 });
    for (name, row) in names.iter().zip(0_u32..) {
        ahead.push(key(name), row, SIZE, START);
    }
    ahead.choose(ALL, |_| {});
    ahead.release(START);
    let (id, row, size) = ahead.next(START).expect("a row");
    ahead.throttled_as_a_whole(id, row, size, START);
    let (mut now, mut sent) = (START, 0);
    while now < START + Duration::from_secs(1) {
        while let Some((id, _, size)) = ahead.next(now) {
            sent += 1;
            ahead.written(id, size, now);
        }
        assert!(ahead.is_empty() || ahead.next_at() > Some(now), "it says when to go on");
        now += Duration::from_millis(5);
    }
    assert!((50..200).contains(&sent), "{sent}");
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
        let mut ahead = LookAhead::new(Bounds { rows: bound, bytes: 10 * bound });
        let mut input = names.iter().enumerate();
        let mut released = BTreeSet::new();
        let mut written = Vec::new();
        let mut under_way = VecDeque::new();
        let (mut now, mut step) = (START, 0);
        let mut is_at_end = false;
        while !(is_at_end && ahead.is_empty()) {
            while ahead.has_room() && !is_at_end {
                match input.next() {
                    Some((row, name)) => ahead.push(key(&format!("k{name}")), row, SIZE, now),
                    None => is_at_end = true,
                }
            }
            prop_assert!(ahead.rows <= bound && ahead.bytes <= 10 * bound);
            ahead.choose(7, |row| { released.insert(*row); });
            ahead.release(now);
            let mut last = None;
            while let Some((id, row, size)) = ahead.next(now) {
                prop_assert!(released.contains(&row));
                prop_assert!(last != Some(id) || ahead.ready.iter().all(|other| *other == id));
                last = Some(id);
                under_way.push_back((id, row, size));
            }
            now += Duration::from_millis(3);
            for _ in 0..3 {
                let Some((id, row, size)) = under_way.pop_front() else { break };
                step += 1;
                match fates[step % fates.len()] % 8 {
                    0 => ahead.throttled(id, row, size, now),
                    1 => ahead.returned(id, row, size, |row| key(&format!("k{}", row % 4)), now),
                    2 => under_way.push_back((id, row, size)),
                    _ => {
                        written.push(row);
                        ahead.written(id, size, now);
                    }
                }
            }
        }
        written.sort_unstable();
        prop_assert_eq!(written, (0..names.len()).collect::<Vec<_>>());
    }
}
