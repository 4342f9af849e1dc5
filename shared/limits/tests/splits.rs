//! Splits for heat, with time as an argument.

use std::num::NonZeroU32;
use std::time::Duration;

use dynashard_limits::Units;
use dynashard_limits::partition::{
    Demand, Kind, Limits, Partitions, Resource, SortKeyType, Throughput,
};

fn write<'a>(partition_key: &'a str, sort_key: Option<&'a str>) -> Demand<'a> {
    let (resource, units) = (Resource::table("Flights"), Units::whole(1));
    Demand { resource, partition_key, sort_key, kind: Kind::Write, units }
}

/// A table whose partitions take 10 WCU, and are split after so many seconds; never after 0.
fn partitions(split_after_secs: u32, sort_keys: Option<SortKeyType>) -> Partitions {
    let partition_wcu = NonZeroU32::new(10).expect("positive");
    let split_after_secs = NonZeroU32::new(split_after_secs);
    let mut partitions =
        Partitions::new(Limits { partition_wcu, split_after_secs, ..Limits::default() });
    partitions.set_table(Duration::ZERO, "Flights", Throughput::OnDemand, []);
    partitions.split_by("Flights", sort_keys);
    partitions
}

/// How many writes to one item collection are admitted in each second from the first on, if it gets those with the sort keys
/// that `of` tells, all at its begin.
fn taken<K: AsRef<str>>(
    partitions: &mut Partitions,
    seconds: u64,
    of: impl Fn(u64) -> Vec<K>,
) -> Vec<usize> {
    let in_second = |second| {
        let (now, keys) = (Duration::from_secs(second), of(second));
        let writes = keys.iter().map(|key| write("hot", Some(key.as_ref())));
        writes.filter(|write| partitions.admit(now, &[*write]).is_ok()).count()
    };
    (0..seconds).map(in_second).collect()
}

/// A hundred sort keys, the same in each second.
fn even(_: u64) -> Vec<String> {
    (0..100).map(|n| format!("{n:02}")).collect()
}

#[test]
fn a_hot_partition_is_halved_after_so_many_seconds_and_each_half_again() {
    let mut partitions = partitions(3, Some(SortKeyType::String));
    // A new part begins with nothing saved up.
    assert_eq!(taken(&mut partitions, 8, even), [10, 10, 10, 10, 20, 20, 20, 40]);
    let now = Duration::from_secs(9);
    let mut read = |sort_key| {
        let read = Demand { kind: Kind::Read, ..write("hot", sort_key) };
        (0..9_999).take_while(|_| partitions.admit(now, &[read]).is_ok()).count()
    };
    assert_eq!((read(Some("00")), read(Some("99"))), (3_000, 3_000));
    assert_eq!(read(None), 0, "a query meets the part in which the collection begins");
}

#[test]
fn nothing_is_split_without_the_option_or_within_a_collection_that_has_a_local_index() {
    assert_eq!(taken(&mut partitions(0, Some(SortKeyType::String)), 20, even), [10; 20]);
    assert_eq!(taken(&mut partitions(3, None), 20, even), [10; 20]);
}

#[test]
fn one_hot_item_is_never_split_but_is_isolated_from_the_rest() {
    let item = |_| vec!["b"; 100];
    assert_eq!(taken(&mut partitions(3, Some(SortKeyType::String)), 20, item), [10; 20]);
    let among_others = |_| [["b"; 80].as_slice(), &["a"; 10], &["c"; 10]].concat();
    let taken = taken(&mut partitions(3, Some(SortKeyType::String)), 20, among_others);
    assert_eq!((taken[0], taken[19]), (10, 30), "neither neighbour shares its partition");
}

#[test]
fn sort_keys_that_only_rise_or_fall_get_no_more_for_a_split() {
    let rising = |second: u64| (50..150).map(|n| (100 * second + n).to_string()).collect();
    let falling = |second: u64| (0..100).map(|n| (4_000 - 100 * second - n).to_string()).collect();
    let most = |sort_keys, of: &dyn Fn(u64) -> Vec<String>| {
        taken(&mut partitions(3, sort_keys), 40, of).into_iter().max()
    };
    assert_eq!(most(Some(SortKeyType::Number), &rising), Some(10));
    assert_eq!(most(Some(SortKeyType::Number), &falling), Some(10));
    assert!(most(Some(SortKeyType::String), &rising) > Some(10), "as a text 1000 comes before 950");
}

#[test]
fn a_second_without_a_refusal_begins_the_wait_anew() {
    let often = |second| if second % 3 == 2 { vec![String::new(); 5] } else { even(second) };
    let taken = taken(&mut partitions(3, Some(SortKeyType::String)), 20, often);
    assert_eq!(taken.iter().max(), Some(&10));
}

#[test]
fn an_index_is_split_between_its_partition_keys() {
    let limits =
        Limits { partitions: NonZeroU32::MIN, partition_wcu: NonZeroU32::MIN, ..Limits::default() };
    let mut partitions = Partitions::new(Limits { split_after_secs: NonZeroU32::new(3), ..limits });
    let on_demand = Throughput::OnDemand;
    partitions.set_table(Duration::ZERO, "Flights", on_demand, [("ByDay", on_demand)]);
    let taken = (0..5).map(|second| {
        let writes = even(second).into_iter().filter(|day| {
            let write =
                Demand { resource: Resource::index("Flights", "ByDay"), ..write(day, None) };
            partitions.admit(Duration::from_secs(second), &[write]).is_ok()
        });
        writes.count()
    });
    assert_eq!(taken.collect::<Vec<_>>(), [1, 1, 1, 1, 2]);
}

#[test]
fn the_parts_of_a_partition_are_bounded() {
    let many = |_| (0..5_000).map(|n| format!("{:04}", n * 7 % 5_000)).collect::<Vec<_>>();
    let taken = taken(&mut partitions(1, Some(SortKeyType::String)), 40, many);
    assert_eq!(taken.last(), Some(&(10 * Partitions::MOST_PARTS)), "{taken:?}");
}
