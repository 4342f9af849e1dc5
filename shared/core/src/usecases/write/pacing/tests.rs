use dynashard_keys::{PartitionKey, Placement, Separator, ShardId};
use dynashard_testkit::{Random, fuzz};

use super::*;

const REV: u64 = 7;

/// Who waits for nothing.
const NOW: Duration = Duration::ZERO;
const HALF: Duration = Duration::from_millis(500);

fn shard(of: &str) -> PhysicalPartitionKey {
    let partition = PartitionKey::new(of).expect("a partition key");
    partition.at(ShardId::new(0), Placement::Xxh64, Separator::HashTilde)
}

/// No clock of this environment ever stood.
fn at(boot: Duration) -> Moment {
    Moment { boot, wall: boot, server_secs: None }
}

/// A partition that takes so many writes a second and saves up a second's.
struct Partition {
    takes: f64,
    saved: f64,
    written: u32,
    refused: u32,
}

impl Partition {
    fn new(takes: f64) -> Self {
        Self { takes, saved: takes, written: 0, refused: 0 }
    }

    fn passes(&mut self, secs: f64) {
        self.saved = (self.saved + secs * self.takes).min(self.takes);
    }

    fn write(&mut self) -> bool {
        let is_granted = self.saved >= 1.0;
        if is_granted {
            self.saved -= 1.0;
            self.written += 1;
        } else {
            self.refused += 1;
        }
        is_granted
    }
}

const TICK: Duration = Duration::from_millis(5);

/// So many environments at once, which are asked for `offered` writes a second together, in bursts of `burst`.
struct Fleet {
    environments: Vec<Pacing>,
    shard: PhysicalPartitionKey,
    now: Duration,
    due: f64,
}

impl Fleet {
    fn new(environments: usize, takes: f64) -> Self {
        let environments = (0..environments).map(|_| Pacing::new(takes)).collect();
        Self { environments, shard: shard("hot"), now: Duration::from_secs(100), due: 0.0 }
    }

    /// What is answered takes a tick. Nobody is patient.
    fn run(
        &mut self,
        partition: &mut Partition,
        (offered, burst): (f64, f64),
        time: Duration,
        random: &Random,
    ) {
        let end = self.now + time;
        while self.now < end {
            partition.passes(TICK.as_secs_f64());
            self.due += offered * TICK.as_secs_f64();
            let sent = self.now;
            self.now += TICK;
            while self.due >= burst {
                self.due -= burst;
                let environment = &self.environments[random.below(self.environments.len())];
                let mut one = 1.0;
                while one <= burst {
                    one += 1.0;
                    if environment.turn(&self.shard, || REV, NOW, NOW, at(sent)) == Paced::TooLate {
                        continue;
                    }
                    if partition.write() {
                        environment.granted(&self.shard, at(self.now));
                    } else {
                        environment.refused(&self.shard, REV, sent, at(self.now));
                    }
                }
            }
        }
    }
}

#[test]
fn a_full_shard_stays_full_and_refuses_at_most_one_write_for_two_that_it_takes() {
    for environments in [1, 10, 40, 300] {
        for (takes, times) in [(40.0, 2.0), (100.0, 8.0), (1_000.0, 4.0)] {
            for burst in [1.0, 25.0] {
                // So many that each is granted hardly more than it asks for at least.
                if 2.0 * f64::from(u32::try_from(environments).expect("a few")) > takes {
                    continue;
                }
                fuzz(2, |random| {
                    let mut fleet = Fleet::new(environments, takes);
                    let mut partition = Partition::new(takes);
                    let load = (takes * times, burst);
                    fleet.run(&mut partition, load, Duration::from_secs(5), random);
                    let before = (partition.written, partition.refused);
                    fleet.run(&mut partition, load, Duration::from_secs(20), random);
                    let written = f64::from(partition.written - before.0) / (20.0 * takes);
                    let refused = f64::from(partition.refused - before.1)
                        / f64::from(partition.written - before.0);
                    let case = format!("{environments} of {takes}, {times} times, by {burst}");
                    assert!(written > 0.95, "{case}: {written:.3} of what it takes");
                    assert!(refused <= 0.5, "{case}: {refused:.3} refused for each written");
                });
            }
        }
    }
}

#[test]
fn what_others_leave_is_taken_within_four_seconds() {
    fuzz(5, |random| {
        let mut fleet = Fleet::new(40, 100.0);
        let mut partition = Partition::new(100.0);
        fleet.run(&mut partition, (800.0, 1.0), Duration::from_secs(10), random);
        // All of the load comes to one of them now.
        fleet.environments.truncate(1);
        fleet.run(&mut partition, (800.0, 1.0), Duration::from_secs(4), random);
        let before = partition.written;
        fleet.run(&mut partition, (800.0, 1.0), Duration::from_secs(5), random);
        let share = f64::from(partition.written - before) / 500.0;
        assert!(share > 0.95, "{share:.3}");
    });
}

