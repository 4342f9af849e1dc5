//! What is decided about hot keys on the local stack, and how soon a key gets what its clients ask for.
//!
//! `cargo bench -p dynashard-cli --bench decisions` prints, from one run on one machine:
//!
//! 1. a key at 8 and at 40 times what a partition takes: from its first refusal to the moment from which 95% of the
//!    offer is absorbed, and by how many changes of its count; beside the first the rule of "Choosing the right
//!    number of shards for your large-scale Amazon DynamoDB table", one shard more after each cooldown (`growth`);
//! 2. what becomes of keys that share a partition with a hot one, of a key of which one item is hot, and of two
//!    hot keys at once (`others`);
//! 3. a load that ends: the way back, and what it costs and saves (`shrink`);
//! 4. under the loads of real clients, the demand that is seen beside what is offered, and the shards beside those that it
//!    takes ([`clients`]).
//!
//! `-- growth`, `-- others`, `-- shrink` and `-- clients` choose among them.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod clients;
#[path = "../common/mod.rs"]
mod common;

use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use common::{
    Api, Failure, METADATA_TABLE, Sample, Tables, float, is_chosen, offered, operation, stack_of,
    stack_options, statuses,
};
use dynashard_core::ports::ReadRecords;
use dynashard_core::{DecisionHistory, DecisionRecord};
use dynashard_keys::PartitionKey;
use dynashard_local::{Stack, StackOptions};
use http::Method;
use serde_json::json;
use tokio::time::sleep;

/// The share of the offer that a relieved key absorbs.
const ABSORBED: f64 = 0.95;

/// From the first refusal to relief, at most.
const RELIEVED_WITHIN: Duration = Duration::from_secs(12);

