//! What an alarm on throttles leads to.

use std::iter;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use dynashard_core::ports::{
    AlarmControl, Change, Clock, HeatAlarms, HeatSource, ReadRecords, RecordStore, StoreError,
};
use dynashard_core::{
    Access, Addition, Advance, AlarmStatus, AttributeValue, Attributes, AutoScaler, Bucket, Code,
    CollectionMetadata, Decision, Epoch, Epochs, Error, GrowKeys, HeatOutcome, HeatReport,
    HeatWindow, Hindrance, HistoryEntry, HotKey, Ledger, LedgerKind, Measures, NewItem, Outcome,
    Phase, Precondition, Rearm, ScalingMode, ScalingPolicy, Settings, ShrinkPolicy, Span,
    StoredItem, Telemetry, Throttle, Writer,
};
use dynashard_keys::{ItemKey, PartitionKey, Placement, Separator, ShardCount, ShardId, SortKey};
use dynashard_testkit::{Fault, MemoryHeat, Operation, block_on};
use futures_util::future::{join, join_all};

use crate::world::{
    World, count, key, metadata as new_metadata, outcome_unknown, partition, stored, usual_settings,
};

/// Longer than T', and than the cooldown.
const LONG: Duration = Duration::from_secs(71);

/// A table with its alarm, and the random collection `EWR` of so many shards in it, created long
/// ago.
struct Hot {
    world: World,
    heat: MemoryHeat,
}

impl Hot {
    fn new(shards: u32) -> Self {
        Self::with(shards, ScalingMode::On)
    }

    fn with(shards: u32, mode: ScalingMode) -> Self {
        let scaling = ScalingPolicy { mode, ..ScalingPolicy::default() };
        Self::of(shards, Settings { scaling, ..usual_settings() })
    }

    fn of(shards: u32, settings: Settings) -> Self {
        let world = World::with(settings);
        world.lay_out(1, shards, Placement::Random);
        world.clock.advance(LONG);
        Self { world, heat: MemoryHeat::new() }
    }

    fn now_secs(&self) -> u64 {
        self.world.clock.now().epoch_secs()
    }

    /// A key is throttled a hundred times a second, in the last minute.
    fn throttle(&self, key: &str) {
        self.heat.throttle(key, self.now_secs() - 1, 6_000.0);
    }

    /// The window of an alarm of one minute that is raised now.
    fn window(&self) -> HeatWindow {
        let (now, minute) = (self.now_secs(), Duration::from_mins(1));
        HeatWindow::of_alarm(now, Some(minute), minute, now)
    }

    fn scale(&self) -> HeatReport {
        self.try_scale(self.window()).expect("a report")
    }

    fn try_scale(&self, window: HeatWindow) -> Result<HeatReport, Error> {
        let directory = self.world.directory();
        let autoscaler = AutoScaler::new(&self.heat, &directory);
        block_on(autoscaler.scale(window, Access::Write, self.world.deadline()))
    }

    fn sweep(&self) -> Option<HeatReport> {
        let directory = self.world.directory();
        let autoscaler = AutoScaler::new(&self.heat, &directory);
        block_on(autoscaler.sweep(Access::Write, self.world.deadline())).expect("a sweep")
    }

    /// Four hours pass, and the schedule looks each minute.
    fn pass_hours(&self) {
        let directory = self.world.directory();
        let autoscaler = AutoScaler::new(&self.heat, &directory);
        for _ in 0..4 * 60 {
            let page = autoscaler.shrink(None, Duration::ZERO, self.world.deadline());
            block_on(page).expect("a page");
            self.world.clock.advance(Duration::from_mins(1));
        }
    }

    fn metadata(&self) -> CollectionMetadata {
        self.world.memory.stored_metadata(&partition()).expect("the collection exists")
    }

    /// Lets the rebalancer finish what was begun.
    fn finish(&self) {
        let rebalancer = self.world.rebalancer();
        let slice = block_on(rebalancer.advance(&partition(), 0, self.world.deadline()));
        let advance = slice.advance.expect("it advances");
        assert!(matches!(advance, Advance::Finished(_)), "{advance:?}");
    }
}

/// The only collection of a report, and what was decided about it.
#[track_caller]
fn outcome(report: &HeatReport) -> &HeatOutcome {
    assert_eq!(report.collections.len(), 1, "{report:?}");
    assert_eq!(report.collections[0].partition, partition());
    &report.collections[0].outcome
}

/// What was decided, and done: the counts before and after, the hindrance and the outcome.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Decided(u32, Option<u32>, Option<Hindrance>, Outcome);

#[track_caller]
fn decided(outcome: &HeatOutcome) -> Decided {
    let HeatOutcome::Decided(decision, outcome) = outcome else { panic!("{outcome:?}") };
    Decided::of(decision, *outcome)
}

impl Decided {
    fn of(decision: &Decision, outcome: Outcome) -> Self {
        let to = decision.action.target().map(ShardCount::get);
        Self(decision.count.get(), to, decision.hindrance, outcome)
    }
}

fn begun(from: u32, to: u32) -> Decided {
    Decided(from, Some(to), None, Outcome::Begun)
}

fn hindered(count: u32, hindrance: Hindrance) -> Decided {
    Decided(count, None, Some(hindrance), Outcome::NothingToDo)
}

fn hot_partition() -> Fault {
    let throttle = Throttle::from_reason("TableWriteKeyRangeThroughputExceeded", None);
    Fault::Refuse(StoreError::Throttled(throttle))
}

#[test]
fn throttled_shards_make_their_collection_grow_and_the_alarm_is_set_back() {
    let hot = Hot::new(2);
    hot.heat.raise();
    hot.throttle("EWR");
    hot.throttle("EWR#~2");
    let report = hot.scale();
    assert_eq!(decided(outcome(&report)), begun(2, 4));
    assert!((report.collections[0].throttles - 12_000.0).abs() < 1e-9);
    assert_eq!(hot.metadata().phase, Phase::Forward { from: count(2), to: count(4) });
    assert_eq!((report.rearm, hot.heat.is_raised()), (Rearm::Done, false));
    assert!(report.of_no_collection.is_empty());
}

