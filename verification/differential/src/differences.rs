//! What an endpoint may answer otherwise than DynamoDB. docs/COMPATIBILITY.md is written from this table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::exchange::{Exchange, is_of_all_keys};
use crate::side::{Answer, Setting};
use crate::table::{GLOBAL_INDEX, LOOKALIKE};

/// One permitted difference: a row of docs/COMPATIBILITY.md.
#[derive(Debug)]
pub struct Difference {
    /// By what the counts of programs name it.
    pub name: &'static str,
    /// What differs.
    pub what: &'static str,
    /// For which collections, and when.
    pub when: &'static str,
    /// What operators can do about it, if anything.
    pub what_to_do: &'static str,
    /// In which settings programs show it.
    pub settings: &'static [Setting],
    /// Whether two answers differ in this way. Rows without it are those that no answer shows.
    pub permits: Option<fn(&Exchange) -> bool>,
}

const SEVERAL: &str = "a key that has several shards, or is being resharded";

const MOVING: &str = "while a key is being resharded";

/// All of them.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "unchanged writes",
        what: "A write that changes nothing makes a stream record and a write of each index with all attributes, since \
               `_ds_v` changes, and costs what the item takes",
        when: "always",
        what_to_do: "Compare images",
        settings: &Setting::ALL,
        permits: Some(unchanged_writes),
    },
    Difference {
        name: "item bytes",
        what: "Items take 16 to 30 bytes more (`_ds_v`, `_ds_g`, the suffix of the key): at the edge of 1 KB, a unit more",
        when: "always",
        what_to_do: "",
        settings: &Setting::ALL,
        permits: Some(item_bytes),
    },
    Difference {
        name: "largest item",
        what: "Items above 399 KB are refused. One that an update takes into the last 30 bytes below 400 KB cannot move, and \
               its reshard waits until it shrinks",
        when: "always",
        what_to_do: "The log names the item",
        settings: &Setting::ALL,
        permits: Some(largest_item),
    },
    Difference {
        name: "long keys",
        what: "Partition keys above 2,000 bytes are refused",
        when: "always",
        what_to_do: "Rename before adopting",
        settings: &Setting::ALL,
        permits: Some(long_keys),
    },
    Difference {
        name: "reserved names",
        what: "Partition keys and attributes that begin with `_ds_` are refused",
        when: "always",
        what_to_do: "Rename before adopting",
        settings: &Setting::ALL,
        permits: Some(reserved_names),
    },
    Difference {
        name: "lookalike keys",
        what: "Partition keys that end in the separator and digits are held under a key with a suffix, so they have another place, \
               and another segment, in a Scan and in the ties of a global index, and an expression that compares the key with a value \
               compares that. One that uses the key's value for an update is refused",
        when: "always",
        what_to_do: "",
        settings: &Setting::ALL,
        permits: Some(lookalike_keys),
    },
    Difference {
        name: "own item",
        what: "The table holds an item that says to which stack it belongs. A Scan hides it, but counts it in \
               `Limit`, so that a page may end at it",
        when: "always",
        what_to_do: "",
        settings: &Setting::ALL,
        permits: None,
    },
    Difference {
        name: "legacy errors",
        what: "Errors of legacy parameters speak of expressions",
        when: "always",
        what_to_do: "",
        settings: &Setting::ALL,
        permits: Some(legacy_errors),
    },
    Difference {
        name: "words of expressions",
        what: "Where an expression ends wrongly, what DynamoDB says of it may quote what every request carries. Names or values \
               without an expression, and placeholders that are not defined and look like the endpoint's, are refused in words \
               of its own",
        when: "always",
        what_to_do: "",
        settings: &Setting::ALL,
        permits: Some(words_of_expressions),
    },
    Difference {
        name: "no DynamoDB JSON",
        what: "A member of another JSON type than DynamoDB's is refused as `SerializationException`, in words of the endpoint's",
        when: "always",
        what_to_do: "",
        settings: &Setting::ALL,
        permits: Some(no_dynamodb_json),
    },
    Difference {
        name: "batches",
        what: "BatchWriteItem is single writes: a fault of an index key or of a size that only DynamoDB sees may leave others \
               written. What is wrong with an entry, or with their number, is told in words of the endpoint's, also of a transaction",
        when: "always",
        what_to_do: "",
        settings: &Setting::ALL,
        permits: Some(batches),
    },
    Difference {
        name: "long expressions",
        what: "Expressions above 3.9 KB, or of more than 296 operators, are refused",
        when: "always",
        what_to_do: "",
        settings: &Setting::ALL,
        permits: Some(long_expressions),
    },
    Difference {
        name: "pages of all keys",
        what: "A Scan shows the items of keys that are listed behind all others, and reads and counts them twice. One that is \
               first listed meanwhile may come twice. An index that does not name the partition key of the table shows its \
               entries in another order. Pages end elsewhere, and a `LastEvaluatedKey` need not name an item",
        when: "once any key was listed: it has or had several shards, or was given settings of its own",
        what_to_do: "Page to the end",
        settings: &Setting::GROWN,
        permits: Some(pages_of_all_keys),
    },
    Difference {
        name: "indexes while moving",
        what: "An index may show an item that is moved between two requests of a Query or Scan twice, in an older form, or not at \
               all: for milliseconds, and to a read that is not strong for a lease where its endpoint does not know of the \
               change. One that shares its key in an index by another key with others may be passed by",
        when: MOVING,
        what_to_do: "Read the table",
        settings: &[Setting::Move, Setting::Forward, Setting::Behind, Setting::Moving],
        permits: None,
    },
    Difference {
        name: "ties in indexes",
        what: "Entries of an index that share its sort key are in the order of the table's sort key. Where DynamoDB has them in \
               another, which it does not document, the Query is refused (`index_order`)",
        when: SEVERAL,
        what_to_do: "Read the table",
        settings: &Setting::GROWN,
        permits: None,
    },
    Difference {
        name: "values of the partition key",
        what: "An expression that uses the value of the partition key is refused, and so it is in a page of an index over all \
               keys; `attribute_exists` and `attribute_not_exists` may name the key",
        when: SEVERAL,
        what_to_do: "Compare before sending",
        settings: &Setting::GROWN,
        permits: Some(values_of_the_partition_key),
    },
    Difference {
        name: "units of queries",
        what: "A Query costs a request for each shard, and reads ahead in each of them. `ConsumedCapacity` says so",
        when: SEVERAL,
        what_to_do: "Shard only what is hot",
        settings: &Setting::GROWN,
        permits: Some(units_of_queries),
    },
    Difference {
        name: "units while moving",
        what: "All reads are strong, of the old home as well, and what moves an item is written before it is read in a transaction or \
               written. `ConsumedCapacity` tells of the request that is answered alone, of what lies at the new home",
        when: MOVING,
        what_to_do: "",
        settings: &[Setting::Move, Setting::Forward, Setting::Behind, Setting::Moving],
        permits: Some(units_while_moving),
    },
    Difference {
        name: "tokens",
        what: "A transaction that is repeated with its `ClientRequestToken` is refused with `IdempotentParameterMismatchException`",
        when: "if a reshard of one of its keys has begun or ended since it was first sent, or the shards of indexes have become more",
        what_to_do: "Read what it has written",
        settings: &[Setting::Move, Setting::Forward, Setting::Behind, Setting::Moving],
        permits: Some(tokens),
    },
    Difference {
        name: "collection sizes",
        what: "`ItemCollectionMetrics`, and the 10 GB limit of local indexes, are of one shard",
        when: SEVERAL,
        what_to_do: "",
        settings: &Setting::GROWN,
        permits: None,
    },
    Difference {
        name: "write-sharded indexes",
        what: "A Query of an index with `_ds_index_shard` in its key names the value alone, has 1,000 items at most, and goes on only behind a `LastEvaluatedKey`",
        when: "always",
        what_to_do: "",
        settings: &[],
        permits: None,
    },
    Difference {
        name: "PartiQL",
        what: "PartiQL is refused",
        when: "always",
        what_to_do: "Use expressions",
        settings: &Setting::ALL,
        permits: Some(partiql),
    },
    Difference {
        name: "unknown parameters",
        what: "Parameters that are new to DynamoDB are refused until they are known",
        when: "always",
        what_to_do: "Upgrade",
        settings: &Setting::ALL,
        permits: Some(unknown_parameters),
    },
    Difference {
        name: "settings of tables",
        what: "UpdateTimeToLive and DeleteTable of managed tables are refused; global tables cannot be managed",
        when: "always",
        what_to_do: "`dynashard settings`, `adopt --leave`",
        settings: &Setting::ALL,
        permits: Some(settings_of_tables),
    },
    Difference {
        name: "unknown fates",
        what: "A write of unknown fate is 500, and one that had no lease any more is 503",
        when: "always",
        what_to_do: "SDKs repeat: give updates that are not to count twice, such as `ADD`, a condition",
        settings: &Setting::ALL,
        permits: None,
    },
    Difference {
        name: "other tables",
        what: "Tables without a sort key, with a partition key that is not `S`, or with a sort key of type `B`, and those of \
               the placement `random`, cannot be managed",
        when: "always",
        what_to_do: "They pass unsharded",
        settings: &Setting::ALL,
        permits: None,
    },
    Difference {
        name: "one hop",
        what: "There is one hop more, and the credentials are the endpoint's",
        when: "always",
        what_to_do: "",
        settings: &Setting::ALL,
        permits: None,
    },
];

