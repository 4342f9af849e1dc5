//! `dynashard simulate`: a load under several strategies of sharding, in virtual time.

mod chart;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use dynashard_core::{ScalingMode, Settings};
use dynashard_keys::{Placement, ShardCount};
use dynashard_planning::capacity::write_units_of_item;
use dynashard_planning::cost::Prices;
use dynashard_planning::figure::{count, number};
use dynashard_planning::shards;
use dynashard_planning::simulation::{
    Capacity, Change, Recording, Run, Scenario, SortKeys, Strategy,
};
use dynashard_planning::table::{DEFAULT_QUOTA, NEW_TABLE};
use serde::Serialize;

use super::keys::sample::Sample;
use super::keys::timed::TimedSampleArgs;
use super::output::{Form, Output};
use super::planning::{Ended, end, json_file, prices, refused};
use super::{Failure, drawing};
use crate::numbers::float;

#[derive(Debug, clap::Args)]
pub(crate) struct SimulateArgs {
    /// A JSON file with the load over time, in place of the flags that describe it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["writes_per_second", "seconds", "item_bytes", "keys", "zipf", "items", "sort_keys", "patience_seconds", "provisioned_write_units", "sample", "times", "pk_column", "time_column", "skip_bad", "max_rows"])]
    scenario: Option<PathBuf>,
    #[command(flatten)]
    sample: TimedSampleArgs,
    /// Simulate so many times the writes of the sample: 10 for ten times its load, 0.1 for a tenth.
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, requires = "sample")]
    times: f64,
    /// Items written a second, all the time.
    #[arg(
        long,
        value_name = "N",
        required_unless_present_any = ["scenario", "sample"],
        conflicts_with = "sample"
    )]
    writes_per_second: Option<f64>,
    /// For how long.
    #[arg(long, value_name = "SECONDS", default_value_t = 900, conflicts_with = "sample")]
    seconds: u32,
    /// The bytes of an item, with its key and the names of its attributes.
    #[arg(long, value_name = "BYTES", default_value_t = 1_024)]
    item_bytes: u32,
    /// How many partition keys share the load: 1 to 1,000.
    #[arg(long, value_name = "KEYS", default_value_t = NonZeroU32::MIN, conflicts_with = "sample")]
    keys: NonZeroU32,
    /// How unevenly they do: the share of the key of rank r goes with r^-ZIPF.
    #[arg(long, value_name = "ZIPF", default_value_t = 0.0, conflicts_with = "sample")]
    zipf: f64,
    /// Items that lie in the table before, shared out like the load. A change of shards has to move them.
    #[arg(long, value_name = "ITEMS", default_value_t = 0)]
    items: u64,
    /// In which order sort keys come: growing, as times do, or random. DynamoDB splits hot partitions to some use only if
    /// it is random.
    #[arg(long, value_name = "ORDER", default_value = "growing", value_parser = order)]
    sort_keys: SortKeys,
    /// How long a client goes on with a write that is throttled, once a second. With 0 the write is gone.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    patience_seconds: u32,
    /// The table is provisioned with so many write units a second, which auto scaling raises to ten times as many.
    /// Without it the table is on demand.
    #[arg(long, value_name = "UNITS")]
    provisioned_write_units: Option<NonZeroU32>,
    /// What to compare: none, fixed:N, one-more, dynashard and alarm. All of them by default, with N as planned.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    strategy: Vec<Named>,
    /// dynashard gives back shards that are not needed any more: ShrinkMode=on.
    #[arg(long)]
    shrink: bool,
    /// Draws the load: one seed, one load.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Draw what each strategy absorbs of the load into this file, which ends in .svg.
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    /// Print a line of JSON for each strategy.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    form: Form,
}

/// A strategy by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Named(Strategy);