#[test]
fn each_throttled_collection_is_decided_on_hottest_first() {
    let hot = Hot::new(1);
    for (name, count) in [("a", 5.0), ("b", 50.0)] {
        let partition = PartitionKey::new(name).expect("pk");
        let created = new_metadata(1, 1, Placement::Random);
        hot.world.memory.place_metadata(CollectionMetadata { partition, ..created });
        hot.heat.throttle(name, hot.now_secs() - 1, 1_000.0 + count);
    }
    hot.throttle("EWR");
    let report = hot.scale();
    let names = report.collections.iter().map(|c| c.partition.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["EWR", "b", "a"]);
    assert!(report.collections.iter().all(|c| decided(&c.outcome) == begun(1, 2)));
}

#[test]
fn a_thousand_alarms_and_a_thousand_writers_at_once_cause_one_growth() {
    let hot = Hot::new(1);
    hot.throttle("EWR");
    let directories = (0..1_000).map(|_| hot.world.directory()).collect::<Vec<_>>();
    let autoscalers = directories.iter().map(|directory| AutoScaler::new(&hot.heat, directory));
    let autoscalers = autoscalers.collect::<Vec<_>>();
    let (window, deadline) = (hot.window(), hot.world.deadline());
    let responses =
        autoscalers.iter().map(|autoscaler| autoscaler.scale(window, Access::Write, deadline));

    let writers = (0..1_000).map(|_| hot.world.writer()).collect::<Vec<_>>();
    hot.world.store.script(Operation::Write, (0..1_000).map(|_| hot_partition()));
    let items = (0..1_000).map(|n| hot.world.new_item(&n.to_string(), "new")).collect::<Vec<_>>();
    let puts = writers.iter().zip(&items);
    let puts = puts.map(|(writer, item)| writer.put(item, Precondition::None, deadline));

    let (reports, written) = block_on(join(join_all(responses), join_all(puts)));
    let grown = reports
        .iter()
        .filter(|report| decided(outcome(report.as_ref().expect("a report"))) == begun(1, 2));
    assert!(grown.count() <= 1);
    assert!(written.iter().all(Result::is_ok));
    let CollectionMetadata { phase, rev, .. } = hot.metadata();
    assert_eq!((phase, rev), (Phase::Forward { from: count(1), to: count(2) }, 2), "one change");
}

#[test]
fn of_a_thousand_alarms_that_read_the_same_one_begins_the_growth() {
    let hot = Hot::new(1);
    hot.throttle("EWR");
    // All have read before any of them changes what it read.
    hot.world.store.delay(&hot.world.clock, Duration::from_millis(10));
    let directories = (0..1_000).map(|_| hot.world.directory()).collect::<Vec<_>>();
    let autoscalers = directories.iter().map(|directory| AutoScaler::new(&hot.heat, directory));
    let autoscalers = autoscalers.collect::<Vec<_>>();
    let (window, deadline) = (hot.window(), hot.world.deadline());
    let responses =
        autoscalers.iter().map(|autoscaler| autoscaler.scale(window, Access::Write, deadline));
    let reports = block_on(join_all(responses));
    let with = |expected: Outcome| {
        let reports = reports.iter().map(|report| report.as_ref().expect("a report"));
        reports.filter(|report| decided(outcome(report)).3 == expected).count()
    };
    assert_eq!((with(Outcome::Begun), with(Outcome::Overtaken)), (1, 999));
    assert_eq!(hot.metadata().rev, 2);
}

/// Two that begin the same growth at once: one of the transactions is refused because of the other. That
/// was counted as a growth that failed, and logged as an error.
#[test]
fn regression_a_conflict_with_the_same_growth_counted_as_a_failure() {
    let conflict = || Fault::Refuse(StoreError::Conflict);
    let hot = Hot::new(1);
    hot.throttle("EWR");
    hot.world.store.script(Operation::Begin, [conflict()]);
    let report = hot.scale();
    assert_eq!(decided(outcome(&report)).3, Outcome::Overtaken);
    assert_eq!(report.rearm, Rearm::Done, "whatever became of it, somebody looks again");

    let hot = Hot::new(1);
    hot.world.store.script(Operation::Begin, [conflict()]);
    let reports = Reports::default();
    assert_eq!(reports.by_throttled_puts(&hot, 1), []);
    assert_eq!(*reports.failures.lock().expect("no panic"), []);
    assert_eq!(hot.world.store.attempts(Operation::Begin), 1);

    // The directory is one item, which all who enlist a collection change.
    let hot = Hot::new(1);
    hot.throttle("LGA");
    hot.world.store.script(Operation::Enlist, [conflict()]);
    let report = hot.scale();
    assert_eq!(decided(&report.collections[0].outcome).3, Outcome::Overtaken);
    assert_eq!(report.rearm, Rearm::Done);
}

#[test]
fn an_autoscaler_that_another_overtakes_leaves_it_at_that() {
    let hot = Hot::new(1);
    hot.throttle("EWR");
    let (memory, before) = (hot.world.memory.clone(), hot.metadata());
    let others = CollectionMetadata { rev: 2, ..before };
    let theirs = others.clone();
    let overtake = Fault::before(move || memory.place_metadata(theirs));
    hot.world.store.script(Operation::Begin, [overtake]);
    assert_eq!(decided(outcome(&hot.scale())).3, Outcome::Overtaken);
    assert_eq!(hot.metadata(), others);
}

#[test]
fn the_same_event_twice_causes_one_growth() {
    let hot = Hot::new(1);
    hot.throttle("EWR");
    let (raised_secs, minute) = (hot.now_secs(), Duration::from_mins(1));
    let respond = || {
        let window = HeatWindow::of_alarm(raised_secs, Some(minute), minute, hot.now_secs());
        hot.try_scale(window).expect("a report")
    };
    assert_eq!(decided(outcome(&respond())), begun(1, 2));
    assert_eq!(decided(outcome(&respond())).2, Some(Hindrance::Running));
    hot.finish();
    let report = respond();
    assert_eq!(*outcome(&report), HeatOutcome::Relieved { perhaps_not: true }, "a moment later");
    assert_eq!(report.rearm, Rearm::Done);
    // Long after the cooldown the throttles are still those that it has grown for.
    for wait in [Duration::from_mins(4), Duration::from_hours(1)] {
        hot.world.clock.advance(wait);
        let report = respond();
        assert_eq!(*outcome(&report), HeatOutcome::Relieved { perhaps_not: false });
        assert_eq!(report.rearm, Rearm::NotNeeded, "nothing is left to do");
    }
    assert_eq!((hot.metadata().rev, hot.metadata().number_of_shards), (4, count(2)));
}