/// The page that lists them.
pub fn page() -> String {
    let mut page = "# Compatibility\n\n<!-- written by verification/differential -->\n\nA collection of one shard is DynamoDB's own: the same request, the same answer and \
                    order, but for the rows below. One of several shards is answered as that, but for the rows that say so. Whatever is not supported is refused, never ignored.\n\n\
                    `verification/differential` writes this page, and sends random programs to the endpoint and to \
                    DynamoDB's engine: an answer that differs in another way fails, and so does a row that no program \
                    meets. What no answer can show is marked.\n\n\
                    | What differs | When | What to do | Shown by answers |\n|---|---|---|---|\n"
        .to_owned();
    for Difference { what, when, what_to_do, permits, .. } in DIFFERENCES {
        let shown = if permits.is_some() { "yes" } else { "no" };
        writeln!(page, "| {what} | {when} | {what_to_do} | {shown} |").expect("a string");
    }
    page.push_str("\n<!-- end -->\n");
    page
}

/// The row that permits the two answers to differ, if one does.
pub(crate) fn permitted(exchange: &Exchange) -> Option<&'static str> {
    let permits = |row: &&Difference| {
        row.settings.contains(&exchange.setting)
            && row.permits.is_some_and(|permits| permits(exchange))
    };
    DIFFERENCES.iter().find(permits).map(|row| row.name)
}

