//! Every worked number of the articles.

use dynashard_planning::bulk_load::BulkLoad;
use dynashard_planning::capacity::Throughput;
use dynashard_planning::partitions::Partitions;
use dynashard_planning::shards::by_simple_formula;

const fn units(read_units: f64, write_units: f64) -> Throughput {
    Throughput { read_units, write_units }
}

#[test]
fn a_new_table_has_the_partitions_of_best_practices_for_tables() {
    let of = |provisioned: Throughput| {
        let table = Partitions::of_new_table(provisioned);
        assert_eq!(table.largest_part(provisioned), table.smallest_part(provisioned));
        (table.count(), table.largest_part(provisioned))
    };
    assert_eq!(of(units(1_000.0, 500.0)), (1, units(1_000.0, 500.0)));
    assert_eq!(of(units(1_000.0, 1_000.0)), (2, units(500.0, 500.0)));
    assert_eq!(of(units(5_000.0, 2_000.0)), (4, units(1_250.0, 500.0)));
}

#[test]
fn raising_the_capacity_doubles_the_partitions() {
    let raised = units(8_000.0, 2_000.0);
    let table = Partitions::even(4).provisioned(raised);
    assert_eq!((table.count(), table.largest_part(raised)), (8, units(1_000.0, 250.0)));
    assert_eq!(table.provisioned(units(1.0, 1.0)), table, "partitions are never given back");
}

#[test]
fn a_full_partition_is_split_into_halves() {
    let provisioned = units(5_000.0, 2_000.0);
    let table = Partitions::of_new_table(provisioned).holding(40.1e9);
    assert_eq!(table.count(), 5);
    let (whole, half) = (table.largest_part(provisioned), table.smallest_part(provisioned));
    assert_eq!((whole, half), (units(1_250.0, 500.0), units(625.0, 250.0)));
    // Three as before and two halves still make the whole.
    assert!((whole.write_units * 3.0 + half.write_units * 2.0 - 2_000.0).abs() < 1e-9);

    let eight = Partitions::even(8);
    let counts = [80e9, 80.1e9, 90e9].map(|bytes| eight.holding(bytes).count());
    assert_eq!(counts, [8, 9, 9]);
}

#[test]
fn partitions_that_are_split_again_and_again_halve_each_time() {
    let provisioned = units(0.0, 1_600.0);
    let parts = |bytes: f64| {
        let table = Partitions::even(4).holding(bytes);
        (table.largest_part(provisioned).write_units, table.smallest_part(provisioned).write_units)
    };
    assert_eq!(parts(80e9), (200.0, 200.0), "each was split");
    assert_eq!(parts(90e9), (200.0, 100.0), "one was split twice");
    // Regression: what five partitions could give was left to four, of which one is split, at 1,200 each.
    let raised = Partitions::even(4).holding(50e9).provisioned(units(0.0, 4_800.0));
    assert_eq!((raised.count(), raised.largest_part(units(0.0, 4_800.0)).write_units), (10, 480.0));
    // A raise that doubles gives even parts again.
    let raised = Partitions::even(4).holding(50e9).provisioned(units(0.0, 6_000.0));
    assert_eq!(
        (raised.count(), raised.smallest_part(units(0.0, 6_000.0)).write_units),
        (10, 600.0)
    );
}

#[test]
fn a_bulk_load_leaves_thin_partitions_behind() {
    let load = BulkLoad::of(20_000_000, 1_024, 30 * 60, 200.0, None);
    // The article rounds down, to what takes 18 seconds more than the half hour.
    assert_eq!((load.rounded_write_units_per_second, load.rounded_partitions), (11_000, 11));
    assert_eq!((load.write_units_per_second, load.partitions), (11_112, 12));
    let thin = load.then_of_a_rounded_partition;
    assert!((18.0..=20.0).contains(&thin), "around 20: {thin}");

    let slow = BulkLoad::of(20_000_000, 1_024, 3 * 60 * 60, 200.0, None);
    assert_eq!((slow.rounded_write_units_per_second, slow.rounded_partitions), (1_900, 2));
    assert_eq!((slow.write_units_per_second, slow.partitions), (1_852, 2));
}

#[test]
fn the_simple_formula_gives_five_shards() {
    assert_eq!(by_simple_formula(5_000.0, 1_024), 5);
    assert_eq!(by_simple_formula(5_000.0, 1_025), 10, "sizes are rounded up to whole KB");
}
