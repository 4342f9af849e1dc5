//! Counters: what they count, where, between which bounds, and what becomes of them under throttles and unknown outcomes.

use std::sync::Arc;
use std::time::Duration;

use dynashard_core::ports::{Clock, StoreError};
use dynashard_core::query::{PageBudget, Query};
use dynashard_core::{
    Added, AttributeValue, Bounds, CellNumber, Code, CounterValue, Deadline, Error, Precondition,
    StoredItem, Throttle, Writer,
};
use dynashard_keys::{ItemKey, PhysicalKey, SortKey, SortKeyType};
use dynashard_testkit::{Fault, Operation, block_on};

use crate::world::{World, code, key, outcome_unknown, partition};

const UNBOUNDED: Bounds = Bounds { min: None, max: None };
const FLOOR: Bounds = Bounds { min: Some(0), max: None };

fn add(world: &World, writer: &Writer, amount: i64, bounds: Bounds) -> Result<Added, Error> {
    block_on(writer.add_to_counter(&key("n"), amount, bounds, world.deadline()))
}

fn read(world: &World) -> Result<CounterValue, Error> {
    block_on(world.reader().counter(&key("n"), world.deadline()))
}

fn value(world: &World) -> (i128, u16) {
    let counter = read(world).expect("a counter");
    (counter.value, counter.cells)
}

fn cells(world: &World) -> Vec<(PhysicalKey, StoredItem)> {
    let contents = world.memory.contents().into_iter();
    contents.filter(|(at, _)| at.partition.as_str().starts_with("_ds_c#")).collect()
}

/// What all cells have together.
fn sum_of(world: &World, number: CellNumber) -> i128 {
    let cells = cells(world);
    let numbers = cells.iter().filter_map(|(_, cell)| cell.attributes.get(number.name()));
    let numbers = numbers.map(|number| match number {
        AttributeValue::Number(number) => number.to_string(),
        other => panic!("{other:?}"),
    });
    numbers.map(|number| number.parse::<i128>().expect("a whole number")).sum()
}

fn throttle() -> Fault {
    let reason = "TableWriteKeyRangeThroughputExceeded";
    Fault::Refuse(StoreError::Throttled(Throttle::from_reason(reason, None)))
}

/// Adds 1 and takes it away, with a throttle and after a rest, until there are so many cells.
fn grow(world: &World, writer: &Writer, cells: u16) {
    while value(world).1 < cells {
        world.clock.advance(Duration::from_secs(5));
        world.store.script(Operation::Write, [throttle()]);
        add(world, writer, 1, UNBOUNDED).expect("it is sent again");
        add(world, writer, -1, UNBOUNDED).expect("what was there was there before");
    }
}

#[test]
fn a_cold_counter_is_one_item_and_an_add_one_request() {
    let world = World::new();
    let writer = world.writer();
    let first = add(&world, &writer, 5, UNBOUNDED).expect("it is made");
    assert_eq!((first.cell, first.cells), (0, 1));
    for writer in [writer, world.writer()] {
        let before = [Operation::Write, Operation::Get].map(|of| world.store.attempts(of));
        add(&world, &writer, 2, UNBOUNDED).expect("it is added");
        let after = [Operation::Write, Operation::Get].map(|of| world.store.attempts(of));
        assert_eq!([after[0] - before[0], after[1] - before[1]], [1, 0]);
    }
    assert_eq!((value(&world), cells(&world).len()), ((9, 1), 1));
    let query = Query::all(partition());
    let page = world.reader();
    let page = block_on(page.query(&query, PageBudget::UNLIMITED, world.deadline()));
    let page = page.expect("a page");
    assert_eq!(page.items, [], "no collection shows it");
}

#[test]
fn an_add_that_would_pass_a_bound_is_refused_and_changes_nothing() {
    let world = World::new();
    let writer = world.writer();
    let bounds = Bounds { min: Some(-1), max: Some(12) };
    assert_eq!(code(add(&world, &writer, 13, bounds)), Code::CounterLimit);
    assert_eq!(code(add(&world, &writer, -2, bounds)), Code::CounterLimit);
    assert_eq!(cells(&world), []);
    for (amount, is_added) in
        [(10, true), (3, false), (-12, false), (-11, true), (-1, false), (13, true), (1, false)]
    {
        // Whoever names no bounds, or does not know the counter yet, keeps to them, too.
        for (writer, asked) in [(&writer, bounds), (&writer, UNBOUNDED), (&world.writer(), FLOOR)] {
            let before = cells(&world);
            let added = add(&world, writer, amount, asked);
            if asked == FLOOR {
                assert_eq!(code(added), Code::CounterBounds);
            } else if is_added {
                added.expect("within the bounds");
                break;
            } else {
                assert_eq!(code(added), Code::CounterLimit, "{amount}");
            }
            assert_eq!(cells(&world), before);
        }
    }
    let counter = read(&world).expect("a counter");
    assert_eq!((counter.value, counter.bounds), (12, bounds));
}

