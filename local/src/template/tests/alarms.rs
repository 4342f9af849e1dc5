//! Alarms of templates, and the permissions of their actions.

use super::*;
use crate::plan::{ALARMS, Comparison, Fill, MetricId, MissingData, Statistic};

#[test]
fn the_shipped_template_lets_its_throttle_alarm_invoke_the_scale_function() {
    let template = load_template(&shipped(), &[]).expect("the shipped template");
    let [alarm, reads] = &template.alarms[..] else { panic!("two alarms") };
    assert_eq!(reads.name, "dynashard-read-throttles");
    assert_eq!(template.functions[2].environment["READ_ALARM_NAME"], reads.name);
    assert_eq!(reads.metric.name, "ReadKeyRangeThroughputThrottleEvents");
    assert_eq!(reads.missing_data, Some(MissingData::NotBreaching));
    assert_eq!(alarm.name, "dynashard-write-throttles");
    assert_eq!(template.functions[2].name, "ScaleFunction");
    assert_eq!(template.functions[2].environment["ALARM_NAME"], alarm.name);
    let metric = MetricId {
        namespace: "AWS/DynamoDB".to_owned(),
        name: "WriteKeyRangeThroughputThrottleEvents".to_owned(),
        dimensions: BTreeMap::from([("TableName".to_owned(), "MainTable".to_owned())]),
    };
    assert_eq!((&alarm.metric, alarm.statistic), (&metric, Statistic::Sum));
    assert_eq!((alarm.schedule.period_secs, alarm.schedule.interval_secs), (60, 60));
    assert_eq!((alarm.evaluation_periods, alarm.breaching_datapoints), (5, Some(1)));
    assert_eq!((alarm.comparison, alarm.threshold), (Comparison::GreaterOrEqual, 1.0));
    assert_eq!(alarm.missing_data, Some(MissingData::NotBreaching));
    assert_eq!(alarm.fill.as_ref().map(Fill::expression).as_deref(), Some("FILL(metric, 0)"));
    assert!(alarm.actions_enabled);
    assert_eq!(alarm.actions.alarm, ["ScaleFunction"]);
    assert!(alarm.actions.ok.is_empty() && alarm.actions.insufficient_data.is_empty());
    let may_invoke = |arn: &str| {
        let mut permissions = template.permissions.iter();
        permissions.any(|permission| permission.allows(ALARMS, arn, "ScaleFunction"))
    };
    assert!(may_invoke(&alarm.arn()) && may_invoke(&reads.arn()));
    assert!(!may_invoke(&format!("{}-2", alarm.arn())));
}

#[test]
fn the_shipped_template_has_alarms_on_the_capacity_where_the_function_raises_it() {
    let given = [
        ("BillingMode", "PROVISIONED"),
        ("CapacityScaling", "function"),
        ("MaxWriteCapacityUnits", "400"),
    ];
    let template = load_template(&shipped(), &overrides(&given)).expect("the shipped template");
    let [_, writes, reads, _] = &template.alarms[..] else { panic!("four alarms") };
    let scale = &template.functions[2];
    let mut names = scale.environment["CAPACITY_ALARM_NAMES"].split(',');
    for (alarm, kind) in [(writes, "Write"), (reads, "Read")] {
        assert_eq!(alarm.metric.name, format!("{kind}ProvisionedThroughputThrottleEvents"));
        assert_eq!(alarm.metric.dimensions["TableName"], "MainTable");
        assert_eq!((alarm.comparison, alarm.threshold), (Comparison::GreaterOrEqual, 1.0));
        assert_eq!(alarm.missing_data, Some(MissingData::NotBreaching));
        assert_eq!(alarm.actions.alarm, ["ScaleFunction"]);
        assert_eq!(names.next(), Some(alarm.name.as_str()));
        let arn = alarm.arn();
        let mut permissions = template.permissions.iter();
        assert!(
            permissions.any(|permission| permission.allows(ALARMS, &arn, "ScaleFunction")),
            "{arn}"
        );
    }
    assert_eq!(scale.environment["CAPACITY_SCALING"], "function");
    assert_eq!(scale.environment["MAX_WRITE_CAPACITY_UNITS"], "400");
    let mut others = template.functions.iter().filter(|function| function.name != scale.name);
    assert!(others.all(|function| !function.environment.contains_key("CAPACITY_SCALING")));
}

