use dynashard_keys::Sharded;

#[derive(Sharded)]
#[sharded(partition(tenant), sort(id), shards = 12)]
struct User {
    tenant: String,
    id: String,
}

fn main() {}
