//! What the commands print: reports to stdout, as JSON or as text, and their progress as a line on the
//! terminal.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::Failure;
use super::rows::Rows;
use crate::streams::{self, Unwritten};

/// The form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    Table,
    Json,
    Csv,
    Markdown,
}

/// In which form a command reports.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Form {
    /// The form of the report: text for people, what --json prints, or its rows, which come when the command ends.
    #[arg(long, value_name = "FORM", value_enum, conflicts_with = "json", default_value = "table")]
    output: Format,
}

#[derive(Serialize)]
struct Event<'a, T> {
    event: &'static str,
    #[serde(flatten)]
    value: &'a T,
}

/// Where the report of a command goes.
#[derive(Debug)]
pub(super) struct Output {
    format: Format,
    /// What is printed as a table at the end.
    rows: Rows,
    /// Whether the reader was told of a failure.
    has_failed: bool,
    /// Why stdout takes no more. The command finishes its work all the same.
    broken: Option<Unwritten>,
}

impl Form {
    /// Refuses rows of a command that goes on until somebody ends it: they come at its end.
    pub(super) fn of_endless(self, flag: &str, is_given: bool) -> Result<(), Failure> {
        match self.output {
            Format::Csv | Format::Markdown if is_given => Err(Failure::bad_argument(format!(
                "rows come when the command ends, and with {flag} it goes on: leave out {flag}, or take --json"
            ))),
            _ => Ok(()),
        }
    }
}

impl Output {
    pub(super) fn new(json: bool) -> Self {
        let format = if json { Format::Json } else { Format::Table };
        Self { format, rows: Rows::default(), has_failed: false, broken: None }
    }

    /// In the form that was asked for, of which `--json` is the short way.
    pub(super) fn of(form: Form, json: bool) -> Self {
        let output = Self::new(json);
        if json { output } else { Self { format: form.output, ..output } }
    }

    /// Whether another program reads the report.
    pub(super) fn is_for_machines(&self) -> bool {
        self.format != Format::Table
    }

    /// Whether nothing more can be printed.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// The exit status of a command that had this to say, and the end of what it prints. A report of which a part is
    /// lost has failed, unless its reader has closed stdout: that has what it wants.
    pub(super) fn end(mut self, status: ExitCode) -> ExitCode {
        let rows = std::mem::take(&mut self.rows);
        let is_table = matches!(self.format, Format::Csv | Format::Markdown);
        if is_table && rows.is_empty() {
            // A command that has failed has said why.
            if !self.has_failed {
                note!("dynashard: the table is empty; --json says what else the report has");
            }
        } else if is_table {
            let text = match self.format {
                Format::Csv => rows.csv(),
                _ => printable(&rows.markdown()).into_owned(),
            };
            self.line(text.strip_suffix('\n').unwrap_or(&text));
        }
        match self.broken.filter(|error| !error.is_closed()) {
            Some(error) => {
                note!("dynashard: {error}");
                ExitCode::FAILURE
            }
            None => status,
        }
    }

    /// Prints a line of JSON, or keeps it as a row, if that was asked for.
    pub(super) fn json(&mut self, value: &impl Serialize) {
        self.report(value, None);
    }

    /// Prints a line of JSON that first says what it is, if JSON was asked for.
    pub(super) fn event(&mut self, event: &'static str, value: &impl Serialize) {
        self.report(&Event { event, value }, None);
    }

    /// An event whose rows are the objects in its list of this name.
    pub(super) fn listing(&mut self, event: &'static str, list: &str, value: &impl Serialize) {
        self.report(&Event { event, value }, Some(list));
    }

    fn report(&mut self, value: &impl Serialize, list: Option<&str>) {
        // What is serialized here are numbers and texts, which cannot fail.
        let line = || serde_json::to_string(value).unwrap_or_default();
        match self.format {
            Format::Table => {}
            Format::Json => self.line(&line()),
            Format::Csv | Format::Markdown => self.rows.add(&line(), list),
        }
    }

    /// Prints a line for people, unless JSON was asked for.
    pub(super) fn text(&mut self, line: impl Display) {
        if !self.is_for_machines() {
            self.line(&printable(&line.to_string()));
        }
    }

    /// Reports a failure on stderr, and as JSON on stdout if that was asked for.
    pub(super) fn failure(&mut self, pk: Option<&str>, failure: &Failure) {
        #[derive(Serialize)]
        struct Failed<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            pk: Option<&'a str>,
            #[serde(flatten)]
            failure: &'a Failure,
        }
        self.has_failed = true;
        // A table holds what was found.
        if self.format == Format::Json {
            self.event("error", &Failed { pk, failure });
        }
        match pk {
            Some(pk) => note!("dynashard: {pk:?}: {}", printable(&failure.to_string())),
            None => note!("dynashard: {}", printable(&failure.to_string())),
        }
    }

    fn line(&mut self, line: &str) {
        if self.broken.is_none() {
            self.broken = streams::print(line).err();
        }
    }
}

/// Text with what a terminal would obey written out: keys and column names are others' words.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    let is_obeyed = |c: char| c.is_control() && c != '\n';
    if !text.contains(is_obeyed) {
        return text.into();
    }
    let written_out =
        |c: char| if is_obeyed(c) { c.escape_default().to_string() } else { c.into() };
    text.chars().map(written_out).collect::<String>().into()
}

/// A key, or another's words, as a part of a line: none begins a line of its own.
pub(super) fn in_line(text: &str) -> String {
    printable(text).replace('\n', "\\n")
}

/// A line on the terminal that shows the progress of a command. Where stderr is not a terminal it shows
/// nothing.
#[derive(Debug)]
pub(super) struct Activity(Option<ProgressBar>);

impl Activity {
    pub(super) fn begin(wanted: bool) -> Self {
        if !wanted || !io::stderr().is_terminal() {
            return Self(None);
        }
        let style = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}");
        let bar = ProgressBar::new_spinner();
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(Some(bar))
    }

    /// Shows this progress.
    pub(super) fn says(&self, text: impl FnOnce() -> String) {
        if let Some(bar) = &self.0 {
            bar.set_message(text());
        }
    }

    /// Prints a line that stays, above the progress.
    pub(super) fn notes(&self, text: &str) {
        match &self.0 {
            Some(bar) => bar.suspend(|| note!("{text}")),
            None => note!("{text}"),
        }
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
