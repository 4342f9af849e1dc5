//! A page of an index, put together from all shards.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use dynashard_core::{Deadline, NativeShards, Place};
use dynashard_keys::{ItemKey, PhysicalPartitionKey, SortKey};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;

use super::asked::{Asked, CAPACITY};
use super::feed::{Entry, Feeds, entries};
use super::keys::Keys;
use super::shard_page::ShardPage;
use crate::call::Answer;
use crate::document::{Members, written};
use crate::evaluation::{Item, Page};
use crate::live::{Spot, in_time, look};
use crate::no_page::NoPage;
use crate::outcome::Outcome;
use crate::refusal::Refusal;
use crate::table::ManagedTable;
use crate::upstream::{Upstream, not_understood, refused};

/// A page that is put together.
pub(super) struct Merge<'a> {
    upstream: &'a Upstream,
    table: &'a ManagedTable,
    asked: &'a Asked,
    shards: &'a NativeShards,
    /// The shards, and what was read of them.
    partitions: Vec<PhysicalPartitionKey>,
    feeds: Feeds,
    page: Page<Keys>,
    /// The sort keys of what was evaluated: while items move, one may be met once more.
    met: BTreeSet<SortKey>,
    /// What DynamoDB says that it consumed.
    consumed: Value,
}

/// How many shards are asked at once.
const FAN_OUT: usize = 32;

/// How long it is waited at most before a shard is asked again that DynamoDB has refused to read, first and at last.
const FIRST_PAUSE: Duration = Duration::from_millis(40);
const LONGEST_PAUSE: Duration = Duration::from_millis(1_280);

/// How many entries are asked for of an index of which nothing is known yet.
const FIRST: usize = 100;

impl<'a> Merge<'a> {
    /// A page of which nothing was read.
    pub(super) fn new(
        upstream: &'a Upstream,
        table: &'a ManagedTable,
        asked: &'a Asked,
        shards: &'a NativeShards,
    ) -> Self {
        let waves = shards.waves();
        let of = waves.iter().enumerate().flat_map(|(wave, all)| all.iter().map(move |_| wave));
        let feeds = Feeds::new(of, asked.start.as_ref(), asked.ascending);
        let (partitions, page, met) = (waves.concat(), Page::default(), BTreeSet::new());
        let consumed = Value::Null;
        Self { upstream, table, asked, shards, partitions, feeds, page, met, consumed }
    }

    /// Reads it.
    pub(super) async fn page(mut self, deadline: Deadline) -> Result<Answer, NoPage> {
        let each = self.feeds.limit(0, self.asked.evaluation.wanted(&self.page, FIRST));
        let patience = deadline.remaining(self.table.requests().now());
        let room = self.upstream.page_room();
        let _room = room.for_page(self.partitions.len(), each, patience).await?;
        loop {
            let waves = self.shards.waves().len();
            for wave in 0..waves {
                in_time(self.table, deadline)?;
                self.read(wave, deadline).await?;
            }
            self.feeds.drop_old(|entry| entry.sort.clone());
            if let ControlFlow::Break(ends_early) = self.merge() {
                return Ok(self.answer(ends_early));
            }
            if self.feeds.are_done() {
                return Ok(self.answer(false));
            }
            if self.shards.is_moving() {
                self.feeds.begin_anew();
            }
        }
    }

    /// Reads on in those shards of a wave of which the next entry is not known.
    async fn read(&mut self, wave: usize, deadline: Deadline) -> Result<(), NoPage> {
        let wanted = self.asked.evaluation.wanted(&self.page, FIRST);
        let dry = self.feeds.dry(wave);
        let asks = dry.iter().map(|at| self.ask(*at, self.feeds.limit(*at, wanted), deadline));
        let asks = asks.collect::<Vec<_>>();
        let pages = stream::iter(asks).buffer_unordered(FAN_OUT);
        for (at, limit, page) in pages.try_collect::<Vec<_>>().await? {
            page.consumed.iter().for_each(|consumed| add(&mut self.consumed, consumed));
            let of = (at, &self.partitions[at]);
            let (read, next) = entries(self.table, self.asked, self.shards, of, &self.feeds, page)?;
            self.feeds.take_in(at, limit, read, next);
        }
        self.drop_doubtful(&dry, deadline).await
    }

    /// The next entries of a shard.
    async fn ask(
        &self,
        at: usize,
        limit: usize,
        deadline: Deadline,
    ) -> Result<(usize, usize, ShardPage), NoPage> {
        let (partition, next) = (&self.partitions[at], self.feeds.next(at));
        let mut body = self.asked.of_shard(self.table, partition, next, limit)?;
        // What has moved is seen at once. A global index has no such reads.
        if self.shards.is_moving() && self.asked.index.is_local {
            body.insert("ConsistentRead".to_owned(), true.into());
        }
        Ok((at, limit, self.exchange(body, deadline).await?))
    }

    /// Sends a query, and again for a while where DynamoDB has too much to do: a page of which one shard is missing is none.
    async fn exchange(&self, body: Members, deadline: Deadline) -> Result<ShardPage, NoPage> {
        let sent = written(&body);
        let mut pause = FIRST_PAUSE;
        loop {
            let names = Arc::clone(&self.asked.names);
            let of = move |answer: &Answer| ShardPage::of(&answer.body, &names);
            let read = self.upstream.read("Query", sent.clone(), of).await;
            let (answer, page) = read.map_err(|error| refused(&error))?;
            match Outcome::of(answer) {
                Outcome::Done(_) => {
                    self.check_layout(deadline).await?;
                    return page.map_err(|error| not_understood(&error).into());
                }
                Outcome::Again(_, answer) if pause > LONGEST_PAUSE => {
                    return Err(NoPage::Refused(answer));
                }
                Outcome::Again(..) => {}
                Outcome::Refused(answer) | Outcome::Passed(answer) => {
                    return Err(NoPage::Refused(answer));
                }
            }
            self.table.requests().pause(pause).await;
            pause *= 2;
        }
    }

