//! What is known about collections, and the only way to change it.
//!
//! [`Directory`] keeps the directory item ([`item`]), with the settings that are pinned in it ([`pinned`]),
//! and metadata under leases ([`leased`]), publishes changes of them ([`changes`], [`settings`]), stores the jobs of changes of shard counts ([`jobs`]) and lists
//! collections ([`listing`]). Whether the main table is this stack's is asked once ([`owner`]).

mod changes;
mod item;
mod jobs;
mod leased;
mod ledgers;
mod listing;
mod owner;
mod pinned;
mod settings;

pub(crate) use changes::BeginOutcome;
pub use item::DirectoryItem;
pub(crate) use jobs::TurnedRound;
pub use leased::{Directory, Known};
pub use pinned::{ChangeableSetting, Owner, Pinned, PinnedTime};
pub use settings::SettingsChange;
