//! Many puts and deletes in one request.

use std::collections::{HashMap, VecDeque};

use dynashard_keys::{ItemKey, PartitionKey};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::model::error::{Code, Error};
use crate::model::item::NewItem;
use crate::model::lease::Deadline;
use crate::usecases::batch::refuse_duplicates;
use crate::usecases::write::{Precondition, SlowStart, WriteContext, delete, put};

/// The most operations of one batch write.
pub const MAX_BATCH_OPERATIONS: usize = 1_000;

/// One operation of a batch write.
#[derive(Debug, Clone, PartialEq)]
pub enum BatchOperation {
    /// Store this item.
    Put(NewItem),
    /// Remove the item with this key.
    Delete(ItemKey),
}

impl BatchOperation {
    /// The key of the item that is written or removed.
    pub fn key(&self) -> &ItemKey {
        match self {
            Self::Put(item) => item.key(),
            Self::Delete(key) => key,
        }
    }
}

/// The result of a batch write: every operation is counted or listed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BatchWritten {
    /// How many operations took effect.
    pub written: usize,
    /// The operations that did not take effect, or may not have, and why.
    pub unprocessed: Vec<(ItemKey, Code)>,
    /// The full errors that an operator has to look at, for logs.
    pub failures: Vec<(ItemKey, Error)>,
    /// The write units that DynamoDB reported for the operations that took effect.
    pub consumed_wcu: f64,
}

/// Carries out independent writes, interleaved over partition keys so that no collection waits
/// for another's hot partition. Operations that were not begun by the deadline are listed.
pub(crate) async fn write(
    context: &WriteContext,
    operations: Vec<BatchOperation>,
    deadline: Deadline,
) -> Result<BatchWritten, Error> {
    if operations.len() > MAX_BATCH_OPERATIONS {
        let why = format!(
            "the batch has {} operations; at most {MAX_BATCH_OPERATIONS} are allowed",
            operations.len()
        );
        return Err(Error::new(Code::BadParameter, why));
    }
    refuse_duplicates(operations.iter().map(BatchOperation::key))?;
    let operations = interleave(operations);
    let partitions = operations.iter().map(|operation| operation.key().partition.clone());
    let starts = partitions.map(|partition| (partition, SlowStart::new()));
    let starts = starts.collect::<HashMap<_, _>>();
    let requests = operations.into_iter().map(|operation| {
        let start = &starts[&operation.key().partition];
        async move {
            let result = run(context, &operation, start, deadline).await;
            (operation, result)
        }
    });
    // All of them are begun, and take turns at the writer's slots: one that waits because its
    // partition is hot holds nobody up.
    let results = requests.collect::<FuturesUnordered<_>>().collect::<Vec<_>>().await;
    let mut outcome = BatchWritten::default();
    for (operation, result) in results {
        match result {
            Ok(consumed_wcu) => {
                outcome.written += 1;
                outcome.consumed_wcu += consumed_wcu;
            }
            Err(error) => {
                let key = operation.key();
                outcome.unprocessed.push((key.clone(), error.code()));
                outcome.failures.extend(error.needs_operator().then(|| (key.clone(), error)));
            }
        }
    }
    Ok(outcome)
}

/// Carries out one operation, and returns the write units that it consumed.
async fn run(
    context: &WriteContext,
    operation: &BatchOperation,
    start: &SlowStart,
    deadline: Deadline,
) -> Result<f64, Error> {
    if deadline.remaining(context.clock().now()).is_zero() {
        return Err(Error::new(Code::DeadlineExceeded, "the batch ran out of time"));
    }
    match operation {
        BatchOperation::Put(item) => {
            let version = context.draw_version();
            let written =
                put(context, item, version, Precondition::None, Some(start), deadline).await?;
            Ok(written.consumed_wcu)
        }
        BatchOperation::Delete(key) => {
            let deleted = delete(context, key, Precondition::None, Some(start), deadline).await?;
            Ok(deleted.consumed_wcu)
        }
    }
}

/// The operations in turns over their partition keys, those of one key in their own order.
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
