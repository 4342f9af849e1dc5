//! A CloudWatch alarm's change of state, as Lambda gets it.

use std::collections::BTreeMap;
use std::time::Duration;

use dynashard_core::{Access, HeatWindow};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The namespace of DynamoDB's metrics.
const NAMESPACE: &str = "AWS/DynamoDB";

/// The metrics of what partitions refused. They count no other limit.
const THROTTLES: [(&str, Access); 2] = [
    ("WriteKeyRangeThroughputThrottleEvents", Access::Write),
    ("ReadKeyRangeThroughputThrottleEvents", Access::Get),
];

/// The metrics of requests that the table's own provisioned capacity refused.
const CAPACITY_THROTTLES: [&str; 2] =
    ["WriteProvisionedThroughputThrottleEvents", "ReadProvisionedThroughputThrottleEvents"];

/// The period of an alarm that names none.
const USUAL_PERIOD: Duration = Duration::from_mins(1);

/// An alarm's change of state. Both of CloudWatch's ways to a function are read: the alarm's own
/// Lambda action, and `EventBridge`'s "CloudWatch Alarm State Change".
///
/// Only the fields that the function needs are read, so that no alarm is missed because of another
/// one: alarms with metric math, composite alarms and periods of a day are all real. The types of
/// `aws_lambda_events` 1.2 fail on the first ("missing field `metricStat`") and the last (a period is
/// a `u16`), they read the reason data of the last as a composite alarm's, and they do not know
/// `EventBridge`'s event. With all of that untyped, only name, value and time would remain of them.
#[derive(Debug, Clone, PartialEq)]
pub struct AlarmEvent {
    time: Option<String>,
    alarm: Alarm,
}

/// Why the function does not look for throttled keys after an event.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AlarmRefusal {
    /// The event cannot be read as an alarm's change of state.
    #[error("the event is not a change of a CloudWatch alarm's state: {0}")]
    Malformed(String),
    /// Another state than ALARM.
    #[error("the alarm {alarm} changed to {state}; the function acts only on ALARM")]
    NotRaised {
        /// The alarm's name.
        alarm: String,
        /// The state.
        state: String,
    },
    /// Another table, metric or namespace.
    #[error("the alarm {alarm} watches {watched}, not {wanted} of {table}")]
    Foreign {
        /// The alarm's name.
        alarm: String,
        /// What it watches instead.
        watched: String,
        /// What it should.
        wanted: &'static str,
        /// The main table.
        table: String,
    },
}

impl AlarmEvent {
    /// Reads an event.
    pub fn parse(event: &Value) -> Result<Self, AlarmRefusal> {
        let alarm = event.get("alarmData").or_else(|| event.get("detail"));
        let alarm = alarm.filter(|alarm| alarm.is_object()).ok_or_else(|| {
            AlarmRefusal::Malformed("it has neither alarmData nor detail".to_owned())
        })?;
        let time = event.get("time").and_then(Value::as_str).map(str::to_owned);
        let alarm =
            Alarm::deserialize(alarm).map_err(|e| AlarmRefusal::Malformed(e.to_string()))?;
        Ok(Self { time, alarm })
    }

    /// The time in which throttles of the partitions of `table` raised the alarm, and of what, or why it is not
    /// ours.
    pub fn window(&self, table: &str, now_secs: u64) -> Result<(HeatWindow, Access), AlarmRefusal> {
        let wanted = "the throttles of the partitions";
        let names = THROTTLES.map(|(name, _)| name);
        let window = self.window_of(&names, wanted, table, now_secs)?;
        let metrics = self.alarm.configuration.metrics.iter();
        let mut watched = metrics.filter_map(|query| Some(&query.metric_stat.as_ref()?.metric));
        let access = watched.find_map(|metric| metric.throttles_of(table));
        Ok((window, access.unwrap_or(Access::Write)))
    }

    /// The time in which the capacity of `table` raised the alarm, or why it is not ours.
    pub fn capacity_window(&self, table: &str, now_secs: u64) -> Result<HeatWindow, AlarmRefusal> {
        self.window_of(&CAPACITY_THROTTLES, "the throttles by the capacity", table, now_secs)
    }

