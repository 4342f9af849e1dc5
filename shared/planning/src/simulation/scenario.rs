use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::capacity::{Throughput, write_units_of_item};

/// A load over time on one table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The load of all keys together, one step after the other.
    pub steps: Vec<Step>,
    /// How many partition keys share it.
    #[serde(default = "one")]
    pub keys: NonZeroU32,
    /// How unevenly: the share of the key of rank r goes with `r^-zipf`. 0 is even.
    #[serde(default)]
    pub zipf: f64,
    /// The bytes of an item.
    pub item_bytes: u32,
    /// The partitions of the table.
    #[serde(default = "partitions")]
    pub partitions: NonZeroU32,
    /// What the table itself takes.
    #[serde(default)]
    pub capacity: Capacity,
}

/// A part of the time, in which the load goes evenly from one rate to another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// How long it lasts.
    pub seconds: u32,
    /// Items written a second at its end; at its beginning, too, if it is the first.
    pub writes_per_second: f64,
    /// Whether the rate is reached at once.
    #[serde(default)]
    pub at_once: bool,
}

/// How the table is paid for, and so what it takes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Capacity {
    /// On demand: twice the largest minute so far, at least 4,000 write units a second ([on-demand
    /// capacity](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html)).
    #[default]
    OnDemand,
    /// Provisioned, raised by DynamoDB auto scaling up to a maximum when a target of 70% is exceeded for two minutes.
    Provisioned {
        /// Write units a second at the beginning, and at least.
        write_units: NonZeroU32,
        /// At most.
        most_write_units: NonZeroU32,
    },
}

/// A week: longer runs say nothing more.
const MOST_SECONDS: u64 = 7 * 86_400;
const MOST_WRITES_PER_SECOND: f64 = 1e6;
const MOST_KEYS: u32 = 1_000;

impl Scenario {
    /// The same rate all the time, on one key.
    pub fn steady(writes_per_second: f64, item_bytes: u32, seconds: u32) -> Self {
        Self {
            steps: vec![Step { seconds, writes_per_second, at_once: true }],
            keys: one(),
            zipf: 0.0,
            item_bytes,
            partitions: partitions(),
            capacity: Capacity::default(),
        }
    }

    /// Refuses what cannot be simulated, and says which field is wrong.
    pub fn check(&self) -> Result<(), String> {
        let seconds = self.steps.iter().map(|step| u64::from(step.seconds)).sum::<u64>();
        let is_rate =
            |step: &Step| (0.0..=MOST_WRITES_PER_SECOND).contains(&step.writes_per_second);
        let wrong = [
            (
                !(1..=MOST_SECONDS).contains(&seconds),
                "steps must last 1 to 604,800 seconds together",
            ),
            (!self.steps.iter().all(is_rate), "writes_per_second must be 0 to 1,000,000"),
            (
                !self.steps.iter().any(|step| step.writes_per_second > 0.0),
                "steps must write something",
            ),
            (self.keys.get() > MOST_KEYS, "keys must be 1 to 1,000"),
            (!(0.0..=10.0).contains(&self.zipf), "zipf must be 0 to 10"),
            (!(1..=409_600).contains(&self.item_bytes), "item_bytes must be 1 to 409,600"),
            (self.partitions.get() > 1_000_000, "partitions must be 1 to 1,000,000"),
        ];
        let wrong = wrong.into_iter().find(|(is_wrong, _)| *is_wrong);
        wrong.map_or(Ok(()), |(_, says)| Err(says.to_owned()))
    }

    /// What the busiest key is asked for in the busiest second.
    pub fn busiest(&self) -> Throughput {
        let most = self.steps.iter().map(|step| step.writes_per_second).fold(0.0, f64::max);
        let share = self.shares().first().copied().unwrap_or(1.0);
        let write_units = most * share * f64::from(write_units_of_item(self.item_bytes));
        Throughput { read_units: 0.0, write_units }
    }

    /// Items written in each second, by all keys.
    pub(super) fn rates(&self) -> Vec<f64> {
        let mut before = self.steps.first().map_or(0.0, |step| step.writes_per_second);
        let mut rates = Vec::new();
        for step in &self.steps {
            let to = step.writes_per_second;
            let from = if step.at_once { to } else { before };
            let length = f64::from(step.seconds);
            rates.extend(
                (0..step.seconds)
                    .map(|second| from + (to - from) * (f64::from(second) + 1.0) / length),
            );
            before = to;
        }
        rates
    }

    /// The part of the load that each key has, the busiest first.
    pub(super) fn shares(&self) -> Vec<f64> {
        let weights = (1..=self.keys.get()).map(|rank| f64::from(rank).powf(-self.zipf));
        let weights = weights.collect::<Vec<_>>();
        let sum = weights.iter().sum::<f64>();
        weights.into_iter().map(|weight| weight / sum).collect()
    }
}

const fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// Enough that hot shards seldom meet, as on a table that has grown.
const fn partitions() -> NonZeroU32 {
    const MANY: NonZeroU32 = NonZeroU32::new(4_096).expect("positive");
    MANY
}
