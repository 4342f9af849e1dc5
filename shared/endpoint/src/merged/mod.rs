//! `Query` of a collection that has several shards, or is being resharded: of the table, and of an index whose key has the table's
//! partition key.
//!
//! Each shard is asked in DynamoDB's own words ([`asked`]), and what they have is merged here ([`merge`]) by the index's sort key
//! and the table's. While items move, shards that they leave are read before those that they go to, always from one place on: what
//! moves in between is found where it goes to, and what is at both homes counts at the new one. Of the table itself the core reads
//! what moves: it can settle an item.

mod asked;
mod feed;
mod keys;
mod merge;
mod shard_page;

use std::sync::Arc;

use dynashard_core::{Deadline, NativeShards, SecondaryIndex};
use dynashard_keys::PartitionKey;
use serde_json::json;

use self::asked::Asked;
use self::merge::Merge;
use crate::call::{Answer, Call};
use crate::document::Members;
use crate::index::described_in;
use crate::items::{Attempt, own_words};
use crate::judged::judged;
use crate::moving;
use crate::no_page::NoPage;
use crate::refusal::Refusal;
use crate::table::ManagedTable;
use crate::upstream::{Upstream, refused};

/// Answers a query of one collection.
pub(crate) async fn query(
    upstream: &Upstream,
    table: &ManagedTable,
    call: &Call,
    body: &Members,
    (partition, shards): (&PartitionKey, &NativeShards),
    deadline: Deadline,
) -> Result<Attempt, Refusal> {
    let index = match body.get("IndexName") {
        None if shards.is_moving() || !shards.have_homes() => {
            return moving::query(upstream, table, body, deadline).await;
        }
        None => Arc::new(SecondaryIndex::of_table(table.schema())),
        Some(name) => {
            let name = name.as_str().unwrap_or_default();
            let Some(index) = described(upstream, table, name).await? else {
                // DynamoDB says so itself, unless the index has come meanwhile.
                let answer = upstream.pass(call).await?;
                let has_come = answer.is_success();
                return Ok(if has_come { Attempt::Again } else { Attempt::Answered(answer) });
            };
            index
        }
    };
    let page = |asked: Asked| async move {
        match Merge::new(upstream, table, &asked, shards).page(deadline).await {
            Ok(answer) => Ok(Attempt::Answered(answer)),
            Err(NoPage::Again) => Ok(Attempt::Again),
            Err(NoPage::Failed(refusal)) => Err(refusal),
            Err(NoPage::Refused(answer)) => {
                if answer.is_error("ValidationException") {
                    // It may have been for what has become of the index.
                    table.indexes().forget();
                }
                own_words(upstream, call, answer).await.map(Attempt::Answered)
            }
        }
    };
    judged(upstream, "Query", body, Asked::of(table, index, body, partition), page).await
}

/// The index of this name, `None` where DynamoDB describes none.
async fn described(
    upstream: &Upstream,
    table: &ManagedTable,
    name: &str,
) -> Result<Option<Arc<SecondaryIndex>>, Refusal> {
    let now = table.requests().now();
    if let Some(Some(index)) = table.indexes().get(name, now) {
        return Ok(Some(index));
    }
    let body = json!({ "TableName": table.name() }).to_string().into_bytes();
    let answer = upstream.exchange("DescribeTable", body, None).await.map(Answer::from);
    let answer = answer.map_err(|error| refused(&error))?;
    if !answer.is_success() {
        return Err(Refusal::unavailable(format!(
            "dynashard: the indexes of {} are not known, since DynamoDB does not describe it: {}",
            table.name(),
            String::from_utf8_lossy(&answer.body)
        )));
    }
    table.indexes().learn(described_in(&answer.members(), table.schema()), now);
    Ok(table.indexes().get(name, now).flatten())
}
