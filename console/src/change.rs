//! What another shard count would do, before anybody asks for it. Pure.

use std::time::Duration;

use dynashard_core::{Code, CollectionMetadata, Error, Phase, Settings, Waits, most_moves_per_sec};
use dynashard_keys::{Placement, ShardCount};
use serde::Serialize;

use crate::cost::{MOVE_WCU, Prices};

/// The read units of one more shard in an eventually consistent page.
const SHARD_RCU: f64 = 0.5;

/// Bounds of what is not known exactly. Without an upper one nobody knows how much it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Between<T> {
    pub(crate) least: T,
    pub(crate) most: Option<T>,
}

/// What another count would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ChangePlan {
    from: u32,
    /// As asked for, and rounded as the placement needs.
    asked: u32,
    to: u32,
    /// `none`, `grow`, `shrink`, or for a change that runs `turn_round` or `keep`.
    action: &'static str,
    /// The part of the items that changes its shard, from 0 to 1.
    share_moved: f64,
    /// The items of the collection and those that move.
    items: Between<f64>,
    items_moved: Between<f64>,
    write_units: Between<f64>,
    usd: Option<Between<f64>>,
    /// The seconds until puts go to the new shards, until the items have moved at the mover's pace, and until the
    /// change closes, which waits for the requests from before.
    /// `null` after a change that runs: nobody knows when that closes.
    in_force_secs: Option<u64>,
    moving_secs: Between<u64>,
    closes_secs: Option<Between<u64>>,
    old_requests_secs: u64,
    /// What each page of a query reads more then, at least; below 0 it is less.
    query_rcu_more: f64,
    /// What each shard is to take: the capacity then, in units a second.
    write_capacity: f64,
    read_capacity: f64,
}

impl<T: Copy> Between<T> {
    fn map<U>(self, of: impl Fn(T) -> U) -> Between<U> {
        Between { least: of(self.least), most: self.most.map(of) }
    }
}

/// What `asked` shards would do. `items` is how many there are, as far as anybody knows.
pub(crate) fn plan_change(
    metadata: &CollectionMetadata,
    settings: &Settings,
    waits: Waits,
    asked: ShardCount,
    items: Between<f64>,
    prices: Option<Prices>,
) -> Result<ChangePlan, Error> {
    let placement = metadata.placement;
    let to = placement.round(asked);
    // What is above a limit that was lowered may go down, and turn round.
    let max = settings.max_shards.max(metadata.phase.most_shards(metadata.number_of_shards));
    if to > max {
        let why = format!("{asked} shards under {placement} make {to}; the stack allows {max}");
        return Err(Error::new(Code::BadShardCount, why));
    }
    let from = metadata.number_of_shards;
    let action = match metadata.phase {
        Phase::Stable if to == from => "none",
        Phase::Stable if to > from => "grow",
        Phase::Stable => "shrink",
        _ if metadata.epochs.changing.is_some() => {
            let why = "an older epoch of the collection is being changed; the newest can be when that has closed";
            return Err(Error::new(Code::ReshardRunning, why));
        }
        Phase::Forward { from, .. } | Phase::Move { from, .. }
            if to == from && metadata.reshard().is_some() =>
        {
            "turn_round"
        }
        Phase::Forward { to: running, .. } | Phase::Move { to: running, .. } if to == running => {
            "keep"
        }
        Phase::Forward { from, to: running } | Phase::Move { from, to: running } => {
            let why = format!(
                "the collection is being changed from {from} to {running} shards; until that has closed only {from} \
                 may be asked for, which turns it round"
            );
            return Err(Error::new(Code::ReshardRunning, why));
        }
    };
    // A change that runs moves its items before it turns round.
    let from = match metadata.phase {
        Phase::Forward { to: running, .. } | Phase::Move { to: running, .. } => running,
        Phase::Stable => from,
    };
    let moves = matches!(action, "grow" | "shrink" | "turn_round");
    let share_moved = if moves { share_moved(placement, from, to) } else { 0.0 };
    let mut items_moved = items.map(|items| (items * share_moved).round());
    if share_moved == 0.0 {
        items_moved.most = Some(0.0);
    }
    let write_units = items_moved.map(|items| items * MOVE_WCU);
    let per_sec = most_moves_per_sec(settings, from.get(), to.get(), 0.0);
    let moving_secs =
        items_moved.map(|items| if items > 0.0 { whole_secs(items / per_sec) } else { 0 });
    let is_change = action != "none" && action != "keep";
    let settle = if is_change { waits.leases_end } else { Duration::ZERO };
    let closes = moving_secs.map(|moving| {
        if share_moved == 0.0 {
            return ceil_secs(settle);
        }
        // T' of `forward`. Then all is moved, and requests from before `move` have to be over, and the leases that they were
        // signed under.
        let until_closing = Duration::from_secs(moving).max(settle + waits.request_lifetime);
        ceil_secs(settle + until_closing + waits.before_close())
    });
    let is_known = metadata.phase == Phase::Stable;
    let counted = |count: ShardCount| f64::from(count.get());
    Ok(ChangePlan {
        from: from.get(),
        asked: asked.get(),
        to: to.get(),
        action,
        share_moved,
        items,
        items_moved,
        write_units,
        usd: prices.map(|prices| write_units.map(|units| prices.of_writes(units))),
        in_force_secs: is_known.then(|| ceil_secs(settle)),
        moving_secs,
        closes_secs: is_known.then_some(closes),
        old_requests_secs: ceil_secs(waits.request_lifetime),
        query_rcu_more: (counted(to) - counted(from)) * SHARD_RCU,
        write_capacity: counted(to) * f64::from(settings.partition.write_units),
        read_capacity: counted(to) * f64::from(settings.partition.read_units),
    })
}

