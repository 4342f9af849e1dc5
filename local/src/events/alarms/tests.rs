//! What the transitions of alarms do.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::*;
use crate::clock::SharedClock;
use crate::cloudwatch::AlarmStatus;
use crate::lambda::fake::{Fake, Polling, Rig};
use crate::plan::{
    Alarm, AlarmSchedule, Comparison, Fill, MetricId, MissingData, Statistic, TextPattern,
};

/// Actions on the one function of a rig.
struct Setup {
    rig: Rig,
    function: Fake,
    polling: Polling,
    background: Arc<Background>,
    actions: Actions,
}

impl Setup {
    async fn start(permissions: Vec<Permission>) -> Self {
        let (rig, function, polling) = Rig::start(1).await;
        let clock: SharedClock = rig.clock.clone();
        let background = Arc::new(Background::new(clock));
        let pools = rig.runtime.pools().clone();
        let actions = Actions { permissions, pools, background: Arc::clone(&background) };
        Self { rig, function, polling, background, actions }
    }

    /// Asserts that the function is invoked with nothing before it is invoked now.
    async fn assert_quiet(self) {
        let direct = self.rig.invoke(r#""direct""#);
        let event = self.polling.await.expect("an event");
        assert_eq!(event.payload, r#""direct""#);
        self.function.respond(&event, "{}").await;
        direct.await.expect("no panic").expect("completed");
        self.background.shutdown().await;
        self.rig.runtime.shutdown().await;
    }
}

fn permission() -> Permission {
    Permission {
        function: "Function".to_owned(),
        principal: ALARMS.to_owned(),
        source_account: Some("123456789012".to_owned()),
        source_arn: TextPattern::of_arn(
            "arn:aws:cloudwatch:us-east-1:123456789012:alarm:throttles",
        ),
    }
}

/// An alarm that invokes the function when it goes into `ALARM`.
fn alarm() -> Alarm {
    let metric = MetricId {
        namespace: "Test".to_owned(),
        name: "Throttles".to_owned(),
        dimensions: BTreeMap::from([("TableName".to_owned(), "MainTable".to_owned())]),
    };
    Alarm {
        name: "throttles".to_owned(),
        description: Some("A partition throttles.".to_owned()),
        metric,
        fill: None,
        statistic: Statistic::Sum,
        schedule: AlarmSchedule::of_period(60),
        evaluation_periods: 1,
        breaching_datapoints: Some(1),
        comparison: Comparison::GreaterOrEqual,
        threshold: 1.0,
        missing_data: Some(MissingData::NotBreaching),
        actions_enabled: true,
        actions: AlarmActions { alarm: vec!["Function".to_owned()], ..AlarmActions::default() },
    }
}

fn transition(alarm: Alarm, state: AlarmState) -> Transition {
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_169_410);
    let previous = AlarmStatus {
        state: AlarmState::InsufficientData,
        reason: "Unchecked".to_owned(),
        reason_data: None,
        since: start,
    };
    let status = AlarmStatus {
        state,
        reason: "Crossed".to_owned(),
        reason_data: Some("{}".to_owned()),
        since: start + Duration::from_millis(50_250),
    };
    Transition { alarm: Arc::new(alarm), metric_id: "m1".to_owned(), previous, status }
}

#[tokio::test]
async fn a_transition_invokes_the_function_with_the_event_of_cloudwatch() {
    let setup = Setup::start(vec![permission()]).await;
    let (tell, told) = mpsc::unbounded_channel();
    tell.send(transition(alarm(), AlarmState::Alarm)).expect("listens");
    drop(tell);
    setup.actions.follow(told).await;
    let event = setup.polling.await.expect("an event");
    setup.function.respond(&event, "{}").await;
    assert_eq!(
        serde_json::from_slice::<Value>(&event.payload).expect("JSON"),
        json!({
            "source": "aws.cloudwatch",
            "alarmArn": "arn:aws:cloudwatch:us-east-1:123456789012:alarm:throttles",
            "accountId": "123456789012",
            "time": "2026-11-20T10:11:00.250+0000",
            "region": "us-east-1",
            "alarmData": {
                "alarmName": "throttles",
                "state": {
                    "value": "ALARM",
                    "reason": "Crossed",
                    "reasonData": "{}",
                    "timestamp": "2026-11-20T10:11:00.250+0000",
                },
                "previousState": {
                    "value": "INSUFFICIENT_DATA",
                    "reason": "Unchecked",
                    "timestamp": "2026-11-20T10:10:10.000+0000",
                },
                "configuration": {
                    "description": "A partition throttles.",
                    "metrics": [{
                        "id": "m1",
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
    setup.background.shutdown().await;
    setup.rig.runtime.shutdown().await;
}

#[test]
fn the_event_of_an_expression_has_it_before_its_metric() {
    let fill = Fill { id: "filled".to_owned(), metric_id: "m1".to_owned(), value: 0.0 };
    let alarm = Alarm { fill: Some(fill), ..alarm() };
    let event = event(&transition(alarm, AlarmState::Alarm));
    let event = serde_json::from_str::<Value>(&event).expect("JSON");
    let metrics = &event["alarmData"]["configuration"]["metrics"];
    let expression = json!({ "id": "filled", "expression": "FILL(m1, 0)", "returnData": true });
    assert_eq!((metrics.as_array().map(Vec::len), &metrics[0]), (Some(2), &expression));
    assert_eq!((&metrics[1]["id"], &metrics[1]["returnData"]), (&json!("m1"), &json!(false)));
    assert_eq!(metrics[1]["metricStat"]["metric"]["name"], "Throttles");
}

#[tokio::test]
async fn each_state_has_actions_of_its_own() {
    let setup = Setup::start(vec![permission()]).await;
    setup.actions.act(&transition(alarm(), AlarmState::Ok));
    setup.assert_quiet().await;
}

#[tokio::test]
async fn actions_that_are_switched_off_invoke_nothing() {
    let setup = Setup::start(vec![permission()]).await;
    let off = Alarm { actions_enabled: false, ..alarm() };
    setup.actions.act(&transition(off, AlarmState::Alarm));
    setup.assert_quiet().await;
}

#[tokio::test]
async fn an_alarm_without_permission_invokes_nothing() {
    let mut other = permission();
    other.source_arn =
        TextPattern::of_arn("arn:aws:cloudwatch:us-east-1:123456789012:alarm:another");
    for permissions in [vec![], vec![other]] {
        let setup = Setup::start(permissions).await;
        setup.actions.act(&transition(alarm(), AlarmState::Alarm));
        setup.assert_quiet().await;
    }
}

#[tokio::test]
async fn a_failing_action_is_tried_three_times_at_lambdas_pauses() {
    let mut setup = Setup::start(vec![permission()]).await;
    setup.actions.act(&transition(alarm(), AlarmState::Alarm));
    let first = setup.polling.await.expect("an event");
    setup.function.fail(&first, "{}").await;
    for secs in [60, 120] {
        let polling = setup.function.poll();
        setup.rig.idle(1).await;
        setup.rig.clock.sleeping(1).await;
        setup.rig.clock.advance(Duration::from_secs(secs - 1));
        tokio::task::yield_now().await;
        assert!(!polling.is_finished());
        setup.rig.clock.advance(Duration::from_secs(1));
        let again = polling.await.expect("an event");
        assert_eq!(again.request_id, first.request_id);
        assert_eq!(again.payload, first.payload);
        setup.function.fail(&again, "{}").await;
    }
    // It is given up then: the next event is another one.
    setup.polling = setup.function.poll();
    setup.assert_quiet().await;
}
