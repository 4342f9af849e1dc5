use crate::StoredItem;
use crate::directory::Known;
use crate::ports::{
    Action, Arrival, Condition, Consistency, Expected, ItemStore, StoreError, Transfer,
    Transferred, Write,
};
use dynashard_keys::PhysicalKey;

/// Both homes of an item that a reshard moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Homes {
    pub(crate) old: PhysicalKey,
    pub(crate) new: PhysicalKey,
}

/// What an old home holds of an item that is not live there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OldHome {
    /// A marker of the running reshard: the item is settled.
    Marker,
    /// Nothing, or a marker of an earlier one: a late request may still put an item there.
    Nothing,
}

/// Why an item is not settled. Nothing that a client could see has happened, whatever it is, and
/// the operation may begin again.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Unsettled {
    /// An item is ahead of the metadata.
    Behind,
    /// Another operation, or a mover, was at the item in between.
    Changed,
    /// A request failed. One of unknown outcome may yet be carried out, which does no harm: it is
    /// conditional on what was seen.
    Failed(StoreError),
}

impl From<StoreError> for Unsettled {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// Sees to it that the old home of an item holds a marker of this reshard, and that what was live
/// there is at the new one. Then whatever is done at the new home is all that happens to the item.
pub(crate) async fn settle<I: ItemStore>(
    items: &I,
    homes: &Homes,
    known: &Known,
) -> Result<(), Unsettled> {
    match settle_live(items, homes, known).await? {
        OldHome::Marker => Ok(()),
        OldHome::Nothing => mark(items, homes, known).await,
    }
}

/// The same of an item that is live at its old home. Where nothing is, nothing is done.
pub(crate) async fn settle_live<I: ItemStore>(
    items: &I,
    homes: &Homes,
    known: &Known,
) -> Result<OldHome, Unsettled> {
    let generation = known.metadata.generation;
    match items.get(&homes.old, None, Consistency::Strong).await?.value {
        Some(item) if item.generation > generation => Err(Unsettled::Behind),
        Some(item) if item.is_live() => {
            relocate(items, homes, item, known).await?;
            Ok(OldHome::Marker)
        }
        Some(marker) if marker.generation == generation => Ok(OldHome::Marker),
        _ => Ok(OldHome::Nothing),
    }
}

/// Moves an item that was seen live at its old home. A mover begins here, with what it read from a
/// page.
pub(crate) async fn relocate<I: ItemStore>(
    items: &I,
    homes: &Homes,
    seen: StoredItem,
    known: &Known,
) -> Result<(), Unsettled> {
    let generation = known.metadata.generation;
    if seen.generation > generation {
        return Err(Unsettled::Behind);
    }
    let mut transfer = Transfer {
        old: homes.old.clone(),
        new: homes.new.clone(),
        seen: (seen.version, seen.generation),
        arrival: Arrival::Copy(StoredItem { generation, ..seen }),
        generation,
        lease: known.lease,
    };
    match items.transfer(&transfer).await? {
        Transferred::Done => Ok(()),
        Transferred::Refused { at_new: Some(found) } if found.generation > generation => {
            Err(Unsettled::Behind)
        }
        Transferred::Refused { at_new: Some(found) } if found.is_live() => {
            // A put has gone past what lies at the old home, or that came too late: the new home wins.
            // In a random collection a sort key was written twice, and one of the two is enough.
            transfer.arrival = Arrival::Present(if known.metadata.placement.is_calculated() {
                Expected::LiveIn(generation)
            } else {
                Expected::Live
            });
            match items.transfer(&transfer).await? {
                Transferred::Done => Ok(()),
                Transferred::Refused { .. } => Err(Unsettled::Changed),
            }
        }
        Transferred::Refused { .. } => Err(Unsettled::Changed),
    }
}

/// Puts a marker where nothing is live, so that no late request can put an item there.
async fn mark<I: ItemStore>(items: &I, homes: &Homes, known: &Known) -> Result<(), Unsettled> {
    let generation = known.metadata.generation;
    let write = Write {
        key: homes.old.clone(),
        action: Action::Put(StoredItem::marker(generation)),
        condition: Condition { generation, expected: Expected::Absent },
        lease: known.lease,
    };
    match items.write(&write).await {
        Ok(()) => Ok(()),
        Err(StoreError::ConditionFailed { existing }) => {
            if write.condition.generation_holds(existing.as_deref()) {
                Err(Unsettled::Changed)
            } else {
                Err(Unsettled::Behind)
            }
        }
        Err(error) => Err(error.into()),
    }
}
