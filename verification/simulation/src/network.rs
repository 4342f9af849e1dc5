//! Requests as messages: signed and sent at one moment, executed at another or never, answered at a
//! third or never. Whoever sent one may be dead by then.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dynashard_core::ports::{Clock, Consistency, Dated, StoreError};
use dynashard_core::{Lease, Throttle};
use dynashard_keys::PartitionKey;

use crate::clock::LocalClock;
use crate::environment::{EnvironmentId, START_SECS};
use crate::kernel::{Kernel, Slot};
use crate::scenario::{Mutation, Rates, Scenario};
use crate::tables::Tables;

/// What the server says when it refuses a request for something that an operator has to put right: credentials that have
/// expired, a policy that was changed, a clock that is wrong.
pub(crate) const TO_BE_PUT_RIGHT: &str = "to be put right by an operator";

/// The server, and the way to it. Clones are the same server.
#[derive(Clone)]
pub(crate) struct Network {
    kernel: Kernel,
    tables: Arc<Mutex<Tables>>,
    hints: Arc<Mutex<Hints>>,
    terms: Terms,
}

/// How many times as far as the table's own eventually consistent reads a read replica lags behind, at most.
pub(crate) const READ_REPLICAS_LAG: u32 = 2;

/// What holds of requests and transactions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) executed_within: Duration,
    pub(crate) visible_within: Duration,
    replicas_lag_by: Duration,
    dated_ahead_by: Duration,
    pub(crate) broken: Option<Mutation>,
}

/// What the stream has said, and whoever waits for it.
#[derive(Default)]
struct Hints {
    due: Vec<(PartitionKey, u32)>,
    waiting: Option<Slot<()>>,
}

impl Network {
    pub(crate) fn new(kernel: Kernel, scenario: &Scenario) -> Self {
        let terms = Terms {
            executed_within: scenario.executed_within,
            visible_within: scenario.visible_within,
            replicas_lag_by: scenario.replicas_lag_by,
            dated_ahead_by: scenario.dated_ahead_by,
            broken: scenario.broken,
        };
        Self { kernel, tables: Arc::default(), hints: Arc::default(), terms }
    }

    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tables as a process in this environment reaches them.
    pub(crate) fn endpoint(&self, environment: EnvironmentId) -> Endpoint {
        Endpoint { network: self.clone(), environment }
    }

    /// The next collections that the stream names, each with the lane by which it does.
    pub(crate) async fn hints(&self) -> Vec<(PartitionKey, u32)> {
        loop {
            let slot = {
                let mut hints = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
                if !hints.due.is_empty() {
                    return std::mem::take(&mut hints.due);
                }
                let slot = Slot::new();
                hints.waiting = Some(slot.clone());
                slot
            };
            slot.await;
        }
    }

    /// A record of the stream comes after a while, never, or twice.
    fn pass_on_changes(&self, tables: &mut Tables) {
        for change in std::mem::take(&mut tables.changed) {
            let delays = self.kernel.draw_fault(|random, rates| {
                let delay = || random.any_scale(Duration::from_secs(4));
                match random.below(1_000_000) {
                    drawn if drawn < rates.hint_lost => Vec::new(),
                    drawn if drawn > 900_000 => vec![delay(), delay()],
                    _ => vec![delay()],
                }
            });
            for delay in delays {
                let (hints, change) = (Arc::clone(&self.hints), change.clone());
                self.kernel.at(self.kernel.now() + delay, move || {
                    let mut hints = hints.lock().unwrap_or_else(PoisonError::into_inner);
                    hints.due.push(change);
                    let waiting = hints.waiting.take();
                    drop(hints);
                    if let Some(waiting) = waiting {
                        waiting.fill(());
                    }
                });
            }
        }
    }
}

/// The way to the tables from one environment.
#[derive(Clone)]
pub(crate) struct Endpoint {
    network: Network,
    environment: EnvironmentId,
}

/// What is drawn for a request before it is sent.
struct Fate {
    /// When it arrives, if ever.
    arrives: Option<Duration>,
    /// How long its answer takes, if it ever comes.
    answered_after: Option<Duration>,
    /// When the client gives up on the connection, if it does.
    given_up: Option<Duration>,
}

