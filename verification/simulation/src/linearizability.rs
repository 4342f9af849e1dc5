//! Whether what clients saw of one item can have happened one call at a time.
//!
//! The search is that of Wing and Gong ("Testing and verifying concurrent objects", 1993), with the
//! memory of Lowe ("Testing for linearizability", 2017): a set of calls that were carried out and
//! the item that they left need to be looked at once.

use std::collections::HashSet;
use std::time::Duration;

/// What an item holds, as far as the programs of the clients go. Every write puts its own number in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Content {
    /// The write that left the item so.
    pub writer: u64,
    /// Two more attributes, each with the number of the write that set it.
    pub fields: [Option<u64>; 2],
}

/// What a call asks of the item before it does anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Anything,
    /// That nothing is there.
    Absent,
    /// That something is there.
    Exists,
    /// The item that this write has left.
    LeftBy(u64),
    /// An item in which this field has a value.
    Has(usize),
    /// None in which this field has a value, so that nothing is right, too.
    Lacks(usize),
    /// Just this.
    Is(Option<Content>),
}

impl Expect {
    fn holds(self, item: Option<Content>) -> bool {
        match self {
            Self::Anything => true,
            Self::Absent => item.is_none(),
            Self::Exists => item.is_some(),
            Self::LeftBy(writer) => item.is_some_and(|item| item.writer == writer),
            Self::Has(field) => item.is_some_and(|item| item.fields[field].is_some()),
            Self::Lacks(field) => item.is_none_or(|item| item.fields[field].is_none()),
            Self::Is(content) => item == content,
        }
    }
}

/// What a call did to the item, or saw of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Puts this in place of whatever is there.
    Put(Expect, Content),
    /// Sets one field of an item that exists, or takes it away.
    Patch(Expect, u64, usize, Option<u64>),
    /// As a patch, but of nothing it makes an item.
    Update(Expect, u64, usize, Option<u64>),
    /// Adds a number to a field, and keeps the rest. Of nothing it makes an item that no other write has left, whose writer is 0.
    Add(Expect, usize, u64),
    /// Takes the item away.
    Delete(Expect),
    /// It did nothing, because this did not hold.
    Refused(Expect),
    /// It was shown this.
    Saw(Option<Content>),
}

impl Step {
    /// Whether the step can have happened to an item, or to the lack of one.
    pub fn can_happen_to(self, item: Option<Content>) -> bool {
        match self {
            Self::Put(expect, _)
            | Self::Delete(expect)
            | Self::Update(expect, ..)
            | Self::Add(expect, ..) => expect.holds(item),
            Self::Patch(expect, ..) => item.is_some() && expect.holds(item),
            Self::Refused(expect) => !expect.holds(item),
            Self::Saw(seen) => seen == item,
        }
    }

    /// What is there after a step that can have happened.
    pub fn apply(self, item: Option<Content>) -> Option<Content> {
        match self {
            Self::Put(_, content) => Some(content),
            Self::Patch(_, writer, field, value) => item.map(|mut patched| {
                patched.writer = writer;
                patched.fields[field] = value;
                patched
            }),
            Self::Update(expect, writer, field, value) => {
                let updated = item.unwrap_or(Content { writer, fields: [None; 2] });
                Self::Patch(expect, writer, field, value).apply(Some(updated))
            }
            Self::Add(_, field, number) => {
                let mut added = item.unwrap_or(Content { writer: 0, fields: [None; 2] });
                added.fields[field] = Some(added.fields[field].unwrap_or(0) + number);
                Some(added)
            }
            Self::Delete(_) => None,
            Self::Refused(_) | Self::Saw(_) => item,
        }
    }

    /// The step if it was told that this was there.
    #[must_use]
    pub fn of(self, item: Option<Content>) -> Self {
        let is = Expect::Is(item);
        match self {
            Self::Put(_, content) => Self::Put(is, content),
            Self::Patch(_, writer, field, value) => Self::Patch(is, writer, field, value),
            Self::Update(_, writer, field, value) => Self::Update(is, writer, field, value),
            Self::Add(_, field, number) => Self::Add(is, field, number),
            Self::Delete(_) => Self::Delete(is),
            Self::Refused(_) | Self::Saw(_) => self,
        }
    }

    fn changes_nothing(self) -> bool {
        matches!(self, Self::Refused(_) | Self::Saw(_))
    }
}

/// One call, from the moment at which it can have happened to the last at which it can.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// It has not happened before.
    pub begun: Duration,
    /// It does not happen later.
    pub ended: Duration,
    /// Whether it has happened. Where a client does not know, it need not have.
    pub is_certain: bool,
    /// What it did or saw.
    pub step: Step,
}

/// What a history is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// There is an order in which they can have happened.
    Linearizable,
    /// There is no order in which the calls could have happened.
    Impossible,
    /// There are too many orders to look at.
    Undecided,
}

