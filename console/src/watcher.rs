//! Reads what the page shows, as the schedule says, for as long as somebody looks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dynashard_core::ports::{List, Listed, StoreError};
use dynashard_core::{Code, Error, HeatWindow, Kind, LedgerKind};
use dynashard_keys::PartitionKey;

use crate::known::{
    COLLECTIONS, CONNECTION, Collection, DECISIONS, LISTS, LIVE_SECS, Trouble, USAGE,
};
use crate::schedule::{Schedule, Task};
use crate::shared::{Shared, Tables, UsagePace};

/// How often the schedule is asked.
const TICK: Duration = Duration::from_millis(250);

/// How often tables are looked for that could not be reached.
const CONNECT_EVERY: Duration = Duration::from_secs(5);

/// How often the metadata of a collection is read while something happens to it, and at rest.
const METADATA_EVERY: Duration = Duration::from_secs(2);
const RESTING_METADATA_EVERY: Duration = Duration::from_mins(10);

/// How often its decisions are.
const DECISIONS_EVERY: Duration = Duration::from_secs(4);

/// Environments report a minute after it is over: a few seconds later it is complete.
const MINUTE: Duration = Duration::from_mins(1);
const REPORTED_AFTER: Duration = Duration::from_secs(5);

/// Late values of CloudWatch take the place of earlier ones for so many periods.
const USAGE_OVERLAP: u64 = 5;

/// How far back CloudWatch is asked first.
const USAGE_BACK_SECS: u64 = 3_600;

/// Finds the tables, and watches them for as long as it is polled.
pub(crate) async fn run<F>(shared: Arc<Shared>, connect: impl Fn() -> F + Send + Sync)
where
    F: Future<Output = Result<Tables, Trouble>> + Send + 'static,
{
    loop {
        match connect().await {
            Ok(tables) => {
                shared.note(|known| {
                    known.troubles.remove(CONNECTION);
                });
                shared.connected(tables);
                break;
            }
            Err(trouble) => shared.note(|known| {
                known.troubles.insert(CONNECTION, trouble);
            }),
        }
        tokio::time::sleep(CONNECT_EVERY).await;
    }
    let Some(tables) = shared.tables() else { return };
    tokio::join!(watch_tables(&shared, tables), watch_usage(&shared, tables));
}

async fn watch_tables(shared: &Shared, tables: &Tables) {
    let mut schedule = Schedule::new(shared.read_units);
    loop {
        if shared.is_viewed() {
            Box::pin(look(shared, tables, &mut schedule)).await;
        }
        tokio::time::sleep(TICK).await;
    }
}

/// Does everything that is due.
async fn look(shared: &Shared, tables: &Tables, schedule: &mut Schedule) {
    loop {
        let now = tables.watched().now();
        let task = {
            let (known, viewed) = (shared.known(), shared.viewed());
            let is_active = |partition: &PartitionKey| {
                viewed.contains_key(partition) || known.is_active(partition, now.epoch_secs())
            };
            // Whoever is looked at need not be in any list.
            let unlisted = viewed.keys().filter(|key| !known.collections.contains_key(*key));
            let all = known.collections.keys().chain(unlisted);
            schedule.next(now.boot, all.map(|key| (key, is_active(key))))
        };
        let Some(task) = task else { return };
        let before = (tables.watched_rcu)();
        let result = match &task {
            Task::Lists => Box::pin(lists(shared, tables)).await.map_err(|error| (LISTS, error)),
            Task::Decisions => {
                Box::pin(decisions(shared, tables)).await.map_err(|error| (DECISIONS, error))
            }
            Task::Look(partition) | Task::Rest(partition) => {
                let is_active = matches!(task, Task::Look(_));
                Box::pin(collection(shared, tables, partition, is_active)).await;
                Ok(())
            }
        };
        let consumed = ((tables.watched_rcu)() - before).max(0.0);
        let now = tables.watched().now().boot;
        schedule.done(&task, now, consumed);
        let has_failed = match &task {
            Task::Look(of) | Task::Rest(of) => {
                let known = shared.known();
                let collection = known.collections.get(of);
                collection.and_then(|of| of.trouble.as_ref()).is_some_and(is_of_the_table)
            }
            Task::Lists | Task::Decisions => result.is_err(),
        };
        shared.note(|known| {
            known.note_spent(now, consumed);
            if let Err((about, error)) = result {
                known.troubles.insert(about, trouble(&error));
            }
            if let Task::Look(of) | Task::Rest(of) = &task {
                let why = known.collections.get(of).and_then(|of| of.trouble.clone());
                match why.filter(|_| has_failed) {
                    Some(why) => known.troubles.insert(COLLECTIONS, why),
                    None => known.troubles.remove(COLLECTIONS),
                };
            }
        });
        if has_failed {
            schedule.failed(now);
        }
    }
}

