//! What a reshard asks of the stores: both homes of an item at once, and its job.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dynashard_core::ports::{
    Arrival, Change, Clock, Consistency, Expected, ItemStore, ReadRecords, RecordStore, StoreError,
    Transfer, Transferred,
};
use dynashard_core::{
    Claim, CollectionMetadata, Generation, Interval, Job, Lease, Phase, ServerTime, ShardRange,
    StoredItem, Version,
};
use dynashard_keys::{PartitionKey, PhysicalKey, Placement, ShardCount, ShardId};

use super::{
    Fixture, at, beginning, ending, enlist, item, marker, partition, put, shard, sort_key,
};

/// The generation of the reshard in these tests.
const NOW: u64 = 5;

/// The item at its new home, a marker at the old one.
/// Invariants I17, I19, I20.
pub async fn an_item_changes_its_home_in_one_step(fixture: &impl Fixture) {
    let homes = Homes::new("moved", 1, fixture);
    for (n, there) in (2..).zip([None, Some(marker(4)), Some(marker(NOW))]) {
        let homes = Homes::new("moved", n, fixture);
        put(&homes.old, item(3, 7), fixture).await;
        if let Some(there) = there {
            put(&homes.new, there, fixture).await;
        }
        let copy = Arrival::Copy(item(NOW, 7));
        let transfer = homes.transfer((7, 3), copy, fixture);
        assert_eq!(
            fixture.items().transfer(&transfer).await,
            Ok(Transferred::Done { consumed_wcu: 4.0 })
        );
        assert_eq!(homes.contents(fixture).await, [Some(item(NOW, 7)), Some(marker(NOW))]);
    }
    // What was not written through the system has neither generation nor version.
    put(&homes.old, item(0, 0), fixture).await;
    let transfer = homes.transfer((0, 0), Arrival::Copy(item(NOW, 0)), fixture);
    assert_eq!(
        fixture.items().transfer(&transfer).await,
        Ok(Transferred::Done { consumed_wcu: 4.0 })
    );
    assert_eq!(homes.contents(fixture).await, [Some(item(NOW, 0)), Some(marker(NOW))]);
}

/// A put went past what lies at the old home, or that came late.
const LATE: Arrival = Arrival::Present(Expected::LiveIn(Generation::new(NOW)));

/// Whatever stands in the way at one home, nothing happens at the other either.
/// Invariants I12, I17, I18.
pub async fn what_is_not_as_seen_is_not_moved(fixture: &impl Fixture) {
    let copy = || Arrival::Copy(item(NOW, 7));
    let at_new = |item: StoredItem| Transferred::Refused { at_new: Some(Box::new(item)) };
    let nothing = || Transferred::Refused { at_new: None };
    let table = [
        // What is old, what is new, what is done, and what comes of it.
        (Some(item(3, 8)), None, copy(), nothing()),
        (Some(item(4, 7)), None, copy(), nothing()),
        (Some(marker(NOW)), None, copy(), nothing()),
        (Some(item(NOW + 1, 7)), None, copy(), nothing()),
        (None, None, copy(), nothing()),
        (Some(item(3, 7)), Some(item(4, 1)), copy(), at_new(item(4, 1))),
        (Some(item(3, 7)), Some(marker(NOW + 1)), copy(), at_new(marker(NOW + 1))),
        (Some(item(3, 7)), Some(item(NOW + 1, 1)), copy(), at_new(item(NOW + 1, 1))),
        (Some(item(3, 7)), None, LATE, nothing()),
        (Some(item(3, 7)), Some(marker(NOW)), LATE, at_new(marker(NOW))),
        (Some(item(3, 7)), Some(item(4, 1)), LATE, at_new(item(4, 1))),
    ];
    for (n, (old, new, arrival, outcome)) in (1..).zip(table) {
        let homes = Homes::new("not as seen", n, fixture);
        for (key, item) in [(&homes.old, &old), (&homes.new, &new)] {
            if let Some(item) = item {
                put(key, item.clone(), fixture).await;
            }
        }
        let transfer = homes.transfer((7, 3), arrival, fixture);
        let answer = fixture.items().transfer(&transfer).await;
        assert_eq!(answer, Ok(outcome), "case {n}");
        assert_eq!(homes.contents(fixture).await, [new, old], "case {n}");
    }
}