    /// Has the page begin again if the layout may have changed before what was just answered. Many shards with large items take
    /// longer than a lease: behind its end what is known is read anew.
    async fn check_layout(&self, deadline: Deadline) -> Result<(), NoPage> {
        let requests = self.table.requests();
        if self.shards.lease().is_live(requests.now()) {
            return Ok(());
        }
        let now = requests.shards_of(&self.asked.partition, deadline).await;
        let now = now.map_err(|error| Refusal::of(&error))?;
        if now.are_those_of(self.shards) { Ok(()) } else { Err(NoPage::Again) }
    }

    /// Drops those entries of these shards that do not count, as only the table tells: entries at the old home of items that are
    /// live at the new one, and markers, which an index by the table's own keys may show as items.
    async fn drop_doubtful(&mut self, feeds: &[usize], deadline: Deadline) -> Result<(), NoPage> {
        let index = &self.asked.index;
        let may_be_markers = self.shards.may_hold_markers()
            && index.may_hold_markers()
            && !index.tells.markers
            && !self.asked.are_whole;
        if !self.shards.is_moving() && !may_be_markers {
            return Ok(());
        }
        // Each with where to look, and whether it counts if something is live there, or if nothing is.
        let mut doubts = Vec::new();
        for at in feeds {
            let partition = &self.partitions[*at];
            for sort in self.feeds.entries(*at).map(|entry| &entry.sort) {
                let key = ItemKey::new(self.asked.partition.clone(), sort.clone());
                if self.shards.place_of(&key, partition.as_str()) == Place::OldHome {
                    let new = self.shards.new_home(&key);
                    let new = new.map(|new| new.as_str().to_owned());
                    doubts.extend(new.map(|new| (*at, (new, sort.clone()), false)));
                }
                if may_be_markers {
                    doubts.push((*at, (partition.as_str().to_owned(), sort.clone()), true));
                }
            }
        }
        let spots = doubts.iter().map(|(_, spot, _)| spot.clone()).collect();
        let live = self.live(spots, deadline).await?;
        for (at, spot, counts_if_live) in doubts {
            if live.contains(&spot) != counts_if_live {
                self.feeds.retain(at, |entry| entry.sort != spot.1);
            }
        }
        Ok(())
    }

    /// At which of these places of the table something is live.
    async fn live(
        &mut self,
        spots: BTreeSet<Spot>,
        deadline: Deadline,
    ) -> Result<BTreeSet<Spot>, NoPage> {
        let capacity = self.asked.request.get(CAPACITY);
        let found = look(self.upstream, self.table, spots, capacity, deadline).await?;
        found.consumed.iter().for_each(|more| add(&mut self.consumed, more));
        let known = self.shards.generation().get();
        if found.generations.values().any(|generation| *generation > known) {
            self.table.requests().forget(&self.asked.partition);
            return Err(NoPage::Again);
        }
        self.check_layout(deadline).await?;
        Ok(found.live)
    }

    /// Takes entries into the page, in order, until that is over, or no shard can be said to have the next one: up to where all of
    /// them were read.
    fn merge(&mut self) -> ControlFlow<bool> {
        while let Some((at, entry)) = self.feeds.peek() {
            let counts = !self.shards.is_moving() || !self.met.contains(&entry.sort);
            let Some((place, entry)) = self.feeds.pop(at, counts) else { break };
            if counts {
                let Entry { sort, common, text, bytes } = entry;
                if self.shards.is_moving() {
                    self.met.insert(sort);
                }
                let (keys, item) = (Keys { place, common }, Item::Written(text));
                self.asked.evaluation.take(&mut self.page, keys, item, bytes)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn answer(self, ends_early: bool) -> Answer {
        if let Some(mean) = self.page.mean_bytes() {
            self.upstream.page_room().learn(mean);
        }
        let last = self.page.last.clone().filter(|_| ends_early);
        let last = last.map(|keys| self.asked.names.key(keys));
        let consumed = Some(self.consumed).filter(|consumed| !consumed.is_null());
        self.asked.evaluation.answer(self.page, last, consumed)
    }
}

/// Adds what one more request consumed.
fn add(all: &mut Value, more: &Value) {
    match (&mut *all, more) {
        (Value::Object(all), Value::Object(more)) => {
            for (name, more) in more {
                add(all.entry(name.clone()).or_insert(Value::Null), more);
            }
        }
        (Value::Number(units), Value::Number(more)) => {
            let sum = units.as_f64().zip(more.as_f64()).map(|(units, more)| units + more);
            *all = sum.into();
        }
        (Value::Null, more) => *all = more.clone(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn units_are_added_wherever_they_stand() {
        let mut all = Value::Null;
        let one =
            json!({ "TableName": "t", "CapacityUnits": 1.5, "Table": { "CapacityUnits": 0.5 } });
        let other = json!({ "TableName": "t", "CapacityUnits": 2.0, "LocalSecondaryIndexes": { "i": { "CapacityUnits": 2.0 } } });
        for more in [&one, &other] {
            add(&mut all, more);
        }
        let sum = json!({ "TableName": "t", "CapacityUnits": 3.5, "Table": { "CapacityUnits": 0.5 },
                          "LocalSecondaryIndexes": { "i": { "CapacityUnits": 2.0 } } });
        assert_eq!(all, sum);
    }
}