/// The part of the items that changes its shard. Growth from N to M moves items only into shards N and above, so
/// each new shard's share; a growth under `random` moves nothing.
pub(crate) fn share_moved(placement: Placement, from: ShardCount, to: ShardCount) -> f64 {
    let (from, to) = (f64::from(from.get()), f64::from(to.get()));
    if to > from {
        if placement.is_calculated() { 1.0 - from / to } else { 0.0 }
    } else {
        1.0 - to / from
    }
}

fn ceil_secs(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "above zero, and `as` saturates"
)]
fn whole_secs(secs: f64) -> u64 {
    secs.ceil() as u64
}

#[cfg(test)]
mod tests {
    use dynashard_core::{Epoch, Epochs};
    use dynashard_keys::{PartitionKey, SortKey};

    use super::*;

    fn count(n: u32) -> ShardCount {
        ShardCount::new(n).expect("a count")
    }

    fn collection(placement: Placement, shards: u32) -> CollectionMetadata {
        let partition = PartitionKey::new("EWR").expect("a key");
        CollectionMetadata::stable(partition, placement, count(shards), 1_000)
    }

    fn plan(
        metadata: &CollectionMetadata,
        asked: u32,
        items: Option<f64>,
    ) -> Result<ChangePlan, Code> {
        let items = Between { least: items.unwrap_or(0.0), most: items };
        plan_between(metadata, asked, items)
    }

    fn plan_between(
        metadata: &CollectionMetadata,
        asked: u32,
        items: Between<f64>,
    ) -> Result<ChangePlan, Code> {
        let settings = Settings::default();
        let waits = Waits::of(&settings);
        let prices = Some(Prices { write_units_usd: 0.625e-6, read_units_usd: 0.125e-6 });
        plan_change(metadata, &settings, waits, count(asked), items, prices).map_err(|e| e.code())
    }

    #[test]
    fn a_growth_moves_what_the_new_shards_hold() {
        let grown = plan(&collection(Placement::Xxh64, 4), 13, Some(1e6)).expect("a plan");
        assert_eq!((grown.from, grown.asked, grown.to, grown.action), (4, 13, 16, "grow"));
        assert_eq!((grown.share_moved, grown.items_moved.most), (0.75, Some(750_000.0)));
        assert_eq!(grown.write_units.most, Some(3_750_000.0));
        let usd = grown.usd.and_then(|usd| usd.most);
        assert!(usd.is_some_and(|usd| (usd - 2.343_75).abs() < 1e-9), "{grown:?}");
        assert_eq!(grown.moving_secs.most, Some(469), "at 400 items a second from 4 shards each");
        assert_eq!(grown.in_force_secs, Some(4), "T' of a lease of 2 seconds");
        // H, T' twice, and for how long a replica may lag.
        let closes = grown.closes_secs.and_then(|of| of.most).expect("it is known");
        assert_eq!(closes, 997, "{grown:?}");
        assert_eq!(grown.query_rcu_more.to_bits(), 6.0_f64.to_bits());
    }

