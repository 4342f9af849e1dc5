//! Alarms, of a registry that is none.

use super::*;
use crate::cloudwatch::{
    AlarmDescription, AlarmState, MetricQuery, MetricStat, QuerySource, UnknownAlarm, Watched,
};
use std::sync::Mutex;

/// A registry of one alarm, which notes what it is told.
#[derive(Debug, Default)]
pub(super) struct OneAlarm {
    set: Mutex<Vec<(AlarmState, String, Option<String>)>>,
}

impl AlarmRegistry for OneAlarm {
    fn describe(&self) -> Vec<AlarmDescription> {
        let throttles = MetricStat {
            metric: MetricId {
                namespace: "AWS/DynamoDB".to_owned(),
                name: "WriteKeyRangeThroughputThrottleEvents".to_owned(),
                dimensions: [("TableName".to_owned(), "Flights".to_owned())].into(),
            },
            period_secs: 60,
            statistic: "Sum".to_owned(),
        };
        let alarm = AlarmDescription {
            name: "flights-hot".to_owned(),
            arn: "arn:aws:cloudwatch:us-east-1:123456789012:alarm:flights-hot".to_owned(),
            description: None,
            state: AlarmState::Alarm,
            state_reason: "Threshold Crossed".to_owned(),
            state_reason_data: Some("{}".to_owned()),
            state_updated: SystemTime::UNIX_EPOCH + Duration::from_millis(NOW * 1000 + 250),
            actions_enabled: true,
            alarm_actions: vec!["arn:aws:lambda:f".to_owned()],
            ok_actions: Vec::new(),
            insufficient_data_actions: Vec::new(),
            watched: Watched::Metric(throttles.clone()),
            evaluation_periods: 1,
            datapoints_to_alarm: None,
            threshold: 0.0,
            comparison_operator: "GreaterThanThreshold".to_owned(),
            treat_missing_data: Some("notBreaching".to_owned()),
        };
        let query = |id: &str, source| MetricQuery {
            id: id.to_owned(),
            label: None,
            return_data: id == "all",
            source,
        };
        let expression = "m * 2".to_owned();
        let math = AlarmDescription {
            name: "math".to_owned(),
            state: AlarmState::Ok,
            alarm_actions: Vec::new(),
            watched: Watched::Queries(vec![
                query("m", QuerySource::Metric(throttles)),
                query("all", QuerySource::Expression { expression, period_secs: Some(120) }),
            ]),
            ..alarm.clone()
        };
        vec![alarm, math]
    }

    fn set_state(
        &self,
        name: &str,
        state: AlarmState,
        reason: &str,
        reason_data: Option<&str>,
    ) -> Result<(), UnknownAlarm> {
        if name != "flights-hot" {
            return Err(UnknownAlarm(name.to_owned()));
        }
        let told = (state, reason.to_owned(), reason_data.map(str::to_owned));
        self.set.lock().expect("no panic").push(told);
        Ok(())
    }
}

#[tokio::test]
async fn alarms_are_described_as_the_registry_has_them() {
    let served = Served::start().await;
    let names = |filter: Value| {
        let served = &served;
        async move {
            let answer = served.ok("DescribeAlarms", filter).await;
            let alarms = answer["MetricAlarms"].as_array().expect("alarms").clone();
            alarms.into_iter().map(|alarm| alarm["AlarmName"].clone()).collect::<Value>()
        }
    };
    assert_eq!(names(json!({})).await, json!(["flights-hot", "math"]));
    assert_eq!(names(json!({ "AlarmNames": ["math", "none"] })).await, json!(["math"]));
    assert_eq!(names(json!({ "AlarmNamePrefix": "fl" })).await, json!(["flights-hot"]));
    assert_eq!(names(json!({ "StateValue": "OK" })).await, json!(["math"]));
    assert_eq!(names(json!({ "ActionPrefix": "arn:aws:lambda" })).await, json!(["flights-hot"]));
    assert_eq!(names(json!({ "AlarmTypes": ["CompositeAlarm"] })).await, json!([]));
    let page = served.ok("DescribeAlarms", json!({ "MaxRecords": 1 })).await;
    let rest = names(json!({ "NextToken": page["NextToken"] })).await;
    assert_eq!(rest, json!(["math"]));

    let answer = served.ok("DescribeAlarms", json!({})).await;
    let updated = secs(NOW) + 0.25;
    let dimensions = json!([{ "Name": "TableName", "Value": "Flights" }]);
    let throttles = "WriteKeyRangeThroughputThrottleEvents";
    assert_eq!(
        answer["MetricAlarms"][0],
        json!({
            "AlarmName": "flights-hot",
            "AlarmArn": "arn:aws:cloudwatch:us-east-1:123456789012:alarm:flights-hot",
            "ActionsEnabled": true,
            "OKActions": [],
            "AlarmActions": ["arn:aws:lambda:f"],
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
    let metric =
        json!({ "Namespace": "AWS/DynamoDB", "MetricName": throttles, "Dimensions": dimensions });
    assert_eq!(
        answer["MetricAlarms"][1]["Metrics"],
        json!([
            {
                "Id": "m",
                "MetricStat": { "Metric": metric, "Period": 60, "Stat": "Sum" },
                "ReturnData": false,
            },
            { "Id": "all", "Expression": "m * 2", "ReturnData": true, "Period": 120 },
        ])
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
    let told = served.alarms.set.lock().expect("no panic").clone();
    let data = Some("{\"by\":\"test\"}".to_owned());
    assert_eq!(told, [(AlarmState::Ok, "acted".to_owned(), data)]);
    let (status, answer) = served.json("SetAlarmState", &request("other")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(answer["__type"], "com.amazonaws.cloudwatch#ResourceNotFound");
    assert_eq!(answer["message"], "there is no alarm other");
    served.stop().await;
}
