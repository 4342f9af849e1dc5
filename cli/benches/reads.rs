//! How fast a sharded collection is read, beside an unsharded one and beside the ways of
//! "Dynamo DB Sharding" (<https://upthecreek.dev/software/dynamo-db-sharding>).
//!
//! `cargo bench -p dynashard-cli --bench reads` prints, from one run on one machine:
//!
//! 1. the time of a page of 100 by each strategy, with the same latency added to each request of
//!    the main table, beside one plain `Query` of an unsharded collection;
//! 2. the items that DynamoDB reads for each item returned over a whole walk, beside the high-watermark
//!    reads of that article, which ask every shard for the whole page; and the same, with read units, of a collection
//!    whose count was set before its items were written, while that change runs (`PUT /collection`);
//! 3. the processor time of merging and of cursors for each item of a million, and the memory that it
//!    takes, beside collecting everything and sorting it.
//!
//! The first two read real flights from the embedded engine through the SDK, as the functions do; the
//! third reads from memory, so that nothing but the reader is measured.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod common;

use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use common::{Failure, Tables, stack_options};
use dynashard_aws::OsEntropy;
use dynashard_core::ports::{
    Adjusted, BatchPage, Consistency, ItemStore, Metered, ShardPage, ShardQuery, SortRange,
    StoreError, Transfer, Transferred, World, Write,
};
use dynashard_core::query::{PageBudget, Query, QueryPage, Strategy};
use dynashard_core::{
    Adjustment, AttributeValue, Attributes, CollectionMetadata, Deadline, Directory, Fields,
    Generation, Lease, NewItem, Owner, Phase, Precondition, Reader, Settings, StoredItem, Version,
    Writer,
};
use dynashard_keys::{
    ItemKey, PartitionKey, PhysicalKey, PhysicalPartitionKey, Placement, ShardCount, SortKey,
};
use dynashard_local::Stack;
use dynashard_testkit::{ManualClock, MemoryStore, SeededEntropy, block_on};
use flate2::read::GzDecoder;
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt, TryStreamExt};

/// Added to each request of the main table.
const LATENCY: Duration = Duration::from_millis(10);
const PAGE: u32 = 100;
const SHARDS: u32 = 16;
/// Pages that each way of reading is timed over.
const TIMED: usize = 200;
const IN_FLIGHT: usize = 16;

/// Of the third part.
const MANY_ITEMS: u32 = 1_000_000;
const MANY_SHARDS: u32 = 64;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut options = stack_options().await?;
    // What is measured is the reader, so nothing may throttle.
    options.partitions.are_enforced = false;
    let stack = Stack::start(options).await?;
    let tables = Tables::of(&stack).await;
    let collections = Collections { tables, settings: Settings::default() };
    let flights = flights()?;

    let whole = collections.fill("whole", SHARDS, &flights).await?;
    let unsharded = collections.fill("unsharded", 1, &flights).await?;
    // So small that a page of it is all of it, and holds something of every shard: each strategy has
    // to read the same shards for the same answer.
    let small = collections.fill("small", SHARDS, &flights[..PAGE as usize]).await?;

    let mut bounds = Bounds::default();
    Box::pin(pages(&collections, &whole, &unsharded, &small, &flights, &mut bounds)).await?;
    Box::pin(walks(&collections, &whole, flights.len(), &mut bounds)).await?;
    Box::pin(just_made(&collections, &flights[..MADE], &mut bounds)).await?;
    stack.shutdown().await;
    // In a thread of its own: it blocks, and nothing else is to run beside it.
    let merged = std::thread::spawn(merging).join().map_err(|_| "the merge panicked")??;
    merged.report(&mut bounds);
    println!("\n{bounds}");
    Ok(())
}

/// What is required, and what was measured.
#[derive(Default)]
struct Bounds(Vec<(String, f64, f64, bool)>);

impl Bounds {
    fn at_most(&mut self, what: &str, measured: f64, most: f64) {
        self.0.push((format!("{what}, at most"), measured, most, measured <= most));
    }

    fn at_least(&mut self, what: &str, measured: f64, least: f64) {
        self.0.push((format!("{what}, at least"), measured, least, measured >= least));
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<66} {:>9} {:>9}", "Ratios of this run", "measured", "required")?;
        for (what, measured, required, holds) in &self.0 {
            let verdict = if *holds { "holds" } else { "MISSED" };
            writeln!(f, "{what:<66} {measured:>9.2} {required:>9.2}  {verdict}")?;
        }
        Ok(())
    }
}

