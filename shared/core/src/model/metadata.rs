//! The metadata of an item collection: its count, its generation, the phase of a change, and the shard layout that follows.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use dynashard_keys::{ItemKey, PartitionKey, Placement, ShardCount, ShardId, SortKey, SortKeyType};

use crate::model::contradiction::Contradiction;
use crate::model::epochs::Epochs;
use crate::model::version::Generation;

/// How many entries `shard_history` keeps; the oldest are dropped.
pub const MAX_HISTORY_ENTRIES: usize = 20;

/// The metadata item of one collection. `number_of_shards`, `last_updated` and `shard_history` are
/// those of ["Choosing the right number of shards for your large-scale Amazon DynamoDB
/// table"](https://aws.amazon.com/blogs/database/choosing-the-right-number-of-shards-for-your-large-scale-amazon-dynamodb-table/);
/// the protocol adds the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionMetadata {
    /// The logical partition key.
    pub partition: PartitionKey,
    /// The count in force, that of the newest epoch where there are several.
    pub number_of_shards: ShardCount,
    /// The older epochs, which have counts of their own.
    pub epochs: Epochs,
    /// When the count or the phase last changed, or the markers of that were removed, in epoch
    /// seconds. Guards the cooldown.
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
    /// The largest count that a change ever asked for. Items may have been left in so many shards.
    pub largest_count: ShardCount,
    /// Whether the job of the last change is still there: leases on what was before may be, too, and
    /// markers that the rebalancer is to remove.
    pub cleanup_pending: bool,
    /// How many items the last change has moved that was cleared up.
    pub items_moved: u64,
}

impl CollectionMetadata {
    /// What holds of a collection without a metadata item: one shard, which is the key itself.
    pub fn cold(partition: PartitionKey, placement: Placement) -> Self {
        Self {
            partition,
            number_of_shards: ShardCount::ONE,
            epochs: Epochs::default(),
            last_updated_secs: 0,
            shard_history: Vec::new(),
            generation: Generation::new(0),
            phase: Phase::Stable,
            placement,
            rev: 0,
            min_shards: ShardCount::ONE,
            largest_count: ShardCount::ONE,
            cleanup_pending: false,
            items_moved: 0,
        }
    }

    /// A collection of `count` shards that rests since its last change, as tests and benchmarks lay it out.
    pub fn stable(
        partition: PartitionKey,
        placement: Placement,
        count: ShardCount,
        now_secs: u64,
    ) -> Self {
        Self {
            number_of_shards: count,
            generation: Generation::new(1),
            min_shards: count,
            largest_count: count,
            ..Self::cold(partition, placement)
        }
        .enlisted(now_secs)
    }

    /// The metadata of a collection that gets its item, as before any change.
    #[must_use]
    pub fn enlisted(&self, now_secs: u64) -> Self {
        let first = HistoryEntry { at_secs: now_secs, count: self.number_of_shards };
        Self {
            last_updated_secs: now_secs,
            shard_history: vec![first],
            rev: self.rev + 1,
            ..self.clone()
        }
    }

    /// Whether it has a metadata item.
    pub fn is_enlisted(&self) -> bool {
        self.rev > 0
    }

    /// What holds of one item: this, with the count of its epoch, and the change if that is about this epoch. All other epochs are
    /// left out.
    #[must_use]
    pub fn at(self: &Arc<Self>, sort: &SortKey) -> Arc<Self> {
        if self.epochs.is_one() {
            return Arc::clone(self);
        }
        Arc::new(self.of_epoch(self.epochs.of(sort)))
    }

    /// What holds of the items of one epoch, an index into the older ones or `None` for the newest.
    #[must_use]
    pub fn of_epoch(&self, epoch: Option<usize>) -> Self {
        let is_changing = epoch == self.epochs.changing;
        // Asked for each item: the boundaries of all epochs are not copied for it.
        Self {
            partition: self.partition.clone(),
            number_of_shards: self.epochs.count_of(epoch, self.number_of_shards),
            phase: if is_changing { self.phase } else { Phase::Stable },
            epochs: Epochs::default(),
            shard_history: self.shard_history.clone(),
            ..*self
        }
    }

    /// The counts in force of all epochs, oldest first.
    pub fn counts(&self) -> impl Iterator<Item = ShardCount> {
        let older = self.epochs.older.iter().map(|epoch| epoch.count);
        older.chain([self.number_of_shards])
    }

    /// The shards of the newest epoch that take writes: those that are left as soon as a shrink begins, and the new ones of a growth
    /// when it is in force.
    pub fn takes_writes(&self) -> ShardCount {
        match self.phase {
            Phase::Forward { from, to } if self.epochs.changing.is_none() => from.min(to),
            _ => self.number_of_shards,
        }
    }

