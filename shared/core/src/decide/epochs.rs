//! Which epoch of a collection is hot, where its next one begins, and which are merged at rest.

use std::collections::BTreeSet;

use dynashard_keys::{ShardCount, ShardId, SortKey};

use crate::decide::shard_count::{Cause, Evidence, decide, nothing};
use crate::model::decision::{CountChange, Decision, Diagnosis, Figures};
use crate::model::epochs::{Epoch, Epochs};
use crate::model::ledger::Ledger;
use crate::model::metadata::{CollectionMetadata, Phase};
use crate::model::policy::{Access, Hindrance};
use crate::model::reshard::Waits;
use crate::model::settings::Settings;

/// So many of the last writes tell where new items go: fewer may lie together by chance, and to go further back is to move more.
const WRITES: std::ops::RangeInclusive<usize> = 6..=16;

/// With so many epochs no merge waits for the night.
const PRESSING: usize = 28;

/// A longer boundary would be in every read of the metadata.
const LONGEST_BOUNDARY: usize = 128;

/// What a change of the newest epoch leaves where it is, because the new count begins behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeginsBehind {
    /// What was there before the last writes.
    LastWrites {
        /// It has so many items at least.
        least: u64,
    },
    /// All but the newest items.
    NewestItems,
}

/// What a change of the newest epoch begins behind, where the sort keys of the last writes are known or not. `None` where it is about
/// all that the epoch has.
pub fn begins_behind(
    epochs: &Epochs,
    action: CountChange,
    knows_writes: bool,
) -> Option<BeginsBehind> {
    match action {
        CountChange::Grow(_) if epochs.is_one() => {
            Some(BeginsBehind::LastWrites { least: Epochs::LEAST_ITEMS_BEFORE_FIRST })
        }
        CountChange::Grow(_) if knows_writes => {
            Some(BeginsBehind::LastWrites { least: Epochs::FEW_ITEMS })
        }
        CountChange::Shrink(_) if epochs.shrinks_in_place() => None,
        CountChange::Grow(_) | CountChange::Shrink(_) => Some(BeginsBehind::NewestItems),
        CountChange::TurnRound(_) | CountChange::None => None,
    }
}

/// What is to be done about an older epoch that an alarm has reported. The ledgers are those of all epochs, and tell too much of this
/// one: about writes its report alone decides, and it doubles at most.
pub(crate) fn decide_older(evidence: Evidence<'_>, settings: &Settings, waits: Waits) -> Decision {
    let nothing = Ledger::default();
    let is_of_writes = matches!(evidence.cause, Cause::Reported { access: Access::Write, .. });
    let evidence = if is_of_writes {
        Evidence { heat: &nothing, load: &nothing, ..evidence }
    } else {
        evidence
    };
    at_most_doubled(decide(evidence, settings, waits))
}

/// The decision on an older epoch, which at most doubles what it has.
pub(crate) fn at_most_doubled(decision: Decision) -> Decision {
    match (decision.action, ShardCount::new(decision.count.get().saturating_mul(2))) {
        (CountChange::Grow(to), Ok(doubled)) => {
            Decision { action: CountChange::Grow(to.min(doubled)), ..decision }
        }
        _ => decision,
    }
}

/// Whether an epoch of a collection is to be merged with a neighbour: there are many, and it rests, as was found when it was decided
/// whether it shrinks. Until a merge has closed no other change of the collection can begin.
pub fn is_merge_due(metadata: &CollectionMetadata, shrinks: &Decision) -> bool {
    let CollectionMetadata { epochs, number_of_shards, min_shards, .. } = metadata;
    let is_free = metadata.phase == Phase::Stable && !metadata.cleanup_pending;
    let rests = match (shrinks.diagnosis, shrinks.hindrance) {
        (Diagnosis::InUse, _) => {
            // At most half of its shards are needed; at the floor, or where the list is nearly full, at most what there is.
            let (wanted, count) = (shrinks.figures.wanted, u64::from(number_of_shards.get()));
            let may_wait = number_of_shards > min_shards && epochs.count() < PRESSING;
            if may_wait { 2 * wanted <= count } else { wanted <= count }
        }
        // A shrink that would move items too long, or for too little: with fewer epochs it moves none.
        (Diagnosis::CooledDown, hindrance) => {
            matches!(hindrance, Some(Hindrance::TooDear | Hindrance::TooLong))
        }
        _ => false,
    };
    epochs.are_many() && is_free && rests
}

