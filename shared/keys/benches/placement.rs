//! What a shard and a physical key take to calculate. Readers do the first for every item of a
//! page.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use dynashard_keys::{
    ItemKey, PartitionKey, PhysicalPartitionKey, Placement, Separator, ShardCount, SortKey,
    SortKeyType,
};

fn placement(criterion: &mut Criterion) {
    let count = ShardCount::new(64).expect("a count");
    for (name, sort, r#type) in [
        ("string", "2013-01-01T10:00:00Z#UA1545", SortKeyType::String),
        ("number", "1357034400.000001545", SortKeyType::Number),
    ] {
        let partition = PartitionKey::new("EWR").expect("a partition key");
        let key = ItemKey::new(partition, SortKey::parse(sort, r#type).expect("a sort key"));
        for placement in [Placement::Xxh64, Placement::Jump] {
            criterion.bench_function(&format!("home/{placement}/{name}"), |bencher| {
                bencher.iter(|| placement.home(black_box(&key), count));
            });
        }
        let shard = Placement::Xxh64.home(&key, count).expect("it is calculated");
        criterion.bench_function(&format!("physical_key/{name}"), |bencher| {
            bencher.iter(|| black_box(&key).at(shard, Placement::Xxh64, Separator::HashTilde));
        });
    }
    criterion.bench_function("physical_key/parse", |bencher| {
        bencher.iter(|| PhysicalPartitionKey::parse(black_box("EWR#~63"), Separator::HashTilde));
    });
}

criterion_group!(benches, placement);
criterion_main!(benches);
