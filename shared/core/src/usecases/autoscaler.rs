//! Decides on the collections that an alarm on throttles is about, and by a schedule which ones shrink.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use dynashard_keys::{PartitionKey, ShardId};

use crate::decide::epochs::{decide_older, hot_epoch, is_merge_due};
use crate::decide::shard_count::{Cause, Evidence, decide};
use crate::decide::shrink::{decide_shrink, is_look_due};
use crate::model::decision::{Decision, Diagnosis, Outcome};
use crate::model::error::{Error, Kind};
use crate::model::heat::{HeatWindow, HotCollection, Rearm, Throttles, group};
use crate::model::history::DecidedBy;
use crate::model::lease::Deadline;
use crate::model::ledger::{Addition, Bucket, Ledger, LedgerKind, Measures, Span};
use crate::model::metadata::{CollectionMetadata, Phase};
use crate::model::policy::{Access, Hindrance, ScalingMode};
use crate::ports::{HeatAlarms, HeatSource, List, Listed, StoreError};
use crate::usecases::begin;
use crate::usecases::directory::Directory;
use crate::usecases::epochs::{by_counted_items, merge_of, of_older};
use crate::usecases::retry::once;

/// Acts on throttles that an alarm reports: what is hot grows, and nothing grows by guess.
///
/// Events may repeat, come late or be lost. So an event says only when to look; what to do follows
/// from the report of throttled keys and from each collection's metadata, and throttles from before
/// a collection's last change do not lead to another.
///
/// A report counts refusals, and does not tell reads from writes. So what is decided stands on the
/// [ledgers](crate::model::ledger::Ledger), where functions have reported, and on the report alone where they have not.
pub struct AutoScaler<'a, W> {
    watch: &'a W,
    directory: &'a Directory,
}

/// What was found, and what was done about it.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatReport {
    /// The mode in which it was decided; with [`ScalingMode::Off`] nothing was even read.
    pub mode: ScalingMode,
    /// The throttled collections, hottest first.
    pub collections: Vec<CollectionHeat>,
    /// The throttled keys that are not physical keys of this system.
    pub of_no_collection: Vec<String>,
    /// What became of the alarm.
    pub rearm: Rearm,
    /// Why the alarm could not be asked, so that all was looked at without it.
    pub unasked: Option<Error>,
}

/// One throttled collection.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionHeat {
    /// The logical partition key.
    pub partition: PartitionKey,
    /// The throttles of all its shards in the window.
    pub throttles: f64,
    /// What was decided.
    pub outcome: HeatOutcome,
}

/// What became of one throttled collection.
#[derive(Debug, Clone, PartialEq)]
pub enum HeatOutcome {
    /// It was decided on.
    Decided(Box<Decision>, Outcome),
    /// All throttles that were reported are from before its last change.
    Relieved {
        /// Whether the change lies within the last period that could be reported by now, so that its
        /// throttles may be from either side of the change.
        perhaps_not: bool,
    },
    /// All throttles are of shards that it does not have.
    UnknownShards(Vec<ShardId>),
    /// Its metadata breaks a rule, and an operator must look.
    Damaged(Error),
    /// Its metadata could not be read or changed; another attempt may succeed.
    Failed(Error),
}

impl<'a, W: HeatSource + HeatAlarms> AutoScaler<'a, W> {
    /// An autoscaler that asks `watch` and acts through `directory`.
    pub fn new(watch: &'a W, directory: &'a Directory) -> Self {
        Self { watch, directory }
    }

    /// Acts on the throttles of `window`, for an alarm that was raised.
    pub async fn scale(
        &self,
        window: HeatWindow,
        access: Access,
        deadline: Deadline,
    ) -> Result<HeatReport, Error> {
        let mode = self.directory.settings().scaling.mode;
        let mut report = HeatReport {
            mode,
            collections: Vec::new(),
            of_no_collection: Vec::new(),
            rearm: Rearm::NotNeeded,
            unasked: None,
        };
        if mode == ScalingMode::Off {
            return Ok(report);
        }
        let keys = self.ask(self.watch.throttled_keys(window), deadline).await?;
        let (collections, of_no_collection) =
            group(keys, self.directory.settings().schema.separator);
        report.of_no_collection = of_no_collection;
        // One after the other, hottest first: if time runs out, it does so for the coolest.
        for hot in collections {
            let throttles = hot.total();
            let outcome = self.decide(&hot, window, access, deadline).await;
            let partition = hot.partition;
            report.collections.push(CollectionHeat { partition, throttles, outcome });
        }
        if mode == ScalingMode::On && report.collections.iter().any(|c| c.outcome.may_grow_later())
        {
            let reason = "dynashard acted on the throttled keys; reset to notice further ones";
            report.rearm = self.rearm(access, reason, deadline).await;
        }
        Ok(report)
    }

