//! A situation as it is written down. A line of it is one of these; rates are units a second, oldest first:
//!
//! - `shards 4 xxh64 [of at least 2]`: it rests, and has changed long ago;
//! - `never changed`, `changed 30 s ago`, `phase forward 4 8`, `markers of 2`, `moved 1000 from 2`;
//! - `seconds write_units 500 600`: the last is the newest that is complete; `now write_units 500` is the one
//!   behind it; `minutes` and `hours` likewise, with the last of them that is over;
//! - `item 70%`: what the hottest sort key has of `ranked_units`;
//! - `figure s+180w 5000`, `text m-60w`: edited by hand, by seconds from now;
//! - `clock +180`: whoever decides has a clock that is ahead;
//! - `throttled write TableWriteKeyRangeThroughputExceeded [shards 0 1]`,
//!   `throttled write IndexWriteKeyRangeThroughputExceeded on replica-1`,
//!   `reported write 300 [item 60%]`, `time`, `shrink`;
//! - `set max_shards 8` and so on.

use std::time::Duration;

use dynashard_core::{
    Access, Bucket, Cause, CollectionMetadata, Decision, Evidence, Figure, HistoryEntry, Ledger,
    Measures, Payback, Phase, Settings, Span, Throttle, Waits, decide, decide_shrink,
};
use dynashard_keys::{PartitionKey, Placement, ShardCount, ShardId};

/// The second of the decision: a minute and half an hour begin.
pub(crate) const NOW_SECS: u64 = 1_800_001_800;

pub(crate) fn now() -> Duration {
    Duration::from_secs(NOW_SECS) + Duration::from_millis(300)
}

pub(crate) fn count(n: u32) -> ShardCount {
    ShardCount::new(n).expect("a count")
}

/// A collection that rests since long ago, and may go back to one shard.
pub(crate) fn resting(shards: u32, placement: Placement) -> CollectionMetadata {
    let partition = PartitionKey::new("EWR").expect("a partition key");
    CollectionMetadata {
        rev: 4,
        min_shards: ShardCount::ONE,
        ..CollectionMetadata::stable(partition, placement, count(shards), NOW_SECS - 1_000_000)
    }
}

/// Adds rates of units a second to a ledger. The last one is that of the span that begins `last_ago` spans
/// before the present one.
pub(crate) fn add_rates(
    ledger: &mut Ledger,
    span: Span,
    field: &str,
    rates: impl DoubleEndedIterator<Item = f64>,
    last_ago: u64,
) {
    let present = Bucket::of(span, now()).start_secs;
    for (ago, rate) in (last_ago..).zip(rates.rev()) {
        let bucket = Bucket { span, start_secs: present - ago * span.secs() };
        let secs = u32::try_from(span.secs()).expect("an hour at most");
        *field_of(ledger.buckets.entry(bucket).or_default(), field) += rate * f64::from(secs);
    }
}

fn field_of<'a>(measures: &'a mut Measures, name: &str) -> &'a mut f64 {
    let letter = match name {
        "reports" => 'r',
        "environments" => 'e',
        "writes" => 'o',
        "write_units" => 'w',
        "written_units" => 'p',
        "gets" => 'i',
        "get_units" => 'g',
        "queries" => 'y',
        "query_units" => 'q',
        "read_units" => 's',
        "ranked_units" => 'k',
        "refused_units" => 'x',
        _ => panic!("no measure {name}"),
    };
    measures.field_mut(letter).expect("a measure")
}

enum Asked {
    Throttled(Access, Throttle),
    Reported(Access, f64, Option<f64>),
    Time,
    Shrink,
}

pub(crate) struct Situation {
    metadata: CollectionMetadata,
    heat: Ledger,
    load: Ledger,
    settings: Settings,
    asked: Asked,
    shards: Vec<ShardId>,
    clock_ahead: i64,
}

impl Situation {
    pub(crate) fn of(text: &str) -> Self {
        let mut situation = Self {
            metadata: resting(1, Placement::Xxh64),
            heat: Ledger::default(),
            load: Ledger::default(),
            // The situations are written for leases of five seconds.
            settings: Settings { lease_term: Duration::from_secs(5), ..Settings::default() },
            asked: Asked::Time,
            shards: Vec::new(),
            clock_ahead: 0,
        };
        for line in text.lines() {
            situation.read(line);
        }
        situation
    }

