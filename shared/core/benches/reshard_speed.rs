//! How long a reshard takes in virtual time, over partitions that throttle, while clients write and
//! environments are killed: `cargo bench -p dynashard-core --bench reshard_speed`.
//!
//! The rebalancer runs unchanged. Each request takes 10 ms, each partition takes 1,000 write units a second
//! and nothing above that. Clients write evenly, and count as throttled where the mover leaves them too
//! little. Lambda is what stands in `Lane`: a call for each record, another where an environment was killed,
//! a sweep once a minute.

use std::collections::HashMap;
use std::error::Error;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dynashard_core::ports::{
    self, Adjusted, BatchPage, Clock, Consistency, Entropy, ItemStore, Metered, ShardPage,
    ShardQuery, StoreError, Transfer, Transferred, Write,
};
use dynashard_core::{
    Adjustment, Advance, Attributes, CollectionMetadata, Deadline, Directory, Fields, Generation,
    LaneKey, Lease, Owner, Phase, Rebalancer, Scaler, Settings, StoredItem, Throttle, Version,
};
use dynashard_keys::{
    ItemKey, PartitionKey, PhysicalKey, PhysicalPartitionKey, Placement, ShardCount, ShardId,
    SortKey,
};
use dynashard_testkit::{Faulty, ManualClock, MemoryStore, SeededEntropy, block_on};
use futures_util::future::{Either, join_all, select};

/// A request and its answer.
const ROUND_TRIP: Duration = Duration::from_millis(10);

/// What a partition takes, in write units a second.
const PARTITION_WCU: f64 = 1_000.0;

/// What a mover takes of a partition at most.
const MOST_SHARE: f64 = 0.8;

/// What an invocation of `RebalanceFunction` has.
const INVOCATION: Duration = Duration::from_secs(59);

/// How long an environment lives on average before it is killed.
const MEAN_LIFE: Duration = Duration::from_mins(2);

/// One move to be measured.
struct Case {
    items: u32,
    from: u32,
    to: u32,
    /// What clients write to each source, and to each other shard of the new count.
    clients_wcu: [f64; 2],
    /// What is required of it, if anything is.
    at_most: Option<Duration>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let scale =
        std::env::var("DYNASHARD_BENCH_SCALE").map_or(Ok(1), |scale| scale.parse::<u32>())?;
    let half = PARTITION_WCU / 2.0;
    println!(
        "| items | from | to | clients at a source | at a new shard | kills | environments | first scan | closed | clients throttled | at best | required |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let mut holds = true;
    for (items, from, to, minutes) in [(1_000_000, 1, 4, 40), (10_000_000, 4, 16, 90)] {
        let items = items / scale;
        let required = Some(Duration::from_mins(minutes));
        // Where clients write to the sources as well, the partitions themselves allow no more.
        for (at_source, at_most) in [(0.0, required), (half / 2.0, None), (half, None)] {
            holds &= measure(&Case { items, from, to, clients_wcu: [at_source, half], at_most })?;
        }
    }
    if holds { Ok(()) } else { Err("a move took longer than its bound".into()) }
}

fn measure(case: &Case) -> Result<bool, Box<dyn Error>> {
    let Case { items, from, to, clients_wcu, at_most } = *case;
    let settings = Settings::default();
    let clock = ManualClock::new();
    let memory = MemoryStore::new(clock.clone(), settings.schema.clone());
    let partition = PartitionKey::new("EWR")?;
    let (placement, now_secs) = (Placement::Xxh64, clock.now().epoch_secs());
    let (from, to) = (ShardCount::new(from)?, ShardCount::new(to)?);
    let laid_out = CollectionMetadata::stable(partition.clone(), placement, from, now_secs);
    memory.place_metadata(laid_out);
    for number in 0..items {
        let sort = SortKey::string(format!("{number:08}"))?;
        let key = ItemKey::new(partition.clone(), sort);
        let shard = placement.home(&key, from).ok_or("it is calculated")?;
        let item = StoredItem {
            attributes: Attributes::new(),
            generation: Generation::default(),
            version: Version::new(u64::from(number)),
            forwarded: false,
        };
        memory.place(&key.at(shard, Placement::Xxh64, settings.schema.separator), item);
    }
    clock.advance(Duration::from_mins(10));
    let sources = (0..from.get())
        .map(|shard| partition.at(ShardId::new(shard), Placement::Xxh64, settings.schema.separator))
        .collect::<Vec<_>>();
    let store = Partitions {
        memory: memory.clone(),
        clock: clock.clone(),
        sources: Arc::new(sources),
        clients_wcu,
        state: Arc::default(),
    };
    let world = World { store, memory, clock, settings, partition, seeds: AtomicU64::new(1) };
    let scaler = Scaler::new(world.directory());
    let deadline = Deadline::after(world.clock.now(), Duration::from_secs(20));
    block_on(scaler.request_count(&world.partition, to, deadline))
        .map_err(|e| e.message().to_owned())?;
    let begun = world.clock.now();
    let run = Run::default();
    block_on(join_all((0..=LaneKey::LAST).map(|lane| world.lane(lane, &run))));
    let State { last_move, clients_offered, clients_throttled, .. } = &*world.store.state();
    let closed = run.closed.load(Ordering::Relaxed);
    let since = |at: Duration| at.saturating_sub(begun.boot);
    let minutes = |time: Duration| format!("{:.1} min", time.as_secs_f64() / 60.0);
    let closed = since(Duration::from_millis(closed));
    let holds = at_most.is_none_or(|at_most| closed <= at_most);
    let leaving = f64::from(items) * f64::from(to.get() - from.get()) / f64::from(to.get());
    let at_source = (PARTITION_WCU - clients_wcu[0]).min(MOST_SHARE * PARTITION_WCU);
    let at_best = Duration::from_secs_f64(2.0 * leaving / f64::from(from.get()) / at_source);
    println!(
        "| {items} | {from} | {to} | {:.0} | {:.0} | {} | {} at once | {} | {} | {:.2} % | {} | {} |",
        clients_wcu[0],
        clients_wcu[1],
        run.kills.load(Ordering::Relaxed),
        run.most_at_work.load(Ordering::Relaxed),
        minutes(since(*last_move)),
        minutes(closed),
        100.0 * clients_throttled / clients_offered.max(1.0),
        minutes(at_best),
        match at_most {
            None => "-".to_owned(),
            Some(most) if holds => format!("{}: holds", minutes(most)),
            Some(most) => format!("{}: EXCEEDED", minutes(most)),
        },
    );
    Ok(holds)
}

/// What stands around the rebalancer.
struct World {
    store: Partitions,
    memory: MemoryStore,
    clock: ManualClock,
    settings: Settings,
    partition: PartitionKey,
    seeds: AtomicU64,
}

/// What is seen of a run.
#[derive(Default)]
struct Run {
    /// When the reshard closed, in milliseconds of the boot clock; 0 until then.
    closed: AtomicU64,
    kills: AtomicU32,
    at_work: AtomicU32,
    most_at_work: AtomicU32,
}

impl World {
    fn directory(&self) -> Directory {
        let metadata = Faulty::new(self.memory.clone());
        metadata.delay(&self.clock, ROUND_TRIP);
        let entropy = SeededEntropy::new(self.seeds.fetch_add(1, Ordering::Relaxed));
        let items = self.store.clone();
        let world = ports::World::new(items, metadata, self.clock.clone(), entropy);
        Directory::new(world, self.settings.clone())
    }

