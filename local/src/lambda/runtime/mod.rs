//! Lambda on one machine: pools of execution environments that run the real bootstraps over the
//! Lambda Runtime API.
//!
//! A [`Pool`] belongs to one function and hands each invocation to an environment. Each environment
//! is a process with a task of its own ([`environment`]) that follows it from its start to its end.
//! The processes talk to [`api`].

mod api;
mod background;
mod calls;
mod environment;
#[cfg(test)]
pub(crate) mod fake;
mod log;
mod pool;
mod process;
#[cfg(test)]
mod tests;

pub(crate) use background::Background;
pub(crate) use calls::{Completed, Invocation};
pub(crate) use pool::{EnvironmentInfo, InvokeError, MAX_PAYLOAD, Pool};
pub(crate) use process::{Bootstraps, Launch};

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use api::RuntimeApi;
use calls::Registry;
use parking_lot::Mutex;

use crate::StartError;
use crate::clock::SharedClock;
use crate::plan::Function;
use crate::server::{self, Server};

/// The running functions.
#[derive(Debug)]
pub(crate) struct Runtime {
    pools: BTreeMap<String, Arc<Pool>>,
    /// The Runtime API, which ends after the processes that use it: taken by the shutdown.
    api: Mutex<Option<Server>>,
}

impl Runtime {
    /// Starts one environment of each function and waits until it has asked for its first event.
    ///
    /// `launcher` is told the address of the Runtime API, and launches all processes of this
    /// runtime.
    pub(crate) async fn start<L: Launch>(
        functions: &[Function],
        max_environments: usize,
        clock: &SharedClock,
        launcher: impl FnOnce(SocketAddr) -> L,
    ) -> Result<Self, StartError> {
        let listener = server::bind_free().await?;
        let launcher: Arc<dyn Launch> = Arc::new(launcher(server::address(&listener)?));
        let registry = Arc::new(Registry::default());
        let api = Server::start(listener, Arc::new(RuntimeApi(Arc::clone(&registry))));
        let pools = functions.iter().map(|function| {
            let reserved =
                function.reserved_concurrency.and_then(|most| usize::try_from(most).ok());
            let pool = Pool::new(
                function.clone(),
                reserved.unwrap_or(max_environments),
                Arc::clone(clock),
                Arc::clone(&launcher),
                Arc::clone(&registry),
                environment::run,
            );
            (function.name.clone(), pool)
        });
        let runtime = Self { pools: pools.collect(), api: Mutex::new(Some(api)) };
        match runtime.warm_up().await {
            Ok(()) => Ok(runtime),
            Err(error) => {
                runtime.shutdown().await;
                Err(error)
            }
        }
    }

    /// The pool of a function.
    pub(crate) fn pool(&self, function: &str) -> Option<&Arc<Pool>> {
        self.pools.get(function)
    }

    /// The pools of all functions by their names.
    pub(crate) fn pools(&self) -> &BTreeMap<String, Arc<Pool>> {
        &self.pools
    }

    /// All environments that run now.
    pub(crate) fn environments(&self) -> Vec<EnvironmentInfo> {
        self.pools.values().flat_map(|pool| pool.environments()).collect()
    }

    /// Ends every environment, and then the Runtime API. Invocations that run are lost.
    pub(crate) async fn shutdown(&self) {
        // All are told first, so that their periods of grace pass at the same time.
        for pool in self.pools.values() {
            pool.stop();
        }
        for pool in self.pools.values() {
            pool.stopped().await;
        }
        let api = self.api.lock().take();
        if let Some(api) = api {
            api.stop().await;
        }
    }

    async fn warm_up(&self) -> Result<(), StartError> {
        let starts: Vec<_> = self.pools.values().map(|pool| (pool, pool.warm())).collect();
        for (pool, ready) in starts {
            let outcome = ready.await.unwrap_or_else(|_| Err("it was stopped".to_owned()));
            outcome.map_err(|problem| StartError::Init {
                function: pool.function.name.clone(),
                problem,
            })?;
        }
        Ok(())
    }
}
