use super::handler;
use dynashard_eventkit::{
    Answer, Call, FLIGHT, World, Wrong, assert_damaged_events_are_answered,
    assert_malformed_events_are_refused, assert_refused,
};

fn batch(body: impl Into<String>) -> Call {
    Call::new("POST /batch-get").json(body)
}

fn query(parameters: &str) -> Call {
    Call::new(&format!("GET /query?{parameters}"))
}

fn post_query(body: impl Into<String>) -> Call {
    Call::new("POST /query").json(body)
}

fn a(count: usize) -> String {
    "a".repeat(count)
}

#[test]
fn wrong_keys_and_parameters_are_refused() {
    let world = World::of_flights();
    let pk_too_long = format!("pk={}&sk=1", a(2_001));
    let sk_too_long = format!("pk=EWR&sk={}", a(1_025));
    let items = [
        ("no parameters", "bad_parameter", ""),
        ("no pk", "bad_parameter", "sk=1"),
        ("no sk", "bad_parameter", "pk=EWR"),
        ("an empty pk", "bad_key", "pk=&sk=1"),
        ("an empty sk", "bad_key", "pk=EWR&sk="),
        ("a pk of 2,001 bytes", "bad_key", &pk_too_long),
        ("an sk of 1,025 bytes", "bad_key", &sk_too_long),
        ("a reserved pk", "bad_key", "pk=_ds_meta&sk=1"),
        ("pk twice", "bad_parameter", "pk=EWR&pk=JFK&sk=1"),
        ("an unknown parameter", "bad_parameter", "pk=EWR&sk=1&field=dest"),
        ("no UTF-8", "bad_parameter", "pk=%FF&sk=1"),
        ("a consistency that is not a boolean", "bad_parameter", "pk=EWR&sk=1&consistent=yes"),
        ("a consistency in capitals", "bad_parameter", "pk=EWR&sk=1&consistent=TRUE"),
        ("a consistency of nothing", "bad_parameter", "pk=EWR&sk=1&consistent="),
    ];
    let items = items.map(|(what, code, query)| {
        Wrong::new(format!("GET /item with {what}"), code, Call::new(&format!("GET /item?{query}")))
    });
    let pk_too_long = format!("pk={}", a(2_001));
    let collections = [
        ("no pk", "bad_parameter", ""),
        ("an empty pk", "bad_key", "pk="),
        ("a pk of 2,001 bytes", "bad_key", &pk_too_long),
        ("a reserved pk", "bad_key", "pk=_ds_meta"),
        ("an sk", "bad_parameter", "pk=EWR&sk=1"),
        ("pk twice", "bad_parameter", "pk=EWR&pk=EWR"),
        ("no UTF-8", "bad_parameter", "pk=%C3"),
    ];
    let collections = collections.iter().flat_map(|(what, code, query)| {
        let collection = Call::new(&format!("GET /collection?{query}"));
        let page = Call::new(&format!("GET /query?{}", query.replace("sk=1", "ttl=1")));
        [
            Wrong::new(format!("GET /collection with {what}"), code, collection),
            Wrong::new(format!("GET /query with {what}"), code, page),
        ]
    });
    assert_refused(&world, &handler(&world), items.into_iter().chain(collections));
}

#[test]
fn queries_that_make_no_sense_are_refused() {
    let world = World::of_flights();
    let long_prefix = format!("begins_with={}", a(1_025));
    let long_from = format!("from={}", a(1_025));
    let rows = [
        ("bad_parameter", "limit=0"),
        ("bad_parameter", "limit=-1"),
        ("bad_parameter", "limit=1001"),
        ("bad_parameter", "limit=abc"),
        ("bad_parameter", "limit=1.5"),
        ("bad_parameter", "limit="),
        ("bad_parameter", "limit=99999999999999999999"),
        ("bad_parameter", "limit=1&limit=2"),
        ("bad_parameter", "order=up"),
        ("bad_parameter", "order="),
        ("bad_parameter", "order=DESC"),
        ("bad_parameter", "begins_with="),
        ("bad_parameter", "begins_with=2013&from=2013"),
        ("bad_parameter", "begins_with=2013&to=2013"),
        ("bad_parameter", "begins_with=2013&from=2013&to=2014"),
        ("bad_parameter", "from=b&to=a"),
        ("bad_parameter", "consistent=maybe"),
        ("bad_parameter", "prefix=2013"),
        ("bad_parameter", "sk=1"),
        ("bad_parameter", &long_prefix),
        ("bad_key", "from="),
        ("bad_key", "to="),
        ("bad_key", &long_from),
        ("unsupported_strategy", "strategy=high-watermark"),
        ("unsupported_strategy", "strategy=round_robin"),
        ("unsupported_strategy", "strategy=Ordered"),
        ("unsupported_strategy", "strategy="),
    ];
    let wrong = rows.map(|(code, row)| Wrong::new(row, code, query(&format!("pk=EWR&{row}"))));
    // A collection that was never written is an empty page only where the query is right.
    let unwritten = rows.map(|(code, row)| Wrong::new(row, code, query(&format!("pk=LGA&{row}"))));
    assert_refused(&world, &handler(&world), wrong.into_iter().chain(unwritten));
}

