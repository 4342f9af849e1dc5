//! A ledger's entries: spans of time, and how an environment adds to them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::model::ledger::measures::Measures;

/// What was seen of one collection, by time. It lies in the metadata table, where any number of
/// environments add to it at once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ledger {
    /// What was seen in each span of time.
    pub buckets: BTreeMap<Bucket, Measures>,
    /// The units of the sort keys that environments found hottest, by 12 bits of their hash.
    pub hottest: BTreeMap<(Bucket, u16), f64>,
    /// Operations that were answered, by the second and by the level of the sample: level n holds one of 2^n operations. An
    /// operation is the upper 31 bits of its key's hash, followed by whether it was refused.
    pub sampled: BTreeMap<(Bucket, u8), BTreeSet<u32>>,
    /// Attributes that no environment has written so: somebody has edited the item by hand. They count for
    /// nothing.
    pub damaged: usize,
}

/// The value of an attribute of a ledger.
#[derive(Debug, Clone, PartialEq)]
pub enum Figure {
    /// A sum, to which environments add.
    Sum(f64),
    /// A set of whole numbers, which environments unite.
    Set(BTreeSet<u32>),
}

/// The two ledgers of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LedgerKind {
    /// By the second, while it is throttled: what growth is sized from.
    Heat,
    /// By the minute and the hour, of a collection that has metadata: what shrinking stands on.
    Load,
}

/// A span of time. The order is by span, and then by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bucket {
    /// How long it is.
    pub span: Span,
    /// When it begins, in epoch seconds: a multiple of its length.
    pub start_secs: u64,
}

/// How much time a bucket covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Span {
    /// One second.
    Second,
    /// One minute.
    Minute,
    /// One hour.
    Hour,
}

/// What one environment adds to a ledger, in one request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Addition {
    /// What is added to each bucket.
    pub added: Vec<(Bucket, Measures)>,
    /// The units of the environment's hottest sort key.
    pub hottest: Option<(Bucket, u16, f64)>,
    /// What it has answered: see [`Ledger::sampled`].
    pub sampled: Vec<(Bucket, u8, BTreeSet<u32>)>,
    /// Attributes of buckets that are kept no longer.
    pub expired: Vec<String>,
}

/// The samples of so many seconds are kept: of those that are reckoned with, and of the seconds before each in which what
/// comes again may have been refused.
pub(crate) const SAMPLES_KEPT_SECS: u64 = 16;

/// The level of the smallest sample: one of sixteen million operations.
pub(crate) const HIGHEST_LEVEL: u8 = 24;

/// The attributes that one request removes at most: an expression takes 4 KB.
const MAX_EXPIRED: usize = 60;

/// No collection is asked for more a second, however the figures of one environment are scaled: with the most
/// shards that one may have, DynamoDB grants 65 million write units.
const MOST_A_SECOND: f64 = 1e12;

/// Buckets that begin this much after the reader's own time are from the future.
const CLOCKS_DIFFER: Duration = Duration::from_secs(2);

impl LedgerKind {
    /// How the key of the item begins; the partition key follows. Must be kept stable.
    pub const fn key_prefix(self) -> &'static str {
        match self {
            Self::Heat => "_ds_heat#",
            Self::Load => "_ds_load#",
        }
    }
}

impl Span {
    /// Its length.
    pub const fn secs(self) -> u64 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
        }
    }

    /// Its length as a number to reckon with.
    pub(crate) const fn secs_f64(self) -> f64 {
        match self {
            Self::Second => 1.0,
            Self::Minute => 60.0,
            Self::Hour => 3_600.0,
        }
    }

    /// How many buckets are kept.
    pub const fn kept(self) -> u64 {
        match self {
            Self::Second => 14,
            Self::Minute => 30,
            Self::Hour => 72,
        }
    }

    const fn letter(self) -> char {
        match self {
            Self::Second => 's',
            Self::Minute => 'm',
            Self::Hour => 'h',
        }
    }
}

impl Bucket {
    /// The bucket in which this moment lies.
    pub fn of(span: Span, at: Duration) -> Self {
        Self { span, start_secs: at.as_secs() / span.secs() * span.secs() }
    }

