//! Secondary indexes on a stack: its own and those of an adopted table, page by page, also beside a reshard of the table.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::thread;
use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeValue, BillingMode, GlobalSecondaryIndex, KeyType, LocalSecondaryIndex, Projection,
    ProjectionType,
};
use dynashard_aws::{ServerClock, connect_local};
use dynashard_aws_operator::Caller;
use dynashard_client::{Client, ClientError, CollectionQuery, HttpApi, InProcess, Store};
use dynashard_keys::{PartitionKey, SortKey};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::{LocalStack, on};
use crate::tables::{definition, element};

/// How many orders there are, three in five of one country.
const ORDERS: usize = 1_500;

const QUICK: [&str; 3] = ["LeaseSecs=1", "CooldownSecs=0", "RequestLifetimeSecs=2"];

/// An order; some share a day, and some a price.
fn order(n: usize) -> Value {
    let country = ["US", "US", "US", "DE", "NZ"][n % 5];
    let pk = if n.is_multiple_of(10) { "returned" } else { "placed" };
    let (day, price) = (n * 7 % 300, n * 13 % 50);
    json!({ "pk": pk, "sk": format!("{n:05}"), "country": country, "day": day, "price": price })
}

fn put(order: &Value) -> Value {
    let mut item = order.clone();
    let members = item.as_object_mut().expect("an object");
    let (pk, sk) = (members.remove("pk"), members.remove("sk"));
    json!({ "pk": pk, "sk": sk, "item": item })
}

/// A stack with an index of items of all collections, and one of each collection.
fn stack() -> LocalStack {
    let own = [
        "FirstIndexName=by-country",
        "FirstIndexPartitionKey=country",
        "FirstIndexSortKey=day",
        "FirstIndexSortKeyType=N",
        "SecondIndexName=by-price",
        "SecondIndexPartitionKey=pk",
        "SecondIndexSortKey=price",
        "SecondIndexSortKeyType=N",
    ];
    let set = QUICK.iter().chain(&own).flat_map(|setting| ["--set", *setting]);
    LocalStack::start(&set.collect::<Vec<_>>())
}

/// All pages of a query.
fn pages(stack: &LocalStack, query: &Value) -> Vec<Value> {
    let (mut query, mut pages) = (query.clone(), Vec::new());
    loop {
        let answer = stack.json("POST", "/query", &query);
        assert_eq!(answer.status, 200, "{query}: {answer:?}");
        let page = answer.json();
        query["cursor"] = page["cursor"].clone();
        let is_last = query["cursor"].is_null();
        pages.push(page);
        if is_last {
            return pages;
        }
    }
}

fn items(pages: &[Value]) -> Vec<Value> {
    pages.iter().flat_map(|page| page["items"].as_array().expect("items").clone()).collect()
}

/// The orders that a query of this index finds, in its order: by the sort key, and where that is the same by the table's, as far
/// as the index says.
fn expected(is_one: impl Fn(&Value) -> bool, by: &str) -> Vec<Value> {
    let mut orders = (0..ORDERS).map(order).filter(is_one).collect::<Vec<_>>();
    orders.sort_by_key(|order| (order[by].as_u64(), order["sk"].to_string()));
    orders
}

/// These items, and those that share a sort key by the table's.
fn untied(mut items: Vec<Value>, by: &str) -> Vec<Value> {
    let of = |item: &Value| item[by].as_u64();
    assert!(items.windows(2).all(|pair| of(&pair[0]) <= of(&pair[1])), "they are in order");
    items.sort_by_key(|item| (of(item), item["sk"].to_string()));
    items
}

