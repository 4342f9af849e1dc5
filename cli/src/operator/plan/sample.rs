//! The load that a sample of writes shows.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::operator::keys::sample::Column;
use crate::operator::keys::spread::float;
use crate::operator::keys::timed::TimedSample;

/// What the rows show of a workload.
pub(super) fn measure(sample: &TimedSample) -> Map<String, Value> {
    let mut of_seconds = HashMap::<i64, u64>::new();
    for (_, _, second) in sample.writes() {
        *of_seconds.entry(second).or_default() += 1;
    }
    let ends = of_seconds.keys().max().zip(of_seconds.keys().min());
    let seconds = ends.map_or(1, |(last, first)| last.abs_diff(*first).saturating_add(1));
    let rows = float(of_seconds.values().sum());
    let mean = rows / float(seconds);
    let most = |counts: &mut dyn Iterator<Item = u64>| float(counts.max().unwrap_or(0));
    let hottest = sample.partition().map(Column::rows_of_values).unwrap_or_default();
    let (hot_key, of_hot_key) =
        hottest.iter().copied().enumerate().max_by_key(|(_, rows)| *rows).unwrap_or_default();
    let mut fields = Map::new();
    let mut set = |name: &str, figure: f64| fields.insert(name.to_owned(), figure.into());
    set("writes_per_second", mean);
    set("peak_ratio", most(&mut of_seconds.values().copied()) / mean);
    set("hot_key_share", float(of_hot_key) / rows);
    if let Some((partition, sort)) = sample.partition().zip(sample.sort()) {
        let mut of_items = HashMap::<_, u64>::new();
        let rows = sample.writes().map(|(row, _, _)| row);
        for row in rows.filter(|row| partition.number(*row) == Some(hot_key)) {
            *of_items.entry(sort.number(row)).or_default() += 1;
        }
        set("hot_item_share", most(&mut of_items.into_values()) / float(of_hot_key.max(1)));
    }
    fields
}
