use dynashard_testkit::{Random, fuzz};

use super::*;

const START_SECS: u64 = 1_800_000_000;

/// What environments have written down of operations by their hashes, each with the second in which it was answered and
/// whether it was refused; an environment counts one that it has not refused itself for new.
#[derive(Default)]
struct Seen {
    ledger: Ledger,
}

impl Seen {
    fn note(&mut self, second: u64, hash: u64, is_refused: bool, is_new_there: bool, level: u8) {
        let bucket = Bucket { span: Span::Second, start_secs: START_SECS + second };
        if is_new_there {
            let measures = self.ledger.buckets.entry(bucket).or_default();
            measures.writes += 1.0;
            measures.write_units += 2.0;
        }
        if let Some(operation) = sampled(hash, level, is_refused) {
            self.ledger.sampled.entry((bucket, level)).or_default().insert(operation);
        }
    }

    fn granted(&mut self, second: u64, units: f64) {
        let bucket = Bucket { span: Span::Second, start_secs: START_SECS + second };
        self.ledger.buckets.entry(bucket).or_default().written_units += units;
    }

    /// The units a second, of all seconds but the first.
    fn asked(&self, seconds: u64) -> f64 {
        let now = Duration::from_secs(START_SECS + seconds);
        let (_, seen) = self.ledger.seconds(now);
        let whole = &seen[1..];
        let units = whole.iter().map(|(_, measures)| measures.write_units).sum::<f64>();
        units / f64::from(u32::try_from(whole.len()).expect("a few"))
    }
}

fn hash(random: &Random) -> u64 {
    (random.below(1 << 32) as u64) << 32 | random.below(1 << 32) as u64
}

/// So many new operations a second, of which one of `overload` is granted at once, and so many tries of each other one in
/// this second and in each of the next ones, each in an environment that has not refused it.
fn repeating(per_sec: usize, overload: usize, tries: usize, level: u8, random: &Random) -> Seen {
    let mut seen = Seen::default();
    let mut waiting = Vec::new();
    for second in 0..6 {
        for operation in &waiting {
            (0..tries).for_each(|_| seen.note(second, *operation, true, true, level));
        }
        for n in 0..per_sec {
            let operation = hash(random);
            let is_refused = n % overload > 0;
            seen.note(second, operation, is_refused, true, level);
            if is_refused {
                waiting.push(operation);
            }
        }
        seen.granted(second, 2.0 * f64::from(u32::try_from(per_sec / overload).expect("small")));
    }
    seen
}

#[test]
fn what_comes_again_to_other_environments_does_not_count() {
    fuzz(20, |random| {
        for (per_sec, overload, level) in [(320, 8, 3), (160, 4, 2), (8_000, 8, 8)] {
            for tries in [1, 2, 10] {
                let seen = repeating(per_sec, overload, tries, level, random);
                let asked = seen.asked(6) / 2.0;
                let offered = f64::from(u32::try_from(per_sec).expect("small"));
                let off = (asked - offered).abs() / offered;
                assert!(off < 0.4, "{tries} tries of {offered} by {level}: {asked:.0}");
            }
        }
    });
}

#[test]
fn what_comes_once_is_counted_as_it_is_reported() {
    fuzz(50, |random| {
        let seen = repeating(300, 8, 0, 3, random);
        let off = (seen.asked(6) / 600.0 - 1.0).abs();
        assert!(off < 0.15, "{off}");
    });
}

/// Devices that put their state each second write the same keys again, granted or not.
#[test]
fn items_that_are_written_again_and_again_are_no_repetitions() {
    fuzz(20, |random| {
        let mut seen = Seen::default();
        let devices = (0..2_000).map(|_| hash(random)).collect::<Vec<_>>();
        for second in 0..6 {
            for device in &devices {
                let is_refused = random.below(4) > 0;
                seen.note(second, *device, is_refused, true, 5);
            }
        }
        let off = (seen.asked(6) / 4_000.0 - 1.0).abs();
        assert!(off < 0.01, "{off}");
    });
}

#[test]
fn a_sample_too_small_to_tell_tells_nothing() {
    let mut seen = Seen::default();
    for second in 0..4 {
        for n in 0..100 {
            seen.note(second, n << 60, true, true, 4);
        }
    }
    assert!((seen.asked(4) - 200.0).abs() < 1e-6);
}

#[test]
fn samples_of_two_sizes_are_compared_by_the_smaller_one() {
    fuzz(20, |random| {
        let mut seen = Seen::default();
        for second in 0..4 {
            for n in 0..2_000 {
                let operation = hash(random);
                let level = 4 + u8::try_from(n % 2).expect("one");
                // Every other environment keeps a sample of half the size; each operation is tried twice, in both.
                seen.note(second, operation, true, true, level);
                seen.note(second, operation, true, true, 9 - level);
            }
        }
        let off = (seen.asked(4) / 4_000.0 - 1.0).abs();
        assert!(off < 0.4, "{off}");
    });
}

#[test]
fn clients_that_wait_are_counted() {
    fuzz(20, |random| {
        let seen = repeating(320, 8, 1, 3, random);
        let now = Duration::from_secs(START_SECS + 6);
        let waiting = Newcomers::of(&seen.ledger, now).waiting;
        let off = (waiting / (6.0 * 280.0) - 1.0).abs();
        assert!(off < 0.3, "{waiting}");
    });
}

#[test]
fn a_sample_grows_no_larger_than_it_is_meant_to() {
    for capacity in [40.0, 100.0, 1_000.0, 16_000.0] {
        let level = level_of(capacity);
        let per_sec = 8.0 * capacity / 2_f64.powi(i32::from(level));
        assert!(
            (SAMPLED_PER_SEC..2.0 * SAMPLED_PER_SEC).contains(&per_sec) || level == 0,
            "{per_sec}"
        );
    }
    let mut above = 0;
    for _ in 0..3 {
        above = next_level(above, 1_000.0 / 2_f64.powi(above.into()));
        assert_eq!(above, 5);
    }
    assert_eq!(next_level(above, 1.0), 4);
}
