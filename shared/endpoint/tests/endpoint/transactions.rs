//! Transactions: what they stand on, what they carry, and where their items lie.

use std::time::Duration;

use dynashard_core::CollectionMetadata;
use dynashard_keys::{Placement, ShardCount};
use serde_json::{Value, json};

use crate::canned::{Canned, Reply};
use crate::stack::{MAIN, OTHER, Stack, ask, item, partition};

fn cancelled(codes: &[&str]) -> Value {
    let reasons = codes.iter().map(|code| json!({ "Code": code })).collect::<Vec<_>>();
    json!({
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "CancellationReasons": reasons,
    })
}

fn put(sk: &str) -> Value {
    json!({ "Put": { "TableName": MAIN, "Item": item("a", sk) } })
}

fn get(pk: &str, sk: &str) -> Value {
    json!({ "Get": { "TableName": MAIN, "Key": item(pk, sk) } })
}

/// What is acknowledged after its lease may have been written to where nobody looks any more (invariant I6).
#[tokio::test]
async fn regression_a_transaction_was_acknowledged_after_its_lease() {
    let stack = Stack::start().await;
    let body = json!({ "TransactItems": [put("1")] }).to_string();
    let server = Canned::start([Reply::new(200, json!({})).late()]).await;
    let service = stack.in_front_of(&server.url);
    let (status, answer) = ask(&service, "TransactWriteItems", body.as_bytes()).await;
    assert_eq!((status, server.asked().len()), (500, 1), "{answer}");
    // What was not carried out is sent again.
    let refused = Reply::new(400, cancelled(&["ConditionalCheckFailed"])).late();
    let server = Canned::start([refused, Reply::new(200, json!({}))]).await;
    let service = stack.in_front_of(&server.url);
    let (status, answer) = ask(&service, "TransactWriteItems", body.as_bytes()).await;
    assert_eq!((status, server.asked().len()), (200, 2), "{answer}");
    stack.database.shutdown().await;
}

/// Of leases of one age that of the last action counted, however much longer its term was.
#[tokio::test]
async fn regression_a_transaction_over_two_tables_stood_on_one_lease() {
    let stack = Stack::start().await;
    let mut other = put("1");
    other["Put"]["TableName"] = json!(OTHER);
    let body = json!({ "TransactItems": [put("1"), other] }).to_string();
    let server = Canned::start([Reply::new(200, json!({})).late()]).await;
    let two_centuries = Duration::from_hours(200 * 365 * 24);
    let service = stack.in_front_of_two(&server.url, two_centuries).await;
    let (status, answer) = ask(&service, "TransactWriteItems", body.as_bytes()).await;
    assert_eq!((status, server.asked().len()), (500, 1), "{answer}");
    stack.database.shutdown().await;
}

#[tokio::test]
async fn a_transaction_over_managed_and_other_tables_is_carried_out_as_a_whole_or_not_at_all() {
    let stack = Stack::start().await;
    let at_other = |form: &str, mut action: Value| {
        action[form]["TableName"] = OTHER.into();
        action
    };
    let put_other = |sk: &str| at_other("Put", put(sk));
    let write = async |actions: Value| {
        let (status, answer) =
            stack.ask("TransactWriteItems", json!({ "TransactItems": actions })).await;
        let reasons = answer["CancellationReasons"].as_array().cloned().unwrap_or_default();
        let codes = reasons.iter().filter_map(|reason| Some(reason["Code"].as_str()?.to_owned()));
        (status, codes.collect::<Vec<_>>())
    };
    assert_eq!(write(json!([put("1"), put_other("1")])).await, (200, Vec::new()));
    let mut taken = put("1");
    taken["Put"]["ConditionExpression"] = json!("attribute_not_exists(pk)");
    let mut taken_other = put_other("1");
    taken_other["Put"]["ConditionExpression"] = json!("attribute_not_exists(pk)");
    let refused = |codes: [&str; 2]| (400, codes.map(str::to_owned).to_vec());
    let of_managed = write(json!([put_other("2"), taken])).await;
    assert_eq!(of_managed, refused(["None", "ConditionalCheckFailed"]));
    let of_other = write(json!([taken_other, put("2")])).await;
    assert_eq!(of_other, refused(["ConditionalCheckFailed", "None"]));

    let gets = ["1", "2"].map(|sk| [get("a", sk), at_other("Get", get("a", sk))]);
    let body = json!({ "TransactItems": gets.as_flattened() });
    let (_, answer) = stack.ask("TransactGetItems", body).await;
    let there = json!({ "Item": item("a", "1") });
    assert_eq!(answer, json!({ "Responses": [there, there, {}, {}] }));
    let others = stack.plain().await.scan().table_name(OTHER).send().await.expect("a page");
    let names = others.items().iter().flat_map(|item| item.keys());
    assert_eq!(names.filter(|name| name.starts_with("_ds_")).count(), 0);
    stack.database.shutdown().await;
}

