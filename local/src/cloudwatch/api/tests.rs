mod bad_input;
mod protocols;

use super::super::{AlarmDescription, MetricQuery, MetricStat, QuerySource, UnknownAlarm, Watched};
use super::*;
use crate::clock::manual::ManualClock;
use crate::cloudwatch::AlarmState;
use crate::server::{self, testing::send};
use bytes::Bytes;
use dynashard_sim::Units;
use dynashard_sim::partition::{Demand, Kind, Limits, Resource, Throughput};
use http::StatusCode;
use serde_json::{Value, json};
use std::num::NonZeroU32;
use std::sync::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A whole minute: 2026-11-18T11:07:00Z.
const NOW: u64 = 1_795_000_020;

/// The endpoint on a socket, on a clock that stands still.
struct Served {
    observed: Observed,
    alarms: Arc<OneAlarm>,
    url: String,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
}

impl Served {
    async fn start() -> Self {
        let write = NonZeroU32::new(2).expect("positive");
        let observed = Observed::of(Limits { partition_wcu: write, ..Limits::default() });
        let put = Arc::new(MetricStore::default());
        let metrics = Arc::new(Metrics::new(Arc::clone(&put), observed.clone()));
        let alarms = Arc::new(OneAlarm::default());
        let clock = ManualClock::at(SystemTime::UNIX_EPOCH + Duration::from_secs(NOW));
        let registry: Arc<dyn AlarmRegistry> = Arc::clone(&alarms) as _;
        let api = CloudWatchApi::new(metrics, put, observed.clone(), registry, clock);
        let listener = server::bind_free().await.expect("a port");
        let url = server::url(&listener).expect("an address");
        let (stop, stopped) = watch::channel(false);
        let server = tokio::spawn(server::serve(listener, Arc::new(api), stopped));
        Self { observed, alarms, url, stop, server }
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        self.server.await.expect("the server ends");
    }

