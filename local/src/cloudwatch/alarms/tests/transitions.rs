//! When alarms are evaluated, and what their transitions do.

use super::*;
use crate::clock::Clock;
use crate::clock::manual::ManualClock;
use crate::runtime::fake::{Event, Fake, Polling, Rig};
use serde_json::{Value, json};
use std::pin::Pin;
use tokio::sync::mpsc;

/// 2026-11-20T10:10:10Z, when the clock of a [`Rig`] begins.
const START: u64 = 1_795_169_410;
const MINUTE: Duration = Duration::from_mins(1);

/// An alarm that invokes the one function of a rig on every transition but those to
/// `INSUFFICIENT_DATA`, and may do so.
struct Setup {
    rig: Rig,
    function: Fake,
    polling: Polling,
    background: Arc<Background>,
    source: Recorded,
    alarms: Alarms,
}

impl Setup {
    async fn start(alarm: Definition) -> Self {
        Self::start_with(alarm, vec![permission()]).await
    }

    async fn start_with(mut alarm: Definition, permissions: Vec<Permission>) -> Self {
        let (rig, function, polling) = Rig::start(1).await;
        let clock: SharedClock = rig.clock.clone();
        let background = Arc::new(Background::new(Arc::clone(&clock)));
        let functions = vec!["Function".to_owned()];
        alarm.actions.alarm.clone_from(&functions);
        alarm.actions.ok = functions;
        let alarms = Alarms::new(vec![alarm], permissions, &rig.runtime, &background, &clock);
        Self { rig, function, polling, background, source: Recorded::default(), alarms }
    }

    fn now(&self) -> u64 {
        self.alarms.epoch_secs()
    }

    fn state(&self) -> AlarmState {
        self.alarms.states()[0].1
    }

    fn set(&self, state: AlarmState) {
        self.alarms.set_state("throttles", state, "by hand", None).expect("the alarm");
    }

    /// Moves the clock to the end of its minute, and evaluates. `value` is what the metric measured
    /// in it.
    fn minute(&self, value: Option<f64>) -> AlarmState {
        let end = (self.now() / 60 + 1) * 60;
        self.rig.clock.advance(Duration::from_secs(end - self.now()));
        if let Some(value) = value {
            self.source.record(end - 1, value);
        }
        self.alarms.evaluate(&self.alarms.by_name["throttles"], &self.source, end);
        self.state()
    }

    /// The next event that the function is invoked with. It succeeds.
    async fn event(&mut self) -> Value {
        let event = (&mut self.polling).await.expect("an event");
        self.function.respond(&event, "{}").await;
        self.polling = self.function.poll();
        // The clock must not move before the invocation has ended, or it ends by its timeout.
        self.rig.idle(1).await;
        json_of(&event)
    }

