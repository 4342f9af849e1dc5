use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dynashard_keys::{ItemKey, PhysicalKey, ShardId};

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

/// The growth that an operation has asked for, until it is begun or refused. It goes on
/// [beside](Asked::beside) all that the operation does, so that nothing that it holds is held for longer
/// than its own requests take.
#[derive(Default)]
pub(super) struct Asked<'a>(Mutex<Option<Growing<'a>>>);

type Growing<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// One operation on one item: what all its attempts share.
pub(super) struct Operation<'a, I, M, C, E> {
    pub(super) writer: &'a Writer<I, M, C, E>,
    pub(super) key: &'a ItemKey,
    pub(super) deadline: Deadline,
    pub(super) attempts: Attempts<'a, C, E>,
    /// Parts of the operation in several shards share it.
    pub(super) growth: Arc<Asked<'a>>,
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
        Self { writer, key, deadline, attempts, growth: Arc::default(), consumed_wcu: 0.0 }
    }

    /// Where the item lies in a shard.
    pub(super) fn at(&self, shard: ShardId, known: &Known) -> PhysicalKey {
        let separator = self.writer.directory.settings().schema.separator;
        self.key.at(shard, known.metadata.placement, separator)
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
            key: self.at(shard, known),
            action,
            condition: Condition { generation: known.metadata.generation, expected },
            lease: known.lease,
        }
    }

    /// Has the collection grow, if a throttle of this shard is a reason to. Whatever comes of it, the write
    /// itself goes on being tried meanwhile.
    pub(super) fn ask_for_growth(&self, shard: ShardId, throttle: Throttle) {
        let (writer, partition, deadline) = (self.writer, &self.key.partition, self.deadline);
        self.growth.unless_asked(|| {
            Box::pin(async move {
                let (growths, directory) = (&writer.growths, &writer.directory);
                growths.after_throttle(directory, partition, shard, &throttle, deadline).await;
            })
        });
    }

    /// Gives the growth that was asked for a moment to be begun: Lambda freezes the environment when the
    /// answer is out.
    pub(super) async fn end(self) {
        if let Some(growth) = self.growth.take() {
            let Writer { growths, directory, .. } = self.writer;
            let time = Deadline::after(directory.now(), GROWTH_TIME);
            if within(directory.clock(), time, growth).await.is_none() {
                growths.was_cut_off(directory, &self.key.partition);
            }
        }
    }

    /// Waits, and has the operation begin again; or ends it with `refusal`, if no time is left.
    pub(super) async fn begin_again_after(&mut self, refusal: Error) -> Interrupted {
        match self.attempts.pause(refusal).await {
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

impl<'a> Asked<'a> {
    /// The output of `work`, beside which the growth goes on that it asks for.
    pub(super) async fn beside<T>(&self, mut work: Pin<&mut impl Future<Output = T>>) -> T {
        poll_fn(|context| {
            let output = work.as_mut().poll(context);
            if output.is_pending()
                && let Some(mut growing) = self.take()
                && growing.as_mut().poll(context).is_pending()
            {
                *self.lock() = Some(growing);
            }
            output
        })
        .await
    }

    fn unless_asked(&self, growing: impl FnOnce() -> Growing<'a>) {
        self.lock().get_or_insert_with(growing);
    }

    fn take(&self) -> Option<Growing<'a>> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Growing<'a>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
