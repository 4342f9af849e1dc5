//! What the moves of one collection may take of what those of all may.

use std::time::Duration;

use crate::model::lease::Deadline;
use crate::model::reshard::Job;
use crate::ports::List;
use crate::usecases::rebalance::rebalancer::{Rebalancer, Running};

/// For how long a count is good. One reads the list of all changes, and each environment that moves items takes one.
const COUNTED_FOR: Duration = Duration::from_secs(15);

impl Rebalancer {
    /// The write units a second that moving the items of a collection may take: what its operator says, or else no more than its
    /// share of what all may.
    pub(super) async fn mover_wcu(&self, job: &Job, deadline: Deadline) -> u32 {
        let settings = self.directory.settings();
        match (job.mover_wcu, settings.all_movers_wcu) {
            (Some(told), _) => told,
            (None, None) => settings.mover_wcu,
            (None, Some(all)) => {
                settings.mover_wcu.min(all.get() / self.running(deadline).await.max(1))
            }
        }
    }

    /// How many changes run, about: those of the last look at the list, where it cannot be read.
    async fn running(&self, deadline: Deadline) -> u32 {
        let now = self.directory.now();
        let last = *self.last_running();
        if let Some(last) = last.filter(|last| now.boot < last.counted + COUNTED_FOR) {
            return last.changes;
        }
        let (mut changes, mut after) = (0_u32, None::<String>);
        loop {
            let page = self.directory.records().list(List::Resharding, after.as_deref(), deadline);
            let Ok(page) = page.await else { return last.map_or(changes, |last| last.changes) };
            let listed = u32::try_from(page.entries.len()).unwrap_or(u32::MAX);
            changes = changes.saturating_add(listed);
            after = page.next;
            if after.is_none() {
                *self.last_running() = Some(Running { changes, counted: now.boot });
                return changes;
            }
        }
    }
}
