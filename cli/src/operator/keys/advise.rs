//! `dynashard keys advise`.

use std::collections::HashMap;

use dynashard_keys::{ItemKey, KeyError, Placement, ShardCount};
use serde::Serialize;

use super::advice::{Advice, Candidate, Kind, Load, Steps, advise, is_far_ahead};
use super::sample::{Column, FEW_ROWS, Sample, SampleArgs};
use super::spread::Spread;
use crate::numbers::float;
use crate::operator::Failure;
use crate::operator::output::{Form, Output};
use crate::operator::planning::Ended;

/// So many hot values are named.
const HOT_VALUES: usize = 10;

/// So many candidates are printed.
const CANDIDATES: usize = 8;

/// The most shards that are measured: 2 to this power.
const MOST_DOUBLINGS: u32 = 10;

#[derive(Debug, clap::Args)]
pub(crate) struct AdviseArgs {
    #[command(flatten)]
    sample: SampleArgs,
    /// The writes a second that the sample stands for.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    writes_per_sec: Option<u32>,
    /// The size of an item in KB, rounded up: a write takes a unit for each.
    #[arg(long, value_name = "KB", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=400))]
    item_kb: u16,
    /// Print one line of JSON.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) form: Form,
}

/// What follows the arguments in `--help`.
pub(super) const EXAMPLES: &str = "\
Take a sample of writes as they come, in their order: an access log, or the rows of an hour. What each line means:

  cardinality     distinct values. The articles on partition keys call few values, and rounded dates, bad
  largest share   the part of all rows that the busiest value has. One partition has to take that part of the load
  effective       so many values with the same load each would be as uneven
  hot values      far above the mean, or, with --writes-per-sec, above the 1,000 write units of a partition
  monotone        sort keys that ascend within their partition key: new items all go to one end of it, so that DynamoDB
                  gains nothing by splitting it there
  candidates      other keys, each measured on the same rows. One that keeps queries is read by today's partition key

A sample may lack the column of the sort key. Then neither shards nor the order of sort keys are measured.

Exit status: 0 if the sample was judged; 1 if that cannot be printed; 2 if the sample or rows of it cannot be read, each of which is printed with its
line and the reason. --skip-bad counts them in place of that.

Examples:
  dynashard keys advise flights.csv --pk-column origin --sk-column sk
  dynashard keys advise orders.jsonl.gz --pk-column day --sk-column order_id --writes-per-sec 5000 --item-kb 2
  dynashard keys advise access.csv --pk-column user --json | jq .advice";

#[derive(Serialize)]
struct Report {
    rows: usize,
    bad_rows: usize,
    is_cut: bool,
    partition_key: Judged,
    hot_values: Vec<HotValue>,
    sort_keys: Option<SortKeys>,
    /// The best first.
    candidates: Vec<Candidate>,
    advice: Advice,
}

#[derive(Serialize)]
struct Judged {
    column: String,
    kind: Kind,
    uniformity: &'static str,
    #[serde(flatten)]
    spread: Spread,
}

#[derive(Serialize)]
struct HotValue {
    value: String,
    share: f64,
    write_units_per_sec: Option<f64>,
}

#[derive(Serialize)]
struct SortKeys {
    column: String,
    #[serde(flatten)]
    steps: Steps,
    is_monotone: bool,
    /// Keys that several rows have.
    largest_item_share: f64,
}

pub(super) fn run(args: &AdviseArgs, output: &mut Output) -> Result<Ended, Failure> {
    let sort = args.sample.sort_column();
    // A column that was named has to be there.
    let is_needed = args.sample.sk_column.is_some()
        || Sample::names(&args.sample)?.iter().any(|name| name == sort);
    let sample = Sample::read(&args.sample, is_needed.then_some(sort))?;
    if !sample.may_be_used(output) {
        return Ok(Ended::BadRows);
    }
    let report = report(args, &sample)?;
    print(&report, &sample, output);
    output.json(&report);
    Ok(Ended::Done)
}

