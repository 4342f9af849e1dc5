//! Begins what was decided about a collection, and notes it.

use dynashard_keys::SortKey;

use crate::model::decision::{CountChange, Decision, Diagnosis, Outcome};
use crate::model::error::Error;
use crate::model::history::DecidedBy;
use crate::model::index_shards::IndexShards;
use crate::model::lease::Deadline;
use crate::model::metadata::{CollectionMetadata, Phase};
use crate::model::policy::{Hindrance, ScalingMode};
use crate::ports::{Change, StoreError};
use crate::usecases::directory::{BeginOutcome, Changes, Directory, JobRevised};
use crate::usecases::epochs::extent_of;
use crate::usecases::main_table::fit_one_shard;

/// Begins the change that was decided on for an epoch, an older one or `None` for the newest, if `mode` is on. `written` are the sort
/// keys of the last writes, oldest first, as far as they are known. Of all who try at the same time, one succeeds: the change is
/// conditional on `seen`. Returns what became of it, and the decision, with what was found to keep it from being carried out.
pub(crate) async fn begin_decided(
    directory: &Directory,
    seen: &CollectionMetadata,
    (epoch, decision): (Option<usize>, Decision),
    written: &[SortKey],
    mode: ScalingMode,
    deadline: Deadline,
) -> Result<(Decision, Outcome), Error> {
    let refused = |decision: Decision, hindrance| {
        let hindrance = Some(hindrance);
        (Decision { action: CountChange::None, hindrance, ..decision }, Outcome::NothingToDo)
    };
    let changes = Changes::of(directory);
    let to = match decision.action {
        CountChange::None => return Ok((decision, Outcome::NothingToDo)),
        _ if mode != ScalingMode::On => return Ok((decision, Outcome::DryRun)),
        CountChange::TurnRound(to) => {
            return Ok(match changes.turn_round(seen, Some(to), deadline).await? {
                JobRevised::Now => (decision, Outcome::Begun),
                JobRevised::Before => refused(decision, Hindrance::Running),
                JobRevised::Overtaken => (decision, Outcome::Overtaken),
            });
        }
        CountChange::Shrink(_) if !fit_one_shard(directory.context(), deadline).await? => {
            return Ok(refused(decision, Hindrance::TooLarge));
        }
        CountChange::Grow(to) | CountChange::Shrink(to) => to,
    };
    if seen.phase != Phase::Stable {
        return Ok(refused(decision, Hindrance::Running));
    }
    let change = (epoch, decision.action);
    // It asks for pages, and most decisions do not.
    let Some(extent) = Box::pin(extent_of(directory, seen, change, written, deadline)).await else {
        return Ok(refused(decision, Hindrance::TooLong));
    };
    let decision = Decision { extent, ..decision };
    Ok(match changes.begin(seen, (&decision.extent, to), None, deadline).await? {
        BeginOutcome::Begun(_) => (decision, Outcome::Begun),
        BeginOutcome::Running => refused(decision, Hindrance::Running),
        BeginOutcome::TooSoon { until_secs } => {
            refused(decision, Hindrance::TooSoon { until_secs })
        }
        BeginOutcome::Overtaken => (decision, Outcome::Overtaken),
    })
}

/// Has the values of write-sharded indexes get more shards, as it was decided, if `mode` is on and they are as seen.
pub(crate) async fn begin_index_growth(
    directory: &Directory,
    seen: IndexShards,
    decision: Decision,
    mode: ScalingMode,
    deadline: Deadline,
) -> Result<(Decision, Outcome), Error> {
    let diagnosis = match decision.diagnosis {
        Diagnosis::HotKey | Diagnosis::Ramp => Diagnosis::Index,
        // It is asked for less than it takes, or one item is too hot for any number of shards.
        other => other,
    };
    let decision = Decision { diagnosis, ..decision };
    Ok(match decision.action {
        CountChange::Grow(_) if mode != ScalingMode::On => (decision, Outcome::DryRun),
        CountChange::Grow(to) => {
            let begun = directory.pinned().grow_index_shards(Some(seen), to, deadline).await?;
            let outcome = if begun.is_some() { Outcome::Begun } else { Outcome::Overtaken };
            (decision, outcome)
        }
        _ => (decision, Outcome::NothingToDo),
    })
}

/// Adds a decision to the history of its collection, unless that says the same already. Histories are for people, so whoever
/// notes something else at the same moment goes first, and nobody waits for it.
pub(crate) async fn note(
    directory: &Directory,
    decision: &Decision,
    outcome: Outcome,
    by: DecidedBy,
    deadline: Deadline,
) -> Result<(), Error> {
    const ATTEMPTS: u32 = 3;
    let (records, partition) = (directory.records(), &decision.partition);
    for _ in 0..ATTEMPTS {
        let seen = records.decisions(partition, deadline).await?;
        let now_secs = directory.now().epoch_secs();
        let Some(next) = seen.with(decision, outcome, by, now_secs) else { return Ok(()) };
        let change = Change::of_decisions(partition, &seen, next);
        match records.commit(&[change], deadline).await {
            Ok(_) => return Ok(()),
            Err(StoreError::ConditionFailed { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
