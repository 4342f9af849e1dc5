//! One page of an index.

use std::collections::HashSet;
use std::sync::Arc;

use dynashard_keys::{ItemKey, Placement, ShardId, SortKey};

use crate::model::error::{Code, Error};
use crate::model::index::SecondaryIndex;
use crate::model::index_shards::IndexShards;
use crate::model::item::{AttributeValue, StoredItem, quoted};
use crate::model::lease::Deadline;
use crate::model::metadata::CollectionMetadata;
use crate::model::version::Generation;
use crate::ports::{
    Consistency, IndexEntry, IndexPart, IndexPlace, IndexRead, IndexStart, IndexStore, ReadRecords,
};
use crate::usecases::cost::Cost;
use crate::usecases::directory::{Directory, Known};
use crate::usecases::fan_out::fan_out_each;
use crate::usecases::feeds::Feeds;
use crate::usecases::index::judge::{Judged, judge};
use crate::usecases::index::{IndexPage, check, is_of};
use crate::usecases::native_shards::NativeShards;
use crate::usecases::query::cursor::{damaged, decode_place, encode_place};
use crate::usecases::query::feeds::MAX_ATTEMPTS;
use crate::usecases::query::{NoPage, PageBudget, Query, renewed};

/// The longest partition key (DynamoDB Developer Guide, "Quotas").
const MOST_KEY_BYTES: usize = 2_048;

/// Where an entry is among those of all shards: by the index's sort key, and among those that share one.
type Order = (Option<SortKey>, Tie);

/// Which of the entries comes first that share a value of the index's sort key: DynamoDB says nothing of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Tie {
    /// All of them are in one partition, whose order is DynamoDB's own.
    None,
    /// In an index by the table's partition key their order is taken to be that of the table's sort key, and what is in another
    /// order is refused.
    Sort(SortKey),
    /// In a write-sharded index those of one shard come before those of the next, and among them it is DynamoDB's own.
    Shard(ShardId),
}

/// A partition of the index that is read.
struct Partition {
    wave: usize,
    /// The value of the index's partition key.
    value: AttributeValue,
    /// Its shard, in an index that is write-sharded.
    shard: Option<ShardId>,
}

/// A page that is read.
struct Reading<'a> {
    directory: &'a Directory,
    store: &'a dyn IndexStore,
    index: &'a Arc<SecondaryIndex>,
    query: &'a Query,
    budget: PageBudget<'a, ItemKey>,
    deadline: Deadline,
    /// Of an index by the table's partition key: the collection. It is renewed, under the same layout, when its lease ends.
    known: Option<Known>,
    partitions: Vec<Partition>,
    feeds: Feeds<Order, IndexPlace, (ItemKey, IndexEntry)>,
    /// Up to here everything was returned, or does not count.
    last: Option<IndexPlace>,
    met: HashSet<ItemKey>,
    items: Vec<(ItemKey, StoredItem)>,
    bytes: usize,
    cost: Cost,
    is_moving: bool,
}

/// Reads a page of an index.
pub(crate) async fn read_page(
    directory: &Directory,
    store: &dyn IndexStore,
    index: &Arc<SecondaryIndex>,
    query: &Query,
    budget: PageBudget<'_, ItemKey>,
    deadline: Deadline,
) -> Result<IndexPage, Error> {
    let value = check(index, query)?;
    let start = start(directory, index, query, &value)?;
    let mut attempts = directory.attempts(deadline);
    loop {
        let (known, partitions) = if index.is_by_collection() {
            let known = directory.find(&query.partition, deadline).await?;
            let waves =
                NativeShards::new(known.clone(), directory.settings().schema.separator).waves();
            let waves = waves.into_iter().enumerate();
            let partitions = waves.flat_map(|(wave, shards)| {
                let named = |at: &str| AttributeValue::String(at.to_owned());
                let of = move |at: &str| Partition { wave, value: named(at), shard: None };
                shards.into_iter().map(move |at| of(at.as_str()))
            });
            (Some(known), partitions.collect::<Vec<_>>())
        } else {
            // Settings that are not those of the stack show here, and no page stands on them.
            let lease = directory.lease().hold(deadline).await?;
            let of = |shard| Partition { wave: 0, value: value.clone(), shard };
            let partitions = if index.is_write_sharded() {
                shards_of(index, lease.index_shards())?.map(|shard| of(Some(shard))).collect()
            } else {
                vec![of(None)]
            };
            (None, partitions)
        };
        let read_shards = partitions.len();
        let reading = Reading {
            feeds: begin(&partitions, start.as_ref(), query.ascending),
            is_moving: known.as_ref().is_some_and(|known| known.metadata.reshard().is_some()),
            last: start.clone(),
            met: HashSet::new(),
            items: Vec::new(),
            bytes: 0,
            cost: Cost::default(),
            directory,
            store,
            index,
            query,
            budget,
            deadline,
            known,
            partitions,
        };
        let at_rest = reading.known.clone().filter(|_| !reading.is_moving);
        match reading.read().await {
            // An item that was written meanwhile may have left a shard for one that was not read.
            Ok(_)
                if index.is_write_sharded()
                    && shards_now(directory, index, deadline).await? != read_shards => {}
            Ok(page) => match at_rest.filter(|_| query.consistency == Consistency::Strong) {
                // An entry that has moved leaves nothing behind in the shard that was asked.
                Some(known) if is_out_of_date(directory, &known, deadline).await? => {
                    attempts.refresh().await?;
                }
                _ => return Ok(page),
            },
            Err(NoPage::Failed(error)) => return Err(error),
            Err(NoPage::Redo) => {
                if index.is_by_collection() {
                    directory.forget(&query.partition);
                }
                attempts.refresh().await?;
            }
        }
    }
}

