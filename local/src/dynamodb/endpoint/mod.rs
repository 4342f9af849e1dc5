//! The public `dynamodb` endpoint: it adds to the engine behind it what DynamoDB has and the engine
//! lacks.
//!
//! It refuses requests whose signature is too old, since the resharding protocol relies on that,
//! sends a `Date` header, counts, and throttles: [`dynashard_limits`] says what a request costs and
//! whether its partitions have room for it.
//!
//! # The way of a request
//!
//! 1. [`Call`] reads what it asks for, once. What a function asks for, its role must allow.
//! 2. The items that it is about are looked up in the engine, since a write costs by the item before
//!    it as well. Another write may come between; the request then pays the cost of a moment ago.
//!    An item that an index could not hold is refused here: the engine looks at no size of index keys.
//! 3. Where there is not room for all of it, a [`DryRun`] finds out whether the request is valid: as
//!    in DynamoDB, an invalid request is told what is wrong with it, and never that it is throttled.
//! 4. [`Job::admit`] decides, directly before the request is handed over. A batch goes on without
//!    what was refused.
//! 5. The engine executes it.
//! 6. What the request was admitted with is [settled](job::Admitted::settle): an update costs by
//!    what it made of the item, a page by what it read, a write whose condition failed by the item
//!    that was there, and an invalid request nothing.
//!
//! # What differs from DynamoDB
//!
//! - What an `UpdateItem` writes to indexes is known only afterwards: it is charged there, into debt
//!   if need be, but no update is refused because of an index.
//! - Of an index `UpdateTable` changes the units in vain, but for those of a table that goes on demand.
//! - The stream of a table that was deleted and made again has the records of the first one, and records of more than a day ago are
//!   removed when a data directory is opened.
//! - `PartiQL` statements are passed on without being limited or counted as capacity.
//! - The warm throughput of a request or a template has no effect: that of every table is in [`Limits`], and stays.
//! - A transaction that repeats a `ClientRequestToken` costs nothing, and is answered as the first one
//!   was. DynamoDB charges it for reading the items.
//! - `ConsumedCapacity` is the engine's own. It follows the same rules, and tests hold the two
//!   against each other for every operation.

mod answer;
mod call;
mod cost;
mod counters;
mod dry_run;
mod index_keys;
mod insights;
mod job;
mod meter;
mod observed;
mod permissions;
mod refusal;
mod segments;
mod signature;
mod streams;
mod tables;
mod tokens;
mod warm;

pub use counters::{Counters, OperationCount};
pub(crate) use insights::{InsightRule, RuleKeys};
pub(crate) use observed::Observed;
pub(crate) use streams::tells_of_a_change;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use answer::Outcome;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use call::Call;
use dry_run::DryRun;
use dynashard_limits::partition::Limits;
use dynashard_wire::CHECKSUM;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, ORIGIN, TRANSFER_ENCODING};
use http::request::Parts;
use http::response::Parts as AnswerParts;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, Method, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use job::{Admitted, Job};
use parking_lot::Mutex;
use refusal::{ACCESS_DENIED, Refusal};
use tables::Tables;
use tokens::{Claim, Token, Tokens};

use crate::StartError;
use crate::access::Access;
use crate::clock::{SharedClock, since_epoch};
use crate::dynamodb::engine::{Engine, Store};
use crate::ids;
use crate::plan::InsightsMode;
use crate::server::{Handler, IntoResponse, Response, listing, read_body, set};

/// The HTTP endpoint in front of one engine.
#[derive(Debug)]
pub(crate) struct Endpoint {
    engine: Authority,
    client: Client<HttpConnector, Full<Bytes>>,
    known: Arc<Known>,
    limits: Limits,
    tokens: Tokens,
    signature_window: Mutex<Duration>,
    clock: SharedClock,
    counters: Mutex<Counters>,
    access: Arc<Access>,
}

/// What the endpoint knows of the engine's tables. Its methods may wait for the engine.
#[derive(Debug)]
struct Known {
    store: Store,
    tables: Tables,
    dry_run: DryRun,
    observed: Arc<Observed>,
}

