//! Settings that are pinned, functions that differ, and changes of T and H.

use std::sync::Arc;
use std::time::Duration;

use dynashard_core::ports::{Clock, ItemStore as _, StoreError};
use dynashard_core::{
    Code, Deadline, Directory, Owner, Pinned, PinnedTime, Precondition, RequestDates, Settings,
    Writer, leases_end,
};
use dynashard_keys::PartitionKey;
use dynashard_testkit::{Fault, Operation, block_on};

use crate::world::{LEASE, World, code, partition, usual_settings};

const LONGER: Duration = Duration::from_secs(9);

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn with_lease(lease_term: Duration) -> Settings {
    Settings { lease_term, ..usual_settings() }
}

/// The directory of a function that writes and has this T.
fn function(world: &World, lease_term: Duration) -> Directory {
    world.directory_of(with_lease(lease_term)).pinning()
}

fn find(world: &World, directory: &Directory) -> Result<(), Code> {
    let found = block_on(directory.find(&partition(), world.deadline()));
    found.map(|_| ()).map_err(|error| error.code())
}

/// Without the id, which is drawn.
fn pinned(world: &World) -> Pinned {
    let pinned = world.memory.stored_directory().pinned.expect("pinned settings");
    Pinned { stack_id: None, ..pinned }
}

fn announce(world: &World, directory: &Directory, value: Duration) -> PinnedTime {
    let announced = block_on(directory.pinned().announce(value, world.deadline()));
    announced.expect("announced").lease_term
}

fn far(world: &World) -> Deadline {
    Deadline::after(world.clock.now(), Duration::from_mins(10))
}

#[test]
fn the_first_function_pins_its_settings_and_one_that_differs_acts_on_nothing() {
    let world = World::with_nothing_pinned(usual_settings());
    let (first, second) = (function(&world, LEASE), function(&world, LONGER));
    assert_eq!(find(&world, &first), Ok(()));
    assert_eq!(pinned(&world), Pinned::of(&with_lease(LEASE)));
    let before = world.memory.requests();
    assert_eq!(find(&world, &second), Err(Code::SettingsMismatch));
    let writer = Writer::new(second);
    let item = world.new_item("a", "new");
    let put = block_on(writer.put(&item, Precondition::None, world.deadline()));
    assert_eq!(code(put), Code::SettingsMismatch);
    let reads = world.memory.requests().total() - before.total();
    assert_eq!(
        (world.memory.contents().len(), reads),
        (0, 1),
        "each asks the directory, and no more"
    );
}

#[test]
fn of_two_functions_that_start_at_once_one_pins_and_the_other_agrees_or_refuses() {
    for (other, expected) in [(LEASE, Ok(())), (LONGER, Err(Code::SettingsMismatch))] {
        let world = World::with_nothing_pinned(usual_settings());
        let (one, two) = (function(&world, LEASE), function(&world, other));
        // The other is quicker between this one's read and its update.
        let memory = world.memory.clone();
        let of_other =
            Pinned { stack_id: Some("other".to_owned()), ..Pinned::of(&with_lease(other)) };
        let quicker = Fault::before(move || memory.pin(of_other));
        world.store.script(Operation::DirectorySave, [quicker]);
        assert_eq!(find(&world, &one), expected, "what is pinned is read again");
        assert_eq!(find(&world, &two), Ok(()));
        assert_eq!(pinned(&world), Pinned::of(&with_lease(other)));
    }
}

/// Software of before would read it as other settings, and write those.
#[test]
fn settings_of_a_later_format_are_left_as_they_are() {
    let world = World::with_nothing_pinned(usual_settings());
    let later = Pinned { format: Pinned::FORMATS.end() + 1, ..Pinned::of(&usual_settings()) };
    world.memory.pin(later.clone());
    let function = function(&world, LEASE);
    assert_eq!(find(&world, &function), Err(Code::SettingsMismatch));
    let announced = block_on(function.pinned().announce(LONGER, world.deadline()));
    assert_eq!(code(announced), Code::SettingsMismatch);
    assert_eq!(code(block_on(function.pinned().read(world.deadline()))), Code::SettingsMismatch);
    assert_eq!(pinned(&world), later);
}

