//! Reads a page of a sharded collection, by one of four strategies ([`Strategy`]).
//!
//! A page ends with a [`cursor`] that only the same query can resume. A page that could not be read
//! to its limit is shorter, with a cursor where it ended; one of which nothing could be read is an
//! error that names the shards that are missing.

pub mod cursor;
mod epochs;
pub(crate) mod feeds;
mod moving;
mod ordered;
mod page;
mod strategy;
mod unordered;

use dynashard_keys::{PartitionKey, SortKey, SortKeyType};

use crate::model::error::{Code, Error};
use crate::model::fields::Fields;
use crate::model::lease::Deadline;
use crate::ports::{Consistency, SortRange};
use crate::usecases::directory::{Directory, Known};
use crate::usecases::query::cursor::Cursor;
use crate::usecases::query::epochs::page_of_epochs;
use crate::usecases::query::moving::moving_page;
use crate::usecases::query::ordered::ordered_page;
use crate::usecases::query::page::PageRead;
use crate::usecases::query::unordered::unordered_page;
pub(crate) use ordered::{feed_limit, limit_by_share};
pub use page::{MAX_PAGE_BYTES, PageBudget, QueryPage};
pub use strategy::Strategy;

/// The most items of one page.
pub const MAX_LIMIT: u32 = 1_000;

/// The items of a page when the client does not say.
pub const DEFAULT_LIMIT: u32 = 100;

/// In how many shards a query without an order may be under way at once: so many positions of its
/// cursor are sort keys, at most.
pub const MAX_OPEN_SHARDS: usize = 256;

/// A query of one collection.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The collection.
    pub partition: PartitionKey,
    /// Which sort keys.
    pub range: SortRange,
    /// Ascending, or descending.
    pub ascending: bool,
    /// The most items of the page, 1 to [`MAX_LIMIT`].
    pub limit: u32,
    /// How the shards are read.
    pub strategy: Strategy,
    /// What to return of each item; everything where nothing is named.
    pub fields: Option<Fields>,
    /// How current the read must be.
    pub consistency: Consistency,
    /// The cursor of the page before.
    pub cursor: Option<String>,
    /// Where to begin without one: behind this sort key, in the direction of the query. It need not exist.
    pub start: Option<SortKey>,
}

impl Query {
    /// The first page of everything, in order.
    pub fn all(partition: PartitionKey) -> Self {
        Self {
            partition,
            range: SortRange::All,
            ascending: true,
            limit: DEFAULT_LIMIT,
            strategy: Strategy::Ordered,
            fields: None,
            consistency: Consistency::Eventual,
            cursor: None,
            start: None,
        }
    }

    /// Refuses a query that no page can be read of.
    pub(crate) fn check(&self, sort_key_type: SortKeyType) -> Result<(), Error> {
        let bad = |why: String| Err(Error::new(Code::BadParameter, why));
        if self.limit == 0 || self.limit > MAX_LIMIT {
            return bad(format!("the limit {} is not between 1 and {MAX_LIMIT}", self.limit));
        }
        let of_the_type = |key: &SortKey| key.is(sort_key_type);
        let is_reached = |key: &SortKey| of_the_type(key) && self.range.contains(key);
        if !self.start.as_ref().is_none_or(is_reached) {
            return bad("the start lies outside of the range".to_owned());
        }
        match &self.range {
            SortRange::BeginsWith(_) if sort_key_type == SortKeyType::Number => {
                bad("begins_with is for string sort keys, and this table's are numbers".to_owned())
            }
            SortRange::BeginsWith(prefix) if prefix.is_empty() => {
                bad("begins_with is empty".to_owned())
            }
            SortRange::BeginsWith(prefix) if prefix.len() > SortKey::MAX_BYTES => {
                bad("begins_with is longer than any sort key".to_owned())
            }
            SortRange::Between(from, to) if from > to => {
                bad("from lies above to, so nothing can match".to_owned())
            }
            SortRange::From(key) | SortRange::To(key) if !of_the_type(key) => {
                bad("from and to must have the type of the sort key".to_owned())
            }
            SortRange::Between(from, to) if !of_the_type(from) || !of_the_type(to) => {
                bad("from and to must have the type of the sort key".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// Why reading a page ended without one.
pub(crate) enum NoPage {
    /// An item is ahead of the metadata, or the layout changed while the page was read: begin it
    /// again.
    Redo,
    Failed(Error),
}

impl From<Error> for NoPage {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A cursor of positions is good for the layout that it was made under.
fn expired() -> Error {
    Error::new(
        Code::CursorExpired,
        "the collection was resharded since the last page; begin the query again",
    )
}

/// Reads one page.
pub(crate) async fn read_page(
    directory: &Directory,
    query: &Query,
    cursor: Option<&Cursor>,
    budget: PageBudget<'_>,
    deadline: Deadline,
) -> Result<QueryPage, Error> {
    let mut attempts = directory.attempts(deadline);
    loop {
        let known = directory.find(&query.partition, deadline).await?;
        let page = if known.metadata.epochs.is_one() {
            page_of_one(directory, query, cursor, budget, known, deadline).await
        } else {
            let start = watermark(cursor)?;
            page_of_epochs(directory, query, start, budget, known, deadline).await
        };
        match page {
            Ok(page) => return Ok(page),
            Err(NoPage::Failed(error)) => return Err(error),
            Err(NoPage::Redo) => {
                directory.forget(&query.partition);
                attempts.refresh().await?;
            }
        }
    }
}

/// Reads a page of a collection that is one epoch.
async fn page_of_one(
    directory: &Directory,
    query: &Query,
    cursor: Option<&Cursor>,
    budget: PageBudget<'_>,
    known: Known,
    deadline: Deadline,
) -> Result<QueryPage, NoPage> {
    let moves = known.metadata.reshard().is_some();
    let strong = moves.then(|| Query { consistency: Consistency::Strong, ..query.clone() });
    let mut reading = PageRead::new(strong.as_ref().unwrap_or(query), budget, known, deadline);
    let next = if moves || query.strategy == Strategy::Ordered {
        page_in_order(directory, &mut reading, cursor).await
    } else {
        unordered_page(directory, &mut reading, cursor).await
    };
    Ok(reading.finish(query, next?))
}

/// Reads a page in order, of one epoch. All strategies read so while items move, so that one watermark says how far they have come.
async fn page_in_order(
    directory: &Directory,
    reading: &mut PageRead<'_>,
    cursor: Option<&Cursor>,
) -> Result<Option<Cursor>, NoPage> {
    match reading.known.metadata.reshard() {
        Some(reshard) => {
            let start = watermark(cursor)?;
            moving_page(directory, reading, reshard, start).await
        }
        None => ordered_page(directory, reading, cursor).await,
    }
}

/// Where a query goes on that is read in order.
fn watermark(cursor: Option<&Cursor>) -> Result<Option<SortKey>, Error> {
    match cursor {
        None => Ok(None),
        Some(Cursor::Watermark(key)) => Ok(Some(key.clone())),
        Some(Cursor::Positions { .. }) => Err(expired()),
    }
}

/// Metadata that may still be acted on and says what `known` said, or a reason to begin again.
pub(crate) async fn renewed(
    directory: &Directory,
    known: &Known,
    deadline: Deadline,
) -> Result<Known, NoPage> {
    let fresh = directory.find(&known.metadata.partition, deadline).await?;
    if fresh.metadata == known.metadata { Ok(fresh) } else { Err(NoPage::Redo) }
}
