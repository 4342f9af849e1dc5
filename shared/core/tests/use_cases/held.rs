//! No request is held because a partition is exhausted or a growth takes its time.

use std::time::Duration;

use dynashard_core::ports::{Clock, Consistency, StoreError};
use dynashard_core::{
    AttributeValue, BatchOperation, Code, Deadline, Error, Moment, NewItem, Phase, Precondition,
    Settings, Throttle,
};
use dynashard_keys::{ItemKey, PartitionKey, Placement};
use dynashard_testkit::{Fault, Operation, block_on};

use crate::reshard::MOVES;
use crate::world::{
    World, attributes, code, count, home, in_shard_of, key, partition, resharding, shard, sort,
    stored, usual_settings,
};

/// What the functions give what stays throttled.
const PATIENCE: Duration = Duration::from_secs(2);

/// What they give a request for a single item, unless an item has to move for it.
const HURRY: Duration = Duration::from_millis(250);

fn world() -> World {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    world.clock.advance(Duration::from_mins(10));
    world
}

/// As the functions' runtime makes it.
fn deadline(world: &World) -> Deadline {
    world.deadline().if_throttled(world.deadline_in(PATIENCE))
}

/// The deadline of a request for a single item.
fn hurried(world: &World) -> Deadline {
    let deadline = world.deadline().if_throttled(world.deadline_in(HURRY));
    deadline.if_settling(world.deadline_in(PATIENCE))
}

fn put(world: &World) -> Result<(), Error> {
    let item = world.new_item("a", "new");
    let writer = world.writer();
    block_on(writer.put(&item, Precondition::None, deadline(world))).map(drop)
}

fn since(world: &World, begun: Moment) -> Duration {
    world.clock.now().certainly_since(begun)
}

/// It was held until its deadline, which is 23 seconds, and an environment with it.
#[test]
fn regression_a_write_that_stayed_throttled_was_held_until_its_deadline() {
    let world = world();
    world.store.throttle(shard(0));
    let begun = world.clock.now();
    assert_eq!(code(put(&world)), Code::Throttled);
    assert!(since(&world, begun) <= PATIENCE);
    let (reader, key, begun) = (world.reader(), key("a"), world.clock.now());
    let got = reader.get(&key, None, Consistency::Strong, deadline(&world));
    assert_eq!(code(block_on(got)), Code::Throttled);
    assert!(since(&world, begun) <= PATIENCE);
    world.store.relieve(&shard(0));
    put(&world).expect("a put");
}

/// Each of its parts was tried until the deadline.
#[test]
fn regression_a_delete_in_a_random_collection_that_stayed_throttled_was_held_until_its_deadline() {
    let world = World::random();
    world.lay_out(1, 4, Placement::Random);
    let place = |shard| in_shard_of(Placement::Random, "a", shard);
    let delete = || {
        let (writer, key, begun) = (world.writer(), key("a"), world.clock.now());
        let deleted = block_on(writer.delete(&key, Precondition::None, deadline(&world)));
        assert!(since(&world, begun) <= PATIENCE, "{:?}", since(&world, begun));
        deleted.map(drop)
    };
    world.memory.place(&place(2), stored("in 2", 1));
    world.store.throttle(place(2).partition);
    assert_eq!(code(delete()), Code::Throttled);

    // A part of it is done.
    world.memory.place(&place(3), stored("in 3", 1));
    assert_eq!(code(delete()), Code::OutcomeUnknown);
    world.store.relieve(&place(2).partition);
    delete().expect("a delete");
    assert!(world.memory.stored(&place(2)).is_none() && world.memory.stored(&place(3)).is_none());
}

/// Each put of an item that may expire puts a marker at the old home, which throttles, and was tried as long as one
/// whose item has to move.
#[test]
fn regression_a_put_that_moves_nothing_was_held_as_one_whose_item_moves() {
    let ttl_attribute = Some("expires".to_owned());
    let world = World::with(Settings { ttl_attribute, ..usual_settings() });
    let [_, in_move] = resharding();
    world.memory.place_metadata(in_move);
    world.store.throttle(home(MOVES, 1).partition);
    let mut attributes = attributes("new");
    attributes.insert("expires".to_owned(), AttributeValue::Number(1_800_000_000_u64.into()));
    let item = NewItem::new(key(MOVES), attributes, &usual_settings().schema).expect("an item");
    let (writer, begun) = (world.writer(), world.clock.now());
    let put = writer.put(&item, Precondition::None, hurried(&world));
    assert_eq!(code(block_on(put)), Code::Throttled);
    assert!(since(&world, begun) <= HURRY, "{:?}", since(&world, begun));
}