/// The shards that each value of a write-sharded index is read of.
fn shards_of(
    index: &SecondaryIndex,
    shards: Option<IndexShards>,
) -> Result<impl ExactSizeIterator<Item = ShardId>, Error> {
    let shards = shards.ok_or_else(|| {
        let why = format!(
            "the index {} is write-sharded, and no function has said yet over how many shards: set IndexShards, and wait a minute",
            quoted(&index.name)
        );
        Error::new(Code::IndexNotReady, why)
    })?;
    Ok(Placement::Xxh64.shards(shards.read()))
}

/// How many they are by now.
async fn shards_now(
    directory: &Directory,
    index: &SecondaryIndex,
    deadline: Deadline,
) -> Result<usize, Error> {
    let lease = directory.lease().hold(deadline).await?;
    Ok(shards_of(index, lease.index_shards())?.len())
}

/// The partitions, of which nothing was read, each from where the cursor goes on.
fn begin<E>(
    partitions: &[Partition],
    start: Option<&IndexPlace>,
    ascending: bool,
) -> Feeds<Order, IndexPlace, E> {
    let waves = partitions.iter().map(|partition| partition.wave);
    let mut feeds = Feeds::new(waves, start, ascending);
    // Without a sort key all entries share one, so the shards before that of the cursor are read.
    if let Some(place) = start.filter(|place| place.value.is_none()) {
        for (at, Partition { shard, .. }) in partitions.iter().enumerate() {
            let is_read = *shard != place.shard && (*shard < place.shard) == ascending;
            if is_read {
                feeds.take_in(at, 0, [], None);
            }
        }
    }
    feeds
}

/// Whether the metadata by which a collection was read is out of date by now. Whoever has written under a later one has read it by
/// a strong read, so that another one shows it, whether or not the directory does; what is known stays as it is for all others.
pub(crate) async fn is_out_of_date(
    directory: &Directory,
    known: &Known,
    deadline: Deadline,
) -> Result<bool, Error> {
    let known = &known.metadata;
    let records = directory.context().record_store();
    let read = || records.get::<CollectionMetadata>(&known.partition);
    let why_late = "the metadata could not be read in time";
    let now = directory.attempts(deadline).make(read, why_late).await?.value;
    let is_out_of_date = now.map_or(Generation::new(0), |now| now.generation) != known.generation;
    if is_out_of_date {
        directory.forget(&known.partition);
    }
    Ok(is_out_of_date)
}

