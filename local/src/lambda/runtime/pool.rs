//! The environments of one function: which of them gets an invocation, and when another one is
//! started.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::calls::{Completed, Invocation, Registry};
use super::process::Launch;
use crate::clock::{SharedClock, since_epoch};
use crate::ids;
use crate::plan::Function;

/// The largest event or answer of an invocation that is waited for: 6 MB.
pub(crate) const MAX_PAYLOAD: usize = 6 << 20;

/// The environments of one function.
///
/// An invocation goes to the free environment that was used last, so that as few as possible are
/// kept busy. Where none is free it waits, and another environment is started for it up to the
/// limit; it goes to whichever is free first.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The function that the environments run.
    pub(crate) function: Function,
    max_environments: usize,
    pub(super) clock: SharedClock,
    pub(super) launcher: Arc<dyn Launch>,
    pub(super) registry: Arc<Registry>,
    run: Run,
    /// Turns `true` when the environments are to end.
    pub(super) stop: watch::Sender<bool>,
    inner: Mutex<Inner>,
}

/// Tells an environment's pool that it is ready, or why it never will be.
pub(super) type Ready = oneshot::Sender<Result<(), String>>;

/// Follows a new environment from its start to its end.
pub(super) type Run = fn(Arc<Pool>, u64, Option<Ready>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// An execution environment, as `GET /_dynashard/environments` lists it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EnvironmentInfo {
    /// The function's logical id.
    pub(crate) function: String,
    /// Tells the environments of one stack apart.
    pub(crate) id: u64,
    /// The process; absent before it is started.
    pub(crate) pid: Option<u32>,
    pub(crate) state: State,
}

/// What an environment does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// Its process has not asked for an event yet.
    Starting,
    /// Its process waits for an event.
    Idle,
    /// Its process runs an invocation.
    Busy,
    /// Its process has answered, and has not asked for the next event yet.
    Returning,
}

/// Why an invocation has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvokeError {
    /// All environments stayed busy for as long as an invocation waits. It was not started.
    #[error("all environments are busy")]
    Throttled,
    /// The stack is shutting down. It may have been started.
    #[error("the stack is shutting down")]
    Stopped,
}

impl Pool {
    pub(super) fn new(
        function: Function,
        max_environments: usize,
        clock: SharedClock,
        launcher: Arc<dyn Launch>,
        registry: Arc<Registry>,
        run: Run,
    ) -> Arc<Self> {
        Arc::new(Self {
            function,
            max_environments: max_environments.max(1),
            clock,
            launcher,
            registry,
            run,
            stop: watch::Sender::new(false),
            inner: Mutex::default(),
        })
    }

    /// Runs one invocation. Once an environment has it, it runs to its end even if the caller stops
    /// waiting.
    pub(crate) async fn invoke(
        self: &Arc<Self>,
        invocation: Invocation,
    ) -> Result<Completed, InvokeError> {
        let request_id = invocation.request_id.clone();
        let (reply, completed) = oneshot::channel();
        let placed = self.place(Queued { invocation, reply });
        let completed = async { completed.await.map_err(|_| InvokeError::Stopped) };
        if placed {
            return completed.await;
        }
        tokio::pin!(completed);
        tokio::select! {
            completed = &mut completed => return completed,
            () = self.clock.sleep(RETURN_GRACE) => self.dispatch(&mut self.inner.lock(), Patience::None),
        }
        tokio::select! {
            completed = &mut completed => return completed,
            () = self.clock.sleep(self.max_wait()) => {}
        }
        if self.withdraw(&request_id) {
            return Err(InvokeError::Throttled);
        }
        completed.await
    }

    /// How long an invocation waits for a free environment: not at all where the template reserves their number, all of them are busy,
    /// and none is being started.
    fn max_wait(&self) -> Duration {
        let is_full = || {
            let inner = self.inner.lock();
            inner.soon_free(Patience::None) < inner.waiting.len()
        };
        let is_refused = self.function.reserved_concurrency.is_some() && is_full();
        if is_refused { Duration::ZERO } else { MAX_WAIT }
    }

    /// An invocation of its own, with this payload.
    pub(crate) fn invocation(&self, payload: impl Into<Bytes>) -> Invocation {
        Invocation {
            request_id: ids::uuid(),
            payload: payload.into(),
            trace_header: self.trace_header(),
            client_context: None,
            wants_log_tail: false,
        }
    }

    /// The tracing header of an invocation that brings none.
    pub(crate) fn trace_header(&self) -> String {
        ids::trace_header(since_epoch(self.clock.now()).as_secs(), self.function.is_traced)
    }

    /// Starts an environment ahead of the first invocation. The answer says when it is ready, or
    /// why it is not.
    pub(super) fn warm(self: &Arc<Self>) -> oneshot::Receiver<Result<(), String>> {
        let (ready, outcome) = oneshot::channel();
        self.start_environment(&mut self.inner.lock(), Some(ready));
        outcome
    }

    /// Tells every environment to end, and refuses the invocations that wait.
    pub(super) fn stop(&self) {
        // Under the lock, so that no environment starts after it.
        let mut inner = self.inner.lock();
        self.stop.send_replace(true);
        inner.waiting.clear();
        inner.idle.clear();
    }

