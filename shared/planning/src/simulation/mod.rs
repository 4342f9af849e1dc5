//! A load in virtual time, under one strategy of sharding after the other.
//!
//! Every write meets the partition model of the local stack (`dynashard-limits`), and dynashard's shard counts come from
//! the decision that runs in production (`dynashard_core::decide`), fed with reports like those of its functions. A
//! throttled write is refused and gone. Time and chance are arguments, so a seed gives the same run, byte for byte.
//!
//! Left out: what moving items takes of partitions, reads, and that DynamoDB splits partitions for heat. A key whose sort
//! keys grow gains nothing by that.

mod chance;
mod collection;
mod scenario;
mod table;

use std::time::Duration;

use dynashard_keys::ShardCount;
use serde::Serialize;

pub use collection::Change;
pub use scenario::{Capacity, Scenario, Step};

use crate::capacity::write_units_of_item;
use crate::float;
use chance::Chance;
use collection::Collection;
use table::Table;

/// The parts of a second after which writes arrive.
const TICKS: u32 = 10;

/// Who gives shards to keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Nobody.
    None,
    /// All keys have so many from the beginning.
    Fixed(ShardCount),
    /// One more at a throttle, once in a cooldown, as in ["Choosing the right number of shards for your large-scale Amazon
    /// DynamoDB
    /// table"](https://aws.amazon.com/blogs/database/choosing-the-right-number-of-shards-for-your-large-scale-amazon-dynamodb-table/).
    OneMore,
    /// dynashard, by writers that are throttled.
    Dynashard,
    /// dynashard, by its alarms alone (`WriterScaling=off`).
    DynashardByAlarm,
}

/// What came of a load under one strategy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// Items that were to be written.
    pub offered: u64,
    /// Items that were written.
    pub absorbed: u64,
    /// Seconds in which something was throttled.
    pub throttled_seconds: u32,
    /// The write units that were consumed.
    pub write_units: u64,
    /// The shards of all keys together, at most.
    pub most_shards: u32,
    /// The changes of the busiest key.
    pub changes: Vec<Change>,
    /// The run, second by second.
    pub seconds: Vec<Second>,
}

/// One second of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Second {
    /// Items that were to be written.
    pub offered: u64,
    /// Items that were written.
    pub absorbed: u64,
    /// The shards of all keys together that take writes.
    pub shards: u32,
}

impl Run {
    /// The scenario under this strategy. The scenario was [checked](Scenario::check).
    pub fn of(scenario: &Scenario, strategy: Strategy, seed: u64) -> Self {
        let units = u64::from(write_units_of_item(scenario.item_bytes));
        let mut table = Table::new(scenario.capacity, scenario.partitions);
        let mut chance = Chance::new(seed);
        // Other reports must not mean another load.
        let mut reports = Chance::new(!seed);
        let shares = scenario.shares();
        let mut keys =
            (0..shares.len()).map(|key| Collection::new(key, strategy)).collect::<Vec<_>>();
        let mut seconds = Vec::new();
        let mut throttled_seconds = 0;
        for (second, rate) in (0_u32..).zip(scenario.rates()) {
            let mut all = Second { offered: 0, absorbed: 0, shards: 0 };
            let begin = Duration::from_secs(u64::from(second));
            for (collection, share) in keys.iter_mut().zip(&shares) {
                collection.go_on(second);
                all.shards += collection.shards();
                let items = rounded(chance.arrivals(rate * share));
                let written = write(&mut table, collection, second, begin, items, units);
                all.offered += items;
                all.absorbed += written.items;
                let (asked, granted) = (float(items * units), float(written.items * units));
                collection.end_second(second, asked, granted, written.reason, &mut reports);
            }
            throttled_seconds += u32::from(all.absorbed < all.offered);
            seconds.push(all);
            if second % 60 == 59 {
                table.end_minute(begin + Duration::from_secs(1));
            }
        }
        let absorbed = seconds.iter().map(|second| second.absorbed).sum::<u64>();
        Self {
            offered: seconds.iter().map(|second| second.offered).sum(),
            absorbed,
            throttled_seconds,
            write_units: absorbed * units,
            most_shards: seconds.iter().map(|second| second.shards).max().unwrap_or(0),
            changes: keys.swap_remove(0).changes,
            seconds,
        }
    }

    /// The write units, as a figure.
    pub fn units(&self) -> f64 {
        float(self.write_units)
    }

    /// The part of the load that was absorbed.
    pub fn absorbed_share(&self) -> f64 {
        float(self.absorbed) / float(self.offered.max(1))
    }
}

struct Written {
    items: u64,
    reason: Option<&'static str>,
}

