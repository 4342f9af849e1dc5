use dynashard_keys::{ItemKey, ShardId};

use super::examine::Examined;
use super::judge::{Remedy, View, Wrong};
use super::{Verifier, VerifyOptions};
use crate::ports::{
    Action, Clock, Condition, Entropy, Expected, ItemStore, MetadataStore, StoreError, Write,
};
use crate::reshard::{Homes, Settling, Unsettled};
use crate::retry::{Attempts, refusal, within};
use crate::{Code, Error};

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Verifier<I, M, C, E> {
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
        let mut attempts = Attempts::new(directory.clock(), directory.entropy(), deadline);
        let first = self.examine(key, shards, view, deadline).await?;
        let mut examined = first.clone();
        while let Some((wrong, remedy)) = next_remedy(&examined) {
            let outcome =
                within(directory.clock(), deadline, self.apply(key, &examined, &wrong, remedy));
            match outcome.await {
                Some(Ok(())) => {}
                Some(Err(error)) => attempts.pause(error?).await?,
                None => {
                    let why = "a repair was not answered in time";
                    return Err(Error::new(Code::OutcomeUnknown, why));
                }
            }
            examined = self.examine(key, shards, &examined.view, deadline).await?;
        }
        let is_wrong = |shard: &ShardId| {
            examined.verdict.wrong.iter().any(|wrong| wrong.entry.shard == *shard)
        };
        let mended = first.verdict.wrong.iter().map(|wrong| wrong.entry.shard);
        let mended = mended.filter(|shard| !is_wrong(shard)).collect();
        Ok((first, mended))
    }

    /// One step of a repair. `Err(Ok(_))` asks for another look, `Err(Err(_))` gives up.
    async fn apply(
        &self,
        key: &ItemKey,
        examined: &Examined,
        wrong: &Wrong,
        remedy: Remedy,
    ) -> Result<(), Result<Error, Error>> {
        let Wrong { entry, .. } = wrong;
        let known = &examined.known;
        let generation = known.metadata.generation;
        let at = |shard| self.reader.at(key, shard);
        let remove = |expected| Write {
            key: at(entry.shard),
            action: Action::Delete,
            condition: Condition { generation, expected },
            lease: known.lease,
        };
        let items = self.reader.items();
        match remedy {
            Remedy::RemoveMarker => of_removal(items.write(&remove(Expected::Marker)).await),
            Remedy::RemoveCopy => {
                let expected =
                    Expected::Unchanged { version: entry.version, generation: entry.generation };
                of_removal(items.write(&remove(expected)).await)
            }
            Remedy::Settle => {
                let homes = Homes { old: at(entry.shard), new: at(examined.view.homes(key).0) };
                of_move(Settling::new(items, &homes, known).settle().await)
            }
            Remedy::Move => {
                let (home, old) = examined.view.homes(key);
                let new = at(home);
                // What lies at the old home of a running reshard goes first, as before any write.
                if let Some(old) = old {
                    let homes = Homes { old: at(old), new: new.clone() };
                    of_move(Settling::new(items, &homes, known).settle().await)?;
                }
                let Some(item) = examined.found.get(&entry.shard) else {
                    return Ok(());
                };
                let homes = Homes { old: at(entry.shard), new };
                of_move(Settling::new(items, &homes, known).relocate(item.clone()).await)
            }
        }
    }
}

fn next_remedy(examined: &Examined) -> Option<(Wrong, Remedy)> {
    examined.verdict.wrong.iter().find_map(|wrong| Some((*wrong, wrong.remedy?)))
}

fn of_removal(answer: Result<f64, StoreError>) -> Result<(), Result<Error, Error>> {
    match answer {
        // Where the condition fails it is not as seen any more.
        Ok(_) => Ok(()),
        Err(StoreError::ConditionFailed { .. }) => Err(Ok(changed())),
        Err(error) => Err(of_refusal(error)),
    }
}

fn of_move(settled: Result<(), Unsettled>) -> Result<(), Result<Error, Error>> {
    settled.map_err(|unsettled| match unsettled {
        Unsettled::Changed | Unsettled::Behind => Ok(changed()),
        Unsettled::Failed(error) => of_refusal(error),
    })
}

/// What lies there afterwards tells what became of a request of unknown outcome.
fn of_refusal(error: StoreError) -> Result<Error, Error> {
    match error {
        StoreError::OutcomeUnknown(why) => Ok(Error::new(Code::Unavailable, why)),
        error => refusal(error),
    }
}

fn changed() -> Error {
    Error::new(Code::Contended, "the item kept changing while it was repaired")
}
