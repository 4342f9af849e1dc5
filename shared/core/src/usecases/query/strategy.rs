//! The four strategies of a query.

use std::fmt;
use std::str::FromStr;

use crate::model::error::{Code, Error};

/// How the shards of a collection are read. The last three are the strategies of ["Dynamo DB
/// Sharding"](https://upthecreek.dev/software/dynamo-db-sharding).
///
/// With a page of L items, a collection of N shards, and items that are spread evenly:
///
/// | strategy | order | requests a page, of them side by side | items read per item returned |
/// |---|---|---|---|
/// | `ordered` | exact sort-key order | N and a few, up to 32 | 1 + 2 √(N / L) at most, about |
/// | `parallel` | within a shard | up to 32, all | 1 |
/// | `round-robin` | within a shard, and every shard gets as far | 1 and a few, none | 1 |
/// | `sequential` | within a shard, shard after shard | 1 and a few, none | 1 |
///
/// Each request takes half a read unit at least, or a whole one if it is strongly consistent. All of
/// them are in exact order while a reshard moves items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Strategy {
    /// In exact sort-key order over all shards. Its cursor is the last sort key alone, and good for
    /// any shard count.
    #[default]
    Ordered,
    /// As fast as it goes, for whole collections: up to 32 shards at once, each in its order, and
    /// the next ones as those end. Its cursor holds a position
    /// for each shard that is being read, and ends with the shard layout.
    Parallel,
    /// A page of each shard in turn, so that no shard is asked more than another and none is left
    /// for last. Of more than 256 shards the first 256 take
    /// turns, and the next come in as those end, so that the cursor, which holds a position for each
    /// of them, stays below 360 KB with any sort keys. It ends with the shard layout.
    RoundRobin,
    /// Shard after shard: what asks the least of a table, one partition at a time. Its cursor holds
    /// one sort key, and ends with the shard layout.
    Sequential,
}

impl Strategy {
    /// Every strategy.
    pub const ALL: [Self; 4] = [Self::Ordered, Self::Parallel, Self::RoundRobin, Self::Sequential];

    /// The name in requests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::Parallel => "parallel",
            Self::RoundRobin => "round-robin",
            Self::Sequential => "sequential",
        }
    }

    /// Whether its cursors hold a position for each shard, and so end with the shard layout.
    pub const fn has_positions(self) -> bool {
        match self {
            Self::Ordered => false,
            Self::Parallel | Self::RoundRobin | Self::Sequential => true,
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Strategy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|strategy| strategy.as_str() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            let why = format!("there is no strategy {text:?}: choose one of {names}");
            Error::new(Code::UnsupportedStrategy, why)
        })
    }
}
