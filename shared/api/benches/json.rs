//! What reading and writing an item of about 1 KB takes, in both formats.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dynashard_api::json::{self, Format, ItemJson};
use dynashard_core::{Generation, StoredItem, TableSchema, Version};
use dynashard_keys::{PartitionKey, SortKey};
use serde_json::json;

fn items(criterion: &mut Criterion) {
    let plain = json!({
        "dest": "IAH", "carrier": "UA", "flight": 1545, "distance": 1400.25, "cancelled": false,
        "times": { "scheduled": "05:15", "actual": "05:17", "delays": [2, 11, 0] },
        "remarks": "Boarding \"A\" at the gate.\n".repeat(28),
    });
    let members = json::object(plain.to_string().as_bytes()).map(json_attributes);
    let item = StoredItem {
        attributes: members.expect("an object"),
        generation: Generation::new(1),
        version: Version::new(1),
        forwarded: false,
    };
    let partition = PartitionKey::new("EWR").expect("a partition key");
    let sort = SortKey::string("2013-01-01T10:00:00Z#UA1545").expect("a sort key");
    let schema = &TableSchema::default();
    let mut group = criterion.benchmark_group("item");
    for (name, format) in [("plain", Format::Plain), ("dynamodb", Format::DynamoDb)] {
        let item = ItemJson { schema, partition: &partition, sort: &sort, item: &item, format };
        let text = serde_json::to_string(&item).expect("JSON");
        group.throughput(Throughput::Bytes(u64::try_from(text.len()).expect("a length")));
        group.bench_function(format!("read/{name}"), |bencher| {
            bencher.iter(|| {
                let members = json::object(black_box(text.as_bytes())).expect("an object");
                json::attributes(members, format).expect("attributes")
            });
        });
        group.bench_function(format!("write/{name}"), |bencher| {
            bencher.iter(|| serde_json::to_string(black_box(&item)).expect("JSON"));
        });
        group.bench_function(format!("payload_bytes/{name}"), |bencher| {
            bencher.iter(|| black_box(&item).payload_bytes());
        });
    }
    group.finish();
}

fn json_attributes(members: json::Members<'_>) -> dynashard_core::Attributes {
    json::attributes(members, Format::Plain).expect("attributes")
}

criterion_group!(benches, items);
criterion_main!(benches);