    pub(crate) fn start(self) -> Duration {
        Duration::from_secs(self.start_secs)
    }

    pub(crate) fn end(self) -> Duration {
        Duration::from_secs(self.end_secs())
    }

    /// When it ends, in epoch seconds.
    pub fn end_secs(self) -> u64 {
        self.start_secs.saturating_add(self.span.secs())
    }

    fn is_expired(self, now: Duration) -> bool {
        let kept = self.span.kept() * self.span.secs();
        self.end_secs().saturating_add(kept) < now.as_secs()
    }

    fn is_of_the_future(self, now: Duration) -> bool {
        Duration::from_secs(self.start_secs) > now + CLOCKS_DIFFER
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.span.letter(), self.start_secs)
    }
}

impl Ledger {
    /// What the figures of an item's attributes say, by their names. Whatever is not a figure of a ledger is
    /// [counted](Ledger::damaged).
    pub fn of_figures(figures: impl IntoIterator<Item = (String, Option<Figure>)>) -> Self {
        let mut ledger = Self::default();
        for (name, value) in figures {
            let value = match value {
                Some(Figure::Sum(value)) => Some(value),
                Some(Figure::Set(codes)) => {
                    ledger.damaged += usize::from(!ledger.read_sample(&name, codes));
                    continue;
                }
                None => None,
            };
            let figure = value.zip(parse(&name)).filter(|(value, (bucket, _, _))| {
                (0.0..=MOST_A_SECOND * bucket.span.secs_f64()).contains(value)
            });
            let is_taken = figure.is_some_and(|(value, (bucket, letter, rest))| match letter {
                't' => u16::from_str_radix(rest, 16).is_ok_and(|class| {
                    let is_so_named = class < CLASSES && name == hottest_name(bucket, class);
                    is_so_named && ledger.hottest.insert((bucket, class), value).is_none()
                }),
                // Numbers have other spellings, of which none may take the place of an environment's.
                letter if name == self::name(bucket, letter) => {
                    let mut measures = ledger.buckets.get(&bucket).copied().unwrap_or_default();
                    let is_known = measures.field_mut(letter).map(|field| *field = value);
                    if is_known.is_some() {
                        ledger.buckets.insert(bucket, measures);
                    }
                    is_known.is_some()
                }
                _ => false,
            });
            ledger.damaged += usize::from(!is_taken);
        }
        ledger
    }

    /// Returns whether the name is that of a sample.
    fn read_sample(&mut self, name: &str, codes: BTreeSet<u32>) -> bool {
        let Some((bucket, 'd', rest)) = parse(name) else { return false };
        let Some(level) = rest.parse::<u8>().ok().filter(|level| *level <= HIGHEST_LEVEL) else {
            return false;
        };
        let is_so_named = bucket.span == Span::Second && name == sample_name(bucket, level);
        is_so_named && self.sampled.insert((bucket, level), codes).is_none()
    }

    /// What a store does with an addition, attribute by attribute.
    pub fn apply(&mut self, addition: &Addition) {
        for (bucket, measures) in &addition.added {
            self.buckets.entry(*bucket).or_default().add(&rounded(measures));
        }
        if let Some((bucket, class, units)) = addition.hottest {
            *self.hottest.entry((bucket, class)).or_default() += units.round();
        }
        for (bucket, level, codes) in &addition.sampled {
            self.sampled.entry((*bucket, *level)).or_default().extend(codes);
        }
        let expired = addition.expired.iter().filter_map(|name| parse(name));
        for (bucket, letter, _) in expired {
            self.sampled.retain(|(of, _), _| *of != bucket);
            if letter != 'd' {
                self.buckets.remove(&bucket);
                self.hottest.retain(|(of, _), _| *of != bucket);
            }
        }
    }

