//! Requests in DynamoDB's own words, in every phase of their collection.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dynashard_core::ports::{
    Clock, Existing, NativeGot, NativeGuard, NativeKind, NativeRead, NativeSent, NativeTerms,
    NativeWrite, ReadRecords, Required, StoreError,
};
use dynashard_core::{
    Among, AttributeValue, Attributes, Bucket, Code, CollectionMetadata, DecidedBy, Error, Fate,
    HeldWrites, Ledger, LedgerKind, NativeRequests, Outcome, Phase, ScalingMode, ScalingPolicy,
    Settings, Span, StoredItem, Throttle, Version,
};
use dynashard_keys::{PhysicalKey, Placement};
use dynashard_testkit::{Fault, Operation, Requests, block_on};

use crate::reshard::{MOVES, cost, in_forward, in_move, put, world};
use crate::world::{
    LEASE, World, attributes, code, count, home, key, marker, metadata, outcome_unknown, partition,
    sort, stored, text_of, usual_settings,
};

const TTL: &str = "expires";

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Put(&'static str),
    /// Puts an item that may expire.
    PutExpiring,
    /// Updates this attribute in place.
    Set(&'static str),
    Delete,
}

/// What its client asks for. DynamoDB judges a marker as an item that has a key alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// For nothing, and shows nothing.
    Nothing,
    Absent,
    Exists,
}

type Event<'a> = Box<dyn Fn() -> Result<(), StoreError> + Send + 'a>;

/// A write that is carried out in the memory of a world.
struct Native<'a> {
    world: &'a World,
    does: Does,
    asks: Asks,
    /// Where it was sent, and what it required.
    sent: Mutex<Vec<(PhysicalKey, Required)>>,
    /// What happens before each sending, and behind it.
    events: Mutex<VecDeque<[Event<'a>; 2]>>,
}

/// What its client is told: whether it was done, and what was there.
type Told = (bool, Option<String>);

/// What came of a request, where it was sent and how, and what else it took.
type Ran<T, How> = (Result<T, Error>, Vec<(PhysicalKey, How)>, Requests);

impl<'a> Native<'a> {
    fn new(world: &'a World, does: Does, asks: Asks) -> Self {
        Self { world, does, asks, sent: Mutex::default(), events: Mutex::default() }
    }

    fn before(self, event: impl Fn() -> Result<(), StoreError> + Send + 'a) -> Self {
        self.between(event, || Ok(()))
    }

    fn after(self, event: impl Fn() -> Result<(), StoreError> + Send + 'a) -> Self {
        self.between(|| Ok(()), event)
    }

    fn between(
        self,
        before: impl Fn() -> Result<(), StoreError> + Send + 'a,
        after: impl Fn() -> Result<(), StoreError> + Send + 'a,
    ) -> Self {
        let events: [Event<'a>; 2] = [Box::new(before), Box::new(after)];
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push_back(events);
        self
    }

    /// Carries it out by a process of its own, and returns what its client is told, where it was sent, and what else it took.
    fn run(self) -> Ran<Told, Required> {
        let native = NativeRequests::new(self.world.directory());
        let mut told = None;
        let requests = cost(self.world, || {
            let deadline = self.world.deadline();
            told = Some(block_on(native.write(&key(MOVES), &self, 1.0, deadline)));
        });
        let sent = self.sent.into_inner().unwrap_or_else(PoisonError::into_inner);
        (told.expect("it was run"), sent, requests)
    }
}

#[async_trait]
impl NativeWrite for Native<'_> {
    type Answer = Told;

    fn kind(&self) -> NativeKind {
        match (self.does, self.asks) {
            (Does::Delete, _) => NativeKind::Delete,
            (Does::Put(_) | Does::PutExpiring, Asks::Nothing) => NativeKind::Replace,
            _ => NativeKind::Depend,
        }
    }

    fn may_expire(&self, ttl_attributes: &BTreeSet<String>) -> bool {
        let sets = match self.does {
            Does::PutExpiring => Some(TTL),
            Does::Set(name) => Some(name),
            Does::Put(_) | Does::Delete => None,
        };
        sets.is_some_and(|name| ttl_attributes.contains(name))
    }

