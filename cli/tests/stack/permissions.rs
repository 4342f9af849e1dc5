//! Least privilege: each function gets by with what its role allows, and uses all of it.
//!
//! The local stack holds the functions to the roles of the template. So a permission that is missing
//! fails here, and so does one that nothing uses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::LocalStack;

/// What the template grants and no test can use, each with the reason.
const NOT_USED_HERE: [(&str, &str, &str); 5] = [
    (
        "RebalanceRole",
        "sqs:SendMessage",
        "Lambda tells the queue of records that failed until they were given up, for which a function has \
         to fail",
    ),
    (
        "ScaleRole",
        "dynamodb:PutItem",
        "the function that acts first names the owner of the main table, and here another one does",
    ),
    (
        "ScaleRole",
        "dynamodb:Query",
        "only a collection with epochs is asked for its items, when it shrinks or they are many",
    ),
    (
        "WriteRole",
        "dynamodb:DescribeTable",
        "a writer looks at the indexes when a partition of one throttles, and before a log grows: tests of their own have that",
    ),
    (
        "WriteRole",
        "dynamodb:Query",
        "a writer counts what lies before the last writes if their keys are in order: the test of a large log has that",
    ),
];

/// The actions that may be granted for every resource, since they take none. By AWS's Service
/// Authorization Reference no permission for them can be narrower.
const TAKE_NO_RESOURCE: [&str; 3] =
    ["cloudwatch:GetMetricData", "xray:PutTelemetryRecords", "xray:PutTraceSegments"];

/// The actions on its key that DynamoDB needs in a caller's name, as the key policies in AWS's pages on encryption at
/// rest list them.
const FAMILIES: [&str; 2] = ["kms:GenerateDataKey*", "kms:ReEncrypt*"];

/// Batches to a hot key before the test gives up on its growth.
const MOST_BATCHES: usize = 60;

/// Rounds of work before the test gives up, and looks at a collection before a round does.
const MOST_ROUNDS: usize = 4;
const MOST_LOOKS: usize = 600;
const PAUSE: Duration = Duration::from_millis(50);

/// How often each role used each action, over all stacks.
type Used = BTreeMap<(String, String, String), u64>;

#[test]
fn every_permission_is_enough_and_none_is_too_much() {
    let mut used = Used::new();
    requests_and_reshards(&mut used);
    alarms_and_schedules(&mut used);
    let unused = unused(&used);
    assert!(unused.is_empty(), "nothing uses these permissions: {unused:#?}");
    for (role, action, reason) in NOT_USED_HERE {
        let is_granted = |(of, _, granted): &(String, String, String)| {
            (of.as_str(), granted.as_str()) == (role, action)
        };
        assert!(used.keys().any(is_granted), "{role} has no {action} any more: {reason}");
    }
}

/// Whatever the parameters add is in what is read here: all of them are set.
#[test]
fn every_resource_is_named_unless_an_action_takes_none() {
    let key = "EncryptionKey=arn:aws:kms:us-east-1:123456789012:key/0";
    let all = [
        "CapacityScaling=function",
        "BillingMode=PROVISIONED",
        "ShrinkMode=on",
        "Tracing=xray",
        key,
    ];
    let all = all.iter().flat_map(|setting| ["--set", setting]);
    let stack = LocalStack::start(&all.collect::<Vec<_>>());
    let permissions = stack.permissions();
    let mut wide = BTreeSet::new();
    for (role, statement) in statements(&permissions) {
        let resources = statement["resources"].as_array().expect("a list");
        for (action, _) in statement["actions"].as_object().expect("actions") {
            let is_family = FAMILIES.contains(&action.as_str());
            assert_eq!(action.contains('*'), is_family, "{role} has {action}");
            assert!(!["dynamodb:Scan", "dynamodb:BatchWriteItem"].contains(&action.as_str()));
            let is_listed = TAKE_NO_RESOURCE.contains(&action.as_str());
            let is_wide = resources.iter().any(|resource| resource == "*");
            assert_eq!(is_wide, is_listed, "{role} has {action} on {resources:?}");
            wide.extend(is_wide.then(|| action.clone()));
        }
    }
    assert!(wide.iter().eq(TAKE_NO_RESOURCE), "{wide:?}");
}

