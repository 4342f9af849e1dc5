//! Mappings at work, over the stream of the real engine, with a function that the test plays.

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::record::testing::record;
use super::*;
use crate::clock::manual::ManualClock;
use crate::dynamodb::engine::{Engine, Store};
use crate::lambda::fake::{Event, Fake, Polling, Rig};
use crate::plan::Pattern;
use crate::plan::{RetryPolicy, StartingPosition};
use crate::template::{TemplateSource, load_template};

const TEMPLATE: &str = "
Transform: AWS::Serverless-2016-10-31
Resources:
  Table:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{ AttributeName: pk, AttributeType: S }]
      KeySchema: [{ AttributeName: pk, KeyType: HASH }]
      StreamSpecification: { StreamViewType: NEW_AND_OLD_IMAGES }
";

fn mapping() -> StreamMapping {
    let pattern = r#"{"dynamodb":{"NewImage":{"phase":{"S":["forward","move"]}}}}"#;
    StreamMapping {
        table: "Table".to_owned(),
        start: StartingPosition::TrimHorizon,
        batch_size: 10,
        window: Duration::ZERO,
        lanes: 1,
        // The engine's records have the time of the machine, and the clock here has not.
        retry: RetryPolicy { max_retries: Some(1), max_age: Duration::MAX, bisect: true },
        reports_failures: true,
        on_failure: Some("Failures".to_owned()),
        filters: vec![Pattern::parse(pattern).expect("a pattern")],
        is_enabled: true,
        line: 1,
    }
}

/// The engine with its table, and a mapping of its stream.
struct World {
    rig: Rig,
    engine: Engine,
    source: Source,
    queues: Arc<Queues>,
    stop: watch::Sender<bool>,
    pump: JoinHandle<()>,
}

impl World {
    /// The table has been given `items` before the mapping starts.
    async fn start(mapping: StreamMapping, items: &[(&str, &str)]) -> (Self, Fake, Polling) {
        let text = TEMPLATE.to_owned();
        let template = TemplateSource::Text { name: "template.yaml".to_owned(), text };
        let template = load_template(&template, &[]).expect("a template");
        let engine = Engine::start(None, &template.tables).expect("an engine");
        let source = Source {
            store: engine.store(),
            table: "Table".to_owned(),
            function: "Function".to_owned(),
            access: Arc::default(),
        };
        for (key, phase) in items {
            put(&engine.store(), key, phase);
        }
        let (rig, fake, polling) = Rig::start(1).await;
        let clock: SharedClock = rig.clock.clone();
        let queues = Arc::new(Queues::new(&["Failures".to_owned()], &clock));
        let pump = Pump {
            mapping,
            store: engine.store(),
            pool: Arc::clone(rig.runtime.pool("Function").expect("the function")),
            queues: Arc::clone(&queues),
            access: Arc::default(),
            clock,
        };
        let (stop, stopped) = watch::channel(false);
        let pump = tokio::spawn(Arc::new(pump).run(stopped));
        (Self { rig, engine, source, queues, stop, pump }, fake, polling)
    }

    /// Waits until there is nothing to read, and lets the reader look again.
    async fn look_again(&self) {
        self.rig.idle(1).await;
        self.rig.clock.sleeping(1).await;
        self.rig.clock.advance(Duration::from_millis(100));
    }

    fn failures(&self) -> Vec<Value> {
        let contents = self.queues.contents("Failures").expect("a queue");
        let bodies = contents.messages.iter().map(|message| serde_json::from_str(&message.body));
        bodies.collect::<Result<_, _>>().expect("JSON")
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        self.pump.await.expect("no panic");
        self.rig.runtime.shutdown().await;
        drop(self.source);
        self.engine.stop().await;
    }
}

fn put(store: &Store, key: &str, phase: &str) {
    let item = json!({ "pk": { "S": key }, "phase": { "S": phase } });
    let request = json!({ "TableName": "Table", "Item": item });
    store.put_item(serde_json::from_value(request).expect("a request")).expect("a put");
}

fn delete(store: &Store, key: &str) {
    let request = json!({ "TableName": "Table", "Key": { "pk": { "S": key } } });
    store.delete_item(serde_json::from_value(request).expect("a request")).expect("a delete");
}

