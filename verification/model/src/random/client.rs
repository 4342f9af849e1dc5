//! A client: what one environment of a function does for one operation after the other.
//!
//! A put draws one shard. All other operations have a part in each shard that may hold the sort key, wave by wave, and
//! the parts of a wave go on in any order. While a shrink drains shards, these come first.

use super::state::{Cell, Command, Operation, Part, Request, Running, SHARDS, Shard, State};
use super::store::Answer;
use super::{Layout, RandomModel, Verb};
use crate::item::{Change, Outcome, Value};
use crate::mutation::Mutation;
use crate::schedule::Phase;

impl RandomModel {
    /// A client begins an operation, under the metadata that it has or under fresh metadata.
    pub(super) fn begin(&self, state: &mut State, at: usize, verb: Verb, refreshes: bool) {
        use crate::item::Operation as Called;
        if refreshes {
            Self::refresh(state, at);
        }
        let operation = match verb {
            Verb::Put => Operation::Put(self.value(at, state.clients[at].begun)),
            Verb::Get => Operation::Get,
            Verb::Query => Operation::Query,
            Verb::Delete => Operation::Delete,
        };
        let calls = (0..).map(Value).zip(&mut state.histories).map(|(value, history)| {
            Some(history.call(match operation {
                Operation::Put(put) if put != value => return None,
                Operation::Put(put) => Called::Change(Change::Put(put)),
                Operation::Delete => Called::Change(Change::Delete),
                Operation::Get | Operation::Query => Called::Get,
            }))
        });
        let calls = calls.collect();
        let client = &mut state.clients[at];
        client.begun += 1;
        client.running = Some(Running {
            operation,
            calls,
            parts: [Part::Unread; SHARDS],
            has_acted: false,
            is_unknown: false,
        });
    }

    /// An operation begins again under fresh metadata.
    pub(super) fn begin_again(state: &mut State, at: usize) {
        Self::refresh(state, at);
        if let Some(running) = &mut state.clients[at].running {
            running.parts = [Part::Unread; SHARDS];
        }
    }

    fn refresh(state: &mut State, at: usize) {
        state.clients[at].revision = state.published;
        state.clients[at].lease_runs = true;
    }

    /// The shards in which a client may go on. With a lease that is over, it only hears answers.
    pub(super) fn steps(&self, state: &State, at: usize) -> Vec<Shard> {
        let client = &state.clients[at];
        let Some(running) = &client.running else { return Vec::new() };
        let layout = self.layout(client.revision);
        let sent = running.sent().filter(|request| !Self::conflicts(state, *request));
        let mut steps = sent.map(|request| request.shard).collect::<Vec<_>>();
        if client.lease_runs {
            let unread = self.due(layout, running).into_iter();
            steps.extend(unread.filter(|shard| running.part(*shard) == Part::Unread));
        }
        steps
    }

    /// The shards of the first wave that is not over.
    fn due(&self, layout: Layout, running: &Running) -> Vec<Shard> {
        let is_open = |shard: &Shard| !matches!(running.part(*shard), Part::Found(_));
        if let Operation::Put(_) = running.operation {
            let sent = running.sent().next().is_some();
            let drained = self.has(Mutation::PutIntoDrained) && layout.shrinks();
            let writable = if drained { layout.from } else { layout.writable() };
            return if sent { Vec::new() } else { (0..writable).map(Shard).collect() };
        }
        let open = |wave: Vec<Shard>| wave.into_iter().filter(is_open).collect::<Vec<_>>();
        let mut waves = self.waves(layout, running.operation).into_iter().map(open);
        waves.find(|wave| !wave.is_empty()).unwrap_or_default()
    }

