//! What an import says at its end.

use std::time::Duration;

use serde::Serialize;

use super::load::Figures;
use super::progress::float;
use super::source::RowsFound;
use crate::operator::output::Output;

/// `{"event":"summary", ...}`
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    event: &'static str,
    /// In the input, where they were counted.
    rows: Option<u64>,
    /// Rows that cannot be taken.
    refused: u64,
    /// Put, in all runs of this import.
    written: u64,
    /// Not put, since there was an item.
    kept: u64,
    /// In doubt after an interruption, and found to be written.
    found: u64,
    /// In doubt, and another item lies under their keys.
    undecided: u64,
    throttles: u64,
    consumed_wcu: f64,
    secs: f64,
    /// Of this run.
    rows_per_sec: f64,
    /// Whether nothing is left to do.
    complete: bool,
    #[serde(skip)]
    is_check: bool,
    #[serde(skip)]
    has_begun: bool,
    #[serde(skip)]
    of_this_run: u64,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            event: "summary",
            rows: None,
            refused: 0,
            written: 0,
            kept: 0,
            found: 0,
            undecided: 0,
            throttles: 0,
            consumed_wcu: 0.0,
            secs: 0.0,
            rows_per_sec: 0.0,
            complete: false,
            is_check: false,
            has_begun: false,
            of_this_run: 0,
        }
    }
}

impl Summary {
    pub(super) fn checked(&mut self, found: RowsFound, refused: u64, is_check: bool) {
        self.has_begun = true;
        self.rows = found.rows;
        self.refused = refused;
        self.is_check = is_check;
        self.complete = is_check && refused == 0;
    }

    pub(super) fn wrote(&mut self, figures: Figures, before: u64) {
        let Figures { counts, throttles, consumed_wcu, undecided, .. } = figures;
        (self.written, self.kept, self.found) = (counts.written, counts.kept, counts.found);
        self.throttles = throttles;
        self.consumed_wcu = consumed_wcu;
        self.undecided = undecided;
        self.of_this_run = counts.rows().saturating_sub(before);
    }

    pub(super) fn refused(&mut self, count: u64) {
        self.refused = count;
    }

    pub(super) fn completed(&mut self) {
        self.complete = true;
    }

    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    pub(super) fn undecided(&self) -> u64 {
        self.undecided
    }

    /// How long the writing took, or the check if nothing was to be written.
    pub(super) fn took(&mut self, time: Duration) {
        self.secs = time.as_secs_f64();
        self.rows_per_sec = float(self.of_this_run) / self.secs.max(f64::EPSILON);
    }

    pub(super) fn print(&self, output: &mut Output) {
        if !self.has_begun {
            return;
        }
        output.json(self);
        let Self { refused, written, kept, found, secs, rows_per_sec, throttles, .. } = self;
        let rows = self.rows.map_or_else(String::new, |rows| format!("{rows} rows: "));
        if self.is_check {
            let can = self.rows.unwrap_or_default().saturating_sub(*refused);
            output.text(format_args!("{rows}{can} can be taken, {refused} cannot"));
            return;
        }
        if *refused > 0 && !self.complete && self.of_this_run == 0 {
            return;
        }
        let also = [
            (kept, "kept"),
            (found, "found to be written"),
            (refused, "refused"),
            (&self.undecided, "in doubt"),
        ];
        let also = also.iter().filter(|(count, _)| **count > 0);
        let also = also.map(|(count, what)| format!(", {count} {what}"));
        let also = also.collect::<Vec<_>>().concat();
        output.text(format_args!(
            "{rows}{written} written{also}; {secs:.1} s, {rows_per_sec:.0} rows/s, {throttles} throttles"
        ));
    }
}
