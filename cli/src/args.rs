use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use dynashard_keys::Placement;
use dynashard_local::Limits;

use crate::operator::{self, QueryArgs, ScaleArgs, VerifyArgs};

/// Spreads a hot DynamoDB partition key over shards, and reads it back in order.
#[derive(Debug, Parser)]
#[command(
    name = "dynashard",
    version,
    arg_required_else_help = true,
    after_help = "Logs go to stderr; DYNASHARD_LOG sets their level, as in DYNASHARD_LOG=debug."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the whole application on this machine: no AWS account, no Docker.
    ///
    /// Reads template.yaml, builds the functions, and serves the HTTP API, a DynamoDB endpoint, the
    /// Lambda Invoke API and CloudWatch on 127.0.0.1. When everything answers, one line of JSON with the
    /// addresses goes to stdout. Ctrl-C or SIGTERM ends it, and nothing is left behind.
    ///
    /// DynamoDB throttles here as on AWS: by partition, and by what a table is provisioned with.
    #[command(after_help = LOCAL_EXAMPLES)]
    Local(LocalArgs),
    /// Offer real flights to three hot partition keys faster than a partition takes, and watch the
    /// shards follow.
    ///
    /// Starts a stack of its own on free ports, with small partitions. Flights that left New York in
    /// January 2013 are offered to the API at a steady rate, repeated months later where the file is
    /// too short, until the shard counts have followed by themselves: under the default placement by
    /// online resharding, which moves the items while more are written. Then every flight is read back
    /// in order and compared, and once more when the reshards have closed. The exit status is 0 only
    /// if every flight came back once, in order and unchanged, each time.
    ///
    /// A reshard closes within seconds of its last move here, since the parameter `RequestLifetimeSecs`
    /// is 5: this machine's DynamoDB refuses requests whose signature is older. On AWS it is 960, and
    /// the close takes 16 minutes.
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(DemoArgs),
    /// Look collections over: whether each item lies in its shard, once, and what they hold.
    ///
    /// Walks every shard that a collection has, or had by one of its last 20 counts, side by side and
    /// with strong reads, and looks twice at whatever seems wrong. It keeps no more than a page of each
    /// shard in memory.
    #[command(after_help = operator::verify::EXAMPLES)]
    Verify(VerifyArgs),
    /// Ask for another shard count, and wait until the collection has it.
    #[command(after_help = operator::scale::EXAMPLES)]
    Scale(ScaleArgs),
    /// Print the items of a collection as lines of JSON, in order, from all of its shards.
    ///
    /// It keeps no more than a page in memory, however large the collection is, and can go on where it
    /// was interrupted.
    #[command(after_help = operator::query::EXAMPLES)]
    Query(QueryArgs),
}

const LOCAL_EXAMPLES: &str = "\
Examples:
  dynashard local
  dynashard local --data-dir ./dynashard-data --set LeaseSecs=2
  dynashard local --engine-only --partition-wcu 100
  curl -X PUT 'http://127.0.0.1:3000/item?pk=EWR&sk=2013-01-01' -H 'content-type: application/json' -d '{\"flight\": 1545}'
  aws dynamodb scan --table-name MainTable --endpoint-url http://127.0.0.1:8000";

const DEMO_EXAMPLES: &str = "\
Examples:
  dynashard demo
  dynashard demo --scaling alarm
  dynashard demo --placement random
  dynashard demo --partition-wcu 500 --load 4 --chart-dir charts
  dynashard demo --json > summary.json";

