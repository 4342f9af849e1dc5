//! Claims: who moves the items of which sources, so that calls work side by side.

use std::fmt;

use crate::model::reshard::time::ServerTime;

/// Who goes through a source shard, or did last (protocol: "Taking turns").
///
/// Claims are a courtesy: if two rebalancers go through one source, each item moves once all the same,
/// but the transactions of one of them are cancelled, and paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// A number that a rebalancer draws for each of its calls.
    pub worker: u64,
    /// The lane by which it was called.
    pub lane: u32,
    /// When the claim lapses, by DynamoDB's clock: whoever holds it may have been killed.
    pub until: ServerTime,
    /// The pace at which it went through the shard, in write units of its partition a second. Whoever is
    /// next goes on with that.
    pub wcu: u32,
}

/// The key of an item by which one rebalancer has the stream call another one, to work beside it.
/// Changes of one item come one after the other, so each lane needs an item of its own. The lane 0 is
/// that of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneKey<'a> {
    /// From 1 to [`LaneKey::LAST`].
    pub lane: u32,
    /// The logical partition key.
    pub partition: &'a str,
}

impl<'a> LaneKey<'a> {
    /// The last lane: at most so many rebalancers are called to one collection, besides the one that
    /// its job calls.
    pub const LAST: u32 = 7;

    /// What the key begins with. Must be kept stable.
    const PREFIX: &'static str = "_ds_lane#";

    /// Reads the key of an item of the metadata table, if it is one of these.
    pub fn parse(key: &'a str) -> Option<Self> {
        let (lane, partition) = key.strip_prefix(Self::PREFIX)?.split_once('#')?;
        let lane = lane.parse().ok().filter(|lane| (1..=Self::LAST).contains(lane))?;
        Some(Self { lane, partition })
    }
}

impl fmt::Display for LaneKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}#{}", Self::PREFIX, self.lane, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_a_lane_is_read_as_it_was_written_and_no_other_is_one() {
        let key = LaneKey { lane: 7, partition: "a#b" };
        assert_eq!(key.to_string(), "_ds_lane#7#a#b");
        assert_eq!(LaneKey::parse("_ds_lane#7#a#b"), Some(key));
        for other in ["_ds_lane#8#a", "_ds_lane#0#a", "_ds_lane#x#a", "_ds_lane#1", "_ds_job#a"] {
            assert_eq!(LaneKey::parse(other), None, "{other}");
        }
    }
}
