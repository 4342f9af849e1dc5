//! Queries against a reference: one sorted list of what lives in the collection.

use std::collections::BTreeMap;
use std::time::Duration;

use dynashard_core::ports::{Consistency, SortRange};
use dynashard_core::query::{MAX_LIMIT, PageBudget, Query, QueryPage, Strategy};
use dynashard_core::{
    AttributeValue, Attributes, Code, Error, Generation, Kind, StoredItem, Version,
};
use dynashard_keys::{
    ItemKey, PhysicalKey, PhysicalPartitionKey, Placement, Separator, ShardId, SortKey, SortKeyType,
};
use dynashard_testing::{Fault, Operation, block_on};
use proptest::prelude::{Just, ProptestConfig, any, prop, prop_assert, prop_assert_eq, prop_oneof};
use proptest::strategy::{BoxedStrategy, Strategy as _};
use proptest::test_runner::TestCaseError;

use crate::world::{
    LEASE, Reads, World, code, count, in_shard, metadata, partition, shard, sort, stored, text_of,
};

/// The generation of every collection here; items may be older.
const GENERATION: u64 = 3;

/// What lies somewhere in the collection.
#[derive(Debug, Clone)]
struct Placed {
    sort: SortKey,
    bytes: usize,
    generation: u64,
    lies: Lies,
}

#[derive(Debug, Clone, Copy)]
enum Lies {
    /// Where it belongs. In a random collection, in the shard that this number selects.
    AtHome(u32),
    /// In the shard that this number selects, though it does not belong there: a query must not
    /// show it.
    Astray(u32),
    /// As a marker, in the shard that this number selects.
    AsMarker(u32),
}

/// A collection, a query of it, and how DynamoDB splits its pages.
#[derive(Debug, Clone)]
struct Case {
    sort_key_type: SortKeyType,
    placement: Placement,
    shards: u32,
    placed: Vec<Placed>,
    range: SortRange,
    ascending: bool,
    limit: u32,
    page_items: usize,
    page_bytes: usize,
    /// The most bytes of a page of the query.
    budget: usize,
}

fn any_sort_key(sort_key_type: SortKeyType) -> BoxedStrategy<SortKey> {
    let text = match sort_key_type {
        SortKeyType::String => "[ab#é]{1,4}",
        SortKeyType::Number => "-?[0-9]{1,2}(\\.5)?(e1)?",
    };
    text.prop_map(move |text| SortKey::parse(&text, sort_key_type).expect("a sort key")).boxed()
}

fn any_range(sort_key_type: SortKeyType) -> BoxedStrategy<SortRange> {
    let key = || any_sort_key(sort_key_type);
    let between = (key(), key()).prop_map(|(a, b)| {
        if a <= b { SortRange::Between(a, b) } else { SortRange::Between(b, a) }
    });
    let ranges = prop_oneof![
        2 => Just(SortRange::All),
        1 => key().prop_map(SortRange::From),
        1 => key().prop_map(SortRange::To),
        1 => between,
    ];
    match sort_key_type {
        SortKeyType::Number => ranges.boxed(),
        SortKeyType::String => {
            let prefix = "[ab#é]{1,2}".prop_map(SortRange::BeginsWith);
            prop_oneof![4 => ranges, 1 => prefix].boxed()
        }
    }
}

fn any_placed(sort_key_type: SortKeyType) -> BoxedStrategy<Placed> {
    let lies = prop_oneof![
        4 => any::<u32>().prop_map(Lies::AtHome),
        1 => any::<u32>().prop_map(Lies::Astray),
        1 => any::<u32>().prop_map(Lies::AsMarker),
    ];
    (any_sort_key(sort_key_type), 0..200_usize, 0..=GENERATION, lies)
        .prop_map(|(sort, bytes, generation, lies)| Placed { sort, bytes, generation, lies })
        .boxed()
}

