use std::collections::VecDeque;

use dynashard_keys::{ItemKey, ShardId, SortKey};

use super::cursor::Position;
use super::page::Page;
use super::{Abandon, MAX_LIMIT, Query};
use crate::cost::Cost;
use crate::directory::Known;
use crate::fan_out::{Answers, fan_out};
use crate::ports::{Clock, Entropy, ItemStore, MetadataStore, ShardPage, ShardQuery};
use crate::retry::Attempts;
use crate::{Deadline, Error, Reader, StoredItem};

/// How often a page of one shard is asked for. With the standard back-off it takes some 6 seconds,
/// in which a partition refills as often; one that is throttled for longer is a matter for the
/// caller, and should not keep the other shards' items back until the deadline.
const MAX_ATTEMPTS: u32 = 16;

/// One shard of a query: what was read of it and not yet returned, and where it goes on.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) shard: ShardId,
    pub(super) buffer: VecDeque<(SortKey, StoredItem)>,
    pub(super) next: Position,
    /// How many items it was asked for last, if it was.
    pub(super) asked: Option<u32>,
    /// The items that were read of it for this page, and those of them that a query may return.
    read: u64,
    kept: u64,
}

/// How many items a lane is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ask {
    /// An index into the lanes.
    pub(super) lane: usize,
    pub(super) limit: u32,
}

impl Lane {
    pub(super) fn new(shard: ShardId, next: Position) -> Self {
        Self { shard, buffer: VecDeque::new(), next, asked: None, read: 0, kept: 0 }
    }

    /// Whether nothing can be said about the lane's next item without another request.
    pub(super) fn is_dry(&self) -> bool {
        self.buffer.is_empty() && self.next != Position::End
    }

    /// Whether everything of the lane was returned.
    pub(super) fn is_done(&self) -> bool {
        self.buffer.is_empty() && self.next == Position::End
    }

    /// How many items to ask for where `wanted` more could be used. Markers and what is not at home
    /// are read and not used: as large a part of the next page as of the pages before. Where nothing
    /// else came at all the pages grow.
    pub(super) fn limit(&self, wanted: usize) -> u32 {
        let wanted = u32::try_from(wanted.max(1)).unwrap_or(u32::MAX);
        let most = MAX_LIMIT.max(wanted);
        match (self.asked, self.kept) {
            (None, _) => wanted,
            (Some(asked), 0) => asked.saturating_mul(2).clamp(wanted, most),
            (Some(_), kept) => {
                let scaled = u64::from(wanted).saturating_mul(self.read) / kept;
                u32::try_from(scaled).unwrap_or(most).clamp(wanted, most)
            }
        }
    }

    /// Takes in a page: what lives here stays, markers and misplaced items are passed over. An item
    /// that is ahead of the metadata spoils it.
    fn take(&mut self, page: ShardPage, query: &Query, known: &Known) -> Result<(), Abandon> {
        let Known { metadata, .. } = known;
        if page.items.iter().any(|(_, item)| item.generation > metadata.generation) {
            return Err(Abandon::Redo);
        }
        let (placement, count) = (metadata.placement, metadata.number_of_shards);
        // Handed on from key to key: a copy for each item would take longer than to merge it.
        let mut partition = query.partition.clone();
        for (sort, item) in page.items {
            self.read += 1;
            let key = ItemKey::new(partition, sort);
            let at_home = placement.home(&key, count).is_none_or(|home| home == self.shard);
            if item.is_live() && at_home {
                self.kept += 1;
                self.buffer.push_back((key.sort, item));
            }
            partition = key.partition;
        }
        self.next = page.next.map_or(Position::End, Position::After);
        Ok(())
    }
}

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Reader<I, M, C, E> {
    /// Reads on in several lanes at once, and takes in what came. The error of what did not answer
    /// for now comes back beside it, for whoever can do without.
    ///
    /// What was answered after the lease is thrown away: the lane stays where it was, and the
    /// metadata is renewed, under the same layout or not at all.
    pub(super) async fn read_lanes(
        &self,
        lanes: &mut [Lane],
        asks: &[Ask],
        query: &Query,
        known: &mut Known,
        page: &mut Page<'_>,
        deadline: Deadline,
    ) -> Result<Option<Error>, Abandon> {
        let requests = asks.iter().map(|Ask { lane: at, limit }| {
            let Lane { shard, next, .. } = &lanes[*at];
            async move {
                let page = self.lane_page(query, *shard, next, *limit, deadline).await?;
                Ok((*at, *limit, page, self.clock().now()))
            }
        });
        let requests = requests.collect::<Vec<_>>();
        let Answers { answers, missing } = fan_out(requests).await?;
        let mut overdue = false;
        for (at, limit, shard_page, answered) in answers {
            page.pay(Cost::of_page(&shard_page));
            if !known.lease.is_live(answered) {
                overdue = true;
                continue;
            }
            lanes[at].take(shard_page, query, known)?;
            lanes[at].asked = Some(limit);
        }
        if overdue {
            match self.renewed(known, deadline).await {
                Ok(fresh) => *known = fresh,
                Err(Abandon::Failed(error)) if error.is_passing() => {
                    return Ok(missing.or(Some(error)));
                }
                Err(abandon) => return Err(abandon),
            }
        }
        Ok(missing)
    }

    /// The next page of a lane. Refusals are retried, with full jitter, [`MAX_ATTEMPTS`] times and
    /// until the deadline at most; then the error names the shard.
    pub(crate) async fn lane_page(
        &self,
        query: &Query,
        shard: ShardId,
        next: &Position,
        limit: u32,
        deadline: Deadline,
    ) -> Result<ShardPage, Error> {
        let request = ShardQuery {
            partition: query.partition.at(shard, self.directory().settings().schema.separator),
            range: query.range.clone(),
            ascending: query.ascending,
            after: next.key().cloned(),
            limit,
            fields: query.fields.clone(),
            consistency: query.consistency,
        };
        let mut attempts =
            Attempts::new(self.clock(), self.directory().entropy(), deadline).at_most(MAX_ATTEMPTS);
        let page = attempts.make(|| self.items().query(&request), "a shard did not answer in time");
        page.await.map_err(|error| error.of_shards(vec![shard]))
    }
}