    /// Asks the alarm itself, since events can be lost and an alarm can stay raised without another
    /// transition. `None` where it is not raised. What is hot is looked for also if the alarm cannot be
    /// asked: somebody may have deleted it. A stack that does without alarms has nothing to look for.
    pub async fn sweep(
        &self,
        access: Access,
        deadline: Deadline,
    ) -> Result<Option<HeatReport>, Error> {
        let is_off = self.directory.settings().scaling.mode == ScalingMode::Off;
        if is_off || !self.watch.is_there(access) {
            return Ok(None);
        }
        let mut unasked = None;
        let (period, evaluated) = match self.ask(self.watch.alarm(access).status(), deadline).await
        {
            Ok(alarm) if !alarm.is_raised => return Ok(None),
            Ok(alarm) => {
                (alarm.period, Some(alarm.period.saturating_mul(alarm.evaluation_periods)))
            }
            Err(error) => {
                unasked = Some(error);
                (Duration::from_mins(1), None)
            }
        };
        let now_secs = self.directory.now().epoch_secs();
        let window = HeatWindow::of_alarm(now_secs, evaluated, period, now_secs);
        let mut report = self.scale(window, access, deadline).await?;
        // It may be raised for want of data. If anything is throttled still, the next datapoint raises it again.
        if report.mode == ScalingMode::On
            && report.collections.is_empty()
            && report.of_no_collection.is_empty()
            && unasked.is_none()
        {
            let reason = "dynashard found no throttled key; reset to notice further ones";
            report.rearm = self.rearm(access, reason, deadline).await;
        }
        Ok(Some(HeatReport { unasked, ..report }))
    }

    async fn rearm(&self, access: Access, reason: &str, deadline: Deadline) -> Rearm {
        match self.ask(self.watch.alarm(access).rearm(reason), deadline).await {
            Ok(()) => Rearm::Done,
            Err(error) => Rearm::Failed(error),
        }
    }

    async fn decide(
        &self,
        hot: &HotCollection,
        window: HeatWindow,
        access: Access,
        deadline: Deadline,
    ) -> HeatOutcome {
        let known = match self.directory.read_now(&hot.partition, deadline).await {
            Ok(known) => known,
            Err(error) => return HeatOutcome::of_error(error),
        };
        let now_secs = self.directory.now().epoch_secs();
        let heat = ReportedHeat::of(hot, &known.metadata, u64::from(window.period_secs), now_secs);
        if heat.is_of_no_shard {
            let shards = hot.shards.iter().filter_map(|(shard, _)| *shard);
            return HeatOutcome::UnknownShards(shards.collect());
        }
        // While a change runs, its end comes first, whenever the throttles were.
        if known.metadata.phase == Phase::Stable && !heat.since_change {
            return HeatOutcome::Relieved { perhaps_not: heat.around_change };
        }
        let (heat_ledger, load) = self.ledgers(&hot.partition, deadline).await;
        let cause = Cause::Reported {
            access,
            per_second: heat.per_second,
            hottest_share: hot.hottest_item.map(|item| item / hot.total().max(1.0)),
            shards: &heat.hot,
        };
        let (whole, now) = (&*known.metadata, self.directory.now().wall);
        let epoch = hot_epoch(whole, &heat.hot);
        let metadata = &whole.of_epoch(epoch);
        let evidence = Evidence { metadata, heat: &heat_ledger, load: &load, cause, now };
        let decide = if epoch.is_some() { decide_older } else { decide };
        let mut decision =
            decide(evidence, self.directory.settings(), self.directory.lease().waits());
        if let Some(at) = epoch {
            decision = of_older(self.directory, whole, at, decision, deadline).await;
        }
        let mode = self.directory.settings().scaling.mode;
        self.carry_out((whole, epoch), decision, mode, DecidedBy::Alarm, deadline).await
    }

    /// What the ledgers of a collection hold. One that cannot be read counts as empty.
    async fn ledgers(&self, partition: &PartitionKey, deadline: Deadline) -> (Ledger, Ledger) {
        let heat = self.directory.records().ledger(partition, LedgerKind::Heat, deadline).await;
        let load = self.directory.records().ledger(partition, LedgerKind::Load, deadline).await;
        (heat.unwrap_or_default(), load.unwrap_or_default())
    }

