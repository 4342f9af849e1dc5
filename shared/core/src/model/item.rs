//! Items and their values: what DynamoDB takes, what it counts, and what of it is the system's own.

use std::collections::{BTreeMap, BTreeSet};

use dynashard_keys::{ItemKey, Number, PhysicalKey, RESERVED_PREFIX, SortKey};

use crate::model::error::{Code, Error};
use crate::model::schema::TableSchema;
use crate::model::version::{Generation, Version};

/// The most that an item may take, key included: DynamoDB's 400 KB less 1 KB for the system's own
/// attributes and the shard suffix, so that every item can be moved to every shard.
pub const MAX_ITEM_BYTES: usize = 399 * 1_024;

/// How many levels an attribute may have. Its own value is the first, so the deepest one lies in 31
/// lists and maps.
pub const MAX_DEPTH: usize = 32;

/// The longest name of an attribute, or in a map, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 65_535;

/// A value of DynamoDB's data model.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    /// `S`
    String(String),
    /// `N`
    Number(Number),
    /// `B`
    Binary(Vec<u8>),
    /// `BOOL`
    Bool(bool),
    /// `NULL`
    Null,
    /// `L`
    List(Vec<AttributeValue>),
    /// `M`
    Map(Attributes),
    /// `SS`
    StringSet(BTreeSet<String>),
    /// `NS`
    NumberSet(BTreeSet<Number>),
    /// `BS`
    BinarySet(BTreeSet<Vec<u8>>),
}

/// The attributes of an item by name.
pub type Attributes = BTreeMap<String, AttributeValue>;

impl AttributeValue {
    /// What the value takes in an item, in bytes (AWS, "DynamoDB item sizes and formats").
    pub fn stored_bytes(&self) -> usize {
        const DOCUMENT_OVERHEAD: usize = 3;
        const ELEMENT_OVERHEAD: usize = 1;
        match self {
            Self::String(text) => text.len(),
            Self::Number(number) => number.stored_bytes(),
            Self::Binary(bytes) => bytes.len(),
            Self::Bool(_) | Self::Null => 1,
            Self::List(values) => {
                let elements = values.iter().map(|v| v.stored_bytes() + ELEMENT_OVERHEAD);
                DOCUMENT_OVERHEAD + elements.sum::<usize>()
            }
            Self::Map(entries) => {
                DOCUMENT_OVERHEAD + attributes_bytes(entries) + entries.len() * ELEMENT_OVERHEAD
            }
            // AWS does not say what an empty member takes. If it took nothing, an item could hold
            // more of them than fit an answer.
            Self::StringSet(set) => set.iter().map(|text| text.len().max(1)).sum(),
            Self::NumberSet(set) => set.iter().map(Number::stored_bytes).sum(),
            Self::BinarySet(set) => set.iter().map(|bytes| bytes.len().max(1)).sum(),
        }
    }

    /// Checks the rules that DynamoDB puts on values, `depth` levels down.
    fn check(&self, name: &str, depth: usize) -> Result<(), Error> {
        let bad =
            |why: &str| Err(Error::new(Code::BadItem, format!("attribute {} {why}", quoted(name))));
        match self {
            _ if depth >= MAX_DEPTH => bad("nests deeper than DynamoDB's 32 levels"),
            Self::List(values) => values.iter().try_for_each(|v| v.check(name, depth + 1)),
            Self::Map(entries) => entries.iter().try_for_each(|(inner, value)| {
                check_name_length(inner)?;
                value.check(name, depth + 1)
            }),
            Self::StringSet(set) if set.is_empty() => bad("is an empty set"),
            Self::NumberSet(set) if set.is_empty() => bad("is an empty set"),
            Self::BinarySet(set) if set.is_empty() => bad("is an empty set"),
            _ => Ok(()),
        }
    }
}

/// What an item takes of [`MAX_ITEM_BYTES`], its key among the attributes: the bytes of all names and
/// values (AWS, "DynamoDB item sizes and formats").
pub fn item_bytes(item: &Attributes) -> usize {
    attributes_bytes(item)
}

/// Checks what an item that another program has written would be refused for if a client wrote it, its
/// names at the first level and its size aside: names inside of values, levels, and empty sets.
pub fn check_values(item: &Attributes) -> Result<(), Error> {
    item.iter().try_for_each(|(name, value)| {
        check_name_length(name)?;
        value.check(name, 0)
    })
}