    /// The names of attributes that are kept no longer.
    pub(crate) fn expired(&self, now: Duration) -> Vec<String> {
        let of_buckets = self.buckets.iter().filter(|(bucket, _)| bucket.is_expired(now));
        let of_buckets = of_buckets.flat_map(|(bucket, measures)| {
            let fields = measures.fields().into_iter().filter(|(_, value)| *value > 0.0);
            fields.map(move |(letter, _)| name(*bucket, letter))
        });
        let of_hottest = self.hottest.keys().filter(|(bucket, _)| bucket.is_expired(now));
        let of_hottest = of_hottest.map(|(bucket, class)| hottest_name(*bucket, *class));
        let is_expired =
            |bucket: &Bucket| bucket.end_secs().saturating_add(SAMPLES_KEPT_SECS) < now.as_secs();
        let of_samples = self.sampled.keys().filter(|(bucket, _)| is_expired(bucket));
        let of_samples = of_samples.map(|(bucket, level)| sample_name(*bucket, *level));
        of_buckets.chain(of_hottest).chain(of_samples).take(MAX_EXPIRED).collect()
    }

    /// The buckets of this length that this moment is not ahead of, oldest first.
    pub fn of(&self, span: Span, now: Duration) -> impl Iterator<Item = (Bucket, &Measures)> {
        let of_span = self.buckets.iter().filter(move |(bucket, _)| bucket.span == span);
        of_span
            .filter(move |(bucket, _)| !bucket.is_of_the_future(now) && !bucket.is_expired(now))
            .map(|(bucket, measures)| (*bucket, measures))
    }

    /// By how much the busiest minutes of hours were busier than those hours have noted.
    pub(crate) fn busier_minutes(&self, now: Duration) -> BTreeMap<Bucket, Measures> {
        let mut busier = BTreeMap::<_, Measures>::new();
        for (minute, of_minute) in self.of(Span::Minute, now) {
            let hour = Bucket::of(Span::Hour, minute.start());
            let noted = self.buckets.get(&hour).copied().unwrap_or_default();
            let (writes, reads) =
                (of_minute.write_units, of_minute.get_units + of_minute.query_units);
            let writes = writes - noted.busiest_write_units;
            let reads = reads - noted.busiest_read_units;
            if writes > 0.0 || reads > 0.0 {
                let of_hour = busier.entry(hour).or_default();
                of_hour.busiest_write_units = of_hour.busiest_write_units.max(writes);
                of_hour.busiest_read_units = of_hour.busiest_read_units.max(reads);
            }
        }
        busier
    }

    /// How many buckets claim to be of a time that has not come.
    pub fn of_the_future(&self, now: Duration) -> usize {
        let sampled = self.sampled.keys().map(|(bucket, _)| bucket);
        self.buckets.keys().chain(sampled).filter(|bucket| bucket.is_of_the_future(now)).count()
    }

    /// What was seen in the bucket of this moment.
    pub(crate) fn at(&self, span: Span, now: Duration) -> Measures {
        self.buckets.get(&Bucket::of(span, now)).copied().unwrap_or_default()
    }
}

impl Addition {
    /// Every figure that is added, by the name of its attribute, as whole numbers above zero.
    pub fn figures(&self) -> Vec<(String, u64)> {
        let of_buckets = self.added.iter().flat_map(|(bucket, measures)| {
            rounded(measures).fields().map(|(letter, value)| (name(*bucket, letter), value))
        });
        let hottest =
            self.hottest.map(|(bucket, class, units)| (hottest_name(bucket, class), units.round()));
        of_buckets
            .chain(hottest)
            .filter(|(_, value)| *value >= 1.0)
            .map(|(name, value)| (name, whole(value)))
            .collect()
    }

    /// Every set that is united, by the name of its attribute.
    pub fn sets(&self) -> impl Iterator<Item = (String, &BTreeSet<u32>)> {
        let sets = self.sampled.iter().filter(|(_, _, codes)| !codes.is_empty());
        sets.map(|(bucket, level, codes)| (sample_name(*bucket, *level), codes))
    }
}

/// How many classes the hashes of sort keys fall into.
pub(crate) const CLASSES: u16 = 1 << 12;

fn name(bucket: Bucket, letter: char) -> String {
    format!("{bucket}{letter}")
}

fn hottest_name(bucket: Bucket, class: u16) -> String {
    format!("{bucket}t{class:03x}")
}

fn sample_name(bucket: Bucket, level: u8) -> String {
    format!("{bucket}d{level:02}")
}

