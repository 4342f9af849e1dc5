//! What passes between callers and processes: invocations, their results, and the calls of processes to
//! the Runtime API on their way to the task of their environment.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

/// The environments that run, so that the Runtime API finds the one that a request comes from.
#[derive(Debug, Default)]
pub(super) struct Registry {
    last_id: AtomicU64,
    environments: Mutex<HashMap<u64, mpsc::Sender<Call>>>,
}

impl Registry {
    pub(super) fn new_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn find(&self, id: u64) -> Option<mpsc::Sender<Call>> {
        self.environments.lock().get(&id).cloned()
    }

    pub(super) fn enter(&self, id: u64) -> mpsc::Receiver<Call> {
        let (sender, calls) = mpsc::channel(4);
        self.environments.lock().insert(id, sender);
        calls
    }

    pub(super) fn leave(&self, id: u64) {
        self.environments.lock().remove(&id);
    }
}

/// A request of a process to the Runtime API. Dropping the sender inside answers that the request
/// was out of turn.
#[derive(Debug)]
pub(super) enum Call {
    /// It asks for its next event.
    Next(oneshot::Sender<Event>),
    /// It has finished an invocation.
    Done { request_id: String, answer: Completed, accepted: oneshot::Sender<()> },
    /// It cannot start.
    InitError { payload: Bytes, accepted: oneshot::Sender<()> },
}

/// One event for a function.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    /// Stays the same over the attempts of an asynchronous invocation.
    pub(crate) request_id: String,
    pub(crate) payload: Bytes,
    /// A tracing header of X-Ray.
    pub(crate) trace_header: String,
    /// The JSON that the caller sent along.
    pub(crate) client_context: Option<String>,
    pub(crate) wants_log_tail: bool,
}

/// The result of an invocation that ran.
#[derive(Debug)]
pub(crate) struct Completed {
    /// The function's answer, or the description of its error.
    pub(crate) payload: Bytes,
    /// Whether the function reported an error, exited or timed out.
    pub(crate) failed: bool,
    /// The last 4 KB of what it printed, if the invocation asked for that.
    pub(crate) log_tail: Option<Vec<u8>>,
}

/// An event on its way to a process, which has until the deadline.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) invocation: Invocation,
    pub(super) deadline: SystemTime,
}
