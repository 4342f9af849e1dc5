//! Linearizability of the operations on one item, tracked exactly while they run.
//!
//! A history is linearizable if each operation can be given a moment between its call and its return, so that all of
//! them in the order of these moments do what the register by itself would. Instead of searching for such an order
//! afterwards, all orders that are still possible are carried along: each is a [`World`], of which only matters what
//! the register holds now and which of the open operations have taken effect. A return rules worlds out; if none is
//! left, the history is not linearizable.

use std::collections::BTreeSet;

use super::operation::{Operation, Outcome, Value};

/// Where a history keeps an operation until it no longer matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId(usize);

/// All that the operations so far allow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct History {
    worlds: BTreeSet<World>,
    calls: Vec<Option<Call>>,
}

/// One way in which things may have happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct World {
    register: Option<Value>,
    /// One for each of the history's calls.
    progress: Vec<Progress>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Call {
    operation: Operation,
    /// Whether its client was told that the outcome is unknown. It may take effect at any later time, or never.
    unknown: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Progress {
    /// No operation, or one that takes effect no more: its outcome is unknown and it has taken effect, or it never
    /// will.
    Over,
    /// It has not taken effect yet.
    Open,
    /// It has, and would return this.
    TookEffect(Outcome),
}

impl History {
    /// A history without operations.
    pub fn new(register: Option<Value>) -> Self {
        let world = World { register, progress: Vec::new() };
        Self { worlds: BTreeSet::from([world]), calls: Vec::new() }
    }

    /// An operation begins.
    pub fn call(&mut self, operation: Operation) -> CallId {
        let at = self.calls.iter().position(Option::is_none).unwrap_or_else(|| {
            self.calls.push(None);
            self.calls.len() - 1
        });
        self.calls[at] = Some(Call { operation, unknown: false });
        let calls = self.calls.len();
        self.rewrite(|world| {
            world.progress.resize(calls, Progress::Over);
            world.progress[at] = Progress::Open;
            true
        });
        self.let_open_calls_take_effect();
        CallId(at)
    }

    /// An operation returns. Only the worlds remain in which it returns just this.
    pub fn returns(&mut self, CallId(at): CallId, outcome: Outcome) {
        let progress = match outcome {
            Outcome::NotDone => Progress::Open,
            _ => Progress::TookEffect(outcome),
        };
        self.rewrite(|world| {
            let possible = world.progress[at] == progress;
            world.progress[at] = Progress::Over;
            possible
        });
        self.calls[at] = None;
        self.forget_what_is_over();
    }

    /// An operation returns what says nothing about this register.
    pub fn tells_nothing(&mut self, CallId(at): CallId) {
        self.rewrite(|world| {
            world.progress[at] = Progress::Over;
            true
        });
        self.calls[at] = None;
        self.forget_what_is_over();
    }

    /// A read that promises no order has found this. Its write has taken effect by now, or never will: what has been
    /// seen does not show a second time.
    /// Invariant I3.
    pub fn is_glimpsed(&mut self, value: Value) {
        let writes = |call: &Option<Call>| match call.map(|call| call.operation) {
            Some(Operation::Change(change)) => change.writes() == Some(value),
            _ => false,
        };
        let Some(at) = self.calls.iter().position(writes) else { return };
        self.rewrite(|world| {
            if world.progress[at] == Progress::Open {
                world.progress[at] = Progress::Over;
            }
            true
        });
        self.forget_what_is_over();
    }

    /// The item that clients see expires. From now on it is absent wherever it was there.
    pub fn expires(&mut self, value: Value) {
        self.let_open_calls_take_effect();
        self.rewrite(|world| {
            world.register = world.register.filter(|found| *found != value);
            true
        });
        self.let_open_calls_take_effect();
    }

    /// The client gives an operation up without knowing its outcome.
    /// Invariant I6.
    pub fn becomes_unknown(&mut self, CallId(at): CallId) {
        if let Some(call) = &mut self.calls[at] {
            call.unknown = true;
        }
        self.rewrite(|world| {
            if world.progress[at] != Progress::Open {
                world.progress[at] = Progress::Over;
            }
            true
        });
        self.forget_what_is_over();
    }

    /// Whether there is an order that explains all returns.
    /// Invariant I1.
    pub fn is_linearizable(&self) -> bool {
        !self.worlds.is_empty()
    }

    /// Whether the item may hold this now.
    pub fn allows(&self, register: Option<Value>) -> bool {
        self.worlds.iter().any(|world| world.register == register)
    }

    fn let_open_calls_take_effect(&mut self) {
        let mut unseen = self.worlds.iter().cloned().collect::<Vec<_>>();
        while let Some(world) = unseen.pop() {
            for (at, call) in self.calls.iter().enumerate() {
                let Some(call) = call else { continue };
                if world.progress[at] != Progress::Open {
                    continue;
                }
                let (register, outcome) = call.operation.apply(world.register);
                let mut next = World { register, progress: world.progress.clone() };
                next.progress[at] =
                    if call.unknown { Progress::Over } else { Progress::TookEffect(outcome) };
                if !self.worlds.contains(&next) {
                    self.worlds.insert(next.clone());
                    unseen.push(next);
                }
            }
        }
    }

    /// An operation of unknown outcome that has taken effect in every world leaves no trace but the register.
    fn forget_what_is_over(&mut self) {
        for at in 0..self.calls.len() {
            let unknown = self.calls[at].is_some_and(|call| call.unknown);
            if unknown && self.worlds.iter().all(|world| world.progress[at] == Progress::Over) {
                self.calls[at] = None;
            }
        }
    }

    /// Changes every world, and drops those for which `change` says so.
    fn rewrite(&mut self, mut change: impl FnMut(&mut World) -> bool) {
        self.worlds = std::mem::take(&mut self.worlds)
            .into_iter()
            .filter_map(|mut world| change(&mut world).then_some(world))
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::super::operation::Change;
    use super::*;

    const ONE: Value = Value(1);
    const TWO: Value = Value(2);

    fn put(value: Value) -> Operation {
        Operation::Change(Change::Put(value))
    }

    #[test]
    fn a_read_sees_the_last_write() {
        let mut history = History::new(None);
        let write = history.call(put(ONE));
        history.returns(write, Outcome::Done);
        let read = history.call(Operation::Get);
        history.returns(read, Outcome::Read(Some(ONE)));
        assert!(history.is_linearizable());
        assert!(history.allows(Some(ONE)));
        assert!(!history.allows(None));
    }

    /// Invariant I2.
    #[test]
    fn a_read_that_misses_a_finished_write_is_not_linearizable() {
        let mut history = History::new(None);
        let write = history.call(put(ONE));
        history.returns(write, Outcome::Done);
        let read = history.call(Operation::Get);
        history.returns(read, Outcome::Read(None));
        assert!(!history.is_linearizable());
    }

    /// Invariant I1.
    #[test]
    fn two_reads_do_not_see_two_writes_in_opposite_orders() {
        let mut history = History::new(None);
        let writes = [put(ONE), put(TWO)].map(|write| history.call(write));
        let read = history.call(Operation::Get);
        history.returns(read, Outcome::Read(Some(ONE)));
        let read = history.call(Operation::Get);
        history.returns(read, Outcome::Read(Some(TWO)));
        assert!(history.is_linearizable());
        let read = history.call(Operation::Get);
        history.returns(read, Outcome::Read(Some(ONE)));
        assert!(!history.is_linearizable());
        assert!(writes[0] != writes[1]);
    }

    /// Invariant I6.
    #[test]
    fn a_write_of_unknown_outcome_may_take_effect_late_but_only_once() {
        let mut history = History::new(None);
        let write = history.call(put(ONE));
        history.becomes_unknown(write);
        for found in [None, Some(ONE)] {
            let read = history.call(Operation::Get);
            history.returns(read, Outcome::Read(found));
            assert!(history.is_linearizable());
        }
        let delete = history.call(Operation::Change(Change::Delete));
        history.returns(delete, Outcome::Done);
        let read = history.call(Operation::Get);
        history.returns(read, Outcome::Read(Some(ONE)));
        assert!(!history.is_linearizable());
    }

    /// Invariant I3.
    #[test]
    fn what_was_glimpsed_is_not_seen_again_after_a_delete() {
        let history_until_the_delete = |glimpsed: bool| {
            let mut history = History::new(None);
            let write = history.call(put(ONE));
            history.becomes_unknown(write);
            if glimpsed {
                history.is_glimpsed(ONE);
            }
            let create = history.call(Operation::Change(Change::Create(TWO)));
            history.returns(create, Outcome::Done);
            let delete = history.call(Operation::Change(Change::Delete));
            history.returns(delete, Outcome::Done);
            assert!(history.is_linearizable());
            history
        };
        assert!(history_until_the_delete(false).allows(Some(ONE)));
        assert!(!history_until_the_delete(true).allows(Some(ONE)));
    }

    /// Invariant I3.
    #[test]
    fn what_has_expired_is_not_seen_again_and_neither_is_what_it_replaced() {
        let mut history = History::new(Some(ONE));
        let write = history.call(put(TWO));
        history.returns(write, Outcome::Done);
        let read = history.call(Operation::Get);
        history.expires(TWO);
        assert!(history.allows(None));
        assert!(!history.allows(Some(ONE)) && !history.allows(Some(TWO)));
        for (found, possible) in [(None, true), (Some(TWO), true), (Some(ONE), false)] {
            let mut seen = history.clone();
            seen.returns(read, Outcome::Read(found));
            assert_eq!(seen.is_linearizable(), possible, "{found:?}");
        }
    }

    /// Invariant I6.
    #[test]
    fn a_write_that_could_not_be_moved_has_not_taken_effect() {
        let mut history = History::new(Some(ONE));
        let write = history.call(put(TWO));
        history.returns(write, Outcome::NotDone);
        assert!(history.allows(Some(ONE)));
        assert!(!history.allows(Some(TWO)));
    }

    #[test]
    fn a_create_is_refused_only_if_something_was_there() {
        let mut history = History::new(None);
        let create = history.call(Operation::Change(Change::Create(ONE)));
        history.returns(create, Outcome::Refused);
        assert!(!history.is_linearizable());
    }
}
