//! A load that somebody has written down.

use std::num::NonZeroU32;

use dynashard_keys::{KeyError, PartitionKey};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::recording::Recording;
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
    /// Writes that happened, in place of the steps, the keys and their shares.
    #[serde(skip)]
    pub recording: Option<Recording>,
    /// The bytes of an item.
    pub item_bytes: u32,
    /// Items that lie in the table before, shared out like the load. A change of shards moves them, and what is written.
    #[serde(default)]
    pub items: u64,
    /// In which order sort keys come.
    #[serde(default)]
    pub sort_keys: SortKeys,
    /// How long a client goes on with a write that is throttled, once a second. With 0 it is refused and gone.
    #[serde(default)]
    pub patience_seconds: u32,
    /// Environments of the functions that write.
    #[serde(default = "environments")]
    pub environments: NonZeroU32,
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

/// The order in which sort keys are written, on which depends whether DynamoDB can split a hot partition to any use
/// ([partition key design](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SortKeys {
    /// Each is larger than those before, as times are: one half of a partition that was split gets all writes.
    #[default]
    Growing,
    /// They lie anywhere, and DynamoDB splits partitions that stay hot.
    Random,
}

/// How the table is paid for, and so what it takes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Capacity {
    /// On demand: twice the largest minute so far, at least 4,000 write units a second ([on-demand
    /// capacity](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html)).
    #[default]
    OnDemand,
    /// Provisioned, raised by DynamoDB auto scaling up to a maximum when a target of 70% is exceeded for two minutes, and
    /// lowered after a quarter of an hour below 50%.
    Provisioned {
        /// Write units a second at the beginning, and at least.
        write_units: NonZeroU32,
        /// At most.
        most_write_units: NonZeroU32,
    },
}

/// Why a scenario cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct BadScenario(String);

/// A month: longer runs say nothing more.
const MOST_SECONDS: u64 = 31 * 86_400;
const MOST_WRITES_PER_SECOND: f64 = 1e6;
/// Partition keys of a scenario at most.
const MOST_KEYS: u32 = 1_000;

impl Scenario {
    /// One rate all the time, on one key.
    pub fn steady(writes_per_second: f64, item_bytes: u32, seconds: u32) -> Self {
        let step = Step { seconds, writes_per_second, at_once: true };
        Self { steps: vec![step], ..Self::of_items(item_bytes) }
    }

    /// Writes that happened, of items of this size.
    pub fn recorded(recording: Recording, item_bytes: u32) -> Self {
        Self { recording: Some(recording), ..Self::of_items(item_bytes) }
    }

    fn of_items(item_bytes: u32) -> Self {
        Self {
            steps: Vec::new(),
            keys: one(),
            zipf: 0.0,
            recording: None,
            item_bytes,
            items: 0,
            sort_keys: SortKeys::default(),
            patience_seconds: 0,
            environments: environments(),
            partitions: partitions(),
            capacity: Capacity::default(),
        }
    }

    /// Refuses what cannot be simulated, and says which field is wrong.
    ///
    /// # Errors
    ///
    /// [`BadScenario`] names the first field that is out of bounds, and the bounds.
    pub fn check(&self) -> Result<(), BadScenario> {
        let seconds = match &self.recording {
            Some(recording) => recording.seconds(),
            None => self.steps.iter().map(|step| u64::from(step.seconds)).sum::<u64>(),
        };
        let is_rate =
            |step: &Step| (0.0..=MOST_WRITES_PER_SECOND).contains(&step.writes_per_second);
        let writes_something = self.recording.is_some()
            || self.steps.iter().any(|step| step.seconds > 0 && step.writes_per_second > 0.0);
        let wrong = [
            (
                self.recording.is_some() && !(1..=MOST_SECONDS).contains(&seconds),
                "the sample must last 1 to 2,678,400 seconds",
            ),
            (
                !(1..=MOST_SECONDS).contains(&seconds),
                "steps must last 1 to 2,678,400 seconds together",
            ),
            (!self.steps.iter().all(is_rate), "writes_per_second must be 0 to 1,000,000"),
            (!writes_something, "steps must write something"),
            (self.keys.get() > MOST_KEYS, "keys must be 1 to 1,000"),
            (!(0.0..=10.0).contains(&self.zipf), "zipf must be 0 to 10"),
            (!(1..=409_600).contains(&self.item_bytes), "item_bytes must be 1 to 409,600"),
            (self.items > MOST_ITEMS, "items must be 0 to 1,000,000,000,000"),
            (self.patience_seconds > 3_600, "patience_seconds must be 0 to 3,600"),
            (self.environments.get() > 10_000, "environments must be 1 to 10,000"),
            (self.partitions.get() > 1_000_000, "partitions must be 1 to 1,000,000"),
            (!self.capacity.is_in_order(), "write_units must be at most most_write_units"),
        ];
        let wrong = wrong.into_iter().find(|(is_wrong, _)| *is_wrong);
        wrong.map_or(Ok(()), |(_, says)| Err(BadScenario(says.to_owned())))
    }

    /// What the busiest key is asked for in the busiest second.
    pub fn busiest(&self) -> Throughput {
        let of_steps = || {
            let most = self.steps.iter().map(|step| step.writes_per_second).fold(0.0, f64::max);
            most * self.shares().first().copied().unwrap_or(1.0)
        };
        let most = self.recording.as_ref().map_or_else(of_steps, Recording::busiest);
        let write_units = most * f64::from(write_units_of_item(self.item_bytes));
        Throughput { read_units: 0.0, write_units }
    }

    /// The partition keys, the busiest first.
    pub(super) fn partition_keys(&self) -> Result<Vec<PartitionKey>, BadScenario> {
        let keys: Result<Vec<_>, KeyError> = match &self.recording {
            Some(recording) => recording.keys().map(PartitionKey::new).collect(),
            None => {
                (0..self.keys.get()).map(|key| PartitionKey::new(format!("key{key}"))).collect()
            }
        };
        keys.map_err(|error| BadScenario(error.to_string()))
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
        if let Some(recording) = &self.recording {
            return recording.shares();
        }
        let weights = (1..=self.keys.get()).map(|rank| f64::from(rank).powf(-self.zipf));
        let weights = weights.collect::<Vec<_>>();
        let sum = weights.iter().sum::<f64>();
        weights.into_iter().map(|weight| weight / sum).collect()
    }
}

impl Capacity {
    fn is_in_order(self) -> bool {
        match self {
            Self::OnDemand => true,
            Self::Provisioned { write_units, most_write_units } => write_units <= most_write_units,
        }
    }
}

const MOST_ITEMS: u64 = 1_000_000_000_000;

const fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

const fn environments() -> NonZeroU32 {
    const MANY: NonZeroU32 = NonZeroU32::new(50).expect("positive");
    MANY
}

/// Enough that hot shards seldom meet, as on a table that has grown.
const fn partitions() -> NonZeroU32 {
    const MANY: NonZeroU32 = NonZeroU32::new(4_096).expect("positive");
    MANY
}
