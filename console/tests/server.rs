//! The server over tables in memory, by what a client sends: who is answered, what is refused, and what is shown.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use dynashard_console::{Console, Options, Tables, Trouble, UsagePace};
use dynashard_core::ports::{self, Change, RecordStore, StoreError, UsageSource};
use dynashard_core::{
    AttributeValue, Attributes, CollectionMetadata, DecisionHistory, DecisionRecord, Directory,
    Generation, HeatWindow, NewItem, Reader, Scaler, ScalingMode, Settings, StoredItem, TableUnits,
    ThrottleCounts, Usage, UsagePeriod, Version,
};
use dynashard_keys::{ItemKey, PartitionKey, Placement, ShardCount, SortKey};
use dynashard_testkit::{Fault, Faulty, ManualClock, MemoryStore, Operation, SeededEntropy};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// An hour in which the same happened in each minute.
struct Counted;

#[async_trait]
impl UsageSource for Counted {
    async fn usage(&self, window: HeatWindow) -> Result<Usage, StoreError> {
        let period = UsagePeriod {
            main: TableUnits { writes: 600.0, reads: 60.0 },
            metadata: TableUnits { writes: 6.0, reads: 3.0 },
            throttled_writes: ThrottleCounts { partition: 12.0, ..ThrottleCounts::default() },
            items_moved: 20.0,
            ..UsagePeriod::default()
        };
        let minutes = (window.from_secs..window.to_secs).step_by(60);
        Ok(Usage { period_secs: 60, periods: minutes.map(|at| (at, period)).collect() })
    }
}

/// A console, and the tables that it looks at.
struct World {
    console: Console,
    memory: MemoryStore,
    store: Faulty<MemoryStore>,
    clock: ManualClock,
    settings: Settings,
    port: u16,
    token: String,
}

/// A key that would be markup if anybody took it for that.
const MARKUP: &str = "<img src=x onerror=alert(1)>&\"'\u{2028}";

