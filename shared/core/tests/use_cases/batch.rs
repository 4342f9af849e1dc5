//! Batches of writes and of reads.

use std::time::Duration;

use dynashard_core::ports::{Clock, Consistency, ReadRecords, StoreError};
use dynashard_core::query::{PageBudget, Query};
use dynashard_core::{
    BatchGot, BatchOperation, BatchWritten, Code, CollectionMetadata, Error, Ledger, LedgerKind,
    MAX_BATCH_GETS, MAX_BATCH_OPERATIONS, NewItem, Phase, Precondition, Settings, Span, StoredItem,
    TableSchema, Throttle,
};
use dynashard_keys::{ItemKey, PartitionKey, Placement, ShardCount};
use dynashard_testkit::{Fault, Operation, Requests, block_on};
use futures_util::future::{join, join_all};

use crate::reshard::in_forward;
use crate::world::{
    LEASE, TIMEOUT, World, attributes, code, count, home, in_shard, in_shard_of, key, marker,
    metadata, outcome_unknown, partition, shard, shard_of, sort, stored, text_of, usual_settings,
};

fn names(n: usize) -> Vec<String> {
    (0..n).map(|n| format!("{n:04}")).collect()
}

fn puts(world: &World, n: usize) -> Vec<BatchOperation> {
    names(n).iter().map(|sk| BatchOperation::Put(world.new_item(sk, "new"))).collect()
}

fn write(world: &World, operations: Vec<BatchOperation>) -> BatchWritten {
    let total = operations.len();
    let outcome = block_on(world.writer().batch(operations, world.deadline())).expect("a batch");
    assert_eq!(outcome.written + outcome.unprocessed.len(), total, "nothing is lost");
    outcome
}

fn get_keys(world: &World, keys: Vec<ItemKey>) -> Result<BatchGot, Error> {
    let unlimited = PageBudget::UNLIMITED;
    block_on(world.reader().batch_get(keys, None, Consistency::Strong, unlimited, world.deadline()))
}

fn get(world: &World, names: &[String]) -> BatchGot {
    get_keys(world, names.iter().map(|sk| key(sk)).collect()).expect("a batch")
}

/// Each key counted for what its whole batch took, so that reads that were few looked like a hundred times as many.
#[test]
fn regression_a_key_of_a_batch_was_reckoned_as_dear_as_the_batch() {
    let world = World::new();
    world.lay_out(2, 1, Placement::Xxh64);
    let names = names(100);
    for name in &names {
        world.place(name, 2, 1);
    }
    let reader = world.reader();
    let keys = || names.iter().map(|sk| key(sk)).collect();
    let (strong, unlimited) = (Consistency::Strong, PageBudget::UNLIMITED);
    for _ in 0..180 {
        let got = reader.batch_get(keys(), None, strong, unlimited, world.deadline());
        assert_eq!(block_on(got).expect("a batch").items.len(), 100);
        world.clock.advance(Duration::from_secs(1));
    }
    let load = block_on(world.memory.get::<Ledger>(&(partition(), LedgerKind::Load)));
    let load = load.expect("a read").value.expect("a ledger");
    let minutes = load.buckets.iter().filter(|(bucket, _)| bucket.span == Span::Minute);
    let units = minutes.map(|(_, measures)| measures.get_units).collect::<Vec<_>>();
    assert!(units.iter().any(|units| *units > 5_000.0), "{units:?}");
    assert!(units.iter().all(|units| *units < 6_200.0), "{units:?}, of 6,000 keys a minute");
}

