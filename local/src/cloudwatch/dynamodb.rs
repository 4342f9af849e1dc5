//! The metrics in the namespace `AWS/DynamoDB`, straight from what the endpoint counts (Developer
//! Guide: "DynamoDB metrics and dimensions").
//!
//! As in DynamoDB, a metric of consumption or of throttles has no values while nothing happens, and
//! the metrics of a table do not contain those of its global secondary indexes.
//!
//! # What differs from DynamoDB
//!
//! Values are there at once and by the second, where DynamoDB publishes them by the minute. Consumed
//! units are counted by the second and not by the request, so their minimum and maximum are the
//! least and the greatest mean of a second's requests.

use std::collections::BTreeMap;
use std::ops::Range;

use dynashard_limits::partition::{Counts, Kind, Partitions, Resource, Throughput};

use super::statistics::StatisticSet;
use crate::dynamodb::endpoint::Observed;
use crate::plan::MetricId;

/// The namespace of DynamoDB's metrics.
pub(crate) const NAMESPACE: &str = "AWS/DynamoDB";

/// The metrics of the tables that had a value since the epoch second `first`, until `now`.
pub(super) fn list(observed: &Observed, first: u64, now: u64) -> Vec<MetricId> {
    let mut metrics = observed.partitions(|partitions| {
        let resources = partitions.resources();
        let all =
            resources.flat_map(|resource| MEASURES.iter().map(move |measure| (resource, measure)));
        all.filter(|(resource, measure)| {
            measure.read(partitions, *resource, first..now + 1).is_some()
        })
        .map(|(resource, measure)| id(measure.0, resource_dimensions(resource)))
        .collect::<Vec<_>>()
    });
    let throttled = observed.throttled_requests.since(first);
    metrics.extend(throttled.into_iter().map(|(table, operation)| {
        id(THROTTLED_REQUESTS, vec![(TABLE_NAME, table), (OPERATION, operation)])
    }));
    metrics
}

/// The values of a metric of [`NAMESPACE`] in these epoch seconds; `None` if there are none.
pub(super) fn statistics(
    observed: &Observed,
    metric: &MetricId,
    seconds: Range<u64>,
) -> Option<StatisticSet> {
    let dimensions = metric.dimensions.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    // In the order of their names.
    let dimensions = dimensions.collect::<Vec<_>>();
    if metric.name == THROTTLED_REQUESTS {
        let [(OPERATION, operation), (TABLE_NAME, table)] = dimensions[..] else { return None };
        let counts = observed.throttled_requests.per_second(table, operation, seconds);
        return StatisticSet::merge_all(counts.into_iter().filter_map(|(_, count)| events(count)));
    }
    let measure = MEASURES.iter().find(|measure| measure.0 == metric.name)?;
    let resource = match dimensions[..] {
        [(TABLE_NAME, table)] => Resource::table(table),
        [(INDEX_NAME, index), (TABLE_NAME, table)] => Resource::index(table, index),
        _ => return None,
    };
    observed.partitions(|partitions| measure.read(partitions, resource, seconds))
}

const TABLE_NAME: &str = "TableName";
const INDEX_NAME: &str = "GlobalSecondaryIndexName";
const OPERATION: &str = "Operation";
const THROTTLED_REQUESTS: &str = "ThrottledRequests";

