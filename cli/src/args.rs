//! What the command line takes: every command with its help. The arguments of operators' commands stand where these are carried out.

use std::error::Error;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::num::{NonZeroU32, ParseIntError};
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::builder::{BoolValueParser, TypedValueParser};
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use dynashard_api::release;
use dynashard_keys::Placement;
use dynashard_local::Limits;
use serde::Serialize;

use crate::console::{self, ConsoleArgs, LookArgs};
use crate::operator;
use crate::serve;
use crate::shell;
use crate::wrap::flowing;

/// What `--version` prints: the version, and the commit if the build knew it.
static VERSION: LazyLock<String> = LazyLock::new(|| match release::COMMIT {
    Some(commit) => format!("{} ({commit})", release::VERSION),
    None => release::VERSION.to_owned(),
});

/// Spreads a hot DynamoDB partition key over shards, and reads it back in order.
#[derive(Debug, Parser)]
#[command(
    name = "dynashard",
    version = VERSION.as_str(),
    arg_required_else_help = true,
    after_help = "Logs go to stderr, and those of the demo to a file. DYNASHARD_LOG sets their level, as in DYNASHARD_LOG=debug."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the whole application on this machine: no AWS account, no Docker.
    ///
    /// Reads template.yaml, builds the functions, and serves the HTTP API, DynamoDB, the Lambda Invoke
    /// API and CloudWatch on 127.0.0.1. When all of them answer, it prints their addresses on stdout as
    /// one line of JSON. Ctrl-C or SIGTERM ends it and every process that it started.
    ///
    /// DynamoDB throttles as it does on AWS: each partition at its limit, and each table at what it is
    /// provisioned with.
    #[command(after_help = LOCAL_EXAMPLES)]
    Local(LocalArgs),
    /// Write real flights to three hot partition keys, faster than one partition can take them, and
    /// watch the shard counts follow.
    ///
    /// The demo starts a local stack with small partitions on free ports, and offers it the flights
    /// that left New York in January 2013, by way of the HTTP API and at a steady rate; with --endpoint, by way of
    /// DynamoDB's own protocol, as an application with an unmodified SDK would. Throttled
    /// writers raise the shard counts. Under the default placement items then move to their new shards
    /// while more are written. When the counts have settled, the demo reads every flight back in order
    /// and compares it with what it wrote, and does so again when the reshards have closed. The exit
    /// status is 0 only if each time every flight came back once, in order and unchanged.
    ///
    /// Here a reshard closes seconds after its last move, because the demo sets `RequestLifetimeSecs`
    /// to 5, and the local DynamoDB refuses older signatures. On AWS the parameter is 960, and the
    /// close takes 16 minutes.
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(DemoArgs),
    /// Serve DynamoDB's own protocol in front of tables: an unmodified SDK talks to it, and needs nothing but its address.
    ///
    /// It runs beside the application, which finds it by `AWS_ENDPOINT_URL_DYNAMODB`. Requests on tables that are not named by
    /// --tables go to DynamoDB unchanged, signed with the credentials of this command. Writes to managed tables get the guard
    /// and a version, one request each, and what dynashard stores beside the items stays out of the answers.
    ///
    /// It begins the growth of keys that it sees throttled, and holds their writes meanwhile.
    #[command(after_help = serve::EXAMPLES)]
    Serve(serve::ServeCommand),
    /// Check that every item lies in its own shard, exactly once, and repair what does not.
    ///
    /// The command reads every shard that a collection has or ever had, side by side and with strong reads.
    /// Whatever seems wrong is read a second time before it is reported. At
    /// most a page of each shard is in memory.
    #[command(after_help = operator::verify::EXAMPLES)]
    Verify(operator::verify::VerifyArgs),
    /// Change the shard count of a collection, and wait until the change is complete.
    #[command(after_help = operator::scale::EXAMPLES)]
    Scale(operator::scale::ScaleArgs),
    /// Show the changes of shard counts that run: how far each is, how fast it goes, and what it does next.
    #[command(after_help = operator::reshards::EXAMPLES)]
    Reshards(operator::reshards::ReshardsArgs),
    /// Halt the moves of a running change, without a deployment, until `resume`.
    #[command(after_help = operator::reshards::PAUSE_EXAMPLES)]
    Pause(operator::reshards::PauseArgs),
    /// Let a paused change go on, or give it another rate.
    #[command(after_help = operator::reshards::RESUME_EXAMPLES)]
    Resume(operator::reshards::ResumeArgs),
    /// Have a collection go back to the shard count that it had before the change that runs.
    #[command(after_help = operator::reshards::CANCEL_EXAMPLES)]
    Cancel(operator::reshards::PauseArgs),
    /// Show a stack on one screen: its settings, the sharded collections, the changes that run, and the last decisions.
    #[command(after_help = operator::status::EXAMPLES)]
    Status(operator::status::StatusArgs),
    /// Show the hottest partition keys of a table, managed or not: what is refused most, and what is asked for most.
    #[command(after_help = operator::top::EXAMPLES)]
    Top(operator::top::TopArgs),
    /// Serve a page that shows the collections of a stack: what they are asked for, what their shards take, which
    /// changes run, what was decided and why, and what it costs.
    ///
    /// The page is on 127.0.0.1. It reads with the caller's credentials, within a budget of read units that it shows,
    /// and only while somebody looks. It changes nothing unless --allow-changes is given.
    #[command(after_help = console::EXAMPLES)]
    Console(ConsoleArgs),
    /// Show what was decided about shard counts, when, why, and from which figures.
    ///
    /// Functions and endpoints keep the last 30 decisions about each collection, also those to do nothing. With
    /// --follow the command goes on and prints new ones as they are made.
    #[command(after_help = operator::decisions::EXAMPLES)]
    Decisions(operator::decisions::DecisionsArgs),
    /// Print the items of a collection from all of its shards, in order, as lines of JSON.
    ///
    /// At most a page is in memory, however large the collection is. A query that was interrupted can go
    /// on from its cursor.
    #[command(after_help = operator::query::EXAMPLES)]
    Query(operator::query::QueryArgs),
    /// Put the rows of files, or of another table, into the tables: as fast as the partitions allow, and
    /// each row once, however often the command is interrupted.
    ///
    /// Rows of different partition keys take turns, so that no key is written in a run. Each physical
    /// partition key is written at the pace that its partition allows.
    #[command(after_help = operator::import::EXAMPLES)]
    Import(operator::import::ImportArgs),
    /// Write the items of collections to a file, in order, in a form that `import` reads.
    ///
    /// Each collection is read once, from all of its shards and in the order of its sort keys, in the memory
    /// of a page.
    #[command(after_help = operator::export::EXAMPLES)]
    Export(operator::export::ExportArgs),
    /// Keep a time series in tables by day, week or month: make the next one ahead of time, lower what old ones cost, export
    /// and delete what is past its time.
    #[command(after_help = operator::rotate::EXAMPLES)]
    Rotate(operator::rotate::RotateArgs),
    /// Show the settings that all functions must agree on, and change `LeaseSecs` or `RequestLifetimeSecs`
    /// while clients read and write.
    #[command(after_help = operator::settings::EXAMPLES)]
    Settings(operator::settings::SettingsArgs),
    /// Show the secondary indexes of the table, and give the values of write-sharded ones more shards.
    #[command(after_help = operator::indexes::EXAMPLES)]
    Indexes(operator::indexes::IndexesArgs),
    /// Measure how old a signed request may be before DynamoDB refuses it (the close of a reshard waits that
    /// long), and check clock, tables, permissions, backups and time to live.
    #[command(after_help = operator::doctor::EXAMPLES)]
    Doctor(operator::doctor::DoctorArgs),
    /// Check whether an existing table can become the main table, and plan the steps; or check how it can leave
    /// the application again.
    ///
    /// The check reads the table and changes nothing: what DynamoDB says of it, and every item. Its memory
    /// does not grow with the table: a page of 1 MB of each segment, and a count and an example of each
    /// finding.
    #[command(after_help = operator::adopt::EXAMPLES)]
    Adopt(operator::adopt::AdoptArgs),
    /// Find the shard of a key under each rule, read physical keys, and judge a partition key by a sample.
    #[command(after_help = operator::keys::EXAMPLES)]
    #[command(subcommand)]
    Keys(operator::keys::KeysCommand),
    /// Plan for a load before there is a table: its partitions, the shards of its hottest key, what a month costs, and
    /// whether to shard at all.
    #[command(after_help = operator::plan::EXAMPLES)]
    Plan(operator::plan::PlanArgs),
    /// Write what `sam deploy` is told: a configuration and the parameters, from flags or questions.
    #[command(after_help = operator::init::EXAMPLES)]
    Init(operator::init::InitArgs),
    /// Keep which stack commands are about that no flag names.
    #[command(after_help = operator::place::EXAMPLES)]
    Use(operator::place::UseArgs),
    /// Print what a shell completes the commands and flags by.
    #[command(after_help = shell::COMPLETIONS_EXAMPLES)]
    Completions(shell::CompletionsArgs),
    /// Write the manual pages of all commands.
    #[command(after_help = shell::MAN_EXAMPLES)]
    Man(shell::ManArgs),
    /// Try a load in virtual time under several strategies of sharding, side by side.
    ///
    /// Every write meets the partition model of the local stack, and the shard counts come from the decision that runs
    /// in production. An hour of 10,000 writes a second takes seconds, and no bill.
    #[command(after_help = operator::simulate::EXAMPLES)]
    Simulate(operator::simulate::SimulateArgs),
}

