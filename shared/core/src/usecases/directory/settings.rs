//! Changes of pinned settings.

use std::time::Duration;

use dynashard_keys::ShardCount;

use crate::model::directory_item::DirectoryItem;
use crate::model::error::{Code, Error};
use crate::model::index_shards::IndexShards;
use crate::model::lease::Deadline;
use crate::model::pinned::{Pinned, PinnedTime};
use crate::model::reshard::Waits;
use crate::model::stack_policy::StackPolicy;
use crate::ports::{Change, Dated, ReadRecords};
use crate::usecases::context::Context;
use crate::usecases::records::{Records, Revision};

/// For how many times T' the longer of two values is waited for after only the shorter one is accepted:
/// whoever has the longer one may stand on the directory for one, and on metadata of which it took a
/// lease at its end for another.
const TERMS: u32 = 2;

/// What the clocks of those who sign and of DynamoDB may differ by, and what passes between the check of a date and the
/// execution of the request, in the requests that are waited for (protocol: "Dates of writes").
const RESERVE: Duration = Duration::from_secs(90);

const CONTENDED: &str = "the directory's item kept changing; ask again";

/// One of the times that are pinned.
struct Time {
    name: &'static str,
    get: fn(&Pinned) -> PinnedTime,
    with: fn(Pinned, PinnedTime) -> Pinned,
}

impl Time {
    const OF_LEASES: Self = Self {
        name: "LeaseSecs",
        get: |pinned| pinned.lease_term,
        with: |pinned, lease_term| Pinned { lease_term, ..pinned },
    };
    const OF_REQUESTS: Self = Self {
        name: "RequestLifetimeSecs",
        get: |pinned| pinned.request_lifetime,
        with: |pinned, request_lifetime| Pinned { request_lifetime, ..pinned },
    };
}

/// How writes are dated, and for how long they live then (protocol: "Dates of writes").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestDates {
    /// By how much they are dated back.
    pub age: Duration,
    /// H.
    pub lifetime: Duration,
}

/// The settings that are pinned in the directory item.
#[derive(Clone, Copy)]
pub struct PinnedSettings<'a> {
    context: &'a Context,
}

impl<'a> PinnedSettings<'a> {
    pub(super) fn of(context: &'a Context) -> Self {
        Self { context }
    }

