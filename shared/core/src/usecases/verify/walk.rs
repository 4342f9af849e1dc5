//! Walks all shards of a collection side by side.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use dynashard_keys::{ItemKey, PartitionKey, ShardId, SortKey};
use futures_util::stream;
use futures_util::stream::{StreamExt, TryStreamExt};

use crate::decide::judge::{Entry, Verdict, View, Wrong};
use crate::decide::pace::Pace;
use crate::model::error::{Code, Error};
use crate::model::metadata::CollectionMetadata;
use crate::ports::{Consistency, ShardPage};
use crate::usecases::fan_out::fan_out;
use crate::usecases::query::cursor::Position;
use crate::usecases::query::feeds::shard_page;
use crate::usecases::query::{MAX_LIMIT, Query};
use crate::usecases::verify::examine::{Examined, examine, view_of};
use crate::usecases::verify::{
    Finding, Repair, Verification, Verifier, VerifyObserver, VerifyOptions,
};

/// How many items all shards together are read ahead. They are kept without their attributes, so
/// that the walk takes the memory of their sort keys, whatever the items hold.
const READ_AHEAD: u32 = 50_000;

/// The least that is asked of a shard at once.
const LEAST_PAGE: u32 = 16;

/// How many keys are looked at again at once.
const EXAMINED_AT_ONCE: usize = 16;

/// All shards of a collection, from a sort key on.
struct Walk {
    view: View,
    feeds: Vec<Feed>,
    limit: u32,
}

/// One shard: what was read of it and not yet judged, and where it goes on.
struct Feed {
    shard: ShardId,
    buffer: VecDeque<(SortKey, Entry)>,
    next: Position,
}

impl Feed {
    fn is_dry(&self) -> bool {
        self.buffer.is_empty() && self.next != Position::End
    }

    fn take(&mut self, read: Stripped) {
        self.buffer.extend(read.entries);
        self.next = read.next;
    }
}

/// A page of a shard, without the attributes of its items.
struct Stripped {
    entries: Vec<(SortKey, Entry)>,
    next: Position,
    items_read: u64,
    consumed_rcu: f64,
}

impl Stripped {
    fn of(
        page: ShardPage,
        partition: &PartitionKey,
        shard: ShardId,
        ttl_attributes: &BTreeSet<String>,
    ) -> Self {
        let entries = page.items.into_iter().map(|(sort, item)| {
            let key = ItemKey::new(partition.clone(), sort);
            let entry = Entry::of(&key, shard, &item, ttl_attributes);
            (key.sort, entry)
        });
        Self {
            entries: entries.collect(),
            next: page.next.map_or(Position::End, Position::After),
            items_read: page.items_read,
            consumed_rcu: page.consumed_rcu,
        }
    }
}

impl Walk {
    /// Every shard that the collection may ever have had, from behind `watermark`. All shards together
    /// are asked for no more at once than `read_units` allow in a second, if items take one each and
    /// the shards are few.
    fn begin(view: View, watermark: Option<&SortKey>, read_units: Option<NonZeroU32>) -> Self {
        let start = watermark.map_or(Position::Start, |key| Position::After(key.clone()));
        let shards = view.metadata.placement.shards(view.metadata.most_shards());
        let feeds = shards.map(|shard| {
            let next = start.clone();
            Feed { shard, buffer: VecDeque::new(), next }
        });
        let feeds = feeds.collect::<Vec<_>>();
        let count = u32::try_from(feeds.len().max(1)).unwrap_or(u32::MAX);
        let share = (READ_AHEAD / count).clamp(LEAST_PAGE, MAX_LIMIT);
        let a_second = read_units.map_or(MAX_LIMIT, |units| (units.get() / count).max(LEAST_PAGE));
        Self { view, feeds, limit: share.min(a_second) }
    }

    /// The feeds to read on in, once one of them has run dry. Feeds that are about to run dry are read
    /// too, so that they do not do so one after the other.
    fn feeds_to_read(&self) -> Vec<usize> {
        if !self.feeds.iter().any(Feed::is_dry) {
            return Vec::new();
        }
        let low = usize::try_from(self.limit / 2).unwrap_or(0);
        let feeds = self.feeds.iter().enumerate();
        feeds
            .filter(|(_, feed)| feed.next != Position::End && feed.buffer.len() <= low)
            .map(|(at, _)| at)
            .collect()
    }

    fn is_done(&self) -> bool {
        self.feeds.iter().all(|feed| feed.buffer.is_empty() && feed.next == Position::End)
    }

