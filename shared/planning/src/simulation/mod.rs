//! A load in virtual time, under one strategy of sharding after the other.
//!
//! Every write meets the partition model of the local stack (`dynashard-limits`), and dynashard's shard counts come from
//! the decision that runs in production (`dynashard_core::decide`), fed with reports like those of its functions. Its items
//! move with what writers leave of the partitions. Time and chance are arguments, so a seed gives the same run, byte for
//! byte.
//!
//! Left out are reads, the time that a request itself takes, and indexes.

mod chance;
mod collection;
mod load;
mod meter;
mod past;
mod recording;
mod scenario;
mod table;
mod writers;

use std::time::Duration;

use dynashard_core::Settings;
use dynashard_keys::ShardCount;
use serde::Serialize;

pub use collection::Change;
pub use recording::Recording;
pub use scenario::{BadScenario, Capacity, Scenario, SortKeys, Step};

use crate::capacity::write_units_of_item;
use crate::cost::{Prices, units_of_move};
use crate::float;
use chance::Chance;
use collection::Collection;
use load::Load;
use table::{Outcome, Table};
use writers::{WaitTimes, Writers};

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
    /// Items that were moved from one shard to another.
    pub moved: u64,
    /// Items that would have been moved if each change of a count had been about all of its key's items: what was written before stays
    /// where it is if sort keys grow.
    pub moved_if_whole: u64,
    /// The most epochs that a key had.
    pub most_epochs: u32,
    /// The shards that a page asks at the end, on average over all items.
    pub mean_shards_read: f64,
    /// Seconds in which something was throttled.
    pub throttled_seconds: u32,
    /// The most of them in a row.
    pub longest_throttled_seconds: u32,
    /// The write units that were consumed, but by moves.
    pub write_units: u64,
    /// Those that moves consumed, and will consume for the markers that they leave.
    pub move_write_units: u64,
    /// The seconds that half of the written items had waited at most, while they were throttled.
    pub p50_wait_seconds: u32,
    /// The seconds that 99% of them had waited at most.
    pub p99_wait_seconds: u32,
    /// The shards of all keys together, at most.
    pub most_shards: u32,
    /// The changes of the busiest key.
    pub changes: Vec<Change>,
    /// The run, second by second.
    pub seconds: Vec<Second>,
}

/// One second of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Second {
    /// Items that were new, and to be written.
    pub offered: u64,
    /// Items that were written.
    pub absorbed: u64,
    /// Writes that were refused. Who tries again is refused again.
    pub throttled: u64,
    /// Items that were moved.
    pub moved: u64,
    /// The write units that all of it consumed.
    pub write_units: u64,
    /// The shards of all keys together that take writes.
    pub shards: u32,
    /// The write units a second that are provisioned; 0 on demand.
    pub provisioned: u32,
    /// The seconds that 99% of the written items had waited at most.
    pub p99_wait_seconds: u32,
}

