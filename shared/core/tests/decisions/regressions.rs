//! What was decided wrongly.

use std::time::Duration;

use dynashard_core::{
    Access, Bucket, Cause, CountChange, Decision, Diagnosis, Evidence, Figure, Hindrance, Ledger,
    Phase, Settings, ShrinkPolicy, Span, Throttle, Waits, decide, decide_shrink,
    most_moves_per_sec,
};
use dynashard_keys::Placement;
use dynashard_testkit::Random;

use crate::situation::{NOW_SECS, Situation, add_rates, count, now, resting};

fn with_load(span: Span, field: &str, rates: &[f64], last_ago: u64) -> Ledger {
    let mut load = Ledger::default();
    add_rates(&mut load, span, field, rates.iter().copied(), last_ago);
    load
}

fn shrink(shards: u32, load: &Ledger, at: Duration, settings: &Settings) -> Decision {
    let metadata = resting(shards, Placement::Xxh64);
    let heat = Ledger::default();
    let evidence = Evidence { metadata: &metadata, heat: &heat, load, cause: Cause::Time, now: at };
    decide_shrink(evidence, settings)
}

fn throttled_write(shards: u32, phase: Phase, heat: &Ledger, load: &Ledger) -> Decision {
    let metadata = resting(shards, Placement::Xxh64);
    let metadata = dynashard_core::CollectionMetadata { phase, ..metadata };
    let throttle = Throttle::from_reason("TableWriteKeyRangeThroughputExceeded", None);
    let cause = Cause::Throttled { access: Access::Write, throttle: &throttle, shards: &[] };
    let settings = Settings::default();
    let evidence = Evidence { metadata: &metadata, heat, load, cause, now: now() };
    decide(evidence, &settings, Waits::of(&settings))
}

/// The mean over the present hour took its few minutes for a whole hour, and hours without traffic were none.
#[test]
fn regression_a_payback_depended_on_the_minute_of_the_hour() {
    // One query a second in every hour, and half an hour of them in the present one.
    let mut load = with_load(Span::Hour, "queries", &[1.0; 6], 1);
    add_rates(&mut load, Span::Hour, "queries", [0.5].into_iter(), 0);
    let at_half = shrink(8, &load, now(), &Settings::default()).figures.payback.expect("a payback");
    let before = with_load(Span::Hour, "queries", &[1.0; 6], 1);
    let at = now().saturating_sub(Duration::from_mins(30));
    let at_full = shrink(8, &before, at, &Settings::default()).figures.payback.expect("a payback");
    let saved = 3_600.0 * 7.0 * 0.5;
    for payback in [at_half, at_full] {
        let off = payback.saved_rcu_an_hour / saved - 1.0;
        assert!(off.abs() < 0.01, "{payback:?} and not {saved}");
    }
}

/// A collection of millions of items went back to two shards in a calm hour. The morning's load came while they moved, and
/// was throttled for four hours, since no shards are added to a change that runs.
#[test]
fn regression_a_shrink_that_moves_for_hours_kept_the_next_growth_away() {
    let mut load = with_load(Span::Hour, "write_units", &[300.0; 6], 1);
    add_rates(&mut load, Span::Hour, "writes", [300.0; 6].into_iter(), 1);
    let decision = shrink(16, &load, now(), &Settings::default());
    assert_eq!(
        (decision.action, decision.hindrance),
        (CountChange::None, Some(Hindrance::TooLong))
    );
    let load = with_load(Span::Hour, "write_units", &[5.0; 6], 1);
    let decision = shrink(16, &load, now(), &Settings::default());
    assert_eq!(decision.action, CountChange::Shrink(count(1)));
}

/// The last shard was taken to take all of its units from the mover, which leaves a fifth to clients: 450,000 items were
/// to move in 15 minutes, and took 19.
#[test]
fn regression_a_shrink_reckoned_with_more_than_the_mover_gives_to_a_shard() {
    let per_sec = |from, to, writes| most_moves_per_sec(&Settings::default(), from, to, writes);
    let is = |per_sec: f64, expected: f64| assert!((per_sec - expected).abs() < 1e-6, "{per_sec}");
    is(per_sec(16, 1, 0.0), 400.0);
    is(per_sec(16, 1, 600.0), 200.0);
    is(per_sec(16, 1, 1_000.0), 0.0);
    is(per_sec(1, 16, 0.0), 400.0);
    is(per_sec(16, 4, 0.0), 1_600.0);
    is(per_sec(16, 64, 0.0), 2_000.0);
    let mut load = with_load(Span::Hour, "write_units", &[5.0; 6], 1);
    add_rates(&mut load, Span::Hour, "writes", [22.0; 6].into_iter(), 1);
    let decision = shrink(16, &load, now(), &Settings::default());
    let items = decision.figures.payback.expect("a payback").items;
    assert!((400_000.0..460_000.0).contains(&items), "{items}");
    assert_eq!(
        (decision.action, decision.hindrance),
        (CountChange::None, Some(Hindrance::TooLong))
    );
}