#[derive(Debug, clap::Args)]
pub(crate) struct LocalArgs {
    /// The port of the HTTP API; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 3000)]
    pub(crate) port: u16,
    /// The port of the DynamoDB and DynamoDB Streams endpoint; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    pub(crate) dynamodb_port: u16,
    /// The port of the Lambda Invoke API; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 9001)]
    pub(crate) lambda_port: u16,
    /// The port of the CloudWatch endpoint; 0 takes a free one. By default it is 9002, or a free one
    /// where another program listens there.
    #[arg(long, value_name = "PORT")]
    pub(crate) cloudwatch_port: Option<u16>,
    /// Keep the tables in this directory. Without it they are in memory and end with the stack.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// How many environments of one function may run side by side.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) max_environments: u16,
    /// Give every alarm periods of this many seconds, and evaluate it at the end of each. Without
    /// it alarms have the periods of the template, and are evaluated each minute.
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(NonZeroU32))]
    pub(crate) alarm_period_secs: Option<NonZeroU32>,
    /// Serve nothing but the DynamoDB endpoint, without tables: a DynamoDB that throttles, for any
    /// program's tests. Needs no project and builds nothing.
    #[arg(long, conflicts_with_all = ["template", "functions_dir", "settings", "max_environments", "alarm_period_secs"])]
    pub(crate) engine_only: bool,
    #[command(flatten)]
    pub(crate) project: ProjectArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// When the tables of a stack throttle.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Into how many partitions, ranges of hashed partition keys, each table and index is cut.
    #[arg(long, value_name = "N", default_value_t = Limits::default().partitions)]
    partitions: NonZeroU32,
    /// What one partition writes, in write units a second.
    #[arg(long, value_name = "UNITS", default_value_t = Limits::default().partition_wcu)]
    partition_wcu: NonZeroU32,
    /// What one partition reads, in read units a second.
    #[arg(long, value_name = "UNITS", default_value_t = Limits::default().partition_rcu)]
    partition_rcu: NonZeroU32,
    /// For how many seconds a provisioned table saves up capacity that it does not use. Partitions
    /// save up none.
    #[arg(long, value_name = "SECS", default_value_t = Limits::default().burst_secs)]
    burst_secs: u32,
}

impl LimitArgs {
    pub(crate) const fn limits(&self) -> Limits {
        Limits {
            partitions: self.partitions,
            partition_wcu: self.partition_wcu,
            partition_rcu: self.partition_rcu,
            burst_secs: self.burst_secs,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// What one partition writes, in write units a second. AWS's own is 1000, which is more than
    /// most machines can overload.
    #[arg(long, value_name = "UNITS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) partition_wcu: u32,
    /// How many times what one partition writes is offered to the busiest airport. The next one is
    /// offered a half of that, the third a quarter.
    #[arg(long, value_name = "TIMES", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) load: u32,
    /// What begins a growth: the writer that is throttled, or the alarm alone.
    #[arg(long, value_enum, default_value_t = Scaling::Writers)]
    pub(crate) scaling: Scaling,
    /// How items find their shards: xxh64, jump or random. By default what the template says, xxh64.
    #[arg(long, value_name = "NAME")]
    pub(crate) placement: Option<Placement>,
    /// For how many seconds the collections are measured once their shard counts have settled.
    #[arg(long, value_name = "SECS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) steady_secs: u64,
    /// After how many seconds the demo stops waiting for that, and for its reshards to close.
    #[arg(long, value_name = "SECS", default_value_t = 150, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) time_limit_secs: u64,
    /// Where the chart of the run goes, as demo.svg and demo.png.
    #[arg(long, value_name = "DIR", default_value = "target/demo")]
    pub(crate) chart_dir: PathBuf,
    /// Print the summary as one line of JSON on stdout.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) project: ProjectArgs,
}

/// What begins a growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scaling {
    /// A write that a partition throttles.
    Writers,
    /// The throttle alarm, and what it invokes.
    Alarm,
}

/// Where the application is.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ProjectArgs {
    /// The SAM template. By default it is looked for here and in the directories above.
    #[arg(long, value_name = "FILE")]
    pub(crate) template: Option<PathBuf>,
    /// Run the bootstraps in this directory instead of building them with cargo: `<binary>`,
    /// `<binary>/bootstrap` or `<LogicalId>/bootstrap`.
    #[arg(long, value_name = "DIR")]
    pub(crate) functions_dir: Option<PathBuf>,
    /// Set a template parameter; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub(crate) settings: Vec<(String, String)>,
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it must be NAME=VALUE, as in LeaseSecs=2")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn settings_keep_everything_behind_the_first_equals_sign() {
        assert_eq!(parse_setting("Separator=="), Ok(("Separator".to_owned(), "=".to_owned())));
        assert!(parse_setting("Separator").is_err());
    }
}