#[test]
fn regression_an_alarm_of_the_rebalancers_own_making_was_a_reason_to_grow() {
    let hot = Hot::new(1);
    let created = hot.metadata();
    let entry = |shards| HistoryEntry { at_secs: created.last_updated_secs, count: count(shards) };
    hot.world.memory.place_metadata(CollectionMetadata {
        placement: Placement::Xxh64,
        number_of_shards: count(4),
        shard_history: vec![entry(1), entry(4)],
        cleanup_pending: true,
        rev: 4,
        ..created
    });
    hot.throttle("EWR");
    let report = hot.scale();
    assert_eq!(decided(outcome(&report)), hindered(4, Hindrance::ClearingUp));
    assert_eq!(report.rearm, Rearm::Done, "it looks again");
    hot.throttle("EWR#~2");
    assert_eq!(decided(outcome(&hot.scale())), begun(4, 8));
}

#[test]
fn a_cooldown_lies_between_two_growths_whatever_the_heat() {
    let hot = Hot::new(1);
    hot.throttle("EWR");
    hot.scale();
    hot.finish();
    let changed_secs = hot.metadata().last_updated_secs;
    let mut begun_secs = None;
    while begun_secs.is_none() && hot.now_secs() < changed_secs + 300 {
        hot.world.clock.advance(Duration::from_secs(1));
        hot.throttle("EWR");
        let report = hot.scale();
        match outcome(&report) {
            HeatOutcome::Decided(_, Outcome::Begun) => begun_secs = Some(hot.now_secs()),
            HeatOutcome::Decided(decision, _) => {
                let until_secs = changed_secs + 60;
                assert_eq!(decision.hindrance, Some(Hindrance::TooSoon { until_secs }));
            }
            // Until the first whole period after the change.
            HeatOutcome::Relieved { perhaps_not: true } => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(report.rearm, Rearm::Done, "heat goes on");
    }
    assert_eq!(begun_secs, Some(changed_secs + 60));
    assert_eq!(hot.metadata().phase, Phase::Forward { from: count(2), to: count(4) });
}

#[test]
fn a_report_without_contributors_changes_nothing() {
    let hot = Hot::new(1);
    hot.heat.raise();
    hot.heat.throttle("EWR", hot.now_secs() - 3_600, 100.0);
    let report = hot.scale();
    assert!(report.collections.is_empty() && report.of_no_collection.is_empty(), "{report:?}");
    assert_eq!(report.rearm, Rearm::NotNeeded);
    assert!(hot.heat.is_raised());
    assert_eq!(hot.world.memory.requests().total(), 0);
}

#[test]
fn what_cannot_be_attributed_to_a_shard_makes_nothing_grow() {
    // The sort of key, the key, and what is decided; nothing for one that is not ours.
    let cases = [
        ("a leading zero", "EWR#~01", None),
        ("no shard that fits", "EWR#~99999999999", None),
        ("the first shard by its number", "EWR#~0", None),
        ("the system's own", "_ds_meta#~1", None),
        ("no key at all", "", None),
        (
            "a shard of a cold collection",
            "LGA#~1",
            Some(HeatOutcome::UnknownShards(vec![ShardId::new(1)])),
        ),
        (
            "a key of another depth",
            "EWR#~1#~1",
            Some(HeatOutcome::UnknownShards(vec![ShardId::new(1)])),
        ),
        (
            "a shard beyond the count",
            "EWR#~3",
            Some(HeatOutcome::UnknownShards(vec![ShardId::new(3)])),
        ),
    ];
    for (what, key, expected) in cases {
        let hot = Hot::new(2);
        hot.throttle(key);
        let report = hot.scale();
        let of_no_collection = if expected.is_none() { vec![key.to_owned()] } else { vec![] };
        let outcomes = report.collections.iter().map(|c| c.outcome.clone()).collect::<Vec<_>>();
        assert_eq!(
            (outcomes, report.of_no_collection),
            (expected.into_iter().collect(), of_no_collection),
            "{what}"
        );
        assert_eq!(report.rearm, Rearm::NotNeeded, "{what}");
        assert_eq!(hot.metadata().rev, 1, "{what}");
        assert_eq!(hot.world.store.attempts(Operation::Begin), 0, "{what}");
        assert_eq!(hot.world.store.attempts(Operation::Enlist), 0, "{what}");
    }
}

#[test]
fn a_throttled_key_without_metadata_is_enlisted_and_grows() {
    let hot = Hot::new(1);
    let cold = PartitionKey::new("LGA").expect("pk");
    hot.throttle("LGA");
    let report = hot.scale();
    assert_eq!(decided(&report.collections[0].outcome), begun(1, 2));
    let metadata = hot.world.memory.stored_metadata(&cold).expect("metadata");
    assert_eq!(metadata.phase, Phase::Forward { from: count(1), to: count(2) });
    assert!(hot.world.memory.lists(&cold));
}

#[test]
fn damaged_metadata_is_reported_and_holds_up_no_other_collection() {
    let hot = Hot::new(1);
    let damaged = PartitionKey::new("LGA").expect("pk");
    let exists = CollectionMetadata { partition: damaged.clone(), ..hot.metadata() };
    hot.world.memory.place_metadata(exists);
    hot.heat.throttle("LGA", hot.now_secs() - 1, 60_000.0);
    hot.throttle("EWR");
    let corrupt = StoreError::Corrupt("the metadata item of \"LGA\" is damaged: rev".to_owned());
    hot.world.store.script(Operation::MetadataGet, [Fault::Refuse(corrupt)]);
    let report = hot.scale();
    assert_eq!(report.collections[0].partition, damaged);
    let HeatOutcome::Damaged(error) = &report.collections[0].outcome else {
        panic!("{report:?}");
    };
    assert_eq!(error.code(), Code::CorruptData);
    assert_eq!(decided(&report.collections[1].outcome), begun(1, 2));
}

#[test]
fn a_collection_that_cannot_grow_leaves_the_alarm_raised_for_people() {
    for placement in [Placement::Random, Placement::Jump, Placement::Xxh64] {
        let hot = Hot::new(1);
        hot.world.lay_out(1, 256, placement);
        hot.heat.raise();
        hot.throttle("EWR");
        let report = hot.scale();
        assert_eq!(decided(outcome(&report)).2, Some(Hindrance::NotLarger));
        assert_eq!((report.rearm, hot.heat.is_raised()), (Rearm::NotNeeded, true));
    }
}

#[test]
fn what_grow_keys_do_not_name_is_reported_and_left_alone() {
    let grow_keys = "FLIGHT#*".parse().expect("patterns");
    let hot = Hot::of(1, Settings { grow_keys, ..usual_settings() });
    hot.heat.raise();
    hot.throttle("EWR");
    let before = hot.metadata();
    let report = hot.scale();
    assert_eq!(decided(outcome(&report)).2, Some(Hindrance::NotAllowed));
    assert_eq!((report.rearm, hot.heat.is_raised()), (Rearm::NotNeeded, true));
    let writer = hot.world.writer();
    hot.world.store.script(Operation::Write, [hot_partition()]);
    let item = hot.world.new_item("a", "new");
    block_on(writer.put(&item, Precondition::None, hot.world.deadline())).expect("a put");
    assert_eq!(hot.metadata(), before);
}

#[test]
fn a_change_whose_fate_is_unknown_is_looked_at_again() {
    let hot = Hot::new(1);
    hot.throttle("EWR");
    hot.world.store.script(Operation::Begin, [Fault::ExecuteThen(outcome_unknown())]);
    let report = hot.scale();
    let HeatOutcome::Failed(error) = outcome(&report) else { panic!("{report:?}") };
    assert_eq!((error.code(), report.rearm.clone()), (Code::OutcomeUnknown, Rearm::Done));
    let again = hot.scale();
    assert_eq!(decided(outcome(&again)).2, Some(Hindrance::Running));
}

#[test]
fn without_a_report_nothing_is_done() {
    for (error, code) in [
        (StoreError::Unavailable("CloudWatch is away".to_owned()), Code::Unavailable),
        (StoreError::Misconfigured("Contributor Insights is off".to_owned()), Code::Internal),
    ] {
        let hot = Hot::new(1);
        hot.throttle("EWR");
        hot.heat.fail([error]);
        let refused = hot.try_scale(hot.window()).map_err(|error| error.code());
        assert_eq!(refused, Err(code));
        assert_eq!(hot.world.memory.requests().total(), 0);
    }
}

#[test]
fn an_alarm_that_cannot_be_set_back_undoes_nothing() {
    struct NoRearm(MemoryHeat);
    #[async_trait]
    impl HeatSource for NoRearm {
        async fn throttled_keys(&self, window: HeatWindow) -> Result<Vec<HotKey>, StoreError> {
            self.0.throttled_keys(window).await
        }
    }
    impl HeatAlarms for NoRearm {
        fn alarm(&self, _: Access) -> Box<dyn AlarmControl + '_> {
            Box::new(Self(self.0.clone()))
        }
    }
    #[async_trait]
    impl AlarmControl for NoRearm {
        async fn status(&self) -> Result<AlarmStatus, StoreError> {
            self.0.alarm(Access::Write).status().await
        }
        async fn rearm(&self, _: &str) -> Result<(), StoreError> {
            Err(StoreError::Misconfigured("no permission".to_owned()))
        }
    }
    let hot = Hot::new(1);
    hot.throttle("EWR");
    let (watch, directory) = (NoRearm(hot.heat.clone()), hot.world.directory());
    let autoscaler = AutoScaler::new(&watch, &directory);
    let report = block_on(autoscaler.scale(hot.window(), Access::Write, hot.world.deadline()));
    let report = report.expect("a report");
    assert_eq!(decided(outcome(&report)), begun(1, 2));
    assert!(matches!(report.rearm, Rearm::Failed(_)), "{report:?}");
}

