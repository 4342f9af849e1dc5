//! What holds for every key: round trips, injectivity, balance, monotone growth.

use std::collections::HashMap;

use dynashard_keys::{
    HomeKeys, ItemKey, KeyError, PartitionKey, PhysicalPartitionKey, Placement, Separator,
    ShardCount, ShardId, SortKey, SortKeyType,
};
use proptest::collection::vec;
use proptest::prelude::*;
use statrs::distribution::{ChiSquared, ContinuousCDF};

fn item(pk: &str, sk: &str) -> ItemKey {
    ItemKey::new(PartitionKey::new(pk).expect("pk"), SortKey::string(sk).expect("sk"))
}

fn separator() -> impl Strategy<Value = Separator> {
    proptest::sample::select(&Separator::ALL[..])
}

fn placement() -> impl Strategy<Value = Placement> {
    proptest::sample::select(&[Placement::Xxh64, Placement::Jump, Placement::Random][..])
}

/// A shard that a collection under this placement can have.
fn shard(placement: Placement, n: u32) -> ShardId {
    ShardId::new(placement.first().get() + n)
}

/// Partition keys that try to look like physical ones.
fn hostile_partition_key() -> impl Strategy<Value = String> {
    prop_oneof!["[#~_.:0-9a-]{1,12}", "a?([#~_.:-]{1,2}[0-9]{1,2}){1,3}", "\\PC{1,40}"]
        .prop_filter("reserved", |key| !key.starts_with("_ds_"))
}

