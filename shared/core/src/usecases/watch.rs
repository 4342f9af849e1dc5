//! Reports what is asked for to the ledgers, and has a throttled writer decide.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dynashard_keys::{PartitionKey, ShardId};
use lru::LruCache;
use parking_lot::Mutex;

use crate::decide::epochs::at_most_doubled;
use crate::decide::evidence::COMPLETE_AFTER;
use crate::decide::shard_count::{Cause, Evidence, decide};
use crate::model::decision::{CountChange, Decision, Diagnosis, Outcome};
use crate::model::error::{Code, Error};
use crate::model::history::DecidedBy;
use crate::model::index::SecondaryIndex;
use crate::model::index_shards::IndexShards;
use crate::model::lease::{Deadline, Moment};
use crate::model::ledger::{Addition, Ledger, LedgerKind, Span};
use crate::model::metadata::CollectionMetadata;
use crate::model::policy::{Access, Hindrance, PartitionLimits, ScalingMode};
use crate::model::throttle::Throttle;
use crate::ports::Dated;
use crate::usecases::begin;
use crate::usecases::directory::{Directory, Known};
use crate::usecases::epochs::{COUNTED_WITHIN, of_older};
use crate::usecases::index::KnownIndexes;
use crate::usecases::meter::{Due, Meter};

/// Is told of what throttled requests lead to, beside being answered.
pub trait Telemetry: Send + Sync {
    /// It was decided on a collection. An environment reports what is not done once for each state of a
    /// collection.
    fn decided(&self, decision: &Decision, outcome: Outcome);

    /// A ledger, or a collection, could not be read or changed. An environment reports it about once a minute
    /// for each collection and code.
    fn failed(&self, partition: &PartitionKey, error: &Error);

    /// A ledger holds figures that no environment has written so, or that are from the future. An
    /// environment reports it once for each state of a collection.
    fn ledger_damaged(&self, partition: &PartitionKey, figures: usize);
}

/// What one environment sees of the heat of its collections, and does about it: it reports to the ledgers,
/// and a writer decides.
pub(crate) struct Watch {
    pub(crate) meter: Meter,
    telemetry: Option<Arc<dyn Telemetry>>,
    /// As whom it also decides. `None` of a reader, which only reports.
    decides_as: Option<DecidedBy>,
    /// [`PartitionKey::of_index_shards`].
    pub(crate) index_ledger: PartitionKey,
    indexes: KnownIndexes,
    /// The collections that are being reported.
    under_way: Mutex<HashSet<PartitionKey>>,
    /// What was last told of collections, or of all together: the revision that it was about, and when.
    told: Mutex<LruCache<Topic, (u64, Duration)>>,
}

/// What is told, and of which collection; `None` of all together.
type Topic = (Option<PartitionKey>, String);

/// Whether a watch has come to act on what it saw, which is worth waiting for.
pub(crate) type IsActing = Arc<AtomicBool>;

/// What goes on beside an answer.
#[derive(Clone)]
pub(crate) struct Beside {
    /// It ends at this deadline.
    pub(crate) deadline: Deadline,
    pub(crate) is_acting: IsActing,
}

impl Beside {
    /// What nobody waits for longer than until this deadline.
    pub(crate) fn until(deadline: Deadline) -> Self {
        Self { deadline, is_acting: IsActing::default() }
    }
}

/// How long an answer is held for a report that is being made. What that would have told is lost otherwise, and others
/// report, too.
pub(crate) const REPORTING_TIME: Duration = Duration::from_millis(80);

/// What one environment remembers to have told.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

/// How often an environment says the same of a collection in the same state.
const TOLD_EVERY: Duration = Duration::from_mins(1);

impl Watch {
    /// One that reports, and decides if it is somebody's who writes.
    pub(crate) fn new(decides_as: Option<DecidedBy>, partition: PartitionLimits) -> Self {
        Self {
            meter: Meter::new(partition.of(Access::Write)),
            telemetry: None,
            decides_as,
            index_ledger: PartitionKey::of_index_shards(),
            indexes: KnownIndexes::default(),
            under_way: Mutex::default(),
            told: Mutex::new(LruCache::new(REMEMBERED)),
        }
    }