    fn read(&mut self, line: &str) {
        let words = line.split_whitespace().collect::<Vec<_>>();
        let metadata = &mut self.metadata;
        match *words {
            ["shards", shards, placement] => *metadata = rest(shards, placement),
            ["shards", shards, placement, "of", "at", "least", least] => {
                *metadata = rest(shards, placement);
                metadata.min_shards = count(number(least));
            }
            ["never", "changed"] => metadata.rev = 1,
            ["changed", ago, "s", "ago"] => {
                metadata.last_updated_secs = NOW_SECS - number::<u64>(ago);
            }
            ["phase", phase, from, to] => {
                let (from, to) = (count(number(from)), count(number(to)));
                metadata.phase = match phase {
                    "forward" => Phase::Forward { from, to },
                    "move" => Phase::Move { from, to },
                    _ => panic!("no phase {phase}"),
                };
            }
            ["markers", "of", before] => {
                metadata.cleanup_pending = true;
                metadata.shard_history.insert(0, history(before));
            }
            ["moved", items, "from", before] => {
                metadata.items_moved = number(items);
                metadata.shard_history.insert(0, history(before));
            }
            ["seconds", field, ref rates @ ..] => {
                add_rates(&mut self.heat, Span::Second, field, numbers(rates), 2);
            }
            ["now", field, rate] => {
                add_rates(&mut self.heat, Span::Second, field, numbers(&[rate]), 1);
            }
            ["minutes", field, ref rates @ ..] => {
                add_rates(&mut self.load, Span::Minute, field, numbers(rates), 1);
            }
            ["hours", field, ref rates @ ..] => {
                add_rates(&mut self.load, Span::Hour, field, numbers(rates), 1);
            }
            ["item", share] => {
                for (bucket, measures) in &self.heat.buckets {
                    let units = measures.ranked_units * percent(share);
                    self.heat.hottest.insert((*bucket, 7), units);
                }
            }
            ["figure", name, value] => self.edit(name, Some(number(value))),
            ["text", name] => self.edit(name, None),
            ["clock", ahead] => self.clock_ahead = number(ahead),
            ["throttled", access, reason, "on", index] => {
                let arn = format!("arn:aws:dynamodb:us-east-1:123456789012:table/t/index/{index}");
                let throttle = Throttle::from_reason(reason, Some(arn));
                self.asked = Asked::Throttled(access_of(access), throttle);
            }
            ["throttled", access, reason, ref shards @ ..] => {
                let throttle = Throttle::from_reason(reason, None);
                self.asked = Asked::Throttled(access_of(access), throttle);
                let shards = shards.iter().filter(|word| **word != "shards");
                self.shards = shards.map(|shard| ShardId::new(number(shard))).collect();
            }
            ["reported", access, rate] => {
                self.asked = Asked::Reported(access_of(access), number(rate), None);
            }
            ["reported", access, rate, "item", share] => {
                let share = Some(percent(share));
                self.asked = Asked::Reported(access_of(access), number(rate), share);
            }
            ["time"] => self.asked = Asked::Time,
            ["shrink"] => self.asked = Asked::Shrink,
            ["set", name, value] => self.set(name, value),
            _ => panic!("cannot read {line:?}"),
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        let settings = &mut self.settings;
        match name {
            "max_shards" => settings.max_shards = count(number(value)),
            "cooldown" => settings.scaling.cooldown = Duration::from_secs(number(value)),
            "lease" => settings.lease_term = Duration::from_secs(number(value)),
            "grow_keys" => settings.grow_keys = value.parse().expect("patterns"),
            "shrink_after" => settings.shrink.after = Duration::from_secs(number(value)),
            "payback_days" => {
                settings.shrink.payback = Some(Duration::from_hours(24 * number::<u64>(value)));
            }
            "partition_writes" => settings.partition.write_units = number(value),
            _ => panic!("no setting {name}"),
        }
    }

    /// Puts an attribute into the ledger that has buckets of such a length.
    fn edit(&mut self, name: &str, value: Option<f64>) {
        let sign = name.find(['+', '-']).expect("a sign");
        let digits = &name[sign + 1..];
        let letter = sign + 1 + digits.find(|c: char| !c.is_ascii_digit()).expect("a letter");
        let at = NOW_SECS.saturating_add_signed(number(&name[sign..letter]));
        let attribute = format!("{}{at}{}", &name[..sign], &name[letter..]);
        let edited = Ledger::of_figures([(attribute, value.map(Figure::Sum))]);
        let ledger = if name.starts_with('s') { &mut self.heat } else { &mut self.load };
        ledger.buckets.extend(edited.buckets);
        ledger.hottest.extend(edited.hottest);
        ledger.damaged += edited.damaged;
    }

    fn decide(&self) -> Decision {
        let cause = match &self.asked {
            Asked::Throttled(access, throttle) => {
                Cause::Throttled { access: *access, throttle, shards: &self.shards }
            }
            Asked::Reported(access, per_second, hottest_share) => Cause::Reported {
                access: *access,
                per_second: *per_second,
                hottest_share: *hottest_share,
                shards: &self.shards,
            },
            Asked::Time | Asked::Shrink => Cause::Time,
        };
        let ahead = Duration::from_secs(self.clock_ahead.unsigned_abs());
        let now = if self.clock_ahead < 0 { now().saturating_sub(ahead) } else { now() + ahead };
        let (metadata, heat, load) = (&self.metadata, &self.heat, &self.load);
        let evidence = Evidence { metadata, heat, load, cause, now };
        match self.asked {
            Asked::Shrink => decide_shrink(evidence, &self.settings),
            _ => decide(evidence, &self.settings, Waits::of(&self.settings)),
        }
    }

    /// The decision in a line of words, its figures, and its sentence.
    pub(crate) fn answer(&self) -> String {
        let decision = self.decide();
        let figures = decision.figures;
        let mut first = vec![decision.code().to_owned(), decision.action.as_str().to_owned()];
        first.extend(decision.action.target().map(|to| format!("{} > {to}", decision.count)));
        first.extend(decision.bound.map(|bound| format!("bound {}", bound.as_str())));
        first.extend(decision.hindrance.map(|hindrance| format!("but {}", hindrance.as_str())));
        let mut second = vec![
            format!("demand {:.0}", figures.demand),
            format!("expected {:.0}", figures.expected),
            format!("granted {:.0}", figures.granted),
            format!("capacity {:.0}", figures.capacity),
            format!("seconds {}", figures.seconds),
            format!("wanted {}", figures.wanted),
        ];
        second.extend(figures.hottest_share.map(|share| format!("item {:.0}%", share * 100.0)));
        second.extend(figures.payback.map(|Payback { items, cost_wcu, saved_rcu_an_hour }| {
            format!("items {items:.0}, cost {cost_wcu:.0}, saves {saved_rcu_an_hour:.0} an hour")
        }));
        let (first, second) = (first.join(" "), second.join(", "));
        format!("{first}\n{second}\n{decision}")
    }
}

fn rest(shards: &str, placement: &str) -> CollectionMetadata {
    resting(number(shards), placement.parse().expect("a placement"))
}

fn history(before: &str) -> HistoryEntry {
    HistoryEntry { at_secs: NOW_SECS - 2_000_000, count: count(number(before)) }
}

fn access_of(word: &str) -> Access {
    match word {
        "write" => Access::Write,
        "get" => Access::Get,
        "query" => Access::Query,
        _ => panic!("no access {word}"),
    }
}

fn number<T: std::str::FromStr>(word: &str) -> T {
    word.parse().unwrap_or_else(|_| panic!("{word} is not a number"))
}

/// The numbers; `500*6` stands for six of them.
fn numbers(words: &[&str]) -> std::vec::IntoIter<f64> {
    let mut numbers = Vec::new();
    for word in words {
        let (value, times) = word.split_once('*').unwrap_or((word, "1"));
        numbers.extend(std::iter::repeat_n(number::<f64>(value), number(times)));
    }
    numbers.into_iter()
}

fn percent(word: &str) -> f64 {
    number::<f64>(word.strip_suffix('%').expect("a percentage")) / 100.0
}
