//! DynamoDB rejects an item in the shard that it is to move to, as it does where an index was added that does not take
//! it, or where an item collection is full.

use std::time::Duration;

use dynashard_core::ports::Consistency;
use dynashard_core::query::PageBudget;
use dynashard_core::{Code, Error, MAX_UNMOVABLE, Phase, Precondition, StoredItem, Version};
use dynashard_keys::Placement;
use dynashard_testkit::{Fault, Operation, block_on};

use crate::reshard::{LONG, MOVES, advance, in_forward, in_move, job, metadata, put, scale, world};
use crate::world::{World, attributes, code, home, in_shard, key, marker, stored, text_of};

fn get(world: &World, consistency: Consistency) -> Result<String, Error> {
    let got = block_on(world.reader().get(&key(MOVES), None, consistency, world.deadline()));
    got.map(|got| text_of(&got.item))
}

fn delete(world: &World, precondition: Precondition) -> Result<(), Error> {
    let deleted = block_on(world.writer().delete(&key(MOVES), precondition, world.deadline()));
    deleted.map(drop)
}

fn rejected(worlds: impl IntoIterator<Item = World>) -> Vec<World> {
    let rejecting = |world: World| {
        world.store.reject_arrival(home(MOVES, 2));
        world
    };
    worlds.into_iter().map(rejecting).collect()
}

/// Slices as the sweep makes them, once a minute.
fn sweep(world: &World, minutes: u32) {
    for _ in 0..minutes {
        advance(world, LONG).expect("a slice");
        world.clock.advance(Duration::from_mins(1));
    }
}

/// The scan ended at the item in each round, and nobody said which it was.
#[test]
fn regression_an_item_that_cannot_be_moved_held_up_those_behind_it() {
    for repaired in [true, false] {
        let world = world(Placement::Xxh64, 1);
        let names = (0..200).map(|n| format!("{n:03}")).collect::<Vec<_>>();
        for name in &names {
            put(&world, name, name).expect("a put");
        }
        let bad = names.iter().find(|name| home(name, 2) != home(name, 1)).expect("one of many");
        world.store.reject_arrival(home(bad, 2));
        scale(&world, 2).expect("it begins");
        sweep(&world, 10);
        assert!(matches!(metadata(&world).phase, Phase::Move { .. }), "it does not close");
        let noted = job(&world)
            .unmovable
            .into_iter()
            .map(|((shard, sort), why)| (in_shard(&sort.to_string(), shard.get()), why));
        let why = "ValidationError: Type mismatch for Index Key".to_owned();
        assert_eq!(noted.collect::<Vec<_>>(), [(home(bad, 1), why)]);
        for name in names.iter().filter(|name| *name != bad) {
            assert_eq!(world.stored(&home(name, 2)).as_ref(), Some(name), "it has moved");
        }
        assert_eq!(world.stored(&home(bad, 1)).as_ref(), Some(bad), "nothing is lost");

        if repaired {
            world.store.accept_arrival(&home(bad, 2));
        } else {
            let deleted = world.writer();
            let deleted = block_on(deleted.delete(&key(bad), Precondition::None, world.deadline()));
            deleted.expect("a delete");
        }
        sweep(&world, 10);
        assert!(!metadata(&world).needs_rebalancing(), "it has closed");
        let left = world.memory.contents();
        assert!(left.iter().all(|(_, item)| item.is_live()), "no marker is left");
        assert_eq!(left.len(), names.len() - usize::from(!repaired));
    }
}

