//! Queries of indexes of a key that has several shards, or is being resharded: they are answered as those of the same items in a
//! table that nobody manages.

use std::sync::Arc;

use dynashard_core::{CollectionMetadata, Phase};
use dynashard_keys::{ItemKey, Placement, Separator, ShardCount, ShardId, SortKey};
use serde_json::{Map, Value, json};

use crate::canned::{Canned, Reply};
use crate::sharded::{GENERATION, ask_both, lay_out, layouts, pin, walk, walk_large, write};
use crate::stack::{INVERTED_INDEX, LOCAL_INDEX, MAIN, Stack, ask, item, partition};

/// How many items each key has.
const ITEMS: usize = 40;

/// An item that shares its index keys with some others, or has none.
fn tied(n: usize) -> Value {
    let mut item = json!({ "sk": { "S": format!("k{n:02}") }, "x": { "N": (n % 3).to_string() } });
    if !n.is_multiple_of(9) {
        item["n"] = json!({ "N": (["1.5", "-2", "1.50", "1e3", "30", "4"][n % 6]) });
    }
    if !n.is_multiple_of(7) {
        item["b"] = json!({ "B": (["AA==", "/w==", "AAE="][n % 3]) });
    }
    if !n.is_multiple_of(5) {
        item["s"] = json!({ "S": (["a", "ab", "b", "é"][n % 4]) });
    }
    item
}

/// Every layout whose items have homes, with [`tied`] items, and with what may lie beside those: an older form of what was put at a
/// new home since, at the old one, and what an earlier change has left over.
async fn lay_out_all(stack: &Stack) -> Vec<CollectionMetadata> {
    let items = (0..ITEMS).map(tied).collect::<Vec<_>>();
    let layouts = layouts().into_iter().filter(|metadata| metadata.placement.is_calculated());
    let layouts = layouts.collect::<Vec<_>>();
    for metadata in &layouts {
        lay_out(stack, metadata, &items).await;
        let mut beside = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let sort = SortKey::string(item["sk"]["S"].as_str().expect("a text"));
            let key = ItemKey::new(metadata.partition.clone(), sort.expect("a sort key"));
            let metadata = Arc::new(metadata.clone()).at(&key.sort);
            let (placement, shards) = (metadata.placement, metadata.number_of_shards);
            let behind = placement
                .home(&key, shards)
                .map(|home| ShardId::new((home.get() + 1) % shards.get()))
                .filter(|_| shards > ShardCount::ONE);
            let shard = metadata.reshard().map_or(behind, |reshard| {
                reshard.homes(&key).filter(|_| at % 3 == 2).map(|(old, _)| old)
            });
            let Some(shard) = shard else { continue };
            let physical = key.at(shard, placement, Separator::default()).partition;
            let mut older = item.clone();
            older["pk"] = json!({ "S": physical.as_str() });
            older["_ds_g"] = json!({ "N": (GENERATION - 1).to_string() });
            older["n"] = json!({ "N": "3" });
            older["s"] = json!({ "S": "aa" });
            beside.push((MAIN, older));
        }
        write(stack, beside).await;
    }
    layouts
}

/// A query of an index of a collection with these parameters, and these `values` beside its partition key.
fn query(pk: &str, index: &str, condition: &str, values: Value, more: Value) -> Value {
    let mut query =
        json!({ "IndexName": index, "ExpressionAttributeValues": { ":p": { "S": pk } } });
    let condition = if condition.is_empty() { String::new() } else { format!(" AND {condition}") };
    query["KeyConditionExpression"] = format!("pk = :p{condition}").into();
    for (name, value) in members(values) {
        query["ExpressionAttributeValues"][name] = value;
    }
    for (name, value) in members(more) {
        query[name] = value;
    }
    query
}

fn members(value: Value) -> Map<String, Value> {
    let Value::Object(members) = value else { panic!("an object is meant") };
    members
}

const INDEXES: [&str; 4] = ["by-n", "by-b", "global-by-s", "global-by-sk"];

