#![allow(unreachable_pub, reason = "each test binary has it as a module of its own")]
//! A server on this machine that gives canned answers, in the protocols of DynamoDB and CloudWatch.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use aws_smithy_cbor::Encoder;
use aws_smithy_types::DateTime;
use dynashard_aws::{CloudWatchHeat, ServerClock, ThrottleAlarms, connect_local_with_cloudwatch};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Answers by operation; one that is asked again gets the same answer once more.
type Answers = HashMap<&'static str, (u16, Value)>;

/// The operations that were asked for with the bodies of the requests, in order.
type Requests = Mutex<Vec<(String, Vec<u8>)>>;

/// A service that speaks DynamoDB's JSON and CloudWatch's CBOR.
pub struct Service {
    pub heat: CloudWatchHeat,
    requests: Arc<Requests>,
}

impl Service {
    /// A service that gives these answers, each with its operation and its status.
    pub async fn answering(answers: impl IntoIterator<Item = (&'static str, u16, Value)>) -> Self {
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
    pub fn operations(&self) -> Vec<String> {
        let requests = self.requests.lock().expect("no panic");
        requests.iter().map(|(operation, _)| operation.clone()).collect()
    }

    /// Whether a request for `operation` holds all of these texts. Only reports are asked for more than once.
    pub fn asked(&self, operation: &str, texts: &[&str]) -> bool {
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
            Value::Number(number) if name.starts_with("Timestamp") => {
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