const LOCAL_EXAMPLES: &str = "\
Examples:
  dynashard local
  dynashard local --data-dir ./dynashard-data --set LeaseSecs=5
  dynashard local --auth --set KeyGrants='arn:aws:iam::*:user/local=EWR'
  dynashard local --engine-only --partition-wcu 100
  dynashard local --engine-only --no-throttle
  curl -X PUT 'http://127.0.0.1:3000/item?pk=EWR&sk=2013-01-01' -H 'content-type: application/json' -d '{\"flight\": 1545}'
  aws dynamodb scan --table-name MainTable --endpoint-url http://127.0.0.1:8000";

const DEMO_EXAMPLES: &str = "\
Examples:
  dynashard demo
  dynashard demo --scaling alarm
  dynashard demo --placement random
  dynashard demo --endpoint
  dynashard demo --partition-wcu 500 --load 4 --chart-dir charts
  dynashard demo --json > summary.json";

#[derive(Debug, clap::Args)]
pub(crate) struct LocalArgs {
    /// Port of the HTTP API; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 3000)]
    pub(crate) port: u16,
    /// Port of the DynamoDB and DynamoDB Streams endpoint; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    pub(crate) dynamodb_port: u16,
    /// Port of the Lambda Invoke API; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 9001)]
    pub(crate) lambda_port: u16,
    /// Port of the CloudWatch endpoint; 0 takes a free one. The default is 9002, or a free port if 9002
    /// is taken.
    #[arg(long, value_name = "PORT")]
    pub(crate) cloudwatch_port: Option<u16>,
    /// Port of the console; 0 takes a free one. The default is 9003, or a free port if 9003 is taken.
    #[arg(long, value_name = "PORT")]
    pub(crate) console_port: Option<u16>,
    /// Port of the endpoint that serves the stack's tables as `dynashard serve` does; 0 takes a free one. The default is 8017, or
    /// a free port if 8017 is taken.
    #[arg(long, value_name = "PORT")]
    pub(crate) endpoint_port: Option<u16>,
    /// Keep the tables in this directory; without it they are in memory and end with the stack.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Execution environments that one function may have at once.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) max_environments: u16,
    /// Set the period of every alarm to this many seconds, and evaluate it at the end of each. Without
    /// this, alarms have the periods of the template and are evaluated each minute.
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(NonZeroU32))]
    pub(crate) alarm_period_secs: Option<NonZeroU32>,
    /// Age in seconds up to which DynamoDB takes a signature. The default is the stack's
    /// `RequestLifetimeSecs`, which it must not exceed, and 900 with --engine-only. `dynashard doctor`
    /// finds it out.
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) signature_window_secs: Option<u64>,
    /// Serve only the DynamoDB endpoint, without tables: a DynamoDB that throttles, for the tests of any
    /// program. It needs no template and builds nothing.
    #[arg(long, conflicts_with_all = [
        "template", "functions_dir", "settings", "port", "lambda_port", "cloudwatch_port", "console_port", "endpoint_port",
        "max_environments", "alarm_period_secs", "auth", "principals", "read_units", "allow_changes",
    ])]
    pub(crate) engine_only: bool,
    /// Address that the engine listens on, as `0.0.0.0` in a container. Whoever reaches it reads and writes everything.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), requires = "engine_only")]
    pub(crate) address: IpAddr,
    /// Let only those call the HTTP API whom the parameter `AuthMode` lets in, as API Gateway does. Without this everybody
    /// may call it.
    #[arg(long)]
    pub(crate) auth: bool,
    /// With --auth, take the users and the keys of tokens from this file of JSON. The default is one user, with the access
    /// key AKIAIOSFODNN7EXAMPLE and the secret wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY.
    #[arg(long, value_name = "FILE", requires = "auth")]
    pub(crate) principals: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Console")]
    pub(crate) look: LookArgs,
    #[command(flatten, next_help_heading = "Options")]
    pub(crate) project: ProjectArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// When the tables of a stack throttle.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Partitions of each table and index: equal ranges of the hashed partition key.
    #[arg(long, value_name = "N", default_value_t = Limits::default().partitions)]
    partitions: NonZeroU32,
    /// Write capacity of one partition, in units a second.
    #[arg(long, value_name = "UNITS", default_value_t = Limits::default().partition_wcu)]
    partition_wcu: NonZeroU32,
    /// Read capacity of one partition, in units a second.
    #[arg(long, value_name = "UNITS", default_value_t = Limits::default().partition_rcu)]
    partition_rcu: NonZeroU32,
    /// Write units a second that a table or index on demand takes as a whole: its warm throughput. 4000 is what a new table
    /// takes on AWS, however many shards it has. Beyond, it throttles though its partitions have room, and here it does not
    /// grow. Without this the partitions alone limit it.
    #[arg(long, value_name = "UNITS")]
    warm_wcu: Option<NonZeroU32>,
    /// Read units a second that a table or index on demand takes as a whole. A new table on AWS takes 12000.
    #[arg(long, value_name = "UNITS")]
    warm_rcu: Option<NonZeroU32>,
    /// Seconds of unused capacity that a provisioned table saves up; partitions save none.
    #[arg(long, value_name = "SECS", default_value_t = Limits::default().burst_secs)]
    burst_secs: u32,
    /// Split a partition for heat when it has refused requests in each of this many seconds, at the median of their keys. On
    /// AWS it takes minutes. Without this no partition is split.
    #[arg(long, value_name = "SECS")]
    split_after_secs: Option<NonZeroU32>,
    /// Refuse no request for a limit. What requests consume is counted all the same.
    #[arg(long, conflicts_with_all = ["partitions", "partition_wcu", "partition_rcu", "warm_wcu", "warm_rcu", "burst_secs", "split_after_secs"])]
    no_throttle: bool,
}

