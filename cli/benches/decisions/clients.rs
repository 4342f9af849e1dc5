//! What a hot key is decided to need under the loads that real clients make: in single puts and in batches, by clients
//! that drop what is refused, send it again or wait for it, through few environments and through many.
//!
//! `DYNASHARD_BEFORE=DIR` names the functions of another checkout, as `cargo build --release` leaves them in
//! `target/release`: each load is then put on both in turn, so that they are compared on one machine in one run.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dynashard_core::ports::ReadRecords;
use dynashard_core::{CollectionMetadata, Phase};
use dynashard_keys::PartitionKey;
use dynashard_local::{Functions, Stack, StackOptions};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use crate::common::{Api, Failure, MAIN_TABLE, Tables, float, operation, stack_of};
use crate::{decisions, seconds};

/// What a partition takes a second, where a load says nothing else.
const LIMIT: u32 = 40;

/// For how long a load goes on at most when nothing is decided.
const PATIENCE: Duration = Duration::from_secs(25);

/// For how long it goes on after a decision: what is refused meanwhile counts, too.
const AFTER: Duration = Duration::from_secs(3);

/// The part of what its shards take that a collection is to be asked for (docs/SCALING.md).
const TARGET: f64 = 0.7;

/// How clients behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clients {
    /// Requests come at a steady rate, and what is refused is dropped.
    Dropping,
    /// Each client sends again what was refused when `Retry-After` has passed.
    Waiting,
    /// Each client sends again what was refused 50 ms after it was refused.
    AtOnce,
    /// So many workers of which each makes one request after the other, with a pause that makes them ask for the offered
    /// rate as long as nothing is refused. They wait for `Retry-After`, and repeat.
    Workers(u32),
}

#[derive(Debug, Clone, Copy)]
struct Load {
    clients: Clients,
    /// The items of one request: single puts if it is one.
    batch: u32,
    environments: usize,
    /// How many times what one partition takes is offered.
    times: u32,
}

const LOADS: &[Load] = &[
    Load { clients: Clients::Dropping, batch: 1, environments: 10, times: 8 },
    Load { clients: Clients::Waiting, batch: 1, environments: 10, times: 8 },
    Load { clients: Clients::Waiting, batch: 1, environments: 40, times: 8 },
    Load { clients: Clients::AtOnce, batch: 1, environments: 10, times: 4 },
    Load { clients: Clients::AtOnce, batch: 1, environments: 40, times: 4 },
    Load { clients: Clients::Waiting, batch: 25, environments: 10, times: 8 },
    Load { clients: Clients::Waiting, batch: 25, environments: 40, times: 8 },
    Load { clients: Clients::Waiting, batch: 500, environments: 10, times: 8 },
    Load { clients: Clients::Workers(8), batch: 1, environments: 10, times: 8 },
    Load { clients: Clients::Workers(64), batch: 1, environments: 40, times: 8 },
    Load { clients: Clients::Workers(400), batch: 1, environments: 40, times: 8 },
    Load { clients: Clients::Workers(8), batch: 25, environments: 10, times: 8 },
];

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.batch {
            1 => f.write_str("single puts")?,
            batch => write!(f, "batches of {batch}")?,
        }
        match self.clients {
            Clients::Dropping => f.write_str(", dropped when refused"),
            Clients::Waiting => f.write_str(", again after Retry-After"),
            Clients::AtOnce => f.write_str(", again at once"),
            Clients::Workers(workers) => write!(f, ", {workers} workers that wait and repeat"),
        }?;
        write!(f, ", {} environments", self.environments)
    }
}

/// What came of one load.
struct Seen {
    /// The demand that was decided on, and the shards.
    decided: Option<(u64, u64)>,
    /// From the first refusal that a client saw.
    after: Option<Duration>,
    refused_per_item: f64,
}

/// What the clients share.
struct Shared {
    api: Api,
    is_over: AtomicBool,
    next: AtomicU64,
    began: Instant,
    /// When the first item was refused, in milliseconds since `began`; `u64::MAX` before that.
    refused: AtomicU64,
}

impl Shared {
    fn items(&self, count: u32) -> Vec<u64> {
        (0..count).map(|_| self.next.fetch_add(1, Ordering::Relaxed)).collect()
    }

    /// Sends these items once, and returns those that were refused, and how long to wait before the next try.
    async fn send(&self, items: Vec<u64>) -> (Vec<u64>, Duration) {
        let answer = if let [item] = items[..] {
            let path = format!("/item?pk=hot&sk={item:010}");
            self.api.ask(Method::PUT, &path, &[], crate::ITEM).await
        } else {
            let puts = items.iter();
            let puts =
                puts.map(|n| json!({"pk": "hot", "sk": format!("{n:010}"), "item": {"a": "x"}}));
            let body = json!({ "puts": puts.collect::<Vec<_>>() }).to_string();
            self.api.ask(Method::POST, "/batch-write", &[], &body).await
        };
        // A connection that breaks is tried again like a refusal.
        let Ok(answer) = answer else { return (items, Duration::from_secs(1)) };
        let left = match answer.status {
            200 if items.len() > 1 => unprocessed(&answer.body),
            200 => Vec::new(),
            _ => items,
        };
        if !left.is_empty() {
            let at = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.refused.fetch_min(at, Ordering::Relaxed);
        }
        (left, Duration::from_secs(answer.retry_after.unwrap_or(1)))
    }

