//! Attributes as JSON: plain, and as DynamoDB writes it.
//!
//! Numbers keep their 38 digits: they pass from text to text and never through a float. Plain JSON
//! has neither binary values nor sets, so they are written as base64 strings and arrays; only DynamoDB
//! JSON carries them both ways.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dynashard_core::{AttributeValue, Attributes, MAX_DEPTH, StoredItem, TableSchema, quoted};
use dynashard_keys::{ItemKey, Number, PartitionKey, SortKey, SortKeyType};
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::grants::GrantedKeys;
use crate::problem::Problem;

/// The JSON that attributes are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Plain JSON.
    #[default]
    Plain,
    /// DynamoDB's own, with a type for each value.
    DynamoDb,
}

/// The members of a JSON object, each as it was written.
pub type Members<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// Reads a body that must be a JSON object. A repeated member is refused, since one of the two would
/// be lost.
pub fn object(body: &[u8]) -> Result<Members<'_>, Problem> {
    let text = std::str::from_utf8(body)
        .map_err(|_| Problem::bad_body("the body is not UTF-8".to_owned()))?;
    object_in(text, "the body")
}

/// Reads a value inside a body that must be an object.
pub fn inner_object<'a>(value: &'a RawValue, what: &str) -> Result<Members<'a>, Problem> {
    object_in(value.get(), what)
}

fn object_in<'a>(text: &'a str, what: &str) -> Result<Members<'a>, Problem> {
    let members = serde_json::from_str::<UniqueMembers<'_>>(text)
        .map_err(|e| Problem::bad_body(format!("{what} is not a JSON object: {e}")))?;
    Ok(members.0)
}

/// Reads a value inside a body that must be an array.
pub fn inner_array<'a>(value: &'a RawValue, what: &str) -> Result<Vec<&'a RawValue>, Problem> {
    serde_json::from_str(value.get())
        .map_err(|_| Problem::bad_body(format!("{what} is not a JSON array")))
}

/// Reads a value that is an array of strings, or a null; otherwise an error that names it as `what`.
pub fn strings(value: &RawValue, what: &str) -> Result<Option<Vec<String>>, String> {
    serde_json::from_str(value.get()).map_err(|_| format!("{what} is not an array of strings"))
}

/// The type of a JSON value, as JSON calls it.
pub fn type_name(value: &RawValue) -> &'static str {
    match value.get().as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}

/// Reads a whole number from 0. JSON has one type of numbers, so 16.0 and 1.6e1 are 16.
pub fn whole_number(value: &RawValue) -> Option<u64> {
    value.get().parse::<Number>().ok()?.to_string().parse().ok()
}

/// Reads the attributes of an item.
pub fn attributes(members: Members<'_>, format: Format) -> Result<Attributes, Problem> {
    members
        .into_iter()
        .map(|(name, value)| {
            let value = match format {
                Format::Plain => plain_value(value, 0),
                Format::DynamoDb => dynamodb_value(value, 0),
            };
            match value {
                Ok(value) => Ok((name.into_owned(), value)),
                Err(why) => Err(Problem::bad_body(format!("attribute {} {why}", quoted(&name)))),
            }
        })
        .collect()
}

/// Takes `pk` and `sk` out of an object, if the caller may touch the partition key. A number sort key is a JSON number.
pub fn take_item_key(
    members: &mut Members<'_>,
    sort_key_type: SortKeyType,
    granted: &GrantedKeys,
    what: &str,
) -> Result<ItemKey, Problem> {
    let mut take = |name: &str| {
        members.remove(name).ok_or_else(|| Problem::bad_body(format!("{what} has no {name:?}")))
    };
    let (pk, sk) = (take("pk")?, take("sk")?);
    let pk = string(pk, "pk", what)?;
    let sk = sort_key_text(sk, sort_key_type, "sk", what)?;
    let checked = || {
        let partition = PartitionKey::new(pk.as_str())?;
        granted.check(&partition)?;
        Ok(ItemKey::new(partition, SortKey::parse(&sk, sort_key_type)?))
    };
    checked().map_err(|problem: Problem| problem.of_operation(what, &pk, &sk))
}

