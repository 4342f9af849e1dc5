//! What invokes functions of its own accord: the streams of tables, alarms and the time, and the
//! queues that take what could not be processed.

mod alarms;
mod schedules;
mod streams;

use std::sync::Arc;
use std::time::SystemTime;

use alarms::Actions;
use streams::Pump;
use time::macros::format_description;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::clock::{self, SharedClock};
use crate::cloudwatch::Transition;
use crate::dynamodb::engine::Store;
use crate::lambda::LambdaApi;
use crate::plan::Plan;
use crate::server::until_stopped;

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
        lambda: &LambdaApi,
        clock: &SharedClock,
    ) -> Self {
        let LambdaApi { runtime, background, queues, access } = lambda;
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
                    mapping: mapping.clone(),
                    store: store.clone(),
                    pool: Arc::clone(pool),
                    queues: Arc::clone(queues),
                    access: Arc::clone(access),
                    clock: Arc::clone(clock),
                };
                tasks.spawn(Arc::new(pump).run(stopped.clone()));
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

/// A time as AWS writes it in events, to the second: `2026-11-20T10:10:10Z`.
fn timestamp_secs(time: SystemTime) -> String {
    clock::format(time, format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z"))
}