/// The routes, and collections that grow and shrink below their clients.
fn requests_and_reshards(used: &mut Used) {
    let index = ["FirstIndexName=by-country", "FirstIndexPartitionKey=country"];
    let set = [&["MoverWriteUnits=100"][..], &index].concat();
    let stack = stack(&set, &["--partition-wcu", "50"]);
    // More than one partition takes: a writer reports it, and begins the growth.
    for batch in 0..MOST_BATCHES {
        let puts =
            (0..150).map(|n| json!({ "pk": "hot", "sk": format!("{batch}-{n}"), "item": {} }));
        stack.put_all(puts);
        if stack.get("/collection?pk=hot").json()["state"] != "stable" {
            break;
        }
    }
    for round in 0..MOST_ROUNDS {
        let created = stack.json(
            "PUT",
            &format!("/collection?pk=new-{round}"),
            &json!({ "number_of_shards": 2 }),
        );
        assert_eq!(created.status, 201, "{created:?}");
        let counted = stack.json("POST", "/counter?pk=hot&sk=n", &json!({ "add": 1 }));
        assert_eq!(counted.status, 200, "{counted:?}");
        let indexed = stack.get("/query?index=by-country&pk=DE");
        assert_eq!(indexed.status, 200, "{indexed:?}");
        let pk = format!("moving-{round}");
        let keys = (0..120).map(|n| format!("{n:03}")).collect::<Vec<_>>();
        stack.put_all(keys.iter().map(|sk| json!({ "pk": pk, "sk": sk, "item": { "n": 1 } })));
        for shards in [4, 2] {
            let scale = format!("/collection/scale?pk={pk}");
            let scaled = stack.json("POST", &scale, &json!({ "number_of_shards": shards }));
            assert_eq!(scaled.status, 202, "{scaled:?}");
            assert!(until(&stack, &pk, |state| state != "forward"), "{pk} does not move");
            for sk in &keys {
                touch(&stack, &pk, sk);
            }
            assert!(until(&stack, &pk, |state| state == "stable"), "{pk} moves for ever");
        }
        let read = json!({ "keys": keys.iter().map(|sk| json!({ "pk": pk, "sk": sk })).take(50).collect::<Vec<_>>() });
        assert_eq!(stack.json("POST", "/batch-get", &read).status, 200);
        let most_of = ["ReadRole", "WriteRole", "RebalanceRole"];
        let seen = collect(&stack, &Used::new());
        if unused(&seen).iter().all(|(role, _, _)| !most_of.contains(&role.as_str())) {
            break;
        }
    }
    *used = collect(&stack, used);
}

/// Does everything to an item that may be at its old home, at its new one, or at both.
fn touch(stack: &LocalStack, pk: &str, sk: &str) {
    let path = format!("/item?pk={pk}&sk={sk}");
    let is_fine = |status: u16| matches!(status, 200 | 204 | 404 | 429 | 503 | 504);
    let key = json!({ "pk": pk, "sk": sk });
    let number = sk.parse::<u32>().expect("a number");
    let answer = match number % 6 {
        0 => stack.get(&format!("{path}&consistent=true")),
        1 => stack.json("PUT", &path, &json!({ "n": 2 })),
        2 => stack.json("PATCH", &path, &json!({ "m": 2 })),
        3 => stack.json("POST", "/batch-get", &json!({ "keys": [key] })),
        4 => stack.get(&format!("/query?pk={pk}&from={sk}&limit=2")),
        _ => stack.json("POST", "/query", &json!({ "pk": pk, "from": sk, "limit": 2 })),
    };
    assert!(is_fine(answer.status), "{path}: {answer:?}");
    if number % 6 == 1 {
        // Now it may be at both: what follows has to remove it from the old one, or leaves that to the mover.
        let next = match number % 5 {
            0 | 1 => stack.send("DELETE", &path, &[], None),
            2 | 3 => stack.json("PATCH", &path, &json!({ "m": 3 })),
            _ => stack.get(&path),
        };
        assert!(is_fine(next.status), "{path}: {next:?}");
    }
}

