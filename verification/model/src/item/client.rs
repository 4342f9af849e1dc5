//! A client: what one environment of a function does for one operation after the other.
//!
//! Each operation is a machine of steps with one request each, named as the protocol names them. Only the last step of
//! an operation has an effect that a client can see, so every earlier one may be begun anew, and is whenever the lease
//! has ended or metadata turns out to be old.

use super::command::{Answer, Cell, Command, Handover, Leave, Request, Version};
use super::history::CallId;
use super::operation::{Change, Operation, Outcome, Value, Verb};
use super::state::{Client, Running, State, Step};
use super::{ItemModel, Layout};
use crate::mutation::Mutation;
use crate::schedule::Phase;

/// What a client may do in the model's bounds.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it may choose from for each operation.
    pub verbs: Vec<Verb>,
    /// How many operations it begins.
    pub operations: u8,
}

/// Where a client has the metadata from, under which it begins an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// From a lease that it has.
    Lease,
    /// From the directory, and from the metadata if the collection is listed.
    Directory,
    /// From the metadata, since it knows of the reshard otherwise.
    Metadata,
}

/// What a client does once it knows an answer.
enum Next {
    /// Sends the request of a step.
    Send(Step, Command),
    /// Begins the operation anew.
    StartOver,
    /// Reads the metadata, whatever the directory says, and begins anew.
    Refresh,
    /// Reads what its lease has ended on again, and returns if that is unchanged. Otherwise the outcome is unknown.
    Confirm(Outcome),
    /// Returns.
    Return(Outcome),
    /// Returns that the outcome is unknown.
    Unknown,
}

impl ItemModel {
    /// A client begins an operation. If its metadata comes from a lease, that runs.
    pub(super) fn begin(&self, state: &mut State, at: usize, verb: Verb, source: Source) {
        let client = &mut state.clients[at];
        client.begun += 1;
        client.lease.runs &= source == Source::Lease;
        let operation = operation(verb, at, client);
        let is_called = operation != Operation::Peek && !operation.is_part();
        let call = is_called.then(|| state.history.call(operation));
        let first = if source == Source::Metadata { Next::Refresh } else { Next::StartOver };
        self.go_on(state, at, operation, call, first);
    }

    /// The request of a client executes, and the client hears the answer.
    pub(super) fn answer(&self, state: &mut State, at: usize) {
        let Some(running) = state.clients[at].running.take() else { return };
        let answer = self.execute(state, running.request.command);
        let next = self.next(&state.clients[at], running.operation, running.step, answer);
        self.go_on(state, at, running.operation, running.call, next);
    }

    /// DynamoDB rejects the transaction by which a client moves the item, as where an index does not take it. It may have
    /// done so before it looked at the conditions, so the client reads the new home before it takes the item for
    /// unmovable; a delete reads both. The rejection changes nothing, so it may as well come in the moment of that read.
    pub(super) fn rejected(&self, state: &mut State, at: usize) {
        let Some(running) = state.clients[at].running.take() else { return };
        let Step::Move(seen) = running.step else { return };
        let client = &state.clients[at];
        let layout = self.layout(client.lease.revision);
        let [new, old] = [layout.new, layout.old].map(|home| state.cell(home));
        let next = match running.operation {
            _ if new.is_ahead_of(layout.generation) => Next::Refresh,
            Operation::Change(_) if new.is_live() => self.drop_copy(layout, seen),
            Operation::Change(change @ (Change::Delete | Change::Remove { .. })) => {
                delete_at_old_home(layout, change, old)
            }
            Operation::Change(_) => Next::Return(Outcome::NotDone),
            _ if new.is_live() || !client.lease.runs => Next::StartOver,
            _ => found_by(running.operation, Some(seen.value)),
        };
        self.go_on(state, at, running.operation, running.call, next);
    }

    /// A client stops waiting for its request, which may execute at any later time.
    pub(super) fn time_out(&self, state: &mut State, at: usize) {
        let Some(running) = state.clients[at].running.take() else { return };
        state.clients[at].timeouts += 1;
        state.abandon(running.request);
        if !running.step.shows() {
            // Settling is idempotent: it is done again.
            self.go_on(state, at, running.operation, running.call, Next::StartOver);
        } else if self.has(Mutation::RetryUnknown) && state.clients[at].lease.runs {
            state.clients[at].running = Some(running);
        } else {
            state.becomes_unknown(running.call);
        }
    }

