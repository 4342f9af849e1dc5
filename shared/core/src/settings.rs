use std::time::Duration;

use dynashard_keys::{Placement, RESERVED_PREFIX, Separator, ShardCount, SortKeyType};

use crate::{Code, Error, ScalingPolicy};

/// How the main table calls and types its keys, and how physical keys are spelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    /// The name of the partition key attribute, in both tables.
    pub partition_key_name: String,
    /// The name of the sort key attribute.
    pub sort_key_name: String,
    /// The type of the sort key.
    pub sort_key_type: SortKeyType,
    /// What stands between a partition key and its shard.
    pub separator: Separator,
}

impl TableSchema {
    /// The attribute names of metadata items and jobs: no key attribute may be called so.
    pub const METADATA_ATTRIBUTES: [&str; 13] = [
        "number_of_shards",
        "last_updated",
        "shard_history",
        "generation",
        "phase",
        "from",
        "to",
        "placement",
        "rev",
        "min_shards",
        "cleanup_pending",
        "slice",
        "job",
    ];

    /// Refuses names that would collide with the system's own attributes.
    pub fn check(&self) -> Result<(), Error> {
        let problem = |name: &str, why: &str| {
            Err(Error::new(Code::Internal, format!("the key attribute name {name:?} {why}")))
        };
        for name in [&self.partition_key_name, &self.sort_key_name] {
            if name.is_empty() {
                return problem(name, "is empty");
            }
            if name.starts_with(RESERVED_PREFIX) {
                return problem(name, "begins with \"_ds_\", which is reserved");
            }
            if Self::METADATA_ATTRIBUTES.contains(&name.as_str()) {
                return problem(name, "is an attribute of the metadata table's own");
            }
        }
        if self.partition_key_name == self.sort_key_name {
            return problem(&self.sort_key_name, "names both keys");
        }
        Ok(())
    }
}

impl Default for TableSchema {
    fn default() -> Self {
        Self {
            partition_key_name: "pk".to_owned(),
            sort_key_name: "sk".to_owned(),
            sort_key_type: SortKeyType::String,
            separator: Separator::default(),
        }
    }
}

/// What the operator set for the whole stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The main table's keys.
    pub schema: TableSchema,
    /// The placement of collections that are created by their first write.
    pub placement: Placement,
    /// T: how long metadata may be used after it was read (protocol: "Lease").
    pub lease_term: Duration,
    /// H: how long after its signing a request may still be executed (protocol: "Assumptions").
    pub request_lifetime: Duration,
    /// No collection has more shards than this.
    pub max_shards: ShardCount,
    /// The write units a second that moving items may take, at most.
    pub mover_wcu: u32,
    /// Whether and when shard counts change by themselves.
    pub scaling: ScalingPolicy,
}

impl Default for Settings {
    /// The template's defaults.
    fn default() -> Self {
        Self {
            schema: TableSchema::default(),
            placement: Placement::default(),
            lease_term: Duration::from_secs(5),
            request_lifetime: Duration::from_mins(16),
            max_shards: ShardCount::new(256).unwrap_or(ShardCount::ONE),
            mover_wcu: 400,
            scaling: ScalingPolicy::default(),
        }
    }
}