#[test]
fn a_counter_is_not_made_where_an_item_lies_and_an_item_leaves_it_alone() {
    let world = World::new();
    let writer = world.writer();
    let put = |sk| {
        let item = world.new_item(sk, "other attributes");
        block_on(writer.put(&item, Precondition::None, world.deadline())).expect("it is stored")
    };
    put("n");
    let before = world.memory.contents();
    assert_eq!(code(add(&world, &writer, 1, UNBOUNDED)), Code::NotACounter);
    assert_eq!(world.memory.contents(), before);
    assert_eq!(code(read(&world)), Code::ItemNotFound);

    let other = key("m");
    block_on(writer.add_to_counter(&other, 1, UNBOUNDED, world.deadline())).expect("it is made");
    put("m");
    block_on(writer.add_to_counter(&other, 1, UNBOUNDED, world.deadline())).expect("it is added");
    let counter = block_on(world.reader().counter(&other, world.deadline())).expect("a counter");
    assert_eq!(counter.value, 2);
}

/// Invariant I6.
#[test]
fn an_add_of_unknown_outcome_is_never_sent_again() {
    for (fault, is_executed, is_known) in [
        (Fault::ExecuteThen(outcome_unknown()), true, true),
        (Fault::ExecuteUnanswered, true, true),
        (Fault::Refuse(outcome_unknown()), false, false),
        (Fault::Lose, false, false),
    ] {
        let world = World::new();
        let writer = world.writer();
        add(&world, &writer, 5, FLOOR).expect("it is made");
        world.store.script(Operation::Write, [fault]);
        let before = world.store.attempts(Operation::Write);
        let added = add(&world, &writer, -2, FLOOR);
        assert_eq!(world.store.attempts(Operation::Write), before + 1);
        assert_eq!(added.is_ok(), is_known, "{added:?}");
        if let Err(error) = added {
            assert_eq!(error.code(), Code::OutcomeUnknown);
        }
        assert_eq!(value(&world).0, if is_executed { 3 } else { 5 });
    }
}

#[test]
fn a_counter_that_is_throttled_gets_more_cells_at_most_every_other_second() {
    let world = World::new();
    let writer = world.writer();
    add(&world, &writer, 1, UNBOUNDED).expect("it is made");
    for _ in 0..4 {
        world.store.script(Operation::Write, [throttle()]);
        add(&world, &writer, 1, UNBOUNDED).expect("it is sent again");
    }
    assert_eq!(value(&world), (5, 2));
    grow(&world, &writer, 16);
    for n in 0..200 {
        let added = add(&world, &writer, 1, UNBOUNDED).expect("it is added");
        assert_eq!(added.cells, 16, "add {n}");
    }
    assert_eq!(value(&world), (205, 16));
    let mut partitions = cells(&world).into_iter().map(|(at, _)| at.partition).collect::<Vec<_>>();
    partitions.dedup();
    assert_eq!(partitions.len(), 16, "each lies in a partition of its own");
    // Another environment learns of the cells from the first of them.
    let other = world.writer();
    assert_eq!(add(&world, &other, 1, UNBOUNDED).expect("it is added").cells, 16);
    assert!((0..50).any(|_| add(&world, &other, 1, UNBOUNDED).expect("it is added").cell > 0));
}

#[test]
fn cells_borrow_from_each_other_until_the_whole_has_nothing_left() {
    let world = World::new();
    let writers = [world.writer(), world.writer(), world.writer()];
    let bounds = Bounds { min: Some(0), max: Some(50) };
    add(&world, &writers[0], 40, bounds).expect("it is made");
    grow(&world, &writers[0], 8);
    let check = || {
        let value = sum_of(&world, CellNumber::Value);
        let rooms = [CellNumber::Below, CellNumber::Above].map(|of| sum_of(&world, of));
        assert_eq!(rooms, [value, 50 - value], "what there is, and no more");
    };
    check();
    for n in 0..20_usize {
        add(&world, &writers[n % 3], -2, UNBOUNDED).expect("the whole covers it");
        check();
    }
    assert_eq!(value(&world), (0, 8));
    for writer in &writers {
        assert_eq!(code(add(&world, writer, -1, UNBOUNDED)), Code::CounterLimit);
        assert_eq!(code(add(&world, writer, 51, UNBOUNDED)), Code::CounterLimit);
    }
    add(&world, &writers[1], 50, UNBOUNDED).expect("all cells together cover it");
    check();
    assert_eq!(code(add(&world, &writers[2], 1, UNBOUNDED)), Code::CounterLimit);
}

