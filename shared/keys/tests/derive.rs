//! `#[derive(Sharded)]`: the keys of types, and what does not compile.

use std::borrow::Cow;

use dynashard_keys::{
    KeyError, Number, Placement, Separator, ShardCount, Sharded, SortKey, SortKeyType,
};

#[derive(Sharded)]
#[sharded(prefix = "user.v1.User", partition(tenant_id), sort(id), shards = 16)]
struct User {
    tenant_id: String,
    id: String,
}

#[derive(Sharded)]
#[sharded(partition(region, customer), sort(at), placement = "jump", shards = 3)]
struct Reading<'a> {
    region: &'a str,
    customer: u32,
    at: i64,
}

#[derive(Sharded)]
#[sharded(partition(day), sort(carrier, number), placement = "random")]
struct Flight<'a> {
    day: Number,
    carrier: Cow<'a, str>,
    number: Box<str>,
}

fn user(tenant_id: &str, id: &str) -> User {
    User { tenant_id: tenant_id.to_owned(), id: id.to_owned() }
}

/// "Dynamo DB Sharding": `user.v1.User:abc:11`.
#[test]
fn a_type_has_the_key_that_it_says() {
    let user = user("abc", "123");
    let physical = user.physical_key(Separator::Colon).expect("a key").expect("calculated");
    assert_eq!(physical.partition.as_str(), "user.v1.User:abc:11");
    assert_eq!(physical.sort, SortKey::string("123").expect("a sort key"));
    assert_eq!((User::PLACEMENT, User::SHARDS.get()), (Placement::Xxh64, 16));
    assert_eq!(User::SORT_KEY_TYPE, SortKeyType::String);
}

#[test]
fn several_fields_are_joined_and_a_number_sorts_as_one() {
    let reading = Reading { region: "eu", customer: 7, at: -5 };
    let key = reading.item_key().expect("a key");
    assert_eq!(key.partition.as_str(), "eu:7");
    assert_eq!(key.sort, SortKey::parse("-5", SortKeyType::Number).expect("a number"));
    assert_eq!(Reading::item_key_of("eu", &7, &-5), Ok(key));
    assert_eq!(
        (Reading::PLACEMENT, Reading::SHARDS),
        (Placement::Jump, ShardCount::new(3).expect("3"))
    );
    assert_eq!(Reading::SORT_KEY_TYPE, SortKeyType::Number);

    let day = Number::from(20_140_709);
    let flight = Flight { day: day.clone(), carrier: "UA".into(), number: "1545:a".into() };
    let key = flight.item_key().expect("a key");
    assert_eq!((key.partition.as_str(), key.sort.to_string().as_str()), ("20140709", "UA:1545:a"));
    assert_eq!(Flight::partition_key_of(&day), Ok(key.partition));
    assert_eq!(flight.physical_key(Separator::Colon), Ok(None), "only its write knows");
    assert_eq!(Flight::SHARDS, ShardCount::ONE);
}

#[test]
fn fields_that_make_no_key_have_errors() {
    assert_eq!(user("abc", "").item_key(), Err(KeyError::EmptySortKey));
    assert_eq!(user("abc", "").physical_key(Separator::Colon), Err(KeyError::EmptySortKey));
    assert_eq!(user("a:b", "1").partition_key().expect("one field").as_str(), "user.v1.User:a:b");
    // Joined, `eu:1`, `7` would be the same as `eu`, `1:7` of other fields.
    let error = Reading { region: "eu:1", customer: 7, at: 0 }.item_key();
    assert_eq!(error, Err(KeyError::SeparatorInField { field: "region" }));
    let flight = Flight { day: Number::from(1), carrier: "U:A".into(), number: "1".into() };
    assert_eq!(flight.sort_key(), Err(KeyError::SeparatorInField { field: "carrier" }));
    assert_eq!(user("", "1").partition_key(), Err(KeyError::EmptyField { field: "tenant_id" }));
    let flight = Flight { day: Number::from(1), carrier: "".into(), number: "1".into() };
    assert_eq!(flight.sort_key(), Err(KeyError::EmptyField { field: "carrier" }));
    assert!(matches!(
        user(&"x".repeat(2_000), "1").item_key(),
        Err(KeyError::PartitionKeyTooLong { .. })
    ));
}

#[test]
fn what_makes_no_key_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_errors/*.rs");
}

/// The crate as another one might re-export it, with one function that shows its use.
mod reexported {
    pub(crate) use dynashard_keys::*;

    pub(crate) fn join_parts(
        _: Option<&str>,
        parts: &[(&'static str, String)],
    ) -> Result<String, KeyError> {
        dynashard_keys::join_parts(Some("reexported"), parts)
    }
}

#[test]
fn the_crate_is_found_where_the_attribute_says() {
    #[derive(reexported::Sharded)]
    #[sharded(crate = "crate::reexported", partition(tenant_id), sort(at))]
    struct Login {
        tenant_id: String,
        at: u64,
    }

    let login = Login { tenant_id: "abc".to_owned(), at: 7 };
    assert_eq!(login.partition_key().expect("a key").as_str(), "reexported:abc");
}
