//! What a hot key absorbs when it has grown, before its items have moved: by kind of write, beside readers,
//! and where Lambda has fewer environments than requests.
//!
//! `cargo bench -p dynashard-cli --bench relief` prints, from one run on one machine:
//!
//! 1. of each kind of write, how much of min(offered, shards x limit) is absorbed from 10 s after the
//!    decision on (`kinds`);
//! 2. what is throttled while clients read items that have not moved, beside creates (`readers`);
//! 3. how long clients wait under five times the load that a key takes, what that does to cold keys, and
//!    when the reshard comes into force (`overload`). It fails if the slowest hundredth of cold puts takes more than
//!    1.5 times what it takes at rest.
//!
//! Partitions take 100 write units a second where nothing else is said, and save nothing up. `-- kinds`, `-- readers` and
//! `-- overload` choose among the three.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod common;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::{
    Api, Failure, Sample, Tables, float, is_chosen, median, offered, percentile, stack_of,
    stack_options, statuses,
};
use dynashard_keys::PartitionKey;
use dynashard_local::{Stack, StackOptions};
use http::Method;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// What a partition writes in a second.
const LIMIT: u32 = 100;

/// Clients that send one write after the other, without a pause.
const CLIENTS: u32 = 12;

/// Items that were there before the growth, for those who change items.
const ITEMS: u32 = 240;

/// From the decision to what is measured.
const RELIEF: Duration = Duration::from_secs(10);

const MEASURED: Duration = Duration::from_secs(20);

/// The least share that is absorbed.
const LEAST_SHARE: f64 = 0.9;

/// Until a collection has to be in `move`.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a client does to an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Put,
    Create,
    IfMatch,
    Patch,
    /// Each of the others in turn.
    Mix,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Put, Self::Create, Self::IfMatch, Self::Patch, Self::Mix];

    fn nth(self, n: u32) -> Self {
        match self {
            Self::Mix => Self::ALL[usize::try_from(n % 4).unwrap_or(0)],
            kind => kind,
        }
    }
}

/// One load, and what came of it.
#[derive(Debug)]
struct Load {
    api: Api,
    over: AtomicBool,
    samples: Mutex<Vec<Sample>>,
}

impl Load {
    fn on(stack: &Stack) -> Arc<Self> {
        Arc::new(Self {
            api: Api::of(stack),
            over: AtomicBool::new(false),
            samples: Mutex::default(),
        })
    }

    fn samples(&self) -> MutexGuard<'_, Vec<Sample>> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn note(&self, began: Instant, status: u16) {
        let at = Instant::now();
        self.samples().push(Sample { at, took: at.duration_since(began), status });
    }

    /// A client that writes until the load is over. A connection that breaks counts as the status 0.
    async fn writes(self: Arc<Self>, kind: Kind, client: u32) {
        let mut tags = BTreeMap::new();
        for n in 0.. {
            if self.is_over() {
                break;
            }
            // Nobody else changes these.
            let old = format!("/item?pk=hot&sk=old{:05}", (n * CLIENTS + client) % ITEMS);
            let new = format!("/item?pk=hot&sk=new{client:02}-{n:08}");
            let tag = tags.get(&old).map_or("*", String::as_str).to_owned();
            let (method, path, header, body) = match kind.nth(n) {
                Kind::Put | Kind::Mix => (Method::PUT, &new, None, ITEM),
                Kind::Create => (Method::PUT, &new, Some(("if-none-match", "*")), ITEM),
                Kind::IfMatch => (Method::PUT, &old, Some(("if-match", tag.as_str())), ITEM),
                Kind::Patch => (Method::PATCH, &old, None, r#"{"b":"z"}"#),
            };
            let began = Instant::now();
            let answer = self.api.ask(method, path, header.as_slice(), body).await;
            self.note(began, answer.as_ref().map_or(0, |answer| answer.status));
            if kind.nth(n) == Kind::IfMatch
                && let Some(tag) = answer.ok().and_then(|answer| answer.etag)
            {
                tags.insert(old, tag);
            }
        }
    }
}

