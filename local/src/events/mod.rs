//! What invokes functions of its own accord: the streams of tables, alarms and the time, and the
//! queues that take what could not be processed.

mod alarms;
mod schedules;
mod streams;
mod time;

use std::sync::Arc;

use alarms::Actions;
use streams::Pump;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::access::Access;
use crate::clock::SharedClock;
use crate::cloudwatch::Transition;
use crate::dynamodb::engine::Store;
use crate::lambda::{Background, Runtime};
use crate::plan::Plan;
use crate::queues::Queues;
use crate::server::until_stopped;

/// What event sources share with the rest of the stack.
pub(crate) struct Surroundings {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) background: Arc<Background>,
    pub(crate) queues: Arc<Queues>,
    pub(crate) access: Arc<Access>,
    pub(crate) clock: SharedClock,
}

/// The event sources of all functions, at work until [`Events::stop`].
#[derive(Debug)]
pub(crate) struct Events {
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Events {
    /// Starts what the template maps to each function, and acts on the `transitions` of alarms.
    ///
    /// Streams are read from the engine itself, `store`: the stack's own reads are
    /// neither counted nor throttled.
    pub(crate) fn start(
        plan: &Plan,
        store: &Store,
        transitions: mpsc::UnboundedReceiver<Transition>,
        around: &Surroundings,
    ) -> Self {
        let Surroundings { runtime, background, queues, access, clock } = around;
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let actions = Actions {
            permissions: plan.permissions.clone(),
            pools: runtime.pools().clone(),
            background: Arc::clone(background),
        };
        tasks.spawn(until_stopped(actions.follow(transitions), stopped.clone()));
        for function in &plan.functions {
            let Some(pool) = runtime.pool(&function.name) else {
                continue;
            };
            for mapping in &function.streams {
                let pump = Pump {
                    mapping: Arc::new(mapping.clone()),
                    store: store.clone(),
                    pool: Arc::clone(pool),
                    queues: Arc::clone(queues),
                    access: Arc::clone(access),
                    clock: Arc::clone(clock),
                };
                tasks.spawn(pump.run(stopped.clone()));
            }
            for schedule in &function.schedules {
                let (pool, background) = (Arc::clone(pool), Arc::clone(background));
                let firing = schedules::fire(schedule.clone(), pool, background, Arc::clone(clock));
                tasks.spawn(until_stopped(firing, stopped.clone()));
            }
        }
        Self { stop, tasks }
    }

    /// Ends all sources, and returns when none is left. Invocations that run are not waited for.
    pub(crate) async fn stop(mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "an event source failed");
            }
        }
    }
}
