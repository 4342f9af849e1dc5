//! The public `lambda` endpoint: the Invoke operation of the Lambda API, for any AWS SDK and the
//! aws CLI.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::Request;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::ORIGIN;
use http::request::Parts;
use http::{Method, StatusCode, Uri};
use percent_encoding::percent_decode_str;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::access::Access;
use crate::ids;
use crate::lambda::runtime::{
    Background, Completed, Invocation, InvokeError, MAX_PAYLOAD, Pool, Runtime,
};
use crate::plan::function_arn;
use crate::queues::Queues;
use crate::server::{
    Handler, IntoResponse, Response, json_response, listing, query_parameter, read_body, set,
};

/// The endpoint that invokes the functions by name.
#[derive(Debug)]
pub(crate) struct LambdaApi {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) background: Arc<Background>,
    pub(crate) queues: Arc<Queues>,
    pub(crate) access: Arc<Access>,
}

impl LambdaApi {
    async fn invoke(&self, function: &str, request: Request) -> Result<Response, Refusal> {
        let (parts, body) = request.into_parts();
        let pool = self.find(function, &parts.uri)?;
        let kind = parts.headers.get("x-amz-invocation-type");
        let kind = kind.map_or("RequestResponse".into(), |kind| {
            String::from_utf8_lossy(kind.as_bytes()).into_owned()
        });
        let limit = match kind.as_str() {
            "Event" => MAX_EVENT,
            "RequestResponse" | "DryRun" => MAX_PAYLOAD,
            _ => return Err(Refusal::invalid_type(&kind)),
        };
        let payload = read_body(body, limit).await.map_err(|error| {
            error.pick(Refusal::too_large(limit), Refusal::unreadable("the connection broke"))
        })?;
        let invocation = Self::invocation(pool, &parts, payload)?;
        let request_id = invocation.request_id.clone();
        let mut response = match kind.as_str() {
            "DryRun" => StatusCode::NO_CONTENT.into_response(),
            "Event" => {
                self.background.deliver(Arc::clone(pool), invocation);
                StatusCode::ACCEPTED.into_response()
            }
            _ => completed(pool.invoke(invocation).await?),
        };
        set(&mut response, "x-amz-executed-version", "$LATEST");
        set(&mut response, REQUEST_ID, &request_id);
        Ok(response)
    }

    /// Finds a function by its name, partial ARN or ARN, each with or without the qualifier
    /// `$LATEST`.
    fn find(&self, function: &str, uri: &Uri) -> Result<&Arc<Pool>, Refusal> {
        let function = percent_decode_str(function).decode_utf8_lossy();
        let name = function.split_once(":function:").map_or(&*function, |(_, name)| name);
        let (name, qualifier) = match name.split_once(':') {
            Some((name, qualifier)) => (name, Some(qualifier)),
            None => (name, None),
        };
        let in_query = query_parameter(uri, "Qualifier");
        let qualifier = qualifier.or(in_query.as_deref());
        if let Some(qualifier) = qualifier.filter(|qualifier| *qualifier != "$LATEST") {
            return Err(Refusal::not_found(&format!("{name}:{qualifier}")));
        }
        self.runtime.pool(name).ok_or_else(|| Refusal::not_found(name))
    }

    fn invocation(pool: &Pool, parts: &Parts, payload: Bytes) -> Result<Invocation, Refusal> {
        let payload = if payload.is_empty() { Bytes::from_static(b"{}") } else { payload };
        if let Err(error) = serde_json::from_slice::<IgnoredAny>(&payload) {
            return Err(Refusal::unreadable(&error.to_string()));
        }
        let context = parts.headers.get("x-amz-client-context");
        let context = context.map(|context| {
            let json = STANDARD.decode(context).ok();
            json.and_then(|json| String::from_utf8(json).ok())
                .ok_or_else(|| Refusal::unreadable("the client context is not valid base64"))
        });
        let tail = parts.headers.get("x-amz-log-type");
        let mut invocation = Invocation {
            client_context: context.transpose()?,
            wants_log_tail: tail.is_some_and(|kind| kind == "Tail"),
            ..pool.invocation(payload)
        };
        // A caller that is traced itself says so.
        let given = parts.headers.get("x-amzn-trace-id").and_then(|given| given.to_str().ok());
        if let Some(given) = given {
            given.clone_into(&mut invocation.trace_header);
        }
        Ok(invocation)
    }
}

