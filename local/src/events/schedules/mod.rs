//! Schedules: functions that the time invokes.

mod expression;

pub(crate) use expression::Expression;

use super::timestamp_secs;
use crate::clock::{SharedClock, epoch_millis};
use crate::ids;
use crate::runtime::{Background, Invocation, Pool};
use crate::template::{ACCOUNT_ID, REGION, Schedule, Scheduler};
use serde_json::json;
use std::sync::Arc;
use std::time::SystemTime;

/// Fires a schedule that is made now, for as long as it has a next time.
///
/// The function is invoked asynchronously, as both services do it, so a firing waits for no other.
/// Times that have passed unnoticed, as on a machine that slept, are not made up for.
pub(super) async fn fire(
    schedule: Schedule,
    pool: Arc<Pool>,
    background: Arc<Background>,
    clock: SharedClock,
) {
    let made = clock.now();
    let mut last = made;
    // A sleep may end a moment before its time on the wall clock, and must not fire twice for it.
    while let Some(time) = schedule.expression.next(made, clock.now().max(last)) {
        clock.sleep(time.duration_since(clock.now()).unwrap_or_default()).await;
        let event = Invocation {
            request_id: ids::uuid(),
            payload: schedule.input.clone().unwrap_or_else(|| event(&schedule, time)).into(),
            trace_header: Some(ids::trace_header(epoch_millis(clock.now()) / 1000)),
            client_context: None,
            wants_log_tail: false,
        };
        background.deliver(Arc::clone(&pool), event);
        last = time;
    }
    tracing::warn!(schedule = schedule.id, "a schedule will never fire again");
}

/// The event of a schedule that gives no input of its own: "Events from Amazon `EventBridge`
/// scheduled rules", and what `EventBridge` Scheduler sends in its place.
fn event(schedule: &Schedule, time: SystemTime) -> String {
    let id = &schedule.id;
    let (source, resource, detail) = match schedule.scheduler {
        Scheduler::Rule => {
            ("aws.events", format!("events:{REGION}:{ACCOUNT_ID}:rule/{id}"), json!({}))
        }
        Scheduler::Scheduler => (
            "aws.scheduler",
            format!("scheduler:{REGION}:{ACCOUNT_ID}:schedule/default/{id}"),
            json!("{}"),
        ),
    };
    let event = json!({
        "version": "0",
        "id": ids::uuid(),
        "detail-type": "Scheduled Event",
        "source": source,
        "account": ACCOUNT_ID,
        "time": timestamp_secs(time),
        "region": REGION,
        "resources": [format!("arn:aws:{resource}")],
        "detail": detail,
    });
    event.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::fake::Rig;
    use serde_json::Value;
    use std::time::Duration;
    use tokio::task::JoinHandle;

    fn schedule(scheduler: Scheduler, input: Option<&str>) -> Schedule {
        Schedule {
            id: "FunctionSweep".to_owned(),
            scheduler,
            expression: Expression::parse("rate(1 minute)").expect("a rate"),
            input: input.map(str::to_owned),
        }
    }

    fn start(rig: &Rig, schedule: Schedule) -> (Arc<Background>, JoinHandle<()>) {
        let clock: SharedClock = rig.clock.clone();
        let background = Arc::new(Background::new(Arc::clone(&clock)));
        let pool = Arc::clone(rig.runtime.pool("Function").expect("the function"));
        let firing = fire(schedule, pool, Arc::clone(&background), clock);
        (background, tokio::spawn(firing))
    }

    async fn stop(rig: Rig, background: Arc<Background>, firing: JoinHandle<()>) {
        firing.abort();
        background.shutdown().await;
        rig.runtime.shutdown().await;
    }

    #[tokio::test]
    async fn a_rule_fires_each_minute_and_waits_for_no_invocation() {
        let (mut rig, first, polling) = Rig::start(2).await;
        let (background, firing) = start(&rig, schedule(Scheduler::Rule, None));
        rig.clock.sleeping(1).await;
        rig.clock.advance(Duration::from_secs(59));
        assert!(!polling.is_finished());
        rig.clock.advance(Duration::from_secs(1));
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
                "time": "2026-11-20T10:11:10Z",
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
        let id = |event: crate::runtime::fake::Event| event.request_id;
        let ids = [id(again.expect("an event")), id(next.expect("an event"))];
        assert!(ids.contains(&event.request_id), "the second attempt of the first event");
        assert_ne!(ids[0], ids[1]);
        stop(rig, background, firing).await;
    }

    #[tokio::test]
    async fn scheduler_has_an_event_of_its_own_and_an_input_replaces_both() {
        let (rig, fake, polling) = Rig::start(1).await;
        let (background, firing) = start(&rig, schedule(Scheduler::Scheduler, None));
        rig.clock.sleeping(1).await;
        rig.clock.advance(Duration::from_mins(1));
        let event = polling.await.expect("an event");
        let json: Value = serde_json::from_slice(&event.payload).expect("JSON");
        assert_eq!(json["source"], "aws.scheduler");
        assert_eq!(json["detail"], "{}");
        let arn = "arn:aws:scheduler:us-east-1:123456789012:schedule/default/FunctionSweep";
        assert_eq!(json["resources"], json!([arn]));
        fake.respond(&event, "{}").await;
        stop(rig, background, firing).await;

        let (rig, fake, polling) = Rig::start(1).await;
        let (background, firing) = start(&rig, schedule(Scheduler::Rule, Some(r#"{"sweep":1}"#)));
        rig.clock.sleeping(1).await;
        rig.clock.advance(Duration::from_mins(1));
        let event = polling.await.expect("an event");
        assert_eq!(event.payload, r#"{"sweep":1}"#);
        fake.respond(&event, "{}").await;
        stop(rig, background, firing).await;
    }
}
