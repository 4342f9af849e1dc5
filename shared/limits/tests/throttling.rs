//! Buckets, banks and counts, with time as an argument.

use std::num::NonZeroU32;
use std::time::Duration;

use dynashard_limits::Units;
use dynashard_limits::partition::{
    Counts, Demand, Kind, Limit, Limits, Partitions, Refusal, Resource, ThrottledKey, Throughput,
};

const TABLE: Resource<'static> = Resource::table("Flights");
const INDEX: Resource<'static> = Resource::index("Flights", "ByDay");

fn units_per_sec(units: u32) -> NonZeroU32 {
    NonZeroU32::new(units).expect("positive")
}

fn provisioned(units: u32) -> Throughput {
    Throughput::Provisioned { rcu: units_per_sec(units), wcu: units_per_sec(units) }
}

/// A table with partitions of 10 WCU and 20 RCU.
fn partitions(throughput: Throughput) -> Partitions {
    partitions_with(throughput, Limits::default().burst_secs)
}

/// A table with such partitions, where what is provisioned has no burst.
fn partitions_without_burst(throughput: Throughput) -> Partitions {
    partitions_with(throughput, 1)
}

fn partitions_with(throughput: Throughput, burst_secs: u32) -> Partitions {
    let mut partitions = Partitions::new(Limits {
        partition_wcu: units_per_sec(10),
        partition_rcu: units_per_sec(20),
        burst_secs,
        ..Limits::default()
    });
    partitions.set_table(Duration::ZERO, "Flights", throughput, [("ByDay", throughput)]);
    partitions
}

fn write(partition_key: &str, units: u64) -> Demand<'_> {
    Demand {
        resource: TABLE,
        partition_key,
        sort_key: None,
        kind: Kind::Write,
        units: Units::whole(units),
    }
}

fn read(partition_key: &str, units: u64) -> Demand<'_> {
    Demand { kind: Kind::Read, ..write(partition_key, units) }
}

fn index_write(partition_key: &str, units: u64) -> Demand<'_> {
    Demand { resource: INDEX, ..write(partition_key, units) }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// How many of these are admitted at once.
fn admitted(partitions: &mut Partitions, now: Duration, demand: Demand<'_>, at_most: u64) -> u64 {
    (0..at_most).take_while(|_| partitions.admit(now, &[demand]).is_ok()).count() as u64
}

fn limits_hit(refused: Result<(), Refusal>) -> Vec<(usize, Limit)> {
    let refusal = refused.expect_err("refused");
    refusal.hits().iter().map(|hit| (hit.demand, hit.limit)).collect()
}

#[test]
fn a_partition_takes_a_seconds_worth_and_then_refills_at_its_rate() {
    let mut partitions = partitions(Throughput::OnDemand);
    assert_eq!(admitted(&mut partitions, millis(0), write("a", 1), 99), 10);
    assert_eq!(admitted(&mut partitions, millis(99), write("a", 1), 99), 0);
    assert_eq!(admitted(&mut partitions, millis(100), write("a", 1), 99), 1);
    assert_eq!(admitted(&mut partitions, millis(550), write("a", 1), 99), 4);
    // Half a unit was left over and is not lost.
    assert_eq!(admitted(&mut partitions, millis(600), write("a", 1), 99), 1);
}

#[test]
fn an_idle_partition_saves_up_no_more_than_a_second() {
    let mut partitions = partitions(Throughput::OnDemand);
    assert_eq!(admitted(&mut partitions, Duration::from_hours(5), write("a", 1), 99), 10);
}

#[test]
fn half_units_count_exactly() {
    let mut partitions = partitions(Throughput::OnDemand);
    let eventual = Demand { units: Units::halves(1), ..read("a", 0) };
    assert_eq!(admitted(&mut partitions, millis(0), eventual, 99), 40);
    assert_eq!(admitted(&mut partitions, millis(25), eventual, 99), 1);
}

#[test]
fn reads_and_writes_are_metered_apart() {
    let mut partitions = partitions(Throughput::OnDemand);
    assert_eq!(admitted(&mut partitions, millis(0), write("a", 1), 99), 10);
    assert_eq!(admitted(&mut partitions, millis(0), read("a", 1), 99), 20);
}

