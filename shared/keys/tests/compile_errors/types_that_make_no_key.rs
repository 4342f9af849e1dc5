use dynashard_keys::Sharded;

#[derive(Sharded)]
#[sharded(partition(score), sort(id))]
struct Score {
    score: f64,
    id: String,
}

#[derive(Sharded)]
#[sharded(partition(name), sort(kind, number))]
struct Mixed {
    name: String,
    kind: String,
    number: u64,
}

#[derive(Sharded)]
#[sharded(partition(name), sort(id))]
enum Either {
    One { name: String, id: String },
}

#[derive(Sharded)]
#[sharded(partition(name), sort(id))]
struct Wide {
    name: String,
    id: u128,
}

fn main() {}