impl Known {
    /// Learns what a table is like at `now`.
    fn learn(&self, name: &str, now: Duration) -> dynoxide::Result<()> {
        self.tables.learn(name, |table| {
            self.observed.meter.set_table(now, name, table);
            self.dry_run.set_table(name, table);
            self.observed.insights.set_table(name, table);
        })
    }
}

impl Endpoint {
    /// An endpoint of the engine, with `limits` for the tables that it has and will have, that hands
    /// over no request signed more than `signature_window` ago, and none of a function that its role does
    /// not allow. Blocks.
    pub(crate) fn new(
        engine: &Engine,
        limits: Limits,
        signature_window: Duration,
        clock: SharedClock,
        access: Arc<Access>,
    ) -> Result<Self, StartError> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let store = engine.store();
        let known = Known {
            tables: Tables::of(store.clone()),
            dry_run: DryRun::new(store.clone()).map_err(StartError::engine)?,
            observed: Arc::new(Observed::of(limits)),
            store,
        };
        let now = since_epoch(clock.now());
        for name in known.store.table_names().map_err(StartError::engine)? {
            known.learn(&name, now).map_err(StartError::engine)?;
        }
        let authority = engine.address().to_string();
        Ok(Self {
            engine: authority.parse().expect("a socket address is an authority"),
            client: Client::builder(TokioExecutor::new()).pool_idle_timeout(None).build(connector),
            known: Arc::new(known),
            limits,
            tokens: Tokens::default(),
            signature_window: Mutex::new(signature_window),
            clock,
            counters: Mutex::default(),
            access,
        })
    }

    /// What the endpoint has counted since it started.
    pub(crate) fn counters(&self) -> Counters {
        self.counters.lock().clone()
    }

    /// What `CloudWatch` sees of the tables.
    pub(crate) fn observed(&self) -> &Arc<Observed> {
        &self.known.observed
    }

    /// Enables Contributor Insights for a table.
    pub(crate) fn enable_insights(&self, table: &str, mode: InsightsMode) {
        self.observed().insights.enable(since_epoch(self.clock.now()), table, mode);
    }

    async fn forward(&self, request: Request) -> Result<Response, Refusal> {
        let (mut parts, body) = request.into_parts();
        if is_of_another_site(&parts.headers) {
            return Err(Refusal::OF_ANOTHER_SITE);
        }
        let body = read_body(body, MAX_BODY).await;
        let body = body.map_err(|error| error.pick(Refusal::TOO_LARGE, Refusal::BROKEN))?;
        let call = Call::read(&parts.headers, &body);
        self.access
            .check_request(&parts, || permissions::asked(&call, &self.known.tables))
            .map_err(|denied| Refusal::new(ACCESS_DENIED, denied.to_string()))?;
        let Call { operation, tables, request } = call;
        segments::check(&operation, &body, &self.known.tables)?;
        let now = self.clock.now();
        if let Some(answer) = self.observed().insights.answer(&operation, &body, since_epoch(now)) {
            self.check_signature(&parts, now)?;
            return Ok(refusal::answer(StatusCode::OK, answer?.to_string()));
        }
        let (first, body) = match Token::take(&operation, &body) {
            None => (None, body),
            Some((token, body)) => match self.tokens.claim(token, since_epoch(now)).await {
                Claim::First(first) => (Some(first), body),
                repeated => {
                    self.check_signature(&parts, self.clock.now())?;
                    let Claim::Repeated(answer) = repeated else { return Err(Refusal::MISMATCH) };
                    return Ok(refusal::answer(StatusCode::OK, answer));
                }
            },
        };
        let job = self.look_up(&operation, Job::of(request, &self.known.tables), &body).await?;
        parts.uri = self.engine_uri(&parts.uri);
        remove_hop_headers(&mut parts.headers);
        let now = self.clock.now();
        self.check_signature(&parts, now)?;
        let admitted = match job.admit_if_room(since_epoch(now), &self.observed().meter) {
            Ok(admitted) => admitted,
            Err(job) => self.admit_if_valid(&parts, &operation, &tables, job, &body).await?,
        };
        self.counters.lock().count_request(&operation, &tables);
        let exchange = self.exchange(parts, admitted.body(body));
        let (mut parts, answer) = match first {
            None => exchange.await?,
            Some(first) => {
                // A client that hangs up may have its transaction executed: its token has to know.
                let noted = tokio::spawn(async {
                    let answer = exchange.await;
                    first.note(&answer);
                    answer
                });
                noted.await.unwrap_or(Err(Refusal::ENGINE_BROKE_OFF))?
            }
        };
        let outcome = Outcome::of(parts.status, &answer);
        let admitted = if outcome == Outcome::Done && admitted.job.changes_what_is_known() {
            self.look_again(admitted, &tables).await?
        } else {
            admitted
        };
        let now = since_epoch(self.clock.now());
        let (charges, body) = admitted.settle(outcome, &answer, now, &self.observed().meter);
        self.counters.lock().count_consumed(&operation, &charges);
        let body = body
            .or_else(|| warm::describe(&operation, &answer, &self.limits))
            .or_else(|| streams::describe(&operation, &answer));
        remove_hop_headers(&mut parts.headers);
        if let Some(body) = &body {
            parts.headers.insert(CHECKSUM, crc32fast::hash(body).into());
        }
        Ok(Response::from_parts(parts, Body::from(body.unwrap_or(answer))))
    }

    /// Reads the items that the request is about, and refuses one that would write what no index could hold.
    async fn look_up(&self, operation: &str, job: Job, body: &Bytes) -> Result<Job, Refusal> {
        let Job::Items(mut items) = job else { return Ok(job) };
        let known = Arc::clone(&self.known);
        let (operation, body) = (operation.to_owned(), body.clone());
        let look = move || {
            items.look_up(&known.store);
            index_keys::check(&known.dry_run, &operation, &body, &items)?;
            Ok(Job::Items(items))
        };
        blocking(look).await?
    }

    /// Takes signatures as old as the body says, in whole seconds: AWS may do that at any time, too.
    async fn set_signature_window(&self, request: Request) -> Response {
        let body = read_body(request.into_body(), 16).await.unwrap_or_default();
        let Some(secs) = std::str::from_utf8(&body).ok().and_then(|secs| secs.trim().parse().ok())
        else {
            let problem = "the body has to be a number of seconds\n";
            return (StatusCode::BAD_REQUEST, problem).into_response();
        };
        *self.signature_window.lock() = Duration::from_secs(secs);
        StatusCode::NO_CONTENT.into_response()
    }

    /// Requests without a signing date are let through: the engine answers them with the error that
    /// fits, and executes none of them.
    fn check_signature(&self, parts: &Parts, now: SystemTime) -> Result<(), Refusal> {
        let window = *self.signature_window.lock();
        signature::check(parts, window, now).inspect_err(|_| {
            self.counters.lock().refused += 1;
        })
    }

    /// Decides about a request for which there is not room: if it is invalid it passes, and the
    /// engine refuses it.
    async fn admit_if_valid(
        &self,
        parts: &Parts,
        operation: &str,
        tables: &BTreeSet<String>,
        job: Job,
        body: &Bytes,
    ) -> Result<Admitted, Refusal> {
        let known = Arc::clone(&self.known);
        let names_unknown = tables.iter().any(|table| known.tables.get(table).is_none());
        let (name, body) = (operation.to_owned(), body.clone());
        let look = move || (names_unknown || known.dry_run.refuses(&name, &body, &job), job);
        let (is_invalid, job) = blocking(look).await?;
        let now = self.clock.now();
        self.check_signature(parts, now)?;
        if is_invalid {
            return Ok(job.pass(since_epoch(now)));
        }
        // The answer holds for this moment only, so nothing waits after it.
        let admitted =
            job.admit(since_epoch(now), &self.observed().meter).map_err(|throttled| {
                self.counters.lock().count_throttled(&throttled.hits);
                let now = since_epoch(now).as_secs();
                self.observed().throttled_requests.count(tables, operation, now);
                throttled.refusal
            })?;
        self.counters.lock().count_throttled(admitted.hits());
        Ok(admitted)
    }

    /// Sends the request to the engine, and returns the whole answer.
    fn exchange(
        &self,
        parts: Parts,
        body: Bytes,
    ) -> impl Future<Output = Result<(AnswerParts, Bytes), Refusal>> + use<> {
        let answer = self.client.request(Request::from_parts(parts, Full::new(body)));
        async {
            let (parts, body) = answer.await.map_err(|error| Refusal::engine(&error))?.into_parts();
            let body = body.collect().await.map_err(|_| Refusal::ENGINE_BROKE_OFF)?;
            Ok((parts, body.to_bytes()))
        }
    }

    /// Reads the items and tables as the request left them, where the answer does not say.
    async fn look_again(
        &self,
        mut admitted: Admitted,
        tables: &BTreeSet<String>,
    ) -> Result<Admitted, Refusal> {
        let known = Arc::clone(&self.known);
        let (tables, now) = (tables.clone(), since_epoch(self.clock.now()));
        let look = move || {
            match &mut admitted.job {
                Job::Items(items) => items.look_again(&known.store),
                Job::TableChange => tables.iter().try_for_each(|name| known.learn(name, now))?,
                Job::Page(_) | Job::Free => {}
            }
            dynoxide::Result::Ok(admitted)
        };
        blocking(look).await?.map_err(|error| {
            tracing::error!(%error, "a table that changed cannot be read");
            Refusal::ENGINE_BROKE_OFF
        })
    }

    fn engine_uri(&self, uri: &Uri) -> Uri {
        let mut parts = uri.clone().into_parts();
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = Some(self.engine.clone());
        // Only a path can be missing, and then it is the root.
        Uri::from_parts(parts).unwrap_or_else(|_| Uri::from_static("/"))
    }
}

