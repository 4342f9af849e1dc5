//! `dynashard verify`: checks whole collections, and repairs them.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::process::ExitCode;

use dynashard_api::json::SortKeyJson;
use dynashard_core::{
    Code, Error, Finding, FindingKind, Repair, Tally, Verification, Verifier, VerifyObserver,
    VerifyOptions,
};
use dynashard_keys::PartitionKey;
use serde::Serialize;

use super::connect::{ConnectArgs, deadline};
use super::output::{Activity, Form, Output, in_line};
use super::{Failure, INTERRUPTED, PATIENCE, partition_key, until_interrupted};

/// Findings of each kind that are shown to people.
const SHOWN: usize = 10;

/// Findings were not repaired.
const FINDINGS_LEFT: u8 = 1;

/// Verification could not finish.
const NOT_VERIFIED: u8 = 2;

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["pk", "all"]))]
pub(crate) struct VerifyArgs {
    /// Partition key of the collection.
    #[arg(long, value_name = "KEY", value_parser = partition_key)]
    pk: Option<PartitionKey>,
    /// Check every collection. The command scans the metadata table for them.
    #[arg(long)]
    all: bool,
    /// Repair what can be repaired without a choice: remove a duplicate that clients do not see, remove a stray marker. With
    /// `misplaced`, also move misplaced items to their shards, where clients see them. After a restore one may be an item that
    /// was deleted, which then lives again: look at the findings first.
    #[arg(long, value_name = "WHAT", num_args = 0..=1, default_missing_value = "certain")]
    repair: Option<RepairArg>,
    /// Consume at most this many read units a second. The command begins with a quarter of them.
    #[arg(long, value_name = "UNITS")]
    read_units: Option<NonZeroU32>,
    /// Print JSON on stdout, one object per line: each finding, each collection, and the summary.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What `--repair` repairs.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum RepairArg {
    Certain,
    Misplaced,
}

