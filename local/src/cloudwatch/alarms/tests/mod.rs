//! Alarms on a metric that the tests write and a clock that they move.

mod evaluation;
mod reasons;
mod timing;
mod transitions;

use std::ops::Range;

use super::*;
use crate::cloudwatch::statistics::StatisticSet;
use crate::plan::{
    AlarmActions, AlarmSchedule, Comparison, Fill, MetricId, MissingData, Statistic,
};

/// One metric, with its values by the epoch second.
#[derive(Debug, Default)]
struct Recorded(Mutex<BTreeMap<u64, Vec<f64>>>);

impl Recorded {
    fn record(&self, secs: u64, value: f64) {
        self.0.lock().entry(secs).or_default().push(value);
    }
}

impl MetricSource for Recorded {
    fn statistics(&self, metric: &MetricId, seconds: Range<u64>) -> Option<StatisticSet> {
        assert_eq!(*metric, throttles());
        let recorded = self.0.lock();
        let values = recorded.range(seconds).flat_map(|(_, values)| values);
        StatisticSet::merge_all(values.map(|value| StatisticSet::of(*value, 1.0)))
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
fn alarm(to_alarm: u32, periods: u32, missing_data: MissingData) -> Alarm {
    Alarm {
        name: "throttles".to_owned(),
        description: None,
        metric: throttles(),
        fill: None,
        statistic: Statistic::Sum,
        schedule: AlarmSchedule::of_period(60),
        evaluation_periods: periods,
        breaching_datapoints: Some(to_alarm),
        comparison: Comparison::GreaterOrEqual,
        threshold: 1.0,
        missing_data: Some(missing_data),
        actions_enabled: true,
        actions: AlarmActions::default(),
    }
}
