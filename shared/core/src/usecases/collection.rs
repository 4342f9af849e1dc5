//! `GET /collection`: the metadata of a collection with its job, its demand and its last decision.

use std::time::Duration;

use dynashard_keys::PartitionKey;
use futures_util::future::join;

use crate::decide::rates::Rates;
use crate::model::error::{Code, Error};
use crate::model::history::{DecisionHistory, DecisionRecord};
use crate::model::lease::Deadline;
use crate::model::ledger::LedgerKind;
use crate::model::metadata::CollectionMetadata;
use crate::model::reshard::Job;
use crate::ports::Consistency;
use crate::usecases::directory::{Directory, Known};
use crate::usecases::query::Query;
use crate::usecases::query::cursor::Position;
use crate::usecases::query::feeds::shard_page;

/// What a collection is asked for, and what was last decided about it. Either may be unknown by itself.
#[derive(Debug)]
pub struct Activity {
    /// The rates of the last seconds, or else of the last complete minute; `None` where nothing was reported.
    pub demand: Result<Option<Rates>, Error>,
    /// The newest decision; `None` where none was kept.
    pub last_decision: Result<Option<DecisionRecord>, Error>,
}

/// What is told beside an answer does not hold that up.
const TIME_FOR_ACTIVITY: Duration = Duration::from_secs(1);

/// The metadata of a collection, and the job of a running reshard, as they are now: a client that has
/// just asked for another count is to see it.
pub(crate) async fn collection(
    directory: &Directory,
    partition: &PartitionKey,
    deadline: Deadline,
) -> Result<(CollectionMetadata, Option<Job>), Error> {
    let known = directory.read_now(partition, deadline).await?;
    if !known.metadata.is_enlisted() && !holds_items(directory, &known, deadline).await? {
        let why = "no item lies under this partition key";
        return Err(Error::new(Code::CollectionNotFound, why));
    }
    let job = match known.metadata.reshard() {
        Some(_) => directory.records().job(partition, deadline).await?.0,
        None => None,
    };
    let job = job.filter(|job| job.generation == known.metadata.generation);
    Ok((CollectionMetadata::clone(&known.metadata), job))
}

/// What a collection is asked for, and what was last decided about it: two requests, or three of a
/// collection that nothing throttles. It takes a second at most.
pub(crate) async fn activity(
    directory: &Directory,
    metadata: &CollectionMetadata,
    deadline: Deadline,
) -> Activity {
    let soon = Deadline::after(directory.now(), TIME_FOR_ACTIVITY);
    let deadline = deadline.min(soon);
    let decisions = directory.records().decisions(&metadata.partition, deadline);
    let (demand, decisions) = join(demand(directory, metadata, deadline), decisions).await;
    // One that is made again keeps its place in the history.
    let newest = |history: DecisionHistory| {
        history.records.into_iter().max_by_key(|record| record.last_secs)
    };
    let last_decision = decisions.map(newest);
    Activity { demand, last_decision }
}

async fn demand(
    directory: &Directory,
    metadata: &CollectionMetadata,
    deadline: Deadline,
) -> Result<Option<Rates>, Error> {
    let partition = &metadata.partition;
    let heat = directory.records().ledger(partition, LedgerKind::Heat, deadline).await?;
    let (shards, limits) = (metadata.number_of_shards, directory.settings().partition);
    if let Some(rates) = Rates::of_seconds(&heat, shards, limits, directory.now().wall) {
        return Ok(Some(rates));
    }
    // Nobody reports by the minute what has no metadata.
    if !metadata.is_enlisted() {
        return Ok(None);
    }
    let load = directory.records().ledger(partition, LedgerKind::Load, deadline).await?;
    Ok(Rates::of_minute(&load, directory.now().wall))
}

/// Whether anything lies in the first shard of a collection.
async fn holds_items(
    directory: &Directory,
    known: &Known,
    deadline: Deadline,
) -> Result<bool, Error> {
    let all = Query::all(known.metadata.partition.clone());
    let query = Query { consistency: Consistency::Strong, ..all };
    let placement = known.metadata.placement;
    let page =
        shard_page(directory, &query, placement, placement.first(), &Position::Start, 1, deadline)
            .await?;
    Ok(!page.items.is_empty())
}
