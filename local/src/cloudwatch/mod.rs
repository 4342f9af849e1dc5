//! `CloudWatch`, as far as the functions and the alarms of a template use it.
//!
//! ```text
//!  any SDK --- cloudwatch --[wire]  two protocols, one JSON value
//!                             |
//!                           [api]  operations
//!                  +----------+-----------+------------+
//!              [metrics]             insights         [alarms]
//!        +---------+--------+           |
//!     [store]           [dynamodb]      |
//!  put, or logged by     what the endpoint counts and throttles
//!  functions as [emf]
//! ```
//!
//! # What differs from `CloudWatch`
//!
//! - Values are there at once, and kept by the second for three hours, whatever their resolution.
//! - Requests may name units, and no answer has them.
//! - `GetMetricData` refuses percentiles, metric math and searches, and a template may not have
//!   alarms on several metrics.

mod alarms;
mod api;
mod dynamodb;
mod emf;
mod error;
mod metrics;
mod statistics;
mod store;
mod wire;

pub use alarms::AlarmState;
pub(crate) use alarms::{AlarmStatus, Alarms, Transition, timestamp};
pub(crate) use api::CloudWatchApi;
pub(crate) use emf::EmbeddedMetrics;
pub(crate) use metrics::Metrics;
pub(crate) use store::MetricStore;