    fn rebalancer(&self) -> Rebalancer {
        Rebalancer::new(self.directory())
    }

    /// Calls one rebalancer after the other, as the stream does by one lane, until the reshard is closed.
    async fn lane(&self, lane: u32, run: &Run) {
        const POLL: Duration = Duration::from_millis(500);
        let chance = SeededEntropy::new(u64::from(lane) + 77);
        let mut rebalancer = self.rebalancer();
        let mut last_call = None;
        let mut last_sweep = self.clock.now().boot;
        let mut is_called = lane == 0;
        loop {
            let metadata = self.memory.stored_metadata(&self.partition);
            if metadata.is_some_and(|metadata| metadata.phase == Phase::Stable) {
                let now = self.clock.now().boot.as_millis();
                let now = u64::try_from(now).unwrap_or(u64::MAX);
                let _ = run.closed.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
                return;
            }
            let call = self.memory.stored_lane(&self.partition, lane);
            is_called |= call.is_some() && call != last_call;
            let now = self.clock.now().boot;
            if lane == 0 && now.saturating_sub(last_sweep) >= Duration::from_mins(1) {
                (is_called, last_sweep) = (true, now);
            }
            if !is_called {
                self.clock.sleep(POLL).await;
                continue;
            }
            last_call = call;
            let at_work = run.at_work.fetch_add(1, Ordering::Relaxed) + 1;
            run.most_at_work.fetch_max(at_work, Ordering::Relaxed);
            let ended = self.invocation(&rebalancer, lane, &chance).await;
            run.at_work.fetch_sub(1, Ordering::Relaxed);
            is_called = if let Some(advance) = ended {
                lane == 0 && advance == (Advance::Yielded { failed: None })
            } else {
                run.kills.fetch_add(1, Ordering::Relaxed);
                // Lambda calls another environment with the same record.
                rebalancer = self.rebalancer();
                self.clock.sleep(Duration::from_secs(1)).await;
                true
            };
        }
    }

