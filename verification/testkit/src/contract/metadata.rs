//! Metadata items.

use dynashard_core::ports::{
    Change, Clock, CollectionCatalog, List, ReadRecords, RecordStore, StoreError,
};
use std::num::NonZeroU32;
use std::time::Duration;

use dynashard_core::{
    Addition, Bucket, CollectionMetadata, Counted, Counters, DecisionHistory, DirectoryItem, Epoch,
    Epochs, Generation, Grant, HistoryEntry, IndexShards, Job, KeyHash, Ledger, LedgerKind,
    MAX_HISTORY_ENTRIES, Measures, Phase, Pinned, PinnedTime, Segment, Settings, Span,
};
use dynashard_keys::{PartitionKey, Placement, ShardCount};

use crate::memory::hashes_beside;

use super::{Fixture, beginning, ending, enlist, enlisting, partition, sort_key};

/// How far a server's clock may be from the test's, in seconds.
const CLOCK_SKEW_SECS: u64 = 120;

/// Absence is an answer and no error.
pub async fn a_collection_that_was_not_created_is_none(fixture: &impl Fixture) {
    assert_eq!(get(&partition("metadata absent"), fixture).await, None);
}

/// Every placement in every phase, with the extremes of every field.
pub async fn every_state_is_read_back(fixture: &impl Fixture) {
    for placement in [Placement::Xxh64, Placement::Jump, Placement::Random] {
        for number_of_shards in [ShardCount::ONE, count(ShardCount::MAX)] {
            let (here, elsewhere) = (number_of_shards, count(8));
            for phase in [
                Phase::Stable,
                Phase::Forward { from: here, to: elsewhere },
                Phase::Move { from: elsewhere, to: here },
            ] {
                let partition = partition(&format!("{placement} {phase:?} {number_of_shards}"));
                let entry =
                    |at_secs: u64| HistoryEntry { at_secs, count: count(1 << (at_secs % 9)) };
                let entries = u64::try_from(MAX_HISTORY_ENTRIES).expect("a small number");
                let metadata = CollectionMetadata {
                    epochs: epochs_of(placement, phase, fixture),
                    partition: partition.clone(),
                    number_of_shards,
                    last_updated_secs: 1_356_998_400,
                    // As text 10 comes before 9.
                    shard_history: (1..=entries).map(entry).collect(),
                    generation: Generation::new(u64::MAX),
                    phase,
                    placement,
                    rev: u64::MAX - 1,
                    min_shards: count(4),
                    largest_count: count(512),
                    cleanup_pending: number_of_shards > ShardCount::ONE,
                    items_moved: u64::from(here.get()) - 1,
                };
                create(&metadata, fixture).await.expect("created");
                assert_eq!(get(&partition, fixture).await, Some(metadata));
            }
        }
    }
}

/// Two older epochs, of which a change may be about the first, where items have homes.
fn epochs_of(placement: Placement, phase: Phase, fixture: &impl Fixture) -> Epochs {
    if !placement.is_calculated() || phase == Phase::Stable {
        return Epochs::default();
    }
    let epoch = |n: u32| Epoch { count: count(1 << n), boundary: sort_key(9 - n, fixture) };
    let changing = matches!(phase, Phase::Move { .. }).then_some(0);
    Epochs { older: vec![epoch(0), epoch(9)], descending: true, changing }
}

/// The second creation is refused, and changes nothing.
pub async fn a_collection_is_created_once(fixture: &impl Fixture) {
    let partition = partition("created once");
    let first = CollectionMetadata::stable(partition.clone(), Placement::Xxh64, ShardCount::ONE, 1);
    let second = CollectionMetadata::stable(partition.clone(), Placement::Random, count(7), 2);
    assert_eq!(create(&first, fixture).await, Ok(()));
    let refused = Err(StoreError::ConditionFailed { existing: None });
    assert_eq!(create(&second, fixture).await, refused);
    assert_eq!(get(&partition, fixture).await, Some(first));
}

