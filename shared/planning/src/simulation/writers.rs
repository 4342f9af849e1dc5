//! Writes that were throttled, and how long they have waited.

use std::collections::VecDeque;

/// The writes of one key that were throttled and are tried again, once a second.
#[derive(Debug)]
pub(super) struct Writers {
    patience: usize,
    /// How many writes have waited for one second, for two, and so on.
    waiting: VecDeque<u64>,
}

/// How long writes had waited when they were written: how many not at all, how many for one second, and so on.
#[derive(Debug, Clone, Default)]
pub(super) struct WaitTimes(Vec<u64>);

impl Writers {
    pub(super) fn new(patience_seconds: u32) -> Self {
        Self { patience: super::index(patience_seconds), waiting: VecDeque::new() }
    }

    /// What is tried in a second in which so many are new.
    pub(super) fn tried(&self, new: u64) -> u64 {
        new + self.waiting.iter().sum::<u64>()
    }

    /// So many of them were written: a part of each age alike.
    pub(super) fn end_second(&mut self, new: u64, written: u64, times: &mut WaitTimes) {
        let tried = u128::from(self.tried(new).max(1));
        self.waiting.push_front(new);
        let (mut seen, mut taken) = (0_u128, 0);
        for (age, waiting) in self.waiting.iter_mut().enumerate() {
            seen += u128::from(*waiting);
            let until = u64::try_from(seen * u128::from(written) / tried).unwrap_or(written);
            times.add(age, until - taken);
            *waiting -= until - taken;
            taken = until;
        }
        self.waiting.truncate(self.patience);
    }
}

impl WaitTimes {
    fn add(&mut self, seconds: usize, writes: u64) {
        if self.0.len() <= seconds {
            self.0.resize(seconds + 1, 0);
        }
        self.0[seconds] += writes;
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        for (seconds, writes) in other.0.iter().enumerate() {
            self.add(seconds, *writes);
        }
    }

    /// The seconds that this part of the writes did not wait longer than; 0 where nothing was written.
    pub(super) fn quantile(&self, part: f64) -> u32 {
        let rank = (part * crate::float(self.0.iter().sum())).ceil();
        let mut seen = 0;
        let within = self.0.iter().position(|writes| {
            seen += writes;
            crate::float(seen) >= rank
        });
        within.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttled_writes_come_again_until_patience_ends() {
        let mut writers = Writers::new(2);
        let mut times = WaitTimes::default();
        writers.end_second(10, 4, &mut times);
        assert_eq!((writers.tried(0), times.quantile(1.0)), (6, 0));
        writers.end_second(6, 6, &mut times);
        assert_eq!((writers.tried(0), &times.0), (6, &vec![7, 3]), "half of each age");
        writers.end_second(0, 0, &mut times);
        assert_eq!(writers.tried(0), 3, "the oldest three gave up");
        writers.end_second(0, 3, &mut times);
        assert_eq!((writers.tried(0), &times.0), (0, &vec![7, 3, 3]));
        assert_eq!((times.quantile(0.5), times.quantile(0.99)), (0, 2));
    }
}