    async fn send(
        &self,
        terms: &NativeTerms,
        guard: NativeGuard,
    ) -> Result<NativeSent<Told>, StoreError> {
        let memory = &self.world.memory;
        let at = PhysicalKey { partition: terms.partition.clone(), sort: sort(MOVES) };
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if let Some([before, _]) = &events {
            before()?;
        }
        if !terms.lease.is_live(self.world.clock.now()) {
            return Err(StoreError::LeaseExpired);
        }
        let sent = (at.clone(), guard.required);
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(sent);
        let there = memory.stored(&at);
        let live = there.as_ref().filter(|item| item.is_live());
        let holds = match guard.required {
            Required::Anything => true,
            Required::NoMarker => there.is_none() || live.is_some(),
            Required::Live => live.is_some(),
            Required::Version(version) => live.is_some_and(|item| item.version == version),
            Required::Nothing => there.is_none(),
        } && match self.asks {
            Asks::Nothing => true,
            Asks::Absent => there.is_none(),
            Asks::Exists => there.is_some(),
        } && there.as_ref().is_none_or(|item| item.generation <= terms.generation);
        if holds {
            let mut kept = there.as_ref().map(|item| item.attributes.clone()).unwrap_or_default();
            let next = match self.does {
                Does::Put(text) => Some(attributes(text)),
                Does::PutExpiring => Some(expiring(attributes("new"))),
                Does::Set(name) => {
                    kept.insert(name.to_owned(), AttributeValue::Null);
                    Some(kept)
                }
                Does::Delete => None,
            };
            match next {
                None => memory.remove(&at),
                Some(attributes) => {
                    let (generation, version) = (terms.generation, guard.version);
                    let item = StoredItem { attributes, generation, version, forwarded: false };
                    memory.place(&at, item);
                }
            }
        }
        if let Some([_, after]) = &events {
            after()?;
        }
        let answer = (holds, there.as_ref().map(text_of));
        Ok(if holds {
            NativeSent::Done { answer, consumed_wcu: 1.0 }
        } else {
            NativeSent::Refused { answer, existing: there.as_ref().map(existing) }
        })
    }
}

/// A read of the memory of a world.
struct Look<'a> {
    world: &'a World,
    is_strong: bool,
    sent: Mutex<Vec<(PhysicalKey, bool)>>,
    /// What happens behind each sending.
    events: Mutex<VecDeque<Event<'a>>>,
}

impl<'a> Look<'a> {
    fn new(world: &'a World, is_strong: bool) -> Self {
        Self { world, is_strong, sent: Mutex::default(), events: Mutex::default() }
    }

    fn after(self, event: impl Fn() -> Result<(), StoreError> + Send + 'a) -> Self {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push_back(Box::new(event));
        self
    }

    fn run(self) -> Ran<Option<String>, bool> {
        let native = NativeRequests::new(self.world.directory());
        let mut got = None;
        let requests = cost(self.world, || {
            got = Some(block_on(native.get(&key(MOVES), &self, self.world.deadline())));
        });
        let got = got.expect("it was run").map(|got| match got {
            NativeGot::Read { answer, existing, .. } => answer.filter(|_| existing.is_some()),
            NativeGot::Invalid(answer) => answer,
        });
        (got, self.sent.into_inner().unwrap_or_else(PoisonError::into_inner), requests)
    }
}

#[async_trait]
impl NativeRead for Look<'_> {
    type Answer = Option<String>;

    fn is_strong(&self) -> bool {
        self.is_strong
    }

    async fn send(
        &self,
        terms: &NativeTerms,
        strong: bool,
    ) -> Result<NativeGot<Self::Answer>, StoreError> {
        let at = PhysicalKey { partition: terms.partition.clone(), sort: sort(MOVES) };
        let there = self.world.memory.stored(&at);
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.push((at, strong));
        assert!(sent.len() < 10, "it goes on for ever: {sent:?}");
        drop(sent);
        let event = self.events.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if let Some(event) = event {
            event()?;
        }
        let (answer, existing) = (there.as_ref().map(text_of), there.as_ref().map(existing));
        Ok(NativeGot::Read { answer, existing, consumed_rcu: 1.0 })
    }
}

fn existing(item: &StoredItem) -> Existing {
    Existing { generation: item.generation, version: item.version, is_marker: !item.is_live() }
}

fn expiring(mut attributes: Attributes) -> Attributes {
    attributes.insert(TTL.to_owned(), AttributeValue::Null);
    attributes
}

fn old() -> PhysicalKey {
    home(MOVES, 1)
}

fn new() -> PhysicalKey {
    home(MOVES, 2)
}

fn of(gets: u64, writes: u64, gets_of_both: u64, transfers: u64) -> Requests {
    Requests { gets, writes, gets_of_both, transfers, ..Requests::default() }
}