/// The closures of a batch's streams once made its futures depend on one lifetime, so that no
/// server could run them.
#[test]
fn regression_the_futures_of_batches_could_not_be_spawned() {
    fn can_be_spawned<T: Send>(_: T) {}
    let world = World::new();
    let (writer, reader) = (world.writer(), world.reader());
    can_be_spawned(writer.batch(Vec::new(), world.deadline()));
    let unlimited = PageBudget::UNLIMITED;
    let strong = Consistency::Strong;
    can_be_spawned(reader.batch_get(Vec::new(), None, strong, unlimited, world.deadline()));
    let query = Query::all(partition());
    can_be_spawned(reader.query(&query, PageBudget::UNLIMITED, world.deadline()));
}

#[test]
fn a_batch_of_the_greatest_size_is_written() {
    let world = World::new();
    world.lay_out(1, 16, Placement::Xxh64);
    let outcome = write(&world, puts(&world, MAX_BATCH_OPERATIONS));
    assert_eq!(
        outcome,
        BatchWritten { written: 1_000, consumed_wcu: 1_000.0, ..BatchWritten::default() }
    );
    let requests = world.memory.requests();
    assert_eq!((requests.writes, requests.metadata_gets), (1_000, 1));
    for sk in names(MAX_BATCH_OPERATIONS) {
        assert_eq!(world.stored(&home(&sk, 16)).as_deref(), Some("new"));
    }

    let deletes = names(1_000).iter().map(|sk| BatchOperation::Delete(key(sk))).collect();
    assert_eq!(write(&world, deletes).written, 1_000);
    assert_eq!(world.memory.contents(), []);
}

#[test]
fn an_invalid_batch_is_refused_before_anything_is_sent() {
    let world = World::new();
    let writer = world.writer();
    let batch = |operations| code(block_on(writer.batch(operations, world.deadline())));
    assert_eq!(batch(puts(&world, MAX_BATCH_OPERATIONS + 1)), Code::BadParameter);
    let mut twice = puts(&world, 2);
    twice.push(BatchOperation::Delete(key("0001")));
    assert_eq!(batch(twice), Code::DuplicateKey);

    let too_many = names(MAX_BATCH_GETS + 1).iter().map(|sk| key(sk)).collect();
    assert_eq!(code(get_keys(&world, too_many)), Code::BadParameter);
    assert_eq!(code(get_keys(&world, vec![key("a"), key("b"), key("a")])), Code::DuplicateKey);
    assert_eq!(world.memory.requests().total(), 0);
    assert_eq!(write(&world, Vec::new()), BatchWritten::default());
    assert_eq!(get(&world, &[]), BatchGot::default());
}

#[test]
fn a_hot_partition_key_does_not_hold_up_the_others() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    world.store.throttle(shard(0));
    let mut operations = puts(&world, 150);
    let other = |n: usize| {
        let partition = PartitionKey::new("JFK").expect("a valid partition key");
        let key = ItemKey::new(partition, sort(&n.to_string()));
        NewItem::new(key, attributes("new"), &TableSchema::default()).expect("a valid item")
    };
    operations.extend((0..30).map(|n| BatchOperation::Put(other(n))));
    let outcome = write(&world, operations);
    assert_eq!(outcome.written, 30);
    assert!(outcome.unprocessed.iter().all(|(key, _)| key.partition.as_str() == "EWR"));
    let late = [Code::Throttled, Code::DeadlineExceeded];
    assert!(outcome.unprocessed.iter().all(|(_, code)| late.contains(code)));
}

#[test]
fn each_operation_that_fails_is_listed_with_its_code() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    world.store.script(
        Operation::Write,
        [
            Fault::Refuse(outcome_unknown()),
            Fault::ExecuteThen(outcome_unknown()),
            Fault::Lose,
            Fault::Refuse(StoreError::Misconfigured("no table".to_owned())),
        ],
    );
    let mut outcome = write(&world, puts(&world, 4));
    outcome.unprocessed.sort_by(|(a, _), (b, _)| a.cmp(b));
    let unknown = Code::OutcomeUnknown;
    let expected = ["0000", "0002", "0003"].map(key).into_iter();
    let expected = expected.zip([unknown, unknown, Code::Internal]).collect::<Vec<_>>();
    let failures = vec![(key("0003"), Error::new(Code::Internal, "no table"))];
    // A look finds the second, which DynamoDB reported no units for.
    let consumed_wcu = 0.0;
    let expected = BatchWritten { written: 1, unprocessed: expected, failures, consumed_wcu };
    assert_eq!(outcome, expected);
}

