//! Pages of a whole table, and of its indexes, where some keys have several shards or are being resharded.

use std::collections::BTreeMap;

use dynashard_core::CollectionMetadata;
use dynashard_keys::{ItemKey, Placement, Separator, ShardCount, SortKey};
use serde_json::{Value, json};

use crate::sharded::{GENERATION, lay_out, layouts, pin, varied, write};
use crate::stack::{ATTRIBUTE_INDEX, INVERTED_INDEX, MAIN, Stack, item, partition};

/// Enough for several in each shard.
const ITEMS: usize = 24;

/// A table that has all layouts, a key of one shard that is not listed, one that is, and one that ends as a physical key does.
async fn start() -> Stack {
    let mut stack = Stack::start_with_indexes().await;
    pin(&stack).await;
    let one = stable("listed", 1);
    for metadata in layouts().into_iter().chain([one]) {
        let items = (0..ITEMS).map(varied).collect::<Vec<_>>();
        lay_out(&stack, &metadata, &items).await;
    }
    stack.restart();
    for pk in COLD {
        for n in 0..ITEMS {
            put(&stack, pk, varied(n)).await;
        }
    }
    stack
}

/// A collection at rest that was resharded as often as the layouts were.
fn stable(name: &str, shards: u32) -> CollectionMetadata {
    let count = ShardCount::new(shards).expect("a count");
    let stable =
        CollectionMetadata::stable(partition(name), Placement::Xxh64, count, 1_700_000_000);
    CollectionMetadata { generation: layouts()[0].generation, ..stable }
}

const COLD: [&str; 2] = ["cold", "cold#~1"];

async fn put(stack: &Stack, pk: &str, mut item: Value) {
    item["pk"] = json!({ "S": pk });
    let (status, answer) = stack.ask("PutItem", json!({ "TableName": MAIN, "Item": item })).await;
    assert_eq!(status, 200, "{answer}");
}

/// All items of the table, by their keys.
fn all_items() -> BTreeMap<[String; 2], Value> {
    let layouts = layouts();
    let names = layouts.iter().map(|metadata| metadata.partition.as_str());
    let names = names.chain(COLD).chain(["listed"]).map(str::to_owned).collect::<Vec<_>>();
    let items = names.iter().flat_map(|pk| {
        (0..ITEMS).map(move |n| {
            let mut item = varied(n);
            item["pk"] = json!({ "S": pk });
            (key(&item), item)
        })
    });
    items.collect()
}

fn key(item: &Value) -> [String; 2] {
    ["pk", "sk"].map(|name| item[name]["S"].as_str().expect("a key").to_owned())
}

/// A request that is asked page by page.
struct Walk {
    operation: &'static str,
    body: Value,
    items: Vec<Value>,
    counted: u64,
}

impl Walk {
    fn of(operation: &'static str, body: &Value) -> Self {
        let mut body = body.clone();
        body["TableName"] = json!(MAIN);
        Self { operation, body, items: Vec::new(), counted: 0 }
    }

    /// Reads a page, and says whether another one follows.
    async fn next(&mut self, stack: &Stack) -> bool {
        let body = &mut self.body;
        let (status, answer) = stack.ask(self.operation, body.clone()).await;
        assert_eq!(status, 200, "{body}: {answer}");
        if let Some(limit) = body["Limit"].as_u64() {
            assert!(answer["ScannedCount"].as_u64() <= Some(limit), "{body}: {answer}");
        }
        assert!(!answer["Items"].to_string().contains("_ds_"), "{answer}");
        self.counted += answer["Count"].as_u64().expect("a count");
        self.items.extend(answer["Items"].as_array().cloned().unwrap_or_default());
        let Some(last) = answer.get("LastEvaluatedKey") else { return false };
        body["ExclusiveStartKey"] = last.clone();
        true
    }
}

/// What all pages of a request show, and how many items they count.
async fn walk(stack: &Stack, operation: &'static str, body: &Value) -> (Vec<Value>, u64) {
    let mut walk = Walk::of(operation, body);
    while walk.next(stack).await {}
    (walk.items, walk.counted)
}

