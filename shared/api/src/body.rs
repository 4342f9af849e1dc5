//! The bodies of requests.

use dynashard_core::ports::Consistency;
use dynashard_core::{
    Attributes, BatchOperation, Bounds, Code, Error, Extent, Fields, MAX_BATCH_GETS,
    MAX_BATCH_OPERATIONS, MAX_COUNTED, NewItem, TableSchema,
};
use dynashard_keys::{ItemKey, Number, Placement, ShardCount, SortKeyType};
use serde_json::value::RawValue;

use crate::grants::GrantedKeys;
use crate::headers;
use crate::json::{self, Format, Members, payload_bytes};
use crate::params::Params;
use crate::problem::Problem;
use crate::request::Request;
use crate::view::Unprocessed;

/// Where a request has its item or its patch.
#[derive(Debug, Clone, Copy)]
pub enum Document<'a> {
    /// The body is the document, since the key is in the URL.
    Body(&'a [u8]),
    /// A member of the body, beside the key.
    Member(&'static str, &'a RawValue),
}

impl<'a> Document<'a> {
    fn members(self) -> Result<Members<'a>, Problem> {
        match self {
            Self::Body(body) => json::object(body),
            Self::Member(name, value) => json::inner_object(value, &format!("{name:?}")),
        }
    }
}

/// The parameters of a request that has them in its body, and none in its URL.
pub fn params(request: &Request, sort_key_type: SortKeyType) -> Result<Params, Problem> {
    request.params()?.finish()?;
    headers::expect_json(request)?;
    Params::from_json(&request.body, sort_key_type)
}

/// The parameters of a request whose body has them in place of its URL, and the document beside them under this name.
pub fn params_beside<'a>(
    body: &'a [u8],
    name: &'static str,
    sort_key_type: SortKeyType,
) -> Result<(Params, Document<'a>), Problem> {
    let mut members = json::object(body)?;
    let value = members.remove(name);
    let value = value.ok_or_else(|| Problem::bad_body(format!("the body has no {name:?}")))?;
    Ok((Params::from_members(members, sort_key_type)?, Document::Member(name, value)))
}

/// The item of a put.
pub fn item(
    document: Document<'_>,
    key: ItemKey,
    format: Format,
    schema: &TableSchema,
) -> Result<NewItem, Problem> {
    let attributes = json::attributes(document.members()?, format)?;
    Ok(NewItem::new(key, attributes, schema)?)
}

/// The changes of a patch.
pub fn patch(
    document: Document<'_>,
    key: &ItemKey,
    schema: &TableSchema,
) -> Result<Attributes, Problem> {
    let changes = json::attributes(document.members()?, Format::Plain)?;
    Ok(dynashard_core::checked_patch(key, changes, schema)?)
}

/// The operations of a batch write: `{"puts": [{pk, sk, item}], "deletes": [{pk, sk}]}`. One partition key that the caller
/// may not touch refuses all of them.
pub fn batch_write(
    body: &[u8],
    format: Format,
    schema: &TableSchema,
    granted: &GrantedKeys,
) -> Result<Vec<BatchOperation>, Problem> {
    let mut members = json::object(body)?;
    let puts = take_array(&mut members, "puts")?;
    let deletes = take_array(&mut members, "deletes")?;
    refuse_others(&members, "the batch")?;
    // Refused before each of them is read.
    if puts.len() + deletes.len() > MAX_BATCH_OPERATIONS {
        let why = format!("{} operations; at most 1000 are allowed", puts.len() + deletes.len());
        return Err(Problem::bad_parameter(why));
    }
    let puts = puts.into_iter().enumerate().map(|(at, value)| {
        let what = format!("puts[{at}]");
        let mut put = json::inner_object(value, &what)?;
        let key = json::take_item_key(&mut put, schema.sort_key_type, granted, &what)?;
        let item = put
            .remove("item")
            .ok_or_else(|| Problem::bad_body(format!("{what} has no \"item\"")))?;
        refuse_others(&put, &what)?;
        let item = || -> Result<_, Problem> {
            let members = json::inner_object(item, "the item")?;
            let attributes = json::attributes(members, format)?;
            Ok(NewItem::new(key.clone(), attributes, schema)?)
        };
        let item = item().map_err(|problem| {
            problem.of_operation(&what, key.partition.as_str(), &key.sort.to_string())
        })?;
        Ok(BatchOperation::Put(item))
    });
    let deletes = deletes.into_iter().enumerate().map(|(at, value)| {
        let what = format!("deletes[{at}]");
        let mut delete = json::inner_object(value, &what)?;
        let key = json::take_item_key(&mut delete, schema.sort_key_type, granted, &what)?;
        refuse_others(&delete, &what)?;
        Ok(BatchOperation::Delete(key))
    });
    let operations = puts.chain(deletes).collect::<Result<Vec<_>, Problem>>()?;
    // Each key may come back as one that was not processed, and nobody would be told of any if the answer were too large.
    let longest = Code::ALL.iter().map(|code| code.as_str()).max_by_key(|code| code.len());
    let listed = |operation: &BatchOperation| {
        payload_bytes(&Unprocessed::new(operation.key(), longest.unwrap_or_default()))
    };
    let listed = operations.iter().map(listed).sum::<usize>();
    if listed > MAX_LISTED_BYTES {
        let why = format!(
            "the keys of the batch may take {listed} bytes of its answer, and {MAX_LISTED_BYTES} fit: send fewer at once"
        );
        return Err(Problem::bad_parameter(why));
    }
    Ok(operations)
}