/// An operator had removed both alarms, as the page says, and what asks them failed twice a minute.
#[test]
fn regression_a_stack_without_alarms_failed_each_minute() {
    struct NoAlarms(MemoryHeat);
    #[async_trait]
    impl HeatSource for NoAlarms {
        async fn throttled_keys(&self, _: HeatWindow) -> Result<Vec<HotKey>, StoreError> {
            Err(StoreError::Misconfigured("the table has no rule".to_owned()))
        }
    }
    impl HeatAlarms for NoAlarms {
        fn alarm(&self, _: Access) -> Box<dyn AlarmControl + '_> {
            self.0.alarm(Access::Write)
        }
        fn is_there(&self, _: Access) -> bool {
            false
        }
    }
    let hot = Hot::new(1);
    let (watch, directory) = (NoAlarms(hot.heat.clone()), hot.world.directory());
    let autoscaler = AutoScaler::new(&watch, &directory);
    let swept = block_on(autoscaler.sweep(Access::Write, hot.world.deadline()));
    assert_eq!((swept, hot.heat.requests()), (Ok(None), 0));
}

#[test]
fn dry_run_decides_and_writes_nothing() {
    let hot = Hot::with(1, ScalingMode::DryRun);
    hot.heat.raise();
    hot.throttle("EWR");
    let report = hot.scale();
    assert_eq!(decided(outcome(&report)), Decided(1, Some(2), None, Outcome::DryRun));
    assert_eq!((report.mode, report.rearm), (ScalingMode::DryRun, Rearm::NotNeeded));
    assert!(hot.heat.is_raised());
    assert_eq!(hot.metadata().rev, 1);
    assert_eq!(hot.world.store.attempts(Operation::Begin), 0);
}

#[test]
fn off_reads_nothing() {
    let hot = Hot::with(1, ScalingMode::Off);
    hot.heat.raise();
    hot.throttle("EWR");
    assert_eq!(hot.scale().mode, ScalingMode::Off);
    assert_eq!(hot.sweep(), None);
    assert_eq!((hot.heat.requests(), hot.world.memory.requests().total()), (0, 0));
}