impl LimitArgs {
    pub(crate) const fn limits(&self) -> Limits {
        Limits {
            partitions: self.partitions,
            partition_wcu: self.partition_wcu,
            partition_rcu: self.partition_rcu,
            warm_wcu: self.warm_wcu,
            warm_rcu: self.warm_rcu,
            burst_secs: self.burst_secs,
            split_after_secs: self.split_after_secs,
            are_enforced: !self.no_throttle,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Write capacity of one partition, in units a second. On AWS it is 1000, which is more than most
    /// machines can overload. Without it, the demo looks for a second what this machine carries, and takes partitions so
    /// small that the load is at most half of that; 100 units at most.
    #[arg(long, value_name = "UNITS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) partition_wcu: Option<u32>,
    /// Load on the busiest airport, as a multiple of one partition's write capacity. The second airport
    /// gets half of it, the third a quarter.
    #[arg(long, value_name = "TIMES", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) load: u32,
    /// Who raises a shard count: throttled writers, or the throttle alarm alone.
    #[arg(long, value_enum, default_value_t = Scaling::Writers)]
    pub(crate) scaling: Scaling,
    /// Write by `BatchWriteItem` and read back by `Query`, through an endpoint as `dynashard serve` is, in place of the HTTP
    /// API. The stack still moves the items. It serves no placement random.
    #[arg(long = "endpoint", action = ArgAction::SetTrue, value_parser = BoolValueParser::new().map(Through::of))]
    pub(crate) through: Through,
    /// How items are placed in shards: xxh64, jump or random. The default is the template's, xxh64.
    #[arg(long, value_name = "NAME")]
    pub(crate) placement: Option<Placement>,
    /// Seconds for which the demo measures once the shard counts have settled.
    #[arg(long, value_name = "SECS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) steady_secs: u64,
    /// Seconds after which the demo no longer waits for the counts to settle and for reshards to close.
    #[arg(long, value_name = "SECS", default_value_t = 150, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) time_limit_secs: u64,
    /// Directory for the chart, demo.svg, and for the logs of the stack, demo.log.
    #[arg(long, value_name = "DIR", default_value = "target/demo")]
    pub(crate) chart_dir: PathBuf,
    /// Print the logs of the stack on stderr, and plain lines in place of the live view.
    #[arg(long)]
    pub(crate) logs: bool,
    /// Print the summary as one line of JSON on stdout.
    #[arg(long)]
    pub(crate) json: bool,
    /// Keep the stack and its console running after the summary, until Ctrl-C.
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) project: ProjectArgs,
}

/// Who raises a shard count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scaling {
    /// A writer whose write a partition throttles.
    Writers,
    /// The throttle alarm, which invokes `ScaleFunction`.
    Alarm,
}

