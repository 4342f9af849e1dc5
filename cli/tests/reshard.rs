//! Clients write, change, remove and read real flights while their collections go from one shard to
//! 2, 16 and 4. Partitions throttle, the rebalancer is killed at random moments until nothing is left
//! to clear up, and a writer freezes for longer than its lease.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use common::{Answer, LocalStack, operator_command};
use dynashard_aws::{DynamoRecordStore, OsEntropy, ServerClock, connect_local};
use dynashard_core::ports::{Entropy, ReadRecords};
use dynashard_core::{CollectionMetadata, Job, Phase, TableSchema};
use dynashard_keys::PartitionKey;
use flate2::read::GzDecoder;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// How many operations the clients carry out at least. `DYNASHARD_E2E_OPERATIONS` sets another
/// number.
const OPERATIONS: usize = 10_000;

const AIRPORTS: [&str; 3] = ["EWR", "JFK", "LGA"];

const CLIENTS: usize = 6;

/// The operations of one batch.
const BATCH: usize = 50;

/// Every so many flights one is only read: it lives through every query.
const ONLY_READ: usize = 7;

/// Longer than the lease of a second, and than T'.
const FREEZE: Duration = Duration::from_millis(2_500);

/// The look at a reshard at which a writer freezes: when `forward` has lasted for about T'.
const FREEZE_AT: u32 = 20;

/// How long the test looks away from a reshard that runs. The closing scan of so few items lasts
/// hardly longer.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// At each look the rebalancer is killed with a chance of one in so many.
const KILL_ONE_IN: usize = 20;

/// Of these kills so many a reshard: what is given up waits for the sweep, which comes once a minute.
const MOST_KILLS: u32 = 5;

/// After so many looks a reshard that is not over never will be.
const PATIENCE: u32 = 7_000;

/// More markers than can have been on their way at a close are not left over, but were not removed.
const MOST_STRAYS: usize = 50;

/// What an item is known to hold; `None` is an item that is absent.
type State = Option<u64>;

/// An item of one client, which alone changes it.
#[derive(Debug)]
struct Item {
    airport: &'static str,
    sk: String,
    /// One state, or after a write of unknown outcome two. Such an item is left alone.
    states: BTreeSet<State>,
}

impl Item {
    fn state(&self) -> Option<State> {
        let mut states = self.states.iter();
        states.next().copied().filter(|_| states.next().is_none())
    }

    fn may_become(&mut self, state: State) {
        self.states.insert(state);
    }

    fn is(&mut self, state: State) {
        self.states = BTreeSet::from([state]);
    }
}

/// What the clients share.
struct Run {
    stack: LocalStack,
    done: AtomicUsize,
    /// Those of them that carry a condition.
    conditional: AtomicUsize,
    versions: AtomicUsize,
    resharded: AtomicBool,
    most: usize,
    unknown: AtomicUsize,
    walks: AtomicUsize,
    only_read: BTreeMap<&'static str, BTreeSet<String>>,
}

