use std::cmp::Ordering;
use std::collections::BinaryHeap;

use dynashard_keys::SortKey;
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::cursor::{Cursor, Position};
use super::lanes::Lane;
use super::{Abandon, Cost, FAN_OUT, Page, PageBudget, Query, QueryPage};
use crate::directory::Known;
use crate::ports::{Clock, Entropy, ItemStore, MetadataStore};
use crate::{Code, Deadline, Reader};

/// The head of a lane, ordered so that a [`BinaryHeap`] gives the next item of the query first.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    key: SortKey,
    lane: usize,
    ascending: bool,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_key = self.key.cmp(&other.key);
        let by_key = if self.ascending { by_key.reverse() } else { by_key };
        // Repetitions in a random collection come from the lowest shard, on every page.
        by_key.then_with(|| other.lane.cmp(&self.lane))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// How many items to ask each of `lanes` shards for, to merge a page of `wanted`.
///
/// A shard holds its share of the page, give or take its statistical spread: two standard
/// deviations above the mean seldom run dry, and little is read in vain.
pub(super) fn lane_limit(wanted: usize, lanes: usize) -> u32 {
    let integral = |n: usize| f64::from(u32::try_from(n.max(1)).unwrap_or(u32::MAX));
    let share = integral(wanted) / integral(lanes);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let limit = (share + 2.0 * share.sqrt()).ceil().clamp(1.0, integral(wanted)) as u32;
    limit
}

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Reader<I, M, C, E> {
    /// Merges all shards. An item is returned once every shard's next item is known, so what was
    /// returned is exactly what a single shard would have returned, however the shards' pages fall.
    pub(super) async fn ordered_page(
        &self,
        query: &Query,
        cursor: Option<&Cursor>,
        mut known: Known,
        budget: PageBudget<'_>,
        deadline: Deadline,
    ) -> Result<QueryPage, Abandon> {
        let start = match cursor {
            Some(Cursor::Watermark(key)) => Position::After(key.clone()),
            _ => Position::Start,
        };
        let shards = known.metadata.placement.shards(known.metadata.layout().readable);
        let mut lanes = shards.map(|shard| Lane::new(shard, start.clone())).collect::<Vec<_>>();
        let mut page = Page::new(query.limit, budget);
        let mut cost = Cost::default();
        let mut watermark = None;

        let more = loop {
            match self.refill(&mut lanes, query, &mut known, &page, &mut cost, deadline).await {
                Ok(()) => {}
                // What was merged so far is exact; the rest is for another page.
                Err(Abandon::Failed(error))
                    if error.code() == Code::DeadlineExceeded && watermark.is_some() =>
                {
                    break true;
                }
                Err(abandon) => return Err(abandon),
            }
            if merge(&mut lanes, query.ascending, &mut page, &mut watermark) {
                break !lanes.iter().all(Lane::is_done);
            }
            if lanes.iter().all(Lane::is_done) {
                break false;
            }
        };
        let cursor =
            watermark.filter(|_| more).map(|watermark| Cursor::Watermark(watermark).encode(query));
        Ok(QueryPage {
            items: page.items,
            cursor,
            shards: known.metadata.layout().readable,
            items_read: cost.items_read,
            consumed_rcu: cost.consumed_rcu,
        })
    }

    /// Reads on in every dry lane, until none is.
    async fn refill(
        &self,
        lanes: &mut [Lane],
        query: &Query,
        known: &mut Known,
        page: &Page<'_>,
        cost: &mut Cost,
        deadline: Deadline,
    ) -> Result<(), Abandon> {
        let limit = lane_limit(page.limit.saturating_sub(page.items.len()), lanes.len());
        loop {
            let dry = (0..lanes.len()).filter(|lane| lanes[*lane].is_dry()).collect::<Vec<_>>();
            if dry.is_empty() {
                return Ok(());
            }
            let requests = dry.into_iter().map(|at| {
                let Lane { shard, next, .. } = &lanes[at];
                async move {
                    let page = self.lane_page(query, *shard, next, limit, deadline).await?;
                    Ok::<_, Abandon>((at, page, self.clock().now()))
                }
            });
            let requests = requests.collect::<Vec<_>>();
            let pages =
                stream::iter(requests).buffer_unordered(FAN_OUT).try_collect::<Vec<_>>().await?;
            // What was answered after the lease is thrown away, and asked for again under the same
            // layout; the rest stands.
            let (in_lease, overdue) = pages
                .into_iter()
                .partition::<Vec<_>, _>(|(_, _, answered)| known.lease.is_live(*answered));
            for (at, page, _) in in_lease {
                let read = lanes[at].take(page, query, known)?;
                cost.items_read += read.items_read;
                cost.consumed_rcu += read.consumed_rcu;
            }
            if !overdue.is_empty() {
                *known = self.renewed(known, deadline).await?;
            }
        }
    }
}

/// Moves items from the lanes into the page, in order, until the page is full (`true`) or a lane
/// runs dry or all have ended (`false`).
fn merge(
    lanes: &mut [Lane],
    ascending: bool,
    page: &mut Page<'_>,
    watermark: &mut Option<SortKey>,
) -> bool {
    let head = |lanes: &[Lane], lane: usize| {
        lanes[lane].buffer.front().map(|(key, _)| Head { key: key.clone(), lane, ascending })
    };
    let mut heads =
        (0..lanes.len()).filter_map(|lane| head(lanes, lane)).collect::<BinaryHeap<_>>();
    while let Some(Head { key, lane, .. }) = heads.pop() {
        let repeated = watermark.as_ref() == Some(&key);
        if !repeated {
            let admitted = lanes[lane].buffer.front().is_some_and(|(k, item)| page.admits(k, item));
            if page.is_full() || !admitted {
                return true;
            }
        }
        let head_item = lanes[lane].buffer.pop_front();
        if let Some((key, item)) = head_item.filter(|_| !repeated) {
            *watermark = Some(key.clone());
            page.push(key, item);
        }
        if lanes[lane].is_dry() {
            return page.is_full();
        }
        heads.extend(head(lanes, lane));
    }
    page.is_full()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_asked_for_its_share_and_two_deviations() {
        assert_eq!(lane_limit(100, 1), 100);
        assert_eq!(lane_limit(100, 16), 12); // 6.25 + 2 * 2.5 = 11.25
        assert_eq!(lane_limit(1_000, 16), 79);
        assert_eq!(lane_limit(1, 256), 1);
        assert_eq!(lane_limit(0, 16), 1);
    }
}
