//! Clients of DynamoDB's own protocol write, change, remove and read items through four endpoints while a hot key goes from one
//! shard to 4, 16 and back. The endpoints and the rebalancer are killed all the while. Whatever the clients saw of an item must
//! have happened one call at a time.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use common::{LocalStack, on, operator_command, without_account};
use dynashard_aws::OsEntropy;
use dynashard_core::ports::Entropy;
use dynashard_simulation::linearizability::{Call, Content, Expect, Step, Verdict, check, lines};
use futures_util::future::join_all;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustix::process::{Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// How many operations the clients carry out at least. `DYNASHARD_KILL_OPERATIONS` sets another number.
const OPERATIONS: usize = 3_000;

const TABLE: &str = "MainTable";

/// The key that is resharded, one that stays cold, and one that ends as the physical key of a second shard does.
const KEYS: [&str; 3] = ["hot", "cold", "odd#~1"];

/// Of each key.
const ITEMS: usize = 67;

/// The first so many items of each key are asked for as often as all others together.
const CONTENDED: usize = 4;

const ENDPOINTS: usize = 4;

const CLIENTS: usize = 8;

/// An endpoint is killed after at least, and fewer than twice, so many operations of all clients.
const OPERATIONS_OF_A_LIFE: usize = 150;

/// How often a client sends an operation, as SDKs repeat what was throttled, refused or lost.
const MOST_ATTEMPTS: usize = 10;

/// The requests of an endpoint that was killed are executed by then or never: H, and what clocks of whole seconds hide.
const LATE: Duration = Duration::from_secs(5);

/// Whoever waits for longer waits in vain: now and then a client is not told that a killed endpoint has closed its connection.
const NO_ANSWER: Duration = Duration::from_secs(30);

/// The rebalancer is killed at one look in so many at which it is at work, and so often for each reshard.
const KILL_ONE_IN: usize = 4;
const MOST_KILLS: usize = 5;

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The counts that the hot key is taken to: the first two in any case, and on as long as there are operations.
const COUNTS: [u32; 4] = [4, 16, 4, 1];

#[test]
fn endpoints_and_rebalancers_are_killed_and_no_write_is_lost_doubled_or_revived() {
    let run = Run::start();
    let runtime = Runtime::new().expect("a runtime");
    thread::scope(|scope| {
        let _over = Over(&run);
        for at in 0..ENDPOINTS {
            let run = &run;
            scope.spawn(move || run.live_and_die(at));
        }
        scope.spawn(|| run.reshard());
        scope.spawn(|| run.kill_rebalancers());
        runtime.block_on(join_all((0..CLIENTS).map(|client| run.client(client))));
        runtime.block_on(run.read_everything());
    });
    let anomalies = run.anomalies();
    eprintln!(
        "{} operations, {} endpoints and {} environments of the rebalancer killed, {} reshards, {} attempts of unknown outcome, {} anomalies, {:.0} seconds; answers: {:#?}",
        run.done.load(Ordering::Relaxed),
        run.endpoint_kills.load(Ordering::Relaxed),
        run.rebalancer_kills.load(Ordering::Relaxed),
        run.reshards.load(Ordering::Relaxed),
        run.unknown.load(Ordering::Relaxed),
        anomalies.len(),
        now().saturating_sub(run.began).as_secs_f64(),
        run.answers.lock().expect("no panic"),
    );
    assert!(anomalies.is_empty(), "{}", anomalies.join("\n"));
    run.verify();
}

/// What the clients, and those who kill, share.
struct Run {
    stack: LocalStack,
    http: Client<HttpConnector, Full<Bytes>>,
    /// Where endpoints listen that live.
    endpoints: [Mutex<Option<String>>; ENDPOINTS],
    items: Vec<Item>,
    seed: u64,
    began: Duration,
    most: usize,
    numbers: AtomicU64,
    done: AtomicUsize,
    unknown: AtomicUsize,
    reshards: AtomicUsize,
    endpoint_kills: AtomicUsize,
    rebalancer_kills: AtomicUsize,
    /// How often clients were answered so.
    answers: Mutex<BTreeMap<String, usize>>,
    /// Set once nobody asks any more, or where somebody has given up.
    is_over: AtomicBool,
}

/// An item, and what clients did to it and saw of it.
struct Item {
    pk: &'static str,
    sk: String,
    calls: Mutex<Vec<Call>>,
    /// The number of the write that somebody saw last.
    last: AtomicU64,
}

/// A request, and what it does to which items.
struct Asked {
    operation: &'static str,
    body: Value,
    parts: Vec<Part>,
    /// It is carried out once, however often it is sent.
    has_token: bool,
}

/// What a request does to an item if this holds.
struct Part {
    item: usize,
    expect: Expect,
    step: Step,
}

/// What became of an attempt.
enum Fate {
    Done(Value),
    /// A condition did not hold.
    Refused(Value),
    /// It was certainly not carried out.
    Nothing,
    Unknown,
    /// Another request was carried out under its token.
    Taken,
}

/// Ends the others when it goes, also where their test has failed.
struct Over<'a>(&'a Run);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Run {
    fn start() -> Self {
        let most = std::env::var("DYNASHARD_KILL_OPERATIONS").ok();
        let seed = std::env::var("DYNASHARD_KILL_SEED").ok();
        let seed =
            seed.map_or_else(|| OsEntropy.next_u64(), |seed| seed.parse().expect("a number"));
        eprintln!("DYNASHARD_KILL_SEED={seed}");
        let set = ["LeaseSecs=1", "RequestLifetimeSecs=3", "ScalingMode=off", "MoverWriteUnits=40"];
        let set = set.iter().flat_map(|setting| ["--set", setting]);
        let args = set.chain(["--partition-wcu", "100000", "--partition-rcu", "100000"]);
        let stack = LocalStack::start(&args.collect::<Vec<_>>());
        stack.until_swept();
        let items = KEYS.iter().flat_map(|pk| {
            (0..ITEMS).map(|n| Item {
                pk,
                sk: format!("{n:03}"),
                calls: Mutex::default(),
                last: AtomicU64::new(1),
            })
        });
        Self {
            stack,
            http: Client::builder(TokioExecutor::new()).build_http(),
            endpoints: Default::default(),
            items: items.collect(),
            seed,
            began: now(),
            most: most.map_or(OPERATIONS, |most| most.parse().expect("a number")),
            numbers: AtomicU64::new(2),
            done: AtomicUsize::new(0),
            unknown: AtomicUsize::new(0),
            reshards: AtomicUsize::new(0),
            endpoint_kills: AtomicUsize::new(0),
            rebalancer_kills: AtomicUsize::new(0),
            answers: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    fn chance(&self, of: usize) -> Chance {
        Chance(self.seed ^ u64::try_from(of + 1).expect("small").wrapping_mul(0x9e37_79b9))
    }

    /// Whether the clients have done their number, and the hot key was resharded twice meanwhile.
    fn is_enough(&self) -> bool {
        let is_resharded = self.reshards.load(Ordering::Relaxed) >= 2;
        is_resharded && self.done.load(Ordering::Relaxed) >= self.most
            || self.is_over.load(Ordering::Relaxed)
    }

    fn until(&self, is_so: impl Fn() -> bool) {
        while !is_so() && !self.is_over.load(Ordering::Relaxed) {
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Starts an endpoint, kills it, and so on. The last one lives until nobody asks any more.
    fn live_and_die(&self, at: usize) {
        let _over = OverIfPanicking(self);
        let mut chance = self.chance(CLIENTS + at);
        while !self.is_over.load(Ordering::Relaxed) {
            let endpoint = Endpoint::start(&self.stack);
            *self.endpoints[at].lock().expect("no panic") = Some(endpoint.url.clone());
            let life = OPERATIONS_OF_A_LIFE + chance.below(OPERATIONS_OF_A_LIFE);
            let until = self.done.load(Ordering::Relaxed) + life;
            self.until(|| self.done.load(Ordering::Relaxed) >= until && !self.is_enough());
            if !self.is_enough() {
                self.endpoint_kills.fetch_add(1, Ordering::Relaxed);
            }
            drop(endpoint);
            *self.endpoints[at].lock().expect("no panic") = None;
        }
    }

    /// Takes the hot key to one count after the other, with the command, which waits until nothing is left of a change.
    fn reshard(&self) {
        let _over = OverIfPanicking(self);
        // The command changes no key under which nothing lies.
        self.until(|| self.done.load(Ordering::Relaxed) > KEYS.len() * ITEMS);
        for count in COUNTS.into_iter().cycle() {
            if self.is_enough() {
                return;
            }
            let scaled =
                on(&self.stack, &["scale", "--pk", KEYS[0], "--shards", &count.to_string()]);
            assert_eq!(scaled.status, 0, "{scaled:?}");
            self.reshards.fetch_add(1, Ordering::Relaxed);
            eprintln!("{count} shards after {} operations", self.done.load(Ordering::Relaxed));
        }
    }

    /// Kills the environments of the rebalancer while one is at work, and has the sweep come, which comes once a minute else.
    fn kill_rebalancers(&self) {
        let _over = OverIfPanicking(self);
        let sweep = common::checkout().join("events/rebalance-sweep.json");
        let sweep = std::fs::read_to_string(sweep).expect("an event");
        let mut chance = self.chance(CLIENTS + ENDPOINTS);
        let (mut reshard, mut kills) = (0, 0);
        while !self.is_enough() {
            thread::sleep(LOOK_EVERY);
            let reshards = self.reshards.load(Ordering::Relaxed);
            if reshards > reshard {
                (reshard, kills) = (reshards, 0);
            }
            let is_due = kills < MOST_KILLS && self.stack.is_at_work("RebalanceFunction");
            if is_due && chance.below(KILL_ONE_IN) == 0 {
                for pid in self.stack.environments("RebalanceFunction") {
                    let _ = kill_process(pid, Signal::KILL);
                    self.rebalancer_kills.fetch_add(1, Ordering::Relaxed);
                }
                kills += 1;
                let event = [("x-amz-invocation-type", "Event")];
                let swept = self.stack.invoke_with("RebalanceFunction", &event, &sweep);
                assert_eq!(swept.status, 202, "{swept:?}");
            }
        }
    }

    async fn client(&self, client: usize) {
        let mut chance = self.chance(client);
        while !self.is_enough() {
            match chance.below(50) {
                0 => self.query(&mut chance).await,
                1..=12 => self.get(chance.item(&[0, 1, 2]), &mut chance).await,
                13..=18 => self.write(&self.transaction(&mut chance), &mut chance).await,
                _ => self.write(&self.single(&mut chance), &mut chance).await,
            }
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn single(&self, chance: &mut Chance) -> Asked {
        let (form, mut body, part) = self.action(chance.item(&[0, 0, 1, 2]), chance);
        if chance.below(2) == 0 {
            body["ReturnValues"] = json!("ALL_OLD");
        }
        let operation = match form {
            "Put" => "PutItem",
            "Update" => "UpdateItem",
            _ => "DeleteItem",
        };
        Asked { operation, body, parts: vec![part], has_token: false }
    }

    /// On an item of the hot key, and one of another.
    fn transaction(&self, chance: &mut Chance) -> Asked {
        let (mut actions, mut parts) = (Vec::new(), Vec::new());
        for item in [chance.item(&[0]), chance.item(&[1, 2])] {
            let (form, body, part) = self.action(item, chance);
            actions.push(json!({ form: body }));
            parts.push(part);
        }
        let token = format!("t{}-{}", self.seed, self.number());
        let body = json!({ "TransactItems": actions, "ClientRequestToken": token });
        Asked { operation: "TransactWriteItems", body, parts, has_token: true }
    }

    /// The form of a change of this item in a transaction, what it asks for, and what it does.
    fn action(&self, at: usize, chance: &mut Chance) -> (&'static str, Value, Part) {
        let (item, number) = (&self.items[at], self.number());
        let last = item.last.load(Ordering::Relaxed);
        let n = |number: u64| json!({ "N": number.to_string() });
        let (pk, sk) = (json!({ "S": item.pk }), json!({ "S": item.sk }));
        let key = json!({ "pk": pk, "sk": sk });
        let whole = json!({ "pk": pk, "sk": sk, "w": n(number), "a": n(number) });
        let content = Content { writer: number, fields: [Some(number), None] };
        let (form, mut body, expect, step) = match chance.below(20) {
            kind @ 0..=8 => {
                let expect = if kind < 5 { Expect::Anything } else { Expect::Absent };
                ("Put", json!({ "Item": whole }), expect, Step::Put(expect, content))
            }
            9..=12 => {
                let body = json!({
                    "Key": key,
                    "UpdateExpression": "SET w = :new, b = :new",
                    "ExpressionAttributeValues": { ":new": n(number) },
                });
                let expect = Expect::LeftBy(last);
                ("Update", body, expect, Step::Patch(expect, number, 1, Some(number)))
            }
            13..=16 => {
                let body = json!({
                    "Key": key,
                    "UpdateExpression": "ADD b :new",
                    "ExpressionAttributeValues": { ":new": n(number) },
                });
                ("Update", body, Expect::Anything, Step::Add(Expect::Anything, 1, number))
            }
            kind => {
                let expect = if kind == 17 { Expect::Anything } else { Expect::LeftBy(last) };
                ("Delete", json!({ "Key": key }), expect, Step::Delete(expect))
            }
        };
        body["TableName"] = json!(TABLE);
        match expect {
            Expect::Absent => body["ConditionExpression"] = json!("attribute_not_exists(pk)"),
            Expect::LeftBy(last) => {
                body["ConditionExpression"] = json!("w = :old");
                body["ExpressionAttributeValues"][":old"] = n(last);
            }
            _ => {}
        }
        if expect != Expect::Anything {
            body["ReturnValuesOnConditionCheckFailure"] = json!("ALL_OLD");
        }
        (form, body, Part { item: at, expect, step })
    }

    /// Sends a write until it is answered, and writes down what became of it.
    async fn write(&self, asked: &Asked, chance: &mut Chance) {
        // From the first attempt of unknown fate to the last moment at which one can have happened.
        let mut perhaps: Option<(Duration, Duration)> = None;
        for _ in 0..MOST_ATTEMPTS {
            let begun = now();
            let fate = self.send(asked.operation, &asked.body, chance).await;
            let ended = now();
            match fate {
                Fate::Nothing => continue,
                Fate::Unknown => {
                    self.unknown.fetch_add(1, Ordering::Relaxed);
                    let first = perhaps.map_or(begun, |(first, _)| first);
                    perhaps = Some((first, ended + LATE));
                    if !asked.has_token {
                        self.note_perhaps(asked, perhaps.take());
                    }
                    continue;
                }
                Fate::Done(answer) => {
                    let begun = perhaps.take().map_or(begun, |(first, _)| first);
                    for part in &asked.parts {
                        let is_told = asked.body.get("ReturnValues").is_some();
                        // The engine shows the key alone of an item that an update has made of nothing.
                        let before = answer.get("Attributes").map(content);
                        let before = before.filter(|before| *before != NOTHING);
                        let step = if is_told { part.step.of(before) } else { part.step };
                        self.note(part.item, begun, ended, step);
                    }
                }
                Fate::Refused(answer) => {
                    let reasons = answer.get("CancellationReasons").and_then(Value::as_array);
                    let reasons = reasons.map_or_else(|| vec![&answer], |all| all.iter().collect());
                    let mut is_refused = false;
                    for (part, reason) in asked.parts.iter().zip(reasons) {
                        let code = reason.get("Code").and_then(Value::as_str);
                        if code.is_none_or(|code| code == "ConditionalCheckFailed") {
                            is_refused = true;
                            self.note(part.item, begun, ended, Step::Refused(part.expect));
                            let found = Step::Saw(reason.get("Item").map(content));
                            self.note(part.item, begun, ended, found);
                        }
                    }
                    // Of a transaction, all reasons may pass.
                    if !is_refused {
                        continue;
                    }
                }
                Fate::Taken => {
                    assert!(perhaps.is_some(), "the token was never sent before: {}", asked.body);
                }
            }
            break;
        }
        self.note_perhaps(asked, perhaps);
    }

    fn note_perhaps(&self, asked: &Asked, perhaps: Option<(Duration, Duration)>) {
        let Some((begun, ended)) = perhaps else { return };
        for part in &asked.parts {
            let call = Call { begun, ended, is_certain: false, step: part.step };
            self.items[part.item].calls.lock().expect("no panic").push(call);
        }
    }

    fn note(&self, at: usize, begun: Duration, ended: Duration, step: Step) {
        let item = &self.items[at];
        match step {
            Step::Put(_, content) | Step::Saw(Some(content)) if content.writer > 0 => {
                item.last.store(content.writer, Ordering::Relaxed);
            }
            Step::Patch(_, writer, ..) => item.last.store(writer, Ordering::Relaxed),
            _ => {}
        }
        let call = Call { begun, ended, is_certain: true, step };
        item.calls.lock().expect("no panic").push(call);
    }

    /// Reads an item strongly, until that is answered.
    async fn get(&self, at: usize, chance: &mut Chance) {
        let Item { pk, sk, .. } = &self.items[at];
        let key = json!({ "pk": { "S": pk }, "sk": { "S": sk } });
        let body = json!({ "TableName": TABLE, "Key": key, "ConsistentRead": true });
        let (answer, begun, ended) = self.read("GetItem", &body, chance).await;
        self.note(at, begun, ended, Step::Saw(answer.get("Item").map(content)));
    }

    /// Reads a key strongly, page by page. That is a read of each of its items by itself.
    async fn query(&self, chance: &mut Chance) {
        let pk = KEYS[chance.below(KEYS.len())];
        let mut body = json!({
            "TableName": TABLE,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": { ":pk": { "S": pk } },
            "ConsistentRead": true,
            "ScanIndexForward": chance.below(2) == 0,
            "Limit": 10 + chance.below(2 * ITEMS),
        });
        let (mut found, mut order) = (BTreeMap::new(), Vec::new());
        let first = now();
        let last = loop {
            let (mut answer, begun, ended) = self.read("Query", &body, chance).await;
            for item in answer["Items"].as_array().expect("items") {
                let sk = item["sk"]["S"].as_str().expect("a sort key").to_owned();
                order.push(sk.clone());
                found.insert(sk, (begun, ended, Step::Saw(Some(content(item)))));
            }
            body["ExclusiveStartKey"] = answer["LastEvaluatedKey"].take();
            if body["ExclusiveStartKey"].is_null() {
                break ended;
            }
        };
        if body["ScanIndexForward"] == false {
            order.reverse();
        }
        assert!(order.is_sorted_by(|one, next| one < next), "{body}: {order:?}");
        for (at, item) in self.items.iter().enumerate().filter(|(_, item)| item.pk == pk) {
            let (begun, ended, saw) =
                found.remove(&item.sk).unwrap_or((first, last, Step::Saw(None)));
            self.note(at, begun, ended, saw);
        }
        assert!(found.is_empty(), "nobody wrote {:?}", found.keys());
    }

    async fn read_everything(&self) {
        let mut chance = self.chance(CLIENTS + ENDPOINTS + 1);
        for at in 0..self.items.len() {
            self.get(at, &mut chance).await;
        }
    }

    /// The answer to a read, and when it began and ended.
    async fn read(
        &self,
        operation: &str,
        body: &Value,
        chance: &mut Chance,
    ) -> (Value, Duration, Duration) {
        loop {
            let begun = now();
            if let Fate::Done(answer) = self.send(operation, body, chance).await {
                return (answer, begun, now());
            }
        }
    }

    /// Sends a request to an endpoint that lives, as far as is known.
    async fn send(&self, operation: &str, body: &Value, chance: &mut Chance) -> Fate {
        let living = self.endpoints.iter();
        let living = living.filter_map(|url| url.lock().expect("no panic").clone());
        let living = living.collect::<Vec<_>>();
        if living.is_empty() {
            assert!(!self.is_over.load(Ordering::Relaxed), "no endpoint is left");
            tokio::time::sleep(LOOK_EVERY).await;
            return Fate::Nothing;
        }
        let request = Request::post(&living[chance.below(living.len())])
            .header("content-type", "application/x-amz-json-1.0")
            .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
            .body(Full::from(body.to_string()));
        let answer = async {
            let (head, body) = self.http.request(request.expect("a request")).await?.into_parts();
            Ok::<_, hyper_util::client::legacy::Error>((head.status.as_u16(), body.collect().await))
        };
        // An endpoint answers within ten seconds, and one that was killed never does.
        let Ok(answer) = tokio::time::timeout(NO_ANSWER, answer).await else {
            return self.counted("no answer in time", Fate::Unknown);
        };
        let (status, answer) = match answer {
            Ok((status, Ok(body))) => {
                let answer = serde_json::from_slice::<Value>(&body.to_bytes());
                (status, answer.expect("JSON"))
            }
            Ok((_, Err(_))) => return self.counted("no whole answer", Fate::Unknown),
            Err(error) => {
                return if error.is_connect() {
                    self.counted("no connection", Fate::Nothing)
                } else {
                    self.counted("no answer", Fate::Unknown)
                };
            }
        };
        let kind = answer["__type"].as_str().unwrap_or_default();
        let kind = kind.rsplit('#').next().unwrap_or_default().to_owned();
        // What DynamoDB itself does not say has no names in it.
        let why = answer["message"].as_str().filter(|_| status >= 500).unwrap_or_default();
        let why = format!(" {}", why.chars().take(160).collect::<String>());
        let fate = match (status, kind.as_str()) {
            (200, _) => Fate::Done(answer),
            (500, _) => Fate::Unknown,
            (_, "ConditionalCheckFailedException" | "TransactionCanceledException") => {
                Fate::Refused(answer)
            }
            (503, _)
            | (
                _,
                "TransactionConflictException"
                | "TransactionInProgressException"
                | "ProvisionedThroughputExceededException",
            ) => Fate::Nothing,
            (_, "IdempotentParameterMismatchException") => Fate::Taken,
            _ => panic!("{operation} {body}: {status} {answer}"),
        };
        self.counted(&format!("{operation} {status} {kind}{why}"), fate)
    }

    fn counted(&self, what: &str, fate: Fate) -> Fate {
        *self.answers.lock().expect("no panic").entry(what.to_owned()).or_default() += 1;
        fate
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// The items whose calls cannot have happened one at a time.
    fn anomalies(&self) -> Vec<String> {
        let judged = self.items.iter().filter_map(|item| {
            let calls = item.calls.lock().expect("no panic");
            let verdict = check(&calls);
            let what = || format!("{} {}: {verdict:?}:{}", item.pk, item.sk, lines(&calls));
            (verdict != Verdict::Linearizable).then(what)
        });
        judged.collect()
    }

    /// Has `dynashard verify` look all shards over.
    fn verify(&self) {
        let waits = ["--lease-secs", "1", "--request-lifetime-secs", "3"];
        let verify = ["verify", "--all", "--json"];
        let mut command = operator_command(&self.stack, &[verify.as_slice(), &waits].concat());
        let output = command.output().expect("the command runs");
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        eprintln!("{stdout}");
        assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    }
}

/// Ends all others if its thread panics.
struct OverIfPanicking<'a>(&'a Run);

impl Drop for OverIfPanicking<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.is_over.store(true, Ordering::Relaxed);
        }
    }
}

/// A `dynashard serve` of its own. Dropping it kills it.
struct Endpoint {
    child: Child,
    url: String,
}

impl Endpoint {
    fn start(stack: &LocalStack) -> Self {
        let tables = format!("{TABLE}:MetadataTable");
        let serve = ["serve", "--port", "0", "--growth", "report", "--tables", &tables];
        let mut child = without_account(&[&serve[..], &["--upstream", &stack.dynamodb]].concat())
            .env("AWS_ACCESS_KEY_ID", "local")
            .env("AWS_SECRET_ACCESS_KEY", "local")
            .env("AWS_REGION", "us-east-1")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("stdout");
        let ready = serde_json::from_str::<Value>(&line).expect("a ready line");
        let url = ready["endpoint"].as_str().expect("where it listens").to_owned();
        Self { child, url }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What an item holds, in which nothing else may be.
fn content(item: &Value) -> Content {
    let members = item.as_object().expect("an item");
    let known = BTreeSet::from(["pk", "sk", "w", "a", "b"]);
    assert!(members.keys().all(|name| known.contains(name.as_str())), "{item}");
    let number = |name: &str| Some(members.get(name)?["N"].as_str()?.parse().expect("a number"));
    Content { writer: number("w").unwrap_or(0), fields: ["a", "b"].map(number) }
}

/// What is left of an item without attributes, of which clients write none.
const NOTHING: Content = Content { writer: 0, fields: [None; 2] };

/// Since the machine was started.
fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    let secs = Duration::from_secs(u64::try_from(time.tv_sec).expect("after the start"));
    secs + Duration::from_nanos(u64::try_from(time.tv_nsec).expect("a part of a second"))
}

/// `SplitMix64`, so that each client draws the same in every run of a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bound = u64::try_from(bound).expect("small");
        usize::try_from((z ^ (z >> 31)) % bound).expect("small")
    }

    /// An item of one of these keys.
    fn item(&mut self, keys: &[usize]) -> usize {
        let key = keys[self.below(keys.len())];
        let among = if self.below(2) == 0 { CONTENDED } else { ITEMS };
        key * ITEMS + self.below(among)
    }
}
