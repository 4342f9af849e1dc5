//! Environments whose processes are driven by the test, over the real Runtime API.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::log::Log;
use super::pool::State;
use super::process::{Exit, Launch, Process};
use super::{Invocation, Runtime};
use crate::StartError;
use crate::clock::SharedClock;
use crate::clock::manual::ManualClock;
use crate::ids;
use crate::plan::Function;
use crate::plan::testing::function;

/// A runtime whose processes are [`Fake`]s.
pub(crate) struct Rig {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) clock: Arc<ManualClock>,
    launched: mpsc::UnboundedReceiver<Fake>,
}

impl Rig {
    /// A runtime of one function, `Function`, and its first process, which waits for an event.
    pub(crate) async fn start(max_environments: usize) -> (Self, Fake, Polling) {
        let (clock, starting, mut launched) = start(max_environments);
        let fake = launched.recv().await.expect("a first process");
        let polling = fake.poll();
        let runtime = starting.await.expect("no panic").expect("a runtime");
        let rig = Self { runtime: Arc::new(runtime), clock, launched };
        (rig, fake, polling)
    }

    /// The next process that is started.
    pub(crate) async fn launched(&mut self) -> Fake {
        self.launched.recv().await.expect("a process")
    }

    /// Whether all processes that were started have been taken.
    pub(crate) fn none_launched(&mut self) -> bool {
        self.launched.try_recv().is_err()
    }

    /// Ends when so many environments wait for an event.
    pub(crate) async fn idle(&self, count: usize) {
        let idle = || {
            let environments = self.runtime.environments().into_iter();
            environments.filter(|known| known.state == State::Idle).count()
        };
        // The calls of the fakes pass through sockets; nothing else tells when they have arrived.
        while idle() < count {
            tokio::task::yield_now().await;
        }
    }

    /// Invokes the function in the background.
    pub(crate) fn invoke(&self, payload: &'static str) -> JoinHandle<Outcome> {
        let pool = Arc::clone(self.runtime.pool("Function").expect("the function"));
        tokio::spawn(async move { pool.invoke(invocation(payload)).await })
    }
}

pub(crate) type Outcome = Result<super::Completed, super::InvokeError>;

/// A call for the next event that a process has made.
pub(crate) type Polling = JoinHandle<Event>;

/// Starts a runtime, and returns while its first process is being waited for.
pub(crate) fn start(
    max_environments: usize,
) -> (Arc<ManualClock>, JoinHandle<Result<Runtime, StartError>>, mpsc::UnboundedReceiver<Fake>) {
    let clock =
        ManualClock::at(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_169_410));
    let (report, processes) = mpsc::unbounded_channel();
    let shared: SharedClock = clock.clone();
    let starting = tokio::spawn(async move {
        let launcher = |api| Fakes { api, report };
        Runtime::start(&[function()], max_environments, &shared, launcher).await
    });
    (clock, starting, processes)
}

pub(crate) fn invocation(payload: &'static str) -> Invocation {
    Invocation {
        request_id: ids::uuid(),
        payload: Bytes::from_static(payload.as_bytes()),
        trace_header: "Root=1".to_owned(),
        client_context: None,
        wants_log_tail: false,
    }
}

/// One process, in the hands of the test.
pub(crate) struct Fake {
    pub(crate) log: Arc<Log>,
    base: String,
    client: Client<HttpConnector, Full<Bytes>>,
    life: watch::Sender<Life>,
}

/// What has happened to a process from outside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    pub(crate) signals: Vec<&'static str>,
    exit: Option<Exit>,
    /// Does not end when it is asked to.
    deaf: bool,
}

/// An event that a process was given.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) request_id: String,
    pub(crate) payload: Bytes,
    pub(crate) headers: HeaderMap,
}

impl Fake {
    /// Asks for the next event, which must come.
    pub(crate) fn poll(&self) -> Polling {
        let next = self.next();
        tokio::spawn(async move { next.await.expect("an event") })
    }