/// The real input: departures of one airport, by sort key.
fn flights() -> Result<Vec<(SortKey, Attributes)>, Failure> {
    let mut text = String::new();
    let file = include_bytes!("../../data/flights-2013-01.csv.gz");
    GzDecoder::new(&file[..]).read_to_string(&mut text)?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers()?.clone();
    let column = |record: &csv::StringRecord, name: &str| {
        let at = headers.iter().position(|header| header == name);
        at.and_then(|at| record.get(at)).unwrap_or_default().to_owned()
    };
    let mut flights = Vec::new();
    for record in reader.records() {
        let record = record?;
        if column(&record, "origin") != "EWR" {
            continue;
        }
        let [hour, carrier, number] =
            ["time_hour", "carrier", "flight"].map(|name| column(&record, name));
        let sort = SortKey::string(format!("{hour}#{carrier}{number}"))?;
        let attributes = headers.iter().zip(&record).filter(|(_, value)| !value.is_empty());
        let attributes = attributes
            .map(|(name, value)| (name.to_owned(), AttributeValue::String(value.to_owned())));
        flights.push((sort, attributes.collect::<Attributes>()));
    }
    flights.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(flights)
}

/// The collections of the first two parts.
struct Collections {
    tables: Tables,
    settings: Settings,
}

impl Collections {
    fn directory(&self) -> Directory {
        self.directory_over(self.tables.items.clone())
    }

    fn directory_over(&self, items: impl ItemStore + 'static) -> Directory {
        let Tables { metadata, clock, .. } = &self.tables;
        let world = World::new(items, metadata.clone(), clock.clone(), OsEntropy);
        Directory::new(world, self.settings.clone())
    }

    /// A reader each request of which takes [`LATENCY`] longer.
    fn slow_reader(&self) -> Reader {
        Reader::new(self.directory_over(OnlyQueries(Slow(self.tables.items.clone()))))
    }

    /// Makes a collection of so many shards, with these items in it.
    async fn fill(
        &self,
        pk: &str,
        shards: u32,
        flights: &[(SortKey, Attributes)],
    ) -> Result<PartitionKey, Failure> {
        self.fill_in(pk, (shards, Phase::Stable), flights).await
    }

    /// Makes a collection in a phase.
    async fn fill_in(
        &self,
        pk: &str,
        (shards, phase): (u32, Phase),
        flights: &[(SortKey, Attributes)],
    ) -> Result<PartitionKey, Failure> {
        let partition = PartitionKey::new(pk)?;
        let count = ShardCount::new(shards)?;
        let created = CollectionMetadata::stable(partition.clone(), Placement::Xxh64, count, 1_000);
        let created = CollectionMetadata { phase, ..created };
        let created = dynashard_testkit::enlist(&self.tables.metadata, &created).await;
        created.map_err(|error| format!("the collection was not created: {error:?}"))?;
        let writer = Writer::new(self.directory());
        let writer = &writer;
        let puts = flights.iter().map(|(sort, attributes)| {
            let key = ItemKey::new(partition.clone(), sort.clone());
            async move {
                let item = NewItem::new(key, attributes.clone(), &self.settings.schema)?;
                let deadline = Deadline::after(writer.directory().now(), Duration::from_secs(10));
                writer.put(&item, Precondition::None, deadline).await?;
                Ok::<_, Failure>(())
            }
        });
        let puts = puts.collect::<Vec<_>>();
        stream::iter(puts).buffer_unordered(IN_FLIGHT).try_collect::<()>().await?;
        Ok(partition)
    }
}

async fn page(reader: &Reader, query: &Query) -> Result<QueryPage, Failure> {
    let deadline = Deadline::after(reader.directory().now(), Duration::from_secs(20));
    Ok(reader.query(query, PageBudget::UNLIMITED, deadline).await?)
}

/// The middle of the times that `once` takes, in milliseconds.
async fn median(mut once: impl AsyncFnMut(usize) -> Result<(), Failure>) -> Result<f64, Failure> {
    let mut times = Vec::new();
    for n in 0..TIMED {
        let started = Instant::now();
        once(n).await?;
        times.push(started.elapsed());
    }
    times.sort();
    Ok(times[times.len() / 2].as_secs_f64() * 1e3)
}