impl Handler for LambdaApi {
    async fn handle(&self, request: Request, _peer: SocketAddr) -> Response {
        let path = request.uri().path().to_owned();
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match (request.method(), segments.as_slice()) {
            (&Method::POST, _) if is_of_a_page(&request) => Refusal::of_a_page().response(),
            (&Method::POST, ["2015-03-31", "functions", function, "invocations"]) => {
                self.invoke(function, request).await.unwrap_or_else(Refusal::response)
            }
            (&Method::GET, ["_dynashard", "environments"]) => listing(&self.runtime.environments()),
            (&Method::GET, ["_dynashard", "permissions"]) => listing(&self.access.report()),
            (&Method::GET, ["_dynashard", "queues", queue]) => match self.queues.contents(queue) {
                Some(contents) => listing(&contents),
                None => StatusCode::NOT_FOUND.into_response(),
            },
            _ => Refusal::UNKNOWN_OPERATION.response(),
        }
    }
}

/// Whether a browser sends this for a page. Nothing is signed here, and a page of any site may send such a POST without asking
/// first ([CORS, simple requests](https://fetch.spec.whatwg.org/#simple-header)); browsers name its origin.
fn is_of_a_page(request: &Request) -> bool {
    request.headers().contains_key(ORIGIN)
}

/// The largest event of an asynchronous invocation: 1 MB.
const MAX_EVENT: usize = 1 << 20;

const REQUEST_ID: &str = "x-amzn-requestid";

/// An error in the shape of the Lambda API.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    kind: &'static str,
    body: serde_json::Value,
}

impl Refusal {
    const UNKNOWN_OPERATION: Self = Self {
        status: StatusCode::NOT_FOUND,
        kind: "UnknownOperationException",
        body: serde_json::Value::Null,
    };

    fn of_user(status: StatusCode, kind: &'static str, message: &str) -> Self {
        Self {
            status,
            kind,
            body: json!({ "Type": "User", "message": message, "Message": message }),
        }
    }

    fn not_found(name: &str) -> Self {
        let message = format!("Function not found: {}", function_arn(name));
        Self::of_user(StatusCode::NOT_FOUND, "ResourceNotFoundException", &message)
    }

    fn too_large(limit: usize) -> Self {
        let message =
            format!("Request must be smaller than {limit} bytes for the InvokeFunction operation");
        Self::of_user(StatusCode::PAYLOAD_TOO_LARGE, "RequestTooLargeException", &message)
    }

    fn unreadable(problem: &str) -> Self {
        let message = format!("Could not parse request body into json: {problem}");
        Self::of_user(StatusCode::BAD_REQUEST, "InvalidRequestContentException", &message)
    }

    fn of_a_page() -> Self {
        let message = "A page in a browser may not invoke functions; use an SDK or the aws CLI";
        Self::of_user(StatusCode::FORBIDDEN, "AccessDeniedException", message)
    }

    fn invalid_type(value: &str) -> Self {
        let message = format!("{value} is not one of RequestResponse, Event, DryRun");
        Self::of_user(StatusCode::BAD_REQUEST, "InvalidParameterValueException", &message)
    }

    fn response(self) -> Response {
        let mut response = json_response(self.status, self.body.to_string());
        set(&mut response, "x-amzn-errortype", self.kind);
        set(&mut response, REQUEST_ID, &ids::uuid());
        response
    }
}

impl From<InvokeError> for Refusal {
    fn from(error: InvokeError) -> Self {
        match error {
            InvokeError::Throttled => Self {
                status: StatusCode::TOO_MANY_REQUESTS,
                kind: "TooManyRequestsException",
                body: json!({
                    "Reason": "ConcurrentInvocationLimitExceeded",
                    "Type": "User",
                    "message": "Rate Exceeded.",
                }),
            },
            InvokeError::Stopped => Self {
                status: StatusCode::INTERNAL_SERVER_ERROR,
                kind: "ServiceException",
                body: json!({ "Type": "Service", "message": error.to_string() }),
            },
        }
    }
}

fn completed(completed: Completed) -> Response {
    let mut response = json_response(StatusCode::OK, completed.payload);
    if completed.failed {
        set(&mut response, "x-amz-function-error", "Unhandled");
    }
    if let Some(tail) = completed.log_tail {
        set(&mut response, "x-amz-log-result", &STANDARD.encode(tail));
    }
    response
}

#[cfg(test)]
mod tests;
