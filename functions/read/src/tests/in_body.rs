//! Reads that have the key of their item in the body, beside those that have it in the URL.

use super::handler;
use dynashard_api::headers::DYNAMODB_JSON;
use dynashard_eventkit::{Answer, Call, FLIGHT, OLD_ETAG, World, Wrong, assert_refused};

const KEY: &str = r#""pk":"EWR","sk":"2013-01-01T10:00:00Z#UA1545""#;

fn get(body: &str) -> Call {
    Call::new("POST /item/get").json(body)
}

#[test]
fn a_key_in_the_body_gets_the_answer_of_one_in_the_url() {
    let nowhere = ("pk=LGA&sk=1", r#""pk":"LGA","sk":"1""#);
    for (query, key) in [(FLIGHT, KEY), nowhere] {
        for (parameters, members) in [
            ("", ""),
            ("&consistent=true", r#","consistent":true"#),
            ("&consistent=false&fields=dest", r#","consistent":false,"fields":["dest"]"#),
            ("", r#","consistent":null,"fields":null"#),
            ("&fields=_ds_v", r#","fields":["_ds_v"]"#),
        ] {
            for header in [
                ("accept", "*/*"),
                ("accept", DYNAMODB_JSON),
                ("if-match", r#""0000000000000001""#),
                ("if-none-match", OLD_ETAG),
                ("if-none-match", "2013"),
            ] {
                let answered = |call: Call| {
                    let call = call.header(header.0, header.1);
                    let answer = Answer::of(&handler(&World::of_flights()), &call);
                    (answer.status, answer.headers, answer.text)
                };
                let by_url = answered(Call::new(&format!("GET /item?{query}{parameters}")));
                assert_eq!(answered(get(&format!("{{{key}{members}}}"))), by_url, "{header:?}");
            }
        }
    }
}

#[test]
fn bodies_of_another_shape_are_refused() {
    let world = World::of_flights();
    let rows = [
        ("no body", "bad_body", String::new()),
        ("an array", "bad_body", "[]".to_owned()),
        ("no key", "bad_parameter", "{}".to_owned()),
        ("no sk", "bad_parameter", r#"{"pk":"EWR"}"#.to_owned()),
        ("an sk that is a number", "bad_parameter", r#"{"pk":"EWR","sk":1}"#.to_owned()),
        ("an empty sk", "bad_key", r#"{"pk":"EWR","sk":""}"#.to_owned()),
        ("a reserved pk", "bad_key", r#"{"pk":"_ds_x","sk":"1"}"#.to_owned()),
        ("an unknown member", "bad_parameter", format!(r#"{{{KEY},"typo":1}}"#)),
        ("an item", "bad_parameter", format!(r#"{{{KEY},"item":{{}}}}"#)),
        ("a parameter of queries", "bad_parameter", format!(r#"{{{KEY},"limit":1}}"#)),
        ("a consistency in text", "bad_parameter", format!(r#"{{{KEY},"consistent":"true"}}"#)),
    ];
    let wrong = rows.map(|(what, code, body)| Wrong::new(what, code, get(&body)));
    let in_url = Call::new(&format!("POST /item/get?{FLIGHT}")).json(format!("{{{KEY}}}"));
    let in_url = Wrong::new("the key in the URL as well", "bad_parameter", in_url);
    let media_type = get("{}").header("content-type", "text/plain");
    let media_type = Wrong::new("text", "unsupported_media_type", media_type).with_status(415);
    assert_refused(&world, &handler(&world), wrong.into_iter().chain([in_url, media_type]));
}

#[test]
fn a_number_sort_key_is_a_number_in_the_body() {
    let world = World::of_numbers();
    let answer = Answer::of(&handler(&world), &get(r#"{"pk":"LGA","sk":7.5}"#));
    answer.assert_problem(404, "item_not_found", "a number");
}
