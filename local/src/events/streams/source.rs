//! The streams of the engine.

use std::sync::Arc;

use dynoxide::actions::describe_stream::DescribeStreamRequest;
use dynoxide::actions::get_records::GetRecordsRequest;
use dynoxide::actions::get_shard_iterator::GetShardIteratorRequest;
use serde_json::Value;

use crate::access::Access;
use crate::dynamodb::endpoint::tells_of_a_change;
use crate::dynamodb::engine::Store;
use crate::plan::{Asked, StartingPosition, TEMPLATE_LABEL, stream_arn};

/// The stream of a table, in the engine.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) store: Store,
    pub(super) table: String,
    /// Lambda reads in the name of this function.
    pub(super) function: String,
    pub(super) access: Arc<Access>,
}

/// The records of an answer of `GetRecords`, and the iterator for the next: absent at the end of a shard that takes
/// no further records.
pub(super) type Page = (Vec<Value>, Option<String>);

/// What the engine did not answer, or not with what was asked for, and why. It may the next time.
#[derive(Debug, thiserror::Error)]
#[error("{0}: {1}")]
pub(super) struct SourceError(&'static str, String);

impl Source {
    /// The ARN of the newest stream, in the region and account of the stack. The engine finds a stream by its
    /// table's name, and takes this ARN as well as its own.
    pub(super) async fn stream(&self) -> Result<String, SourceError> {
        // Lambda finds it by ListStreams.
        let (operation, table) = ("ListStreams", self.table.clone());
        let arn = stream_arn(&table, "*");
        let asked = self.ask(operation, arn, move |store| store.describe_table(&table)).await?;
        let label = asked.latest_stream_label;
        let none = || SourceError(operation, format!("the table {} has no stream", self.table));
        Ok(stream_arn(&self.table, &label.ok_or_else(none)?))
    }

    /// The ids of a stream's shards.
    pub(super) async fn shards(&self, stream_arn: &str) -> Result<Vec<String>, SourceError> {
        let request =
            DescribeStreamRequest { stream_arn: stream_arn.to_owned(), ..Default::default() };
        let asked = self
            .ask("DescribeStream", self.resource(), move |store| store.describe_stream(request))
            .await?;
        let shards = asked.stream_description.shards.into_iter();
        Ok(shards.map(|shard| shard.shard_id).collect())
    }

    /// An iterator over a shard, behind the record with the sequence number `after` if there is one.
    pub(super) async fn iterator(
        &self,
        stream_arn: &str,
        shard: &str,
        start: StartingPosition,
        after: Option<String>,
    ) -> Result<String, SourceError> {
        let kind = match (&after, start) {
            (Some(_), _) => "AFTER_SEQUENCE_NUMBER",
            (None, StartingPosition::TrimHorizon) => "TRIM_HORIZON",
            (None, StartingPosition::Latest) => "LATEST",
        };
        let request = GetShardIteratorRequest {
            stream_arn: stream_arn.to_owned(),
            shard_id: shard.to_owned(),
            shard_iterator_type: kind.to_owned(),
            sequence_number: after,
        };
        let asked = self.ask("GetShardIterator", self.resource(), move |store| {
            store.get_shard_iterator(request)
        });
        Ok(asked.await?.shard_iterator.unwrap_or_default())
    }

    /// Up to 1,000 records.
    pub(super) async fn records(&self, iterator: &str) -> Result<Page, SourceError> {
        let request = GetRecordsRequest { shard_iterator: iterator.to_owned(), limit: None };
        let asked = self.ask("GetRecords", self.resource(), move |store| {
            let page = store.get_records(request)?;
            let records = page.records.iter().map(serde_json::to_value);
            // What the engine has written as JSON itself can be written so.
            let records = records.map(|record| record.unwrap_or(Value::Null));
            let records = records.filter(tells_of_a_change).collect();
            Ok((records, page.next_shard_iterator))
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
        let failed = |problem: String| SourceError(operation, problem);
        let asked = Asked::of(format!("dynamodb:{operation}"), resource);
        self.access.check(&self.function, &asked).map_err(|denied| failed(denied.to_string()))?;
        let store = self.store.clone();
        let answer = tokio::task::spawn_blocking(move || ask(&store)).await;
        answer
            .map_err(|error| failed(error.to_string()))?
            .map_err(|error| failed(error.to_string()))
    }

    fn resource(&self) -> String {
        stream_arn(&self.table, TEMPLATE_LABEL)
    }
}
