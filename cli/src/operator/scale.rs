//! `dynashard scale`: asks for another shard count, and waits until the collection has it.

use std::process::ExitCode;
use std::time::Duration;

use dynashard_aws::{DynamoMetadataStore, OsEntropy, SystemClock};
use dynashard_core::{
    CollectionMetadata, Phase, Progress, Scaler, ScalingStatus, ServerTime, Stage, Waits,
};
use dynashard_keys::{PartitionKey, ShardCount};
use dynashard_lambda::view::CollectionView;

use super::connect::{ConnectArgs, deadline};
use super::output::{Activity, Output};
use super::{Failure, INTERRUPTED, partition_key};
use crate::clock::Stopwatch;
use crate::signals::Ends;

/// How often the collection is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The sweep, which wakes the rebalancer at the latest, comes once a minute.
const STALLED_AFTER: Duration = Duration::from_mins(2);

#[derive(Debug, clap::Args)]
pub(crate) struct ScaleArgs {
    /// The collection.
    #[arg(long, value_name = "KEY", value_parser = partition_key)]
    pk: PartitionKey,
    /// How many shards it is to have. Under xxh64 the number is rounded up to a power of two.
    #[arg(long, value_name = "N")]
    shards: u32,
    /// Ask only, and do not wait for the end.
    #[arg(long)]
    no_wait: bool,
    /// Print JSON on stdout: the collection as GET /collection shows it, one line for each change.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
Items are moved by RebalanceFunction, on AWS or under `dynashard local`, while clients go on. Ctrl-C ends the
waiting and not the reshard; the same command waits again. While one runs, its old count turns it round when
it has closed, its new count takes that back, and every other is refused: reshard_running.

Exit status: 0 the collection has the shards, or with --no-wait is on the way; 1 it is not, and the line on
stderr says why, with the code of the API; 130 Ctrl-C.

Examples:
  dynashard scale --stack-name dynashard --pk EWR --shards 16
  dynashard scale --stack-name dynashard --pk EWR --shards 4 --no-wait --json
  dynashard scale --endpoint-url http://127.0.0.1:8000 --main-table MainTable --metadata-table MetadataTable --pk EWR --shards 2";

pub(crate) async fn run(args: ScaleArgs) -> ExitCode {
    let mut output = Output::new(args.json);
    match Box::pin(scale(&args, &mut output)).await {
        Ok(status) => status,
        Err(failure) => {
            output.failure(Some(args.pk.as_str()), &failure);
            ExitCode::FAILURE
        }
    }
}

type TableScaler = Scaler<DynamoMetadataStore, SystemClock, OsEntropy>;

async fn scale(args: &ScaleArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let no_signals = |e| Failure::connection(format!("signals cannot be waited for: {e}"));
    let shards = ShardCount::new(args.shards).map_err(dynashard_core::Error::from)?;
    let connection = args.connect.connect().await?;
    let scaler = Scaler::new(connection.directory());
    let directory = scaler.directory();
    let mut ends = Ends::watch().map_err(no_signals)?;
    // It may wait for leases on the last change to end.
    let activity = Activity::begin(!output.is_json());
    activity.says(|| format!("{}: asking for {shards} shards", args.pk));
    let asked = tokio::select! {
        asked = scaler.request_count(&args.pk, shards, deadline(directory)) => Some(asked?),
        () = ends.signalled() => None,
    };
    drop(activity);
    let Some(metadata) = asked else {
        eprintln!(
            "dynashard: interrupted before the request was answered; the same command asks again"
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
                eprintln!("dynashard: asked for; how far it is could not be read: {error}");
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let waited = tokio::select! {
        waited = Box::pin(wait(&args.pk, target, &scaler, output)) => Some(waited?),
        () = ends.signalled() => None,
    };
    let Some(metadata) = waited else {
        eprintln!(
            "dynashard: the reshard goes on without this command; the same command waits again"
        );
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
    scaler: &TableScaler,
    output: &mut Output,
) -> Result<CollectionMetadata, Failure> {
    let waits = Waits::of(scaler.directory().settings());
    let activity = Activity::begin(!output.is_json());
    let mut watch = Watch::begin();
    loop {
        let status = scaler.status(partition, target, deadline(scaler.directory())).await?;
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
                let count = status.metadata.number_of_shards;
                return Err(Failure {
                    code: "overtaken",
                    detail: format!(
                        "another count was asked for meanwhile; the collection has {count} shards \
                         and is not on the way to {target}"
                    ),
                });
            }
        }
        if watch.has_stalled(&status) {
            activity.notes(&format!(
                "dynashard: {partition:?}: nothing has happened for {} minutes; does RebalanceFunction run, and \
                 what does its log say?",
                STALLED_AFTER.as_secs() / 60
            ));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// What was seen last, and since when.
struct Watch {
    seen: Option<(u64, Option<u64>)>,
    since: Stopwatch,
    has_told: bool,
}

impl Watch {
    fn begin() -> Self {
        Self { seen: None, since: Stopwatch::start(), has_told: false }
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

    /// Whether nothing has changed for a long time, although nothing is waited for. Says so once.
    fn has_stalled(&mut self, status: &ScalingStatus) -> bool {
        let waits = status.waits_until.is_some_and(|until| status.now <= until);
        if waits {
            self.since = Stopwatch::start();
        }
        let has_stalled = !self.has_told && self.since.elapsed() >= STALLED_AFTER;
        self.has_told |= has_stalled;
        has_stalled
    }
}

/// Where the collection stands, for people.
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
    }
    let wait = waits_until.map(|ServerTime(until)| until.saturating_sub(now.0));
    parts.extend(wait.map(|secs| format!("waiting for {secs} s")));
    parts.join(", ")
}
