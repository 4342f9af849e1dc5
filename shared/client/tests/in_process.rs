//! The client over the use cases and tables in memory: what it stores, finds and refuses.

use dynashard_client::{Client, ClientError, CollectionQuery, Condition, ETag, InProcess};
use dynashard_core::ports::World;
use dynashard_core::{Directory, Settings};
use dynashard_keys::{KeyError, Sharded};
use dynashard_testkit::{ManualClock, MemoryStore, SeededEntropy, block_on};
use futures_util::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

#[path = "../examples/users.rs"]
mod users;

fn client() -> Client<InProcess> {
    let (settings, clock) = (Settings::default(), ManualClock::new());
    let store = MemoryStore::new(clock.clone(), settings.schema.clone());
    let directory = || {
        let entropy = SeededEntropy::new(2013);
        let world = World::new(store.clone(), store.clone(), clock.clone(), entropy);
        Directory::new(world, settings.clone()).pinning()
    };
    Client::new(InProcess::new(directory))
}

#[derive(Debug, Clone, PartialEq, Sharded, Serialize, Deserialize)]
#[sharded(partition(of), sort(name))]
struct Anything {
    of: String,
    name: String,
    #[serde(default)]
    exact: Option<serde_json::Number>,
    #[serde(default)]
    nested: Vec<Option<bool>>,
}

fn anything(name: &str) -> Anything {
    Anything {
        of: "things".to_owned(),
        name: name.to_owned(),
        exact: None,
        nested: vec![Some(true), None],
    }
}

#[test]
fn the_example_runs() {
    let users = block_on(users::tour(&client(), "abc")).expect("it runs");
    assert_eq!(users.len(), 19);
    assert!(users.windows(2).all(|pair| pair[0].id < pair[1].id), "in order");
    assert_eq!(users.iter().find(|user| user.id == "u07").expect("stored").logins, 1);
}

#[test]
fn a_value_comes_back_as_it_was_stored() {
    let client = client();
    let value =
        // It was read as one with another last digit.
        Anything { exact: serde_json::Number::from_f64(51.248_178_375_505_404), ..anything("ключ/ #?&+%") };
    let etag = block_on(client.put(&value)).expect("it is stored");
    let key = value.item_key().expect("a key");
    let stored = block_on(client.get::<Anything>(&key)).expect("it reads").expect("it exists");
    assert_eq!((stored.value, stored.etag), (value, etag));
    let missing = Anything::item_key_of("things", "nothing").expect("a key");
    assert_eq!(block_on(client.get::<Anything>(&missing)).expect("it reads"), None);
}

#[test]
fn a_query_is_read_to_its_end_in_either_order_and_by_prefix() {
    let client = client();
    for name in ["a1", "a2", "a3", "b1"] {
        block_on(client.put(&anything(name))).expect("it is stored");
    }
    let all = CollectionQuery::of(Anything::partition_key_of("things").expect("a key"));
    let names = |query: &CollectionQuery| {
        let values = block_on(client.query::<Anything>(query).try_collect::<Vec<_>>());
        values.expect("it reads").into_iter().map(|value| value.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&all.clone().pages_of(1)), ["a1", "a2", "a3", "b1"]);
    assert_eq!(names(&all.clone().descending().begins_with("a")), ["a3", "a2", "a1"]);
    let error = block_on(client.query::<Anything>(&all.pages_of(0)).try_collect::<Vec<_>>());
    assert_eq!(error.expect_err("no page").code(), Some("bad_parameter"));
}

#[derive(Sharded, Serialize)]
#[sharded(partition(of), sort(name))]
struct Reserved {
    of: &'static str,
    name: &'static str,
    #[serde(rename = "_ds_g")]
    guard: u8,
}

#[test]
fn what_cannot_be_stored_has_an_error() {
    let client = client();
    let error = block_on(client.put(&anything(""))).expect_err("no sort key");
    assert!(matches!(error, ClientError::Key(KeyError::EmptySortKey)), "{error}");
    assert_eq!(error.code(), Some("bad_key"));

    let reserved = Reserved { of: "things", name: "a", guard: 1 };
    let error = block_on(client.put(&reserved)).expect_err("it belongs to the system");
    assert_eq!(error.code(), Some("reserved_attribute"));

    block_on(client.put(&anything("a"))).expect("it is stored");
    let absent = block_on(client.put_if(&anything("a"), &Condition::Absent));
    assert_eq!(absent.expect_err("it exists").code(), Some("precondition_failed"));
    for tag in ["", "W/\"1\"", "\"00000000000000001\"", "\"zzzzzzzzzzzzzzzz\""] {
        let foreign = Condition::Version(ETag::new(tag));
        let refused = block_on(client.put_if(&anything("a"), &foreign)).expect_err("nobody had it");
        assert_eq!(refused.code(), Some("precondition_failed"), "{tag}");
    }
}

#[test]
fn an_item_of_another_type_is_an_error_and_not_a_value_and_others_follow_it() {
    #[derive(Debug, Sharded, Serialize, Deserialize)]
    #[sharded(partition(of), sort(name))]
    struct Other {
        of: String,
        name: String,
        age: u8,
    }
    let client = client();
    block_on(client.put(&anything("a"))).expect("it is stored");
    let other = Other { of: "things".to_owned(), name: "b".to_owned(), age: 7 };
    block_on(client.put(&other)).expect("it is stored");
    let key = Other::item_key_of("things", "a").expect("a key");
    let error = block_on(client.get::<Other>(&key)).expect_err("it has no age");
    assert!(matches!(error, ClientError::Json { .. }), "{error}");
    let all = CollectionQuery::of(Other::partition_key_of("things").expect("a key"));
    let found = block_on(client.query::<Other>(&all).collect::<Vec<_>>());
    assert!(matches!(&*found, [Err(ClientError::Json { .. }), Ok(other)] if other.age == 7));
}

#[test]
fn a_collection_gets_the_shards_of_its_type_once() {
    let client = client();
    let partition = users::User::partition_key_of("abc").expect("a key");
    block_on(client.create_collection::<users::User>(&partition)).expect("it is new");
    let again = block_on(client.create_collection::<users::User>(&partition));
    assert_eq!(again.expect_err("it exists").code(), Some("collection_exists"));
}
