//! `dynashard keys histogram`.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use dynashard_keys::ItemKey;
use dynashard_planning::figure::count;
use serde::Serialize;

use super::chart;
use super::method::{Method, MethodArgs, Shards};
use super::sample::{Sample, SampleArgs};
use super::spread::{Evenness, Spread};
use crate::numbers::float;
use crate::operator::output::{Form, Output};
use crate::operator::planning::Ended;
use crate::operator::{Failure, drawing};

/// A terminal shows so many bars.
const MOST_BARS: usize = 64;

/// The characters of the longest bar.
const BAR: f64 = 50.0;

#[derive(Debug, clap::Args)]
pub(crate) struct HistogramArgs {
    #[command(flatten)]
    sample: SampleArgs,
    /// The rule that finds the shards.
    #[arg(long, value_enum, value_name = "NAME", default_value = "xxh64")]
    rule: Method,
    /// The partition key whose rows are counted. The default is the one that has most: shards of different keys are
    /// different partitions.
    #[arg(long, value_name = "KEY")]
    pk: Option<String>,
    #[command(flatten)]
    method: MethodArgs,
    /// Draw the histogram into this file, which ends in .svg.
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    /// Print one line of JSON.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) form: Form,
}

/// What follows the arguments in `--help`.
pub(super) const EXAMPLES: &str = "\
Two questions have an answer each:

  Is the rule fair?      A chi-square test of the distinct items of each shard. p is how often a fair rule would be at
                         least as uneven; below 0.001 the rule, or the shape of the keys, is at fault.
  Is the load even?      The rows of each shard. A key that repeats in the sample stays in its shard, so a hot item
                         makes a hot shard under every rule that calculates.

Exit status: 0 if the sample was counted; 1 if that cannot be printed or drawn; 2 if the sample or rows of it cannot be read, each of which is printed with its
line and the reason. --skip-bad counts them in place of that.

Examples:
  dynashard keys histogram flights.csv --pk-column origin --sk-column sk
  dynashard keys histogram orders.jsonl --pk-column day --sk-column order_id --rule code-points --shards 200
  dynashard keys histogram flights.csv --pk-column origin --sk-column sk --rule jump --shards 10 --chart shards.svg";

#[derive(Serialize)]
struct Report {
    /// The partition key, of how many.
    pk: String,
    keys: usize,
    rule: &'static str,
    shards: u32,
    first_shard: u32,
    rows: u64,
    bad_rows: usize,
    is_cut: bool,
    items: u64,
    /// The rows of each shard.
    counts: Vec<u64>,
    /// How much more than its share the busiest shard has: 1 is even.
    busiest: f64,
    evenness: Option<Evenness>,
    load: Spread,
}

pub(super) fn run(args: &HistogramArgs, output: &mut Output) -> Result<Ended, Failure> {
    let shards = args.rule.shards(args.method)?;
    if matches!(args.rule, Method::Random | Method::RandomSuffix) {
        let why = "random draws a shard for each write, so a sample of keys says nothing about it; choose another rule";
        return Err(Failure { code: "bad_parameter", detail: why.to_owned() });
    }
    drawing::check(args.chart.as_deref())?;
    let sample = Sample::read(&args.sample, Some(args.sample.sort_column()))?;
    if !sample.may_be_used(output) {
        return Ok(Ended::BadRows);
    }
    let mut keys = sample.keys()?;
    let mut rows = BTreeMap::<_, u64>::new();
    for key in &keys {
        *rows.entry(key.partition.clone()).or_default() += 1;
    }
    let of = rows.len();
    // Of several with as many rows the first.
    let busiest = rows.into_iter().rev().max_by_key(|(_, rows)| *rows).map(|(key, _)| key);
    let pk = args.pk.clone().or(busiest.map(|key| key.to_string())).unwrap_or_default();
    keys.retain(|key| key.partition.as_str() == pk);
    if keys.is_empty() {
        let detail = "no row has this partition key".to_owned();
        return Err(Failure { code: "input_failed", detail });
    }
    let report = report((pk, of), args.rule, &shards, &keys, &sample);
    if let Some(path) = &args.chart {
        let Report { rows, shards, rule, busiest, .. } = report;
        let verdict = report.evenness.as_ref().map_or("too few for a test", Evenness::verdict);
        let title = format!(
            "{} rows over {} shards by {rule}: {verdict}",
            count(rows),
            count(shards.into())
        );
        let histogram = chart::Histogram {
            title: &title,
            shows: &format!("The busiest shard has {busiest:.2} times its share"),
            first_shard: report.first_shard,
            counts: &report.counts,
            items: report.items,
        };
        drawing::write(path, chart::draw(&histogram))?;
    }
    print(&report, &sample, output);
    output.json(&report);
    Ok(Ended::Done)
}

