//! A day of one collection in virtual time, under rules that give it shards:
//! `cargo bench -p dynashard-core --bench scaling_day [-- CHART.svg]`. `DYNASHARD_BENCH_SEED` draws another day.
//!
//! Each second so many units of writes are asked for, evenly over the shards, and what is above the capacity
//! of the shards is refused and gone. dynashard's decision is the real one. What it sees comes from a fluid model of
//! environments, which report as the meter has them do: while they are throttled, by chance, and each minute.
//! A change is in `forward` for T', and a reshard closes H after that. What the mover takes is left out.

use std::error::Error;
use std::fmt::Write;
use std::time::Duration;

use dynashard_core::ports::Entropy;
use dynashard_core::{
    Access, Action, Bucket, Cause, CollectionMetadata, Decision, Evidence, HistoryEntry, Ledger,
    Measures, Phase, ScalingMode, Settings, ShrinkPolicy, Span, Throttle, Waits, decide,
    decide_shrink,
};
use dynashard_keys::{PartitionKey, Placement, ShardCount};
use dynashard_testkit::SeededEntropy;

const DAY_SECS: u32 = 24 * 3_600;
/// An hour begins.
const START_SECS: u64 = 1_800_000_000;
/// What a shard takes.
const SHARD_WCU: f64 = 1_000.0;
/// The queries a second, and what each takes of every shard.
const QUERIES: f64 = 20.0;
const QUERY_RCU: f64 = 0.5;
/// Environments that write.
const ENVIRONMENTS: u32 = 200;
/// Reports a second that the meter means to have, and what an environment counts for that was granted nothing.
const REPORTS: f64 = 15.0;
const LEAST: f64 = 0.125;
/// The seconds before a throttle that environments still know.
const KNOWN_BEFORE: u32 = 6;

fn main() -> Result<(), Box<dyn Error>> {
    let seed = std::env::var("DYNASHARD_BENCH_SEED").map_or(Ok(1), |seed| seed.parse::<u64>())?;
    let chart = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let offer = drawn(seed);
    let rules = [Rule::Dynashard, Rule::Before, Rule::Article];
    let fixed = [1, 4, 16, 64].map(Rule::Fixed);
    let days = rules.into_iter().chain(fixed);
    let days = days.map(|rule| Day::of(rule, &offer, seed)).collect::<Vec<Day>>();
    print_table(seed, &offer, &days);
    if let Some(path) = chart {
        std::fs::write(path, svg(seed, &offer, &days))?;
    }
    Ok(())
}

fn uniform(random: &SeededEntropy, low: f64, high: f64) -> f64 {
    let step = u32::try_from(random.next_u64() >> 32).unwrap_or_default();
    low + (high - low) * f64::from(step) / f64::from(u32::MAX)
}

/// The units that are asked for in each second: calm, a spike in the night that meets one shard, a ramp in the morning,
/// a spike in the afternoon and two peaks in the evening.
fn drawn(seed: u64) -> Vec<f64> {
    let random = &SeededEntropy::new(seed);
    let hour = |low, high| 3_600.0 * uniform(random, low, high);
    let (ramp_from, ramp_for) = (hour(7.5, 8.5), hour(1.0, 2.0));
    let (ramp_to, ramp_ends) = (uniform(random, 4_000.0, 8_000.0), hour(11.5, 12.5));
    let spikes = [
        (hour(2.0, 3.0), hour(0.3, 0.7), uniform(random, 4_000.0, 12_000.0)),
        (hour(14.0, 15.0), hour(0.1, 0.25), uniform(random, 8_000.0, 16_000.0)),
    ];
    let peak_at = hour(18.0, 18.5);
    let peaks = [
        (peak_at, 1_500.0, uniform(random, 5_000.0, 9_000.0)),
        (peak_at + hour(1.5, 2.0), 1_200.0, uniform(random, 8_000.0, 14_000.0)),
    ];
    let mut of_minute = 1.0;
    (0..DAY_SECS)
        .map(|second| {
            if second % 60 == 0 {
                of_minute = uniform(random, 0.97, 1.03);
            }
            let at = f64::from(second);
            let calm = 300.0 - 150.0 * (at / 86_400.0 * std::f64::consts::TAU).cos();
            let rise = ((at - ramp_from) / ramp_for).clamp(0.0, 1.0);
            let fall = (1.0 - (at - ramp_ends) / 1_800.0).clamp(0.0, 1.0);
            let of_spikes =
                spikes.iter().map(
                    |(from, lasts, height)| {
                        if (*from..from + lasts).contains(&at) { *height } else { 0.0 }
                    },
                );
            let of_peaks = peaks.iter().map(|(middle, width, height)| {
                height * (-((at - middle) / width).powi(2) / 2.0).exp()
            });
            let all = calm + ramp_to * rise * fall + of_spikes.sum::<f64>() + of_peaks.sum::<f64>();
            all * of_minute * uniform(random, 0.92, 1.08)
        })
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Rule {
    /// The decision, with shrinking.
    Dynashard,
    /// A throttle quadruples the count, a minute after the last change has closed.
    Before,
    /// A throttle adds a shard of random placement, a minute after the last one.
    Article,
    Fixed(u32),
}

impl Rule {
    fn name(self) -> String {
        match self {
            Self::Dynashard => "dynashard".to_owned(),
            Self::Before => "before: fourfold".to_owned(),
            Self::Article => "article: one more".to_owned(),
            Self::Fixed(count) => format!("always {count}"),
        }
    }
}

/// What came of a rule.
struct Day {
    rule: Rule,
    /// The shards that take writes, in each second.
    shards: Vec<u32>,
    /// The decisions that began a change: when, from how many, to how many.
    changes: Vec<(u32, u32, u32)>,
    absorbed: f64,
    throttled_secs: u32,
    longest_throttled_secs: u32,
    excess_rcu: f64,
}

/// The collection, and what is known of it.
struct World<'a> {
    rule: Rule,
    settings: Settings,
    waits: Waits,
    metadata: CollectionMetadata,
    /// When what runs goes on.
    next_secs: Option<u32>,
    /// The count that is gone back to when a shrink has closed.
    then: Option<ShardCount>,
    heat: Ledger,
    load: Ledger,
    shares: Vec<f64>,
    offer: &'a [f64],
    random: SeededEntropy,
    /// Up to which second the ledger knows what was asked for.
    reported_until: u32,
    changes: Vec<(u32, u32, u32)>,
}

