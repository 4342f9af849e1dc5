//! What the directory costs with many sharded keys, in virtual time: `cargo bench -p dynashard-core --bench directory`.
//!
//! A thousand environments touch keys by Zipf's law for a minute. Then a thousand cold keys get their first shards within ten
//! seconds, while the environments go on. The directory runs unchanged. Each request takes 10 ms, and no item of the metadata
//! table takes more than a partition does: 3,000 read units and 1,000 write units a second.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use dynashard_core::ports::{
    self, Change, Clock, Dated, Entropy, List, ListPage, Listed, Record, RecordKey, RecordStore,
    StoreError,
};
use dynashard_core::{
    Addition, CollectionMetadata, Deadline, Directory, Group, KeyHash, Ledger, LedgerKind, Moment,
    Phase, Pinned, Rebalancer, Scaler, Segment, Settings, Throttle,
};
use dynashard_keys::{PartitionKey, Placement, ShardCount};
use dynashard_testkit::{ManualClock, MemoryStore, SeededEntropy};
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};

const ROUND_TRIP: Duration = Duration::from_millis(10);
const ENVIRONMENTS: usize = 1_000;
/// How many batches of the stream are under way at once, of how many records, as the template has it for what begins.
const LANES: usize = 10;
const BATCH: usize = 100;
/// How often a stream is asked for records, at least.
const POLL: Duration = Duration::from_millis(250);
const GROWTHS: usize = 1_000;
/// How often an environment touches a key.
const EVERY: Duration = Duration::from_millis(100);
const AT_REST: Duration = Duration::from_mins(1);
const STORM: Duration = Duration::from_secs(10);
/// Until everything that the storm began is in force, or never will be.
const AFTER: Duration = Duration::from_mins(1);
/// When a growth is to be in force at the latest, in seconds, and by how many tries.
const IN_FORCE_AFTER: f64 = 10.0;
const MOST_TRIES: u32 = 2;
/// What the partition of an item takes of read units and of write units in a second.
const MOST: [f64; 2] = [3_000.0, 1_000.0];

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "| directory | sharded keys | root reads of an environment in T/2 | segment reads /s | metadata reads /s | of these not the first | \
         busiest item at rest, RCU/s | in the storm, RCU/s, WCU/s | in force | after, median and last | tries, at most |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let mut holds = true;
    for (has_segments, keys) in [(false, 3_500), (true, 3_500), (true, 1_000_000)] {
        // One item that lists all is what it was before.
        holds &= measure(has_segments, keys)? || !has_segments;
    }
    if holds {
        Ok(())
    } else {
        Err("a growth was late, an item was busier than it may be, or metadata was read again"
            .into())
    }
}

