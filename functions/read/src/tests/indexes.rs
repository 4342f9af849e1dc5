//! Queries of secondary indexes.

use dynashard_core::{IndexAttribute, SecondaryIndex, TableSchema};
use dynashard_eventkit::{Answer, Call, World};
use dynashard_keys::SortKeyType;
use serde_json::json;

use super::handler;

fn answer(world: &World, parameters: &str) -> Answer {
    Answer::of(&handler(world), &Call::new(&format!("GET /query?{parameters}")))
}

#[test]
fn an_index_has_items_of_all_collections_under_their_own_keys() {
    let world = World::of_flights();
    world.item("JFK", "2013-01-01T12:00:00Z#UA194", r#"{"dest":"LAX","carrier":"UA"}"#);
    let page = answer(&world, "index=by-carrier&pk=UA&fields=dest").body;
    let item = |pk: &str, sk: &str, dest: &str| json!({ "pk": pk, "sk": sk, "dest": dest });
    let items = [
        item("EWR", "2013-01-01T10:00:00Z#UA1545", "IAH"),
        item("JFK", "2013-01-01T12:00:00Z#UA194", "LAX"),
        item("EWR", "2013-01-01T10:00:00Z#UA1696", "ORD"),
    ];
    assert_eq!(page["items"], json!(items));
    let index = json!({ "name": "by-carrier", "consistency": "eventual", "moving": false });
    assert_eq!((&page["index"], &page["shards"]), (&index, &json!(1)));
    let between = answer(&world, "index=by-carrier&pk=UA&from=L&to=M&fields=dest").body;
    assert_eq!(between["items"], json!(items[1..2]));
    let first = answer(&world, "index=by-carrier&pk=UA&fields=dest&limit=1&order=desc").body;
    assert_eq!(first["items"], json!(items[2..]));
    let cursor = first["cursor"].as_str().expect("a cursor");
    let next = json!({ "index": "by-carrier", "pk": "UA", "order": "desc", "cursor": cursor, "fields": ["dest"] });
    let next = Call::new("POST /query").json(next.to_string());
    let next = Answer::of(&handler(&world), &next).body;
    assert_eq!((&next["items"], &next["cursor"]), (&json!([items[1], items[0]]), &json!(null)));
}

#[test]
fn numbers_are_keys_of_indexes_as_numbers() {
    let world = World::of_flights();
    let number =
        |name: &str| IndexAttribute { name: name.to_owned(), r#type: Some(SortKeyType::Number) };
    world.memory.be_indexed_by([SecondaryIndex {
        name: "by-flight".to_owned(),
        is_local: false,
        partition_key: vec![number("flight")],
        sort_key: vec![number("distance")],
        ..SecondaryIndex::of_table(&TableSchema::default())
    }]);
    let flights = |body: serde_json::Value| {
        let call = Call::new("POST /query").json(body.to_string());
        Answer::of(&handler(&world), &call).body["items"].as_array().map(Vec::len)
    };
    let of = |pk: &str| json!({ "index": "by-flight", "pk": pk, "from": 1_000, "to": "1400" });
    assert_eq!((flights(of("1545")), flights(of("1545.0"))), (Some(1), Some(1)));
    let wrong = answer(&world, "index=by-flight&pk=UA");
    assert_eq!((wrong.status, &wrong.body["code"]), (400, &json!("bad_key")));
}

#[test]
fn what_no_index_answers_is_refused_and_nothing_is_read() {
    let world = World::of_flights();
    for (status, refused, parameters) in [
        (404, "index_not_found", "index=by-tail&pk=UA"),
        (404, "index_not_found", "index=&pk=UA"),
        (400, "bad_parameter", "index=by-carrier&pk=UA&consistent=true"),
        (400, "bad_parameter", "index=by-carrier&pk=UA&limit=0"),
        (400, "bad_parameter", "index=by-carrier&pk=UA&typo=1"),
        (400, "bad_parameter", "index=by-carrier"),
        (400, "unsupported_strategy", "index=by-carrier&pk=UA&strategy=none"),
    ] {
        let answer = answer(&world, parameters);
        let code = &answer.body["code"];
        assert_eq!((answer.status, code), (status, &json!(refused)), "{parameters}");
    }
    assert_eq!(world.memory.requests().queries, 0);
}

/// An index by an attribute has items under keys that the caller may not touch.
#[test]
fn an_index_of_all_collections_is_for_those_who_may_touch_all() {
    let mut world = World::of_tenants();
    let of_carrier = || Call::new("GET /query?index=by-carrier&pk=UA").with_claim("tenant", "UA");
    Answer::of(&handler(&world), &of_carrier()).assert_problem(
        403,
        "key_not_granted",
        "by-carrier",
    );
    assert_eq!(world.memory.requests().queries, 0);
    world.admission.grants = "*=*".parse().expect("rules");
    assert_eq!(Answer::of(&handler(&world), &of_carrier()).status, 200);
}
