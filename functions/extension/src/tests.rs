use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc};

use super::*;

/// What an extension has asked of Lambda, in order.
type Asked = mpsc::UnboundedReceiver<(String, Value)>;

struct Lambda {
    asked: mpsc::UnboundedSender<(String, Value)>,
    events: Mutex<mpsc::UnboundedReceiver<&'static str>>,
}

async fn register(
    State(lambda): State<Arc<Lambda>>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> (HeaderMap, Json<Value>) {
    let name = headers["lambda-extension-name"].to_str().expect("text").to_owned();
    let _ = lambda.asked.send((format!("register {name}"), body));
    let id = [("lambda-extension-identifier", "an-id")];
    let headers =
        id.map(|(name, id)| (name.parse().expect("a name"), id.parse().expect("a value")));
    (headers.into_iter().collect(), Json(json!({})))
}

async fn next(State(lambda): State<Arc<Lambda>>, headers: HeaderMap) -> Json<Value> {
    let id = headers["lambda-extension-identifier"].to_str().expect("text").to_owned();
    let _ = lambda.asked.send((format!("next {id}"), Value::Null));
    let event = lambda.events.lock().await.recv().await.expect("an event");
    Json(json!({ "eventType": event, "deadlineMs": 1 }))
}

async fn fail(State(lambda): State<Arc<Lambda>>, Json(body): Json<Value>) -> StatusCode {
    let _ = lambda.asked.send(("init/error".to_owned(), body));
    StatusCode::ACCEPTED
}

/// Stands in for Lambda's API: gives these events when it is told to.
async fn lambda() -> (String, Asked, mpsc::UnboundedSender<&'static str>) {
    let (asked, seen) = mpsc::unbounded_channel();
    let (say, events) = mpsc::unbounded_channel();
    let lambda = Arc::new(Lambda { asked, events: Mutex::new(events) });
    let routes = Router::new()
        .route("/2020-01-01/extension/register", post(register))
        .route("/2020-01-01/extension/event/next", get(next))
        .route("/2020-01-01/extension/init/error", post(fail))
        .with_state(lambda);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let server = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async { axum::serve(listener, routes).await });
    (server, seen, say)
}

fn variables<'a>(told: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> {
    move |name| told.iter().find(|(told, _)| *told == name).map(|(_, value)| (*value).to_owned())
}

#[tokio::test]
async fn it_registers_by_the_name_of_its_file_and_ends_when_lambda_says_so() {
    let (server, mut asked, say) = lambda().await;
    let runtime =
        Runtime::register(&server, "/opt/extensions/dynashard").await.expect("it is taken");
    let events = json!({ "events": ["INVOKE", "SHUTDOWN"] });
    assert_eq!(asked.recv().await, Some(("register dynashard".to_owned(), events)));
    for (event, expected) in
        [("INVOKE", Event::Invoke), ("SHUTDOWN", Event::Shutdown { deadline_ms: 1 })]
    {
        say.send(event).expect("it is asked for");
        assert_eq!(runtime.next().await.expect("an event"), expected);
        assert_eq!(asked.recv().await, Some(("next an-id".to_owned(), Value::Null)));
    }
}

/// A function wrote around the guard where a variable was misspelt.
#[tokio::test]
async fn an_endpoint_that_cannot_serve_fails_the_start_and_says_why() {
    for (told, says) in [
        (&[("DYNASHARD_TABLES", "orders:")][..], "orders:orders-metadata"),
        (&[("DYNASHARD_TABLES", "")], "names no table"),
        (&[("DYNASHARD_TABLE", "orders")], "names no table"),
    ] {
        let (server, mut asked, _say) = lambda().await;
        let ended = run(&server, "dynashard", variables(told)).await;
        assert!(ended.is_err(), "{told:?}");
        let (first, _) = asked.recv().await.expect("it registers");
        assert_eq!(first, "register dynashard");
        let (then, body) = asked.recv().await.expect("it says why");
        assert_eq!(
            (then.as_str(), &body["errorType"]),
            ("init/error", &json!("Extension.NotReady"))
        );
        assert!(body["errorMessage"].as_str().expect("text").contains(says), "{body}");
    }
}

#[tokio::test]
async fn outside_of_lambda_it_says_what_to_run_instead() {
    let ended = run("", "dynashard", variables(&[])).await.expect_err("there is no Lambda");
    assert!(ended.to_string().contains("dynashard serve"), "{ended}");
}