/// Only the units of indexes differ, and those of the table do not.
fn unchanged_writes(exchange: &Exchange) -> bool {
    let updates = exchange.operation == "UpdateItem"
        || exchange.operation == "TransactWriteItems"
            && any_key(&exchange.request, &|name, _| name == "Update");
    if updates && exchange.plain.status == 200 && agree_but_for_units(exchange) {
        return true;
    }
    let is_write = ["PutItem", "UpdateItem", "BatchWriteItem", "TransactWriteItems"]
        .contains(&exchange.operation.as_str());
    let units = |answer: &Value| {
        let capacity = &answer["ConsumedCapacity"];
        let one = if capacity.is_array() { &capacity[0] } else { capacity };
        one["Table"]["CapacityUnits"].as_f64()
    };
    let tables = (units(&exchange.plain.body), units(&exchange.other.body));
    is_write && tables.0.is_some() && tables.0 == tables.1 && item_bytes(exchange)
}

/// Only units differ: the other side took more, but not more than twice as many, for an item, or a page, is at the edge of a
/// unit once for each. An index that nothing was written to before may take some.
fn item_bytes(exchange: &Exchange) -> bool {
    let (mut plain, mut other) = (exchange.plain.clone(), exchange.other.clone());
    let units = [&mut plain, &mut other].map(|answer| {
        let members = answer.body.as_object_mut();
        members.and_then(|members| members.remove("ConsumedCapacity")).unwrap_or_default()
    });
    plain == other && takes_more(&units[0], &units[1])
}

