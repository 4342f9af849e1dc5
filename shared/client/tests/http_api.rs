//! What the client sends to the HTTP API, and what it makes of answers, by a server that answers as it is told.

use std::time::Duration;

use dynashard_aws_operator::RequestSigner;
use dynashard_client::{Client, ClientError, Condition, ETag, HttpApi, Store};
use dynashard_core::Bounds;
use dynashard_core::ports::Consistency;
use dynashard_keys::{ItemKey, PartitionKey, SortKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

fn key(pk: &str, sk: &str) -> ItemKey {
    ItemKey::new(PartitionKey::new(pk).expect("pk"), SortKey::string(sk).expect("sk"))
}

/// Takes one request, and answers it with `answer`, or closes the connection if that is empty. Returns the request.
async fn server(answer: impl Into<String>) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let answer = answer.into();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let (mut request, mut buffer) = (Vec::new(), [0; 4_096]);
        while !is_whole(&request) {
            let read = stream.read(&mut buffer).await.expect("a request");
            assert_ne!(read, 0, "the request is cut");
            request.extend_from_slice(&buffer[..read]);
        }
        stream.write_all(answer.as_bytes()).await.expect("it is sent");
        String::from_utf8(request).expect("UTF-8")
    });
    (url, serving)
}

/// Whether a request has come to the end of its body.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().expect("a length"))
}

const STORED: &str = "HTTP/1.1 200 OK\r\netag: \"00000000000000ff\"\r\ncontent-length: 2\r\n\r\n{}";

#[tokio::test]
async fn keys_are_encoded_so_that_they_arrive_as_they_are() {
    let (url, request) = server(STORED).await;
    let api = HttpApi::new(&url).expect("a URL");
    let key = key("a/b c+d", "ü&=#%?~-._");
    let etag = api.put(&key, r#"{"a":1}"#, &Condition::Absent).await.expect("stored");
    assert_eq!(etag, ETag::new("\"00000000000000ff\""));
    let request = request.await.expect("a request");
    let line = "PUT /item?pk=a%2Fb%20c%2Bd&sk=%C3%BC%26%3D%23%25%3F~-._ HTTP/1.1\r\n";
    assert!(request.starts_with(line), "{request}");
    assert!(
        request.contains("if-none-match: *\r\n") && request.ends_with(r#"{"a":1}"#),
        "{request}"
    );
    assert!(!request.contains("authorization"), "{request}");
}

#[tokio::test]
async fn requests_are_signed_for_execute_api_if_that_is_asked_for() {
    let (url, request) = server(STORED).await;
    let signer = RequestSigner::of_user("AKIAEXAMPLE", "secret", "eu-west-1", "execute-api");
    let api = HttpApi::new(&url).expect("a URL").signed(signer);
    api.put(&key("a", "b"), "{}", &Condition::None).await.expect("stored");
    let request = request.await.expect("a request").to_lowercase();
    let authorization =
        request.lines().find(|line| line.starts_with("authorization: ")).expect("signed");
    assert!(authorization.contains("aws4-hmac-sha256 credential=akiaexample/"), "{authorization}");
    assert!(authorization.contains("/eu-west-1/execute-api/aws4_request"), "{authorization}");
    assert!(
        authorization.contains("signedheaders=content-type;host;x-amz-date"),
        "{authorization}"
    );
    assert!(request.contains("x-amz-date: "), "{request}");
}

#[tokio::test]
async fn a_problem_keeps_its_code_and_says_when_to_come_back() {
    let body = r#"{"code":"throttled","detail":"slow down please"}"#;
    let head = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 2\r\ncontent-length";
    let answer = format!("{head}: {}\r\n\r\n{body}", body.len());
    let (url, request) = server(answer).await;
    let error =
        HttpApi::new(&url).expect("a URL").put(&key("a", "b"), "{}", &Condition::None).await;
    let Err(ClientError::Refused { code, detail, retry_after }) = error else {
        panic!("{error:?}")
    };
    assert_eq!((code.as_str(), detail.as_str()), ("throttled", "slow down please"));
    assert_eq!(retry_after, Some(Duration::from_secs(2)));
    request.await.expect("a request");
}

#[tokio::test]
async fn what_stands_before_the_functions_refuses_by_its_status() {
    let answer = "HTTP/1.1 403 Forbidden\r\ncontent-length: 23\r\n\r\n{\"message\":\"Forbidden\"}";
    let (url, request) = server(answer).await;
    let api = HttpApi::new(&url).expect("a URL");
    let error = api.get(&key("a", "b"), Consistency::Eventual).await.expect_err("refused");
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (Some("http_403"), "http_403: Forbidden")
    );
    request.await.expect("a request");
}

/// A write that was sent may have taken effect; one that was not sent has not.
#[tokio::test]
async fn a_write_without_an_answer_has_an_unknown_outcome() {
    for (answer, is_unknown) in [
        ("", true),
        ("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n", true),
        (
            "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 35\r\n\r\n{\"message\":\"Internal Server Error\"}",
            true,
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", true),
        ("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n", false),
    ] {
        let (url, request) = server(answer).await;
        let api = HttpApi::new(&url).expect("a URL");
        let error = api.put(&key("a", "b"), "{}", &Condition::None).await.expect_err("no answer");
        assert_eq!(error.is_outcome_unknown(), is_unknown, "{answer:?}: {error}");
        request.await.expect("a request");
    }
    // What stands between has answered in place of the API.
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>",
        "HTTP/1.1 520 Unknown\r\ncontent-length: 0\r\n\r\n",
    ] {
        let (url, request) = server(answer).await;
        let api = HttpApi::new(&url).expect("a URL");
        let deleted = api.delete(&key("a", "b"), &Condition::None).await;
        assert!(deleted.is_err_and(|error| error.is_outcome_unknown()), "{answer:?}");
        request.await.expect("a request");
        let (url, request) = server(answer).await;
        let api = HttpApi::new(&url).expect("a URL");
        let added = api.add_to_counter(&key("a", "b"), 1, Bounds::default()).await;
        assert!(added.is_err_and(|error| error.is_outcome_unknown()), "{answer:?}");
        request.await.expect("a request");
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let closed = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let api = HttpApi::new(&closed).expect("a URL");
    let error = api.put(&key("a", "b"), "{}", &Condition::None).await.expect_err("nobody listens");
    assert!(matches!(error, ClientError::Connection(_)), "{error}");
}

/// A connection that never came to be was taken for a write that may have taken effect.
#[tokio::test]
async fn regression_a_write_that_found_no_connection_had_an_unknown_outcome() {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let address = socket.local_addr().expect("an address");
    let _listener = socket.listen(1).expect("it listens");
    // It takes nobody in, so that what comes behind these two waits for ever.
    let waiting = [TcpStream::connect(address).await, TcpStream::connect(address).await];
    assert!(waiting.iter().all(Result::is_ok));
    let api = HttpApi::new(&format!("http://{address}")).expect("a URL");
    let error = api.put(&key("a", "b"), "{}", &Condition::None).await.expect_err("no connection");
    assert!(matches!(error, ClientError::Connection(_)), "{error}");
}

#[test]
fn a_url_that_is_none_is_refused() {
    for url in ["", "example.com", "ftp://example.com", "http://", "https://example.com/?a=b"] {
        assert!(matches!(HttpApi::new(url), Err(ClientError::Connection(_))), "{url}");
    }
    let with_stage = Client::new(HttpApi::new("https://example.com/prod/").expect("a URL"));
    assert!(format!("{with_stage:?}").contains("https://example.com/prod"));
}
