//! The directory item as DynamoDB holds it.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use dynashard_core::ports::StoreError;
use dynashard_core::{DirectoryItem, Pinned, PinnedTime, TableSchema};

use crate::attributes::number;

/// The hashes of the keys that have metadata: 8 bytes of each, big-endian, in order. Left out if there
/// are none. Must be kept stable.
const COLLECTIONS: &str = "collections";

/// The optimistic lock. Must be kept stable.
const REV: &str = "rev";

/// The pinned settings: a map of what follows. Must be kept stable.
const SETTINGS: &str = "settings";

/// In every format, so that software of another one finds out. Must be kept stable.
const FORMAT: &str = "format";
/// Raised by every change of what is pinned.
const REVISION: &str = "revision";
const PARTITION_KEY_NAME: &str = "partition_key_name";
const SORT_KEY_NAME: &str = "sort_key_name";
const SORT_KEY_TYPE: &str = "sort_key_type";
const SEPARATOR: &str = "separator";

/// Left out where an earlier version has pinned, until a function adds it.
const STACK_ID: &str = "stack_id";

/// Left out while no function was set to one.
const TTL_ATTRIBUTES: &str = "ttl_attributes";

/// The names of a time: what is accepted; what is accepted as well, left out if that is nothing; and the
/// longest that may be in use, left out if it is what is accepted. Must be kept stable.
const LEASE: [&str; 3] = ["lease_secs", "next_lease_secs", "longest_lease_secs"];
const REQUEST_LIFETIME: [&str; 3] =
    ["request_lifetime_secs", "next_request_lifetime_secs", "longest_request_lifetime_secs"];

/// A change of the item with its condition and placeholders.
pub(crate) struct Change {
    pub(crate) text: String,
    pub(crate) condition: &'static str,
    pub(crate) names: HashMap<String, String>,
    pub(crate) values: HashMap<String, AttributeValue>,
}

impl Change {
    /// From `seen` to `next`, if it is as seen.
    pub(crate) fn of(seen: &DirectoryItem, next: &DirectoryItem) -> Self {
        let hashes = next.hashes().iter().flat_map(|hash| hash.to_be_bytes()).collect::<Vec<_>>();
        let collections = (!hashes.is_empty()).then(|| AttributeValue::B(Blob::new(hashes)));
        let settings = next.pinned.as_ref().map(encode_pinned);
        let attributes = [
            (REV, Some(number(next.rev))),
            (COLLECTIONS, collections),
            (SETTINGS, settings.map(AttributeValue::M)),
        ];
        let mut change = Self {
            text: String::new(),
            condition: "attribute_not_exists(#rev)",
            names: HashMap::new(),
            values: HashMap::new(),
        };
        for (name, value) in attributes {
            let Some(value) = value else { continue };
            change.text.push_str(if change.text.is_empty() { "SET " } else { ", " });
            change.text.extend(["#", name, " = :", name]);
            change.names.insert(format!("#{name}"), name.to_owned());
            change.values.insert(format!(":{name}"), value);
        }
        if seen.rev > 0 {
            change.condition = "#rev = :seen_rev";
            change.values.insert(":seen_rev".to_owned(), number(seen.rev));
        }
        change
    }
}

/// Reads the item. The error names the wrong field.
pub(crate) fn decode(item: &HashMap<String, AttributeValue>) -> Result<DirectoryItem, StoreError> {
    let rev = whole_number(item, REV)?.filter(|rev| *rev > 0);
    let rev = rev.ok_or_else(|| wrong(REV, "is missing or not a positive number"))?;
    let hashes = match item.get(COLLECTIONS) {
        None => Vec::new(),
        Some(AttributeValue::B(bytes)) => {
            let (hashes, []) = bytes.as_ref().as_chunks::<8>() else {
                return Err(wrong(COLLECTIONS, "does not hold 8 bytes for each collection"));
            };
            hashes.iter().map(|hash| u64::from_be_bytes(*hash)).collect()
        }
        Some(_) => return Err(wrong(COLLECTIONS, "is not a binary value")),
    };
    let pinned = match item.get(SETTINGS) {
        None => None,
        Some(AttributeValue::M(settings)) => Some(decode_pinned(settings)?),
        Some(_) => return Err(wrong(SETTINGS, "is not a map")),
    };
    DirectoryItem::stored(rev, hashes, pinned)
        .ok_or_else(|| wrong(COLLECTIONS, "does not hold its hashes in order"))
}

fn encode_pinned(pinned: &Pinned) -> HashMap<String, AttributeValue> {
    let Pinned { format, revision, stack_id, schema, lease_term, request_lifetime, ttl_attributes } =
        pinned;
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let secs = |time: Duration| number(time.as_secs());
    let mut settings = HashMap::from([
        (FORMAT.to_owned(), number(*format)),
        (REVISION.to_owned(), number(*revision)),
        (PARTITION_KEY_NAME.to_owned(), text(&schema.partition_key_name)),
        (SORT_KEY_NAME.to_owned(), text(&schema.sort_key_name)),
        (SORT_KEY_TYPE.to_owned(), text(schema.sort_key_type.as_str())),
        (SEPARATOR.to_owned(), text(schema.separator.as_str())),
    ]);
    for ([accepted, next, longest], time) in
        [(LEASE, lease_term), (REQUEST_LIFETIME, request_lifetime)]
    {
        settings.insert(accepted.to_owned(), secs(time.accepted));
        settings.extend(time.next.map(|time| (next.to_owned(), secs(time))));
        let longer = (time.longest != time.accepted).then(|| secs(time.longest));
        settings.extend(longer.map(|time| (longest.to_owned(), time)));
    }
    settings.extend(stack_id.iter().map(|id| (STACK_ID.to_owned(), text(id))));
    if !ttl_attributes.is_empty() {
        let names = ttl_attributes.iter().cloned().collect();
        settings.insert(TTL_ATTRIBUTES.to_owned(), AttributeValue::Ss(names));
    }
    settings
}

