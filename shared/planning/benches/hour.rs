//! An hour of 10,000 writes a second under each strategy, in virtual time, on one core:
//! `cargo bench -p dynashard-planning --bench hour`.

use std::error::Error;
use std::time::Instant;

use dynashard_core::Settings;
use dynashard_keys::ShardCount;
use dynashard_planning::simulation::{Run, Scenario, Strategy};

/// What one run may take.
const MOST_SECS: f64 = 10.0;

#[expect(clippy::disallowed_methods, reason = "what is measured is time")]
fn main() -> Result<(), Box<dyn Error>> {
    let scenario = Scenario::steady(10_000.0, 1_024, 3_600);
    println!("| strategy | absorbed | seconds throttled | shards at most | took |");
    println!("|---|---|---|---|---|");
    let strategies = [
        ("none", Strategy::None),
        ("16 shards", Strategy::Fixed(ShardCount::new(16)?)),
        ("one more", Strategy::OneMore),
        ("dynashard", Strategy::Dynashard),
        ("dynashard by alarm", Strategy::DynashardByAlarm),
    ];
    for (name, strategy) in strategies {
        let begun = Instant::now();
        let run = Run::of(&scenario, strategy, &Settings::default(), 1)?;
        let took = begun.elapsed().as_secs_f64();
        println!(
            "| {name} | {:.2} % | {} | {} | {took:.2} s |",
            100.0 * run.absorbed_share(),
            run.throttled_seconds,
            run.most_shards
        );
        if took > MOST_SECS {
            return Err(format!("{name} took {took:.1} s, and may take {MOST_SECS} s").into());
        }
    }
    Ok(())
}