#[test]
fn number_tables_have_no_prefixes_and_take_only_numbers() {
    let world = World::of_numbers();
    let wrong = [
        ("bad_parameter", "begins_with=1"),
        ("bad_parameter", "from=10&to=9"),
        ("bad_key", "from=abc"),
        ("bad_key", "to=1e126"),
        ("bad_key", "from=111111111111111111111111111111111111111"),
    ];
    let wrong = wrong.map(|(code, row)| Wrong::new(row, code, query(&format!("pk=EWR&{row}"))));
    let item = Wrong::new("an sk in words", "bad_key", Call::new("GET /item?pk=EWR&sk=one"));
    let keys = batch(r#"{"keys":[{"pk":"EWR","sk":"1"}]}"#);
    let keys = Wrong::new("an sk in quotes", "bad_body", keys);
    let from = post_query(r#"{"pk":"EWR","from":"1"}"#);
    let from = Wrong::new("a from in quotes", "bad_parameter", from);
    assert_refused(&world, &handler(&world), wrong.into_iter().chain([item, keys, from]));
}

#[test]
fn query_bodies_that_are_no_object_of_parameters_are_refused() {
    let world = World::of_flights();
    let bodies = [
        ("no body", "bad_body", ""),
        ("an array", "bad_body", "[]"),
        ("null", "bad_body", "null"),
        ("half an object", "bad_body", "{\"pk\":\"EWR\""),
        ("a parameter twice", "bad_body", r#"{"pk":"EWR","pk":"JFK"}"#),
        ("NaN", "bad_body", r#"{"pk":"EWR","limit":NaN}"#),
        ("half a surrogate pair", "bad_parameter", r#"{"pk":"\ud800"}"#),
        ("a parameter that is an object", "bad_parameter", r#"{"pk":{"S":"EWR"}}"#),
        ("a parameter that is an array", "bad_parameter", r#"{"pk":["EWR"]}"#),
        ("no pk", "bad_parameter", "{}"),
        ("a null for the pk", "bad_parameter", r#"{"pk":null}"#),
        ("an empty pk", "bad_key", r#"{"pk":""}"#),
        ("an unknown parameter", "bad_parameter", r#"{"pk":"EWR","prefix":"2013"}"#),
        // It passed: what is null was taken for left out, whatever its name.
        ("an unknown parameter of null", "bad_parameter", r#"{"pk":"EWR","prefix":null}"#),
        ("a limit of 0", "bad_parameter", r#"{"pk":"EWR","limit":0}"#),
        ("a limit of 1.5", "bad_parameter", r#"{"pk":"EWR","limit":1.5}"#),
        ("a limit of true", "bad_parameter", r#"{"pk":"EWR","limit":true}"#),
        ("a limit in quotes", "bad_parameter", r#"{"pk":"EWR","limit":"1"}"#),
        ("a pk that is a number", "bad_parameter", r#"{"pk":7}"#),
        ("a consistency in quotes", "bad_parameter", r#"{"pk":"EWR","consistent":"true"}"#),
        ("a from that is a number", "bad_parameter", r#"{"pk":"EWR","from":2013}"#),
        ("a cursor that is a number", "bad_parameter", r#"{"pk":"EWR","cursor":7}"#),
        ("a cursor that the function never made", "bad_cursor", r#"{"pk":"EWR","cursor":"7"}"#),
    ];
    let wrong = bodies.map(|(what, code, body)| Wrong::new(what, code, post_query(body)));
    let parameter = Call::new("POST /query?pk=EWR").json(r#"{"pk":"EWR"}"#);
    let parameter = Wrong::new("a query parameter", "bad_parameter", parameter);
    assert_refused(&world, &handler(&world), wrong.into_iter().chain([parameter]));
}

#[test]
fn batches_that_are_not_of_the_contracts_shape_are_refused() {
    let world = World::of_flights();
    let keys = |count: usize| {
        let key = |at| format!(r#"{{"pk":"EWR","sk":"{at}"}}"#);
        format!(r#"{{"keys":[{}]}}"#, (0..count).map(key).collect::<Vec<_>>().join(","))
    };
    let too_many = keys(101);
    let bodies = [
        ("no body", "bad_body", ""),
        ("null", "bad_body", "null"),
        ("an array", "bad_body", "[]"),
        ("no keys", "bad_body", "{}"),
        ("keys that are not an array", "bad_body", r#"{"keys":{}}"#),
        ("a key that is not an object", "bad_body", r#"{"keys":["EWR"]}"#),
        ("a key without its pk", "bad_body", r#"{"keys":[{"sk":"1"}]}"#),
        ("a key without its sk", "bad_body", r#"{"keys":[{"pk":"EWR"}]}"#),
        ("a key of numbers", "bad_body", r#"{"keys":[{"pk":1,"sk":1}]}"#),
        ("a key with an item", "bad_body", r#"{"keys":[{"pk":"EWR","sk":"1","item":{}}]}"#),
        ("an unknown member", "bad_body", r#"{"keys":[],"field":["dest"]}"#),
        ("a consistency in quotes", "bad_body", r#"{"keys":[],"consistent":"true"}"#),
        ("an empty pk", "bad_key", r#"{"keys":[{"pk":"","sk":"1"}]}"#),
        ("an empty sk", "bad_key", r#"{"keys":[{"pk":"EWR","sk":""}]}"#),
        ("a reserved pk", "bad_key", r#"{"keys":[{"pk":"_ds_x","sk":"1"}]}"#),
        ("101 keys", "bad_parameter", &too_many),
        (
            "a key twice",
            "duplicate_key",
            r#"{"keys":[{"pk":"EWR","sk":"1"},{"sk":"1","pk":"EWR"}]}"#,
        ),
    ];
    let wrong = bodies.map(|(what, code, body)| Wrong::new(what, code, batch(body)));
    let parameter = Call::new("POST /batch-get?consistent=true").json(r#"{"keys":[]}"#);
    let parameter = Wrong::new("a query parameter", "bad_parameter", parameter);
    let handler = handler(&world);
    assert_refused(&world, &handler, wrong.into_iter().chain([parameter]));
    assert_eq!(Answer::of(&handler, &batch(keys(100))).status, 200);
}

#[test]
fn other_media_types_are_refused() {
    let world = World::of_flights();
    let types = ["text/plain", "", "application/x-www-form-urlencoded"];
    let wrong = types.iter().flat_map(|media_type| {
        [batch("{\"keys\":[]}"), post_query("{\"pk\":\"EWR\"}")].map(|call| {
            let call = call.header("content-type", media_type);
            Wrong::new(format!("{media_type:?}"), "unsupported_media_type", call).with_status(415)
        })
    });
    assert_refused(&world, &handler(&world), wrong);
}

#[test]
fn damaged_cursors_are_refused() {
    let world = World::of_flights();
    let handler = handler(&world);
    let same_query = |strategy: &str, cursor: &str| {
        query(&format!("pk=EWR&limit=1&strategy={strategy}&cursor={cursor}"))
    };
    for strategy in ["ordered", "parallel"] {
        let first = query(&format!("pk=EWR&limit=1&strategy={strategy}"));
        let first = Answer::of(&handler, &first);
        let cursor = first.body["cursor"].as_str().expect("more pages").to_owned();
        assert_eq!(Answer::of(&handler, &same_query(strategy, &cursor)).status, 200);

        let mut damaged = vec![
            String::new(),
            "!!!".to_owned(),
            "QUJD".to_owned(),
            format!("{cursor}A"),
            format!("{cursor}%3D"),
            cursor[1..].to_owned(),
            cursor.chars().rev().collect(),
        ];
        damaged.extend((1..cursor.len()).map(|length| cursor[..length].to_owned()));
        damaged.extend((0..cursor.len()).map(|at| {
            let mut text = cursor.clone();
            let other = if &text[at..=at] == "A" { "B" } else { "A" };
            text.replace_range(at..=at, other);
            text
        }));
        let wrong = damaged.into_iter().map(|text| {
            Wrong::new(format!("{strategy}: {text}"), "bad_cursor", same_query(strategy, &text))
        });
        assert_refused(&world, &handler, wrong);
    }
}

#[test]
fn cursors_of_other_queries_are_refused() {
    let world = World::of_flights();
    let handler = handler(&world);
    let first = Answer::of(&handler, &query("pk=EWR&limit=1&from=2013"));
    let cursor = first.body["cursor"].as_str().expect("more pages").to_owned();
    let others = [
        "pk=JFK&from=2013",
        "pk=EWR",
        "pk=EWR&from=2012",
        "pk=EWR&to=2013",
        "pk=EWR&from=2013&to=2014",
        "pk=EWR&begins_with=2013",
        "pk=EWR&from=2013&order=desc",
        "pk=EWR&from=2013&strategy=parallel",
        // Also where the answer would be an empty page.
        "pk=LGA&from=2013",
    ];
    let wrong = others.map(|other| {
        Wrong::new(other, "cursor_mismatch", query(&format!("{other}&cursor={cursor}")))
    });
    assert_refused(&world, &handler, wrong);
    // What may change between two pages.
    let next =
        query(&format!("pk=EWR&from=2013&limit=7&consistent=true&fields=dest&cursor={cursor}"));
    assert_eq!(Answer::of(&handler, &next).status, 200);
}

#[test]
fn other_methods_and_paths_are_not_found() {
    let world = World::of_flights();
    let lines = [
        "PUT /item",
        "POST /item",
        "DELETE /item",
        "OPTIONS /item",
        "GET /",
        "GET /item/",
        "GET /items",
        "GET /batch-get",
        "PUT /query",
        "POST /collection",
        "GET /collection/scale",
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
    assert_damaged_events_are_answered("read", handler);
}