const ITEM: &str = r#"{"a":"x"}"#;

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let options = stack_options().await?;
    let mut holds = true;
    if is_chosen("growth") {
        holds &= Box::pin(growth(&options)).await?;
    }
    if is_chosen("others") {
        holds &= Box::pin(others(&options)).await?;
    }
    if is_chosen("shrink") {
        holds &= Box::pin(shrink(&options)).await?;
    }
    if is_chosen("clients") {
        holds &= Box::pin(clients::loads(&options)).await?;
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

const TWO: NonZeroU32 = NonZeroU32::new(2).expect("not zero");

fn with_environments(
    options: &StackOptions,
    limit: u32,
    settings: &[(&str, &str)],
) -> StackOptions {
    StackOptions { max_environments: 40, ..stack_of(options, limit, settings) }
}

/// How soon one key was relieved.
#[derive(Debug)]
struct Relief {
    /// From the first refusal on; never, if it is none.
    after: Option<Duration>,
    counts: Vec<u64>,
    absorbed_at_last: f64,
}

/// Offers one key `times` what a partition takes, each item once.
async fn offer(
    stack: &Stack,
    limit: u32,
    times: u32,
    secs: u32,
    pk: &'static str,
) -> Result<Relief, Failure> {
    let api = Api::of(stack);
    let began = Instant::now();
    let put = |n: u32| {
        let (api, path) = (api.clone(), format!("/item?pk={pk}&sk={n:08}"));
        async move { api.ask(Method::PUT, &path, &[], ITEM).await }
    };
    let samples = offered(times * limit, secs, put).await?;
    let refusals = samples.iter().filter(|sample| sample.status == 429);
    let first = refusals.map(|sample| sample.at).min().unwrap_or(began);
    let collection = api.json(Method::GET, &format!("/collection?pk={pk}"), &json!(null)).await?;
    let history = collection["shard_history"].as_array().cloned().unwrap_or_default();
    let relieved = (0..u64::from(secs) * 2)
        .map(|half| Duration::from_millis(500) * u32::try_from(half).unwrap_or(0));
    // Two seconds that absorb enough.
    let relieved = relieved.map(|after| (after, first + after)).find(|(_, from)| {
        *from + Duration::from_secs(2) < began + Duration::from_secs(u64::from(secs))
            && share(&samples, *from, Duration::from_secs(2)) >= ABSORBED
    });
    let last = began + Duration::from_secs(u64::from(secs.saturating_sub(5)));
    eprintln!("  {pk}, answers: {:?}", statuses(&samples));
    Ok(Relief {
        after: relieved.map(|(after, _)| after),
        counts: history.iter().filter_map(|entry| entry["count"].as_u64()).collect(),
        absorbed_at_last: share(&samples, last, Duration::from_secs(5)),
    })
}

/// The part of what came in this time that was absorbed.
fn share(samples: &[Sample], from: Instant, time: Duration) -> f64 {
    let came = samples.iter().filter(|sample| {
        let at = sample.at.checked_sub(sample.took).unwrap_or(sample.at);
        (from..from + time).contains(&at)
    });
    let (mut all, mut absorbed) = (0_u64, 0_u64);
    for sample in came {
        all += 1;
        absorbed += u64::from(sample.status == 200);
    }
    float(absorbed) / float(all.max(1))
}

async fn growth(options: &StackOptions) -> Result<bool, Failure> {
    println!(
        "| key | rule | relieved after | counts | absorbed in the end | ledger updates a second |"
    );
    println!("|---|---|---|---|---|---|");
    let mut holds = true;
    let mut ours = None;
    for (limit, times, secs) in [(100, 8, 25), (25, 40, 25)] {
        let stack = Stack::start(with_environments(options, limit, &[])).await?;
        let before = stack.counters();
        let relief = offer(&stack, limit, times, secs, "hot").await?;
        let after = stack.counters();
        let updates = operation(&after, METADATA_TABLE, "UpdateItem").requests
            - operation(&before, METADATA_TABLE, "UpdateItem").requests;
        println!(
            "| {times} times {limit} WCU | dynashard | {} | {:?} | {:.2} | {:.1} |",
            seconds(relief.after),
            relief.counts,
            relief.absorbed_at_last,
            float(updates) / f64::from(secs)
        );
        for record in decisions(&stack, "hot").await? {
            println!("  {}: {}", record.outcome, record.reason);
        }
        if times == 8 {
            holds &= relief.after.is_some_and(|after| after <= RELIEVED_WITHIN)
                && relief.counts.len() == 2;
            ours = relief.after;
        }
        stack.shutdown().await;
    }
    let baseline = Box::pin(one_more_each_time(options, 100, 8)).await?;
    println!(
        "| 8 times 100 WCU | one more after each cooldown | {} | {:?} | {:.2} | |",
        seconds(baseline.after),
        baseline.counts,
        baseline.absorbed_at_last
    );
    holds &= match (ours, baseline.after) {
        (Some(ours), Some(baseline)) => ours * 2 <= baseline,
        (ours, _) => ours.is_some(),
    };
    Ok(holds)
}

/// The rule of that article, in its favour: random placement, whose growth moves nothing, and a cooldown of ten seconds.
async fn one_more_each_time(
    options: &StackOptions,
    limit: u32,
    times: u32,
) -> Result<Relief, Failure> {
    const SECS: u32 = 60;
    let settings = [("ScalingMode", "off"), ("Placement", "random")];
    let stack = Stack::start(with_environments(options, limit, &settings)).await?;
    let api = Api::of(&stack);
    let rule = async {
        let mut count = 1;
        loop {
            sleep(Duration::from_secs(10)).await;
            let more = json!({ "number_of_shards": count + 1 });
            if api.json(Method::POST, "/collection/scale?pk=hot", &more).await.is_ok() {
                count += 1;
            }
        }
    };
    let relief = tokio::select! {
        relief = offer(&stack, limit, times, SECS, "hot") => relief?,
        () = rule => return Err("the rule ended".into()),
    };
    stack.shutdown().await;
    Ok(relief)
}

async fn others(options: &StackOptions) -> Result<bool, Failure> {
    const LIMIT: u32 = 100;
    let mut holds = true;
    let put = |api: &Api, path: String| {
        let api = api.clone();
        async move { api.ask(Method::PUT, &path, &[], ITEM).await }
    };
    // Two partitions, so that some of the cold keys lie beside the hot one.
    let mut of_two = with_environments(options, LIMIT, &[]);
    of_two.partitions.partitions = TWO;
    let stack = Stack::start(of_two).await?;
    let api = Api::of(&stack);
    let hot = offered(4 * LIMIT, 15, |n| put(&api, format!("/item?pk=hot&sk={n}")));
    let cold = offered(16, 15, |n| put(&api, format!("/item?pk=cold{}&sk={n}", n % 8)));
    let (_, cold) = tokio::try_join!(hot, cold)?;
    let refused = cold.iter().filter(|sample| sample.status == 429).count();
    println!(
        "\nbeside a hot key: 8 keys with 2 writes a second each, {refused} of {} refused",
        cold.len()
    );
    for n in 0..8 {
        let pk = format!("cold{n}");
        let count = count_of(&api, &pk).await?;
        let decided = decisions(&stack, &pk).await?;
        holds &= count == 1;
        let reasons = decided.iter().map(|record| record.diagnosis.as_str()).collect::<Vec<_>>();
        println!("  {pk}: {count} shard, {reasons:?}");
        if let (0, Some(record)) = (n, decided.first()) {
            println!("    {}", record.reason);
        }
    }
    stack.shutdown().await;
    let stack = Stack::start(with_environments(options, LIMIT, &[])).await?;
    let api = Api::of(&stack);
    let item = offered(4 * LIMIT, 15, |_| put(&api, "/item?pk=counter&sk=total".to_owned()));
    let one = offered(4 * LIMIT, 20, |n| put(&api, format!("/item?pk=one&sk={n}")));
    let other = offered(2 * LIMIT, 20, |n| put(&api, format!("/item?pk=other&sk={n}")));
    tokio::try_join!(item, one, other)?;
    println!(
        "\na key of which one item is hot, and two hot keys, at 4, 4 and 2 times what a partition takes"
    );
    for (pk, expected) in [("counter", 1), ("one", 8), ("other", 4)] {
        let count = count_of(&api, pk).await?;
        holds &= count == expected;
        println!("  {pk}: {count} shards");
        for record in decisions(&stack, pk).await? {
            println!("    {}: {}", record.diagnosis, record.reason);
        }
    }
    stack.shutdown().await;
    Ok(holds)
}

async fn shrink(options: &StackOptions) -> Result<bool, Failure> {
    const LIMIT: u32 = 100;
    const PATIENCE: Duration = Duration::from_mins(6);
    let settings = [
        ("ShrinkMode", "on"),
        ("ShrinkAfterSecs", "60"),
        ("RequestLifetimeSecs", "5"),
        ("LeaseSecs", "1"),
        ("CooldownSecs", "5"),
    ];
    let stack = Stack::start(with_environments(options, LIMIT, &settings)).await?;
    let api = Api::of(&stack);
    offer(&stack, LIMIT, 4, 15, "hot").await?;
    let grown = count_of(&api, "hot").await?;
    let began = Instant::now();
    // A few clients go on reading the collection.
    while count_of(&api, "hot").await? > 1 && began.elapsed() < PATIENCE {
        api.json(Method::GET, "/query?pk=hot&limit=10", &json!(null)).await?;
        sleep(Duration::from_millis(500)).await;
    }
    let count = count_of(&api, "hot").await?;
    println!(
        "\na load that ends: {grown} shards, and {count} after {:.0} s",
        began.elapsed().as_secs_f64()
    );
    for record in decisions(&stack, "hot").await? {
        println!("  {}: {}", record.diagnosis, record.reason);
    }
    stack.shutdown().await;
    Ok(grown > 1 && count == 1)
}

async fn count_of(api: &Api, pk: &str) -> Result<u64, Failure> {
    let collection = api.json(Method::GET, &format!("/collection?pk={pk}"), &json!(null)).await?;
    Ok(collection["number_of_shards"].as_u64().ok_or("no count")?)
}

async fn decisions(stack: &Stack, pk: &str) -> Result<Vec<DecisionRecord>, Failure> {
    let tables = Tables::of(stack).await;
    let history = tables.metadata.get::<DecisionHistory>(&PartitionKey::new(pk)?).await;
    let history = history.map_err(|error| format!("{error:?}"))?.value;
    Ok(history.unwrap_or_default().records)
}

fn seconds(time: Option<Duration>) -> String {
    time.map_or_else(|| "never".to_owned(), |time| format!("{:.1} s", time.as_secs_f64()))
}
