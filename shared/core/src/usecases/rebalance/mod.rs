//! Carries changes of shard counts to their end, and moves items for them (protocol: "The rebalancer").
//!
//! One call ([`advance`]) takes step after step for a collection. It moves items, or removes markers
//! ([`work`](crate::decide::work)), in rounds ([`round`]), item by item ([`paced_requests`]), beside other calls, at a pace that it
//! remembers ([`slice_state`]), and within what all collections share ([`budget`]). A [`sweep`] calls for each collection that has come to a halt.

mod advance;
mod budget;
mod paced_requests;
mod rebalancer;
mod round;
mod slice_state;
mod sweep;

pub use rebalancer::{Advance, Rebalancer, ReshardSlice, Slice};
pub use sweep::Sweep;
