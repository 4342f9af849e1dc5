use std::time::Duration;

use crate::Settings;
use crate::lease::settle_time;
use crate::metadata::{CollectionMetadata, Phase};
use crate::reshard::{Job, ServerTime};

/// The waits of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// T': no lease outlives a change of metadata by more. Also V: how long after a transaction both
    /// its halves are visible.
    pub settle: Duration,
    /// H: how long after its signing a request may still be executed.
    pub request_lifetime: Duration,
}

impl Waits {
    /// The waits under these settings.
    pub fn of(settings: &Settings) -> Self {
        Self {
            settle: settle_time(settings.lease_term),
            request_lifetime: settings.request_lifetime,
        }
    }
}

/// What a controller is to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// Write into the job that `forward` was seen at this time.
    NoteForward(ServerTime),
    /// Publish `move`.
    Move,
    /// Write into the job that `move` was seen at this time.
    NoteMove(ServerTime),
    /// Go on with the scan of the sources.
    Scan,
    /// Begin another scan of the sources from their start, closing or not.
    BeginScan {
        /// Whether no request from before `move` can be executed any more.
        closing: bool,
    },
    /// Write into the job that the closing scan had ended by this time.
    NoteScanned(ServerTime),
    /// Publish `stable`.
    Close,
    /// Write into the job that the close was seen at this time.
    NoteClosed(ServerTime),
    /// Go on with the removal of markers.
    RemoveMarkers,
    /// Take the note off the metadata that markers may be left.
    Clear,
    /// Remove the job: nothing is left to do.
    Finish,
    /// Nothing may happen before DynamoDB's clock shows this time.
    WaitUntil(ServerTime),
    /// Begin the reshard that the operator asked for meanwhile.
    TurnRound,
    /// The job is not one of this collection's reshard, or is ahead of the metadata, and nothing can
    /// be concluded from it.
    Mismatch,
}

/// Decides what is to be done next (protocol: "Phases"). `now` is DynamoDB's time as of the strong
/// reads of `metadata` and `job`, in that order.
///
/// Every wait counts from a strong read that saw what is waited for, by `Date` headers alone: the
/// controller that waits need not be the one that began to.
pub fn plan(metadata: &CollectionMetadata, job: &Job, now: ServerTime, waits: Waits) -> NextStep {
    // Markers may be left when a random collection has grown since, which takes no job.
    let belongs = match metadata.phase {
        Phase::Stable => job.generation <= metadata.generation,
        // A job that is further than the phase shows that the phase is over: the metadata was read
        // first. What a scan of `move` notes must not count for the removal of markers.
        Phase::Forward { .. } => job.generation == metadata.generation && job.move_seen.is_none(),
        Phase::Move { .. } => job.generation == metadata.generation && job.closed_seen.is_none(),
    };
    if !belongs {
        return NextStep::Mismatch;
    }
    let waited = |since: ServerTime, wait: Duration| {
        if now.certainly_since(since) >= wait { Ok(()) } else { Err(since.plus(wait)) }
    };
    match metadata.phase {
        Phase::Forward { .. } => match job.forward_seen {
            None => NextStep::NoteForward(now),
            Some(seen) => match waited(seen, waits.settle) {
                Ok(()) => NextStep::Move,
                Err(until) => NextStep::WaitUntil(until),
            },
        },
        Phase::Move { .. } => in_move(metadata, job, now, waits),
        Phase::Stable => match job.closed_seen {
            None => NextStep::NoteClosed(now),
            // V: a marker must not go while the transaction that made it is half visible, or a
            // query could miss the item. And T', before anything else begins.
            Some(seen) => match waited(seen, waits.settle) {
                Err(until) => NextStep::WaitUntil(until),
                Ok(()) if job.then.is_some() => NextStep::TurnRound,
                Ok(()) if !metadata.has_markers => NextStep::Finish,
                Ok(()) if job.next_sources(job.marked.shards(), 1).is_empty() => NextStep::Clear,
                Ok(()) => NextStep::RemoveMarkers,
            },
        },
    }
}

fn in_move(metadata: &CollectionMetadata, job: &Job, now: ServerTime, waits: Waits) -> NextStep {
    let Some(reshard) = metadata.reshard() else {
        return NextStep::Mismatch;
    };
    let Some(seen) = job.move_seen else {
        return NextStep::NoteMove(now);
    };
    if !job.next_sources(reshard.sources(), 1).is_empty() {
        return NextStep::Scan;
    }
    let late_requests_are_over = seen.plus(waits.request_lifetime + waits.settle);
    if !job.closing {
        // What ran into the sources while they were scanned is found by a scan that began later.
        return if now >= late_requests_are_over {
            NextStep::BeginScan { closing: true }
        } else {
            NextStep::WaitUntil(late_requests_are_over)
        };
    }
    match job.scanned {
        None => NextStep::NoteScanned(now),
        Some(scanned) if now.certainly_since(scanned) >= waits.settle => NextStep::Close,
        Some(scanned) => NextStep::WaitUntil(scanned.plus(waits.settle)),
    }
}

#[cfg(test)]
mod tests {
    use dynashard_keys::{PartitionKey, Placement, ShardCount};

    use super::*;

    const WAITS: Waits =
        Waits { settle: Duration::from_secs(6), request_lifetime: Duration::from_secs(20) };

    /// A rebalancer read the metadata before the close and the job after it. Its empty scan was
    /// noted as the removal of the markers, and they stayed.
    #[test]
    fn regression_a_scan_of_move_counted_as_the_removal_of_markers() {
        let partition = PartitionKey::new("EWR").expect("pk");
        let two = ShardCount::new(2).expect("count");
        let begun = CollectionMetadata::first_write(partition.clone(), Placement::Xxh64, 1_000)
            .with_forward(two, 2_000);
        let moving = begun.with_move(2_010).expect("it is in forward");
        let reshard = moving.reshard().expect("items move");
        let job = Job {
            move_seen: Some(ServerTime(2_010)),
            ..Job::new(partition, moving.generation, &reshard, None, 2_000)
        };
        let now = ServerTime(2_100);
        assert_eq!(plan(&moving, &job, now, WAITS), NextStep::Scan);
        let closed = Job { closed_seen: Some(ServerTime(2_050)), ..job.clone() };
        assert_eq!(plan(&moving, &closed, now, WAITS), NextStep::Mismatch);
        assert_eq!(plan(&begun, &job, now, WAITS), NextStep::Mismatch, "move was seen");
    }
}
