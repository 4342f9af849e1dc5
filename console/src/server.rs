//! The HTTP server of the page, and the stream of what it shows.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use dynashard_api::params::Params;
use dynashard_core::ScalingMode;
use dynashard_core::ports::Entropy;
use dynashard_keys::PartitionKey;
use futures_util::{StreamExt, stream};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{Method, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::answer;
use crate::assets::asset;
use crate::guard::{self, Failed};
use crate::known::Trouble;
use crate::series::Range;
use crate::shared::{Shared, Tables, Viewer};
use crate::view;
use crate::watcher;

/// What whoever starts the console decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Whether the page may change shard counts.
    pub allows_changes: bool,
    /// The read units a second that collections may take to which something happens, or at which somebody looks. At
    /// rest the console takes one at most.
    pub read_units: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { allows_changes: false, read_units: 10.0 }
    }
}

/// A console that is being served.
#[derive(Debug)]
pub struct Console {
    url: String,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
}

/// Nothing comes from elsewhere, and nothing that the page shows can become a script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The largest body: a cursor of up to 360 KB and the longest keys, with all that JSON escapes.
const MAX_BODY_BYTES: usize = 512 * 1_024;

/// Of a longer body so much is read.
const DISCARDED_BYTES: usize = 4 * 1_024 * 1_024;

/// How long a client may take for the body of a request.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// How often a stream tells something at most, and at least.
const TELL_EVERY: Duration = Duration::from_secs(1);
const BEAT_EVERY: Duration = Duration::from_secs(5);

/// How long connections have to end.
const GRACE: Duration = Duration::from_millis(500);

impl Console {
    /// Serves the page on this listener, which is to be on 127.0.0.1, and watches the tables that `connect` finds. While
    /// it finds none the page says why, and it is asked again.
    pub fn serve<F>(
        listener: TcpListener,
        options: Options,
        entropy: &impl Entropy,
        connect: impl Fn() -> F + Send + Sync + 'static,
    ) -> io::Result<Self>
    where
        F: Future<Output = Result<Tables, Trouble>> + Send + 'static,
    {
        let address = listener.local_addr()?;
        let token = format!("{:016x}{:016x}", entropy.next_u64(), entropy.next_u64());
        let names = [token, format!("{:016x}", entropy.next_u64())];
        let shared = Shared::new(options.allows_changes, options.read_units, names);
        let shared = Arc::new(shared);
        let (stop, stopped) = watch::channel(false);
        let server = tokio::spawn(async move {
            let watching = watcher::run(Arc::clone(&shared), connect);
            let serving = answer_all(listener, address.port(), shared, stopped);
            tokio::select! {
                () = serving => {}
                // It goes on for as long as it is polled.
                () = watching => {}
            }
        });
        Ok(Self { url: format!("http://{address}"), stop, server })
    }

    /// Where the page is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends it, and returns when every connection has ended.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        if self.server.await.is_err() {
            tracing::error!("the console panicked");
        }
    }
}

/// Serves until it is to stop, and returns when every connection has ended. Requests may finish within [`GRACE`].
async fn answer_all(listener: TcpListener, port: u16, shared: Arc<Shared>, stop: Stop) {
    let stopped = stop.clone();
    let answer = move |request: Request| async move {
        tokio::select! {
            response = Box::pin(respond(request, port, &shared, stopped.clone())) => {
                response.unwrap_or_else(|why| failed(&why))
            }
            () = grace_is_over(stopped.clone()) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        }
    };
    let serving = axum::serve(listener, Router::new().fallback(answer))
        .with_graceful_shutdown(told_to_stop(stop.clone()));
    tokio::select! {
        _ = serving => {}
        // Whoever has sent half a request is not waited for.
        () = grace_is_over(stop) => {}
    }
}

/// Turns `true` when the server is to end.
type Stop = watch::Receiver<bool>;

