//! The HTTP API in front of the functions, with API Gateway's events and limits.

mod auth;
mod event;
mod reply;

pub use auth::{Principals, User};

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use auth::Refused;
use axum::extract::Request;
use event::Received;
use http::request::Parts;
use http::{Method, StatusCode};

use crate::clock::SharedClock;
use crate::ids;
use crate::lambda::runtime::{Invocation, InvokeError, MAX_PAYLOAD, Pool, Runtime};
use crate::plan::{Function, Route};
use crate::server::{Handler, Response, json_response, read_body, set};

/// The endpoint of the template's HTTP API.
#[derive(Debug)]
pub(crate) struct Gateway {
    /// By path, and then by method.
    routes: HashMap<String, HashMap<Method, Integration>>,
    /// Who may call; everybody without it.
    principals: Option<Principals>,
    clock: SharedClock,
}

impl Gateway {
    /// A gateway to the functions of `runtime`, with the routes of the template. With principals it lets in whom the
    /// routes say.
    pub(crate) fn new(
        functions: &[Function],
        runtime: &Runtime,
        principals: Option<Principals>,
        clock: SharedClock,
    ) -> Self {
        let mut routes: HashMap<String, HashMap<Method, Integration>> = HashMap::new();
        for function in functions {
            let Some(pool) = runtime.pool(&function.name) else {
                continue;
            };
            for route in &function.routes {
                let methods = routes.entry(route.path.clone()).or_default();
                if let Ok(method) = Method::from_bytes(route.method.as_bytes()) {
                    let route_key = format!("{} {}", route.method, route.path);
                    let (route, pool) = (route.clone(), Arc::clone(pool));
                    methods.insert(method, Integration { route_key, route, pool });
                }
            }
        }
        Self { routes, principals, clock }
    }

    async fn answer(
        &self,
        request: Request,
        peer: SocketAddr,
        request_id: &str,
    ) -> Result<Response, StatusCode> {
        let (parts, body) = request.into_parts();
        if head_size(&parts) > MAX_HEAD {
            return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        }
        let integration = self
            .routes
            .get(parts.uri.path())
            .and_then(|methods| methods.get(&parts.method))
            .ok_or(StatusCode::NOT_FOUND)?;
        let body = read_body(body, MAX_BODY).await;
        let body = body
            .map_err(|error| error.pick(StatusCode::PAYLOAD_TOO_LARGE, StatusCode::BAD_REQUEST))?;
        let now = self.clock.now();
        let authorizer = match &self.principals {
            None => None,
            Some(principals) => {
                let authorization = &integration.route.authorization;
                auth::authorizer(authorization, principals, &parts, &body, now)
                    .map_err(|refused| not_let_in(&refused))?
            }
        };
        let trace_header = integration.pool.trace_header();
        let event = event::encode(&Received {
            route_key: &integration.route_key,
            parts: &parts,
            body: &body,
            peer,
            request_id,
            trace_header: &trace_header,
            authorizer,
            now,
        });
        if event.len() > MAX_PAYLOAD {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        let invocation = Invocation { trace_header, ..integration.pool.invocation(event) };
        let completed = tokio::select! {
            completed = integration.pool.invoke(invocation) => completed,
            () = self.clock.sleep(integration.route.timeout) => return Err(StatusCode::SERVICE_UNAVAILABLE),
        };
        match completed {
            Ok(completed) if !completed.failed => {
                reply::decode(completed.payload).ok_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
            Ok(_) => Err(StatusCode::INTERNAL_SERVER_ERROR),
            Err(InvokeError::Throttled | InvokeError::Stopped) => {
                Err(StatusCode::SERVICE_UNAVAILABLE)
            }
        }
    }
}

impl Handler for Gateway {
    async fn handle(&self, request: Request, peer: SocketAddr) -> Response {
        let request_id = ids::gateway_request_id();
        let mut response = self.answer(request, peer, &request_id).await.unwrap_or_else(refusal);
        set(&mut response, "apigw-requestid", &request_id);
        response
    }
}

/// Where a route leads.
#[derive(Debug)]
struct Integration {
    /// Method and path, as the event names them.
    route_key: String,
    route: Route,
    pool: Arc<Pool>,
}

/// What the gateway answers by itself.
fn refusal(status: StatusCode) -> Response {
    let message = match status {
        StatusCode::PAYLOAD_TOO_LARGE => "Request Entity Too Large",
        _ => status.canonical_reason().unwrap_or_default(),
    };
    let mut response = json_response(status, format!(r#"{{"message":"{message}"}}"#));
    if status == StatusCode::UNAUTHORIZED {
        set(&mut response, "www-authenticate", "Bearer");
    }
    response
}

/// HTTP APIs say the same of a signature that is missing and of one that is wrong.
fn not_let_in(refused: &Refused) -> StatusCode {
    tracing::info!(reason = %refused, "the HTTP API did not let a request in");
    match refused {
        Refused::Signature(_) => StatusCode::FORBIDDEN,
        Refused::Token(_) => StatusCode::UNAUTHORIZED,
    }
}

/// The most bytes that the request line and the headers may take together.
const MAX_HEAD: usize = 10_240;

/// The most bytes that a body may take.
const MAX_BODY: usize = 10 << 20;

/// The bytes of the request line and the headers, as they came over the wire.
fn head_size(parts: &Parts) -> usize {
    let target = parts.uri.path_and_query().map_or(1, |target| target.as_str().len());
    let request_line = parts.method.as_str().len() + target + "  HTTP/1.1\r\n".len();
    let headers = parts.headers.iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    request_line + headers.sum::<usize>()
}

#[cfg(test)]
mod tests;
