//! Logical and physical keys of sharded item collections.
//!
//! A client names an item by its **logical key**: a partition key and a sort key. DynamoDB holds it
//! under a **physical key**. In the first shard that is the logical key itself; in the others its
//! partition key carries the shard as a suffix: `<pk><separator><shard>`. A [`Placement`] says which
//! shard it is.
//!
//! ```
//! use dynashard_keys::{ItemKey, PartitionKey, Placement, Separator, ShardCount, SortKey};
//!
//! let key = ItemKey::new(PartitionKey::new("user.v1.User:abc")?, SortKey::string("123")?);
//! let shard = Placement::Xxh64.home(&key, ShardCount::new(16)?).expect("calculated");
//! assert_eq!(shard.get(), 11); // as in "Dynamo DB Sharding"
//! let physical = key.at(shard, Placement::Xxh64, Separator::HashTilde);
//! assert_eq!(physical.partition.as_str(), "user.v1.User:abc#~11");
//! # Ok::<(), dynashard_keys::KeyError>(())
//! ```
//!
//! Tables that were sharded before have other rules, as the articles give them: [`WriteSharding`] has those, and
//! [`IndexSharding`] the keys of an index. `TimeTables` (feature `time`) names a table for each day, week or
//! month, and `#[derive(Sharded)]` (feature `derive`) makes the key of a type.
//!
//! The crate is pure: `no_std` with `alloc`, no async, no AWS, no clock, no randomness of its own. What it
//! computes is written to disk as keys, so every mapping here must be kept stable for ever; `tests/golden.rs`
//! pins them.

#![no_std]

extern crate alloc;

mod error;
mod home_keys;
mod index;
mod key;
mod number;
mod physical;
mod placement;
mod shard;
#[cfg(feature = "derive")]
mod sharded;
#[cfg(feature = "time")]
mod time_tables;
mod write_sharding;
mod xxh64;

#[cfg(feature = "derive")]
pub use dynashard_keys_derive::Sharded;
pub use error::KeyError;
pub use home_keys::HomeKeys;
pub use index::{IndexForm, IndexKey, IndexSharding};
pub use key::{ItemKey, PartitionKey, RESERVED_PREFIX, SortKey, SortKeyType};
pub use number::Number;
pub use physical::{PhysicalKey, PhysicalPartitionKey, Separator};
pub use placement::{Homes, Placement};
pub use shard::{ShardCount, ShardId};
#[cfg(feature = "derive")]
pub use sharded::{KeyPart, Sharded, SortPart, TextPart, assert_text, join_parts, part_text};
#[cfg(feature = "time")]
pub use time_tables::{TablePeriod, TimeTables};
pub use write_sharding::{Affix, ShardRule, WriteSharding};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
