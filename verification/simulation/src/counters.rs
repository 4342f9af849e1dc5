//! Counters, beside which nothing else happens: clients add, take and read, while functions are throttled, frozen and killed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dynashard_core::{
    AttributeValue, Bounds, CellNumber, Code, CounterValue, Error, Reader, StoredItem, Writer,
};
use dynashard_keys::{ItemKey, PartitionKey, SortKey};

use crate::environment::Role;
use crate::history::Meaning;
use crate::kernel::{Ended, Executor, Kernel, Slot};
use crate::random::Random;
use crate::run::{LONGEST_RUN, Report, report};
use crate::scenario::{Mutation, Scenario};
use crate::world::{Reply, World};

/// What clients count, under sort keys of these names, and the most that one of them adds or takes at once.
const COUNTERS: [(&str, Bounds, u64, u64); 3] = [
    ("visits", Bounds { min: None, max: None }, 3, 0),
    ("stock", Bounds { min: Some(0), max: None }, 3, 3),
    ("seats", Bounds { min: Some(0), max: Some(6) }, 4, 4),
];

/// What clients did and saw of each counter.
#[derive(Debug, Default)]
struct Seen {
    adds: Vec<Add>,
    refused: Vec<(Duration, Duration, i64)>,
    reads: Vec<(Duration, Duration, i128)>,
}

#[derive(Debug)]
struct Add {
    begun: Duration,
    /// `None` of one that nobody knows the outcome of.
    ended: Option<Duration>,
    amount: i64,
}

/// How old may be what an add is refused by. Clocks of environments run faster and slower.
const REFUSED_FOR: Duration = Duration::from_millis(1_100);

type AllSeen = Arc<Mutex<[Seen; COUNTERS.len()]>>;

/// Runs one seed. Returns how many cells there were in the end, too.
pub fn run_counters(seed: u64, mutation: Option<Mutation>, print: bool) -> (Report, usize) {
    let random = Random::new(seed);
    let mut scenario = Scenario::draw(&random, mutation);
    scenario.rates.throttled = scenario.rates.throttled.max(50_000);
    scenario.operations *= 3;
    (scenario.next_term, scenario.next_dates) = (None, None);
    (scenario.items_expire, scenario.begins_with_list) = (false, false);
    let kernel = Kernel::new(random.next_u64(), scenario.rates, print);
    let world = World::new(kernel.clone(), scenario);
    let mut executor = Executor::new(kernel.clone());
    let all = AllSeen::default();
    let clients = (0..world.scenario.clients)
        .map(|_| kernel.spawn(world.outside, client(world.clone(), Arc::clone(&all))));
    let ends = clients.collect::<Vec<_>>();
    let ended = executor.run_until(LONGEST_RUN, || ends.iter().all(Slot::is_over));
    if ended != Ended::Reached {
        world.history().violations.push(format!("clients did not come to an end: {ended:?}"));
    }
    kernel.be_kind();
    let quiet = world.scenario.executed_within + world.scenario.visible_within;
    executor.run_until(kernel.now() + quiet, || false);
    let last = kernel.spawn(world.outside, read_all(world.clone(), Arc::clone(&all)));
    executor.run_until(kernel.now() + Duration::from_mins(1), || last.is_over());
    let mut cells = 0;
    for ((name, bounds, ..), seen) in COUNTERS.iter().zip(&*lock(&all)) {
        cells += judge(&world, name, *bounds, seen);
    }
    let report = report(seed, &world);
    drop(executor);
    kernel.clear();
    (report, cells)
}

fn lock(seen: &AllSeen) -> MutexGuard<'_, [Seen; COUNTERS.len()]> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn client(world: World, seen: AllSeen) {
    let mut writer = world.start(Role::Function, Writer::new);
    let mut reader = world.start(Role::Function, Reader::new);
    for _ in 0..world.scenario.operations {
        let thought = world.kernel.draw(|random| random.any_scale(world.scenario.longest_thought));
        world.rest(thought).await;
        if world.is_killed(&writer) || world.kernel.draw(|random| random.chance(20_000)) {
            writer = world.start(Role::Function, Writer::new);
        }
        if world.is_killed(&reader) {
            reader = world.start(Role::Function, Reader::new);
        }
        world.history().calls += 1;
        let counter = world.kernel.draw(|random| random.index(COUNTERS.len()));
        let (name, bounds, most, least) = COUNTERS[counter];
        let key = key(name);
        let begun = world.kernel.moment();
        if world.kernel.draw(|random| random.chance(200_000)) {
            let read = move |reader: Arc<Reader>, deadline| async move {
                reader.counter(&key, deadline).await
            };
            let reply = world.call(&reader, world.draw_timeout(), read).await;
            saw(&world, &seen, counter, begun, reply);
            continue;
        }
        let drawn = world.kernel.draw(|random| random.below(most + least + 1));
        let amount = i64::try_from(drawn).unwrap_or(0) - i64::try_from(least).unwrap_or(0);
        let add = move |writer: Arc<Writer>, deadline| async move {
            writer.add_to_counter(&key, amount, bounds, deadline).await
        };
        let reply = world.call(&writer, world.draw_timeout(), add).await;
        let ended = world.kernel.moment();
        world.kernel.trace(|| format!("{amount} to {name}: {reply:?}"));
        let mut all = lock(&seen);
        let seen = &mut all[counter];
        match reply {
            Reply::Answer(Ok(_)) => seen.adds.push(Add { begun, ended: Some(ended), amount }),
            Reply::Answer(Err(error)) if error.code() == Code::CounterLimit => {
                seen.refused.push((begun, ended, amount));
            }
            Reply::Answer(Err(error)) => {
                if world.history().meaning("add", &error) != Meaning::NothingHappened {
                    seen.adds.push(Add { begun, ended: None, amount });
                }
            }
            Reply::Killed | Reply::GivenUp => seen.adds.push(Add { begun, ended: None, amount }),
        }
    }
}