/// Two shards, of the generation of [`in_forward`] and [`in_move`].
fn stable() -> World {
    let world = world(Placement::Xxh64, 2);
    world.lay_out(2, 2, Placement::Xxh64);
    world
}

/// In `move` or in `forward`, where items expire.
fn where_items_expire(is_in_move: bool) -> World {
    let ttl_attribute = Some(TTL.to_owned());
    let world = World::with(Settings { ttl_attribute, ..usual_settings() });
    let (from, to) = (count(1), count(2));
    let phase = if is_in_move { Phase::Move { from, to } } else { Phase::Forward { from, to } };
    let in_force = if is_in_move { 2 } else { 1 };
    let metadata = metadata(2, in_force, Placement::Xxh64);
    world.memory.place_metadata(CollectionMetadata { phase, ..metadata });
    world
}

const REPLACE: (Does, Asks) = (Does::Put("new"), Asks::Nothing);
const UPDATE: (Does, Asks) = (Does::Set("more"), Asks::Nothing);
const CREATE: (Does, Asks) = (Does::Put("new"), Asks::Absent);
const EXCHANGE: (Does, Asks) = (Does::Put("new"), Asks::Exists);
const DELETE: (Does, Asks) = (Does::Delete, Asks::Nothing);

/// Runs a write that is answered, and says where it was sent and what else it took.
#[track_caller]
fn spent(world: &World, (does, asks): (Does, Asks)) -> (Told, Vec<Required>, Requests) {
    let (told, sent, requests) = Native::new(world, does, asks).run();
    assert!(sent.iter().all(|(at, _)| *at == new()), "{sent:?}");
    (told.expect("an answer"), sent.into_iter().map(|(_, required)| required).collect(), requests)
}

/// Nothing was ever resharded, so DynamoDB is asked for what the client asks for and no more.
#[test]
fn a_cold_collection_is_asked_for_nothing_beside() {
    for (does, asks) in [REPLACE, UPDATE, CREATE, DELETE] {
        let world = World::new();
        let (told, sent, requests) = Native::new(&world, does, asks).run();
        assert_eq!(told, Ok((true, None)));
        assert_eq!(sent, [(old(), Required::Anything)]);
        assert_eq!(requests, of(0, 0, 0, 0));
    }
}

#[test]
fn a_stable_collection_takes_one_request() {
    for (write, required) in [
        (REPLACE, Required::Anything),
        (UPDATE, Required::NoMarker),
        (CREATE, Required::NoMarker),
        (DELETE, Required::NoMarker),
    ] {
        let done = ((true, None), vec![required], of(0, 0, 0, 0));
        assert_eq!(spent(&stable(), write), done);
    }
    let world = stable();
    world.place(MOVES, 2, 2);
    let refused = ((false, Some(MOVES.to_owned())), vec![Required::NoMarker], of(0, 0, 0, 0));
    assert_eq!(spent(&world, CREATE), refused);
    assert_eq!(spent(&world, UPDATE).0, (true, Some(MOVES.to_owned())));
    let updated = world.memory.stored(&new()).expect("an item");
    assert_eq!(updated.attributes.len(), 2, "it keeps what it does not name");
}

/// Whoever reads what was decided is to know that no function did it.
#[test]
fn a_throttled_endpoint_holds_its_writes_and_decides_in_its_own_name() {
    const WRITES: u64 = 5;
    let scaling = ScalingPolicy { mode: ScalingMode::On, ..ScalingPolicy::default() };
    let world = World::with(Settings { scaling, ..usual_settings() });
    world.lay_out(1, 1, Placement::Xxh64);
    world.clock.advance(Duration::from_mins(2));
    let native = NativeRequests::new(world.directory());
    for _ in 0..WRITES {
        world.heat_up();
        world.clock.advance(Duration::from_secs(1));
        let throttle = || Throttle::from_reason("TableWriteKeyRangeThroughputExceeded", None);
        let write = Native::new(&world, Does::Put("new"), Asks::Nothing);
        let write = write.before(|| {
            assert_eq!(native.writer().writes_held().now, 0, "it was not throttled yet");
            Err(StoreError::Throttled(throttle()))
        });
        let write = write.before(|| {
            assert_eq!(native.writer().writes_held().now, 1);
            Ok(())
        });
        let told = block_on(native.write(&key(MOVES), &write, 1.0, world.deadline()));
        assert!(told.is_ok_and(|(is_done, _)| is_done));
    }
    assert_eq!(native.writer().writes_held(), HeldWrites { now: 0, total: WRITES });
    let directory = world.directory();
    let history = block_on(directory.records().decisions(&partition(), world.deadline()));
    let records = history.expect("a history").records;
    assert_eq!(records[0].outcome, Outcome::Begun.as_str());
    assert!(records.iter().all(|record| record.by == DecidedBy::Endpoint.as_str()), "{records:?}");
}