/// It was asked for little in the ten minutes since environments have begun to report, and nobody knew of the
/// hours before.
#[test]
fn regression_a_ledger_of_ten_minutes_was_taken_for_one_of_three_hours() {
    let mut load = with_load(Span::Minute, "write_units", &[5.0; 10], 1);
    add_rates(&mut load, Span::Hour, "write_units", [0.8].into_iter(), 0);
    let decision = shrink(64, &load, now(), &Settings::default());
    assert_eq!(decision.diagnosis, Diagnosis::TooLittleEvidence);
}

/// A ledger that had been deleted held ten minutes of an hour, or two minutes of two, and what was hot before was taken away.
#[test]
fn regression_some_minutes_were_taken_for_the_whole_hour_that_they_are_of() {
    let window = |secs| {
        let shrink = ShrinkPolicy { after: Duration::from_secs(secs), ..ShrinkPolicy::default() };
        Settings { shrink, ..Settings::default() }
    };
    let hour = Duration::from_secs(Bucket::of(Span::Hour, now()).start_secs);
    let load = with_load(Span::Hour, "write_units", &[0.8], 0);
    let decision = shrink(64, &load, hour + Duration::from_mins(10), &window(3_600));
    assert_eq!(decision.diagnosis, Diagnosis::TooLittleEvidence);
    let load = with_load(Span::Hour, "write_units", &[0.8; 2], 0);
    let decision = shrink(64, &load, hour + Duration::from_mins(1), &window(3 * 3_600));
    assert_eq!(decision.diagnosis, Diagnosis::TooLittleEvidence);
}

/// The schedule decided so every few minutes, and each time the directory refused to begin it.
#[test]
fn regression_a_shrink_was_decided_on_that_grow_keys_do_not_allow() {
    let load = with_load(Span::Hour, "write_units", &[5.0; 6], 1);
    let grow_keys = "USER#*".parse().expect("patterns");
    let decision = shrink(8, &load, now(), &Settings { grow_keys, ..Settings::default() });
    assert_eq!(
        (decision.action, decision.hindrance),
        (CountChange::None, Some(Hindrance::NotAllowed))
    );
}

/// Writes go to the shards that are left from the beginning of a shrink on, and the demand was compared with
/// all that there had been: so it was a neighbour that throttled them.
#[test]
fn regression_a_shrink_did_not_turn_round_while_it_was_in_forward() {
    let heat = with_load(Span::Second, "write_units", &[3_000.0; 6], 2);
    let phase = Phase::Forward { from: count(8), to: count(2) };
    let decision = throttled_write(8, phase, &heat, &Ledger::default());
    assert_eq!(decision.action, CountChange::TurnRound(count(8)));
    let phase = Phase::Forward { from: count(8), to: count(16) };
    let decision = throttled_write(8, phase, &heat, &Ledger::default());
    assert_eq!(decision.action, CountChange::None, "growth takes nothing away");
}

/// A ramp that had ended half an hour ago doubled what was expected.
#[test]
fn regression_a_ramp_of_half_an_hour_ago_made_a_growth_larger() {
    let heat = with_load(Span::Second, "write_units", &[4_000.0; 6], 2);
    let rises = [1_000.0, 1_500.0, 2_000.0, 2_500.0, 3_000.0, 3_500.0];
    let decide_at = |ago| {
        let load = with_load(Span::Minute, "write_units", &rises, ago);
        throttled_write(4, Phase::Stable, &heat, &load)
    };
    let (recent, old) = (decide_at(1), decide_at(30));
    assert_eq!((recent.diagnosis, recent.action), (Diagnosis::Ramp, CountChange::Grow(count(16))));
    assert_eq!((old.diagnosis, old.action), (Diagnosis::HotKey, CountChange::Grow(count(8))));

    // Minutes without traffic lay between those that were taken for neighbours.
    let gaps = [900.0, 0.0, 0.0, 0.0, 1_000.0, 0.0];
    let load = with_load(Span::Minute, "write_units", &gaps, 1);
    assert_eq!(throttled_write(4, Phase::Stable, &heat, &load).diagnosis, Diagnosis::HotKey);
}

