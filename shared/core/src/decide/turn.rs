//! How the sources of a scan are shared out among the calls that work on them (protocol: "Taking turns",
//! "Side by side").

use std::collections::BTreeSet;
use std::time::Duration;

use dynashard_keys::{ShardId, SortKey};

use crate::model::reshard::{Claim, Job, LaneKey, ServerTime};

/// One call of a rebalancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Worker {
    /// Drawn for the call.
    pub(crate) id: u64,
    /// What called it.
    pub(crate) lane: u32,
}

/// How many source shards are gone through at a time, at most. The job notes up to three sort keys of each
/// of them, of 1 KB at most, and an item takes 400 KB. A page of each, of 1 MB, is held in memory.
const SOURCES_AT_ONCE: usize = 32;

/// The least share of a source, in write units a second: what is shared into less moves nothing for
/// seconds, and a claim lapses meanwhile.
const LEAST_SHARE_WCU: f64 = 40.0;

/// For how long a claim holds at least: longer than a round, which renews it, usually takes.
const CLAIM: Duration = Duration::from_secs(5);

/// How the sources that are left share what the operator allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share {
    /// The write units a second for each, at all of its items' homes.
    pub(crate) wcu_each: f64,
    /// How many of them are gone through at a time.
    pub(crate) side_by_side: usize,
    /// How many of these one call takes on.
    pub(crate) each_takes: usize,
}

impl Share {
    /// The share of each of `left` sources, of which a move or removal takes `wcu` write units.
    /// `most_each` says what the partition of a source allows of a share.
    ///
    /// It follows from what is left alone, so that all who work side by side come to the same result
    /// and keep to the sum, and nobody has to hand anything over.
    pub(crate) fn of(
        all_wcu: f64,
        moves_per_call: u32,
        left: usize,
        wcu: f64,
        most_each: impl Fn(f64) -> f64,
    ) -> Self {
        let worth_while = whole(all_wcu / LEAST_SHARE_WCU);
        let side_by_side = left.min(SOURCES_AT_ONCE).min(worth_while).max(1);
        let wcu_each = most_each(all_wcu / float(side_by_side));
        let per_sec = (wcu_each / wcu).max(f64::MIN_POSITIVE);
        let each_takes = whole(f64::from(moves_per_call) / per_sec).clamp(1, side_by_side);
        Self { wcu_each, side_by_side, each_takes }
    }
}

fn whole(n: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let n = n.floor().clamp(0.0, f64::from(u32::MAX)) as usize;
    n
}

fn float(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

/// What one call may do about a scan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Turn {
    /// These shards are its own. Each comes with the last sort key that is behind the scan in it, and with
    /// its pace.
    Work(Vec<Source>),
    /// First this job is to be written, in which it claims some.
    Claim {
        /// The job with the claims.
        job: Box<Job>,
        /// Lanes that are to be called, since some would still be left.
        lanes: Vec<u32>,
    },
    /// Others have claimed all that is left, until this time at most if they are dead.
    Wait(ServerTime),
    /// Nothing is left that does not fail.
    Nothing,
}

/// A shard that a call goes through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) shard: ShardId,
    /// The last sort key that is done with.
    pub(crate) after: Option<SortKey>,
    /// The pace at which the one before went, if there was one.
    pub(crate) wcu: Option<u32>,
}