/// A collection that was written by transactions alone counted as idle: it shrank under its whole load, and no throttle of theirs
/// had it grow again.
#[test]
fn regression_transactions_counted_for_nothing() {
    let scaling = ScalingPolicy { mode: ScalingMode::On, ..ScalingPolicy::default() };
    let world = World::with(Settings { scaling, ..usual_settings() });
    world.lay_out(1, 1, Placement::Xxh64);
    world.clock.advance(Duration::from_mins(2));
    let native = NativeRequests::new(world.directory());
    let part = |fate| {
        // Where it lies is known, as it was sent.
        let (key, deadline) = (key(MOVES), world.deadline());
        block_on(native.terms_of_item(&key, Among::Transaction, deadline)).expect("terms");
        block_on(native.writer().took_part(&key, 30.0, fate, deadline));
        block_on(native.reader().took_part(&key, 4.0, Fate::Done));
    };
    let began = world.clock.now().wall;
    (0..3).for_each(|_| part(Fate::Done));
    world.clock.advance(Duration::from_mins(1));
    part(Fate::Refused);
    let load = block_on(world.memory.get::<Ledger>(&(partition(), LedgerKind::Load)));
    let load = load.expect("a read").value.expect("a ledger");
    let minute = load.buckets[&Bucket::of(Span::Minute, began)];
    assert!(minute.write_units >= 90.0, "{minute:?}");

    world.heat_up();
    part(Fate::Throttled(Throttle::from_reason("TableWriteKeyRangeThroughputExceeded", None)));
    world.clock.advance(Duration::from_secs(1));
    world.heat_up();
    part(Fate::Throttled(Throttle::from_reason("TableWriteKeyRangeThroughputExceeded", None)));
    let phase = world.memory.stored_metadata(&partition()).expect("a collection").phase;
    assert!(matches!(phase, Phase::Forward { .. }), "{phase:?}");
}

/// Invariant I13.
#[test]
fn in_forward_an_item_is_settled_first() {
    for (write, required) in [
        (REPLACE, Required::Anything),
        (UPDATE, Required::NoMarker),
        (CREATE, Required::NoMarker),
        (DELETE, Required::NoMarker),
    ] {
        let world = in_forward(None);
        let done = ((true, None), vec![required], of(1, 1, 0, 0));
        assert_eq!(spent(&world, write), done);
        assert_eq!(world.memory.stored(&old()), Some(marker(2)));
        let (_, again, requests) = spent(&world, REPLACE);
        assert_eq!((again, requests), (vec![Required::Anything], of(1, 0, 0, 0)), "once marked");
    }
    for (write, is_done) in [(REPLACE, true), (UPDATE, true), (CREATE, false), (DELETE, true)] {
        let world = in_forward(Some("before"));
        let (told, sent, requests) = spent(&world, write);
        assert_eq!(told, (is_done, Some("before".to_owned())));
        assert_eq!((sent.len(), requests), (1, of(1, 0, 0, 1)));
        assert_eq!(world.memory.stored(&old()), Some(marker(2)));
    }
}

/// Invariants I14, I35.
#[test]
fn in_move_a_write_asks_the_new_home_first() {
    let world = in_move(Some("before"));
    assert_eq!(spent(&world, REPLACE), ((true, None), vec![Required::Anything], of(0, 0, 0, 0)));
    assert_eq!(world.stored(&old()), Some("before".to_owned()), "it goes past the old home");
    // What is live there decides.
    let there = |is_done, text: &str| {
        ((is_done, Some(text.to_owned())), vec![Required::Live], of(0, 0, 0, 0))
    };
    assert_eq!(spent(&world, CREATE), there(false, "new"));
    let before = world.memory.stored(&new()).expect("an item").version;
    assert_eq!(spent(&world, UPDATE), there(true, "new"));
    assert_ne!(world.memory.stored(&new()).expect("an item").version, before);
    assert_eq!(spent(&world, EXCHANGE), there(true, "new"));

    // Where nothing is, the old home is looked at.
    let asked = vec![Required::Live, Required::NoMarker];
    for (write, is_done) in [(UPDATE, true), (CREATE, true), (EXCHANGE, false)] {
        let world = in_move(None);
        assert_eq!(spent(&world, write), ((is_done, None), asked.clone(), of(1, 0, 0, 0)));
        assert_eq!(world.memory.stored(&old()), None, "no marker is put");
        assert_eq!(world.memory.stored(&new()).is_some(), is_done);
    }
    for (write, is_done) in [(UPDATE, true), (CREATE, false), (EXCHANGE, true)] {
        let world = in_move(Some("before"));
        let told = (is_done, Some("before".to_owned()));
        assert_eq!(spent(&world, write), (told, asked.clone(), of(1, 0, 0, 1)));
        assert_eq!(world.memory.stored(&old()), Some(marker(2)));
    }
    let world = in_move(Some("before"));
    spent(&world, UPDATE);
    assert_eq!(world.stored(&new()), Some("before".to_owned()), "it keeps what it does not name");
}

