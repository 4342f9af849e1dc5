//! What is known about collections, and the only way to change it.
//!
//! [`Directory`] keeps metadata under a lease ([`leased`]), publishes changes of it ([`changes`]), stores
//! the jobs of changes of shard counts ([`jobs`]) and lists collections ([`listing`]).

mod changes;
mod jobs;
mod leased;
mod listing;

pub(crate) use changes::BeginOutcome;
pub use leased::{Directory, Known};
