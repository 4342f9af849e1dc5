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

/// An operation with its input, the error that it is refused with, and what the message says.
type Case = (&'static str, Value, &'static str, &'static str);

const VALUE: &str = "InvalidParameterValueException";
const MISSING: &str = "MissingRequiredParameterException";
const COMBINATION: &str = "InvalidParameterCombinationException";
const MALFORMED: &str = "SerializationException";

async fn assert_refused(cases: impl IntoIterator<Item = Case>) {
    let served = Served::start().await;
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
async fn a_malformed_put_is_refused_and_names_the_parameter() {
    let put = "PutMetricData";
    assert_refused([
        (put, json!({}), MISSING, "Namespace"),
        (put, json!({ "Namespace": "" }), VALUE, "Namespace"),
        (put, json!({ "Namespace": "AWS/DynamoDB" }), VALUE, "Namespace"),
        (put, json!({ "Namespace": "Shop" }), MISSING, "MetricData"),
        (put, json!({ "Namespace": 7 }), MALFORMED, "Namespace"),
        (put, json!({ "Namespace": "Shop", "MetricData": {} }), MALFORMED, "MetricData"),
        (put, json!({ "Namespace": "Shop", "MetricData": [7] }), MALFORMED, "MetricData"),
        (put, json!([]), MALFORMED, "structure"),
        (put, datum(&json!({})), MISSING, "MetricData.member.1.Value"),
        (put, datum(&json!({ "Value": "7" })), MALFORMED, "MetricData.member.1.Value"),
        (put, datum(&json!({ "Value": "NaN" })), VALUE, "MetricData.member.1.Value"),
        (put, datum(&json!({ "Value": 1e300 })), VALUE, "MetricData.member.1.Value"),
        (
            put,
            datum(&json!({ "Value": 1, "Values": [1] })),
            COMBINATION,
            "MetricData.member.1.Value",
        ),
        (put, datum(&json!({ "Values": [1, 2], "Counts": [1] })), COMBINATION, "Counts"),
        (put, datum(&json!({ "Values": [1], "Counts": [-1] })), VALUE, "Counts"),
        (put, datum(&json!({ "Values": [1], "Counts": [0] })), VALUE, "Counts"),
        (put, datum(&json!({ "Values": vec![1; 151] })), VALUE, "Values"),
        (put, datum(&json!({ "StatisticValues": {} })), MISSING, "StatisticValues.SampleCount"),
        (
            put,
            datum(
                &json!({ "StatisticValues": { "SampleCount": 1, "Sum": 1, "Minimum": 2, "Maximum": 1 } }),
            ),
            VALUE,
            "StatisticValues.Minimum",
        ),
        (put, datum(&json!({ "Value": 1, "Timestamp": NOW + 7_201 })), VALUE, "Timestamp"),
        (put, datum(&json!({ "Value": 1, "Timestamp": 0 })), VALUE, "Timestamp"),
        (put, datum(&json!({ "Value": 1, "Timestamp": "yesterday" })), MALFORMED, "Timestamp"),
        (
            put,
            datum(&json!({ "Value": 1, "Dimensions": [{ "Name": "a" }] })),
            MISSING,
            "MetricData.member.1.Dimensions.member.1.Value",
        ),
        (
            put,
            datum(&json!({ "Value": 1, "Dimensions": [
                { "Name": "a", "Value": "1" }, { "Name": "a", "Value": "2" },
            ] })),
            VALUE,
            "Dimensions.member.2.Name",
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_malformed_query_is_refused_and_names_the_parameter() {
    let data = "GetMetricData";
    assert_refused([
        (data, json!({}), MISSING, "MetricDataQueries"),
        (data, query(|query| query["Id"] = json!("Big")), VALUE, "Id"),
        (data, query(|query| query["Id"] = Value::Null), MISSING, "Id"),
        (data, query(|query| query["Expression"] = json!("SUM(METRICS())")), VALUE, "Expression"),
        (data, query(|query| query["MetricStat"] = Value::Null), MISSING, "MetricStat"),
        (data, query(|query| query["MetricStat"]["Stat"] = json!("p99")), VALUE, "p99"),
        (data, query(|query| query["MetricStat"]["Period"] = json!(7)), VALUE, "Period"),
        (data, query(|query| query["MetricStat"]["Period"] = json!(0)), VALUE, "Period"),
        (data, query(|query| query["MetricStat"]["Period"] = json!(-60)), MALFORMED, "Period"),
        (data, query(|query| query["ReturnData"] = json!("no")), MALFORMED, "ReturnData"),
        (
            "GetMetricStatistics",
            statistics(|it| it["Statistics"] = json!([])),
            MISSING,
            "Statistics",
        ),
        (
            "GetMetricStatistics",
            statistics(|it| it["ExtendedStatistics"] = json!(["p99"])),
            VALUE,
            "ExtendedStatistics",
        ),
        (
            "GetMetricStatistics",
            statistics(|it| {
                it["Period"] = json!(1);
                it["StartTime"] = json!(NOW - 1_441);
            }),
            COMBINATION,
            "1440",
        ),
        (
            "GetMetricStatistics",
            statistics(|it| it["EndTime"] = it["StartTime"].clone()),
            "ValidationException",
            "StartTime",
        ),
        ("GetInsightRuleReport", report(|_| {}), "ResourceNotFoundException", "none"),
        ("GetInsightRuleReport", report(|it| it["Period"] = json!(0)), VALUE, "Period"),
        ("GetInsightRuleReport", report(|it| it["EndTime"] = json!(0)), VALUE, "StartTime"),
        ("GetInsightRuleReport", report(|it| it["MaxContributorCount"] = json!(101)), VALUE, "100"),
        ("GetInsightRuleReport", report(|it| it["OrderBy"] = json!("Least")), VALUE, "OrderBy"),
        ("GetInsightRuleReport", report(|it| it["Metrics"] = json!(["p99"])), VALUE, "Metrics"),
        ("DescribeAlarms", json!({ "StateValue": "BAD" }), VALUE, "StateValue"),
        ("DescribeAlarms", json!({ "NextToken": "x" }), "InvalidNextToken", "NextToken"),
        ("DescribeAlarms", json!({ "MaxRecords": 101 }), VALUE, "MaxRecords"),
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
    ])
    .await;
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
