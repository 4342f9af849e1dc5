//! Reads settle what they show: what creates, replacements, patches and reads do while a reshard moves items.

use dynashard_core::ports::Consistency;
use dynashard_core::{
    AttributeValue, Code, Error, Fields, Got, NewItem, Precondition, Settings, StoredItem, Version,
    Written,
};
use dynashard_keys::Placement;
use dynashard_testkit::{Fault, Operation, Requests, block_on};

use crate::reshard::{MOVES, cost, in_forward, in_move, metadata};
use crate::world::{
    LEASE, World, attributes, code, home, key, marker, outcome_unknown, resharding, stored,
    text_of, usual_settings,
};

/// An operation with a precondition.
type Conditional = fn(&World, Precondition) -> Result<(), Error>;

const ABSENT: Precondition = Precondition::Absent;

fn get(world: &World, consistency: Consistency) -> Result<Got, Error> {
    block_on(world.reader().get(&key(MOVES), None, consistency, world.deadline()))
}

fn put(world: &World, precondition: Precondition) -> Result<Written, Error> {
    let item = world.new_item(MOVES, "new");
    block_on(world.writer().put(&item, precondition, world.deadline()))
}

fn patch(world: &World, precondition: Precondition) -> Result<Written, Error> {
    let attributes = attributes("patched");
    let deadline = world.deadline();
    block_on(world.writer().patch(&key(MOVES), attributes, precondition, deadline))
}

fn delete(world: &World, precondition: Precondition) -> Result<(), Error> {
    let deadline = world.deadline();
    block_on(world.writer().delete(&key(MOVES), precondition, deadline)).map(drop)
}

fn old(world: &World) -> Option<StoredItem> {
    world.memory.stored(&home(MOVES, 1))
}

fn new(world: &World) -> Option<String> {
    world.stored(&home(MOVES, 2))
}

/// What the requests of an operation are.
fn spent<T>(world: &World, operation: impl FnOnce() -> T) -> (Requests, T) {
    let mut result = None;
    let requests = cost(world, || result = Some(operation()));
    (requests, result.expect("the operation has run"))
}

/// The hot shard took a marker for each of them, and refused more than it had refused before it was
/// resharded.
/// Invariant I14.
#[test]
fn regression_creates_wrote_to_the_hot_shard_until_the_reshard_closed() {
    let world = in_move(None);
    let (requests, created) = spent(&world, || put(&world, ABSENT));
    created.expect("created");
    assert_eq!((requests.gets, requests.writes), (1, 1), "{requests:?}");
    assert_eq!(old(&world), None);
    assert_eq!(code(put(&world, ABSENT)), Code::PreconditionFailed);
}

/// Invariants I1, I31.
#[test]
fn a_create_is_refused_by_an_item_that_has_not_moved() {
    let world = in_move(Some("before"));
    assert_eq!(code(put(&world, ABSENT)), Code::PreconditionFailed);
    assert_eq!(old(&world), Some(marker(2)));
    assert_eq!(new(&world), Some("before".to_owned()));
}

/// A late put lands behind the look of a create, and is read.
/// Invariants I1, I31.
#[test]
fn a_create_does_not_succeed_over_a_late_put_that_was_read_behind_its_look() {
    let world = in_move(None);
    let (memory, reader, deadline) = (world.memory.clone(), world.reader(), world.deadline());
    let meanwhile = Fault::after(move || {
        memory.place(&home(MOVES, 1), stored("late", 1));
        let key = key(MOVES);
        let got = std::thread::spawn(move || {
            block_on(reader.get(&key, None, Consistency::Strong, deadline))
        });
        let got = got.join().expect("a read").expect("the item is found");
        assert_eq!(text_of(&got.item), "late");
    });
    world.store.script(Operation::Get, [meanwhile]);
    assert_eq!(code(put(&world, ABSENT)), Code::PreconditionFailed);
    assert_eq!(get(&world, Consistency::Strong).map(|got| text_of(&got.item)), Ok("late".into()));
}

