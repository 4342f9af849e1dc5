//! Reads of some attributes of an item, and what single reads cost.

use dynashard_core::ports::{Consistency, ItemStore, ShardQuery, SortRange};
use dynashard_core::{AttributeValue, Attributes, Fields, MAX_FIELDS, StoredItem};
use dynashard_keys::PhysicalKey;

use super::{Fixture, at, item, marker, put, shard, sort_key};

/// By every kind of read, and with what the system itself keeps in the item. An attribute that is not
/// there is left out, and so is the key, which comes beside the item.
pub async fn only_the_fields_that_were_named_are_returned(fixture: &impl Fixture) {
    let shard = shard("fields", fixture);
    let [whole, forwarded] = [1, 2].map(|n| at(&shard, sort_key(n, fixture)));
    let stored = StoredItem { attributes: attributes(&["a", "b", "c"]), ..item(7, 9) };
    put(&whole, stored.clone(), fixture).await;
    put(&forwarded, marker(8), fixture).await;
    let schema = fixture.schema();
    let (pk, sk) = (schema.partition_key_name.as_str(), schema.sort_key_name.as_str());
    let absent = (0..MAX_FIELDS).map(|n| format!("absent {n}")).collect::<Vec<_>>();
    let absent = absent.iter().map(String::as_str).collect::<Vec<_>>();
    for (named, found) in [
        (&["a", "c"][..], &["a", "c"][..]),
        (&["c", "pk", "sk", "absent"], &["c"]),
        (&[pk, sk, "b"], &["b"]),
        (&["pk"], &[]),
        (&absent, &[]),
    ] {
        let expected = StoredItem { attributes: attributes(found), ..stored.clone() };
        let read = every_read(&whole, &fields(named), fixture).await;
        assert!(read.iter().all(|item| *item == expected), "{named:?}: {read:?}");
        let read = every_read(&forwarded, &fields(named), fixture).await;
        assert!(read.iter().all(|item| *item == marker(8)), "{named:?}: {read:?}");
    }
}

/// Top-level names only: a dot or a bracket is a part of the name, and no word is reserved.
pub async fn names_are_taken_as_they_are(fixture: &impl Fixture) {
    let key = at(&shard("names", fixture), sort_key(1, fixture));
    let names = ["a.b", "a[0]", "a", "#a", ":a", "size", "a,b", " ", "\u{e9}", "\"", "\\"];
    let stored = StoredItem { attributes: attributes(&names), ..item(1, 1) };
    put(&key, stored.clone(), fixture).await;
    for name in names {
        let expected = StoredItem { attributes: attributes(&[name]), ..stored.clone() };
        let read = every_read(&key, &fields(&[name]), fixture).await;
        assert!(read.iter().all(|item| *item == expected), "{name:?}: {read:?}");
    }
}

/// A read pays for the whole item, and for an absent one as for the smallest; a transaction pays
/// twice as much as a strong read, and an eventually consistent one half.
pub async fn a_part_of_an_item_costs_as_much_as_all_of_it(fixture: &impl Fixture) {
    let shard = shard("price", fixture);
    let [large, absent] = [1, 2].map(|n| at(&shard, sort_key(n, fixture)));
    // With key and names between 8 and 12 KB: three read units.
    let text = AttributeValue::String("x".repeat(9_000));
    let large_item = Attributes::from([("text".to_owned(), text)]);
    put(&large, StoredItem { attributes: large_item, ..item(1, 1) }, fixture).await;
    let items = fixture.items();
    for fields in [None, Some(fields(&["other"]))] {
        let fields = fields.as_ref();
        for (consistency, price) in [(Consistency::Strong, 1.0), (Consistency::Eventual, 0.5)] {
            for (key, units) in [(&large, 3.0), (&absent, 1.0)] {
                let read = items.get(key, fields, consistency).await.expect("a read");
                assert_units(read.consumed_rcu, price * units);
            }
            let keys = [large.clone(), absent.clone()];
            let batch = items.batch_get(&keys, fields, consistency).await.expect("a batch");
            assert_eq!(batch.unprocessed, []);
            assert_units(batch.consumed_rcu, price * (3.0 + 1.0));
        }
        let both = items.get_both([&large, &absent], fields).await.expect("both");
        assert_units(both.consumed_rcu, 2.0 * (3.0 + 1.0));
    }
}

#[track_caller]
fn assert_units(consumed: f64, expected: f64) {
    assert!((consumed - expected).abs() < 1e-9, "{consumed} and not {expected}");
}

/// One item, by each of the four operations that read.
async fn every_read(key: &PhysicalKey, fields: &Fields, fixture: &impl Fixture) -> [StoredItem; 4] {
    let (items, strong) = (fixture.items(), Consistency::Strong);
    let got = items.get(key, Some(fields), strong).await.expect("a read").value;
    let elsewhere = at(&shard("elsewhere", fixture), key.sort.clone());
    let both = items.get_both([&elsewhere, key], Some(fields)).await.expect("both").value;
    let [nothing, from_both] = both;
    assert_eq!(nothing, None);
    let mut batch =
        items.batch_get(std::slice::from_ref(key), Some(fields), strong).await.expect("a batch");
    let query = ShardQuery {
        partition: key.partition.clone(),
        range: SortRange::Between(key.sort.clone(), key.sort.clone()),
        ascending: true,
        after: None,
        limit: 10,
        fields: Some(fields.clone()),
        consistency: strong,
        replica: None,
    };
    let mut page = items.query(&query).await.expect("a page");
    let from_batch = batch.items.pop().map(|(_, item)| item);
    let from_page = page.items.pop().map(|(_, item)| item);
    [got, from_both, from_batch, from_page].map(|item| item.expect("the item"))
}

fn fields(names: &[&str]) -> Fields {
    Fields::new(names.iter().map(|name| (*name).to_owned())).expect("valid fields")
}

fn attributes(names: &[&str]) -> Attributes {
    let text = |name: &&str| AttributeValue::String(format!("the value of {name}"));
    names.iter().map(|name| ((*name).to_owned(), text(name))).collect()
}