/// What the demo writes and reads through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Through {
    /// The HTTP API, with its functions.
    Api,
    /// An endpoint that speaks DynamoDB's own protocol.
    Endpoint,
}

impl Through {
    const fn of(is_endpoint: bool) -> Self {
        if is_endpoint { Self::Endpoint } else { Self::Api }
    }
}

/// Where the application is.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ProjectArgs {
    /// The SAM template. The default is the nearest template.yaml, here or in a directory above.
    #[arg(long, value_name = "FILE")]
    pub(crate) template: Option<PathBuf>,
    /// Run the functions' binaries from this directory instead of building them with cargo:
    /// `<binary>`, `<binary>/bootstrap` or `<LogicalId>/bootstrap`.
    #[arg(long, value_name = "DIR")]
    pub(crate) functions_dir: Option<PathBuf>,
    /// Set a template parameter; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub(crate) settings: Vec<(String, String)>,
}

/// Reads the arguments of the command line.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Args, clap::Error> {
    let columns = usize::from(::console::Term::stdout().size().1).min(HELP_COLUMNS);
    let command = with_footers_of(command(), columns);
    Args::from_arg_matches(&command.try_get_matches_from(words)?)
}

/// Help has so many columns at most, as clap has it.
const HELP_COLUMNS: usize = 100;