#[test]
fn the_schedule_acts_for_events_that_were_lost() {
    let hot = Hot::new(1);
    hot.throttle("EWR");
    assert_eq!(hot.sweep(), None, "the alarm is not raised");
    assert!(hot.heat.windows().is_empty());
    hot.heat.raise();
    let report = hot.sweep().expect("the alarm is raised");
    assert_eq!(decided(outcome(&report)), begun(1, 2));
    assert!(!hot.heat.is_raised());
}

/// Its metric has no data without throttles, and no further throttle was a transition.
#[test]
fn regression_an_alarm_stayed_raised_after_the_throttles_were_over() {
    let hot = Hot::new(1);
    hot.heat.raise();
    let report = hot.sweep().expect("the alarm is raised");
    assert!(report.collections.is_empty());
    assert_eq!((report.rearm, hot.heat.is_raised()), (Rearm::Done, false));

    let hot = Hot::with(1, ScalingMode::DryRun);
    hot.heat.raise();
    let report = hot.sweep().expect("the alarm is raised");
    assert_eq!((report.rearm, hot.heat.is_raised()), (Rearm::NotNeeded, true));
}

/// Notes what writers report.
#[derive(Debug, Clone, Default)]
struct Reports {
    decisions: Arc<Mutex<Vec<Decided>>>,
    failures: Arc<Mutex<Vec<(String, Code)>>>,
    damaged: Arc<Mutex<Vec<usize>>>,
}

impl Telemetry for Reports {
    fn decided(&self, decision: &Decision, outcome: Outcome) {
        assert_eq!(decision.partition, partition());
        self.decisions.lock().expect("no panic").push(Decided::of(decision, outcome));
    }

    fn failed(&self, partition: &PartitionKey, error: &Error) {
        self.failures.lock().expect("no panic").push((partition.to_string(), error.code()));
    }

    fn ledger_damaged(&self, _: &PartitionKey, figures: usize) {
        self.damaged.lock().expect("no panic").push(figures);
    }
}

impl Reports {
    /// What is decided after puts of which each is throttled once, a second apart.
    fn by_throttled_puts(&self, hot: &Hot, puts: u32) -> Vec<Decided> {
        let writer = Writer::new(hot.world.directory());
        let writer = writer.with_telemetry(Arc::new(self.clone()));
        for n in 0..puts {
            hot.world.heat_up();
            hot.world.clock.advance(Duration::from_secs(1));
            hot.world.store.script(Operation::Write, [hot_partition()]);
            let item = hot.world.new_item(&n.to_string(), "new");
            let put = writer.put(&item, Precondition::None, hot.world.deadline());
            block_on(put).expect("a put");
        }
        self.decisions.lock().expect("no panic").clone()
    }
}

#[test]
fn a_writer_tells_of_the_growth_that_it_began() {
    let hot = Hot::new(1);
    let decisions = Reports::default().by_throttled_puts(&hot, 5);
    assert_eq!(decisions, [begun(1, 2), hindered(1, Hindrance::Running)]);
}

/// Parts of a delete in several shards put what they had to report where nobody looked.
#[test]
fn regression_throttled_deletes_of_a_random_collection_led_to_nothing() {
    let hot = Hot::new(1);
    let reports = Reports::default();
    let writer = Writer::new(hot.world.directory()).with_telemetry(Arc::new(reports.clone()));
    for n in 0..5 {
        let item = hot.world.new_item(&n.to_string(), "new");
        let put = writer.put(&item, Precondition::None, hot.world.deadline());
        block_on(put).expect("a put");
        hot.world.heat_up();
        hot.world.clock.advance(Duration::from_secs(1));
        hot.world.store.script(Operation::Write, [hot_partition()]);
        let delete = writer.delete(item.key(), Precondition::None, hot.world.deadline());
        block_on(delete).expect("a delete");
    }
    assert_eq!(reports.decisions.lock().expect("no panic").first(), Some(&begun(1, 2)));
}

#[test]
fn a_writer_in_dry_run_tells_once_what_it_would_do_and_changes_nothing() {
    let hot = Hot::with(1, ScalingMode::DryRun);
    let reports = Reports::default();
    let would = |from, to| Decided(from, Some(to), None, Outcome::DryRun);
    assert_eq!(reports.by_throttled_puts(&hot, 3), [would(1, 2)]);
    assert_eq!(hot.world.store.attempts(Operation::Begin), 0);
    // An operator grows it, and it is throttled again.
    let grown = CollectionMetadata { rev: 3, ..new_metadata(2, 2, Placement::Random) };
    let seen = hot.metadata();
    block_on(hot.world.memory.commit(&[Change::of_metadata(Some(&seen), grown)]))
        .expect("it is as seen");
    hot.world.clock.advance(LONG);
    assert_eq!(reports.by_throttled_puts(&hot, 3), [would(1, 2), would(2, 4)]);
}

#[test]
fn one_throttle_is_no_evidence() {
    let hot = Hot::new(1);
    let writer = hot.world.writer();
    hot.world.store.script(Operation::Write, [hot_partition()]);
    let item = hot.world.new_item("a", "new");
    block_on(writer.put(&item, Precondition::None, hot.world.deadline())).expect("a put");
    assert_eq!(hot.metadata().phase, Phase::Stable);
    assert_eq!(hot.world.memory.requests().ledger_updates, 1);
}

/// Each key that was written met the limit of the table, and for each a history was read and written: a table at its
/// quota with a million keys wrote a million, into one partition of an index.
#[test]
fn regression_a_limit_that_all_keys_share_was_noted_of_each_key() {
    let world = World::new();
    let writer = world.writer();
    for n in 0..500 {
        let reason = "TableWriteAccountLimitExceeded";
        let throttle = Throttle::from_reason(reason, None);
        world.store.script(Operation::Write, [Fault::Refuse(StoreError::Throttled(throttle))]);
        let of = PartitionKey::new(format!("cold {n}")).expect("a partition key");
        let key = ItemKey::new(of, SortKey::string("a").expect("a sort key"));
        let schema = &world.settings().schema;
        let item = NewItem::new(key, Attributes::new(), schema).expect("an item");
        block_on(writer.put(&item, Precondition::None, world.deadline())).expect("a put");
    }
    let minutes = 1 + world.clock.now().boot.saturating_sub(Duration::from_hours(1)).as_secs() / 60;
    let decisions = world.memory.requests().decisions;
    assert!((1..=2 * minutes).contains(&decisions), "{decisions} requests in {minutes} minutes");
}

