//! Tables as functions see them, with what tests put there.

use std::time::Duration;

use dynashard_api::json::{self, Format};
use dynashard_core::ports::{self, ItemStore};
use dynashard_core::{
    CollectionMetadata, Directory, Generation, IndexAttribute, ItemCacheLimits, SecondaryIndex,
    Settings, StoredItem, Version,
};
use dynashard_keys::{
    ItemKey, PartitionKey, PhysicalKey, Placement, ShardCount, ShardId, SortKey, SortKeyType,
};
use dynashard_lambda::Admission;
use dynashard_testkit::{
    Faulty, ManualClock, MemoryCapacity, MemoryHeat, MemoryStore, SeededEntropy,
};

/// The tables as a function sees them.
pub type Store = Faulty<MemoryStore>;

/// The flight of the first line of the records that ship with the project.
pub const FLIGHT: &str = "pk=EWR&sk=2013-01-01T10:00:00Z%23UA1545";

/// The version of the items that are there before a test begins.
pub const OLD_VERSION: Version = Version::new(0x07dd);
/// The entity tag of [`OLD_VERSION`].
pub const OLD_ETAG: &str = "\"00000000000007dd\"";

/// Both tables, and the time. Handlers over one world share its tables and nothing else.
pub struct World {
    /// What time it is.
    pub clock: ManualClock,
    /// What is in the tables.
    pub memory: MemoryStore,
    /// The tables as functions see them.
    pub store: Store,
    /// The throttles of the main table, and the alarm on them.
    pub heat: MemoryHeat,
    /// The capacity of the main table with its metrics, and the alarms on them.
    pub capacity: MemoryCapacity,
    /// What a request has to be to be answered.
    pub admission: Admission,
    settings: Settings,
}

impl World {
    /// Empty tables of a stack with these settings.
    pub fn new(settings: Settings) -> Self {
        let clock = ManualClock::new();
        let memory = MemoryStore::new(clock.clone(), settings.schema.clone());
        let (store, heat) = (Faulty::new(memory.clone()), MemoryHeat::new());
        let capacity = MemoryCapacity::new(clock.clone());
        Self { clock, memory, store, heat, capacity, admission: Admission::default(), settings }
    }

    /// [`World::of_flights`] where environments keep items for so long.
    pub fn of_kept_flights(term: Duration) -> Self {
        let item_cache = Some(ItemCacheLimits { term, bytes: 1 << 20 });
        let mut world = Self::of_flights();
        world.settings.item_cache = item_cache;
        world
    }

    /// [`World::of_flights`] where `KeyGrants` grants each tenant the collection of its name and those below it, and the
    /// role `orders` JFK.
    pub fn of_tenants() -> Self {
        let mut world = Self::of_flights();
        let rules = "*={tenant},{tenant}/*; arn:aws:sts::*:assumed-role/orders/*=JFK";
        world.admission.grants = rules.parse().expect("rules");
        world
    }

    /// Empty tables whose sort key is a number.
    pub fn of_numbers() -> Self {
        let mut settings = Settings::default();
        settings.schema.sort_key_type = SortKeyType::Number;
        Self::new(settings)
    }

    /// The first flights of 2013: three from Newark in eight shards, one from JFK in one.
    pub fn of_flights() -> Self {
        let world = Self::new(Settings::default());
        let text = |name: &str| IndexAttribute {
            name: name.to_owned(),
            r#type: Some(SortKeyType::String),
        };
        world.memory.be_indexed_by([SecondaryIndex {
            name: "by-carrier".to_owned(),
            is_local: false,
            partition_key: vec![text("carrier")],
            sort_key: vec![text("dest")],
            ..SecondaryIndex::of_table(&world.settings.schema)
        }]);
        world.collection("EWR", Placement::Xxh64, 8);
        world.collection("JFK", Placement::Xxh64, 1);
        for (pk, sk, item) in [
            (
                "EWR",
                "2013-01-01T10:00:00Z#UA1545",
                r#"{"dest":"IAH","carrier":"UA","flight":1545,"distance":1400,"times":{"scheduled":"05:15"}}"#,
            ),
            (
                "EWR",
                "2013-01-01T10:00:00Z#UA1696",
                r#"{"dest":"ORD","carrier":"UA","flight":1696,"distance":719}"#,
            ),
            (
                "EWR",
                "2013-01-01T11:00:00Z#B6343",
                r#"{"dest":"PBI","carrier":"B6","flight":343,"distance":1023}"#,
            ),
            (
                "JFK",
                "2013-01-01T10:00:00Z#AA1141",
                r#"{"dest":"MIA","carrier":"AA","flight":1141,"distance":1089}"#,
            ),
        ] {
            world.item(pk, sk, item);
        }
        world
    }

