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
use dynashard_core::{Code, Deadline, Reading};
use futures_util::future::{Either, select};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::metrics::{Counter, Metrics};
use crate::{Admission, Config, Patience, event, subscriber};

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
    fn now(&self) -> Reading;
}

/// Acts on the events of one function that are not requests.
pub trait EventHandler: Send + Sync {
    /// What Lambda reads as the outcome.
    type Outcome: Serialize + Send;

    /// Acts on one event by its deadline. An error makes Lambda send the event again.
    fn handle(
        &self,
        event: &str,
        request_id: &str,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Self::Outcome, Error>> + Send;

    /// The time, for deadlines.
    fn now(&self) -> Reading;
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

/// Serves HTTP events until the environment ends.
pub async fn run(handler: impl Handler, metrics: Metrics) -> Result<(), Error> {
    let patience = Patience::new(handler.now());
    let http = Http { handler, metrics, patience };
    run_events(http).await
}

/// Serves events until the environment ends.
pub async fn run_events<H: EventHandler>(handler: H) -> Result<(), Error> {
    let serving = Arc::new(handler);
    lambda_runtime::run(service_fn(move |event: LambdaEvent<Box<RawValue>>| {
        let serving = Arc::clone(&serving);
        async move {
            let handler = &*serving;
            let now = handler.now();
            let left = Duration::from_millis(event.context.deadline)
                .saturating_sub(now.wall)
                .saturating_sub(ANSWER_TIME);
            let deadline = Deadline::after(now, left);
            let (payload, request_id) = (event.payload.get(), &event.context.request_id);
            // The future of a batch is large; it should not be copied about on the stack.
            Box::pin(handler.handle(payload, request_id, deadline)).await
        }
    }))
    .await
}

/// Requests, as events.
struct Http<H> {
    handler: H,
    metrics: Metrics,
    patience: Patience,
}

impl<H: Handler> EventHandler for Http<H> {
    type Outcome = Response;

    async fn handle(
        &self,
        event: &str,
        request_id: &str,
        deadline: Deadline,
    ) -> Result<Response, Error> {
        let response = answer(&self.handler, event, request_id, deadline, &self.patience).await;
        self.metrics.count(self.now(), Counter::of_codes(response.reasons()));
        Ok(response)
    }

    fn now(&self) -> Reading {
        self.handler.now()
    }
}

/// Answers one event. Even a malformed one gets an HTTP response, which the caller counts.
pub async fn answer(
    handler: &impl Handler,
    event: &str,
    request_id: &str,
    deadline: Deadline,
    patience: &Patience,
) -> Response {
    let began = handler.now();
    let after = |time| Deadline::after(began, time);
    let request = event::request(event, handler.admission());
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
        let api_request_id = api_request_id(event);
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

/// The id by which API Gateway's access log knows the request, if the event has one.
fn api_request_id(event: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Event {
        request_context: RequestContext,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct RequestContext {
        request_id: String,
    }
    let event = serde_json::from_str::<Event>(event).ok()?;
    Some(event.request_context.request_id)
}

/// Logs to stdout.
fn start_logging(config: &Config) {
    // A second logger of the process would be refused; this is the only one.
    let logger = subscriber(&config.log_keys, config.log_level, io::stdout);
    let _ = tracing::subscriber::set_global_default(logger);
}
