use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use dynashard_core::{Deadline, Reading};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::value::RawValue;
use tracing_subscriber::EnvFilter;

use crate::{Problem, Request, Response};

/// The longest that any request may take: `/batch-write` promises an answer by 25 s, and the
/// gateway gives up after 30.
const LONGEST_REQUEST: Duration = Duration::from_secs(25);

/// What is kept of a function's own time limit for writing the answer.
const ANSWER_TIME: Duration = Duration::from_millis(500);

/// Answers the requests of one function.
pub trait Handler: Send + Sync {
    /// Answers one request by its deadline.
    fn handle(
        &self,
        request: &Request,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Response, Problem>> + Send;

    /// The time, for deadlines.
    fn now(&self) -> Reading;
}

/// Serves Lambda's events until the environment ends.
pub async fn run(handler: impl Handler) -> Result<(), Error> {
    start_logging();
    let handler = Arc::new(handler);
    lambda_runtime::run(service_fn(move |event: LambdaEvent<Box<RawValue>>| {
        let handler = Arc::clone(&handler);
        async move {
            let now = handler.now();
            let left = Duration::from_millis(event.context.deadline)
                .saturating_sub(now.wall)
                .saturating_sub(ANSWER_TIME);
            let deadline = Deadline::after(now, left.min(LONGEST_REQUEST));
            let (payload, request_id) = (event.payload.get(), &event.context.request_id);
            // The future of a batch is large; it should not be copied about on the stack.
            let response = Box::pin(answer(&*handler, payload, request_id, deadline)).await;
            Ok::<_, Error>(response)
        }
    }))
    .await
}

/// Answers one event. Whatever it is, the answer is an HTTP response.
pub async fn answer(
    handler: &impl Handler,
    event: &str,
    request_id: &str,
    deadline: Deadline,
) -> Response {
    let result = match Request::from_event(event) {
        Ok(request) => handler.handle(&request, deadline).await,
        Err(problem) => Err(problem),
    };
    result.unwrap_or_else(|problem| {
        let (status, code, detail) = (problem.status(), problem.code(), problem.log_detail());
        if status >= 500 {
            tracing::error!(request_id, status, code, detail, "the request failed");
        } else {
            tracing::debug!(request_id, status, code, detail, "the request was refused");
        }
        problem.into()
    })
}

/// One line of JSON for each event, at the level that Lambda's logging configuration sets.
fn start_logging() {
    let level = std::env::var("AWS_LAMBDA_LOG_LEVEL").unwrap_or_else(|_| "info".to_owned());
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_target(false)
        .with_env_filter(EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info")))
        .init();
}