    /// Sends items until they are written, or nobody waits for that.
    async fn write(&self, mut items: Vec<u64>, clients: Clients) {
        loop {
            let (left, retry_after) = self.send(items).await;
            if left.is_empty() || clients == Clients::Dropping || self.is_over() {
                return;
            }
            items = left;
            sleep(if clients == Clients::AtOnce { AT_ONCE } else { retry_after }).await;
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

const AT_ONCE: Duration = Duration::from_millis(50);

fn unprocessed(body: &str) -> Vec<u64> {
    let body = serde_json::from_str::<Value>(body).unwrap_or_default();
    let left = body["unprocessed"].as_array().cloned().unwrap_or_default();
    left.iter().filter_map(|left| left["sk"].as_str()?.parse().ok()).collect()
}

pub(crate) async fn loads(options: &StackOptions) -> Result<bool, Failure> {
    let before = std::env::var_os("DYNASHARD_BEFORE").map(PathBuf::from);
    let before =
        before.map(|dir| StackOptions { functions: Functions::Prebuilt(dir), ..options.clone() });
    println!(
        "\n| load | functions | offered | demand seen | shards | ideal | decided after | refused for each item written |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut holds = true;
    for load in LOADS {
        for (name, options) in before.iter().map(|it| ("before", it)).chain([("now", options)]) {
            let rate = LIMIT * load.times;
            let ideal = shards(rate);
            let seen = Box::pin(put(load, options)).await?;
            let demand = seen.decided.map_or_else(
                || "-".to_owned(),
                |(demand, _)| format!("{demand} ({:.2})", float(demand) / f64::from(rate)),
            );
            let to = seen.decided.map_or(1, |(_, to)| to);
            println!(
                "| {load} | {name} | {rate} | {demand} | {to} | {ideal} | {} | {:.2} |",
                seconds(seen.after),
                seen.refused_per_item
            );
            // Few that wait and repeat never ask for what they would like to.
            let least = if let Clients::Workers(_) = load.clients { 2 } else { ideal };
            holds &= name == "before" || (to >= least && to <= 2 * ideal);
        }
    }
    Ok(holds)
}

/// The shards that a rate takes.
fn shards(rate: u32) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few")]
    let least = (f64::from(rate) / (TARGET * f64::from(LIMIT))).ceil() as u64;
    least.next_power_of_two()
}

/// Puts a load on a stack until a while after a growth was decided on.
async fn put(load: &Load, options: &StackOptions) -> Result<Seen, Failure> {
    let options =
        StackOptions { max_environments: load.environments, ..stack_of(options, LIMIT, &[]) };
    let stack = Stack::start(options).await?;
    let tables = Tables::of(&stack).await;
    let hot = PartitionKey::new("hot")?;
    let api = Api::of(&stack);
    warm_up(&api, load.environments).await?;
    let shared = Arc::new(Shared {
        api,
        is_over: AtomicBool::new(false),
        next: AtomicU64::new(0),
        began: Instant::now(),
        refused: AtomicU64::new(u64::MAX),
    });
    let clients = tokio::spawn(offer(*load, Arc::clone(&shared)));
    let mut begun = None;
    while shared.began.elapsed() < PATIENCE {
        sleep(Duration::from_millis(50)).await;
        let found = tables
            .metadata
            .get::<CollectionMetadata>(&hot)
            .await
            .map_err(|error| format!("{error:?}"))?;
        if found.value.is_some_and(|metadata| metadata.phase != Phase::Stable) {
            begun = Some(shared.began.elapsed());
            break;
        }
    }
    if begun.is_some() {
        sleep(AFTER).await;
    }
    let counters = stack.counters();
    shared.is_over.store(true, Ordering::Relaxed);
    clients.await?;
    let grown = decisions(&stack, "hot").await?.into_iter().find(|record| record.action == "grow");
    let refused = Duration::from_millis(shared.refused.load(Ordering::Relaxed));
    let throttles = counters.throttles.get(MAIN_TABLE).into_iter().flat_map(|of| of.values());
    let written = operation(&counters, MAIN_TABLE, "PutItem").requests;
    stack.shutdown().await;
    Ok(Seen {
        decided: grown.and_then(|record| Some((record.demand, record.to?))),
        after: begun.map(|begun| begun.saturating_sub(refused)),
        refused_per_item: float(throttles.sum()) / float(written.max(1)),
    })
}

/// Has all environments started: a key gets hot on a stack that is in use.
async fn warm_up(api: &Api, environments: usize) -> Result<(), Failure> {
    const ROUNDS: usize = 5;
    for round in 0..ROUNDS {
        let mut puts = JoinSet::new();
        for n in 0..environments {
            let api = api.clone();
            puts.spawn(async move { api.put(&format!("cold{n}"), &round.to_string()).await });
        }
        while let Some(put) = puts.join_next().await {
            put??;
        }
    }
    Ok(())
}

/// What the clients do until it is over.
async fn offer(load: Load, shared: Arc<Shared>) {
    let rate = LIMIT * load.times;
    let mut under_way = JoinSet::new();
    if let Clients::Workers(workers) = load.clients {
        let pause = Duration::from_secs(1) * workers * load.batch / rate;
        for worker in 0..workers {
            let shared = Arc::clone(&shared);
            under_way.spawn(async move {
                // They do not begin as one.
                sleep(pause * worker / workers).await;
                while !shared.is_over() {
                    let next = tokio::time::Instant::now() + pause;
                    shared.write(shared.items(load.batch), load.clients).await;
                    sleep_until(next).await;
                }
            });
        }
    } else {
        for n in 1.. {
            if shared.is_over() {
                break;
            }
            let (sending, clients) = (Arc::clone(&shared), load.clients);
            let items = shared.items(load.batch);
            under_way.spawn(async move { sending.write(items, clients).await });
            let due = shared.began + Duration::from_secs(1) * n * load.batch / rate;
            sleep_until(due.into()).await;
        }
    }
    while !shared.is_over() {
        sleep(AT_ONCE).await;
    }
    under_way.shutdown().await;
}
