use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::*;
use crate::clock::SharedClock;
use crate::lambda::runtime::fake::{Fake, Polling, Rig};
use crate::server::{self, testing::send};

/// The endpoint on a socket, in front of a function that the test plays.
struct Served {
    rig: Rig,
    background: Arc<Background>,
    queues: Arc<Queues>,
    url: String,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
}

type Answer = (http::response::Parts, Bytes);

impl Served {
    async fn start() -> (Self, Fake, Polling) {
        let (rig, fake, polling) = Rig::start(1).await;
        let background = Arc::new(Background::new(rig.clock.clone()));
        let clock: SharedClock = rig.clock.clone();
        let queues = Arc::new(Queues::new(&["Failures".to_owned()], &clock));
        let runtime = Arc::clone(&rig.runtime);
        let api = LambdaApi {
            runtime,
            background: Arc::clone(&background),
            queues: Arc::clone(&queues),
            access: Arc::default(),
        };
        let listener = server::bind_free().await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (stop, stopped) = watch::channel(false);
        let server = tokio::spawn(server::serve(listener, Arc::new(api), stopped));
        (Self { rig, background, queues, url, stop, server }, fake, polling)
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        self.server.await.expect("the server ends");
        self.background.shutdown().await;
        self.rig.runtime.shutdown().await;
    }

