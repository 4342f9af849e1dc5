//! What follows from a sample: pure functions of figures.

use dynashard_keys::Placement;
use dynashard_planning::capacity::Throughput;
use dynashard_planning::shards::{TARGET_UTILIZATION, rounded, with_head_room};
use serde::Serialize;
use time::Date;
use time::macros::format_description;

use super::spread::Spread;
use crate::numbers::float;

/// What one partition writes in a second, in units of 1 KB.
pub(super) const PARTITION_WCU: f64 = 1_000.0;

/// What it is to be asked for at most, so that head room is left: `plan` and the functions reckon with the same.
const TARGET_WCU: f64 = TARGET_UTILIZATION * PARTITION_WCU;

/// A column with so few values is like a status code.
const FEW: usize = 32;

/// A value with so many times the mean is by far more popular than the others.
const FAR_AHEAD: f64 = 10.0;

/// A key with a smaller share is not hot, however many times the mean that is.
const WORTH_NAMING: f64 = 0.01;

/// The share of sort keys in ascending order from which on they ascend.
const ASCENDING: f64 = 0.9;

/// So many steps tell something.
const STEPS: u64 = 20;

/// A row of the table in "Designing Partition Keys to Distribute Your Workload Evenly" and "Best Practices for Tables".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// User id, where the application has many users; device id, where each is accessed alike.
    ManyValues,
    /// Status code, where there are only a few.
    FewValues,
    /// The date of creation, rounded.
    RoundedDate,
    /// Device id, where one is by far more popular.
    OneFarAhead,
}

impl Kind {
    /// The kind of a column with this spread of `rows` rows.
    pub(super) fn of(spread: &Spread, rows: usize, are_dates: bool) -> Self {
        let repeats = rows >= spread.distinct.saturating_mul(2);
        if are_dates && repeats {
            Self::RoundedDate
        } else if spread.distinct <= FEW && repeats {
            Self::FewValues
        } else if is_far_ahead(spread.largest_share, spread) {
            Self::OneFarAhead
        } else {
            Self::ManyValues
        }
    }

    pub(super) const fn is_good(self) -> bool {
        matches!(self, Self::ManyValues)
    }

    /// What the articles' tables say of it.
    pub(super) const fn says(self) -> &'static str {
        match self {
            Self::ManyValues => "good: many values, none far ahead, like the id of a user",
            Self::FewValues => "bad: few values, like a status code",
            Self::RoundedDate => "bad: a rounded date, so that all of a day go to one value",
            Self::OneFarAhead => "bad: one value is by far more popular than the others",
        }
    }
}

/// Whether a value with this share is far ahead of the mean.
pub(super) fn is_far_ahead(share: f64, spread: &Spread) -> bool {
    let distinct = float(spread.distinct);
    share >= WORTH_NAMING && share * distinct >= FAR_AHEAD
}

/// Whether texts are dates, to a month, a day or finer.
pub(super) fn is_date(text: &str) -> bool {
    let day = format_description!("[year]-[month]-[day]");
    let compact = format_description!("[year][month][day]");
    let is = |text: &str| match text.len() {
        7 => Date::parse(&format!("{text}-01"), day).is_ok(),
        8 => Date::parse(text, compact).is_ok_and(|date| (1_970..2_100).contains(&date.year())),
        _ => Date::parse(text, day).is_ok(),
    };
    // What follows the day is its time.
    text.get(..10).map_or_else(|| is(text), is)
}

/// How sort keys follow one another within a partition key, in the order of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct Steps {
    pub(super) ascending: u64,
    pub(super) descending: u64,
}

impl Steps {
    pub(super) fn count(&mut self, step: std::cmp::Ordering) {
        match step {
            std::cmp::Ordering::Less => self.ascending += 1,
            std::cmp::Ordering::Greater => self.descending += 1,
            std::cmp::Ordering::Equal => {}
        }
    }

    /// Whether new items go to one end of their collection.
    pub(super) fn are_monotone(self) -> bool {
        let all = self.ascending + self.descending;
        let most = float(self.ascending.max(self.descending));
        all >= STEPS && most >= ASCENDING * float(all)
    }
}