/// What follows the arguments in each help, in lines that clap has not to wrap again.
fn with_footers_of(command: clap::Command, columns: usize) -> clap::Command {
    let footer = command.get_after_help().map(|text| flowing(&text.to_string(), columns));
    let command = match footer {
        Some(footer) => command.after_help(footer),
        None => command,
    };
    command.mut_subcommands(|command| with_footers_of(command, columns))
}

/// The command, as it reads its arguments.
pub(crate) fn command() -> clap::Command {
    taking_any_value(Args::command())
}

/// What follows a flag with a value is its value, also if it begins with a hyphen, as keys, attributes and names of files
/// may. A flag that needs no value takes none that begins so: that is the next flag.
fn taking_any_value(command: clap::Command) -> clap::Command {
    let needs_none =
        |arg: &clap::Arg| arg.get_num_args().is_some_and(|values| values.min_values() == 0);
    let takes = |arg: &clap::Arg| {
        arg.get_long().is_some() && arg.get_action().takes_values() && !needs_none(arg)
    };
    command
        .mut_args(|arg| if takes(&arg) { arg.allow_hyphen_values(true) } else { arg })
        .mut_subcommands(taking_any_value)
}

/// What to say of a value that is to be a whole number and is none, in place of the standard library's words.
pub(crate) fn told_of_a_fraction(told: &clap::Error) -> Option<String> {
    let of_digits = told.source()?.downcast_ref::<ParseIntError>()?.to_string();
    Some(told.render().to_string().replace(&of_digits, "it is not a whole number in range"))
}