#[test]
fn a_ledger_from_the_future_is_reported_and_makes_nothing_grow() {
    let hot = Hot::new(1);
    let ahead = hot.world.clock.now().wall + Duration::from_mins(5);
    hot.world.ask_for(5_000.0, ahead);
    let reports = Reports::default();
    let writer = Writer::new(hot.world.directory());
    let writer = writer.with_telemetry(Arc::new(reports.clone()));
    hot.world.store.script(Operation::Write, [hot_partition()]);
    let item = hot.world.new_item("a", "new");
    block_on(writer.put(&item, Precondition::None, hot.world.deadline())).expect("a put");
    assert_eq!(*reports.damaged.lock().expect("no panic"), [7]);
    assert_eq!(hot.metadata().phase, Phase::Stable);
}

/// The write goes on whatever comes of the growth, and nobody heard of it.
#[test]
fn regression_a_writer_that_could_not_begin_a_growth_was_silent() {
    let damaged = || StoreError::Corrupt("the job of \"EWR\" is damaged: from".to_owned());
    let denied = || StoreError::Misconfigured("AccessDeniedException: no".to_owned());
    let cases: [(&dyn Fn() -> StoreError, Code); 3] = [
        (&damaged, Code::CorruptData),
        (&denied, Code::Internal),
        (&outcome_unknown, Code::OutcomeUnknown),
    ];
    for (error, expected) in cases {
        let hot = Hot::new(1);
        let reports = Reports::default();
        let errors = iter::repeat_with(|| Fault::Refuse(error()));
        hot.world.store.script(Operation::JobGet, errors.take(1_000));
        assert_eq!(reports.by_throttled_puts(&hot, 5), []);
        let failures = reports.failures.lock().expect("no panic").clone();
        assert_eq!(failures, [("EWR".to_owned(), expected)], "once");
    }
}

/// What lasted was told once in the life of an environment, and five minutes later the alarm on it said that it was over.
#[test]
fn regression_a_growth_that_could_not_begin_for_long_was_told_once() {
    let hot = Hot::new(1);
    let reports = Reports::default();
    let denied =
        || Fault::Refuse(StoreError::Misconfigured("AccessDeniedException: no".to_owned()));
    hot.world.store.script(Operation::JobGet, iter::repeat_with(denied).take(1_000));
    assert_eq!(reports.by_throttled_puts(&hot, 200), []);
    let failures = reports.failures.lock().expect("no panic").len();
    assert!((3..=10).contains(&failures), "{failures} times in some minutes");
}

/// A write that is refused has its throttles told, and what the meter had given for the load of the minutes before it was dropped: the
/// hotter a key, the less its load showed.
#[test]
fn regression_a_refused_write_took_the_load_of_the_last_minutes_with_it() {
    let hot = Hot::new(2);
    let writer = hot.world.writer();
    let put = |name: &str| {
        let item = hot.world.new_item(name, "new");
        block_on(writer.put(&item, Precondition::None, hot.world.deadline()))
    };
    for n in 0..10 {
        put(&n.to_string()).expect("it is put");
    }
    hot.world.clock.advance(Duration::from_secs(90));
    hot.world.store.script(Operation::Write, (0..1_000).map(|_| hot_partition()));
    put("refused").expect_err("it is refused");
    hot.world.store.clear(Operation::Write);
    put("granted").expect("it is put");
    let load = block_on(hot.world.memory.get::<Ledger>(&(partition(), LedgerKind::Load)));
    let load = load.expect("a read").value.expect("a ledger");
    let minutes = load.buckets.iter().filter(|(bucket, _)| bucket.span == Span::Minute);
    let told = minutes.map(|(_, measures)| measures.writes).sum::<f64>();
    assert!(told > 9.5, "{told} writes of 10");
}

/// A collection of four shards that nobody uses, and that may shrink after so long.
fn unused(after: Duration) -> Hot {
    let shrink = ShrinkPolicy { mode: ScalingMode::DryRun, after, ..ShrinkPolicy::default() };
    let hot = Hot::of(1, Settings { shrink, ..usual_settings() });
    let grown =
        CollectionMetadata { min_shards: count(1), ..new_metadata(2, 4, Placement::Random) };
    hot.world.memory.place_metadata(grown);
    hot
}

/// The schedule notes that it has looked, and nobody removed what was old of a collection that nobody uses:
/// the item would have passed its largest size after some weeks.
#[test]
fn regression_the_ledger_of_an_unused_collection_grew_for_ever() {
    let hot = unused(ShrinkPolicy::default().after);
    let directory = hot.world.directory();
    let autoscaler = AutoScaler::new(&hot.heat, &directory);
    for _ in 0..5 * 60 {
        block_on(autoscaler.shrink(None, Duration::ZERO, hot.world.deadline())).expect("a page");
        hot.world.clock.advance(Duration::from_mins(1));
    }
    let load = block_on(hot.world.memory.get::<Ledger>(&(partition(), LedgerKind::Load)));
    let buckets = load.expect("a read").value.expect("a ledger").buckets.len();
    assert!((5..10).contains(&buckets), "{buckets} buckets");
    let looks = hot.world.memory.requests().ledger_updates;
    assert_eq!(looks, 15, "every twenty minutes, for three hours to be over");
}

/// A pass over many collections took several minutes, and a collection whose minute was another was never looked at.
#[test]
fn regression_a_long_pass_left_out_what_was_due_meanwhile() {
    let pass = Duration::from_mins(4);
    for begins in 0..4 {
        let hot = unused(ShrinkPolicy::default().after);
        hot.world.clock.advance(Duration::from_mins(begins));
        let directory = hot.world.directory();
        let autoscaler = AutoScaler::new(&hot.heat, &directory);
        for _ in 0..15 {
            block_on(autoscaler.shrink(None, pass, hot.world.deadline())).expect("a page");
            hot.world.clock.advance(pass);
        }
        assert_eq!(hot.world.memory.requests().ledger_updates, 3, "in an hour from {begins}");
    }
}

