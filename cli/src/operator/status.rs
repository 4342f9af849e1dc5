//! `dynashard status`: a stack on one screen.

use std::collections::BTreeSet;
use std::process::ExitCode;

use dynashard_api::view::DecisionView;
use dynashard_core::ports::List;
use dynashard_core::{Code, DecisionRecord, Directory, Error, Kind, Pinned, Reader, Scaler};
use dynashard_keys::PartitionKey;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;

use super::connect::{ConnectArgs, Connection, deadline};
use super::output::{Form, Output, in_line};
use super::patience::ask_patiently;
use super::reshards::{ChangeJson, View, running, time_of_day};
use super::{Failure, ended, until_interrupted};

#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Print JSON on stdout: one object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
It reads the metadata table alone: its directory, the lists of collections that have grown or are changing, the metadata of up to
100 of them, and what was decided last. `top` asks CloudWatch which keys are hot, and `doctor` checks what is set up.

Exit status: 0 if everything is shown; 1 if not, and a line on stderr says why, with the code of the API; 130 after Ctrl-C.

Examples:
  dynashard status --stack-name dynashard
  dynashard status --stack-name dynashard --json | jq '.sharded.largest[0]'";

/// So many collections are looked at, and so many of them shown.
const LOOKED_AT: usize = 100;
const SHOWN: usize = 8;

/// So many reads are under way.
const SIDE_BY_SIDE: usize = 8;

/// Decisions of the last hour are shown, so many of them.
const RECENT_SECS: u64 = 3_600;
const DECISIONS: usize = 5;

pub(crate) async fn run(args: StatusArgs) -> ExitCode {
    let mut output = Output::of(args.form, args.json);
    let done = Box::pin(until_interrupted(status(&args, &mut output))).await;
    ended(output, None, done)
}

#[derive(Serialize)]
struct Status<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    stack: Option<&'a str>,
    main_table: &'a str,
    metadata_table: &'a str,
    /// `null` until something was pinned.
    pinned: Option<Settings>,
    sharded: Sharded,
    reshards: Vec<ChangeJson<'a>>,
    /// Of the last hour, the newest first.
    decisions: Vec<DecisionView<'a>>,
    /// What cannot be read, each with its fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<String>,
}

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "they are called as the parameters are")]
struct Settings {
    lease_secs: u64,
    request_lifetime_secs: u64,
    signature_age_secs: u64,
}

/// The collections with more shards than their floor, which is what they were made with, or with a change under way.
#[derive(Serialize)]
struct Sharded {
    collections: usize,
    /// Those with the most shards, of the first hundred.
    largest: Vec<Collection>,
}

#[derive(Debug, Serialize)]
struct Collection {
    pk: String,
    number_of_shards: u32,
}

async fn status(args: &StatusArgs, output: &mut Output) -> Result<(), Failure> {
    let connection = args.connect.connect().await?;
    let directory = connection.directory();
    let pinned = directory.pinned().read(deadline(&directory)).await?;
    let mut damaged = Vec::new();
    let sharded = sharded(&connection.reader(), &mut damaged).await?;
    let scaler = Scaler::new(connection.directory());
    let changes = running(&scaler, None, &mut damaged).await?;
    let now_secs = directory.now().epoch_secs();
    let since_secs = now_secs.saturating_sub(RECENT_SECS);
    let decisions = decisions(&directory, since_secs, &mut damaged).await?;
    damaged.sort_unstable();
    damaged.dedup();
    let view = View::of(&connection).await;
    let settings = pinned.as_ref().map(Settings::of);
    output.text(headline(&connection, settings.as_ref()));
    output.text(sharded.text());
    output.text(match changes.len() {
        0 => "changes    none runs".to_owned(),
        1 => "changes    1 runs:".to_owned(),
        n => format!("changes    {n} run:"),
    });
    for change in &changes {
        output.text(view.text(change));
    }
    output.text(match decisions.len() {
        0 => "decisions  none in the last hour",
        _ => "decisions  the newest of the last hour:",
    });
    for (partition, record) in &decisions {
        let DecisionRecord { last_secs, action, outcome, diagnosis, from, to, .. } = record;
        let to = to.map(|to| format!(" > {to}")).unwrap_or_default();
        let at = time_of_day(*last_secs);
        output.text(format_args!(
            "  {at} UTC {} {action} {from}{to} ({diagnosis}, {outcome})",
            in_line(partition.as_str())
        ));
    }
    output.text(match (changes.is_empty(), decisions.is_empty()) {
        (false, _) => "next: `dynashard reshards --watch` follows the changes",
        (true, false) => "next: `dynashard decisions` says why",
        (true, true) => "next: `dynashard top` shows which keys are throttled, and `dynashard doctor` checks the stack",
    });
    output.json(&Status {
        stack: connection.stack_name.as_deref(),
        main_table: &connection.place.main_table,
        metadata_table: &connection.place.metadata_table,
        pinned: settings,
        sharded,
        reshards: changes.iter().map(|change| view.json(change)).collect(),
        decisions: decisions.iter().map(|(of, record)| DecisionView::new(of, record)).collect(),
        damaged: damaged.clone(),
    });
    match &damaged[..] {
        [] => Ok(()),
        [fault, others @ ..] => {
            for fault in others {
                note!("dynashard: passed over: {fault}");
            }
            Err(Error::new(Code::CorruptData, fault).into())
        }
    }
}