impl Run {
    /// The scenario under this strategy, as a stack with these settings would run it.
    ///
    /// # Errors
    ///
    /// [`BadScenario`] if the scenario cannot be simulated.
    pub fn of(
        scenario: &Scenario,
        strategy: Strategy,
        settings: &Settings,
        seed: u64,
    ) -> Result<Self, BadScenario> {
        scenario.check()?;
        let units = u64::from(write_units_of_item(scenario.item_bytes));
        let units_of_move = units_of_move(units);
        let mut table = Table::new(scenario, settings.partition);
        let mut load = Load::of(scenario, seed);
        // Other reports must not mean another load.
        let mut reports = Chance::new(!seed);
        let mut keys = scenario
            .partition_keys()?
            .into_iter()
            .zip(scenario.shares())
            .map(|(key, share)| {
                let items = rounded(float(scenario.items) * share);
                let environments = scenario.environments.get();
                let items = (items, scenario.sort_keys);
                let collection = Collection::new(key, strategy, settings, environments, items);
                (collection, Writers::new(scenario.patience_seconds))
            })
            .collect::<Vec<_>>();
        let mut all_waits = WaitTimes::default();
        let mut seconds = Vec::new();
        for second in 0..load.seconds() {
            let begin = Duration::from_secs(u64::from(second));
            let mut all = Second { provisioned: table.provisioned(), ..Second::default() };
            let mut waits = WaitTimes::default();
            for (key, (collection, writers)) in keys.iter_mut().enumerate() {
                collection.go_on(second);
                let new = load.items(second, key);
                let tried = writers.tried(new);
                let outcome = write(&mut table, collection, second, begin, tried, units);
                writers.end_second(new, outcome.written, &mut waits);
                all.offered += new;
                all.absorbed += outcome.written;
                all.throttled += tried - outcome.written;
                all.shards += collection.shards();
                let asked_and_granted = (float(new * units), float(outcome.written * units));
                collection.end_second(
                    second,
                    outcome.written,
                    asked_and_granted,
                    outcome.reason,
                    &mut reports,
                );
            }
            let end = begin + Duration::from_secs(1) * TICKS / (TICKS + 1);
            for (collection, _) in &mut keys {
                all.moved += collection.move_items(end, second, units, &mut table);
            }
            all.write_units = all.absorbed * units + all.moved * units_of_move;
            all.p99_wait_seconds = waits.quantile(0.99);
            all_waits.add_all(&waits);
            seconds.push(all);
            if second % 60 == 59 {
                table.end_minute(begin + Duration::from_secs(1));
            }
        }
        let sum = |of: fn(&Second) -> u64| seconds.iter().map(of).sum::<u64>();
        let (absorbed, moved) = (sum(|second| second.absorbed), sum(|second| second.moved));
        let throttled = seconds.chunk_by(|one, other| (one.throttled > 0) == (other.throttled > 0));
        let throttled = throttled.filter(|row| row[0].throttled > 0).map(|row| count(row.len()));
        let throttled = throttled.collect::<Vec<_>>();
        let items = keys.iter().map(|(collection, _)| collection.past().items()).sum::<u64>();
        let read = keys.iter().map(|(collection, _)| collection.shards_read()).sum::<f64>();
        let moved_if_whole = keys.iter().map(|(collection, _)| collection.past().moved_if_whole);
        let most_epochs = keys.iter().map(|(collection, _)| collection.past().most_epochs);
        Ok(Self {
            moved_if_whole: moved_if_whole.sum(),
            most_epochs: count(most_epochs.max().unwrap_or(1)),
            mean_shards_read: read / float(items.max(1)),
            offered: sum(|second| second.offered),
            absorbed,
            moved,
            throttled_seconds: throttled.iter().sum(),
            longest_throttled_seconds: throttled.iter().copied().max().unwrap_or(0),
            write_units: absorbed * units,
            move_write_units: moved * units_of_move,
            p50_wait_seconds: all_waits.quantile(0.5),
            p99_wait_seconds: all_waits.quantile(0.99),
            most_shards: seconds.iter().map(|second| second.shards).max().unwrap_or(0),
            changes: keys.swap_remove(0).0.changes,
            seconds,
        })
    }

    /// The part of the load that was absorbed.
    pub fn absorbed_share(&self) -> f64 {
        float(self.absorbed) / float(self.offered.max(1))
    }

    /// The shards of all keys together, on average.
    pub fn mean_shards(&self) -> f64 {
        let sum = self.seconds.iter().map(|second| u64::from(second.shards)).sum::<u64>();
        float(sum) / float(u64::from(count(self.seconds.len()).max(1)))
    }

    /// The items that stayed where they were since sort keys grow.
    pub fn spared(&self) -> u64 {
        self.moved_if_whole.saturating_sub(self.moved)
    }

    /// The write units that moving them would have taken, where each takes so many to write.
    pub fn spared_write_units(&self, units_of_item: u64) -> u64 {
        self.spared() * units_of_move(units_of_item)
    }

    /// What the writes and the moves cost, in US dollars.
    pub fn usd(&self, prices: &Prices) -> f64 {
        self.seconds.iter().map(|second| second.usd(prices)).sum()
    }
}

impl Second {
    /// What it cost, in US dollars: the units that were consumed, or those that were provisioned.
    pub fn usd(&self, prices: &Prices) -> f64 {
        match self.provisioned {
            0 => prices.of_units(0.0, float(self.write_units)),
            units => f64::from(units) / 3_600.0 * prices.write_unit_hour,
        }
    }
}

/// The parts of a second after which writes arrive.
const TICKS: u32 = 10;

/// The simulation begins with an hour.
const START: Duration = Duration::from_hours(500_000);

/// The time since the epoch at which a second begins.
fn epoch(second: u32) -> Duration {
    START + Duration::from_secs(u64::from(second))
}