/// Whether all of the storm was in force within its time by few tries, no item was asked for more than half of what it takes,
/// and nobody has read metadata twice at rest.
fn measure(has_segments: bool, keys: usize) -> Result<bool, Box<dyn Error>> {
    let settings = Settings::default();
    let time = Time::default();
    let memory = MemoryStore::new(time.clock.clone(), settings.schema.clone());
    if has_segments {
        memory.pin(Pinned::of(&settings));
    }
    place(&memory, has_segments, keys);
    let table = Table::of(&memory, &time);
    let seeds = SeededEntropy::new(1);
    let directory = || {
        let entropy = SeededEntropy::new(seeds.next_u64());
        let world = ports::World::new(memory.clone(), table.of_another(), time.clone(), entropy);
        Directory::new(world, settings.clone())
    };
    let environments = (0..ENVIRONMENTS).map(|_| Scaler::new(directory())).collect::<Vec<_>>();
    let rebalancers = (0..LANES).map(|_| Rebalancer::new(directory())).collect::<Vec<_>>();
    let lanes = (0..LANES).map(|_| Mutex::new(Vec::new())).collect::<Vec<_>>();
    let begin = time.now().boot;
    let ends = begin + AT_REST + STORM + AFTER;

    let mut tasks = FuturesUnordered::<Pin<Box<dyn Future<Output = ()> + '_>>>::new();
    for (number, environment) in environments.iter().enumerate() {
        let cold = key("cold", number);
        let chance = SeededEntropy::new(seeds.next_u64());
        tasks.push(Box::pin(touch(&time, environment.directory(), cold, keys, chance, ends)));
    }
    let storm = begin + AT_REST;
    for number in 0..GROWTHS {
        let (time, table, scaler) = (&time, &table, &environments[number % ENVIRONMENTS]);
        let lane = &lanes[number % LANES];
        let wait = AT_REST + STORM.mul_f64(unit(&seeds));
        tasks.push(Box::pin(async move {
            time.sleep(wait).await;
            let partition = key("grows", number);
            grow(time, table, scaler, &partition, ends).await;
            lock(lane).push(partition);
        }));
    }
    for (lane, rebalancer) in lanes.iter().zip(&rebalancers) {
        tasks.push(Box::pin(relieve(&time, &table, lane, rebalancer, ends)));
    }
    time.run(&mut tasks);

    let seen = table.seen();
    // The first leases are taken at once, and segments are read for the first time.
    let (warm, rest) = ((begin + AT_REST / 2).as_secs(), storm.as_secs());
    let at_rest = |second: &u64| (warm..rest).contains(second);
    let secs = f64::from(u32::try_from(rest - warm)?);
    let reads = |kind: &str| {
        let of_kind = seen.reads.iter().filter(|((of, second), _)| *of == kind && at_rest(second));
        f64::from(of_kind.map(|(_, reads)| *reads).sum::<u32>())
    };
    let half_lease = settings.lease_term.as_secs_f64() / 2.0;
    let busiest = |units: usize, during: &dyn Fn(&u64) -> bool| {
        let of = seen.units.iter().filter(|((_, second), _)| during(second));
        of.map(|(_, of)| of[units]).fold(0.0, f64::max)
    };
    let in_storm = |second: &u64| *second >= rest;
    let after = seen.in_force.iter().map(|(of, at)| at.saturating_sub(seen.asked[of]));
    let mut after = after.map(|after| after.as_secs_f64()).collect::<Vec<_>>();
    after.sort_by(f64::total_cmp);
    let tries = seen.tries.values().max().copied().unwrap_or(0);
    let median = after.get(after.len() / 2).copied().unwrap_or(f64::NAN);
    let last = after.last().copied().unwrap_or(f64::NAN);
    println!(
        "| {} | {keys} | {:.2} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0}, {:.0} | {} of {GROWTHS} | {median:.1} s, {last:.1} s | {} |",
        if has_segments { "segments" } else { "one item" },
        reads("root") / f64::from(u32::try_from(ENVIRONMENTS)?) / secs * half_lease,
        reads("segment") / secs,
        reads("metadata") / secs,
        reads("metadata again") / secs,
        busiest(0, &at_rest),
        busiest(0, &in_storm),
        busiest(1, &in_storm),
        after.len(),
        tries,
    );
    let busy = [busiest(0, &in_storm), busiest(1, &in_storm)];
    let is_easy = busy.iter().zip(MOST).all(|(taken, most)| *taken <= most / 2.0);
    let is_quiet = reads("metadata again") < 1.0;
    Ok(is_quiet
        && is_easy
        && after.len() == GROWTHS
        && last <= IN_FORCE_AFTER
        && tries <= MOST_TRIES)
}

/// Asks for the first shards of a key until they are begun.
async fn grow(
    time: &Time,
    table: &Table,
    scaler: &Scaler,
    partition: &PartitionKey,
    ends: Duration,
) {
    table.seen().asked.insert(partition.clone(), time.now().boot);
    let count = ShardCount::new(4).unwrap_or(ShardCount::ONE);
    while time.now().boot < ends {
        let deadline = Deadline::after(time.now(), Duration::from_secs(10));
        match scaler.request_count(partition, count, deadline).await {
            Ok(_) => break,
            Err(_) => time.sleep(Duration::from_secs(1)).await,
        }
    }
}

