//! A store by the HTTP API of a stack.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use dynashard_api::json::SortKeyJson;
use dynashard_aws::error::causes;
use dynashard_aws::pool::MAX_IDLE;
use dynashard_aws_operator::RequestSigner;
use dynashard_core::ports::{Consistency, SortRange};
use dynashard_core::{Bounds, Code};
use dynashard_keys::{ItemKey, PartitionKey, Placement, ShardCount};
use http::header::{CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, RETRY_AFTER};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use crate::{ClientError, CollectionQuery, Condition, ETag, Found, Page, Store};

/// What a request takes at most: API Gateway answers within 30 seconds.
const TIMEOUT: Duration = Duration::from_secs(31);

/// What a connection takes at most to come to be: behind that, nothing was sent.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// What a URL may hold as it is (RFC 3986, 2.3). A signature covers the query string as it was sent.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The longest path that names a key. The gateway takes 10,240 bytes of request line and headers, and the token of a
/// signature may take some thousand of them. A longer key is sent in the body.
const MAX_PATH: usize = 4_096;

/// The HTTP API of an application.
#[derive(Clone)]
pub struct HttpApi {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    signer: Option<RequestSigner>,
    timeout: Duration,
}

/// An answer of the API.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// A request without its URL's beginning.
struct Call {
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl HttpApi {
    /// The API at a URL, as in `https://abc123.execute-api.eu-west-1.amazonaws.com`. Requests are not signed.
    pub fn new(url: &str) -> Result<Self, ClientError> {
        let refused =
            |why: String| ClientError::Connection(format!("{url:?} is not the API's URL: {why}"));
        let uri = url.parse::<Uri>().map_err(|e| refused(e.to_string()))?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_http || uri.host().is_none() || uri.query().is_some() {
            return Err(refused("it has to be as in https://example.com".to_owned()));
        }
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
            .map_err(|e| ClientError::Connection(format!("no certificates of this system: {e}")))?
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(MAX_IDLE)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Ok(Self {
            client,
            base: url.trim_end_matches('/').to_owned(),
            signer: None,
            timeout: TIMEOUT,
        })
    }

    /// With signed requests, for an API that asks for IAM: a signer of the service `execute-api`, from
    /// [`RequestSigner::of`].
    #[must_use]
    pub fn signed(self, signer: RequestSigner) -> Self {
        Self { signer: Some(signer), ..self }
    }

    /// With another time after which a request is given up.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sends a request, and returns an answer that is not a problem.
    async fn send(&self, call: Call) -> Result<Answer, ClientError> {
        let Call { method, path, mut headers, body } = call;
        let url = format!("{}{path}", self.base);
        // Whether a read has had an effect is not a question.
        let is_write = method != Method::GET && !matches!(path.as_str(), "/query" | "/item/get");
        let end = Instant::now() + self.timeout;
        let failed = |why: String| ClientError::Connection(format!("{url}: {why}"));
        if let Some(signer) = &self.signer {
            let signed = signer.sign(method.as_str(), &url, &headers, body.as_bytes());
            let signed = timeout_at(end, signed).await;
            headers.extend(signed.map_err(|_| failed("no credentials came in time".to_owned()))??);
        }
        let mut request = Request::builder().method(method).uri(&url);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request =
            request.body(Full::new(Bytes::from(body))).map_err(|e| failed(e.to_string()))?;
        let lost = |why: String| {
            if is_write {
                ClientError::refused(Code::OutcomeUnknown.as_str(), why)
            } else {
                ClientError::Connection(why)
            }
        };
        let exchange = async {
            let answer = self.client.request(request).await.map_err(|error| {
                let why = format!("{url}: {}", causes(&error));
                if error.is_connect() { ClientError::Connection(why) } else { lost(why) }
            })?;
            let (parts, body) = answer.into_parts();
            let body = body.collect().await.map_err(|e| lost(format!("{url}: {}", causes(&e))))?;
            Ok::<_, ClientError>(Answer {
                status: parts.status,
                headers: parts.headers,
                body: body.to_bytes(),
            })
        };
        let answer = timeout_at(end, exchange).await;
        let answer = answer.map_err(|_| lost(format!("{url} did not answer in time")))??;
        if answer.status.is_success() { Ok(answer) } else { Err(answer.problem(is_write)) }
    }
}

impl Store for HttpApi {
    async fn get(
        &self,
        key: &ItemKey,
        consistency: Consistency,
    ) -> Result<Option<Found>, ClientError> {
        let is_strong = consistency == Consistency::Strong;
        let call = if let Some(mut path) = item_path(key) {
            if is_strong {
                path.push_str("&consistent=true");
            }
            Call { method: Method::GET, path, headers: Vec::new(), body: String::new() }
        } else {
            let body = item_body(key, is_strong.then_some(true), None)?;
            by_body("/item/get", None, body)
        };
        match self.send(call).await {
            Ok(answer) => {
                Ok(Some(Found { json: answer.json()?, etag: answer.etag("bad_answer")? }))
            }
            Err(error) if error.code() == Some(Code::ItemNotFound.as_str()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn put(
        &self,
        key: &ItemKey,
        json: &str,
        condition: &Condition,
    ) -> Result<ETag, ClientError> {
        let call = if let Some(path) = item_path(key) {
            let headers = [json_header()].into_iter().chain(conditional(condition)).collect();
            Call { method: Method::PUT, path, headers, body: json.to_owned() }
        } else {
            by_body("/item/put", conditional(condition), item_body(key, None, Some(json))?)
        };
        let answer = self.send(call).await?;
        answer.etag(Code::OutcomeUnknown.as_str())
    }

    async fn delete(&self, key: &ItemKey, condition: &Condition) -> Result<(), ClientError> {
        let call = if let Some(path) = item_path(key) {
            let headers = conditional(condition).into_iter().collect();
            Call { method: Method::DELETE, path, headers, body: String::new() }
        } else {
            by_body("/item/delete", conditional(condition), item_body(key, None, None)?)
        };
        self.send(call).await?.said(|answer| answer.status == StatusCode::NO_CONTENT)
    }

    async fn page(
        &self,
        query: &CollectionQuery,
        cursor: Option<&str>,
    ) -> Result<Page, ClientError> {
        #[derive(Deserialize)]
        struct Answered {
            items: Vec<Box<RawValue>>,
            cursor: Option<String>,
        }
        let body = query_body(query, cursor)?;
        let (path, headers) = ("/query".to_owned(), vec![json_header()]);
        let answer = self.send(Call { method: Method::POST, path, headers, body }).await?;
        let Answered { items, cursor } = answer.json()?;
        Ok(Page { items, cursor })
    }

    async fn add_to_counter(
        &self,
        key: &ItemKey,
        amount: i64,
        Bounds { min, max }: Bounds,
    ) -> Result<(), ClientError> {
        #[derive(Serialize)]
        struct Body {
            add: i64,
            min: Option<i64>,
            max: Option<i64>,
        }
        let body = serde_json::to_string(&Body { add: amount, min, max });
        let body = body
            .map_err(|source| ClientError::Json { what: "the add does not become JSON", source })?;
        let (path, headers) = (key_path("/counter", key), vec![json_header()]);
        let answer = self.send(Call { method: Method::POST, path, headers, body }).await?;
        answer.said(|answer| answer.json::<Value>().is_ok_and(|body| body["cell"].is_u64()))
    }

    async fn counter(&self, key: &ItemKey) -> Result<Option<i128>, ClientError> {
        #[derive(Deserialize)]
        struct Answered {
            value: i128,
        }
        let (path, body) = (key_path("/counter", key), String::new());
        match self.send(Call { method: Method::GET, path, headers: Vec::new(), body }).await {
            Ok(answer) => Ok(Some(answer.json::<Answered>()?.value)),
            Err(error) if error.code() == Some(Code::ItemNotFound.as_str()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create_collection(
        &self,
        partition: &PartitionKey,
        placement: Placement,
        count: ShardCount,
    ) -> Result<(), ClientError> {
        let path = format!("/collection?pk={}", encoded(partition.as_str()));
        let body = format!(r#"{{"placement":"{placement}","number_of_shards":{count}}}"#);
        let headers = vec![json_header()];
        let answer = self.send(Call { method: Method::PUT, path, headers, body }).await?;
        answer.said(|answer| matches!(answer.status, StatusCode::CREATED | StatusCode::ACCEPTED))
    }
}

impl fmt::Debug for HttpApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpApi").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Answer {
    fn json<T: for<'a> Deserialize<'a>>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body).map_err(|source| ClientError::Json {
            what: "the answer of the API cannot be read",
            source,
        })
    }

    fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Of a write that succeeded: unless it is what the API says then, something between has answered in its place.
    fn said(&self, is_said: impl FnOnce(&Self) -> bool) -> Result<(), ClientError> {
        let unknown = || {
            let why = format!("{} is not what the API answers", self.status);
            ClientError::refused(Code::OutcomeUnknown.as_str(), why)
        };
        is_said(self).then_some(()).ok_or_else(unknown)
    }

    /// Of a success: by `without`, if it has none.
    fn etag(&self, without: &str) -> Result<ETag, ClientError> {
        let etag = self.header(ETAG).map(ETag::new);
        etag.ok_or_else(|| ClientError::refused(without, "the API answered without an ETag"))
    }

    /// Of a refusal: by the functions with their code, or by what stands before them.
    fn problem(&self, is_write: bool) -> ClientError {
        #[derive(Deserialize)]
        struct Problem {
            code: Option<String>,
            detail: Option<String>,
            message: Option<String>,
        }
        let none = Problem { code: None, detail: None, message: None };
        let problem = serde_json::from_slice::<Problem>(&self.body).unwrap_or(none);
        let code = problem.code.unwrap_or_else(|| {
            // API Gateway gives a function up that runs on, or one has ended without an answer: 500 without a code.
            let is_lost = is_write && self.status.is_server_error();
            let unknown = Code::OutcomeUnknown.as_str().to_owned();
            if is_lost { unknown } else { format!("http_{}", self.status.as_u16()) }
        });
        let detail = problem.detail.or(problem.message).unwrap_or_else(|| self.status.to_string());
        let retry_after = self.header(RETRY_AFTER).and_then(|secs| secs.parse().ok());
        ClientError::Refused { code, detail, retry_after: retry_after.map(Duration::from_secs) }
    }
}

fn query_body(query: &CollectionQuery, cursor: Option<&str>) -> Result<String, ClientError> {
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        index: Option<&'a str>,
        pk: &'a str,
        begins_with: Option<&'a str>,
        from: Option<SortKeyJson<'a>>,
        to: Option<SortKeyJson<'a>>,
        order: &'static str,
        limit: u32,
        strategy: &'static str,
        consistent: bool,
        cursor: Option<&'a str>,
    }
    let page = query.page(cursor);
    let (begins_with, from, to) = match &page.range {
        SortRange::All => (None, None, None),
        SortRange::BeginsWith(prefix) => (Some(prefix.as_str()), None, None),
        SortRange::From(from) => (None, Some(SortKeyJson(from)), None),
        SortRange::To(to) => (None, None, Some(SortKeyJson(to))),
        SortRange::Between(from, to) => (None, Some(SortKeyJson(from)), Some(SortKeyJson(to))),
    };
    let body = Body {
        index: query.index(),
        pk: page.partition.as_str(),
        begins_with,
        from,
        to,
        order: if page.ascending { "asc" } else { "desc" },
        limit: page.limit,
        strategy: page.strategy.as_str(),
        consistent: page.consistency == Consistency::Strong,
        cursor: page.cursor.as_deref(),
    };
    serde_json::to_string(&body)
        .map_err(|source| ClientError::Json { what: "the query does not become JSON", source })
}

fn key_path(path: &str, key: &ItemKey) -> String {
    let (pk, sk) = (encoded(key.partition.as_str()), encoded(&key.sort.to_string()));
    format!("{path}?pk={pk}&sk={sk}")
}

/// The path of an item, unless its key is too long for one.
fn item_path(key: &ItemKey) -> Option<String> {
    let path = key_path("/item", key);
    (path.len() <= MAX_PATH).then_some(path)
}

/// A request that has its key in the body.
fn by_body(path: &str, condition: Option<(String, String)>, body: String) -> Call {
    let headers = [json_header()].into_iter().chain(condition).collect();
    Call { method: Method::POST, path: path.to_owned(), headers, body }
}

fn item_body(
    key: &ItemKey,
    consistent: Option<bool>,
    item: Option<&str>,
) -> Result<String, ClientError> {
    #[derive(Serialize)]
    struct Body<'a> {
        pk: &'a str,
        sk: SortKeyJson<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        consistent: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        item: Option<&'a RawValue>,
    }
    let failed = |source| ClientError::Json { what: "the item does not become JSON", source };
    let item = item.map(serde_json::from_str).transpose().map_err(failed)?;
    let body = Body { pk: key.partition.as_str(), sk: SortKeyJson(&key.sort), consistent, item };
    serde_json::to_string(&body).map_err(failed)
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

fn json_header() -> (String, String) {
    (CONTENT_TYPE.to_string(), "application/json".to_owned())
}

fn conditional(condition: &Condition) -> Option<(String, String)> {
    match condition {
        Condition::None => None,
        Condition::Absent => Some((IF_NONE_MATCH.to_string(), "*".to_owned())),
        Condition::Version(etag) => Some((IF_MATCH.to_string(), etag.to_string())),
    }
}
