//! What happens to the tables while an endpoint runs.

use std::time::Duration;

use dynashard_core::{CollectionMetadata, Deadline};
use dynashard_keys::{Placement, ShardCount};
use serde_json::{Value, json};

use crate::canned::{Canned, Reply};
use crate::stack::{MAIN, METADATA, OTHER, Stack, ask, create_metadata_table, item, partition};

const INDEX: &str = "by-color";

/// Far longer than what is waited for takes.
const PATIENCE: Duration = Duration::from_mins(1);

fn put(sk: &str) -> Value {
    json!({ "TableName": MAIN, "Item": item("a", sk) })
}

/// Every way to write and to read the item of this sort key.
fn requests(sk: &str) -> [(&'static str, Value); 9] {
    let key = item("a", sk);
    let named = |mut request: Value| {
        request["TableName"] = MAIN.into();
        request
    };
    let update = json!({ "Key": key, "UpdateExpression": "SET x = :x", "ExpressionAttributeValues": { ":x": { "S": "1" } } });
    let query = json!({ "KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": { ":pk": { "S": "a" } } });
    [
        ("PutItem", put(sk)),
        ("UpdateItem", named(update)),
        ("DeleteItem", named(json!({ "Key": item("a", "1") }))),
        (
            "BatchWriteItem",
            json!({ "RequestItems": { MAIN: [{ "PutRequest": { "Item": key } }] } }),
        ),
        ("TransactWriteItems", json!({ "TransactItems": [{ "Put": put(sk) }] })),
        ("GetItem", named(json!({ "Key": key }))),
        ("BatchGetItem", json!({ "RequestItems": { MAIN: { "Keys": [key] } } })),
        ("TransactGetItems", json!({ "TransactItems": [{ "Get": named(json!({ "Key": key })) }] })),
        ("Query", named(query)),
    ]
}

/// Asks until this is refused, as it is once the lease is over.
async fn until_refused(stack: &Stack, operation: &str, body: Value) {
    let refused = async {
        while stack.ask(operation, body.clone()).await.0 == 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.expect("it is refused");
}

/// The sort keys of the items of the main table.
async fn stored(stack: &Stack) -> Vec<String> {
    let scanned = stack.plain().await.scan().table_name(MAIN).send().await.expect("a page");
    let clients = scanned.items().iter().filter(|item| item["pk"].as_s().is_ok_and(|pk| pk == "a"));
    let mut keys = clients.filter_map(|item| item["sk"].as_s().ok().cloned()).collect::<Vec<_>>();
    keys.sort();
    keys
}

/// A deployment may give the stack another policy.
#[tokio::test]
async fn an_endpoint_goes_over_to_what_its_stack_decides_by() {
    let stack = Stack::start_with_short_leases().await;
    let (service, followed) = stack.following();
    // Whatever it is asked.
    let get = json!({ "RequestItems": { MAIN: { "Keys": [item("a", "1")] } } }).to_string();
    assert_eq!(ask(&service, "BatchGetItem", get.as_bytes()).await.0, 200);
    let counts = [8, 32].map(|count| ShardCount::new(count).expect("a count"));
    for (at, count) in counts.into_iter().enumerate() {
        stack.tell_most_shards(count).await;
        let goes_over = async {
            while followed.lock().len() == at {
                let (status, answer) = ask(&service, "BatchGetItem", get.as_bytes()).await;
                assert_eq!(status, 200, "{answer}");
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, goes_over).await.expect("it goes over");
    }
    let followed = followed.lock().clone();
    let followed = followed.into_iter().filter_map(|told| Some(told.policy?.max_shards));
    assert_eq!(followed.collect::<Vec<_>>(), counts);
    stack.database.shutdown().await;
}

/// The endpoint went by the lease term of its start until it was started again, and answered 503 once another one alone was accepted.
#[tokio::test]
async fn regression_an_endpoint_stopped_once_its_stack_had_another_lease_term() {
    let stack = Stack::start_with_short_leases().await;
    let (service, followed) = stack.following();
    let get = json!({ "RequestItems": { MAIN: { "Keys": [item("a", "1")] } } }).to_string();
    let asked = async || ask(&service, "BatchGetItem", get.as_bytes()).await.0;
    assert_eq!(asked().await, 200);
    let operator = stack.operator(Duration::from_secs(3));
    let until = Deadline::after(operator.now(), PATIENCE);
    operator.pinned().announce(Duration::from_secs(3), until).await.expect("it is announced");
    let goes_over = async {
        while followed.lock().is_empty() {
            assert_eq!(asked().await, 200);
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, goes_over).await.expect("it goes over");
    operator.pinned().complete(Duration::from_secs(3), until).await.expect("it is complete");
    assert_eq!(asked().await, 200);
    // One that comes late, as after a halt, finds that its own is accepted no more, and goes over then.
    let (late, _) = stack.following();
    let (status, answer) = ask(&late, "BatchGetItem", get.as_bytes()).await;
    assert_eq!(status, 200, "{answer}");
    stack.database.shutdown().await;
}

/// An answer that took longer than a lease was asked for again, up to five times, and then refused: a page of a megabyte on a slow
/// line never came, and an `ADD` that had succeeded was told of as a fault, which SDKs repeat.
#[tokio::test]
async fn regression_what_came_late_did_not_count_although_nothing_had_changed() {
    let stack = Stack::start().await;
    let key = item("a", "1");
    let get = json!({ "Get": { "TableName": MAIN, "Key": key } });
    let query = json!({
        "TableName": MAIN, "KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": { ":pk": { "S": "a" } },
    });
    let add = json!({
        "TableName": MAIN, "Key": key, "UpdateExpression": "ADD n :one", "ExpressionAttributeValues": { ":one": { "N": "1" } },
    });
    let page = json!({ "Items": [], "Count": 0, "ScannedCount": 0 });
    for (operation, body, answered) in [
        (
            "BatchGetItem",
            json!({ "RequestItems": { MAIN: { "Keys": [key] } } }),
            json!({ "Responses": {} }),
        ),
        ("TransactGetItems", json!({ "TransactItems": [get] }), json!({ "Responses": [{}] })),
        ("Query", query, page.clone()),
        ("Scan", json!({ "TableName": MAIN }), page),
        ("UpdateItem", add, json!({})),
    ] {
        let server = Canned::start([Reply::new(200, answered).late()]).await;
        let service = stack.in_front_of(&server.url);
        let (status, answer) = ask(&service, operation, body.to_string().as_bytes()).await;
        assert_eq!((status, server.asked().len()), (200, 1), "{operation}: {answer}");
    }
    stack.database.shutdown().await;
}

/// A table of another account that has the same name was written to as if it were the managed one: its items got our attributes.
#[tokio::test]
async fn regression_a_table_of_another_account_was_taken_for_the_managed_one() {
    let stack = Stack::start().await;
    let place = |account: &str| format!("arn:aws:dynamodb:us-east-1:{account}");
    let server = Canned::start([200, 200].map(|status| Reply::new(status, json!({})))).await;
    let service = stack.in_front_of_place(&server.url, &place("111111111111"));
    for (account, is_managed) in [("222222222222", false), ("111111111111", true)] {
        let body = json!({ "TableName": format!("{}:table/{MAIN}", place(account)), "Item": item("a", "1") });
        let (status, answer) = ask(&service, "PutItem", body.to_string().as_bytes()).await;
        assert_eq!(status, 200, "{answer}");
        let sent = server.asked().pop().expect("it was asked");
        assert_eq!(sent != body, is_managed, "{sent}");
    }
    stack.database.shutdown().await;
}

/// Without its metadata nobody knows where an item lies.
#[tokio::test]
async fn nothing_is_written_or_shown_once_the_metadata_table_is_gone() {
    let stack = Stack::start_with_short_leases().await;
    assert_eq!(stack.ask("PutItem", put("1")).await.0, 200);
    let plain = stack.plain().await;
    plain.delete_table().table_name(METADATA).send().await.expect("it is deleted");
    until_refused(&stack, "GetItem", json!({ "TableName": MAIN, "Key": item("a", "1") })).await;
    for (operation, body) in requests("2") {
        let (status, answer) = stack.ask(operation, body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        let is_clear = message.starts_with("dynashard: internal: ResourceNotFoundException")
            && message.contains("its metadata table exist");
        assert!(status == 500 && is_clear, "{operation}: {status} {answer}");
    }
    let why = stack.service.check().await.expect_err("it is not ready");
    assert!(why.contains("ResourceNotFoundException"), "{why}");
    let (status, answer) =
        stack.ask("PutItem", json!({ "TableName": OTHER, "Item": item("a", "1") })).await;
    assert_eq!(status, 200, "other tables are served: {answer}");

    // One that is made anew knows nothing of the keys that have several shards.
    create_metadata_table(&plain).await;
    for (operation, body) in requests("2") {
        let (status, answer) = stack.ask(operation, body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        let is_clear = message.starts_with("dynashard: settings_mismatch: ")
            && message.contains("emptied or made anew");
        assert!(status == 503 && is_clear, "{operation}: {status} {answer}");
    }
    assert_eq!(stored(&stack).await, ["1"]);
    stack.database.shutdown().await;
}

#[tokio::test]
async fn an_index_that_is_made_meanwhile_is_queried_and_scanned() {
    for shards in [1, 4] {
        let mut stack = Stack::start().await;
        // The settings are pinned by the first request.
        stack.ask("GetItem", json!({ "TableName": MAIN, "Key": item("a", "1") })).await;
        let count = ShardCount::new(shards).expect("a count");
        if count != ShardCount::ONE {
            let placement = Placement::Xxh64;
            let grown = CollectionMetadata::stable(partition("a"), placement, count, 1_700_000_000);
            stack.list(&grown).await;
            stack.restart();
        }
        let (red, blue) = (write(&stack, "1", "red").await, write(&stack, "2", "blue").await);
        make_index(&stack).await;
        let also_red = write(&stack, "3", "red").await;
        let query = json!({
            "TableName": MAIN, "IndexName": INDEX, "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": { ":pk": { "S": "a" } },
        });
        let found = async {
            loop {
                // While it is being built, it is refused.
                let (status, answer) = stack.ask("Query", query.clone()).await;
                if status == 200 {
                    return answer["Items"].clone();
                }
            }
        };
        let found = tokio::time::timeout(PATIENCE, found).await.expect("it is built");
        assert_eq!(found, json!([blue, red, also_red]), "{shards} shards");
        let scan = json!({ "TableName": MAIN, "IndexName": INDEX, "Select": "COUNT" });
        let (status, answer) = stack.ask("Scan", scan).await;
        assert_eq!((status, &answer["Count"]), (200, &json!(3)), "{shards} shards: {answer}");
        stack.database.shutdown().await;
    }
}

/// Puts an item of this color, and returns it.
async fn write(stack: &Stack, sk: &str, color: &str) -> Value {
    let mut put = put(sk);
    put["Item"]["color"] = json!({ "S": color });
    let (status, answer) = stack.ask("PutItem", put.clone()).await;
    assert_eq!(status, 200, "{answer}");
    put["Item"].clone()
}

/// Makes an index of the items of a key by their color.
async fn make_index(stack: &Stack) {
    let keys = [("pk", "HASH"), ("color", "RANGE")];
    let keys = keys.map(|(name, kind)| json!({ "AttributeName": name, "KeyType": kind }));
    let index =
        json!({ "IndexName": INDEX, "KeySchema": keys, "Projection": { "ProjectionType": "ALL" } });
    let types = ["pk", "color"].map(|name| json!({ "AttributeName": name, "AttributeType": "S" }));
    let update = json!({
        "TableName": MAIN, "AttributeDefinitions": types,
        "GlobalSecondaryIndexUpdates": [{ "Create": index }],
    });
    let (status, answer) = stack.ask("UpdateTable", update).await;
    assert_eq!(status, 200, "{answer}");
}
