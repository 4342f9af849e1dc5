//! What every writer and the mover do to an item that changes its home (protocol: "Steps").

use dynashard_keys::PhysicalKey;

use crate::model::error::{Code, Error};
use crate::model::fields::Fields;
use crate::model::guard::{Action, Arrival, Condition, Expected, Transfer, Transferred, Write};
use crate::model::item::StoredItem;
use crate::model::version::{Generation, Version};
use crate::ports::{Consistency, ItemStore, StoreError};
use crate::usecases::directory::Known;
use crate::usecases::retry::refusal;

/// Both homes of an item that a reshard moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BothHomes {
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
    /// DynamoDB rejects the item at its new home, where nothing is live. It stays at its old one.
    Unmovable(String),
    /// A request failed. One of unknown outcome may yet be carried out, which does no harm: it is
    /// conditional on what was seen.
    Failed(StoreError),
}

impl Unsettled {
    /// The answer to a request that failed.
    pub(crate) fn failure(&self) -> Option<&StoreError> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Behind | Self::Changed | Self::Unmovable(_) => None,
        }
    }

    /// Why the operation begins again: `None` if its metadata is out of date. An error if it does not.
    pub(crate) fn refusal(self) -> Result<Option<Error>, Error> {
        Ok(Some(match self {
            Self::Behind => return Ok(None),
            Self::Changed => {
                Error::new(Code::Contended, "the item was being moved by another operation")
            }
            Self::Unmovable(why) => {
                let why =
                    format!("DynamoDB rejects the item in the shard that it is to move to: {why}");
                return Err(Error::new(Code::UnmovableItem, why));
            }
            // Whatever becomes of it is conditional on what was seen, and clients see none of it.
            Self::Failed(StoreError::OutcomeUnknown(why)) => Error::new(Code::Unavailable, why),
            Self::Failed(error) => refusal(error)?,
        }))
    }
}

impl From<StoreError> for Unsettled {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
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

/// The steps that bring one item to its new home, under the metadata in hand (protocol: "Steps").
pub(crate) struct Settling<'a> {
    items: &'a dyn ItemStore,
    homes: &'a BothHomes,
    known: &'a Known,
    consumed_wcu: f64,
    found_live: bool,
}

impl<'a> Settling<'a> {
    pub(crate) fn new(items: &'a dyn ItemStore, homes: &'a BothHomes, known: &'a Known) -> Self {
        Self { items, homes, known, consumed_wcu: 0.0, found_live: false }
    }

    /// The write units that DynamoDB has reported for the steps so far.
    pub(crate) fn consumed_wcu(&self) -> f64 {
        self.consumed_wcu
    }

    /// Whether the item was live at its old home, and so has to move.
    pub(crate) fn found_live(&self) -> bool {
        self.found_live
    }

    /// Sees to it that the old home of the item holds a marker of this reshard, and that what was live
    /// there is at the new one. Then whatever is done at the new home is all that happens to the item.
    pub(crate) async fn settle(&mut self) -> Result<(), Unsettled> {
        match self.settle_live().await? {
            OldHome::Marker => Ok(()),
            OldHome::Nothing => self.mark().await,
        }
    }

    /// Settles an item that is live at its old home. If nothing is live there, nothing is done.
    pub(crate) async fn settle_live(&mut self) -> Result<OldHome, Unsettled> {
        let generation = self.known.metadata.generation;
        match self.items.get(&self.homes.old, None, Consistency::Strong).await?.value {
            Some(item) if item.generation > generation => Err(Unsettled::Behind),
            Some(item) if item.is_live() => {
                self.relocate(item).await?;
                Ok(OldHome::Marker)
            }
            Some(marker) if marker.generation == generation => Ok(OldHome::Marker),
            _ => Ok(OldHome::Nothing),
        }
    }