/// What the keys that a batch could not process may take of its answer. The rest of Lambda's 6 MB is for the envelope.
const MAX_LISTED_BYTES: usize = 6_000_000;

/// A batch read.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchGet {
    /// The keys of the items.
    pub keys: Vec<ItemKey>,
    /// What to return of each item; everything where nothing is named.
    pub fields: Option<Fields>,
    /// How current.
    pub consistency: Consistency,
}

/// Reads a batch read: `{"keys": [{pk, sk}], "fields": ["name"], "consistent": false}`. One partition key that the caller
/// may not touch refuses all of it.
pub fn batch_get(
    body: &[u8],
    schema: &TableSchema,
    granted: &GrantedKeys,
) -> Result<BatchGet, Problem> {
    let mut members = json::object(body)?;
    if !members.contains_key("keys") {
        return Err(Problem::bad_body("the batch has no \"keys\"".to_owned()));
    }
    let keys = take_array(&mut members, "keys")?;
    let consistent = take_flag(&mut members, "consistent")?;
    let fields = members.remove("fields").map(|value| json::strings(value, "\"fields\""));
    let fields = fields.transpose().map_err(Problem::bad_body)?.flatten();
    let fields = fields.map(Fields::new).transpose()?;
    refuse_others(&members, "the batch")?;
    if keys.len() > MAX_BATCH_GETS {
        let why = format!("{} keys; at most 100 are allowed", keys.len());
        return Err(Problem::bad_parameter(why));
    }
    let keys = keys
        .into_iter()
        .enumerate()
        .map(|(at, value)| {
            let what = format!("keys[{at}]");
            let mut key = json::inner_object(value, &what)?;
            let item_key = json::take_item_key(&mut key, schema.sort_key_type, granted, &what)?;
            refuse_others(&key, &what)?;
            Ok(item_key)
        })
        .collect::<Result<_, Problem>>()?;
    let consistency = if consistent { Consistency::Strong } else { Consistency::Eventual };
    Ok(BatchGet { keys, fields, consistency })
}

/// A new collection: `{"placement": "xxh64", "number_of_shards": n}`. Both may be left out, and the stack allows up to
/// `max_shards`.
pub fn new_collection(
    body: &[u8],
    max_shards: ShardCount,
) -> Result<(Option<Placement>, ShardCount), Problem> {
    let mut members = json::object(body)?;
    let placement = members
        .remove("placement")
        .map(|value| {
            let name = serde_json::from_str::<String>(value.get())
                .map_err(|_| Problem::bad_body("\"placement\" is not a string".to_owned()))?;
            Ok::<_, Problem>(name.parse::<Placement>()?)
        })
        .transpose()?;
    let count = match members.remove("number_of_shards") {
        Some(value) => {
            let count = shard_count(value, max_shards)?;
            if count > max_shards {
                return Err(not_allowed(value, max_shards));
            }
            count
        }
        None => ShardCount::ONE,
    };
    refuse_others(&members, "the collection")?;
    Ok((placement, count))
}

