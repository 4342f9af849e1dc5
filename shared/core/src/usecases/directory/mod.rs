//! What is known about collections, and the only way to change it.
//!
//! [`Directory`] keeps metadata under leases ([`leased`]), and stands on the lease of the directory item, with the settings
//! that are pinned in it ([`lease`]). [`Changes`] publishes changes of metadata, and [`PinnedSettings`] those of settings.

mod changes;
mod lease;
mod leased;
mod settings;

pub(crate) use changes::{BeginOutcome, Changes, TurnedRound};
pub use leased::{Directory, Known};
pub use settings::SettingsChange;
