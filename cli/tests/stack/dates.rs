//! Writes that are dated back, so that DynamoDB refuses them sooner and changes close sooner.

use dynashard_aws_operator::Caller;
use dynashard_client::{Client, Condition, InProcess};
use serde_json::json;

use crate::client::users::User;
use crate::common::{LocalStack, on, send_to};

/// A write that is dated 270 s ago lives for five seconds.
const DATED: [&str; 6] =
    ["--set", "LeaseSecs=1", "--set", "SignatureAgeSecs=270", "--set", "RequestLifetimeSecs=5"];

/// Has the endpoint take signatures that are so old.
fn take(stack: &LocalStack, secs: u32) {
    let path = "/_dynashard/signature-window";
    let answer = send_to(&stack.dynamodb, "PUT", path, &[], Some(&secs.to_string()));
    assert_eq!(answer.status, 204, "{answer:?}");
}

#[test]
fn every_write_is_dated_and_nothing_closes_where_dynamodb_takes_older_ones() {
    let stack = LocalStack::start(&DATED);
    let put = |n: usize| {
        stack.json("PUT", &format!("/item?pk=EWR&sk={n}"), &json!({ "dest": "ORD" })).status
    };
    assert_eq!(put(1), 200);
    take(&stack, 200);
    assert_eq!(stack.get("/item?pk=EWR&sk=1").status, 200, "reads are not dated");
    assert_eq!(put(2), 503, "each write is older than DynamoDB takes it now");
    take(&stack, 275);
    assert_eq!(put(2), 200);

    take(&stack, 900);
    let collection = || stack.get("/collection?pk=EWR").json();
    let asked = stack.json("PUT", "/collection?pk=EWR", &json!({ "number_of_shards": 4 }));
    assert_eq!(asked.status, 201, "{asked:?}");
    while !stack.has_metric("RebalanceFunction", "SettingsMismatch") {
        std::thread::yield_now();
    }
    assert_eq!(collection()["state"], "move");
    // Now H is what belongs to this window, and the command says so at once.
    let dates = ["SignatureAgeSecs=270", "RequestLifetimeSecs=5"];
    take(&stack, 275);
    let settings = on(&stack, &["settings", "--set", dates[0], "--set", dates[1], "--json"]);
    assert_eq!(settings.status, 0, "{settings:?}");
    assert_eq!(settings.last()["signature_age_secs"], 270);
    stack.until_at_rest("EWR", 4);
    assert_eq!(put(3), 200);
    assert_eq!(stack.query(json!({ "pk": "EWR" })).len(), 3);
}

/// Each of them has a client of its own, and dates by what the stack has pinned.
#[tokio::test(flavor = "multi_thread")]
async fn commands_and_clients_on_the_tables_date_their_writes_too() {
    let stack = tokio::task::spawn_blocking(|| LocalStack::start(&DATED)).await.expect("it starts");
    let put = |n: usize| {
        stack.json("PUT", &format!("/item?pk=EWR&sk={n}"), &json!({ "dest": "ORD" })).status
    };
    assert_eq!(put(1), 200, "the settings are pinned");
    let caller = Caller { endpoint_url: Some(stack.dynamodb.clone()), ..Caller::default() };
    let tables = InProcess::connect(&caller, "MainTable", "MetadataTable").await;
    let tables = Client::new(tables.expect("the settings are pinned"));
    let user = User {
        tenant_id: "abc".to_owned(),
        id: "u00".to_owned(),
        email: "u00@example.com".to_owned(),
        logins: 0,
    };
    let key = User::item_key_of("abc", "u00").expect("a key");
    let directory = tempfile::tempdir().expect("a directory");
    let rows = directory.path().join("rows.jsonl");
    std::fs::write(&rows, "{\"pk\":\"EWR\",\"sk\":\"2\"}\n").expect("it is written");
    let rows = rows.to_str().expect("UTF-8");

    take(&stack, 200);
    assert!(tables.put(&user).await.is_err(), "it is older than DynamoDB takes it now");
    assert_eq!(tables.get_consistent::<User>(&key).await.expect("it reads"), None);
    assert!(tables.delete(&key, &Condition::None).await.is_err());
    assert_ne!(on(&stack, &["import", rows]).status, 0);
    assert_eq!(stack.get("/item?pk=EWR&sk=2").status, 404);

    take(&stack, 275);
    tables.put(&user).await.expect("it is as old as DynamoDB takes it");
    tables.delete(&key, &Condition::None).await.expect("it is as old as DynamoDB takes it");
    let imported = on(&stack, &["import", rows]);
    assert_eq!(imported.status, 0, "{imported:?}");
    assert_eq!(stack.get("/item?pk=EWR&sk=2").status, 200);
}