fn report(args: &AdviseArgs, sample: &Sample<'_>) -> Result<Report, Failure> {
    let (pk_column, sk_column) = (&args.sample.pk_column, args.sample.sort_column());
    let partition = sample.column(pk_column).ok_or_else(|| Failure {
        code: "input_failed",
        detail: "every row was left out".to_owned(),
    })?;
    let load = args
        .writes_per_sec
        .map(|writes| Load { writes_per_sec: f64::from(writes), units: f64::from(args.item_kb) });
    let rows_of = partition.rows_of_values();
    let spread = Spread::of(rows_of.iter().copied());
    let kind = Kind::of(&spread, sample.rows, partition.are_dates());
    let keys = sample.keys()?;
    let sharded = sharded(&keys)?;
    let sort_keys = (!keys.is_empty()).then(|| sort_keys(sk_column, &keys));
    // A few rows of an item are chance, and no share.
    let item = sort_keys.as_ref().map(|sort| sort.largest_item_share);
    let rows = float(keys.len());
    let item = item.filter(|share| share * rows >= float(FEW_ROWS));
    let advice = advise(kind, &spread, item, &sharded, load);
    Ok(Report {
        rows: sample.rows,
        bad_rows: sample.bad_rows,
        is_cut: sample.is_cut,
        partition_key: Judged {
            column: pk_column.clone(),
            kind,
            uniformity: if kind.is_good() { "good" } else { "bad" },
            spread,
        },
        hot_values: hot_values(partition, &rows_of, &spread, load),
        sort_keys,
        candidates: candidates(args, sample, partition, &sharded),
        advice,
    })
}

/// The values far ahead, or those that one partition cannot take, the busiest first.
fn hot_values(
    partition: &Column,
    rows_of: &[u64],
    spread: &Spread,
    load: Option<Load>,
) -> Vec<HotValue> {
    let all = float(rows_of.iter().sum::<u64>()).max(1.0);
    let shares =
        partition.values.iter().zip(rows_of).map(|(value, rows)| (value, float(*rows) / all));
    let mut hot = shares
        .filter(|(_, share)| match load {
            Some(load) => load.of(*share) > super::advice::PARTITION_WCU,
            None => is_far_ahead(*share, spread),
        })
        .map(|(value, share)| HotValue {
            value: value.clone(),
            share,
            write_units_per_sec: load.map(|load| load.of(share)),
        })
        .collect::<Vec<_>>();
    hot.sort_by(|one, other| other.share.total_cmp(&one.share));
    hot.truncate(HOT_VALUES);
    hot
}

/// How sort keys follow one another, and the busiest item.
fn sort_keys(column: &str, keys: &[ItemKey]) -> SortKeys {
    let mut last = HashMap::new();
    let mut items = HashMap::<_, u64>::new();
    let mut steps = Steps::default();
    for key in keys {
        if let Some(before) = last.insert(&key.partition, &key.sort) {
            steps.count(before.cmp(&key.sort));
        }
        *items.entry(key).or_default() += 1;
    }
    SortKeys {
        column: column.to_owned(),
        steps,
        is_monotone: steps.are_monotone(),
        largest_item_share: Spread::of(items.into_values()).largest_share,
    }
}

/// The spread of the rows over the physical keys of 2, 4, 8, … shards, as long as the busiest has more rows than chance gives.
fn sharded(keys: &[ItemKey]) -> Result<Vec<(u32, Spread)>, KeyError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let most = ShardCount::new(1 << MOST_DOUBLINGS)?;
    let homes = keys
        .iter()
        .filter_map(|key| Some((&key.partition, Placement::Xxh64.home(key, most)?.get())));
    let homes = homes.collect::<Vec<_>>();
    let rows = float(keys.len());
    let is_measured = |(_, spread): &(u32, Spread)| spread.largest_share * rows >= float(FEW_ROWS);
    let spreads = (1..=MOST_DOUBLINGS).map(|doublings| {
        let shards = 1_u32 << doublings;
        let mut rows = HashMap::<_, u64>::new();
        for (partition, home) in &homes {
            // Fewer shards take fewer bits of the same hash.
            *rows.entry((*partition, home & (shards - 1))).or_default() += 1;
        }
        (shards, Spread::of(rows.into_values()))
    });
    Ok(spreads.take_while(is_measured).collect())
}