/// Brings into force what the records of a lane say, batch by batch.
async fn relieve(
    time: &Time,
    table: &Table,
    lane: &Mutex<Vec<PartitionKey>>,
    rebalancer: &Rebalancer,
    ends: Duration,
) {
    while time.now().boot < ends {
        time.sleep(POLL).await;
        let batch = {
            let mut records = lock(lane);
            let most = records.len().min(BATCH);
            records.drain(..most).collect::<Vec<_>>()
        };
        let deadline = Deadline::after(time.now(), Duration::from_secs(20));
        join_all(batch.iter().map(|partition| rebalancer.relieve(partition, deadline))).await;
        // A record that failed comes again.
        let is_late = |of: &PartitionKey| !table.seen().in_force.contains_key(of);
        lock(lane).extend(batch.into_iter().filter(is_late));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the directory list these keys, segment by segment: a raised count copies the root.
fn place(memory: &MemoryStore, has_segments: bool, keys: usize) {
    let mut segments = BTreeMap::<_, Vec<_>>::new();
    for number in 0..keys {
        let partition = key("sharded", number);
        let hash = KeyHash::of(&partition);
        segments.entry(hash.segment()).or_default().push(hash);
        let metadata = CollectionMetadata::stable(partition, Placement::Xxh64, ShardCount::ONE, 1);
        if has_segments {
            memory.place_unlisted_metadata(metadata);
        } else {
            memory.place_metadata(metadata);
        }
    }
    for (of, hashes) in segments.into_iter().filter(|_| has_segments) {
        memory.place_listed(of, &Segment::of(hashes));
    }
}

/// Touches one key after the other, of which one in five was never sharded.
async fn touch(
    time: &Time,
    directory: &Directory,
    cold: PartitionKey,
    keys: usize,
    chance: SeededEntropy,
    ends: Duration,
) {
    time.sleep(EVERY.mul_f64(unit(&chance))).await;
    while time.now().boot < ends {
        let is_cold = unit(&chance) < 0.2;
        let of = if is_cold { cold.clone() } else { key("sharded", zipf(unit(&chance), keys)) };
        let deadline = Deadline::after(time.now(), Duration::from_secs(5));
        // What is throttled is tried again with the next key.
        drop(directory.find(&of, deadline).await);
        directory.lease().renew_early(deadline).await;
        time.sleep(EVERY).await;
    }
}

fn key(kind: &str, number: usize) -> PartitionKey {
    PartitionKey::new(format!("{kind}#{number}")).expect("a short key")
}

/// Between 0 and 1.
fn unit(chance: &SeededEntropy) -> f64 {
    f64::from(u32::try_from(chance.next_u64() >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

/// A rank of `n`, of which the first is the most frequent: Zipf's law with the exponent 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a rank below n"
)]
fn zipf(unit: f64, n: usize) -> usize {
    ((n as f64).powf(unit) as usize - 1).min(n - 1)
}

/// Time that passes when everybody waits for it.
#[derive(Clone, Default)]
struct Time {
    clock: ManualClock,
    timers: Arc<Mutex<Timers>>,
}

#[derive(Default)]
struct Timers {
    begun: u64,
    due: BinaryHeap<Reverse<(Duration, u64)>>,
    wakers: HashMap<u64, Waker>,
}

impl Time {
    fn timers(&self) -> MutexGuard<'_, Timers> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs all tasks to their end.
    fn run(&self, tasks: &mut FuturesUnordered<Pin<Box<dyn Future<Output = ()> + '_>>>) {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            while let Poll::Ready(ended) = tasks.poll_next_unpin(&mut context) {
                if ended.is_none() {
                    return;
                }
            }
            let mut timers = self.timers();
            let Some(Reverse((due, number))) = timers.due.pop() else { return };
            self.clock.advance(due.saturating_sub(self.clock.now().boot));
            // One that was given up has no waker any more that anybody listens to.
            if let Some(waker) = timers.wakers.remove(&number) {
                drop(timers);
                waker.wake();
            }
        }
    }
}

#[async_trait]
impl Clock for Time {
    fn now(&self) -> Moment {
        self.clock.now()
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.clock.now().boot + duration;
        let number = {
            let mut timers = self.timers();
            timers.begun += 1;
            let number = timers.begun;
            timers.due.push(Reverse((until, number)));
            number
        };
        poll_fn(|context| {
            if self.clock.now().boot >= until {
                return Poll::Ready(());
            }
            self.timers().wakers.insert(number, context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// The metadata table, of which no item takes more than a partition does.
#[derive(Clone)]
struct Table {
    memory: MemoryStore,
    time: Time,
    /// Which one reads it.
    environment: usize,
    seen: Arc<Mutex<Seen>>,
}

/// What came to it, by seconds.
#[derive(Default)]
struct Seen {
    environments: usize,
    /// What each environment has read.
    read: HashSet<(usize, RecordKey)>,
    reads: BTreeMap<(&'static str, u64), u32>,
    /// Read units and write units.
    units: HashMap<(RecordKey, u64), [f64; 2]>,
    asked: HashMap<PartitionKey, Duration>,
    tries: HashMap<PartitionKey, u32>,
    in_force: HashMap<PartitionKey, Duration>,
}

impl Table {
    fn of(memory: &MemoryStore, time: &Time) -> Self {
        Self { memory: memory.clone(), time: time.clone(), environment: 0, seen: Arc::default() }
    }

    /// This table, as another environment sees it.
    fn of_another(&self) -> Self {
        self.seen().environments += 1;
        let environment = self.seen().environments;
        Self { environment, ..self.clone() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes units of an item, unless its partition has given all that it takes in this second.
    fn take(&self, key: &RecordKey, kind: usize, units: f64) -> Result<(), StoreError> {
        let second = self.time.now().boot.as_secs();
        let mut seen = self.seen();
        let taken = &mut seen.units.entry((key.clone(), second)).or_default()[kind];
        if *taken + units > MOST[kind] {
            return Err(StoreError::Throttled(Throttle::unknown()));
        }
        *taken += units;
        Ok(())
    }

    /// About how many bytes an item has.
    fn bytes(&self, key: &RecordKey) -> f64 {
        let bytes = match key {
            RecordKey::Directory => {
                let root = self.memory.stored_directory();
                let counters = root.groups().map_or(0, |groups| 6 * groups.len());
                500 + 8 * root.hashes().len() + counters
            }
            RecordKey::Segment(of) => 40 + 17 * self.memory.stored_segment(*of).hashes().len(),
            _ => 400,
        };
        f64::from(u32::try_from(bytes).unwrap_or(u32::MAX))
    }
}

#[async_trait]
impl RecordStore for Table {
    fn table(&self) -> &'static str {
        "metadata"
    }

    async fn read(&self, key: &RecordKey) -> Result<Dated<Option<Record>>, StoreError> {
        self.time.sleep(ROUND_TRIP / 2).await;
        let kind = match key {
            RecordKey::Directory => "root",
            RecordKey::Segment(_) => "segment",
            RecordKey::Collection(_) => "metadata",
            _ => "other",
        };
        let second = self.time.now().boot.as_secs();
        *self.seen().reads.entry((kind, second)).or_default() += 1;
        let is_first = self.seen().read.insert((self.environment, key.clone()));
        if kind == "metadata" && !is_first {
            *self.seen().reads.entry(("metadata again", second)).or_default() += 1;
        }
        let read = match self.take(key, 0, (self.bytes(key) / 4_096.0).ceil()) {
            Ok(()) => self.memory.read(key).await,
            Err(throttled) => Err(throttled),
        };
        self.time.sleep(ROUND_TRIP / 2).await;
        read
    }

    async fn commit(&self, changes: &[Change]) -> Result<Dated<()>, StoreError> {
        self.time.sleep(ROUND_TRIP / 2).await;
        let transaction = if changes.len() > 1 { 2.0 } else { 1.0 };
        let mut taken = Ok(());
        for Change { key, next, .. } in changes {
            let units = transaction * (self.bytes(key) / 1_024.0).ceil();
            taken = taken.and_then(|()| self.take(key, 1, units));
            if let (RecordKey::Collection(of), Some(Record::Collection(metadata))) = (key, next) {
                if changes.len() > 2 {
                    *self.seen().tries.entry(of.clone()).or_default() += 1;
                }
                if taken.is_ok() && matches!(metadata.phase, Phase::Move { .. }) {
                    let now = self.time.now().boot;
                    self.seen().in_force.insert(of.clone(), now);
                }
            }
        }
        let committed = match taken {
            Ok(()) => self.memory.commit(changes).await,
            Err(throttled) => Err(throttled),
        };
        self.time.sleep(ROUND_TRIP / 2).await;
        committed
    }

    async fn raise(&self, groups: &[Group]) -> Result<Dated<()>, StoreError> {
        self.time.sleep(ROUND_TRIP / 2).await;
        let key = RecordKey::Directory;
        let raised = match self.take(&key, 1, (self.bytes(&key) / 1_024.0).ceil()) {
            Ok(()) => self.memory.raise(groups).await,
            Err(throttled) => Err(throttled),
        };
        self.time.sleep(ROUND_TRIP / 2).await;
        raised
    }

    async fn add(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
        addition: &Addition,
    ) -> Result<Dated<Ledger>, StoreError> {
        self.time.sleep(ROUND_TRIP).await;
        self.memory.add(partition, kind, addition).await
    }

    async fn list(&self, list: List, after: Option<&str>) -> Result<ListPage<Listed>, StoreError> {
        self.time.sleep(ROUND_TRIP).await;
        self.memory.list(list, after).await
    }
}
