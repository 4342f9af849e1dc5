//! Keys that were once written must be found for ever: these vectors may be added to, not changed.

use dynashard_keys::{
    ItemKey, PartitionKey, PhysicalPartitionKey, Placement, Separator, ShardCount, ShardId,
    SortKey, SortKeyType,
};

fn key(pk: &str, sk: &str) -> ItemKey {
    ItemKey::new(PartitionKey::new(pk).expect("pk"), SortKey::string(sk).expect("sk"))
}

fn count(n: u32) -> ShardCount {
    ShardCount::new(n).expect("count")
}

fn home(placement: Placement, pk: &str, sk: &str, n: u32) -> u32 {
    placement.home(&key(pk, sk), count(n)).expect("calculated").get()
}

#[test]
fn xxh64_gives_the_shards_of_dynamo_db_sharding() {
    let expected = [12, 14, 13, 6, 6, 5, 12, 11, 13, 5, 12, 15, 13, 5, 14, 14];
    for (sk, shard) in expected.into_iter().enumerate() {
        assert_eq!(
            home(Placement::Xxh64, "user.v1.User:abc", &sk.to_string(), 16),
            shard,
            "sk {sk}"
        );
    }
    assert_eq!(home(Placement::Xxh64, "user.v1.User:abc", "123", 16), 11);
}

#[test]
fn a_power_of_two_masks_the_same_hash() {
    // 0x7f99762e7f9305cb, the hash of user.v1.User:abc:123.
    for (n, shard) in [(1, 0), (2, 1), (4, 3), (8, 3), (16, 11), (256, 0xcb), (65_536, 0x05cb)] {
        assert_eq!(home(Placement::Xxh64, "user.v1.User:abc", "123", n), shard, "{n} shards");
    }
}

#[test]
fn jump_gives_the_shards_it_always_gave() {
    let of = |n| {
        ["0", "1", "2", "3", "4", "5", "6", "7"]
            .map(|sk| home(Placement::Jump, "user.v1.User:abc", sk, n))
    };
    assert_eq!(of(1), [0; 8]);
    assert_eq!(of(3), JUMP_3);
    assert_eq!(of(16), JUMP_16);
    assert_eq!(of(1_000), JUMP_1000);
    // Here the last bit of a step decides: one more or one less in the divisor gives another shard.
    let decided = ["3067", "3819"].map(|sk| home(Placement::Jump, "user.v1.User:abc", sk, 65_536));
    assert_eq!(decided, [49_306, 21_505]);
}

/// From an independent implementation of the paper over XXH64, in Python.
const JUMP_3: [u32; 8] = [0, 0, 1, 2, 2, 2, 0, 2];
const JUMP_16: [u32; 8] = [7, 6, 9, 15, 7, 7, 3, 14];
const JUMP_1000: [u32; 8] = [786, 851, 370, 926, 262, 353, 534, 950];

#[test]
fn physical_keys_read_as_they_always_read() {
    for (pk, shard, separator, physical) in [
        ("a", 0, "#~", "a"),
        ("a", 1, "#~", "a#~1"),
        ("a#~1", 0, "#~", "a#~1#~0"),
        ("a#~1", 1, "#~", "a#~1#~1"),
        ("a#~007", 0, "#~", "a#~007#~0"),
        ("#~1", 0, "#~", "#~1#~0"),
        ("USER#123", 0, "#~", "USER#123"),
        ("USER#123", 0, "#", "USER#123#0"),
        ("USER#123", 3, "#", "USER#123#3"),
        ("/shared/firetvGen2.txt", 6, "_", "/shared/firetvGen2.txt_6"),
        ("2014-07-09", 157, ".", "2014-07-09.157"),
        ("2014-07-09", 0, "-", "2014-07-09-0"),
        ("121212", 2, "-", "121212-2"),
        ("user.v1.User:abc", 11, ":", "user.v1.User:abc:11"),
        ("2014-07-09", 200, ".", "2014-07-09.200"),
        ("121212", 5, "-", "121212-5"),
        ("ключ 🔑", 65_535, "#~", "ключ 🔑#~65535"),
    ] {
        let separator: Separator = separator.parse().expect("separator");
        let partition = PartitionKey::new(pk).expect("pk");
        let at = ShardId::new(shard);
        for placement in [Placement::Xxh64, Placement::Jump] {
            assert_eq!(partition.at(at, placement, separator).as_str(), physical);
        }
        let read = (shard > 0).then_some(at);
        assert_eq!(PhysicalPartitionKey::parse(physical, separator), Ok((partition, read)));
    }
}

#[test]
fn the_first_shard_of_a_random_collection_is_shard_1() {
    for (pk, shard, physical) in
        [("a", 1, "a"), ("a", 2, "a#~2"), ("a#~5", 1, "a#~5#~0"), ("a#~5", 2, "a#~5#~2")]
    {
        let partition = PartitionKey::new(pk).expect("pk");
        let at = partition.at(ShardId::new(shard), Placement::Random, Separator::HashTilde);
        assert_eq!(at.as_str(), physical);
    }
}

#[test]
fn number_sort_keys_are_hashed_in_their_canonical_form() {
    let of = |text: &str| {
        let sort = SortKey::parse(text, SortKeyType::Number).expect("number");
        Placement::Xxh64.home(
            &ItemKey::new(PartitionKey::new("user.v1.User:abc").expect("pk"), sort),
            count(16),
        )
    };
    for text in ["123", "123.0", "+0123", "1.23e2", "12300E-2"] {
        assert_eq!(of(text).map(ShardId::get), Some(11), "{text}");
    }
}

#[test]
fn cells_of_counters_have_the_partition_keys_that_they_always_had() {
    let partition = PartitionKey::new("EWR").expect("pk");
    let cell = partition.of_cell(0x7f99_762e_7f93_05cb, 12);
    assert_eq!(cell.as_str(), "_ds_c#7f99762e7f9305cb#12#EWR");
    assert!(cell.is_reserved() && !partition.is_reserved());
    assert!(PartitionKey::is_of_cell(cell.as_str()) && !PartitionKey::is_of_cell("_ds_owner"));
    let longest = PartitionKey::new("x".repeat(PartitionKey::MAX_BYTES)).expect("pk");
    let longest = longest.of_cell(u64::MAX, u16::MAX);
    let first = longest.at(ShardId::new(0), Placement::Xxh64, Separator::default());
    assert!(first.as_str().len() <= 2_048);
}
