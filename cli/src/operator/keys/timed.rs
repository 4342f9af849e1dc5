//! A sample of writes: rows with a partition key and a time.

use std::path::PathBuf;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::sample::{Column, Sample, SampleArgs, second_of};
use crate::operator::Failure;
use crate::operator::output::Output;

#[derive(Debug, clap::Args)]
pub(in crate::operator) struct TimedSampleArgs {
    /// A file with a row for each write: .csv with a header line, or .jsonl; also with .gz.
    #[arg(long, value_name = "FILE")]
    sample: Option<PathBuf>,
    /// The sample's column of partition keys.
    #[arg(long, value_name = "NAME", default_value = "pk", requires = "sample")]
    pk_column: String,
    /// The sample's column of times, by RFC 3339 or in epoch seconds.
    #[arg(long, value_name = "NAME", default_value = "time", requires = "sample")]
    time_column: String,
    /// Count rows of the sample that cannot be read, and leave them out.
    #[arg(long, requires = "sample")]
    skip_bad: bool,
    /// Read so many rows of the sample at most.
    #[arg(long, value_name = "ROWS", default_value_t = 1_000_000, requires = "sample", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    max_rows: u32,
}

impl TimedSampleArgs {
    /// How to read the sample, if there is one.
    pub(in crate::operator) fn of_a_file(&self, sk_column: Option<&str>) -> Option<SampleArgs> {
        Some(SampleArgs {
            file: self.sample.clone()?,
            pk_column: self.pk_column.clone(),
            sk_column: sk_column.map(str::to_owned),
            skip_bad: self.skip_bad,
            max_rows: self.max_rows,
            time_column: Some(self.time_column.clone()),
        })
    }
}

impl<'a> Sample<'a> {
    /// Reads a sample of writes; none if rows of it cannot be read, which was printed.
    pub(in crate::operator) fn timed(
        args: &'a SampleArgs,
        output: &mut Output,
    ) -> Result<Option<Self>, Failure> {
        let sample = Self::read(args, args.sk_column.as_deref())?;
        if !sample.may_be_used(output) {
            return Ok(None);
        }
        if sample.rows == 0 {
            return Err(Failure {
                code: "input_failed",
                detail: "every row of the sample was left out".to_owned(),
            });
        }
        if sample.bad_rows > 0 {
            note!("dynashard: {} rows of the sample are left out", sample.bad_rows);
        }
        if sample.is_cut {
            note!("dynashard: the sample has more rows than --max-rows");
        }
        // Of the first row it says what was understood, if its time is a figure.
        let figure = sample.times().and_then(|times| times.value(0)?.parse::<i64>().ok());
        let time = figure.and_then(|figure| OffsetDateTime::from_unix_timestamp(figure).ok());
        if let Some((figure, time)) = figure.zip(time.and_then(|time| time.format(&Rfc3339).ok())) {
            note!("dynashard: the first row is of {time}: {figure} is read as epoch seconds");
        }
        Ok(Some(sample))
    }

    fn times(&self) -> Option<&Column> {
        self.column(self.args.time_column.as_deref()?)
    }

    /// The rows, each with its number, its partition key and the second of its time.
    pub(in crate::operator) fn writes(&self) -> impl Iterator<Item = (usize, &str, i64)> {
        let columns = self.column(&self.args.pk_column).zip(self.times());
        columns.into_iter().flat_map(|(partition, times)| {
            (0..self.rows).filter_map(move |row| {
                Some((row, partition.value(row)?, second_of(times.value(row)?)?))
            })
        })
    }

    /// The sort keys, if they were asked for.
    pub(in crate::operator) fn sort_keys(&self) -> Option<&Column> {
        self.column(self.sort?)
    }
}
