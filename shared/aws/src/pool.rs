//! The connections that requests are sent on.

use std::time::Duration;

use aws_sdk_dynamodb::config::{ConfigBag, RuntimeComponents, SharedHttpClient};
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext};
use aws_smithy_http_client::{Builder, Connector, ConnectorBuilder};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use parking_lot::Mutex;

use crate::clock::Clocks;

/// How long a connection may idle and still be used. The other side, or a router between, may have
/// given up one that idled longer, and a write on such a connection has an unknown outcome.
pub const MAX_IDLE: Duration = Duration::from_secs(4);

/// A client whose connections idle for at most four seconds, and no longer than that in a freeze.
pub fn http_client() -> SharedHttpClient {
    http_client_by(ProxyConfig::disabled())
}

/// Such a client, whose requests take their way through a proxy.
pub fn http_client_by(proxies: ProxyConfig) -> SharedHttpClient {
    http_client_with(MAX_IDLE, proxies, Clocks::now)
}

/// Such connections, for requests that the SDK has no client for.
pub fn connector_by(proxies: ProxyConfig, settings: HttpConnectorSettings) -> SharedHttpConnector {
    connector_with(MAX_IDLE, proxies, settings, Clocks::now)
}

fn http_client_with<C>(max_idle: Duration, proxies: ProxyConfig, clocks: C) -> SharedHttpClient
where
    C: Fn() -> Clocks + Send + Sync + 'static,
{
    SharedHttpClient::new(Thawing::new(max_idle, clocks, move || {
        let proxies = proxies.clone();
        Builder::new().build_with_connector_fn(move |settings, components| {
            let mut builder = Connector::builder();
            builder.set_connector_settings(settings.cloned());
            builder.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
            built(builder, max_idle, &proxies)
        })
    }))
}

fn connector_with<C>(
    max_idle: Duration,
    proxies: ProxyConfig,
    settings: HttpConnectorSettings,
    clocks: C,
) -> SharedHttpConnector
where
    C: Fn() -> Clocks + Send + Sync + 'static,
{
    SharedHttpConnector::new(Thawing::new(max_idle, clocks, move || {
        let builder = Connector::builder().connector_settings(settings.clone());
        SharedHttpConnector::new(built(builder, max_idle, &proxies))
    }))
}

fn built(builder: ConnectorBuilder, max_idle: Duration, proxies: &ProxyConfig) -> Connector {
    builder
        .pool_idle_timeout(max_idle)
        .proxy_config(proxies.clone())
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .tls_context(TlsContext::default())
        .build()
}

/// Replaces its pool after a freeze.
///
/// The pool tells by the monotonic clock how long a connection idles. Lambda freezes environments
/// between invocations, and the monotonic clock may stand meanwhile.
struct Thawing<T, C> {
    max_idle: Duration,
    /// Makes a pool without connections.
    make: Box<dyn Fn() -> T + Send + Sync>,
    clocks: C,
    pool: Mutex<Pool<T>>,
}

struct Pool<T> {
    connections: T,
    latest: Clocks,
    /// For how long the monotonic clock stood since the pool was made, all freezes together: a
    /// connection may have idled through several.
    frozen: Duration,
}

impl<T> Pool<T> {
    fn new(connections: T, now: Clocks) -> Self {
        Self { connections, latest: now, frozen: Duration::ZERO }
    }
}

impl<T: Clone, C: Fn() -> Clocks> Thawing<T, C> {
    fn new(max_idle: Duration, clocks: C, make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        let pool = Mutex::new(Pool::new(make(), clocks()));
        Self { max_idle, make: Box::new(make), clocks, pool }
    }

    fn current(&self) -> T {
        let now = (self.clocks)();
        let mut pool = self.pool.lock();
        let frozen = now.frozen_since(pool.latest);
        pool.frozen += frozen;
        pool.latest = now;
        if pool.frozen > self.max_idle {
            *pool = Pool::new((self.make)(), now);
        }
        pool.connections.clone()
    }
}

impl<C: Fn() -> Clocks + Send + Sync> HttpConnector for Thawing<SharedHttpConnector, C> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        self.current().call(request)
    }
}

impl<C: Fn() -> Clocks + Send + Sync> HttpClient for Thawing<SharedHttpClient, C> {
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

impl<T, C> std::fmt::Debug for Thawing<T, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thawing").field("max_idle", &self.max_idle).finish_non_exhaustive()
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
    use aws_smithy_runtime_api::client::http::http_client_fn;
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
        let read = clocks_of(&clocks);
        let http_client = http_client_with(MAX_IDLE, ProxyConfig::disabled(), read);
        freeze(&clocks, http_client).await;
    }

    /// The connections of requests that the SDK has no client for had no limit of idleness.
    #[tokio::test]
    async fn regression_other_requests_used_connections_from_before_a_freeze() {
        let clocks = Arc::<Mutex<Clocks>>::default();
        let read = clocks_of(&clocks);
        let settings = HttpConnectorSettings::builder().build();
        let connector = connector_with(MAX_IDLE, ProxyConfig::disabled(), settings, read);
        freeze(&clocks, http_client_fn(move |_, _| connector.clone())).await;
    }

    fn clocks_of(clocks: &Arc<Mutex<Clocks>>) -> impl Fn() -> Clocks + Send + Sync + 'static {
        let clocks = Arc::clone(clocks);
        move || *clocks.lock()
    }

    async fn freeze(clocks: &Mutex<Clocks>, http_client: SharedHttpClient) {
        let server = Server::start(http_client).await;
        let pass = |monotonic: u64, boot: u64, wall: u64| {
            let mut clocks = clocks.lock();
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
