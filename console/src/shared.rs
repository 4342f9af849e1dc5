//! What the server of the console and the watcher of the tables share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dynashard_core::ports::UsageSource;
use dynashard_core::{Deadline, Directory, Reader, Scaler, ScalingMode};
use dynashard_keys::PartitionKey;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::cost::Prices;
use crate::known::Known;
use crate::view::Frame;

/// The tables of a stack.
pub struct Tables {
    /// Where they are, for people: the stack or the tables, the region.
    pub place: String,
    /// Whether the stack changes shard counts by itself.
    pub scaling: ScalingMode,
    /// Reads items and collections. Its settings are to have scaling and shrinking off: a console that only looks
    /// reports nothing to the ledgers.
    pub reader: Reader,
    /// Such a reader, by which the console follows all collections. Its read units are counted apart: they are what the
    /// console's budget bounds.
    pub watcher: Reader,
    /// Changes shard counts, if whoever started the console allows that.
    pub scaler: Option<Scaler>,
    /// What CloudWatch counts, and how often it is asked. Without it neither throttles by reason nor costs are shown.
    pub usage: Option<(Box<dyn UsageSource>, UsagePace)>,
    /// The read units that `watcher` has consumed so far.
    pub watched_rcu: Box<dyn Fn() -> f64 + Send + Sync>,
    /// Those of `reader` and `scaler`, for what people ask.
    pub asked_rcu: Box<dyn Fn() -> f64 + Send + Sync>,
    /// What units cost, if that is known.
    pub prices: Option<Prices>,
}

/// How CloudWatch is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsagePace {
    /// How often.
    pub every: Duration,
    /// By which periods, in seconds.
    pub period_secs: u32,
    /// Whether the moves of items are among what it counts.
    pub moves_are_known: bool,
}

impl UsagePace {
    /// CloudWatch itself, which counts by the minute and is paid for each metric.
    pub const AWS: Self =
        Self { every: Duration::from_mins(1), period_secs: 60, moves_are_known: true };

    /// The local stack, which counts by the second.
    pub const LOCAL: Self =
        Self { every: Duration::from_secs(2), period_secs: 1, moves_are_known: true };
}

/// How long the console waits for an answer of DynamoDB.
const PATIENCE: Duration = Duration::from_secs(8);

/// What the server and the watcher share.
pub(crate) struct Shared {
    pub(crate) allows_changes: bool,
    pub(crate) read_units: f64,
    /// Whoever was shown the page has it.
    pub(crate) token: String,
    /// Tells this console from an earlier one at the same address, whose page has another token.
    pub(crate) session: String,
    tables: OnceLock<Tables>,
    known: Mutex<Known>,
    viewers: AtomicUsize,
    viewed: Mutex<BTreeMap<PartitionKey, usize>>,
    changed: watch::Sender<u64>,
}

impl Shared {
    pub(crate) fn new(
        allows_changes: bool,
        read_units: f64,
        [token, session]: [String; 2],
    ) -> Self {
        Self {
            allows_changes,
            read_units,
            token,
            session,
            tables: OnceLock::new(),
            known: Mutex::default(),
            viewers: AtomicUsize::new(0),
            viewed: Mutex::default(),
            changed: watch::channel(0).0,
        }
    }

    /// The tables, once they were found.
    pub(crate) fn tables(&self) -> Option<&Tables> {
        self.tables.get()
    }

    pub(crate) fn connected(&self, tables: Tables) {
        // They are found once.
        let _ = self.tables.set(tables);
        self.tell();
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// Changes what is known, and tells whoever looks.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known());
        self.tell();
    }

    fn tell(&self) {
        self.changed.send_modify(|changes| *changes += 1);
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Whether anybody looks.
    pub(crate) fn is_viewed(&self) -> bool {
        self.viewers.load(Ordering::Relaxed) > 0
    }

    /// The collections that somebody looks at.
    pub(crate) fn viewed(&self) -> MutexGuard<'_, BTreeMap<PartitionKey, usize>> {
        self.viewed.lock()
    }

    /// Somebody looks, perhaps at one collection, for as long as the viewer lives.
    pub(crate) fn view(self: &Arc<Self>, partition: Option<PartitionKey>) -> Viewer {
        self.viewers.fetch_add(1, Ordering::Relaxed);
        if let Some(partition) = &partition {
            *self.viewed().entry(partition.clone()).or_default() += 1;
        }
        self.tell();
        Viewer { shared: Arc::clone(self), partition }
    }
}

impl Tables {
    pub(crate) fn directory(&self) -> &Directory {
        self.reader.directory()
    }

    pub(crate) fn watched(&self) -> &Directory {
        self.watcher.directory()
    }

    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after(self.directory().now(), PATIENCE)
    }

    pub(crate) fn frame(&self, read_units: f64) -> Frame<'_> {
        let now = self.directory().now();
        Frame {
            settings: self.directory().settings(),
            waits: self.directory().lease().waits(),
            prices: self.prices,
            moves_are_known: self.usage.as_ref().is_some_and(|(_, pace)| pace.moves_are_known),
            read_units,
            asked_rcu: (self.asked_rcu)(),
            now: now.wall,
            boot: now.boot,
        }
    }
}

/// Somebody who looks.
pub(crate) struct Viewer {
    shared: Arc<Shared>,
    pub(crate) partition: Option<PartitionKey>,
}

impl Viewer {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.shared.viewers.fetch_sub(1, Ordering::Relaxed);
        let Some(partition) = &self.partition else { return };
        let mut viewed = self.shared.viewed();
        if let Some(count) = viewed.get_mut(partition) {
            *count -= 1;
            if *count == 0 {
                viewed.remove(partition);
            }
        }
    }
}
