//! What is known about collections, and the only way to change it.
//!
//! [`Directory`] keeps metadata under leases ([`cache`]). It stands on the lease of the directory item, with the settings that
//! are pinned in it ([`item`]), and on the [`segments`] that list the collections. [`Changes`] publishes changes of metadata, and
//! [`PinnedSettings`] those of settings, which may put segments in place of a list ([`conversion`]).

mod cache;
mod changes;
mod conversion;
mod index_growth;
mod item;
mod segments;
mod settings;

pub use cache::{Directory, Known};
pub use changes::PaceChange;
pub(crate) use changes::{BeginOutcome, Changes, JobRevised};
pub use settings::RequestDates;