impl Job {
    /// What a call may do about the scan of `shards` at this time, if they are shared so, and it leaves
    /// out those that have failed it.
    pub(crate) fn turn(
        &self,
        worker: Worker,
        shards: impl Iterator<Item = ShardId>,
        failed: &BTreeSet<ShardId>,
        share: Share,
        now: ServerTime,
    ) -> Turn {
        let (mut own, mut free, mut held) = (Vec::new(), Vec::new(), Vec::new());
        for shard in self.left(shards, failed) {
            match self.claims.get(&shard) {
                Some(claim) if claim.worker == worker.id => own.push(shard),
                Some(claim) if claim.until > now => held.push(claim),
                _ => free.push(shard),
            }
        }
        let most = share.each_takes;
        let room = share.side_by_side.saturating_sub(own.len() + held.len());
        if room == 0 || free.is_empty() || own.len() >= most {
            if !own.is_empty() {
                // There may be more of them than go side by side since an operator has lowered the rate.
                own.truncate(share.side_by_side.saturating_sub(held.len()).max(1));
                return Turn::Work(own.into_iter().map(|shard| self.source(shard)).collect());
            }
            // Whoever is dead has not renewed any of its claims by then.
            let lapses = held.iter().map(|claim| claim.until).max();
            return lapses.map_or(Turn::Nothing, Turn::Wait);
        }
        // What somebody has begun with goes first.
        free.sort_by_key(|shard| !self.under_way.contains_key(shard));
        free.truncate(room);
        let rest = free.split_off(free.len().min(most - own.len()));
        let mut job = self.clone();
        for shard in free {
            job.renew(worker, shard, self.claims.get(&shard).map_or(0, |claim| claim.wcu), now);
        }
        let is_busy = |lane: &u32| held.iter().any(|claim| claim.lane == *lane);
        let lanes = (1..=LaneKey::LAST).filter(|lane| *lane != worker.lane && !is_busy(lane));
        // Those that were called a moment ago have not come to claim anything yet.
        let are_called = job.called_until.is_some_and(|until| until > now);
        let wanted = if are_called { 0 } else { rest.len().div_ceil(most) };
        let lanes = lanes.take(wanted).collect::<Vec<_>>();
        if let Some(last) = lanes.last() {
            job.last_lane = job.last_lane.max(*last);
            job.called_until = Some(now.plus(CLAIM));
        }
        Turn::Claim { job: Box::new(job), lanes }
    }

    /// The shards that the scan has not come to the end of, but for those that have failed.
    fn left(
        &self,
        shards: impl Iterator<Item = ShardId>,
        failed: &BTreeSet<ShardId>,
    ) -> impl Iterator<Item = ShardId> {
        shards.filter(|shard| !self.done.contains(shard) && !failed.contains(shard))
    }

    /// Notes that a call is at work on a shard, at this pace.
    pub(crate) fn renew(&mut self, worker: Worker, shard: ShardId, wcu: u32, now: ServerTime) {
        let Worker { id, lane } = worker;
        let until = now.plus(CLAIM);
        self.claims.insert(shard, Claim { worker: id, lane, until, wcu });
    }

    /// Ends the claims of a call. The paces stay, for whoever is next.
    pub(crate) fn release(&mut self, worker: Worker) {
        for claim in self.claims.values_mut().filter(|claim| claim.worker == worker.id) {
            claim.until = ServerTime(0);
        }
    }