    /// The most shards that an item may lie in now, whatever its epoch.
    pub fn widest(&self) -> ShardCount {
        // The phase may be that of an older one.
        self.counts().fold(self.phase.most_shards(self.number_of_shards), ShardCount::max)
    }

    /// Which shards reads and writes use now, of the one epoch that this is [`at`](Self::at).
    pub fn layout(&self) -> Layout {
        debug_assert!(self.epochs.is_one(), "epochs have layouts of their own");
        match self.phase {
            Phase::Stable => {
                Layout { readable: self.number_of_shards, writable: self.number_of_shards }
            }
            // Growth of a random collection moves nothing: readers go first, writers follow when no
            // reader can be left behind (protocol: "Random growth").
            Phase::Forward { from, to } if self.reshard().is_none() => {
                Layout { readable: to, writable: from }
            }
            Phase::Forward { from, to } | Phase::Move { from, to } => {
                Layout { readable: from.max(to), writable: to }
            }
        }
    }

    /// The reshard that runs, if it is one that moves items.
    pub fn reshard(&self) -> Option<Reshard> {
        let placement = self.placement;
        let (from, to, is_in_move) = match self.phase {
            Phase::Stable => return None,
            Phase::Forward { from, to } => (from, to, false),
            Phase::Move { from, to } => (from, to, true),
        };
        (placement.is_calculated() || from > to).then_some(Reshard {
            placement,
            from,
            to,
            is_in_move,
        })
    }

    /// The most shards that the collection ever had, or is about to have.
    pub fn most_shards(&self) -> ShardCount {
        // A change by earlier software leaves `largest_count` as it was.
        let counts = [self.min_shards, self.largest_count];
        let history = self.shard_history.iter().map(|entry| entry.count);
        history.chain(counts).fold(self.widest(), ShardCount::max)
    }

    /// Whether the fields fit each other. What the protocol has written always does; what somebody
    /// has changed by hand may not, and items would be looked for, or moved, where they do not belong.
    pub(crate) fn check(&self, sort_keys: SortKeyType) -> Result<(), Contradiction> {
        let Self { number_of_shards: count, placement, phase, .. } = self;
        let phase_name = phase.as_str();
        if let Err(error) = placement.check(*count) {
            return Err(Contradiction::new("number_of_shards", error));
        }
        // Whose clock ran late decides which entry is the last one.
        if self.shard_history.iter().all(|entry| entry.count != *count) {
            let why = format!("{count} is not in shard_history");
            return Err(Contradiction::new("number_of_shards", why));
        }
        self.epochs.check(*placement, sort_keys)?;
        let (Phase::Forward { from, to } | Phase::Move { from, to }) = *phase else {
            return Ok(());
        };
        for (field, of_field) in [("from", from), ("to", to)] {
            if let Err(error) = placement.check(of_field) {
                return Err(Contradiction::new(field, error));
            }
        }
        let (field, in_force) = match phase {
            Phase::Move { .. } => ("to", to),
            Phase::Forward { .. } | Phase::Stable => ("from", from),
        };
        let count = self.epochs.count_of(self.epochs.changing, *count);
        if in_force != count {
            let why = format!("{in_force} is not the count in force, {count}, as in {phase_name}");
            return Err(Contradiction::new(field, why));
        }
        if from == to {
            return Err(Contradiction::new("to", format!("{to} is from, too")));
        }
        if matches!(phase, Phase::Move { .. }) && self.reshard().is_none() {
            let why = format!("{phase_name}, although growth moves nothing under {placement}");
            return Err(Contradiction::new("phase", why));
        }
        Ok(())
    }

    /// Whether the shard count was ever changed.
    pub(crate) fn has_changed(&self) -> bool {
        self.rev > 1
    }

    /// Whether markers of the last reshard may be left in a shard that is in use: while they are
    /// removed, that shard may be throttled by the rebalancer and not by its load.
    pub(crate) fn is_clearing_up(&self, shard: ShardId) -> bool {
        // Growth has left them in all shards that there were before, and shrinking in shards that
        // are gone.
        let before = self.shard_history.iter().rev().map(|entry| entry.count).nth(1);
        self.cleanup_pending
            && self.placement.is_calculated()
            && before.is_some_and(|before| {
                before < self.number_of_shards
                    && self.placement.shards(before).any(|marked| marked == shard)
            })
    }

