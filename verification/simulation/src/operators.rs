//! Who changes shard counts: operators that ask for it, and the rebalancer that carries it out, as
//! the stream and the schedule start it.

use std::sync::Arc;
use std::time::Duration;

use dynashard_core::{
    Code, Directory, Error, Extent, Kind, PaceChange, Rebalancer, RequestDates, Scaler, Sweep,
};
use dynashard_keys::{ItemKey, PartitionKey, PhysicalPartitionKey, SortKey};

use crate::environment::Role;
use crate::history::is_injected;
use crate::random::Random;
use crate::scenario::{Collection, EXPIRES, any_count};
use crate::world::{Process, Reply, World};

/// What an operator may be given, whatever he asks for.
const CREATION_TIME: Duration = Duration::from_secs(10);

/// No request is executed so long after it was sent.
const LONGEST_REQUEST: Duration = Duration::from_mins(1);

/// More than a change of T waits for.
const COMMAND_TIME: Duration = Duration::from_mins(1);

/// Creates the collections that are created ahead, and then asks for other counts again and again.
pub(crate) async fn run(world: World) {
    let mut scaler = world.start(Role::Function, Scaler::new);
    for collection in &world.scenario.collections {
        let Some(count) = collection.pre_sharded else {
            continue;
        };
        let (partition, placement) = (collection.partition.clone(), collection.placement);
        let create = move |scaler: Arc<Scaler>, deadline| async move {
            scaler.create_collection(&partition, Some(placement), count, deadline).await.map(|_| ())
        };
        let created = world.call(&scaler, CREATION_TIME, create).await;
        note(&world, "create", created);
        scaler = replaced(&world, scaler);
    }
    for _ in 0..world.scenario.scale_requests {
        let rest = world.kernel.draw(|random| random.any_scale(world.scenario.longest_rest));
        world.rest(rest).await;
        scaler = replaced(&world, scaler);
        let collections = &world.scenario.collections;
        let (at, count) =
            world.kernel.draw(|random| (random.index(collections.len()), any_count(random)));
        let partition = collections[at].partition.clone();
        let extent = world.kernel.draw(|random| any_extent(random, &collections[at]));
        world.kernel.trace(|| format!("asks for {count} shards of {partition}, {extent:?}"));
        let ask = move |scaler: Arc<Scaler>, deadline| async move {
            let change = (&extent, count);
            scaler.request_change(None, &partition, change, deadline).await.map(|_| ())
        };
        let asked = world.call(&scaler, CREATION_TIME, ask).await;
        note(&world, "request a count", asked);
    }
}

/// What of a collection is to get a count: half of the time what lies behind one of its sort keys.
fn any_extent(random: &Random, collection: &Collection) -> Extent {
    match random.index(6) {
        0 => Extent::Whole,
        1 | 2 => Extent::Newest,
        at => {
            let boundary = format!("k{}", random.below(collection.sort_keys));
            let boundary = SortKey::string(boundary).expect("a sort key of a few letters");
            Extent::Behind { boundary, descending: at == 3 }
        }
    }
}

/// Slows, pauses and resumes changes while everything goes on, and leaves none of them paused.
pub(crate) async fn change_paces(world: World) {
    let rest = || world.kernel.draw(|random| random.any_scale(world.scenario.longest_rest));
    for _ in 0..world.scenario.scale_requests {
        world.rest(rest()).await;
        let (at, pace) = world.kernel.draw(|random| {
            let rates = [None, Some(None), Some(Some(4)), Some(Some(400))];
            let paused = [None, Some(true), Some(false)][random.index(3)];
            let pace = PaceChange { paused, mover_wcu: rates[random.index(4)] };
            (random.index(world.scenario.collections.len()), pace)
        });
        set_pace(&world, at, pace).await;
    }
    // A command that was killed may have sent a pause, which is executed for so long.
    world.rest(LONGEST_REQUEST).await;
    let resumed = PaceChange { paused: Some(false), mover_wcu: Some(None) };
    for at in 0..world.scenario.collections.len() {
        while !set_pace(&world, at, resumed).await {
            world.rest(rest()).await;
        }
    }
}

