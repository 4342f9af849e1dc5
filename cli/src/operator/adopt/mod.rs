//! `dynashard adopt`: whether an existing table can become the main table, and the way back out.

mod check;
mod description;
mod judge;
mod leave;
mod leftovers;
mod owner;
mod plan;
mod policy;
mod state;
mod survey;
mod watch;

pub(super) use description::{schema, vector_indexes};
pub(super) use plan::{AT_FIRST, named};
pub(super) use survey::{Example, example};

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::process::ExitCode;

use dynashard_aws_operator::{Inspector, Operator, Stack, TableState, Unseen};
use dynashard_core::{GrowKeys, TableSchema};
use dynashard_keys::Separator;

use super::connect::{CallerArgs, table_of};
use super::output::{Form, Output};
use super::scan::{ReadRate, TableScan};
use super::{Failure, INTERRUPTED, until_interrupted};
use crate::numbers::float;

/// Something stands in the way.
const PROBLEMS_FOUND: u8 = 1;

/// The table could not be looked at, or its items were left out.
const NOT_EXAMINED: u8 = 2;

/// The read units a second that a scan takes by default: a third of what one partition has, and 8 MB. Of
/// a provisioned table it is a quarter of what there is.
const DEFAULT_READ_UNITS: NonZeroU32 = NonZeroU32::new(1_000).expect("not zero");

#[derive(Debug, clap::Args)]
pub(crate) struct AdoptArgs {
    /// The existing table.
    #[arg(long, value_name = "NAME")]
    table: String,
    /// Check whether the table can be adopted. This is the default, and changes nothing.
    #[arg(long)]
    check: bool,
    /// The separator that the table is to have, instead of the first that is free. With --leave the one
    /// that it has, if that is not the default.
    #[arg(long, value_name = "TEXT")]
    separator: Option<Separator>,
    /// The parameter `GrowKeys`: patterns of the partition keys of collections that may be changed,
    /// between commas. A `*` stands for any text. Others stay as they are, and so do their writers.
    #[arg(long, value_name = "PATTERNS")]
    grow_keys: Option<GrowKeys>,
    /// Write the resource-based policy that denies other writers to this file, instead of printing it. It
    /// has the roles of the stack, so it takes --stack-name.
    #[arg(long, value_name = "FILE", requires = "stack_name")]
    policy: Option<PathBuf>,
    /// A role that may write all the same, for emergencies and repairs; may be repeated.
    #[arg(long, value_name = "ARN", requires = "stack_name", value_parser = policy::operator_role)]
    operator_role: Vec<String>,
    /// The stack that uses the table, or is to: its roles go into the policy, and its parameters
    /// `Separator` and `GrowKeys` count.
    #[arg(long, value_name = "NAME", group = "metadata")]
    stack_name: Option<String>,
    /// Look at what DynamoDB says of the table, and make the policy, without reading the items. The exit
    /// status is then 2, or 1 if something stands in the way.
    #[arg(long)]
    skip_scan: bool,
    /// Parts of the table that are read side by side.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    segments: u32,
    /// Consume at most this many read units a second. The default is 1000, and of a provisioned table a
    /// quarter of its read units.
    #[arg(long, value_name = "UNITS")]
    read_units: Option<NonZeroU32>,
    /// Keep the state of the scan in this file, and continue from it. It is removed at the end.
    #[arg(long, value_name = "FILE", conflicts_with = "skip_scan")]
    state: Option<PathBuf>,
    /// Let another stack serve the table, which belongs to the stack with this metadata table. That stack must be gone: what
    /// it would write from now on is invisible to the other.
    #[arg(long, value_name = "METADATA_TABLE", conflicts_with_all = ["check", "leave", "skip_scan", "state", "policy", "operator_role", "grow_keys", "separator", "stack_name"])]
    take_over: Option<String>,
    /// Print JSON on stdout, one object per line: each finding, or collection, and the report.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    leave: LeaveArgs,
    #[command(flatten)]
    caller: CallerArgs,
}

