//! How fast rows go to one collection: as fast as its partitions take them.
//!
//! The rate doubles every second until a partition throttles for the first time. From then on it rises
//! evenly and falls a little with each burst of throttles (additive increase, multiplicative decrease).

use std::time::Duration;

/// The rate of one collection. Time is that of the boot clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace {
    /// Write units a second.
    pub(super) rate: f64,
    /// The rate at which the partition throttled last.
    ceiling: Option<f64>,
    /// When the next row may go.
    pub(super) next_at: Duration,
    /// No second fall before this: one burst of throttles is one piece of news.
    deaf_until: Duration,
    /// What the partition has taken since then, in units.
    window: (Duration, f64),
    /// What it took in the window before, in units a second, if that is known.
    taken: f64,
}

/// A partition of DynamoDB takes up to 1,000.
const FIRST_RATE: f64 = 100.0;

const LEAST_RATE: f64 = 1.0;

/// The share by which the rate rises with each unit, before the first throttle: it doubles in a second.
const FIRST_RISE: f64 = 0.7;

/// The share of the ceiling by which the rate rises every second.
const RISE_PER_SEC: f64 = 0.05;

/// What a burst of throttles leaves of the rate.
const FALL: f64 = 0.85;

/// How far above what was taken a throttled rate may stay: what it had saved up is gone.
const ABOVE_TAKEN: f64 = 1.1;

/// Above so many times the ceiling it is that of the past: the partition was split, or others left it.
const BEYOND: f64 = 1.3;

const ONE_BURST: Duration = Duration::from_millis(500);

const WINDOW: Duration = Duration::from_secs(1);

/// A window that took longer has a pause in it.
const LONGEST_WINDOW: Duration = Duration::from_secs(3);

/// What a late wake-up may make up for.
const LATE: Duration = Duration::from_millis(50);

impl Pace {
    pub(super) fn new(now: Duration) -> Self {
        let (window, taken) = ((now, 0.0), f64::INFINITY);
        Self { rate: FIRST_RATE, ceiling: None, next_at: now, deaf_until: now, window, taken }
    }

    /// Whether the partition has ever throttled.
    pub(super) fn has_throttled(&self) -> bool {
        self.ceiling.is_some()
    }

    /// Takes note of a row of so many units that goes now.
    pub(super) fn sent(&mut self, units: f64, now: Duration) {
        let time = Duration::try_from_secs_f64(units / self.rate).unwrap_or_default();
        self.next_at = self.next_at.max(now.saturating_sub(LATE)) + time;
    }

    /// Takes note of a row that was written.
    pub(super) fn written(&mut self, units: f64, now: Duration) {
        self.forget_what_is_old(now);
        self.window.1 += units;
        let time = now.saturating_sub(self.window.0);
        if time >= WINDOW {
            self.taken = self.window.1 / time.as_secs_f64();
            self.window = (now, 0.0);
        }
        self.rate += match self.ceiling {
            None => FIRST_RISE * units,
            Some(ceiling) => RISE_PER_SEC * ceiling * units / self.rate,
        };
        self.ceiling = self.ceiling.filter(|ceiling| self.rate <= BEYOND * ceiling);
    }

    /// Takes note of a row that was throttled.
    pub(super) fn throttled(&mut self, now: Duration) {
        if now < self.deaf_until {
            return;
        }
        self.forget_what_is_old(now);
        let most = ABOVE_TAKEN * self.taken;
        self.ceiling = Some(self.rate.min(most).max(LEAST_RATE));
        self.rate = (FALL * self.rate).min(most).max(LEAST_RATE);
        self.deaf_until = now + ONE_BURST;
    }