fn takes_more(plain: &Value, other: &Value) -> bool {
    match (plain, other) {
        (Value::Object(plain), Value::Object(other)) => {
            let known = plain.iter().all(|(name, units)| {
                other.get(name).is_some_and(|others| takes_more(units, others))
            });
            known && other.keys().all(|name| plain.contains_key(name) || name.ends_with("Indexes"))
        }
        (Value::Array(plain), Value::Array(other)) => {
            plain.len() == other.len()
                && plain.iter().zip(other).all(|(plain, other)| takes_more(plain, other))
        }
        _ => match (plain.as_f64(), other.as_f64()) {
            (Some(plain), Some(other)) => plain <= other && other <= 2.0 * plain.max(1.0),
            _ => plain == other,
        },
    }
}

/// A size that DynamoDB takes, or says otherwise of, is refused.
fn largest_item(exchange: &Exchange) -> bool {
    let is_big = exchange.request.to_string().len() >= 399 * 1_024 - 100;
    let other = exchange.other.body.get("message").and_then(Value::as_str).unwrap_or_default();
    // A transaction says it among its reasons.
    let reasons = exchange.other.body["CancellationReasons"].as_array().into_iter().flatten();
    let reasons = reasons.filter_map(|reason| reason["Message"].as_str());
    reasons.chain([other]).any(|why| why.contains("Item size"))
        || is_big && is_refused_by_other(exchange)
}

fn long_keys(exchange: &Exchange) -> bool {
    let is_long = any_key(&exchange.request, &|name, value| {
        name == "pk" && value["S"].as_str().is_some_and(|key| key.len() > 2_000)
    });
    is_long && is_own_refusal(exchange)
}

/// Wherever a name stands: as an attribute, behind a placeholder, in a text or as a key.
fn reserved_names(exchange: &Exchange) -> bool {
    let is_own = |text: &Value| text.as_str().is_some_and(|text| text.starts_with("_ds_"));
    let is_reserved = any_key(&exchange.request, &|name, value| {
        let text = value.as_str().unwrap_or_default();
        name.starts_with("_ds_")
            || name == "pk" && is_own(&value["S"])
            || name.starts_with('#') && is_own(value)
            || name.ends_with("Expression") && text.contains("_ds")
    });
    is_reserved && is_own_refusal(exchange)
}

/// Only the order of the items of a whole page differs, which is that of physical keys. A segment has others of such a key.
fn lookalike_keys(exchange: &Exchange) -> bool {
    let text = exchange.request.to_string();
    let compares =
        ["Filter", "Condition"].iter().any(|kind| text.contains(&format!("{kind}Expression\":")));
    let other = exchange.other.body["message"].as_str().unwrap_or_default();
    let uses = other.starts_with("dynashard: partition_key_value: ") && is_own_refusal(exchange);
    if (compares || uses) && text.contains(LOOKALIKE) {
        return true;
    }
    if exchange.request.get("Segment").is_none() {
        return is_same_page(exchange);
    }
    let others = [&exchange.plain, &exchange.other].map(|answer| {
        let items = answer.body.get("Items").and_then(Value::as_array);
        let is_other = |item: &&Value| item["pk"]["S"].as_str().is_some_and(|key| key != LOOKALIKE);
        let mut others = items.into_iter().flatten().filter(is_other).collect::<Vec<_>>();
        others.sort_by_cached_key(ToString::to_string);
        (answer.status, others)
    });
    exchange.operation == "Scan" && others[0] == others[1] && others[0].0 == 200
}

/// Whether the other page has the items of the plain one in some order. A page that is a part of another has an order to keep, and so
/// has one of a collection.
fn is_same_page(exchange: &Exchange) -> bool {
    let Exchange { operation, request, .. } = exchange;
    let is_part = ["Limit", "ExclusiveStartKey"].iter().any(|name| request.get(name).is_some());
    let of_several = operation == "Scan" || request["IndexName"] == GLOBAL_INDEX;
    if is_part || !of_several {
        return false;
    }
    let mut both = exchange.clone();
    for answer in [&mut both.plain, &mut both.other] {
        if let Some(items) = answer.body.get_mut("Items").and_then(Value::as_array_mut) {
            items.sort_by_cached_key(Value::to_string);
        }
    }
    item_bytes(&both)
}

