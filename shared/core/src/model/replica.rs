//! Read replicas of the main table.

use std::fmt;

/// A global secondary index of the main table that has the table's own key and all attributes, so that it answers reads in the
/// table's place, on partitions of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Replica(u32);

/// What the name of each of them begins with. The template and the roles have it, too.
const PREFIX: &str = "replica-";

impl Replica {
    /// The most that a stack may have (`ReadReplicas`).
    pub const MOST: u32 = 5;

    /// The first so many.
    pub fn first(count: u32) -> impl Iterator<Item = Self> {
        (1..=count).map(Self)
    }

    /// The one of this number, from 1.
    pub(crate) const fn nth(number: u32) -> Self {
        Self(number)
    }

    /// Whether the ARN of a table or an index is that of a replica.
    pub(crate) fn has_arn(arn: &str) -> bool {
        let name = arn.rsplit_once("/index/").and_then(|(_, name)| name.strip_prefix(PREFIX));
        let number = name.and_then(|number| number.parse::<u32>().ok());
        number.is_some_and(|number| (1..=Self::MOST).contains(&number))
    }
}

impl fmt::Display for Replica {
    /// The name of the index.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_known_by_its_arn() {
        let arn = |name: &str| format!("arn:aws:dynamodb:us-east-1:123456789012:table/t{name}");
        for replica in Replica::first(Replica::MOST) {
            assert!(Replica::has_arn(&arn(&format!("/index/{replica}"))), "{replica}");
        }
        for other in
            ["", "/index/replica-0", "/index/replica-6", "/index/replica", "/index/by-status"]
        {
            assert!(!Replica::has_arn(&arn(other)), "{other}");
        }
    }
}