#[test]
fn what_the_deadline_leaves_is_listed_as_not_begun() {
    let world = World::with(Settings { lease_term: TIMEOUT * 2, ..usual_settings() });
    world.lay_out(1, 1, Placement::Xxh64);
    let slow = || Fault::after(world.passing(Duration::from_millis(100)));
    world.store.script(Operation::Write, (0..1_000).map(|_| slow()));
    let start = world.clock.now().boot;
    let outcome = write(&world, puts(&world, 1_000));
    assert_eq!(world.clock.now().boot + Duration::from_secs(1), start + TIMEOUT);
    assert_eq!(outcome.written, 190, "ten a second, and none in the last second");
    assert!(outcome.unprocessed.iter().all(|(_, code)| *code == Code::DeadlineExceeded));
    assert_eq!(world.memory.contents().len(), outcome.written, "what was not begun is not there");
}

#[test]
fn a_batch_whose_time_is_over_sends_nothing() {
    let world = World::new();
    let over = world.deadline_in(Duration::ZERO);
    let outcome = block_on(world.writer().batch(puts(&world, 3), over)).expect("a batch");
    let late = Code::DeadlineExceeded;
    let expected = ["0000", "0001", "0002"].map(|sk| (key(sk), late)).to_vec();
    assert_eq!(outcome, BatchWritten { unprocessed: expected, ..BatchWritten::default() });
    assert_eq!(world.memory.requests().total(), 0);
}

#[test]
fn a_batch_goes_on_over_many_leases() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    let slow = || Fault::before(world.passing(Duration::from_millis(200)));
    world.store.script(Operation::Write, (0..1_000).map(|_| slow()));
    let outcome = write(&world, puts(&world, 80));
    assert_eq!(outcome.written, 80);
    let Requests { directory_gets, metadata_gets, .. } = world.memory.requests();
    assert!((4..=5).contains(&directory_gets), "{directory_gets} leases in sixteen seconds");
    assert_eq!(metadata_gets, 1);
}

#[test]
fn a_batch_read_finds_what_lives_at_home() {
    let world = World::new();
    world.lay_out(2, 4, Placement::Xxh64);
    let names = names(MAX_BATCH_GETS);
    let mut expected = Vec::new();
    for (n, sk) in names.iter().enumerate() {
        match n % 4 {
            0 => expected.push((key(sk), world.place(sk, 2, 4))),
            1 => world.memory.place(&home(sk, 4), marker(2)),
            2 => {
                let elsewhere = (0..4).map(|n| in_shard(sk, n)).find(|at| *at != home(sk, 4));
                world.memory.place(&elsewhere.expect("three of them"), stored("misplaced", 2));
            }
            _ => {}
        }
    }
    let mut keys = names.iter().map(|sk| key(sk)).collect::<Vec<_>>();
    keys[99] = ItemKey::new(PartitionKey::new("none").expect("a partition key"), sort("a"));
    let got = get_keys(&world, keys).expect("a batch");
    assert_eq!((got.items, got.unprocessed), (expected, Vec::new()));
    assert_eq!(world.memory.requests().batch_gets, 1);
}

#[test]
fn keys_that_were_left_over_are_asked_for_again() {
    let world = World::new();
    world.lay_out(1, 4, Placement::Xxh64);
    let names = names(50);
    for sk in &names {
        world.place(sk, 1, 4);
    }
    world.memory.leave_unprocessed(20);
    let memory = world.memory.clone();
    let relief = Fault::before(move || memory.leave_unprocessed(0));
    world.store.script(Operation::BatchGet, [Fault::throttle(), Fault::before(|| {}), relief]);
    let got = get(&world, &names);
    assert_eq!((got.items.len(), got.unprocessed.len()), (50, 0));
    assert_eq!(world.store.attempts(Operation::BatchGet), 3);
}

