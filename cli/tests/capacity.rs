//! A provisioned table is too small for many cold keys: its capacity rises, and no key is sharded.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use common::LocalStack;
use dynashard_aws::{ServerClock, connect_local};
use serde_json::json;

const REFUSED: &str = "TableWriteProvisionedThroughputExceeded";
const HOT: &str = "TableWriteKeyRangeThroughputExceeded";

/// What the table begins with, and what it may have at most, in write units a second.
const UNITS: i64 = 20;
const MOST: i64 = 400;

/// What is offered: each of these clients puts so many items, all of other keys, and rests for so long. A machine that
/// takes three seconds for a batch still offers nearly twice what the table begins with, so that it is raised twice.
const CLIENTS: usize = 5;
const BATCH: usize = 30;
const REST: Duration = Duration::from_secs(1);

/// How often the table is looked at before the test gives up, and the pause between.
const MOST_LOOKS: u32 = 1_200;
const PAUSE: Duration = Duration::from_millis(100);

/// How many batches are put in a row, beyond those that were under way, of which none is refused.
const CALM: usize = 4 * CLIENTS;

#[tokio::test(flavor = "multi_thread")]
async fn a_table_at_its_capacity_gets_more_of_it_and_no_key_gets_shards() {
    let stack = stack(&["--set", "CapacityScaling=function"]);
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    assert_eq!(write_units(&client).await, UNITS);

    let (is_over, batches) = (AtomicBool::new(false), AtomicUsize::new(0));
    let runtime = tokio::runtime::Handle::current();
    let raised = thread::scope(|scope| {
        for at in 0..CLIENTS {
            let (stack, is_over, batches) = (&stack, &is_over, &batches);
            scope.spawn(move || {
                for batch in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    put_cold_keys(stack, at, batch);
                    batches.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(REST);
                }
            });
        }
        let raised = until(|| {
            let units = tokio::task::block_in_place(|| runtime.block_on(write_units(&client)));
            (units >= 3 * UNITS).then_some(units)
        });
        let calm = until_calm(&stack, &batches);
        is_over.store(true, Ordering::Relaxed);
        assert!(calm.is_some(), "requests are refused at {raised:?} units a second");
        raised
    });
    let raised = raised.expect("the capacity rises");
    let in_the_end = write_units(&client).await;
    assert!(raised <= in_the_end && in_the_end <= MOST, "{raised}, then {in_the_end}");
    assert!(stack.requests("MainTable", "UpdateTable") > 1, "it doubles at most");
    assert!(stack.throttles("MainTable", REFUSED) > 0);
    assert_eq!(stack.throttles("MainTable", HOT), 0, "no partition was hot");

    let sharded = client.scan().table_name("MetadataTable").send().await.expect("a scan");
    let sharded = sharded.items().iter().filter(|item| item.contains_key("number_of_shards"));
    assert_eq!(sharded.count(), 0, "every key stays at one shard");
}

#[test]
fn without_capacity_scaling_a_table_stays_as_it_is() {
    let stack = stack(&[]);
    // More than the units of a second, which the table takes at once.
    for batch in 0..4 {
        put_cold_keys(&stack, 0, batch);
    }
    assert!(stack.throttles("MainTable", REFUSED) > 0);
    assert_eq!(stack.requests("MainTable", "UpdateTable"), 0);
}

fn stack(more: &[&str]) -> LocalStack {
    let settings = [
        "BillingMode=PROVISIONED",
        &format!("WriteCapacityUnits={UNITS}"),
        "ReadCapacityUnits=400",
        &format!("MaxWriteCapacityUnits={MOST}"),
        "MaxReadCapacityUnits=400",
    ];
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let limits = ["--burst-secs", "1", "--alarm-period-secs", "2"];
    LocalStack::start(&settings.chain(limits).chain(more.iter().copied()).collect::<Vec<_>>())
}

/// Puts a batch of items, each of a key that nobody else has.
fn put_cold_keys(stack: &LocalStack, client: usize, batch: usize) {
    let puts = (0..BATCH).map(|n| {
        let (pk, sk) = (format!("cold-{client}-{batch}-{n}"), format!("{n:02}"));
        json!({ "pk": pk, "sk": sk, "item": { "n": n } })
    });
    stack.put_all(puts);
}

async fn write_units(client: &Client) -> i64 {
    let table = client.describe_table().table_name("MainTable").send().await.expect("a table");
    let table = table.table.expect("a table");
    let throughput = table.provisioned_throughput().expect("a provisioned table");
    throughput.write_capacity_units().expect("write units")
}

/// Waits until some batches in a row were put without a refusal.
fn until_calm(stack: &LocalStack, batches: &AtomicUsize) -> Option<()> {
    let now = || (stack.throttles("MainTable", REFUSED), batches.load(Ordering::Relaxed));
    let mut since = now();
    until(|| {
        let (refused, batches) = now();
        if refused > since.0 {
            since = (refused, batches);
        }
        (batches >= since.1 + CALM).then_some(())
    })
}

/// Looks until there is something to see, or for too long.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    (0..MOST_LOOKS).find_map(|_| {
        look().or_else(|| {
            thread::sleep(PAUSE);
            None
        })
    })
}