/// Throttles of a partition and of the table, on which only alarms and schedules act.
fn alarms_and_schedules(used: &mut Used) {
    let set = [
        "WriterScaling=off",
        "CapacityScaling=function",
        "BillingMode=PROVISIONED",
        "WriteCapacityUnits=100",
        "ReadCapacityUnits=100",
        "ShrinkMode=on",
    ];
    let limits = ["--partition-wcu", "40", "--burst-secs", "1", "--alarm-period-secs", "2"];
    let stack = stack(&set, &limits);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for client in 0..4 {
            let (stack, is_over) = (&stack, &is_over);
            scope.spawn(move || {
                for batch in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let puts = (0..40).map(|n| {
                        // One key that is hot, and more keys than the table has units for.
                        let pk = if n % 2 == 0 {
                            "hot".to_owned()
                        } else {
                            format!("{client}-{batch}-{n}")
                        };
                        json!({ "pk": pk, "sk": format!("{client}-{batch}-{n}"), "item": {} })
                    });
                    stack.json(
                        "POST",
                        "/batch-write",
                        &json!({ "puts": puts.collect::<Vec<_>>() }),
                    );
                }
            });
        }
        for _ in 0..MOST_LOOKS {
            stack.run_schedule();
            let seen = collect(&stack, &Used::new());
            if unused(&seen).iter().all(|(role, _, _)| role != "ScaleRole") {
                break;
            }
            thread::sleep(PAUSE);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    *used = collect(&stack, used);
}

fn stack(set: &[&str], args: &[&str]) -> LocalStack {
    let common = ["LeaseSecs=1", "RequestLifetimeSecs=2", "CooldownSecs=0"];
    let set = common.iter().chain(set).flat_map(|setting| ["--set", setting]);
    LocalStack::start(&set.chain(args.iter().copied()).collect::<Vec<_>>())
}

/// Waits until a collection is in such a state.
fn until(stack: &LocalStack, pk: &str, is_reached: impl Fn(&str) -> bool) -> bool {
    (0..MOST_LOOKS).any(|_| {
        let answer = stack.get(&format!("/collection?pk={pk}"));
        let is =
            answer.status == 200 && is_reached(answer.json()["state"].as_str().expect("a state"));
        if !is {
            thread::sleep(PAUSE);
        }
        is
    })
}

/// Adds what the roles of a stack have used so far, and checks that nothing was denied.
fn collect(stack: &LocalStack, before: &Used) -> Used {
    let permissions = stack.permissions();
    assert_eq!(permissions["denied"], json!([]), "functions lack permissions");
    let mut used = before.clone();
    for (role, statement) in statements(&permissions) {
        let sid = statement["sid"].as_str().expect("every statement has a name");
        for (action, found) in statement["actions"].as_object().expect("actions") {
            if found["unchecked"].is_null() {
                let key = (role.to_owned(), sid.to_owned(), action.clone());
                *used.entry(key).or_default() += found["used"].as_u64().expect("a count");
            }
        }
    }
    used
}

fn statements(permissions: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let roles = permissions["roles"].as_array().expect("roles").iter();
    roles.flat_map(|role| {
        let name = role["role"].as_str().expect("a name");
        role["statements"].as_array().expect("statements").iter().map(move |it| (name, it))
    })
}

fn unused(used: &Used) -> BTreeSet<(String, String, String)> {
    let is_excused = |role: &str, action: &str| {
        NOT_USED_HERE.iter().any(|(of, granted, _)| (*of, *granted) == (role, action))
    };
    let never =
        used.iter().filter(|((role, _, action), times)| **times == 0 && !is_excused(role, action));
    never.map(|(key, _)| key.clone()).collect()
}
