use std::time::Duration;

use dynashard_keys::{ItemKey, ShardId};

use crate::directory::Known;
use crate::ports::{Action, Clock, Condition, Entropy, Expected, ItemStore, MetadataStore, Write};
use crate::retry::Attempts;
use crate::write::writer::Writer;
use crate::{Deadline, Error};

/// No write begins with less time than this before its deadline: one that is cut off has an unknown
/// outcome, and one that was never sent has not.
pub(super) const LEAST_WRITE_TIME: Duration = Duration::from_secs(1);

/// One operation on one item: what all its attempts share.
pub(super) struct Operation<'a, I, M, C, E> {
    pub(super) writer: &'a Writer<I, M, C, E>,
    pub(super) key: &'a ItemKey,
    pub(super) deadline: Deadline,
    pub(super) attempts: Attempts<'a, C, E>,
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
        Self { writer, key, deadline, attempts, consumed_wcu: 0.0 }
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
