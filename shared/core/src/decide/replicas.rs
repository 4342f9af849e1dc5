//! Who answers a read that need not be strong: the table, or one of its read replicas.

use std::time::Duration;

use crate::model::lease::Moment;
use crate::model::metadata::{CollectionMetadata, Phase};
use crate::model::reshard::Waits;
use crate::model::settings::Settings;

/// How long nobody asks a source that has throttled, while another may be asked: a partition has more to give each second.
pub(crate) const THROTTLED: Duration = Duration::from_secs(1);

/// How long nobody asks a replica that cannot be read: its index is being built, or it has none.
pub(crate) const UNREADABLE: Duration = Duration::from_mins(1);

/// Which source to ask: 0 is the table, and n its replica n. `rests` says of each for how long it is still to be left alone;
/// `draw` is uniformly random.
///
/// Those that do not rest are asked evenly. If all rest, those that have only throttled are, as the others cannot answer.
pub(crate) fn source(rests: &[Duration], draw: u64) -> usize {
    let resting_at_most = |time: Duration| {
        rests.iter().enumerate().filter(move |(_, rests)| **rests <= time).map(|(at, _)| at)
    };
    let is_any_awake = resting_at_most(Duration::ZERO).next().is_some();
    let time = if is_any_awake { Duration::ZERO } else { THROTTLED };
    let among = resting_at_most(time).collect::<Vec<_>>();
    let drawn = (u128::from(draw) * among.len() as u128) >> 64;
    usize::try_from(drawn).ok().and_then(|at| among.get(at).copied()).unwrap_or(0)
}

/// Whether replicas may answer for a collection: there are some, nothing moves, and the last change is so long ago that they have
/// all of it (protocol: "Read replicas"). A collection that was never changed has nothing to wait for.
pub(crate) fn may_answer(metadata: &CollectionMetadata, settings: &Settings, now: Moment) -> bool {
    let clocks = [Some(now.epoch_secs()), now.server_secs];
    // By the clock that is furthest behind.
    let now_secs = clocks.into_iter().flatten().min().unwrap_or(0);
    let passed = Duration::from_secs(now_secs.saturating_sub(metadata.last_updated_secs));
    let is_settled = !metadata.has_changed() || passed > Waits::of(settings).replicas_catch_up();
    let is_stable = metadata.phase == Phase::Stable && !metadata.cleanup_pending;
    settings.read_replicas > 0 && is_stable && is_settled
}

#[cfg(test)]
mod tests {
    use dynashard_keys::{PartitionKey, Placement, ShardCount};

    use super::*;
    use crate::model::transitions::Next;

    /// How often each of the sources is asked, of a hundred times.
    fn asked(rests: &[Duration]) -> Vec<usize> {
        let mut asked = vec![0; rests.len()];
        for n in 0..100 {
            asked[source(rests, u64::MAX / 200 * (2 * n + 1))] += 1;
        }
        asked
    }

    #[test]
    fn sources_are_asked_evenly_but_for_those_that_rest() {
        let (awake, rests) = (Duration::ZERO, Duration::from_millis(10));
        assert_eq!(asked(&[awake, awake]), [50, 50]);
        assert_eq!(asked(&[awake, awake, rests]), [50, 50, 0]);
        assert_eq!(asked(&[rests, awake, rests]), [0, 100, 0], "the table rests, too");
        assert_eq!(asked(&[rests, rests]), [50, 50], "all have throttled");
        assert_eq!(asked(&[rests, UNREADABLE, rests]), [50, 0, 50], "one of them cannot answer");
        assert_eq!(asked(&[awake]), [100]);
    }

    #[test]
    fn replicas_answer_when_nothing_moves_and_nothing_has_moved_lately() {
        let settings = Settings { read_replicas: 2, ..Settings::default() };
        let may_answer = |metadata: &_, now| may_answer(metadata, &settings, now);
        let [one, two] = [1, 2].map(|n| ShardCount::new(n).expect("a count"));
        let pk = PartitionKey::new("EWR").expect("a key");
        let at = |secs, server_secs| Moment {
            boot: Duration::from_secs(secs),
            wall: Duration::from_secs(secs),
            server_secs,
        };
        let cold = CollectionMetadata::cold(pk, Placement::Xxh64);
        assert!(may_answer(&cold, at(0, None)));
        let made = cold.enlisted(1_000);
        assert!(may_answer(&made, at(1_000, None)), "it has the count that it was made with");
        let forward = Next::after(&made, 2_000).forward(None, two);
        let moving = Next::after(&forward, 2_010).moving().expect("it is in forward");
        let closed = Next::after(&moving, 3_000).closed(false).expect("it is in move");
        for change in [&forward, &moving, &closed] {
            assert!(!may_answer(change, at(100_000, None)), "{:?}", change.phase);
        }
        let rests = Next::after(&closed, 4_000).cleared_up(0);
        assert_eq!(rests.number_of_shards, two);
        let wait = Waits::of(&settings).replicas_catch_up().as_secs();
        assert_eq!(wait, 900);
        let closed_at = rests.last_updated_secs;
        assert!(!may_answer(&rests, at(closed_at + wait, None)));
        assert!(may_answer(&rests, at(closed_at + wait + 1, None)));
        let late = Some(closed_at + wait);
        assert!(!may_answer(&rests, at(closed_at + wait + 1, late)), "one clock is ahead");
        let random = CollectionMetadata::cold(rests.partition.clone(), Placement::Random);
        let growing = Next::after(&random.enlisted(1_000), 2_000).forward(None, two);
        assert_eq!((growing.reshard(), growing.number_of_shards), (None, one), "it moves nothing");
        assert!(!may_answer(&growing, at(100_000, None)));
        assert!(!super::may_answer(&cold, &Settings::default(), at(0, None)), "there is none");
    }
}