/// What a put went past at the old home, or what came late to it, goes, where a live item of the
/// reshard is at the new one.
/// Invariant I18.
pub async fn a_late_copy_gives_way(fixture: &impl Fixture) {
    let homes = Homes::new("late copy", 1, fixture);
    put(&homes.old, item(3, 7), fixture).await;
    put(&homes.new, item(NOW, 1), fixture).await;
    let transfer = homes.transfer((7, 3), LATE, fixture);
    assert_eq!(
        fixture.items().transfer(&transfer).await,
        Ok(Transferred::Done { consumed_wcu: 4.0 })
    );
    assert_eq!(homes.contents(fixture).await, [Some(item(NOW, 1)), Some(marker(NOW))]);
    // In a random collection, where any live item is.
    let homes = Homes::new("late copy", 2, fixture);
    put(&homes.old, item(3, 7), fixture).await;
    put(&homes.new, item(4, 1), fixture).await;
    let transfer = homes.transfer((7, 3), Arrival::Present(Expected::Live), fixture);
    assert_eq!(
        fixture.items().transfer(&transfer).await,
        Ok(Transferred::Done { consumed_wcu: 4.0 })
    );
    assert_eq!(homes.contents(fixture).await, [Some(item(4, 1)), Some(marker(NOW))]);
}

/// Protocol, "Lease": metadata is not used past its lease, by a mover neither.
/// Invariant I8.
pub async fn nothing_is_moved_after_the_lease(fixture: &impl Fixture) {
    let homes = Homes::new("moved late", 1, fixture);
    put(&homes.old, item(3, 7), fixture).await;
    let mut transfer = homes.transfer((7, 3), Arrival::Copy(item(NOW, 7)), fixture);
    transfer.lease = Lease::new(fixture.clock().now(), None, Duration::ZERO);
    assert_eq!(fixture.items().transfer(&transfer).await, Err(StoreError::LeaseExpired));
    assert_eq!(homes.contents(fixture).await, [None, Some(item(3, 7))]);
}

/// In the order in which they were asked for, with nothing for what is absent.
/// Invariant I23.
pub async fn two_items_are_read_at_one_moment(fixture: &impl Fixture) {
    let homes = Homes::new("read both", 1, fixture);
    assert_eq!(homes.contents(fixture).await, [None, None]);
    put(&homes.old, marker(NOW), fixture).await;
    assert_eq!(homes.contents(fixture).await, [None, Some(marker(NOW))]);
    put(&homes.new, item(NOW, 7), fixture).await;
    assert_eq!(homes.contents(fixture).await, [Some(item(NOW, 7)), Some(marker(NOW))]);
}

/// The phase and its job, or neither.
/// Invariant I11.
pub async fn a_reshard_begins_with_its_job(fixture: &impl Fixture) {
    let partition = partition("begun");
    let seen = CollectionMetadata::stable(partition.clone(), Placement::Jump, ShardCount::ONE, 10);
    enlist(fixture.metadata(), &seen).await.expect("created");
    let next = CollectionMetadata {
        phase: Phase::Forward { from: count(1), to: count(3) },
        generation: Generation::new(2),
        rev: 2,
        ..seen.clone()
    };
    let first = job(&partition, fixture);
    let later = Job { generation: Generation::new(3), rev: 7, then: None, ..first.clone() };
    let begin = |seen, next, seen_job, job| async move {
        fixture
            .metadata()
            .commit(&beginning(seen, next, seen_job, job))
            .await
            .map(|dated| dated.value)
    };
    let refused = Err(StoreError::ConditionFailed { existing: None });
    assert_eq!(begin(&seen, &next, Some(&first), &later).await, refused, "there is no job");
    assert_eq!(stored_job(&partition, fixture).await, None);
    assert_eq!(begin(&seen, &next, None, &first).await, Ok(()));
    assert_eq!(stored_job(&partition, fixture).await, Some(first.clone()));
    let read = fixture
        .metadata()
        .get::<CollectionMetadata>(&partition)
        .await
        .expect("a strong read")
        .value;
    assert_eq!(read.as_ref(), Some(&next));

    assert_eq!(begin(&seen, &next, Some(&first), &later).await, refused, "metadata changed");
    let after = CollectionMetadata { rev: 3, ..next.clone() };
    assert_eq!(begin(&next, &after, None, &later).await, refused, "there is a job");
    let other = Job { rev: 8, ..first.clone() };
    assert_eq!(begin(&next, &after, Some(&other), &later).await, refused, "the job changed");
    assert_eq!(stored_job(&partition, fixture).await, Some(first.clone()));
    assert_eq!(begin(&next, &after, Some(&first), &later).await, Ok(()));
    assert_eq!(stored_job(&partition, fixture).await, Some(later));
}

