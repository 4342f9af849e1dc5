//! The ledgers of a collection, and the decisions about it.

use dynashard_keys::PartitionKey;

use crate::model::error::Error;
use crate::model::history::{DecisionHistory, DecisionsPage};
use crate::model::lease::Deadline;
use crate::model::ledger::{Addition, Ledger, LedgerKind};
use crate::ports::{CollectionsPage, Dated, StoreError};
use crate::usecases::directory::leased::Directory;
use crate::usecases::retry::once;

impl Directory {
    /// Adds to a ledger, once: what is lost is lost.
    pub(crate) async fn add_to_ledger(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
        addition: &Addition,
        deadline: Deadline,
    ) -> Result<Dated<Ledger>, Error> {
        self.once(self.records().add_to_ledger(partition, kind, addition), deadline).await
    }

    /// A ledger as it is now.
    pub async fn ledger(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
        deadline: Deadline,
    ) -> Result<Ledger, Error> {
        Ok(self.once(self.records().ledger(partition, kind), deadline).await?.value)
    }

    /// What was decided about a collection.
    pub async fn decisions(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<DecisionHistory, Error> {
        self.once(self.records().decisions(partition), deadline).await
    }

    /// One page of what was decided about all collections.
    pub async fn all_decisions(
        &self,
        after: Option<&str>,
        deadline: Deadline,
    ) -> Result<DecisionsPage, Error> {
        self.once(self.records().all_decisions(after), deadline).await
    }

    /// One page of the collections that rest with more shards than their floor.
    pub async fn grown(
        &self,
        after: Option<&str>,
        deadline: Deadline,
    ) -> Result<CollectionsPage, Error> {
        self.once(self.records().grown(after), deadline).await
    }

    /// Puts a history in place of `seen`. Returns whether it was as seen.
    pub(crate) async fn save_decisions(
        &self,
        partition: &PartitionKey,
        seen: &DecisionHistory,
        next: &DecisionHistory,
        deadline: Deadline,
    ) -> Result<bool, Error> {
        let saving = self.records().save_decisions(partition, seen, next);
        let saving = async {
            match saving.await {
                Ok(()) => Ok(true),
                Err(StoreError::ConditionFailed { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        };
        self.once(saving, deadline).await
    }

    async fn once<T>(
        &self,
        request: impl Future<Output = Result<T, StoreError>>,
        deadline: Deadline,
    ) -> Result<T, Error> {
        once(self.clock(), deadline, request, "the metadata table did not answer in time").await
    }
}
