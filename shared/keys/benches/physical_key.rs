//! What the physical key of one more item of a collection takes, beside what it must beat: two `format!`s, which is how
//! it would be written without this crate, and a library's bare hash of the same text, which is no key yet.
//!
//! `python_key.py` beside this file measures the same in Python. The key is the same in all of them.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use dynashard_keys::{HomeKeys, PartitionKey, Placement, Separator, ShardCount, SortKey};
use xxhash_rust::xxh64::xxh64;

/// Of `python_key.py`, too.
const KEYS: &[(&str, &str, &str)] = &[
    ("user", "user.v1.User:abc", "123"),
    ("flight", "EWR", "2013-01-01T10:00:00Z#UA1545"),
    (
        "path",
        "/shared/reports/2024/q3/firetvGen2.txt",
        "2024-09-30T23:59:59.123456Z#0f8fad5b-d9cb-469f-a165",
    ),
];

const SHARDS: u32 = 64;

fn physical_key(criterion: &mut Criterion) {
    let count = ShardCount::new(SHARDS).expect("a count");
    let mut group = criterion.benchmark_group("physical_key");
    for (name, pk, sk) in KEYS {
        let partition = PartitionKey::new(pk).expect("a partition key");
        let sort = SortKey::string(sk).expect("a sort key");
        let text = format!("{pk}:{sk}");
        group.bench_function(BenchmarkId::new("bare_hash", name), |bencher| {
            bencher.iter(|| xxh64(black_box(text.as_bytes()), 0));
        });
        let mut keys =
            HomeKeys::of(&partition, Placement::Xxh64, count, Separator::HashTilde).expect("keys");
        group.bench_function(BenchmarkId::new("home_keys", name), |bencher| {
            bencher.iter(|| {
                let (shard, key) = keys.home(black_box(&sort));
                black_box(key);
                shard
            });
        });
        group.bench_function(BenchmarkId::new("two_formats", name), |bencher| {
            bencher.iter(|| {
                let (pk, sk) = (black_box(*pk), black_box(*sk));
                let hash = xxh64(format!("{pk}:{sk}").as_bytes(), 0);
                format!("{pk}#~{}", hash & u64::from(SHARDS - 1))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, physical_key);
criterion_main!(benches);
