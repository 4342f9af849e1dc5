//! What the metadata of a collection becomes, by each step of a change of its shard count (protocol: "Phases").

use dynashard_keys::ShardCount;

use crate::model::epochs::{Epochs, Extent};
use crate::model::metadata::{CollectionMetadata, HistoryEntry, MAX_HISTORY_ENTRIES, Phase};

/// The metadata that may follow this, from an epoch second on.
#[derive(Clone, Copy)]
pub(crate) struct Next<'a> {
    of: &'a CollectionMetadata,
    now_secs: u64,
}

impl<'a> Next<'a> {
    pub(crate) const fn after(of: &'a CollectionMetadata, now_secs: u64) -> Self {
        Self { of, now_secs }
    }

    /// With a change to `to` begun of this extent. `None` where that would begin in an older epoch, or has the count.
    pub(crate) fn begun(self, extent: &Extent, to: ShardCount) -> Option<CollectionMetadata> {
        let CollectionMetadata { epochs, number_of_shards, .. } = self.of;
        let newest_differs = *number_of_shards != to;
        match extent {
            Extent::Newest => newest_differs.then(|| self.forward(None, to)),
            Extent::Behind { boundary, descending } => {
                let descending = if epochs.is_one() { *descending } else { epochs.descending };
                let epochs = Epochs { descending, ..epochs.clone() };
                let epochs = epochs.with_boundary(boundary.clone(), *number_of_shards)?;
                let divided = CollectionMetadata { epochs, ..self.of.clone() };
                newest_differs.then(|| Next::after(&divided, self.now_secs).forward(None, to))
            }
            Extent::Older(at) => {
                let differs = epochs.older.get(*at).is_some_and(|epoch| epoch.count != to);
                differs.then(|| self.forward(Some(*at), to))
            }
            Extent::Whole if newest_differs => Some(self.forward(None, to)),
            Extent::Whole => {
                let next = epochs.older.iter().rposition(|epoch| epoch.count != to)?;
                Some(self.forward(Some(next), to))
            }
        }
    }

    /// With a change to `to` begun of one epoch: an index into the older ones, or `None` for the newest.
    pub(crate) fn forward(self, epoch: Option<usize>, to: ShardCount) -> CollectionMetadata {
        let Self { of, now_secs } = self;
        CollectionMetadata {
            epochs: Epochs { changing: epoch, ..of.epochs.clone() },
            phase: Phase::Forward { from: of.epochs.count_of(epoch, of.number_of_shards), to },
            generation: of.generation.next(),
            largest_count: of.most_shards().max(to),
            last_updated_secs: now_secs,
            rev: of.rev + 1,
            ..of.clone()
        }
    }

    /// With `move` in place of `forward`: the new count is in force. `None` where no reshard is in `forward` that moves items.
    pub(crate) fn moving(self) -> Option<CollectionMetadata> {
        match (self.of.phase, self.of.reshard()) {
            (Phase::Forward { from, to }, Some(_)) => Some(CollectionMetadata {
                phase: Phase::Move { from, to },
                ..self.with_count_in_force(to)
            }),
            _ => None,
        }
    }

    /// With its change closed: a reshard in `move`, or a growth that moves nothing, whose new count is in force from here on. Epochs
    /// of equal counts are merged, unless the change is turned round. `None` where there is neither.
    pub(crate) fn closed(self, turns_round: bool) -> Option<CollectionMetadata> {
        let Self { of, now_secs } = self;
        let merged = || of.epochs.merged(of.number_of_shards);
        let closed = match of.phase {
            Phase::Move { .. } => CollectionMetadata {
                // Whoever turns the change round needs the epoch that it was about.
                epochs: if turns_round { of.epochs.clone() } else { merged() },
                last_updated_secs: now_secs,
                rev: of.rev + 1,
                ..of.clone()
            },
            Phase::Forward { to, .. } if of.reshard().is_none() => self.with_count_in_force(to),
            Phase::Forward { .. } | Phase::Stable => return None,
        };
        Some(CollectionMetadata { phase: Phase::Stable, cleanup_pending: true, ..closed })
    }

    /// When nothing is left of the last change.
    ///
    /// Where markers were removed from shards that are in use the change lasts until here: what those
    /// were throttled by is reported later, and must not pass for heat that came after the change.
    pub(crate) fn cleared_up(self, items_moved: u64) -> CollectionMetadata {
        let Self { of, now_secs } = self;
        let mut shards = of.placement.shards(of.number_of_shards);
        let was_in_use = shards.any(|shard| of.is_clearing_up(shard));
        let last_updated_secs = if was_in_use { now_secs } else { of.last_updated_secs };
        CollectionMetadata {
            // What was kept for a way back that was withdrawn.
            epochs: of.epochs.merged(of.number_of_shards),
            cleanup_pending: false,
            last_updated_secs,
            items_moved,
            rev: of.rev + 1,
            ..of.clone()
        }
    }

    fn with_count_in_force(self, count: ShardCount) -> CollectionMetadata {
        let Self { of, now_secs } = self;
        let (last_updated_secs, rev) = (now_secs, of.rev + 1);
        if let Some(at) = of.epochs.changing {
            let mut epochs = of.epochs.clone();
            epochs.older[at].count = count;
            return CollectionMetadata { epochs, last_updated_secs, rev, ..of.clone() };
        }
        let mut shard_history = of.shard_history.clone();
        shard_history.push(HistoryEntry { at_secs: now_secs, count });
        let dropped = shard_history.len().saturating_sub(MAX_HISTORY_ENTRIES);
        shard_history.drain(..dropped);
        CollectionMetadata {
            number_of_shards: count,
            largest_count: of.most_shards(),
            shard_history,
            last_updated_secs,
            rev,
            ..of.clone()
        }
    }
}