/// Reports are samples. Where the newest happened to be larger than that before, a step was a ramp, and twice
/// as much was expected: in two of three cases.
#[test]
fn regression_every_second_step_was_taken_for_a_ramp() {
    const CASES: u64 = 400;
    let mut ramps = 0;
    dynashard_testkit::fuzz(CASES, |random: &Random| {
        // A quarter more or less, as fifteen reports a second show it.
        let noise = || [0.75, 0.85, 0.95, 1.0, 1.05, 1.15, 1.25][random.below(7)];
        let at = 2 + random.below(5);
        let rates = (0..9).map(|second| if second < at { 600.0 } else { 4_000.0 });
        let rates = rates.map(|rate| rate * noise()).collect::<Vec<_>>();
        let heat = with_load(Span::Second, "write_units", &rates, 2);
        let decision = throttled_write(1, Phase::Stable, &heat, &Ledger::default());
        ramps += u64::from(decision.figures.expected > decision.figures.demand);
    });
    assert!(ramps * 20 <= CASES, "{ramps} of {CASES}");
}

/// The sentence said that clients ask for exactly what the shards take, and that an item has its share of 0.
#[test]
fn regression_an_alarm_was_said_to_know_the_demand() {
    let answer = Situation::of("shards 1 xxh64\nreported write 300").answer();
    assert!(answer.contains("nobody has reported how many"), "{answer}");
    let answer = Situation::of("shards 1 xxh64\nreported write 300 item 80%").answer();
    assert!(answer.contains("80% of the refused requests") && !answer.contains(" 0 "), "{answer}");
}

/// An alarm comes minutes after what it is about, and what was asked for was looked for in the seconds before it alone: a key that was
/// read by bursts never grew.
#[test]
fn regression_reads_that_throttled_in_bursts_never_led_to_growth() {
    let settings = Settings::default();
    let burst = with_load(Span::Second, "get_units", &[9_000.0; 10], 70);
    let load = Ledger::default();
    let report = Cause::Reported {
        access: Access::Get,
        per_second: 2_000.0,
        hottest_share: None,
        shards: &[],
    };
    let decided = |changed_ago: u64, cause| {
        let metadata = resting(1, Placement::Xxh64);
        let last_updated_secs = NOW_SECS - changed_ago;
        let metadata = dynashard_core::CollectionMetadata { last_updated_secs, ..metadata };
        let evidence =
            Evidence { metadata: &metadata, heat: &burst, load: &load, cause, now: now() };
        decide(evidence, &settings, Waits::of(&settings)).action
    };
    assert_eq!(decided(1_000_000, report), CountChange::Grow(count(8)));
    assert_eq!(decided(60, report), CountChange::None, "it has changed since");
    let throttle = Throttle::from_reason("TableReadKeyRangeThroughputExceeded", None);
    let own = Cause::Throttled { access: Access::Get, throttle: &throttle, shards: &[] };
    assert_eq!(decided(1_000_000, own), CountChange::None, "who is throttled now knows more");
}

/// The schedule's own look, which reports no traffic, counted as a report: a collection of which nobody reports anything was never
/// relieved by its alarm while it was looked at.
#[test]
fn regression_a_look_was_taken_for_a_report() {
    let report = Cause::Reported {
        access: Access::Write,
        per_second: 300.0,
        hottest_share: None,
        shards: &[],
    };
    for (environments, action) in [(0.0, CountChange::Grow(count(2))), (1.0, CountChange::None)] {
        let mut load = with_load(Span::Minute, "writes", &[0.0; 3], 1);
        for measures in load.buckets.values_mut() {
            (measures.reports, measures.environments) = (1.0, environments);
        }
        let metadata = resting(1, Placement::Xxh64);
        let (heat, settings) = (Ledger::default(), Settings::default());
        let evidence =
            Evidence { metadata: &metadata, heat: &heat, load: &load, cause: report, now: now() };
        assert_eq!(decide(evidence, &settings, Waits::of(&settings)).action, action);
    }
}

/// A job that wrote for a minute of each hour had a mean of nothing: its collection shrank before each run, and grew in it.
#[test]
fn regression_an_hour_with_one_busy_minute_was_taken_for_a_calm_one() {
    let mut load = with_load(Span::Hour, "write_units", &[100.0; 4], 1);
    let calm = shrink(16, &load, now(), &Settings::default());
    assert_eq!(calm.action, CountChange::Shrink(count(1)));
    let hour = load.buckets.values_mut().next_back().expect("an hour");
    hour.busiest_write_units = 6_000.0 * 60.0;
    let busy = shrink(16, &load, now(), &Settings::default());
    assert_eq!((busy.diagnosis, busy.action), (Diagnosis::InUse, CountChange::None));
}