    fn source(&self, shard: ShardId) -> Source {
        Source {
            shard,
            after: self.under_way.get(&shard).cloned(),
            wcu: self.claims.get(&shard).map(|claim| claim.wcu).filter(|wcu| *wcu > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use dynashard_keys::{PartitionKey, Placement, ShardCount};
    use proptest::prelude::{ProptestConfig, prop_assert, proptest};

    use super::*;
    use crate::model::metadata::CollectionMetadata;
    use crate::model::transitions::Next;

    const NOW: ServerTime = ServerTime(1_000);
    const SHARE: Share = Share { wcu_each: 400.0, side_by_side: 8, each_takes: 2 };

    /// The job of a growth from this many shards.
    fn job(from: u32) -> Job {
        let partition = PartitionKey::new("EWR").expect("pk");
        let count = |n| ShardCount::new(n).expect("count");
        let before = CollectionMetadata::stable(partition, Placement::Xxh64, count(from), 1);
        Job::new(&Next::after(&before, 2).forward(None, count(4 * from)), None, 2)
            .expect("a change begins")
    }

    fn worker(id: u64, lane: u32) -> Worker {
        Worker { id, lane }
    }

    fn turn(job: &Job, worker: Worker, share: Share, now: ServerTime) -> Turn {
        let shards = job.marked_shards().collect::<Vec<_>>();
        job.turn(worker, shards.into_iter(), &BTreeSet::new(), share, now)
    }

    fn claimed(turn: Turn) -> (Job, Vec<u32>) {
        match turn {
            Turn::Claim { job, lanes } => (*job, lanes),
            other => panic!("{other:?}"),
        }
    }

    fn shards_of(turn: &Turn) -> Vec<u32> {
        match turn {
            Turn::Work(sources) => sources.iter().map(|source| source.shard.get()).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn claims_of_the_dead_lapse_and_those_of_the_living_do_not() {
        let (one, other) = (worker(1, 0), worker(2, 1));
        let (first, _) = claimed(turn(&job(4), one, SHARE, NOW));
        assert_eq!(shards_of(&turn(&first, one, SHARE, NOW)), [0, 1]);
        let (both, _) = claimed(turn(&first, other, SHARE, NOW));
        assert_eq!(shards_of(&turn(&both, other, SHARE, NOW)), [2, 3]);
        let third = worker(3, 2);
        let lapses = NOW.plus(CLAIM);
        assert_eq!(turn(&both, third, SHARE, NOW), Turn::Wait(lapses));
        assert_eq!(turn(&both, third, SHARE, ServerTime(lapses.0 - 1)), Turn::Wait(lapses));
        // One of them has renewed its claims, and the other was killed.
        let mut renewed = both.clone();
        for shard in [0, 1] {
            renewed.renew(one, ShardId::new(shard), 77, ServerTime(NOW.0 + 2));
        }
        let (taken, _) = claimed(turn(&renewed, third, SHARE, lapses));
        assert_eq!(shards_of(&turn(&taken, third, SHARE, lapses)), [2, 3]);
    }

    /// A call that waited until the first claim lapsed found that renewed, left, and nobody but the sweep
    /// found what the dead had claimed a second later.
    #[test]
    fn regression_claims_of_the_dead_that_lapsed_later_were_not_waited_for() {
        let (one, dead) = (worker(1, 0), worker(2, 1));
        let (first, _) = claimed(turn(&job(4), one, SHARE, NOW));
        let (both, _) = claimed(turn(&first, dead, SHARE, ServerTime(NOW.0 + 2)));
        let lapses = ServerTime(NOW.0 + 2).plus(CLAIM);
        assert_eq!(turn(&both, worker(3, 2), SHARE, ServerTime(NOW.0 + 3)), Turn::Wait(lapses));
    }

    #[test]
    fn what_is_given_free_is_taken_up_at_the_pace_that_it_had_and_where_it_was() {
        let mut job = job(1);
        let sort = SortKey::string("UA1545").expect("sk");
        job.note(ShardId::new(0), Some(sort.clone()), None);
        job.renew(worker(1, 0), ShardId::new(0), 77, NOW);
        job.release(worker(1, 0));
        let (next, _) = claimed(turn(&job, worker(2, 0), SHARE, NOW));
        let source = Source { shard: ShardId::new(0), after: Some(sort), wcu: Some(77) };
        assert_eq!(turn(&next, worker(2, 0), SHARE, NOW), Turn::Work(vec![source]));
    }

    /// Each call that claimed called all lanes that were left, whoever had called them a moment before.
    #[test]
    fn regression_lanes_that_were_just_called_were_called_again() {
        let (first, lanes) = claimed(turn(&job(16), worker(1, 0), SHARE, NOW));
        assert_eq!(lanes, [1, 2, 3], "eight at a time, and two of them each");
        let (second, lanes) = claimed(turn(&first, worker(2, 1), SHARE, NOW));
        assert_eq!(lanes, [0; 0]);
        // The others have not come.
        let later = NOW.plus(CLAIM);
        let mut renewed = second;
        for (worker, shard) in [(worker(1, 0), 0), (worker(1, 0), 1), (worker(2, 1), 2)] {
            renewed.renew(worker, ShardId::new(shard), 1, later);
        }
        let (third, lanes) = claimed(turn(&renewed, worker(3, 2), SHARE, later));
        assert_eq!((lanes, third.last_lane), (vec![3, 4], 4));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_shares_of_all_who_work_side_by_side_never_exceed_the_whole(
            all in 4..100_000_u32,
            moves_per_call in 1..2_000_u32,
            left in 0..70_000_usize,
        ) {
            let all = f64::from(all);
            let share = Share::of(all, moves_per_call, left, 4.0, |wcu| wcu.min(1_600.0));
            prop_assert!(share.wcu_each * float(share.side_by_side) <= all * 1.000_001);
            prop_assert!((1..=SOURCES_AT_ONCE).contains(&share.each_takes));
            prop_assert!(share.each_takes <= share.side_by_side);
        }
    }
}
