//! The rows of another table, which is scanned in segments side by side.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use dynashard_api::json::{AttributesJson, Format, attributes, object};
use dynashard_aws_operator::{KeyAttribute, ScanSegment, TableState};
use dynashard_core::{Attributes, NewItem};
use dynashard_keys::SortKeyType;
use tokio::sync::mpsc;

use super::counts::Counts;
use super::load::Read;
use super::marks::{DoubtTo, Page, SegmentProgress};
use super::refused::{Refusals, RowPlace};
use super::row::Keys;
use super::send::{Doubt, Row};
use crate::operator::Failure;
use crate::operator::connect::Connection;
use crate::operator::scan::{ReadRate, TableScan};

/// Parts of the table that are read side by side.
pub(super) const SEGMENTS: usize = 8;

/// A table whose items are copied.
#[derive(Debug, Clone)]
pub(super) struct SourceTable {
    identity: String,
    keys: Keys,
    scan: TableScan,
}

/// What the segments share while they are read.
#[derive(Clone)]
pub(super) struct Reading {
    pub(super) refusals: Arc<Mutex<Refusals>>,
    pub(super) next_number: Arc<AtomicU64>,
}

impl SourceTable {
    /// Looks at the table's keys.
    pub(super) async fn find(
        connection: &Connection,
        name: &str,
        read_units: Option<NonZeroU32>,
    ) -> Result<Self, Failure> {
        let bad = |what: String| Failure {
            code: super::files::INPUT_FAILED,
            detail: format!("table {name} {what}"),
        };
        if name == connection.main_table() {
            return Err(bad("is the main table itself".to_owned()));
        }
        let operator = connection.operator().clone();
        let table = operator.table(name).await;
        let table = table
            .map_err(|e| Failure::connection(format!("DescribeTable of table {name}: {e}")))?;
        let schema = connection.schema().clone();
        let partition = name_of(table.partition_key.as_ref(), "S")
            .ok_or_else(|| bad("has a partition key that is not a string".to_owned()))?;
        let letter = match schema.sort_key_type {
            SortKeyType::String => "S",
            SortKeyType::Number => "N",
        };
        let sort = name_of(table.sort_key.as_ref(), letter).ok_or_else(|| {
            bad(format!("has no sort key of the type {letter}, as the main table has"))
        })?;
        let keys = Keys { partition, sort, schema };
        let identity = identity_of(name, &operator.place_of_tables(), &table);
        let scan = TableScan::new(&operator, name, read_units.map(ReadRate::new));
        Ok(Self { identity, keys, scan })
    }

    /// What tells it from any other table.
    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// Looks at each item, and lists those that cannot be taken. `rows` says how far it has come.
    pub(super) async fn check(
        &self,
        refusals: &Arc<Mutex<Refusals>>,
        rows: &Arc<AtomicU64>,
    ) -> Result<(), Failure> {
        let segments = (0..SEGMENTS).map(|number| {
            let (table, refusals, rows) = (self.clone(), Arc::clone(refusals), Arc::clone(rows));
            async move {
                let mut after = None;
                loop {
                    let page =
                        table.scan.page(segment(number, SEGMENTS), after.as_ref(), false).await?;
                    rows.fetch_add(count(page.items.len()), Ordering::Relaxed);
                    for item in page.items {
                        table.item(item, &refusals);
                    }
                    after = page.next;
                    if after.is_none() {
                        return Ok::<_, Failure>(());
                    }
                }
            }
        });
        futures_util::future::try_join_all(segments).await.map(drop)
    }

    /// Reads what an earlier run has left of the table, strongly, until nobody takes it any more.
    pub(super) async fn read(
        &self,
        before: Vec<SegmentProgress>,
        doubt: Doubt,
        reading: Reading,
        sender: mpsc::Sender<Read>,
    ) -> Result<(), Failure> {
        let of = before.len();
        let segments = before.into_iter().enumerate().filter(|(_, segment)| !segment.is_complete);
        let segments = segments.map(|(number, before)| {
            let (table, reading, sender) = (self.clone(), reading.clone(), sender.clone());
            async move { table.segment(segment(number, of), before, doubt, &reading, &sender).await }
        });
        futures_util::future::try_join_all(segments).await.map(drop)
    }

