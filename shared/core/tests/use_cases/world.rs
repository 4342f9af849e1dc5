//! One system in memory, and the words in which the tests speak about it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dynashard_core::ports::{self, Clock, StoreError};
use dynashard_core::{
    AttributeValue, Attributes, Bucket, Code, CollectionMetadata, Deadline, Directory, Error,
    Generation, Ledger, LedgerKind, Measures, NewItem, PartitionLimits, Phase, Pinned, Reader,
    Rebalancer, Scaler, Settings, Span, StoredItem, Verifier, Version, Writer,
};
use dynashard_keys::{
    ItemKey, PartitionKey, PhysicalKey, PhysicalPartitionKey, Placement, ShardCount, ShardId,
    SortKey, SortKeyType,
};
use dynashard_testkit::{Faulty, ManualClock, MemoryStore, SeededEntropy};

pub(crate) type Store = Faulty<MemoryStore>;

/// T of these tests.
pub(crate) const LEASE: Duration = Duration::from_secs(5);

/// The defaults, but for the lease, which is long enough for something to happen meanwhile.
pub(crate) fn usual_settings() -> Settings {
    Settings { lease_term: LEASE, ..Settings::default() }
}

/// How long operations may begin on a lease: the rest is kept for their answers.
pub(crate) const FRESH: Duration = Duration::from_millis(3_750);