/// Queries of all indexes.
fn queries(pk: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for index in INDEXES {
        for forward in [true, false] {
            for limit in [1, 3, 100] {
                let more = json!({ "Limit": limit, "ScanIndexForward": forward });
                all.push(query(pk, index, "", json!({}), more));
            }
            // The client's own placeholders are in the way of nothing.
            let more = json!({ "ScanIndexForward": forward, "Limit": 4, "FilterExpression": "x = :x OR #_ds0 = :_ds0",
                               "ExpressionAttributeNames": { "#_ds0": "x" } });
            let values = json!({ ":x": { "N": "1" }, ":_ds0": { "N": "2.0" } });
            all.push(query(pk, index, "", values.clone(), more.clone()));
            for select in ["COUNT", "ALL_PROJECTED_ATTRIBUTES"] {
                let mut more = more.clone();
                more["Select"] = select.into();
                all.push(query(pk, index, "", values.clone(), more));
            }
        }
        for projection in ["sk", "x, sk", "pk, x", "nowhere"] {
            all.push(query(
                pk,
                index,
                "",
                json!({}),
                json!({ "ProjectionExpression": projection, "Limit": 7 }),
            ));
        }
        all.push(query(pk, index, "", json!({}), json!({ "Select": "COUNT" })));
    }
    for index in ["by-n", "by-b"] {
        let more = json!({ "Select": "ALL_ATTRIBUTES", "ConsistentRead": true, "Limit": 6 });
        all.push(query(pk, index, "", json!({}), more));
        let more = json!({ "Select": "ALL_ATTRIBUTES", "FilterExpression": "x <> :x" });
        all.push(query(pk, index, "", json!({ ":x": { "N": "1" } }), more));
    }
    let n = |number: &str| json!({ "N": number });
    for forward in [true, false] {
        let more = json!({ "ScanIndexForward": forward, "Limit": 3 });
        for range in ["n = :f", "n < :f", "n <= :f", "n > :f", ":f <= n", "n BETWEEN :f AND :t"] {
            for from in ["1.5", "0", "4.0"] {
                let mut values = json!({ ":f": n(from) });
                if range.contains(":t") {
                    values[":t"] = n("1E+3");
                }
                all.push(query(pk, "by-n", range, values, more.clone()));
            }
        }
        for range in ["s = :f", "s >= :f", "begins_with(s, :f)", "s = :p"] {
            let values = if range == "s = :p" { json!({}) } else { json!({ ":f": { "S": "a" } }) };
            all.push(query(pk, "global-by-s", range, values, more.clone()));
        }
        let values = json!({ ":f": { "B": "AAE=" } });
        all.push(query(pk, "by-b", "b <= :f", values.clone(), more.clone()));
        all.push(query(pk, "by-b", "begins_with(b, :f)", json!({ ":f": { "B": "AA==" } }), more));
    }
    for sk in ["k01", "k02", "k03", "k03 deleted", "k99"] {
        all.push(query(pk, INVERTED_INDEX, "sk = :s", json!({ ":s": { "S": sk } }), json!({})));
    }
    let is = |operator: &str, value: Value| json!({ "ComparisonOperator": operator, "AttributeValueList": [value] });
    let conditions = json!({ "pk": is("EQ", json!({ "S": pk })), "n": is("GT", n("1")) });
    all.push(json!({ "IndexName": "by-n", "KeyConditions": conditions, "AttributesToGet": ["sk", "x"], "Limit": 4 }));
    all.push(json!({ "IndexName": "by-n", "KeyConditions": conditions, "QueryFilter": { "x": is("NE", n("1")) } }));
    all
}

#[tokio::test]
async fn every_query_of_an_index_is_answered_as_one_of_a_single_partition() {
    let mut stack = Stack::start_with_indexes_of_a_key().await;
    pin(&stack).await;
    let layouts = lay_out_all(&stack).await;
    stack.restart();
    for (at, metadata) in layouts.iter().enumerate() {
        let all = queries(metadata.partition.as_str());
        // A third of them each, but for pages of few entries and of one each way, and for all of the smallest layout that moves.
        let is_whole = metadata.partition.as_str() == "growing";
        for (of, query) in all.iter().enumerate() {
            if is_whole || of < 6 || of % 3 == at % 3 {
                walk(&stack, query).await;
            }
        }
    }
    stack.database.shutdown().await;
}

