use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// What the demo measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Summary {
    /// Whether every flight came back once, in order and unchanged.
    pub(super) ok: bool,
    /// The flights that were loaded.
    pub(super) items: u64,
    /// How long loading took.
    pub(super) load_secs: f64,
    /// `PutItem` requests to the main table.
    pub(super) put_requests: u64,
    /// All requests to the metadata table while loading.
    pub(super) metadata_requests: u64,
    /// Write units that the engine reported for the puts.
    pub(super) consumed_wcu: f64,
    /// Operations that were sent to the API again, because it reported them as unprocessed.
    pub(super) resent: u64,
    /// How long reading everything back took.
    pub(super) read_secs: f64,
    /// Pages that were read.
    pub(super) pages: u64,
    /// Items that DynamoDB read, as the API reports them.
    pub(super) items_read: u64,
    /// What was wrong with what came back, the first few of each collection.
    pub(super) differences: Vec<String>,
    /// Items by collection and shard.
    pub(super) items_per_shard: BTreeMap<String, BTreeMap<u32, u64>>,
}

impl Summary {
    fn per_item(&self, count: u64) -> f64 {
        ratio(count, self.items)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |secs: f64| ratio(self.items, 1) / secs.max(f64::MIN_POSITIVE);
        writeln!(f, "Balance (items per shard)")?;
        balance(f, &self.items_per_shard)?;
        writeln!(f)?;
        writeln!(
            f,
            "Loaded    {} flights in {:.1} s: {:.0} a second",
            self.items,
            self.load_secs,
            rate(self.load_secs)
        )?;
        writeln!(
            f,
            "Cost      {:.4} PutItem requests, {:.4} metadata requests and {:.3} WCU an item; {} sent again",
            self.per_item(self.put_requests),
            self.per_item(self.metadata_requests),
            self.consumed_wcu / ratio(self.items, 1).max(1.0),
            self.resent
        )?;
        writeln!(
            f,
            "Read      {} items in order over {} pages in {:.1} s: {:.0} a second, {:.2} read per item returned",
            self.items,
            self.pages,
            self.read_secs,
            rate(self.read_secs),
            self.per_item(self.items_read)
        )?;
        for difference in &self.differences {
            writeln!(f, "WRONG     {difference}")?;
        }
        if self.ok {
            write!(f, "Result    every flight came back once, in order and unchanged")
        } else {
            write!(f, "Result    FAILED: what came back is not what was loaded")
        }
    }
}

/// Seconds with a fraction, for rates.
pub(super) fn secs(duration: Duration) -> f64 {
    duration.as_secs_f64()
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
        let fullest = shards.values().copied().max().unwrap_or(0);
        let mean = ratio(total, u64::try_from(shards.len()).unwrap_or(1));
        let above = (ratio(fullest, 1) / mean.max(1.0) - 1.0) * 100.0;
        write!(f, "  {:<26}", format!("{collection}: {total}, max +{above:.0}%"))?;
    }
    writeln!(f)?;
    let rows = items_per_shard.values().flat_map(BTreeMap::keys).copied();
    for shard in rows.collect::<std::collections::BTreeSet<_>>() {
        write!(f, "  {shard:>5}")?;
        for shards in items_per_shard.values() {
            let items = shards.get(&shard).copied().unwrap_or(0);
            write!(f, "  {:<18} {items:<7}", bar(items, most, BAR_CHARS))?;
        }
        writeln!(f)?;
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

#[expect(clippy::cast_precision_loss, reason = "figures for people, far below 2^53")]
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fill_their_width_in_eighths() {
        assert_eq!(bar(0, 8, 2), "");
        assert_eq!(bar(8, 8, 2), "██");
        assert_eq!(bar(5, 8, 1), "▋");
        assert_eq!(bar(9, 16, 2), "█▏");
    }
}