/// A sort key, which is the member of this name.
pub fn sort_key(
    value: &RawValue,
    sort_key_type: SortKeyType,
    name: &str,
    what: &str,
) -> Result<SortKey, Problem> {
    Ok(SortKey::parse(&sort_key_text(value, sort_key_type, name, what)?, sort_key_type)?)
}

fn sort_key_text(
    value: &RawValue,
    sort_key_type: SortKeyType,
    name: &str,
    what: &str,
) -> Result<String, Problem> {
    match sort_key_type {
        SortKeyType::String => string(value, name, what),
        SortKeyType::Number if type_name(value) == "number" => Ok(value.get().to_owned()),
        SortKeyType::Number => {
            Err(Problem::bad_body(format!("{name:?} of {what} is not a number")))
        }
    }
}

fn string(value: &RawValue, name: &str, what: &str) -> Result<String, Problem> {
    serde_json::from_str::<String>(value.get())
        .map_err(|_| Problem::bad_body(format!("{name:?} of {what} is not a string")))
}

/// An item for clients: its key, then its attributes.
#[derive(Debug, Clone, Copy)]
pub struct ItemJson<'a> {
    /// How the table calls the keys.
    pub schema: &'a TableSchema,
    /// The logical partition key.
    pub partition: &'a PartitionKey,
    /// The sort key.
    pub sort: &'a SortKey,
    /// The rest.
    pub item: &'a StoredItem,
    /// How values are written.
    pub format: Format,
}

impl<'a> ItemJson<'a> {
    /// The item in plain JSON.
    pub const fn plain(
        schema: &'a TableSchema,
        partition: &'a PartitionKey,
        sort: &'a SortKey,
        item: &'a StoredItem,
    ) -> Self {
        Self { schema, partition, sort, item, format: Format::Plain }
    }

    /// What the item takes in an answer of Lambda, in bytes. The body is a string in JSON there, so
    /// each quotation mark and backslash of the item's text takes two.
    pub fn payload_bytes(&self) -> usize {
        payload_bytes(self)
    }
}

/// What a part of a body takes in an answer of Lambda, in bytes. The body is a string in JSON there, so each
/// quotation mark and backslash of the part's text takes two.
pub fn payload_bytes(part: &impl Serialize) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let escaped = bytes.iter().filter(|byte| matches!(byte, b'"' | b'\\'));
            self.0 += bytes.len() + escaped.count();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Counting cannot fail. What cannot be written fails when the answer is written.
    let _ = serde_json::to_writer(&mut counter, part);
    counter.0
}

impl Serialize for ItemJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TableSchema { partition_key_name: pk, sort_key_name: sk, .. } = self.schema;
        let mut map = serializer.serialize_map(Some(2 + self.item.attributes.len()))?;
        match self.format {
            Format::Plain => {
                map.serialize_entry(pk, self.partition.as_str())?;
                map.serialize_entry(sk, &SortKeyJson(self.sort))?;
                for (name, value) in &self.item.attributes {
                    map.serialize_entry(name, &Plain(value))?;
                }
            }
            Format::DynamoDb => {
                let partition = AttributeValue::String(self.partition.to_string());
                let sort = AttributeValue::from(self.sort);
                map.serialize_entry(pk, &DynamoDb(&partition))?;
                map.serialize_entry(sk, &DynamoDb(&sort))?;
                for (name, value) in &self.item.attributes {
                    map.serialize_entry(name, &DynamoDb(value))?;
                }
            }
        }
        map.end()
    }
}

/// Attributes alone, as an object.
#[derive(Debug, Clone, Copy)]
pub struct AttributesJson<'a>(pub &'a Attributes, pub Format);

