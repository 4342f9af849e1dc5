//! Reasons in the words that alarms on AWS have given.

use serde_json::{Value, json};

use super::super::evaluation::evaluate;
use super::super::reason;
use super::*;

/// 2026-11-20T10:15:00Z.
const END: u64 = 1_795_169_700;

/// The reason and its data, of an alarm on these values; the newest comes last.
fn reasons(alarm: &Alarm, values: &[Option<f64>]) -> (String, Value) {
    let source = Recorded::default();
    for (age, value) in (1..).zip(values.iter().rev()) {
        if let Some(value) = value {
            source.record(END - age * 60, *value);
        }
    }
    let evaluation = evaluate(alarm, &source, END);
    let state = evaluation.state.expect("a state");
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(END * 1000 + 123);
    let data = reason::data(alarm, &evaluation, now);
    (reason::text(alarm, &evaluation, state), serde_json::from_str(&data).expect("JSON"))
}

#[test]
fn an_alarm_names_the_datapoints_that_breach() {
    let (text, data) = reasons(&alarm(1, 1, MissingData::NotBreaching), &[Some(239.0)]);
    assert_eq!(
        text,
        "Threshold Crossed: 1 out of the last 1 datapoints [239.0 (20/11/26 10:14:00)] was greater \
         than or equal to the threshold (1.0) (minimum 1 datapoint for OK -> ALARM transition)."
    );
    assert_eq!(
        data,
        json!({
            "version": "1.0",
            "queryDate": "2026-11-20T10:15:00.123+0000",
            "startDate": "2026-11-20T10:14:00.000+0000",
            "statistic": "Sum",
            "period": 60,
            "recentDatapoints": [239.0],
            "threshold": 1.0,
            "evaluatedDatapoints": [
                { "timestamp": "2026-11-20T10:14:00.000+0000", "sampleCount": 1.0, "value": 239.0 },
            ],
        })
    );
}

#[test]
fn datapoints_stand_newest_first_in_the_text_and_oldest_first_in_the_data() {
    let alarm = Alarm { breaching_datapoints: None, ..alarm(1, 2, MissingData::Missing) };
    let (text, data) = reasons(&alarm, &[Some(4.0), Some(5.5)]);
    assert_eq!(
        text,
        "Threshold Crossed: 2 datapoints [5.5 (20/11/26 10:14:00), 4.0 (20/11/26 10:13:00)] were \
         greater than or equal to the threshold (1.0)."
    );
    assert_eq!(data["recentDatapoints"], json!([4.0, 5.5]));
    assert_eq!(data["startDate"], "2026-11-20T10:13:00.000+0000");
    assert_eq!(data["evaluatedDatapoints"][0]["value"], 5.5);
}

#[test]
fn gaps_that_were_filled_are_counted() {
    let values = [Some(613.0), None, None, None];
    let (text, data) = reasons(&alarm(1, 4, MissingData::NotBreaching), &values);
    assert_eq!(
        text,
        "Threshold Crossed: 1 out of the last 4 datapoints [613.0 (20/11/26 10:11:00)] was greater \
         than or equal to the threshold (1.0) and 3 missing datapoints were treated as \
         [NonBreaching] (minimum 1 datapoint for OK -> ALARM transition)."
    );
    assert_eq!(
        data["evaluatedDatapoints"][0],
        json!({ "timestamp": "2026-11-20T10:14:00.000+0000" })
    );
}

#[test]
fn back_in_the_bounds_the_datapoints_that_do_not_breach_are_named() {
    let values = [Some(7.0), Some(0.5), Some(0.25)];
    let (text, _) = reasons(&alarm(2, 3, MissingData::Missing), &values);
    assert_eq!(
        text,
        "Threshold Crossed: 2 out of the last 3 datapoints [0.25 (20/11/26 10:14:00), 0.5 \
         (20/11/26 10:13:00)] were not greater than or equal to the threshold (1.0) (minimum 2 \
         datapoints for ALARM -> OK transition)."
    );
    // Nothing but gaps speaks for OK, and they are all that is named.
    let (text, _) = reasons(&alarm(2, 3, MissingData::NotBreaching), &[Some(7.0), None, None]);
    assert_eq!(
        text,
        "Threshold Crossed: 2 missing datapoints were treated as [NonBreaching] (minimum 2 \
         datapoints for ALARM -> OK transition)."
    );
}

#[test]
fn nothing_received_is_said_so() {
    let (text, data) = reasons(&alarm(1, 1, MissingData::NotBreaching), &[]);
    assert_eq!(
        text,
        "Threshold Crossed: no datapoints were received for 1 period and 1 missing datapoint was \
         treated as [NonBreaching]."
    );
    assert_eq!(data.get("startDate"), None);
    assert_eq!(data["recentDatapoints"], json!([]));
    let (text, _) = reasons(&alarm(3, 3, MissingData::Breaching), &[]);
    assert_eq!(
        text,
        "Threshold Crossed: no datapoints were received for 3 periods and 3 missing datapoints \
         were treated as [Breaching]."
    );
    let (text, data) = reasons(&alarm(5, 5, MissingData::Missing), &[]);
    assert_eq!(text, "Insufficient Data: 5 datapoints were unknown.");
    assert_eq!(data["evaluatedDatapoints"].as_array().map(Vec::len), Some(5));
}
