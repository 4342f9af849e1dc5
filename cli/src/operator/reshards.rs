//! `dynashard reshards`, `pause`, `resume` and `cancel`: shows the changes of shard counts that run, and says how fast they may go.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use dynashard_api::view::CollectionView;
use dynashard_core::ports::List;
use dynashard_core::{
    CollectionMetadata, Extent, Job, Kind, PaceChange, Phase, Progress, RunningChange, Scaler,
    ServerTime, Waits,
};
use dynashard_keys::PartitionKey;
use serde::Serialize;

use super::connect::{ConnectArgs, Connection, deadline};
use super::output::{Form, Output, in_line};
use super::{Failure, ended, partition_key, until_interrupted};
use crate::numbers::float;
use crate::streams;

/// What has a terminal go to its first line and forget all lines.
const CLEARED: &str = "\u{1b}[H\u{1b}[2J";

/// How often the changes are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(crate) struct ReshardsArgs {
    /// Show the change of this collection alone.
    #[arg(long, value_name = "KEY", value_parser = partition_key)]
    pk: Option<PartitionKey>,
    /// Let the change of --pk take so many write units a second from now on, or `default` for what the stack allows
    /// (`MoverWriteUnits`).
    #[arg(long, value_name = "UNITS", requires = "pk", value_parser = rate)]
    rate: Option<Rate>,
    /// Go on and show how the changes go, until none runs.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PauseArgs {
    /// Partition key of the collection.
    #[arg(long, value_name = "KEY", value_parser = partition_key)]
    pk: PartitionKey,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    /// Partition key of the collection.
    #[arg(long, value_name = "KEY", value_parser = partition_key)]
    pk: PartitionKey,
    /// Let the change take so many write units a second from now on, or `default` for what the stack allows
    /// (`MoverWriteUnits`).
    #[arg(long, value_name = "UNITS", value_parser = rate)]
    rate: Option<Rate>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Print JSON on stdout: a line for each change, as GET /collection answers it, with what comes next.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What follows the arguments of `reshards` in `--help`.
pub(crate) const EXAMPLES: &str = "\
A change of a shard count runs from the decision until its last marker is removed. Moving its items takes write units, by
default as many as MoverWriteUnits says. --rate gives one change another bound, and `dynashard pause` halts it: within seconds,
without a deployment, while clients read and write as before. What runs is shown from the metadata table, which answers
a query and two reads for each change.

Exit status: 0 if what runs was shown, or none runs; 1 if not, and a line on stderr says why; 130 after Ctrl-C.

Examples:
  dynashard reshards --stack-name dynashard
  dynashard reshards --stack-name dynashard --watch
  dynashard reshards --stack-name dynashard --pk EWR --rate 100
  dynashard reshards --stack-name dynashard --json | jq '.reshard.percent_done'";

/// What follows the arguments of `pause` in `--help`.
pub(crate) const PAUSE_EXAMPLES: &str = "\
From the next note of the mover on, within seconds, no item of the collection moves and no marker is removed. Its new shards take
writes all the same, reads stay whole, and the collection cannot change its count again until the change has closed: a
pause costs nothing but that, and reads that ask both homes. The alarm on the age of reshards stays on. A change that moves
nothing, or only waits for its close, goes on. Functions of before this command forget a pause: deploy first.

Exit status: 0 if the change is paused; 1 if none runs, or it could not be; 130 after Ctrl-C.

Examples:
  dynashard pause --stack-name dynashard --pk EWR
  dynashard resume --stack-name dynashard --pk EWR --rate 100";

/// What follows the arguments of `resume` in `--help`.
pub(crate) const RESUME_EXAMPLES: &str = "\
Exit status: 0 if the change goes on; 1 if none runs, or it could not be resumed; 130 after Ctrl-C.

Examples:
  dynashard resume --stack-name dynashard --pk EWR
  dynashard resume --stack-name dynashard --pk EWR --rate 100
  dynashard resume --stack-name dynashard --pk EWR --rate default";

