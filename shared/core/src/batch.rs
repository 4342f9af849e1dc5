use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use dynashard_keys::{ItemKey, PartitionKey, PhysicalKey};
use futures_util::stream::{self, StreamExt};

use crate::directory::{Known, refusal};
use crate::ports::{
    BatchPage, Clock, Consistency, Entropy, ItemStore, MAX_KEYS_PER_BATCH_GET, MetadataStore,
};
use crate::query::FAN_OUT;
use crate::retry::{Attempts, within};
use crate::write::check_phase;
use crate::{Code, Deadline, Error, NewItem, Precondition, Reader, StoredItem, Writer};

/// The most operations of one batch write.
pub const MAX_BATCH_OPERATIONS: usize = 1_000;

/// The most keys of one batch read.
pub const MAX_BATCH_GETS: usize = 100;

/// How many writes of a batch are under way at once. `BatchWriteItem` cannot carry the guard, so a
/// batch is single puts side by side.
const WRITES_IN_FLIGHT: usize = 64;

/// One operation of a batch write.
#[derive(Debug, Clone, PartialEq)]
pub enum BatchOperation {
    /// Store this item.
    Put(NewItem),
    /// Remove the item with this key.
    Delete(ItemKey),
}

impl BatchOperation {
    /// The key of the item that the operation is about.
    pub fn key(&self) -> &ItemKey {
        match self {
            Self::Put(item) => item.key(),
            Self::Delete(key) => key,
        }
    }
}

/// What became of a batch write: every operation is counted or listed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BatchWritten {
    /// How many operations took effect.
    pub written: usize,
    /// Those that did not, or may not have, and why.
    pub unprocessed: Vec<(ItemKey, Code)>,
}

/// What a batch read returned: every key is found, absent, or listed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BatchGot {
    /// The items that exist.
    pub items: Vec<(ItemKey, StoredItem)>,
    /// Keys that were not looked up in time, and why.
    pub unprocessed: Vec<(ItemKey, Code)>,
}

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Writer<I, M, C, E> {
    /// Carries out independent writes, interleaved over partition keys so that no collection waits
    /// for another's hot partition. At the deadline what was not begun is reported as such.
    pub async fn batch(
        &self,
        operations: Vec<BatchOperation>,
        deadline: Deadline,
    ) -> Result<BatchWritten, Error> {
        if operations.len() > MAX_BATCH_OPERATIONS {
            let why = format!("{} operations; at most 1000 are allowed", operations.len());
            return Err(Error::new(Code::BadParameter, why));
        }
        refuse_duplicates(operations.iter().map(BatchOperation::key))?;
        let requests = interleave(operations).into_iter().map(|operation| async move {
            let result = self.run(&operation, deadline).await;
            (operation, result)
        });
        let requests = requests.collect::<Vec<_>>();
        let results =
            stream::iter(requests).buffer_unordered(WRITES_IN_FLIGHT).collect::<Vec<_>>().await;
        let mut outcome = BatchWritten::default();
        for (operation, result) in results {
            match result {
                Ok(()) => outcome.written += 1,
                Err(error) => outcome.unprocessed.push((operation.key().clone(), error.code())),
            }
        }
        Ok(outcome)
    }

    async fn run(&self, operation: &BatchOperation, deadline: Deadline) -> Result<(), Error> {
        if deadline.remaining(self.clock().now()).is_zero() {
            return Err(Error::new(Code::DeadlineExceeded, "the batch ran out of time"));
        }
        match operation {
            BatchOperation::Put(item) => {
                self.put(item, Precondition::None, deadline).await.map(|_| ())
            }
            BatchOperation::Delete(key) => self.delete(key, Precondition::None, deadline).await,
        }
    }
}

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Reader<I, M, C, E> {
    /// Reads items by their keys. What DynamoDB leaves over is asked for again until the deadline.
    pub async fn batch_get(
        &self,
        keys: Vec<ItemKey>,
        consistency: Consistency,
        deadline: Deadline,
    ) -> Result<BatchGot, Error> {
        if keys.len() > MAX_BATCH_GETS {
            let why = format!("{} keys; at most 100 are allowed", keys.len());
            return Err(Error::new(Code::BadParameter, why));
        }
        refuse_duplicates(keys.iter())?;
        let mut attempts = Attempts::new(self.clock(), self.directory().entropy(), deadline);
        loop {
            if let Some(got) = self.try_batch_get(&keys, consistency, deadline).await? {
                return Ok(got);
            }
            attempts.refresh().await?;
        }
    }

    /// One pass over all keys, or `None` if metadata turned out to be out of date.
    async fn try_batch_get(
        &self,
        keys: &[ItemKey],
        consistency: Consistency,
        deadline: Deadline,
    ) -> Result<Option<BatchGot>, Error> {
        let mut collections = HashMap::<PartitionKey, Option<Known>>::new();
        for key in keys {
            if !collections.contains_key(&key.partition) {
                let known = self.directory().find(&key.partition, deadline).await?;
                known.as_ref().map_or(Ok(()), check_phase)?;
                collections.insert(key.partition.clone(), known);
            }
        }

        let mut homes = BTreeMap::<PhysicalKey, ItemKey>::new();
        for key in keys {
            if let Some(Some(known)) = collections.get(&key.partition) {
                homes.extend(self.possible_homes(key, known).map(|home| (home, key.clone())));
            }
        }
        let physical = homes.keys().cloned().collect::<Vec<_>>();
        let requests = physical
            .chunks(MAX_KEYS_PER_BATCH_GET)
            .map(|chunk| self.get_all(chunk, consistency, deadline))
            .collect::<Vec<_>>();
        let pages = stream::iter(requests).buffer_unordered(FAN_OUT).collect::<Vec<_>>().await;

        let now = self.clock().now();
        let mut current = true;
        let mut found = BTreeMap::<ItemKey, StoredItem>::new();
        let mut missed = BTreeMap::<ItemKey, Code>::new();
        for page in pages {
            let (BatchPage { items, unprocessed }, code) = page?;
            for (home, item) in items {
                let Some(key) = homes.get(&home) else { continue };
                let Some(Some(known)) = collections.get(&key.partition) else { continue };
                if item.generation > known.metadata.generation {
                    self.directory().forget(&key.partition);
                    current = false;
                }
                if item.is_live() {
                    found.insert(key.clone(), item);
                }
            }
            missed.extend(
                unprocessed
                    .iter()
                    .filter_map(|home| homes.get(home))
                    .map(|key| (key.clone(), code)),
            );
        }
        current &= collections.values().flatten().all(|known| known.lease.is_live(now));
        // A copy in one shard answers for an item whose other possible shards were not read.
        missed.retain(|key, _| !found.contains_key(key));
        Ok(current.then(|| BatchGot {
            items: found.into_iter().collect(),
            unprocessed: missed.into_iter().collect(),
        }))
    }

    /// Asks until nothing is left over, or the deadline has come. The code says why something is.
    async fn get_all(
        &self,
        keys: &[PhysicalKey],
        consistency: Consistency,
        deadline: Deadline,
    ) -> Result<(BatchPage, Code), Error> {
        let mut attempts = Attempts::new(self.clock(), self.directory().entropy(), deadline);
        let mut got = BatchPage { items: Vec::new(), unprocessed: keys.to_vec() };
        loop {
            let request = self.items().batch_get(&got.unprocessed, consistency);
            let refused = match within(self.clock(), deadline, request).await {
                Some(Ok(page)) => {
                    got.items.extend(page.items);
                    got.unprocessed = page.unprocessed;
                    if got.unprocessed.is_empty() {
                        return Ok((got, Code::Throttled));
                    }
                    Error::new(Code::Throttled, "DynamoDB left keys unprocessed")
                }
                Some(Err(error)) => refusal(error)?,
                None => return Ok((got, Code::DeadlineExceeded)),
            };
            if let Err(error) = attempts.pause(refused).await {
                return Ok((got, error.code()));
            }
        }
    }
}