    /// A world whose collection `log` places its items at random, one of them being there.
    pub fn of_random_placement() -> Self {
        let world = Self::new(Settings::default());
        world.collection("log", Placement::Random, 4);
        world.item("log", "1", r#"{"a":1}"#);
        world
    }

    /// A collection that exists already.
    pub fn collection(&self, pk: &str, placement: Placement, count: u32) {
        let count = ShardCount::new(count).expect("a count");
        let now_secs = 1_356_998_400;
        self.memory.place_metadata(CollectionMetadata::stable(
            partition(pk),
            placement,
            count,
            now_secs,
        ));
    }

    /// An item in plain JSON that is there already, in the shard where its collection has it. A
    /// random collection has it in its last one.
    pub fn item(&self, pk: &str, sk: &str, attributes: &str) {
        self.item_in(Format::Plain, pk, sk, attributes);
    }

    /// As [`World::item`], in the JSON that `format` says.
    pub fn item_in(&self, format: Format, pk: &str, sk: &str, attributes: &str) {
        let members = json::object(attributes.as_bytes()).expect("an object");
        let item = StoredItem {
            attributes: json::attributes(members, format).expect("attributes"),
            generation: Generation::new(1),
            version: OLD_VERSION,
            forwarded: false,
        };
        self.memory.place(&self.home(pk, sk), item);
    }

    /// What lies where an item belongs.
    pub fn stored(&self, pk: &str, sk: &str) -> Option<StoredItem> {
        self.memory.stored(&self.home(pk, sk))
    }

    fn home(&self, pk: &str, sk: &str) -> PhysicalKey {
        let schema = &self.settings.schema;
        let metadata = self.memory.stored_metadata(&partition(pk)).expect("a collection");
        let sort = SortKey::parse(sk, schema.sort_key_type).expect("a sort key");
        let key = ItemKey::new(metadata.partition.clone(), sort);
        let count = metadata.number_of_shards;
        let shard = metadata.placement.home(&key, count).unwrap_or(ShardId::new(count.get()));
        key.at(shard, metadata.placement, schema.separator)
    }

    /// A new execution environment's knowledge of the collections. It draws the same numbers each
    /// time, so that answers can be compared.
    pub fn directory(&self) -> Directory {
        self.directory_over(self.store.clone())
    }

    /// A new execution environment's knowledge over another store of items.
    pub fn directory_over(&self, items: impl ItemStore + 'static) -> Directory {
        let entropy = SeededEntropy::new(2013);
        let world = ports::World::new(items, self.store.clone(), self.clock.clone(), entropy);
        Directory::new(world.with_indexes(self.memory.clone()), self.settings.clone())
    }

    /// What a test compares to see that nothing was written.
    pub fn snapshot(&self) -> Snapshot {
        let requests = self.memory.requests();
        let pks = ["EWR", "JFK", "LGA", "log"].map(partition);
        Snapshot {
            items: self.memory.contents(),
            metadata: pks.iter().filter_map(|pk| self.memory.stored_metadata(pk)).collect(),
            writes_sent: requests.writes + requests.metadata_transactions,
        }
    }
}

/// The tables at one moment.
#[derive(Debug, PartialEq)]
pub struct Snapshot {
    pub(crate) items: Vec<(PhysicalKey, StoredItem)>,
    pub(crate) metadata: Vec<CollectionMetadata>,
    /// Also of the writes that would have changed nothing: a wrong request must cost none.
    writes_sent: u64,
}

fn partition(pk: &str) -> PartitionKey {
    PartitionKey::new(pk).expect("a partition key")
}
