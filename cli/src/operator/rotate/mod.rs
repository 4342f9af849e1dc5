//! `dynashard rotate`: makes the next table of a time series, and cools, exports and deletes its old ones.

mod archive;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Duration;

use dynashard_aws_operator::{Inspector, Operator, SeriesTable, SeriesTables, Unseen, owner};
use dynashard_core::ports::{Clock, StoreError};
use dynashard_core::{Code, Error};
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use archive::Destination;
use plan::{Archive, Cooling, Left, Member, Plan, Policy, Step, Times};

use super::connect::CallerArgs;
use super::output::{Activity, Form, Output};
use super::patience::patiently;
use super::series::{Series, schema_of};
use super::{Failure, INTERRUPTED, PATIENCE, until_interrupted};
use crate::clock::Stopwatch;

#[derive(Debug, clap::Args)]
pub(crate) struct RotateArgs {
    /// The series: its tables are called NAME-2026-11-22, NAME-2026-W47 or NAME-2026-11, and have the tag
    /// dynashard:series=NAME. Whether it is one by day, week or month is told by their names.
    #[arg(long, value_name = "NAME")]
    series: String,
    /// Make the next table so many hours before its period begins, in UTC.
    #[arg(long, value_name = "HOURS", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=744))]
    ahead_hours: u32,
    /// So many tables keep their capacity and class: the present one and those before it.
    #[arg(long, value_name = "TABLES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    hot: u32,
    /// What becomes of those before the hot ones: on-demand, infrequent-access, or the most read and write units a second that
    /// they and their indexes are provisioned with, as in 10/1. May be repeated.
    #[arg(long, value_name = "WHAT", value_parser = cool)]
    cool: Vec<Cool>,
    /// Keep so many tables before the present one, and delete those before them. Takes --export-to or --without-export.
    #[arg(long, value_name = "TABLES", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    delete_after: Option<u32>,
    /// Export a table before it is deleted: to this folder, in a form that `import` reads, or to `s3://BUCKET/PREFIX`, for
    /// which DynamoDB keeps the table recoverable.
    #[arg(long, value_name = "PLACE", value_parser = Destination::parse, requires = "delete_after", conflicts_with = "without_export")]
    export_to: Option<Destination>,
    /// Delete tables that were not exported.
    #[arg(long, requires = "delete_after")]
    without_export: bool,
    /// Take this for the present time, as in 2026-11-30T12:00:00Z. One that is still to come takes --dry-run.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    now: Option<i64>,
    /// Print what is to be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print lines of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    caller: CallerArgs,
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
Run it by a schedule, several times in --ahead-hours. It keeps no state: it reads the tables, does one step and reads them
again, so it may be ended at any time and run again. A new table has the tag dynashard:like until it has all.

A new table has the keys, indexes, capacity, class, stream, encryption, protection, tags, time to live and recovery of the hot
one; alarms, policies and auto scaling it has not. If the hot one takes more at once than any table does (warm throughput), each
new one is paid for that, too.

The oldest table goes first, and only if a scan finds in it just what its export holds (of S3: as many items). For the export and
the scan, which each run begins anew, it is put on demand. By then nothing may write to it, nor may its items expire, or it never
is as its export: end that before. A table with deletion protection, or of a stack, stays, and so do all that are newer. If a
step fails, other tables go on, but none that is newer is deleted.

With --json each step is a line {\"event\":\"step\",\"step\":...,\"table\":...}, with --dry-run {\"event\":\"planned\",...}; the last
line is {\"event\":\"summary\",\"series\":...,\"period\":...,\"tables\":[...],\"steps\":...,\"waiting\":[...],\"kept\":[...]}.

Exit status: 0 if everything is done, or waits for DynamoDB until the next run; 1 if not, and a line on stderr for each table
says why: with series_behind nothing was done, with not_a_series at most new tables were made, with export_mismatch a table has
changed behind two exports, with series_incomplete one is gone that a new one was made like; 130 after Ctrl-C.

Examples:
  aws dynamodb tag-resource --resource-arn ARN --tags Key=dynashard:series,Value=events
  dynashard rotate --series events --cool on-demand --cool infrequent-access --dry-run
  dynashard rotate --series events --hot 2 --cool 10/1 --delete-after 12 --export-to s3://archive/events
  dynashard rotate --series clicks --delete-after 30 --without-export";

/// What `--cool` may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cool {
    OnDemand,
    InfrequentAccess,
    /// The most read and write units.
    Units(u64, u64),
}

fn cool(text: &str) -> Result<Cool, String> {
    let units = |text: &str| text.parse::<u64>().ok().filter(|units| *units > 0);
    match text {
        "on-demand" => Ok(Cool::OnDemand),
        "infrequent-access" => Ok(Cool::InfrequentAccess),
        _ => text
            .split_once('/')
            .and_then(|(reads, writes)| Some(Cool::Units(units(reads)?, units(writes)?)))
            .ok_or_else(|| {
                "it must be on-demand, infrequent-access, or units as in 10/1".to_owned()
            }),
    }
}

fn instant(text: &str) -> Result<i64, String> {
    let instant = OffsetDateTime::parse(text, &Rfc3339);
    instant
        .map(OffsetDateTime::unix_timestamp)
        .map_err(|error| format!("{error}: it must be as 2026-11-30T12:00:00Z is"))
}

impl RotateArgs {
    fn policy(&self) -> Result<Policy, Failure> {
        let mut cooling = Cooling::default();
        for cool in &self.cool {
            match cool {
                Cool::OnDemand => cooling.is_on_demand = true,
                Cool::InfrequentAccess => cooling.is_infrequent = true,
                Cool::Units(reads, writes) => cooling.units = Some((*reads, *writes)),
            }
        }
        if cooling.is_on_demand && cooling.units.is_some() {
            let why = "--cool says on-demand and units: a table on demand is provisioned with none";
            return Err(Failure::bad_argument(why));
        }
        let archive = match &self.export_to {
            None if self.delete_after.is_some() && !self.without_export => {
                let why =
                    "--delete-after takes --export-to, or --without-export to delete for good";
                return Err(Failure::bad_argument(why));
            }
            None => Archive::Nowhere,
            Some(Destination::Folder(_)) => Archive::Folder,
            Some(Destination::Bucket(_)) => Archive::Bucket,
        };
        if self.delete_after.is_some_and(|kept| kept < self.hot) {
            let why = "--delete-after is less than --hot: hot tables would be deleted";
            return Err(Failure::bad_argument(why));
        }
        Ok(Policy { hot: self.hot, cooling, delete_after: self.delete_after, archive })
    }

    /// The time to go by, in epoch seconds.
    fn epoch_secs(&self, operator: &Operator) -> Result<i64, Failure> {
        let clock = i64::try_from(operator.clock().now().epoch_secs()).unwrap_or(i64::MAX);
        match self.now {
            Some(now) if now > clock && !self.dry_run => {
                let why = "--now is still to come, and tables would be deleted too soon: it takes --dry-run";
                Err(Failure::bad_argument(why))
            }
            now => Ok(now.unwrap_or(clock)),
        }
    }
}

pub(crate) async fn run(args: RotateArgs) -> ExitCode {
    let mut output = Output::of(args.form, args.json);
    let status = match until_interrupted(Box::pin(rotate(&args, &mut output))).await {
        Ok(Some(true)) => ExitCode::SUCCESS,
        Ok(Some(false)) => ExitCode::FAILURE,
        Ok(None) => ExitCode::from(INTERRUPTED),
        Err(failure) => {
            output.failure(None, &failure);
            ExitCode::FAILURE
        }
    };
    output.end(status)
}

/// `{"event":"summary", ...}`
#[derive(Serialize)]
struct Summary<'a> {
    series: &'a str,
    period: &'static str,
    tables: Vec<&'a str>,
    /// Those that were done, or that are to be.
    steps: usize,
    waiting: &'a [Left],
    kept: &'a [Left],
}

/// How soon DynamoDB is asked again how far it has come.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Does all that can be done, and returns whether nothing failed.
async fn rotate(args: &RotateArgs, output: &mut Output) -> Result<bool, Failure> {
    let policy = args.policy()?;
    let operator = args.caller.connect().await?;
    let now = args.epoch_secs(&operator)?;
    let tables = SeriesTables::of(&operator);
    let rotation = Rotation { args, policy, now, operator, tables };
    let activity = Activity::begin(!args.json);
    let (mut last, mut steps, mut stale) = (None, 0, BTreeSet::new());
    let mut failed = BTreeSet::new();
    let mut since = Stopwatch::start();
    loop {
        let (series, plan) = rotation.look(&failed).await?;
        if args.dry_run {
            for step in &plan.steps {
                output.event("planned", step);
                output.text(step.says());
            }
            drop(activity);
            summarize(&args.series, &series, plan.steps.len(), &plan, output);
            return Ok(series.wrong.is_empty());
        }
        let next = plan.steps.first();
        let is_late = since.elapsed() > PATIENCE;
        if let Some(step) = next.filter(|step| is_late || last.as_ref() != Some(*step)) {
            activity.says(|| step.says());
            let taken = if last.as_ref() == Some(step) {
                let why = "that was asked for and does not show, so run the command again";
                Err(Error::new(Code::Unavailable, why).into())
            } else {
                rotation.take(step, &series, &mut stale).await
            };
            match taken {
                Ok(taken) => {
                    output.event("step", &taken);
                    output.text(taken.says());
                    last = Some(taken);
                    steps += 1;
                }
                Err(Failure { code, detail }) => {
                    let detail = format!("{}: {detail}", step.says());
                    output.failure(None, &Failure { code, detail });
                    failed.insert(step.table().to_owned());
                }
            }
            since = Stopwatch::start();
            continue;
        }
        if plan.waiting.is_empty() && next.is_none() || is_late {
            drop(activity);
            summarize(&args.series, &series, steps, &plan, output);
            return Ok(failed.is_empty() && series.wrong.is_empty());
        }
        // What was done does not show yet, or DynamoDB is at it.
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn summarize(name: &str, series: &Series, steps: usize, plan: &Plan, output: &mut Output) {
    let tables = series.members.values().map(|table| table.name.as_str()).collect::<Vec<_>>();
    let period = series.tables.period().as_str();
    for wrong in &series.wrong {
        output.failure(None, wrong);
    }
    for Left { table, why } in plan.waiting.iter().chain(&plan.kept) {
        output.text(format!("{table}: left as it is, since {why}"));
    }
    output.text(format!("{name}: {steps} steps; {} tables, one for each {period}", tables.len()));
    let Plan { waiting, kept, .. } = plan;
    output.event("summary", &Summary { series: name, period, tables, steps, waiting, kept });
}

struct Rotation<'a> {
    args: &'a RotateArgs,
    policy: Policy,
    /// Epoch seconds.
    now: i64,
    operator: Operator,
    tables: SeriesTables,
}

impl Rotation<'_> {
    /// The series as it is, and what is to be done about it, but for tables of which a step has failed.
    async fn look(&self, failed: &BTreeSet<String>) -> Result<(Series, Plan), Failure> {
        let series = Series::find(&self.tables, &self.args.series).await?;
        let number = |epoch_secs: i64| {
            let number = series.tables.number_at(epoch_secs);
            number.map_err(|error| Failure::bad_argument(format!("--now: {error}")))
        };
        let ahead = i64::from(self.args.ahead_hours) * 3_600;
        let mut times =
            Times { now: number(self.now)?, ahead: number(self.now.saturating_add(ahead))? };
        let is_there = |name: &String| series.members.values().any(|table| table.name == *name);
        if !failed.iter().all(is_there) {
            // One could not be made, and a newer one would leave a gap.
            times.ahead = i64::MIN;
        }
        let mut policy = self.policy.clone();
        if !series.wrong.is_empty() {
            // What was found has to be looked at before anything old is changed.
            (policy.cooling, policy.delete_after) = (Cooling::default(), None);
        }
        let mut members = BTreeMap::new();
        for (number, table) in &series.members {
            let mut member = self.member(&series, table, *number, times).await?;
            member.has_failed = failed.contains(&table.name);
            members.insert(*number, member);
        }
        let plan = Plan::of(&series.tables, &members, times, &policy)?;
        Ok((series, plan))
    }

    /// Asks what the plan needs to know of a table.
    async fn member(
        &self,
        series: &Series,
        table: &SeriesTable,
        number: i64,
        times: Times,
    ) -> Result<Member, Failure> {
        let is_past = number < self.policy.past(times.now);
        let mut member = Member { table: table.clone(), ..Member::default() };
        let inspector = Inspector::of(&self.operator);
        let name = table.name.as_str();
        let mut likes = series.members.values().filter_map(|table| table.like.as_deref());
        let is_new = number >= series.at(times.now).0 || table.like.is_some();
        let is_new = is_new || likes.any(|like| like == name);
        if is_new && table.state.is_active {
            let attribute = seen(name, async || inspector.ttl_attribute(name).await).await?;
            member.expires_by = attribute.flatten();
        }
        let is_to_recover = is_past && self.policy.archive == Archive::Bucket;
        if (is_new || is_to_recover) && table.state.is_active {
            member.is_recoverable =
                seen(name, async || inspector.is_recoverable(name).await).await?;
        }
        let is_cooled = number <= self.policy.cooled(times.now);
        if let Some(schema) = schema_of(table).filter(|_| is_cooled && table.state.is_active) {
            let owner = patiently(async || owner(&self.operator, name, &schema).await).await?;
            member.is_owned = owner.is_some();
        }
        if let Some(destination) = self.args.export_to.as_ref().filter(|_| is_past) {
            let ended = ended(series, number);
            member.export = destination.state(&self.operator, table, ended).await?.last;
        }
        Ok(member)
    }

    /// Does a step, and returns which it was: in place of a deletion a new export, if the one that there is does not have what
    /// the table has. A table is `stale` that had that once.
    async fn take(
        &self,
        step: &Step,
        series: &Series,
        stale: &mut BTreeSet<String>,
    ) -> Result<Step, Failure> {
        let tables = &self.tables;
        let of = |name: &str| {
            let mut members = series.members.iter();
            let found = members.find(|(_, table)| table.name == name);
            let (number, table) = found.expect("the plan names tables of the series");
            (table, ended(series, *number))
        };
        match step {
            Step::Create { table, like } => {
                patiently(async || tables.create(table, like, &self.args.series).await).await?;
            }
            Step::Expire { table, attribute } => {
                patiently(async || tables.expire(table, attribute).await).await?;
            }
            Step::MakeRecoverable { table } => {
                patiently(async || tables.make_recoverable(table).await).await?;
            }
            Step::Untag { table, like } => {
                if series.members.values().all(|model| model.name != *like) {
                    let why = "it is gone: set the time to live and recovery by hand, and take the tag off";
                    return Err(Failure { code: "series_incomplete", detail: why.to_owned() });
                }
                patiently(async || tables.settle(of(table).0).await).await?;
            }
            Step::Lower { table, read_units, write_units } => {
                let (table, most) = (of(table).0, (*read_units, *write_units));
                patiently(async || tables.lower(table, most).await).await?;
            }
            Step::PutOnDemand { table } => {
                patiently(async || tables.put_on_demand(table).await).await?;
            }
            Step::MakeInfrequent { table } => {
                patiently(async || tables.make_infrequent(table).await).await?;
            }
            Step::Export { table } => self.export(of(table)).await?,
            Step::Delete { table } => {
                if !self.is_archived(of(table)).await? {
                    if !stale.insert(table.clone()) || self.is_stale(of(table)).await? {
                        let why = "it has other items than its export, also behind a second one: end what writes to it or lets \
                                   items expire, export it once more by hand if that goes to S3, and run the command again";
                        return Err(Failure { code: "export_mismatch", detail: why.to_owned() });
                    }
                    self.export(of(table)).await?;
                    return Ok(Step::Export { table: table.clone() });
                }
                patiently(async || tables.delete(table).await).await?;
            }
        }
        Ok(step.clone())
    }

    async fn export(&self, (table, ended): (&SeriesTable, i64)) -> Result<(), Failure> {
        match &self.args.export_to {
            Some(destination) => destination.export(&self.operator, table, ended).await,
            None => Ok(()),
        }
    }

    /// Whether nothing is lost with a table, or that was asked for.
    async fn is_archived(&self, (table, ended): (&SeriesTable, i64)) -> Result<bool, Failure> {
        match &self.args.export_to {
            Some(destination) => destination.is_whole(&self.operator, table, ended).await,
            None => Ok(self.args.without_export),
        }
    }

    /// Whether earlier runs have exported a table more than once.
    async fn is_stale(&self, (table, ended): (&SeriesTable, i64)) -> Result<bool, Failure> {
        match &self.args.export_to {
            Some(to) => Ok(to.state(&self.operator, table, ended).await?.complete > 1),
            None => Ok(false),
        }
    }
}

/// When the period of a table has ended, in epoch seconds.
fn ended(series: &Series, number: i64) -> i64 {
    series.tables.begins_at(number.saturating_add(1)).unwrap_or(i64::MAX)
}

/// What a table says, or nothing where the server does not know the question.
async fn seen<T>(
    table: &str,
    ask: impl AsyncFn() -> Result<T, Unseen>,
) -> Result<Option<T>, Failure> {
    let why = |why: Unseen| format!("table {table} cannot be looked at: {why}");
    patiently(async || match ask().await {
        Ok(answer) => Ok(Some(answer)),
        Err(Unseen::NotSupported) => Ok(None),
        Err(refused @ Unseen::NotPermitted) => Err(StoreError::Misconfigured(why(refused))),
        // A new table may not show everywhere yet.
        Err(missed) => Err(StoreError::Unavailable(why(missed))),
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_a_table_is_cooled_to_is_read() {
        assert_eq!(cool("on-demand"), Ok(Cool::OnDemand));
        assert_eq!(cool("infrequent-access"), Ok(Cool::InfrequentAccess));
        assert_eq!(cool("10/1"), Ok(Cool::Units(10, 1)));
        for wrong in ["", "cold", "10", "0/1", "10/0", "10/-1", "10/1/1", "a/b"] {
            assert!(cool(wrong).is_err(), "{wrong}");
        }
        assert_eq!(instant("2013-02-01T00:00:00Z"), Ok(1_359_676_800));
        assert!(instant("2013-02-01").is_err());
    }

    #[tokio::test]
    async fn regression_a_question_that_was_throttled_once_ended_the_run() {
        let asked = Cell::new(0);
        let answer = async |refusal: Unseen| {
            asked.set(asked.get() + 1);
            if asked.get() % 2 == 1 { Err(refusal) } else { Ok(true) }
        };
        let busy = || Unseen::Failed("ThrottlingException: slow down".to_owned());
        assert_eq!(seen("t", async || answer(busy()).await).await, Ok(Some(true)));
        let unknown = seen("t", async || answer(Unseen::NotSupported).await).await;
        assert_eq!(unknown, Ok(None));
    }
}
