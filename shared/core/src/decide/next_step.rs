//! The next step of a change of a shard count, from metadata, job and DynamoDB's time.

use std::time::Duration;

use crate::model::contradiction::Contradiction;
use crate::model::metadata::{CollectionMetadata, Phase};
use crate::model::reshard::{Job, ServerTime, Waits};

/// What a controller knows of time when it has read metadata and job strongly, in that order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Observation {
    /// DynamoDB's time, from the later answer.
    pub(crate) now: ServerTime,
    /// For how long this controller certainly has seen the metadata as it is, by the local clock that
    /// advanced least. Nothing for one that has just begun.
    pub(crate) unchanged_for: Duration,
}

/// What a controller is to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// Write into the job that `forward` was seen at this time.
    NoteForward(ServerTime),
    /// Publish `move`.
    Move,
    /// Write into the job that `move` was seen at this time, and for how long old requests live by what is pinned.
    NoteMove(ServerTime, Duration),
    /// Go on with the scan of the sources.
    Scan,
    /// Begin another scan of the sources from their start, closing or not.
    BeginScan {
        /// Whether no request from before `move` can be executed any more.
        closing: bool,
    },
    /// Leave it to a later call to move what cannot be moved now.
    TryAgainLater,
    /// Move and remove nothing until the operator resumes it.
    Paused,
    /// Write into the job that the closing scan had ended by this time.
    NoteScanned(ServerTime),
    /// Publish `stable`.
    Close,
    /// Write into the job that the close was seen at this time.
    NoteClosed(ServerTime),
    /// Go on with the removal of markers.
    RemoveMarkers,
    /// Remove the job, and the note of it from the metadata: nothing is left to do.
    Finish,
    /// Nothing may happen yet.
    Wait {
        /// Another controller may go on when DynamoDB's clock shows this time.
        until: ServerTime,
        /// This one may go on after so long, if that is sooner: it saw with its own eyes what is
        /// waited for.
        at_most: Option<Duration>,
    },
    /// Begin the reshard that the operator asked for meanwhile.
    TurnRound,
    /// The job is not one of this collection's reshard, or is ahead of the metadata, and nothing can
    /// be concluded from it. This field of it shows that.
    Mismatch(Contradiction),
}

/// Decides what is to be done next (protocol: "Phases").
///
/// Every wait counts from a strong read that saw what is waited for, and is written into the job as
/// `Date` headers tell it: the controller that waits need not be the one that began to. One that has
/// waited itself knows sooner, since two `Date`s prove up to two seconds less than a clock does.
pub(crate) fn next_step(
    metadata: &CollectionMetadata,
    job: &Job,
    observed: Observation,
    waits: Waits,
) -> NextStep {
    let Observation { now, unchanged_for } = observed;
    if let Err(contradiction) = job_fits(metadata, job) {
        return NextStep::Mismatch(contradiction);
    }
    // So long since what the metadata says was seen.
    let passed = |wait: Duration, seen: ServerTime| {
        if now.certainly_since(seen) >= wait || unchanged_for >= wait {
            return Ok(());
        }
        let at_most = wait.checked_sub(unchanged_for);
        Err(NextStep::Wait { until: seen.plus(wait), at_most })
    };
    match metadata.phase {
        Phase::Forward { .. } => match job.forward_seen {
            None => NextStep::NoteForward(now),
            Some(seen) => match passed(waits.leases_end, seen) {
                Err(wait) => wait,
                Ok(()) if metadata.reshard().is_none() => NextStep::Close,
                Ok(()) => NextStep::Move,
            },
        },
        Phase::Move { .. } => in_move(metadata, job, now, waits),
        Phase::Stable => match job.closed_seen {
            None => NextStep::NoteClosed(now),
            // V: a marker must not go while the transaction that made it is half visible, or a
            // query could miss the item. And T', before anything else begins.
            Some(seen) => match passed(markers_rest(job, waits), seen) {
                _ if job.then.is_some() => turn_round(seen, now, waits),
                Err(wait) => wait,
                Ok(()) if job.has_scanned(job.marked_shards()) => NextStep::Finish,
                Ok(()) if job.paused => NextStep::Paused,
                Ok(()) => NextStep::RemoveMarkers,
            },
        },
    }
}