async fn told_to_stop(mut stop: Stop) {
    // A console that is dropped stops, too.
    let _ = stop.wait_for(|is_over| *is_over).await;
}

async fn grace_is_over(stop: Stop) {
    told_to_stop(stop).await;
    tokio::time::sleep(GRACE).await;
}

/// What the server has, by path: the method that fits.
fn method_of(path: &str) -> Option<Method> {
    match path {
        "/api/stream" | "/api/decisions" => Some(Method::GET),
        "/api/query" | "/api/item" | "/api/balance" | "/api/plan" | "/api/scale" => {
            Some(Method::POST)
        }
        path => asset(path, "").map(|_| Method::GET),
    }
}

async fn respond(
    request: Request,
    port: u16,
    shared: &Arc<Shared>,
    stop: Stop,
) -> Result<Response, Failed> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    guard::check(&head.method, path, &head.headers, port, &shared.token)?;
    let method = method_of(path).ok_or_else(|| {
        Failed::new(StatusCode::NOT_FOUND, "not_found", "the console has no such page")
    })?;
    if head.method != method {
        let detail = format!("{path} takes {method} alone");
        let why = Failed::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail);
        return Ok(([(ALLOW, method.as_str())], failed(&why)).into_response());
    }
    let query = head.uri.query().unwrap_or_default();
    let answer = match path {
        "/api/stream" => return stream_of(shared, query, stop),
        "/api/decisions" => answer::decisions(shared, query)?,
        _ if method == Method::GET => {
            let (media_type, text) =
                asset(path, &shared.token).unwrap_or(("text/plain", String::new()));
            return Ok(with(StatusCode::OK, media_type, text));
        }
        _ => {
            let body = tokio::time::timeout(BODY_WITHIN, read_body(body)).await;
            let body = body.map_err(|_| Failed::bad("the body did not come in time"))??;
            match path {
                "/api/query" => Box::pin(answer::query(shared, &body)).await?,
                "/api/item" => Box::pin(answer::item(shared, &body)).await?,
                "/api/balance" => Box::pin(answer::balance(shared, &body)).await?,
                "/api/plan" => Box::pin(answer::plan(shared, &body)).await?,
                _ => Box::pin(answer::scale(shared, &body)).await?,
            }
        }
    };
    Ok(with(StatusCode::OK, "application/json", answer.to_string()))
}

/// Reads a body. Of one that is too long more is read: a client that still writes when the connection is closed sees a
/// reset instead of the answer.
async fn read_body(body: Body) -> Result<Bytes, Failed> {
    let body = Limited::new(body, DISCARDED_BYTES).collect().await;
    let body = match body {
        Ok(body) => Some(body.to_bytes()).filter(|body| body.len() <= MAX_BODY_BYTES),
        Err(error) if error.is::<LengthLimitError>() => None,
        Err(error) => return Err(Failed::bad(format!("the body: {error}"))),
    };
    body.ok_or_else(|| {
        let detail = format!("the body has more than {MAX_BODY_BYTES} bytes");
        Failed::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
    })
}

fn failed(why: &Failed) -> Response {
    // Two texts, which cannot fail.
    let text = serde_json::to_string(why).unwrap_or_default();
    with(why.status, "application/problem+json", text)
}