#[test]
fn regression_keys_left_over_for_longer_than_a_lease_failed_the_whole_batch() {
    let world = World::new();
    world.lay_out(1, 4, Placement::Xxh64);
    let names = names(50);
    for sk in &names {
        world.place(sk, 1, 4);
    }
    let hot = shard(2);
    world.store.throttle(hot.clone());
    assert!(TIMEOUT > LEASE);
    let got = get(&world, &names);
    let is_hot = |key: &ItemKey| home(&key.sort.to_string(), 4).partition == hot;
    assert!(got.items.iter().all(|(key, _)| !is_hot(key)));
    assert!(got.unprocessed.iter().all(|(key, code)| is_hot(key) && *code == Code::Throttled));
    assert_eq!(got.items.len() + got.unprocessed.len(), 50, "nothing is lost");
    assert!(!got.items.is_empty() && !got.unprocessed.is_empty());

    // Relief that comes after the first lease is in time.
    let (store, clock) = (world.store.clone(), world.clock.clone());
    let relief = Fault::before(move || {
        clock.advance(LEASE * 2);
        store.relieve(&hot);
    });
    world.store.script(Operation::BatchGet, [Fault::before(|| {}), relief]);
    let got = get(&world, &names);
    assert_eq!((got.items.len(), got.unprocessed.len()), (50, 0));
}

#[test]
fn a_batch_read_that_is_not_answered_lists_its_keys() {
    let world = World::new();
    world.lay_out(1, 4, Placement::Xxh64);
    world.store.script(Operation::BatchGet, [Fault::Lose]);
    let got = get(&world, &names(3));
    let expected = names(3).iter().map(|sk| (key(sk), Code::DeadlineExceeded)).collect();
    assert_eq!((got.items, got.unprocessed), (Vec::new(), expected));
}

#[test]
fn what_a_batch_read_after_its_lease_is_read_again() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    let item = world.place("a", 1, 1);
    world.store.script(Operation::BatchGet, [Fault::after(world.passing(LEASE))]);
    let got = get(&world, &["a".to_owned()]);
    assert_eq!((got.items, got.unprocessed), (vec![(key("a"), item)], Vec::new()));
    assert_eq!(world.store.attempts(Operation::BatchGet), 2);
    assert_eq!(world.memory.requests().directory_gets, 2);
}

#[test]
fn a_batch_read_that_finds_a_newer_generation_looks_again() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    let names = names(20);
    let (memory, layout) = (world.memory.clone(), names.clone());
    let reshard = Fault::before(move || {
        memory.place_metadata(metadata(3, 4, Placement::Xxh64));
        for sk in &layout {
            memory.place(&home(sk, 1), marker(3));
            memory.place(&home(sk, 4), stored(sk, 3));
        }
    });
    world.store.script(Operation::BatchGet, [reshard]);
    let got = get(&world, &names);
    assert_eq!((got.items.len(), got.unprocessed.len()), (20, 0));
    assert_eq!(world.memory.requests().metadata_gets, 2);

    world.lay_out(2, 4, Placement::Xxh64);
    let behind = get(&world, &names);
    assert!(behind.unprocessed.iter().all(|(_, code)| *code == Code::MetadataBehind));
    assert_eq!((behind.items.len(), behind.unprocessed.len()), (0, 20));
}