#[test]
fn a_collection_is_resharded_under_load_and_kills_and_loses_nothing() {
    let most = std::env::var("DYNASHARD_E2E_OPERATIONS").ok();
    let most = most.map_or(OPERATIONS, |most| most.parse().expect("a number"));
    let set = ["LeaseSecs=1", "RequestLifetimeSecs=3", "ScalingMode=off", "MoverWriteUnits=600"];
    let set = set.iter().flat_map(|setting| ["--set", setting]);
    let args = set.chain(["--partition-wcu", "500", "--partition-rcu", "2000"]);
    let stack = LocalStack::start(&args.collect::<Vec<_>>());

    let (mut items, mut only_read) = (Vec::new(), BTreeMap::new());
    for (n, (airport, sk)) in flights(most / 4).into_iter().enumerate() {
        if n % ONLY_READ == 0 {
            only_read.entry(airport).or_insert_with(BTreeSet::new).insert(sk);
        } else {
            items.push(Item { airport, sk, states: BTreeSet::from([None]) });
        }
    }
    let run = Run {
        stack,
        done: AtomicUsize::new(0),
        conditional: AtomicUsize::new(0),
        versions: AtomicUsize::new(1),
        resharded: AtomicBool::new(false),
        most,
        unknown: AtomicUsize::new(0),
        walks: AtomicUsize::new(0),
        only_read,
    };
    run.load_what_is_only_read();
    let mut kills = KillSchedule::of(&run.stack);

    let mut owned = (0..CLIENTS).map(|_| Vec::new()).collect::<Vec<_>>();
    for (n, item) in items.into_iter().enumerate() {
        owned[n % CLIENTS].push(item);
    }
    let owned = owned.into_iter().map(Mutex::new).collect::<Vec<_>>();
    thread::scope(|scope| {
        let _over = Over(&run.resharded);
        for (n, items) in owned.iter().enumerate() {
            let run = &run;
            scope.spawn(move || run.client(n, &mut items.lock().expect("no other")));
        }
        for ascending in [true, false] {
            let run = &run;
            scope.spawn(move || {
                while !run.is_over() {
                    for airport in AIRPORTS {
                        run.walk(airport, ascending);
                    }
                }
            });
        }
        // The second is followed at once, while its markers are still removed.
        for (count, until) in [(2, Until::ClearedUp), (16, Until::Closed), (4, Until::ClearedUp)] {
            run.reshard(count, until, &mut kills);
        }
    });

    // What may yet be carried out is over, and every item is what its client knows it to be.
    thread::sleep(Duration::from_secs(5));
    let items = owned.into_iter().flat_map(|items| items.into_inner().expect("no panic"));
    let items = items.collect::<Vec<_>>();
    let mut lives = 0;
    for airport in AIRPORTS {
        let found = run.walk(airport, true);
        lives += found.len();
        let mut expected =
            run.only_read[airport].iter().map(String::as_str).collect::<BTreeSet<_>>();
        for item in items.iter().filter(|item| item.airport == airport) {
            let state = found.get(&item.sk).copied();
            assert!(item.states.contains(&state), "{item:?} is {state:?}");
            expected.insert(&item.sk);
        }
        assert!(found.keys().all(|sk| expected.contains(sk.as_str())), "nothing else is there");
        let collection = run.stack.get(&format!("/collection?pk={airport}")).json();
        assert_eq!(
            (&collection["number_of_shards"], &collection["state"]),
            (&json!(4), &json!("stable"))
        );
    }
    run.verify(lives);
    eprintln!(
        "{} operations, {} of them with a condition, {} of unknown outcome, {} queries of whole collections, {lives} items in the end",
        run.done.load(Ordering::Relaxed),
        run.conditional.load(Ordering::Relaxed),
        run.unknown.load(Ordering::Relaxed),
        run.walks.load(Ordering::Relaxed),
    );
    kills.assert_late_stages_were_hit();
}