/// What follows the arguments of `cancel` in `--help`.
pub(crate) const CANCEL_EXAMPLES: &str = "\
Writes go to the new shards from early on, so a change cannot just stop: it goes on to its end, and another one brings the items
back. What was paused is resumed for that, and its rate stays. `dynashard scale` with the new count takes it back. Once the way back
has begun, it is the change that runs, and `cancel` would turn that round.

Exit status: 0 if the collection goes back to its old count; 1 if no change runs, or it cannot be turned round; 130 after
Ctrl-C.

Examples:
  dynashard cancel --stack-name dynashard --pk EWR
  dynashard reshards --stack-name dynashard --pk EWR --watch";

/// What a change may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rate {
    /// What the stack allows.
    Default,
    /// Write units a second.
    Units(u32),
}

/// What `MoverWriteUnits` is at least.
const LEAST_RATE: u32 = 4;

impl Rate {
    pub(super) fn units(self) -> Option<u32> {
        match self {
            Self::Default => None,
            Self::Units(units) => Some(units),
        }
    }

    pub(super) fn pace(self) -> PaceChange {
        PaceChange { mover_wcu: Some(self.units()), ..PaceChange::default() }
    }
}

/// Reads `--rate`.
pub(super) fn rate(text: &str) -> Result<Rate, String> {
    match (text, text.parse::<u32>()) {
        ("default", _) => Ok(Rate::Default),
        (_, Ok(units)) if units >= LEAST_RATE => Ok(Rate::Units(units)),
        (_, Ok(_)) => Err(format!(
            "an item of 1 KB takes {LEAST_RATE} units to move, so a change with less stands still; `dynashard pause` halts one"
        )),
        _ => Err("it is neither a whole number of write units a second nor `default`".to_owned()),
    }
}

pub(crate) async fn run(args: ReshardsArgs) -> ExitCode {
    let mut output = Output::of(args.common.form, args.common.json);
    let shown = match args.common.form.of_endless("--watch", args.watch) {
        Ok(()) => Box::pin(show(&args, &mut output)).await,
        Err(refused) => Err(refused),
    };
    ended(output, args.pk.as_ref(), shown)
}

pub(crate) async fn pause(args: PauseArgs) -> ExitCode {
    let change = PaceChange { paused: Some(true), ..PaceChange::default() };
    Box::pin(set(args.pk, &args.common, change)).await
}

pub(crate) async fn resume(args: ResumeArgs) -> ExitCode {
    let pace = args.rate.map(Rate::pace).unwrap_or_default();
    Box::pin(set(args.pk, &args.common, PaceChange { paused: Some(false), ..pace })).await
}

pub(crate) async fn cancel(args: PauseArgs) -> ExitCode {
    let mut output = Output::of(args.common.form, args.common.json);
    let canceled = Box::pin(until_interrupted(go_back(&args, &mut output))).await;
    ended(output, Some(&args.pk), canceled)
}

/// Changes the pace of one change, and shows it.
async fn set(pk: PartitionKey, common: &Common, change: PaceChange) -> ExitCode {
    let mut output = Output::of(common.form, common.json);
    let setting = async {
        let connection = common.connect.connect().await?.until_pinned().await?;
        let scaler = Scaler::new(connection.writing_directory());
        set_pace(&scaler, &pk, change).await?;
        let view = View::of(&connection).await;
        // It may have ended since.
        let running = scaler.running(&pk, deadline(scaler.directory())).await?;
        if let Some(running) = &running {
            view.print(running, &mut output);
        }
        Ok(())
    };
    let set = Box::pin(until_interrupted(setting)).await;
    ended(output, Some(&pk), set)
}

