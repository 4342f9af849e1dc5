//! Throttles and their alarm, in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dynashard_core::ports::{AlarmControl, HeatAlarms, HeatSource, StoreError};
use dynashard_core::{Access, AlarmStatus, HeatWindow, HotKey, Throttles};

/// The most keys of one report.
const MAX_CONTRIBUTORS: usize = 25;

/// The throttles of a table, and the alarm on them, in memory. Clones share both.
///
/// Throttles are counted by key and period, and the alarm is raised by the test and set back by
/// whom it tests.
#[derive(Debug, Clone, Default)]
pub struct MemoryHeat(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    throttles: Vec<(String, Throttles)>,
    is_raised: bool,
    rearms: Vec<String>,
    windows: Vec<HeatWindow>,
    requests: u64,
    faults: VecDeque<StoreError>,
}

impl MemoryHeat {
    /// A table that was never throttled, and an alarm that is not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests for a physical partition key were throttled `count` times at this epoch second.
    pub fn throttle(&self, partition: &str, at_secs: u64, count: f64) {
        self.lock().throttles.push((partition.to_owned(), Throttles { at_secs, count }));
    }

    /// The alarm's metric breaches.
    pub fn raise(&self) {
        self.lock().is_raised = true;
    }

    /// The coming requests fail so, one each, in this order.
    pub fn fail(&self, faults: impl IntoIterator<Item = StoreError>) {
        self.lock().faults.extend(faults);
    }

    /// Whether the alarm is raised.
    pub fn is_raised(&self) -> bool {
        self.lock().is_raised
    }

    /// The reasons for which the alarm was set back, oldest first.
    pub fn rearms(&self) -> Vec<String> {
        self.lock().rearms.clone()
    }

    /// The windows that reports were asked of, oldest first.
    pub fn windows(&self) -> Vec<HeatWindow> {
        self.lock().windows.clone()
    }

    /// How many requests arrived, whatever became of them.
    pub fn requests(&self) -> u64 {
        self.lock().requests
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrive(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let mut state = self.lock();
        state.requests += 1;
        match state.faults.pop_front() {
            Some(error) => Err(error),
            None => Ok(state),
        }
    }
}

#[async_trait]
impl HeatSource for MemoryHeat {
    async fn throttled_keys(&self, window: HeatWindow) -> Result<Vec<HotKey>, StoreError> {
        let HeatWindow { from_secs, to_secs, period_secs } = window;
        let mut state = self.arrive()?;
        state.windows.push(window);
        let mut keys = BTreeMap::<&str, BTreeMap<u64, f64>>::new();
        for (partition, Throttles { at_secs, count }) in &state.throttles {
            if (from_secs..to_secs).contains(at_secs) {
                let begins_secs = at_secs - at_secs % u64::from(period_secs);
                *keys.entry(partition).or_default().entry(begins_secs).or_default() += count;
            }
        }
        let total = |key: &HotKey| key.throttles.iter().map(|t| t.count).sum::<f64>();
        let mut keys = keys
            .into_iter()
            .map(|(partition, periods)| HotKey {
                partition: partition.to_owned(),
                hottest_item: None,
                throttles: periods
                    .into_iter()
                    .map(|(at_secs, count)| Throttles { at_secs, count })
                    .collect(),
            })
            .collect::<Vec<_>>();
        keys.sort_by(|a, b| total(b).total_cmp(&total(a)));
        keys.truncate(MAX_CONTRIBUTORS);
        Ok(keys)
    }
}

impl HeatAlarms for MemoryHeat {
    fn alarm(&self, access: Access) -> Box<dyn AlarmControl + '_> {
        Box::new(MemoryAlarm { heat: self.clone(), access })
    }
}

/// The alarm on writes; that on reads is never raised.
struct MemoryAlarm {
    heat: MemoryHeat,
    access: Access,
}

#[async_trait]
impl AlarmControl for MemoryAlarm {
    async fn status(&self) -> Result<AlarmStatus, StoreError> {
        let is_raised = self.heat.arrive()?.is_raised && self.access == Access::Write;
        Ok(AlarmStatus { is_raised, period: Duration::from_mins(1), evaluation_periods: 1 })
    }

    async fn rearm(&self, reason: &str) -> Result<(), StoreError> {
        let mut state = self.heat.arrive()?;
        state.is_raised = false;
        state.rearms.push(reason.to_owned());
        Ok(())
    }
}