/// Where the query's cursor goes on, if it is one that its pages can have.
fn start(
    directory: &Directory,
    index: &SecondaryIndex,
    query: &Query,
    asked: &AttributeValue,
) -> Result<Option<IndexPlace>, Error> {
    let Some(text) = query.cursor.as_deref() else { return Ok(None) };
    let place = decode_place(text, &index.name, query)?;
    let [partition, sort] = index.attributes()?;
    let is_of_table =
        |key: Option<(&str, _)>| key.is_some_and(|(key, _)| key == index.table_keys[1]);
    let is_reached = is_of(place.value.as_ref(), sort.map(|(_, r#type)| r#type))
        && place.value.as_ref().is_none_or(|value| query.range.contains(value))
        && place.sort.is(directory.settings().schema.sort_key_type)
        && place.at.is_empty() == index.is_by_collection()
        && place.shard.is_some() == index.is_write_sharded()
        && place.at.len() <= MOST_KEY_BYTES
        // DynamoDB refuses what says two things of one attribute.
        && (!is_of_table(sort) || place.value.as_ref() == Some(&place.sort))
        && (!is_of_table(partition) || AttributeValue::from(&place.sort) == *asked);
    if is_reached { Ok(Some(place)) } else { Err(damaged()) }
}

impl Reading<'_> {
    async fn read(mut self) -> Result<IndexPage, NoPage> {
        let waves =
            self.partitions.iter().map(|partition| partition.wave + 1).max().unwrap_or_default();
        let start = self.last.clone();
        loop {
            for wave in 0..waves {
                let missing = match self.read_wave(wave).await {
                    // What of the index counts was not told.
                    Err(NoPage::Failed(error)) if error.is_passing() => Some(error),
                    read => read?,
                };
                if let Some(missing) = missing {
                    let has_come_on = !self.items.is_empty() || self.last != start;
                    return if has_come_on { Ok(self.finish(true)) } else { Err(missing.into()) };
                }
            }
            self.feeds.drop_old(|(key, _)| key.clone());
            let is_full = self.merge();
            if is_full || self.feeds.are_done() {
                let ends_early = !self.feeds.are_done();
                return Ok(self.finish(ends_early));
            }
            if self.deadline.remaining(self.directory.now()).is_zero() {
                if self.last != start {
                    return Ok(self.finish(true));
                }
                let why = "the page could not be read in time; ask for less, or again";
                return Err(Error::new(Code::DeadlineExceeded, why).into());
            }
            if self.known.is_some() && self.is_moving {
                self.feeds.begin_anew();
            }
        }
    }

    /// Reads on in those partitions of a wave of which the next entry is not known. Returns the error of those that did not answer
    /// for now. What was answered after the lease is thrown away.
    async fn read_wave(&mut self, wave: usize) -> Result<Option<Error>, NoPage> {
        let (directory, store, deadline) = (self.directory, self.store, self.deadline);
        let asks = self.feeds.dry(wave).into_iter().map(|at| self.ask(at)).collect::<Vec<_>>();
        let requests = asks.into_iter().map(|(at, read)| async move {
            let mut attempts = directory.attempts(deadline).at_most(MAX_ATTEMPTS);
            let why = "a partition of the index did not answer in time";
            let part = attempts.make(|| store.query_index(&read), why).await?;
            Ok((at, read.limit, part, directory.now()))
        });
        let (requests, lease) = (requests.collect(), self.known.as_ref().map(|known| known.lease));
        let (mut parts, mut is_overdue) = (Vec::new(), false);
        let missing = fan_out_each(requests, |(at, asked, part, answered)| {
            if lease.is_none_or(|lease| lease.is_live(answered)) {
                parts.push((at, asked, part));
            } else {
                is_overdue = true;
            }
            Ok::<_, NoPage>(())
        });
        let missing = missing.await?;
        if let Some(known) = self.known.as_ref().filter(|_| is_overdue) {
            self.known = Some(renewed(directory, known, deadline).await?);
        }
        self.take_in(parts).await?;
        Ok(missing)
    }

    /// The request for the next entries of a partition.
    fn ask(&self, at: usize) -> (usize, IndexRead) {
        let Query { range, ascending, fields, consistency, .. } = self.query;
        let Partition { value: partition, shard, .. } = &self.partitions[at];
        let start = self.feeds.next(at).cloned().and_then(|place| match partition {
            // In an index by the table's partition key each shard has one of its own.
            AttributeValue::String(shard) if self.known.is_some() => {
                Some(IndexStart::Behind(IndexPlace { at: shard.clone(), ..place }))
            }
            _ if place.shard == *shard => Some(IndexStart::Behind(place)),
            // The cursor is of another shard: those that share its value come before it, or behind it.
            _ => place.value.map(|value| {
                let included = (*shard > place.shard) == *ascending;
                IndexStart::At { value, included }
            }),
        });
        let start = start.unwrap_or(IndexStart::Range);
        // What has moved is seen at once. A global index has no such reads.
        let is_strong = self.is_moving && self.index.is_local;
        let read = IndexRead {
            index: Arc::clone(self.index),
            partition: partition.clone(),
            shard: *shard,
            range: range.clone(),
            ascending: *ascending,
            start,
            limit: u32::try_from(self.feeds.limit(at, self.wanted())).unwrap_or(u32::MAX),
            fields: fields.clone(),
            consistency: if is_strong { Consistency::Strong } else { *consistency },
        };
        (at, read)
    }

    /// How many more entries the page has room for, if they are as large as those before: many large ones would be read in vain, and
    /// be in memory meanwhile.
    fn wanted(&self) -> usize {
        let limit = usize::try_from(self.query.limit).unwrap_or(usize::MAX);
        let room = self.budget.max_bytes.saturating_sub(self.bytes);
        let mean = self.bytes.checked_div(self.items.len());
        let fitting = mean.map_or(limit, |mean| (room / mean.max(1)).saturating_add(1));
        limit.saturating_sub(self.items.len()).min(fitting)
    }

    /// Takes in what was read: the entries that count.
    async fn take_in(&mut self, parts: Vec<(usize, u32, IndexPart)>) -> Result<(), NoPage> {
        let (mut read, mut ends) = (Vec::new(), Vec::new());
        for (at, asked, mut part) in parts {
            self.cost += Cost {
                items_read: part.items_read,
                consumed_rcu: part.consumed_rcu,
                ..Cost::default()
            };
            self.check_order(at, &part)?;
            self.cut(&mut part);
            let next = part.next.map(|next| {
                let order = self.order_of(&next);
                (next, order)
            });
            ends.push((at, asked, next));
            read.extend(part.entries.into_iter().map(|entry| (at, entry)));
        }
        let judged = judge(self.directory, self.index, read, self.known.as_ref(), self.deadline);
        let Judged { counting, is_moving, cost } = judged.await?;
        self.is_moving |= is_moving;
        self.cost += cost;
        let mut counting = counting.into_iter().peekable();
        for (at, asked, next) in ends {
            let mut entries = Vec::new();
            while let Some((_, key, mut entry)) = counting.next_if(|(of, ..)| *of == at) {
                if let Some(fields) = &self.query.fields {
                    entry.item = fields.project(entry.item);
                }
                entries.push((self.order_of(&entry.place), (key, entry)));
            }
            let asked = usize::try_from(asked).unwrap_or(usize::MAX);
            self.feeds.take_in(at, asked, entries, next);
        }
        Ok(())
    }

    fn order_of(&self, place: &IndexPlace) -> Order {
        let tie = match place.shard {
            Some(shard) => Tie::Shard(shard),
            None if self.known.is_some() => Tie::Sort(place.sort.clone()),
            None => Tie::None,
        };
        (place.value.clone(), tie)
    }

    /// Ends a part where the range of the query does.
    fn cut(&self, part: &mut IndexPart) {
        let is_beyond = |place: &IndexPlace| {
            place.value.as_ref().is_some_and(|value| !self.query.range.contains(value))
        };
        let end = part.entries.iter().position(|entry| is_beyond(&entry.place));
        part.entries.truncate(end.unwrap_or(part.entries.len()));
        part.next.take_if(|next| is_beyond(next));
    }

    /// Refuses entries that could not be merged with those of other shards.
    fn check_order(&self, at: usize, part: &IndexPart) -> Result<(), Error> {
        if self.known.is_none() {
            return Ok(());
        }
        let mut before = self.feeds.next(at).map(|place| self.order_of(place));
        for place in part.entries.iter().map(|entry| self.order_of(&entry.place)) {
            if before.is_some_and(|before| self.feeds.order(&before, &place).is_ge()) {
                let why = "index_order: the index has entries in another order than that of its sort key and the table's, so that \
                           those of several shards cannot be merged";
                return Err(Error::new(Code::Internal, why));
            }
            before = Some(place);
        }
        Ok(())
    }

    /// Takes entries into the page, in order, until that is full (`true`), or no partition can be said to have the next one.
    fn merge(&mut self) -> bool {
        let limit = usize::try_from(self.query.limit).unwrap_or(usize::MAX);
        while let Some((at, (key, entry))) = self.feeds.peek() {
            let is_new = !self.met.contains(key);
            let bytes = if is_new { (self.budget.measure)(key, &entry.item) } else { 0 };
            let fits = self.items.is_empty() || self.budget.fits(self.bytes, bytes);
            if is_new && (self.items.len() >= limit || !fits) {
                return true;
            }
            let Some((_, (key, entry))) = self.feeds.pop(at, is_new) else { break };
            self.last = Some(entry.place);
            if is_new {
                self.met.insert(key.clone());
                self.items.push((key, entry.item));
                self.bytes = self.bytes.saturating_add(bytes);
            }
        }
        if let Some(frontier) = self.feeds.frontier() {
            self.last = Some(frontier.clone());
        }
        self.items.len() >= limit
    }

    fn finish(self, ends_early: bool) -> IndexPage {
        let last = self.last.filter(|_| ends_early).map(|last| {
            let at = if self.known.is_some() { String::new() } else { last.at };
            encode_place(&self.index.name, self.query, &IndexPlace { at, ..last })
        });
        IndexPage {
            items: self.items,
            cursor: last,
            shards: u32::try_from(self.partitions.len()).unwrap_or(u32::MAX),
            items_read: self.cost.items_read,
            consumed_rcu: self.cost.consumed_rcu,
            is_moving: self.is_moving,
        }
    }
}
