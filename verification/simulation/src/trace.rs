use std::hash::Hasher;
use std::time::Duration;

use twox_hash::XxHash64;

/// What happened, as a hash: two runs with the same hash did the same things at the same times.
pub(crate) struct Trace {
    hasher: XxHash64,
    print: bool,
}

impl Trace {
    pub(crate) fn new(print: bool) -> Self {
        Self { hasher: XxHash64::with_seed(0), print }
    }

    pub(crate) fn note(&mut self, now: Duration, text: impl FnOnce() -> String) {
        let text = text();
        self.hasher.write_u128(now.as_nanos());
        self.hasher.write(text.as_bytes());
        if self.print {
            println!("{:>14.6} {text}", now.as_secs_f64());
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hasher.finish()
    }
}
