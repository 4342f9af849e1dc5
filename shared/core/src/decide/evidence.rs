//! What the ledgers say of the last seconds: demand, what was granted, and how sure that is.

use std::time::Duration;

use crate::model::ledger::{Ledger, Measures, Span};
use crate::model::policy::Access;

/// How long after its end a second is complete: all have reported it, functions that are slow to run included.
pub(crate) const COMPLETE_AFTER: Duration = Duration::from_millis(400);

/// The demand for one kind of access, as the heat ledger shows it.
///
/// A second is complete when every environment has had the time to report it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heat {
    /// What was asked for in each complete second, in units, newest first.
    rates: Vec<f64>,
    /// Whether a whole second lies behind the last step of the demand, or several batches. A change that is sized
    /// from less cannot be corrected before it has closed.
    pub(crate) is_at_rest: bool,
    /// What is known so far of the second behind the newest complete one.
    partial: f64,
    /// Whether it was throttled before the newest complete second, so that this one is a whole second of what throttles.
    was_throttled: bool,
    /// What was granted in each complete second, on average.
    pub(crate) granted: f64,
    /// What was asked for, granted and refused in the seconds from which the demand is taken: what came before its last step
    /// does not count. Clients that send batches, or wait for what is refused, ask for much in one second and for nothing in
    /// the next, so theirs is taken from all since the first batch.
    sized: Sized,
    /// What was granted in each complete second in which more than now and then a write was refused, with how many seconds ago
    /// that was.
    granted_when_throttled: Vec<(usize, f64)>,
    /// The units that clients wait for whose requests were refused.
    waiting: f64,
    /// The share of the hottest sort key, where environments can tell.
    pub(crate) hottest_share: Option<f64>,
    /// The read units that queries ask for, a second.
    pub(crate) query_units: f64,
}

/// Means over some seconds, a second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Sized {
    asked: f64,
    granted: f64,
    refused: f64,
    /// The square of how far the samples of what is asked for may be off.
    variance: f64,
}

/// The seconds that are looked at, at most.
const LONGEST_SECS: u64 = 10;
/// The units of which the hottest sort key must be known to be believed.
const LEAST_RANKED_UNITS: f64 = 10.0;
/// The seconds from which a mean is taken for sizing, at most.
const SIZED_FROM: usize = 3;
/// A second with less than this part of the highest one lies before a step, or between two batches.
const SAME_LEVEL: f64 = 0.5;

