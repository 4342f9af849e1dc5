//! What is asked of DynamoDB and CloudWatch about a table's capacity, and what their answers mean.

mod service;

use std::time::Duration;

use dynashard_aws::DynamoTableCapacity;
use dynashard_core::ports::{AlarmControl, CapacityUpdate, StoreError, TableCapacity};
use dynashard_core::{
    AlarmStatus, CapacityMetrics, CapacityPeriod, CapacityUnits, HeatWindow, TableThroughput,
};
use serde_json::{Value, json};
use service::Service;

const WINDOW: HeatWindow = HeatWindow { from_secs: 960, to_secs: 1_300, period_secs: 60 };

const TO: CapacityUnits = CapacityUnits { reads: 20, writes: 158 };

fn capacity(service: &Service) -> DynamoTableCapacity {
    let alarms = ["stack-write-capacity", "stack-read-capacity"];
    service.heat.table_capacity(alarms.map(str::to_owned).to_vec())
}

async fn described(table: Value) -> Result<TableThroughput, StoreError> {
    let answer = json!({ "Table": table });
    let service = Service::answering([("DescribeTable", 200, answer)]).await;
    let throughput = capacity(&service).throughput().await;
    assert!(service.asked("DescribeTable", &["flights"]));
    throughput
}

#[tokio::test]
async fn a_table_tells_its_capacity_its_status_and_its_last_increase() {
    let table = json!({
        "TableStatus": "UPDATING",
        "ProvisionedThroughput": {
            "ReadCapacityUnits": 20, "WriteCapacityUnits": 100, "LastIncreaseDateTime": 1_200.5,
        },
    });
    let expected = TableThroughput {
        provisioned: Some(CapacityUnits { reads: 20, writes: 100 }),
        status: "UPDATING".to_owned(),
        increased_secs: Some(1_200),
    };
    assert_eq!(described(table).await, Ok(expected));
}

#[tokio::test]
async fn a_table_on_demand_has_no_capacity() {
    let on_demand = json!({
        "TableStatus": "ACTIVE",
        "BillingModeSummary": { "BillingMode": "PAY_PER_REQUEST" },
        "ProvisionedThroughput": { "ReadCapacityUnits": 0, "WriteCapacityUnits": 0 },
    });
    let throughput = described(on_demand).await.expect("a table");
    assert!(throughput.is_active());
    assert_eq!((throughput.provisioned, throughput.increased_secs), (None, None));
}

fn result(id: &str, points: &[(u64, f64)]) -> Value {
    json!({
        "Id": id,
        "Timestamps": points.iter().map(|(at, _)| at).collect::<Vec<_>>(),
        "Values": points.iter().map(|(_, value)| value).collect::<Vec<_>>(),
        "StatusCode": "Complete",
    })
}

#[tokio::test]
async fn metrics_are_joined_by_their_periods() {
    let results = json!({ "MetricDataResults": [
        result("writes_consumed", &[(1_020, 6_000.5), (1_080, 60.0)]),
        result("writes_requests", &[(1_020, 3_000.0), (1_080, 60.0)]),
        result("writes_throttled", &[(1_020, 607.0)]),
        result("writes_provisioned", &[(1_020, 600.0)]),
        result("writes_key_range", &[(1_020, 4.0)]),
        result("reads_throttled", &[(1_140, 3.0)]),
        result("reads_account", &[(1_140, 4.0)]),
    ]});
    let service = Service::answering([("GetMetricData", 200, results)]).await;
    let period = CapacityPeriod::default();
    let expected = CapacityMetrics {
        reads: vec![CapacityPeriod { at_secs: 1_140, ..period }],
        writes: vec![
            CapacityPeriod {
                at_secs: 1_020,
                consumed: 6_000.5,
                requests: 3_000.0,
                refused: 600.0,
                unexplained: 3.0,
            },
            CapacityPeriod { at_secs: 1_080, consumed: 60.0, requests: 60.0, ..period },
        ],
    };
    assert_eq!(capacity(&service).metrics(WINDOW).await, Ok(expected));
    for kind in ["Read", "Write"] {
        let consumed = format!("Consumed{kind}CapacityUnits");
        let throttles = format!("{kind}ThrottleEvents");
        let refused = format!("{kind}ProvisionedThroughputThrottleEvents");
        let texts = ["AWS/DynamoDB", "TableName", "flights", &consumed, &throttles, &refused];
        assert!(service.asked("GetMetricData", &texts), "{kind}");
    }
}

