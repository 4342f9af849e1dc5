//! `dynashard scale`: changes the shard count of a collection, and waits until the change is complete.

use std::process::ExitCode;
use std::time::Duration;

use dynashard_api::view::CollectionView;
use dynashard_core::{
    CollectionMetadata, Deadline, DecisionHistory, DecisionRecord, Extent, Phase, Progress, Scaler,
    ScalingStatus, ServerTime, Stage, Waits,
};
use dynashard_keys::{PartitionKey, ShardCount, SortKey, SortKeyType};

use super::connect::{ConnectArgs, deadline};
use super::forecast::{ForecastArgs, forecast};
use super::output::{Activity, Form, Output};
use super::reshards::{Rate, rate};
use super::{Failure, INTERRUPTED, PATIENCE, partition_key, signals};
use crate::clock::Stopwatch;

/// How often the collection is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The sweep, which wakes the rebalancer at the latest, comes once a minute.
const STALLED_AFTER: Duration = Duration::from_mins(2);

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ScaleArgs {
    /// Partition key of the collection.
    #[arg(long, value_name = "KEY", value_parser = partition_key)]
    pk: PartitionKey,
    /// The new shard count. Under xxh64 it is rounded up to a power of two.
    #[arg(long, value_name = "N")]
    shards: u32,
    #[command(flatten)]
    extent: ExtentArgs,
    /// Change the count also on a table with local secondary indexes and more than 5 GB. Such an index bounds each shard to
    /// 10 GB: look first whether fewer shards hold the collection, since items that do not fit cannot move.
    #[arg(long)]
    whatever_their_size: bool,
    /// Let the change take so many write units a second, also one that runs already; `default` for what the stack allows
    /// (`MoverWriteUnits`).
    #[arg(long, value_name = "UNITS", value_parser = rate)]
    rate: Option<Rate>,
    /// Take a key that holds no items yet, before its load comes. Without it such a key is taken for a mistake.
    #[arg(long, conflicts_with = "dry_run")]
    create: bool,
    #[command(flatten)]
    forecast: ForecastArgs,
    /// Return once the change is accepted, and do not wait until it is complete.
    #[arg(long)]
    no_wait: bool,
    /// Print JSON on stdout: the collection as GET /collection answers it, one line for each change.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What of the collection is to get the count.
#[derive(Debug, clap::Args)]
struct ExtentArgs {
    /// Give the count to what lies behind this sort key alone, and leave everything up to it where it is: the past of a collection
    /// whose keys grow.
    #[arg(long, value_name = "SK")]
    from: Option<String>,
    /// With --from: newer sort keys sort lower, as where they begin with a time that counts down. The key itself gets the count,
    /// too.
    #[arg(long, requires = "from")]
    descending: bool,
    /// Give the count to all epochs, one after the other, until the collection is one again.
    #[arg(long, conflicts_with_all = ["from", "dry_run"])]
    whole: bool,
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
RebalanceFunction moves the items, on AWS or under `dynashard local`, while clients read and write. Ctrl-C ends
only the waiting; run the same command again to wait again. While a reshard runs, a request for its old count
is kept and reverses it once it has closed, a request for its new count withdraws that, and a request for any
other count is refused with reshard_running. `dynashard reshards` shows it, `pause` halts it, and `cancel` goes back.

With --from, what lies behind the key becomes an epoch of its own: the change moves what is there already, which is
little where the key is of now, and queries of the past ask the shards of then. Without it, and without --whole,
the newest epoch gets the count.

Exit status: 0 if the collection has the count, or with --no-wait if the change is accepted; 1 if not, and a
line on stderr says why, with the code of the API; 130 after Ctrl-C.

Examples:
  dynashard scale --stack-name dynashard --pk EWR --shards 16
  dynashard scale --stack-name dynashard --pk EWR --shards 16 --dry-run
  dynashard scale --stack-name dynashard --pk EWR --shards 16 --rate 200
  dynashard scale --stack-name dynashard --pk EWR --shards 16 --from 2026-11-28
  dynashard scale --stack-name dynashard --pk EWR --shards 4 --no-wait --json
  dynashard scale --endpoint-url http://127.0.0.1:8000 --main-table MainTable --pk EWR --shards 2";

impl ExtentArgs {
    /// What of the collection is to get the count.
    fn of(&self, sort_keys: SortKeyType) -> Result<Extent, Failure> {
        let Some(from) = &self.from else {
            return Ok(if self.whole { Extent::Whole } else { Extent::Newest });
        };
        let boundary = SortKey::parse(from, sort_keys).map_err(dynashard_core::Error::from)?;
        Ok(Extent::Behind { boundary, descending: self.descending })
    }
}

pub(crate) async fn run(args: ScaleArgs) -> ExitCode {
    let mut output = Output::of(args.form, args.json);
    let status = Box::pin(scale(&args, &mut output)).await.unwrap_or_else(|failure| {
        output.failure(Some(args.pk.as_str()), &failure);
        ExitCode::FAILURE
    });
    output.end(status)
}

async fn scale(args: &ScaleArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let shards = ShardCount::new(args.shards).map_err(dynashard_core::Error::from)?;
    let mut signals = signals()?;
    let connection = args.connect.connect().await?;
    let extent = args.extent.of(connection.schema().sort_key_type)?;
    if args.forecast.dry_run {
        let wanted = (&extent, shards, args.rate.and_then(Rate::units));
        let said = forecast(&connection, &args.pk, wanted, args.forecast.items, output);
        let done = tokio::select! {
            said = Box::pin(said) => said.map(|()| ExitCode::SUCCESS),
            () = signals.received() => Ok(ExitCode::from(INTERRUPTED)),
        };
        return done;
    }
    let connection = connection.until_pinned().await?;
    let mut scaler = Scaler::new(connection.writing_directory());
    if args.whatever_their_size {
        scaler = scaler.whatever_their_size();
    }
    let directory = scaler.directory();
    // It may wait for leases on the last change to end.
    let activity = Activity::begin(!output.is_for_machines());
    activity.says(|| format!("{}: asking for {shards} shards", args.pk));
    let since_secs = directory.now().epoch_secs();
    let ask = async {
        // What is mistyped is to leave nothing in the directory.
        if !args.create {
            connection.reader().collection(&args.pk, deadline(directory)).await?;
        }
        let change = (&extent, shards);
        let metadata = scaler.request_change(None, &args.pk, change, deadline(directory)).await?;
        if let Some(rate) = args.rate {
            // What has the count already moves nothing.
            scaler.set_pace(&args.pk, rate.pace(), deadline(directory)).await?;
        }
        Ok::<_, dynashard_core::Error>(metadata)
    };
    let asked = tokio::select! {
        asked = Box::pin(ask) => Some(asked?),
        () = signals.received() => None,
    };
    drop(activity);
    let Some(metadata) = asked else {
        note!(
            "dynashard: interrupted before the request was answered; run the same command to ask again"
        );
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let target = metadata.placement.round(shards);
    if args.no_wait {
        output.json(&CollectionView::from(&metadata));
        // The request was accepted, whatever becomes of this look.
        match scaler.status(&args.pk, target, deadline(directory)).await {
            Ok(status) => output.text(describe(&status, None)),
            Err(error) => {
                note!(
                    "dynashard: the change is accepted, but its progress could not be read: {error}"
                );
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let wait = async {
        loop {
            let reached = wait(&args.pk, target, since_secs, &scaler, output).await?;
            if extent != Extent::Whole || reached.epochs.is_one() {
                return Ok::<_, Failure>(reached);
            }
            // The next epoch may be changed once nobody stands on a lease on the last change.
            let rest = directory.lease().waits().leases_end * 2;
            let by = Deadline::after(directory.now(), PATIENCE + rest);
            scaler.request_change(None, &args.pk, (&extent, shards), by).await?;
            if let Some(rate) = args.rate {
                scaler.set_pace(&args.pk, rate.pace(), deadline(directory)).await?;
            }
        }
    };
    let waited = tokio::select! {
        waited = Box::pin(wait) => Some(waited?),
        () = signals.received() => None,
    };
    let Some(metadata) = waited else {
        note!("dynashard: the reshard continues; run the same command to wait for it again");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    output.text(format_args!(
        "{}: {} shards, generation {}",
        args.pk, metadata.number_of_shards, metadata.generation
    ));
    Ok(ExitCode::SUCCESS)
}

/// Looks at the collection again and again, until it has the count.
async fn wait(
    partition: &PartitionKey,
    target: ShardCount,
    since_secs: u64,
    scaler: &Scaler,
    output: &mut Output,
) -> Result<CollectionMetadata, Failure> {
    let activity = Activity::begin(!output.is_for_machines());
    let mut watch = Watch::begin();
    loop {
        let status = scaler.status(partition, target, deadline(scaler.directory())).await?;
        let waits = scaler.directory().lease().waits();
        activity.says(|| format!("{partition}: {}", describe(&status, Some(waits))));
        let is_new = watch.look(&status);
        if is_new {
            let ScalingStatus { metadata, job, now, .. } = &status;
            let job = job.as_ref().filter(|job| job.generation == metadata.generation);
            output.json(&CollectionView::with_progress(metadata, job, waits, now.0));
        }
        match status.stage {
            Stage::Reached => return Ok(status.metadata),
            Stage::UnderWay => {}
            Stage::Overtaken => {
                let directory = scaler.directory();
                let found = directory.records().decisions(partition, deadline(directory)).await;
                let decided = found.ok().and_then(|found| decided(found, since_secs));
                return Err(overtaken(&status, target, decided.as_ref()));
            }
        }
        if watch.has_stalled(&status) {
            activity.notes(&format!(
                "dynashard: {partition:?}: no progress for {} minutes; check that RebalanceFunction runs, and \
                 its log",
                STALLED_AFTER.as_secs() / 60
            ));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The newest change that the functions have decided on since then.
fn decided(history: DecisionHistory, since_secs: u64) -> Option<DecisionRecord> {
    let is_change = |record: &DecisionRecord| {
        record.outcome == "begun" && record.to.is_some() && record.last_secs >= since_secs
    };
    let changes = history.records.into_iter().filter(is_change);
    changes.max_by_key(|record| record.last_secs)
}

/// Says who has changed the collection meanwhile, and what to do.
fn overtaken(
    status: &ScalingStatus,
    target: ShardCount,
    decided: Option<&DecisionRecord>,
) -> Failure {
    let now = describe(status, None);
    let detail = match decided {
        Some(DecisionRecord { by, action, diagnosis, from, to, .. }) => {
            let to = to.unwrap_or(*from);
            format!(
                "the functions have changed the collection meanwhile ({by}: {action} from {from} to {to}, \
                 {diagnosis}); it is {now}. `dynashard decisions` shows why. ScalingMode=off, or GrowKeys \
                 without this key, keeps a count; the same command asks for {target} again"
            )
        }
        None => format!(
            "somebody else has changed the collection meanwhile, by `dynashard scale` or the API; it is {now}. \
             Agree with them; the same command asks for {target} again"
        ),
    };
    Failure { code: "overtaken", detail }
}

/// The last progress, and the time since.
struct Watch {
    seen: Option<(u64, Option<u64>)>,
    since: Stopwatch,
    has_warned: bool,
}

impl Watch {
    fn begin() -> Self {
        Self { seen: None, since: Stopwatch::start(), has_warned: false }
    }

    /// Whether anything has changed since the last look.
    fn look(&mut self, status: &ScalingStatus) -> bool {
        let now = (status.metadata.rev, status.job.as_ref().map(|job| job.rev));
        if self.seen == Some(now) {
            return false;
        }
        *self = Self { seen: Some(now), ..Self::begin() };
        true
    }

    /// Whether nothing has changed for a long time without a reason to wait. True once at most.
    fn has_stalled(&mut self, status: &ScalingStatus) -> bool {
        let is_paused = status.job.as_ref().is_some_and(|job| job.paused);
        let waits = is_paused || status.waits_until.is_some_and(|until| status.now <= until);
        if waits {
            self.since = Stopwatch::start();
        }
        let has_stalled = !self.has_warned && self.since.elapsed() >= STALLED_AFTER;
        self.has_warned |= has_stalled;
        has_stalled
    }
}

/// The progress of the collection, for people.
fn describe(status: &ScalingStatus, waits: Option<Waits>) -> String {
    let ScalingStatus { metadata, job, waits_until, now, .. } = status;
    let (from, to) = match metadata.phase {
        Phase::Stable => return format!("stable with {} shards", metadata.number_of_shards),
        Phase::Forward { from, to } | Phase::Move { from, to } => (from, to),
    };
    let mut parts = vec![format!("{}, {from} to {to} shards", metadata.phase.as_str())];
    let job = job.as_ref().filter(|job| job.generation == metadata.generation);
    if let (Some(job), Some(reshard), Some(waits)) = (job, metadata.reshard(), waits) {
        let Progress { percent_done, eta_secs, .. } = job.progress(&reshard, waits, *now);
        parts.push(format!("{} items moved", job.items_moved));
        let scan = if job.closing { "closing scan" } else { "scan" };
        parts.push(format!("{scan} {percent_done} % done"));
        parts.extend(eta_secs.map(|secs| format!("about {secs} s left")));
        parts.extend(job.then.map(|then| format!("then back to {then}")));
        parts.extend(job.paused.then(|| "PAUSED, until `dynashard resume`".to_owned()));
    }
    let wait = waits_until.map(|ServerTime(until)| until.saturating_sub(now.0));
    parts.extend(wait.map(|secs| format!("waiting for {secs} s")));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use dynashard_keys::Placement;

    use super::*;

    /// It said that a collection of 8 shards was not changing to 8.
    #[test]
    fn regression_who_overtook_a_change_was_not_said() {
        let pk = PartitionKey::new("EWR").expect("a key");
        let metadata = CollectionMetadata::cold(pk, Placement::default());
        let stage = Stage::Overtaken;
        let status =
            ScalingStatus { metadata, job: None, stage, waits_until: None, now: ServerTime(9) };
        let target = ShardCount::new(8).expect("a count");
        let record = |last_secs, outcome: &str| DecisionRecord {
            last_secs,
            by: "writer".to_owned(),
            action: "grow".to_owned(),
            outcome: outcome.to_owned(),
            from: 4,
            to: Some(16),
            ..DecisionRecord::default()
        };
        let records = vec![record(9, "begun"), record(10, "dry_run"), record(5, "begun")];
        let history = DecisionHistory { rev: 1, records };
        let found = decided(history.clone(), 7);
        let told = overtaken(&status, target, found.as_ref()).detail;
        assert!(
            told.contains("(writer: grow from 4 to 16") && told.contains("ScalingMode"),
            "{told}"
        );
        assert_eq!(decided(history, 11), None);
        let told = overtaken(&status, target, None).detail;
        assert!(told.starts_with("somebody else") && told.contains("asks for 8 again"), "{told}");
    }
}
