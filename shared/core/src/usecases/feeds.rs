//! The entries of several shards, each in order, as one sequence: how far each shard was read, and what is next.

use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};

use crate::usecases::query::{feed_limit, limit_by_share};

/// Shards that are read page by page: entries of an `E`, which are in order by a `P`, and go on behind a `K`.
///
/// While items move, shards belong to waves: those that items leave are read before those that they go to, always from one place
/// on.
#[derive(Debug)]
pub struct Feeds<P, K, E> {
    feeds: Vec<Feed<P, K, E>>,
    ascending: bool,
}

/// One shard: what was read of it and not yet taken, and where it goes on.
#[derive(Debug)]
struct Feed<P, K, E> {
    wave: usize,
    entries: VecDeque<(P, E)>,
    /// What it goes on behind, `None` at its beginning.
    next: Option<K>,
    /// Up to where it was read, if it goes on there.
    covered: Option<P>,
    /// Whether it goes on.
    is_open: bool,
    /// How many entries it was asked for last.
    asked: usize,
    /// How many of the entries that were taken are its.
    brought: usize,
}

/// The most entries that a shard is asked for at once.
const MOST: usize = 1_000;

impl<P: Ord + Clone, K: Clone, E> Feeds<P, K, E> {
    /// Shards of which nothing was read, each by its wave, from behind this key on.
    pub fn new(waves: impl IntoIterator<Item = usize>, start: Option<&K>, ascending: bool) -> Self {
        let feed = |wave| Feed {
            wave,
            entries: VecDeque::new(),
            next: start.cloned(),
            covered: None,
            is_open: true,
            asked: 0,
            brought: 0,
        };
        Self { feeds: waves.into_iter().map(feed).collect(), ascending }
    }

    /// Which of two places is first.
    pub fn order(&self, one: &P, other: &P) -> Ordering {
        if self.ascending { one.cmp(other) } else { other.cmp(one) }
    }

    /// The shards of a wave of which nothing can be said about the next entry without another request.
    pub fn dry(&self, wave: usize) -> Vec<usize> {
        let is_dry = |feed: &Feed<P, K, E>| feed.is_open && feed.entries.is_empty();
        let all = (0..self.feeds.len()).filter(|at| self.feeds[*at].wave == wave);
        all.filter(|at| is_dry(&self.feeds[*at])).collect()
    }

    /// What a shard goes on behind, `None` at its beginning.
    pub fn next(&self, at: usize) -> Option<&K> {
        self.feeds[at].next.as_ref()
    }

    /// How many entries to ask a shard for where `wanted` are: its share and what that may vary by, or what it was of those
    /// that were taken so far, if that is twice as many as before at most.
    pub fn limit(&self, at: usize, wanted: usize) -> usize {
        let Feed { asked, brought, .. } = &self.feeds[at];
        let twice = 2 * (*asked).max(1);
        let limit = match (*asked, *brought) {
            (0, _) => feed_limit(wanted, self.feeds.len()),
            // Nothing that counts was among them.
            (_, 0) => twice,
            (_, brought) => {
                let all = self.feeds.iter().map(|feed| feed.brought).sum::<usize>();
                limit_by_share(wanted, (brought, all), wanted.min(twice))
            }
        };
        limit.clamp(1, MOST)
    }

    /// Takes in a page of a shard, which was asked for so many entries: those of it that may count, and where it goes on, if it
    /// does, with the place up to which it was read then.
    pub fn take_in(
        &mut self,
        at: usize,
        asked: usize,
        entries: impl IntoIterator<Item = (P, E)>,
        next: Option<(K, P)>,
    ) {
        let feed = &mut self.feeds[at];
        feed.entries.extend(entries);
        feed.asked = asked;
        feed.is_open = next.is_some();
        (feed.next, feed.covered) = next.unzip();
    }

    /// The entries that were read of a shard and not yet taken.
    pub fn entries(&self, at: usize) -> impl Iterator<Item = &E> {
        self.feeds[at].entries.iter().map(|(_, entry)| entry)
    }

    /// Drops entries of a shard that turn out not to count.
    pub fn retain(&mut self, at: usize, mut counts: impl FnMut(&E) -> bool) {
        self.feeds[at].entries.retain(|(_, entry)| counts(entry));
    }

    /// Drops entries that were read where items come from, and then again where they go to, as `key` tells.
    pub fn drop_old<T: Ord>(&mut self, key: impl Fn(&E) -> T) {
        let new = self.feeds.iter().filter(|feed| feed.wave > 0).flat_map(|feed| &feed.entries);
        let new = new.map(|(_, entry)| key(entry)).collect::<BTreeSet<_>>();
        for feed in self.feeds.iter_mut().filter(|feed| feed.wave == 0 && !new.is_empty()) {
            feed.entries.retain(|(_, entry)| !new.contains(&key(entry)));
        }
    }

