//! The planned count of shards, tried on drawn loads.

use dynashard_core::Settings;
use dynashard_keys::{Placement, ShardCount};
use dynashard_planning::capacity::write_units_of_item;
use dynashard_planning::cost::{PriceList, Prices};
use dynashard_planning::simulation::{Capacity, Run, Scenario, Strategy};
use dynashard_planning::{Plan, Workload};
use serde_json::json;

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

/// A load whose hottest key takes 100 to 10,000 units a second at its peak, by the same factor from one to the next, of
/// items of up to 3 KB. Every fourth only adds items and reads none, so it is planned for as `random`.
fn workload(load: u32) -> Workload {
    let units = 100.0 * 100_f64.powf(drawn(load, 0.754_877_666));
    let item_bytes = if drawn(load, 0.569_840_291) < 0.6 { 900 } else { 2_500 };
    let peak_ratio = 1.0 + 5.0 * drawn(load, 0.671_043_607);
    let hot_key_share = 0.05 + 0.95 * drawn(load, 0.549_700_478);
    let of_key = units / f64::from(write_units_of_item(item_bytes)) / peak_ratio;
    let append_only = load.is_multiple_of(4);
    Workload {
        reads_per_second: if append_only { 0.0 } else { 10.0 },
        peak_ratio,
        hot_key_share,
        append_only,
        growth_per_month: 0.1 * drawn(load, 0.819_172_513),
        ..serde_json::from_value(
            json!({ "writes_per_second": of_key / hot_key_share, "item_bytes": item_bytes }),
        )
        .expect("a load")
    }
}

#[test]
fn planned_shards_take_the_load_and_are_at_most_twice_what_it_needs() {
    let prices = include_str!("../../../data/prices-us-east-1.json");
    let prices = serde_json::from_str::<PriceList>(prices).expect("prices");
    let prices = Prices::of(&prices).expect("all prices");
    let mut sharded = 0;
    for load in 0..LOADS {
        let workload = workload(load);
        let plan = Plan::of(&workload, &prices).expect("a good workload");
        let placement = plan.advice.placement.parse::<Placement>().expect("its name");
        for stage in [plan.now, plan.later] {
            let writes = workload.writes_per_second
                * workload.growth_after(stage.month)
                * workload.peak_ratio
                * workload.hot_key_share;
            let mut scenario = Scenario::steady(writes, workload.item_bytes, 20);
            // The table is not what is tried.
            let enough = 100_000.try_into().expect("positive");
            scenario.capacity =
                Capacity::Provisioned { write_units: enough, most_write_units: enough };
            let planned = ShardCount::new(stage.shards).expect("few");
            let share = absorbed(&scenario, planned, load);
            assert!(share >= ABSORBED, "{planned} shards absorb {share} of {writes} writes");
            // The largest count of this placement below half of the plan.
            let fewer = ShardCount::in_range((planned.get() - 1) / 2);
            if let Some(fewer) = fewer.map(|it| placement.round_down(it)) {
                let share = absorbed(&scenario, fewer, load);
                assert!(
                    share < ABSORBED,
                    "{fewer} in place of {planned} absorb {share} of {writes} writes"
                );
            }
            sharded += u32::from(planned > ShardCount::ONE);
        }
    }
    assert!(sharded > 2 * LOADS / 3, "only {sharded} plans have shards");
}

#[test]
fn the_day_of_the_documentation_can_be_simulated() {
    let day = include_str!("../../../data/scaling-day.json");
    let day = serde_json::from_str::<Scenario>(day).expect("a scenario");
    assert_eq!(day.check(), Ok(()));
    assert_eq!(day.steps.iter().map(|step| step.seconds).sum::<u32>(), 86_400);
}
