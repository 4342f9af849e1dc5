//! Capacity accounting, each row worked out by hand from the Amazon DynamoDB Developer Guide. The
//! reason in a row is the calculation; "guide" marks an example of the guide's own.

use dynashard_limits::Units;
use dynashard_limits::capacity::{
    Consistency, Index, IndexWrite, Projection, item_bytes, key_text, read_units,
    transactional_write_units, write_units,
};
use serde_json::{Value, json};

use Consistency::{Eventual, Strong, Transactional};

const KB: usize = 1_024;

/// The guide's "3.5 KB" and its like.
const fn tenths_of_kb(tenths: usize) -> usize {
    tenths * KB / 10
}

#[test]
fn item_sizes() {
    let cases: &[(Value, usize, &str)] = &[
        (json!({}), 0, "no attributes, no bytes"),
        (json!({"pk": {"S": "abc"}}), 5, "string: 2 of the name and 3"),
        (json!({"é": {"S": "日本"}}), 8, "UTF-8: 2 of the name, 2 characters of 3 bytes"),
        (json!({"a": {"S": ""}}), 1, "an empty string leaves its name"),
        (json!({"n": {"N": "0"}}), 2, "number zero: name, no digits, 1"),
        (json!({"n": {"N": "7"}}), 3, "number: name, a byte for up to two digits, 1"),
        (json!({"n": {"N": "27"}}), 3, "two digits share a byte"),
        (json!({"n": {"N": "1234"}}), 4, "four digits, two bytes, and 1"),
        (json!({"n": {"N": "-27"}}), 4, "a sign takes a byte"),
        (json!({"n": {"N": "001200"}}), 3, "leading and trailing zeros are trimmed: 12"),
        (
            json!({"n": {"N": "12000"}}),
            4,
            "the guide's \"approximately\": digits pair up at the decimal point, 1|20|00",
        ),
        (json!({"n": {"N": "1.2e3"}}), 3, "the exponent is not counted: 12 again"),
        (json!({"n": {"N": "12345678901234567890123456789012345678"}}), 21, "38 digits: 19, and 1"),
        (json!({"b": {"B": "AAECAw=="}}), 5, "binary: raw length, 4, not the 8 of Base64"),
        (json!({"b": {"B": "AAEC"}}), 4, "binary without padding: 3"),
        (json!({"b": {"B": "AAE="}}), 3, "binary with one padding character: 2"),
        (json!({"b": {"BOOL": true}}), 2, "a Boolean is 1"),
        (json!({"n": {"NULL": true}}), 2, "a null is 1"),
        (json!({"l": {"L": []}}), 4, "an empty list is 3"),
        (json!({"m": {"M": {}}}), 4, "an empty map is 3"),
        (json!({"l": {"L": [{"S": "ab"}, {"N": "1"}]}}), 10, "1 + 3 + (1 + 2) + (1 + 2)"),
        (json!({"m": {"M": {"k": {"S": "ab"}}}}), 8, "1 + 3 + (1 + 1 of the name + 2)"),
        (
            json!({"m": {"M": {"l": {"L": [{"M": {}}]}}}}),
            13,
            "nested: 1 + 3 + (1 + 1 + 3 + (1 + 3))",
        ),
        (json!({"s": {"SS": ["ab", "cde"]}}), 6, "a string set is its strings"),
        (json!({"s": {"NS": ["1", "100", "-1"]}}), 8, "a number set is its numbers: 2 + 2 + 3"),
        (json!({"s": {"BS": ["AAEC", "AA=="]}}), 5, "a binary set is its raw bytes: 3 + 1"),
        (
            json!({"pk": {"S": "JFK#0"}, "sk": {"N": "20130101"}, "late": {"BOOL": false}}),
            19,
            "the sum: (2 + 5) + (2 + 4 + 1) + (4 + 1)",
        ),
        (
            json!({"a": "plain JSON", "b": {"S": 7}, "c": {"X": "x"}}),
            3,
            "values outside DynamoDB JSON: their names",
        ),
        (json!("no item"), 0, "nor is this"),
    ];
    for (item, bytes, reason) in cases {
        assert_eq!(item_bytes(item), *bytes, "{item}: {reason}");
    }
}