fn with(status: StatusCode, media_type: &'static str, body: impl Into<Body>) -> Response {
    let headers = [
        (CONTENT_TYPE.as_str(), media_type),
        // The token is in the page, and everything else is of the moment.
        (CACHE_CONTROL.as_str(), "no-store"),
        (CONTENT_SECURITY_POLICY.as_str(), POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ];
    (status, headers, body.into()).into_response()
}

/// One page that is open, and what it was told.
struct Telling {
    viewer: Viewer,
    /// What is wrong with the key whose page it is, until it was told.
    refused: Option<Failed>,
    range: Range,
    changes: watch::Receiver<u64>,
    /// The row of each collection as it was told last.
    rows: HashMap<String, String>,
    /// Whether it was told anything, and where the tables are.
    has_begun: bool,
    has_met: bool,
}

fn stream_of(shared: &Arc<Shared>, query: &str, stop: Stop) -> Result<Response, Failed> {
    let mut params = Params::from_query_string(query)?;
    let pk = params.take("pk").filter(|pk| !pk.is_empty());
    let range =
        params.parse::<Range>("range", "live, minutes, hours or days")?.unwrap_or(Range::Live);
    params.finish()?;
    let (partition, refused) = match pk.map(PartitionKey::new).transpose() {
        Ok(partition) => (partition, None),
        // A stream that is refused is a lost connection to a browser, which asks again and again.
        Err(error) => (None, Some(Failed::from(dynashard_core::Error::from(error)))),
    };
    let telling = Telling {
        changes: shared.changes(),
        viewer: shared.view(partition),
        refused,
        range,
        rows: HashMap::new(),
        has_begun: false,
        has_met: false,
    };
    let events = stream::unfold(telling, |mut telling| async move {
        telling.wait().await;
        let text = telling.tell();
        Some((Ok::<_, Infallible>(text), telling))
    });
    // A page that is open would keep the server from ending.
    let events = events.take_until(Box::pin(told_to_stop(stop)));
    Ok(with(StatusCode::OK, "text/event-stream", Body::from_stream(events)))
}

impl Telling {
    /// Until there is something to tell, or it is time for a sign of life.
    async fn wait(&mut self) {
        if self.has_begun {
            tokio::time::sleep(TELL_EVERY).await;
            // The sender lives as long as the viewer.
            let _ = tokio::time::timeout(BEAT_EVERY, self.changes.changed()).await;
        }
        self.has_begun = true;
        self.changes.mark_unchanged();
    }

    /// What has changed, as events of `text/event-stream`.
    fn tell(&mut self) -> String {
        let mut text = String::new();
        let mut event = |name: &str, data: &Value| {
            // JSON has no line breaks outside of its texts, where they are escaped.
            text.extend(["event: ", name, "\ndata: ", &data.to_string(), "\n\n"]);
        };
        let shared = Arc::clone(self.viewer.shared());
        let Some(tables) = shared.tables() else {
            let known = shared.known();
            let trouble = known.troubles.get(crate::known::CONNECTION);
            event("waiting", &json!({ "trouble": trouble }));
            return text;
        };
        let frame = tables.frame(shared.read_units);
        if !self.has_met {
            let limits = frame.settings.partition;
            let schema = &frame.settings.schema;
            event(
                "hello",
                &json!({
                    "session": shared.session,
                    "place": tables.place,
                    "allows_changes": shared.allows_changes && tables.scaler.is_some(),
                    "scaling": match tables.scaling {
                        ScalingMode::Off => "off",
                        ScalingMode::DryRun => "dry-run",
                        ScalingMode::On => "on",
                    },
                    "partition": { "write_units": limits.write_units, "read_units": limits.read_units },
                    "sort_key_type": schema.sort_key_type.as_str(),
                    "version": env!("CARGO_PKG_VERSION"),
                }),
            );
            self.has_met = true;
        }
        if let Some(why) = self.refused.take() {
            event("refused", &json!(why));
        }
        let known = shared.known();
        let changed = view::rows(&known, frame).filter_map(|row| {
            let (pk, text) = (row["pk"].as_str()?.to_owned(), row.to_string());
            let told = self.rows.insert(pk, text.clone());
            (told != Some(text)).then_some(row)
        });
        let changed = changed.collect::<Vec<_>>();
        if !changed.is_empty() {
            event("rows", &Value::Array(changed));
        }
        event("overview", &view::overview(&known, frame, self.range));
        if let Some(partition) = &self.viewer.partition {
            event("collection", &view::details(&known, partition, frame, self.range));
        }
        text
    }
}
