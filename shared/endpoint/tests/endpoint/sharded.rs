//! Queries of collections that have several shards, or are being resharded: they are answered as those of the same items in a
//! table that nobody manages.

use std::sync::Arc;

use dynashard_aws_operator::{RawClient, RawRequest};
use dynashard_core::{CollectionMetadata, Epoch, Epochs, Generation, Phase};
use dynashard_keys::{ItemKey, Placement, Separator, ShardCount, ShardId, SortKey, SortKeyType};
use serde_json::{Value, json};

use crate::canned::{Canned, Reply};
use crate::stack::{MAIN, OTHER, Stack, ask, item, partition};

/// The generation that every layout here has.
pub(crate) const GENERATION: u64 = 2;

fn count(count: u32) -> ShardCount {
    ShardCount::new(count).expect("a count")
}

/// A collection for each phase and placement in which a query reads several shards, the largest first.
pub(crate) fn layouts() -> Vec<CollectionMetadata> {
    let stable = |name: &str, placement, shards| {
        let stable =
            CollectionMetadata::stable(partition(name), placement, count(shards), 1_700_000_000);
        CollectionMetadata { generation: Generation::new(GENERATION), ..stable }
    };
    let in_phase = |name: &str, phase| {
        let in_force = match phase {
            Phase::Move { to, .. } => to,
            Phase::Forward { from, .. } => from,
            Phase::Stable => ShardCount::ONE,
        };
        CollectionMetadata { phase, ..stable(name, Placement::Xxh64, in_force.get()) }
    };
    // What begins with "k1" or less is of the oldest of three epochs.
    let with_epochs = |name: &str, changing, phase, newest| {
        let epoch = |shards, boundary| Epoch {
            count: count(shards),
            boundary: SortKey::string(boundary).expect("a sort key"),
        };
        let older = vec![epoch(1, "k12"), epoch(8, "k25")];
        let epochs = Epochs { older, descending: false, changing };
        CollectionMetadata { epochs, phase, ..stable(name, Placement::Xxh64, newest) }
    };
    let newest = Phase::Move { from: count(1), to: count(4) };
    let older = Phase::Forward { from: count(8), to: count(4) };
    vec![
        stable("sixteen", Placement::Xxh64, 16),
        stable("jump", Placement::Jump, 3),
        stable("random", Placement::Random, 5),
        in_phase("first growth", Phase::Forward { from: count(1), to: count(4) }),
        in_phase("forward", Phase::Forward { from: count(2), to: count(4) }),
        in_phase("growing", Phase::Move { from: count(2), to: count(8) }),
        in_phase("shrinking", Phase::Move { from: count(4), to: count(2) }),
        with_epochs("epochs", None, newest, 4),
        with_epochs("merging epochs", Some(1), older, 16),
    ]
}