    /// What one invocation came to, or nothing if its environment was killed.
    async fn invocation(
        &self,
        rebalancer: &Rebalancer,
        lane: u32,
        chance: &SeededEntropy,
    ) -> Option<Advance> {
        let deadline = Deadline::after(self.clock.now(), INVOCATION);
        let drawn = f64::from(u32::try_from(chance.next_u64() >> 32).unwrap_or(0)) + 1.0;
        let life = MEAN_LIFE.mul_f64(-(drawn / (f64::from(u32::MAX) + 2.0)).ln());
        let work = pin!(rebalancer.advance(&self.partition, lane, deadline));
        match select(work, pin!(self.clock.sleep(life))).await {
            Either::Left((slice, _)) => Some(slice.advance.unwrap_or(Advance::Elsewhere)),
            Either::Right(_) => None,
        }
    }
}

/// The main table, in partitions that take so much and no more.
#[derive(Clone)]
struct Partitions {
    memory: MemoryStore,
    clock: ManualClock,
    sources: Arc<Vec<PhysicalPartitionKey>>,
    clients_wcu: [f64; 2],
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    partitions: HashMap<PhysicalPartitionKey, Bucket>,
    last_move: Duration,
    clients_offered: f64,
    clients_throttled: f64,
}

/// What a partition has left of this second.
#[derive(Clone, Copy)]
struct Bucket {
    units: f64,
    as_of: Duration,
}

impl Partitions {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes these units of each partition, or none where one has too few.
    fn take(&self, partitions: &[&PhysicalPartitionKey], units: f64) -> Result<(), StoreError> {
        let now = self.clock.now().boot;
        let state = &mut *self.state();
        let mut has_room = true;
        for &partition in partitions {
            let full = Bucket { units: PARTITION_WCU, as_of: now };
            let bucket = state.partitions.entry(partition.clone()).or_insert(full);
            let secs = now.saturating_sub(bucket.as_of).as_secs_f64();
            // The clients come first, as far as the mover has left them something.
            let offered = self.clients_wcu[usize::from(!self.sources.contains(partition))] * secs;
            let there = bucket.units + PARTITION_WCU * secs;
            state.clients_offered += offered;
            state.clients_throttled += (offered - there).max(0.0);
            *bucket = Bucket { units: (there - offered).clamp(0.0, PARTITION_WCU), as_of: now };
            has_room &= bucket.units >= units;
        }
        if !has_room {
            return Err(StoreError::Throttled(Throttle::unknown()));
        }
        for &partition in partitions {
            if let Some(bucket) = state.partitions.get_mut(partition) {
                bucket.units -= units;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl ItemStore for Partitions {
    async fn get(
        &self,
        key: &PhysicalKey,
        fields: Option<&Fields>,
        consistency: Consistency,
    ) -> Result<Metered<Option<StoredItem>>, StoreError> {
        self.clock.sleep(ROUND_TRIP).await;
        ItemStore::get(&self.memory, key, fields, consistency).await
    }

    async fn write(&self, write: &Write) -> Result<f64, StoreError> {
        self.clock.sleep(ROUND_TRIP).await;
        self.take(&[&write.key.partition], 1.0)?;
        self.memory.write(write).await
    }

    async fn get_both(
        &self,
        keys: [&PhysicalKey; 2],
        fields: Option<&Fields>,
    ) -> Result<Metered<[Option<StoredItem>; 2]>, StoreError> {
        self.clock.sleep(ROUND_TRIP).await;
        self.memory.get_both(keys, fields).await
    }

    async fn transfer(&self, transfer: &Transfer) -> Result<Transferred, StoreError> {
        self.clock.sleep(ROUND_TRIP).await;
        self.take(&[&transfer.old.partition, &transfer.new.partition], 2.0)?;
        self.state().last_move = self.clock.now().boot;
        self.memory.transfer(transfer).await
    }

    async fn adjust(
        &self,
        adjustments: &[Adjustment],
        lease: Lease,
    ) -> Result<Adjusted, StoreError> {
        self.memory.adjust(adjustments, lease).await
    }

    async fn batch_get(
        &self,
        keys: &[PhysicalKey],
        fields: Option<&Fields>,
        consistency: Consistency,
    ) -> Result<BatchPage, StoreError> {
        self.memory.batch_get(keys, fields, consistency).await
    }

    async fn query(&self, query: &ShardQuery) -> Result<ShardPage, StoreError> {
        self.clock.sleep(ROUND_TRIP).await;
        self.memory.query(query).await
    }

    async fn owner(&self) -> Result<Option<Owner>, StoreError> {
        self.memory.owner().await
    }

    async fn claim(&self, owner: &Owner) -> Result<(), StoreError> {
        self.memory.claim(owner).await
    }

    async fn takes_date(&self, date_secs: u64) -> Result<bool, StoreError> {
        self.memory.takes_date(date_secs).await
    }

    async fn locally_indexed_bytes(&self) -> Result<Option<u64>, StoreError> {
        self.memory.locally_indexed_bytes().await
    }
}