const ITEM: &str = r#"{"a":"x"}"#;

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let options = stack_options().await?;
    let mut holds = true;
    if is_chosen("kinds") {
        println!("| kind | shards | absorbed at rest | answered | absorbed in `move` | share |");
        println!("|---|---|---|---|---|---|");
        for kind in Kind::ALL {
            holds &= Box::pin(relief(&options, kind)).await?;
        }
    }
    if is_chosen("readers") {
        for is_strong in [false, true] {
            Box::pin(readers(&options, is_strong)).await?;
        }
    }
    if is_chosen("overload") {
        holds &= Box::pin(overload(&options)).await?;
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The share that a grown key absorbs of one kind of write.
async fn relief(options: &StackOptions, kind: Kind) -> Result<bool, Failure> {
    // How many shards is not the question here.
    let settings =
        [("RequestLifetimeSecs", "120"), ("MoverWriteUnits", "400"), ("ScalingMode", "off")];
    let mut options = stack_of(options, LIMIT, &settings);
    options.max_environments = usize::try_from(2 * CLIENTS)?;
    let stack = Stack::start(options).await?;
    let load = Load::on(&stack);
    for n in 0..ITEMS {
        // Half of the limit, so that nothing grows yet.
        sleep(Duration::from_secs(1) * 2 / LIMIT).await;
        let path = format!("/item?pk=hot&sk=old{n:05}");
        load.api.ask(Method::PUT, &path, &[], ITEM).await?;
    }
    let began = Instant::now();
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(Arc::clone(&load).writes(kind, client));
    }
    sleep(Duration::from_secs(3)).await;
    let four = serde_json::json!({ "number_of_shards": 4 });
    load.api.json(Method::POST, "/collection/scale?pk=hot", &four).await?;
    let decided = Instant::now();
    sleep(RELIEF + MEASURED).await;
    let collection = collection(&load.api, "hot").await?;
    load.over.store(true, Ordering::Relaxed);
    clients.join_all().await;
    stack.shutdown().await;
    let shards = collection["number_of_shards"].as_u64().ok_or("no count")?;
    let of = |from: Instant, to: Instant, is_counted: fn(u16) -> bool| {
        let samples = load.samples();
        let counted = samples.iter().filter(|s| (from..to).contains(&s.at) && is_counted(s.status));
        float(u64::try_from(counted.count()).unwrap_or(u64::MAX))
            / to.duration_since(from).as_secs_f64()
    };
    let (from, to) = (decided + RELIEF, decided + RELIEF + MEASURED);
    let at_rest = of(began, decided, |status| status == 200);
    let (absorbed, offered) = (of(from, to, |status| status == 200), of(from, to, |_| true));
    // Clients that wait for answers offer more than what is answered.
    let (refused, broken) = (of(from, to, |s| s == 429), of(from, to, |s| s == 0));
    let most = f64::from(LIMIT) * float(shards);
    let share = absorbed / most;
    println!(
        "| {kind:?} | {shards}, {} | {at_rest:.0}/s | {offered:.0}/s, {refused:.1} refused, {broken:.1} broken | {absorbed:.0}/s | {share:.2} of {most:.0}: {} |",
        collection["state"].as_str().unwrap_or_default(),
        if share >= LEAST_SHARE { "holds" } else { "DOES NOT HOLD" },
    );
    Ok(share >= LEAST_SHARE)
}

/// What the API says of the collection. A server closes connections that were idle for long, and may do so
/// while the request is on its way.
async fn collection(api: &Api, pk: &str) -> Result<Value, Failure> {
    let path = format!("/collection?pk={pk}");
    let ask = || api.json(Method::GET, &path, &Value::Null);
    match ask().await {
        Ok(collection) => Ok(collection),
        Err(_) => ask().await,
    }
}

/// Waits until the collection is in this state.
async fn state(api: &Api, pk: &str, state: &str) -> Result<Duration, Failure> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let is_there =
            collection(api, pk).await.is_ok_and(|collection| collection["state"] == state);
        if is_there {
            return Ok(began.elapsed());
        }
        sleep(Duration::from_millis(50)).await;
    }
    Err(format!("the collection was never in {state}").into())
}

