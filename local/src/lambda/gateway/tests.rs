use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::*;
use crate::lambda::runtime::fake::{Event, Fake, Polling, Rig};
use crate::plan::{Authorization, testing::function};
use crate::server::{self, testing::send};

/// The event of a request that came from port 9 of this machine at 10:10:10 on 20 November 2026.
fn event(request: http::request::Builder, body: &[u8]) -> Value {
    let (parts, ()) = request.body(()).expect("a request").into_parts();
    let encoded = event::encode(&Received {
        route_key: "PUT /item",
        parts: &parts,
        body: &Bytes::copy_from_slice(body),
        peer: ([127, 0, 0, 1], 9).into(),
        request_id: "request-id",
        trace_header: "Root=1",
        authorizer: None,
        now: SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_169_410_123),
    });
    serde_json::from_slice(&encoded).expect("JSON")
}

fn put(target: &str) -> http::request::Builder {
    Request::put(target).header("host", "api.example.com:3000")
}

#[test]
fn a_request_becomes_the_event_that_api_gateway_would_make() {
    let request = put("/item?pk=a%2Fb&sk=1&sk=2&note=x+y&empty")
        .header("User-Agent", "curl/8")
        .header("Content-Type", "application/json; charset=utf-8")
        .header("X-Many", "one")
        .header("X-Many", "two")
        .header("Cookie", "a=1; b=2")
        .header("Connection", "keep-alive")
        .header("X-Forwarded-For", "10.0.0.1");
    assert_eq!(
        event(request, r#"{"name":"Zoë"}"#.as_bytes()),
        json!({
            "version": "2.0",
            "routeKey": "PUT /item",
            "rawPath": "/item",
            "rawQueryString": "pk=a%2Fb&sk=1&sk=2&note=x+y&empty",
            "cookies": ["a=1", "b=2"],
            "headers": {
                "content-type": "application/json; charset=utf-8",
                "host": "api.example.com:3000",
                "user-agent": "curl/8",
                "x-amzn-trace-id": "Root=1",
                "x-forwarded-for": "10.0.0.1,127.0.0.1",
                "x-forwarded-port": "3000",
                "x-forwarded-proto": "http",
                "x-many": "one,two",
            },
            "queryStringParameters": { "pk": "a/b", "sk": "1,2", "note": "x y", "empty": "" },
            "requestContext": {
                "accountId": "123456789012",
                "apiId": "local",
                "domainName": "api.example.com",
                "domainPrefix": "api",
                "http": {
                    "method": "PUT",
                    "path": "/item",
                    "protocol": "HTTP/1.1",
                    "sourceIp": "127.0.0.1",
                    "userAgent": "curl/8",
                },
                "requestId": "request-id",
                "routeKey": "PUT /item",
                "stage": "$default",
                "time": "20/Nov/2026:10:10:10 +0000",
                "timeEpoch": 1_795_169_410_123_u64,
            },
            "body": r#"{"name":"Zoë"}"#,
            "isBase64Encoded": false,
        })
    );
}

#[test]
fn members_of_an_event_are_absent_where_a_request_has_nothing_for_them() {
    let event = event(put("/item"), b"");
    assert_eq!(event["rawQueryString"], "");
    for absent in ["body", "cookies", "queryStringParameters"] {
        assert_eq!(event.get(absent), None, "{absent}");
    }
    assert_eq!(event["isBase64Encoded"], false);
    assert_eq!(event["requestContext"]["http"]["userAgent"], "");
}

#[test]
fn a_body_is_text_only_where_its_media_type_says_so_and_it_is_valid() {
    for (media_type, body, expected) in [
        ("text/plain", &b"hi"[..], Some("hi")),
        ("TEXT/Html", b"hi", Some("hi")),
        ("application/merge-patch+json", b"{}", Some("{}")),
        ("image/svg+xml", b"<a/>", None),
        ("application/atom+xml", b"<a/>", Some("<a/>")),
        ("application/x-amz-json-1.0", b"{}", None),
        ("application/x-www-form-urlencoded", b"a=1", None),
        ("application/octet-stream", b"\0", None),
        ("application/json", b"\xff", None),
        ("", b"{}", None),
        ("nonsense", b"{}", None),
    ] {
        let event = event(put("/item").header("content-type", media_type), body);
        assert_eq!(event["isBase64Encoded"], expected.is_none(), "{media_type}");
        let encoded = STANDARD.encode(body);
        assert_eq!(event["body"], expected.unwrap_or(&encoded), "{media_type}");
    }
}

/// A decoded reply: status, headers that the function set, body.
async fn reply(answer: &str) -> Option<(u16, Vec<(String, String)>, Bytes)> {
    let response = reply::decode(Bytes::copy_from_slice(answer.as_bytes()))?;
    let (parts, body) = response.into_parts();
    let headers = parts
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned()));
    let body = body.collect().await.expect("a body").to_bytes();
    Some((parts.status.as_u16(), headers.collect(), body))
}

fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[tokio::test]
async fn an_answer_with_a_status_describes_the_whole_response() {
    let answer = r#"{"statusCode":201,"headers":{"ETag":"\"1\"","X-Count":3,"Content-Length":"99"},
        "cookies":["a=1","b=2"],"body":"{\"a\":1}","isBase64Encoded":false}"#;
    let (status, headers, body) = reply(answer).await.expect("a response");
    assert_eq!(status, 201);
    assert_eq!(body, r#"{"a":1}"#);
    for expected in [
        header("etag", "\"1\""),
        header("x-count", "3"),
        header("set-cookie", "a=1"),
        header("set-cookie", "b=2"),
        header("content-type", "text/plain;charset=UTF-8"),
    ] {
        assert!(headers.contains(&expected), "{expected:?} in {headers:?}");
    }
    assert_eq!(headers.len(), 5);

    let (status, headers, body) = reply(
        r#"{"statusCode":"200","body":"AAE=","isBase64Encoded":true,
        "headers":{"content-type":"application/octet-stream"}}"#,
    )
    .await
    .expect("a response");
    assert_eq!((status, &body[..]), (200, &[0, 1][..]));
    assert_eq!(headers, [header("content-type", "application/octet-stream")]);

    let (status, headers, body) =
        reply(r#"{"statusCode":204,"headers":null,"body":null}"#).await.expect("a response");
    assert_eq!((status, headers.len(), body.len()), (204, 0, 0));
}