    /// The next entry of all, with its shard, unless a shard that was not read as far may have one before it.
    pub fn peek(&self) -> Option<(usize, &E)> {
        if self.is_one_unread() {
            return None;
        }
        let heads = self.feeds.iter().enumerate();
        let heads = heads.filter_map(|(at, feed)| Some((at, feed.entries.front()?)));
        let (at, (place, entry)) =
            heads.min_by(|(_, (one, _)), (_, (other, _))| self.order(one, other))?;
        let is_behind = |feed: &Feed<P, K, E>| {
            feed.covered.as_ref().is_some_and(|covered| self.order(place, covered).is_gt())
        };
        (!self.feeds.iter().any(is_behind)).then_some((at, entry))
    }

    /// Takes the next entry of a shard, which [`Feeds::peek`] has shown, with its place. It `counts` unless it is a repetition.
    pub fn pop(&mut self, at: usize, counts: bool) -> Option<(P, E)> {
        let feed = &mut self.feeds[at];
        feed.brought += usize::from(counts);
        feed.entries.pop_front()
    }

    /// Whether everything was read and taken.
    pub fn are_done(&self) -> bool {
        self.feeds.iter().all(|feed| !feed.is_open && feed.entries.is_empty())
    }

    /// What all shards go on behind that go on: up to there all of them were read.
    pub fn frontier(&self) -> Option<&K> {
        if self.is_one_unread() {
            return None;
        }
        let open =
            self.feeds.iter().filter_map(|feed| feed.covered.as_ref().zip(feed.next.as_ref()));
        open.min_by(|(one, _), (other, _)| self.order(one, other)).map(|(_, key)| key)
    }

    /// Whether there is a shard of which nothing was read.
    fn is_one_unread(&self) -> bool {
        self.feeds.iter().any(|feed| feed.is_open && feed.covered.is_none())
    }

    /// Has all shards be read from where all of them were read up to, whatever was read of them beyond.
    pub fn begin_anew(&mut self) {
        let Some(key) = self.frontier().cloned() else { return };
        for feed in &mut self.feeds {
            feed.entries.clear();
            feed.next = Some(key.clone());
            (feed.covered, feed.is_open) = (None, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Numbers = Feeds<u32, u32, u32>;

    fn page(numbers: &[u32]) -> impl Iterator<Item = (u32, u32)> {
        numbers.iter().map(|number| (*number, *number))
    }

    fn taken(feeds: &mut Numbers) -> Vec<u32> {
        let mut taken = Vec::new();
        while let Some((at, _)) = feeds.peek() {
            taken.extend(feeds.pop(at, true).map(|(place, _)| place));
        }
        taken
    }

    #[test]
    fn what_is_taken_is_in_order_up_to_where_all_were_read() {
        let mut feeds = Numbers::new([0, 0], None, true);
        assert_eq!(feeds.dry(0), [0, 1]);
        feeds.take_in(0, 2, page(&[1, 5]), Some((5, 5)));
        feeds.take_in(1, 2, page(&[2, 9]), None);
        assert_eq!((taken(&mut feeds), feeds.dry(0)), (vec![1, 2, 5], vec![0]));
        assert_eq!((feeds.frontier(), feeds.next(0)), (Some(&5), Some(&5)));
        feeds.take_in(0, 2, page(&[10]), None);
        assert_eq!(taken(&mut feeds), [9, 10]);
        assert!(feeds.are_done() && feeds.frontier().is_none());
        let mut down = Numbers::new([0, 0], None, false);
        down.take_in(0, 2, page(&[5, 1]), None);
        down.take_in(1, 1, page(&[9]), Some((9, 9)));
        assert_eq!(taken(&mut down), [9]);
    }

    #[test]
    fn shards_begin_anew_from_where_all_of_them_were_read_to() {
        let mut feeds = Numbers::new([0, 1], Some(&0), true);
        feeds.take_in(0, 2, page(&[1, 7]), Some((7, 7)));
        feeds.take_in(1, 2, page(&[3, 4]), Some((4, 4)));
        feeds.drop_old(|number| *number % 3);
        assert_eq!(taken(&mut feeds), [3, 4], "7 and 1 are 4 again");
        feeds.begin_anew();
        assert_eq!((feeds.next(0), feeds.next(1)), (Some(&4), Some(&4)));
        assert_eq!((feeds.dry(0), feeds.dry(1)), (vec![0], vec![1]));
    }

    /// A share of 6.25 was asked for with 11 entries, so every other page of 100 of 16 shards asked some of them twice.
    #[test]
    fn regression_a_shard_was_asked_for_less_than_its_share_and_two_deviations() {
        assert_eq!(Numbers::new([0; 16], None, true).limit(0, 100), 12); // 6.25 + 2 * 2.5 = 11.25
        let mut feeds = Numbers::new([0, 0], None, true);
        assert_eq!(feeds.limit(0, 100), 65);
        feeds.take_in(0, 65, [], Some((5, 5)));
        assert_eq!(feeds.limit(0, 100), 130, "nothing of it counted");
        feeds.take_in(1, 65, page(&[1]), Some((9, 9)));
        assert_eq!(taken(&mut feeds), [1]);
        assert_eq!(feeds.limit(1, 100), 100);
        assert_eq!(feeds.limit(1, 0), 1);
    }
}
