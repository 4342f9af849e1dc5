//! The job of a change of a shard count: all that it waits for, and how far it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dynashard_keys::{PartitionKey, ShardCount, ShardId, SortKey, SortKeyType};

use crate::model::contradiction::Contradiction;
use crate::model::epochs::Interval;
use crate::model::metadata::{CollectionMetadata, Phase, Reshard};
use crate::model::reshard::claims::{Claim, LaneKey};
use crate::model::reshard::position::share_behind;
use crate::model::reshard::time::{ServerTime, Waits};
use crate::model::version::Generation;

/// What a change of the shard count waits for and how far it has come, in an item of its own beside
/// the metadata, so that readers never pay for it (protocol: "Job item").
///
/// Nothing that a controller waits for is held in its memory only: one that is killed every few
/// seconds still closes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The logical partition key.
    pub partition: PartitionKey,
    /// The generation of the reshard.
    pub generation: Generation,
    /// The optimistic lock: every change of this item raises it.
    pub rev: u64,
    /// The old count.
    pub from: ShardCount,
    /// The new count.
    pub to: ShardCount,
    /// The sort keys whose items it moves: those of one epoch.
    pub within: Interval,
    /// The count to go on to when this reshard has closed, if the operator has turned it round.
    pub then: Option<ShardCount>,
    /// When the reshard was begun, in epoch seconds of the wall clock; for reports.
    pub started_secs: u64,
    /// When a strong read first saw `forward`.
    pub forward_seen: Option<ServerTime>,
    /// When a strong read first saw `move`.
    pub move_seen: Option<ServerTime>,
    /// For how long after that requests from before live, by what was pinned then: they outlive a shorter T or H that is pinned
    /// later.
    pub old_requests: Option<Duration>,
    /// Whether the scan began when no request from before `move` could be executed any more.
    pub closing: bool,
    /// The number of the scan, from 1.
    pub scan: u32,
    /// Source shards that the scan, or the removal of markers, has come to the end of.
    pub done: BTreeSet<ShardId>,
    /// Source shards that are under way, and the last sort key that is behind each.
    pub under_way: BTreeMap<ShardId, SortKey>,
    /// The first and the last sort key of each of them, as the scan found them; for reports.
    pub spans: BTreeMap<ShardId, [SortKey; 2]>,
    /// When the scan began, if it is not the first one.
    pub scan_began: Option<ServerTime>,
    /// Who is at work on which of the sources that are not done, or was last.
    pub claims: BTreeMap<ShardId, Claim>,
    /// The last lane that was ever called, or 0: so many are to be removed at the end.
    pub last_lane: u32,
    /// Until when those that were called last are waited for.
    pub called_until: Option<ServerTime>,
    /// When the closing scan had come to its end.
    pub scanned: Option<ServerTime>,
    /// When a strong read first saw the reshard closed.
    pub closed_seen: Option<ServerTime>,
    /// The shards that may hold markers: those that items left, and what the removal of an earlier
    /// reshard's had not come to. None where nothing moves.
    pub marked: Option<ShardRange>,
    /// The sort keys under which they may (invariant I42).
    pub marked_within: Interval,
    /// Items moved so far, by all scans.
    pub items_moved: u64,
    /// The items behind the scan that DynamoDB rejects at their new homes, by the shard in which each lies, and
    /// why: at most [`MAX_UNMOVABLE`] of them. While there are any, the reshard does not close.
    pub unmovable: BTreeMap<(ShardId, SortKey), String>,
    /// The write units a second that this change alone may take for moving and for removing markers, if an operator has said so:
    /// in place of [`Settings::mover_wcu`](crate::model::settings::Settings::mover_wcu).
    pub mover_wcu: Option<u32>,
    /// Whether an operator has paused it: nothing moves, and no markers go, until somebody resumes it.
    pub paused: bool,
    /// Whether the controller that wrote this has stopped, so that the next slice may begin. The
    /// stream passes only such changes on.
    pub yielded: bool,
}

/// How many items that cannot be moved a job notes. A scan stops in front of the next one: every item behind it
/// has to be moved or noted.
pub const MAX_UNMOVABLE: usize = 64;

/// So much is noted of each reason: with the longest keys the item stays below 400 KB.
const MAX_REASON_CHARS: usize = 300;

/// A range of shards by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShardRange {
    /// The first.
    pub first: ShardId,
    /// The last, included.
    pub last: ShardId,
}

impl ShardRange {
    /// The range from the first of these shards to the last.
    fn spanning(shards: impl Iterator<Item = ShardId> + Clone) -> Option<Self> {
        Some(Self { first: shards.clone().min()?, last: shards.max()? })
    }

    /// The smallest range that holds both.
    #[must_use]
    fn with(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }

    /// Each of the shards.
    pub fn shards(self) -> impl Iterator<Item = ShardId> + Clone {
        (self.first.get()..=self.last.get()).map(ShardId::new)
    }
}

impl Job {
    /// What comes before the logical partition key in the key of a job's item. Logical partition
    /// keys that begin so are refused, so it is nobody's collection. Must be kept stable.
    pub const KEY_PREFIX: &str = "_ds_job#";