/// A failure of another kind may pass within the deadline, so the client need not come back later.
#[test]
fn what_is_not_throttled_is_tried_until_the_deadline() {
    let world = world();
    let gone = || Fault::Refuse(StoreError::Unavailable("no connection".to_owned()));
    world.store.script(Operation::Write, std::iter::repeat_with(gone).take(12));
    let begun = world.clock.now();
    put(&world).expect("a put");
    assert!(since(&world, begun) > PATIENCE, "{:?}", since(&world, begun));
}

/// All operations waited with the throttled ones for the batch's deadline.
#[test]
fn regression_a_batch_waited_for_what_stayed_throttled_although_the_rest_was_done() {
    let world = world();
    let cold = PartitionKey::new("LGA").expect("a partition key");
    world.store.throttle(shard(0));
    let schema = usual_settings().schema;
    let operations = (0..200).map(|n| {
        let partition = if n % 2 == 0 { partition() } else { cold.clone() };
        let key = ItemKey::new(partition, sort(&n.to_string()));
        let item = NewItem::new(key, attributes("new"), &schema).expect("a valid item");
        BatchOperation::Put(item)
    });
    let begun = world.clock.now();
    let batch = world.writer();
    let written = block_on(batch.batch(operations.collect(), deadline(&world)));
    let written = written.expect("a batch");
    assert!(since(&world, begun) <= PATIENCE);
    assert_eq!((written.written, written.unprocessed.len()), (100, 100));
    let throttled =
        |(key, code): &(ItemKey, Code)| *code == Code::Throttled && key.partition == partition();
    assert!(written.unprocessed.iter().all(throttled));
}

/// Two writes met a throttle, and one growth was under way: the thread waited for itself.
#[test]
fn regression_writes_that_met_a_throttle_while_a_growth_was_under_way_never_ended() {
    let world = world();
    world.heat_up();
    let throttle = Throttle::from_reason("TableWriteKeyRangeThroughputExceeded", None);
    let hot = || Fault::Refuse(StoreError::Throttled(throttle.clone()));
    world.store.script(Operation::Write, [hot(), hot(), hot()]);
    world.store.script(Operation::Begin, [Fault::Lose]);
    let items = ["a", "b", "c"].map(|sk| BatchOperation::Put(world.new_item(sk, "new")));
    // Each of them meets the throttle.
    let writer = world.writer().unpaced();
    let written = block_on(writer.batch(items.to_vec(), deadline(&world))).expect("a batch");
    assert_eq!(written.written, 3);
    assert_eq!(world.store.attempts(Operation::Begin), 1, "one growth");
}

/// The growth of a collection was begun before the write was tried again.
#[test]
fn regression_a_metadata_table_that_did_not_answer_held_the_write_that_asked_for_a_growth() {
    let world = world();
    world.heat_up();
    let throttle = Throttle::from_reason("TableWriteKeyRangeThroughputExceeded", None);
    let hot = || Fault::Refuse(StoreError::Throttled(throttle.clone()));
    world.store.script(Operation::Write, [hot()]);
    world.store.script(Operation::Begin, [Fault::Lose]);
    let begun = world.clock.now();
    put(&world).expect("a put");
    assert!(since(&world, begun) < Duration::from_secs(1), "{:?}", since(&world, begun));

    // The next report asks again, and the growth is begun beside the write.
    world.clock.advance(Duration::from_secs(1));
    world.heat_up();
    world.store.script(Operation::Write, [hot()]);
    put(&world).expect("a put");
    let metadata = world.memory.stored_metadata(&partition()).expect("the collection exists");
    assert_eq!(metadata.phase, Phase::Forward { from: count(1), to: count(2) });
}

