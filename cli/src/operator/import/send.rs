//! One row on its way to the table.

use std::sync::Arc;
use std::time::Duration;

use dynashard_core::ports::Consistency;
use dynashard_core::{
    Attributes, Code, Deadline, Error, Kind, NewItem, Precondition, Reader, StoredItem, Writer,
};
use dynashard_keys::ShardId;

use super::refused::RowPlace;

/// A row that was read.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) number: u64,
    pub(super) item: NewItem,
    /// Since when it may have been written already.
    pub(super) in_doubt: Option<Doubt>,
    /// Its file and its line; of a table nothing.
    pub(super) place: Option<(Arc<str>, u64)>,
}

impl Row {
    pub(super) fn place(&self) -> RowPlace<'_> {
        let (file, line) = (self.place.as_ref()).map(|(file, line)| (&**file, *line)).unzip();
        RowPlace { file, line }
    }

    /// As messages call it.
    pub(super) fn name(&self) -> String {
        let key = self.item.key();
        let place = match &self.place {
            Some((file, line)) => format!(", line {line} of {file}"),
            None => String::new(),
        };
        format!("the row with the key {:?}, {:?}{place}", key.partition.as_str(), key.sort)
    }
}

/// A put of which nobody knows whether it took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Doubt {
    /// Until when it may take effect yet, on the boot clock.
    pub(super) until: Duration,
}

/// What became of a row.
#[derive(Debug)]
pub(super) enum Fate {
    /// It was put, in this shard.
    Written(ShardId, f64),
    /// It was in doubt, and is there.
    Found,
    /// There was an item, which stays.
    Kept,
    /// Nothing was written, for a passing reason: mostly its partition is at its limit.
    Refused(Error),
    /// It is in doubt, from now on or still, and is to be looked up at this time.
    InDoubt(Doubt, Duration),
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

/// How rows are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) keep_existing: bool,
    /// What somebody has decided, who was told.
    pub(super) other_item: Option<OtherItem>,
}

/// The table that rows are put to.
pub(super) struct Target {
    pub(super) writer: Writer,
    pub(super) reader: Reader,
    pub(super) rules: Rules,
}

/// For how long a put may go unanswered.
const ANSWER_TIME: Duration = Duration::from_secs(20);

/// When a row that changed under the eyes of its look is looked up again.
const ANOTHER_LOOK: Duration = Duration::from_millis(200);

impl Target {
    /// The boot clock.
    pub(super) fn now(&self) -> Duration {
        self.writer.directory().now().boot
    }

    /// When no request can take effect any more that is under way now.
    pub(super) fn doubt(&self) -> Doubt {
        Doubt { until: self.now() + self.writer.directory().settings().request_lifetime }
    }

    /// Puts a row. One in doubt is looked up before, and put only if that does no harm.
    pub(super) async fn send(&self, row: &Row) -> Fate {
        let precondition = match row.in_doubt {
            None if self.rules.keep_existing => Precondition::Absent,
            None => Precondition::None,
            Some(doubt) => match Box::pin(self.look(row, doubt)).await {
                Ok(Verdict::Put(precondition)) => precondition,
                Ok(Verdict::Found) => return Fate::Found,
                Ok(Verdict::Keep) => return Fate::Kept,
                Ok(Verdict::Undecided) => return Fate::Undecided,
                Ok(Verdict::LookAgain(at)) => return Fate::InDoubt(doubt, at),
                Err(error) => return fate_of(error),
            },
        };
        match self.writer.put(&row.item, precondition, self.deadline()).await {
            Ok(written) => Fate::Written(written.shard, written.consumed_wcu),
            Err(error) => match (error.code(), row.in_doubt) {
                (Code::PreconditionFailed, Some(doubt)) => {
                    Fate::InDoubt(doubt, self.now() + ANOTHER_LOOK)
                }
                (Code::PreconditionFailed, None) => Fate::Kept,
                _ if error.kind() == Kind::OutcomeUnknown => {
                    Fate::InDoubt(self.doubt(), self.now() + ANOTHER_LOOK)
                }
                _ => fate_of(error),
            },
        }
    }

    /// What is throttled comes back to its lane, and holds up no other meanwhile.
    fn deadline(&self) -> Deadline {
        let now = self.writer.directory().now();
        Deadline::after(now, ANSWER_TIME).if_throttled(Deadline::after(now, Duration::ZERO))
    }

    async fn look(&self, row: &Row, doubt: Doubt) -> Result<Verdict, Error> {
        let directory = self.reader.directory();
        let deadline = self.deadline();
        let key = row.item.key();
        let get = self.reader.get(key, None, Consistency::Strong, deadline);
        let (now, got) = Box::pin(begun_at(|| self.now(), get)).await;
        let found = match got {
            Ok(got) => Some(got.item),
            Err(error) if error.code() == Code::ItemNotFound => None,
            Err(error) => return Err(error),
        };
        let placement = directory.find(&key.partition, deadline).await?.metadata.placement;
        let evidence = Evidence {
            found: found.as_ref().map(|StoredItem { attributes, .. }| attributes),
            is_calculated: placement.is_calculated(),
            now,
        };
        Ok(verdict(row.item.attributes(), evidence, doubt, self.rules))
    }
}

