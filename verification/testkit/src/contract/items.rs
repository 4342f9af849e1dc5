//! Single items and batch reads.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dynashard_core::ports::{Action, Clock, Consistency, Expected, ItemStore, StoreError};
use dynashard_core::{
    AttributeValue, Attributes, Generation, Lease, MAX_DEPTH, MAX_ITEM_BYTES, NewItem, Owner,
    StoredItem, Version,
};
use dynashard_keys::{
    ItemKey, Number, PartitionKey, PhysicalKey, Placement, ShardCount, ShardId, SortKey,
    SortKeyType,
};

use super::{Fixture, at, guarded, item, marker, partition, put, shard, sort_key};

/// Every type of value, with the extremes that DynamoDB takes.
pub async fn what_was_put_is_read_back(fixture: &impl Fixture) {
    let key = at(&shard("read back", fixture), sort_key(1, fixture));
    let stored = StoredItem {
        attributes: every_type(),
        generation: Generation::new(u64::MAX),
        version: Version::new(u64::MAX),
        forwarded: false,
    };
    put(&key, stored.clone(), fixture).await;
    assert_eq!(get(&key, fixture).await, Some(stored));

    let marker = marker(7);
    put(&key, marker.clone(), fixture).await;
    assert_eq!(get(&key, fixture).await, Some(marker));
}

/// Absence is an answer and no error.
pub async fn an_absent_item_is_none(fixture: &impl Fixture) {
    let key = at(&shard("absent", fixture), sort_key(1, fixture));
    assert_eq!(get(&key, fixture).await, None);
    let eventual = fixture.items().get(&key, None, Consistency::Eventual).await;
    assert_eq!(eventual.map(|read| read.value), Ok(None));
}

/// Nothing of the old item is left.
pub async fn a_put_replaces_the_whole_item(fixture: &impl Fixture) {
    let key = at(&shard("replaced", fixture), sort_key(1, fixture));
    put(&key, StoredItem { attributes: every_type(), ..item(1, 1) }, fixture).await;
    put(&key, item(1, 2), fixture).await;
    assert_eq!(get(&key, fixture).await, Some(item(1, 2)));
}

/// What the core lets through as the largest item is taken, in the shard with the longest suffix.
pub async fn the_largest_item_fits(fixture: &impl Fixture) {
    let schema = fixture.schema();
    let key = ItemKey::new(partition("largest"), sort_key(1, fixture));
    let sort_bytes = match &key.sort {
        SortKey::String(text) => text.len(),
        SortKey::Number(number) => number.stored_bytes(),
    };
    let others = key.partition.as_str().len()
        + schema.partition_key_name.len()
        + schema.sort_key_name.len()
        + sort_bytes
        + "a".len();
    let attributes = |bytes: usize| {
        Attributes::from([("a".to_owned(), AttributeValue::String("x".repeat(bytes)))])
    };
    let room = MAX_ITEM_BYTES - others;
    let largest = NewItem::new(key.clone(), attributes(room), schema).expect("the largest item");
    assert!(NewItem::new(key.clone(), attributes(room + 1), schema).is_err(), "it is the largest");

    let stored = StoredItem {
        attributes: largest.attributes().clone(),
        generation: Generation::new(u64::MAX),
        version: Version::new(u64::MAX),
        forwarded: false,
    };
    let last = key.at(ShardId::new(ShardCount::MAX), Placement::Xxh64, schema.separator);
    put(&last, stored.clone(), fixture).await;
    assert_eq!(get(&last, fixture).await, Some(stored));
}

/// What the core lets through as the item of most numbers is taken: with all their zeros they would
/// pass the 16 MB of a request.
pub async fn the_item_of_most_numbers_fits(fixture: &impl Fixture) {
    let key = ItemKey::new(partition("most numbers"), sort_key(1, fixture));
    let value = AttributeValue::Number(number("1e125"));
    let count = (MAX_ITEM_BYTES - 1_024) / (value.stored_bytes() + 1);
    let list = AttributeValue::List(vec![value; count]);
    put_and_get(key, list, fixture).await;
}