#[tokio::test]
async fn a_table_in_which_nothing_happened_has_no_periods() {
    for answer in [json!({}), json!({ "MetricDataResults": [result("writes_consumed", &[])] })] {
        let service = Service::answering([("GetMetricData", 200, answer)]).await;
        let metrics = capacity(&service).metrics(WINDOW).await;
        assert_eq!(metrics, Ok(CapacityMetrics::default()));
    }
}

#[tokio::test]
async fn a_change_names_both_capacities() {
    let service = Service::answering([("UpdateTable", 200, json!({}))]).await;
    assert_eq!(capacity(&service).update(TO).await, Ok(CapacityUpdate::Accepted));
    let units = [r#""ReadCapacityUnits":20"#, r#""WriteCapacityUnits":158"#, "flights"];
    assert!(service.asked("UpdateTable", &units));
}

#[tokio::test]
async fn what_dynamodb_does_not_allow_now_is_no_error() {
    let same = "The provisioned throughput for the table will not change.";
    for (code, why, outcome) in [
        ("ResourceInUseException", "being updated", CapacityUpdate::InUse),
        ("ValidationException", same, CapacityUpdate::NoChange),
        ("LimitExceededException", "50", CapacityUpdate::LimitExceeded("50".to_owned())),
    ] {
        let refusal = json!({ "__type": code, "message": why });
        let service = Service::answering([("UpdateTable", 400, refusal)]).await;
        assert_eq!(capacity(&service).update(TO).await, Ok(outcome));
    }
}

#[tokio::test]
async fn what_no_repetition_helps_names_the_operation() {
    let refusal = || json!({ "__type": "AccessDeniedException", "message": "no" });
    let all = ["DescribeTable", "GetMetricData", "UpdateTable"];
    let service = Service::answering(all.map(|operation| (operation, 400, refusal()))).await;
    let capacity = capacity(&service);
    for (operation, refused) in [
        ("DescribeTable", capacity.throughput().await.map(drop)),
        ("GetMetricData", capacity.metrics(WINDOW).await.map(drop)),
        ("UpdateTable", capacity.update(TO).await.map(drop)),
    ] {
        match refused {
            Err(StoreError::Misconfigured(why)) => {
                assert!(why.starts_with(&format!("{operation}: AccessDenied")), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(service.operations(), all);
}

#[tokio::test]
async fn what_changes_the_table_is_sent_once() {
    let fault = json!({ "__type": "InternalServerError", "message": "a moment, please" });
    let service =
        Service::answering([("UpdateTable", 500, fault.clone()), ("DescribeTable", 500, fault)])
            .await;
    let failed = capacity(&service).update(TO).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    assert_eq!(service.operations(), ["UpdateTable"]);
    let failed = capacity(&service).throughput().await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    assert_eq!(service.operations().len(), 4, "a read is asked again");
}

#[tokio::test]
async fn all_alarms_are_looked_at_and_set_back() {
    let raised = json!({ "StateValue": "ALARM", "Period": 60, "EvaluationPeriods": 1 });
    let service = Service::answering([
        ("DescribeAlarms", 200, json!({ "MetricAlarms": [raised] })),
        ("SetAlarmState", 200, json!({})),
    ])
    .await;
    let capacity = capacity(&service);
    let period = Duration::from_mins(1);
    let expected = AlarmStatus { is_raised: true, period, evaluation_periods: 1 };
    assert_eq!(capacity.status().await, Ok(expected));
    assert_eq!(capacity.rearm("raised").await, Ok(()));
    let twice = |operation: &str| vec![operation.to_owned(); 2];
    assert_eq!(service.operations(), [twice("DescribeAlarms"), twice("SetAlarmState")].concat());
}