/// What a request may take in these tests.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// The tables, and the functions that work on them. Each writer and reader is an execution
/// environment of its own: it shares nothing with the others but the tables and the time.
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    /// What is in the tables.
    pub(crate) memory: MemoryStore,
    /// The tables as the functions see them.
    pub(crate) store: Store,
    settings: Settings,
    seeds: AtomicU64,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(usual_settings())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        Self::with_nothing_pinned(settings).pinned()
    }

    /// Whose directory lists collections itself, as long as no function pins anything.
    pub(crate) fn with_nothing_pinned(settings: Settings) -> Self {
        // So small that each environment reports what it sees.
        Self::on_partitions(settings, PartitionLimits { write_units: 3, read_units: 9 })
    }

    /// With segments that list collections, and with one item that does.
    pub(crate) fn of_both_forms() -> [Self; 2] {
        [Self::new(), Self::with_nothing_pinned(usual_settings())]
    }

    fn pinned(self) -> Self {
        self.memory.pin(Pinned::of(&self.settings));
        self
    }

    /// On partitions like DynamoDB's, of which the mover takes its part.
    pub(crate) fn with_mover(settings: Settings) -> Self {
        let partition = settings.partition;
        Self::on_partitions(settings, partition).pinned()
    }

    /// On partitions that take so much.
    fn on_partitions(settings: Settings, partition: PartitionLimits) -> Self {
        let settings = Settings { partition, ..settings };
        let clock = ManualClock::new();
        let memory = MemoryStore::new(clock.clone(), settings.schema.clone());
        let store = Faulty::new(memory.clone());
        Self { clock, memory, store, settings, seeds: AtomicU64::new(1) }
    }

    /// Cold collections are random.
    pub(crate) fn random() -> Self {
        Self::with(Settings { placement: Placement::Random, ..usual_settings() })
    }

    pub(crate) fn with_sort_keys(sort_key_type: SortKeyType) -> Self {
        let mut settings = usual_settings();
        settings.schema.sort_key_type = sort_key_type;
        Self::with(settings)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn writer(&self) -> Writer {
        Writer::new(self.directory())
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader::new(self.directory())
    }

    pub(crate) fn scaler(&self) -> Scaler {
        Scaler::new(self.directory())
    }

    pub(crate) fn rebalancer(&self) -> Rebalancer {
        Rebalancer::new(self.directory())
    }

    pub(crate) fn verifier(&self) -> Verifier {
        Verifier::new(self.directory())
    }

    pub(crate) fn directory(&self) -> Directory {
        self.directory_of(self.settings.clone())
    }

    /// The directory of a function with settings of its own.
    pub(crate) fn directory_of(&self, settings: Settings) -> Directory {
        let entropy = SeededEntropy::new(self.seeds.fetch_add(1, Ordering::Relaxed));
        let (items, records) = (self.store.clone(), self.store.clone());
        let world = ports::World::new(items, records, self.clock.clone(), entropy);
        Directory::new(world.with_indexes(self.memory.clone()), settings)
    }

    pub(crate) fn new_item(&self, sk: &str, text: &str) -> NewItem {
        NewItem::new(key(sk), attributes(text), &self.settings.schema).expect("a valid item")
    }

    /// The moment [`TIMEOUT`] from now.
    pub(crate) fn deadline(&self) -> Deadline {
        self.deadline_in(TIMEOUT)
    }

    pub(crate) fn deadline_in(&self, time: Duration) -> Deadline {
        Deadline::after(self.clock.now(), time)
    }

    /// Makes the collection exist with this layout, as a finished reshard would.
    pub(crate) fn lay_out(&self, generation: u64, shards: u32, placement: Placement) {
        self.memory.place_metadata(metadata(generation, shards, placement));
    }

    /// Puts an item of this generation where it belongs among `shards` shards.
    pub(crate) fn place(&self, sk: &str, generation: u64, shards: u32) -> StoredItem {
        let item = stored(sk, generation);
        self.memory.place(&home(sk, shards), item.clone());
        item
    }

    pub(crate) fn stored(&self, key: &PhysicalKey) -> Option<String> {
        self.memory.stored(key).map(|item| text_of(&item))
    }

    /// Does a whole reshard at once: every item is at its new home under xxh64, and left a marker
    /// where it was.
    pub(crate) fn reshard(&self, generation: u64, shards: u32) {
        let old = self.memory.contents();
        self.lay_out(generation, shards, Placement::Xxh64);
        for (at, _) in &old {
            self.memory.place(at, marker(generation));
        }
        for (at, item) in old.into_iter().filter(|(_, item)| item.is_live()) {
            let key = ItemKey::new(partition(), at.sort);
            let home = Placement::Xxh64.home(&key, count(shards)).expect("a calculated placement");
            let item = StoredItem { generation: Generation::new(generation), ..item };
            let home = key.at(home, Placement::Xxh64, self.settings.schema.separator);
            self.memory.place(&home, item);
        }
    }

    /// Has the ledger of the collection say that it is asked for twice what its shards take, and then for so
    /// much that it wants twice its shards. It is late in a second, so that all have reported the one before.
    pub(crate) fn heat_up(&self) {
        let into = Duration::from_nanos(self.clock.now().wall.subsec_nanos().into());
        self.clock.advance(Duration::from_millis(700).saturating_sub(into));
        let shards = self.memory.stored_metadata(&partition()).map(|m| m.number_of_shards);
        let shards = f64::from(shards.unwrap_or(ShardCount::ONE).get());
        self.ask_for(1.3 * shards * 3.0, self.clock.now().wall);
    }

    /// Has the ledger of the collection say that it was asked for so many write units in each of the seconds
    /// before `now`.
    pub(crate) fn ask_for(&self, write_units: f64, now: Duration) {
        self.ask_for_of(&partition(), write_units, now);
    }

    /// As [`World::ask_for`], by the ledger of this partition key.
    pub(crate) fn ask_for_of(&self, of: &PartitionKey, write_units: f64, now: Duration) {
        let measures = Measures { write_units, environments: 1.0, ..Measures::default() };
        let mut ledger = Ledger::default();
        for ago in 1..8 {
            let at = now.saturating_sub(Duration::from_secs(ago));
            ledger.buckets.insert(Bucket::of(Span::Second, at), measures);
        }
        self.memory.place_ledger(of, LedgerKind::Heat, ledger);
    }

    /// Waits for so long.
    pub(crate) async fn pause(&self, time: Duration) {
        self.clock.sleep(time).await;
    }

    /// An event that advances the clock.
    pub(crate) fn passing(&self, time: Duration) -> impl FnOnce() + Send + use<> {
        let clock = self.clock.clone();
        move || clock.advance(time)
    }
}

