//! The port that clients talk to.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt;
use dynashard_wire::CHECKSUM;
use dynashard_wire::signature::{Scope, User, verify};
use http::header::{CONTENT_TYPE, DATE, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::call::{Answer, Call};
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
const MAX_BODY: usize = 16 << 20;

/// How long requests may finish in once the server stops.
const GRACE: Duration = Duration::from_secs(25);

impl Server {
    /// Serves on a listener.
    ///
    /// # Errors
    /// It has no address.
    pub fn start(service: Arc<Service>, listener: TcpListener, access: Access) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let front = Arc::new(Front { service, access, is_stopping: stopped.clone() });
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

async fn serve(listener: TcpListener, front: Arc<Front>, stop: watch::Receiver<bool>) {
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY was not set");
        }
    });
    let answer = move |request: Request| {
        let front = Arc::clone(&front);
        async move { front.answer(request).await }
    };
    let router = Router::new().fallback(answer);
    let serving = axum::serve(listener, router).with_graceful_shutdown(stopped(stop.clone()));
    tokio::select! {
        _ = serving => {}
        () = grace_is_over(stop) => {}
    }
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn grace_is_over(stop: watch::Receiver<bool>) {
    stopped(stop).await;
    tokio::time::sleep(GRACE).await;
}

/// What stands between the port and the service.
struct Front {
    service: Arc<Service>,
    access: Access,
    is_stopping: watch::Receiver<bool>,
}

impl Front {
    async fn answer(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        if parts.method == Method::GET {
            return self.tell(&parts).await;
        }
        let _under_way = self.service.metrics().enter();
        match self.ask(&parts, body).await {
            Ok(answer) => response(answer),
            Err(refusal) => response(refusal.answer()),
        }
    }

    async fn ask(&self, parts: &Parts, body: Body) -> Result<Answer, Refusal> {
        if parts.headers.contains_key(MARK) {
            return Err(Refusal::looped());
        }
        let target = parts.headers.get("x-amz-target").and_then(|target| target.to_str().ok());
        let operation = target.and_then(|target| target.strip_prefix(TARGET_PREFIX));
        let is_post = parts.method == Method::POST && parts.uri.path() == "/";
        let operation =
            operation.filter(|_| is_post).ok_or_else(Refusal::unknown_operation)?.to_owned();
        self.check_host(&parts.headers)?;
        let body = Limited::new(body, MAX_BODY).collect().await.map_err(|error| {
            match error.downcast_ref::<LengthLimitError>() {
                Some(_) => Refusal::serialization("the body is longer than 16 MB"),
                None => Refusal::serialization("the body has broken off"),
            }
        });
        let body = body?.to_bytes();
        if let Access::Keys(users) = &self.access {
            let scope = Scope { region: None, service: "dynamodb" };
            let user = verify(parts, &body, users, scope, self.service.upstream().client().wall());
            user.map_err(|why| Refusal::denied(format!("dynashard: {why}")))?;
        }
        Ok(self.service.answer(&Call { operation, body }).await)
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
    async fn tell(&self, parts: &Parts) -> Response {
        match parts.uri.path() {
            "/" => (StatusCode::OK, "healthy: dynashard\n").into_response(),
            "/_dynashard/live" => (StatusCode::OK, "live\n").into_response(),
            "/_dynashard/ready" if *self.is_stopping.borrow() => {
                (StatusCode::SERVICE_UNAVAILABLE, "it is stopping\n").into_response()
            }
            "/_dynashard/ready" => match self.service.check().await {
                Ok(()) => (StatusCode::OK, "ready\n").into_response(),
                Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
            },
            "/_dynashard/metrics" => {
                let kind = [(CONTENT_TYPE, "text/plain; version=0.0.4")];
                (kind, self.service.metrics().text()).into_response()
            }
            _ => StatusCode::NOT_FOUND.into_response(),
        }
    }
}

fn response(answer: Answer) -> Response {
    let Answer { status, body, request_id, date } = answer;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
    headers.insert(CHECKSUM, crc32fast::hash(&body).into());
    let texts = [("x-amzn-requestid", request_id), (DATE.as_str(), date)];
    for (name, text) in texts {
        if let Some(value) = text.and_then(|text| HeaderValue::from_str(&text).ok()) {
            headers.insert(name, value);
        }
    }
    *response.body_mut() = Body::from(body);
    response
}
