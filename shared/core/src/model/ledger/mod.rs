//! The ledgers of an item collection: what arrives for it, and what it is granted, as those write it down who see the traffic.
//!
//! No environment sees more than its own share of the requests, and Contributor Insights counts refusals, minutes late. So an
//! environment meters what arrives, and while DynamoDB throttles it adds that to the [ledger](entry) that all share, at most once
//! a second, at first twice. A [`sample`] of the operations tells what is new from what comes again.

mod entry;
mod measures;
pub(crate) mod sample;

pub use entry::{Addition, Bucket, Figure, Ledger, LedgerKind, Span};
pub(crate) use entry::{CLASSES, is_figure};
pub use measures::Measures;
