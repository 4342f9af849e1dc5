//! A hot collection in virtual time: its shards, its changes and what is known of it.

use std::time::Duration;

use dynashard_core::{
    Access, Cause, CollectionMetadata, CountChange, Evidence, Extent, HistoryEntry, MOVER_PART,
    Phase, ScalingMode, Settings, Throttle, Waits, decide, decide_merges, decide_shrink,
    is_merge_due,
};
use dynashard_keys::{PartitionKey, Placement, ShardCount, ShardId};

use super::chance::Chance;
use super::meter::{Meter, added};
use super::past::{self, Past};
use super::scenario::SortKeys;
use super::table::Table;
use super::{Strategy, epoch, rounded};
use crate::float;

/// How late CloudWatch evaluates a minute.
const ALARM_DELAY_SECS: u32 = 60;

/// One partition key, its shards, and what is known of it.
#[derive(Debug)]
pub(super) struct Collection<'a> {
    strategy: Strategy,
    settings: &'a Settings,
    waits: Waits,
    metadata: CollectionMetadata,
    meter: Meter,
    /// When what runs goes on.
    next_secs: Option<u32>,
    /// The count that is gone back to when a shrink has closed.
    then: Option<ShardCount>,
    /// The physical keys, of the first shard first.
    keys: Vec<String>,
    sort_keys: SortKeys,
    past: Past,
    /// Items that still have to move before the change can close.
    to_move: u64,
    /// When a change was made under which writers use what they have read before, and from how many shards.
    changed: Option<(u32, u32)>,
    pub(super) changes: Vec<Change>,
}

/// A change of a shard count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Change {
    /// When it began.
    pub second: u32,
    /// The shards before.
    pub from: u32,
    /// The shards after.
    pub to: u32,
}

impl<'a> Collection<'a> {
    pub(super) fn new(
        partition: PartitionKey,
        strategy: Strategy,
        settings: &'a Settings,
        environments: u32,
        (items, sort_keys): (u64, SortKeys),
    ) -> Self {
        let placement = match strategy {
            Strategy::OneMore => Placement::Random,
            _ => settings.placement,
        };
        let mut metadata = CollectionMetadata::cold(partition, placement);
        if let Strategy::Fixed(shards) = strategy {
            metadata.number_of_shards = shards;
        }
        Self {
            strategy,
            settings,
            waits: Waits::of(settings),
            metadata,
            meter: Meter::new(environments),
            next_secs: None,
            then: None,
            keys: Vec::new(),
            sort_keys,
            past: Past::new(items),
            to_move: 0,
            changed: None,
            changes: Vec::new(),
        }
    }

    /// The shards that take writes.
    pub(super) fn shards(&self) -> u32 {
        self.metadata.takes_writes().get()
    }

    /// The part of its writes that each shard gets: even, but for writers whose metadata is out of date.
    pub(super) fn parts(&self, second: u32) -> Vec<f64> {
        let shards = self.shards();
        let lease = self.settings.lease_term.as_secs_f64();
        let (stale, of) = match self.changed {
            // Writers read metadata at any time within the term of their leases.
            Some((at, from)) => ((1.0 - f64::from(second - at) / lease).max(0.0), from),
            None => (0.0, shards),
        };
        (0..shards)
            .map(|shard| {
                let old = if shard < of { stale / f64::from(of) } else { 0.0 };
                old + (1.0 - stale) / f64::from(shards)
            })
            .collect()
    }

    /// The physical key of a shard.
    pub(super) fn key(&mut self, shard: usize) -> &str {
        self.make_keys(shard);
        &self.keys[shard]
    }

    fn make_keys(&mut self, until: usize) {
        let Self { metadata, settings, keys, .. } = self;
        let first = metadata.placement.first().get();
        while keys.len() <= until {
            let shard = ShardId::new(first + u32::try_from(keys.len()).unwrap_or(0));
            let separator = settings.schema.separator;
            let key = metadata.partition.at(shard, metadata.placement, separator);
            keys.push(key.as_str().to_owned());
        }
    }

