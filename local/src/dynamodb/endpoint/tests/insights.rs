//! Contributor Insights, and what `CloudWatch` sees of requests.

use super::*;

const CREATED: &str = "1795169410000";

async fn rig() -> Rig {
    let watched = Table { insights: Some(InsightsMode::ThrottledKeys), ..table("Watched") };
    let rig = Rig::with(TEN_UNITS, None, &[watched.clone(), table("Plain")]).await;
    // The endpoint does this at its start.
    rig.endpoint.enable_insights(&watched.name, InsightsMode::ThrottledKeys);
    rig
}

async fn describe(rig: &Rig, body: Value) -> Value {
    rig.ok("DescribeContributorInsights", body).await
}

#[tokio::test]
async fn a_table_tells_its_rules_by_their_real_names() {
    let rig = rig().await;
    let watched = describe(&rig, json!({ "TableName": "Watched" })).await;
    assert_eq!(
        watched,
        json!({
            "TableName": "Watched",
            "ContributorInsightsStatus": "ENABLED",
            "ContributorInsightsMode": "THROTTLED_KEYS",
            "ContributorInsightsRuleList": [format!("DynamoDBContributorInsights-PKT-Watched-{CREATED}")],
            "LastUpdateDateTime": 1_795_169_410.0,
        })
    );
    let plain = describe(&rig, json!({ "TableName": "Plain" })).await;
    let disabled = json!({
        "TableName": "Plain",
        "ContributorInsightsStatus": "DISABLED",
        "ContributorInsightsRuleList": [],
    });
    assert_eq!(plain, disabled);
    assert_eq!(rig.endpoint.counters().table_requests("Watched"), 0, "the engine is not asked");
    rig.stop().await;
}

#[tokio::test]
async fn insights_are_enabled_and_disabled_for_tables_and_indexes_and_end_with_them() {
    let rig = rig().await;
    let key = |name: &str, kind: &str| json!({ "AttributeName": name, "KeyType": kind });
    let attribute = |name: &str| json!({ "AttributeName": name, "AttributeType": "S" });
    let table = json!({
        "TableName": "Flights",
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [attribute("pk"), attribute("sk"), attribute("day")],
        "KeySchema": [key("pk", "HASH"), key("sk", "RANGE")],
        "GlobalSecondaryIndexes": [{
            "IndexName": "ByDay",
            "KeySchema": [key("day", "HASH")],
            "Projection": { "ProjectionType": "KEYS_ONLY" },
        }],
    });
    rig.ok("CreateTable", table).await;
    rig.clock.advance(Duration::from_secs(1));
    let set = |index: Option<&str>, action: &str| {
        let mut request = json!({ "TableName": "Flights", "ContributorInsightsAction": action });
        if let Some(index) = index {
            request["IndexName"] = json!(index);
        }
        request
    };
    let enabling = rig.ok("UpdateContributorInsights", set(None, "ENABLE")).await;
    assert_eq!(enabling["ContributorInsightsStatus"], "ENABLING");
    assert_eq!(enabling["ContributorInsightsMode"], "ACCESSED_AND_THROTTLED_KEYS");
    rig.ok("UpdateContributorInsights", set(Some("ByDay"), "ENABLE")).await;
    let rules = |answer: &Value| answer["ContributorInsightsRuleList"].clone();
    let by_arn = json!({ "TableName": "arn:aws:dynamodb:us-east-1:123456789012:table/Flights" });
    assert_eq!(
        rules(&describe(&rig, by_arn).await),
        json!([
            "DynamoDBContributorInsights-PKT-Flights-1795169411000",
            "DynamoDBContributorInsights-SKT-Flights-1795169411000",
        ])
    );
    let index = json!({ "TableName": "Flights", "IndexName": "ByDay" });
    assert_eq!(
        rules(&describe(&rig, index).await),
        json!(["DynamoDBContributorInsights-PKT-Flights-ByDay-1795169411000"])
    );
    let labels: Vec<_> = rig.endpoint.observed().insights.rules();
    let labels: Vec<_> = labels.iter().map(|rule| rule.key_labels.join(" ")).collect();
    assert_eq!(labels, ["pk", "pk sk", "day", "pk"]);

    let names = |answer: &Value| {
        let summaries = answer["ContributorInsightsSummaries"].as_array().expect("a list").clone();
        let name = |it: &Value| format!("{}/{}", it["TableName"], it["IndexName"]).replace('"', "");
        summaries.iter().map(name).collect::<Vec<_>>()
    };
    let list = rig.ok("ListContributorInsights", json!({ "MaxResults": 2 })).await;
    assert_eq!(names(&list), ["Flights/null", "Flights/ByDay"]);
    let rest = json!({ "MaxResults": 2, "NextToken": list["NextToken"] });
    let rest = rig.ok("ListContributorInsights", rest).await;
    assert_eq!(names(&rest), ["Watched/null"]);
    assert!(rest.get("NextToken").is_none(), "{rest}");

    let disabling = rig.ok("UpdateContributorInsights", set(None, "DISABLE")).await;
    assert_eq!(disabling["ContributorInsightsStatus"], "DISABLING");
    let disabled = describe(&rig, json!({ "TableName": "Flights" })).await;
    assert_eq!(disabled["ContributorInsightsStatus"], "DISABLED");
    rig.ok("DeleteTable", json!({ "TableName": "Flights" })).await;
    assert_eq!(rig.endpoint.observed().insights.rules().len(), 1);
    rig.stop().await;
}

