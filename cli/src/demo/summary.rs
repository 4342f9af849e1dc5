use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::costs::Moving;
use super::history::{History, float};
use super::plan::Window;
use super::read_back::ReadBack;
use super::simulated::AbsorbedShare;

/// What the demo measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Summary {
    /// Whether every flight came back once, in order and unchanged.
    pub(super) ok: bool,
    /// The placement of the collections.
    pub(super) placement: &'static str,
    /// What began the growth: `writers` or `alarm`.
    pub(super) scaling: &'static str,
    /// Write units a second of one partition.
    pub(super) partition_wcu: u32,
    /// The flights that were written.
    pub(super) items: u64,
    /// From the first offer until the last flight was written.
    pub(super) load_secs: f64,
    /// By collection, the shard counts and when each came into force.
    pub(super) growth: BTreeMap<String, Vec<Grown>>,
    /// By collection, how each change of its count went.
    pub(super) reshards: BTreeMap<String, Vec<Resharded>>,
    /// When the last of them came into force, if the counts then stayed.
    pub(super) settled_secs: Option<f64>,
    /// What was measured after that.
    pub(super) steady: Option<Steady>,
    /// What was absorbed of everything up to the end of that, and what the simulation says of it. Not where the alarm alone
    /// begins the growth.
    pub(super) absorbed_share: Option<AbsorbedShare>,
    /// Writes that DynamoDB throttled while loading, by reason. The functions tried them again.
    pub(super) throttled: BTreeMap<String, u64>,
    /// `PutItem` requests that reached the engine of the main table while loading; throttled ones do
    /// not. One for each item, and one for each marker that a writer put.
    pub(super) put_requests: u64,
    /// Write units that the engine reported for them.
    pub(super) put_wcu: f64,
    /// What the application asked of the metadata table while loading.
    pub(super) metadata_requests: u64,
    /// What reshards have cost beside that.
    pub(super) moving: Moving,
    /// Operations that were sent to the API again, because it reported them as unprocessed.
    pub(super) resent: u64,
    /// Those of them whose outcome was unknown, so that some may lie in two shards.
    pub(super) outcome_unknown: u64,
    /// How often everything was read back: once when it was written, and where items were being moved
    /// then, once more when the reshards had closed.
    pub(super) reads: Vec<ReadBack>,
    /// Items by collection and shard.
    pub(super) items_per_shard: BTreeMap<String, BTreeMap<u32, u64>>,
    /// The chart of the run.
    pub(super) chart: PathBuf,
    /// The logs of the stack, unless they went to stderr.
    pub(super) logs: Option<PathBuf>,
}

/// A shard count that came into force.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Grown {
    at_secs: f64,
    shards: u32,
}

/// A change of a shard count, with times since the first write.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Resharded {
    from: u32,
    to: u32,
    decided_secs: f64,
    /// From the decision until writes went to the new shards.
    relief_secs: Option<f64>,
    /// When it closed, if the run waited for that.
    closed_secs: Option<f64>,
    items_moved: u64,
}

/// Means of the time in which no shard count changed any more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Steady {
    secs: f64,
    throttled_per_sec: f64,
    /// Writes that reached the engine for each that was absorbed, and their write units.
    puts_per_item: f64,
    put_wcu_per_item: f64,
    /// Looks at old homes for each: none where nothing moves.
    looks_per_item: f64,
    /// Items that were moved meanwhile.
    moves_per_sec: f64,
    collections: BTreeMap<String, SteadyCollection>,
}

/// One collection in that time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct SteadyCollection {
    shards: u32,
    capacity_per_sec: f64,
    offered_per_sec: f64,
    absorbed_per_sec: f64,
    /// What was absorbed of min(offered, capacity).
    absorbed_share: f64,
}

impl Steady {
    /// The means of the measured part of a run.
    pub(super) fn of(history: &History, Window { from, to }: Window) -> Self {
        let collections = history.keys.iter().enumerate().map(|(key, (name, _))| {
            let rates = history.rates(from, to, Some(key));
            let collection = SteadyCollection {
                shards: history.samples[to].keys[key].collection.shards,
                capacity_per_sec: history.capacity(to, key),
                offered_per_sec: rates.offered,
                absorbed_per_sec: rates.absorbed,
                absorbed_share: history.share(from, to, key),
            };
            (name.clone(), collection)
        });
        let all = history.rates(from, to, None);
        let secs = history.samples[to].at.saturating_sub(history.samples[from].at).as_secs_f64();
        let absorbed = (all.absorbed * secs).max(f64::MIN_POSITIVE);
        let (puts, looks) =
            (history.carried_out(from, to, "PutItem"), history.carried_out(from, to, "GetItem"));
        Self {
            secs,
            throttled_per_sec: all.throttled,
            puts_per_item: float(puts.requests) / absorbed,
            put_wcu_per_item: puts.consumed_wcu / absorbed,
            looks_per_item: float(looks.requests) / absorbed,
            moves_per_sec: all.moves,
            collections: collections.collect(),
        }
    }
}