/// The whole of them, also while one changes.
pub async fn settings_are_pinned_where_the_directory_is_as_seen(fixture: &impl Fixture) {
    let store = fixture.metadata();
    let directory = || async {
        store.get::<DirectoryItem>(&()).await.expect("a strong read").value.unwrap_or_default()
    };
    let refused = Err(StoreError::ConditionFailed { existing: None });
    let secs = Duration::from_secs;
    let at_rest = Pinned::of(&Settings { schema: fixture.schema().clone(), ..Settings::default() });
    let shards = |count| ShardCount::new(count).expect("a count");
    let changing = PinnedTime { accepted: secs(5), next: Some(secs(9)), longest: secs(9) };
    let shrinking = PinnedTime { accepted: secs(360), next: None, longest: secs(960) };
    let change = Pinned {
        stack_id: Some("a".repeat(32)),
        lease_term: changing,
        request_lifetime: shrinking,
        ttl_attributes: ["expires".to_owned(), "ttl".to_owned()].into(),
        ..at_rest.clone()
    };
    let growing = IndexShards::first(shards(3)).growing_to(shards(9), 2);
    let shards_of_indexes = [None, growing, growing.map(IndexShards::grown)];
    for (pinned, index_shards) in
        [at_rest.clone(), change, at_rest].into_iter().zip(shards_of_indexes)
    {
        let seen = directory().await;
        let mut next = seen.with_pinned(pinned);
        next.index_shards = index_shards;
        let saved = store.commit(&[Change::of_directory(&seen, next.clone())]).await;
        assert_eq!(saved.map(|dated| dated.value), Ok(()));
        assert_eq!(directory().await, next);
        let again = store.commit(&[Change::of_directory(&seen, next.clone())]).await;
        assert_eq!(again.map(|dated| dated.value), refused, "it is not as seen");
    }
}

/// Metadata, job and the list, or none of them.
pub async fn a_collection_is_enlisted_with_its_job_or_not_at_all(fixture: &impl Fixture) {
    let (one, other) = (partition("enlisted"), partition("enlisted at once"));
    let store = fixture.metadata();
    let directory = || async {
        store.get::<DirectoryItem>(&()).await.expect("a strong read").value.unwrap_or_default()
    };
    let of = |partition: &PartitionKey| {
        CollectionMetadata::stable(partition.clone(), Placement::Jump, ShardCount::ONE, 1)
    };
    let seen = directory().await;
    let next = seen.with(&one).expect("room");
    let job = super::reshard::job(&one, fixture);
    let enlisted = store.commit(&enlisting(&seen, &of(&one), Some(&job))).await;
    assert_eq!(enlisted.map(|dated| dated.value), Ok(()));
    assert_eq!((directory().await, get(&one, fixture).await), (next.clone(), Some(of(&one))));
    let stored = store.get::<Job>(&one).await.expect("a strong read").value;
    assert_eq!(stored.as_ref(), Some(&job));

    let refused = Err(StoreError::ConditionFailed { existing: None });
    let job = super::reshard::job(&other, fixture);
    let enlisted = store.commit(&enlisting(&seen, &of(&other), Some(&job))).await;
    assert_eq!(enlisted.map(|dated| dated.value), refused, "the directory is not as seen");
    assert_eq!((directory().await, get(&other, fixture).await), (next.clone(), None));
    assert_eq!(store.get::<Job>(&other).await.expect("a strong read").value, None);
    let enlisted = store.commit(&enlisting(&next, &of(&one), None)).await;
    assert_eq!(enlisted.map(|dated| dated.value), refused, "it has metadata");
    assert_eq!(directory().await, next);
}

/// Whoever pins settings, or converts, has read the counts before others raised them.
pub async fn a_list_becomes_a_root_whose_counts_go_on(fixture: &impl Fixture) {
    let store = fixture.metadata();
    let directory = || async {
        store.get::<DirectoryItem>(&()).await.expect("a strong read").value.unwrap_or_default()
    };
    let replace = |seen: DirectoryItem, next: DirectoryItem| async move {
        store.commit(&[Change::of_directory(&seen, next)]).await.map(|dated| dated.value)
    };
    let of = |name: &str| KeyHash::of(&partition(name)).segment().group();
    let (listed, raised) = (of("counted by a conversion"), of("counted by an enlisting"));
    let refused = Err(StoreError::ConditionFailed { existing: None });
    enlist(
        store,
        &CollectionMetadata::stable(partition("of a list"), Placement::Xxh64, ShardCount::ONE, 1),
    )
    .await
    .expect("a list");
    let seen = directory().await;
    assert!(!seen.hashes().is_empty());
    assert_eq!(store.raise(&[raised]).await.map(|dated| dated.value), refused);
    assert_eq!(directory().await, seen);

    let settings = Settings { schema: fixture.schema().clone(), ..Settings::default() };
    let root = |rev, groups: Counters| {
        let pinned = Some(Pinned::of(&settings));
        DirectoryItem::stored(rev, Vec::new(), Some(groups), pinned).expect("a root")
    };
    let next = root(seen.rev + 1, [(listed, 1)].into());
    assert_eq!(replace(seen, next.clone()).await, Ok(()));
    assert_eq!(directory().await, next);

    let before = directory().await;
    for _ in 0..12 {
        let answer = store.raise(&[raised]).await.expect("a root");
        assert!(answer.server_secs.is_some(), "leases are waited for from this time on");
    }
    let changed = KeyHash::of(&partition("resharded")).metadata_group();
    store.raise(&[listed, changed]).await.expect("a root");
    let counts = Counters::from([(listed, 2), (raised, 12), (changed, 1)]);
    assert_eq!(directory().await, root(next.rev, counts.clone()));
    let changed = before.with_pinned(Pinned { revision: 2, ..Pinned::of(&settings) });
    assert_eq!(replace(before, changed).await, Ok(()), "a raised count refuses no other change");
    let stored = directory().await;
    assert_eq!(stored.groups(), Some(&counts));
    assert_eq!(stored.pinned.map(|pinned| pinned.revision), Some(2));
}

