//! Writes that are dated back, so that DynamoDB refuses them sooner and changes close sooner.

use serde_json::json;

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