/// Every field is kept, and two controllers cannot both make the same step.
/// Invariant I11.
pub async fn a_job_is_changed_where_it_is_as_seen(fixture: &impl Fixture) {
    let partition = partition("job");
    let seen = CollectionMetadata::stable(partition.clone(), Placement::Jump, ShardCount::ONE, 10);
    enlist(fixture.metadata(), &seen).await.expect("created");
    let first = job(&partition, fixture);
    fixture.metadata().commit(&beginning(&seen, &seen, None, &first)).await.expect("begun");
    let next = Job {
        rev: first.rev + 1,
        within: Interval::default(),
        marked_within: Interval::default(),
        then: None,
        forward_seen: None,
        move_seen: None,
        closing: false,
        done: BTreeSet::new(),
        under_way: BTreeMap::new(),
        spans: BTreeMap::new(),
        scan_began: None,
        claims: BTreeMap::new(),
        last_lane: 0,
        called_until: None,
        scanned: None,
        closed_seen: None,
        marked: None,
        yielded: false,
        ..first.clone()
    };
    let save = async |seen: &Job, next: &Job| {
        fixture
            .metadata()
            .commit(&[Change::of_job(&seen.partition, Some(seen), Some(next.clone()))])
            .await
            .map(|dated| dated.value)
    };
    let refused = StoreError::ConditionFailed { existing: None };
    assert_eq!(save(&first, &next).await, Ok(()));
    assert_eq!(stored_job(&partition, fixture).await, Some(next.clone()));
    assert_eq!(save(&first, &next).await, Err(refused.clone()));
}

/// The note in the metadata and the job, or neither.
/// Invariant I11.
pub async fn a_change_ends_with_its_job(fixture: &impl Fixture) {
    let partition = partition("ended");
    let created =
        CollectionMetadata::stable(partition.clone(), Placement::Jump, ShardCount::ONE, 10);
    enlist(fixture.metadata(), &created).await.expect("created");
    let seen = CollectionMetadata { cleanup_pending: true, rev: 2, ..created.clone() };
    let first = job(&partition, fixture);
    fixture.metadata().commit(&beginning(&created, &seen, None, &first)).await.expect("begun");
    let next = CollectionMetadata { cleanup_pending: false, rev: 3, ..seen.clone() };
    let finish = |seen, next, job| async move {
        fixture.metadata().commit(&ending(seen, next, job)).await.map(|dated| dated.value)
    };
    let refused = Err(StoreError::ConditionFailed { existing: None });
    let other = Job { rev: 8, ..first.clone() };
    assert_eq!(finish(&seen, &next, &other).await, refused, "the job changed");
    assert_eq!(finish(&created, &next, &first).await, refused, "metadata changed");
    assert_eq!(stored_job(&partition, fixture).await, Some(first.clone()));
    assert_eq!(finish(&seen, &next, &first).await, Ok(()));
    let read = || async {
        fixture.metadata().get::<CollectionMetadata>(&partition).await.expect("a strong read").value
    };
    assert_eq!(read().await.as_ref(), Some(&next));
    assert_eq!(stored_job(&partition, fixture).await, None);
    let saved = fixture
        .metadata()
        .commit(&[Change::of_job(&first.partition, Some(&first), Some(other.clone()))])
        .await;
    assert_eq!(saved.map(|dated| dated.value), refused, "a job that is gone stays gone");
    assert_eq!(finish(&next, &seen, &first).await, refused, "there is no job");
    assert_eq!(read().await, Some(next));
}

