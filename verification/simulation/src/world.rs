//! The processes of one simulated stack, and what they share.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dynashard_core::ports::{self, Clock, Consistency};
use dynashard_core::{Deadline, Directory, Settings};
use dynashard_testkit::SeededEntropy;
use futures_util::future::{Either, select};

use crate::clock::LocalClock;
use crate::environment::{Environment, EnvironmentId, Role};
use crate::history::History;
use crate::kernel::Kernel;
use crate::network::{Network, READ_REPLICAS_LAG};
use crate::random::Random;
use crate::scenario::Scenario;

/// Everything that tasks of a run share. Clones are the same world.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) kernel: Kernel,
    pub(crate) network: Network,
    pub(crate) scenario: Arc<Scenario>,
    history: Arc<Mutex<History>>,
    /// Where clients and schedules are: nothing befalls them.
    pub(crate) outside: EnvironmentId,
}

/// A process that runs one of the use cases.
pub(crate) struct Process<T> {
    pub(crate) environment: EnvironmentId,
    use_case: Arc<T>,
}

impl<T> Clone for Process<T> {
    fn clone(&self) -> Self {
        Self { environment: self.environment, use_case: Arc::clone(&self.use_case) }
    }
}

/// What a client gets for a call.
#[derive(Debug)]
pub(crate) enum Reply<R> {
    Answer(R),
    /// The process was killed at it, at the latest now.
    Killed,
    /// The client has given up waiting; the process may go on with it.
    GivenUp,
}

impl World {
    pub(crate) fn new(kernel: Kernel, scenario: Scenario) -> Self {
        let network = Network::new(kernel.clone(), &scenario);
        let outside = kernel.add_environment(|random| {
            Environment::start(Role::World, random, Duration::ZERO, Duration::ZERO)
        });
        if scenario.begins_with_list {
            network.tables().begin_with_list(&scenario.settings);
        }
        let scenario = Arc::new(scenario);
        Self { kernel, network, scenario, history: Arc::default(), outside }
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.scenario.settings
    }

    /// Starts a process in an environment of its own.
    pub(crate) fn start<T>(&self, role: Role, use_case: impl FnOnce(Directory) -> T) -> Process<T> {
        let now = self.kernel.now();
        let skew = self.scenario.wall_skew;
        let environment =
            self.kernel.add_environment(|random| Environment::start(role, random, now, skew));
        let entropy = SeededEntropy::new(self.kernel.draw(Random::next_u64));
        let endpoint = self.network.endpoint(environment);
        let clock = LocalClock::new(self.kernel.clone(), environment);
        let lease_term = self.draw_term();
        let mut settings = Settings { lease_term, ..self.settings().clone() };
        // One that was deployed before items expired learns of the attribute from the directory.
        if self.scenario.items_expire
            && self.network.tables().pins_expiry()
            && self.kernel.draw(|random| random.chance(500_000))
        {
            settings.ttl_attribute = None;
        }
        let world = ports::World::new(endpoint.clone(), endpoint, clock, entropy);
        let use_case = use_case(Directory::new(world, settings).pinning());
        Process { environment, use_case: Arc::new(use_case) }
    }

    /// Which T a new process is deployed with: that of before or the new one, once an operator has
    /// announced that, and now and then the wrong one. When nothing goes wrong any more it is the pinned
    /// one.
    fn draw_term(&self) -> Duration {
        let pinned = self.network.tables().pinned_term();
        let (Some(pinned), Some(next)) = (pinned, self.scenario.next_term) else {
            return self.settings().lease_term;
        };
        if self.kernel.is_kind() {
            return pinned.accepted;
        }
        let other = if pinned.accepted == next { self.settings().lease_term } else { next };
        let accepts_both = pinned.next.is_some();
        let rate = if accepts_both { 500_000 } else { 50_000 };
        if self.kernel.draw(|random| random.chance(rate)) { other } else { pinned.accepted }
    }

    /// Whether a process will not answer any more.
    pub(crate) fn is_killed<T>(&self, process: &Process<T>) -> bool {
        self.kernel.environment(process.environment, |environment, _| environment.is_killed())
    }

    /// Has a process do something with so much time for it, and waits for what comes of it.
    pub(crate) async fn call<T, F>(
        &self,
        process: &Process<T>,
        time: Duration,
        call: impl FnOnce(Arc<T>, Deadline) -> F + Send + 'static,
    ) -> Reply<F::Output>
    where
        T: Send + Sync + 'static,
        F: Future<Output: Send + 'static> + Send,
    {
        let use_case = Arc::clone(&process.use_case);
        let clock = LocalClock::new(self.kernel.clone(), process.environment);
        let result = self.kernel.spawn(process.environment, async move {
            let deadline = Deadline::after(clock.now(), time);
            call(use_case, deadline).await
        });
        let patience = time + self.kernel.draw(|random| random.any_scale(Duration::from_secs(20)));
        match select(result, pin!(self.rest(patience))).await {
            Either::Left((Some(result), _)) => Reply::Answer(result),
            Either::Left((None, _)) => Reply::Killed,
            Either::Right(_) => Reply::GivenUp,
        }
    }

    /// How much time a client gives a call.
    pub(crate) fn draw_timeout(&self) -> Duration {
        Duration::from_millis(self.kernel.draw(|random| random.between(1_500, 20_000)))
    }

    /// How a client reads, and how much earlier than it asked it may see things: an eventually consistent read is a read at some
    /// moment of the last seconds.
    pub(crate) fn draw_consistency(&self) -> (Consistency, Duration) {
        if self.kernel.draw(|random| random.chance(700_000)) {
            return (Consistency::Strong, Duration::ZERO);
        }
        let times = if self.scenario.settings.read_replicas > 0 { READ_REPLICAS_LAG } else { 1 };
        (Consistency::Eventual, times * self.scenario.replicas_lag_by)
    }

    pub(crate) async fn rest(&self, time: Duration) {
        LocalClock::new(self.kernel.clone(), self.outside).sleep(time).await;
    }
}