const FUNCTION: &str = "  F:
    Type: AWS::Serverless::Function
    Metadata: { BuildMethod: rust-cargolambda, BuildProperties: { Binary: f } }
    Properties: { Runtime: provided.al2023 }
";

/// A template with a function `F` and an alarm `A`, whose `properties` stand on lines 10 and
/// following.
fn with_alarm(properties: &str) -> String {
    let alarm = "  A:\n    Type: AWS::CloudWatch::Alarm\n    Properties:\n";
    let properties: Vec<_> = properties.lines().map(str::trim).collect();
    with_resources(&format!("{FUNCTION}{alarm}      {}\n", properties.join("\n      ")))
}

const REST: &str = "EvaluationPeriods: 3
    ComparisonOperator: LessThanThreshold
    Threshold: -0.5";

const METRIC: &str = "Namespace: App
    MetricName: Orders
    Statistic: Average
    Period: 300";

#[test]
fn an_alarm_has_the_defaults_of_cloudwatch() {
    let template = load(&with_alarm(&format!("{METRIC}\n{REST}"))).expect("a template");
    let [alarm] = &template.alarms[..] else { panic!("one alarm") };
    assert_eq!(alarm.name, "A");
    assert_eq!(alarm.description, None);
    let orders = MetricId {
        namespace: "App".to_owned(),
        name: "Orders".to_owned(),
        dimensions: BTreeMap::new(),
    };
    assert_eq!((&alarm.metric, alarm.statistic), (&orders, Statistic::Average));
    assert_eq!((alarm.schedule.period_secs, alarm.schedule.interval_secs), (300, 60));
    assert_eq!((alarm.evaluation_periods, alarm.breaching_datapoints), (3, None));
    assert_eq!((alarm.comparison, alarm.threshold), (Comparison::Less, -0.5));
    assert_eq!((alarm.missing_data, alarm.actions_enabled), (None, true));
    let days = format!("{METRIC}\n{REST}").replace("300", "86400");
    assert_eq!(
        load(&with_alarm(&days)).expect("a template").alarms[0].schedule.period_secs,
        86_400
    );
}

#[test]
fn unsupported_alarms_are_refused_with_their_line() {
    let plain = |line: &str| format!("{METRIC}\n{REST}\n{line}");
    for (properties, expected) in [
        (plain("Unit: Count"), "t.yaml:17: the local stack does not know the property Unit of A"),
        (
            plain("AlarmActions: [\"arn:aws:sns:us-east-1:123456789012:topic\"]"),
            "t.yaml:17: the local stack knows actions that are functions of this template only: \
             AlarmActions of A",
        ),
        (plain("OKActions: [\"F\"]"), "OKActions of A, a AWS::CloudWatch::Alarm must be !GetAtt"),
        (
            plain("InsufficientDataActions: [!Sub \"${F.Arn}:prod\"]"),
            "not arn:aws:lambda:us-east-1:123456789012:function:F:prod",
        ),
        (plain("AlarmActions: [a, b, c, d, e, f]"), "may be 5 at most"),
        (plain("DatapointsToAlarm: 4"), "t.yaml:17: DatapointsToAlarm of A"),
        (plain("TreatMissingData: notbreaching"), "notBreaching here, not notbreaching"),
        (plain("Dimensions: [{ Name: a, Value: 1 }, { Name: a, Value: 2 }]"), "have a twice"),
        (plain("Metrics: []"), "t.yaml:17: A, a AWS::CloudWatch::Alarm has MetricName beside"),
        (METRIC.to_owned(), "has no EvaluationPeriods"),
        (format!("{METRIC}\n{REST}").replace("300", "45"), "t.yaml:13: Period of A"),
        (format!("{METRIC}\n{REST}").replace("300", "0"), "10, 20, 30 or a multiple of 60"),
        (format!("{METRIC}\n{REST}").replace("Average", "p99"), "here, not p99"),
        (format!("{METRIC}\n{REST}").replace("LessThan", "Outside"), "here, not OutsideThreshold"),
        (format!("{METRIC}\n{REST}").replace("-0.5", "much"), "must be a number"),
        (
            format!("{METRIC}\n{REST}").replace("Periods: 3", "Periods: 300"),
            "are 90000 s together, and may be 86400 s",
        ),
    ] {
        let error = problem(&with_alarm(&properties));
        assert!(error.contains(expected), "{properties}: {error}");
    }
}