/// The shard counts of every collection.
pub(super) fn growth(history: &History) -> BTreeMap<String, Vec<Grown>> {
    let collections = history.keys.iter().enumerate().map(|(key, (name, _))| {
        let steps = history.steps(key).into_iter();
        let grown = steps.map(|step| Grown { at_secs: step.at.as_secs_f64(), shards: step.shards });
        (name.clone(), grown.collect())
    });
    collections.collect()
}

/// The changes of every collection's count.
pub(super) fn reshards(history: &History) -> BTreeMap<String, Vec<Resharded>> {
    let collections = history.keys.iter().enumerate().map(|(key, (name, _))| {
        let reshards = history.reshards(key).into_iter().map(|reshard| {
            let relief = reshard.in_force.map(|at| at.saturating_sub(reshard.begun));
            Resharded {
                from: reshard.from,
                to: reshard.to,
                decided_secs: reshard.begun.as_secs_f64(),
                relief_secs: relief.map(|relief| relief.as_secs_f64()),
                closed_secs: reshard.closed.map(|at| at.as_secs_f64()),
                items_moved: reshard.moved,
            }
        });
        (name.clone(), reshards.collect())
    });
    collections.collect()
}

impl fmt::Display for Resharded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, decided_secs, items_moved, .. } = self;
        write!(f, "{from} to {to} decided at {decided_secs:.1} s")?;
        if let Some(relief_secs) = self.relief_secs {
            write!(f, ", in force {relief_secs:.1} s later")?;
        }
        if *items_moved > 0 {
            write!(f, ", {items_moved} items moved")?;
        }
        match self.closed_secs {
            Some(closed_secs) => write!(f, ", closed at {closed_secs:.1} s"),
            None => f.write_str(", not closed within the time limit"),
        }
    }
}

impl Summary {
    fn per_item(&self, count: u64) -> f64 {
        float(count) / float(self.items.max(1))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |secs: f64| float(self.items) / secs.max(f64::MIN_POSITIVE);
        writeln!(f, "Balance (items per shard)")?;
        balance(f, &self.items_per_shard)?;
        writeln!(f)?;
        for (name, steps) in &self.growth {
            let steps =
                steps.iter().map(|step| format!("{} at {:.0} s", step.shards, step.at_secs));
            writeln!(f, "Shards    {name}: {}", steps.collect::<Vec<_>>().join(", "))?;
        }
        for (name, reshards) in &self.reshards {
            for reshard in reshards {
                writeln!(f, "Reshard   {name}: {reshard}")?;
            }
        }
        self.fmt_steady(f)?;
        writeln!(
            f,
            "Written   {} flights in {:.1} s: {:.0} a second",
            self.items,
            self.load_secs,
            rate(self.load_secs)
        )?;
        let throttled = self.throttled.iter().map(|(reason, count)| format!("{count} {reason}"));
        let throttled = throttled.collect::<Vec<_>>().join(", ");
        writeln!(
            f,
            "Throttled {}",
            if throttled.is_empty() { "nothing" } else { throttled.as_str() }
        )?;
        writeln!(
            f,
            "Cost      an item: {:.4} PutItem requests, {:.4} throttled, {:.4} of metadata; {:.3} WCU\n          \
             {} items sent again, {} of them of unknown outcome",
            self.per_item(self.put_requests),
            self.per_item(self.throttled.values().sum()),
            self.per_item(self.metadata_requests),
            self.put_wcu / float(self.items.max(1)),
            self.resent,
            self.outcome_unknown
        )?;
        self.fmt_moving(f)?;
        self.fmt_reads(f)?;
        writeln!(f, "Chart     {}", self.chart.display())?;
        if let Some(logs) = &self.logs {
            writeln!(f, "Logs      {}", logs.display())?;
        }
        for difference in self.reads.iter().flat_map(|read| &read.differences) {
            writeln!(f, "WRONG     {difference}")?;
        }
        if self.ok {
            write!(f, "Result    every flight came back once, in order and unchanged")
        } else {
            write!(f, "Result    FAILED: what came back is not what was written")
        }
    }
}

impl Summary {
    fn fmt_moving(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moving = &self.moving;
        if moving.transactions == 0 {
            return Ok(());
        }
        writeln!(
            f,
            "Moving    {} items by {} transactions, {:.2} WCU each item; {} pages, {:.0} RCU; {} markers \
             removed, {:.0} WCU\n          \
             writers meanwhile: {} looks at old homes, {:.0} RCU; {} markers, 1 WCU each",
            moving.items,
            moving.transactions,
            moving.wcu_per_item(),
            moving.pages,
            moving.pages_rcu,
            moving.markers_removed,
            moving.markers_removed_wcu,
            moving.looks,
            moving.looks_rcu,
            moving.markers_put
        )
    }

