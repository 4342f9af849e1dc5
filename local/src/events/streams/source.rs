//! The streams of the engine.

use std::sync::Arc;

use dynoxide::actions::describe_stream::DescribeStreamRequest;
use dynoxide::actions::get_records::GetRecordsRequest;
use dynoxide::actions::get_shard_iterator::GetShardIteratorRequest;
use serde_json::Value;

use crate::access::Access;
use crate::dynamodb::engine::Store;
use crate::plan::{Asked, StartingPosition, TEMPLATE_LABEL, stream_arn};

/// The streams of the engine's tables.
#[derive(Clone, Debug)]
pub(super) struct Source {
    store: Store,
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
#[derive(Debug)]
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
    pub(super) fn new(store: Store, function: &str, access: &Arc<Access>) -> Self {
        Self { store, function: function.to_owned(), access: Arc::clone(access) }
    }

    /// The newest stream of a table.
    pub(super) async fn stream(&self, table: &str) -> Result<Stream, SourceError> {
        let name = table.to_owned();
        // Lambda finds it by ListStreams.
        let asked = self
            .ask("ListStreams", stream_arn(table, "*"), move |store| store.describe_table(&name));
        let label = asked.await?.latest_stream_label.ok_or_else(|| SourceError {
            operation: "ListStreams",
            problem: format!("the table {table} has no stream"),
        })?;
        Ok(Stream { arn: stream_arn(table, &label), table: table.to_owned() })
    }

    /// The ids of a stream's shards.
    pub(super) async fn shards(&self, stream: &Stream) -> Result<Vec<String>, SourceError> {
        let request =
            DescribeStreamRequest { stream_arn: stream.arn.clone(), ..Default::default() };
        let asked = self
            .ask("DescribeStream", resource(stream), move |store| store.describe_stream(request));
        let shards = asked.await?.stream_description.shards.into_iter();
        Ok(shards.map(|shard| shard.shard_id).collect())
    }

    /// An iterator over a shard from `position` on.
    pub(super) async fn iterator(
        &self,
        stream: &Stream,
        shard: &str,
        position: &Position,
    ) -> Result<String, SourceError> {
        let (kind, sequence_number) = match position {
            Position::Start(StartingPosition::TrimHorizon) => ("TRIM_HORIZON", None),
            Position::Start(StartingPosition::Latest) => ("LATEST", None),
            Position::After(number) => ("AFTER_SEQUENCE_NUMBER", Some(number.clone())),
        };
        let request = GetShardIteratorRequest {
            stream_arn: stream.arn.clone(),
            shard_id: shard.to_owned(),
            shard_iterator_type: kind.to_owned(),
            sequence_number,
        };
        let asked = self.ask("GetShardIterator", resource(stream), move |store| {
            store.get_shard_iterator(request)
        });
        Ok(asked.await?.shard_iterator.unwrap_or_default())
    }

    /// Up to 1,000 records.
    pub(super) async fn records(
        &self,
        stream: &Stream,
        iterator: &str,
    ) -> Result<Page, SourceError> {
        let request = GetRecordsRequest { shard_iterator: iterator.to_owned(), limit: None };
        let asked = self.ask("GetRecords", resource(stream), move |store| {
            let page = store.get_records(request)?;
            let records = page.records.iter().map(serde_json::to_value);
            // What the engine has written as JSON itself can be written so.
            let records = records.map(|record| record.unwrap_or(Value::Null)).collect();
            Ok(Page { records, next_shard_iterator: page.next_shard_iterator })
        });
        asked.await
    }

    /// Asks the engine in the function's name, on a thread that may block.
    async fn ask<T: Send + 'static>(
        &self,
        operation: &'static str,
        resource: String,
        ask: impl FnOnce(&Store) -> dynoxide::Result<T> + Send + 'static,
    ) -> Result<T, SourceError> {
        let failed = |problem: String| SourceError { operation, problem };
        let action = format!("dynamodb:{operation}");
        let asked = Asked { action, resource, leading_keys: Vec::new() };
        self.access.check(&self.function, &asked).map_err(|denied| failed(denied.to_string()))?;
        let store = self.store.clone();
        let answer = tokio::task::spawn_blocking(move || ask(&store)).await;
        answer
            .map_err(|error| failed(error.to_string()))?
            .map_err(|error| failed(error.to_string()))
    }
}

fn resource(stream: &Stream) -> String {
    stream_arn(&stream.table, TEMPLATE_LABEL)
}