impl World {
    async fn start(options: Options) -> Self {
        let clock = ManualClock::new();
        let settings = Settings::default();
        let memory = MemoryStore::new(clock.clone(), settings.schema.clone());
        let store = Faulty::new(memory.clone());
        let (of_tables, all, time) = (store.clone(), settings.clone(), clock.clone());
        let connect = move || {
            let tables = tables(&of_tables, &time, &all, options.allows_changes);
            async move { Ok::<_, Trouble>(tables) }
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let entropy = SeededEntropy::new(7);
        let console = Console::serve(listener, options, &entropy, connect);
        let console = console.expect("it serves");
        let token = String::new();
        let mut world = Self { console, memory, store, clock, settings, port, token };
        let page = world.get("/").await;
        let token = page.body.split("name=\"token\" content=\"").nth(1).expect("a token");
        token.split('"').next().expect("its end").clone_into(&mut world.token);
        world
    }

    fn lay_out(&self, pk: &str, shards: u32) {
        let count = ShardCount::new(shards).expect("a count");
        let metadata = CollectionMetadata::stable(key(pk), Placement::Xxh64, count, 1_000);
        self.memory.place_metadata(CollectionMetadata { min_shards: ShardCount::ONE, ..metadata });
    }

    fn place(&self, pk: &str, sk: &str, shards: u32) {
        let attributes =
            Attributes::from([("note".to_owned(), AttributeValue::String(MARKUP.to_owned()))]);
        let item = ItemKey::new(key(pk), SortKey::string(sk).expect("a key"));
        let new = NewItem::new(item.clone(), attributes, &self.settings.schema).expect("an item");
        let count = ShardCount::new(shards).expect("a count");
        let home = Placement::Xxh64.home(&item, count).expect("calculated");
        let at = item.at(home, Placement::Xxh64, self.settings.schema.separator);
        let stored = StoredItem {
            attributes: new.attributes().clone(),
            generation: Generation::new(1),
            version: Version::new(9),
            forwarded: false,
        };
        self.memory.place(&at, stored);
    }

    async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        let token = self.token.as_str();
        let headers = [("content-type", "application/json"), ("x-dynashard-token", token)];
        self.send("POST", path, &headers, &body.to_string()).await
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let host = format!("127.0.0.1:{}", self.port);
        let has_host = headers.iter().any(|(name, _)| *name == "host");
        let host = [("host", host.as_str())];
        let host = if has_host { &host[..0] } else { &host[..] };
        let mut text = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        for (name, value) in host.iter().chain(headers) {
            text.extend([*name, ": ", *value, "\r\n"]);
        }
        text.extend(["content-length: ", &body.len().to_string(), "\r\n\r\n", body]);
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.expect("it listens");
        stream.write_all(text.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answered");
        Answer::read(&answer)
    }

    /// Follows the stream until an event of this name satisfies `is_it`.
    async fn until(&self, query: &str, name: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.expect("it listens");
        let request =
            format!("GET /api/stream?{query} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\n\r\n", self.port);
        stream.write_all(request.as_bytes()).await.expect("sent");
        let begin = format!("event: {name}\ndata: ");
        let reading = async {
            let (mut text, mut buffer) = (Vec::new(), vec![0; 65_536]);
            loop {
                let read = stream.read(&mut buffer).await.expect("the stream goes on");
                assert!(read > 0, "the stream has ended: {}", String::from_utf8_lossy(&text));
                text.extend_from_slice(&buffer[..read]);
                let all = String::from_utf8_lossy(&text);
                let of_name = all.split(&begin).skip(1);
                let whole =
                    of_name.filter_map(|rest| rest.split_once("\n\n").map(|(data, _)| data));
                for data in whole {
                    // A chunk may begin in the middle of an event, with its length.
                    let Ok(value) = serde_json::from_str::<Value>(data) else { continue };
                    if is_it(&value) {
                        return value;
                    }
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), reading).await.expect("it is told in time")
    }
}

fn tables(
    store: &Faulty<MemoryStore>,
    clock: &ManualClock,
    settings: &Settings,
    allows_changes: bool,
) -> Tables {
    let directory = |settings: Settings, seed| {
        Directory::new(
            ports::World::new(
                store.clone(),
                store.clone(),
                clock.clone(),
                SeededEntropy::new(seed),
            ),
            settings,
        )
    };
    let mut looking = settings.clone();
    looking.scaling.mode = ScalingMode::Off;
    Tables {
        place: "memory".to_owned(),
        scaling: ScalingMode::DryRun,
        reader: Reader::new(directory(looking.clone(), 1)),
        watcher: Reader::new(directory(looking, 3)),
        scaler: allows_changes.then(|| Scaler::new(directory(settings.clone(), 2).pinning())),
        usage: Some((Box::new(Counted), UsagePace::AWS)),
        watched_rcu: Box::new(|| 0.0),
        asked_rcu: Box::new(|| 0.0),
        prices: None,
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn read(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Self {
            status: status.expect("a status"),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    fn refused(&self) -> (u16, String) {
        (self.status, self.json()["code"].as_str().expect("a code").to_owned())
    }
}

fn key(pk: &str) -> PartitionKey {
    PartitionKey::new(pk).expect("a key")
}

fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

const CHANGING: Options = Options { allows_changes: true, read_units: 10.0 };

#[tokio::test]
async fn every_answer_keeps_other_sites_and_scripts_out() {
    let world = World::start(Options::default()).await;
    for path in ["/", "/main.js", "/palette.css", "/nothing", "/api/decisions"] {
        let answer = world.get(path).await;
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "cache-control: no-store",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(answer.head.contains(header), "{path}: {}", answer.head);
        }
        assert!(!answer.head.contains("access-control-allow"), "{path}: {}", answer.head);
    }
    assert_eq!(world.get("/nothing").await.refused(), refused(404, "not_found"));
    assert_eq!(world.get("/../Cargo.toml").await.status, 404);
    world.console.stop().await;
}

#[tokio::test]
async fn what_does_not_come_from_the_page_is_refused_and_changes_nothing() {
    let world = World::start(CHANGING).await;
    world.lay_out("EWR", 2);
    let body = json!({ "pk": "EWR", "number_of_shards": 8, "confirm": "EWR" }).to_string();
    let (json_type, token) =
        (("content-type", "application/json"), ("x-dynashard-token", world.token.as_str()));
    let foreign = [("host", "evil.example"), json_type, token];
    let answer = world.send("POST", "/api/scale", &foreign, &body).await;
    assert_eq!(answer.refused(), refused(421, "foreign_host"));
    let foreign = [("origin", "http://evil.example"), json_type, token];
    let answer = world.send("POST", "/api/scale", &foreign, &body).await;
    assert_eq!(answer.refused(), refused(403, "foreign_origin"));
    let answer = world.send("POST", "/api/scale", &[json_type], &body).await;
    assert_eq!(answer.refused(), refused(403, "bad_token"));
    let form = [("content-type", "text/plain"), token];
    let answer = world.send("POST", "/api/scale", &form, &body).await;
    assert_eq!(answer.refused(), refused(415, "unsupported_media_type"));
    for method in ["GET", "PUT", "DELETE", "OPTIONS"] {
        let answer = world.send(method, "/api/scale", &[json_type, token], &body).await;
        assert_eq!(answer.refused(), refused(405, "method_not_allowed"), "{method}");
        assert!(answer.head.contains("allow: post"), "{}", answer.head);
    }
    let answer = world.send("POST", "/api/stream", &[json_type, token], "{}").await;
    assert_eq!(answer.refused(), refused(405, "method_not_allowed"));
    let long = "x".repeat(600_000);
    let answer = world.send("POST", "/api/scale", &[json_type, token], &long).await;
    assert_eq!(answer.refused(), refused(413, "body_too_large"));
    let stored = world.memory.stored_metadata(&key("EWR")).expect("it is there");
    assert_eq!((stored.rev, stored.number_of_shards.get()), (1, 2), "nothing has changed");
    assert_eq!(world.memory.requests().metadata_transactions, 0);
    world.console.stop().await;
}

#[tokio::test]
async fn a_change_needs_permission_and_the_name_of_the_collection() {
    let reading = World::start(Options::default()).await;
    reading.lay_out("EWR", 2);
    let ask = json!({ "pk": "EWR", "number_of_shards": 8, "confirm": "EWR" });
    let answer = reading.post("/api/scale", &ask).await;
    assert_eq!(answer.refused(), refused(403, "read_only"));
    let plan = reading.post("/api/plan", &json!({ "pk": "EWR", "number_of_shards": 7 })).await;
    let plan = plan.json();
    assert_eq!((&plan["plan"]["to"], &plan["allows_changes"]), (&json!(8), &json!(false)));
    reading.console.stop().await;

    let world = World::start(CHANGING).await;
    world.lay_out("EWR", 2);
    let mistyped = json!({ "pk": "EWR", "number_of_shards": 8, "confirm": "EWr" });
    assert_eq!(world.post("/api/scale", &mistyped).await.refused(), refused(400, "not_confirmed"));
    let bad = [
        (json!({ "pk": "EWR", "number_of_shards": 0, "confirm": "EWR" }), "bad_shard_count"),
        (json!({ "pk": "EWR", "number_of_shards": 100_000, "confirm": "EWR" }), "bad_shard_count"),
        (json!({ "pk": "EWR", "number_of_shards": 512, "confirm": "EWR" }), "bad_shard_count"),
        (json!({ "pk": "", "number_of_shards": 8, "confirm": "" }), "bad_key"),
        (json!({ "pk": "EWR", "number_of_shards": -1, "confirm": "EWR" }), "bad_request"),
        (json!({ "pk": "EWR", "number_of_shards": 8 }), "bad_request"),
        (json!([]), "bad_request"),
    ];
    for (body, code) in bad {
        assert_eq!(world.post("/api/scale", &body).await.refused(), refused(400, code), "{body}");
    }
    let unknown = json!({ "pk": "JFK", "number_of_shards": 8, "confirm": "JFK" });
    let answer = world.post("/api/scale", &unknown).await;
    assert_eq!(answer.refused(), refused(404, "collection_not_found"));
    assert_eq!(world.memory.requests().metadata_transactions, 0, "nothing was changed");

    let answer = world.post("/api/scale", &ask).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["collection"]["state"], "forward");
    let stored = world.memory.stored_metadata(&key("EWR")).expect("it is there");
    assert_eq!(stored.phase.as_str(), "forward");
    let elsewhere = json!({ "pk": "EWR", "number_of_shards": 4 });
    assert_eq!(
        world.post("/api/plan", &elsewhere).await.refused(),
        refused(409, "reshard_running")
    );
    world.console.stop().await;
}

#[tokio::test]
async fn the_stream_shows_collections_decisions_and_costs() {
    let world = World::start(Options::default()).await;
    world.lay_out("EWR", 4);
    world.lay_out(MARKUP, 2);
    let record = DecisionRecord {
        at_secs: 1_356_998_000,
        last_secs: 1_356_998_100,
        times: 2,
        diagnosis: "hot_key".to_owned(),
        action: "grow".to_owned(),
        outcome: "dry_run".to_owned(),
        from: 4,
        to: Some(16),
        demand: 9_000,
        capacity: 4_000,
        reason: MARKUP.to_owned(),
        ..DecisionRecord::default()
    };
    let next = DecisionHistory { rev: 1, records: vec![record] };
    let seen = DecisionHistory::default();
    world.memory.commit(&[Change::of_decisions(&key("EWR"), &seen, next)]).await.expect("saved");

    // A busy machine may tell of them one by one.
    let told = RefCell::new(BTreeMap::<String, Value>::new());
    let is_all = |rows: &Value| {
        for row in rows.as_array().into_iter().flatten() {
            told.borrow_mut()
                .insert(row["pk"].as_str().unwrap_or_default().to_owned(), row.clone());
        }
        told.borrow().len() == 2
    };
    world.until("range=live", "rows", is_all).await;
    let of = |pk: &str| told.borrow().get(pk).cloned().unwrap_or_else(|| panic!("{pk}"));
    assert_eq!((&of("EWR")["shards"], &of("EWR")["outcome"]), (&json!(4), &json!("dry_run")));
    assert_eq!(of(MARKUP)["shards"], 2, "as text, whatever it looks like");

    let is_whole = |overview: &Value| {
        overview["decisions"].as_array().is_some_and(|all| all.len() == 1)
            && !overview["last_hour"].is_null()
            && overview["collections"] == 2
    };
    let overview = world.until("range=minutes", "overview", is_whole).await;
    let decision = &overview["decisions"][0];
    assert_eq!(decision["reason"], MARKUP);
    assert_eq!(
        (&decision["cost"]["share_moved"], &decision["cost"]["shards_more"]),
        (&json!(0.75), &json!(12))
    );
    let hour = &overview["last_hour"];
    assert_eq!(hour["system"]["write_units"], json!(60.0 * (6.0 + 20.0 * 5.0)));
    assert_eq!(hour["clients"]["write_units"], json!(60.0 * (600.0 - 20.0 * 5.0)));
    assert_eq!(overview["throttles"][1][0]["reason"], "partition");
    let demand = &overview["series"]["writes"]["demand"];
    assert_eq!(demand.as_array().map(Vec::len), Some(30));
    let other = world.until("range=days", "overview", is_whole).await;
    assert_eq!(other["at_once"], overview["at_once"], "now is now, whatever range is shown");
    assert_eq!(other["at_once"]["writes"]["capacity"], 6_000);
    // 500 units in a minute.
    assert_eq!(other["at_once"]["writes"]["absorbed"], 8.3);

    let details = world.until("pk=EWR&range=hours", "collection", |details| {
        details["collection"]["number_of_shards"] == 4
            && details["decisions"].as_array().is_some_and(|all| !all.is_empty())
    });
    assert_eq!(details.await["collection"]["placement"], "xxh64");

    let all = world.get("/api/decisions?outcome=dry_run").await.json();
    assert_eq!(all["decisions"].as_array().map(Vec::len), Some(1));
    for none in ["pk=JFK", "diagnosis=ramp", "outcome=begun"] {
        let found = world.get(&format!("/api/decisions?{none}")).await.json();
        assert_eq!(found["decisions"], json!([]), "{none}");
    }
    let refused_query = world.get("/api/decisions?typo=1").await;
    assert_eq!(refused_query.refused(), refused(400, "bad_parameter"));
    assert_eq!(world.get("/api/stream?range=years").await.refused(), refused(400, "bad_parameter"));
    let told = world.until("pk=_ds_orders", "refused", |_| true).await;
    assert_eq!(told["code"], "bad_key");
    let counted = world.memory.requests();
    assert_eq!((counted.ledger_updates, counted.writes), (0, 0), "it only looks");
    world.console.stop().await;
}

#[tokio::test]
async fn regression_a_mistyped_key_counted_as_a_collection_that_cannot_be_read() {
    let world = World::start(Options::default()).await;
    world.lay_out("EWR", 4);
    let details = world.until("pk=EWRR", "collection", |of| of["is_nowhere"] == true).await;
    assert!(details["row"].is_null(), "{details}");
    let overview = world.until("pk=EWRR", "overview", |of| of["collections"] != 0).await;
    assert_eq!(overview["collections"], 1);
    world.console.stop().await;
}

#[tokio::test]
async fn regression_the_plan_of_a_change_left_out_what_it_had_not_counted() {
    let world = World::start(Options::default()).await;
    world.lay_out("EWR", 2);
    for n in 0..1_100 {
        world.place("EWR", &format!("{n:04}"), 2);
    }
    let ask = json!({ "pk": "EWR", "number_of_shards": 4 });
    let plan = world.post("/api/plan", &ask).await.json();
    assert_eq!(plan["plan"]["items"], json!({ "least": 1_000.0, "most": null }));
    assert_eq!(plan["plan"]["items_moved"], json!({ "least": 500.0, "most": null }));
    world.console.stop().await;
}

#[tokio::test]
async fn what_is_read_goes_on_for_as_long_as_somebody_looks() {
    let world = World::start(Options::default()).await;
    world.lay_out("EWR", 4);
    // A minute passes, and everything is due.
    let reads_in_a_minute = async || {
        let before = world.memory.requests().total();
        world.clock.advance(Duration::from_mins(1));
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.memory.requests().total() - before
    };
    assert_eq!(reads_in_a_minute().await, 0, "nobody looks");
    let looking = async {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        while reads_in_a_minute().await == 0 {
            assert!(tokio::time::Instant::now() < deadline, "nothing is read");
        }
    };
    let open = world.until("", "nothing is called so", |_| false);
    tokio::select! {
        () = looking => {}
        _ = open => {}
    }
    // The server notices that the page is closed when it next tells something.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while reads_in_a_minute().await > 0 {
        assert!(tokio::time::Instant::now() < deadline, "it goes on reading");
    }
    world.console.stop().await;
}

#[tokio::test]
async fn neither_an_open_page_nor_half_a_request_keeps_the_console_from_ending() {
    let world = World::start(Options::default()).await;
    let mut half = TcpStream::connect(("127.0.0.1", world.port)).await.expect("it listens");
    half.write_all(b"GET / HTTP/1.1\r\n").await.expect("sent");
    let mut open = TcpStream::connect(("127.0.0.1", world.port)).await.expect("it listens");
    let request = format!("GET /api/stream HTTP/1.1\r\nhost: 127.0.0.1:{}\r\n\r\n", world.port);
    open.write_all(request.as_bytes()).await.expect("sent");
    let mut told = vec![0; 8];
    open.read_exact(&mut told).await.expect("the stream begins");
    world.console.stop().await;
    assert!(TcpStream::connect(("127.0.0.1", world.port)).await.is_err(), "it listens no more");
    open.read_to_end(&mut told).await.expect("the stream ends");
}

#[tokio::test]
async fn items_come_by_pages_and_with_their_homes() {
    let world = World::start(Options::default()).await;
    world.lay_out("EWR", 4);
    for n in 0..30 {
        world.place("EWR", &format!("{n:02}"), 4);
    }
    let ask = json!({ "pk": "EWR", "begins_with": "1", "limit": "7", "order": "desc" });
    let page = world.post("/api/query", &ask).await.json();
    let keys = page["items"].as_array().expect("items").iter().map(|item| item["sk"].clone());
    let expected = (13..=19).rev().map(|n| json!(format!("{n}"))).collect::<Vec<_>>();
    assert_eq!(keys.collect::<Vec<_>>(), expected);
    let cursor = page["cursor"].as_str().expect("there are more").to_owned();
    let next =
        json!({ "pk": "EWR", "begins_with": "1", "limit": "7", "order": "desc", "cursor": cursor });
    let next = world.post("/api/query", &next).await.json();
    assert_eq!((next["items"].as_array().map(Vec::len), &next["cursor"]), (Some(3), &json!(null)));

    // The name behind a space was another attribute's, which no item has.
    let spaced = json!({ "pk": "EWR", "limit": "1", "fields": "other, note" });
    let spaced = world.post("/api/query", &spaced).await.json();
    let shown = spaced["items"][0]["text"].as_str().expect("text");
    assert!(shown.contains("note"), "regression: {shown}");

    let item = world.post("/api/item", &json!({ "pk": "EWR", "sk": "07" })).await.json();
    let text = serde_json::from_str::<Value>(item["text"].as_str().expect("text")).expect("JSON");
    assert_eq!(text["note"], MARKUP);
    let id = ItemKey::new(key("EWR"), SortKey::string("07").expect("a key"));
    let count = ShardCount::new(4).expect("a count");
    let shard = Placement::Xxh64.home(&id, count).expect("calculated");
    assert_eq!(
        (&item["home"]["shard"], &item["etag"]),
        (&json!(shard.get()), &json!("\"0000000000000009\""))
    );

    let balance = world.post("/api/balance", &json!({ "pk": "EWR" })).await.json();
    let counts = balance["items"].as_array().expect("counts");
    assert_eq!((counts.len(), &balance["sampled"]), (4, &json!(30)));
    assert_eq!(counts.iter().filter_map(Value::as_u64).sum::<u64>(), 30);

    for (path, body, answer) in [
        ("/api/item", json!({ "pk": "EWR", "sk": "99" }), refused(404, "item_not_found")),
        ("/api/query", json!({ "pk": "EWR", "limit": "0" }), refused(400, "bad_parameter")),
        ("/api/query", json!({ "pk": "EWR", "limit": "x" }), refused(400, "bad_parameter")),
        ("/api/query", json!({ "pk": "EWR", "cursor": "x" }), refused(400, "bad_cursor")),
        ("/api/query", json!({ "pk": "EWR", "typo": "x" }), refused(400, "bad_request")),
        (
            "/api/query",
            json!({ "pk": "EWR", "from": "2", "to": "1" }),
            refused(400, "bad_parameter"),
        ),
        ("/api/balance", json!({ "pk": "JFK" }), refused(404, "collection_not_found")),
    ] {
        assert_eq!(world.post(path, &body).await.refused(), answer, "{path} {body}");
    }
    world.console.stop().await;
}

#[tokio::test]
async fn tables_that_cannot_be_reached_are_named_until_they_can() {
    let clock = ManualClock::new();
    let settings = Settings::default();
    let store = Faulty::new(MemoryStore::new(clock.clone(), settings.schema.clone()));
    let is_there = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_there);
    let connect = move || {
        let found = seen.load(Ordering::Relaxed).then(|| tables(&store, &clock, &settings, false));
        let trouble = Trouble::new("connection_failed", "there are no AWS credentials: sign in");
        async move { found.ok_or(trouble) }
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let entropy = SeededEntropy::new(7);
    let console = Console::serve(listener, Options::default(), &entropy, connect).expect("up");
    let (clock, settings, token) = (ManualClock::new(), Settings::default(), String::new());
    let memory = MemoryStore::new(clock.clone(), settings.schema.clone());
    let store = Faulty::new(memory.clone());
    let world = World { console, memory, store, clock, settings, port, token };
    let waiting = world.until("", "waiting", |told| !told["trouble"].is_null()).await;
    assert_eq!(waiting["trouble"]["detail"], "there are no AWS credentials: sign in");
    let answer = world.get("/api/decisions").await;
    assert_eq!(answer.refused(), refused(503, "not_connected"));
    assert!(answer.body.contains("sign in"), "{}", answer.body);
    assert_eq!(world.get("/").await.status, 200, "the page is there all the same");
    is_there.store(true, Ordering::Relaxed);
    world.until("", "hello", |hello| hello["place"] == "memory").await;
    world.console.stop().await;
}

#[tokio::test]
async fn reads_that_are_throttled_are_told_and_the_rest_goes_on() {
    let world = World::start(Options::default()).await;
    world.lay_out("EWR", 4);
    // Two pages of lists come before the first of decisions.
    let passes = || Fault::before(|| {});
    world.store.script(Operation::MetadataQuery, [passes(), passes()]);
    // It is asked again for as long as the console waits for an answer.
    let throttles = std::iter::repeat_with(Fault::throttle).take(100);
    world.store.script(Operation::MetadataQuery, throttles);
    let told = world.until("", "overview", |overview| {
        overview["troubles"].as_array().is_some_and(|all| !all.is_empty())
    });
    let trouble = told.await["troubles"][0].clone();
    assert_eq!((&trouble["about"], &trouble["code"]), (&json!("decisions"), &json!("throttled")));
    let detail = trouble["detail"].as_str().expect("a sentence");
    assert!(detail.contains("--read-units"), "{detail}");
    let page = world.post("/api/query", &json!({ "pk": "EWR" })).await;
    assert_eq!(page.status, 200, "{page:?}");
    world.console.stop().await;
}