    /// Takes a client to its next request or to its return.
    ///
    /// Metadata is read in the moment in which it is used, and the first plain read of an attempt executes at once.
    /// Both lose nothing: to act later on the same answer is another behaviour of the model, in which the attempt
    /// began later. The directory is read in the same moment. Its lease counts from a little earlier, and so ends no
    /// later than here. A refresh always helps, since nobody writes under metadata that does not show yet.
    fn go_on(
        &self,
        state: &mut State,
        at: usize,
        operation: Operation,
        call: Option<CallId>,
        mut next: Next,
    ) {
        let mut begins = false;
        loop {
            next = match next {
                Next::Refresh => {
                    state.clients[at].lease = state.read_metadata();
                    Next::StartOver
                }
                Next::StartOver => {
                    begins = true;
                    if !state.clients[at].lease.runs {
                        state.clients[at].lease = state.read_directory();
                    }
                    self.first(&state.clients[at], operation)
                }
                Next::Send(step, command @ Command::Get(_)) if begins => {
                    begins = false;
                    let answer = self.execute(state, command);
                    self.next(&state.clients[at], operation, step, answer)
                }
                Next::Send(step, command) => {
                    let client = &mut state.clients[at];
                    let request = Request { command, signed_under: client.lease.revision };
                    client.running = Some(Running { operation, call, step, request });
                    return;
                }
                Next::Confirm(outcome) => {
                    let acted_on = state.clients[at].lease.revision;
                    state.clients[at].lease = state.read_directory();
                    if state.clients[at].lease.revision == acted_on {
                        Next::Return(outcome)
                    } else {
                        Next::Unknown
                    }
                }
                Next::Return(outcome) => {
                    let part = operation.is_part().then(|| state.history.call(operation));
                    state.returns(at, call.or(part), outcome);
                    return;
                }
                Next::Unknown => {
                    state.becomes_unknown(call);
                    return;
                }
            };
        }
    }

    /// The first step of an operation under the metadata that the client has.
    fn first(&self, client: &Client, operation: Operation) -> Next {
        let layout = self.layout(client.lease.revision);
        match (layout.phase, operation) {
            (Phase::Stable, Operation::Get | Operation::Peek) => {
                Next::Send(Step::GetAtHome, Command::Get(layout.new))
            }
            (Phase::Stable, Operation::Change(change)) => apply(layout, change),
            (_, Operation::Get | Operation::Peek) => {
                let first =
                    if self.has(Mutation::GetOldHomeFirst) { layout.old } else { layout.new };
                Next::Send(Step::GetNew, Command::Get(first))
            }
            (Phase::Move, Operation::Change(change)) if self.is_for_new_home_alone(change) => {
                apply(layout, change)
            }
            (
                Phase::Move,
                Operation::Change(
                    change @ (Change::Replace(_)
                    | Change::Swap { .. }
                    | Change::Upsert(_)
                    | Change::Unless { .. }),
                ),
            ) if !self.leaves_marker(change) => {
                let (at, generation) = (layout.new, layout.generation);
                Next::Send(Step::TryNew, Command::WriteToLive { at, change, generation })
            }
            (_, Operation::Change(_)) => Next::Send(Step::ReadOld, Command::Get(layout.old)),
        }
    }