/// A transaction that moves room is looked at again, whatever became of it.
#[test]
fn what_becomes_of_borrowing_changes_no_sum() {
    for fault in [
        Fault::ExecuteThen(outcome_unknown()),
        Fault::Refuse(outcome_unknown()),
        Fault::Refuse(StoreError::Conflict),
        Fault::throttle(),
    ] {
        let world = World::new();
        let writer = world.writer();
        add(&world, &writer, 8, FLOOR).expect("it is made");
        grow(&world, &writer, 2);
        for faults in [vec![fault], vec![]] {
            world.store.script(Operation::Transfer, faults);
            for _ in 0..4 {
                add(&world, &writer, -1, FLOOR).expect("the whole covers it");
            }
        }
        assert_eq!(code(add(&world, &writer, -1, FLOOR)), Code::CounterLimit);
        assert_eq!((value(&world).0, sum_of(&world, CellNumber::Below)), (0, 0));
    }
}

#[test]
fn a_deleted_counter_is_gone_and_the_next_one_begins_anew() {
    let world = World::new();
    let (writer, other) = (world.writer(), world.writer());
    let delete = || block_on(other.delete_counter(&key("n"), world.deadline()));
    delete().expect("there is none");
    add(&world, &writer, 7, FLOOR).expect("it is made");
    grow(&world, &writer, 4);
    // It dies behind the first cell.
    let passes = Fault::before(|| ());
    world.store.script(Operation::Write, [passes, Fault::Refuse(outcome_unknown())]);
    assert_eq!(code(delete()), Code::OutcomeUnknown);
    assert_eq!(code(read(&world)), Code::CounterClosing);
    assert_eq!(code(add(&world, &world.writer(), 1, UNBOUNDED)), Code::CounterClosing);
    delete().expect("it is repeated");
    assert_eq!((cells(&world), code(read(&world))), (vec![], Code::ItemNotFound));
    // This one knows the cells that there were.
    let added = add(&world, &writer, 3, UNBOUNDED).expect("it is made anew");
    assert_eq!((added.cells, value(&world)), (1, (3, 1)));
    add(&world, &writer, -9, UNBOUNDED).expect("it has no bounds any more");
}

/// Its client was told that nothing was written, and may have let it be: all adds were refused from then on.
#[test]
fn regression_a_delete_that_closed_its_counter_and_was_throttled_then_said_that_nothing_happened() {
    let world = World::new();
    let writer = world.writer();
    add(&world, &writer, 7, FLOOR).expect("it is made");
    grow(&world, &writer, 4);
    let refused = std::iter::repeat_with(throttle).take(1_000);
    world.store.script(Operation::Write, [Fault::before(|| ())].into_iter().chain(refused));
    let began = world.clock.now();
    let throttled = Deadline::after(began, Duration::from_secs(2));
    let deadline = Deadline::after(began, Duration::from_secs(20)).if_throttled(throttled);
    let deleted = block_on(writer.delete_counter(&key("n"), deadline)).expect_err("throttled");
    assert_eq!(deleted.code(), Code::OutcomeUnknown, "{deleted}");
    assert_eq!(code(read(&world)), Code::CounterClosing);
}

/// An add that a cell did not cover asked it again and again, as what it lacked could not be brought, until its time was over.
#[test]
fn regression_an_add_to_a_counter_that_is_being_deleted_waited_for_its_deadline() {
    let world = World::new();
    let (writer, other) = (world.writer(), world.writer());
    add(&world, &writer, 8, FLOOR).expect("it is made");
    grow(&world, &writer, 4);
    let passes = Fault::before(|| ());
    world.store.script(Operation::Write, [passes, Fault::Refuse(outcome_unknown())]);
    let deleted = block_on(other.delete_counter(&key("n"), world.deadline()));
    assert_eq!(code(deleted), Code::OutcomeUnknown);
    for _ in 0..20 {
        assert_eq!(code(add(&world, &writer, -8, FLOOR)), Code::CounterClosing);
    }
}