    async fn carry_out(
        &self,
        (metadata, epoch): (&CollectionMetadata, Option<usize>),
        decision: Decision,
        mode: ScalingMode,
        by: DecidedBy,
        deadline: Deadline,
    ) -> HeatOutcome {
        match begin::begin_decided(self.directory, metadata, (epoch, decision), &[], mode, deadline)
            .await
        {
            Ok((decision, outcome)) => {
                // A note that fails is not tried again: the decision is logged, too.
                if decision.is_worth_a_note() && outcome != Outcome::Overtaken {
                    let _ = begin::note(self.directory, &decision, outcome, by, deadline).await;
                }
                HeatOutcome::Decided(Box::new(decision), outcome)
            }
            Err(error) => HeatOutcome::of_error(error),
        }
    }

    /// Looks at the collections that have more shards than their floor, or many epochs, and whose minute was since the last pass over
    /// all of them, a page from behind `after`, and lets those shrink that need fewer. Returns what there is to tell of them, and where
    /// the next page begins.
    pub async fn shrink(
        &self,
        after: Option<&str>,
        since_last_pass: Duration,
        deadline: Deadline,
    ) -> Result<(Vec<CollectionHeat>, Option<String>), Error> {
        let settings = self.directory.settings();
        let mode = settings.shrink.mode;
        if mode == ScalingMode::Off {
            return Ok((Vec::new(), None));
        }
        let page = self.directory.records().list(List::Grown, after, deadline).await?;
        let mut last = after.map(str::to_owned);
        let mut told = Vec::new();
        for Listed { partition, .. } in page.entries {
            if deadline.remaining(self.directory.now()).is_zero() {
                return Ok((told, last));
            }
            last = Some(partition.to_string());
            let now = self.directory.now().wall;
            if !is_look_due(&partition, settings.shrink.after, since_last_pass, now) {
                continue;
            }
            let outcome = self.decide_shrink(&partition, mode, deadline).await;
            let uses_its_shards = matches!(
                &outcome, HeatOutcome::Decided(decision, _) if !decision.is_worth_a_note()
            );
            if !uses_its_shards {
                told.push(CollectionHeat { partition, throttles: 0.0, outcome });
            }
        }
        Ok((told, page.next))
    }

    async fn decide_shrink(
        &self,
        partition: &PartitionKey,
        mode: ScalingMode,
        deadline: Deadline,
    ) -> HeatOutcome {
        let known = match self.directory.read_now(partition, deadline).await {
            Ok(known) => known,
            Err(error) => return HeatOutcome::of_error(error),
        };
        let load = match self.watched_load(partition, deadline).await {
            Ok(load) => load,
            Err(error) => return HeatOutcome::of_error(error),
        };
        let now = self.directory.now().wall;
        let heat = Ledger::default();
        let (whole, cause) = (&*known.metadata, Cause::Time);
        let evidence = Evidence { metadata: whole, heat: &heat, load: &load, cause, now };
        let settings = self.directory.settings();
        let shrink = decide_shrink(evidence, settings);
        let shrink = by_counted_items(self.directory, evidence, shrink, deadline).await;
        // What would not be carried out is not worth counting.
        let may_merge = mode == ScalingMode::On && settings.grow_keys.allow(partition);
        let merge = if may_merge && is_merge_due(whole, &shrink) {
            merge_of(self.directory, whole, deadline).await
        } else {
            None
        };
        let (epoch, decision) = merge.map_or((None, shrink), |(at, merge)| (Some(at), merge));
        self.carry_out((whole, epoch), decision, mode, DecidedBy::Schedule, deadline).await
    }

