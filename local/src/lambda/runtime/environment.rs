//! One execution environment: a task that follows its process through `starting`, `idle` and `busy`
//! to its end.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::{mpsc, oneshot, watch};

use super::calls::{Call, Completed, Event};
use super::log::Log;
use super::pool::{Pool, Queued, Ready, State};
use super::process::{Exit, Process};
use crate::clock::epoch_millis;

/// Follows a new environment from its start to its end.
pub(super) fn run(
    pool: Arc<Pool>,
    id: u64,
    ready: Option<Ready>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(follow(pool, id, ready))
}

async fn follow(pool: Arc<Pool>, id: u64, ready: Option<Ready>) {
    let log = Arc::new(Log::new(&pool.function));
    let calls = pool.registry.enter(id);
    match pool.launcher.launch(&pool.function, id, Arc::clone(&log)) {
        Ok(process) => {
            pool.note(id, |known| known.pid = Some(process.pid()));
            let stop = pool.stop.subscribe();
            let mut environment =
                Environment { pool: Arc::clone(&pool), id, process, calls, stop, log };
            environment.live(ready).await;
            environment.end().await;
        }
        Err(error) => {
            let message = format!("its process cannot be started: {error}");
            let payload = error_payload("Runtime.InvalidEntrypoint", &message);
            failed_to_start(&pool, ready, payload);
        }
    }
    pool.registry.leave(id);
    pool.ended(id);
}

/// How long a process may take to ask for its first event, as on Lambda.
const INIT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a process may take to end after it was asked to.
const TERMINATION_GRACE: Duration = Duration::from_millis(500);

/// How long after an answer the lines that the process printed before it may still be on their way.
const LOG_SETTLE: Duration = Duration::from_millis(20);

struct Environment {
    pool: Arc<Pool>,
    id: u64,
    process: Box<dyn Process>,
    calls: mpsc::Receiver<Call>,
    stop: watch::Receiver<bool>,
    log: Arc<Log>,
}

/// What an environment listens for at any time.
enum Wake {
    Call(Call),
    Exited(Exit),
    Stopped,
}

/// How an invocation ended.
enum End {
    Answered(Completed),
    Exited(Exit),
    TimedOut,
    Stopped,
}

impl Environment {
    /// Returns when the process has exited or is to be ended.
    async fn live(&mut self, ready: Option<Ready>) {
        let mut next = match self.initialise().await {
            Ok(Some(next)) => next,
            Ok(None) => return,
            Err(payload) => return failed_to_start(&self.pool, ready, payload),
        };
        if let Some(ready) = ready {
            // The receiver may be gone.
            let _ = ready.send(Ok(()));
        }
        while let Some((queued, started)) = self.take_work(next).await {
            match self.carry_out(queued, started).await {
                Some(again) => next = again,
                None => return,
            }
        }
    }

    /// Waits for the first call for an event. `None` means a stop; an error is the payload that
    /// describes it.
    async fn initialise(&mut self) -> Result<Option<oneshot::Sender<Event>>, Bytes> {
        let mut timeout = self.pool.clock.sleep(INIT_TIMEOUT);
        loop {
            tokio::select! {
                wake = self.wake() => match wake {
                    Wake::Call(Call::Next(next)) => return Ok(Some(next)),
                    Wake::Call(Call::InitError { payload, accepted }) => {
                        let _ = accepted.send(());
                        return Err(payload);
                    }
                    Wake::Call(out_of_turn) => drop(out_of_turn),
                    Wake::Exited(exit) => {
                        return Err(error_payload("Runtime.ExitError", &exit.describe()));
                    }
                    Wake::Stopped => return Ok(None),
                },
                () = &mut timeout => {
                    let message = format!("Init timed out after {}", seconds(INIT_TIMEOUT));
                    return Err(error_payload("Sandbox.Timedout", &message));
                }
            }
        }
    }

    /// Waits for an invocation and hands its event to the process. Gives it with the time of the
    /// handing over; nothing if the process is gone or is to be ended.
    async fn take_work(
        &mut self,
        mut next: oneshot::Sender<Event>,
    ) -> Option<(Queued, SystemTime)> {
        let mut offer = self.pool.offer(self.id);
        let queued = loop {
            tokio::select! {
                given = &mut offer => break given.ok()?,
                wake = self.wake() => match wake {
                    // The process has broken off its call and made another one.
                    Wake::Call(Call::Next(again)) => next = again,
                    Wake::Call(out_of_turn) => drop(out_of_turn),
                    Wake::Exited(_) | Wake::Stopped => {
                        // It may have been given an invocation in this very moment.
                        offer.close();
                        if let Ok(queued) = offer.try_recv() {
                            self.pool.give_back(queued);
                        }
                        return None;
                    }
                },
            }
        };
        let started = self.pool.clock.now();
        self.log.clear_tail();
        let id = &queued.invocation.request_id;
        self.log.note(&format!("START RequestId: {id} Version: $LATEST"));
        let deadline = started + self.pool.function.timeout;
        let mut event = Event { invocation: queued.invocation.clone(), deadline };
        // A process that is gone, or that has broken off its call, has not seen the event.
        while let Err(unseen) = next.send(event) {
            event = unseen;
            let Some(again) = self.asked().await else {
                self.pool.give_back(queued);
                return None;
            };
            next = again;
        }
        Some((queued, started))
    }

