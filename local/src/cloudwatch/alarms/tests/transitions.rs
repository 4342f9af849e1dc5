//! Which states an alarm goes through, and what it tells of them.

use super::*;
use crate::clock::Clock;
use crate::clock::manual::ManualClock;

/// An alarm on a metric that has no values yet, at 10:10:10.
struct Setup {
    clock: Arc<ManualClock>,
    source: Recorded,
    alarms: Alarms,
    transitions: mpsc::UnboundedReceiver<Transition>,
}

impl Setup {
    fn new(missing_data: MissingData) -> Self {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_169_410);
        let clock = ManualClock::at(start);
        let shared: SharedClock = clock.clone();
        let (alarms, transitions) = Alarms::new(vec![alarm(1, 1, missing_data)], &shared);
        Self { clock, source: Recorded::default(), alarms, transitions }
    }

    fn status(&self) -> AlarmStatus {
        self.alarms.list().remove(0).1
    }

    fn set(&self, state: AlarmState) {
        self.alarms.set_state("throttles", state, "by hand", None).expect("the alarm");
    }

    /// Moves the clock to the end of its minute, and evaluates. `value` is what the metric measured
    /// in it.
    fn minute(&self, value: Option<f64>) -> AlarmState {
        let now = self.alarms.epoch_secs();
        let end = (now / 60 + 1) * 60;
        self.clock.advance(Duration::from_secs(end - now));
        if let Some(value) = value {
            self.source.record(end - 1, value);
        }
        self.alarms.evaluate(&self.alarms.by_name["throttles"], &self.source, end);
        self.status().state
    }

    /// The transitions since the last call: each a state and the one before it.
    fn told(&mut self) -> Vec<(AlarmState, AlarmState)> {
        let transitions = std::iter::from_fn(|| self.transitions.try_recv().ok());
        transitions.map(|it| (it.previous.state, it.status.state)).collect()
    }
}

#[test]
fn transitions_are_told_and_states_are_not() {
    let mut setup = Setup::new(MissingData::NotBreaching);
    assert_eq!(setup.status().state, AlarmState::InsufficientData);
    assert_eq!(setup.minute(Some(7.0)), AlarmState::Alarm);
    assert_eq!(setup.told(), [(AlarmState::InsufficientData, AlarmState::Alarm)]);
    let first = setup.status();
    assert_eq!(setup.minute(Some(9.0)), AlarmState::Alarm);
    let second = setup.status();
    assert_eq!(second.reason, first.reason, "that of the transition");
    assert_eq!(second.since, first.since);
    // The last datapoint counts for two periods more.
    assert_eq!(setup.minute(None), AlarmState::Alarm);
    assert_eq!(setup.minute(None), AlarmState::Alarm);
    assert_eq!(setup.minute(None), AlarmState::Ok);
    assert_eq!(setup.told(), [(AlarmState::Alarm, AlarmState::Ok)]);
}

#[test]
fn a_transition_has_both_states_with_their_reasons() {
    let mut setup = Setup::new(MissingData::NotBreaching);
    setup.minute(Some(7.0));
    let transition = setup.transitions.try_recv().expect("a transition");
    assert_eq!(transition.alarm.name, "throttles");
    assert_eq!(transition.previous.reason, "Unchecked: Initial alarm creation");
    assert_eq!(transition.previous.reason_data, None);
    let status = transition.status;
    assert!(status.reason.starts_with("Threshold Crossed: 1 out of the last 1 datapoints [7.0 "));
    let data = status.reason_data.expect("data");
    assert!(data.contains(r#""recentDatapoints":[7.0]"#), "{data}");
    assert_eq!(status.since, setup.clock.now());
}

#[test]
fn an_alarm_set_back_alarms_again_while_the_heat_goes_on() {
    let mut setup = Setup::new(MissingData::NotBreaching);
    assert_eq!(setup.minute(Some(7.0)), AlarmState::Alarm);
    setup.told();
    setup.set(AlarmState::Ok);
    assert_eq!(setup.status().state, AlarmState::Ok);
    assert_eq!(setup.status().reason, "by hand");
    assert_eq!(setup.minute(Some(7.0)), AlarmState::Alarm);
    let expected = [(AlarmState::Alarm, AlarmState::Ok), (AlarmState::Ok, AlarmState::Alarm)];
    assert_eq!(setup.told(), expected);
}

#[test]
fn a_state_that_is_set_is_told_only_where_it_is_a_transition() {
    let mut setup = Setup::new(MissingData::NotBreaching);
    setup.set(AlarmState::Alarm);
    let data = Some(r#"{"mine":1}"#);
    let again = setup.alarms.set_state("throttles", AlarmState::Alarm, "again", data);
    again.expect("the alarm");
    assert_eq!(setup.status().reason, "by hand");
    assert_eq!(setup.told().len(), 1);
    setup.alarms.set_state("throttles", AlarmState::Ok, "over", data).expect("the alarm");
    assert_eq!(setup.status().reason_data.as_deref(), data);
    let unknown = setup.alarms.set_state("other", AlarmState::Ok, "", None);
    assert_eq!(unknown, Err(UnknownAlarm("other".to_owned())));
}

#[test]
fn an_alarm_that_ignores_missing_data_is_stuck_until_it_is_set_back() {
    let mut setup = Setup::new(MissingData::Ignore);
    assert_eq!(setup.minute(Some(7.0)), AlarmState::Alarm);
    for _ in 0..60 {
        assert_eq!(setup.minute(None), AlarmState::Alarm);
    }
    setup.set(AlarmState::Ok);
    setup.told();
    for _ in 0..60 {
        assert_eq!(setup.minute(None), AlarmState::Ok);
    }
    assert_eq!(setup.told(), []);
}

#[test]
fn an_alarm_whose_metric_falls_silent_has_insufficient_data() {
    let setup = Setup::new(MissingData::Missing);
    assert_eq!(setup.minute(Some(0.0)), AlarmState::Ok);
    assert_eq!(setup.minute(None), AlarmState::Ok);
    assert_eq!(setup.minute(None), AlarmState::Ok);
    assert_eq!(setup.minute(None), AlarmState::InsufficientData);
}
