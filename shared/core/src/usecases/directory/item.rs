//! The directory item under a lease: what renews that is known of the segments, and what is pinned.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::lock::Mutex as AsyncMutex;
use parking_lot::Mutex;

use crate::model::directory_item::{Counters, DirectoryItem};
use crate::model::error::{Code, Error};
use crate::model::lease::{Deadline, Lease, Moment};
use crate::model::pinned::Pinned;
use crate::model::reshard::Waits;
use crate::model::stack_policy::StackTold;
use crate::ports::{Change, Dated, ReadRecords, StoreError};
use crate::usecases::context::Context;
use crate::usecases::directory::index_growth::SeenGrowth;
use crate::usecases::directory::settings::PinnedSettings;
use crate::usecases::main_table::compare_owner;
use crate::usecases::retry::Backoff;

/// The directory item, read strongly and kept for a lease. Everything else that is believed stands on it.
pub struct DirectoryLease {
    context: Context,
    /// Whether it pins its settings if none are pinned, and claims a main table that belongs to nobody.
    pins: bool,
    /// The id of this stack for which it was seen that the main table belongs to no other one. It is looked at once for each: where
    /// another one is pinned, or none any more, somebody has replaced the metadata table.
    compared: Mutex<Option<StackId>>,
    held: Mutex<Option<(Arc<DirectoryItem>, Lease)>>,
    /// What the item has told last, whether this environment may act by it or not.
    told: Mutex<Option<StackTold>>,
    /// Why the last read failed, and when. That nobody may act is answered without another look for a while.
    refusal: Mutex<Option<(Error, Moment)>>,
    /// Whoever reads the directory item holds it, so that concurrent operations share one read.
    turn: AsyncMutex<()>,
    /// Whether it was tried to renew the present lease early.
    was_renewed_early: AtomicBool,
    growth: SeenGrowth,
}

/// The id that a stack has pinned, if it has.
#[derive(PartialEq, Eq)]
struct StackId(Option<String>);

/// For how long an environment whose settings differ answers so without another look: soon after they were
/// put right it acts again, and until then a fleet that was deployed wrongly leaves the item to those that
/// are right.
const REFUSAL_TERM: Duration = Duration::from_secs(1);

impl DirectoryLease {
    pub(super) fn new(context: Context) -> Self {
        Self {
            context,
            pins: false,
            compared: Mutex::default(),
            held: Mutex::default(),
            told: Mutex::default(),
            refusal: Mutex::default(),
            turn: AsyncMutex::new(()),
            was_renewed_early: AtomicBool::new(false),
            growth: SeenGrowth::default(),
        }
    }

    pub(super) fn pinning(self) -> Self {
        Self { pins: true, ..self }
    }

    /// The lease of the directory, which is read unless it lives: whoever is called by a schedule pins the settings of a
    /// new stack, and finds out that its own differ.
    pub async fn hold(&self, deadline: Deadline) -> Result<Lease, Error> {
        self.item(deadline).await.map(|(_, lease)| lease)
    }

    /// Reads the directory item again if its lease is in the second half of its term, beside an operation
    /// that may begin on it still: the next one then has to wait for nothing. It is tried once for each
    /// lease, and may be dropped at any time. Trouble with it is the next one's.
    pub async fn renew_early(&self, deadline: Deadline) {
        let now = self.context.now();
        let is_due = |lease: &Lease| lease.is_fresh(now) && !lease.is_young(now);
        if !self.held.lock().as_ref().is_some_and(|(_, lease)| is_due(lease)) {
            return;
        }
        if let Some(_turn) = self.turn.try_lock()
            && !self.was_renewed_early.swap(true, Ordering::Relaxed)
        {
            let _ = self.read_now(deadline).await;
        }
    }

    /// The times to wait for, as they were pinned when the directory was read last (protocol: "Pinned
    /// settings").
    pub fn waits(&self) -> Waits {
        self.waits_of(self.last().as_deref())
    }

    /// The times to wait for, for a decision that changes metadata: it stands on a lease of the directory that lives now.
    pub(crate) async fn waits_now(&self, deadline: Deadline) -> Result<Waits, Error> {
        let (item, _) = self.item(deadline).await?;
        Ok(self.waits_of(Some(&item)))
    }