fn any_layout() -> BoxedStrategy<(Placement, u32)> {
    prop_oneof![
        prop::sample::select(vec![1, 2, 4, 8, 16]).prop_map(|shards| (Placement::Xxh64, shards)),
        (1..=12_u32).prop_map(|shards| (Placement::Jump, shards)),
        (1..=12_u32).prop_map(|shards| (Placement::Random, shards)),
    ]
    .boxed()
}

fn any_case() -> impl proptest::strategy::Strategy<Value = Case> {
    let sort_key_type = prop_oneof![Just(SortKeyType::String), Just(SortKeyType::Number)];
    sort_key_type.prop_flat_map(|sort_key_type| {
        let collection = (any_layout(), prop::collection::vec(any_placed(sort_key_type), 0..60));
        let query = (any_range(sort_key_type), any::<bool>(), 1..=40_u32);
        let splits = (
            prop_oneof![Just(usize::MAX), 1..6_usize],
            prop_oneof![Just(usize::MAX), 1..800_usize],
            prop_oneof![Just(usize::MAX), 1..2_000_usize],
        );
        (collection, query, splits).prop_map(
            move |(
                ((placement, shards), placed),
                (range, ascending, limit),
                (page_items, page_bytes, budget),
            )| Case {
                sort_key_type,
                placement,
                shards,
                placed,
                range,
                ascending,
                limit,
                page_items,
                page_bytes,
                budget,
            },
        )
    })
}

impl Case {
    fn world(&self) -> World {
        let world = World::with_sort_keys(self.sort_key_type);
        world.lay_out(GENERATION, self.shards, self.placement);
        world.memory.split_pages(self.page_items, self.page_bytes);
        for (version, placed) in (0..).zip(&self.placed) {
            let item = StoredItem {
                attributes: Attributes::from([(
                    "text".to_owned(),
                    AttributeValue::String("x".repeat(placed.bytes)),
                )]),
                generation: Generation::new(placed.generation),
                version: Version::new(version),
                forwarded: false,
            };
            let key = ItemKey::new(partition(), placed.sort.clone());
            let shards = self.placement.shards(count(self.shards));
            let selected = |n: u32| {
                shards.clone().nth(usize::try_from(n % self.shards).expect("small")).expect("one")
            };
            let home = self.placement.home(&key, count(self.shards));
            let (at, item) = match placed.lies {
                Lies::AtHome(n) => (home.unwrap_or_else(|| selected(n)), item),
                Lies::Astray(n) => (selected(n), item),
                Lies::AsMarker(n) => (
                    selected(n),
                    StoredItem { attributes: Attributes::new(), forwarded: true, ..item },
                ),
            };
            world.memory.place(&key.at(at, Separator::Hash), item);
        }
        world
    }

    /// What the whole query must return, in its order: of an item that a random collection holds
    /// twice, the one in the lowest shard.
    fn expected(&self, world: &World) -> Vec<(SortKey, StoredItem)> {
        let mut living = BTreeMap::<SortKey, (ShardId, StoredItem)>::new();
        for (at, item) in world.memory.contents() {
            let (_, shard) = PhysicalPartitionKey::parse(at.partition.as_str(), Separator::Hash)
                .expect("a physical key");
            let key = ItemKey::new(partition(), at.sort.clone());
            let home = self.placement.home(&key, count(self.shards));
            let is_lower = living.get(&at.sort).is_none_or(|(other, _)| shard < *other);
            if item.is_live()
                && home.is_none_or(|home| home == shard)
                && self.range.contains(&at.sort)
                && is_lower
            {
                living.insert(at.sort, (shard, item));
            }
        }
        let mut items =
            living.into_iter().map(|(sort, (_, item))| (sort, item)).collect::<Vec<_>>();
        if !self.ascending {
            items.reverse();
        }
        items
    }

    fn query(&self, strategy: Strategy) -> Query {
        Query {
            range: self.range.clone(),
            ascending: self.ascending,
            limit: self.limit,
            strategy,
            ..Query::all(partition())
        }
    }