/// Both refuse a request with legacy parameters, in words of their own.
fn legacy_errors(exchange: &Exchange) -> bool {
    let legacy = [
        "Expected",
        "AttributeUpdates",
        "KeyConditions",
        "QueryFilter",
        "ScanFilter",
        "AttributesToGet",
        "ConditionalOperator",
    ];
    // The engine takes a list of nothing, other than DynamoDB.
    let gets_nothing = |name: &str, value: &Value| {
        name == "AttributesToGet" && value.as_array().is_some_and(Vec::is_empty)
    };
    if any_key(&exchange.request, &gets_nothing) && exchange.other.status == 400 {
        return true;
    }
    // The engine looks at the condition before a set of nothing, and adds one, other than DynamoDB.
    let other = exchange.other.body.get("message").and_then(Value::as_str).unwrap_or_default();
    let is_validated =
        exchange.exceptions()[0] == "ValidationException" || other.contains("empty for key");
    // In the values of an expression the engine looks into no list or map for a set of nothing, other than DynamoDB.
    let plain = exchange.plain.body.get("message").and_then(Value::as_str).unwrap_or_default();
    let is_empty = |name: &str, value: &Value| {
        ["SS", "NS", "BS"].contains(&name) && value.as_array().is_some_and(Vec::is_empty)
    };
    let is_within =
        |name: &str, value: &Value| ["L", "M"].contains(&name) && any_key(value, &is_empty);
    let is_unseen =
        plain.ends_with("not be empty") && any_key(&exchange.request["Expected"], &is_within);
    any_key(&exchange.request, &|name, _| legacy.contains(&name))
        && is_validated
        && (exchange.other.status == 400 || is_unseen)
}

/// The longest sort key, in bytes (DynamoDB Developer Guide, "Quotas").
const MAX_SORT_KEY: usize = 1_024;

/// Both refuse an expression, or what stands beside it.
fn words_of_expressions(exchange: &Exchange) -> bool {
    const WORDS: [&str; 7] = [
        "Syntax error",
        "unused in expressions",
        "Invalid ProjectionExpression",
        "Invalid UpdateExpression",
        "can only be specified when using expressions",
        "must not be empty",
        "is not defined; attribute",
    ];
    let says = |answer: &Answer| {
        let message = answer.body.get("message").and_then(Value::as_str).unwrap_or_default();
        WORDS.iter().any(|words| message.contains(words))
    };
    // The engine lets an update without an expression have names, and whatever is in a transaction, other than DynamoDB.
    let is_lenient = ["UpdateItem", "TransactWriteItems"].contains(&&*exchange.operation)
        && exchange.exceptions()[0] != "ValidationException";
    let other = exchange.other.body.get("message").and_then(Value::as_str).unwrap_or_default();
    // The engine takes keys that DynamoDB refuses, and values that are not defined where it does not come to them.
    let is_bad_key = |name: &str, value: &Value| {
        let length = value.as_str().map_or(1, str::len);
        name == "S" && (length == 0 || length > MAX_SORT_KEY)
    };
    let page = other.strip_prefix("dynashard: the page was not understood: ");
    let is_refused = match page {
        Some("its range of sort keys is none" | "it begins outside of its range") => {
            any_key(&exchange.request, &is_bad_key)
        }
        Some(why) => {
            let values = &exchange.request["ExpressionAttributeValues"];
            let name = why.split_once("is not defined; attribute value: ");
            name.is_some_and(|(_, name)| values[name].is_null())
        }
        None => {
            other == "dynashard: the key condition was not understood"
                && exchange.plain.body["ScannedCount"] == 0
        }
    };
    if is_refused {
        return true;
    }
    // The engine reads a filter as far as the items that it meets have it read. The endpoint has it judge one item.
    let plain = exchange.plain.body.get("message").and_then(Value::as_str);
    if plain.is_some() && page == plain {
        return true;
    }
    let is_of_a_name =
        ["unused in expressions", "is not defined", "can only be specified when using expressions"];
    is_lenient && is_of_a_name.iter().any(|words| other.contains(words))
        || [&exchange.plain, &exchange.other].iter().all(|answer| answer.status == 400)
            && (says(&exchange.plain) || says(&exchange.other))
}