/// Whether others would fail in the same way.
fn is_of_the_table(trouble: &Trouble) -> bool {
    let code = Code::ALL.iter().find(|code| code.as_str() == trouble.code);
    code.is_some_and(|code| !matches!(code.kind(), Kind::NotFound | Kind::Data | Kind::Invalid))
}

/// An error with what to do about it.
pub(crate) fn trouble(error: &Error) -> Trouble {
    let advice = match error.kind() {
        Kind::Throttled => {
            "; the console reads less until that is over. If it goes on, look at the table's throttles, and start the \
             console with a smaller --read-units"
        }
        Kind::Unavailable if error.code() == Code::SettingsMismatch => {
            "; start the console with --stack-name, or with the flags of the stack's settings"
        }
        Kind::Unavailable => {
            "; the console tries again. If it goes on, check the network and the region"
        }
        Kind::Data => {
            "; docs/DATA_MODEL.md says what the item holds. The other collections are shown"
        }
        Kind::Internal => "; check the names of the tables and the permissions of the credentials",
        _ => "",
    };
    Trouble::new(error.code().as_str(), format!("{}{advice}", error.message()))
}

async fn lists(shared: &Shared, tables: &Tables) -> Result<(), Error> {
    let (changing, mut damaged) = all_of(List::Resharding, tables).await?;
    let (grown, more_damaged) = all_of(List::Grown, tables).await?;
    damaged.extend(more_damaged);
    let keys = |list: Vec<Listed>| list.into_iter().map(|listed| listed.partition);
    let [changing, grown] = [changing, grown].map(|list| keys(list).collect::<BTreeSet<_>>());
    shared.note(|known| known.note_lists(&changing, &grown, damaged));
    Ok(())
}

async fn decisions(shared: &Shared, tables: &Tables) -> Result<(), Error> {
    let (listed, damaged) = all_of(List::Decisions, tables).await?;
    let histories = listed
        .into_iter()
        .filter_map(|Listed { partition, decisions }| Some((partition, decisions?)));
    let histories = histories.collect::<BTreeMap<_, _>>();
    shared.note(|known| known.note_histories(histories, damaged));
    Ok(())
}

/// The entries of a list, and the damaged ones.
async fn all_of(list: List, tables: &Tables) -> Result<(Vec<Listed>, Vec<String>), Error> {
    let records = tables.watched().records();
    let (mut entries, mut damaged) = (Vec::new(), Vec::new());
    let mut after = None::<String>;
    loop {
        let page = records.list(list, after.as_deref(), tables.deadline()).await?;
        entries.extend(page.entries);
        damaged.extend(page.damaged);
        after = page.next;
        if after.is_none() {
            return Ok((entries, damaged));
        }
    }
}

/// Reads of one collection what has become old, and notes why what could not be read was not.
async fn collection(shared: &Shared, tables: &Tables, partition: &PartitionKey, is_active: bool) {
    let now_secs = tables.watched().now().epoch_secs();
    let failed = Box::pin(read(shared, tables, partition, is_active)).await.err();
    update(shared, partition, |known| {
        if failed.as_ref().is_some_and(|error| error.kind() == Kind::NotFound) {
            (known.metadata, known.job) = (None, None);
        }
        // What was read before is shown, with the reason why it is old.
        if failed.is_none() {
            known.read_secs = Some(now_secs);
        }
        known.trouble = failed.as_ref().map(trouble);
    });
    // Of a key that somebody has mistyped nothing is kept once nobody looks at it.
    let (mut known, viewed) = (shared.known(), shared.viewed());
    let is_nowhere = known.collections.get(partition).is_some_and(Collection::is_nowhere);
    if is_nowhere && !viewed.contains_key(partition) {
        known.collections.remove(partition);
    }
}