    /// The stack takes what the page refused.
    #[test]
    fn regression_what_is_above_a_lowered_limit_could_not_be_changed_in_the_console() {
        let above = collection(Placement::Xxh64, 512);
        let shrunk = plan(&above, 256, None).map(|plan| plan.action);
        assert_eq!(shrunk, plan(&above, 512, None).map(|_| "shrink"));
        assert_eq!(plan(&above, 1_024, None).err(), Some(Code::BadShardCount));
        let phase = Phase::Move { from: count(512), to: count(4) };
        let running = CollectionMetadata { phase, number_of_shards: count(4), ..above };
        assert_eq!(plan(&running, 512, None).map(|plan| plan.action), Ok("turn_round"));
    }

    #[test]
    fn regression_items_of_one_shard_were_to_move_at_the_pace_of_ten() {
        let grown = plan(&collection(Placement::Xxh64, 1), 16, Some(1e6)).expect("a plan");
        assert_eq!(grown.moving_secs.least, 2_344, "937,500 items, at 400 a second");
        assert!(grown.closes_secs.is_some_and(|closes| closes.least >= 2_344), "{grown:?}");
    }

    #[test]
    fn regression_a_change_promised_the_items_of_the_last_one_alone() {
        let items = Between { least: 344.0, most: Some(15_544.0) };
        let grown = plan_between(&collection(Placement::Xxh64, 4), 16, items).expect("a plan");
        assert_eq!(grown.items_moved, Between { least: 258.0, most: Some(11_658.0) });
        assert_eq!(grown.write_units.most, Some(58_290.0));
        let unknown = Between { least: 1_000.0, most: None };
        let grown = plan_between(&collection(Placement::Xxh64, 4), 16, unknown).expect("a plan");
        assert_eq!(grown.items_moved, Between { least: 750.0, most: None });
        assert!(grown.closes_secs.is_some_and(|of| of.least >= 960 && of.most.is_none()));
    }

    #[test]
    fn a_growth_of_a_random_collection_moves_nothing_and_closes_at_once() {
        let grown = plan(&collection(Placement::Random, 2), 5, None).expect("a plan");
        let none = Between { least: 0.0, most: Some(0.0) };
        assert_eq!((grown.to, grown.items_moved), (5, none));
        assert_eq!(grown.closes_secs, Some(Between { least: 4, most: Some(4) }));
        let shrunk = plan(&collection(Placement::Jump, 8), 6, Some(800.0)).expect("a plan");
        assert_eq!((shrunk.action, shrunk.items_moved.most), ("shrink", Some(200.0)));
    }

    #[test]
    fn what_cannot_be_asked_for_says_why() {
        assert_eq!(plan(&collection(Placement::Xxh64, 4), 257, None), Err(Code::BadShardCount));
        let same = plan(&collection(Placement::Xxh64, 4), 3, Some(9.0)).expect("a plan");
        assert_eq!((same.action, same.items_moved.most), ("none", Some(0.0)));
        assert_eq!(same.closes_secs, Some(Between { least: 0, most: Some(0) }));
        let running = CollectionMetadata {
            phase: Phase::Forward { from: count(4), to: count(8) },
            ..collection(Placement::Xxh64, 4)
        };
        assert_eq!(plan(&running, 16, None), Err(Code::ReshardRunning));
        let turned = plan(&running, 4, Some(800.0)).expect("a plan");
        assert_eq!(
            (turned.action, turned.from, turned.items_moved.most),
            ("turn_round", 8, Some(400.0))
        );
        assert_eq!((turned.in_force_secs, turned.closes_secs), (None, None), "after what runs");
        assert_eq!(plan(&running, 8, None).map(|plan| plan.action), Ok("keep"));
    }

    /// The newest epoch was offered to be turned round, and the change was refused.
    #[test]
    fn regression_the_change_of_an_older_epoch_was_taken_for_one_of_the_newest() {
        let boundary = SortKey::string("m").expect("a sort key");
        let older = vec![Epoch { count: count(4), boundary }];
        let running = CollectionMetadata {
            epochs: Epochs { older, changing: Some(0), ..Epochs::default() },
            phase: Phase::Forward { from: count(4), to: count(8) },
            ..collection(Placement::Xxh64, 8)
        };
        for asked in [4, 8] {
            assert_eq!(plan(&running, asked, None), Err(Code::ReshardRunning));
        }
    }

    #[test]
    fn regression_a_growth_under_random_was_offered_to_be_turned_round() {
        let running = CollectionMetadata {
            phase: Phase::Forward { from: count(2), to: count(5) },
            ..collection(Placement::Random, 2)
        };
        assert_eq!(plan(&running, 2, None), Err(Code::ReshardRunning));
    }
}
