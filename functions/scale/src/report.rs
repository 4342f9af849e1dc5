use dynashard_core::{
    CollectionHeat, Growth, HeatOutcome, HeatReport, NoGrowth, Rearm, ScalingMode,
};
use dynashard_lambda::metrics::Counter;
use serde::Serialize;

/// A report for a person who sends an alarm by hand.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct HeatView {
    dry_run: bool,
    collections: Vec<CollectionView>,
    unsharded_keys: usize,
    alarm_set_back: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct CollectionView {
    pk: String,
    throttles: f64,
    decision: String,
}

impl HeatView {
    pub(crate) fn new(report: &HeatReport) -> Self {
        let collections = report.collections.iter().map(|collection| CollectionView {
            pk: collection.partition.to_string(),
            throttles: collection.throttles,
            decision: collection.outcome.to_string(),
        });
        Self {
            dry_run: report.mode == ScalingMode::DryRun,
            collections: collections.collect(),
            unsharded_keys: report.unsharded.len(),
            alarm_set_back: report.rearm == Rearm::Done,
        }
    }
}

/// What a report counts.
pub(crate) fn counts(report: &HeatReport) -> Vec<(Counter, usize)> {
    let HeatReport { collections, unsharded, rearm, .. } = report;
    let mut counted = vec![
        (Counter::AlarmsHandled, 1),
        (Counter::UnshardedKeys, unsharded.len()),
        (Counter::AlarmsFailed, usize::from(matches!(rearm, Rearm::Failed(_)))),
        (
            Counter::ReportsWithoutContributors,
            usize::from(collections.is_empty() && unsharded.is_empty()),
        ),
    ];
    for counter in [
        Counter::GrowthsBegun,
        Counter::GrowthsWouldBegin,
        Counter::GrowthsNotAllowed,
        Counter::GrowthsRefused,
        Counter::GrowthsFailed,
        Counter::UnknownShards,
        Counter::DamagedData,
    ] {
        let times = collections.iter().filter(|c| counter_of(&c.outcome) == counter).count();
        counted.push((counter, times));
    }
    counted
}

fn counter_of(outcome: &HeatOutcome) -> Counter {
    match outcome {
        HeatOutcome::Decided(Growth::Begun { .. }) => Counter::GrowthsBegun,
        HeatOutcome::Decided(Growth::WouldBegin { .. }) => Counter::GrowthsWouldBegin,
        HeatOutcome::Decided(Growth::Refused(NoGrowth::NotAllowed)) => Counter::GrowthsNotAllowed,
        HeatOutcome::Decided(Growth::Refused(_) | Growth::Overtaken)
        | HeatOutcome::Relieved { .. } => Counter::GrowthsRefused,
        HeatOutcome::UnknownShards(_) => Counter::UnknownShards,
        HeatOutcome::Damaged(_) => Counter::DamagedData,
        HeatOutcome::Failed(_) => Counter::GrowthsFailed,
    }
}

/// Logs what was decided about each throttled key.
pub(crate) fn log(report: &HeatReport) {
    for CollectionHeat { partition, throttles, outcome } in &report.collections {
        let partition_key = partition.as_str();
        let decision = outcome.to_string();
        match outcome {
            HeatOutcome::Decided(_) | HeatOutcome::Relieved { .. } => {
                tracing::info!(partition_key, throttles, decision, "a collection was throttled");
            }
            HeatOutcome::UnknownShards(_) => {
                tracing::warn!(
                    partition_key,
                    throttles,
                    decision,
                    "throttled keys are of shards that the collection does not have"
                );
            }
            HeatOutcome::Damaged(_) | HeatOutcome::Failed(_) => {
                tracing::error!(partition_key, throttles, decision, "a collection was throttled");
            }
        }
    }
    for key in &report.unsharded {
        tracing::warn!(key, "a throttled key is one that no collection can have");
    }
    if report.collections.is_empty() && report.unsharded.is_empty() {
        tracing::warn!("the alarm is raised, and the report names no throttled key");
    }
    if let Rearm::Failed(error) = &report.rearm {
        tracing::error!(%error, "the alarm could not be set back; the schedule checks it again");
    }
}