/// What follows from an error of which it is certain that nothing was written.
fn fate_of(error: Error) -> Fate {
    match error.code() {
        // Neither passes by itself.
        Code::MetadataBehind | Code::SettingsMismatch => Fate::Failed(error),
        Code::RequestRejected => Fate::Rejected(error),
        _ if matches!(error.kind(), Kind::Throttled | Kind::Unavailable) => Fate::Refused(error),
        _ => Fate::Failed(error),
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

/// What a look at a row in doubt has shown.
#[derive(Debug, Clone, Copy)]
struct Evidence<'a> {
    /// What lies under the key.
    found: Option<&'a Attributes>,
    /// Whether the placement lets a put have a precondition, and no second put double an item.
    is_calculated: bool,
    /// Before the look.
    now: Duration,
}

/// What follows for a row in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Found,
    Keep,
    Put(Precondition),
    Undecided,
    /// The first put may take effect until then, and a second one would double the item.
    LookAgain(Duration),
}

fn verdict(row: &Attributes, evidence: Evidence<'_>, doubt: Doubt, rules: Rules) -> Verdict {
    match (evidence.found, rules) {
        (Some(found), _) if found == row => Verdict::Found,
        (None, _) if evidence.is_calculated => Verdict::Put(Precondition::Absent),
        (None, _) if evidence.now >= doubt.until => Verdict::Put(Precondition::None),
        (None, _) => Verdict::LookAgain(doubt.until),
        (
            Some(_),
            Rules { keep_existing: true, .. } | Rules { other_item: Some(OtherItem::Keep), .. },
        ) => Verdict::Keep,
        // A put would lie beside it, and not in place of it.
        (Some(_), _) if !evidence.is_calculated => Verdict::Undecided,
        (Some(_), Rules { other_item: Some(OtherItem::Replace), .. }) => {
            Verdict::Put(Precondition::None)
        }
        (Some(_), Rules { other_item: None, .. }) => Verdict::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use dynashard_core::AttributeValue;

    use super::*;

    const NOW: Duration = Duration::from_secs(100);
    const RULES: Rules = Rules { keep_existing: false, other_item: None };

    fn item(number: u64) -> Attributes {
        Attributes::from([("n".to_owned(), AttributeValue::Number(number.into()))])
    }

    fn of(found: Option<u64>, is_calculated: bool, rules: Rules) -> Verdict {
        let found = found.map(item);
        let evidence = Evidence { found: found.as_ref(), is_calculated, now: NOW };
        verdict(&item(1), evidence, Doubt { until: NOW + Duration::from_secs(1) }, rules)
    }

    /// A look that took long said of a time after it what was true before it, so that the row was put beside
    /// itself under random placement.
    #[tokio::test]
    async fn regression_a_look_was_taken_for_newer_than_it_was() {
        let clock = std::cell::Cell::new(NOW);
        let slow = async { clock.set(NOW + Duration::from_mins(1)) };
        assert_eq!(begun_at(|| clock.get(), slow).await.0, NOW);
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
            assert!(matches!(of(code, "why"), Fate::Refused(_)), "{code:?}");
        }
        assert!(matches!(of(Code::RequestRejected, "why"), Fate::Rejected(_)));
    }

    #[test]
    fn a_row_that_is_there_is_not_put_again() {
        for is_calculated in [true, false] {
            assert_eq!(of(Some(1), is_calculated, RULES), Verdict::Found);
        }
    }

    #[test]
    fn a_row_that_is_not_there_is_put_when_that_cannot_double_it() {
        assert_eq!(of(None, true, RULES), Verdict::Put(Precondition::Absent));
        let until = NOW + Duration::from_secs(1);
        assert_eq!(of(None, false, RULES), Verdict::LookAgain(until));
        let late = Evidence { found: None, is_calculated: false, now: until };
        assert_eq!(
            verdict(&item(1), late, Doubt { until }, RULES),
            Verdict::Put(Precondition::None)
        );
    }

    #[test]
    fn another_item_stays_until_somebody_has_decided() {
        let decided = |other_item| Rules { other_item: Some(other_item), ..RULES };
        let keep_existing = Rules { keep_existing: true, ..RULES };
        for (rules, calculated, random) in [
            (RULES, Verdict::Undecided, Verdict::Undecided),
            (keep_existing, Verdict::Keep, Verdict::Keep),
            (decided(OtherItem::Keep), Verdict::Keep, Verdict::Keep),
            (decided(OtherItem::Replace), Verdict::Put(Precondition::None), Verdict::Undecided),
        ] {
            assert_eq!(of(Some(2), true, rules), calculated, "{rules:?}");
            assert_eq!(of(Some(2), false, rules), random, "{rules:?}");
        }
    }
}