    /// Tells `telemetry` of what it does.
    pub(crate) fn report_to(&mut self, telemetry: Arc<dyn Telemetry>) {
        self.telemetry = Some(telemetry);
    }

    /// Takes note of a throttle, reports what this environment has seen since the last time if it is its turn, and
    /// decides what is to be done if its report is the one that elects it.
    pub(crate) async fn after_throttle(
        &self,
        directory: &Directory,
        partition: &PartitionKey,
        access: Access,
        shard: ShardId,
        throttle: &Throttle,
        beside: Beside,
    ) {
        if throttle.is_of_an_index_partition()
            && access == Access::Write
            && let Some(shards) = directory.lease().last().and_then(|root| root.index_shards)
            && self.is_write_sharded(directory, throttle).await
        {
            return self.after_throttle_of_index(directory, shards, beside).await;
        }
        self.meter.throttled(partition, directory.now());
        if directory.settings().scaling.mode == ScalingMode::Off {
            return;
        }
        // Without metadata the writer's next attempt reads it, and comes here if it is throttled again.
        let Some(known) = directory.cached(partition) else { return };
        let cause = Cause::Throttled { access, throttle, shards: &[shard] };
        self.decide_under(directory, &self.seen(directory, &known), None, cause, beside).await;
    }

    /// What is known of a collection, and which of its epochs most of the last writes went to.
    fn seen(&self, directory: &Directory, known: &Known) -> Seen {
        let whole = Arc::clone(&known.metadata);
        if whole.epochs.is_one() {
            return Seen { epoch: None, of_epoch: Arc::clone(&whole), whole };
        }
        let written = self.meter.written(&whole.partition, directory.now());
        let epoch = whole.epochs.of_most(&written);
        Seen { epoch, of_epoch: Arc::new(whole.of_epoch(epoch)), whole }
    }

    /// As [`Watch::after_throttle`], of a partition of a write-sharded index: a value of it gets more shards, or a growth that all
    /// readers know of by now comes into force.
    async fn after_throttle_of_index(
        &self,
        directory: &Directory,
        shards: IndexShards,
        beside: Beside,
    ) {
        self.meter.throttled(&self.index_ledger, directory.now());
        if directory.settings().scaling.mode == ScalingMode::Off || self.decides_as.is_none() {
            return;
        }
        if shards.is_growing() {
            // Who cannot do so leaves it to others.
            let _ = directory.lease().settle_index_shards(beside.deadline).await;
            return;
        }
        let whole = Arc::new(shards.as_collection());
        let seen = Seen { epoch: None, of_epoch: Arc::clone(&whole), whole };
        let throttle = Throttle::of_a_partition();
        let cause = Cause::Throttled { access: Access::Write, throttle: &throttle, shards: &[] };
        self.decide_under(directory, &seen, Some(shards), cause, beside).await;
    }

    /// Whether the index that refused is one that more shards relieve.
    async fn is_write_sharded(&self, directory: &Directory, throttle: &Throttle) -> bool {
        let Some(store) = &directory.context().world().indexes else { return false };
        let is_sharded = |index: &SecondaryIndex| index.is_write_sharded();
        let now = directory.now();
        if self.indexes.are_due(now) {
            // It is asked again at the next throttle.
            let Ok(indexes) = store.indexes().await else { return false };
            self.indexes.learn(indexes, now);
        }
        match throttle.index() {
            Some(name) => {
                self.indexes.get(name, now).flatten().is_some_and(|index| is_sharded(&index))
            }
            None => self.indexes.any(is_sharded),
        }
    }

