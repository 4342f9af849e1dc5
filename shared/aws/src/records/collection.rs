//! The metadata of a collection, as DynamoDB holds it. The names must be kept stable.

use aws_sdk_dynamodb::types::AttributeValue;
use dynashard_core::ports::StoreError;
use dynashard_core::{CollectionMetadata, Epoch, Epochs, Phase};
use dynashard_keys::PartitionKey;

use crate::records::codec::{Field, Fill, Item, Reader, decode_map, member};

/// What must be as it was seen.
pub(super) const LOCK: &[&str] = &["rev", LAST_UPDATED];

/// The attributes that an item has only at times.
pub(super) const OPTIONAL: &[&str] =
    &["from", "to", EPOCHS, DESCENDING, CHANGING, CLEANUP_PENDING, ACTIVE, ITEMS_MOVED];

/// The older epochs, oldest first: a list of maps of `number_of_shards` and `boundary`.
const EPOCHS: &str = "_ds_epochs";

/// Present, and true, where newer keys sort lower.
const DESCENDING: &str = "_ds_descending";

/// Which of the older epochs a running change is about, where it is not the newest.
const CHANGING: &str = "_ds_changing";

const LAST_UPDATED: &str = "last_updated";

/// The key attribute of the sparse index of collections. Its value is the same text for collections in which a change
/// of the shard count runs or is to be cleared up.
pub const ACTIVE: &str = "_ds_active";

/// The value for collections that rest with more shards than their floor.
pub(super) const GROWN: &str = "_ds_grown";

/// How many items the last change has moved. Items of which none has moved do not have it.
const ITEMS_MOVED: &str = "_ds_moved";

/// Present, and true, from the close of a change until its job is removed.
const CLEANUP_PENDING: &str = "cleanup_pending";

/// The largest shard count ever. Items that earlier software wrote do not have it.
const LARGEST_COUNT: &str = "_ds_max_shards";

pub(super) fn encode(metadata: &CollectionMetadata) -> Item {
    let mut item = Item::new();
    item.put("number_of_shards", &metadata.number_of_shards);
    item.put(LAST_UPDATED, &metadata.last_updated_secs);
    item.put("shard_history", &metadata.shard_history);
    item.put("generation", &metadata.generation);
    item.put("phase", &metadata.phase.as_str().to_owned());
    item.put("placement", &metadata.placement.as_str().to_owned());
    item.put("rev", &metadata.rev);
    item.put("min_shards", &metadata.min_shards);
    item.put(LARGEST_COUNT, &metadata.largest_count);
    if let Phase::Forward { from, to } | Phase::Move { from, to } = metadata.phase {
        item.put("from", &from);
        item.put("to", &to);
    }
    item.put_unless_default(EPOCHS, &metadata.epochs.older);
    item.put_unless_default(DESCENDING, &metadata.epochs.descending);
    let changing = metadata.epochs.changing.and_then(|at| u32::try_from(at).ok());
    item.put_if_any(CHANGING, changing.as_ref());
    item.put_unless_default(CLEANUP_PENDING, &metadata.cleanup_pending);
    item.put_unless_default(ITEMS_MOVED, &metadata.items_moved);
    if metadata.needs_rebalancing() {
        item.put(ACTIVE, &ACTIVE.to_owned());
    } else if metadata.may_shrink() {
        item.put(ACTIVE, &GROWN.to_owned());
    }
    item
}

pub(super) fn decode(
    partition: &PartitionKey,
    item: &Item,
) -> Result<CollectionMetadata, StoreError> {
    let what = format!("the metadata item of {partition:?}");
    let fields = Reader { what: &what, item };
    let number_of_shards = fields.get("number_of_shards")?;
    let phase = match fields.get::<String>("phase")?.as_str() {
        "stable" => {
            if let Some(field) = ["from", "to"].into_iter().find(|field| item.contains_key(*field))
            {
                return Err(fields.wrong(field, "is there, although the phase is stable"));
            }
            Phase::Stable
        }
        "forward" => Phase::Forward { from: fields.get("from")?, to: fields.get("to")? },
        "move" => Phase::Move { from: fields.get("from")?, to: fields.get("to")? },
        other => return Err(fields.wrong("phase", format!("{other:?} is not a phase"))),
    };
    let mut metadata = CollectionMetadata {
        partition: partition.clone(),
        number_of_shards,
        epochs: Epochs {
            older: fields.or_default(EPOCHS)?,
            descending: fields.or_default(DESCENDING)?,
            changing: fields.optional::<u32>(CHANGING)?.and_then(|at| usize::try_from(at).ok()),
        },
        last_updated_secs: fields.get(LAST_UPDATED)?,
        shard_history: fields.get("shard_history")?,
        generation: fields.get("generation")?,
        phase,
        placement: fields.parsed("placement")?,
        rev: fields.get("rev")?,
        min_shards: fields.get("min_shards")?,
        largest_count: number_of_shards,
        cleanup_pending: fields.or_default(CLEANUP_PENDING)?,
        items_moved: fields.or_default(ITEMS_MOVED)?,
    };
    let largest_count = fields.optional(LARGEST_COUNT)?;
    metadata.largest_count = largest_count.unwrap_or_else(|| metadata.most_shards());
    Ok(metadata)
}

impl Field for Epoch {
    fn encode(&self) -> AttributeValue {
        let mut epoch = Item::new();
        epoch.put("number_of_shards", &self.count);
        epoch.put("boundary", &self.boundary);
        AttributeValue::M(epoch)
    }

    fn decode(value: &AttributeValue) -> Result<Self, String> {
        decode_map(value, "is not an epoch", |epoch| {
            let (count, boundary) =
                (member(epoch, "number_of_shards")?, member(epoch, "boundary")?);
            Some(Self { count, boundary })
        })
    }
}
