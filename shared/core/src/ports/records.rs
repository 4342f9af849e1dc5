//! The metadata table, as a store of records.

use async_trait::async_trait;
use dynashard_keys::PartitionKey;

use crate::model::history::DecisionHistory;
use crate::model::lease::Dated;
use crate::model::ledger::{Addition, Ledger, LedgerKind};
use crate::model::record::{Change, Record, RecordKey, Stored};
use crate::model::segment::Group;
use crate::ports::errors::StoreError;

/// The metadata table.
#[async_trait]
pub trait RecordStore: Send + Sync {
    /// Its name, by which people tell it from another stack's.
    fn table(&self) -> &str;

    /// A strongly consistent `GetItem`.
    async fn read(&self, key: &RecordKey) -> Result<Dated<Option<Record>>, StoreError>;

    /// Carries out one change by `UpdateItem` or `DeleteItem`, and several at once by `TransactWriteItems`.
    /// [`StoreError::ConditionFailed`] where a record is not as seen: then nothing has changed.
    async fn commit(&self, changes: &[Change]) -> Result<Dated<()>, StoreError>;

    /// `UpdateItem` that adds to a ledger, whoever else does at the same time. Returns the ledger with the addition.
    async fn add(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
        addition: &Addition,
    ) -> Result<Dated<Ledger>, StoreError>;

    /// `UpdateItem` that raises the counters of these groups in the root of the directory, whoever else does at the same
    /// time. [`StoreError::ConditionFailed`] where the directory item counts none, since it lists collections itself.
    async fn raise(&self, groups: &[Group]) -> Result<Dated<()>, StoreError>;

    /// `Query` of a sparse index: one page of a list, from behind the key where the page before has ended. The index lags
    /// behind, so what matters must be read again.
    async fn list(&self, list: List, after: Option<&str>) -> Result<ListPage<Listed>, StoreError>;
}

/// Reads records by the names of their kinds.
pub trait ReadRecords: RecordStore {
    /// [`RecordStore::read`] of this kind.
    fn get<R: Stored>(
        &self,
        of: &R::Of,
    ) -> impl Future<Output = Result<Dated<Option<R>>, StoreError>> + Send {
        let key = R::key(of);
        async move {
            let Dated { value, server_secs } = self.read(&key).await?;
            let of_kind = |record| {
                let other =
                    || StoreError::Misconfigured(format!("{key} holds another kind of record"));
                R::from_record(record).ok_or_else(other)
            };
            Ok(Dated { value: value.map(of_kind).transpose()?, server_secs })
        }
    }
}

impl<S: RecordStore + ?Sized> ReadRecords for S {}

/// A list that the metadata table keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum List {
    /// The collections whose count was changing, not long ago, or whose last change was to be cleared up.
    Resharding,
    /// The collections that rest with more shards than their floor.
    Grown,
    /// The collections about which something was decided, each with that.
    Decisions,
}

/// An entry of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// The collection.
    pub partition: PartitionKey,
    /// What was decided about it, in [`List::Decisions`].
    pub decisions: Option<DecisionHistory>,
}

/// All collections there are. Only operators' commands ask for them: no function may scan the metadata
/// table, so [`RecordStore`] lacks it.
#[async_trait]
pub trait CollectionCatalog: Send + Sync {
    /// A strongly consistent `Scan` of the metadata table: one page of its collections, in no order,
    /// from behind the key where the page before has ended. What else lies in the table is passed over.
    async fn collections(&self, after: Option<&str>) -> Result<ListPage<PartitionKey>, StoreError>;
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPage<T> {
    /// The entries on this page.
    pub entries: Vec<T>,
    /// The entries that cannot be a collection's, each with its fault. Somebody has written them by hand.
    pub damaged: Vec<String>,
    /// The key in the table behind which the next page begins, a collection's or another, or `None`
    /// at the end.
    pub next: Option<String>,
}