#[tokio::test]
async fn what_dynamodb_refuses_of_an_index_it_refuses_in_its_own_words() {
    let mut stack = Stack::start_with_indexes_of_a_key().await;
    pin(&stack).await;
    let layouts = lay_out_all(&stack).await;
    let pk = layouts[0].partition.as_str();
    stack.restart();
    // What was taken before makes nothing valid.
    walk(&stack, &query(pk, "by-n", "", json!({}), json!({ "Limit": 20 }))).await;
    let start = |key: Value| json!({ "ExclusiveStartKey": key });
    let text = |text: &str| json!({ "S": text });
    let number = |number: &str| json!({ "N": number });
    let nothing = || json!({});
    let from = || json!({ ":f": number("1") });
    let invalid = [
        query(pk, "nowhere", "", nothing(), nothing()),
        query(pk, "global-by-s", "", nothing(), json!({ "ConsistentRead": true })),
        query(pk, "by-n", "s = :f", from(), nothing()),
        query(pk, "by-n", "n <> :f", from(), nothing()),
        query(pk, "by-n", "n > :f", json!({ ":f": text("1") }), nothing()),
        query(pk, "by-n", "", nothing(), json!({ "FilterExpression": "n = :p" })),
        query(pk, "by-n", "", nothing(), json!({ "FilterExpression": "x = :missing" })),
        query(pk, "by-n", "", nothing(), json!({ "ProjectionExpression": "x, x" })),
        query(pk, "by-n", "", from(), nothing()),
        query(pk, "by-n", "", nothing(), json!({ "Limit": 0 })),
        query(pk, "by-n", "", nothing(), json!({ "Select": "SPECIFIC_ATTRIBUTES" })),
        query(pk, "global-by-sk", "", nothing(), json!({ "Select": "ALL_ATTRIBUTES" })),
        query(pk, "by-n", "", nothing(), start(json!({ "pk": text(pk), "sk": text("k10") }))),
        query(
            pk,
            "by-n",
            "",
            nothing(),
            start(json!({ "pk": text(pk), "sk": text("k10"), "n": text("1") })),
        ),
        query(
            pk,
            "by-n",
            "",
            nothing(),
            start(json!({ "pk": text("another"), "sk": text("k10"), "n": number("1") })),
        ),
        query(
            pk,
            "by-n",
            "n > :f",
            from(),
            start(json!({ "pk": text(pk), "sk": text("k10"), "n": number("1") })),
        ),
    ];
    for query in invalid {
        let [ours, theirs] = ask_both(&stack, &query).await;
        assert_eq!(ours, theirs, "{query}");
        assert_eq!(ours.0, 400, "{query}: {}", ours.1);
    }
    stack.database.shutdown().await;
}

#[tokio::test]
async fn a_page_of_an_index_ends_at_a_megabyte() {
    let mut stack = Stack::start_with_indexes_of_a_key().await;
    pin(&stack).await;
    let items = (0..60).map(|n: usize| {
        let length = [300, 9_000, 50_000, 380_000][n % 11 % 4];
        json!({ "sk": { "S": format!("k{n:02}") }, "n": { "N": (n % 5).to_string() }, "x": { "S": "x".repeat(length) } })
    });
    let items = items.collect::<Vec<_>>();
    let layouts = layouts();
    let [first, .., last] = &layouts[..] else { panic!("there are layouts") };
    for metadata in [first, last] {
        lay_out(&stack, metadata, &items).await;
    }
    stack.restart();
    for metadata in [first, last] {
        let pk = metadata.partition.as_str();
        for more in [json!({}), json!({ "ScanIndexForward": false, "Limit": 30 })] {
            let mut query = query(pk, "by-n", "", json!({}), more);
            query["ProjectionExpression"] = "sk".into();
            let (pages, scanned) = walk_large(&stack, &mut query).await;
            assert!(pages > 3 && scanned == 60, "{pages} pages of {scanned} items");
        }
    }
    stack.database.shutdown().await;
}