/// A name as errors show it: of a long one the beginning, so that what is wrong with it is not cut off.
pub fn quoted(name: &str) -> String {
    let mut text = format!("{name:?}");
    if text.len() > LONGEST_SHOWN {
        text.truncate(text.floor_char_boundary(LONGEST_SHOWN));
        text.push_str("…\"");
    }
    text
}

/// In bytes, of the 1,000 that an error has.
const LONGEST_SHOWN: usize = 300;

/// An item as it lies in a shard.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredItem {
    /// The client's attributes, without the key.
    pub attributes: Attributes,
    /// `_ds_g`: the generation of its last write or move.
    pub generation: Generation,
    /// `_ds_v`: the version of its last write.
    pub version: Version,
    /// `_ds_fwd`: this is the marker that a moved item left behind, and not an item.
    pub forwarded: bool,
}

impl StoredItem {
    /// The marker that a reshard of this generation leaves where an item was. It has no attributes,
    /// so it enters only indexes of the table's own keys, and no version.
    pub fn marker(generation: Generation) -> Self {
        Self::marker_of_delete(generation, Version::new(0))
    }

    /// The marker that a delete leaves where it could not move the item: by its version the table's stream tells it from
    /// one that a move leaves (protocol: "Items that cannot be moved").
    pub fn marker_of_delete(generation: Generation, version: Version) -> Self {
        Self { attributes: Attributes::new(), generation, version, forwarded: true }
    }

    /// Whether DynamoDB may delete it by itself, in a table whose items expire by one of these attributes.
    pub(crate) fn may_expire(&self, ttl_attributes: &BTreeSet<String>) -> bool {
        ttl_attributes.iter().any(|name| self.attributes.contains_key(name))
    }

    /// Whether this is an item for clients: it exists and is not a marker (protocol: "Live").
    pub fn is_live(&self) -> bool {
        !self.forwarded
    }
}

/// An item from a client that was checked and may be written.
#[derive(Debug, Clone, PartialEq)]
pub struct NewItem {
    key: ItemKey,
    attributes: Attributes,
}

impl NewItem {
    /// Checks a client's item: names, values, size, and that a key it carries, under the table's own
    /// names, is its own. The key is not kept among the attributes.
    pub fn new(
        key: ItemKey,
        mut attributes: Attributes,
        schema: &TableSchema,
    ) -> Result<Self, Error> {
        take_key(&key, &mut attributes, schema)?;
        check_attributes(&attributes)?;
        let bytes =
            key_bytes(key.partition.as_str(), &key.sort, schema) + attributes_bytes(&attributes);
        if bytes > MAX_ITEM_BYTES {
            return Err(Error::new(
                Code::ItemTooLarge,
                format!(
                    "the item takes {bytes} bytes; at most {MAX_ITEM_BYTES} (399 KB) are allowed"
                ),
            ));
        }
        Ok(Self { key, attributes })
    }

    /// The key.
    pub fn key(&self) -> &ItemKey {
        &self.key
    }

    /// The attributes without the key.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    pub(crate) fn into_attributes(self) -> Attributes {
        self.attributes
    }
}

/// A merge patch of the item with this key, checked as a whole item is and without the key, if it
/// carries that. A null removes an attribute, which must be one that a client may name.
pub fn checked_patch(
    key: &ItemKey,
    mut patch: Attributes,
    schema: &TableSchema,
) -> Result<Attributes, Error> {
    take_key(key, &mut patch, schema)?;
    check_attributes(&patch)?;
    Ok(patch)
}

impl From<&SortKey> for AttributeValue {
    fn from(sort: &SortKey) -> Self {
        match sort {
            SortKey::String(text) => Self::String(text.to_string()),
            SortKey::Number(number) => Self::Number(number.clone()),
        }
    }
}

/// Removes the key from a client's attributes, if they carry it, and checks that it is `key`.
pub(crate) fn take_key(
    key: &ItemKey,
    attributes: &mut Attributes,
    schema: &TableSchema,
) -> Result<(), Error> {
    let sort = AttributeValue::from(&key.sort);
    let partition = AttributeValue::String(key.partition.to_string());
    for (name, expected) in [(&schema.partition_key_name, partition), (&schema.sort_key_name, sort)]
    {
        if attributes.remove(name).is_some_and(|carried| carried != expected) {
            return Err(Error::new(
                Code::KeyMismatch,
                format!("the item's {name:?} differs from the key that the request names"),
            ));
        }
    }
    Ok(())
}

