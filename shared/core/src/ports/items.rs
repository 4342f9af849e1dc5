//! The items of the main table.

use async_trait::async_trait;
use dynashard_keys::{PhysicalKey, PhysicalPartitionKey, SortKey};

use crate::model::counter::Adjustment;
use crate::model::epochs::Interval;
use crate::model::fields::Fields;
use crate::model::guard::{Transfer, Transferred, Write};
use crate::model::item::StoredItem;
use crate::model::lease::Lease;
use crate::model::pinned::Owner;
use crate::model::replica::Replica;
use crate::ports::errors::StoreError;

/// The main table.
#[async_trait]
pub trait ItemStore: Send + Sync {
    /// `GetItem`. Of what is there, these fields are returned, or all where none are named; the
    /// system's own attributes always are.
    async fn get(
        &self,
        key: &PhysicalKey,
        fields: Option<&Fields>,
        consistency: Consistency,
    ) -> Result<Metered<Option<StoredItem>>, StoreError>;

    /// `PutItem` or `DeleteItem` under a condition and a lease. Returns the write units that DynamoDB
    /// reported.
    async fn write(&self, write: &Write) -> Result<f64, StoreError>;

    /// `TransactGetItems` of two items: both as they were at one moment.
    async fn get_both(
        &self,
        keys: [&PhysicalKey; 2],
        fields: Option<&Fields>,
    ) -> Result<Metered<[Option<StoredItem>; 2]>, StoreError>;

    /// `TransactWriteItems`: what a reshard does to both homes of an item at once.
    async fn transfer(&self, transfer: &Transfer) -> Result<Transferred, StoreError>;

    /// `UpdateItem` of one cell of a counter, or `TransactWriteItems` of several: all of the changes, or none. Nothing is sent once the
    /// lease has run out.
    async fn adjust(
        &self,
        adjustments: &[Adjustment],
        lease: Lease,
    ) -> Result<Adjusted, StoreError>;

    /// `BatchGetItem`, of at most [`MAX_KEYS_PER_BATCH_GET`] distinct keys.
    async fn batch_get(
        &self,
        keys: &[PhysicalKey],
        fields: Option<&Fields>,
        consistency: Consistency,
    ) -> Result<BatchPage, StoreError>;

    /// `Query`: one page of one shard.
    async fn query(&self, query: &ShardQuery) -> Result<ShardPage, StoreError>;

    /// A strongly consistent `GetItem` of the item that names the owner of the table.
    async fn owner(&self) -> Result<Option<Owner>, StoreError>;

    /// `PutItem` of this item where there is none, or one of the same stack. [`StoreError::ConditionFailed`] where there is another
    /// one.
    async fn claim(&self, owner: &Owner) -> Result<(), StoreError>;

    /// Whether DynamoDB still takes a write that carries this date, in epoch seconds: several `PutItem`s at once, under a
    /// condition that never holds. `false` where all of them are refused as expired.
    async fn takes_date(&self, date_secs: u64) -> Result<bool, StoreError>;

    /// `DescribeTable`: the bytes of its items and of its local secondary indexes together, as DynamoDB counted them
    /// within the last six hours, or so. `None` where it has no such index.
    async fn locally_indexed_bytes(&self) -> Result<Option<u64>, StoreError>;
}

/// What was read, and what it cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metered<T> {
    /// What was read.
    pub value: T,
    /// The read units that DynamoDB reported.
    pub consumed_rcu: f64,
}

/// What became of changes of cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Adjusted {
    /// What the cell then held, where it was a single one.
    pub item: Option<StoredItem>,
    /// The write units that DynamoDB reported.
    pub consumed_wcu: f64,
}

/// The most keys of one `BatchGetItem`.
pub const MAX_KEYS_PER_BATCH_GET: usize = 100;

/// How current a read must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// It sees every write that was answered before it began.
    Strong,
    /// At half the price, it may not.
    Eventual,
}