    /// Takes out key after key, with what lies under it in each shard, until one feed runs dry.
    fn merge(&mut self, mut each: impl FnMut(SortKey, Vec<Entry>)) {
        let head = |feeds: &[Feed], at: usize| {
            feeds[at].buffer.front().map(|(sort, _)| Reverse((sort.clone(), at)))
        };
        let feeds = &mut self.feeds;
        if feeds.iter().any(Feed::is_dry) {
            return;
        }
        let mut heads =
            (0..feeds.len()).filter_map(|at| head(feeds, at)).collect::<BinaryHeap<_>>();
        let mut dry = false;
        while let Some(Reverse((sort, first))) = heads.pop().filter(|_| !dry) {
            let mut entries = Vec::new();
            let mut next = Some(first);
            while let Some(at) = next {
                entries.extend(feeds[at].buffer.pop_front().map(|(_, entry)| entry));
                heads.extend(head(feeds, at));
                dry |= feeds[at].is_dry();
                let same = heads.peek().is_some_and(|Reverse((other, _))| *other == sort);
                next = if same { heads.pop().map(|Reverse((_, at))| at) } else { None };
            }
            each(sort, entries);
        }
    }
}

/// With less time left than this a page is not asked for again: no attempt would have the time to be
/// answered.
const LEAST_TIME: Duration = Duration::from_secs(1);

impl Verifier {
    pub(super) async fn walk(
        &self,
        partition: &PartitionKey,
        options: VerifyOptions,
        observer: &mut dyn VerifyObserver,
    ) -> Result<Verification, Error> {
        let view = view_of(&self.directory, partition, self.deadline(options)).await?;
        let mut report = Verification::begun(CollectionMetadata::clone(&view.metadata));
        let mut walk = Walk::begin(view, None, options.read_units);
        let mut watermark = None;
        let mut pace = options
            .read_units
            .map(|units| Pace::steady(units.get().into(), self.directory.now().boot));
        let query = Query { consistency: Consistency::Strong, ..Query::all(partition.clone()) };
        while !walk.is_done() {
            let deadline = self.deadline(options);
            let known = self.directory.find(partition, deadline).await?;
            if known.metadata != walk.view.metadata {
                // What was read of the shards under another layout says nothing about this one.
                let view = view_of(&self.directory, partition, deadline).await?;
                walk = Walk::begin(view, watermark.as_ref(), options.read_units);
                report.layout_changed = true;
                continue;
            }
            let read_units = self.read_on(&mut walk, &query, &mut report, options).await?;
            if let Some(pace) = &mut pace {
                // It is known only afterwards what a page costs: nothing is read on until it is paid.
                let now = self.directory.now().boot;
                pace.spend(read_units, now);
                let wait = pace.spend(0.0, now);
                if !wait.is_zero() {
                    self.directory.clock().sleep(wait).await;
                }
            }
            if !known.lease.is_live(self.directory.now()) {
                // Under the same metadata what was read stands.
                continue;
            }
            let mut doubtful = Vec::new();
            let view = &walk.view.clone();
            walk.merge(|sort, entries| {
                watermark = Some(sort.clone());
                let key = ItemKey::new(partition.clone(), sort);
                let verdict = view.judge(&key, &entries);
                if verdict.is_plain() {
                    report.count(&verdict);
                } else {
                    doubtful.push((key, entries));
                }
            });
            self.settle_doubts(doubtful, view, options, &mut report, observer).await?;
            observer.progress(&report);
        }
        let known = self.directory.find(partition, self.deadline(options)).await?;
        let metadata = known.metadata;
        if !metadata.is_enlisted() && watermark.is_none() {
            let why = "no item lies under this partition key";
            return Err(Error::new(Code::CollectionNotFound, why));
        }
        report.layout_changed |= metadata != walk.view.metadata;
        report.metadata = CollectionMetadata::clone(&metadata);
        Ok(report)
    }