/// Two that enlist at once list both, and whoever is refused lists nothing.
pub async fn segments_list_what_they_did_and_more(fixture: &impl Fixture) {
    let store = fixture.metadata();
    let listed_with = KeyHash::of(&partition("listed with metadata"));
    let of = listed_with.segment();
    let hashes = hashes_beside(listed_with).take(4).collect::<Vec<_>>();
    let listed = || async {
        store.get::<Segment>(&of).await.expect("a strong read").value.unwrap_or_default()
    };
    assert_eq!(listed().await, Segment::default());
    let metadata = |name: &str| {
        let partition = partition(name);
        let stable = CollectionMetadata::stable(partition, Placement::Xxh64, ShardCount::ONE, 1);
        Change::of_metadata(None, stable)
    };
    let one = [metadata("listed with metadata"), Change::listing(hashes[0])];
    assert_eq!(store.commit(&one).await.map(|dated| dated.value), Ok(()));
    let more = Segment::of([2, 1, 0].map(|n| hashes[n]));
    store.commit(&[Change::of_segment(of, more)]).await.expect("no condition");
    let all = Segment::of(hashes[..3].iter().copied());
    assert_eq!(listed().await, all);
    let again = [metadata("listed with metadata"), Change::listing(hashes[3])];
    let refused = Err(StoreError::ConditionFailed { existing: None });
    assert_eq!(store.commit(&again).await.map(|dated| dated.value), refused);
    assert_eq!(listed().await, all);
}

/// Two that count at once do not count each other out, and those of one grant do not count to another.
pub async fn the_collections_of_a_grant_are_counted_where_they_are_as_seen(fixture: &impl Fixture) {
    let store = fixture.metadata();
    let grant = |digest| Grant::new(digest, NonZeroU32::new(2).expect("not zero"));
    let (one, other) = (grant("one"), grant("other"));
    let counted = async |grant| store.get::<Counted>(grant).await.expect("a strong read").value;
    assert_eq!(counted(&one).await, None);
    let [first, both] = [Counted([7].into()), Counted([0, 7, u64::MAX].into())];
    let refused = StoreError::ConditionFailed { existing: None };
    for (seen, next, expected) in [
        (None, &first, Ok(())),
        (None, &both, Err(refused.clone())),
        (Some(&both), &both, Err(refused.clone())),
        (Some(&first), &both, Ok(())),
        (Some(&first), &first, Err(refused)),
    ] {
        let change = Change::of_grant(&one, seen, next.clone());
        let saved = store.commit(&[change]).await.map(|dated| dated.value);
        assert_eq!(saved, expected, "{seen:?} to {next:?}");
    }
    assert_eq!((counted(&one).await, counted(&other).await), (Some(both), None));
}