    /// Reads all pages, and checks what holds of each of them.
    fn walk(
        &self,
        world: &World,
        reader: &Reads,
        mut query: Query,
        mut between_pages: impl FnMut(),
    ) -> Result<Vec<(SortKey, StoredItem)>, TestCaseError> {
        let measure = |_: &SortKey, item: &StoredItem| size(item);
        let budget = PageBudget { max_bytes: self.budget, measure: &measure };
        let mut items = Vec::new();
        // A page that is not the last brings an item at least.
        for _ in 0..=self.placed.len() {
            // Longer than all the leases that faults let run out.
            let deadline = world.deadline_in(Duration::from_mins(10));
            let page = block_on(reader.query(&query, budget, deadline))
                .map_err(|e| TestCaseError::fail(e.to_string()))?;
            let bytes = page.items.iter().map(|(_, item)| size(item)).sum::<usize>();
            prop_assert!(page.items.len() <= usize::try_from(self.limit).expect("small"));
            prop_assert!(bytes <= self.budget || page.items.len() == 1);
            prop_assert!(page.items_read >= u64::try_from(page.items.len()).expect("small"));
            items.extend(page.items);
            match page.cursor {
                None => return Ok(items),
                Some(cursor) => query.cursor = Some(cursor),
            }
            between_pages();
        }
        Err(TestCaseError::fail("the pages do not end"))
    }

    fn check_ordered(&self, world: &World) -> Result<(), TestCaseError> {
        let query = self.query(Strategy::Ordered);
        let items = self.walk(world, &world.reader(), query, || {})?;
        prop_assert_eq!(items, self.expected(world));
        Ok(())
    }

    fn check_parallel(&self, world: &World) -> Result<(), TestCaseError> {
        let query = self.query(Strategy::Parallel);
        let mut items = self.walk(world, &world.reader(), query, || {})?;
        let mut expected = self.expected(world);
        if self.placement == Placement::Random {
            // A repetition may come on another page, and from another shard.
            items.iter().try_for_each(|(sort, item)| {
                let somewhere = (1..=self.shards)
                    .map(shard)
                    .map(|partition| PhysicalKey { partition, sort: sort.clone() });
                let mut stored = somewhere.filter_map(|at| world.memory.stored(&at));
                prop_assert!(stored.any(|stored| stored == *item));
                Ok(())
            })?;
            items.sort_by(|(a, _), (b, _)| a.cmp(b));
            items.dedup_by(|(a, _), (b, _)| a == b);
            expected.sort_by(|(a, _), (b, _)| a.cmp(b));
            let keys = |items: Vec<(SortKey, _)>| {
                items.into_iter().map(|(sort, _)| sort).collect::<Vec<_>>()
            };
            prop_assert_eq!(keys(items), keys(expected));
        } else {
            items.sort_by(|(a, _), (b, _)| a.cmp(b));
            expected.sort_by(|(a, _), (b, _)| a.cmp(b));
            prop_assert_eq!(items, expected);
        }
        Ok(())
    }
}

fn size(item: &StoredItem) -> usize {
    item.attributes.values().map(AttributeValue::stored_bytes).sum()
}

/// What may happen to a request without harm to its query.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    None,
    Throttle,
    LeaseEndsBefore,
    LeaseEndsAfter,
}

impl Trouble {
    fn fault(self, world: &World) -> Fault {
        match self {
            Self::None => Fault::before(|| {}),
            Self::Throttle => Fault::throttle(),
            Self::LeaseEndsBefore => Fault::before(world.passing(LEASE)),
            Self::LeaseEndsAfter => Fault::after(world.passing(LEASE)),
        }
    }
}

fn any_trouble() -> impl proptest::strategy::Strategy<Value = Vec<Trouble>> {
    let trouble = prop_oneof![
        3 => Just(Trouble::None),
        3 => Just(Trouble::Throttle),
        1 => Just(Trouble::LeaseEndsBefore),
        1 => Just(Trouble::LeaseEndsAfter),
    ];
    prop::collection::vec(trouble, 0..40)
}

