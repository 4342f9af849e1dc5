//! `dynashard scale --dry-run`: what a change of a shard count would move, take and cost.

use std::time::Duration;

use dynashard_core::ports::Consistency;
use dynashard_core::query::{PageBudget, Query, Strategy};
use dynashard_core::{Extent, Fields, Phase, Settings, Waits, most_moves_per_sec};
use dynashard_keys::{PartitionKey, Placement, ShardCount};
use dynashard_planning::figure::number;
use serde::Serialize;

use super::Failure;
use super::connect::{Connection, deadline};
use super::output::{Activity, Output};
use super::planning::prices;
use super::reshards::span;
use crate::numbers::float;

/// So many items are counted at most, for some 12,500 read units if they are of 1 KB.
const MOST_COUNTED: u64 = 100_000;

/// The most items of a page.
const PAGE: u32 = 1_000;

/// The write units that moving an item of up to 1 KB takes, and removing its marker.
const MOVE_WCU: f64 = 5.0;

/// Whether a change is only to be forecast.
#[derive(Debug, clap::Args)]
pub(super) struct ForecastArgs {
    /// Only say what the change would move, what it would take and cost, and how long.
    #[arg(long, conflicts_with = "no_wait")]
    pub(super) dry_run: bool,
    /// With --dry-run: take the collection to have so many items. Otherwise its last change tells, or up to 100,000 are counted.
    #[arg(long, value_name = "N", requires = "dry_run")]
    pub(super) items: Option<u64>,
}

/// What a change would do.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Forecast<'a> {
    pk: &'a str,
    from: u32,
    to: u32,
    /// Whether the change moves items. Growth under `random` moves none.
    #[serde(skip)]
    moves: bool,
    /// How many items there are, and how that is known.
    items: u64,
    items_known_by: Known,
    items_to_move: u64,
    /// For items of up to 1 KB, with their markers and read replicas.
    write_units: u64,
    /// On demand.
    usd: f64,
    /// How long moving takes at least; `null` where clients leave nothing for it.
    move_secs: Option<u64>,
    /// How long after its decision the change closes at the earliest.
    close_secs: Option<u64>,
}

/// How the number of items is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Known {
    Told,
    Counted,
    /// There are more.
    CountedInPart,
    ByLastChange,
}

/// Says what the change of a collection to so many shards would do. Nothing is changed.
pub(super) async fn forecast(
    connection: &Connection,
    pk: &PartitionKey,
    (extent, requested, rate): (&Extent, ShardCount, Option<u32>),
    items: Option<u64>,
    output: &mut Output,
) -> Result<(), Failure> {
    let reader = connection.reader();
    let directory = connection.directory();
    let (metadata, _) = reader.collection(pk, deadline(&directory)).await?;
    if let Phase::Forward { from, to } | Phase::Move { from, to } = metadata.phase {
        let detail = format!(
            "the collection is being changed from {from} to {to} shards, and another change begins when that has closed; `dynashard \
             reshards --pk` shows how far it is"
        );
        return Err(Failure { code: "reshard_running", detail });
    }
    let settings = &connection.place.settings;
    let (from, to) = (metadata.number_of_shards, metadata.placement.round(requested));
    if to > settings.max_shards.max(from) {
        let (placement, max) = (metadata.placement, settings.max_shards);
        let detail =
            format!("{requested} shards under {placement} make {to}; the stack allows {max}");
        return Err(Failure { code: "bad_shard_count", detail });
    }
    let estimated = whole(metadata.estimated_items());
    // Behind this key lies what gets the count.
    let newest = metadata.epochs.older.last().map(|epoch| &epoch.boundary);
    let (behind, descending) = match extent {
        Extent::Behind { boundary, descending } if newest.is_none() => {
            (Some(boundary), *descending)
        }
        Extent::Behind { boundary, .. } => (Some(boundary), metadata.epochs.descending),
        Extent::Newest | Extent::Older(_) | Extent::Whole => (newest, metadata.epochs.descending),
    };
    let (items, known) = match items {
        Some(told) => (told, Known::Told),
        None if estimated > 0 && behind.is_none() => (estimated, Known::ByLastChange),
        None => {
            let strategy = if behind.is_some() { Strategy::Ordered } else { Strategy::Parallel };
            let ascending = !descending;
            let start = behind.cloned();
            let query = Query { start, ascending, strategy, ..Query::all(pk.clone()) };
            counted(connection, query, output).await?
        }
    };
    let demand = reader.activity(&metadata, deadline(&directory)).await.demand;
    let writes = demand.ok().flatten().map_or(0.0, |rates| rates.write_units);
    let usd = prices(None)?.write_unit;
    let forecast = Forecast::of(pk, [from, to], metadata.placement, items, known)
        .at(settings, connection.waits().await, rate, writes)
        .with_replicas(settings.read_replicas)
        .for_dollars(usd);
    output.json(&forecast);
    output.text(forecast.text());
    Ok(())
}

