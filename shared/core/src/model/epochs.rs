//! The epochs of a collection: which part of its sort keys has which shard count (protocol: "Epochs").

use dynashard_keys::{Placement, ShardCount, SortKey, SortKeyType};

use crate::model::contradiction::Contradiction;

/// The epochs of a collection but its newest, whose count is that of the collection.
///
/// Every sort key lies in one epoch (invariant I40). Where newer keys sort higher, the newest epoch holds all keys above a boundary;
/// where they sort lower, all keys up to it. A boundary belongs to the part below it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Epochs {
    /// The older epochs, oldest first, each with the boundary to the next one.
    pub older: Vec<Epoch>,
    /// Whether newer keys sort lower.
    pub descending: bool,
    /// Which of [`Self::older`] a running change of the count is about; `None` where it is the newest.
    pub changing: Option<usize>,
}

/// An epoch that is not the newest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    /// The count of its items' shards.
    pub count: ShardCount,
    /// Where the next epoch begins: behind this key, in the direction of newer ones.
    pub boundary: SortKey,
}

/// An interval of sort keys: those above `after`, up to and with `until`; `None` where it has no such bound.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interval {
    /// What lies below it ends here.
    pub after: Option<SortKey>,
    /// Its last key.
    pub until: Option<SortKey>,
}

/// What of a collection gets another count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Extent {
    /// The newest epoch, which is all of it where there is one.
    #[default]
    Newest,
    /// What lies behind a sort key of the newest epoch, and all that will: it becomes an epoch of its own.
    Behind {
        /// The key. It is of the part that sorts lower.
        boundary: SortKey,
        /// Whether newer keys sort lower. The epochs that the collection has tell more.
        descending: bool,
    },
    /// An older epoch, in place: an index into those of the collection.
    Older(usize),
    /// All of it, one epoch after the other, the newest first: each request begins the next change.
    Whole,
}

impl Epochs {
    /// The most epochs of one collection (protocol: "Epochs"). Their boundaries take 32 KB of its metadata item at most.
    pub const MAX: usize = 32;

    /// From so many on neighbours are merged, and with more a shrink moves items: the others are left for growth.
    const MANY: usize = 24;

    /// A collection begins its first epoch by itself where so many items at least stay where they are, or as many pages of 1 MB as hold
    /// so many of 1 KB. To count them takes some 1,000 read units, and to move them would take some 30,000 write units.
    pub const LEAST_ITEMS_BEFORE_FIRST: u64 = 8_000;

    /// An epoch of fewer items costs next to nothing to move.
    pub const FEW_ITEMS: u64 = 1_000;

    /// An epoch of more items is not merged with a neighbour: no growth can begin while they move.
    pub const MOST_ITEMS_MERGED: u64 = 50_000;

    /// Whether a collection that decides to shrink moves items for it, and begins no epoch.
    pub fn shrinks_in_place(&self) -> bool {
        self.is_one() || self.count() > Self::MANY
    }

    /// Whether neighbours are to be merged as soon as the collection rests, so that there is room for more.
    pub fn are_many(&self) -> bool {
        self.count() >= Self::MANY
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.older.len() + 1
    }

    /// Whether one count holds of all sort keys.
    pub fn is_one(&self) -> bool {
        self.older.is_empty()
    }

    /// Which epoch a key lies in: an index into [`Self::older`], or `None` for the newest.
    pub fn of(&self, sort: &SortKey) -> Option<usize> {
        self.older.iter().position(|epoch| !self.is_behind(sort, &epoch.boundary))
    }

    /// Whether a key is newer than a boundary.
    pub(crate) fn is_behind(&self, sort: &SortKey, boundary: &SortKey) -> bool {
        if self.descending { sort <= boundary } else { sort > boundary }
    }

    /// Whether another boundary may follow this one.
    pub(crate) fn is_newer(&self, boundary: &SortKey, than: &SortKey) -> bool {
        // A boundary lies behind itself where keys descend.
        boundary != than && self.is_behind(boundary, than)
    }

