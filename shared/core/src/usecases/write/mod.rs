//! Puts, patches and deletes, and writes in DynamoDB's own words ([`mod@native`]).
//!
//! An [`operation`] finds where its item is to be written ([`home`]), which settles one that a reshard
//! moves, and sends one guarded write there ([`send`]), at the pace of a shard that is full ([`pacing`]),
//! in a batch after a slow start ([`slow_start`]).
//! If that leaves a put in doubt, it looks once whether the item arrived ([`look`]).

mod context;
mod delete;
mod held;
mod home;
mod look;
mod native;
mod operation;
mod pacing;
mod part;
mod patch;
mod precondition;
mod put;
mod send;
mod slow_start;

pub(crate) use context::WriteContext;
pub use delete::Deleted;
pub(crate) use delete::delete;
pub use held::HeldWrites;
pub use native::Among;
pub(crate) use native::{native, terms_of_item};
pub use part::Fate;
pub(crate) use part::note;
pub(crate) use patch::patch;
pub use precondition::{Precondition, Written};
pub(crate) use put::put;
pub(crate) use slow_start::SlowStart;