/// Which older epochs may get the count of a neighbour, as indexes into them, and what is decided about each. `few` is one that is
/// known to have next to no items, and is the only one then.
///
/// Otherwise the one that moves least comes first: an epoch with fewer shards was written less, and one that lies between two of equal
/// counts is merged with both. Not the oldest, which has all that was there before the first growth.
pub fn decide_merges(
    metadata: &CollectionMetadata,
    few: Option<usize>,
    settings: &Settings,
) -> Vec<(usize, Decision)> {
    let older = &metadata.epochs.older;
    let counts = metadata.counts().collect::<Vec<_>>();
    let candidates = match few {
        Some(at) => at..at + 1,
        None => 1..older.len(),
    };
    let merges = candidates.flat_map(|at| {
        let neighbours =
            [at.checked_sub(1), Some(at + 1)].into_iter().flatten().map(|at| counts[at]);
        let neighbours = neighbours.collect::<Vec<_>>();
        let from = counts[at];
        neighbours.clone().into_iter().filter(move |to| *to != from).map(move |to| {
            let (fewer, more) = (from.min(to).get(), from.max(to).get());
            let moved = f64::from(from.get()) * f64::from(more - fewer) / f64::from(more);
            let merged = neighbours.iter().filter(|count| **count == to).count();
            (if merged == 2 { moved / 2.0 } else { moved }, at, to)
        })
    });
    let mut merges = merges.collect::<Vec<_>>();
    merges.sort_by(|(one, ..), (other, ..)| one.total_cmp(other));
    let mut named = BTreeSet::new();
    merges.retain(|(_, at, _)| named.insert(*at));
    let merges = merges.into_iter().map(|(_, at, to)| {
        let epoch = metadata.of_epoch(Some(at));
        let nothing = nothing(&epoch, Access::Write, settings);
        let grows = to > epoch.number_of_shards;
        let decision = Decision {
            diagnosis: Diagnosis::ManyEpochs,
            action: if grows { CountChange::Grow(to) } else { CountChange::Shrink(to) },
            figures: Figures { wanted: metadata.epochs.count() as u64, ..nothing.figures },
            ..nothing
        };
        (at, decision)
    });
    merges.collect()
}

/// Which way keys are newer by the sort keys of the last writes, oldest first: whether they descend. `None` where they have no order.
///
/// Of the pairs of one of the older half and one of the newer, two of three are in order: half of them are where keys have none, and not
/// all where clients try again for seconds what is refused.
pub(crate) fn descends(written: &[SortKey]) -> Option<bool> {
    let (before, now) = written.split_at(written.len() / 2);
    let pairs = now.iter().flat_map(|later| before.iter().map(move |earlier| later.cmp(earlier)));
    let rising = pairs.map(|order| order as i64).sum::<i64>();
    let all = i64::try_from(before.len() * now.len()).unwrap_or(i64::MAX);
    (rising.abs() * 3 >= all && rising != 0).then_some(rising < 0)
}

/// The key behind which new items go, by the sort keys of the last writes, oldest first: three of four lie behind it, or with
/// `descending` below it. `None` where too few are known. Whether next to nothing lies there is to be counted.
///
/// Any boundary is safe. A good one lies in front of nearly all that comes, of what clients try again for a second as well, and not in
/// front of what comes late.
pub(crate) fn behind_writes(written: &[SortKey], descending: bool) -> Option<SortKey> {
    let mut last = written.iter().rev().take(*WRITES.end()).collect::<Vec<_>>();
    if last.len() < *WRITES.start() {
        return None;
    }
    last.sort_unstable();
    if descending {
        last.reverse();
    }
    Some(last[last.len() / 4]).filter(|key| is_short(key)).cloned()
}

/// The key behind which the newest of these keys lie, the newest first, but for the tenth that may stand above all others. `None` where
/// there are none, or where it would be too long.
pub(crate) fn behind_items(newest: &[SortKey]) -> Option<SortKey> {
    newest.get(newest.len() / 10).filter(|key| is_short(key)).cloned()
}

fn is_short(boundary: &SortKey) -> bool {
    match boundary {
        SortKey::String(text) => text.len() <= LONGEST_BOUNDARY,
        SortKey::Number(_) => true,
    }
}

