//! A collection on a stack, and how far its reshard is.

use std::time::Instant;

use dynashard_core::{Phase, Reshard};
use dynashard_keys::{ItemKey, PartitionKey, Placement, ShardCount, SortKey};
use dynashard_local::Stack;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use http::{Method, StatusCode};
use serde_json::json;

use crate::common::{Api, Failure, LOOK_EVERY, PATIENCE, Refused, Tables};

/// Puts under way at once while a collection is loaded.
const LOADING: usize = 8;

/// One collection, through the API and through the tables.
#[derive(Debug, Clone)]
pub(crate) struct Collection {
    pub(crate) api: Api,
    pub(crate) tables: Tables,
    pub(crate) partition: PartitionKey,
}

impl Collection {
    pub(crate) async fn of(stack: &Stack, pk: &str) -> Result<Self, Failure> {
        let (api, tables) = (Api::of(stack), Tables::of(stack).await);
        Ok(Self { api, tables, partition: PartitionKey::new(pk)? })
    }

    /// The sort key of the n-th item.
    pub(crate) fn sort_key(n: u32) -> String {
        format!("{n:08}")
    }

    pub(crate) fn key(&self, sk: &str) -> Result<ItemKey, Failure> {
        Ok(ItemKey::new(self.partition.clone(), SortKey::string(sk)?))
    }

    /// Writes the first `items` items, of 1 KB each.
    pub(crate) async fn load(&self, items: u32) -> Result<(), Failure> {
        let put = async |n| loop {
            match self.put(&Self::sort_key(n)).await {
                Err(error) if is_throttled(&error) => tokio::time::sleep(LOOK_EVERY).await,
                put => return put.map(drop),
            }
        };
        put(0).await?;
        let puts = (1..items).map(put).collect::<Vec<_>>();
        stream::iter(puts).buffer_unordered(LOADING).try_collect::<()>().await
    }

    /// Puts an item of 1 KB, and returns the shard that it was written to.
    pub(crate) async fn put(&self, sk: &str) -> Result<u64, Failure> {
        let answer = self.api.put(self.partition.as_str(), sk).await?;
        Ok(answer["shard"].as_u64().ok_or("an answer without a shard")?)
    }

    /// How many of the first `items` items change their home between two counts.
    pub(crate) fn leaving(&self, items: u32, counts: [u32; 2]) -> Result<u32, Failure> {
        let [from, to] = [ShardCount::new(counts[0])?, ShardCount::new(counts[1])?];
        let mut leaving = 0;
        for n in 0..items {
            let key = self.key(&Self::sort_key(n))?;
            let moves = Placement::Xxh64.home(&key, from) != Placement::Xxh64.home(&key, to);
            leaving += u32::from(moves);
        }
        Ok(leaving)
    }

    /// Asks for another count, as soon as the last change allows it.
    pub(crate) async fn scale(&self, shards: u32) -> Result<(), Failure> {
        let path = format!("/collection/scale?pk={}", self.partition);
        self.api.json(Method::POST, &path, &json!({ "number_of_shards": shards })).await.map(drop)
    }

    /// Waits until `move` is in force, and returns what moves.
    pub(crate) async fn moving(&self) -> Result<Reshard, Failure> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let metadata = self.tables.collection(&self.partition).await?;
            if let Phase::Move { .. } = metadata.phase {
                return Ok(metadata.reshard().ok_or("a move of nothing")?);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Err("the items never began to move".into())
    }

    /// Waits until the first scan of `move` has come to the end of all sources.
    pub(crate) async fn moved(&self, reshard: &Reshard) -> Result<(), Failure> {
        let sources = reshard.sources().len();
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let job = self.tables.job(&self.partition).await?.ok_or("a move without a job")?;
            if job.scan > 1 || job.done.len() >= sources {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Err("the items were never all moved".into())
    }
}

/// Whether a partition was at its limit: a client comes back then.
fn is_throttled(error: &Failure) -> bool {
    let refused = error.downcast_ref::<Refused>();
    refused.is_some_and(|refused| refused.status == StatusCode::TOO_MANY_REQUESTS)
}
