//! The capacity of a provisioned table: what is asked, decided and changed.

use std::time::Duration;

use dynashard_core::ports::{CapacityUpdate, Clock, StoreError};
use dynashard_core::{
    CapacityDecision, CapacityOutcome, CapacityPeriod, CapacityPolicy, CapacityReport,
    CapacityScaler, CapacityScaling, CapacitySide, CapacityUnits, Code, Deadline, Error,
    HeatWindow, Rearm, ScalingMode,
};
use dynashard_testkit::{ManualClock, MemoryCapacity, block_on};

const SEEN: CapacityUnits = CapacityUnits { reads: 20, writes: 100 };

const POLICY: CapacityPolicy = CapacityPolicy {
    scaling: CapacityScaling::Function,
    most: CapacityUnits { reads: 30, writes: 400 },
};

/// What a minute of writes says in which the table refused one in eleven.
const RAISE: CapacityDecision = CapacityDecision::Raise { from: 100, to: 158 };

struct Table {
    clock: ManualClock,
    capacity: MemoryCapacity,
}

impl Table {
    /// A table that has refused writes in the last whole minute, and its alarm.
    fn throttled() -> Self {
        let clock = ManualClock::new();
        let capacity = MemoryCapacity::new(clock.clone());
        let table = Self { clock, capacity };
        table.capacity.provision(SEEN);
        table.refuses(CapacitySide::Writes);
        table
    }

    fn refuses(&self, access: CapacitySide) {
        let at_secs = self.now_secs();
        self.clock.advance(Duration::from_secs(61));
        let units = if access == CapacitySide::Reads { 20.0 } else { 100.0 };
        let consumed = units * 60.0;
        let refused = consumed / 10.0;
        let period =
            CapacityPeriod { at_secs, consumed, requests: consumed, refused, unexplained: 0.0 };
        self.capacity.measure(access, period);
        self.capacity.raise();
    }

    fn now_secs(&self) -> u64 {
        self.clock.now().epoch_secs()
    }

    fn scale_as(&self, policy: CapacityPolicy, mode: ScalingMode) -> Result<CapacityReport, Error> {
        let now_secs = self.now_secs();
        let window = HeatWindow::of_alarm(now_secs, None, Duration::from_mins(1), now_secs);
        let scaler = CapacityScaler::new(&self.capacity, &self.clock, policy, mode);
        block_on(scaler.scale(window, self.deadline()))
    }

    fn scale(&self) -> Result<CapacityReport, Error> {
        self.scale_as(POLICY, ScalingMode::On)
    }

    fn sweep(&self) -> Result<Option<CapacityReport>, Error> {
        let scaler = CapacityScaler::new(&self.capacity, &self.clock, POLICY, ScalingMode::On);
        block_on(scaler.sweep(self.deadline()))
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.clock.now(), Duration::from_secs(50))
    }
}

#[test]
fn a_table_that_refuses_is_raised_and_its_alarm_set_back() {
    let table = Table::throttled();
    let report = table.scale().expect("a report");
    let expected = CapacityReport {
        mode: ScalingMode::On,
        reads: CapacityDecision::NotThrottled,
        writes: RAISE,
        outcome: CapacityOutcome::Raised,
        rearm: Rearm::Done,
    };
    assert_eq!(report, expected);
    assert_eq!(table.capacity.provisioned(), Some(CapacityUnits { reads: 20, writes: 158 }));
    assert!(!table.capacity.is_raised());

    let again = table.scale().expect("a report");
    assert_eq!(again.writes, CapacityDecision::TooLittleEvidence, "that was before the increase");
    assert_eq!(table.capacity.updates().len(), 1);
}

#[test]
fn reads_and_writes_rise_in_one_change() {
    let table = Table::throttled();
    table.refuses(CapacitySide::Reads);
    let report = table.scale().expect("a report");
    assert_eq!(report.of(CapacitySide::Reads), CapacityDecision::Raise { from: 20, to: 30 });
    assert_eq!(report.of(CapacitySide::Writes), RAISE);
    assert_eq!(table.capacity.updates(), [CapacityUnits { reads: 30, writes: 158 }]);
}

#[test]
fn dry_run_says_what_it_would_do_and_changes_nothing() {
    let table = Table::throttled();
    let report = table.scale_as(POLICY, ScalingMode::DryRun).expect("a report");
    assert_eq!((report.writes, report.outcome), (RAISE, CapacityOutcome::WouldRise));
    assert_eq!(report.rearm, Rearm::NotNeeded);
    assert!(table.capacity.updates().is_empty() && table.capacity.is_raised());
}