proptest::proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ordered_pages_are_the_sorted_reference(case in any_case()) {
        case.check_ordered(&case.world())?;
    }

    #[test]
    fn parallel_pages_are_the_reference_in_any_order(case in any_case()) {
        case.check_parallel(&case.world())?;
    }

    #[test]
    fn trouble_on_the_way_changes_no_page(case in any_case(), trouble in any_trouble()) {
        for check in [Case::check_ordered, Case::check_parallel] {
            let world = case.world();
            world.store.script(Operation::Query, trouble.iter().map(|t| t.fault(&world)));
            check(&case, &world)?;
        }
    }

    #[test]
    fn an_ordered_query_survives_any_reshards_between_its_pages(
        case in any_case(),
        counts in prop::collection::vec(0..5_u32, 1..20),
    ) {
        let case = Case {
            placement: Placement::Xxh64,
            shards: 1,
            placed: case.placed.into_iter().map(|p| Placed { lies: Lies::AtHome(0), ..p }).collect(),
            ..case
        };
        let world = case.world();
        let expected = case.expected(&world);
        let mut counts = (GENERATION + 1..).zip(counts.into_iter().map(|n| 1 << n));
        let reshard = || if let Some((generation, shards)) = counts.next() {
            world.reshard(generation, shards);
        };
        // The reader keeps its metadata for a lease, and learns from what it finds.
        let query = case.query(Strategy::Ordered);
        let items = case.walk(&world, &world.reader(), query, reshard)?;
        // A move changes nothing of an item but its generation.
        let moved = |(sort, item)| (sort, StoredItem { generation: Generation::new(0), ..item });
        let items = items.into_iter().map(moved).collect::<Vec<_>>();
        prop_assert_eq!(items, expected.into_iter().map(moved).collect::<Vec<_>>());
    }
}

fn names(page: &QueryPage) -> Vec<String> {
    page.items.iter().map(|(sort, _)| sort.to_string()).collect()
}

/// A collection of 40 items, `00` to `39`.
fn forty(shards: u32) -> World {
    let world = World::new();
    world.lay_out(GENERATION, shards, Placement::Xxh64);
    for n in 0..40 {
        world.place(&format!("{n:02}"), GENERATION, shards);
    }
    world
}

fn page(world: &World, reader: &Reads, query: &Query) -> Result<QueryPage, Error> {
    block_on(reader.query(query, PageBudget::UNLIMITED, world.deadline()))
}

fn both() -> [Query; 2] {
    [Strategy::Ordered, Strategy::Parallel]
        .map(|strategy| Query { strategy, ..Query::all(partition()) })
}

#[test]
fn a_collection_that_was_never_written_is_an_empty_page() {
    let world = World::new();
    for query in both() {
        let page = page(&world, &world.reader(), &query).expect("a page");
        let expected = QueryPage {
            items: Vec::new(),
            cursor: None,
            shards: count(1),
            items_read: 0,
            consumed_rcu: 0.0,
        };
        assert_eq!(page, expected);
    }
}

#[test]
fn a_query_that_dynamodb_would_refuse_is_refused_first() {
    let number = |text: &str| SortKey::parse(text, SortKeyType::Number).expect("a number");
    let with_range = |range| Query { range, ..Query::all(partition()) };
    let with_limit = |limit| Query { limit, ..Query::all(partition()) };
    let strings = [
        with_limit(0),
        with_limit(MAX_LIMIT + 1),
        with_range(SortRange::BeginsWith(String::new())),
        with_range(SortRange::BeginsWith("x".repeat(1_025))),
        with_range(SortRange::Between(sort("b"), sort("a"))),
        with_range(SortRange::From(number("1"))),
        with_range(SortRange::To(number("1"))),
        with_range(SortRange::Between(number("1"), number("2"))),
        with_range(SortRange::Between(sort("a"), number("2"))),
    ];
    let numbers = [
        with_range(SortRange::BeginsWith("1".to_owned())),
        with_range(SortRange::From(sort("a"))),
        with_range(SortRange::To(sort("a"))),
        with_range(SortRange::Between(number("2"), number("1"))),
    ];
    for (sort_key_type, queries) in
        [(SortKeyType::String, strings.as_slice()), (SortKeyType::Number, &numbers)]
    {
        let world = World::with_sort_keys(sort_key_type);
        for query in queries {
            let refused = page(&world, &world.reader(), query);
            assert_eq!(code(refused), Code::BadParameter, "{query:?}");
        }
        assert_eq!(world.memory.requests().total(), 0);
    }
}

