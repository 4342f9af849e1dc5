//! How many shards a load takes, what it costs, and whether to shard at all.
//!
//! [`Plan::of`] answers that for a [`Workload`], by arithmetic. [`simulation`] tries a load in virtual time. The crate has neither a clock nor chance nor I/O.
//!
//! # Sources
//!
//! - [Best Practices for Tables][tables]: the partitions of a table ([`partitions`]), bursts ([`burst`]) and bulk loads
//!   ([`bulk_load`]).
//! - [Choosing the Right DynamoDB Partition Key][key]: the simple formula of [`shards`].
//! - [Read and write operations][units] of the Developer Guide: capacity units ([`capacity`]).
//!
//! [tables]: https://github.com/awsdocs/amazon-dynamodb-developer-guide/blob/2c0c02836e6acca1b832f33e3534347fbb159e95/doc_source/GuidelinesForTables.md
//! [key]: https://aws.amazon.com/blogs/database/choosing-the-right-dynamodb-partition-key/
//! [units]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html

pub mod advice;
pub mod bulk_load;
pub mod burst;
pub mod capacity;
pub mod cost;
pub mod figure;
pub mod partitions;
pub mod plan;
pub mod series;
pub mod shards;
pub mod simulation;
pub mod stage;
pub mod table;
pub mod workload;

pub use plan::Plan;
pub use workload::{Workload, WorkloadError};

/// A quotient above zero, rounded up to a whole number; at least 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the workload's bounds keep it far below 2^53"
)]
fn at_least_one(quotient: f64) -> u64 {
    quotient.ceil().max(1.0) as u64
}

/// A count as a factor.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of partitions and shards are far below 2^53"
)]
fn float(count: u64) -> f64 {
    count as f64
}