/// A scan that went past an item which nobody notes would lose it at the close.
#[test]
fn a_scan_stops_where_there_is_no_room_to_note_what_cannot_be_moved() {
    let world = world(Placement::Xxh64, 1);
    let names = (0..400).map(|n| format!("{n:03}")).collect::<Vec<_>>();
    let leaving = names.iter().filter(|name| home(name, 2) != home(name, 1)).collect::<Vec<_>>();
    assert!(leaving.len() > MAX_UNMOVABLE + 10);
    for name in &names {
        put(&world, name, name).expect("a put");
    }
    for name in &leaving {
        world.store.reject_arrival(home(name, 2));
    }
    scale(&world, 2).expect("it begins");
    let error = advance(&world, LONG).expect_err("somebody has to look");
    assert_eq!(error.code(), Code::UnmovableItem);
    assert!(error.message().contains(&format!("sort key {:?}", leaving[MAX_UNMOVABLE])), "{error}");
    assert_eq!(job(&world).unmovable.len(), MAX_UNMOVABLE);
    for name in &leaving {
        world.store.accept_arrival(&home(name, 2));
    }
    sweep(&world, 10);
    assert!(!metadata(&world).needs_rebalancing(), "it has closed");
    assert!(names.iter().all(|name| world.stored(&home(name, 2)).as_ref() == Some(name)));
}

/// A read of a healthy item failed for ever because of a write that it need not make.
#[test]
fn regression_a_strong_read_of_an_item_that_cannot_be_moved_failed() {
    for world in rejected([in_move(Some("before")), in_forward(Some("before"))]) {
        for consistency in [Consistency::Strong, Consistency::Eventual] {
            assert_eq!(get(&world, consistency), Ok("before".into()));
        }
        let batch = block_on(world.reader().batch_get(
            vec![key(MOVES)],
            None,
            Consistency::Strong,
            PageBudget::UNLIMITED,
            world.deadline(),
        ));
        assert_eq!(batch.expect("a batch").items.len(), 1);
    }
}

#[test]
fn an_item_that_cannot_be_moved_is_deleted_where_it_lies() {
    for world in rejected([in_move(Some("before")), in_forward(Some("before"))]) {
        assert_eq!(code(delete(&world, Precondition::Never)), Code::PreconditionFailed);
        let found = world.memory.stored(&home(MOVES, 1)).expect("an item");
        assert_eq!(delete(&world, Precondition::Version(found.version)), Ok(()));
        let left = world.memory.stored(&home(MOVES, 1)).expect("a marker");
        assert_eq!(left, StoredItem::marker_of_delete(marker(2).generation, left.version));
        let is_told_from_a_move = left.version != Version::new(0) && left.version != found.version;
        assert!(is_told_from_a_move, "by the table's stream: {left:?}");
        assert_eq!(get(&world, Consistency::Strong).map_err(|e| e.code()), Err(Code::ItemNotFound));
        assert_eq!(delete(&world, Precondition::None), Ok(()), "that there is none is success");
    }
}

/// A put that takes effect between the read of both homes and the delete comes after the delete.
#[test]
fn a_put_that_passes_a_delete_of_what_cannot_be_moved_is_kept() {
    for world in rejected([in_move(Some("before"))]) {
        let memory = world.memory.clone();
        let passing = move || memory.place(&home(MOVES, 2), stored("after", 2));
        world.store.script(Operation::Write, [Fault::before(passing)]);
        assert_eq!(delete(&world, Precondition::None), Ok(()));
        assert_eq!(get(&world, Consistency::Strong), Ok("after".into()));
    }
}

#[test]
fn an_item_that_cannot_be_moved_is_replaced_by_a_put_and_patched_by_nobody() {
    for world in rejected([in_move(Some("before"))]) {
        let (writer, deadline) = (world.writer(), world.deadline());
        let item = world.new_item(MOVES, "after");
        let patched =
            block_on(writer.patch(&key(MOVES), attributes("after"), Precondition::None, deadline));
        assert_eq!(code(patched), Code::UnmovableItem);
        for precondition in [Precondition::Absent, Precondition::Exists] {
            let refused = block_on(writer.put(&item, precondition, deadline));
            assert_eq!(code(refused), Code::UnmovableItem, "{precondition:?}");
        }
        assert_eq!(get(&world, Consistency::Strong), Ok("before".into()));
        put(&world, MOVES, "after").expect("a put");
        assert_eq!(get(&world, Consistency::Strong), Ok("after".into()));
        sweep(&world, 10);
        assert!(!metadata(&world).needs_rebalancing(), "what was replaced need not move");
        assert_eq!(get(&world, Consistency::Strong), Ok("after".into()));
    }
}
