//! What DynamoDB does to its clients, as pure models: [`capacity`] says what an operation consumes,
//! [`partition`] says whether it is admitted.
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
//! assert_eq!(refusal.first().reason(), "TableWriteKeyRangeThroughputExceeded");
//! ```
//!
//! Everything here is deterministic: time is an argument, and there is no clock, no randomness, no
//! async and no I/O. The rules are AWS's own. Each names its page of the Amazon DynamoDB Developer
//! Guide, and where the guide is silent the choice is marked as ours.

pub mod capacity;
pub mod partition;
mod units;

pub use units::Units;