    /// Reports what this environment has seen of what refuses its requests, if it is its turn, and decides if its report is the one
    /// that elects it. `indexes` are their shards, where it is those that it is about.
    async fn decide_under(
        &self,
        directory: &Directory,
        hot: &Seen,
        indexes: Option<IndexShards>,
        cause: Cause<'_>,
        beside: Beside,
    ) {
        let Cause::Throttled { access, throttle, .. } = cause else { return };
        let seen = &*hot.of_epoch;
        let (settings, partition) = (directory.settings(), &seen.partition);
        let decides = self.decides_as.is_some() && settings.scaling.writers;
        if !throttle.is_of_a_partition() {
            // Only what is refused for a partition needs the ledger.
            if decides {
                let nothing = Ledger::default();
                let now = self.meter.now(directory.now());
                let evidence =
                    Evidence { metadata: seen, heat: &nothing, load: &nothing, cause, now };
                let decision = decide(evidence, settings, directory.lease().waits());
                self.act(directory, hot, indexes, decision, beside).await;
            }
            return;
        }
        let capacity = f64::from(seen.number_of_shards.get()) * settings.partition.of(access);
        let (now, draw) = (directory.now(), directory.context().entropy().next_u64());
        let Some(_turn) = self.turn(partition) else { return };
        let due = self.meter.heat_due(partition, access, capacity, now, draw);
        let heat = match due {
            None => return,
            Some(Due::Report(addition)) => {
                let added = self.add(directory, seen, LedgerKind::Heat, &addition, beside.deadline);
                // A sample alone counts for no report.
                let may_decide = decides && !addition.added.is_empty();
                let Some(heat) = added.await.filter(|_| may_decide) else { return };
                let now = self.meter.now(directory.now());
                if !is_elected(heat.at(Span::Second, now).reports) {
                    return;
                }
                if Duration::from_nanos(now.subsec_nanos().into()) < COMPLETE_AFTER {
                    self.meter.decide_later(partition, directory.now());
                    return;
                }
                heat
            }
            Some(look @ (Due::Look | Due::Decide)) => {
                // Whoever is to decide is worth waiting for.
                let is_to_decide = decides && matches!(look, Due::Decide);
                beside.is_acting.store(is_to_decide, Ordering::Relaxed);
                let ledger =
                    directory.records().ledger(partition, LedgerKind::Heat, beside.deadline).await;
                beside.is_acting.store(false, Ordering::Relaxed);
                let Ok(value) = ledger else { return };
                let answer = Dated { value, server_secs: None };
                self.meter.learn(partition, LedgerKind::Heat, &answer, directory.now());
                if !is_to_decide {
                    return;
                }
                answer.value
            }
        };
        let now = self.meter.now(directory.now());
        let load = Ledger::default();
        let evidence = Evidence { metadata: seen, heat: &heat, load: &load, cause, now };
        let mut decision = decide(evidence, settings, directory.lease().waits());
        if matches!(decision.action, CountChange::Grow(_))
            && seen.is_enlisted()
            && indexes.is_none()
        {
            // What it asked for in the last minutes may tell that it will need more.
            if let Ok(load) =
                directory.records().ledger(partition, LedgerKind::Load, beside.deadline).await
            {
                let evidence = Evidence { load: &load, ..evidence };
                decision = decide(evidence, settings, directory.lease().waits());
            }
        }
        self.act(directory, hot, indexes, decision, beside).await;
    }

    /// Whether a report of a collection is due though nothing is throttled.
    pub(crate) fn load_due(
        &self,
        directory: &Directory,
        partition: &PartitionKey,
    ) -> Option<Addition> {
        let settings = directory.settings();
        let is_off = |mode| mode == ScalingMode::Off;
        if is_off(settings.scaling.mode) && is_off(settings.shrink.mode) {
            return None;
        }
        // A collection that costs nothing in the metadata table goes on costing nothing there.
        directory.cached(partition).filter(|known| known.metadata.is_enlisted())?;
        self.meter.load_due(partition, directory.now(), directory.context().entropy().next_u64())
    }