proptest! {
    #[test]
    fn a_physical_key_reads_back(
        pk in hostile_partition_key(), n in prop_oneof![0..3_u32, 0..70_000_u32],
        placement in placement(), separator in separator(),
    ) {
        let partition = PartitionKey::new(&pk).expect("pk");
        let shard = shard(placement, n);
        let physical = partition.at(shard, placement, separator);
        let (read, at) = PhysicalPartitionKey::parse(physical.as_str(), separator).expect("it was written");
        prop_assert_eq!((read, at.unwrap_or(placement.first())), (partition, shard));
    }

    /// A collection of one shard may still get any placement, and its items stay where they are.
    #[test]
    fn the_first_shard_lies_in_one_place_under_every_placement(
        pk in hostile_partition_key(), one in placement(), other in placement(), separator in separator(),
    ) {
        let partition = PartitionKey::new(&pk).expect("pk");
        let first = |placement: Placement| partition.at(placement.first(), placement, separator);
        prop_assert_eq!(first(one), first(other));
    }

    #[test]
    fn what_has_a_suffix_as_a_key_is_not_its_own_first_shard(
        pk in hostile_partition_key(), placement in placement(), separator in separator(),
    ) {
        let partition = PartitionKey::new(&pk).expect("pk");
        let first = partition.at(placement.first(), placement, separator);
        prop_assert_eq!(PhysicalPartitionKey::has_suffix(&pk, separator), first.as_str() != pk);
    }

    #[test]
    fn the_first_shard_is_the_key_itself_unless_it_looks_like_another(
        pk in hostile_partition_key(), placement in placement(), separator in separator(),
    ) {
        let first = PartitionKey::new(&pk).expect("pk").at(placement.first(), placement, separator);
        let digits = pk.len() - pk.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let looks_like_another = digits > 0 && pk[..pk.len() - digits].ends_with(separator.as_str());
        prop_assert_eq!(first.as_str() == pk, !looks_like_another);
    }

    #[test]
    fn two_shards_never_share_a_physical_key(
        a in hostile_partition_key(), i in 0..12_u32, placement_of_a in placement(),
        b in hostile_partition_key(), j in 0..12_u32, placement_of_b in placement(),
        separator in separator(),
    ) {
        let of = |pk: &str, n, placement| {
            PartitionKey::new(pk).expect("pk").at(shard(placement, n), placement, separator)
        };
        if a != b {
            prop_assert_ne!(of(&a, i, placement_of_a), of(&b, j, placement_of_b));
        }
        prop_assert_eq!(of(&a, i, placement_of_a) == of(&a, j, placement_of_a), i == j);
    }

    #[test]
    fn what_parses_is_what_is_written(text in "[a#~_0-9+ -]{0,12}", separator in separator()) {
        if let Ok((partition, shard)) = PhysicalPartitionKey::parse(&text, separator) {
            let written = [Placement::Xxh64, Placement::Random].map(|placement| {
                partition.at(shard.unwrap_or(placement.first()), placement, separator)
            });
            prop_assert!(written.iter().any(|written| written.as_str() == text), "{written:?}");
        }
    }

    #[test]
    fn growth_moves_items_only_into_new_shards(pk in "[a-z]{1,8}", sk in "\\PC{1,20}", n in 1..200_u32, more in 1..200_u32) {
        let key = item(&pk, &sk);
        for placement in [Placement::Xxh64, Placement::Jump] {
            let from = placement.round(ShardCount::new(n).expect("count"));
            let to = placement.round(ShardCount::new(n + more).expect("count"));
            let (old, new) = (placement.home(&key, from).expect("home"), placement.home(&key, to).expect("home"));
            prop_assert!(old == new || new.get() >= from.get(), "{placement}: {old} -> {new} from {from} to {to}");
        }
    }

    #[test]
    fn the_keys_of_a_collections_items_are_those_of_their_homes(
        pk in hostile_partition_key(), sks in vec("\\PC{1,40}|[0-9]{1,20}", 1..9), n in 1..300_u32, separator in separator(), is_number in proptest::bool::ANY,
    ) {
        let partition = PartitionKey::new(&pk).expect("pk");
        for placement in [Placement::Xxh64, Placement::Jump, Placement::Random] {
            let count = placement.round(ShardCount::new(n).expect("count"));
            let mut keys = HomeKeys::of(&partition, placement, count, separator);
            for sk in &sks {
                let number = SortKey::parse(sk, SortKeyType::Number).ok().filter(|_| is_number);
                let sort = number.unwrap_or_else(|| SortKey::string(sk).expect("sk"));
                let key = ItemKey::new(partition.clone(), sort);
                let found = keys.as_mut().map(|keys| keys.home(&key.sort));
                let home = placement.home(&key, count);
                let expected = home.map(|shard| (shard, key.at(shard, placement, separator).partition));
                prop_assert_eq!(found, expected.as_ref().map(|(shard, key)| (*shard, key.as_str())));
            }
        }
    }

    #[test]
    fn every_item_lives_in_a_shard_of_its_collection(sk in "\\PC{1,20}", n in 1..300_u32, draw in proptest::num::u64::ANY) {
        for placement in [Placement::Xxh64, Placement::Jump, Placement::Random] {
            let count = placement.round(ShardCount::new(n).expect("count"));
            let shard = placement.place(&item("pk", &sk), count, draw);
            prop_assert!(placement.shards(count).any(|s| s == shard), "{placement} {shard} of {count}");
            prop_assert_eq!(placement.shards(count).len(), count.get() as usize);
        }
    }

    #[test]
    fn counts_are_rounded_to_the_nearest_that_a_placement_can_have(n in 1..=ShardCount::MAX) {
        let count = ShardCount::new(n).expect("count");
        for placement in [Placement::Xxh64, Placement::Jump, Placement::Random] {
            let (down, up) = (placement.round_down(count), placement.round(count));
            prop_assert!(placement.check(down).is_ok() && placement.check(up).is_ok());
            prop_assert!(down <= count && count <= up);
            let possible = placement.check(count).is_ok();
            prop_assert!((down == count) == possible && (up == count) == possible);
            prop_assert!(up == down || up.get() == 2 * down.get(), "nothing between {down} and {up}");
        }
    }
}

#[test]
fn random_placement_draws_every_shard_from_one_to_n() {
    let key = item("pk", "sk");
    let count = ShardCount::new(3).expect("count");
    let third = u64::MAX / 3;
    let drawn =
        [0, third + 2, u64::MAX].map(|draw| Placement::Random.place(&key, count, draw).get());
    assert_eq!(drawn, [1, 2, 3]);
    assert_eq!(Placement::Random.home(&key, count), None);
}

