//! Every worked number of the articles.

use dynashard_planning::bulk_load::BulkLoad;
use dynashard_planning::capacity::Throughput;
use dynashard_planning::partitions::{
    after_raising, bytes_of, even_part, for_storage, half_after_split, initial,
};
use dynashard_planning::shards::by_simple_formula;

const fn units(read_units: f64, write_units: f64) -> Throughput {
    Throughput { read_units, write_units }
}

#[test]
fn a_new_table_has_the_partitions_of_best_practices_for_tables() {
    assert_eq!(initial(units(1_000.0, 500.0)), 1);
    assert_eq!(initial(units(1_000.0, 1_000.0)), 2);
    assert_eq!(initial(units(5_000.0, 2_000.0)), 4);
    assert_eq!(even_part(units(1_000.0, 1_000.0), 2), units(500.0, 500.0));
    assert_eq!(even_part(units(5_000.0, 2_000.0), 4), units(1_250.0, 500.0));
}

#[test]
fn raising_the_capacity_doubles_the_partitions() {
    let raised = units(8_000.0, 2_000.0);
    assert_eq!(after_raising(4, raised), 8);
    assert_eq!(even_part(raised, 8), units(1_000.0, 250.0));
    assert_eq!(after_raising(8, units(1.0, 1.0)), 8, "partitions are never given back");
}

#[test]
fn a_full_partition_is_split_into_halves() {
    let of_one = even_part(units(5_000.0, 2_000.0), 4);
    assert_eq!(half_after_split(of_one), units(625.0, 250.0));
    // Three as before and two halves still make the whole.
    let all = of_one.write_units * 3.0 + half_after_split(of_one).write_units * 2.0;
    assert!((all - 2_000.0).abs() < 1e-9);
    assert!((bytes_of(8) - 80e9).abs() < 1.0 && (bytes_of(9) - 90e9).abs() < 1.0);
    assert_eq!([80e9, 80.1e9, 90e9].map(for_storage), [8, 9, 9]);
}

#[test]
fn a_bulk_load_leaves_thin_partitions_behind() {
    let load = BulkLoad::of(20_000_000, 1_024, 30 * 60, 200.0);
    // The article rounds down, to what takes 18 seconds more than the half hour.
    assert_eq!((load.rounded_write_units_per_second, load.rounded_partitions), (11_000, 11));
    assert_eq!((load.write_units_per_second, load.partitions), (11_112, 12));
    let thin = load.then_of_a_rounded_partition;
    assert!((18.0..=20.0).contains(&thin), "around 20: {thin}");

    let slow = BulkLoad::of(20_000_000, 1_024, 3 * 60 * 60, 200.0);
    assert_eq!((slow.rounded_write_units_per_second, slow.rounded_partitions), (1_900, 2));
    assert_eq!((slow.write_units_per_second, slow.partitions), (1_852, 2));
}

#[test]
fn the_simple_formula_gives_five_shards() {
    assert_eq!(by_simple_formula(5_000.0, 1_024), 5);
    assert_eq!(by_simple_formula(5_000.0, 1_025), 10, "sizes are rounded up to whole KB");
}