    /// What follows from the answer to a step.
    fn next(&self, client: &Client, operation: Operation, step: Step, answer: Answer) -> Next {
        let layout = self.layout(client.lease.revision);
        let expired = !client.lease.runs && !self.has(Mutation::AcknowledgeAfterLease);
        let delete = Operation::Change(Change::Delete);
        if step.shows() {
            return match answer {
                // Another write came between: what is left is the marker, which needs nothing to stay as it was.
                Answer::Changed if step == Step::DeleteAsSeen && operation == delete => {
                    mark(layout)
                }
                Answer::Changed if step == Step::DeleteAsSeen && expired => Next::StartOver,
                Answer::Changed if step == Step::DeleteAsSeen => Next::Return(Outcome::Refused),
                Answer::Changed if step == Step::DeleteAtOldHome => Next::StartOver,
                Answer::Behind | Answer::Changed => Next::Refresh,
                // Where an item is live at the new home, that decides.
                Answer::ConditionFailed { live: false }
                    if step == Step::TryNew
                        && !expired
                        && !self.has(Mutation::ReplaceTrustsNewHome) =>
                {
                    Next::Send(Step::ReadOld, Command::Get(layout.old))
                }
                Answer::ConditionFailed { .. } | Answer::Marker if expired => Next::StartOver,
                Answer::ConditionFailed { .. } => Next::Return(Outcome::Refused),
                Answer::Marker => self.remove_marker(layout),
                _ if expired => Next::Confirm(Outcome::Done),
                _ => Next::Return(Outcome::Done),
            };
        }
        if expired {
            return Next::StartOver;
        }
        match (step, answer) {
            (Step::GetAtHome, Answer::Found(found)) => get_at_home(layout, operation, found),
            (Step::GetNew, Answer::Found(found)) => self.get_new(layout, operation, found),
            (Step::GetOther, Answer::Found(found)) => found_by(operation, found.value()),
            (Step::GetBoth, Answer::FoundBoth { new, old }) => {
                self.get_both(layout, operation, new, old)
            }
            (Step::ReadOld, Answer::Found(found)) => self.settle(layout, operation, found),
            (Step::ReadBoth, Answer::FoundBoth { new, old }) => {
                delete_as_seen(layout, operation, new, old)
            }
            (Step::ReadNew, Answer::Found(new)) => {
                delete_as_seen(layout, operation, new, Cell::Absent)
            }
            (Step::Move(seen), Answer::Applied) if operation == Operation::Get => {
                Next::Return(Outcome::Read(Some(seen.value)))
            }
            (Step::Move(_), Answer::LiveAtNew) if operation == Operation::Get => Next::StartOver,
            (Step::Move(seen), Answer::LiveAtNew) => self.drop_copy(layout, seen),
            (Step::Move(_) | Step::DropCopy | Step::Mark, Answer::Applied) => {
                let Operation::Change(change) = operation else { return Next::StartOver };
                apply(layout, change)
            }
            (Step::Move(_) | Step::Mark, Answer::Behind) => Next::Refresh,
            // Something else has changed the item meanwhile: settle from what is there now.
            _ => Next::StartOver,
        }
    }

    fn get_new(&self, layout: Layout, operation: Operation, found: Cell) -> Next {
        if found.is_ahead_of(layout.generation) {
            return Next::Refresh;
        }
        match found.value() {
            Some(value) => found_by(operation, Some(value)),
            None if self.has(Mutation::GetOldHomeFirst) => {
                Next::Send(Step::GetOther, Command::Get(layout.new))
            }
            None if self.has(Mutation::PlainSecondGet) => {
                Next::Send(Step::GetOther, Command::Get(layout.old))
            }
            None => {
                let both = Command::GetBoth { new: layout.new, old: layout.old };
                Next::Send(Step::GetBoth, both)
            }
        }
    }

    /// Reads settle what they show: what a strong read finds at the old home alone is at the new one before it is returned, so
    /// a write that looks at the new home alone cannot miss what a client has seen.
    fn get_both(&self, layout: Layout, operation: Operation, new: Cell, old: Cell) -> Next {
        if new.is_ahead_of(layout.generation) || old.is_ahead_of(layout.generation) {
            return Next::Refresh;
        }
        let settles = operation == Operation::Get && !self.has(Mutation::GetsDoNotSettle);
        match old {
            Cell::Live(seen) if settles && !new.is_live() => {
                Next::Send(Step::Move(seen), Command::Move(Self::handover(layout, seen)))
            }
            _ => found_by(operation, new.value().or(old.value())),
        }
    }

