//! One row on its way to the table.

use std::time::Duration;

use dynashard_core::ports::Consistency;
use dynashard_core::{Code, Deadline, Error, Kind, NewItem, Precondition, Reader, Writer};

use super::row::version_of;

/// A row that was read.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) number: u64,
    pub(super) item: NewItem,
    /// Until when a put of it may take effect of which nobody knows whether it has, on the boot clock.
    pub(super) in_doubt: Option<Duration>,
}

/// What became of a row.
#[derive(Debug)]
pub(super) enum Fate {
    /// It was put, for so many write units.
    Written(f64),
    /// It was in doubt, and is there.
    Found,
    /// There was an item, which stays.
    Kept,
    /// It is to be sent again, since nothing was written for a passing reason or nobody knows whether it was. Then the row
    /// is in doubt until this time.
    Again(Error, Option<Duration>),
    /// It is in doubt, and is to be looked for at this time.
    Later(Duration),
    /// It was in doubt, and another item lies under its key.
    Undecided,
    /// DynamoDB takes it in no case: one of its fields is not as an index has it.
    Rejected(Error),
    /// The import cannot go on.
    Failed(Error),
}

/// What happens to a row in doubt if another item lies under its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum OtherItem {
    /// Leave what is there.
    Keep,
    /// Put the row in place of it.
    Replace,
}

/// The table that rows are put to.
pub(super) struct Target {
    pub(super) writer: Writer,
    pub(super) reader: Reader,
    pub(super) keep_existing: bool,
    /// What somebody has decided, who was told.
    pub(super) other_item: Option<OtherItem>,
}

/// For how long a put may go unanswered.
const ANSWER_TIME: Duration = Duration::from_secs(20);

impl Target {
    /// The boot clock.
    pub(super) fn now(&self) -> Duration {
        self.writer.directory().now().boot
    }

    /// When no request can take effect any more that is under way now.
    pub(super) fn end_of_doubt(&self) -> Duration {
        self.now() + self.writer.directory().lease().waits().request_lifetime
    }

    /// Puts a row. One in doubt is put only where nothing lies but itself.
    pub(super) async fn send(&self, row: &Row) -> Fate {
        let Some(until) = row.in_doubt else {
            let only_if =
                if self.keep_existing { Precondition::Absent } else { Precondition::None };
            return self.put(row, only_if).await.unwrap_or(Fate::Kept);
        };
        match self.put(row, Precondition::Absent).await {
            Some(Fate::Failed(error)) if error.code() == Code::NotForPlacement => {
                Box::pin(self.look(row, until)).await
            }
            Some(fate) => fate,
            None if self.is_kept() => Fate::Kept,
            None if self.other_item == Some(OtherItem::Replace) => {
                self.put(row, Precondition::None).await.unwrap_or(Fate::Kept)
            }
            None => Fate::Undecided,
        }
    }

    /// Whether another item stays that lies under the key of a row in doubt.
    fn is_kept(&self) -> bool {
        self.keep_existing || self.other_item == Some(OtherItem::Keep)
    }

    /// `None` if another item lies there than the precondition wants.
    async fn put(&self, row: &Row, precondition: Precondition) -> Option<Fate> {
        let (version, deadline) = (version_of(&row.item), self.deadline());
        let put = self.writer.put_as(&row.item, version, precondition, deadline);
        Some(match Box::pin(put).await {
            // This row may have come from another import.
            Ok(put) if put.was_there && row.in_doubt.is_none() => Fate::Kept,
            Ok(put) if put.was_there => Fate::Found,
            Ok(put) => Fate::Written(put.consumed_wcu),
            Err(error) if error.code() == Code::PreconditionFailed => return None,
            Err(error) if error.kind() == Kind::OutcomeUnknown => {
                Fate::Again(error, Some(self.end_of_doubt()))
            }
            Err(error) => fate_of(error),
        })
    }

    /// Looks for a row in doubt in all shards of its collection, of which it may lie in any. It is put once nothing can put
    /// it any more, since a second put would lie beside the first.
    async fn look(&self, row: &Row, until: Duration) -> Fate {
        let get = self.reader.get(row.item.key(), None, Consistency::Strong, self.deadline());
        let (now, got) = Box::pin(begun_at(|| self.now(), get)).await;
        match got {
            Ok(got) if got.item.version == version_of(&row.item) => Fate::Found,
            Ok(_) if self.is_kept() => Fate::Kept,
            // Another put would lie beside it, and not in place of it.
            Ok(_) => Fate::Undecided,
            Err(error) if error.code() != Code::ItemNotFound => fate_of(error),
            Err(_) if now < until => Fate::Later(until),
            Err(_) => self.put(row, Precondition::None).await.unwrap_or(Fate::Kept),
        }
    }

    /// What is throttled comes back to its lane, and holds up no other meanwhile.
    fn deadline(&self) -> Deadline {
        let now = self.writer.directory().now();
        Deadline::after(now, ANSWER_TIME).if_throttled(Deadline::after(now, Duration::ZERO))
    }
}

/// What a request has found, and a moment before it was made. What it did not find may come to be later.
async fn begun_at<T>(
    now: impl Fn() -> Duration,
    request: impl Future<Output = T>,
) -> (Duration, T) {
    let begun = now();
    (begun, request.await)
}

/// What follows from an error of which it is certain that nothing was written.
fn fate_of(error: Error) -> Fate {
    match error.code() {
        // Neither passes by itself.
        Code::MetadataBehind | Code::SettingsMismatch => Fate::Failed(error),
        // The item that lies there stays, whatever else is imported.
        Code::RequestRejected | Code::UnmovableItem => Fate::Rejected(error),
        _ if matches!(error.kind(), Kind::Throttled | Kind::Unavailable) => {
            Fate::Again(error, None)
        }
        _ => Fate::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look that took long said of a time after it what was true before it, so that the row was put beside
    /// itself under random placement.
    #[tokio::test]
    async fn regression_a_look_was_taken_for_newer_than_it_was() {
        let now = Duration::from_secs(100);
        let clock = std::cell::Cell::new(now);
        let slow = async { clock.set(now + Duration::from_mins(1)) };
        assert_eq!(begun_at(|| clock.get(), slow).await.0, now);
    }

    /// Settings that differ were waited for, a look that was throttled ended the import, and so did a row
    /// that DynamoDB rejects.
    #[test]
    fn regression_errors_that_pass_and_errors_that_stay_were_confused() {
        let of = |code, why| fate_of(Error::new(code, why));
        for code in [Code::SettingsMismatch, Code::MetadataBehind, Code::Internal] {
            assert!(matches!(of(code, "why"), Fate::Failed(_)), "{code:?}");
        }
        for code in [Code::Throttled, Code::Contended, Code::Unavailable, Code::DeadlineExceeded] {
            assert!(matches!(of(code, "why"), Fate::Again(_, None)), "{code:?}");
        }
        assert!(matches!(of(Code::RequestRejected, "why"), Fate::Rejected(_)));
        assert!(matches!(of(Code::UnmovableItem, "why"), Fate::Rejected(_)));
    }
}
