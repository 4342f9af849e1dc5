//! Which items of a collection lie in which of its epochs.

use dynashard_core::{CollectionMetadata, CountChange, Epoch, Epochs, Extent};
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
        let is_large = self.items() >= Epochs::LEAST_ITEMS_BEFORE_FIRST;
        epochs.count() < Epochs::MAX
            && match action {
                CountChange::Grow(_) if epochs.is_one() => is_large && keys_are_known,
                CountChange::Grow(_) => {
                    self.items.last().is_some_and(|items| *items >= Epochs::FEW_ITEMS)
                }
                CountChange::Shrink(_) => !epochs.shrinks_in_place(),
                CountChange::TurnRound(_) | CountChange::None => false,
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
        let older = &metadata.epochs.older;
        let newest = metadata.number_of_shards;
        let mut items = Vec::new();
        let mut carried = 0;
        for (at, of_epoch) in self.items.iter().enumerate() {
            let count = |at: usize| older.get(at).map_or(newest, |epoch| epoch.count);
            carried += of_epoch;
            if at + 1 == self.items.len() || count(at) != count(at + 1) {
                items.push(std::mem::take(&mut carried));
            }
        }
        self.items = items;
        metadata.epochs = metadata.epochs.merged(newest);
    }

    /// The shards that a page asks, by each item.
    pub(super) fn shards_read(&self, metadata: &CollectionMetadata) -> f64 {
        let counts = metadata.epochs.older.iter().map(|epoch| epoch.count);
        let counts = counts.chain([metadata.number_of_shards]);
        let of_epoch = self.items.iter().zip(counts);
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
