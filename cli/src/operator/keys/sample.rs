//! A sample of keys: a file of rows with named columns.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::path::PathBuf;

use dynashard_api::json::{object, type_name};
use dynashard_keys::{ItemKey, KeyError, PartitionKey, SortKey};
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::advice::is_date;
use crate::operator::Failure;
use crate::operator::import::csv::Records;
use crate::operator::import::files::{Format, bad, failed, format_of};
use crate::operator::import::input::open;
use crate::operator::import::json::Lines;
use crate::operator::output::Output;

/// So many bad rows are shown.
const SHOWN: usize = 20;

/// So few rows of one item say nothing about its share of the load.
pub(in crate::operator) const FEW_ROWS: u64 = 10;

/// Stands in a column for a row without a value.
const ABSENT: u32 = u32::MAX;

#[derive(Debug, clap::Args)]
pub(in crate::operator) struct SampleArgs {
    /// Rows with named columns, in the order in which they were written: .csv with a header line, or .jsonl with
    /// an object in each line; also with .gz.
    #[arg(value_name = "FILE")]
    pub(in crate::operator) file: PathBuf,
    /// The column of the partition key.
    #[arg(long, value_name = "NAME", default_value = "pk")]
    pub(in crate::operator) pk_column: String,
    /// The column of the sort key. [default: sk]
    #[arg(long, value_name = "NAME")]
    pub(in crate::operator) sk_column: Option<String>,
    /// Count rows that cannot be read, and leave them out.
    #[arg(long)]
    pub(in crate::operator) skip_bad: bool,
    /// Read so many rows at most.
    #[arg(long, value_name = "ROWS", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(in crate::operator) max_rows: u32,
    /// The column of times, which each row then needs.
    #[arg(skip)]
    pub(in crate::operator) time_column: Option<String>,
}

impl SampleArgs {
    /// The column of the sort key.
    pub(super) fn sort_column(&self) -> &str {
        self.sk_column.as_deref().unwrap_or("sk")
    }
}

/// The rows of a file, column by column.
#[derive(Debug)]
pub(in crate::operator) struct Sample<'a> {
    pub(super) args: &'a SampleArgs,
    /// The column of the sort key, if each row needs one.
    pub(super) sort: Option<&'a str>,
    pub(super) columns: Vec<Column>,
    /// Without the bad ones.
    pub(in crate::operator) rows: usize,
    pub(in crate::operator) bad_rows: usize,
    /// The first of them.
    shown: Vec<BadRow>,
    /// The file has more rows than were read.
    pub(in crate::operator) is_cut: bool,
}

/// A column: its distinct values, and which of them each row has.
#[derive(Debug, Default)]
pub(in crate::operator) struct Column {
    pub(super) name: String,
    pub(in crate::operator) values: Vec<String>,
    numbers: HashMap<String, u32>,
    of_rows: Vec<u32>,
}

/// A row that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct BadRow {
    line: u64,
    reason: String,
}

/// The fields of a row, or why there are none.
type Row = Result<Vec<(String, String)>, String>;

impl<'a> Sample<'a> {
    /// Reads the file. Each row needs a partition key, and a sort key too if its column is named.
    pub(in crate::operator) fn read(
        args: &'a SampleArgs,
        sort: Option<&'a str>,
    ) -> Result<Self, Failure> {
        let path = &args.file;
        let format = format_of(path).ok_or_else(|| {
            bad(path, "has a name that does not tell its form: .csv, .jsonl, .ndjson or .json, also with .gz")
        })?;
        let mut sample = Self {
            args,
            sort,
            columns: Vec::new(),
            rows: 0,
            bad_rows: 0,
            shown: Vec::new(),
            is_cut: false,
        };
        let read = match format {
            Format::Csv => sample.read_csv(),
            Format::JsonLines | Format::DynamodbExport => sample.read_json(),
        };
        read.map_err(|error| failed(path, &error))?;
        if sample.rows == 0 && sample.bad_rows == 0 {
            return Err(bad(path, "holds no rows"));
        }
        Ok(sample)
    }

    /// The columns that each row needs, with the flags that name them.
    fn needed(&self) -> impl Iterator<Item = (&'static str, &'a str)> {
        let SampleArgs { pk_column, time_column, .. } = self.args;
        let needed = [
            ("--pk-column", Some(pk_column.as_str())),
            ("--sk-column", self.sort),
            ("--time-column", time_column.as_deref()),
        ];
        needed.into_iter().filter_map(|(flag, name)| Some((flag, name?)))
    }