/// Writes the items of one key, evenly over a second and over its shards.
fn write(
    table: &mut Table,
    collection: &mut Collection<'_>,
    second: u32,
    begin: Duration,
    items: u64,
    units: u64,
) -> Outcome {
    let mut all = Outcome::default();
    let parts = collection.parts(second);
    // The part of the writes that goes to the shards up to each.
    let mut until = 0.0;
    let ends = parts.iter().map(|part| {
        until += part;
        until
    });
    let ends = ends.collect::<Vec<_>>();
    // What arrived so far by shard, so that halves of items are carried on.
    let mut before = vec![0; parts.len()];
    let mut left = items;
    for tick in 1..=TICKS {
        let now = begin + Duration::from_secs(1) * tick / (TICKS + 1);
        let passed = float(items) * f64::from(tick) / f64::from(TICKS);
        // Shards take turns to be first at what the table has left.
        for offset in 0..parts.len() {
            let shard = (offset + index(second + tick)) % parts.len();
            let from = ends[shard] - parts[shard];
            let arrived = rounded(passed * ends[shard]) - rounded(passed * from);
            // Rounding may give a shard an item that another has.
            let new = arrived.saturating_sub(before[shard]).min(left);
            if new == 0 {
                continue;
            }
            let outcome = table.write(now, collection.key(shard), new, units);
            before[shard] += new;
            left -= new;
            all.written += outcome.written;
            all.reason = all.reason.or(outcome.reason);
        }
    }
    all
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are checked")]
fn rounded(items: f64) -> u64 {
    items.round() as u64
}

#[cfg(test)]
mod tests {
    use dynashard_core::{ScalingMode, ShrinkPolicy};

    use super::*;

    fn fixed(shards: u32) -> Strategy {
        Strategy::Fixed(ShardCount::new(shards).expect("a count"))
    }

    fn run(scenario: &Scenario, strategy: Strategy) -> Run {
        Run::of(scenario, strategy, &Settings::default(), 1).expect("a good scenario")
    }

    #[test]
    fn a_partition_takes_a_thousand_units_a_second_and_more_shards_take_more() {
        let scenario = Scenario::steady(3_000.0, 1_024, 120);
        let [one, two, four] = [Strategy::None, fixed(2), fixed(4)]
            .map(|strategy| run(&scenario, strategy).absorbed_share());
        assert!((one - 1.0 / 3.0).abs() < 0.01, "{one}");
        assert!((two - 2.0 / 3.0).abs() < 0.01, "{two}");
        assert!(four > 0.999, "{four}");
    }

    #[test]
    fn dynashard_absorbs_what_no_shards_and_one_more_at_a_time_do_not() {
        let scenario = Scenario::steady(3_500.0, 1_024, 600);
        let [none, one_more, dynashard, by_alarm] =
            [Strategy::None, Strategy::OneMore, Strategy::Dynashard, Strategy::DynashardByAlarm]
                .map(|strategy| run(&scenario, strategy));
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
            let run = Run::of(&scenario, Strategy::Dynashard, &Settings::default(), seed);
            serde_json::to_string(&run.expect("a run")).expect("JSON")
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }

    #[test]
    fn the_table_is_a_limit_of_its_own_that_no_shards_lift() {
        let mut scenario = Scenario::steady(6_000.0, 1_024, 300);
        let on_demand = run(&scenario, fixed(16));
        let first = &on_demand.seconds[..60];
        let absorbed = first.iter().map(|second| second.absorbed).sum::<u64>();
        assert!((240_000..245_000).contains(&absorbed), "4,000 a second: {absorbed}");
        assert!(on_demand.seconds[61..].iter().all(|second| second.absorbed == second.offered));

        let write_units = 1_000.try_into().expect("positive");
        let most_write_units = 10_000.try_into().expect("positive");
        scenario.capacity = Capacity::Provisioned { write_units, most_write_units };
        scenario.steps[0].writes_per_second = 4_500.0;
        let provisioned = run(&scenario, fixed(16));
        assert!(provisioned.absorbed_share() < 0.999, "{}", provisioned.absorbed_share());
        let last = provisioned.seconds[299];
        assert_eq!(last.absorbed, last.offered, "auto scaling has followed");
        assert_eq!(provisioned.seconds[0].provisioned, 1_000);
        assert!(last.provisioned > 4_500, "{last:?}");
        let dynashard = run(&scenario, Strategy::Dynashard);
        assert!(dynashard.most_shards <= 16, "a table that is too small gets no shards for it");
    }

    #[test]
    fn auto_scaling_gives_back_what_has_been_idle_for_a_quarter_of_an_hour() {
        let mut scenario = Scenario::steady(4_000.0, 1_000, 300);
        scenario.steps.push(Step { seconds: 1_500, writes_per_second: 800.0, at_once: true });
        let write_units = 1_000.try_into().expect("positive");
        let most_write_units = 10_000.try_into().expect("positive");
        scenario.capacity = Capacity::Provisioned { write_units, most_write_units };
        let run = run(&scenario, fixed(16));
        let provisioned = |second: usize| run.seconds[second].provisioned;
        let raised = provisioned(299);
        assert!(raised >= 4_000, "{raised}");
        assert_eq!(provisioned(300 + 14 * 60), raised, "a pause of minutes is no reason");
        assert!((1_000..1_300).contains(&provisioned(1_799)), "{}", provisioned(1_799));
    }

    #[test]
    fn regression_rounding_wrote_more_than_was_offered() {
        for shards in [3, 7, 48] {
            let scenario = Scenario::steady(103.0, 100, 300);
            let run = run(&scenario, fixed(shards));
            let exceeds = |second: &&Second| second.absorbed > second.offered;
            assert_eq!(run.seconds.iter().find(exceeds), None, "{shards} shards");
        }
    }

    #[test]
    fn who_is_patient_is_written_later() {
        let mut scenario = Scenario::steady(3_000.0, 1_024, 60);
        let gone = run(&scenario, Strategy::Dynashard);
        assert_eq!((gone.p50_wait_seconds, gone.p99_wait_seconds), (0, 0));
        scenario.patience_seconds = 60;
        let patient = run(&scenario, Strategy::Dynashard);
        assert!(patient.absorbed > gone.absorbed, "{} of {}", patient.absorbed, patient.offered);
        assert_eq!(patient.absorbed, patient.offered);
        assert!((5..60).contains(&patient.p99_wait_seconds), "{}", patient.p99_wait_seconds);
        assert_eq!(patient.changes, gone.changes, "who tries again is no demand of its own");
    }

    /// An hour in which a log is written at four times what a shard takes, and a night.
    fn day_of_a_log(sort_keys: SortKeys) -> Scenario {
        let step = |seconds, writes_per_second| Step { seconds, writes_per_second, at_once: true };
        let steps = vec![step(600, 50.0), step(3_600, 4_000.0), step(5 * 3_600, 50.0)];
        Scenario { steps, sort_keys, items: 1_000_000, ..Scenario::steady(0.0, 1_024, 0) }
    }

    #[test]
    fn a_log_leaves_its_past_where_it_is_by_day_and_by_night() {
        let shrink =
            ShrinkPolicy { mode: ScalingMode::On, payback: None, ..ShrinkPolicy::default() };
        let settings = Settings { shrink, ..Settings::default() };
        let [log, random] = [SortKeys::Growing, SortKeys::Random].map(|sort_keys| {
            let scenario = day_of_a_log(sort_keys);
            Run::of(&scenario, Strategy::Dynashard, &settings, 1).expect("a good scenario")
        });
        let counts = log.changes.iter().map(|change| (change.from, change.to));
        assert_eq!(counts.collect::<Vec<_>>(), [(1, 16), (16, 4)]);
        assert_eq!(log.most_epochs, 3);
        assert!(log.moved * 100 < log.moved_if_whole, "{} of {}", log.moved, log.moved_if_whole);
        assert!(log.moved < 60_000, "what was written while the changes began, {}", log.moved);
        assert!((1.0..15.5).contains(&log.mean_shards_read), "{}", log.mean_shards_read);
        assert!(log.absorbed_share() > 0.99, "{}", log.absorbed_share());
        assert_eq!((random.most_epochs, random.moved_if_whole > random.moved), (1, false));
    }

    #[test]
    fn dynamodb_splits_for_heat_unless_sort_keys_grow() {
        let mut scenario = Scenario::steady(1_900.0, 1_024, 900);
        let growing = run(&scenario, Strategy::None);
        scenario.sort_keys = SortKeys::Random;
        let random = run(&scenario, Strategy::None);
        let last =
            |run: &Run| run.seconds[800..].iter().map(|second| second.throttled).sum::<u64>();
        assert!(last(&growing) > 80_000, "{}", last(&growing));
        assert_eq!(last(&random), 0);
        assert_eq!(growing.seconds[..300], random.seconds[..300], "it takes minutes");
    }

    #[test]
    fn items_that_lie_there_move_with_what_writers_leave_and_cost() {
        let sort_keys = SortKeys::Random;
        let mut scenario = Scenario { sort_keys, ..Scenario::steady(1_500.0, 1_024, 3_600) };
        let empty = run(&scenario, Strategy::Dynashard);
        scenario.items = 1_000_000;
        let full = run(&scenario, Strategy::Dynashard);
        let change = full.changes[0];
        assert_eq!((change.from, change.to), (1, 4));
        assert!(full.moved > empty.moved + 700_000, "{} and {}", full.moved, empty.moved);
        assert_eq!(full.move_write_units, 5 * full.moved);
        // 800 write units of the only source, of which a transaction takes two, while writers use 375 of each shard.
        let moving = full.seconds.iter().filter(|second| second.moved > 0).count();
        assert!((1_900..2_800).contains(&moving), "{moving}");
        assert!(full.absorbed_share() > 0.98, "{}", full.absorbed_share());
    }

    #[test]
    fn a_load_that_has_gone_gives_shards_back() {
        // One shard takes 384,000 items within the 16 minutes that a shrink may move.
        let mut scenario = Scenario::steady(6_000.0, 1_024, 40);
        scenario.steps.push(Step { seconds: 3 * 3_600, writes_per_second: 10.0, at_once: true });
        let mut settings = Settings::default();
        let run = |settings: &Settings| {
            let run = Run::of(&scenario, Strategy::Dynashard, settings, 1).expect("a run");
            run.seconds.last().map(|second| second.shards)
        };
        let kept = run(&settings);
        assert!(kept >= Some(8), "{kept:?}");
        let after = Duration::from_hours(1);
        settings.shrink = ShrinkPolicy { mode: ScalingMode::On, after, payback: None };
        assert_eq!(run(&settings), Some(1));
    }

    #[test]
    fn recorded_writes_are_made_when_they_were() {
        let write = |key: &str, second, items| (key.to_owned(), second, items);
        let recording = Recording::of([
            write("busy", 100, 2_000),
            write("busy", 101, 3_000),
            write("busy", 100, 1_000),
            write("calm", 100, 1),
            write("calm", 104, 1),
        ]);
        let scenario = Scenario::recorded(recording, 1_024);
        assert!((scenario.busiest().write_units - 3_000.0).abs() < 1e-9);
        let run = run(&scenario, Strategy::None);
        let offered = run.seconds.iter().map(|second| second.offered).collect::<Vec<_>>();
        assert_eq!(offered, [3_001, 3_000, 0, 0, 1]);
        // A partition takes a thousand a second, and what it has saved up of one.
        assert!((2_500..3_100).contains(&run.absorbed), "{}", run.absorbed);

        let keys = (0..1_500).map(|key| (format!("key{key}"), 0, 1));
        let twice = (0..1_000).map(|key| (format!("key{key}"), 1, 1));
        let recording = Recording::of(keys.chain(twice));
        assert_eq!(recording.left_out(), 500);
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
        let wrong: [(&str, Spoil); 11] = [
            ("steps", |it| it.steps.clear()),
            ("steps", |it| it.steps[0].writes_per_second = 0.0),
            ("writes_per_second", |it| it.steps[0].writes_per_second = f64::NAN),
            ("item_bytes", |it| it.item_bytes = 0),
            ("items", |it| it.items = u64::MAX),
            ("patience_seconds", |it| it.patience_seconds = 3_601),
            ("environments", |it| it.environments = 10_001.try_into().expect("positive")),
            ("zipf", |it| it.zipf = -1.0),
            ("keys", |it| it.keys = 1_001.try_into().expect("positive")),
            ("write_units", |it| {
                let [write_units, most_write_units] =
                    [2, 1].map(|units: u32| units.try_into().expect("positive"));
                it.capacity = Capacity::Provisioned { write_units, most_write_units };
            }),
            ("the sample", |it| it.recording = Some(Recording::default())),
        ];
        for (field, spoil) in wrong {
            let mut scenario = Scenario::steady(1.0, 1, 1);
            assert_eq!(scenario.check(), Ok(()));
            spoil(&mut scenario);
            let failed = Run::of(&scenario, Strategy::None, &Settings::default(), 1);
            let failed = failed.expect_err("wrong").to_string();
            assert!(failed.starts_with(field), "{failed}");
        }
    }
}