/// What the core lets through as the deepest item is taken: 31 lists or maps around a value.
pub async fn the_deepest_item_is_taken(fixture: &impl Fixture) {
    let nested = |wrap: fn(AttributeValue) -> AttributeValue| {
        (1..MAX_DEPTH).fold(AttributeValue::Null, |inner, _| wrap(inner))
    };
    let list = nested(|inner| AttributeValue::List(vec![inner]));
    let map = nested(|inner| AttributeValue::Map(Attributes::from([("a".to_owned(), inner)])));
    for (n, value) in (0..).zip([list, map]) {
        let key = ItemKey::new(partition("deepest"), sort_key(n, fixture));
        put_and_get(key, value, fixture).await;
    }
}

/// Puts an item of one attribute, which the core must let through, and reads it back.
async fn put_and_get(key: ItemKey, value: AttributeValue, fixture: &impl Fixture) {
    let attributes = Attributes::from([("a".to_owned(), value)]);
    let new = NewItem::new(key.clone(), attributes, fixture.schema()).expect("an accepted item");
    let stored = StoredItem { attributes: new.attributes().clone(), ..item(1, 1) };
    let key = key.at(ShardId::new(0), Placement::Xxh64, fixture.schema().separator);
    put(&key, stored.clone(), fixture).await;
    assert_eq!(get(&key, fixture).await, Some(stored));
}

/// Separators, spaces, control characters, and keys of the greatest length.
pub async fn keys_hold_any_characters(fixture: &impl Fixture) {
    let long = "é".repeat(PartitionKey::MAX_BYTES / 2);
    let partitions = ["any#1", "any:2:_.-", "any /?&=+% \"'", "any \u{1}\t\n\u{7f}", long.as_str()];
    let sorts = match fixture.schema().sort_key_type {
        SortKeyType::String => {
            let long = "漢".repeat(SortKey::MAX_BYTES / 3);
            ["#1", ":", " ", "\u{1}\n", "🛩", long.as_str()]
                .map(|text| SortKey::string(text).expect("a valid sort key"))
        }
        SortKeyType::Number => ["-1e125", "-0.5", "0", "1e-130", "1e125", &"9".repeat(38)]
            .map(|text| SortKey::Number(number(text))),
    };
    let mut written = BTreeMap::new();
    for text in partitions {
        for sort in &sorts {
            let partition = PartitionKey::new(text).expect("a valid partition key");
            let key = ItemKey::new(partition, sort.clone()).at(
                ShardId::new(3),
                Placement::Xxh64,
                fixture.schema().separator,
            );
            let item = item(1, 1 + u64::try_from(written.len()).expect("a few keys"));
            put(&key, item.clone(), fixture).await;
            written.insert(key, item);
        }
    }
    for (key, item) in &written {
        assert_eq!(get(key, fixture).await.as_ref(), Some(item), "{key:?}");
    }
    assert_eq!(batch_get(&written.keys().cloned().collect::<Vec<_>>(), fixture).await, written);
}

/// A write that knows the layout may overwrite what an older layout left.
/// Invariant I12.
pub async fn the_guard_lets_equal_and_higher_generations_pass(fixture: &impl Fixture) {
    let shard = shard("guard passes", fixture);
    for (n, (there, writer)) in (0..).zip([(5, 5), (5, 6), (0, 1), (u64::MAX, u64::MAX)]) {
        let key = at(&shard, sort_key(n, fixture));
        for action in [Action::Put(item(writer, 2).into()), Action::Delete] {
            put(&key, item(there, 1), fixture).await;
            let write = guarded(&key, action.clone(), writer, Expected::Any, fixture);
            assert_eq!(fixture.items().write(&write).await, Ok(1.0), "{there} {writer}");
            assert_eq!(get(&key, fixture).await, written(action));
        }
    }
}

/// A write that does not know the layout does nothing, and learns from what there is.
/// Invariant I12.
pub async fn the_guard_refuses_a_lower_generation_and_returns_what_is_there(
    fixture: &impl Fixture,
) {
    let shard = shard("guard refuses", fixture);
    for (n, there) in (0..).zip([item(6, 1), marker(6)]) {
        let key = at(&shard, sort_key(n, fixture));
        put(&key, there.clone(), fixture).await;
        for action in [Action::Put(item(5, 2).into()), Action::Delete] {
            let version = Expected::Version(Version::new(1));
            for expected in [Expected::Any, Expected::Absent, Expected::Live, version] {
                let write = guarded(&key, action.clone(), 5, expected, fixture);
                let refused = StoreError::ConditionFailed { existing: Some(there.clone().into()) };
                assert_eq!(fixture.items().write(&write).await, Err(refused), "{write:?}");
                assert_eq!(get(&key, fixture).await, Some(there.clone()));
            }
        }
    }
}