#[test]
fn calculated_placements_are_balanced() {
    for (placement, n) in [(Placement::Xxh64, 16), (Placement::Jump, 13)] {
        let count = ShardCount::new(n).expect("count");
        let mut items_per_shard = HashMap::<_, u32>::new();
        for i in 0..n * 1_000 {
            let key = item("EWR", &format!("2013-01-01T10:00:00Z#UA{i}"));
            *items_per_shard.entry(placement.home(&key, count)).or_default() += 1;
        }
        assert_eq!(items_per_shard.len(), n as usize);
        // Five standard deviations of a binomial with mean 1,000: a fair hash fails once in millions.
        assert!(
            items_per_shard.values().all(|items| (840..1_160).contains(items)),
            "{placement}: {items_per_shard:?}"
        );
    }
}

/// The chance that a fair rule gives shards at least as uneven.
fn chance(items_per_shard: &[u32]) -> f64 {
    let (shards, items) = (items_per_shard.len(), items_per_shard.iter().sum::<u32>());
    let expected = f64::from(items) / f64::from(u32::try_from(shards).expect("few"));
    let squares = items_per_shard.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected);
    let freedom = f64::from(u32::try_from(shards - 1).expect("few"));
    ChiSquared::new(freedom).expect("several shards").sf(squares.sum())
}

#[test]
fn calculated_placements_pass_a_chi_square_test() {
    for (placement, n) in [(Placement::Xxh64, 64), (Placement::Jump, 50)] {
        let count = ShardCount::new(n).expect("count");
        let mut items_per_shard = vec![0_u32; n as usize];
        for i in 0..n * 500 {
            let home = placement.home(&item("EWR", &format!("2013-01-01#UA{i}")), count);
            items_per_shard[home.expect("calculated").get() as usize] += 1;
        }
        let chance = chance(&items_per_shard);
        assert!(chance > 1e-3, "{placement}: p = {chance}");
    }
    // The test does find a rule that gives one shard of 64 half as much again.
    let mut preferred = vec![500_u32; 64];
    preferred[0] = 750;
    assert!(chance(&preferred) < 1e-3);
}

/// Of n items that grow from a to b shards, n * (b - a) / b have to move; these placements move no others.
#[test]
fn growth_moves_as_few_items_as_can_be() {
    const ITEMS: u32 = 20_000;
    for (placement, from, to) in [
        (Placement::Xxh64, 16, 32),
        (Placement::Xxh64, 4, 64),
        (Placement::Jump, 16, 17),
        (Placement::Jump, 5, 13),
    ] {
        let counts = [from, to].map(|n| ShardCount::new(n).expect("count"));
        let is_moved = |i: &u32| {
            let key = item("EWR", &format!("2013-01-01#UA{i}"));
            let homes = counts.map(|count| placement.home(&key, count));
            homes[0] != homes[1]
        };
        let moved = u32::try_from((0..ITEMS).filter(is_moved).count()).expect("few");
        let needed = ITEMS * (to - from) / to;
        // Five standard deviations of a binomial, at most.
        assert!(
            moved.abs_diff(needed) < 360,
            "{placement} {from} to {to}: {moved}, needed {needed}"
        );
    }
}

