//! The tables of "Configuring how `CloudWatch` alarms treat missing data", and what else decides.

use AlarmState::{Alarm, InsufficientData, Ok};

use super::super::evaluation::{Evaluation, Value, evaluate};
use super::*;

/// 2026-11-20T10:15:00Z, which is the end of a period.
const END: u64 = 1_795_169_700;

/// Evaluates an alarm on periods of a minute: `0` does not breach, `X` does, `-` is missing. The
/// newest comes last, as in the guide.
fn evaluated(alarm: &super::Alarm, periods: &str) -> Evaluation {
    let source = Recorded::default();
    for (age, period) in (1..).zip(periods.split(' ').rev()) {
        match period {
            "0" => source.record(END - age * 60, 0.0),
            "X" => source.record(END - age * 60 + 59, 7.0),
            "-" => {}
            other => panic!("{other} is not a datapoint"),
        }
    }
    evaluate(alarm, &source, END)
}

fn state(alarm: &super::Alarm, periods: &str) -> Option<AlarmState> {
    evaluated(alarm, periods).state
}

/// A row of a table: the datapoints, how many of those that decide are missing, and the state for
/// `missing`, `ignore`, `breaching` and `notBreaching`.
type Row = (&'static str, usize, [Option<AlarmState>; 4]);

fn check(to_alarm: u32, periods: u32, rows: &[Row]) {
    let treatments = [
        MissingData::Missing,
        MissingData::Ignore,
        MissingData::Breaching,
        MissingData::NotBreaching,
    ];
    for (datapoints, filled, states) in rows {
        for (treatment, expected) in treatments.into_iter().zip(states) {
            let alarm = alarm(to_alarm, periods, treatment);
            let evaluation = evaluated(&alarm, datapoints);
            assert_eq!(evaluation.state, *expected, "{datapoints} with {treatment:?}");
            let missing = evaluation.datapoints.iter().filter(|it| it.value.is_none()).count();
            assert_eq!(missing, *filled, "{datapoints} with {treatment:?}");
            assert_eq!(evaluation.datapoints.len(), periods as usize, "{datapoints}");
        }
    }
}

#[test]
fn the_guides_table_of_three_out_of_three() {
    check(
        3,
        3,
        &[
            ("0 - X - X", 0, [Some(Ok), Some(Ok), Some(Ok), Some(Ok)]),
            ("0 - - - -", 2, [Some(Ok), Some(Ok), Some(Ok), Some(Ok)]),
            ("- - - - -", 3, [Some(InsufficientData), None, Some(Alarm), Some(Ok)]),
            ("0 X X - X", 0, [Some(Alarm), Some(Alarm), Some(Alarm), Some(Alarm)]),
            ("- - X - -", 2, [Some(Alarm), None, Some(Alarm), Some(Ok)]),
        ],
    );
}

#[test]
fn the_guides_table_of_two_out_of_three() {
    check(
        2,
        3,
        &[
            ("0 - X - X", 0, [Some(Alarm), Some(Alarm), Some(Alarm), Some(Alarm)]),
            ("0 0 X 0 X", 0, [Some(Alarm), Some(Alarm), Some(Alarm), Some(Alarm)]),
            ("0 - X - -", 1, [Some(Ok), Some(Ok), Some(Alarm), Some(Ok)]),
            ("- - - - 0", 2, [Some(Ok), Some(Ok), Some(Alarm), Some(Ok)]),
            ("- - - X -", 2, [Some(Alarm), None, Some(Alarm), Some(Ok)]),
        ],
    );
}

#[test]
fn a_lone_breaching_datapoint_does_not_alarm_before_it_is_old_enough() {
    // The examples of "Avoiding premature transitions to alarm state".
    let alarm = alarm(3, 3, MissingData::Missing);
    assert_eq!(state(&alarm, "- - - - X"), None);
    assert_eq!(state(&alarm, "- - - X -"), None);
    assert_eq!(state(&alarm, "- - - X 0"), Some(Ok));
    assert_eq!(state(&alarm, "- - X - 0"), Some(Ok));
    assert_eq!(state(&alarm, "- - X - -"), Some(Alarm));
}

#[test]
fn one_out_of_one_needs_one_datapoint_that_breaches() {
    let alarm = alarm(1, 1, MissingData::NotBreaching);
    assert_eq!(state(&alarm, "X"), Some(Alarm));
    assert_eq!(state(&alarm, "X 0"), Some(Ok));
    assert_eq!(state(&alarm, "0 X"), Some(Alarm));
    assert_eq!(state(&alarm, "- - -"), Some(Ok));
}

#[test]
fn the_last_datapoint_counts_until_it_has_left_the_evaluation_range() {
    // "CloudWatch alarms might repeatedly re-evaluate the last set of data points".
    let alarm = alarm(1, 1, MissingData::NotBreaching);
    assert_eq!(state(&alarm, "X - -"), Some(Alarm));
    assert_eq!(state(&alarm, "X - - -"), Some(Ok));
}

#[test]
fn without_breaching_datapoints_every_datapoint_must_breach() {
    let alarm = super::Alarm { breaching_datapoints: None, ..alarm(1, 2, MissingData::Missing) };
    assert_eq!(state(&alarm, "X 0"), Some(Ok));
    assert_eq!(state(&alarm, "X X"), Some(Alarm));
}

/// By the reference of `PutMetricAlarm` such an alarm stays in `ALARM` after the first throttle.
#[test]
fn regression_alarms_on_metrics_of_dynamodb_were_believed_to_heed_missing_data() {
    let mut alarm = alarm(1, 1, MissingData::NotBreaching);
    assert_eq!(alarm.treatment(), MissingData::NotBreaching);
    alarm.metric.namespace = "AWS/DynamoDB".to_owned();
    assert_eq!(alarm.treatment(), MissingData::Ignore);
    alarm.fill = Some(filled_with(0.0));
    assert_eq!(alarm.treatment(), MissingData::NotBreaching);
    alarm.missing_data = None;
    assert_eq!(alarm.treatment(), MissingData::Missing);
}

fn filled_with(value: f64) -> Fill {
    Fill { id: "filled".to_owned(), metric_id: "metric".to_owned(), value }
}

#[test]
fn an_expression_fills_gaps_between_data_and_makes_none_where_there_is_none() {
    for (fill, datapoints, expected) in [
        (0.0, "X - -", Some(Ok)),
        (0.0, "- - X", Some(Alarm)),
        (1.0, "0 - -", Some(Alarm)),
        // Nothing is there to fill, so the alarm treats all as missing.
        (1.0, "- - -", Some(Ok)),
    ] {
        let alarm = super::Alarm {
            fill: Some(filled_with(fill)),
            ..alarm(1, 1, MissingData::NotBreaching)
        };
        assert_eq!(state(&alarm, datapoints), expected, "{fill} {datapoints}");
    }
}

#[test]
fn a_datapoint_is_the_statistic_of_its_whole_period_and_of_no_other_second() {
    let source = Recorded::default();
    source.record(END - 61, 100.0);
    source.record(END - 60, 1.0);
    source.record(END - 1, 5.0);
    source.record(END - 1, 3.0);
    source.record(END, 100.0);
    for (statistic, value) in [
        (Statistic::SampleCount, 3.0),
        (Statistic::Average, 3.0),
        (Statistic::Sum, 9.0),
        (Statistic::Minimum, 1.0),
        (Statistic::Maximum, 5.0),
    ] {
        let alarm = super::Alarm { statistic, ..alarm(1, 1, MissingData::Missing) };
        let newest = evaluate(&alarm, &source, END).datapoints[0];
        assert_eq!(newest.start, END - 60);
        assert_eq!(newest.value, Some(Value { value, sample_count: 3.0 }), "{statistic:?}");
    }
}

#[test]
fn each_comparison_says_for_itself_whether_the_threshold_breaches() {
    let breaching = |value: f64| {
        let all = Comparison::NAMES.iter();
        all.map(|(_, comparison)| comparison.breaches(value, 1.0)).collect::<Vec<_>>()
    };
    assert_eq!(breaching(0.9), [false, false, true, true]);
    assert_eq!(breaching(1.0), [false, true, false, true]);
    assert_eq!(breaching(1.1), [true, true, false, false]);
}
