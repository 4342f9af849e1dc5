//! Writes that are part of a transaction: whoever sends it tells what came of them, so that their collections grow, and do not
//! shrink, by them as by single writes.

use dynashard_keys::ItemKey;

use crate::model::error::{Code, Error};
use crate::model::lease::Deadline;
use crate::model::throttle::Throttle;
use crate::usecases::write::context::WriteContext;
use crate::usecases::write::operation::Operation;

/// What came of a part of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It was carried out.
    Done,
    /// A limit of DynamoDB's refused it.
    Throttled(Throttle),
    /// What lies there refused it, or another part.
    Refused,
    /// Another part met a limit, or another transaction: its client sends it again, and demands no more by that.
    Cancelled,
}

/// Takes note of a write that asked for so many write units, and does what follows from its throttle.
pub(crate) async fn note(
    context: &WriteContext,
    key: &ItemKey,
    units: f64,
    fate: Fate,
    deadline: Deadline,
) {
    let mut operation = Operation::arriving(context, key, Some(units), deadline);
    let error = match fate {
        Fate::Done => {
            operation.consumed_wcu = units;
            None
        }
        Fate::Throttled(throttle) => {
            let known = context.directory.cached(&key.partition);
            let home = known.and_then(|known| {
                let metadata = known.metadata.at(&key.sort);
                metadata.placement.home(key, metadata.layout().writable)
            });
            if let Some(shard) = home {
                operation.was_throttled(shard, throttle.clone());
            }
            Some(Error::throttled(throttle))
        }
        Fate::Refused => {
            Some(Error::new(Code::PreconditionFailed, "a part of the transaction was refused"))
        }
        Fate::Cancelled => {
            context.watch.meter.refused(key, context.clock().now());
            Some(Error::new(Code::Contended, "the transaction was cancelled"))
        }
    };
    operation.end(error.as_ref()).await;
}
