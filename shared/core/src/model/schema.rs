//! How the main table calls and types its keys, and how physical keys are spelled.

use dynashard_keys::{RESERVED_PREFIX, Separator, SortKeyType};

use crate::model::error::{Code, Error};
use crate::model::ledger::is_figure;

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
    /// The attribute names of metadata items, jobs and histories of decisions: no key attribute may be called
    /// so. Nor may one be called like the figures of a ledger, which are named after their time.
    pub const METADATA_ATTRIBUTES: [&str; 17] = [
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
        "policy",
        "decisions",
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
            if Self::METADATA_ATTRIBUTES.contains(&name.as_str()) || is_figure(name) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_called_like_an_attribute_of_the_metadata_table() {
        let check = |name: &str| {
            let partition_key_name = name.to_owned();
            TableSchema { partition_key_name, ..TableSchema::default() }.check()
        };
        for name in ["", "_ds_g", "rev", "decisions", "s1795221008w", "m1795221000r", "h3600q"] {
            assert!(check(name).is_err(), "{name}");
        }
        assert!(check("s1795221008t0ff").is_err(), "a class of sort keys");
        // 61 seconds begin no minute, and no measure has the letter z.
        for name in ["pk", "s1", "m61w", "s1795221008z", "s1795221008ww", "s1795221008tfff0"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }
}