/// Ends the clients when it goes, also where the thread that they wait for has given up.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Run {
    /// The clients go on until everything has been resharded, and until they have done their number.
    fn is_over(&self) -> bool {
        self.resharded.load(Ordering::Relaxed) && self.done.load(Ordering::Relaxed) >= self.most
    }

    fn load_what_is_only_read(&self) {
        for (airport, sks) in &self.only_read {
            let puts = sks.iter().map(|sk| json!({ "pk": airport, "sk": sk, "item": { "v": 0 } }));
            self.stack.put_all(puts);
        }
    }

    fn client(&self, seed: usize, items: &mut [Item]) {
        let mut chance = Chance(u64::try_from(seed).expect("small") + 1);
        while !self.is_over() {
            let (conditional, done) = (&self.conditional, self.done.load(Ordering::Relaxed));
            // Half of all operations carry a condition.
            let is_conditional = 2 * conditional.load(Ordering::Relaxed) <= done;
            match chance.below(10) {
                0 => self.get(chance.pick(items)),
                kind if is_conditional => match kind % 4 {
                    0 => self.patch(chance.pick(items)),
                    1 => self.create(chance.pick(items)),
                    2 => self.if_match(chance.pick(items), true),
                    _ => self.if_match(chance.pick(items), false),
                },
                _ => self.batch(&mut chance, items),
            }
        }
    }

    fn version(&self) -> u64 {
        u64::try_from(self.versions.fetch_add(1, Ordering::Relaxed)).expect("small")
    }

    fn count(&self, operations: usize) {
        self.done.fetch_add(operations, Ordering::Relaxed);
    }

    fn count_conditional(&self) {
        self.conditional.fetch_add(1, Ordering::Relaxed);
        self.count(1);
    }

    /// Whether the answer leaves a doubt about what was done. Only that it does not know says so: a problem with any other
    /// code has changed nothing, and a stack whose tables are sound answers only such as pass.
    fn is_unknown(&self, answer: &Answer) -> bool {
        // A gateway whose function did not answer does not know, and has no code for it.
        let is_known = Self::is_problem(answer) && answer.code() != "outcome_unknown";
        let unknown = answer.status >= 500 && !is_known;
        self.unknown.fetch_add(usize::from(unknown), Ordering::Relaxed);
        unknown
    }

    /// Whether the answer says that nothing was done, for a reason that passes.
    fn was_refused(answer: &Answer) -> bool {
        Self::is_problem(answer)
            && matches!(
                answer.code().as_str(),
                "throttled" | "contended" | "unavailable" | "deadline_exceeded"
            )
    }

    fn is_problem(answer: &Answer) -> bool {
        answer.content_type.as_deref() == Some("application/problem+json")
    }

    fn path(item: &Item) -> String {
        format!("/item?pk={}&sk={}", item.airport, item.sk.replace('#', "%23"))
    }

    fn patch(&self, item: &mut Item) {
        let Some(state) = item.state() else { return };
        let version = self.version();
        let answer = self.stack.json("PATCH", &Self::path(item), &json!({ "v": version }));
        self.count_conditional();
        match (answer.status, state) {
            (200, Some(_)) => item.is(Some(version)),
            (404, None) => {}
            _ if Self::was_refused(&answer) => {}
            (_, Some(_)) if self.is_unknown(&answer) => item.may_become(Some(version)),
            (_, None) if self.is_unknown(&answer) => {}
            _ => panic!("{item:?} patched: {answer:?}"),
        }
    }

    fn create(&self, item: &mut Item) {
        let Some(state) = item.state() else { return };
        let version = self.version();
        let headers = [("content-type", "application/json"), ("if-none-match", "*")];
        let body = json!({ "v": version }).to_string();
        let answer = self.stack.send("PUT", &Self::path(item), &headers, Some(&body));
        self.count_conditional();
        match (answer.status, state) {
            (200, None) => item.is(Some(version)),
            (412, Some(_)) => {}
            _ if Self::was_refused(&answer) => {}
            (_, None) if self.is_unknown(&answer) => item.may_become(Some(version)),
            (_, Some(_)) if self.is_unknown(&answer) => {}
            _ => panic!("{item:?} created: {answer:?}"),
        }
    }

    /// Replaces or removes the version of an item that the client has just read.
    fn if_match(&self, item: &mut Item, replaces: bool) {
        let Some(state) = item.state() else { return };
        let read = self.stack.get(&format!("{}&consistent=true", Self::path(item)));
        self.count(1);
        let tag = match (read.status, state) {
            (200, Some(version)) => {
                assert_eq!(read.json()["v"].as_u64(), Some(version), "{item:?}");
                read.etag.expect("a read item has a version")
            }
            (404, None) | (429 | 503 | 504, _) => return,
            _ => panic!("{item:?} read: {read:?}"),
        };
        let next = replaces.then(|| self.version());
        let headers = [("content-type", "application/json"), ("if-match", tag.as_str())];
        let body = next.map(|version| json!({ "v": version }).to_string());
        let method = if replaces { "PUT" } else { "DELETE" };
        let answer = self.stack.send(method, &Self::path(item), &headers, body.as_deref());
        self.count_conditional();
        match answer.status {
            200 | 204 => item.is(next),
            _ if Self::was_refused(&answer) => {}
            _ if self.is_unknown(&answer) => item.may_become(next),
            _ => panic!("{item:?} by its version: {answer:?}"),
        }
    }

    fn get(&self, item: &Item) {
        let Some(state) = item.state() else { return };
        let answer = self.stack.get(&format!("{}&consistent=true", Self::path(item)));
        self.count(1);
        match answer.status {
            200 => assert_eq!(answer.json()["v"].as_u64(), state, "{item:?}"),
            404 => assert_eq!(state, None, "{item:?}"),
            429 | 503 | 504 => {}
            _ => panic!("{item:?} read: {answer:?}"),
        }
    }

    fn batch(&self, chance: &mut Chance, items: &mut [Item]) {
        let mut chosen = BTreeMap::new();
        for _ in 0..BATCH {
            let at = chance.below(items.len());
            let state = (chance.below(4) > 0).then(|| self.version());
            chosen.insert(at, state);
        }
        chosen.retain(|at, _| items[*at].state().is_some());
        let (mut puts, mut deletes) = (Vec::new(), Vec::new());
        for (at, state) in &chosen {
            let Item { airport, sk, .. } = &items[*at];
            match state {
                Some(version) => {
                    puts.push(json!({ "pk": airport, "sk": sk, "item": { "v": version } }));
                }
                None => deletes.push(json!({ "pk": airport, "sk": sk })),
            }
        }
        let body = json!({ "puts": puts, "deletes": deletes });
        let answer = self.stack.json("POST", "/batch-write", &body);
        self.count(chosen.len());
        let left = match answer.status {
            200 => {
                let answer = answer.json();
                let left = answer["unprocessed"].as_array().expect("a list").iter().map(|left| {
                    let text = |name: &str| left[name].as_str().expect("a text").to_owned();
                    ((text("pk"), text("sk")), text("code"))
                });
                left.collect::<BTreeMap<_, _>>()
            }
            _ if Self::was_refused(&answer) => return,
            _ if self.is_unknown(&answer) => BTreeMap::new(),
            _ => panic!("a batch: {answer:?}"),
        };
        for (at, state) in chosen {
            let item = &mut items[at];
            let code = left.get(&(item.airport.to_owned(), item.sk.clone())).map(String::as_str);
            match code {
                None if answer.status == 200 => item.is(state),
                None => item.may_become(state),
                Some("outcome_unknown") => {
                    self.unknown.fetch_add(1, Ordering::Relaxed);
                    item.may_become(state);
                }
                Some("throttled" | "contended" | "unavailable" | "deadline_exceeded") => {}
                Some(code) => panic!("{item:?}: {code}"),
            }
        }
    }

    /// Reads a whole collection, page by page, and checks what must hold whatever is written
    /// meanwhile: it is in order, nothing comes twice, and what is only read is all there.
    fn walk(&self, airport: &str, ascending: bool) -> BTreeMap<String, u64> {
        let order = if ascending { "asc" } else { "desc" };
        let items = self.stack.query(json!({ "pk": airport, "order": order, "limit": 500 }));
        let found = items.iter().map(|item| {
            let sk = item["sk"].as_str().expect("a sort key").to_owned();
            (sk, item["v"].as_u64().expect("a version"))
        });
        let mut found = found.collect::<Vec<_>>();
        if !ascending {
            found.reverse();
        }
        let is_ordered = found.windows(2).all(|pair| pair[0].0 < pair[1].0);
        assert!(is_ordered, "{airport} {order} is in order, and nothing comes twice");
        let found = found.into_iter().collect::<BTreeMap<_, _>>();
        for sk in &self.only_read[airport] {
            assert_eq!(found.get(sk), Some(&0), "{airport} {sk} {order}");
        }
        self.walks.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Asks for another count of all collections, and kills and freezes processes until they have it.
    fn reshard(&self, count: u32, until: Until, kills: &mut KillSchedule) {
        for airport in AIRPORTS {
            loop {
                let path = format!("/collection/scale?pk={airport}");
                let answer = self.stack.json("POST", &path, &json!({ "number_of_shards": count }));
                match answer.status {
                    202 => break,
                    429 | 503 | 504 => {}
                    _ => panic!("{answer:?}"),
                }
                thread::sleep(Duration::from_millis(200));
            }
        }
        let (mut looks, mut killed) = (0, 0);
        loop {
            assert!(looks < PATIENCE, "{count} shards");
            thread::sleep(LOOK_EVERY);
            looks += 1;
            let seen = kills.collections();
            let is_over = |(metadata, _): &CollectionState| until.is_reached(metadata, count);
            if seen.len() == AIRPORTS.len() && seen.iter().all(is_over) {
                break;
            }
            let stages = seen.iter().filter_map(Stage::of).collect::<BTreeSet<_>>();
            if kills.is_due(&stages, killed) && self.kill_rebalancers() {
                killed += 1;
                kills.note(&stages);
                eprintln!("{count} shards, look {looks}: killed in {stages:?}");
            }
            if looks == FREEZE_AT {
                let writers = self.stack.environments("WriteFunction");
                let frozen = writers.first().expect("a writer");
                kill_process(*frozen, Signal::STOP).expect("it runs");
                thread::sleep(FREEZE);
                kill_process(*frozen, Signal::CONT).expect("it is there");
            }
        }
        eprintln!("{count} shards after {looks} looks and {killed} kills");
    }

    /// Kills all environments of the rebalancer where one of them is at work, and says whether one
    /// was. One that only waits for an event would not be missed.
    fn kill_rebalancers(&self) -> bool {
        let is_at_work = self.stack.is_at_work("RebalanceFunction");
        if is_at_work {
            for pid in self.stack.environments("RebalanceFunction") {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        is_at_work
    }

    /// Has `dynashard verify` look all shards over, which are to hold so many items.
    fn verify(&self, in_the_end: usize) {
        let waits = ["--lease-secs", "1", "--request-lifetime-secs", "3"];
        let verify = ["verify", "--all", "--json"];
        let mut command = operator_command(&self.stack, &[verify.as_slice(), &waits].concat());
        let output = command.output().expect("the command runs");
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let line = |line| {
            serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {stdout}{stderr}"))
        };
        let lines = stdout.lines().map(line).collect::<Vec<_>>();
        let summary = lines.last().unwrap_or_else(|| panic!("no summary: {stderr}"));
        assert_eq!(summary["event"], "summary", "{stdout}{stderr}");
        assert_eq!(
            (&summary["collections"], &summary["items"], &summary["failed"]),
            (&json!(AIRPORTS.len()), &json!(in_the_end), &json!(0)),
            "{stdout}{stderr}"
        );
        let found = lines.iter().filter(|line| line["event"] == "finding").collect::<Vec<_>>();
        // A rebalancer that was killed writes nothing any more. But a write that a writer has signed
        // in `move` may be executed up to H later, and a machine that is busy with all this may take
        // as long: a marker that it puts behind the removal stays (DATA_MODEL.md, "Items"). It says
        // nothing to anybody. Whatever else is found is wrong.
        let is_stray_marker = |line: &&Value| line["kind"] == "stray_marker";
        assert!(found.iter().all(is_stray_marker), "{stdout}{stderr}");
        assert!(found.len() <= MOST_STRAYS, "{} stray markers", found.len());
        let expected = i32::from(!found.is_empty());
        assert_eq!(output.status.code(), Some(expected), "{stdout}{stderr}");
        eprintln!("verify: {in_the_end} items, {} stray markers and nothing wrong", found.len());
    }
}

/// When a reshard counts as over.
#[derive(Debug, Clone, Copy)]
enum Until {
    Closed,
    /// Its markers are removed, and its job is gone.
    ClearedUp,
}

impl Until {
    fn is_reached(self, metadata: &CollectionMetadata, count: u32) -> bool {
        metadata.number_of_shards.get() == count
            && match self {
                Self::Closed => metadata.phase == Phase::Stable,
                Self::ClearedUp => !metadata.needs_rebalancing(),
            }
    }
}

/// A collection's metadata, and the job of its change if one runs or is to be cleared up.
type CollectionState = (CollectionMetadata, Option<Job>);

/// How far a reshard is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Forward,
    FirstScan,
    /// Until no request from before `move` can be executed any more, unless that is over when the
    /// scan is.
    WaitForClosingScan,
    ClosingScan,
    WaitForClose,
    /// It has closed.
    WaitForRemoval,
    RemovalOfMarkers,
}

impl Stage {
    /// Those after the first scan that last for seconds, however much or little there is to move: no
    /// machine is so slow that all looks miss them.
    const LATE_AND_LONG: [Self; 2] = [Self::WaitForClose, Self::WaitForRemoval];

    /// `None` where nothing runs, or where metadata and job were read to either side of a change.
    fn of((metadata, job): &CollectionState) -> Option<Self> {
        let job = job.as_ref().filter(|job| job.generation == metadata.generation)?;
        let is_scanned = || {
            let reshard = metadata.reshard();
            reshard.is_some_and(|reshard| reshard.sources().all(|shard| job.done.contains(&shard)))
        };
        let is_begun = !job.done.is_empty() || !job.under_way.is_empty();
        Some(match metadata.phase {
            Phase::Forward { .. } => Self::Forward,
            Phase::Move { .. } if job.scanned.is_some() => Self::WaitForClose,
            Phase::Move { .. } if job.closing => Self::ClosingScan,
            Phase::Move { .. } if is_scanned() => Self::WaitForClosingScan,
            Phase::Move { .. } => Self::FirstScan,
            Phase::Stable if !metadata.cleanup_pending => return None,
            Phase::Stable if job.closed_seen.is_some() && is_begun => Self::RemovalOfMarkers,
            Phase::Stable => Self::WaitForRemoval,
        })
    }
}

/// When the rebalancer is killed: at random moments, and in each stage after the first scan once in
/// any case, as far as it is seen.
///
/// `DYNASHARD_E2E_SEED` sets the seed. The same seed draws the same at each look; what runs at that
/// moment is the machine's affair.
struct KillSchedule {
    chance: Chance,
    runtime: Runtime,
    metadata: DynamoRecordStore,
    /// How many kills fell into each stage. One kill falls into the stages of all collections, since
    /// it is not known which of them the environments were at.
    by_stage: BTreeMap<Stage, u32>,
}

impl KillSchedule {
    fn of(stack: &LocalStack) -> Self {
        let seed = std::env::var("DYNASHARD_E2E_SEED").ok();
        let seed =
            seed.map_or_else(|| OsEntropy.next_u64(), |seed| seed.parse().expect("a number"));
        eprintln!("DYNASHARD_E2E_SEED={seed}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let client = runtime.block_on(connect_local(&stack.dynamodb, ServerClock::default()));
        let table = "MetadataTable".to_owned();
        let metadata = DynamoRecordStore::new(client, table, &TableSchema::default());
        Self { chance: Chance(seed), runtime, metadata, by_stage: BTreeMap::new() }
    }

    /// The state of each collection that could be read, as rebalancers read it: clients are not told
    /// what is cleared up.
    fn collections(&self) -> Vec<CollectionState> {
        let states = AIRPORTS.iter().filter_map(|airport| {
            let partition = PartitionKey::new(airport).expect("a partition key");
            self.runtime.block_on(async {
                let metadata =
                    self.metadata.get::<CollectionMetadata>(&partition).await.ok()?.value?;
                let job = if metadata.needs_rebalancing() {
                    self.metadata.get::<Job>(&partition).await.ok()?.value
                } else {
                    None
                };
                Some((metadata, job))
            })
        });
        states.collect()
    }

    /// Whether to kill while collections are in these stages, of a reshard in which so many kills
    /// have been.
    fn is_due(&mut self, stages: &BTreeSet<Stage>, killed: u32) -> bool {
        // At each look one number is drawn, whatever becomes of it.
        let by_chance = self.chance.below(KILL_ONE_IN) == 0 && killed < MOST_KILLS;
        let is_missing =
            |stage: &Stage| *stage > Stage::FirstScan && !self.by_stage.contains_key(stage);
        by_chance || stages.iter().any(is_missing)
    }

    fn note(&mut self, stages: &BTreeSet<Stage>) {
        for stage in stages {
            *self.by_stage.entry(*stage).or_insert(0) += 1;
        }
    }

    /// Prints when the kills were, and checks that there were some after the first scan.
    fn assert_late_stages_were_hit(&self) {
        eprintln!("killed in {:?}", self.by_stage);
        for stage in Stage::LATE_AND_LONG {
            assert!(self.by_stage.contains_key(&stage), "no kill fell into {stage:?}");
        }
    }
}

/// The airport and the sort key of so many flights of the file.
fn flights(most: usize) -> Vec<(&'static str, String)> {
    let file = common::checkout().join("data/flights-2013-01.csv.gz");
    let file = std::fs::File::open(file).expect("the flights");
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).expect("the flights");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().expect("headers").clone();
    let column = |name: &str| headers.iter().position(|header| header == name).expect("a column");
    let [origin, hour, carrier, flight] = ["origin", "time_hour", "carrier", "flight"].map(column);
    let mut flights = BTreeSet::new();
    for record in reader.records().take(most) {
        let record = record.expect("a flight");
        let airport = AIRPORTS.into_iter().find(|airport| *airport == &record[origin]);
        let sk = format!("{}#{}{}", &record[hour], &record[carrier], &record[flight]);
        flights.insert((airport.expect("one of three"), sk.replace(' ', "T")));
    }
    flights.into_iter().collect()
}

/// `SplitMix64`, so that each client does the same in every run, and the kills can be repeated.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("small");
        usize::try_from(self.next() % bound).expect("small")
    }

    fn pick<'a>(&mut self, items: &'a mut [Item]) -> &'a mut Item {
        let at = self.below(items.len());
        &mut items[at]
    }
}
