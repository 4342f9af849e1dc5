//! Offers flights to the API at a steady rate, until the shard counts have followed and for a while
//! longer, and then sees that each one is written.

use std::collections::HashMap;
use std::time::Duration;

use dynashard_local::Stack;
use futures_util::stream::{FuturesUnordered, StreamExt};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::flights::Airport;
use super::history::{Collection, History, KeySample, Sample, SettledRule};
use super::offer::Offers;
use super::view::View;
use super::{DemoError, JSON, MAIN_TABLE};
use crate::clock::Stopwatch;
use crate::http::{Client, HttpError, url};

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
pub(super) enum Phase {
    /// It offers, and the shard counts follow.
    Growing,
    /// The counts have settled, and the run is measured from this sample on.
    Measuring { from: usize },
    /// Nothing new is offered, since the sample `since`.
    Draining { since: usize, steady: Option<Window> },
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
    pub(super) load_secs: f64,
}

impl Phase {
    /// What to do after another sample was taken.
    fn next(self, history: &History, plan: &Plan) -> Self {
        let Some(last) = history.samples.len().checked_sub(1) else { return self };
        let at = history.samples[last].at;
        match self {
            Self::Growing if history.has_settled(plan.settled) => Self::Measuring { from: last },
            Self::Growing if at >= plan.time_limit => Self::Draining { since: last, steady: None },
            Self::Measuring { from } if !history.is_unchanged(from, last) => Self::Growing,
            Self::Measuring { from } if at >= history.samples[from].at + plan.steady => {
                Self::Draining { since: last, steady: Some(Window { from, to: last }) }
            }
            Self::Growing | Self::Measuring { .. } | Self::Draining { .. } => self,
        }
    }
}

/// Runs the plan on a stack, and shows it.
pub(super) async fn load(
    stack: &Stack,
    client: &Client,
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
    let watched = Watched::start(client, api, airports);
    let mut phase = Phase::Growing;
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
            let batches = match phase {
                Phase::Growing | Phase::Measuring { .. } => offers.due(at),
                Phase::Draining { .. } => offers.rest(),
            };
            in_flight
                .extend(batches.into_iter().map(|batch| send(client, api, airport, key, batch)));
        }
        if sample {
            history.samples.push(look(stack, at, &watched, &offers));
            phase = phase.next(&history, plan);
            view.load(&history, phase);
        }
        if let Phase::Draining { since, steady } = phase {
            let flights = offers.iter().map(Offers::flights).collect();
            if offers.iter().all(Offers::is_done) {
                history.samples.push(look(stack, at, &watched, &offers));
                return Ok(Loaded { history, steady, flights, load_secs: at.as_secs_f64() });
            }
            if at > history.samples[since].at + DRAIN_LIMIT {
                return Err(DemoError::NotWritten(DRAIN_LIMIT));
            }
        }
    }
}

fn look(stack: &Stack, at: Duration, watched: &Watched, offers: &[Offers]) -> Sample {
    Sample {
        at,
        keys: watched.with(offers),
        throttles: stack.counters().throttles.remove(MAIN_TABLE).unwrap_or_default(),
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

/// Follows the collections as the API shows them, beside the load. Dropping it ends that.
struct Watched {
    latest: watch::Receiver<Vec<Collection>>,
    _task: JoinSet<()>,
}

impl Watched {
    fn start(client: &Client, api: &str, airports: &[Airport]) -> Self {
        let urls = airports
            .iter()
            .map(|airport| url(api, "/collection", &[("pk", &airport.code)]))
            .collect::<Vec<_>>();
        let (sender, latest) = watch::channel(vec![Collection::default(); urls.len()]);
        let client = client.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut looking = interval(SAMPLE_EVERY / 2);
            looking.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                looking.tick().await;
                for (key, url) in urls.iter().enumerate() {
                    // Not there yet, or not to be read now: it is looked at again soon.
                    let Ok(found) = client.json(Method::GET, url, &[], None).await else {
                        continue;
                    };
                    if let Some(collection) = read_collection(&found) {
                        sender.send_modify(|collections| collections[key] = collection);
                    }
                }
            }
        });
        Self { latest, _task: task }
    }

    fn with(&self, offers: &[Offers]) -> Vec<KeySample> {
        let collections = self.latest.borrow();
        offers
            .iter()
            .zip(collections.iter())
            .map(|(offers, collection)| KeySample {
                counts: offers.counts(),
                collection: *collection,
            })
            .collect()
    }
}

fn read_collection(found: &Value) -> Option<Collection> {
    let shards = u32::try_from(found["number_of_shards"].as_u64()?).ok()?;
    Some(Collection { shards, stable: found["state"] == "stable" })
}

#[cfg(test)]
mod tests {
    use super::super::offer::Counts;
    use std::collections::BTreeMap;

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

    /// What a run does second by second, when it has these shards and absorbs what they take.
    fn phases(shards: &[u32]) -> Vec<Phase> {
        let mut history = History {
            partition_wcu: 200,
            keys: vec![("EWR".to_owned(), 400)],
            samples: Vec::new(),
        };
        let (mut phase, mut phases, mut absorbed) = (Phase::Growing, Vec::new(), 0);
        for (second, shards) in (0..).zip(shards) {
            let counts = Counts { offered: 400 * second, absorbed, ..Counts::default() };
            absorbed += 200 * u64::from(*shards).min(2);
            let collection = Collection { shards: *shards, stable: true };
            history.samples.push(Sample {
                at: Duration::from_secs(second),
                keys: vec![KeySample { counts, collection }],
                throttles: BTreeMap::new(),
                alarms: BTreeMap::new(),
            });
            phase = phase.next(&history, &plan());
            phases.push(phase);
        }
        phases
    }

    #[test]
    fn a_settled_run_is_measured_and_then_drained() {
        let measuring = Phase::Measuring { from: 3 };
        let drained = Phase::Draining { since: 5, steady: Some(Window { from: 3, to: 5 }) };
        assert_eq!(
            phases(&[1, 2, 2, 2, 2, 2, 2])[2..],
            [Phase::Growing, measuring, measuring, drained, drained]
        );
    }

    #[test]
    fn a_growth_while_measuring_begins_the_wait_again() {
        let phases = phases(&[2, 2, 2, 4, 4, 4]);
        assert_eq!(phases[2], Phase::Measuring { from: 2 });
        assert_eq!(phases[3..], [Phase::Growing, Phase::Growing, Phase::Measuring { from: 5 }]);
    }

    #[test]
    fn a_run_that_never_settles_ends_at_the_limit() {
        let restless = (0..=60).map(|second| 1 + second % 2).collect::<Vec<_>>();
        let phases = phases(&restless);
        assert_eq!(phases[59], Phase::Growing);
        assert_eq!(phases[60], Phase::Draining { since: 60, steady: None });
    }
}