/// An index of keys shows no generation, and an item in a shard that the endpoint did not know of was dropped, until its lease was
/// over.
#[tokio::test]
async fn regression_an_item_of_a_new_shard_was_left_out_of_an_index_of_keys() {
    let mut stack = Stack::start_with_indexes().await;
    pin(&stack).await;
    let items = (0..ITEMS).map(varied).collect::<Vec<_>>();
    lay_out(&stack, &stable("grown", 2), &items).await;
    stack.restart();
    let by_sort_key = |item: &Value| {
        json!({
            "TableName": MAIN,
            "IndexName": INVERTED_INDEX,
            "KeyConditionExpression": "sk = :s",
            "ExpressionAttributeValues": { ":s": item["sk"] },
        })
    };
    let found = stack.ask("Query", by_sort_key(&items[0])).await.1;
    assert_eq!(found["Count"], 1, "{found}");
    let four = ShardCount::new(4).expect("a count");
    Box::pin(stack.scale("grown", four)).await;
    // Put by somebody who knows of the four shards.
    for item in (ITEMS..2 * ITEMS).map(varied) {
        let sort = SortKey::string(item["sk"]["S"].as_str().expect("a text")).expect("a key");
        let key = ItemKey::new(partition("grown"), sort);
        let home = Placement::Xxh64.home(&key, four).expect("calculated");
        let at = key.at(home, Placement::Xxh64, Separator::default()).partition;
        let generation = (GENERATION + 1).to_string();
        let put = json!({ "pk": { "S": at.as_str() }, "sk": item["sk"], "_ds_g": { "N": generation }, "_ds_v": { "N": "8" } });
        write(&stack, vec![(MAIN, put)]).await;
        let found = stack.ask("Query", by_sort_key(&item)).await.1;
        assert_eq!(found["Count"], 1, "{found}");
    }
    stack.database.shutdown().await;
}

/// Items of other shards were filtered away by the key that DynamoDB holds them under, or stood for ones of another key.
#[tokio::test]
async fn regression_a_filter_of_an_index_was_judged_by_the_keys_of_shards() {
    let stack = start().await;
    let values = json!({ ":t": { "S": "a" }, ":p": { "S": "listed" } });
    let mut query = json!({
        "TableName": MAIN,
        "IndexName": ATTRIBUTE_INDEX,
        "KeyConditionExpression": "#t = :t",
        "ExpressionAttributeNames": { "#t": "text" },
        "FilterExpression": "pk <> :p",
        "ExpressionAttributeValues": values,
    });
    let is_refused = |(status, answer): (u16, Value)| {
        let message = answer["message"].as_str().unwrap_or_default();
        status == 400 && message.starts_with("dynashard: partition_key_value: ")
    };
    assert!(is_refused(stack.ask("Query", query.clone()).await));
    let legacy = json!({
        "TableName": MAIN,
        "IndexName": ATTRIBUTE_INDEX,
        "ScanFilter": { "pk": { "ComparisonOperator": "NE", "AttributeValueList": [{ "S": "listed" }] } },
    });
    assert!(is_refused(stack.ask("Scan", legacy).await));
    query["FilterExpression"] = "attribute_exists(pk)".into();
    query["ExpressionAttributeValues"] = json!({ ":t": { "S": "a" } });
    let (status, answer) = stack.ask("Query", query).await;
    assert_eq!(status, 200, "{answer}");
    stack.database.shutdown().await;
}

/// Sets have no order, and DynamoDB writes all digits of a number out.
fn sorted(mut items: Vec<Value>) -> Vec<Value> {
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        item.retain(|name, _| {
            !["tags", "numbers", "bs", "large", "small"].contains(&name.as_str())
        });
    }
    items.sort_by_cached_key(Value::to_string);
    items
}

#[tokio::test]
async fn a_scan_shows_each_item_once_whatever_phase_its_key_is_in() {
    let stack = start().await;
    let expected = all_items();
    for limit in [None, Some(1), Some(7), Some(100)] {
        for strong in [false, true] {
            let body = json!({ "Limit": limit, "ConsistentRead": strong });
            let (items, counted) = walk(&stack, "Scan", &body).await;
            assert_eq!(counted, u64::try_from(items.len()).expect("a few"));
            assert_eq!(sorted(items), sorted(expected.values().cloned().collect()), "{body}");
        }
    }
    stack.database.shutdown().await;
}

#[tokio::test]
async fn a_scan_filters_projects_and_counts_whatever_phase_a_key_is_in() {
    let stack = start().await;
    let expected = all_items();
    let names = json!({ "#n": "n", "#m": "m" });
    let filter = json!({ "FilterExpression": "#n < :ten AND attribute_exists(#m.a)",
        "ExpressionAttributeNames": names, "ExpressionAttributeValues": { ":ten": { "N": "10" } } });
    let (items, counted) = walk(&stack, "Scan", &filter).await;
    assert_eq!((items.len(), counted), (expected.len() / ITEMS * 10, items.len() as u64));
    let mut counts = filter.clone();
    counts["Select"] = json!("COUNT");
    let (none, counted) = walk(&stack, "Scan", &counts).await;
    assert_eq!((none.len(), counted), (0, items.len() as u64));
    for projection in [
        json!({ "ProjectionExpression": "sk, #m.a", "ExpressionAttributeNames": { "#m": "m" } }),
        json!({ "AttributesToGet": ["sk", "n"] }),
    ] {
        let (items, _) = walk(&stack, "Scan", &projection).await;
        assert_eq!(items.len(), expected.len());
        assert!(items.iter().all(|item| item.get("pk").is_none() && item.get("text").is_none()));
        assert!(items.iter().all(|item| item.get("sk").is_some()));
    }
    let legacy = json!({ "ScanFilter": { "n": { "ComparisonOperator": "LT", "AttributeValueList": [{ "N": "10" }] } } });
    let (items, _) = walk(&stack, "Scan", &legacy).await;
    assert_eq!(items.len(), expected.len() / ITEMS * 10);
    for wrong in [json!({ "FilterExpression": "n <" }), json!({ "Segment": 3, "TotalSegments": 2 })]
    {
        let mut body = wrong.clone();
        body["TableName"] = json!(MAIN);
        body["ExclusiveStartKey"] = item("_ds_scanned:", "0");
        let (status, answer) = stack.ask("Scan", body).await;
        assert_eq!((status, answer.to_string().contains("Validation")), (400, true), "{answer}");
    }
    stack.database.shutdown().await;
}

