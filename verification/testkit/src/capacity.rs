//! The capacity of a table, in memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dynashard_core::ports::{AlarmControl, CapacityUpdate, Clock, StoreError, TableCapacity};
use dynashard_core::{
    AlarmStatus, CapacityMetrics, CapacityPeriod, CapacitySide, CapacityUnits, HeatWindow,
    TableThroughput,
};

use crate::clock::ManualClock;

/// The capacity of a table with its metrics, and the alarms on them, in memory. Clones share all.
///
/// A new one is on demand. The metrics are what the test says; the alarms are raised by the test and
/// set back by whom it tests. A change of the capacity is in force at once.
#[derive(Debug, Clone)]
pub struct MemoryCapacity {
    clock: ManualClock,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    throughput: TableThroughput,
    metrics: CapacityMetrics,
    is_raised: bool,
    updates: Vec<CapacityUnits>,
    windows: Vec<HeatWindow>,
    refusals: VecDeque<CapacityUpdate>,
    meanwhile: Option<CapacityUnits>,
    requests: u64,
    faults: VecDeque<StoreError>,
}

impl MemoryCapacity {
    /// A table on demand that was never throttled.
    pub fn new(clock: ManualClock) -> Self {
        let throughput = TableThroughput {
            provisioned: None,
            status: "ACTIVE".to_owned(),
            increased_secs: None,
        };
        let state = State {
            throughput,
            metrics: CapacityMetrics::default(),
            is_raised: false,
            updates: Vec::new(),
            windows: Vec::new(),
            refusals: VecDeque::new(),
            meanwhile: None,
            requests: 0,
            faults: VecDeque::new(),
        };
        Self { clock, state: Arc::new(Mutex::new(state)) }
    }

    /// The table is provisioned with these units a second.
    pub fn provision(&self, units: CapacityUnits) {
        self.lock().throughput.provisioned = Some(units);
    }

    /// The table has this status.
    pub fn set_status(&self, status: &str) {
        status.clone_into(&mut self.lock().throughput.status);
    }

    /// This is what the metrics say of a period.
    pub fn measure(&self, access: CapacitySide, period: CapacityPeriod) {
        let metrics = &mut self.lock().metrics;
        match access {
            CapacitySide::Reads => metrics.reads.push(period),
            CapacitySide::Writes => metrics.writes.push(period),
        }
    }

    /// An alarm's metric breaches.
    pub fn raise(&self) {
        self.lock().is_raised = true;
    }

    /// The coming requests fail so, one each, in this order.
    pub fn fail(&self, faults: impl IntoIterator<Item = StoreError>) {
        self.lock().faults.extend(faults);
    }

    /// The coming changes are answered so, one each, and change nothing.
    pub fn refuse(&self, refusals: impl IntoIterator<Item = CapacityUpdate>) {
        self.lock().refusals.extend(refusals);
    }

    /// Another gives the table this capacity as soon as it has been looked at.
    pub fn change_meanwhile(&self, units: CapacityUnits) {
        self.lock().meanwhile = Some(units);
    }

    /// What the table is provisioned with.
    pub fn provisioned(&self) -> Option<CapacityUnits> {
        self.lock().throughput.provisioned
    }

    /// The changes that were asked for, oldest first.
    pub fn updates(&self) -> Vec<CapacityUnits> {
        self.lock().updates.clone()
    }

    /// The windows that metrics were asked of, oldest first.
    pub fn windows(&self) -> Vec<HeatWindow> {
        self.lock().windows.clone()
    }

    /// Whether an alarm is raised.
    pub fn is_raised(&self) -> bool {
        self.lock().is_raised
    }

    /// How many requests arrived, whatever became of them.
    pub fn requests(&self) -> u64 {
        self.lock().requests
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
impl TableCapacity for MemoryCapacity {
    async fn throughput(&self) -> Result<TableThroughput, StoreError> {
        let mut state = self.arrive()?;
        let seen = state.throughput.clone();
        if let Some(units) = state.meanwhile.take() {
            state.throughput.provisioned = Some(units);
        }
        Ok(seen)
    }

    async fn metrics(&self, window: HeatWindow) -> Result<CapacityMetrics, StoreError> {
        let mut state = self.arrive()?;
        state.windows.push(window);
        let seconds = window.from_secs..window.to_secs;
        let within = |periods: &[CapacityPeriod]| {
            periods.iter().filter(|period| seconds.contains(&period.at_secs)).copied().collect()
        };
        Ok(CapacityMetrics {
            reads: within(&state.metrics.reads),
            writes: within(&state.metrics.writes),
        })
    }

    async fn update(&self, to: CapacityUnits) -> Result<CapacityUpdate, StoreError> {
        let mut state = self.arrive()?;
        state.updates.push(to);
        if let Some(refusal) = state.refusals.pop_front() {
            return Ok(refusal);
        }
        state.throughput.provisioned = Some(to);
        state.throughput.increased_secs = Some(self.clock.now().epoch_secs());
        Ok(CapacityUpdate::Accepted)
    }
}

#[async_trait]
impl AlarmControl for MemoryCapacity {
    async fn status(&self) -> Result<AlarmStatus, StoreError> {
        let is_raised = self.arrive()?.is_raised;
        Ok(AlarmStatus { is_raised, period: Duration::from_mins(1), evaluation_periods: 1 })
    }

    async fn rearm(&self, _reason: &str) -> Result<(), StoreError> {
        self.arrive()?.is_raised = false;
        Ok(())
    }
}