/// Minutes are kept for half an hour. What a burst asked for was gone before the window was over.
#[test]
fn regression_a_burst_was_forgotten_after_half_an_hour() {
    let hot = unused(ShrinkPolicy::default().after);
    let began = hot.world.clock.now().wall;
    let minute = Bucket::of(Span::Minute, began);
    let (asked, load_key) = (90_000.0, (partition(), LedgerKind::Load));
    let burst = Measures { write_units: asked, get_units: 7.0, ..Measures::default() };
    let buckets = [(minute, burst)].into();
    let ledger = Ledger { buckets, ..Ledger::default() };
    hot.world.memory.place_ledger(&partition(), LedgerKind::Load, ledger);
    let directory = hot.world.directory();
    let autoscaler = AutoScaler::new(&hot.heat, &directory);
    for _ in 0..90 {
        block_on(autoscaler.shrink(None, Duration::ZERO, hot.world.deadline())).expect("a page");
        hot.world.clock.advance(Duration::from_mins(1));
    }
    let load = block_on(hot.world.memory.get::<Ledger>(&load_key));
    let buckets = load.expect("a read").value.expect("a ledger").buckets;
    assert!(!buckets.contains_key(&minute), "it is kept no longer");
    let hour = buckets[&Bucket::of(Span::Hour, began)];
    let busiest = [hour.busiest_write_units, hour.busiest_read_units];
    assert_eq!(busiest.map(f64::to_bits), [asked, 7.0].map(f64::to_bits), "once");
}

/// A short window is watched by minutes.
#[test]
fn a_collection_that_may_shrink_soon_is_looked_at_each_minute() {
    let hot = unused(Duration::from_mins(10));
    let directory = hot.world.directory();
    let autoscaler = AutoScaler::new(&hot.heat, &directory);
    for _ in 0..10 {
        block_on(autoscaler.shrink(None, Duration::ZERO, hot.world.deadline())).expect("a page");
        hot.world.clock.advance(Duration::from_mins(1));
    }
    assert_eq!(hot.world.memory.requests().ledger_updates, 10);
}

#[test]
fn regression_a_shrink_that_a_local_index_forbids_was_decided() {
    for (bytes, shrinks) in [(5_000_000_001, false), (5_000_000_000, true)] {
        let shrink = ShrinkPolicy { mode: ScalingMode::On, ..ShrinkPolicy::default() };
        let hot = Hot::of(1, Settings { shrink, ..usual_settings() });
        let grown =
            CollectionMetadata { min_shards: count(1), ..new_metadata(2, 4, Placement::Random) };
        hot.world.memory.place_metadata(grown);
        hot.world.memory.index_locally(bytes);
        hot.pass_hours();
        assert_eq!(hot.metadata().phase != Phase::Stable, shrinks, "{bytes} bytes");
    }
}

/// What a collection with the boundary "m" has after nobody has used it for hours: it may shrink from four shards to one.
fn shrunk(descending: bool, newest: &[String]) -> CollectionMetadata {
    let shrink = ShrinkPolicy { mode: ScalingMode::On, ..ShrinkPolicy::default() };
    let hot = Hot::of(1, Settings { shrink, ..usual_settings() });
    let boundary = SortKey::string("m").expect("a sort key");
    let older = vec![Epoch { count: count(1), boundary }];
    hot.world.memory.place_metadata(CollectionMetadata {
        epochs: Epochs { older, descending, changing: None },
        min_shards: count(1),
        ..new_metadata(2, 4, Placement::Xxh64)
    });
    for name in newest {
        hot.world.place(name, 2, 4);
    }
    hot.pass_hours();
    let shrinks = hot.metadata();
    assert_eq!(shrinks.phase, Phase::Forward { from: count(4), to: count(1) });
    shrinks
}

fn boundaries(metadata: &CollectionMetadata) -> Vec<String> {
    metadata.epochs.older.iter().map(|epoch| epoch.boundary.to_string()).collect()
}

/// The next epoch begins behind the newest items, and nothing that there is moves.
#[test]
fn a_collection_with_epochs_shrinks_behind_its_newest_items() {
    let newest = (0..40).map(|n| format!("n{n:02}")).collect::<Vec<_>>();
    assert_eq!(boundaries(&shrunk(false, &newest)), ["m", "n36"]);
}

/// The item at the boundary was the newest one. An epoch was to begin at the boundary that was there, and never did.
#[test]
fn regression_a_shrink_to_the_boundary_that_is_there_was_overtaken_for_ever() {
    assert_eq!(boundaries(&shrunk(true, &["m".to_owned()])), ["m"]);
}

/// A log by day in eight shards and by night in one, which was by now so often, and has as many items in each of its epochs.
/// What it has begun after a night.
fn after_many_nights(items_of_epoch: impl Fn(usize) -> usize) -> CollectionMetadata {
    after_many_nights_with(usual_settings(), ScalingMode::On, items_of_epoch).metadata()
}

fn after_many_nights_with(
    settings: Settings,
    mode: ScalingMode,
    items_of_epoch: impl Fn(usize) -> usize,
) -> Hot {
    let shrink = ShrinkPolicy { mode, ..ShrinkPolicy::default() };
    let hot = Hot::of(1, Settings { shrink, ..settings });
    let shards = |at: usize| if at.is_multiple_of(2) { 8 } else { 1 };
    let older = (0..23).map(|at| Epoch {
        count: count(shards(at)),
        boundary: SortKey::string(format!("{at:02}~")).expect("a sort key"),
    });
    let epochs = Epochs { older: older.collect(), ..Epochs::default() };
    for at in 0..epochs.older.len() {
        for item in 0..items_of_epoch(at) {
            hot.world.place(&format!("{at:02}-{item:04}"), 2, shards(at));
        }
    }
    let min_shards = count(1);
    hot.world.memory.place_metadata(CollectionMetadata {
        epochs,
        min_shards,
        ..new_metadata(2, 1, Placement::Xxh64)
    });
    hot.pass_hours();
    hot
}