/// One page of one shard, in sort-key order.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardQuery {
    /// The shard.
    pub partition: PhysicalPartitionKey,
    /// Which sort keys.
    pub range: SortRange,
    /// Ascending, or descending.
    pub ascending: bool,
    /// Where to go on: exclusive, and in the direction of the query. It need not exist.
    pub after: Option<SortKey>,
    /// At most so many items are read.
    pub limit: u32,
    /// What to return of each item; everything where nothing is named.
    pub fields: Option<Fields>,
    /// How current.
    pub consistency: Consistency,
    /// Who is asked: a replica, which cannot answer strongly, or the table itself.
    pub replica: Option<Replica>,
}

impl ShardQuery {
    /// What a replica shows of one item.
    pub fn of_item(key: &PhysicalKey, fields: Option<&Fields>, replica: Replica) -> Self {
        Self {
            partition: key.partition.clone(),
            range: SortRange::Between(key.sort.clone(), key.sort.clone()),
            ascending: true,
            after: None,
            limit: 1,
            fields: fields.cloned(),
            consistency: Consistency::Eventual,
            replica: Some(replica),
        }
    }
}

/// A condition on sort keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum SortRange {
    /// All of them.
    #[default]
    All,
    /// String keys that begin so.
    BeginsWith(String),
    /// At least this.
    From(SortKey),
    /// At most this.
    To(SortKey),
    /// Between the two, both included.
    Between(SortKey, SortKey),
}

impl SortRange {
    /// What of the range a query in this order comes to up to `last`, which is in the range. The start of
    /// strings cannot be bounded below, so it stays as it is there.
    #[must_use]
    pub(crate) fn up_to(&self, last: &SortKey, ascending: bool) -> Self {
        let last = last.clone();
        match (self.clone(), ascending) {
            (Self::All | Self::To(_), true) => Self::To(last),
            (Self::From(from) | Self::Between(from, _), true) => Self::Between(from, last),
            // What is between a prefix and a key that begins with it begins with it.
            (Self::BeginsWith(prefix), true) => match SortKey::string(&prefix) {
                Ok(from) => Self::Between(from, last),
                Err(_) => Self::BeginsWith(prefix),
            },
            (Self::All | Self::From(_), false) => Self::From(last),
            (Self::To(to) | Self::Between(_, to), false) => Self::Between(last, to),
            (Self::BeginsWith(prefix), false) => Self::BeginsWith(prefix),
        }
    }

    /// What of the range lies in an interval, with the key that the interval begins behind, which no range leaves out. `None` where
    /// nothing does.
    pub(crate) fn within(&self, interval: &Interval) -> Option<Self> {
        let Interval { after, until } = interval.clone();
        let (from, to) = match self {
            Self::All => (None, None),
            Self::From(from) => (Some(from.clone()), None),
            Self::To(to) => (None, Some(to.clone())),
            Self::Between(from, to) => (Some(from.clone()), Some(to.clone())),
            Self::BeginsWith(prefix) => {
                let first = SortKey::string(prefix).ok();
                let last = last_that_begins_with(prefix);
                let is_bounded = |bound: &Option<SortKey>| {
                    bound.as_ref().is_some_and(|bound| self.contains(bound))
                };
                if !is_bounded(&after) && !is_bounded(&until) {
                    // A bound that lies outside is below all of them, or above.
                    let is_above = |bound: &Option<SortKey>| bound > &first;
                    let holds_all = !is_above(&after) && (until.is_none() || is_above(&until));
                    return holds_all.then(|| self.clone());
                }
                (first, last)
            }
        };
        let from = from.max(after);
        let to = match (to, until) {
            (Some(to), Some(until)) => Some(to.min(until)),
            (to, until) => to.or(until),
        };
        match (from, to) {
            (None, None) => Some(Self::All),
            (Some(from), None) => Some(Self::From(from)),
            (None, Some(to)) => Some(Self::To(to)),
            (Some(from), Some(to)) => (from <= to).then_some(Self::Between(from, to)),
        }
    }