    /// What is read one after the other.
    /// Invariant I34.
    ///
    /// The pilot of a query is a drained shard.
    fn waves(&self, layout: Layout, operation: Operation) -> Vec<Vec<Shard>> {
        let drained = layout.drained().collect::<Vec<_>>();
        let kept = layout.kept().collect::<Vec<_>>();
        match operation {
            Operation::Query => {
                let rest = drained.iter().copied().skip(1).collect();
                vec![drained.into_iter().take(1).collect(), kept, rest]
            }
            Operation::Get if self.has(Mutation::GetSkipsDrained) => vec![kept],
            Operation::Delete if self.has(Mutation::DeleteSkipsDrained) => vec![kept],
            Operation::Get if self.has(Mutation::GetKeptFirst) => vec![kept, drained],
            Operation::Delete if self.has(Mutation::DeleteKeptFirst) => vec![kept, drained],
            Operation::Get | Operation::Delete | Operation::Put(_) => vec![drained, kept],
        }
    }

    /// A client goes on in one shard: it reads, or sends, or hears the answer to what it has sent.
    pub(super) fn step(&self, state: &mut State, at: usize, shard: Shard) {
        let client = &state.clients[at];
        let Some(mut running) = client.running.clone() else { return };
        let layout = self.layout(client.revision);
        let mut is_fresh = client.lease_runs;
        let send = |command| {
            let (generation, signed_under) = (layout.generation, client.revision);
            Part::Sent(Request { shard, command, generation, signed_under })
        };
        let part = match running.part(shard) {
            Part::Sent(request) => {
                let answer = self.execute(state, request);
                is_fresh &= answer != Answer::Behind;
                if answer == Answer::Done {
                    running.has_acted = true;
                    running.is_unknown |= !is_fresh;
                    Part::Found(Cell::Absent)
                } else {
                    Part::Unread
                }
            }
            Part::Unread => match (running.operation, state.cell(shard)) {
                (Operation::Put(value), _) => send(Command::Put(value)),
                (Operation::Delete, _) if self.has_arrived(layout, &running, shard) => {
                    send(Command::DeleteAny)
                }
                (_, found) if found.generation().is_some_and(|found| found > layout.generation) => {
                    is_fresh = false;
                    Part::Unread
                }
                (Operation::Delete, Cell::Live(_)) => send(Command::DeleteLive),
                (_, found) => Part::Found(found),
            },
            found @ Part::Found(_) => found,
        };
        running.parts[shard.index()] = part;
        state.clients[at].lease_runs = is_fresh;
        self.go_on(state, at, running);
    }

    /// Whether a delete has found the marker of what a move has brought to this shard, or is about to show there.
    fn has_arrived(&self, layout: Layout, running: &Running, shard: Shard) -> bool {
        shard == Shard::FIRST
            && Self::marker(layout, running).is_some()
            && !self.has(Mutation::DeleteSkipsArrival)
    }

    /// The drained shard in which a marker of the running reshard was found, the last if there are several.
    fn marker(layout: Layout, running: &Running) -> Option<Shard> {
        let marker = Cell::Marker(layout.generation);
        layout.drained().filter(|shard| running.found(*shard) == marker).last()
    }

    /// Ends an operation if nothing is left to do, or keeps what it has come to.
    fn go_on(&self, state: &mut State, at: usize, running: Running) {
        let layout = self.layout(state.clients[at].revision);
        let is_under_way = running.sent().next().is_some();
        let is_over = match running.operation {
            Operation::Put(_) => running.has_acted,
            _ => self.due(layout, &running).is_empty() && state.clients[at].lease_runs,
        };
        match running.operation {
            _ if running.is_unknown && !is_under_way => Self::becomes_unknown(state, &running),
            _ if is_under_way || !is_over => {
                state.clients[at].running = Some(running);
                return;
            }
            Operation::Put(_) | Operation::Delete => {
                Self::returns(state, &running, Outcome::Done);
            }
            Operation::Get | Operation::Query if self.looks_up(layout, &running).is_some() => {
                state.clients[at].running = Some(running);
                return;
            }
            Operation::Get | Operation::Query => self.return_found(state, layout, &running),
        }
        state.clients[at].running = None;
    }

