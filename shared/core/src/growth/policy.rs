use std::fmt;
use std::time::Duration;

use dynashard_keys::{Placement, ShardCount};

use crate::metadata::{CollectionMetadata, Phase};

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

/// Why a throttled collection does not grow now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoGrowth {
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
}

impl fmt::Display for NoGrowth {
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
        }
    }
}

/// What came of the throttles of one collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// It begins to grow.
    Begun {
        /// The count until now.
        from: ShardCount,
        /// The count to be.
        to: ShardCount,
    },
    /// It would begin to grow, were it not for [`ScalingMode::DryRun`].
    WouldBegin {
        /// The count.
        from: ShardCount,
        /// The count that it would have.
        to: ShardCount,
    },
    /// It does not grow now.
    Refused(NoGrowth),
    /// Another changed it in the meantime.
    Overtaken,
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begun { from, to } => write!(f, "it grows from {from} to {to} shards"),
            Self::WouldBegin { from, to } => write!(f, "it would grow from {from} to {to} shards"),
            Self::Refused(reason) => reason.fmt(f),
            Self::Overtaken => f.write_str("another changed it in the meantime"),
        }
    }
}

/// The count that a collection grows to when one of its own partitions throttles: four times as many,
/// or twice under random placement, as far as the stack and the placement allow.
///
/// Two times must have passed since the last change: `settle`, after which no lease on what was
/// before it lives (T' of the protocol), and the cooldown with the `backoff` that each
/// writer draws, so that they do not all try at its end. Creation starts no cooldown.
pub(crate) fn decide_growth(
    metadata: &CollectionMetadata,
    now_secs: u64,
    settle: Duration,
    cooldown_and_backoff: Duration,
    max_shards: ShardCount,
) -> Result<ShardCount, NoGrowth> {
    let count = metadata.number_of_shards;
    let target = next_count(metadata.placement, count, max_shards);
    let pause = if metadata.has_changed() { settle.max(cooldown_and_backoff) } else { settle };
    if target <= count {
        return Err(NoGrowth::NotLarger);
    }
    check_change(metadata, now_secs, pause)?;
    Ok(target)
}

/// How many times as many shards a collection of calculated placement gets by itself.
///
/// Its next reshard begins when this one has closed, which takes H (`RequestLifetimeSecs`, sixteen
/// minutes) whatever there is to move: by doublings alone, a key that needs sixteen shards would be
/// throttled for most of an hour. Two doublings at once halve the number of those waits, for four
/// half-read units a page and three shards at most that the load did not need.
const CALCULATED_STEP: u32 = 4;

/// The same under random placement, whose growth moves nothing and is over within seconds, so that
/// a load is followed closely.
const RANDOM_STEP: u32 = 2;

/// The count that follows `count` in the growth of a collection: [`CALCULATED_STEP`] or
/// [`RANDOM_STEP`] times as many, or as many of them as `max_shards` and the placement allow.
fn next_count(placement: Placement, count: ShardCount, max_shards: ShardCount) -> ShardCount {
    let step = if placement.is_calculated() { CALCULATED_STEP } else { RANDOM_STEP };
    let wanted = ShardCount::new(count.get().saturating_mul(step)).unwrap_or(max_shards);
    placement.round_down(wanted.min(max_shards))
}

/// Whether a collection may begin to change its count, when it rests for `pause` after a change.
pub(crate) fn check_change(
    metadata: &CollectionMetadata,
    now_secs: u64,
    pause: Duration,
) -> Result<(), NoGrowth> {
    if metadata.phase != Phase::Stable {
        return Err(NoGrowth::Running);
    }
    // A second is the unit of `last_updated`; a part of one counts as a whole one.
    let pause_secs = pause.as_secs() + u64::from(pause.subsec_nanos() > 0);
    let until_secs = metadata.last_updated_secs.saturating_add(pause_secs);
    if now_secs < until_secs {
        return Err(NoGrowth::TooSoon { until_secs });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use dynashard_keys::PartitionKey;

    use super::*;

    const SETTLE: Duration = Duration::from_secs(6);
    const COOLDOWN: Duration = Duration::from_mins(1);

    fn count(n: u32) -> ShardCount {
        ShardCount::new(n).expect("count")
    }

    fn collection(shards: u32) -> CollectionMetadata {
        placed(Placement::Random, shards)
    }

    fn placed(placement: Placement, shards: u32) -> CollectionMetadata {
        let partition = PartitionKey::new("audit").expect("pk");
        CollectionMetadata::stable(partition, placement, count(shards), 1_000)
    }

    fn grown(shards: u32) -> CollectionMetadata {
        let begun = collection(shards / 2).with_forward(count(shards), 990);
        begun.with_close(1_000).expect("a growth runs")
    }

    fn decide(metadata: &CollectionMetadata, now_secs: u64) -> Result<ShardCount, NoGrowth> {
        decide_growth(metadata, now_secs, SETTLE, COOLDOWN, count(256))
    }

    #[test]
    fn a_throttled_random_collection_doubles_up_to_the_maximum() {
        assert_eq!(decide(&collection(1), 2_000), Ok(count(2)));
        assert_eq!(decide(&collection(200), 2_000), Ok(count(256)));
        assert_eq!(decide(&collection(256), 2_000), Err(NoGrowth::NotLarger));
    }

    #[test]
    fn a_collection_whose_growth_is_long_quadruples_up_to_the_maximum() {
        for placement in [Placement::Xxh64, Placement::Jump] {
            let decide = |shards| decide(&placed(placement, shards), 2_000);
            assert_eq!(
                (decide(1), decide(4), decide(64)),
                (Ok(count(4)), Ok(count(16)), Ok(count(256)))
            );
            assert_eq!(decide(128), Ok(count(256)), "no more than the stack allows");
            assert_eq!(decide(256), Err(NoGrowth::NotLarger));
        }
    }

    #[test]
    fn regression_a_maximum_that_is_no_power_of_two_became_the_count_of_a_masking_placement() {
        let decide = |placement, shards, max_shards| {
            let metadata = placed(placement, shards);
            decide_growth(&metadata, 2_000, SETTLE, COOLDOWN, count(max_shards))
        };
        assert_eq!(decide(Placement::Xxh64, 4, 10), Ok(count(8)));
        assert_eq!(decide(Placement::Xxh64, 8, 10), Err(NoGrowth::NotLarger));
        assert_eq!(decide(Placement::Xxh64, 1, 3), Ok(count(2)));
        assert_eq!(decide(Placement::Jump, 4, 10), Ok(count(10)));
        assert_eq!(decide(Placement::Random, 8, 10), Ok(count(10)));
    }

    #[test]
    fn creation_starts_no_cooldown_but_leases_on_it_must_end() {
        assert_eq!(decide(&collection(1), 1_005), Err(NoGrowth::TooSoon { until_secs: 1_006 }));
        assert_eq!(decide(&collection(1), 1_006), Ok(count(2)));
    }

    #[test]
    fn a_change_starts_a_cooldown() {
        assert_eq!(decide(&grown(2), 1_059), Err(NoGrowth::TooSoon { until_secs: 1_060 }));
        assert_eq!(decide(&grown(2), 1_060), Ok(count(4)));
    }

    #[test]
    fn what_cannot_grow_says_why() {
        let running = collection(2).with_forward(count(4), 2_000);
        assert_eq!(decide(&running, 9_000), Err(NoGrowth::Running));
    }
}
