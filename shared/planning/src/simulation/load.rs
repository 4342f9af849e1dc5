//! The writes of a simulation.

use super::chance::Chance;
use super::recording::Recording;
use super::scenario::Scenario;
use super::{index, rounded};

/// What is to be written, second by second.
#[derive(Debug)]
pub(super) enum Load<'a> {
    /// Drawn around the rate of each second.
    Drawn {
        rates: Vec<f64>,
        shares: Vec<f64>,
        chance: Chance,
    },
    Recorded(&'a Recording),
}

impl<'a> Load<'a> {
    pub(super) fn of(scenario: &'a Scenario, seed: u64) -> Self {
        match &scenario.recording {
            Some(recording) => Self::Recorded(recording),
            None => Self::Drawn {
                rates: scenario.rates(),
                shares: scenario.shares(),
                chance: Chance::new(seed),
            },
        }
    }

    /// The seconds that it lasts.
    pub(super) fn seconds(&self) -> u32 {
        let seconds = match self {
            Self::Drawn { rates, .. } => u64::try_from(rates.len()).unwrap_or(u64::MAX),
            Self::Recorded(recording) => recording.seconds(),
        };
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }

    /// The new items of one key in a second. Every second of every key is to be asked for once, in order.
    pub(super) fn items(&mut self, second: u32, key: usize) -> u64 {
        match self {
            Self::Drawn { rates, shares, chance } => {
                rounded(chance.arrivals(rates[index(second)] * shares[key]))
            }
            Self::Recorded(recording) => recording.items(second, key),
        }
    }
}