    async fn segment(
        &self,
        segment: ScanSegment,
        before: SegmentProgress,
        doubt: Doubt,
        reading: &Reading,
        sender: &mpsc::Sender<Read>,
    ) -> Result<(), Failure> {
        let mut after = before.after.as_deref().map(key_of_text).transpose()?;
        let (mut is_in_doubt, last) = match &before.in_doubt {
            DoubtTo::Nothing => (false, None),
            DoubtTo::Key(key) => (true, Some(key_of_text(key)?)),
            DoubtTo::End => (true, None),
        };
        loop {
            let page = self.scan.page(segment, after.as_ref(), true).await?;
            let began_in_doubt = is_in_doubt;
            let mut rows = Vec::with_capacity(page.items.len());
            let of_page = page.items.len();
            for item in page.items {
                let key = self.keys.of(&item);
                let in_doubt = is_in_doubt.then_some(doubt);
                is_in_doubt &= last.is_none() || key != last;
                rows.extend(self.item(item, &reading.refusals).map(|item| (item, in_doubt)));
            }
            is_in_doubt &= page.next.is_some() && (last.is_none() || page.next != last);
            let first = reading.next_number.fetch_add(count(rows.len()).max(1), Ordering::Relaxed);
            let read = Page {
                segment: usize::try_from(segment.number).unwrap_or_default(),
                first,
                left: count(rows.len()),
                end: page.next.as_ref().map(text_of_key),
                is_sent: began_in_doubt,
                ends_doubt: began_in_doubt && !is_in_doubt,
                counts: Counts { refused: count(of_page - rows.len()), ..Counts::default() },
            };
            let rows = rows.into_iter().zip(first..);
            let rows = rows.map(|((item, in_doubt), number)| {
                Read::Row(Row { number, item, in_doubt, place: None })
            });
            for read in std::iter::once(Read::Page(read)).chain(rows) {
                if sender.send(read).await.is_err() {
                    return Ok(());
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// The item of a row, unless it is refused.
    fn item(&self, item: Attributes, refusals: &Mutex<Refusals>) -> Option<NewItem> {
        let key = self.keys.of(&item);
        let failure = match self.keys.item(item) {
            Ok(item) => return Some(item),
            Err(failure) => failure,
        };
        let place = RowPlace { file: None, line: None };
        let key = key.and_then(|key| self.keys.item(key).ok());
        let mut refusals = refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.add(place, key.as_ref().map(NewItem::key), &failure);
        None
    }
}

/// What tells a table from any other: one of another account, and one that had its name before. Servers that
/// stand in for AWS may give all tables one account, so the place is a part of it.
pub(super) fn identity_of(name: &str, place: &str, table: &TableState) -> String {
    format!("{name} in {place}: {} {}", table.arn, table.identity)
}

impl Keys {
    /// The key of an item, as a scan names it.
    fn of(&self, item: &Attributes) -> Option<Attributes> {
        let entry = |name: &String| Some((name.clone(), item.get(name)?.clone()));
        Some(Attributes::from([entry(&self.partition)?, entry(&self.sort)?]))
    }
}

fn segment(number: usize, of: usize) -> ScanSegment {
    let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    ScanSegment { number: small(number), of: small(of) }
}

fn count(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}

fn name_of(key: Option<&KeyAttribute>, letter: &str) -> Option<String> {
    key.filter(|key| key.letter == letter).map(|key| key.name.clone())
}

/// A key of a scan as the state file holds it.
fn text_of_key(key: &Attributes) -> String {
    // Keys are strings, numbers and binary values, which cannot fail.
    serde_json::to_string(&AttributesJson(key, Format::DynamoDb)).unwrap_or_default()
}

fn key_of_text(text: &str) -> Result<Attributes, Failure> {
    Ok(attributes(object(text.as_bytes())?, Format::DynamoDb)?)
}

#[cfg(test)]
mod tests {
    use dynashard_core::AttributeValue;

    use super::*;

    /// A state was taken for that of any table of the name, so that after a table was made anew the rows
    /// of the one before counted as written.
    #[test]
    fn regression_a_table_that_was_made_anew_was_taken_for_the_one_before() {
        let table = |arn: &str, identity: &str| {
            let (arn, identity) = (arn.to_owned(), identity.to_owned());
            identity_of("Main", "eu-west-1", &TableState { arn, identity, ..TableState::default() })
        };
        let one = table("arn:1", "id-1 100");
        assert_eq!(one, table("arn:1", "id-1 100"));
        assert_ne!(one, table("arn:1", "id-2 200"), "dropped and made again");
        assert_ne!(one, table("arn:2", "id-1 100"), "of another account");
    }

    #[test]
    fn a_key_of_a_scan_is_read_back() {
        let key = Attributes::from([
            ("id".to_owned(), AttributeValue::String("a\"b".to_owned())),
            ("at".to_owned(), AttributeValue::Number("-1.5".parse().expect("a number"))),
        ]);
        assert_eq!(key_of_text(&text_of_key(&key)), Ok(key));
    }
}
