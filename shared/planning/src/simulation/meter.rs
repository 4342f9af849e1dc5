//! The reports of simulated environments.

use std::time::Duration;

use dynashard_core::{Bucket, Ledger, Measures, Span, report_chance};

use super::chance::Chance;
use super::{epoch, index};

/// For how long environments have been throttled when they report, as they reckon: whoever was granted nothing reports
/// seldom then.
const THROTTLED_SECS: f64 = 4.0;
/// The seconds before a throttle that environments still know.
const KNOWN_BEFORE: u32 = 6;
/// The seconds of which single figures are known.
const REMEMBERED: usize = 180;

/// What the environments of the functions see of one collection, and report.
#[derive(Debug)]
pub(super) struct Meter {
    environments: u32,
    pub(super) heat: Ledger,
    pub(super) load: Ledger,
    /// The units that were asked for and granted in the last seconds.
    seen: Vec<(f64, f64)>,
    reported_until: u32,
}

impl Meter {
    pub(super) fn new(environments: u32) -> Self {
        Self {
            environments,
            heat: Ledger::default(),
            load: Ledger::default(),
            seen: vec![(0.0, 0.0); REMEMBERED],
            reported_until: 0,
        }
    }

    /// The end of a second in which so many units were asked for and granted.
    pub(super) fn see(&mut self, second: u32, asked: f64, granted: f64) {
        self.seen[index(second) % REMEMBERED] = (asked, granted);
    }

    /// The mean of what was asked for and granted in the minute that ended before this second, which is one of the last.
    pub(super) fn minute_before(&self, end: u32) -> (f64, f64) {
        let seconds = (end.saturating_sub(60)..end).map(|second| self.at(second));
        let sum = seconds.fold((0.0, 0.0), |(asked, granted), (more_asked, more_granted)| {
            (asked + more_asked, granted + more_granted)
        });
        (sum.0 / 60.0, sum.1 / 60.0)
    }

    /// Each environment adds what it has seen since the last time, with a chance that goes with what it was granted of
    /// the `capacity` of the shards, and scaled by that.
    pub(super) fn report_heat(&mut self, second: u32, capacity: f64, chance: &mut Chance) {
        let known = second.saturating_sub(KNOWN_BEFORE - 1).max(self.reported_until);
        let share = 1.0 / f64::from(self.environments);
        let (asked, granted) = self.at(second);
        let seen = (share * asked, share * granted);
        let likely = report_chance(seen, capacity, THROTTLED_SECS);
        for _ in 0..self.environments {
            if chance.uniform() >= likely {
                continue;
            }
            for seen in known..=second {
                let (asked, granted) = self.at(seen);
                let measures = self.heat.buckets.entry(bucket(seen)).or_default();
                measures.writes += share * asked / likely;
                measures.write_units += share * asked / likely;
                measures.written_units += share * granted / likely;
                measures.refused_units += share * (asked - granted).max(0.0) / likely;
            }
            let measures = self.heat.buckets.entry(bucket(second)).or_default();
            measures.reports += 1.0;
            measures.environments += 1.0 / likely;
        }
        self.reported_until = second + 1;
        forget(&mut self.heat, second);
    }

    /// All environments add what they have seen in the minute that ends with this second.
    pub(super) fn report_load(&mut self, second: u32) {
        let (asked, _) = self.minute_before(second + 1);
        let measures = Measures {
            reports: f64::from(self.environments),
            environments: f64::from(self.environments),
            writes: 60.0 * asked,
            write_units: 60.0 * asked,
            ..Measures::default()
        };
        let now = epoch(second);
        for span in [Span::Minute, Span::Hour] {
            self.load.buckets.entry(Bucket::of(span, now)).or_default().add(&measures);
        }
        forget(&mut self.load, second);
    }

    fn at(&self, second: u32) -> (f64, f64) {
        self.seen[index(second) % REMEMBERED]
    }
}

/// Keeps as many buckets as the ledgers of the functions do.
fn forget(ledger: &mut Ledger, second: u32) {
    let now = epoch(second).as_secs();
    ledger.buckets.retain(|Bucket { span, start_secs }, _| {
        start_secs + (span.kept() + 1) * span.secs() > now
    });
}

fn bucket(second: u32) -> Bucket {
    Bucket { span: Span::Second, start_secs: epoch(second).as_secs() }
}

/// What is reported at the end of a second is added a moment later.
pub(super) fn added(second: u32) -> Duration {
    epoch(second) + Duration::from_millis(1_700)
}
