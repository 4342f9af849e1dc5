//! What is wrong with an item, from what lies under its sort key in each shard. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use dynashard_keys::{ItemKey, ShardId};

use crate::decide::digest::Digest;
use crate::model::item::StoredItem;
use crate::model::metadata::{CollectionMetadata, Reshard, home_or_spread};
use crate::model::reshard::{Job, ShardRange};
use crate::model::version::{Generation, Version};

/// What lies in one shard under a sort key, without its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) shard: ShardId,
    pub(crate) version: Version,
    pub(crate) generation: Generation,
    /// It is an item, and no marker.
    pub(crate) live: bool,
    /// DynamoDB may delete it by itself.
    pub(crate) may_expire: bool,
    pub(crate) digest: Digest,
}

impl Entry {
    pub(crate) fn of(
        key: &ItemKey,
        shard: ShardId,
        item: &StoredItem,
        ttl_attributes: &BTreeSet<String>,
    ) -> Self {
        let live = item.is_live();
        let may_expire = item.may_expire(ttl_attributes);
        let digest = if live { Digest::of(&key.sort, item) } else { Digest::default() };
        Self { shard, version: item.version, generation: item.generation, live, may_expire, digest }
    }
}

/// What the items of a collection are judged by.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) metadata: Arc<CollectionMetadata>,
    /// The job of the reshard that runs, or that has left markers.
    pub(crate) job: Option<Job>,
}

/// What is wrong with what lies in one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// A live item that is not in the shard where it belongs, and lies nowhere else: no client sees
    /// it.
    Misplaced,
    /// A live item whose sort key is live in another shard, too: that is the one that clients see.
    Duplicate,
    /// A marker that no running reshard and no pending removal of markers accounts for.
    StrayMarker,
    /// A live item at the old home of a running reshard, hidden by one at the new home that may
    /// expire: then it would show again.
    HiddenByExpiring,
    /// An item or a marker of a generation above that of the collection's metadata: as if the
    /// metadata had been restored alone. Nothing can be concluded from it.
    Ahead,
}

impl FindingKind {
    /// Every kind.
    pub const ALL: [Self; 5] =
        [Self::Misplaced, Self::Duplicate, Self::StrayMarker, Self::HiddenByExpiring, Self::Ahead];

    /// The name in reports. Must be kept stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Misplaced => "misplaced",
            Self::Duplicate => "duplicate",
            Self::StrayMarker => "stray_marker",
            Self::HiddenByExpiring => "hidden_by_expiring",
            Self::Ahead => "ahead",
        }
    }
}

/// What would heal a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// The item goes home.
    Move,
    /// The old home becomes a marker, as before a write.
    Settle,
    /// The copy yields to the item that clients see.
    RemoveCopy,
    /// The marker goes.
    RemoveMarker,
}

/// Something wrong with what lies in one shard under a sort key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) kind: FindingKind,
    pub(crate) entry: Entry,
    /// Where it belongs, where there is one such shard.
    pub(crate) home: Option<ShardId>,
    /// `None` for what the protocol knows no remedy for.
    pub(crate) remedy: Option<Remedy>,
}

/// What is to be said of one sort key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Verdict {
    pub(crate) wrong: Vec<Wrong>,
    /// The live items, each once: what a move has brought to the one home and not yet taken from the
    /// other is one.
    pub(crate) live: Vec<Entry>,
    /// One of them is about to be moved by the running reshard.
    pub(crate) waits_to_move: bool,
    /// Markers that the reshard, or the removal that follows it, is going to take away.
    pub(crate) markers: u64,
    /// There is nothing here but the marker of a move: the item was deleted at its new home, or it
    /// arrived there after that had been read.
    pub(crate) has_left: bool,
}

impl Verdict {
    /// Whether it may be believed at once. Otherwise the item's homes must be read again.
    pub(crate) fn is_plain(&self) -> bool {
        self.wrong.is_empty() && !self.has_left
    }
}

impl View {
    /// All shards where an item may be without anything being wrong, the one where it belongs when
    /// everything has come to rest first.
    pub(crate) fn homes(&self, key: &ItemKey) -> (ShardId, Option<ShardId>) {
        homes(&self.metadata.at(&key.sort), key)
    }

