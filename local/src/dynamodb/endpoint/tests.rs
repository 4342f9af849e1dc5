mod accounting;
mod insights;
mod permissions;
mod throttling;
mod tokens;
mod validation;

use std::num::NonZeroU32;
use std::path::Path;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::*;
use crate::clock::manual::ManualClock;
use crate::plan::Table;
use crate::server::{self, testing::send};

const LIFETIME: Duration = Duration::from_mins(16);

/// An endpoint with a real engine behind it, on a clock that stands still.
struct Rig {
    clock: Arc<ManualClock>,
    endpoint: Arc<Endpoint>,
    engine: Engine,
    url: String,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
}

impl Rig {
    async fn start() -> Self {
        Self::with(Limits::default(), None, &[table("First"), table("Second")]).await
    }

    /// An endpoint whose partitions take 10 write and 10 read units a second, with no tables.
    async fn throttling() -> Self {
        Self::with(TEN_UNITS, None, &[]).await
    }

    async fn with(limits: Limits, data_dir: Option<&Path>, tables: &[Table]) -> Self {
        Self::with_access(limits, data_dir, tables, Arc::default()).await
    }

    async fn with_access(
        limits: Limits,
        data_dir: Option<&Path>,
        tables: &[Table],
        access: Arc<Access>,
    ) -> Self {
        let clock = ManualClock::at(httpdate::parse_http_date(NOW).expect("a date"));
        let engine = Engine::start(data_dir, tables).expect("an engine");
        let endpoint =
            Endpoint::new(&engine, limits, LIFETIME, clock.clone(), access).expect("an endpoint");
        let endpoint = Arc::new(endpoint);
        let listener = server::bind_free().await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = watch::channel(false);
        Self {
            clock,
            engine,
            url: format!("http://{address}"),
            stop,
            server: tokio::spawn(server::serve(listener, Arc::clone(&endpoint), stopped)),
            endpoint,
        }
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        self.server.await.expect("the server ends");
        drop(self.endpoint);
        self.engine.stop().await;
    }

    /// Sends a request that was signed at `date`.
    async fn send(
        &self,
        operation: &str,
        body: &str,
        date: &str,
    ) -> (http::response::Parts, Value) {
        let request = Request::post(&self.url)
            .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
            .header("authorization", SIGNATURE)
            .header("x-amz-date", date);
        self.exchange(request, body).await
    }

    /// Sends a request that succeeds.
    async fn ok(&self, operation: &str, body: Value) -> Value {
        let (parts, answer) = self.send(operation, &body.to_string(), SIGNED_NOW).await;
        assert_eq!(parts.status, StatusCode::OK, "{operation} {body}: {answer}");
        answer
    }

    /// Sends a request that fails, and returns the error and its name.
    async fn refused(&self, operation: &str, body: Value) -> (String, Value) {
        let (parts, answer) = self.send(operation, &body.to_string(), SIGNED_NOW).await;
        assert_eq!(parts.status, StatusCode::BAD_REQUEST, "{operation} {body}: {answer}");
        let kind = answer["__type"].as_str().expect("a kind").to_owned();
        let (_, name) = kind.split_once('#').expect("a namespace");
        (name.to_owned(), answer)
    }

    /// Sends the same request until it is refused, and returns how often it was not.
    async fn drain(&self, operation: &str, body: &Value) -> usize {
        for admitted in 0.. {
            let (parts, answer) = self.send(operation, &body.to_string(), SIGNED_NOW).await;
            if parts.status == StatusCode::BAD_REQUEST {
                assert!(answer.get("ThrottlingReasons").is_some(), "{operation}: {answer}");
                return admitted;
            }
            assert!(admitted < 1_000, "{operation} is never refused");
        }
        unreachable!("the loop has no end")
    }

    async fn exchange(
        &self,
        request: http::request::Builder,
        body: &str,
    ) -> (http::response::Parts, Value) {
        let request = request.header("content-type", "application/x-amz-json-1.0");
        let (parts, body) = send(request, body.to_owned()).await.expect("no panic");
        if let Some(checksum) = parts.headers.get("x-amz-crc32") {
            assert_eq!(checksum, &crc32fast::hash(&body).to_string());
        }
        assert_eq!(
            parts.headers["date"],
            httpdate::fmt_http_date(crate::clock::Clock::now(&*self.clock))
        );
        assert!(parts.headers.contains_key("x-amzn-requestid"));
        (parts, serde_json::from_slice(&body).unwrap_or_default())
    }
}

const TEN_UNITS: Limits = Limits {
    partitions: NonZeroU32::new(4_096).expect("positive"),
    partition_wcu: NonZeroU32::new(10).expect("positive"),
    partition_rcu: NonZeroU32::new(10).expect("positive"),
    warm_wcu: None,
    warm_rcu: None,
    burst_secs: 300,
    split_after_secs: None,
    are_enforced: true,
};

