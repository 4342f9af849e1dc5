use std::iter;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use dynashard_api::json::{self, Format, ItemJson};
use dynashard_core::ports::{
    Adjusted, BatchPage, Clock, Consistency, ItemStore, Metered, ShardPage, ShardQuery, StoreError,
    Transfer, Transferred, Write,
};
use dynashard_core::{
    Adjustment, AttributeValue, Attributes, Deadline, Fields, Generation, Lease, MAX_ITEM_BYTES,
    NewItem, Owner, Reader, Scaler, StoredItem, TableSchema,
};
use dynashard_keys::{
    ItemKey, PartitionKey, PhysicalKey, Placement, Separator, ShardCount, ShardId, SortKey,
};
use dynashard_lambda::LogKeys;
use dynashard_testkit::{Fault, Operation, block_on};
use serde_json::{Value, json};

use super::handler;
use crate::handler::ReadHandler;
use dynashard_eventkit::{
    Answer, Call, FLIGHT, MAX_LAMBDA_PAYLOAD_BYTES, MakeFault, OLD_ETAG, OLD_VERSION, SECRET,
    STACK_FAULTS, Store, World, digests, logged, unreachable_table,
};

const PK: &str = "EWR";
const SK: &str = "2013-01-01T10:00:00Z#UA1545";

fn get() -> Call {
    Call::new(&format!("GET /item?{FLIGHT}"))
}

fn batch(body: &Value) -> Call {
    Call::new("POST /batch-get").json(body.to_string())
}

fn query(parameters: &str) -> Call {
    Call::new(&format!("GET /query?{parameters}"))
}

/// One request to each route, about what is there.
fn calls() -> [Call; 5] {
    [
        get(),
        batch(&json!({ "keys": [{ "pk": PK, "sk": SK }] })),
        query("pk=EWR"),
        Call::new("POST /query").json(json!({ "pk": PK, "strategy": "parallel" }).to_string()),
        Call::new("GET /collection?pk=EWR"),
    ]
}

/// The sort keys of the items in an answer.
fn sort_keys(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body["items"].as_array().expect("items").iter().map(|item| item["sk"].clone()).collect()
}

/// All pages of a query, and the sort keys that they hold.
fn pages(world: &World, parameters: &str) -> (usize, Vec<Value>) {
    let (mut count, mut keys, mut cursor) = (0, Vec::new(), String::new());
    loop {
        // Each page is read by another execution environment.
        let answer = Answer::of(&handler(world), &query(&format!("{parameters}{cursor}")));
        count += 1;
        keys.extend(sort_keys(&answer));
        match answer.body["cursor"].as_str() {
            Some(text) => cursor = format!("&cursor={text}"),
            None => return (count, keys),
        }
    }
}

#[test]
fn an_item_comes_with_its_key_and_its_entity_tag() {
    let world = World::of_flights();
    let answer = Answer::of(&handler(&world), &get());
    assert_eq!((answer.status, answer.header("etag")), (200, Some(OLD_ETAG)));
    assert_eq!((&answer.body["pk"], &answer.body["sk"]), (&json!(PK), &json!(SK)));
    assert!(!answer.text.contains("_ds_"), "{}", answer.text);
}

/// Every read sent the whole item, whatever the client had of it.
#[test]
fn regression_the_preconditions_of_a_read_were_passed_over() {
    let world = World::of_flights();
    let of = |call: Call| Answer::of(&handler(&world), &call);
    let other = r#""00000000000000ff""#;
    for tag in [OLD_ETAG, "*", &format!("W/{OLD_ETAG}"), &format!("{other}, {OLD_ETAG}")] {
        let answer = of(get().header("if-none-match", tag));
        assert_eq!((answer.status, answer.header("etag")), (304, Some(OLD_ETAG)), "{tag}");
        assert_eq!((answer.text.as_str(), answer.header("content-type")), ("", None), "{tag}");
        assert_eq!(answer.header("dynashard-items-read"), Some("1"), "it was read all the same");
    }
    assert_eq!(of(get().header("if-none-match", other)).status, 200);
    assert_eq!(of(get().header("if-match", OLD_ETAG)).status, 200);
    of(get().header("if-match", other)).assert_problem(412, "precondition_failed", other);
    of(get().header("if-none-match", "none")).assert_problem(400, "bad_header", "no tag");
    // What is not there is neither the same nor another (RFC 9110, 13.2.1).
    for name in ["if-match", "if-none-match"] {
        let absent = Call::new("GET /item?pk=EWR&sk=absent").header(name, "*");
        of(absent).assert_problem(404, "item_not_found", name);
    }
}