#[test]
fn two_alarms_of_one_name_and_the_ref_of_an_alarm_are_refused() {
    let properties = format!("AlarmName: hot\n{METRIC}\n{REST}");
    let one = with_alarm(&properties);
    let other = with_alarm(&properties).replace("  A:", "  B:");
    let other = other.split_once("  B:").expect("the alarm").1;
    assert!(problem(&format!("{one}  B:{other}")).contains("two alarms have the name hot"));
    let outputs = "Outputs:\n  Name: { Value: !Ref A }\n";
    let error = problem(&format!("{one}{outputs}"));
    assert!(error.contains("does not know the !Ref of an alarm"), "{error}");
}

#[test]
fn unsupported_permissions_are_refused_with_their_line() {
    let good = "FunctionName: !Ref F
      Principal: lambda.alarms.cloudwatch.amazonaws.com
      Action: lambda:InvokeFunction";
    let with = |properties: &str| {
        let permission = "  P:\n    Type: AWS::Lambda::Permission\n    Properties:\n      ";
        with_resources(&format!("{FUNCTION}{permission}{properties}\n"))
    };
    let arn = "arn:aws:cloudwatch:us-east-1:123456789012:alarm:any";
    let template = load(&with(good)).expect("a template");
    assert!(template.permissions[0].allows(ALARMS, arn, "F"));
    let by_arn = good.replace("!Ref F", "!GetAtt F.Arn");
    assert!(load(&with(&by_arn)).expect("a template").permissions[0].allows(ALARMS, arn, "F"));
    for (properties, expected) in [
        (good.replace("!Ref F", "G"), "t.yaml:10: FunctionName of P"),
        (
            good.replace("InvokeFunction", "GetFunction"),
            "t.yaml:12: Action of P, a AWS::Lambda::Permission must be lambda:InvokeFunction",
        ),
        (format!("{good}\n      SourceArn: any"), "t.yaml:13: SourceArn of P"),
        (format!("{good}\n      PrincipalOrgID: o-1"), "does not know the property PrincipalOrgID"),
        ("FunctionName: !Ref F\n      Action: lambda:InvokeFunction".to_owned(), "no Principal"),
    ] {
        let error = problem(&with(&properties));
        assert!(error.contains(expected), "{properties}: {error}");
    }
}

#[test]
fn an_alarm_watches_a_metric_or_that_metric_filled() {
    let filled = |expression: &str, more: &str| {
        with_alarm(&format!(
            "Metrics: [{{ Id: e, Expression: \"{expression}\" }}, {{ Id: m, ReturnData: false, MetricStat: {{ \
             Metric: {{ Namespace: AWS/DynamoDB, MetricName: Throttles }}, Period: 60, Stat: Sum }} }}]
            {more}{REST}"
        ))
    };
    let plan = load(&filled("FILL(m, -1)", "")).expect("a template");
    let alarm = &plan.alarms[0];
    assert_eq!(alarm.fill, Some(Fill { id: "e".into(), metric_id: "m".into(), value: -1.0 }));
    assert_eq!((alarm.metric.name.as_str(), alarm.schedule.period_secs), ("Throttles", 60));
    for expression in ["m * 2", "FILL(e, 0)", "FILL(m, REPEAT)"] {
        let error = problem(&filled(expression, ""));
        assert!(error.contains("knows two Metrics of"), "{expression}: {error}");
    }
    let error = problem(&filled("FILL(m, 0)", "Period: 60\n    "));
    assert!(error.contains("has Period beside Metrics"), "{error}");
}