    fn waits_of(&self, item: Option<&DirectoryItem>) -> Waits {
        let pinned = item.and_then(|item| item.pinned.as_ref());
        pinned.map_or_else(|| Waits::of(self.context.settings()), Pinned::waits)
    }

    /// The attributes by which items may expire: those that are pinned, and this stack's own.
    pub(crate) fn ttl_attributes(&self) -> BTreeSet<String> {
        let item = self.last();
        let pinned = item.iter().filter_map(|item| item.pinned.as_ref());
        let pinned = pinned.flat_map(|pinned| &pinned.ttl_attributes);
        pinned.chain(&self.context.settings().ttl_attribute).cloned().collect()
    }

    /// The epoch second by DynamoDB's clock, as far as the last read tells it: metadata says in that time when it
    /// changed, whoever changed it, and a machine whose clock is a day ahead bars no change for a day.
    pub(crate) fn epoch_secs(&self) -> u64 {
        let now = self.context.now();
        let read = self.held.lock().as_ref().map(|(_, lease)| lease.since());
        let read = read.and_then(|since| Some((since.boot, since.server_secs?)));
        read.map_or(now.epoch_secs(), |(boot, secs)| secs + now.boot.saturating_sub(boot).as_secs())
    }

    /// The directory item under a lease.
    pub(super) async fn item(
        &self,
        deadline: Deadline,
    ) -> Result<(Arc<DirectoryItem>, Lease), Error> {
        let fresh = || self.fresh(self.context.now());
        if let Some(fresh) = fresh() {
            return Ok(fresh);
        }
        let began = self.context.now();
        let _turn = self.context.turn(&self.turn, deadline).await?;
        if let Some(fresh) = fresh() {
            return Ok(fresh);
        }
        let refused = self.refusal.lock().clone();
        let now = self.context.now();
        let refused = refused.filter(|(error, since)| match error.code() {
            Code::SettingsMismatch => now.perhaps_since(*since) < REFUSAL_TERM,
            _ => since.boot >= began.boot && is_out_of_patience(error, began, deadline, now),
        });
        if let Some((error, _)) = refused {
            return Err(error);
        }
        let read = self.read_now(deadline).await;
        if let Err(error) = &read {
            *self.refusal.lock() = Some((error.clone(), self.context.now()));
        }
        read
    }

    /// What is held, if its lease lives.
    pub(super) fn fresh(&self, now: Moment) -> Option<(Arc<DirectoryItem>, Lease)> {
        self.held.lock().clone().filter(|(_, lease)| lease.is_fresh(now))
    }

    /// The directory item as it was read last, whatever has become of its lease.
    pub(crate) fn last(&self) -> Option<Arc<DirectoryItem>> {
        self.held.lock().as_ref().map(|(item, _)| Arc::clone(item))
    }

    /// What the stack has told last if that is something else than this, although this environment may not act by it.
    pub(crate) fn told_otherwise(&self, than: &StackTold) -> Option<StackTold> {
        self.told.lock().as_ref().filter(|told| *told != than).cloned()
    }

    /// The directory item as it is now.
    pub(super) async fn read_now(
        &self,
        deadline: Deadline,
    ) -> Result<(Arc<DirectoryItem>, Lease), Error> {
        loop {
            let settings = self.context.settings();
            let read = async || {
                let before = self.context.now();
                let read = self.context.record_store().get::<DirectoryItem>(&()).await?;
                let Dated { value, server_secs } = read;
                let item = value.unwrap_or_default();
                let lease = Lease::new(before, server_secs, settings.lease_term);
                let age = self.waits_of(Some(&item)).signature_age;
                let lease = lease.signed_ago(age, self.context.now());
                let lease = lease.spread_over(item.index_shards);
                Ok((item, lease))
            };
            let mut attempts = self.context.attempts(deadline);
            let (item, lease): (DirectoryItem, _) =
                attempts.make(read, "the directory could not be read in time").await?;
            if let Some(pinned) = &item.pinned {
                *self.told.lock() = pinned.check_format().ok().and_then(|()| item.told());
                pinned.check(settings).inspect_err(|error| self.refuse_all(error))?;
            }
            if self.pins
                && let Some(to_pin) = self.to_pin(item.pinned.as_ref())
            {
                self.publish(&item, item.with_pinned(to_pin), deadline).await?;
                continue;
            }
            let now = self.context.now();
            self.growth.see(item.index_shards, now);
            let leases_end = self.waits_of(Some(&item)).leases_end;
            let next = self.growth.next(item.index_shards, settings.index_shards, leases_end, now);
            if let Some(next) = next.filter(|_| self.pins) {
                let published = self.publish(&item, item.with_index_shards(next), deadline).await;
                // A growth that one cannot bring about others can.
                if published.is_ok() {
                    continue;
                }
            }
            let own = StackId(item.pinned.as_ref().and_then(|pinned| pinned.stack_id.clone()));
            let is_compared = self.compared.lock().as_ref() == Some(&own);
            if !is_compared {
                // On the heap: every future that stands on this one would carry what is needed once.
                let compared = compare_owner(&self.context, own.0.as_deref(), self.pins, deadline);
                Box::pin(compared).await.inspect_err(|error| {
                    if error.code() == Code::SettingsMismatch {
                        self.refuse_all(error);
                    }
                })?;
                *self.compared.lock() = Some(own);
            }
            let read = (Arc::new(item), lease);
            let mut held = self.held.lock();
            // Two reads may be answered in another order than they were begun in.
            if held.as_ref().is_none_or(|(_, held)| held.since().boot <= read.1.since().boot) {
                self.was_renewed_early.store(false, Ordering::Relaxed);
                *held = Some(read.clone());
            }
            return Ok(read);
        }
    }

