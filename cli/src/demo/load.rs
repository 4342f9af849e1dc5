//! Offers flights to the API at a steady rate, until the shard counts have followed and for a while
//! longer, and then sees that each one is written.

use std::collections::HashMap;
use std::time::Duration;

use dynashard_local::Stack;
use futures_util::stream::{FuturesUnordered, StreamExt};
use http::{Method, StatusCode};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use super::flights::Airport;
use super::history::{History, KeySample, Sample, SettledRule};
use super::offer::{Counts, Offers};
use super::view::View;
use super::watched::Watched;
use super::{DemoError, JSON, MAIN_TABLE};
use crate::clock::Stopwatch;
use crate::http::{Client, HttpError};

/// How often what is due is offered.
const OFFER_EVERY: Duration = Duration::from_millis(50);

/// How often the run is looked at.
const SAMPLE_EVERY: Duration = Duration::from_millis(500);

/// How long the demo waits for the last flights to be written before it gives up: several times
/// what the API takes to answer at most.
const DRAIN_LIMIT: Duration = Duration::from_mins(2);

/// What a run is to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// Write units a second of one partition.
    pub(super) partition_wcu: u32,
    /// Writes a second that are offered to each airport, in their order.
    pub(super) rates: Vec<u32>,
    /// When the growth counts as over.
    pub(super) settled: SettledRule,
    /// For how long the settled collections are measured.
    pub(super) steady: Duration,
    /// When the demo stops waiting for that.
    pub(super) time_limit: Duration,
}

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It offers, and the shard counts follow.
    Growing,
    /// The counts have settled, and the run is measured from this sample on.
    Measuring { from: usize },
    /// Nothing new is offered, since the sample `since`.
    Draining { since: usize, steady: Option<Window> },
    /// Everything is written, and reshards that run are waited for.
    Closing,
}

/// The samples between which the run was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: usize,
    pub(super) to: usize,
}

/// A run whose flights are all written.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) history: History,
    /// The measured part, if the counts settled in time.
    pub(super) steady: Option<Window>,
    /// How many flights of each airport were written.
    pub(super) flights: Vec<usize>,
    /// Runs since the first offer.
    pub(super) watch: Stopwatch,
    /// When the last flight was written.
    pub(super) load: Duration,
}

impl Stage {
    /// What to do after another sample was taken.
    fn next(self, history: &History, plan: &Plan) -> Self {
        let Some(last) = history.samples.len().checked_sub(1) else { return self };
        let at = history.samples[last].at;
        match self {
            Self::Growing if history.has_settled(plan.settled) => Self::Measuring { from: last },
            Self::Growing if at >= plan.time_limit => Self::Draining { since: last, steady: None },
            Self::Measuring { from } if !history.is_unchanged(from, last) => Self::Growing,
            Self::Measuring { from } if at >= history.samples[from].at + plan.steady => {
                if history.is_absorbed(from, last, plan.settled) || at >= plan.time_limit {
                    Self::Draining { since: last, steady: Some(Window { from, to: last }) }
                } else {
                    Self::Growing
                }
            }
            Self::Growing | Self::Measuring { .. } | Self::Draining { .. } | Self::Closing => self,
        }
    }
}