fn refuse_duplicates<'a>(keys: impl Iterator<Item = &'a ItemKey>) -> Result<(), Error> {
    let mut seen = HashSet::new();
    for key in keys {
        if !seen.insert(key) {
            let why =
                format!("the key pk={} sk={} stands in the batch twice", key.partition, key.sort);
            return Err(Error::new(Code::DuplicateKey, why));
        }
    }
    Ok(())
}

/// The operations in turns over their partition keys, each key's own in their order.
fn interleave(operations: Vec<BatchOperation>) -> Vec<BatchOperation> {
    let mut position = HashMap::<PartitionKey, usize>::new();
    let mut queues = Vec::<VecDeque<BatchOperation>>::new();
    let total = operations.len();
    for operation in operations {
        let next = queues.len();
        let at = *position.entry(operation.key().partition.clone()).or_insert(next);
        if at == next {
            queues.push(VecDeque::new());
        }
        queues[at].push_back(operation);
    }
    let mut turns = Vec::with_capacity(total);
    while turns.len() < total {
        turns.extend(queues.iter_mut().filter_map(VecDeque::pop_front));
    }
    turns
}

#[cfg(test)]
mod tests {
    use dynashard_keys::SortKey;

    use super::*;

    #[test]
    fn operations_take_turns_over_partition_keys() {
        let delete = |pk: &str, sk: &str| {
            BatchOperation::Delete(ItemKey::new(
                PartitionKey::new(pk).expect("pk"),
                SortKey::string(sk).expect("sk"),
            ))
        };
        let batch = ["a1", "a2", "a3", "b1", "c1", "c2"].map(|name| delete(&name[..1], &name[1..]));
        let names = interleave(batch.to_vec())
            .iter()
            .map(|operation| format!("{}{}", operation.key().partition, operation.key().sort))
            .collect::<Vec<_>>();
        assert_eq!(names, ["a1", "b1", "c1", "a2", "c2", "a3"]);
    }
}
