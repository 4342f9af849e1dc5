#![expect(clippy::float_cmp, reason = "whole numbers")]

use dynashard_keys::SortKey;
use dynashard_testkit::{Random, fuzz};

use super::*;

/// What a partition takes.
const TAKES: f64 = 1_000.0;

/// A second, and a minute.
const START_SECS: u64 = 1_800_000_000;

fn partition() -> PartitionKey {
    PartitionKey::new("EWR").expect("a partition key")
}

fn item(name: &str) -> ItemKey {
    ItemKey::new(partition(), SortKey::string(name).expect("a sort key"))
}

/// So long after the start, an hour after boot.
fn at(millis: u64) -> Moment {
    let passed = Duration::from_millis(millis);
    Moment {
        boot: Duration::from_hours(1) + passed,
        wall: Duration::from_secs(START_SECS) + passed,
        server_secs: None,
    }
}

/// A reading by a wall clock that is ahead.
fn ahead(millis: u64, ahead: Duration) -> Moment {
    let now = at(millis);
    Moment { wall: now.wall + ahead, ..now }
}

fn second(passed: u64) -> Bucket {
    Bucket { span: Span::Second, start_secs: START_SECS + passed }
}

fn write(meter: &Meter, key: &ItemKey, units: f64, now: Moment) {
    let (partition, access, units) = (&key.partition, Access::Write, Some(units));
    meter.arrived(Incoming { partition, item: Some(key), access, units, beside: None }, now);
}

/// What is added if the draw does not stand against it.
fn report(meter: &Meter, now: Moment) -> Option<Addition> {
    meter.throttled(&partition(), now);
    reported(meter.heat_due(&partition(), Access::Write, 1.0, now, 0))
}

fn reported(due: Option<Due>) -> Option<Addition> {
    match due {
        Some(Due::Report(addition)) => Some(addition),
        Some(Due::Look | Due::Decide) | None => None,
    }
}

fn of(addition: &Addition, bucket: Bucket) -> Measures {
    let found = addition.added.iter().find(|(at, _)| *at == bucket);
    found.map(|(_, measures)| *measures).unwrap_or_default()
}

fn all(addition: &Addition) -> Measures {
    let mut all = Measures::default();
    for (_, measures) in &addition.added {
        all.add(measures);
    }
    all
}

#[test]
fn an_operation_counts_once_in_the_second_in_which_it_arrived() {
    let meter = Meter::new(TAKES);
    write(&meter, &item("a"), 2.0, at(100));
    write(&meter, &item("b"), 3.0, at(1_900));
    meter.granted(&partition(), Access::Write, Granted::to_one(2.0), at(1_950));
    // Its attempts are throttled again and again.
    for _ in 0..20 {
        meter.throttled(&partition(), at(1_960));
    }
    let addition = report(&meter, at(2_000)).expect("a report");
    let (first, next) = (of(&addition, second(0)), of(&addition, second(1)));
    assert_eq!((first.writes, first.write_units), (1.0, 2.0));
    assert_eq!((next.writes, next.write_units, next.written_units), (1.0, 3.0, 2.0));
    let own = of(&addition, second(2));
    assert_eq!((own.reports, own.environments), (1.0, 1.0));
    let again = report(&meter, at(3_000)).expect("a report");
    assert_eq!(all(&again).writes, 0.0, "what is reported is not reported again");
}

#[test]
fn what_a_client_sends_again_within_its_retry_after_does_not_count() {
    let meter = Meter::new(TAKES);
    write(&meter, &item("a"), 1.0, at(0));
    meter.refused(&item("a"), at(500));
    write(&meter, &item("b"), 1.0, at(1_000));
    write(&meter, &item("a"), 1.0, at(4_500));
    assert_eq!(all(&report(&meter, at(4_600)).expect("a report")).writes, 2.0);

    // It was refused once: whoever writes the item after that wants something new.
    write(&meter, &item("a"), 1.0, at(4_700));
    assert_eq!(all(&report(&meter, at(5_700)).expect("a report")).writes, 1.0);
    meter.refused(&item("a"), at(6_000));
    write(&meter, &item("a"), 1.0, at(11_100));
    assert_eq!(all(&report(&meter, at(11_200)).expect("a report")).writes, 1.0);
}

#[test]
fn a_collection_that_nothing_throttles_reports_no_heat() {
    let meter = Meter::new(TAKES);
    let due = |now| reported(meter.heat_due(&partition(), Access::Write, 1.0, now, 0));
    assert_eq!(due(at(0)), None);
    write(&meter, &item("a"), 1.0, at(0));
    assert_eq!(due(at(100)), None);
    meter.throttled(&partition(), at(200));
    assert!(due(at(200)).is_some());
    assert_eq!(due(at(499)), None, "half of the second is not over");
    assert!(due(at(500)).is_some());
    assert!(due(at(1_100)).is_some());
    assert_eq!(due(at(1_499)), None);
    assert_eq!(due(at(5_300)), None, "long after the last throttle");
}