/// It came back instead, and each time the failed try at the new home was paid for: a third of the writes
/// that a grown key takes got through.
#[test]
fn regression_a_write_gave_up_the_move_of_its_item_as_soon_as_a_write_that_is_not_held() {
    let [forward, in_move] = resharding();
    for (metadata, least) in [(forward, Duration::ZERO), (in_move, Duration::from_secs(1))] {
        let world = world();
        world.memory.place_metadata(metadata);
        world.memory.place(&home(MOVES, 1), stored("before", 1));
        let throttles = std::iter::repeat_with(Fault::throttle).take(1_000);
        world.store.script(Operation::Transfer, throttles);
        let (writer, begun) = (world.writer(), world.clock.now());
        let item = world.new_item(MOVES, "new");
        let put = writer.put(&item, Precondition::Exists, hurried(&world));
        assert_eq!(code(block_on(put)), Code::Throttled);
        let waited = since(&world, begun);
        assert!((least..=PATIENCE).contains(&waited), "{waited:?}");
        if least.is_zero() {
            assert!(waited <= HURRY, "{waited:?}");
        }
    }
}

/// A shard that had refused a write was asked again for each item of a batch, and for each write that came: two to fourteen were
/// refused for each that was written.
#[test]
fn regression_a_full_shard_was_asked_for_each_item_of_a_batch() {
    let world = World::with_mover(usual_settings());
    world.lay_out(1, 1, Placement::Xxh64);
    world.clock.advance(Duration::from_mins(10));
    world.store.throttle(shard(0));
    let items = (0..1_000).map(|n| BatchOperation::Put(world.new_item(&n.to_string(), "new")));
    let writer = world.writer();
    let before = world.store.attempts(Operation::Write);
    let written = block_on(writer.batch(items.collect(), hurried(&world))).expect("a batch");
    assert_eq!(written.unprocessed.len(), 1_000);
    let tried = world.store.attempts(Operation::Write) - before;
    // Those that are under way when the first one is refused, and the shard's pace in the quarter of a second.
    assert!(tried <= 64 + 64, "{tried}");

    // What is not patient is told at once, and nothing is asked.
    let before = world.store.attempts(Operation::Write);
    let at_once = world.deadline().if_throttled(world.deadline_in(Duration::ZERO));
    let item = world.new_item("a", "new");
    assert_eq!(code(block_on(writer.put(&item, Precondition::None, at_once))), Code::Throttled);
    assert_eq!(world.store.attempts(Operation::Write), before);

    // Who paces itself asks each time.
    let writer = world.writer().unpaced();
    for asked in 1..=5 {
        let put = block_on(writer.put(&item, Precondition::None, at_once));
        assert_eq!(code(put), Code::Throttled);
        assert_eq!(world.store.attempts(Operation::Write), before + asked);
    }

    world.store.relieve(&shard(0));
    world.clock.advance(Duration::from_secs(1));
    let writer = world.writer();
    block_on(writer.put(&item, Precondition::None, hurried(&world))).expect("a put");
}

/// A cold key shares the environment, and may share the partition.
#[test]
fn a_full_shard_holds_no_other_collection_back() {
    let world = World::with_mover(usual_settings());
    world.lay_out(1, 1, Placement::Xxh64);
    world.clock.advance(Duration::from_mins(10));
    world.store.throttle(shard(0));
    let cold = PartitionKey::new("cold").expect("a partition key");
    let hot = (0..200).map(|n| world.new_item(&n.to_string(), "new"));
    let mut operations = hot.map(BatchOperation::Put).collect::<Vec<_>>();
    for n in 0..200 {
        let key = ItemKey::new(cold.clone(), sort(&n.to_string()));
        let item = NewItem::new(key, attributes("new"), &usual_settings().schema);
        operations.push(BatchOperation::Put(item.expect("an item")));
    }
    let written = block_on(world.writer().batch(operations, hurried(&world))).expect("a batch");
    assert_eq!(written.written, 200);
    let all_hot = written.unprocessed.iter().all(|(key, _)| key.partition == partition());
    assert!(all_hot && written.unprocessed.len() == 200);
}