/// Runs the plan on a stack, and shows it.
pub(super) async fn load(
    stack: &Stack,
    client: &Client,
    watched: &Watched,
    plan: &Plan,
    airports: &[Airport],
    view: &mut View,
) -> Result<Loaded, DemoError> {
    let api = stack.endpoints().api.as_str();
    let mut offers = plan.rates.iter().map(|rate| Offers::new(*rate)).collect::<Vec<_>>();
    let keys =
        airports.iter().zip(&plan.rates).map(|(airport, rate)| (airport.code.clone(), *rate));
    let mut history =
        History { partition_wcu: plan.partition_wcu, keys: keys.collect(), samples: Vec::new() };
    let mut stage = Stage::Growing;
    let mut in_flight = FuturesUnordered::new();
    let mut offering = interval(OFFER_EVERY);
    let mut sampling = interval(SAMPLE_EVERY);
    offering.set_missed_tick_behavior(MissedTickBehavior::Skip);
    sampling.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let watch = Stopwatch::start();
    loop {
        let sample = tokio::select! {
            Some(answer) = in_flight.next(), if !in_flight.is_empty() => {
                let Answer { key, flights, refused, unknown } = answer?;
                offers[key].answered(flights, refused, unknown);
                continue;
            }
            _ = sampling.tick() => true,
            _ = offering.tick() => false,
        };
        let at = watch.elapsed();
        for (key, (offers, airport)) in offers.iter_mut().zip(airports).enumerate() {
            let batches = match stage {
                Stage::Growing | Stage::Measuring { .. } => offers.due(at),
                Stage::Draining { .. } | Stage::Closing => offers.rest(),
            };
            in_flight
                .extend(batches.into_iter().map(|batch| send(client, api, airport, key, batch)));
        }
        if sample {
            history.samples.push(look(stack, at, watched, offers.iter().map(Offers::counts)));
            stage = stage.next(&history, plan);
            view.load(&history, stage);
        }
        if let Stage::Draining { since, steady } = stage {
            let flights = offers.iter().map(Offers::flights).collect();
            if offers.iter().all(Offers::is_done) {
                history.samples.push(look(stack, at, watched, offers.iter().map(Offers::counts)));
                return Ok(Loaded { history, steady, flights, watch, load: at });
            }
            if at > history.samples[since].at + DRAIN_LIMIT {
                return Err(DemoError::NotWritten(DRAIN_LIMIT));
            }
        }
    }
}

/// Goes on looking until every reshard has closed, or for so long, and says whether they have.
pub(super) async fn closed(
    stack: &Stack,
    watched: &Watched,
    history: &mut History,
    watch: &Stopwatch,
    limit: Duration,
    view: &mut View,
) -> bool {
    let counts = history.samples.last().into_iter().flat_map(|sample| &sample.keys);
    let counts = counts.map(|key| key.counts).collect::<Vec<_>>();
    let until = watch.elapsed() + limit;
    let mut sampling = interval(SAMPLE_EVERY);
    sampling.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        sampling.tick().await;
        let at = watch.elapsed();
        history.samples.push(look(stack, at, watched, counts.iter().copied()));
        view.load(history, Stage::Closing);
        if watched.is_stable() || at >= until {
            return watched.is_stable();
        }
    }
}

fn look(
    stack: &Stack,
    at: Duration,
    watched: &Watched,
    counts: impl Iterator<Item = Counts>,
) -> Sample {
    let mut counters = stack.counters();
    let keys = counts.zip(watched.collections());
    let keys = keys.map(|(counts, collection)| KeySample { counts, collection });
    Sample {
        at,
        keys: keys.collect(),
        throttles: counters.throttles.remove(MAIN_TABLE).unwrap_or_default(),
        operations: counters.tables.remove(MAIN_TABLE).unwrap_or_default(),
        alarms: stack
            .alarms()
            .into_iter()
            .map(|(name, state)| (name, state.as_str().to_owned()))
            .collect(),
    }
}

/// What became of one batch.
struct Answer {
    key: usize,
    flights: usize,
    refused: Vec<usize>,
    unknown: usize,
}