/// Changes the pace of one collection's change, if one runs. Whether the command has ended well.
async fn set_pace(world: &World, at: usize, pace: PaceChange) -> bool {
    let scaler = world.start(Role::Function, Scaler::new);
    let partition = world.scenario.collections[at].partition.clone();
    let set = move |scaler: Arc<Scaler>, deadline| async move {
        scaler.set_pace(&partition, pace, deadline).await
    };
    let reply = world.call(&scaler, CREATION_TIME, set).await;
    world.kernel.trace(|| format!("sets the pace of collection {at} to {pace:?}: {reply:?}"));
    matches!(reply, Reply::Answer(Ok(_)))
}

/// Changes T while everything goes on, and begins again whenever the command fails or is killed (protocol:
/// "Pinned settings").
pub(crate) async fn change_lease(world: World, value: Duration) {
    let rest = || world.kernel.draw(|random| random.any_scale(world.scenario.longest_rest));
    world.rest(rest()).await;
    for step in [Step::Announce, Step::Complete] {
        loop {
            let command = world.start(Role::Function, |directory| directory);
            let carry_out = move |directory: Arc<Directory>, deadline| async move {
                match step {
                    Step::Announce => directory.pinned().announce(value, deadline).await,
                    Step::Complete => directory.pinned().complete(value, deadline).await,
                }
            };
            let reply = world.call(&command, COMMAND_TIME, carry_out).await;
            world.kernel.trace(|| format!("{step:?} {value:?}: {reply:?}"));
            world.rest(rest()).await;
            if matches!(reply, Reply::Answer(Ok(_))) {
                break;
            }
        }
    }
}

/// Has writes dated back while everything goes on, and begins again whenever the command fails or is killed (protocol: "Dates
/// of writes").
pub(crate) async fn change_dates(world: World, dates: RequestDates) {
    let rest = || world.kernel.draw(|random| random.any_scale(world.scenario.longest_rest));
    world.rest(rest()).await;
    loop {
        let command = world.start(Role::Function, |directory| directory);
        let date = move |directory: Arc<Directory>, deadline| async move {
            directory.pinned().date(dates, deadline).await
        };
        let reply = world.call(&command, COMMAND_TIME + Duration::from_mins(5), date).await;
        world.kernel.trace(|| format!("dates writes by {dates:?}: {reply:?}"));
        world.rest(rest()).await;
        if matches!(reply, Reply::Answer(Ok(_))) {
            break;
        }
    }
}

/// Has segments list what one item lists, and begins again whenever the command fails or is killed (protocol: "The
/// directory").
pub(crate) async fn convert(world: World) {
    let rest = || world.kernel.draw(|random| random.any_scale(world.scenario.longest_rest));
    world.rest(rest()).await;
    loop {
        let command = world.start(Role::Function, |directory| directory);
        let catalog = world.network.endpoint(command.environment);
        let convert = move |directory: Arc<Directory>, deadline| async move {
            directory.pinned().convert(&catalog, deadline).await
        };
        let reply = world.call(&command, COMMAND_TIME, convert).await;
        world.kernel.trace(|| format!("converts the directory: {reply:?}"));
        world.rest(rest()).await;
        if matches!(reply, Reply::Answer(Ok(_))) {
            break;
        }
    }
}

/// Deletes items that may expire, as DynamoDB's time to live does: now and then, at any home, and on no condition.
pub(crate) async fn expire_items(world: World) {
    let separator = world.settings().schema.separator;
    loop {
        world.rest(world.kernel.draw(|random| random.any_scale(Duration::from_secs(2)))).await;
        if world.kernel.is_kind() {
            return;
        }
        let now = world.kernel.now();
        let expiring = world.network.tables().expiring(EXPIRES, now);
        if expiring.is_empty() {
            continue;
        }
        let key = &expiring[world.kernel.draw(|random| random.index(expiring.len()))];
        let begun = world.kernel.moment();
        let expired = world.network.tables().expire(key, now);
        let ended = world.kernel.moment();
        world.kernel.trace(|| format!("{key:?} expires: {expired:?}"));
        let parsed = PhysicalPartitionKey::parse(key.partition.as_str(), separator);
        if let (Some(item), Ok((partition, _))) = (expired, parsed) {
            let key = ItemKey::new(partition, key.sort.clone());
            world.history().expired(&key, &item, [begun, ended]);
        }
    }
}

/// What the command does of a change of T.
#[derive(Debug, Clone, Copy)]
enum Step {
    Announce,
    Complete,
}