    async fn exchange(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> (http::response::Parts, Bytes) {
        let request = Request::post(format!("{}{path}", self.url));
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        send(request, body).await.expect("no panic")
    }

    /// Asks in AWS JSON.
    async fn json(&self, operation: &str, body: &Value) -> (StatusCode, Value) {
        let target = format!("GraniteServiceVersion20100801.{operation}");
        let headers = [("x-amz-target", target.as_str())];
        let (parts, body) = self.exchange("/", &headers, body.to_string()).await;
        (parts.status, serde_json::from_slice(&body).expect("JSON"))
    }

    /// Asks for what succeeds.
    async fn ok(&self, operation: &str, body: Value) -> Value {
        let (status, answer) = self.json(operation, &body).await;
        assert_eq!(status, StatusCode::OK, "{operation} {body}: {answer}");
        answer
    }

    async fn put(&self, at: u64, value: f64) {
        let datum = json!({ "MetricName": "Sold", "Timestamp": at, "Value": value });
        self.ok("PutMetricData", json!({ "Namespace": "Shop", "MetricData": [datum] })).await;
    }
}

/// A registry of one alarm, which notes what it is told.
#[derive(Debug, Default)]
struct OneAlarm {
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

fn sold(period: u64, statistic: &str) -> Value {
    json!({
        "Id": "sold",
        "MetricStat": {
            "Metric": { "Namespace": "Shop", "MetricName": "Sold" },
            "Period": period,
            "Stat": statistic,
        },
    })
}

#[tokio::test]
async fn what_is_put_in_any_form_is_read_by_period_and_statistic() {
    let served = Served::start().await;
    let datum = |form: Value| {
        let mut datum = json!({ "MetricName": "Sold", "Timestamp": NOW });
        for (name, value) in form.as_object().expect("members") {
            datum[name] = value.clone();
        }
        datum
    };
    let data = [
        datum(json!({ "Value": 4 })),
        datum(json!({ "Values": [1.0, 3.0], "Counts": [2, 1] })),
        datum(json!({ "Values": [10.0] })),
        datum(json!({
            "StatisticValues": { "SampleCount": 2, "Sum": 30, "Minimum": 0.5, "Maximum": 29.5 },
        })),
    ];
    served.ok("PutMetricData", json!({ "Namespace": "Shop", "MetricData": data })).await;
    served.put(NOW - 60, 7.0).await;
    for (statistic, expected) in
        [("SampleCount", 7.0), ("Sum", 49.0), ("Average", 7.0), ("Minimum", 0.5), ("Maximum", 29.5)]
    {
        let answer = served
            .ok(
                "GetMetricData",
                json!({
                    "MetricDataQueries": [sold(60, statistic)],
                    "StartTime": NOW,
                    "EndTime": NOW + 60,
                }),
            )
            .await;
        let expected = json!({
            "Id": "sold", "Label": "Sold", "StatusCode": "Complete",
            "Timestamps": [NOW as f64], "Values": [expected],
        });
        assert_eq!(answer, json!({ "MetricDataResults": [expected] }), "{statistic}");
    }
    served.stop().await;
}

#[tokio::test]
async fn periods_begin_at_multiples_of_their_length_and_empty_ones_are_left_out() {
    let served = Served::start().await;
    for (at, value) in [(NOW - 120, 1.0), (NOW - 119, 2.0), (NOW - 1, 4.0)] {
        served.put(at, value).await;
    }
    let values = |period: u64, order: &str| {
        let request = json!({
            "MetricDataQueries": [sold(period, "Sum")],
            "StartTime": NOW - 119, "EndTime": NOW, "ScanBy": order,
        });
        let served = &served;
        async move {
            let answer = served.ok("GetMetricData", request).await;
            let result = &answer["MetricDataResults"][0];
            (result["Timestamps"].clone(), result["Values"].clone())
        }
    };
    let at = |ago: u64| (NOW - ago) as f64;
    assert_eq!(
        values(60, "TimestampAscending").await,
        (json!([at(120), at(60)]), json!([3.0, 4.0]))
    );
    assert_eq!(
        values(1, "TimestampDescending").await,
        (json!([at(1), at(119)]), json!([4.0, 2.0]))
    );
    served.stop().await;
}

#[tokio::test]
async fn pages_of_metric_data_hold_every_value_once() {
    let served = Served::start().await;
    for ago in 1..=5 {
        served.put(NOW - ago, 1.0).await;
    }
    let mut other = sold(1, "SampleCount");
    other["Id"] = json!("other");
    let mut hidden = sold(1, "Sum");
    hidden["Id"] = json!("hidden");
    hidden["ReturnData"] = json!(false);
    let mut request = json!({
        "MetricDataQueries": [sold(1, "Sum"), hidden, other],
        "StartTime": NOW - 10, "EndTime": NOW, "MaxDatapoints": 3,
    });
    let mut found = std::collections::BTreeMap::<String, Vec<Value>>::new();
    for pages in 1.. {
        let answer = served.ok("GetMetricData", request.clone()).await;
        for result in answer["MetricDataResults"].as_array().expect("results") {
            let id = result["Id"].as_str().expect("an id").to_owned();
            let timestamps = result["Timestamps"].as_array().expect("a list");
            found.entry(id).or_default().extend(timestamps.clone());
        }
        match answer.get("NextToken") {
            Some(token) => request["NextToken"] = token.clone(),
            None => {
                assert_eq!(pages, 4, "ten values, three at a time");
                break;
            }
        }
    }
    let all: Vec<_> = (1..=5).map(|ago| json!((NOW - ago) as f64)).collect();
    assert_eq!(found.len(), 2);
    assert_eq!(found["sold"], all);
    assert_eq!(found["other"], all);
    served.stop().await;
}

#[tokio::test]
async fn statistics_of_one_metric_come_in_the_order_of_time() {
    let served = Served::start().await;
    served.put(NOW - 60, 1.0).await;
    served.put(NOW, 2.0).await;
    let answer = served
        .ok(
            "GetMetricStatistics",
            json!({
                "Namespace": "Shop", "MetricName": "Sold", "Period": 60,
                "StartTime": NOW - 60, "EndTime": NOW + 60, "Statistics": ["Sum", "Maximum"],
            }),
        )
        .await;
    let points = [
        json!({ "Timestamp": (NOW - 60) as f64, "Sum": 1.0, "Maximum": 1.0 }),
        json!({ "Timestamp": NOW as f64, "Sum": 2.0, "Maximum": 2.0 }),
    ];
    assert_eq!(answer, json!({ "Label": "Sold", "Datapoints": points }));
    served.stop().await;
}

#[tokio::test]
async fn metrics_are_listed_by_namespace_name_and_dimensions() {
    let served = Served::start().await;
    served.put(NOW, 1.0).await;
    let of_shop = json!([{ "Name": "Shop", "Value": "1" }]);
    let datum = json!({ "MetricName": "Sold", "Value": 1, "Dimensions": of_shop });
    served.ok("PutMetricData", json!({ "Namespace": "Shop", "MetricData": [datum] })).await;
    served.observed.throttle_request(&["Flights"], "PutItem", NOW);
    let plain = json!({ "Namespace": "Shop", "MetricName": "Sold", "Dimensions": [] });
    let one = json!({ "Namespace": "Shop", "MetricName": "Sold", "Dimensions": of_shop });
    let throttled = json!({
        "Namespace": "AWS/DynamoDB",
        "MetricName": "ThrottledRequests",
        "Dimensions": [
            { "Name": "Operation", "Value": "PutItem" },
            { "Name": "TableName", "Value": "Flights" },
        ],
    });
    for (filter, expected) in [
        (json!({}), json!([throttled, plain, one])),
        (json!({ "Namespace": "Shop" }), json!([plain, one])),
        (json!({ "MetricName": "ThrottledRequests" }), json!([throttled])),
        (json!({ "Dimensions": [{ "Name": "Shop" }] }), json!([one])),
        (json!({ "Dimensions": [{ "Name": "Shop", "Value": "2" }] }), json!([])),
    ] {
        let answer = served.ok("ListMetrics", filter.clone()).await;
        assert_eq!(answer, json!({ "Metrics": expected }), "{filter}");
    }
    served.stop().await;
}

#[tokio::test]
async fn a_report_names_the_most_throttled_keys_by_period() {
    let served = Served::start().await;
    let table = Resource::table("Flights");
    served.observed.enable_insights("Flights", Duration::from_millis(NOW * 1000 + 7));
    served.observed.change_partitions(|partitions| {
        partitions.set_table(Duration::from_secs(NOW), "Flights", Throughput::OnDemand, []);
        let mut write = |second, partition_key, sort_key, times| {
            for _ in 0..times {
                let demand = Demand {
                    resource: table,
                    partition_key,
                    sort_key: Some(sort_key),
                    kind: Kind::Write,
                    units: Units::whole(1),
                };
                let _ = partitions.admit(Duration::from_secs(second), &[demand]);
            }
        };
        // Two a second pass; the others are throttled.
        write(NOW, "JFK#0", "a", 7);
        write(NOW, "EWR#0", "b", 5);
        write(NOW + 61, "EWR#0", "c", 6);
    });
    let rules = served.ok("DescribeInsightRules", json!({})).await;
    let names: Vec<_> = rules["InsightRules"].as_array().expect("rules").iter().collect();
    let names: Vec<_> = names.iter().map(|rule| rule["Name"].as_str().expect("text")).collect();
    let [partition_keys, items] = [
        format!("DynamoDBContributorInsights-PKT-Flights-{NOW}007"),
        format!("DynamoDBContributorInsights-SKT-Flights-{NOW}007"),
    ];
    assert_eq!(names, [&partition_keys, &items]);

    let request = |rule: &str, order: &str, count: u64| {
        json!({
            "RuleName": rule, "StartTime": NOW, "EndTime": NOW + 120, "Period": 60,
            "MaxContributorCount": count, "OrderBy": order,
            "Metrics": ["UniqueContributors", "MaxContributorValue", "Sum"],
        })
    };
    let at = |later: u64| (NOW + later) as f64;
    let point = |later, value: f64| json!({ "Timestamp": at(later), "ApproximateValue": value });
    let report = served.ok("GetInsightRuleReport", request(&partition_keys, "Sum", 10)).await;
    assert_eq!(
        report,
        json!({
            "KeyLabels": ["pk"],
            "AggregationStatistic": "SUM",
            "AggregateValue": 12.0,
            "ApproximateUniqueCount": 2,
            "Contributors": [
                {
                    "Keys": ["EWR#0"],
                    "ApproximateAggregateValue": 7.0,
                    "Datapoints": [point(0, 3.0), point(60, 4.0)],
                },
                {
                    "Keys": ["JFK#0"],
                    "ApproximateAggregateValue": 5.0,
                    "Datapoints": [point(0, 5.0)],
                },
            ],
            "MetricDatapoints": [
                { "Timestamp": at(0), "UniqueContributors": 2.0, "MaxContributorValue": 5.0, "Sum": 8.0 },
                { "Timestamp": at(60), "UniqueContributors": 1.0, "MaxContributorValue": 4.0, "Sum": 4.0 },
            ],
        })
    );
    let report = served.ok("GetInsightRuleReport", request(&partition_keys, "Maximum", 1)).await;
    assert_eq!(report["Contributors"].as_array().expect("a list").len(), 1);
    assert_eq!(report["Contributors"][0]["Keys"], json!(["JFK#0"]));
    assert_eq!(report["ApproximateUniqueCount"], 2, "of all, and not of those that are named");
    let report = served.ok("GetInsightRuleReport", request(&items, "Sum", 10)).await;
    assert_eq!(report["KeyLabels"], json!(["pk", "sk"]));
    assert_eq!(report["Contributors"][0]["Keys"], json!(["JFK#0", "a"]));
    served.stop().await;
}

#[tokio::test]
async fn a_report_over_all_time_looks_at_what_is_kept_and_not_at_every_minute_since_1970() {
    let served = Served::start().await;
    served.observed.enable_insights("Flights", Duration::from_secs(NOW));
    let rule = format!("DynamoDBContributorInsights-PKT-Flights-{NOW}000");
    let request = json!({ "RuleName": rule, "StartTime": 0, "EndTime": NOW, "Period": 60 });
    let report = served.ok("GetInsightRuleReport", request).await;
    assert_eq!(report["AggregateValue"], 0.0);
    assert_eq!(report["Contributors"], json!([]));
    served.stop().await;
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
    let updated = NOW as f64 + 0.25;
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