#[test]
fn each_rule_has_its_error() {
    assert_eq!(PartitionKey::new(""), Err(KeyError::EmptyPartitionKey));
    assert_eq!(
        PartitionKey::new("é".repeat(1_001)),
        Err(KeyError::PartitionKeyTooLong { bytes: 2_002 })
    );
    assert!(PartitionKey::new("é".repeat(1_000)).is_ok());
    assert!(matches!(PartitionKey::new("_ds_job"), Err(KeyError::ReservedPartitionKey { .. })));
    assert_eq!(SortKey::string(""), Err(KeyError::EmptySortKey));
    assert_eq!(SortKey::string("x".repeat(1_025)), Err(KeyError::SortKeyTooLong { bytes: 1_025 }));
    assert!(SortKey::string("x".repeat(1_024)).is_ok());
    assert_eq!(SortKey::parse("", SortKeyType::Number), Err(KeyError::EmptySortKey));
    assert!(matches!(SortKey::parse("abc", SortKeyType::Number), Err(KeyError::NotANumber { .. })));
    assert!(ShardCount::new(0).is_err());
    assert!(ShardCount::new(65_536).is_ok());
    assert!(ShardCount::new(65_537).is_err());
    assert!(Placement::Xxh64.check(ShardCount::new(3).expect("count")).is_err());
    assert!(Placement::Jump.check(ShardCount::new(3).expect("count")).is_ok());
    for text in ["", "##", "~", "/", "é"] {
        assert!(text.parse::<Separator>().is_err(), "{text:?}");
    }
    for text in ["", "#1", "a#0", "a#01", "a#4294967296", "_ds_job", "_ds_job#1"] {
        assert!(PhysicalPartitionKey::parse(text, Separator::Hash).is_err(), "{text:?}");
    }
    for text in ["a", "a#", "a#+1", "a#1 ", "a#1#0", "a~0"] {
        assert!(PhysicalPartitionKey::parse(text, Separator::Hash).is_ok(), "{text:?}");
    }
}

/// The names that are stored, and that parameters and requests use.
#[test]
fn placements_and_types_are_read_by_their_names_only() {
    for (name, placement, calculated) in [
        ("xxh64", Placement::Xxh64, true),
        ("jump", Placement::Jump, true),
        ("random", Placement::Random, false),
    ] {
        assert_eq!(name.parse(), Ok(placement));
        assert_eq!((placement.as_str(), placement.to_string().as_str()), (name, name));
        assert_eq!(placement.is_calculated(), calculated, "{name}");
    }
    let unknown = KeyError::UnknownPlacement { text: "XXH64".to_owned() };
    assert_eq!("XXH64".parse::<Placement>(), Err(unknown));
    assert_eq!("S".parse(), Ok(SortKeyType::String));
    assert_eq!("N".parse(), Ok(SortKeyType::Number));
    let unknown = KeyError::UnknownSortKeyType { text: "B".to_owned() };
    assert_eq!("B".parse::<SortKeyType>(), Err(unknown));
}

#[test]
fn a_sort_key_is_of_one_type() {
    let types = [SortKeyType::String, SortKeyType::Number];
    for of in types {
        let key = SortKey::parse("10", of).expect("a sort key of either type");
        assert_eq!(types.map(|r#type| key.is(r#type)), types.map(|r#type| r#type == of), "{of:?}");
    }
}

/// Logs and messages show keys so, and a number sort key is hashed by its text.
#[test]
fn a_key_is_printed_as_its_text() {
    let partition = PartitionKey::new("EWR").expect("pk");
    assert_eq!(format!("{partition} {partition:?}"), r#"EWR "EWR""#);
    for (text, r#type, printed) in [
        ("UA\t1", SortKeyType::String, "UA\t1 \"UA\\t1\""),
        ("-1.50", SortKeyType::Number, "-1.5 -1.5"),
    ] {
        let key = SortKey::parse(text, r#type).expect("sk");
        assert_eq!(format!("{key} {key:?}"), printed);
    }
    assert_eq!(ShardId::new(7).to_string(), "7");
    assert_eq!(ShardCount::new(16).expect("count").to_string(), "16");
}

#[test]
fn an_error_shows_the_beginning_of_a_long_text_that_is_not_a_number() {
    for (length, shown) in [(60, "x".repeat(60)), (61, format!("{}…", "x".repeat(60)))] {
        let error = SortKey::parse(&"x".repeat(length), SortKeyType::Number);
        assert_eq!(error, Err(KeyError::NotANumber { text: shown }));
    }
}

/// By a mask of 11, shards 4 to 7 of 12 would never be used.
#[test]
#[should_panic(expected = "xxh64 cannot have 12 shards")]
fn regression_a_count_that_xxh64_cannot_have_skipped_shards() {
    let partition = PartitionKey::new("a").expect("a key");
    let count = ShardCount::new(12).expect("a count");
    let _ = HomeKeys::of(&partition, Placement::Xxh64, count, Separator::HashTilde);
}
