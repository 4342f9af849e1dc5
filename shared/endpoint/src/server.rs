//! The port that clients talk to.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use dynashard_aws::OsEntropy;
use dynashard_core::ports::Entropy;
use dynashard_wire::CHECKSUM;
use dynashard_wire::signature::{Scope, User, check_head, verify};
use http::header::{CONTENT_TYPE, DATE, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
#[cfg(unix)]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::call::{Answer, Call};
use crate::clients::{Clients, LastAsked};
use crate::refusal::Refusal;
use crate::service::Service;
use crate::upstream::{MARK, TARGET_PREFIX};

/// Who may ask.
#[derive(Debug, Clone)]
pub enum Access {
    /// Every program of this machine: it is to listen on a loopback address alone.
    ThisMachine,
    /// Whoever signs as one of these users.
    Keys(Vec<User>),
}

/// An endpoint that is being served.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// The longest body (DynamoDB Developer Guide, "Quotas": a batch has at most 16 MB).
const MAX_BODY: u32 = 16 << 20;

/// How many bytes the bodies of all large requests may have that are under way. Others are not read meanwhile.
const LARGE_BODIES: u32 = 48 << 20;

/// How many those of small ones may have, which do not wait for large writes that are held.
const SMALL_BODIES: u32 = 16 << 20;

/// The longest that is a small one: a write of one item of usual size, or any read but of large batches.
const SMALL_BODY: u32 = 16 << 10;

/// How long a body may take.
const BODY_TIME: Duration = Duration::from_secs(30);

/// How many connections there are at once. Others wait until one ends. A connection takes little while nothing is asked by it, or
/// while its write is held; what requests take is bounded by their bodies.
const MAX_CONNECTIONS: usize = 10_000;

/// How many files the process may have open, as far as the operating system lets it. Connections are files, those to DynamoDB as well,
/// and the usual limit is 1,024.
#[cfg(unix)]
const OPEN_FILES: u64 = 16_384;

/// How long a connection may be without a request, or with a part of its head: longer than clients keep one that they do not use.
const HEAD_TIME: Duration = Duration::from_mins(2);

/// How long no connection is taken once one could not be, as there are too many files open.
const PAUSE: Duration = Duration::from_millis(100);

/// What requests count as that are refused before it is known who has sent them: senders choose the names of operations.
const UNKNOWN: &str = "unknown";

/// How long requests may finish in once the server stops.
const GRACE: Duration = Duration::from_secs(25);

impl Server {
    /// Serves on a listener.
    ///
    /// # Errors
    /// It has no address.
    pub fn start(service: Arc<Service>, listener: TcpListener, access: Access) -> io::Result<Self> {
        #[cfg(unix)]
        raise_open_files();
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let bodies = Bodies {
            small: Semaphore::new(SMALL_BODIES as usize),
            large: Semaphore::new(LARGE_BODIES as usize),
        };
        let front = Arc::new(Front {
            service,
            access,
            clients: Clients::default(),
            bodies,
            is_stopping: stopped.clone(),
        });
        let task = tokio::spawn(serve(listener, front, stopped));
        Ok(Self { address, stop, task })
    }

    /// Where it listens, as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Takes no more connections, and returns when what was asked is answered, or after 25 seconds.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        if self.task.await.is_err() {
            tracing::error!("the endpoint panicked");
        }
    }
}

/// Raises the limit that this process has by itself up to the one that it may have.
#[cfg(unix)]
fn raise_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let most = maximum.unwrap_or(OPEN_FILES).min(OPEN_FILES);
    if current.is_some_and(|current| current < most) {
        // Otherwise it is as it was, and connections that are too many wait.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum });
    }
}

async fn serve(listener: TcpListener, front: Arc<Front>, stop: watch::Receiver<bool>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stopped(stop.clone()) => break,
            accepted = accept(&listener, &room) => accepted,
        };
        // Those that have ended are forgotten.
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, permit)) => {
                let front = Arc::clone(&front);
                connections.spawn(converse(stream, front, stop.clone(), permit));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, ended).await.is_err() {
        tracing::warn!("requests were still under way when their time was over");
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
}