#[test]
fn what_writes_consume() {
    let cases: &[(Units, u64, &str)] = &[
        (write_units(0, 500), 1, "guide: 500 bytes cost as much as 1 KB"),
        (write_units(0, tenths_of_kb(16)), 2, "guide: 1.6 KB is rounded up to 2 KB"),
        (write_units(0, KB), 1, "exactly 1 KB"),
        (write_units(0, KB + 1), 2, "one byte more"),
        (write_units(0, 400 * KB), 400, "the largest item"),
        (write_units(3 * KB, 100), 3, "PutItem: the larger of the replaced item and the new"),
        (write_units(100, 3 * KB), 3, "PutItem: the larger of the replaced item and the new"),
        (write_units(2 * KB, 2 * KB + 4), 3, "UpdateItem: one small attribute pays the whole item"),
        (write_units(5 * KB, 4 * KB), 5, "UpdateItem that removes an attribute: before is larger"),
        (write_units(0, 60), 1, "UpdateItem that creates the item"),
        (write_units(tenths_of_kb(16), 0), 2, "DeleteItem: guide: 1.6 KB is rounded up to 2 KB"),
        (write_units(0, 0), 1, "DeleteItem of nothing is a write all the same"),
        (
            [500, tenths_of_kb(35)].map(|bytes| write_units(0, bytes)).into_iter().sum(),
            5,
            "BatchWriteItem: guide: 500 bytes and 3.5 KB are 1 KB + 4 KB",
        ),
        (
            write_units(0, 10) + write_units(0, 0),
            2,
            "BatchWriteItem of a small put and a delete of nothing",
        ),
        (write_units(KB, KB), 1, "guide: a write of a 1 KB item whose condition was false"),
        (write_units(2 * KB, 2 * KB), 2, "guide: if the item were twice that size"),
        (write_units(0, 0), 1, "guide: the item does not exist"),
        (
            (0..3).map(|_| transactional_write_units(0, 500)).sum(),
            6,
            "guide: a transaction that writes three 500-byte items",
        ),
        (transactional_write_units(0, tenths_of_kb(16)), 4, "rounded up before it is doubled"),
        (transactional_write_units(3 * KB, 0), 6, "a delete in a transaction"),
        (transactional_write_units(2 * KB, 2 * KB), 4, "a ConditionCheck of a 2 KB item"),
        (transactional_write_units(0, 0), 2, "a ConditionCheck that an item is not there"),
    ];
    for (units, whole, reason) in cases {
        assert_eq!(*units, Units::whole(*whole), "{reason}");
    }
}

#[test]
fn what_reads_consume() {
    let sum_of = |consistency: Consistency, sizes: &[usize]| -> Units {
        sizes.iter().map(|bytes| read_units(*bytes, consistency)).sum()
    };
    let cases: &[(Units, f64, &str)] = &[
        (read_units(3_500, Strong), 1.0, "guide: 3,500 bytes cost as much as 4 KB"),
        (read_units(10 * KB, Strong), 3.0, "guide: 10 KB is rounded up to 12 KB"),
        (read_units(8 * KB, Strong), 2.0, "guide: 8 KB, strongly consistent"),
        (read_units(8 * KB, Eventual), 1.0, "guide: 8 KB, eventually consistent"),
        (read_units(8 * KB, Transactional), 4.0, "guide: 8 KB, transactional"),
        (read_units(4 * KB, Strong), 1.0, "exactly 4 KB"),
        (read_units(4 * KB + 1, Eventual), 1.0, "one byte more starts another 4 KB: 2 x 0.5"),
        (read_units(20 * KB, Strong), 5.0, "guide: a 20 KB item, 600 reads a second of 3,000"),
        (read_units(0, Strong), 1.0, "guide: a miss, strongly consistent"),
        (read_units(0, Eventual), 0.5, "guide: a miss, eventually consistent"),
        (read_units(0, Transactional), 2.0, "a miss in a transaction"),
        (
            sum_of(Transactional, &[500, 500, 500]),
            6.0,
            "guide: a transaction that reads three 500-byte items",
        ),
        (
            sum_of(Strong, &[tenths_of_kb(15), tenths_of_kb(65)]),
            3.0,
            "BatchGetItem: guide: 1.5 KB and 6.5 KB are 4 KB + 8 KB",
        ),
        (
            sum_of(Eventual, &[tenths_of_kb(15), tenths_of_kb(65)]),
            1.5,
            "the same, eventually consistent",
        ),
        (sum_of(Eventual, &[100, 0]), 1.0, "BatchGetItem: a key that is not there costs a miss"),
    ];
    for (units, expected, reason) in cases {
        assert!(
            (units.as_f64() - expected).abs() < f64::EPSILON,
            "{units} is not {expected}: {reason}"
        );
    }
}

