//! The connections that requests are sent on.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::config::{ConfigBag, RuntimeComponents, SharedHttpClient};
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext};
use aws_smithy_http_client::{Builder, Connector};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;

use crate::clock::Clocks;

/// How long a connection may idle and still be used. The other side, or a router between, may have
/// given up one that idled longer, and a write on such a connection has an unknown outcome.
const MAX_IDLE: Duration = Duration::from_secs(4);

/// A client whose connections idle for at most four seconds, and no longer than that in a freeze.
pub fn http_client() -> SharedHttpClient {
    http_client_by(ProxyConfig::disabled())
}

/// Such a client, whose requests take their way through a proxy.
pub fn http_client_by(proxies: ProxyConfig) -> SharedHttpClient {
    http_client_with(MAX_IDLE, proxies, Clocks::now)
}

fn http_client_with<C>(max_idle: Duration, proxies: ProxyConfig, clocks: C) -> SharedHttpClient
where
    C: Fn() -> Clocks + Send + Sync + 'static,
{
    let pool = Mutex::new(Pool::new(max_idle, &proxies, clocks()));
    SharedHttpClient::new(ThawingClient { max_idle, proxies, clocks, pool })
}

/// Replaces its pool after a freeze.
///
/// The pool tells by the monotonic clock how long a connection idles. Lambda freezes environments
/// between invocations, and the monotonic clock may stand meanwhile.
struct ThawingClient<C> {
    max_idle: Duration,
    proxies: ProxyConfig,
    clocks: C,
    pool: Mutex<Pool>,
}

#[derive(Debug)]
struct Pool {
    client: SharedHttpClient,
    latest: Clocks,
    /// For how long the monotonic clock stood since the pool was made, all freezes together: a
    /// connection may have idled through several.
    frozen: Duration,
}

impl Pool {
    fn new(max_idle: Duration, proxies: &ProxyConfig, now: Clocks) -> Self {
        let proxies = proxies.clone();
        let client = Builder::new().build_with_connector_fn(move |settings, components| {
            let mut builder = Connector::builder();
            builder.set_connector_settings(settings.cloned());
            builder.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
            builder
                .pool_idle_timeout(max_idle)
                .proxy_config(proxies.clone())
                .tls_provider(Provider::Rustls(CryptoMode::Ring))
                .tls_context(TlsContext::default())
                .build()
        });
        Self { client, latest: now, frozen: Duration::ZERO }
    }
}

impl<C: Fn() -> Clocks> ThawingClient<C> {
    fn current(&self) -> SharedHttpClient {
        let now = (self.clocks)();
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let frozen = now.frozen_since(pool.latest);
        pool.frozen += frozen;
        pool.latest = now;
        if pool.frozen > self.max_idle {
            *pool = Pool::new(self.max_idle, &self.proxies, now);
        }
        pool.client.clone()
    }
}

impl<C: Fn() -> Clocks + Send + Sync> HttpClient for ThawingClient<C> {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        self.current().http_connector(settings, components)
    }

    fn validate_base_client_config(
        &self,
        components: &RuntimeComponentsBuilder,
        config: &ConfigBag,
    ) -> Result<(), BoxError> {
        HttpClient::validate_base_client_config(&self.current(), components, config)
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        self.current().connector_metadata()
    }
}

impl<C> std::fmt::Debug for ThawingClient<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThawingClient").field("pool", &self.pool).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use aws_config::BehaviorVersion;
    use aws_sdk_dynamodb::config::{Credentials, Region};
    use aws_sdk_dynamodb::{Client, Config};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// A server that keeps its connections open, and counts them.
    struct Server {
        client: Client,
        connections: Arc<AtomicUsize>,
    }

    impl Server {
        async fn start(http_client: SharedHttpClient) -> Self {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
            let address = listener.local_addr().expect("the port that was bound");
            let connections = Arc::<AtomicUsize>::default();
            let accepted = Arc::clone(&connections);
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    accepted.fetch_add(1, Ordering::Relaxed);
                    tokio::spawn(converse(stream));
                }
            });
            let config = Config::builder()
                .behavior_version(BehaviorVersion::latest())
                .region(Region::from_static("local"))
                .credentials_provider(Credentials::new("local", "local", None, None, "local"))
                .endpoint_url(format!("http://{address}"))
                .http_client(http_client)
                .build();
            Self { client: Client::from_conf(config), connections }
        }

        /// Sends a request, and tells how many connections there were so far.
        async fn connections(&self) -> usize {
            self.client.list_tables().send().await.expect("an answer");
            self.connections.load(Ordering::Relaxed)
        }
    }

    async fn converse(mut stream: TcpStream) -> std::io::Result<()> {
        let mut received = Vec::new();
        while stream.read_buf(&mut received).await? > 0 {
            if received.ends_with(b"\r\n\r\n{}") {
                received.clear();
                let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-amz-json-1.0\r\n\
                              content-length: 2\r\n\r\n{}";
                stream.write_all(answer.as_bytes()).await?;
            }
        }
        Ok(())
    }

    /// A connection that the other side gave up in a freeze cost a 504.
    #[tokio::test]
    async fn regression_a_connection_from_before_a_freeze_was_used_after_it() {
        let clocks = Arc::<Mutex<Clocks>>::default();
        let read = Arc::clone(&clocks);
        let http_client = http_client_with(MAX_IDLE, ProxyConfig::disabled(), move || {
            *read.lock().expect("the clocks")
        });
        let server = Server::start(http_client).await;
        let pass = |monotonic: u64, boot: u64, wall: u64| {
            let mut clocks = clocks.lock().expect("the clocks");
            clocks.monotonic += Duration::from_secs(monotonic);
            clocks.boot += Duration::from_secs(boot);
            clocks.wall += Duration::from_secs(wall);
        };
        assert_eq!(server.connections().await, 1);
        pass(3_600, 3_600, 3_600);
        assert_eq!(server.connections().await, 1, "the pool itself counts the time awake");
        pass(1, 4, 4);
        assert_eq!(server.connections().await, 1, "a short freeze");
        pass(1, 3, 3);
        assert_eq!(server.connections().await, 2, "short freezes add up");
        pass(0, 0, 3_600);
        assert_eq!(server.connections().await, 3, "the boot clock stands as well");
    }

    #[tokio::test]
    async fn a_connection_is_used_again_until_it_idled_for_too_long() {
        for (max_idle, connections) in [(MAX_IDLE, 1), (Duration::ZERO, 2)] {
            let server =
                Server::start(http_client_with(max_idle, ProxyConfig::disabled(), Clocks::default))
                    .await;
            server.connections().await;
            assert_eq!(server.connections().await, connections, "{max_idle:?}");
        }
    }
}