impl Heat {
    pub(crate) fn of(ledger: &Ledger, access: Access, now: Duration) -> Self {
        let (newcomers, seconds) = ledger.seconds(now);
        let at = |start: u64| {
            let found = seconds.iter().find(|(bucket, _)| bucket.start_secs == start);
            found.map(|(_, measures)| *measures).unwrap_or_default()
        };
        let newest = now.saturating_sub(COMPLETE_AFTER).as_secs().saturating_sub(1);
        let oldest = newest.saturating_sub(LONGEST_SECS - 1);
        // What comes again was asked for before, and shows in what is granted or refused alone.
        let is_seen =
            |m: &Measures| units(m, access) + granted(m, access) + refused(m, access) > 0.0;
        let seen = seconds.iter().filter(|(_, measures)| is_seen(measures));
        let first = seen.map(|(bucket, _)| bucket.start_secs).find(|start| *start >= oldest);
        let complete = match first {
            Some(first) => (first..=newest).rev().map(at).collect::<Vec<_>>(),
            None => Vec::new(),
        };
        let mut rates = complete.iter().map(|m| units(m, access)).collect::<Vec<_>>();
        // A step may have come in the middle of its second.
        let least = SAME_LEVEL * rates.iter().copied().fold(0.0, f64::max);
        let high = rates.iter().take_while(|rate| **rate >= least).count();
        let last_high = rates.iter().rposition(|rate| *rate >= least).unwrap_or(0);
        let settled = high.saturating_sub(1);
        let is_throttled = |m: &&Measures| refused(m, access) > 0.0;
        let was_throttled = complete.iter().skip(1).any(|before| is_throttled(&before));
        let is_refused = |m: &Measures| refused(m, access) > NOW_AND_THEN * granted(m, access);
        let throttled = complete.iter().enumerate().filter(|(_, m)| is_refused(m));
        let granted_when_throttled = throttled.map(|(ago, m)| (ago, granted(m, access))).collect();
        // What came first may have come in the middle of its second.
        rates.pop();
        let (sized_from, is_at_rest) = if last_high > high {
            (last_high + 1, rates.len() >= LONG || was_throttled)
        } else {
            (settled.clamp(1, SIZED_FROM), settled > 0 || was_throttled)
        };
        let recent = |start: u64| (oldest..=newest + 2).contains(&start);
        let ranked = seconds.iter().filter(|(bucket, _)| recent(bucket.start_secs));
        let ranked_units = ranked.map(|(_, measures)| measures.ranked_units).sum::<f64>();
        let sized = &complete[..rates.len().min(sized_from)];
        let writes = sized.iter().map(|measures| measures.writes).sum::<f64>().max(1.0);
        let written = sized.iter().map(|measures| measures.write_units).sum::<f64>();
        Self {
            was_throttled,
            granted_when_throttled,
            sized: Sized::of(sized, access),
            waiting: newcomers.waiting * (written / writes).max(1.0),
            partial: units(&at(newest + 1), access),
            granted: mean(complete.iter().take(rates.len()).map(|m| granted(m, access))),
            hottest_share: (ranked_units >= LEAST_RANKED_UNITS)
                .then(|| (hottest_units(ledger, recent) / ranked_units).min(1.0)),
            query_units: mean(complete.iter().take(SIZED_FROM).map(|m| m.query_units)),
            is_at_rest,
            rates,
        }
    }

    /// How many complete seconds it stands on.
    pub(crate) fn seconds(&self) -> usize {
        self.rates.len()
    }

    /// The units a second that are asked for now.
    pub(crate) fn demand(&self) -> f64 {
        self.sized.asked
    }

    /// What nine of ten demands stay below of which reports and seconds like these are samples. Too few shards throttle until
    /// the change has closed, and too many cost reads.
    pub(crate) fn at_most(&self) -> f64 {
        let Sized { asked, variance, .. } = self.sized;
        if self.slope().is_some() {
            // What it differs by from second to second is how it rises.
            return asked;
        }
        (asked + NINE_OF_TEN * variance.sqrt()).min(MOST_OFF * asked)
    }

    /// What clients are to be able to ask for, if they wait for what is refused: then they ask for less than they would.
    /// `capacity` is what the shards take.
    pub(crate) fn censored(&self, capacity: f64) -> Option<f64> {
        let Sized { asked, granted, refused, .. } = self.sized;
        let is_full = self.is_full(capacity);
        // In its first second a load that waits for nothing may look so, too.
        let all_wait = is_full && self.rates.len() > 1 && asked <= ALL_WAIT * granted;
        let (waits, most) = if all_wait {
            (true, MOST_CENSORED)
        } else {
            ((is_full && asked <= SOME_WAIT * granted) || refused > granted, MOST_OFF)
        };
        let unhindered = granted + self.waiting * ASKED_BY_ONE;
        waits.then(|| unhindered.min(most * asked).max(asked))
    }

    /// Whether it is granted about all that its shards take, and refused more than now and then.
    fn is_full(&self, capacity: f64) -> bool {
        let Sized { granted, refused, .. } = self.sized;
        let is_full = granted >= FULL * capacity && refused >= NOW_AND_THEN * granted;
        self.was_throttled && (is_full || self.is_full_at_times(capacity))
    }

    /// Whether it was more than once. Clients that wait for some seconds before they repeat what was refused ask for nothing
    /// meanwhile, so its mean is far below what its shards take. A single batch is over after seconds that follow each other.
    fn is_full_at_times(&self, capacity: f64) -> bool {
        let mut full = self.full_seconds(capacity);
        let newest = full.next();
        newest.zip(full.last()).is_some_and(|(newest, oldest)| oldest >= newest + FULL_APART)
    }