/// A partition key that the table could have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Candidate {
    /// What it is made of, for people.
    pub(super) key: String,
    /// The shards of each value, if it is spread over shards.
    pub(super) shards: Option<u32>,
    /// Whether a query of today's partition key still finds its items: in one collection, or in its shards.
    pub(super) keeps_queries: bool,
    #[serde(flatten)]
    pub(super) spread: Spread,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub(super) enum Advice {
    /// The key serves.
    Keep { why: String },
    /// Spread each value over so many shards.
    Shard {
        shards: u32,
        /// The busiest physical key's share: as measured, or if they are even where the sample is too small for that.
        largest_share: f64,
        why: String,
    },
    /// The sample does not tell.
    Unknown { why: String },
    /// One item alone takes more than a partition: shards of items cannot help.
    Cache { why: String },
}

/// The load that the sample stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    pub(super) writes_per_sec: f64,
    /// Write units of an item: its size in KB, rounded up.
    pub(super) units: f64,
}

impl Load {
    /// The units a second of a share.
    pub(super) fn of(self, share: f64) -> f64 {
        share * self.writes_per_sec * self.units
    }
}

/// Advises on a key. `sharded` are the spreads by shards of xxh64, ascending, as far as the sample measures them, and `item` the share of the
/// busiest single item.
pub(super) fn advise(
    kind: Kind,
    spread: &Spread,
    item: Option<f64>,
    sharded: &[(u32, Spread)],
    load: Option<Load>,
) -> Advice {
    let Some(load) = load else { return without_load(kind, spread, sharded) };
    let hottest = load.of(spread.largest_share);
    if hottest <= TARGET_WCU {
        let why = format!(
            "the busiest value takes {hottest:.0} of the {PARTITION_WCU:.0} write units a second of its partition"
        );
        return Advice::Keep { why };
    }
    if let Some(item) = item.map(|share| load.of(share)).filter(|units| *units > PARTITION_WCU) {
        let why = format!(
            "one single item takes {item:.0} write units a second, more than a partition has: put a cache or a queue \
             before it, or split it; shards cannot help"
        );
        return Advice::Cache { why };
    }
    let below =
        |most: f64| sharded.iter().find(|(_, spread)| load.of(spread.largest_share) <= most);
    let of_item = item.is_some_and(|share| load.of(share) > TARGET_WCU);
    let measured = below(TARGET_WCU).or_else(|| below(PARTITION_WCU).filter(|_| of_item));
    let Some((shards, spread)) = measured else { return by_formula(hottest, spread) };
    let (least, share) = ((hottest / PARTITION_WCU).ceil(), spread.largest_share);
    let why = format!(
        "the busiest value takes {hottest:.0} write units a second: {least:.0} by the articles' formula, without head room; \
         with {shards} shards the busiest takes {:.0}",
        load.of(share)
    );
    Advice::Shard { shards: *shards, largest_share: share, why }
}

/// For a sample that is too small to measure as many shards as the busiest value takes.
fn by_formula(hottest: f64, spread: &Spread) -> Advice {
    let of_value = Throughput { write_units: hottest, read_units: 0.0 };
    let Some(shards) = rounded(with_head_room(of_value), Placement::Xxh64) else {
        let why = format!(
            "{hottest:.0} write units a second take more shards than a collection can have"
        );
        return Advice::Cache { why };
    };
    let shards = shards.get();
    let why = format!(
        "the busiest value takes {hottest:.0} write units a second: {shards} shards with head room, if they are even. The \
         sample has too few rows to measure that"
    );
    Advice::Shard { shards, largest_share: spread.largest_share / f64::from(shards), why }
}

