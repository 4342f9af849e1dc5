use std::num::NonZeroU32;
use std::time::Duration;

use dynashard_limits::Units;
use dynashard_limits::partition::{Demand, Kind, Limits, Partitions, Resource, Throughput};

use super::scenario::Capacity;

const TABLE: &str = "T";

/// What an on-demand table takes at first, and the minutes of auto scaling
/// ([auto scaling](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/AutoScaling.html)).
const ON_DEMAND_AT_FIRST: f64 = 4_000.0;
const HIGH_MINUTES: u32 = 2;
const TARGET: f64 = 0.7;

/// Writes are admitted in portions: what passes is told to a few writes, at a fraction of the time.
const PORTION: u64 = 8;

/// The table, with what it takes over time.
#[derive(Debug)]
pub(super) struct Table {
    partitions: Partitions,
    capacity: Capacity,
    /// The largest minute so far, a second.
    peak: f64,
    provisioned: u32,
    high_minutes: u32,
    /// The units of this minute.
    consumed: f64,
}

/// What became of some writes.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) written: u64,
    /// Why the rest was refused, as DynamoDB names it.
    pub(super) reason: Option<&'static str>,
}

impl Table {
    pub(super) fn new(capacity: Capacity, partitions: NonZeroU32) -> Self {
        // What an on-demand table takes is not saved up.
        let burst_secs = if matches!(capacity, Capacity::OnDemand) { 1 } else { 300 };
        let limits = Limits { partitions, burst_secs, ..Limits::default() };
        let provisioned = match capacity {
            Capacity::OnDemand => 0,
            Capacity::Provisioned { write_units, .. } => write_units.get(),
        };
        let mut table = Self {
            partitions: Partitions::new(limits),
            capacity,
            peak: 0.0,
            provisioned,
            high_minutes: 0,
            consumed: 0.0,
        };
        table.set(Duration::ZERO);
        table
    }

    /// Writes so many items of one physical key, as far as they are admitted.
    pub(super) fn write(&mut self, now: Duration, key: &str, items: u64, units: u64) -> Outcome {
        let mut outcome = Outcome::default();
        let mut portion = PORTION;
        while outcome.written < items {
            portion = portion.min(items - outcome.written);
            let demand = Demand {
                resource: Resource::table(TABLE),
                partition_key: key,
                sort_key: None,
                kind: Kind::Write,
                units: Units::whole(portion * units),
            };
            match self.partitions.admit(now, &[demand]) {
                Ok(()) => outcome.written += portion,
                Err(_) if portion > 1 => portion /= 2,
                Err(refusal) => {
                    outcome.reason = Some(refusal.first().reason());
                    break;
                }
            }
        }
        self.consumed += crate::float(outcome.written * units);
        outcome
    }

    /// The end of a minute: the table adapts to what it was asked for.
    pub(super) fn end_minute(&mut self, now: Duration) {
        let mean = self.consumed / 60.0;
        self.consumed = 0.0;
        self.peak = self.peak.max(mean);
        if let Capacity::Provisioned { write_units, most_write_units } = self.capacity {
            let is_high = mean > TARGET * f64::from(self.provisioned);
            self.high_minutes = if is_high { self.high_minutes + 1 } else { 0 };
            if self.high_minutes >= HIGH_MINUTES {
                let wanted = whole(mean / TARGET);
                self.provisioned = wanted.clamp(write_units.get(), most_write_units.get());
                self.high_minutes = 0;
            }
        }
        self.set(now);
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

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are checked")]
fn whole(units: f64) -> u32 {
    units.ceil() as u32
}
