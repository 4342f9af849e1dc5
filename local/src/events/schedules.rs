//! Schedules: functions that are invoked at equal intervals.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::timestamp_secs;
use crate::clock::SharedClock;
use crate::ids;
use crate::lambda::{Background, Pool};
use crate::plan::{ACCOUNT_ID, REGION, Schedule};

/// Fires a schedule that is made now, at once and then at its interval: "Rate expressions reference" in `EventBridge`'s user
/// guide.
///
/// The function is invoked asynchronously, so a firing waits for no other. Times that have passed
/// unnoticed, as on a machine that slept, are not made up for.
pub(super) async fn fire(
    schedule: Schedule,
    pool: Arc<Pool>,
    background: Arc<Background>,
    clock: SharedClock,
) {
    let made = clock.now();
    let mut time = made;
    loop {
        clock.sleep_until(time).await;
        background.deliver(Arc::clone(&pool), pool.invocation(event(&schedule, time)));
        // A sleep may end a moment before its time on the wall clock, and must not fire twice for it.
        time = next(made, schedule.interval, clock.now().max(time));
    }
}

/// The first time after `after` that is a multiple of `interval` after `made`.
fn next(made: SystemTime, interval: Duration, after: SystemTime) -> SystemTime {
    let elapsed = after.duration_since(made).unwrap_or_default();
    made + Duration::from_secs((elapsed.as_secs() / interval.as_secs() + 1) * interval.as_secs())
}

/// The event of a schedule: "Events from Amazon `EventBridge` scheduled rules" in `EventBridge`'s
/// user guide.
fn event(schedule: &Schedule, time: SystemTime) -> String {
    let event = json!({
        "version": "0",
        "id": ids::uuid(),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT_ID,
        "time": timestamp_secs(time),
        "region": REGION,
        "resources": [format!("arn:aws:events:{REGION}:{ACCOUNT_ID}:rule/{}", schedule.id)],
        "detail": {},
    });
    event.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::lambda::fake::Rig;

    fn start(rig: &Rig) -> (Arc<Background>, JoinHandle<()>) {
        let clock: SharedClock = rig.clock.clone();
        let background = Arc::new(Background::new(Arc::clone(&clock)));
        let pool = Arc::clone(rig.runtime.pool("Function").expect("the function"));
        let schedule =
            Schedule { id: "FunctionSweep".to_owned(), interval: Duration::from_mins(1) };
        let firing = fire(schedule, pool, Arc::clone(&background), clock);
        (background, tokio::spawn(firing))
    }

    async fn stop(rig: Rig, background: Arc<Background>, firing: JoinHandle<()>) {
        firing.abort();
        background.shutdown().await;
        rig.runtime.shutdown().await;
    }

    #[tokio::test]
    async fn a_rule_fires_at_once_and_each_minute_and_waits_for_no_invocation() {
        let (mut rig, first, polling) = Rig::start(2).await;
        let (background, firing) = start(&rig);
        let event = polling.await.expect("an event");
        let json: Value = serde_json::from_slice(&event.payload).expect("JSON");
        assert_eq!(
            json,
            json!({
                "version": "0",
                "id": json["id"],
                "detail-type": "Scheduled Event",
                "source": "aws.events",
                "account": "123456789012",
                "time": "2026-11-20T10:10:10Z",
                "region": "us-east-1",
                "resources": ["arn:aws:events:us-east-1:123456789012:rule/FunctionSweep"],
                "detail": {},
            })
        );
        // The function fails, and the schedule goes on; the event itself is tried again by Lambda.
        first.fail(&event, "{}").await;
        let polling = first.poll();
        rig.idle(1).await;
        rig.clock.sleeping(2).await;
        rig.clock.advance(Duration::from_mins(1));
        let second = rig.launched().await;
        let other = second.poll();
        let (again, next) = tokio::join!(polling, other);
        let id = |event: crate::lambda::fake::Event| event.request_id;
        let ids = [id(again.expect("an event")), id(next.expect("an event"))];
        assert!(ids.contains(&event.request_id), "the second attempt of the first event");
        assert_ne!(ids[0], ids[1]);
        stop(rig, background, firing).await;
    }

    #[test]
    fn missed_times_are_not_made_up_for() {
        let made = SystemTime::UNIX_EPOCH + Duration::from_secs(40);
        let minute = Duration::from_mins(1);
        assert_eq!(next(made, minute, made), made + minute);
        assert_eq!(next(made, minute, made + minute), made + 2 * minute);
        assert_eq!(next(made, minute, made + Duration::from_secs(150)), made + 3 * minute);
    }
}