/// A marker counts as nothing, for puts and deletes.
/// Invariant I16.
pub async fn expectations_hold_of_live_items_only(fixture: &impl Fixture) {
    let shard = shard("expectations", fixture);
    let version = Version::new(1);
    let one = Expected::Version(version);
    let unchanged = |generation| Expected::Unchanged { version, generation };
    let (now, before) = (Generation::new(1), Generation::default());
    // Whether the write happens where there is: nothing, version 1, version 2, a marker.
    let table = [
        (Expected::Any, [true, true, true, true]),
        (Expected::Absent, [true, false, false, true]),
        (Expected::Live, [false, true, true, false]),
        (one, [false, true, false, false]),
        (unchanged(now), [false, true, false, false]),
        (unchanged(before), [false, false, false, false]),
        (Expected::LiveIn(now), [false, true, true, false]),
        (Expected::LiveIn(before), [false, false, false, false]),
        (Expected::Marker, [false, false, false, true]),
    ];
    let mut cases = 0;
    for (expected, happens) in table {
        let states = [None, Some(item(1, 1)), Some(item(1, 2)), Some(marker(1))];
        for (state, happens) in states.into_iter().zip(happens) {
            for action in [Action::Put(item(1, 3).into()), Action::Delete] {
                let key = at(&shard, sort_key(cases, fixture));
                cases += 1;
                if let Some(item) = &state {
                    put(&key, item.clone(), fixture).await;
                }
                let write = guarded(&key, action.clone(), 1, expected, fixture);
                let answer = fixture.items().write(&write).await;
                let case = format!("{expected:?} of {state:?}, {action:?}");
                if happens {
                    assert_eq!(answer, Ok(1.0), "{case}");
                    assert_eq!(get(&key, fixture).await, written(action), "{case}");
                } else {
                    let existing = state.clone().map(Box::new);
                    assert_eq!(answer, Err(StoreError::ConditionFailed { existing }), "{case}");
                    assert_eq!(get(&key, fixture).await, state, "{case}");
                }
            }
        }
    }
}

/// Deletes can be repeated.
pub async fn a_delete_of_nothing_succeeds(fixture: &impl Fixture) {
    let key = at(&shard("deleted", fixture), sort_key(1, fixture));
    put(&key, item(1, 1), fixture).await;
    for _ in 0..2 {
        let write = guarded(&key, Action::Delete, 1, Expected::Any, fixture);
        assert_eq!(fixture.items().write(&write).await, Ok(1.0));
        assert_eq!(get(&key, fixture).await, None);
    }
}

/// Protocol, "Lease": metadata is not used past its lease.
/// Invariant I8.
pub async fn nothing_is_sent_after_the_lease(fixture: &impl Fixture) {
    let shard = shard("lease", fixture);
    let expired = Lease::new(fixture.clock().now(), None, Duration::ZERO);
    let absent = at(&shard, sort_key(1, fixture));
    let mut write = guarded(&absent, Action::Put(item(1, 1).into()), 1, Expected::Any, fixture);
    write.lease = expired;
    assert_eq!(fixture.items().write(&write).await, Err(StoreError::LeaseExpired));
    assert_eq!(get(&absent, fixture).await, None);

    let present = at(&shard, sort_key(2, fixture));
    put(&present, item(1, 1), fixture).await;
    let mut write = guarded(&present, Action::Delete, 1, Expected::Any, fixture);
    write.lease = expired;
    assert_eq!(fixture.items().write(&write).await, Err(StoreError::LeaseExpired));
    assert_eq!(get(&present, fixture).await, Some(item(1, 1)));
}

