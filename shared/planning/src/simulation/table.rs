//! The table of a simulation: what it takes over time.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;

use dynashard_core::PartitionLimits;
use dynashard_limits::Units;
use dynashard_limits::partition::{Demand, Kind, Limits, Partitions, Resource, Throughput};

use super::scenario::{Capacity, Scenario, SortKeys};

const TABLE: &str = "T";

/// What an on-demand table takes at first, and the minutes of auto scaling
/// ([auto scaling](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/AutoScaling.html)).
const ON_DEMAND_AT_FIRST: f64 = 4_000.0;
const HIGH_MINUTES: u32 = 2;
const LOW_MINUTES: u32 = 15;
const TARGET: f64 = 0.7;
/// Below this part of what is provisioned it is lowered.
const LOW: f64 = 0.5;

/// How long a partition throttles before it is split for heat. AWS names no time; minutes are what people see.
const HOT_MINUTES: u32 = 5;

/// Writes are admitted in portions: what passes is told to a few writes, at a fraction of the time.
const PORTION: u64 = 8;

/// The table, with what it takes over time.
#[derive(Debug)]
pub(super) struct Table {
    partitions: Partitions,
    capacity: Capacity,
    sort_keys: SortKeys,
    /// The largest minute so far, a second.
    peak: f64,
    provisioned: u32,
    high_minutes: u32,
    low_minutes: u32,
    /// The units of this minute.
    consumed: f64,
    /// The physical keys that were throttled in this minute.
    throttled: BTreeSet<String>,
    /// Those that throttle, for how many minutes in a row.
    hot: BTreeMap<String, u32>,
    /// Those whose partition was split, with the partitions of each.
    split: BTreeMap<String, Vec<String>>,
}

/// What became of some writes.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) written: u64,
    /// Why the rest was refused, as DynamoDB names it.
    pub(super) reason: Option<&'static str>,
}

impl Table {
    pub(super) fn new(scenario: &Scenario, partition: PartitionLimits) -> Self {
        let capacity = scenario.capacity;
        let units = |units: u32| NonZeroU32::new(units).unwrap_or(NonZeroU32::MIN);
        let limits = Limits {
            partitions: scenario.partitions,
            partition_wcu: units(partition.write_units),
            partition_rcu: units(partition.read_units),
            // What an on-demand table takes is not saved up.
            burst_secs: if matches!(capacity, Capacity::OnDemand) { 1 } else { 300 },
            ..Limits::default()
        };
        let provisioned = match capacity {
            Capacity::OnDemand => 0,
            Capacity::Provisioned { write_units, .. } => write_units.get(),
        };
        let mut table = Self {
            partitions: Partitions::new(limits),
            capacity,
            sort_keys: scenario.sort_keys,
            peak: 0.0,
            provisioned,
            high_minutes: 0,
            low_minutes: 0,
            consumed: 0.0,
            throttled: BTreeSet::new(),
            hot: BTreeMap::new(),
            split: BTreeMap::new(),
        };
        table.set(Duration::ZERO);
        table
    }

    /// The write units that are provisioned now; 0 on demand.
    pub(super) const fn provisioned(&self) -> u32 {
        self.provisioned
    }

    /// Writes so many items of one physical key, as far as they are admitted.
    pub(super) fn write(&mut self, now: Duration, key: &str, items: u64, units: u64) -> Outcome {
        let mut outcome = Outcome::default();
        match self.split.get(key) {
            None => outcome = admit(&mut self.partitions, now, &[key], items, units),
            Some(parts) => {
                let each = items.div_ceil(u64::try_from(parts.len()).unwrap_or(1));
                let mut left = items;
                for part in parts {
                    let of_part = admit(&mut self.partitions, now, &[part], each.min(left), units);
                    left -= each.min(left);
                    outcome.written += of_part.written;
                    outcome.reason = outcome.reason.or(of_part.reason);
                }
            }
        }
        if outcome.reason.is_some() && !self.throttled.contains(key) {
            self.throttled.insert(key.to_owned());
        }
        self.consumed += crate::float(outcome.written * units);
        outcome
    }