#[test]
fn regression_a_batch_read_whose_time_was_over_said_that_metadata_is_behind() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    world.memory.place(&home("a", 1), stored("a", 3));
    let slow = world.clock.clone();
    let late = Fault::before(move || slow.advance(Duration::from_millis(999)));
    world.store.script(Operation::BatchGet, [late]);
    let soon = world.deadline_in(Duration::from_secs(1));
    let got = world.reader();
    let got = got.batch_get(vec![key("a")], None, Consistency::Strong, PageBudget::UNLIMITED, soon);
    let got = block_on(got).expect("a batch");
    let codes = got.unprocessed.iter().map(|(_, code)| *code).collect::<Vec<_>>();
    assert_eq!(codes, [Code::DeadlineExceeded], "it was not read again");
}

/// One collection's trouble failed the whole batch.
#[test]
fn regression_a_damaged_collection_failed_the_reads_of_others() {
    let world = World::new();
    world.lay_out(1, 4, Placement::Xxh64);
    world.place("a", 1, 4);
    let damaged = StoreError::Corrupt("rev is missing".to_owned());
    world.store.script(Operation::MetadataGet, [Fault::Refuse(damaged)]);
    let elsewhere = PartitionKey::new("damaged").expect("a valid partition key");
    let exists =
        CollectionMetadata { partition: elsewhere.clone(), ..metadata(1, 1, Placement::Xxh64) };
    world.memory.place_metadata(exists);
    let elsewhere = ItemKey::new(elsewhere, sort("a"));
    let got = get_keys(&world, vec![elsewhere.clone(), key("a")]).expect("a batch");
    assert_eq!(got.items.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), [key("a")]);
    assert_eq!(got.unprocessed, [(elsewhere, Code::CorruptData)]);
}

/// Metadata was read one after the other, each until the deadline of the batch.
#[test]
fn regression_a_collection_whose_metadata_did_not_come_kept_the_others_of_its_batch_waiting() {
    let world = World::new();
    world.lay_out(1, 4, Placement::Xxh64);
    world.place("a", 1, 4);
    world.store.script(Operation::MetadataGet, [Fault::Lose]);
    let elsewhere = PartitionKey::new("elsewhere").expect("a valid partition key");
    let exists =
        CollectionMetadata { partition: elsewhere.clone(), ..metadata(1, 1, Placement::Xxh64) };
    world.memory.place_metadata(exists);
    let elsewhere = ItemKey::new(elsewhere, sort("a"));
    let got = get_keys(&world, vec![elsewhere.clone(), key("a")]).expect("a batch");
    assert_eq!(got.items.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), [key("a")]);
    assert_eq!(got.unprocessed.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), [elsewhere]);
}

/// Operations on a hot partition kept their places in the batch while they waited to be tried
/// again, and those on cold ones were not begun.
#[test]
fn regression_a_hot_partition_starved_the_others_of_its_batch() {
    let world = World::new();
    world.lay_out(1, 2, Placement::Xxh64);
    world.store.throttle(shard(0));
    let outcome = write(&world, puts(&world, 300));
    let hot = |key: &ItemKey| home(&key.sort.to_string(), 2).partition == shard(0);
    assert!(outcome.unprocessed.iter().all(|(key, code)| hot(key) && *code == Code::Throttled));
    assert_eq!(outcome.written, world.memory.contents().len());
    assert!(outcome.written > 100, "{} of about 150 cold ones", outcome.written);
}

/// Before the first refusal had shown that a shard was full, a batch had sent it all that may be under way at once.
#[test]
fn regression_a_batch_sent_a_full_shard_all_that_may_be_under_way() {
    let world = World::new();
    world.store.throttle(shard(0));
    world.store.delay(&world.clock, Duration::from_millis(5));
    let outcome = write(&world, puts(&world, 300));
    assert_eq!(outcome.unprocessed.len(), 300);
    let sent = world.store.attempts(Operation::Write);
    assert!(sent < 32, "{sent} refused, and none granted");
}

