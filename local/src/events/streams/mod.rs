//! Event source mappings: records of a table's stream on their way to a function, as Lambda's
//! pollers carry them ("Using AWS Lambda with Amazon DynamoDB" in Lambda's developer guide).
//!
//! ```text
//! engine --[source]--> [reader] --filter--> [lane] --batch--> function
//!                      one for each         one for each of   |
//!                      stream shard         ParallelizationFactor
//!                                              |
//!                                              +--discarded--> queue
//! ```
//!
//! A [`reader`] passes each record to the lane of its item, so the records of one item stay in
//! order. A [`lane`] gathers a batch and carries it to its end before the next; what to do after an
//! answer is decided by [`delivery`], which knows no clock and no function.
//!
//! **Positions are not kept.** Each start of a stack begins at the mapping's starting position, so
//! a stack on a data directory that was used before delivers the records of the last day again,
//! save those that are too old by then. Lambda, too, may deliver a record more than once.

mod answer;
mod delivery;
mod failure;
mod lane;
mod reader;
mod record;
mod source;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use lane::Lane;
use reader::Reader;
use source::{Source, SourceError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::access::Access;
use crate::clock::SharedClock;
use crate::dynamodb::engine::Store;
use crate::lambda::Pool;
use crate::plan::StreamMapping;
use crate::queues::Queues;
use crate::server::{Stop, until_stopped};

/// One event source mapping at work.
#[derive(Debug)]
pub(super) struct Pump {
    pub(super) mapping: StreamMapping,
    /// The engine.
    pub(super) store: Store,
    pub(super) pool: Arc<Pool>,
    pub(super) queues: Arc<Queues>,
    pub(super) access: Arc<Access>,
    pub(super) clock: SharedClock,
}

impl Pump {
    /// Carries records until `stop` says so, and returns when none of its tasks is left.
    pub(super) async fn run(self: Arc<Self>, stop: Stop) {
        let mut tasks = JoinSet::new();
        until_stopped(self.carry(&mut tasks), stop).await;
        tasks.shutdown().await;
    }

    async fn carry(self: &Arc<Self>, tasks: &mut JoinSet<()>) {
        let source = Source {
            store: self.store.clone(),
            table: self.mapping.table.clone(),
            function: self.pool.function.name.clone(),
            access: Arc::clone(&self.access),
        };
        let find = async || {
            let stream_arn = source.stream().await?;
            let shards = source.shards(&stream_arn).await?;
            Ok::<_, SourceError>((stream_arn, shards))
        };
        let (stream_arn, shards) = loop {
            match find().await {
                Ok(found) => break found,
                Err(error) => {
                    let table = &self.mapping.table;
                    tracing::warn!(table, %error, "a stream was not found; it is looked for again");
                    self.clock.sleep(ERROR_PAUSE).await;
                }
            }
        };
        // The engine splits no stream shard, so those that there are now are all there will be.
        for shard in shards {
            let lanes = (0..self.mapping.lanes).map(|_| {
                let (pages, received) = mpsc::channel(PAGES_AHEAD);
                let (pump, stream_arn) = (Arc::clone(self), stream_arn.clone());
                let lane = Lane { pump, stream_arn, shard: shard.clone(), pages: received };
                tasks.spawn(lane.run());
                pages
            });
            let lanes = lanes.collect();
            let reader = Reader {
                source: source.clone(),
                stream_arn: stream_arn.clone(),
                lanes,
                shard,
                mapping: self.mapping.clone(),
                clock: Arc::clone(&self.clock),
            };
            tasks.spawn(reader.run());
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                let function = &self.pool.function.name;
                tracing::error!(function, %error, "a stream is not read any more");
            }
        }
    }
}

/// How many pages of records wait for a lane before its reader does. A lane that is held up by a
/// failing batch holds up the other lanes of its stream shard only then.
const PAGES_AHEAD: usize = 32;

/// The pause after the engine did not answer.
const ERROR_PAUSE: Duration = Duration::from_secs(1);
