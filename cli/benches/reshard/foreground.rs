//! What those notice who put and get items while items move.
//!
//! The load is open: an operation is due every few milliseconds, whatever has become of those
//! before, and its latency counts from the moment at which it was due. So a stall shows in every
//! operation that was due meanwhile, and not only in the one that was under way. Windows in which
//! nothing moves alternate with windows in which items do, under one load that never stops; so what
//! else the machine is doing meets both.
//!
//! What else the machine does is not the same in two windows, and a hundredth of the operations is
//! few. So a move is compared to what was at rest before and after it, and the figure that counts is
//! the median over several reshards.
//!
//! A window of the second kind is the first scan of a `move`: the mover has items to move all the
//! time. Four kinds of traffic are measured, since the protocol asks different things of them
//! (protocol: "Costs"):
//!
//! - **arriving**: new items and gets of those that came lately, while the collection grows. That is
//!   what makes a key hot and has it grow.
//! - **overwriting**: puts and gets of all items alike, while the collection grows and shrinks. Three
//!   of four operations meet an item that moves, and in the beginning few of those have moved: a get
//!   of one that has not is two requests one after the other, and the mover finds what puts have gone
//!   past.
//! - **creating** is arriving with `If-None-Match: *`: each create looks for the item at its old home first.
//! - **updating** is overwriting with PATCH: whoever changes an item that has not moved moves it first.
//!   The mover leaves those to the clients, so this is what moving by demand takes.
//!
//! A bound is asked of the first two. What the others take longer is what they do more.
//!
//! Partitions take an eighth of what DynamoDB's take, of which clients ask the source for 50 write units a second before
//! its items move. The mover takes what they leave.
//!
//! Each has a stack of its own, so that what the first kind leaves behind weighs on nothing of the
//! second.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dynashard_local::Stack;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use http::Method;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use crate::collection::Collection;
use crate::common::{Api, Failure, MAIN_TABLE, float, median, operation};
use crate::{Required, report};

/// Short waits. `MoverWriteUnits` is the template's, so what bounds the mover is the partition of its source.
pub(crate) const SETTINGS: &[(&str, &str)] =
    &[("LeaseSecs", "2"), ("RequestLifetimeSecs", "2"), ("ScalingMode", "off")];

/// What a partition writes in a second: an eighth of DynamoDB's. At a whole one's pace the mover, which has processors
/// of its own on AWS, would take those of the clients and of DynamoDB from them here.
pub(crate) const PARTITION_WCU: u32 = 125;

const ITEMS: u32 = 1_000;

const PER_SEC: u32 = 100;

/// Gets of traffic that arrives are of so many of the latest items.
const LATELY: u32 = 200;

/// A window in which nothing moves.
const QUIET: Duration = Duration::from_secs(15);

/// How long the load is on before anything is measured, and between a change and the next window.
const SETTLE: Duration = Duration::from_secs(4);

/// The most by which a move may lengthen the latency of the slowest hundredth.
const MOST_RATIO: f64 = 1.25;

/// Which items the operations hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    Arriving,
    Overwriting,
    Creating,
    Updating,
}

impl Traffic {
    pub(crate) const ALL: [Self; 4] =
        [Self::Arriving, Self::Overwriting, Self::Creating, Self::Updating];

    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Arriving => "arriving",
            Self::Overwriting => "overwriting",
            Self::Creating => "creating",
            Self::Updating => "updating",
        }
    }

    /// For each of several collections the counts that it takes, one after the other.
    fn rounds(self) -> &'static [&'static [u32]] {
        match self {
            Self::Arriving | Self::Creating => &[&[4], &[4], &[4], &[4], &[4], &[4]],
            Self::Overwriting | Self::Updating => &[&[4, 1], &[4, 1], &[4, 1]],
        }
    }

    /// The item of the n-th operation, and what happens to it.
    fn operation(self, n: u32) -> (Kind, String) {
        let kind = if n.is_multiple_of(2) { Kind::Write } else { Kind::Get };
        let item = match (self, kind) {
            (Self::Overwriting | Self::Updating, _) => scattered(n) % ITEMS,
            (Self::Arriving | Self::Creating, Kind::Write) => ITEMS + n / 2,
            // The very latest may be on their way still.
            (Self::Arriving | Self::Creating, Kind::Get) => {
                (ITEMS + n / 2).saturating_sub(PER_SEC + scattered(n) % LATELY)
            }
        };
        (kind, Collection::sort_key(item))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Write,
    Get,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    window: usize,
    kind: Kind,
    latency: Duration,
}

