//! The heat ledger: what arrives for an item collection, as those write it down who see the traffic.
//!
//! No environment sees more than its own share of the requests, and Contributor Insights counts refusals,
//! minutes late. So an environment [meters](meter) what arrives, and while DynamoDB throttles it adds that
//! to the [ledger](entry) that all share, at most once a second, at first twice; [`chance`] bounds how many of them do.
//! A [`sample`] of the operations tells what is new from what comes again. [`rates`] says for people what is asked for.

mod chance;
mod entry;
mod measures;
mod meter;
mod rates;
mod sample;

pub use chance::under_throttle as report_chance;
pub(crate) use entry::is_figure;
pub use entry::{Addition, Bucket, Figure, Ledger, LedgerKind, Span};
pub use measures::Measures;
pub(crate) use meter::{Arrival, COMPLETE_AFTER, Due, Meter};
pub use rates::Rates;
