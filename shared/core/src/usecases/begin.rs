//! Begins what was decided about a collection, and notes it.

use crate::model::decision::{Action, Decision, Outcome};
use crate::model::error::Error;
use crate::model::history::DecidedBy;
use crate::model::lease::Deadline;
use crate::model::metadata::CollectionMetadata;
use crate::model::policy::{Hindrance, ScalingMode};
use crate::usecases::directory::{BeginOutcome, Directory, TurnedRound};

impl Directory {
    /// Begins the change that was decided on, if `mode` is on. Of all who try at the same time, one
    /// succeeds: the change is conditional on `seen`. Returns what became of it, and the decision, with what
    /// was found to keep it from being carried out.
    pub(crate) async fn carry_out(
        &self,
        seen: &CollectionMetadata,
        decision: Decision,
        mode: ScalingMode,
        deadline: Deadline,
    ) -> Result<(Decision, Outcome), Error> {
        let refused = |decision: Decision, hindrance| {
            let hindrance = Some(hindrance);
            (Decision { action: Action::None, hindrance, ..decision }, Outcome::NothingToDo)
        };
        let to = match decision.action {
            Action::None => return Ok((decision, Outcome::NothingToDo)),
            _ if mode != ScalingMode::On => return Ok((decision, Outcome::DryRun)),
            Action::TurnRound(to) => {
                return Ok(match self.turn_round(seen, Some(to), deadline).await? {
                    TurnedRound::Now => (decision, Outcome::Begun),
                    TurnedRound::Before => refused(decision, Hindrance::Running),
                    TurnedRound::Overtaken => (decision, Outcome::Overtaken),
                });
            }
            Action::Shrink(_) if !self.fit_one_shard(deadline).await? => {
                return Ok(refused(decision, Hindrance::TooLarge));
            }
            Action::Grow(to) | Action::Shrink(to) => to,
        };
        Ok(match self.begin(seen, to, None, deadline).await? {
            BeginOutcome::Begun(_) => (decision, Outcome::Begun),
            BeginOutcome::Running => refused(decision, Hindrance::Running),
            BeginOutcome::TooSoon { until_secs } => {
                refused(decision, Hindrance::TooSoon { until_secs })
            }
            BeginOutcome::Overtaken => (decision, Outcome::Overtaken),
        })
    }

    /// Adds a decision to the history of its collection, unless that says the same already. Histories are for
    /// people, so whoever notes something else at the same moment goes first.
    pub(crate) async fn note(
        &self,
        decision: &Decision,
        outcome: Outcome,
        by: DecidedBy,
        deadline: Deadline,
    ) -> Result<(), Error> {
        const ATTEMPTS: u32 = 3;
        let partition = &decision.partition;
        for _ in 0..ATTEMPTS {
            let seen = self.decisions(partition, deadline).await?;
            let now_secs = self.now().epoch_secs();
            let Some(next) = seen.with(decision, outcome, by, now_secs) else { return Ok(()) };
            if self.save_decisions(partition, &seen, &next, deadline).await? {
                return Ok(());
            }
        }
        Ok(())
    }
}