impl FromStr for Named {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Ok(Self(match name {
            "none" => Strategy::None,
            "one-more" => Strategy::OneMore,
            "dynashard" => Strategy::Dynashard,
            "alarm" => Strategy::DynashardByAlarm,
            _ => {
                let shards = name.strip_prefix("fixed:").and_then(|count| count.parse().ok());
                let shards = shards.and_then(ShardCount::in_range);
                let unknown =
                    "choose none, fixed:N with 1 to 65,536 shards, one-more, dynashard or alarm";
                Strategy::Fixed(shards.ok_or(unknown)?)
            }
        }))
    }
}

impl Named {
    fn name(self) -> String {
        match self.0 {
            Strategy::None => "none".to_owned(),
            Strategy::Fixed(shards) => format!("fixed:{shards}"),
            Strategy::OneMore => "one-more".to_owned(),
            Strategy::Dynashard => "dynashard".to_owned(),
            Strategy::DynashardByAlarm => "alarm".to_owned(),
        }
    }
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
This command needs neither tables nor an AWS account. What a strategy does not absorb was refused, and its client gave up:
at once, or after --patience-seconds.

  none        every key has one shard
  fixed:N     every key has N shards from the beginning
  one-more    a throttle adds a shard, once a minute, as AWS's article on dynamic write sharding has it
  dynashard   writers that are throttled decide, by the function that runs in production
  alarm       the same, by alarms alone, as with WriterScaling=off

Exit status: 0 if it was simulated; 1 if it cannot be printed or drawn; 2 if figures are missing or impossible, or a
file cannot be read.

Examples:
  dynashard simulate --writes-per-second 10000 --seconds 3600
  dynashard simulate --writes-per-second 8000 --keys 20 --zipf 1.1 --strategy none,fixed:4,dynashard
  dynashard simulate --writes-per-second 3000 --items 1000000 --patience-seconds 30
  dynashard simulate --sample orders.csv --pk-column customer --time-column at --item-bytes 700 --chart orders.svg
  dynashard simulate --scenario day.json --shrink --json

A scenario is {\"item_bytes\": 700, \"steps\": [{\"seconds\": 60, \"writes_per_second\": 200}, {\"seconds\": 300,
\"writes_per_second\": 6000}]}: each step goes evenly to its rate, or with \"at_once\": true begins with it. It may also
have \"keys\", \"zipf\", \"items\", \"sort_keys\", \"patience_seconds\", \"environments\", \"partitions\", and \"capacity\":
\"on-demand\" or {\"provisioned\": {\"write_units\": 1000, \"most_write_units\": 10000}}.";

/// What one strategy came to.
#[derive(Debug, Serialize)]
struct Report<'a> {
    strategy: &'a str,
    offered: u64,
    absorbed: u64,
    absorbed_share: f64,
    throttled_seconds: u32,
    longest_throttled_seconds: u32,
    p50_wait_seconds: u32,
    p99_wait_seconds: u32,
    most_shards: u32,
    mean_shards: f64,
    moved: u64,
    moved_if_whole: u64,
    most_epochs: u32,
    mean_shards_read: f64,
    write_units: u64,
    move_write_units: u64,
    peak_write_units: u64,
    usd: f64,
    changes: &'a [Change],
}

pub(crate) fn run(args: &SimulateArgs) -> ExitCode {
    let mut output = Output::of(args.form, args.json);
    let ended = simulate(args, &mut output);
    end(output, ended)
}

fn simulate(args: &SimulateArgs, output: &mut Output) -> Result<Ended, Failure> {
    let Some((scenario, prices)) = input(args, output)? else { return Ok(Ended::BadRows) };
    let mut settings = Settings::default();
    if args.shrink {
        settings.shrink.mode = ScalingMode::On;
    }
    let strategies = strategies(args, &scenario);
    let names = strategies.iter().map(|named| named.name()).collect::<Vec<_>>();
    let runs = strategies
        .into_iter()
        .map(|Named(strategy)| Run::of(&scenario, strategy, &settings, args.seed));
    let runs = runs.collect::<Result<Vec<_>, _>>().map_err(|error| refused(&error))?;
    if let Some(path) = &args.chart {
        drawing::write(path, chart::draw(&names, &runs, &prices))?;
    }
    let units_of_item = u64::from(write_units_of_item(scenario.item_bytes));
    let offered = runs.iter().flat_map(|run| &run.seconds).map(|second| second.offered);
    let peak = offered.max().unwrap_or(0) * units_of_item;
    let reports = names.iter().zip(&runs).map(|(name, run)| report(name, run, peak, &prices));
    print(&reports.collect::<Vec<_>>(), scenario.patience_seconds > 0, output);
    let pays = match scenario.capacity {
        Capacity::OnDemand => "the write units, on demand",
        Capacity::Provisioned { .. } => "the write units that were provisioned",
    };
    output.text("");
    for (name, run) in names.iter().zip(&runs) {
        if let Some(says) = of_the_past(name, run, units_of_item, &prices) {
            output.text(says);
        }
    }
    if matches!(scenario.capacity, Capacity::OnDemand) {
        output.text(of_table(peak));
    }
    output.text(format!("USD: {pays} in {}, at prices of {}", prices.region, prices.date));
    Ok(Ended::Done)
}

/// A table of all reports. Where clients are patient, it says how long they waited.
fn print(reports: &[Report<'_>], are_patient: bool, output: &mut Output) {
    let cells = |cells: [String; 9]| {
        let [strategy, absorbed, throttled, longest, wait, most, mean, moved, usd] = cells;
        let wait = if are_patient { format!(" {wait:>9}") } else { String::new() };
        format!(
            "{strategy:12} {absorbed:>8} {throttled:>10} {longest:>8}{wait} {most:>7} {mean:>6} {moved:>11} {usd:>9}"
        )
    };
    let heads = [
        "strategy",
        "absorbed",
        "throttled",
        "longest",
        "p99 wait",
        "shards",
        "mean",
        "moved",
        "USD",
    ];
    output.text(cells(heads.map(str::to_owned)));
    for report in reports {
        output.text(cells([
            report.strategy.to_owned(),
            format!("{:.2}%", 100.0 * report.absorbed_share),
            format!("{} s", report.throttled_seconds),
            format!("{} s", report.longest_throttled_seconds),
            format!("{} s", report.p99_wait_seconds),
            report.most_shards.to_string(),
            format!("{:.1}", report.mean_shards),
            count(report.moved),
            format!("{:.2}", report.usd),
        ]));
        output.json(report);
    }
}

/// What it spares that sort keys grow, so that what was written before a change stays where it is.
fn of_the_past(name: &str, run: &Run, units_of_item: u64, prices: &Prices) -> Option<String> {
    if run.most_epochs < 2 {
        return None;
    }
    let units = float(run.spared_write_units(units_of_item));
    Some(format!(
        "{name}: sort keys grow, and its changes spare {} moves of items: {} write units (USD {:.2}) fewer; {} epochs at most, {:.1} shards read for a page",
        count(run.spared()),
        number(units),
        prices.of_units(0.0, units),
        run.most_epochs,
        run.mean_shards_read
    ))
}

/// What a load that offers so many write units in its busiest second needs of a table on demand.
fn of_table(peak: u64) -> String {
    let (peak, new, quota) = (float(peak), NEW_TABLE.write_units, DEFAULT_QUOTA.write_units);
    let warm = if peak > new {
        format!(
            "a new table takes {} at once, and with WarmWriteUnits={peak:.0} all of it",
            number(new)
        )
    } else {
        format!("a new table takes {} at once", number(new))
    };
    let quota = if peak > quota {
        format!("; the table quota, {} by default, has to be raised", number(quota))
    } else {
        String::new()
    };
    format!("Table: the busiest second offers {} write units; {warm}{quota}", number(peak))
}

fn report<'a>(strategy: &'a str, run: &'a Run, peak: u64, prices: &Prices) -> Report<'a> {
    Report {
        strategy,
        offered: run.offered,
        absorbed: run.absorbed,
        absorbed_share: run.absorbed_share(),
        throttled_seconds: run.throttled_seconds,
        longest_throttled_seconds: run.longest_throttled_seconds,
        p50_wait_seconds: run.p50_wait_seconds,
        p99_wait_seconds: run.p99_wait_seconds,
        most_shards: run.most_shards,
        mean_shards: run.mean_shards(),
        moved: run.moved,
        moved_if_whole: run.moved_if_whole,
        most_epochs: run.most_epochs,
        mean_shards_read: run.mean_shards_read,
        write_units: run.write_units,
        move_write_units: run.move_write_units,
        peak_write_units: peak,
        usd: run.usd(prices),
        changes: &run.changes,
    }
}

/// What to simulate, and the prices; none if rows of the sample cannot be read.
fn input(args: &SimulateArgs, output: &mut Output) -> Result<Option<(Scenario, Prices)>, Failure> {
    drawing::check(args.chart.as_deref())?;
    // Not a number is neither.
    if !(args.times > 0.0 && args.times <= MOST_TIMES) {
        let detail = format!("--times must be above 0 and at most {MOST_TIMES}");
        return Err(Failure { code: "bad_parameter", detail });
    }
    let scenario = match (&args.scenario, args.sample.of_a_file(None)) {
        (Some(path), _) => json_file(path)?,
        (None, Some(file)) => {
            let Some(sample) = Sample::timed(&file, output)? else { return Ok(None) };
            let recording =
                Recording::of(sample.writes().map(|(_, key, second)| (key.to_owned(), second, 1)));
            if recording.left_out() > 0 {
                note!(
                    "dynashard: {} writes of the keys after the busiest thousand are left out",
                    recording.left_out()
                );
            }
            described(args, Scenario::recorded(recording.times(args.times), args.item_bytes))
        }
        (None, None) => {
            let rate = args.writes_per_second.unwrap_or_default();
            described(args, Scenario::steady(rate, args.item_bytes, args.seconds))
        }
    };
    scenario.check().map_err(|error| refused(&error))?;
    Ok(Some((scenario, prices(None)?)))
}

/// The load with what the other flags say of it.
fn described(args: &SimulateArgs, load: Scenario) -> Scenario {
    let capacity = args.provisioned_write_units.map_or(Capacity::OnDemand, |write_units| {
        Capacity::Provisioned { write_units, most_write_units: write_units.saturating_mul(TEN) }
    });
    Scenario {
        keys: args.keys,
        zipf: args.zipf,
        items: args.items,
        sort_keys: args.sort_keys,
        patience_seconds: args.patience_seconds,
        capacity,
        ..load
    }
}

fn order(name: &str) -> Result<SortKeys, String> {
    match name {
        "growing" => Ok(SortKeys::Growing),
        "random" => Ok(SortKeys::Random),
        _ => Err("it is neither growing nor random".to_owned()),
    }
}

/// The most that a sample is scaled by.
const MOST_TIMES: f64 = 1_000.0;

const TEN: NonZeroU32 = NonZeroU32::new(10).expect("positive");

/// Those that were asked for, or all of them, with the count that the plan gives the busiest key, if a collection can have
/// it.
fn strategies(args: &SimulateArgs, scenario: &Scenario) -> Vec<Named> {
    if !args.strategy.is_empty() {
        return args.strategy.clone();
    }
    let needed = shards::with_head_room(scenario.busiest());
    let planned = shards::rounded(needed, Placement::Xxh64).map(Strategy::Fixed);
    let measured = [Strategy::OneMore, Strategy::Dynashard, Strategy::DynashardByAlarm];
    [Strategy::None].into_iter().chain(planned).chain(measured).map(Named).collect()
}