struct Homes {
    old: PhysicalKey,
    new: PhysicalKey,
}

impl Homes {
    fn new(test: &str, n: u32, fixture: &impl Fixture) -> Self {
        let sort = sort_key(n, fixture);
        Self {
            old: at(&shard(test, fixture), sort.clone()),
            new: at(
                &partition(test).at(ShardId::new(1), Placement::Xxh64, fixture.schema().separator),
                sort,
            ),
        }
    }

    fn transfer(&self, seen: (u64, u64), arrival: Arrival, fixture: &impl Fixture) -> Transfer {
        let (version, generation) = seen;
        Transfer {
            old: self.old.clone(),
            new: self.new.clone(),
            seen: (Version::new(version), Generation::new(generation)),
            arrival,
            generation: Generation::new(NOW),
            lease: Lease::new(fixture.clock().now(), None, Duration::from_mins(10)),
        }
    }

    /// What lies at the new home and at the old, by both ways to read it.
    async fn contents(&self, fixture: &impl Fixture) -> [Option<StoredItem>; 2] {
        let both = fixture.items().get_both([&self.new, &self.old], None).await.expect("both");
        let both = both.value;
        let get = |key| async move {
            let read = fixture.items().get(key, None, Consistency::Strong).await;
            read.expect("a strong read").value
        };
        assert_eq!(both, [get(&self.new).await, get(&self.old).await]);
        both
    }
}

/// A job in which every field has a value.
pub(super) fn job(partition: &PartitionKey, fixture: &impl Fixture) -> Job {
    Job {
        within: Interval { after: Some(sort_key(1, fixture)), until: Some(sort_key(9, fixture)) },
        marked_within: Interval { after: Some(sort_key(0, fixture)), until: None },
        old_requests: Some(Duration::from_mins(16)),
        partition: partition.clone(),
        generation: Generation::new(2),
        rev: 1,
        from: count(1),
        to: count(ShardCount::MAX),
        then: Some(count(4)),
        started_secs: 1_356_998_400,
        forward_seen: Some(ServerTime(1)),
        move_seen: Some(ServerTime(2)),
        closing: true,
        scan: u32::MAX,
        done: (0..300).map(ShardId::new).collect(),
        under_way: (300..308).map(|n| (ShardId::new(n), sort_key(n, fixture))).collect(),
        spans: (300..308)
            .map(|n| (ShardId::new(n), [sort_key(n, fixture), sort_key(n + 1, fixture)]))
            .collect(),
        scan_began: Some(ServerTime(4)),
        claims: [(300, 0), (301, 5)]
            .map(|(shard, wcu)| {
                let (worker, until) = (u64::MAX, ServerTime(6));
                (ShardId::new(shard), Claim { worker, lane: 7, until, wcu })
            })
            .into(),
        last_lane: 7,
        called_until: Some(ServerTime(8)),
        scanned: Some(ServerTime(3)),
        closed_seen: Some(ServerTime(u64::MAX)),
        marked: Some(ShardRange { first: ShardId::new(0), last: ShardId::new(65_535) }),
        items_moved: u64::MAX,
        unmovable: [((ShardId::new(3), sort_key(5, fixture)), "no such type".to_owned())].into(),
        mover_wcu: Some(500),
        paused: true,
        yielded: true,
    }
}

async fn stored_job(partition: &PartitionKey, fixture: &impl Fixture) -> Option<Job> {
    fixture.metadata().get::<Job>(partition).await.expect("a strong read").value
}

fn count(count: u32) -> ShardCount {
    ShardCount::new(count).expect("a shard count")
}
