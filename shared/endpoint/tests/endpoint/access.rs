//! Who may ask, and what the port tells.

use std::net::Ipv4Addr;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use dynashard_aws_operator::{Operator, RawClient};
use dynashard_endpoint::{Access, Server, Service, User};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;

use crate::stack::{MAIN, OTHER, Stack, text};

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
async fn with_keys_only_a_signature_by_one_of_them_counts() {
    let stack = Stack::start().await;
    let user = User {
        access_key_id: "AKIDAPP".to_owned(),
        secret_access_key: "secret".to_owned(),
        arn: "arn:aws:iam::123456789012:role/app".to_owned(),
    };
    let server = serve(Arc::clone(&stack.service), Access::Keys(vec![user])).await;
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
    let looped = Arc::new(Service::new(RawClient::new(&behind, &first.url()), Vec::new()));
    let second = serve(looped, Access::ThisMachine).await;
    let (status, body) = send(list(&second.url()), b"{}".to_vec()).await;
    assert_eq!((status.as_u16(), body.contains("--upstream")), (508, true), "{body}");
    let nobody = "http://127.0.0.1:1";
    let behind = Operator::on_this_machine(nobody).await;
    let lost = Arc::new(Service::new(RawClient::new(&behind, nobody), Vec::new()));
    let third = serve(lost, Access::ThisMachine).await;
    let (status, body) = send(list(&third.url()), b"{}".to_vec()).await;
    assert_eq!((status.as_u16(), body.contains("was not asked")), (503, true), "{body}");
    for server in [first, second, third] {
        server.stop().await;
    }
    stack.database.shutdown().await;
}