/// Changes the pace of the change that runs.
pub(super) async fn set_pace(
    scaler: &Scaler,
    pk: &PartitionKey,
    change: PaceChange,
) -> Result<(), Failure> {
    if scaler.set_pace(pk, change, deadline(scaler.directory())).await? {
        return Ok(());
    }
    Err(nothing_runs(pk))
}

fn nothing_runs(pk: &PartitionKey) -> Failure {
    let detail = format!(
        "no change of the shard count of {pk:?} runs. `dynashard reshards` shows what does, and `dynashard scale` begins one"
    );
    Failure { code: "no_reshard", detail }
}

async fn go_back(args: &PauseArgs, output: &mut Output) -> Result<(), Failure> {
    let connection = args.common.connect.connect().await?.until_pinned().await?;
    let scaler = Scaler::new(connection.writing_directory());
    let directory = scaler.directory();
    let running = scaler.running(&args.pk, deadline(directory)).await?;
    let running = running.ok_or_else(|| nothing_runs(&args.pk))?;
    let RunningChange { metadata, job, .. } = &running;
    let from = match metadata.phase {
        Phase::Forward { from, .. } | Phase::Move { from, .. } => from,
        Phase::Stable if job.then.is_some() => {
            View::of(&connection).await.print(&running, output);
            return Ok(());
        }
        Phase::Stable => {
            let detail = format!(
                "the change of {:?} to {} shards has closed, and only markers are removed; `dynashard scale` begins another one",
                args.pk, metadata.number_of_shards
            );
            return Err(Failure { code: "no_reshard", detail });
        }
    };
    let extent = metadata.epochs.changing.map_or(Extent::Newest, Extent::Older);
    scaler.request_change(None, &args.pk, (&extent, from), deadline(directory)).await?;
    let resumed = PaceChange { paused: Some(false), ..PaceChange::default() };
    scaler.set_pace(&args.pk, resumed, deadline(directory)).await?;
    let running = scaler.running(&args.pk, deadline(directory)).await?;
    if let Some(running) = &running {
        View::of(&connection).await.print(running, output);
    }
    Ok(())
}