impl VerifyArgs {
    fn repair(&self) -> Repair {
        match self.repair {
            None => Repair::Nothing,
            Some(RepairArg::Certain) => Repair::Certain,
            Some(RepairArg::Misplaced) => Repair::Misplaced,
        }
    }
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
Exit status: 0 with no findings left, 1 if findings remain or the report cannot be printed, 2 if verification could not
finish, 130 after Ctrl-C.

Findings:
  misplaced     a live item outside its shard, with no live copy in it; clients do not see the item. Repaired with
                --repair misplaced only
  duplicate     a second live item under a sort key; clients see the one in the item's own shard
  stray_marker  a marker that belongs to no reshard, and that no reshard will remove
  ahead         an item with a generation above that of its collection's metadata, or with a generation or version
                that is not a number, which counts as the highest there is; never repaired
  hidden_by_expiring
                a live item behind one that may expire, and that would show again when it does
Clients may write and reshards may run meanwhile: a finding is reported only if a second read confirms it.

The digest depends on the items of a collection and not on their shards. If nothing was written in between, it
is the same before and after a reshard.

Examples:
  dynashard verify --stack-name dynashard --pk EWR
  dynashard verify --stack-name dynashard --all --repair --read-units 500
  dynashard verify --stack-name dynashard --all --json | jq 'select(.event == \"finding\")'
  dynashard verify --endpoint-url http://127.0.0.1:8000 --main-table MainTable --all";

pub(crate) async fn run(args: VerifyArgs) -> ExitCode {
    let mut output = Output::of(args.form, args.json);
    let mut summary = Summary { clean: true, ..Summary::default() };
    let checking = Box::pin(check(&args, &mut output, &mut summary));
    let checked = until_interrupted(checking).await;
    if let Err(failure) = &checked {
        output.failure(None, failure);
        summary.add_failure();
    }
    if checked == Ok(None) {
        note!("dynashard: interrupted; what was not verified is not reported");
        summary.interrupt();
    }
    summary.print(&mut output);
    let status = match summary {
        Summary { interrupted: true, .. } => INTERRUPTED,
        Summary { failed: 1.., .. } => NOT_VERIFIED,
        Summary { clean: false, .. } => FINDINGS_LEFT,
        _ => 0,
    };
    output.end(ExitCode::from(status))
}

async fn check(
    args: &VerifyArgs,
    output: &mut Output,
    summary: &mut Summary,
) -> Result<(), Failure> {
    let mut connection = args.connect.connect().await?;
    if args.repair() > Repair::Nothing {
        connection = connection.until_pinned().await?.into_inner();
    }
    let verifier = Verifier::new(connection.directory_bearing_damage());
    if let Some(partition) = &args.pk {
        collection(args, &verifier, partition, output, summary).await;
        return Ok(());
    }
    let catalog = connection.catalog();
    let mut after = None;
    loop {
        let deadline = deadline(verifier.directory());
        let page = verifier.collections(&catalog, after.as_deref(), deadline).await?;
        for partition in &page.entries {
            collection(args, &verifier, partition, output, summary).await;
        }
        for damage in page.damaged {
            summary.add_failure();
            output.failure(None, &Error::new(Code::CorruptData, damage).into());
        }
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// Verifies one collection. If that fails, the next one follows all the same.
async fn collection(
    args: &VerifyArgs,
    verifier: &Verifier,
    partition: &PartitionKey,
    output: &mut Output,
    summary: &mut Summary,
) {
    let options =
        VerifyOptions { repair: args.repair(), read_units: args.read_units, patience: PATIENCE };
    let activity = Activity::begin(!args.json);
    let mut report = Report { partition, output, activity, shown: BTreeMap::new() };
    let outcome = Box::pin(verifier.verify(partition, options, &mut report)).await;
    let Report { output, activity, shown, .. } = report;
    drop(activity);
    match outcome {
        Ok(verification) => {
            summary.add(&verification);
            output.event("collection", &CollectionLine::of(partition, &verification));
            print(partition, &verification, &shown, output);
        }
        Err(error) => {
            summary.add_failure();
            output.failure(Some(partition.as_str()), &error.into());
        }
    }
}

/// Follows the verification of one collection.
struct Report<'a> {
    partition: &'a PartitionKey,
    output: &'a mut Output,
    activity: Activity,
    /// The first findings of each kind.
    shown: BTreeMap<FindingKind, Vec<Finding>>,
}

impl VerifyObserver for Report<'_> {
    fn found(&mut self, finding: &Finding) {
        let line = FindingLine {
            pk: self.partition.as_str(),
            sk: SortKeyJson(&finding.sort),
            kind: finding.kind.as_str(),
            shard: finding.shard.get(),
            home: finding.home.map(dynashard_keys::ShardId::get),
            generation: finding.generation.get(),
            repaired: finding.repaired,
        };
        self.output.event("finding", &line);
        let shown = self.shown.entry(finding.kind).or_default();
        if shown.len() < SHOWN {
            shown.push(finding.clone());
        }
    }

    fn progress(&mut self, so_far: &Verification) {
        self.activity.says(|| {
            format!(
                "{}: {} items in {} shards, {} findings, {:.0} read units",
                self.partition,
                so_far.items,
                so_far.metadata.number_of_shards,
                so_far.total().found,
                so_far.consumed_rcu,
            )
        });
    }
}

/// What was found in a collection, for people.
fn print(
    partition: &PartitionKey,
    verification: &Verification,
    shown: &BTreeMap<FindingKind, Vec<Finding>>,
    output: &mut Output,
) {
    let metadata = &verification.metadata;
    output.text(format_args!(
        "{}: {} items in {} shards, {}, {}, generation {}, digest {}",
        in_line(partition.as_str()),
        verification.items,
        metadata.number_of_shards,
        metadata.placement,
        metadata.phase.as_str(),
        metadata.generation,
        verification.digest,
    ));
    let shards = verification.live_items.iter().map(|(shard, items)| format!("{shard}: {items}"));
    output.text(format_args!("  items by shard  {}", shards.collect::<Vec<_>>().join("  ")));
    if verification.waiting_to_move > 0 {
        output.text(format_args!("  waiting to move {}", verification.waiting_to_move));
    }
    if verification.markers > 0 {
        output.text(format_args!("  markers to go   {}", verification.markers));
    }
    if verification.layout_changed {
        output.text("  its shard count changed during verification");
    }
    for (kind, Tally { found, repaired }) in &verification.findings {
        let repaired = if *repaired > 0 { format!(", {repaired} repaired") } else { String::new() };
        output.text(format_args!("  {}: {found}{repaired}", kind.as_str()));
        let examples = shown.get(kind).map(Vec::as_slice).unwrap_or_default();
        for Finding { sort, shard, home, generation, repaired, .. } in examples {
            let home = home.filter(|home| home != shard);
            let home = home.map_or_else(String::new, |home| format!(", belongs in {home}"));
            let repaired = if *repaired { ", repaired" } else { "" };
            output.text(format_args!(
                "    shard {shard}, sort key {sort:?}, generation {generation}{home}{repaired}"
            ));
        }
        let more = found.saturating_sub(u64::try_from(examples.len()).unwrap_or(u64::MAX));
        if more > 0 {
            output.text(format_args!("    and {more} more; --json prints all"));
        }
    }
}

/// `{"event":"finding", ...}`
#[derive(Serialize)]
struct FindingLine<'a> {
    pk: &'a str,
    sk: SortKeyJson<'a>,
    kind: &'static str,
    shard: u32,
    /// Where it belongs; null in a random collection.
    home: Option<u32>,
    generation: u64,
    repaired: bool,
}