#[test]
fn indexes_of_a_stack_are_exact_and_in_order_also_beside_a_reshard() {
    let stack = stack();
    stack.put_all((0..ORDERS).map(|n| put(&order(n))));
    stack.until_at_rest("placed", 4);
    let american = expected(|order| order["country"] == "US", "day");
    assert_eq!(american.len(), ORDERS * 3 / 5);
    let placed = expected(|order| order["pk"] == "placed", "price");
    let by_country = json!({ "index": "by-country", "pk": "US" });
    let by_price = json!({ "index": "by-price", "pk": "placed" });
    let limited = |query: &Value, limit: usize| {
        let mut query = query.clone();
        query["limit"] = json!(limit);
        query
    };
    for limit in [1, 100, 1_000] {
        let found = pages(&stack, &limited(&by_country, limit));
        let is_long = |page: &Value| page["items"].as_array().map(Vec::len) == Some(limit);
        assert!(found[..american.len() / limit].iter().all(is_long), "pages of {limit}");
        let index = json!({ "name": "by-country", "consistency": "eventual", "moving": false });
        assert!(found.iter().all(|page| page["index"] == index && page["shards"] == 1));
        assert_eq!(untied(items(&found), "day"), american, "pages of {limit}");
        let found = pages(&stack, &limited(&by_price, limit));
        assert!(found.iter().all(|page| page["shards"] == 4));
        assert_eq!(items(&found), placed, "pages of {limit}");
    }
    let mut descending = limited(&by_price, 1_000);
    (descending["order"], descending["from"], descending["to"]) =
        ("desc".into(), 10.into(), 20.into());
    let within = placed
        .iter()
        .rev()
        .filter(|order| (10..=20).contains(&order["price"].as_i64().unwrap_or(0)));
    assert_eq!(items(&pages(&stack, &descending)), within.cloned().collect::<Vec<_>>());

    // The command prints what the API answers.
    let query = ["query", "--index", "by-country", "--pk", "NZ", "--all", "--limit", "100"];
    let printed = on(&stack, &query);
    assert_eq!(printed.status, 0, "{printed:?}");
    assert_eq!(untied(printed.lines(), "day"), expected(|order| order["country"] == "NZ", "day"));

    for (status, code, query) in [
        (404, "index_not_found", "index=by-city&pk=US"),
        (400, "bad_parameter", "index=by-country&pk=US&consistent=true"),
        (400, "bad_parameter", "index=by-country&pk=US&begins_with=1"),
        (400, "bad_key", "index=by-country&pk=US&from=monday"),
        (400, "bad_cursor", "index=by-country&pk=US&cursor=AmLQ"),
    ] {
        let answer = stack.get(&format!("/query?{query}"));
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{query}");
    }
    let refused = on(&stack, &["query", "--index", "by-city", "--pk", "US"]);
    assert!(refused.status == 1 && refused.stderr.contains("index_not_found"), "{refused:?}");

    let scaled =
        stack.json("POST", "/collection/scale?pk=placed", &json!({ "number_of_shards": 8 }));
    assert_eq!(scaled.status, 202, "{scaled:?}");
    let mut were_moving = 0;
    loop {
        let state = stack.get("/collection?pk=placed").json()["state"].clone();
        let found = pages(&stack, &limited(&by_price, 100));
        were_moving += moving(&found, &placed, "price", &state);
        let found = pages(&stack, &limited(&by_country, 100));
        were_moving += moving(&found, &american, "day", &state);
        if state == "stable" {
            break;
        }
    }
    assert!(were_moving > 0, "nothing was read while items moved");
    let found = pages(&stack, &limited(&by_price, 100));
    assert!(found.iter().all(|page| page["shards"] == 8));
    assert_eq!(items(&found), placed);
    assert_eq!(untied(items(&pages(&stack, &limited(&by_country, 100))), "day"), american);
}

/// The order of one of many customers, so that no key of the table is hot.
fn order_of_customer(n: usize) -> Value {
    let mut order = order(n);
    order["pk"] = format!("customer-{}", n / 5 % 30).into();
    order
}

/// What `dynashard indexes` says of the shards, once writers go by the count that readers go by.
fn shards_of_indexes(stack: &LocalStack, args: &[&str]) -> Value {
    let told = on(stack, &[&["indexes", "--json"], args].concat());
    assert_eq!(told.status, 0, "{told:?}");
    told.lines().pop().expect("a report")
}