    fn fmt_reads(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for read in &self.reads {
            writeln!(
                f,
                "Read      {} items in order, {}, {} pages, in {:.1} s: {:.0} a second; {:.2} read per item \
                 returned",
                self.items,
                if read.while_moving { "while items moved" } else { "while nothing moved" },
                read.pages,
                read.secs,
                float(self.items) / read.secs.max(f64::MIN_POSITIVE),
                self.per_item(read.items_read)
            )?;
        }
        Ok(())
    }

    fn fmt_steady(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((steady, settled_secs)) = self.steady.as_ref().zip(self.settled_secs) else {
            return writeln!(f, "Settled   not within the time limit");
        };
        writeln!(
            f,
            "Settled   at {settled_secs:.0} s; writes a second over the {:.0} s measured, {:.0} throttled:",
            steady.secs, steady.throttled_per_sec
        )?;
        for (name, collection) in &steady.collections {
            let SteadyCollection { shards, capacity_per_sec, .. } = collection;
            writeln!(
                f,
                "          {name}: {:.1}% of min(offered, capacity) absorbed: {:.0} of min({:.0}, \
                 {shards} shards for {capacity_per_sec:.0})",
                collection.absorbed_share * 100.0,
                collection.absorbed_per_sec,
                collection.offered_per_sec
            )?;
        }
        writeln!(
            f,
            "          an item: {:.3} PutItem requests, {:.3} WCU, {:.3} looks at an old home; {:.0} items \
             moved a second",
            steady.puts_per_item,
            steady.put_wcu_per_item,
            steady.looks_per_item,
            steady.moves_per_sec
        )?;
        match &self.absorbed_share {
            Some(share) => writeln!(f, "Absorbed  {share}"),
            None => Ok(()),
        }
    }
}

/// A row for each shard with a bar for each collection, all to one scale.
fn balance(
    f: &mut fmt::Formatter<'_>,
    items_per_shard: &BTreeMap<String, BTreeMap<u32, u64>>,
) -> fmt::Result {
    const BAR_CHARS: u64 = 18;
    let most =
        items_per_shard.values().flat_map(BTreeMap::values).copied().max().unwrap_or(1).max(1);
    write!(f, "  shard")?;
    for (collection, shards) in items_per_shard {
        let total: u64 = shards.values().sum();
        write!(f, "  {:<26}", format!("{collection}: {total} in {}", shards.len()))?;
    }
    writeln!(f)?;
    let rows = items_per_shard.values().flat_map(BTreeMap::keys).copied();
    for shard in rows.collect::<BTreeSet<_>>() {
        let mut row = format!("  {shard:>5}");
        for shards in items_per_shard.values() {
            let cell = shards
                .get(&shard)
                .map(|items| format!("  {:<18} {items:<7}", bar(*items, most, BAR_CHARS)));
            row += &cell.unwrap_or_else(|| " ".repeat(28));
        }
        writeln!(f, "{}", row.trim_end())?;
    }
    Ok(())
}