#[test]
fn partitions_and_indexes_are_metered_apart() {
    let mut partitions = partitions(Throughput::OnDemand);
    assert_eq!(admitted(&mut partitions, millis(0), write("a", 1), 99), 10);
    assert_eq!(admitted(&mut partitions, millis(0), write("b", 1), 99), 10);
    assert_eq!(admitted(&mut partitions, millis(0), index_write("a", 1), 99), 10);
}

#[test]
fn the_keys_of_one_partition_share_its_limit() {
    let mut partitions = Partitions::new(Limits {
        partitions: units_per_sec(1),
        partition_wcu: units_per_sec(10),
        ..Limits::default()
    });
    partitions.set_table(Duration::ZERO, "Flights", Throughput::OnDemand, []);
    assert_eq!(admitted(&mut partitions, millis(0), write("a", 1), 6), 6);
    assert_eq!(admitted(&mut partitions, millis(0), write("b", 1), 99), 4);
    let refused = partitions.admit(millis(0), &[write("b", 1)]);
    assert_eq!(limits_hit(refused), [(0, Limit::KeyRange)], "shared");
}

#[test]
fn a_cost_above_the_limit_passes_when_the_partition_is_full_and_is_paid_later() {
    let mut partitions = partitions(Throughput::OnDemand);
    partitions.admit(millis(0), &[write("a", 1)]).expect("enough");
    // 25 units never are there at once, and the partition is not full now.
    assert_eq!(limits_hit(partitions.admit(millis(0), &[write("a", 25)])), [(0, Limit::KeyRange)]);
    partitions.admit(millis(100), &[write("a", 25)]).expect("full");
    // 15 units of debt take a second and a half.
    assert_eq!(admitted(&mut partitions, millis(1_599), write("a", 1), 99), 0);
    assert_eq!(admitted(&mut partitions, millis(1_700), write("a", 1), 99), 1);
}

#[test]
fn what_is_charged_later_may_go_into_debt() {
    let mut partitions = partitions(Throughput::OnDemand);
    let minimum = Demand { units: Units::halves(1), ..read("a", 0) };
    partitions.admit(millis(0), &[minimum]).expect("full");
    let cost = Units::whole(60);
    partitions
        .charge(millis(0), &[Demand { units: cost.saturating_sub(minimum.units), ..minimum }]);
    assert_eq!(admitted(&mut partitions, millis(2_000), minimum, 99), 0);
    assert_eq!(admitted(&mut partitions, millis(2_025), minimum, 99), 1);
    let counts = partitions.statistics().counts(TABLE, Kind::Read, 0..1);
    assert_eq!((counts.consumed, counts.admitted), (cost, 1));
}

#[test]
fn what_is_refunded_can_be_spent_again_and_was_not_consumed() {
    let mut partitions = partitions(provisioned(10));
    partitions.admit(millis(900), &[write("a", 9), index_write("day", 4)]).expect("full");
    partitions.refund(millis(1_000), millis(900), &[write("a", 7), index_write("day", 4)]);
    // A tenth of a second brought one unit, beside the one that was left.
    assert_eq!(admitted(&mut partitions, millis(1_000), write("a", 1), 99), 9);
    let counts = partitions.statistics().counts(TABLE, Kind::Write, 0..1);
    assert_eq!((counts.consumed, counts.admitted), (Units::whole(2), 1));
    assert_eq!(partitions.statistics().counts(INDEX, Kind::Write, 0..2).consumed, Units::ZERO);
}

#[test]
fn a_refund_never_fills_a_limit_beyond_its_size() {
    let mut partitions = partitions(Throughput::OnDemand);
    partitions.admit(millis(0), &[write("a", 8)]).expect("full");
    partitions.refund(millis(900), millis(0), &[write("a", 8)]);
    assert_eq!(admitted(&mut partitions, millis(900), write("a", 1), 99), 10);
}

#[test]
fn a_request_passes_as_a_whole_or_not_at_all() {
    let mut partitions = partitions(Throughput::OnDemand);
    partitions.admit(millis(0), &[write("b", 8)]).expect("enough");
    let transaction = [write("a", 10), write("b", 2), write("b", 2), write("c", 10)];
    assert_eq!(limits_hit(partitions.admit(millis(0), &transaction)), [(2, Limit::KeyRange)]);
    // Nothing of it was taken.
    for (key, left) in [("a", 10), ("b", 2), ("c", 10)] {
        assert_eq!(admitted(&mut partitions, millis(0), write(key, 1), 99), left, "{key}");
    }
}

