//! The directory item, as DynamoDB holds it. The names must be kept stable.

use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use dynashard_core::ports::StoreError;
use dynashard_core::{
    Counters, DirectoryItem, Group, IndexShards, PartitionLimits, Pinned, PinnedTime,
    ScalingPolicy, StackPolicy, TableSchema,
};
use dynashard_keys::ShardCount;

use crate::attributes::number;
use crate::records::codec::{Field, Fill, Item, Reader};

/// What must be as it was seen.
pub(super) const LOCK: &[&str] = &["rev"];

/// The hashes of the keys that have metadata: 8 bytes of each, big-endian, in order. Left out if there
/// are none.
pub(super) const COLLECTIONS: &str = "collections";

/// The map of the counters of groups of segments, each by its name. It stands in place of the hashes.
pub(super) const GROUPS: &str = "_ds_groups";

/// The pinned settings: a map of what follows.
const SETTINGS: &str = "settings";

/// In every format, so that software of another one finds out.
const FORMAT: &str = "format";
const SORT_KEY_TYPE: &str = "sort_key_type";
const SEPARATOR: &str = "separator";

/// Left out where an earlier version has pinned, until a function adds it.
const STACK_ID: &str = "stack_id";

/// Left out while no function was set to one.
const TTL_ATTRIBUTES: &str = "ttl_attributes";

/// The names of a time: what is accepted; what is accepted as well, left out if that is nothing; and the
/// longest that may be in use, left out if it is what is accepted.
const LEASE: [&str; 3] = ["lease_secs", "next_lease_secs", "longest_lease_secs"];
const REQUEST_LIFETIME: [&str; 3] =
    ["request_lifetime_secs", "next_request_lifetime_secs", "longest_request_lifetime_secs"];

/// Left out while writes are not dated back.
const SIGNATURE_AGE: &str = "signature_age_secs";

/// What the stack decides by: a map of what follows. Left out until a function tells.
const POLICY: &str = "policy";
const PLACEMENT: &str = "placement";
const MAX_SHARDS: &str = "max_shards";
const GROW_KEYS: &str = "grow_keys";
const SCALING_MODE: &str = "scaling_mode";
const WRITER_SCALING: &str = "writer_scaling";
const COOLDOWN: &str = "cooldown_secs";
const WRITE_UNITS: &str = "partition_write_units";
const READ_UNITS: &str = "partition_read_units";

/// How many shards the values of write-sharded indexes have: a map of what follows. Left out until a function tells.
const INDEX_SHARDS: &str = "index_shards";
const WRITTEN: &str = "written";
const READ: &str = "read";
const CHANGED: &str = "changed_secs";

const WHAT: &str = "the directory item";

/// All but the counters, which go on whatever else is changed.
pub(super) fn encode(directory: &DirectoryItem) -> Item {
    let mut item = Item::new();
    item.put("rev", &directory.rev);
    item.put_unless_default(COLLECTIONS, &Hashes(directory.hashes().to_vec()));
    let pinned = directory.pinned.as_ref().map(|pinned| AttributeValue::M(encode_pinned(pinned)));
    item.extend(pinned.map(|pinned| (SETTINGS.to_owned(), pinned)));
    let policy = directory.policy.as_ref().map(|policy| AttributeValue::M(encode_policy(policy)));
    item.extend(policy.map(|policy| (POLICY.to_owned(), policy)));
    let shards =
        directory.index_shards.map(|shards| AttributeValue::M(encode_index_shards(shards)));
    item.extend(shards.map(|shards| (INDEX_SHARDS.to_owned(), shards)));
    item
}

/// The counters, for an item that had none.
pub(super) fn encode_groups(groups: &Counters) -> AttributeValue {
    let counters = groups.iter().map(|(group, counter)| (group.to_string(), number(*counter)));
    AttributeValue::M(counters.collect())
}

fn decode_groups(fields: Reader<'_>) -> Result<Counters, StoreError> {
    let counter = |name: &String| {
        let group = Group::named(name)
            .ok_or_else(|| fields.wrong(name, "is not a group of the directory"))?;
        Ok((group, fields.get(name)?))
    };
    fields.item.keys().map(counter).collect()
}