    /// Ends when every environment has ended.
    pub(super) async fn stopped(&self) {
        let mut tasks = std::mem::take(&mut self.inner.lock().tasks);
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                let function = &self.function.name;
                tracing::error!(function, %error, "an environment's task failed");
            }
        }
    }

    pub(super) fn environments(&self) -> Vec<EnvironmentInfo> {
        self.inner.lock().environments.values().cloned().collect()
    }

    /// Notes what is new about an environment.
    pub(super) fn note(&self, id: u64, note: impl FnOnce(&mut EnvironmentInfo)) {
        if let Some(known) = self.inner.lock().environments.get_mut(&id) {
            note(known);
        }
    }

    /// Takes an environment that is free. It is given the invocation that has waited longest, or
    /// else the next one.
    pub(super) fn offer(&self, id: u64) -> oneshot::Receiver<Queued> {
        let (work, offer) = oneshot::channel();
        let mut inner = self.inner.lock();
        // The receiver is at hand, so a waiting invocation is taken for certain. The dropped end of
        // a stopped pool says that there will be none.
        match inner.next_waiting() {
            _ if *self.stop.borrow() => {}
            Some(queued) => {
                inner.set_state(id, State::Busy);
                drop(work.send(queued));
            }
            None => {
                inner.set_state(id, State::Idle);
                inner.idle.push((id, work));
            }
        }
        offer
    }

    /// Takes back an invocation whose environment ended before it saw it: it goes first.
    pub(super) fn give_back(self: &Arc<Self>, queued: Queued) {
        let mut inner = self.inner.lock();
        if !*self.stop.borrow() {
            inner.waiting.push_front(queued);
            self.dispatch(&mut inner, Patience::ForReturning);
        }
    }

    /// Ends the invocation that has waited longest with the error of an environment that failed to
    /// start.
    ///
    /// Without this, a function that cannot start would be started again and again for the same
    /// invocation.
    pub(super) fn fail_oldest(&self, payload: Bytes) {
        if let Some(queued) = self.inner.lock().next_waiting() {
            queued.complete(Completed { payload, failed: true, log_tail: None });
        }
    }

    pub(super) fn ended(self: &Arc<Self>, id: u64) {
        let mut inner = self.inner.lock();
        inner.environments.remove(&id);
        inner.idle.retain(|(idle, _)| *idle != id);
        self.dispatch(&mut inner, Patience::ForReturning);
    }

    /// Gives an invocation to a free environment, or queues it; says whether it was given.
    fn place(self: &Arc<Self>, queued: Queued) -> bool {
        let mut inner = self.inner.lock();
        if *self.stop.borrow() {
            // Dropping it says so to the caller.
            return true;
        }
        inner.waiting.push_back(queued);
        self.dispatch(&mut inner, Patience::ForReturning);
        inner.waiting.is_empty()
    }

    /// Gives waiting invocations to free environments, and starts environments for those that
    /// remain.
    fn dispatch(self: &Arc<Self>, inner: &mut Inner, patience: Patience) {
        while let Some(queued) = inner.next_waiting() {
            let Some((id, work)) = inner.idle.pop() else {
                inner.waiting.push_front(queued);
                break;
            };
            match work.send(queued) {
                Ok(()) => inner.set_state(id, State::Busy),
                // The environment has just ended.
                Err(queued) => inner.waiting.push_front(queued),
            }
        }
        while inner.soon_free(patience) < inner.waiting.len()
            && inner.environments.len() < self.max_environments
            && !*self.stop.borrow()
        {
            self.start_environment(inner, None);
        }
    }

    fn start_environment(self: &Arc<Self>, inner: &mut Inner, ready: Option<Ready>) {
        let id = self.registry.new_id();
        let (function, state) = (self.function.name.clone(), State::Starting);
        inner.environments.insert(id, EnvironmentInfo { function, id, pid: None, state });
        while inner.tasks.try_join_next().is_some() {}
        inner.tasks.spawn((self.run)(Arc::clone(self), id, ready));
    }

    /// Takes an invocation out of the queue; says whether it was still there.
    fn withdraw(&self, request_id: &str) -> bool {
        let mut inner = self.inner.lock();
        let waiting = inner.waiting.len();
        inner.waiting.retain(|queued| queued.invocation.request_id != request_id);
        inner.waiting.len() < waiting
    }
}

/// An invocation with the caller who waits for it.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) invocation: Invocation,
    reply: oneshot::Sender<Completed>,
}

impl Queued {
    pub(super) fn complete(self, completed: Completed) {
        // The caller may have stopped waiting.
        let _ = self.reply.send(completed);
    }
}

/// Whether environments that will be free in a moment count as free.
///
/// A caller who sends one request after the other is mostly faster than the environment's own call
/// for its next event. Without patience, each of them would find no environment free and start
/// another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    ForReturning,
    None,
}

/// How long an invocation waits for an environment that has answered, before another one is
/// started.
const RETURN_GRACE: Duration = Duration::from_millis(20);

/// How long an invocation waits for a free environment. Lambda refuses at once, but starts up to a thousand where none are
/// reserved.
const MAX_WAIT: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Inner {
    environments: BTreeMap<u64, EnvironmentInfo>,
    /// The free environments, and how each is given work; the last one was used last.
    idle: Vec<(u64, oneshot::Sender<Queued>)>,
    waiting: VecDeque<Queued>,
    /// The tasks of the environments.
    tasks: JoinSet<()>,
}

impl Inner {
    /// The invocation that has waited longest. Those whose callers have given up are dropped: Lambda
    /// queues none at all, and these would run long after.
    fn next_waiting(&mut self) -> Option<Queued> {
        while let Some(queued) = self.waiting.pop_front() {
            if !queued.reply.is_closed() {
                return Some(queued);
            }
        }
        None
    }

    fn set_state(&mut self, id: u64, state: State) {
        if let Some(known) = self.environments.get_mut(&id) {
            known.state = state;
        }
    }

    /// How many environments will be free without another one being started.
    fn soon_free(&self, patience: Patience) -> usize {
        let states = self.environments.values().map(|known| known.state);
        states
            .filter(|state| match state {
                State::Starting => true,
                State::Returning => patience == Patience::ForReturning,
                State::Idle | State::Busy => false,
            })
            .count()
    }
}
