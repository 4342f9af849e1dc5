//! What the tests of the functions share: tables in memory, requests as API Gateway would send
//! them, and the golden comparison of every event in this directory.
//!
//! The write, read and scale functions include this file as a test module; it needs their
//! handlers' types, so it belongs to no library.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dynashard_core::ports::StoreError;
use dynashard_core::{
    CollectionMetadata, Deadline, Directory, Generation, Settings, StoredItem, Version,
};
use dynashard_keys::{
    ItemKey, PartitionKey, PhysicalKey, Placement, ShardCount, ShardId, SortKey, SortKeyType,
};
use dynashard_lambda::{Format, Handler, json};
use dynashard_testkit::{
    Fault, Faulty, ManualClock, MemoryHeat, MemoryStore, SeededEntropy, block_on,
};
use serde_json::{Value, json};

/// The tables as a function sees them.
pub(crate) type Store = Faulty<MemoryStore>;

/// What a function knows about collections.
pub(crate) type TestDirectory = Directory<Store, ManualClock, SeededEntropy>;

/// The flight of the first line of the records that ship with the project.
pub(crate) const FLIGHT: &str = "pk=EWR&sk=2013-01-01T10:00:00Z%23UA1545";

/// The version of the items that are there before a test begins, and its entity tag.
pub(crate) const OLD_VERSION: Version = Version::new(0x07dd);
pub(crate) const OLD_ETAG: &str = "\"00000000000007dd\"";

/// The most that Lambda takes as the answer of a function.
pub(crate) const MAX_LAMBDA_PAYLOAD_BYTES: usize = 6 * 1_024 * 1_024;

/// What only the log may say. [`Answer::assert_problem`] looks for it.
pub(crate) const SECRET: &str = "arn:aws:dynamodb:eu-central-1:123456789012:table/secret-4711";

/// Makes the error of a store from what it would write to the log.
pub(crate) type MakeError = fn(String) -> StoreError;

/// What no client can help, and its code.
pub(crate) const STACK_FAULTS: [(&str, MakeError); 3] = [
    ("corrupt_data", StoreError::Corrupt),
    ("internal", StoreError::Misconfigured),
    ("internal", StoreError::Rejected),
];

/// Makes a fault. A fault is used up by the request that suffers it.
pub(crate) type MakeFault = fn() -> Fault;

/// The ways in which the fate of a write stays unknown.
pub(crate) const UNKNOWN_OUTCOMES: [(&str, MakeFault); 3] = [
    ("answered with an error", || {
        Fault::ExecuteThen(StoreError::OutcomeUnknown(SECRET.to_owned()))
    }),
    ("lost", || Fault::Lose),
    ("carried out and not answered", || Fault::ExecuteUnanswered),
];

/// A table that cannot be reached.
pub(crate) fn unreachable_table() -> Fault {
    Fault::Refuse(StoreError::Unavailable(SECRET.to_owned()))
}

/// Makes the tables that a case needs.
pub(crate) type Given = fn() -> World;

const REQUEST_TIME: Duration = Duration::from_secs(20);

/// Both tables, and the time. Handlers over one world share its tables and nothing else.
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    /// What is in the tables.
    pub(crate) memory: MemoryStore,
    /// The tables as functions see them.
    pub(crate) store: Store,
    /// The throttles of the main table, and the alarm on them.
    pub(crate) heat: MemoryHeat,
    settings: Settings,
}

impl World {
    /// Empty tables of a stack with these settings.
    pub(crate) fn new(settings: Settings) -> Self {
        let clock = ManualClock::new();
        let memory = MemoryStore::new(clock.clone(), settings.schema.clone());
        let (store, heat) = (Faulty::new(memory.clone()), MemoryHeat::new());
        Self { clock, memory, store, heat, settings }
    }

    /// Empty tables whose sort key is a number.
    pub(crate) fn of_numbers() -> Self {
        let mut settings = Settings::default();
        settings.schema.sort_key_type = SortKeyType::Number;
        Self::new(settings)
    }