pub(crate) fn partition() -> PartitionKey {
    PartitionKey::new("EWR").expect("a valid partition key")
}

pub(crate) fn sort(sk: &str) -> SortKey {
    SortKey::string(sk).expect("a valid sort key")
}

pub(crate) fn key(sk: &str) -> ItemKey {
    ItemKey::new(partition(), sort(sk))
}

pub(crate) fn count(count: u32) -> ShardCount {
    ShardCount::new(count).expect("a valid shard count")
}

/// Where an item lives among `shards` shards under xxh64.
pub(crate) fn home(sk: &str, shards: u32) -> PhysicalKey {
    let home = Placement::Xxh64.home(&key(sk), count(shards)).expect("a calculated placement");
    in_shard(sk, home.get())
}

/// Where an item lies when it is in this shard, at home there or not, under a calculated placement.
pub(crate) fn in_shard(sk: &str, shard: u32) -> PhysicalKey {
    in_shard_of(Placement::Xxh64, sk, shard)
}

/// Under any placement.
pub(crate) fn in_shard_of(placement: Placement, sk: &str, shard: u32) -> PhysicalKey {
    key(sk).at(ShardId::new(shard), placement, usual_settings().schema.separator)
}

/// A shard under a calculated placement.
pub(crate) fn shard(shard: u32) -> PhysicalPartitionKey {
    shard_of(Placement::Xxh64, shard)
}

/// Under any placement.
pub(crate) fn shard_of(placement: Placement, shard: u32) -> PhysicalPartitionKey {
    partition().at(ShardId::new(shard), placement, usual_settings().schema.separator)
}

/// The shard that a physical key is of.
pub(crate) fn shard_at(placement: Placement, at: &PhysicalPartitionKey) -> ShardId {
    let separator = usual_settings().schema.separator;
    let (_, shard) = PhysicalPartitionKey::parse(at.as_str(), separator).expect("a physical key");
    shard.unwrap_or(placement.first())
}

pub(crate) fn metadata(generation: u64, shards: u32, placement: Placement) -> CollectionMetadata {
    CollectionMetadata {
        generation: Generation::new(generation),
        ..CollectionMetadata::stable(partition(), placement, count(shards), 1_356_998_400)
    }
}

/// A collection in the middle of a reshard.
pub(crate) fn resharding() -> [CollectionMetadata; 2] {
    let (from, to) = (count(1), count(2));
    [(Phase::Forward { from, to }, 1), (Phase::Move { from, to }, 2)].map(|(phase, in_force)| {
        CollectionMetadata { phase, ..metadata(2, in_force, Placement::Xxh64) }
    })
}

pub(crate) fn attributes(text: &str) -> Attributes {
    Attributes::from([("text".to_owned(), AttributeValue::String(text.to_owned()))])
}

pub(crate) fn stored(text: &str, generation: u64) -> StoredItem {
    StoredItem {
        attributes: attributes(text),
        generation: Generation::new(generation),
        version: Version::new(1),
        forwarded: false,
    }
}

pub(crate) fn marker(generation: u64) -> StoredItem {
    StoredItem::marker(Generation::new(generation))
}

pub(crate) fn text_of(item: &StoredItem) -> String {
    match item.attributes.get("text") {
        Some(AttributeValue::String(text)) => text.clone(),
        other => format!("{other:?}"),
    }
}

pub(crate) fn outcome_unknown() -> StoreError {
    StoreError::OutcomeUnknown("the connection was lost".to_owned())
}

/// The code of an operation that must fail.
#[track_caller]
pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> Code {
    result.expect_err("an operation that fails").code()
}