/// Invariant I28.
#[test]
fn in_move_a_delete_takes_what_it_has_seen() {
    let nothing = ((true, None), vec![Required::Nothing], of(1, 0, 1, 0));
    assert_eq!(spent(&in_move(None), DELETE), nothing);
    let refused = ((false, None), vec![Required::Nothing], of(1, 0, 1, 0));
    assert_eq!(spent(&in_move(None), (Does::Delete, Asks::Exists)), refused);

    let world = in_move(Some("before"));
    let moved = ((true, Some("before".to_owned())), vec![Required::NoMarker], of(1, 0, 0, 1));
    assert_eq!(spent(&world, DELETE), moved);
    assert_eq!(world.memory.stored(&new()), None);
    let marked = ((true, None), vec![Required::NoMarker], of(1, 0, 0, 0));
    assert_eq!(spent(&world, DELETE), marked);

    // What a put has gone past gives way.
    let world = in_move(Some("before"));
    spent(&world, REPLACE);
    let gone = ((true, Some("new".to_owned())), vec![Required::NoMarker], of(1, 0, 0, 2));
    assert_eq!(spent(&world, DELETE), gone);
    assert_eq!(world.memory.stored(&old()), Some(marker(2)));

    let world = in_move(None);
    spent(&world, REPLACE);
    let seen = Required::Version(world.memory.stored(&new()).expect("an item").version);
    let refused = ((false, Some("new".to_owned())), vec![seen], of(1, 0, 1, 0));
    assert_eq!(spent(&world, (Does::Delete, Asks::Absent)), refused);
    let deleted = ((true, Some("new".to_owned())), vec![seen], of(1, 0, 1, 0));
    assert_eq!(spent(&world, DELETE), deleted);
    assert_eq!(world.memory.stored(&old()), None, "no marker is put");
}

/// A marker makes sure that the next attempt needs nothing to stay as it was.
/// Invariant I28.
#[test]
fn a_delete_that_another_write_overtakes_leaves_a_marker_and_ends() {
    for is_there in [true, false] {
        let world = in_move(None);
        if is_there {
            put(&world, MOVES, "new").expect("a put");
        }
        let overtaken = || {
            let other = StoredItem { version: Version::new(9), ..stored("other", 2) };
            world.memory.place(&new(), other);
            Ok(())
        };
        let delete = Native::new(&world, Does::Delete, Asks::Nothing).before(overtaken);
        let (told, sent, _) = delete.run();
        assert_eq!(told, Ok((true, Some("other".to_owned()))));
        assert_eq!(sent.last(), Some(&(new(), Required::NoMarker)));
        assert_eq!(sent.len(), 2);
        assert_eq!(world.memory.stored(&old()), Some(marker(2)));
        assert_eq!(world.memory.stored(&new()), None);
    }
}

/// A late request that a delete comes upon between its two looks has it look again.
#[test]
fn a_delete_begins_again_where_an_item_comes_to_the_old_home_meanwhile() {
    let world = in_move(None);
    let memory = world.memory.clone();
    let late = move || memory.place(&old(), stored("late", 1));
    world.store.script(Operation::GetBoth, [Fault::before(late)]);
    let (told, sent, requests) = Native::new(&world, Does::Delete, Asks::Nothing).run();
    assert_eq!(told, Ok((true, Some("late".to_owned()))));
    assert_eq!(sent, [(new(), Required::NoMarker)]);
    assert_eq!(requests, of(2, 0, 1, 1));
}