#[test]
fn head_is_answered_as_get_is_without_the_body() {
    let world = World::of_flights();
    let of = |line: &str, tag: &str| {
        Answer::of(&handler(&world), &Call::new(line).header("if-none-match", tag))
    };
    let other = r#""00000000000000ff""#;
    for (target, tag, status) in [
        (format!("/item?{FLIGHT}"), other, 200),
        (format!("/item?{FLIGHT}&consistent=true&fields=dest"), other, 200),
        (format!("/item?{FLIGHT}"), OLD_ETAG, 304),
        ("/item?pk=EWR&sk=absent".to_owned(), other, 404),
        ("/item?pk=EWR".to_owned(), other, 400),
    ] {
        let (get, head) = (of(&format!("GET {target}"), tag), of(&format!("HEAD {target}"), tag));
        assert_eq!((get.status, head.status), (status, status), "{target}");
        assert_eq!((head.text.as_str(), &head.headers), ("", &get.headers), "{target}");
    }
}

#[test]
fn dynamodb_json_is_for_those_who_ask_for_it() {
    let world = World::of_flights();
    let item = r#"{"b":{"B":"AAEC"},"ns":{"NS":["1","2.5"]},"ss":{"SS":["x"]},"z":{"NULL":true}}"#;
    world.item_in(Format::DynamoDb, PK, SK, item);
    let plain = json!({ "pk": PK, "sk": SK, "b": "AAEC", "ns": [1, 2.5], "ss": ["x"], "z": null });
    let mut typed = serde_json::from_str::<Value>(item).expect("JSON");
    typed["pk"] = json!({ "S": PK });
    typed["sk"] = json!({ "S": SK });
    for (accept, media_type, expected) in [
        ("*/*", "application/json", &plain),
        ("application/json", "application/json", &plain),
        ("application/x-amz-json-1.0", "application/x-amz-json-1.0", &typed),
        ("text/html, Application/X-Amz-Json-1.0;q=0.9", "application/x-amz-json-1.0", &typed),
    ] {
        let of = |call: Call| Answer::of(&handler(&world), &call.header("accept", accept));
        let answer = of(get());
        assert_eq!(answer.header("content-type"), Some(media_type), "{accept}");
        assert_eq!(&answer.body, expected, "{accept}");
        let keys = json!({ "keys": [{ "pk": PK, "sk": SK }] });
        for call in [batch(&keys), query("pk=EWR&limit=1")] {
            let answer = of(call);
            assert_eq!(answer.header("content-type"), Some(media_type), "{accept}");
            assert_eq!(&answer.body["items"], &json!([expected]), "{accept}");
        }
    }
}