#[test]
fn a_transaction_larger_than_a_partition_passes_when_that_is_full() {
    let mut partitions = partitions(Throughput::OnDemand);
    let transaction = [write("a", 8); 4];
    partitions.admit(millis(0), &transaction).expect("full");
    assert_eq!(
        limits_hit(partitions.admit(millis(3_000), &transaction)),
        [(1, Limit::KeyRange), (2, Limit::KeyRange), (3, Limit::KeyRange)],
        "8 of 10 units are there: the first action fits"
    );
    partitions.admit(millis(3_200), &transaction).expect("full again");
}

#[test]
fn a_table_without_a_name_is_neither_limited_nor_counted() {
    let mut partitions = partitions(Throughput::OnDemand);
    for unknown in [Resource::table("Trains"), Resource::index("Flights", "ByNight")] {
        let demand = Demand { resource: unknown, ..write("a", 1) };
        assert_eq!(admitted(&mut partitions, millis(0), demand, 99), 99);
        partitions.charge(millis(0), &[demand]);
        assert_eq!(partitions.statistics().counts(unknown, Kind::Write, 0..1), Counts::default());
    }
}

#[test]
fn nothing_is_never_refused() {
    let mut partitions = partitions(Throughput::OnDemand);
    partitions.charge(millis(0), &[write("a", 1_000)]);
    partitions.admit(millis(0), &[write("a", 0)]).expect("nothing");
    partitions.admit(millis(0), &[]).expect("nothing");
    let refused = partitions.admit(millis(0), &[write("a", 0), write("a", 1)]);
    assert_eq!(limits_hit(refused), [(1, Limit::KeyRange)]);
}

#[test]
fn a_provisioned_table_is_limited_beside_its_partitions() {
    let mut partitions = partitions_without_burst(provisioned(15));
    assert_eq!(admitted(&mut partitions, millis(0), write("a", 1), 99), 10);
    assert_eq!(admitted(&mut partitions, millis(0), write("b", 1), 99), 5);
    let refusal = partitions.admit(millis(0), &[write("b", 1)]).expect_err("15 units are gone");
    assert_eq!(refusal.first().reason, "TableWriteProvisionedThroughputExceeded");
    // Both limits are exhausted for `a`; the table's is met first.
    assert_eq!(
        limits_hit(partitions.admit(millis(0), &[write("a", 1)])),
        [(0, Limit::Provisioned)]
    );
    // The index has its own.
    assert_eq!(admitted(&mut partitions, millis(0), index_write("b", 1), 99), 10);
}

#[test]
fn unused_capacity_is_banked_for_five_minutes_and_lifts_no_partition() {
    let mut partitions = partitions(provisioned(5));
    let after = Duration::from_hours(1);
    // 5 units x 300 seconds are there, yet one partition gives 10.
    assert_eq!(admitted(&mut partitions, after, write("hot", 1), 99), 10);
    let refusal = partitions.admit(after, &[write("hot", 1)]).expect_err("hot");
    assert_eq!(refusal.first().limit, Limit::KeyRange);
    let keys: Vec<_> = (0..300).map(|key| key.to_string()).collect();
    let spread: u64 =
        keys.iter().map(|key| admitted(&mut partitions, after, write(key, 1), 9)).sum();
    assert_eq!(spread, 1_490);
    let refusal = partitions.admit(after, &[write("cold", 1)]).expect_err("spent");
    assert_eq!(refusal.first().limit, Limit::Provisioned);
}

/// AWS re:Post, "How does DynamoDB handle spiky workloads in short intervals?": 150 RCU that were
/// idle for five minutes sustain 200 for 45,000 / (200 - 150) = 900 seconds.
#[test]
fn the_bank_lasts_as_long_as_aws_says() {
    let mut partitions = Partitions::new(Limits::default());
    partitions.set_table(Duration::ZERO, "Flights", provisioned(150), []);
    let begin = Duration::from_mins(5);
    let sustained = (0..2_000)
        .take_while(|second| {
            let now = begin + Duration::from_secs(*second);
            partitions.admit(now, &[read("a", 200)]).is_ok()
        })
        .count();
    // 900 seconds from the first request on, whose capacity is spent at once, at second 0.
    assert!((897..=900).contains(&sustained), "{sustained}");
}

