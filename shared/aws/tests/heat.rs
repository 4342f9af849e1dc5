//! What is asked of Contributor Insights and CloudWatch, and what their answers mean. A server on
//! this machine gives the answers, in the protocols of the two services.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_smithy_cbor::Encoder;
use aws_smithy_types::DateTime;
use dynashard_aws::{CloudWatchHeat, ServerClock, ThrottleAlarms, connect_local_with_cloudwatch};
use dynashard_core::ports::{AlarmControl, HeatSource, StoreError};
use dynashard_core::{Access, AlarmStatus, HeatWindow, HotKey, Throttles};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const WINDOW: HeatWindow = HeatWindow { from_secs: 1_000, to_secs: 1_300, period_secs: 60 };

/// Answers by operation; one that is asked again gets the same answer once more.
type Answers = HashMap<&'static str, (u16, Value)>;

/// The operations that were asked for with the bodies of the requests, in order.
type Requests = Mutex<Vec<(String, Vec<u8>)>>;

/// A service that speaks DynamoDB's JSON and CloudWatch's CBOR.
struct Service {
    heat: CloudWatchHeat,
    requests: Arc<Requests>,
}

impl Service {
    async fn answering(answers: impl IntoIterator<Item = (&'static str, u16, Value)>) -> Self {
        let answers = answers.into_iter().map(|(of, status, body)| (of, (status, body)));
        let answers = answers.collect::<Answers>();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("the port that was bound");
        let requests = Arc::<Requests>::default();
        let log = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A client that breaks off shows in the test.
                let _ = converse(stream, &answers, &log).await;
            }
        });
        let url = format!("http://{address}");
        let (dynamodb, cloudwatch) =
            connect_local_with_cloudwatch(&url, ServerClock::default()).await;
        let alarms = ThrottleAlarms {
            writes: "stack-write-throttles".to_owned(),
            reads: "stack-read-throttles".to_owned(),
        };
        let heat = CloudWatchHeat::new(dynamodb, cloudwatch, "flights".to_owned(), alarms);
        Self { heat, requests }
    }

    /// The operations that were asked for, in order.
    fn operations(&self) -> Vec<String> {
        let requests = self.requests.lock().expect("no panic");
        requests.iter().map(|(operation, _)| operation.clone()).collect()
    }

    /// Whether a request for `operation` holds all of these texts. Only reports are asked for more than once.
    fn asked(&self, operation: &str, texts: &[&str]) -> bool {
        let requests = self.requests.lock().expect("no panic");
        let bodies = requests.iter().filter(|(of, _)| of == operation).map(|(_, body)| body);
        let bodies = bodies.collect::<Vec<_>>();
        assert!(bodies.len() == 1 || operation == "GetInsightRuleReport", "one request");
        let holds =
            |body: &[u8], text: &str| body.windows(text.len()).any(|part| part == text.as_bytes());
        bodies.iter().any(|body| texts.iter().all(|text| holds(body, text)))
    }
}