#[test]
fn where_nobody_or_another_raises_nothing_is_asked() {
    let table = Table::throttled();
    let of = |scaling| CapacityPolicy { scaling, ..POLICY };
    for (policy, mode, decision) in [
        (of(CapacityScaling::Off), ScalingMode::On, CapacityDecision::Off),
        (of(CapacityScaling::AutoScaling), ScalingMode::On, CapacityDecision::AutoScaling),
        (POLICY, ScalingMode::Off, CapacityDecision::Off),
    ] {
        let report = table.scale_as(policy, mode).expect("a report");
        assert_eq!((report.reads, report.writes), (decision, decision));
        assert_eq!(report.outcome, CapacityOutcome::Unchanged);
    }
    assert_eq!(table.capacity.requests(), 0);
}

#[test]
fn of_a_table_that_cannot_be_raised_no_metrics_are_asked() {
    let table = Table::throttled();
    table.capacity.set_status("UPDATING");
    assert_eq!(table.scale().expect("a report").writes, CapacityDecision::Updating);
    let on_demand = MemoryCapacity::new(table.clock.clone());
    let table = Table { capacity: on_demand, ..table };
    assert_eq!(table.scale().expect("a report").writes, CapacityDecision::OnDemand);
    assert_eq!((table.capacity.requests(), table.capacity.windows().len()), (1, 0));
}

#[test]
fn what_another_has_raised_meanwhile_is_not_lowered() {
    let table = Table::throttled();
    let raised = CapacityUnits { reads: 20, writes: 300 };
    table.capacity.change_meanwhile(raised);
    assert_eq!(table.scale().expect("a report").outcome, CapacityOutcome::Overtaken);
    assert_eq!(table.capacity.provisioned(), Some(raised));
    assert!(table.capacity.updates().is_empty());
}

#[test]
fn what_dynamodb_does_not_allow_now_is_an_outcome() {
    let why = "Subscriber limit exceeded";
    for (refusal, outcome) in [
        (CapacityUpdate::InUse, CapacityOutcome::Overtaken),
        (CapacityUpdate::NoChange, CapacityOutcome::Overtaken),
        (CapacityUpdate::LimitExceeded(why.to_owned()), CapacityOutcome::Limited(why.to_owned())),
    ] {
        let table = Table::throttled();
        table.capacity.refuse([refusal]);
        let report = table.scale().expect("a report");
        assert_eq!((report.outcome, report.rearm), (outcome, Rearm::NotNeeded));
        assert!(table.capacity.is_raised(), "the schedule looks again");
    }
}

#[test]
fn what_cannot_be_asked_is_an_error() {
    let unavailable = || StoreError::Unavailable("no answer".to_owned());
    let table = Table::throttled();
    table.capacity.fail([unavailable()]);
    assert_eq!(table.scale().expect_err("no answer").code(), Code::Unavailable);
    table.capacity.fail([StoreError::Misconfigured("AccessDenied".to_owned())]);
    assert_eq!(table.scale().expect_err("no permission").code(), Code::Internal);
    assert!(table.capacity.updates().is_empty());
}

#[test]
fn a_schedule_acts_where_the_alarm_is_raised() {
    let table = Table::throttled();
    let report = table.sweep().expect("an answer").expect("a report");
    assert_eq!(report.outcome, CapacityOutcome::Raised);
    let asked = table.capacity.requests();
    assert_eq!(table.sweep(), Ok(None));
    assert_eq!(table.capacity.requests(), asked + 1, "only whether it is raised");
}

#[test]
fn a_demand_far_above_the_capacity_is_reached_by_doubling() {
    let table = Table::throttled();
    let mut last = 100;
    for expected in [200, 400] {
        let at_secs = table.now_secs();
        table.clock.advance(Duration::from_secs(61));
        let period = CapacityPeriod {
            at_secs,
            consumed: 6_000.0,
            requests: 6_000.0,
            refused: 60_000.0,
            unexplained: 0.0,
        };
        table.capacity.measure(CapacitySide::Writes, period);
        table.capacity.raise();
        let report = table.scale().expect("a report");
        assert_eq!(report.writes, CapacityDecision::Raise { from: last, to: expected });
        last = expected;
    }
}
