//! `dynashard scale --dry-run`: what a change of a shard count would move, take and cost.

use dynashard_core::ports::Consistency;
use dynashard_core::query::{PageBudget, Query, Strategy};
use dynashard_core::{Fields, Phase, Settings, Waits, most_moves_per_sec};
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

/// What a change would do.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Forecast<'a> {
    pk: &'a str,
    from: u32,
    to: u32,
    /// How many items there are, and how that is known.
    items: u64,
    items_known_by: Known,
    items_to_move: u64,
    /// For items of up to 1 KB, with their markers.
    write_units: u64,
    /// On demand.
    usd: f64,
    /// How long moving takes at least.
    move_secs: u64,
    /// How long after its decision the change closes at the earliest.
    close_secs: u64,
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
    (requested, rate): (ShardCount, Option<u32>),
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
    if to > settings.max_shards {
        let (placement, max) = (metadata.placement, settings.max_shards);
        let detail =
            format!("{requested} shards under {placement} make {to}; the stack allows {max}");
        return Err(Failure { code: "bad_shard_count", detail });
    }
    let estimated = whole(metadata.estimated_items());
    let (items, known) = match items {
        Some(told) => (told, Known::Told),
        None if estimated > 0 => (estimated, Known::ByLastChange),
        None => counted(connection, pk, output).await?,
    };
    let demand = reader.activity(&metadata, deadline(&directory)).await.demand;
    let writes = demand.ok().flatten().map_or(0.0, |rates| rates.write_units);
    let usd = prices(None)?.write_unit;
    let forecast = Forecast::of(pk, [from, to], metadata.placement, items, known)
        .at(settings, rate, writes)
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
        // Growth under `random` moves nothing, and where nothing changes nothing moves.
        let moves = from != to && (placement.is_calculated() || to < from);
        let share = 1.0 - f64::from(least.get()) / f64::from(most.get());
        let items_to_move = if moves { whole(float(items) * share) } else { 0 };
        Self {
            pk: pk.as_str(),
            from: from.get(),
            to: to.get(),
            items,
            items_known_by,
            items_to_move,
            write_units: whole(float(items_to_move) * MOVE_WCU),
            usd: 0.0,
            move_secs: 0,
            close_secs: 0,
        }
    }

    /// With times, where clients write so many units a second.
    fn at(self, settings: &Settings, rate: Option<u32>, writes: f64) -> Self {
        if self.from == self.to {
            return self;
        }
        let settings =
            Settings { mover_wcu: rate.unwrap_or(settings.mover_wcu), ..settings.clone() };
        let waits = Waits::of(&settings);
        let move_secs = if self.items_to_move == 0 {
            0
        } else {
            let per_sec = most_moves_per_sec(&settings, self.from, self.to, writes);
            whole((float(self.items_to_move) / per_sec).ceil())
        };
        let requests = if self.moves_nothing() { 0 } else { waits.request_lifetime.as_secs() };
        let replicas = if self.moves_nothing() { 0 } else { waits.before_close().as_secs() };
        let close_secs = waits.leases_end.as_secs() + move_secs.max(requests) + replicas;
        Self { move_secs, close_secs, ..self }
    }

    fn for_dollars(self, write_unit: f64) -> Self {
        Self { usd: float(self.write_units) * write_unit, ..self }
    }

    fn moves_nothing(&self) -> bool {
        self.items_to_move == 0 && self.items > 0
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
        let close = span(self.close_secs);
        if self.moves_nothing() {
            return format!(
                "{pk}: {from} to {to} shards; none of its {items} items ({known}) moves, and the new shards are in use after {close}"
            );
        }
        format!(
            "{pk}: {from} to {to} shards; {items_to_move} of {items} items ({known}) move\n  \
             write units: {write_units} for items of up to 1 KB, {} USD on demand\n  \
             time: {} of moves at least; the change closes {close} after it begins at the earliest, and meanwhile clients read and write",
            number(*usd),
            span(self.move_secs)
        )
    }
}

/// Counts the items of a collection, up to a bound.
async fn counted(
    connection: &Connection,
    pk: &PartitionKey,
    output: &Output,
) -> Result<(u64, Known), Failure> {
    let activity = Activity::begin(!output.is_json());
    let reader = connection.reader();
    let fields = Fields::new([connection.schema().sort_key_name.clone()])?;
    let mut query = Query {
        strategy: Strategy::Parallel,
        consistency: Consistency::Eventual,
        fields: Some(fields),
        limit: PAGE,
        ..Query::all(pk.clone())
    };
    let mut items = 0;
    loop {
        let page =
            reader.query(&query, PageBudget::UNLIMITED, deadline(reader.directory())).await?;
        items += u64::try_from(page.items.len()).unwrap_or_default();
        activity.says(|| format!("{pk}: counting its items: {items}"));
        match page.cursor {
            None => return Ok((items, Known::Counted)),
            Some(_) if items >= MOST_COUNTED => return Ok((items, Known::CountedInPart)),
            cursor => query.cursor = cursor,
        }
    }
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
        let pk = PartitionKey::new("EWR").expect("a key");
        let count = |n| ShardCount::new(n).expect("a count");
        let of = |from, to, placement| {
            let counts = [count(from), count(to)];
            Forecast::of(&pk, counts, placement, 160_000, Known::Told)
                .at(&Settings::default(), Some(400), 0.0)
                .for_dollars(1.25e-6)
        };
        let grown = of(1, 16, Placement::Xxh64);
        assert_eq!((grown.items_to_move, grown.write_units), (150_000, 750_000));
        assert_eq!(grown.move_secs, 1_500, "100 items a second");
        assert!((grown.usd - 0.9375).abs() < 1e-9);
        assert!(grown.close_secs > grown.move_secs);
        assert_eq!(of(16, 4, Placement::Jump).items_to_move, 120_000);
        let random = of(1, 16, Placement::Random);
        assert_eq!((random.items_to_move, random.move_secs), (0, 0));
        assert!(random.close_secs < 60, "{random:?}");
        assert_eq!(of(16, 1, Placement::Random).items_to_move, 150_000);
        assert!(of(4, 4, Placement::Xxh64).text().contains("nothing would change"));
    }
}
