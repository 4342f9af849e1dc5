//! `DescribeAlarms` and `SetAlarmState`.

use super::*;
use crate::cloudwatch::alarms::AlarmState;
use crate::plan::{
    Alarm, AlarmActions, AlarmSchedule, Comparison, MetricId, MissingData, Statistic,
};

/// `flights-hot`, which invokes a function, and `quiet`, which does not.
pub(super) fn two_alarms() -> Vec<Alarm> {
    let hot = Alarm {
        name: "flights-hot".to_owned(),
        description: None,
        metric: MetricId {
            namespace: "AWS/DynamoDB".to_owned(),
            name: "WriteKeyRangeThroughputThrottleEvents".to_owned(),
            dimensions: [("TableName".to_owned(), "Flights".to_owned())].into(),
        },
        fill: None,
        statistic: Statistic::Sum,
        schedule: AlarmSchedule::of_period(60),
        evaluation_periods: 1,
        breaching_datapoints: None,
        comparison: Comparison::Greater,
        threshold: 0.0,
        missing_data: Some(MissingData::NotBreaching),
        actions_enabled: true,
        actions: AlarmActions { alarm: vec!["F".to_owned()], ..AlarmActions::default() },
    };
    let quiet = Alarm { name: "quiet".to_owned(), actions: AlarmActions::default(), ..hot.clone() };
    vec![hot, quiet]
}

#[tokio::test]
async fn alarms_are_described_with_their_states() {
    let served = Served::start().await;
    let data = Some("{}");
    let set = served.alarms.set_state("flights-hot", AlarmState::Alarm, "Threshold Crossed", data);
    set.expect("the alarm");
    let names = |filter: Value| {
        let served = &served;
        async move {
            let answer = served.ok("DescribeAlarms", filter).await;
            let alarms = answer["MetricAlarms"].as_array().expect("alarms").clone();
            alarms.into_iter().map(|alarm| alarm["AlarmName"].clone()).collect::<Value>()
        }
    };
    assert_eq!(names(json!({})).await, json!(["flights-hot", "quiet"]));
    assert_eq!(names(json!({ "AlarmNames": ["quiet", "none"] })).await, json!(["quiet"]));
    assert_eq!(names(json!({ "AlarmNamePrefix": "fl" })).await, json!(["flights-hot"]));
    assert_eq!(names(json!({ "StateValue": "INSUFFICIENT_DATA" })).await, json!(["quiet"]));
    assert_eq!(names(json!({ "ActionPrefix": "arn:aws:lambda" })).await, json!(["flights-hot"]));
    assert_eq!(names(json!({ "AlarmTypes": ["CompositeAlarm"] })).await, json!([]));
    let page = served.ok("DescribeAlarms", json!({ "MaxRecords": 1 })).await;
    let rest = names(json!({ "NextToken": page["NextToken"] })).await;
    assert_eq!(rest, json!(["quiet"]));

    let answer = served.ok("DescribeAlarms", json!({})).await;
    let updated = Duration::from_millis(NOW * 1000 + 250).as_secs_f64();
    let dimensions = json!([{ "Name": "TableName", "Value": "Flights" }]);
    let throttles = "WriteKeyRangeThroughputThrottleEvents";
    assert_eq!(
        answer["MetricAlarms"][0],
        json!({
            "AlarmName": "flights-hot",
            "AlarmArn": "arn:aws:cloudwatch:us-east-1:123456789012:alarm:flights-hot",
            "ActionsEnabled": true,
            "OKActions": [],
            "AlarmActions": ["arn:aws:lambda:us-east-1:123456789012:function:F"],
            "InsufficientDataActions": [],
            "StateValue": "ALARM",
            "StateReason": "Threshold Crossed",
            "StateReasonData": "{}",
            "StateUpdatedTimestamp": updated,
            "StateTransitionedTimestamp": updated,
            "MetricName": throttles,
            "Namespace": "AWS/DynamoDB",
            "Statistic": "Sum",
            "Dimensions": dimensions,
            "Period": 60,
            "EvaluationPeriods": 1,
            "Threshold": 0.0,
            "ComparisonOperator": "GreaterThanThreshold",
            "TreatMissingData": "notBreaching",
        })
    );
    served.stop().await;
}

#[tokio::test]
async fn the_state_of_an_alarm_is_set_with_its_reason() {
    let served = Served::start().await;
    let request = |name: &str| {
        json!({
            "AlarmName": name, "StateValue": "OK", "StateReason": "acted",
            "StateReasonData": "{\"by\":\"test\"}",
        })
    };
    assert_eq!(served.ok("SetAlarmState", request("flights-hot")).await, json!({}));
    let (_, status) = served.alarms.list().remove(0);
    assert_eq!((status.state, status.reason.as_str()), (AlarmState::Ok, "acted"));
    assert_eq!(status.reason_data.as_deref(), Some("{\"by\":\"test\"}"));
    let (status, answer) = served.json("SetAlarmState", &request("other")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(answer["__type"], "com.amazonaws.cloudwatch#ResourceNotFound");
    assert_eq!(answer["message"], "the alarm other does not exist");
    served.stop().await;
}
