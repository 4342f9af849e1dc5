//! A `ClientRequestToken` executes its transaction once.

use super::*;
use crate::clock::Clock;

fn add(token: &str, by: u32) -> Value {
    json!({
        "ClientRequestToken": token,
        "TransactItems": [{ "Update": {
            "TableName": "First", "Key": { "pk": { "S": "counter" } },
            "UpdateExpression": "ADD n :by",
            "ExpressionAttributeValues": { ":by": { "N": by.to_string() } },
        } }],
    })
}

async fn counted(rig: &Rig) -> Value {
    let get = json!({ "TableName": "First", "Key": { "pk": { "S": "counter" } } });
    rig.ok("GetItem", get).await["Item"]["n"]["N"].clone()
}

/// The time of signing that the clock shows.
fn signed_now(rig: &Rig) -> String {
    httpdate::fmt_http_date(rig.clock.now())
}

#[tokio::test]
async fn a_repeated_transaction_is_executed_once_within_ten_minutes() {
    let rig = Rig::start().await;
    for _ in 0..3 {
        assert_eq!(rig.ok("TransactWriteItems", add("a", 1)).await, json!({}));
    }
    assert_eq!(counted(&rig).await, "1");
    rig.ok("TransactWriteItems", add("b", 1)).await;
    assert_eq!(counted(&rig).await, "2");
    let writes = rig.endpoint.counters().tables["First"]["TransactWriteItems"];
    assert_eq!((writes.requests, writes.consumed_wcu), (2, 4.0));

    let (error, _) = rig.refused("TransactWriteItems", add("a", 5)).await;
    assert_eq!(error, "IdempotentParameterMismatchException");
    assert_eq!(counted(&rig).await, "2");

    rig.clock.advance(Duration::from_mins(10));
    let body = add("a", 5).to_string();
    let (parts, answer) = rig.send("TransactWriteItems", &body, &signed_now(&rig)).await;
    assert_eq!(parts.status, StatusCode::OK, "{answer}");
    assert_eq!(counted(&rig).await, "7");
    rig.stop().await;
}

#[tokio::test]
async fn many_at_once_with_one_token_are_one() {
    let rig = Arc::new(Rig::start().await);
    let sent: Vec<_> = (0..20)
        .map(|_| {
            let rig = Arc::clone(&rig);
            tokio::spawn(async move { rig.ok("TransactWriteItems", add("a", 1)).await })
        })
        .collect();
    for answer in sent {
        answer.await.expect("no panic");
    }
    assert_eq!(counted(&rig).await, "1");
    Arc::into_inner(rig).expect("all were answered").stop().await;
}

#[tokio::test]
async fn a_transaction_that_did_not_succeed_may_be_sent_again() {
    let rig = Rig::throttling().await;
    rig.ok("CreateTable", table("First").create_request).await;
    let hot = json!({ "TableName": "First", "Item": { "pk": { "S": "counter" } } });
    assert_eq!(rig.drain("PutItem", &hot).await, 10);
    let (error, _) = rig.refused("TransactWriteItems", add("a", 1)).await;
    assert_eq!(error, "TransactionCanceledException", "throttled");
    rig.clock.advance(Duration::from_secs(1));
    rig.ok("TransactWriteItems", add("a", 1)).await;
    assert_eq!(counted(&rig).await, "1");

    let mut conditional = add("b", 1);
    conditional["TransactItems"][0]["Update"]["ConditionExpression"] = json!("n = :by");
    rig.ok("TransactWriteItems", conditional.clone()).await;
    conditional["ClientRequestToken"] = json!("c");
    for _ in 0..2 {
        rig.refused("TransactWriteItems", conditional.clone()).await;
    }
    assert_eq!(counted(&rig).await, "2");
    rig.stop().await;
}