/// The epoch, an index into the older ones or `None` for the newest, in which requests are refused by these shards, as far as they
/// tell: an older one where they are just all of its shards, and the newest has more.
pub(crate) fn hot_epoch(metadata: &CollectionMetadata, shards: &[ShardId]) -> Option<usize> {
    let CollectionMetadata { epochs, number_of_shards, placement, .. } = metadata;
    let hot = shards.iter().copied().collect::<BTreeSet<_>>();
    let is_hot = |count: ShardCount| placement.shards(count).collect::<BTreeSet<_>>() == hot;
    let is_narrow = |epoch: &Epoch| epoch.count < *number_of_shards && is_hot(epoch.count);
    epochs.older.iter().rposition(is_narrow)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: impl AsRef<str>) -> SortKey {
        SortKey::string(text.as_ref()).expect("a sort key")
    }

    fn log(n: u32) -> Vec<SortKey> {
        (0..n).map(|n| key(format!("2026-11-28T{n:06}"))).collect()
    }

    #[test]
    fn three_of_four_of_the_last_writes_lie_behind_the_boundary() {
        let up = log(60);
        assert_eq!(behind_writes(&up, false), Some(up[48].clone()));
        let down = up.iter().rev().cloned().collect::<Vec<_>>();
        assert_eq!(behind_writes(&down, true), Some(down[48].clone()));
        assert_eq!(behind_writes(&log(5), false), None, "too few are known");
        assert_eq!(behind_writes(&vec![key("k".repeat(200)); 6], false), None);
        assert_eq!([descends(&up), descends(&down)], [Some(false), Some(true)]);
        let of_no_order = (0..60_u32).map(|n| key(format!("{:06}", n * 7_919 % 1_000)));
        assert_eq!(descends(&of_no_order.collect::<Vec<_>>()), None);
        assert_eq!(descends(&vec![key("one"); 60]), None);
    }

    #[test]
    fn what_comes_late_and_what_stands_above_all_others_does_not_become_the_boundary() {
        let mut written = log(60);
        for (at, stray) in [(46, "LATEST"), (50, "2020-01-01"), (53, "2020-01-02"), (59, "LATEST")]
        {
            written[at] = key(stray);
        }
        let boundary = behind_writes(&written, false).expect("a boundary");
        assert!(boundary < key("LATEST") && boundary > written[43]);
    }

    #[test]
    fn an_older_epoch_is_hot_where_just_its_shards_are_and_the_newest_has_more() {
        let count = |n| ShardCount::new(n).expect("a count");
        let epoch = |n, boundary| Epoch { count: count(n), boundary: key(boundary) };
        let partition = dynashard_keys::PartitionKey::new("EWR").expect("a key");
        let placement = dynashard_keys::Placement::Xxh64;
        let mut metadata = CollectionMetadata::stable(partition, placement, count(4), 1);
        metadata.epochs.older = vec![epoch(1, "b"), epoch(2, "d"), epoch(8, "f")];
        let hot = |shards: std::ops::Range<u32>| {
            hot_epoch(&metadata, &shards.map(ShardId::new).collect::<Vec<_>>())
        };
        assert_eq!([hot(0..1), hot(0..2), hot(0..3)], [Some(0), Some(1), None]);
        assert_eq!([hot(0..4), hot(0..8), hot(1..2)], [None; 3]);
    }

    fn decided(counts: &[u32], newest: u32, few: Option<usize>) -> Option<(usize, CountChange)> {
        all_decided(counts, newest, few).into_iter().next()
    }

    fn all_decided(counts: &[u32], newest: u32, few: Option<usize>) -> Vec<(usize, CountChange)> {
        let count = |n| ShardCount::new(n).expect("a count");
        let partition = dynashard_keys::PartitionKey::new("EWR").expect("a key");
        let placement = dynashard_keys::Placement::Xxh64;
        let mut metadata = CollectionMetadata::stable(partition, placement, count(newest), 1);
        let boundaries = (0..).map(|at| key(format!("{at:02}")));
        let older = counts.iter().zip(boundaries);
        metadata.epochs.older =
            older.map(|(n, boundary)| Epoch { count: count(*n), boundary }).collect();
        let merges = decide_merges(&metadata, few, &Settings::default()).into_iter();
        merges.map(|(at, decision)| (at, decision.action)).collect()
    }

    /// The first of equals had too many items to be moved soon, and no other was ever tried.
    #[test]
    fn regression_one_large_epoch_kept_all_others_from_being_merged() {
        let all = all_decided(&[8, 4, 8, 4, 8, 4, 8], 4, None).into_iter();
        assert_eq!(all.map(|(at, _)| at).collect::<Vec<_>>(), [1, 3, 5, 2, 4, 6], "each once");
    }

    #[test]
    fn the_epoch_is_merged_that_moves_least() {
        let grow = |n| CountChange::Grow(ShardCount::new(n).expect("a count"));
        let shrink = |n| CountChange::Shrink(ShardCount::new(n).expect("a count"));
        assert_eq!(decided(&[1, 8, 1, 8], 1, None), Some((2, grow(8))), "it lies between two");
        assert_eq!(decided(&[8, 1, 8, 2, 8], 1, None), Some((1, grow(8))));
        assert_eq!(decided(&[16, 4, 2], 64, None), Some((2, grow(4))), "half of it moves");
        assert_eq!(decided(&[1, 2, 4], 8, None), Some((1, shrink(1))), "not what was there before");
        assert_eq!(decided(&[1, 8, 1, 8], 1, Some(3)), Some((3, shrink(1))));
        assert_eq!([decided(&[], 1, None), decided(&[4], 1, None)], [None, None]);
    }
}