impl Serialize for AttributesJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(attributes, format) = self;
        match format {
            Format::Plain => {
                serializer.collect_map(attributes.iter().map(|(name, v)| (name, Plain(v))))
            }
            Format::DynamoDb => {
                serializer.collect_map(attributes.iter().map(|(name, v)| (name, DynamoDb(v))))
            }
        }
    }
}

/// A sort key in plain JSON: a string or a number.
#[derive(Debug, Clone, Copy)]
pub struct SortKeyJson<'a>(pub &'a SortKey);

impl Serialize for SortKeyJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            SortKey::String(text) => serializer.serialize_str(text),
            SortKey::Number(number) => raw_number(number, serializer),
        }
    }
}

struct UniqueMembers<'a>(Members<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for UniqueMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Members::new();
                while let Some((name, value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    if let Some(_first) = members.insert(name.0, value) {
                        return Err(A::Error::custom("a member is repeated"));
                    }
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(MembersVisitor).map(Self)
    }
}

/// A member's name, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads a plain JSON value, `depth` levels down.
fn plain_value(value: &RawValue, depth: usize) -> Result<AttributeValue, String> {
    if depth >= MAX_DEPTH {
        return Err(too_deep());
    }
    let text = value.get();
    let invalid = |e: serde_json::Error| format!("is invalid: {e}");
    Ok(match text.as_bytes().first() {
        Some(b'{') => {
            let members = serde_json::from_str::<UniqueMembers<'_>>(text).map_err(invalid)?;
            AttributeValue::Map(
                members
                    .0
                    .into_iter()
                    .map(|(name, value)| Ok((name.into_owned(), plain_value(value, depth + 1)?)))
                    .collect::<Result<_, String>>()?,
            )
        }
        Some(b'[') => {
            let values = serde_json::from_str::<Vec<&RawValue>>(text).map_err(invalid)?;
            AttributeValue::List(
                values.into_iter().map(|v| plain_value(v, depth + 1)).collect::<Result<_, _>>()?,
            )
        }
        Some(b'"') => AttributeValue::String(serde_json::from_str(text).map_err(invalid)?),
        Some(b't') => AttributeValue::Bool(true),
        Some(b'f') => AttributeValue::Bool(false),
        Some(b'n') => AttributeValue::Null,
        _ => AttributeValue::Number(number(text)?),
    })
}