/// A steady load on one collection.
#[derive(Debug)]
struct Load {
    collection: Collection,
    traffic: Traffic,
    /// The window that operations belong to which are due now; 0 is none.
    window: AtomicUsize,
    samples: Mutex<Vec<Sample>>,
    failed: AtomicU64,
    over: AtomicBool,
}

pub(crate) async fn measure(stack: &Stack, traffic: Traffic) -> Result<(), Failure> {
    println!("\nWrites and gets through the API, {PER_SEC} a second, of items of 1 KB");
    warm_up(stack).await?;
    let (mut ratios, mut failed) = (Vec::new(), 0);
    for (n, counts) in (1..).zip(traffic.rounds()) {
        println!("\n{traffic:?}, to a collection of {ITEMS} items at first");
        let collection = Collection::of(stack, &format!("{traffic:?}{n}")).await?;
        collection.load(ITEMS).await?;
        failed += reshards(stack, collection, traffic, counts, &mut ratios).await?;
    }
    println!("\n  {traffic:?}: p99 in a move to p99 at rest, median of {} reshards", ratios.len());
    let median_of = |at: usize| median(ratios.iter().map(|ratio| ratio[at]).collect());
    report("of writes", median_of(0), None);
    report("of gets", median_of(1), None);
    let is_bounded = matches!(traffic, Traffic::Arriving | Traffic::Overwriting);
    report("of both", median_of(2), is_bounded.then_some(Required::AtMost(MOST_RATIO)));
    report("operations that failed", float(failed), None);
    Ok(())
}

/// Takes a collection through these counts under load, and adds the [`Ratios`] of each. Returns how
/// many operations failed.
async fn reshards(
    stack: &Stack,
    collection: Collection,
    traffic: Traffic,
    counts: &[u32],
    ratios: &mut Vec<Ratios>,
) -> Result<u64, Failure> {
    let load = Arc::new(Load {
        collection: collection.clone(),
        traffic,
        window: AtomicUsize::new(0),
        samples: Mutex::default(),
        failed: AtomicU64::new(0),
        over: AtomicBool::new(false),
    });
    let offered = tokio::spawn(Arc::clone(&load).offer());
    let mut summaries = Vec::new();
    for (n, &to) in counts.iter().enumerate() {
        let (quiet, moving) = (2 * n + 1, 2 * n + 2);
        sleep(SETTLE).await;
        load.measure(quiet, sleep(QUIET)).await;
        collection.scale(to).await?;
        let what_moves = collection.moving().await?;
        let (before, began) = (stack.counters(), Instant::now());
        load.measure(moving, collection.moved(&what_moves)).await?;
        let (after, secs) = (stack.counters(), began.elapsed().as_secs_f64());
        let moved = operation(&after, MAIN_TABLE, MOVES).requests
            - operation(&before, MAIN_TABLE, MOVES).requests;
        let throttles = after.table_throttles(MAIN_TABLE) - before.table_throttles(MAIN_TABLE);
        summaries.push(format!(
            "To {to} shards: {:.0} transactions a second for {secs:.0} s, and {throttles} throttles",
            float(moved) / secs
        ));
        collection.tables.rests(&collection.partition).await?;
    }
    sleep(SETTLE).await;
    load.measure(2 * counts.len() + 1, sleep(QUIET)).await;
    for (n, summary) in summaries.iter().enumerate() {
        println!("\n  {summary}");
        ratios.push(load.print([2 * n + 1, 2 * n + 3], 2 * n + 2));
    }
    load.over.store(true, Ordering::Relaxed);
    offered.await?;
    Ok(load.failed.load(Ordering::Relaxed))
}

/// How items move, whoever moves them.
const MOVES: &str = "TransactWriteItems";

/// Has the stack start all environments that it may: what a start takes belongs to no window.
async fn warm_up(stack: &Stack) -> Result<(), Failure> {
    let api = Api::of(stack);
    let both = async |n: u32| {
        let (pk, sk) = (format!("warm-up{n}"), Collection::sort_key(n));
        api.put(&pk, &sk).await?;
        api.get(&pk, &sk).await
    };
    both(0).await?;
    let operations = (1..1_000).map(both).collect::<Vec<_>>();
    stream::iter(operations).buffer_unordered(64).try_collect::<()>().await
}