/// Whether the job is that of the change which the metadata says is running.
fn job_fits(metadata: &CollectionMetadata, job: &Job) -> Result<(), Contradiction> {
    if job.generation != metadata.generation {
        let why = format!("{} beside metadata of {}", job.generation, metadata.generation);
        return Err(Contradiction::new("generation", why));
    }
    let phase = metadata.phase;
    let (from, to) = match phase {
        Phase::Forward { from, to } | Phase::Move { from, to } => (Some(from), to),
        // Of a collection with several epochs nothing tells which one had changed: it may be part of its neighbour by now.
        Phase::Stable if !job.within.is_all() => (None, job.to),
        Phase::Stable => (None, metadata.number_of_shards),
    };
    if phase != Phase::Stable && metadata.epochs.changing_interval() != job.within {
        let why = "other sort keys than those of the epoch that changes";
        return Err(Contradiction::new("within", why));
    }
    let beside = |count| format!("{count} in the metadata, which is in {}", phase.as_str());
    if let Some(from) = from.filter(|from| *from != job.from) {
        return Err(Contradiction::new("from", format!("{} beside {}", job.from, beside(from))));
    }
    if to != job.to {
        return Err(Contradiction::new("to", format!("{} beside {}", job.to, beside(to))));
    }
    // A job that is further than the phase shows that the phase is over: the metadata was read
    // first. What a scan of `move` notes must not count for the removal of markers.
    let ahead = match phase {
        Phase::Forward { .. } => [
            ("move_seen", job.move_seen.is_some()),
            ("closing", job.closing),
            ("done", !job.done.is_empty()),
            ("under_way", !job.under_way.is_empty()),
            ("closed_seen", job.closed_seen.is_some()),
        ]
        .into_iter()
        .find_map(|(field, is_there)| is_there.then_some(field)),
        Phase::Move { .. } if job.closing && job.move_seen.is_none() => Some("closing"),
        Phase::Move { .. } => job.closed_seen.map(|_| "closed_seen"),
        Phase::Stable => (!metadata.cleanup_pending).then_some("closed_seen"),
    };
    match ahead {
        None => Ok(()),
        Some(field) => {
            let why = format!("the job is ahead of the metadata, which is in {}", phase.as_str());
            Err(Contradiction::new(field, why))
        }
    }
}

/// What passes before markers go, or before a change that left none is over.
fn markers_rest(job: &Job, waits: Waits) -> Duration {
    let has_markers = job.marked_shards().next().is_some();
    if has_markers { waits.visible() } else { waits.leases_end }
}

/// Another change begins on the evidence of the job alone, whoever begins it.
fn turn_round(closed_seen: ServerTime, now: ServerTime, waits: Waits) -> NextStep {
    let until = closed_seen.plus(waits.leases_end);
    if now < until { NextStep::Wait { until, at_most: None } } else { NextStep::TurnRound }
}

fn in_move(metadata: &CollectionMetadata, job: &Job, now: ServerTime, waits: Waits) -> NextStep {
    let Some(reshard) = metadata.reshard() else {
        let why = "the metadata is in move, but its change moves nothing";
        return NextStep::Mismatch(Contradiction::new("to", why));
    };
    let Some(seen) = job.move_seen else {
        return NextStep::NoteMove(now, waits.old_requests());
    };
    if !job.has_scanned(reshard.sources()) {
        return if job.paused { NextStep::Paused } else { NextStep::Scan };
    }
    let late_requests_are_over = job.requests_end(seen, waits);
    // H may have been raised since a closing scan began.
    let is_late_enough = |began| began >= late_requests_are_over;
    if !(job.closing && job.scan_began.is_none_or(is_late_enough)) {
        // What ran into the sources while they were scanned is found by a scan that began later.
        return if now >= late_requests_are_over {
            NextStep::BeginScan { closing: true }
        } else {
            NextStep::Wait { until: late_requests_are_over, at_most: None }
        };
    }
    match job.scanned {
        None if !job.unmovable.is_empty() => NextStep::TryAgainLater,
        None => NextStep::NoteScanned(now),
        Some(scanned) if now.certainly_since(scanned) >= waits.before_close() => NextStep::Close,
        Some(scanned) => {
            NextStep::Wait { until: scanned.plus(waits.before_close()), at_most: None }
        }
    }
}