async fn converse(mut stream: TcpStream, answers: &Answers, log: &Requests) -> std::io::Result<()> {
    let mut received = Vec::new();
    let (head, body_at) = loop {
        if stream.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
        if let Some(at) = received.windows(4).position(|part| part == b"\r\n\r\n") {
            break (String::from_utf8_lossy(&received[..at]).into_owned(), at + 4);
        }
    };
    let header = |name: &str| {
        head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    };
    let length = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    while received.len() < body_at + length {
        if stream.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default();
    let (operation, is_json) = match header("x-amz-target") {
        Some(target) => (target.rsplit('.').next().unwrap_or_default().to_owned(), true),
        None => (path.rsplit('/').next().unwrap_or_default().to_owned(), false),
    };
    log.lock().expect("no panic").push((operation.clone(), received[body_at..].to_vec()));
    let (status, body) = &answers[operation.as_str()];
    let (media_type, body) = if is_json {
        ("content-type: application/x-amz-json-1.0", body.to_string().into_bytes())
    } else {
        ("content-type: application/cbor\r\nsmithy-protocol: rpc-v2-cbor", cbor(body))
    };
    let head = format!(
        "HTTP/1.1 {status} Canned\r\n{media_type}\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await
}

/// JSON as CBOR, with the members that the service calls timestamps as such.
fn cbor(value: &Value) -> Vec<u8> {
    fn encode(encoder: &mut Encoder, name: &str, value: &Value) {
        match value {
            Value::Object(members) => {
                encoder.map(members.len());
                for (name, value) in members {
                    encoder.str(name);
                    encode(encoder, name, value);
                }
            }
            Value::Array(values) => {
                encoder.array(values.len());
                for value in values {
                    encode(encoder, name, value);
                }
            }
            Value::String(text) => {
                encoder.str(text);
            }
            Value::Number(number) if name == "Timestamp" => {
                let secs = number.as_i64().expect("whole seconds");
                encoder.timestamp(&DateTime::from_secs(secs));
            }
            Value::Number(number) => {
                match number.as_i64().and_then(|n| i32::try_from(n).ok()) {
                    Some(n) => encoder.integer(n),
                    None => encoder.double(number.as_f64().expect("a number")),
                };
            }
            Value::Null | Value::Bool(_) => panic!("no answer here has {value}"),
        }
    }
    let mut encoder = Encoder::new(Vec::new());
    encode(&mut encoder, "", value);
    encoder.into_writer()
}

fn rules(rules: &[&str]) -> (&'static str, u16, Value) {
    ("DescribeContributorInsights", 200, json!({ "ContributorInsightsRuleList": rules }))
}

const RULES: [&str; 3] = [
    "DynamoDBContributorInsights-SKT-flights-1795167336547",
    "DynamoDBContributorInsights-PKT-flights-1795167336547",
    "DynamoDBContributorInsights-PKC-flights-1895167336547",
];

fn hot(partition: &str, throttles: &[(u64, f64)]) -> HotKey {
    let throttles = throttles.iter().map(|&(at_secs, count)| Throttles { at_secs, count });
    HotKey { partition: partition.to_owned(), throttles: throttles.collect(), hottest_item: None }
}

fn contributor(key: &str, datapoints: &[(u64, f64)]) -> Value {
    let datapoints =
        datapoints.iter().map(|(at, n)| json!({ "Timestamp": at, "ApproximateValue": n }));
    json!({
        "Keys": [key],
        "ApproximateAggregateValue": 60.5,
        "Datapoints": datapoints.collect::<Vec<_>>(),
    })
}

#[tokio::test]
async fn throttled_keys_are_those_of_the_rule_for_throttled_partition_keys() {
    let report = json!({
        "KeyLabels": ["pk"],
        "AggregationStatistic": "Sum",
        "AggregateValue": 121.0,
        "ApproximateUniqueCount": 2,
        "Contributors": [
            contributor("EWR#1", &[(1_080, 40.5), (1_140, 20.5)]),
            contributor("JFK#7", &[]),
            { "Keys": [], "ApproximateAggregateValue": 1.5, "Datapoints": [] },
        ],
    });
    let service = Service::answering([rules(&RULES), ("GetInsightRuleReport", 200, report)]).await;
    let keys = service.heat.throttled_keys(WINDOW).await;
    // What has no date counts from the beginning of the window.
    let expected = [hot("EWR#1", &[(1_080, 40.5), (1_140, 20.5)]), hot("JFK#7", &[(1_000, 60.5)])];
    // The server answers every report so, that of the items, too.
    let expected = expected.map(|key| HotKey { hottest_item: Some(60.5), ..key });
    assert_eq!(keys, Ok(expected.to_vec()));
    assert!(service.asked("DescribeContributorInsights", &["flights"]));
    for rule in [RULES[0], RULES[1]] {
        assert!(service.asked("GetInsightRuleReport", &[rule, "Sum"]), "{rule}");
    }
}

#[tokio::test]
async fn a_report_without_contributors_is_no_key() {
    let empty = json!({ "KeyLabels": ["pk"], "Contributors": [] });
    for report in [empty, json!({})] {
        let service =
            Service::answering([rules(&RULES), ("GetInsightRuleReport", 200, report)]).await;
        assert_eq!(service.heat.throttled_keys(WINDOW).await, Ok(Vec::new()));
    }
}

#[tokio::test]
async fn of_several_rules_the_latest_counts() {
    let later = "DynamoDBContributorInsights-PKT-flights-1895167336547";
    let report = ("GetInsightRuleReport", 200, json!({}));
    let service = Service::answering([rules(&[RULES[1], later, RULES[0]]), report]).await;
    assert_eq!(service.heat.throttled_keys(WINDOW).await, Ok(Vec::new()));
    assert!(service.asked("GetInsightRuleReport", &[later]));
}

#[tokio::test]
async fn a_table_without_the_rule_is_set_up_wrongly() {
    for list in [&[][..], &[RULES[0]], &[RULES[2]]] {
        let service = Service::answering([rules(list)]).await;
        match service.heat.throttled_keys(WINDOW).await {
            Err(StoreError::Misconfigured(why)) => {
                assert!(why.contains("Contributor Insights") && why.contains("flights"), "{why}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(service.operations(), ["DescribeContributorInsights"]);
    }
}

#[tokio::test]
async fn an_alarm_tells_its_state_and_its_longest_period() {
    let of_metric = json!({ "StateValue": "ALARM", "Period": 60, "EvaluationPeriods": 3 });
    let of_math = json!({ "StateValue": "OK", "EvaluationPeriods": 1, "Metrics": [
        { "Id": "all", "Expression": "m1 + m2" },
        { "Id": "m1", "MetricStat": { "Metric": {}, "Period": 60, "Stat": "Sum" } },
        { "Id": "m2", "MetricStat": { "Metric": {}, "Period": 86400, "Stat": "Sum" } },
    ]});
    let odd = json!({ "StateValue": "INSUFFICIENT_DATA", "Period": -1 });
    for (alarm, is_raised, period_secs, evaluation_periods) in
        [(of_metric, true, 60, 3), (of_math, false, 86_400, 1), (odd, false, 1, 1)]
    {
        let answer = json!({ "MetricAlarms": [alarm] });
        let service = Service::answering([("DescribeAlarms", 200, answer)]).await;
        let period = Duration::from_secs(period_secs);
        let expected = AlarmStatus { is_raised, period, evaluation_periods };
        assert_eq!(service.heat.status(Access::Write).await, Ok(expected));
        assert!(service.asked("DescribeAlarms", &["stack-write-throttles"]));
    }
}

#[tokio::test]
async fn an_alarm_that_does_not_exist_is_named() {
    let none = json!({ "MetricAlarms": [] });
    let service = Service::answering([("DescribeAlarms", 200, none)]).await;
    let why = "there is no metric alarm named stack-write-throttles".to_owned();
    assert_eq!(service.heat.status(Access::Write).await, Err(StoreError::Misconfigured(why)));
}

#[tokio::test]
async fn an_alarm_is_set_back_with_the_reason() {
    let service = Service::answering([("SetAlarmState", 200, json!({}))]).await;
    assert_eq!(service.heat.rearm(Access::Get, "heat goes on").await, Ok(()));
    assert!(service.asked("SetAlarmState", &["stack-read-throttles", "OK", "heat goes on"]));
}

#[tokio::test]
async fn what_no_repetition_helps_is_told_at_once_and_names_the_operation() {
    let refusal = |code: &str| json!({ "__type": code, "message": "told by the service" });
    for code in [
        "AccessDeniedException",
        "AccessDenied",
        "ResourceNotFoundException",
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
    ] {
        let report = ("GetInsightRuleReport", 400, refusal(code));
        let service = Service::answering([rules(&RULES), report]).await;
        match service.heat.throttled_keys(WINDOW).await {
            Err(StoreError::Misconfigured(why)) => {
                assert!(why.starts_with(&format!("GetInsightRuleReport: {code}")), "{why}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(service.operations().len(), 2, "{code}");

        let insights = ("DescribeContributorInsights", 400, refusal(code));
        let service = Service::answering([insights]).await;
        let refused = service.heat.throttled_keys(WINDOW).await;
        assert!(matches!(refused, Err(StoreError::Misconfigured(_))), "{refused:?}");
        assert_eq!(service.operations().len(), 1, "{code}");
    }
}

#[tokio::test]
async fn what_may_pass_is_asked_again() {
    let fault = json!({ "__type": "InternalServiceFault", "message": "a moment, please" });
    let again = "DescribeContributorInsights";
    let service = Service::answering([(again, 500, fault.clone())]).await;
    let failed = service.heat.throttled_keys(WINDOW).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    assert_eq!(service.operations(), [again; 3]);
    let service = Service::answering([("SetAlarmState", 500, fault)]).await;
    let failed = service.heat.rearm(Access::Get, "heat goes on").await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    assert_eq!(service.operations(), ["SetAlarmState"; 3]);
}
