//! Lambda's API for extensions (2020-01-01): to register, to wait for events, and to say that the start has failed.

use bytes::Bytes;
use dynashard_serve::Failure;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;

/// What Lambda says next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "eventType", rename_all = "UPPERCASE", rename_all_fields = "camelCase")]
pub(crate) enum Event {
    /// The function has got an event.
    Invoke,
    /// The environment ends at this moment, in milliseconds since 1970.
    Shutdown { deadline_ms: u64 },
}

/// The API, to which this extension is known.
pub(crate) struct Runtime {
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
    /// By which Lambda knows it.
    id: String,
}

const ID: &str = "lambda-extension-identifier";

impl Runtime {
    /// Registers the extension whose program this is, by the name of its file: Lambda takes no other.
    pub(crate) async fn register(server: &str, program: &str) -> Result<Self, Failure> {
        let client = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
        let url = format!("http://{server}/2020-01-01/extension");
        let runtime = Self { client, url, id: String::new() };
        let name = program.rsplit('/').next().unwrap_or(program);
        let events = r#"{"events":["INVOKE","SHUTDOWN"]}"#;
        let named = ("lambda-extension-name", name);
        let (headers, _) = runtime.ask(Method::POST, "register", named, events.into()).await?;
        let id = headers.get(ID).and_then(|id| id.to_str().ok());
        let id = id.ok_or("Lambda has registered it without an identifier")?.to_owned();
        Ok(Self { id, ..runtime })
    }

    /// Waits for the next event. The environment is frozen meanwhile, if nothing else runs in it.
    pub(crate) async fn next(&self) -> Result<Event, Failure> {
        let (_, body) = self.ask(Method::GET, "event/next", (ID, &self.id), Bytes::new()).await?;
        Ok(serde_json::from_slice(&body)?)
    }

    /// Says that the start has failed. Lambda ends the environment.
    pub(crate) async fn fail(&self, why: &str) -> Result<(), Failure> {
        let body = serde_json::json!({ "errorType": "Extension.NotReady", "errorMessage": why });
        let body = Bytes::from(body.to_string());
        self.ask(Method::POST, "init/error", (ID, &self.id), body).await.map(drop)
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        header: (&str, &str),
        body: Bytes,
    ) -> Result<(HeaderMap, Bytes), Failure> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}/{path}", self.url))
            .header(header.0, header.1)
            .header(CONTENT_TYPE, "application/json")
            .header("lambda-extension-function-error-type", "Extension.NotReady")
            .body(Full::new(body))?;
        let (parts, body) = self.client.request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        match parts.status {
            StatusCode::OK | StatusCode::ACCEPTED => Ok((parts.headers, body)),
            status => Err(format!(
                "Lambda answers {path} with {status}: {}",
                String::from_utf8_lossy(&body)
            )
            .into()),
        }
    }
}
