//! What CloudWatch and DynamoDB say of the load: throttled keys, alarms, capacities and usage.

use async_trait::async_trait;

use crate::model::capacity::{CapacityMetrics, CapacityUnits, TableThroughput};
use crate::model::heat::{AlarmStatus, HeatWindow, HotKey};
use crate::model::policy::Access;
use crate::model::usage::Usage;
use crate::ports::errors::StoreError;

/// Where it is known which keys of the main table were throttled. It only reads, so unlike a store
/// it may send several requests for one call, and send them again.
#[async_trait]
pub trait HeatSource: Send + Sync {
    /// The most throttled partition keys in a window, as the main table has them, with the throttles
    /// of each period. No key at all where nothing was throttled.
    async fn throttled_keys(&self, window: HeatWindow) -> Result<Vec<HotKey>, StoreError>;
}

/// The alarms on throttles of the main table's partitions.
pub trait HeatAlarms: Send + Sync {
    /// The one on this access: reads have one for gets and queries together.
    fn alarm(&self, access: Access) -> Box<dyn AlarmControl + '_>;

    /// Whether there is one: a stack may do without, and leave growth to its writers.
    fn is_there(&self, _access: Access) -> bool {
        true
    }
}

/// An alarm, or several that are one to whoever acts on them.
#[async_trait]
pub trait AlarmControl: Send + Sync {
    /// How it stands.
    async fn status(&self) -> Result<AlarmStatus, StoreError>;

    /// Sets it back, for this reason, so that a further breach raises it again. It calls nobody
    /// while it stays raised.
    async fn rearm(&self, reason: &str) -> Result<(), StoreError>;
}

/// The capacity of the main table. Like [`HeatSource`] it may ask again by itself; what changes the
/// table is sent once.
#[async_trait]
pub trait TableCapacity: Send + Sync {
    /// `DescribeTable`: what the table is provisioned with.
    async fn throughput(&self) -> Result<TableThroughput, StoreError>;

    /// What was consumed and throttled in each period of a window. A period in which nothing happened
    /// may be missing.
    async fn metrics(&self, window: HeatWindow) -> Result<CapacityMetrics, StoreError>;

    /// `UpdateTable`, to these units a second. It takes no condition.
    async fn update(&self, to: CapacityUnits) -> Result<CapacityUpdate, StoreError>;
}

/// What the tables have consumed and refused, as CloudWatch counts it. It only reads, so like
/// [`HeatSource`] it may ask again by itself.
#[async_trait]
pub trait UsageSource: Send + Sync {
    /// What happened in each period of a window. A period in which nothing happened may be missing.
    async fn usage(&self, window: HeatWindow) -> Result<Usage, StoreError>;
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