/// A second stack on the table, or the same one with an empty metadata table, takes all collections for cold: what it
/// acknowledges is invisible to the first, and the first one's items to it.
#[test]
fn regression_two_stacks_served_one_main_table() {
    let world = World::with_nothing_pinned(usual_settings());
    assert_eq!(find(&world, &function(&world, LEASE)), Ok(()));
    let owner = world.memory.owned_by().expect("claimed by the first function");
    assert_eq!(
        Some(&owner.stack_id),
        world.memory.stored_directory().pinned.unwrap().stack_id.as_ref()
    );

    world.memory.lose_metadata();
    for second in [function(&world, LEASE), world.directory_of(with_lease(LEASE))] {
        assert_eq!(find(&world, &second), Err(Code::SettingsMismatch));
        let writer = Writer::new(second);
        let put =
            block_on(writer.put(&world.new_item("a", "new"), Precondition::None, world.deadline()));
        assert_eq!(code(put), Code::SettingsMismatch);
    }
    assert_eq!((world.memory.contents().len(), world.memory.owned_by()), (0, Some(owner)));
}

/// The owner was compared once, so whoever ran took all collections for cold from then on, and put their items where nobody looks.
#[test]
fn regression_whoever_ran_took_an_emptied_metadata_table_for_its_own() {
    let world = World::with_nothing_pinned(usual_settings());
    let (writes, reads) = (function(&world, LEASE), world.directory_of(with_lease(LEASE)));
    for running in [&writes, &reads] {
        assert_eq!(find(&world, running), Ok(()));
    }
    world.memory.lose_metadata();
    world.clock.advance(LEASE);
    for running in [&reads, &writes] {
        assert_eq!(find(&world, running), Err(Code::SettingsMismatch));
    }
}

/// Whoever asked a restored main table for its metadata table was led to the one of before.
#[test]
fn regression_restored_tables_named_the_metadata_table_of_before() {
    let world = World::with_nothing_pinned(usual_settings());
    assert_eq!(find(&world, &function(&world, LEASE)), Ok(()));
    let own = world.memory.owned_by().expect("claimed by the first function");
    let restored = || {
        let metadata_table = "before".to_owned();
        let before = Owner { metadata_table, is_of_this_table: false, ..own.clone() };
        block_on(world.memory.claim(&before)).expect("it is of the same stack");
        before
    };
    let before = restored();
    // Whoever pins nothing changes nothing.
    assert_eq!(find(&world, &world.directory_of(with_lease(LEASE))), Ok(()));
    assert_eq!(world.memory.owned_by(), Some(before));
    // It serves, whether it may correct that or not.
    let denied = StoreError::Misconfigured("the role may not".to_owned());
    world.store.script(Operation::Claim, [Fault::Refuse(denied)]);
    assert_eq!(find(&world, &function(&world, LEASE)), Ok(()));
    assert_eq!(world.memory.owned_by(), Some(restored()));
    assert_eq!(find(&world, &function(&world, LEASE)), Ok(()));
    assert_eq!(world.memory.owned_by(), Some(own));
}

#[test]
fn a_claim_whose_answer_was_lost_is_looked_up_and_that_of_another_stack_counts() {
    let world = World::with_nothing_pinned(usual_settings());
    world.store.script(
        Operation::Claim,
        [Fault::ExecuteThen(StoreError::OutcomeUnknown("lost".to_owned()))],
    );
    assert_eq!(find(&world, &function(&world, LEASE)), Ok(()));

    let world = World::with_nothing_pinned(usual_settings());
    let memory = world.memory.clone();
    let quicker = Fault::before(move || memory.be_owned_by("another"));
    world.store.script(Operation::Claim, [quicker]);
    assert_eq!(find(&world, &function(&world, LEASE)), Err(Code::SettingsMismatch));
}

