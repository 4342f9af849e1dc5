//! What partitions and tables take, and by what they are laid out.

use std::num::NonZeroU32;

use xxhash_rust::xxh64::xxh64;

use super::demand::Kind;

/// The limits of the local DynamoDB. By default they are AWS's, for tables that are warm enough for all of their partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many partitions each table and each index has: equal ranges of hashed partition keys.
    pub partitions: NonZeroU32,
    /// What one partition writes, in units a second.
    pub partition_wcu: NonZeroU32,
    /// What one partition reads, in units a second.
    pub partition_rcu: NonZeroU32,
    /// What a table or index on demand writes as a whole, in units a second, however much room its partitions have: its warm
    /// throughput. `None` leaves the limits to the partitions.
    pub warm_wcu: Option<NonZeroU32>,
    /// What one reads as a whole, in units a second.
    pub warm_rcu: Option<NonZeroU32>,
    /// For how many seconds a provisioned table keeps unused capacity. The current second counts
    /// among them, so 0 and 1 both mean no burst.
    pub burst_secs: u32,
    /// After how many seconds in a row, each with a request that it refused, a partition is split for heat. `None` splits
    /// none.
    pub split_after_secs: Option<NonZeroU32>,
    /// Whether a request that meets a limit is refused. Without it every request is admitted and
    /// counted.
    pub are_enforced: bool,
}

impl Limits {
    /// The partition that holds a partition key: the index of its range.
    ///
    /// The hash is XXH64 with its own seed, so that a key's partition does not follow from the shard
    /// that the key names.
    pub fn partition_of(&self, partition_key: &str) -> u32 {
        let hash = range_hash(partition_key);
        // The high half of the product is uniform over 0..partitions, and grows with the hash.
        let scaled = (u128::from(hash) * u128::from(self.partitions.get())) >> 64;
        u32::try_from(scaled).unwrap_or(u32::MAX)
    }

    /// What a table or index on demand takes at once, in units a second: its warm throughput, and no more than all of its
    /// partitions take.
    pub fn warm_units(&self, kind: Kind) -> u64 {
        let all = u64::from(self.partitions.get()) * u64::from(self.partition_units(kind).get());
        self.warm(kind).map_or(all, |warm| all.min(warm.get().into()))
    }

    pub(super) const fn warm(&self, kind: Kind) -> Option<NonZeroU32> {
        match kind {
            Kind::Read => self.warm_rcu,
            Kind::Write => self.warm_wcu,
        }
    }

    pub(super) const fn partition_units(&self, kind: Kind) -> NonZeroU32 {
        match kind {
            Kind::Read => self.partition_rcu,
            Kind::Write => self.partition_wcu,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        const PARTITIONS: NonZeroU32 = NonZeroU32::new(4_096).expect("positive");
        const PARTITION_WCU: NonZeroU32 = NonZeroU32::new(1_000).expect("positive");
        const PARTITION_RCU: NonZeroU32 = NonZeroU32::new(3_000).expect("positive");
        Self {
            partitions: PARTITIONS,
            partition_wcu: PARTITION_WCU,
            partition_rcu: PARTITION_RCU,
            warm_wcu: None,
            warm_rcu: None,
            burst_secs: 300,
            split_after_secs: None,
            are_enforced: true,
        }
    }
}

pub(super) fn range_hash(partition_key: &str) -> u64 {
    xxh64(partition_key.as_bytes(), RANGE_SEED)
}

/// Arbitrary, but not 0: placement hashes under that.
const RANGE_SEED: u64 = 0x6b65_795f_7261_6e67;