/// No item's history takes this many steps of the search.
const MAX_STEPS: usize = 2_000_000;

/// Whether the calls on an item that did not exist can have happened one at a time.
/// Invariants I1, I2, I3.
pub fn check(calls: &[Call]) -> Verdict {
    let mut calls = calls.to_vec();
    calls.sort_by_key(|call| call.begun);
    let start = Node { done: Set::of(calls.len()), latest: Duration::ZERO, item: None };
    let mut seen = HashSet::new();
    let mut stack = vec![start];
    let mut next = Vec::new();
    for _ in 0..MAX_STEPS {
        let Some(mut node) = stack.pop() else {
            return Verdict::Impossible;
        };
        node.forget_expired(&calls);
        if node.is_complete(&calls) {
            return Verdict::Linearizable;
        }
        if !seen.insert((node.done.clone(), node.item)) {
            continue;
        }
        next.clear();
        node.successors(&calls, &mut next);
        stack.append(&mut next);
    }
    Verdict::Undecided
}

/// The calls in the order in which they began, a line for each.
pub fn lines(calls: &[Call]) -> String {
    let mut calls = calls.to_vec();
    calls.sort_by_key(|call| call.begun);
    let lines = calls.iter().map(|call| {
        let (begun, ended) = (call.begun.as_secs_f64(), call.ended.as_secs_f64());
        let certain = if call.is_certain { "" } else { " perhaps" };
        format!("\n    {begun:>12.6} to {ended:>12.6}{certain} {:?}", call.step)
    });
    lines.collect()
}

/// A point of the search.
struct Node {
    done: Set,
    /// The latest beginning of a call that has happened: nothing happens before it any more.
    latest: Duration,
    item: Option<Content>,
}

impl Node {
    fn is_complete(&self, calls: &[Call]) -> bool {
        (0..calls.len()).all(|at| self.done.has(at) || !calls[at].is_certain)
    }

    /// Calls that can no longer happen, and need not have.
    fn forget_expired(&mut self, calls: &[Call]) {
        for (at, call) in calls.iter().enumerate() {
            if call.begun >= self.latest {
                break;
            }
            if !call.is_certain && call.ended < self.latest {
                self.done.add(at);
            }
        }
    }

