//! `dynashard doctor`, on local stacks and on servers that stand in for AWS.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use dynashard_aws::{ServerClock, SystemClock};
use dynashard_core::ports::Clock;
use serde_json::{Value, json};
use time::UtcDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

use crate::common::cloudformation::CloudFormation;
use crate::common::{LocalStack, Ran, dynashard, on, run, without_account};

/// A DynamoDB that takes signatures of up to five minutes, with a stack whose functions reckon with
/// sixteen.
const FIVE_MINUTES: [&str; 2] = ["--signature-window-secs", "300"];

/// The checks of a report by their names.
fn checks(ran: &Ran) -> BTreeMap<String, Value> {
    let report = ran.last();
    let checks = report["checks"].as_array().unwrap_or_else(|| panic!("{ran:?}"));
    let by_name = checks
        .iter()
        .map(|check| (check["check"].as_str().expect("a name").to_owned(), check.clone()));
    let checks_by_name = by_name.collect::<BTreeMap<_, _>>();
    assert_eq!(checks_by_name.len(), checks.len(), "each has a name of its own: {report}");
    checks_by_name
}

fn status(ran: &Ran, check: &str) -> String {
    let checks = checks(ran);
    checks[check]["status"].as_str().expect("a status").to_owned()
}

fn advice(ran: &Ran, check: &str) -> String {
    checks(ran)[check]["advice"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_window_is_measured_and_the_lifetime_follows() {
    let stack = LocalStack::start(&FIVE_MINUTES);
    stack.until_swept();
    let pinned = stack.requests("MetadataTable", "UpdateItem");
    let examined = on(&stack, &["doctor", "--json", "--request-lifetime-secs", "960"]);
    assert_eq!((examined.status, examined.stderr.as_str()), (0, ""), "{examined:?}");
    let report = examined.last();
    let window = &report["signature_window"];
    assert_eq!(window["bound"], "within", "{report}");
    assert_eq!((&window["window_secs"], &window["named_secs"]), (&json!(300), &json!(300)));
    assert_eq!(window["connections_agree"], true, "{report}");
    assert_eq!((&window["connections"], &window["judged_connections"]), (&json!(8), &json!(8)));
    assert_eq!((&report["event"], &report["problems"]), (&json!("doctor"), &json!(0)));
    assert_eq!(report["request_lifetime_secs"], 960);
    assert_eq!(report["recommended_request_lifetime_secs"], 360);
    for check in [
        "clock",
        "signature_window",
        "request_lifetime",
        "main_table",
        "metadata_table",
        "keys",
        "main_get_item",
        "main_query",
        "metadata_get_item",
        "metadata_scan",
        "main_deletion_protection",
        "metadata_deletion_protection",
        "time_to_live",
        "contributor_insights",
        "room",
    ] {
        assert_eq!(status(&examined, check), "ok", "{check}: {report}");
    }
    for check in ["main_recovery", "metadata_recovery", "writes", "concurrency"] {
        assert_eq!(status(&examined, check), "unknown", "{check}: {report}");
    }
    let lowered = advice(&examined, "request_lifetime");
    assert!(
        lowered.contains("--set SignatureAgeSecs=270 --set RequestLifetimeSecs=120 --verified"),
        "{lowered}"
    );
    for table in ["MainTable", "MetadataTable"] {
        assert!(stack.requests(table, "GetItem") > 0, "{table} was read");
        assert_eq!(stack.requests(table, "DescribeTable"), 1, "{table}");
        for operation in stack.operations(table) {
            let is_read = ["GetItem", "Query", "Scan"].contains(&operation.as_str());
            // It pins the settings, and names the owner of the main table.
            let is_the_sweeps = [("MetadataTable", "UpdateItem"), ("MainTable", "PutItem")]
                .contains(&(table, operation.as_str()));
            let is_known = is_read || is_the_sweeps || operation.starts_with("Describe");
            assert!(is_known, "{operation} of {table}");
        }
    }
    assert_eq!(stack.requests("MetadataTable", "UpdateItem"), pinned, "it changes nothing");

    let too_low = on(&stack, &["doctor", "--request-lifetime-secs", "120"]);
    assert_eq!(too_low.status, 1, "{too_low:?}");
    let lines = too_low.stdout.lines().collect::<Vec<_>>();
    let line = lines.iter().position(|line| line.starts_with("problem")).expect("a problem");
    assert!(lines[line].contains("RequestLifetimeSecs is 120"), "{too_low:?}");
    assert!(lines[line + 1].contains("set RequestLifetimeSecs=300"), "{too_low:?}");
    assert_eq!(lines.last(), Some(&"1 problem, 0 warnings, 4 unknown"), "{too_low:?}");

    let unnamed = on(&stack, &["doctor", "--json"]);
    assert_eq!(unnamed.status, 0, "{unnamed:?}");
    assert_eq!(unnamed.last()["request_lifetime_secs"], Value::Null);
    assert_eq!(status(&unnamed, "request_lifetime"), "unknown");
    assert!(advice(&unnamed, "request_lifetime").contains("--request-lifetime-secs"));
}

#[test]
fn the_parameters_of_a_stack_are_held_against_what_was_seen() {
    let stack = LocalStack::start(&FIVE_MINUTES);
    let examine = |name, parameters| examine_stack(&stack, name, parameters);
    let as_deployed = examine(
        "dynashard",
        &[("ScaleReservedConcurrency", "5"), ("RebalanceReservedConcurrency", "22")],
    );
    assert_eq!(as_deployed.status, 0, "{as_deployed:?}");
    assert_eq!(status(&as_deployed, "concurrency"), "ok");
    let narrow = examine("dynashard", &[("ScaleReservedConcurrency", "1")]);
    assert_eq!(status(&narrow, "concurrency"), "warning");

    let other = examine(
        "dynashard",
        &[("RequestLifetimeSecs", "120"), ("TtlAttribute", "expires"), ("SortKeyName", "at")],
    );
    assert_eq!(other.status, 1, "{other:?}");
    assert_eq!(status(&other, "request_lifetime"), "problem");
    assert!(advice(&other, "request_lifetime").contains("RequestLifetimeSecs=960"), "{other:?}");
    assert_eq!(status(&other, "time_to_live"), "warning");
    assert_eq!(status(&other, "keys"), "problem");

    let misspelt = examine("dynashard", &[("RequestLifetimeVerified", "true")]);
    assert_eq!((misspelt.status, misspelt.stderr.lines().count()), (2, 1), "{misspelt:?}");
    assert!(misspelt.stderr.contains("RequestLifetimeVerified"), "{misspelt:?}");
    let forbidden = examine("forbidden", &[]);
    assert_eq!((forbidden.status, forbidden.stderr.lines().count()), (2, 1), "{forbidden:?}");
    for part in ["allow cloudformation:DescribeStacks", "--main-table and --metadata-table"] {
        assert!(forbidden.stderr.contains(part), "{forbidden:?}");
    }
}

/// A stack on AWS that is reached through this machine has more than one clock.
#[test]
fn regression_an_endpoint_on_this_machine_took_the_minute_from_a_stack() {
    let settings = ["--set", "RequestLifetimeSecs=330"];
    let stack = LocalStack::start(&[&FIVE_MINUTES[..], &settings].concat());
    let parameters = &[("RequestLifetimeSecs", "330"), ("RequestLifetimeVerified", "yes")];
    let examined = examine_stack(&stack, "dynashard", parameters);
    assert_eq!(status(&examined, "request_lifetime"), "problem", "{examined:?}");
}

/// CloudFormation is asked first, and its errors were printed as they came: without what to do, and
/// with the security token of a request whose signature does not match.
#[test]
fn regression_a_stack_that_could_not_be_asked_for_gave_no_advice() {
    let cloudformation = CloudFormation::start(&[]);
    for (name, url, remedy) in [
        ("late", cloudformation.url.as_str(), "the local clock is wrong: synchronise it"),
        ("mismatched", cloudformation.url.as_str(), "renew the credentials"),
        ("absent", cloudformation.url.as_str(), "check --stack-name and --region"),
        ("dynashard", &nobody(), "check the network and --region"),
    ] {
        let mut command = without_account(&["doctor", "--stack-name", name]);
        command
            .env("AWS_ENDPOINT_URL", url)
            .env("AWS_ACCESS_KEY_ID", "operator")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .env("AWS_REGION", "eu-west-1");
        let refused = run(command);
        assert_eq!((refused.status, refused.stderr.lines().count()), (2, 1), "{refused:?}");
        assert!(refused.stderr.contains(remedy), "{refused:?}");
        assert!(!refused.stderr.contains("secret-token"), "{refused:?}");
    }
}

#[test]
fn a_window_of_seconds_is_found_too_and_tables_that_are_missing_are_a_problem() {
    let stack = LocalStack::start(&["--engine-only", "--signature-window-secs", "20"]);
    let examined = on(&stack, &["doctor", "--json", "--connections", "1"]);
    assert_eq!(examined.status, 1, "{examined:?}");
    let window = &examined.last()["signature_window"];
    assert_eq!((&window["window_secs"], &window["connections"]), (&json!(20), &json!(1)));
    for check in ["main_table", "metadata_table"] {
        assert_eq!(status(&examined, check), "problem", "{examined:?}");
        assert!(advice(&examined, check).contains("check the name"), "{examined:?}");
    }
}

/// Nobody could see a table that is not warm without an account.
#[test]
fn a_main_table_that_is_not_warm_says_what_it_takes() {
    let stack = LocalStack::start(&["--warm-wcu", "4000", "--warm-rcu", "12000"]);
    let examined = on(&stack, &["doctor", "--json", "--connections", "1"]);
    let room = checks(&examined)["room"].clone();
    let seen = room["seen"].as_str().expect("what was seen");
    for part in ["4000 write and 12000 read units", "as 4 shards", "no quota"] {
        assert!(seen.contains(part), "{room}");
    }
    assert_eq!(room["status"], "ok");
}

/// The server executes nothing, since the credentials allow nothing. A signature of any age passes.
#[test]
fn without_permissions_each_is_named_and_nothing_shorter_is_recommended() {
    let server = StandIn::start(|_| (Vec::new(), refusal(DENIED.0, DENIED.1)));
    let examined = examine(&server);
    assert_eq!((examined.status, examined.stderr.as_str()), (0, ""), "{examined:?}");
    for (check, permission) in [
        ("main_table", "dynamodb:DescribeTable on the table items"),
        ("metadata_table", "dynamodb:DescribeTable on the table collections"),
        ("main_get_item", "dynamodb:GetItem on the table items"),
        ("main_query", "dynamodb:Query on the table items"),
        ("metadata_get_item", "dynamodb:GetItem on the table collections"),
        ("metadata_scan", "dynamodb:Scan on the table collections"),
        ("main_recovery", "dynamodb:DescribeContinuousBackups on the table items"),
        ("time_to_live", "dynamodb:DescribeTimeToLive on the table items"),
        ("contributor_insights", "dynamodb:DescribeContributorInsights on the table items"),
    ] {
        assert_eq!(status(&examined, check), "unknown", "{check}: {examined:?}");
        assert_eq!(advice(&examined, check), format!("allow {permission}"));
    }
    let report = examined.last();
    assert_eq!(report["signature_window"]["bound"], "none_refused", "{report}");
    assert_eq!(report["recommended_request_lifetime_secs"], Value::Null);
    assert!(advice(&examined, "signature_window").contains("at 960 or more"), "{report}");
}

#[test]
fn without_a_network_it_says_so_in_one_sentence() {
    let url = nobody();
    let tables = ["--main-table", "MainTable", "--metadata-table", "MetadataTable"];
    let examined =
        run(without_account(&[&["doctor", "--endpoint-url", &url], &tables[..]].concat()));
    assert_eq!((examined.status, examined.stderr.lines().count()), (2, 1), "{examined:?}");
    assert_eq!(examined.stdout, "");
    for part in ["DynamoDB cannot be reached", "check the network, --region and --endpoint-url"] {
        assert!(examined.stderr.contains(part), "{examined:?}");
    }
}

#[test]
fn a_stack_whose_dynamodb_would_take_older_requests_than_its_functions_reckon_with_does_not_start()
{
    let args = ["local", "--set", "RequestLifetimeSecs=20", "--signature-window-secs", "21"];
    let refused = run(dynashard(&args));
    assert_eq!((refused.status, refused.stderr.lines().count()), (1, 1), "{refused:?}");
    for part in ["--signature-window-secs 21", "RequestLifetimeSecs, which is 20", "be lost"] {
        assert!(refused.stderr.contains(part), "{refused:?}");
    }
}

/// A server whose clock is an hour ahead judges signatures by it, and says so in its answers. Its error
/// names no window.
#[test]
fn ages_go_by_the_clock_of_the_server() {
    let server = StandIn::start(|request| {
        let now = now() + ONE_HOUR;
        let is_expired = now > signed(request) + Duration::from_secs(450);
        let (code, message) =
            if is_expired { ("InvalidSignature", "Signature expired") } else { DENIED };
        let date = now.format(HTTP_DATE).expect("a date");
        (vec![("date".to_owned(), date)], refusal(code, message))
    });
    let examined = examine(&server);
    assert_eq!(examined.status, 1, "{examined:?}");
    assert_eq!(status(&examined, "clock"), "problem", "{examined:?}");
    assert!(checks(&examined)["clock"]["seen"].to_string().contains("behind"), "{examined:?}");
    let window = &examined.last()["signature_window"];
    assert_eq!((&window["bound"], &window["named_secs"]), (&json!("within"), &Value::Null));
    let (accepted, refused) = (&window["largest_accepted_secs"], &window["smallest_refused_secs"]);
    assert!(accepted.as_u64() > Some(330) && refused.as_u64() < Some(600), "{window}");
    assert_eq!(window["window_secs"], *refused, "without a name the refused age counts: {window}");
}

#[test]
fn credentials_that_nobody_knows_are_reported_in_one_sentence() {
    let server = StandIn::start(|_| {
        let message = "The security token included in the request is invalid.";
        (Vec::new(), refusal("UnrecognizedClient", message))
    });
    let examined = examine(&server);
    assert_eq!((examined.status, examined.stderr.lines().count()), (2, 1), "{examined:?}");
    for part in ["UnrecognizedClientException", "renew the credentials"] {
        assert!(examined.stderr.contains(part), "{examined:?}");
    }
    assert_eq!(examined.last()["code"], "connection_failed");
}

/// Whoever throttles has judged the signature.
#[test]
fn regression_a_throttle_was_no_answer() {
    let server = StandIn::start(|_| (Vec::new(), refusal("Throttling", "Rate exceeded")));
    let examined = examine(&server);
    assert_eq!(examined.status, 0, "{examined:?}");
    assert_eq!(examined.last()["signature_window"]["bound"], "none_refused");
    for table in ["main_table", "metadata_table"] {
        assert_eq!(status(&examined, table), "unknown", "{examined:?}");
        assert_eq!(advice(&examined, table), "run the command again");
    }
    assert_eq!(checks(&examined).get("keys"), None, "nothing is known of them: {examined:?}");
}

/// Without a window the command seemed to have found that all is well.
#[test]
fn regression_a_window_that_was_not_measured_was_a_success() {
    let server = StandIn::start(|_| (Vec::new(), refusal("InvalidSignature", "Signature expired")));
    let examined = examine(&server);
    assert_eq!(examined.status, 2, "{examined:?}");
    assert_eq!(examined.last()["signature_window"]["bound"], "none_accepted");
    assert_eq!(examined.last()["recommended_request_lifetime_secs"], Value::Null);
}

const DENIED: (&str, &str) =
    ("AccessDenied", "User: operator is not authorized to perform this action");

const ONE_HOUR: Duration = Duration::from_hours(1);

const SIGNING_TIME: StaticFormatDescription =
    format_description!("[year][month][day]T[hour][minute][second]Z");

const HTTP_DATE: StaticFormatDescription = format_description!(
    "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
);

/// Examines a stack with these parameters, whose DynamoDB is that of the local stack.
fn examine_stack(
    stack: &LocalStack,
    name: &str,
    parameters: &'static [(&'static str, &'static str)],
) -> Ran {
    let cloudformation = CloudFormation::start(parameters);
    cloudformation.run(stack, &["doctor", "--json", "--stack-name", name])
}

fn examine(server: &StandIn) -> Ran {
    let tables = ["--main-table", "items", "--metadata-table", "collections"];
    let endpoint = ["--endpoint-url", &server.url, "--connections", "2", "--json"];
    run(without_account(&[&["doctor"], &tables[..], &endpoint].concat()))
}

/// The address of a server that is not there.
fn nobody() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    format!("http://{}", listener.local_addr().expect("the port that was bound"))
}

fn now() -> UtcDateTime {
    let wall = SystemClock::new(ServerClock::default()).now().wall;
    UtcDateTime::UNIX_EPOCH + wall
}

/// When a request was signed, by its header.
fn signed(request: &[String]) -> UtcDateTime {
    let date = request.iter().find_map(|line| line.strip_prefix("x-amz-date: "));
    UtcDateTime::parse(date.expect("a signed request"), SIGNING_TIME).expect("a signing time")
}

/// The body of a refusal with this code.
fn refusal(code: &str, message: &str) -> Value {
    json!({ "__type": format!("com.amazon.coral.service#{code}Exception"), "Message": message })
}

/// More headers of an answer, and its body.
type Refusal = (Vec<(String, String)>, Value);

/// A DynamoDB that refuses every request. It ends with the test's process.
struct StandIn {
    url: String,
}

impl StandIn {
    /// The server answers the lines of a request's head.
    fn start(answer: fn(&[String]) -> Refusal) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("the port that was bound"));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                converse(stream, answer).expect("a conversation");
            }
        });
        Self { url }
    }
}

fn converse(stream: TcpStream, answer: fn(&[String]) -> Refusal) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_owned());
    }
    let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.parse().expect("a length"));
    reader.read_exact(&mut vec![0; length])?;
    let (headers, body) = answer(&head);
    let headers = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    let (headers, body) = (headers.collect::<String>(), body.to_string());
    let mut stream = reader.into_inner();
    write!(
        stream,
        "HTTP/1.1 400 .\r\ncontent-type: application/x-amz-json-1.0\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}
