//! Requests in DynamoDB's own words, which are signed anew and sent as they are.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::config::endpoint::{DefaultResolver, Params, ResolveEndpoint};
use aws_smithy_runtime_api::client::http::{HttpConnector, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use dynashard_aws::SystemClock;
use dynashard_aws::error::{causes, is_never_sent};
use dynashard_core::Lease;
use dynashard_core::ports::Clock;
use thiserror::Error;

use crate::client::connector;
use crate::operator::{ConnectError, Operator, proxies_to};
use crate::signing::RequestSigner;

/// Sends what a client of DynamoDB has asked, by the caller's own credentials. Clones share their connections.
#[derive(Debug, Clone)]
pub struct RawClient {
    url: Arc<str>,
    connector: SharedHttpConnector,
    signer: RequestSigner,
    clock: SystemClock,
}

/// What is sent.
#[derive(Debug, Clone)]
pub struct RawRequest<'a> {
    /// The header `X-Amz-Target`, such as `DynamoDB_20120810.PutItem`.
    pub target: &'a str,
    /// The header by which an endpoint tells its own requests, and its value.
    pub mark: (&'static str, &'a str),
    /// The body.
    pub body: Vec<u8>,
    /// The lease that a request on a managed table stands on: it is dated by it, and not sent after it (protocol: "Lease").
    pub lease: Option<Lease>,
}

/// What was answered.
#[derive(Debug, Clone)]
pub struct RawAnswer {
    /// The status.
    pub status: u16,
    /// The id that DynamoDB gave the request.
    pub request_id: Option<String>,
    /// When, by the server's clock, as its `Date` says.
    pub date: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RawError {
    /// The lease has run out, or does not tell DynamoDB's time. Nothing was sent.
    #[error("the metadata lease ran out before the request was sent")]
    LeaseExpired,
    /// Nothing was sent.
    #[error("{0}")]
    NotSent(String),
    /// It was sent, and whether it was executed is unknown.
    #[error("{0}")]
    NoAnswer(String),
}

impl RawClient {
    /// A client of the server at this URL, with what this operator signs by.
    pub fn new(operator: &Operator, url: &str) -> Self {
        Self {
            url: format!("{}/", url.trim_end_matches('/')).into(),
            connector: SharedHttpConnector::new(connector(proxies_to(Some(url)))),
            signer: RequestSigner::of(operator, "dynamodb"),
            clock: operator.clock(),
        }
    }

    /// Where requests go.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether there are credentials now.
    ///
    /// # Errors
    /// What is wrong with them, in one line.
    pub async fn check_credentials(&self) -> Result<(), ConnectError> {
        self.signer.check().await
    }

    /// Signs a request, and sends it once.
    ///
    /// # Errors
    /// [`RawError`], which says whether it may have been executed. Whatever DynamoDB itself answers is an answer.
    pub async fn send(&self, request: RawRequest<'_>) -> Result<RawAnswer, RawError> {
        let now = self.clock.now();
        let date = match request.lease.map(|lease| lease.date_secs(now)).transpose() {
            Ok(date) => date.flatten(),
            Err(_) => return Err(RawError::LeaseExpired),
        };
        let signed_at = date.map_or(now.wall, Duration::from_secs);
        let headers = [
            ("content-type".to_owned(), "application/x-amz-json-1.0".to_owned()),
            ("x-amz-target".to_owned(), request.target.to_owned()),
            (request.mark.0.to_owned(), request.mark.1.to_owned()),
        ];
        let signed =
            self.signer.sign_at(UNIX_EPOCH + signed_at, "POST", &self.url, &headers, &request.body);
        let signed = signed.await.map_err(|error| RawError::NotSent(error.to_string()))?;
        let length = request.body.len().to_string();
        let mut sent = HttpRequest::new(SdkBody::from(request.body));
        let wrong = |error: &(dyn std::error::Error + 'static)| RawError::NotSent(causes(error));
        sent.set_method("POST").map_err(|e| wrong(&e))?;
        sent.set_uri(&*self.url).map_err(|e| wrong(&e))?;
        let length = ("content-length".to_owned(), length);
        for (name, value) in headers.into_iter().chain(signed).chain([length]) {
            sent.headers_mut().try_insert(name, value).map_err(|e| wrong(&e))?;
        }
        // The check runs after signing and before sending, so every request that is sent was signed before its lease ended.
        let now = self.clock.now();
        let may_be_sent = request.lease.is_none_or(|lease| {
            lease.is_live(now) && date.is_none_or(|secs| lease.allows_date(now, secs))
        });
        if !may_be_sent {
            return Err(RawError::LeaseExpired);
        }
        let answer = self.connector.call(sent).await.map_err(|error| {
            // Only a connection that never came to be is known to have carried nothing.
            if is_never_sent(&error) {
                RawError::NotSent(causes(&error))
            } else {
                RawError::NoAnswer(causes(&error))
            }
        })?;
        self.received(answer).await
    }

    async fn received(&self, answer: HttpResponse) -> Result<RawAnswer, RawError> {
        let status = answer.status().as_u16();
        let header = |name: &str| answer.headers().get(name).map(str::to_owned);
        let (request_id, date) = (header("x-amzn-requestid"), header("date"));
        if let Some(date) = &date {
            self.clock.note_date(date);
        }
        let body = ByteStream::new(answer.into_body()).collect().await;
        let body = body.map_err(|error| RawError::NoAnswer(causes(&error)))?.to_vec();
        Ok(RawAnswer { status, request_id, date, body })
    }

    /// The time by the clock of this machine.
    pub fn wall(&self) -> SystemTime {
        UNIX_EPOCH + self.clock.now().wall
    }
}

impl Operator {
    /// The server that this operator asks.
    ///
    /// # Errors
    /// DynamoDB has no address in the region.
    pub async fn url(&self) -> Result<String, ConnectError> {
        match self.config.endpoint_url() {
            Some(url) => Ok(url.to_owned()),
            None => self.usual_url().await,
        }
    }

    /// Where DynamoDB itself is in the operator's region, whatever the environment says.
    ///
    /// # Errors
    /// It has no address there.
    pub async fn usual_url(&self) -> Result<String, ConnectError> {
        let region = self.config.region().map(ToString::to_string);
        let wrong = |error: &(dyn std::error::Error + 'static)| {
            ConnectError(format!("DynamoDB has no address there: {}", causes(error)))
        };
        let params = Params::builder().set_region(region).build().map_err(|e| wrong(&e))?;
        let endpoint = DefaultResolver::new().resolve_endpoint(&params).await;
        endpoint.map(|endpoint| endpoint.url().to_owned()).map_err(|e| wrong(&*e))
    }
}