    fn read_csv(&mut self) -> io::Result<()> {
        let (input, _) = open(&self.args.file)?;
        let mut records = Records::new(input)?;
        let is_missing = |(_, name): &(_, &str)| records.columns().iter().all(|it| it != name);
        if let Some((flag, name)) = self.needed().find(is_missing) {
            let columns = records.columns().join(", ");
            let why = if columns.is_empty() {
                "it is empty".to_owned()
            } else {
                format!("it has no column {name:?}, but {columns}; {flag} names another")
            };
            return Err(io::Error::other(why));
        }
        while let Some((line, fields)) = records.next()? {
            let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
            let row = fields.map(|fields| fields.into_iter().map(owned).collect());
            if !self.take(line, row.map_err(|failure| failure.to_string())) {
                break;
            }
        }
        Ok(())
    }

    fn read_json(&mut self) -> io::Result<()> {
        let (input, _) = open(&self.args.file)?;
        let mut lines = Lines::new(input);
        while let Some((number, line)) = lines.next()? {
            if !self.take(number, line.map_err(|failure| failure.to_string()).and_then(fields)) {
                break;
            }
        }
        Ok(())
    }

    /// Takes a row in, and says whether to go on.
    fn take(&mut self, line: u64, row: Row) -> bool {
        if self.rows >= usize::try_from(self.args.max_rows).unwrap_or(usize::MAX) {
            self.is_cut = true;
            return false;
        }
        match row.and_then(|row| self.checked(row)) {
            Ok(row) => self.add(row),
            Err(reason) => {
                self.bad_rows += 1;
                if self.shown.len() < SHOWN {
                    self.shown.push(BadRow { line, reason });
                }
            }
        }
        true
    }

    /// A row whose key DynamoDB takes.
    fn checked(&self, row: Vec<(String, String)>) -> Row {
        let find = |name: &str| {
            let found = row.iter().find(|(column, _)| column == name);
            found.map(|(_, value)| value.as_str()).ok_or_else(|| format!("it has no {name:?}"))
        };
        PartitionKey::new(find(&self.args.pk_column)?).map_err(|e| e.to_string())?;
        if let Some(column) = self.sort {
            SortKey::string(find(column)?).map_err(|e| e.to_string())?;
        }
        if let Some(column) = &self.args.time_column {
            let time = find(column)?;
            second_of(time).ok_or_else(|| {
                format!("its {column:?} is {time:?}, and not a time by RFC 3339 or in epoch seconds of 2001 to 2033")
            })?;
        }
        Ok(row)
    }

    fn add(&mut self, row: Vec<(String, String)>) {
        for (name, value) in row {
            let at =
                self.columns.iter().position(|column| column.name == name).unwrap_or_else(|| {
                    self.columns.push(Column { name, ..Column::default() });
                    self.columns.len() - 1
                });
            self.columns[at].set(self.rows, value);
        }
        self.rows += 1;
    }

    /// Prints the bad rows, and says whether the command may go on.
    pub(in crate::operator) fn may_be_used(&self, output: &mut Output) -> bool {
        if self.bad_rows == 0 || self.args.skip_bad {
            return true;
        }
        for bad in &self.shown {
            note!("line {}: {}", bad.line, bad.reason);
            output.event("bad_row", bad);
        }
        let (file, more) = (self.args.file.display(), self.bad_rows - self.shown.len());
        let more = if more > 0 { format!("; {more} more") } else { String::new() };
        note!(
            "dynashard: {file}: {} of {} rows cannot be read{more}; --skip-bad leaves them out",
            self.bad_rows,
            self.bad_rows + self.rows
        );
        false
    }

