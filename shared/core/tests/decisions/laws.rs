//! What holds of every decision.

use std::time::Duration;

use dynashard_core::{
    Access, Addition, Bucket, Cause, CollectionMetadata, CountChange, Decision, Evidence, Figure,
    Ledger, Measures, PartitionLimits, Phase, Settings, ShrinkPolicy, Span, Throttle, Waits,
    decide, decide_shrink,
};
use dynashard_keys::{Placement, ShardId};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;

use crate::situation::{NOW_SECS, add_rates, count, now, resting};

fn placement() -> impl Strategy<Value = Placement> {
    prop_oneof![Just(Placement::Xxh64), Just(Placement::Jump), Just(Placement::Random)]
}

/// Any state of a collection that its placement allows.
fn metadata() -> impl Strategy<Value = CollectionMetadata> {
    let state = (0_u8..6, any::<bool>(), 0_u64..4, 0_u64..200_000);
    (placement(), [1_u32..300, 1_u32..300, 1_u32..300], state).prop_map(
        |(placement, counts, (phase, cleanup_pending, rev, changed_ago))| {
            let [present, other, least] = counts.map(|n| placement.round(count(n)));
            let phase = match phase {
                0 if other != present => Phase::Forward { from: present, to: other },
                1 if other != present => Phase::Move { from: other, to: present },
                _ => Phase::Stable,
            };
            CollectionMetadata {
                phase,
                cleanup_pending,
                rev,
                min_shards: least,
                last_updated_secs: NOW_SECS - changed_ago,
                ..resting(present.get(), placement)
            }
        },
    )
}

fn settings() -> impl Strategy<Value = Settings> {
    let limits = (1_u32..5_000, 1_u32..5_000);
    let shrink = (60_u64..260_000, option::of(1_u64..400));
    (1_u32..70_000, limits, shrink).prop_map(|(max, (write_units, read_units), (after, days))| {
        Settings {
            max_shards: count(max.min(65_536)),
            partition: PartitionLimits { write_units, read_units },
            shrink: ShrinkPolicy {
                after: Duration::from_secs(after),
                payback: days.map(|days| Duration::from_hours(24 * days)),
                ..ShrinkPolicy::default()
            },
            ..Settings::default()
        }
    })
}

/// A bucket that is near the present, or anywhere.
fn bucket() -> impl Strategy<Value = Bucket> {
    let span = prop_oneof![Just(Span::Second), Just(Span::Minute), Just(Span::Hour)];
    let near = -15_i64..5;
    (span, prop_oneof![8 => near.prop_map(Ok), 1 => prop_oneof![any::<u64>(), Just(u64::MAX)].prop_map(Err)]).prop_map(
        |(span, start)| {
            let present = Bucket::of(span, now()).start_secs;
            let start_secs = match start {
                Ok(spans) => {
                    let secs = i64::try_from(span.secs()).expect("an hour at most");
                    present.saturating_add_signed(spans * secs)
                }
                Err(anything) => anything / span.secs() * span.secs(),
            };
            Bucket { span, start_secs }
        },
    )
}

fn measures(value: impl Strategy<Value = f64>) -> impl Strategy<Value = Measures> {
    vec(value, 12).prop_map(|values| {
        let mut measures = Measures::default();
        for ((letter, _), value) in Measures::default().fields().into_iter().zip(values) {
            *measures.field_mut(letter).expect("a measure") = value;
        }
        measures
    })
}

/// What nobody adds, but somebody may write by hand.
fn any_ledger() -> impl Strategy<Value = Ledger> {
    let value = || prop_oneof![8 => 0.0..1e7, 1 => Just(0.0), 1 => any::<f64>()];
    let buckets = btree_map(bucket(), measures(value()), 0..40);
    let hottest = btree_map((bucket(), 0_u16..4_096), value(), 0..10);
    let operations = btree_set(any::<u32>(), 0..60);
    let sampled = btree_map((bucket(), 0_u8..=24), operations, 0..12);
    (buckets, hottest, sampled, 0_usize..2).prop_map(|(buckets, hottest, sampled, damaged)| {
        Ledger { buckets, hottest, sampled, damaged }
    })
}

fn figure() -> impl Strategy<Value = Figure> {
    let sets = btree_set(any::<u32>(), 0..4).prop_map(Figure::Set);
    prop_oneof![3 => any::<f64>().prop_map(Figure::Sum), 1 => sets]
}