/// Other keys, the most even first.
fn candidates(
    args: &AdviseArgs,
    sample: &Sample<'_>,
    partition: &Column,
    sharded: &[(u32, Spread)],
) -> Vec<Candidate> {
    let (pk_column, sk_column) = (&args.sample.pk_column, args.sample.sort_column());
    let of_shards = sharded.iter().map(|(shards, spread)| Candidate {
        key: format!("{pk_column}, {shards} shards by xxh64"),
        shards: Some(*shards),
        keeps_queries: true,
        spread: *spread,
    });
    let others = sample.columns.iter().filter(|column| column.name != *pk_column);
    // A column that rows lack cannot be a key.
    let others = others.filter(|column| column.rows() == sample.rows);
    let other = |key, spread| Candidate { key, shards: None, keeps_queries: false, spread };
    let alone = others.clone();
    let alone = alone.map(|it| other(it.name.clone(), Spread::of(it.rows_of_values())));
    let joined = others.filter(|column| column.name != sk_column).map(|column| {
        let mut rows = HashMap::<_, u64>::new();
        for row in 0..sample.rows {
            *rows.entry((partition.number(row), column.number(row))).or_default() += 1;
        }
        other(format!("{pk_column}:{}", column.name), Spread::of(rows.into_values()))
    });
    let mut all = of_shards.chain(alone).chain(joined).collect::<Vec<_>>();
    all.sort_by(|one, other| one.spread.largest_share.total_cmp(&other.spread.largest_share));
    all
}

fn print(report: &Report, sample: &Sample<'_>, output: &mut Output) {
    output.text(format!("{} rows", report.rows));
    sample.tell_missing(output);
    let Judged { column, kind, spread, .. } = &report.partition_key;
    output.text(format!("\nPartition key {column}: {}", kind.says()));
    output.text(format!(
        "  cardinality {}, largest share {:.2}%, effective {:.1}",
        spread.distinct,
        spread.largest_share * 100.0,
        spread.effective
    ));
    for hot in &report.hot_values {
        let units =
            hot.write_units_per_sec.map(|units| format!(", {units:.0} write units a second"));
        let (value, share) = (&hot.value, hot.share * 100.0);
        output.text(format!("  hot: {value:?} has {share:.2}%{}", units.unwrap_or_default()));
    }
    if let Some(sort) = &report.sort_keys {
        let SortKeys { column, steps, is_monotone, largest_item_share } = sort;
        let says = if *is_monotone {
            "monotone, so new items go to one end of their collection"
        } else {
            "not monotone"
        };
        output.text(format!(
            "\nSort key {column}: {says} ({} ascending steps, {} descending)",
            steps.ascending, steps.descending
        ));
        output
            .text(format!("  the busiest item has {:.2}% of the rows", largest_item_share * 100.0));
    }
    output.text("\nCandidates, the most even first     largest share  effective  keeps queries");
    for candidate in report.candidates.iter().take(CANDIDATES) {
        let Candidate { key, keeps_queries, spread, .. } = candidate;
        let keeps = if *keeps_queries { "yes" } else { "no" };
        output.text(format!(
            "  {key:34} {:>11.2}% {:>10.1}  {keeps}",
            spread.largest_share * 100.0,
            spread.effective
        ));
    }
    output.text(match &report.advice {
        Advice::Keep { why } => format!("\nAdvice: keep it. {why}"),
        Advice::Unknown { why } => format!("\nAdvice: it cannot be said. {why}"),
        Advice::Shard { shards, why, .. } => format!("\nAdvice: {shards} shards. {why}"),
        Advice::Cache { why } => format!("\nAdvice: a cache. {why}"),
    });
}