fn replaced(world: &World, scaler: Process<Scaler>) -> Process<Scaler> {
    if world.is_killed(&scaler) {
        return world.start(Role::Function, Scaler::new);
    }
    scaler
}

fn note(world: &World, what: &str, reply: Reply<Result<(), Error>>) {
    world.kernel.trace(|| format!("{what}: {reply:?}"));
    let Reply::Answer(Err(error)) = reply else {
        return;
    };
    let is_expected = matches!(
        error.code(),
        Code::ReshardRunning
            | Code::ReshardTooSoon
            | Code::CollectionNotFound
            | Code::BadParameter
            | Code::EpochsNotPossible
            | Code::CollectionExists
    );
    if !is_expected {
        world.history().meaning(what, &error);
    }
}

/// Starts the rebalancer for whatever the stream says.
pub(crate) async fn follow_stream(world: World) {
    let mut fleet = Fleet::new(world.clone());
    loop {
        for hint in world.network.hints().await {
            fleet.start(Some(hint));
        }
    }
}

/// Starts a sweep now and then, whether the last one has ended or not.
pub(crate) async fn follow_schedule(world: World) {
    let mut fleet = Fleet::new(world.clone());
    loop {
        let pause =
            world.kernel.draw(|r| r.duration(Duration::from_secs(2), Duration::from_secs(12)));
        world.rest(pause).await;
        fleet.start(None);
    }
}

/// The environments that rebalancers run in. Where one was killed or is not free, another is begun,
/// so there may be several at work on one collection.
struct Fleet {
    world: World,
    warm: Vec<Process<Rebalancer>>,
}

/// How many environments a fleet keeps.
const KEPT: usize = 2;

impl Fleet {
    fn new(world: World) -> Self {
        Self { world, warm: Vec::new() }
    }

    /// Starts a slice of work on one collection, or a sweep over all.
    fn start(&mut self, hint: Option<(PartitionKey, u32)>) {
        let world = &self.world;
        self.warm.retain(|process| !world.is_killed(process));
        let at = world.kernel.draw(|random| random.index(KEPT));
        if at >= self.warm.len() {
            self.warm.push(world.start(Role::Rebalancer, Rebalancer::new));
        }
        let process = &self.warm[at.min(self.warm.len() - 1)];
        // A record of metadata in `forward` brings that into force and no more, and others come late.
        let relieves = world.kernel.draw(|random| random.index(2) == 0);
        let hint = hint.map(|(partition, lane)| (partition, lane, relieves && lane == 0));
        let task = slice(world.clone(), process.clone(), hint);
        world.kernel.spawn(world.outside, task);
    }
}

async fn slice(
    world: World,
    process: Process<Rebalancer>,
    hint: Option<(PartitionKey, u32, bool)>,
) {
    let time = world.scenario.longest_slice;
    let work = move |rebalancer: Arc<Rebalancer>, deadline| async move {
        if let Some((partition, lane, relieves)) = hint {
            let slice = if relieves {
                rebalancer.relieve(&partition, deadline).await
            } else {
                rebalancer.advance(&partition, lane, deadline).await
            };
            return vec![slice.advance.map(|_| ())];
        }
        let Sweep { collections, unlisted, .. } = rebalancer.sweep(deadline).await;
        let advances = collections.into_iter().map(|(_, slice)| slice.advance.map(|_| ()));
        advances.chain(unlisted.map(Err)).collect()
    };
    let reply = world.call(&process, time, work).await;
    world.kernel.trace(|| format!("slice in environment {}: {reply:?}", process.environment.0));
    let Reply::Answer(results) = reply else {
        return;
    };
    for error in results.into_iter().filter_map(Result::err) {
        // A change of unknown outcome is looked at again by the next slice, as is what an operator puts right.
        let passes = is_injected(&error)
            || matches!(error.kind(), Kind::Throttled | Kind::Unavailable | Kind::OutcomeUnknown);
        if !passes || error.code() == Code::MetadataBehind {
            world.history().violations.push(format!("rebalancer: {error}"));
        }
    }
}

/// One sweep when nothing goes wrong any more.
pub(crate) fn sweep_in_peace(world: &World) {
    let process = world.start(Role::Rebalancer, Rebalancer::new);
    world.kernel.spawn(world.outside, slice(world.clone(), process, None));
}