#[tokio::test]
async fn a_query_of_an_index_tells_what_it_took_and_asks_no_more_than_it_needs() {
    let mut stack = Stack::start_with_indexes_of_a_key().await;
    pin(&stack).await;
    let layouts = lay_out_all(&stack).await;
    let pk = layouts[0].partition.as_str();
    stack.restart();
    let mut query = query(
        pk,
        "by-n",
        "",
        json!({}),
        json!({ "ReturnConsumedCapacity": "INDEXES", "Limit": 4 }),
    );
    query["TableName"] = MAIN.into();
    let (status, answer) = stack.ask("Query", query.clone()).await;
    assert_eq!(status, 200, "{answer}");
    let consumed = &answer["ConsumedCapacity"];
    let units = consumed["CapacityUnits"].as_f64().expect("units");
    // Half a unit of each of the 16 shards at least.
    assert!((8.0..16.0).contains(&units), "{consumed}");
    assert_eq!(
        consumed["LocalSecondaryIndexes"]["by-n"]["CapacityUnits"],
        json!(units),
        "{consumed}"
    );
    assert_eq!(
        (&consumed["TableName"], &consumed["Table"]["CapacityUnits"]),
        (&json!(MAIN), &json!(0.0))
    );

    let before = stack.database.counters().requests(MAIN, "Query");
    let (_, answer) = stack.ask("Query", query).await;
    let requests = stack.database.counters().requests(MAIN, "Query") - before;
    assert!((16..20).contains(&requests), "{requests}");
    assert!(!answer.to_string().contains("_ds_"), "{answer}");
    stack.database.shutdown().await;
}

/// Markers have the table's key, and so are in an index by nothing else, which need not show that they are markers.
#[tokio::test]
async fn markers_in_an_index_of_keys_are_told_from_items() {
    let mut stack = Stack::start_with_indexes_of_a_key().await;
    pin(&stack).await;
    let layouts = lay_out_all(&stack).await;
    stack.restart();
    let moving = layouts.iter().filter(|metadata| metadata.phase != Phase::Stable);
    for metadata in moving {
        let pk = metadata.partition.as_str();
        let query = query(
            pk,
            "global-by-sk",
            "begins_with(sk, :k)",
            json!({ ":k": { "S": "k0" } }),
            json!({}),
        );
        let [(status, ours), (_, theirs)] = ask_both(&stack, &query).await;
        assert_eq!((status, &ours["Count"]), (200, &json!(10)), "{pk}: {ours}");
        assert_eq!(ours, theirs, "{pk}");
    }
    stack.database.shutdown().await;
}

/// An endpoint that knows a key of two shards in this phase, in front of a server that describes a local index and then says this. Asks
/// it for the index, and returns what it was answered, and what the server was asked.
async fn ask_canned(
    phase: Phase,
    said: impl IntoIterator<Item = Value>,
) -> (u16, Value, Vec<Value>) {
    let stack = Stack::start().await;
    pin(&stack).await;
    let two = ShardCount::new(2).expect("a count");
    let stable = CollectionMetadata::stable(partition("key"), Placement::Xxh64, two, 1);
    stack.list(&CollectionMetadata { phase, ..stable }).await;
    let keys = [("pk", "HASH"), ("s", "RANGE")];
    let keys = keys.map(|(name, kind)| json!({ "AttributeName": name, "KeyType": kind }));
    let projection = json!({ "ProjectionType": "ALL" });
    let index = json!({ "IndexName": LOCAL_INDEX, "KeySchema": keys, "Projection": projection });
    let described = json!({ "Table": { "LocalSecondaryIndexes": [index] } });
    let said = [described].into_iter().chain(said).map(|body| Reply::new(200, body));
    let server = Canned::start(said.collect::<Vec<_>>()).await;
    let service = stack.in_front_of(&server.url);
    let mut query = query("key", LOCAL_INDEX, "", json!({}), json!({}));
    query["TableName"] = MAIN.into();
    let (status, answer) = ask(&service, "Query", query.to_string().as_bytes()).await;
    stack.database.shutdown().await;
    (status, answer, server.asked())
}