    /// The first flights of 2013: three from Newark in eight shards, one from JFK in one.
    pub(crate) fn of_flights() -> Self {
        let world = Self::new(Settings::default());
        world.collection("EWR", Placement::Xxh64, 8);
        world.collection("JFK", Placement::Xxh64, 1);
        for (pk, sk, item) in [
            (
                "EWR",
                "2013-01-01T10:00:00Z#UA1545",
                r#"{"dest":"IAH","carrier":"UA","flight":1545,"distance":1400,"times":{"scheduled":"05:15"}}"#,
            ),
            (
                "EWR",
                "2013-01-01T10:00:00Z#UA1696",
                r#"{"dest":"ORD","carrier":"UA","flight":1696,"distance":719}"#,
            ),
            (
                "EWR",
                "2013-01-01T11:00:00Z#B6343",
                r#"{"dest":"PBI","carrier":"B6","flight":343,"distance":1023}"#,
            ),
            (
                "JFK",
                "2013-01-01T10:00:00Z#AA1141",
                r#"{"dest":"MIA","carrier":"AA","flight":1141,"distance":1089}"#,
            ),
        ] {
            world.item(pk, sk, item);
        }
        world
    }

    /// A world whose collection `log` places its items at random, one of them being there.
    pub(crate) fn of_random_placement() -> Self {
        let world = Self::new(Settings::default());
        world.collection("log", Placement::Random, 4);
        world.item("log", "1", r#"{"a":1}"#);
        world
    }

    /// A collection that exists already.
    pub(crate) fn collection(&self, pk: &str, placement: Placement, count: u32) {
        let count = ShardCount::new(count).expect("a count");
        let now_secs = 1_356_998_400;
        self.memory.place_metadata(CollectionMetadata::pre_sharded(
            partition(pk),
            placement,
            count,
            now_secs,
        ));
    }

    /// An item in plain JSON that is there already, in the shard where its collection has it. A
    /// random collection has it in its last one.
    pub(crate) fn item(&self, pk: &str, sk: &str, attributes: &str) {
        self.item_in(Format::Plain, pk, sk, attributes);
    }

    /// As [`World::item`], in the JSON that `format` says.
    pub(crate) fn item_in(&self, format: Format, pk: &str, sk: &str, attributes: &str) {
        let members = json::object(attributes.as_bytes()).expect("an object");
        let item = StoredItem {
            attributes: json::attributes(members, format).expect("attributes"),
            generation: Generation::new(1),
            version: OLD_VERSION,
            forwarded: false,
        };
        self.memory.place(&self.home(pk, sk), item);
    }

    /// What lies where an item belongs.
    pub(crate) fn stored(&self, pk: &str, sk: &str) -> Option<StoredItem> {
        self.memory.stored(&self.home(pk, sk))
    }

    fn home(&self, pk: &str, sk: &str) -> PhysicalKey {
        let schema = &self.settings.schema;
        let metadata = self.memory.stored_metadata(&partition(pk)).expect("a collection");
        let sort = SortKey::parse(sk, schema.sort_key_type).expect("a sort key");
        let key = ItemKey::new(metadata.partition, sort);
        let count = metadata.number_of_shards;
        let shard = metadata.placement.home(&key, count).unwrap_or(ShardId::new(count.get()));
        key.at(shard, schema.separator)
    }

    /// A new execution environment's knowledge of the collections. It draws the same numbers each
    /// time, so that answers can be compared.
    pub(crate) fn directory(&self) -> TestDirectory {
        let entropy = SeededEntropy::new(2013);
        Directory::new(self.store.clone(), self.clock.clone(), entropy, self.settings.clone())
    }

    /// What a test compares to see that nothing was written.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let requests = self.memory.requests();
        let pks = ["EWR", "JFK", "LGA", "log"].map(partition);
        Snapshot {
            items: self.memory.contents(),
            metadata: pks.iter().filter_map(|pk| self.memory.stored_metadata(pk)).collect(),
            writes_sent: requests.writes + requests.metadata_creates,
        }
    }
}

/// The tables at one moment.
#[derive(Debug, PartialEq)]
pub(crate) struct Snapshot {
    items: Vec<(PhysicalKey, StoredItem)>,
    metadata: Vec<CollectionMetadata>,
    /// Also of the writes that would have changed nothing: a wrong request must cost none.
    writes_sent: u64,
}