/// DynamoDB lets a new table spend its 300 seconds of burst at once.
#[test]
fn regression_a_new_provisioned_table_begins_with_a_full_bank() {
    let mut partitions = partitions(provisioned(5));
    let keys: Vec<_> = (0..300).map(|key| key.to_string()).collect();
    let spread: u64 =
        keys.iter().map(|key| admitted(&mut partitions, millis(0), write(key, 1), 9)).sum();
    assert_eq!(spread, 1_500);
    let refusal = partitions.admit(millis(0), &[write("more", 1)]).expect_err("spent");
    assert_eq!(refusal.first().limit, Limit::Provisioned);
}

#[test]
fn where_there_is_room_for_all_it_is_taken_and_otherwise_nothing_happens() {
    let mut partitions = partitions(Throughput::OnDemand);
    let now = millis(0);
    assert!(partitions.admit_if_room(now, &[write("a", 4), write("a", 4)]));
    assert!(!partitions.admit_if_room(now, &[write("b", 1), write("a", 3)]), "2 units are left");
    assert!(!partitions.admit_if_room(now, &[write("c", 11)]), "it would be in debt");
    let counts = partitions.statistics().counts(TABLE, Kind::Write, 0..1);
    assert_eq!((counts.consumed, counts.admitted), (Units::whole(8), 2));
    assert_eq!(counts.throttles(), 0);
    assert_eq!(admitted(&mut partitions, now, write("b", 1), 99), 10, "it was left alone");
    partitions.admit(now, &[write("c", 11)]).expect("a full partition takes what is larger");
}

/// As AWS's new table on demand: however many partitions its keys are spread over, the whole takes no more.
#[test]
fn a_table_on_demand_that_is_not_warm_throttles_though_its_partitions_have_room() {
    let limits = Limits {
        partition_wcu: units_per_sec(10),
        warm_wcu: Some(units_per_sec(25)),
        ..Limits::default()
    };
    assert_eq!(limits.warm_units(Kind::Write), 25);
    assert_eq!(limits.warm_units(Kind::Read), 4_096 * 3_000, "what its partitions take");
    let mut partitions = Partitions::new(limits);
    let on_demand = Throughput::OnDemand;
    partitions.set_table(millis(0), "Flights", on_demand, [("ByDay", on_demand)]);
    let spread = |partitions: &mut Partitions, now| {
        let keys: Vec<_> = (0..99).map(|key| key.to_string()).collect();
        keys.iter().map(|key| admitted(partitions, now, write(key, 1), 1)).sum::<u64>()
    };
    assert_eq!(spread(&mut partitions, millis(0)), 25);
    let now = Duration::from_mins(5);
    assert_eq!(spread(&mut partitions, now), 25, "it saves nothing up");
    let refusal = partitions.admit(now, &[write("x", 1)]).expect_err("the whole is used up");
    assert_eq!(refusal.first().reason, "TableWriteKeyRangeThroughputExceeded");
    let throttled =
        partitions.statistics().throttled_partition_keys(TABLE, &[Kind::Write], 300..301, 99);
    assert!(throttled.iter().any(|(key, _)| key.partition_key == "x"), "{throttled:?}");
    assert_eq!(admitted(&mut partitions, now, index_write("x", 1), 99), 10, "its own partition's");
    assert_eq!(admitted(&mut partitions, now, read("x", 1), 99), 99, "reads are metered alone");

    partitions.set_table(now, "Flights", provisioned(90), []);
    partitions.admit(now, &[write("y", 1)]).expect("what is provisioned is warm");
    partitions.set_table(now, "Flights", on_demand, []);
    assert_eq!(spread(&mut partitions, now + Duration::from_secs(1)), 25);
}