/// Sends one batch of an airport's flights. The same put twice stores the same item, so whatever
/// the API did not carry out may be sent again.
async fn send(
    client: &Client,
    api: &str,
    airport: &Airport,
    key: usize,
    batch: Vec<usize>,
) -> Result<Answer, DemoError> {
    let mut puts = Vec::with_capacity(batch.len());
    let mut numbers = HashMap::with_capacity(batch.len());
    for number in &batch {
        let flight = airport.flight(*number);
        puts.push(json!({ "pk": airport.code, "sk": flight.sk, "item": flight.item }));
        numbers.insert(flight.sk, *number);
    }
    let body = json!({ "puts": puts });
    let flights = batch.len();
    let answer = client.json(Method::POST, &format!("{api}/batch-write"), JSON, Some(&body)).await;
    let answer = match answer {
        Ok(answer) => answer,
        // No environment was free, or the function ran out of time.
        Err(HttpError::Refused {
            status: StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE,
            ..
        }) => return Ok(Answer { key, flights, refused: batch, unknown: 0 }),
        Err(error) => return Err(error.into()),
    };
    let unprocessed =
        answer["unprocessed"].as_array().ok_or(DemoError::BadAnswer("unprocessed"))?;
    let refused = unprocessed
        .iter()
        .map(|left| left["sk"].as_str().and_then(|sk| numbers.get(sk)).copied())
        .collect::<Option<Vec<_>>>()
        .ok_or(DemoError::BadAnswer("sort key that was sent in its unprocessed"))?;
    let unknown = unprocessed.iter().filter(|left| left["code"] == "outcome_unknown").count();
    Ok(Answer { key, flights, refused, unknown })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::history::Collection;
    use super::*;

    fn plan() -> Plan {
        Plan {
            partition_wcu: 200,
            rates: vec![400],
            settled: SettledRule { quiet: Duration::from_secs(2), least_share: 0.9 },
            steady: Duration::from_secs(2),
            time_limit: Duration::from_mins(1),
        }
    }

    /// What a run does second by second, when it has these shards and absorbs what they take, of two
    /// at most.
    fn stages(shards: &[u32]) -> Vec<Stage> {
        let mut history = History {
            partition_wcu: 200,
            keys: vec![("EWR".to_owned(), 400)],
            samples: Vec::new(),
        };
        let (mut stage, mut stages, mut absorbed) = (Stage::Growing, Vec::new(), 0);
        for (second, shards) in (0..).zip(shards) {
            let counts = Counts { offered: 400 * second, absorbed, ..Counts::default() };
            absorbed += 200 * u64::from(*shards).min(2);
            let collection = Collection { shards: *shards, ..Collection::ABSENT };
            history.samples.push(Sample {
                at: Duration::from_secs(second),
                keys: vec![KeySample { counts, collection }],
                throttles: BTreeMap::new(),
                operations: BTreeMap::new(),
                alarms: BTreeMap::new(),
            });
            stage = stage.next(&history, &plan());
            stages.push(stage);
        }
        stages
    }

    #[test]
    fn a_settled_run_is_measured_and_then_drained() {
        let measuring = Stage::Measuring { from: 3 };
        let drained = Stage::Draining { since: 5, steady: Some(Window { from: 3, to: 5 }) };
        assert_eq!(
            stages(&[1, 2, 2, 2, 2, 2, 2])[2..],
            [Stage::Growing, measuring, measuring, drained, drained]
        );
    }

    #[test]
    fn a_growth_while_measuring_begins_the_wait_again() {
        let stages = stages(&[2, 2, 2, 4, 4, 4]);
        assert_eq!(stages[2], Stage::Measuring { from: 2 });
        assert_eq!(stages[3..], [Stage::Growing, Stage::Growing, Stage::Measuring { from: 5 }]);
    }

    #[test]
    fn regression_a_measurement_while_the_machine_stood_still_passed_for_a_settled_one() {
        let mut history = History {
            partition_wcu: 200,
            keys: vec![("EWR".to_owned(), 400)],
            samples: Vec::new(),
        };
        let (mut stage, mut stages, mut absorbed) = (Stage::Growing, Vec::new(), 0);
        for (second, taken) in (0..).zip([400, 400, 400, 0, 400, 400, 400, 400, 400, 400]) {
            let counts = Counts { offered: 400 * second, absorbed, ..Counts::default() };
            absorbed += taken;
            let collection = Collection { shards: 2, ..Collection::ABSENT };
            history.samples.push(Sample {
                at: Duration::from_secs(second),
                keys: vec![KeySample { counts, collection }],
                throttles: BTreeMap::new(),
                operations: BTreeMap::new(),
                alarms: BTreeMap::new(),
            });
            stage = stage.next(&history, &plan());
            stages.push(stage);
        }
        assert_eq!(
            stages[2..5],
            [Stage::Measuring { from: 2 }, Stage::Measuring { from: 2 }, Stage::Growing]
        );
        assert_eq!(
            stages[9],
            Stage::Draining { since: 8, steady: Some(Window { from: 6, to: 8 }) }
        );
    }

    #[test]
    fn a_run_that_never_settles_ends_at_the_limit() {
        let restless = (0..=60).map(|second| 1 + second % 2).collect::<Vec<_>>();
        let stages = stages(&restless);
        assert_eq!(stages[59], Stage::Growing);
        assert_eq!(stages[60], Stage::Draining { since: 60, steady: None });
    }
}