pub(super) fn decode(item: &Item) -> Result<DirectoryItem, StoreError> {
    let fields = Reader { what: WHAT, item };
    let rev = fields.get("rev")?;
    if rev == 0 {
        return Err(fields.wrong("rev", "is not a positive number"));
    }
    let settings = item.contains_key(SETTINGS).then(|| fields.map(SETTINGS)).transpose()?;
    let pinned = settings.map(decode_pinned).transpose()?;
    // A later format may have other attributes beside, and is refused by its number.
    if pinned.as_ref().is_some_and(|pinned| !Pinned::FORMATS.contains(&pinned.format)) {
        return Ok(DirectoryItem::stored(rev, Vec::new(), None, pinned).unwrap_or_default());
    }
    let Hashes(hashes) = fields.or_default(COLLECTIONS)?;
    let groups = item.contains_key(GROUPS).then(|| fields.map(GROUPS)).transpose()?;
    let groups = groups.map(decode_groups).transpose()?;
    if let Some(pinned) = &pinned
        && pinned.has_segments() != groups.is_some()
    {
        return Err(fields.wrong(GROUPS, format!("does not go with format {}", pinned.format)));
    }
    let mut stored = DirectoryItem::stored(rev, hashes, groups, pinned).ok_or_else(|| {
        fields.wrong(COLLECTIONS, "does not hold its hashes in order, or is beside groups")
    })?;
    let policy = item.contains_key(POLICY).then(|| fields.map(POLICY)).transpose()?;
    stored.policy = policy.map(decode_policy).transpose()?;
    let shards = item.contains_key(INDEX_SHARDS).then(|| fields.map(INDEX_SHARDS)).transpose()?;
    stored.index_shards = shards.map(decode_index_shards).transpose()?;
    Ok(stored)
}

fn encode_index_shards(shards: IndexShards) -> Item {
    let mut item = Item::new();
    item.put(WRITTEN, &shards.written().get());
    item.put(READ, &shards.read().get());
    item.put(CHANGED, &shards.changed_secs());
    item
}

fn decode_index_shards(fields: Reader<'_>) -> Result<IndexShards, StoreError> {
    let count = |name| ShardCount::new(fields.get(name)?).map_err(|why| fields.wrong(name, why));
    IndexShards::stored(count(WRITTEN)?, count(READ)?, fields.get(CHANGED)?).ok_or_else(|| {
        fields.wrong(READ, "is below what is written, or one of the two is not a power of two")
    })
}

fn encode_policy(policy: &StackPolicy) -> Item {
    let StackPolicy { placement, max_shards, grow_keys, scaling, partition } = policy;
    let mut item = Item::new();
    item.put(PLACEMENT, &placement.as_str().to_owned());
    item.put(MAX_SHARDS, &max_shards.get());
    item.put(GROW_KEYS, &grow_keys.to_string());
    item.put(SCALING_MODE, &scaling.mode.as_str().to_owned());
    item.put(WRITER_SCALING, &scaling.writers);
    item.put(COOLDOWN, &scaling.cooldown);
    item.put(WRITE_UNITS, &partition.write_units);
    item.put(READ_UNITS, &partition.read_units);
    item
}

fn decode_policy(fields: Reader<'_>) -> Result<StackPolicy, StoreError> {
    let max_shards = ShardCount::new(fields.get(MAX_SHARDS)?);
    Ok(StackPolicy {
        placement: fields.parsed(PLACEMENT)?,
        max_shards: max_shards.map_err(|why| fields.wrong(MAX_SHARDS, why))?,
        grow_keys: fields.parsed(GROW_KEYS)?,
        scaling: ScalingPolicy {
            mode: fields.parsed(SCALING_MODE)?,
            writers: fields.get(WRITER_SCALING)?,
            cooldown: fields.get(COOLDOWN)?,
        },
        partition: PartitionLimits {
            write_units: fields.get(WRITE_UNITS)?,
            read_units: fields.get(READ_UNITS)?,
        },
    })
}

fn encode_pinned(pinned: &Pinned) -> Item {
    let Pinned {
        format,
        revision,
        stack_id,
        schema,
        lease_term,
        request_lifetime,
        signature_age,
        ttl_attributes,
    } = pinned;
    let mut settings = Item::new();
    settings.put(FORMAT, format);
    settings.put("revision", revision);
    settings.put("partition_key_name", &schema.partition_key_name);
    settings.put("sort_key_name", &schema.sort_key_name);
    settings.put(SORT_KEY_TYPE, &schema.sort_key_type.as_str().to_owned());
    settings.put(SEPARATOR, &schema.separator.as_str().to_owned());
    for ([accepted, next, longest], time) in
        [(LEASE, lease_term), (REQUEST_LIFETIME, request_lifetime)]
    {
        settings.put(accepted, &time.accepted);
        settings.put_if_any(next, time.next.as_ref());
        let longer = Some(&time.longest).filter(|longest| **longest != time.accepted);
        settings.put_if_any(longest, longer);
    }
    settings.put_unless_default(SIGNATURE_AGE, signature_age);
    settings.put_if_any(STACK_ID, stack_id.as_ref());
    settings.put_unless_default(TTL_ATTRIBUTES, ttl_attributes);
    settings
}