/// DynamoDB deletes an item that expires by itself, and what it hides would show again.
/// Invariant I14.
#[test]
fn a_write_that_may_leave_an_item_that_expires_leaves_a_marker_at_the_old_home() {
    for is_in_move in [true, false] {
        for (does, required) in
            [(Does::PutExpiring, Required::Anything), (Does::Set(TTL), Required::NoMarker)]
        {
            let world = where_items_expire(is_in_move);
            let done = ((true, None), vec![required], of(1, 1, 0, 0));
            assert_eq!(spent(&world, (does, Asks::Nothing)), done);
            assert_eq!(world.memory.stored(&old()), Some(marker(2)));

            let world = where_items_expire(is_in_move);
            world.place(MOVES, 1, 1);
            let done = ((true, Some(MOVES.to_owned())), vec![required], of(1, 0, 0, 1));
            assert_eq!(spent(&world, (does, Asks::Nothing)), done);
            assert_eq!(world.memory.stored(&old()), Some(marker(2)));
        }
    }
    // Any other goes past it.
    let world = where_items_expire(true);
    assert_eq!(spent(&world, REPLACE).2, of(0, 0, 0, 0));
    assert_eq!(spent(&world, (Does::Set("more"), Asks::Nothing)).1, [Required::Live]);
    assert_eq!(world.memory.stored(&old()), None);
}

/// DynamoDB would judge a condition of it, and it counts as nothing.
/// Invariant I16.
#[test]
fn a_marker_of_an_earlier_reshard_is_taken_away_first() {
    let worlds: [fn() -> World; 3] = [stable, || in_forward(None), || in_move(None)];
    for world in worlds {
        for (write, is_done) in [
            (UPDATE, true),
            (CREATE, true),
            (EXCHANGE, false),
            (DELETE, true),
            ((Does::Delete, Asks::Exists), false),
        ] {
            let world = world();
            let plain = spent(&world, write);
            world.memory.remove(&new());
            world.memory.place(&new(), marker(1));
            let (told, sent, requests) = spent(&world, write);
            assert_eq!(told, (is_done, None), "{write:?}");
            assert_eq!(sent.last(), plain.1.last(), "{write:?}");
            assert!(requests.writes == 1, "it is deleted: {requests:?}");
            let left = world.memory.stored(&new());
            assert!(left.is_none_or(|item| item.is_live()), "{write:?}");
        }
        let world = world();
        world.memory.place(&new(), marker(1));
        assert_eq!(spent(&world, REPLACE).1, [Required::Anything], "it is replaced");
        assert_eq!(world.stored(&new()), Some("new".to_owned()));
    }
}

/// Nobody knew whether the marker was gone, and the client was told so of its own write, which had not been sent.
#[test]
fn regression_a_marker_of_unknown_fate_made_the_write_one() {
    let lost: [fn() -> Fault; 2] =
        [|| Fault::Refuse(outcome_unknown()), || Fault::ExecuteThen(outcome_unknown())];
    for fault in lost {
        for write in [UPDATE, CREATE] {
            let world = stable();
            world.memory.place(&new(), marker(1));
            world.store.script(Operation::Write, [fault()]);
            assert_eq!(spent(&world, write).0, (true, None), "{write:?}");
        }
    }
}

/// Somebody else has put an item in place of the marker meanwhile.
#[test]
fn a_marker_that_has_gone_meanwhile_is_not_taken_away() {
    let world = stable();
    world.memory.place(&new(), marker(1));
    let memory = world.memory.clone();
    let put = move || memory.place(&new(), stored("other", 2));
    world.store.script(Operation::Write, [Fault::before(put)]);
    let told = spent(&world, CREATE).0;
    assert_eq!(told, (false, Some("other".to_owned())));
    assert_eq!(world.stored(&new()), Some("other".to_owned()));
}

/// Invariant I12.
#[test]
fn a_write_that_finds_a_later_generation_begins_again_under_fresh_metadata() {
    for (does, asks) in [REPLACE, UPDATE, CREATE, DELETE] {
        let world = stable();
        let reshard = || {
            world.memory.place(&new(), marker(3));
            world.memory.place(&old(), stored("moved", 3));
            world.lay_out(3, 1, Placement::Xxh64);
            Ok(())
        };
        let (told, sent, _) = Native::new(&world, does, asks).before(reshard).run();
        assert_eq!(told, Ok((asks != Asks::Absent, Some("moved".to_owned()))));
        let places = sent.into_iter().map(|(at, _)| at).collect::<Vec<_>>();
        assert_eq!(places, [new(), old()]);
        assert_eq!(world.memory.stored(&new()), Some(marker(3)), "the marker stays");
    }
}

