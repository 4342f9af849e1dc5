//! The one clock of the command.

use std::time::{Duration, Instant};

/// Measures how long something took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        #[expect(clippy::disallowed_methods, reason = "durations for people are measured here")]
        let now = Instant::now();
        Self(now)
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
