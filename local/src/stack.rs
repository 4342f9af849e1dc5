//! The stack as a whole: what starts after what, and what ends before what.

use crate::StartError;
use crate::binaries::Functions;
use crate::clock::{SharedClock, SystemClock};
use crate::engine::Engine;
use crate::front::{Counters, Front};
use crate::gateway::Gateway;
use crate::lambda_api::LambdaApi;
use crate::runtime::{Background, Bootstraps, Runtime};
use crate::server::{self, Handler};
use crate::template::{Template, TemplateSource};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What to run, and where.
#[derive(Clone, Debug)]
pub struct StackOptions {
    /// The SAM template.
    pub template: TemplateSource,
    /// Values of template parameters, as pairs of a name and a value.
    pub overrides: Vec<(String, String)>,
    /// The port of the HTTP API; 0 takes a free one, here as below.
    pub port: u16,
    /// The port of the `dynamodb` endpoint.
    pub dynamodb_port: u16,
    /// The port of the `lambda` endpoint.
    pub lambda_port: u16,
    /// Where the tables are kept; in memory without it.
    pub data_dir: Option<PathBuf>,
    /// The executables of the functions.
    pub functions: Functions,
    /// How many environments of one function may run at the same time; at least one does.
    pub max_environments: usize,
}

impl StackOptions {
    /// A stack on free ports and in memory, with up to ten environments of each function.
    pub fn new(template: TemplateSource, functions: Functions) -> Self {
        Self {
            template,
            overrides: Vec::new(),
            port: 0,
            dynamodb_port: 0,
            lambda_port: 0,
            data_dir: None,
            functions,
            max_environments: 10,
        }
    }
}

/// Where a stack is reached, as URLs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Endpoints {
    /// The HTTP API.
    pub api: String,
    /// DynamoDB and DynamoDB Streams, for any SDK. `GET /_dynashard/counters` tells its
    /// [`Counters`].
    pub dynamodb: String,
    /// The Invoke operation of Lambda, for any SDK. `GET /_dynashard/environments` lists the
    /// environments.
    pub lambda: String,
}

/// A running stack.
///
/// End it with [`Stack::shutdown`]. A stack that is dropped leaves its end to the async runtime's:
/// its processes are killed then.
#[derive(Debug)]
pub struct Stack {
    endpoints: Endpoints,
    data: Data,
    runtime: Arc<Runtime>,
    background: Arc<Background>,
    gateway: Server,
    lambda_api: Server,
}

impl Stack {
    /// Starts everything, and returns when each function has an environment that waits for events.
    pub async fn start(options: StackOptions) -> Result<Self, StartError> {
        let template = Template::load(&options.template, &options.overrides)?;
        let executables = options.functions.locate(&template.functions)?;
        let api = server::bind(options.port, "--port").await?;
        let dynamodb = server::bind(options.dynamodb_port, "--dynamodb-port").await?;
        let lambda = server::bind(options.lambda_port, "--lambda-port").await?;
        let endpoints =
            Endpoints { api: url(&api)?, dynamodb: url(&dynamodb)?, lambda: url(&lambda)? };
        let clock: SharedClock = Arc::new(SystemClock);
        let data = Data::start(&template, options.data_dir, dynamodb, &clock).await?;
        let launcher = |runtime_api| Bootstraps {
            executables,
            runtime_api,
            dynamodb: endpoints.dynamodb.clone(),
        };
        let functions = &template.functions;
        let runtime = Runtime::start(functions, options.max_environments, &clock, launcher).await;
        let runtime = match runtime {
            Ok(runtime) => Arc::new(runtime),
            Err(error) => {
                data.stop().await;
                return Err(error);
            }
        };
        let background = Arc::new(Background::new(Arc::clone(&clock)));
        let gateway = Gateway::new(functions, &runtime, Arc::clone(&clock));
        let lambda_api = LambdaApi::new(Arc::clone(&runtime), Arc::clone(&background), clock);
        Ok(Self {
            endpoints,
            data,
            runtime,
            background,
            gateway: Server::start(api, Arc::new(gateway)),
            lambda_api: Server::start(lambda, Arc::new(lambda_api)),
        })
    }

    /// Where the stack is reached.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// What the `dynamodb` endpoint has counted so far.
    pub fn counters(&self) -> Counters {
        self.data.front.counters()
    }

    /// Ends everything in order, and returns when no process, thread or task of the stack is left.
    ///
    /// Requests that run are given a moment to end; with a data directory, everything acknowledged
    /// is in it.
    pub async fn shutdown(self) {
        // From the outside in: what ends first is what calls the next.
        tokio::join!(self.gateway.stop(), self.lambda_api.stop());
        self.background.shutdown().await;
        self.runtime.shutdown().await;
        self.data.stop().await;
    }
}

/// The engine with its public endpoint.
#[derive(Debug)]
struct Data {
    engine: Engine,
    front: Arc<Front>,
    server: Server,
}

impl Data {
    async fn start(
        template: &Template,
        directory: Option<PathBuf>,
        listener: TcpListener,
        clock: &SharedClock,
    ) -> Result<Self, StartError> {
        let tables = template.tables.clone();
        let engine =
            tokio::task::spawn_blocking(move || Engine::start(directory.as_deref(), &tables));
        let engine = engine.await.map_err(|error| StartError::Engine(error.to_string()))??;
        let lifetime = template.request_lifetime();
        let front = Arc::new(Front::new(engine.address(), lifetime, Arc::clone(clock)));
        Ok(Self { engine, server: Server::start(listener, Arc::clone(&front)), front })
    }

    async fn stop(self) {
        self.server.stop().await;
        // The engine waits for its connections, and these are the front's.
        drop(self.front);
        self.engine.stop().await;
    }
}

/// An endpoint that is being served.
#[derive(Debug)]
struct Server {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    fn start(listener: TcpListener, handler: Arc<impl Handler>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(server::serve(listener, handler, stopped));
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        if self.task.await.is_err() {
            tracing::error!("an endpoint panicked");
        }
    }
}

fn url(listener: &TcpListener) -> Result<String, StartError> {
    let address = server::address(listener)?;
    Ok(format!("http://{address}"))
}