#[derive(Debug, Clone)]
enum Led {
    Throttled(Access, &'static str),
    Reported(Access, f64, Option<f64>),
    Time,
}

fn led() -> impl Strategy<Value = Led> {
    let access = || prop_oneof![Just(Access::Write), Just(Access::Get), Just(Access::Query)];
    let reason = prop_oneof![
        9 => Just("TableWriteKeyRangeThroughputExceeded"),
        1 => Just("TableWriteAccountLimitExceeded"),
    ];
    prop_oneof![
        4 => (access(), reason).prop_map(|(access, reason)| Led::Throttled(access, reason)),
        1 => (access(), any::<f64>(), option::of(any::<f64>()))
            .prop_map(|(access, rate, share)| Led::Reported(access, rate, share)),
        1 => Just(Led::Time),
    ]
}

fn decided(
    metadata: &CollectionMetadata,
    (heat, load): (&Ledger, &Ledger),
    led: &Led,
    settings: &Settings,
) -> Decision {
    let throttle;
    let shards = [ShardId::new(0)];
    let cause = match *led {
        Led::Throttled(access, reason) => {
            throttle = Throttle::from_reason(reason, None);
            Cause::Throttled { access, throttle: &throttle, shards: &shards }
        }
        Led::Reported(access, per_second, hottest_share) => {
            Cause::Reported { access, per_second, hottest_share, shards: &shards }
        }
        Led::Time => Cause::Time,
    };
    let evidence = Evidence { metadata, heat, load, cause, now: now() };
    decide(evidence, settings, Waits::of(settings))
}

fn shrunk(metadata: &CollectionMetadata, load: &Ledger, settings: &Settings) -> Decision {
    let (heat, cause) = (&Ledger::default(), Cause::Time);
    decide_shrink(Evidence { metadata, heat, load, cause, now: now() }, settings)
}

/// The count that a decision leads to.
fn target(decision: &Decision) -> u32 {
    decision.action.target().unwrap_or(decision.count).get()
}

const HOT: Led = Led::Throttled(Access::Write, "TableWriteKeyRangeThroughputExceeded");

fn heat_of(rates: &[f64]) -> Ledger {
    let mut heat = Ledger::default();
    add_rates(&mut heat, Span::Second, "write_units", rates.iter().copied(), 2);
    heat
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn whatever_a_ledger_says_a_growth_stays_within_its_bounds(
        metadata in metadata(),
        ledgers in (any_ledger(), any_ledger()),
        led in led(),
        settings in settings(),
    ) {
        let decision = decided(&metadata, (&ledgers.0, &ledgers.1), &led, &settings);
        let present = metadata.number_of_shards;
        match decision.action {
            CountChange::None => {}
            CountChange::Grow(to) => {
                prop_assert!(to > present && to <= settings.max_shards);
                prop_assert!(to.get() <= 16 * present.get());
                prop_assert_eq!(metadata.placement.check(to), Ok(()));
                prop_assert_eq!(metadata.phase, Phase::Stable);
                prop_assert_eq!(&decision.hindrance, &None);
            }
            CountChange::TurnRound(to) => {
                let (Phase::Forward { from, to: fewer } | Phase::Move { from, to: fewer }) =
                    metadata.phase
                else {
                    return Err(TestCaseError::fail("nothing runs"));
                };
                prop_assert!(to == from && fewer < from);
            }
            CountChange::Shrink(_) => return Err(TestCaseError::fail("only a schedule shrinks")),
        }
        prop_assert!(!decision.to_string().is_empty() && !decision.code().is_empty());
    }

    #[test]
    fn whatever_a_ledger_says_a_shrink_stays_above_its_floor(
        metadata in metadata(),
        load in any_ledger(),
        settings in settings(),
    ) {
        let decision = shrunk(&metadata, &load, &settings);
        match decision.action {
            CountChange::None => {}
            CountChange::Shrink(to) => {
                prop_assert!(to >= metadata.min_shards);
                prop_assert!(2 * to.get() <= metadata.number_of_shards.get());
                prop_assert_eq!(metadata.placement.check(to), Ok(()));
                prop_assert_eq!(metadata.phase, Phase::Stable);
                prop_assert_eq!(load.damaged, 0);
            }
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        }
        prop_assert!(!decision.to_string().is_empty());
    }

    #[test]
    fn below_half_of_what_its_shards_take_nothing_grows(
        metadata in metadata(),
        parts in vec(0.0..0.499, 1..12),
        minutes in vec(0.0..0.499, 0..8),
        is_throttled: bool,
    ) {
        let settings = Settings::default();
        let led = if is_throttled { HOT } else { Led::Time };
        let takes = metadata.layout().writable.min(metadata.number_of_shards);
        let capacity = f64::from(takes.get()) * 1_000.0;
        let heat = heat_of(&parts.iter().map(|part| part * capacity).collect::<Vec<_>>());
        let mut load = Ledger::default();
        let rates = minutes.iter().map(|part| part * capacity);
        add_rates(&mut load, Span::Minute, "write_units", rates, 1);
        let decision = decided(&metadata, (&heat, &load), &led, &settings);
        prop_assert_eq!(decision.action, CountChange::None, "{}", decision);
    }

    #[test]
    fn who_asks_for_more_gets_no_fewer_shards(
        placement in placement(),
        present in 1_u32..100,
        rates in vec(0.0..20_000.0, 1..12),
        newest in 0.0..20_000.0,
        factor in 1.0..20.0,
    ) {
        let metadata = resting(placement.round(count(present)).get(), placement);
        let settings = Settings::default();
        let by = |factor: f64| {
            let scaled = rates.iter().map(|rate| rate * factor).collect::<Vec<_>>();
            let mut heat = heat_of(&scaled);
            let partial = [newest * factor].into_iter();
            add_rates(&mut heat, Span::Second, "write_units", partial, 1);
            target(&decided(&metadata, (&heat, &Ledger::default()), &HOT, &settings))
        };
        prop_assert!(by(1.0) <= by(factor));
    }

    #[test]
    fn who_asks_for_more_keeps_no_fewer_shards(
        placement in placement(),
        present in 1_u32..100,
        hours in vec(0.0..50_000.0, 6),
        factor in 1.0..20.0,
    ) {
        let metadata = resting(placement.round(count(present)).get(), placement);
        let by = |factor: f64| {
            let mut load = Ledger::default();
            let rates = hours.iter().map(|rate| rate * factor);
            add_rates(&mut load, Span::Hour, "write_units", rates, 1);
            target(&shrunk(&metadata, &load, &Settings::default()))
        };
        prop_assert!(by(1.0) <= by(factor));
    }

    #[test]
    fn what_a_collection_has_grown_to_for_a_demand_is_enough_and_does_not_shrink(
        placement in placement(),
        present in 1_u32..100,
        part in 0.7..11.0,
    ) {
        let metadata = resting(placement.round(count(present)).get(), placement);
        let settings = Settings { max_shards: count(65_536), ..Settings::default() };
        let demand = part * 1_000.0 * f64::from(metadata.number_of_shards.get());
        let heat = heat_of(&[demand; 8]);
        let decision = decided(&metadata, (&heat, &Ledger::default()), &HOT, &settings);
        let grown = resting(target(&decision), placement);
        prop_assert!(demand <= 0.7 * 1_000.0 * f64::from(grown.number_of_shards.get()));
        let mut load = Ledger::default();
        add_rates(&mut load, Span::Hour, "write_units", [demand; 6].into_iter(), 1);
        let after = shrunk(&grown, &load, &settings);
        prop_assert_eq!(after.action, CountChange::None, "{}", after);
    }

    #[test]
    fn what_is_added_is_what_is_read(
        added in btree_map(bucket(), measures(0.0..1e9), 0..8),
        hottest in option::of((bucket(), 0_u16..4_096, 0.0..1e9)),
        sampled in btree_map(-9_i64..0, (0_u8..=24, btree_set(any::<u32>(), 0..9)), 0..4),
    ) {
        let added = added.into_iter().collect();
        let sampled = sampled.into_iter().map(|(ago, (level, operations))| {
            let second = Bucket { span: Span::Second, start_secs: NOW_SECS.saturating_add_signed(ago) };
            (second, level, operations)
        });
        let sampled = sampled.collect();
        let addition = Addition { added, hottest, sampled, ..Addition::default() };
        let sums = addition.figures().into_iter().map(|(name, value)| {
            #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
            let value = value as f64;
            (name, Some(Figure::Sum(value)))
        });
        let sets = addition.sets().map(|(name, set)| (name, Some(Figure::Set(set.clone()))));
        let read = Ledger::of_figures(sums.chain(sets));
        // Zeros are not written.
        let mut applied = Ledger::default();
        applied.apply(&addition);
        applied.buckets.retain(|_, measures| *measures != Measures::default());
        applied.hottest.retain(|_, units| *units > 0.0);
        applied.sampled.retain(|_, operations| !operations.is_empty());
        prop_assert_eq!(read, applied);
    }

    #[test]
    fn any_attribute_is_read_or_counted_as_damaged(
        figures in btree_map("[smhx][0-9]{1,20}[a-zA-Z]{1,2}[0-9a-fA-F+]{0,4}", option::of(figure()), 0..20),
    ) {
        let ledger = Ledger::of_figures(figures.clone());
        let written = ledger.buckets.values().map(|measures| {
            measures.fields().into_iter().filter(|(_, value)| *value > 0.0).count()
        });
        let read = written.sum::<usize>() + ledger.hottest.len() + ledger.sampled.len();
        prop_assert!(read + ledger.damaged <= figures.len());
        let metadata = resting(1, Placement::Xxh64);
        let settings = Settings::default();
        decided(&metadata, (&ledger, &ledger), &HOT, &settings);
        shrunk(&metadata, &ledger, &settings);
    }
}
