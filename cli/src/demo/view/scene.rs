//! One moment of a run, before it is drawn on a terminal or into a picture.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::history::{History, Rates};
use super::super::plan::Stage;
use crate::numbers::float;

/// What a moment of a run looks like, on whatever it is shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Scene {
    pub(super) at: Duration,
    /// What the run is doing, in words.
    pub(super) doing: &'static str,
    pub(super) rates: Rates,
    /// The rates of every sample so far.
    pub(super) past: Vec<Rates>,
    pub(super) written: u64,
    /// Items that reshards have moved to their new homes.
    pub(super) moved: u64,
    pub(super) keys: Vec<KeyLine>,
    /// Throttled writes so far, by reason.
    pub(super) throttles: BTreeMap<String, u64>,
    /// Alarms by name, and the state of each.
    pub(super) alarms: BTreeMap<String, String>,
    /// How many items were read back, and of how many.
    pub(super) reading: Option<(usize, usize)>,
}

/// One hot key of a scene.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KeyLine {
    pub(super) name: String,
    /// The count in force.
    pub(super) shards: u32,
    /// `stable`, `forward` or `move`.
    pub(super) phase: &'static str,
    /// The count that a running change leads to.
    pub(super) to: Option<u32>,
    /// Items that its reshards have moved.
    pub(super) moved: u64,
    pub(super) rates: Rates,
    /// Write units a second of all shards.
    pub(super) capacity: f64,
    /// Every count that the collection had.
    pub(super) counts: Vec<u32>,
}

/// With more refused tries for what is offered, a run has not settled, whatever its counts do.
const MOST_REFUSED: f64 = 0.01;

impl Scene {
    /// The latest sample of a run.
    pub(super) fn of(history: &History, stage: Stage) -> Self {
        let Some(latest) = history.samples.len().checked_sub(1) else { return Self::default() };
        let sample = &history.samples[latest];
        let keys = history.keys.iter().enumerate().map(|(key, (name, _))| {
            let collection = sample.keys[key].collection;
            KeyLine {
                name: name.clone(),
                shards: collection.shards,
                phase: collection.phase.as_str(),
                to: collection.change().map(|(_, to)| to),
                moved: collection.moved,
                rates: history.rates_at(latest, Some(key)),
                capacity: history.capacity(latest, key),
                counts: history.steps(key).iter().map(|step| step.shards).collect(),
            }
        });
        let rates = history.rates_at(latest, None);
        Self {
            at: sample.at,
            doing: match stage {
                Stage::Growing => "growing",
                Stage::Measuring { .. } if rates.throttled > MOST_REFUSED * rates.offered => {
                    "shard counts steady, measuring"
                }
                Stage::Measuring { .. } => "settled, measuring",
                Stage::Draining { .. } => "writing the rest",
                Stage::Closing => "waiting for the reshards to close",
            },
            rates,
            past: (1..=latest).map(|at| history.rates_at(at, None)).collect(),
            written: sample.keys.iter().map(|key| key.counts.absorbed).sum(),
            moved: sample.keys.iter().map(|key| key.collection.moved).sum(),
            keys: keys.collect(),
            throttles: sample.throttles.clone(),
            alarms: sample.alarms.clone(),
            reading: None,
        }
    }

    /// The scene as a line of text.
    pub(super) fn line(&self) -> String {
        let Rates { offered, absorbed, throttled, .. } = self.rates;
        let shards = self.keys.iter().map(|key| {
            let change = key.to.map(|to| format!(" {} to {to}", key.phase));
            format!("  {} {}{}", key.name, key.shards, change.unwrap_or_default())
        });
        let alarms = self.alarms.iter().map(|(name, state)| format!("  {name} {state}"));
        format!(
            "{:>4} s  offered {offered:>5.0}/s  absorbed {absorbed:>5.0}/s  throttled \
             {throttled:>5.0}/s  moved {:>6}  shards:{}{}  {}",
            self.at.as_secs(),
            self.moved,
            shards.collect::<String>(),
            alarms.collect::<String>(),
            self.doing
        )
    }
}

/// As many values as there is room for, each the mean of its part of `values`; fewer if there are
/// fewer.
pub(super) fn squeezed(values: &[f64], room: usize) -> Vec<f64> {
    if values.len() <= room {
        return values.to_vec();
    }
    let parts = (0..room).map(|part| {
        let part = &values[part * values.len() / room..(part + 1) * values.len() / room];
        part.iter().sum::<f64>() / float(part.len())
    });
    parts.collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::super::history::Sample;
    use super::*;

    /// A scene with everything in it.
    pub(in super::super) fn scene() -> Scene {
        let rates = Rates { offered: 2_800.0, absorbed: 1_733.4, throttled: 912.0, moves: 31.0 };
        let key = |name: &str, counts: &[u32], phase, to| KeyLine {
            name: name.to_owned(),
            shards: counts[counts.len() - 1],
            phase,
            to,
            moved: 250,
            rates: Rates { offered: 1_600.0, absorbed: 790.0, ..Rates::default() },
            capacity: 800.0,
            counts: counts.to_vec(),
        };
        Scene {
            at: Duration::from_millis(17_500),
            doing: "growing",
            rates,
            past: vec![rates; 34],
            written: 23_456,
            moved: 500,
            keys: vec![
                key("EWR", &[1, 4, 16], "move", Some(16)),
                key("LGA", &[1, 4], "stable", None),
            ],
            throttles: BTreeMap::from([("TableWriteKeyRangeThroughputExceeded".to_owned(), 4_321)]),
            alarms: BTreeMap::from([("WriteThrottles".to_owned(), "ALARM".to_owned())]),
            reading: None,
        }
    }

    #[test]
    fn a_line_says_everything_once() {
        assert_eq!(
            scene().line(),
            "  17 s  offered  2800/s  absorbed  1733/s  throttled   912/s  moved    500  \
             shards:  EWR 16 move to 16  LGA 4  WriteThrottles ALARM  growing"
        );
    }

    #[test]
    fn regression_a_run_that_was_refused_its_writes_had_settled() {
        let sample = |second: u64, throttled: u64| Sample {
            at: Duration::from_secs(second),
            keys: Vec::new(),
            throttles: BTreeMap::from([("hot".to_owned(), throttled)]),
            operations: BTreeMap::new(),
            alarms: BTreeMap::new(),
        };
        let doing = |throttled| {
            let samples = vec![sample(0, 0), sample(1, throttled)];
            let history = History { partition_wcu: 1, keys: Vec::new(), samples };
            Scene::of(&history, Stage::Measuring { from: 0 }).doing
        };
        assert_eq!(
            (doing(1_202), doing(0)),
            ("shard counts steady, measuring", "settled, measuring")
        );
    }

    #[test]
    fn values_are_squeezed_into_means_and_never_stretched() {
        assert_eq!(squeezed(&[1.0, 3.0, 5.0, 7.0], 2), [2.0, 6.0]);
        assert_eq!(squeezed(&[1.0, 3.0, 5.0], 2), [1.0, 4.0]);
        assert_eq!(squeezed(&[1.0, 3.0], 9), [1.0, 3.0]);
        assert_eq!(squeezed(&[], 0), [0.0; 0]);
    }
}
