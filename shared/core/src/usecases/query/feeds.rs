//! Reads the shards of a page, side by side: what was read of each, and where it goes on.

use std::collections::VecDeque;

use dynashard_keys::{Homes, Placement, ShardId, SortKey};

use crate::decide::replicas::may_answer;
use crate::model::error::Error;
use crate::model::item::StoredItem;
use crate::model::lease::Deadline;
use crate::ports::{Consistency, ShardPage, ShardQuery};
use crate::usecases::cost::Cost;
use crate::usecases::directory::{Directory, Known};
use crate::usecases::fan_out::fan_out_each;
use crate::usecases::query::cursor::Position;
use crate::usecases::query::page::{PageBudget, PageRead};
use crate::usecases::query::{MAX_LIMIT, NoPage, Query};

/// How often a page of one shard is asked for, which takes some 6 seconds with the standard back-off. A
/// shard that does not answer for longer is a matter for the caller, and should not keep the other shards'
/// items back until the deadline. For a throttled one [`Deadline::of_throttled`] ends it sooner.
pub(crate) const MAX_ATTEMPTS: u32 = 16;

/// One shard of a query: what was read of it and not yet returned, and where it goes on.
#[derive(Debug, Clone)]
pub(super) struct Feed {
    pub(super) shard: ShardId,
    pub(super) buffer: VecDeque<Buffered>,
    pub(super) next: Position,
    /// How many items it was asked for last, if it was.
    pub(super) asked: Option<u32>,
    /// The items that were read of it for this page, and those of them that a query may return.
    read: u64,
    kept: u64,
}

/// An item that was read and not yet returned.
#[derive(Debug, Clone)]
pub(super) struct Buffered {
    pub(super) key: SortKey,
    /// What it takes in the body of a page.
    pub(super) bytes: usize,
    /// `None` if it was dropped, because it cannot be in this page.
    pub(super) item: Option<StoredItem>,
}

/// A request for more of a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ask {
    /// An index into the feeds.
    pub(super) feed: usize,
    shard: ShardId,
    /// Where the feed goes on.
    pub(super) from: Position,
    /// The most items.
    pub(super) limit: u32,
}

impl Feed {
    pub(super) fn new(shard: ShardId, next: Position) -> Self {
        Self { shard, buffer: VecDeque::new(), next, asked: None, read: 0, kept: 0 }
    }

    /// Whether nothing can be said about the feed's next item without another request.
    pub(super) fn is_dry(&self) -> bool {
        self.buffer.is_empty() && self.next != Position::End
    }

    /// Whether everything of the feed was returned.
    pub(super) fn is_done(&self) -> bool {
        self.buffer.is_empty() && self.next == Position::End
    }

    /// A request for more of this feed, which has the index `feed`, where `wanted` more items could
    /// be used. Markers and what is not at home are read and not used: as large a part of the next
    /// page as of the pages before. Where nothing else came at all the pages grow.
    pub(super) fn ask(&self, feed: usize, wanted: usize) -> Ask {
        let wanted = u32::try_from(wanted.max(1)).unwrap_or(u32::MAX);
        let most = MAX_LIMIT.max(wanted);
        let limit = match (self.asked, self.kept) {
            (None, _) => wanted,
            (Some(asked), 0) => asked.saturating_mul(2).clamp(wanted, most),
            (Some(_), kept) => {
                let scaled = u64::from(wanted).saturating_mul(self.read) / kept;
                u32::try_from(scaled).unwrap_or(most).clamp(wanted, most)
            }
        };
        Ask { feed, shard: self.shard, from: self.next.clone(), limit }
    }

    /// Takes in a page: what lives here stays, markers and misplaced items are passed over. An item
    /// that is ahead of the metadata spoils it. Returns how many bytes of a page's body the feed holds
    /// more than before.
    pub(super) fn take(
        &mut self,
        page: ShardPage,
        limit: u32,
        known: &Known,
        budget: PageBudget<'_>,
    ) -> Result<usize, NoPage> {
        let Known { metadata, .. } = known;
        if page.items.iter().any(|(_, item)| item.generation > metadata.generation) {
            return Err(NoPage::Redo);
        }
        let homes = Homes::of(&metadata.partition, metadata.placement, metadata.number_of_shards);
        let mut more = 0;
        for (sort, item) in page.items {
            self.read += 1;
            let at_home = homes.as_ref().is_none_or(|homes| homes.home(&sort) == self.shard);
            if item.is_live() && at_home {
                self.kept += 1;
                let bytes = (budget.measure)(&sort, &item);
                more += bytes;
                self.buffer.push_back(Buffered { key: sort, bytes, item: Some(item) });
            }
        }
        self.next = page.next.map_or(Position::End, Position::After);
        self.asked = Some(limit);
        Ok(more)
    }
}

