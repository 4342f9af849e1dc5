//! What the demo has measured, and whether it shows what it is to show.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::costs::Moving;
use super::history::{History, Resharded, Step};
use super::plan::Window;
use super::read_back::ReadBack;
use super::simulated::{AbsorbedShare, COOLDOWN_OF_ONE_MORE};
use crate::args::Through;
use crate::numbers::float;
use crate::project::installed;

/// What the demo measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Summary {
    /// Whether every flight came back once, in order and unchanged.
    pub(super) ok: bool,
    /// The placement of the collections.
    pub(super) placement: &'static str,
    /// What the flights went through, there and back.
    pub(super) through: Through,
    /// What began the growth: `writers` or `alarm`.
    pub(super) scaling: &'static str,
    /// Write units a second of one partition.
    pub(super) partition_wcu: u32,
    /// The writes a second that the machine carries, if that was looked at.
    pub(super) carried_per_sec: Option<f64>,
    /// The flights that were written.
    pub(super) items: u64,
    /// From the first offer until the last flight was written.
    pub(super) load_secs: f64,
    /// By collection, the shard counts and when each came into force.
    pub(super) growth: BTreeMap<String, Vec<Step>>,
    /// By collection, how each change of its count went.
    pub(super) reshards: BTreeMap<String, Vec<Resharded>>,
    /// When the last of them came into force, if the counts then stayed.
    pub(super) settled_secs: Option<f64>,
    /// From when on each key took what was offered to it, if it did in the end.
    pub(super) relieved_secs: Option<f64>,
    /// What was measured after that.
    pub(super) steady: Option<Steady>,
    /// What was absorbed of everything up to the end of that, and what the simulation says of it and of another rule. Not
    /// where the alarm alone begins the growth.
    pub(super) absorbed_share: Option<AbsorbedShare>,
    /// Writes that DynamoDB throttled while loading, by reason. Who wrote tried them again.
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
    /// Operations that were sent again, because the target reported them as unprocessed.
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
pub(super) fn growth(history: &History) -> BTreeMap<String, Vec<Step>> {
    let keys = history.keys.iter().enumerate();
    keys.map(|(key, (name, _))| (name.clone(), history.steps(key))).collect()
}

/// The changes of every collection's count.
pub(super) fn reshards(history: &History) -> BTreeMap<String, Vec<Resharded>> {
    let keys = history.keys.iter().enumerate();
    keys.map(|(key, (name, _))| (name.clone(), history.reshards(key))).collect()
}

impl Resharded {
    /// A line of what people read.
    fn line(&self) -> String {
        let Self { from, to, decided_secs, items_moved, .. } = self;
        let (decided, after) = match self.decided_after_throttle_secs {
            Some(secs) => (secs, "after its first throttle"),
            None => (*decided_secs, "after the first write"),
        };
        let relief = self.relief_secs.map_or_else(
            || "not in force within the time limit".to_owned(),
            |relief_secs| format!("in force {relief_secs:.1} s later"),
        );
        let closed = match self.closed_secs {
            _ if *items_moved == 0 && self.relief_secs.is_some() => String::new(),
            Some(secs) => format!(", {items_moved} moved by {secs:.0} s"),
            None => format!(", {items_moved} moved so far"),
        };
        format!("{from} → {to} shards {decided:.1} s {after}, {relief}{closed}")
    }
}

impl Summary {
    fn per_item(&self, count: u64) -> f64 {
        float(count) / float(self.items.max(1))
    }
}

impl fmt::Display for Summary {
    /// What fits on a screen; all figures are in the JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, reshards) in &self.reshards {
            for reshard in reshards {
                writeln!(f, "{name:<10}{}", reshard.line())?;
            }
        }
        self.fmt_steady(f)?;
        let throttled = self.throttled.values().sum::<u64>();
        writeln!(
            f,
            "Written   {} flights{} in {:.0} s, {:.0} a second, {:.2} write units each; {throttled} tries refused, {:.2} each",
            self.items,
            match self.through {
                Through::Api => "",
                Through::Endpoint => " through the endpoint",
            },
            self.load_secs,
            float(self.items) / self.load_secs.max(f64::MIN_POSITIVE),
            self.put_wcu / float(self.items.max(1)),
            self.per_item(throttled),
        )?;
        if self.moving.items > 0 {
            let wcu = self.moving.wcu_per_item();
            writeln!(f, "Moved     {} items, {wcu:.2} write units for each", self.moving.items)?;
        }
        for read in &self.reads {
            writeln!(
                f,
                "Read      {} items in order {}, {:.0} a second{}",
                self.items,
                if read.while_moving { "while others moved" } else { "while nothing moved" },
                float(self.items) / read.secs.max(f64::MIN_POSITIVE),
                read.items_read.map_or_else(String::new, |items_read| {
                    format!("; {:.2} read for each", self.per_item(items_read))
                })
            )?;
        }
        writeln!(f, "Chart     {}", self.chart.display())?;
        if let Some(logs) = &self.logs {
            writeln!(f, "Logs      {}", logs.display())?;
        }
        for difference in self.reads.iter().flat_map(|read| &read.differences) {
            writeln!(f, "WRONG     {difference}")?;
        }
        if !self.ok {
            return write!(f, "Result    FAILED: what came back is not what was written");
        }
        writeln!(f, "Result    every flight came back once, in order and unchanged")?;
        // A command that was installed is called by its name.
        let command = if installed().is_some() { "dynashard" } else { "cargo run --release --" };
        write!(f, "\nNext")?;
        for (arguments, what) in NEXT {
            write!(f, "\n  {:40}{what}", format!("{command} {arguments}"))?;
        }
        Ok(())
    }
}

