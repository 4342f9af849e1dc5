//! What a run of the demo does, and when it goes on to the next thing. Pure.

use std::time::Duration;

use super::history::{History, SettledRule};

/// What a run is to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// Write units a second of one partition.
    pub(super) partition_wcu: u32,
    /// Writes a second that are offered to each airport, in their order.
    pub(super) rates: Vec<u32>,
    /// What may be under way at once, as time at these rates.
    pub(super) in_flight: Duration,
    /// When the growth counts as over.
    pub(super) settled: SettledRule,
    /// For how long the settled collections are measured.
    pub(super) steady: Duration,
    /// When the demo stops waiting for that.
    pub(super) time_limit: Duration,
}

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It offers, and the shard counts follow.
    Growing,
    /// The counts have settled, and the run is measured from this sample on.
    Measuring { from: usize },
    /// Nothing new is offered, since the sample `since`.
    Draining { since: usize, steady: Option<Window> },
    /// Everything is written, and reshards that run are waited for.
    Closing,
}

/// The samples between which the run was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: usize,
    pub(super) to: usize,
}

impl Stage {
    /// What to do after another sample was taken.
    pub(super) fn next(self, history: &History, plan: &Plan) -> Self {
        let Some(last) = history.samples.len().checked_sub(1) else { return self };
        let at = history.samples[last].at;
        match self {
            Self::Growing if history.has_settled(plan.settled) => Self::Measuring { from: last },
            Self::Growing if at >= plan.time_limit => Self::Draining { since: last, steady: None },
            Self::Measuring { from } if !history.is_unchanged(from, last) => Self::Growing,
            Self::Measuring { from } if at >= history.samples[from].at + plan.steady => {
                if history.is_absorbed(from, last, plan.settled) || at >= plan.time_limit {
                    Self::Draining { since: last, steady: Some(Window { from, to: last }) }
                } else {
                    Self::Growing
                }
            }
            Self::Growing | Self::Measuring { .. } | Self::Draining { .. } | Self::Closing => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::history::{Collection, KeySample, Sample};
    use super::super::offer::Counts;
    use super::*;

    fn plan() -> Plan {
        Plan {
            partition_wcu: 200,
            rates: vec![400],
            in_flight: Duration::from_secs(2),
            settled: SettledRule { quiet: Duration::from_secs(2), least_share: 0.9 },
            steady: Duration::from_secs(2),
            time_limit: Duration::from_mins(1),
        }
    }

    /// What a run does second by second, when it has these shards and absorbs what they take, of two
    /// at most.
    /// The stage after each second in which so many shards absorbed so many puts of 400.
    fn stages_absorbing(seconds: impl IntoIterator<Item = (u32, u64)>) -> Vec<Stage> {
        let mut history = History {
            partition_wcu: 200,
            keys: vec![("EWR".to_owned(), 400)],
            samples: Vec::new(),
        };
        let (mut stage, mut stages, mut absorbed) = (Stage::Growing, Vec::new(), 0);
        for (second, (shards, taken)) in (0..).zip(seconds) {
            let counts = Counts { offered: 400 * second, absorbed, ..Counts::default() };
            absorbed += taken;
            let collection = Collection { shards, ..Collection::COLD };
            history.samples.push(Sample {
                at: Duration::from_secs(second),
                keys: vec![KeySample { counts, collection }],
                throttles: BTreeMap::new(),
                operations: BTreeMap::new(),
                alarms: BTreeMap::new(),
            });
            stage = stage.next(&history, &plan());
            stages.push(stage);
        }
        stages
    }

    fn stages(shards: &[u32]) -> Vec<Stage> {
        stages_absorbing(shards.iter().map(|&shards| (shards, 200 * u64::from(shards.min(2)))))
    }

    #[test]
    fn a_settled_run_is_measured_and_then_drained() {
        let measuring = Stage::Measuring { from: 3 };
        let drained = Stage::Draining { since: 5, steady: Some(Window { from: 3, to: 5 }) };
        assert_eq!(
            stages(&[1, 2, 2, 2, 2, 2, 2])[2..],
            [Stage::Growing, measuring, measuring, drained, drained]
        );
    }

    #[test]
    fn a_growth_while_measuring_begins_the_wait_again() {
        let stages = stages(&[2, 2, 2, 4, 4, 4]);
        assert_eq!(stages[2], Stage::Measuring { from: 2 });
        assert_eq!(stages[3..], [Stage::Growing, Stage::Growing, Stage::Measuring { from: 5 }]);
    }

    #[test]
    fn regression_a_measurement_while_the_machine_stood_still_passed_for_a_settled_one() {
        let taken = [400, 400, 400, 0, 400, 400, 400, 400, 400, 400];
        let stages = stages_absorbing(taken.map(|taken| (2, taken)));
        assert_eq!(
            stages[2..5],
            [Stage::Measuring { from: 2 }, Stage::Measuring { from: 2 }, Stage::Growing]
        );
        assert_eq!(
            stages[9],
            Stage::Draining { since: 8, steady: Some(Window { from: 6, to: 8 }) }
        );
    }

    #[test]
    fn a_run_that_never_settles_ends_at_the_limit() {
        let restless = (0..=60).map(|second| 1 + second % 2).collect::<Vec<_>>();
        let stages = stages(&restless);
        assert_eq!(stages[59], Stage::Growing);
        assert_eq!(stages[60], Stage::Draining { since: 60, steady: None });
    }
}