/// While the hot collection was resharded, what settles an item held its turn while it waited
/// to be tried again.
#[test]
fn regression_settling_on_a_hot_partition_starved_the_others_of_its_batch() {
    let world = in_forward(None);
    world.store.throttle(shard(0));
    let elsewhere = PartitionKey::new("elsewhere").expect("a key");
    let existing =
        CollectionMetadata::stable(elsewhere.clone(), Placement::Xxh64, ShardCount::ONE, 1);
    world.memory.place_metadata(existing);
    let writer = world.writer();
    let hot = names(200).into_iter().filter(|sk| home(sk, 2) != home(sk, 1)).take(64);
    let hot = hot.map(|sk| world.new_item(&sk, "new")).collect::<Vec<_>>();
    assert_eq!(hot.len(), 64, "all that may be under way at once");
    let hot = hot.iter().map(|item| writer.put(item, Precondition::None, world.deadline()));
    let item = ItemKey::new(elsewhere, sort("1"));
    let item = NewItem::new(item, attributes("new"), &TableSchema::default()).expect("an item");
    let cold = async {
        // All the others have begun, and been throttled.
        world.clock.sleep(Duration::from_nanos(1)).await;
        let began = world.clock.now();
        writer.put(&item, Precondition::None, world.deadline()).await.expect("nothing hinders it");
        world.clock.now().certainly_since(began)
    };
    let (_, waited) = block_on(join(join_all(hot.collect::<Vec<_>>()), cold));
    assert_eq!(waited, Duration::ZERO, "it waited for those that wait");
}

/// A thousand deletes of a random collection were read of in all shards at once, with a connection for
/// each. They take turns, and what comes to its turn late in a lease renews that first.
#[test]
fn regression_a_batch_of_deletes_read_everywhere_at_once() {
    let world = World::random();
    world.lay_out(1, 32, Placement::Random);
    // Slow, so that few operations take longer than a lease.
    let answer = Duration::from_millis(110);
    world.store.delay(&world.clock, answer);
    let began = world.clock.now();
    let deletes = names(100).iter().map(|sk| BatchOperation::Delete(key(sk))).collect();
    assert_eq!(write(&world, deletes).written, 100);
    let taken = world.clock.now().certainly_since(began);
    let at_least = answer * (100 * 32 / 64);
    assert!(taken >= at_least, "at most 64 requests at once: {taken:?}");
    assert!(taken < at_least * 2 && at_least >= LEASE, "{taken:?} for what takes {at_least:?}");
    assert_eq!(world.memory.requests().gets, 3_200, "each is read once");
}

#[test]
fn a_random_item_is_found_wherever_it_is_and_unprocessed_while_a_shard_is_silent() {
    let world = World::random();
    world.lay_out(1, 8, Placement::Random);
    for n in 1..=8 {
        let sk = n.to_string();
        world.memory.place(&in_shard_of(Placement::Random, &sk, n), stored(&sk, 1));
    }
    let names = (1..=9).map(|n: u32| n.to_string()).collect::<Vec<_>>();
    let got = get(&world, &names);
    let found = got.items.iter().map(|(key, _)| key.sort.to_string()).collect::<Vec<_>>();
    assert_eq!(found, ["1", "2", "3", "4", "5", "6", "7", "8"]);
    assert_eq!(got.unprocessed, []);

    world.store.throttle(shard_of(Placement::Random, 8));
    let got = get(&world, &names);
    assert_eq!(got.items.len(), 7);
    let left = [(key("8"), Code::Throttled), (key("9"), Code::Throttled)];
    assert_eq!(got.unprocessed, left, "either may be in the eighth");
}