    /// The job of a change of the shard count that begins with `begun`, or `None` where that is in
    /// another phase. `before` is the job that it takes the place of.
    pub(crate) fn new(
        begun: &CollectionMetadata,
        before: Option<&Self>,
        now_secs: u64,
    ) -> Option<Self> {
        let Phase::Forward { from, to } = begun.phase else {
            return None;
        };
        let sources = begun.reshard().and_then(|reshard| ShardRange::spanning(reshard.sources()));
        let left = before.and_then(|before| before.marked);
        let within = begun.epochs.changing_interval();
        let left_within = before.filter(|_| left.is_some()).map(|before| &before.marked_within);
        Some(Self {
            partition: begun.partition.clone(),
            generation: begun.generation,
            rev: before.map_or(1, |before| before.rev + 1),
            from,
            to,
            marked_within: left_within.map_or_else(|| within.clone(), |left| within.hull(left)),
            within,
            then: None,
            started_secs: now_secs,
            forward_seen: None,
            move_seen: None,
            old_requests: None,
            closing: false,
            scan: 1,
            done: BTreeSet::new(),
            under_way: BTreeMap::new(),
            spans: BTreeMap::new(),
            scan_began: None,
            claims: BTreeMap::new(),
            last_lane: before.map_or(0, |before| before.last_lane),
            called_until: None,
            scanned: None,
            closed_seen: None,
            marked: match (sources, left) {
                (Some(sources), Some(left)) => Some(sources.with(left)),
                (sources, left) => sources.or(left),
            },
            items_moved: 0,
            unmovable: BTreeMap::new(),
            // The way back goes as fast as its operator has said.
            mover_wcu: before.filter(|before| before.then == Some(to)).and_then(|of| of.mover_wcu),
            paused: false,
            yielded: false,
        })
    }

    /// What is said of a job with this contradiction.
    pub(crate) fn damaged(&self, contradiction: &Contradiction) -> String {
        format!("the job item of {:?} is damaged: {contradiction}", self.partition)
    }

    /// Whether the fields fit each other and what is stored in the table. What a controller has
    /// written always does; what somebody has changed by hand may not, and items would be moved to
    /// where nobody looks for them.
    pub(crate) fn check(&self, sort_key: SortKeyType) -> Result<(), Contradiction> {
        if self.from == self.to {
            return Err(Contradiction::new("to", format!("{} is from, too", self.to)));
        }
        if let Some(then) = self.then.filter(|then| *then != self.from) {
            let why =
                format!("{then} differs from `from`, {}, the only count to go back to", self.from);
            return Err(Contradiction::new("then", why));
        }
        if let Some(ShardRange { first, last }) = self.marked {
            if last < first {
                let why = format!("{last} is below marked_first, {first}");
                return Err(Contradiction::new("marked_last", why));
            }
            if last.get() > ShardCount::MAX {
                return Err(Contradiction::new(
                    "marked_last",
                    format!("{last} is above the largest shard"),
                ));
            }
        }
        let known = |shard: &ShardId| {
            self.marked.is_some_and(|marked| (marked.first..=marked.last).contains(shard))
        };
        let scanned = self.done.iter().map(|shard| ("done", shard));
        let under_way = self.under_way.keys().map(|shard| ("under_way", shard));
        let claimed = self.claims.keys().map(|shard| ("claims", shard));
        let unmovable = self.unmovable.keys().map(|(shard, _)| ("unmovable", shard));
        let mut named = scanned.chain(under_way).chain(claimed).chain(unmovable);
        if let Some((field, shard)) = named.find(|(_, shard)| !known(shard)) {
            let why = format!("shard {shard} is not one of those from marked_first to marked_last");
            return Err(Contradiction::new(field, why));
        }
        if let Some(shard) = self.under_way.keys().find(|shard| self.done.contains(shard)) {
            return Err(Contradiction::new("under_way", format!("shard {shard} is done, too")));
        }
        let spans = self.spans.values().flatten().map(|key| ("spans", key));
        let unmovable = self.unmovable.keys().map(|(_, key)| ("unmovable", key));
        let under_way = self.under_way.values().map(|key| ("under_way", key));
        let Interval { after, until } = &self.within;
        let within = after.iter().chain(until).map(|key| ("within", key));
        let Interval { after, until } = &self.marked_within;
        let marked = after.iter().chain(until).map(|key| ("marked_within", key));
        let mut keys = under_way.chain(spans).chain(unmovable).chain(within).chain(marked);
        if let Some((field, _)) = keys.find(|(_, key)| !key.is(sort_key)) {
            return Err(Contradiction::new(field, "holds a sort key of another type"));
        }
        if self.last_lane > LaneKey::LAST {
            let why =
                format!("{} is above {}, the last that there is", self.last_lane, LaneKey::LAST);
            return Err(Contradiction::new("last_lane", why));
        }
        if self.scanned.is_some() && !self.closing {
            return Err(Contradiction::new("scanned", "is there, although closing is false"));
        }
        Ok(())
    }

