//! `dynashard simulate`: a load under several strategies of sharding, in virtual time.

mod chart;

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use dynashard_keys::{Placement, ShardCount};
use dynashard_planning::cost::{PriceList, Prices};
use dynashard_planning::shards;
use dynashard_planning::simulation::{Capacity, Change, Run, Scenario, Step, Strategy};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Failure;
use super::output::Output;
use super::plan::PRICES;

/// The exit status for figures and files that cannot be simulated.
const BAD_INPUT: u8 = 2;

#[derive(Debug, clap::Args)]
pub(crate) struct SimulateArgs {
    /// A JSON file with the load over time, in place of the flags that describe it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["writes_per_second", "seconds", "item_bytes", "keys", "zipf", "provisioned_write_units"])]
    scenario: Option<PathBuf>,
    /// Items written a second, all the time.
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        required_unless_present = "scenario"
    )]
    writes_per_second: Option<f64>,
    /// For how long.
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    seconds: u32,
    /// The bytes of an item, with its key and the names of its attributes.
    #[arg(long, value_name = "BYTES", default_value_t = 1_024)]
    item_bytes: u32,
    /// How many partition keys share the load.
    #[arg(long, value_name = "KEYS", default_value_t = NonZeroU32::MIN)]
    keys: NonZeroU32,
    /// How unevenly they do: the share of the key of rank r goes with r^-ZIPF.
    #[arg(long, value_name = "ZIPF", default_value_t = 0.0, allow_negative_numbers = true)]
    zipf: f64,
    /// The table is provisioned with so many write units a second, which auto scaling raises to ten times as many.
    /// Without it the table is on demand.
    #[arg(long, value_name = "UNITS")]
    provisioned_write_units: Option<NonZeroU32>,
    /// What to compare: none, fixed:N, one-more, dynashard and alarm. All of them by default, with N as planned.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    strategy: Vec<Named>,
    /// The same seed draws the same load.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Draw what was offered and what each strategy absorbed into this file, which ends in .svg.
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    /// Print a line of JSON for each strategy.
    #[arg(long)]
    json: bool,
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
                let unknown = "it is none of none, fixed:N with 1 to 65,536 shards, one-more, dynashard and alarm";
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
This command needs neither tables nor an AWS account. Throttled writes are refused and gone: what a strategy does not
absorb, clients would have to send again.

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
  dynashard simulate --scenario day.json --chart day.svg --json

A scenario is {\"item_bytes\": 700, \"steps\": [{\"seconds\": 60, \"writes_per_second\": 200}, {\"seconds\": 300,
\"writes_per_second\": 6000}]}: each step goes evenly to its rate, or with \"at_once\": true begins with it. It may also
have \"keys\", \"zipf\", \"partitions\", and \"capacity\": \"on-demand\" or {\"provisioned\": {\"write_units\": 1000,
\"most_write_units\": 10000}}.";

/// What one strategy came to.
#[derive(Debug, Serialize)]
struct Report<'a> {
    strategy: String,
    offered: u64,
    absorbed: u64,
    absorbed_share: f64,
    throttled_seconds: u32,
    most_shards: u32,
    write_units: u64,
    /// Of these units, on demand.
    usd: f64,
    changes: &'a [Change],
}