impl<'a> Forecast<'a> {
    fn of(
        pk: &'a PartitionKey,
        [from, to]: [ShardCount; 2],
        placement: Placement,
        items: u64,
        items_known_by: Known,
    ) -> Self {
        let (least, most) = (from.min(to), from.max(to));
        let moves = from != to && (placement.is_calculated() || to < from);
        let share = 1.0 - f64::from(least.get()) / f64::from(most.get());
        let items_to_move = if moves { whole(float(items) * share) } else { 0 };
        Self {
            pk: pk.as_str(),
            from: from.get(),
            to: to.get(),
            moves,
            items,
            items_known_by,
            items_to_move,
            write_units: whole(float(items_to_move) * MOVE_WCU),
            usd: 0.0,
            move_secs: Some(0),
            close_secs: Some(0),
        }
    }

    /// With times, where clients write so many units a second to the collection.
    fn at(self, settings: &Settings, waits: Waits, rate: Option<u32>, writes: f64) -> Self {
        if self.from == self.to {
            return self;
        }
        let settings =
            Settings { mover_wcu: rate.unwrap_or(settings.mover_wcu), ..settings.clone() };
        let begins = secs(waits.leases_end);
        if !self.moves {
            return Self { close_secs: Some(begins), ..self };
        }
        let (from, to) = (f64::from(self.from), f64::from(self.to));
        // What items come to is a part of the shards that take writes, but where it shrinks.
        let of_destinations = if to > from { writes * (to - from) / to } else { writes };
        let per_sec = most_moves_per_sec(&settings, self.from, self.to, of_destinations);
        let secs_of_moves = (float(self.items_to_move) / per_sec).ceil();
        let move_secs = secs_of_moves.is_finite().then(|| whole(secs_of_moves));
        let old_requests = secs(waits.old_requests());
        let close_secs = move_secs.map(|moves| {
            let moves = moves.max(old_requests);
            begins.saturating_add(moves).saturating_add(secs(waits.before_close()))
        });
        Self { move_secs, close_secs, ..self }
    }

    /// Where each write of an item is written to so many read replicas, too: a plain write for each half of the move, and one for
    /// the marker.
    fn with_replicas(self, replicas: u32) -> Self {
        let of_each = MOVE_WCU + f64::from(replicas) * 3.0;
        Self { write_units: whole(float(self.items_to_move) * of_each), ..self }
    }

    fn for_dollars(self, write_unit: f64) -> Self {
        Self { usd: float(self.write_units) * write_unit, ..self }
    }