    /// The shards that may hold markers.
    pub(crate) fn marked_shards(&self) -> impl Iterator<Item = ShardId> + Clone {
        self.marked.into_iter().flat_map(ShardRange::shards)
    }

    /// The job with a new scan begun.
    #[must_use]
    pub(crate) fn with_scan(&self, closing: bool, now: ServerTime) -> Self {
        Self {
            scan: self.scan + 1,
            closing,
            done: BTreeSet::new(),
            under_way: BTreeMap::new(),
            spans: BTreeMap::new(),
            claims: BTreeMap::new(),
            scan_began: Some(now),
            scanned: None,
            ..self.clone()
        }
    }

    /// Notes an item that cannot be moved. Returns whether there was room for it.
    pub(crate) fn note_unmovable(&mut self, shard: ShardId, sort: &SortKey, why: &str) -> bool {
        let at = (shard, sort.clone());
        let has_room = self.unmovable.len() < MAX_UNMOVABLE || self.unmovable.contains_key(&at);
        if has_room {
            self.unmovable.insert(at, why.chars().take(MAX_REASON_CHARS).collect());
        }
        has_room
    }

    /// Whether the scan has come to the end of all these shards.
    pub fn has_scanned(&self, mut shards: impl Iterator<Item = ShardId>) -> bool {
        shards.all(|shard| self.done.contains(&shard))
    }

    /// When no request from before `move`, which was first seen at `seen`, can be executed any more.
    pub(crate) fn requests_end(&self, seen: ServerTime, waits: Waits) -> ServerTime {
        seen.plus(waits.old_requests().max(self.old_requests.unwrap_or_default()))
    }

    /// How far the reshard is, for people.
    pub fn progress(&self, reshard: &Reshard, waits: Waits, now: ServerTime) -> Progress {
        let total = reshard.sources().len();
        let done = self.done.len().min(total);
        let closes_not_before = self.move_seen.map(|seen| {
            let scan_begins = self.requests_end(seen, waits);
            scan_begins.plus(waits.before_close())
        });
        let wait_secs = closes_not_before.map(|at| at.0.saturating_sub(now.0));
        let share = self.share_done(total);
        // Shards hold about as much as each other, so what is behind the scan tells of what is to come.
        let scan_secs = self.scan_began.or(self.move_seen).filter(|_| share > 0.0).map(|began| {
            let elapsed = Duration::from_secs(now.0.saturating_sub(began.0));
            elapsed.mul_f64(((1.0 - share) / share).min(LONGEST_TO_ELAPSED)).as_secs()
        });
        // The close waits for replicas after the end of the closing scan.
        let after_scan = if self.closing { waits.before_close().as_secs() } else { 0 };
        let eta_secs = match (wait_secs, scan_secs) {
            _ if self.paused => None,
            (Some(wait), Some(scan)) => Some(wait.max(scan.saturating_add(after_scan))),
            _ => None,
        };
        Progress {
            source_shards: total,
            source_shards_done: done,
            percent_done: percent(share),
            closes_not_before,
            eta_secs,
        }
    }

    /// How much of `total` source shards the scan has behind it, from 0 to 1.
    fn share_done(&self, total: usize) -> f64 {
        let begun = self
            .under_way
            .iter()
            .filter_map(|(shard, behind)| Some(share_behind(self.spans.get(shard)?, behind)));
        let done = begun.sum::<f64>() + f64::from(count_of(self.done.len().min(total)));
        (done / f64::from(count_of(total.max(1)))).min(1.0)
    }

    /// Notes how far the scan has come in one shard: behind this sort key, or to its end. The first
    /// time, `span` are the first and the last sort key of the shard.
    pub(crate) fn note(
        &mut self,
        shard: ShardId,
        last: Option<SortKey>,
        span: Option<[SortKey; 2]>,
    ) {
        if let Some(last) = last {
            self.under_way.insert(shard, last);
            self.spans.extend(span.map(|span| (shard, span)));
        } else {
            self.under_way.remove(&shard);
            self.spans.remove(&shard);
            self.claims.remove(&shard);
            self.done.insert(shard);
        }
    }
}

/// How far a reshard is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The shards that items leave, or may leave.
    pub source_shards: usize,
    /// Those of them that the present scan has come to the end of.
    pub source_shards_done: usize,
    /// How much of the sources the present scan has behind it, in hundredths. Within a shard its sort
    /// keys are taken to be spread evenly.
    pub percent_done: u32,
    /// When the reshard closes at the earliest, whatever there is to move.
    pub closes_not_before: Option<ServerTime>,
    /// In how many seconds it closes, as far as can be told; `None` until the scan has come somewhere, and while it is paused.
    pub eta_secs: Option<u64>,
}

/// No estimate says that what is left takes more times as long as what is done: with less behind it
/// there is nothing to estimate from.
const LONGEST_TO_ELAPSED: f64 = 1e6;

fn count_of(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn percent(share: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1")]
    let percent = (share * 100.0) as u32;
    percent
}
