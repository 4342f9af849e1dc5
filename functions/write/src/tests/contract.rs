use std::iter;
use std::time::Duration;

use dynashard_api::json::{Format, ItemJson};
use dynashard_core::ports::Clock;
use dynashard_core::{AttributeValue, Settings, TableSchema};
use dynashard_keys::{PartitionKey, Placement, Separator, ShardId, SortKey};
use dynashard_testkit::{Fault, Operation};
use serde_json::{Value, json};

use super::handler;
use dynashard_eventkit::{
    Answer, Call, FLIGHT, OLD_ETAG, SECRET, STACK_FAULTS, UNKNOWN_OUTCOMES, World,
    unreachable_table,
};

const PK: &str = "EWR";
const SK: &str = "2013-01-01T10:00:00Z#UA1545";

fn put() -> Call {
    Call::new(&format!("PUT /item?{FLIGHT}"))
}

fn patch() -> Call {
    Call::new(&format!("PATCH /item?{FLIGHT}"))
}

fn delete() -> Call {
    Call::new(&format!("DELETE /item?{FLIGHT}"))
}

/// The item that is there now, as a client would read it.
fn item(world: &World, format: Format) -> Value {
    let item = world.stored(PK, SK).expect("an item");
    let partition = PartitionKey::new(PK).expect("pk");
    let sort = SortKey::string(SK).expect("sk");
    let schema = &TableSchema::default();
    let json = ItemJson { schema, partition: &partition, sort: &sort, item: &item, format };
    serde_json::to_value(json).expect("JSON")
}