    /// Reads a page of each shard that needs one. Returns what it cost.
    async fn read_on(
        &self,
        walk: &mut Walk,
        query: &Query,
        report: &mut Verification,
        options: VerifyOptions,
    ) -> Result<f64, Error> {
        let limit = walk.limit;
        let placement = walk.view.metadata.placement;
        let ttl_attributes = &self.directory.lease().ttl_attributes();
        let requests = walk.feeds_to_read().into_iter().map(|at| {
            let Feed { shard, next, .. } = &walk.feeds[at];
            let deadline = self.deadline(options);
            async move {
                loop {
                    let page = shard_page(
                        &self.directory,
                        query,
                        placement,
                        *shard,
                        next,
                        limit,
                        deadline,
                    );
                    let page = page.await;
                    let in_time = deadline.remaining(self.directory.now()) >= LEAST_TIME;
                    match page {
                        Ok(page) => {
                            let read = Stripped::of(page, &query.partition, *shard, ttl_attributes);
                            return Ok::<_, Error>((at, read));
                        }
                        // Nobody waits for a page of it, so there is the time to try on.
                        Err(error) if error.is_passing() && in_time => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        });
        let requests = requests.collect::<Vec<_>>();
        let mut read_units = 0.0;
        for (at, read) in fan_out(requests).await? {
            report.items_read += read.items_read;
            read_units += read.consumed_rcu;
            walk.feeds[at].take(read);
        }
        report.consumed_rcu += read_units;
        Ok(read_units)
    }

    /// Reads again what looks wrong, and repairs what is wrong.
    async fn settle_doubts(
        &self,
        doubtful: Vec<(ItemKey, Vec<Entry>)>,
        view: &View,
        options: VerifyOptions,
        report: &mut Verification,
        observer: &mut dyn VerifyObserver,
    ) -> Result<(), Error> {
        let looks = doubtful.into_iter().map(|(key, entries)| async move {
            let shards = entries.iter().map(|entry| entry.shard).collect::<Vec<_>>();
            let (examined, repaired) = if options.repair > Repair::Nothing {
                self.mend(&key, &shards, view, options).await?
            } else {
                let examined =
                    examine(&self.directory, &key, &shards, view, self.deadline(options)).await?;
                (examined, Vec::new())
            };
            Ok::<_, Error>((key, examined, repaired))
        });
        let looks = looks.map(Box::pin).collect::<Vec<_>>();
        let mut looks = stream::iter(looks).buffered(EXAMINED_AT_ONCE);
        while let Some((key, Examined { verdict, .. }, repaired)) = looks.try_next().await? {
            report.count(&verdict);
            for wrong in &verdict.wrong {
                let repaired = repaired.contains(&wrong.entry.shard);
                let finding = finding(&key, wrong, repaired);
                let tally = report.findings.entry(finding.kind).or_default();
                tally.found += 1;
                tally.repaired += u64::from(repaired);
                observer.found(&finding);
            }
        }
        Ok(())
    }
}

fn finding(key: &ItemKey, wrong: &Wrong, repaired: bool) -> Finding {
    Finding {
        kind: wrong.kind,
        sort: key.sort.clone(),
        shard: wrong.entry.shard,
        home: wrong.home,
        generation: wrong.entry.generation,
        repaired,
    }
}

impl Verification {
    fn count(&mut self, verdict: &Verdict) {
        for entry in &verdict.live {
            self.items += 1;
            *self.live_items.entry(entry.shard).or_default() += 1;
            self.digest += entry.digest;
        }
        self.waiting_to_move += u64::from(verdict.waits_to_move);
        self.markers += verdict.markers;
    }
}

#[cfg(test)]
mod tests {
    use dynashard_keys::{Placement, ShardCount};

    use super::*;
    use crate::model::item::StoredItem;
    use crate::model::version::{Generation, Version};

    fn walk(shards: &[&[&str]], ended: bool) -> Walk {
        let partition = PartitionKey::new("p").expect("pk");
        let metadata =
            CollectionMetadata::stable(partition.clone(), Placement::Random, ShardCount::ONE, 1);
        let view = View { metadata: metadata.into(), job: None };
        let item = StoredItem {
            version: Version::new(1),
            forwarded: false,
            ..StoredItem::marker(Generation::new(1))
        };
        let feeds = shards.iter().zip(1..).map(|(names, shard)| {
            let shard = ShardId::new(shard);
            let entries = names.iter().map(|name| {
                let key = ItemKey::new(partition.clone(), SortKey::string(name).expect("sk"));
                let entry = Entry::of(&key, shard, &item, &BTreeSet::new());
                (key.sort, entry)
            });
            let next = if ended { Position::End } else { Position::Start };
            Feed { shard, buffer: entries.collect(), next }
        });
        Walk { view, feeds: feeds.collect(), limit: 4 }
    }

    fn merged(walk: &mut Walk) -> Vec<(String, Vec<u32>)> {
        let mut merged = Vec::new();
        walk.merge(|sort, entries| {
            let shards = entries.iter().map(|entry| entry.shard.get()).collect();
            merged.push((sort.to_string(), shards));
        });
        merged
    }

    #[test]
    fn what_lies_under_one_key_comes_together_lowest_shard_first() {
        let mut walk = walk(&[&["b", "c", "e"], &["a", "c"], &[], &["c", "d"]], true);
        let expected = [("a", vec![2]), ("b", vec![1]), ("c", vec![1, 2, 4]), ("d", vec![4])];
        let expected = expected.map(|(sort, shards)| (sort.to_owned(), shards));
        let mut merged = merged(&mut walk);
        assert_eq!(merged.pop(), Some(("e".to_owned(), vec![1])));
        assert_eq!(merged, expected);
        assert!(walk.is_done());
    }

    #[test]
    fn nothing_is_taken_beyond_the_end_of_what_is_known_of_a_shard() {
        let mut walk = walk(&[&["a", "c"], &["b", "d"]], false);
        let merged = merged(&mut walk);
        assert_eq!(merged.last().map(|(sort, _)| sort.as_str()), Some("c"), "{merged:?}");
        assert_eq!(walk.feeds_to_read(), [0, 1], "one is dry, the other nearly");
    }
}