    /// settle(item), from what the strong read of the old home found. The protocol's third case, in which that gives
    /// way, shows only when the move is refused: see [`Self::drop_copy`].
    fn settle(&self, layout: Layout, operation: Operation, old: Cell) -> Next {
        let Operation::Change(change) = operation else { return Next::StartOver };
        match old {
            _ if old.is_ahead_of(layout.generation) => Next::Refresh,
            Cell::Marker(generation) if generation == layout.generation => apply(layout, change),
            Cell::Live(seen) => self.hand_over(layout, change, seen),
            Cell::Marker(_) | Cell::Absent
                if layout.phase == Phase::Forward || self.leaves_marker(change) =>
            {
                mark(layout)
            }
            Cell::Marker(_) | Cell::Absent if self.keeps_what_it_hides(change) => {
                apply(layout, change)
            }
            Cell::Marker(_) | Cell::Absent if self.has(Mutation::DeleteReadsHomesApart) => {
                Next::Send(Step::ReadNew, Command::Get(layout.new))
            }
            Cell::Marker(_) | Cell::Absent => {
                let both = Command::GetBoth { new: layout.new, old: layout.old };
                Next::Send(Step::ReadBoth, both)
            }
        }
    }

    fn hand_over(&self, layout: Layout, change: Change, seen: Version) -> Next {
        let handover = Self::handover(layout, seen);
        let delete = matches!(change, Change::Delete | Change::Remove { .. });
        if delete && self.has(Mutation::DeleteOldHomeFirst) {
            Next::Send(Step::Move(seen), Command::DropUnchecked(handover))
        } else if delete && self.has(Mutation::DeleteOnlyAtOldHome) {
            Next::Send(Step::Apply, Command::DropUnchecked(handover))
        } else {
            Next::Send(Step::Move(seen), Command::Move(handover))
        }
    }

    /// Takes away the marker of an earlier reshard where the operation is done. What the running one leaves lies at old homes
    /// alone.
    fn remove_marker(&self, layout: Layout) -> Next {
        let (at, generation) = (layout.new, layout.generation);
        let command = match self.mutation {
            Some(Mutation::RemoveMarkerUnchecked) => {
                Command::Write { at, change: Change::Delete, generation }
            }
            Some(Mutation::RemoveMarkerWithoutGuard) => {
                let generation = self.numbering.generation(self.last);
                Command::RemoveMarker { at, generation }
            }
            _ => Command::RemoveMarker { at, generation },
        };
        Next::Send(Step::RemoveMarker, command)
    }

    fn drop_copy(&self, layout: Layout, seen: Version) -> Next {
        Next::Send(Step::DropCopy, self.drop_command(layout, seen))
    }

    /// In `move` a put without precondition is sent to the new home, whatever lies at the old one.
    fn is_for_new_home_alone(&self, change: Change) -> bool {
        match change {
            Change::Put(_) => !self.leaves_marker(change),
            Change::Delete => self.has(Mutation::DeleteOnlyAtNewHome),
            Change::Create(_) => self.has(Mutation::CreateSkipsOldHome),
            Change::Upsert(_) => self.has(Mutation::UpsertTrustsNewHome),
            _ => false,
        }
    }

    /// Whether a marker is to lie at the old home although this is done in `move`. An item that is put may be deleted by
    /// DynamoDB itself, and what it hides would show again. And what a check does not find must not show behind it.
    fn leaves_marker(&self, change: Change) -> bool {
        if change == Change::Check {
            return !self.has(Mutation::CheckWithoutMarker);
        }
        change.writes().is_some_and(Value::may_expire) && !self.has(Mutation::UnpinnedTtl)
    }

    /// Whether what a late request leaves at the old home stays hidden behind this write. A delete uncovers it.
    fn keeps_what_it_hides(&self, change: Change) -> bool {
        let uncovers = matches!(change, Change::Delete | Change::Remove { .. });
        !uncovers || self.has(Mutation::DeleteSkipsMarker)
    }

    /// The transaction by which a client or the mover hands an item over.
    pub(super) fn handover(layout: Layout, seen: Version) -> Handover {
        Handover {
            from: layout.old,
            to: layout.new,
            seen,
            generation: layout.generation,
            leave: Leave::Marker,
        }
    }