    /// What is to be pinned in place of this, if it lacks anything.
    fn to_pin(&self, pinned: Option<&Pinned>) -> Option<Pinned> {
        // An id that no other stack has.
        let entropy = self.context.entropy();
        let drawn_id = || format!("{:016x}{:016x}", entropy.next_u64(), entropy.next_u64());
        if let Some(pinned) = pinned {
            return pinned.completed(self.context.settings(), drawn_id);
        }
        Some(Pinned { stack_id: Some(drawn_id()), ..Pinned::of(self.context.settings()) })
    }

    /// Has a growth of index shards come into force that all readers know of.
    pub(crate) async fn settle_index_shards(&self, deadline: Deadline) -> Result<(), Error> {
        let Some(item) = self.last() else { return Ok(()) };
        let leases_end = self.waits_of(Some(&item)).leases_end;
        let known =
            item.index_shards.filter(|_| self.growth.is_known(leases_end, self.context.now()));
        let Some(shards) = known else { return Ok(()) };
        PinnedSettings::of(&self.context).settle_index_shards(shards, deadline).await?;
        self.read_now(deadline).await.map(|_| ())
    }

    /// Publishes another item, unless another is quicker. What is there then is read again.
    async fn publish(
        &self,
        seen: &DirectoryItem,
        next: DirectoryItem,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let change = [Change::of_directory(seen, next)];
        let save = async || match self.context.record_store().commit(&change).await {
            // Of unknown outcome is what took effect, or did not: the next read shows it.
            Err(StoreError::ConditionFailed { .. } | StoreError::OutcomeUnknown(_)) => Ok(()),
            saved => saved.map(|_| ()),
        };
        let why = "the settings could not be pinned in time";
        self.context.attempts(deadline).make(save, why).await
    }

    /// Answers everything so for a while: this environment may not act.
    fn refuse_all(&self, error: &Error) {
        self.drop();
        *self.refusal.lock() = Some((error.clone(), self.context.now()));
    }

    /// The lease, if the directory lists no collection.
    pub(crate) async fn if_nothing_is_listed(
        &self,
        deadline: Deadline,
    ) -> Result<Option<Lease>, Error> {
        let (item, lease) = self.item(deadline).await?;
        let is_empty = item.hashes().is_empty() && item.groups().is_none_or(Counters::is_empty);
        Ok(is_empty.then_some(lease))
    }

    /// Forgets what is held: the directory is read again before anything stands on it.
    pub(crate) fn drop(&self) {
        *self.held.lock() = None;
    }
}

/// Whether whoever has waited since then for a read that was refused by this waits no longer: the operations of a batch have waited as
/// long as the first of them, and would otherwise be patient one after the other.
fn is_out_of_patience(error: &Error, since: Moment, deadline: Deadline, now: Moment) -> bool {
    let patience = match error.code() {
        Code::Throttled => deadline.of_throttled(),
        _ if error.is_fault() => deadline.of_faulty(since.boot),
        _ => return false,
    };
    // Who has given up had no time left for another pause.
    patience.remaining(now) <= Backoff::STANDARD.cap
}