    /// The shard of a marker whose item was found nowhere, and which a transaction is to tell of.
    pub(super) fn looks_up(&self, layout: Layout, running: &Running) -> Option<Shard> {
        let reads = matches!(running.operation, Operation::Get | Operation::Query);
        let all = || layout.drained().chain(layout.kept());
        let is_read = reads && all().all(|shard| matches!(running.part(shard), Part::Found(_)));
        let is_found = || all().any(|shard| running.found(shard).live().is_some());
        if !is_read || self.has(Mutation::MarkersAreNotLookedUp) || is_found() {
            return None;
        }
        Self::marker(layout, running)
    }

    /// `TransactGetItems` of the shard of a marker and of that to which it points.
    pub(super) fn look_up(&self, state: &mut State, at: usize) {
        let client = &state.clients[at];
        let layout = self.layout(client.revision);
        let Some(mut running) = client.running.clone() else { return };
        let Some(old) = self.looks_up(layout, &running) else { return };
        let found = [Shard::FIRST, old].map(|shard| (shard, state.cell(shard)));
        let is_ahead =
            |cell: Cell| cell.generation().is_some_and(|found| found > layout.generation);
        if found.iter().any(|(_, cell)| is_ahead(*cell)) {
            state.clients[at].lease_runs = false;
            return;
        }
        for (shard, cell) in found {
            running.parts[shard.index()] = Part::Found(cell);
        }
        self.return_found(state, layout, &running);
        state.clients[at].running = None;
    }

    /// A read returns the copy in the lowest shard. A query drops all others that it has come upon.
    fn return_found(&self, state: &mut State, layout: Layout, running: &Running) {
        let mut found = layout.kept().chain(layout.drained()).filter_map(|shard| {
            let cell = running.found(shard);
            cell.live().map(|copy| copy.value)
        });
        let value = found.next();
        if running.operation == Operation::Query && self.has(Mutation::QueryKeepsCopies) {
            state.returned_twice |= found.next().is_some();
        }
        drop(found);
        Self::returns(state, running, Outcome::Read(value));
    }

    /// A client gives an operation up. A write on its way may execute at any later time. Where none is, the rest was
    /// refused until the deadline.
    pub(super) fn give_up(&self, state: &mut State, at: usize) {
        let Some(running) = state.clients[at].running.take() else { return };
        state.given_up += 1;
        let sent = running.sent().collect::<Vec<_>>();
        let is_in_part = running.has_acted && !self.has(Mutation::DeleteInPartIsRefused);
        if sent.is_empty() && !is_in_part {
            Self::returns(state, &running, Outcome::NotDone);
        } else {
            Self::becomes_unknown(state, &running);
        }
        for request in sent {
            state.abandon(request);
        }
    }

    /// A copy that was found says nothing of the others.
    fn returns(state: &mut State, running: &Running, outcome: Outcome) {
        let calls = (0..).map(Value).zip(&mut state.histories).zip(&running.calls);
        for ((value, history), call) in calls {
            match (*call, outcome) {
                (None, _) => {}
                (Some(call), Outcome::Read(Some(found))) if found != value => {
                    history.tells_nothing(call);
                }
                (Some(call), outcome) => history.returns(call, outcome),
            }
        }
    }

    fn becomes_unknown(state: &mut State, running: &Running) {
        for (history, call) in state.histories.iter_mut().zip(&running.calls) {
            if let Some(call) = *call {
                history.becomes_unknown(call);
            }
        }
    }
}

impl Layout {
    /// Whether shards are drained.
    pub(super) fn shrinks(self) -> bool {
        self.to < self.from
    }

    /// The shards that new items are drawn for. In a growth that are the old ones until no reader lags behind.
    pub(super) fn writable(self) -> u8 {
        if self.phase == Phase::Forward { self.from.min(self.to) } else { self.to }
    }

    /// The shards that a shrink empties.
    pub(super) fn drained(self) -> impl Iterator<Item = Shard> {
        (self.to..self.from).map(Shard)
    }

    /// All others that may hold an item.
    pub(super) fn kept(self) -> impl Iterator<Item = Shard> {
        (0..self.to).map(Shard)
    }
}