impl Day {
    fn of(rule: Rule, offer: &[f64], seed: u64) -> Self {
        let mut world = World::new(rule, offer, seed);
        let mut day = Self {
            rule,
            shards: Vec::new(),
            changes: Vec::new(),
            absorbed: 0.0,
            throttled_secs: 0,
            longest_throttled_secs: 0,
            excess_rcu: 0.0,
        };
        let mut throttled_for = 0;
        for (second, asked) in (0..).zip(offer) {
            world.go_on(second);
            let shards = world.taking_writes();
            let granted = asked.min(f64::from(shards) * SHARD_WCU);
            let is_throttled = *asked > granted;
            throttled_for = if is_throttled { throttled_for + 1 } else { 0 };
            day.absorbed += granted;
            day.throttled_secs += u32::from(is_throttled);
            day.longest_throttled_secs = day.longest_throttled_secs.max(throttled_for);
            let readable = f64::from(world.metadata.layout().readable.get());
            let needed = (asked / SHARD_WCU).ceil().max(1.0);
            day.excess_rcu += QUERIES * QUERY_RCU * (readable - needed).max(0.0);
            day.shards.push(shards);
            world.see(second, is_throttled, granted);
        }
        day.changes = world.changes;
        day
    }

    fn share(&self, offer: &[f64]) -> f64 {
        100.0 * self.absorbed / offer.iter().sum::<f64>()
    }
}

impl<'a> World<'a> {
    fn new(rule: Rule, offer: &'a [f64], seed: u64) -> Self {
        let random = SeededEntropy::new(seed ^ u64::MAX);
        let shrink = ShrinkPolicy { mode: ScalingMode::On, ..ShrinkPolicy::default() };
        let settings = Settings { shrink, ..Settings::default() };
        let placement = if rule == Rule::Article { Placement::Random } else { Placement::Xxh64 };
        let cold = PartitionKey::new("EWR").map(|key| CollectionMetadata::cold(key, placement));
        let mut metadata = cold.expect("a valid key");
        if let Rule::Fixed(shards) = rule {
            metadata.number_of_shards = count(shards);
        }
        let shares = (0..ENVIRONMENTS).map(|_| uniform(&random, 0.2, 1.8)).collect::<Vec<_>>();
        let sum = shares.iter().sum::<f64>();
        Self {
            rule,
            waits: Waits::of(&settings),
            settings,
            metadata,
            next_secs: None,
            then: None,
            heat: Ledger::default(),
            load: Ledger::default(),
            shares: shares.into_iter().map(|share| share / sum).collect(),
            offer,
            random,
            reported_until: 0,
            changes: Vec::new(),
        }
    }

    /// A growth is not in force before `move`, and a shrink is from the beginning.
    fn taking_writes(&self) -> u32 {
        self.metadata.number_of_shards.min(self.metadata.layout().writable).get()
    }

    /// Carries on the change that runs.
    fn go_on(&mut self, second: u32) {
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
            Phase::Forward { .. } => metadata.phase = Phase::Stable,
            Phase::Move { .. } => {
                metadata.phase = Phase::Stable;
                metadata.cleanup_pending = true;
                // By then no lease is on what was before.
                self.next_secs = Some(second + whole(self.waits.settle));
            }
            Phase::Stable => {
                metadata.cleanup_pending = false;
                if let Some(then) = self.then.take() {
                    self.begin(second, then);
                }
            }
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
        self.changes.push((second, from.get(), to.get()));
    }