    /// The transaction by which what lies at the old home gives way: a put went past it, or it came late.
    pub(super) fn drop_command(&self, layout: Layout, seen: Version) -> Command {
        let handover = Self::handover(layout, seen);
        if self.has(Mutation::DropCopyUnchecked) {
            Command::DropUnchecked(handover)
        } else {
            Command::DropCopy(handover)
        }
    }
}

/// The operation that a client means by a verb. Each value is written once only, so that a read tells which write it
/// saw.
fn operation(verb: Verb, at: usize, client: &Client) -> Operation {
    let place = u8::try_from(at).expect("there are few clients");
    let value = Value(u16::from((place + 1) * 10 + client.begun));
    let version =
        || client.last_read.expect("it is offered only after a read that found something");
    Operation::Change(match verb {
        Verb::Get => return Operation::Get,
        Verb::Peek => return Operation::Peek,
        Verb::Put => Change::Put(value),
        Verb::Delete => Change::Delete,
        Verb::Create => Change::Create(value),
        Verb::Replace => Change::Replace(value),
        Verb::Upsert => Change::Upsert(Value::of_upsert(place, client.begun)),
        // The first client's first put is what is not wanted.
        Verb::Unless => Change::Unless { unwanted: Value(11), new: value },
        Verb::Check => Change::Check,
        Verb::Swap => Change::Swap { expected: version(), new: value },
        Verb::PutExpiring => Change::Put(value.expiring()),
        Verb::SwapExpiring => Change::Swap { expected: version(), new: value.expiring() },
        Verb::Remove => Change::Remove { expected: version() },
    })
}

/// The operation itself, with the guard: at home, or at the new home of an item that is settled.
fn apply(layout: Layout, change: Change) -> Next {
    let write = Command::Write { at: layout.new, change, generation: layout.generation };
    Next::Send(Step::Apply, write)
}

fn mark(layout: Layout) -> Next {
    Next::Send(Step::Mark, Command::Mark { at: layout.old, generation: layout.generation })
}

/// What follows for a delete that has seen both homes: the item goes if it still is what was seen. So whatever comes to
/// lie at the old home meanwhile shows to nobody before.
fn delete_as_seen(layout: Layout, operation: Operation, new: Cell, old: Cell) -> Next {
    if new.is_ahead_of(layout.generation) || old.is_ahead_of(layout.generation) {
        return Next::Refresh;
    }
    if old.is_live() || old == Cell::Marker(layout.generation) {
        return Next::StartOver;
    }
    if let Operation::Change(change) = operation
        && change.apply(new.value()).is_err()
    {
        return Next::Return(Outcome::Refused);
    }
    match new {
        Cell::Live(seen) => {
            let delete =
                Command::DeleteAsSeen { at: layout.new, seen, generation: layout.generation };
            Next::Send(Step::DeleteAsSeen, delete)
        }
        Cell::Marker(_) | Cell::Absent => Next::Return(Outcome::Done),
    }
}

/// What follows for a delete of an item that cannot be moved. A put that goes past the old home from now on comes after
/// the delete, since nobody has seen the item absent before that put.
fn delete_at_old_home(layout: Layout, change: Change, old: Cell) -> Next {
    match old {
        _ if old.is_ahead_of(layout.generation) => Next::Refresh,
        Cell::Live(seen) if change.apply(Some(seen.value)).is_ok() => {
            let (at, generation) = (layout.old, layout.generation);
            Next::Send(Step::DeleteAtOldHome, Command::MarkAsSeen { at, seen, generation })
        }
        Cell::Live(_) => Next::Return(Outcome::Refused),
        Cell::Marker(_) | Cell::Absent => Next::StartOver,
    }
}

fn get_at_home(layout: Layout, operation: Operation, found: Cell) -> Next {
    if found.is_ahead_of(layout.generation) {
        return Next::Refresh;
    }
    found_by(operation, found.value())
}

fn found_by(operation: Operation, found: Option<Value>) -> Next {
    let peeks = operation == Operation::Peek;
    Next::Return(if peeks { Outcome::Glimpsed(found) } else { Outcome::Read(found) })
}