impl Fate {
    fn draw(kernel: &Kernel, now: Duration, executed_within: Duration) -> Self {
        kernel.draw_fault(|random, rates: &Rates| {
            let travel = || random.any_scale(rates.travel) + Duration::from_micros(100);
            let given_up = || {
                // Or the client hears nothing at all, and its own deadline ends it.
                random.chance(700_000).then(|| now + random.any_scale(Duration::from_secs(2)))
            };
            if random.chance(rates.lost) {
                return Self { arrives: None, answered_after: None, given_up: given_up() };
            }
            let late = random.chance(rates.late);
            let way = if late { random.any_scale(executed_within) } else { travel() };
            let lost = random.chance(rates.answer_lost);
            Self {
                arrives: Some(now + way),
                answered_after: (!lost).then(travel),
                given_up: if lost || late { given_up() } else { None },
            }
        })
    }
}

/// What the client hears: the answer, and the `Date` of it.
type Answer<T> = (Result<T, StoreError>, Option<u64>);

/// Executes a request. `None` for one that takes another moment: a page is not read at once.
pub(crate) trait Execute<T>:
    FnMut(&mut Tables, &Kernel, Duration) -> Option<Result<T, StoreError>> + Send
{
}

impl<T, F> Execute<T> for F where
    F: FnMut(&mut Tables, &Kernel, Duration) -> Option<Result<T, StoreError>> + Send
{
}

/// A request on its way.
struct Message<T> {
    network: Network,
    name: String,
    /// DynamoDB refuses it as too old from then on.
    expires: Duration,
    is_conditional: bool,
    answered_after: Option<Duration>,
    answer: Slot<Answer<T>>,
    execute: Box<dyn Execute<T>>,
}

impl<T: Send + 'static> Message<T> {
    fn send(mut self, arrives: Duration) {
        let kernel = self.network.kernel.clone();
        kernel.at(arrives, move || {
            let (kernel, network) = (self.network.kernel.clone(), self.network.clone());
            let mut tables = network.tables();
            let now = kernel.now();
            let answered_at = self.answered_after.map(|after| now + after);
            let shows_when_answered = network.terms.broken != Some(Mutation::SlowVisibility);
            tables.answered_at = answered_at.filter(|_| shows_when_answered);
            let refusal = self.refusal(now).map(Err);
            let result = refusal.or_else(|| (self.execute)(&mut tables, &kernel, now));
            let Some(result) = result else {
                let pause = kernel.draw_fault(|random, rates| random.any_scale(rates.travel));
                drop(tables);
                return self.send(now + pause);
            };
            let outcome = match &result {
                Ok(_) => "done".to_owned(),
                Err(error) => format!("{error:?}"),
            };
            kernel.trace(|| format!("  {}: {outcome}", self.name));
            network.pass_on_changes(&mut tables);
            drop(tables);
            if let Some(after) = self.answered_after {
                let date = START_SECS + now.as_secs();
                kernel.at(now + after, move || self.answer.fill((result, Some(date))));
            }
        });
    }

    /// Why the server refuses to look at it, if it does.
    fn refusal(&self, now: Duration) -> Option<StoreError> {
        if now > self.expires {
            return Some(StoreError::Unavailable("Signature expired".to_owned()));
        }
        self.network.kernel.draw_fault(|random, rates| {
            if random.chance(rates.set_up_wrongly) {
                return Some(if random.chance(500_000) {
                    StoreError::Misconfigured(TO_BE_PUT_RIGHT.to_owned())
                } else {
                    StoreError::Rejected(TO_BE_PUT_RIGHT.to_owned())
                });
            }
            if random.chance(rates.throttled) {
                let reason = "TableWriteKeyRangeThroughputExceeded";
                return Some(StoreError::Throttled(Throttle::from_reason(reason, None)));
            }
            let conflicts = self.is_conditional && random.chance(rates.conflict);
            conflicts.then_some(StoreError::Conflict)
        })
    }
}

/// What sort of request it is.
pub(crate) enum Kind {
    Read,
    /// It conflicts with transactions.
    TransactRead,
    Write(Option<Lease>),
}

impl Endpoint {
    fn kernel(&self) -> &Kernel {
        &self.network.kernel
    }

    pub(crate) fn terms(&self) -> Terms {
        self.network.terms
    }