    /// Asserts that the function is invoked with nothing of an alarm before it is invoked now.
    async fn assert_quiet(&mut self) {
        let direct = self.rig.invoke(r#""direct""#);
        assert_eq!(self.event().await, "direct");
        direct.await.expect("no panic").expect("completed");
    }

    async fn stop(self) {
        self.background.shutdown().await;
        self.rig.runtime.shutdown().await;
    }
}

fn permission() -> Permission {
    Permission {
        function: "Function".to_owned(),
        principal: permission::ALARMS.to_owned(),
        source_account: Some("123456789012".to_owned()),
        source_arn: ArnPattern::parse("arn:aws:cloudwatch:us-east-1:123456789012:alarm:throttles"),
    }
}

fn json_of(event: &Event) -> Value {
    serde_json::from_slice(&event.payload).expect("JSON")
}

fn value_of(event: &Value) -> &Value {
    &event["alarmData"]["state"]["value"]
}

#[tokio::test]
async fn a_transition_invokes_the_function_with_the_event_of_cloudwatch() {
    let mut definition = alarm(1, 1, MissingData::NotBreaching);
    definition.description = Some("A partition throttles.".to_owned());
    let mut setup = Setup::start(definition).await;
    assert_eq!(setup.state(), AlarmState::InsufficientData);
    assert_eq!(setup.minute(Some(7.0)), AlarmState::Alarm);
    let event = setup.event().await;
    let state = &event["alarmData"]["state"];
    let reason = "Threshold Crossed: 1 out of the last 1 datapoints [7.0 (20/11/26 10:10:00)] was \
                  greater than or equal to the threshold (1.0) (minimum 1 datapoint for OK -> \
                  ALARM transition).";
    assert_eq!(
        event,
        json!({
            "source": "aws.cloudwatch",
            "alarmArn": "arn:aws:cloudwatch:us-east-1:123456789012:alarm:throttles",
            "accountId": "123456789012",
            "time": "2026-11-20T10:11:00.000+0000",
            "region": "us-east-1",
            "alarmData": {
                "alarmName": "throttles",
                "state": {
                    "value": "ALARM",
                    "reason": reason,
                    "reasonData": state["reasonData"],
                    "timestamp": "2026-11-20T10:11:00.000+0000",
                },
                "previousState": {
                    "value": "INSUFFICIENT_DATA",
                    "reason": "Unchecked: Initial alarm creation",
                    "timestamp": "2026-11-20T10:10:10.000+0000",
                },
                "configuration": {
                    "description": "A partition throttles.",
                    "metrics": [{
                        "id": setup.alarms.by_name["throttles"].metric_id,
                        "metricStat": {
                            "metric": {
                                "namespace": "Test",
                                "name": "Throttles",
                                "dimensions": { "TableName": "MainTable" },
                            },
                            "period": 60,
                            "stat": "Sum",
                        },
                        "returnData": true,
                    }],
                },
            },
        })
    );
    let data: Value =
        serde_json::from_str(state["reasonData"].as_str().expect("a text")).expect("JSON");
    assert_eq!(data["recentDatapoints"], json!([7.0]));
    setup.stop().await;
}

#[tokio::test]
async fn an_event_has_every_query_of_an_alarm_on_an_expression() {
    let formula = Formula::parse("m * 2").expect("a formula");
    let queries = Queries::new(vec![
        Query {
            id: "e".to_owned(),
            label: Some("Twice".to_owned()),
            return_data: true,
            source: Source::Expression { text: "m * 2".to_owned(), formula },
        },
        Query {
            id: "m".to_owned(),
            label: None,
            return_data: false,
            source: Source::Metric(Stat { metric: throttles(), statistic: Statistic::Sum }),
        },
    ]);
    let subject = Subject::Queries(queries.expect("queries"));
    let alarm = Definition { subject, ..alarm(1, 1, MissingData::NotBreaching) };
    let mut setup = Setup::start(alarm).await;
    assert_eq!(setup.minute(Some(0.5)), AlarmState::Alarm);
    let event = setup.event().await;
    assert_eq!(
        event["alarmData"]["configuration"]["metrics"],
        json!([
            { "id": "e", "label": "Twice", "expression": "m * 2", "returnData": true },
            {
                "id": "m",
                "metricStat": {
                    "metric": {
                        "namespace": "Test",
                        "name": "Throttles",
                        "dimensions": { "TableName": "MainTable" },
                    },
                    "period": 60,
                    "stat": "Sum",
                },
                "returnData": false,
            },
        ])
    );
    let data = &event["alarmData"]["state"]["reasonData"];
    let data: Value = serde_json::from_str(data.as_str().expect("a text")).expect("JSON");
    assert_eq!(data.get("statistic"), None);
    assert_eq!(
        data["evaluatedDatapoints"],
        json!([{ "timestamp": "2026-11-20T10:10:00.000+0000", "value": 1.0 }])
    );
    setup.stop().await;
}

#[tokio::test]
async fn actions_are_for_transitions_and_not_for_states() {
    let mut setup = Setup::start(alarm(1, 1, MissingData::NotBreaching)).await;
    assert_eq!(setup.minute(Some(7.0)), AlarmState::Alarm);
    assert_eq!(value_of(&setup.event().await), "ALARM");
    let first = setup.alarms.describe().remove(0);
    assert_eq!(setup.minute(Some(9.0)), AlarmState::Alarm);
    let second = setup.alarms.describe().remove(0);
    assert_eq!(second.state_reason, first.state_reason, "that of the transition");
    assert_eq!(second.state_updated, first.state_updated);
    // The last datapoint counts for two periods more.
    assert_eq!(setup.minute(None), AlarmState::Alarm);
    assert_eq!(setup.minute(None), AlarmState::Alarm);
    assert_eq!(setup.minute(None), AlarmState::Ok);
    let event = setup.event().await;
    assert_eq!(value_of(&event), "OK");
    assert_eq!(event["alarmData"]["previousState"]["value"], "ALARM");
    assert!(event["alarmData"]["previousState"]["reasonData"].is_string());
    setup.assert_quiet().await;
    setup.stop().await;
}

#[tokio::test]
async fn an_alarm_set_back_alarms_again_while_the_heat_goes_on() {
    let mut setup = Setup::start(alarm(1, 1, MissingData::NotBreaching)).await;
    assert_eq!(setup.minute(Some(7.0)), AlarmState::Alarm);
    setup.event().await;
    setup.set(AlarmState::Ok);
    assert_eq!(setup.state(), AlarmState::Ok);
    let event = setup.event().await;
    assert_eq!(value_of(&event), "OK");
    assert_eq!(event["alarmData"]["state"]["reason"], "by hand");
    assert_eq!(event["alarmData"]["state"].get("reasonData"), None);
    assert_eq!(setup.minute(Some(7.0)), AlarmState::Alarm);
    let event = setup.event().await;
    assert_eq!(value_of(&event), "ALARM");
    assert_eq!(event["alarmData"]["previousState"]["reason"], "by hand");
    setup.stop().await;
}

#[tokio::test]
async fn a_state_that_is_set_has_the_actions_of_a_transition_only_where_it_is_one() {
    let mut setup = Setup::start(alarm(1, 1, MissingData::NotBreaching)).await;
    setup.set(AlarmState::Alarm);
    let data = Some(r#"{"mine":1}"#);
    let again = setup.alarms.set_state("throttles", AlarmState::Alarm, "again", data);
    again.expect("the alarm");
    assert_eq!(setup.alarms.describe()[0].state_reason, "by hand");
    assert_eq!(value_of(&setup.event().await), "ALARM");
    setup.assert_quiet().await;
    setup.alarms.set_state("throttles", AlarmState::Ok, "over", data).expect("the alarm");
    assert_eq!(setup.event().await["alarmData"]["state"]["reasonData"], r#"{"mine":1}"#);
    let unknown = setup.alarms.set_state("other", AlarmState::Ok, "", None);
    assert_eq!(unknown, Err(UnknownAlarm("other".to_owned())));
    setup.stop().await;
}

#[tokio::test]
async fn an_alarm_that_ignores_missing_data_is_stuck_until_it_is_set_back() {
    let mut setup = Setup::start(alarm(1, 1, MissingData::Ignore)).await;
    assert_eq!(setup.minute(Some(7.0)), AlarmState::Alarm);
    assert_eq!(value_of(&setup.event().await), "ALARM");
    for _ in 0..60 {
        assert_eq!(setup.minute(None), AlarmState::Alarm);
    }
    setup.set(AlarmState::Ok);
    assert_eq!(value_of(&setup.event().await), "OK");
    for _ in 0..60 {
        assert_eq!(setup.minute(None), AlarmState::Ok);
    }
    setup.assert_quiet().await;
    setup.stop().await;
}

#[tokio::test]
async fn an_alarm_whose_metric_falls_silent_has_insufficient_data() {
    let mut setup = Setup::start(alarm(1, 1, MissingData::Missing)).await;
    assert_eq!(setup.minute(Some(0.0)), AlarmState::Ok);
    assert_eq!(value_of(&setup.event().await), "OK");
    assert_eq!(setup.minute(None), AlarmState::Ok);
    assert_eq!(setup.minute(None), AlarmState::Ok);
    assert_eq!(setup.minute(None), AlarmState::InsufficientData);
    setup.assert_quiet().await;
    setup.stop().await;
}

#[tokio::test]
async fn actions_that_are_switched_off_leave_the_states_alone() {
    let off = Definition { actions_enabled: false, ..alarm(1, 1, MissingData::NotBreaching) };
    let mut setup = Setup::start(off).await;
    assert_eq!(setup.minute(Some(7.0)), AlarmState::Alarm);
    setup.assert_quiet().await;
    setup.stop().await;
}

#[tokio::test]
async fn an_alarm_without_permission_changes_its_state_and_invokes_nothing() {
    let mut other = permission();
    other.source_arn = ArnPattern::parse("arn:aws:cloudwatch:us-east-1:123456789012:alarm:another");
    for permissions in [vec![], vec![other]] {
        let refused = alarm(1, 1, MissingData::NotBreaching);
        let mut setup = Setup::start_with(refused, permissions).await;
        assert_eq!(setup.minute(Some(7.0)), AlarmState::Alarm);
        setup.assert_quiet().await;
        setup.stop().await;
    }
}

#[tokio::test]
async fn a_failing_action_is_tried_three_times_at_lambdas_pauses() {
    let setup = Setup::start(alarm(1, 1, MissingData::NotBreaching)).await;
    setup.minute(Some(7.0));
    let Setup { rig, function, polling, background, .. } = setup;
    let first = polling.await.expect("an event");
    function.fail(&first, "{}").await;
    for pause in [MINUTE, 2 * MINUTE] {
        let polling = function.poll();
        rig.idle(1).await;
        rig.clock.sleeping(1).await;
        rig.clock.advance(pause - Duration::from_secs(1));
        tokio::task::yield_now().await;
        assert!(!polling.is_finished());
        rig.clock.advance(Duration::from_secs(1));
        let again = polling.await.expect("an event");
        assert_eq!(again.request_id, first.request_id);
        assert_eq!(again.payload, first.payload);
        function.fail(&again, "{}").await;
    }
    // It is given up then: the next event is another one.
    let polling = function.poll();
    let direct = rig.invoke(r#""direct""#);
    let event = polling.await.expect("an event");
    assert_eq!(event.payload, r#""direct""#);
    function.respond(&event, "{}").await;
    direct.await.expect("no panic").expect("completed");
    background.shutdown().await;
    rig.runtime.shutdown().await;
}

/// A metric that has no values, and tells of each period that it is asked for.
#[derive(Debug)]
struct Probe(mpsc::UnboundedSender<Range<u64>>);

impl MetricSource for Probe {
    fn statistics(&self, _metric: &MetricId, seconds: Range<u64>) -> Option<StatisticSet> {
        self.0.send(seconds).expect("the test listens");
        None
    }
}

/// The evaluation of an alarm by the clock.
struct Watch {
    rig: Rig,
    background: Arc<Background>,
    evaluator: Evaluator,
    asked: mpsc::UnboundedReceiver<Range<u64>>,
}

impl Watch {
    /// Watches an alarm of one evaluation period.
    async fn start(schedule: Schedule, clock: impl FnOnce(&Rig) -> SharedClock) -> Self {
        let (rig, _function, _polling) = Rig::start(1).await;
        let definition = Definition { schedule, ..alarm(1, 1, MissingData::NotBreaching) };
        let clock = clock(&rig);
        let background = Arc::new(Background::new(Arc::clone(&clock)));
        let alarms = Alarms::new(vec![definition], vec![], &rig.runtime, &background, &clock);
        let (tell, asked) = mpsc::unbounded_channel();
        let source: Arc<dyn MetricSource> = Arc::new(Probe(tell));
        let evaluator = Arc::new(alarms).watch(&source);
        rig.clock.sleeping(1).await;
        Self { rig, background, evaluator, asked }
    }

    /// The newest period of the next evaluation, in seconds after 10:10:00.
    async fn evaluated(&mut self) -> Range<u64> {
        let newest = self.asked.recv().await.expect("an evaluation");
        for _ in 0..2 {
            self.asked.recv().await.expect("the periods before it");
        }
        newest.start + 10 - START..newest.end + 10 - START
    }

    async fn advance(&self, secs: u64) {
        self.rig.clock.sleeping(1).await;
        self.rig.clock.advance(Duration::from_secs(secs));
    }

    async fn stop(self) {
        self.evaluator.stop().await;
        self.background.shutdown().await;
        self.rig.runtime.shutdown().await;
    }
}

fn same_clock(rig: &Rig) -> SharedClock {
    rig.clock.clone()
}

#[tokio::test]
async fn an_alarm_is_evaluated_at_the_end_of_each_minute() {
    let mut watch = Watch::start(Schedule::of_period(60), same_clock).await;
    watch.advance(49).await;
    tokio::task::yield_now().await;
    assert!(watch.asked.try_recv().is_err(), "the minute is not over");
    watch.advance(1).await;
    assert_eq!(watch.evaluated().await, 0..60);
    watch.advance(60).await;
    assert_eq!(watch.evaluated().await, 60..120);
    watch.stop().await;
}

#[tokio::test]
async fn longer_periods_are_evaluated_each_minute_and_shorter_ones_every_ten_seconds() {
    let mut watch = Watch::start(Schedule::of_period(300), same_clock).await;
    watch.advance(290).await;
    assert_eq!(watch.evaluated().await, 0..300);
    watch.advance(60).await;
    assert_eq!(watch.evaluated().await, 60..360);
    watch.stop().await;

    let mut watch = Watch::start(Schedule::of_period(30), same_clock).await;
    watch.advance(25).await;
    assert_eq!(watch.evaluated().await, 0..30);
    watch.advance(5).await;
    assert_eq!(watch.evaluated().await, 10..40);
    watch.stop().await;
}

#[tokio::test]
async fn a_period_that_is_set_is_evaluated_at_its_end() {
    let set = alarm(1, 1, MissingData::Ignore).with_period(4).schedule;
    let mut watch = Watch::start(set, same_clock).await;
    watch.advance(2).await;
    assert_eq!(watch.evaluated().await, 8..12);
    watch.advance(4).await;
    assert_eq!(watch.evaluated().await, 12..16);
    watch.stop().await;
}

#[tokio::test]
async fn minutes_that_the_machine_slept_through_are_not_made_up_for() {
    let mut watch = Watch::start(Schedule::of_period(60), same_clock).await;
    watch.advance(3600).await;
    assert_eq!(watch.evaluated().await, 3540..3600);
    watch.advance(50).await;
    assert_eq!(watch.evaluated().await, 3600..3660, "and nothing in between");
    watch.stop().await;
}

/// A clock whose sleeps end a moment early, as they may beside the wall clock.
#[derive(Debug)]
struct Hasty(Arc<ManualClock>);

impl Clock for Hasty {
    fn now(&self) -> SystemTime {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.0.sleep(duration.saturating_sub(Duration::from_secs(1)))
    }
}

#[tokio::test]
async fn a_sleep_that_ends_early_evaluates_no_period_twice() {
    let mut watch =
        Watch::start(Schedule::of_period(60), |rig| Arc::new(Hasty(rig.clock.clone()))).await;
    watch.advance(49).await;
    assert_eq!(watch.evaluated().await, 0..60);
    watch.advance(60).await;
    assert_eq!(watch.evaluated().await, 60..120);
    watch.stop().await;
}
