//! Who may ask, and what the port tells.

use std::net::Ipv4Addr;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use dynashard_aws_operator::{Operator, RawClient};
use dynashard_core::Settings;
use dynashard_endpoint::{Access, ManagedTable, Server, Service, ServiceOptions, TableNames, User};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::TokioExecutor;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::canned::{Canned, Reply};
use crate::stack::{MAIN, OTHER, Stack, item, text};

async fn serve(service: Arc<Service>, access: Access) -> Server {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    Server::start(service, listener, access).expect("an address")
}

async fn send(request: http::request::Builder, body: Vec<u8>) -> (StatusCode, String) {
    let client = HttpClient::builder(TokioExecutor::new()).build_http::<Full<bytes::Bytes>>();
    let request = request.body(Full::new(body.into())).expect("a request");
    let (parts, body) = client.request(request).await.expect("an answer").into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    (parts.status, String::from_utf8_lossy(&body).into_owned())
}

fn list(url: &str) -> http::request::Builder {
    Request::post(url).header("x-amz-target", "DynamoDB_20120810.ListTables")
}

fn of_no_table(operator: &Operator, url: &str) -> Service {
    Service::new(RawClient::new(operator, url), Vec::new(), ServiceOptions::default())
}

fn user() -> User {
    User {
        access_key_id: "AKIDAPP".to_owned(),
        secret_access_key: "secret".to_owned(),
        arn: "arn:aws:iam::123456789012:role/app".to_owned(),
    }
}

#[tokio::test]
async fn a_program_of_this_machine_asks_and_a_page_of_a_browser_does_not() {
    let stack = Stack::start().await;
    let server = serve(Arc::clone(&stack.service), Access::ThisMachine).await;
    let url = server.url();
    let (status, body) = send(list(&url), b"{}".to_vec()).await;
    assert_eq!((status, body.contains("other")), (StatusCode::OK, true), "{body}");
    for (request, status) in [
        (list(&url).header("host", "evil.example"), StatusCode::BAD_REQUEST),
        (Request::post(&url), StatusCode::BAD_REQUEST),
        (Request::post(format!("{url}/x")), StatusCode::BAD_REQUEST),
        (
            list(&url).header("x-dynashard-endpoint", "1"),
            StatusCode::from_u16(508).expect("a status"),
        ),
    ] {
        assert_eq!(send(request, b"{}".to_vec()).await.0, status);
    }
    let (status, _) = send(list(&url), vec![b' '; (16 << 20) + 1]).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    for (path, text) in
        [("", "healthy"), ("_dynashard/live", "live"), ("_dynashard/ready", "ready")]
    {
        let (status, body) = send(Request::get(format!("{url}/{path}")), Vec::new()).await;
        assert_eq!((status, body.contains(text)), (StatusCode::OK, true), "{body}");
    }
    let (_, body) = send(Request::get(format!("{url}/_dynashard/metrics")), Vec::new()).await;
    let line = "dynashard_endpoint_requests_total{operation=\"ListTables\",status=\"200\"} 1";
    assert!(body.lines().any(|it| it == line), "{body}");
    server.stop().await;
    stack.database.shutdown().await;
}

#[tokio::test]
async fn a_throttled_write_is_held_and_counted_by_its_table() {
    let stack = Stack::start().await;
    let throttled = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException",
        "throttlingReasons": [{ "reason": "TableWriteKeyRangeThroughputExceeded" }],
    });
    let upstream = Canned::start([Reply::new(400, throttled), Reply::new(200, json!({}))]).await;
    let server = serve(Arc::new(stack.in_front_of(&upstream.url)), Access::ThisMachine).await;
    let url = server.url();
    let put = Request::post(&url).header("x-amz-target", "DynamoDB_20120810.PutItem");
    let body = json!({ "TableName": MAIN, "Item": item("a", "1") }).to_string();
    let (status, body) = send(put, body.into_bytes()).await;
    assert_eq!((status, upstream.asked().len()), (StatusCode::OK, 2), "{body}");
    let (_, body) = send(Request::get(format!("{url}/_dynashard/metrics")), Vec::new()).await;
    for line in [
        "dynashard_endpoint_writes_held{table=\"main\"} 0",
        "dynashard_endpoint_writes_held_total{table=\"main\"} 1",
    ] {
        assert!(body.lines().any(|it| it == line), "{line} in {body}");
    }
    server.stop().await;
    stack.database.shutdown().await;
}

