//! Damaged events.

use dynashard_lambda::Handler;
use proptest::prelude::{Just, any, prop, prop_oneof, proptest};
use proptest::strategy::Strategy;
use serde_json::{Value, json};

use crate::golden::{event, event_files};
use crate::{Answer, MAX_LAMBDA_PAYLOAD_BYTES, World};

/// Damages the events of a function at random, and asserts what holds of the answer to every event
/// while the tables work: it is an HTTP response in JSON, the fault is never the function's own,
/// and a refusal changes nothing.
pub fn assert_damaged_events_are_answered<H: Handler>(
    function: &str,
    handler: impl Fn(&World) -> H,
) {
    proptest!(|(event in damaged_events(event_files(function)))| {
        let world = World::of_flights();
        let before = world.snapshot();
        let answer = Answer::of_event(&handler(&world), &event);
        assert!((200..500).contains(&answer.status), "{} for {event}", answer.status);
        assert!(answer.payload_bytes < MAX_LAMBDA_PAYLOAD_BYTES, "{event}");
        // The answer to HEAD says nothing but its status and headers.
        let is_head = serde_json::from_str::<Value>(&event)
            .is_ok_and(|event| event["requestContext"]["http"]["method"] == "HEAD");
        if answer.status >= 400 {
            if !is_head {
                let code = answer.body["code"].as_str().unwrap_or_default().to_owned();
                answer.assert_problem(answer.status, &code, &event);
            }
            let after = world.snapshot();
            assert_eq!(after.items, before.items, "refused, but carried out: {event}");
            assert_eq!(after.metadata, before.metadata, "refused, but carried out: {event}");
        } else {
            let is_empty = is_head || matches!(answer.status, 204 | 304);
            assert_eq!(answer.body.is_null(), is_empty, "{event}");
        }
    });
}

/// The events in these files, damaged once or twice.
pub fn damaged_events(files: impl IntoIterator<Item = String>) -> impl Strategy<Value = String> {
    let events = files.into_iter().map(|name| event(&name)).collect::<Vec<_>>();
    let damaged = (prop::sample::select(events), prop::collection::vec(damage(), 1..3));
    damaged.prop_map(|(event, damage)| {
        // A second damage needs what is still JSON.
        damage.iter().fold(event, |event, damage| {
            if serde_json::from_str::<Value>(&event).is_ok() { damage.apply(&event) } else { event }
        })
    })
}

/// One way to damage an event.
#[derive(Debug)]
enum Damage {
    /// The text ends early.
    Cut { at: prop::sample::Index },
    /// A piece of the text becomes another.
    Splice { at: prop::sample::Index, length: usize, text: String },
    /// A value somewhere in the event becomes another.
    Replace { at: prop::sample::Index, value: Value },
    /// A member somewhere in the event is missing.
    Remove { at: prop::sample::Index },
}

impl Damage {
    /// The damaged event.
    fn apply(&self, event: &str) -> String {
        let boundary = |at: usize| (0..=at).rev().find(|at| event.is_char_boundary(*at));
        let boundary = |at: usize| boundary(at.min(event.len())).unwrap_or_default();
        match self {
            Self::Cut { at } => event[..boundary(at.index(event.len()))].to_owned(),
            Self::Splice { at, length, text } => {
                let from = boundary(at.index(event.len()));
                let to = boundary(from + length);
                format!("{}{text}{}", &event[..from], &event[to..])
            }
            Self::Replace { at, value } => {
                let mut event = serde_json::from_str::<Value>(event).expect("JSON");
                let pointers = pointers(&event);
                let target = event.pointer_mut(&pointers[at.index(pointers.len())]);
                *target.expect("it was found there") = value.clone();
                event.to_string()
            }
            Self::Remove { at } => {
                let mut event = serde_json::from_str::<Value>(event).expect("JSON");
                let pointers = pointers(&event);
                let pointer = &pointers[at.index(pointers.len())];
                if let Some((parent, member)) = pointer.rsplit_once('/') {
                    let member = member.replace("~1", "/").replace("~0", "~");
                    if let Some(Value::Object(parent)) = event.pointer_mut(parent) {
                        parent.remove(&member);
                    }
                }
                event.to_string()
            }
        }
    }
}

/// The JSON pointers of a value and of everything in it.
fn pointers(value: &Value) -> Vec<String> {
    let mut found = vec![String::new()];
    let inner = match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value))
            .collect::<Vec<_>>(),
        Value::Array(values) => {
            values.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    for (step, value) in inner {
        found.extend(pointers(value).into_iter().map(|pointer| format!("/{step}{pointer}")));
    }
    found
}

/// Damage of any kind, with a preference for the values that the functions look for.
fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    let value = prop_oneof![
        Just(Value::Null),
        Just(json!([])),
        Just(json!({})),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,40}".prop_map(Value::from),
        "(GET|PUT|POST|PATCH|DELETE|HEAD)".prop_map(Value::from),
        "/(item|item/get|item/put|item/patch|item/delete|query|collection|collection/scale|batch-get|batch-write|counter)".prop_map(Value::from),
        "(pk|sk|from|to|limit|order|cursor|strategy|begins_with)=[%&=+#0-9a-zA-Z]{0,20}"
            .prop_map(Value::from),
        "[\\[\\]{}\",:0-9eE.+\\\\a-z-]{0,40}".prop_map(Value::from),
        Just(Value::from("x".repeat(2_100))),
    ];
    prop_oneof![
        at().prop_map(|at| Damage::Cut { at }),
        (at(), 0..12_usize, "[\\[\\]{}\",:%&=\\\\0-9a-z]{0,6}")
            .prop_map(|(at, length, text)| Damage::Splice { at, length, text }),
        (at(), value).prop_map(|(at, value)| Damage::Replace { at, value }),
        at().prop_map(|at| Damage::Remove { at }),
    ]
}