fn decode_pinned(fields: Reader<'_>) -> Result<Pinned, StoreError> {
    let format = fields.get(FORMAT)?;
    if !Pinned::FORMATS.contains(&format) {
        // The rest may mean something else.
        let settings = dynashard_core::Settings::default();
        return Ok(Pinned { format, ..Pinned::of(&settings) });
    }
    let time = |[accepted, next, longest]: [&str; 3]| {
        let accepted: Duration = fields.get(accepted)?;
        let longest = fields.optional(longest)?.unwrap_or(accepted);
        Ok::<_, StoreError>(PinnedTime { accepted, next: fields.optional(next)?, longest })
    };
    let schema = TableSchema {
        partition_key_name: fields.get("partition_key_name")?,
        sort_key_name: fields.get("sort_key_name")?,
        sort_key_type: fields.parsed(SORT_KEY_TYPE)?,
        separator: fields.parsed(SEPARATOR)?,
    };
    Ok(Pinned {
        format,
        revision: fields.get("revision")?,
        stack_id: fields.optional(STACK_ID)?,
        schema,
        lease_term: time(LEASE)?,
        request_lifetime: time(REQUEST_LIFETIME)?,
        signature_age: fields.or_default(SIGNATURE_AGE)?,
        ttl_attributes: fields.or_default(TTL_ATTRIBUTES)?,
    })
}

/// 8 bytes of each hash, big-endian.
#[derive(PartialEq, Default)]
struct Hashes(Vec<u64>);

impl Field for Hashes {
    fn encode(&self) -> AttributeValue {
        let bytes = self.0.iter().flat_map(|hash| hash.to_be_bytes());
        AttributeValue::B(Blob::new(bytes.collect::<Vec<_>>()))
    }

    fn decode(value: &AttributeValue) -> Result<Self, String> {
        let bytes = value.as_b().map_err(|_| "is not a binary value")?;
        let (hashes, []) = bytes.as_ref().as_chunks::<8>() else {
            return Err("does not hold 8 bytes for each collection".to_owned());
        };
        Ok(Self(hashes.iter().map(|hash| u64::from_be_bytes(*hash)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(bytes: &[u8]) -> AttributeValue {
        AttributeValue::B(Blob::new(bytes.to_vec()))
    }

    #[test]
    fn a_damaged_directory_is_reported_by_its_field() {
        let one = || number(1);
        let settings = |change: fn(&mut Item)| {
            let mut settings = encode_pinned(&Pinned::of(&dynashard_core::Settings::default()));
            change(&mut settings);
            AttributeValue::M(settings)
        };
        for (attributes, field) in [
            (vec![(COLLECTIONS, bytes(&[0; 8]))], "rev"),
            (vec![("rev", number(0)), (COLLECTIONS, bytes(&[0; 8]))], "rev"),
            (vec![("rev", one()), (COLLECTIONS, one())], "collections"),
            (vec![("rev", one()), (COLLECTIONS, bytes(&[0; 7]))], "collections"),
            (vec![("rev", one()), (COLLECTIONS, bytes(&[0; 16]))], "collections"),
            (vec![("rev", one()), (SETTINGS, one())], "settings"),
            (vec![("rev", one()), (SETTINGS, settings(|s| _ = s.remove(FORMAT)))], "format"),
            (vec![("rev", one()), (SETTINGS, settings(|s| _ = s.remove(SEPARATOR)))], "separator"),
            (vec![("rev", one()), (SETTINGS, settings(|s| _ = s.remove(LEASE[0])))], "lease_secs"),
            (
                vec![
                    ("rev", one()),
                    (SETTINGS, settings(|s| _ = s.insert(STACK_ID.to_owned(), number(1)))),
                ],
                "stack_id",
            ),
            (
                vec![
                    ("rev", one()),
                    (SETTINGS, settings(|s| _ = s.insert(TTL_ATTRIBUTES.to_owned(), number(1)))),
                ],
                "ttl_attributes",
            ),
            (
                vec![
                    ("rev", one()),
                    (SETTINGS, settings(|s| _ = s.insert(LEASE[1].to_owned(), bytes(b"5")))),
                ],
                "next_lease_secs",
            ),
        ] {
            let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value));
            match decode(&attributes.collect()) {
                Err(StoreError::Corrupt(why)) => assert!(why.contains(field), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn settings_of_another_format_are_known_by_it_alone() {
        let settings = Item::from([(FORMAT.to_owned(), number(6))]);
        let item = [("rev", number(1)), (SETTINGS, AttributeValue::M(settings))];
        let item = item.map(|(name, value)| (name.to_owned(), value));
        let read = decode(&Item::from(item)).expect("whatever it means");
        assert_eq!(read.pinned.map(|pinned| pinned.format), Some(6));
    }
}