fn check_attributes(attributes: &Attributes) -> Result<(), Error> {
    attributes.iter().try_for_each(|(name, value)| {
        check_name(name)?;
        value.check(name, 0)
    })
}

/// Checks the rule that DynamoDB puts on names at every level.
fn check_name_length(name: &str) -> Result<(), Error> {
    match name.len() {
        0 => Err(Error::new(Code::BadItem, "an attribute name is empty")),
        1..=MAX_NAME_BYTES => Ok(()),
        length => Err(Error::new(
            Code::BadItem,
            format!("an attribute name takes {length} bytes; at most {MAX_NAME_BYTES} are allowed"),
        )),
    }
}

fn check_name(name: &str) -> Result<(), Error> {
    check_name_length(name)?;
    if name.starts_with(RESERVED_PREFIX) {
        return Err(Error::new(
            Code::ReservedAttribute,
            format!("the attribute {} begins with \"_ds_\", which is reserved", quoted(name)),
        ));
    }
    Ok(())
}

/// What an item takes where it lies, in bytes: its key, its attributes, and what the system adds (AWS,
/// "DynamoDB item sizes and formats"). Of a marker, too.
pub(crate) fn stored_bytes(at: &PhysicalKey, item: &StoredItem, schema: &TableSchema) -> usize {
    // A number takes a byte for each two digits, and one more.
    let number = |n: u64| n.to_string().len().div_ceil(2) + 1;
    let generation = SYSTEM_NAME_BYTES + number(item.generation.get());
    let version = SYSTEM_NAME_BYTES + number(item.version.get());
    let system = match item.is_live() {
        true => generation + version,
        false if item.version == Version::new(0) => generation + FORWARDED_BYTES,
        false => generation + version + FORWARDED_BYTES,
    };
    key_bytes(at.partition.as_str(), &at.sort, schema) + attributes_bytes(&item.attributes) + system
}

/// The name of `_ds_g`, and of `_ds_v`.
const SYSTEM_NAME_BYTES: usize = 5;

/// `_ds_fwd` and its value.
const FORWARDED_BYTES: usize = 7 + 1;

fn attributes_bytes(attributes: &Attributes) -> usize {
    attributes.iter().map(|(name, value)| name.len() + value.stored_bytes()).sum()
}

fn key_bytes(partition: &str, sort: &SortKey, schema: &TableSchema) -> usize {
    let sort = match sort {
        SortKey::String(text) => text.len(),
        SortKey::Number(number) => number.stored_bytes(),
    };
    schema.partition_key_name.len() + partition.len() + schema.sort_key_name.len() + sort
}

#[cfg(test)]
mod tests {
    use dynashard_keys::PartitionKey;

    use super::*;

    fn key() -> ItemKey {
        ItemKey::new(PartitionKey::new("p").expect("pk"), SortKey::string("s").expect("sk"))
    }

    fn string(length: usize) -> AttributeValue {
        AttributeValue::String("x".repeat(length))
    }

