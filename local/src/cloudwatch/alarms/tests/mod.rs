//! Alarms on a metric that the tests write and a clock that they move.

mod evaluation;
mod reasons;
mod transitions;

use super::*;
use crate::cloudwatch::{MetricId, StatisticSet};
use std::ops::Range;

/// One metric, whose values stand at seconds.
#[derive(Debug, Default)]
struct Recorded(Mutex<BTreeMap<u64, Vec<f64>>>);

impl Recorded {
    fn record(&self, secs: u64, value: f64) {
        self.0.lock().expect("no panic").entry(secs).or_default().push(value);
    }
}

impl MetricSource for Recorded {
    fn statistics(&self, metric: &MetricId, seconds: Range<u64>) -> Option<StatisticSet> {
        assert_eq!(*metric, throttles());
        let recorded = self.0.lock().expect("no panic");
        let values: Vec<_> = recorded.range(seconds).flat_map(|(_, values)| values).collect();
        values.first()?;
        let fold = |pick: fn(f64, f64) -> f64, start| {
            values.iter().fold(start, |so_far, value| pick(so_far, **value))
        };
        Some(StatisticSet {
            sample_count: values.iter().map(|_| 1.0).sum(),
            sum: values.iter().copied().sum(),
            minimum: fold(f64::min, f64::INFINITY),
            maximum: fold(f64::max, f64::NEG_INFINITY),
        })
    }
}

fn throttles() -> MetricId {
    MetricId {
        namespace: "Test".to_owned(),
        name: "Throttles".to_owned(),
        dimensions: BTreeMap::from([("TableName".to_owned(), "MainTable".to_owned())]),
    }
}

/// An alarm on the sum of a minute, which breaches from 1.
fn alarm(to_alarm: u32, periods: u32, missing_data: MissingData) -> Definition {
    Definition {
        name: "throttles".to_owned(),
        description: None,
        metric: throttles(),
        statistic: Statistic::Sum,
        schedule: Schedule::of_period(60),
        query: None,
        evaluation_periods: periods,
        datapoints_to_alarm: Some(to_alarm),
        comparison: Comparison::GreaterOrEqual,
        threshold: 1.0,
        missing_data: Some(missing_data),
        actions_enabled: true,
        actions: Actions::default(),
    }
}