/// The first part.
async fn pages(
    collections: &Collections,
    whole: &PartitionKey,
    unsharded: &PartitionKey,
    small: &PartitionKey,
    flights: &[(SortKey, Attributes)],
    bounds: &mut Bounds,
) -> Result<(), Failure> {
    let reader = collections.slow_reader();
    // All read at these places: anywhere but so near the end that a page is not full.
    let start = |n: usize| {
        let last = flights.len() - PAGE as usize - 1;
        SortRange::From(flights[n * last / TIMED].0.clone())
    };
    println!(
        "A page of {PAGE}, {} ms added to each request, median of {TIMED} pages in ms",
        LATENCY.as_millis()
    );

    let separator = collections.settings.schema.separator;
    let shard = Placement::Xxh64.shards(ShardCount::ONE).next().ok_or("no shard")?;
    let slow = Slow(collections.tables.items.clone());
    let plain = median(async |n| {
        let first = first_of_shard(unsharded.at(shard, Placement::Xxh64, separator), PAGE);
        let query = ShardQuery { range: start(n), ..first };
        let page = slow.query(&query).await;
        let page = page.map_err(|error| format!("the query failed: {error:?}"))?;
        full(page.items.len())
    })
    .await?;
    println!("{:<56} {plain:>8.2}", "one Query of an unsharded collection");

    let ordered = median(async |n| {
        let query = Query { range: start(n), ..Query::all(whole.clone()) };
        full(page(&reader, &query).await?.items.len())
    })
    .await?;
    println!("{:<56} {ordered:>8.2}", format!("ordered, anywhere in {SHARDS} shards"));
    bounds.at_most("ordered page to one unsharded Query", ordered / plain, 1.3);

    println!("The same {PAGE} items of {SHARDS} shards, which are all that there are:");
    let mut of_small = Vec::new();
    for strategy in Strategy::ALL {
        let time = median(async |_| {
            let query = Query { strategy, ..Query::all(small.clone()) };
            let mut items = Vec::new();
            let mut next = Some(query);
            while let Some(query) = next.take() {
                let page = page(&reader, &query).await?;
                items.extend(page.items);
                next = page.cursor.map(|cursor| Query { cursor: Some(cursor), ..query });
            }
            full(items.len())
        })
        .await?;
        println!("{:<56} {time:>8.2}", format!("  {strategy}"));
        of_small.push((strategy, time));
    }
    let of = |wanted| {
        let found = of_small.iter().find(|(strategy, _)| *strategy == wanted);
        found.map_or(f64::NAN, |(_, time)| *time)
    };
    let speedup = of(Strategy::Sequential) / of(Strategy::Ordered);
    bounds.at_least("sequential to ordered, for the same items", speedup, 10.0);
    Ok(())
}

/// The first page of all of a shard.
fn first_of_shard(partition: PhysicalPartitionKey, limit: u32) -> ShardQuery {
    ShardQuery {
        partition,
        range: SortRange::All,
        ascending: true,
        after: None,
        limit,
        fields: None,
        consistency: Consistency::Eventual,
        replica: None,
    }
}

fn full(items: usize) -> Result<(), Failure> {
    if items == PAGE as usize { Ok(()) } else { Err(format!("a page of {items}").into()) }
}

/// The second part.
async fn walks(
    collections: &Collections,
    whole: &PartitionKey,
    items: usize,
    bounds: &mut Bounds,
) -> Result<(), Failure> {
    let reader = collections.slow_reader();
    println!("\nA walk over {items} flights in {SHARDS} shards, {PAGE} a page");
    println!("{:<40} {:>8} {:>12} {:>12}", "", "pages", "items read", "a returned");
    for strategy in Strategy::ALL {
        let (mut pages, mut read, mut returned) = (0_u32, 0, 0);
        let mut next = Some(Query { strategy, ..Query::all(whole.clone()) });
        while let Some(query) = next.take() {
            let page = page(&reader, &query).await?;
            pages += 1;
            read += page.items_read;
            returned += page.items.len();
            next = page.cursor.map(|cursor| Query { cursor: Some(cursor), ..query });
        }
        if returned != items {
            return Err(format!("{strategy} returned {returned} of {items} flights").into());
        }
        let amplification = ratio(read, returned);
        println!("{:<40} {pages:>8} {read:>12} {amplification:>12.2}", strategy.to_string());
        if strategy == Strategy::Ordered {
            bounds.at_most("items read per item returned, ordered", amplification, 2.0);
        }
    }
    let (read, returned) = high_watermark_page(collections, whole).await?;
    let first = ratio(read, returned);
    println!("{:<40} {:>8} {read:>12} {first:>12.2}", "high-watermark reads, first page", 1);
    Ok(())
}

