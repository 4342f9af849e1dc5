//! What to do, and why.

use dynashard_core::Settings;
use dynashard_keys::{Placement, ShardCount};
use serde::Serialize;

use crate::bulk_load::BulkLoad;
use crate::capacity::{Throughput, write_units_of_item};
use crate::figure::{dollars, number};
use crate::shards::{self, TARGET_UTILIZATION};
use crate::stage::Stage;
use crate::table::TableNeeds;
use crate::workload::Workload;

/// What to do about a workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// In a word.
    pub verdict: Verdict,
    /// The shards that the hottest key is to begin with.
    pub shards: u32,
    /// By which rule items find their shard.
    pub placement: &'static str,
    /// Why: whole sentences.
    pub reasons: Vec<String>,
    /// What to set, beside the template's defaults.
    pub settings: Vec<Setting>,
}

/// A parameter of the template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name.
    pub parameter: &'static str,
    /// What to set it to.
    pub value: String,
}

/// Whether to shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// One partition is enough, now and later.
    DoNotShard,
    /// One partition is enough now, and will not be.
    ShardLater,
    /// One partition is not enough.
    Shard,
    /// One item is too hot, which shards do not change.
    SplitItem,
    /// Its queries are too many, and shards make them more.
    CacheQueries,
}

impl Verdict {
    /// For people.
    pub const fn says(self) -> &'static str {
        match self {
            Self::DoNotShard => "do not shard",
            Self::ShardLater => "shard later",
            Self::Shard => "shard",
            Self::SplitItem => "split the hottest item",
            Self::CacheQueries => "cache the queries",
        }
    }
}

impl Advice {
    /// The advice for a workload from what it takes now and later.
    pub fn of(
        workload: &Workload,
        placement: Placement,
        table: &TableNeeds,
        bulk: Option<&BulkLoad>,
        now: &Stage,
        later: &Stage,
    ) -> Self {
        let one = Throughput::of_a_partition();
        // From there on the functions say that an item is hot, too: what else its shard is asked for comes on top.
        let is_too_hot = |stage: &Stage| {
            let of_item = stage.hottest_key.write_units * workload.hot_item_share;
            of_item > TARGET_UTILIZATION * one.write_units
        };
        let carried = shards::carrying(workload, later.month).is_some();
        let verdict = if is_too_hot(now) {
            Verdict::SplitItem
        } else if now.shards_with_head_room > 1 {
            Verdict::Shard
        } else if is_too_hot(later) {
            Verdict::SplitItem
        } else if later.shards_with_head_room > 1 {
            Verdict::ShardLater
        } else if !carried {
            Verdict::CacheQueries
        } else {
            Verdict::DoNotShard
        };
        let of_item = if is_too_hot(now) { now } else { later };
        let of = if verdict == Verdict::SplitItem { of_item } else { later };
        let mut reasons = vec![of_load(verdict, workload, now, of)];
        if verdict == Verdict::Shard && is_too_hot(later) {
            reasons.push(of_load(Verdict::SplitItem, workload, now, later));
        }
        if !carried && verdict != Verdict::CacheQueries {
            reasons.push(of_queries(later));
        }
        let is_sharded = matches!(verdict, Verdict::Shard | Verdict::ShardLater);
        if is_sharded {
            reasons.push(of_placement(placement, workload));
        }
        if is_sharded && !workload.sort_keys_grow {
            reasons.push(
                "The sort keys do not grow, so DynamoDB may split the hot partition between them by itself: measure \
                 without shards first."
                    .to_owned(),
            );
        }
        if is_sharded {
            reasons.extend(of_own_bytes(workload));
        }
        // Strongly consistent reads see neither.
        if carried && !workload.consistent_reads && later.hottest_key.read_units > one.read_units {
            reasons.push(format!(
                "In month {} the hottest key is read with {} read units a second, and a partition gives {}: a cache of single \
                 items (ItemCacheSecs) or read replicas (ReadReplicas) take reads off it without any shards.",
                later.month,
                number(later.hottest_key.read_units),
                number(one.read_units)
            ));
        }
        let of_bulk = bulk.and_then(|bulk| of_bulk(bulk, workload, placement));
        let (bulk_shards, bulk_reason) = of_bulk.unzip();
        reasons.extend(bulk_reason);
        let most = later.shards.max(bulk_shards.flatten().unwrap_or_default());
        reasons.push(of_mode(later));
        Self {
            verdict,
            shards: now.shards,
            placement: placement.as_str(),
            reasons,
            settings: settings(placement, workload, most)
                .into_iter()
                // A bulk load alone may ask for more shards than the stack allows.
                .filter(|setting| is_sharded || setting.parameter == MAX_SHARDS)
                .chain(warm(table))
                .collect(),
        }
    }
}

/// What loading items at once asks of the hottest key, if that is more than a partition gives, and the shards that give it, if a
/// collection can have so many.
fn of_bulk(
    bulk: &BulkLoad,
    workload: &Workload,
    placement: Placement,
) -> Option<(Option<u32>, String)> {
    let units = crate::float(bulk.write_units_per_second);
    let of_key = Throughput { write_units: units * workload.hot_key_share, read_units: 0.0 };
    let needed = shards::with_head_room(of_key);
    if needed <= 1 {
        return None;
    }
    let shards = shards::rounded(needed, placement).map(ShardCount::get);
    let how = shards.map_or_else(
        || "which is more than any number of shards gives: spread the load over keys, or take longer.".to_owned(),
        |shards| {
            format!(
                "which {shards} shards give: make its collection with as many before, spread the load over keys, or take longer."
            )
        },
    );
    let reason = format!(
        "While items are loaded in bulk the hottest key is asked for {} write units a second, {how}",
        number(of_key.write_units)
    );
    Some((shards, reason))
}

