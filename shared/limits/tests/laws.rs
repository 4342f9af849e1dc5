//! What holds for every sequence of requests.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use dynashard_limits::Units;
use dynashard_limits::partition::{Demand, Kind, Limits, Partitions, Resource, Throughput};
use proptest::prelude::*;

const PARTITION_WCU: u32 = 50;
const PARTITIONS: u32 = 4;
const PROVISIONED_WCU: u32 = 80;
const BURST_SECS: u32 = 3;

/// A write of some half units to a key, this long after the one before.
#[derive(Debug, Clone)]
struct Step {
    after: Duration,
    key: u8,
    halves: u64,
    is_charge: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Mostly small and close together, so that limits are met; some larger than any limit.
    let halves = prop_oneof![8 => 1..20_u64, 1 => 60..400_u64];
    let after_micros = prop_oneof![6 => 0..20_000_u64, 1 => 0..3_000_000_u64];
    let step = (after_micros, any::<u8>(), halves, prop::bool::weighted(0.05)).prop_map(
        |(after_micros, key, halves, is_charge)| Step {
            after: Duration::from_micros(after_micros),
            key,
            halves,
            is_charge,
        },
    );
    prop::collection::vec(step, 1..300)
}

fn nonzero(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("positive")
}

fn limits() -> Limits {
    Limits {
        partitions: nonzero(PARTITIONS),
        partition_wcu: nonzero(PARTITION_WCU),
        burst_secs: BURST_SECS,
        ..Limits::default()
    }
}

fn partitions(throughput: Throughput) -> Partitions {
    partitions_with(limits(), throughput)
}

fn partitions_with(limits: Limits, throughput: Throughput) -> Partitions {
    let mut partitions = Partitions::new(limits);
    partitions.set_table(Duration::ZERO, "T", throughput, []);
    partitions
}

const PROVISIONED: Throughput = Throughput::Provisioned {
    rcu: NonZeroU32::MIN,
    wcu: NonZeroU32::new(PROVISIONED_WCU).expect("positive"),
};

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Outcome {
    at: Duration,
    partition: u32,
    halves: u64,
    is_admitted: bool,
}

fn run(partitions: &mut Partitions, steps: &[Step]) -> Vec<Outcome> {
    let mut at = Duration::ZERO;
    let mut outcomes = Vec::new();
    for step in steps {
        at += step.after;
        let key = step.key.to_string();
        let demand = Demand {
            resource: Resource::table("T"),
            partition_key: &key,
            sort_key: None,
            kind: Kind::Write,
            units: Units::halves(step.halves),
        };
        if step.is_charge {
            partitions.charge(at, &[demand]);
            continue;
        }
        let is_admitted = partitions.admit(at, &[demand]).is_ok();
        let partition = limits().partition_of(&key);
        outcomes.push(Outcome { at, partition, halves: step.halves, is_admitted });
    }
    outcomes
}