    /// Reports what a collection was asked for in the last minutes, and has it grow ahead of a ramp.
    pub(crate) async fn report_load(
        &self,
        directory: &Directory,
        partition: &PartitionKey,
        addition: Addition,
        beside: Beside,
    ) {
        let settings = directory.settings();
        let Some(known) = directory.cached(partition) else { return };
        let hot = self.seen(directory, &known);
        let seen = &*hot.of_epoch;
        let load = self.add(directory, seen, LedgerKind::Load, &addition, beside.deadline).await;
        let Some(load) = load else { return };
        let now = self.meter.now(directory.now());
        let last = load.at(Span::Minute, now.saturating_sub(Duration::from_mins(1)));
        let is_off = settings.scaling.mode == ScalingMode::Off;
        if is_off
            || self.decides_as.is_none()
            || !settings.scaling.writers
            || !is_elected(last.reports)
        {
            return;
        }
        let heat = Ledger::default();
        let evidence =
            Evidence { metadata: seen, heat: &heat, load: &load, cause: Cause::Time, now };
        let decision = decide(evidence, settings, directory.lease().waits());
        if decision.diagnosis == Diagnosis::Ramp {
            self.act(directory, &hot, None, decision, beside).await;
        }
    }

    /// Reports that what was asked for was not done when nothing was left to wait for: the metadata table is
    /// slow, or does not answer.
    pub(crate) fn was_cut_off(&self, directory: &Directory, partition: &PartitionKey) {
        let why = "the metadata table did not answer by the time that the request was answered";
        if let Some(known) = directory.cached(partition) {
            self.tell_failure(
                &known.metadata,
                &Error::new(Code::DeadlineExceeded, why),
                directory.now(),
            );
        }
    }

    async fn add(
        &self,
        directory: &Directory,
        seen: &CollectionMetadata,
        kind: LedgerKind,
        addition: &Addition,
        deadline: Deadline,
    ) -> Option<Ledger> {
        let partition = &seen.partition;
        let answer = match directory.records().add(partition, kind, addition, deadline).await {
            Ok(answer) => answer,
            Err(error) => {
                // A reader waits for a moment only, and what that loses others report.
                if self.decides_as.is_some() || !error.is_passing() {
                    self.tell_failure(seen, &error, directory.now());
                }
                return None;
            }
        };
        self.meter.learn(partition, kind, &answer, directory.now());
        let ledger = answer.value;
        let wrong = ledger.damaged + ledger.of_the_future(self.meter.now(directory.now()));
        if wrong > 0
            && let Some(telemetry) = &self.telemetry
            && self.is_news(Some(seen), "damaged ledger".to_owned(), directory.now())
        {
            telemetry.ledger_damaged(partition, wrong);
        }
        Some(ledger)
    }

    async fn act(
        &self,
        directory: &Directory,
        Seen { whole, epoch, .. }: &Seen,
        indexes: Option<IndexShards>,
        decision: Decision,
        beside: Beside,
    ) {
        let seen = &**whole;
        beside.is_acting.store(decision.is_worth_a_note(), Ordering::Relaxed);
        let mode = directory.settings().scaling.mode;
        let deadline = beside.deadline;
        let begun = match indexes {
            None => {
                let now = directory.now();
                let written = self.meter.written(&seen.partition, now);
                let decision = match epoch {
                    Some(at) if mode == ScalingMode::On => {
                        // Each count asks the hot shards for pages, so one is made for a while.
                        if !self.is_news(Some(seen), format!("counted {at}"), now) {
                            return beside.is_acting.store(false, Ordering::Relaxed);
                        }
                        let by = Deadline::after(now, COUNTED_WITHIN.min(deadline.remaining(now)));
                        // It asks for pages, and every write carries its future.
                        Box::pin(of_older(directory, seen, *at, decision, by)).await
                    }
                    Some(_) => at_most_doubled(decision),
                    None => decision,
                };
                let decided = (*epoch, decision);
                begin::begin_decided(directory, seen, decided, &written, mode, deadline).await
            }
            Some(shards) => {
                begin::begin_index_growth(directory, shards, decision, mode, deadline).await
            }
        };
        match begun {
            Ok((decision, outcome)) => {
                self.tell(directory, seen, decision, outcome, deadline).await;
            }
            Err(error) => self.tell_failure(seen, &error, directory.now()),
        }
        beside.is_acting.store(false, Ordering::Relaxed);
    }

