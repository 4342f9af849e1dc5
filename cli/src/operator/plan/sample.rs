//! The load that a sample of writes shows.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::numbers::float;
use crate::operator::keys::sample::{FEW_ROWS, Sample};

/// What the rows show of a workload.
pub(super) fn measure(sample: &Sample<'_>) -> Map<String, Value> {
    let mut of_seconds = HashMap::<i64, u64>::new();
    let mut of_keys = HashMap::<(&str, i64), u64>::new();
    for (_, key, second) in sample.writes() {
        *of_seconds.entry(second).or_default() += 1;
        *of_keys.entry((key, second)).or_default() += 1;
    }
    let ends = of_seconds.keys().max().zip(of_seconds.keys().min());
    let seconds = ends.map_or(1, |(last, first)| last.abs_diff(*first).saturating_add(1));
    let rows = float(of_seconds.values().sum::<u64>());
    let mean = rows / float(seconds);
    let most = |counts: &mut dyn Iterator<Item = u64>| float(counts.max().unwrap_or(0));
    let peak = most(&mut of_seconds.values().copied());
    // The hottest key is the one that has the busiest second, when a partition has to take it.
    let busiest = of_keys.iter().map(|((key, _), rows)| (*rows, *key)).max();
    let (of_its_second, hot_key) = busiest.unwrap_or_default();
    let mut fields = Map::new();
    let mut set = |name: &str, figure: f64| fields.insert(name.to_owned(), figure.into());
    set("writes_per_second", mean);
    set("peak_ratio", peak / mean);
    set("hot_key_share", float(of_its_second) / peak);
    if let Some(sort) = sample.sort_keys() {
        let mut of_items = HashMap::<_, u64>::new();
        for (row, _, _) in sample.writes().filter(|(_, key, _)| *key == hot_key) {
            *of_items.entry(sort.number(row)).or_default() += 1;
        }
        let of_hot_key = float(of_items.values().sum::<u64>().max(1));
        let hottest = of_items.into_values().max().unwrap_or(0);
        // A few rows are chance, and no share.
        let share = if hottest < FEW_ROWS { 0.0 } else { float(hottest) / of_hot_key };
        set("hot_item_share", share);
    }
    fields
}
