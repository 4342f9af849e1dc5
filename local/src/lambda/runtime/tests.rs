use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::fake::{self, Rig, invocation};
use super::process::Exit;
use super::*;

const TIMEOUT: Duration = Duration::from_secs(3);

fn json_of(completed: &Completed) -> Value {
    serde_json::from_slice(&completed.payload).expect("JSON")
}

#[tokio::test]
async fn an_event_reaches_the_process_as_on_lambda_and_its_answer_the_caller() {
    let (rig, fake, polling) = Rig::start(2).await;
    let outcome = rig.invoke(r#"{"n":1}"#);
    let event = polling.await.expect("an event");
    assert_eq!(event.payload, r#"{"n":1}"#);
    assert_eq!(event.headers["lambda-runtime-deadline-ms"], "1795169413000");
    assert_eq!(
        event.headers["lambda-runtime-invoked-function-arn"],
        "arn:aws:lambda:us-east-1:123456789012:function:Function"
    );
    assert_eq!(event.headers["lambda-runtime-trace-id"], "Root=1");
    assert_eq!(fake.respond(&event, "[1]").await, StatusCode::ACCEPTED);
    let completed = outcome.await.expect("no panic").expect("completed");
    assert_eq!(completed.payload, "[1]");
    assert!(!completed.failed);
    rig.runtime.shutdown().await;
}

#[tokio::test]
async fn an_error_of_the_function_is_passed_on_and_the_environment_used_again() {
    let (mut rig, fake, polling) = Rig::start(2).await;
    let outcome = rig.invoke("{}");
    let event = polling.await.expect("an event");
    let error = r#"{"errorType":"Bad","errorMessage":"no"}"#;
    assert_eq!(fake.fail(&event, error).await, StatusCode::ACCEPTED);
    let completed = outcome.await.expect("no panic").expect("completed");
    assert!(completed.failed);
    assert_eq!(completed.payload, error);

    let outcome = rig.invoke("{}");
    let event = fake.poll().await.expect("an event");
    fake.respond(&event, "2").await;
    assert_eq!(outcome.await.expect("no panic").expect("completed").payload, "2");
    assert!(rig.none_launched());
    rig.runtime.shutdown().await;
}

#[tokio::test]
async fn the_free_environment_that_was_used_last_is_used_next() {
    let (mut rig, first, polling) = Rig::start(2).await;
    let outcome = rig.invoke("1");
    let event = polling.await.expect("an event");
    let other = rig.invoke("2");
    let second = rig.launched().await;
    let second_event = second.poll().await.expect("an event");
    assert_eq!(second_event.payload, "2");

    second.respond(&second_event, "").await;
    other.await.expect("no panic").expect("completed");
    let second_polling = second.poll();
    rig.idle(1).await;
    first.respond(&event, "").await;
    outcome.await.expect("no panic").expect("completed");
    let first_polling = first.poll();
    rig.idle(2).await;

    let outcome = rig.invoke("3");
    let event = first_polling.await.expect("an event");
    assert_eq!(event.payload, "3");
    assert!(!second_polling.is_finished());
    first.respond(&event, "").await;
    outcome.await.expect("no panic").expect("completed");
    rig.runtime.shutdown().await;
    second_polling.abort();
}

#[tokio::test]
async fn environments_are_started_up_to_the_limit_and_then_invocations_wait_their_turn() {
    let (mut rig, first, polling) = Rig::start(2).await;
    let one = rig.invoke("1");
    let event = polling.await.expect("an event");
    let two = rig.invoke("2");
    let second = rig.launched().await;
    let second_event = second.poll().await.expect("an event");
    let three = rig.invoke("3");
    rig.clock.sleeping(3).await;
    assert!(rig.none_launched(), "no third environment");

    first.respond(&event, "").await;
    one.await.expect("no panic").expect("completed");
    let event = first.poll().await.expect("an event");
    assert_eq!(event.payload, "3");
    first.respond(&event, "").await;
    second.respond(&second_event, "").await;
    two.await.expect("no panic").expect("completed");
    three.await.expect("no panic").expect("completed");
    rig.runtime.shutdown().await;
}

#[tokio::test]
async fn an_invocation_that_finds_no_environment_free_in_time_is_throttled_and_never_runs() {
    let (mut rig, fake, polling) = Rig::start(1).await;
    // The busy one takes longer than the waiting one has patience.
    let busy = rig.invoke("1");
    let event = polling.await.expect("an event");
    let waiting = rig.invoke("2");
    rig.clock.sleeping(2).await;
    rig.clock.advance(Duration::from_millis(20));
    fake.respond(&event, "").await;
    busy.await.expect("no panic").expect("completed");
    rig.clock.sleeping(2).await;
    rig.clock.advance(Duration::from_secs(10));
    let refused = waiting.await.expect("no panic").expect_err("throttled");
    assert_eq!(refused, InvokeError::Throttled);

    // The one that never came back was ended at its deadline, so a new one runs the next.
    let outcome = rig.invoke("3");
    let fresh = rig.launched().await;
    let event = fresh.poll().await.expect("an event");
    assert_eq!(event.payload, "3");
    fresh.respond(&event, "").await;
    outcome.await.expect("no panic").expect("completed");
    rig.runtime.shutdown().await;
}

/// They ran one after the other, while callers that still waited were refused.
#[tokio::test]
async fn regression_invocations_whose_callers_had_gone_were_carried_out() {
    let (rig, fake, polling) = Rig::start(1).await;
    let busy = rig.invoke("1");
    let event = polling.await.expect("an event");
    let gone = rig.invoke("2");
    rig.clock.sleeping(2).await;
    gone.abort();
    assert!(gone.await.is_err(), "its caller has gone");
    let waiting = rig.invoke("3");
    rig.clock.sleeping(2).await;
    fake.respond(&event, "").await;
    busy.await.expect("no panic").expect("completed");
    let event = fake.poll().await.expect("an event");
    assert_eq!(event.payload, "3");
    fake.respond(&event, "").await;
    waiting.await.expect("no panic").expect("completed");
    rig.runtime.shutdown().await;
}

#[tokio::test]
async fn a_caller_who_is_faster_than_the_environment_starts_no_other_one() {
    let (mut rig, fake, polling) = Rig::start(2).await;
    let outcome = rig.invoke("1");
    let event = polling.await.expect("an event");
    fake.respond(&event, "").await;
    outcome.await.expect("no panic").expect("completed");
    // It has not asked for the next event yet.
    let outcome = rig.invoke("2");
    rig.clock.sleeping(2).await;
    assert!(rig.none_launched());
    let event = fake.poll().await.expect("an event");
    fake.respond(&event, "").await;
    outcome.await.expect("no panic").expect("completed");

    // If it does not ask soon, it is not waited for.
    let outcome = rig.invoke("3");
    rig.clock.sleeping(2).await;
    rig.clock.advance(Duration::from_millis(20));
    let second = rig.launched().await;
    let event = second.poll().await.expect("an event");
    second.respond(&event, "").await;
    outcome.await.expect("no panic").expect("completed");
    rig.runtime.shutdown().await;
}

#[tokio::test]
async fn a_process_that_takes_too_long_is_killed_and_replaced() {
    let (mut rig, fake, polling) = Rig::start(1).await;
    let outcome = rig.invoke("1");
    let event = polling.await.expect("an event");
    rig.clock.sleeping(1).await;
    rig.clock.advance(TIMEOUT);
    let completed = outcome.await.expect("no panic").expect("completed");
    assert!(completed.failed);
    let message =
        format!("2026-11-20T10:10:13Z {} Task timed out after 3.00 seconds", event.request_id);
    assert_eq!(json_of(&completed), json!({ "errorMessage": message }));
    assert_eq!(fake.ended().await, ["KILL"]);

    let outcome = rig.invoke("2");
    let fresh = rig.launched().await;
    let event = fresh.poll().await.expect("an event");
    fresh.respond(&event, "").await;
    outcome.await.expect("no panic").expect("completed");
    rig.runtime.shutdown().await;
}

#[tokio::test]
async fn a_process_that_dies_fails_its_invocation_and_is_replaced() {
    for (exit, reason) in [
        (Exit::Code(3), "Runtime exited with error: exit status 3"),
        (Exit::Code(0), "Runtime exited without providing a reason"),
        (Exit::Signal(9), "Runtime exited with error: signal: killed"),
    ] {
        let (mut rig, fake, polling) = Rig::start(1).await;
        let outcome = rig.invoke("1");
        let event = polling.await.expect("an event");
        fake.exit(exit);
        let completed = outcome.await.expect("no panic").expect("completed");
        assert!(completed.failed);
        let message = format!("RequestId: {} Error: {reason}", event.request_id);
        let expected = json!({ "errorType": "Runtime.ExitError", "errorMessage": message });
        assert_eq!(json_of(&completed), expected);

        let outcome = rig.invoke("2");
        let fresh = rig.launched().await;
        let event = fresh.poll().await.expect("an event");
        fresh.respond(&event, "").await;
        outcome.await.expect("no panic").expect("completed");
        rig.runtime.shutdown().await;
    }
}

#[tokio::test]
async fn a_free_process_that_dies_costs_no_invocation() {
    let (mut rig, fake, polling) = Rig::start(1).await;
    polling.abort();
    fake.exit(Exit::Signal(9));
    let outcome = rig.invoke("1");
    let fresh = rig.launched().await;
    let event = fresh.poll().await.expect("an event");
    assert_eq!(event.payload, "1");
    fresh.respond(&event, "ok").await;
    assert_eq!(outcome.await.expect("no panic").expect("completed").payload, "ok");
    rig.runtime.shutdown().await;
}

#[tokio::test]
async fn a_function_that_cannot_start_is_a_start_error_with_its_reason() {
    let (_, starting, mut launched) = fake::start(1);
    let fake = launched.recv().await.expect("a process");
    fake.fail_to_start(r#"{"errorType":"Config","errorMessage":"LEASE_SECS is missing"}"#).await;
    let error = starting.await.expect("no panic").expect_err("an error").to_string();
    assert_eq!(error, "Function did not start: LEASE_SECS is missing; what it printed is above");

    let (_, starting, mut launched) = fake::start(1);
    launched.recv().await.expect("a process").exit(Exit::Code(101));
    let error = starting.await.expect("no panic").expect_err("an error").to_string();
    assert!(error.contains("exit status 101"), "{error}");

    let (clock, starting, mut launched) = fake::start(1);
    let fake = launched.recv().await.expect("a process");
    clock.sleeping(1).await;
    clock.advance(Duration::from_secs(10));
    let error = starting.await.expect("no panic").expect_err("an error").to_string();
    assert!(error.contains("timed out after 10.00 seconds"), "{error}");
    assert_eq!(fake.ended().await, ["KILL"]);
}

#[tokio::test]
async fn an_environment_that_cannot_start_later_fails_the_invocation_that_it_was_started_for() {
    let (mut rig, _fake, polling) = Rig::start(2).await;
    let busy = rig.invoke("1");
    let _event = polling.await.expect("an event");
    let outcome = rig.invoke("2");
    let second = rig.launched().await;
    let error = r#"{"errorType":"Config","errorMessage":"no"}"#;
    second.fail_to_start(error).await;
    let completed = outcome.await.expect("no panic").expect("completed");
    assert!(completed.failed);
    assert_eq!(completed.payload, error);
    rig.runtime.shutdown().await;
    assert_eq!(busy.await.expect("no panic").expect_err("stopped"), InvokeError::Stopped);
}

#[tokio::test]
async fn calls_out_of_turn_are_refused_and_change_nothing() {
    let (rig, fake, polling) = Rig::start(1).await;
    let call = |method: &'static str, path: &'static str| fake.call(method, path, Bytes::new());
    assert_eq!(call("POST", "invocation/none/response").await.0, StatusCode::FORBIDDEN);
    assert_eq!(call("POST", "init/error").await.0, StatusCode::FORBIDDEN);
    assert_eq!(call("GET", "invocation/past").await.0, StatusCode::NOT_FOUND);
    let outcome = rig.invoke("1");
    let event = polling.await.expect("an event");
    assert_eq!(call("GET", "invocation/next").await.0, StatusCode::FORBIDDEN);
    assert_eq!(call("POST", "invocation/none/error").await.0, StatusCode::FORBIDDEN);
    assert_eq!(fake.respond(&event, "ok").await, StatusCode::ACCEPTED);
    assert_eq!(fake.respond(&event, "again").await, StatusCode::FORBIDDEN);
    assert_eq!(outcome.await.expect("no panic").expect("completed").payload, "ok");
    rig.runtime.shutdown().await;
}

#[tokio::test]
async fn an_answer_over_6_mb_is_refused_and_fails_the_invocation() {
    let (rig, fake, polling) = Rig::start(1).await;
    let outcome = rig.invoke("1");
    let event = polling.await.expect("an event");
    let status = fake.respond(&event, vec![b'0'; MAX_PAYLOAD + 1]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    let completed = outcome.await.expect("no panic").expect("completed");
    assert!(completed.failed);
    assert_eq!(json_of(&completed)["errorType"], "Function.ResponseSizeTooLarge");

    let outcome = rig.invoke("2");
    let event = fake.poll().await.expect("an event");
    let status = fake.respond(&event, vec![b'0'; MAX_PAYLOAD]).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let completed = outcome.await.expect("no panic").expect("completed");
    assert_eq!(completed.payload.len(), MAX_PAYLOAD);
    rig.runtime.shutdown().await;
}

#[tokio::test]
async fn an_invocation_runs_to_its_end_when_its_caller_has_left() {
    let (mut rig, fake, polling) = Rig::start(1).await;
    let outcome = rig.invoke("1");
    let event = polling.await.expect("an event");
    outcome.abort();
    assert_eq!(fake.respond(&event, "").await, StatusCode::ACCEPTED);
    let outcome = rig.invoke("2");
    let event = fake.poll().await.expect("an event");
    fake.respond(&event, "ok").await;
    assert_eq!(outcome.await.expect("no panic").expect("completed").payload, "ok");
    assert!(rig.none_launched());
    rig.runtime.shutdown().await;
}

#[tokio::test]
async fn the_tail_of_the_log_comes_with_the_answer_where_it_is_asked_for() {
    let (rig, fake, polling) = Rig::start(1).await;
    let pool = Arc::clone(rig.runtime.pool("Function").expect("the function"));
    let outcome = tokio::spawn(async move {
        let wants_log_tail = true;
        pool.invoke(Invocation { wants_log_tail, ..invocation("1") }).await
    });
    let event = polling.await.expect("an event");
    fake.log.note("a line");
    fake.respond(&event, "").await;
    let completed = outcome.await.expect("no panic").expect("completed");
    let tail = String::from_utf8(completed.log_tail.expect("a tail")).expect("text");
    let id = event.request_id;
    let expected = format!(
        "START RequestId: {id} Version: $LATEST\na line\nEND RequestId: {id}\n\
         REPORT RequestId: {id}\tDuration: 0.00 ms\tBilled Duration: 0 ms\tMemory Size: 128 MB\n"
    );
    assert_eq!(tail, expected);
    rig.runtime.shutdown().await;
}

#[tokio::test]
async fn a_shutdown_ends_each_process_in_order_and_by_force_if_it_must() {
    let (rig, fake, polling) = Rig::start(1).await;
    rig.runtime.shutdown().await;
    assert_eq!(fake.ended().await, ["TERM", "KILL"][..1]);
    assert!(polling.await.is_err(), "the call for an event failed");
    let late = rig.invoke("1").await.expect("no panic").expect_err("stopped");
    assert_eq!(late, InvokeError::Stopped);
    assert!(rig.runtime.environments().is_empty());

    let (rig, fake, polling) = Rig::start(1).await;
    fake.be_deaf();
    rig.runtime.shutdown().await;
    assert_eq!(fake.ended().await, ["TERM", "KILL"]);
    polling.abort();
}

#[tokio::test]
async fn an_asynchronous_invocation_is_tried_three_times_at_lambdas_pauses() {
    let (rig, fake, polling) = Rig::start(1).await;
    let background = Background::new(rig.clock.clone());
    let pool = Arc::clone(rig.runtime.pool("Function").expect("the function"));
    background.deliver(pool, invocation("1"));
    let first = polling.await.expect("an event");
    fake.fail(&first, "{}").await;
    let mut polling = fake.poll();
    for pause in [60, 120] {
        rig.idle(1).await;
        rig.clock.sleeping(1).await;
        rig.clock.advance(Duration::from_secs(pause - 1));
        assert!(!polling.is_finished());
        rig.clock.advance(Duration::from_secs(1));
        let event = polling.await.expect("an event");
        assert_eq!(event.request_id, first.request_id, "one invocation has one id");
        fake.fail(&event, "{}").await;
        polling = fake.poll();
    }
    rig.idle(1).await;
    // The third failure was the last: the set of tasks is empty without being told to end.
    background.settled().await;
    assert!(!polling.is_finished());
    rig.runtime.shutdown().await;
    polling.abort();
}

#[tokio::test]
async fn an_asynchronous_invocation_waits_while_all_environments_are_busy() {
    let (rig, fake, polling) = Rig::start(1).await;
    let background = Background::new(rig.clock.clone());
    let busy = rig.invoke("1");
    let event = polling.await.expect("an event");
    let pool = Arc::clone(rig.runtime.pool("Function").expect("the function"));
    background.deliver(pool, invocation("2"));
    rig.clock.sleeping(2).await;
    rig.clock.advance(Duration::from_millis(20));
    rig.clock.sleeping(2).await;
    drop(busy);
    fake.respond(&event, "").await;
    let event = fake.poll().await.expect("an event");
    assert_eq!(event.payload, "2");
    fake.respond(&event, "").await;
    background.settled().await;
    rig.runtime.shutdown().await;
}
