//! What the operator set about shard counts, what a partition takes, and what may keep a count from changing.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::model::metadata::{CollectionMetadata, Phase};

/// What the operator set about changes of shard counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScalingPolicy {
    /// Whether counts change by themselves.
    pub mode: ScalingMode,
    /// Whether a writer that meets a throttle begins the change itself.
    pub writers: bool,
    /// The least time between two changes of one collection.
    pub cooldown: Duration,
}

impl Default for ScalingPolicy {
    /// The template's defaults.
    fn default() -> Self {
        Self { mode: ScalingMode::On, writers: true, cooldown: Duration::from_mins(1) }
    }
}

/// What the operator set about collections that have cooled down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShrinkPolicy {
    /// Whether they get fewer shards by themselves.
    pub mode: ScalingMode,
    /// For how long a collection must have been cool, and its count unchanged.
    pub after: Duration,
    /// Within which time cheaper queries must pay for the move; without it, whatever they save.
    pub payback: Option<Duration>,
}

impl Default for ShrinkPolicy {
    /// The template's defaults.
    fn default() -> Self {
        Self { mode: ScalingMode::Off, after: Duration::from_hours(3), payback: None }
    }
}

/// What one partition of DynamoDB takes a second
/// ([limits of a partition](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionLimits {
    /// Write units.
    pub write_units: u32,
    /// Read units.
    pub read_units: u32,
}

impl PartitionLimits {
    /// What it takes of the units that this access asks for.
    pub fn of(self, access: Access) -> f64 {
        f64::from(match access {
            Access::Write => self.write_units,
            Access::Get | Access::Query => self.read_units,
        })
    }
}

impl Default for PartitionLimits {
    fn default() -> Self {
        Self { write_units: 1_000, read_units: 3_000 }
    }
}

/// What requests do to items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// They write one item.
    Write,
    /// They get one item.
    Get,
    /// They read a page of a collection.
    Query,
}

impl Access {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Get => "get",
            Self::Query => "query",
        }
    }

    /// What it takes, for people.
    pub(crate) const fn unit(self) -> &'static str {
        match self {
            Self::Write => "write units",
            Self::Get | Self::Query => "read units",
        }
    }
}

/// Whether shard counts change by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScalingMode {
    /// They do not.
    Off,
    /// They do not; what would be decided is reported.
    DryRun,
    /// They do.
    On,
}

impl ScalingMode {
    const ALL: [Self; 3] = [Self::Off, Self::DryRun, Self::On];

    /// The stable name, as parameters and stored items have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::DryRun => "dry-run",
            Self::On => "on",
        }
    }
}

/// A text that is no [`ScalingMode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownMode;

impl fmt::Display for UnknownMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is off, dry-run or on")
    }
}

impl FromStr for ScalingMode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or(UnknownMode)
    }
}

/// Why the count of a collection does not change now, although its load asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hindrance {
    /// A change is running already.
    Running,
    /// The last change, or `PUT /collection`, is too recent. The change may be made at this epoch second.
    TooSoon {
        /// Epoch seconds.
        until_secs: u64,
    },
    /// The target, or the most that the stack allows, is not above the present count.
    NotLarger,
    /// The operator lets others grow, and not this one.
    NotAllowed,
    /// Only shards are throttled in which the markers of the last reshard are being removed, which may
    /// be what throttles them.
    ClearingUp,
    /// What fewer shards save does not pay for the move in the time that the operator has set.
    TooDear,
    /// Moving the items of a shrink would take so long that a load which comes back meanwhile is throttled for too long.
    TooLong,
    /// The table has local secondary indexes, which bound a shard to 10 GB, and fewer shards might hold more.
    TooLarge,
}

impl Hindrance {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::TooSoon { .. } => "cooldown",
            Self::NotLarger => "at_max_shards",
            Self::NotAllowed => "not_allowed",
            Self::ClearingUp => "clearing_up",
            Self::TooDear => "too_dear",
            Self::TooLong => "too_long",
            Self::TooLarge => "too_large",
        }
    }
}

impl fmt::Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("a change of its shard count is running"),
            Self::TooSoon { until_secs } => {
                write!(f, "it may change again from epoch second {until_secs} on")
            }
            Self::NotLarger => f.write_str("it has as many shards as the stack allows"),
            Self::NotAllowed => f.write_str("no pattern of GrowKeys matches its partition key"),
            Self::ClearingUp => f.write_str(
                "the markers of its last change are being removed from what is throttled",
            ),
            Self::TooDear => f.write_str("cheaper queries would not pay for the move in time"),
            Self::TooLong => f.write_str(
                "moving its items would take longer than a load that comes back could wait",
            ),
            Self::TooLarge => f.write_str(
                "the table has local secondary indexes, which bound a shard to 10 GB, and fewer shards might hold more",
            ),
        }
    }
}

/// The most bytes of a table with local secondary indexes of which any collection may get fewer shards. Such an index bounds
/// what lies under one partition key to 10 GB ([item collections]), and an item that would go beyond cannot move. DynamoDB
/// counts a table's bytes every six hours, so that what has come since is unknown: half of the bound is left for it.
///
/// [item collections]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/LSI.html#LSI.ItemCollections.SizeLimit
const LOCALLY_INDEXED_BYTES: u64 = 5_000_000_000;

/// Whether all items of the main table have room under one partition key, given the bytes that DynamoDB counts of them with
/// their entries in local secondary indexes. Without such an index any number has.
pub(crate) fn fits_one_shard(locally_indexed_bytes: Option<u64>) -> bool {
    locally_indexed_bytes.is_none_or(|bytes| bytes <= LOCALLY_INDEXED_BYTES)
}

/// Whether a collection may begin to change its count, when it rests for `pause` after a change.
pub(crate) fn check_change(
    metadata: &CollectionMetadata,
    now_secs: u64,
    pause: Duration,
) -> Result<(), Hindrance> {
    if metadata.phase != Phase::Stable {
        return Err(Hindrance::Running);
    }
    // A second is the unit of `last_updated`; a part of one counts as a whole one.
    let pause_secs = pause.as_secs() + u64::from(pause.subsec_nanos() > 0);
    let until_secs = metadata.last_updated_secs.saturating_add(pause_secs);
    if now_secs < until_secs {
        return Err(Hindrance::TooSoon { until_secs });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use dynashard_keys::{PartitionKey, Placement, ShardCount};

    use super::*;
    use crate::model::transitions::Next;

    #[test]
    fn a_collection_rests_after_a_change_and_does_not_change_during_one() {
        let count = |n| ShardCount::new(n).expect("a count");
        let partition = PartitionKey::new("audit").expect("a partition key");
        let stable = CollectionMetadata::stable(partition, Placement::Random, count(2), 1_000);
        let check = |metadata: &CollectionMetadata, now_secs| {
            check_change(metadata, now_secs, Duration::from_millis(5_050))
        };
        assert_eq!(check(&stable, 1_005), Err(Hindrance::TooSoon { until_secs: 1_006 }));
        assert_eq!(check(&stable, 1_006), Ok(()));
        assert_eq!(
            check(&Next::after(&stable, 2_000).forward(None, count(4)), 9_000),
            Err(Hindrance::Running)
        );
    }
}
