//! A growth of the shards of indexes, as one environment sees it (protocol: "Shards of indexes").

use std::time::Duration;

use dynashard_keys::ShardCount;
use parking_lot::Mutex;

use crate::model::index_shards::IndexShards;
use crate::model::lease::Moment;

/// Since when an environment has seen readers go by a count by which nobody writes yet.
#[derive(Default)]
pub(super) struct SeenGrowth(Mutex<Option<(IndexShards, Moment)>>);

impl SeenGrowth {
    /// Takes note of what the root says, which was answered by now.
    pub(super) fn see(&self, held: Option<IndexShards>, now: Moment) {
        let mut seen = self.0.lock();
        let before = seen.filter(|(before, _)| Some(*before) == held);
        let growing = held.filter(|shards| shards.is_growing());
        *seen = before.or_else(|| growing.map(|shards| (shards, now)));
    }

    /// Whether the growth that was seen last was seen for so long that nobody reads by the count before any more.
    pub(super) fn is_known(&self, leases_end: Duration, now: Moment) -> bool {
        self.0.lock().is_some_and(|(_, since)| now.certainly_since(since) > leases_end)
    }

    /// What the root is to say in place of what it holds: more shards, if the stack is set to more, or that writers follow.
    pub(super) fn next(
        &self,
        held: Option<IndexShards>,
        set: Option<ShardCount>,
        leases_end: Duration,
        now: Moment,
    ) -> Option<IndexShards> {
        let Some(shards) = held else { return set.map(IndexShards::first) };
        if shards.is_growing() {
            return self.is_known(leases_end, now).then(|| shards.grown());
        }
        shards.growing_to(set?, now.server_secs.unwrap_or(now.epoch_secs()))
    }
}
