//! What has happened in a run.

use std::time::Duration;

use xxhash_rust::xxh64::Xxh64;

/// What happened, as a hash: two runs with the same hash did the same things at the same times.
pub(crate) struct Trace {
    hasher: Xxh64,
    print: bool,
}

impl Trace {
    pub(crate) fn new(print: bool) -> Self {
        Self { hasher: Xxh64::new(0), print }
    }

    pub(crate) fn note(&mut self, now: Duration, text: impl FnOnce() -> String) {
        let text = text();
        self.hasher.update(&now.as_nanos().to_ne_bytes());
        self.hasher.update(text.as_bytes());
        if self.print {
            println!("{:>14.6} {text}", now.as_secs_f64());
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hasher.digest()
    }
}
