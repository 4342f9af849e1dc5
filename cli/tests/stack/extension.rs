//! The endpoint as a Lambda extension, with a server that stands in for Lambda's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::common::{LocalStack, checkout, run, send_to, without_account};

/// What Lambda is asked, in order, and what it says next when it is asked for an event.
struct Lambda {
    address: String,
    asked: Receiver<String>,
    events: Sender<String>,
}

impl Lambda {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let ((tell, asked), (events, next)) = (channel(), channel::<String>());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                while let Some(path) = request(&mut stream) {
                    let is_next = path.ends_with("/event/next");
                    if tell.send(path).is_err() {
                        return;
                    }
                    let body =
                        if is_next { next.recv().unwrap_or_default() } else { "{}".to_owned() };
                    let length = body.len();
                    let head =
                        "HTTP/1.1 200 OK\r\nlambda-extension-identifier: an-id\r\ncontent-length";
                    let _ = write!(stream, "{head}: {length}\r\n\r\n{body}");
                }
            }
        });
        Self { address, asked, events }
    }
}

/// Reads a request, and returns its path; `None` where the connection has ended.
fn request(stream: &mut TcpStream) -> Option<String> {
    let mut reader = BufReader::new(&*stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        match header.trim().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok()?;
            }
            Some(_) => {}
            None => break,
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    Some(path)
}

#[test]
fn a_function_finds_its_tables_beside_it_and_the_environment_ends_in_order() {
    let stack = LocalStack::start(&[]);
    // The first request pins the settings.
    stack.send("PUT", "/item?pk=EWR&sk=1", &[], Some("{\"n\":1}"));
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--bin", "dynashard-extension"]).current_dir(checkout());
    // What describes this package would have the build scripts of others run again.
    let described = std::env::vars().filter(|(name, _)| {
        ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"]
            .iter()
            .any(|of| name.starts_with(of))
    });
    for (name, _) in described {
        cargo.env_remove(name);
    }
    assert!(cargo.status().expect("cargo runs").success());
    let lambda = Lambda::start();
    // A free one: whoever takes it in between fails the test, and nothing else.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let command = without_account(&[]);
    let program = std::path::Path::new(command.get_program()).with_file_name("dynashard-extension");
    let mut extension = Command::new(program);
    extension
        .env_clear()
        .env("AWS_LAMBDA_RUNTIME_API", &lambda.address)
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "local")
        .env("AWS_SECRET_ACCESS_KEY", "local")
        .env("AWS_ENDPOINT_URL_DYNAMODB", format!("http://127.0.0.1:{port}"))
        .env("DYNASHARD_LISTEN_PORT", port.to_string())
        .env("DYNASHARD_TABLES", "MainTable")
        .env("DYNASHARD_UPSTREAM", &stack.dynamodb)
        .stdout(Stdio::inherit());
    let mut running = extension.spawn().expect("the extension starts");
    for path in ["/2020-01-01/extension/register", "/2020-01-01/extension/event/next"] {
        assert_eq!(lambda.asked.recv().expect("Lambda is asked"), path);
    }
    // It has said that the start is over, so it is ready.
    let url = format!("http://127.0.0.1:{port}");
    assert_eq!(send_to(&url, "GET", "/_dynashard/ready", &[], None).status, 200);
    let target = [
        ("x-amz-target", "DynamoDB_20120810.GetItem"),
        ("content-type", "application/x-amz-json-1.0"),
    ];
    let get = r#"{"TableName":"MainTable","Key":{"pk":{"S":"EWR"},"sk":{"S":"1"}}}"#;
    let got = send_to(&url, "POST", "/", &target, Some(get));
    assert_eq!(got.json()["Item"]["n"]["N"], "1", "{got:?}");
    let probe = ["serve", "--port", &port.to_string(), "--probe", "ready"];
    assert_eq!(run(without_account(&probe)).status, 0);

    lambda.events.send(r#"{"eventType":"INVOKE","deadlineMs":1}"#.to_owned()).expect("it waits");
    assert_eq!(lambda.asked.recv().expect("the next"), "/2020-01-01/extension/event/next");
    let far = "{\"eventType\":\"SHUTDOWN\",\"deadlineMs\":99999999999999}";
    lambda.events.send(far.to_owned()).expect("it waits");
    assert!(running.wait().expect("it ends").success());
    assert_eq!(run(without_account(&probe)).status, 1, "nobody listens any more");
}