/// In one request of 100 keys over several shards, for either consistency.
pub async fn a_batch_read_finds_what_exists(fixture: &impl Fixture) {
    let separator = fixture.schema().separator;
    let mut keys = Vec::new();
    let mut written = BTreeMap::new();
    for n in 0..100 {
        let partition = partition("batch").at(ShardId::new(n % 3), Placement::Xxh64, separator);
        let key = at(&partition, sort_key(n, fixture));
        let stored = if n % 7 == 0 { marker(1) } else { item(1, u64::from(n)) };
        if n % 2 == 0 {
            put(&key, stored.clone(), fixture).await;
            written.insert(key.clone(), stored);
        }
        keys.push(key);
    }
    assert_eq!(batch_get(&keys, fixture).await, written);
    assert_eq!(batch_get(&keys[1..2], fixture).await, BTreeMap::new());
}

/// Asks until every key was processed, and checks that none is answered twice.
async fn batch_get(
    keys: &[PhysicalKey],
    fixture: &impl Fixture,
) -> BTreeMap<PhysicalKey, StoredItem> {
    let mut found = BTreeMap::new();
    let mut left = keys.to_vec();
    while !left.is_empty() {
        let page =
            fixture.items().batch_get(&left, None, Consistency::Strong).await.expect("a batch");
        assert!(page.unprocessed.len() < left.len(), "a batch processes one key at least");
        for (key, item) in page.items {
            assert!(left.contains(&key) && !page.unprocessed.contains(&key), "{key:?}");
            assert_eq!(found.insert(key, item), None);
        }
        left = page.unprocessed;
    }
    found
}

pub(super) async fn get(key: &PhysicalKey, fixture: &impl Fixture) -> Option<StoredItem> {
    fixture.items().get(key, None, Consistency::Strong).await.expect("a strong read").value
}

fn written(action: Action) -> Option<StoredItem> {
    match action {
        Action::Put(item) => Some(StoredItem::clone(&item)),
        Action::Delete => None,
    }
}

fn number(text: &str) -> Number {
    text.parse().expect("a number")
}

fn every_type() -> Attributes {
    use AttributeValue as Value;
    let numbers = [
        "0",
        "-1.5",
        "99999999999999999999999999999999999999",
        "-0.12345678901234567890123456789012345678",
        "1e125",
        "1e-130",
        "-9.9999999999999999999999999999999999999e125",
    ]
    .map(number);
    let list = vec![Value::Map(Attributes::new()), Value::List(Vec::new()), Value::Null];
    let map = Attributes::from([
        ("list".to_owned(), Value::List(list)),
        (" ".to_owned(), Value::Bool(false)),
    ]);
    let values = [
        ("empty string", Value::String(String::new())),
        ("string", Value::String("ß 漢字 🛩 \"quoted\" \\ \u{1} \n".to_owned())),
        ("empty binary", Value::Binary(Vec::new())),
        ("binary", Value::Binary((0..=255).collect())),
        ("bool", Value::Bool(true)),
        ("null", Value::Null),
        ("list", Value::List(numbers.iter().cloned().map(Value::Number).collect())),
        ("map", Value::Map(map)),
        ("string set", Value::StringSet(BTreeSet::from(["a".to_owned(), "B".to_owned()]))),
        ("number set", Value::NumberSet(numbers.iter().cloned().collect())),
        ("binary set", Value::BinarySet(BTreeSet::from([vec![0], vec![255, 0]]))),
        // What would mean something in an expression.
        ("size", Value::Number(number("7"))),
        ("a.b[0]#:c", Value::Bool(true)),
    ];
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// By whoever is first, for good: its metadata table alone may get another name.
pub async fn a_main_table_is_claimed_once(fixture: &impl Fixture) {
    let store = fixture.items();
    let owned_by = |stack_id: &str, metadata_table: &str| Owner {
        stack_id: stack_id.to_owned(),
        metadata_table: metadata_table.to_owned(),
        is_of_this_table: true,
    };
    assert_eq!(store.owner().await, Ok(None));
    assert_eq!(store.claim(&owned_by("first", "metadata")).await, Ok(()));
    let refused = Err(StoreError::ConditionFailed { existing: None });
    assert_eq!(store.claim(&owned_by("second", "metadata")).await, refused);
    assert_eq!(store.owner().await, Ok(Some(owned_by("first", "metadata"))));
    assert_eq!(store.claim(&owned_by("first", "restored")).await, Ok(()));
    assert_eq!(store.owner().await, Ok(Some(owned_by("first", "restored"))));
}
