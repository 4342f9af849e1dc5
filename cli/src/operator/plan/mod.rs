//! `dynashard plan`: what a load takes, what it costs, and whether to shard at all. It works on figures and files alone.

mod chart;
mod sample;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use dynashard_planning::{Plan, Workload, WorkloadError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::keys::sample::Sample;
use super::keys::timed::TimedSampleArgs;
use super::output::{Form, Output};
use super::planning::{Ended, end, json_file, prices, refused};
use super::{Failure, drawing};

#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    figures: Figures,
    /// A JSON file with such figures, named like the flags with "_" for "-".
    #[arg(long, value_name = "FILE")]
    workload: Option<PathBuf>,
    #[command(flatten)]
    sample: TimedSampleArgs,
    /// The sample's column of sort keys, from which the share of the hottest item is measured.
    #[arg(long, value_name = "NAME", requires = "sample")]
    sk_column: Option<String>,
    /// Other prices, in the form of data/prices-us-east-1.json.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Draw the demand of the hottest key and the capacity of its shards into this file, which ends in .svg.
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    form: Form,
}

/// The fields of a workload.
#[derive(Debug, clap::Args, Serialize)]
struct Figures {
    /// Items that are written in a second, on average over a day.
    #[arg(long, value_name = "N", value_parser = figure)]
    writes_per_second: Option<f64>,
    /// Items that are read by their key in a second. [default: 0]
    #[arg(long, value_name = "N", value_parser = figure)]
    reads_per_second: Option<f64>,
    /// Those reads are strongly consistent.
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    consistent_reads: bool,
    /// Queries of the hottest key in a second. [default: 0]
    #[arg(long, value_name = "N", value_parser = figure)]
    queries_per_second: Option<f64>,
    /// The items that a query returns. [default: 100]
    #[arg(long, value_name = "ITEMS")]
    items_per_query: Option<u32>,
    /// The size of an item with its key, in bytes. dynashard adds about 25: a version, a generation and the shard in the key.
    #[arg(long, value_name = "BYTES")]
    item_bytes: Option<u32>,
    /// How many times its average the load is at its peak. [default: 1]
    #[arg(long, value_name = "TIMES", value_parser = figure)]
    peak_ratio: Option<f64>,
    /// The part of the load that the hottest partition key has. [default: 1]
    #[arg(long, value_name = "PART", value_parser = figure)]
    hot_key_share: Option<f64>,
    /// The part of its key's writes that the hottest item has. [default: 0]
    #[arg(long, value_name = "PART", value_parser = figure)]
    hot_item_share: Option<f64>,
    /// How many partition keys are as hot as that. [default: 1]
    #[arg(long, value_name = "KEYS")]
    hot_keys: Option<u32>,
    /// Whether new sort keys are above all others of their key, as times are. [default: true]
    #[arg(long, value_name = "BOOL")]
    sort_keys_grow: Option<bool>,
    /// Items are only ever added, each under a sort key of its own: nothing is replaced or deleted by its key.
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    append_only: bool,
    /// By which part the load grows in a month: 0.1 is a tenth. [default: 0]
    #[arg(long, value_name = "PART", value_parser = figure)]
    growth_per_month: Option<f64>,
    /// How many months the plan looks ahead. [default: 12]
    #[arg(long, value_name = "MONTHS")]
    months: Option<u32>,
    /// After how many days items are deleted; never, if it is left out.
    #[arg(long, value_name = "DAYS", value_parser = figure)]
    retention_days: Option<f64>,
    /// The items that are stored now. [default: 0]
    #[arg(long, value_name = "ITEMS")]
    stored_items: Option<u64>,
    /// The partitions that a provisioned table has already. A new one gets as many as it needs.
    #[arg(long, value_name = "PARTITIONS")]
    partitions: Option<u32>,
    /// Items that are loaded at first. [default: 0]
    #[arg(long, value_name = "ITEMS")]
    bulk_items: Option<u64>,
    /// In how many minutes. [default: 30]
    #[arg(long, value_name = "MINUTES")]
    bulk_minutes: Option<u32>,
    /// The read replicas of the table. [default: 0]
    #[arg(long, value_name = "REPLICAS")]
    read_replicas: Option<u32>,
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
This command needs neither tables nor an AWS account. docs/PLANNING.md explains how to read the plan.

Flags come before --workload, and that before --sample, from which the rate of writes, the peak and the shares of the
hottest key and item are measured.

Exit status: 0 if there is a plan; 1 if it cannot be printed or drawn; 2 if figures are missing or impossible, or a file or its
rows cannot be read. Then nothing of a plan is printed.

Examples:
  dynashard plan --writes-per-second 5000 --item-bytes 1024
  dynashard plan --writes-per-second 2000 --reads-per-second 5000 --item-bytes 1024 --consistent-reads
  dynashard plan --writes-per-second 200 --item-bytes 1024 --bulk-items 20000000
  dynashard plan --sample orders.csv --pk-column day --time-column at --item-bytes 700 --growth-per-month 0.1
  dynashard plan --workload load.json --chart plan.svg --json";

pub(crate) fn run(args: &PlanArgs) -> ExitCode {
    let mut output = Output::of(args.form, args.json);
    let ended = plan(args, &mut output);
    end(output, ended)
}

fn plan(args: &PlanArgs, output: &mut Output) -> Result<Ended, Failure> {
    drawing::check(args.chart.as_deref())?;
    let prices = prices(args.prices.as_deref())?;
    let mut fields = Map::new();
    let sample = args.sample.of_a_file(args.sk_column.as_deref());
    let has_file = args.workload.is_some() || sample.is_some();
    if let Some(file) = sample {
        let Some(sample) = Sample::timed(&file, output)? else { return Ok(Ended::BadRows) };
        fields.extend(sample::measure(&sample));
    }
    if let Some(path) = &args.workload {
        fields.extend(json_file::<Map<String, Value>>(path)?);
    }
    if let Ok(Value::Object(figures)) = serde_json::to_value(&args.figures) {
        // A figure that was not given is null.
        fields.extend(figures.into_iter().filter(|(_, figure)| !figure.is_null()));
    }
    if args.workload.is_none() && !fields.contains_key("item_bytes") {
        return Err(Failure::bad_argument(
            "--item-bytes is missing: how large an item is, on average",
        ));
    }
    let workload = Workload::deserialize(Value::Object(fields));
    let workload = workload.map_err(|error| refused(&error))?;
    let plan = Plan::of(&workload, &prices);
    let plan =
        plan.map_err(|error| if has_file { refused(&error) } else { refused_flag(error) })?;
    if let Some(path) = &args.chart {
        drawing::write(path, chart::draw(&plan))?;
    }
    text::print(&plan, output);
    output.json(&plan);
    Ok(Ended::Done)
}

/// A number that JSON can hold.
fn figure(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| "it is not a number".to_owned())
}

/// Names flags: where no file gives figures, fields are nothing that a reader has seen.
fn refused_flag(WorkloadError { field, bounds }: WorkloadError) -> Failure {
    let flag = |field: &str| format!("--{}", field.replace('_', "-"));
    let bounds =
        bounds.split(' ').map(|word| if word.contains('_') { flag(word) } else { word.to_owned() });
    let bounds = bounds.collect::<Vec<_>>().join(" ");
    Failure::bad_argument(format!("{} has to be {bounds}", flag(field)))
}