/// How the slowest hundredths of two windows relate: of writes, of gets, and of both.
type Ratios = [f64; 3];

impl Load {
    /// Makes what is due, when it is due.
    async fn offer(self: Arc<Self>) {
        let began = Instant::now();
        let mut under_way = JoinSet::new();
        for n in 0_u32.. {
            if self.over.load(Ordering::Relaxed) {
                break;
            }
            let due = began + Duration::from_secs(1) * n / PER_SEC;
            sleep_until(due.into()).await;
            under_way.spawn(Arc::clone(&self).operate(n, due));
            while under_way.try_join_next().is_some() {}
        }
        under_way.join_all().await;
    }

    async fn operate(self: Arc<Self>, n: u32, due: Instant) {
        let window = self.window.load(Ordering::Relaxed);
        let (kind, sk) = self.traffic.operation(n);
        let done = match kind {
            Kind::Write => self.write(&sk).await,
            Kind::Get => self.collection.api.get(self.collection.partition.as_str(), &sk).await,
        };
        let latency = due.elapsed();
        self.failed.fetch_add(u64::from(done.is_err()), Ordering::Relaxed);
        self.samples().push(Sample { window, kind, latency });
    }

    async fn write(&self, sk: &str) -> Result<(), Failure> {
        let Collection { api, partition, .. } = &self.collection;
        let (method, headers, body) = match self.traffic {
            Traffic::Arriving | Traffic::Overwriting => {
                return self.collection.put(sk).await.map(drop);
            }
            Traffic::Creating => (Method::PUT, &[("if-none-match", "*")][..], api.item()),
            Traffic::Updating => (Method::PATCH, &[][..], r#"{"seen":true}"#),
        };
        let path = format!("/item?pk={partition}&sk={sk}");
        let answer = api.ask(method, &path, headers, body).await?;
        if answer.status < 300 { Ok(()) } else { Err(answer.body.into()) }
    }

    /// Counts what is due until `until` as belonging to this window.
    async fn measure<T>(&self, window: usize, until: impl Future<Output = T>) -> T {
        self.window.store(window, Ordering::Relaxed);
        let output = until.await;
        self.window.store(0, Ordering::Relaxed);
        output
    }

    /// Prints the latencies of a move and of the windows around it, and how they relate.
    fn print(&self, quiet: [usize; 2], moving: usize) -> Ratios {
        println!("  {:<20} {:>8} {:>9} {:>9} {:>9}", "ms", "number", "p50", "p90", "p99");
        [
            ("writes", &[Kind::Write][..]),
            ("gets", &[Kind::Get]),
            ("both", &[Kind::Write, Kind::Get]),
        ]
        .map(|(name, kinds)| {
            let at_rest = self.latencies(&quiet, kinds).print(&format!("{name} at rest"));
            let in_move = self.latencies(&[moving], kinds).print(&format!("{name} in a move"));
            println!("  {:<48} {:>9.2}", "ratio", in_move / at_rest);
            in_move / at_rest
        })
    }

    fn latencies(&self, windows: &[usize], kinds: &[Kind]) -> Latencies {
        let samples = self.samples();
        let chosen = samples
            .iter()
            .filter(|sample| windows.contains(&sample.window) && kinds.contains(&sample.kind));
        let mut latencies = chosen.map(|sample| sample.latency).collect::<Vec<_>>();
        latencies.sort_unstable();
        Latencies(latencies)
    }

    fn samples(&self) -> std::sync::MutexGuard<'_, Vec<Sample>> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Latencies in order.
#[derive(Debug)]
struct Latencies(Vec<Duration>);

impl Latencies {
    /// Prints a line, and returns the slowest hundredth in milliseconds.
    fn print(&self, what: &str) -> f64 {
        let [p50, p90, p99] = [50, 90, 99].map(|percent| self.percentile(percent));
        println!("  {what:<20} {:>8} {p50:>9.2} {p90:>9.2} {p99:>9.2}", self.0.len());
        p99
    }

    /// The latency in milliseconds that so many hundredths do not pass.
    fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
        self.0.get(rank).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1_000.0)
    }
}

/// Numbers without a pattern, the same in every run (`SplitMix`).
fn scattered(n: u32) -> u32 {
    let mut z = u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    u32::try_from(z >> 33).unwrap_or(u32::MAX)
}