async fn read(
    shared: &Shared,
    tables: &Tables,
    partition: &PartitionKey,
    is_active: bool,
) -> Result<(), Error> {
    let directory = tables.watched();
    let now = directory.now();
    let (is_listed, metadata_read, load_read, decisions_read) = {
        let mut known = shared.known();
        let known = known.collection(partition);
        (known.is_listed, known.metadata_read, known.load_read, known.decisions_read)
    };
    let is_old = |read: Option<Duration>, after| read.is_none_or(|read| now.boot >= read + after);
    let metadata_every =
        if is_active || is_listed { METADATA_EVERY } else { RESTING_METADATA_EVERY };
    // What a minute has brought is there a little after its end.
    let since_report = Duration::from_secs(now.epoch_secs() % MINUTE.as_secs());
    let is_reported = since_report >= REPORTED_AFTER && is_old(load_read, since_report);
    if is_old(metadata_read, metadata_every) {
        let read = Box::pin(tables.watcher.collection(partition, tables.deadline()));
        let (metadata, job) = read.await?;
        update(shared, partition, |known| {
            let seconds = [now.epoch_secs().saturating_sub(LIVE_SECS), now.epoch_secs()];
            known.course.note(&metadata, job.as_ref(), directory.lease().waits(), seconds);
            (known.metadata, known.job) = (Some(metadata), job);
            known.metadata_read = Some(now.boot);
        });
    }
    if is_active {
        let heat =
            directory.records().ledger(partition, LedgerKind::Heat, tables.deadline()).await?;
        update(shared, partition, |known| known.note_heat(heat, now.wall));
    }
    if is_reported || is_old(load_read, MINUTE) {
        let load =
            directory.records().ledger(partition, LedgerKind::Load, tables.deadline()).await?;
        update(shared, partition, |known| {
            (known.load, known.load_read) = (load, Some(now.boot));
            known.load_secs = Some(now.epoch_secs());
        });
    }
    if is_active && is_old(decisions_read, DECISIONS_EVERY) {
        let history = directory.records().decisions(partition, tables.deadline()).await?;
        shared.note(|known| known.note_history(partition.clone(), history));
        update(shared, partition, |known| known.decisions_read = Some(now.boot));
    }
    Ok(())
}

fn update(
    shared: &Shared,
    partition: &PartitionKey,
    change: impl FnOnce(&mut crate::known::Collection),
) {
    shared.note(|known| change(known.collection(partition)));
}

async fn watch_usage(shared: &Shared, tables: &Tables) {
    let Some((source, pace)) = &tables.usage else { return };
    let mut read_secs = None;
    loop {
        if !shared.is_viewed() {
            tokio::time::sleep(TICK).await;
            continue;
        }
        let now_secs = tables.watched().now().epoch_secs();
        match source.usage(window(*pace, read_secs, now_secs)).await {
            Ok(usage) => {
                read_secs = Some(now_secs);
                shared.note(|known| known.note_usage(usage, now_secs));
            }
            Err(error) => shared.note(|known| {
                known.troubles.insert(USAGE, usage_trouble(&error));
            }),
        }
        tokio::time::sleep(pace.every).await;
    }
}

/// The whole periods to ask for, when it was asked last at `read_secs`.
fn window(pace: UsagePace, read_secs: Option<u64>, now_secs: u64) -> HeatWindow {
    let period = u64::from(pace.period_secs.max(1));
    let earliest = now_secs.saturating_sub(USAGE_BACK_SECS);
    let again = read_secs.map(|read| read.saturating_sub(USAGE_OVERLAP * period));
    let from = again.unwrap_or(earliest).max(earliest) / period * period;
    HeatWindow {
        from_secs: from,
        to_secs: (now_secs / period * period).max(from + period),
        period_secs: pace.period_secs.max(1),
    }
}

fn usage_trouble(error: &StoreError) -> Trouble {
    let why = match error {
        StoreError::Unavailable(why)
        | StoreError::Misconfigured(why)
        | StoreError::Rejected(why)
        | StoreError::Corrupt(why)
        | StoreError::OutcomeUnknown(why) => why.clone(),
        StoreError::Throttled(throttle) => throttle.to_string(),
        other => format!("{other:?}"),
    };
    let advice = "allow cloudwatch:GetMetricData, or name the server with --cloudwatch-url; collections are shown all \
                  the same";
    Trouble::new("usage_unavailable", format!("CloudWatch could not be asked: {why}; {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloudwatch_is_asked_for_an_hour_and_then_for_what_is_new() {
        let asked = |pace, read, now| {
            let HeatWindow { from_secs, to_secs, period_secs } = window(pace, read, now);
            (from_secs, to_secs, period_secs)
        };
        assert_eq!(asked(UsagePace::AWS, None, 36_030), (32_400, 36_000, 60));
        assert_eq!(asked(UsagePace::AWS, Some(36_030), 36_090), (35_700, 36_060, 60));
        assert_eq!(asked(UsagePace::LOCAL, Some(36_030), 36_032), (36_025, 36_032, 1));
        assert_eq!(asked(UsagePace::AWS, Some(1_000), 36_030), (32_400, 36_000, 60), "long ago");
    }

    #[test]
    fn what_failed_says_what_to_do() {
        let says = |code: Code| trouble(&Error::new(code, "it failed")).detail;
        assert!(says(Code::Throttled).contains("--read-units"));
        assert!(says(Code::SettingsMismatch).contains("--stack-name"));
        assert!(says(Code::Internal).contains("permissions"));
        assert!(says(Code::CorruptData).contains("docs/DATA_MODEL.md"));
        assert!(says(Code::Unavailable).contains("the network"));
    }
}
