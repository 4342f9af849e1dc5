//! The Lambda Runtime API: what a bootstrap polls for events and posts its answers to.
//!
//! Each environment has its own path prefix, `/<function>/<environment>`, so that the process need
//! not say who it is.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use http::{Method, StatusCode};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::calls::{Call, Completed, Event, Registry};
use super::pool::MAX_PAYLOAD;
use crate::clock::epoch_millis;
use crate::plan::function_arn;
use crate::server::{BodyError, Handler, Response, json_response, read_body, set};

/// The endpoint that the processes of all functions share.
#[derive(Debug)]
pub(super) struct RuntimeApi(pub(super) Arc<Registry>);

impl RuntimeApi {
    async fn answer(&self, request: Request) -> Result<Response, Refusal> {
        let path = request.uri().path().to_owned();
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let [function, environment, "2018-06-01", "runtime", rest @ ..] = segments.as_slice()
        else {
            return Err(Refusal::NOT_FOUND);
        };
        let environment = environment.parse().ok().and_then(|id| self.0.find(id));
        let environment = environment.ok_or(Refusal::NOT_FOUND)?;
        match (request.method(), rest) {
            (&Method::GET, ["invocation", "next"]) => next(&environment, function).await,
            (&Method::POST, ["invocation", request_id, "response"]) => {
                let answer = match read_body(request.into_body(), MAX_PAYLOAD).await {
                    Ok(payload) => completed(payload, false),
                    Err(BodyError::TooLarge) => {
                        done(&environment, request_id, too_large()).await?;
                        return Err(Refusal::TOO_LARGE);
                    }
                    Err(BodyError::Broken) => return Err(Refusal::BROKEN),
                };
                done(&environment, request_id, answer).await
            }
            (&Method::POST, ["invocation", request_id, "error"]) => {
                let payload = read_error(request.into_body()).await?;
                done(&environment, request_id, completed(payload, true)).await
            }
            (&Method::POST, ["init", "error"]) => {
                let payload = read_error(request.into_body()).await?;
                let (accepted, answer) = oneshot::channel();
                let call = Call::InitError { payload, accepted };
                accept(&environment, call, answer).await
            }
            _ => Err(Refusal::NOT_FOUND),
        }
    }
}

impl Handler for RuntimeApi {
    async fn handle(&self, request: Request, _peer: SocketAddr) -> Response {
        self.answer(request).await.unwrap_or_else(Refusal::response)
    }
}

/// An error of the Runtime API.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    kind: &'static str,
    message: &'static str,
}

const fn refusal(status: StatusCode, kind: &'static str, message: &'static str) -> Refusal {
    Refusal { status, kind, message }
}

impl Refusal {
    const NOT_FOUND: Self =
        refusal(StatusCode::NOT_FOUND, "NotFound", "There is no such environment or path.");
    const OUT_OF_TURN: Self = refusal(
        StatusCode::FORBIDDEN,
        "InvalidStateTransition",
        "The environment does not expect this now.",
    );
    const TOO_LARGE: Self = refusal(
        StatusCode::PAYLOAD_TOO_LARGE,
        "RequestEntityTooLarge",
        "Exceeded maximum allowed payload size (6291456 bytes).",
    );
    const BROKEN: Self =
        refusal(StatusCode::BAD_REQUEST, "InvalidRequest", "The body could not be read.");

    fn response(self) -> Response {
        let body = json!({ "errorType": self.kind, "errorMessage": self.message });
        json_response(self.status, body.to_string())
    }
}

/// Holds the call until there is an event.
async fn next(environment: &mpsc::Sender<Call>, function: &str) -> Result<Response, Refusal> {
    let (call, event) = oneshot::channel();
    let sent = environment.send(Call::Next(call)).await;
    sent.map_err(|_| Refusal::NOT_FOUND)?;
    let Event { invocation, deadline } = event.await.map_err(|_| Refusal::OUT_OF_TURN)?;
    let mut response = json_response(StatusCode::OK, invocation.payload);
    let answer = &mut response;
    set(answer, "lambda-runtime-aws-request-id", &invocation.request_id);
    set(answer, "lambda-runtime-deadline-ms", &epoch_millis(deadline).to_string());
    set(answer, "lambda-runtime-invoked-function-arn", &function_arn(function));
    set(answer, "lambda-runtime-trace-id", &invocation.trace_header);
    if let Some(context) = &invocation.client_context {
        set(answer, "lambda-runtime-client-context", context);
    }
    Ok(response)
}

async fn done(
    environment: &mpsc::Sender<Call>,
    request_id: &str,
    answer: Completed,
) -> Result<Response, Refusal> {
    let (accepted, accepts) = oneshot::channel();
    let call = Call::Done { request_id: request_id.to_owned(), answer, accepted };
    accept(environment, call, accepts).await
}

async fn accept(
    environment: &mpsc::Sender<Call>,
    call: Call,
    accepted: oneshot::Receiver<()>,
) -> Result<Response, Refusal> {
    let sent = environment.send(call).await;
    sent.map_err(|_| Refusal::NOT_FOUND)?;
    accepted.await.map_err(|_| Refusal::OUT_OF_TURN)?;
    Ok(json_response(StatusCode::ACCEPTED, r#"{"status":"OK"}"#))
}

async fn read_error(body: Body) -> Result<Bytes, Refusal> {
    let body = read_body(body, MAX_PAYLOAD).await;
    body.map_err(|error| error.pick(Refusal::TOO_LARGE, Refusal::BROKEN))
}

fn completed(payload: Bytes, failed: bool) -> Completed {
    Completed { payload, failed, log_tail: None }
}

fn too_large() -> Completed {
    let message = "Response payload size exceeded maximum allowed payload size (6291456 bytes).";
    let error = json!({ "errorType": "Function.ResponseSizeTooLarge", "errorMessage": message });
    completed(error.to_string().into(), true)
}
