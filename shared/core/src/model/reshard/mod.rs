//! What is stored of a change of a shard count: its [`Job`], with the [`Claim`]s by which several calls share the sources out,
//! how far it is, and the times that it waits for (protocol: "Resharding").

mod claims;
mod job;
mod position;
mod time;

pub use claims::{Claim, LaneKey};
pub use job::{Job, MAX_UNMOVABLE, Progress, ShardRange};
pub use time::{ServerTime, Waits};