    fn item(
        attributes: impl IntoIterator<Item = (&'static str, AttributeValue)>,
    ) -> Result<NewItem, Code> {
        let attributes =
            attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        NewItem::new(key(), attributes, &TableSchema::default()).map_err(|e| e.code())
    }

    #[test]
    fn an_item_of_399_kb_is_the_largest() {
        // pk, sk: 2 + 1 bytes each, and the attribute's name.
        let room = MAX_ITEM_BYTES - 6 - 1;
        assert!(item([("a", string(room))]).is_ok());
        assert_eq!(item([("a", string(room + 1))]), Err(Code::ItemTooLarge));
    }

    #[test]
    fn a_carried_key_must_be_the_requests_key_and_is_not_kept() {
        let carried = item([("pk", string(1)), ("a", string(1))]);
        assert_eq!(carried, Err(Code::KeyMismatch));
        let own = item([
            ("pk", AttributeValue::String("p".into())),
            ("sk", AttributeValue::String("s".into())),
            ("a", string(1)),
        ])
        .expect("own key");
        assert_eq!(own.attributes().keys().collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn names_of_the_system_are_refused() {
        assert_eq!(item([("_ds_g", string(1))]), Err(Code::ReservedAttribute));
        assert_eq!(item([("", string(1))]), Err(Code::BadItem));
    }

    #[test]
    fn regression_an_attribute_called_pk_was_taken_for_the_key_of_another_table() {
        let schema = TableSchema {
            partition_key_name: "file_path".into(),
            sort_key_name: "line".into(),
            ..TableSchema::default()
        };
        let attributes = |name: &str, text: &str| {
            Attributes::from([(name.to_owned(), AttributeValue::String(text.to_owned()))])
        };
        let new = |attributes| NewItem::new(key(), attributes, &schema);
        let kept = new(attributes("pk", "not the key")).expect("an attribute as any other");
        assert_eq!(kept.attributes(), &attributes("pk", "not the key"));
        let refused = new(attributes("file_path", "not the key")).map_err(|e| e.code());
        assert_eq!(refused, Err(Code::KeyMismatch));
        let taken = new(attributes("file_path", "p")).expect("its own key");
        assert_eq!(taken.attributes(), &Attributes::new());
    }

    #[test]
    fn regression_a_null_in_a_patch_could_name_any_attribute() {
        let checked = |name: &str| {
            let patch = Attributes::from([(name.to_owned(), AttributeValue::Null)]);
            checked_patch(&key(), patch, &TableSchema::default()).map_err(|e| e.code())
        };
        assert_eq!(checked("_ds_g"), Err(Code::ReservedAttribute));
        assert_eq!(checked(""), Err(Code::BadItem));
        assert_eq!(checked("pk"), Err(Code::KeyMismatch));
        assert!(checked("a").is_ok());
    }

    #[test]
    fn regression_the_deepest_item_was_one_level_too_deep() {
        let nested = |value: AttributeValue, levels: usize| {
            (0..levels).fold(value, |inner, _| AttributeValue::List(vec![inner]))
        };
        for value in [AttributeValue::Null, AttributeValue::Map(Attributes::new())] {
            assert!(item([("a", nested(value.clone(), MAX_DEPTH - 1))]).is_ok());
            assert_eq!(item([("a", nested(value, MAX_DEPTH))]), Err(Code::BadItem));
        }
    }

    #[test]
    fn regression_names_that_dynamodb_refuses_were_accepted() {
        let named = |name: String| Attributes::from([(name, AttributeValue::Null)]);
        let new = |attributes| {
            NewItem::new(key(), attributes, &TableSchema::default()).map_err(|e| e.code())
        };
        let inner = |name| Attributes::from([("a".to_owned(), AttributeValue::Map(named(name)))]);
        let longest = "x".repeat(MAX_NAME_BYTES);
        assert!(new(named(longest.clone())).is_ok());
        assert!(new(inner(longest.clone())).is_ok());
        for name in [String::new(), longest + "x"] {
            assert_eq!(new(named(name.clone())), Err(Code::BadItem));
            assert_eq!(new(inner(name)), Err(Code::BadItem));
        }
    }

    #[test]
    fn an_item_of_another_program_is_measured_and_checked_with_its_key() {
        let of = |name: &str, value| Attributes::from([(name.to_owned(), value)]);
        assert_eq!(item_bytes(&of("ab", string(3))), 5);
        assert_eq!(item_bytes(&Attributes::new()), 0);
        assert!(check_values(&of("_ds_g", AttributeValue::Null)).is_ok(), "the name is not judged");
        let empty = AttributeValue::Map(of("", AttributeValue::Null));
        for value in [AttributeValue::StringSet(BTreeSet::new()), empty] {
            let refused = check_values(&of("a", value)).map_err(|e| e.code());
            assert_eq!(refused, Err(Code::BadItem));
        }
    }

    #[test]
    fn an_empty_set_is_refused() {
        assert_eq!(item([("a", AttributeValue::StringSet(BTreeSet::new()))]), Err(Code::BadItem));
    }

    #[test]
    fn sizes_follow_the_developer_guide() {
        let map = AttributeValue::Map(Attributes::from([("ab".to_owned(), string(3))]));
        assert_eq!(map.stored_bytes(), 3 + 1 + 2 + 3);
        assert_eq!(
            AttributeValue::List(vec![string(3), AttributeValue::Null]).stored_bytes(),
            3 + 4 + 2
        );
        assert_eq!(AttributeValue::Bool(true).stored_bytes(), 1);
    }
}
