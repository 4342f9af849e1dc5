//! What is shown of an import while it goes on, and what it says at its end.

use std::time::Duration;

use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use crate::clock::Stopwatch;
use crate::numbers::float;
use crate::operator::output::{Activity, Output};

/// What became of rows, in all runs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Counts {
    /// Refused by DynamoDB itself; in a summary also those that the check has refused.
    pub(super) refused: u64,
    /// Put.
    pub(super) written: u64,
    /// Not put, since there was an item.
    pub(super) kept: u64,
    /// In doubt after an interruption, and found to be written.
    pub(super) found: u64,
}

impl Counts {
    /// How many are in the table.
    pub(super) fn rows(self) -> u64 {
        self.written + self.kept + self.found
    }
}

/// Shows the progress: as a line on the terminal, or each second as a line of JSON.
pub(super) struct Reporter {
    pub(super) summary: Summary,
    pub(super) activity: Activity,
    output: Output,
    began: Stopwatch,
    shown_at: Option<Duration>,
    meter: Meter,
}

/// Measures the rate of a phase, from what there was at its beginning.
struct Meter {
    phase: &'static str,
    rows_before: u64,
    /// It shows nothing.
    bar: ProgressBar,
}

impl Meter {
    fn of(phase: &'static str, rows_before: u64) -> Self {
        Self { phase, rows_before, bar: ProgressBar::hidden() }
    }

    fn per_sec(&self, rows: u64) -> f64 {
        self.bar.set_position(rows.saturating_sub(self.rows_before));
        self.bar.per_sec()
    }
}

/// What is shown.
#[derive(Debug, Clone, Copy, Serialize)]
struct Shown {
    /// `check` or `write`.
    phase: &'static str,
    rows: u64,
    /// Of how many, where that is known.
    of: Option<u64>,
    rows_per_sec: f64,
    throttles: u64,
    secs_left: Option<u64>,
}

/// Between two lines of JSON, and two changes of the line on the terminal.
const JSON_EVERY: Duration = Duration::from_secs(1);
const SHOW_EVERY: Duration = Duration::from_millis(200);

impl Reporter {
    pub(super) fn begin(json: bool) -> Self {
        let (activity, output) = (Activity::begin(!json), Output::new(json));
        let (began, meter) = (Stopwatch::start(), Meter::of("", 0));
        Self { summary: Summary::default(), activity, output, began, shown_at: None, meter }
    }

    /// Shows how many rows of how many are through a phase, unless that was just done. `note` says what
    /// else there is.
    pub(super) fn show(&mut self, phase: &'static str, rows: u64, of: Option<u64>, note: &str) {
        let throttles = self.summary.throttles;
        let now = self.began.elapsed();
        let every = if self.output.is_for_machines() { JSON_EVERY } else { SHOW_EVERY };
        if self.shown_at.is_some_and(|at| now < at + every) {
            return;
        }
        self.shown_at = Some(now);
        if self.meter.phase != phase {
            self.meter = Meter::of(phase, rows);
        }
        let rows_per_sec = self.meter.per_sec(rows);
        let left = of.filter(|_| rows_per_sec > 0.0).map(|of| float(of.saturating_sub(rows)));
        let left = left.and_then(|left| Duration::try_from_secs_f64(left / rows_per_sec).ok());
        let secs_left = left.map(|time| time.as_secs());
        let shown = Shown { phase, rows, of, rows_per_sec, throttles, secs_left };
        self.output.event("progress", &shown);
        self.activity.says(|| {
            let of = of.map_or_else(String::new, |of| format!(" of {of}"));
            let left = secs_left.map_or_else(String::new, |secs| format!(", {secs} s left"));
            format!(
                "{phase}: {rows}{of} rows, {rows_per_sec:.0}/s, {throttles} throttles{left}{note}"
            )
        });
    }

    /// Prints the summary of an import that had begun, and returns where its failure is to be printed.
    pub(super) fn end(mut self) -> Output {
        let summary = &mut self.summary;
        summary.secs = self.began.elapsed().as_secs_f64();
        summary.rows_per_sec = float(summary.of_this_run) / summary.secs.max(f64::EPSILON);
        drop(self.activity);
        summary.print(&mut self.output);
        self.output
    }
}

/// `{"event":"summary", ...}`
#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    /// In the input. They are counted first.
    pub(super) rows: Option<u64>,
    #[serde(flatten)]
    pub(super) counts: Counts,
    /// In doubt, and another item lies under their keys.
    pub(super) undecided: u64,
    pub(super) throttles: u64,
    pub(super) consumed_wcu: f64,
    secs: f64,
    /// Of this run.
    rows_per_sec: f64,
    /// Whether nothing is left to do.
    pub(super) complete: bool,
    #[serde(skip)]
    pub(super) is_check: bool,
    /// How many rows this run has brought to the table.
    #[serde(skip)]
    pub(super) of_this_run: u64,
}

impl Summary {
    fn print(&self, output: &mut Output) {
        let Some(rows) = self.rows else { return };
        output.event("summary", self);
        let Self { counts, undecided, secs, rows_per_sec, throttles, .. } = self;
        let Counts { written, kept, found, refused } = counts;
        if self.is_check {
            let can = rows.saturating_sub(*refused);
            return output.text(format_args!("{rows} rows: {can} can be taken, {refused} cannot"));
        }
        if *refused > 0 && !self.complete && self.of_this_run == 0 {
            // Its failure says all.
            return;
        }
        let also = [
            (kept, "kept"),
            (found, "found to be written"),
            (refused, "refused"),
            (undecided, "in doubt"),
        ];
        let also = also.iter().filter(|(count, _)| **count > 0);
        let also =
            also.map(|(count, what)| format!(", {count} {what}")).collect::<Vec<_>>().concat();
        output.text(format_args!(
            "{rows} rows: {written} written{also}; {secs:.1} s, {rows_per_sec:.0} rows/s, {throttles} throttles"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_run_has_written_is_no_part_of_the_rate() {
        let meter = Meter::of("write", 1_000_000);
        assert!(meter.per_sec(1_000_000).abs() < f64::EPSILON);
        std::thread::sleep(Duration::from_millis(20));
        let rate = meter.per_sec(1_000_010);
        assert!(rate > 0.0 && rate < 1_000.0, "{rate}");
    }
}
