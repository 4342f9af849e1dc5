use dynashard_keys::Sharded;

#[derive(Sharded)]
#[sharded(partition(tennant), sort(id), shards = 16)]
struct User {
    tenant: String,
    id: String,
}

fn main() {}
