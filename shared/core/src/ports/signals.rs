//! What CloudWatch and DynamoDB say of the load: throttled keys, alarms, capacities and usage.

use std::future::Future;

use crate::model::capacity::{CapacityMetrics, CapacityUnits, TableThroughput};
use crate::model::heat::{AlarmStatus, HeatWindow, HotKey};
use crate::model::policy::Access;
use crate::model::usage::Usage;
use crate::ports::errors::StoreError;

/// Where it is known which keys of the main table were throttled. It only reads, so unlike a store
/// it may send several requests for one call, and send them again.
pub trait HeatSource: Send + Sync {
    /// The most throttled partition keys in a window, as the main table has them, with the throttles
    /// of each period. No key at all where nothing was throttled.
    fn throttled_keys(
        &self,
        window: HeatWindow,
    ) -> impl Future<Output = Result<Vec<HotKey>, StoreError>> + Send;
}

/// The alarms on throttles of the main table's partitions.
pub trait HeatAlarms: Send + Sync {
    /// The one on this access: reads have one for gets and queries together.
    fn alarm(&self, access: Access) -> impl AlarmControl;
}

/// An alarm, or several that are one to whoever acts on them.
pub trait AlarmControl: Send + Sync {
    /// How it stands.
    fn status(&self) -> impl Future<Output = Result<AlarmStatus, StoreError>> + Send;

    /// Sets it back, for this reason, so that a further breach raises it again. It calls nobody
    /// while it stays raised.
    fn rearm(&self, reason: &str) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// The capacity of the main table. Like [`HeatSource`] it may ask again by itself; what changes the
/// table is sent once.
pub trait TableCapacity: Send + Sync {
    /// `DescribeTable`: what the table is provisioned with.
    fn throughput(&self) -> impl Future<Output = Result<TableThroughput, StoreError>> + Send;

    /// What was consumed and throttled in each period of a window. A period in which nothing happened
    /// may be missing.
    fn metrics(
        &self,
        window: HeatWindow,
    ) -> impl Future<Output = Result<CapacityMetrics, StoreError>> + Send;

    /// `UpdateTable`, to these units a second. It takes no condition.
    fn update(
        &self,
        to: CapacityUnits,
    ) -> impl Future<Output = Result<CapacityUpdate, StoreError>> + Send;
}

/// What the tables have consumed and refused, as CloudWatch counts it. It only reads, so like
/// [`HeatSource`] it may ask again by itself.
pub trait UsageSource: Send + Sync {
    /// What happened in each period of a window. A period in which nothing happened may be missing.
    fn usage(&self, window: HeatWindow) -> impl Future<Output = Result<Usage, StoreError>> + Send;
}

/// What DynamoDB said to a change of the capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CapacityUpdate {
    /// It carries the change out.
    Accepted,
    /// The table is being changed already (`ResourceInUseException`).
    InUse,
    /// The table has this capacity already.
    NoChange,
    /// A limit on tables, on changes or on capacity is reached (`LimitExceededException`), as the text
    /// says.
    LimitExceeded(String),
}
