//! One sorted list of what lives in a collection, and what a query of it must come to.

use std::collections::BTreeMap;
use std::time::Duration;

use dynashard_core::ports::SortRange;
use dynashard_core::query::{PageBudget, Query, Strategy};
use dynashard_core::{AttributeValue, Attributes, Generation, Kind, Reader, StoredItem, Version};
use dynashard_keys::{ItemKey, PhysicalKey, Placement, Separator, ShardId, SortKey, SortKeyType};
use dynashard_testkit::block_on;
use proptest::prelude::{Just, any, prop, prop_assert, prop_assert_eq, prop_oneof};
use proptest::strategy::{BoxedStrategy, Strategy as _};
use proptest::test_runner::TestCaseError;

use crate::world::{World, count, partition, shard_at, shard_of};

/// How many requests may fail in one case.
pub(super) const MAX_FAULTS: usize = 60;

/// The generation of every collection here; items may be older.
pub(super) const GENERATION: u64 = 3;

/// What lies somewhere in the collection.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) sort: SortKey,
    pub(super) bytes: usize,
    pub(super) generation: u64,
    pub(super) lies: Lies,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Lies {
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
pub(super) struct Case {
    pub(super) sort_key_type: SortKeyType,
    pub(super) placement: Placement,
    pub(super) shards: u32,
    pub(super) placed: Vec<Placed>,
    pub(super) range: SortRange,
    pub(super) ascending: bool,
    pub(super) limit: u32,
    pub(super) page_items: usize,
    pub(super) page_bytes: usize,
    /// After how many items the first pages end, each by itself.
    pub(super) page_ends: Vec<usize>,
    /// The most bytes of a page of the query.
    pub(super) budget: usize,
}

pub(super) fn any_sort_key(sort_key_type: SortKeyType) -> BoxedStrategy<SortKey> {
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

pub(super) fn any_placed(sort_key_type: SortKeyType) -> BoxedStrategy<Placed> {
    let lies = prop_oneof![
        4 => any::<u32>().prop_map(Lies::AtHome),
        1 => any::<u32>().prop_map(Lies::Astray),
        1 => any::<u32>().prop_map(Lies::AsMarker),
    ];
    (any_sort_key(sort_key_type), 0..200_usize, 0..=GENERATION, lies)
        .prop_map(|(sort, bytes, generation, lies)| Placed { sort, bytes, generation, lies })
        .boxed()
}

pub(super) fn any_layout() -> BoxedStrategy<(Placement, u32)> {
    prop_oneof![
        prop::sample::select(vec![1, 2, 4, 8, 16]).prop_map(|shards| (Placement::Xxh64, shards)),
        (1..=12_u32).prop_map(|shards| (Placement::Jump, shards)),
        (1..=12_u32).prop_map(|shards| (Placement::Random, shards)),
    ]
    .boxed()
}

pub(super) fn any_case() -> impl proptest::strategy::Strategy<Value = Case> {
    let sort_key_type = prop_oneof![Just(SortKeyType::String), Just(SortKeyType::Number)];
    sort_key_type.prop_flat_map(|sort_key_type| {
        let collection = (any_layout(), prop::collection::vec(any_placed(sort_key_type), 0..60));
        let query = (any_range(sort_key_type), any::<bool>(), 1..=40_u32);
        let splits = (
            prop_oneof![Just(usize::MAX), 1..6_usize],
            prop_oneof![Just(usize::MAX), 1..800_usize],
            prop_oneof![Just(usize::MAX), 1..2_000_usize],
            prop::collection::vec(1..8_usize, 0..30),
        );
        (collection, query, splits).prop_map(
            move |(
                ((placement, shards), placed),
                (range, ascending, limit),
                (page_items, page_bytes, budget, page_ends),
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
                page_ends,
                budget,
            },
        )
    })
}

impl Case {
    pub(super) fn world(&self) -> World {
        let world = World::with_sort_keys(self.sort_key_type);
        world.lay_out(GENERATION, self.shards, self.placement);
        world.memory.split_pages(self.page_items, self.page_bytes);
        world.memory.end_pages_after(self.page_ends.clone());
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
            world.memory.place(&key.at(at, self.placement, Separator::default()), item);
        }
        world
    }

    /// What the whole query must return, in its order: of an item that a random collection holds
    /// twice, the one in the lowest shard.
    pub(super) fn expected(&self, world: &World) -> Vec<(SortKey, StoredItem)> {
        let mut living = BTreeMap::<SortKey, (ShardId, StoredItem)>::new();
        for (at, item) in world.memory.contents() {
            let shard = shard_at(self.placement, &at.partition);
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

    pub(super) fn query(&self, strategy: Strategy) -> Query {
        Query {
            range: self.range.clone(),
            ascending: self.ascending,
            limit: self.limit,
            strategy,
            ..Query::all(partition())
        }
    }

    /// Reads all pages, and checks what holds of each of them. A page that fails for the moment is
    /// asked for again, as a client would.
    pub(super) fn walk(
        &self,
        world: &World,
        reader: &Reader,
        mut query: Query,
        mut between_pages: impl FnMut(),
    ) -> Result<Vec<(SortKey, StoredItem)>, TestCaseError> {
        let measure = |_: &SortKey, item: &StoredItem| size(item);
        let budget = PageBudget { max_bytes: self.budget, measure: &measure };
        let mut items = Vec::new();
        let mut empty = 0;
        // A page that is not the last brings an item at least, or met a fault.
        while empty <= MAX_FAULTS {
            // Longer than all the leases that faults let run out.
            let deadline = world.deadline_in(Duration::from_mins(10));
            let page = match block_on(reader.query(&query, budget, deadline)) {
                Ok(page) => page,
                Err(error) if matches!(error.kind(), Kind::Throttled | Kind::Unavailable) => {
                    empty += 1;
                    continue;
                }
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            };
            let bytes = page.items.iter().map(|(_, item)| size(item)).sum::<usize>();
            prop_assert!(page.items.len() <= usize::try_from(self.limit).expect("small"));
            prop_assert!(bytes <= self.budget || page.items.len() == 1);
            prop_assert!(page.items_read >= u64::try_from(page.items.len()).expect("small"));
            empty += usize::from(page.items.is_empty());
            items.extend(page.items);
            match page.cursor {
                None => return Ok(items),
                Some(cursor) => query.cursor = Some(cursor),
            }
            between_pages();
        }
        Err(TestCaseError::fail("the pages do not end"))
    }

    /// Checks that all pages together are what the strategy promises of the collection.
    pub(super) fn check(&self, strategy: Strategy, world: &World) -> Result<(), TestCaseError> {
        let expected = self.expected(world);
        let found = self.walk(world, &world.reader(), self.query(strategy), || {})?;
        self.compare(strategy, world, found, expected)
    }

    /// Compares what was found with what was expected, in the order that the strategy promises.
    pub(super) fn compare(
        &self,
        strategy: Strategy,
        world: &World,
        mut found: Vec<(SortKey, StoredItem)>,
        mut expected: Vec<(SortKey, StoredItem)>,
    ) -> Result<(), TestCaseError> {
        if strategy != Strategy::Ordered {
            found.sort_by(|(one, _), (other, _)| one.cmp(other));
            expected.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        if strategy == Strategy::Ordered || self.placement != Placement::Random {
            prop_assert_eq!(found, expected);
            return Ok(());
        }
        // A repetition may come on another page, and from another shard.
        for (sort, item) in &found {
            let somewhere = (1..=self.shards)
                .map(|n| shard_of(Placement::Random, n))
                .map(|partition| PhysicalKey { partition, sort: sort.clone() });
            let mut stored = somewhere.filter_map(|at| world.memory.stored(&at));
            prop_assert!(stored.any(|stored| stored == *item));
        }
        found.dedup_by(|(one, _), (other, _)| one == other);
        let keys =
            |items: Vec<(SortKey, _)>| items.into_iter().map(|(sort, _)| sort).collect::<Vec<_>>();
        prop_assert_eq!(keys(found), keys(expected));
        Ok(())
    }
}

pub(super) fn size(item: &StoredItem) -> usize {
    item.attributes.values().map(AttributeValue::stored_bytes).sum()
}