const NOW: &str = "Fri, 20 Nov 2026 10:10:10 GMT";
const SIGNED_NOW: &str = "20261120T101010Z";
const SIGNATURE: &str = "AWS4-HMAC-SHA256 Credential=k/20261120/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0";

fn table(name: &str) -> Table {
    Table {
        name: name.to_owned(),
        insights: None,
        create_request: json!({
            "TableName": name,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{ "AttributeName": "pk", "AttributeType": "S" }],
            "KeySchema": [{ "AttributeName": "pk", "KeyType": "HASH" }],
        }),
    }
}

const PUT: &str = r#"{"TableName":"First","Item":{"pk":{"S":"1"}}}"#;

/// Any page that a developer had open could read the tables, and delete them.
#[tokio::test]
async fn regression_a_page_of_another_site_used_the_tables() {
    let rig = Rig::start().await;
    let ask = |origin: &str| {
        Request::post(&rig.url)
            .header("x-amz-target", "DynamoDB_20120810.ListTables")
            .header("authorization", SIGNATURE)
            .header("x-amz-date", SIGNED_NOW)
            .header("origin", origin)
    };
    for (origin, status) in [
        ("https://example.com", StatusCode::FORBIDDEN),
        ("null", StatusCode::FORBIDDEN),
        ("http://localhost:5173", StatusCode::OK),
    ] {
        let (parts, _) = rig.exchange(ask(origin), "{}").await;
        assert_eq!(parts.status, status, "{origin}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_request_executes_up_to_its_lifetime_after_its_signing_and_not_a_moment_longer() {
    let rig = Rig::start().await;
    rig.clock.advance(LIFETIME);
    let (parts, _) = rig.send("PutItem", PUT, SIGNED_NOW).await;
    assert_eq!(parts.status, StatusCode::OK, "exactly as old as it may be");

    rig.clock.advance(Duration::from_millis(1));
    let (parts, body) = rig.send("PutItem", PUT, SIGNED_NOW).await;
    assert_eq!(parts.status, StatusCode::BAD_REQUEST);
    assert_eq!(body["__type"], "com.amazon.coral.service#InvalidSignatureException");
    assert_eq!(
        body["message"],
        "Signature expired: 20261120T101010Z is now earlier than 20261120T101010Z (20261120T102610Z - 16 min.)"
    );
    let counters = rig.endpoint.counters();
    assert_eq!(
        counters.requests("First", "PutItem"),
        1,
        "the refused one did not reach the engine"
    );
    assert_eq!(counters.refused, 1);
    rig.stop().await;
}

#[tokio::test]
async fn a_request_may_be_signed_up_to_15_minutes_ahead() {
    let rig = Rig::start().await;
    let (parts, _) = rig.send("PutItem", PUT, "20261120T102510Z").await;
    assert_eq!(parts.status, StatusCode::OK);
    let (parts, body) = rig.send("PutItem", PUT, "20261120T102511Z").await;
    assert_eq!(parts.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        body["message"],
        "Signature not yet current: 20261120T102511Z is still later than 20261120T102510Z (20261120T101010Z + 15 min.)"
    );
    rig.stop().await;
}

#[tokio::test]
async fn the_signing_time_is_found_wherever_a_signature_may_have_it() {
    let rig = Rig::start().await;
    rig.clock.advance(LIFETIME + Duration::from_secs(1));
    let target = "DynamoDB_20120810.ListTables";
    let query = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=c&X-Amz-Signature=s&X-Amz-SignedHeaders=host";
    let presigned = |date: &str| {
        let url = format!("{}/?{query}&X-Amz-Date={date}", rig.url);
        Request::post(url).header("x-amz-target", target)
    };
    let with_date = |date: &str| {
        Request::post(&rig.url)
            .header("x-amz-target", target)
            .header("authorization", SIGNATURE)
            .header("date", date)
    };
    let expired = "com.amazon.coral.service#InvalidSignatureException";
    let unreadable = "com.amazon.coral.service#IncompleteSignatureException";
    for (request, kind) in [
        (presigned("20261120T101010Z"), expired),
        (presigned("yesterday"), unreadable),
        (with_date(NOW), expired),
        (with_date("20261120T101010Z"), expired),
        (with_date("20261320T101010Z"), unreadable),
    ] {
        let (parts, body) = rig.exchange(request, "{}").await;
        assert_eq!(parts.status, StatusCode::BAD_REQUEST);
        assert_eq!(body["__type"], kind, "{body}");
    }
    let (parts, _) = rig.exchange(presigned("20261120T102611Z"), "{}").await;
    assert_eq!(parts.status, StatusCode::OK);
    rig.stop().await;
}

#[tokio::test]
async fn a_request_without_a_signature_is_refused_by_the_engine_in_the_words_of_dynamodb() {
    let rig = Rig::start().await;
    let request = Request::post(&rig.url).header("x-amz-target", "DynamoDB_20120810.ListTables");
    let (parts, body) = rig.exchange(request, "{}").await;
    assert_eq!(parts.status, StatusCode::BAD_REQUEST);
    assert_eq!(body["__type"], "com.amazon.coral.service#MissingAuthenticationTokenException");
    rig.stop().await;
}

#[tokio::test]
async fn requests_and_their_capacity_are_counted_by_table_and_operation() {
    let rig = Rig::start().await;
    for (operation, body) in [
        (
            "PutItem",
            r#"{"TableName":"First","Item":{"pk":{"S":"1"}},"ReturnConsumedCapacity":"TOTAL"}"#,
        ),
        ("PutItem", r#"{"TableName":"First","Item":{"pk":{"S":"2"}}}"#),
        (
            "GetItem",
            r#"{"TableName":"First","Key":{"pk":{"S":"1"}},"ConsistentRead":true,"ReturnConsumedCapacity":"TOTAL"}"#,
        ),
        (
            "BatchGetItem",
            r#"{"RequestItems":{"First":{"Keys":[{"pk":{"S":"1"}}]},"Second":{"Keys":[{"pk":{"S":"1"}}]}},"ReturnConsumedCapacity":"TOTAL"}"#,
        ),
        (
            "TransactWriteItems",
            r#"{"TransactItems":[{"Put":{"TableName":"First","Item":{"pk":{"S":"3"}}}},{"Put":{"TableName":"Second","Item":{"pk":{"S":"3"}}}}]}"#,
        ),
        ("PutItem", r#"{"TableName":"Nowhere","Item":{"pk":{"S":"1"}}}"#),
        ("ListTables", "{}"),
    ] {
        rig.send(operation, body, SIGNED_NOW).await;
    }
    let counters = rig.endpoint.counters();
    assert_eq!(counters.requests("First", "PutItem"), 2);
    assert_eq!(counters.requests("First", "GetItem"), 1);
    assert_eq!(counters.requests("First", "BatchGetItem"), 1);
    assert_eq!(counters.requests("Second", "BatchGetItem"), 1);
    assert_eq!(counters.requests("First", "TransactWriteItems"), 1);
    assert_eq!(counters.table_requests("First"), 5);
    assert_eq!(counters.requests("Nowhere", "PutItem"), 1);
    assert_eq!(counters.without_table["ListTables"], 1);
    let put = counters.tables["First"]["PutItem"];
    assert_eq!((put.consumed_rcu, put.consumed_wcu), (0.0, 2.0), "asked for or not");
    let transaction = counters.tables["First"]["TransactWriteItems"];
    assert_eq!((transaction.consumed_rcu, transaction.consumed_wcu), (0.0, 2.0));
    let get = counters.tables["First"]["GetItem"];
    assert_eq!((get.consumed_rcu, get.consumed_wcu), (1.0, 0.0));
    let batch = counters.tables["Second"]["BatchGetItem"];
    assert_eq!((batch.consumed_rcu, batch.consumed_wcu), (0.5, 0.0));

    let (parts, body) =
        rig.exchange(Request::get(format!("{}/_dynashard/counters", rig.url)), "").await;
    assert_eq!(parts.status, StatusCode::OK);
    let published: Counters = serde_json::from_value(body).expect("counters");
    assert_eq!(published, counters);
    rig.stop().await;
}

#[tokio::test]
async fn health_is_told_without_a_signature_and_unknown_paths_are_dynamodbs_404() {
    let rig = Rig::start().await;
    let (parts, _) = rig.exchange(Request::get(&rig.url), "").await;
    assert_eq!(parts.status, StatusCode::OK);
    let (parts, _) = rig.exchange(Request::get(format!("{}/other", rig.url)), "").await;
    assert_eq!(parts.status, StatusCode::NOT_FOUND);
    rig.stop().await;
}

#[tokio::test]
async fn an_item_as_large_as_dynamodb_takes_passes_through_unchanged() {
    let rig = Rig::start().await;
    let text = "x".repeat(399 << 10);
    let put =
        json!({ "TableName": "First", "Item": { "pk": { "S": "large" }, "text": { "S": text } } });
    let (parts, _) = rig.send("PutItem", &put.to_string(), SIGNED_NOW).await;
    assert_eq!(parts.status, StatusCode::OK);
    let get = r#"{"TableName":"First","Key":{"pk":{"S":"large"}}}"#;
    let (_, body) = rig.send("GetItem", get, SIGNED_NOW).await;
    assert_eq!(body["Item"]["text"]["S"], text);
    rig.stop().await;
}
