//! Runs a function: from Lambda's events to its answers.

use std::future::{Future, ready};
use std::io;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use dynashard_api::problem::Problem;
use dynashard_api::release;
use dynashard_api::request::Request;
use dynashard_api::response::Response;
use dynashard_api::settings::ConfigErrors;
use dynashard_aws::OsEntropy;
use dynashard_core::ports::Entropy;
use dynashard_core::{Code, Deadline, Moment};
use futures_util::future::{Either, select};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::metrics::{Counter, Metrics};
use crate::{Admission, Config, Event, Patience, subscriber};

/// The longest that any request may take: `/batch-write` promises an answer by 25 s, gateway and a
/// cold start included.
const LONGEST_REQUEST: Duration = Duration::from_secs(23);

/// How long a request for many items, or a write whose item has to move first, goes on trying what DynamoDB throttles. It
/// is answered within 3 seconds of its arrival, though it then wait for a growth that it has begun: whoever is held
/// longer holds a connection and an environment. Requests for single items have less, and so has a batch of writes for what
/// goes to a shard that is full ([`Patience`]).
const LONGEST_THROTTLED: Duration = Duration::from_secs(2);

/// How long a request goes on trying what DynamoDB answers with faults, or what cannot reach it. Most faults pass within
/// milliseconds; a client that is told of the others has the `Retry-After`, and holds no environment meanwhile.
const LONGEST_FAULTY: Duration = Duration::from_secs(2);

/// The part of a function's time limit that is reserved for writing the answer.
const ANSWER_TIME: Duration = Duration::from_millis(500);

