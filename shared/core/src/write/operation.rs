use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use dynashard_keys::{ItemKey, ShardId};

use crate::directory::Known;
use crate::ports::{Action, Clock, Condition, Entropy, Expected, ItemStore, MetadataStore, Write};
use crate::retry::{Attempts, within};
use crate::write::writer::Writer;
use crate::{Deadline, Error, Throttle};

/// No write begins with less time than this before its deadline: one that is cut off has an unknown
/// outcome, and one that was never sent has not.
pub(super) const LEAST_WRITE_TIME: Duration = Duration::from_secs(1);

/// How long a write that is done waits for the growth that it has asked for. A request to the metadata
/// table takes milliseconds.
const GROWTH_TIME: Duration = Duration::from_millis(300);

/// A growth that is being begun, if any. The mutex is never locked: it lets operations be shared.
type Growing<'a> = Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send + 'a>>>>;

/// One operation on one item: what all its attempts share.
pub(super) struct Operation<'a, I, M, C, E> {
    pub(super) writer: &'a Writer<I, M, C, E>,
    pub(super) key: &'a ItemKey,
    pub(super) deadline: Deadline,
    pub(super) attempts: Attempts<'a, C, E>,
    /// A growth that was asked for. It goes on while a write is under way, or waits to be sent again.
    growth: Growing<'a>,
    /// The write units that DynamoDB has reported so far.
    pub(super) consumed_wcu: f64,
}

/// Why an attempt has no result.
pub(super) enum Interrupted {
    /// Nothing that a client could see has happened, and the operation begins again.
    BeginAgain,
    /// The operation is over.
    Failed(Error),
}

impl From<Error> for Interrupted {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl<'a, I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Operation<'a, I, M, C, E> {
    pub(super) fn new(
        writer: &'a Writer<I, M, C, E>,
        key: &'a ItemKey,
        deadline: Deadline,
    ) -> Self {
        let attempts = writer.directory.attempts(deadline.earlier_by(LEAST_WRITE_TIME));
        Self { writer, key, deadline, attempts, growth: Growing::default(), consumed_wcu: 0.0 }
    }

    /// The guarded write of this operation to one shard.
    pub(super) fn guarded(
        &self,
        shard: ShardId,
        action: Action,
        expected: Expected,
        known: &Known,
    ) -> Write {
        Write {
            key: self.key.at(shard, self.writer.directory.settings().schema.separator),
            action,
            condition: Condition { generation: known.metadata.generation, expected },
            lease: known.lease,
        }
    }

    /// Has the collection grow, if a throttle of this shard is a reason to. Whatever comes of it, the write
    /// itself goes on being tried meanwhile.
    pub(super) fn ask_for_growth(&mut self, shard: ShardId, throttle: Throttle) {
        let (writer, partition, deadline) = (self.writer, &self.key.partition, self.deadline);
        growing(&mut self.growth).get_or_insert_with(|| {
            Box::pin(async move {
                let (growths, directory) = (&writer.growths, &writer.directory);
                growths.after_throttle(directory, partition, shard, &throttle, deadline).await;
            })
        });
    }

    /// The output of `work`. The growth that was asked for goes on beside it.
    pub(super) async fn beside_growth<T>(&mut self, work: impl Future<Output = T>) -> T {
        beside(&mut self.growth, work).await
    }

    /// Gives the growth that was asked for a moment to be begun: Lambda freezes the environment when the
    /// answer is out.
    pub(super) async fn end(mut self) {
        if let Some(growth) = growing(&mut self.growth).take() {
            let Writer { growths, directory, .. } = self.writer;
            let time = Deadline::after(directory.now(), GROWTH_TIME);
            if within(directory.clock(), time, growth).await.is_none() {
                growths.was_cut_off(directory, &self.key.partition);
            }
        }
    }

    /// Waits, and has the operation begin again; or ends it with `refusal`, if no time is left.
    pub(super) async fn begin_again_after(&mut self, refusal: Error) -> Interrupted {
        match beside(&mut self.growth, self.attempts.pause(refusal)).await {
            Ok(()) => Interrupted::BeginAgain,
            Err(error) => Interrupted::Failed(error),
        }
    }

    /// Has the operation begin again under fresh metadata: an item was ahead of what is in hand.
    pub(super) async fn begin_again_fresh(&mut self) -> Interrupted {
        self.writer.directory.forget(&self.key.partition);
        match self.attempts.refresh().await {
            Ok(()) => Interrupted::BeginAgain,
            Err(error) => Interrupted::Failed(error),
        }
    }
}

fn growing<'a, 'g>(
    growth: &'g mut Growing<'a>,
) -> &'g mut Option<Pin<Box<dyn Future<Output = ()> + Send + 'a>>> {
    growth.get_mut().unwrap_or_else(PoisonError::into_inner)
}

/// The output of `work`, while a growth goes on beside it.
async fn beside<T>(growth: &mut Growing<'_>, work: impl Future<Output = T>) -> T {
    let growth = growing(growth);
    let mut work = pin!(work);
    poll_fn(|context| {
        if let Some(going_on) = growth
            && going_on.as_mut().poll(context) == Poll::Ready(())
        {
            *growth = None;
        }
        work.as_mut().poll(context)
    })
    .await
}