/// The guide's `GameTitleIndex`, which lists a player's scores by game.
fn by_game(projection: Projection) -> Index {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Index {
        partition_key: names(&["Game"]),
        sort_key: names(&["TopScore"]),
        table_key: names(&["UserId"]),
        projection,
    }
}

fn score(user: &str, game: &str, top: &str) -> Value {
    json!({"UserId": {"S": user}, "Game": {"S": game}, "TopScore": {"N": top}})
}

/// An item with one more string attribute.
fn with(mut item: Value, name: &str, text: &str) -> Value {
    item[name] = json!({"S": text});
    item
}

fn without(mut item: Value, name: &str) -> Value {
    item.as_object_mut().expect("an item").remove(name);
    item
}

/// Before, after, the writes by partition key and units, and why.
type IndexCase = (Option<Value>, Option<Value>, &'static [(&'static str, u64)], &'static str);

fn check(index: &Index, cases: impl IntoIterator<Item = IndexCase>) {
    for (before, after, expected, reason) in cases {
        let writes = index.writes(before.as_ref(), after.as_ref());
        let expected: Vec<_> = expected
            .iter()
            .map(|(game, units)| IndexWrite {
                partition_key: (*game).to_owned(),
                units: Units::whole(*units),
            })
            .collect();
        assert_eq!(writes, expected, "{reason}");
    }
}

#[test]
fn what_changes_of_keys_consume_of_an_index() {
    let item = || score("101", "Comet Quest", "5");
    let cases: [IndexCase; 11] = [
        (None, Some(item()), &[("Comet Quest", 1)], "a new item: one put"),
        (Some(item()), None, &[("Comet Quest", 1)], "a deleted item: one delete"),
        (None, None, &[], "a delete of nothing"),
        (
            None,
            Some(without(item(), "TopScore")),
            &[],
            "sparse: without all key attributes the item is not in the index",
        ),
        (
            Some(without(item(), "TopScore")),
            Some(item()),
            &[("Comet Quest", 1)],
            "an update defines the missing key attribute: one put",
        ),
        (
            Some(item()),
            Some(without(item(), "Game")),
            &[("Comet Quest", 1)],
            "an update removes a key attribute: one delete",
        ),
        (
            Some(item()),
            Some(score("101", "Galaxy Invaders", "5")),
            &[("Comet Quest", 1), ("Galaxy Invaders", 1)],
            "the partition key changes: a delete and a put, in two partitions",
        ),
        (
            Some(item()),
            Some(score("101", "Comet Quest", "6")),
            &[("Comet Quest", 1), ("Comet Quest", 1)],
            "the sort key changes: a delete and a put, in one partition",
        ),
        (
            Some(item()),
            Some(score("101", "Comet Quest", "5.0")),
            &[],
            "the same number in other digits changes nothing",
        ),
        (
            Some(item()),
            Some(with(item(), "Wins", "3")),
            &[],
            "an attribute changes that is not projected",
        ),
        (
            None,
            Some(with(item(), "Wins", &"x".repeat(2 * KB))),
            &[("Comet Quest", 1)],
            "what is not projected has no size in the index",
        ),
    ];
    check(&by_game(Projection::KeysOnly), cases);
}