/// A bar in eighths of a character.
fn bar(value: u64, most: u64, chars: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = value * chars * 8 / most;
    let whole = usize::try_from(eighths / 8).unwrap_or(0);
    let part = usize::try_from(eighths % 8).unwrap_or(0);
    format!("{}{}", "█".repeat(whole), EIGHTHS[part])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dynashard_local::OperationCount;

    use super::super::history::{Collection, KeySample, Sample};
    use super::super::offer::Counts;
    use super::*;

    fn operations(secs: u64) -> BTreeMap<String, OperationCount> {
        let count = |per_sec: u64, wcu: u64| OperationCount {
            requests: per_sec * secs,
            consumed_wcu: float(wcu * secs),
            ..OperationCount::default()
        };
        [
            ("PutItem", count(380, 380)),
            ("GetItem", count(95, 0)),
            ("TransactWriteItems", count(7, 28)),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .into()
    }

    /// Ten seconds of one collection whose two shards absorb 380 of 800 offered writes a second.
    fn history() -> History {
        let sample = |secs: u64| Sample {
            at: Duration::from_secs(secs),
            keys: vec![KeySample {
                counts: Counts { offered: 800 * secs, absorbed: 380 * secs, ..Counts::default() },
                collection: Collection { shards: 2, ..Collection::COLD },
            }],
            throttles: BTreeMap::from([("hot".to_owned(), 500 * secs)]),
            operations: operations(secs),
            alarms: BTreeMap::new(),
        };
        History {
            partition_wcu: 200,
            keys: vec![("EWR".to_owned(), 800)],
            samples: vec![sample(5), sample(15)],
        }
    }

    #[test]
    fn the_share_is_of_what_the_shards_can_take() {
        let steady = Steady::of(&history(), Window { from: 0, to: 1 });
        let collection = SteadyCollection {
            shards: 2,
            capacity_per_sec: 400.0,
            offered_per_sec: 800.0,
            absorbed_per_sec: 380.0,
            absorbed_share: 0.95,
        };
        let collections = BTreeMap::from([("EWR".to_owned(), collection)]);
        let expected = Steady {
            secs: 10.0,
            throttled_per_sec: 500.0,
            puts_per_item: 1.0,
            put_wcu_per_item: 1.0,
            looks_per_item: 0.25,
            moves_per_sec: 7.0,
            collections,
        };
        assert_eq!(steady, expected);
    }

    #[test]
    fn a_summary_says_what_was_measured_and_what_is_wrong() {
        let history = history();
        let first = Resharded {
            from: 1,
            to: 4,
            decided_secs: 3.0,
            relief_secs: Some(4.5),
            closed_secs: Some(20.0),
            items_moved: 75,
        };
        let second = Resharded { closed_secs: None, items_moved: 0, ..first.clone() };
        let reshards = vec![first, Resharded { from: 4, to: 16, ..second }];
        let read = ReadBack {
            while_moving: true,
            secs: 1.0,
            pages: 1,
            items_read: 1_100,
            retried: 0,
            differences: vec!["EWR: 2013 did not come back".to_owned()],
        };
        let again = ReadBack { while_moving: false, differences: Vec::new(), ..read.clone() };
        let summary = Summary {
            ok: false,
            placement: "xxh64",
            scaling: "writers",
            partition_wcu: 200,
            items: 1_000,
            load_secs: 20.0,
            growth: growth(&history),
            reshards: BTreeMap::from([("EWR".to_owned(), reshards)]),
            settled_secs: Some(5.0),
            absorbed_share: None,
            steady: Some(Steady::of(&history, Window { from: 0, to: 1 })),
            throttled: BTreeMap::from([("hot".to_owned(), 7_500)]),
            put_requests: 1_000,
            metadata_requests: 10,
            put_wcu: 1_000.0,
            moving: Moving {
                items: 75,
                transactions: 76,
                transactions_wcu: 302.0,
                markers_removed: 74,
                markers_removed_wcu: 74.0,
                pages: 9,
                pages_rcu: 40.0,
                looks: 600,
                looks_rcu: 600.0,
                markers_put: 12,
            },
            resent: 3,
            outcome_unknown: 1,
            reads: vec![read, again],
            items_per_shard: BTreeMap::from([("EWR".to_owned(), BTreeMap::from([(1, 999)]))]),
            chart: PathBuf::from("charts/demo.svg"),
            logs: Some(PathBuf::from("charts/demo.log")),
        };
        let text = summary.to_string();
        let shown = [
            "EWR: 2 at 5 s",
            "at 5 s; writes a second over the 10 s measured, 500 throttled",
            "EWR: 95.0% of min(offered, capacity) absorbed: 380 of min(800, 2 shards for 400)",
            "EWR: 1 to 4 decided at 3.0 s, in force 4.5 s later, 75 items moved, closed at 20.0 s",
            "EWR: 4 to 16 decided at 3.0 s, in force 4.5 s later, not closed within the time limit",
            "an item: 1.000 PutItem requests, 1.000 WCU, 0.250 looks at an old home; 7 items moved",
            "75 items by 76 transactions, 4.03 WCU each item; 9 pages, 40 RCU; 74 markers removed",
            "600 looks at old homes, 600 RCU; 12 markers",
            "1000 items in order, while items moved, 1 pages, in 1.0 s: 1000 a second; 1.10 read",
            "1000 items in order, while nothing moved,",
            "7500 hot",
            "1.0000 PutItem requests, 7.5000 throttled, 0.0100 of metadata; 1.000 WCU\n",
            "Chart     charts/demo.svg\n",
            "Logs      charts/demo.log\n",
            "WRONG     EWR: 2013 did not come back",
            "FAILED",
        ];
        for shown in shown {
            assert!(text.contains(shown), "no {shown:?} in\n{text}");
        }
        let unsettled = Summary { steady: None, settled_secs: None, ..summary };
        assert!(unsettled.to_string().contains("not within the time limit"));
    }

    #[test]
    fn bars_fill_their_width_in_eighths() {
        assert_eq!(bar(0, 8, 2), "");
        assert_eq!(bar(8, 8, 2), "██");
        assert_eq!(bar(5, 8, 1), "▋");
        assert_eq!(bar(9, 16, 2), "█▏");
    }
}
