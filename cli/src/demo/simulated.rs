//! The load of the run in the simulation of `dynashard simulate`, beside what the stack made of it.

use std::num::NonZeroU32;
use std::time::Duration;

use dynashard_core::Settings;
use dynashard_planning::simulation::{Recording, Run, Scenario, Strategy};
use serde::Serialize;

use super::history::History;
use crate::numbers::float;

/// The size of a flight, which is below the KB that a write unit takes.
const FLIGHT_BYTES: u32 = 512;

/// The cooldown of the rule that the run is compared with. It is in its favour: the article's example takes minutes.
pub(super) const COOLDOWN_OF_ONE_MORE: Duration = Duration::from_secs(10);

/// What was absorbed of the writes that were offered, from the first until the counts had settled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct AbsorbedShare {
    /// By the stack.
    pub(super) measured: f64,
    /// By the partition model and the scaling decision alone.
    pub(super) simulated: f64,
    /// By the rule of one shard more after each cooldown, in the same simulation.
    pub(super) one_more: f64,
}

impl AbsorbedShare {
    /// Simulates a run up to a sample, under the settings of its stack. None where nothing could be simulated.
    pub(super) fn of(
        history: &History,
        until: usize,
        settings: &Settings,
        environments: usize,
    ) -> Option<Self> {
        let counts = |sample: usize, key: usize| history.samples[sample].keys[key].counts;
        let keys = || history.keys.iter().enumerate();
        let absorbed = keys().map(|(key, _)| counts(until, key).absorbed).sum::<u64>();
        let offered = keys().map(|(key, _)| counts(until, key).offered).sum::<u64>();
        let writes = (1..=until).flat_map(|sample| {
            keys().map(move |(key, (name, _))| {
                let second = history.samples[sample - 1].at.as_secs();
                let count = counts(sample, key).offered - counts(sample - 1, key).offered;
                let second = i64::try_from(second).unwrap_or(i64::MAX);
                (name.clone(), second, u32::try_from(count).unwrap_or(u32::MAX))
            })
        });
        let environments = u32::try_from(environments).ok().and_then(NonZeroU32::new)?;
        let scenario =
            Scenario { environments, ..Scenario::recorded(Recording::of(writes), FLIGHT_BYTES) };
        let mut settings = settings.clone();
        settings.partition.write_units = history.partition_wcu;
        let run = Run::of(&scenario, Strategy::Dynashard, &settings, 1).ok()?;
        let mut patient = settings;
        patient.scaling.cooldown = COOLDOWN_OF_ONE_MORE;
        let one_more = Run::of(&scenario, Strategy::OneMore, &patient, 1).ok()?;
        Some(Self {
            measured: float(absorbed) / float(offered.max(1)),
            simulated: run.absorbed_share(),
            one_more: one_more.absorbed_share(),
        })
    }
}