#[test]
fn a_table_that_was_released_belongs_to_who_comes_next() {
    let world = World::with_nothing_pinned(usual_settings());
    world.memory.be_owned_by("another");
    let function = function(&world, LEASE);
    assert_eq!(find(&world, &function), Err(Code::SettingsMismatch));
    world.memory.be_owned_by_none();
    world.clock.advance(secs(2));
    assert_eq!(find(&world, &function), Ok(()));
}

#[test]
fn whoever_only_reads_pins_nothing() {
    let world = World::with_nothing_pinned(usual_settings());
    let reader = world.directory_of(usual_settings());
    assert_eq!(find(&world, &reader), Ok(()));
    assert_eq!((world.memory.stored_directory().pinned, world.memory.owned_by()), (None, None));
}

/// Also of a collection whose metadata is leased: nothing else would tell the function.
#[test]
fn a_function_that_differs_stops_within_a_lease_of_the_change() {
    let world = World::with_nothing_pinned(usual_settings());
    world.lay_out(1, 4, dynashard_keys::Placement::Xxh64);
    let old = function(&world, LEASE);
    assert_eq!(find(&world, &old), Ok(()));
    let other = PinnedTime::only(LONGER);
    world.memory.pin(Pinned { lease_term: other, ..pinned(&world) });
    for _ in 0..2 {
        world.clock.advance(LEASE / 2);
        // It takes a lease of the metadata whenever it may.
        let _ = find(&world, &old);
    }
    world.clock.advance(LEASE / 4);
    assert_eq!(find(&world, &old), Err(Code::SettingsMismatch));
}

#[test]
fn a_lease_changes_while_functions_of_both_terms_act() {
    for (from, to_be) in [(LEASE, LONGER), (LONGER, LEASE)] {
        let world = World::with(with_lease(from));
        let (old, new) = (function(&world, from), function(&world, to_be));
        assert_eq!(find(&world, &old), Ok(()));
        assert_eq!(find(&world, &new), Err(Code::SettingsMismatch), "not before it is announced");
        let both = PinnedTime { accepted: from, next: Some(to_be), longest: LONGER };
        assert_eq!(announce(&world, &old, to_be), both);
        assert_eq!(announce(&world, &new, to_be), both, "whoever asks, and however often");
        // For a second it does not look again.
        world.clock.advance(secs(1));
        assert_eq!((find(&world, &old), find(&world, &new)), (Ok(()), Ok(())));
        let before = world.clock.now();
        let completed = block_on(new.pinned().complete(to_be, far(&world))).expect("completed");
        assert_eq!(completed.lease_term, PinnedTime::only(to_be));
        let waited = world.clock.now().certainly_since(before);
        let expected = if from > to_be { leases_end(LONGER) * 2 } else { Duration::ZERO };
        assert_eq!(waited, expected, "only what becomes shorter has to be waited for");
        world.clock.advance(LONGER);
        assert_eq!(find(&world, &old), Err(Code::SettingsMismatch));
        assert_eq!(find(&world, &new), Ok(()));
    }
}

#[test]
fn a_change_is_taken_back_or_gone_on_with_after_an_interruption() {
    let world = World::with(with_lease(LEASE));
    let function = function(&world, LEASE);
    assert_eq!(find(&world, &function), Ok(()));
    announce(&world, &function, LONGER);
    let third = block_on(function.pinned().announce(secs(7), world.deadline()));
    assert_eq!(code(third), Code::SettingsMismatch, "one change at a time");
    let unannounced = block_on(function.pinned().complete(secs(7), far(&world)));
    assert_eq!(code(unannounced), Code::SettingsMismatch);
    assert_eq!(announce(&world, &function, LEASE).next, Some(LONGER), "until it is taken back");
    // The command ends in its wait.
    let soon = Deadline::after(world.clock.now(), LEASE);
    assert_eq!(code(block_on(function.pinned().complete(LEASE, soon))), Code::DeadlineExceeded);
    let left = PinnedTime { accepted: LEASE, next: None, longest: LONGER };
    assert_eq!(pinned(&world).lease_term, left);
    let completed = block_on(function.pinned().complete(LEASE, far(&world))).expect("completed");
    assert_eq!(completed.lease_term, PinnedTime::only(LEASE));
}

