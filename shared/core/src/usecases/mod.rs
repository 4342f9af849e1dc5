//! What clients, operators and the schedule ask for, done through the ports.
//!
//! - [`writer`] and [`reader`] are what clients see: [`mod@write`] puts, patches and deletes, [`read`] gets, [`item_cache`] keeps what was got, [`read_native`] gets in DynamoDB's own words, [`query`] reads pages, [`index`] those of indexes, [`batch`]
//!   does many at once, [`counter`] adds up, [`collection`] says how a collection is. [`settle`] is what each of them and the mover does to an item that changes its home.
//! - [`context`] is what all of them stand on, [`records`] reads and changes the records of the metadata table ([`raises`] those that all change), and [`main_table`] asks
//!   for what holds of the main table as a whole. [`directory`] is what is known of collections, and for how long. [`replicas`] says who answers a read, [`retry`] what is sent again, [`fan_out`] asks several
//!   shards at once, [`feeds`] merges what they have, and [`cost`] adds up what they took.
//! - [`meter`] counts what arrives, [`watch`] reports it and decides on it, [`begin`] begins what was decided.
//! - [`scale`] does what an operator asks, [`autoscaler`] what an alarm leads to, [`capacity`] what one on the table's own capacity
//!   does, [`rebalance`] carries changes to their end.
//! - [`native`] is what an endpoint sees that speaks DynamoDB's own words, with [`native_shards`] to ask itself, and [`verify`] looks whole collections over.

pub(crate) mod autoscaler;
pub(crate) mod batch;
pub(crate) mod begin;
pub(crate) mod capacity;
pub(crate) mod collection;
pub(crate) mod context;
pub(crate) mod cost;
pub(crate) mod counter;
pub(crate) mod directory;
pub(crate) mod epochs;
pub(crate) mod fan_out;
pub(crate) mod feeds;
pub(crate) mod index;
pub(crate) mod item_cache;
pub(crate) mod main_table;
pub(crate) mod meter;
pub(crate) mod native;
pub(crate) mod native_shards;
pub mod query;
pub(crate) mod raises;
pub(crate) mod read;
pub(crate) mod read_native;
pub(crate) mod reader;
pub(crate) mod rebalance;
pub(crate) mod records;
pub(crate) mod replicas;
pub(crate) mod retry;
pub(crate) mod scale;
pub(crate) mod settle;
pub(crate) mod verify;
pub(crate) mod watch;
pub(crate) mod write;
pub(crate) mod writer;
