use super::handler;
use dynashard_eventkit::{
    Call, FLIGHT, World, Wrong, assert_malformed_events_are_refused, assert_refused,
};

const LINES: [&str; 2] = ["PUT /collection", "POST /collection/scale"];

fn create(body: &str) -> Call {
    Call::new("PUT /collection?pk=LGA").json(body)
}

fn scale(body: &str) -> Call {
    Call::new("POST /collection/scale?pk=EWR").json(body)
}

#[test]
fn wrong_keys_and_parameters_are_refused() {
    let world = World::of_flights();
    let long_pk = format!("pk={}", "a".repeat(2_001));
    let queries = [
        ("no parameters", "bad_parameter", ""),
        ("an empty pk", "bad_key", "pk="),
        ("a pk of 2,001 bytes", "bad_key", &long_pk),
        ("a reserved pk", "bad_key", "pk=_ds_meta"),
        ("pk twice", "bad_parameter", "pk=LGA&pk=EWR"),
        ("an sk", "bad_parameter", "pk=LGA&sk=1"),
        ("the count as a parameter", "bad_parameter", "pk=LGA&number_of_shards=4"),
        ("no UTF-8", "bad_parameter", "pk=%FF"),
    ];
    let wrong = LINES.iter().flat_map(|line| {
        queries.iter().map(move |(what, code, query)| {
            let call = Call::new(&format!("{line}?{query}")).json(r#"{"number_of_shards":4}"#);
            Wrong::new(format!("{line} with {what}"), code, call)
        })
    });
    assert_refused(&world, &handler(&world), wrong);
}

#[test]
fn bodies_of_another_shape_are_refused() {
    let world = World::of_flights();
    let bodies = [
        ("no body", ""),
        ("null", "null"),
        ("a number", "4"),
        ("an array", "[4]"),
        ("half an object", "{\"number_of_shards\":4"),
        ("the count twice", r#"{"number_of_shards":4,"number_of_shards":8}"#),
        ("an unknown member", r#"{"number_of_shards":4,"separator":"_"}"#),
        ("the count as NaN", r#"{"number_of_shards":NaN}"#),
        ("the count with a leading zero", r#"{"number_of_shards":04}"#),
    ];
    let wrong = bodies.iter().flat_map(|(what, body)| {
        [create(body), scale(body)].map(|call| Wrong::new(*what, "bad_body", call))
    });
    let not_utf8 = [create(""), scale("")]
        .map(|call| Wrong::new("no UTF-8", "bad_body", call.base64("eyJhIjoi/yJ9")));
    let others = [
        Wrong::new("a number for the placement", "bad_body", create(r#"{"placement":1}"#)),
        Wrong::new("a null for the placement", "bad_body", create(r#"{"placement":null}"#)),
        Wrong::new("no count", "bad_body", scale("{}")),
        Wrong::new(
            "another placement",
            "bad_body",
            scale(r#"{"number_of_shards":4,"placement":"jump"}"#),
        ),
    ];
    assert_refused(&world, &handler(&world), wrong.chain(not_utf8).chain(others));
}

#[test]
fn counts_that_no_collection_can_have_are_refused() {
    let world = World::of_flights();
    let counts = [
        "0",
        "-1",
        "257",
        "65537",
        "4294967296",
        "18446744073709551616",
        "1.5",
        "\"4\"",
        "null",
        "true",
        "[4]",
        "{}",
    ];
    let wrong = counts.iter().flat_map(|count| {
        let body = format!(r#"{{"number_of_shards":{count}}}"#);
        [create(&body), scale(&body)].map(|call| Wrong::new(*count, "bad_shard_count", call))
    });
    // 256 is what the stack allows; a placement that does not round allows no more.
    let jump = create(r#"{"number_of_shards":257,"placement":"jump"}"#);
    let jump = Wrong::new("257 under jump", "bad_shard_count", jump);
    assert_refused(&world, &handler(&world), wrong.chain([jump]));
}

#[test]
fn unknown_placements_are_refused() {
    let world = World::of_flights();
    let wrong = ["", "md5", "XXH64", "xxh64 ", "code-points"].map(|name| {
        let body = format!(r#"{{"number_of_shards":4,"placement":"{name}"}}"#);
        Wrong::new(format!("{name:?}"), "bad_placement", create(&body))
    });
    assert_refused(&world, &handler(&world), wrong);
}

#[test]
fn other_media_types_are_refused() {
    let world = World::of_flights();
    let types = ["text/plain", "", "application/merge-patch+json"];
    let wrong = types.iter().flat_map(|media_type| {
        [create(r#"{"number_of_shards":4}"#), scale(r#"{"number_of_shards":4}"#)].map(|call| {
            let call = call.header("content-type", media_type);
            Wrong::new(format!("{media_type:?}"), "unsupported_media_type", call).with_status(415)
        })
    });
    assert_refused(&world, &handler(&world), wrong);
}

#[test]
fn other_methods_and_paths_are_not_found() {
    let world = World::of_flights();
    let lines = [
        "GET /collection",
        "POST /collection",
        "DELETE /collection",
        "PUT /collection/",
        "PUT /collection/scale",
        "POST /scale",
        "PUT /item",
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
