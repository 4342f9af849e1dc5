//! `dynashard query`: prints the items of a collection, or of an index, as lines of JSON, page after page.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

use dynashard_api::grants::GrantedKeys;
use dynashard_api::json::ItemJson;
use dynashard_api::params::Params;
use dynashard_api::problem::Problem;
use dynashard_aws_operator::SeriesTables;
use dynashard_core::query::{MAX_LIMIT, MAX_PAGE_BYTES, PageBudget, Query, QueryPage};
use dynashard_core::{Code, IndexPage, Reader, SecondaryIndex, StoredItem, TableSchema};
use dynashard_keys::{ItemKey, PartitionKey, SortKey, SortKeyType};
use serde::Serialize;

use super::connect::{ConnectArgs, deadline};
use super::output::{Activity, Output};
use super::series::Series;
use super::series::read::Tables;
use super::{Failure, INTERRUPTED, Stopped, UNREAD, partition_key, signals};
use crate::streams::Unwritten;

#[derive(Debug, clap::Args)]
#[command(mut_args(|arg| match arg.get_id().as_str() {
    "main_table" => arg.required_unless_present("series"),
    _ => arg,
}))]
pub(crate) struct QueryArgs {
    /// Partition key of the collection; with --index a value of the index's partition key.
    #[arg(long, value_name = "KEY", value_parser = partition_key)]
    pk: PartitionKey,
    /// Read this secondary index in place of the table, in the order of its sort key, on which the conditions are then.
    #[arg(long, value_name = "NAME", conflicts_with = "series")]
    index: Option<String>,
    /// Only sort keys with this prefix.
    #[arg(long, value_name = "PREFIX")]
    begins_with: Option<String>,
    /// Only sort keys from this one on, inclusive.
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// Only sort keys up to this one, inclusive.
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
    /// Order of the sort keys. The default is asc.
    #[arg(long, value_name = "asc|desc")]
    order: Option<String>,
    /// Items of a page at most, up to 1000. The default is 100, and 1000 with --all.
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// How the shards are read, as in the API: ordered, parallel, round-robin or sequential. The default
    /// is ordered.
    #[arg(long, value_name = "NAME")]
    strategy: Option<String>,
    /// Print only these attributes, separated by commas. The query consumes the same read units.
    #[arg(long, value_name = "NAMES")]
    fields: Option<String>,
    /// Read with strong consistency: it consumes twice the read units, and includes every write that was
    /// answered before.
    #[arg(long)]
    consistent: bool,
    /// Start where a page of the same query ended.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Print all pages, to the end of the collection.
    #[arg(long)]
    all: bool,
    /// Print a last line on stdout with the cursor to continue from and the read units consumed.
    #[arg(long)]
    json: bool,
    /// Read the tables of this time series one after the other, in the order of their periods, in place of --stack-name and
    /// --main-table. One that is the main table of a stack is read as such.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["stack_name", "main_table", "metadata_table"])]
    series: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
Each item is one line on stdout, as the API answers it: {\"pk\":...,\"sk\":..., and its attributes}, with the key under the
table's own names. A query that has not
reached its end prints the cursor to continue from on stderr, also after an interruption or a failure. With --json
stdout ends with {\"cursor\":...,\"shards\":...,\"items\":...,\"items_read\":...,\"consumed_rcu\":...}, and before it
{\"event\":\"error\",...} if the query failed. Unlike an item, these lines have no pk.

Exit status: 0 if everything was printed, or the reader of stdout closed it; 1 if not, and a line on stderr says
why, with the code of the API; 130 after Ctrl-C.

Examples:
  dynashard query --stack-name dynashard --pk EWR --begins-with 2013-01-01 --order desc --limit 10
  dynashard query --stack-name dynashard --pk EWR --all > ewr.jsonl
  dynashard query --stack-name dynashard --pk EWR --all --strategy parallel | jq -c 'select(.dest == \"ORD\")'
  dynashard query --stack-name dynashard --index by-country --pk DE --order desc --limit 10
  dynashard query --series flights --pk EWR --order desc --limit 10
  dynashard query --endpoint-url http://127.0.0.1:8000 --main-table MainTable --pk EWR";

pub(crate) async fn run(args: QueryArgs) -> ExitCode {
    let mut progress = Progress::default();
    let ended = Box::pin(query(&args, &mut progress)).await;
    let (status, failure) = match ended {
        Ok(()) => (ExitCode::SUCCESS, None),
        Err(Stopped::Interrupted) => (ExitCode::from(INTERRUPTED), None),
        // `head` has its lines.
        Err(Stopped::Failed(failure)) if failure.code == UNREAD => return ExitCode::SUCCESS,
        Err(Stopped::Failed(failure)) => (ExitCode::FAILURE, Some(failure)),
    };
    let mut output = Output::new(args.json);
    if let Some(failure) = &failure {
        // Without the key, which tells an item.
        output.failure(None, failure);
    }
    if failure.is_none() || progress.has_begun {
        output.json(&progress);
    }
    let is_damaged =
        failure.as_ref().is_some_and(|failure| failure.code == Code::BadCursor.as_str());
    if let Some(cursor) = progress.cursor.as_ref().filter(|_| !is_damaged) {
        note!("dynashard: continue with --cursor {cursor}");
    }
    output.end(status)
}

/// How far it has come: all of this was printed. With `--json` it is the last line.
#[derive(Debug, Default, Serialize)]
struct Progress {
    #[serde(skip)]
    has_begun: bool,
    /// Where to go on, as long as the end was not reached.
    cursor: Option<String>,
    shards: u32,
    items: u64,
    items_read: u64,
    consumed_rcu: f64,
}

impl Progress {
    fn add(&mut self, page: IndexPage) {
        self.has_begun = true;
        self.shards = page.shards;
        self.items += u64::try_from(page.items.len()).unwrap_or(0);
        self.items_read += page.items_read;
        self.consumed_rcu += page.consumed_rcu;
        self.cursor = page.cursor;
    }

    /// Prints a page, and takes note of it.
    fn print(
        &mut self,
        schema: &TableSchema,
        partition: &PartitionKey,
        page: IndexPage,
        activity: &Activity,
    ) -> Result<(), Failure> {
        print(schema, &page).map_err(Unwritten).map_err(|error| Failure {
            code: if error.is_closed() { UNREAD } else { Unwritten::CODE },
            detail: error.detail(),
        })?;
        self.add(page);
        activity.says(|| {
            let Self { items, shards, consumed_rcu, .. } = self;
            let pk = partition.as_str();
            format!("{pk}: {items} items from {shards} shards, {consumed_rcu:.0} read units")
        });
        Ok(())
    }
}

async fn query(args: &QueryArgs, progress: &mut Progress) -> Result<(), Stopped> {
    // A cursor that was given is where to go on until a page was printed.
    progress.cursor.clone_from(&args.cursor);
    let mut signals = signals()?;
    // On a terminal the items themselves show how it goes.
    let activity = Activity::begin(args.all && !io::stdout().is_terminal());
    let pages = async {
        match &args.series {
            None => of_a_collection(args, progress, &activity).await,
            Some(name) => of_a_series(args, name, progress, &activity).await,
        }
    };
    tokio::select! {
        ended = Box::pin(pages) => Ok(ended?),
        () = signals.received() => Err(Stopped::Interrupted),
    }
}

/// Prints the pages that are asked for.
async fn of_a_collection(
    args: &QueryArgs,
    progress: &mut Progress,
    activity: &Activity,
) -> Result<(), Failure> {
    let connection = args.connect.connect().await?;
    let reader = connection.reader();
    let index = match &args.index {
        Some(name) => Some(reader.index(name, deadline(reader.directory())).await?),
        None => None,
    };
    let mut query = match &index {
        Some(index) => checked(args, |params| params.index_query(index, &GrantedKeys::all()))?,
        None => of_table(args, connection.schema().sort_key_type)?,
    };
    query.cursor.clone_from(&args.cursor);
    loop {
        let page = match &index {
            Some(index) => index_page(&reader, index, &query).await?,
            None => of_items(&query.partition, page(&reader, &query).await?),
        };
        progress.print(connection.schema(), &query.partition, page, activity)?;
        if !args.all || progress.cursor.is_none() {
            return Ok(());
        }
        query.cursor.clone_from(&progress.cursor);
    }
}

/// Prints the pages that are asked for, over the tables of a series. Without --all a page ends with its table only where it is
/// as long as it may be.
async fn of_a_series(
    args: &QueryArgs,
    name: &str,
    progress: &mut Progress,
    activity: &Activity,
) -> Result<(), Failure> {
    let tables = SeriesTables::of(&args.connect.caller.connect().await?);
    let series = Series::find(&tables, name).await?.whole()?;
    let schema = series.schema(name)?;
    let mut query = of_table(args, schema.sort_key_type)?;
    let cursor = args.cursor.as_deref();
    let mut tables = Tables::from(&series, schema.clone(), query.ascending, cursor)?;
    let most = query.limit;
    loop {
        let Some((reader, cursor)) = tables.next(&args.connect).await? else {
            progress.cursor = None;
            return Ok(());
        };
        query.cursor = cursor;
        let mut page = page(reader, &query).await?;
        let is_whole = page.cursor.is_none();
        tables.read(&mut page);
        let page = of_items(&query.partition, page);
        progress.print(&schema, &query.partition, page, activity)?;
        let left = u64::from(most).saturating_sub(progress.items);
        if !args.all && (!is_whole || left == 0) {
            return Ok(());
        }
        query.limit = if args.all { most } else { u32::try_from(left).unwrap_or(most) };
    }
}

/// The query of a table whose sort keys have this type.
fn of_table(args: &QueryArgs, sort_keys: SortKeyType) -> Result<Query, Problem> {
    checked(args, |params| params.query(sort_keys, &GrantedKeys::all()))
}

/// Reads the arguments, but for the cursor, as the API reads its parameters.
fn checked(
    args: &QueryArgs,
    query: impl FnOnce(&mut Params) -> Result<Query, Problem>,
) -> Result<Query, Problem> {
    let limit = args.limit.or(args.all.then_some(MAX_LIMIT));
    let mut params = Params::from_pairs([
        ("pk", Some(args.pk.to_string())),
        ("begins_with", args.begins_with.clone()),
        ("from", args.from.clone()),
        ("to", args.to.clone()),
        ("order", args.order.clone()),
        ("limit", limit.map(|limit| limit.to_string())),
        ("strategy", args.strategy.clone()),
        ("fields", args.fields.clone()),
        ("consistent", args.consistent.then(|| true.to_string())),
    ]);
    let query = query(&mut params)?;
    params.finish()?;
    Ok(query)
}

async fn page(reader: &Reader, query: &Query) -> Result<QueryPage, Failure> {
    let partition = &query.partition;
    let schema = &reader.directory().settings().schema;
    let measure = |sort: &SortKey, item: &StoredItem| {
        ItemJson::plain(schema, partition, sort, item).payload_bytes()
    };
    let budget = PageBudget { max_bytes: MAX_PAGE_BYTES, measure: &measure };
    Ok(Box::pin(reader.query(query, budget, deadline(reader.directory()))).await?)
}

async fn index_page(
    reader: &Reader,
    index: &Arc<SecondaryIndex>,
    query: &Query,
) -> Result<IndexPage, Failure> {
    let schema = &reader.directory().settings().schema;
    let measure = |ItemKey { partition, sort }: &ItemKey, item: &StoredItem| {
        ItemJson::plain(schema, partition, sort, item).payload_bytes()
    };
    let budget = PageBudget { max_bytes: MAX_PAGE_BYTES, measure: &measure };
    let page = reader.query_index(index, query, budget, deadline(reader.directory()));
    Ok(Box::pin(page).await?)
}

/// A page of a collection as one of an index, which has items of several.
fn of_items(partition: &PartitionKey, page: QueryPage) -> IndexPage {
    let items = page.items.into_iter();
    let items = items.map(|(sort, item)| (ItemKey::new(partition.clone(), sort), item));
    IndexPage {
        items: items.collect(),
        cursor: page.cursor,
        shards: page.shards.get(),
        items_read: page.items_read,
        consumed_rcu: page.consumed_rcu,
        is_moving: false,
    }
}

fn print(schema: &TableSchema, page: &IndexPage) -> io::Result<()> {
    let mut stdout = BufWriter::new(io::stdout().lock());
    for (ItemKey { partition, sort }, item) in &page.items {
        serde_json::to_writer(&mut stdout, &ItemJson::plain(schema, partition, sort, item))?;
        stdout.write_all(b"\n")?;
    }
    stdout.flush()
}
