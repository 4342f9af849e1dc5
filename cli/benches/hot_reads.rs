//! What a hot item that is read at five times what a partition takes absorbs: as it is, with read replicas, and with the item cache.
//!
//! `cargo bench -p dynashard-cli --bench hot_reads` prints, from one run on one machine, the share of the reads that is answered, how
//! long those take that are, and the read units that they consume. It fails if two replicas do not absorb twice as much as the table
//! alone, or the cache not nearly everything. No shard count changes meanwhile: an item lies in one shard.

mod common;

use std::process::ExitCode;

use common::{
    Api, Failure, MAIN_TABLE, Sample, consumed, float, offered, percentile, stack_of, stack_options,
};
use dynashard_local::{Stack, StackOptions};
use http::Method;

/// What a partition writes in a second. It reads three times as many units, and with each unit two items of 1 KB.
const LIMIT: u32 = 10;

/// The reads that are offered in a second: five times what a partition takes.
const OFFERED: u32 = 5 * 2 * 3 * LIMIT;

const SECS: u32 = 20;

/// Each keeps what it has read itself.
const ENVIRONMENTS: usize = 24;

/// How many times what the table absorbs alone two replicas absorb, at least.
const LEAST_BY_REPLICAS: f64 = 2.0;
/// The share that the cache absorbs, at least.
const LEAST_BY_CACHE: f64 = 0.95;

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let options = stack_options().await?;
    println!("{OFFERED} reads a second of one item, of which a partition takes {}", 2 * 3 * LIMIT);
    println!("| | absorbed | median ms | p99 ms | read units a second | throttled a second |");
    println!("|---|---|---|---|---|---|");
    let alone = Box::pin(absorbed(&options, "the table alone", &[])).await?;
    let replicas = [("ReadReplicas", "2")];
    let replicas = Box::pin(absorbed(&options, "two read replicas", &replicas)).await?;
    let cache = [("ItemCacheSecs", "1")];
    let cache = Box::pin(absorbed(&options, "`ItemCacheSecs` 1", &cache)).await?;
    let holds = replicas >= LEAST_BY_REPLICAS * alone && cache >= LEAST_BY_CACHE;
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The share of the reads that a stack with these parameters absorbs.
async fn absorbed(
    options: &StackOptions,
    name: &str,
    settings: &[(&str, &str)],
) -> Result<f64, Failure> {
    let settings = [settings, &[("ScalingMode", "off")]].concat();
    let mut options = stack_of(options, LIMIT, &settings);
    options.max_environments = ENVIRONMENTS;
    let stack = Stack::start(options).await?;
    let api = Api::of(&stack);
    api.put("hot", "1").await?;
    api.get("hot", "1").await?;
    let before = stack.counters();
    let samples = offered(OFFERED, SECS, |_| {
        let api = api.clone();
        async move { api.ask(Method::GET, "/item?pk=hot&sk=1", &[], "").await }
    });
    let samples = samples.await?;
    let after = stack.counters();
    stack.shutdown().await;
    let answered = samples.iter().copied().filter(|sample| sample.status == 200);
    let answered = answered.collect::<Vec<Sample>>();
    let count = |samples: &[Sample]| float(u64::try_from(samples.len()).unwrap_or(u64::MAX));
    let share = count(&answered) / count(&samples);
    let secs = f64::from(SECS);
    let units = consumed(&before, &after, MAIN_TABLE).consumed_rcu / secs;
    let throttled = float(after.table_throttles(MAIN_TABLE) - before.table_throttles(MAIN_TABLE));
    println!(
        "| {name} | {:.0} % | {:.1} | {:.1} | {units:.1} | {:.1} |",
        100.0 * share,
        percentile(&answered, 50),
        percentile(&answered, 99),
        throttled / secs
    );
    Ok(share)
}
