//! The calls of processes to the Runtime API, on their way to the task of their environment.

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
    Done { request_id: String, answer: Answer, accepted: oneshot::Sender<()> },
    /// It cannot start.
    InitError { payload: Bytes, accepted: oneshot::Sender<()> },
}

/// The outcome of an invocation.
#[derive(Debug)]
pub(super) struct Answer {
    /// The result, or the description of the error.
    pub(super) payload: Bytes,
    pub(super) failed: bool,
}

/// An event on its way to a process.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) request_id: String,
    pub(super) payload: Bytes,
    pub(super) deadline: SystemTime,
    pub(super) trace_header: Option<String>,
    pub(super) client_context: Option<String>,
}