/// Whether a ledger may have an attribute of this name. Must be kept stable: no key may be called so.
pub(crate) fn is_figure(name: &str) -> bool {
    let has_letter = |letter| Measures::default().field_mut(letter).is_some();
    parse(name).is_some_and(|(_, letter, rest)| match (letter, rest) {
        ('t', rest) => u16::from_str_radix(rest, 16).is_ok_and(|class| class < CLASSES),
        ('d', rest) => rest.parse::<u8>().is_ok_and(|level| level <= HIGHEST_LEVEL),
        (letter, rest) => rest.is_empty() && has_letter(letter),
    })
}

/// The bucket, the letter behind it, and what follows that.
fn parse(name: &str) -> Option<(Bucket, char, &str)> {
    let span = [Span::Second, Span::Minute, Span::Hour];
    let (span, rest) =
        span.into_iter().find_map(|span| Some((span, name.strip_prefix(span.letter())?)))?;
    let letter_at = rest.find(|c: char| !c.is_ascii_digit())?;
    let (digits, rest) = rest.split_at(letter_at);
    let start_secs = digits.parse::<u64>().ok().filter(|start| start % span.secs() == 0)?;
    let mut rest = rest.chars();
    let letter = rest.next()?;
    Some((Bucket { span, start_secs }, letter, rest.as_str()))
}

fn rounded(measures: &Measures) -> Measures {
    let mut rounded = *measures;
    for (letter, value) in measures.fields() {
        if let Some(field) = rounded.field_mut(letter) {
            *field = value.round();
        }
    }
    rounded
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded, and above zero"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "whole numbers")]
mod tests {
    use super::*;

    fn ledger(figures: &[(&str, f64)]) -> Ledger {
        Ledger::of_figures(
            figures.iter().map(|(name, value)| ((*name).to_owned(), Some(Figure::Sum(*value)))),
        )
    }

    #[test]
    fn figures_are_read_by_the_names_under_which_they_are_added() {
        let read =
            ledger(&[("s1800000001w", 5.0), ("s1800000001t00a", 3.0), ("h1800000000q", 7.0)]);
        let bucket = |span, start_secs| Bucket { span, start_secs };
        let second = bucket(Span::Second, 1_800_000_001);
        assert_eq!(read.damaged, 0);
        assert_eq!(read.buckets[&second], Measures { write_units: 5.0, ..Measures::default() });
        assert_eq!(read.hottest[&(second, 10)], 3.0);
        assert_eq!(read.buckets[&bucket(Span::Hour, 1_800_000_000)].query_units, 7.0);
    }

    /// Whichever came later in the item took the place of the other, and nothing counted as damaged.
    #[test]
    fn regression_another_spelling_of_a_name_took_the_place_of_a_figure() {
        let read = ledger(&[("s1800000001w", 5.0), ("s01800000001w", 9_000.0)]);
        assert_eq!(read.buckets.values().map(|m| m.write_units).sum::<f64>(), 5.0);
        assert_eq!(read.damaged, 1);
        let names = ["s1800000001t+0a", "s1800000001ta", "s1800000001t00A", "s1800000001t1000"];
        for name in names {
            let read = ledger(&[(name, 9.0)]);
            assert_eq!((read.hottest.len(), read.damaged), (0, 1), "{name}");
        }
    }

    /// Sums of such figures are endless, and what is endless was above every capacity.
    #[test]
    fn regression_a_figure_that_nobody_can_ask_for_made_a_collection_grow() {
        for (name, value) in
            [("s1800000001w", 1e13), ("m1800000000w", 1e300), ("h1800000000y", 1e17)]
        {
            let read = ledger(&[(name, value)]);
            assert_eq!((read.buckets.len(), read.damaged), (0, 1), "{name}");
        }
        assert_eq!(ledger(&[("m1800000000w", 5e13)]).damaged, 0, "an environment stands for many");
    }

    /// Somebody had written it by hand, and every write that reported panicked.
    #[test]
    fn regression_a_sample_of_the_end_of_time_could_not_be_looked_at() {
        let name = format!("s{}d00", u64::MAX);
        let read = Ledger::of_figures([(name, Some(Figure::Set([1].into())))]);
        assert_eq!(read.sampled.len(), 1);
        let now = Duration::from_hours(500_000);
        assert_eq!((read.expired(now).len(), read.of_the_future(now)), (0, 1));
    }
}
