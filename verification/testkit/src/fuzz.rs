//! Cases drawn at random, each with a seed that repeats it.

use std::{env, thread};

use dynashard_core::ports::Entropy;

use crate::SeededEntropy;

/// Calls `test` with the random numbers of so many cases, and returns how many there were.
///
/// `DYNASHARD_FUZZ_CASES` sets another number of cases, and `DYNASHARD_FUZZ_SEED` the seed of the
/// first one. Each case has a seed of its own, which is printed if the case fails.
///
/// # Panics
///
/// If a variable is not a number, and where `test` panics.
pub fn fuzz(cases: u64, mut test: impl FnMut(&Random)) -> u64 {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let cases = number("DYNASHARD_FUZZ_CASES").unwrap_or(cases);
    let first = number("DYNASHARD_FUZZ_SEED").unwrap_or(1);
    for seed in first..first + cases {
        let _printed = PrintedOnFailure { seed };
        test(&Random(SeededEntropy::new(seed)));
    }
    cases
}

/// The random numbers of one case.
#[derive(Debug)]
pub struct Random(SeededEntropy);

impl Random {
    /// A number below a bound, and 0 if the bound is 0.
    pub fn below(&self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.0.next_u64() % bound).unwrap_or_default()
    }

    /// Any byte.
    pub fn byte(&self) -> u8 {
        self.0.next_u64().to_le_bytes()[0]
    }

    /// One of some values.
    pub fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Changes some bytes one to four times: the end or a few bytes are lost, a few are repeated,
    /// or `noise` is inserted or takes the place of a few.
    pub fn damage(&self, bytes: &mut Vec<u8>, noise: impl Fn(&Self) -> Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let to = (at + self.below(9)).min(bytes.len());
            match self.below(5) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..to)),
                2 => {
                    let again = bytes[at..to].to_vec();
                    bytes.splice(at..at, again);
                }
                3 => drop(bytes.splice(at..at, noise(self))),
                _ => drop(bytes.splice(at..to, noise(self))),
            }
        }
    }
}

/// Says on a panic how to repeat the case.
struct PrintedOnFailure {
    seed: u64,
}

impl Drop for PrintedOnFailure {
    fn drop(&mut self) {
        if thread::panicking() {
            let Self { seed } = self;
            eprintln!("to repeat the case: DYNASHARD_FUZZ_SEED={seed} DYNASHARD_FUZZ_CASES=1");
        }
    }
}
