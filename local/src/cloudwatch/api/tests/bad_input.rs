//! What is refused, and as what.

use super::*;

fn datum(form: &Value) -> Value {
    let mut datum = json!({ "MetricName": "Sold" });
    for (name, value) in form.as_object().expect("members") {
        datum[name] = value.clone();
    }
    json!({ "Namespace": "Shop", "MetricData": [datum] })
}

fn query(change: fn(&mut Value)) -> Value {
    let mut query = sold(60, "Sum");
    change(&mut query);
    json!({ "MetricDataQueries": [query], "StartTime": NOW - 60, "EndTime": NOW })
}

fn statistics(change: fn(&mut Value)) -> Value {
    let mut request = json!({
        "Namespace": "Shop", "MetricName": "Sold", "Period": 60,
        "StartTime": NOW - 60, "EndTime": NOW, "Statistics": ["Sum"],
    });
    change(&mut request);
    request
}

fn report(change: fn(&mut Value)) -> Value {
    let mut request =
        json!({ "RuleName": "none", "StartTime": NOW - 60, "EndTime": NOW, "Period": 60 });
    change(&mut request);
    request
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_names_the_parameter() {
    let served = Served::start().await;
    let put = "PutMetricData";
    let data = "GetMetricData";
    let value = "InvalidParameterValueException";
    let missing = "MissingRequiredParameterException";
    let combination = "InvalidParameterCombinationException";
    let malformed = "SerializationException";
    let cases = [
        (put, json!({}), missing, "Namespace"),
        (put, json!({ "Namespace": "" }), value, "Namespace"),
        (put, json!({ "Namespace": "AWS/DynamoDB" }), value, "Namespace"),
        (put, json!({ "Namespace": "Shop" }), missing, "MetricData"),
        (put, json!({ "Namespace": 7 }), malformed, "Namespace"),
        (put, json!({ "Namespace": "Shop", "MetricData": {} }), malformed, "MetricData"),
        (put, json!({ "Namespace": "Shop", "MetricData": [7] }), malformed, "MetricData"),
        (put, json!([]), malformed, "structure"),
        (put, datum(&json!({})), missing, "MetricData.member.1.Value"),
        (put, datum(&json!({ "Value": "7" })), malformed, "MetricData.member.1.Value"),
        (put, datum(&json!({ "Value": "NaN" })), value, "MetricData.member.1.Value"),
        (put, datum(&json!({ "Value": 1e300 })), value, "MetricData.member.1.Value"),
        (
            put,
            datum(&json!({ "Value": 1, "Values": [1] })),
            combination,
            "MetricData.member.1.Value",
        ),
        (put, datum(&json!({ "Values": [1, 2], "Counts": [1] })), combination, "Counts"),
        (put, datum(&json!({ "Values": [1], "Counts": [-1] })), value, "Counts"),
        (put, datum(&json!({ "Values": [1], "Counts": [0] })), value, "Counts"),
        (put, datum(&json!({ "Values": vec![1; 151] })), value, "Values"),
        (put, datum(&json!({ "StatisticValues": {} })), missing, "StatisticValues.SampleCount"),
        (
            put,
            datum(
                &json!({ "StatisticValues": { "SampleCount": 1, "Sum": 1, "Minimum": 2, "Maximum": 1 } }),
            ),
            value,
            "StatisticValues.Minimum",
        ),
        (put, datum(&json!({ "Value": 1, "Timestamp": NOW + 7_201 })), value, "Timestamp"),
        (put, datum(&json!({ "Value": 1, "Timestamp": 0 })), value, "Timestamp"),
        (put, datum(&json!({ "Value": 1, "Timestamp": "yesterday" })), malformed, "Timestamp"),
        (
            put,
            datum(&json!({ "Value": 1, "Dimensions": [{ "Name": "a" }] })),
            missing,
            "MetricData.member.1.Dimensions.member.1.Value",
        ),
        (
            put,
            datum(&json!({ "Value": 1, "Dimensions": [
                { "Name": "a", "Value": "1" }, { "Name": "a", "Value": "2" },
            ] })),
            value,
            "Dimensions.member.2.Name",
        ),
        (data, json!({}), missing, "MetricDataQueries"),
        (data, query(|query| query["Id"] = json!("Big")), value, "Id"),
        (data, query(|query| query["Id"] = Value::Null), missing, "Id"),
        (data, query(|query| query["Expression"] = json!("SUM(METRICS())")), value, "Expression"),
        (data, query(|query| query["MetricStat"] = Value::Null), missing, "MetricStat"),
        (data, query(|query| query["MetricStat"]["Stat"] = json!("p99")), value, "p99"),
        (data, query(|query| query["MetricStat"]["Period"] = json!(7)), value, "Period"),
        (data, query(|query| query["MetricStat"]["Period"] = json!(0)), value, "Period"),
        (data, query(|query| query["MetricStat"]["Period"] = json!(-60)), malformed, "Period"),
        (data, query(|query| query["ReturnData"] = json!("no")), malformed, "ReturnData"),
        (
            "GetMetricStatistics",
            statistics(|it| it["Statistics"] = json!([])),
            missing,
            "Statistics",
        ),
        (
            "GetMetricStatistics",
            statistics(|it| it["ExtendedStatistics"] = json!(["p99"])),
            value,
            "ExtendedStatistics",
        ),
        (
            "GetMetricStatistics",
            statistics(|it| {
                it["Period"] = json!(1);
                it["StartTime"] = json!(NOW - 1_441);
            }),
            combination,
            "1440",
        ),
        (
            "GetMetricStatistics",
            statistics(|it| it["EndTime"] = it["StartTime"].clone()),
            "ValidationException",
            "StartTime",
        ),
        ("GetInsightRuleReport", report(|_| {}), "ResourceNotFoundException", "none"),
        ("GetInsightRuleReport", report(|it| it["Period"] = json!(61)), value, "Period"),
        ("GetInsightRuleReport", report(|it| it["EndTime"] = json!(0)), value, "StartTime"),
        ("GetInsightRuleReport", report(|it| it["MaxContributorCount"] = json!(101)), value, "100"),
        ("GetInsightRuleReport", report(|it| it["OrderBy"] = json!("Least")), value, "OrderBy"),
        ("GetInsightRuleReport", report(|it| it["Metrics"] = json!(["p99"])), value, "Metrics"),
        ("DescribeAlarms", json!({ "StateValue": "BAD" }), value, "StateValue"),
        ("DescribeAlarms", json!({ "NextToken": "x" }), "InvalidNextToken", "NextToken"),
        ("DescribeAlarms", json!({ "MaxRecords": 101 }), value, "MaxRecords"),
        (
            "SetAlarmState",
            json!({ "AlarmName": "a", "StateValue": "BAD", "StateReason": "r" }),
            "ValidationException",
            "StateValue",
        ),
        (
            "SetAlarmState",
            json!({ "AlarmName": "a", "StateValue": "OK", "StateReason": "r", "StateReasonData": "{" }),
            "InvalidFormatFault",
            "StateReasonData",
        ),
        ("DeleteAlarms", json!({}), "UnknownOperationException", "DeleteAlarms"),
    ];
    for (operation, request, shape, says) in cases {
        let (_, answer) = served.json(operation, &request).await;
        let kind = format!("com.amazonaws.cloudwatch#{shape}");
        assert_eq!(answer["__type"], kind, "{operation} {request}: {answer}");
        let message = answer["message"].as_str().expect("a message");
        assert!(message.contains(says), "{operation} {request}: {message}");
    }
    assert_eq!(served.ok("ListMetrics", json!({})).await["Metrics"], json!([]));
    served.stop().await;
}

#[tokio::test]
async fn a_request_with_one_bad_datum_puts_none() {
    let served = Served::start().await;
    let data = [
        json!({ "MetricName": "Sold", "Value": 1 }),
        json!({ "MetricName": "Sold", "Value": "many" }),
    ];
    let request = json!({ "Namespace": "Shop", "MetricData": data });
    let (status, _) = served.json("PutMetricData", &request).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(served.ok("ListMetrics", json!({})).await["Metrics"], json!([]));
    served.stop().await;
}

#[tokio::test]
async fn a_query_over_all_time_looks_at_what_is_kept_and_not_at_every_second_since_1970() {
    let served = Served::start().await;
    served.put(NOW, 1.0).await;
    let request = json!({
        "MetricDataQueries": [sold(1, "Sum")], "StartTime": 0, "EndTime": 9_999_999_999_u64,
    });
    let answer = served.ok("GetMetricData", request).await;
    assert_eq!(answer["MetricDataResults"][0]["Values"], json!([1.0]));
    served.stop().await;
}
