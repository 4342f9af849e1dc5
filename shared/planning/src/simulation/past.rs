//! Which items of a collection lie in which of its epochs.

use dynashard_core::{
    BeginsBehind, CollectionMetadata, CountChange, Epoch, Epochs, Extent, begins_behind,
};
use dynashard_keys::{ShardCount, SortKey};

use crate::float;

/// How many items each epoch has, the oldest first, and the newest last. The metadata has their counts.
#[derive(Debug)]
pub(super) struct Past {
    items: Vec<u64>,
    /// What would have been moved if each change of the count had been about all items.
    pub(super) moved_if_whole: u64,
    /// The most epochs at any time.
    pub(super) most_epochs: usize,
}

impl Past {
    /// One epoch.
    pub(super) fn new(items: u64) -> Self {
        Self { items: vec![items], moved_if_whole: 0, most_epochs: 1 }
    }

    /// Takes note of new items, which have the newest sort keys.
    pub(super) fn write(&mut self, items: u64) {
        if let Some(newest) = self.items.last_mut() {
            *newest += items;
        }
    }

    /// The oldest epoch that costs next to nothing to move.
    pub(super) fn few(&self) -> Option<usize> {
        let older = &self.items[..self.items.len() - 1];
        older.iter().position(|items| *items < Epochs::FEW_ITEMS)
    }

    /// Whether an older epoch has so few items that growth may wait while they move.
    pub(super) fn is_soon_moved(&self, at: usize) -> bool {
        self.items[at] <= Epochs::MOST_ITEMS_MERGED
    }

    /// Whether what is decided on leaves what there is where it is, where writers know the keys of their last writes, or not.
    pub(super) fn is_left(
        &self,
        metadata: &CollectionMetadata,
        action: CountChange,
        keys_are_known: bool,
    ) -> bool {
        let epochs = &metadata.epochs;
        let newest = self.items.last().copied().unwrap_or_default();
        epochs.count() < Epochs::MAX
            && match begins_behind(epochs, action, keys_are_known) {
                Some(BeginsBehind::LastWrites { least }) => keys_are_known && newest >= least,
                Some(BeginsBehind::NewestItems) => true,
                None => false,
            }
    }

    /// Has a change be about this part of the collection. Boundaries are the seconds in which epochs began.
    pub(super) fn divide(&mut self, metadata: &mut CollectionMetadata, extent: &Extent) {
        if let Extent::Behind { boundary, .. } = extent {
            let count = metadata.number_of_shards;
            metadata.epochs.older.push(Epoch { count, boundary: boundary.clone() });
            self.items.push(0);
            self.most_epochs = self.most_epochs.max(self.items.len());
        }
        metadata.epochs.changing = match extent {
            Extent::Older(at) => Some(*at),
            Extent::Newest | Extent::Behind { .. } | Extent::Whole => None,
        };
    }

    /// How many items a change from one count to another moves, now that writers know of it.
    pub(super) fn begin_move(
        &mut self,
        metadata: &CollectionMetadata,
        from: ShardCount,
        to: ShardCount,
    ) -> u64 {
        let staying = f64::from(from.min(to).get()) / f64::from(from.max(to).get());
        let moved = |items: u64| super::rounded(float(items) * (1.0 - staying));
        let of = metadata.epochs.changing;
        if of.is_none() {
            self.moved_if_whole += moved(self.items());
        }
        moved(self.items[of.unwrap_or(self.items.len() - 1)])
    }

    /// The change has closed: neighbours of equal counts become one.
    pub(super) fn merge(&mut self, metadata: &mut CollectionMetadata) {
        let merged = metadata.epochs.merged(metadata.number_of_shards);
        let ends = metadata.epochs.older.iter().map(Some).chain([None]);
        let (mut items, mut carried) = (Vec::new(), 0);
        for (of_epoch, end) in self.items.iter().zip(ends) {
            carried += of_epoch;
            if end.is_none_or(|end| merged.older.contains(end)) {
                items.push(std::mem::take(&mut carried));
            }
        }
        self.items = items;
        metadata.epochs = merged;
    }

    /// The shards that a page asks, by each item.
    pub(super) fn shards_read(&self, metadata: &CollectionMetadata) -> f64 {
        let of_epoch = self.items.iter().zip(metadata.counts());
        of_epoch.map(|(items, count)| float(*items) * f64::from(count.get())).sum()
    }

    /// All items.
    pub(super) fn items(&self) -> u64 {
        self.items.iter().sum()
    }
}

/// What lies behind all that was written until this second.
pub(super) fn behind(second: u32) -> Extent {
    let boundary = SortKey::string(format!("{second:010}")).expect("a short key");
    Extent::Behind { boundary, descending: false }
}
