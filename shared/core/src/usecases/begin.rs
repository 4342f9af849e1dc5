//! Begins what was decided about a collection, and notes it.

use crate::model::decision::{CountChange, Decision, Outcome};
use crate::model::error::Error;
use crate::model::history::{DecidedBy, DecisionHistory};
use crate::model::lease::Deadline;
use crate::model::metadata::CollectionMetadata;
use crate::model::policy::{Hindrance, ScalingMode};
use crate::ports::Change;
use crate::usecases::directory::{BeginOutcome, Changes, Directory, TurnedRound};
use crate::usecases::main_table::fit_one_shard;
use crate::usecases::records::Revision;

/// Begins the change that was decided on, if `mode` is on. Of all who try at the same time, one
/// succeeds: the change is conditional on `seen`. Returns what became of it, and the decision, with what
/// was found to keep it from being carried out.
pub(crate) async fn begin_decided(
    directory: &Directory,
    seen: &CollectionMetadata,
    decision: Decision,
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
                TurnedRound::Now => (decision, Outcome::Begun),
                TurnedRound::Before => refused(decision, Hindrance::Running),
                TurnedRound::Overtaken => (decision, Outcome::Overtaken),
            });
        }
        CountChange::Shrink(_) if !fit_one_shard(directory.context(), deadline).await? => {
            return Ok(refused(decision, Hindrance::TooLarge));
        }
        CountChange::Grow(to) | CountChange::Shrink(to) => to,
    };
    Ok(match changes.begin(seen, to, None, deadline).await? {
        BeginOutcome::Begun(_) => (decision, Outcome::Begun),
        BeginOutcome::Running => refused(decision, Hindrance::Running),
        BeginOutcome::TooSoon { until_secs } => {
            refused(decision, Hindrance::TooSoon { until_secs })
        }
        BeginOutcome::Overtaken => (decision, Outcome::Overtaken),
    })
}

/// Adds a decision to the history of its collection, unless that says the same already.
pub(crate) async fn note(
    directory: &Directory,
    decision: &Decision,
    outcome: Outcome,
    by: DecidedBy,
    deadline: Deadline,
) -> Result<(), Error> {
    let partition = &decision.partition;
    let add = |seen: Option<DecisionHistory>| {
        let seen = seen.unwrap_or_default();
        let now_secs = directory.now().epoch_secs();
        Ok(seen.with(decision, outcome, by, now_secs).map_or(Revision::Keep(()), |next| {
            Revision::commit(Change::of_decisions(partition, &seen, next), ())
        }))
    };
    let contended = "the history of decisions kept changing";
    directory.records().revise(partition, add, contended, deadline).await
}