/// What to try after the demo.
const NEXT: [(&str, &str); 3] = [
    ("demo --keep", "the same, and its console stays up"),
    ("local", "the application, for requests of your own"),
    ("simulate -h", "a load of your own, in virtual time"),
];

impl Summary {
    fn fmt_steady(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(steady) = &self.steady else {
            return writeln!(f, "Relieved  not within the time limit");
        };
        let relieved = self.relieved_secs.map(|secs| format!("at {secs:.0} s"));
        let relieved = relieved.unwrap_or_else(|| "not quite".to_owned());
        let collections = steady.collections.iter().map(|(name, collection)| {
            let SteadyCollection { absorbed_per_sec, offered_per_sec, .. } = collection;
            format!("{name} {absorbed_per_sec:.0} of {offered_per_sec:.0}/s")
        });
        writeln!(
            f,
            "Relieved  {relieved}; measured over {:.0} s: {}",
            steady.secs,
            collections.collect::<Vec<_>>().join(", ")
        )?;
        let Some(AbsorbedShare { measured, simulated, one_more }) = self.absorbed_share else {
            return Ok(());
        };
        writeln!(
            f,
            "Absorbed  {:.1}% of all that was offered; simulated: {:.1}%, and {:.1}% by one shard more each {} s",
            100.0 * measured,
            100.0 * simulated,
            100.0 * one_more,
            COOLDOWN_OF_ONE_MORE.as_secs()
        )
    }
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
            decided_after_throttle_secs: Some(2.5),
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
            items_read: Some(1_100),
            retried: 0,
            differences: vec!["EWR: 2013 did not come back".to_owned()],
        };
        let again = ReadBack { while_moving: false, differences: Vec::new(), ..read.clone() };
        let summary = Summary {
            ok: false,
            placement: "xxh64",
            through: Through::Api,
            scaling: "writers",
            partition_wcu: 200,
            carried_per_sec: Some(3_200.0),
            items: 1_000,
            load_secs: 20.0,
            growth: growth(&history),
            reshards: BTreeMap::from([("EWR".to_owned(), reshards)]),
            settled_secs: Some(5.0),
            relieved_secs: Some(7.0),
            absorbed_share: Some(AbsorbedShare { measured: 0.9, simulated: 0.91, one_more: 0.4 }),
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
            "EWR       1 → 4 shards 2.5 s after its first throttle, in force 4.5 s later, 75 moved by 20 s\n",
            "EWR       4 → 16 shards 2.5 s after its first throttle, in force 4.5 s later\n",
            "Relieved  at 7 s; measured over 10 s: EWR 380 of 800/s\n",
            "Absorbed  90.0% of all that was offered; simulated: 91.0%, and 40.0% by one shard more each 10 s\n",
            "Written   1000 flights in 20 s, 50 a second, 1.00 write units each; 7500 tries refused, 7.50 each\n",
            "Moved     75 items, 4.03 write units for each\n",
            "Read      1000 items in order while others moved, 1000 a second; 1.10 read for each\n",
            "Read      1000 items in order while nothing moved,",
            "Chart     charts/demo.svg\n",
            "Logs      charts/demo.log\n",
            "WRONG     EWR: 2013 did not come back",
            "FAILED",
        ];
        for shown in shown {
            assert!(text.contains(shown), "no {shown:?} in\n{text}");
        }
        let once = ReadBack { items_read: None, ..summary.reads[1].clone() };
        let summary = Summary { through: Through::Endpoint, reads: vec![once], ..summary };
        let text = summary.to_string();
        for shown in
            ["flights through the endpoint in 20 s", "while nothing moved, 1000 a second\n"]
        {
            assert!(text.contains(shown), "no {shown:?} in\n{text}");
        }
        let unsettled = Summary { steady: None, settled_secs: None, ..summary };
        assert!(unsettled.to_string().contains("not within the time limit"));
        let fine = Summary { ok: true, reads: Vec::new(), ..unsettled }.to_string();
        assert!(fine.ends_with("in virtual time") && fine.lines().count() < 20, "{fine}");
    }
}