/// Whoever took the longer value in between may act under it for as long as ever.
#[test]
fn a_change_there_and_back_is_waited_for_anew() {
    let world = World::with(with_lease(LEASE));
    let function = function(&world, LEASE);
    assert_eq!(find(&world, &function), Ok(()));
    announce(&world, &function, LONGER);
    let others = world.directory_of(with_lease(LEASE)).pinning();
    let there_and_back = {
        let (world, others) = (&world, &others);
        async move {
            world.clock.sleep(leases_end(LONGER)).await;
            let deadline = far(world);
            others.pinned().announce(LONGER, deadline).await.expect("announced");
            let back = others.pinned().complete(LEASE, world.deadline()).await;
            assert_eq!(code(back), Code::DeadlineExceeded, "it ends before its third step");
        }
    };
    let began = world.clock.now();
    let change = function.pinned().complete(LEASE, far(&world));
    let (completed, ()) = block_on(async { futures_util::join!(change, there_and_back) });
    assert_eq!(completed.expect("completed").lease_term, PinnedTime::only(LEASE));
    let waited = world.clock.now().certainly_since(began);
    assert!(waited >= leases_end(LONGER) * 3, "{waited:?}");
}

/// A collection of four shards, and a function that has leased the directory and not yet its metadata.
fn with_the_directory_leased() -> (World, Directory) {
    let world = World::with_nothing_pinned(usual_settings());
    world.lay_out(1, 4, dynashard_keys::Placement::Xxh64);
    let function = function(&world, LEASE);
    let cold = PartitionKey::new("cold").expect("a partition key");
    block_on(function.find(&cold, far(&world))).expect("the directory is leased");
    (world, function)
}

/// The metadata table throttles for longer than the lease of the directory lives.
#[test]
fn regression_metadata_was_leased_after_the_lease_of_the_directory() {
    let (world, old) = with_the_directory_leased();
    let before = world.memory.requests().directory_gets;
    let refused = || Fault::Refuse(StoreError::Conflict);
    world.store.script(Operation::MetadataGet, (0..30).map(|_| refused()));
    let began = world.clock.now();
    block_on(old.find(&partition(), far(&world))).expect("at last");
    assert!(world.clock.now().certainly_since(began) > LEASE);
    let reads = world.memory.requests().directory_gets - before;
    assert!(reads > 0, "the directory is read again before");
}

/// The lease of the directory was judged by one reading of the clock, and that of the metadata counted from another:
/// between them the process may be suspended for longer than the directory may be believed.
#[test]
fn regression_a_process_that_was_suspended_leased_metadata_under_a_directory_that_had_run_out() {
    for readings in 0..20 {
        let (world, old) = with_the_directory_leased();
        let before = world.memory.requests().directory_gets;
        let began = world.clock.now();
        world.clock.suspend_after(readings, LEASE * 2);
        let known = block_on(old.find(&partition(), far(&world))).expect("the metadata");
        let now = world.clock.now();
        let was_suspended = now.certainly_since(began) >= LEASE;
        let leased_after = was_suspended && known.lease.is_live(now);
        let looked_again = world.memory.requests().directory_gets > before;
        assert!(looked_again || !leased_after, "suspended after {readings} readings");
    }
}

#[test]
fn nothing_is_changed_before_settings_are_pinned() {
    let world = World::with_nothing_pinned(usual_settings());
    let directory = world.directory_of(usual_settings());
    let change = block_on(directory.pinned().announce(LONGER, world.deadline()));
    assert_eq!(code(change), Code::SettingsMismatch);
    assert_eq!(world.memory.stored_directory().rev, 0);
}