/// Both refuse, and the endpoint since a member is of another type.
fn no_dynamodb_json(exchange: &Exchange) -> bool {
    let [plain, other] = exchange.exceptions();
    let message = exchange.plain.body.get("message").and_then(Value::as_str).unwrap_or_default();
    // The engine takes no null for what is absent, other than DynamoDB.
    if message.starts_with("invalid type: null") {
        return true;
    }
    // It says in words of its own what is absent.
    if message.starts_with("missing field") && exchange.other.status == 400 {
        return true;
    }
    // The engine takes a part of a number for its limit.
    if exchange.request["Limit"].is_f64() && other == "SerializationException" {
        return true;
    }
    let is_plain_s = plain == "SerializationException" || message.starts_with("invalid type");
    exchange.plain.status == 400
        && (other == "SerializationException" || is_plain_s && exchange.other.status == 400)
}

/// An item that an index refuses has left others written, which `Left` says. Where there are too many actions the endpoint does
/// not repeat them.
fn batches(exchange: &Exchange) -> bool {
    let wrong = |name: &str, value: &Value| match name {
        "n" => value.get("N").is_none(),
        "s" => value["S"].as_str().is_none_or(str::is_empty),
        _ => false,
    };
    let Exchange { plain, other, .. } = exchange;
    let only_words = [plain, other].iter().all(|answer| answer.status == 400)
        && plain.body.get("Left") == other.body.get("Left");
    let of_an_index =
        any_key(&exchange.request, &wrong) && exchange.exceptions() == ["ValidationException"; 2];
    let says = |answer: &Answer| {
        let message = answer.body.get("message").and_then(Value::as_str).unwrap_or_default();
        message.ends_with("at 'transactItems' failed to satisfy constraint: Member must have length less than or equal to 100")
    };
    only_words && says(plain) && says(other)
        || exchange.operation == "BatchWriteItem" && (only_words || of_an_index)
}

fn long_expressions(exchange: &Exchange) -> bool {
    let is_long = any_key(&exchange.request, &|name, value| {
        let text = value.as_str().unwrap_or_default();
        name.ends_with("Expression")
            && (text.len() > 3_900 || text.matches('=').count() + text.matches("<>").count() > 145)
    });
    is_long && is_refused_by_other(exchange)
}

/// All pages together have what the plain side's have, in some order. While keys are resharded an item may come twice.
fn pages_of_all_keys(exchange: &Exchange) -> bool {
    let mut both = exchange.clone();
    for answer in [&mut both.plain, &mut both.other] {
        for name in ["Pages", "ScannedCount"] {
            answer.body.as_object_mut().and_then(|members| members.remove(name));
        }
    }
    if exchange.setting == Setting::Moving {
        show_once(&both.plain.body, &mut both.other.body);
    }
    is_of_all_keys(&exchange.operation, &exchange.request) && is_same_page(&both)
}

/// Has a page show once what it shows twice, or count once what it counts at most twice.
fn show_once(plain: &Value, other: &mut Value) {
    let counted = plain["Count"].as_u64().zip(other["Count"].as_u64());
    if counted.is_some_and(|(plain, other)| (plain..=2 * plain).contains(&other)) {
        other["Count"] = plain["Count"].clone();
    }
    let (Some(Value::Array(items)), Some(Value::Array(more))) =
        (plain.get("Items"), other.get_mut("Items"))
    else {
        return;
    };
    // A projection may make several items look the same.
    let mut times = BTreeMap::<String, [usize; 2]>::new();
    for item in items {
        times.entry(item.to_string()).or_default()[0] += 1;
    }
    more.retain(|item| {
        let [plain, other] = times.entry(item.to_string()).or_default();
        *other += 1;
        // What comes more often than twice stays, and differs.
        *other <= *plain || *other > 2 * *plain
    });
}

fn values_of_the_partition_key(exchange: &Exchange) -> bool {
    let message = exchange.other.body["message"].as_str().unwrap_or_default();
    message.starts_with("dynashard: partition_key_value: ") && is_own_refusal(exchange)
}

/// Only units differ, and the other side took more.
fn units_of_queries(exchange: &Exchange) -> bool {
    let units = [&exchange.plain, &exchange.other]
        .map(|answer| answer.body["ConsumedCapacity"]["CapacityUnits"].as_f64());
    exchange.operation == "Query"
        && agree_but_for_units(exchange)
        && units[0].zip(units[1]).is_some_and(|(plain, other)| plain < other)
}

