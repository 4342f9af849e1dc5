//! Counters on a stack: their life, and what becomes of one that is asked for far more than a partition takes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::json;

use crate::common::LocalStack;

/// What each partition of the stack takes, in write units a second.
const PARTITION_WCU: &str = "5";

/// So many cells the counter is to get.
const CELLS: u64 = 32;

const CLIENTS: usize = 16;

/// How often a client adds before it gives up.
const MOST_ADDS: u32 = 10_000;

#[test]
fn a_counter_lives_its_life() {
    let stack = LocalStack::start(&[]);
    let path = "/counter?pk=EWR&sk=seats";
    let add = |body| stack.json("POST", path, &body);
    assert_eq!(stack.get(path).code(), "item_not_found");
    assert_eq!(add(json!({ "add": 1.5 })).code(), "bad_body");
    assert_eq!(add(json!({ "add": 151, "min": 0, "max": 150 })).code(), "counter_limit");
    let made = add(json!({ "add": 150, "min": 0, "max": 150 }));
    assert_eq!(made.json(), json!({ "pk": "EWR", "sk": "seats", "cell": 0, "cells": 1 }));
    assert_eq!(add(json!({ "add": -149 })).status, 200);
    assert_eq!(add(json!({ "add": -2 })).code(), "counter_limit");
    assert_eq!(add(json!({ "add": 1, "max": 200 })).code(), "counter_bounds");
    let value = json!({ "pk": "EWR", "sk": "seats", "value": 1, "min": 0, "max": 150, "cells": 1, "consumed_rcu": 1.0 });
    assert_eq!(stack.get(path).json(), value);

    for condition in [("If-None-Match", "*"), ("If-Match", "*")] {
        let conditional = stack.send("POST", path, &[condition], Some("{\"add\":1}"));
        assert_eq!(conditional.code(), "bad_header", "it has no version");
    }

    // It is not an item, and an item does not become one.
    assert_eq!(stack.get("/item?pk=EWR&sk=seats").code(), "item_not_found");
    assert_eq!(stack.query(json!({ "pk": "EWR" })), Vec::<serde_json::Value>::new());
    let flight = "pk=EWR&sk=UA1545";
    assert_eq!(stack.json("PUT", &format!("/item?{flight}"), &json!({ "n": 1 })).status, 200);
    let refused = stack.json("POST", &format!("/counter?{flight}"), &json!({ "add": 1 }));
    assert_eq!((refused.status, refused.code().as_str()), (409, "not_a_counter"));
    assert_eq!(stack.get(&format!("/counter?{flight}")).code(), "item_not_found");
    assert_eq!(stack.get(&format!("/item?{flight}")).json()["n"], 1);

    assert_eq!(stack.send("DELETE", path, &[], None).status, 204);
    assert_eq!(stack.send("DELETE", path, &[], None).status, 204);
    assert_eq!(stack.get(path).code(), "item_not_found");
}

/// One hot item, which shards cannot help: its remedy.
#[test]
fn a_counter_that_throttles_spread_over_many_cells_is_exact() {
    let stack = LocalStack::start(&["--partition-wcu", PARTITION_WCU, "--burst-secs", "1"]);
    let path = "/counter?pk=site&sk=visits";
    let (added, unknown, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let wrong = thread::scope(|scope| {
        let client = || {
            for _ in 0..MOST_ADDS {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let answer = stack.json("POST", path, &json!({ "add": 1 }));
                match answer.status {
                    200 => {
                        added.fetch_add(1, Ordering::Relaxed);
                        let has_grown = answer.json()["cells"].as_u64() >= Some(CELLS);
                        is_over.fetch_or(has_grown, Ordering::Relaxed);
                    }
                    504 => drop(unknown.fetch_add(1, Ordering::Relaxed)),
                    429 | 503 => {}
                    _ => return Some(answer),
                }
            }
            None
        };
        let clients = (0..CLIENTS).map(|_| scope.spawn(client)).collect::<Vec<_>>();
        clients.into_iter().find_map(|client| client.join().expect("no panic"))
    });
    assert!(wrong.is_none(), "{wrong:?}");
    let counter = stack.get(path).json();
    assert!(counter["cells"].as_u64() >= Some(CELLS), "{counter}");
    let (added, unknown) = (added.into_inner(), unknown.into_inner());
    let value = counter["value"].as_u64().expect("a number");
    assert!((added..=added + unknown).contains(&value), "{added} and {unknown}: {counter}");
    // Nobody else knows of its cells.
    assert_eq!(stack.get("/collection?pk=site").code(), "collection_not_found");
}