    /// Waits for the answer and passes it on. Gives the process's next call for an event; nothing
    /// if it makes none.
    async fn carry_out(
        &mut self,
        queued: Queued,
        started: SystemTime,
    ) -> Option<oneshot::Sender<Event>> {
        let mut deadline = self.pool.clock.sleep(self.pool.function.timeout);
        let end = loop {
            tokio::select! {
                wake = self.wake() => match wake {
                    Wake::Call(Call::Done { request_id, answer, accepted })
                        if request_id == queued.invocation.request_id =>
                    {
                        let _ = accepted.send(());
                        break End::Answered(answer);
                    }
                    Wake::Call(out_of_turn) => drop(out_of_turn),
                    Wake::Exited(exit) => break End::Exited(exit),
                    Wake::Stopped => break End::Stopped,
                },
                () = &mut deadline => break End::TimedOut,
            }
        };
        let answered = matches!(end, End::Answered(_));
        self.report(queued, end, started).await;
        if !answered {
            return None;
        }
        // A process that does not come back by the deadline is taken for stuck, as on Lambda.
        tokio::select! {
            next = self.asked() => next,
            () = &mut deadline => None,
        }
    }

    /// Tells the caller how the invocation ended.
    async fn report(&self, queued: Queued, end: End, started: SystemTime) {
        let now = self.pool.clock.now();
        let id = &queued.invocation.request_id;
        let (payload, failed) = match end {
            End::Answered(answer) => (answer.payload, answer.failed),
            End::Exited(exit) => {
                let message = format!("RequestId: {id} Error: {}", exit.describe());
                (error_payload("Runtime.ExitError", &message), true)
            }
            End::TimedOut => {
                let limit = seconds(self.pool.function.timeout);
                let message = format!("{} {id} Task timed out after {limit}", timestamp(now));
                (json!({ "errorMessage": message }).to_string().into(), true)
            }
            // The dropped reply tells the caller.
            End::Stopped => return,
        };
        let log_tail = if queued.invocation.wants_log_tail {
            tokio::time::sleep(LOG_SETTLE).await;
            self.log.note(&format!("END RequestId: {id}"));
            let took = now.duration_since(started).unwrap_or_default().as_secs_f64() * 1000.0;
            let memory = self.pool.function.memory_mb;
            self.log.note(&format!(
                "REPORT RequestId: {id}\tDuration: {took:.2} ms\tBilled Duration: {:.0} ms\t\
                 Memory Size: {memory} MB",
                took.ceil()
            ));
            Some(self.log.tail())
        } else {
            None
        };
        // Before the caller gets the answer, since it may send the next event at once.
        self.pool.note(self.id, |known| known.state = State::Returning);
        queued.complete(Completed { payload, failed, log_tail });
    }

    /// Waits until the process asks for an event; nothing if it exits or is to be ended first.
    async fn asked(&mut self) -> Option<oneshot::Sender<Event>> {
        loop {
            match self.wake().await {
                Wake::Call(Call::Next(next)) => return Some(next),
                Wake::Call(out_of_turn) => drop(out_of_turn),
                Wake::Exited(_) | Wake::Stopped => return None,
            }
        }
    }

    async fn wake(&mut self) -> Wake {
        tokio::select! {
            // The last call of a process comes before its end.
            biased;
            Some(call) = self.calls.recv() => Wake::Call(call),
            exit = self.process.exit() => Wake::Exited(exit),
            _ = self.stop.wait_for(|stop| *stop) => Wake::Stopped,
        }
    }

    /// Ends the process, if it has not exited by itself, and waits until it is gone.
    async fn end(&mut self) {
        // In a shutdown the process may end by itself. One that is stuck may not react.
        if *self.stop.borrow() {
            self.process.terminate();
            let exit = tokio::time::timeout(TERMINATION_GRACE, self.process.exit()).await;
            if exit.is_ok() {
                return;
            }
        }
        self.process.kill();
        self.process.exit().await;
    }
}

/// Gives the error to the start of the stack if that waits for this environment, or else to the
/// invocation that has waited longest.
fn failed_to_start(pool: &Pool, ready: Option<Ready>, payload: Bytes) {
    let described: Value = serde_json::from_slice(&payload).unwrap_or_default();
    let problem = described["errorMessage"].as_str().map(str::to_owned);
    let problem = problem.unwrap_or_else(|| String::from_utf8_lossy(&payload).into_owned());
    tracing::error!(function = pool.function.name, problem, "an environment failed to start");
    match ready {
        // The receiver may be gone.
        Some(ready) => drop(ready.send(Err(problem))),
        None => pool.fail_oldest(payload),
    }
}

fn error_payload(kind: &str, message: &str) -> Bytes {
    let payload = json!({ "errorType": kind, "errorMessage": message });
    payload.to_string().into()
}

fn seconds(duration: Duration) -> String {
    format!("{:.2} seconds", duration.as_secs_f64())
}

/// The time in milliseconds, as Lambda prints it.
fn timestamp(time: SystemTime) -> String {
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(epoch_millis(time));
    OffsetDateTime::from(time).format(&Rfc3339).unwrap_or_default()
}
