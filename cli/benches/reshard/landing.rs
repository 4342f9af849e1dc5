//! How long after the decision new items land in the new shards.
//!
//! Writers put fresh items all the time whose home the growth changes. After each answer the main
//! table is read at the new home: the item has landed if it is there. Time counts from before the
//! request to scale is sent, so it holds the publication, and is told in units of T'. New items go to
//! their new homes from `forward` on, which each writer learns when its lease has ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dynashard_core::ports::{Consistency, ItemStore};
use dynashard_core::{Settings, leases_end};
use dynashard_keys::{Placement, ShardCount};
use dynashard_local::Stack;
use futures_util::future::try_join_all;
use tokio::time::sleep;

use crate::collection::Collection;
use crate::common::Failure;
use crate::{Required, report};

/// The lease is the template's default, which T' is made of.
pub(crate) const SETTINGS: &[(&str, &str)] =
    &[("LeaseSecs", "5"), ("RequestLifetimeSecs", "2"), ("ScalingMode", "off")];

const LEASE: Duration = Duration::from_secs(5);

const GROWTHS: u32 = 2;

/// So many environments write, each with a lease of its own.
const WRITERS: u32 = 8;

/// The pause of a writer between two puts.
const PAUSE: Duration = Duration::from_millis(10);

/// How long the writers are at work before the decision: leases are of every age by then.
const BEFORE: Duration = Duration::from_secs(8);

/// How long they go on when all is over.
const AFTER: Duration = Duration::from_secs(2);

/// The most that may pass from the decision to writes in the new shards, in units of T'.
const MOST: f64 = 1.5;

/// A put whose item changes its home.
#[derive(Debug, Clone, Copy)]
struct Put {
    answered: Instant,
    landed: bool,
}

pub(crate) async fn measure(stack: &Stack) -> Result<(), Failure> {
    let settle = leases_end(LEASE);
    println!("\nFrom the decision to writes in the new shards, in units of T' = {settle:?}");
    for growth in 1..=GROWTHS {
        let collection = Collection::of(stack, &format!("landing{growth}")).await?;
        println!("\n  Growth {growth} of {GROWTHS}, 1 to 2 shards, {WRITERS} writers");
        collection.put("first").await?;
        let over = AtomicBool::new(false);
        let writers = (0..WRITERS).map(|writer| write(&collection, writer, &over));
        let (puts, published) =
            tokio::join!(try_join_all(writers.collect::<Vec<_>>()), grow(&collection, &over),);
        let (puts, (decided, moving)) = (puts?.concat(), published?);
        let first = puts.iter().filter(|put| put.landed).map(|put| put.answered).min();
        let last_missed = puts.iter().filter(|put| !put.landed).map(|put| put.answered).max();
        let (first, last_missed) = first.zip(last_missed).ok_or("no put on either side")?;
        let since = |moment: Instant| (moment - decided).as_secs_f64() / settle.as_secs_f64();
        let required = Some(Required::AtMost(MOST));
        report("until the first new item lands in a new shard", since(first), required);
        report("until all of them do", since(last_missed), required);
        report("until `move` is in force", since(moving), None);
        // The rebalancer may be busy with this one for a while yet, and the next would wait for it.
        collection.tables.rests(&collection.partition).await?;
    }
    Ok(())
}

/// Asks for the growth when the writers have been at work for a while, and ends their work when it
/// is over. Returns when it asked, and when `move` was in force.
async fn grow(collection: &Collection, over: &AtomicBool) -> Result<(Instant, Instant), Failure> {
    sleep(BEFORE).await;
    let decided = Instant::now();
    collection.scale(2).await?;
    collection.moving().await?;
    let moving = Instant::now();
    sleep(AFTER).await;
    over.store(true, Ordering::Relaxed);
    Ok((decided, moving))
}

/// Puts fresh items, and looks at the new home of each.
async fn write(
    collection: &Collection,
    writer: u32,
    over: &AtomicBool,
) -> Result<Vec<Put>, Failure> {
    let (one, two) = (ShardCount::ONE, ShardCount::new(2)?);
    let separator = Settings::default().schema.separator;
    let mut puts = Vec::new();
    for n in 0_u32.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let sk = format!("{writer}-{n:06}");
        let key = collection.key(&sk)?;
        let homes = [one, two].map(|count| Placement::Xxh64.home(&key, count));
        let [Some(old), Some(new)] = homes else { return Err("no home".into()) };
        if old == new {
            continue;
        }
        collection.put(&sk).await?;
        let answered = Instant::now();
        let found = collection
            .tables
            .items
            .get(&key.at(new, Placement::Xxh64, separator), None, Consistency::Strong)
            .await;
        let found = found.map_err(|error| format!("the table cannot be read: {error:?}"))?;
        puts.push(Put { answered, landed: found.value.is_some() });
        sleep(PAUSE).await;
    }
    Ok(puts)
}
