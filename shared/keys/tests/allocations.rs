//! Readers and bulk writers place every item that they see, so that must allocate nothing.

use dynashard_keys::{
    HomeKeys, PartitionKey, Placement, Separator, ShardCount, SortKey, SortKeyType,
};

#[test]
fn the_physical_key_of_a_further_item_allocates_nothing() {
    let sorts = [("123", SortKeyType::String), ("1357034400.000001545", SortKeyType::Number)];
    let sorts = sorts.map(|(sort, r#type)| SortKey::parse(sort, r#type).expect("a sort key"));
    let partition = PartitionKey::new("user.v1.User:abc").expect("a partition key");
    for (placement, count) in [(Placement::Xxh64, ShardCount::MAX), (Placement::Jump, 64)] {
        let count = ShardCount::new(count).expect("a count");
        let mut keys = HomeKeys::of(&partition, placement, count, Separator::HashTilde)
            .expect("it is calculated");
        let counted = allocation_counter::measure(|| {
            for sort in &sorts {
                for _ in 0..1_000 {
                    std::hint::black_box(keys.home(sort));
                }
            }
        });
        assert_eq!(counted.count_total, 0, "{placement}: {counted:?}");
    }
    // What is measured does count.
    let counted = allocation_counter::measure(|| drop(partition.to_string()));
    assert!(counted.count_total > 0);
}