/// The command dies, or its answer does, and somebody enlists a collection meanwhile.
#[test]
fn a_change_goes_by_what_is_there() {
    let world = World::with_nothing_pinned(usual_settings());
    let function = function(&world, LEASE);
    assert_eq!(find(&world, &function), Ok(()));
    let lost = StoreError::OutcomeUnknown("the answer was lost".to_owned());
    let overtaken = StoreError::ConditionFailed { existing: None };
    let faults = [Fault::Refuse(overtaken), Fault::ExecuteThen(lost)];
    world.store.script(Operation::DirectorySave, faults);
    assert_eq!(announce(&world, &function, LONGER).next, Some(LONGER));
    let scaler = world.scaler();
    block_on(scaler.request_count(&partition(), crate::world::count(4), world.deadline()))
        .expect("a growth");
    let stored = world.memory.stored_directory();
    assert!(world.memory.lists(&partition()), "and what is pinned stays");
    assert_eq!(stored.pinned.map(|pinned| pinned.lease_term.next), Some(Some(LONGER)));
}

const DATES: RequestDates = RequestDates { age: secs(270), lifetime: secs(120) };

/// All act by what is pinned, whatever they are set to.
#[test]
fn dates_need_no_deployment_and_hold_when_what_was_signed_before_is_dead() {
    let world = World::with_nothing_pinned(usual_settings());
    let function = function(&world, LEASE);
    assert_eq!(find(&world, &function), Ok(()));
    let before = pinned(&world);
    let (began, others) = (world.clock.now(), world.directory_of(with_lease(LEASE)));
    let soon = block_on(others.pinned().date(DATES, Deadline::after(began, secs(100))));
    assert_eq!(code(soon), Code::DeadlineExceeded);
    let noted = pinned(&world);
    assert_eq!((noted.format, noted.signature_age), (5, DATES.age));
    assert_eq!(noted.request_lifetime.longest, secs(960), "nobody may rely on the shorter H yet");

    let deadline = Deadline::after(world.clock.now(), secs(1_800));
    block_on(others.pinned().date(DATES, deadline)).expect("dated");
    let waited = world.clock.now().certainly_since(began);
    assert!(waited >= secs(960) + leases_end(LEASE) * 2, "{waited:?}");
    let held = pinned(&world);
    assert_eq!(held.request_lifetime, PinnedTime::only(DATES.lifetime));
    assert_eq!(held.schema, before.schema);
    assert_eq!(find(&world, &function), Ok(()), "which is still set to other dates");
}

#[test]
fn a_longer_lifetime_holds_at_once() {
    let world = World::with_nothing_pinned(usual_settings());
    let settings = Settings {
        signature_age: DATES.age,
        request_lifetime: DATES.lifetime,
        ..with_lease(LEASE)
    };
    let function = world.directory_of(settings).pinning();
    assert_eq!(find(&world, &function), Ok(()));
    assert_eq!(pinned(&world).request_lifetime, PinnedTime::only(DATES.lifetime));
    let began = world.clock.now();
    let longer = RequestDates { lifetime: secs(720), ..DATES };
    block_on(function.pinned().date(longer, world.deadline())).expect("dated");
    assert!(world.clock.now().certainly_since(began) < secs(5));
    assert_eq!(pinned(&world).request_lifetime, PinnedTime::only(secs(720)));
}

/// All are set to other dates than those that are pinned, once an operator has changed them. While metadata is read, another
/// operation finds out that the directory is behind, and drops it.
#[test]
fn regression_metadata_was_leased_without_the_dates_of_the_directory_that_was_dropped_meanwhile() {
    let (world, old) = with_the_directory_leased();
    let dated = block_on(old.pinned().date(DATES, Deadline::after(world.clock.now(), secs(3_000))));
    dated.expect("dated");
    let later = Arc::new(function(&world, LEASE));
    let cold = PartitionKey::new("cold").expect("a partition key");
    block_on(later.find(&cold, far(&world))).expect("the directory is leased");
    let drops = Arc::clone(&later);
    let drop = Fault::before(move || drops.forget(&cold));
    world.store.script(Operation::MetadataGet, [drop]);
    let known = block_on(later.find(&partition(), far(&world))).expect("the metadata");
    let date = known.lease.date_secs(world.clock.now()).expect("a time of the server");
    assert!(date.is_some(), "a write under this lease would live for longer than H");
}
