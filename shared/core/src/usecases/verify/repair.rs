//! Repairs what is wrong under a key, one guarded step at a time.

use dynashard_keys::{ItemKey, ShardId};

use crate::decide::judge::{Remedy, View, Wrong};
use crate::model::error::{Code, Error};
use crate::model::guard::{Action, Condition, Expected, Write};
use crate::ports::StoreError;
use crate::usecases::retry::{refusal, within};
use crate::usecases::settle::{BothHomes, Settling, Unsettled};
use crate::usecases::verify::examine::{Examined, examine};
use crate::usecases::verify::{Repair, Verifier, VerifyOptions};

/// What became of one step of a repair.
enum Applied {
    Done,
    /// Nothing is known to have happened. This is the error to give up with if no time is left.
    LookAgain(Error),
    /// Another attempt would not help.
    Failed(Error),
}

impl Verifier {
    /// Puts right what is wrong with a key, one thing at a time, and looks again after each: what
    /// became of a request is never guessed. Returns what was found at first, and the shards in which
    /// nothing is wrong any more.
    pub(super) async fn mend(
        &self,
        key: &ItemKey,
        shards: &[ShardId],
        view: &View,
        options: VerifyOptions,
    ) -> Result<(Examined, Vec<ShardId>), Error> {
        let deadline = self.deadline(options);
        let directory = self.directory();
        let mut attempts = directory.attempts(deadline);
        let first = examine(&self.directory, key, shards, view, deadline).await?;
        let mut examined = first.clone();
        while let Some((wrong, remedy)) = next_remedy(&examined, options.repair) {
            let outcome =
                within(directory.clock(), deadline, self.apply(key, &examined, &wrong, remedy));
            match outcome.await {
                Some(Applied::Done) => {}
                Some(Applied::LookAgain(error)) => attempts.pause(error).await?,
                Some(Applied::Failed(error)) => return Err(error),
                None => {
                    let why = "a repair was not answered in time";
                    return Err(Error::new(Code::OutcomeUnknown, why));
                }
            }
            examined = examine(&self.directory, key, shards, &examined.view, deadline).await?;
        }
        let is_wrong = |shard: &ShardId| {
            examined.verdict.wrong.iter().any(|wrong| wrong.entry.shard == *shard)
        };
        let mended = first.verdict.wrong.iter().map(|wrong| wrong.entry.shard);
        let mended = mended.filter(|shard| !is_wrong(shard)).collect();
        Ok((first, mended))
    }

    /// One step of a repair.
    async fn apply(
        &self,
        key: &ItemKey,
        examined: &Examined,
        wrong: &Wrong,
        remedy: Remedy,
    ) -> Applied {
        let Wrong { entry, .. } = wrong;
        let known = &examined.known;
        let generation = known.metadata.generation;
        let separator = self.directory.settings().schema.separator;
        let at = |shard| key.at(shard, known.metadata.placement, separator);
        let remove = |expected| Write {
            key: at(entry.shard),
            action: Action::Delete,
            condition: Condition { generation, expected },
            lease: known.lease,
        };
        let items = self.directory.context().items();
        match remedy {
            Remedy::RemoveMarker => of_removal(items.write(&remove(Expected::Marker)).await),
            Remedy::RemoveCopy => {
                let expected =
                    Expected::Unchanged { version: entry.version, generation: entry.generation };
                of_removal(items.write(&remove(expected)).await)
            }
            Remedy::Settle => {
                let homes = BothHomes { old: at(entry.shard), new: at(examined.view.homes(key).0) };
                of_move(Settling::new(items, &homes, known).settle().await)
            }
            Remedy::Move => {
                let (home, old) = examined.view.homes(key);
                let new = at(home);
                // What lies at the old home of a running reshard goes first, as before any write.
                if let Some(old) = old {
                    let homes = BothHomes { old: at(old), new: new.clone() };
                    let settled = of_move(Settling::new(items, &homes, known).settle().await);
                    if !matches!(settled, Applied::Done) {
                        return settled;
                    }
                }
                let Some(item) = examined.found.get(&entry.shard) else {
                    return Applied::Done;
                };
                let homes = BothHomes { old: at(entry.shard), new };
                of_move(Settling::new(items, &homes, known).relocate(item.clone()).await)
            }
        }
    }
}

fn next_remedy(examined: &Examined, repair: Repair) -> Option<(Wrong, Remedy)> {
    let is_due = |remedy: &Remedy| *remedy != Remedy::Move || repair == Repair::Misplaced;
    let due = |wrong: &Wrong| Some((*wrong, wrong.remedy.filter(is_due)?));
    examined.verdict.wrong.iter().find_map(due)
}

fn of_removal(answer: Result<f64, StoreError>) -> Applied {
    match answer {
        Ok(_) => Applied::Done,
        // Where the condition fails it is not as seen any more.
        Err(StoreError::ConditionFailed { .. }) => changed(),
        Err(error) => of_refusal(error),
    }
}

fn of_move(settled: Result<(), Unsettled>) -> Applied {
    match settled {
        Ok(()) => Applied::Done,
        Err(Unsettled::Changed | Unsettled::Behind) => changed(),
        Err(Unsettled::Failed(error)) => of_refusal(error),
        Err(unmovable @ Unsettled::Unmovable(_)) => match unmovable.refusal() {
            Ok(_) => changed(),
            Err(error) => Applied::Failed(error),
        },
    }
}

/// What lies there afterwards tells what became of a request of unknown outcome.
fn of_refusal(error: StoreError) -> Applied {
    match error {
        StoreError::OutcomeUnknown(why) => Applied::LookAgain(Error::new(Code::Unavailable, why)),
        error => match refusal(error) {
            Ok(refused) => Applied::LookAgain(refused),
            Err(error) => Applied::Failed(error),
        },
    }
}

fn changed() -> Applied {
    let why = "the item kept changing while it was repaired";
    Applied::LookAgain(Error::new(Code::Contended, why))
}