/// The second of two changes of the same state is refused, and changes nothing.
/// Invariant I7.
pub async fn a_change_is_made_where_the_metadata_is_as_seen(fixture: &impl Fixture) {
    let partition = partition("changed once");
    let seen = CollectionMetadata::stable(partition.clone(), Placement::Random, count(2), 10);
    create(&seen, fixture).await.expect("created");
    let forward = Phase::Forward { from: count(2), to: count(4) };
    let begun = CollectionMetadata {
        phase: forward,
        generation: Generation::new(2),
        rev: 2,
        last_updated_secs: 20,
        ..seen.clone()
    };
    let update = async |seen: &CollectionMetadata, next: &CollectionMetadata| {
        fixture
            .metadata()
            .commit(&[Change::of_metadata(Some(seen), next.clone())])
            .await
            .map(|dated| dated.value)
    };
    assert_eq!(update(&seen, &begun).await, Ok(()));
    assert_eq!(get(&partition, fixture).await.as_ref(), Some(&begun));
    let refused = Err(StoreError::ConditionFailed { existing: None });
    assert_eq!(update(&seen, &begun).await, refused, "rev is not as seen");
    let moved_clock = CollectionMetadata { last_updated_secs: 21, ..begun.clone() };
    assert_eq!(update(&moved_clock, &seen).await, refused, "last_updated is not as seen");

    // What a phase has and the next has not is removed, and so is what the index lists.
    let one = CollectionMetadata {
        phase: Phase::Stable,
        number_of_shards: ShardCount::ONE,
        rev: 3,
        ..begun.clone()
    };
    assert_eq!(update(&begun, &one).await, Ok(()));
    assert_eq!(get(&partition, fixture).await, Some(one.clone()));
    let absent =
        CollectionMetadata { partition: super::partition("changed never"), ..seen.clone() };
    assert_eq!(update(&absent, &absent).await, refused, "there is none");
}

/// Running reshards are found without a scan, and finished ones are not.
pub async fn the_index_lists_what_is_being_resharded(fixture: &impl Fixture) {
    let phases = [
        ("index one", Phase::Stable, 1),
        ("index several", Phase::Stable, 8),
        ("index forward", Phase::Forward { from: count(1), to: count(2) }, 1),
        ("index move", Phase::Move { from: count(4), to: count(8) }, 8),
    ];
    for (name, phase, shards) in phases {
        let created =
            CollectionMetadata::stable(partition(name), Placement::Jump, count(shards), 1);
        create(&CollectionMetadata { phase, ..created }, fixture).await.expect("created");
    }
    let left =
        CollectionMetadata::stable(partition("index markers"), Placement::Jump, ShardCount::ONE, 1);
    let left = CollectionMetadata { cleanup_pending: true, ..left };
    create(&left, fixture).await.expect("created");
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page =
            fixture.metadata().list(List::Resharding, after.as_deref()).await.expect("a page");
        found.extend(page.entries.into_iter().map(|listed| listed.partition));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    found.retain(|partition| partition.as_str().contains("index "));
    found.sort();
    assert_eq!(
        found,
        [partition("index forward"), partition("index markers"), partition("index move")]
    );
}

/// No item of the system's is too long a key for the table.
pub async fn the_longest_keys_are_taken_everywhere(fixture: &impl Fixture) {
    let store = fixture.metadata();
    let partition = PartitionKey::new("k".repeat(PartitionKey::MAX_BYTES)).expect("the longest");
    let seen = CollectionMetadata::stable(partition.clone(), Placement::Jump, ShardCount::ONE, 1);
    create(&seen, fixture).await.expect("created");
    let phase = Phase::Move { from: count(1), to: count(2) };
    let next = CollectionMetadata { phase, number_of_shards: count(2), rev: 2, ..seen.clone() };
    let job = super::reshard::job(&partition, fixture);
    store.commit(&beginning(&seen, &next, None, &job)).await.expect("begun");
    let saved = Job { rev: job.rev + 1, ..job.clone() };
    store
        .commit(&[Change::of_job(&job.partition, Some(&job), Some(saved.clone()))])
        .await
        .expect("saved");
    store.commit(&[Change::of_lane(&partition, u32::MAX, Some(u64::MAX))]).await.expect("called");
    store.commit(&[Change::of_lane(&partition, u32::MAX, None)]).await.expect("removed");
    for kind in [LedgerKind::Heat, LedgerKind::Load] {
        let bucket = Bucket { span: Span::Second, start_secs: 1_800_000_007 };
        let measures = Measures { writes: 1.0, ..Measures::default() };
        let addition = Addition { added: vec![(bucket, measures)], ..Addition::default() };
        store.add(&partition, kind, &addition).await.expect("added");
    }
    let history = DecisionHistory { rev: 1, records: Vec::new() };
    store
        .commit(&[Change::of_decisions(&partition, &DecisionHistory::default(), history.clone())])
        .await
        .expect("saved");
    let page = store.list(List::Resharding, None).await.expect("a page");
    assert!(page.entries.iter().any(|listed| listed.partition == partition), "{page:?}");
    let page = store.list(List::Decisions, None).await.expect("a page");
    assert!(page.entries.iter().any(|listed| listed.partition == partition), "{page:?}");
    let done = CollectionMetadata { phase: Phase::Stable, rev: 3, ..next.clone() };
    store.commit(&ending(&next, &done, &saved)).await.expect("finished");
}