impl Handler for Endpoint {
    async fn handle(&self, request: Request, _peer: SocketAddr) -> Response {
        let mut response = match (request.method(), request.uri().path()) {
            (&Method::GET, "/") => ([(CONTENT_TYPE, "text/plain")], HEALTH).into_response(),
            (&Method::GET, "/_dynashard/counters") => listing(&self.counters()),
            (&Method::PUT, SIGNATURE_WINDOW) => self.set_signature_window(request).await,
            _ => self.forward(request).await.unwrap_or_else(|refusal| refusal.response()),
        };
        // The functions take DynamoDB's time from here, so it must be the clock that signatures are
        // checked against.
        set(&mut response, "date", &httpdate::fmt_http_date(self.clock.now()));
        if !response.headers().contains_key(REQUEST_ID) {
            set(&mut response, REQUEST_ID, &ids::dynamodb_request_id());
        }
        response
    }
}

/// DynamoDB takes requests of up to 16 MB.
const MAX_BODY: usize = 16 << 20;

const REQUEST_ID: &str = "x-amzn-requestid";

const SIGNATURE_WINDOW: &str = "/_dynashard/signature-window";

const HEALTH: &str = "healthy: dynamodb.us-east-1.amazonaws.com ";

/// Whether a browser sends this for a page that another machine has served. The engine would carry it out and have the page read the
/// answer, since no signature is checked here; pages of this machine may be of an application that is developed.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let host = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
    let host = host.as_ref().and_then(Uri::host).unwrap_or_default();
    !matches!(host, "localhost" | "127.0.0.1" | "[::1]")
}

/// These describe one connection; each side of the endpoint has its own.
fn remove_hop_headers(headers: &mut HeaderMap) {
    for name in [CONNECTION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING] {
        headers.remove(name);
    }
}

/// Runs work that may wait for the engine on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "a task that reads from the engine panicked");
        Refusal::ENGINE_BROKE_OFF
    })
}

#[cfg(test)]
mod tests;