#[test]
fn limits_that_are_not_enforced_refuse_nothing_and_count_everything() {
    let mut partitions = Partitions::new(Limits {
        partition_wcu: units_per_sec(1),
        are_enforced: false,
        ..Limits::default()
    });
    partitions.set_table(millis(0), "Flights", provisioned(1), []);
    for _ in 0..1_000 {
        partitions.admit(millis(0), &[write("a", 1)]).expect("never refused");
        assert!(partitions.admit_if_room(millis(0), &[write("a", 1)]));
    }
    let counts = partitions.statistics().counts(TABLE, Kind::Write, 0..1);
    assert_eq!((counts.consumed, counts.throttles()), (Units::whole(2_000), 0));
}

#[test]
fn update_table_keeps_the_bank_and_what_partitions_spent() {
    let mut partitions = partitions(provisioned(5));
    let after = Duration::from_secs(100);
    partitions.admit(after, &[write("a", 10)]).expect("banked");
    partitions.set_table(after, "Flights", provisioned(1), []);
    // 490 units were left, of which 300 x 1 fit.
    let keys: Vec<_> = (0..99).map(|key| key.to_string()).collect();
    let spread: u64 =
        keys.iter().map(|key| admitted(&mut partitions, after, write(key, 1), 9)).sum();
    assert_eq!(spread, 300);
    partitions.set_table(after, "Flights", Throughput::OnDemand, []);
    assert_eq!(admitted(&mut partitions, after, write("a", 1), 99), 0, "its partition is empty");
    assert_eq!(admitted(&mut partitions, after, write("z", 1), 99), 10);
    let gone = Demand { units: Units::whole(999), ..index_write("a", 0) };
    partitions.admit(after, &[gone]).expect("an index that is gone limits nothing");
}

#[test]
fn an_index_without_capacity_throttles_the_writes_of_its_table() {
    let mut partitions = partitions(Throughput::OnDemand);
    partitions.charge(millis(0), &[index_write("2013-01-01", 10)]);
    let put = [write("a", 1), index_write("2013-01-01", 1)];
    let refusal = partitions.admit(millis(0), &put).expect_err("the index is hot");
    assert_eq!(refusal.hits().len(), 1);
    let hit = refusal.first();
    assert_eq!(hit.reason, "IndexWriteKeyRangeThroughputExceeded");
    assert_eq!((hit.demand, put[hit.demand].resource), (1, INDEX));
    assert_eq!(refusal.to_string(), "IndexWriteKeyRangeThroughputExceeded");
    assert_eq!(partitions.statistics().counts(TABLE, Kind::Write, 0..1), Counts::default());
    assert_eq!(partitions.statistics().counts(INDEX, Kind::Write, 0..1).throttles(), 1);
}

#[test]
fn every_reason_is_one_of_awss() {
    for (resource, place) in [(TABLE, "Table"), (INDEX, "Index")] {
        for (kind, access) in [(Kind::Read, "Read"), (Kind::Write, "Write")] {
            for (throughput, limit) in [
                (Throughput::OnDemand, "KeyRangeThroughputExceeded"),
                (provisioned(1), "ProvisionedThroughputExceeded"),
            ] {
                let mut partitions = partitions_without_burst(throughput);
                let demand = Demand { resource, kind, ..write("a", 1) };
                partitions.charge(millis(0), &[Demand { units: Units::whole(99), ..demand }]);
                let refusal = partitions.admit(millis(0), &[demand]).expect_err("in debt");
                assert_eq!(refusal.first().reason, format!("{place}{access}{limit}"));
            }
        }
    }
}

#[test]
fn time_that_stands_still_or_goes_back_refills_nothing() {
    let mut partitions = partitions(Throughput::OnDemand);
    let now = Duration::from_secs(10);
    assert_eq!(admitted(&mut partitions, now, write("a", 1), 99), 10);
    assert_eq!(admitted(&mut partitions, now, write("a", 1), 99), 0);
    assert_eq!(admitted(&mut partitions, Duration::ZERO, write("a", 1), 99), 0);
    // Neither does coming forward again to where it was.
    assert_eq!(admitted(&mut partitions, now, write("a", 1), 99), 0);
    assert_eq!(admitted(&mut partitions, now + millis(100), write("a", 1), 99), 1);
    // What came from the past is counted where time stood.
    assert_eq!(partitions.statistics().counts(TABLE, Kind::Write, 0..10), Counts::default());
    assert_eq!(partitions.statistics().counts(TABLE, Kind::Write, 10..11).admitted, 11);
}

