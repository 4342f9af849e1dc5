//! What the mover consumes and how fast it is, while nobody else uses the table.
//!
//! Nothing but the mover works on the main table here, so all that is counted there from the
//! decision to the removal of the last marker is its work, what it did twice included. What the job
//! costs in the metadata table is counted beside it. The share of the budget is that of the window
//! from the first move to the last, by the counters, and what counts in it are items that arrived: 4
//! units each, whatever else was spent on them.

use std::time::{Duration, Instant};

use dynashard_local::{Counters, Stack};
use tokio::time::{sleep, timeout};

use crate::collection::Collection;
use crate::common::{Failure, MAIN_TABLE, METADATA_TABLE, PATIENCE, consumed, float, operation};
use crate::{Required, report};

/// The lease and the lifetime of requests are what a reshard waits for; both are short, so that what
/// takes the time is the move. The budget is one that a machine of two processors can spend.
pub(crate) const SETTINGS: &[(&str, &str)] = &[
    ("LeaseSecs", "2"),
    ("RequestLifetimeSecs", "2"),
    ("ScalingMode", "off"),
    ("MoverWriteUnits", "400"),
];

const BUDGET_WCU: f64 = 400.0;

/// What it takes to move an item of 1 KB.
const MOVE_WCU: f64 = 4.0;

/// Enough that a move takes longer than a slice of the mover, which has a minute.
const ITEMS: u32 = 8_000;

/// One source and several.
const COUNTS: [[u32; 2]; 2] = [[1, 4], [4, 1]];

/// The most write units that moving an item of 1 KB may take, its marker and its share of the job
/// included.
const MOST_WCU: f64 = 5.2;

/// The least share of its budget that the mover reaches.
const LEAST_SHARE: f64 = 0.9;

/// How often the counters are looked at, to find the first move and the last.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Returns whether the figures hold that come from counters.
pub(crate) async fn measure(stack: &Stack) -> Result<bool, Failure> {
    println!("The mover alone, {ITEMS} items of 1 KB, {BUDGET_WCU} write units a second");
    let collection = Collection::of(stack, "moved").await?;
    collection.load(ITEMS).await?;
    let mut holds = true;
    for counts in COUNTS {
        // What a lease may still say of the last change must have ended.
        sleep(Duration::from_secs(5)).await;
        holds &= reshard(stack, &collection, counts).await?;
    }
    Ok(holds)
}

async fn reshard(
    stack: &Stack,
    collection: &Collection,
    counts: [u32; 2],
) -> Result<bool, Failure> {
    let moves = f64::from(collection.leaving(ITEMS, counts)?);
    println!("\n  {} to {} shards: {moves} items change their home", counts[0], counts[1]);
    let before = stack.counters();
    collection.scale(counts[1]).await?;
    let window = timeout(PATIENCE, Window::opened(stack, &before)).await?;
    let what_moves = collection.moving().await?;
    let window = window.closed(stack, collection.moved(&what_moves)).await?;
    let scanned = stack.counters();
    collection.tables.rests(&collection.partition).await?;
    let after = stack.counters();

    let scan = consumed(&before, &scanned, MAIN_TABLE);
    let all = consumed(&before, &after, MAIN_TABLE);
    let job = consumed(&before, &after, METADATA_TABLE);
    let transactions = operation(&after, MAIN_TABLE, MOVES).requests
        - operation(&before, MAIN_TABLE, MOVES).requests;
    report("transactions an item", float(transactions) / moves, None);
    report("write units an item: moving it", scan.consumed_wcu / moves, None);
    let markers = all.consumed_wcu - scan.consumed_wcu;
    report("write units an item: removing its marker", markers / moves, None);
    report("write units an item: the job, in the metadata table", job.consumed_wcu / moves, None);
    let wcu = (all.consumed_wcu + job.consumed_wcu) / moves;
    let holds = report("write units an item, all in all", wcu, Some(Required::AtMost(MOST_WCU)));
    report("read units an item: the scan that moves", scan.consumed_rcu / moves, None);
    report("read units an item, closing scan and markers included", all.consumed_rcu / moves, None);
    report("seconds from the first move to the last", window.length().as_secs_f64(), None);
    let required = Required::AtLeast(LEAST_SHARE);
    let share = moves * MOVE_WCU / (window.length().as_secs_f64() * BUDGET_WCU);
    report("share of the budget between them", share, Some(required));
    let throttles = after.table_throttles(MAIN_TABLE) - before.table_throttles(MAIN_TABLE);
    report("throttles met", float(throttles), None);
    Ok(holds)
}

/// The operation by which items move, and which nothing else uses on the main table here.
const MOVES: &str = "TransactWriteItems";

fn moving_wcu(counters: &Counters) -> f64 {
    operation(counters, MAIN_TABLE, MOVES).consumed_wcu
}

/// The time from the first move to the last.
#[derive(Debug)]
struct Window {
    began: Instant,
    ended: Instant,
    /// What all moves have consumed by now.
    wcu: f64,
}

impl Window {
    /// Waits for the first move.
    async fn opened(stack: &Stack, before: &Counters) -> Self {
        let mut last_look = Instant::now();
        loop {
            let wcu = moving_wcu(&stack.counters());
            if wcu > moving_wcu(before) {
                return Self { began: last_look, ended: Instant::now(), wcu };
            }
            last_look = Instant::now();
            sleep(LOOK_EVERY).await;
        }
    }

    /// Goes on looking until everything has moved.
    async fn closed(
        mut self,
        stack: &Stack,
        moved: impl Future<Output = Result<(), Failure>>,
    ) -> Result<Self, Failure> {
        let mut moved = std::pin::pin!(moved);
        loop {
            let is_over = tokio::select! {
                moved = &mut moved => { moved?; true }
                () = sleep(LOOK_EVERY) => false,
            };
            let wcu = moving_wcu(&stack.counters());
            if wcu > self.wcu {
                (self.wcu, self.ended) = (wcu, Instant::now());
            }
            if is_over {
                return Ok(self);
            }
        }
    }

    fn length(&self) -> Duration {
        self.ended - self.began
    }
}