pub(crate) fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it must be NAME=VALUE, as in LeaseSecs=5")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Args, clap::Error> {
        parse(["dynashard"].iter().chain(words).map(OsString::from))
    }

    #[test]
    fn the_arguments_are_consistent() {
        command().debug_assert();
    }

    #[test]
    fn the_command_says_its_version() {
        let asked = parsed(&["--version"]).expect_err("it ends with that");
        let version = concat!("dynashard ", env!("CARGO_PKG_VERSION"));
        assert!(asked.to_string().starts_with(version), "{asked}");
    }

    /// Keys and names of files may begin with a hyphen.
    #[test]
    fn regression_a_value_that_begins_with_a_hyphen_was_taken_for_a_flag() {
        let table = ["--main-table", "-m", "--metadata-table", "-n"];
        for words in [
            &[
                "query",
                "--pk",
                "-Kq62",
                "--begins-with",
                "-s",
                "--fields",
                "-a,-b",
                "--cursor",
                "-c",
            ][..],
            &["query", "--pk", "--all", "--from", "-1", "--to", "-0"],
            &["verify", "--pk", "-Kq62"],
            &["scale", "--pk", "-Kq62", "--shards", "2"],
            &["decisions", "--pk", "-Kq62"],
            &["export", "--pk", "-Kq62", "--output", "-o"],
            &[
                "import",
                "a.csv",
                "--pk",
                "-p",
                "--sk",
                "-s",
                "--number-columns",
                "-n",
                "--refused",
                "-r",
            ],
            &["import", "--from-table", "-t", "--state", "-s"],
        ] {
            let parsed = parsed(&[words, &table].concat());
            assert!(parsed.is_ok(), "{words:?}: {}", parsed.expect_err("refused"));
        }
        for words in [
            &["keys", "decode", "-K#~1", "--json"][..],
            &["keys", "locate", "--pk", "-K", "--sk", "-s", "--prefix"],
            &["keys", "histogram", "a.csv", "--pk", "-K", "--pk-column", "-p", "--sk-column", "-s"],
            &["plan", "--sample", "-f.csv", "--pk-column", "-p", "--chart", "-c.svg"],
            &["adopt", "--table", "-t", "--state", "-s", "--grow-keys", "-K*"],
            &["query", "--pk", "-K", "--series", "-s"],
        ] {
            let parsed = parsed(words);
            assert!(parsed.is_ok(), "{words:?}: {}", parsed.expect_err("refused"));
        }
        assert!(parsed(&["query", "--pk", "a", "--alll"]).is_err());
    }

    /// `query` and `top` took both tables, which nobody could name beside a stack.
    #[test]
    fn regression_a_stack_or_a_main_table_did_not_do() {
        for words in [
            &["query", "--pk", "a"][..],
            &["top"],
            &["verify", "--all"],
            &["scale", "--pk", "a", "--shards", "2"],
            &["reshards"],
            &["pause", "--pk", "a"],
            &["resume", "--pk", "a"],
            &["cancel", "--pk", "a"],
            &["status"],
            &["decisions"],
            &["indexes"],
            &["settings"],
            &["import", "a.csv"],
            &["export", "--all"],
            &["doctor"],
            &["console"],
            &["use"],
        ] {
            for place in [
                &["--stack-name", "s"][..],
                &["--main-table", "m"],
                &["--main-table", "m", "--metadata-table", "n"],
            ] {
                let parsed = parsed(&[words, place].concat());
                let why = parsed.as_ref().err().map(ToString::to_string).unwrap_or_default();
                assert!(parsed.is_ok(), "{words:?} {place:?}: {why}");
            }
            assert!(parsed(&[words, &["--metadata-table", "n"]].concat()).is_err(), "{words:?}");
        }
    }

    #[test]
    fn regression_a_flag_that_needs_no_value_took_the_next_flag_for_one() {
        let table = ["--main-table", "m", "--metadata-table", "n"];
        for words in [
            &["verify", "--all", "--repair", "--json"][..],
            &["verify", "--all", "--repair", "--read-units", "500"],
            &["verify", "--all", "--repair", "misplaced", "--json"],
        ] {
            let parsed = parsed(&[words, &table].concat());
            assert!(parsed.is_ok(), "{words:?}: {}", parsed.expect_err("refused"));
        }
    }

    #[test]
    fn regression_footers_were_wrapped_twice_and_had_lines_of_one_word() {
        for name in ["plan", "scale", "console", "simulate", "verify"] {
            for columns in [20, 80, 100] {
                let mut command = with_footers_of(super::command(), columns);
                let command = command.find_subcommand_mut(name).expect("it is one");
                let footer = command.get_after_help().expect("a footer").to_string();
                // A word may be longer than a line.
                let is_wide =
                    |line: &&str| line.chars().count() > columns && line.trim_start().contains(' ');
                assert_eq!(footer.lines().find(is_wide), None, "{columns}");
            }
        }
    }

    #[test]
    fn regression_a_fraction_had_invalid_digits() {
        let refused =
            parsed(&["keys", "advise", "a.csv", "--item-kb", "1.5"]).expect_err("refused");
        let told = told_of_a_fraction(&refused).expect("a sentence");
        assert!(told.contains("'1.5'") && told.contains("not a whole number"), "{told}");
    }

    #[test]
    fn settings_keep_everything_behind_the_first_equals_sign() {
        assert_eq!(parse_setting("Separator=="), Ok(("Separator".to_owned(), "=".to_owned())));
        assert!(parse_setting("Separator").is_err());
    }
}
