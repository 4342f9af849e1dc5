//! Settings that are pinned: functions and commands that differ do nothing, and T changes by a command.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::cloudformation::CloudFormation;
use crate::common::{Answer, LocalStack, Ran, on};

fn start(data: &str, lease_secs: u32) -> LocalStack {
    let lease = format!("LeaseSecs={lease_secs}");
    let settings = ["--set", lease.as_str(), "--set", "RequestLifetimeSecs=2"];
    LocalStack::start(&[&["--data-dir", data], &settings[..]].concat())
}

fn put(stack: &LocalStack) -> Answer {
    stack.json("PUT", "/item?pk=EWR&sk=1", &json!({ "dest": "ORD" }))
}

/// What is pinned of T, as the command shows it.
fn lease_secs(shown: &Ran) -> Value {
    assert_eq!(shown.status, 0, "{shown:?}");
    shown.last()["lease_secs"].clone()
}

#[test]
fn whoever_differs_does_nothing_until_the_settings_are_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().to_str().expect("UTF-8");
    let stack = start(data, 1);
    assert_eq!(put(&stack).status, 200);
    assert_eq!(
        lease_secs(&on(&stack, &["settings", "--json"])),
        json!({"accepted":1,"next":null,"longest":1})
    );
    let differs = on(&stack, &["verify", "--pk", "EWR", "--lease-secs", "2", "--separator", "_"]);
    for part in ["settings_mismatch", "Separator is _, pinned is #~", "LeaseSecs is 2, pinned is 1"]
    {
        assert!(differs.stderr.contains(part), "{differs:?}");
    }
    stack.end(Signal::TERM);

    let stack = start(data, 2);
    let refused = put(&stack);
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (503, "settings_mismatch"),
        "{refused:?}"
    );
    assert!(refused.body.contains("LeaseSecs is 2, pinned is 1"), "{refused:?}");
    assert_eq!(stack.get("/item?pk=EWR&sk=1").status, 503, "what it reads might be out of date");
    let announced = on(&stack, &["settings", "--set", "LeaseSecs=2", "--json"]);
    assert_eq!(lease_secs(&announced), json!({"accepted":1,"next":2,"longest":2}));
    assert!(announced.stderr.contains("--deployed"), "{announced:?}");
    // For a second the function does not look again.
    let mut puts = std::iter::repeat_with(|| put(&stack).status).take(10_000);
    assert!(puts.any(|status| status == 200), "both are accepted");
    let changed = on(&stack, &["settings", "--set", "LeaseSecs=2", "--deployed", "--json"]);
    assert_eq!(lease_secs(&changed), json!({"accepted":2,"next":null,"longest":2}));
    let scaled = on(&stack, &["scale", "--pk", "EWR", "--shards", "4"]);
    assert_eq!(scaled.status, 0, "{scaled:?}");
}

#[test]
fn a_change_waits_for_the_stack_and_can_be_refused() {
    let stack = LocalStack::start(&["--set", "LeaseSecs=2", "--set", "RequestLifetimeSecs=2"]);
    assert_eq!(put(&stack).status, 200);
    // As CloudFormation shows it when the stack has been deployed.
    let cloudformation = CloudFormation::start(&[("LeaseSecs", "1"), ("RequestLifetimeSecs", "2")]);
    let settings = |more: &[&str]| {
        let args = ["settings", "--stack-name", "dynashard", "--json"];
        cloudformation.run(&stack, &[&args, more].concat())
    };
    let changed = settings(&["--set", "LeaseSecs=1"]);
    assert_eq!(lease_secs(&changed), json!({"accepted":1,"next":null,"longest":1}));
    assert_eq!(put(&stack).code(), "settings_mismatch", "it was deployed with the old value");
    for (change, why) in [
        ("LeaseSecs=0", "between 1 and 60 seconds"),
        ("LeaseSecs=61", "between 1 and 60 seconds"),
        ("RequestLifetimeSecs=2000", "between 1 and 1800 seconds"),
        ("Separator=_", "Separator cannot be changed"),
        ("LeaseSecs", "NAME=SECS"),
    ] {
        let refused = settings(&["--set", change]);
        assert_ne!(refused.status, 0, "{change}");
        assert!(refused.stderr.contains(why), "{refused:?}");
    }
}