/// Counts keys that all have a home.
fn report(
    (pk, of): (String, usize),
    rule: Method,
    shards: &Shards,
    keys: &[ItemKey],
    sample: &Sample<'_>,
) -> Report {
    let length = usize::try_from(shards.count().get()).unwrap_or(0);
    let (mut counts, mut items) = (vec![0_u64; length], vec![0_u64; length]);
    let mut seen = HashSet::new();
    let first = shards.first().get();
    for key in keys {
        let place = shards.home(key).and_then(|shard| usize::try_from(shard.get() - first).ok());
        let Some(place) = place else { continue };
        counts[place] += 1;
        items[place] += u64::from(seen.insert(key));
    }
    let rows = counts.iter().sum::<u64>();
    let mean = float(rows) / f64::from(shards.count().get());
    Report {
        pk,
        keys: of,
        rule: rule.as_str(),
        shards: shards.count().get(),
        first_shard: first,
        rows,
        bad_rows: sample.bad_rows,
        is_cut: sample.is_cut,
        items: items.iter().sum(),
        busiest: float(counts.iter().copied().max().unwrap_or(0)) / mean.max(f64::MIN_POSITIVE),
        evenness: Evenness::of(&items),
        load: Spread::of(counts.iter().copied()),
        counts,
    }
}

fn print(report: &Report, sample: &Sample<'_>, output: &mut Output) {
    let Report { pk, keys, rule, shards, rows, items, busiest, .. } = report;
    if *keys > 1 {
        output.text(format!("the partition key {pk:?}, one of {keys}; --pk names another"));
    }
    output.text(format!("{rows} rows of {items} items over {shards} shards by {rule}"));
    sample.tell_missing(output);
    output.text("");
    let of_one = report.counts.len().div_ceil(MOST_BARS);
    let groups = report.counts.chunks(of_one).map(|shards| shards.iter().sum::<u64>());
    let groups = groups.collect::<Vec<_>>();
    let longest = float(groups.iter().copied().max().unwrap_or(0)).max(1.0);
    let mut shard = usize::try_from(report.first_shard).unwrap_or(0);
    for (rows, group) in groups.iter().zip(report.counts.chunks(of_one)) {
        let name = if group.len() == 1 {
            shard.to_string()
        } else {
            format!("{shard}-{}", shard + group.len() - 1)
        };
        shard += group.len();
        output.text(format!("{name:>11} {rows:>9} {}", bar(float(*rows) / longest * BAR)));
    }
    output.text("");
    match &report.evenness {
        Some(evenness) => {
            let Evenness { chi_square, degrees_of_freedom, p_value } = evenness;
            let verdict = evenness.verdict();
            output.text(format!(
                "items: chi-square {chi_square:.1} with {degrees_of_freedom} degrees of freedom, p = {p_value:.4}: {verdict}"
            ));
        }
        None => output.text(
            "items: too few for a chi-square test, which takes two shards and five items for each",
        ),
    }
    output.text(format!("load: the busiest shard has {busiest:.2} times its share"));
}

/// A bar of blocks, to an eighth of a character.
fn bar(length: f64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 400")]
    let eighths = (length * 8.0).round() as usize;
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}
