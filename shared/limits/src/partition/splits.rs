//! Splits of partitions for heat.

use std::collections::BTreeMap;

use dynashard_keys::{SortKey, SortKeyType};
use xxhash_rust::xxh64::xxh64;

use super::demand::Demand;
use super::limits::range_hash;

/// How many parts one partition is split into at most.
pub(super) const MOST_PARTS: usize = 64;

/// A part of a partition: the partition's range, and the part's number. The part that was there first has number 0.
pub(super) type PartId = (u32, u32);

/// Where the partitions of one table or index were split for heat, and what is known of those that are hot.
#[derive(Debug, Clone, Default)]
pub(super) struct Splits {
    /// Those by which collections may be split.
    pub(super) sort_keys: Option<SortKeyType>,
    /// By range. A partition that is neither split nor hot is not here.
    ranges: BTreeMap<u32, Parts>,
}

impl Splits {
    /// The part of a range that a demand is about.
    pub(super) fn part(&self, range: u32, demand: &Demand<'_>) -> PartId {
        let parts = self.ranges.get(&range).filter(|parts| !parts.begins.is_empty());
        (range, parts.map_or(0, |parts| parts.number_at(&Position::of(demand, self.sort_keys))))
    }

    /// Notes that a part refused a request in this second.
    pub(super) fn refused(&mut self, (range, number): PartId, second: u64) {
        let heat = self.ranges.entry(range).or_default().heat.entry(number);
        heat.or_insert_with(|| Heat { since: second, ..Heat::default() }).last = second;
    }

    /// Notes where in a range a demand lies, if its part is hot.
    pub(super) fn note(&mut self, range: u32, demand: &Demand<'_>) {
        let parts = self.ranges.get_mut(&range).filter(|parts| !parts.heat.is_empty());
        let Some(parts) = parts else { return };
        let position = Position::of(demand, self.sort_keys);
        let number = parts.number_at(&position);
        if let Some(heat) = parts.heat.get_mut(&number) {
            heat.note(position);
        }
    }

    /// Splits the parts that refused requests in each of `after` seconds, and forgets the heat of those that refused none in
    /// the one before `second`. Returns the new parts, each with the second in which it begins.
    ///
    /// A part begins directly after the last of these seconds, however much later somebody asks.
    pub(super) fn split(&mut self, second: u64, after: u64) -> Vec<(PartId, u64)> {
        let mut new = Vec::new();
        for (range, parts) in &mut self.ranges {
            for (number, heat) in std::mem::take(&mut parts.heat) {
                let next = heat.last + 1;
                if next - heat.since >= after {
                    // What cannot be split waits as long again: its traffic may be another by then.
                    let split = parts.split_by(heat.sample);
                    new.extend(split.map(|number| ((*range, number), next)));
                } else if next >= second {
                    parts.heat.insert(number, heat);
                }
            }
        }
        self.ranges.retain(|_, parts| !parts.begins.is_empty() || !parts.heat.is_empty());
        new
    }
}

/// The parts of one partition.
#[derive(Debug, Clone, Default)]
struct Parts {
    /// The numbers of the parts after the first, by where each begins.
    begins: BTreeMap<Position, u32>,
    /// By the number of a part. A part that is not hot is not here.
    heat: BTreeMap<u32, Heat>,
}

impl Parts {
    fn number_at(&self, position: &Position) -> u32 {
        self.begins.range(..=position).next_back().map_or(0, |(_, number)| *number)
    }

    /// Splits the part that the sample is of, between two keys as near to its median as can be. Returns the number of the
    /// new part; `None` where all is one key, or there are too many parts.
    fn split_by(&mut self, mut sample: Vec<Position>) -> Option<u32> {
        let number = self.begins.len() + 1;
        if number >= MOST_PARTS {
            return None;
        }
        sample.sort();
        let middle = sample.len() / 2;
        let median = sample.get(middle)?;
        // Where its run begins and ends.
        let run = [
            sample.partition_point(|position| position < median),
            sample.partition_point(|position| position <= median),
        ];
        let inside = run.into_iter().filter(|at| (1..sample.len()).contains(at));
        let at = inside.min_by_key(|at| at.abs_diff(middle))?;
        let number = u32::try_from(number).ok()?;
        self.begins.insert(sample.swap_remove(at), number);
        Some(number)
    }
}

/// The evidence against a part that refused requests in each second from `since` to `last`.
#[derive(Debug, Clone, Default)]
struct Heat {
    since: u64,
    last: u64,
    /// How many requests were noted.
    seen: u64,
    /// Where some of them lie, each of them as likely as another.
    sample: Vec<Position>,
}

impl Heat {
    /// Reservoir sampling (Vitter, 1985, algorithm R), with a hash for chance: a pattern in the traffic does not meet it.
    fn note(&mut self, position: Position) {
        self.seen += 1;
        if self.sample.len() < SAMPLE {
            self.sample.push(position);
            return;
        }
        let at = xxh64(&self.seen.to_le_bytes(), 0) % self.seen;
        if let Some(place) = usize::try_from(at).ok().and_then(|at| self.sample.get_mut(at)) {
            *place = position;
        }
    }
}

const SAMPLE: usize = 64;

/// Where an item lies: partitions hold them by hash, each collection together and in its order. What names no sort key
/// lies where its collection begins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    hash: u64,
    partition_key: String,
    /// `None` where collections are whole.
    sort_key: Option<SortKey>,
}

impl Position {
    fn of(demand: &Demand<'_>, sort_keys: Option<SortKeyType>) -> Self {
        let sort_key = demand.sort_key.zip(sort_keys);
        let sort_key = sort_key.and_then(|(text, kind)| SortKey::parse(text, kind).ok());
        let partition_key = demand.partition_key.to_owned();
        Self { hash: range_hash(&partition_key), partition_key, sort_key }
    }
}
