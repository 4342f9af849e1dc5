//! Pages of secondary indexes: they are as long as they may be, exact and in order, whatever the layout, and refused where they
//! cannot be.

use std::collections::BTreeSet;
use std::sync::Arc;

use dynashard_core::ports::{Consistency, SortRange};
use dynashard_core::query::{PageBudget, Query};
use dynashard_core::{
    AttributeValue, Attributes, Code, CollectionMetadata, Error, Fields, Generation,
    IndexAttribute, IndexPage, Phase, Reader, SecondaryIndex, StoredItem, TableSchema, Told,
    Version,
};
use dynashard_keys::{
    ItemKey, Number, PartitionKey, PhysicalKey, Placement, ShardId, SortKey, SortKeyType,
};
use dynashard_testkit::block_on;
use proptest::prelude::*;

use crate::world::{World, code, count, home, in_shard, key, marker, metadata, partition, sort};

/// How many items are laid out.
const ITEMS: usize = 60;
const GENERATION: u64 = 3;

fn attribute(name: &str, r#type: SortKeyType) -> IndexAttribute {
    IndexAttribute { name: name.to_owned(), r#type: Some(r#type) }
}

fn index(name: &str, partition: &str, sort: Option<IndexAttribute>) -> SecondaryIndex {
    SecondaryIndex {
        name: name.to_owned(),
        is_local: false,
        partition_key: vec![attribute(partition, SortKeyType::String)],
        sort_key: sort.into_iter().collect(),
        ..SecondaryIndex::of_table(&TableSchema::default())
    }
}

/// All kinds of indexes.
fn indexes() -> Vec<SecondaryIndex> {
    let by_rank = || Some(attribute("rank", SortKeyType::Number));
    let local = SecondaryIndex { is_local: true, ..index("local", "pk", by_rank()) };
    let of_keys = |index| SecondaryIndex {
        projected: Some(BTreeSet::new()),
        tells: Told::default(),
        ..index
    };
    vec![
        local,
        index("global", "pk", by_rank()),
        index("by-country", "country", by_rank()),
        index("plain", "country", None),
        of_keys(index("keys-of-country", "country", None)),
        of_keys(index("keys", "pk", None)),
        SecondaryIndex { is_active: false, ..index("making", "country", None) },
        index("inverted", "sk", Some(attribute("pk", SortKeyType::String))),
    ]
}

/// Some share a rank, some have none, and a third is of another country.
fn item(n: usize, version: u64) -> StoredItem {
    let country = if n.is_multiple_of(3) { "NZ" } else { "DE" };
    let mut attributes = Attributes::new();
    attributes.insert("country".to_owned(), AttributeValue::String(country.to_owned()));
    if !n.is_multiple_of(7) {
        let rank = u64::try_from(n * 7 % 10).expect("small");
        attributes.insert("rank".to_owned(), AttributeValue::Number(Number::from(rank)));
    }
    StoredItem {
        attributes,
        generation: Generation::new(GENERATION),
        version: Version::new(version),
        forwarded: false,
    }
}

fn name(n: usize) -> String {
    format!("k{n:02}")
}

fn rank_of(item: &StoredItem) -> Option<SortKey> {
    match item.attributes.get("rank") {
        Some(AttributeValue::Number(number)) => Some(SortKey::Number(number.clone())),
        _ => None,
    }
}

/// A collection of this layout, whose items all have the version 1.
fn laid_out(shards: u32) -> World {
    let world = World::new();
    world.memory.be_indexed_by(indexes());
    world.lay_out(GENERATION, shards, Placement::Xxh64);
    for n in 0..ITEMS {
        world.memory.place(&home(&name(n), shards), item(n, 1));
    }
    world
}

/// A collection between 2 and 4 shards, in which items lie at the old home, at the new one, at both, or have left a marker.
/// All have the version 1, but for what is out of date at the old home.
fn moving() -> World {
    let world = World::new();
    world.memory.be_indexed_by(indexes());
    let phase = Phase::Move { from: count(2), to: count(4) };
    let metadata = CollectionMetadata { phase, ..metadata(GENERATION, 4, Placement::Xxh64) };
    world.memory.place_metadata(metadata);
    for n in 0..ITEMS {
        let (old, new) = (home(&name(n), 2), home(&name(n), 4));
        let is_moved = old != new;
        match n % 4 {
            0 if is_moved => world.memory.place(&old, item(n, 1)),
            1 if is_moved => {
                world.memory.place(&new, item(n, 1));
                world.memory.place(&old, item(n + 1, 9));
            }
            2 if is_moved => {
                world.memory.place(&new, item(n, 1));
                world.memory.place(&old, marker(GENERATION));
            }
            _ => world.memory.place(&new, item(n, 1)),
        }
        // What an earlier change has left over.
        world.memory.place(&in_shard(&name(n), 17), item(n, 9));
    }
    world
}

fn of(index: &str, value: &str) -> (String, Query) {
    (index.to_owned(), Query::all(PartitionKey::new(value).expect("a key")))
}

fn read(world: &World, reader: &Reader, index: &str, query: &Query) -> Result<IndexPage, Error> {
    block_on(async {
        let index = reader.index(index, world.deadline()).await?;
        reader.query_index(&index, query, PageBudget::UNLIMITED, world.deadline()).await
    })
}

/// All pages of so many items.
fn walk(world: &World, index: &str, query: &Query) -> Vec<(ItemKey, StoredItem)> {
    let (reader, mut query, mut all) = (world.reader(), query.clone(), Vec::new());
    loop {
        let page = read(world, &reader, index, &query).expect("a page");
        assert!(page.items.len() <= usize::try_from(query.limit).expect("small"));
        assert!(page.cursor.is_none() || !page.items.is_empty(), "{page:?}");
        all.extend(page.items);
        query.cursor = page.cursor;
        if query.cursor.is_none() {
            return all;
        }
    }
}

/// What a query is to find: by rank, where the index has one, and by sort key.
fn expected(has_rank: bool, query: &Query, is_one: impl Fn(&StoredItem) -> bool) -> Vec<String> {
    let all = (0..ITEMS).map(|n| (item(n, 1), name(n))).filter(|(item, _)| is_one(item));
    let all = all.filter_map(|(item, name)| {
        let rank = rank_of(&item);
        let counts = !has_rank || rank.as_ref().is_some_and(|rank| query.range.contains(rank));
        counts.then(|| (rank.filter(|_| has_rank), name))
    });
    let mut all = all.collect::<Vec<_>>();
    all.sort();
    if !query.ascending {
        all.reverse();
    }
    all.into_iter().map(|(_, name)| name).collect()
}

fn number(n: u64) -> SortKey {
    SortKey::Number(Number::from(n))
}

#[test]
fn an_index_by_collection_is_read_over_all_shards_in_order() {
    for world in [laid_out(1), laid_out(4), moving()] {
        for index in ["local", "global"] {
            let ranges = [
                SortRange::All,
                SortRange::From(number(3)),
                SortRange::Between(number(2), number(5)),
            ];
            for (range, ascending) in
                ranges.into_iter().flat_map(|r| [(r.clone(), true), (r, false)])
            {
                for limit in [1, 7, 1_000] {
                    let query =
                        Query { range: range.clone(), ascending, limit, ..Query::all(partition()) };
                    let found = walk(&world, index, &query);
                    assert!(found.iter().all(|(key, item)| {
                        key.partition == partition() && item.version == Version::new(1)
                    }));
                    let found = found.iter().map(|(key, _)| key.sort.to_string());
                    assert_eq!(
                        found.collect::<Vec<_>>(),
                        expected(true, &query, |_| true),
                        "{index}: {query:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn an_index_by_another_attribute_shows_logical_keys_and_each_item_once() {
    for (world, is_moving) in [(laid_out(1), false), (laid_out(4), false), (moving(), true)] {
        // Those of another collection are in the same index, and what is the system's own is not an item.
        let other = ItemKey::new(PartitionKey::new("JFK").expect("a key"), sort("z"));
        world.memory.place(
            &other.at(ShardId::new(0), Placement::Xxh64, world.settings().schema.separator),
            StoredItem { generation: Generation::new(0), ..item(1, 1) },
        );
        let cell = PartitionKey::new("EWR").expect("a key").of_cell(7, 1);
        let cell = ItemKey::new(cell, sort("k01")).at(
            ShardId::new(0),
            Placement::Xxh64,
            world.settings().schema.separator,
        );
        world.memory.place(&cell, item(1, 1));
        for (index, has_rank) in [("by-country", true), ("plain", false)] {
            for (limit, ascending) in [(1_000, true), (1_000, false)] {
                let (_, query) = of(index, "DE");
                let query = Query { limit, ascending, ..query };
                let page = read(&world, &world.reader(), index, &query).expect("a page");
                assert_eq!((page.shards, page.is_moving, &page.cursor), (1, is_moving, &None));
                assert!(page.items.iter().all(|(_, item)| item.version == Version::new(1)));
                let is_of_ewr = |key: &ItemKey| key.partition == partition();
                let others = page.items.iter().filter(|(key, _)| !is_of_ewr(key));
                assert!(others.map(|(key, _)| key).eq([&other]));
                let mut found = page
                    .items
                    .iter()
                    .filter(|(key, _)| is_of_ewr(key))
                    .map(|(key, item)| (rank_of(item).filter(|_| has_rank), key.sort.to_string()))
                    .collect::<Vec<_>>();
                let is_in_order = |pair: &[(Option<SortKey>, String)]| {
                    if ascending { pair[0].0 <= pair[1].0 } else { pair[0].0 >= pair[1].0 }
                };
                assert!(found.windows(2).all(is_in_order), "{found:?}");
                found.sort();
                let is_german = |item: &StoredItem| {
                    item.attributes["country"] == AttributeValue::String("DE".to_owned())
                };
                let expected = expected(has_rank, &Query { ascending: true, ..query }, is_german);
                assert_eq!(found.into_iter().map(|(_, name)| name).collect::<Vec<_>>(), expected);
            }
        }
    }
}

#[test]
fn pages_of_one_country_go_on_where_the_last_has_ended() {
    let world = laid_out(4);
    let (index, query) = of("by-country", "DE");
    let whole = walk(&world, &index, &Query { limit: 1_000, ..query.clone() });
    assert_eq!(whole.len(), 34);
    world.memory.split_pages(3, usize::MAX);
    for limit in [1, 5, 1_000] {
        assert_eq!(walk(&world, &index, &Query { limit, ..query.clone() }), whole);
    }
}

/// An index is behind its table: what has moved is in it at the old home, at both, or as a marker that looks like an item.
#[test]
fn what_an_index_does_not_tell_the_table_does() {
    let world = moving();
    // As if the index had not seen that it was moved: the version is that of the item.
    let moved = (0..ITEMS)
        .find(|n| !n.is_multiple_of(7) && home(&name(*n), 2) != home(&name(*n), 4))
        .expect("one moves");
    world.memory.place(&home(&name(moved), 2), item(moved, 1));
    world.memory.place(&home(&name(moved), 4), item(moved, 1));
    let (index, query) = of("keys", "EWR");
    let fields = Fields::new(["sk".to_owned()]).expect("fields");
    for limit in [1, 1_000] {
        let query = Query { fields: Some(fields.clone()), limit, ..query.clone() };
        let found = walk(&world, &index, &query);
        let found = found.iter().map(|(key, _)| key.sort.to_string()).collect::<Vec<_>>();
        assert_eq!(found, (0..ITEMS).map(name).collect::<Vec<_>>());
    }
    let found = walk(&world, "local", &Query { limit: 1, ..Query::all(partition()) });
    assert_eq!(found.iter().filter(|(key, _)| key.sort == sort(&name(moved))).count(), 1);
}

#[test]
fn a_cursor_goes_on_under_another_layout() {
    let world = laid_out(2);
    let query = Query { limit: 20, ..Query::all(partition()) };
    let first = read(&world, &world.reader(), "local", &query).expect("a page");
    world.reshard(GENERATION + 1, 8);
    let rest = walk(&world, "local", &Query { cursor: first.cursor, ..query.clone() });
    let found = first.items.iter().chain(&rest).map(|(key, _)| key.sort.to_string());
    assert_eq!(found.collect::<Vec<_>>(), expected(true, &query, |_| true));
}

#[test]
fn items_ahead_of_the_metadata_have_it_be_read_again() {
    let world = laid_out(2);
    let reader = world.reader();
    let query = Query { limit: 1_000, ..Query::all(partition()) };
    read(&world, &reader, "global", &query).expect("a page");
    world.reshard(GENERATION + 1, 8);
    for index in ["global", "by-country"] {
        let query = if index == "global" { query.clone() } else { of(index, "DE").1 };
        let before = read(&world, &world.reader(), index, &query).expect("a page");
        assert_eq!(read(&world, &reader, index, &query).expect("a page").items, before.items);
    }
}

/// Each reading of the page found one collection ahead, and the sixth gave up as if a table had been restored.
#[test]
fn regression_a_page_beside_many_growths_at_once_was_refused() {
    let world = World::new();
    world.memory.be_indexed_by(indexes());
    let partitions = (0..12).map(|n| PartitionKey::new(format!("p{n:02}")).expect("a key"));
    let partitions = partitions.collect::<Vec<_>>();
    let put = |generation| {
        for partition in &partitions {
            let key = ItemKey::new(partition.clone(), sort("k00"));
            let at = key.at(ShardId::new(0), Placement::Xxh64, TableSchema::default().separator);
            let generation = Generation::new(generation);
            world.memory.place(&at, StoredItem { generation, ..item(0, 1) });
        }
    };
    put(0);
    let reader = world.reader();
    let (index, query) = of("plain", "NZ");
    let before = read(&world, &reader, &index, &query).expect("a page");
    assert_eq!(before.items.len(), partitions.len());
    for partition in &partitions {
        let phase = Phase::Forward { from: count(1), to: count(4) };
        let begun = metadata(GENERATION, 1, Placement::Xxh64);
        world.memory.place_metadata(CollectionMetadata {
            phase,
            partition: partition.clone(),
            ..begun
        });
    }
    put(GENERATION);
    let beside = read(&world, &reader, &index, &query).expect("a page");
    assert_eq!(keys_of(beside), keys_of(before));
}

/// Moves what another count moves, of a collection of two shards, while readers may not know of that.
fn forward(world: &World) {
    let phase = Phase::Forward { from: count(2), to: count(4) };
    let begun = metadata(GENERATION + 1, 2, Placement::Xxh64);
    world.memory.place_metadata(CollectionMetadata { phase, ..begun });
    for n in 0..ITEMS {
        let (old, new) = (home(&name(n), 2), home(&name(n), 4));
        if old != new {
            let generation = Generation::new(GENERATION + 1);
            world.memory.place(&new, StoredItem { generation, ..item(n, 1) });
            world.memory.place(&old, marker(GENERATION + 1));
        }
    }
}

fn keys_of(page: IndexPage) -> Vec<ItemKey> {
    page.items.into_iter().map(|(key, _)| key).collect()
}

/// A marker has no index key, so nothing in the shards that are known tells of an item that has left them.
#[test]
fn regression_a_strong_read_of_an_index_missed_what_had_moved_unknown_to_it() {
    let world = laid_out(2);
    let reader = world.reader();
    let strong = Consistency::Strong;
    let query = Query { limit: 1_000, consistency: strong, ..Query::all(partition()) };
    let before = keys_of(read(&world, &reader, "local", &query).expect("a page"));
    forward(&world);
    let page = read(&world, &reader, "local", &query).expect("a page");
    assert!(page.is_moving);
    assert_eq!(keys_of(page), before);
}

/// An entry without its generation, in a shard that is not known yet, was taken for what an earlier change had left.
#[test]
fn regression_an_index_of_keys_alone_lost_what_had_moved_unknown_to_the_reader() {
    let world = laid_out(2);
    let reader = world.reader();
    let (index, query) = of("keys-of-country", "DE");
    let fields = Some(Fields::new(["sk".to_owned()]).expect("fields"));
    let query = Query { limit: 1_000, fields, ..query };
    let all = || {
        let page = read(&world, &reader, &index, &query).expect("a page");
        keys_of(page).into_iter().collect::<BTreeSet<_>>()
    };
    let before = all();
    forward(&world);
    assert_eq!(all(), before);
}

/// Its checksum tells accidents apart, and neither a forger nor an index that was made anew by other keys.
#[test]
fn regression_a_cursor_that_its_index_cannot_have_was_sent_to_dynamodb() {
    let world = laid_out(2);
    let of_country = index("it", "country", None);
    world.memory.be_indexed_by([of_country]);
    let (index_name, query) = of("it", "DE");
    let query = Query { limit: 1, ..query };
    let cursor = read(&world, &world.reader(), &index_name, &query).expect("a page").cursor;
    world.memory.be_indexed_by([index("it", "sk", None)]);
    let again = Query { cursor, ..query };
    assert_eq!(code(read(&world, &world.reader(), &index_name, &again)), Code::BadCursor);
}

#[test]
fn what_cannot_be_read_is_refused_before_anything_is() {
    let world = laid_out(2);
    let reader = world.reader();
    let fields = |name: &str| Some(Fields::new([name.to_owned()]).expect("fields"));
    let all = Query::all(PartitionKey::new("DE").expect("a key"));
    let text = SortRange::BeginsWith("a".to_owned());
    let cursor = read(&world, &reader, "by-country", &Query { limit: 1, ..all.clone() });
    let cursor = cursor.expect("a page").cursor;
    assert!(cursor.is_some());
    let queries = world.memory.requests().queries;
    for (index, query, refused) in [
        ("another", all.clone(), Code::IndexNotFound),
        ("making", all.clone(), Code::IndexNotReady),
        ("inverted", all.clone(), Code::IndexNotSupported),
        ("keys", all.clone(), Code::IndexProjectsTooLittle),
        ("keys", Query { fields: fields("rank"), ..all.clone() }, Code::IndexProjectsTooLittle),
        ("global", Query { consistency: Consistency::Strong, ..all.clone() }, Code::BadParameter),
        ("plain", Query { range: SortRange::From(number(1)), ..all.clone() }, Code::BadParameter),
        ("global", Query { range: text, ..all.clone() }, Code::BadParameter),
        ("global", Query { limit: 1_001, ..all.clone() }, Code::BadParameter),
        ("global", Query { cursor: cursor.clone(), ..all.clone() }, Code::CursorMismatch),
        ("by-country", Query { cursor: Some("AmLQ".to_owned()), ..all.clone() }, Code::BadCursor),
        (
            "by-country",
            Query { ascending: false, cursor: cursor.clone(), ..all.clone() },
            Code::CursorMismatch,
        ),
    ] {
        assert_eq!(code(read(&world, &reader, index, &query)), refused, "{index}: {query:?}");
    }
    let mismatch =
        block_on(reader.query(&Query { cursor, ..all }, PageBudget::UNLIMITED, world.deadline()));
    assert_eq!(code(mismatch), Code::CursorMismatch);
    assert_eq!(world.memory.requests().queries, queries);
}

#[test]
fn an_index_that_has_gone_is_looked_for_once_more() {
    let world = laid_out(2);
    let reader = world.reader();
    let (index, query) = of("by-country", "DE");
    read(&world, &reader, &index, &query).expect("a page");
    world.memory.be_indexed_by([]);
    assert_eq!(code(read(&world, &reader, &index, &query)), Code::IndexNotFound);
}

#[test]
fn only_what_is_asked_for_is_returned() {
    let world = laid_out(4);
    let (index, query) = of("by-country", "DE");
    let fields = Some(Fields::new(["country".to_owned()]).expect("fields"));
    let page = read(&world, &world.reader(), &index, &Query { fields, ..query }).expect("a page");
    assert!(!page.items.is_empty());
    assert!(page.items.iter().all(|(_, item)| item.attributes.keys().eq(["country"])));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// However items are on their way, each with its rank, whether it has moved, and whether it was put past what is at the old home;
    /// and however pages of the store end.
    #[test]
    fn an_index_by_collection_is_exact_while_items_move(
        items in prop::collection::vec((0..4_u64, any::<bool>(), any::<bool>()), 1..40),
        (from, to) in prop::sample::select(vec![(1_u32, 2_u32), (2, 4), (4, 2), (4, 1)]),
        (limit, page_items, ascending) in (1..12_u32, 1..6_usize, any::<bool>()),
        is_local in any::<bool>(),
    ) {
        let world = World::new();
        world.memory.be_indexed_by(indexes());
        let phase = Phase::Move { from: count(from), to: count(to) };
        world.memory.place_metadata(CollectionMetadata { phase, ..metadata(GENERATION, to, Placement::Xxh64) });
        let of_rank = |rank: u64, version| {
            let attributes = [("rank".to_owned(), AttributeValue::Number(Number::from(rank)))];
            StoredItem { attributes: attributes.into(), ..item(0, version) }
        };
        let place = |at: &PhysicalKey, item| world.memory.place(at, item);
        for (n, (rank, has_moved, was_put_past)) in items.iter().copied().enumerate() {
            let (old, new) = (home(&name(n), from), home(&name(n), to));
            if old == new || has_moved || was_put_past {
                place(&new, of_rank(rank, 1));
            }
            if old != new && was_put_past {
                place(&old, of_rank(rank + 1, 9));
            } else if old != new {
                place(&old, if has_moved { marker(GENERATION) } else { of_rank(rank, 1) });
            }
        }
        world.memory.split_pages(page_items, usize::MAX);
        let query = Query { limit, ascending, ..Query::all(partition()) };
        let found = walk(&world, if is_local { "local" } else { "global" }, &query);
        let found = found.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
        let mut expected = items.iter().enumerate().map(|(n, (rank, ..))| (*rank, key(&name(n)))).collect::<Vec<_>>();
        expected.sort();
        if !ascending {
            expected.reverse();
        }
        prop_assert_eq!(found, expected.into_iter().map(|(_, key)| key).collect::<Vec<_>>());
    }
}

/// What a reader is handed: one index, however often it is asked for.
#[test]
fn the_indexes_are_described_once_a_minute() {
    let world = laid_out(2);
    let reader = world.reader();
    let ask = || block_on(reader.index("local", world.deadline())).expect("it is there");
    let first = ask();
    assert!(Arc::ptr_eq(&first, &ask()));
    world.clock.advance(std::time::Duration::from_mins(1));
    assert!(!Arc::ptr_eq(&first, &ask()));
}
