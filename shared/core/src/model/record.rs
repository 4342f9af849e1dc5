//! The records of the metadata table: what lies under which key, and how a record is changed.
//!
//! A new kind of record adds a variant to [`RecordKey`] and one to [`Record`] here, with its lock and a line of `stored!`; a codec to
//! the adapter; and its name to the counters of the memory store and to the faults.

use std::fmt;

use dynashard_keys::PartitionKey;

use crate::model::directory_item::DirectoryItem;
use crate::model::grant::{Counted, Grant};
use crate::model::history::DecisionHistory;
use crate::model::ledger::{Ledger, LedgerKind};
use crate::model::metadata::CollectionMetadata;
use crate::model::reshard::{Job, LaneKey};
use crate::model::segment::{KeyHash, Segment, SegmentId};

/// The key of a record. Its text is the partition key of an item in the metadata table, and must be kept stable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKey {
    /// `_ds_directory`: the one [`DirectoryItem`].
    Directory,
    /// `_ds_segment#` and a number in hex: a [`Segment`] of the directory.
    Segment(SegmentId),
    /// The partition key itself: the [`CollectionMetadata`] of a collection.
    Collection(PartitionKey),
    /// `_ds_job#` and the partition key: the [`Job`] of a change of its shard count.
    Job(PartitionKey),
    /// `_ds_lane#`, a number and the partition key ([`LaneKey`]): the last call of a rebalancer by this lane.
    Lane(PartitionKey, u32),
    /// `_ds_heat#` or `_ds_load#` and the partition key: a [`Ledger`].
    Ledger(PartitionKey, LedgerKind),
    /// `_ds_decisions#` and the partition key: a [`DecisionHistory`].
    Decisions(PartitionKey),
    /// `_ds_grant#` and the digest of a grant: the collections that were enlisted under it.
    Grant(String),
}

impl RecordKey {
    /// Whether what lies there lists collections.
    pub fn is_of_directory(&self) -> bool {
        matches!(self, Self::Directory | Self::Segment(_))
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory => f.write_str(DirectoryItem::KEY),
            Self::Segment(segment) => write!(f, "_ds_segment#{segment}"),
            Self::Collection(partition) => partition.fmt(f),
            Self::Job(partition) => write!(f, "{}{partition}", Job::KEY_PREFIX),
            Self::Lane(partition, lane) => {
                LaneKey { lane: *lane, partition: partition.as_str() }.fmt(f)
            }
            Self::Ledger(partition, kind) => write!(f, "{}{partition}", kind.key_prefix()),
            Self::Decisions(partition) => write!(f, "{}{partition}", DecisionHistory::KEY_PREFIX),
            Self::Grant(digest) => write!(f, "_ds_grant#{digest}"),
        }
    }
}

/// What lies under a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// Under [`RecordKey::Directory`]. Its counters are those of what lies there: they are raised in a way of their own.
    Directory(DirectoryItem),
    /// Under [`RecordKey::Segment`]. A change adds to what lies there.
    Segment(Segment),
    /// Under [`RecordKey::Collection`].
    Collection(CollectionMetadata),
    /// Under [`RecordKey::Job`].
    Job(Job),
    /// Under [`RecordKey::Lane`]: a number that is another one with each call, since a write that changes nothing has no
    /// stream record.
    Call(u64),
    /// Under [`RecordKey::Ledger`].
    Ledger(Ledger),
    /// Under [`RecordKey::Decisions`].
    Decisions(DecisionHistory),
    /// Under [`RecordKey::Grant`].
    Grant(Counted),
}

impl Record {
    /// What must be as it was seen for the record to be changed: the optimistic lock, which every change raises. That of
    /// a grant is all of it.
    pub fn lock(&self) -> Vec<u64> {
        match self {
            Self::Directory(item) => vec![item.rev],
            Self::Collection(metadata) => vec![metadata.rev, metadata.last_updated_secs],
            Self::Job(job) => vec![job.generation.get(), job.rev],
            Self::Decisions(history) => vec![history.rev],
            Self::Grant(Counted(counted)) => counted.iter().copied().collect(),
            Self::Call(_) | Self::Ledger(_) | Self::Segment(_) => Vec::new(),
        }
    }

    /// What lies there when this has been put to what lay there before.
    #[must_use]
    pub fn over(self, before: Option<&Self>) -> Self {
        match (self, before) {
            (Self::Directory(next), Some(Self::Directory(before))) => {
                Self::Directory(next.counting_as(before))
            }
            (Self::Segment(more), Some(Self::Segment(before))) => Self::Segment(before.with(&more)),
            (next, _) => next,
        }
    }
}

/// One change of one record. A store carries out several of them at once, or none.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Which record.
    pub key: RecordKey,
    /// On which condition.
    pub seen: Seen,
    /// What is to lie there: nothing where it is `None`.
    pub next: Option<Record>,
}

/// On which condition a record is changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// On none.
    Anything,
    /// Where there is none.
    Nothing,
    /// Where its lock is that of this one.
    Record(Box<Record>),
}

impl Seen {
    /// Whether the condition holds of what is there.
    pub fn holds(&self, existing: Option<&Record>) -> bool {
        match self {
            Self::Anything => true,
            Self::Nothing => existing.is_none(),
            Self::Record(seen) => existing.is_some_and(|existing| existing.lock() == seen.lock()),
        }
    }

