//! The stack as a whole, with real processes for functions.
//!
//! This file is two programs: its tests start stacks whose bootstrap is a script that runs
//! [`bootstrap`] in this same executable. What the command adds (the ready line, flags and signals)
//! is tested with the command.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use dynashard_local::{AlarmState, Endpoints, Functions, Stack, StackOptions, TemplateSource};
use rustix::process::{Pid, getpriority_process};
use serde_json::{Value, json};

const TEMPLATE: &str = "
Transform: AWS::Serverless-2016-10-31
Resources:
  Items:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{ AttributeName: pk, AttributeType: S }]
      KeySchema: [{ AttributeName: pk, KeyType: HASH }]
  Api: { Type: AWS::ApiGatewayV2::Api, Properties: { Name: greeter, ProtocolType: HTTP } }
  Stage:
    Type: AWS::ApiGatewayV2::Stage
    Properties: { ApiId: !Ref Api, StageName: $default, AutoDeploy: true }
  Greeting:
    Type: AWS::ApiGatewayV2::Integration
    Properties:
      ApiId: !Ref Api
      IntegrationType: AWS_PROXY
      IntegrationUri: !GetAtt Greeter.Arn
      PayloadFormatVersion: '2.0'
  Greet:
    Type: AWS::ApiGatewayV2::Route
    Properties: { ApiId: !Ref Api, RouteKey: POST /greet, Target: !Sub 'integrations/${Greeting}' }
  GreetPermission:
    Type: AWS::Lambda::Permission
    Properties:
      Action: lambda:InvokeFunction
      FunctionName: !Ref Greeter
      Principal: apigateway.amazonaws.com
  Greeter:
    Type: AWS::Serverless::Function
    Metadata: { BuildMethod: rust-cargolambda, BuildProperties: { Binary: greet } }
    Properties:
      Runtime: provided.al2023
      Timeout: 20
      Environment: { Variables: { TABLE: !Ref Items } }
";

/// A function on the stream of a table. Its bootstrap asks the test for each answer.
const WATCHED: &str = r#"
Transform: AWS::Serverless-2016-10-31
Parameters:
  ReportTo: { Type: String }
Resources:
  Items:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{ AttributeName: pk, AttributeType: S }]
      KeySchema: [{ AttributeName: pk, KeyType: HASH }]
      StreamSpecification: { StreamViewType: NEW_AND_OLD_IMAGES }
  Failures: { Type: AWS::SQS::Queue }
  Watcher:
    Type: AWS::Serverless::Function
    Metadata: { BuildMethod: rust-cargolambda, BuildProperties: { Binary: greet } }
    Properties:
      Runtime: provided.al2023
      Timeout: 20
      Environment: { Variables: { REPORT_TO: !Ref ReportTo } }
      Events:
        Changes:
          Type: DynamoDB
          Properties:
            Stream: !GetAtt Items.StreamArn
            StartingPosition: TRIM_HORIZON
            MaximumRetryAttempts: 0
            BisectBatchOnFunctionError: true
            FunctionResponseTypes: [ReportBatchItemFailures]
            DestinationConfig: { OnFailure: { Destination: !GetAtt Failures.Arn } }
            FilterCriteria:
              Filters:
                - Pattern: '{"dynamodb": {"NewImage": {"phase": {"S": ["forward"]}}}}'
"#;

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_table_reach_the_function_and_poison_ends_in_the_queue() {
    let reports = TcpListener::bind("127.0.0.1:0").expect("a port");
    let report_to = reports.local_addr().expect("an address").to_string();
    let stack = start(watched(report_to)).await;
    let endpoints = stack.endpoints().clone();
    for (key, phase) in
        [("first", "forward"), ("calm", "stable"), ("poison", "forward"), ("last", "forward")]
    {
        let url = endpoints.dynamodb.clone();
        let request = json!({ "Item": { "pk": { "S": key }, "phase": { "S": phase } } });
        let answer = tokio::task::spawn_blocking(move || dynamodb(&url, "PutItem", &request));
        assert_eq!(answer.await.expect("no panic").status, 200);
    }
    let done = tokio::task::spawn_blocking(move || judge(&reports, "poison", "last"));
    assert_eq!(done.await.expect("no panic"), ["first", "last"]);

    // The record after it was delivered, so the poison record had been given up before.
    let queue = get(&format!("{}/_dynashard/queues/Failures", endpoints.lambda)).await;
    let queue: Value = serde_json::from_str(&queue.body).expect("JSON");
    let messages = queue["messages"].as_array().expect("messages");
    assert_eq!(messages.len(), 1);
    let failure = messages[0]["Body"].as_str().expect("a body");
    let failure: Value = serde_json::from_str(failure).expect("JSON");
    assert_eq!(failure["requestContext"]["condition"], "RetryAttemptsExhausted");
    assert_eq!(failure["DDBStreamBatchInfo"]["batchSize"], 1);
    stack.shutdown().await;
}