/// A metric that tables have, and global secondary indexes beside them: its name, and what it measures.
struct Measure(&'static str, Kind, What);

enum What {
    /// The units that were consumed in a second.
    Consumed,
    /// What happened so often in a second.
    Events(fn(&Counts) -> u64),
    /// The capacity of a provisioned table.
    Provisioned,
}

/// The throttles of a partition, and those of what is provisioned.
const KEY_RANGE: What = What::Events(|counts| counts.key_range_throttles);
const PROVISIONED: What = What::Events(|counts| counts.provisioned_throttles);

const MEASURES: [Measure; 10] = [
    Measure("ConsumedReadCapacityUnits", Kind::Read, What::Consumed),
    Measure("ConsumedWriteCapacityUnits", Kind::Write, What::Consumed),
    Measure("ReadThrottleEvents", Kind::Read, What::Events(Counts::throttles)),
    Measure("WriteThrottleEvents", Kind::Write, What::Events(Counts::throttles)),
    Measure("ReadKeyRangeThroughputThrottleEvents", Kind::Read, KEY_RANGE),
    Measure("WriteKeyRangeThroughputThrottleEvents", Kind::Write, KEY_RANGE),
    Measure("ReadProvisionedThroughputThrottleEvents", Kind::Read, PROVISIONED),
    Measure("WriteProvisionedThroughputThrottleEvents", Kind::Write, PROVISIONED),
    Measure("ProvisionedReadCapacityUnits", Kind::Read, What::Provisioned),
    Measure("ProvisionedWriteCapacityUnits", Kind::Write, What::Provisioned),
];

impl Measure {
    fn read(
        &self,
        partitions: &Partitions,
        resource: Resource<'_>,
        seconds: Range<u64>,
    ) -> Option<StatisticSet> {
        let Self(_, kind, what) = self;
        let merged = |value: &dyn Fn(&Counts) -> Option<StatisticSet>| {
            let counts = partitions.statistics().per_second(resource, *kind, seconds.clone());
            StatisticSet::merge_all(counts.filter_map(|(_, counts)| value(&counts)))
        };
        match what {
            What::Consumed => merged(&consumed),
            What::Events(count) => merged(&|counts| events(count(counts))),
            What::Provisioned => provisioned(partitions, resource, *kind, seconds),
        }
    }
}

/// One value for each minute that begins in the period, and the one that is in force where none
/// does, so that short periods have a value too.
fn provisioned(
    partitions: &Partitions,
    resource: Resource<'_>,
    kind: Kind,
    seconds: Range<u64>,
) -> Option<StatisticSet> {
    let last = seconds.end.checked_sub(1).filter(|last| *last >= seconds.start)?;
    let oldest = last.saturating_sub(Partitions::COUNT_HISTORY_SECS);
    let first = seconds.start.max(oldest);
    let minutes = (first.div_ceil(60)..=last / 60).map(|minute| minute * 60);
    let values = std::iter::once(last).chain(minutes.filter(|second| *second != last));
    StatisticSet::merge_all(values.filter_map(|second| {
        match partitions.statistics().throughput(resource, second)? {
            Throughput::Provisioned { rcu, wcu } => {
                let units = if kind == Kind::Read { rcu } else { wcu };
                Some(StatisticSet::of(f64::from(units.get()), 1.0))
            }
            Throughput::OnDemand => None,
        }
    }))
}

fn consumed(counts: &Counts) -> Option<StatisticSet> {
    let sum = counts.consumed.as_f64();
    // A charge may come in a later second than what it belongs to.
    let sample_count = counted(counts.admitted.max(1));
    let mean = sum / sample_count;
    (sum > 0.0).then_some(StatisticSet { sample_count, sum, minimum: mean, maximum: mean })
}

/// Events, each of which adds one; nothing where there are none.
fn events(count: u64) -> Option<StatisticSet> {
    (count > 0).then(|| StatisticSet::of(1.0, counted(count)))
}

#[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53 within three hours")]
fn counted(count: u64) -> f64 {
    count as f64
}

fn id(name: &str, dimensions: Vec<(&str, String)>) -> MetricId {
    let dimensions = dimensions.into_iter().map(|(name, value)| (name.to_owned(), value));
    MetricId {
        namespace: NAMESPACE.to_owned(),
        name: name.to_owned(),
        dimensions: dimensions.collect::<BTreeMap<_, _>>(),
    }
}

fn resource_dimensions(Resource { table, index }: Resource<'_>) -> Vec<(&'static str, String)> {
    let index = index.map(|index| (INDEX_NAME, index.to_owned()));
    std::iter::once((TABLE_NAME, table.to_owned())).chain(index).collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use dynashard_limits::Units;
    use dynashard_limits::partition::{Demand, Limits};

    use super::*;

    const NOW: u64 = 1_795_000_020;

    fn units(units: u32) -> NonZeroU32 {
        NonZeroU32::new(units).expect("positive")
    }

    /// A provisioned table of 5 units with an index of 7, in front of partitions of 3 write units.
    fn observed() -> Observed {
        let limits = Limits { partition_wcu: units(3), burst_secs: 1, ..Limits::default() };
        let observed = Observed::of(limits);
        let provisioned = |u| Throughput::Provisioned { rcu: units(u), wcu: units(u) };
        observed.change_partitions(|partitions| {
            let now = Duration::from_secs(NOW);
            partitions.set_table(now, "Flights", provisioned(5), [("ByDay", provisioned(7))]);
        });
        observed
    }

    fn write(observed: &Observed, second: u64, resource: Resource<'_>, key: &str, size: u64) {
        observed.change_partitions(|partitions| {
            let demand = Demand {
                resource,
                partition_key: key,
                sort_key: None,
                kind: Kind::Write,
                units: Units::whole(size),
            };
            let _ = partitions.admit(Duration::from_secs(second), &[demand]);
        });
    }

    fn read(observed: &Observed, name: &str, dimensions: &[(&str, &str)]) -> Option<(f64, f64)> {
        let dimensions = dimensions.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let set = statistics(observed, &id(name, dimensions.collect()), NOW..NOW + 60)?;
        Some((set.sample_count, set.sum))
    }

    const FLIGHTS: &[(&str, &str)] = &[(TABLE_NAME, "Flights")];
    const BY_DAY: &[(&str, &str)] = &[(TABLE_NAME, "Flights"), (INDEX_NAME, "ByDay")];

    #[test]
    fn throttles_and_consumption_are_told_by_table_and_index_and_by_limit() {
        let observed = observed();
        let table = Resource::table("Flights");
        for _ in 0..5 {
            write(&observed, NOW, table, "hot", 1);
        }
        for _ in 0..3 {
            write(&observed, NOW, table, "cool", 1);
        }
        write(&observed, NOW + 1, Resource::index("Flights", "ByDay"), "day", 2);
        let metrics = &observed;
        let of_table = |name| read(metrics, name, FLIGHTS);
        // Three of the hot key fit its partition, two of the cool one the table's five units.
        assert_eq!(of_table("ConsumedWriteCapacityUnits"), Some((5.0, 5.0)));
        assert_eq!(of_table("WriteKeyRangeThroughputThrottleEvents"), Some((2.0, 2.0)));
        assert_eq!(of_table("WriteProvisionedThroughputThrottleEvents"), Some((1.0, 1.0)));
        assert_eq!(of_table("WriteThrottleEvents"), Some((3.0, 3.0)));
        assert_eq!(read(metrics, "ConsumedWriteCapacityUnits", BY_DAY), Some((1.0, 2.0)));
        for nothing in ["ReadThrottleEvents", "ConsumedReadCapacityUnits", "NoSuchMetric"] {
            assert_eq!(of_table(nothing), None, "{nothing}");
        }
        assert_eq!(read(metrics, "WriteThrottleEvents", BY_DAY), None);
        assert_eq!(read(metrics, "WriteThrottleEvents", &[]), None);
        assert_eq!(read(metrics, "WriteThrottleEvents", &[(TABLE_NAME, "Other")]), None);
    }

    #[test]
    fn provisioned_capacity_is_what_it_was_at_the_time() {
        let observed = observed();
        let later = Duration::from_secs(NOW + 120);
        observed.change_partitions(|partitions| {
            let nine = Throughput::Provisioned { rcu: units(9), wcu: units(9) };
            partitions.set_table(later, "Flights", nine, []);
        });
        let metrics = &observed;
        let at = |seconds| {
            let metric = id(
                "ProvisionedWriteCapacityUnits",
                resource_dimensions(Resource::table("Flights")),
            );
            statistics(metrics, &metric, seconds).map(|set| (set.minimum, set.maximum))
        };
        assert_eq!(at(NOW - 60..NOW), None, "it was not there yet");
        assert_eq!(at(NOW..NOW + 60), Some((5.0, 5.0)));
        assert_eq!(at(NOW + 1..NOW + 2), Some((5.0, 5.0)));
        assert_eq!(at(NOW + 60..NOW + 180), Some((5.0, 9.0)));
        assert_eq!(read(metrics, "ProvisionedReadCapacityUnits", BY_DAY), None, "it is gone");
    }

    #[test]
    fn requests_that_were_throttled_as_a_whole_are_told_by_operation() {
        let observed = observed();
        for second in [NOW, NOW + 1] {
            observed.throttle_request(&["Flights", "Other"], "BatchWriteItem", second);
        }
        let metrics = &observed;
        let dimensions = [(TABLE_NAME, "Other"), (OPERATION, "BatchWriteItem")];
        assert_eq!(read(metrics, THROTTLED_REQUESTS, &dimensions), Some((2.0, 2.0)));
        assert_eq!(read(metrics, THROTTLED_REQUESTS, FLIGHTS), None, "without an operation");
    }

    #[test]
    fn only_metrics_with_values_are_listed() {
        let observed = observed();
        write(&observed, NOW, Resource::table("Flights"), "key", 1);
        observed.throttle_request(&["Flights"], "PutItem", NOW);
        let listed: Vec<_> = list(&observed, NOW, NOW)
            .into_iter()
            .map(|metric| (metric.name, metric.dimensions.len()))
            .collect();
        let listed: Vec<_> =
            listed.iter().map(|(name, dimensions)| (name.as_str(), *dimensions)).collect();
        assert_eq!(
            listed,
            [
                ("ConsumedWriteCapacityUnits", 1),
                ("ProvisionedReadCapacityUnits", 1),
                ("ProvisionedWriteCapacityUnits", 1),
                ("ProvisionedReadCapacityUnits", 2),
                ("ProvisionedWriteCapacityUnits", 2),
                (THROTTLED_REQUESTS, 2),
            ]
        );
    }
}
