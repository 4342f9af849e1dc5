//! The planned count of shards, tried on drawn loads.

use dynashard_core::Settings;
use dynashard_keys::{Placement, ShardCount};
use dynashard_planning::capacity::{Throughput, write_units_of_item};
use dynashard_planning::shards;
use dynashard_planning::simulation::{Capacity, Run, Scenario, Strategy};

const LOADS: u32 = 200;
const ABSORBED: f64 = 0.95;

/// 0 to 1, evenly, from the low-discrepancy sequence of this step: the loads cover their range.
fn drawn(load: u32, step: f64) -> f64 {
    (f64::from(load) * step).fract()
}

fn absorbed(scenario: &Scenario, shards: ShardCount, seed: u32) -> f64 {
    let run = Run::of(scenario, Strategy::Fixed(shards), &Settings::default(), u64::from(seed));
    run.expect("a good scenario").absorbed_share()
}

#[test]
fn planned_shards_take_the_load_and_are_at_most_twice_what_it_needs() {
    let mut sharded = 0;
    for load in 0..LOADS {
        // 100 to 20,000 units a second, by the same factor from one to the next, of items of up to 3 KB.
        let units = 100.0 * 200_f64.powf(drawn(load, 0.754_877_666));
        let item_bytes = if drawn(load, 0.569_840_291) < 0.6 { 900 } else { 2_500 };
        let writes = units / f64::from(write_units_of_item(item_bytes));
        let mut scenario = Scenario::steady(writes, item_bytes, 20);
        // The table is not what is tried.
        let enough = 100_000.try_into().expect("positive");
        scenario.capacity = Capacity::Provisioned { write_units: enough, most_write_units: enough };

        let of_key = Throughput { read_units: 0.0, write_units: units };
        let needed = shards::with_head_room(of_key);
        for placement in [Placement::Xxh64, Placement::Jump] {
            let planned = shards::rounded(needed, placement).expect("few");
            let share = absorbed(&scenario, planned, load);
            assert!(share >= ABSORBED, "{planned} shards absorb {share} of {units} units");
            // The largest count of this placement below half of the plan.
            let fewer =
                ShardCount::in_range((planned.get() - 1) / 2).map(|it| placement.round_down(it));
            if let Some(fewer) = fewer {
                let share = absorbed(&scenario, fewer, load);
                assert!(
                    share < ABSORBED,
                    "{fewer} in place of {planned} absorb {share} of {units} units"
                );
            }
        }
        let planned = shards::rounded(needed, Placement::Xxh64).expect("few");
        sharded += u32::from(planned > ShardCount::ONE);
    }
    assert!(sharded > LOADS / 3, "only {sharded} loads need shards");
}

#[test]
fn the_day_of_the_documentation_can_be_simulated() {
    let day = include_str!("../../../data/scaling-day.json");
    let day = serde_json::from_str::<Scenario>(day).expect("a scenario");
    assert_eq!(day.check(), Ok(()));
    assert_eq!(day.steps.iter().map(|step| step.seconds).sum::<u32>(), 86_400);
}