/// A function that the throttles of a table invoke. Its bootstrap asks the test for each answer.
const ALARMED: &str = "
Transform: AWS::Serverless-2016-10-31
Parameters:
  ReportTo: { Type: String }
Resources:
  Items:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{ AttributeName: pk, AttributeType: S }]
      KeySchema: [{ AttributeName: pk, KeyType: HASH }]
  Watcher:
    Type: AWS::Serverless::Function
    Metadata: { BuildMethod: rust-cargolambda, BuildProperties: { Binary: greet } }
    Properties:
      Runtime: provided.al2023
      Timeout: 20
      Environment: { Variables: { REPORT_TO: !Ref ReportTo } }
  Throttles:
    Type: AWS::CloudWatch::Alarm
    Properties:
      AlarmName: throttles
      Namespace: AWS/DynamoDB
      MetricName: WriteKeyRangeThroughputThrottleEvents
      Dimensions: [{ Name: TableName, Value: !Ref Items }]
      Statistic: Sum
      Period: 60
      EvaluationPeriods: 1
      Threshold: 1
      ComparisonOperator: GreaterThanOrEqualToThreshold
      TreatMissingData: notBreaching
      AlarmActions: [!GetAtt Watcher.Arn]
  Permission:
    Type: AWS::Lambda::Permission
    Properties:
      Action: lambda:InvokeFunction
      FunctionName: !Ref Watcher
      Principal: lambda.alarms.cloudwatch.amazonaws.com
      SourceArn: !Sub arn:aws:cloudwatch:${AWS::Region}:${AWS::AccountId}:alarm:throttles
";

