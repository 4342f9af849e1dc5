//! The load that a sample of writes shows.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::operator::Failure;
use crate::operator::keys::sample::{Sample, SampleArgs, second_of};
use crate::operator::keys::spread::float;
use crate::operator::output::Output;

#[derive(Debug, clap::Args)]
pub(super) struct MeasureArgs {
    /// A file with a row for each write: .csv with a header line, or .jsonl; also with .gz.
    #[arg(long, value_name = "FILE")]
    sample: Option<PathBuf>,
    /// The sample's column of partition keys.
    #[arg(long, value_name = "NAME", default_value = "pk", requires = "sample")]
    pk_column: String,
    /// The sample's column of sort keys, from which the share of the hottest item is measured.
    #[arg(long, value_name = "NAME", requires = "sample")]
    sk_column: Option<String>,
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

impl MeasureArgs {
    /// How to read the sample, if there is one.
    pub(super) fn of_a_file(&self) -> Option<SampleArgs> {
        Some(SampleArgs {
            file: self.sample.clone()?,
            pk_column: self.pk_column.clone(),
            sk_column: self.sk_column.clone().unwrap_or_default(),
            skip_bad: self.skip_bad,
            max_rows: self.max_rows,
            time_column: Some(self.time_column.clone()),
        })
    }
}

/// What the rows show of a workload; none if they cannot be read, which was printed.
pub(super) fn measure(
    args: &SampleArgs,
    output: &mut Output,
) -> Result<Option<Map<String, Value>>, Failure> {
    let sample = Sample::read(args, !args.sk_column.is_empty())?;
    if !sample.may_be_used(args, output) {
        return Ok(None);
    }
    let times = args.time_column.as_ref().and_then(|name| sample.column(name));
    let (Some(partition), Some(times)) = (sample.column(&args.pk_column), times) else {
        return Err(Failure {
            code: "input_failed",
            detail: "every row of the sample was left out".to_owned(),
        });
    };
    if sample.bad_rows > 0 {
        eprintln!("dynashard: {} rows of the sample are left out", sample.bad_rows);
    }
    if sample.is_cut {
        eprintln!("dynashard: the sample has more rows than --max-rows");
    }
    let mut of_seconds = HashMap::<i64, u64>::new();
    for second in (0..sample.rows).filter_map(|row| second_of(times.value(row)?)) {
        *of_seconds.entry(second).or_default() += 1;
    }
    let ends = of_seconds.keys().max().zip(of_seconds.keys().min());
    let seconds = ends.map_or(1, |(last, first)| last.abs_diff(*first).saturating_add(1));
    let rows = float(of_seconds.values().sum());
    let mean = rows / float(seconds);
    let most = |counts: &mut dyn Iterator<Item = u64>| float(counts.max().unwrap_or(0));
    let hottest = partition.rows_of_values();
    let (hot_key, of_hot_key) =
        hottest.iter().copied().enumerate().max_by_key(|(_, rows)| *rows).unwrap_or_default();
    let mut fields = Map::new();
    let mut set = |name: &str, figure: f64| fields.insert(name.to_owned(), figure.into());
    set("writes_per_second", mean);
    set("peak_ratio", most(&mut of_seconds.values().copied()) / mean);
    set("hot_key_share", float(of_hot_key) / rows);
    if let Some(sort) = sample.column(&args.sk_column) {
        let mut of_items = HashMap::<_, u64>::new();
        for row in (0..sample.rows).filter(|row| partition.number(*row) == Some(hot_key)) {
            *of_items.entry(sort.number(row)).or_default() += 1;
        }
        set("hot_item_share", most(&mut of_items.into_values()) / float(of_hot_key.max(1)));
    }
    Ok(Some(fields))
}
