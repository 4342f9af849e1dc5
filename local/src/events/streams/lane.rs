//! One lane of a stream shard: it gathers batches and delivers them one after the other.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::delivery::{Delivery, Discarded, Outcome, Step};
use super::failure::{self, Attempt, Origin};
use super::record::{self, Record};
use super::{Pump, answer};
use crate::lambda::{InvokeError, MAX_PAYLOAD};
use crate::plan::{Asked, queue_arn};

/// Where a reader puts the records of a lane.
pub(super) type Pages = mpsc::Sender<Vec<Record>>;

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) pump: Arc<Pump>,
    pub(super) stream_arn: String,
    /// The stream shard that it belongs to.
    pub(super) shard: String,
    pub(super) pages: mpsc::Receiver<Vec<Record>>,
}

impl Lane {
    /// Delivers what comes, until nothing can come any more or the stack ends.
    pub(super) async fn run(mut self) {
        let mut waiting = VecDeque::new();
        while let Some(batch) = self.gather(&mut waiting).await {
            if self.deliver(&batch).await.is_break() {
                return;
            }
        }
    }

    /// The next batch: as many records as there are, and where there are too few for a full batch,
    /// those that come within the batching window. None where nothing comes any more.
    async fn gather(&mut self, waiting: &mut VecDeque<Record>) -> Option<Vec<Record>> {
        while waiting.is_empty() {
            waiting.extend(self.pages.recv().await?);
        }
        let mut closing = self.pump.clock.sleep(self.pump.mapping.window);
        while self.room(waiting) == waiting.len() && waiting.len() < self.pump.mapping.batch_size {
            tokio::select! {
                // What is there is taken even if the window is over.
                biased;
                page = self.pages.recv() => match page {
                    Some(page) => waiting.extend(page),
                    None => break,
                },
                () = &mut closing => break,
            }
        }
        let count = self.room(waiting);
        Some(waiting.drain(..count).collect())
    }

    /// How many of the waiting records fit in a batch: at least one, up to the batch size and up to
    /// Lambda's limit for an event.
    fn room(&self, waiting: &VecDeque<Record>) -> usize {
        // The event's own braces and brackets take less than this.
        const FRAME: usize = 64;
        let mut bytes = FRAME;
        let fitting = waiting.iter().take(self.pump.mapping.batch_size).take_while(|record| {
            bytes += record.len() + 1;
            bytes <= MAX_PAYLOAD
        });
        fitting.count().max(1)
    }

    /// Carries a batch to its end: every record of it is processed or given up. Breaks where the
    /// stack ends first.
    async fn deliver(&self, batch: &[Record]) -> ControlFlow<()> {
        let created = batch.iter().map(|record| record.created).collect();
        let mut delivery = Delivery::new(created, self.pump.mapping.retry);
        let mut last = None;
        loop {
            match delivery.next(self.pump.clock.now()) {
                Step::Wait(pause) => self.pump.clock.sleep(pause).await,
                Step::Invoke(records) => {
                    let event = record::event(&batch[records.clone()]);
                    let invocation = self.pump.pool.invocation(event);
                    let request_id = invocation.request_id.clone();
                    let outcome = match self.pump.pool.invoke(invocation).await {
                        Ok(completed) => {
                            last = Some(Attempt { request_id, failed: completed.failed });
                            let reports = self.pump.mapping.reports_failures;
                            answer::read(&completed, reports, &batch[records])
                        }
                        Err(InvokeError::Throttled) => Outcome::NotInvoked,
                        Err(InvokeError::Stopped) => return ControlFlow::Break(()),
                    };
                    delivery.answered(outcome);
                }
                Step::Discard(discarded) => {
                    let records = &batch[discarded.records.clone()];
                    // Otherwise the last attempt was one with other records.
                    let last = last.as_ref().filter(|_| discarded.invocations > 0);
                    self.discard(&discarded, records, last);
                }
                Step::Done => return ControlFlow::Continue(()),
            }
        }
    }

    fn discard(&self, discarded: &Discarded, records: &[Record], last: Option<&Attempt>) {
        let function = &self.pump.pool.function.name;
        tracing::warn!(
            function,
            records = records.len(),
            reason = ?discarded.reason,
            "records of a stream were given up"
        );
        if let Some(queue) = &self.pump.mapping.on_failure {
            let asked = Asked::of("sqs:SendMessage".to_owned(), queue_arn(queue));
            // What may not be told is lost, as on AWS. The check has logged it.
            if self.pump.access.check(function, &asked).is_err() {
                return;
            }
            let origin = Origin { function, stream_arn: &self.stream_arn, shard: &self.shard };
            let document =
                failure::document(origin, discarded, records, last, self.pump.clock.now());
            self.pump.queues.send(queue, document.to_string());
        }
    }
}