/// Reads a value of DynamoDB JSON, such as `{"S": "text"}`, `depth` levels down.
fn dynamodb_value(value: &RawValue, depth: usize) -> Result<AttributeValue, String> {
    fn read<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Result<T, String> {
        serde_json::from_str(value.get()).map_err(|e| format!("is invalid DynamoDB JSON: {e}"))
    }
    fn set<T: Ord>(
        values: impl Iterator<Item = Result<T, String>>,
    ) -> Result<std::collections::BTreeSet<T>, String> {
        let mut set = std::collections::BTreeSet::new();
        for value in values {
            if !set.insert(value?) {
                return Err("is a set that repeats a member".to_owned());
            }
        }
        Ok(set)
    }
    let binary = |text: &String| {
        STANDARD.decode(text).map_err(|_| "is binary but is not valid base64".to_owned())
    };

    if depth >= MAX_DEPTH {
        return Err(too_deep());
    }
    let members = read::<UniqueMembers<'_>>(value)?.0;
    let mut members = members.into_iter();
    let (Some((r#type, value)), None) = (members.next(), members.next()) else {
        return Err(
            "is not DynamoDB JSON: a value is an object with one type, like {\"S\": \"text\"}"
                .to_owned(),
        );
    };
    Ok(match r#type.as_ref() {
        "S" => AttributeValue::String(read(value)?),
        "N" => AttributeValue::Number(number(&read::<String>(value)?)?),
        "B" => AttributeValue::Binary(binary(&read(value)?)?),
        "BOOL" => AttributeValue::Bool(read(value)?),
        "NULL" if read::<bool>(value)? => AttributeValue::Null,
        "L" => AttributeValue::List(
            read::<Vec<&RawValue>>(value)?
                .into_iter()
                .map(|v| dynamodb_value(v, depth + 1))
                .collect::<Result<_, _>>()?,
        ),
        "M" => AttributeValue::Map(
            read::<UniqueMembers<'_>>(value)?
                .0
                .into_iter()
                .map(|(name, v)| Ok((name.into_owned(), dynamodb_value(v, depth + 1)?)))
                .collect::<Result<_, String>>()?,
        ),
        "SS" => AttributeValue::StringSet(set(read::<Vec<String>>(value)?.into_iter().map(Ok))?),
        "NS" => AttributeValue::NumberSet(set(read::<Vec<String>>(value)?
            .iter()
            .map(|text| number(text)))?),
        "BS" => AttributeValue::BinarySet(set(read::<Vec<String>>(value)?.iter().map(binary))?),
        other => return Err(format!("has the type {other:?}, which DynamoDB does not know")),
    })
}

fn number(text: &str) -> Result<Number, String> {
    text.parse()
        .map_err(|e: dynashard_keys::KeyError| format!("is a number that cannot be kept: {e}"))
}

fn too_deep() -> String {
    format!("nests deeper than DynamoDB's {MAX_DEPTH} levels")
}

/// With all their zeros, the numbers of one item could exceed the largest answer.
fn number_text(number: &Number) -> String {
    number.compact().to_string()
}

fn raw_number<S: Serializer>(number: &Number, serializer: S) -> Result<S::Ok, S::Error> {
    RawValue::from_string(number_text(number))
        .map_err(serde::ser::Error::custom)?
        .serialize(serializer)
}

/// A value in plain JSON.
struct Plain<'a>(&'a AttributeValue);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            AttributeValue::String(text) => serializer.serialize_str(text),
            AttributeValue::Number(number) => raw_number(number, serializer),
            AttributeValue::Binary(bytes) => serializer.serialize_str(&STANDARD.encode(bytes)),
            AttributeValue::Bool(value) => serializer.serialize_bool(*value),
            AttributeValue::Null => serializer.serialize_unit(),
            AttributeValue::List(values) => serializer.collect_seq(values.iter().map(Plain)),
            AttributeValue::Map(entries) => {
                serializer.collect_map(entries.iter().map(|(name, value)| (name, Plain(value))))
            }
            AttributeValue::StringSet(set) => serializer.collect_seq(set),
            AttributeValue::NumberSet(set) => {
                let mut seq = serializer.serialize_seq(Some(set.len()))?;
                for number in set {
                    let raw = RawValue::from_string(number_text(number))
                        .map_err(serde::ser::Error::custom)?;
                    seq.serialize_element(&raw)?;
                }
                seq.end()
            }
            AttributeValue::BinarySet(set) => {
                serializer.collect_seq(set.iter().map(|bytes| STANDARD.encode(bytes)))
            }
        }
    }
}

/// A value in DynamoDB JSON.
struct DynamoDb<'a>(&'a AttributeValue);