    /// Whether the range holds `key`.
    pub fn contains(&self, key: &SortKey) -> bool {
        match self {
            Self::All => true,
            Self::BeginsWith(prefix) => {
                matches!(key, SortKey::String(text) if text.starts_with(prefix.as_str()))
            }
            Self::From(from) => key >= from,
            Self::To(to) => key <= to,
            Self::Between(from, to) => (from..=to).contains(&key),
        }
    }
}

/// The greatest string key that begins so.
fn last_that_begins_with(prefix: &str) -> Option<SortKey> {
    let mut text = prefix.to_owned();
    // In the order of their bytes, the greatest character of each length.
    for greatest in ['\u{10ffff}', '\u{ffff}', '\u{7ff}', '\u{7f}'] {
        while text.len() + greatest.len_utf8() <= SortKey::MAX_BYTES {
            text.push(greatest);
        }
    }
    SortKey::string(&text).ok()
}

/// What one page of a shard held, markers included.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardPage {
    /// In the order of the query.
    pub items: Vec<(SortKey, StoredItem)>,
    /// Where the next page begins, or `None` at the end of the shard. DynamoDB may name one where
    /// nothing follows, and may end a page early.
    pub next: Option<SortKey>,
    /// The items that were read and paid for.
    pub items_read: u64,
    /// The read units that DynamoDB reported.
    pub consumed_rcu: f64,
}

/// What a `BatchGetItem` returned.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BatchPage {
    /// The items that exist.
    pub items: Vec<(PhysicalKey, StoredItem)>,
    /// The keys that DynamoDB left for another request.
    pub unprocessed: Vec<PhysicalKey>,
    /// The keys of items that cannot be understood, and why not.
    pub damaged: Vec<(PhysicalKey, String)>,
    /// The read units that DynamoDB reported.
    pub consumed_rcu: f64,
}

#[cfg(test)]
mod tests {
    use proptest::option::of;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn key(text: &str) -> SortKey {
        SortKey::string(text).expect("a sort key")
    }

    proptest! {
        /// Every key of a range lies in what it has of one of the intervals between boundaries, and no other key does but the
        /// boundary that the interval begins behind.
        #[test]
        fn a_range_within_an_interval_is_their_intersection(
            kind in 0..5_u8,
            [one, other, text] in ["[a-c]{1,3}", "[a-c]{1,3}", "[a-c]{1,4}"],
            after in of("[a-c]{1,3}"),
            until in of("[a-c]{1,3}"),
        ) {
            let (low, high) = (one.clone().min(other.clone()), one.clone().max(other));
            let range = match kind {
                0 => SortRange::All,
                1 => SortRange::From(key(&one)),
                2 => SortRange::To(key(&one)),
                3 => SortRange::Between(key(&low), key(&high)),
                _ => SortRange::BeginsWith(one),
            };
            let interval = Interval { after: after.as_deref().map(key), until: until.as_deref().map(key) };
            let sort = key(&text);
            let both = range.within(&interval);
            let expected = range.contains(&sort) && interval.contains(&sort);
            let holds = both.as_ref().is_some_and(|both| both.contains(&sort));
            prop_assert_eq!(holds && interval.after.as_ref() != Some(&sort), expected, "{:?}", both);
            let is_its_start = interval.after.as_ref() == Some(&sort);
            prop_assert!(!holds || range.contains(&sort) && (is_its_start || interval.contains(&sort)));
        }

        #[test]
        fn no_key_with_a_prefix_sorts_above_the_last_one(prefix in "\\PC{1,20}", rest in any::<String>()) {
            let last = last_that_begins_with(&prefix).expect("a key");
            if let Ok(sort) = SortKey::string(format!("{prefix}{rest}")) {
                prop_assert!(sort <= last);
            }
        }
    }
}