    /// How many items it has, about: as many as its last change moved tell. 0 where that is not known.
    pub fn estimated_items(&self) -> f64 {
        let mut counts = self.shard_history.iter().rev().map(|entry| f64::from(entry.count.get()));
        // What an epoch has moved tells nothing of the others.
        let (Some(now), Some(before), true) = (counts.next(), counts.next(), self.epochs.is_one())
        else {
            return 0.0;
        };
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let moved = self.items_moved as f64;
        let (most, least) = (now.max(before), now.min(before));
        if most > least { moved * most / (most - least) } else { 0.0 }
    }

    /// Whether a schedule has to look whether it needs all its shards, and all its epochs.
    pub fn may_shrink(&self) -> bool {
        let has_more = self.number_of_shards > self.min_shards || self.epochs.are_many();
        self.phase == Phase::Stable && has_more
    }

    /// Whether it is what holds until somebody decides on another count, so that others know it without reading it again.
    pub fn rests(&self) -> bool {
        self.is_enlisted() && !self.needs_rebalancing()
    }

    /// Whether there is something for the rebalancer to do: a change of the count runs, or one is to be
    /// cleared up. The sparse index lists these collections.
    pub fn needs_rebalancing(&self) -> bool {
        self.phase != Phase::Stable || self.cleanup_pending
    }
}

/// A reshard that moves items, as metadata publishes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reshard {
    placement: Placement,
    /// The old count.
    pub from: ShardCount,
    /// The new count.
    pub to: ShardCount,
    /// Whether `move` is in force, and not `forward`: every lease on what was before is over, and a put goes to the new
    /// home whatever lies at the old one (protocol: "Writes in `move`").
    pub is_in_move: bool,
}

impl Reshard {
    /// The shards that items leave. Under a growing count they hold all others, too.
    pub fn sources(&self) -> impl ExactSizeIterator<Item = ShardId> + Clone {
        let staying = if self.from > self.to { self.to.get() } else { 0 };
        self.placement.shards(self.from).skip(usize::try_from(staying).unwrap_or(usize::MAX))
    }

    /// The shards that items come to. Never one of [`Reshard::sources`].
    pub fn destinations(&self) -> impl ExactSizeIterator<Item = ShardId> + Clone {
        let before = if self.to > self.from { self.from.get() } else { 0 };
        self.placement.shards(self.to).skip(usize::try_from(before).unwrap_or(usize::MAX))
    }

    /// Both homes of an item that changes its home, or `None` for one that does not, and for one of
    /// a random collection, which is where it was found.
    pub fn homes(&self, key: &ItemKey) -> Option<(ShardId, ShardId)> {
        let old = self.placement.home(key, self.from)?;
        let new = self.new_home(key);
        (old != new).then_some((old, new))
    }

    /// Where an item belongs under the new count. An item of a random collection belongs nowhere in
    /// particular; where it goes to must all the same be known to two movers alike, so that it cannot
    /// arrive twice.
    pub fn new_home(&self, key: &ItemKey) -> ShardId {
        home_or_spread(self.placement, key, self.to)
    }

    /// Whether an item in this shard counts: it is at its home under the old or under the new count,
    /// or in a random collection, where any shard will do.
    pub fn may_hold(&self, key: &ItemKey, shard: ShardId) -> bool {
        let home = |count| self.placement.home(key, count).is_none_or(|home| home == shard);
        home(self.from) || home(self.to)
    }

    /// Whether an item that lies in `shard` is to leave it. What lies neither at the old home nor at
    /// the new one no reader returns, and it must not take the place of what is there.
    pub fn leaves(&self, key: &ItemKey, shard: ShardId) -> bool {
        if self.placement.is_calculated() {
            return self.homes(key).is_some_and(|(old, _)| old == shard);
        }
        self.sources().any(|source| source == shard)
    }
}

/// Where an item belongs among `count` shards, or where an item of a random collection goes to if it
/// has to leave its shard: whoever moves it, it goes to the same one.
pub(crate) fn home_or_spread(placement: Placement, key: &ItemKey, count: ShardCount) -> ShardId {
    placement.home(key, count).unwrap_or_else(|| {
        let spread = Placement::Jump.home(key, count).unwrap_or(ShardId::new(0));
        ShardId::new(spread.get() + 1)
    })
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

    /// The count while nothing changes; the larger of both during a change.
    pub fn most_shards(self, present: ShardCount) -> ShardCount {
        match self {
            Self::Stable => present,
            Self::Forward { from, to } | Self::Move { from, to } => from.max(to),
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
        let malformed = || format!("{text:?} is not of the form epoch:count");
        let (at_secs, count) = text.split_once(':').ok_or_else(malformed)?;
        Ok(Self {
            at_secs: at_secs.parse().map_err(|_| malformed())?,
            count: ShardCount::new(count.parse().map_err(|_| malformed())?)
                .map_err(|e| e.to_string())?,
        })
    }
}
