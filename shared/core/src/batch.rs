use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use dynashard_keys::{ItemKey, PartitionKey, PhysicalKey, ShardCount};
use futures_util::stream::{self, FuturesUnordered, StreamExt};

use crate::cost::Cost;
use crate::directory::Known;
use crate::fan_out::FAN_OUT;
use crate::ports::{
    BatchPage, Clock, Consistency, Entropy, ItemStore, MAX_KEYS_PER_BATCH_GET, MetadataStore,
};
use crate::read::Lookup;
use crate::retry::{Attempts, refusal, within};
use crate::{
    Code, Deadline, Error, Fields, Generation, NewItem, Precondition, Reader, StoredItem, Writer,
};

/// The most operations of one batch write.
pub const MAX_BATCH_OPERATIONS: usize = 1_000;

/// The most keys of one batch read.
pub const MAX_BATCH_GETS: usize = 100;

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
    /// The whole reason, for logs, where an operator has to look.
    pub failures: Vec<(ItemKey, Error)>,
}

/// What a batch read returned: every key is found, absent, or listed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BatchGot {
    /// The items that exist.
    pub items: Vec<(ItemKey, StoredItem)>,
    /// Keys that were not looked up in time, and why.
    pub unprocessed: Vec<(ItemKey, Code)>,
    /// The whole reason, for logs, where an operator has to look.
    pub failures: Vec<(ItemKey, Error)>,
    /// The items that were read and paid for, markers and repetitions included.
    pub items_read: u64,
    /// The read units that DynamoDB reported. A key without an item takes some, too.
    pub consumed_rcu: f64,
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
        // All of them are begun, and take turns at the writer's slots: one that waits because its
        // partition is hot holds nobody up.
        let results = requests.collect::<FuturesUnordered<_>>().collect::<Vec<_>>().await;
        let mut outcome = BatchWritten::default();
        for (operation, result) in results {
            match result {
                Ok(()) => outcome.written += 1,
                Err(error) => {
                    let key = operation.key();
                    outcome.unprocessed.push((key.clone(), error.code()));
                    outcome.failures.extend(error.needs_operator().then(|| (key.clone(), error)));
                }
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
        fields: Option<&Fields>,
        consistency: Consistency,
        deadline: Deadline,
    ) -> Result<BatchGot, Error> {
        if keys.len() > MAX_BATCH_GETS {
            let why = format!("{} keys; at most 100 are allowed", keys.len());
            return Err(Error::new(Code::BadParameter, why));
        }
        refuse_duplicates(keys.iter())?;
        let mut attempts = Attempts::new(self.clock(), self.directory().entropy(), deadline);
        let mut progress = Progress::default();
        let mut keys = keys;
        loop {
            let Left { keys: left, ahead } =
                self.read_once(&keys, &mut progress, fields, consistency, deadline).await;
            let Some(code) = left.values().next() else {
                return Ok(progress.finish(left));
            };
            let another = if ahead {
                attempts.refresh().await
            } else {
                attempts.pause(Error::new(*code, "keys were left unprocessed")).await
            };
            if another.is_err() {
                return Ok(progress.finish(left));
            }
            keys = left.into_keys().collect();
        }
    }

    /// Asks once for everything that may hold one of `keys` and did not answer yet, and returns the
    /// keys that are still neither found nor known to be absent.
    async fn read_once(
        &self,
        keys: &[ItemKey],
        progress: &mut Progress,
        fields: Option<&Fields>,
        consistency: Consistency,
        deadline: Deadline,
    ) -> Left {
        // That a collection is absent is not cached, and must not be asked for every key of it.
        let mut distinct = HashSet::new();
        let partitions =
            keys.iter().map(|key| &key.partition).filter(|partition| distinct.insert(*partition));
        // Metadata that does not come in half of the time leaves the rest to the others' items.
        let half = deadline.earlier_by(deadline.remaining(self.clock().now()) / 2);
        let readable = partitions
            .map(|partition| async move { (partition, self.readable(partition, half).await) });
        let readable = stream::iter(readable.collect::<Vec<_>>()).buffer_unordered(FAN_OUT);
        let mut collections = readable.collect::<BTreeMap<_, _>>().await;
        let now = self.clock().now();
        for (partition, read) in &mut collections {
            // The others may have waited for the slowest for longer than their leases last.
            if matches!(read, Ok(Some((known, _))) if !known.lease.is_fresh(now)) {
                *read = self.readable(partition, deadline).await;
            }
        }
        let mut homes = BTreeMap::<PhysicalKey, (&ItemKey, &Known)>::new();
        let mut moving = Vec::new();
        for key in keys {
            match collections.get(&key.partition) {
                Some(Ok(Some((known, _)))) if known.metadata.reshard().is_some() => {
                    moving.push(key);
                }
                Some(Ok(Some((known, readable)))) => {
                    let generation = known.metadata.generation;
                    let unread = self
                        .possible_homes(key, known, *readable)
                        .filter(|home| !progress.answered.contains(&(generation, home.clone())));
                    homes.extend(unread.map(|home| (home, (key, known))));
                }
                Some(Ok(None)) | None => {}
                // One collection's trouble is not another's.
                Some(Err(error)) => progress.give_up(key, error),
            }
        }

        self.read_moving(moving, progress, fields, deadline).await;
        let asked = homes.keys().cloned().collect::<Vec<_>>();
        let requests = asked.chunks(MAX_KEYS_PER_BATCH_GET).map(|chunk| async move {
            let request = self.items().batch_get(chunk, fields, consistency);
            let answer = within(self.clock(), deadline, request).await;
            (chunk, answer, self.clock().now())
        });
        let requests = requests.collect::<Vec<_>>();
        let answers = stream::iter(requests).buffer_unordered(FAN_OUT).collect::<Vec<_>>().await;

        let mut left = Left::default();
        for (chunk, answer, answered_at) in answers {
            let nothing = || BatchPage { unprocessed: chunk.to_vec(), ..BatchPage::default() };
            let (page, code) = match answer {
                Some(Ok(page)) => (page, Code::Throttled),
                Some(Err(error)) => match refusal(error) {
                    Ok(refused) => (nothing(), refused.code()),
                    Err(error) => {
                        let keys = chunk.iter().filter_map(|at| homes.get(at));
                        keys.for_each(|(key, _)| progress.give_up(key, &error));
                        continue;
                    }
                },
                None => (nothing(), Code::DeadlineExceeded),
            };
            let items_read = page.items.len() + page.damaged.len();
            let items_read = u64::try_from(items_read).unwrap_or(u64::MAX);
            progress.cost += Cost { items_read, consumed_rcu: page.consumed_rcu };
            let unprocessed = page.unprocessed.iter().collect::<HashSet<_>>();
            let mut damaged = page.damaged.into_iter().collect::<HashMap<_, _>>();
            let mut items = page.items.into_iter().collect::<HashMap<_, _>>();
            for (home, (key, known)) in chunk.iter().filter_map(|at| homes.get_key_value(at)) {
                let (key, generation) = (ItemKey::clone(key), known.metadata.generation);
                let item = items.remove(home);
                if unprocessed.contains(home) {
                    left.keys.insert(key, code);
                } else if !known.lease.is_live(answered_at) {
                    // What was read after the lease is thrown away (protocol: "Lease").
                    left.keys.insert(key, Code::Unavailable);
                } else if let Some(why) = damaged.remove(home) {
                    progress.give_up(&key, &Error::new(Code::CorruptData, why));
                } else if item.as_ref().is_some_and(|item| item.generation > generation) {
                    self.directory().forget(&key.partition);
                    left.ahead = true;
                    left.keys.insert(key, Code::MetadataBehind);
                } else {
                    progress.answered.insert((generation, home.clone()));
                    if let Some(item) = item.filter(StoredItem::is_live) {
                        progress.found.insert(key, item);
                    }
                }
            }
        }
        // A copy in one shard answers for an item whose other possible shards were not read.
        left.keys.retain(|key, _| !progress.is_settled(key));
        left
    }

    /// Reads items of collections that are being resharded, each by itself: where one is may take two
    /// requests to say.
    async fn read_moving(
        &self,
        keys: Vec<&ItemKey>,
        progress: &mut Progress,
        fields: Option<&Fields>,
        deadline: Deadline,
    ) {
        let reads = keys.into_iter().map(|key| async move {
            let consistency = Consistency::Strong;
            (key, self.look_up(Lookup { key, fields, consistency, deadline }).await)
        });
        let reads = reads.collect::<Vec<_>>();
        let found = stream::iter(reads).buffer_unordered(FAN_OUT).collect::<Vec<_>>().await;
        for (key, item) in found {
            match item {
                Ok((item, cost)) => {
                    progress.cost += cost;
                    progress.found.extend(item.map(|item| (key.clone(), item)));
                }
                Err(error) => progress.give_up(key, &error),
            }
        }
    }

    /// A collection and the count that reads of it cover, or `None` where there is none.
    async fn readable(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<Option<(Known, ShardCount)>, Error> {
        let known = self.directory().find(partition, deadline).await?;
        Ok(known.map(|known| {
            let readable = known.metadata.layout().readable;
            (known, readable)
        }))
    }
}

/// What a batch read knows so far.
#[derive(Default)]
struct Progress {
    found: BTreeMap<ItemKey, StoredItem>,
    /// The places that were looked into, each with the layout by which it was one: an item of a
    /// random collection is absent only after all of them.
    answered: HashSet<(Generation, PhysicalKey)>,
    /// The keys that another attempt would not help, and why.
    given_up: BTreeMap<ItemKey, Error>,
    cost: Cost,
}

impl Progress {
    fn give_up(&mut self, key: &ItemKey, error: &Error) {
        self.given_up.insert(key.clone(), error.clone());
    }

    fn is_settled(&self, key: &ItemKey) -> bool {
        self.found.contains_key(key) || self.given_up.contains_key(key)
    }

    /// What the batch returns when `left` could not be read.
    fn finish(self, left: BTreeMap<ItemKey, Code>) -> BatchGot {
        let Self { found, given_up, cost, .. } = self;
        let Cost { items_read, consumed_rcu } = cost;
        // A copy in one shard answers for an item that another shard failed to.
        let failed = given_up.into_iter().filter(|(key, _)| !found.contains_key(key));
        let failed = failed.collect::<Vec<_>>();
        let codes = failed.iter().map(|(key, error)| (key.clone(), error.code()));
        let unprocessed = left.into_iter().chain(codes).collect();
        let failures = failed.into_iter().filter(|(_, error)| error.needs_operator()).collect();
        let items = found.into_iter().collect();
        BatchGot { items, unprocessed, failures, items_read, consumed_rcu }
    }
}

/// The keys that a batch read could not settle, and why.
#[derive(Default)]
struct Left {
    keys: BTreeMap<ItemKey, Code>,
    /// An item showed that metadata is out of date.
    ahead: bool,
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