/// A request for another shard count: `{"number_of_shards": n}`, with `"from": sk` of what lies behind this sort key, where
/// `"descending": true` says that newer keys sort lower, and with `"whole": true` of all epochs. More than `max_shards`, which the stack
/// allows, may be what a collection has.
pub fn scale(
    body: &[u8],
    sort_key_type: SortKeyType,
    max_shards: ShardCount,
) -> Result<(Extent, ShardCount), Problem> {
    let mut members = json::object(body)?;
    let count = members
        .remove("number_of_shards")
        .ok_or_else(|| Problem::bad_body("the body has no \"number_of_shards\"".to_owned()))?;
    let from = members.remove("from");
    let descending = take_flag(&mut members, "descending")?;
    let whole = take_flag(&mut members, "whole")?;
    refuse_others(&members, "the body")?;
    let extent = match from {
        None if descending => {
            let why =
                "\"descending\" says which way keys are newer than \"from\", which is missing";
            return Err(Problem::bad_body(why.to_owned()));
        }
        None if whole => Extent::Whole,
        None => Extent::Newest,
        Some(_) if whole => {
            let why = "\"whole\" is about all sort keys, and \"from\" about some";
            return Err(Problem::bad_body(why.to_owned()));
        }
        Some(from) => {
            let boundary = json::sort_key(from, sort_key_type, "from", "the body")?;
            Extent::Behind { boundary, descending }
        }
    };
    Ok((extent, shard_count(count, max_shards)?))
}

/// An add to a counter: `{"add": n, "min": n, "max": n}`. The bounds may be left out.
pub fn add(body: &[u8]) -> Result<(i64, Bounds), Problem> {
    let mut members = json::object(body)?;
    let mut number = |name: &str| {
        let value = members.remove(name).filter(|value| json::type_name(value) != "null");
        let number = value.map(|value| counted(value).ok_or((name.to_owned(), value)));
        number.transpose().map_err(|(name, value)| {
            let (limit, value) = (MAX_COUNTED, value.get());
            let why =
                format!("{name:?} is {value}, and not a whole number from -{limit} to {limit}");
            Problem::bad_body(why)
        })
    };
    let amount = number("add")?;
    let bounds = Bounds { min: number("min")?, max: number("max")? };
    refuse_others(&members, "the body")?;
    let amount = amount.ok_or_else(|| Problem::bad_body("the body has no \"add\"".to_owned()))?;
    if matches!(bounds, Bounds { min: Some(min), max: Some(max) } if min > max) {
        return Err(Problem::bad_body("\"min\" is above \"max\"".to_owned()));
    }
    Ok((amount, bounds))
}

fn counted(value: &RawValue) -> Option<i64> {
    let number = value.get().parse::<Number>().ok()?.to_string().parse::<i64>().ok()?;
    (-MAX_COUNTED..=MAX_COUNTED).contains(&number).then_some(number)
}

/// A count that a collection can have. One that cannot be is refused by what the stack allows.
fn shard_count(value: &RawValue, max_shards: ShardCount) -> Result<ShardCount, Problem> {
    let count = json::whole_number(value).and_then(|count| u32::try_from(count).ok());
    let count = count.and_then(|count| ShardCount::new(count).ok());
    count.ok_or_else(|| not_allowed(value, max_shards))
}

fn not_allowed(value: &RawValue, max_shards: ShardCount) -> Problem {
    let why = format!(
        "{} is not a shard count here: the stack allows whole numbers from 1 to {max_shards} (MaxShards)",
        value.get()
    );
    Error::new(Code::BadShardCount, why).into()
}

fn take_flag(members: &mut Members<'_>, name: &str) -> Result<bool, Problem> {
    members.remove(name).map_or(Ok(false), |value| {
        serde_json::from_str(value.get())
            .map_err(|_| Problem::bad_body(format!("{name:?} is not a boolean")))
    })
}

