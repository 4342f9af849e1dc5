//! The typed client.

use std::collections::VecDeque;

use dynashard_core::ports::Consistency;
use dynashard_keys::{ItemKey, PartitionKey, Sharded};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::whole_numbers::written_out;
use crate::{ClientError, CollectionQuery, Condition, ETag, Store};

/// Stores, finds and queries values of types that say their own key.
#[derive(Debug, Clone)]
pub struct Client<S> {
    store: S,
}

/// A value that was found, with its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored<T> {
    /// The value.
    pub value: T,
    /// For [`Condition::Version`].
    pub etag: ETag,
}

impl<S: Store> Client<S> {
    /// A client of this store.
    pub const fn new(store: S) -> Self {
        Self { store }
    }

    /// The store, for what has no type.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// The value of a key, or `None`. An eventually consistent read.
    pub async fn get<T: Sharded + DeserializeOwned>(
        &self,
        key: &ItemKey,
    ) -> Result<Option<Stored<T>>, ClientError> {
        self.read(key, Consistency::Eventual).await
    }

    /// The value under a key by a strongly consistent read, which sees every write that was answered before it began.
    pub async fn get_consistent<T: Sharded + DeserializeOwned>(
        &self,
        key: &ItemKey,
    ) -> Result<Option<Stored<T>>, ClientError> {
        self.read(key, Consistency::Strong).await
    }

    async fn read<T: DeserializeOwned>(
        &self,
        key: &ItemKey,
        consistency: Consistency,
    ) -> Result<Option<Stored<T>>, ClientError> {
        let Some(found) = self.store.get(key, consistency).await? else { return Ok(None) };
        Ok(Some(Stored { value: value(&found.json)?, etag: found.etag }))
    }

    /// Stores a value in place of what its key has. A float that is not a number, or infinite, becomes null, as in JSON.
    pub async fn put<T: Sharded + Serialize + Sync>(&self, value: &T) -> Result<ETag, ClientError> {
        self.put_if(value, &Condition::None).await
    }

    /// Stores a value on a condition.
    pub async fn put_if<T: Sharded + Serialize + Sync>(
        &self,
        value: &T,
        condition: &Condition,
    ) -> Result<ETag, ClientError> {
        let key = value.item_key()?;
        let json = serde_json::to_string(value).map_err(|source| ClientError::Json {
            what: "the value does not become JSON",
            source,
        })?;
        self.store.put(&key, &json, condition).await
    }

    /// Deletes the item of a key. To delete what does not exist succeeds, unless the condition asks for it. [`Condition::Absent`] is
    /// refused with `bad_header`.
    pub async fn delete(&self, key: &ItemKey, condition: &Condition) -> Result<(), ClientError> {
        self.store.delete(key, condition).await
    }

    /// The values of a collection, page after page. The next page is asked for when the stream is. An item that is not of this type is
    /// an error in its place, and others follow; a page that cannot be read is the end.
    pub fn query<T: Sharded + DeserializeOwned>(
        &self,
        query: &CollectionQuery,
    ) -> impl Stream<Item = Result<T, ClientError>> {
        let begin = Reading { query: query.clone(), items: VecDeque::new(), next: Next::First };
        unfold(begin, async move |mut reading| {
            loop {
                if let Some(item) = reading.items.pop_front() {
                    return Some((value(&item), reading));
                }
                let cursor = match &reading.next {
                    Next::First => None,
                    Next::Behind(cursor) => Some(cursor.as_str()),
                    Next::Nothing => return None,
                };
                let page = self.store.page(&reading.query, cursor).await;
                reading.next = Next::Nothing;
                match page {
                    Ok(page) => {
                        reading.items = page.items.into();
                        reading.next = page.cursor.map_or(Next::Nothing, Next::Behind);
                    }
                    Err(error) => return Some((Err(error), reading)),
                }
            }
        })
    }

    /// Gives a collection of this type the shards and the placement that the type says, ahead of its load.
    /// `collection_exists` if it was made or changed before.
    pub async fn create_collection<T: Sharded>(
        &self,
        partition: &PartitionKey,
    ) -> Result<(), ClientError> {
        self.store.create_collection(partition, T::PLACEMENT, T::SHARDS).await
    }
}

/// How far a query has come.
struct Reading {
    query: CollectionQuery,
    /// What is left of the page.
    items: VecDeque<Box<RawValue>>,
    next: Next,
}

/// The page to ask for.
enum Next {
    First,
    Behind(String),
    Nothing,
}

fn value<T: DeserializeOwned>(json: &RawValue) -> Result<T, ClientError> {
    serde_json::from_str(&written_out(json.get()))
        .map_err(|source| ClientError::Json { what: "the item is not of this type", source })
}