    /// The count in force of one, where the newest has this one.
    pub(crate) fn count_of(&self, epoch: Option<usize>, newest: ShardCount) -> ShardCount {
        epoch.map_or(newest, |at| self.older[at].count)
    }

    /// The sort keys whose items a running change is about.
    pub(crate) fn changing_interval(&self) -> Interval {
        self.interval(self.changing)
    }

    /// Whether every sort key has one epoch, of a count that the placement can have.
    pub(crate) fn check(
        &self,
        placement: Placement,
        sort_keys: SortKeyType,
    ) -> Result<(), Contradiction> {
        let Self { older, descending, changing } = self;
        let wrong = |why: String| Err(Contradiction::new("_ds_epochs", why));
        if !older.is_empty() && !placement.is_calculated() {
            return wrong(format!("items have no homes under {placement}"));
        }
        if self.count() > Self::MAX {
            return wrong(format!("{} are more than {}", self.count(), Self::MAX));
        }
        for Epoch { count, .. } in older {
            if let Err(error) = placement.check(*count) {
                return wrong(error.to_string());
            }
        }
        let mut pairs = older.iter().zip(older.iter().skip(1));
        if !pairs.all(|(one, next)| self.is_newer(&next.boundary, &one.boundary)) {
            let way = if *descending { "fall" } else { "rise" };
            return wrong(format!("their boundaries do not {way}"));
        }
        if older.iter().any(|epoch| !epoch.boundary.is(sort_keys)) {
            return wrong("a boundary is a sort key of another type".to_owned());
        }
        if changing.is_some_and(|at| at >= older.len()) {
            return Err(Contradiction::new("_ds_changing", "names an epoch that is not there"));
        }
        Ok(())
    }

    /// The epoch that most of these keys lie in, the newest where there are none.
    pub(crate) fn of_most(&self, keys: &[SortKey]) -> Option<usize> {
        let mut counts = vec![0_u32; self.older.len() + 1];
        for sort in keys {
            counts[self.of(sort).unwrap_or(self.older.len())] += 1;
        }
        let most = counts.iter().enumerate().max_by_key(|(_, count)| **count);
        most.map(|(at, _)| at).filter(|at| *at < self.older.len())
    }

    /// The sort keys of an epoch.
    pub(crate) fn interval(&self, epoch: Option<usize>) -> Interval {
        let ends = epoch.map(|at| self.older[at].boundary.clone());
        let before = epoch.unwrap_or(self.older.len()).checked_sub(1);
        let begins = before.map(|at| self.older[at].boundary.clone());
        if self.descending {
            Interval { after: ends, until: begins }
        } else {
            Interval { after: begins, until: ends }
        }
    }

    /// All epochs in the order of their sort keys, each as [`Self::of`] names it.
    pub(crate) fn ascending(&self) -> Vec<Option<usize>> {
        let mut epochs = (0..self.older.len()).map(Some).collect::<Vec<_>>();
        epochs.push(None);
        if self.descending {
            epochs.reverse();
        }
        epochs
    }

    /// These with another one between them and the newest, which has had this count until now. `None` where the boundary lies in an
    /// older epoch.
    pub(crate) fn with_boundary(&self, boundary: SortKey, count: ShardCount) -> Option<Self> {
        let last = self.older.last();
        let is_newest = last.is_none_or(|last| self.is_newer(&boundary, &last.boundary));
        let mut older = self.older.clone();
        older.push(Epoch { count, boundary });
        is_newest.then(|| Self { older, ..self.clone() })
    }

    /// These with neighbours of equal counts merged: every key has the same home under both (protocol: "Epochs"). `newest` is the
    /// count of the newest.
    #[must_use]
    pub fn merged(&self, newest: ShardCount) -> Self {
        let counts = self.older.iter().skip(1).map(|epoch| epoch.count).chain([newest]);
        let pairs = self.older.iter().zip(counts);
        let older = pairs.filter(|(epoch, next)| epoch.count != *next);
        let older = older.map(|(epoch, _)| epoch.clone()).collect::<Vec<_>>();
        // What is one epoch may be divided either way.
        let descending = self.descending && !older.is_empty();
        Self { older, descending, changing: None }
    }
}