    /// Moves so many items from one physical key to another, each by a transaction that takes `units` of both. Returns how
    /// many it moved.
    pub(super) fn transfer(
        &mut self,
        now: Duration,
        (from, to): (&str, &str),
        items: u64,
        units: u64,
    ) -> u64 {
        let moved = admit(&mut self.partitions, now, &[from, to], items, units).written;
        self.consumed += crate::float(2 * moved * units);
        moved
    }

    /// The end of a minute: the table adapts to what it was asked for.
    pub(super) fn end_minute(&mut self, now: Duration) {
        let mean = self.consumed / 60.0;
        self.consumed = 0.0;
        self.peak = self.peak.max(mean);
        if let Capacity::Provisioned { write_units, most_write_units } = self.capacity {
            let is_high = mean > TARGET * f64::from(self.provisioned);
            self.high_minutes = if is_high { self.high_minutes + 1 } else { 0 };
            let is_low = mean < LOW * f64::from(self.provisioned);
            self.low_minutes = if is_low { self.low_minutes + 1 } else { 0 };
            if self.high_minutes >= HIGH_MINUTES || self.low_minutes >= LOW_MINUTES {
                let wanted = whole(mean / TARGET);
                self.provisioned = wanted.clamp(write_units.get(), most_write_units.get());
                (self.high_minutes, self.low_minutes) = (0, 0);
            }
        }
        self.set(now);
        self.split_for_heat();
    }

    /// Halves partitions that have been hot for minutes. Where sort keys grow, one half would get every write, and DynamoDB
    /// leaves the partition alone.
    fn split_for_heat(&mut self) {
        let throttled = std::mem::take(&mut self.throttled);
        if self.sort_keys == SortKeys::Growing {
            return;
        }
        let mut before = std::mem::take(&mut self.hot);
        for key in throttled {
            let minutes = before.remove(&key).unwrap_or(0) + 1;
            if minutes < HOT_MINUTES {
                self.hot.insert(key, minutes);
                continue;
            }
            let parts = self.split.get(&key).map_or(1, Vec::len);
            let parts = (0..2 * parts).map(|part| format!("{key}\n{part}")).collect();
            self.split.insert(key, parts);
        }
    }

    fn set(&mut self, now: Duration) {
        let units = match self.capacity {
            Capacity::OnDemand => whole((2.0 * self.peak).max(ON_DEMAND_AT_FIRST)),
            Capacity::Provisioned { .. } => self.provisioned,
        };
        let units = NonZeroU32::new(units).unwrap_or(NonZeroU32::MIN);
        self.partitions.set_table(
            now,
            TABLE,
            Throughput::Provisioned { rcu: units, wcu: units },
            [],
        );
    }
}

/// Admits as many of the items as there is room for, each with `units` of every key.
fn admit(
    partitions: &mut Partitions,
    now: Duration,
    keys: &[&str],
    items: u64,
    units: u64,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut portion = PORTION;
    while outcome.written < items {
        portion = portion.min(items - outcome.written);
        let demand = |key| Demand {
            resource: Resource::table(TABLE),
            partition_key: key,
            sort_key: None,
            kind: Kind::Write,
            units: Units::whole(portion * units),
        };
        let admitted = match keys {
            [one] => partitions.admit(now, &[demand(*one)]),
            _ => partitions.admit(now, &keys.iter().map(|key| demand(*key)).collect::<Vec<_>>()),
        };
        match admitted {
            Ok(()) => outcome.written += portion,
            Err(_) if portion > 1 => portion /= 2,
            Err(refusal) => {
                outcome.reason = Some(refusal.first().reason);
                break;
            }
        }
    }
    outcome
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are checked")]
fn whole(units: f64) -> u32 {
    units.ceil() as u32
}
