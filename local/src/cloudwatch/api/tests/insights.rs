//! Reports of Contributor Insights.

use dynashard_limits::Units;
use dynashard_limits::partition::{Demand, Kind, Resource, Throughput};

use super::*;

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
    let at = |later: u64| NOW + later;
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