#[test]
fn a_page_asks_each_shard_about_once_and_reads_little_in_vain() {
    let world = World::new();
    world.lay_out(GENERATION, 16, Placement::Xxh64);
    for n in 0..2_000 {
        world.place(&format!("{n:04}"), GENERATION, 16);
    }
    let reader = world.reader();
    for query in both() {
        let before = world.memory.requests().queries;
        let page = page(&world, &reader, &query).expect("a page");
        let queries = world.memory.requests().queries - before;
        assert!((16..=20).contains(&queries), "{queries} queries");
        assert!((90..=100).contains(&page.items.len()), "{} items", page.items.len());
        assert!(page.items_read <= 220, "{} items read", page.items_read);
        // Eventually consistent pages of less than 4 KB.
        let queries = u32::try_from(queries).expect("a few");
        assert!((page.consumed_rcu - f64::from(queries) * 0.5).abs() < 1e-9);
    }
}

#[test]
fn items_ahead_of_the_metadata_make_the_reader_look_again() {
    for query in both() {
        let world = forty(1);
        let reader = world.reader();
        let query = Query { limit: MAX_LIMIT, ..query };
        page(&world, &reader, &query).expect("warms the cache");
        world.reshard(GENERATION + 2, 4);
        let page = page(&world, &reader, &query).expect("a page");
        assert_eq!((page.items.len(), page.shards), (40, count(4)));
        assert_eq!(world.memory.requests().metadata_gets, 2);
    }
}

#[test]
fn a_layout_that_changes_while_a_page_is_read_begins_the_page_again() {
    for query in both() {
        let world = forty(2);
        world.memory.split_pages(3, usize::MAX);
        // The second request is answered after the lease, and what it read is gone by then.
        let (memory, clock) = (world.memory.clone(), world.clock.clone());
        let reshard = Fault::after(move || {
            clock.advance(LEASE);
            memory.place_metadata(metadata(GENERATION + 2, 1, Placement::Xxh64));
            for (at, item) in memory.contents() {
                memory.remove(&at);
                memory.place(&in_shard(&at.sort.to_string(), 0), item);
            }
        });
        world.store.script(Operation::Query, [Fault::before(|| {}), reshard]);
        let reader = world.reader();
        let mut found = Vec::new();
        let mut next = query;
        loop {
            let page = page(&world, &reader, &next).expect("a page");
            assert_eq!(page.shards, count(1));
            found.extend(names(&page));
            let Some(cursor) = page.cursor else { break };
            next.cursor = Some(cursor);
        }
        found.sort();
        assert_eq!(found, (0..40).map(|n| format!("{n:02}")).collect::<Vec<_>>());
    }
}

#[test]
fn metadata_that_stays_behind_is_reported() {
    for query in both() {
        let world = forty(4);
        world.place("ahead", GENERATION + 1, 4);
        assert_eq!(code(page(&world, &world.reader(), &query)), Code::MetadataBehind);
        let reads = world.memory.requests().metadata_gets;
        assert!((2..=7).contains(&reads), "{reads} metadata reads");
    }
}

#[test]
fn a_throttled_shard_is_asked_again() {
    for query in both() {
        let world = forty(4);
        world.store.script(Operation::Query, (0..5).map(|_| Fault::throttle()));
        let page = page(&world, &world.reader(), &query).expect("a page");
        assert_eq!(page.items.len(), 40);
        assert_eq!(world.store.attempts(Operation::Query) - world.memory.requests().queries, 5);
    }
}