/// DynamoDB has raised the number before, and what it takes it would carry out without a guard.
#[tokio::test]
async fn regression_transactions_above_the_limit_were_passed_on() {
    let stack = Stack::start().await;
    let puts = (0..101).map(|n| put(&n.to_string())).collect::<Vec<_>>();
    let gets = (0..101).map(|n| get("a", &n.to_string())).collect::<Vec<_>>();
    for (operation, actions) in [("TransactWriteItems", puts), ("TransactGetItems", gets)] {
        let (status, answer) = stack.ask(operation, json!({ "TransactItems": actions })).await;
        let message = answer["message"].as_str().unwrap_or_default();
        let says = message.ends_with("length less than or equal to 100");
        assert!(status == 400 && says, "{answer}");
        assert_eq!(stack.database.counters().requests(MAIN, operation), 0);
    }
    stack.database.shutdown().await;
}

#[tokio::test]
async fn regression_what_was_read_of_a_key_that_was_not_understood_was_handed_out() {
    let stack = Stack::start().await;
    let found = json!({ "Responses": [{ "Item": { "pk": { "S": "a" }, "_ds_v": { "N": "1" } } }] });
    let server = Canned::start([Reply::new(200, found)]).await;
    let service = stack.in_front_of(&server.url);
    let mut get = get("a", "1");
    get["Get"]["Key"]["pk"] = json!({ "N": "1" });
    let body = json!({ "TransactItems": [get] }).to_string();
    let (status, answer) = ask(&service, "TransactGetItems", body.as_bytes()).await;
    assert_eq!(status, 500, "{answer}");
    stack.database.shutdown().await;
}

/// DynamoDB shows no item of which nothing is projected. What the endpoint had it project besides is nothing to its client.
#[tokio::test]
async fn regression_an_item_of_which_a_transaction_asked_for_nothing_was_shown_empty() {
    let stack = Stack::start().await;
    let found = json!({ "Responses": [{ "Item": { "_ds_g": { "N": "0" } } }] });
    let server = Canned::start([Reply::new(200, found)]).await;
    let service = stack.in_front_of(&server.url);
    let mut get = get("a", "1");
    get["Get"]["ProjectionExpression"] = "x".into();
    let body = json!({ "TransactItems": [get] }).to_string();
    let answer = ask(&service, "TransactGetItems", body.as_bytes()).await;
    assert_eq!(answer, (200, json!({ "Responses": [{}] })));
    stack.database.shutdown().await;
}

/// DynamoDB makes no item of an update that only removes, and one with a version would make one.
#[tokio::test]
async fn regression_an_update_in_a_transaction_that_only_removes_gave_a_version_to_nothing() {
    let stack = Stack::start().await;
    stack.ask("PutItem", json!({ "TableName": MAIN, "Item": item("a", "there") })).await;
    let remove = |sk: &str| {
        let update =
            json!({ "TableName": MAIN, "Key": item("a", sk), "UpdateExpression": "REMOVE x" });
        json!({ "Update": update })
    };
    let of_some = json!([remove("there"), remove("absent"), put("new"), remove("nowhere")]);
    let of_one = json!([remove("void")]);
    // The repeat of what found no item is one.
    for (token, actions) in
        [("some", &of_some), ("some", &of_some), ("one", &of_one), ("one", &of_one)]
    {
        let body = json!({ "ClientRequestToken": token, "TransactItems": actions });
        let (status, answer) = stack.ask("TransactWriteItems", body).await;
        assert_eq!(status, 200, "{token}: {answer}");
    }
    let scanned = stack.plain().await.scan().table_name(MAIN).send().await.expect("a page");
    let versioned = scanned.items().iter().filter(|item| item.contains_key("_ds_v"));
    let mut versioned = versioned.filter_map(|item| item["sk"].as_s().ok()).collect::<Vec<_>>();
    versioned.sort();
    assert_eq!(versioned, ["new", "there"]);
    // The client's own condition is still one.
    let mut on_condition = remove("nothing");
    on_condition["Update"]["ConditionExpression"] = json!("attribute_exists(x)");
    let body = json!({ "TransactItems": [on_condition] });
    let (status, answer) = stack.ask("TransactWriteItems", body).await;
    let code = &answer["CancellationReasons"][0]["Code"];
    assert_eq!((status, code), (400, &json!("ConditionalCheckFailed")), "{answer}");
    stack.database.shutdown().await;
}