#[tokio::test]
async fn an_answer_without_a_status_is_itself_the_body() {
    for (answer, expected) in [
        (r#"{"a":1}"#, r#"{"a":1}"#),
        ("[1,2]", "[1,2]"),
        (r#""Hello""#, "Hello"),
        ("null", "null"),
    ] {
        let (status, headers, body) = reply(answer).await.expect("a response");
        assert_eq!((status, &body[..]), (200, expected.as_bytes()));
        assert_eq!(headers, [header("content-type", "application/json")]);
    }
}

#[tokio::test]
async fn a_malformed_answer_is_not_a_response() {
    for answer in [
        "",
        "no JSON",
        r#"{"statusCode":"many"}"#,
        r#"{"statusCode":99}"#,
        r#"{"statusCode":600}"#,
        r#"{"statusCode":200.5}"#,
        r#"{"statusCode":200,"headers":[1]}"#,
        r#"{"statusCode":200,"headers":{"a":{}}}"#,
        r#"{"statusCode":200,"headers":{"not a name":"1"}}"#,
        r#"{"statusCode":200,"headers":{"a":"line\nbreak"}}"#,
        r#"{"statusCode":200,"cookies":"a=1"}"#,
        r#"{"statusCode":200,"body":"%","isBase64Encoded":true}"#,
    ] {
        assert!(reply(answer).await.is_none(), "{answer}");
    }
}

/// A gateway on a socket, in front of a function that the test plays.
struct Served {
    rig: Rig,
    url: String,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
}

impl Served {
    /// Lets everybody in.
    async fn start() -> (Self, Fake, Polling) {
        Self::start_with(None).await
    }

    async fn start_with(principals: Option<Principals>) -> (Self, Fake, Polling) {
        let (rig, fake, polling) = Rig::start(1).await;
        let mut function = function();
        function.routes.push(Route {
            method: "PUT".to_owned(),
            path: "/item".to_owned(),
            timeout: Duration::from_secs(2),
            authorization: Authorization::Iam,
        });
        let gateway = Gateway::new(&[function], &rig.runtime, principals, rig.clock.clone());
        let listener = server::bind_free().await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (stop, stopped) = watch::channel(false);
        let server = tokio::spawn(server::serve(listener, Arc::new(gateway), stopped));
        (Self { rig, url, stop, server }, fake, polling)
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        self.server.await.expect("the server ends");
        self.rig.runtime.shutdown().await;
    }
}

/// Sends a request that the gateway answers by itself.
async fn refused(request: http::request::Builder, body: impl Into<Bytes>) -> (u16, Value) {
    let (parts, body) = send(request, body).await.expect("no panic");
    assert_eq!(parts.headers["apigw-requestid"].len(), 16);
    (parts.status.as_u16(), serde_json::from_slice(&body).unwrap_or_default())
}

fn message(text: &str) -> Value {
    json!({ "message": text })
}

fn body_of(event: &Event) -> Value {
    serde_json::from_slice(&event.payload).expect("JSON")
}

#[tokio::test]
async fn a_request_reaches_its_function_and_the_answer_the_client() {
    let (served, fake, polling) = Served::start().await;
    let function = fake.serve(polling, |event| {
        let event = body_of(event);
        let body = json!({ "raw": event["rawQueryString"], "body": event["body"] }).to_string();
        json!({ "statusCode": 201, "body": body }).to_string().into()
    });
    for _ in 0..3 {
        let request = Request::put(format!("{}/item?pk=a%2Bb+c", served.url))
            .header("content-type", "application/json");
        let (parts, body) = send(request, "{}").await.expect("no panic");
        assert_eq!(parts.status, StatusCode::CREATED);
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body, json!({ "raw": "pk=a%2Bb+c", "body": "{}" }));
    }
    served.stop().await;
    function.await.expect("no panic");
}

#[tokio::test]
async fn a_path_or_method_without_a_route_is_not_found() {
    let (served, _fake, polling) = Served::start().await;
    for (method, path) in
        [("GET", "/item"), ("PUT", "/item/"), ("PUT", "/"), ("OPTIONS", "/item"), ("HEAD", "/item")]
    {
        let request = Request::builder().method(method).uri(format!("{}{path}", served.url));
        let (status, body) = refused(request, "").await;
        assert_eq!(status, 404, "{method} {path}");
        if method != "HEAD" {
            assert_eq!(body, message("Not Found"));
        }
    }
    assert!(!polling.is_finished());
    served.stop().await;
}

#[tokio::test]
async fn requests_beyond_the_limits_of_api_gateway_are_refused() {
    let (served, _fake, polling) = Served::start().await;
    let url = |query: &str| format!("{}/item?pk={query}", served.url);
    let (status, body) = refused(Request::put(url(&"x".repeat(10_240))), "").await;
    assert_eq!((status, body), (431, message("Request Header Fields Too Large")));
    let request = Request::put(url("x")).header("x-large", "x".repeat(10_240));
    let (status, body) = refused(request, "").await;
    assert_eq!((status, body), (431, message("Request Header Fields Too Large")));

    let (status, body) = refused(Request::put(url("x")), vec![b' '; MAX_BODY + 1]).await;
    assert_eq!((status, body), (413, message("Request Entity Too Large")));
    // Less than 10 MB, but in base64 more than Lambda takes.
    let (status, body) = refused(Request::put(url("x")), vec![b' '; 5 << 20]).await;
    assert_eq!((status, body), (413, message("Request Entity Too Large")));
    assert!(!polling.is_finished());
    served.stop().await;
}

#[tokio::test]
async fn a_head_of_exactly_the_limit_passes() {
    let head = |size| {
        let fixed = "PUT /item?pk= HTTP/1.1\r\n".len();
        let target = format!("/item?pk={}", "x".repeat(size - fixed));
        let (parts, ()) = Request::put(target).body(()).expect("a request").into_parts();
        head_size(&parts)
    };
    assert_eq!(head(MAX_HEAD), MAX_HEAD);
    assert_eq!(head(MAX_HEAD + 1), MAX_HEAD + 1);
}

#[tokio::test]
async fn a_failed_a_senseless_and_a_late_function_are_500_500_and_503() {
    let (served, fake, polling) = Served::start().await;
    let item = || Request::put(format!("{}/item", served.url));
    let answer = send(item(), "");
    let event = polling.await.expect("an event");
    fake.fail(&event, r#"{"errorMessage":"secret"}"#).await;
    let (parts, body) = answer.await.expect("no panic");
    assert_eq!(parts.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(body, r#"{"message":"Internal Server Error"}"#);

    let answer = send(item(), "");
    let event = fake.poll().await.expect("an event");
    fake.respond(&event, r#"{"statusCode":"?"}"#).await;
    let (parts, _) = answer.await.expect("no panic");
    assert_eq!(parts.status, StatusCode::INTERNAL_SERVER_ERROR);

    let answer = send(item(), "");
    let event = fake.poll().await.expect("an event");
    // The function's own limit is later, so it runs on.
    served.rig.clock.sleeping(2).await;
    served.rig.clock.advance(Duration::from_secs(2));
    let (parts, body) = answer.await.expect("no panic");
    assert_eq!(parts.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(body, r#"{"message":"Service Unavailable"}"#);
    assert_eq!(fake.respond(&event, "{}").await, StatusCode::ACCEPTED);
    served.stop().await;
}

#[tokio::test]
async fn a_request_that_nobody_signed_reaches_no_function() {
    let (served, _fake, polling) = Served::start_with(Some(Principals::default())).await;
    let item = || Request::put(format!("{}/item?pk=a", served.url));
    let (status, body) = refused(item(), "{}").await;
    assert_eq!((status, body), (403, message("Forbidden")));
    let (status, body) = refused(item().header("authorization", "Bearer a.b.c"), "{}").await;
    assert_eq!((status, body), (403, message("Forbidden")));
    let (status, _) = refused(Request::put(format!("{}/other", served.url)), "").await;
    assert_eq!(status, 404);
    assert!(!polling.is_finished());
    served.stop().await;
}