    /// What a report says of rows that are missing from it.
    pub(super) fn tell_missing(&self, output: &mut Output) {
        if self.bad_rows > 0 {
            output.text(format!("{} rows could not be read and are left out", self.bad_rows));
        }
        if self.is_cut {
            output.text("the file has more rows than --max-rows");
        }
    }

    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The columns of the file: of the header line, or of the first line of JSON that can be read.
    pub(super) fn names(args: &SampleArgs) -> Result<Vec<String>, Failure> {
        let path = &args.file;
        let names = || {
            let (input, _) = open(path)?;
            if format_of(path) == Some(Format::Csv) {
                return Ok(Records::new(input)?.columns().to_vec());
            }
            let mut lines = Lines::new(input);
            while let Some((_, line)) = lines.next()? {
                if let Ok(Ok(fields)) = line.map(fields) {
                    return Ok(fields.into_iter().map(|(name, _)| name).collect());
                }
            }
            Ok(Vec::new())
        };
        names().map_err(|error: io::Error| failed(path, &error))
    }

    /// The keys of all rows. They were checked when they were read.
    pub(super) fn keys(&self) -> Result<Vec<ItemKey>, KeyError> {
        let args = self.args;
        let (pk, sk) = (self.column(&args.pk_column), self.column(args.sort_column()));
        let Some((pk, sk)) = pk.zip(sk) else { return Ok(Vec::new()) };
        let partitions = pk.values.iter().map(PartitionKey::new).collect::<Result<Vec<_>, _>>()?;
        let keys = (0..self.rows).filter_map(|row| {
            let partition = partitions.get(pk.number(row)?)?.clone();
            Some(SortKey::string(sk.value(row)?).map(|sort| ItemKey::new(partition, sort)))
        });
        keys.collect()
    }
}

impl Column {
    fn set(&mut self, row: usize, value: String) {
        let next = u32::try_from(self.values.len()).unwrap_or(ABSENT);
        let number = match self.numbers.entry(value) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                self.values.push(new.key().clone());
                *new.insert(next)
            }
        };
        // Of the rows before, and of one that has the column twice, the last value counts.
        self.of_rows.resize(row, ABSENT);
        self.of_rows.push(number);
    }

    /// How many rows have a value.
    pub(super) fn rows(&self) -> usize {
        self.of_rows.iter().filter(|number| **number != ABSENT).count()
    }

    /// How many rows each value has.
    pub(in crate::operator) fn rows_of_values(&self) -> Vec<u64> {
        let mut rows = vec![0; self.values.len()];
        for row in 0..self.of_rows.len() {
            if let Some(number) = self.number(row) {
                rows[number] += 1;
            }
        }
        rows
    }

    /// Whether nearly all values are dates.
    pub(super) fn are_dates(&self) -> bool {
        let dates = self.values.iter().filter(|value| is_date(value)).count();
        dates * 20 >= self.values.len() * 19
    }

    /// Which of the values a row has.
    pub(in crate::operator) fn number(&self, row: usize) -> Option<usize> {
        let number = self.of_rows.get(row).copied().filter(|number| *number != ABSENT)?;
        usize::try_from(number).ok()
    }

    pub(in crate::operator) fn value(&self, row: usize) -> Option<&str> {
        self.values.get(self.number(row)?).map(String::as_str)
    }
}

/// The members of a line of JSON that are strings or numbers.
fn fields(line: &[u8]) -> Row {
    let members = object(line).map_err(|problem| problem.log_detail().to_owned())?;
    let texts = members.into_iter().filter_map(|(name, value)| {
        let text = match type_name(value) {
            "string" => serde_json::from_str(value.get()).ok()?,
            "number" | "boolean" => value.get().to_owned(),
            _ => return None,
        };
        Some((name.into_owned(), text))
    });
    Ok(texts.filter(|(_, text): &(String, String)| !text.is_empty()).collect())
}

/// The second of a time by RFC 3339 or in epoch seconds.
pub(in crate::operator) fn second_of(text: &str) -> Option<i64> {
    /// From 2001 to 2033. A figure below is a date without its signs, as 20130101, or counts from another beginning; one
    /// above is a date with an hour, as 2013010110, or counts milliseconds.
    const EPOCH_SECONDS: std::ops::Range<i64> = 1_000_000_000..2_000_000_000;
    // A time that was never set is the first of the year 1, say.
    let by_text = || {
        let time = OffsetDateTime::parse(text, &Rfc3339).ok().map(OffsetDateTime::unix_timestamp);
        time.filter(|seconds| *seconds >= 0)
    };
    let seconds = text.parse::<i64>().ok();
    seconds.map_or_else(by_text, |seconds| EPOCH_SECONDS.contains(&seconds).then_some(seconds))
}