/// Reads on in several feeds at once. `take` gets each page as it comes; the error of the shards
/// that did not answer for now is returned, for whoever can do without them.
///
/// What was answered after the lease is thrown away: the feed stays where it was, and the
/// metadata is renewed, under the same layout or not at all.
pub(super) async fn read_feeds(
    directory: &Directory,
    asks: &[Ask],
    reading: &mut PageRead<'_>,
    mut take: impl FnMut(&Ask, ShardPage, &PageRead<'_>) -> Result<(), NoPage>,
) -> Result<Option<Error>, NoPage> {
    let (query, deadline) = (reading.query, reading.deadline);
    let metadata = &reading.known.metadata;
    let placement = metadata.placement;
    let is_spread = query.consistency == Consistency::Eventual
        && may_answer(metadata, directory.settings(), directory.now());
    let requests = asks.iter().map(|ask| async move {
        let Ask { shard, from, limit, .. } = ask;
        let page = if is_spread {
            spread_page(directory, query, placement, ask, deadline).await?
        } else {
            shard_page(directory, query, placement, *shard, from, *limit, deadline).await?
        };
        Ok((ask, page, directory.clock().now()))
    });
    let requests = requests.collect::<Vec<_>>();
    let mut overdue = false;
    let missing = fan_out_each(requests, |(ask, shard_page, answered)| {
        reading.page.pay(Cost::of_page(&shard_page));
        if reading.known.lease.is_live(answered) {
            take(ask, reading.admit(shard_page), reading)
        } else {
            overdue = true;
            Ok(())
        }
    });
    let missing = missing.await?;
    if overdue {
        match reading.renewed(directory).await {
            Ok(fresh) => reading.known = fresh,
            Err(NoPage::Failed(error)) if error.is_passing() => {
                return Ok(missing.or(Some(error)));
            }
            Err(abandon) => return Err(abandon),
        }
    }
    Ok(missing)
}

/// The next page of a feed. Refusals are retried, with full jitter, [`MAX_ATTEMPTS`] times and
/// until the deadline at most; then the error names the shard.
pub(crate) async fn shard_page(
    directory: &Directory,
    query: &Query,
    placement: Placement,
    shard: ShardId,
    next: &Position,
    limit: u32,
    deadline: Deadline,
) -> Result<ShardPage, Error> {
    let request = request_of(directory, query, placement, (shard, next, limit));
    let mut attempts = directory.attempts(deadline).at_most(MAX_ATTEMPTS);
    let page = attempts
        .make(|| directory.context().items().query(&request), "a shard did not answer in time");
    page.await.map_err(|error| error.of_shards(vec![shard]))
}

/// As [`shard_page`], of a replica or of the table.
async fn spread_page(
    directory: &Directory,
    query: &Query,
    placement: Placement,
    ask: &Ask,
    deadline: Deadline,
) -> Result<ShardPage, Error> {
    let request = request_of(directory, query, placement, (ask.shard, &ask.from, ask.limit));
    let context = directory.context();
    let request = &request;
    let of = |replica| async move {
        let request = ShardQuery { replica, ..request.clone() };
        context.items().query(&request).await
    };
    let mut attempts = directory.attempts(deadline).at_most(MAX_ATTEMPTS);
    let page = attempts.make(|| context.ask_any(of), "a shard did not answer in time");
    let (page, _) = page.await.map_err(|error| error.of_shards(vec![ask.shard]))?;
    Ok(page)
}

fn request_of(
    directory: &Directory,
    query: &Query,
    placement: Placement,
    (shard, next, limit): (ShardId, &Position, u32),
) -> ShardQuery {
    let separator = directory.settings().schema.separator;
    ShardQuery {
        partition: query.partition.at(shard, placement, separator),
        range: query.range.clone(),
        ascending: query.ascending,
        after: next.key().cloned(),
        limit,
        fields: query.fields.clone(),
        consistency: query.consistency,
        replica: None,
    }
}
