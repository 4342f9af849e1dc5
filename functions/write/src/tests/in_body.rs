//! Requests that have the key of their item in the body, beside those that have it in the URL.

use super::handler;
use dynashard_api::headers::DYNAMODB_JSON;
use dynashard_eventkit::{Answer, Call, FLIGHT, OLD_ETAG, World, Wrong, assert_refused};

const KEY: &str = r#""pk":"EWR","sk":"2013-01-01T10:00:00Z#UA1545""#;

/// A request of each kind by its URL, and the same one by its body. What a put or a patch brings is `document`.
fn both_forms(document: &str) -> [(Call, Call); 3] {
    let by_url = |method: &str| Call::new(&format!("{method} /item?{FLIGHT}"));
    [
        (by_url("PUT").json(document), put(&format!(r#"{{{KEY},"item":{document}}}"#))),
        (by_url("PATCH").json(document), patch(&format!(r#"{{{KEY},"patch":{document}}}"#))),
        (by_url("DELETE"), delete(&format!("{{{KEY}}}"))),
    ]
}

fn put(body: &str) -> Call {
    Call::new("POST /item/put").json(body)
}

fn patch(body: &str) -> Call {
    Call::new("POST /item/patch").json(body)
}

fn delete(body: &str) -> Call {
    Call::new("POST /item/delete").json(body)
}

#[test]
fn a_key_in_the_body_gets_the_answer_of_one_in_the_url() {
    let stale = r#""0000000000000001""#;
    for document in ["{}", r#"{"dest":"ORD","n":1.50,"none":null}"#, r#"{"pk":"JFK"}"#, r#"{"":1}"#]
    {
        for header in [
            None,
            Some(("if-match", OLD_ETAG)),
            Some(("if-match", stale)),
            Some(("if-match", "2013")),
            Some(("if-none-match", "*")),
            Some(("accept", DYNAMODB_JSON)),
        ] {
            for world in [World::of_flights, || World::new(dynashard_core::Settings::default())] {
                for (by_url, by_body) in both_forms(document) {
                    let answered = |call: &Call| {
                        let world = world();
                        let call = header.iter().fold(call.clone(), |c, (n, v)| c.header(n, v));
                        let answer = Answer::of(&handler(&world), &call);
                        (answer.status, answer.headers, answer.text, world.snapshot())
                    };
                    assert_eq!(answered(&by_body), answered(&by_url), "{by_body:?} {header:?}");
                }
            }
        }
    }
}

#[test]
fn an_item_beside_its_key_may_be_dynamodb_json() {
    let world = World::of_flights();
    let body = format!(r#"{{{KEY},"item":{{"tags":{{"SS":["a","b"]}}}}}}"#);
    let call = put(&body).header("content-type", DYNAMODB_JSON);
    let answer = Answer::of(&handler(&world), &call);
    assert_eq!(answer.status, 200, "{answer:?}");
    let stored = world.stored("EWR", "2013-01-01T10:00:00Z#UA1545").expect("an item");
    assert_eq!(stored.attributes.keys().collect::<Vec<_>>(), ["tags"]);
}

#[test]
fn a_number_sort_key_is_a_number_in_the_body() {
    let world = World::of_numbers();
    let body = r#"{"pk":"EWR","sk":7.50,"item":{}}"#;
    let answer = Answer::of(&handler(&world), &put(body));
    assert_eq!((answer.status, &answer.body["sk"]), (200, &serde_json::json!(7.5)));
    let wrong = Wrong::new("a string", "bad_parameter", delete(r#"{"pk":"EWR","sk":"7.5"}"#));
    assert_refused(&world, &handler(&world), [wrong]);
}

#[test]
fn bodies_of_another_shape_are_refused() {
    let world = World::of_flights();
    let of_all = [
        ("no body", "bad_body", ""),
        ("an array", "bad_body", "[]"),
        ("a key twice", "bad_body", r#"{"pk":"EWR","pk":"JFK","sk":"1","item":{},"patch":{}}"#),
    ];
    let of_all = of_all.into_iter().flat_map(|(what, code, body)| {
        [put(body), patch(body), delete(body)].map(|call| Wrong::new(what, code, call))
    });
    let beside = [
        ("no key", "bad_parameter", ""),
        ("no sk", "bad_parameter", r#""pk":"EWR""#),
        ("a pk of null", "bad_parameter", r#""pk":null,"sk":"1""#),
        ("a pk that is a number", "bad_parameter", r#""pk":1,"sk":"1""#),
        ("an sk that is a number", "bad_parameter", r#""pk":"EWR","sk":1"#),
        ("an empty sk", "bad_key", r#""pk":"EWR","sk":"""#),
        ("a reserved pk", "bad_key", r#""pk":"_ds_x","sk":"1""#),
        ("an unknown member", "bad_parameter", r#""pk":"EWR","sk":"1","ttl":60"#),
        ("an unknown null", "bad_parameter", r#""pk":"EWR","sk":"1","ttl":null"#),
        ("another route's parameter", "bad_parameter", r#""pk":"EWR","sk":"1","consistent":true"#),
    ];
    let beside = beside.into_iter().flat_map(|(what, code, members)| {
        let comma = if members.is_empty() { "" } else { "," };
        let with = |name: &str| format!(r#"{{{members}{comma}"{name}":{{}}}}"#);
        [put(&with("item")), patch(&with("patch")), delete(&format!("{{{members}}}"))]
            .map(|call| Wrong::new(what, code, call))
    });
    let of_document = ["", r#","item":null,"patch":null"#, r#","item":[],"patch":1"#];
    let of_document = of_document.into_iter().flat_map(|members| {
        let body = format!("{{{KEY}{members}}}");
        // Each has the other's document as well, which is as unknown as what it lacks is missing.
        [("item", put(&body)), ("patch", patch(&body))].map(|(name, call)| {
            let code = if members.is_empty() { "bad_body" } else { "bad_parameter" };
            Wrong::new(format!("{name} in {body}"), code, call)
        })
    });
    let no_object = [
        put(&format!(r#"{{{KEY},"item":null}}"#)),
        put(&format!(r#"{{{KEY},"item":[]}}"#)),
        patch(&format!(r#"{{{KEY},"patch":"{{}}"}}"#)),
    ];
    let no_object = no_object.map(|call| Wrong::new("no object", "bad_body", call));
    let in_url = ["put", "patch", "delete"].map(|name| {
        let body = format!(r#"{{{KEY},"item":{{}}}}"#);
        let call = Call::new(&format!("POST /item/{name}?{FLIGHT}")).json(body);
        Wrong::new("the key in the URL as well", "bad_parameter", call)
    });
    let wrong = of_all.chain(beside).chain(of_document).chain(no_object).chain(in_url);
    assert_refused(&world, &handler(&world), wrong);
}

#[test]
fn other_media_types_are_refused() {
    let world = World::of_flights();
    let calls = [
        (put("{}"), "application/merge-patch+json"),
        (patch("{}"), "application/merge-patch+json"),
        // A patch has no DynamoDB JSON, here as in PATCH.
        (patch("{}"), DYNAMODB_JSON),
        (delete("{}"), "text/plain"),
    ];
    let wrong = calls.map(|(call, media_type)| {
        let call = call.header("content-type", media_type);
        Wrong::new(media_type, "unsupported_media_type", call).with_status(415)
    });
    assert_refused(&world, &handler(&world), wrong);
}

#[test]
fn the_longest_keys_are_taken() {
    let world = World::of_flights();
    let handler = handler(&world);
    let key = format!(r#""pk":"{}","sk":"{}""#, "é".repeat(1_000), "é".repeat(512));
    let put = Answer::of(&handler, &put(&format!(r#"{{{key},"item":{{}}}}"#)));
    assert_eq!(put.status, 200, "{put:?}");
    let etag = put.header("etag").expect("an ETag");
    let patch = patch(&format!(r#"{{{key},"patch":{{"a":1}}}}"#)).header("if-match", etag);
    assert_eq!(Answer::of(&handler, &patch).status, 200);
    assert_eq!(Answer::of(&handler, &delete(&format!("{{{key}}}"))).status, 204);
}
