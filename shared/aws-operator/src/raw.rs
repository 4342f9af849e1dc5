//! Requests in DynamoDB's own words, which are signed anew and sent as they are.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::config::endpoint::{DefaultResolver, Params, ResolveEndpoint};
use aws_smithy_async::future::timeout::Timeout;
use aws_smithy_async::rt::sleep::{AsyncSleep, TokioSleep};
use aws_smithy_runtime_api::client::http::{HttpConnector, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use bytes::Bytes;
use dynashard_aws::SystemClock;
use dynashard_aws::client::ATTEMPT_TIMEOUT;
use dynashard_aws::error::{causes, is_expired_by, is_never_sent};
use dynashard_aws::interceptors::DatedAhead;
use dynashard_core::Lease;
use dynashard_core::ports::Clock;
use serde_json::Value;
use thiserror::Error;

use crate::client::connector;
use crate::credentials::ConnectError;
use crate::operator::{Operator, proxies_to};
use crate::signing::RequestSigner;

/// Sends what a client of DynamoDB has asked, by the caller's own credentials. Clones share their connections.
#[derive(Debug, Clone)]
pub struct RawClient {
    url: Arc<str>,
    connector: SharedHttpConnector,
    signer: RequestSigner,
    clock: SystemClock,
    /// How long one request and the whole of its answer may take.
    timeout: Duration,
}

/// What is sent.
#[derive(Debug, Clone)]
pub struct RawRequest<'a> {
    /// The header `X-Amz-Target`, such as `DynamoDB_20120810.PutItem`.
    pub target: &'a str,
    /// The header by which an endpoint tells its own requests, and its value.
    pub mark: (&'static str, &'a str),
    /// The body.
    pub body: Bytes,
    /// The leases that a write to managed tables stands on, none where it stands on nothing: it is dated by the one with the earliest
    /// date, and sent while all are live and allow its date (protocol: "Lease").
    pub leases: Vec<Lease>,
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
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RawError {
    /// A lease has run out or does not tell DynamoDB's time, and nothing was sent; or DynamoDB has refused the date by a lease as
    /// too long ago. Nothing was executed, and it may be sent again under a lease that lives (protocol: "What is definite").
    #[error("the metadata lease, or the date by it, ran out before the request was executed")]
    LeaseExpired,
    /// Nothing was sent: there is no connection, no credentials, or a clock that is right.
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
            connector: connector(proxies_to(Some(url))),
            signer: RequestSigner::of(operator, "dynamodb"),
            clock: operator.clock(),
            timeout: ATTEMPT_TIMEOUT,
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
        let dates = request.leases.iter().map(|lease| lease.date_secs(now));
        let Ok(dates) = dates.collect::<Result<Vec<_>, _>>() else {
            return Err(RawError::LeaseExpired);
        };
        let date = dates.into_iter().flatten().min();
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
        if !request.leases.iter().all(|lease| lease.is_live(now)) {
            return Err(RawError::LeaseExpired);
        }
        if !request.leases.iter().all(|lease| lease.allows_date(now, signed_at.as_secs())) {
            return Err(RawError::NotSent(DatedAhead.to_string()));
        }
        let sleep = TokioSleep::new().sleep(self.timeout);
        let answer = Timeout::new(self.exchange(sent), sleep).await.map_err(|_| {
            RawError::NoAnswer(format!("no whole answer came within {:?}", self.timeout))
        })??;
        if date.is_some() && is_expired(&answer) {
            return Err(RawError::LeaseExpired);
        }
        Ok(answer)
    }

    async fn exchange(&self, request: HttpRequest) -> Result<RawAnswer, RawError> {
        let answer = self.connector.call(request).await.map_err(|error| {
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
        let body = body.map_err(|error| RawError::NoAnswer(causes(&error)))?.into_bytes();
        Ok(RawAnswer { status, request_id, date, body })
    }

    /// The time by the clock of this machine.
    pub fn wall(&self) -> SystemTime {
        UNIX_EPOCH + self.clock.now().wall
    }
}

/// Whether a request was refused because it was dated too long ago.
fn is_expired(answer: &RawAnswer) -> bool {
    if answer.status != 400 {
        return false;
    }
    let body = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
    let code = body["__type"].as_str().unwrap_or_default();
    let code = code.rsplit_once('#').map_or(code, |(_, code)| code);
    let message = body["message"].as_str().or(body["Message"].as_str()).unwrap_or_default();
    is_expired_by(code, message)
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
        let params = Params::builder()
            .set_region(region)
            .set_use_fips(self.config.use_fips())
            .set_use_dual_stack(self.config.use_dual_stack())
            .build()
            .map_err(|e| wrong(&e))?;
        let endpoint = DefaultResolver::new().resolve_endpoint(&params).await;
        endpoint.map(|endpoint| endpoint.url().to_owned()).map_err(|e| wrong(&*e))
    }
}

#[cfg(test)]
mod tests {
    use aws_smithy_runtime_api::client::http::HttpConnectorFuture;
    use dynashard_core::ports::Clock;
    use parking_lot::Mutex;

    use super::*;

    /// Keeps the dates of requests, and gives each the same answer.
    #[derive(Debug, Clone)]
    struct Server {
        dates: Arc<Mutex<Vec<String>>>,
        status: u16,
        body: &'static str,
    }

    impl HttpConnector for Server {
        fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
            let date = request.headers().get("x-amz-date").unwrap_or_default().to_owned();
            self.dates.lock().push(date);
            let status = self.status.try_into().expect("a status");
            HttpConnectorFuture::ready(Ok(HttpResponse::new(status, SdkBody::from(self.body))))
        }
    }

    impl Server {
        fn answering(status: u16, body: &'static str) -> Self {
            Self { dates: Arc::default(), status, body }
        }

        /// A client of this server. Its clock is that of the machine.
        async fn client(&self) -> RawClient {
            let operator = Operator::on_this_machine("http://127.0.0.1:1").await;
            let client = RawClient::new(&operator, "http://127.0.0.1:1");
            RawClient { connector: SharedHttpConnector::new(self.clone()), ..client }
        }

        fn dates(&self) -> Vec<String> {
            self.dates.lock().clone()
        }
    }

    const TERM: Duration = Duration::from_mins(10);

    /// A lease of a read that was answered now by a server whose clock is so far behind ours.
    fn lease(client: &RawClient, behind: Duration) -> Lease {
        let now = client.clock.now();
        Lease::new(now, Some(now.wall.as_secs() - behind.as_secs()), TERM)
    }

    async fn put(client: &RawClient, leases: &[Lease]) -> Result<u16, RawError> {
        let request = RawRequest {
            target: "DynamoDB_20120810.PutItem",
            mark: ("x-mark", "1"),
            body: Bytes::from_static(b"{}"),
            leases: leases.to_vec(),
        };
        client.send(request).await.map(|answer| answer.status)
    }

    /// By a clock that is ahead a write is executed for longer than H after it was signed (protocol: A2).
    #[tokio::test]
    async fn regression_a_write_that_is_not_dated_back_was_sent_by_a_clock_that_is_ahead() {
        let server = Server::answering(200, "{}");
        let client = server.client().await;
        let ahead = lease(&client, Duration::from_mins(2));
        let refused = put(&client, &[ahead]).await;
        assert_eq!(refused, Err(RawError::NotSent(DatedAhead.to_string())));
        assert_eq!(server.dates(), Vec::<String>::new());
        assert_eq!(put(&client, &[lease(&client, Duration::ZERO)]).await, Ok(200));
        assert_eq!(put(&client, &[]).await, Ok(200), "what stands on nothing");
    }

    #[tokio::test]
    async fn a_request_stands_on_all_its_leases_and_has_the_earliest_date() {
        let server = Server::answering(200, "{}");
        let client = server.client().await;
        let live = lease(&client, Duration::ZERO);
        let now = client.clock.now();
        let over = Lease::new(now, Some(now.wall.as_secs()), Duration::ZERO);
        for leases in [[live, over], [over, live]] {
            assert_eq!(put(&client, &leases).await, Err(RawError::LeaseExpired));
        }
        // Of a read that was answered long ago by the server's clock, so that the dates are fixed but for this test's duration.
        let dated = |age: u64| {
            let read = Lease::new(now, Some(1_795_592_000), TERM);
            read.signed_ago(Duration::from_secs(age), now)
        };
        for leases in [[dated(3_600), dated(60)], [dated(60), dated(3_600)]] {
            assert_eq!(put(&client, &leases).await, Ok(200));
        }
        for date in server.dates() {
            assert!(date.starts_with("20261125T063"), "{date}");
        }
        assert_eq!(server.dates().len(), 2);
    }

    /// It was told to the client, whose write was not executed and was to be sent again.
    #[tokio::test]
    async fn regression_a_date_by_a_lease_that_was_refused_as_expired_went_to_the_client() {
        let expired = r#"{"__type":"com.amazon.coral.service#InvalidSignatureException",
            "message":"Signature expired: 20261125T070000Z is now earlier than 20261125T070100Z (20261125T070600Z - 5 min.)"}"#;
        let other = r#"{"__type":"com.amazon.coral.service#InvalidSignatureException",
            "message":"The request signature we calculated does not match the signature you provided."}"#;
        for (body, outcome) in [(expired, Err(RawError::LeaseExpired)), (other, Ok(400))] {
            let client = Server::answering(400, body).client().await;
            let now = client.clock.now();
            let dated = lease(&client, Duration::ZERO).signed_ago(Duration::from_secs(270), now);
            assert_eq!(put(&client, &[dated]).await, outcome);
            assert_eq!(put(&client, &[]).await, Ok(400), "by the clock of this machine");
        }
    }

    /// Takes requests, and answers none.
    #[derive(Debug)]
    struct Silent;

    impl HttpConnector for Silent {
        fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
            HttpConnectorFuture::new(std::future::pending())
        }
    }

    /// The time was limited until the head of an answer only.
    #[tokio::test]
    async fn regression_an_answer_that_did_not_end_was_waited_for_without_end() {
        let client = Server::answering(200, "{}").client().await;
        let connector = SharedHttpConnector::new(Silent);
        let client = RawClient { connector, timeout: Duration::ZERO, ..client };
        let outcome = put(&client, &[]).await;
        assert!(matches!(outcome, Err(RawError::NoAnswer(_))), "{outcome:?}");
    }
}