    /// Asks for the next event; there is none once the runtime ends.
    fn next(&self) -> impl Future<Output = Option<Event>> + use<> {
        let response = self.call("GET", "invocation/next", Bytes::new());
        async move {
            let (status, headers, payload) = response.await;
            let id = headers.get("lambda-runtime-aws-request-id")?;
            assert_eq!(status, StatusCode::OK);
            let request_id = id.to_str().expect("an id").to_owned();
            Some(Event { request_id, payload, headers })
        }
    }

    /// Posts the answer to an event.
    pub(crate) async fn respond(&self, event: &Event, answer: impl Into<Bytes>) -> StatusCode {
        let path = format!("invocation/{}/response", event.request_id);
        self.call("POST", &path, answer.into()).await.0
    }

    /// Posts an error instead of an answer.
    pub(crate) async fn fail(&self, event: &Event, error: &'static str) -> StatusCode {
        let path = format!("invocation/{}/error", event.request_id);
        self.call("POST", &path, error.into()).await.0
    }

    pub(crate) async fn fail_to_start(&self, error: &'static str) -> StatusCode {
        self.call("POST", "init/error", error.into()).await.0
    }

    /// Answers each event with what `answer` makes of it, until the runtime ends.
    pub(crate) fn serve(
        self,
        first: Polling,
        answer: impl Fn(&Event) -> Bytes + Send + 'static,
    ) -> JoinHandle<()> {
        tokio::spawn(async move {
            let mut next = Some(first.await.expect("an event"));
            while let Some(event) = next {
                assert_eq!(self.respond(&event, answer(&event)).await, StatusCode::ACCEPTED);
                next = self.next().await;
            }
        })
    }

    pub(crate) fn exit(&self, exit: Exit) {
        self.life.send_modify(|life| life.exit = Some(exit));
    }

    pub(crate) fn be_deaf(&self) {
        self.life.send_modify(|life| life.deaf = true);
    }

    /// Waits until the runtime has ended the process, and gives the signals that it sent.
    pub(crate) async fn ended(&self) -> Vec<&'static str> {
        let mut life = self.life.subscribe();
        let life = life.wait_for(|life| life.exit.is_some()).await;
        life.expect("the process is watched").signals.clone()
    }

    pub(crate) fn call(
        &self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> impl Future<Output = (StatusCode, HeaderMap, Bytes)> + use<> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}/2018-06-01/runtime/{path}", self.base))
            .body(Full::new(body))
            .expect("a request");
        let response = self.client.request(request);
        async move {
            let (parts, body) = response.await.expect("an answer").into_parts();
            let body = body.collect().await.expect("a body").to_bytes();
            (parts.status, parts.headers, body)
        }
    }
}

/// Launches fakes, and gives them to the test.
#[derive(Debug)]
struct Fakes {
    api: SocketAddr,
    report: mpsc::UnboundedSender<Fake>,
}

impl Launch for Fakes {
    fn launch(
        &self,
        function: &Function,
        environment: u64,
        log: Arc<Log>,
    ) -> io::Result<Box<dyn Process>> {
        let life = watch::Sender::new(Life::default());
        let fake = Fake {
            log,
            base: format!("http://{}/{}/{environment}", self.api, function.name),
            client: Client::builder(TokioExecutor::new()).build_http(),
            life: life.clone(),
        };
        self.report.send(fake).map_err(io::Error::other)?;
        Ok(Box::new(FakeProcess { life }))
    }
}

struct FakeProcess {
    life: watch::Sender<Life>,
}

impl Process for FakeProcess {
    fn pid(&self) -> u32 {
        42
    }

    fn exit(&mut self) -> Pin<Box<dyn Future<Output = Exit> + Send + '_>> {
        let mut life = self.life.subscribe();
        Box::pin(async move {
            let life = life.wait_for(|life| life.exit.is_some()).await;
            life.ok().and_then(|life| life.exit).unwrap_or(Exit::Code(0))
        })
    }

    fn terminate(&mut self) {
        self.life.send_modify(|life| {
            life.signals.push("TERM");
            if !life.deaf {
                life.exit = Some(Exit::Signal(15));
            }
        });
    }

    fn kill(&mut self) {
        self.life.send_modify(|life| {
            life.signals.push("KILL");
            life.exit.get_or_insert(Exit::Signal(9));
        });
    }
}
