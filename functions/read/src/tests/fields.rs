//! Reads of some fields, and what single reads say of their cost.

use dynashard_keys::{PartitionKey, Placement, Separator, ShardId};
use serde_json::{Value, json};

use super::handler;
use dynashard_eventkit::{Answer, Call, FLIGHT, OLD_ETAG, World, Wrong, assert_refused};

const PK: &str = "EWR";
const SK: &str = "2013-01-01T10:00:00Z#UA1545";

fn get(parameters: &str) -> Call {
    Call::new(&format!("GET /item?{FLIGHT}{parameters}"))
}

fn batch(fields: &Value) -> Call {
    let body = json!({ "keys": [{ "pk": PK, "sk": SK }], "fields": fields });
    Call::new("POST /batch-get").json(body.to_string())
}

fn query(parameters: &str) -> Call {
    Call::new(&format!("GET /query?pk=EWR{parameters}"))
}

fn posted(fields: &Value) -> Call {
    let body = json!({ "pk": PK, "limit": 1, "fields": fields });
    Call::new("POST /query").json(body.to_string())
}

#[test]
fn only_the_fields_that_were_named_are_answered_with_the_key() {
    let world = World::of_flights();
    let of = |call: &Call| Answer::of(&handler(&world), call).body;
    for (names, rest) in [
        (&["dest"][..], json!({ "dest": "IAH" })),
        (&["times", "gate", "dest"], json!({ "dest": "IAH", "times": { "scheduled": "05:15" } })),
        (&["gate"], json!({})),
        (&["pk"], json!({})),
        (&["sk", "distance", "pk"], json!({ "distance": 1400 })),
    ] {
        let mut expected = rest;
        expected["pk"] = json!(PK);
        expected["sk"] = json!(SK);
        let (text, names) = (names.join(","), json!(names));
        assert_eq!(of(&get(&format!("&fields={text}"))), expected, "{text}");
        for call in [batch(&names), query(&format!("&limit=1&fields={text}")), posted(&names)] {
            assert_eq!(of(&call)["items"], json!([expected]), "{call:?}");
        }
    }
}

#[test]
fn a_part_of_an_item_has_the_entity_tag_of_the_whole() {
    let world = World::of_flights();
    let answer = Answer::of(&handler(&world), &get("&fields=gate"));
    assert_eq!((answer.status, answer.header("etag")), (200, Some(OLD_ETAG)));
}