/// A batch returned the copy whose physical key came last as text, and a get of a shrinking collection
/// the one that is to leave its shard.
#[test]
fn regression_reads_returned_different_copies_of_a_repeated_sort_key() {
    let stable = metadata(3, 12, Placement::Random);
    let shrinking =
        |phase, shards| CollectionMetadata { phase, ..metadata(3, shards, Placement::Random) };
    let (from, to) = (count(12), count(4));
    for metadata in
        [stable, shrinking(Phase::Forward { from, to }, 12), shrinking(Phase::Move { from, to }, 4)]
    {
        let world = World::random();
        world.memory.place_metadata(metadata.clone());
        let repeated = [("a", [2, 10]), ("b", [3, 4]), ("c", [1, 12]), ("d", [5, 11])];
        for (sk, shards) in repeated {
            for shard in shards {
                world.memory.place(
                    &in_shard_of(Placement::Random, sk, shard),
                    stored(&format!("{sk} in {shard}"), 3),
                );
            }
        }
        let lowest = repeated.map(|(sk, [shard, _])| format!("{sk} in {shard}"));
        let names = repeated.map(|(sk, _)| sk.to_owned());
        let reader = world.reader();
        let strong = Consistency::Strong;
        let gets = names.each_ref().map(|sk| {
            let got = block_on(reader.get(&key(sk), None, strong, world.deadline()));
            text_of(&got.expect("an item").item)
        });
        assert_eq!(gets, lowest, "get in {:?}", metadata.phase);
        let batch = get(&world, &names).items;
        let batch = batch.iter().map(|(_, item)| text_of(item)).collect::<Vec<_>>();
        assert_eq!(batch, lowest, "batch get in {:?}", metadata.phase);
        let query = Query::all(partition());
        let page = reader.query(&query, PageBudget::UNLIMITED, world.deadline());
        let page = block_on(page).expect("a page").items;
        let page = page.iter().map(|(_, item)| text_of(item)).collect::<Vec<_>>();
        assert_eq!(page, lowest, "query in {:?}", metadata.phase);
    }
}

/// The copy of a shard that answered stood for the item, though another shard that did not answer
/// holds the copy that a get returns.
#[test]
fn regression_a_batch_settled_on_a_copy_while_a_lower_shard_was_silent() {
    let world = World::random();
    world.lay_out(1, 8, Placement::Random);
    for shard in [3, 7] {
        world
            .memory
            .place(&in_shard_of(Placement::Random, "a", shard), stored(&format!("in {shard}"), 1));
    }
    world.store.throttle(shard_of(Placement::Random, 3));
    let got = get(&world, &["a".to_owned()]);
    assert_eq!((got.items, got.unprocessed), (Vec::new(), vec![(key("a"), Code::Throttled)]));
    world.store.relieve(&shard_of(Placement::Random, 3));
    world.store.throttle(shard_of(Placement::Random, 7));
    let got = get(&world, &["a".to_owned()]);
    assert_eq!(text_of(&got.items[0].1), "in 3", "no shard above it has a say");
}

/// A batch asked for all of its keys at once, however little its answer could hold.
#[test]
fn regression_a_batch_read_went_on_when_it_was_full() {
    let measure = |_: &ItemKey, _: &StoredItem| 400_000;
    let budget = PageBudget { max_bytes: 5_000_000, measure: &measure };
    let (from, to) = (count(4), count(8));
    let resharded =
        CollectionMetadata { phase: Phase::Move { from, to }, ..metadata(1, 8, Placement::Xxh64) };
    for metadata in [metadata(1, 8, Placement::Xxh64), resharded] {
        let world = World::new();
        world.memory.place_metadata(metadata);
        let names = names(100);
        for sk in &names {
            world.place(sk, 1, 8);
        }
        let keys = names.iter().map(|sk| key(sk)).collect();
        let reader = world.reader();
        let got = reader.batch_get(keys, None, Consistency::Strong, budget, world.deadline());
        let got = block_on(got).expect("a batch");
        assert_eq!((got.items.len(), got.left_out.len()), (12, 88));
        assert_eq!(
            (got.items_read, got.unprocessed.len()),
            (13, 0),
            "one more, to know that it is full"
        );
    }
}

