//! Reports of Contributor Insights about the keys that tables throttle.

use std::collections::BTreeMap;
use std::ops::Range;

use dynashard_limits::partition::{Kind, Partitions, Resource};

use crate::dynamodb::endpoint::{InsightRule, Observed, RuleKeys};

/// What a report is to tell.
#[derive(Clone, Debug)]
pub(crate) struct ReportRequest {
    /// The epoch seconds that it covers.
    pub(crate) seconds: Range<u64>,
    pub(crate) period_secs: u64,
    /// How many contributors it names at most.
    pub(crate) max_contributors: usize,
    pub(crate) order: ReportOrder,
}

/// Which contributors come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportOrder {
    /// Those with the greatest value over all periods.
    Sum,
    /// Those with the greatest value in one period.
    Maximum,
}

/// What a rule counted (`CloudWatch` API: `GetInsightRuleReport`).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Report {
    /// Of all contributors.
    pub(crate) aggregate: u64,
    pub(crate) unique_contributors: usize,
    pub(crate) contributors: Vec<Contributor>,
    /// By the start of the period, in epoch seconds; only those in which anything happened.
    pub(crate) periods: Vec<(u64, Period)>,
}

/// A key that was throttled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contributor {
    pub(crate) keys: Vec<String>,
    pub(crate) aggregate: u64,
    /// By the start of the period.
    pub(crate) datapoints: Vec<(u64, u64)>,
}

/// What happened in a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    /// The value of each contributor, the greatest first.
    pub(crate) values: Vec<u64>,
}

impl Period {
    pub(crate) fn sum(&self) -> u64 {
        self.values.iter().sum()
    }

    pub(crate) fn maximum(&self) -> u64 {
        self.values.first().copied().unwrap_or_default()
    }

    pub(crate) fn minimum(&self) -> u64 {
        self.values.last().copied().unwrap_or_default()
    }
}

/// A report of DynamoDB's rules names at most so many contributors, whatever is asked for.
pub(crate) const MAX_CONTRIBUTORS: usize = 25;

/// Makes the report of a rule. Reads and writes count alike, each throttled demand as one.
pub(crate) fn report(observed: &Observed, rule: &InsightRule, request: &ReportRequest) -> Report {
    let resource = Resource { table: &rule.table, index: rule.index.as_deref() };
    let kinds = [Kind::Read, Kind::Write];
    let mut contributors = BTreeMap::<Vec<String>, Contributor>::new();
    let mut periods = Vec::new();
    for start in starts(&request.seconds, request.period_secs) {
        let seconds = start..start + request.period_secs;
        let counts = observed.partitions(|partitions| match rule.keys {
            RuleKeys::PartitionKeys => {
                partitions.throttled_partition_keys(resource, &kinds, seconds, usize::MAX)
            }
            RuleKeys::Items => partitions.throttled_items(resource, &kinds, seconds, usize::MAX),
        });
        if counts.is_empty() {
            continue;
        }
        periods.push((start, Period { values: counts.iter().map(|(_, count)| *count).collect() }));
        for (key, count) in counts {
            let keys: Vec<_> = std::iter::once(key.partition_key).chain(key.sort_key).collect();
            let contributor = contributors.entry(keys).or_default();
            contributor.aggregate += count;
            contributor.datapoints.push((start, count));
        }
    }
    let aggregate = periods.iter().map(|(_, period)| period.sum()).sum();
    let unique_contributors = contributors.len();
    let mut contributors: Vec<_> = contributors
        .into_iter()
        .map(|(keys, contributor)| Contributor { keys, ..contributor })
        .collect();
    contributors.sort_by_key(|contributor| std::cmp::Reverse(contributor.rank(request.order)));
    contributors.truncate(request.max_contributors.min(MAX_CONTRIBUTORS));
    Report { aggregate, unique_contributors, contributors, periods }
}

impl Contributor {
    fn rank(&self, order: ReportOrder) -> u64 {
        match order {
            ReportOrder::Sum => self.aggregate,
            ReportOrder::Maximum => {
                self.datapoints.iter().map(|(_, value)| *value).max().unwrap_or_default()
            }
        }
    }
}

/// The starts of the periods of which keys may still be known.
fn starts(seconds: &Range<u64>, period_secs: u64) -> impl Iterator<Item = u64> + use<> {
    let period_secs = period_secs.max(1);
    let first = seconds.end.saturating_sub(Partitions::KEY_HISTORY_SECS).max(seconds.start);
    let first = first / period_secs * period_secs;
    let step = usize::try_from(period_secs).unwrap_or(usize::MAX);
    (first..seconds.end).step_by(step)
}