/// The flights of a collection that was just made.
const MADE: usize = 8_000;

/// The rest of the second part: nothing has to move, and what a page reads is little more than at rest.
async fn just_made(
    collections: &Collections,
    flights: &[(SortKey, Attributes)],
    bounds: &mut Bounds,
) -> Result<(), Failure> {
    let reader = collections.slow_reader();
    println!("\nA walk over {MADE} flights of a collection that was made with {SHARDS} shards");
    println!("{:<40} {:>12} {:>12}", "", "a returned", "RCU an item");
    let moves = Phase::Move { from: ShardCount::ONE, to: ShardCount::new(SHARDS)? };
    let mut units = Vec::new();
    for (name, phase) in [("stable", Phase::Stable), ("move", moves)] {
        let made = collections.fill_in(&format!("made-{name}"), (SHARDS, phase), flights).await?;
        let (mut read, mut rcu, mut returned) = (0, 0.0, 0);
        let mut next = Some(Query { limit: PAGE, ..Query::all(made) });
        while let Some(query) = next.take() {
            let page = page(&reader, &query).await?;
            read += page.items_read;
            rcu += page.consumed_rcu;
            returned += page.items.len();
            next = page.cursor.map(|cursor| Query { cursor: Some(cursor), ..query });
        }
        let each = rcu / f64::from(u32::try_from(returned)?);
        println!("{name:<40} {:>12.2} {each:>12.3}", ratio(read, returned));
        bounds.at_most(
            &format!("items read per item returned, {name}"),
            ratio(read, returned),
            2.0,
        );
        units.push(each);
    }
    bounds.at_most("read units in move, as in stable", units[1] / units[0], 2.0);
    Ok(())
}

/// The first page by the article's high-watermark reads: every shard is asked for a whole page, since
/// each might hold all of it, and the rest is thrown away.
async fn high_watermark_page(
    collections: &Collections,
    partition: &PartitionKey,
) -> Result<(u64, usize), Failure> {
    let slow = Slow(collections.tables.items.clone());
    let slow = &slow;
    let shards = Placement::Xxh64.shards(ShardCount::new(SHARDS)?);
    let separator = collections.settings.schema.separator;
    let queries =
        shards.map(|shard| first_of_shard(partition.at(shard, Placement::Xxh64, separator), PAGE));
    let requests = queries.map(|query| async move { slow.query(&query).await });
    let pages = join_all(requests.collect::<Vec<_>>()).await.into_iter();
    let pages = pages.collect::<Result<Vec<_>, _>>();
    let pages = pages.map_err(|error| format!("a shard failed: {error:?}"))?;
    let read = pages.iter().map(|page| page.items_read).sum();
    let mut items = pages.into_iter().flat_map(|page| page.items).collect::<Vec<_>>();
    items.sort_by(|(one, _), (other, _)| one.cmp(other));
    items.truncate(PAGE as usize);
    Ok((read, items.len()))
}

/// The third part: a walk over everything, by pages and by collecting and sorting.
struct Merged {
    /// For each page size: what the reader took for an item beside the store, and how often it read
    /// an item.
    by_page: Vec<(u32, Duration, u64)>,
    sorted: Duration,
    /// Bytes by which the process grew.
    merge_bytes: u64,
    sort_bytes: u64,
}