    /// Begins a window anew that is too long to tell a rate: nothing was sent for a while.
    fn forget_what_is_old(&mut self, now: Duration) {
        if now.saturating_sub(self.window.0) > LONGEST_WINDOW {
            (self.window, self.taken) = ((now, 0.0), f64::INFINITY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(100);

    /// A partition that takes so many units a second, and saves up those of one second.
    struct Partition {
        limit: f64,
        tokens: f64,
        as_of: Duration,
    }

    impl Partition {
        fn takes(&mut self, now: Duration) -> bool {
            let secs = now.saturating_sub(self.as_of).as_secs_f64();
            self.tokens = (self.tokens + secs * self.limit).min(self.limit);
            self.as_of = now;
            let takes = self.tokens >= 1.0;
            self.tokens -= if takes { 1.0 } else { 0.0 };
            takes
        }
    }

    /// Rows written and throttled in so many seconds.
    fn run(pace: &mut Pace, partition: &mut Partition, from: Duration, secs: u64) -> (f64, f64) {
        let (mut written, mut throttled, mut now) = (0.0, 0.0, from);
        while now < from + Duration::from_secs(secs) {
            pace.sent(1.0, now);
            if partition.takes(now) {
                written += 1.0;
                pace.written(1.0, now);
            } else {
                throttled += 1.0;
                pace.throttled(now);
            }
            now = now.max(pace.next_at);
        }
        (written, throttled)
    }

    #[test]
    fn a_partition_is_used_to_nine_tenths_and_more_whatever_it_takes() {
        for limit in [10.0, 100.0, 1_000.0, 4_000.0] {
            let mut partition = Partition { limit, tokens: limit, as_of: START };
            let mut pace = Pace::new(START);
            let (written, throttled) = run(&mut pace, &mut partition, START, 60);
            assert!(written >= 0.95 * 60.0 * limit, "{written} of {limit} a second");
            assert!(throttled <= 0.25 * written, "{throttled} throttled at {limit} a second");
        }
    }

    #[test]
    fn a_partition_that_takes_more_or_less_than_before_is_followed() {
        let mut partition = Partition { limit: 100.0, tokens: 0.0, as_of: START };
        let mut pace = Pace::new(START);
        run(&mut pace, &mut partition, START, 20);
        partition.limit = 1_000.0;
        let (written, _) = run(&mut pace, &mut partition, START + Duration::from_secs(20), 30);
        assert!(written >= 0.7 * 30.0 * 1_000.0, "{written} in half a minute");
        partition.limit = 50.0;
        run(&mut pace, &mut partition, START + Duration::from_secs(50), 5);
        let (written, throttled) =
            run(&mut pace, &mut partition, START + Duration::from_secs(55), 20);
        assert!(written >= 0.9 * 20.0 * 50.0, "{written}");
        assert!(throttled <= 0.25 * written, "{throttled} throttled");
    }

    #[test]
    fn one_burst_of_throttles_counts_once() {
        let mut pace = Pace::new(START);
        for _ in 0..50 {
            pace.throttled(START);
        }
        assert!((pace.rate - FALL * FIRST_RATE).abs() < 0.001);
    }

    /// What was written after a pause counted as what the partition takes in all that time, so that the next
    /// throttle left one unit a second.
    #[test]
    fn regression_a_lane_crept_after_it_had_stood_idle() {
        let mut partition = Partition { limit: 500.0, tokens: 0.0, as_of: START };
        let mut pace = Pace::new(START);
        run(&mut pace, &mut partition, START, 20);
        let late = START + Duration::from_mins(10);
        let mut idle = pace;
        idle.written(1.0, late);
        idle.throttled(late + Duration::from_millis(10));
        assert!(idle.rate > 0.8 * pace.rate, "{} of {}", idle.rate, pace.rate);
        pace.throttled(late);
        assert!(pace.rate > 300.0, "{}", pace.rate);
    }

    #[test]
    fn a_late_wake_up_makes_up_for_little() {
        let mut pace = Pace::new(START);
        let late = START + Duration::from_mins(1);
        let at_once = std::iter::from_fn(|| (pace.next_at <= late).then(|| pace.sent(1.0, late)));
        assert!(at_once.take(1_000).count() <= 6, "a twentieth of a second's");
    }
}