/// Nobody looks whether it arrived: what the client has asked for may not show which write it was.
/// Invariant I6.
#[test]
fn a_write_of_unknown_fate_is_not_sent_again_and_not_looked_for() {
    let world = stable();
    let lost = || Err(outcome_unknown());
    let (told, sent, requests) =
        Native::new(&world, Does::Set("more"), Asks::Nothing).after(lost).run();
    assert_eq!(code(told), Code::OutcomeUnknown);
    assert_eq!((sent.len(), requests), (1, of(0, 0, 0, 0)));
    // One that was answered behind its lease counts if nothing has changed, and is in doubt otherwise. One that was refused then
    // begins again.
    let late = |world: &World| {
        world.clock.advance(LEASE);
        Ok(())
    };
    let (told, sent, _) =
        Native::new(&world, Does::Put("new"), Asks::Nothing).after(|| late(&world)).run();
    assert_eq!((told.map(|(is_done, _)| is_done), sent.len()), (Ok(true), 1));
    let (told, sent, _) =
        Native::new(&world, Does::Put("new"), Asks::Absent).after(|| late(&world)).run();
    assert_eq!((told, sent.len()), (Ok((false, Some("new".to_owned()))), 2));
    let changed = || {
        world.lay_out(3, 1, Placement::Xxh64);
        late(&world)
    };
    let (told, sent, _) = Native::new(&world, Does::Put("new"), Asks::Nothing).after(changed).run();
    assert_eq!((code(told), sent.len()), (Code::OutcomeUnknown, 1));
}

/// A lease by which nothing can be dated never counts, and the processor had nothing else to do.
#[test]
fn regression_a_write_whose_lease_had_ended_was_tried_again_without_a_pause() {
    let world = stable();
    let mut write = Native::new(&world, Does::Put("new"), Asks::Nothing);
    for _ in 0..10_000 {
        write = write.before(|| Err(StoreError::LeaseExpired));
    }
    let (told, sent, _) = write.run();
    assert_eq!((code(told), sent.len()), (Code::Unavailable, 0));
}

#[test]
fn what_was_refused_for_the_moment_is_sent_again() {
    for refusal in [StoreError::Conflict, StoreError::LeaseExpired] {
        let world = in_move(None);
        let refused = move || Err(refusal.clone());
        let (told, sent, _) =
            Native::new(&world, Does::Put("new"), Asks::Nothing).before(refused).run();
        assert_eq!((told, sent.len()), (Ok((true, None)), 1));
    }
}

#[test]
fn a_random_collection_has_no_home_for_an_item() {
    let world = World::random();
    world.lay_out(1, 2, Placement::Random);
    let (told, sent, _) = Native::new(&world, Does::Put("new"), Asks::Nothing).run();
    assert_eq!((code(told), sent.len()), (Code::NotForPlacement, 0));
    let (got, sent, _) = Look::new(&world, true).run();
    assert_eq!((code(got), sent.len()), (Code::NotForPlacement, 0));
}

#[test]
fn a_stable_collection_is_read_as_its_client_asks() {
    let world = stable();
    world.place(MOVES, 2, 2);
    for is_strong in [true, false] {
        let (got, sent, requests) = Look::new(&world, is_strong).run();
        assert_eq!(got, Ok(Some(MOVES.to_owned())));
        assert_eq!((sent, requests), (vec![(new(), is_strong)], of(0, 0, 0, 0)));
    }
    world.memory.place(&new(), marker(1));
    let (got, sent, _) = Look::new(&world, false).run();
    assert_eq!((got, sent.len()), (Ok(None), 1), "a marker counts as nothing");
}

/// Invariants I23, I31.
#[test]
fn what_a_reshard_moves_is_read_strongly_and_shown_at_its_new_home_alone() {
    let worlds: [fn(Option<&str>) -> World; 2] = [in_forward, in_move];
    for begun in worlds {
        let world = begun(Some("before"));
        let (got, sent, requests) = Look::new(&world, false).run();
        assert_eq!(got, Ok(Some("before".to_owned())));
        assert_eq!((sent, requests), (vec![(new(), true); 2], of(1, 0, 1, 1)));
        assert_eq!(world.memory.stored(&old()), Some(marker(2)));
        let (got, sent, requests) = Look::new(&world, false).run();
        assert_eq!(got, Ok(Some("before".to_owned())));
        assert_eq!((sent, requests), (vec![(new(), true)], of(0, 0, 0, 0)), "it has moved");

        for at_new in [None, Some(marker(1))] {
            let world = begun(None);
            if let Some(marker) = at_new {
                world.memory.place(&new(), marker);
            }
            let (got, sent, requests) = Look::new(&world, true).run();
            assert_eq!((got, sent.len(), requests), (Ok(None), 1, of(1, 0, 1, 0)));
        }
    }
}