async fn show(args: &ReshardsArgs, output: &mut Output) -> Result<Option<()>, Failure> {
    let connection = args.common.connect.connect().await?;
    if let (Some(pk), Some(rate)) = (&args.pk, args.rate) {
        let scaler = Scaler::new(connection.until_pinned().await?.writing_directory());
        set_pace(&scaler, pk, rate.pace()).await?;
    }
    let scaler = Scaler::new(connection.directory());
    let view = View::of(&connection).await;
    let watching = async {
        let mut shown = Shown::default();
        loop {
            let mut damaged = Vec::new();
            let running = running(&scaler, args.pk.as_ref(), &mut damaged).await?;
            for fault in damaged {
                note!("dynashard: passed over: {fault}");
            }
            let is_over = running.is_empty();
            shown.show(&running, &view, args.watch, output);
            if is_over || !args.watch || output.is_broken() {
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(shown.has_any)
    };
    let Some(has_any) = until_interrupted(watching).await? else {
        return Ok(None);
    };
    match &args.pk {
        Some(pk) if !has_any => {
            output.text(format_args!("{pk}: no change of its shard count runs"));
        }
        None if !has_any => output.text("no change of a shard count runs"),
        _ if args.watch => output.text("no change of a shard count runs any more"),
        _ => {}
    }
    Ok(Some(()))
}

/// The change of this collection, or all that run but those of which something is damaged.
pub(super) async fn running(
    scaler: &Scaler,
    pk: Option<&PartitionKey>,
    damaged: &mut Vec<String>,
) -> Result<Vec<RunningChange>, Failure> {
    let directory = scaler.directory();
    let mut partitions = pk.cloned().into_iter().collect::<Vec<_>>();
    let mut after = None::<String>;
    while pk.is_none() {
        let records = directory.records();
        let page = records.list(List::Resharding, after.as_deref(), deadline(directory)).await?;
        partitions.extend(page.entries.into_iter().map(|listed| listed.partition));
        damaged.extend(page.damaged);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    partitions.sort_unstable();
    let mut running = Vec::new();
    for partition in &partitions {
        match scaler.running(partition, deadline(directory)).await {
            // One that is damaged must not hide the others.
            Err(error) if pk.is_none() && error.kind() == Kind::Data => {
                damaged.push(error.message().to_owned());
            }
            found => running.extend(found?),
        }
    }
    Ok(running)
}

/// What was shown last.
#[derive(Default)]
struct Shown {
    has_any: bool,
    revisions: BTreeMap<PartitionKey, (u64, u64)>,
}

impl Shown {
    /// Shows the changes: on a terminal in place of what stands there, elsewhere what is new.
    fn show(&mut self, running: &[RunningChange], view: &View, watches: bool, output: &mut Output) {
        self.has_any |= !running.is_empty();
        let redraws = watches && !output.is_for_machines() && io::stdout().is_terminal();
        if let Some(first) = running.first().filter(|_| redraws) {
            // Trouble with stdout shows with the next line.
            drop(streams::print(&format!("{CLEARED}at {} UTC:", time_of_day(first.now.0))));
        }
        for change in running {
            let revision = (change.metadata.rev, change.job.rev);
            let before = self.revisions.insert(change.metadata.partition.clone(), revision);
            if redraws || before != Some(revision) {
                view.print(change, output);
            }
        }
    }
}

/// How changes are shown.
pub(super) struct View {
    waits: Waits,
    /// What the stack lets a change take, where that is known.
    mover_wcu: Option<u32>,
}

/// A change, for machines.
#[derive(Serialize)]
pub(super) struct ChangeJson<'a> {
    #[serde(flatten)]
    collection: CollectionView<'a>,
    /// Until when nothing may happen, in epoch seconds.
    waits_until: Option<u64>,
    next: Vec<&'static str>,
}

impl View {
    pub(super) async fn of(connection: &Connection) -> Self {
        let settings = &connection.place.settings;
        let mover_wcu = connection.place.stack.is_some().then_some(settings.mover_wcu);
        Self { waits: connection.waits().await, mover_wcu }
    }

    fn print(&self, change: &RunningChange, output: &mut Output) {
        output.json(&self.json(change));
        output.text(self.text(change));
    }

    pub(super) fn json<'a>(&self, change: &'a RunningChange) -> ChangeJson<'a> {
        let RunningChange { metadata, job, waits_until, now } = change;
        ChangeJson {
            collection: CollectionView::with_progress(metadata, Some(job), self.waits, now.0),
            waits_until: waits_until.map(|at| at.0),
            next: steps(metadata, job).into_iter().map(Step::name).collect(),
        }
    }

    /// A change in two lines, for people.
    pub(super) fn text(&self, change: &RunningChange) -> String {
        let RunningChange { metadata, job, waits_until, now } = change;
        let (pk, waits) = (in_line(metadata.partition.as_str()), self.waits);
        let mut parts = Vec::new();
        let since = now.0.saturating_sub(job.started_secs);
        let progress = metadata.reshard().map(|reshard| job.progress(&reshard, waits, *now));
        if let Some(Progress { percent_done, eta_secs, .. }) = progress {
            let scan = if job.closing { "last scan" } else { "scan" };
            parts.push(format!("{} items moved, {scan} {percent_done} % done", job.items_moved));
            parts.extend(eta_secs.map(|secs| format!("about {} left", span(secs))));
        }
        parts.push(match (job.paused, job.mover_wcu, self.mover_wcu) {
            (true, ..) => "PAUSED".to_owned(),
            (_, Some(own), _) => format!("at most {own} write units a second, as --rate has said"),
            (_, None, Some(all)) => format!("at most {all} write units a second"),
            (_, None, None) => "as fast as MoverWriteUnits allows".to_owned(),
        });
        parts.push(format!("for {}", span(since)));
        let (from, to) = (job.from, job.to);
        let is = match metadata.phase {
            Phase::Stable => format!("{to} shards by now, markers are removed"),
            Phase::Forward { .. } => format!("{from} to {to} shards, functions learn of it"),
            Phase::Move { .. } => format!("{from} to {to} shards, items move"),
        };
        let wait = waits_until.map(|until| until.0.saturating_sub(now.0)).filter(|secs| *secs > 0);
        let next = steps(metadata, job).into_iter().map(|step| step.text(progress, *now));
        let mut next = next.collect::<Vec<_>>();
        if let (Some(first), Some(wait)) = (next.first_mut(), wait) {
            *first = format!("{first} (in {})", span(wait));
        }
        format!("{pk}: {is}; {}\n  next: {}", parts.join(", "), next.join(", "))
    }
}