/// Each collection is read by whoever reads the segment of its first shard.
#[tokio::test]
async fn the_segments_of_a_parallel_scan_show_each_item_once() {
    let stack = start().await;
    for total in [1, 3, 8] {
        let mut found = Vec::new();
        for segment in 0..total {
            let body = json!({ "Segment": segment, "TotalSegments": total, "Limit": 50 });
            found.extend(walk(&stack, "Scan", &body).await.0);
        }
        assert_eq!(sorted(found), sorted(all_items().into_values().collect()), "{total} segments");
    }
    stack.database.shutdown().await;
}

/// An item that moves to where a scan has been is shown behind the table.
#[tokio::test]
async fn a_key_that_is_listed_during_a_scan_is_shown_at_least_once_and_at_most_twice() {
    let mut stack = start().await;
    let cold = ITEMS * COLD.len();
    for at in [0, 3, 9, 30, cold] {
        let name = format!("new {at}");
        for n in 0..ITEMS {
            put(&stack, &name, varied(n)).await;
        }
        let mut scan = Walk::of("Scan", &json!({ "Limit": 5 }));
        let mut page = 0;
        while scan.next(&stack).await {
            if page == at {
                let grown = stable(&name, 4);
                // What lies where it was stays there, and counts no more.
                lay_out(&stack, &grown, &(0..ITEMS).map(varied).collect::<Vec<_>>()).await;
                stack.restart();
            }
            page += 1;
        }
        let mut times = BTreeMap::new();
        for item in &scan.items {
            *times.entry(key(item)).or_insert(0) += 1;
        }
        assert!(all_items().keys().all(|key| times.get(key) == Some(&1)), "{times:?}");
        let new = times.iter().filter(|([pk, _], _)| *pk == name).map(|(_, times)| *times);
        let new = new.collect::<Vec<_>>();
        assert!(new.len() == ITEMS && new.iter().all(|times| (1..=2).contains(times)), "{new:?}");
    }
    stack.database.shutdown().await;
}

/// Markers have the keys of the table, and so they are in an index of these.
#[tokio::test]
async fn pages_of_an_index_show_no_markers_and_no_item_twice() {
    let stack = start().await;
    for limit in [None, Some(1), Some(7)] {
        for index in [INVERTED_INDEX, ATTRIBUTE_INDEX] {
            let body = json!({ "IndexName": index, "Limit": limit });
            let (items, _) = walk(&stack, "Scan", &body).await;
            let keys = items.iter().map(key).collect::<Vec<_>>();
            assert_eq!(keys.len(), all_items().len(), "{index} by {limit:?}");
            assert!(keys.iter().all(|key| all_items().contains_key(key)), "{keys:?}");
        }
        let by_sort = json!({ "IndexName": INVERTED_INDEX, "Limit": limit, "KeyConditionExpression": "sk = :s",
            "ExpressionAttributeValues": { ":s": { "S": "k04" } } });
        let (items, counted) = walk(&stack, "Query", &by_sort).await;
        assert_eq!((items.len(), counted), (all_items().len() / ITEMS, items.len() as u64));
        let by_text = json!({ "IndexName": ATTRIBUTE_INDEX, "Limit": limit, "KeyConditionExpression": "#t = :t",
            "ExpressionAttributeNames": { "#t": "text" }, "ExpressionAttributeValues": { ":t": { "S": "é3" } } });
        let of_text = |item: &Value| item["text"]["S"] == "é3";
        let expected = all_items().into_values().filter(of_text).collect::<Vec<_>>();
        let (items, _) = walk(&stack, "Query", &by_text).await;
        assert_eq!(sorted(items), sorted(expected.clone()));
        let mut counts = by_text.clone();
        counts["Select"] = json!("COUNT");
        let (_, counted) = walk(&stack, "Query", &counts).await;
        assert_eq!(counted, expected.len() as u64);
    }
    let deleted = json!({ "IndexName": INVERTED_INDEX, "KeyConditionExpression": "sk = :s",
        "ExpressionAttributeValues": { ":s": { "S": "k04 deleted" } } });
    let (items, _) = walk(&stack, "Query", &deleted).await;
    assert_eq!(items, Vec::<Value>::new(), "a marker");
    stack.database.shutdown().await;
}
