//! Pages of one shard.

use std::ops::RangeInclusive;

use dynashard_core::ports::{Consistency, ItemStore, ShardPage, ShardQuery, SortRange};
use dynashard_core::{AttributeValue, Attributes, StoredItem};
use dynashard_keys::{PhysicalPartitionKey, Placement, ShardId, SortKey, SortKeyType};

use super::{Fixture, at, item, marker, partition, put, shard, sort_key};

/// Ascending and descending, whatever the order of the puts.
pub async fn pages_are_in_order_both_ways(fixture: &impl Fixture) {
    let shard = shard("order", fixture);
    for n in [3, 100, 1, 2, 20, 10] {
        put(&at(&shard, sort_key(n, fixture)), item(1, u64::from(n)), fixture).await;
    }
    let mut ascending = all(&shard);
    let page = page(&ascending, fixture).await;
    let expected = [1, 2, 3, 10, 20, 100].map(|n| (sort_key(n, fixture), item(1, u64::from(n))));
    assert_eq!(page.items, expected);

    ascending.ascending = false;
    let page = self::page(&ascending, fixture).await;
    assert!(page.items.iter().eq(expected.iter().rev()), "{:?}", page.items);
}

/// By UTF-8, and neither by UTF-16 nor by any language's rules. For string sort keys only.
pub async fn string_keys_are_in_the_order_of_their_bytes(fixture: &impl Fixture) {
    if fixture.schema().sort_key_type != SortKeyType::String {
        return;
    }
    // In UTF-16 the last one would come before the one ahead of it.
    let ascending = ["\u{1}", "1", "10", "9", "B", "a", "aa", "b", "z", "é", "\u{ff5e}", "🛩"];
    let keys = ascending.map(|text| SortKey::string(text).expect("a valid sort key"));
    keys_are_in_order("bytes", &keys, fixture).await;
}

/// For number sort keys only.
pub async fn number_keys_are_in_the_order_of_their_values(fixture: &impl Fixture) {
    if fixture.schema().sort_key_type != SortKeyType::Number {
        return;
    }
    let ascending = [
        "-1e125",
        "-12345678901234567890123456789012345678",
        "-10",
        "-9.5",
        "-9",
        "-1e-130",
        "0",
        "1e-130",
        "0.5",
        "9",
        "10",
        "99999999999999999999999999999999999998",
        "99999999999999999999999999999999999999",
        "1e125",
    ];
    let keys = ascending.map(|text| SortKey::Number(text.parse().expect("a number")));
    keys_are_in_order("values", &keys, fixture).await;
}

/// Every kind of range, both ways, with bounds that exist and bounds that do not.
pub async fn ranges_include_their_bounds(fixture: &impl Fixture) {
    let shard = shard("ranges", fixture);
    for n in (10..=50).step_by(10) {
        put(&at(&shard, sort_key(n, fixture)), item(1, u64::from(n)), fixture).await;
    }
    let key = |n| sort_key(n, fixture);
    let mut cases = vec![
        (SortRange::All, vec![10, 20, 30, 40, 50]),
        (SortRange::From(key(30)), vec![30, 40, 50]),
        (SortRange::From(key(31)), vec![40, 50]),
        (SortRange::To(key(30)), vec![10, 20, 30]),
        (SortRange::To(key(29)), vec![10, 20]),
        (SortRange::Between(key(20), key(40)), vec![20, 30, 40]),
        (SortRange::Between(key(11), key(39)), vec![20, 30]),
        (SortRange::Between(key(30), key(30)), vec![30]),
        (SortRange::Between(key(31), key(39)), vec![]),
        (SortRange::From(key(51)), vec![]),
        (SortRange::To(key(9)), vec![]),
    ];
    if fixture.schema().sort_key_type == SortKeyType::String {
        cases.push((SortRange::BeginsWith("0000003".to_owned()), vec![30]));
        cases.push((SortRange::BeginsWith("00000030".to_owned()), vec![30]));
        cases.push((SortRange::BeginsWith("00".to_owned()), vec![10, 20, 30, 40, 50]));
        cases.push((SortRange::BeginsWith("1".to_owned()), vec![]));
    }
    for (range, mut expected) in cases {
        for ascending in [true, false] {
            let query = ShardQuery { range: range.clone(), ascending, ..all(&shard) };
            let found = page(&query, fixture).await.items;
            assert_eq!(numbers(&found, fixture, 10..=50), expected, "{range:?}");
            expected.reverse();
        }
    }
}

