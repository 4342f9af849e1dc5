//! What every use case stands on: the world and the settings.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::lock::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard};

use crate::model::error::{Code, Error};
use crate::model::lease::{Deadline, Moment};
use crate::model::replica::Replica;
use crate::model::segment::Group;
use crate::model::settings::Settings;
use crate::ports::{Clock, Dated, Entropy, ItemStore, RecordStore, StoreError, World};
use crate::usecases::raises::Raises;
use crate::usecases::replicas::Replicas;
use crate::usecases::retry::{Attempts, within};

/// The world of a stack, with its settings. Clones share it.
#[derive(Clone)]
pub struct Context {
    world: World,
    settings: Arc<Settings>,
    replicas: Arc<Replicas>,
    raises: Arc<Raises>,
}

impl Context {
    /// This world under these settings.
    pub fn new(world: World, settings: Settings) -> Self {
        let replicas = Arc::new(Replicas::new(settings.read_replicas));
        Self { world, settings: Arc::new(settings), replicas, raises: Arc::default() }
    }

    /// The settings of the stack.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The world.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Time.
    pub fn clock(&self) -> &dyn Clock {
        &*self.world.clock
    }

    /// The time, for the deadlines of requests.
    pub fn now(&self) -> Moment {
        self.clock().now()
    }

    /// Chance.
    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &*self.world.entropy
    }

    /// The main table.
    pub(crate) fn items(&self) -> &dyn ItemStore {
        &*self.world.items
    }

    /// Sends a read that need not be strong to the main table or to one of its replicas, and says which has answered.
    pub(crate) async fn ask_any<T, F>(
        &self,
        request: impl Fn(Option<Replica>) -> F,
    ) -> Result<(T, Option<Replica>), StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        self.replicas.ask(self.clock(), self.entropy(), request).await
    }

    /// The metadata table.
    pub(crate) fn record_store(&self) -> &dyn RecordStore {
        &*self.world.records
    }

    /// Raises counters of the directory, together with what others ask for meanwhile.
    pub(crate) async fn raise(&self, groups: &[Group]) -> Result<Dated<()>, StoreError> {
        /// A request that takes longer is not waited for by the next one.
        const PATIENCE: Duration = Duration::from_millis(250);
        let send = async |groups: &[Group]| self.record_store().raise(groups).await;
        self.raises.raise(groups, send, self.clock().sleep(PATIENCE)).await
    }

    /// Waits until nobody else in this environment reads what this lock is about, until `deadline` at most: whoever reads it may have
    /// more time.
    pub(crate) async fn turn<'a>(
        &self,
        lock: &'a AsyncMutex<()>,
        deadline: Deadline,
    ) -> Result<AsyncMutexGuard<'a, ()>, Error> {
        if let Some(turn) = lock.try_lock() {
            return Ok(turn);
        }
        let why = "another request of this environment was reading metadata all the time";
        let turn = within(self.clock(), deadline, lock.lock()).await;
        turn.ok_or_else(|| Error::new(Code::Unavailable, why))
    }

    /// A series of attempts until `deadline`.
    pub(crate) fn attempts(&self, deadline: Deadline) -> Attempts<'_> {
        Attempts::new(self.clock(), self.entropy(), deadline)
    }
}