/// Reads each of many items that have not moved once, beside creates. A quarter of the scale of AWS: a
/// partition takes 250 write units and 750 read units a second, and 250 items are read in it.
async fn readers(options: &StackOptions, is_strong: bool) -> Result<(), Failure> {
    const SCALE: u32 = 250;
    const OLD: u32 = 10 * SCALE;
    let settings =
        [("RequestLifetimeSecs", "120"), ("MoverWriteUnits", "4"), ("ScalingMode", "off")];
    let mut options = stack_of(options, SCALE, &settings);
    options.max_environments = ENVIRONMENTS;
    let stack = Stack::start(options).await?;
    let api = Api::of(&stack);
    let put = |n: u32, what: &'static str, header: &'static [(&'static str, &'static str)]| {
        let api = api.clone();
        async move { api.ask(Method::PUT, &format!("/item?pk=hot&sk={what}{n:05}"), header, ITEM).await }
    };
    let loaded =
        offered(SCALE * 8 / 10, OLD / (SCALE * 8 / 10) + 1, |n| put(n, "old", &[])).await?;
    println!(
        "\n{} items, read by gets that are {}",
        loaded.len(),
        if is_strong { "strong" } else { "not strong" }
    );
    let consistency = if is_strong { "&consistent=true" } else { "" };
    let get = |n: u32| {
        let (api, path) = (api.clone(), format!("/item?pk=hot&sk=old{n:05}{consistency}"));
        async move { api.ask(Method::GET, &path, &[], "").await }
    };
    // What starts environments is not what is measured.
    let cold = |n: u32| put(n, "cold", &[]);
    tokio::try_join!(offered(SCALE, 2, get), offered(SCALE / 2, 2, cold))?;
    let four = serde_json::json!({ "number_of_shards": 4 });
    api.json(Method::POST, "/collection/scale?pk=hot", &four).await?;
    state(&api, "hot", "move").await?;
    let began = Instant::now();
    let creates = offered(SCALE, 10, |n| put(n, "new", &[("if-none-match", "*")]));
    let (gets, creates) = tokio::join!(offered(SCALE, 10, get), creates);
    for (name, samples) in [("gets", gets?), ("creates", creates?)] {
        let refused = samples.iter().filter(|sample| sample.status == 429);
        let last = refused.map(|sample| sample.at.duration_since(began)).max().unwrap_or_default();
        println!(
            "  {name}: {:?}, p50 {:.1} ms, p99 {:.1} ms, the last refusal after {:.1} s",
            statuses(&samples),
            percentile(&samples, 50),
            percentile(&samples, 99),
            last.as_secs_f64()
        );
    }
    stack.shutdown().await;
    Ok(())
}

/// What a partition writes in a second beside cold keys: so little that two processors have time left under five
/// times of it, with clients, functions and DynamoDB on them.
const OVERLOADED: u32 = 50;

/// What is offered in one window: to which keys, of which one begins to grow, and how often the load that a key
/// takes.
#[derive(Debug, Clone, Copy)]
struct Window {
    name: &'static str,
    times: u32,
    is_hot: bool,
}

/// The second says what the machine makes of as many requests, none of which is throttled.
const WINDOWS: [Window; 3] = [
    Window { name: "at rest", times: 0, is_hot: false },
    Window { name: "5 times the load, to 200 keys", times: 5, is_hot: false },
    Window { name: "5 times the load, to one key", times: 5, is_hot: true },
];