/// DynamoDB names the next page whenever the limit was reached, even where nothing follows.
pub async fn a_page_ends_at_its_limit_and_says_where_to_go_on(fixture: &impl Fixture) {
    let shard = shard("limit", fixture);
    fill(&shard, 1..=5, fixture).await;
    for ascending in [true, false] {
        for limit in 1..=7 {
            let page = page(&ShardQuery { limit, ascending, ..all(&shard) }, fixture).await;
            assert_eq!(page.items.len(), usize::try_from(limit.min(5)).expect("small"));
            let last = page.items.last().map(|(sort, _)| sort.clone());
            assert_eq!(page.next, last.filter(|_| limit <= 5), "limit {limit}");
        }
    }
}

/// The key to go on from is excluded, in the direction of the query, and may be gone by now.
pub async fn a_page_begins_behind_a_key_that_need_not_exist(fixture: &impl Fixture) {
    let shard = shard("after", fixture);
    for n in [10, 20, 30] {
        put(&at(&shard, sort_key(n, fixture)), item(1, u64::from(n)), fixture).await;
    }
    let cases = [
        (true, 9, vec![10, 20, 30]),
        (true, 10, vec![20, 30]),
        (true, 15, vec![20, 30]),
        (true, 30, vec![]),
        (true, 31, vec![]),
        (false, 31, vec![30, 20, 10]),
        (false, 30, vec![20, 10]),
        (false, 25, vec![20, 10]),
        (false, 10, vec![]),
        (false, 9, vec![]),
    ];
    for (ascending, after, expected) in cases {
        let after = Some(sort_key(after, fixture));
        let query = ShardQuery { ascending, after, ..all(&shard) };
        let page = page(&query, fixture).await;
        assert_eq!(numbers(&page.items, fixture, 10..=30), expected, "{query:?}");
        assert_eq!(page.next, None);
    }
    let range = SortRange::Between(sort_key(10, fixture), sort_key(25, fixture));
    let after = Some(sort_key(15, fixture));
    let page = page(&ShardQuery { range, after, ..all(&shard) }, fixture).await;
    assert_eq!(numbers(&page.items, fixture, 10..=30), [20], "within a range");
}

/// With any limit, both ways, within a range too.
pub async fn walking_the_pages_gives_everything_once(fixture: &impl Fixture) {
    let shard = shard("walk", fixture);
    fill(&shard, 1..=23, fixture).await;
    let between = SortRange::Between(sort_key(3, fixture), sort_key(20, fixture));
    for (range, bounds) in [(SortRange::All, 1..=23), (between, 3..=20)] {
        for ascending in [true, false] {
            for limit in [1, 2, 6, 22, 23, 24] {
                let query = ShardQuery { range: range.clone(), ascending, limit, ..all(&shard) };
                let mut expected = bounds.clone().collect::<Vec<_>>();
                if !ascending {
                    expected.reverse();
                }
                let walked = walk(query, fixture).await;
                assert_eq!(numbers(&walked, fixture, 1..=23), expected, "limit {limit}");
            }
        }
    }
}

/// DynamoDB reads 1 MB for one page.
pub async fn a_page_ends_early_where_items_are_large(fixture: &impl Fixture) {
    let shard = shard("large", fixture);
    for n in 1..=4 {
        put(&at(&shard, sort_key(n, fixture)), sized(350 * 1_024), fixture).await;
    }
    let first = page(&all(&shard), fixture).await;
    assert!((1..4).contains(&first.items.len()), "{} items", first.items.len());
    assert_eq!(first.next, first.items.last().map(|(sort, _)| sort.clone()));
    let walked = walk(all(&shard), fixture).await;
    assert_eq!(numbers(&walked, fixture, 1..=4), [1, 2, 3, 4]);
}

/// Markers are read and paid for too. A page is rounded up to 4 KB as a whole, and costs half if it
/// need not be current.
pub async fn a_page_says_what_it_read_and_paid(fixture: &impl Fixture) {
    let shard = shard("cost", fixture);
    // With keys and names six items take between 9 and 12 KB: three read units.
    for n in 1..=6 {
        put(&at(&shard, sort_key(n, fixture)), sized(1_600), fixture).await;
    }
    put(&at(&shard, sort_key(7, fixture)), marker(1), fixture).await;
    for (limit, items_read, rcu) in [(100, 7, 3.0), (2, 2, 1.0)] {
        for (consistency, price) in [(Consistency::Strong, 1.0), (Consistency::Eventual, 0.5)] {
            let page = page(&ShardQuery { limit, consistency, ..all(&shard) }, fixture).await;
            assert_eq!(page.items_read, items_read);
            assert!((page.consumed_rcu - price * rcu).abs() < 1e-9, "{}", page.consumed_rcu);
        }
    }
}

