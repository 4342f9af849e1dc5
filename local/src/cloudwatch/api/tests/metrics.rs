//! What is put, listed and read.

use super::*;

#[tokio::test]
async fn values_put_in_any_form_are_read_by_period_and_statistic() {
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
            "Timestamps": [NOW], "Values": [expected],
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
    let at = |ago: u64| NOW - ago;
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
        let Some(token) = answer.get("NextToken") else {
            assert_eq!(pages, 4, "ten values, three at a time");
            break;
        };
        request["NextToken"] = token.clone();
    }
    let all: Vec<_> = (1..=5).map(|ago| json!(NOW - ago)).collect();
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
        json!({ "Timestamp": NOW - 60, "Sum": 1.0, "Maximum": 1.0 }),
        json!({ "Timestamp": NOW, "Sum": 2.0, "Maximum": 2.0 }),
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
