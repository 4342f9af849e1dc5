//! What all attempts of one write share.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dynashard_keys::{ItemKey, PhysicalKey, ShardId};
use parking_lot::Mutex;

use crate::model::error::{Code, Error};
use crate::model::guard::{Action, Condition, Expected, Write};
use crate::model::lease::Deadline;
use crate::model::policy::Access;
use crate::model::throttle::Throttle;
use crate::usecases::directory::Known;
use crate::usecases::meter::Granted;
use crate::usecases::retry::{Attempts, within};
use crate::usecases::watch::{Beside, IsActing, REPORTING_TIME};
use crate::usecases::write::context::WriteContext;
use crate::usecases::write::held::Counted;
use crate::usecases::write::slow_start::SlowStart;

/// No write begins with less time than this before its deadline: one that is cut off has an unknown
/// outcome, and one that was never sent has not.
pub(super) const LEAST_WRITE_TIME: Duration = Duration::from_secs(1);

/// How long a write that is done waits for a change of its collection that it is beginning, and for the note of it. Few
/// requests to the metadata table take milliseconds, and under a throttle one write of many decides.
const ACTING_TIME: Duration = Duration::from_millis(800);

/// What is reported of an operation's collection, and done about that. It goes on
/// [beside](SideWork::beside) all that the operation does, so that nothing that it holds is held for longer
/// than its own requests take.
#[derive(Default)]
pub(super) struct SideWork<'a> {
    going_on: Mutex<Option<GoingOn<'a>>>,
    is_acting: IsActing,
}

type GoingOn<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// One operation on one item: what all its attempts share.
pub(super) struct Operation<'a> {
    pub(super) context: &'a WriteContext,
    pub(super) key: &'a ItemKey,
    pub(super) deadline: Deadline,
    pub(super) attempts: Attempts<'a>,
    /// Parts of the operation in several shards share it.
    pub(super) aside: Arc<SideWork<'a>>,
    /// That of its batch for its key, if it is of a batch.
    pub(super) start: Option<&'a SlowStart>,
    /// The write units that DynamoDB has reported so far.
    pub(super) consumed_wcu: f64,
    /// How many writes its client's request has, where what is held for clients is counted.
    pub(super) writes_of_request: usize,
    /// Whether it is held for its client once it is throttled, which it was not yet.
    pub(super) is_to_be_held: bool,
    /// Counts it as held, since it was throttled.
    hold: Option<Counted<'a>>,
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

impl<'a> Operation<'a> {
    pub(super) fn new(context: &'a WriteContext, key: &'a ItemKey, deadline: Deadline) -> Self {
        let attempts = context.directory.attempts(deadline.earlier_by(LEAST_WRITE_TIME));
        let aside = Arc::default();
        Self {
            context,
            key,
            deadline,
            attempts,
            aside,
            start: None,
            consumed_wcu: 0.0,
            writes_of_request: 1,
            is_to_be_held: false,
            hold: None,
        }
    }

    /// An operation that comes in, and asks for so many write units, if that is known.
    pub(super) fn arriving(
        context: &'a WriteContext,
        key: &'a ItemKey,
        units: Option<f64>,
        deadline: Deadline,
    ) -> Self {
        context.arrived(key, units);
        Self::new(context, key, deadline)
    }