fn decode_pinned(settings: &HashMap<String, AttributeValue>) -> Result<Pinned, StoreError> {
    let number = |name: &str| {
        whole_number(settings, name)?.ok_or_else(|| wrong(name, "is missing from the settings"))
    };
    let format = number(FORMAT)?;
    if format != Pinned::FORMAT {
        // The rest may mean something else.
        let unknown = PinnedTime::only(Duration::ZERO);
        let schema = TableSchema::default();
        let (lease_term, request_lifetime) = (unknown, unknown);
        let ttl_attributes = BTreeSet::new();
        return Ok(Pinned {
            format,
            revision: 0,
            stack_id: None,
            schema,
            lease_term,
            request_lifetime,
            ttl_attributes,
        });
    }
    let text = |name: &str| match settings.get(name) {
        Some(AttributeValue::S(text)) => Ok(text.as_str()),
        _ => Err(wrong(name, "is missing from the settings or not a string")),
    };
    let time = |[accepted, next, longest]: [&str; 3]| {
        let secs = |name| Ok(whole_number(settings, name)?.map(Duration::from_secs));
        let accepted = Duration::from_secs(number(accepted)?);
        Ok::<_, StoreError>(PinnedTime {
            accepted,
            next: secs(next)?,
            longest: secs(longest)?.unwrap_or(accepted),
        })
    };
    let schema = TableSchema {
        partition_key_name: text(PARTITION_KEY_NAME)?.to_owned(),
        sort_key_name: text(SORT_KEY_NAME)?.to_owned(),
        sort_key_type: text(SORT_KEY_TYPE)?
            .parse()
            .map_err(|_| wrong(SORT_KEY_TYPE, "is not a type of sort keys"))?,
        separator: text(SEPARATOR)?.parse().map_err(|_| wrong(SEPARATOR, "is not a separator"))?,
    };
    let (lease_term, request_lifetime) = (time(LEASE)?, time(REQUEST_LIFETIME)?);
    let ttl_attributes = match settings.get(TTL_ATTRIBUTES) {
        None => BTreeSet::new(),
        Some(AttributeValue::Ss(names)) => names.iter().cloned().collect(),
        Some(_) => return Err(wrong(TTL_ATTRIBUTES, "is not a set of strings")),
    };
    let stack_id = match settings.get(STACK_ID) {
        None => None,
        Some(AttributeValue::S(id)) => Some(id.clone()),
        Some(_) => return Err(wrong(STACK_ID, "is not a string")),
    };
    Ok(Pinned {
        format,
        revision: number(REVISION)?,
        stack_id,
        schema,
        lease_term,
        request_lifetime,
        ttl_attributes,
    })
}

/// A whole number, if it is there.
fn whole_number(
    item: &HashMap<String, AttributeValue>,
    name: &str,
) -> Result<Option<u64>, StoreError> {
    let Some(value) = item.get(name) else { return Ok(None) };
    let number = value.as_n().ok().and_then(|text| text.parse::<u64>().ok());
    number.map(Some).ok_or_else(|| wrong(name, "is not a whole number"))
}

fn wrong(field: &str, what: &str) -> StoreError {
    StoreError::Corrupt(format!("the directory item is damaged: {field} {what}"))
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
        let settings = |change: fn(&mut HashMap<String, AttributeValue>)| {
            let mut settings = encode_pinned(&Pinned::of(&dynashard_core::Settings::default()));
            change(&mut settings);
            AttributeValue::M(settings)
        };
        for (attributes, field) in [
            (vec![(COLLECTIONS, bytes(&[0; 8]))], "rev"),
            (vec![(REV, number(0)), (COLLECTIONS, bytes(&[0; 8]))], "rev"),
            (vec![(REV, one()), (COLLECTIONS, one())], "collections"),
            (vec![(REV, one()), (COLLECTIONS, bytes(&[0; 7]))], "collections"),
            (vec![(REV, one()), (COLLECTIONS, bytes(&[0; 16]))], "collections"),
            (vec![(REV, one()), (SETTINGS, one())], "settings"),
            (vec![(REV, one()), (SETTINGS, settings(|s| _ = s.remove(FORMAT)))], "format"),
            (vec![(REV, one()), (SETTINGS, settings(|s| _ = s.remove(SEPARATOR)))], "separator"),
            (vec![(REV, one()), (SETTINGS, settings(|s| _ = s.remove(LEASE[0])))], "lease_secs"),
            (
                vec![
                    (REV, one()),
                    (SETTINGS, settings(|s| _ = s.insert(STACK_ID.to_owned(), number(1)))),
                ],
                "stack_id",
            ),
            (
                vec![
                    (REV, one()),
                    (SETTINGS, settings(|s| _ = s.insert(TTL_ATTRIBUTES.to_owned(), number(1)))),
                ],
                "ttl_attributes",
            ),
            (
                vec![
                    (REV, one()),
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
        let settings = HashMap::from([(FORMAT.to_owned(), number(2))]);
        let item = [(REV, number(1)), (SETTINGS, AttributeValue::M(settings))];
        let item = item.map(|(name, value)| (name.to_owned(), value));
        let read = decode(&HashMap::from(item)).expect("whatever it means");
        assert_eq!(read.pinned.map(|pinned| pinned.format), Some(2));
    }
}