fn partition(pk: &str) -> PartitionKey {
    PartitionKey::new(pk).expect("a partition key")
}

/// A request, to be sent as the event that API Gateway would make of it.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    method: String,
    path: String,
    query: String,
    headers: BTreeMap<String, String>,
    body: Option<String>,
    is_base64: bool,
}

impl Call {
    /// A request line without its version: `PUT /item?pk=EWR&sk=1`.
    pub(crate) fn new(line: &str) -> Self {
        let (method, target) = line.split_once(' ').expect("a method and a target");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: BTreeMap::new(),
            body: None,
            is_base64: false,
        }
    }

    /// With a header.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// With a body that API Gateway takes for text, and no media type unless one is set.
    pub(crate) fn body(mut self, body: impl Into<String>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// With a body of `application/json`.
    pub(crate) fn json(self, body: impl Into<String>) -> Self {
        self.header("content-type", "application/json").body(body)
    }

    /// With a body in base64, as API Gateway sends what may be no text.
    pub(crate) fn base64(mut self, body: &str) -> Self {
        self.is_base64 = true;
        self.body(body)
    }

    fn event(&self) -> String {
        let route = format!("{} {}", self.method, self.path);
        let mut event = json!({
            "version": "2.0",
            "routeKey": route,
            "rawPath": self.path,
            "rawQueryString": self.query,
            "headers": self.headers,
            "requestContext": {
                "accountId": "123456789012",
                "apiId": "a1b2c3d4e5",
                "http": {
                    "method": self.method,
                    "path": self.path,
                    "protocol": "HTTP/1.1",
                    "sourceIp": "203.0.113.7",
                    "userAgent": "curl/8.5.0",
                },
                "routeKey": route,
                "stage": "$default",
            },
            "isBase64Encoded": self.is_base64,
        });
        if let Some(body) = &self.body {
            event["body"] = json!(body);
        }
        event.to_string()
    }
}

/// What a function answered, as Lambda would pass it on.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u64,
    pub(crate) headers: BTreeMap<String, String>,
    /// The body as it is sent.
    pub(crate) text: String,
    /// The body as JSON; null where it is empty.
    pub(crate) body: Value,
    /// What the whole answer takes on its way through Lambda.
    pub(crate) payload_bytes: usize,
}

impl Answer {
    /// Answers a request.
    pub(crate) fn of(handler: &impl Handler, call: &Call) -> Self {
        Self::of_event(handler, &call.event())
    }

    /// Answers whatever came as the event.
    pub(crate) fn of_event(handler: &impl Handler, event: &str) -> Self {
        let deadline = Deadline::after(handler.now(), REQUEST_TIME);
        let response = block_on(dynashard_lambda::answer(handler, event, "request-1", deadline));
        let payload = serde_json::to_string(&response).expect("an answer is JSON");
        let mut answer = serde_json::from_str::<Value>(&payload).expect("an answer is JSON");
        assert_eq!(answer["isBase64Encoded"], false, "all answers are text");
        let text = answer["body"].as_str().expect("a body, if an empty one").to_owned();
        let body = if text.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} in the body {text}"))
        };
        Self {
            status: answer["statusCode"].as_u64().expect("a status"),
            headers: serde_json::from_value(answer["headers"].take()).expect("headers"),
            text,
            body,
            payload_bytes: payload.len(),
        }
    }

    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The answer as the files under `expected` have it.
    pub(crate) fn golden(&self) -> Value {
        json!({ "statusCode": self.status, "headers": self.headers, "body": self.body })
    }

    /// Asserts that this is a problem of the contract's shape.
    #[track_caller]
    pub(crate) fn assert_problem(&self, status: u64, code: &str, what: &str) {
        assert_eq!(
            (self.status, self.body["code"].as_str()),
            (status, Some(code)),
            "{what}: {}",
            self.text
        );
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{what}");
        assert_eq!(self.body["type"], "about:blank", "{what}");
        assert_eq!(self.body["status"], status, "{what}");
        for member in ["title", "detail"] {
            let text = self.body[member].as_str();
            assert!(text.is_some_and(|text| !text.is_empty()), "{what} has no {member}");
        }
        assert!(!self.text.contains(SECRET), "{what} told a secret: {}", self.text);
        let may_be_sent_again = matches!(status, 429 | 503);
        assert_eq!(self.header("retry-after").is_some(), may_be_sent_again, "{what}");
    }
}