    /// Carries on the change that runs.
    pub(super) fn go_on(&mut self, second: u32) {
        if self.next_secs != Some(second) {
            return;
        }
        if self.to_move > 0 {
            self.next_secs = Some(second + 1);
            return;
        }
        let now_secs = epoch(second).as_secs();
        let metadata = &mut self.metadata;
        metadata.last_updated_secs = now_secs;
        metadata.rev += 1;
        self.next_secs = None;
        let phase = metadata.phase;
        if let Phase::Forward { to, .. } = phase {
            if let Some(at) = metadata.epochs.changing {
                metadata.epochs.older[at].count = to;
            } else {
                metadata.number_of_shards = to;
                metadata.shard_history.push(HistoryEntry { at_secs: now_secs, count: to });
            }
        }
        match phase {
            Phase::Forward { from, to } if metadata.reshard().is_some() => {
                metadata.phase = Phase::Move { from, to };
                self.to_move = self.past.begin_move(metadata, from, to);
                metadata.items_moved = self.to_move;
                self.next_secs = Some(second + whole(self.waits.request_lifetime));
            }
            Phase::Forward { .. } => metadata.phase = Phase::Stable,
            Phase::Move { .. } => {
                metadata.phase = Phase::Stable;
                self.past.merge(metadata);
                metadata.cleanup_pending = true;
                // By then no lease is on what was before.
                self.next_secs = Some(second + whole(self.waits.leases_end));
            }
            Phase::Stable => {
                metadata.cleanup_pending = false;
                if let Some(then) = self.then.take() {
                    self.begin(second, &Extent::Newest, then);
                }
            }
        }
    }

    /// Moves items as the mover does, with what writers have left of the partitions. `units` is what one item takes to
    /// write. Returns how many it moved.
    pub(super) fn move_items(
        &mut self,
        now: Duration,
        second: u32,
        units: u64,
        table: &mut Table,
    ) -> u64 {
        let Phase::Move { from, to } = self.metadata.phase else { return 0 };
        if self.to_move == 0 {
            return 0;
        }
        self.make_keys(super::index(from.max(to).get()));
        let (fewer, more) = (from.min(to).get(), from.max(to).get());
        let (sources, targets) =
            if from < to { (0..fewer, fewer..more) } else { (fewer..more, 0..fewer) };
        // A transaction costs twice what its writes do, at either home.
        let at_each = 2 * units;
        let of_source = MOVER_PART * f64::from(self.settings.partition.write_units);
        let of_all = f64::from(self.settings.mover_wcu) / f64::from(sources.end - sources.start);
        let most = of_source.min(of_all / 2.0) / float(at_each);
        let count = u64::from(sources.end - sources.start);
        // Fractions of an item are carried over: in every second as many as then are due.
        let due = rounded(most * (f64::from(second) + 1.0)) - rounded(most * f64::from(second));
        let mut moved = 0;
        for source in sources {
            let target = targets.start + (source + second) % (targets.end - targets.start);
            let items = due.min((self.to_move - moved).div_ceil(count)).min(self.to_move - moved);
            let keys = (&*self.keys[super::index(source)], &*self.keys[super::index(target)]);
            moved += table.transfer(now, keys, items, at_each);
        }
        self.to_move -= moved;
        moved
    }

    /// The end of a second in which so many items were written, and so many units asked for and granted.
    pub(super) fn end_second(
        &mut self,
        second: u32,
        written: u64,
        (asked, granted): (f64, f64),
        reason: Option<&'static str>,
        chance: &mut Chance,
    ) {
        self.past.write(written);
        self.meter.see(second, asked, granted);
        match self.strategy {
            Strategy::None | Strategy::Fixed(_) => {}
            Strategy::OneMore => self.add_one(second, reason.is_some()),
            Strategy::Dynashard | Strategy::DynashardByAlarm => {
                self.decide(second, reason, chance);
            }
        }
    }

    /// The rule of "Choosing the right number of shards for your large-scale Amazon DynamoDB table".
    fn add_one(&mut self, second: u32, is_throttled: bool) {
        let cooldown = self.settings.scaling.cooldown.as_secs();
        let now_secs = epoch(second).as_secs();
        let present = self.metadata.number_of_shards;
        let rests = now_secs.saturating_sub(self.metadata.last_updated_secs) >= cooldown;
        if !is_throttled || !rests || present >= self.settings.max_shards {
            return;
        }
        let to = ShardCount::new(present.get() + 1).unwrap_or(present);
        self.metadata.number_of_shards = to;
        self.metadata.last_updated_secs = now_secs;
        self.changed = Some((second, present.get()));
        self.changes.push(Change { second, from: present.get(), to: to.get() });
    }