/// Others who change the cells held an answer for as long as a request may take.
#[test]
fn regression_an_add_that_others_are_in_the_way_of_was_held_longer_than_a_throttled_one() {
    let world = World::new();
    let writer = world.writer();
    add(&world, &writer, 8, FLOOR).expect("it is made");
    grow(&world, &writer, 2);
    let began = world.clock.now();
    let [whole, throttled] = [20, 2].map(Duration::from_secs);
    let deadline = Deadline::after(began, whole).if_throttled(Deadline::after(began, throttled));
    let conflicts = std::iter::repeat_with(|| Fault::Refuse(StoreError::Conflict)).take(1_000);
    world.store.script(Operation::Transfer, conflicts);
    // Neither cell has this much.
    let added = block_on(writer.add_to_counter(&key("n"), -8, FLOOR, deadline));
    assert_eq!(code(added), Code::Contended);
    assert!(world.clock.now().boot <= began.boot + throttled);
}

/// When all is sold, most requests are adds that are refused.
#[test]
fn regression_each_refused_add_read_every_cell() {
    let world = World::new();
    let writer = world.writer();
    add(&world, &writer, 2, FLOOR).expect("it is made");
    grow(&world, &writer, 4);
    add(&world, &writer, -2, FLOOR).expect("the whole covers it");
    let requests = || {
        [Operation::Write, Operation::Get, Operation::Transfer]
            .map(|of| world.store.attempts(of))
            .iter()
            .sum::<u64>()
    };
    let refused = || {
        let before = requests();
        assert_eq!(code(add(&world, &writer, -1, FLOOR)), Code::CounterLimit);
        requests() - before
    };
    assert!(refused() > 4);
    assert_eq!((refused(), refused()), (0, 0));
    world.clock.advance(Duration::from_secs(1));
    assert!(refused() > 4, "it is looked at again");
    add(&world, &writer, 1, FLOOR).expect("it is given back");
    add(&world, &writer, -1, FLOOR).expect("and may be taken at once");
    assert!(refused() > 4);
    add(&world, &world.writer(), 1, FLOOR).expect("somebody else gives");
    assert_eq!(refused(), 0, "which shows within a second");
    world.clock.advance(Duration::from_secs(1));
    add(&world, &writer, -1, FLOOR).expect("it has been given");
}

/// What was given while the cells were looked at was not there for the next add of the same environment.
#[test]
fn regression_what_was_given_during_a_look_was_refused_after_it() {
    let world = World::new();
    let writer = Arc::new(world.writer());
    add(&world, &writer, 2, FLOOR).expect("it is made");
    grow(&world, &writer, 4);
    add(&world, &writer, -2, FLOOR).expect("nothing is left");
    let (other, deadline) = (Arc::clone(&writer), world.deadline());
    let give = move || {
        let counter = key("n");
        let given = other.add_to_counter(&counter, 5, UNBOUNDED, deadline);
        block_on(given).expect("it is given");
    };
    // Behind the last look at cells, whichever the gift goes to.
    world.store.script(Operation::GetBoth, [Fault::before(|| {}), Fault::after(give)]);
    let first = add(&world, &writer, -1, FLOOR);
    assert!(first.is_err(), "nothing was there when it looked: {first:?}");
    add(&world, &writer, -1, FLOOR).expect("5 were given");
}

/// Lambda freezes environments between invocations, and the boot clock of a frozen one may stand: the refusal of an hour ago was
/// a moment old by it.
#[test]
fn regression_a_frozen_environment_refused_an_add_by_what_was_known_before() {
    let world = World::new();
    let writer = world.writer();
    add(&world, &writer, 2, FLOOR).expect("it is made");
    grow(&world, &writer, 2);
    assert_eq!(code(add(&world, &writer, -3, FLOOR)), Code::CounterLimit);
    add(&world, &world.writer(), 2, FLOOR).expect("somebody else gives");
    assert_eq!(code(add(&world, &writer, -3, FLOOR)), Code::CounterLimit, "it was so just now");
    world.clock.advance_wall(Duration::from_hours(1));
    add(&world, &writer, -3, FLOOR).expect("the whole covers it");
}

#[test]
fn counters_need_neither_a_calculated_placement_nor_sort_keys_of_text() {
    let numbers = World::with_sort_keys(SortKeyType::Number);
    let of_numbers = ItemKey::new(partition(), SortKey::Number(7.into()));
    for (world, key) in [(World::random(), key("n")), (numbers, of_numbers)] {
        let writer = world.writer();
        for _ in 0..3 {
            world.store.script(Operation::Write, [throttle()]);
            let added = writer.add_to_counter(&key, 2, FLOOR, world.deadline());
            block_on(added).expect("it is added");
        }
        let counter = block_on(world.reader().counter(&key, world.deadline())).expect("a counter");
        assert_eq!((counter.value, counter.cells), (6, 2));
        block_on(writer.delete_counter(&key, world.deadline())).expect("it is deleted");
        assert_eq!(cells(&world), []);
    }
}