#[cfg(test)]
mod tests {
    use dynashard_keys::{PartitionKey, Placement, ShardCount, ShardId};

    use super::*;
    use crate::model::transitions::Next;

    const WAITS: Waits = Waits {
        leases_end: Duration::from_secs(6),
        request_lifetime: Duration::from_secs(20),
        signature_age: Duration::ZERO,
    };

    /// A collection that grows from one shard to two, and the job of it.
    fn begun(placement: Placement) -> (CollectionMetadata, Job) {
        let partition = PartitionKey::new("EWR").expect("pk");
        let two = ShardCount::new(2).expect("count");
        let stable = CollectionMetadata::stable(partition, placement, ShardCount::ONE, 1_000);
        let begun = Next::after(&stable, 2_000).forward(None, two);
        let job = Job::new(&begun, None, 2_000).expect("a change begins");
        (begun, job)
    }

    /// Invariants I8, I11.
    #[test]
    fn who_waited_without_a_break_goes_on_when_the_time_has_passed_and_others_when_dates_prove_it()
    {
        for (placement, next) in
            [(Placement::Xxh64, NextStep::Move), (Placement::Random, NextStep::Close)]
        {
            let (begun, first) = begun(placement);
            let job = Job { forward_seen: Some(ServerTime(2_000)), ..first };
            let at = |now: u64, unchanged_for: u64| {
                let unchanged_for = Duration::from_secs(unchanged_for);
                next_step(&begun, &job, Observation { now: ServerTime(now), unchanged_for }, WAITS)
            };
            let until = ServerTime(2_007);
            let wait = |secs| NextStep::Wait { until, at_most: Some(Duration::from_secs(secs)) };
            assert_eq!(at(2_000, 0), wait(6));
            assert_eq!(at(2_005, 5), wait(1));
            assert_eq!(at(2_006, 6), next, "it saw so itself");
            assert_eq!(at(2_006, 0), wait(6), "a second less is certain");
            assert_eq!(at(2_007, 0), next);
        }
    }

    /// The close came V after the last item had arrived at its new home, and an eventually consistent read of a replica that
    /// lagged by more did not find an item that had been there for days.
    #[test]
    fn regression_the_close_did_not_wait_for_replicas() {
        let (begun, first) = begun(Placement::Xxh64);
        let moving = Next::after(&begun, 2_010).moving().expect("it is in forward");
        let scanned = Some(ServerTime(4_000));
        let done = [ShardId::new(0)].into();
        let job = Job { move_seen: Some(ServerTime(2_010)), closing: true, done, scanned, ..first };
        for (lifetime, wait) in [(20, 6), (960, 30), (320, 10)] {
            let waits = Waits { request_lifetime: Duration::from_secs(lifetime), ..WAITS };
            let at = |secs: u64| {
                let now =
                    Observation { now: ServerTime(4_000 + secs), unchanged_for: Duration::ZERO };
                next_step(&moving, &job, now, waits)
            };
            assert_eq!(at(wait + 1), NextStep::Close, "with H of {lifetime} s");
            assert!(matches!(at(wait), NextStep::Wait { .. }), "with H of {lifetime} s");
        }
    }

    /// A rebalancer read the metadata before the close and the job after it. Its empty scan was
    /// noted as the removal of the markers, and they stayed.
    /// Invariant I21.
    #[test]
    fn regression_a_scan_of_move_counted_as_the_removal_of_markers() {
        let (begun, first) = begun(Placement::Xxh64);
        let moving = Next::after(&begun, 2_010).moving().expect("it is in forward");
        let job = Job { move_seen: Some(ServerTime(2_010)), ..first };
        let now = Observation { now: ServerTime(2_100), unchanged_for: Duration::ZERO };
        assert_eq!(next_step(&moving, &job, now, WAITS), NextStep::Scan);
        let closed = Job { closed_seen: Some(ServerTime(2_050)), ..job.clone() };
        let contradicts = |metadata, job| match next_step(metadata, job, now, WAITS) {
            NextStep::Mismatch(contradiction) => Some(contradiction.field),
            _ => None,
        };
        assert_eq!(contradicts(&moving, &closed), Some("closed_seen"));
        assert_eq!(contradicts(&begun, &job), Some("move_seen"));
    }
}