#[test]
fn counts_are_kept_by_the_second() {
    let mut partitions = partitions_without_burst(provisioned(12));
    let at = Duration::from_secs;
    assert_eq!(admitted(&mut partitions, at(0), write("a", 5), 99), 2);
    assert_eq!(admitted(&mut partitions, at(0), write("b", 3), 99), 0);
    assert_eq!(admitted(&mut partitions, at(2), write("a", 10), 99), 1);
    assert_eq!(admitted(&mut partitions, at(2), write("a", 1), 99), 0);
    let counts = |seconds| partitions.statistics().counts(TABLE, Kind::Write, seconds);
    let first = Counts {
        consumed: Units::whole(10),
        admitted: 2,
        key_range_throttles: 0,
        provisioned_throttles: 2,
    };
    let third = Counts {
        consumed: Units::whole(10),
        admitted: 1,
        key_range_throttles: 1,
        provisioned_throttles: 1,
    };
    assert_eq!(counts(0..1), first);
    assert_eq!(counts(1..2), Counts::default());
    assert_eq!(counts(0..3).throttles(), 4);
    assert_eq!(counts(0..3).consumed, Units::whole(20));
    let seconds: Vec<_> =
        partitions.statistics().per_second(TABLE, Kind::Write, 0..u64::MAX).collect();
    assert_eq!(seconds, [(0, first), (2, third)]);
    // Nothing was read, and no range is wrong.
    assert_eq!(partitions.statistics().counts(TABLE, Kind::Read, 0..3), Counts::default());
    #[expect(clippy::reversed_empty_ranges, reason = "callers subtract times")]
    let reversed = 3..0;
    assert_eq!(partitions.statistics().counts(TABLE, Kind::Write, reversed), Counts::default());
}

#[test]
fn old_counts_and_keys_go() {
    let mut partitions = partitions(Throughput::OnDemand);
    let throttle = |partitions: &mut Partitions, second| {
        partitions.charge(Duration::from_secs(second), &[write("a", 9_999)]);
        partitions.admit(Duration::from_secs(second), &[write("a", 1)]).expect_err("in debt");
    };
    let keys = |partitions: &Partitions| {
        let keys =
            partitions.statistics().throttled_partition_keys(TABLE, &[Kind::Write], 0..u64::MAX, 9);
        keys.iter().map(|(_, throttles)| throttles).sum::<u64>()
    };
    let throttles = |partitions: &Partitions| {
        partitions.statistics().counts(TABLE, Kind::Write, 0..u64::MAX).throttles()
    };
    throttle(&mut partitions, 0);
    throttle(&mut partitions, Partitions::KEY_HISTORY_SECS - 1);
    assert_eq!((keys(&partitions), throttles(&partitions)), (2, 2));
    throttle(&mut partitions, Partitions::KEY_HISTORY_SECS);
    assert_eq!((keys(&partitions), throttles(&partitions)), (2, 3));
    throttle(&mut partitions, Partitions::COUNT_HISTORY_SECS);
    assert_eq!((keys(&partitions), throttles(&partitions)), (1, 3));
}

fn key(partition_key: &str, sort_key: Option<&str>) -> ThrottledKey {
    ThrottledKey { partition_key: partition_key.to_owned(), sort_key: sort_key.map(str::to_owned) }
}

#[test]
fn throttled_keys_are_reported_most_throttled_first() {
    let mut partitions = partitions(Throughput::OnDemand);
    partitions.charge(millis(0), &[write("a", 999), write("b", 999), read("b", 999)]);
    let mut throttle = |second: u64, demand: Demand<'_>| {
        partitions.admit(Duration::from_secs(second), &[demand]).expect_err("in debt");
    };
    let item =
        |partition_key, sort_key| Demand { sort_key: Some(sort_key), ..write(partition_key, 1) };
    throttle(0, item("a", "1"));
    throttle(1, item("b", "1"));
    throttle(1, item("b", "2"));
    throttle(2, item("b", "2"));
    throttle(2, write("a", 1));
    throttle(2, read("b", 1));
    let partition_keys = |kinds: &[Kind], seconds, limit| {
        partitions.statistics().throttled_partition_keys(TABLE, kinds, seconds, limit)
    };
    let writes = [Kind::Write];
    assert_eq!(partition_keys(&writes, 0..3, 9), [(key("b", None), 3), (key("a", None), 2)]);
    assert_eq!(partition_keys(&writes, 0..3, 1), [(key("b", None), 3)]);
    assert_eq!(partition_keys(&writes, 0..1, 9), [(key("a", None), 1)]);
    assert_eq!(
        partition_keys(&[Kind::Read, Kind::Write], 2..3, 9),
        [(key("b", None), 2), (key("a", None), 1)]
    );
    assert_eq!(
        partitions.statistics().throttled_items(TABLE, &writes, 0..3, 9),
        [(key("b", Some("2")), 2), (key("a", Some("1")), 1), (key("b", Some("1")), 1)]
    );
}