/// In no interval is more admitted than comes in at `units_per_sec` and was held at its begin, save
/// that its last request may be larger than all that can be held.
fn obeys(admitted: &[Outcome], units_per_sec: u32, hold_secs: u32) -> Result<(), TestCaseError> {
    let halves_per_sec = u128::from(units_per_sec) * 2;
    let held = halves_per_sec * u128::from(hold_secs);
    for (begin, first) in admitted.iter().enumerate() {
        let mut total = 0;
        for last in &admitted[begin..] {
            total += u128::from(last.halves);
            let elapsed = last.at.saturating_sub(first.at);
            let came_in = elapsed.as_nanos() * halves_per_sec / 1_000_000_000;
            prop_assert!(total <= came_in + 1 + held.max(last.halves.into()), "{first:?} {last:?}");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_partition_admits_more_than_its_rate_and_a_second(steps in steps()) {
        let outcomes = run(&mut partitions(Throughput::OnDemand), &steps);
        for partition in 0..PARTITIONS {
            let admitted: Vec<_> = outcomes
                .iter()
                .copied()
                .filter(|outcome| outcome.is_admitted && outcome.partition == partition)
                .collect();
            obeys(&admitted, PARTITION_WCU, 1)?;
        }
    }

    #[test]
    fn no_bank_lifts_a_partition_or_is_larger_than_itself(steps in steps()) {
        let outcomes = run(&mut partitions(PROVISIONED), &steps);
        let admitted: Vec<_> =
            outcomes.iter().copied().filter(|outcome| outcome.is_admitted).collect();
        obeys(&admitted, PROVISIONED_WCU, BURST_SECS)?;
        for partition in 0..PARTITIONS {
            let of_partition: Vec<_> =
                admitted.iter().copied().filter(|outcome| outcome.partition == partition).collect();
            obeys(&of_partition, PARTITION_WCU, 1)?;
        }
    }

    /// Partitions are forgotten when they are full, and split when they are hot, and time passes a second. A run that asks
    /// about every moment in between must come to the same.
    #[test]
    fn looking_changes_nothing(steps in steps(), split_after_secs in prop::option::of(1..3_u32)) {
        let split_after_secs = split_after_secs.map(nonzero);
        let partitions =
            || partitions_with(Limits { split_after_secs, ..limits() }, Throughput::OnDemand);
        let mut watched = partitions();
        let plain = run(&mut partitions(), &steps);
        let mut at = Duration::ZERO;
        let mut outcomes = Vec::new();
        for step in &steps {
            for part in 1..4 {
                watched.charge(at + step.after * part / 4, &[]);
            }
            let arrival = Step { after: at + step.after, ..step.clone() };
            outcomes.extend(run(&mut watched, &[arrival]));
            at += step.after;
        }
        prop_assert_eq!(outcomes, plain);
    }

    #[test]
    fn counts_add_up(steps in steps()) {
        let mut partitions = partitions(PROVISIONED);
        let outcomes = run(&mut partitions, &steps);
        let counts = partitions.statistics().counts(Resource::table("T"), Kind::Write, 0..u64::MAX);
        let charged: u64 =
            steps.iter().filter(|step| step.is_charge).map(|step| step.halves).sum();
        let admitted = || outcomes.iter().filter(|outcome| outcome.is_admitted);
        let consumed = charged + admitted().map(|outcome| outcome.halves).sum::<u64>();
        prop_assert_eq!(counts.consumed, Units::halves(consumed));
        prop_assert_eq!(counts.admitted, admitted().count() as u64);
        prop_assert_eq!(counts.throttles() + counts.admitted, outcomes.len() as u64);
        let by_key = partitions.statistics().throttled_partition_keys(
            Resource::table("T"),
            &[Kind::Write],
            0..u64::MAX,
            usize::MAX,
        );
        let by_key: u64 = by_key.iter().map(|(_, throttles)| throttles).sum();
        prop_assert_eq!(by_key, counts.throttles());
    }

    /// A refused request leaves no trace in what is admitted afterwards.
    #[test]
    fn a_refusal_takes_nothing(steps in steps()) {
        let all = run(&mut partitions(PROVISIONED), &steps);
        let mut without_refused = partitions(PROVISIONED);
        let mut at = Duration::ZERO;
        let mut verdicts = all.iter();
        for step in &steps {
            at += step.after;
            let arrival = Step { after: at, ..step.clone() };
            let is_refused =
                !step.is_charge && !verdicts.next().expect("one for each").is_admitted;
            if !is_refused {
                let again = run(&mut without_refused, &[arrival]);
                prop_assert!(again.iter().all(|outcome| outcome.is_admitted));
            }
        }
    }

    #[test]
    fn every_key_lies_in_a_partition(key in ".*", partitions in 1..=u32::MAX) {
        let limits = Limits { partitions: nonzero(partitions), ..Limits::default() };
        prop_assert!(limits.partition_of(&key) < partitions);
    }
}

/// Nothing is stored by range, but a demonstration that collides today should collide tomorrow.
#[test]
fn a_key_stays_in_its_range() {
    let limits = Limits::default();
    let ranges = ["", "JFK#0", "JFK#1", "LGA#0"].map(|key| limits.partition_of(key));
    // From an independent implementation of XXH64, in Python.
    assert_eq!(ranges, [3_763, 3_034, 2_737, 2_133]);
}

#[test]
fn the_ranges_are_balanced() {
    let limits = Limits { partitions: nonzero(64), ..Limits::default() };
    let mut keys_of = BTreeMap::<u32, u32>::new();
    for key in 0..64_000 {
        *keys_of.entry(limits.partition_of(&format!("user-{key}"))).or_default() += 1;
    }
    assert_eq!(keys_of.len(), 64);
    // A thousand each; five standard deviations are 157.
    for (partition, keys) in keys_of {
        assert!((843..=1_157).contains(&keys), "partition {partition} has {keys}");
    }
}

/// Sharding stands on this: the shards of one collection are keys like any others.
#[test]
fn the_shards_of_a_collection_spread_over_the_ranges() {
    let limits = Limits::default();
    let mut shared = 0;
    for collection in 0..100 {
        let mut seen = BTreeMap::<u32, u32>::new();
        for shard in 0..64 {
            *seen
                .entry(limits.partition_of(&format!("airport-{collection}#{shard}")))
                .or_default() += 1;
        }
        shared += 64 - seen.len();
    }
    // 64 random keys in 4,096 ranges share about 0.5: 64 * 63 / 2 / 4,096.
    assert!((20..=80).contains(&shared), "{shared} of 6,400");
}
