//! The capacity of a provisioned main table. More shards do not help where the table's own capacity
//! throttles: it has to rise ("Choosing the right number of shards for your large-scale Amazon
//! DynamoDB table": `UpdateTable`).
//!
//! [`decision`] says what follows from what was seen, and [`scaler`] asks, decides and updates.
//!
//! Nothing here lowers a capacity. DynamoDB allows few decreases a day, and DynamoDB auto scaling
//! knows how to spend them.

mod decision;
mod scaler;

pub use decision::{
    CapacityDecision, CapacityMetrics, CapacityPeriod, CapacityPolicy, CapacityScaling,
    CapacitySide, CapacityUnits, TableThroughput, decide_capacity,
};
pub use scaler::{CapacityOutcome, CapacityReport, CapacityScaler};