#[test]
fn a_hot_key_is_found_among_more_keys_than_are_kept() {
    let mut partitions = partitions(provisioned(1));
    partitions.charge(millis(0), &[write("any", 99_999)]);
    let cold: Vec<_> = (0..1_000).map(|key| format!("cold-{key}")).collect();
    for (number, cold) in cold.iter().enumerate() {
        let _ = partitions.admit(millis(0), &[write(cold, 1)]);
        // The hot key comes late, when all places are taken.
        if number >= 500 {
            let _ = partitions.admit(millis(0), &[write("hot", 1)]);
        }
    }
    let keys =
        partitions.statistics().throttled_partition_keys(TABLE, &[Kind::Write], 0..1, usize::MAX);
    assert_eq!(keys.len(), Partitions::KEYS_PER_SECOND);
    let (hottest, throttles) = &keys[0];
    assert_eq!(hottest, &key("hot", None));
    let too_many = 1_500 / Partitions::KEYS_PER_SECOND as u64;
    assert!((500..=500 + too_many).contains(throttles), "{throttles}");
    // No throttle is lost: what the keys that gave way had counted, their successors count.
    assert_eq!(keys.iter().map(|(_, throttles)| throttles).sum::<u64>(), 1_500);
    assert_eq!(partitions.statistics().counts(TABLE, Kind::Write, 0..1).throttles(), 1_500);
}

#[test]
fn a_table_that_is_made_again_remembers_nothing() {
    let mut partitions = partitions(Throughput::OnDemand);
    assert_eq!(admitted(&mut partitions, millis(0), write("a", 1), 99), 10);
    partitions.remove_table("Flights");
    assert_eq!(partitions.statistics().counts(TABLE, Kind::Write, 0..1), Counts::default());
    partitions.set_table(millis(0), "Flights", Throughput::OnDemand, []);
    assert_eq!(admitted(&mut partitions, millis(0), write("a", 1), 99), 10);
}

#[test]
fn tables_and_indexes_are_listed_with_the_throughput_that_they_had_at_the_time() {
    let mut partitions = partitions(Throughput::OnDemand);
    partitions.set_table(Duration::from_secs(10), "Flights", provisioned(5), []);
    partitions.set_table(Duration::from_secs(20), "Airports", provisioned(7), []);
    let resources: Vec<_> = partitions.resources().collect();
    assert_eq!(resources, [Resource::table("Airports"), TABLE], "the index is gone");
    let at = |second| partitions.statistics().throughput(TABLE, second);
    assert_eq!((at(0), at(9)), (Some(Throughput::OnDemand), Some(Throughput::OnDemand)));
    assert_eq!((at(10), at(u64::MAX)), (Some(provisioned(5)), Some(provisioned(5))));
    assert_eq!(partitions.statistics().throughput(Resource::table("Airports"), 19), None);
    assert_eq!(partitions.statistics().throughput(INDEX, 20), None);
}

#[test]
fn an_old_throughput_is_kept_while_it_may_be_asked_for() {
    let mut partitions = partitions(Throughput::OnDemand);
    let history = Partitions::COUNT_HISTORY_SECS;
    for (second, units) in [(1, 1), (2, 2), (history + 2, 3)] {
        partitions.set_table(Duration::from_secs(second), "Flights", provisioned(units), []);
    }
    let at = |second| partitions.statistics().throughput(TABLE, second);
    assert_eq!((at(0), at(1)), (None, None), "nobody asks for these any more");
    assert_eq!((at(2), at(history + 1)), (Some(provisioned(2)), Some(provisioned(2))));
    assert_eq!(at(history + 2), Some(provisioned(3)));
}
