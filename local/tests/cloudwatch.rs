//! The `cloudwatch` endpoint as the AWS SDK for Rust sees it, which speaks Smithy RPC v2 CBOR.

use std::time::{Duration, SystemTime};

use aws_sdk_cloudwatch::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_cloudwatch::error::ProvideErrorMetadata;
use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{
    Dimension, Metric, MetricDataQuery, MetricDatum, MetricStat, StateValue, Statistic,
    StatisticSet,
};
use aws_sdk_cloudwatch::{Client, Config};
use dynashard_local::{Functions, Stack, StackOptions, TemplateSource};

const TEMPLATE: &str = "
Transform: AWS::Serverless-2016-10-31
Resources:
  Items:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{ AttributeName: pk, AttributeType: S }]
      KeySchema: [{ AttributeName: pk, KeyType: HASH }]
      ContributorInsightsSpecification: { Enabled: true, Mode: THROTTLED_KEYS }
";

async fn start() -> (Stack, Client) {
    let template =
        TemplateSource::Text { name: "template.yaml".to_owned(), text: TEMPLATE.to_owned() };
    let functions = Functions::Prebuilt(env!("CARGO_TARGET_TMPDIR").into());
    let stack = Stack::start(StackOptions::new(template, functions)).await.expect("a stack");
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "local"))
        .endpoint_url(&stack.endpoints().cloudwatch)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    (stack, Client::from_conf(config))
}

/// The minute that begins `ago` minutes before the one that runs.
#[expect(clippy::disallowed_methods, reason = "metrics are kept by the real time")]
fn minute(ago: u64) -> DateTime {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time");
    DateTime::from(SystemTime::UNIX_EPOCH + Duration::from_mins(now.as_secs() / 60 - ago))
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_that_the_sdk_puts_are_read_by_it_again() {
    let (stack, client) = start().await;
    let dimension = Dimension::builder().name("Place").value("here").build();
    let datum = || {
        let at = minute(2);
        MetricDatum::builder().metric_name("Sold").timestamp(at).dimensions(dimension.clone())
    };
    // Enough of them that the SDK compresses the request.
    let many = (0..200).map(|_| datum().value(2.0).build());
    let set = StatisticSet::builder().sample_count(2.0).sum(9.5).minimum(0.5).maximum(9.0).build();
    client
        .put_metric_data()
        .namespace("Shop")
        .set_metric_data(Some(many.collect()))
        .metric_data(datum().values(1.0).values(3.0).counts(4.0).counts(1.0).build())
        .metric_data(datum().statistic_values(set).build())
        .send()
        .await
        .expect("it is put");

    let listed = client.list_metrics().namespace("Shop").send().await.expect("a list");
    let [metric] = listed.metrics() else { panic!("one metric: {listed:?}") };
    assert_eq!(metric.dimensions(), std::slice::from_ref(&dimension));

    let metric =
        Metric::builder().namespace("Shop").metric_name("Sold").dimensions(dimension.clone());
    let stat = MetricStat::builder().metric(metric.build()).period(60).stat("Sum").build();
    let answer = client
        .get_metric_data()
        .metric_data_queries(MetricDataQuery::builder().id("sold").metric_stat(stat).build())
        .start_time(minute(5))
        .end_time(minute(0))
        .send()
        .await
        .expect("an answer");
    let [result] = answer.metric_data_results() else { panic!("one result: {answer:?}") };
    assert_eq!(result.timestamps(), [minute(2)]);
    assert_eq!(result.values(), [400.0 + 7.0 + 9.5]);

    let answer = client
        .get_metric_statistics()
        .namespace("Shop")
        .metric_name("Sold")
        .dimensions(dimension)
        .period(60)
        .start_time(minute(5))
        .end_time(minute(0))
        .statistics(Statistic::SampleCount)
        .statistics(Statistic::Maximum)
        .send()
        .await
        .expect("an answer");
    let [point] = answer.datapoints() else { panic!("one value: {answer:?}") };
    assert_eq!((point.sample_count(), point.maximum()), (Some(207.0), Some(9.0)));
    stack.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_and_alarms_are_told_to_the_sdk_and_errors_have_its_types() {
    let (stack, client) = start().await;
    let rules = client.describe_insight_rules().send().await.expect("rules");
    let [rule] = rules.insight_rules() else { panic!("one rule: {rules:?}") };
    let name = rule.name().expect("a name");
    assert!(name.starts_with("DynamoDBContributorInsights-PKT-Items-"), "{name}");
    let report = |name: &str| {
        let report = client.get_insight_rule_report().rule_name(name).period(60);
        report.start_time(minute(5)).end_time(minute(0)).send()
    };
    let empty = report(name).await.expect("a report");
    assert_eq!(empty.key_labels(), ["pk"]);
    assert_eq!(empty.aggregate_value(), Some(0.0));
    assert!(empty.contributors().is_empty());

    let error = report("none").await.expect_err("there is no such rule").into_service_error();
    assert!(error.is_resource_not_found_exception(), "{error:?}");
    let alarms = client.describe_alarms().send().await.expect("alarms");
    assert!(alarms.metric_alarms().is_empty());
    let set = client.set_alarm_state().alarm_name("none").state_value(StateValue::Ok);
    let error = set.state_reason("test").send().await.expect_err("there is no such alarm");
    let error = error.into_service_error();
    assert!(error.is_resource_not_found(), "{error:?}");
    assert_eq!(error.message(), Some("the alarm none does not exist"));
    let put = client.put_metric_data().namespace("AWS/DynamoDB");
    let datum = MetricDatum::builder().metric_name("Sold").value(1.0).build();
    let error = put.metric_data(datum).send().await.expect_err("it is AWS's own");
    assert!(error.into_service_error().is_invalid_parameter_value_exception());
    stack.shutdown().await;
}
