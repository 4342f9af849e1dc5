use std::ops::AddAssign;

/// What reading cost so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Cost {
    /// The items that were read and paid for, markers and repetitions included.
    pub(crate) items_read: u64,
    /// The read units that DynamoDB reported.
    pub(crate) consumed_rcu: f64,
}

impl AddAssign for Cost {
    fn add_assign(&mut self, more: Self) {
        self.items_read += more.items_read;
        self.consumed_rcu += more.consumed_rcu;
    }
}
