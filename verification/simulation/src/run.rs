//! One run, from its seed to its verdict.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use dynashard_core::{CollectionMetadata, leases_end};
use dynashard_keys::ItemKey;

use crate::kernel::{Ended, Executor, Kernel, Slot};
use crate::random::Random;
use crate::scenario::{Mutation, Scenario};
use crate::world::World;
use crate::{clients, operators, triggers};

/// What one run has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What it was drawn from.
    pub seed: u64,
    /// Every way in which the system broke a promise; empty where it kept all of them.
    pub violations: Vec<String>,
    /// Two runs with the same hash did the same things at the same times.
    pub trace_hash: u64,
    /// How many operations clients began.
    pub operations: u64,
    /// How many reshards closed.
    pub reshards: u64,
    /// How much time passed in the simulated world.
    pub virtual_time: Duration,
}

/// No run of clients and operators takes longer, in virtual time.
pub(crate) const LONGEST_RUN: Duration = Duration::from_hours(2);

/// Runs one seed. With `print` everything that happens is written to standard output.
pub fn run(seed: u64, mutation: Option<Mutation>, print: bool) -> Report {
    let random = Random::new(seed);
    let scenario = Scenario::draw(&random, mutation);
    let kernel = Kernel::new(random.next_u64(), scenario.rates, print);
    kernel.trace(|| format!("{scenario:?}"));
    let world = World::new(kernel.clone(), scenario);
    let mut executor = Executor::new(kernel.clone());
    let finished = catch_unwind(AssertUnwindSafe(|| play(&world, &mut executor)));
    if let Err(panic) = finished {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let text = text.unwrap_or_default();
        world.history().violations.push(format!("panicked: {text}"));
    }
    let report = report(seed, &world);
    // Tasks and messages hold on to the world, and the world to them.
    drop(executor);
    kernel.clear();
    report
}

pub(crate) fn report(seed: u64, world: &World) -> Report {
    let history = world.history();
    let reshards = world.network.tables().closed.len();
    Report {
        seed,
        violations: history.violations.clone(),
        trace_hash: world.kernel.trace_hash(),
        operations: history.calls,
        reshards: u64::try_from(reshards).unwrap_or(u64::MAX),
        virtual_time: world.kernel.now(),
    }
}

/// Lets everybody do their worst, then has everything come to rest, and looks at what is left.
fn play(world: &World, executor: &mut Executor) {
    let kernel = &world.kernel;
    let programs = world.scenario.clients;
    let mut ends = Vec::new();
    for _ in 0..programs {
        ends.push(kernel.spawn(world.outside, clients::run(world.clone())));
    }
    ends.push(kernel.spawn(world.outside, operators::run(world.clone())));
    ends.push(kernel.spawn(world.outside, operators::change_paces(world.clone())));
    if let Some(dates) = world.scenario.next_dates {
        ends.push(kernel.spawn(world.outside, operators::change_dates(world.clone(), dates)));
    }
    if let Some(term) = world.scenario.next_term {
        ends.push(kernel.spawn(world.outside, operators::change_lease(world.clone(), term)));
    }
    if world.scenario.begins_with_list {
        ends.push(kernel.spawn(world.outside, operators::convert(world.clone())));
    }
    if world.scenario.items_expire {
        kernel.spawn(world.outside, operators::expire_items(world.clone()));
    }
    kernel.spawn(world.outside, operators::follow_stream(world.clone()));
    kernel.spawn(world.outside, operators::follow_schedule(world.clone()));
    let ended = executor.run_until(LONGEST_RUN, || ends.iter().all(Slot::is_over));
    if ended != Ended::Reached {
        let what = format!("clients and operators did not come to an end: {ended:?}");
        world.history().violations.push(what);
        return;
    }
    kernel.be_kind();
    kernel.trace(|| "from here on nothing goes wrong".to_owned());
    come_to_rest(world, executor);
    inspect(world);
    triggers::inspect(world);
    world.history().check();
}

/// With no accidents any more, running reshards close in bounded time, and what is still under way
/// arrives or never does.
fn come_to_rest(world: &World, executor: &mut Executor) {
    let scenario = &world.scenario;
    // A request that is still on its way may even begin another reshard.
    let quiet = scenario.executed_within + scenario.visible_within;
    executor.run_until(world.kernel.now() + quiet, || false);
    let term = scenario.settings.lease_term;
    let settle = leases_end(scenario.next_term.map_or(term, |next| next.max(term)));
    // Waits of one reshard: leases twice, requests, visibility twice; and it may be turned round.
    let mut one = settle * 5 + scenario.executed_within + scenario.visible_within;
    if scenario.next_dates.is_some() {
        // What is assumed of DynamoDB is waited for as long as there.
        one += Duration::from_secs(45);
    }
    let bound = world.kernel.now() + one * 2 + Duration::from_mins(2);
    while !world.network.tables().is_settled() {
        if world.kernel.now() >= bound {
            let tables = world.network.tables();
            let what = format!(
                "still not closed {:?} after the last accident: {:?}",
                bound, tables.records
            );
            world.history().violations.push(what);
            return;
        }
        operators::sweep_in_peace(world);
        let next = world.kernel.now() + Duration::from_secs(5);
        executor.run_until(next.min(bound), || false);
    }
    executor.run_until(world.kernel.now() + quiet, || false);
}

/// What lies in the tables at the end.
/// Invariant I4.
fn inspect(world: &World) {
    let tables = world.network.tables();
    let mut history = world.history();
    let mut found = BTreeMap::new();
    for what in &tables.wrong_requests {
        history.violations.push(format!("DynamoDB would have refused a request: {what}"));
    }
    let separator = world.settings().schema.separator;
    for (at, item, written_at) in tables.contents() {
        let Ok((partition, suffix)) =
            dynashard_keys::PhysicalPartitionKey::parse(at.partition.as_str(), separator)
        else {
            history.violations.push(format!("{at:?} is not a key of a shard"));
            continue;
        };
        let cold = CollectionMetadata::cold(partition.clone(), world.settings().placement);
        let metadata = tables.records.get(&partition).unwrap_or(cold);
        let shard = suffix.unwrap_or(metadata.placement.first());
        if item.generation > metadata.generation {
            history.violations.push(format!("{at:?} is ahead of its metadata: {item:?}"));
        }
        if item.forwarded {
            // A request that was signed just before the close may leave one that nobody looks for.
            // It counts as absent everywhere.
            let closed = tables.closed.get(&(partition, item.generation));
            if closed.is_none_or(|closed| written_at < *closed) {
                history.violations.push(format!("{at:?} is a marker that was left"));
            }
            continue;
        }
        let key = ItemKey::new(partition, at.sort.clone());
        let metadata = Arc::new(metadata).at(&at.sort);
        let count = metadata.number_of_shards;
        let is_home = match metadata.placement.home(&key, count) {
            Some(home) => home == shard,
            None => metadata.placement.shards(count).any(|other| other == shard),
        };
        if !is_home {
            history.violations.push(format!("{at:?} is not at home: {item:?}"));
        }
        if found.insert(key, item).is_some() {
            history.violations.push(format!("{at:?} is there twice"));
        }
    }
    let now = world.kernel.now();
    let keys = history.keys().cloned().collect::<Vec<_>>();
    for key in keys {
        let item = found.remove(&key);
        history.saw(&key, item.as_ref(), now, now + Duration::from_nanos(1));
    }
    for (key, item) in found {
        history.violations.push(format!("{key:?} holds what nobody wrote: {item:?}"));
    }
}
