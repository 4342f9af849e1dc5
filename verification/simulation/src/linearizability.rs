//! Whether what clients saw of one item can have happened one call at a time.
//!
//! The search is that of Wing and Gong ("Testing and verifying concurrent objects", 1993), with the
//! memory of Lowe ("Testing for linearizability", 2017): a set of calls that were carried out and
//! the item that they left need to be looked at once, and not at all
//! where the same was left no later and with fewer calls of unknown outcome.

use std::collections::HashMap;
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
const MAX_STEPS: usize = 10_000_000;

/// Whether the calls on an item that did not exist can have happened one at a time.
/// Invariants I1, I2, I3.
pub fn check(calls: &[Call]) -> Verdict {
    let history = History::of(calls);
    let mut seen = Seen::default();
    let mut stack = vec![history.start()];
    for _ in 0..MAX_STEPS {
        let Some(node) = stack.pop() else {
            return Verdict::Impossible;
        };
        if node.done.len() == history.certain.len() {
            return Verdict::Linearizable;
        }
        if seen.admits(&node) {
            history.successors(&node, &mut stack);
        }
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

/// The calls of one item, each kind in the order in which they began.
struct History {
    certain: Vec<Call>,
    /// Those that need not have happened.
    perhaps: Vec<Call>,
}

/// A point of the search.
struct Node {
    /// The certain calls that have happened.
    done: Set,
    /// The others that have, and those that can no longer happen.
    used: Set,
    /// The latest beginning of a call that has happened: nothing happens before it any more.
    latest: Duration,
    item: Option<Content>,
}

impl History {
    fn of(calls: &[Call]) -> Self {
        let mut calls = calls.to_vec();
        calls.sort_by_key(|call| call.begun);
        let (certain, perhaps) = calls.into_iter().partition(|call| call.is_certain);
        Self { certain, perhaps }
    }

    fn start(&self) -> Node {
        let (done, used) = (Set::of(self.certain.len()), Set::of(self.perhaps.len()));
        Node { done, used, latest: Duration::ZERO, item: None }
    }

    /// Pushes what can happen next. The last is looked at first: what is certain before what is not, and what ended first.
    fn successors(&self, node: &Node, into: &mut Vec<Node>) {
        let horizon = self.horizon(node);
        let in_time = |call: &Call| call.begun < horizon;
        let left = node.done.missing().take_while(|at| in_time(&self.certain[*at]));
        let left = left.filter(|at| self.certain[*at].step.can_happen_to(node.item));
        let mut left = left.collect::<Vec<_>>();
        left.sort_by_key(|at| std::cmp::Reverse(self.certain[*at].ended));
        // Where a call changes nothing, now is as good as later, unless it rules something out.
        let harmless = left.iter().rev().copied().find(|at| {
            let call = &self.certain[*at];
            call.step.changes_nothing() && !self.rules_out(node, call)
        });
        if let Some(at) = harmless {
            into.push(self.after_certain(node, at));
            return;
        }
        let perhaps = node.used.missing().take_while(|at| in_time(&self.perhaps[*at]));
        for at in perhaps {
            let call = &self.perhaps[at];
            let changes = call.step.apply(node.item) != node.item;
            if changes && call.step.can_happen_to(node.item) && !self.has_twin(node, at) {
                into.push(self.after(node.done.clone(), node.used.with(at), node, call));
            }
        }
        into.extend(left.into_iter().map(|at| self.after_certain(node, at)));
    }

    /// When the first of the certain calls that are left ended: what began later comes after it.
    fn horizon(&self, node: &Node) -> Duration {
        let mut horizon = Duration::MAX;
        for call in node.done.missing().map(|at| &self.certain[at]) {
            if call.begun >= horizon {
                break;
            }
            horizon = horizon.min(call.ended);
        }
        horizon
    }

    /// Whether something that can still happen cannot happen any more once this has.
    fn rules_out(&self, node: &Node, call: &Call) -> bool {
        self.expired(node, call.begun).next().is_some()
    }

    /// Whether the same step of another call is left that can happen now as well, and no later than this one's.
    fn has_twin(&self, node: &Node, at: usize) -> bool {
        let call = &self.perhaps[at];
        let latest = node.latest.max(call.begun);
        let mut left = node.used.missing().take_while(|other| self.perhaps[*other].begun <= latest);
        left.any(|other| {
            let twin = &self.perhaps[other];
            twin.step == call.step && (twin.ended, other) < (call.ended, at)
        })
    }

    /// What has not happened, and cannot once something that began at this moment has.
    fn expired(&self, node: &Node, latest: Duration) -> impl Iterator<Item = usize> {
        let begun = node.used.missing().take_while(move |at| self.perhaps[*at].begun < latest);
        begun.filter(move |at| self.perhaps[*at].ended < latest)
    }

    fn after_certain(&self, node: &Node, at: usize) -> Node {
        self.after(node.done.with(at), node.used.clone(), node, &self.certain[at])
    }

    fn after(&self, done: Set, mut used: Set, node: &Node, call: &Call) -> Node {
        let latest = node.latest.max(call.begun);
        for at in self.expired(node, latest) {
            used.add(at);
        }
        Node { done, used, latest, item: call.step.apply(node.item) }
    }
}

/// The certain calls that have happened, and the item that they and others have left.
type Left = (Set, Option<Content>);

/// The points that were looked at: which other calls were used up, and the latest beginning.
#[derive(Default)]
struct Seen(HashMap<Left, Vec<(Set, Duration)>>);

impl Seen {
    /// Notes a point, unless all that can come of it can come of one that was looked at: after the same certain calls, with the
    /// same item and no later, and with no call used up that this one has left.
    fn admits(&mut self, node: &Node) -> bool {
        let points = self.0.entry((node.done.clone(), node.item)).or_default();
        if points.iter().any(|(used, at)| *at <= node.latest && used.is_within(&node.used)) {
            return false;
        }
        points.retain(|(used, at)| !(node.latest <= *at && node.used.is_within(used)));
        points.push((node.used.clone(), node.latest));
        true
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Set {
    words: Vec<u64>,
    /// Of what there is, in the set or not.
    of: usize,
}

impl Set {
    fn of(of: usize) -> Self {
        Self { words: vec![0; of.div_ceil(64)], of }
    }

    fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    fn with(&self, at: usize) -> Self {
        let mut with = self.clone();
        with.add(at);
        with
    }

    fn add(&mut self, at: usize) {
        self.words[at / 64] |= 1 << (at % 64);
    }

    /// What is not in it, in order.
    fn missing(&self) -> impl Iterator<Item = usize> {
        let words = self.words.iter().enumerate().filter(|(_, word)| **word != u64::MAX);
        let places = words.flat_map(|(at, word)| {
            (0..64).filter(move |bit| word & (1 << bit) == 0).map(move |bit| at * 64 + bit)
        });
        places.take_while(|at| *at < self.of)
    }

    fn is_within(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(word, other)| word & !other == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

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

    /// Eight clients call for an item, and one call in fifteen is never answered, as where endpoints are killed.
    fn history(seed: u64, length: u64) -> Vec<Call> {
        const KEPT: Duration = Duration::from_secs(5);
        let draws = Random::new(seed);
        let mut clocks = [0; 8];
        let planned = (1..=length).map(|writer| {
            let clock = &mut clocks[draws.index(8)];
            let begun = *clock + draws.below(500_000);
            let ended = begun + 2_000 + draws.below(12_000);
            *clock = ended;
            (begun + draws.below(ended - begun), begun, ended, writer)
        });
        let mut planned = planned.collect::<Vec<_>>();
        planned.sort_unstable();
        let (mut item, mut last, mut calls) = (None, 0, Vec::new());
        for (_, begun, ended, writer) in planned {
            let expect = draws.pick(&[Expect::Anything, Expect::Absent, Expect::LeftBy(last)]);
            let step = match draws.below(6) {
                0 | 1 => Step::Saw(item),
                2 => Step::Put(expect, content(writer)),
                3 => Step::Patch(Expect::LeftBy(last), writer, 1, Some(writer)),
                4 => Step::Add(Expect::Anything, 1, writer),
                _ => Step::Delete(expect),
            };
            let is_lost = !step.changes_nothing() && draws.below(10) == 0;
            let (begun, ended) = (Duration::from_micros(begun), Duration::from_micros(ended));
            let mut note = |is_certain, step| {
                let ended = if is_certain { ended } else { ended + KEPT };
                calls.push(Call { begun, ended, is_certain, step });
            };
            let can_happen = step.can_happen_to(item);
            if is_lost {
                note(false, step);
            } else if can_happen {
                note(true, step);
            } else {
                note(true, Step::Saw(item));
            }
            if can_happen && !(is_lost && draws.below(2) == 0) {
                item = step.apply(item);
            }
            last = item.map_or(last, |item| item.writer);
        }
        calls
    }

    #[test]
    fn regression_a_long_history_of_a_contended_item_was_undecided() {
        for seed in 0..8 {
            let mut calls = history(seed, 1_000);
            assert_eq!(check(&calls), Verdict::Linearizable, "seed {seed}");
            let first = calls.iter().find_map(|call| match call.step {
                Step::Put(..) if call.is_certain => Some(call.step.apply(None)),
                _ => None,
            });
            let read = |call: &&mut Call| matches!(call.step, Step::Saw(Some(_)));
            let last = calls.iter_mut().rev().find(read).expect("a read");
            last.step = Step::Saw(first.expect("a put"));
            assert_eq!(check(&calls), Verdict::Impossible, "seed {seed}, with a revived item");
        }
    }
}