#[test]
fn a_hot_value_of_a_write_sharded_index_gets_shards_and_its_pages_stay_exact() {
    let own = [
        "FirstIndexName=by-country",
        "FirstIndexPartitionKey=country",
        "FirstIndexSortKey=day",
        "FirstIndexSortKeyType=N",
        "WriteShardedIndexes=first",
        "IndexShards=1",
    ];
    let set = QUICK.iter().chain(&own).flat_map(|setting| ["--set", *setting]);
    let stack = LocalStack::start(
        &set.chain(["--partition-wcu", "40", "--burst-secs", "1"]).collect::<Vec<_>>(),
    );
    let put_all = || stack.put_all((0..ORDERS).map(|n| put(&order_of_customer(n))));
    put_all();
    let mut told = shards_of_indexes(&stack, &[]);
    for _ in 0..20 {
        if told["shards"] != 1 && told["growing"] == false {
            break;
        }
        put_all();
        told = shards_of_indexes(&stack, &[]);
    }
    let shards = told["shards"].as_u64().expect("a count");
    assert!(shards > 1 && told["growing"] == false, "{told}");
    let decisions = on(&stack, &["decisions", "--json"]).lines();
    let mut decided = decisions.iter().filter_map(|line| line["decisions"].as_array()).flatten();
    let grown = decided.find(|decision| decision["diagnosis"] == "index");
    let grown = grown.unwrap_or_else(|| panic!("no decision about the index: {decisions:?}"));
    assert_eq!((&grown["action"], &grown["outcome"]), (&"grow".into(), &"begun".into()));

    let expected = |country: &str| {
        let mut orders = (0..ORDERS).map(order_of_customer).collect::<Vec<_>>();
        orders.retain(|order| order["country"] == country);
        orders.sort_by_key(|order| (order["day"].as_u64(), order["sk"].to_string()));
        orders
    };
    let american = expected("US");
    let query = |limit: usize| json!({ "index": "by-country", "pk": "US", "limit": limit });
    let exact = |shards: u64| {
        for limit in [1, 100, 1_000] {
            let found = pages(&stack, &query(limit));
            assert!(found.iter().all(|page| page["shards"] == shards), "pages of {limit}");
            assert_eq!(untied(items(&found), "day"), american, "pages of {limit}");
            let mut descending = query(limit);
            (descending["order"], descending["from"], descending["to"]) =
                ("desc".into(), 70.into(), 77.into());
            let mut found = items(&pages(&stack, &descending));
            found.reverse();
            let is_within =
                |order: &&Value| (70..=77).contains(&order["day"].as_u64().unwrap_or(0));
            let within = american.iter().filter(is_within).cloned().collect::<Vec<_>>();
            assert_eq!(untied(found, "day"), within, "pages of {limit}");
        }
    };
    exact(shards);
    let rewrite = ["--rewrite", "--write-units", "5000", "--read-units", "5000"];
    shards_of_indexes(&stack, &rewrite);
    let again = shards_of_indexes(&stack, &rewrite);
    assert_eq!(
        (&again["rewrite"]["items"], &again["rewrite"]["rewritten"]),
        (&ORDERS.into(), &0.into())
    );
    exact(shards);

    // Those that were written before lie in the shards that there were.
    let more = 4 * shards;
    let told = shards_of_indexes(&stack, &["--shards", &more.to_string()]);
    assert_eq!((&told["shards"], &told["growing"]), (&more.into(), &false.into()));
    exact(more);
    let refused = on(&stack, &["indexes", "--shards", "1"]);
    assert!(refused.status == 1 && refused.stderr.contains("bad_shard_count"), "{refused:?}");
    let rewritten = shards_of_indexes(&stack, &rewrite)["rewrite"]["rewritten"].as_u64();
    assert!(rewritten > Some(ORDERS as u64 / 2), "a quarter stays where it is: {rewritten:?}");

    let path = "/collection/scale?pk=customer-0";
    let scaled = stack.json("POST", path, &json!({ "number_of_shards": 4 }));
    assert_eq!(scaled.status, 202, "{scaled:?}");
    loop {
        let state = stack.get("/collection?pk=customer-0").json()["state"].clone();
        moving(&pages(&stack, &query(100)), &american, "day", &state);
        if state == "stable" {
            break;
        }
    }
    exact(more);

    // An SDK behind the endpoint names the country alone, and what it writes has its shard.
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let wanted =
        |order: &&Value| order["day"].as_u64() > Some(200) && order["price"].as_u64() >= Some(10);
    let wanted = american.iter().filter(wanted).map(|order| order["sk"].as_str().expect("a key"));
    let wanted = wanted.collect::<BTreeSet<_>>();
    for limit in [1, 7, 100] {
        let found = runtime.block_on(by_sdk(&stack, 200, limit));
        assert_eq!(found.len(), wanted.len(), "pages of {limit}");
        assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), wanted);
    }
}

