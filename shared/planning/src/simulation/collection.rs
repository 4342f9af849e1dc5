use std::time::Duration;

use dynashard_core::{
    Access, Action, Bucket, Cause, CollectionMetadata, Evidence, HistoryEntry, Ledger, Measures,
    Phase, Settings, Span, Throttle, Waits, decide,
};
use dynashard_keys::{PartitionKey, Placement, ShardCount};

use super::Strategy;
use super::chance::Chance;

/// When the simulation begins, in epoch seconds: an hour begins.
const START_SECS: u64 = 1_800_000_000;
/// Environments of functions that write.
const ENVIRONMENTS: u32 = 50;
/// Reports a second that they mean to have, and what one counts for that was granted nothing.
const REPORTS: f64 = 15.0;
const LEAST: f64 = 0.125;
/// The seconds before a throttle that environments still know.
const KNOWN_BEFORE: u32 = 6;
const SHARD_WCU: f64 = 1_000.0;
/// How late CloudWatch evaluates a minute.
const ALARM_DELAY_SECS: u32 = 60;

/// One partition key, its shards, and what is known of it.
#[derive(Debug)]
pub(super) struct Collection {
    strategy: Strategy,
    settings: Settings,
    waits: Waits,
    metadata: CollectionMetadata,
    /// When what runs goes on.
    next_secs: Option<u32>,
    /// The physical keys, of the first shard first.
    keys: Vec<String>,
    heat: Ledger,
    load: Ledger,
    /// What was asked for and granted in each second, in units.
    asked: Vec<f64>,
    granted: Vec<f64>,
    reported_until: u32,
    /// When a change was made under which writers use what they have read before.
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

impl Collection {
    pub(super) fn new(number: usize, strategy: Strategy) -> Self {
        let settings = Settings::default();
        let placement = match strategy {
            Strategy::OneMore => Placement::Random,
            _ => Placement::Xxh64,
        };
        let key = PartitionKey::new(format!("key{number}"));
        let mut metadata = CollectionMetadata::cold(key.expect("a valid key"), placement);
        if let Strategy::Fixed(shards) = strategy {
            metadata.number_of_shards = shards;
        }
        Self {
            strategy,
            waits: Waits::of(&settings),
            settings,
            metadata,
            next_secs: None,
            keys: Vec::new(),
            heat: Ledger::default(),
            load: Ledger::default(),
            asked: Vec::new(),
            granted: Vec::new(),
            reported_until: 0,
            changed: None,
            changes: Vec::new(),
        }
    }

    /// The shards that take writes. A growth is not in force before its items may move.
    pub(super) fn shards(&self) -> u32 {
        self.metadata.number_of_shards.min(self.metadata.layout().writable).get()
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
        while self.keys.len() <= shard {
            let partition = &self.metadata.partition;
            self.keys.push(format!("{}#~{}", partition.as_str(), self.keys.len()));
        }
        &self.keys[shard]
    }

    /// Carries on the change that runs.
    pub(super) fn go_on(&mut self, second: u32) {
        if self.next_secs != Some(second) {
            return;
        }
        let now_secs = START_SECS + u64::from(second);
        let metadata = &mut self.metadata;
        metadata.last_updated_secs = now_secs;
        metadata.rev += 1;
        self.next_secs = None;
        let phase = metadata.phase;
        if let Phase::Forward { to, .. } = phase {
            metadata.number_of_shards = to;
            metadata.shard_history.push(HistoryEntry { at_secs: now_secs, count: to });
        }
        match phase {
            Phase::Forward { from, to } if metadata.reshard().is_some() => {
                metadata.phase = Phase::Move { from, to };
                self.next_secs = Some(second + whole(self.waits.request_lifetime));
            }
            Phase::Move { .. } => {
                metadata.phase = Phase::Stable;
                metadata.cleanup_pending = true;
                self.next_secs = Some(second + whole(self.waits.settle));
            }
            Phase::Forward { .. } => metadata.phase = Phase::Stable,
            Phase::Stable => metadata.cleanup_pending = false,
        }
    }

