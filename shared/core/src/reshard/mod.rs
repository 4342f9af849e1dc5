//! How a collection's shard count changes while its items are read and written (protocol:
//! "Resharding").
//!
//! - [`settle`] is what both writers and the mover do to one item that changes its home.
//! - [`Job`] is what a controller has to remember, and [`plan`] what is to be done next.
//! - [`Pace`] is how fast the mover may go.

mod job;
mod mover;
mod pace;
mod plan;
mod position;
mod round;
mod settle;

pub use job::{Job, Progress, ServerTime, ShardRange};
pub use pace::Pace;
pub use plan::{NextStep, Sight, Waits, plan};
pub(crate) use round::Trouble;
pub(crate) use settle::{
    Brought, Homes, OldHome, Unsettled, bring, give_way, relocate, settle, settle_live,
};
