use std::fmt;
use std::str::FromStr;

use dynashard_keys::{PartitionKey, Placement, ShardCount};

use crate::Generation;

/// How many entries `shard_history` keeps; the oldest are dropped (seed 000: "a reasonable number
/// of shard updates").
pub const MAX_HISTORY_ENTRIES: usize = 20;

/// The metadata item of one collection: seed 000's three attributes, and what the protocol adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionMetadata {
    /// The logical partition key.
    pub partition: PartitionKey,
    /// The count in force.
    pub number_of_shards: ShardCount,
    /// When the count last changed, in epoch seconds. Guards the cooldown.
    pub last_updated_secs: u64,
    /// Counts and when they came into force, oldest first, at most [`MAX_HISTORY_ENTRIES`].
    pub shard_history: Vec<HistoryEntry>,
    /// The generation of the layout.
    pub generation: Generation,
    /// Where the collection stands in a reshard.
    pub phase: Phase,
    /// How its items find their shards.
    pub placement: Placement,
    /// The optimistic lock: every change of this item raises it.
    pub rev: u64,
    /// Automatic shrinking stops here: the count of a pre-sharded collection, otherwise one.
    pub min_shards: ShardCount,
}

impl CollectionMetadata {
    /// A new collection of one shard, for its first write.
    pub fn first_write(partition: PartitionKey, placement: Placement, now_secs: u64) -> Self {
        Self::pre_sharded(partition, placement, ShardCount::ONE, now_secs)
    }

    /// A new collection of `count` shards, which stays the floor of automatic shrinking.
    pub fn pre_sharded(
        partition: PartitionKey,
        placement: Placement,
        count: ShardCount,
        now_secs: u64,
    ) -> Self {
        Self {
            partition,
            number_of_shards: count,
            last_updated_secs: now_secs,
            shard_history: vec![HistoryEntry { at_secs: now_secs, count }],
            generation: Generation::new(1),
            phase: Phase::Stable,
            placement,
            rev: 1,
            min_shards: count,
        }
    }

    /// Which shards reads and writes use now, or `None` in a phase that this version cannot follow.
    pub fn layout(&self) -> Option<Layout> {
        match self.phase {
            Phase::Stable => {
                Some(Layout { readable: self.number_of_shards, writable: self.number_of_shards })
            }
            // Growth of a random collection moves nothing: readers go first, writers follow when no
            // reader can be left behind (protocol: "Random growth").
            Phase::Forward { from, to } if !self.placement.is_calculated() && from < to => {
                Some(Layout { readable: to, writable: from })
            }
            Phase::Forward { .. } | Phase::Move { .. } => None,
        }
    }

    /// Whether the shard count was ever changed.
    pub(crate) fn has_changed(&self) -> bool {
        self.rev > 1
    }

    /// The metadata with a growth to `to` begun: readers use the new count.
    #[must_use]
    pub(crate) fn with_growth_begun(&self, to: ShardCount, now_secs: u64) -> Self {
        Self {
            phase: Phase::Forward { from: self.number_of_shards, to },
            generation: self.generation.next(),
            last_updated_secs: now_secs,
            rev: self.rev + 1,
            ..self.clone()
        }
    }

    /// The metadata with its running growth finished: the new count is in force. `None` where no
    /// growth runs that needs no moving.
    pub(crate) fn with_growth_finished(&self, now_secs: u64) -> Option<Self> {
        let Layout { readable, writable } = self.layout()?;
        if readable == writable {
            return None;
        }
        let mut shard_history = self.shard_history.clone();
        shard_history.push(HistoryEntry { at_secs: now_secs, count: readable });
        let dropped = shard_history.len().saturating_sub(MAX_HISTORY_ENTRIES);
        shard_history.drain(..dropped);
        Some(Self {
            phase: Phase::Stable,
            number_of_shards: readable,
            shard_history,
            last_updated_secs: now_secs,
            rev: self.rev + 1,
            ..self.clone()
        })
    }

    /// Whether the sparse index lists the collection: it has several shards, or a reshard runs.
    pub fn is_active(&self) -> bool {
        self.number_of_shards > ShardCount::ONE || self.phase != Phase::Stable
    }
}

/// Which shards are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The count that reads cover.
    pub readable: ShardCount,
    /// The count that new items are placed by. Never above `readable`.
    pub writable: ShardCount,
}

/// Where a collection stands in a reshard (protocol: "Phases").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// One layout is in force.
    Stable,
    /// Writers mark and move what they touch; the old count is in force.
    Forward {
        /// The old count.
        from: ShardCount,
        /// The new count.
        to: ShardCount,
    },
    /// The new count is in force, and the mover empties the old homes.
    Move {
        /// The old count.
        from: ShardCount,
        /// The new count.
        to: ShardCount,
    },
}

impl Phase {
    /// The name in metadata and in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Forward { .. } => "forward",
            Self::Move { .. } => "move",
        }
    }
}

/// One entry of `shard_history`, written as `epoch:count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HistoryEntry {
    /// When the count came into force, in epoch seconds.
    pub at_secs: u64,
    /// The count.
    pub count: ShardCount,
}

impl fmt::Display for HistoryEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.at_secs, self.count)
    }
}

impl FromStr for HistoryEntry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("{text:?} is no epoch:count");
        let (at_secs, count) = text.split_once(':').ok_or_else(malformed)?;
        Ok(Self {
            at_secs: at_secs.parse().map_err(|_| malformed())?,
            count: ShardCount::new(count.parse().map_err(|_| malformed())?)
                .map_err(|e| e.to_string())?,
        })
    }
}