/// Items of 10 KB were moved at a tenth of the pace that was reckoned with: for two hours no load that came back could be relieved.
#[test]
fn regression_a_shrink_reckoned_with_items_of_a_kilobyte() {
    for (units, hindrance) in [(5.0, None), (50.0, Some(Hindrance::TooLong))] {
        let mut load = with_load(Span::Hour, "write_units", &[units; 6], 1);
        add_rates(&mut load, Span::Hour, "writes", [5.0; 6].into_iter(), 1);
        let decision = shrink(16, &load, now(), &Settings::default());
        let payback = decision.figures.payback.expect("a payback");
        let each = 4.0 * units / 5.0 + 1.0;
        assert!((payback.cost_wcu / payback.items - each).abs() < 1e-6, "{payback:?}");
        assert_eq!(decision.hindrance, hindrance, "{units} units a second");
    }
}

/// Somebody had put a hottest sort key into a minute that began in the seconds that count.
#[test]
fn regression_a_hottest_item_of_another_span_counted() {
    let mut heat = with_load(Span::Second, "write_units", &[3_000.0; 6], 2);
    add_rates(&mut heat, Span::Second, "ranked_units", [3_000.0; 6].into_iter(), 2);
    let forged = format!("m{NOW_SECS}t007");
    heat.hottest.extend(Ledger::of_figures([(forged, Some(Figure::Sum(18_000.0)))]).hottest);
    let decision = throttled_write(1, Phase::Stable, &heat, &Ledger::default());
    assert_eq!(decision.figures.hottest_share, Some(0.0));
}

/// The mean of the last three seconds held calm ones: one shard became 8 where 16 were needed, and nothing could be
/// done about that before the change had closed, a quarter of an hour later.
#[test]
fn regression_a_step_was_sized_from_the_calm_before_it() {
    let decide_after = |rates: &[f64]| {
        let ago = 2 + u64::try_from(rates.len()).expect("a few");
        let mut heat = with_load(Span::Second, "write_units", &[200.0; 6], ago);
        add_rates(&mut heat, Span::Second, "write_units", rates.iter().copied(), 2);
        add_rates(&mut heat, Span::Second, "write_units", [9_000.0].into_iter(), 1);
        throttled_write(1, Phase::Stable, &heat, &Ledger::default())
    };
    let first = decide_after(&[5_000.0]);
    assert_eq!((first.diagnosis, first.action), (Diagnosis::TooLittleEvidence, CountChange::None));
    assert_eq!(decide_after(&[5_000.0, 9_000.0]).action, CountChange::Grow(count(16)));
    assert_eq!(decide_after(&[9_000.0; 3]).action, CountChange::Grow(count(16)));
}

/// A key was sized from a second in which half of its writes came, got 4 shards, and filled them. What piled up was taken for
/// clients that each ask for two writes a second, and it grew from 4 to 64 shards where 8 were enough.
#[test]
fn regression_what_piled_up_was_taken_for_clients_that_would_ask_for_more() {
    let mut heat = with_load(Span::Second, "write_units", &[3_600.0; 5], 2);
    add_rates(&mut heat, Span::Second, "written_units", [3_400.0; 5].into_iter(), 2);
    add_rates(&mut heat, Span::Second, "refused_units", [500.0; 5].into_iter(), 2);
    // 300 operations that were refused, each of which stands for 2^5.
    let bucket = Bucket { span: Span::Second, start_secs: now().as_secs() };
    heat.sampled.insert((bucket, 5), (0..300).map(|operation| operation << 1 | 1).collect());
    let grown_from =
        |shards| throttled_write(shards, Phase::Stable, &heat, &Ledger::default()).action;
    assert_eq!(grown_from(4), CountChange::Grow(count(16)));
    assert_eq!(grown_from(1), CountChange::Grow(count(16)), "as far as one change may reach");
}

/// The batch itself was left out, and of the seconds after it the mean was nothing.
#[test]
fn regression_a_batch_followed_by_seconds_without_any_was_taken_for_no_demand() {
    let rates = [100.0, 20_000.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let heat = with_load(Span::Second, "write_units", &rates, 2);
    let decision = throttled_write(1, Phase::Stable, &heat, &Ledger::default());
    assert!(decision.figures.demand > 3_000.0, "{decision:?}");
}

/// Of five minutes the newer must be clearly above the older. A load that doubles in half an hour does not rise so
/// much in them.
#[test]
fn regression_a_load_that_doubled_in_half_an_hour_was_no_ramp() {
    let rates = (0..20_u32).map(|minute| 2_000.0 + 70.0 * f64::from(minute)).collect::<Vec<_>>();
    let load = with_load(Span::Minute, "write_units", &rates, 1);
    let metadata = resting(4, Placement::Xxh64);
    let settings = Settings::default();
    let (heat, cause) = (Ledger::default(), Cause::Time);
    let evidence = Evidence { metadata: &metadata, heat: &heat, load: &load, cause, now: now() };
    let decision = decide(evidence, &settings, Waits::of(&settings));
    assert_eq!(
        (decision.diagnosis, decision.action),
        (Diagnosis::Ramp, CountChange::Grow(count(8)))
    );
}