    /// Judges what lies under a key: one entry of each shard where something lies, lowest first.
    pub(crate) fn judge(&self, key: &ItemKey, entries: &[Entry]) -> Verdict {
        let metadata = &*self.metadata.at(&key.sort);
        let generation = metadata.generation;
        let mut verdict = Verdict::default();
        let live = || entries.iter().copied().filter(|entry| entry.live);
        let (home, _) = homes(metadata, key);
        let shown_home = metadata.placement.is_calculated().then_some(home);
        let wrong = |kind, entry, remedy| Wrong { kind, entry, home: shown_home, remedy };

        if entries.iter().any(|entry| entry.generation > generation) {
            verdict.live.extend(live());
            let ahead = entries.iter().filter(|entry| entry.generation > generation);
            verdict.wrong.extend(ahead.map(|entry| wrong(FindingKind::Ahead, *entry, None)));
            return verdict;
        }

        let reshard = metadata.reshard();
        let (mut at_home, mut strays) =
            live().partition::<Vec<_>, _>(|entry| may_hold(metadata, key, entry.shard));
        if let Some(reshard) = reshard {
            judge_moving(metadata, key, reshard, &mut at_home, &mut verdict);
        }
        // What readers pass over, in a random collection: they return the lowest shard's.
        for entry in at_home.iter().skip(1) {
            verdict.wrong.push(wrong(FindingKind::Duplicate, *entry, None));
        }
        // Of several that are all away from home the one that was moved or written last goes home.
        strays.sort_by_key(|entry| std::cmp::Reverse(entry.generation));
        let mut has_home = !at_home.is_empty();
        for entry in &strays {
            verdict.wrong.push(if has_home {
                wrong(FindingKind::Duplicate, *entry, Some(Remedy::RemoveCopy))
            } else {
                wrong(FindingKind::Misplaced, *entry, Some(Remedy::Move))
            });
            has_home = true;
        }
        verdict.live.extend(at_home.into_iter().chain(strays));

        for marker in entries.iter().filter(|entry| !entry.live) {
            if self.accounts_for_marker(key, marker) {
                verdict.markers += 1;
            } else {
                let remedy = Some(Remedy::RemoveMarker);
                verdict.wrong.push(wrong(FindingKind::StrayMarker, *marker, remedy));
            }
        }
        verdict.has_left = reshard.is_some()
            && verdict.live.is_empty()
            && entries.iter().any(|entry| !entry.live && entry.generation == generation);
        verdict
    }

    /// Whether a running reshard, or the removal of markers behind one, is going to take the marker
    /// away.
    fn accounts_for_marker(&self, key: &ItemKey, marker: &Entry) -> bool {
        if !self.metadata.needs_rebalancing() {
            return false;
        }
        let Some(job) = &self.job else {
            // It was removed between the two reads, and its metadata will not be found the same
            // again.
            return true;
        };
        let removal_has_passed = job.closed_seen.is_some()
            && (job.done.contains(&marker.shard)
                || job.under_way.get(&marker.shard).is_some_and(|behind| key.sort <= *behind));
        let is_marked = |marked: ShardRange| (marked.first..=marked.last).contains(&marker.shard);
        marker.generation <= job.generation
            && job.marked.is_some_and(is_marked)
            && job.marked_within.contains(&key.sort)
            && !removal_has_passed
    }
}

/// As [`View::homes`], by what holds of the item.
fn homes(metadata: &CollectionMetadata, key: &ItemKey) -> (ShardId, Option<ShardId>) {
    let home = home_or_spread(metadata.placement, key, metadata.layout().writable);
    let old = metadata.reshard().and_then(|reshard| reshard.homes(key));
    (home, old.map(|(old, _)| old))
}

/// What a running reshard accounts for. Leaves in `at_home` what is to be counted.
fn judge_moving(
    metadata: &CollectionMetadata,
    key: &ItemKey,
    reshard: Reshard,
    at_home: &mut Vec<Entry>,
    verdict: &mut Verdict,
) {
    let new = reshard.new_home(key);
    let leaves = |entry: &Entry| reshard.leaves(key, entry.shard);
    verdict.waits_to_move = at_home.iter().any(leaves);
    let arrived = at_home.iter().copied().find(|entry| entry.shard == new);
    let (true, Some(arrived)) = (verdict.waits_to_move, arrived) else {
        return;
    };
    if arrived.generation == metadata.generation {
        // The move was seen half done, or a put went past what lies at the old home, or that
        // came late: the new one wins, and the mover sees to it.
        if arrived.may_expire && metadata.placement.is_calculated() {
            let hidden = at_home.iter().copied().filter(leaves);
            verdict.wrong.extend(hidden.map(|entry| Wrong {
                kind: FindingKind::HiddenByExpiring,
                entry,
                home: Some(new),
                remedy: Some(Remedy::Settle),
            }));
        }
        at_home.retain(|entry| !leaves(entry));
    } else if metadata.placement.is_calculated() {
        // What lay at the new home before the reshard began did not belong to this collection:
        // it is in the way of the one that is to come.
        at_home.retain(|entry| entry.shard != new);
        verdict.live.push(arrived);
        verdict.wrong.push(Wrong {
            kind: FindingKind::Duplicate,
            entry: arrived,
            home: Some(new),
            remedy: Some(Remedy::RemoveCopy),
        });
    }
}

/// Whether an item in this shard counts for readers.
fn may_hold(metadata: &CollectionMetadata, key: &ItemKey, shard: ShardId) -> bool {
    let placement = metadata.placement;
    if !placement.is_calculated() {
        return placement.shards(metadata.layout().readable).any(|readable| readable == shard);
    }
    match metadata.reshard() {
        Some(reshard) => reshard.may_hold(key, shard),
        None => placement.home(key, metadata.number_of_shards) == Some(shard),
    }
}