    fn successors(&self, calls: &[Call], into: &mut Vec<Self>) {
        let left = || (0..calls.len()).filter(|at| !self.done.has(*at));
        let certain = left().filter(|at| calls[*at].is_certain);
        let horizon = certain.map(|at| calls[at].ended).min().unwrap_or(Duration::MAX);
        for at in left().take_while(|at| calls[*at].begun < horizon) {
            let call = &calls[at];
            if !call.step.can_happen_to(self.item) {
                continue;
            }
            let item = call.step.apply(self.item);
            if !call.is_certain && item == self.item {
                continue;
            }
            let mut done = self.done.clone();
            done.add(at);
            let node = Self { done, latest: self.latest.max(call.begun), item };
            // Where it changes nothing, now is as good as later, unless it rules something out.
            let rules_out =
                || left().any(|other| !calls[other].is_certain && calls[other].ended < node.latest);
            if call.step.changes_nothing() && !rules_out() {
                into.clear();
                into.push(node);
                return;
            }
            into.push(node);
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Set(Vec<u64>);

impl Set {
    fn of(length: usize) -> Self {
        Self(vec![0; length.div_ceil(64)])
    }

    fn has(&self, at: usize) -> bool {
        self.0[at / 64] & (1 << (at % 64)) != 0
    }

    fn add(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(writer: u64) -> Content {
        Content { writer, fields: [Some(writer), None] }
    }

    fn call(begun: u64, ended: u64, step: Step) -> Call {
        let moment = Duration::from_secs;
        Call { begun: moment(begun), ended: moment(ended), is_certain: true, step }
    }

    fn put(writer: u64) -> Step {
        Step::Put(Expect::Anything, content(writer))
    }

    fn perhaps(call: Call) -> Call {
        Call { is_certain: false, ..call }
    }

    /// Invariant I1.
    #[test]
    fn calls_at_the_same_time_may_happen_in_any_order() {
        let puts = [call(0, 10, put(1)), call(1, 9, put(2))];
        for last in [1, 2] {
            let saw = call(11, 12, Step::Saw(Some(content(last))));
            assert_eq!(check(&[puts[0], puts[1], saw]), Verdict::Linearizable);
        }
    }

    /// Invariant I2.
    #[test]
    fn a_lost_write_is_noticed() {
        let saw = call(2, 3, Step::Saw(None));
        assert_eq!(check(&[call(0, 1, put(1)), saw]), Verdict::Impossible);
    }

    /// Invariant I3.
    #[test]
    fn an_item_that_comes_back_is_noticed() {
        let calls = [
            call(0, 1, put(1)),
            call(2, 3, Step::Delete(Expect::Anything)),
            call(4, 5, Step::Saw(None)),
            call(6, 7, Step::Saw(Some(content(1)))),
        ];
        assert_eq!(check(&calls), Verdict::Impossible);
        assert_eq!(check(&calls[..3]), Verdict::Linearizable);
    }

    /// Invariant I6.
    #[test]
    fn a_write_of_unknown_outcome_happens_once_at_most_and_not_too_late() {
        let unknown = perhaps(call(0, 20, put(2)));
        let saw = |at, item| call(at, at + 1, Step::Saw(item));
        let before = [call(0, 1, put(1)), unknown, saw(5, Some(content(1)))];
        assert_eq!(check(&before), Verdict::Linearizable, "never");
        let late = [&before[..], &[saw(10, Some(content(2)))]].concat();
        assert_eq!(check(&late), Verdict::Linearizable, "later");
        let twice = [&late[..], &[call(12, 13, put(3)), saw(14, Some(content(2)))]].concat();
        assert_eq!(check(&twice), Verdict::Impossible, "twice");
        let too_late = [&before[..], &[saw(21, Some(content(1))), saw(23, Some(content(2)))]];
        assert_eq!(check(&too_late.concat()), Verdict::Impossible, "too late");
    }

    #[test]
    fn a_refusal_says_what_the_item_was() {
        let refused = |expect| call(2, 3, Step::Refused(expect));
        let calls = |expect| [call(0, 1, put(1)), refused(expect)];
        assert_eq!(check(&calls(Expect::Absent)), Verdict::Linearizable);
        assert_eq!(check(&calls(Expect::LeftBy(2))), Verdict::Linearizable);
        assert_eq!(check(&calls(Expect::LeftBy(1))), Verdict::Impossible);
        assert_eq!(check(&calls(Expect::Exists)), Verdict::Impossible);
    }

    #[test]
    fn an_update_keeps_what_it_does_not_name_and_makes_an_item_of_nothing() {
        let update = |expect| Step::Update(expect, 2, 1, Some(2));
        let made = Content { writer: 2, fields: [None, Some(2)] };
        let updated = Content { fields: [Some(1), Some(2)], ..made };
        let of_one = [call(0, 1, put(1)), call(2, 3, update(Expect::Anything))];
        let saw = |content| call(4, 5, Step::Saw(Some(content)));
        assert_eq!(check(&[&of_one[..], &[saw(updated)]].concat()), Verdict::Linearizable);
        assert_eq!(check(&[&of_one[..], &[saw(made)]].concat()), Verdict::Impossible, "lost");
        let of_nothing = [call(2, 3, update(Expect::Lacks(0))), saw(made)];
        assert_eq!(check(&of_nothing), Verdict::Linearizable);
        let told = |before| [of_one[0], call(2, 3, update(Expect::Anything).of(before))];
        assert_eq!(check(&told(Some(content(1)))), Verdict::Linearizable);
        assert_eq!(check(&told(None)), Verdict::Impossible, "it was told of nothing");
    }

    #[test]
    fn what_is_added_is_added_once() {
        let add = |number| Step::Add(Expect::Anything, 1, number);
        let saw = |field| {
            let content = Content { fields: [Some(1), Some(field)], ..content(1) };
            call(6, 7, Step::Saw(Some(content)))
        };
        let calls = [call(0, 1, put(1)), call(2, 3, add(5)), call(4, 5, add(7))];
        assert_eq!(check(&[&calls[..], &[saw(12)]].concat()), Verdict::Linearizable);
        assert_eq!(check(&[&calls[..], &[saw(7)]].concat()), Verdict::Impossible, "lost");
        assert_eq!(check(&[&calls[..], &[saw(17)]].concat()), Verdict::Impossible, "doubled");
        let of_nothing = Content { writer: 0, fields: [None, Some(5)] };
        let saw = call(4, 5, Step::Saw(Some(of_nothing)));
        assert_eq!(check(&[calls[1], saw]), Verdict::Linearizable);
    }

    #[test]
    fn a_patch_keeps_what_it_does_not_name() {
        let patched = Content { writer: 2, fields: [Some(1), Some(2)] };
        let calls = |seen| {
            let patch = Step::Patch(Expect::Exists, 2, 1, Some(2));
            [call(0, 1, put(1)), call(2, 3, patch), call(4, 5, Step::Saw(Some(seen)))]
        };
        assert_eq!(check(&calls(patched)), Verdict::Linearizable);
        assert_eq!(
            check(&calls(Content { fields: [None, Some(2)], ..patched })),
            Verdict::Impossible
        );
    }
}