/// They reported once a second, each at another time, and a second was complete more than a second after its end.
#[test]
fn regression_a_second_was_complete_when_the_next_one_was_over() {
    fuzz(50, |random| {
        let meter = Meter::new(TAKES);
        let first = 1_000 + u64::try_from(random.below(1_000)).expect("small");
        let mut reports = Vec::new();
        for millis in (first..8_000).step_by(20) {
            write(&meter, &item(&millis.to_string()), 1.0, at(millis));
            meter.throttled(&partition(), at(millis));
            let draw = u64::from(u8::try_from(random.below(256)).expect("a byte"));
            if reported(meter.heat_due(&partition(), Access::Write, 1.0, at(millis), draw))
                .is_some()
            {
                reports.push(millis);
            }
        }
        // At first by halves.
        let late = reports[1..].iter().map(|millis| millis % 500).max().expect("a report");
        assert!(late < 300, "{reports:?}");
        let later = reports.iter().filter(|millis| **millis > first + 5_000).collect::<Vec<_>>();
        assert!(later.windows(2).all(|pair| pair[1] / 1_000 == pair[0] / 1_000 + 1));
    });
}

#[test]
fn the_load_of_a_minute_is_reported_once_when_it_is_over() {
    let meter = Meter::new(TAKES);
    write(&meter, &item("a"), 2.0, at(59_000));
    write(&meter, &item("b"), 3.0, at(60_000));
    let addition = meter.load_due(&partition(), at(61_000), 0).expect("a report");
    let minute = Bucket { span: Span::Minute, start_secs: START_SECS };
    let hour = Bucket { span: Span::Hour, start_secs: START_SECS };
    for (bucket, reports) in [(minute, 1.0), (hour, 0.0)] {
        let measures = of(&addition, bucket);
        assert_eq!((measures.writes, measures.write_units, measures.reports), (1.0, 2.0, reports));
    }
    assert_eq!(meter.load_due(&partition(), at(62_000), 0), None);
    let addition = meter.load_due(&partition(), at(120_000), 0).expect("a report");
    assert_eq!(of(&addition, hour).write_units, 3.0);
}

#[test]
fn the_hottest_sort_key_is_found() {
    let class = |key: &ItemKey| u16::try_from(hash(key) % u64::from(CLASSES)).expect("a class");
    fuzz(20, |random| {
        let meter = Meter::new(TAKES);
        let hot = item("hot");
        let mut of_hot = 0.0;
        for operation in 0..2_000 {
            let is_hot = random.below(10) < 6;
            of_hot += f64::from(u8::from(is_hot));
            let key = if is_hot { hot.clone() } else { item(&operation.to_string()) };
            write(&meter, &key, 1.0, at(operation / 4));
        }
        let addition = report(&meter, at(600)).expect("a report");
        assert_eq!(all(&addition).ranked_units, 2_000.0);
        let (bucket, found, units) = addition.hottest.expect("one is hot");
        assert_eq!((bucket, found), (second(0), class(&hot)));
        assert!((0.9 * of_hot..=of_hot).contains(&units), "{units} of {of_hot}");
    });
}

#[test]
fn of_many_sort_keys_none_is_the_hottest() {
    let meter = Meter::new(TAKES);
    for operation in 0..2_000 {
        write(&meter, &item(&(operation % 100).to_string()), 1.0, at(operation / 4));
    }
    assert_eq!(report(&meter, at(600)).expect("a report").hottest, None);
}

/// Many environments, and the ledger that they share.
struct World {
    meters: Vec<Meter>,
    ledger: Ledger,
    /// The units that arrived.
    arrived: f64,
}

const CAPACITY: u32 = 1_000;
const TICK_MILLIS: u64 = 50;
const TICKS_A_SECOND: u32 = 20;

impl World {
    fn new(environments: usize) -> Self {
        let meters = (0..environments).map(|_| Meter::new(TAKES)).collect();
        Self { meters, ledger: Ledger::default(), arrived: 0.0 }
    }

