//! The HTTP/1.1 server of every endpoint. It listens on 127.0.0.1, unless the engine alone is told another address, and a stop
//! waits for its connections.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request};
use axum::serve::ListenerExt;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::StartError;

pub(crate) use axum::response::{IntoResponse, Response};

/// What answers the requests of one endpoint.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Answers one request of the client at `peer`.
    fn handle(&self, request: Request, peer: SocketAddr) -> impl Future<Output = Response> + Send;
}

/// Turns `true` when the tasks that hold it are to end.
pub(crate) type Stop = watch::Receiver<bool>;

/// Binds a loopback port for the option `flag` of the command; port 0 takes a free one.
pub(crate) async fn bind(port: u16, flag: &'static str) -> Result<TcpListener, StartError> {
    bind_at(Ipv4Addr::LOCALHOST.into(), port, flag).await
}

/// Binds a port of this address.
pub(crate) async fn bind_at(
    address: IpAddr,
    port: u16,
    flag: &'static str,
) -> Result<TcpListener, StartError> {
    let at = SocketAddr::new(address, port);
    TcpListener::bind(at).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => StartError::PortInUse { port, flag },
        _ => StartError::Listen { at, flag, source },
    })
}

/// Binds `port`; without one, `usual`, or a free port if another program listens on that.
pub(crate) async fn bind_or_usual(
    port: Option<u16>,
    usual: u16,
    flag: &'static str,
) -> Result<TcpListener, StartError> {
    match bind(port.unwrap_or(usual), flag).await {
        Err(StartError::PortInUse { .. }) if port.is_none() => bind_free().await,
        bound => bound,
    }
}

/// Binds a free loopback port.
pub(crate) async fn bind_free() -> Result<TcpListener, StartError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(StartError::Loopback)
}

/// The address of a listener.
pub(crate) fn address(listener: &TcpListener) -> Result<SocketAddr, StartError> {
    listener.local_addr().map_err(StartError::Loopback)
}

/// An endpoint that is being served.
#[derive(Debug)]
pub(crate) struct Server {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) fn start(listener: TcpListener, handler: Arc<impl Handler>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(serve(listener, handler, stopped));
        Self { stop, task }
    }

    /// Ends it, and returns when every connection has ended.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        if self.task.await.is_err() {
            tracing::error!("an endpoint panicked");
        }
    }
}

/// The URL of what is served on a listener.
pub(crate) fn url(listener: &TcpListener) -> Result<String, StartError> {
    let mut address = address(listener)?;
    // Where it listens on all addresses, this machine reaches it by its own.
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    Ok(format!("http://{address}"))
}

/// Serves until `stop`, and returns when every connection has ended. Requests may finish within [`GRACE`]; then they are
/// cut off.
pub(crate) async fn serve(listener: TcpListener, handler: Arc<impl Handler>, stop: Stop) {
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY was not set");
        }
    });
    let is_over = stop.clone();
    let answer = |ConnectInfo(peer): ConnectInfo<SocketAddr>, request: Request| async move {
        tokio::select! {
            response = handler.handle(request, peer) => response,
            () = grace_is_over(is_over) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        }
    };
    let service =
        Router::new().fallback(answer).into_make_service_with_connect_info::<SocketAddr>();
    let serving = axum::serve(listener, service).with_graceful_shutdown(stopped(stop.clone()));
    tokio::select! {
        _ = serving => {}
        // Whoever has sent half a request is not waited for.
        () = grace_is_over(stop) => {}
    }
}

async fn grace_is_over(stop: Stop) {
    stopped(stop).await;
    tokio::time::sleep(GRACE).await;
}

/// Why a body could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// It is longer than the limit.
    TooLarge,
    /// The connection broke.
    Broken,
}

impl BodyError {
    /// What stands for it among the errors of an endpoint.
    pub(crate) fn pick<T>(self, too_large: T, broken: T) -> T {
        match self {
            Self::TooLarge => too_large,
            Self::Broken => broken,
        }
    }
}

/// Reads a body of at most `limit` bytes.
///
/// Of a longer body, up to [`DISCARD_LIMIT`] more bytes are read: a client that still writes when the
/// connection is closed sees a reset instead of the answer.
pub(crate) async fn read_body(body: Body, limit: usize) -> Result<Bytes, BodyError> {
    let body = Limited::new(body, limit + DISCARD_LIMIT).collect().await;
    let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
        Some(_) => BodyError::TooLarge,
        None => BodyError::Broken,
    });
    let body = body?.to_bytes();
    if body.len() > limit { Err(BodyError::TooLarge) } else { Ok(body) }
}

/// The decoded value of a parameter of a URL's query.
pub(crate) fn query_parameter(uri: &Uri, name: &str) -> Option<String> {
    let mut parameters = uri.query()?.split('&').filter_map(|one| one.split_once('='));
    let (_, value) = parameters.find(|(known, _)| *known == name)?;
    Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
}

/// A response with a JSON body.
pub(crate) fn json_response(status: StatusCode, body: impl Into<Body>) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.into()).into_response()
}

/// A response with this content as JSON.
pub(crate) fn listing(content: &impl Serialize) -> Response {
    match serde_json::to_vec(content) {
        Ok(body) => json_response(StatusCode::OK, body),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Sets a header; a value that no header can hold is left out.
pub(crate) fn set(response: &mut Response, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// How long a connection may take to finish its request once the server stops.
const GRACE: Duration = Duration::from_secs(2);

/// How many bytes behind its limit a body may have and still be read before the answer.
const DISCARD_LIMIT: usize = 64 << 20;

/// Runs `work` to its end, or until it is to stop.
pub(crate) async fn until_stopped(work: impl Future<Output = ()>, stop: Stop) {
    tokio::select! {
        () = work => {}
        () = stopped(stop) => {}
    }
}

/// Ends when the time to stop has come. A sender that was dropped means the same.
async fn stopped(mut stop: Stop) {
    let _ = stop.wait_for(|stop| *stop).await;
}

#[cfg(test)]
pub(crate) mod testing {
    //! A client for the tests of the endpoints.

    use bytes::Bytes;
    use http::request::Builder;
    use http::response::Parts;
    use http_body_util::{BodyExt, Full};
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;
    use tokio::task::JoinHandle;

    /// Sends a request in the background.
    pub(crate) fn send(request: Builder, body: impl Into<Bytes>) -> JoinHandle<(Parts, Bytes)> {
        let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
        let request = request.body(Full::new(body.into())).expect("a request");
        let response = client.request(request);
        tokio::spawn(async move {
            let (parts, body) = response.await.expect("an answer").into_parts();
            (parts, body.collect().await.expect("a body").to_bytes())
        })
    }
}