    /// The end of a second in which so many units were asked for and granted.
    pub(super) fn end_second(
        &mut self,
        second: u32,
        asked: f64,
        granted: f64,
        reason: Option<&'static str>,
        chance: &mut Chance,
    ) {
        self.asked.push(asked);
        self.granted.push(granted);
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
        let now_secs = START_SECS + u64::from(second);
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
        // What is reported now is added a moment later.
        let now =
            Duration::from_secs(START_SECS + u64::from(second)) + Duration::from_millis(1_500);
        if let Some(reason) = reason {
            self.report_heat(second, chance);
            if self.strategy == Strategy::Dynashard {
                let throttle = Throttle::from_reason(reason, None);
                self.ask(
                    second,
                    now,
                    Cause::Throttled { access: Access::Write, throttle: &throttle, shards: &[] },
                );
            }
        }
        if second % 60 != 59 {
            return;
        }
        if self.metadata.is_enlisted() {
            self.report_load(second);
            self.ask(second, now, Cause::Time);
        }
        if self.strategy == Strategy::DynashardByAlarm
            && let Some(end) = (second + 1).checked_sub(ALARM_DELAY_SECS)
        {
            let seen = |series: &[f64]| {
                let (from, to) = (index(end.saturating_sub(60)), index(end));
                series[from..to].iter().sum::<f64>() / 60.0
            };
            let per_second = seen(&self.asked) - seen(&self.granted);
            if per_second > 0.0 {
                let cause = Cause::Reported {
                    access: Access::Write,
                    per_second,
                    hottest_share: None,
                    shards: &[],
                };
                self.ask(second, now, cause);
            }
        }
    }

    /// Asks the function that decides in production, and does what it says.
    fn ask(&mut self, second: u32, now: Duration, cause: Cause<'_>) {
        let Self { metadata, heat, load, .. } = &*self;
        let decision =
            decide(Evidence { metadata, heat, load, cause, now }, &self.settings, self.waits);
        if let Action::Grow(to) = decision.action
            && self.next_secs.is_none()
        {
            self.begin(second, to);
        }
    }

    fn begin(&mut self, second: u32, to: ShardCount) {
        let metadata = &mut self.metadata;
        let from = metadata.number_of_shards;
        metadata.phase = Phase::Forward { from, to };
        metadata.last_updated_secs = START_SECS + u64::from(second);
        metadata.largest_count = metadata.largest_count.max(to);
        // A cold collection gets its metadata item first.
        metadata.rev = metadata.rev.max(1) + 1;
        if metadata.shard_history.is_empty() {
            let at_secs = metadata.last_updated_secs;
            metadata.shard_history.push(HistoryEntry { at_secs, count: from });
        }
        self.next_secs = Some(second + whole(self.waits.settle));
        self.changes.push(Change { second, from: from.get(), to: to.get() });
    }

    /// Each environment adds what it has seen since the last time, with a chance that goes with what it was granted,
    /// and scaled by that.
    fn report_heat(&mut self, second: u32, chance: &mut Chance) {
        let known = second.saturating_sub(KNOWN_BEFORE - 1).max(self.reported_until);
        let capacity = f64::from(self.shards()) * SHARD_WCU;
        let share = 1.0 / f64::from(ENVIRONMENTS);
        let bucket =
            |second: u32| Bucket { span: Span::Second, start_secs: START_SECS + u64::from(second) };
        let granted = self.granted[index(second)];
        let likely = (REPORTS * (share * granted + LEAST) / capacity).clamp(0.0, 1.0);
        for _ in 0..ENVIRONMENTS {
            if chance.uniform() >= likely {
                continue;
            }
            for seen in known..=second {
                let measures = self.heat.buckets.entry(bucket(seen)).or_default();
                let asked = share * self.asked[index(seen)] / likely;
                measures.writes += asked;
                measures.write_units += asked;
                measures.written_units += share * self.granted[index(seen)] / likely;
            }
            let measures = self.heat.buckets.entry(bucket(second)).or_default();
            measures.reports += 1.0;
            measures.environments += 1.0 / likely;
        }
        self.reported_until = second + 1;
        let oldest = bucket(second.saturating_sub(30));
        self.heat.buckets.retain(|bucket, _| *bucket >= oldest);
    }

    /// All environments add what they have seen in a minute.
    fn report_load(&mut self, second: u32) {
        let last = index(second);
        let asked = self.asked[last - 59..=last].iter().sum::<f64>();
        let measures = Measures {
            reports: f64::from(ENVIRONMENTS),
            environments: f64::from(ENVIRONMENTS),
            writes: asked,
            write_units: asked,
            ..Measures::default()
        };
        let at = Duration::from_secs(START_SECS + u64::from(second));
        for span in [Span::Minute, Span::Hour] {
            self.load.buckets.entry(Bucket::of(span, at)).or_default().add(&measures);
        }
    }
}

/// Whole seconds in which this has passed.
fn whole(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX) + 1
}

fn index(second: u32) -> usize {
    usize::try_from(second).unwrap_or(usize::MAX)
}