    /// Operations of one unit arrive at any environment, and DynamoDB grants some of them. If it refuses any,
    /// every environment has some that it tries again.
    fn tick(&mut self, millis: u64, arriving: u32, granted: u32, random: &Random) {
        let (partition, now) = (partition(), at(millis));
        for _ in 0..arriving {
            let item = ItemKey::new(
                partition.clone(),
                SortKey::string(random.below(1_000_000).to_string()).expect("a sort key"),
            );
            write(&self.meters[random.below(self.meters.len())], &item, 1.0, now);
            self.arrived += 1.0;
        }
        for _ in 0..granted {
            let meter = &self.meters[random.below(self.meters.len())];
            meter.granted(&partition, Access::Write, Granted::to_one(1.0), now);
        }
        if granted == arriving {
            return;
        }
        for meter in &self.meters {
            meter.throttled(&partition, now);
            let capacity = f64::from(CAPACITY);
            let draw = (random.below(1 << 32) as u64) << 32 | random.below(1 << 32) as u64;
            let due = meter.heat_due(&partition, Access::Write, capacity, now, draw);
            let Some(due) = due else { continue };
            if let Due::Report(addition) = due {
                self.ledger.apply(&addition);
            }
            let server_secs = Some(now.epoch_secs());
            let answer = Dated { value: self.ledger.clone(), server_secs };
            meter.learn(&partition, LedgerKind::Heat, &answer, now);
        }
    }

    /// The seconds of calm come first.
    fn run(&mut self, calm: u64, overload: u32, seconds: u64, random: &Random) {
        for millis in (0..1_000 * (calm + seconds)).step_by(50) {
            assert_eq!(millis % TICK_MILLIS, 0);
            let capacity = CAPACITY / TICKS_A_SECOND;
            if millis < 1_000 * calm {
                self.tick(millis, capacity * 9 / 10, capacity * 9 / 10, random);
            } else {
                self.tick(millis, capacity * overload, capacity, random);
            }
        }
    }

    fn most_reports(&self) -> f64 {
        self.ledger.buckets.values().map(|measures| measures.reports).fold(0.0, f64::max)
    }
}

#[test]
fn no_more_than_sixty_reports_a_second_however_many_environments_are_throttled() {
    for environments in [1, 10, 100, 1_000, 3_000] {
        for (calm, overload) in [(0, 8), (0, 40), (7, 8), (7, 40)] {
            fuzz(2, |random| {
                let mut world = World::new(environments);
                world.run(calm, overload, 6, random);
                let most = world.most_reports();
                assert!(most <= 60.0, "{environments} environments, {overload} times: {most}");
                assert!(most >= 1.0);
            });
        }
    }
}

/// Its first report holds all seconds before the throttle, so each of hundreds of environments had been granted
/// six times as much as in a second, and was six times as likely to report.
#[test]
fn regression_after_a_calm_six_times_as_many_environments_reported_at_once() {
    fuzz(3, |random| {
        let mut world = World::new(500);
        world.run(7, 8, 1, random);
        let most = world.most_reports();
        assert!(most <= 40.0, "{most}");
    });
}

#[test]
fn what_sampled_reports_say_is_what_arrived() {
    for (environments, overload) in [(3, 8), (100, 8), (100, 40), (1_000, 8)] {
        let (mut arrived, mut reported) = (0.0, 0.0);
        fuzz(60, |random| {
            let mut world = World::new(environments);
            world.run(0, overload, 5, random);
            // The last second has been reported in part.
            let complete = world.ledger.buckets.range(..second(4)).map(|(_, m)| m.write_units);
            reported += complete.sum::<f64>();
            arrived += world.arrived / 5.0 * 4.0;
        });
        let off = reported / arrived - 1.0;
        assert!(off.abs() < 0.05, "{environments} environments, {overload} times: {off:+.3}");
    }
}

#[test]
fn sampling_is_unbiased_however_unevenly_environments_are_used() {
    // One that gets much, and one that gets nothing.
    for (asked, granted) in [(40.0, 20.0), (3.0, 0.0)] {
        let meter = Meter::new(TAKES);
        let (mut arrived, mut reported_units) = (0.0, 0.0);
        for round in 1..=20_000_u64 {
            let now = at(round * 1_000);
            write(&meter, &item("a"), asked, now);
            meter.granted(&partition(), Access::Write, Granted::to_one(granted), now);
            meter.throttled(&partition(), now);
            // Multiples of the golden ratio are spread as evenly as can be.
            let draw = round.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let due = meter.heat_due(&partition(), Access::Write, 1_000.0, now, draw);
            arrived += asked;
            let of_all = |addition| all(&addition).write_units;
            reported_units += reported(due).map_or(0.0, of_all);
        }
        let off = reported_units / arrived - 1.0;
        assert!(off.abs() < 0.05, "{granted}: {off:+.3}");
    }
}