/// Invariants I1, I31.
#[test]
fn a_strong_read_moves_what_it_shows_once() {
    for world in [in_move(None), in_forward(None)] {
        world.memory.place(&home(MOVES, 1), stored("late", 1));
        let (requests, got) = spent(&world, || get(&world, Consistency::Strong));
        let got = got.expect("the item is found");
        assert_eq!(text_of(&got.item), "late");
        assert!(got.consumed_wcu > 0.0);
        let Requests { gets, gets_of_both, transfers, .. } = requests;
        assert_eq!((gets, gets_of_both, transfers), (1, 1, 1));
        assert_eq!(old(&world), Some(marker(2)));
        let (requests, again) = spent(&world, || get(&world, Consistency::Strong));
        assert_eq!(again.map(|got| got.consumed_wcu), Ok(0.0), "it moves once");
        assert_eq!((requests.gets, requests.gets_of_both), (1, 0));
    }
}

/// A source that writes have exhausted does not throttle them.
#[test]
fn a_read_that_does_not_ask_for_strength_writes_nothing() {
    for world in [in_move(Some("before")), in_forward(Some("before"))] {
        let (requests, got) = spent(&world, || get(&world, Consistency::Eventual));
        assert_eq!(
            got.map(|got| (text_of(&got.item), got.consumed_wcu)),
            Ok(("before".into(), 0.0))
        );
        assert_eq!((requests.writes, requests.transfers), (0, 0));
        assert!(old(&world).is_some_and(|item| item.is_live()));
    }
}

/// Invariant I17.
#[test]
fn a_read_of_some_fields_moves_all_of_an_item() {
    let world = in_move(None);
    let mut item = stored("before", 1);
    item.attributes.insert("more".to_owned(), AttributeValue::Bool(true));
    world.memory.place(&home(MOVES, 1), item.clone());
    let fields = Fields::new(["more".to_owned()]).expect("a field");
    let reader = world.reader();
    let (key, deadline) = (key(MOVES), world.deadline());
    let got = block_on(reader.get(&key, Some(&fields), Consistency::Strong, deadline));
    let got = got.expect("the item is found").item;
    assert_eq!(got.attributes.keys().collect::<Vec<_>>(), ["more"]);
    let moved = world.memory.stored(&home(MOVES, 2)).expect("it has moved");
    assert_eq!((moved.attributes, moved.version), (item.attributes, item.version));
}

#[test]
fn a_read_that_cannot_move_what_it_found_looks_again() {
    let world = in_move(Some("before"));
    let faults = [Fault::throttle(), Fault::ExecuteThen(outcome_unknown())];
    world.store.script(Operation::Transfer, faults);
    assert_eq!(get(&world, Consistency::Strong).map(|got| text_of(&got.item)), Ok("before".into()));
    assert_eq!(old(&world), Some(marker(2)));

    // A put comes between: what was found is not what the read returns.
    let world = in_move(Some("before"));
    let memory = world.memory.clone();
    let meanwhile = Fault::before(move || memory.place(&home(MOVES, 2), stored("new", 2)));
    world.store.script(Operation::Transfer, [meanwhile]);
    assert_eq!(get(&world, Consistency::Strong).map(|got| text_of(&got.item)), Ok("new".into()));

    // The source refuses to the end: the reader is told, and nothing has happened.
    let world = in_move(Some("before"));
    world.store.script(Operation::Transfer, (0..10_000).map(|_| Fault::throttle()));
    assert_eq!(code(get(&world, Consistency::Strong)), Code::Throttled);
    assert!(old(&world).is_some_and(|item| item.is_live()));
}

/// Invariant I14.
#[test]
fn an_item_that_has_moved_is_replaced_without_a_look_at_the_hot_shard() {
    let exists = Precondition::Exists;
    for precondition in [exists, Precondition::Version(Version::new(1))] {
        let world = in_move(None);
        world.memory.place(&home(MOVES, 2), stored("moved", 2));
        let (requests, written) = spent(&world, || put(&world, precondition));
        written.expect("replaced");
        assert_eq!((requests.gets, requests.writes), (0, 1));
    }
    let world = in_move(None);
    world.memory.place(&home(MOVES, 2), stored("moved", 2));
    let (requests, written) = spent(&world, || patch(&world, exists));
    written.expect("patched");
    assert_eq!((requests.gets, requests.gets_of_both, requests.writes), (1, 0, 1));

    // New wins: another version there decides, whatever lies at the old home.
    let world = in_move(Some("before"));
    world.memory.place(&home(MOVES, 2), stored("moved", 2));
    let other = Precondition::Version(Version::new(7));
    let (requests, refused) = spent(&world, || put(&world, other));
    assert_eq!(code(refused), Code::PreconditionFailed);
    assert_eq!((requests.gets, requests.writes), (0, 1));
}

