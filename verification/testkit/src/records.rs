//! The metadata table in memory: what the memory store and the simulation share.

use std::collections::BTreeMap;

use dynashard_core::ports::{Change, List, Listed, Record, RecordKey, StoreError, Stored};
use dynashard_core::{Addition, DirectoryItem, Group, Ledger, LedgerKind};
use dynashard_keys::PartitionKey;

/// Records by their keys, changed as DynamoDB changes them.
#[derive(Debug, Default)]
pub struct Records(BTreeMap<RecordKey, Record>);

impl Records {
    /// What lies under a key.
    pub fn read(&self, key: &RecordKey) -> Option<&Record> {
        self.0.get(key)
    }

    /// A record by the name of its kind.
    pub fn get<R: Stored>(&self, of: &R::Of) -> Option<R> {
        self.0.get(&R::key(of)).cloned().and_then(R::from_record)
    }

    /// All records, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&RecordKey, &Record)> {
        self.0.iter()
    }

    /// Puts a record in place of what is there, or takes it away, as somebody would by hand.
    pub fn place(&mut self, key: RecordKey, record: Option<Record>) {
        match record {
            Some(record) => self.0.insert(key, record),
            None => self.0.remove(&key),
        };
    }

    /// Carries out all changes, or none where a record is not as seen.
    pub fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        if !changes.iter().all(|Change { key, seen, .. }| seen.holds(self.0.get(key))) {
            return Err(StoreError::ConditionFailed { existing: None });
        }
        for Change { key, next, .. } in changes {
            let next = next.clone().map(|next| next.over(self.0.get(key)));
            self.place(key.clone(), next);
        }
        Ok(())
    }

    /// Adds to a ledger.
    pub fn add(
        &mut self,
        partition: &PartitionKey,
        kind: LedgerKind,
        addition: &Addition,
    ) -> Ledger {
        let of = (partition.clone(), kind);
        let mut ledger = self.get::<Ledger>(&of).unwrap_or_default();
        ledger.apply(addition);
        self.place(Ledger::key(&of), Some(Record::Ledger(ledger.clone())));
        ledger
    }

    /// Raises the counter of a group in the root of the directory.
    pub fn raise(&mut self, groups: &[Group]) -> Result<(), StoreError> {
        let raised = self.get::<DirectoryItem>(&()).and_then(|root| root.raised(groups));
        let raised = raised.ok_or(StoreError::ConditionFailed { existing: None })?;
        self.place(RecordKey::Directory, Some(Record::Directory(raised)));
        Ok(())
    }

    /// What a list holds, in the order of the keys.
    pub fn listed(&self, list: List) -> impl Iterator<Item = Listed> {
        self.0.iter().filter_map(move |(key, record)| match (key, record) {
            (RecordKey::Collection(partition), Record::Collection(metadata)) => {
                let needs_rebalancing = metadata.needs_rebalancing();
                let is_listed = match list {
                    List::Resharding => needs_rebalancing,
                    List::Grown => !needs_rebalancing && metadata.may_shrink(),
                    List::Decisions => false,
                };
                is_listed.then(|| Listed { partition: partition.clone(), decisions: None })
            }
            (RecordKey::Decisions(partition), Record::Decisions(history)) => {
                let decisions = Some(history.clone());
                let partition = partition.clone();
                (list == List::Decisions).then_some(Listed { partition, decisions })
            }
            _ => None,
        })
    }
}