/// One wrong request, and the answer that it gets.
pub(crate) struct Wrong {
    what: String,
    call: Call,
    status: u64,
    code: &'static str,
}

impl Wrong {
    /// A request that is answered with 400 and this code, unless [`Wrong::with_status`] says
    /// otherwise.
    pub(crate) fn new(what: impl Into<String>, code: &'static str, call: Call) -> Self {
        Self { what: what.into(), call, status: 400, code }
    }

    /// With another status.
    pub(crate) fn with_status(self, status: u64) -> Self {
        Self { status, ..self }
    }
}

/// Asserts that each of the requests is refused with its status and code, and that none of them
/// so much as sends a write.
#[track_caller]
pub(crate) fn assert_refused(
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

/// Texts that are no HTTP request of payload format 2.0.
pub(crate) fn malformed_events() -> Vec<(&'static str, String)> {
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
        ("a method that is no string", with("/requestContext/http/method", json!(7))),
        ("headers that are no object", with("/headers", json!("accept: */*"))),
        ("a header that is no string", with("/headers", json!({ "accept": ["*/*"] }))),
        ("a body that is no string", with("/body", json!({ "a": 1 }))),
        ("a flag that is no boolean", with("/isBase64Encoded", json!("no"))),
        ("a body that is no base64", with("/isBase64Encoded", json!(true))),
        ("text behind the event", format!("{} {{}}", valid())),
    ]
}

/// The directory of the events.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../events")
}

