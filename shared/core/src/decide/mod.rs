//! Decisions: pure functions of values. Time, chance and evidence are arguments.
//!
//! - [`next_step`] says what a change of a shard count does next, [`turn`] who of several calls does it, [`work`] to what, and
//!   [`pace`] how fast.
//! - [`shard_count`] says how many more shards a collection is to have, and [`shrink`] how many fewer, from the [`evidence`] that
//!   functions report ([`chance`] says how many of them do); [`epochs`] says for which of its sort keys; [`rates`] is what people
//!   are told of it, and [`capacity`] what the whole table needs.
//! - [`counter`] says which cell of a counter takes an add, what it borrows, and how many cells there are to be.
//! - [`judge`] says what is wrong with what lies under a key, and [`digest`] whether two collections hold the same.

pub(crate) mod capacity;
pub(crate) mod chance;
pub(crate) mod counter;
pub(crate) mod digest;
pub(crate) mod epochs;
pub(crate) mod evidence;
pub(crate) mod judge;
pub(crate) mod next_step;
pub(crate) mod pace;
pub(crate) mod rates;
pub(crate) mod replicas;
pub(crate) mod shard_count;
pub(crate) mod shrink;
pub(crate) mod turn;
pub(crate) mod work;