#[test]
fn a_shard_that_cannot_be_read_is_named_and_never_left_out() {
    for query in both() {
        let world = forty(4);
        world.store.throttle(shard(2));
        let error = page(&world, &world.reader(), &query).expect_err("no page");
        assert_eq!(error.code(), Code::Throttled);
        assert!(error.message().starts_with("shard 2: "), "{error}");

        let world = forty(4);
        world.store.script(Operation::Query, [Fault::before(|| {}), Fault::Lose]);
        let error = page(&world, &world.reader(), &query).expect_err("no page");
        assert_eq!(error.code(), Code::DeadlineExceeded);
        assert!(error.message().contains("shard 1 "), "{error}");
    }
}

#[test]
fn a_deadline_after_some_progress_gives_a_page_that_can_be_resumed() {
    let world = forty(4);
    world.memory.split_pages(2, usize::MAX);
    let fine = (0..6).map(|_| Fault::before(|| {}));
    world.store.script(Operation::Query, fine.chain([Fault::Lose]));
    let reader = world.reader();
    let query = Query::all(partition());
    let first = page(&world, &reader, &query).expect("a short page");
    assert!((1..40).contains(&first.items.len()), "{} items", first.items.len());
    assert!(first.cursor.is_some());

    let rest = page(&world, &reader, &Query { cursor: first.cursor.clone(), ..query });
    let mut found = names(&first);
    found.extend(names(&rest.expect("the rest")));
    assert_eq!(found, (0..40).map(|n| format!("{n:02}")).collect::<Vec<_>>());
}

#[test]
fn regression_a_query_whose_reads_outlast_every_lease_never_ended() {
    for query in both() {
        let world = forty(4);
        let slow = (0..1_000).map(|_| Fault::after(world.passing(LEASE)));
        world.store.script(Operation::Query, slow);
        let error = page(&world, &world.reader(), &query).expect_err("no page");
        assert_eq!(error.kind(), Kind::Unavailable, "{error}");
        assert!(world.store.attempts(Operation::Query) <= 8);
    }
}

#[test]
fn a_page_that_takes_in_the_last_item_has_no_cursor() {
    let world = forty(4);
    let query = Query { limit: 40, ..Query::all(partition()) };
    let page = page(&world, &world.reader(), &query).expect("a page");
    // Each shard was asked for more than it holds, so all of them have said that they end.
    assert_eq!((page.items.len(), page.cursor), (40, None));
}

#[test]
fn a_single_item_is_returned_however_large_it_is() {
    for query in both() {
        let world = forty(4);
        let budget = PageBudget { max_bytes: 0, measure: &|_, _| 1 };
        let reader = world.reader();
        let page = block_on(reader.query(&query, budget, world.deadline())).expect("a page");
        assert_eq!(page.items.len(), 1);
        assert!(page.cursor.is_some());
    }
}

#[test]
fn consistency_is_what_the_query_asks_for() {
    let world = forty(1);
    let reader = world.reader();
    for (consistency, rcu) in [(Consistency::Strong, 1.0), (Consistency::Eventual, 0.5)] {
        let query = Query { consistency, ..Query::all(partition()) };
        let page = page(&world, &reader, &query).expect("a page");
        assert!((page.consumed_rcu - rcu).abs() < 1e-9, "{}", page.consumed_rcu);
    }
}

#[test]
fn a_repetition_in_a_random_collection_comes_once_from_the_lowest_shard() {
    let world = World::random();
    world.lay_out(GENERATION, 4, Placement::Random);
    for n in [3, 2, 4] {
        world.memory.place(&in_shard("b", n), stored(&n.to_string(), GENERATION));
    }
    world.memory.place(&in_shard("a", 4), stored("a", GENERATION));
    world.memory.place(&in_shard("c", 1), stored("c", GENERATION));
    let reader = world.reader();
    for limit in [1, 2, 3, 100] {
        let mut query = Query { limit, ..Query::all(partition()) };
        let mut found = Vec::new();
        loop {
            let page = page(&world, &reader, &query).expect("a page");
            found.extend(page.items.iter().map(|(_, item)| text_of(item)));
            let Some(cursor) = page.cursor else { break };
            query.cursor = Some(cursor);
        }
        assert_eq!(found, ["a", "2", "c"], "limit {limit}");
    }
}