/// `Expected` took the place of the condition, which an action of a transaction does not have.
#[tokio::test]
async fn regression_an_unknown_member_of_an_action_replaced_its_condition() {
    let stack = Stack::start().await;
    let check = json!({ "ConditionCheck": {
        "TableName": MAIN, "Key": item("a", "2"), "Expected": { "x": { "Exists": false } },
        "ConditionExpression": "attribute_exists(x)",
    } });
    let mut returns = put("1");
    returns["Put"]["ReturnValues"] = json!("ALL_OLD");
    let mut legacy = get("a", "1");
    legacy["Get"]["AttributesToGet"] = json!(["x"]);
    for (operation, actions) in [
        ("TransactWriteItems", json!([put("1"), check])),
        ("TransactWriteItems", json!([returns])),
        ("TransactGetItems", json!([legacy])),
    ] {
        let (status, answer) = stack.ask(operation, json!({ "TransactItems": actions })).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains("is not known"), "{answer}");
    }
    stack.database.shutdown().await;
}

/// The guard took the place of the expression that DynamoDB requires.
#[tokio::test]
async fn regression_an_action_without_its_expression_was_carried_out() {
    let stack = Stack::start().await;
    for (form, member) in [
        ("ConditionCheck", "conditionCheck.conditionExpression"),
        ("Update", "update.updateExpression"),
    ] {
        let action = json!({ form: { "TableName": MAIN, "Key": item("a", "2") } });
        let body = json!({ "TransactItems": [put("1"), action] });
        let (status, answer) = stack.ask("TransactWriteItems", body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        let is_named = message.contains(&format!("'transactItems.2.member.{member}'"));
        assert!(status == 400 && is_named, "{answer}");
    }
    let (_, answer) = stack.ask("Scan", json!({ "TableName": MAIN })).await;
    assert_eq!(answer["Count"], 0, "{answer}");
    stack.database.shutdown().await;
}

#[tokio::test]
async fn items_of_a_key_of_several_shards_are_served_where_they_lie() {
    let mut stack = Stack::start().await;
    // The settings are pinned by the first request.
    stack.ask("GetItem", json!({ "TableName": MAIN, "Key": item("a", "1") })).await;
    let four = ShardCount::new(4).expect("a count");
    let grown =
        CollectionMetadata::stable(partition("grown"), Placement::Xxh64, four, 1_700_000_000);
    stack.list(&grown).await;
    stack.restart();
    let keys = (0..8).map(|n| item("grown", &n.to_string())).collect::<Vec<_>>();
    let puts = keys.iter().map(|key| json!({ "Put": { "TableName": MAIN, "Item": key } }));
    let body = json!({ "TransactItems": puts.collect::<Vec<_>>() });
    let (status, answer) = stack.ask("TransactWriteItems", body).await;
    assert_eq!(status, 200, "{answer}");
    let scanned = stack.plain().await.scan().table_name(MAIN).send().await.expect("a page");
    let places = scanned.items().iter().filter_map(|item| item["pk"].as_s().ok());
    let mut places = places.filter(|place| place.starts_with("grown")).collect::<Vec<_>>();
    assert_eq!(places.len(), 8);
    places.sort();
    places.dedup();
    assert!(places.len() > 1, "{places:?}");
    let gets = keys.iter().map(|key| json!({ "Get": { "TableName": MAIN, "Key": key } }));
    let body = json!({ "TransactItems": gets.collect::<Vec<_>>() });
    let (_, answer) = stack.ask("TransactGetItems", body).await;
    let items = keys.iter().map(|key| json!({ "Item": key })).collect::<Vec<_>>();
    assert_eq!(answer, json!({ "Responses": items }));
    let body = json!({ "RequestItems": { MAIN: { "Keys": keys } } });
    let (_, answer) = stack.ask("BatchGetItem", body).await;
    let mut found = answer["Responses"][MAIN].as_array().cloned().unwrap_or_default();
    found.sort_by_key(|item| item["sk"].to_string());
    assert_eq!(found, keys);
    stack.database.shutdown().await;
}
