use dynashard_keys::{RESERVED_PREFIX, Separator, SortKeyType};

use crate::{Code, Error};

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
    pub const METADATA_ATTRIBUTES: [&str; 15] = [
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
        "collections",
        "settings",
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