    /// Whether the alarm watches the capacity of a table, and not its partitions.
    pub fn is_of_capacity(&self) -> bool {
        let watched = self.alarm.configuration.metrics.iter();
        let mut metrics = watched.filter_map(|query| Some(&query.metric_stat.as_ref()?.metric));
        metrics.any(|metric| metric.is_one_of(&CAPACITY_THROTTLES))
    }

    fn window_of(
        &self,
        names: &[&str],
        wanted: &'static str,
        table: &str,
        now_secs: u64,
    ) -> Result<HeatWindow, AlarmRefusal> {
        let Alarm { name: alarm, state, configuration } = &self.alarm;
        if state.value != "ALARM" {
            let (alarm, state) = (alarm.clone(), state.value.clone());
            return Err(AlarmRefusal::NotRaised { alarm, state });
        }
        let watched =
            || configuration.metrics.iter().filter_map(|query| query.metric_stat.as_ref());
        if !watched().any(|stat| stat.metric.is_one_of(names) && stat.metric.is_of(table)) {
            let watched = watched().map(|stat| stat.metric.describe()).collect::<Vec<_>>();
            let watched =
                if watched.is_empty() { "no metric".to_owned() } else { watched.join(", ") };
            let (alarm, table) = (alarm.clone(), table.to_owned());
            return Err(AlarmRefusal::Foreign { alarm, watched, wanted, table });
        }
        let period = watched().filter_map(|stat| stat.period).max();
        let period = period.map_or(USUAL_PERIOD, Duration::from_secs);
        let raised = state.timestamp.as_deref().and_then(epoch_secs);
        let raised = raised.or_else(|| self.time.as_deref().and_then(epoch_secs));
        let raised_secs = raised.unwrap_or(now_secs);
        let evaluated = state.evaluated_since_secs().filter(|since| *since < raised_secs);
        let evaluated = evaluated.map(|since| Duration::from_secs(raised_secs - since));
        Ok(HeatWindow::of_alarm(raised_secs, evaluated, period, now_secs))
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Alarm {
    #[serde(rename = "alarmName")]
    name: String,
    state: State,
    #[serde(default)]
    configuration: Configuration,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    value: String,
    #[serde(default)]
    timestamp: Option<String>,
    /// JSON in a string, of a shape that depends on the kind of alarm.
    #[serde(default)]
    reason_data: Option<String>,
}

impl State {
    /// When the first datapoint that raised the alarm began, in epoch seconds.
    fn evaluated_since_secs(&self) -> Option<u64> {
        let data = serde_json::from_str::<Value>(self.reason_data.as_deref()?).ok()?;
        let time = |value: &Value| value.as_str().and_then(epoch_secs);
        let evaluated = data.get("evaluatedDatapoints").and_then(Value::as_array);
        let evaluated = evaluated.into_iter().flatten();
        let begun = evaluated.filter_map(|datapoint| time(datapoint.get("timestamp")?));
        begun.chain(data.get("startDate").and_then(time)).min()
    }
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
struct Configuration {
    /// One for a plain alarm, several for metric math, none for a composite alarm.
    #[serde(default)]
    metrics: Vec<MetricQuery>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetricQuery {
    /// Absent where the query is an expression over others.
    #[serde(default)]
    metric_stat: Option<MetricStat>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct MetricStat {
    metric: Metric,
    /// In seconds.
    #[serde(default)]
    period: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Metric {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    dimensions: BTreeMap<String, String>,
}

impl Metric {
    /// Which access it counts throttles of, if it counts those of this table's partitions.
    fn throttles_of(&self, table: &str) -> Option<Access> {
        let access = THROTTLES.iter().find(|(name, _)| self.is_one_of(&[name]));
        access.filter(|_| self.is_of(table)).map(|(_, access)| *access)
    }

    /// Whether it is one of these metrics of DynamoDB.
    fn is_one_of(&self, names: &[&str]) -> bool {
        self.namespace == NAMESPACE && names.contains(&self.name.as_str())
    }

    /// Whether it is of the table itself. The metric of an index has one dimension more: Contributor
    /// Insights does not count its keys, and it has a capacity of its own.
    fn is_of(&self, table: &str) -> bool {
        self.dimensions.len() == 1
            && self.dimensions.get("TableName").is_some_and(|name| name == table)
    }

    fn describe(&self) -> String {
        let dimensions = self.dimensions.iter().map(|(name, value)| format!("{name}={value}"));
        let dimensions = dimensions.collect::<Vec<_>>().join(" ");
        format!("{} {} {{{dimensions}}}", self.namespace, self.name)
    }
}

/// A time of CloudWatch in epoch seconds: RFC 3339, but for an offset without a colon.
fn epoch_secs(time: &str) -> Option<u64> {
    let time = time.strip_suffix("+0000").map_or_else(|| time.to_owned(), |utc| format!("{utc}Z"));
    let time = OffsetDateTime::parse(&time, &Rfc3339).ok()?;
    u64::try_from(time.unix_timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// 2026-11-20T09:30:00Z.
    const RAISED_SECS: u64 = 1_795_167_000;
    const NOW_SECS: u64 = RAISED_SECS + 2;

    fn metric(name: &str, table: &str, period_secs: u64) -> Value {
        let metric =
            json!({ "namespace": NAMESPACE, "name": name, "dimensions": { "TableName": table } });
        json!({
            "id": "m1",
            "metricStat": { "metric": metric, "period": period_secs, "stat": "Sum" },
            "returnData": true,
        })
    }

    fn event(metrics: &[Value]) -> Value {
        json!({
            "source": "aws.cloudwatch",
            "alarmArn": "arn:aws:cloudwatch:eu-central-1:123456789012:alarm:hot",
            "time": "2026-11-20T09:30:00.490+0000",
            "alarmData": {
                "alarmName": "hot",
                "state": { "value": "ALARM", "timestamp": "2026-11-20T09:30:00.490+0000" },
                "configuration": { "metrics": metrics },
            },
        })
    }

    fn window(event: &Value) -> Result<HeatWindow, AlarmRefusal> {
        let event = AlarmEvent::parse(event)?;
        event.window("flights", NOW_SECS).map(|(window, _)| window)
    }

    /// How long before the alarm the window begins, and its period.
    fn begins(event: &Value) -> (u64, u32) {
        let window = window(event).expect("one of ours");
        assert_eq!(window.to_secs, NOW_SECS, "until now");
        (RAISED_SECS - window.from_secs, window.period_secs)
    }

    const WRITE_THROTTLES: &str = THROTTLES[0].0;

    #[test]
    fn the_alarm_on_reads_is_told_from_that_on_writes() {
        for (name, access) in THROTTLES {
            let event =
                AlarmEvent::parse(&event(&[metric(name, "flights", 60)])).expect("an alarm");
            assert_eq!(event.window("flights", NOW_SECS).map(|(_, of)| of), Ok(access));
        }
    }

    #[test]
    fn the_window_is_that_of_the_evaluated_datapoints() {
        let mut event = event(&[metric(WRITE_THROTTLES, "flights", 60)]);
        assert_eq!(begins(&event), (360, 60), "without reason data");
        for (data, since) in [
            (r#"{"startDate":"2026-11-20T09:28:00.000+0000","period":60}"#, 180),
            (
                r#"{"evaluatedDatapoints":[{"timestamp":"2026-11-20T09:29:00.000+0000","value":7.0},
                   {"timestamp":"2026-11-20T09:27:00.000+0000"},{"sampleCount":1.0}]}"#,
                240,
            ),
            // What cannot be believed or read is as good as nothing.
            (r#"{"startDate":"2026-11-20T09:40:00.000+0000"}"#, 360),
            (r#"{"startDate":"yesterday","evaluatedDatapoints":"none"}"#, 360),
            ("no JSON", 360),
        ] {
            event["alarmData"]["state"]["reasonData"] = json!(data);
            assert_eq!(begins(&event), (since, 60), "{data}");
        }
    }

    #[test]
    fn a_metric_inside_an_expression_is_watched() {
        let expression = json!({ "id": "e1", "expression": "m1 + m2", "label": "all" });
        let metrics = [
            expression,
            metric("ReadThrottleEvents", "flights", 60),
            metric(WRITE_THROTTLES, "flights", 120),
        ];
        assert_eq!(begins(&event(&metrics)), (660, 60));
    }

    #[test]
    fn a_period_of_a_day_is_no_overflow() {
        assert_eq!(begins(&event(&[metric(WRITE_THROTTLES, "flights", 86_400)])), (86_398, 60));
        assert_eq!(begins(&event(&[metric(WRITE_THROTTLES, "flights", u64::MAX)])), (86_398, 60));
    }

    #[test]
    fn eventbridge_brings_the_same_alarm_in_another_envelope() {
        let mut event = event(&[metric(WRITE_THROTTLES, "flights", 60)]);
        event["detail"] = event["alarmData"].take();
        event["detail-type"] = json!("CloudWatch Alarm State Change");
        event["time"] = json!("2026-11-20T09:30:00Z");
        event.as_object_mut().expect("an object").remove("alarmData");
        assert_eq!(begins(&event), (360, 60));
    }

    #[test]
    fn an_alarm_without_a_time_is_of_now() {
        let mut event = event(&[metric(WRITE_THROTTLES, "flights", 60)]);
        for time in [json!("20 November"), Value::Null] {
            event["time"] = time.clone();
            event["alarmData"]["state"]["timestamp"] = time;
            assert_eq!(begins(&event), (358, 60));
        }
    }

    #[test]
    fn other_states_and_other_metrics_are_none_of_ours() {
        let mut ok = event(&[metric(WRITE_THROTTLES, "flights", 60)]);
        ok["alarmData"]["state"]["value"] = json!("OK");
        let refusal = window(&ok).expect_err("not raised").to_string();
        assert_eq!(refusal, "the alarm hot changed to OK; the function acts only on ALARM");

        let mut other_namespace = metric(WRITE_THROTTLES, "flights", 60);
        other_namespace["metricStat"]["metric"]["namespace"] = json!("AWS/Logs");
        let mut index = metric(WRITE_THROTTLES, "flights", 60);
        index["metricStat"]["metric"]["dimensions"]["GlobalSecondaryIndexName"] = json!("active");
        for (metrics, watched) in [
            (vec![metric(WRITE_THROTTLES, "trains", 60)], "{TableName=trains}"),
            (vec![metric("WriteThrottleEvents", "flights", 60)], "WriteThrottleEvents"),
            (vec![other_namespace], "AWS/Logs"),
            (vec![index], "{GlobalSecondaryIndexName=active TableName=flights}"),
            (vec![], "watches no metric,"),
        ] {
            let refusal = window(&event(&metrics)).expect_err(watched);
            assert!(matches!(refusal, AlarmRefusal::Foreign { .. }), "{refusal}");
            assert!(refusal.to_string().contains(watched), "{refusal}");
        }
    }

    #[test]
    fn an_alarm_on_the_capacity_is_told_from_one_on_partitions() {
        for name in CAPACITY_THROTTLES {
            let of = |table| {
                AlarmEvent::parse(&event(&[metric(name, table, 60)])).expect("an alarm's event")
            };
            assert!(of("flights").is_of_capacity() && of("trains").is_of_capacity());
            let window = of("flights").capacity_window("flights", NOW_SECS).expect("one of ours");
            assert_eq!((RAISED_SECS - window.from_secs, window.period_secs), (360, 60));
            let refusal = of("trains").capacity_window("flights", NOW_SECS).expect_err("another");
            assert!(refusal.to_string().ends_with("not the throttles by the capacity of flights"));
            assert!(of("flights").window("flights", NOW_SECS).is_err(), "no partition is hot");
        }
        let of_partitions = AlarmEvent::parse(&event(&[metric(WRITE_THROTTLES, "flights", 60)]));
        let of_partitions = of_partitions.expect("an alarm's event");
        assert!(!of_partitions.is_of_capacity());
        assert!(of_partitions.capacity_window("flights", NOW_SECS).is_err());
    }

    #[test]
    fn what_is_no_alarm_says_where() {
        let mut no_state = event(&[]);
        no_state["alarmData"]["state"] = json!({});
        let mut metrics = event(&[]);
        metrics["alarmData"]["configuration"]["metrics"] = json!("m1");
        for (event, why) in [
            (json!({ "source": "aws.cloudwatch" }), "neither alarmData nor detail"),
            (json!({ "alarmData": ["hot"] }), "neither alarmData nor detail"),
            (json!({ "alarmData": {} }), "missing field `alarmName`"),
            (no_state, "missing field `value`"),
            (metrics, "expected a sequence"),
        ] {
            let refusal = window(&event).expect_err(why);
            assert!(matches!(refusal, AlarmRefusal::Malformed(_)), "{refusal}");
            assert!(refusal.to_string().contains(why), "{refusal}");
        }
    }
}