    fn text(&self) -> String {
        let Self { pk, from, to, items, items_to_move, write_units, usd, .. } = self;
        if from == to {
            return format!("{pk}: it has {to} shards, so nothing would change");
        }
        let known = match self.items_known_by {
            Known::Told => "as --items says",
            Known::Counted => "counted now",
            Known::CountedInPart => "counted so far, and there are more: --items says how many",
            Known::ByLastChange => "about, by what its last change moved",
        };
        let close = self.close_secs.map(span);
        if !self.moves {
            return format!(
                "{pk}: {from} to {to} shards; no item moves, and the new shards are in use after {}",
                close.unwrap_or_default()
            );
        }
        let time = match (self.move_secs.map(span), close) {
            (Some(moves), Some(close)) => format!(
                "{moves} of moves at least; the change closes {close} after it begins at the earliest, and meanwhile clients read and \
                 write"
            ),
            _ => "clients ask for all that the shards take which items come to, so that moving them may take very long".to_owned(),
        };
        format!(
            "{pk}: {from} to {to} shards; {items_to_move} of {items} items ({known}) move\n  \
             write units: {write_units} for items of up to 1 KB, {} USD on demand\n  \
             time: {time}",
            number(*usd)
        )
    }
}

/// Counts the items of a query, up to a bound.
async fn counted(
    connection: &Connection,
    query: Query,
    output: &Output,
) -> Result<(u64, Known), Failure> {
    let activity = Activity::begin(!output.is_for_machines());
    let reader = connection.reader();
    let fields = Fields::new([connection.schema().sort_key_name.clone()])?;
    let consistency = Consistency::Eventual;
    let mut query = Query { consistency, fields: Some(fields), limit: PAGE, ..query };
    let mut items = 0;
    loop {
        let page =
            reader.query(&query, PageBudget::UNLIMITED, deadline(reader.directory())).await?;
        items += u64::try_from(page.items.len()).unwrap_or_default();
        activity.says(|| format!("{}: counting its items: {items}", query.partition));
        match page.cursor {
            None => return Ok((items, Known::Counted)),
            Some(_) if items >= MOST_COUNTED => return Ok((items, Known::CountedInPart)),
            cursor => query.cursor = cursor,
        }
    }
}

/// Whole seconds, rounded up.
fn secs(time: Duration) -> u64 {
    whole(time.as_secs_f64().ceil())
}

fn whole(figure: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let whole = figure.round().max(0.0) as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_tells_what_moves_and_what_it_takes() {
        let settings = Settings::default();
        let pk = PartitionKey::new("EWR").expect("a key");
        let count = |n| ShardCount::new(n).expect("a count");
        let of = |from, to, placement| {
            let counts = [count(from), count(to)];
            Forecast::of(&pk, counts, placement, 160_000, Known::Told)
                .at(&settings, Waits::of(&settings), Some(400), 0.0)
                .for_dollars(1.25e-6)
        };
        let grown = of(1, 16, Placement::Xxh64);
        assert_eq!((grown.items_to_move, grown.write_units), (150_000, 750_000));
        assert_eq!(grown.move_secs, Some(1_500), "100 items a second");
        assert!((grown.usd - 0.9375).abs() < 1e-9);
        assert!(grown.close_secs > grown.move_secs);
        assert_eq!(of(16, 4, Placement::Jump).items_to_move, 120_000);
        let random = of(1, 16, Placement::Random);
        assert_eq!((random.items_to_move, random.move_secs), (0, Some(0)));
        assert!(random.close_secs < Some(60), "{random:?}");
        assert_eq!(of(16, 1, Placement::Random).items_to_move, 150_000);
        assert!(of(4, 4, Placement::Xxh64).text().contains("nothing would change"));
        let replicated = grown.with_replicas(2).for_dollars(1.25e-6);
        assert_eq!(replicated.write_units, 150_000 * 11);
    }

    /// It reckoned with no move a second, and the time of a release build was a few seconds.
    #[test]
    fn regression_a_forecast_beside_full_shards_overflowed() {
        let settings = Settings::default();
        let pk = PartitionKey::new("EWR").expect("a key");
        let counts = [2, 1].map(|n| ShardCount::new(n).expect("a count"));
        let forecast = Forecast::of(&pk, counts, Placement::Xxh64, 1_000, Known::Told);
        let forecast = forecast.at(&settings, Waits::of(&settings), None, 1_000.0);
        assert_eq!((forecast.move_secs, forecast.close_secs), (None, None));
        assert!(forecast.text().contains("very long"), "{}", forecast.text());
    }
}