/// Writes the items of one key, evenly over a second and over its shards.
fn write(
    table: &mut Table,
    collection: &mut Collection,
    second: u32,
    begin: Duration,
    items: u64,
    units: u64,
) -> Written {
    let mut written = Written { items: 0, reason: None };
    let parts = collection.parts(second);
    // What arrived so far by shard, so that halves of items are carried on.
    let mut before = vec![0; parts.len()];
    for tick in 1..=TICKS {
        let now = begin + Duration::from_secs(1) * tick / (TICKS + 1);
        let passed = float(items) * f64::from(tick) / f64::from(TICKS);
        // Shards take turns to be first at what the table has left.
        for offset in 0..parts.len() {
            let shard = (offset + index(second + tick)) % parts.len();
            let until = parts[..=shard].iter().sum::<f64>();
            let from = until - parts[shard];
            let arrived = rounded(passed * until) - rounded(passed * from);
            let outcome = table.write(
                now,
                collection.key(shard),
                arrived.saturating_sub(before[shard]),
                units,
            );
            before[shard] = before[shard].max(arrived);
            written.items += outcome.written;
            written.reason = written.reason.or(outcome.reason);
        }
    }
    written
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are checked")]
fn rounded(items: f64) -> u64 {
    items.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(shards: u32) -> Strategy {
        Strategy::Fixed(ShardCount::new(shards).expect("a count"))
    }

    #[test]
    fn a_partition_takes_a_thousand_units_a_second_and_more_shards_take_more() {
        let scenario = Scenario::steady(3_000.0, 1_024, 120);
        let [one, two, four] = [Strategy::None, fixed(2), fixed(4)]
            .map(|it| Run::of(&scenario, it, 1).absorbed_share());
        assert!((one - 1.0 / 3.0).abs() < 0.01, "{one}");
        assert!((two - 2.0 / 3.0).abs() < 0.01, "{two}");
        assert!(four > 0.999, "{four}");
    }

    #[test]
    fn dynashard_absorbs_what_no_shards_and_one_more_at_a_time_do_not() {
        let scenario = Scenario::steady(3_500.0, 1_024, 600);
        let run = |strategy| Run::of(&scenario, strategy, 1);
        let [none, one_more, dynashard, by_alarm] =
            [Strategy::None, Strategy::OneMore, Strategy::Dynashard, Strategy::DynashardByAlarm]
                .map(run);
        let share = Run::absorbed_share;
        for other in [&one_more, &by_alarm] {
            assert!(
                share(&none) < share(other) && share(other) < share(&dynashard),
                "{:?}",
                other.changes
            );
        }
        assert!(share(&dynashard) > 0.95, "{:?}", dynashard.changes);
        assert_eq!(dynashard.changes.len(), 1, "{:?}", dynashard.changes);
        assert_eq!(one_more.changes.len(), 3, "{:?}", one_more.changes);
    }

    #[test]
    fn a_seed_gives_the_same_run_and_another_another() {
        let mut scenario = Scenario::steady(3_000.0, 700, 90);
        scenario.keys = 5.try_into().expect("positive");
        scenario.zipf = 1.1;
        let run = |seed| {
            serde_json::to_string(&Run::of(&scenario, Strategy::Dynashard, seed)).expect("JSON")
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }

    #[test]
    fn the_table_is_a_limit_of_its_own_that_no_shards_lift() {
        let mut scenario = Scenario::steady(6_000.0, 1_024, 300);
        let on_demand = Run::of(&scenario, fixed(16), 1);
        let first = &on_demand.seconds[..60];
        let absorbed = first.iter().map(|second| second.absorbed).sum::<u64>();
        assert!((240_000..245_000).contains(&absorbed), "4,000 a second: {absorbed}");
        assert!(on_demand.seconds[61..].iter().all(|second| second.absorbed == second.offered));

        let write_units = 1_000.try_into().expect("positive");
        let most_write_units = 10_000.try_into().expect("positive");
        scenario.capacity = Capacity::Provisioned { write_units, most_write_units };
        scenario.steps[0].writes_per_second = 4_500.0;
        let provisioned = Run::of(&scenario, fixed(16), 1);
        assert!(provisioned.absorbed_share() < 0.999, "{}", provisioned.absorbed_share());
        let last = provisioned.seconds[299];
        assert_eq!(last.absorbed, last.offered, "auto scaling has followed");
        let dynashard = Run::of(&scenario, Strategy::Dynashard, 1);
        assert!(dynashard.most_shards <= 16, "a table that is too small gets no shards for it");
    }

    #[test]
    fn ramps_are_even_and_shares_are_zipfs() {
        let mut scenario = Scenario::steady(100.0, 100, 2);
        scenario.steps.push(Step { seconds: 4, writes_per_second: 500.0, at_once: false });
        scenario.steps.push(Step { seconds: 1, writes_per_second: 0.0, at_once: true });
        let rates = scenario.rates().into_iter().map(rounded).collect::<Vec<_>>();
        assert_eq!(rates, [100, 100, 200, 300, 400, 500, 0]);
        scenario.keys = 2.try_into().expect("positive");
        scenario.zipf = 1.0;
        assert!((scenario.shares()[0] - 2.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn what_cannot_be_simulated_is_named() {
        type Spoil = fn(&mut Scenario);
        let wrong: [(&str, Spoil); 6] = [
            ("steps", |it| it.steps.clear()),
            ("steps", |it| it.steps[0].writes_per_second = 0.0),
            ("writes_per_second", |it| it.steps[0].writes_per_second = f64::NAN),
            ("item_bytes", |it| it.item_bytes = 0),
            ("zipf", |it| it.zipf = -1.0),
            ("keys", |it| it.keys = 1_001.try_into().expect("positive")),
        ];
        for (field, spoil) in wrong {
            let mut scenario = Scenario::steady(1.0, 1, 1);
            assert_eq!(scenario.check(), Ok(()));
            spoil(&mut scenario);
            assert!(scenario.check().expect_err("wrong").starts_with(field), "{scenario:?}");
        }
    }
}