    fn of<R: Stored + Clone>(seen: Option<&R>) -> Self {
        seen.map_or(Self::Nothing, |seen| Self::Record(Box::new(seen.clone().into_record())))
    }
}

impl Change {
    /// The directory item `next` in place of `seen`, which has `rev` 0 where there is none.
    pub fn of_directory(seen: &DirectoryItem, next: DirectoryItem) -> Self {
        Self::of(&(), Some(seen).filter(|seen| seen.rev > 0), Some(next))
    }

    /// More collections in a segment, whatever else it lists.
    pub fn of_segment(of: SegmentId, more: Segment) -> Self {
        let next = Some(Record::Segment(more));
        Self { key: RecordKey::Segment(of), seen: Seen::Anything, next }
    }

    /// One more collection in the segment that is to list it.
    pub fn listing(hash: KeyHash) -> Self {
        Self::of_segment(hash.segment(), Segment::of([hash]))
    }

    /// The metadata `next` in place of `seen`.
    pub fn of_metadata(seen: Option<&CollectionMetadata>, next: CollectionMetadata) -> Self {
        Self::of(&next.partition.clone(), seen, Some(next))
    }

    /// The collections that are counted to a grant, in place of those that were seen.
    pub fn of_grant(grant: &Grant, seen: Option<&Counted>, next: Counted) -> Self {
        Self::of(grant, seen, Some(next))
    }

    /// A job in place of another one, or of none.
    pub fn of_job(partition: &PartitionKey, seen: Option<&Job>, next: Option<Job>) -> Self {
        Self::of(partition, seen, next)
    }

    /// The history `next` in place of `seen`, which has `rev` 0 where there is none.
    pub fn of_decisions(
        partition: &PartitionKey,
        seen: &DecisionHistory,
        next: DecisionHistory,
    ) -> Self {
        Self::of(partition, Some(seen).filter(|seen| seen.rev > 0), Some(next))
    }

    /// A call by a lane, or its removal, whatever is there.
    pub fn of_lane(partition: &PartitionKey, lane: u32, call: Option<u64>) -> Self {
        let key = RecordKey::Lane(partition.clone(), lane);
        Self { key, seen: Seen::Anything, next: call.map(Record::Call) }
    }

    fn of<R: Stored + Clone>(of: &R::Of, seen: Option<&R>, next: Option<R>) -> Self {
        Self { key: R::key(of), seen: Seen::of(seen), next: next.map(R::into_record) }
    }
}

/// A kind of record that is read by its own name.
pub trait Stored: Sized {
    /// What tells one record of the kind from another.
    type Of: ?Sized;

    /// Where it lies.
    fn key(of: &Self::Of) -> RecordKey;

    /// The record of this.
    fn into_record(self) -> Record;

    /// This, if the record is of the kind.
    fn from_record(record: Record) -> Option<Self>;
}

macro_rules! stored {
    ($($kind:ident of $of:ty: |$id:pat_param| $key:expr => $variant:ident;)+) => {$(
        impl Stored for $kind {
            type Of = $of;

            fn key($id: &$of) -> RecordKey {
                $key
            }

            fn into_record(self) -> Record {
                Record::$variant(self)
            }

            fn from_record(record: Record) -> Option<Self> {
                if let Record::$variant(this) = record { Some(this) } else { None }
            }
        }
    )+};
}

stored! {
    DirectoryItem of (): |()| RecordKey::Directory => Directory;
    Segment of SegmentId: |segment| RecordKey::Segment(*segment) => Segment;
    CollectionMetadata of PartitionKey: |partition| RecordKey::Collection(partition.clone()) => Collection;
    Job of PartitionKey: |partition| RecordKey::Job(partition.clone()) => Job;
    Ledger of (PartitionKey, LedgerKind): |(partition, kind)| RecordKey::Ledger(partition.clone(), *kind) => Ledger;
    DecisionHistory of PartitionKey: |partition| RecordKey::Decisions(partition.clone()) => Decisions;
    Counted of Grant: |grant| RecordKey::Grant(grant.digest().to_owned()) => Grant;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_records_are_what_they_always_were() {
        let partition = PartitionKey::new("a#b").expect("a key");
        let of = |key: RecordKey| key.to_string();
        assert_eq!(of(RecordKey::Directory), "_ds_directory");
        assert_eq!(of(RecordKey::Segment(KeyHash::of(&partition).segment())), "_ds_segment#1030");
        assert_eq!(of(RecordKey::Collection(partition.clone())), "a#b");
        assert_eq!(of(RecordKey::Job(partition.clone())), "_ds_job#a#b");
        assert_eq!(of(RecordKey::Lane(partition.clone(), 7)), "_ds_lane#7#a#b");
        assert_eq!(of(RecordKey::Ledger(partition.clone(), LedgerKind::Heat)), "_ds_heat#a#b");
        assert_eq!(of(RecordKey::Ledger(partition.clone(), LedgerKind::Load)), "_ds_load#a#b");
        assert_eq!(of(RecordKey::Decisions(partition)), "_ds_decisions#a#b");
        assert_eq!(of(RecordKey::Grant("0f".to_owned())), "_ds_grant#0f");
    }
}
