//! DynamoDB's limits as a pure model: what a request costs, and when DynamoDB throttles it.
//!
//! - [`capacity`] computes the capacity units of an operation: from the sizes of the items before and
//!   after it, for the table and for its secondary indexes.
//! - [`partition`] cuts each table into partitions, gives each a token bucket, and admits or refuses
//!   requests. It also keeps the counts and the throttled keys that CloudWatch reports.
//!
//! The local stack's `dynamodb` endpoint asks this crate about every request before it hands the
//! request to the engine, which itself has no limits. To a crate that shards hot keys these limits
//! are the point: only where a partition throttles is there a reason to spread its key.
//!
//! ```
//! use std::time::Duration;
//!
//! use dynashard_limits::capacity::{item_bytes, write_units};
//! use dynashard_limits::partition::{Demand, Kind, Limits, Partitions, Resource, Throughput};
//! use serde_json::json;
//!
//! let mut partitions = Partitions::new(Limits::default());
//! let now = Duration::ZERO;
//! partitions.set_table(now, "Flights", Throughput::OnDemand, []);
//!
//! let item = json!({"pk": {"S": "JFK#0"}, "sk": {"S": "2013-01-01"}});
//! let put = Demand {
//!     resource: Resource::table("Flights"),
//!     partition_key: "JFK#0",
//!     sort_key: Some("2013-01-01"),
//!     kind: Kind::Write,
//!     units: write_units(0, item_bytes(&item)),
//! };
//! for _ in 0..1_000 {
//!     partitions.admit(now, &[put]).expect("a second's worth");
//! }
//! let refusal = partitions.admit(now, &[put]).expect_err("the partition is hot");
//! assert_eq!(refusal.first().reason, "TableWriteKeyRangeThroughputExceeded");
//! ```
//!
//! Everything here is deterministic: time is an argument, and the crate has neither a clock nor
//! randomness nor I/O.
//!
//! # Sources
//!
//! The rules are AWS's own. Each names its page of the [Amazon DynamoDB Developer Guide][guide], and
//! where the guide is silent the choice is marked as ours. The main ones are
//! [read and write operations][units] and [item sizes][sizes] for capacity, and
//! [partition keys][keys], [burst and adaptive capacity][burst] and [hot partitions][hot] for
//! throttling.
//!
//! [guide]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Introduction.html
//! [units]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
//! [sizes]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
//! [keys]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html
//! [burst]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/burst-adaptive-capacity.html
//! [hot]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/throttling-key-range-limit-exceeded-mitigation.html

pub mod capacity;
pub mod partition;
mod units;

pub use units::Units;
