//! What is known about collections, and the only way to change it.
//!
//! [`Directory`] keeps the directory item ([`item`]) and metadata under leases ([`leased`]), publishes
//! changes of them ([`changes`]), stores the jobs of changes of shard counts ([`jobs`]) and lists
//! collections ([`listing`]).

mod changes;
mod item;
mod jobs;
mod leased;
mod listing;

pub(crate) use changes::BeginOutcome;
pub use item::DirectoryItem;
pub use leased::{Directory, Known};