/// Shard 1 is not shard 10.
pub async fn a_shard_holds_its_own_items_only(fixture: &impl Fixture) {
    let partition = partition("own");
    let shards = [0, 1, 10]
        .map(|n| partition.at(ShardId::new(n), Placement::Xxh64, fixture.schema().separator));
    for (n, shard) in (1..).zip(&shards) {
        put(&at(shard, sort_key(n, fixture)), item(1, u64::from(n)), fixture).await;
    }
    for (n, shard) in (1..).zip(&shards) {
        let page = page(&all(shard), fixture).await;
        assert_eq!(numbers(&page.items, fixture, 1..=3), [n]);
    }
}

/// It costs as much as the smallest page.
pub async fn an_empty_shard_is_an_empty_page(fixture: &impl Fixture) {
    let nothing = ShardPage { items: Vec::new(), next: None, items_read: 0, consumed_rcu: 1.0 };
    assert_eq!(page(&all(&shard("empty", fixture)), fixture).await, nothing);
}

/// Everything, in one strong page where it fits.
fn all(shard: &PhysicalPartitionKey) -> ShardQuery {
    ShardQuery {
        partition: shard.clone(),
        range: SortRange::All,
        ascending: true,
        after: None,
        limit: 1_000,
        fields: None,
        consistency: Consistency::Strong,
        replica: None,
    }
}

fn sized(bytes: usize) -> StoredItem {
    let text = AttributeValue::String("x".repeat(bytes));
    StoredItem { attributes: Attributes::from([("text".to_owned(), text)]), ..item(1, 1) }
}

async fn fill(shard: &PhysicalPartitionKey, keys: RangeInclusive<u32>, fixture: &impl Fixture) {
    for n in keys {
        put(&at(shard, sort_key(n, fixture)), item(1, u64::from(n)), fixture).await;
    }
}

async fn page(query: &ShardQuery, fixture: &impl Fixture) -> ShardPage {
    fixture.items().query(query).await.expect("a page")
}

/// All pages from the query's on.
async fn walk(mut query: ShardQuery, fixture: &impl Fixture) -> Vec<(SortKey, StoredItem)> {
    let mut items = Vec::new();
    loop {
        let page = page(&query, fixture).await;
        assert!(page.next.is_none() || !page.items.is_empty(), "a page that goes on has an item");
        items.extend(page.items);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return items,
        }
    }
}

/// The numbers whose [`sort_key`] the items have.
fn numbers(
    items: &[(SortKey, StoredItem)],
    fixture: &impl Fixture,
    of: RangeInclusive<u32>,
) -> Vec<u32> {
    let number = |sort: &SortKey| {
        of.clone().find(|n| sort_key(*n, fixture) == *sort).expect("a key that was put")
    };
    items.iter().map(|(sort, _)| number(sort)).collect()
}

/// Puts items under `ascending` in another order, and reads them back in theirs.
async fn keys_are_in_order(test: &str, ascending: &[SortKey], fixture: &impl Fixture) {
    let shard = shard(test, fixture);
    for key in ascending.iter().step_by(2).chain(ascending.iter().skip(1).step_by(2)) {
        put(&at(&shard, key.clone()), item(1, 1), fixture).await;
    }
    let found = page(&all(&shard), fixture).await.items;
    assert_eq!(found.into_iter().map(|(sort, _)| sort).collect::<Vec<_>>(), ascending);
    for (at, key) in ascending.iter().enumerate() {
        let after = Some(key.clone());
        let found = page(&ShardQuery { after, ..all(&shard) }, fixture).await.items;
        assert!(found.iter().map(|(sort, _)| sort).eq(&ascending[at + 1..]), "after {key:?}");
        let range = SortRange::From(key.clone());
        let found = page(&ShardQuery { range, ..all(&shard) }, fixture).await.items;
        assert!(found.iter().map(|(sort, _)| sort).eq(&ascending[at..]), "from {key:?}");
    }
}
