//! What is shown of an import while it goes on.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;

use crate::clock::Stopwatch;
use crate::operator::output::{Activity, Output};

/// Shows the progress: as a line on the terminal, or each second as a line of JSON.
pub(super) struct Reporter {
    activity: Activity,
    output: Output,
    began: Stopwatch,
    shown_at: Option<Duration>,
    rate: Rate,
}

/// What is shown.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Shown {
    pub(super) event: &'static str,
    /// `check` or `write`.
    pub(super) phase: &'static str,
    pub(super) rows: u64,
    /// Of how many, where that is known.
    pub(super) of: Option<u64>,
    pub(super) rows_per_sec: f64,
    pub(super) throttles: u64,
    pub(super) secs_left: Option<u64>,
}

/// Between two lines of JSON, and two changes of the line on the terminal.
const JSON_EVERY: Duration = Duration::from_secs(1);
const SHOW_EVERY: Duration = Duration::from_millis(200);

impl Reporter {
    pub(super) fn begin(json: bool) -> Self {
        let (activity, output) = (Activity::begin(!json), Output::new(json));
        let began = Stopwatch::start();
        Self { activity, output, began, shown_at: None, rate: Rate::default() }
    }

    /// Shows how many rows of how many are through a phase, unless that was just done. `note` says what
    /// else there is.
    pub(super) fn show(
        &mut self,
        phase: &'static str,
        rows: u64,
        of: Option<u64>,
        throttles: u64,
        note: &str,
    ) {
        let now = self.began.elapsed();
        let every = if self.output.is_json() { JSON_EVERY } else { SHOW_EVERY };
        if self.shown_at.is_some_and(|at| now < at + every) {
            return;
        }
        self.shown_at = Some(now);
        self.rate.note(now, rows);
        let rows_per_sec = self.rate.per_sec();
        let secs_left = of.and_then(|of| secs_left(of.saturating_sub(rows), rows_per_sec));
        let event = "progress";
        let shown = Shown { event, phase, rows, of, rows_per_sec, throttles, secs_left };
        self.output.json(&shown);
        self.activity.says(|| {
            let of = of.map_or_else(String::new, |of| format!(" of {of}"));
            let left = secs_left.map_or_else(String::new, |secs| format!(", {secs} s left"));
            format!(
                "{phase}: {rows}{of} rows, {rows_per_sec:.0}/s, {throttles} throttles{left}{note}"
            )
        });
    }

    /// Prints a line that stays, on stderr.
    pub(super) fn notes(&self, text: &str) {
        self.activity.notes(text);
    }

    /// How long the import has taken.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Where the report goes, when nothing more is shown.
    pub(super) fn into_output(self) -> Output {
        self.output
    }
}

/// How many rows a second there were in the last seconds.
#[derive(Debug, Default)]
struct Rate(VecDeque<(Duration, u64)>);

/// What counts as the last seconds.
const WINDOW: Duration = Duration::from_secs(10);

impl Rate {
    fn note(&mut self, now: Duration, rows: u64) {
        // The check and the writing count rows from the beginning each.
        if self.0.back().is_some_and(|(_, before)| rows < *before) {
            self.0.clear();
        }
        self.0.push_back((now, rows));
        while self.0.len() > 2 && self.0.get(1).is_some_and(|(at, _)| *at + WINDOW < now) {
            self.0.pop_front();
        }
    }

    fn per_sec(&self) -> f64 {
        let (Some((from, before)), Some((to, rows))) = (self.0.front(), self.0.back()) else {
            return 0.0;
        };
        let secs = to.saturating_sub(*from).as_secs_f64();
        if secs > 0.0 { float(rows - before) / secs } else { 0.0 }
    }
}

fn secs_left(rows: u64, rows_per_sec: f64) -> Option<u64> {
    let secs = (rows_per_sec > 0.0).then(|| float(rows) / rows_per_sec)?;
    Duration::try_from_secs_f64(secs).ok().map(|time| time.as_secs())
}

/// A count as a number to divide.
pub(super) fn float(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut rate = Rate::default();
        let note = |rate: &mut Rate, secs, rows| rate.note(Duration::from_secs(secs), rows);
        note(&mut rate, 0, 0);
        assert!(rate.per_sec().abs() < f64::EPSILON);
        note(&mut rate, 1, 100);
        assert!((rate.per_sec() - 100.0).abs() < 0.001);
        for secs in 2..60 {
            note(&mut rate, secs, 100 + 10 * (secs - 1));
        }
        assert!((rate.per_sec() - 10.0).abs() < 0.001, "{}", rate.per_sec());
        note(&mut rate, 60, 5);
        assert!(rate.per_sec().abs() < f64::EPSILON, "the next phase counts from the beginning");
    }

    #[test]
    fn the_time_left_follows_from_the_rate() {
        assert_eq!(secs_left(100, 10.0), Some(10));
        assert_eq!(secs_left(100, 0.0), None);
    }
}