impl Interval {
    /// Whether it holds all sort keys.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it holds this one.
    pub fn contains(&self, sort: &SortKey) -> bool {
        self.after.as_ref().is_none_or(|after| sort > after)
            && self.until.as_ref().is_none_or(|until| sort <= until)
    }

    /// The smallest one that holds both.
    #[must_use]
    pub(crate) fn hull(&self, other: &Self) -> Self {
        let both = |one: &Option<SortKey>, other: &Option<SortKey>| one.clone().zip(other.clone());
        Self {
            after: both(&self.after, &other.after).map(|(one, other)| one.min(other)),
            until: both(&self.until, &other.until).map(|(one, other)| one.max(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> SortKey {
        SortKey::string(text).expect("a sort key")
    }

    fn count(count: u32) -> ShardCount {
        ShardCount::new(count).expect("a count")
    }

    /// 1 up to "b", 4 up to "d", and the newest.
    fn epochs(descending: bool) -> Epochs {
        let boundaries = if descending { ["d", "b"] } else { ["b", "d"] };
        let one = Epochs { descending, ..Epochs::default() };
        let two = one.with_boundary(key(boundaries[0]), count(1)).expect("a boundary");
        two.with_boundary(key(boundaries[1]), count(4)).expect("a boundary")
    }

    /// A boundary that one party counted to the older epoch and another to the newer one would give its item two homes.
    #[test]
    fn every_key_lies_in_the_one_epoch_whose_interval_holds_it() {
        for descending in [false, true] {
            let epochs = epochs(descending);
            for text in ["a", "b", "ba", "d", "da", "z"] {
                let sort = key(text);
                let holding = epochs.ascending().into_iter();
                let holding = holding.filter(|epoch| epochs.interval(*epoch).contains(&sort));
                assert_eq!(holding.collect::<Vec<_>>(), [epochs.of(&sort)], "{text} {descending}");
            }
        }
        assert_eq!(
            ["b", "d", "e"].map(|text| epochs(false).of(&key(text))),
            [Some(0), Some(1), None]
        );
        assert_eq!(
            ["e", "d", "b"].map(|text| epochs(true).of(&key(text))),
            [Some(0), Some(1), None]
        );
    }

    #[test]
    fn a_boundary_lies_in_the_newest_epoch() {
        let up = epochs(false);
        assert_eq!(up.with_boundary(key("d"), count(8)), None);
        assert_eq!(up.with_boundary(key("c"), count(8)), None);
        assert!(up.with_boundary(key("e"), count(8)).is_some());
        let down = epochs(true);
        assert_eq!(down.with_boundary(key("b"), count(8)), None);
        assert_eq!(down.with_boundary(key("c"), count(8)), None);
        assert!(down.with_boundary(key("a"), count(8)).is_some());
    }

    #[test]
    fn only_neighbours_of_equal_counts_are_merged() {
        let epochs = epochs(false);
        assert_eq!(epochs.merged(count(16)), epochs);
        assert_eq!(epochs.merged(count(4)).older, epochs.older[..1]);
        let mut all = epochs.clone();
        all.older[0].count = count(4);
        assert_eq!(all.merged(count(4)), Epochs::default());
        assert_eq!(all.merged(count(16)).older, epochs.older[1..]);
    }

    #[test]
    fn a_hull_holds_both() {
        let interval = |after: Option<&str>, until: Option<&str>| Interval {
            after: after.map(key),
            until: until.map(key),
        };
        let one = interval(Some("b"), Some("d"));
        assert_eq!(one.hull(&interval(Some("a"), Some("c"))), interval(Some("a"), Some("d")));
        assert_eq!(one.hull(&interval(None, Some("e"))), interval(None, Some("e")));
        assert!(one.hull(&interval(Some("c"), None)).hull(&interval(None, Some("a"))).is_all());
    }
}
