//! One shard of an index, as it is read.

use std::collections::VecDeque;

use dynashard_core::query::with_spread;
use dynashard_core::{NativeShards, Place};
use dynashard_keys::{PhysicalPartitionKey, SortKey};
use serde_json::Value;

use super::asked::{Asked, Sequence};
use crate::document::Members;
use crate::no_page::NoPage;
use crate::refusal::Refusal;
use crate::table::ManagedTable;
use crate::value;

/// One shard: what was read of it and not yet returned, and where it goes on.
pub(super) struct Feed {
    pub(super) at: PhysicalPartitionKey,
    /// Whether it is asked behind those that items leave.
    pub(super) wave: usize,
    pub(super) entries: VecDeque<Entry>,
    /// The key behind which it goes on, `None` at its beginning.
    pub(super) next: Option<Members>,
    /// Up to where it was read, if it goes on there.
    pub(super) covered: Option<Sequence>,
    /// Whether it goes on.
    pub(super) is_open: bool,
    /// How many entries it was asked for last.
    asked: usize,
    /// How many of the page are its.
    pub(super) brought: usize,
}

/// An entry that was read and not yet returned.
pub(super) struct Entry {
    pub(super) place: Sequence,
    /// That of its item.
    pub(super) sort: SortKey,
    /// The client's key of it, to begin behind.
    pub(super) key: Members,
    pub(super) item: Members,
    pub(super) bytes: usize,
}

/// The most entries that a shard is asked for at once.
const MOST: usize = 1_000;

impl Feed {
    /// A shard of which nothing was read, from behind this key on.
    pub(super) fn new(at: PhysicalPartitionKey, wave: usize, start: Option<Members>) -> Self {
        let entries = VecDeque::new();
        let (covered, asked, brought) = (None, 0, 0);
        Self { at, wave, entries, next: start, covered, is_open: true, asked, brought }
    }

    /// Has it be read from behind this key on, whatever was read of it before.
    pub(super) fn begin_behind(&mut self, key: &Members) {
        self.entries.clear();
        self.next = Some(key.clone());
        (self.covered, self.is_open) = (None, true);
    }

    /// Whether nothing can be said about its next entry without another request.
    pub(super) fn is_dry(&self) -> bool {
        self.is_open && self.entries.is_empty()
    }

    /// How many entries to ask for where `wanted` are, of so many shards and behind so many of the page: its share and what that may
    /// vary by, or what it was of the page so far, if that is twice as many as before at most.
    pub(super) fn limit(&self, wanted: usize, shards: usize, evaluated: usize) -> usize {
        let twice = 2 * self.asked.max(1);
        let part = |of: usize, all: usize| float(wanted) * float(of) / float(all.max(1));
        let limit = match (self.asked, self.brought) {
            (0, _) => with_spread(part(1, shards), wanted),
            // Nothing that counts was among them.
            (_, 0) => twice,
            (_, brought) => with_spread(part(brought, evaluated), wanted.min(twice)),
        };
        limit.clamp(1, MOST)
    }

    /// Takes in a page of so many entries at most. What does not count is passed over.
    pub(super) fn take(
        &mut self,
        table: &ManagedTable,
        asked: &Asked,
        shards: &NativeShards,
        mut page: Members,
        limit: usize,
    ) -> Result<(), NoPage> {
        let mut before = self.next.as_ref().and_then(|key| asked.place(table, key));
        let items = page.get_mut("Items").and_then(Value::as_array_mut).map(std::mem::take);
        for item in items.into_iter().flatten() {
            let Value::Object(mut item) = item else { continue };
            let shown = table.shown(&mut item);
            if shown.generation > shards.generation().get() {
                table.requests().forget(&asked.partition);
                return Err(NoPage::Again);
            }
            let keys = asked.index.keys.iter();
            let key = keys.map(|name| Some((name.clone(), item.get(name)?.clone())));
            let key = key.collect::<Option<Members>>();
            let place = key.as_ref().and_then(|key| asked.place(table, key));
            let item_key = table.key_of(&item)?;
            // Without them the index is another one than it was.
            let (Some(key), Some(place), Some(item_key)) = (key, place, item_key) else {
                table.indexes().forget();
                return Err(NoPage::Again);
            };
            if before.is_some_and(|before| asked.order(&before, &place).is_ge()) {
                return Err(Refusal::internal(
                    "dynashard: index_order: the index has entries in another order than that of its sort key and the table's, so \
                     that those of several shards cannot be merged",
                )
                .into());
            }
            before = Some(place.clone());
            let lies = shards.place_of(&item_key, self.at.as_str());
            if !shown.is_marker && lies != Place::Elsewhere {
                let bytes = value::bytes(&item);
                self.entries.push_back(Entry { place, sort: item_key.sort, key, item, bytes });
            }
        }
        self.asked = limit;
        self.next = page.get_mut("LastEvaluatedKey").and_then(Value::as_object_mut).map(|key| {
            table.name_logically(key);
            std::mem::take(key)
        });
        self.is_open = self.next.is_some();
        self.covered = self.next.as_ref().and_then(|key| asked.place(table, key));
        if self.is_open && self.covered.is_none() {
            table.indexes().forget();
            return Err(NoPage::Again);
        }
        Ok(())
    }
}

fn float(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

#[cfg(test)]
mod tests {
    use dynashard_keys::{PartitionKey, Placement, Separator};

    use super::*;

    /// A shard that was asked for so many entries, of which so many are on the page.
    fn feed(asked: usize, brought: usize) -> Feed {
        let partition = PartitionKey::new("a").expect("a partition key");
        let at = partition.at(Placement::Xxh64.first(), Placement::Xxh64, Separator::HashTilde);
        Feed { asked, brought, ..Feed::new(at, 0, None) }
    }

    /// A share of 6.25 was asked for with 11 entries, so every other page of 100 of 16 shards asked some of them twice.
    #[test]
    fn regression_a_shard_was_asked_for_less_than_its_share_and_two_deviations() {
        assert_eq!(feed(0, 0).limit(100, 16, 0), 12); // 6.25 + 2 * 2.5 = 11.25
        assert_eq!(feed(0, 0).limit(3, 1, 0), 3);
        assert_eq!(feed(12, 12).limit(28, 16, 72), 9, "28 / 6 and its spread");
        assert_eq!(feed(12, 0).limit(28, 16, 72), 24, "nothing counted");
    }
}
