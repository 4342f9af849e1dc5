//! Acts on the events of the scale function.

use std::sync::Mutex;

use dynashard_core::ports::{AlarmControl, Clock, HeatAlarms, HeatSource, TableCapacity};
use dynashard_core::{Deadline, Moment, ScalingMode};
use dynashard_lambda::alarm::{AlarmEvent, AlarmRefusal};
use dynashard_lambda::metrics::{Counter, Metrics};
use dynashard_lambda::{Event, Handler, Patience, answer};
use lambda_runtime::Error;

use crate::capacity::Capacity;
use crate::outcome::Outcome;
use crate::partitions::{Partitions, Pass};
use crate::requests::Requests;

/// Requests for shards, the alarms on throttles, and the schedule, which finds an alarm whose event was lost and lets
/// collections shrink.
pub(crate) struct ScaleHandler<W, T> {
    requests: Requests,
    patience: Patience,
    watch: W,
    capacity: Capacity<T>,
    main_table: String,
    metrics: Metrics,
    /// Where the last look at the collections that may shrink has ended, if time ran out.
    pass: Mutex<Pass>,
}

impl<W, T> ScaleHandler<W, T>
where
    W: HeatSource + HeatAlarms,
    T: TableCapacity + AlarmControl,
{
    /// Passes requests to `requests`, and acts on the throttles of `main_table`: those of its partitions that `watch` finds,
    /// and those by its own capacity.
    pub(crate) fn new(
        requests: Requests,
        watch: W,
        capacity: Capacity<T>,
        main_table: String,
        metrics: Metrics,
    ) -> Self {
        let patience = Patience::new(requests.now());
        let pass = Mutex::default();
        Self { requests, patience, watch, capacity, main_table, metrics, pass }
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
                // It is soon done, and to look at the collections may take all the time.
                let capacity = self.capacity.sweep(self.clock(), deadline).await;
                let partitions = self.partitions().sweep(deadline).await;
                // Whoever decides without a function's variables decides by this.
                self.publish_policy(deadline).await;
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
                Ok(alarm) => match alarm.window(&self.main_table, self.now().epoch_secs()) {
                    Ok((window, access)) => self.partitions().scale(window, access, deadline).await,
                    Err(refusal) => Ok(self.refuse(&refusal)),
                },
                Err(refusal) => Ok(self.refuse(&refusal)),
            },
        }
    }

    /// The time, for deadlines.
    pub(crate) fn now(&self) -> Moment {
        self.requests.now()
    }

    /// Tells by what the stack decides to those that have no function's variables: endpoints, beside applications. What
    /// could not be told is told by the next schedule.
    async fn publish_policy(&self, deadline: Deadline) {
        let pinned = self.requests.directory().pinned();
        if let Err(error) = Box::pin(pinned.publish_policy(deadline)).await {
            tracing::warn!(%error, "what the stack decides by could not be told to its endpoints");
        }
    }

    async fn on_capacity_alarm(
        &self,
        alarm: &AlarmEvent,
        deadline: Deadline,
    ) -> Result<Outcome, Error> {
        if self.capacity.mode == ScalingMode::Off {
            return Ok(Outcome::idle("ScalingMode is off"));
        }
        match alarm.capacity_window(&self.main_table, self.now().epoch_secs()) {
            Ok(window) => {
                let decided = self.capacity.scale(window, self.clock(), deadline).await;
                decided.map(Outcome::Decided)
            }
            Err(refusal) => Ok(self.refuse(&refusal)),
        }
    }

    fn partitions(&self) -> Partitions<'_, W> {
        Partitions {
            watch: &self.watch,
            directory: self.requests.directory(),
            metrics: &self.metrics,
            pass: &self.pass,
        }
    }

    fn clock(&self) -> &dyn Clock {
        self.requests.directory().clock()
    }

    /// Sending the event again would change nothing, so a refusal is not an error.
    fn refuse(&self, refusal: &AlarmRefusal) -> Outcome {
        tracing::warn!(reason = %refusal, "an alarm event was refused");
        self.count([(Counter::AlarmsRefused, 1)]);
        Outcome::idle(refusal.to_string())
    }

    fn count(&self, counted: impl IntoIterator<Item = (Counter, usize)>) {
        self.metrics.count(self.now(), counted);
    }
}