/// `{"event":"collection", ...}`
#[derive(Serialize)]
struct CollectionLine<'a> {
    pk: &'a str,
    number_of_shards: u32,
    generation: u64,
    state: &'static str,
    placement: &'static str,
    items: u64,
    items_by_shard: BTreeMap<u32, u64>,
    digest: String,
    waiting_to_move: u64,
    markers_to_remove: u64,
    layout_changed: bool,
    findings: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    clean: bool,
    items_read: u64,
    consumed_rcu: f64,
}

impl<'a> CollectionLine<'a> {
    fn of(partition: &'a PartitionKey, verification: &Verification) -> Self {
        let metadata = &verification.metadata;
        let findings = FindingKind::ALL.map(|kind| {
            let tally = verification.findings.get(&kind).copied().unwrap_or_default();
            (kind.as_str(), [("found", tally.found), ("repaired", tally.repaired)].into())
        });
        let by_shard = verification.live_items.iter();
        Self {
            pk: partition.as_str(),
            number_of_shards: metadata.number_of_shards.get(),
            generation: metadata.generation.get(),
            state: metadata.phase.as_str(),
            placement: metadata.placement.as_str(),
            items: verification.items,
            items_by_shard: by_shard.map(|(shard, items)| (shard.get(), *items)).collect(),
            digest: verification.digest.to_string(),
            waiting_to_move: verification.waiting_to_move,
            markers_to_remove: verification.markers,
            layout_changed: verification.layout_changed,
            findings: findings.into(),
            clean: verification.is_clean(),
            items_read: verification.items_read,
            consumed_rcu: verification.consumed_rcu,
        }
    }
}

/// `{"event":"summary", ...}`
#[derive(Default, Serialize)]
struct Summary {
    collections: u64,
    items: u64,
    found: u64,
    repaired: u64,
    /// Collections that could not be verified.
    failed: u64,
    /// Whether all were verified, with no findings left.
    clean: bool,
    /// A signal has ended it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
}

impl Summary {
    fn add(&mut self, verification: &Verification) {
        let Tally { found, repaired } = verification.total();
        self.collections += 1;
        self.items += verification.items;
        self.found += found;
        self.repaired += repaired;
        self.clean &= verification.is_clean();
    }

    fn add_failure(&mut self) {
        self.failed += 1;
        self.clean = false;
    }

    fn interrupt(&mut self) {
        self.interrupted = true;
        self.clean = false;
    }

    fn print(&self, output: &mut Output) {
        output.event("summary", self);
        let Self { collections, items, found, repaired, failed, .. } = self;
        if *collections == 0 && (*failed > 0 || self.interrupted) {
            return;
        }
        let failed =
            if *failed > 0 { format!("; {failed} could not be verified") } else { String::new() };
        let verdict = match (*found, *found - *repaired) {
            (0, _) => "no findings".to_owned(),
            (_, 0) => format!("{found} findings, all repaired"),
            (_, left) => format!("{found} findings, {left} of them left"),
        };
        let s = if *collections == 1 { "" } else { "s" };
        output.text(format_args!("{collections} collection{s}, {items} items: {verdict}{failed}"));
    }
}
