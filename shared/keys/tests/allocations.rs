//! Readers and bulk writers place every item that they see, so that must allocate nothing.

use dynashard_keys::{
    ItemKey, PartitionKey, Placement, Separator, ShardCount, SortKey, SortKeyType,
};

fn key(sort: &str, r#type: SortKeyType) -> ItemKey {
    let partition = PartitionKey::new("user.v1.User:abc").expect("a partition key");
    ItemKey::new(partition, SortKey::parse(sort, r#type).expect("a sort key"))
}

#[test]
fn a_physical_key_in_a_reused_buffer_allocates_nothing() {
    let keys = [key("123", SortKeyType::String), key("1357034400.000001545", SortKeyType::Number)];
    let count = ShardCount::new(64).expect("a count");
    let mut buffer = String::with_capacity(256);
    for placement in [Placement::Xxh64, Placement::Jump, Placement::Random] {
        let counted = allocation_counter::measure(|| {
            for key in &keys {
                for _ in 0..1_000 {
                    key.write_home(placement, count, Separator::HashTilde, &mut buffer);
                }
            }
        });
        assert_eq!(counted.count_total, 0, "{placement}: {counted:?}");
    }
    // What is measured does count.
    let counted = allocation_counter::measure(|| drop(keys[0].partition.to_string()));
    assert!(counted.count_total > 0);
}
