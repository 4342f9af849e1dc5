//! `dynashard indexes`: shows the secondary indexes of the main table, and changes over how many shards the values of those are
//! spread that are write-sharded.

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::process::ExitCode;

use dynashard_aws_operator::{ScanPage, lacking_shard, put_index_shard};
use dynashard_core::{
    Attributes, Code, Deadline, Directory, Error, IndexAttribute, IndexShards, SecondaryIndex,
    item_bytes,
};
use dynashard_keys::{Placement, ShardCount};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;

use super::adopt::{Example, example};
use super::budget::Budget;
use super::connect::{ConnectArgs, Connection, deadline};
use super::output::{Activity, Form, Output};
use super::patience::patiently;
use super::scan::{ReadRate, TableScan, all_segments};
use super::{Failure, INTERRUPTED, PATIENCE, signals};
use crate::clock::Stopwatch;
use crate::numbers::float;

/// For how many times T' a writer may go by what was before: for one by its lease of the root, and for another by one of metadata that
/// it took at the end of that.
const TERMS: u32 = 2;

/// Requests that a segment has under way.
const SIDE_BY_SIDE: usize = 8;

#[derive(Debug, clap::Args)]
pub(crate) struct IndexesArgs {
    /// Spread each value of write-sharded indexes over so many shards, rounded up to a power of two. It takes effect for items
    /// that are written from then on.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(IndexShards::MOST)))]
    shards: Option<u32>,
    /// Give the items that were written before their shard by the present count, also those that have none. Functions and
    /// endpoints read and write meanwhile.
    #[arg(long)]
    rewrite: bool,
    /// With --rewrite: consume at most this many write units a second.
    #[arg(long, value_name = "UNITS", default_value = "100", requires = "rewrite")]
    write_units: NonZeroU32,
    /// With --rewrite: consume at most this many read units a second.
    #[arg(long, value_name = "UNITS", default_value = "100", requires = "rewrite")]
    read_units: NonZeroU32,
    /// With --rewrite: parts of the table that are read side by side.
    #[arg(long, value_name = "N", default_value_t = 4, requires = "rewrite", value_parser = clap::value_parser!(u32).range(1..=64))]
    segments: u32,
    /// Print JSON on stdout.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
A value of a write-sharded index, such as a country, is spread over shards by the key of each item. All of them are read by
GET /query?index=, and the count grows by itself when a partition of the index is at its limit. It grows for items that are
written from then on; --rewrite brings the others along, which makes the index even again.

--rewrite reads the table once and updates the items that need it. It may be interrupted and run again at any time, and
changes nothing that a client sees. While an item is rewritten, a page of the index may lack it, or show it twice.

Exit status: 0 if the indexes are as shown, or changed; 1 if not, and a line on stderr says why, with the code of the API;
130 after Ctrl-C.

Examples:
  dynashard indexes --stack-name dynashard
  dynashard indexes --stack-name dynashard --shards 16
  dynashard indexes --stack-name dynashard --rewrite --write-units 500";

pub(crate) async fn run(args: IndexesArgs) -> ExitCode {
    let mut output = Output::of(args.form, args.json);
    let status = Box::pin(indexes(&args, &mut output)).await.unwrap_or_else(|failure| {
        output.failure(None, &failure);
        ExitCode::FAILURE
    });
    output.end(status)
}

async fn indexes(args: &IndexesArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let mut signals = signals()?;
    let connection = args.connect.connect().await?;
    let directory = connection.directory();
    // Whoever differs from what is pinned, or is before the table of another stack, changes nothing.
    directory.lease().hold(deadline(&directory)).await?;
    let working = async {
        let mut shards = directory.pinned().index_shards(deadline(&directory)).await?;
        if args.shards.is_some() || args.rewrite {
            shards = Some(grow(args, shards, &directory, output).await?);
        }
        let rewritten = if args.rewrite {
            Some(rewrite(args, &connection, &directory, output).await?)
        } else {
            None
        };
        Ok::<_, Failure>((shards, rewritten))
    };
    let (shards, rewritten) = tokio::select! {
        done = working => done?,
        () = signals.received() => {
            note!("dynashard: run the same command again, and it goes on");
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    show(&described(&directory).await?, shards, rewritten, output);
    let is_whole = rewritten.is_none_or(|rewritten| rewritten.refused == 0);
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn described(directory: &Directory) -> Result<Vec<SecondaryIndex>, Failure> {
    let world = directory.context().world();
    let store = world.indexes.as_ref();
    let store =
        store.ok_or_else(|| Failure::connection("the indexes are out of reach".to_owned()))?;
    patiently(async || store.indexes().await).await
}

/// Has the shards grow to what was asked for, if anything was, and completes a growth that is under way.
async fn grow(
    args: &IndexesArgs,
    shards: Option<IndexShards>,
    directory: &Directory,
    output: &Output,
) -> Result<IndexShards, Failure> {
    let shards = shards.ok_or_else(no_shards)?;
    let pinned = directory.pinned();
    let activity = Activity::begin(!output.is_for_machines());
    activity.says(|| "waiting until all readers know of the shards".to_owned());
    let until = || Deadline::after(directory.now(), PATIENCE * 4);
    pinned.complete_index_growth(until()).await?;
    if let Some(count) = args.shards {
        let count = Placement::Xxh64.round(ShardCount::new(count).map_err(Error::from)?);
        if count < shards.read() {
            let why = format!(
                "each value has {} shards, and shards of indexes become no fewer: {count} was asked for",
                shards.read()
            );
            return Err(Error::new(Code::BadShardCount, why).into());
        }
        pinned.grow_index_shards(None, count, until()).await?;
    }
    pinned.complete_index_growth(until()).await?.ok_or_else(no_shards)
}

fn no_shards() -> Failure {
    let why = "the stack has no write-sharded index: set the parameter IndexShards";
    Error::new(Code::SettingsMismatch, why).into()
}

/// What a rewriting has done.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
struct Rewriting {
    items: u64,
    rewritten: u64,
    /// DynamoDB does not take the shard: the item is too large for it, or has another key that an index does not take.
    refused: u64,
    consumed_wcu: f64,
    consumed_rcu: f64,
}

/// Gives every item its shard that has another one, or none.
async fn rewrite(
    args: &IndexesArgs,
    connection: &Connection,
    directory: &Directory,
    output: &Output,
) -> Result<Rewriting, Failure> {
    let (operator, table) = (&connection.place.operator, &connection.place.main_table);
    let schema = connection.schema();
    let activity = Activity::begin(!output.is_for_machines());
    let clock = Stopwatch::start();
    let budget = RefCell::new(Budget::new(args.write_units.get(), clock.elapsed()));
    let told = RefCell::new(Rewriting::default());
    activity.says(|| "waiting until everybody writes by the shards".to_owned());
    tokio::time::sleep(directory.lease().waits().leases_end * TERMS).await;
    let put = async |item: &Attributes, shards| {
        let Some(shard) = lacking_shard(item, shards, schema) else { return Ok(()) };
        // The image before counts, and indexes come on top.
        let expected = float(item_bytes(item).div_ceil(1_024));
        // Patience is for refusals: a wait for the budget may be as long as it takes.
        let wait = budget.borrow_mut().take(expected, clock.elapsed());
        tokio::time::sleep(wait).await;
        let put = async || put_index_shard(operator, table, item, shard, schema).await;
        match patiently(put).await {
            Ok(Some(consumed)) => {
                budget.borrow_mut().correct(expected, consumed);
                let mut told = told.borrow_mut();
                told.rewritten += 1;
                told.consumed_wcu += consumed;
            }
            // Whoever has moved or deleted it meanwhile has seen to it.
            Ok(None) => {}
            Err(failure) if failure.code == Code::RequestRejected.as_str() => {
                let Example { pk, sk } = example(item, schema);
                note!("dynashard: {pk:?} {sk:?} has no shard: {failure}");
                told.borrow_mut().refused += 1;
            }
            Err(failure) => return Err(failure),
        }
        Ok::<(), Failure>(())
    };
    let put = &put;
    let scan = TableScan::new(operator, table, ReadRate::new(Some(args.read_units)));
    let pages = scan.pages(all_segments(args.segments).collect(), true);
    let put_page = async |(_, page): (_, ScanPage)| {
        // They may have become more meanwhile.
        let shards = directory.pinned().index_shards(deadline(directory)).await?;
        let Some(shards) = shards else { return Err(no_shards()) };
        stream::iter(page.items.iter().map(|item| put(item, shards)))
            .buffer_unordered(SIDE_BY_SIDE)
            .try_collect::<()>()
            .await?;
        let mut told = told.borrow_mut();
        told.items += page.items.len() as u64;
        told.consumed_rcu += page.consumed_rcu;
        activity.says(|| format!("{} of {} items rewritten", told.rewritten, told.items));
        Ok(())
    };
    pages.try_for_each_concurrent(args.segments as usize, put_page).await?;
    Ok(told.into_inner())
}

/// `{"event":"index", ...}`
#[derive(Serialize)]
struct IndexLine<'a> {
    name: &'a str,
    local: bool,
    active: bool,
    partition_key: Vec<&'a str>,
    sort_key: Vec<&'a str>,
    /// Null where the values are not spread.
    shards: Option<u32>,
}

/// `{"event":"indexes", ...}`
#[derive(Serialize)]
struct Report {
    indexes: usize,
    /// Null where the stack has none.
    shards: Option<u32>,
    /// Whether writers do not go by the count yet.
    growing: bool,
    /// Null unless it was asked for.
    rewrite: Option<Rewriting>,
}

fn show(
    indexes: &[SecondaryIndex],
    shards: Option<IndexShards>,
    rewritten: Option<Rewriting>,
    output: &mut Output,
) {
    let names =
        |keys: &[IndexAttribute]| keys.iter().map(|key| key.name.clone()).collect::<Vec<_>>();
    for index in indexes {
        let count = shards.filter(|_| index.is_write_sharded()).map(|shards| shards.read().get());
        let (partition_key, sort_key) = (names(&index.partition_key), names(&index.sort_key));
        output.event(
            "index",
            &IndexLine {
                name: &index.name,
                local: index.is_local,
                active: index.is_active,
                partition_key: partition_key.iter().map(String::as_str).collect(),
                sort_key: sort_key.iter().map(String::as_str).collect(),
                shards: count,
            },
        );
        let keys = [partition_key.join(" and "), sort_key.join(" and ")];
        let [partition_key, sort_key] = keys;
        let by =
            if sort_key.is_empty() { String::new() } else { format!(", sorted by {sort_key}") };
        let kind = if index.is_local { "local" } else { "global" };
        let state = if index.is_active { "" } else { ", being made or removed" };
        let spread = match (index.is_write_sharded(), count) {
            (false, _) => String::new(),
            (true, Some(1)) => ", 1 shard of each value".to_owned(),
            (true, Some(count)) => format!(", {count} shards of each value"),
            (true, None) => ", write-sharded: set IndexShards".to_owned(),
        };
        output
            .text(format_args!("{:<20} {kind}, by {partition_key}{by}{spread}{state}", index.name));
    }
    let growing = shards.filter(|shards| shards.is_growing());
    output.event(
        "indexes",
        &Report {
            indexes: indexes.len(),
            shards: shards.map(|shards| shards.read().get()),
            growing: growing.is_some(),
            rewrite: rewritten,
        },
    );
    if indexes.is_empty() {
        output.text("the table has no secondary index");
    }
    if let Some(shards) = growing {
        output.text(format_args!(
            "items are still written to {} of {} shards",
            shards.written(),
            shards.read()
        ));
    }
    if let Some(Rewriting { items, rewritten, refused, consumed_wcu, consumed_rcu }) = rewritten {
        output.text(format_args!(
            "rewrote {rewritten} of {items} items, with {consumed_wcu:.0} write units and {consumed_rcu:.0} read units"
        ));
        if refused > 0 {
            output.text(format_args!(
                "DynamoDB refuses the shard of {refused} items, which stay where they are"
            ));
        }
    }
}