/// Reads all counters when nothing goes wrong any more.
async fn read_all(world: World, seen: AllSeen) {
    let reader = world.start(Role::Function, Reader::new);
    for (counter, (name, ..)) in COUNTERS.iter().enumerate() {
        let (key, begun) = (key(name), world.kernel.moment());
        let read = move |reader: Arc<Reader>, deadline| async move {
            reader.counter(&key, deadline).await
        };
        let reply = world.call(&reader, Duration::from_secs(20), read).await;
        saw(&world, &seen, counter, begun, reply);
    }
}

fn saw(
    world: &World,
    seen: &AllSeen,
    counter: usize,
    begun: Duration,
    reply: Reply<Result<CounterValue, Error>>,
) {
    let ended = world.kernel.moment();
    world.kernel.trace(|| format!("read of {}: {reply:?}", COUNTERS[counter].0));
    let Reply::Answer(answer) = reply else { return };
    let value = match answer {
        Ok(counter) => counter.value,
        Err(error) if error.code() == Code::ItemNotFound => 0,
        Err(error) => {
            world.history().meaning("read", &error);
            return;
        }
    };
    lock(seen)[counter].reads.push((begun, ended, value));
}

/// Looks at everything that a counter ever was, and returns how many cells it has.
fn judge(world: &World, name: &str, bounds: Bounds, seen: &Seen) -> usize {
    let key = key(name);
    let pasts = world.network.tables().pasts();
    let cells = pasts.into_iter().filter(|(at, _)| at.sort == key.sort);
    let cells = cells.map(|(_, past)| past).collect::<Vec<_>>();
    let at = |number: CellNumber, time: Duration| -> i128 {
        let then = cells
            .iter()
            .filter_map(|past| past.iter().find(|(_, until)| time < *until)?.0.as_ref());
        then.map(|cell| number_of(cell, number)).sum()
    };
    let times = cells.iter().flatten().map(|(_, until)| *until);
    let times = times.filter(|time| *time < Duration::MAX).collect::<BTreeSet<_>>();
    let is_within = |value: i128| {
        bounds.min.is_none_or(|min| value >= min.into())
            && bounds.max.is_none_or(|max| value <= max.into())
    };
    let mut history = world.history();
    let mut violation = |what: String| history.violations.push(format!("{name}: {what}"));
    for time in &times {
        let value = at(CellNumber::Value, *time);
        if !is_within(value) {
            violation(format!("it was {value} at {time:?}"));
        }
    }
    let now = world.kernel.now();
    let value = at(CellNumber::Value, now);
    for (bound, room, is_below) in
        [(bounds.min, CellNumber::Below, true), (bounds.max, CellNumber::Above, false)]
    {
        let Some(bound) = bound.filter(|_| !cells.is_empty()).map(i128::from) else { continue };
        let expected = if is_below { value - bound } else { bound - value };
        let room = at(room, now);
        if room != expected {
            violation(format!("its cells have {room} to the bound {bound}, and it is {value}"));
        }
    }
    for (begun, ended, amount) in &seen.refused {
        let since = begun.saturating_sub(REFUSED_FOR);
        let moments = [since].into_iter().chain(times.range(since..=*ended).copied());
        let mut values = moments.map(|time| at(CellNumber::Value, time) + i128::from(*amount));
        if values.all(is_within) {
            violation(format!("{amount} was refused at {begun:?} though it was covered"));
        }
    }
    let (certain, unknown) = seen.adds.iter().partition::<Vec<_>, _>(|add| add.ended.is_some());
    let acknowledged = certain.iter().map(|add| i128::from(add.amount)).sum::<i128>();
    let mut possible = BTreeSet::from([acknowledged]);
    for add in unknown {
        let more = possible.iter().map(|sum| sum + i128::from(add.amount)).collect::<Vec<_>>();
        possible.extend(more);
    }
    if !possible.contains(&value) {
        violation(format!("it is {value}, and {acknowledged} were acknowledged: {possible:?}"));
    }
    if seen.reads.last().is_none_or(|(.., read)| *read != value) {
        violation(format!("it is {value}, and the last read was {:?}", seen.reads.last()));
    }
    for (begun, ended, read) in &seen.reads {
        let sum_of = |counts: &dyn Fn(&Add) -> bool| {
            let adds = seen.adds.iter().filter(|add| counts(add));
            adds.map(|add| i128::from(add.amount)).sum::<i128>()
        };
        // Of what only grows, a sum of reads at several moments tells as much as one at a single moment.
        let least = sum_of(&|add| add.ended.is_some_and(|ended| ended < *begun));
        let most = sum_of(&|add| add.begun < *ended);
        let only_grows = bounds == Bounds::default();
        if !is_within(*read) || only_grows && !(least..=most).contains(read) {
            violation(format!("a read at {begun:?} saw {read}, not {least} to {most}"));
        }
    }
    cells.iter().filter_map(|past| past.last()).filter(|(cell, _)| cell.is_some()).count()
}

fn number_of(cell: &StoredItem, number: CellNumber) -> i128 {
    match cell.attributes.get(number.name()) {
        Some(AttributeValue::Number(number)) => number.to_string().parse().unwrap_or_default(),
        _ => 0,
    }
}

fn key(name: &str) -> ItemKey {
    let partition = PartitionKey::new("counters").expect("a partition key of a few letters");
    ItemKey::new(partition, SortKey::string(name).expect("a sort key of a few letters"))
}