#[tokio::test(flavor = "multi_thread")]
async fn throttles_alarm_and_alarm_again_when_the_state_is_set_back_in_the_heat() {
    let reports = TcpListener::bind("127.0.0.1:0").expect("a port");
    let report_to = reports.local_addr().expect("an address").to_string();
    let template =
        TemplateSource::Text { name: "template.yaml".to_owned(), text: ALARMED.to_owned() };
    let mut options = StackOptions::new(template, Functions::Prebuilt(bootstraps().to_owned()));
    options.overrides = vec![("ReportTo".to_owned(), report_to)];
    options.partitions.partition_wcu = NonZeroU32::MIN;
    options.alarm_period_secs = Some(NonZeroU32::MIN);
    let stack = start(options).await;
    let cold = Arc::new(AtomicBool::new(false));
    let heat = {
        let (url, cold) = (stack.endpoints().dynamodb.clone(), Arc::clone(&cold));
        let request = json!({ "Item": { "pk": { "S": "hot" } } });
        tokio::task::spawn_blocking(move || {
            while !cold.load(Ordering::Relaxed) {
                dynamodb(&url, "PutItem", &request);
            }
        })
    };
    let (event, reports) = reported(reports).await;
    assert_eq!(event["source"], "aws.cloudwatch");
    assert_eq!(event["alarmData"]["alarmName"], "throttles");
    assert_eq!(event["alarmData"]["state"]["value"], "ALARM");
    assert_eq!(stack.alarms(), [("throttles".to_owned(), AlarmState::Alarm)]);

    let target = ("x-amz-target", "GraniteServiceVersion20100801.SetAlarmState");
    let headers = [target, ("content-type", "application/x-amz-json-1.0")];
    let back = json!({ "AlarmName": "throttles", "StateValue": "OK", "StateReason": "grown" });
    let answer = post(&stack.endpoints().cloudwatch, &headers, back.to_string()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let (event, _) = reported(reports).await;
    assert_eq!(event["alarmData"]["state"]["value"], "ALARM");
    assert_eq!(event["alarmData"]["previousState"]["reason"], "grown");
    cold.store(true, Ordering::Relaxed);
    heat.await.expect("no panic");
    stack.shutdown().await;
}

/// The next event that a bootstrap reports, which then succeeds.
async fn reported(reports: TcpListener) -> (Value, TcpListener) {
    let report = tokio::task::spawn_blocking(move || {
        let (mut stream, _) = reports.accept().expect("a report");
        let mut event = String::new();
        BufReader::new(&stream).read_line(&mut event).expect("an event");
        stream.write_all(b"{}").expect("a connection");
        (serde_json::from_str(&event).expect("JSON"), reports)
    });
    report.await.expect("no panic")
}

/// Answers the batches that a bootstrap reports: the record of the item `poison` fails, and the
/// others succeed. Gives the items that did, in order, up to `last`.
fn judge(reports: &TcpListener, poison: &str, last: &str) -> Vec<String> {
    let mut done = Vec::new();
    while !done.iter().any(|key| key == last) {
        let (mut stream, _) = reports.accept().expect("a report");
        let mut event = String::new();
        BufReader::new(&stream).read_line(&mut event).expect("an event");
        let event: Value = serde_json::from_str(&event).expect("JSON");
        let records = event["Records"].as_array().expect("records");
        let is_poison = |record: &Value| record["dynamodb"]["Keys"]["pk"]["S"] == poison;
        let good = records.iter().take_while(|record| !is_poison(record));
        let good = good.map(|record| record["dynamodb"]["Keys"]["pk"]["S"].as_str());
        done.extend(good.map(|key| key.expect("a key").to_owned()));
        let failures = records
            .iter()
            .filter(|record| is_poison(record))
            .map(|record| json!({ "itemIdentifier": record["dynamodb"]["SequenceNumber"] }));
        let answer = json!({ "batchItemFailures": failures.collect::<Vec<_>>() });
        stream.write_all(answer.to_string().as_bytes()).expect("a connection");
    }
    done
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_passes_through_gateway_function_endpoint_and_engine() {
    let stack = start(options()).await;
    let endpoints = stack.endpoints().clone();
    let answer = greet(&endpoints, json!({ "put": "one" })).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(stack.counters().requests("Items", "PutItem"), 1);
    assert!(has_item(&endpoints, "one").await);
    assert!(!has_item(&endpoints, "two").await);

    let variables: BTreeMap<String, String> =
        serde_json::from_str(&greet(&endpoints, json!({ "variables": true })).await.body)
            .expect("variables");
    assert_eq!(variables["TABLE"], "Items");
    assert_eq!(variables["AWS_LAMBDA_FUNCTION_NAME"], "Greeter");
    assert_eq!(variables["AWS_ENDPOINT_URL_DYNAMODB"], endpoints.dynamodb);
    assert_eq!(variables["AWS_ENDPOINT_URL_CLOUDWATCH"], endpoints.cloudwatch);
    assert!(!variables.contains_key("CARGO_MANIFEST_DIR"), "the environment is not inherited");
    stack.shutdown().await;
}

/// On this machine they share its processors, and on Lambda each environment has its own.
#[tokio::test(flavor = "multi_thread")]
async fn regression_functions_that_only_events_invoke_took_the_processor_from_the_others() {
    let own = getpriority_process(None).expect("a priority");
    let nobody = "127.0.0.1:9".to_owned();
    for (options, expected) in [(options(), own), (watched(nobody), (own + 10).min(19))] {
        let stack = start(options).await;
        let [pid] = pids(stack.endpoints()).await[..] else { panic!("one environment") };
        assert_eq!(getpriority_process(Pid::from_raw(pid)), Ok(expected));
        stack.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_dies_is_replaced_and_its_last_words_are_in_the_log() {
    let stack = start(options()).await;
    let endpoints = stack.endpoints().clone();
    let [before] = pids(&endpoints).await[..] else { panic!("one environment") };
    let answer = greet(&endpoints, json!({ "exit": 7 })).await;
    assert_eq!(answer.status, 500);
    let url = format!("{}/2015-03-31/functions/Greeter/invocations", endpoints.lambda);
    let event = json!({ "body": json!({ "exit": 7 }).to_string() });
    let answer = post(&url, &[("x-amz-log-type", "Tail")], event.to_string()).await;
    assert_eq!(answer.headers["x-amz-function-error"], "Unhandled");
    assert!(answer.body.contains("exit status 7"), "{}", answer.body);
    let answer = greet(&endpoints, json!({})).await;
    assert_eq!(answer.status, 200);
    assert_ne!(pids(&endpoints).await, [before]);
    stack.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "metrics are kept by the real time")]
async fn a_metric_that_a_function_logs_is_there_when_the_function_has_ended() {
    let stack = start(options()).await;
    let endpoints = stack.endpoints().clone();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time").as_millis();
    let directive = json!({
        "Namespace": "Shop", "Dimensions": [["Place"]], "Metrics": [{ "Name": "Sold" }],
    });
    let now = u64::try_from(now).expect("a time");
    let metric = json!({
        "_aws": { "Timestamp": now, "CloudWatchMetrics": [directive] }, "Place": "here", "Sold": 3,
    });
    let answer = greet(&endpoints, json!({ "log": metric, "exit": 7 })).await;
    assert_eq!(answer.status, 500);
    let list = [("x-amz-target", "GraniteServiceVersion20100801.ListMetrics")];
    let listed = post(&endpoints.cloudwatch, &list, "{}".to_owned()).await;
    let listed: Value = serde_json::from_str(&listed.body).expect("JSON");
    let dimensions = json!([{ "Name": "Place", "Value": "here" }]);
    let metric = json!({ "Namespace": "Shop", "MetricName": "Sold", "Dimensions": dimensions });
    assert_eq!(listed["Metrics"], json!([metric]));
    stack.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_fails_says_in_one_line_what_to_do_and_leaves_nothing_behind() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let with_data = |path: &Path| StackOptions { data_dir: Some(path.to_owned()), ..options() };
    let holder = start(with_data(directory.path())).await;
    for (options, expected) in [
        (StackOptions { port, ..options() }, format!("port {port} is in use")),
        (StackOptions { dynamodb_port: port, ..options() }, "--dynamodb-port".to_owned()),
        (StackOptions { lambda_port: port, ..options() }, "--lambda-port".to_owned()),
        (StackOptions { cloudwatch_port: Some(port), ..options() }, "--cloudwatch-port".to_owned()),
        (
            StackOptions { functions: Functions::Prebuilt("nowhere".into()), ..options() },
            "no bootstrap of greet for Greeter: nowhere holds no executable".to_owned(),
        ),
        (
            StackOptions {
                functions: Functions::Built(BTreeMap::from([(
                    "greet".into(),
                    "/bin/false".into(),
                )])),
                ..options()
            },
            "Greeter did not start: Runtime exited with error: exit status 1".to_owned(),
        ),
        (with_data(Path::new("/proc/dynashard")), "data directory /proc/dynashard: ".to_owned()),
        (with_data(directory.path()), format!("data directory {}: ", directory.path().display())),
    ] {
        let error = Stack::start(options).await.expect_err("an error").to_string();
        assert!(error.contains(&expected), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    holder.shutdown().await;
}

/// What the scripts of the tests run: a bootstrap that does as the body of its event says.
#[test]
#[ignore = "the other tests run it as a bootstrap"]
fn bootstrap() {
    let Ok(api) = std::env::var("AWS_LAMBDA_RUNTIME_API") else {
        return;
    };
    let invocation = format!("{api}/2018-06-01/runtime/invocation");
    // The stack is gone when its Runtime API is, and then so is this.
    while let Some(next) = exchange("GET", &format!("{invocation}/next"), &[], "") {
        let id = &next.headers["lambda-runtime-aws-request-id"];
        let event: Value = serde_json::from_str(&next.body).expect("an event");
        let answer = match event["body"].as_str() {
            Some(orders) => obey(&serde_json::from_str(orders).expect("orders")),
            None => ask(&event),
        };
        exchange("POST", &format!("{invocation}/{id}/response"), &[], &answer.to_string());
    }
}

async fn start(options: StackOptions) -> Stack {
    Stack::start(options).await.expect("a stack")
}

fn options() -> StackOptions {
    let template =
        TemplateSource::Text { name: "template.yaml".to_owned(), text: TEMPLATE.to_owned() };
    StackOptions::new(template, Functions::Prebuilt(bootstraps().to_owned()))
}

/// Of the template [`WATCHED`].
fn watched(report_to: String) -> StackOptions {
    let template =
        TemplateSource::Text { name: "template.yaml".to_owned(), text: WATCHED.to_owned() };
    let options = StackOptions::new(template, Functions::Prebuilt(bootstraps().to_owned()));
    StackOptions { overrides: vec![("ReportTo".to_owned(), report_to)], ..options }
}

/// A directory with the bootstrap `greet`.
fn bootstraps() -> &'static Path {
    // Written once and before any process is started: a process that is being started would hold
    // the file open for writing, and then it could not be run.
    static BOOTSTRAPS: OnceLock<PathBuf> = OnceLock::new();
    BOOTSTRAPS.get_or_init(|| {
        let executable = std::env::current_exe().expect("this executable");
        let name = executable.file_name().expect("its name");
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&directory).expect("a directory");
        let script = format!(
            "#!/bin/sh\nexec '{}' --exact bootstrap --ignored --nocapture\n",
            executable.display()
        );
        let path = directory.join("greet");
        if fs::read_to_string(&path).is_ok_and(|present| present == script) {
            return directory;
        }
        // Another process of these tests may be at the same work.
        let draft = directory.join(format!("draft-{}", std::process::id()));
        fs::write(&draft, script).expect("a script");
        fs::set_permissions(&draft, Permissions::from_mode(0o755)).expect("permissions");
        fs::rename(draft, path).expect("a bootstrap");
        directory
    })
}

fn obey(orders: &Value) -> Value {
    println!("orders: {orders}");
    if let Some(line) = orders.get("log") {
        println!("{line}");
    }
    if let Some(code) = orders["exit"].as_i64() {
        eprintln!("these are my last words");
        std::process::exit(i32::try_from(code).expect("a code"));
    }
    if let Some(item) = orders["put"].as_str() {
        let url = std::env::var("AWS_ENDPOINT_URL_DYNAMODB").expect("a URL");
        let answer = dynamodb(&url, "PutItem", &json!({ "Item": { "pk": { "S": item } } }));
        return json!({ "statusCode": answer.status, "body": answer.body });
    }
    if orders["variables"] == true {
        return std::env::vars().map(|(name, value)| (name, Value::String(value))).collect();
    }
    json!({ "statusCode": 200 })
}

/// Reports an event to the test, and gives the answer that the test wants.
fn ask(event: &Value) -> Value {
    let report_to = std::env::var("REPORT_TO").expect("an address");
    let mut stream = TcpStream::connect(report_to).expect("the test");
    writeln!(stream, "{event}").expect("a connection");
    serde_json::from_reader(stream).expect("an answer")
}

async fn greet(endpoints: &Endpoints, orders: Value) -> Answer {
    let json = [("content-type", "application/json")];
    post(&format!("{}/greet", endpoints.api), &json, orders.to_string()).await
}

async fn has_item(endpoints: &Endpoints, item: &str) -> bool {
    let url = endpoints.dynamodb.clone();
    let request = json!({ "Key": { "pk": { "S": item } } });
    let answer = tokio::task::spawn_blocking(move || dynamodb(&url, "GetItem", &request));
    let answer = answer.await.expect("no panic");
    assert_eq!(answer.status, 200, "{answer:?}");
    let body: Value = serde_json::from_str(&answer.body).expect("JSON");
    body.get("Item").is_some()
}

/// The processes of the environments.
async fn pids(endpoints: &Endpoints) -> Vec<i32> {
    let answer = get(&format!("{}/_dynashard/environments", endpoints.lambda)).await;
    let listed: Vec<Value> = serde_json::from_str(&answer.body).expect("a list");
    let pids = listed.iter().filter_map(|environment| environment["pid"].as_i64());
    pids.map(|pid| i32::try_from(pid).expect("a pid")).collect()
}

#[derive(Debug)]
struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

async fn get(url: &str) -> Answer {
    let url = url.to_owned();
    let answer = tokio::task::spawn_blocking(move || exchange("GET", &url, &[], ""));
    answer.await.expect("no panic").expect("an answer")
}

async fn post(url: &str, headers: &[(&'static str, &'static str)], body: String) -> Answer {
    let (url, headers) = (url.to_owned(), headers.to_vec());
    let answer = tokio::task::spawn_blocking(move || exchange("POST", &url, &headers, &body));
    answer.await.expect("no panic").expect("an answer")
}

/// A request on the table, signed now by nobody.
#[expect(clippy::disallowed_methods, reason = "the stack checks signatures by the real time")]
fn dynamodb(url: &str, operation: &str, request: &Value) -> Answer {
    let mut request = request.clone();
    request["TableName"] = "Items".into();
    let target = format!("DynamoDB_20120810.{operation}");
    let date = httpdate::fmt_http_date(SystemTime::now());
    let headers = [
        ("x-amz-target", target.as_str()),
        ("content-type", "application/x-amz-json-1.0"),
        ("authorization", "AWS4-HMAC-SHA256 Credential=k, SignedHeaders=host, Signature=0"),
        ("date", &date),
    ];
    exchange("POST", url, &headers, &request.to_string()).expect("an answer")
}

/// One HTTP exchange, as a bootstrap without libraries makes it; nothing if the server is gone.
fn exchange(method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> Option<Answer> {
    let (authority, path) = url.strip_prefix("http://")?.split_once('/').unwrap_or((&url[7..], ""));
    let mut stream = TcpStream::connect(authority).ok()?;
    let lines: Vec<String> =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!(
        "{method} /{path} HTTP/1.1\r\nhost: {authority}\r\n{}content-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        lines.concat(),
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    Some(Answer { status, headers, body: body.to_owned() })
}