fn units_while_moving(exchange: &Exchange) -> bool {
    exchange.operation != "Query" && agree_but_for_units(exchange)
}

fn tokens(exchange: &Exchange) -> bool {
    let is_mismatch = exchange.exceptions()[1] == "IdempotentParameterMismatchException";
    is_mismatch
        && exchange.request.get("ClientRequestToken").is_some()
        && exchange.plain.status == 200
}

fn agree_but_for_units(exchange: &Exchange) -> bool {
    let mut both = exchange.clone();
    for answer in [&mut both.plain, &mut both.other] {
        if let Some(members) = answer.body.as_object_mut() {
            members.remove("ConsumedCapacity");
        }
    }
    both.agrees()
}

fn partiql(exchange: &Exchange) -> bool {
    let operations = ["ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction"];
    operations.contains(&exchange.operation.as_str()) && is_own_refusal(exchange)
}

/// A member that the operation does not have, which DynamoDB ignores.
fn unknown_parameters(exchange: &Exchange) -> bool {
    let known = members_of(&exchange.operation);
    let is_known = |name: &String| known.is_empty() || known.contains(&name.as_str());
    let members = exchange.request.as_object().into_iter().flat_map(Map::keys);
    members.filter(|name| !is_known(name)).count() > 0 && is_refused_by_other(exchange)
}

fn settings_of_tables(exchange: &Exchange) -> bool {
    exchange.operation == "UpdateTimeToLive" && is_own_refusal(exchange)
}

/// The other side refuses the request in words that are not DynamoDB's.
fn is_own_refusal(exchange: &Exchange) -> bool {
    let message = exchange.other.body["message"].as_str().unwrap_or_default();
    is_refused_by_other(exchange) && message.starts_with("dynashard: ")
}

/// The other side refuses the request as invalid.
fn is_refused_by_other(exchange: &Exchange) -> bool {
    exchange.exceptions()[1] == "ValidationException"
}

/// Whether any member, at any depth, is such a one.
fn any_key(value: &Value, is_meant: &dyn Fn(&str, &Value) -> bool) -> bool {
    match value {
        Value::Object(members) => {
            members.iter().any(|(name, inner)| is_meant(name, inner) || any_key(inner, is_meant))
        }
        Value::Array(elements) => elements.iter().any(|inner| any_key(inner, is_meant)),
        _ => false,
    }
}

/// The members of an operation's request.
fn members_of(operation: &str) -> Vec<&'static str> {
    const EXPRESSIONS: &str = "TableName ExpressionAttributeNames ExpressionAttributeValues ReturnConsumedCapacity \
                               ConditionalOperator";
    const WRITES: &str = "ConditionExpression Expected ReturnValues ReturnItemCollectionMetrics \
                          ReturnValuesOnConditionCheckFailure";
    const PAGES: &str = "FilterExpression ProjectionExpression AttributesToGet Select Limit ExclusiveStartKey IndexName \
                         ConsistentRead";
    let own: &[&str] = match operation {
        "PutItem" => &[EXPRESSIONS, WRITES, "Item"],
        "UpdateItem" => &[EXPRESSIONS, WRITES, "Key UpdateExpression AttributeUpdates"],
        "DeleteItem" => &[EXPRESSIONS, WRITES, "Key"],
        "GetItem" => &[
            "TableName Key ExpressionAttributeNames ReturnConsumedCapacity",
            "ProjectionExpression AttributesToGet ConsistentRead",
        ],
        "Query" => &[
            EXPRESSIONS,
            PAGES,
            "KeyConditionExpression KeyConditions QueryFilter ScanIndexForward",
        ],
        "Scan" => &[EXPRESSIONS, PAGES, "ScanFilter Segment TotalSegments"],
        "BatchGetItem" => &["RequestItems ReturnConsumedCapacity"],
        "BatchWriteItem" => &["RequestItems ReturnConsumedCapacity ReturnItemCollectionMetrics"],
        "TransactGetItems" => &["TransactItems ReturnConsumedCapacity"],
        "TransactWriteItems" => {
            &["TransactItems ClientRequestToken ReturnConsumedCapacity ReturnItemCollectionMetrics"]
        }
        _ => &[],
    };
    own.iter().flat_map(|names| names.split_whitespace()).collect()
}
