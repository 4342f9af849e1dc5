//! Write-sharded indexes: pages over all shards of a value, and shards that become more under writers and readers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use dynashard_core::ports::{self, Clock, IndexPart, IndexRead, IndexStore, SortRange, StoreError};
use dynashard_core::query::{PageBudget, Query};
use dynashard_core::{
    AttributeValue, Attributes, Code, Deadline, Directory, INDEX_SHARD, IndexAttribute, IndexPage,
    IndexShards, NewItem, Precondition, Reader, SecondaryIndex, Settings, TableSchema, Throttle,
    Writer,
};
use dynashard_keys::{ItemKey, Number, PartitionKey, SortKey, SortKeyType};
use dynashard_testkit::{Fault, ManualClock, MemoryStore, Operation, SeededEntropy, block_on};

use crate::world::{World, count, sort, usual_settings};

const ITEMS: usize = 60;

/// T' of these tests.
const LEASES_END: Duration = Duration::from_millis(6_050);

fn attribute(name: &str, r#type: SortKeyType) -> IndexAttribute {
    IndexAttribute { name: name.to_owned(), r#type: Some(r#type) }
}

/// By country.
fn index(name: &str, sort: Option<&str>) -> SecondaryIndex {
    let sort = sort.map(|sort| attribute(sort, SortKeyType::Number));
    index_of(name, attribute("country", SortKeyType::String), sort)
}

fn index_of(name: &str, of: IndexAttribute, sort: Option<IndexAttribute>) -> SecondaryIndex {
    SecondaryIndex {
        name: name.to_owned(),
        is_local: false,
        partition_key: vec![of, attribute(INDEX_SHARD, SortKeyType::Number)],
        sort_key: sort.into_iter().collect(),
        ..SecondaryIndex::of_table(&TableSchema::default())
    }
}

fn world() -> World {
    let world = World::with(Settings { index_shards: Some(count(4)), ..usual_settings() });
    world.memory.be_indexed_by(vec![index("by-rank", Some("rank")), index("plain", None)]);
    world
}

fn writer(world: &World) -> Writer {
    Writer::new(world.directory().pinning())
}

/// Each is of a collection of its own; some share a rank.
fn item(n: usize, settings: &Settings) -> NewItem {
    let partition = PartitionKey::new(format!("customer {n}")).expect("a key");
    let key = ItemKey::new(partition, sort("profile"));
    let rank = Number::from(rank(n));
    let attributes = Attributes::from([
        ("country".to_owned(), AttributeValue::String("NZ".to_owned())),
        ("rank".to_owned(), AttributeValue::Number(rank)),
        ("grade".to_owned(), AttributeValue::String(grade(n))),
    ]);
    NewItem::new(key, attributes, &settings.schema).expect("an item")
}

fn put(world: &World, writer: &Writer, n: usize) {
    let item = item(n, world.settings());
    block_on(writer.put(&item, Precondition::None, world.deadline())).expect("it is put");
}

/// Those of a rank share it: `a0` to `a4`, and `b5` to `b9`.
fn grade(n: usize) -> String {
    format!("{}{}", if rank(n) < 5 { "a" } else { "b" }, rank(n))
}

fn rank(n: usize) -> u64 {
    u64::try_from(n * 7 % 10).expect("small")
}

fn read(world: &World, reader: &Reader, index: &str, query: &Query) -> IndexPage {
    let page = block_on(async {
        let index: Arc<_> = reader.index(index, world.deadline()).await?;
        reader.query_index(&index, query, PageBudget::UNLIMITED, world.deadline()).await
    });
    page.expect("a page")
}

fn of_nz() -> Query {
    Query::all(PartitionKey::new("NZ").expect("a key"))
}

/// The ranks and the customers of all pages.
fn walk(world: &World, reader: &Reader, index: &str, query: &Query) -> Vec<(u64, String)> {
    let (mut query, mut all) = (query.clone(), Vec::new());
    loop {
        let page = read(world, reader, index, &query);
        assert!(page.items.len() <= usize::try_from(query.limit).expect("small"));
        assert!(page.cursor.is_none() || !page.items.is_empty(), "{page:?}");
        all.extend(page.items.iter().map(|(key, item)| {
            let AttributeValue::Number(rank) = &item.attributes["rank"] else { panic!("{item:?}") };
            (rank.to_string().parse().expect("a rank"), key.partition.to_string())
        }));
        query.cursor = page.cursor;
        if query.cursor.is_none() {
            return all;
        }
    }
}

/// Compares what a query finds with the items that it is to find: in order by rank, each once.
fn compare(
    world: &World,
    reader: &Reader,
    index: &str,
    query: &Query,
    is_one: impl Fn(&usize) -> bool,
) {
    let mut found = walk(world, reader, index, query);
    if !query.ascending {
        found.reverse();
    }
    assert!(found.is_sorted_by_key(|(rank, _)| *rank), "{query:?}: {found:?}");
    found.sort();
    let expected = (0..ITEMS).filter(is_one).map(|n| (rank(n), format!("customer {n}")));
    let mut expected = expected.collect::<Vec<_>>();
    expected.sort();
    assert_eq!(found, expected, "{query:?}");
}

#[test]
fn pages_over_all_shards_of_a_value_are_in_order_and_show_each_item_once() {
    let world = world();
    let writer = writer(&world);
    (0..ITEMS).for_each(|n| put(&world, &writer, n));
    let reader = world.reader();
    let number = |n: u64| SortKey::Number(Number::from(n));
    let ranges = [
        SortRange::All,
        SortRange::From(number(3)),
        SortRange::To(number(6)),
        SortRange::Between(number(2), number(5)),
    ];
    for (range, ascending) in ranges.into_iter().flat_map(|r| [(r.clone(), true), (r, false)]) {
        for limit in [1, 2, 7, 1_000] {
            let query = Query { range: range.clone(), ascending, limit, ..of_nz() };
            let is_one = |n: &usize| range.contains(&number(rank(*n)));
            compare(&world, &reader, "by-rank", &query, is_one);
        }
    }
    for (limit, ascending) in [(1, true), (7, true), (7, false), (1_000, true)] {
        let query = Query { limit, ascending, ..of_nz() };
        let found = walk(&world, &reader, "plain", &query);
        let customers = found.iter().map(|(_, customer)| customer).collect::<BTreeSet<_>>();
        assert_eq!((found.len(), customers.len()), (ITEMS, ITEMS));
    }
    assert_eq!(read(&world, &reader, "plain", &of_nz()).shards, 4);
}

#[test]
fn what_begins_so_is_found_in_all_shards_and_a_value_may_be_a_number() {
    let world = world();
    let grade_key = attribute("grade", SortKeyType::String);
    let by_grade = index_of("by-grade", attribute("country", SortKeyType::String), Some(grade_key));
    let of_rank = index_of("of-rank", attribute("rank", SortKeyType::Number), None);
    world.memory.be_indexed_by(vec![by_grade, of_rank]);
    let writer = writer(&world);
    (0..ITEMS).for_each(|n| put(&world, &writer, n));
    let reader = world.reader();
    for (prefix, ascending) in [("a", true), ("a", false), ("b", true), ("b", false), ("a3", true)]
    {
        for limit in [1, 2, 7, 1_000] {
            let range = SortRange::BeginsWith(prefix.to_owned());
            let query = Query { range, ascending, limit, ..of_nz() };
            let is_one = |n: &usize| grade(*n).starts_with(prefix);
            compare(&world, &reader, "by-grade", &query, is_one);
        }
    }
    let query = Query { limit: 2, ..Query::all(PartitionKey::new("3").expect("a key")) };
    let found = walk(&world, &reader, "of-rank", &query);
    assert!(found.iter().all(|(rank, _)| *rank == 3));
    assert_eq!(found.len(), (0..ITEMS).filter(|n| rank(*n) == 3).count());
}

#[test]
fn readers_go_by_more_shards_before_writers_do_and_every_item_is_found_meanwhile() {
    let world = world();
    let writer = writer(&world);
    (0..ITEMS).for_each(|n| put(&world, &writer, n));
    let early = world.reader();
    assert_eq!(read(&world, &early, "plain", &of_nz()).shards, 4);
    let operator = world.directory();
    let pinned = || operator.pinned();
    let grown = block_on(pinned().grow_index_shards(None, count(16), world.deadline()));
    let growing = grown.expect("it grows").expect("it has grown");
    assert_eq!((growing.written(), growing.read()), (count(4), count(16)));
    // Nothing grows meanwhile, and nobody brings it into force before all can know.
    let again = block_on(pinned().grow_index_shards(None, count(64), world.deadline()));
    assert_eq!(again.expect("an answer"), None);
    let written = || {
        let shards = block_on(pinned().index_shards(world.deadline())).expect("an answer");
        shards.expect("shards").written()
    };
    let mut passed = Duration::ZERO;
    while written() == count(4) {
        (0..ITEMS).for_each(|n| put(&world, &writer, n));
        assert_eq!(walk(&world, &early, "by-rank", &of_nz()).len(), ITEMS, "after {passed:?}");
        world.clock.advance(Duration::from_millis(500));
        passed += Duration::from_millis(500);
    }
    assert!(passed > LEASES_END, "{passed:?}");
    (0..ITEMS).for_each(|n| put(&world, &writer, n));
    let page = read(&world, &early, "plain", &of_nz());
    assert_eq!((page.shards, page.items.len()), (16, ITEMS));
}

/// Indexes that become more shards while a page of them is read, and of which everything is written anew then.
struct Growing {
    memory: MemoryStore,
    clock: ManualClock,
    operator: Directory,
    writer: Writer,
    settings: Settings,
    is_done: AtomicBool,
}

#[async_trait]
impl IndexStore for Growing {
    async fn indexes(&self) -> Result<Vec<SecondaryIndex>, StoreError> {
        self.memory.indexes().await
    }

    async fn query_index(&self, read: &IndexRead) -> Result<IndexPart, StoreError> {
        let part = self.memory.query_index(read).await;
        if !self.is_done.swap(true, Ordering::Relaxed) {
            let deadline = Deadline::after(self.clock.now(), Duration::from_mins(1));
            let pinned = self.operator.pinned();
            let grown =
                pinned.grow_index_shards(None, count(16), deadline).await.expect("it grows");
            self.clock.advance(LEASES_END);
            pinned
                .settle_index_shards(grown.expect("it has grown"), deadline)
                .await
                .expect("it is in force");
            self.clock.advance(LEASES_END);
            for n in 0..ITEMS {
                let item = item(n, &self.settings);
                self.writer.put(&item, Precondition::None, deadline).await.expect("it is put");
            }
        }
        part
    }
}

/// What was in the first shard when that was read is found where it has gone to, and nothing is missed that has left the others.
#[test]
fn a_page_is_read_again_if_the_shards_have_become_more_meanwhile() {
    let world = world();
    let writer = writer(&world);
    (0..ITEMS).for_each(|n| put(&world, &writer, n));
    let growing = Growing {
        memory: world.memory.clone(),
        clock: world.clock.clone(),
        operator: world.directory(),
        writer,
        settings: world.settings().clone(),
        is_done: AtomicBool::new(false),
    };
    let store = world.store.clone();
    let ports = ports::World::new(store.clone(), store, world.clock.clone(), SeededEntropy::new(7));
    let reader = Reader::new(Directory::new(ports.with_indexes(growing), world.settings().clone()));
    let page = block_on(async {
        let deadline = world.deadline_in(Duration::from_mins(1));
        let index = reader.index("plain", deadline).await?;
        reader.query_index(&index, &of_nz(), PageBudget::UNLIMITED, deadline).await
    });
    let page = page.expect("a page");
    assert_eq!((page.shards, page.items.len()), (16, ITEMS));
}

#[test]
fn only_a_hot_partition_of_a_write_sharded_index_gives_its_values_more_shards() {
    let hot = "IndexWriteKeyRangeThroughputExceeded";
    for (reason, name, grown) in [
        (hot, Some("by-rank"), Some(16)),
        (hot, None, Some(16)),
        (hot, Some("by-sort-key"), None),
        (hot, Some("replica-1"), None),
        ("IndexWriteAccountLimitExceeded", Some("by-rank"), None),
        ("TableWriteKeyRangeThroughputExceeded", None, None),
    ] {
        let world = world();
        let sort = vec![attribute("sk", SortKeyType::String)];
        let plain = SecondaryIndex { partition_key: sort, ..index("by-sort-key", None) };
        world.memory.be_indexed_by(vec![index("by-rank", Some("rank")), plain]);
        let writer = writer(&world);
        put(&world, &writer, 0);
        world.clock.advance(Duration::from_millis(700));
        // A value has 4 shards of 3 units each.
        let asked = 1.5 * 4.0 * 3.0;
        world.ask_for_of(&PartitionKey::of_index_shards(), asked, world.clock.now().wall);
        let arn = |name| format!("arn:aws:dynamodb:us-east-1:123456789012:table/t/index/{name}");
        let throttle = Throttle::from_reason(reason, name.map(arn));
        world.store.script(Operation::Write, [Fault::Refuse(StoreError::Throttled(throttle))]);
        put(&world, &writer, 1);
        let shards = block_on(world.directory().pinned().index_shards(world.deadline()));
        let shards = shards.expect("an answer").expect("shards");
        let read = Some(shards.read().get()).filter(|_| shards.is_growing());
        assert_eq!((shards.written(), read), (count(4), grown), "{reason} {name:?}");
    }
}

#[test]
fn shards_follow_the_parameter_up_and_never_down() {
    let world = world();
    let with = |shards: u32| {
        let settings = Settings { index_shards: Some(count(shards)), ..usual_settings() };
        let directory = world.directory_of(settings).pinning();
        block_on(directory.lease().hold(world.deadline())).expect("it is read");
        let shards = block_on(directory.pinned().index_shards(world.deadline()));
        let shards: IndexShards = shards.expect("an answer").expect("shards");
        (shards.written(), shards.read())
    };
    let of = |written: u32, read: u32| (count(written), count(read));
    assert_eq!(with(4), of(4, 4));
    assert_eq!(with(1), of(4, 4));
    assert_eq!(with(9), of(4, 16));
    assert_eq!(with(64), of(4, 16), "one growth after the other");
}

#[test]
fn an_index_whose_shards_nobody_has_told_is_not_ready() {
    let world = World::new();
    world.memory.be_indexed_by(vec![index("plain", None)]);
    let reader = world.reader();
    let refused = block_on(async {
        let index = reader.index("plain", world.deadline()).await?;
        reader.query_index(&index, &of_nz(), PageBudget::UNLIMITED, world.deadline()).await
    });
    assert_eq!(refused.expect_err("refused").code(), Code::IndexNotReady);
}
