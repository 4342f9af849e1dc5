//! DynamoDB on one machine: the engine with its public endpoint, alone or as part of a stack.

pub(crate) mod endpoint;
pub(crate) mod engine;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dynashard_limits::partition::Limits;
use tokio::net::TcpListener;

use crate::StartError;
use crate::access::Access;
use crate::clock::{SharedClock, SystemClock};
use crate::dynamodb::endpoint::{Counters, Endpoint, Observed};
use crate::dynamodb::engine::{Engine, Store};
use crate::plan::Table;
use crate::server::{self, Server};

/// How to run a DynamoDB alone.
#[derive(Clone, Debug)]
pub struct DynamoDbOptions {
    /// The port of the endpoint; 0 takes a free one.
    pub port: u16,
    /// The address to listen on. Whoever reaches it reads and writes everything.
    pub address: IpAddr,
    /// Where the tables are kept; in memory without it.
    pub data_dir: Option<PathBuf>,
    /// When tables throttle.
    pub partitions: Limits,
    /// How old the signature of a request may be.
    pub signature_window: Duration,
}

impl Default for DynamoDbOptions {
    /// A free port, in memory, with the limits of AWS and a signature window of 15 minutes.
    fn default() -> Self {
        Self {
            port: 0,
            address: Ipv4Addr::LOCALHOST.into(),
            data_dir: None,
            partitions: Limits::default(),
            signature_window: SIGNATURE_WINDOW,
        }
    }
}

/// A DynamoDB that throttles as the real one does, for any SDK.
///
/// It starts empty, or with the tables of its data directory. Like DynamoDB it executes no request
/// whose signature is too old.
///
/// Stop it with [`DynamoDb::shutdown`].
#[derive(Debug)]
pub struct DynamoDb {
    url: String,
    engine: Engine,
    endpoint: Arc<Endpoint>,
    server: Server,
}

impl DynamoDb {
    /// Starts it, and returns when it accepts requests.
    pub async fn start(options: DynamoDbOptions) -> Result<Self, StartError> {
        let listener = server::bind_at(options.address, options.port, "--dynamodb-port").await?;
        Self::serve(listener, options, Vec::new(), Arc::new(SystemClock), Arc::default()).await
    }

    /// The URL of the endpoint. `GET /_dynashard/counters` there answers its [`Counters`], and
    /// `PUT /_dynashard/signature-window` takes another window, in seconds.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What it has counted so far.
    pub fn counters(&self) -> Counters {
        self.endpoint.counters()
    }

    /// Stops it. Running requests are given a moment to end. With a data directory, everything
    /// acknowledged is in it.
    pub async fn shutdown(self) {
        self.server.stop().await;
        // The engine waits for its connections, and these are the endpoint's.
        drop(self.endpoint);
        self.engine.stop().await;
    }

    /// Serves the tables of a template, which are created or found in the data directory. `access` says what the functions
    /// may do.
    pub(crate) async fn serve(
        listener: TcpListener,
        options: DynamoDbOptions,
        tables: Vec<Table>,
        clock: SharedClock,
        access: Arc<Access>,
    ) -> Result<Self, StartError> {
        let url = server::url(&listener)?;
        let DynamoDbOptions { data_dir, partitions, signature_window, .. } = options;
        let insights: Vec<_> =
            tables.iter().filter_map(|table| Some((table.name.clone(), table.insights?))).collect();
        let started = tokio::task::spawn_blocking(move || {
            let engine = Engine::start(data_dir.as_deref(), &tables)?;
            let endpoint = Endpoint::new(&engine, partitions, signature_window, clock, access);
            Ok((engine, endpoint))
        });
        let (engine, endpoint) = started.await.map_err(StartError::engine)??;
        let endpoint = match endpoint {
            Ok(endpoint) => {
                for (table, mode) in insights {
                    endpoint.enable_insights(&table, mode);
                }
                Arc::new(endpoint)
            }
            Err(error) => {
                engine.stop().await;
                return Err(error);
            }
        };
        Ok(Self { url, engine, server: Server::start(listener, Arc::clone(&endpoint)), endpoint })
    }

    /// What `CloudWatch` sees of the tables.
    pub(crate) fn observed(&self) -> &Arc<Observed> {
        self.endpoint.observed()
    }

    /// The engine itself, past everything that the endpoint adds.
    pub(crate) fn store(&self) -> Store {
        self.engine.store()
    }
}

/// DynamoDB's own, at its longest.
const SIGNATURE_WINDOW: Duration = Duration::from_mins(15);