/// Answers the requests of one connection.
async fn converse(
    stream: TcpStream,
    front: Arc<Front>,
    stop: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY was not set");
    }
    let last_asked = LastAsked::default();
    let answer = service_fn(|request| {
        let front = Arc::clone(&front);
        front.asked_by(&last_asked);
        async move { Ok::<_, Infallible>(front.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .serve_connection(TokioIo::new(stream), answer);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection has broken off");
    }
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// What stands between the port and the service.
struct Front {
    service: Arc<Service>,
    access: Access,
    clients: Clients,
    bodies: Bodies,
    is_stopping: watch::Receiver<bool>,
}

/// A permit for each byte that may yet be read.
struct Bodies {
    small: Semaphore,
    large: Semaphore,
}

impl Front {
    /// Takes note of a request of a connection.
    fn asked_by(&self, connection: &LastAsked) {
        let now = self.service.upstream().client().wall();
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if let Some(clients) = self.clients.asked(connection, now) {
            self.service.tell_clients(clients);
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        if parts.method == Method::GET {
            return match self.check_host(&parts.headers) {
                Ok(()) => self.tell(&parts).await,
                Err(refusal) => response(refusal.answer()),
            };
        }
        let metrics = self.service.metrics();
        let _under_way = metrics.enter();
        response(self.ask(&parts, body).await.unwrap_or_else(|refusal| {
            let answer = refusal.answer();
            metrics.count_refusal(UNKNOWN, refusal.name());
            metrics.count_answer(UNKNOWN, answer.status);
            answer
        }))
    }

    async fn ask(&self, parts: &Parts, body: Incoming) -> Result<Answer, Refusal> {
        if parts.headers.contains_key(MARK) {
            return Err(Refusal::looped());
        }
        let target = parts.headers.get("x-amz-target").and_then(|target| target.to_str().ok());
        let operation = target.and_then(|target| target.strip_prefix(TARGET_PREFIX));
        let is_post = parts.method == Method::POST && parts.uri.path() == "/";
        let operation =
            operation.filter(|_| is_post).ok_or_else(Refusal::unknown_operation)?.to_owned();
        self.check_host(&parts.headers)?;
        let scope = Scope { region: None, service: "dynamodb" };
        let now = || self.service.upstream().client().wall();
        if let Access::Keys(users) = &self.access {
            check_head(parts, users, scope, now()).map_err(Refusal::unsigned)?;
        }
        let (body, _room) = self.read(body).await?;
        if let Access::Keys(users) = &self.access {
            verify(parts, &body, users, scope, now()).map_err(Refusal::unsigned)?;
        }
        Ok(self.service.answer(&Call { operation, body }).await)
    }

    /// Reads a body, once there is room for it.
    async fn read(&self, body: Incoming) -> Result<(Bytes, SemaphorePermit<'_>), Refusal> {
        let late = |why: &'static str| move |_| Refusal::unavailable(why);
        let length = body.size_hint().upper().and_then(|length| length.try_into().ok());
        let length = length.unwrap_or(MAX_BODY).min(MAX_BODY);
        let Bodies { small, large } = &self.bodies;
        let bodies = if length <= SMALL_BODY { small } else { large };
        let room = tokio::time::timeout(BODY_TIME, bodies.acquire_many(length)).await;
        let room = room.map_err(late(
            "dynashard: the bodies of other requests have taken all memory that there is for them; ask again",
        ))?;
        let room = room.map_err(|error| Refusal::internal(error.to_string()))?;
        let body = Limited::new(body, MAX_BODY as usize).collect();
        let body = tokio::time::timeout(BODY_TIME, body).await;
        let body = body.map_err(late("dynashard: the body was not there within 30 seconds"))?;
        let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => Refusal::serialization("the body is longer than 16 MB"),
            None => Refusal::serialization("the body has broken off"),
        });
        Ok((body?.to_bytes(), room))
    }

    /// Refuses what a page of a browser may have sent: its host has a name of its own.
    fn check_host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if matches!(self.access, Access::Keys(_)) {
            return Ok(());
        }
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if dynashard_aws_operator::is_on_this_machine(host) {
            return Ok(());
        }
        Err(Refusal::denied("dynashard: the header Host is to name this machine, as in localhost"))
    }

    /// What is not of DynamoDB.
    async fn tell(&self, parts: &Parts) -> Response<Full<Bytes>> {
        let (status, text) = match parts.uri.path() {
            "/" => (StatusCode::OK, "healthy: dynashard\n".to_owned()),
            "/_dynashard/live" => (StatusCode::OK, "live\n".to_owned()),
            "/_dynashard/ready" if *self.is_stopping.borrow() => {
                (StatusCode::SERVICE_UNAVAILABLE, "it is stopping\n".to_owned())
            }
            "/_dynashard/ready" => match self.service.check().await {
                Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
                Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", self.shown(why))),
            },
            "/_dynashard/metrics" => (StatusCode::OK, self.service.metrics_text()),
            _ => (StatusCode::NOT_FOUND, String::new()),
        };
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }

    /// Why the endpoint is not ready, for whoever asks: programs of other machines learn nothing of its credentials and faults. What it
    /// counts they may read, since no scraper signs.
    fn shown(&self, why: String) -> String {
        match self.access {
            Access::ThisMachine => why,
            Access::Keys(_) => {
                tracing::warn!(%why, "the endpoint is not ready");
                "it is not ready: its log says why".to_owned()
            }
        }
    }
}

/// An id for an answer that DynamoDB has no part in, or several parts: SDKs hand it to programs that log it.
fn own_request_id() -> String {
    format!("DYNASHARD{:016X}{:016X}", OsEntropy.next_u64(), OsEntropy.next_u64())
}

fn response(answer: Answer) -> Response<Full<Bytes>> {
    let Answer { status, body, request_id, date } = answer;
    let request_id = Some(request_id.unwrap_or_else(own_request_id));
    let checksum = crc32fast::hash(&body);
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
    headers.insert(CHECKSUM, checksum.into());
    let texts = [("x-amzn-requestid", request_id), (DATE.as_str(), date)];
    for (name, text) in texts {
        if let Some(value) = text.and_then(|text| HeaderValue::from_str(&text).ok()) {
            headers.insert(name, value);
        }
    }
    response
}