pub(crate) fn run(args: &SimulateArgs) -> ExitCode {
    let mut output = Output::new(args.json);
    let (scenario, prices) = match input(args) {
        Ok(input) => input,
        Err(failure) => {
            output.failure(None, &failure);
            return ExitCode::from(BAD_INPUT);
        }
    };
    let strategies = strategies(args, &scenario);
    let runs =
        strategies.iter().map(|named| Run::of(&scenario, named.0, args.seed)).collect::<Vec<_>>();
    let names = strategies.iter().map(|named| named.name()).collect::<Vec<_>>();
    if let Some(path) = &args.chart
        && let Err(failure) = draw(path, &names, &runs)
    {
        output.failure(None, &failure);
        return ExitCode::FAILURE;
    }
    output.text(format!(
        "{:12} {:>9} {:>18} {:>15} {:>10}",
        "strategy", "absorbed", "seconds throttled", "shards at most", "USD"
    ));
    for (strategy, run) in names.iter().zip(&runs) {
        let report = report(strategy, run, &prices);
        output.text(format!(
            "{:12} {:>8.2}% {:>18} {:>15} {:>10.2}",
            report.strategy,
            100.0 * report.absorbed_share,
            report.throttled_seconds,
            report.most_shards,
            report.usd
        ));
        output.json(&report);
    }
    output.text(format!(
        "\nOf the units that were written, on demand in {}, at prices of {}",
        prices.region, prices.date
    ));
    if output.is_broken() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn report<'a>(strategy: &str, run: &'a Run, prices: &Prices) -> Report<'a> {
    Report {
        strategy: strategy.to_owned(),
        offered: run.offered,
        absorbed: run.absorbed,
        absorbed_share: run.absorbed_share(),
        throttled_seconds: run.throttled_seconds,
        most_shards: run.most_shards,
        write_units: run.write_units,
        usd: prices.of_units(0.0, run.units()),
        changes: &run.changes,
    }
}

fn input(args: &SimulateArgs) -> Result<(Scenario, Prices), Failure> {
    if args.chart.as_ref().is_some_and(|path| path.extension().is_none_or(|end| end != "svg")) {
        return Err(refused("--chart draws SVG, so its file has to end in .svg".to_owned()));
    }
    let scenario = match &args.scenario {
        Some(path) => {
            let name = path.display().to_string();
            let text = fs::read_to_string(path).map_err(|error| unread(&name, &error))?;
            parsed(&text, &name)?
        }
        None => described(args),
    };
    scenario.check().map_err(refused)?;
    let prices = parsed::<PriceList>(PRICES, "the prices")?;
    let prices = Prices::of(&prices).map_err(|error| unread("the prices", &error))?;
    Ok((scenario, prices))
}

/// The load that the flags describe.
fn described(args: &SimulateArgs) -> Scenario {
    let step = Step {
        seconds: args.seconds,
        writes_per_second: args.writes_per_second.unwrap_or_default(),
        at_once: true,
    };
    let capacity = args.provisioned_write_units.map_or(Capacity::OnDemand, |write_units| {
        Capacity::Provisioned { write_units, most_write_units: write_units.saturating_mul(TEN) }
    });
    Scenario {
        steps: vec![step],
        keys: args.keys,
        zipf: args.zipf,
        capacity,
        ..Scenario::steady(0.0, args.item_bytes, args.seconds)
    }
}

const TEN: NonZeroU32 = NonZeroU32::new(10).expect("positive");

/// Those that were asked for, or all of them, with the count that the plan gives the busiest key.
fn strategies(args: &SimulateArgs, scenario: &Scenario) -> Vec<Named> {
    if !args.strategy.is_empty() {
        return args.strategy.clone();
    }
    let needed = shards::with_head_room(scenario.busiest());
    let planned = shards::rounded(needed, Placement::Xxh64).unwrap_or(ShardCount::ONE);
    let all = [Strategy::None, Strategy::Fixed(planned), Strategy::OneMore];
    all.into_iter().chain([Strategy::Dynashard, Strategy::DynashardByAlarm]).map(Named).collect()
}

fn draw(path: &Path, names: &[String], runs: &[Run]) -> Result<(), Failure> {
    let failed = |detail| Failure { code: "output_failed", detail };
    let svg = chart::draw(names, runs).map_err(failed)?;
    fs::write(path, svg).map_err(|error| failed(format!("{}: {error}", path.display())))
}

fn parsed<T: DeserializeOwned>(text: &str, name: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| unread(name, &error))
}

fn unread(name: &str, error: &dyn std::error::Error) -> Failure {
    Failure { code: "input_failed", detail: format!("{name}: {error}") }
}

fn refused(detail: String) -> Failure {
    Failure { code: "bad_parameter", detail }
}