/// Invariants I1, I14.
#[test]
fn an_item_that_has_not_moved_is_replaced_patched_and_deleted_under_its_version() {
    let version = Precondition::Version(Version::new(1));
    let operations: [Conditional; 3] = [
        |world, precondition| put(world, precondition).map(drop),
        |world, precondition| patch(world, precondition).map(drop),
        delete,
    ];
    for operation in operations {
        for precondition in [version, Precondition::Exists] {
            let world = in_move(Some("before"));
            operation(&world, precondition).expect("the version is there");
            assert_eq!(old(&world), Some(marker(2)));
            let world = in_move(None);
            assert_eq!(code(operation(&world, precondition)), Code::PreconditionFailed);
            assert_eq!(old(&world), None, "nothing is marked");
        }
        let world = in_move(Some("before"));
        let other = Precondition::Version(Version::new(7));
        assert_eq!(code(operation(&world, other)), Code::PreconditionFailed);
        let found = get(&world, Consistency::Strong).map(|got| text_of(&got.item));
        assert_eq!(found, Ok("before".into()));
    }
}

/// What a late request leaves at the old home must not show behind a conditional delete, if a client has
/// seen it before.
/// Invariant I28.
#[test]
fn a_conditional_delete_takes_the_item_that_it_saw() {
    for precondition in [Precondition::Exists, Precondition::Version(Version::new(1))] {
        let world = in_move(None);
        world.memory.place(&home(MOVES, 2), stored("moved", 2));
        let memory = world.memory.clone();
        let meanwhile = Fault::after(move || {
            let other = StoredItem { version: Version::new(9), ..stored("hides it", 2) };
            memory.place(&home(MOVES, 1), stored("late", 1));
            memory.place(&home(MOVES, 2), other);
        });
        world.store.script(Operation::GetBoth, [meanwhile]);
        let deleted = delete(&world, precondition);
        let found = get(&world, Consistency::Strong).map(|got| text_of(&got.item));
        if precondition == Precondition::Exists {
            deleted.expect("there is an item all the time");
            assert_eq!(code(found), Code::ItemNotFound);
        } else {
            assert_eq!(code(deleted), Code::PreconditionFailed);
            assert_eq!(found, Ok("hides it".into()));
        }
    }
}

/// DynamoDB deletes an item that expires without a look at the old home.
/// Invariant I14.
#[test]
fn writes_of_items_that_expire_leave_a_marker() {
    let ttl_attribute = "expires";
    let expiring = || {
        let mut attributes = attributes("new");
        attributes
            .insert(ttl_attribute.to_owned(), AttributeValue::Number(1_356_998_400_u64.into()));
        attributes
    };
    let in_move = || {
        let ttl_attribute = Some(ttl_attribute.to_owned());
        let world = World::with(Settings { ttl_attribute, ..usual_settings() });
        let [_, in_move] = resharding();
        world.memory.place_metadata(in_move);
        world
    };
    let item = NewItem::new(key(MOVES), expiring(), &usual_settings().schema).expect("an item");
    for (precondition, there) in [(ABSENT, false), (Precondition::Exists, true)] {
        let world = in_move();
        if there {
            world.memory.place(&home(MOVES, 2), stored("moved", 2));
        }
        block_on(world.writer().put(&item, precondition, world.deadline())).expect("a put");
        assert_eq!(old(&world), Some(marker(2)));
    }
    let world = in_move();
    world.memory.place(&home(MOVES, 2), stored("moved", 2));
    let (writer, key, deadline) = (world.writer(), key(MOVES), world.deadline());
    let patched = writer.patch(&key, expiring(), Precondition::None, deadline);
    block_on(patched).expect("patched");
    assert_eq!(old(&world), Some(marker(2)));
}

/// A put whose answer was lost lies at the old home: to acknowledge it is to show it.
/// Invariants I6, I31.
#[test]
fn a_look_moves_the_put_that_it_acknowledges() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    let (memory, pass) = (world.memory.clone(), world.passing(LEASE));
    let meanwhile = Fault::after(move || {
        let [_, in_move] = resharding();
        memory.place_metadata(in_move);
        pass();
    });
    world.store.script(Operation::Write, [meanwhile]);
    let written = put(&world, Precondition::None).expect("it is found");
    assert_eq!(old(&world), Some(marker(2)));
    let moved = world.memory.stored(&home(MOVES, 2)).expect("it was moved");
    assert_eq!(moved.version, written.version);
    assert_eq!(metadata(&world).number_of_shards.get(), 2);
}