    fn decide(&mut self, second: u32, reason: Option<&'static str>, chance: &mut Chance) {
        if let Some(reason) = reason {
            let capacity = f64::from(self.shards()) * self.settings.partition.of(Access::Write);
            self.meter.report_heat(second, capacity, chance);
            if self.strategy == Strategy::Dynashard {
                let throttle = Throttle::from_reason(reason, None);
                self.ask(
                    second,
                    Cause::Throttled { access: Access::Write, throttle: &throttle, shards: &[] },
                );
            }
        }
        if second % 60 != 59 {
            return;
        }
        if self.metadata.is_enlisted() {
            self.meter.report_load(second);
            self.ask(second, Cause::Time);
            if self.settings.shrink.mode == ScalingMode::On && self.metadata.may_shrink() {
                let decision = decide_shrink(self.evidence(second, Cause::Time), self.settings);
                if is_merge_due(&self.metadata, &decision) && self.next_secs.is_none() {
                    self.merge(second);
                } else {
                    self.carry_out(second, decision.action);
                }
            }
        }
        if self.strategy == Strategy::DynashardByAlarm
            && let Some(end) = (second + 1).checked_sub(ALARM_DELAY_SECS)
        {
            let (asked, granted) = self.meter.minute_before(end);
            let per_second = asked - granted;
            if per_second > 0.0 {
                let cause = Cause::Reported {
                    access: Access::Write,
                    per_second,
                    hottest_share: None,
                    shards: &[],
                };
                self.ask(second, cause);
            }
        }
    }

    /// Asks the function that decides in production, and does what it says.
    fn ask(&mut self, second: u32, cause: Cause<'_>) {
        // While an older epoch changes the newest waits, and no change of it is there to be turned round.
        if self.metadata.epochs.changing.is_some() {
            return;
        }
        let metadata = self.metadata.of_epoch(None);
        let evidence = Evidence { metadata: &metadata, ..self.evidence(second, cause) };
        let decision = decide(evidence, self.settings, self.waits);
        self.carry_out(second, decision.action);
    }

    fn evidence<'e>(&'e self, second: u32, cause: Cause<'e>) -> Evidence<'e> {
        let Meter { heat, load, .. } = &self.meter;
        Evidence { metadata: &self.metadata, heat, load, cause, now: added(second) }
    }

    fn carry_out(&mut self, second: u32, action: CountChange) {
        match action {
            // A change that has closed is cleared up first.
            CountChange::Grow(to) | CountChange::Shrink(to) if self.next_secs.is_none() => {
                // Alarms know nothing of sort keys.
                let keys_are_known = self.strategy == Strategy::Dynashard;
                let is_left = self.sort_keys == SortKeys::Growing
                    && self.metadata.placement.is_calculated()
                    && self.past.is_left(&self.metadata, action, keys_are_known);
                let extent = if is_left { past::behind(second) } else { Extent::Newest };
                self.begin(second, &extent, to);
            }
            CountChange::None | CountChange::Grow(_) | CountChange::Shrink(_) => {}
            CountChange::TurnRound(to) => self.then = Some(to),
        }
    }

    /// Has an older epoch get the count of its neighbour.
    fn merge(&mut self, second: u32) {
        let merges = decide_merges(&self.metadata, self.past.few(), self.settings);
        let merge = merges.into_iter().find(|(at, _)| self.past.is_soon_moved(*at));
        let Some((at, decision)) = merge else { return };
        if let CountChange::Grow(to) | CountChange::Shrink(to) = decision.action {
            self.begin(second, &Extent::Older(at), to);
        }
    }

    fn begin(&mut self, second: u32, extent: &Extent, to: ShardCount) {
        let metadata = &mut self.metadata;
        self.past.divide(metadata, extent);
        let changing = metadata.epochs.changing;
        let from = changing.map_or(metadata.number_of_shards, |at| metadata.epochs.older[at].count);
        metadata.phase = Phase::Forward { from, to };
        metadata.last_updated_secs = epoch(second).as_secs();
        metadata.largest_count = metadata.largest_count.max(to);
        // A cold collection gets its metadata item first.
        metadata.rev = metadata.rev.max(1) + 1;
        if metadata.shard_history.is_empty() {
            let at_secs = metadata.last_updated_secs;
            metadata.shard_history.push(HistoryEntry { at_secs, count: from });
        }
        self.next_secs = Some(second + whole(self.waits.leases_end));
        if changing.is_none() {
            self.changes.push(Change { second, from: from.get(), to: to.get() });
        }
    }

    /// What became of its items.
    pub(super) fn past(&self) -> &Past {
        &self.past
    }

    /// The shards that a page asks now, by each item.
    pub(super) fn shards_read(&self) -> f64 {
        self.past.shards_read(&self.metadata)
    }
}

/// Whole seconds in which this has passed.
fn whole(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX) + 1
}