/// Five times what a key takes, beside cold keys, where Lambda has few environments for each function.
///
/// What else the machine does is not the same in two windows, and a hundredth of the answers is few. So windows of each
/// kind follow each other in several rounds, and the figure that counts is the median over the rounds.
async fn overload(options: &StackOptions) -> Result<bool, Failure> {
    const ROUNDS: u32 = 5;
    // Longer than a window: nothing closes in one.
    let settings = [
        ("RequestLifetimeSecs", "30"),
        ("ScalingMode", "off"),
        ("ScaleReservedConcurrency", "2"),
        ("RebalanceReservedConcurrency", "2"),
    ];
    let mut options = stack_of(options, OVERLOADED, &settings);
    options.max_environments = ENVIRONMENTS;
    let stack = Stack::start(options).await?;
    let (api, tables) = (Api::of(&stack), Tables::of(&stack).await);
    start_environments(&api).await?;
    println!(
        "\n{ENVIRONMENTS} environments for each function, {OVERLOADED} write units for each key"
    );
    let (mut of_rest, mut of_spread) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let mut colds = Vec::new();
        for window in WINDOWS {
            // Each grows once.
            let key = format!("key{round}-{}", colds.len());
            colds.push(window.measure(&api, &key).await?);
            // What it moves belongs to no window of another.
            tables.rests(&PartitionKey::new(key)?).await?;
        }
        of_rest.push(colds[2] / colds[0]);
        of_spread.push(colds[2] / colds[1]);
    }
    stack.shutdown().await;
    let (of_rest, of_spread) = (median(of_rest), median(of_spread));
    let holds = of_rest <= MOST_RATIO;
    let verdict = if holds { "holds" } else { "DOES NOT HOLD" };
    println!(
        "\nThe slowest hundredth of cold puts under the load to one key, median of {ROUNDS} rounds"
    );
    println!("  to that at rest: {of_rest:.2}, at most {MOST_RATIO}: {verdict}");
    println!("  to that under the load to 200 keys: {of_spread:.2}");
    Ok(holds)
}

/// The most by which a hot key may lengthen the latency of the slowest hundredth of cold puts.
const MOST_RATIO: f64 = 1.5;

impl Window {
    const SECS: u32 = 30;

    /// Offers the load of this window, and has `key` grow meanwhile. Returns the latency of the slowest hundredth
    /// of cold puts, in milliseconds.
    async fn measure(self, api: &Api, key: &str) -> Result<f64, Failure> {
        let Self { name, times, is_hot } = self;
        let put = |pk: String, n: u32| {
            let api = api.clone();
            async move { api.ask(Method::PUT, &format!("/item?pk={pk}&sk={n:06}"), &[], ITEM).await }
        };
        let spread = |n: u32| format!("warm{}", n % 200);
        offered(50, 4, |n| put(if n.is_multiple_of(10) { key.to_owned() } else { spread(n) }, n))
            .await?;
        let load = offered((times * OVERLOADED).max(1), Self::SECS, |n| {
            put(if is_hot { key.to_owned() } else { spread(n) }, 1_000 + n)
        });
        let cold = offered(60, Self::SECS, |n| put(format!("cold{}", n % 300), n));
        let in_force = async {
            sleep(Duration::from_secs(10)).await;
            let asked = Instant::now();
            let four = serde_json::json!({ "number_of_shards": 4 });
            let path = format!("/collection/scale?pk={key}");
            while api.json(Method::POST, &path, &four).await.is_err() {
                sleep(Duration::from_millis(200)).await;
            }
            state(api, key, "move").await?;
            Ok::<_, Failure>(asked.elapsed())
        };
        let (load, cold, in_force) = tokio::join!(load, cold, in_force);
        let cold = cold?;
        println!("\n{name}\n  in force {:.1} s after it was asked for", in_force?.as_secs_f64());
        for (name, samples) in [("load", &load?), ("cold", &cold)] {
            println!(
                "  {name}: {:?}, p50 {:.1} ms, p99 {:.1} ms",
                statuses(samples),
                percentile(samples, 50),
                percentile(samples, 99)
            );
        }
        Ok(percentile(&cold, 99))
    }
}

const ENVIRONMENTS: usize = 40;

/// Has Lambda start all environments of `WriteFunction`: as many batches at once as there may be, each of which
/// is held for seconds, since its partition takes a fraction of it. What starts under a load would
/// measure the start of a process.
async fn start_environments(api: &Api) -> Result<(), Failure> {
    let mut batches = JoinSet::new();
    for batch in 0..ENVIRONMENTS {
        let api = api.clone();
        let puts = (0..LIMIT).map(
            |n| serde_json::json!({ "pk": "start", "sk": format!("{batch}-{n}"), "item": {} }),
        );
        let body = serde_json::json!({ "puts": puts.collect::<Vec<_>>() });
        batches.spawn(async move {
            api.json(Method::POST, "/batch-write", &body).await.map(drop).map_err(|e| e.to_string())
        });
    }
    while let Some(batch) = batches.join_next().await {
        batch??;
    }
    Ok(())
}