fn merging() -> Result<Merged, Failure> {
    let clock = ManualClock::new();
    let settings = Settings::default();
    let memory = MemoryStore::new(clock.clone(), settings.schema.clone());
    let partition = PartitionKey::new("many")?;
    let count = ShardCount::new(MANY_SHARDS)?;
    memory.place_metadata(CollectionMetadata::stable(
        partition.clone(),
        Placement::Xxh64,
        count,
        1_000,
    ));
    let mut shards = InOrder::default();
    for n in 0..MANY_ITEMS {
        // As long as a flight's.
        let sort = SortKey::string(format!("2013-01-01T{n:09}Z#UA1545"))?;
        let key = ItemKey::new(partition.clone(), sort);
        let home = Placement::Xxh64.home(&key, count).ok_or("no home")?;
        let payload = AttributeValue::String("x".repeat(100));
        let item = StoredItem {
            attributes: Attributes::from([("payload".to_owned(), payload)]),
            version: Version::new(u64::from(n)),
            generation: Generation::new(1),
            forwarded: false,
        };
        let PhysicalKey { partition, sort } =
            key.at(home, Placement::Xxh64, settings.schema.separator);
        shards.0.entry(partition).or_default().push((sort, item));
    }
    let timed = Timed { store: Arc::new(shards), nanos: Arc::default() };
    let directory = Directory::new(
        World::new(OnlyQueries(timed.clone()), memory, clock.clone(), SeededEntropy::new(1)),
        settings.clone(),
    );
    let reader = Reader::new(directory);

    let mut by_page = Vec::new();
    reset_peak()?;
    let before = resident("VmRSS")?;
    for limit in [1_000, 100] {
        timed.nanos.store(0, Ordering::Relaxed);
        let started = Instant::now();
        let (mut returned, mut read) = (0, 0);
        let mut next = Some(Query { limit, ..Query::all(partition.clone()) });
        while let Some(query) = next.take() {
            let deadline = Deadline::after(reader.directory().now(), Duration::from_mins(1));
            let page = block_on(reader.query(&query, PageBudget::UNLIMITED, deadline))?;
            returned += page.items.len();
            read += page.items_read;
            next = page.cursor.map(|cursor| Query { cursor: Some(cursor), ..query });
        }
        if returned != MANY_ITEMS as usize {
            return Err(format!("{returned} of {MANY_ITEMS} items came back").into());
        }
        by_page.push((limit, started.elapsed().saturating_sub(timed.time()), read));
    }
    let merge_bytes = resident("VmHWM")?.saturating_sub(before);

    reset_peak()?;
    let before = resident("VmRSS")?;
    timed.nanos.store(0, Ordering::Relaxed);
    let started = Instant::now();
    let mut all = Vec::new();
    for shard in Placement::Xxh64.shards(count) {
        let mut query =
            first_of_shard(partition.at(shard, Placement::Xxh64, settings.schema.separator), 1_000);
        loop {
            let page = block_on(timed.query(&query)).map_err(|error| format!("{error:?}"))?;
            all.extend(page.items);
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
    }
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    let sorted = started.elapsed().saturating_sub(timed.time());
    let sort_bytes = resident("VmHWM")?.saturating_sub(before);
    if !all.is_sorted_by(|(one, _), (other, _)| one < other) || all.len() != MANY_ITEMS as usize {
        return Err("the items are not sorted".into());
    }
    Ok(Merged { by_page, sorted, merge_bytes, sort_bytes })
}

impl Merged {
    fn report(&self, bounds: &mut Bounds) {
        let per_item = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(MANY_ITEMS);
        let mib = |bytes: u64| bytes / (1 << 20);
        println!(
            "\n{MANY_ITEMS} items in {MANY_SHARDS} shards from memory, without the time of the store"
        );
        println!("{:<40} {:>12} {:>12} {:>12}", "", "ns an item", "items read", "MiB more");
        for (limit, time, read) in &self.by_page {
            let what = format!("ordered, {limit} a page: merge and cursor");
            let mib = mib(self.merge_bytes);
            println!("{what:<40} {:>12.0} {read:>12} {mib:>12}", per_item(*time));
            let what = format!("merge and cursor to collect and sort, {limit} a page");
            bounds.at_most(&what, per_item(*time) / per_item(self.sorted), 0.6);
        }
        let what = "collect and sort";
        let (time, mib) = (per_item(self.sorted), mib(self.sort_bytes));
        println!("{what:<40} {time:>12.0} {MANY_ITEMS:>12} {mib:>12}");
    }
}

/// A line of `/proc/self/status`, in bytes.
fn resident(name: &str) -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with(name)).ok_or("no such line")?;
    let kilobytes = line.split_whitespace().nth(1).ok_or("no number")?.parse::<u64>()?;
    Ok(kilobytes * 1_024)
}