#[test]
fn an_entity_tag_lets_one_write_through_and_no_second() {
    let world = World::of_flights();
    let handler = handler(&world);
    let etag = |answer: &Answer| answer.header("etag").expect("an ETag").to_owned();

    let first = Answer::of(&handler, &put().json(r#"{"n":1}"#).header("if-match", OLD_ETAG));
    assert_eq!(first.status, 200);
    let first = etag(&first);
    assert_ne!(first, OLD_ETAG);
    let stale = Answer::of(&handler, &put().json(r#"{"n":2}"#).header("if-match", OLD_ETAG));
    stale.assert_problem(412, "precondition_failed", "PUT");
    let stale = Answer::of(&handler, &patch().json(r#"{"n":2}"#).header("if-match", OLD_ETAG));
    stale.assert_problem(412, "precondition_failed", "PATCH");
    let stale = Answer::of(&handler, &delete().header("if-match", OLD_ETAG));
    stale.assert_problem(412, "precondition_failed", "DELETE");
    assert_eq!(item(&world, Format::Plain)["n"], 1);

    let second = Answer::of(&handler, &patch().json(r#"{"n":3}"#).header("if-match", &first));
    assert_eq!(second.status, 200);
    assert_eq!(item(&world, Format::Plain)["n"], 3);
    let second = etag(&second);
    assert_eq!(Answer::of(&handler, &delete().header("if-match", &second)).status, 204);
    assert!(world.stored(PK, SK).is_none());
}

#[test]
fn preconditions_hold_where_there_is_no_item() {
    let world = World::new(Settings::default());
    let handler = handler(&world);
    for tag in ["*", OLD_ETAG] {
        for call in [put().json("{}"), patch().json("{}"), delete()] {
            let answer = Answer::of(&handler, &call.header("if-match", tag));
            answer.assert_problem(412, "precondition_failed", tag);
        }
    }
    let create = || put().json("{}").header("if-none-match", "*");
    assert_eq!(Answer::of(&handler, &create()).status, 200);
    let again = Answer::of(&handler, &create());
    again.assert_problem(412, "precondition_failed", "the second creation");
    assert_eq!(Answer::of(&handler, &put().json("{}").header("if-match", "*")).status, 200);
}

#[test]
fn a_put_leaves_nothing_of_the_item_before_and_takes_the_key_in_the_body() {
    let world = World::of_flights();
    let body = json!({ "pk": PK, "sk": SK, "gate": "C71" }).to_string();
    assert_eq!(Answer::of(&handler(&world), &put().json(body)).status, 200);
    assert_eq!(item(&world, Format::Plain), json!({ "pk": PK, "sk": SK, "gate": "C71" }));
    let stored = world.stored(PK, SK).expect("an item");
    assert_eq!(stored.attributes.keys().collect::<Vec<_>>(), ["gate"], "the key is the table's");
}

#[test]
fn a_patch_merges_as_rfc_7396_says() {
    let world = World::of_flights();
    let handler = handler(&world);
    let patch = |body: Value| {
        let call = patch().header("content-type", "application/merge-patch+json; charset=utf-8");
        let answer = Answer::of(&handler, &call.body(body.to_string()));
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(answer.text, format!(r#"{{"pk":"{PK}","sk":"{SK}","shard":4}}"#));
        item(&world, Format::Plain)
    };
    let with = |members: Value| {
        let mut item = json!({ "pk": PK, "sk": SK, "dest": "IAH", "flight": 1545 });
        let members = members.as_object().expect("an object").clone();
        item.as_object_mut().expect("an object").extend(members);
        item
    };
    // A null removes, also where nothing is; an object merges; anything else replaces.
    assert_eq!(
        patch(json!({
            "carrier": null,
            "distance": null,
            "cancelled": null,
            "times": { "departed": "05:17", "arrived": null },
        })),
        with(json!({ "times": { "scheduled": "05:15", "departed": "05:17" } })),
    );
    assert_eq!(
        patch(json!({ "times": { "scheduled": null, "taxi": { "out": 11, "in": null } } })),
        with(json!({ "times": { "departed": "05:17", "taxi": { "out": 11 } } })),
    );
    // An array is replaced whole, and a null in it is a value.
    let gates = json!({ "times": [null, { "at": null }] });
    assert_eq!(patch(gates.clone()), with(gates));
    // An object that replaces another value begins empty.
    assert_eq!(
        patch(json!({ "times": { "departed": "05:17", "arrived": null } })),
        with(json!({ "times": { "departed": "05:17" } })),
    );
    assert_eq!(
        patch(json!({ "pk": PK, "sk": SK, "times": null, "dest": "ORD" })),
        with(json!({ "dest": "ORD" })),
    );
    assert_eq!(patch(json!({})), with(json!({ "dest": "ORD" })));
}

#[test]
fn a_patch_keeps_what_plain_json_cannot_say() {
    let world = World::of_flights();
    let sets = r#"{"seals":{"BS":["AAE="]},"gates":{"NS":["71"]},"pass":{"B":"TTE="}}"#;
    world.item_in(Format::DynamoDb, PK, SK, sets);
    assert_eq!(Answer::of(&handler(&world), &patch().json(r#"{"delay":2}"#)).status, 200);
    assert_eq!(
        item(&world, Format::DynamoDb),
        json!({
            "pk": { "S": PK },
            "sk": { "S": SK },
            "delay": { "N": "2" },
            "gates": { "NS": ["71"] },
            "pass": { "B": "TTE=" },
            "seals": { "BS": ["AAE="] },
        }),
    );
}

#[test]
fn nothing_to_patch_is_not_found_and_creates_nothing() {
    let world = World::new(Settings::default());
    let before = world.snapshot();
    let answer = Answer::of(&handler(&world), &patch().json(r#"{"a":1}"#));
    answer.assert_problem(404, "item_not_found", "no collection");
    assert_eq!(world.snapshot(), before);
    let world = World::of_flights();
    let before = world.snapshot();
    let call = Call::new("PATCH /item?pk=EWR&sk=2014").json(r#"{"a":1}"#);
    Answer::of(&handler(&world), &call).assert_problem(404, "item_not_found", "no item");
    assert_eq!(world.snapshot(), before);
}

#[test]
fn a_delete_succeeds_whether_or_not_there_was_an_item() {
    let world = World::of_flights();
    let handler = handler(&world);
    for what in ["an item", "an item that was removed"] {
        let answer = Answer::of(&handler, &delete());
        assert_eq!((answer.status, answer.text.as_str()), (204, ""), "{what}");
        assert_eq!(answer.header("content-type"), None, "{what}");
        assert!(world.stored(PK, SK).is_none());
    }
    let before = world.memory.contents();
    let elsewhere = Answer::of(&handler, &Call::new("DELETE /item?pk=LGA&sk=1"));
    assert_eq!(elsewhere.status, 204);
    assert_eq!(world.memory.contents(), before);
}

#[test]
fn dynamodb_json_is_stored_with_its_types() {
    let world = World::of_flights();
    let body = json!({
        "pk": { "S": PK },
        "b": { "B": "AAEC" },
        "bs": { "BS": ["AA==", "AQ=="] },
        "l": { "L": [{ "NULL": true }, { "M": { "x": { "BOOL": false } } }] },
        "ns": { "NS": ["-1", "2.5"] },
        "n": { "N": "0.10" },
        "ss": { "SS": ["x", "é"] },
    });
    let call = put().header("content-type", "application/x-amz-json-1.0").body(body.to_string());
    assert_eq!(Answer::of(&handler(&world), &call).status, 200);
    let stored = world.stored(PK, SK).expect("an item").attributes;
    assert_eq!(stored["b"], AttributeValue::Binary(vec![0, 1, 2]));
    assert_eq!(stored["bs"], AttributeValue::BinarySet([vec![0], vec![1]].into()));
    assert!(matches!(&stored["ss"], AttributeValue::StringSet(set) if set.len() == 2));
    let mut expected = body;
    expected["sk"] = json!({ "S": SK });
    expected["n"] = json!({ "N": "0.1" });
    assert_eq!(item(&world, Format::DynamoDb), expected);
}

#[test]
fn a_batch_of_dynamodb_json_has_plain_keys_and_typed_items() {
    let world = World::of_flights();
    let body = json!({ "puts": [{ "pk": PK, "sk": SK, "item": { "ns": { "NS": ["1", "2"] } } }] });
    let call = Call::new("POST /batch-write").header("content-type", "application/x-amz-json-1.0");
    let answer = Answer::of(&handler(&world), &call.body(body.to_string()));
    assert_eq!(answer.text, r#"{"written":1,"unprocessed":[]}"#);
    assert_eq!(item(&world, Format::DynamoDb)["ns"], json!({ "NS": ["1", "2"] }));
}

#[test]
fn numbers_keep_their_digits() {
    let world = World::of_flights();
    let digits = "12345678901234567890123456789012345678";
    let body = format!("{{\"whole\":{digits},\"part\":-0.{digits},\"large\":1e19}}");
    assert_eq!(Answer::of(&handler(&world), &put().json(body)).status, 200);
    let item = item(&world, Format::DynamoDb);
    assert_eq!(item["whole"]["N"], digits);
    assert_eq!(item["part"]["N"], format!("-0.{digits}"));
    assert_eq!(item["large"]["N"], "10000000000000000000");
}

#[test]
fn number_sort_keys_come_back_as_json_numbers_in_one_spelling() {
    let world = World::of_numbers();
    let handler = handler(&world);
    for (written, canonical) in [
        ("01.50", "1.5"),
        ("%2B1.5", "1.5"),
        ("15e-1", "1.5"),
        ("-0", "0"),
        ("1e3", "1000"),
        ("12345678901234567890123456789012345678", "12345678901234567890123456789012345678"),
    ] {
        let answer =
            Answer::of(&handler, &Call::new(&format!("PUT /item?pk=EWR&sk={written}")).json("{}"));
        let expected = format!(r#"{{"pk":"EWR","sk":{canonical},"shard":0}}"#);
        assert_eq!(answer.text, expected, "{written}");
    }
    assert_eq!(world.memory.contents().len(), 4, "three spellings of 1.5 are one key");
    let call = Call::new("PUT /item?pk=EWR&sk=7").json(r#"{"sk":7.0,"a":1}"#);
    assert_eq!(Answer::of(&handler, &call).status, 200, "7.0 agrees with 7");
}

#[test]
fn keys_are_read_as_form_urlencoded() {
    let world = World::new(Settings::default());
    let line = "PUT /item?sk=a+b%2Bc%26d%3De&pk=fleet%2FN14228%231";
    let answer = Answer::of(&handler(&world), &Call::new(line).json("{}"));
    assert_eq!(answer.body, json!({ "pk": "fleet/N14228#1", "sk": "a b+c&d=e", "shard": 0 }));
    let contents = world.memory.contents();
    assert_eq!(contents[0].0.partition.as_str(), "fleet/N14228#1");
}

#[test]
fn a_first_write_leaves_nothing_but_its_item() {
    let world = World::new(Settings::default());
    assert_eq!(Answer::of(&handler(&world), &put().json("{}")).status, 200);
    let metadata = world.memory.stored_metadata(&PartitionKey::new(PK).expect("pk"));
    assert_eq!((metadata, world.memory.contents().len()), (None, 1));
}

#[test]
fn random_placement_puts_and_deletes_by_key() {
    let world = World::of_random_placement();
    let handler = handler(&world);
    let answer = Answer::of(&handler, &Call::new("PUT /item?pk=log&sk=2").json("{}"));
    let shard = answer.body["shard"].as_u64().expect("a shard");
    assert!((1..=4).contains(&shard), "random shards count from 1: {shard}");
    assert!(answer.header("etag").is_some());
    for sk in ["1", "2", "3"] {
        let answer = Answer::of(&handler, &Call::new(&format!("DELETE /item?pk=log&sk={sk}")));
        assert_eq!(answer.status, 204, "{sk}");
    }
    assert!(world.memory.contents().is_empty());
}

#[test]
fn a_batch_counts_what_was_written_and_lists_what_was_not() {
    let world = World::of_flights();
    let jfk = PartitionKey::new("JFK").expect("pk");
    world.store.throttle(jfk.at(ShardId::new(0), Placement::Xxh64, Separator::HashTilde));
    let body = json!({
        "puts": [
            { "pk": PK, "sk": "1", "item": { "a": 1 } },
            { "pk": "JFK", "sk": "1", "item": { "a": 1 } },
        ],
        "deletes": [{ "pk": "JFK", "sk": "2" }, { "pk": PK, "sk": SK }],
    });
    let answer =
        Answer::of(&handler(&world), &Call::new("POST /batch-write").json(body.to_string()));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body["written"], 2);
    let mut unprocessed = answer.body["unprocessed"].as_array().expect("a list").clone();
    unprocessed.sort_by_key(Value::to_string);
    let throttled = |sk| json!({ "pk": "JFK", "sk": sk, "code": "throttled" });
    assert_eq!(unprocessed, [throttled("1"), throttled("2")]);
    let retry_after = answer.header("retry-after").and_then(|secs| secs.parse::<u64>().ok());
    assert!(retry_after.is_some_and(|secs| (1..=4).contains(&secs)), "when to send them again");
    assert!(world.stored(PK, SK).is_none());
    assert!(world.stored(PK, "1").is_some());
}

#[test]
fn a_batch_lists_the_writes_whose_fate_is_unknown() {
    let world = World::of_numbers();
    world.store.script(Operation::Write, [Fault::Lose]);
    let body = json!({ "puts": [{ "pk": "EWR", "sk": 1.50, "item": {} }] });
    let answer =
        Answer::of(&handler(&world), &Call::new("POST /batch-write").json(body.to_string()));
    assert_eq!(
        answer.text,
        r#"{"written":0,"unprocessed":[{"pk":"EWR","sk":1.5,"code":"outcome_unknown"}]}"#
    );
}

#[test]
fn an_empty_batch_writes_nothing() {
    let world = World::of_flights();
    let before = world.snapshot();
    for body in ["{}", r#"{"puts":[],"deletes":[]}"#] {
        let answer = Answer::of(&handler(&world), &Call::new("POST /batch-write").json(body));
        assert_eq!(answer.text, r#"{"written":0,"unprocessed":[]}"#);
    }
    assert_eq!(world.snapshot(), before);
}

fn retry_after(answer: &Answer) -> Option<u64> {
    answer.header("retry-after")?.parse().ok()
}

#[test]
fn a_hot_partition_is_429_with_retry_after() {
    let world = World::of_flights();
    let ewr = PartitionKey::new(PK).expect("pk");
    (0..8).for_each(|shard| {
        world.store.throttle(ewr.at(ShardId::new(shard), Placement::Xxh64, Separator::HashTilde));
    });
    let before = world.snapshot();
    for call in [put().json("{}"), patch().json("{}"), delete()] {
        let answer = Answer::of(&handler(&world), &call);
        answer.assert_problem(429, "throttled", "a throttle that does not end");
        assert!(retry_after(&answer).is_some_and(|secs| (1..=4).contains(&secs)));
    }
    assert_eq!(world.snapshot(), before);
}

#[test]
fn a_table_that_cannot_be_reached_is_503_with_retry_after() {
    let world = World::of_flights();
    let always = iter::repeat_with(unreachable_table).take(10_000);
    world.store.script(Operation::MetadataGet, always);
    let before = world.snapshot();
    for call in [put().json("{}"), patch().json("{}"), delete()] {
        let answer = Answer::of(&handler(&world), &call);
        answer.assert_problem(503, "unavailable", "metadata");
        assert!(retry_after(&answer).is_some_and(|secs| (1..=4).contains(&secs)));
    }
    assert_eq!(world.snapshot(), before);
}

/// A request was tried until its deadline, which is 23 seconds, and the answer said that DynamoDB had not answered.
#[test]
fn regression_tables_that_could_not_be_reached_held_their_writers() {
    use Operation::{DirectoryGet, Get, MetadataGet, Write};
    for operation in [Write, Get, MetadataGet, DirectoryGet] {
        let puts = json!({ "puts": [{ "pk": PK, "sk": SK, "item": {} }] }).to_string();
        let batch = Call::new("POST /batch-write").json(puts);
        for call in [put().json("{}"), patch().json("{}"), delete(), batch] {
            let world = World::of_flights();
            world.store.script(operation, iter::repeat_with(unreachable_table).take(10_000));
            let begun = world.clock.now();
            let answer = Answer::of(&handler(&world), &call);
            let took = world.clock.now().certainly_since(begun);
            assert!(took <= Duration::from_secs(3), "{operation:?}, {call:?}: {took:?}");
            if answer.status == 503 {
                assert!(answer.text.contains("cannot be reached"), "{}", answer.text);
            }
        }
    }
}

/// Each operation of a batch was patient behind the one before it, for two seconds.
#[test]
fn regression_a_directory_that_could_not_be_reached_held_a_batch_once_for_each_operation() {
    let world = World::of_flights();
    let unreachable = iter::repeat_with(unreachable_table).take(10_000);
    world.store.script(Operation::DirectoryGet, unreachable);
    let put = |n: u32| json!({ "pk": PK, "sk": n.to_string(), "item": {} });
    let puts = json!({ "puts": (0..100).map(put).collect::<Vec<_>>() }).to_string();
    let begun = world.clock.now();
    let answer = Answer::of(&handler(&world), &Call::new("POST /batch-write").json(puts));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body["unprocessed"].as_array().map(Vec::len), Some(100));
    let took = world.clock.now().certainly_since(begun);
    assert!(took <= Duration::from_secs(3), "{took:?}");
    assert!(world.store.attempts(Operation::DirectoryGet) < 50);
}

#[test]
fn an_unknown_outcome_is_504_without_retry_after_and_is_sent_once() {
    for (what, fault) in UNKNOWN_OUTCOMES {
        let world = World::of_flights();
        world.store.script(Operation::Write, [fault()]);
        let answer = Answer::of(&handler(&world), &delete());
        answer.assert_problem(504, "outcome_unknown", what);
        assert_eq!(answer.header("etag"), None, "a delete leaves nothing to look for");
        assert_eq!(world.store.attempts(Operation::Write), 1, "{what}");
    }
    for call in [put().json("{}"), patch().json("{}")] {
        let world = World::of_flights();
        world.store.script(Operation::Write, [Fault::Lose]);
        let answer = Answer::of(&handler(&world), &call);
        answer.assert_problem(504, "outcome_unknown", "lost");
        assert!(answer.header("etag").is_some(), "the client can look for itself");
        assert_eq!(world.store.attempts(Operation::Write), 1);
    }
}

/// Clients were told 504, although one look would have found their write.
#[test]
fn regression_a_write_that_took_effect_was_answered_504() {
    for (what, fault) in UNKNOWN_OUTCOMES.into_iter().filter(|(what, _)| *what != "lost") {
        for call in [put().json("{}"), patch().json("{}")] {
            let world = World::of_flights();
            world.store.script(Operation::Write, [fault()]);
            let answer = Answer::of(&handler(&world), &call);
            assert_eq!(answer.status, 200, "{what}: {}", answer.text);
            let stored = world.stored(PK, SK).expect("an item");
            let tag = format!("\"{:016x}\"", stored.version.get());
            assert_eq!(answer.header("etag"), Some(tag.as_str()), "{what}");
            assert_eq!(world.store.attempts(Operation::Write), 1, "{what}");
        }
    }
}

/// DynamoDB was asked what writes consume, and nobody was told.
#[test]
fn regression_what_a_write_consumed_was_dropped() {
    let three_kilobytes = json!({ "text": "x".repeat(2_500) }).to_string();
    let batch = json!({ "puts": [{ "pk": "LGA", "sk": "1", "item": {} }], "deletes": [] });
    let world = World::of_flights();
    let handler = handler(&world);
    for (call, consumed_wcu) in [
        (put().json(three_kilobytes), "3"),
        (patch().json("{}"), "3"),
        (delete(), "3"),
        (delete(), "1"),
        (Call::new("POST /batch-write").json(batch.to_string()), "1"),
    ] {
        let answer = Answer::of(&handler, &call);
        assert!(answer.status < 300, "{}", answer.text);
        assert_eq!(answer.header("dynashard-consumed-wcu"), Some(consumed_wcu));
    }
}

#[test]
fn faults_of_the_stack_are_500_and_say_nothing() {
    for (code, error) in STACK_FAULTS {
        for operation in [Operation::MetadataGet, Operation::Write] {
            for call in [put().json("{}"), patch().json("{}"), delete()] {
                let world = World::of_flights();
                world.store.script(operation, [Fault::Refuse(error(SECRET.to_owned()))]);
                let answer = Answer::of(&handler(&world), &call);
                answer.assert_problem(500, code, "a fault of the stack");
                assert_eq!(world.stored(PK, SK).map(|item| item.attributes.len()), Some(5));
            }
        }
    }
}