fn without_load(kind: Kind, spread: &Spread, sharded: &[(u32, Spread)]) -> Advice {
    if kind.is_good() {
        return Advice::Keep { why: kind.says().to_owned() };
    }
    // Without a rate no number is right. This one brings the busiest to a hundredth of the load, or as near to it as its
    // items allow.
    let least = sharded.last().map_or(0.0, |(_, spread)| spread.largest_share);
    let enough = (1.1 * least).max(0.01);
    let near = sharded.iter().find(|(_, spread)| spread.largest_share <= enough);
    let Some((shards, measured)) = near else {
        let why = format!(
            "it is {}, and without sort keys, or with so few rows, no shards can be measured: name --sk-column or \
             --writes-per-sec",
            kind.says()
        );
        return Advice::Unknown { why };
    };
    let why = format!(
        "{}: its busiest value has {:.1}% of the rows. With {shards} shards the busiest has {:.1}%; give \
         --writes-per-sec for the number that the load takes",
        kind.says(),
        spread.largest_share * 100.0,
        measured.largest_share * 100.0
    );
    Advice::Shard { shards: *shards, largest_share: measured.largest_share, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(rows: &[u64]) -> Spread {
        Spread::of(rows.iter().copied())
    }

    /// The rows of the articles' tables.
    #[test]
    fn columns_are_judged_as_the_articles_judge_them() {
        let users = vec![1; 1_000];
        assert_eq!(Kind::of(&spread(&users), 1_000, false), Kind::ManyValues);
        assert_eq!(Kind::of(&spread(&[300, 400, 300]), 1_000, false), Kind::FewValues);
        assert_eq!(Kind::of(&spread(&[10; 100]), 1_000, true), Kind::RoundedDate);
        let mut devices = vec![1; 1_000];
        devices[0] = 500;
        assert_eq!(Kind::of(&spread(&devices), 1_499, false), Kind::OneFarAhead);
        // A short sample of a good key is not a status code, and instants are not rounded dates.
        assert_eq!(Kind::of(&spread(&[1; 20]), 20, false), Kind::ManyValues);
        assert_eq!(Kind::of(&spread(&[1; 100]), 100, true), Kind::ManyValues);
    }

    #[test]
    fn dates_are_told_from_numbers() {
        for text in ["2014-07-09", "2014-07", "20140709", "2014-07-09T10", "2014-07-09 10:00"] {
            assert!(is_date(text), "{text}");
        }
        for text in
            ["", "2014", "2014-13-01", "99999999", "12345678", "AAAA-BB-CC", "ключ ключ ключ"]
        {
            assert!(!is_date(text), "{text}");
        }
    }

    #[test]
    fn sort_keys_are_monotone_if_nearly_all_steps_go_one_way() {
        assert!(Steps { ascending: 95, descending: 5 }.are_monotone());
        assert!(Steps { ascending: 0, descending: 20 }.are_monotone());
        assert!(!Steps { ascending: 60, descending: 40 }.are_monotone());
        assert!(!Steps { ascending: 5, descending: 0 }.are_monotone(), "too few to tell");
    }

    #[test]
    fn advice_follows_from_the_load() {
        let hot = spread(&[500, 300, 200]);
        let of = |rows: u64| spread(&vec![rows; usize::try_from(1_000 / rows).expect("few")]);
        let sharded = [(2, of(250)), (4, of(125)), (8, of(50))];
        let at = |writes_per_sec, item| {
            let load = Load { writes_per_sec, units: 1.0 };
            advise(Kind::FewValues, &hot, Some(item), &sharded, Some(load))
        };
        assert!(matches!(at(1_400.0, 0.001), Advice::Keep { .. }), "half of it is 70% of 1,000");
        assert!(matches!(at(1_401.0, 0.001), Advice::Shard { shards: 2, .. }));
        assert!(matches!(at(2_801.0, 0.001), Advice::Shard { shards: 4, .. }));
        assert!(matches!(at(5_601.0, 0.001), Advice::Shard { shards: 8, .. }));
        assert!(matches!(at(5_000.0, 0.3), Advice::Cache { .. }), "one item takes 1,500");
        assert!(
            matches!(at(16_000.0, 0.05), Advice::Shard { shards: 8, .. }),
            "one item takes 800, so head room is out of reach"
        );
        assert!(matches!(at(16_000.0, 0.001), Advice::Shard { shards: 16, .. }), "11.4 of 700");
        assert!(matches!(at(50_000.0, 0.001), Advice::Shard { shards: 64, .. }), "35.7 of 700");
        assert!(matches!(at(1e9, 0.0), Advice::Cache { .. }), "beyond 65,536 shards");
        let without = advise(Kind::ManyValues, &hot, None, &sharded, None);
        assert!(matches!(without, Advice::Keep { .. }));
        assert!(matches!(
            advise(Kind::FewValues, &hot, None, &sharded, None),
            Advice::Shard { shards: 8, .. }
        ));
        // "Keep it" was said of a key that is bad.
        assert!(matches!(advise(Kind::FewValues, &hot, None, &[], None), Advice::Unknown { .. }));
    }
}
