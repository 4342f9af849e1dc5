use dynashard_core::Settings;
use dynashard_keys::Placement;

use super::handler;
use dynashard_eventkit::{
    Answer, Call, FLIGHT, OLD_ETAG, World, Wrong, assert_damaged_events_are_answered,
    assert_malformed_events_are_refused, assert_refused,
};

const METHODS: [&str; 3] = ["PUT", "PATCH", "DELETE"];

fn put() -> Call {
    Call::new(&format!("PUT /item?{FLIGHT}"))
}

fn patch() -> Call {
    Call::new(&format!("PATCH /item?{FLIGHT}"))
}

fn delete() -> Call {
    Call::new(&format!("DELETE /item?{FLIGHT}"))
}

fn batch(body: impl Into<String>) -> Call {
    Call::new("POST /batch-write").json(body)
}

fn a(count: usize) -> String {
    "a".repeat(count)
}

#[test]
fn wrong_keys_and_parameters_are_refused() {
    let pk_too_long = format!("pk={}&sk=1", a(2_001));
    let pk_too_wide = format!("pk={}&sk=1", "%E2%82%AC".repeat(667));
    let sk_too_long = format!("pk=EWR&sk={}", a(1_025));
    let queries = [
        ("no parameters", "bad_parameter", ""),
        ("no pk", "bad_parameter", "sk=1"),
        ("no sk", "bad_parameter", "pk=EWR"),
        ("an empty pk", "bad_key", "pk=&sk=1"),
        ("an empty sk", "bad_key", "pk=EWR&sk="),
        ("an sk without a value", "bad_key", "pk=EWR&sk"),
        ("a pk of 2,001 bytes", "bad_key", &pk_too_long),
        ("a pk of 667 characters and 2,001 bytes", "bad_key", &pk_too_wide),
        ("an sk of 1,025 bytes", "bad_key", &sk_too_long),
        ("a reserved pk", "bad_key", "pk=_ds_meta&sk=1"),
        ("a reserved pk behind escapes", "bad_key", "pk=%5Fds%5Fmeta&sk=1"),
        ("pk twice", "bad_parameter", "pk=EWR&pk=JFK&sk=1"),
        ("pk twice, once behind escapes", "bad_parameter", "pk=EWR&sk=1&%70k=JFK"),
        ("pk twice, the same", "bad_parameter", "pk=EWR&sk=1&pk=EWR"),
        ("an unknown parameter", "bad_parameter", "pk=EWR&sk=1&ttl=60"),
        ("a parameter in capitals", "bad_parameter", "PK=EWR&sk=1"),
        ("no UTF-8", "bad_parameter", "pk=%FF&sk=1"),
        ("half a character", "bad_parameter", "pk=EWR&sk=caf%C3"),
        ("no UTF-8 in a name", "bad_parameter", "pk=EWR&sk=1&%FF=1"),
    ];
    let world = World::of_flights();
    let wrong = METHODS.iter().flat_map(|method| {
        queries.iter().map(move |(what, code, query)| {
            let call = Call::new(&format!("{method} /item?{query}"));
            let call = if *method == "DELETE" { call } else { call.json("{}") };
            Wrong::new(format!("{method} with {what}"), code, call)
        })
    });
    assert_refused(&world, &handler(&world), wrong);
}

#[test]
fn the_longest_keys_are_taken() {
    let world = World::of_flights();
    for method in ["PUT", "DELETE"] {
        let call = Call::new(&format!("{method} /item?pk={}&sk={}", a(2_000), a(1_024))).json("{}");
        assert!(Answer::of(&handler(&world), &call).status < 300, "{method}");
    }
}