/// What a change has still to do, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// All shards of a change that moves nothing are in use.
    InForce,
    /// New shards take writes.
    TakeWrites,
    Move,
    LastScan,
    Close,
    RemoveMarkers,
    GoBack,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::InForce => "in_force",
            Self::TakeWrites => "take_writes",
            Self::Move => "move",
            Self::LastScan => "last_scan",
            Self::Close => "close",
            Self::RemoveMarkers => "remove_markers",
            Self::GoBack => "go_back",
        }
    }

    fn text(self, progress: Option<Progress>, now: ServerTime) -> String {
        let close = progress.and_then(|progress| progress.closes_not_before);
        match self {
            Self::InForce => "the new shards are in use".to_owned(),
            Self::TakeWrites => "the new shards take writes".to_owned(),
            Self::Move => "the rest of the items".to_owned(),
            Self::LastScan => "a last scan for late requests".to_owned(),
            Self::Close => {
                match close.map(|at| at.0.saturating_sub(now.0)).filter(|secs| *secs > 0) {
                    Some(secs) => format!("the close, not before {} from now", span(secs)),
                    None => "the close".to_owned(),
                }
            }
            Self::RemoveMarkers => "the removal of markers".to_owned(),
            Self::GoBack => "the way back to the old count".to_owned(),
        }
    }
}

fn steps(metadata: &CollectionMetadata, job: &Job) -> Vec<Step> {
    let reshard = metadata.reshard();
    let moves = reshard.is_some();
    let has_scanned = reshard.is_some_and(|reshard| job.has_scanned(reshard.sources()));
    let mut steps = match metadata.phase {
        Phase::Forward { .. } if !moves => vec![Step::InForce],
        Phase::Forward { .. } => {
            vec![Step::TakeWrites, Step::Move, Step::LastScan, Step::Close]
        }
        Phase::Move { .. } if job.closing && job.scanned.is_some() => vec![Step::Close],
        Phase::Move { .. } if job.closing || has_scanned => vec![Step::LastScan, Step::Close],
        Phase::Move { .. } => vec![Step::Move, Step::LastScan, Step::Close],
        Phase::Stable => Vec::new(),
    };
    // Another change begins before the markers of this one are removed, and then removes them, too.
    steps.extend(job.then.map(|_| Step::GoBack));
    let leaves_markers = job.marked.is_some() || moves;
    steps.extend(leaves_markers.then_some(Step::RemoveMarkers));
    steps
}

/// Hours, minutes and seconds.
pub(super) fn time_of_day(epoch_secs: u64) -> String {
    let secs = epoch_secs % 86_400;
    format!("{:02}:{:02}:{:02}", secs / 3_600, secs / 60 % 60, secs % 60)
}

/// A span of time in words: seconds up to two minutes, then minutes, then hours.
pub(super) fn span(secs: u64) -> String {
    match secs {
        0..=120 => format!("{secs} s"),
        121..=7_200 => format!("{:.0} min", float(secs) / 60.0),
        _ => format!("{:.1} h", float(secs) / 3_600.0),
    }
}