    /// The end of a second.
    fn see(&mut self, second: u32, is_throttled: bool, granted: f64) {
        let rests = self.metadata.phase == Phase::Stable && self.next_secs.is_none();
        let cooldown = self.settings.scaling.cooldown.as_secs();
        let since =
            (START_SECS + u64::from(second)).saturating_sub(self.metadata.last_updated_secs);
        let may_change = is_throttled && rests && since >= cooldown;
        let present = self.metadata.number_of_shards.get();
        match self.rule {
            Rule::Before if may_change => {
                let most = self.settings.max_shards.get();
                if present < most {
                    self.begin(second, count(most.min(4 * present)));
                }
            }
            Rule::Article if may_change => self.begin(second, count(present + 1)),
            Rule::Fixed(_) | Rule::Before | Rule::Article => {}
            Rule::Dynashard => self.see_as_dynashard(second, is_throttled, granted),
        }
    }

    fn see_as_dynashard(&mut self, second: u32, is_throttled: bool, granted: f64) {
        // What is reported now is added a moment later.
        let now =
            Duration::from_secs(START_SECS + u64::from(second)) + Duration::from_millis(1_500);
        if is_throttled {
            self.report_heat(second, granted);
            let throttle = Throttle::from_reason("TableWriteKeyRangeThroughputExceeded", None);
            let cause =
                Cause::Throttled { access: Access::Write, throttle: &throttle, shards: &[] };
            let decision = decide(self.evidence(cause, now), &self.settings, self.waits);
            self.carry_out(second, &decision);
        }
        if self.metadata.is_enlisted() && second % 60 == 59 {
            self.report_load(second);
            let evidence = self.evidence(Cause::Time, now);
            let decision = decide(evidence, &self.settings, self.waits);
            self.carry_out(second, &decision);
            if self.metadata.may_shrink() {
                let evidence = self.evidence(Cause::Time, now);
                let decision = decide_shrink(evidence, &self.settings);
                self.carry_out(second, &decision);
            }
        }
    }

    fn evidence<'e>(&'e self, cause: Cause<'e>, now: Duration) -> Evidence<'e> {
        let Self { metadata, heat, load, .. } = self;
        Evidence { metadata, heat, load, cause, now }
    }

    /// Each environment adds what it has seen since the last time, with a chance that goes with what it was
    /// granted, and scaled by that.
    fn report_heat(&mut self, second: u32, granted: f64) {
        let known = second.saturating_sub(KNOWN_BEFORE - 1).max(self.reported_until);
        let capacity = f64::from(self.taking_writes()) * SHARD_WCU;
        let bucket =
            |second: u32| Bucket { span: Span::Second, start_secs: START_SECS + u64::from(second) };
        for share in &self.shares {
            let chance = (REPORTS * (share * granted + LEAST) / capacity).clamp(0.0, 1.0);
            if uniform(&self.random, 0.0, 1.0) >= chance {
                continue;
            }
            for seen in known..=second {
                let asked = self.offer[usize::try_from(seen).unwrap_or_default()];
                let measures = self.heat.buckets.entry(bucket(seen)).or_default();
                measures.writes += share * asked / chance;
                measures.write_units += share * asked / chance;
                measures.written_units += share * granted / chance;
            }
            let measures = self.heat.buckets.entry(bucket(second)).or_default();
            measures.reports += 1.0;
            measures.environments += 1.0 / chance;
        }
        self.reported_until = second + 1;
        let oldest = bucket(second.saturating_sub(30));
        self.heat.buckets.retain(|bucket, _| *bucket >= oldest);
    }

    /// All environments add what they have seen in a minute.
    fn report_load(&mut self, second: u32) {
        let last = usize::try_from(second).unwrap_or_default();
        let asked = self.offer[last - 59..=last].iter().sum::<f64>();
        let shards = f64::from(self.metadata.layout().readable.get());
        let measures = Measures {
            reports: f64::from(ENVIRONMENTS),
            environments: f64::from(ENVIRONMENTS),
            writes: asked,
            write_units: asked,
            queries: 60.0 * QUERIES,
            query_units: 60.0 * QUERIES * QUERY_RCU * shards,
            ..Measures::default()
        };
        let at = Duration::from_secs(START_SECS + u64::from(second));
        for span in [Span::Minute, Span::Hour] {
            self.load.buckets.entry(Bucket::of(span, at)).or_default().add(&measures);
        }
    }

