//! What invokes functions of its own accord: the streams of tables, alarms and the time, and the
//! queues that take what could not be processed.

mod alarms;
mod schedules;
mod streams;

use crate::clock::SharedClock;
use crate::cloudwatch::Transition;
use crate::lambda::{Background, Runtime};
use crate::plan::Plan;
use crate::queues::Queues;
use crate::server::Stop;
use alarms::Actions;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;
use streams::Pump;
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// The event sources of all functions, at work until [`Events::stop`].
#[derive(Debug)]
pub(crate) struct Events {
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Events {
    /// Starts what the template maps to each function, and acts on the `transitions` of alarms.
    ///
    /// Streams are read from the engine itself, at the address `engine`: what the stack does is no
    /// traffic of an application, and is neither counted nor throttled.
    pub(crate) fn start(
        plan: &Plan,
        engine: SocketAddr,
        transitions: mpsc::UnboundedReceiver<Transition>,
        runtime: &Runtime,
        background: &Arc<Background>,
        queues: &Arc<Queues>,
        clock: &SharedClock,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let actions = Actions {
            permissions: plan.permissions.clone(),
            pools: runtime.pools().clone(),
            background: Arc::clone(background),
            clock: Arc::clone(clock),
        };
        tasks.spawn(until_stopped(actions.follow(transitions), stopped.clone()));
        for function in &plan.functions {
            let Some(pool) = runtime.pool(&function.name) else {
                continue;
            };
            for mapping in &function.streams {
                let pump = Pump {
                    mapping: Arc::new(mapping.clone()),
                    engine,
                    pool: Arc::clone(pool),
                    queues: Arc::clone(queues),
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

/// Runs `work` to its end, or until it is to stop.
async fn until_stopped(work: impl Future<Output = ()>, mut stop: Stop) {
    tokio::select! {
        () = work => {}
        // The loss of the other half says so too.
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

/// A time as AWS writes it in events, to the second: `2026-11-20T10:10:10Z`.
fn timestamp_secs(time: SystemTime) -> String {
    const FORMAT: &[BorrowedFormatItem<'_>] =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    OffsetDateTime::from(time).format(FORMAT).unwrap_or_default()
}

/// The same to the millisecond: `2026-11-20T10:10:10.123Z`.
fn timestamp_millis(time: SystemTime) -> String {
    const FORMAT: &[BorrowedFormatItem<'_>] =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    OffsetDateTime::from(time).format(FORMAT).unwrap_or_default()
}