/// Bodies that are not a JSON object of values that DynamoDB can keep.
fn wrong_bodies() -> Vec<(&'static str, String)> {
    let of = |(what, body): (&'static str, &str)| (what, body.to_owned());
    let mut bodies = [
        ("an empty body", ""),
        ("null", "null"),
        ("a boolean", "true"),
        ("a number", "1"),
        ("a string", "\"text\""),
        ("an array", "[]"),
        ("half an object", "{\"a\":1"),
        ("text behind the object", "{\"a\":1} {}"),
        ("NaN", "{\"a\":NaN}"),
        ("Infinity", "{\"a\":-Infinity}"),
        ("a number above DynamoDB's", "{\"a\":1e126}"),
        ("a number below DynamoDB's", "{\"a\":1e-131}"),
        ("an exponent beyond any integer", "{\"a\":1e99999999999999999999}"),
        ("a number with a leading zero", "{\"a\":01}"),
        ("a member twice", "{\"a\":1,\"a\":2}"),
        ("an inner member twice", "{\"a\":{\"b\":1,\"b\":2}}"),
        ("half a surrogate pair", "{\"a\":\"\\ud800\"}"),
        ("a control character in a string", "{\"a\":\"\u{1}\"}"),
        ("a trailing comma", "{\"a\":1,}"),
        ("a comment", "{\"a\":1/*one*/}"),
    ]
    .map(of)
    .to_vec();
    bodies.extend([
        ("a number of 39 digits", format!("{{\"a\":{}}}", "1".repeat(39))),
        ("a fraction of 39 digits", format!("{{\"a\":0.{}}}", "1".repeat(39))),
        ("33 levels", format!("{{\"a\":{}{}}}", "[".repeat(33), "]".repeat(33))),
        ("33 levels with a number's", format!("{{\"a\":{}1{}}}", "[".repeat(32), "]".repeat(32))),
        ("a hundred thousand levels", format!("{{\"a\":{}", "[".repeat(100_000))),
    ]);
    bodies
}

#[test]
fn bodies_that_are_no_item_are_refused() {
    let world = World::of_flights();
    let wrong = [put(), patch()].into_iter().flat_map(|call| {
        let of = move |(what, body)| Wrong::new(what, "bad_body", call.clone().json(body));
        wrong_bodies().into_iter().map(of)
    });
    let not_utf8 = [put(), patch()]
        .map(|call| Wrong::new("no UTF-8", "bad_body", call.base64("eyJhIjoi/yJ9")));
    let no_body = [put(), patch()].map(|call| Wrong::new("no body", "bad_body", call));
    assert_refused(&world, &handler(&world), wrong.chain(not_utf8).chain(no_body));
}

#[test]
fn numbers_of_38_digits_are_taken() {
    let world = World::of_flights();
    let digits = "1".repeat(38);
    let call = put().json(format!("{{\"a\":{digits},\"b\":-0.{digits},\"c\":9e125,\"d\":1e-130}}"));
    assert_eq!(Answer::of(&handler(&world), &call).status, 200);
}

#[test]
fn bodies_that_are_no_dynamodb_json_are_refused() {
    let world = World::of_flights();
    let bodies = [
        ("plain JSON", "bad_body", r#"{"a":"x"}"#),
        ("no type", "bad_body", r#"{"a":{}}"#),
        ("two types", "bad_body", r#"{"a":{"S":"x","N":"1"}}"#),
        ("a type twice", "bad_body", r#"{"a":{"S":"x","S":"y"}}"#),
        ("an unknown type", "bad_body", r#"{"a":{"X":"1"}}"#),
        ("a number that is not a string", "bad_body", r#"{"a":{"N":1}}"#),
        ("NaN", "bad_body", r#"{"a":{"N":"NaN"}}"#),
        ("a number with a space", "bad_body", r#"{"a":{"N":" 1"}}"#),
        ("a set that repeats a member", "bad_body", r#"{"a":{"SS":["x","x"]}}"#),
        ("a set that repeats a number", "bad_body", r#"{"a":{"NS":["1","1.0"]}}"#),
        ("a set of mixed types", "bad_body", r#"{"a":{"SS":["x",1]}}"#),
        ("an empty set", "bad_item", r#"{"a":{"SS":[]}}"#),
        ("an empty set inside of a list", "bad_item", r#"{"a":{"L":[{"NS":[]}]}}"#),
        ("binary that is not base64", "bad_body", r#"{"a":{"B":"***"}}"#),
        ("a false null", "bad_body", r#"{"a":{"NULL":false}}"#),
        ("a key of another item", "key_mismatch", r#"{"pk":{"S":"JFK"}}"#),
        ("a key of another type", "key_mismatch", r#"{"pk":{"B":"RVdS"}}"#),
        ("a plain key", "bad_body", r#"{"pk":"EWR"}"#),
    ];
    let wrong = bodies.map(|(what, code, body)| {
        let call = put().header("content-type", "application/x-amz-json-1.0").body(body);
        Wrong::new(what, code, call)
    });
    assert_refused(&world, &handler(&world), wrong);
}

#[test]
fn attributes_that_belong_to_the_system_or_contradict_the_key_are_refused() {
    let world = World::of_flights();
    let bodies = [
        ("a reserved attribute", "reserved_attribute", r#"{"_ds_v":1}"#),
        ("a reserved prefix", "reserved_attribute", r#"{"_ds_":null,"a":1}"#),
        ("a reserved attribute behind escapes", "reserved_attribute", r#"{"\u005fds_g":1}"#),
        ("an attribute without a name", "bad_item", r#"{"":1}"#),
        ("an inner attribute without a name", "bad_item", r#"{"a":[{"":1}]}"#),
        ("another pk", "key_mismatch", r#"{"pk":"JFK"}"#),
        ("another sk", "key_mismatch", r#"{"sk":"2013"}"#),
        ("a pk of another type", "key_mismatch", r#"{"pk":["EWR"]}"#),
        ("a null for a key", "key_mismatch", r#"{"pk":null}"#),
    ];
    let calls = |(what, code, body): (&str, _, &str)| {
        [put(), patch()].map(|call| Wrong::new(what, code, call.json(body)))
    };
    let batches = bodies.map(|(what, code, item)| {
        let body = format!(r#"{{"puts":[{{"pk":"EWR","sk":"1","item":{item}}}]}}"#);
        Wrong::new(format!("{what} in a batch"), code, batch(body))
    });
    let wrong = bodies.into_iter().flat_map(calls).chain(batches);
    assert_refused(&world, &handler(&world), wrong);
}

#[test]
fn a_body_carries_the_key_under_the_tables_own_names() {
    let mut settings = Settings::default();
    settings.schema.partition_key_name = "airport".to_owned();
    settings.schema.sort_key_name = "departure".to_owned();
    let world = World::new(settings);
    world.collection("EWR", Placement::Xxh64, 1);
    let wrong = ["airport", "departure"].iter().flat_map(|name| {
        let put = put().json(format!("{{\"{name}\":\"LGA\"}}"));
        let patch = patch().json(format!("{{\"{name}\":null}}"));
        [put, patch].map(|call| Wrong::new(*name, "key_mismatch", call))
    });
    assert_refused(&world, &handler(&world), wrong);
    // What other tables call their keys is an attribute like any other here.
    let body = r#"{"airport":"EWR","pk":"another","sk":7}"#;
    let answer = Answer::of(&handler(&world), &put().json(body));
    assert_eq!(answer.status, 200, "{answer:?}");
    let stored = world.stored("EWR", "2013-01-01T10:00:00Z#UA1545").expect("an item");
    assert_eq!(stored.attributes.keys().collect::<Vec<_>>(), ["pk", "sk"]);
}

#[test]
fn an_item_over_399_kb_is_refused_and_one_of_399_kb_is_taken() {
    let world = World::of_flights();
    let handler = handler(&world);
    // The names and values of the keys, and the name of the attribute.
    let others = "pkEWR".len() + "sk2013-01-01T10:00:00Z#UA1545".len() + "a".len();
    let of_size = |bytes: usize| format!("{{\"a\":\"{}\"}}", a(bytes - others));
    let largest = 399 * 1_024;
    let in_batch = |item: String| {
        let sk = "2013-01-01T10:00:00Z#UA1545";
        batch(format!(r#"{{"puts":[{{"pk":"EWR","sk":"{sk}","item":{item}}}]}}"#))
    };
    let too_large = |what: &str, call: Call| Wrong::new(what, "item_too_large", call);
    let wrong = [
        too_large("a put", put().json(of_size(largest + 1))),
        too_large("a patch", patch().json(of_size(largest))),
        too_large("a batch", in_batch(of_size(largest + 1))),
    ];
    assert_refused(&world, &handler, wrong.map(|wrong| wrong.with_status(413)));
    for call in [put().json(of_size(largest)), in_batch(of_size(largest))] {
        assert_eq!(Answer::of(&handler, &call).status, 200);
    }
}

#[test]
fn other_media_types_are_refused() {
    let world = World::of_flights();
    let plain = ["text/plain", "application/xml", "", "application/x-www-form-urlencoded"];
    let patch_types = ["application/json-patch+json", "application/x-amz-json-1.0"];
    let refuse = |call: Call, media_type: &str| {
        let call = call.header("content-type", media_type).body("{}");
        Wrong::new(format!("{media_type:?}"), "unsupported_media_type", call).with_status(415)
    };
    let everywhere = plain
        .iter()
        .flat_map(|media_type| [put(), patch(), batch("")].map(|call| refuse(call, media_type)));
    let merge_patch = [put(), batch("")].map(|call| refuse(call, "application/merge-patch+json"));
    let patches = patch_types.map(|media_type| refuse(patch(), media_type));
    assert_refused(&world, &handler(&world), everywhere.chain(merge_patch).chain(patches));
}

#[test]
fn conditional_headers_that_cannot_be_honoured_are_refused() {
    let world = World::of_flights();
    let tags = [
        "",
        "2013",
        "\"2013",
        "w/\"00000000000007dd\"",
        "\"00000000000007dd\" \"2013\"",
        "\"00000000000007dd\", \"00000000000007de\"",
        "*, *",
    ];
    let bad = |what: String, call: Call| Wrong::new(what, "bad_header", call);
    let if_match = tags.iter().flat_map(|tag| {
        [put().json("{}"), patch().json("{}"), delete()]
            .map(|call| bad(format!("If-Match: {tag}"), call.header("if-match", tag)))
    });
    let if_none_match = tags.iter().chain([&OLD_ETAG]).map(|tag| {
        bad(format!("If-None-Match: {tag}"), put().json("{}").header("if-none-match", tag))
    });
    let for_put_only = [patch().json("{}"), delete()]
        .map(|call| bad("If-None-Match elsewhere".to_owned(), call.header("if-none-match", "*")));
    let both = put().json("{}").header("if-match", OLD_ETAG).header("if-none-match", "*");
    let both = bad("both".to_owned(), both);
    let wrong = if_match.chain(if_none_match).chain(for_put_only).chain([both]);
    assert_refused(&world, &handler(&world), wrong);
}

#[test]
fn regression_an_entity_tag_of_others_was_a_bad_header() {
    let world = World::of_flights();
    let tags =
        ["\"\"", "\"2013\"", "W/\"00000000000007dd\"", "\"é000000000007dd\"", "\"2013\", \"2014\""];
    let wrong = tags.iter().flat_map(|tag| {
        [put().json("{}"), patch().json("{}"), delete()].map(|call| {
            let call = call.header("if-match", tag);
            Wrong::new(format!("If-Match: {tag}"), "precondition_failed", call).with_status(412)
        })
    });
    assert_refused(&world, &handler(&world), wrong);
    // A request that is wrong in itself is refused for that.
    let wrong = [put(), patch()].map(|call| {
        Wrong::new("a wrong body", "bad_item", call.json("{\"\":1}").header("if-match", "\"2013\""))
    });
    assert_refused(&world, &handler(&world), wrong);
    let one_of = format!("\"2013\", {OLD_ETAG}");
    let answer = Answer::of(&handler(&world), &put().json("{}").header("if-match", &one_of));
    assert_eq!(answer.status, 200, "one of the tags is the item's");
}

#[test]
fn batches_that_are_not_of_the_contracts_shape_are_refused() {
    let world = World::of_flights();
    let bodies = [
        ("no body", "bad_body", ""),
        ("an array", "bad_body", "[]"),
        ("puts that are not an array", "bad_body", r#"{"puts":{}}"#),
        ("puts that are null", "bad_body", r#"{"puts":null}"#),
        ("a put that is not an object", "bad_body", r#"{"puts":["EWR"]}"#),
        ("an unknown member", "bad_body", r#"{"puts":[],"updates":[]}"#),
        ("puts twice", "bad_body", r#"{"puts":[],"puts":[]}"#),
        ("a put without its item", "bad_body", r#"{"puts":[{"pk":"EWR","sk":"1"}]}"#),
        (
            "an item that is not an object",
            "bad_body",
            r#"{"puts":[{"pk":"EWR","sk":"1","item":[]}]}"#,
        ),
        (
            "a put with another member",
            "bad_body",
            r#"{"puts":[{"pk":"EWR","sk":"1","item":{},"ttl":60}]}"#,
        ),
        ("NaN", "bad_body", r#"{"puts":[{"pk":"EWR","sk":"1","item":{"a":NaN}}]}"#),
        ("a delete without its pk", "bad_body", r#"{"deletes":[{"sk":"1"}]}"#),
        ("a delete without its sk", "bad_body", r#"{"deletes":[{"pk":"EWR"}]}"#),
        ("a delete with an item", "bad_body", r#"{"deletes":[{"pk":"EWR","sk":"1","item":{}}]}"#),
        ("a pk that is not a string", "bad_body", r#"{"deletes":[{"pk":1,"sk":"1"}]}"#),
        ("an sk that is not a string", "bad_body", r#"{"deletes":[{"pk":"EWR","sk":1}]}"#),
        ("an empty pk", "bad_key", r#"{"deletes":[{"pk":"","sk":"1"}]}"#),
        ("an empty sk", "bad_key", r#"{"deletes":[{"pk":"EWR","sk":""}]}"#),
        ("a reserved pk", "bad_key", r#"{"deletes":[{"pk":"_ds_x","sk":"1"}]}"#),
        (
            "two deletes of one key",
            "duplicate_key",
            r#"{"deletes":[{"pk":"EWR","sk":"1"},{"pk":"EWR","sk":"1"}]}"#,
        ),
        (
            "a put and a delete of one key",
            "duplicate_key",
            r#"{"puts":[{"pk":"EWR","sk":"1","item":{}}],"deletes":[{"pk":"EWR","sk":"1"}]}"#,
        ),
        (
            // All or nothing: a request that is wrong in one place does nothing in the others.
            "one wrong operation behind a right one",
            "bad_key",
            r#"{"puts":[{"pk":"EWR","sk":"1","item":{}},{"pk":"EWR","sk":"","item":{}}]}"#,
        ),
    ];
    let wrong = bodies.map(|(what, code, body)| Wrong::new(what, code, batch(body)));
    let parameter = Call::new("POST /batch-write?pk=EWR").json("{}");
    let parameter = Wrong::new("a query parameter", "bad_parameter", parameter);
    assert_refused(&world, &handler(&world), wrong.into_iter().chain([parameter]));
}

/// A batch of so many puts and deletes.
fn operations(puts: usize, deletes: usize) -> String {
    let put = |at| format!(r#"{{"pk":"EWR","sk":"{at}","item":{{}}}}"#);
    let delete = |at| format!(r#"{{"pk":"JFK","sk":"{at}"}}"#);
    let puts = (0..puts).map(put).collect::<Vec<_>>().join(",");
    let deletes = (0..deletes).map(delete).collect::<Vec<_>>().join(",");
    format!(r#"{{"puts":[{puts}],"deletes":[{deletes}]}}"#)
}

#[test]
fn a_batch_takes_a_thousand_operations_and_no_more() {
    let world = World::of_flights();
    let handler = handler(&world);
    let wrong = [(1_001, 0), (0, 1_001), (501, 500)].map(|(puts, deletes)| {
        let what = format!("{puts} puts and {deletes} deletes");
        Wrong::new(what, "bad_parameter", batch(operations(puts, deletes)))
    });
    assert_refused(&world, &handler, wrong);
    let answer = Answer::of(&handler, &batch(operations(500, 500)));
    assert_eq!(answer.text, r#"{"written":1000,"unprocessed":[]}"#);
}

#[test]
fn what_needs_an_items_shard_is_refused_for_random_placement() {
    let world = World::of_random_placement();
    let call = |method: &str| Call::new(&format!("{method} /item?pk=log&sk=1"));
    let put = || call("PUT").json("{}");
    let wrong = [
        ("PATCH", call("PATCH").json("{}")),
        ("PUT with If-Match", put().header("if-match", OLD_ETAG)),
        ("PUT with If-Match: *", put().header("if-match", "*")),
        ("PUT with If-None-Match", put().header("if-none-match", "*")),
        ("DELETE with If-Match", call("DELETE").header("if-match", OLD_ETAG)),
        // These were 412: the tag was looked at before the placement.
        ("PATCH with a tag of others", call("PATCH").json("{}").header("if-match", "\"abc\"")),
        ("PUT with a tag of others", put().header("if-match", "\"abc\"")),
        ("DELETE with a tag of others", call("DELETE").header("if-match", "\"abc\"")),
    ];
    let wrong = wrong.map(|(what, call)| Wrong::new(what, "not_for_placement", call));
    assert_refused(&world, &handler(&world), wrong);
}

#[test]
fn sort_keys_that_are_no_numbers_are_refused_where_they_must_be() {
    let world = World::of_numbers();
    let digits = "1".repeat(39);
    let keys = ["", "abc", "NaN", "1x", "0x10", "1e126", "1,5", "%2B", &digits];
    let puts = keys.iter().map(|sk| {
        let call = Call::new(&format!("PUT /item?pk=EWR&sk={sk}")).json("{}");
        Wrong::new(format!("sk={sk}"), "bad_key", call)
    });
    let bodies = [
        ("a string", "bad_body", r#"{"deletes":[{"pk":"EWR","sk":"1"}]}"#),
        ("null", "bad_body", r#"{"deletes":[{"pk":"EWR","sk":null}]}"#),
        ("too large", "bad_key", r#"{"deletes":[{"pk":"EWR","sk":1e126}]}"#),
        (
            "one number in two spellings",
            "duplicate_key",
            r#"{"deletes":[{"pk":"EWR","sk":1},{"pk":"EWR","sk":1.0}]}"#,
        ),
    ];
    let batches = bodies.map(|(what, code, body)| Wrong::new(what, code, batch(body)));
    let other = Call::new("PUT /item?pk=EWR&sk=1").json(r#"{"sk":2}"#);
    let other = Wrong::new("another number in the body", "key_mismatch", other);
    assert_refused(&world, &handler(&world), puts.chain(batches).chain([other]));
}

#[test]
fn other_methods_and_paths_are_not_found() {
    let world = World::of_flights();
    let lines = [
        "GET /item",
        "POST /item",
        "OPTIONS /item",
        "PUT /",
        "PUT /item/",
        "PUT /ITEM",
        "PUT //item",
        "PUT /items",
        "GET /batch-write",
        "PUT /batch-write",
        "PUT /collection",
        "PUT *",
    ];
    let wrong = lines.map(|line| {
        let call = Call::new(&format!("{line}?{FLIGHT}")).json("{}");
        Wrong::new(line, "route_not_found", call).with_status(404)
    });
    assert_refused(&world, &handler(&world), wrong);
}

#[test]
fn events_that_are_no_http_request_are_refused() {
    assert_malformed_events_are_refused(handler);
}

#[test]
fn no_damaged_event_brings_the_function_down() {
    assert_damaged_events_are_answered("write", handler);
}