/// An environment compared when it last reported by its own clock with the time by DynamoDB's, which it knew from
/// the answer: for as long as its clock was ahead it reported nothing more.
#[test]
fn regression_an_environment_whose_clock_was_corrected_reported_nothing_for_minutes() {
    for clock_ahead in [Duration::from_mins(3), Duration::from_hours(1)] {
        let meter = Meter::new(TAKES);
        write(&meter, &item("a"), 1.0, ahead(0, clock_ahead));
        let first = report(&meter, ahead(100, clock_ahead)).expect("a report");
        let wrong = Bucket { start_secs: START_SECS + clock_ahead.as_secs(), ..second(0) };
        assert_eq!(of(&first, wrong).writes, 1.0, "nothing is known of DynamoDB's clock yet");
        let answer = Dated { value: Ledger::default(), server_secs: Some(START_SECS) };
        meter.learn(&partition(), LedgerKind::Heat, &answer, ahead(150, clock_ahead));
        assert_eq!(meter.now(ahead(1_200, clock_ahead)), at(1_200).wall);
        write(&meter, &item("b"), 1.0, ahead(1_200, clock_ahead));
        let next = report(&meter, ahead(1_300, clock_ahead)).expect("a second later");
        assert_eq!(of(&next, second(1)).writes, 1.0);
        assert!(next.added.iter().all(|(bucket, _)| *bucket <= second(1)), "{next:?}");
    }
}

#[test]
fn a_clock_that_is_behind_is_corrected_and_one_that_differs_by_a_second_is_not() {
    let meter = Meter::new(TAKES);
    write(&meter, &item("a"), 1.0, at(0));
    let learn = |server_secs| {
        let answer = Dated { value: Ledger::default(), server_secs: Some(server_secs) };
        meter.learn(&partition(), LedgerKind::Load, &answer, at(0));
    };
    learn(START_SECS + 240);
    assert_eq!(meter.now(at(500)), at(240_500).wall);
    write(&meter, &item("b"), 1.0, at(600));
    let addition = report(&meter, at(700)).expect("a report");
    assert_eq!(of(&addition, second(240)).writes, 1.0);
    assert_eq!(all(&addition).writes, 1.0, "nobody knows when the first one was");
    learn(START_SECS + 1);
    assert_eq!(meter.now(at(500)), at(500).wall);
}

/// Gets took the mean of what gets and queries had been granted: a hundred dear queries beside nine hundred gets
/// made it a collection that is hot for gets.
#[test]
fn regression_gets_were_reckoned_as_dear_as_queries() {
    let meter = Meter::new(TAKES);
    let partition = partition();
    for operation in 0..1_000 {
        let now = at(operation);
        let (access, units) =
            if operation % 10 == 0 { (Access::Query, 32.0) } else { (Access::Get, 0.5) };
        let arrival =
            Incoming { partition: &partition, item: None, access, units: None, beside: None };
        meter.arrived(arrival, now);
        meter.granted(&partition, access, Granted::to_one(units), now);
    }
    let measures = all(&report(&meter, at(1_000)).expect("a report"));
    assert_eq!((measures.gets, measures.queries), (900.0, 100.0));
    // Of the first of each nothing is known, and it counts as one unit.
    assert!((450.0..452.0).contains(&measures.get_units), "{measures:?}");
    assert!((3_160.0..=3_200.0).contains(&measures.query_units), "{measures:?}");
}

/// Hours of calm were in the ranking. What had become hot since was a small part of them.
#[test]
fn regression_the_hottest_sort_key_of_hours_ago_hid_the_present_one() {
    let meter = Meter::new(TAKES);
    for operation in 0..20_000_u64 {
        write(&meter, &item(&operation.to_string()), 1.0, at(operation * 100));
    }
    let now = 20_000 * 100 + 30_000;
    for operation in 0..500 {
        write(&meter, &item("hot"), 1.0, at(now + operation));
    }
    let addition = report(&meter, at(now + 500)).expect("a report");
    assert_eq!(all(&addition).ranked_units, 500.0);
    assert_eq!(addition.hottest.map(|(_, _, units)| units), Some(500.0));
}

/// An environment that is seldom used keeps its last seconds for hours, and its first report of a throttle brought
/// them all, with what was granted in them.
#[test]
fn regression_seconds_of_hours_ago_came_with_the_first_report() {
    let meter = Meter::new(TAKES);
    for hour in 0..5 {
        write(&meter, &item("a"), 1.0, at(hour * 3_600_000));
    }
    let now = 5 * 3_600_000;
    write(&meter, &item("b"), 1.0, at(now));
    let addition = report(&meter, at(now + 100)).expect("a report");
    assert_eq!(all(&addition).writes, 1.0);
}

/// Lambda froze an environment whose boot clock stood meanwhile. By what it had written before, it decided on an epoch that nobody
/// writes any more.
#[test]
fn regression_a_frozen_environment_took_its_writes_from_before_for_its_last_ones() {
    let meter = Meter::new(TAKES);
    meter.answered(&item("before"), false, at(0));
    let thawed = Moment { boot: at(10).boot, ..at(3_600_000) };
    assert_eq!(meter.written(&partition(), thawed), []);
    meter.answered(&item("after"), false, thawed);
    assert_eq!(meter.written(&partition(), thawed), [item("after").sort]);
}