    fn carry_out(&mut self, second: u32, decision: &Decision) {
        match decision.action {
            // A shrink that has closed is cleared up first.
            Action::Grow(to) | Action::Shrink(to) if self.next_secs.is_none() => {
                self.begin(second, to);
            }
            Action::None | Action::Grow(_) | Action::Shrink(_) => {}
            Action::TurnRound(to) => self.then = Some(to),
        }
    }
}

fn count(shards: u32) -> ShardCount {
    ShardCount::new(shards).unwrap_or(ShardCount::ONE)
}

/// Whole seconds in which this has passed.
fn whole(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX) + 1
}

fn clock(second: u32) -> String {
    format!("{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
}

fn print_table(seed: u64, offer: &[f64], days: &[Day]) {
    let most = offer.iter().copied().fold(0.0, f64::max);
    println!(
        "The day of seed {seed}: {:.0} million units, {most:.0} a second at most\n",
        offer.iter().sum::<f64>() / 1e6
    );
    println!(
        "| rule | absorbed | seconds throttled | longest | growths | shrinks | shards at most | on average | excess reads |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for day in days {
        let growths = day.changes.iter().filter(|(_, from, to)| to > from).count();
        let sum = day.shards.iter().map(|shards| f64::from(*shards)).sum::<f64>();
        println!(
            "| {} | {:.2} % | {} | {} | {growths} | {} | {} | {:.1} | {:.1} M RCU |",
            day.rule.name(),
            day.share(offer),
            day.throttled_secs,
            day.longest_throttled_secs,
            day.changes.len() - growths,
            day.shards.iter().max().unwrap_or(&0),
            sum / f64::from(DAY_SECS),
            day.excess_rcu / 1e6
        );
    }
    for day in days.iter().filter(|day| !day.changes.is_empty()) {
        const SHOWN: usize = 12;
        let changes = day.changes.iter().take(SHOWN);
        let changes = changes.map(|(at, from, to)| format!("{} {from} > {to}", clock(*at)));
        let more = if day.changes.len() > SHOWN { ", ..." } else { "" };
        println!("\n{}: {}{more}", day.rule.name(), changes.collect::<Vec<_>>().join(", "));
    }
}

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = 420.0;
/// The chart reaches to so many doublings.
const DOUBLINGS: f64 = 8.0;

/// The shards that the load needs, as an area, and those that each rule gives it, as steps; by doublings.
fn svg(seed: u64, offer: &[f64], days: &[Day]) -> String {
    const COLORS: [&str; 3] = ["#0072b2", "#d55e00", "#009e73"];
    let x = |second: u32| LEFT + (WIDTH - LEFT - RIGHT) * f64::from(second) / f64::from(DAY_SECS);
    let y =
        |shards: f64| BOTTOM - (BOTTOM - TOP) * (shards.max(0.5).log2() + 1.0) / (DOUBLINGS + 1.0);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"14\"><rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"26\" \
         font-size=\"18\">A day of one collection (seed {seed}): shards that the load needs, and has</text>\n"
    );
    let mut add = |element: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{element}");
    };
    for doublings in 0_u8..=8 {
        let shards = f64::from(doublings).exp2();
        let at = y(shards);
        add(format!(
            "<path d=\"M{LEFT} {at:.1}H{:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{shards:.0}</text>",
            x(DAY_SECS),
            LEFT - 8.0,
            at + 5.0
        ));
    }
    for hour in (0..=24).step_by(3) {
        let at = x(hour * 3_600);
        add(format!(
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{hour}:00</text>",
            BOTTOM + 22.0
        ));
    }
    let minutes = (0_u32..).zip(offer.chunks(60));
    let needed = minutes.map(|(minute, rates)| {
        let most = rates.iter().copied().fold(0.0, f64::max);
        format!("L{:.1} {:.1}", x(minute * 60), y(most / SHARD_WCU))
    });
    add(format!(
        "<path d=\"M{LEFT} {BOTTOM}{}V{BOTTOM}Z\" fill=\"#ccc\"/>",
        needed.collect::<String>()
    ));
    for ((day, color), at) in days.iter().zip(COLORS).zip([0.0, 310.0, 620.0]) {
        let mut path = String::new();
        let mut before = None;
        for (second, shards) in (0..).zip(&day.shards) {
            let at = y(f64::from(*shards));
            match before {
                None => path = format!("M{LEFT} {at:.1}"),
                // Writing to a string cannot fail.
                Some(before) if before != shards => {
                    let _ = write!(path, "H{:.1}V{at:.1}", x(second));
                }
                Some(_) => {}
            }
            before = Some(shards);
        }
        add(format!(
            "<path d=\"{path}H{:.1}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>\
             <text x=\"{:.1}\" y=\"52\" fill=\"{color}\">{}: {:.2}% absorbed</text>",
            x(DAY_SECS),
            LEFT + at,
            day.rule.name(),
            day.share(offer)
        ));
    }
    text + "</svg>\n"
}