/// Lets `VmHWM` begin anew from what is resident now.
fn reset_peak() -> Result<(), Failure> {
    Ok(std::fs::write("/proc/self/clear_refs", "5")?)
}

fn ratio(read: u64, returned: usize) -> f64 {
    let integral = |n: u64| u32::try_from(n).map_or(f64::INFINITY, f64::from);
    integral(read) / integral(u64::try_from(returned).unwrap_or(u64::MAX))
}

/// A store each request of which takes [`LATENCY`] longer.
struct Slow<S>(S);

/// Shards in memory, each in ascending order.
#[derive(Default)]
struct InOrder(HashMap<PhysicalPartitionKey, Vec<(SortKey, StoredItem)>>);

/// A store that adds up the time that its queries take.
#[derive(Clone)]
struct Timed {
    store: Arc<InOrder>,
    nanos: Arc<AtomicU64>,
}

impl Timed {
    fn time(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}

/// What answers queries.
#[async_trait]
trait Queries: Send + Sync {
    async fn query(&self, query: &ShardQuery) -> Result<ShardPage, StoreError>;
}

/// A store of which nothing but queries is wanted.
struct OnlyQueries<Q>(Q);

#[async_trait]
impl<Q: Queries> ItemStore for OnlyQueries<Q> {
    async fn get(
        &self,
        _: &PhysicalKey,
        _: Option<&Fields>,
        _: Consistency,
    ) -> Result<Metered<Option<StoredItem>>, StoreError> {
        Err(not_wanted())
    }

    async fn write(&self, _: &Write) -> Result<f64, StoreError> {
        Err(not_wanted())
    }

    async fn get_both(
        &self,
        _: [&PhysicalKey; 2],
        _: Option<&Fields>,
    ) -> Result<Metered<[Option<StoredItem>; 2]>, StoreError> {
        Err(not_wanted())
    }

    async fn transfer(&self, _: &Transfer) -> Result<Transferred, StoreError> {
        Err(not_wanted())
    }

    async fn adjust(&self, _: &[Adjustment], _: Lease) -> Result<Adjusted, StoreError> {
        Err(not_wanted())
    }

    async fn batch_get(
        &self,
        _: &[PhysicalKey],
        _: Option<&Fields>,
        _: Consistency,
    ) -> Result<BatchPage, StoreError> {
        Err(not_wanted())
    }

    async fn query(&self, query: &ShardQuery) -> Result<ShardPage, StoreError> {
        self.0.query(query).await
    }

    async fn owner(&self) -> Result<Option<Owner>, StoreError> {
        Ok(None)
    }

    async fn claim(&self, _: &Owner) -> Result<(), StoreError> {
        Err(not_wanted())
    }

    async fn takes_date(&self, _: u64) -> Result<bool, StoreError> {
        Err(not_wanted())
    }

    async fn locally_indexed_bytes(&self) -> Result<Option<u64>, StoreError> {
        Err(not_wanted())
    }
}

fn not_wanted() -> StoreError {
    StoreError::Rejected("the benchmark only queries".to_owned())
}

#[async_trait]
impl<S: ItemStore> Queries for Slow<S> {
    async fn query(&self, query: &ShardQuery) -> Result<ShardPage, StoreError> {
        tokio::time::sleep(LATENCY).await;
        self.0.query(query).await
    }
}

#[async_trait]
impl Queries for InOrder {
    /// An ascending query of everything, as the third part sends them.
    async fn query(&self, query: &ShardQuery) -> Result<ShardPage, StoreError> {
        let shard = self.0.get(&query.partition).map_or(&[][..], Vec::as_slice);
        let begin = query
            .after
            .as_ref()
            .map_or(0, |after| shard.partition_point(|(sort, _)| sort <= after));
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let end = shard.len().min(begin.saturating_add(limit));
        let items = shard[begin..end].to_vec();
        Ok(ShardPage {
            next: items.last().filter(|_| end < shard.len()).map(|(sort, _)| sort.clone()),
            items_read: u64::try_from(items.len()).unwrap_or(u64::MAX),
            items,
            consumed_rcu: 0.0,
        })
    }
}

#[async_trait]
impl Queries for Timed {
    async fn query(&self, query: &ShardQuery) -> Result<ShardPage, StoreError> {
        let started = Instant::now();
        let page = self.store.query(query).await;
        let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        page
    }
}
