//! Which limit refused a request.

use std::fmt;

use crate::model::replica::Replica;

/// DynamoDB refused a request because a limit was hit, and says which (`ThrottlingReasons` of its
/// errors).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Throttle {
    /// The limit.
    pub limit: ThrottleLimit,
    /// Whether an index refused, and not the table.
    pub on_index: bool,
    /// The ARN of the table or index, where DynamoDB gave it.
    pub resource: Option<String>,
}

impl Throttle {
    /// A throttle of which DynamoDB did not say the reason.
    pub fn unknown() -> Self {
        Self { limit: ThrottleLimit::Unknown, on_index: false, resource: None }
    }

    /// A partition of the table itself is hot.
    pub(crate) fn of_a_partition() -> Self {
        Self { limit: ThrottleLimit::KeyRange, on_index: false, resource: None }
    }

    /// Reads one of DynamoDB's sixteen reasons, such as `TableWriteKeyRangeThroughputExceeded`.
    pub fn from_reason(reason: &str, resource: Option<String>) -> Self {
        let on_index = reason.starts_with("Index");
        let limit = [
            ("KeyRangeThroughputExceeded", ThrottleLimit::KeyRange),
            ("ProvisionedThroughputExceeded", ThrottleLimit::Provisioned),
            ("AccountLimitExceeded", ThrottleLimit::Account),
            ("MaxOnDemandThroughputExceeded", ThrottleLimit::MaxOnDemand),
        ]
        .into_iter()
        .find(|(suffix, _)| reason.ends_with(suffix))
        .map_or(ThrottleLimit::Unknown, |(_, limit)| limit);
        Self { limit, on_index, resource }
    }

    /// Whether a partition is hot whose keys are the table's own, of the table or of a read replica: the one limit that more shards
    /// relieve.
    pub fn is_of_a_partition(&self) -> bool {
        self.limit == ThrottleLimit::KeyRange && (!self.on_index || self.is_of_a_replica())
    }

    /// Whether a partition of an index is hot, and the index has other keys than the table.
    pub(crate) fn is_of_an_index_partition(&self) -> bool {
        self.limit == ThrottleLimit::KeyRange && !self.is_of_a_partition()
    }

    /// The name of the index that refused, where DynamoDB gave it.
    pub(crate) fn index(&self) -> Option<&str> {
        self.resource.as_deref()?.split_once("/index/").map(|(_, name)| name)
    }

    /// Whether a read replica of the table refused.
    pub fn is_of_a_replica(&self) -> bool {
        self.on_index && self.resource.as_deref().is_some_and(Replica::has_arn)
    }
}

impl fmt::Display for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.on_index {
            true if self.is_of_a_replica() => "a read replica",
            true => "an index",
            false => "the table",
        };
        match self.limit {
            ThrottleLimit::KeyRange => write!(f, "a partition of {place} is at its limit"),
            ThrottleLimit::Provisioned => write!(f, "{place} is at its provisioned capacity"),
            ThrottleLimit::Account => write!(f, "the account's limit for {place} is reached"),
            ThrottleLimit::MaxOnDemand => {
                write!(f, "{place} is at its maximum on-demand throughput")
            }
            ThrottleLimit::Unknown => write!(f, "{place} throttled the request"),
        }
    }
}

/// The limit that was hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ThrottleLimit {
    /// A partition is hot: the one limit that more shards relieve.
    KeyRange,
    /// The table's own provisioned capacity.
    Provisioned,
    /// The account's quota.
    Account,
    /// The maximum that the table's owner set for on-demand mode.
    MaxOnDemand,
    /// DynamoDB did not say.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sixteen_reasons_are_understood() {
        for place in ["Table", "Index"] {
            for access in ["Read", "Write"] {
                for (limit, expected) in [
                    ("KeyRangeThroughputExceeded", ThrottleLimit::KeyRange),
                    ("ProvisionedThroughputExceeded", ThrottleLimit::Provisioned),
                    ("AccountLimitExceeded", ThrottleLimit::Account),
                    ("MaxOnDemandThroughputExceeded", ThrottleLimit::MaxOnDemand),
                ] {
                    let throttle = Throttle::from_reason(&format!("{place}{access}{limit}"), None);
                    assert_eq!((throttle.limit, throttle.on_index), (expected, place == "Index"));
                }
            }
        }
        assert_eq!(Throttle::from_reason("SomethingNew", None).limit, ThrottleLimit::Unknown);
    }

    #[test]
    fn a_partition_of_a_replica_has_the_tables_keys_and_one_of_another_index_has_not() {
        let of = |name: &str, reason: &str| {
            let arn = format!("arn:aws:dynamodb:us-east-1:123456789012:table/t/index/{name}");
            let throttle = Throttle::from_reason(reason, Some(arn));
            (throttle.is_of_a_partition(), throttle.to_string())
        };
        let hot = "IndexReadKeyRangeThroughputExceeded";
        assert_eq!(
            of("replica-1", hot),
            (true, "a partition of a read replica is at its limit".into())
        );
        assert_eq!(of("by-status", hot), (false, "a partition of an index is at its limit".into()));
        let account = of("replica-1", "IndexWriteAccountLimitExceeded");
        assert_eq!(account, (false, "the account's limit for a read replica is reached".into()));
    }
}