    /// How many seconds ago it was granted about all that its shards take, and refused more, the newest first.
    pub(crate) fn full_seconds(&self, capacity: f64) -> impl Iterator<Item = usize> {
        let granted = self.granted_when_throttled.iter();
        granted.filter(move |(_, granted)| *granted >= FULL * capacity).map(|(ago, _)| *ago)
    }

    /// Whether what is asked for is certainly more than a part of `capacity`, in units a second: the less
    /// it is above that, the longer it must have been so.
    pub(crate) fn is_above(&self, capacity: f64) -> bool {
        let mean_of = |seconds| mean(self.rates.iter().copied().take(seconds));
        let long_enough = |seconds: usize| self.rates.len() >= seconds;
        let twice = 2.0 * capacity;
        let is_doubly = self.rates.first().is_some_and(|newest| *newest >= twice)
            && (self.partial >= twice || self.rates.get(1).is_some_and(|before| *before >= twice));
        let is_full = self.is_full(capacity);
        let is_clear = self.rates.first().is_some_and(|newest| *newest >= CLEARLY_ABOVE * capacity);
        is_doubly
            || (self.was_throttled && is_clear)
            || (is_full && long_enough(2))
            || (long_enough(3) && mean_of(3) >= capacity)
            || (long_enough(LONG) && mean_of(LONG) >= CAPACITY_IN_NEED * capacity)
    }

    /// Whether it was watched for long enough to say that it is not above.
    pub(crate) fn is_long(&self) -> bool {
        self.rates.len() >= LONG
    }

    /// How much more is asked for in each second than in the one before, if it rises steadily.
    pub(crate) fn slope(&self) -> Option<f64> {
        slope(&self.rates)
    }
}

impl Sized {
    fn of(seconds: &[Measures], access: Access) -> Self {
        let granted = mean(seconds.iter().map(|m| granted(m, access)));
        // What was granted was asked for, though perhaps before these seconds.
        let asked = mean(seconds.iter().map(|m| units(m, access))).max(granted);
        #[expect(clippy::cast_precision_loss, reason = "a few")]
        let count = seconds.len().max(1) as f64;
        // Fewer report than there are, each for many.
        let of_sample = seconds.iter().map(|m| {
            let is_sample = m.reports > 0.0 && m.environments > m.reports;
            let left_out = if is_sample { 1.0 - m.reports / m.environments } else { 0.0 };
            units(m, access).powi(2) * left_out / m.reports.max(1.0)
        });
        let of_sample = of_sample.sum::<f64>() / count.powi(2);
        // Clients that send batches ask for more in some seconds than in others.
        let rates = seconds.iter().map(|m| units(m, access)).collect::<Vec<_>>();
        let of_seconds = match rates[..] {
            [only] => (OF_ONE_SECOND * only).powi(2),
            _ => squares(&rates) / (count - 1.0).max(1.0) / count,
        };
        Self {
            asked,
            granted,
            refused: mean(seconds.iter().map(|m| refused(m, access))),
            variance: of_sample.max(of_seconds),
        }
    }
}

/// How many deviations above the mean nine of ten lie below.
const NINE_OF_TEN: f64 = 1.28;
/// The part of its demand by which a single second is taken to be off: it tells nothing of how much seconds differ.
const OF_ONE_SECOND: f64 = 0.25;
/// How many times the demand that is seen is believed at most.
const MOST_OFF: f64 = 2.0;
/// From which part of its capacity on a collection that is refused more has all that its shards take: while all of its
/// clients wait, a part of that is lost.
const FULL: f64 = 0.7;
/// How many seconds lie between the first and the last in which a collection was full that is so at times.
const FULL_APART: usize = 2;
/// A part of what is granted that may be refused where a shard is full by chance.
const NOW_AND_THEN: f64 = 0.02;
/// How many times its capacity a collection that was throttled has to be asked for to be believed after one second.
const CLEARLY_ABOVE: f64 = 1.2;
/// Up to how much more than is granted is asked for anew where all clients wait for what is refused.
const ALL_WAIT: f64 = 1.25;
/// Up to how much more where some of them may wait. As many shards are needed if none does.
const SOME_WAIT: f64 = 2.0;
/// What a client that waits would ask for at least, in operations a second: little is written by clients that are slower.
const ASKED_BY_ONE: f64 = 2.0;
/// How many times the demand that is seen is believed at most where all clients wait.
const MOST_CENSORED: f64 = 8.0;

