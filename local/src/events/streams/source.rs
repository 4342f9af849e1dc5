//! The DynamoDB Streams API of the engine.

use crate::access::Access;
use crate::plan::{Asked, StartingPosition, TEMPLATE_LABEL, stream_arn};
use bytes::Bytes;
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;

/// A client of the engine's own port.
#[derive(Clone, Debug)]
pub(super) struct Source {
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
    /// Lambda reads in the name of this function.
    function: String,
    access: Arc<Access>,
}

/// The stream of a table.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// In the region and account of the stack. The engine finds a stream by its table's name, and
    /// takes this ARN as well as its own.
    pub(super) arn: String,
    pub(super) table: String,
}

/// Where to go on reading a stream shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Position {
    Start(StartingPosition),
    /// After the record with this sequence number.
    After(String),
}

/// An answer of `GetRecords`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Page {
    pub(super) records: Vec<Value>,
    /// Absent at the end of a shard that takes no further records.
    pub(super) next_shard_iterator: Option<String>,
}

/// The engine did not answer, or not with what was asked for. It may the next time.
#[derive(Debug, thiserror::Error)]
#[error("{operation}: {problem}")]
pub(super) struct SourceError {
    operation: &'static str,
    problem: String,
}

impl Source {
    pub(super) fn new(engine: SocketAddr, function: &str, access: &Arc<Access>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let (function, access) = (function.to_owned(), Arc::clone(access));
        Self { url: format!("http://{engine}/"), client, function, access }
    }

    /// The newest stream of a table.
    pub(super) async fn stream(&self, table: &str) -> Result<Stream, SourceError> {
        // Lambda finds it by ListStreams.
        self.check(LIST_STREAMS, stream_arn(table, "*"))?;
        let request = json!({ "TableName": table });
        let described: Described = self.call(DESCRIBE_TABLE, &request).await?;
        let arn = stream_arn(table, &described.table.latest_stream_label);
        Ok(Stream { arn, table: table.to_owned() })
    }

    /// The ids of a stream's shards.
    pub(super) async fn shards(&self, stream: &Stream) -> Result<Vec<String>, SourceError> {
        self.check_stream(DESCRIBE_STREAM, stream)?;
        let request = json!({ "StreamArn": stream.arn });
        let described: DescribedStream = self.call(DESCRIBE_STREAM, &request).await?;
        let shards = described.stream_description.shards.into_iter();
        Ok(shards.map(|shard| shard.shard_id).collect())
    }

    /// An iterator over a shard from `position` on.
    pub(super) async fn iterator(
        &self,
        stream: &Stream,
        shard: &str,
        position: &Position,
    ) -> Result<String, SourceError> {
        self.check_stream(GET_SHARD_ITERATOR, stream)?;
        let mut request = json!({ "StreamArn": stream.arn, "ShardId": shard });
        request["ShardIteratorType"] = match position {
            Position::Start(StartingPosition::TrimHorizon) => "TRIM_HORIZON".into(),
            Position::Start(StartingPosition::Latest) => "LATEST".into(),
            Position::After(sequence_number) => {
                request["SequenceNumber"] = sequence_number.as_str().into();
                "AFTER_SEQUENCE_NUMBER".into()
            }
        };
        let found: Found = self.call(GET_SHARD_ITERATOR, &request).await?;
        Ok(found.shard_iterator)
    }

    /// Up to 1,000 records.
    pub(super) async fn records(
        &self,
        stream: &Stream,
        iterator: &str,
    ) -> Result<Page, SourceError> {
        self.check_stream(GET_RECORDS, stream)?;
        self.call(GET_RECORDS, &json!({ "ShardIterator": iterator })).await
    }

    fn check_stream(&self, target: &'static str, stream: &Stream) -> Result<(), SourceError> {
        self.check(target, stream_arn(&stream.table, TEMPLATE_LABEL))
    }

    fn check(&self, target: &'static str, resource: String) -> Result<(), SourceError> {
        let operation = operation(target);
        let action = format!("dynamodb:{operation}");
        let asked = Asked { action, resource, leading_keys: Vec::new() };
        let denied = self.access.check(&self.function, &asked);
        denied.map_err(|denied| SourceError { operation, problem: denied.to_string() })
    }

    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        target: &'static str,
        request: &Value,
    ) -> Result<T, SourceError> {
        let operation = operation(target);
        let failed = |problem: String| SourceError { operation, problem };
        let request = Request::post(&self.url)
            .header("x-amz-target", target)
            .header(CONTENT_TYPE, "application/x-amz-json-1.0")
            // The engine asks for a signature and does not check it.
            .header("x-amz-date", "19700101T000000Z")
            .header(
                AUTHORIZATION,
                "AWS4-HMAC-SHA256 Credential=local, SignedHeaders=host, Signature=0",
            )
            .body(Full::new(Bytes::from(request.to_string())))
            .map_err(|error| failed(error.to_string()))?;
        let answer =
            self.client.request(request).await.map_err(|error| failed(error.to_string()))?;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.map_err(|error| failed(error.to_string()))?.to_bytes();
        if !parts.status.is_success() {
            return Err(failed(String::from_utf8_lossy(&body).into_owned()));
        }
        serde_json::from_slice(&body).map_err(|error| failed(error.to_string()))
    }
}

fn operation(target: &'static str) -> &'static str {
    target.split_once('.').map_or(target, |(_, operation)| operation)
}

const LIST_STREAMS: &str = "DynamoDBStreams_20120810.ListStreams";
const DESCRIBE_TABLE: &str = "DynamoDB_20120810.DescribeTable";
const DESCRIBE_STREAM: &str = "DynamoDBStreams_20120810.DescribeStream";
const GET_SHARD_ITERATOR: &str = "DynamoDBStreams_20120810.GetShardIterator";
const GET_RECORDS: &str = "DynamoDBStreams_20120810.GetRecords";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Described {
    table: DescribedTable,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DescribedTable {
    latest_stream_label: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DescribedStream {
    stream_description: StreamDescription,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StreamDescription {
    shards: Vec<Shard>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Shard {
    shard_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Found {
    shard_iterator: String,
}