#[test]
fn a_batch_read_of_small_items_takes_two_requests() {
    let measure = |_: &ItemKey, _: &StoredItem| 400;
    let budget = PageBudget { max_bytes: 5_000_000, measure: &measure };
    for absent in [false, true] {
        let world = World::new();
        world.lay_out(1, 8, Placement::Xxh64);
        let names = names(100);
        for sk in names.iter().filter(|_| !absent) {
            world.place(sk, 1, 8);
        }
        let keys = names.iter().map(|sk| key(sk)).collect();
        let reader = world.reader();
        let got = reader.batch_get(keys, None, Consistency::Strong, budget, world.deadline());
        let got = block_on(got).expect("a batch");
        assert_eq!((got.items.len(), got.left_out.len()), (if absent { 0 } else { 100 }, 0));
        assert_eq!(world.memory.requests().batch_gets, 2);
    }
}

/// The answer waited for the reports of its collections one after the other, for two seconds at worst.
#[test]
fn regression_a_batch_read_was_held_for_a_report_of_each_of_its_collections() {
    let world = World::new();
    let partitions = (0..10).map(|n| PartitionKey::new(format!("in use {n}")).expect("a key"));
    let partitions = partitions.collect::<Vec<_>>();
    for partition in &partitions {
        let metadata =
            CollectionMetadata { partition: partition.clone(), ..metadata(1, 4, Placement::Xxh64) };
        world.memory.place_metadata(metadata);
    }
    let reader = world.reader();
    let get = || {
        let key = |partition: &PartitionKey| ItemKey { partition: partition.clone(), ..key("a") };
        let keys = partitions.iter().map(key).collect();
        let (unlimited, strong) = (PageBudget::UNLIMITED, Consistency::Strong);
        let got = reader.batch_get(keys, None, strong, unlimited, world.deadline());
        assert_eq!(block_on(got).expect("a batch").unprocessed, []);
    };
    get();
    // The minute is over, and each collection's is reported.
    world.clock.advance(Duration::from_mins(1));
    get();
    assert_eq!(world.store.attempts(Operation::LedgerUpdate), 10);
    world.clock.advance(Duration::from_mins(1));
    world.store.delay(&world.clock, Duration::from_millis(15));
    let began = world.clock.now();
    get();
    assert_eq!(world.store.attempts(Operation::LedgerUpdate), 20);
    let took = world.clock.now().certainly_since(began);
    assert!(took <= Duration::from_millis(100), "{took:?}");
}

/// A collection that was read in batches alone was never known to be hot, and did not grow.
#[test]
fn regression_throttled_batch_reads_were_not_reported() {
    let reasons = [
        (Some("TableReadKeyRangeThroughputExceeded"), true),
        (Some("TableReadProvisionedThroughputExceeded"), false),
    ];
    for (reason, is_reported) in reasons {
        let world = World::new();
        world.lay_out(1, 1, Placement::Xxh64);
        let throttle = reason.map_or_else(Throttle::unknown, |r| Throttle::from_reason(r, None));
        let refuse = || Fault::Refuse(StoreError::Throttled(throttle.clone()));
        world.store.script(Operation::BatchGet, std::iter::repeat_with(refuse).take(1_000));
        let reader = world.reader();
        for _ in 0..5 {
            let keys = names(10).iter().map(|sk| key(sk)).collect();
            let deadline = world.deadline_in(Duration::from_secs(2));
            let (unlimited, eventual) = (PageBudget::UNLIMITED, Consistency::Eventual);
            let got = block_on(reader.batch_get(keys, None, eventual, unlimited, deadline));
            let unprocessed = got.expect("a batch").unprocessed;
            assert!(unprocessed.iter().all(|(_, code)| *code == Code::Throttled));
            assert_eq!(unprocessed.len(), 10);
        }
        let reports = world.store.attempts(Operation::LedgerUpdate);
        assert_eq!(reports > 0, is_reported, "{reports} reports of {reason:?}");
    }
}