/// The seconds after which a demand near the capacity is believed.
const LONG: usize = 5;
/// The part of its capacity that a collection in need has to be asked for at least.
pub(crate) const CAPACITY_IN_NEED: f64 = 0.5;

/// How much a rate grows from one to the next, newest first, if the newer half is clearly above the
/// older, and a line is nearer to all of them than any step.
pub(crate) fn slope(rates: &[f64]) -> Option<f64> {
    const CLEARLY: f64 = 1.15;
    if rates.len() < 4 {
        return None;
    }
    let (newer, older) = rates.split_at(rates.len() / 2);
    let (new, old) = (mean(newer.iter().copied()), mean(older.iter().copied()));
    #[expect(clippy::cast_precision_loss, reason = "a few dozen")]
    let apart = rates.len() as f64 / 2.0;
    // A step comes to rest, and a ramp goes on: within the newer half it must rise, too.
    let rises = newer.first() > newer.last();
    let is_ramp = old > 0.0 && new >= CLEARLY * old && rises && is_line(rates);
    is_ramp.then_some((new - old) / apart)
}

/// Whether the squares of what a line leaves are less than those that any step leaves. Reports are samples, so
/// what is asked for evenly goes up and down in them.
fn is_line(rates: &[f64]) -> bool {
    let of_step = |at: usize| {
        let (newer, older) = rates.split_at(at);
        squares(newer) + squares(older)
    };
    let of_best_step = (1..rates.len()).map(of_step).fold(f64::INFINITY, f64::min);
    let middle = mean(rates.iter().copied());
    let times = || (0_u32..).map(f64::from);
    let mean_time = mean(times().take(rates.len()));
    let of_times = times().take(rates.len()).map(|time| (time - mean_time).powi(2)).sum::<f64>();
    let common =
        times().zip(rates).map(|(time, rate)| (time - mean_time) * (rate - middle)).sum::<f64>();
    squares(rates) - common * common / of_times < of_best_step
}

/// The sum of the squares of what differs from the mean.
fn squares(rates: &[f64]) -> f64 {
    let middle = mean(rates.iter().copied());
    rates.iter().map(|rate| (rate - middle).powi(2)).sum()
}

/// The units that these measures say were asked for.
pub(crate) fn units(measures: &Measures, access: Access) -> f64 {
    match access {
        Access::Write => measures.write_units,
        Access::Get | Access::Query => measures.get_units + measures.query_units,
    }
}

/// Of an hour, the units of the busiest minute that was seen in it.
pub(crate) fn busiest(measures: &Measures, access: Access) -> f64 {
    match access {
        Access::Write => measures.busiest_write_units,
        Access::Get | Access::Query => measures.busiest_read_units,
    }
}

fn granted(measures: &Measures, access: Access) -> f64 {
    match access {
        Access::Write => measures.written_units,
        Access::Get | Access::Query => measures.read_units,
    }
}

/// The units that were refused, attempts included: they are counted for writes alone.
fn refused(measures: &Measures, access: Access) -> f64 {
    match access {
        Access::Write => measures.refused_units,
        Access::Get | Access::Query => 0.0,
    }
}

/// The units of the class of sort keys that has most.
fn hottest_units(ledger: &Ledger, recent: impl Fn(u64) -> bool) -> f64 {
    let mut classes = std::collections::BTreeMap::<u16, f64>::new();
    for ((bucket, class), units) in &ledger.hottest {
        if bucket.span == Span::Second && recent(bucket.start_secs) {
            *classes.entry(*class).or_default() += units;
        }
    }
    classes.into_values().fold(0.0, f64::max)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}
