//! What is asked of Contributor Insights and CloudWatch, and what their answers mean.

mod service;

use std::time::Duration;

use dynashard_core::ports::{HeatAlarms, HeatSource, StoreError};
use dynashard_core::{Access, AlarmStatus, HeatWindow, HotKey, Throttles};
use serde_json::{Value, json};
use service::Service;

const WINDOW: HeatWindow = HeatWindow { from_secs: 1_000, to_secs: 1_300, period_secs: 60 };

fn rules(rules: &[&str]) -> (&'static str, u16, Value) {
    ("DescribeContributorInsights", 200, json!({ "ContributorInsightsRuleList": rules }))
}

const RULES: [&str; 3] = [
    "DynamoDBContributorInsights-SKT-flights-1795167336547",
    "DynamoDBContributorInsights-PKT-flights-1795167336547",
    "DynamoDBContributorInsights-PKC-flights-1895167336547",
];

fn hot(partition: &str, throttles: &[(u64, f64)]) -> HotKey {
    let throttles = throttles.iter().map(|&(at_secs, count)| Throttles { at_secs, count });
    HotKey { partition: partition.to_owned(), throttles: throttles.collect(), hottest_item: None }
}

fn contributor(key: &str, datapoints: &[(u64, f64)]) -> Value {
    let datapoints =
        datapoints.iter().map(|(at, n)| json!({ "Timestamp": at, "ApproximateValue": n }));
    json!({
        "Keys": [key],
        "ApproximateAggregateValue": 60.5,
        "Datapoints": datapoints.collect::<Vec<_>>(),
    })
}

#[tokio::test]
async fn throttled_keys_are_those_of_the_rule_for_throttled_partition_keys() {
    let report = json!({
        "KeyLabels": ["pk"],
        "AggregationStatistic": "Sum",
        "AggregateValue": 121.0,
        "ApproximateUniqueCount": 2,
        "Contributors": [
            contributor("EWR#1", &[(1_080, 40.5), (1_140, 20.5)]),
            contributor("JFK#7", &[]),
            { "Keys": [], "ApproximateAggregateValue": 1.5, "Datapoints": [] },
        ],
    });
    let service = Service::answering([rules(&RULES), ("GetInsightRuleReport", 200, report)]).await;
    let keys = service.heat.throttled_keys(WINDOW).await;
    // What has no date counts from the beginning of the window.
    let expected = [hot("EWR#1", &[(1_080, 40.5), (1_140, 20.5)]), hot("JFK#7", &[(1_000, 60.5)])];
    // The server answers every report so, that of the items, too.
    let expected = expected.map(|key| HotKey { hottest_item: Some(60.5), ..key });
    assert_eq!(keys, Ok(expected.to_vec()));
    assert!(service.asked("DescribeContributorInsights", &["flights"]));
    for rule in [RULES[0], RULES[1]] {
        assert!(service.asked("GetInsightRuleReport", &[rule, "Sum"]), "{rule}");
    }
}

#[tokio::test]
async fn a_report_without_contributors_is_no_key() {
    let empty = json!({ "KeyLabels": ["pk"], "Contributors": [] });
    for report in [empty, json!({})] {
        let service =
            Service::answering([rules(&RULES), ("GetInsightRuleReport", 200, report)]).await;
        assert_eq!(service.heat.throttled_keys(WINDOW).await, Ok(Vec::new()));
    }
}

#[tokio::test]
async fn of_several_rules_the_latest_counts() {
    let later = "DynamoDBContributorInsights-PKT-flights-1895167336547";
    let report = ("GetInsightRuleReport", 200, json!({}));
    let service = Service::answering([rules(&[RULES[1], later, RULES[0]]), report]).await;
    assert_eq!(service.heat.throttled_keys(WINDOW).await, Ok(Vec::new()));
    assert!(service.asked("GetInsightRuleReport", &[later]));
}

