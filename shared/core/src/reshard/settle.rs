use crate::directory::Known;
use crate::ports::{
    Action, Arrival, Condition, Consistency, Expected, ItemStore, StoreError, Transfer,
    Transferred, Write,
};
use crate::{Generation, StoredItem, Version};
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

/// Moves an item that was seen live at its old home, or makes it give way.
pub(crate) async fn relocate<I: ItemStore>(
    items: &I,
    homes: &Homes,
    seen: StoredItem,
    known: &Known,
) -> Result<(), Unsettled> {
    let version = (seen.version, seen.generation);
    match bring(items, homes, seen, known).await? {
        Brought::Arrived => Ok(()),
        Brought::Occupied => give_way(items, homes, version, known).await,
    }
}

/// What became of an item that was to arrive at its new home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Brought {
    Arrived,
    /// Another is live there: a put has gone past the old home, or what lies at it came late. In a
    /// random collection a sort key was written twice.
    Occupied,
}

/// One transaction: an item that was seen live at its old home goes to the new one, if nothing is
/// live there.
pub(crate) async fn bring<I: ItemStore>(
    items: &I,
    homes: &Homes,
    seen: StoredItem,
    known: &Known,
) -> Result<Brought, Unsettled> {
    let generation = known.metadata.generation;
    if seen.generation > generation {
        return Err(Unsettled::Behind);
    }
    let version = (seen.version, seen.generation);
    let arrival = Arrival::Copy(StoredItem { generation, ..seen });
    match items.transfer(&transfer(homes, version, arrival, known)).await? {
        Transferred::Done => Ok(Brought::Arrived),
        Transferred::Refused { at_new: Some(found) } if found.generation > generation => {
            Err(Unsettled::Behind)
        }
        Transferred::Refused { at_new: Some(found) } if found.is_live() => Ok(Brought::Occupied),
        Transferred::Refused { .. } => Err(Unsettled::Changed),
    }
}

/// One transaction: what was seen at the old home gives way, if the new home still has an item of
/// this reshard. Of a sort key that was written twice in a random collection any one is enough.
pub(crate) async fn give_way<I: ItemStore>(
    items: &I,
    homes: &Homes,
    seen: (Version, Generation),
    known: &Known,
) -> Result<(), Unsettled> {
    let metadata = &known.metadata;
    let arrival = Arrival::Present(if metadata.placement.is_calculated() {
        Expected::LiveIn(metadata.generation)
    } else {
        Expected::Live
    });
    let generation = metadata.generation;
    match items.transfer(&transfer(homes, seen, arrival, known)).await? {
        Transferred::Done => Ok(()),
        Transferred::Refused { at_new: Some(found) } if found.generation > generation => {
            Err(Unsettled::Behind)
        }
        // No write leaves one there, so nothing says which of the two is the item.
        Transferred::Refused { at_new: Some(found) } if found.is_live() => {
            let why = format!(
                "an item lies at its old home, and another at its new one since generation {}, \
                 before the reshard of generation {} began",
                found.generation.get(),
                generation.get()
            );
            Err(Unsettled::Failed(StoreError::Corrupt(why)))
        }
        Transferred::Refused { .. } => Err(Unsettled::Changed),
    }
}

fn transfer(
    homes: &Homes,
    seen: (Version, Generation),
    arrival: Arrival,
    known: &Known,
) -> Transfer {
    Transfer {
        old: homes.old.clone(),
        new: homes.new.clone(),
        seen,
        arrival,
        generation: known.metadata.generation,
        lease: known.lease,
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