fn take_array<'a>(members: &mut Members<'a>, name: &str) -> Result<Vec<&'a RawValue>, Problem> {
    members
        .remove(name)
        .map_or(Ok(Vec::new()), |value| json::inner_array(value, &format!("{name:?}")))
}

fn refuse_others(members: &Members<'_>, what: &str) -> Result<(), Problem> {
    match members.keys().next() {
        None => Ok(()),
        Some(name) => Err(Problem::bad_body(format!("{what} has an unknown member {name:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use dynashard_core::MAX_ITEM_BYTES;
    use dynashard_keys::SortKey;

    use super::*;

    #[test]
    fn an_add_is_a_whole_number_and_so_are_its_bounds() {
        let read = |body: &str| add(body.as_bytes()).map_err(|problem| problem.code());
        let bounds = |min, max| Bounds { min, max };
        assert_eq!(read(r#"{"add":1}"#), Ok((1, bounds(None, None))));
        let all = r#"{"add":-2.0,"min":-1e1,"max":9007199254740991}"#;
        assert_eq!(read(all), Ok((-2, bounds(Some(-10), Some(MAX_COUNTED)))));
        assert_eq!(read(r#"{"add":0,"min":null}"#), Ok((0, bounds(None, None))));
        for wrong in [
            "{}",
            "[]",
            r#"{"add":null}"#,
            r#"{"add":"1"}"#,
            r#"{"add":0.5}"#,
            r#"{"add":9007199254740992}"#,
            r#"{"add":1e99}"#,
            r#"{"add":1,"max":true}"#,
            r#"{"add":1,"by":2}"#,
            r#"{"add":1,"min":2,"max":1}"#,
        ] {
            assert_eq!(read(wrong), Err("bad_body"), "{wrong}");
        }
    }

    #[test]
    fn regression_16_0_shards_were_no_whole_number() {
        let max_shards = ShardCount::new(256).expect("a count");
        let count = |text: &str| {
            scale(
                format!(r#"{{"number_of_shards":{text}}}"#).as_bytes(),
                SortKeyType::String,
                max_shards,
            )
            .map(|(_, count)| count)
        };
        for text in ["16", "16.0", "1.6e1"] {
            assert_eq!(count(text).map(ShardCount::get), Ok(16), "{text}");
        }
        for text in ["16.5", "-16.0", "0.0", "1e99", "\"16\"", "null", "true"] {
            assert_eq!(count(text).map_err(|p| p.code()), Err("bad_shard_count"), "{text}");
        }
    }

    #[test]
    fn a_change_is_of_the_newest_epoch_of_what_lies_behind_a_key_or_of_all() {
        let max_shards = ShardCount::new(256).expect("a count");
        let of = |members: &str, sort_keys| {
            let body = format!(r#"{{"number_of_shards":4{members}}}"#);
            scale(body.as_bytes(), sort_keys, max_shards).map(|(extent, _)| extent)
        };
        let string = |members| of(members, SortKeyType::String).map_err(|problem| problem.code());
        let behind = |boundary, descending| Ok(Extent::Behind { boundary, descending });
        let key = SortKey::string("2026").expect("a key");
        assert_eq!(string(""), Ok(Extent::Newest));
        assert_eq!(string(r#","whole":true"#), Ok(Extent::Whole));
        assert_eq!(string(r#","from":"2026""#), behind(key.clone(), false));
        assert_eq!(string(r#","from":"2026","descending":true"#), behind(key, true));
        for wrong in [
            r#","from":2026"#,
            r#","from":"2026","whole":true"#,
            r#","descending":true"#,
            r#","whole":1"#,
            r#","from":null"#,
            r#","until":"2026""#,
        ] {
            assert_eq!(string(wrong), Err("bad_body"), "{wrong}");
        }
        assert_eq!(string(r#","from":"""#), Err("bad_key"));
        let number = of(r#","from":20.5"#, SortKeyType::Number).expect("an extent");
        let boundary = SortKey::parse("20.5", SortKeyType::Number).expect("a key");
        assert_eq!(number, Extent::Behind { boundary, descending: false });
    }

    /// Lambda ended the function for an answer of more than 6 MB, and nobody was told which operations had been carried out.
    #[test]
    fn regression_the_keys_of_a_batch_did_not_fit_into_its_answer() {
        let deletes = |count: usize| {
            let key = |n| serde_json::json!({ "pk": "\"".repeat(1_990), "sk": format!("{n:04}{}", "\"".repeat(1_000)) });
            let body = serde_json::json!({ "deletes": (0..count).map(key).collect::<Vec<_>>() })
                .to_string();
            let (schema, granted) = (TableSchema::default(), GrantedKeys::all());
            batch_write(body.as_bytes(), Format::Plain, &schema, &granted)
        };
        assert_eq!(deletes(480).expect("they fit").len(), 480);
        let refused = deletes(510).expect_err("they do not");
        assert_eq!(refused.code(), "bad_parameter");
    }

    /// Of a thousand operations nobody knew which was meant.
    #[test]
    fn regression_an_error_did_not_say_which_operation_of_a_batch_is_meant() {
        let schema = TableSchema::default();
        let large = "a".repeat(MAX_ITEM_BYTES);
        let good = r#"{"pk":"EWR","sk":"0","item":{}}"#;
        for (pk, item, code, says) in [
            ("EWR", r#"{"_ds_x":1}"#, "reserved_attribute", "_ds_x"),
            ("EWR", &format!(r#"{{"a":"{large}"}}"#), "item_too_large", "399 KB"),
            ("EWR", r#"{"":1}"#, "bad_item", "name is empty"),
            ("EWR", r#"{"pk":"JFK"}"#, "key_mismatch", "pk"),
            ("EWR", r#"{"a":1e999}"#, "bad_body", "\"a\""),
            ("EWR", r#"{"a":1,"a":2}"#, "bad_body", "repeated"),
            ("_ds_meta", "{}", "bad_key", "_ds_"),
            ("", "{}", "bad_key", "empty"),
        ] {
            let put = format!(r#"{{"pk":"{pk}","sk":"1","item":{item}}}"#);
            let body = format!(r#"{{"puts":[{good},{put}]}}"#);
            let all = GrantedKeys::all();
            let refused = batch_write(body.as_bytes(), Format::Plain, &schema, &all);
            let problem = refused.expect_err("refused");
            let detail = problem.log_detail();
            assert_eq!(problem.code(), code, "{detail}");
            assert!(detail.starts_with("puts[1]: "), "{detail}");
            assert!(detail.ends_with(&format!("(pk={pk:?} sk=\"1\")")), "{detail}");
            assert!(detail.contains(says), "{detail}");
        }
        for (list, operation, place) in [
            ("deletes", r#"{"pk":"_ds_meta","sk":"1"}"#, "deletes[0]"),
            ("keys", r#"{"pk":"EWR","sk":""}"#, "keys[0]"),
        ] {
            let body = format!(r#"{{"{list}":[{operation}]}}"#);
            let (body, all) = (body.as_bytes(), GrantedKeys::all());
            let refused = match list {
                "keys" => batch_get(body, &schema, &all).err(),
                _ => batch_write(body, Format::Plain, &schema, &all).err(),
            };
            let problem = refused.expect("refused");
            assert!(problem.log_detail().starts_with(place), "{}", problem.log_detail());
        }
    }

    /// The answer named a bound of the data model, which is far above what a stack allows.
    #[test]
    fn regression_a_wrong_count_was_answered_with_a_bound_that_is_not_the_stacks() {
        let max_shards = ShardCount::new(256).expect("a count");
        for count in ["0", "257", "65537", "4294967296", "-1", "\"4\""] {
            let body = format!(r#"{{"number_of_shards":{count}}}"#);
            let created = new_collection(body.as_bytes(), max_shards).err();
            // A collection may have more shards than the stack allows now, which is asked where it is known.
            let scaled = scale(body.as_bytes(), SortKeyType::String, max_shards).err();
            assert_eq!(scaled.is_none(), count == "257");
            for problem in created.into_iter().chain(scaled) {
                assert_eq!(problem.code(), "bad_shard_count", "{count}");
                assert!(problem.log_detail().contains("from 1 to 256"), "{}", problem.log_detail());
            }
        }
    }
}