/// The item could be found, and not be shown, so the reader looked for it until its time had run out.
#[test]
fn regression_a_read_of_an_item_that_cannot_be_moved_went_on_until_its_deadline() {
    let worlds: [fn(Option<&str>) -> World; 2] = [in_forward, in_move];
    for begun in worlds {
        let world = begun(Some("before"));
        world.store.reject_arrival(new());
        let (got, sent, _) = Look::new(&world, false).run();
        assert_eq!(got, Ok(Some("before".to_owned())));
        assert_eq!(sent, [(new(), true), (old(), true)]);
        // It has been replaced by the time at which the old home is read.
        let replace = || {
            world.memory.place(&old(), marker(2));
            world.memory.place(&new(), stored("after", 2));
            Ok(())
        };
        let (got, sent, _) = Look::new(&world, false).after(|| Ok(())).after(replace).run();
        assert_eq!((got, sent.len()), (Ok(Some("before".to_owned())), 2), "it was there");
    }
    let world = in_move(Some("before"));
    world.store.reject_arrival(new());
    let memory = world.memory.clone();
    let late = StoredItem { version: Version::new(9), ..stored("late", 1) };
    let replace = move || memory.place(&old(), late);
    // Another version lies there than the look at both homes has seen.
    world.store.script(Operation::Get, [Fault::before(|| ()), Fault::after(replace)]);
    let (got, sent, _) = Look::new(&world, false).run();
    assert_eq!(got, Ok(Some("late".to_owned())));
    assert_eq!(sent.len(), 4, "{sent:?}");
}

/// Invariant I12.
#[test]
fn a_read_that_finds_a_later_generation_or_comes_after_a_change_is_made_again() {
    let world = stable();
    world.memory.place(&new(), marker(3));
    world.memory.place(&old(), stored("moved", 3));
    let reshard = || {
        world.lay_out(3, 1, Placement::Xxh64);
        Ok(())
    };
    let (got, sent, _) = Look::new(&world, false).after(reshard).run();
    assert_eq!((got, sent.len()), (Ok(Some("moved".to_owned())), 2));
    let late = || {
        world.clock.advance(LEASE);
        Ok(())
    };
    let (got, sent, _) = Look::new(&world, false).after(late).run();
    assert_eq!((got, sent.len()), (Ok(Some("moved".to_owned())), 1));
    let changed = || {
        world.clock.advance(LEASE);
        world.lay_out(4, 1, Placement::Xxh64);
        Ok(())
    };
    let (got, sent, _) = Look::new(&world, false).after(changed).run();
    assert_eq!((got, sent.len()), (Ok(Some("moved".to_owned())), 2));
    let lost = || Err(outcome_unknown());
    assert_eq!(code(Look::new(&world, false).after(lost).run().0), Code::OutcomeUnknown);
    let throttled = || Err(StoreError::Conflict);
    assert_eq!(Look::new(&world, false).after(throttled).run().1.len(), 2);
}

/// What cannot be moved is replaced by a put, and by no write that depends on it.
#[test]
fn an_item_that_cannot_be_moved_is_replaced_alone() {
    for write in [UPDATE, CREATE, EXCHANGE, DELETE] {
        let world = in_move(Some("before"));
        world.store.reject_arrival(new());
        let (told, ..) = Native::new(&world, write.0, write.1).run();
        assert_eq!(code(told), Code::UnmovableItem);
        assert_eq!(spent(&world, REPLACE).0, (true, None));
        assert_eq!(world.stored(&new()), Some("new".to_owned()));
    }
}

/// One such item failed a batch of a hundred reads, for as long as the reshard was open.
#[test]
fn regression_an_item_that_cannot_be_moved_failed_a_batch_of_reads() {
    let world = in_move(Some("before"));
    world.store.reject_arrival(new());
    let native = NativeRequests::new(world.directory());
    let terms = |among| block_on(native.terms_of_item(&key(MOVES), among, world.deadline()));
    let read = terms(Among::Reads).expect("it is read where it lies");
    assert_eq!(read.partition, old().partition);
    assert_eq!(code(terms(Among::Transaction)), Code::UnmovableItem);
}