/// Who writes around the application.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Watching")]
struct WatchArgs {
    /// Read the stream of the table, and name each key that somebody writes around the application. Ctrl-C ends it.
    #[arg(long, conflicts_with_all = ["check", "leave", "take_over", "skip_scan", "state", "policy", "operator_role", "grow_keys"])]
    watch: bool,
    /// With --watch: end after so many seconds. The exit status is 1 if somebody wrote around the application, and 0 if nobody did.
    #[arg(long, value_name = "SECS", requires = "watch")]
    watch_secs: Option<NonZeroU64>,
}

/// The way back out.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Leaving")]
struct LeaveArgs {
    /// Say whether the table is plain again, so that it can leave the application, and what is to be done
    /// before.
    #[arg(long, conflicts_with_all = ["check", "skip_scan", "state", "policy", "operator_role", "grow_keys"], requires = "metadata")]
    leave: bool,
    /// With --leave: remove `_ds_v` and `_ds_g` from all items, and the item that names the owner, if nothing else stands in
    /// the way. They guard against late writers for as long as the stack runs, so it must be gone.
    #[arg(long, requires_all = ["leave", "stack_is_deleted"])]
    remove_attributes: bool,
    /// With --remove-attributes: states that the stack is deleted, and has been for `RequestLifetimeSecs`.
    #[arg(long, requires = "remove_attributes", conflicts_with = "stack_name")]
    stack_is_deleted: bool,
    /// With --leave: the table of the metadata, instead of --stack-name.
    #[arg(long, value_name = "NAME", group = "metadata", requires = "leave")]
    metadata_table: Option<String>,
    /// With --remove-attributes: consume at most this many write units a second.
    #[arg(long, value_name = "UNITS", default_value = "100", requires = "remove_attributes")]
    write_units: NonZeroU32,
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
Each line of the report says what was seen and, if need be, what to do:
  ok        as it should be; advice may follow
  warning   the table can be adopted, but its users will notice
  problem   it stands in the way
  unknown   it could not be seen: a permission is missing, or the server does not support it

If nothing stands in the way, the plan follows: the parameters to deploy with, what to do in
which order. With --stack-name it has the policy that denies writes around the application.

The scan is eventually consistent, takes half a read unit for 4 KB, and sees the items as they
are. What other programs write later has to fit, too.

With --leave the report says whether each collection rests with one shard, and whether items lie
under other keys than their own, so that plain clients find all of them. Growth must be off by
then (ScalingMode=off), or collections spread again. Collections whose key ends in the separator
and a number keep a suffix for good: the report counts their items, which have to be copied by
other means, and the table is not plain as long as they are there.

The first stack that serves a table writes an item with the key _ds_owner into it, and no other
stack serves it from then on. With --take-over the item is removed, for a table whose stack was
deleted, or whose metadata table was lost: the next stack that serves it claims it. Collections
that had more than one shard have to be back at one before, or their items are not found.

With --watch the table's stream tells who writes around the application, exactly: all of its writes
leave another _ds_v on an item. Let it run for a week before anything may grow. Deletes leave no trace.

Exit status: 0 if the table can be adopted, or with --leave is plain; 1 if not, 2 if it could not
be looked at, 130 after Ctrl-C.

Examples:
  dynashard adopt --table Orders --state orders.state
  dynashard adopt --table Orders --grow-keys 'EVENT#*' --read-units 200
  dynashard adopt --table Orders --stack-name dynashard --skip-scan --policy policy.json
  dynashard adopt --table Orders --leave --stack-name dynashard
  dynashard adopt --table Orders --leave --metadata-table NAME \\
    --remove-attributes --stack-is-deleted
  dynashard adopt --table Orders --watch --watch-secs 604800
  dynashard adopt --table Orders --take-over dynashard-MetadataTable-1A2B3C
  dynashard adopt --table Orders --json | jq 'select(.event == \"finding\")'";

pub(crate) async fn run(args: AdoptArgs) -> ExitCode {
    let mut output = Output::of(args.form, args.json);
    let done = if args.watch.watch {
        Box::pin(watch::run(&args, &mut output)).await
    } else {
        until_interrupted(Box::pin(act(&args, &mut output))).await
    };
    let status = match done {
        Ok(Some(status)) => status,
        Err(failure) => {
            output.failure(None, &failure);
            ExitCode::from(NOT_EXAMINED)
        }
        Ok(None) => {
            match &args.state {
                _ if args.watch.watch => note!("dynashard: the watch has ended"),
                _ if args.leave.leave => {
                    note!("dynashard: interrupted; run the same command again");
                }
                Some(file) => note!(
                    "dynashard: interrupted; the same command continues from {}",
                    file.display()
                ),
                None => {
                    note!("dynashard: interrupted; with --state FILE the next run would continue");
                }
            }
            ExitCode::from(INTERRUPTED)
        }
    };
    output.end(status)
}

async fn act(args: &AdoptArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    match &args.take_over {
        Some(owned_by) => owner::take_over(args, owned_by, output).await,
        None if args.leave.leave => Box::pin(leave::run(args, output)).await,
        None => check::run(args, output).await,
    }
}

/// The table, and the stack that uses it or is to, if it was named.
struct Found<'a> {
    args: &'a AdoptArgs,
    operator: Operator,
    stack: Option<Stack>,
    state: TableState,
    /// As the flag names it, or the stack.
    separator: Option<Separator>,
}