#[test]
fn a_shard_that_was_relieved_is_written_to_as_if_it_had_never_been_full() {
    let (pacing, hot, now) = (Pacing::new(100.0), shard("hot"), Duration::from_secs(100));
    for _ in 0..20 {
        pacing.refused(&hot, REV, now, at(now));
    }
    let now = now + FORGOTTEN + Duration::from_millis(1);
    for _ in 0..1_000 {
        assert_eq!(pacing.turn(&hot, || REV, NOW, NOW, at(now)), Paced::In(Duration::ZERO));
    }
}

/// Lambda froze an environment whose boot clock stood meanwhile: its first writes after that were refused, though their shard
/// had been idle for an hour.
#[test]
fn regression_a_frozen_environment_held_an_idle_shard_to_the_pace_from_before() {
    let (pacing, hot, now) = (Pacing::new(100.0), shard("hot"), Duration::from_secs(100));
    let thawed = Moment { wall: now + Duration::from_hours(1), ..at(now) };
    for now in [thawed, Moment { server_secs: Some(3_700), ..at(now) }] {
        let refused_at = Moment { server_secs: now.server_secs.map(|_| 100), ..at(now.boot) };
        pacing.refused(&hot, REV, refused_at.boot, refused_at);
        assert_eq!(pacing.turn(&hot, || REV, NOW, NOW, refused_at), Paced::TooLate);
        assert_eq!(pacing.turn(&hot, || REV, NOW, NOW, now), Paced::In(Duration::ZERO));
    }
}

/// The first shard of a key that had grown got a sixteenth of what it had been asked for, and was held to the pace of
/// before: a part of what it could take was refused.
#[test]
fn regression_a_shard_was_held_to_the_pace_from_before_its_collection_grew() {
    let (pacing, hot, now) = (Pacing::new(100.0), shard("hot"), Duration::from_secs(100));
    pacing.refused(&hot, REV, now, at(now));
    assert_eq!(pacing.turn(&hot, || REV, NOW, NOW, at(now)), Paced::TooLate);
    assert_eq!(pacing.turn(&hot, || REV + 1, NOW, NOW, at(now)), Paced::In(Duration::ZERO));
}

#[test]
fn no_shard_waits_for_another() {
    let (pacing, now) = (Pacing::new(100.0), Duration::from_secs(100));
    pacing.refused(&shard("hot"), REV, now, at(now));
    assert_eq!(pacing.turn(&shard("hot"), || REV, NOW, NOW, at(now)), Paced::TooLate);
    assert_eq!(pacing.turn(&shard("cold"), || REV, NOW, NOW, at(now)), Paced::In(Duration::ZERO));
}

#[test]
fn who_is_patient_gets_turns_one_after_the_other() {
    let (pacing, hot, now) = (Pacing::new(100.0), shard("hot"), Duration::from_secs(100));
    pacing.refused(&hot, REV, now, at(now));
    let turns = std::iter::repeat_with(|| pacing.turn(&hot, || REV, HALF, HALF, at(now)));
    let turns = turns.take_while(|turn| *turn != Paced::TooLate).collect::<Vec<_>>();
    assert_eq!(turns.len(), 19, "half a second of two fifths of what a partition takes");
    assert!(turns.is_sorted_by_key(|turn| match turn {
        Paced::In(wait) => *wait,
        Paced::TooLate => Duration::MAX,
    }));
}

/// A client that loads a key by itself has what its shard takes, and needs not be told again and again to come back.
#[test]
fn who_has_a_shard_to_itself_may_wait_longer() {
    let (pacing, hot, mut now) = (Pacing::new(100.0), shard("hot"), Duration::from_secs(100));
    let turns = |now| {
        let turns =
            std::iter::repeat_with(|| pacing.turn(&hot, || REV, Duration::ZERO, HALF, at(now)));
        turns.take_while(|turn| *turn != Paced::TooLate).count()
    };
    pacing.refused(&hot, REV, now, at(now));
    assert_eq!(turns(now), 19);
    // Others have what it takes.
    for _ in 0..5 {
        now += Duration::from_millis(50);
        pacing.refused(&hot, REV, now, at(now));
    }
    assert_eq!(turns(now), 0);
}

/// A batch took fifty turns of a fast pace, refusals slowed the pace down, and those turns were paid at the slow one: nothing
/// was sent for forty seconds.
#[test]
fn regression_turns_that_were_given_away_starved_a_shard_whose_pace_fell() {
    let (pacing, hot, mut now) = (Pacing::new(1_000.0), shard("hot"), Duration::from_secs(100));
    pacing.refused(&hot, REV, now, at(now));
    let patience = Duration::from_millis(250);
    let turns = std::iter::repeat_with(|| pacing.turn(&hot, || REV, patience, patience, at(now)));
    let turns = turns.take_while(|turn| *turn != Paced::TooLate).count();
    assert!(turns >= 49, "{turns}");
    for _ in 0..turns {
        now += Duration::from_millis(5);
        pacing.refused(&hot, REV, now, at(now));
    }
    let relieved = now + Duration::from_millis(1_500);
    while pacing.turn(&hot, || REV, NOW, NOW, at(now)) == Paced::TooLate {
        now += Duration::from_millis(10);
        assert!(now < relieved, "nothing is sent");
    }
}
