//! Acts on the events of the scale function.

use std::sync::Mutex;

use dynashard_api::response::Response;
use dynashard_core::ports::{
    AlarmControl, Clock, Entropy, HeatAlarms, HeatSource, MetadataStore, TableCapacity,
};
use dynashard_core::{Deadline, Directory, Reading};
use dynashard_lambda::alarm::{AlarmEvent, AlarmRefusal};
use dynashard_lambda::metrics::{Counter, Metrics};
use dynashard_lambda::{Event, Handler, Patience, answer};
use lambda_runtime::Error;
use serde::Serialize;

use crate::capacity::{Capacity, CapacityView};
use crate::report::HeatView;
use crate::requests::Requests;

/// Requests for shards, the alarms on throttles, and the schedule, which finds an alarm whose event was lost and lets
/// collections shrink.
pub(crate) struct ScaleHandler<W, T, M, C, E> {
    requests: Requests<M, C, E>,
    patience: Patience,
    pub(crate) watch: W,
    pub(crate) capacity: Capacity<T>,
    pub(crate) main_table: String,
    metrics: Metrics,
    /// Where the last look at the collections that may shrink has ended, if time ran out.
    pub(crate) shrink_after: Mutex<Option<String>>,
}

/// The outcome that Lambda returns. After an alarm, only a person who sends one by hand reads it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Outcome {
    /// The answer to a request.
    Answered(Response),
    /// What was found throttled, and what was done about it.
    Acted(HeatView),
    /// What was decided about the capacity.
    Decided(CapacityView),
    /// Nothing was done, and why.
    Idle {
        /// A sentence without its full stop.
        nothing_done: String,
    },
    /// A schedule that found an alarm on the capacity raised.
    Swept {
        /// What was done about partitions.
        partitions: Box<Outcome>,
        /// What was decided about the capacity.
        capacity: CapacityView,
    },
}

impl Outcome {
    pub(crate) fn idle(why: impl Into<String>) -> Self {
        Self::Idle { nothing_done: why.into() }
    }
}

impl<W, T, M, C, E> ScaleHandler<W, T, M, C, E>
where
    W: HeatSource + HeatAlarms,
    T: TableCapacity + AlarmControl,
    M: MetadataStore,
    C: Clock,
    E: Entropy,
{
    /// Passes requests to `requests`, and acts on the throttles of `main_table`: those of its partitions that `watch` finds,
    /// and those by its own capacity.
    pub(crate) fn new(
        requests: Requests<M, C, E>,
        watch: W,
        capacity: Capacity<T>,
        main_table: String,
        metrics: Metrics,
    ) -> Self {
        let patience = Patience::new(requests.now());
        let shrink_after = Mutex::default();
        Self { requests, patience, watch, capacity, main_table, metrics, shrink_after }
    }

    /// Acts on one event by its deadline. An error makes Lambda send the event again.
    pub(crate) async fn handle(
        &self,
        event: Event,
        request_id: &str,
        deadline: Deadline,
    ) -> Result<Outcome, Error> {
        match event {
            Event::Request(_) => {
                let answered = answer(&self.requests, event, request_id, deadline, &self.patience);
                let response = answered.await;
                self.count(Counter::of_codes(response.reasons()));
                Ok(Outcome::Answered(response))
            }
            Event::Schedule => {
                // If one fails, the other is looked at all the same.
                let partitions = self.sweep_partitions(deadline).await;
                let capacity = self.sweep_capacity(deadline).await;
                let (partitions, capacity) = (partitions?, capacity?);
                Ok(match capacity {
                    Some(capacity) => Outcome::Swept { partitions: Box::new(partitions), capacity },
                    None => partitions,
                })
            }
            // Nobody reads the answer to another event, so one that is not an alarm is logged and counted.
            Event::Alarm(event) | Event::Stream(event) => match AlarmEvent::parse(&event) {
                Ok(alarm) if self.capacity.is_watched_by(&alarm) => {
                    self.on_capacity_alarm(&alarm, deadline).await
                }
                Ok(alarm) => self.on_partitions_alarm(&alarm, deadline).await,
                Err(refusal) => Ok(self.refuse(&refusal)),
            },
        }
    }

    /// The time, for deadlines.
    pub(crate) fn now(&self) -> Reading {
        self.requests.now()
    }

    pub(crate) fn directory(&self) -> &Directory<M, C, E> {
        self.requests.directory()
    }

    /// Sending the event again would change nothing, so a refusal is not an error.
    pub(crate) fn refuse(&self, refusal: &AlarmRefusal) -> Outcome {
        tracing::warn!(reason = %refusal, "an alarm event was refused");
        self.count([(Counter::AlarmsRefused, 1)]);
        Outcome::idle(refusal.to_string())
    }

    pub(crate) fn count(&self, counted: impl IntoIterator<Item = (Counter, usize)>) {
        self.metrics.count(self.now(), counted);
    }
}