    /// Logs, counts and notes a decision, if it is news.
    async fn tell(
        &self,
        directory: &Directory,
        seen: &CollectionMetadata,
        decision: Decision,
        outcome: Outcome,
        deadline: Deadline,
    ) {
        if !decision.is_worth_a_note() || outcome == Outcome::Overtaken {
            return;
        }
        let what = (decision.code(), decision.action, decision.hindrance.map(Hindrance::as_str));
        // A shared limit is noted of one of the keys that met it: a table at its quota may have millions.
        let of = (!decision.diagnosis.is_of_a_shared_limit()).then_some(seen);
        if outcome != Outcome::Begun && !self.is_news(of, format!("{what:?}"), directory.now()) {
            return;
        }
        if let Some(telemetry) = &self.telemetry {
            telemetry.decided(&decision, outcome);
        }
        let Some(by) = self.decides_as else { return };
        let noted = begin::note(directory, &decision, outcome, by, deadline).await;
        // What could not be noted now is noted when it is decided again, and nothing else waits for it.
        if let Err(error) = noted.or_else(|error| error.is_passing().then_some(()).ok_or(error)) {
            self.tell_failure(seen, &error, directory.now());
        }
    }

    fn tell_failure(&self, seen: &CollectionMetadata, error: &Error, now: Moment) {
        let Some(telemetry) = &self.telemetry else { return };
        // By code, so that a passing failure does not hide a lasting one, which is told again: an alarm would take silence for its
        // end.
        if self.is_news(Some(seen), format!("{:?}", error.code()), now) {
            telemetry.failed(&seen.partition, error);
        }
    }

    /// Whether this was not told of the collection in its state, or of all collections, a moment ago.
    fn is_news(&self, of: Option<&CollectionMetadata>, what: String, now: Moment) -> bool {
        let mut told = self.told.lock();
        let key = (of.map(|seen| seen.partition.clone()), what);
        let now_rev = of.map_or(0, |seen| seen.rev);
        let last = told.get(&key);
        let is_old = last.is_some_and(|(rev, at)| *rev == now_rev && now.wall < *at + TOLD_EVERY);
        if !is_old {
            told.put(key, (now_rev, now.wall));
        }
        !is_old
    }

    /// The right to report a collection. `None` if another request of this environment has it: nobody
    /// waits for that.
    fn turn<'a>(&'a self, partition: &'a PartitionKey) -> Option<Reporting<'a>> {
        let mut under_way = self.under_way.lock();
        if !under_way.insert(partition.clone()) {
            return None;
        }
        Some(Reporting { under_way: &self.under_way, partition })
    }
}

/// Whether the environment whose report was this one of its time decides: few do of however many report, and
/// if one is frozen before it could, another does a moment later.
fn is_elected(reports: f64) -> bool {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let reports = reports as u64;
    reports.is_power_of_two()
}

/// What a decision is made on.
struct Seen {
    whole: Arc<CollectionMetadata>,
    /// The epoch that it is about: an index into the older ones, or `None` for the newest.
    epoch: Option<usize>,
    /// What holds of that.
    of_epoch: Arc<CollectionMetadata>,
}

/// See [`Watch::turn`]. It ends when it is dropped.
struct Reporting<'a> {
    under_way: &'a Mutex<HashSet<PartitionKey>>,
    partition: &'a PartitionKey,
}

impl Drop for Reporting<'_> {
    fn drop(&mut self) {
        let mut under_way = self.under_way.lock();
        under_way.remove(self.partition);
    }
}