impl Settings {
    fn of(pinned: &Pinned) -> Self {
        Self {
            lease_secs: pinned.lease_term.accepted.as_secs(),
            request_lifetime_secs: pinned.request_lifetime.accepted.as_secs(),
            signature_age_secs: pinned.signature_age.as_secs(),
        }
    }
}

fn headline(connection: &Connection, settings: Option<&Settings>) -> String {
    let place = &connection.place;
    let tables = format!("{} and {}", place.main_table, place.metadata_table);
    let name = match &connection.stack_name {
        Some(stack) => format!("stack      {stack}, {}: {tables}", place.operator.place()),
        None => format!("tables     {tables}, {}", place.operator.place()),
    };
    let mut says = match settings {
        Some(Settings { lease_secs, request_lifetime_secs, signature_age_secs }) => vec![
            format!("LeaseSecs {lease_secs}"),
            format!("RequestLifetimeSecs {request_lifetime_secs}"),
            format!("SignatureAgeSecs {signature_age_secs}"),
        ],
        None => vec!["nothing is pinned yet".to_owned()],
    };
    // Flags need not say what the functions are set to.
    if connection.place.stack.is_some() {
        let of = &place.settings;
        says.push(format!("ScalingMode {}", of.scaling.mode.as_str()));
        says.push(format!("Placement {}", of.placement));
        says.push(format!("MaxShards {}", of.max_shards));
    }
    format!("{name}\nsettings   {}", says.join(", "))
}

impl Sharded {
    fn text(&self) -> String {
        let Self { collections, largest } = self;
        if *collections == 0 {
            return "sharded    no collection has more shards than its floor".to_owned();
        }
        let named =
            largest.iter().map(|one| format!("{} {}", in_line(&one.pk), one.number_of_shards));
        let named = named.collect::<Vec<_>>().join(", ");
        let more = if largest.len() < *collections { ", ..." } else { "" };
        let are = if *collections == 1 { "collection" } else { "collections" };
        format!("sharded    {collections} {are}: {named}{more}")
    }
}

/// The collections that have grown, or are changing.
async fn sharded(reader: &Reader, damaged: &mut Vec<String>) -> Result<Sharded, Failure> {
    let directory = reader.directory();
    let mut partitions = BTreeSet::new();
    for list in [List::Grown, List::Resharding] {
        let mut after = None::<String>;
        loop {
            let page = async || {
                directory.records().list(list, after.as_deref(), deadline(directory)).await
            };
            let page = ask_patiently(page).await?;
            damaged.extend(page.damaged);
            partitions.extend(page.entries.into_iter().map(|listed| listed.partition));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    let looks = partitions.iter().take(LOOKED_AT).map(|partition| async move {
        match reader.collection(partition, deadline(directory)).await {
            Ok((metadata, _)) => {
                let number_of_shards = metadata.number_of_shards.get();
                Ok(Ok(Collection { pk: partition.as_str().to_owned(), number_of_shards }))
            }
            // It must not hide the others.
            Err(error) if error.kind() == Kind::Data => Ok(Err(error.message().to_owned())),
            Err(error) => Err(Failure::from(error)),
        }
    });
    let looks = stream::iter(looks.collect::<Vec<_>>()).buffer_unordered(SIDE_BY_SIDE);
    let mut largest = Vec::new();
    for looked in looks.try_collect::<Vec<_>>().await? {
        match looked {
            Ok(collection) => largest.push(collection),
            Err(fault) => damaged.push(fault),
        }
    }
    largest.sort_by(|one, other| {
        (other.number_of_shards, &one.pk).cmp(&(one.number_of_shards, &other.pk))
    });
    largest.truncate(SHOWN);
    Ok(Sharded { collections: partitions.len(), largest })
}

/// What was decided since then, the newest first.
async fn decisions(
    directory: &Directory,
    since_secs: u64,
    damaged: &mut Vec<String>,
) -> Result<Vec<(PartitionKey, DecisionRecord)>, Failure> {
    let mut found = Vec::new();
    let mut after = None::<String>;
    loop {
        let page = async || {
            let records = directory.records();
            records.list(List::Decisions, after.as_deref(), deadline(directory)).await
        };
        let page = ask_patiently(page).await?;
        damaged.extend(page.damaged);
        for listed in page.entries {
            let records = listed.decisions.unwrap_or_default().records.into_iter();
            let recent = records.filter(|record| record.last_secs >= since_secs);
            found.extend(recent.map(|record| (listed.partition.clone(), record)));
        }
        found.sort_by_key(|(_, record)| std::cmp::Reverse(record.last_secs));
        found.truncate(DECISIONS);
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}