/// The list filled up, and then growth moved all that the newest epoch had.
#[test]
fn regression_epochs_were_merged_by_nobody_until_their_list_was_full() {
    let merged = after_many_nights(|_| 1_000);
    assert_eq!(merged.phase, Phase::Forward { from: count(1), to: count(8) });
    assert_eq!(merged.epochs.changing, Some(1), "the oldest night that lies between two days");
    // What was in an epoch has expired.
    let merged = after_many_nights(|at| if at == 6 { 3 } else { 1_000 });
    assert_eq!(merged.phase, Phase::Forward { from: count(8), to: count(1) });
    assert_eq!(merged.epochs.changing, Some(6));
}

/// Each look at a collection counted the items of its epochs, for a merge that nobody had allowed.
#[test]
fn regression_epochs_that_may_not_be_merged_were_counted_at_each_look() {
    let (allowed, listed): (GrowKeys, GrowKeys) =
        (GrowKeys::default(), "LHR".parse().expect("patterns"));
    for (mode, grow_keys) in [(ScalingMode::DryRun, allowed), (ScalingMode::On, listed)] {
        let settings = Settings { grow_keys, ..usual_settings() };
        let hot = after_many_nights_with(settings, mode, |_| 1);
        assert_eq!(hot.metadata().phase, Phase::Stable);
        assert_eq!(hot.world.store.attempts(Operation::Query), 0, "{mode:?}");
    }
}

/// The alarm names the one shard of the past, which the newest epoch has, too. By the load of that the past was to have as many.
#[test]
fn regression_an_alarm_on_one_shard_moved_all_of_the_past() {
    for (kilobytes, expected) in [(1, begun(1, 2)), (300, hindered(1, Hindrance::TooLong))] {
        let hot = Hot::new(1);
        let boundary = SortKey::string("m").expect("a sort key");
        let older = vec![Epoch { count: count(1), boundary }];
        hot.world.memory.place_metadata(CollectionMetadata {
            epochs: Epochs { older, ..Epochs::default() },
            ..new_metadata(2, 16, Placement::Xxh64)
        });
        for n in 0..200 {
            let name = format!("a{n:03}");
            let text = AttributeValue::String("x".repeat(kilobytes * 1_000));
            let attributes = Attributes::from([("text".to_owned(), text)]);
            let item = StoredItem { attributes, ..stored(&name, 2) };
            hot.world.memory.place(
                &key(&name).at(ShardId::new(0), Placement::Xxh64, Separator::default()),
                item,
            );
        }
        hot.throttle("EWR");
        assert_eq!(decided(outcome(&hot.scale())), expected, "{kilobytes} KB");
    }
}

/// What a collection of so many items comes to that has grown from one shard to four at that time, and moved three, when nobody has
/// used it for long. It may shrink, and about an item a second is moved.
fn after_growth(items: u32, at_secs: u64, updates: f64) -> CollectionMetadata {
    let shrink = ShrinkPolicy { mode: ScalingMode::On, ..ShrinkPolicy::default() };
    let hot = Hot::of(1, Settings { shrink, mover_wcu: 5, ..usual_settings() });
    let shard_history = [1, 4].map(|n| HistoryEntry { at_secs, count: count(n) });
    let placement = Placement::Xxh64;
    hot.world.memory.place_metadata(CollectionMetadata {
        min_shards: count(1),
        shard_history: shard_history.into(),
        items_moved: 3,
        last_updated_secs: at_secs,
        ..new_metadata(2, 4, placement)
    });
    for n in 0..items {
        let key = key(&format!("{n:04}"));
        let home = placement.home(&key, count(4)).expect("calculated");
        hot.world.memory.place(&key.at(home, placement, Separator::default()), stored("item", 2));
    }
    let written = Measures { writes: updates, reports: 1.0, ..Measures::default() };
    let hour = Bucket::of(Span::Hour, hot.world.clock.now().wall);
    let addition = Addition { added: [(hour, written)].into(), ..Addition::default() };
    block_on(hot.world.memory.add(&partition(), LedgerKind::Load, &addition)).expect("an addition");
    for _ in 0..3 {
        hot.pass_hours();
    }
    hot.metadata()
}

/// A growth had moved a few items, millions were put in the months after it, and a shrink took the few for all there are: no growth
/// could begin for days.
#[test]
fn regression_a_shrink_went_by_how_many_items_there_were_at_the_last_change() {
    for (items, shrinks) in [(1_000, true), (3_000, false)] {
        assert_eq!(after_growth(items, 1, 0.0).phase != Phase::Stable, shrinks, "{items} items");
    }
}

/// Each update counted as another item, so that a collection of a few items that were only updated had millions, and kept its shards.
#[test]
fn regression_what_was_only_updated_never_shrank() {
    let now = Hot::new(1).now_secs();
    for (items, shrinks) in [(1_000, true), (3_000, false)] {
        assert_eq!(after_growth(items, now, 1e6).phase != Phase::Stable, shrinks, "{items} items");
    }
}

/// Nobody knew how many items a collection has whose growth moved none, and so there were none: to move them took hours, in which
/// no growth could begin.
#[test]
fn regression_a_shrink_of_an_unknown_number_of_items_was_taken_for_short() {
    let shrink = ShrinkPolicy { mode: ScalingMode::On, ..ShrinkPolicy::default() };
    for (items, shrinks) in [(1_000, true), (3_000, false)] {
        // About an item a second.
        let hot = Hot::of(1, Settings { shrink, mover_wcu: 5, ..usual_settings() });
        let grown =
            CollectionMetadata { min_shards: count(1), ..new_metadata(2, 4, Placement::Random) };
        hot.world.memory.place_metadata(grown);
        for n in 0..items {
            let key = key(&format!("{n:04}"));
            let at = key.at(ShardId::new(n % 4), Placement::Random, Separator::default());
            hot.world.memory.place(&at, stored("item", 2));
        }
        for _ in 0..3 {
            hot.pass_hours();
        }
        assert_eq!(hot.metadata().phase != Phase::Stable, shrinks, "{items} items");
    }
}