#[test]
fn names_with_commas_go_in_json() {
    let world = World::of_flights();
    world.item(PK, SK, r#"{"a,b": 1, "a": 2, "b": 3, " c": 4}"#);
    let of = |call: &Call| Answer::of(&handler(&world), call).body;
    let expected = json!([{ "pk": PK, "sk": SK, "a,b": 1 }]);
    for call in [batch(&json!(["a,b"])), posted(&json!(["a,b"]))] {
        assert_eq!(of(&call)["items"], expected, "{call:?}");
    }
    let of_a_and_c = json!({ "pk": PK, "sk": SK, "a": 2, " c": 4 });
    assert_eq!(of(&get("&fields=a,%20c")), of_a_and_c, "nothing is trimmed");
    assert_eq!(of(&get("&fields=a%2C+c")), of_a_and_c, "as many clients write a comma");
}

#[test]
fn a_null_stands_for_every_field_and_fields_may_change_between_pages() {
    let world = World::of_flights();
    let whole = Answer::of(&handler(&world), &query("&limit=1"));
    let answer = Answer::of(&handler(&world), &posted(&Value::Null));
    assert_eq!(answer.body["items"], whole.body["items"]);
    let cursor = whole.body["cursor"].as_str().expect("more");
    let next = Answer::of(&handler(&world), &query(&format!("&cursor={cursor}&fields=dest")));
    let dests = next.body["items"].as_array().expect("items").iter().map(|item| &item["dest"]);
    assert_eq!(dests.collect::<Vec<_>>(), ["ORD", "PBI"]);
}

#[test]
fn lists_that_are_no_fields_are_refused() {
    let world = World::of_flights();
    let many = (0..101).map(|n| n.to_string()).collect::<Vec<_>>();
    let texts = ["", ",", "dest,", ",dest", "dest,,flight", "dest,dest", "_ds_g", "dest,_ds_"];
    let long = many.join(",");
    let texts = texts.into_iter().chain([long.as_str()]);
    let texts = texts.flat_map(|text| {
        let wrong = |call: Call| Wrong::new(format!("{call:?}"), "bad_fields", call);
        [wrong(get(&format!("&fields={text}"))), wrong(query(&format!("&fields={text}")))]
    });
    let lists = [json!([]), json!([""]), json!(["dest", "dest"]), json!(["_ds_v"]), json!(many)];
    let lists = lists.into_iter().flat_map(|list| {
        let wrong = |call: Call| Wrong::new(format!("{call:?}"), "bad_fields", call);
        [wrong(batch(&list)), wrong(posted(&list))]
    });
    let values = [json!("dest"), json!({ "dest": 1 }), json!([1]), json!([["dest"]]), json!(true)];
    let values = values.into_iter().flat_map(|value| {
        let (batch, posted) = (batch(&value), posted(&value));
        [
            Wrong::new(format!("{batch:?}"), "bad_body", batch),
            Wrong::new(format!("{posted:?}"), "bad_parameter", posted),
        ]
    });
    let repeated = Wrong::new("fields twice", "bad_parameter", get("&fields=dest&fields=flight"));
    let elsewhere = Call::new("GET /collection?pk=EWR&fields=dest");
    let elsewhere = Wrong::new("where there are no items", "bad_parameter", elsewhere);
    let others = [repeated, elsewhere];
    assert_refused(&world, &handler(&world), texts.chain(lists).chain(values).chain(others));
}

#[test]
fn single_reads_say_what_they_cost() {
    let world = World::of_flights();
    let cost = |call: &Call| {
        let answer = Answer::of(&handler(&world), call);
        let header = |name| answer.header(name).map(str::to_owned);
        (header("dynashard-items-read"), header("dynashard-consumed-rcu"))
    };
    let of = |items: &str, units: &str| (Some(items.to_owned()), Some(units.to_owned()));
    assert_eq!(cost(&get("")), of("1", "0.5"));
    assert_eq!(cost(&get("&consistent=true&fields=dest")), of("1", "1"));
    let answer = Answer::of(&handler(&world), &batch(&Value::Null));
    assert_eq!(
        (&answer.body["items_read"], &answer.body["consumed_rcu"]),
        (&json!(1), &json!(0.5))
    );

    // A random collection is asked in every shard.
    let random = World::of_random_placement();
    let answer = Answer::of(&handler(&random), &Call::new("GET /item?pk=log&sk=1"));
    let shards = Answer::of(&handler(&random), &Call::new("GET /query?pk=log")).body["shards"]
        .as_f64()
        .expect("a count");
    assert!(shards > 1.0);
    assert_eq!(answer.header("dynashard-items-read"), Some("1"));
    assert_eq!(answer.header("dynashard-consumed-rcu"), Some((shards / 2.0).to_string().as_str()));
}

#[test]
fn an_error_names_every_shard_that_is_missing() {
    let world = World::of_flights();
    let ewr = PartitionKey::new(PK).expect("pk");
    for shard in [6, 2] {
        world.store.throttle(ewr.at(ShardId::new(shard), Placement::Xxh64, Separator::HashTilde));
    }
    let answer = Answer::of(&handler(&world), &query(""));
    answer.assert_problem(429, "throttled", "two hot shards");
    assert_eq!(answer.body["shards"], json!([2, 6]));
    let detail = answer.body["detail"].as_str().expect("text");
    assert!(detail.ends_with("(shards 2, 6)"), "{detail}");
}