    /// Where the item lies in a shard.
    pub(super) fn at(&self, shard: ShardId, known: &Known) -> PhysicalKey {
        let separator = self.context.directory.settings().schema.separator;
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

    /// Reports a throttle of this shard. Whatever comes of that, the write itself goes on being tried
    /// meanwhile.
    pub(super) fn was_throttled(&mut self, shard: ShardId, throttle: Throttle) {
        // A cell of a counter gets no shards: its counter gets more cells.
        if self.key.partition.is_reserved() {
            return;
        }
        if std::mem::take(&mut self.is_to_be_held) {
            let now = self.context.clock().now();
            self.context.watch.meter.held(&self.key.partition, now);
            let ledger = self.context.index_ledger();
            if let Some(ledger) = ledger.filter(|_| throttle.is_of_an_index_partition()) {
                self.context.watch.meter.held(ledger, now);
            }
            self.hold = Some(self.context.held.hold());
        }
        let (context, partition, deadline) = (self.context, &self.key.partition, self.deadline);
        self.aside.unless_busy(|is_acting| {
            Box::pin(async move {
                let (watch, directory) = (&context.watch, &context.directory);
                let beside = Beside { deadline, is_acting };
                let access = Access::Write;
                watch.after_throttle(directory, partition, access, shard, &throttle, beside).await;
            })
        });
    }

    /// Reports the load of the last minutes, if that is due. What the meter gives for it is not given again, so that it is left there
    /// while something else goes on.
    fn report_load(&self) {
        if self.aside.is_busy() {
            return;
        }
        let (context, partition, deadline) = (self.context, &self.key.partition, self.deadline);
        let (watch, directory) = (&context.watch, &context.directory);
        let Some(addition) = watch.load_due(directory, partition) else { return };
        self.aside.unless_busy(|is_acting| {
            let beside = Beside { deadline, is_acting };
            Box::pin(watch.report_load(directory, partition, addition, beside))
        });
    }

    /// Gives what goes on beside a moment to be done: Lambda freezes the environment when the answer is out.
    pub(super) async fn end(self, error: Option<&Error>) {
        let WriteContext { watch, directory, .. } = self.context;
        let (partition, now) = (&self.key.partition, directory.now());
        let granted = Granted::to_one(self.consumed_wcu);
        if self.consumed_wcu > 0.0 {
            watch.meter.granted(partition, Access::Write, granted, now);
            if let Some(times) = self.context.held.times() {
                watch.meter.unhindered(partition, times * self.consumed_wcu, now);
            }
        }
        let is_throttled = error.is_some_and(|error| error.code() == Code::Throttled);
        // What was refused for what lies there was carried out all the same.
        let is_over = error.is_none_or(|error| {
            matches!(error.code(), Code::PreconditionFailed | Code::ItemNotFound)
        });
        if is_throttled || is_over {
            watch.meter.answered(self.key, is_throttled, now);
        }
        if let Some(ledger) = self.context.index_ledger() {
            if self.consumed_wcu > 0.0 {
                watch.meter.granted(ledger, Access::Write, granted, now);
                if let Some(times) = self.context.held.times() {
                    watch.meter.unhindered(ledger, times * self.consumed_wcu, now);
                }
            }
            if error.and_then(Error::throttle).is_some_and(Throttle::is_of_an_index_partition) {
                watch.meter.held(ledger, now);
            }
        }
        self.report_load();
        let Some(mut going_on) = self.aside.take() else { return };
        let by = |time| Deadline::after(now, time);
        let clock = directory.clock();
        if within(clock, by(REPORTING_TIME), &mut going_on).await.is_some() {
            return;
        }
        // A change that is being made is not left half-way.
        let is_acting = || self.aside.is_acting.load(Ordering::Relaxed);
        if is_acting() && within(clock, by(ACTING_TIME), going_on).await.is_none() && is_acting() {
            watch.was_cut_off(directory, partition);
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
        self.context.directory.forget(&self.key.partition);
        match self.attempts.refresh().await {
            Ok(()) => Interrupted::BeginAgain,
            Err(error) => Interrupted::Failed(error),
        }
    }
}

impl<'a> SideWork<'a> {
    /// The output of `work`, beside which that goes on which it leads to.
    pub(super) async fn beside<T>(&self, mut work: Pin<&mut impl Future<Output = T>>) -> T {
        poll_fn(|context| {
            let output = work.as_mut().poll(context);
            if output.is_pending()
                && let Some(mut going_on) = self.take()
                && going_on.as_mut().poll(context).is_pending()
            {
                *self.going_on.lock() = Some(going_on);
            }
            output
        })
        .await
    }

    fn unless_busy(&self, begin: impl FnOnce(IsActing) -> GoingOn<'a>) {
        self.going_on.lock().get_or_insert_with(|| begin(Arc::clone(&self.is_acting)));
    }

    fn is_busy(&self) -> bool {
        self.going_on.lock().is_some()
    }

    fn take(&self) -> Option<GoingOn<'a>> {
        self.going_on.lock().take()
    }
}
