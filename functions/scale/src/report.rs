//! What `ScaleFunction` shows and counts of what it was told and has decided.

use std::collections::BTreeMap;

use dynashard_core::{CollectionHeat, HeatOutcome, HeatReport, Rearm, ScalingMode};
use dynashard_lambda::metrics::{Counter, log_decision};
use serde::Serialize;

/// A report for a person who sends an alarm by hand.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct HeatView {
    dry_run: bool,
    collections: Vec<CollectionView>,
    keys_of_no_collection: usize,
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
            keys_of_no_collection: report.of_no_collection.len(),
            alarm_set_back: report.rearm == Rearm::Done,
        }
    }
}

/// What a report counts.
pub(crate) fn counts(report: &HeatReport) -> Vec<(Counter, usize)> {
    let HeatReport { collections, of_no_collection, rearm, unasked, .. } = report;
    let mut counted = vec![
        (Counter::AlarmsHandled, 1),
        (Counter::KeysOfNoCollection, of_no_collection.len()),
        (
            Counter::AlarmsFailed,
            usize::from(matches!(rearm, Rearm::Failed(_))) + usize::from(unasked.is_some()),
        ),
        (
            Counter::ReportsWithoutContributors,
            usize::from(collections.is_empty() && of_no_collection.is_empty()),
        ),
    ];
    counted.extend(decisions(collections));
    counted
}

/// What the decisions about these collections count.
pub(crate) fn decisions(collections: &[CollectionHeat]) -> impl Iterator<Item = (Counter, usize)> {
    let counters = collections.iter().flat_map(|collection| {
        let bounded = match &collection.outcome {
            HeatOutcome::Decided(decision, _) => decision.bound.map(|_| Counter::GrowthsBounded),
            _ => None,
        };
        counter_of(&collection.outcome).into_iter().chain(bounded)
    });
    let mut counted = BTreeMap::new();
    for counter in counters {
        *counted.entry(counter).or_insert(0) += 1;
    }
    counted.into_iter()
}

fn counter_of(outcome: &HeatOutcome) -> Option<Counter> {
    match outcome {
        HeatOutcome::Decided(decision, outcome) => Counter::of_decision(decision, *outcome),
        HeatOutcome::Relieved { .. } => Some(Counter::GrowthsRefused),
        HeatOutcome::UnknownShards(_) => Some(Counter::UnknownShards),
        HeatOutcome::Damaged(_) => Some(Counter::DamagedData),
        HeatOutcome::Failed(_) => Some(Counter::GrowthsFailed),
    }
}

/// Logs what was decided about each throttled key.
pub(crate) fn log(report: &HeatReport) {
    log_collections(&report.collections);
    for key in &report.of_no_collection {
        tracing::warn!(
            key,
            "a throttled partition key belongs to no possible collection: some client writes around the application"
        );
    }
    if report.collections.is_empty() && report.of_no_collection.is_empty() {
        tracing::warn!("the alarm is raised, and the report names no throttled key");
    }
    if let Some(error) = &report.unasked {
        tracing::error!(%error, "CloudWatch did not return the alarm's state; the throttled keys were examined without it");
    }
    if let Rearm::Failed(error) = &report.rearm {
        tracing::error!(%error, "the alarm could not be reset to OK; the schedule checks it again");
    }
}

/// Logs what became of these collections.
pub(crate) fn log_collections(collections: &[CollectionHeat]) {
    for CollectionHeat { partition, throttles, outcome } in collections {
        let partition_key = partition.as_str();
        let decision = outcome.to_string();
        match outcome {
            HeatOutcome::Decided(decision, outcome) => {
                if decision.is_worth_a_note() {
                    log_decision(decision, *outcome);
                }
            }
            HeatOutcome::Relieved { .. } => {
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
}