/// The American orders behind this day, as an SDK pages through them behind the endpoint.
async fn by_sdk(stack: &LocalStack, after: u64, limit: i32) -> Vec<String> {
    let endpoint = stack.ready["endpoint"].as_str().expect("an endpoint");
    let client = connect_local(endpoint, ServerClock::default()).await;
    let text = |value: &AttributeValue| value.as_s().expect("a text").clone();
    let query = client
        .query()
        .table_name("MainTable")
        .index_name("by-country")
        .key_condition_expression("country = :c AND #day > :d")
        .filter_expression("price >= :p")
        .projection_expression("sk, #day")
        .expression_attribute_names("#day", "day")
        .expression_attribute_values(":c", AttributeValue::S("US".to_owned()))
        .expression_attribute_values(":d", AttributeValue::N(after.to_string()))
        .expression_attribute_values(":p", AttributeValue::N("10".to_owned()))
        .limit(limit);
    let items = query.into_paginator().items().send().collect::<Result<Vec<_>, _>>().await;
    let items = items.expect("pages");
    let day = |item: &HashMap<_, AttributeValue>| item["day"].as_n().expect("a day").parse::<u64>();
    assert!(items.iter().all(|item| item.len() == 2), "{items:?}");
    assert!(items.is_sorted_by_key(|item| day(item).expect("a number")));
    items.iter().map(|item| text(&item["sk"])).collect()
}

/// Checks what holds while items move: the order, and that only items beside the end of a page are missing, or come twice. Returns
/// how many of the pages said that items moved.
fn moving(pages: &[Value], expected: &[Value], by: &str, state: &Value) -> usize {
    let last = |page: &Value| page["items"].as_array().and_then(|items| items.last()?[by].as_u64());
    let ends = pages.iter().filter_map(last).collect::<BTreeSet<_>>();
    let mut found = BTreeMap::<String, usize>::new();
    for item in untied(items(pages), by) {
        *found.entry(item.to_string()).or_default() += 1;
    }
    for item in expected {
        let times = found.remove(&item.to_string()).unwrap_or_default();
        let is_at_an_end = item[by].as_u64().is_some_and(|value| ends.contains(&value));
        assert!(times == 1 || by == "day" && is_at_an_end, "{item} came {times} times in {state}");
    }
    assert!(found.is_empty(), "no order is like that: {found:?}");
    pages.iter().filter(|page| page["index"]["moving"] == true).count()
}