    /// The ledger of a collection's load, with a note that somebody has looked: an empty minute says that the
    /// collection was cool only if somebody was there to see it. Minutes are kept for less long than a window lasts, so the hours take
    /// note of the busiest ones.
    async fn watched_load(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<Ledger, Error> {
        let (kind, now) = (LedgerKind::Load, self.directory.now().wall);
        let known = self.directory.records().ledger(partition, kind, deadline).await?;
        let seen = Measures { reports: 1.0, ..Measures::default() };
        let added = [Span::Minute, Span::Hour].map(|span| (Bucket::of(span, now), seen));
        let added = added.into_iter().chain(known.busier_minutes(now)).collect();
        // Where nobody else reports, nobody else removes what is old.
        let expired = known.expired(now);
        let addition = Addition { added, expired, ..Addition::default() };
        Ok(self.directory.records().add(partition, kind, &addition, deadline).await?.value)
    }

    /// One answer by the deadline.
    async fn ask<T>(
        &self,
        question: impl Future<Output = Result<T, StoreError>>,
        deadline: Deadline,
    ) -> Result<T, Error> {
        let why = "CloudWatch did not answer in time";
        once(self.directory.clock(), deadline, question, why).await
    }
}

/// The throttles of a collection, as they relate to its present state.
struct ReportedHeat {
    is_of_no_shard: bool,
    /// A whole period of throttles lies after the last change, or there was no change.
    since_change: bool,
    /// The shards of these.
    hot: Vec<ShardId>,
    /// The throttles a second in the worst of these periods.
    per_second: f64,
    /// A period of throttles began before the last change and ended after it, and nothing later can
    /// be known yet.
    around_change: bool,
}

impl ReportedHeat {
    fn of(
        hot: &HotCollection,
        metadata: &CollectionMetadata,
        period_secs: u64,
        now_secs: u64,
    ) -> Self {
        let count = metadata.widest();
        let has = |wanted| metadata.placement.shards(count).any(|shard| shard == wanted);
        let first = metadata.placement.first();
        let shards = hot.shards.iter().map(|(shard, of)| (shard.unwrap_or(first), of));
        let of_its_shards = shards.filter(|(shard, _)| has(*shard)).collect::<Vec<_>>();
        let changed_secs = if metadata.has_changed() { metadata.last_updated_secs } else { 0 };
        let counts = |throttles: &&Throttles| throttles.count > 0.0;
        let since_change =
            |throttles: &Throttles| counts(&throttles) && throttles.at_secs >= changed_secs;
        let hot = of_its_shards
            .iter()
            .filter(|(_, throttles)| throttles.iter().any(since_change))
            .map(|(shard, _)| *shard)
            .collect::<Vec<_>>();
        let mut periods = BTreeMap::<u64, f64>::new();
        for throttles in of_its_shards.iter().flat_map(|(_, throttles)| *throttles) {
            // What led to a change that runs may go on.
            if since_change(throttles) || metadata.phase != Phase::Stable {
                *periods.entry(throttles.at_secs).or_default() += throttles.count;
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a minute at most")]
        let per_second = periods.into_values().fold(0.0, f64::max) / period_secs.max(1) as f64;
        let mut throttles =
            of_its_shards.iter().flat_map(|(_, throttles)| *throttles).filter(counts);
        // A period is known of when it is over, and as long again may pass until it is reported.
        let periods_end = |t: &Throttles, n| t.at_secs.saturating_add(period_secs * n);
        Self {
            is_of_no_shard: of_its_shards.is_empty(),
            since_change: !hot.is_empty(),
            hot,
            per_second,
            around_change: throttles
                .any(|t| periods_end(t, 1) > changed_secs && periods_end(t, 3) > now_secs),
        }
    }
}

impl HeatOutcome {
    fn of_error(error: Error) -> Self {
        match error.kind() {
            Kind::Data => Self::Damaged(error),
            _ => Self::Failed(error),
        }
    }

    /// Whether heat goes on, or may, and a further call could do something about it.
    fn may_grow_later(&self) -> bool {
        match self {
            Self::Decided(_, Outcome::Begun | Outcome::Overtaken) | Self::Failed(_) => true,
            Self::Decided(decision, Outcome::NothingToDo) => {
                // Somebody reports, and will soon have reported enough.
                (decision.diagnosis == Diagnosis::TooLittleEvidence && decision.figures.seconds > 0)
                    || matches!(
                        decision.hindrance,
                        Some(
                            Hindrance::Running | Hindrance::TooSoon { .. } | Hindrance::ClearingUp
                        )
                    )
            }
            Self::Relieved { perhaps_not } => *perhaps_not,
            Self::Decided(_, Outcome::DryRun) | Self::UnknownShards(_) | Self::Damaged(_) => false,
        }
    }
}

impl fmt::Display for HeatOutcome {
    /// A sentence for the log, without its full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decided(decision, _) => decision.fmt(f),
            Self::Relieved { perhaps_not: false } => {
                f.write_str("it was throttled before its last change only")
            }
            Self::Relieved { perhaps_not: true } => {
                f.write_str("it was throttled in the period of its last change, on either side")
            }
            Self::UnknownShards(shards) => {
                let shards = shards.iter().map(ToString::to_string).collect::<Vec<_>>();
                write!(f, "it does not have the throttled shards {}", shards.join(", "))
            }
            Self::Damaged(error) | Self::Failed(error) => error.fmt(f),
        }
    }
}