/// What transactions met led to nothing: no ledger was told, and nobody decided.
#[tokio::test]
async fn regression_a_throttled_transaction_was_not_decided_on() {
    let stack = Stack::start().await;
    let throttled = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException",
        "throttlingReasons": [{ "reason": "TableWriteMaxOnDemandThroughputExceeded" }],
    });
    let upstream = Canned::start([Reply::new(400, throttled)]).await;
    let server = serve(Arc::new(stack.in_front_of(&upstream.url)), Access::ThisMachine).await;
    let url = server.url();
    let write = Request::post(&url).header("x-amz-target", "DynamoDB_20120810.TransactWriteItems");
    let put = json!({ "Put": { "TableName": MAIN, "Item": item("a", "1") } });
    let body = json!({ "TransactItems": [put] }).to_string();
    let (status, body) = send(write, body.into_bytes()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
    let (_, body) = send(Request::get(format!("{url}/_dynashard/metrics")), Vec::new()).await;
    let decided = "dynashard_endpoint_decisions_total{table=\"main\",diagnosis=\"max_on_demand\"";
    assert!(body.contains(decided), "{body}");
    server.stop().await;
    stack.database.shutdown().await;
}

#[tokio::test]
async fn with_keys_only_a_signature_by_one_of_them_counts() {
    let stack = Stack::start().await;
    let server = serve(Arc::clone(&stack.service), Access::Keys(vec![user()])).await;
    let sdk = |secret: &str| {
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("eu-west-1"))
            .credentials_provider(Credentials::new("AKIDAPP", secret, None, None, "test"))
            .endpoint_url(server.url())
            .http_client(dynashard_aws::pool::http_client())
            .build();
        Client::from_conf(config)
    };
    let put = |sdk: &Client, table: &str| {
        sdk.put_item().table_name(table).item("pk", text("a")).item("sk", text("1")).send()
    };
    for table in [MAIN, OTHER] {
        put(&sdk("secret"), table).await.expect("it is put");
        put(&sdk("another"), table).await.expect_err("by nobody");
    }
    let (status, body) = send(list(&server.url()), b"{}".to_vec()).await;
    assert_eq!((status, body.contains("Authorization")), (StatusCode::BAD_REQUEST, true), "{body}");
    server.stop().await;
    stack.database.shutdown().await;
}

#[tokio::test]
async fn an_upstream_that_is_not_there_or_is_an_endpoint_is_told_of() {
    let stack = Stack::start().await;
    let first = serve(Arc::clone(&stack.service), Access::ThisMachine).await;
    let behind = Operator::on_this_machine(&first.url()).await;
    let looped = Arc::new(of_no_table(&behind, &first.url()));
    let second = serve(looped, Access::ThisMachine).await;
    let (status, body) = send(list(&second.url()), b"{}".to_vec()).await;
    assert_eq!((status.as_u16(), body.contains("--upstream")), (508, true), "{body}");
    let nobody = "http://127.0.0.1:1";
    let behind = Operator::on_this_machine(nobody).await;
    let lost = Arc::new(of_no_table(&behind, nobody));
    let third = serve(lost, Access::ThisMachine).await;
    let (status, body) = send(list(&third.url()), b"{}".to_vec()).await;
    assert_eq!((status.as_u16(), body.contains("was not asked")), (503, true), "{body}");
    for server in [first, second, third] {
        server.stop().await;
    }
    stack.database.shutdown().await;
}