fn page(items: &[(&str, u64)]) -> Value {
    let items = items.iter().map(|(sk, generation)| {
        let mut item = item("key", sk);
        item["s"] = json!({ "S": "tied" });
        item["_ds_g"] = json!({ "N": generation.to_string() });
        item
    });
    json!({ "Items": items.collect::<Vec<_>>(), "Count": 0, "ScannedCount": 0 })
}

/// To go on behind one of them would leave others out.
#[tokio::test]
async fn entries_in_an_order_that_is_not_known_are_refused() {
    let said = (0..3).map(|_| page(&[("2", 1), ("1", 1)]));
    let (status, answer, _) = ask_canned(Phase::Stable, said).await;
    let why = answer["message"].as_str().unwrap_or_default();
    assert!(status == 500 && why.contains("index_order"), "{answer}");
}

#[tokio::test]
async fn entries_of_a_later_generation_have_the_page_be_read_again() {
    // DynamoDB judges the query once.
    let said = [9, 9, 9, 1, 1].map(|generation| page(&[("1", generation)]));
    let (status, answer, asked) = ask_canned(Phase::Stable, said).await;
    assert_eq!((status, &answer["Count"]), (200, &json!(1)), "{answer}");
    assert_eq!(asked.len(), 6, "{asked:?}");
}

/// An item that moved behind a look at its new home, and before one at its old home, would be found nowhere.
#[tokio::test]
async fn shards_that_items_leave_are_read_first_and_strongly() {
    let phase = Phase::Move { from: ShardCount::ONE, to: ShardCount::new(2).expect("a count") };
    let (status, answer, asked) = ask_canned(phase, (0..3).map(|_| page(&[]))).await;
    assert_eq!((status, &answer["Count"]), (200, &json!(0)), "{answer}");
    let of_shards = asked.iter().filter(|asked| asked["ConsistentRead"] == true);
    let of_shards = of_shards.map(|asked| asked["ExpressionAttributeValues"][":_ds0"]["S"].clone());
    assert_eq!(of_shards.collect::<Vec<_>>(), ["key", "key#~1"], "{asked:?}");
}

/// An endpoint that knew nothing of a change asked the shards from before alone, and of a local index none of them shows what went to
/// another one.
#[tokio::test]
async fn regression_a_strong_read_of_a_local_index_missed_what_a_change_unknown_to_it_had_moved() {
    let mut stack = Stack::start_with_indexes().await;
    let [four, sixteen] = [4, 16].map(|count| ShardCount::new(count).expect("a count"));
    pin(&stack).await;
    // Of one item each, in some of which that goes to a new shard: what stays shows the change by its generation.
    let keys = |kind| (0..6).map(move |n| format!("{kind}{n}"));
    for pk in keys("listed") {
        let (pk, placement) = (partition(&pk), Placement::Xxh64);
        stack.list(&CollectionMetadata::stable(pk, placement, four, 1_700_000_000)).await;
    }
    stack.restart();
    let knows_nothing = Arc::clone(&stack.service);
    let count = async |pk: &str| {
        let strong = json!({ "ConsistentRead": true, "TableName": MAIN });
        let query = query(pk, LOCAL_INDEX, "", json!({}), strong);
        let (status, answer) = ask(&knows_nothing, "Query", query.to_string().as_bytes()).await;
        assert_eq!(status, 200, "{answer}");
        answer["Count"].clone()
    };
    let changed = keys("cold").map(|pk| (pk, four)).chain(keys("listed").map(|pk| (pk, sixteen)));
    for (pk, to) in changed {
        assert_eq!(count(&pk).await, 0);
        Box::pin(stack.scale(&pk, to)).await;
        stack.raise(&partition(&pk)).await;
        stack.restart();
        let mut item = item(&pk, "k");
        item["s"] = json!({ "S": "a" });
        let (status, answer) =
            stack.ask("PutItem", json!({ "TableName": MAIN, "Item": item })).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(count(&pk).await, 1, "{pk}");
    }
    stack.database.shutdown().await;
}
