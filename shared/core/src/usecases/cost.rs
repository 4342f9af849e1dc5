//! The read units that an operation took, and the items that it read.

use std::ops::AddAssign;

use crate::model::item::StoredItem;
use crate::ports::{Metered, ShardPage};

/// What reading cost so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Cost {
    /// The items that were read and paid for, markers and repetitions included.
    pub(crate) items_read: u64,
    /// The read units that DynamoDB reported.
    pub(crate) consumed_rcu: f64,
    /// The write units that it reported for moving what was read to its new home.
    pub(crate) consumed_wcu: f64,
}

impl Cost {
    /// What a read of one item cost.
    pub(crate) fn of(read: &Metered<Option<StoredItem>>) -> Self {
        let items_read = u64::from(read.value.is_some());
        Self { items_read, consumed_rcu: read.consumed_rcu, ..Self::default() }
    }

    /// What a page of a shard cost.
    pub(crate) fn of_page(page: &ShardPage) -> Self {
        let &ShardPage { items_read, consumed_rcu, .. } = page;
        Self { items_read, consumed_rcu, ..Self::default() }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, more: Self) {
        self.items_read += more.items_read;
        self.consumed_rcu += more.consumed_rcu;
        self.consumed_wcu += more.consumed_wcu;
    }
}
