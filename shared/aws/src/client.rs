//! Clients of DynamoDB and CloudWatch.

use std::time::Duration;

use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{Builder, Credentials, Region, StalledStreamProtectionConfig};

use crate::clock::ServerClock;
use crate::interceptors::DateWatch;
use crate::pool::http_client;
use crate::signing::DatedSignatures;

/// Within a region, a connection takes a few milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// DynamoDB answers in milliseconds, CloudWatch within a second. A request that waits longer has lost its
/// connection, and its outcome is unknown.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// A client of DynamoDB with the environment's region and credentials. It sends every request once
/// and notes the server's time in `server_clock`. With an `endpoint`, a URL, it asks the server there.
pub async fn connect(endpoint: Option<&str>, server_clock: ServerClock) -> Client {
    client_at(endpoint, &environment().await, server_clock)
}

/// As [`connect`], with a client of CloudWatch, which repeats requests that failed for a passing
/// reason.
pub async fn connect_with_cloudwatch(
    endpoint: Option<&str>,
    server_clock: ServerClock,
) -> (Client, aws_sdk_cloudwatch::Client) {
    let config = environment().await;
    (client_at(endpoint, &config, server_clock), cloudwatch_at(None, &config))
}

/// As [`connect`], for an engine on this machine at `endpoint`, a URL. Region and credentials are
/// made up: an engine takes any credentials, and should not see real ones.
pub async fn connect_local(endpoint: &str, server_clock: ServerClock) -> Client {
    client(&local(endpoint).await, server_clock)
}

/// As [`connect_with_cloudwatch`], for a server on this machine that stands in for both.
pub async fn connect_local_with_cloudwatch(
    endpoint: &str,
    server_clock: ServerClock,
) -> (Client, aws_sdk_cloudwatch::Client) {
    let config = local(endpoint).await;
    (client(&config, server_clock), cloudwatch_at(None, &config))
}

async fn environment() -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest()).http_client(http_client()).load().await
}

/// Region and credentials that are made up, for a server on this machine.
pub async fn local(endpoint: &str) -> SdkConfig {
    let credentials = Credentials::new("local", "local", None, None, "local");
    aws_config::defaults(BehaviorVersion::latest())
        .region(Region::from_static("local"))
        .credentials_provider(credentials)
        .endpoint_url(endpoint)
        .http_client(http_client())
        .load()
        .await
}

fn client(config: &SdkConfig, server_clock: ServerClock) -> Client {
    client_at(None, config, server_clock)
}

fn client_at(endpoint: Option<&str>, config: &SdkConfig, server_clock: ServerClock) -> Client {
    let mut config = config_within(config, CONNECT_TIMEOUT);
    if let Some(url) = endpoint {
        config = config.endpoint_url(url);
    }
    Client::from_conf(config.interceptor(DateWatch::new(server_clock)).build())
}

/// How DynamoDB is asked: each request is sent once, and has a connection after `connect_timeout` at the latest.
pub fn config_within(config: &SdkConfig, connect_timeout: Duration) -> Builder {
    let mut builder = Builder::from(config);
    // Credentials that carry an account would be sent to a host of that account. Functions and
    // operators, whose credentials differ, are to meet the same hosts.
    builder.set_account_id_endpoint_mode("disabled".parse().ok());
    builder
        .push_auth_scheme(DatedSignatures::default())
        .retry_config(RetryConfig::disabled())
        // It would date requests by a difference of clocks that an answer which was read late gets wrong by minutes, and
        // DynamoDB executes a request for as long after its date, whenever it was signed (protocol: "Assumptions").
        .disable_clock_skew_correction(true)
        .timeout_config(timeouts(connect_timeout))
        // Bodies are small and the attempt timeout bounds them.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
}

/// A client of CloudWatch, or of the server at `endpoint`, a URL, that stands in for it.
pub fn cloudwatch_at(endpoint: Option<&str>, config: &SdkConfig) -> aws_sdk_cloudwatch::Client {
    let mut config = aws_sdk_cloudwatch::config::Builder::from(config);
    if let Some(url) = endpoint {
        config = config.endpoint_url(url);
    }
    let config = config
        .retry_config(RetryConfig::standard())
        .timeout_config(timeouts(CONNECT_TIMEOUT))
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    aws_sdk_cloudwatch::Client::from_conf(config.build())
}

fn timeouts(connect_timeout: Duration) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(connect_timeout)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .build()
}

#[cfg(test)]
mod tests {
    use aws_smithy_runtime_api::client::http::{
        HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
    };
    use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
    use aws_smithy_runtime_api::client::result::ConnectorError;

    use super::*;

    /// Notes where requests go, and answers none.
    #[derive(Debug)]
    struct Recorder(std::sync::mpsc::Sender<String>);

    impl HttpConnector for Recorder {
        fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
            self.0.send(request.uri().to_owned()).expect("somebody waits");
            NoNetwork.call(request)
        }
    }

    #[derive(Debug)]
    struct NoNetwork;

    impl HttpConnector for NoNetwork {
        fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
            HttpConnectorFuture::ready(Err(ConnectorError::io("the network is unreachable".into())))
        }
    }

    #[tokio::test]
    async fn a_function_asks_the_server_that_stands_in_for_dynamodb() {
        let asked = async |endpoint| {
            let (sender, receiver) = std::sync::mpsc::channel();
            let config = aws_config::defaults(BehaviorVersion::latest())
                .region(Region::from_static("eu-west-1"))
                .credentials_provider(Credentials::new("a", "b", None, None, "test"))
                .http_client(http_client_fn(move |_, _| {
                    SharedHttpConnector::new(Recorder(sender.clone()))
                }))
                .load()
                .await;
            let client = client_at(endpoint, &config, ServerClock::default());
            let request = client.describe_table().table_name("items");
            request.send().await.expect_err("nobody answers");
            receiver.try_recv().expect("one request")
        };
        assert_eq!(asked(None).await, "https://dynamodb.eu-west-1.amazonaws.com/");
        assert_eq!(asked(Some("http://172.18.0.1:8000")).await, "http://172.18.0.1:8000/");
    }
}