/// Writes as the engine takes them, past the endpoint.
pub(crate) async fn write(stack: &Stack, items: Vec<(&str, Value)>) {
    let client = RawClient::new(&stack.operator, stack.database.url());
    for batch in items.chunks(25) {
        let mut by_table = json!({});
        for (table, item) in batch {
            if by_table[*table].is_null() {
                by_table[*table] = json!([]);
            }
            let puts = by_table[*table].as_array_mut().expect("a list");
            puts.push(json!({ "PutRequest": { "Item": item } }));
        }
        let target = "DynamoDB_20120810.BatchWriteItem";
        let body = json!({ "RequestItems": by_table }).to_string().into();
        let request = RawRequest { target, mark: ("x-test", "1"), body, leases: Vec::new() };
        let answer = client.send(request).await.expect("an answer");
        let text = String::from_utf8_lossy(&answer.body);
        assert_eq!((answer.status, &*text), (200, r#"{"UnprocessedItems":{}}"#));
    }
}

/// Lists a collection, puts these items where they may lie in its phase, and all of them under its key into [`OTHER`].
///
/// Of those that move a third is where it was, a third has moved, and a third was put since the reshard began. There are also
/// markers of what was deleted since.
pub(crate) async fn lay_out(stack: &Stack, metadata: &CollectionMetadata, items: &[Value]) {
    let (partition, placement) = (&metadata.partition, metadata.placement);
    let mut writes = Vec::new();
    let mut place = |sort: &SortKey, shard: ShardId, mut item: Value, is_marker: bool| {
        let key = ItemKey::new(partition.clone(), sort.clone());
        item["pk"] =
            json!({ "S": key.at(shard, placement, Separator::default()).partition.as_str() });
        item["_ds_g"] = json!({ "N": GENERATION.to_string() });
        item[if is_marker { "_ds_fwd" } else { "_ds_v" }] = json!({ "N": "7" });
        writes.push((MAIN, item));
    };
    for (at, item) in (0..).zip(items) {
        let (sort_type, text) =
            item["sk"].as_object().and_then(|sk| sk.iter().next()).expect("a key");
        let sort_type = sort_type.parse::<SortKeyType>().expect("a type");
        let sort = SortKey::parse(text.as_str().expect("a text"), sort_type).expect("a sort key");
        let key = ItemKey::new(partition.clone(), sort.clone());
        let metadata = Arc::new(metadata.clone()).at(&sort);
        let homes = metadata.reshard().and_then(|reshard| reshard.homes(&key));
        let marker = json!({ "sk": item["sk"] });
        match homes {
            None => {
                let shard = placement.place(&key, metadata.layout().writable, at);
                place(&sort, shard, item.clone(), false);
            }
            Some((old, _)) if at % 3 == 0 => place(&sort, old, item.clone(), false),
            Some((old, new)) => {
                place(&sort, new, item.clone(), false);
                if at % 3 == 1 {
                    place(&sort, old, marker, true);
                }
            }
        }
    }
    for n in 0..40 {
        let text = format!("k{n:02} deleted");
        let sort = SortKey::string(&text).expect("a sort key");
        let key = ItemKey::new(partition.clone(), sort.clone());
        let reshard = Arc::new(metadata.clone()).at(&sort).reshard();
        if let Some((old, _)) = reshard.and_then(|reshard| reshard.homes(&key)) {
            place(&sort, old, json!({ "sk": { "S": text } }), true);
        }
    }
    writes.extend(items.iter().map(|item| {
        let mut item = item.clone();
        item["pk"] = json!({ "S": partition.as_str() });
        (OTHER, item)
    }));
    write(stack, writes).await;
    stack.list(metadata).await;
}

/// Has the settings be pinned, which the first request does.
pub(crate) async fn pin(stack: &Stack) {
    let sk = match stack.sort_key_type() {
        SortKeyType::String => json!({ "S": "1" }),
        SortKeyType::Number => json!({ "N": "1" }),
    };
    let key = json!({ "pk": { "S": "cold" }, "sk": sk });
    let (status, answer) = stack.ask("GetItem", json!({ "TableName": MAIN, "Key": key })).await;
    assert_eq!(status, 200, "{answer}");
}

/// Asks the managed table, and the one that holds all of it in one partition.
pub(crate) async fn ask_both(stack: &Stack, query: &Value) -> [(u16, Value); 2] {
    let ask = async |table: &str| {
        let mut query = query.clone();
        query["TableName"] = table.into();
        let (status, mut answer) = stack.ask("Query", query).await;
        answer.as_object_mut().map(|members| members.remove("ConsumedCapacity"));
        (status, answer)
    };
    [ask(MAIN).await, ask(OTHER).await]
}

/// Reads all pages of a query, each of which has to be the one of the other table. Returns how many there were.
pub(crate) async fn walk(stack: &Stack, query: &Value) -> usize {
    let mut query = query.clone();
    let mut pages = 0;
    loop {
        let [ours, theirs] = ask_both(stack, &query).await;
        assert_eq!(ours, theirs, "page {pages} of {query}");
        assert_eq!(ours.0, 200, "page {pages} of {query}: {}", ours.1);
        pages += 1;
        let Some(last) = ours.1.get("LastEvaluatedKey") else { return pages };
        query["ExclusiveStartKey"] = last.clone();
    }
}

/// Reads all pages of a query of large items, each of which has to be the one of the other table, but for how many items it has
/// counted: the engine counts the one that a page ends before. Returns how many pages there were, and items.
pub(crate) async fn walk_large(stack: &Stack, query: &mut Value) -> (usize, u64) {
    let (mut pages, mut scanned) = (0, 0);
    loop {
        let [(_, mut ours), (_, mut theirs)] = ask_both(stack, query).await;
        let counts = [&mut ours, &mut theirs].map(|answer| answer["ScannedCount"].take());
        scanned += counts[0].as_u64().unwrap_or_default();
        assert_eq!(ours, theirs, "page {pages} of {query}");
        pages += 1;
        let Some(last) = ours.get("LastEvaluatedKey") else { return (pages, scanned) };
        query["ExclusiveStartKey"] = last.clone();
    }
}

/// An item of many types, and of less where `n` is odd.
pub(crate) fn varied(n: usize) -> Value {
    let mut item = json!({
        "sk": { "S": format!("k{n:02}") },
        "n": { "N": n.to_string() },
        "text": { "S": format!("é{}", n % 7) },
        "tags": { "SS": ["b", format!("t{}", n % 5)] },
        "m": { "M": { "a": { "N": (n % 4).to_string() }, "l": { "L": [{ "N": "1" }, { "S": "x" }, { "M": { "y": { "BOOL": true } } }] } } },
    });
    if n.is_multiple_of(2) {
        item["numbers"] = json!({ "NS": ["-1.50", "2e3", n.to_string()] });
        item["large"] = json!({ "N": "1e100" });
        item["small"] = json!({ "N": "-1.5E-100" });
        item["b"] = json!({ "B": "AAEC/w==" });
        item["bs"] = json!({ "BS": ["AA==", "/w=="] });
        item["none"] = json!({ "NULL": true });
        item["empty"] = json!({ "S": "" });
        item["odd names"] = json!({ "M": { "a.b": { "L": [] } } });
    }
    item
}

/// A query of a collection with these parameters, and these `values` beside its partition key.
fn query_of(pk: &str, more: Value) -> Value {
    let mut query = json!({ "KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": { ":p": { "S": pk } } });
    let Value::Object(more) = more else { panic!("no parameters: {more}") };
    for (name, value) in more {
        match value {
            Value::Object(values) if name == "values" => {
                for (placeholder, value) in values {
                    query["ExpressionAttributeValues"][placeholder] = value;
                }
            }
            value => query[name] = value,
        }
    }
    query
}

const RANGES: [&str; 6] =
    ["sk = :f", "sk < :f", "sk <= :f", "sk > :f", ":f <= sk", "begins_with(sk, :f)"];

/// Queries of the items of [`varied`] in a collection.
fn queries(pk: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for forward in [true, false] {
        // Pages by their limit, to the exact end and past it, and a place to begin where no item is.
        for limit in [1, 7, 20, 41, 5_000_000_000_u64] {
            all.push(json!({ "Limit": limit, "ScanIndexForward": forward }));
        }
        for start in ["a", "k10", "k10x", "z"] {
            let start = item(pk, start);
            all.push(
                json!({ "ExclusiveStartKey": start, "ScanIndexForward": forward, "Limit": 9 }),
            );
        }
        // Every range of a key that there is, of one that there is not, and of one behind all.
        for from in ["k10", "k09x", "z", "k1"] {
            for range in RANGES {
                let condition = format!("pk = :p AND {range}");
                let values = json!({ ":f": { "S": from } });
                all.push(json!({ "KeyConditionExpression": condition, "values": values, "ScanIndexForward": forward, "Limit": 10 }));
            }
            let condition = "sk BETWEEN :f AND :t AND (pk = :p)";
            let values = json!({ ":f": { "S": from }, ":t": { "S": "zz" } });
            all.push(json!({ "KeyConditionExpression": condition, "values": values, "ScanIndexForward": forward, "Limit": 10 }));
        }
    }
    // Filters that match nothing, some and all.
    let n = |number: &str| json!({ "N": number });
    for (filter, values) in [
        ("n < :n", json!({ ":n": n("0") })),
        ("n < :n", json!({ ":n": n("4.0") })),
        ("contains(tags, :t)", json!({ ":t": { "S": "t3" } })),
        ("attribute_exists(#large) OR m.a = :n", json!({ ":n": n("2") })),
        ("m.l[2].y = :y AND NOT n = :n", json!({ ":y": { "BOOL": true }, ":n": n("2") })),
        ("size(#text) = :n", json!({ ":n": n("2") })),
        ("attribute_type(n, :t) AND n <> m.a", json!({ ":t": { "S": "N" } })),
        (
            "n IN (:n, :m) OR begins_with(#text, :t)",
            json!({ ":n": n("2"), ":m": n("3.0"), ":t": { "S": "é4" } }),
        ),
    ] {
        let mut query = json!({ "FilterExpression": filter, "values": values, "Limit": 11, "ConsistentRead": true });
        if let Some((_, name)) = filter.split_once('#') {
            let name = name.split([')', ',']).next().unwrap_or_default();
            query["ExpressionAttributeNames"] = json!({ format!("#{name}"): name });
        }
        for select in [Value::Null, "COUNT".into(), "ALL_ATTRIBUTES".into()] {
            query["Select"] = select;
            all.push(query.clone());
        }
    }
    for projection in
        ["sk", "m.l[2], n", "m.l[1], m.l[0], m.a", "numbers, tags", "nowhere, m.nowhere"]
    {
        all.push(json!({ "ProjectionExpression": projection, "Limit": 12, "Select": "SPECIFIC_ATTRIBUTES" }));
    }
    all.push(json!({ "ProjectionExpression": "#b.#d", "ExpressionAttributeNames": { "#b": "odd names", "#d": "a.b" } }));
    all.push(json!({ "ReturnConsumedCapacity": "TOTAL", "Select": "COUNT" }));
    all.push(json!({ "ExpressionAttributeNames": null, "Limit": null, "ExclusiveStartKey": null }));
    all.push(json!({ "KeyConditionExpression": "pk = :p AND begins_with(sk, :f)", "values": { ":f": { "S": "" } } }));
    all.into_iter().map(|more| query_of(pk, more)).collect()
}

/// Queries by the parameters from before there were expressions.
fn legacy_queries(pk: &str) -> Vec<Value> {
    let is = |operator: &str, values: Value| json!({ "ComparisonOperator": operator, "AttributeValueList": values });
    let of_pk = is("EQ", json!([{ "S": pk }]));
    let mut queries = Vec::new();
    for (operator, values) in [
        ("EQ", json!([{ "S": "k10" }])),
        ("LT", json!([{ "S": "k10" }])),
        ("GT", json!([{ "S": "k10" }])),
        ("LE", json!([{ "S": "k10" }])),
        ("GE", json!([{ "S": "k10" }])),
        ("BEGINS_WITH", json!([{ "S": "k1" }])),
        ("BETWEEN", json!([{ "S": "k1" }, { "S": "k12" }])),
    ] {
        queries.push(
            json!({ "KeyConditions": { "pk": of_pk, "sk": is(operator, values) }, "Limit": 5 }),
        );
    }
    for (operator, filter) in [
        (None, json!({ "n": is("GT", json!([{ "N": "35" }])) })),
        (
            Some("OR"),
            json!({ "n": is("LE", json!([{ "N": "3" }])), "tags": is("CONTAINS", json!([{ "S": "t2" }])) }),
        ),
        (
            Some("AND"),
            json!({ "large": { "ComparisonOperator": "NULL" }, "n": is("NE", json!([{ "N": "3" }])) }),
        ),
    ] {
        let mut query = json!({ "KeyConditions": { "pk": of_pk }, "QueryFilter": filter, "AttributesToGet": ["n", "m"] });
        if let Some(operator) = operator {
            query["ConditionalOperator"] = operator.into();
        }
        queries.push(query.clone());
        query["Select"] = "COUNT".into();
        query.as_object_mut().map(|members| members.remove("AttributesToGet"));
        queries.push(query);
    }
    queries
}

/// Queries that DynamoDB refuses.
fn invalid_queries(pk: &str) -> Vec<Value> {
    let start = |key: Value| json!({ "ExclusiveStartKey": key });
    let ranged = |range: &str, values: Value| json!({ "KeyConditionExpression": format!("pk = :p AND {range}"), "values": values });
    let all = [
        json!({ "FilterExpression": "n > :missing" }),
        json!({ "FilterExpression": "n >" }),
        json!({ "FilterExpression": "" }),
        json!({ "FilterExpression": "sk = :p" }),
        json!({ "FilterExpression": "(n = :p" }),
        json!({ "ProjectionExpression": "n, n" }),
        json!({ "ProjectionExpression": "" }),
        json!({ "ProjectionExpression": "#x" }),
        json!({ "ExpressionAttributeNames": { "#x": "unused" } }),
        json!({ "values": { ":unused": { "S": "x" } } }),
        json!({ "KeyConditionExpression": "pk = :p AND n = :p" }),
        json!({ "KeyConditionExpression": "pk = :p AND sk <> :p" }),
        json!({ "KeyConditionExpression": "pk = :p AND" }),
        json!({ "Limit": 0 }),
        json!({ "Limit": -1 }),
        json!({ "Select": "ALL" }),
        json!({ "Select": "SPECIFIC_ATTRIBUTES" }),
        json!({ "Select": "COUNT", "ProjectionExpression": "n" }),
        json!({ "ReturnConsumedCapacity": "ALL" }),
        json!({ "QueryFilter": {} , "FilterExpression": "n = :p" }),
        json!({ "ScanIndexForward": "sideways" }),
        start(json!({ "pk": { "S": pk } })),
        start(json!({ "pk": { "S": "another" }, "sk": { "S": "k10" } })),
        start(json!({ "pk": { "S": pk }, "sk": { "N": "10" } })),
        start(json!({ "pk": { "S": pk }, "sk": { "S": "" } })),
        start(json!({ "pk": { "S": pk }, "sk": { "S": "k10" }, "n": { "N": "10" } })),
        ranged("sk > :f", json!({ ":f": { "N": "1" } })),
        ranged("sk BETWEEN :f AND :t", json!({ ":f": { "S": "b" }, ":t": { "S": "a" } })),
        // Each of these bounds is no part of its range.
        json!({ "KeyConditionExpression": "pk = :p AND sk > :f", "values": { ":f": { "S": "k10" } },
                "ExclusiveStartKey": { "pk": { "S": pk }, "sk": { "S": "k10" } } }),
        json!({ "KeyConditionExpression": "pk = :p AND sk < :f", "values": { ":f": { "S": "k10" } },
                "ExclusiveStartKey": { "pk": { "S": pk }, "sk": { "S": "k10" } } }),
        json!({ "KeyConditionExpression": "pk = :p AND begins_with(sk, :f)", "values": { ":f": { "S": "k1" } },
                "ExclusiveStartKey": { "pk": { "S": pk }, "sk": { "S": "k2" } } }),
    ];
    all.into_iter().map(|more| query_of(pk, more)).collect()
}

#[tokio::test]
async fn every_query_is_answered_as_one_of_a_single_partition() {
    let mut stack = Stack::start().await;
    pin(&stack).await;
    let items = (0..40).map(varied).collect::<Vec<_>>();
    for metadata in layouts() {
        lay_out(&stack, &metadata, &items).await;
    }
    stack.restart();
    for (at, metadata) in layouts().iter().enumerate() {
        let pk = metadata.partition.as_str();
        let all = [queries(pk), legacy_queries(pk)].concat();
        // Every query of the largest, and each of the others of two or three of them.
        let (first, step) = if at == 0 { (0, 1) } else { (at % 3, 3) };
        for query in all.iter().skip(first).step_by(step) {
            walk(&stack, query).await;
        }
    }
    stack.database.shutdown().await;
}

/// A client is told that its request is wrong, also where the engine, other than DynamoDB, takes it.
#[tokio::test]
async fn regression_a_limit_that_is_no_whole_number_was_an_internal_error() {
    let mut stack = Stack::start().await;
    pin(&stack).await;
    let [_, first, ..] = &layouts()[..] else { panic!("there are layouts") };
    stack.list(first).await;
    stack.restart();
    let query = json!({ "TableName": MAIN, "KeyConditionExpression": "pk = :p", "Limit": 1.5,
                        "ExpressionAttributeValues": { ":p": { "S": first.partition.as_str() } } });
    let (status, answer) = stack.ask("Query", query).await;
    assert_eq!(status, 400, "{answer}");
    let kind = answer["__type"].as_str().unwrap_or_default();
    assert!(kind.ends_with("SerializationException"), "{answer}");
    stack.database.shutdown().await;
}

/// Once such a query was taken, one that begins at no key was read from its beginning.
#[tokio::test]
async fn regression_a_query_that_began_at_a_list_was_read_from_its_beginning() {
    let mut stack = Stack::start().await;
    pin(&stack).await;
    let [_, first, ..] = &layouts()[..] else { panic!("there are layouts") };
    stack.list(first).await;
    stack.restart();
    let mut query = json!({ "TableName": MAIN, "KeyConditionExpression": "pk = :p",
                            "ExpressionAttributeValues": { ":p": { "S": first.partition.as_str() } } });
    assert_eq!(stack.ask("Query", query.clone()).await.0, 200);
    query["ExclusiveStartKey"] = json!([]);
    let (status, answer) = stack.ask("Query", query).await;
    assert_eq!(status, 400, "{answer}");
    stack.database.shutdown().await;
}

#[tokio::test]
async fn what_dynamodb_refuses_it_refuses_in_its_own_words() {
    let mut stack = Stack::start().await;
    pin(&stack).await;
    let items = (0..40).map(varied).collect::<Vec<_>>();
    // Its first shard has items, of which the engine judges a filter.
    let [_, first, ..] = &layouts()[..] else { panic!("there are layouts") };
    lay_out(&stack, first, &items).await;
    stack.restart();
    let pk = first.partition.as_str();
    // What was taken before makes nothing valid.
    for query in queries(pk) {
        assert_eq!(ask_both(&stack, &query).await[0].0, 200, "{query}");
    }
    for query in invalid_queries(pk) {
        let [ours, theirs] = ask_both(&stack, &query).await;
        assert_eq!(ours, theirs, "{query}");
        assert_eq!(ours.0, 400, "{query}: {}", ours.1);
    }
    stack.database.shutdown().await;
}

#[tokio::test]
async fn numbers_are_in_their_order_over_all_shards() {
    let mut stack = Stack::with(SortKeyType::Number).await;
    pin(&stack).await;
    let mut sort_keys = (-20..20).map(|n| n.to_string()).collect::<Vec<_>>();
    sort_keys.extend(["1e100", "-1e100", "0.5", "10.25", "1e-100"].map(str::to_owned));
    let items = sort_keys.iter().map(|sk| json!({ "sk": { "N": sk }, "of": { "S": sk } }));
    let items = items.collect::<Vec<_>>();
    let layouts = layouts().into_iter().filter(|metadata| metadata.phase == Phase::Stable);
    let layouts = layouts.collect::<Vec<_>>();
    for metadata in &layouts {
        lay_out(&stack, metadata, &items).await;
    }
    stack.restart();
    for metadata in &layouts {
        for range in
            ["sk = :f", "sk < :f", "sk <= :f", "sk > :f", "sk >= :f", "sk BETWEEN :f AND :t"]
        {
            for (ascending, from) in
                [(true, "2"), (false, "2.0"), (true, "-3.5"), (false, "1E+100")]
            {
                let mut values =
                    json!({ ":p": { "S": metadata.partition.as_str() }, ":f": { "N": from } });
                if range.contains(":t") {
                    values[":t"] = json!({ "N": "1e101" });
                }
                let condition = format!("pk = :p AND {range}");
                let query = json!({ "KeyConditionExpression": condition, "ExpressionAttributeValues": values,
                                    "ScanIndexForward": ascending, "Limit": 6 });
                walk(&stack, &query).await;
            }
        }
    }
    stack.database.shutdown().await;
}

#[tokio::test]
async fn a_page_ends_at_a_megabyte() {
    let mut stack = Stack::start().await;
    pin(&stack).await;
    // From a few bytes to almost the most that an item may take, so that no mean tells of the next one.
    let items = (0..90).map(|n| {
        let length = [300, 9_000, 50_000, 380_000][n % 11 % 4];
        json!({ "sk": { "S": format!("k{n:02}") }, "n": { "N": n.to_string() }, "x": { "S": "x".repeat(length) } })
    });
    let items = items.collect::<Vec<_>>();
    let [first, .., last] = &layouts()[..] else { panic!("there are layouts") };
    for metadata in [first, last] {
        lay_out(&stack, metadata, &items).await;
    }
    stack.restart();
    for metadata in [first, last] {
        for more in [
            json!({}),
            json!({ "ScanIndexForward": false, "Limit": 30 }),
            json!({ "FilterExpression": "n < :n", "values": { ":n": { "N": "3" } } }),
        ] {
            let mut query = query_of(metadata.partition.as_str(), more);
            query["ProjectionExpression"] = "sk".into();
            let (pages, scanned) = walk_large(&stack, &mut query).await;
            assert!(pages > 5 && scanned == 90, "{pages} pages of {scanned} items");
        }
    }
    stack.database.shutdown().await;
}

/// The core reads a thousand items at once.
#[tokio::test]
async fn a_page_of_small_items_has_thousands() {
    let mut stack = Stack::start().await;
    pin(&stack).await;
    let items = (0..2_500).map(|n| json!({ "sk": { "S": format!("{n:04}") } })).collect::<Vec<_>>();
    let [first, ..] = &layouts()[..] else { panic!("there are layouts") };
    lay_out(&stack, first, &items).await;
    stack.restart();
    let mut query = query_of(first.partition.as_str(), json!({}));
    assert_eq!(walk(&stack, &query).await, 1);
    query["Limit"] = 1_250.into();
    assert_eq!(walk(&stack, &query).await, 3, "the last one is empty");
    stack.database.shutdown().await;
}

#[tokio::test]
async fn dynamodb_is_asked_once_whether_it_takes_what_a_paginator_asks() {
    let mut stack = Stack::start().await;
    pin(&stack).await;
    let items = (0..40).map(varied).collect::<Vec<_>>();
    let [first, ..] = &layouts()[..] else { panic!("there are layouts") };
    lay_out(&stack, first, &items).await;
    stack.restart();
    let pk = first.partition.as_str();
    let cost = async |body: Value| {
        let before = stack.database.counters().requests(MAIN, "Query");
        let (status, answer) = stack.ask("Query", body).await;
        assert_eq!(status, 200, "{answer}");
        stack.database.counters().requests(MAIN, "Query") - before
    };
    let query = query_of(pk, json!({ "TableName": MAIN, "Limit": 8 }));
    let mut behind = query.clone();
    behind["ExclusiveStartKey"] = item(pk, "k20");
    let (first, again) = (cost(query.clone()).await, cost(query.clone()).await);
    assert_eq!(first, again + 1);
    let (first, again) = (cost(behind.clone()).await, cost(behind).await);
    assert_eq!(first, again);
    let mut other = query;
    other["Limit"] = 9.into();
    let (first, again) = (cost(other.clone()).await, cost(other.clone()).await);
    assert_eq!(first, again);
    other["ConsistentRead"] = true.into();
    let (first, again) = (cost(other.clone()).await, cost(other).await);
    assert_eq!(first, again + 1);
    stack.database.shutdown().await;
}

#[tokio::test]
async fn a_query_tells_what_it_took_and_names_nothing_of_ours() {
    let mut stack = Stack::start().await;
    pin(&stack).await;
    let items = (0..40).map(varied).collect::<Vec<_>>();
    let [first, ..] = &layouts()[..] else { panic!("there are layouts") };
    lay_out(&stack, first, &items).await;
    stack.restart();
    let more = json!({ "TableName": MAIN, "ReturnConsumedCapacity": "INDEXES" });
    let query = query_of(first.partition.as_str(), more);
    let (_, answer) = stack.ask("Query", query.clone()).await;
    let consumed = &answer["ConsumedCapacity"];
    assert_eq!(
        (&consumed["TableName"], &consumed["Table"]["CapacityUnits"]),
        (&json!(MAIN), &consumed["CapacityUnits"])
    );
    assert!(consumed["CapacityUnits"].as_f64().is_some_and(|units| units >= 8.0), "{consumed}");
    for more in [
        json!({ "FilterExpression": "attribute_exists(_ds_g)" }),
        json!({ "ProjectionExpression": "_ds_v" }),
    ] {
        let mut query = query.clone();
        for (name, value) in more.as_object().into_iter().flatten() {
            query[name] = value.clone();
        }
        let (status, answer) = stack.ask("Query", query).await;
        let why = answer["message"].as_str().unwrap_or_default();
        assert!(status == 400 && why.starts_with("dynashard: reserved_attribute"), "{answer}");
    }
    // The engine takes a part of a number. Here it is the client's fault.
    let mut query = query;
    query["Limit"] = 1.5.into();
    let (status, answer) = stack.ask("Query", query).await;
    assert_eq!(status, 400, "{answer}");
    stack.database.shutdown().await;
}

/// A table whose key `a` has two shards.
async fn with_two_shards() -> Stack {
    let stack = Stack::start().await;
    let metadata =
        CollectionMetadata::stable(partition("a"), Placement::Xxh64, count(2), 1_700_000_000);
    // The first request pins the settings.
    stack.ask("GetItem", json!({ "TableName": MAIN, "Key": item("b", "1") })).await;
    stack.list(&metadata).await;
    stack
}

fn empty() -> Reply {
    Reply::new(200, json!({ "Items": [], "Count": 0, "ScannedCount": 0 }))
}

fn throttled() -> Reply {
    let kind = "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException";
    Reply::new(400, json!({ "__type": kind, "message": "too much" }))
}

#[tokio::test]
async fn a_shard_that_dynamodb_refuses_to_read_for_a_moment_is_asked_again() {
    let stack = with_two_shards().await;
    // The first query is judged by a request of its own.
    let replies = [empty(), empty(), empty(), throttled(), empty(), throttled(), empty()];
    let upstream = Canned::start(replies.into_iter().chain((0..40).map(|_| throttled()))).await;
    let service = stack.in_front_of(&upstream.url);
    let query = json!({ "TableName": MAIN, "KeyConditionExpression": "pk = :p",
                        "ExpressionAttributeValues": { ":p": { "S": "a" } } });
    let query = query.to_string();
    for requests in [3, 7] {
        let (status, body) = ask(&service, "Query", query.as_bytes()).await;
        assert_eq!((status, upstream.asked().len()), (200, requests), "{body}");
    }
    let (status, body) = ask(&service, "Query", query.as_bytes()).await;
    let kind = body["__type"].as_str().unwrap_or_default();
    assert_eq!((status, kind.ends_with("ThroughputExceededException")), (400, true), "{body}");
    stack.database.shutdown().await;
}

/// Nearly every query has other values, and is judged by one request more. If that was throttled, the page was.
#[tokio::test]
async fn regression_a_throttle_of_the_judgement_failed_the_query() {
    let stack = with_two_shards().await;
    let upstream = Canned::start([throttled()].into_iter().chain((0..3).map(|_| empty()))).await;
    let service = stack.in_front_of(&upstream.url);
    let query = json!({ "TableName": MAIN, "KeyConditionExpression": "pk = :p",
                        "ExpressionAttributeValues": { ":p": { "S": "a" } } });
    let (status, body) = ask(&service, "Query", query.to_string().as_bytes()).await;
    assert_eq!(status, 200, "{body}");
    stack.database.shutdown().await;
}