fn records(event: &Event) -> Vec<Value> {
    let mut event: Value = serde_json::from_slice(&event.payload).expect("JSON");
    serde_json::from_value(event["Records"].take()).expect("records")
}

fn keys(event: &Event) -> Vec<String> {
    let records = records(event);
    let keys = records.iter().map(|record| record["dynamodb"]["Keys"]["pk"]["S"].as_str());
    keys.map(|key| key.expect("a key").to_owned()).collect()
}

/// An answer that names the records of `event` with that key as failed.
fn failures_of(event: &Event, key: &str) -> String {
    let failures: Vec<Value> = records(event)
        .iter()
        .map(|record| &record["dynamodb"])
        .filter(|change| change["Keys"]["pk"]["S"] == key)
        .map(|change| json!({ "itemIdentifier": change["SequenceNumber"] }))
        .collect();
    json!({ "batchItemFailures": failures }).to_string()
}

#[tokio::test]
async fn a_change_reaches_the_function_once_and_in_lambdas_shape() {
    let (world, fake, polling) = World::start(mapping(), &[]).await;
    world.look_again().await;
    put(&world.engine.store(), "a", "stable");
    put(&world.engine.store(), "a", "forward");
    world.rig.clock.sleeping(1).await;
    world.rig.clock.advance(Duration::from_millis(100));
    let event = polling.await.expect("an event");
    let [record] = &records(&event)[..] else { panic!("one record") };
    let change = &record["dynamodb"];
    let arn = record["eventSourceARN"].as_str().expect("an ARN");
    let arn_prefix = "arn:aws:dynamodb:us-east-1:123456789012:table/Table/stream/";
    assert!(arn.starts_with(arn_prefix) && arn.len() > arn_prefix.len(), "{arn}");
    assert_eq!(
        *record,
        json!({
            "eventID": record["eventID"],
            "eventName": "MODIFY",
            "eventVersion": "1.1",
            "eventSource": "aws:dynamodb",
            "awsRegion": "us-east-1",
            "dynamodb": {
                "ApproximateCreationDateTime": change["ApproximateCreationDateTime"],
                "Keys": { "pk": { "S": "a" } },
                "NewImage": { "pk": { "S": "a" }, "phase": { "S": "forward" } },
                "OldImage": { "pk": { "S": "a" }, "phase": { "S": "stable" } },
                "SequenceNumber": change["SequenceNumber"],
                "SizeBytes": change["SizeBytes"],
                "StreamViewType": "NEW_AND_OLD_IMAGES",
            },
            "eventSourceARN": arn,
        })
    );
    assert!(record["eventID"].is_string() && change["SequenceNumber"].is_string());
    assert!(change["ApproximateCreationDateTime"].is_u64() && change["SizeBytes"].is_u64());

    // The next event holds what came after it, and nothing that the filter keeps back.
    fake.respond(&event, r#"{"batchItemFailures":[]}"#).await;
    let polling = fake.poll();
    world.rig.idle(1).await;
    world.rig.clock.sleeping(1).await;
    put(&world.engine.store(), "a", "stable");
    delete(&world.engine.store(), "a");
    put(&world.engine.store(), "b", "move");
    world.rig.clock.advance(Duration::from_millis(100));
    let event = polling.await.expect("an event");
    assert_eq!(keys(&event), ["b"]);
    fake.respond(&event, "").await;
    assert!(world.failures().is_empty());
    world.stop().await;
}

#[tokio::test]
async fn a_poison_record_ends_in_the_queue_and_blocks_no_other() {
    let items = ["a", "b", "poison", "c"].map(|key| (key, "forward"));
    let (world, fake, mut polling) = World::start(mapping(), &items).await;
    let mut seen = Vec::new();
    for attempt in 1..=4 {
        let event = polling.await.expect("an event");
        seen.push(keys(&event).join(" "));
        fake.respond(&event, failures_of(&event, "poison")).await;
        polling = fake.poll();
        if attempt == 3 {
            // It has failed alone for the first time: the reader pauses, and so does the retry.
            world.rig.idle(1).await;
            world.rig.clock.sleeping(2).await;
            world.rig.clock.advance(Duration::from_secs(1));
        }
    }
    let event = polling.await.expect("an event");
    seen.push(keys(&event).join(" "));
    assert_eq!(seen, ["a b poison c", "poison c", "poison", "poison", "c"]);
    let [failure] = &world.failures()[..] else { panic!("one failure") };
    assert_eq!(failure["requestContext"]["condition"], "RetryAttemptsExhausted");
    assert_eq!(failure["requestContext"]["approximateInvokeCount"], 2);
    assert_eq!(failure["DDBStreamBatchInfo"]["batchSize"], 1);

    // The document leads to the record, as an operator would follow it.
    let place = &failure["DDBStreamBatchInfo"];
    let text = |name: &str| place[name].as_str().expect(name).to_owned();
    let number = text("startSequenceNumber");
    assert_eq!(number, text("endSequenceNumber"));
    let request = json!({
        "StreamArn": text("streamArn"),
        "ShardId": text("shardId"),
        "ShardIteratorType": "AT_SEQUENCE_NUMBER",
        "SequenceNumber": number,
    });
    let request = serde_json::from_value(request).expect("a request");
    let found = world.engine.store().get_shard_iterator(request).expect("an iterator");
    let iterator = found.shard_iterator.expect("an iterator");
    let (records, _) = world.source.records(&iterator).await.expect("records");
    assert_eq!(records[0]["dynamodb"]["Keys"]["pk"]["S"], "poison");

    fake.respond(&event, "").await;
    world.stop().await;
}

#[tokio::test]
async fn the_starting_position_latest_passes_over_what_was_there() {
    let latest = StreamMapping { start: StartingPosition::Latest, ..mapping() };
    let (world, fake, polling) = World::start(latest, &[("before", "forward")]).await;
    world.rig.clock.sleeping(1).await;
    put(&world.engine.store(), "after", "forward");
    world.rig.clock.advance(Duration::from_millis(100));
    let event = polling.await.expect("an event");
    assert_eq!(keys(&event), ["after"]);
    fake.respond(&event, "").await;
    world.stop().await;
}

/// A lane by itself, for what the engine's records cannot show.
struct LaneWorld {
    rig: Rig,
    queues: Arc<Queues>,
    pages: lane::Pages,
    lane: JoinHandle<()>,
}

impl LaneWorld {
    async fn start(mapping: StreamMapping) -> (Self, Fake, Polling) {
        let (rig, fake, polling) = Rig::start(1).await;
        let clock: SharedClock = rig.clock.clone();
        let queues = Arc::new(Queues::new(&["Failures".to_owned()], &clock));
        let (pages, received) = mpsc::channel(PAGES_AHEAD);
        let pump = Pump {
            mapping,
            store: Store::in_memory().expect("memory"),
            pool: Arc::clone(rig.runtime.pool("Function").expect("the function")),
            queues: Arc::clone(&queues),
            access: Arc::default(),
            clock,
        };
        let lane = Lane {
            pump: Arc::new(pump),
            stream_arn: "arn:stream".to_owned(),
            shard: "shardId-1".to_owned(),
            pages: received,
        };
        let lane = tokio::spawn(lane.run());
        (Self { rig, queues, pages, lane }, fake, polling)
    }

    /// Sends a page of fresh records with these keys.
    async fn send(&self, keys: &[&str]) {
        let now = self.rig.clock.epoch_secs();
        let records = keys.iter().zip(1..).map(|(key, number)| record(key, number, now));
        self.pages.send(records.collect()).await.expect("a lane");
    }

    async fn stop(self) {
        drop(self.pages);
        self.lane.await.expect("no panic");
        self.rig.runtime.shutdown().await;
    }
}

impl ManualClock {
    fn epoch_secs(&self) -> u64 {
        crate::clock::epoch_millis(crate::clock::Clock::now(self)) / 1000
    }
}

#[tokio::test]
async fn a_batch_is_full_or_its_window_is_over() {
    let window = Duration::from_secs(5);
    let windowed = StreamMapping { batch_size: 3, window, ..mapping() };
    let (world, fake, polling) = LaneWorld::start(windowed).await;
    world.send(&["a"]).await;
    world.rig.clock.sleeping(1).await;
    world.rig.clock.advance(Duration::from_secs(4));
    world.send(&["b"]).await;
    world.rig.clock.advance(Duration::from_secs(1));
    let event = polling.await.expect("an event");
    assert_eq!(keys(&event), ["a", "b"]);
    fake.respond(&event, "").await;

    // A full one does not wait, and what is left over begins the next.
    let polling = fake.poll();
    world.send(&["c", "d", "e", "f"]).await;
    let event = polling.await.expect("an event");
    assert_eq!(keys(&event), ["c", "d", "e"]);
    fake.respond(&event, "").await;
    let polling = fake.poll();
    world.rig.idle(1).await;
    world.rig.clock.sleeping(1).await;
    assert!(!polling.is_finished());
    world.rig.clock.advance(window);
    let event = polling.await.expect("an event");
    assert_eq!(keys(&event), ["f"]);
    fake.respond(&event, "").await;
    world.stop().await;
}

#[tokio::test]
async fn a_batch_is_at_most_as_large_as_an_event_of_lambda() {
    let (world, fake, polling) = LaneWorld::start(mapping()).await;
    let long = |end: &str| "x".repeat(4 << 20) + end;
    world.send(&[&long("1"), &long("2")]).await;
    let event = polling.await.expect("an event");
    assert_eq!(records(&event).len(), 1);
    fake.respond(&event, "").await;
    let event = fake.poll().await.expect("an event");
    assert!(keys(&event)[0].ends_with('2'));
    fake.respond(&event, "").await;
    world.stop().await;
}

#[tokio::test]
async fn a_record_that_grows_too_old_between_attempts_is_given_up_and_told_of() {
    let max_age = Duration::from_secs(2);
    let retry = RetryPolicy { max_retries: None, max_age, bisect: false };
    let (world, fake, polling) = LaneWorld::start(StreamMapping { retry, ..mapping() }).await;
    world.send(&["a"]).await;
    let event = polling.await.expect("an event");
    fake.fail(&event, "{}").await;
    let polling = fake.poll();
    world.rig.idle(1).await;
    world.rig.clock.sleeping(1).await;
    world.rig.clock.advance(Duration::from_secs(3));
    world.send(&["b"]).await;
    let next = polling.await.expect("an event");
    assert_eq!(keys(&next), ["b"]);
    let contents = world.queues.contents("Failures").expect("a queue");
    let failure: Value = serde_json::from_str(&contents.messages[0].body).expect("JSON");
    assert_eq!(failure["requestContext"]["condition"], "RecordAgeExceeded");
    assert_eq!(failure["requestContext"]["requestId"], event.request_id);
    assert_eq!(failure["responseContext"]["functionError"], "Unhandled");
    assert_eq!(failure["DDBStreamBatchInfo"]["shardId"], "shardId-1");
    fake.respond(&next, "").await;
    world.stop().await;
}

#[tokio::test]
async fn a_function_that_is_busy_is_waited_for_without_an_attempt_lost() {
    let retry = RetryPolicy { max_retries: Some(0), ..mapping().retry };
    let (world, fake, polling) = LaneWorld::start(StreamMapping { retry, ..mapping() }).await;
    let busy = world.rig.invoke("{}");
    let _event = polling.await.expect("an event");
    world.send(&["a"]).await;
    // The invocation of the lane waits for the environment: at first for its return ...
    world.rig.clock.sleeping(2).await;
    world.rig.clock.advance(Duration::from_millis(20));
    // ... and then for as long as the function may take, after which a new one takes over.
    world.rig.clock.sleeping(2).await;
    world.rig.clock.advance(Duration::from_secs(3));
    assert!(busy.await.expect("no panic").expect("completed").failed, "it timed out");
    let mut rig = world.rig;
    let fresh = rig.launched().await;
    let event = fresh.poll().await.expect("an event");
    assert_eq!(keys(&event), ["a"]);
    fresh.respond(&event, "").await;
    let contents = world.queues.contents("Failures").expect("a queue");
    assert!(contents.messages.is_empty());
    drop((world.pages, fake));
    world.lane.await.expect("no panic");
    rig.runtime.shutdown().await;
}
