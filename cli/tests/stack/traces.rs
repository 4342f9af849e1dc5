//! Traces, as an X-Ray daemon beside the functions receives them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{LocalStack, checkout};

const ROOT: &str = "1-5759e988-bd862e3fe1be46a994272793";
const PARENT: &str = "53995c3f42cd8ad8";

/// The last datagram that the daemon gets: whatever was sent before it has arrived.
const END: &[u8] = b"end";

/// How long the daemon waits for a datagram on the same machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A daemon, and a stack whose functions know of it.
struct Traced {
    daemon: UdpSocket,
    stack: LocalStack,
    /// The requests of the first sweep.
    swept: Requests,
}

/// How often each operation was asked of each table.
type Requests = BTreeMap<(String, String), u64>;

impl Traced {
    fn start(set: &[&str]) -> Self {
        let daemon = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        daemon.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let address = daemon.local_addr().expect("an address").to_string();
        let set = set.iter().flat_map(|setting| ["--set", setting]).collect::<Vec<_>>();
        let stack = LocalStack::start_with(&set, &[("AWS_XRAY_DAEMON_ADDRESS", &address)]);
        stack.until_swept();
        let swept = requests(&stack);
        Self { daemon, stack, swept }
    }

    /// Invokes a function with an event, in a trace, and returns the subsegments of that.
    fn invoke(&self, function: &str, event: &str, sampled: u8) -> Vec<Value> {
        let event = std::fs::read_to_string(checkout().join("events").join(event));
        let header = format!("Root={ROOT};Parent={PARENT};Sampled={sampled}");
        let headers = [("x-amzn-trace-id", header.as_str())];
        let answer = self.stack.invoke_with(function, &headers, &event.expect("an event"));
        assert_eq!(answer.status, 200, "{answer:?}");
        let end = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        end.send_to(END, self.daemon.local_addr().expect("an address")).expect("it is sent");
        let mut subsegments = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = self.daemon.recv(&mut buffer).expect("a datagram");
            let datagram = &buffer[..length];
            if datagram == END {
                return subsegments;
            }
            let text = std::str::from_utf8(datagram).expect("UTF-8");
            let (head, document) = text.split_once('\n').expect("two lines");
            assert_eq!(head, r#"{"format":"json","version":1}"#);
            let document = serde_json::from_str::<Value>(document).expect("JSON");
            if document["trace_id"] == ROOT {
                subsegments.push(document);
            }
        }
    }

    /// The requests since the first sweep.
    fn requests(&self) -> Requests {
        let mut requests = requests(&self.stack);
        for (asked, times) in &self.swept {
            *requests.entry(asked.clone()).or_default() -= times;
        }
        requests.retain(|_, times| *times > 0);
        requests
    }
}

/// The requests that the endpoint has counted.
fn requests(stack: &LocalStack) -> Requests {
    let mut requests = Requests::new();
    for table in ["MainTable", "MetadataTable"] {
        for operation in stack.operations(table) {
            let times = stack.requests(table, &operation);
            requests.insert((operation, table.to_owned()), times);
        }
    }
    requests
}

#[test]
fn one_trace_goes_from_the_request_through_each_call_to_dynamodb() {
    let traced = Traced::start(&["Tracing=xray"]);
    let mut seen = Requests::new();
    let mut ids = BTreeSet::new();
    for event in ["write-put.json", "write-patch-absent.json", "write-batch.json"] {
        let subsegments = traced.invoke("WriteFunction", event, 1);
        assert!(!subsegments.is_empty(), "{event}");
        for subsegment in subsegments {
            let is = |pointer: &str, expected: Value| {
                assert_eq!(subsegment.pointer(pointer), Some(&expected), "{subsegment}");
            };
            is("/type", json!("subsegment"));
            is("/parent_id", json!(PARENT));
            is("/name", json!("DynamoDB"));
            is("/namespace", json!("aws"));
            is("/annotations/attempt", json!(1));
            is("/http/response/status", json!(200));
            for flag in ["error", "throttle", "fault"] {
                is(&format!("/{flag}"), json!(false));
            }
            let secs = |name: &str| subsegment[name].as_f64().expect("seconds");
            assert!(secs("start_time") > 1.7e9 && secs("start_time") <= secs("end_time"));
            assert!(ids.insert(subsegment["id"].as_str().expect("an id").to_owned()));
            let operation = subsegment["aws"]["operation"].as_str().expect("an operation");
            let tables = subsegment["aws"]["table_names"].as_array();
            for table in tables.unwrap_or_else(|| panic!("it names its tables: {subsegment}")) {
                let table = table.as_str().expect("a name").to_owned();
                *seen.entry((operation.to_owned(), table)).or_default() += 1;
            }
            if operation == "PutItem" {
                assert!(
                    subsegment["aws"]["consumed_capacity"].as_f64() >= Some(1.0),
                    "{subsegment}"
                );
            }
            assert!(!subsegment.to_string().contains("EWR"), "it has no keys: {subsegment}");
        }
    }
    assert_eq!(seen, traced.requests(), "each request has a subsegment");
}

#[test]
fn a_failed_condition_is_an_error_of_the_client_with_its_code() {
    let traced = Traced::start(&["Tracing=xray"]);
    traced.invoke("WriteFunction", "write-put-create-only.json", 1);
    let again = traced.invoke("WriteFunction", "write-put-create-only.json", 1);
    let refused = again.iter().find(|subsegment| subsegment["error"] == true);
    let refused = refused.expect("the item was there");
    assert_eq!(refused["annotations"]["error_code"], "ConditionalCheckFailedException");
    assert_eq!((&refused["fault"], &refused["throttle"]), (&json!(false), &json!(false)));
}

#[test]
fn what_is_not_sampled_leaves_no_trace() {
    let traced = Traced::start(&["Tracing=xray"]);
    assert_eq!(traced.invoke("WriteFunction", "write-put.json", 0), Vec::<Value>::new());
}

#[test]
fn without_the_parameter_there_are_no_traces() {
    let traced = Traced::start(&[]);
    assert_eq!(traced.invoke("WriteFunction", "write-put.json", 1), Vec::<Value>::new());
}
