//! Which operations are new: a sample of them by the hash of their keys.
//!
//! A client that is refused sends the same operation again, and Lambda gives that to any environment, which has not refused
//! it and takes it for new. So environments also write down *which* operations they have answered: those whose hash is
//! below a threshold, the same for all of them. An operation whose last answer was a refusal of the last seconds comes
//! again, however often and wherever it comes.
//!
//! That says nothing where clients write the same items again and again though nothing was refused, as devices do that
//! report a state. There what comes again is demand, and all of it counts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use crate::model::ledger::entry::{Bucket, HIGHEST_LEVEL, Ledger, SAMPLES_KEPT_SECS, Span};
use crate::model::ledger::measures::Measures;

/// An operation of a sample: the upper 31 bits of its key's hash, and then whether it was refused. Must be kept stable.
pub(crate) type Sampled = u32;

/// The sampled operations of a second that are meant for one collection, if it is asked for [`OVERLOAD`] times what it takes.
const SAMPLED_PER_SEC: f64 = 24.0;
/// How many times its capacity a collection is expected to be asked for.
const OVERLOAD: f64 = 8.0;
/// The level of the largest collections that are not asked for more than [`OVERLOAD`].
const HIGHEST_LEVEL_OF_SIZE: u8 = 14;

/// How long after a refusal the same operation counts as sent again: the longest `Retry-After`, and a second on the way.
pub(crate) const RESENT_WITHIN: Duration = Duration::from_secs(5);
/// A second with fewer sampled operations tells nothing.
const LEAST_SAMPLED: usize = 8;
/// From this part on of the operations that were granted and come again, what comes again is new demand.
const OFTEN: f64 = 0.3;

/// Of two to this power operations one is sampled, where so many units a second are granted.
pub(crate) fn level_of(capacity: f64) -> u8 {
    level_for(capacity * OVERLOAD / SAMPLED_PER_SEC).min(HIGHEST_LEVEL_OF_SIZE)
}

/// How much smaller than [`level_of`] says the next sample is to be, if it has had so many operations a second: they are
/// bounded, however many come again.
pub(crate) fn next_level(above: u8, per_sec: f64) -> u8 {
    if per_sec > 2.0 * SAMPLED_PER_SEC {
        let more = level_for(per_sec / SAMPLED_PER_SEC);
        (above + more).min(HIGHEST_LEVEL - HIGHEST_LEVEL_OF_SIZE)
    } else if per_sec < SAMPLED_PER_SEC / 4.0 {
        above.saturating_sub(1)
    } else {
        above
    }
}

/// The level at which one of so many is sampled, or a few more.
fn level_for(one_of: f64) -> u8 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
    let level = one_of.max(1.0).log2() as u8;
    level
}

/// The operation with this hash, if it is of the sample of a level.
pub(crate) fn sampled(hash: u64, level: u8, is_refused: bool) -> Option<Sampled> {
    let upper = u32::try_from(hash >> 33).unwrap_or(u32::MAX);
    let code = upper << 1 | u32::from(is_refused);
    is_of(code, level).then_some(code)
}

/// Whether an operation is of the sample of a level.
pub(crate) fn is_of(code: Sampled, level: u8) -> bool {
    code.checked_shr(32 - u32::from(level)).unwrap_or(0) == 0
}

/// What the samples of the last seconds say, in operations a second.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Newcomers {
    /// By the second, the operations that nobody had refused before.
    new: BTreeMap<u64, Estimate>,
    /// The operations that were refused in the last seconds and have not come through since.
    pub(crate) waiting: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Estimate {
    sampled: usize,
    new: f64,
    /// How far off it is, in two of three samples.
    off: f64,
}

impl Newcomers {
    pub(crate) fn of(ledger: &Ledger, now: Duration) -> Self {
        let oldest = now.as_secs().saturating_sub(SAMPLES_KEPT_SECS);
        let recent = oldest..=now.as_secs();
        let samples = ledger.sampled.iter().filter(|((bucket, _), _)| {
            bucket.span == Span::Second && recent.contains(&bucket.start_secs)
        });
        let samples = samples.collect::<Vec<_>>();
        let Some(level) = samples.iter().map(|((_, level), _)| *level).max() else {
            return Self::default();
        };
        let mut seconds = BTreeMap::<u64, BTreeMap<u32, bool>>::new();
        for ((bucket, _), codes) in samples {
            for code in codes.iter().filter(|code| is_of(**code, level)) {
                // What was refused and then granted in one second has come through.
                let is_refused = seconds.entry(bucket.start_secs).or_default().entry(code >> 1);
                let is_refused = is_refused.or_insert(true);
                *is_refused &= code & 1 == 1;
            }
        }
        let mut last = HashMap::<u32, (u64, bool)>::new();
        let (mut granted, mut granted_again) = (0.0, 0.0);
        let mut new = BTreeMap::new();
        let scale = 2_f64.powi(i32::from(level));
        for (second, operations) in &seconds {
            let mut newcomers = 0.0;
            for (operation, is_refused) in operations {
                let before = last.insert(*operation, (*second, *is_refused));
                match before.filter(|(at, _)| at + RESENT_WITHIN.as_secs() >= *second) {
                    Some((_, true)) => {}
                    Some((_, false)) => {
                        granted_again += 1.0;
                        newcomers += 1.0;
                    }
                    None => newcomers += 1.0,
                }
                granted += f64::from(u8::from(!is_refused));
            }
            let off = if level > 0 { f64::sqrt(newcomers) * scale } else { 0.0 };
            let new_ones = newcomers * scale;
            new.insert(*second, Estimate { sampled: operations.len(), new: new_ones, off });
        }
        if granted_again > OFTEN * granted {
            return Self::default();
        }
        let newest = seconds.keys().next_back().copied().unwrap_or_default();
        let waiting = last
            .values()
            .filter(|(at, is_refused)| *is_refused && at + RESENT_WITHIN.as_secs() > newest);
        #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
        let waiting = waiting.count() as f64 * scale;
        Self { new, waiting }
    }

    /// What was new of the writes of a second, of which no environment that reports had refused any before. What is reported
    /// is exact, and may lack environments and hold what comes again; the sample lacks nothing, and is rough. So what is
    /// reported counts as far as the sample allows.
    pub(crate) fn of_second(&self, start_secs: u64, measures: &Measures) -> Measures {
        let known = self.new.get(&start_secs).filter(|it| it.sampled >= LEAST_SAMPLED);
        let Some(Estimate { new, off, .. }) = known else { return *measures };
        let writes = measures.writes.max(new - off).min(new + off);
        let units_each = match measures.writes {
            reported if reported > 0.0 => measures.write_units / reported,
            _ => 1.0,
        };
        // What was granted was asked for.
        let write_units = (writes * units_each).max(measures.written_units);
        Measures { writes, write_units, ..*measures }
    }
}

impl Ledger {
    /// The seconds that this moment is not ahead of, oldest first, with the writes that were new.
    pub(crate) fn seconds(&self, now: Duration) -> (Newcomers, Vec<(Bucket, Measures)>) {
        let newcomers = Newcomers::of(self, now);
        let seconds = self.of(Span::Second, now);
        let seconds = seconds
            .map(|(bucket, measures)| (bucket, newcomers.of_second(bucket.start_secs, measures)));
        let seconds = seconds.collect();
        (newcomers, seconds)
    }
}

/// The samples of one environment that no ledger has yet, by the second.
pub(crate) type Samples = BTreeMap<u64, BTreeSet<Sampled>>;

#[cfg(test)]
mod tests;
