//! Reshards that go on between any two operations of a program: from 1 shard to 16, to 4, to 1, and so on.

use std::collections::BTreeMap;
use std::io;
use std::iter::repeat_with;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dynashard_aws_operator::Operator;
use dynashard_core::ports::{
    Change, Clock, Dated, ItemStore, List, ListPage, Listed, Record, RecordKey, RecordStore,
    StoreError, World,
};
use dynashard_core::{
    Addition, Advance, Deadline, Directory, Group, Ledger, LedgerKind, Moment, Rebalancer, Scaler,
    Settings,
};
use dynashard_keys::{PartitionKey, ShardCount};
use dynashard_testkit::{Fault, Faulty, Operation};

use crate::program::Turn;
use crate::table::TABLE;

/// What carries the reshards of the keys of one program on, turn by turn.
pub(crate) struct Mover {
    world: World,
    settings: Settings,
    skipped: Skipped,
    /// What the rebalancer sends, of which only a part may arrive.
    items: Arc<dyn Script>,
    rebalancer: Rebalancer,
    scaler: Scaler,
    /// How many counts each key was given.
    counts: Mutex<BTreeMap<PartitionKey, usize>>,
    /// How many reshards of all programs have come to their end.
    ended: Arc<AtomicU64>,
}

/// The counts that a key is given, again and again.
const COUNTS: [u32; 3] = [16, 4, 1];

/// Enough for every step that does not wait: whatever waits longer is left to a later turn, behind time that is skipped.
const TURN: Duration = Duration::from_millis(2_500);

/// So many requests of a turn are lost at most.
const MOST_LOST: usize = 100;

impl Mover {
    /// One over these tables, of which it knows nothing yet.
    pub(crate) async fn start(
        operator: &Operator,
        metadata_table: &str,
        settings: Settings,
        ended: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let skipped = Skipped::default();
        let world = operator.world(TABLE, metadata_table, &settings.schema);
        let world = World {
            records: Arc::new(Later { inner: world.records, skipped: skipped.clone() }),
            clock: Arc::new(Later { inner: world.clock, skipped: skipped.clone() }),
            ..world
        };
        let items = Faulty::new(operator.items(TABLE, &settings.schema));
        let lossy = World { items: Arc::new(items.clone()), ..world.clone() };
        let directory = |world: World| Directory::new(world, settings.clone()).pinning();
        let mover = Self {
            rebalancer: Rebalancer::new(directory(lossy)),
            scaler: Scaler::new(directory(world.clone())),
            world,
            settings: settings.clone(),
            skipped,
            items: Arc::new(items),
            counts: Mutex::default(),
            ended,
        };
        // Each finds out whose table it is before its first step.
        let partition = PartitionKey::new("hot").map_err(io::Error::other)?;
        for directory in [mover.rebalancer.directory(), mover.scaler.directory()] {
            let deadline = Deadline::after(directory.now(), TURN);
            directory.find(&partition, deadline).await.map_err(io::Error::other)?;
        }
        Ok(mover)
    }

    /// What an endpoint knows of the tables: nothing yet.
    pub(crate) fn directory(&self) -> Directory {
        Directory::new(self.world.clone(), self.settings.clone()).pinning()
    }

    /// Lets time pass, and has a rebalancer do what it can for a key, or gives the key another count.
    pub(crate) async fn take(&self, turn: &Turn) {
        let Ok(partition) = PartitionKey::new(&turn.partition) else { return };
        self.skipped.0.fetch_add(turn.secs, Ordering::Relaxed);
        self.items.lose_all_but(turn.items);
        let deadline = || Deadline::after(self.scaler.directory().now(), TURN);
        let slice = self.rebalancer.advance(&partition, 0, deadline()).await;
        match slice.advance {
            Ok(Advance::Finished(_)) => {
                self.ended.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Advance::Nothing) => {}
            _ => return,
        }
        let given = self.lock().get(&partition).copied().unwrap_or_default();
        let count = ShardCount::new(COUNTS[given % COUNTS.len()]).unwrap_or(ShardCount::ONE);
        // It may be too soon.
        if self.scaler.request_count(&partition, count, deadline()).await.is_ok() {
            self.lock().insert(partition, given + 1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PartitionKey, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store whose requests are lost.
trait Script: Send + Sync {
    /// Loses every move and every removal of a marker behind so many of each, until this is asked for again.
    fn lose_all_but(&self, requests: usize);
}

impl<S: ItemStore> Script for Faulty<S> {
    fn lose_all_but(&self, requests: usize) {
        for operation in [Operation::Transfer, Operation::Write] {
            self.clear(operation);
            let taken = repeat_with(|| Fault::before(|| {})).take(requests);
            let lost = || Fault::Refuse(StoreError::Misconfigured("the turn is over".to_owned()));
            self.script(operation, taken.chain(repeat_with(lost).take(MOST_LOST)));
        }
    }
}

/// The seconds that were skipped, in which nothing happened.
#[derive(Debug, Clone, Default)]
struct Skipped(Arc<AtomicU64>);

impl Skipped {
    fn secs(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A clock, or a store that tells DynamoDB's time, behind those seconds.
struct Later<T: ?Sized> {
    inner: Arc<T>,
    skipped: Skipped,
}

#[async_trait]
impl Clock for Later<dyn Clock> {
    fn now(&self) -> Moment {
        let (now, secs) = (self.inner.now(), self.skipped.secs());
        let skipped = Duration::from_secs(secs);
        Moment {
            boot: now.boot + skipped,
            wall: now.wall + skipped,
            server_secs: now.server_secs.map(|server_secs| server_secs + secs),
        }
    }

    async fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration).await;
    }
}

impl Later<dyn RecordStore> {
    fn dated<T>(&self, answer: Result<Dated<T>, StoreError>) -> Result<Dated<T>, StoreError> {
        let Dated { value, server_secs } = answer?;
        let server_secs = server_secs.map(|server_secs| server_secs + self.skipped.secs());
        Ok(Dated { value, server_secs })
    }
}

#[async_trait]
impl RecordStore for Later<dyn RecordStore> {
    fn table(&self) -> &str {
        self.inner.table()
    }

    async fn read(&self, key: &RecordKey) -> Result<Dated<Option<Record>>, StoreError> {
        self.dated(self.inner.read(key).await)
    }

    async fn commit(&self, changes: &[Change]) -> Result<Dated<()>, StoreError> {
        self.dated(self.inner.commit(changes).await)
    }

    async fn add(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
        addition: &Addition,
    ) -> Result<Dated<Ledger>, StoreError> {
        self.dated(self.inner.add(partition, kind, addition).await)
    }

    async fn raise(&self, groups: &[Group]) -> Result<Dated<()>, StoreError> {
        self.dated(self.inner.raise(groups).await)
    }

    async fn list(&self, list: List, after: Option<&str>) -> Result<ListPage<Listed>, StoreError> {
        self.inner.list(list, after).await
    }
}
