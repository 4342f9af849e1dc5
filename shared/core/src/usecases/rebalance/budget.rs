//! What the moves of one collection may take of what those of all may.

use std::time::Duration;

use parking_lot::Mutex;

use crate::model::lease::{Deadline, Moment};
use crate::model::reshard::Job;
use crate::ports::List;
use crate::usecases::directory::Directory;

/// What an environment knows of the changes that run beside its own.
#[derive(Debug, Default)]
pub(super) struct Budget {
    counted: Mutex<Option<Counted>>,
}

/// The changes that run, and when they were counted.
#[derive(Debug, Clone, Copy)]
struct Counted {
    changes: u32,
    at: Moment,
}

/// For how long a count is good. One reads the list of all changes, and each environment that moves items takes one.
const COUNTED_FOR: Duration = Duration::from_secs(15);

impl Budget {
    /// The write units a second that moving the items of a collection may take: what its operator says, or else no more than its
    /// share of what all may.
    pub(super) async fn of(&self, job: &Job, directory: &Directory, deadline: Deadline) -> u32 {
        let settings = directory.settings();
        match (job.mover_wcu, settings.all_movers_wcu) {
            (Some(told), _) => told,
            (None, None) => settings.mover_wcu,
            (None, Some(all)) => {
                settings.mover_wcu.min(all.get() / self.running(directory, deadline).await.max(1))
            }
        }
    }

    /// How many changes run, about: those of the last look at the list, where it cannot be read.
    async fn running(&self, directory: &Directory, deadline: Deadline) -> u32 {
        let now = directory.now();
        let last = *self.counted.lock();
        if let Some(last) = last.filter(|last| now.perhaps_since(last.at) < COUNTED_FOR) {
            return last.changes;
        }
        let (mut changes, mut after) = (0_u32, None::<String>);
        loop {
            let page = directory.records().list(List::Resharding, after.as_deref(), deadline);
            let Ok(page) = page.await else { return last.map_or(changes, |last| last.changes) };
            let listed = u32::try_from(page.entries.len()).unwrap_or(u32::MAX);
            changes = changes.saturating_add(listed);
            after = page.next;
            if after.is_none() {
                *self.counted.lock() = Some(Counted { changes, at: now });
                return changes;
            }
        }
    }
}