/// The table of another team, with a local index, and one that projects only keys.
async fn table_with_indexes(data: &str) {
    let start = {
        let data = data.to_owned();
        move || LocalStack::start(&["--engine-only", "--data-dir", &data])
    };
    let engine = tokio::task::spawn_blocking(start).await.expect("it starts");
    let projection = |of| Projection::builder().projection_type(of).build();
    let local = LocalSecondaryIndex::builder()
        .index_name("local-by-price")
        .key_schema(element("pk", KeyType::Hash))
        .key_schema(element("price", KeyType::Range))
        .projection(projection(ProjectionType::All));
    let keys = GlobalSecondaryIndex::builder()
        .index_name("keys-by-country")
        .key_schema(element("country", KeyType::Hash))
        .projection(projection(ProjectionType::KeysOnly));
    let client = connect_local(&engine.dynamodb, ServerClock::default()).await;
    let create =
        client.create_table().table_name("Orders").billing_mode(BillingMode::PayPerRequest);
    let keyed = [("pk", "S"), ("sk", "S"), ("price", "N"), ("country", "S")];
    let create = keyed
        .into_iter()
        .fold(create, |create, (name, letter)| {
            create.attribute_definitions(definition(name, letter))
        })
        .key_schema(element("pk", KeyType::Hash))
        .key_schema(element("sk", KeyType::Range))
        .local_secondary_indexes(local.build().expect("an index"))
        .global_secondary_indexes(keys.build().expect("an index"));
    create.send().await.expect("a table");
    tokio::task::spawn_blocking(move || engine.end(Signal::TERM)).await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_of_an_adopted_table_are_read_by_every_client() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().to_str().expect("UTF-8").to_owned();
    table_with_indexes(&data).await;
    let start = move || {
        let set = QUICK.iter().chain(&["ExistingMainTable=Orders"]);
        let set = set.flat_map(|setting| ["--set", *setting]);
        LocalStack::start(&set.chain(["--data-dir", &data]).collect::<Vec<_>>())
    };
    let stack = tokio::task::spawn_blocking(start).await.expect("it starts");
    let orders = 200;
    let placed = expected(|order| order["pk"] == "placed", "price").into_iter();
    let is_there =
        |order: &Value| order["sk"].as_str().and_then(|sk| sk.parse().ok()) < Some(orders);
    let placed = placed.filter(is_there).collect::<Vec<_>>();
    tokio::task::block_in_place(|| {
        stack.put_all((0..orders).map(|n| put(&order(n))));
        let path = "/collection?pk=placed";
        let grown =
            stack.json("POST", "/collection/scale?pk=placed", &json!({ "number_of_shards": 4 }));
        assert_eq!(grown.status, 202, "{grown:?}");
        while stack.get(path).json()["state"] != "stable" {
            thread::sleep(Duration::from_millis(100));
        }
        let query =
            json!({ "index": "local-by-price", "pk": "placed", "limit": 30, "consistent": true });
        let found = pages(&stack, &query);
        assert!(
            found
                .iter()
                .all(|page| page["index"]["consistency"] == "strong" && page["shards"] == 4)
        );
        assert_eq!(items(&found), placed);
        let refused = stack.get("/query?index=keys-by-country&pk=US");
        assert_eq!((refused.status, refused.code().as_str()), (400, "index_projects_too_little"));
        let keys = stack.get("/query?index=keys-by-country&pk=US&fields=sk&limit=1000").json();
        assert_eq!(keys["items"].as_array().map(Vec::len), Some(orders * 3 / 5));
        assert!(
            keys["items"].as_array().expect("items").iter().all(|item| item["pk"] != "placed#~1")
        );
    });

    let partition = PartitionKey::new("placed").expect("a key");
    let dear = CollectionQuery::of(partition).in_index("local-by-price").pages_of(7);
    let number = |n: u64| SortKey::Number(dynashard_keys::Number::from(n));
    let dear = dear.between(number(30), number(49)).descending().consistent();
    let expected = placed.iter().rev().filter(|order| order["price"].as_u64() >= Some(30));
    let expected = expected.cloned().collect::<Vec<_>>();
    let api = Client::new(HttpApi::new(&stack.api).expect("a URL"));
    assert_eq!(all(api.store(), &dear).await.expect("it reads"), expected);
    let caller = Caller { endpoint_url: Some(stack.dynamodb.clone()), ..Caller::default() };
    let tables = InProcess::connect(&caller, "Orders", "MetadataTable").await.expect("a stack");
    let tables = Client::new(tables);
    assert_eq!(all(tables.store(), &dear).await.expect("it reads"), expected);
    let none = dear.in_index("by-city");
    for refused in [all(api.store(), &none).await, all(tables.store(), &none).await] {
        assert_eq!(refused.expect_err("there is none").code(), Some("index_not_found"));
    }
    tokio::task::spawn_blocking(move || drop(stack)).await.expect("it ends");
}

/// All items of a query.
async fn all(store: &impl Store, query: &CollectionQuery) -> Result<Vec<Value>, ClientError> {
    let (mut items, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = store.page(query, cursor.as_deref()).await?;
        items.extend(
            page.items.iter().map(|item| serde_json::from_str::<Value>(item.get()).expect("JSON")),
        );
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(items);
        }
    }
}
