//! The real command, the real functions and the real engine, from outside.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::{End, LocalStack, dynashard, is_running};

const JSON: (&str, &str) = ("content-type", "application/json");

#[test]
fn an_item_lives_its_life() {
    let stack = LocalStack::start(&[]);
    let path = "/item?pk=a%2Fb%231&sk=s%20k";

    assert_eq!(stack.get(path).code(), "item_not_found");
    assert_eq!(stack.get("/collection?pk=a%2Fb%231").code(), "collection_not_found");

    let put = stack.json("PUT", path, &json!({ "flight": 1545, "note": null }));
    assert_eq!((put.status, put.json()), (200, json!({ "pk": "a/b#1", "sk": "s k", "shard": 0 })));
    let got = stack.get(&format!("{path}&consistent=true"));
    assert_eq!(got.json(), json!({ "pk": "a/b#1", "sk": "s k", "flight": 1545, "note": null }));
    assert_eq!(got.etag, put.etag);

    let etag = put.etag.expect("an etag");
    let headers = [JSON, ("if-match", etag.as_str())];
    let patched = stack.send("PATCH", path, &headers, Some(r#"{"note":"late","flight":null}"#));
    assert_eq!(patched.status, 200, "{patched:?}");
    let again = stack.send("PATCH", path, &headers, Some("{}"));
    assert_eq!((again.status, again.code().as_str()), (412, "precondition_failed"));
    assert_eq!(stack.get(path).json(), json!({ "pk": "a/b#1", "sk": "s k", "note": "late" }));
    let create = stack.send("PUT", path, &[JSON, ("if-none-match", "*")], Some("{}"));
    assert_eq!(create.status, 412);

    let head = stack.send("HEAD", path, &[], None);
    assert_eq!(
        (head.status, head.etag.as_ref(), head.body.as_str()),
        (200, patched.etag.as_ref(), "")
    );
    let etag = head.etag.expect("an etag");
    for method in ["GET", "HEAD"] {
        let known = stack.send(method, path, &[("if-none-match", &etag)], None);
        assert_eq!((known.status, known.body.as_str()), (304, ""), "{method}: {known:?}");
        let other = [("if-match", r#""0000000000000000""#)];
        assert_eq!(stack.send(method, path, &other, None).status, 412, "{method}");
    }
    assert_eq!(stack.get("/item?pk=%zz&sk=1").code(), "bad_parameter");

    let collection = stack.get("/collection?pk=a%2Fb%231").json();
    assert_eq!(
        (&collection["number_of_shards"], &collection["state"]),
        (&json!(1), &json!("stable"))
    );
    assert_eq!(stack.send("DELETE", path, &[], None).status, 204);
    assert_eq!(stack.send("DELETE", path, &[], None).status, 204);
    assert_eq!(stack.get(path).status, 404);
}

/// Percent-encoded and beside a session token, such a key exceeds what API Gateway takes of request line and headers.
#[test]
fn regression_an_item_with_the_longest_keys_could_not_be_patched_through_the_gateway() {
    let stack = LocalStack::start(&[]);
    let (pk, sk) = ("é".repeat(1_000), "é".repeat(512));
    let encoded = |text: &str| text.replace('é', "%C3%A9");
    let path = format!("/item?pk={}&sk={}", encoded(&pk), encoded(&sk));
    let token = "t".repeat(1_200);
    let token = ("x-amz-security-token", token.as_str());
    for method in ["GET", "PUT", "PATCH", "DELETE"] {
        let refused = stack.send(method, &path, &[JSON, token], Some("{}"));
        assert_eq!(refused.status, 431, "{method}: {refused:?}");
    }

    let send = |name: &str, headers: &[(&str, &str)], beside: Value| {
        let mut body = json!({ "pk": pk, "sk": sk });
        body.as_object_mut().expect("an object").extend(beside.as_object().cloned().expect("one"));
        let headers = [&[JSON, token], headers].concat();
        stack.send("POST", &format!("/item/{name}"), &headers, Some(&body.to_string()))
    };
    let create = ("if-none-match", "*");
    let put = send("put", &[create], json!({ "item": { "a": 1, "b": 2 } }));
    assert_eq!((put.status, &put.json()["pk"]), (200, &json!(pk)), "{put:?}");
    assert_eq!(send("put", &[create], json!({ "item": {} })).code(), "precondition_failed");
    let etag = put.etag.expect("an etag");
    let patched = send("patch", &[("if-match", &etag)], json!({ "patch": { "b": null } }));
    assert_eq!(patched.status, 200, "{patched:?}");
    let stale = send("delete", &[("if-match", &etag)], json!({}));
    assert_eq!(stale.code(), "precondition_failed");
    let got = send("get", &[], json!({ "consistent": true }));
    assert_eq!(got.json(), json!({ "pk": pk, "sk": sk, "a": 1 }));
    assert_eq!(got.etag, patched.etag);
    assert_eq!(send("delete", &[], json!({})).status, 204);
    assert_eq!(send("get", &[], json!({})).code(), "item_not_found");
}

#[test]
fn a_pre_sharded_collection_comes_back_in_order() {
    let set = ["SortKeyType=N", "PartitionKeyName=sensor", "LeaseSecs=1", "RequestLifetimeSecs=2"];
    let stack = LocalStack::start(&set.map(|setting| ["--set", setting]).concat());
    let created = stack.json(
        "PUT",
        "/collection?pk=hot",
        &json!({ "placement": "jump", "number_of_shards": 5 }),
    );
    assert_eq!(
        (created.status, &created.json()["number_of_shards"]),
        (201, &json!(5)),
        "{created:?}"
    );
    assert_eq!(stack.json("PUT", "/collection?pk=hot", &json!({})).code(), "collection_exists");
    stack.until_at_rest("hot", 5);

    let numbers = (-150..150).map(|n| json!(f64::from(n) / 4.0)).collect::<Vec<_>>();
    let puts = numbers.iter().map(|n| json!({ "pk": "hot", "sk": n, "item": { "n": n } }));
    let written = stack.json("POST", "/batch-write", &json!({ "puts": puts.collect::<Vec<_>>() }));
    assert_eq!(written.json(), json!({ "written": 300, "unprocessed": [] }));

    let page = stack.json("POST", "/query", &json!({ "pk": "hot", "limit": 1 })).json();
    assert_eq!((&page["shards"], page["cursor"].is_string()), (&json!(5), true), "{page}");
    for (order, strategy) in [
        ("asc", "ordered"),
        ("desc", "ordered"),
        ("asc", "parallel"),
        ("desc", "round-robin"),
        ("asc", "sequential"),
    ] {
        let query = json!({ "pk": "hot", "order": order, "strategy": strategy, "limit": 37 });
        let items = stack.query(query);
        let mut read =
            items.iter().map(|item| item["sk"].as_f64().expect("a number")).collect::<Vec<_>>();
        let mut expected = numbers.iter().filter_map(Value::as_f64).collect::<Vec<_>>();
        match (order, strategy) {
            ("desc", "ordered") => expected.reverse(),
            (_, "ordered") => {}
            _ => read.sort_by(f64::total_cmp),
        }
        assert_eq!(read, expected, "{strategy} {order}");
    }
    let keys = json!({ "keys": [{ "pk": "hot", "sk": 1 }, { "pk": "hot", "sk": 1000 }] });
    let got = stack.json("POST", "/batch-get", &keys).json();
    let items = json!([{ "sensor": "hot", "sk": 1, "n": 1 }]);
    let expected =
        json!({ "items": items, "unprocessed": [], "items_read": 1, "consumed_rcu": 1.0 });
    assert_eq!(got, expected);
    let part = stack.json("GET", "/item?pk=hot&sk=1&fields=absent", &Value::Null);
    assert_eq!((part.status, part.json()), (200, json!({ "sensor": "hot", "sk": 1 })));
}

#[test]
fn a_steady_put_is_one_request() {
    let stack = LocalStack::start(&["--set", "LeaseSecs=60"]);
    // The sweep, too, reads the directory.
    stack.until_swept();
    let put =
        |sk: &str| stack.json("PUT", &format!("/item?pk=hot&sk={sk}"), &json!({ "n": 1 })).status;
    assert_eq!(put("first"), 200);
    let count =
        || (stack.requests("MainTable", "PutItem"), stack.requests("MetadataTable", "GetItem"));
    let (puts, reads) = count();
    // So few that even a busy machine writes them before the lease is to be renewed.
    for n in 0..20 {
        assert_eq!(put(&n.to_string()), 200);
    }
    assert_eq!(count(), (puts + 20, reads), "one request a put, and no metadata read");
}

#[test]
fn nothing_acknowledged_is_lost_when_the_stack_is_killed() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let data = data.to_str().expect("a path");

    let stack = LocalStack::start(&["--data-dir", data]);
    let environments = stack.all_environments();
    assert_eq!(environments.len(), 3);
    for n in 0..50 {
        let put = stack.json("PUT", &format!("/item?pk=p&sk={n:03}"), &json!({ "n": n }));
        assert_eq!(put.status, 200);
    }
    let ends = environments.iter().map(|pid| End::of(*pid)).collect::<Vec<_>>();
    stack.end(Signal::KILL);
    // The bootstraps lose their Runtime API, and with it their reason to run.
    assert!(ends.iter().all(End::wait), "bootstraps outlive the stack");

    let stack = LocalStack::start(&["--data-dir", data]);
    let page = stack.get("/query?pk=p&limit=1000").json();
    let read = page["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| item["n"].clone())
        .collect::<Vec<_>>();
    assert_eq!(read, (0..50).map(Value::from).collect::<Vec<_>>());

    let (status, _, _) = stack.end(Signal::TERM);
    assert!(status.success());
}

#[test]
fn an_interrupt_leaves_no_process_behind() {
    let stack = LocalStack::start(&[]);
    let environments = stack.all_environments();
    assert!(environments.iter().all(|pid| is_running(*pid)));
    let (status, stdout, _) = stack.end(Signal::INT);
    assert!(status.success(), "{status}");
    assert_eq!(stdout, "", "stdout holds the ready line alone");
    assert!(environments.iter().all(|pid| !is_running(*pid)));
}

#[test]
fn what_keeps_a_stack_from_starting_is_said_in_one_line() {
    let stack = LocalStack::start(&[]);
    let port = stack.api.rsplit(':').next().expect("a port");
    let local = |args: &[&str]| {
        let free = ["local", "--dynamodb-port", "0", "--lambda-port", "0"];
        dynashard(&[&free, args].concat())
    };
    assert_refused(local(&["--port", port]), &[port, "--port"]);
    assert_refused(local(&["--port", "0", "--set", "NoSuch=1"]), &["NoSuch"]);
    assert_refused(local(&["--port", "0", "--template", "no-such.yaml"]), &["no-such.yaml"]);
}

#[track_caller]
fn assert_refused(mut command: std::process::Command, says: &[&str]) {
    let output = command.output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let line = stderr.lines().rev().find(|line| line.starts_with("dynashard: "));
    let line = line.unwrap_or_else(|| panic!("no line of its own: {stderr}"));
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
    for part in says {
        assert!(line.contains(part), "{line:?} does not say {part:?}");
    }
}