    fn invoke(
        &self,
        function: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> JoinHandle<Answer> {
        let url = format!("{}/2015-03-31/functions/{function}/invocations", self.url);
        let request = headers
            .iter()
            .fold(Request::post(url), |request, (name, value)| request.header(*name, *value));
        send(request, body)
    }
}

fn json_of(body: &Bytes) -> Value {
    serde_json::from_slice(body).expect("JSON")
}

#[tokio::test]
async fn a_function_is_invoked_by_every_name_that_lambda_takes() {
    let (served, fake, polling) = Served::start().await;
    let function = fake.serve(polling, |event| event.payload.clone());
    for name in [
        "Function",
        "Function:$LATEST",
        "Function%3A%24LATEST",
        "Function?Qualifier=%24LATEST",
        "123456789012:function:Function",
        "arn:aws:lambda:us-east-1:123456789012:function:Function",
        "arn%3Aaws%3Alambda%3Aus-east-1%3A123456789012%3Afunction%3AFunction:$LATEST",
    ] {
        // The qualifier comes after the path.
        let (name, query) = name.split_once('?').unwrap_or((name, ""));
        let url = format!("{}/2015-03-31/functions/{name}/invocations?{query}", served.url);
        let (parts, body) = send(Request::post(url), r#"{"a":1}"#).await.expect("no panic");
        assert_eq!(parts.status, StatusCode::OK, "{name}");
        assert_eq!(body, r#"{"a":1}"#);
        assert_eq!(parts.headers["x-amz-executed-version"], "$LATEST");
        assert_eq!(parts.headers["x-amzn-requestid"].len(), 36);
        assert!(!parts.headers.contains_key("x-amz-function-error"));
    }
    let (_, body) = served.invoke("Function", &[], "").await.expect("no panic");
    assert_eq!(body, "{}", "an empty body is an empty event");
    served.stop().await;
    function.await.expect("no panic");
}

#[tokio::test]
async fn a_function_error_is_a_success_with_a_header() {
    let (served, fake, polling) = Served::start().await;
    let answer = served.invoke("Function", &[("x-amz-log-type", "Tail")], "{}");
    let event = polling.await.expect("an event");
    fake.fail(&event, r#"{"errorType":"Bad"}"#).await;
    let (parts, body) = answer.await.expect("no panic");
    assert_eq!(parts.status, StatusCode::OK);
    assert_eq!(parts.headers["x-amz-function-error"], "Unhandled");
    assert_eq!(body, r#"{"errorType":"Bad"}"#);
    let tail = STANDARD.decode(&parts.headers["x-amz-log-result"]).expect("base64");
    assert!(tail.starts_with(b"START RequestId: "));
    assert_eq!(parts.headers["x-amzn-requestid"], event.request_id);
    served.stop().await;
}

#[tokio::test]
async fn the_client_context_reaches_the_function() {
    let (served, fake, polling) = Served::start().await;
    let context = STANDARD.encode(r#"{"custom":{}}"#);
    let answer = served.invoke("Function", &[("x-amz-client-context", &context)], "{}");
    let event = polling.await.expect("an event");
    assert_eq!(event.headers["lambda-runtime-client-context"], r#"{"custom":{}}"#);
    fake.respond(&event, "1").await;
    answer.await.expect("no panic");
    served.stop().await;
}

#[tokio::test]
async fn events_are_accepted_at_once_and_dry_runs_run_nothing() {
    let (served, fake, polling) = Served::start().await;
    let dry_run = [("x-amz-invocation-type", "DryRun")];
    let (parts, _) = served.invoke("Function", &dry_run, "{}").await.expect("no panic");
    assert_eq!(parts.status, StatusCode::NO_CONTENT);
    assert!(!polling.is_finished());

    let event = [("x-amz-invocation-type", "Event")];
    let (parts, body) = served.invoke("Function", &event, r#"{"n":1}"#).await.expect("no panic");
    assert_eq!((parts.status, body.len()), (StatusCode::ACCEPTED, 0));
    let event = polling.await.expect("an event");
    assert_eq!(event.payload, r#"{"n":1}"#);
    assert_eq!(parts.headers["x-amzn-requestid"], event.request_id);
    fake.respond(&event, "1").await;
    served.stop().await;
}

#[tokio::test]
async fn requests_that_lambda_refuses_are_refused_in_its_words() {
    let (served, _fake, polling) = Served::start().await;
    let not_found = "ResourceNotFoundException";
    let event = [("x-amz-invocation-type", "Event")];
    let unknown_type = [("x-amz-invocation-type", "Later")];
    let bad_context = [("x-amz-client-context", "%")];
    for (answer, status, kind) in [
        (served.invoke("Nothing", &[], "{}"), 404, not_found),
        (served.invoke("Function:PROD", &[], "{}"), 404, not_found),
        (served.invoke("Function", &[], "no JSON"), 400, "InvalidRequestContentException"),
        (served.invoke("Function", &[], "{} {}"), 400, "InvalidRequestContentException"),
        (served.invoke("Function", &bad_context, "{}"), 400, "InvalidRequestContentException"),
        (served.invoke("Function", &unknown_type, "{}"), 400, "InvalidParameterValueException"),
        (
            served.invoke("Function", &[], vec![b'0'; MAX_PAYLOAD + 1]),
            413,
            "RequestTooLargeException",
        ),
        (
            served.invoke("Function", &event, vec![b'0'; MAX_EVENT + 1]),
            413,
            "RequestTooLargeException",
        ),
        (send(Request::get(&served.url), ""), 404, "UnknownOperationException"),
    ] {
        let (parts, body) = answer.await.expect("no panic");
        assert_eq!(parts.status.as_u16(), status, "{body:?}");
        assert_eq!(parts.headers["x-amzn-errortype"], kind);
        json_of(&body);
    }
    let (_, body) = served.invoke("Nothing", &[], "{}").await.expect("no panic");
    let message = "Function not found: arn:aws:lambda:us-east-1:123456789012:function:Nothing";
    assert_eq!(json_of(&body)["message"], message);
    assert!(!polling.is_finished());
    served.stop().await;
}

#[tokio::test]
async fn a_throttled_invocation_is_429() {
    let (served, fake, polling) = Served::start().await;
    let busy = served.invoke("Function", &[], "{}");
    let event = polling.await.expect("an event");
    let waiting = served.invoke("Function", &[], "{}");
    served.rig.clock.sleeping(2).await;
    served.rig.clock.advance(Duration::from_millis(20));
    // The process answers and does not ask for another event.
    fake.respond(&event, "1").await;
    busy.await.expect("no panic");
    served.rig.clock.sleeping(2).await;
    served.rig.clock.advance(Duration::from_secs(10));
    let (parts, body) = waiting.await.expect("no panic");
    assert_eq!(parts.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(parts.headers["x-amzn-errortype"], "TooManyRequestsException");
    assert_eq!(json_of(&body)["Reason"], "ConcurrentInvocationLimitExceeded");
    served.stop().await;
}

/// Any page that a developer had open could invoke the functions.
#[tokio::test]
async fn regression_a_page_of_another_site_invoked_a_function() {
    let (served, _fake, _polling) = Served::start().await;
    let headers = [("origin", "https://example.com"), ("content-type", "text/plain")];
    let (parts, _) = served.invoke("Function", &headers, "{}").await.expect("no panic");
    assert_eq!(parts.status, StatusCode::FORBIDDEN);
    assert_eq!(parts.headers["x-amzn-errortype"], "AccessDeniedException");
    served.stop().await;
}

#[tokio::test]
async fn the_environments_are_listed() {
    let (served, _fake, _polling) = Served::start().await;
    let url = format!("{}/_dynashard/environments", served.url);
    let (parts, body) = send(Request::get(url), "").await.expect("no panic");
    assert_eq!(parts.status, StatusCode::OK);
    let listed = json_of(&body);
    assert_eq!(listed[0]["function"], "Function");
    assert_eq!(listed[0]["pid"], 42);
    served.stop().await;
}

#[tokio::test]
async fn the_messages_of_a_queue_are_listed() {
    let (served, _fake, _polling) = Served::start().await;
    served.queues.send("Failures", "{}".to_owned());
    let get =
        |queue: &str| send(Request::get(format!("{}/_dynashard/queues/{queue}", served.url)), "");
    let (parts, body) = get("Failures").await.expect("no panic");
    assert_eq!(parts.status, StatusCode::OK);
    let listed = json_of(&body);
    assert_eq!(listed["dropped"], 0);
    assert_eq!(listed["messages"][0]["Body"], "{}");
    let (parts, _) = get("Nothing").await.expect("no panic");
    assert_eq!(parts.status, StatusCode::NOT_FOUND);
    served.stop().await;
}
