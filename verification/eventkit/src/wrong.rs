//! Wrong requests.

use dynashard_lambda::Handler;
use serde_json::{Value, json};

use crate::{Answer, Call, FLIGHT, World};

/// One wrong request, and the answer that it gets.
pub struct Wrong {
    what: String,
    call: Call,
    status: u64,
    code: &'static str,
}

impl Wrong {
    /// A request that is answered with 400 and this code, unless [`Wrong::with_status`] says
    /// otherwise.
    pub fn new(what: impl Into<String>, code: &'static str, call: Call) -> Self {
        Self { what: what.into(), call, status: 400, code }
    }

    /// With another status.
    #[must_use]
    pub fn with_status(self, status: u64) -> Self {
        Self { status, ..self }
    }
}

/// Asserts that each of the requests is refused with its status and code, and that none of them
/// so much as sends a write.
#[track_caller]
pub fn assert_refused(
    world: &World,
    handler: &impl Handler,
    wrong: impl IntoIterator<Item = Wrong>,
) {
    let before = world.snapshot();
    for Wrong { what, call, status, code } in wrong {
        Answer::of(handler, &call).assert_problem(status, code, &what);
        assert_eq!(world.snapshot(), before, "{what} left a trace");
    }
}

/// Asserts that what is not an HTTP request of payload format 2.0 is refused, and asks nothing of the tables.
#[track_caller]
pub fn assert_malformed_events_are_refused<H: Handler>(handler: impl Fn(&World) -> H) {
    let world = World::of_flights();
    let handler = handler(&world);
    for (what, event) in malformed_events() {
        Answer::of_event(&handler, &event).assert_problem(400, "bad_event", what);
    }
    assert_eq!(world.memory.requests().total(), 0);
}

/// Texts that are not HTTP requests of payload format 2.0.
fn malformed_events() -> Vec<(&'static str, String)> {
    let valid = || {
        let call = Call::new(&format!("PUT /item?{FLIGHT}")).json("{}").event();
        serde_json::from_str::<Value>(&call).expect("JSON")
    };
    let without = |pointer: &str, member: &str| {
        let mut event = valid();
        let parent = event.pointer_mut(pointer).and_then(Value::as_object_mut);
        parent.and_then(|parent| parent.remove(member)).expect("a member");
        event.to_string()
    };
    let with = |pointer: &str, value: Value| {
        let mut event = valid();
        *event.pointer_mut(pointer).expect("a member") = value;
        event.to_string()
    };
    let in_order = json!(["/item", FLIGHT, {}, {"http": {"method": "PUT"}}, "{}", false]);
    vec![
        ("nothing", String::new()),
        ("half an object", "{".to_owned()),
        ("an empty object", "{}".to_owned()),
        ("null", "null".to_owned()),
        ("an empty array", "[]".to_owned()),
        ("an array of the fields that are read", in_order.to_string()),
        ("an array for the context", with("/requestContext", json!([{ "method": "PUT" }]))),
        ("an array for the HTTP description", with("/requestContext/http", json!(["PUT"]))),
        ("a number", "42".to_owned()),
        ("a string", "\"PUT /item\"".to_owned()),
        ("bottomless arrays", "[".repeat(100_000)),
        ("no path", without("", "rawPath")),
        ("no request context", without("", "requestContext")),
        ("no HTTP description", without("/requestContext", "http")),
        ("no method", without("/requestContext/http", "method")),
        ("a method that is not a string", with("/requestContext/http/method", json!(7))),
        ("headers that are not an object", with("/headers", json!("accept: */*"))),
        ("a header that is not a string", with("/headers", json!({ "accept": ["*/*"] }))),
        ("a body that is not a string", with("/body", json!({ "a": 1 }))),
        ("a flag that is not a boolean", with("/isBase64Encoded", json!("no"))),
        ("a body that is not base64", with("/isBase64Encoded", json!(true))),
        ("text behind the event", format!("{} {{}}", valid())),
    ]
}
