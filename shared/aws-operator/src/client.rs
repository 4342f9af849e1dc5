//! How an operator's command asks AWS.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::config::Builder;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_runtime_api::client::http::{HttpConnectorSettings, SharedHttpConnector};
use dynashard_aws::client::{ATTEMPT_TIMEOUT, config_within};
use dynashard_aws::pool::connector_by;

/// An operator may be far from the region. It is shorter than [`ATTEMPT_TIMEOUT`], so that a missing
/// connection is not taken for a missing answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// How an operator's command asks DynamoDB: each request is sent once.
pub(crate) fn config_of_operator(config: &SdkConfig) -> Builder {
    config_within(config, CONNECT_TIMEOUT)
}

/// A connector for requests that the SDK has no client for.
pub(crate) fn connector(proxies: ProxyConfig) -> SharedHttpConnector {
    let settings = HttpConnectorSettings::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(ATTEMPT_TIMEOUT)
        .build();
    connector_by(proxies, settings)
}

#[cfg(test)]
mod tests {
    use aws_config::BehaviorVersion;
    use aws_sdk_dynamodb::Client;
    use aws_sdk_dynamodb::config::{Credentials, Region};
    use aws_smithy_runtime_api::client::http::{
        HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
    };
    use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
    use aws_smithy_runtime_api::client::result::ConnectorError;

    use super::*;
    use crate::answer_watch::AnswerWatch;

    #[derive(Debug)]
    struct NoNetwork;

    impl HttpConnector for NoNetwork {
        fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
            HttpConnectorFuture::ready(Err(ConnectorError::io("the network is unreachable".into())))
        }
    }

    /// An operator's credentials may carry an account, by which the SDK names another host than the one
    /// that functions ask.
    #[tokio::test]
    async fn regression_operators_asked_other_hosts_than_functions() {
        let credentials = Credentials::builder().access_key_id("a").secret_access_key("b");
        let credentials = credentials.account_id("123456789012").provider_name("test").build();
        let watch = AnswerWatch::default();
        let config = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::from_static("eu-west-1"))
            .credentials_provider(credentials)
            .http_client(http_client_fn(|_, _| SharedHttpConnector::new(NoNetwork)))
            .load()
            .await;
        let config = config_of_operator(&config).interceptor(watch.clone());
        let request = Client::from_conf(config.build()).describe_table().table_name("items");
        request.send().await.expect_err("the network is unreachable");
        let server = watch.take().server;
        assert_eq!(server.as_deref(), Some("dynamodb.eu-west-1.amazonaws.com"));
    }
}
