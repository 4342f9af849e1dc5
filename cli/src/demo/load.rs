//! Offers flights to the target at a steady rate, until the shard counts have followed and for a while
//! longer, and then sees that each one is written.

use std::collections::HashMap;
use std::time::Duration;

use dynashard_local::Stack;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{MissedTickBehavior, interval};

use super::flights::Airport;
use super::history::{History, KeySample, Sample};
use super::offer::{Counts, Offers};
use super::plan::{Plan, Stage, Window};
use super::target::Target;
use super::view::View;
use super::watched::Watched;
use super::{DemoError, MAIN_TABLE};
use crate::clock::Stopwatch;

/// How often what is due is offered.
const OFFER_EVERY: Duration = Duration::from_millis(50);

/// How often the run is looked at.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);

/// How long the demo waits for the last flights to be written before it gives up: several times
/// what the target takes to answer at most.
const DRAIN_LIMIT: Duration = Duration::from_mins(2);

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

/// What a run works on.
pub(super) struct Run<'a> {
    pub(super) stack: &'a Stack,
    pub(super) target: &'a Target,
    pub(super) plan: &'a Plan,
    pub(super) airports: &'a [Airport],
    pub(super) watched: Watched,
}

/// Runs the plan on a stack, and shows it.
pub(super) async fn load(run: &Run<'_>, view: &mut View) -> Result<Loaded, DemoError> {
    let Run { target, plan, airports, .. } = run;
    let mut offers =
        plan.rates.iter().map(|rate| Offers::new(*rate, plan.in_flight)).collect::<Vec<_>>();
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
                offers[key].answered(watch.elapsed(), flights, refused, unknown);
                continue;
            }
            _ = sampling.tick() => true,
            _ = offering.tick() => false,
        };
        let at = watch.elapsed();
        for (key, (offers, airport)) in offers.iter_mut().zip(*airports).enumerate() {
            let batches = match stage {
                Stage::Growing | Stage::Measuring { .. } => offers.due(at),
                Stage::Draining { .. } | Stage::Closing => offers.rest(),
            };
            in_flight.extend(batches.into_iter().map(|batch| send(target, airport, key, batch)));
        }
        if sample {
            history.samples.push(look(run, at, offers.iter().map(|offers| offers.counts)));
            stage = stage.next(&history, plan);
            view.load(&history, stage);
        }
        if let Stage::Draining { since, steady } = stage {
            let flights = offers.iter().map(|offers| offers.flights).collect();
            if offers.iter().all(Offers::is_done) {
                history.samples.push(look(run, at, offers.iter().map(|offers| offers.counts)));
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
    run: &Run<'_>,
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
        history.samples.push(look(run, at, counts.iter().copied()));
        view.load(history, Stage::Closing);
        if run.watched.is_stable() || at >= until {
            return run.watched.is_stable();
        }
    }
}

fn look(run: &Run<'_>, at: Duration, counts: impl Iterator<Item = Counts>) -> Sample {
    let mut counters = run.stack.counters();
    let keys = counts.zip(run.watched.collections());
    let keys = keys.map(|(counts, collection)| KeySample { counts, collection });
    Sample {
        at,
        keys: keys.collect(),
        throttles: counters.throttles.remove(MAIN_TABLE).unwrap_or_default(),
        operations: counters.tables.remove(MAIN_TABLE).unwrap_or_default(),
        alarms: run
            .stack
            .alarms()
            .into_iter()
            .map(|(name, state)| (name, state.as_str().to_owned()))
            .collect(),
    }
}

/// What became of one batch.
pub(super) struct Answer {
    pub(super) key: usize,
    pub(super) flights: usize,
    pub(super) refused: Vec<usize>,
    pub(super) unknown: usize,
}

/// Sends one batch of an airport's flights.
pub(super) async fn send(
    target: &Target,
    airport: &Airport,
    key: usize,
    batch: Vec<usize>,
) -> Result<Answer, DemoError> {
    let flights = batch.iter().map(|number| airport.flight(*number)).collect::<Vec<_>>();
    let unprocessed = target.put(&airport.code, &flights).await?;
    let flights = flights.into_iter().map(|flight| flight.sk);
    let numbers = flights.zip(batch).collect::<HashMap<_, _>>();
    let refused = unprocessed.sort_keys.iter().map(|sk| numbers.get(sk).copied());
    let refused = refused
        .collect::<Option<_>>()
        .ok_or(DemoError::BadAnswer("sort key that was sent in what is unprocessed"))?;
    Ok(Answer { key, flights: numbers.len(), refused, unknown: unprocessed.unknown })
}
