//! The plan and the functions size alike.

use std::time::Duration;

use dynashard_core::{
    Access, Bucket, Cause, CollectionMetadata, Evidence, Ledger, Measures, Settings, Span,
    Throttle, Waits, decide,
};
use dynashard_keys::{PartitionKey, Placement, ShardCount};
use dynashard_planning::capacity::Throughput;
use dynashard_planning::shards::{rounded, with_head_room};

#[test]
fn a_plan_wants_the_count_that_the_functions_decide_on() {
    let now = Duration::from_millis(1_800_000_010_500);
    let throttle = Throttle::from_reason("TableWriteKeyRangeThroughputExceeded", None);
    for placement in [Placement::Xxh64, Placement::Jump] {
        let key = PartitionKey::new("EWR").expect("a key");
        let metadata = CollectionMetadata::cold(key, placement);
        for demand in [1_400.0, 2_100.0, 2_101.0, 5_000.0, 9_900.0, 44_800.0, 44_801.0] {
            let mut heat = Ledger::default();
            for second in 1..=9 {
                let bucket = Bucket { span: Span::Second, start_secs: 1_800_000_000 + second };
                let measures = Measures { write_units: demand, ..Measures::default() };
                heat.buckets.insert(bucket, measures);
            }
            let cause =
                Cause::Throttled { access: Access::Write, throttle: &throttle, shards: &[] };
            let load = Ledger::default();
            let evidence = Evidence { metadata: &metadata, heat: &heat, load: &load, cause, now };
            let settings = Settings::default();
            let decision = decide(evidence, &settings, Waits::of(&settings));
            let of_key = Throughput { read_units: 0.0, write_units: demand };
            let planned = rounded(with_head_room(of_key), placement).map(ShardCount::get);
            let decided = u32::try_from(decision.figures.wanted).ok();
            assert_eq!(planned, decided, "{demand} units under {placement}: {decision}");
        }
    }
}