/// What is stored beside an item may take it past a whole kilobyte, of which each costs.
fn of_own_bytes(workload: &Workload) -> Option<String> {
    let with_own = workload.item_bytes.saturating_add(OWN_BYTES);
    let [without, with] = [workload.item_bytes, with_own].map(write_units_of_item);
    (with > without).then(|| {
        format!(
            "dynashard keeps up to {OWN_BYTES} bytes with each item, which take one of {} bytes from {without} to {with} write units: \
             plan with --item-bytes {with_own}.",
            workload.item_bytes
        )
    })
}

/// What an item has of ours at most: its version, its generation, and the suffix of its key (docs/COMPATIBILITY.md).
const OWN_BYTES: u32 = 30;

/// Both or neither: AWS takes no warm throughput of writes or reads alone.
fn warm(table: &TableNeeds) -> Vec<Setting> {
    if !table.is_more_than_a_new_table_takes() {
        return Vec::new();
    }
    let Throughput { read_units, write_units } = table.warm;
    vec![
        Setting { parameter: "WarmWriteUnits", value: format!("{write_units:.0}") },
        Setting { parameter: "WarmReadUnits", value: format!("{read_units:.0}") },
    ]
}

fn of_queries(later: &Stage) -> String {
    format!(
        "No number of shards carries the queries of month {}, since each reads at least half a unit of every shard: a cache \
         does, or fewer and larger queries.",
        later.month
    )
}

fn of_load(verdict: Verdict, workload: &Workload, now: &Stage, later: &Stage) -> String {
    let one = Throughput::of_a_partition();
    let months = later.month;
    match verdict {
        Verdict::SplitItem => format!(
            "One item is asked for {} write units a second {}, and an item lies in one shard however many there are: write it \
             as several items, as counters are.",
            number(later.hottest_key.write_units * workload.hot_item_share),
            if months == 0 { "now".to_owned() } else { format!("in month {months}") }
        ),
        Verdict::CacheQueries => of_queries(later),
        Verdict::Shard => format!(
            "The hottest key is asked for {} write units and {} read units a second at its peak. A partition gives {} and {}, of \
             which the plan uses 70%.",
            number(now.hottest_key.write_units),
            number(now.hottest_key.read_units),
            number(one.write_units),
            number(one.read_units)
        ),
        Verdict::ShardLater => {
            let is_above = |month: &u32| shards::needed(workload, *month) > 1;
            let first = (1..=months).find(is_above).unwrap_or(months);
            format!(
                "One shard is enough now. From month {first} on the hottest key needs more: dynashard keeps it at one shard \
                 until then, and grows it by itself."
            )
        }
        Verdict::DoNotShard => format!(
            "The hottest key is asked for {} write units and {} read units a second at its peak in month {months}, which one \
             partition gives with head room.",
            number(later.hottest_key.write_units),
            number(later.hottest_key.read_units)
        ),
    }
}

fn of_placement(placement: Placement, workload: &Workload) -> String {
    match placement {
        Placement::Random => "Items are only added, and none is read by its key, so random fits: growing moves no items."
            .to_owned(),
        Placement::Jump => format!(
            "Each of {} queries a second reads every shard, so a count that is not rounded up to a power of two saves \
             reads: jump.",
            number(workload.queries_per_second)
        ),
        Placement::Xxh64 if workload.reads_per_second > 0.0 => {
            "Items are read by their key, from which xxh64 finds their shard without a search.".to_owned()
        }
        Placement::Xxh64 => "xxh64 finds the shard of an item by its key. If items are only ever added, and none is read by \
                             its key, --append-only plans without moves."
            .to_owned(),
    }
}

fn of_mode(later: &Stage) -> String {
    let cost = later.cost;
    let (on_demand, provisioned) = (dollars(cost.on_demand_usd), dollars(cost.provisioned_usd));
    if cost.on_demand_usd <= cost.provisioned_usd {
        format!(
            "On demand is cheaper in the last month than capacity for the peak all the time: {on_demand} against {provisioned}."
        )
    } else {
        format!(
            "Capacity for the peak all the time is cheaper in the last month than on demand: {provisioned} against {on_demand}."
        )
    }
}

const MAX_SHARDS: &str = "MaxShards";

fn settings(placement: Placement, workload: &Workload, shards: u32) -> Vec<Setting> {
    /// From here on most shards are idle most of the time.
    const PEAKED: f64 = 4.0;
    let mut settings = Vec::new();
    if placement != Placement::default() {
        settings.push(Setting { parameter: "Placement", value: placement.to_string() });
    }
    // Twice what is planned, so that a plan that was too low is no limit.
    let most = shards.saturating_mul(2).min(ShardCount::MAX);
    if most > Settings::default().max_shards.get() {
        settings.push(Setting { parameter: MAX_SHARDS, value: most.to_string() });
    }
    if workload.queries_per_second > 0.0 && workload.peak_ratio >= PEAKED {
        settings.push(Setting { parameter: "ShrinkMode", value: "dry-run".to_owned() });
    }
    settings
}