/// Those of one shard, too, and no job or lane, whatever the pages.
pub async fn the_catalog_lists_each_collection_once_and_nothing_else(fixture: &impl Fixture) {
    let names = (0..25).map(|n| partition(&format!("catalog {n:02}"))).collect::<Vec<_>>();
    for name in &names {
        let created = CollectionMetadata::stable(name.clone(), Placement::Jump, ShardCount::ONE, 1);
        create(&created, fixture).await.expect("created");
        let next = CollectionMetadata { rev: 2, ..created.clone() };
        let job = super::reshard::job(name, fixture);
        fixture.metadata().commit(&beginning(&created, &next, None, &job)).await.expect("begun");
        for (lane, call) in [(1, 1), (7, 2), (7, u64::MAX)] {
            fixture
                .metadata()
                .commit(&[Change::of_lane(name, lane, Some(call))])
                .await
                .expect("called");
        }
        for _ in 0..2 {
            fixture
                .metadata()
                .commit(&[Change::of_lane(name, 1, None)])
                .await
                .expect("removed, or not there");
        }
    }
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = fixture.metadata().collections(after.as_deref()).await.expect("a page");
        found.extend(page.entries);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    found.retain(|partition| partition.as_str().contains("catalog "));
    found.sort();
    assert_eq!(found, names);
}

/// Any number of environments add to a ledger at once.
pub async fn a_ledger_adds_up_sums_unites_sets_and_forgets(fixture: &impl Fixture) {
    let partition = partition("ledger");
    let second = |start_secs| Bucket { span: Span::Second, start_secs };
    let measures =
        Measures { writes: 3.0, write_units: 4.0, refused_units: 1.0, ..Measures::default() };
    let addition = |operations: [u32; 2]| Addition {
        added: vec![(second(1_800_000_007), measures)],
        hottest: Some((second(1_800_000_007), 0xabc, 2.0)),
        sampled: vec![(second(1_800_000_007), 3, operations.into())],
        ..Addition::default()
    };
    let add = async |addition: &Addition| {
        let added = fixture.metadata().add(&partition, LedgerKind::Heat, addition).await;
        added.expect("added").value
    };
    let mut expected = Ledger::default();
    for operations in [[0, 7], [7, u32::MAX]] {
        expected.apply(&addition(operations));
        assert_eq!(add(&addition(operations)).await, expected);
    }
    let found = fixture.metadata().get::<Ledger>(&(partition.clone(), LedgerKind::Heat)).await;
    assert_eq!(found.expect("a strong read").value, Some(expected));
    let other = fixture.metadata().get::<Ledger>(&(partition.clone(), LedgerKind::Load)).await;
    assert_eq!(other.expect("a strong read").value, None);
    let names =
        ["s1800000007o", "s1800000007w", "s1800000007x", "s1800000007tabc", "s1800000007d03"];
    let forgets = Addition {
        added: vec![(second(1_800_000_009), measures)],
        expired: names.map(str::to_owned).into(),
        ..Addition::default()
    };
    let left = Ledger { buckets: [(second(1_800_000_009), measures)].into(), ..Ledger::default() };
    assert_eq!(add(&forgets).await, left);
}

/// A store whose server tells the time passes it on: leases are counted by it.
pub async fn answers_carry_the_servers_time(fixture: &impl Fixture) {
    let partition = partition("dated");
    let metadata =
        CollectionMetadata::stable(partition.clone(), Placement::Xxh64, ShardCount::ONE, 1);
    let created = enlist(fixture.metadata(), &metadata).await.expect("created").server_secs;
    let read = fixture
        .metadata()
        .get::<CollectionMetadata>(&partition)
        .await
        .expect("a strong read")
        .server_secs;
    let now = fixture.clock().now().epoch_secs();
    let directory =
        fixture.metadata().get::<DirectoryItem>(&()).await.expect("a strong read").server_secs;
    for server_secs in [created, read, directory] {
        let server_secs = server_secs.expect("a Date header");
        assert!(server_secs.abs_diff(now) <= CLOCK_SKEW_SECS, "{server_secs} at {now}");
    }
}

async fn create(metadata: &CollectionMetadata, fixture: &impl Fixture) -> Result<(), StoreError> {
    enlist(fixture.metadata(), metadata).await.map(|dated| dated.value)
}

async fn get(partition: &PartitionKey, fixture: &impl Fixture) -> Option<CollectionMetadata> {
    fixture.metadata().get::<CollectionMetadata>(partition).await.expect("a strong read").value
}

fn count(count: u32) -> ShardCount {
    ShardCount::new(count).expect("a shard count")
}
