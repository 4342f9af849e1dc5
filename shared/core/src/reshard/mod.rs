//! How a collection's shard count changes while its items are read and written (protocol:
//! "Resharding").
//!
//! - [`Settling`] is what both writers and the mover do to one item that changes its home.
//! - [`Job`] is what a controller has to remember, and [`plan`] what is to be done next. Its [`Claim`]s
//!   share the sources out over several that work side by side.

mod claims;
mod job;
mod plan;
mod position;
mod settle;
mod time;
mod turn;

pub use claims::{Claim, LaneKey};
pub use job::{Job, MAX_UNMOVABLE, Progress, ShardRange};
pub(crate) use plan::{NextStep, Sight, plan};
pub(crate) use settle::{Brought, Homes, OldHome, Settling, Unsettled};
pub use time::{ServerTime, Waits};
pub(crate) use turn::{Share, Source, Turn, Worker};
