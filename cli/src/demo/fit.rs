//! How large the partitions of the demo are, so that the machine carries its load. What is decided from that is pure.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};

use super::DemoError;
use super::flights::Airport;
use super::load::send;
use super::target::Target;
use crate::clock::Stopwatch;
use crate::numbers::float;

/// The part of what the machine carries that is offered at most: functions, clients, console and mover share it.
const PART: f64 = 0.5;

/// The most that a partition takes, however much the machine carries: what is written is read back twice.
const MOST_WCU: u32 = 100;

/// Smaller partitions throttle by chance.
const LEAST_WCU: u32 = 5;

/// The machine is looked at after this, when environments are running, and for so long.
const WARM_UP: Duration = Duration::from_millis(700);
const LOOKED_AT: Duration = Duration::from_secs(1);

/// The batches that are under way meanwhile, and the flights of each.
const AT_ONCE: usize = 8;
const BATCH: usize = 40;

/// What a partition is to take, in write units a second, where the machine carries so many writes a second and they are
/// divided as the demo does: the busiest of `airports` gets `load` times what a partition takes, each further one half of that
/// of the one before.
pub(super) fn partition_wcu(carried: f64, load: u32, airports: usize) -> Result<u32, DemoError> {
    let airports = i32::try_from(airports).unwrap_or(i32::MAX);
    let times = f64::from(load) * (2.0 - 2.0 * 0.5_f64.powi(airports));
    let fits = PART * carried / times;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let fits = fits.clamp(0.0, f64::from(MOST_WCU)) as u32;
    if fits < LEAST_WCU {
        return Err(DemoError::TooSlow { carried, load });
    }
    // A round number is easier to follow.
    Ok(if fits >= 20 { fits / 5 * 5 } else { fits })
}

/// How many writes a second this machine carries, through a target whose stack throttles nothing.
pub(super) async fn carried(target: &Target, airports: &[Airport]) -> Result<f64, DemoError> {
    let watch = Stopwatch::start();
    let mut under_way = FuturesUnordered::new();
    let (mut next, mut written) = (0, 0);
    loop {
        while under_way.len() < AT_ONCE {
            let flights = (next * BATCH..(next + 1) * BATCH).collect();
            let key = next % airports.len();
            under_way.push(send(target, &airports[key], key, flights));
            next += 1;
        }
        let Some(answer) = under_way.next().await else { continue };
        let answer = answer?;
        let at = watch.elapsed();
        if at > WARM_UP + LOOKED_AT {
            break;
        }
        if at > WARM_UP {
            written += answer.flights - answer.refused.len();
        }
    }
    Ok(float(written) / LOOKED_AT.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_at_most_half_of_what_the_machine_carries() {
        for carried in [200.0, 777.0, 1_500.0, 2_799.0, 1e9] {
            let wcu = partition_wcu(carried, 8, 3).expect("it carries the demo");
            // Eight, four and two times.
            assert!(f64::from(wcu) * 14.0 <= carried / 2.0, "{wcu} of {carried}");
            assert!(wcu <= MOST_WCU);
        }
        let round = [(1_499.0, 50), (1_500.0, 50), (2_800.0, 100), (1e9, 100), (200.0, 7)];
        for (carried, wcu) in round {
            assert_eq!(partition_wcu(carried, 8, 3).ok(), Some(wcu), "{carried}");
        }
    }

    #[test]
    fn a_machine_too_slow_for_any_demo_is_told_so() {
        let error = partition_wcu(100.0, 8, 3).expect_err("too slow").to_string();
        assert!(
            error.contains("100 writes a second") && error.contains("--partition-wcu"),
            "{error}"
        );
        assert!(partition_wcu(1_000.0, 1_000, 3).is_err());
        assert!(partition_wcu(0.0, 1, 3).is_err());
    }
}