/// Answers the requests of one function.
pub trait Handler: Send + Sync {
    /// Answers one request by its deadline.
    fn handle(
        &self,
        request: &Request,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Response, Problem>> + Send;

    /// Renews what the next request would wait for, beside one that is being answered. It is dropped with the
    /// answer.
    fn renew(&self, _deadline: Deadline) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// What a request has to be to get this far.
    fn admission(&self) -> &Admission;

    /// The time, for deadlines.
    fn now(&self) -> Moment;
}

/// One call of a function.
#[derive(Debug)]
pub struct Invocation {
    /// The id by which Lambda's log knows it.
    pub request_id: String,
    /// When Lambda ends it, since the epoch.
    ends: Duration,
}

impl Invocation {
    /// When the function is to be done, in time to write its answer.
    pub fn deadline(&self, now: Moment) -> Deadline {
        Deadline::after(now, self.ends.saturating_sub(now.wall).saturating_sub(ANSWER_TIME))
    }
}

/// Runs a function with the configuration of its environment. If it fails, it says why on stderr: of the
/// configuration everything that is wrong, a line for each variable, before it asks for an event.
pub async fn start(serve: impl AsyncFnOnce(Config) -> Result<(), Error>) -> ExitCode {
    start_with(Config::from_variables(variable), serve).await
}

/// As [`start`], for the function that acts on alarms.
pub async fn start_with_alarms(serve: impl AsyncFnOnce(Config) -> Result<(), Error>) -> ExitCode {
    start_with(Config::with_alarms(variable), serve).await
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

async fn start_with(
    config: Result<Config, ConfigErrors>,
    serve: impl AsyncFnOnce(Config) -> Result<(), Error>,
) -> ExitCode {
    let result = match config {
        Ok(config) => {
            start_logging(&config);
            tracing::info!(
                version = release::VERSION,
                commit = release::COMMIT,
                "the environment starts"
            );
            serve(config).await
        }
        Err(wrong) => Err(wrong.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Answers requests until the environment ends.
pub async fn serve_requests(handler: impl Handler, metrics: Metrics) -> Result<(), Error> {
    let patience = Patience::new(handler.now());
    serve(async move |event, invocation: Invocation| {
        let deadline = invocation.deadline(handler.now());
        let response = answer(&handler, event, &invocation.request_id, deadline, &patience).await;
        metrics.count(handler.now(), Counter::of_codes(response.reasons()));
        Ok(response)
    })
    .await
}

/// Hands events to `act` until the environment ends. Lambda reads what it returns; an error makes Lambda send an event again
/// that nobody waits for.
pub async fn serve<O: Serialize>(
    act: impl AsyncFn(Event, Invocation) -> Result<O, Error>,
) -> Result<(), Error> {
    let act = Arc::new(act);
    lambda_runtime::run(service_fn(move |event: LambdaEvent<Box<RawValue>>| {
        let act = Arc::clone(&act);
        async move {
            let ends = Duration::from_millis(event.context.deadline);
            let invocation = Invocation { request_id: event.context.request_id, ends };
            // The future of a batch is large; it should not be copied about on the stack.
            Box::pin(act(Event::parse(event.payload.get()), invocation)).await
        }
    }))
    .await
}

/// Answers one event. Even a malformed one gets an HTTP response, which the caller counts.
pub async fn answer(
    handler: &impl Handler,
    event: Event,
    request_id: &str,
    deadline: Deadline,
    patience: &Patience,
) -> Response {
    let began = handler.now();
    let after = |time| Deadline::after(began, time);
    let api_request_id = event.api_request_id();
    let request = event.into_request(handler.admission());
    let is_head = request.as_ref().is_ok_and(|request| request.method == "HEAD");
    let result = match &request {
        Ok(request) => {
            let path = request.path.as_str();
            let is_single = path == "/item" || path.starts_with("/item/");
            let is_batch = path == "/batch-write";
            let left = patience.left(began);
            let longest = if is_single { left } else { LONGEST_THROTTLED };
            // What arrives behind a batch that is held waits for an environment, where nobody counts it.
            let full = if is_batch { left } else { longest };
            let deadline = deadline
                .min(after(LONGEST_REQUEST))
                .if_throttled(after(longest))
                .if_full(after(full))
                .if_settling(after(LONGEST_THROTTLED))
                .if_faulty(LONGEST_FAULTY);
            // What is renewed keeps no answer waiting.
            let answering = Box::pin(handler.handle(request, deadline));
            let result = match select(answering, pin!(handler.renew(deadline))).await {
                Either::Left((result, _)) => result,
                Either::Right(((), answering)) => answering.await,
            };
            let is_throttled = match &result {
                Ok(response) => response.is_throttled(),
                Err(problem) => problem.code() == Code::Throttled.as_str(),
            };
            if (is_single || is_batch) && is_throttled {
                patience.spend(handler.now().boot.saturating_sub(began.boot).min(full));
            }
            // What a batch leaves unprocessed is sent again, as what is refused is.
            result.map(|response| {
                if is_throttled {
                    response.with_retry_after(OsEntropy.next_u64())
                } else {
                    response
                }
            })
        }
        Err(problem) => Err(problem.clone()),
    };
    let response = result.unwrap_or_else(|problem| {
        let (status, code, detail) = (problem.status(), problem.code(), problem.log_detail());
        if status >= 500 {
            // By its digest an operator finds whose metadata or item it is.
            let [partition_key, sort_key] =
                request.as_ref().map(Request::named_key).unwrap_or_default();
            let (partition_key, sort_key) = (partition_key.as_deref(), sort_key.as_deref());
            tracing::error!(
                request_id,
                api_request_id,
                status,
                code,
                partition_key,
                sort_key,
                detail,
                "the request failed"
            );
        } else {
            tracing::debug!(
                request_id,
                api_request_id,
                status,
                code,
                detail,
                "the request was refused"
            );
        }
        problem.respond(api_request_id.as_deref().unwrap_or(request_id), OsEntropy.next_u64())
    });
    if is_head { response.without_body() } else { response }
}

/// Logs to stdout.
fn start_logging(config: &Config) {
    // A second logger of the process would be refused; this is the only one.
    let logger = subscriber(&config.log_keys, config.log_level, io::stdout);
    let _ = tracing::subscriber::set_global_default(logger);
}