/// Whoever reached the port could have it hold 16 MB for each connection.
#[tokio::test]
async fn regression_a_body_was_read_before_it_was_looked_who_sends_it() {
    let stack = Stack::start().await;
    let server = serve(Arc::clone(&stack.service), Access::Keys(vec![user()])).await;
    let signed = |key: &str, date: &str| {
        let day = &date[..8];
        format!(
            "authorization: AWS4-HMAC-SHA256 Credential={key}/{day}/r/dynamodb/aws4_request, \
             SignedHeaders=host;x-amz-date, Signature=0\r\nx-amz-date: {date}\r\n"
        )
    };
    for authorization in
        [String::new(), signed("AKIDX", "20261125T074414Z"), signed("AKIDAPP", "20201125T074414Z")]
    {
        let address = server.url().replacen("http://", "", 1);
        let mut stream = TcpStream::connect(&address).await.expect("a connection");
        let head = format!(
            "POST / HTTP/1.1\r\nhost: {address}\r\nx-amz-target: DynamoDB_20120810.ListTables\r\n\
             content-length: 2\r\n{authorization}\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("it is sent");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.expect("an answer before the body");
        assert_eq!(&answer, b"HTTP/1.1 400", "{authorization}");
    }
    server.stop().await;
    stack.database.shutdown().await;
}

/// A page of a browser whose host has the name of this machine's address could read the metrics.
#[tokio::test]
async fn regression_pages_of_browsers_were_told_of_health_and_metrics() {
    let stack = Stack::start().await;
    let server = serve(Arc::clone(&stack.service), Access::ThisMachine).await;
    for path in ["", "_dynashard/live", "_dynashard/ready", "_dynashard/metrics"] {
        let request = Request::get(format!("{}/{path}", server.url()));
        let (status, _) = send(request.header("host", "evil.example"), Vec::new()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}");
    }
    server.stop().await;
    stack.database.shutdown().await;
}

#[tokio::test]
async fn regression_programs_of_other_machines_were_told_why_a_table_cannot_be_written_to() {
    let stack = Stack::start().await;
    let url = stack.database.url();
    let unready = || {
        let directory = stack.operator.directory(MAIN, "nowhere", Settings::default());
        let table = ManagedTable::new(
            &stack.operator,
            TableNames { main: MAIN, metadata: "nowhere", place: None },
            directory,
        );
        let client = RawClient::new(&stack.operator, url);
        Arc::new(Service::new(client, vec![table], ServiceOptions::default()))
    };
    for (access, is_named) in [(Access::ThisMachine, true), (Access::Keys(vec![user()]), false)] {
        let server = serve(unready(), access).await;
        let request = Request::get(format!("{}/_dynashard/ready", server.url()));
        let (status, body) = send(request, Vec::new()).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(body.contains(MAIN), is_named, "{body}");
        server.stop().await;
    }
    stack.database.shutdown().await;
}

/// Connections of a hot key, each of which is held for seconds, kept all others out, and the probes with them.
#[tokio::test]
async fn regression_five_hundred_connections_failed_the_probes() {
    let stack = Stack::start().await;
    let server = serve(Arc::clone(&stack.service), Access::ThisMachine).await;
    let at = server.url().replace("http://", "");
    let mut connections = Vec::new();
    for _ in 0..520 {
        connections.push(TcpStream::connect(&at).await.expect("a connection"));
    }
    let (status, _) =
        send(Request::get(format!("{}/_dynashard/live", server.url())), Vec::new()).await;
    assert_eq!(status, StatusCode::OK);
    drop(connections);
    server.stop().await;
    stack.database.shutdown().await;
}

/// They were in no counter, and the page says that they are.
#[tokio::test]
async fn regression_requests_that_were_refused_at_the_port_were_not_counted() {
    let stack = Stack::start().await;
    let server = serve(Arc::clone(&stack.service), Access::ThisMachine).await;
    let url = server.url();
    for request in
        [list(&url).header("host", "evil.example"), list(&url).header("x-dynashard-endpoint", "1")]
    {
        send(request, b"{}".to_vec()).await;
    }
    let (_, body) = send(Request::get(format!("{url}/_dynashard/metrics")), Vec::new()).await;
    for line in [
        "dynashard_endpoint_refused_total{operation=\"unknown\",error=\"UnrecognizedClientException\"} 1",
        "dynashard_endpoint_refused_total{operation=\"unknown\",error=\"InternalServerError\"} 1",
        "dynashard_endpoint_requests_total{operation=\"unknown\",status=\"508\"} 1",
    ] {
        assert!(body.lines().any(|it| it == line), "{line} in {body}");
    }
    server.stop().await;
    stack.database.shutdown().await;
}