impl Serialize for DynamoDb<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self.0 {
            AttributeValue::String(text) => map.serialize_entry("S", text)?,
            AttributeValue::Number(number) => map.serialize_entry("N", &number_text(number))?,
            AttributeValue::Binary(bytes) => map.serialize_entry("B", &STANDARD.encode(bytes))?,
            AttributeValue::Bool(value) => map.serialize_entry("BOOL", value)?,
            AttributeValue::Null => map.serialize_entry("NULL", &true)?,
            AttributeValue::List(values) => {
                map.serialize_entry("L", &values.iter().map(DynamoDb).collect::<Vec<_>>())?;
            }
            AttributeValue::Map(entries) => {
                let entries = entries.iter().map(|(name, value)| (name, DynamoDb(value)));
                map.serialize_entry("M", &entries.collect::<BTreeMap<_, _>>())?;
            }
            AttributeValue::StringSet(set) => map.serialize_entry("SS", set)?,
            AttributeValue::NumberSet(set) => {
                map.serialize_entry("NS", &set.iter().map(number_text).collect::<Vec<_>>())?;
            }
            AttributeValue::BinarySet(set) => {
                map.serialize_entry(
                    "BS",
                    &set.iter().map(|b| STANDARD.encode(b)).collect::<Vec<_>>(),
                )?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use dynashard_core::{Generation, Version};
    use proptest::prelude::{Just, any, prop, prop_assert_eq, prop_oneof, proptest};
    use proptest::strategy::Strategy;

    use super::*;

    /// An error has room for so much, and the name came first.
    #[test]
    fn regression_a_long_name_hid_what_was_wrong_with_its_attribute() {
        let name = "\u{33a}".repeat(400);
        let why = read(&format!(r#"{{ "{name}": 1e999 }}"#), Format::Plain).expect_err("too large");
        assert!(why.contains("is a number that cannot be kept"), "{why}");
        assert!(why.starts_with("attribute \"\\u{33a}"), "{why}");
    }

    fn read(text: &str, format: Format) -> Result<Attributes, String> {
        object(text.as_bytes())
            .and_then(|m| attributes(m, format))
            .map_err(|p| p.log_detail().to_owned())
    }

    fn write(attributes: &Attributes, format: Format) -> String {
        let item = StoredItem {
            attributes: attributes.clone(),
            generation: Generation::new(1),
            version: Version::new(1),
            forwarded: false,
        };
        let partition = PartitionKey::new("p").expect("pk");
        let sort = SortKey::string("s").expect("sk");
        let schema = &TableSchema::default();
        let json = ItemJson { schema, partition: &partition, sort: &sort, item: &item, format };
        let text = serde_json::to_string(&json).expect("JSON");
        let as_a_string = serde_json::to_string(&text).expect("JSON");
        assert_eq!(json.payload_bytes(), as_a_string.len() - "\"\"".len());
        text
    }

    #[test]
    fn numbers_keep_all_their_digits() {
        let text = r#"{"n":-0.00000012345678901234567890123456789012345678,"m":1e19}"#;
        let attributes = read(text, Format::Plain).expect("valid");
        let written = write(&attributes, Format::Plain);
        assert!(written.contains("-0.00000012345678901234567890123456789012345678"), "{written}");
        assert!(written.contains("\"m\":10000000000000000000,"), "{written}");
    }

    #[test]
    fn regression_numbers_of_two_bytes_took_a_hundred_and_twenty_six() {
        let text = r#"{"n":{"N":"1e125"},"ns":{"NS":["1e-130"]}}"#;
        let attributes = read(text, Format::DynamoDb).expect("valid");
        assert_eq!(
            write(&attributes, Format::Plain),
            r#"{"pk":"p","sk":"s","n":1e125,"ns":[1e-130]}"#
        );
        let written = write(&attributes, Format::DynamoDb);
        assert!(written.ends_with(&text[1..]), "{written}");
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let long = format!(r#"{{"n":{}}}"#, "1".repeat(39));
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(33), "]".repeat(33));
        let deep_scalar = format!(r#"{{"a":{}1{}}}"#, "[".repeat(32), "]".repeat(32));
        let bottomless = format!(r#"{{"a":{}"#, "[".repeat(100_000));
        for text in [
            &long,
            &deep,
            &deep_scalar,
            &bottomless,
            "",
            "[]",
            "null",
            "1",
            "\"a\"",
            "{",
            r#"{"a":NaN}"#,
            r#"{"a":Infinity}"#,
            r#"{"a":1e999}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":{"b":1,"b":2}}"#,
            r#"{"a":"\ud800"}"#,
            r#"{"a":01}"#,
            r#"{"a":1} trailing"#,
        ] {
            assert!(read(text, Format::Plain).is_err(), "{}", &text[..text.len().min(60)]);
        }
        assert!(object(b"{\"a\":\"\xff\"}").is_err());
        for text in [
            r#"{"a":{"N":"NaN"}}"#,
            r#"{"a":{"N":1}}"#,
            r#"{"a":{"X":"1"}}"#,
            r#"{"a":{}}"#,
            r#"{"a":{"S":"x","N":"1"}}"#,
            r#"{"a":"x"}"#,
            r#"{"a":{"B":"***"}}"#,
            r#"{"a":{"SS":["x","x"]}}"#,
            r#"{"a":{"NS":["1","1.0"]}}"#,
            r#"{"a":{"NULL":false}}"#,
        ] {
            assert!(read(text, Format::DynamoDb).is_err(), "{text}");
        }
    }

    #[test]
    fn dynamodb_json_carries_binary_and_sets() {
        let text = r#"{"b":{"B":"AAEC"},"ss":{"SS":["x","y"]},"ns":{"NS":["1","2.5"]},"bs":{"BS":["AA=="]},"l":{"L":[{"NULL":true}]}}"#;
        let attributes = read(text, Format::DynamoDb).expect("valid");
        let written = write(&attributes, Format::DynamoDb);
        assert_eq!(
            written,
            r#"{"pk":{"S":"p"},"sk":{"S":"s"},"b":{"B":"AAEC"},"bs":{"BS":["AA=="]},"l":{"L":[{"NULL":true}]},"ns":{"NS":["1","2.5"]},"ss":{"SS":["x","y"]}}"#
        );
        assert_eq!(
            write(&attributes, Format::Plain),
            r#"{"pk":"p","sk":"s","b":"AAEC","bs":["AA=="],"l":[null],"ns":[1,2.5],"ss":["x","y"]}"#
        );
    }

    fn value(plain: bool) -> impl Strategy<Value = AttributeValue> {
        let number = "-?(0|[1-9][0-9]{0,18})(\\.[0-9]{1,10})?(e-?[0-9]{1,2})?"
            .prop_map(|text| text.parse::<Number>().expect("number"));
        let common = prop_oneof![
            "\\PC{0,10}".prop_map(AttributeValue::String),
            number.clone().prop_map(AttributeValue::Number),
            any::<bool>().prop_map(AttributeValue::Bool),
            Just(AttributeValue::Null),
        ];
        let leaf = if plain {
            common.boxed()
        } else {
            prop_oneof![
                common,
                prop::collection::vec(any::<u8>(), 0..9).prop_map(AttributeValue::Binary),
                prop::collection::btree_set("\\PC{1,5}", 1..4).prop_map(AttributeValue::StringSet),
                prop::collection::btree_set(number, 1..4).prop_map(AttributeValue::NumberSet),
            ]
            .boxed()
        };
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(AttributeValue::List),
                prop::collection::btree_map("\\PC{0,5}", inner, 0..4).prop_map(AttributeValue::Map),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            plain in prop::collection::btree_map("[a-o]{1,4}", value(true), 0..5),
            full in prop::collection::btree_map("[a-o]{1,4}", value(false), 0..5),
        ) {
            for (attributes, format) in [(plain, Format::Plain), (full, Format::DynamoDb)] {
                let mut read = read(&write(&attributes, format), format).expect("valid");
                read.remove("pk");
                read.remove("sk");
                prop_assert_eq!(read, attributes);
            }
        }

        #[test]
        fn no_body_makes_it_panic(text in "[\\[\\]{}\",:0-9a-zA-Z.+\\\\-]{0,60}") {
            let _ = read(&text, Format::Plain);
            let _ = read(&text, Format::DynamoDb);
        }
    }
}
