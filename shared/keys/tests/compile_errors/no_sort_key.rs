use dynashard_keys::Sharded;

#[derive(Sharded)]
#[sharded(partition(tenant), shards = 16)]
struct User {
    tenant: String,
    id: String,
}

fn main() {}