#[tokio::test]
async fn a_table_without_the_rule_is_set_up_wrongly() {
    for list in [&[][..], &[RULES[0]], &[RULES[2]]] {
        let service = Service::answering([rules(list)]).await;
        match service.heat.throttled_keys(WINDOW).await {
            Err(StoreError::Misconfigured(why)) => {
                assert!(why.contains("Contributor Insights") && why.contains("flights"), "{why}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(service.operations(), ["DescribeContributorInsights"]);
    }
}

#[tokio::test]
async fn an_alarm_tells_its_state_and_its_longest_period() {
    let of_metric = json!({ "StateValue": "ALARM", "Period": 60, "EvaluationPeriods": 3 });
    let of_math = json!({ "StateValue": "OK", "EvaluationPeriods": 1, "Metrics": [
        { "Id": "all", "Expression": "m1 + m2" },
        { "Id": "m1", "MetricStat": { "Metric": {}, "Period": 60, "Stat": "Sum" } },
        { "Id": "m2", "MetricStat": { "Metric": {}, "Period": 86400, "Stat": "Sum" } },
    ]});
    let odd = json!({ "StateValue": "INSUFFICIENT_DATA", "Period": -1 });
    for (alarm, is_raised, period_secs, evaluation_periods) in
        [(of_metric, true, 60, 3), (of_math, false, 86_400, 1), (odd, false, 1, 1)]
    {
        let answer = json!({ "MetricAlarms": [alarm] });
        let service = Service::answering([("DescribeAlarms", 200, answer)]).await;
        let period = Duration::from_secs(period_secs);
        let expected = AlarmStatus { is_raised, period, evaluation_periods };
        assert_eq!(service.heat.alarm(Access::Write).status().await, Ok(expected));
        assert!(service.asked("DescribeAlarms", &["stack-write-throttles"]));
    }
}

#[tokio::test]
async fn an_alarm_that_does_not_exist_is_named() {
    let none = json!({ "MetricAlarms": [] });
    let service = Service::answering([("DescribeAlarms", 200, none)]).await;
    let why = "CloudWatch has no metric alarm named stack-write-throttles".to_owned();
    assert_eq!(
        service.heat.alarm(Access::Write).status().await,
        Err(StoreError::Misconfigured(why))
    );
}

#[tokio::test]
async fn an_alarm_is_set_back_with_the_reason() {
    let service = Service::answering([("SetAlarmState", 200, json!({}))]).await;
    assert_eq!(service.heat.alarm(Access::Get).rearm("heat goes on").await, Ok(()));
    assert!(service.asked("SetAlarmState", &["stack-read-throttles", "OK", "heat goes on"]));
}

#[tokio::test]
async fn what_no_repetition_helps_is_told_at_once_and_names_the_operation() {
    let refusal = |code: &str| json!({ "__type": code, "message": "told by the service" });
    for code in [
        "AccessDeniedException",
        "AccessDenied",
        "ResourceNotFoundException",
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
    ] {
        let report = ("GetInsightRuleReport", 400, refusal(code));
        let service = Service::answering([rules(&RULES), report]).await;
        match service.heat.throttled_keys(WINDOW).await {
            Err(StoreError::Misconfigured(why)) => {
                assert!(why.starts_with(&format!("GetInsightRuleReport: {code}")), "{why}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(service.operations().len(), 2, "{code}");

        let insights = ("DescribeContributorInsights", 400, refusal(code));
        let service = Service::answering([insights]).await;
        let refused = service.heat.throttled_keys(WINDOW).await;
        assert!(matches!(refused, Err(StoreError::Misconfigured(_))), "{refused:?}");
        assert_eq!(service.operations().len(), 1, "{code}");
    }
}

#[tokio::test]
async fn what_may_pass_is_asked_again() {
    let fault = json!({ "__type": "InternalServiceFault", "message": "a moment, please" });
    let again = "DescribeContributorInsights";
    let service = Service::answering([(again, 500, fault.clone())]).await;
    let failed = service.heat.throttled_keys(WINDOW).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    assert_eq!(service.operations(), [again; 3]);
    let service = Service::answering([("SetAlarmState", 500, fault)]).await;
    let failed = service.heat.alarm(Access::Get).rearm("heat goes on").await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    assert_eq!(service.operations(), ["SetAlarmState"; 3]);
}