    pub(super) fn context(self) -> &'a Context {
        self.context
    }

    /// What is pinned now, whether this directory's own settings differ or not.
    ///
    /// Settings of a format that this software does not know are an error.
    pub async fn read(self, deadline: Deadline) -> Result<Option<Pinned>, Error> {
        Ok(self.read_with_policy(deadline).await?.map(|(pinned, _)| pinned))
    }

    /// As [`Self::read`], with what the stack decides by, as the function has told that did so last.
    pub async fn read_with_policy(
        self,
        deadline: Deadline,
    ) -> Result<Option<(Pinned, Option<StackPolicy>)>, Error> {
        let DirectoryItem { pinned, policy, .. } = self.item(deadline).await?;
        pinned.map(|pinned| pinned.check_format().map(|()| (pinned, policy))).transpose()
    }

    /// What the stack decides by, as the function has told that did so last.
    pub async fn policy(self, deadline: Deadline) -> Result<Option<StackPolicy>, Error> {
        Ok(self.item(deadline).await?.policy)
    }

    /// Tells by what this stack decides, if that has changed since it was told last, and once its settings are pinned: nobody
    /// works on its tables before.
    pub async fn publish_policy(self, deadline: Deadline) -> Result<(), Error> {
        let policy = StackPolicy::of(self.context.settings());
        let revision = |item: Option<DirectoryItem>| {
            let item = item.unwrap_or_default();
            let Some(pinned) = &item.pinned else { return Ok(Revision::Keep(())) };
            pinned.check_format()?;
            if item.policy.as_ref() == Some(&policy) {
                return Ok(Revision::Keep(()));
            }
            let change = Change::of_directory(&item, item.with_policy(policy.clone()));
            Ok(Revision::commit(change, ()))
        };
        Records::of(self.context).revise(&(), revision, CONTENDED, deadline).await
    }

    /// The shards of write-sharded indexes, if there are any.
    pub async fn index_shards(self, deadline: Deadline) -> Result<Option<IndexShards>, Error> {
        Ok(self.item(deadline).await?.index_shards)
    }

    /// The first step of a growth of the shards of indexes: readers go by the new count (protocol: "Shards of indexes"). `None` where
    /// they are not as `seen`, or nothing is to be done.
    pub async fn grow_index_shards(
        self,
        seen: Option<IndexShards>,
        to: ShardCount,
        deadline: Deadline,
    ) -> Result<Option<IndexShards>, Error> {
        self.change_index_shards(deadline, |held, now_secs| {
            held.filter(|held| seen.is_none_or(|seen| seen == *held))?.growing_to(to, now_secs)
        })
        .await
    }

    /// The second step, of a growth that was `seen` for so long that no reader goes by another count: writers go by it, too.
    pub async fn settle_index_shards(
        self,
        seen: IndexShards,
        deadline: Deadline,
    ) -> Result<Option<IndexShards>, Error> {
        self.change_index_shards(deadline, |held, _| {
            held.filter(|held| *held == seen && held.is_growing()).map(IndexShards::grown)
        })
        .await
    }

    /// Waits until a growth that is under way is known to all readers, and has writers go by it. Nothing is done where none is.
    pub async fn complete_index_growth(
        self,
        deadline: Deadline,
    ) -> Result<Option<IndexShards>, Error> {
        loop {
            let held = self.index_shards(deadline).await?;
            let Some(seen) = held.filter(|held| held.is_growing()) else { return Ok(held) };
            let pinned = self.read(deadline).await?.ok_or_else(nothing_is_pinned)?;
            self.context.clock().sleep(pinned.waits().leases_end).await;
            self.settle_index_shards(seen, deadline).await?;
        }
    }

    /// The directory item as it is now.
    async fn item(self, deadline: Deadline) -> Result<DirectoryItem, Error> {
        let read = || self.context.record_store().get::<DirectoryItem>(&());
        let why = "the directory could not be read in time";
        let Dated { value, .. } = self.context.attempts(deadline).make(read, why).await?;
        Ok(value.unwrap_or_default())
    }

    async fn change_index_shards(
        self,
        deadline: Deadline,
        change: impl Fn(Option<IndexShards>, u64) -> Option<IndexShards>,
    ) -> Result<Option<IndexShards>, Error> {
        let revision = |item: Option<DirectoryItem>| {
            let item = item.unwrap_or_default();
            let pinned = item.pinned.as_ref().ok_or_else(nothing_is_pinned)?;
            pinned.check_format()?;
            let now = self.context.now();
            let now_secs = now.server_secs.unwrap_or(now.epoch_secs());
            let Some(next) = change(item.index_shards, now_secs) else {
                return Ok(Revision::Keep(None));
            };
            let change = Change::of_directory(&item, item.with_index_shards(next));
            Ok(Revision::commit(change, Some(next)))
        };
        Records::of(self.context).revise(&(), revision, CONTENDED, deadline).await
    }

    /// The first step of another T: functions may be set to the new value as well. From now on all waits go by the longer of
    /// the two.
    pub async fn announce(self, term: Duration, deadline: Deadline) -> Result<Pinned, Error> {
        let accept = |pinned: &Pinned| {
            let time = pinned.lease_term;
            if let Some(next) = time.next.filter(|next| ![*next, time.accepted].contains(&term)) {
                let (from, to) = (time.accepted.as_secs(), next.as_secs());
                let why = format!(
                    "LeaseSecs is being changed from {from} to {to}: complete that first, or cancel it with LeaseSecs={from}"
                );
                return Err(Error::new(Code::SettingsMismatch, why));
            }
            // Taking back is ended like any other change: the new value may be in use.
            let is_on_the_way = time.next.is_some();
            let lease_term = if is_on_the_way { time } else { time.accepting(term) };
            Ok(Pinned { lease_term, ..pinned.clone() })
        };
        self.change(accept, deadline).await
    }

    /// The second and the third step, when all functions are set to the new T: only that is accepted, and when nobody can be
    /// acting under a longer one, nothing waits for that any more. It takes twice T', and may be begun again if it was
    /// interrupted.
    pub async fn complete(self, term: Duration, deadline: Deadline) -> Result<Pinned, Error> {
        let accept_only = |pinned: &Pinned| {
            let time = pinned.lease_term;
            if !time.accepts(term) {
                let why = format!(
                    "LeaseSecs is pinned to {}; no change to {} was started: start it first",
                    time.accepted.as_secs(),
                    term.as_secs(),
                );
                return Err(Error::new(Code::SettingsMismatch, why));
            }
            Ok(Pinned { lease_term: time.accepting_only(term), ..pinned.clone() })
        };
        let wait = |left: &Pinned| left.waits().leases_end * TERMS;
        self.come_to_rest(accept_only, Time::OF_LEASES, wait, deadline).await
    }

    /// Has writes dated so. All act by it as soon as they read the directory. A shorter H holds when no request lives any more
    /// that was signed before: requests outlive the leases of those who sign them. That takes twice T', the longest H so far and
    /// a reserve, and may be begun again if it was interrupted.
    pub async fn date(self, dates: RequestDates, deadline: Deadline) -> Result<Pinned, Error> {
        let RequestDates { age, lifetime } = dates;
        let date = |pinned: &Pinned| Ok(pinned.dated(age, lifetime));
        let wait = |left: &Pinned| {
            let Waits { leases_end, request_lifetime, .. } = left.waits();
            // On one machine, where H may be seconds, so may be what it has to spare.
            leases_end * TERMS + request_lifetime + RESERVE.min(request_lifetime)
        };
        self.come_to_rest(date, Time::OF_REQUESTS, wait, deadline).await
    }

    /// Makes a change, and when what was before is over, has nobody wait for it any more.
    async fn come_to_rest(
        self,
        change: impl Fn(&Pinned) -> Result<Pinned, Error>,
        of: Time,
        wait: impl Fn(&Pinned) -> Duration,
        deadline: Deadline,
    ) -> Result<Pinned, Error> {
        loop {
            let left = self.change(&change, deadline).await?;
            let time = (of.get)(&left);
            if time.longest == time.accepted {
                return Ok(left);
            }
            let wait = wait(&left);
            if wait > deadline.remaining(self.context.clock().now()) {
                let why = format!(
                    "the change needs {} more seconds: run the same command again",
                    wait.as_secs()
                );
                return Err(Error::new(Code::DeadlineExceeded, why));
            }
            self.context.clock().sleep(wait).await;
            let at_rest = |pinned: &Pinned| {
                if change(pinned)? != *pinned {
                    let why = format!("{} was changed by somebody else meanwhile", of.name);
                    return Err(Error::new(Code::SettingsMismatch, why));
                }
                // It may have been changed there and back, so it has to be waited for anew.
                let is_as_left = pinned.revision == left.revision;
                let rested = || (of.with)(pinned.clone(), (of.get)(pinned).at_rest());
                Ok(if is_as_left { rested() } else { pinned.clone() })
            };
            self.change(at_rest, deadline).await?;
        }
    }

    /// Changes what is pinned, if it changes, whether this stack's own settings differ or not.
    async fn change(
        self,
        change: impl Fn(&Pinned) -> Result<Pinned, Error>,
        deadline: Deadline,
    ) -> Result<Pinned, Error> {
        let revision = |item: Option<DirectoryItem>| {
            let item = item.unwrap_or_default();
            let pinned = item.pinned.as_ref().ok_or_else(nothing_is_pinned)?;
            pinned.check_format()?;
            let next = change(pinned)?;
            if next == *pinned {
                return Ok(Revision::Keep(next));
            }
            let next = Pinned { revision: pinned.revision + 1, ..next };
            let change = Change::of_directory(&item, item.with_pinned(next.clone()));
            Ok(Revision::commit(change, next))
        };
        // Others pin something meanwhile, or enlist collections in the same item.
        Records::of(self.context).revise(&(), revision, CONTENDED, deadline).await
    }
}

pub(super) fn nothing_is_pinned() -> Error {
    let why = "no settings are pinned yet: the stack's functions do that with the first write, or within a \
               minute of their deployment";
    Error::new(Code::SettingsMismatch, why)
}
