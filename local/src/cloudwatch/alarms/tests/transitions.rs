//! What the transitions of alarms do.

use super::*;
use crate::lambda::fake::{Event, Fake, Polling, Rig};
use crate::plan::ArnPattern;
use serde_json::{Value, json};

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
        principal: ALARMS.to_owned(),
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
    for secs in [60, 120] {
        let polling = function.poll();
        rig.idle(1).await;
        rig.clock.sleeping(1).await;
        rig.clock.advance(Duration::from_secs(secs - 1));
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
