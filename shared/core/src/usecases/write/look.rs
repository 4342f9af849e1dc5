//! Sends a put, and looks once whether it took effect if its fate is unknown.

use std::time::Duration;

use dynashard_keys::ShardId;

use crate::model::error::Kind;
use crate::model::guard::Write;
use crate::model::item::StoredItem;
use crate::model::version::Version;
use crate::ports::Consistency;
use crate::usecases::directory::Known;
use crate::usecases::retry::within;
use crate::usecases::settle::{Settling, Unsettled};
use crate::usecases::write::home::homes_of;
use crate::usecases::write::operation::{Interrupted, Operation};
use crate::usecases::write::send::Sent;

/// What a put that is not answered keeps of its time, to look whether it arrived. A strong read takes
/// milliseconds.
const LOOK_TIME: Duration = Duration::from_millis(300);

/// Sends the put of this version. If its fate is unknown, one look may prove that it took effect; if
/// not, the error says by which version the client can tell.
pub(super) async fn send_put(
    operation: &mut Operation<'_>,
    write: &Write,
    shard: ShardId,
    known: &Known,
    version: Version,
) -> Result<Sent, Interrupted> {
    let answer_by = operation.deadline.earlier_by(LOOK_TIME);
    match operation.send(write, shard, known, answer_by).await {
        Err(Interrupted::Failed(error)) if error.kind() == Kind::OutcomeUnknown => {
            if finds(operation, version, shard).await {
                return Ok(Sent::Done);
            }
            Err(Interrupted::Failed(error.of_version(version)))
        }
        sent => sent,
    }
}

/// Whether a reader finds this version of the item now (protocol: "A look at what is in doubt").
/// That it does not find it proves nothing.
async fn finds(operation: &mut Operation<'_>, version: Version, shard: ShardId) -> bool {
    let (directory, items) = (&operation.context.directory, operation.context.items());
    let Ok(known) = directory.find_for(operation.key, operation.deadline).await else {
        return false;
    };
    let metadata = &known.metadata;
    let at = |shard| operation.at(shard, &known);
    // Only the write of an item of a random collection knows its shard.
    let home = metadata.placement.home(operation.key, metadata.layout().writable).unwrap_or(shard);
    if metadata.placement.shards(metadata.layout().readable).all(|read| read != home) {
        return false;
    }
    let mut consumed_wcu = 0.0;
    let read = async {
        let _slot = operation.context.slots.acquire().await;
        let Some((homes, _)) = homes_of(operation, &known) else {
            let found = items.get(&at(home), None, Consistency::Strong).await?.value;
            return Ok::<_, Unsettled>(found.filter(StoredItem::is_live));
        };
        let both = items.get_both([&homes.new, &homes.old], None).await?.value;
        match both.map(|item| item.filter(StoredItem::is_live)) {
            [None, Some(seen)] if seen.version == version => {
                let mut settling = Settling::new(items, &homes, &known);
                let moved = settling.bring_observed(seen).await;
                consumed_wcu = settling.consumed_wcu();
                moved.map(Some)
            }
            [at_new, _] => Ok(at_new),
        }
    };
    let found = within(operation.context.clock(), operation.deadline, read).await;
    operation.consumed_wcu += consumed_wcu;
    let Some(Ok(Some(item))) = found else {
        return false;
    };
    item.version == version
        && item.generation <= metadata.generation
        && known.lease.is_live(operation.context.clock().now())
}