    /// Sends a request, and waits for its answer.
    pub(crate) async fn call<T: Send + Clone + 'static>(
        &self,
        name: impl FnOnce() -> String,
        kind: Kind,
        execute: impl Execute<T> + 'static,
    ) -> Result<Dated<T>, StoreError> {
        let kernel = self.kernel();
        let clock = LocalClock::new(kernel.clone(), self.environment);
        // Serialising and signing take their time.
        clock.sleep(Duration::from_micros(50)).await;
        let terms = self.network.terms;
        if let Kind::Write(Some(lease)) = &kind
            && terms.broken != Some(Mutation::UncheckedLeases)
            && !lease.is_live(clock.now())
        {
            return Err(StoreError::LeaseExpired);
        }
        // H is what DynamoDB accepts after the date, and what a date that passes the check may be ahead.
        let most_ahead = terms.executed_within / 16;
        let ahead = kernel.draw_fault(|random, rates| {
            let is_ahead = random.chance(rates.dated_ahead);
            if is_ahead { random.any_scale(terms.dated_ahead_by) } else { Duration::ZERO }
        });
        if matches!(kind, Kind::Write(Some(_)))
            && terms.broken != Some(Mutation::UncheckedDates)
            && ahead > most_ahead
        {
            return Err(StoreError::Misconfigured(TO_BE_PUT_RIGHT.to_owned()));
        }
        let date = match &kind {
            Kind::Write(Some(lease)) => lease.date_secs(clock.now()),
            _ => Ok(None),
        };
        // Nothing is dated back without a time of DynamoDB's.
        let Ok(date) = date else { return Err(StoreError::LeaseExpired) };
        let lives = terms.executed_within.saturating_sub(most_ahead);
        let expires = date.map_or(kernel.now() + ahead + lives, |secs| {
            (Duration::from_secs(secs) + lives).saturating_sub(Duration::from_secs(START_SECS))
        });
        let fate = Fate::draw(kernel, kernel.now(), expires.saturating_sub(kernel.now()));
        let answer = Slot::new();
        let is_write = matches!(kind, Kind::Write(_));
        if let Some(given_up) = fate.given_up {
            let answer = answer.clone();
            let why = "the connection was lost".to_owned();
            let error = if is_write {
                StoreError::OutcomeUnknown(why)
            } else {
                StoreError::Unavailable(why)
            };
            kernel.at(given_up, move || answer.fill((Err(error), None)));
        }
        let is_conditional = !matches!(kind, Kind::Read);
        let execute = Box::new(execute);
        let name = format!("{} of environment {}", name(), self.environment.0);
        let network = self.network.clone();
        let (answered_after, answering) = (fate.answered_after, answer.clone());
        let message = Message {
            network,
            name,
            expires,
            is_conditional,
            answered_after,
            answer: answering,
            execute,
        };
        match fate.arrives {
            Some(arrives) => message.send(arrives),
            None => kernel.trace(|| format!("  {}: lost", message.name)),
        }
        // The slot is kept, so that one that is never filled is waited for.
        let answered = answer.clone().await;
        let (result, date) = answered.unwrap_or_else(|| {
            (Err(StoreError::Unavailable("the connection was closed".to_owned())), None)
        });
        if let Some(date) = date {
            kernel.environment(self.environment, |environment, _| environment.saw_date(date));
        }
        result.map(|value| Dated { value, server_secs: date })
    }

    /// How far the answer to a read lags behind.
    pub(crate) fn lag(&self, consistency: Consistency) -> Duration {
        if consistency == Consistency::Strong {
            return Duration::ZERO;
        }
        self.draw_lag(self.network.terms.replicas_lag_by)
    }

    /// How far a read replica of the table lags behind: further than the table's own eventually consistent reads.
    pub(crate) fn lag_of_read_replica(&self) -> Duration {
        self.draw_lag(READ_REPLICAS_LAG * self.network.terms.replicas_lag_by)
    }

    fn draw_lag(&self, most: Duration) -> Duration {
        self.kernel().draw_fault(|random, rates| {
            let is_stale = random.chance(rates.stale);
            if is_stale { random.duration(Duration::ZERO, most) } else { Duration::ZERO }
        })
    }

    /// When the halves of a transaction become visible, of which one does at once.
    pub(crate) fn visibility(kernel: &Kernel, now: Duration, within: Duration) -> [Duration; 2] {
        kernel.draw_fault(|random, rates| {
            let is_long = random.chance(rates.long_half_visible);
            let most = if is_long { within } else { Duration::from_millis(20).min(within) };
            let mut halves = [now + random.any_scale(most), now];
            if random.chance(500_000) {
                halves.swap(0, 1);
            }
            halves
        })
    }
}