/// The text of an event file.
pub(crate) fn event(name: &str) -> String {
    let path = directory().join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The names of the JSON files in a directory that are about a function.
fn files_of(directory: &Path, function: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
    let names = names.map(|name| name.expect("UTF-8"));
    let json = names.filter(|name| Path::new(name).extension().is_some_and(|e| e == "json"));
    let of_function = |name: &String| {
        let (prefix, _) = name.split_once('-').unwrap_or_else(|| panic!("{name} has no function"));
        let known = ["write", "read", "scale"].contains(&prefix);
        assert!(known, "{name} is about no function, so nothing tests it");
        prefix == function
    };
    json.filter(of_function).collect()
}

/// The names of a function's event files.
pub(crate) fn event_files(function: &str) -> BTreeSet<String> {
    files_of(&directory(), function)
}

/// Compares the answer to every event of a function with the file of the same name under
/// `expected`. An event, an expectation or a line of the README without the other two fails. What
/// is answered to an event that is no request has no status, and stands in the file as it is.
#[track_caller]
pub(crate) fn assert_golden(
    function: &str,
    cases: &[(&str, Given)],
    answer: impl Fn(&World, &str) -> Value,
) {
    let tested = cases.iter().map(|(name, _)| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(tested.len(), cases.len(), "an event is listed twice");
    assert_eq!(event_files(function), tested, "events, and events that are tested");
    let readme = fs::read_to_string(directory().join("README.md")).expect("a README");
    let expected = directory().join("expected");
    let mut wrong = String::new();
    for (name, given) in cases {
        let text = event(name);
        assert_natural(name, &text);
        let world = given();
        let answer = answer(&world, &text);
        let path = expected.join(name);
        let wanted = fs::read_to_string(&path).unwrap_or_default();
        if serde_json::from_str::<Value>(&wanted).ok().as_ref() != Some(&answer) {
            let answer = serde_json::to_string_pretty(&answer).expect("JSON");
            let _ = writeln!(wrong, "{} is not the answer:\n{answer}", path.display());
        }
        let function = format!("{}Function", capitalised(function));
        let in_readme = readme.lines().any(|line| {
            let cells = line.split('|').map(str::trim).collect::<Vec<_>>();
            let status = answer.get("statusCode").map_or("-".to_owned(), ToString::to_string);
            cells.get(1) == Some(&format!("[`{name}`]({name})").as_str())
                && cells.get(2) == Some(&format!("`{function}`").as_str())
                && cells.get(4) == Some(&status.as_str())
        });
        if !in_readme {
            let _ = writeln!(wrong, "README.md has no line for {name} with {function} and status");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(files_of(&expected, function), tested, "expected answers, and events");
}

fn capitalised(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_uppercase() + rest
}

/// Asserts that the parts of an API Gateway event agree with one another: a hand-made event that
/// contradicts itself shows something that never happens.
fn assert_natural(name: &str, event: &str) {
    let event = serde_json::from_str::<Value>(event).expect("JSON");
    if event["version"] != "2.0" {
        return;
    }
    let context = &event["requestContext"];
    let text = |value: &Value| value.as_str().map(str::to_owned).expect("a string");
    let route = format!("{} {}", text(&context["http"]["method"]), text(&event["rawPath"]));
    assert_eq!(event["routeKey"], route, "{name}");
    assert_eq!(context["routeKey"], route, "{name}");
    assert_eq!(context["http"]["path"], event["rawPath"], "{name}");
    assert_eq!(context["domainName"], event["headers"]["host"], "{name}");
    assert_eq!(context["http"]["userAgent"], event["headers"]["user-agent"], "{name}");
    let headers = event["headers"].as_object().expect("headers");
    assert!(headers.keys().all(|name| *name == name.to_ascii_lowercase()), "{name}");
    let named = text(&event["rawQueryString"]).split('&').filter(|p| !p.is_empty()).count() > 0;
    assert_eq!(event["queryStringParameters"].is_object(), named, "{name}");
    let length = headers.get("content-length").map(text);
    let length = length.map(|length| length.parse::<usize>().expect("a length"));
    let sent = event["body"].as_str().map(|body| {
        if event["isBase64Encoded"] == true {
            body.len() / 4 * 3 - body.bytes().rev().take_while(|byte| *byte == b'=').count()
        } else {
            body.len()
        }
    });
    assert_eq!(length, sent, "{name}: content-length");
}

/// What a hostile sender puts in place of a part of an event.
pub(crate) mod hostile {
    use proptest::prelude::{Just, any, prop, prop_oneof};
    use proptest::strategy::Strategy;
    use serde_json::{Value, json};

    use super::{Answer, MAX_LAMBDA_PAYLOAD_BYTES, World};

    /// One way to damage an event.
    #[derive(Debug, Clone)]
    pub(crate) enum Damage {
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
        pub(crate) fn apply(&self, event: &str) -> String {
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

    /// Damage of any kind, of the values that the functions look for above all.
    pub(crate) fn damage() -> impl Strategy<Value = Damage> {
        let at = any::<prop::sample::Index>;
        let value = prop_oneof![
            Just(Value::Null),
            Just(json!([])),
            Just(json!({})),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,40}".prop_map(Value::from),
            "(GET|PUT|POST|PATCH|DELETE|HEAD)".prop_map(Value::from),
            "/(item|query|collection|collection/scale|batch-get|batch-write)".prop_map(Value::from),
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

    /// Asserts what holds of every answer to every event while the tables work: it is an HTTP
    /// response in JSON, the fault is never the function's own, and a refusal changes nothing.
    pub(crate) fn assert_sane(
        world: &World,
        before: &super::Snapshot,
        answer: &Answer,
        event: &str,
    ) {
        assert!((200..500).contains(&answer.status), "{} for {event}", answer.status);
        assert!(answer.payload_bytes < MAX_LAMBDA_PAYLOAD_BYTES, "{event}");
        if answer.status >= 400 {
            let code = answer.body["code"].as_str().unwrap_or_default().to_owned();
            answer.assert_problem(answer.status, &code, event);
            let after = world.snapshot();
            assert_eq!(after.items, before.items, "refused, but carried out: {event}");
            assert_eq!(after.metadata, before.metadata, "refused, but carried out: {event}");
        } else {
            assert_eq!(answer.body.is_null(), answer.status == 204, "{event}");
        }
    }
}
