//! When alarms are evaluated.

use std::pin::Pin;

use tokio::sync::mpsc;

use super::*;
use crate::clock::Clock;
use crate::clock::manual::ManualClock;

/// 2026-11-20T10:10:10Z.
const START: u64 = 1_795_169_410;

/// A metric that has no values, and tells of each period that it is asked for.
#[derive(Debug)]
struct Probe(mpsc::UnboundedSender<Range<u64>>);

impl MetricSource for Probe {
    fn statistics(&self, _metric: &MetricId, seconds: Range<u64>) -> Option<StatisticSet> {
        self.0.send(seconds).expect("the test listens");
        None
    }
}

/// The evaluation of an alarm by the clock.
struct Watch {
    clock: Arc<ManualClock>,
    evaluation: JoinSet<()>,
    asked: mpsc::UnboundedReceiver<Range<u64>>,
}

impl Watch {
    /// Watches an alarm of one evaluation period.
    async fn start(
        schedule: AlarmSchedule,
        clock: impl FnOnce(&Arc<ManualClock>) -> SharedClock,
    ) -> Self {
        let manual = ManualClock::at(SystemTime::UNIX_EPOCH + Duration::from_secs(START));
        let watched = Alarm { schedule, ..alarm(1, 1, MissingData::NotBreaching) };
        let (alarms, _) = Alarms::new(vec![watched], &clock(&manual));
        let (tell, asked) = mpsc::unbounded_channel();
        let evaluation = Arc::new(alarms).watch(&Arc::new(Probe(tell)));
        manual.sleeping(1).await;
        Self { clock: manual, evaluation, asked }
    }

    /// The newest period of the next evaluation, in seconds after 10:10:00.
    async fn evaluated(&mut self) -> Range<u64> {
        let newest = self.asked.recv().await.expect("an evaluation");
        for _ in 0..2 {
            self.asked.recv().await.expect("the periods before it");
        }
        newest.start + 10 - START..newest.end + 10 - START
    }

    async fn advance(&self, secs: u64) {
        self.clock.sleeping(1).await;
        self.clock.advance(Duration::from_secs(secs));
    }

    async fn stop(mut self) {
        self.evaluation.shutdown().await;
    }
}

fn same_clock(clock: &Arc<ManualClock>) -> SharedClock {
    clock.clone()
}

#[tokio::test]
async fn an_alarm_is_evaluated_at_the_end_of_each_minute() {
    let mut watch = Watch::start(AlarmSchedule::of_period(60), same_clock).await;
    watch.advance(49).await;
    tokio::task::yield_now().await;
    assert!(watch.asked.try_recv().is_err(), "the minute is not over");
    watch.advance(1).await;
    assert_eq!(watch.evaluated().await, 0..60);
    watch.advance(60).await;
    assert_eq!(watch.evaluated().await, 60..120);
    watch.stop().await;
}

#[tokio::test]
async fn longer_periods_are_evaluated_each_minute_and_shorter_ones_every_ten_seconds() {
    let mut watch = Watch::start(AlarmSchedule::of_period(300), same_clock).await;
    watch.advance(290).await;
    assert_eq!(watch.evaluated().await, 0..300);
    watch.advance(60).await;
    assert_eq!(watch.evaluated().await, 60..360);
    watch.stop().await;

    let mut watch = Watch::start(AlarmSchedule::of_period(30), same_clock).await;
    watch.advance(25).await;
    assert_eq!(watch.evaluated().await, 0..30);
    watch.advance(5).await;
    assert_eq!(watch.evaluated().await, 10..40);
    watch.stop().await;
}

#[tokio::test]
async fn a_period_that_is_set_is_evaluated_at_its_end() {
    let set = alarm(1, 1, MissingData::Ignore).with_period(4).schedule;
    let mut watch = Watch::start(set, same_clock).await;
    watch.advance(2).await;
    assert_eq!(watch.evaluated().await, 8..12);
    watch.advance(4).await;
    assert_eq!(watch.evaluated().await, 12..16);
    watch.stop().await;
}

#[tokio::test]
async fn minutes_that_the_machine_slept_through_are_not_made_up_for() {
    let mut watch = Watch::start(AlarmSchedule::of_period(60), same_clock).await;
    watch.advance(3600).await;
    assert_eq!(watch.evaluated().await, 3540..3600);
    watch.advance(50).await;
    assert_eq!(watch.evaluated().await, 3600..3660, "and nothing in between");
    watch.stop().await;
}

/// A clock whose sleeps end a moment early, as they may beside the wall clock.
#[derive(Debug)]
struct Hasty(Arc<ManualClock>);

impl Clock for Hasty {
    fn now(&self) -> SystemTime {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.0.sleep(duration.saturating_sub(Duration::from_secs(1)))
    }
}

#[tokio::test]
async fn a_sleep_that_ends_early_evaluates_no_period_twice() {
    let mut watch =
        Watch::start(AlarmSchedule::of_period(60), |clock| Arc::new(Hasty(clock.clone()))).await;
    watch.advance(49).await;
    assert_eq!(watch.evaluated().await, 0..60);
    watch.advance(60).await;
    assert_eq!(watch.evaluated().await, 60..120);
    watch.stop().await;
}
