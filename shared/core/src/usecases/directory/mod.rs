//! What is known about collections, and the only way to change it.
//!
//! [`Directory`] keeps the directory item, with the settings that are pinned in it, and metadata under leases ([`leased`]),
//! publishes changes of them ([`changes`], [`settings`]), stores the jobs of changes of shard counts ([`jobs`]) and lists
//! collections ([`listing`]). Whether the main table is this stack's is asked once ([`owner`]).

mod changes;
mod jobs;
mod leased;
mod ledgers;
mod listing;
mod owner;
mod settings;

pub(crate) use changes::BeginOutcome;
pub(crate) use jobs::TurnedRound;
pub use leased::{Directory, Known};
pub use settings::SettingsChange;