#[tokio::test]
async fn requests_about_insights_that_make_no_sense_are_refused() {
    let rig = rig().await;
    let update = |member: &str, value: Value| {
        let mut request = json!({ "TableName": "Plain", "ContributorInsightsAction": "ENABLE" });
        request[member] = value;
        ("UpdateContributorInsights", request)
    };
    let describe = "DescribeContributorInsights";
    let list = "ListContributorInsights";
    for ((operation, body), expected) in [
        ((describe, json!({})), "ValidationException"),
        ((describe, json!({ "TableName": "None" })), "ResourceNotFoundException"),
        (
            (describe, json!({ "TableName": "Plain", "IndexName": "None" })),
            "ResourceNotFoundException",
        ),
        ((describe, json!({ "TableName": 7 })), "SerializationException"),
        (update("ContributorInsightsAction", json!("START")), "ValidationException"),
        (update("ContributorInsightsMode", json!("ALL")), "ValidationException"),
        ((list, json!({ "TableName": "None" })), "ResourceNotFoundException"),
        ((list, json!({ "MaxResults": 0 })), "ValidationException"),
        ((list, json!({ "NextToken": "x" })), "ValidationException"),
    ] {
        let (error, answer) = rig.refused(operation, body.clone()).await;
        assert_eq!(error, expected, "{operation} {body}: {answer}");
    }
    rig.clock.advance(LIFETIME + Duration::from_secs(1));
    let (error, _) = rig.refused(describe, json!({ "TableName": "Plain" })).await;
    assert_eq!(error, "InvalidSignatureException", "old as any other request");
    rig.stop().await;
}

#[tokio::test]
async fn a_batch_counts_as_a_throttled_request_only_if_nothing_of_it_was_admitted() {
    let rig = rig().await;
    let item = |pk: &str| json!({ "PutRequest": { "Item": { "pk": { "S": pk } } } });
    let put = json!({ "TableName": "Plain", "Item": { "pk": { "S": "hot" } } });
    assert_eq!(rig.drain("PutItem", &put).await, 10);
    let batch = |items: &[Value]| json!({ "RequestItems": { "Plain": items } });
    let answer = rig.ok("BatchWriteItem", batch(&[item("hot"), item("cool")])).await;
    assert_eq!(answer["UnprocessedItems"]["Plain"].as_array().map(Vec::len), Some(1));
    let observed = rig.endpoint.observed();
    let counted = |operation: &str| {
        let counts = observed.throttled_requests.per_second("Plain", operation, 0..u64::MAX);
        counts.into_iter().map(|(_, count)| count).sum::<u64>()
    };
    assert_eq!((counted("PutItem"), counted("BatchWriteItem")), (1, 0));
    rig.refused("BatchWriteItem", batch(&[item("hot")])).await;
    assert_eq!((counted("PutItem"), counted("BatchWriteItem")), (1, 1));
    rig.stop().await;
}