impl<'a> Found<'a> {
    async fn by(args: &'a AdoptArgs) -> Result<Self, Failure> {
        let (operator, table) = (args.caller.connect().await?, &args.table);
        let stack = match &args.stack_name {
            Some(name) => Some(Stack::find(&operator, name).await?),
            None => None,
        };
        let is_to_be_used =
            args.leave.leave || args.policy.is_some() || !args.operator_role.is_empty();
        if is_to_be_used && stack.as_ref().is_some_and(|stack| !uses(stack, table)) {
            let why = format!(
                "the stack uses another main table than {table}; check --stack-name and --table"
            );
            return Err(Failure::connection(why));
        }
        let state =
            Inspector::of(&operator).table(table).await.map_err(|why| undescribed(table, &why))?;
        let separator = match args.separator {
            None => parameter(stack.as_ref(), "Separator")?,
            given => given,
        };
        Ok(Self { args, operator, stack, state, separator })
    }

    /// The keys of the table, if it can be a main table.
    fn schema(&self) -> Result<TableSchema, Failure> {
        let schema = description::schema(&self.state, self.separator.unwrap_or_default());
        let table = &self.args.table;
        schema.map_err(|_| Failure::connection(format!("table {table} cannot be a main table")))
    }

    /// The table, to be read at the rate that was asked for, or that leaves most to others.
    fn scan(&self) -> TableScan {
        let Self { args, operator, state, .. } = self;
        let of_provisioned = |(read, _): (u64, u64)| {
            NonZeroU32::new(u32::try_from(read / 4).unwrap_or(u32::MAX)).unwrap_or(NonZeroU32::MIN)
        };
        let default = state.provisioned.map_or(DEFAULT_READ_UNITS, of_provisioned);
        let rate = ReadRate::new(Some(args.read_units.unwrap_or(default)));
        TableScan::new(operator, &args.table, rate)
            .with_segments_of(float(state.bytes) / f64::from(args.segments))
    }
}

/// A parameter of a stack, read as the flag of the same meaning is.
fn parameter<T: std::str::FromStr>(stack: Option<&Stack>, name: &str) -> Result<Option<T>, Failure>
where
    T::Err: std::fmt::Display,
{
    let text = stack.and_then(|stack| stack.parameters.get(name));
    let wrong = |error| Failure::connection(format!("the stack's parameter {name}: {error}"));
    text.map(|text| text.parse::<T>().map_err(wrong)).transpose()
}

/// Whether a table is the main table of a stack.
fn uses(stack: &Stack, table: &str) -> bool {
    table_of(stack, "MainTable").is_some_and(|name| name == table)
}

/// A table that cannot be described cannot be looked at.
pub(super) fn undescribed(table: &str, unseen: &Unseen) -> Failure {
    let advice = match unseen {
        Unseen::NotPermitted => format!("; allow dynamodb:DescribeTable on the table {table}"),
        Unseen::NotFound => "; check --table, --region and --profile".to_owned(),
        _ => "; check the network, --region and --endpoint-url".to_owned(),
    };
    Failure::connection(format!("DescribeTable of {table}: {unseen}{advice}"))
}