#[test]
fn what_changes_of_projected_attributes_consume_of_an_index() {
    let item = || score("101", "Comet Quest", "5");
    let long = || "x".repeat(2 * KB);
    let included: [IndexCase; 4] = [
        (
            Some(item()),
            Some(with(item(), "Wins", "3")),
            &[("Comet Quest", 1)],
            "a projected attribute changes: one update",
        ),
        (
            Some(with(item(), "Wins", &long())),
            Some(with(item(), "Wins", "3")),
            &[("Comet Quest", 3)],
            "an update costs the larger entry: 2 KB of Wins and the rest",
        ),
        (
            Some(with(item(), "Wins", &long())),
            Some(with(score("101", "Galaxy Invaders", "5"), "Wins", "3")),
            &[("Comet Quest", 3), ("Galaxy Invaders", 1)],
            "a delete costs the old entry, a put the new",
        ),
        (
            Some(item()),
            Some(with(item(), "Losses", "1")),
            &[],
            "an attribute changes that is not among the included",
        ),
    ];
    check(&by_game(Projection::Include(vec!["Wins".to_owned()])), included);
    let all: [IndexCase; 2] = [
        (
            Some(item()),
            Some(with(item(), "Losses", "1")),
            &[("Comet Quest", 1)],
            "ALL carries whatever the item has",
        ),
        (Some(item()), Some(item()), &[], "an item written again as it was changes no index"),
    ];
    check(&by_game(Projection::All), all);
}

#[test]
fn values_that_dynamodb_holds_equal_change_no_index() {
    let index = by_game(Projection::All);
    let item = |value: Value| {
        let mut item = score("101", "Comet Quest", "5");
        item["Extra"] = value;
        item
    };
    let equal = [
        (json!({"N": "10"}), json!({"N": "1e1"})),
        (json!({"NS": ["1", "2"]}), json!({"NS": ["2.0", "1"]})),
        (json!({"SS": ["a", "b"]}), json!({"SS": ["b", "a"]})),
        (json!({"L": [{"N": "1"}]}), json!({"L": [{"N": "1.0"}]})),
        (json!({"M": {"k": {"N": "1"}}}), json!({"M": {"k": {"N": "+1"}}})),
    ];
    for (one, other) in equal {
        let writes = index.writes(Some(&item(one.clone())), Some(&item(other.clone())));
        assert!(writes.is_empty(), "{one} and {other}");
    }
    let different = [
        (json!({"S": "1"}), json!({"N": "1"})),
        (json!({"L": [{"S": "a"}, {"S": "b"}]}), json!({"L": [{"S": "b"}, {"S": "a"}]})),
        (json!({"SS": ["a"]}), json!({"SS": ["a", "b"]})),
        (json!({"M": {"k": {"S": "a"}}}), json!({"M": {"l": {"S": "a"}}})),
        (json!({"BOOL": true}), json!({"BOOL": false})),
    ];
    for (one, other) in different {
        let writes = index.writes(Some(&item(one.clone())), Some(&item(other.clone())));
        assert_eq!(writes.len(), 1, "{one} and {other}");
    }
}

#[test]
fn an_entry_has_the_size_of_what_the_index_carries() {
    let item = with(score("101", "Pong", "5"), "Wins", &"x".repeat(1_024));
    let units = |index: &Index| index.writes(None, Some(&item)).iter().map(|it| it.units).sum();
    assert_eq!(Units::whole(1), units(&by_game(Projection::KeysOnly)), "the keys alone");
    assert_eq!(Units::whole(2), units(&by_game(Projection::All)), "more than 1 KB");
}

#[test]
fn a_key_has_one_text() {
    assert_eq!(key_text(&json!({"S": "JFK#0"})).as_deref(), Some("JFK#0"));
    assert_eq!(key_text(&json!({"N": "1.50"})).as_deref(), Some("1.5"));
    assert_eq!(key_text(&json!({"B": "AAE="})).as_deref(), Some("AAE="));
    for value in [json!({"BOOL": true}), json!({"N": "one"}), json!({}), json!("JFK#0")] {
        assert_eq!(key_text(&value), None, "{value}");
    }
    let index = Index {
        partition_key: vec!["Game".to_owned(), "TopScore".to_owned()],
        sort_key: Vec::new(),
        ..by_game(Projection::KeysOnly)
    };
    let writes = index.writes(None, Some(&score("101", "Pong", "05")));
    assert_eq!(writes[0].partition_key, "Pong,5");
}