    /// Moves an item that was seen live at its old home, or makes it give way.
    pub(crate) async fn relocate(&mut self, seen: StoredItem) -> Result<(), Unsettled> {
        let version = (seen.version, seen.generation);
        match self.bring(seen).await? {
            Brought::Arrived => Ok(()),
            Brought::Occupied => self.give_way(version).await,
        }
    }

    /// Moves an item that a read saw live at its old home and nowhere else, and returns it as it then lies
    /// at the new one. Whoever shows an item to a client does this first (invariant I31).
    pub(crate) async fn bring_observed(
        &mut self,
        seen: StoredItem,
    ) -> Result<StoredItem, Unsettled> {
        let generation = self.known.metadata.generation;
        match self.bring(seen.clone()).await? {
            Brought::Arrived => Ok(StoredItem { generation, ..seen }),
            Brought::Occupied => Err(Unsettled::Changed),
        }
    }

    /// One transaction: an item that was seen live at its old home goes to the new one, if nothing is
    /// live there.
    pub(crate) async fn bring(&mut self, seen: StoredItem) -> Result<Brought, Unsettled> {
        self.found_live = true;
        let generation = self.known.metadata.generation;
        if seen.generation > generation {
            return Err(Unsettled::Behind);
        }
        let version = (seen.version, seen.generation);
        let arrival = Arrival::Copy(StoredItem { generation, ..seen });
        let transferred = match self.transfer(version, arrival).await {
            // DynamoDB may reject the item before it looks at the conditions.
            Err(StoreError::Rejected(why)) => {
                let keys_only = Fields::none();
                let read = self.items.get(&self.homes.new, Some(&keys_only), Consistency::Strong);
                match read.await?.value {
                    Some(found) if found.is_live() || found.generation > generation => {
                        Transferred::Refused { at_new: Some(Box::new(found)) }
                    }
                    _ => return Err(Unsettled::Unmovable(why)),
                }
            }
            answer => answer?,
        };
        match transferred {
            Transferred::Done { .. } => Ok(Brought::Arrived),
            Transferred::Refused { at_new: Some(found) } if found.generation > generation => {
                Err(Unsettled::Behind)
            }
            Transferred::Refused { at_new: Some(found) } if found.is_live() => {
                Ok(Brought::Occupied)
            }
            Transferred::Refused { .. } => Err(Unsettled::Changed),
        }
    }

    /// One transaction: what was seen at the old home gives way, if the new home still has an item of
    /// this reshard. In a random collection any copy of a sort key that was written twice is enough.
    pub(crate) async fn give_way(&mut self, seen: (Version, Generation)) -> Result<(), Unsettled> {
        let metadata = &self.known.metadata;
        let generation = metadata.generation;
        let arrival = Arrival::Present(if metadata.placement.is_calculated() {
            Expected::LiveIn(generation)
        } else {
            Expected::Live
        });
        match self.transfer(seen, arrival).await? {
            Transferred::Done { .. } => Ok(()),
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

    async fn transfer(
        &mut self,
        seen: (Version, Generation),
        arrival: Arrival,
    ) -> Result<Transferred, StoreError> {
        let transfer = Transfer {
            old: self.homes.old.clone(),
            new: self.homes.new.clone(),
            seen,
            arrival,
            generation: self.known.metadata.generation,
            lease: self.known.lease,
        };
        let transferred = self.items.transfer(&transfer).await?;
        if let Transferred::Done { consumed_wcu } = transferred {
            self.consumed_wcu += consumed_wcu;
        }
        Ok(transferred)
    }

    /// Puts a marker where nothing is live, so that no late request can put an item there.
    async fn mark(&mut self) -> Result<(), Unsettled> {
        let generation = self.known.metadata.generation;
        let write = Write {
            key: self.homes.old.clone(),
            action: Action::Put(StoredItem::marker(generation).into()),
            condition: Condition { generation, expected: Expected::Absent },
            lease: self.known.lease,
        };
        match self.items.write(&write).await {
            Ok(consumed_wcu) => {
                self.consumed_wcu += consumed_wcu;
                Ok(())
            }
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
}