#[test]
fn number_sort_keys_are_json_numbers_in_numeric_order() {
    let world = World::of_numbers();
    world.collection(PK, Placement::Xxh64, 4);
    let digits = "12345678901234567890123456789012345678";
    for sk in ["10", "9", "-1.5", digits, "0"] {
        world.item(PK, sk, "{}");
    }
    let answer = Answer::of(&handler(&world), &query("pk=EWR"));
    let item = |sk: &str| format!(r#"{{"pk":"EWR","sk":{sk}}}"#);
    let items = ["-1.5", "0", "9", "10", digits].map(item).join(",");
    assert!(answer.text.starts_with(&format!(r#"{{"items":[{items}],"#)), "{}", answer.text);
    let (_, keys) = pages(&world, "pk=EWR&limit=1&from=0.0&to=1e1&order=desc");
    assert_eq!(keys, [json!(10), json!(9), json!(0)]);
    let posted = Call::new("POST /query").json(r#"{"pk":"EWR","from":-1.5,"to":9.0}"#);
    let keys = sort_keys(&Answer::of(&handler(&world), &posted));
    assert_eq!(keys, [json!(-1.5), json!(0), json!(9)]);

    let answer = Answer::of(&handler(&world), &Call::new("GET /item?pk=EWR&sk=%2B9.0"));
    assert_eq!(answer.text, item("9"));
    let keys = r#"{"keys":[{"pk":"EWR","sk":1e1}]}"#;
    let answer = Answer::of(&handler(&world), &Call::new("POST /batch-get").json(keys));
    let expected = format!(r#"{{"items":[{}],"unprocessed":[],"items_read":1,"#, item("10"));
    assert!(answer.text.starts_with(&expected), "{}", answer.text);
}

#[test]
fn a_query_returns_every_item_once_whatever_the_page_size() {
    let world = World::of_flights();
    let all = ["T10:00:00Z#UA1545", "T10:00:00Z#UA1696", "T11:00:00Z#B6343"];
    let all = all.map(|rest| json!(format!("2013-01-01{rest}")));
    for limit in 1..=4 {
        let ordered = pages(&world, &format!("pk=EWR&limit={limit}"));
        assert_eq!(ordered.1, all, "limit {limit}");
        let (_, mut descending) = pages(&world, &format!("pk=EWR&limit={limit}&order=desc"));
        descending.reverse();
        assert_eq!(descending, all, "limit {limit}");
        let (_, mut parallel) = pages(&world, &format!("pk=EWR&limit={limit}&strategy=parallel"));
        parallel.sort_by_key(Value::to_string);
        assert_eq!(parallel, all, "limit {limit}");
    }
    let (_, prefix) = pages(&world, "pk=EWR&begins_with=2013-01-01T10");
    assert_eq!(prefix, all[..2]);
    let (_, between) = pages(&world, "pk=EWR&from=2013-01-01T10:00:00Z%23UA1696&to=2014");
    assert_eq!(between, all[1..]);
}

#[test]
fn a_posted_query_is_the_same_query() {
    let world = World::of_flights();
    let got = Answer::of(&handler(&world), &query("pk=EWR&limit=1&order=desc&consistent=true"));
    let body = r#"{"pk":"EWR","limit":1,"order":"desc","consistent":true,"cursor":null}"#;
    let posted = Answer::of(&handler(&world), &Call::new("POST /query").json(body));
    assert_eq!(posted.text, got.text);
    let cursor = &got.body["cursor"];
    let next = json!({ "pk": PK, "limit": 1, "order": "desc", "cursor": cursor }).to_string();
    let next = Answer::of(&handler(&world), &Call::new("POST /query").json(next));
    assert_eq!(sort_keys(&next), ["2013-01-01T10:00:00Z#UA1696"]);
}

#[test]
fn regression_bodies_without_attributes_were_refused_as_dynamodb_json() {
    let world = World::of_flights();
    let keys = json!({ "keys": [{ "pk": PK, "sk": SK }] });
    for call in [batch(&keys), Call::new("POST /query").body(r#"{"pk":"EWR","limit":1}"#)] {
        let call = call.header("content-type", "application/x-amz-json-1.0");
        let answer = Answer::of(&handler(&world), &call);
        assert_eq!(sort_keys(&answer), [SK], "as any other body of JSON");
    }
}

/// The main table, and the consistency that was asked of it.
struct Watched {
    store: Store,
    asked: Arc<Mutex<Vec<Consistency>>>,
}

impl Watched {
    fn note(&self, consistency: Consistency) {
        self.asked.lock().expect("no test panics here").push(consistency);
    }
}

#[async_trait]
impl ItemStore for Watched {
    async fn get(
        &self,
        key: &PhysicalKey,
        fields: Option<&Fields>,
        consistency: Consistency,
    ) -> Result<Metered<Option<StoredItem>>, StoreError> {
        self.note(consistency);
        ItemStore::get(&self.store, key, fields, consistency).await
    }

    async fn write(&self, _: &Write) -> Result<f64, StoreError> {
        panic!("the read function wrote")
    }

    async fn get_both(
        &self,
        keys: [&PhysicalKey; 2],
        fields: Option<&Fields>,
    ) -> Result<Metered<[Option<StoredItem>; 2]>, StoreError> {
        self.note(Consistency::Strong);
        self.store.get_both(keys, fields).await
    }

    async fn transfer(&self, _: &Transfer) -> Result<Transferred, StoreError> {
        panic!("the read function moved an item")
    }

    async fn adjust(&self, _: &[Adjustment], _: Lease) -> Result<Adjusted, StoreError> {
        panic!("the read function changed a cell")
    }

    async fn batch_get(
        &self,
        keys: &[PhysicalKey],
        fields: Option<&Fields>,
        consistency: Consistency,
    ) -> Result<BatchPage, StoreError> {
        self.note(consistency);
        self.store.batch_get(keys, fields, consistency).await
    }

    async fn query(&self, query: &ShardQuery) -> Result<ShardPage, StoreError> {
        self.note(query.consistency);
        self.store.query(query).await
    }

    async fn owner(&self) -> Result<Option<Owner>, StoreError> {
        self.store.owner().await
    }

    async fn claim(&self, _: &Owner) -> Result<(), StoreError> {
        panic!("the read function claimed the table")
    }

    async fn takes_date(&self, _: u64) -> Result<bool, StoreError> {
        panic!("the read function wrote")
    }

    async fn locally_indexed_bytes(&self) -> Result<Option<u64>, StoreError> {
        panic!("the read function asked for a size")
    }
}

#[test]
fn reads_are_strongly_consistent_where_the_client_asks_for_it_and_only_there() {
    let posted = |consistent: Value| {
        Call::new("POST /query").json(json!({ "pk": PK, "consistent": consistent }).to_string())
    };
    let keys = json!([{ "pk": PK, "sk": SK }]);
    for (strong, calls) in [
        (
            true,
            [
                Call::new(&format!("GET /item?{FLIGHT}&consistent=true")),
                batch(&json!({ "keys": keys, "consistent": true })),
                query("pk=EWR&consistent=true"),
                query("pk=EWR&consistent=true&strategy=parallel"),
                posted(json!(true)),
            ],
        ),
        (
            false,
            [
                Call::new(&format!("GET /item?{FLIGHT}&consistent=false")),
                batch(&json!({ "keys": keys })),
                query("pk=EWR"),
                query("pk=EWR&strategy=parallel"),
                posted(json!(false)),
            ],
        ),
    ] {
        let expected = if strong { Consistency::Strong } else { Consistency::Eventual };
        for call in calls {
            let world = World::of_flights();
            let asked = Arc::default();
            let store = Watched { store: world.store.clone(), asked: Arc::clone(&asked) };
            let handler =
                ReadHandler::new(Reader::new(world.directory_over(store)), world.admission.clone());
            assert_eq!(Answer::of(&handler, &call).status, 200);
            let asked = asked.lock().expect("no test panics here");
            assert!(!asked.is_empty(), "{call:?}");
            assert!(asked.iter().all(|consistency| *consistency == expected), "{call:?}");
        }
    }
}

#[test]
fn an_expired_cursor_is_410_and_an_ordered_one_never_expires() {
    let world = World::of_flights();
    let next = |strategy: &str| {
        let first = format!("pk=EWR&limit=1&strategy={strategy}");
        let answer = Answer::of(&handler(&world), &query(&first));
        query(&format!("{first}&cursor={}", answer.body["cursor"].as_str().expect("more")))
    };
    let (ordered, parallel) = (next("ordered"), next("parallel"));
    // The collection was resharded to the same count: only its generation tells.
    let partition = PartitionKey::new(PK).expect("pk");
    let mut metadata = world.memory.stored_metadata(&partition).expect("metadata");
    metadata.generation = Generation::new(3);
    world.memory.place_metadata(metadata);
    Answer::of(&handler(&world), &parallel).assert_problem(410, "cursor_expired", "parallel");
    let answer = Answer::of(&handler(&world), &ordered);
    assert_eq!(sort_keys(&answer), ["2013-01-01T10:00:00Z#UA1696"]);
}

#[test]
fn what_was_never_written_is_an_empty_page_or_not_found() {
    let world = World::of_flights();
    let answer = Answer::of(&handler(&world), &query("pk=LGA"));
    let empty = r#"{"items":[],"cursor":null,"shards":1,"items_read":0,"consumed_rcu":0.5}"#;
    assert_eq!((answer.status, answer.text.as_str()), (200, empty));
    for (line, code) in [
        ("GET /item?pk=LGA&sk=1", "item_not_found"),
        ("GET /item?pk=EWR&sk=1", "item_not_found"),
        ("GET /collection?pk=LGA", "collection_not_found"),
    ] {
        Answer::of(&handler(&world), &Call::new(line)).assert_problem(404, code, line);
    }
    let absent = json!({ "keys": [{ "pk": "LGA", "sk": "1" }, { "pk": PK, "sk": "1" }] });
    let answer = Answer::of(&handler(&world), &batch(&absent));
    // Of a key that has no item the smallest read is paid.
    let nothing = r#"{"items":[],"unprocessed":[],"items_read":0,"consumed_rcu":1.0}"#;
    assert_eq!(answer.text, nothing);
}

#[test]
fn an_empty_batch_asks_for_nothing() {
    let world = World::of_flights();
    let answer = Answer::of(&handler(&world), &batch(&json!({ "keys": [] })));
    let nothing = r#"{"items":[],"unprocessed":[],"items_read":0,"consumed_rcu":0.0}"#;
    assert_eq!(answer.text, nothing);
    assert_eq!(world.memory.requests().total(), 0);
}

#[test]
fn items_of_random_placement_are_found_in_any_shard() {
    let world = World::of_random_placement();
    let answer = Answer::of(&handler(&world), &Call::new("GET /item?pk=log&sk=1"));
    assert_eq!((answer.status, &answer.body["a"]), (200, &json!(1)));
    let answer =
        Answer::of(&handler(&world), &batch(&json!({ "keys": [{ "pk": "log", "sk": "1" }] })));
    assert_eq!(sort_keys(&answer), ["1"]);
    assert_eq!(pages(&world, "pk=log"), (1, vec![json!("1")]));
}

#[test]
fn a_batch_lists_the_keys_that_a_hot_partition_kept_back() {
    let world = World::of_flights();
    let jfk = PartitionKey::new("JFK").expect("pk");
    world.store.throttle(jfk.at(ShardId::new(0), Placement::Xxh64, Separator::HashTilde));
    let sk = "2013-01-01T10:00:00Z#AA1141";
    let keys = json!({ "keys": [{ "pk": "JFK", "sk": sk }, { "pk": PK, "sk": SK }] });
    let answer = Answer::of(&handler(&world), &batch(&keys));
    assert_eq!(sort_keys(&answer), [SK]);
    let unprocessed = json!([{ "pk": "JFK", "sk": sk, "code": "throttled" }]);
    assert_eq!(answer.body["unprocessed"], unprocessed);
}

/// Asserts that a request about [`PK`] and [`SK`] fails so. A batch says it of the key: one
/// collection's trouble is not another's.
#[track_caller]
fn assert_fails(world: &World, call: &Call, status: u64, code: &str) {
    let answer = Answer::of(&handler(world), call);
    if answer.status == 200 {
        let unprocessed = json!([{ "pk": PK, "sk": SK, "code": code }]);
        let items = json!([]);
        let is = (&answer.body["items"], &answer.body["unprocessed"]);
        assert_eq!(is, (&items, &unprocessed), "{call:?}");
    } else {
        answer.assert_problem(status, code, &format!("{call:?}"));
    }
}

/// Every request to either table fails so.
fn always(world: &World, fault: impl Fn() -> Fault) {
    for operation in [Operation::Get, Operation::BatchGet, Operation::Query, Operation::MetadataGet]
    {
        world.store.script(operation, iter::repeat_with(&fault).take(10_000));
    }
}

#[test]
fn a_hot_partition_is_429_with_retry_after() {
    let world = World::of_flights();
    let ewr = PartitionKey::new(PK).expect("pk");
    (0..8).for_each(|shard| {
        world.store.throttle(ewr.at(ShardId::new(shard), Placement::Xxh64, Separator::HashTilde));
    });
    for call in [get(), query("pk=EWR"), query("pk=EWR&strategy=parallel")] {
        let answer = Answer::of(&handler(&world), &call);
        answer.assert_problem(429, "throttled", "a throttle that does not end");
    }
}

#[test]
fn tables_that_do_not_answer_are_503_with_retry_after() {
    let faults: [MakeFault; 2] = [unreachable_table, || Fault::Lose];
    for fault in faults {
        for call in calls() {
            let world = World::of_flights();
            always(&world, fault);
            assert_fails(&world, &call, 503, "unavailable");
        }
    }
}

/// A request was tried until its deadline, which is 23 seconds, and the answer said that DynamoDB had not answered.
#[test]
fn regression_a_table_that_answered_with_faults_at_once_held_its_readers() {
    use Operation::{BatchGet, DirectoryGet, Get, MetadataGet, Query};
    for operation in [Get, BatchGet, Query, MetadataGet, DirectoryGet] {
        for call in calls() {
            let world = World::of_flights();
            world.store.script(operation, iter::repeat_with(unreachable_table).take(1_000));
            let begun = world.clock.now();
            let answer = Answer::of(&handler(&world), &call);
            let took = world.clock.now().certainly_since(begun);
            assert!(took <= Duration::from_secs(3), "{operation:?}, {call:?}: {took:?}");
            if answer.status != 200 {
                answer.assert_problem(503, "unavailable", &format!("{operation:?}, {call:?}"));
                assert!(answer.text.contains("answers with a fault"), "{}", answer.text);
            }
        }
    }
}

#[test]
fn a_collection_is_read_while_it_is_resharded_and_says_how_far_it_is() {
    let world = World::of_flights();
    let partition = PartitionKey::new(PK).expect("pk");
    let resting: Vec<_> = calls().iter().map(|call| Answer::of(&handler(&world), call)).collect();
    world.clock.advance(Duration::from_mins(1));
    let reading = handler(&world);
    assert_eq!(Answer::of(&reading, &calls()[0]).status, 200);
    let scaler = Scaler::new(world.directory());
    let [from, to] = [8, 16].map(|count| ShardCount::new(count).expect("a count"));
    let deadline = Deadline::after(scaler.directory().now(), Duration::from_secs(20));
    block_on(scaler.request_count(&partition, to, deadline)).expect("it begins");
    let answer = Answer::of(&handler(&world), &calls()[0]);
    assert_eq!((answer.status, &answer.body), (200, &resting[0].body));
    for (call, before) in calls()[1..3].iter().zip(&resting[1..]) {
        let answer = Answer::of(&handler(&world), call);
        assert_eq!(
            (answer.status, &answer.body["items"]),
            (200, &before.body["items"]),
            "{call:?}"
        );
    }
    let [.., collection] = calls();
    let answer = Answer::of(&reading, &collection);
    assert_eq!(
        (answer.status, &answer.body["state"]),
        (200, &json!("forward")),
        "what this environment has read before was answered"
    );
    let reshard = &answer.body["reshard"];
    assert_eq!((&reshard["from"], &reshard["to"]), (&json!(from.get()), &json!(to.get())));
    assert_eq!((&reshard["source_shards"], &reshard["source_shards_done"]), (&json!(8), &json!(0)));
    assert_eq!((&reshard["items_moved"], &reshard["eta_secs"]), (&json!(0), &Value::Null));
    block_on(scaler.request_count(&partition, from, deadline)).expect("it is turned round");
    let answer = Answer::of(&handler(&world), &collection);
    assert_eq!(answer.body["reshard"]["then"], json!(8));
}

#[test]
fn faults_of_the_stack_are_500_and_say_nothing() {
    for (code, error) in STACK_FAULTS {
        let refuse = || Fault::Refuse(error(SECRET.to_owned()));
        for call in calls() {
            let world = World::of_flights();
            world.store.script(Operation::MetadataGet, [refuse()]);
            assert_fails(&world, &call, 500, code);
        }
        for call in &calls()[..4] {
            let world = World::of_flights();
            for operation in [Operation::Get, Operation::BatchGet, Operation::Query] {
                world.store.script(operation, [refuse()]);
            }
            assert_fails(&world, call, 500, code);
        }
    }
}

/// A collection of sixty items of some 130 KB, each of which is mostly quotation marks once it is
/// JSON.
/// The line of a damaged item, or of one that is ahead of its metadata, did not say of which collection it is.
#[test]
fn regression_a_failed_request_was_logged_without_its_key() {
    let lines_of = |keys: &LogKeys, call: &Call| {
        let world = World::of_flights();
        always(&world, || Fault::Refuse(StoreError::Corrupt(SECRET.to_owned())));
        let (_, lines) = logged(keys, || Answer::of(&handler(&world), call));
        lines.into_iter().filter(|line| line["level"] == "ERROR").collect::<Vec<_>>()
    };
    for call in calls() {
        for (keys, pk) in [(LogKeys::Plain, Some(PK)), (digests(), None)] {
            let lines = lines_of(&keys, &call);
            assert!(!lines.is_empty(), "{call:?}");
            for line in lines {
                let named = line["partition_key"].as_str().expect("a key");
                assert!(pk.map_or(named.starts_with("key:"), |pk| named == pk), "{line}");
            }
        }
    }
}

fn world_of_quotes() -> World {
    let world = World::of_flights();
    let words = vec!["\"x\""; 32_000].join(",");
    for at in 0..60 {
        world.item("JFK", &format!("{at:02}"), &format!("{{\"words\":[{words}]}}"));
    }
    world
}

#[test]
fn regression_a_page_of_quotes_did_not_fit_lambdas_answer() {
    let world = world_of_quotes();
    for strategy in ["ordered", "parallel"] {
        let parameters = format!("pk=JFK&limit=1000&strategy={strategy}");
        let first = Answer::of(&handler(&world), &query(&parameters));
        assert!(first.payload_bytes < MAX_LAMBDA_PAYLOAD_BYTES, "{}", first.payload_bytes);
        assert!(first.text.len() > 1_000_000, "a page is not made smaller than it need be");
        let (_, keys) = pages(&world, &parameters);
        assert_eq!(keys.len(), 61, "nothing is lost between the pages");
    }
}

#[test]
fn regression_a_batch_of_quotes_did_not_fit_lambdas_answer() {
    let world = world_of_quotes();
    let keys = (0..60).map(|at| json!({ "pk": "JFK", "sk": format!("{at:02}") }));
    let keys = json!({ "keys": keys.collect::<Vec<_>>() });
    let answer = Answer::of(&handler(&world), &batch(&keys));
    assert!(answer.payload_bytes < MAX_LAMBDA_PAYLOAD_BYTES, "{}", answer.payload_bytes);
    let unprocessed = answer.body["unprocessed"].as_array().expect("a list");
    assert!(unprocessed.iter().all(|key| key["code"] == "answer_full"));
    assert_eq!(sort_keys(&answer).len() + unprocessed.len(), 60);
}

/// What was listed did not count.
#[test]
fn regression_a_batch_of_long_keys_did_not_fit_lambdas_answer() {
    let world = World::of_flights();
    // Each character takes seven bytes in the answer.
    let [pk, sk] = ["\u{1}".repeat(2_000), "\u{1}".repeat(1_000)];
    world.collection(&pk, Placement::Xxh64, 1);
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(390_000));
    let mut keys = Vec::new();
    for at in 0..100 {
        let sk = format!("{at:02}{sk}");
        world.item(&pk, &sk, &large);
        keys.push(json!({ "pk": pk, "sk": sk }));
    }
    let answer = Answer::of(&handler(&world), &batch(&json!({ "keys": keys })));
    assert!(answer.payload_bytes < MAX_LAMBDA_PAYLOAD_BYTES, "{}", answer.payload_bytes);
    let [items, unprocessed] =
        ["items", "unprocessed"].map(|of| answer.body[of].as_array().expect("a list").len());
    assert_eq!(items + unprocessed, 100);
    assert!(items > 5, "{items}");
}

/// It read all of them, and dropped what did not fit.
#[test]
fn regression_a_batch_read_went_on_when_its_answer_was_full() {
    let world = world_of_quotes();
    let keys = (0..60).map(|at| json!({ "pk": "JFK", "sk": format!("{at:02}") }));
    let keys = json!({ "keys": keys.collect::<Vec<_>>() });
    let answer = Answer::of(&handler(&world), &batch(&keys));
    let returned = sort_keys(&answer).len();
    assert!(returned > 10, "{returned}");
    let read = answer.body["items_read"].as_u64().expect("a count");
    let returned = u64::try_from(returned).expect("small");
    assert!(read <= returned + 1, "{read} items were read for {returned}");
}

#[test]
fn regression_the_largest_item_of_short_values_did_not_fit_lambdas_answer() {
    // A set pays nothing for its members but what they take themselves, and each may be there once.
    let set = |members: Vec<String>| members.join(",");
    let small = set((1..100).map(|n| format!(r#""{n}e-18""#)).collect());
    let large = set((1..100).map(|n| format!(r#""{n}e18""#)).collect());
    let controls = set((0..0x20).map(|n| format!(r#""\u{n:04x}""#)).collect());
    // What DynamoDB keeps in the fewest bytes for its length as text.
    for value in [
        r#"{"N":"1e125"}"#,
        r#"{"S":""}"#,
        r#"{"BOOL":false}"#,
        r#"{"SS":[""]}"#,
        r#"{"BS":[""]}"#,
        &format!(r#"{{"NS":[{small}]}}"#),
        &format!(r#"{{"NS":[{large}]}}"#),
        &format!(r#"{{"SS":[{controls}]}}"#),
    ] {
        let text = format!(r#"{{"a":{value}}}"#);
        let members = json::object(text.as_bytes()).expect("an object");
        let attributes = json::attributes(members, Format::DynamoDb).expect("attributes");
        let (partition, sort, item) = largest_list_of(&attributes["a"]);
        for format in [Format::Plain, Format::DynamoDb] {
            let schema = &TableSchema::default();
            let json = ItemJson { schema, partition: &partition, sort: &sort, item: &item, format };
            let body = serde_json::to_string(&json).expect("JSON");
            assert!(body.len() < 5_000_000, "{value} as {format:?}: {}", body.len());
            // Half a megabyte is for the cursor and the envelope.
            let payload = json.payload_bytes() + 500_000;
            assert!(payload < MAX_LAMBDA_PAYLOAD_BYTES, "{value} as {format:?}: {payload}");
        }
    }
}

/// The item whose one attribute is a list of this value, about as often as a client may store it.
fn largest_list_of(value: &AttributeValue) -> (PartitionKey, SortKey, StoredItem) {
    let key = ItemKey::new(PartitionKey::new(PK).expect("pk"), SortKey::string(SK).expect("sk"));
    let for_the_rest = 100;
    let count = (MAX_ITEM_BYTES - for_the_rest) / (value.stored_bytes() + 1);
    let list = AttributeValue::List(vec![value.clone(); count]);
    let attributes = Attributes::from([("a".to_owned(), list)]);
    let item = NewItem::new(key.clone(), attributes, &TableSchema::default()).expect("it fits");
    let item = StoredItem {
        attributes: item.attributes().clone(),
        generation: Generation::new(1),
        version: OLD_VERSION,
        forwarded: false,
    };
    (key.partition, key.sort, item)
}

#[test]
fn regression_a_problem_repeated_megabytes_of_the_request() {
    let world = World::of_flights();
    let long = "\"".repeat(2_000_000);
    for body in [
        json!({ "pk": PK, "strategy": long }),
        json!({ "pk": PK, "order": long }),
        json!({ "pk": PK, "limit": long }),
        json!({ "pk": PK, (long.as_str()): 1 }),
    ] {
        let call = Call::new("POST /query").json(body.to_string());
        let answer = Answer::of(&handler(&world), &call);
        assert_eq!(answer.status, 400);
        assert!(answer.payload_bytes < 10_000, "{}", answer.payload_bytes);
    }
}
