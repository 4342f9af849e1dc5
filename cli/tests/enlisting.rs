//! A thousand cold collections, of which twenty become hot at once: they are enlisted and grow while clients
//! write, an operator has them grow once more, and environments of all functions are killed at random moments. Nothing is
//! lost.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use common::{LocalStack, on};
use dynashard_aws::OsEntropy;
use dynashard_core::ports::Entropy;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

/// How many operations the clients carry out at least. `DYNASHARD_E2E_OPERATIONS` sets another number.
const OPERATIONS: usize = 12_000;

/// How often as many it may take until the hot ones have grown.
const MOST_TIMES: usize = 4;

/// `DYNASHARD_E2E_COLLECTIONS` sets another number.
const COLLECTIONS: usize = 1_000;

/// The first of them, which most operations go to. `DYNASHARD_E2E_HOT` sets another number.
const HOT: usize = 20;

const CLIENTS: usize = 8;

/// The operations of one batch.
const BATCH: usize = 40;

/// How long the operator leaves the collections alone between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How long the test leaves the functions alone between two kills.
const KILL_EVERY: Duration = Duration::from_millis(700);

/// What an item is known to hold; `None` is an item that is absent.
type State = Option<u64>;

/// The items of one client, which alone changes them: what each may be. One of which that is not known any
/// more, after a write of unknown outcome, is left alone.
type Items = BTreeMap<(String, String), BTreeSet<State>>;

struct Run {
    stack: LocalStack,
    most: usize,
    collections: usize,
    hot: usize,
    done: AtomicUsize,
    unknown: AtomicUsize,
    is_over: AtomicBool,
}

#[test]
fn a_thousand_collections_of_which_twenty_become_hot_lose_nothing() {
    let set = ["LeaseSecs=1", "RequestLifetimeSecs=3", "CooldownSecs=1"];
    let set = set.iter().flat_map(|setting| ["--set", setting]);
    let args = set.chain(["--partition-wcu", "15", "--burst-secs", "1"]);
    let run = Run {
        stack: LocalStack::start(&args.collect::<Vec<_>>()),
        most: number("OPERATIONS", OPERATIONS),
        collections: number("COLLECTIONS", COLLECTIONS),
        hot: number("HOT", HOT),
        done: AtomicUsize::new(0),
        unknown: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
    };
    let owned = (0..CLIENTS).map(|_| Mutex::new(Items::new())).collect::<Vec<_>>();
    let kills = thread::scope(|scope| {
        let clients = owned.iter().enumerate().map(|(client, items)| {
            let run = &run;
            scope.spawn(move || run.client(client, &mut items.lock().expect("no other")))
        });
        let clients = clients.collect::<Vec<_>>();
        let killer = scope.spawn(|| run.kill());
        scope.spawn(|| run.grow_again());
        let ended = clients.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>();
        run.is_over.store(true, Ordering::Relaxed);
        for ended in ended {
            ended.expect("no panic");
        }
        killer.join().expect("no panic")
    });
    assert!(kills > 0);

    let grown = (0..run.collections).filter(|it| run.has_grown(*it)).collect::<Vec<_>>();
    assert!(grown.len() >= run.hot / 2, "so few have grown: {grown:?}");
    assert!(grown.len() < run.collections / 2, "the others stay cold: {}", grown.len());
    let twice = grown.iter().filter(|it| run.growths(**it) > Some(1)).count();

    let items = owned.into_iter().flat_map(|items| items.into_inner().expect("no panic"));
    let mut expected = BTreeMap::<String, BTreeMap<String, BTreeSet<State>>>::new();
    for ((pk, sk), states) in items {
        expected.entry(pk).or_default().insert(sk, states);
    }
    // What may yet be carried out is over.
    thread::sleep(Duration::from_secs(4));
    let mut lives = 0;
    for (pk, items) in &expected {
        let found = run.stack.query(json!({ "pk": pk, "limit": 1_000 }));
        let state = |item: &Value| {
            (
                item["sk"].as_str().expect("a sort key").to_owned(),
                item["v"].as_u64().expect("a version"),
            )
        };
        let in_order = found.iter().map(state).collect::<Vec<_>>();
        assert!(in_order.is_sorted_by(|one, next| one.0 < next.0), "{pk}: each once, in order");
        let found = in_order.into_iter().collect::<BTreeMap<_, _>>();
        for (sk, states) in items {
            let state = found.get(sk).copied();
            assert!(states.contains(&state), "{pk} {sk} is {state:?}, and not one of {states:?}");
        }
        assert!(found.keys().all(|sk| items.contains_key(sk)), "nothing else is in {pk}");
        lives += found.len();
    }
    let verified = on(&run.stack, &["verify", "--all", "--json"]);
    let end = verified.last();
    assert_eq!((verified.status, &end["found"]), (0, &json!(0)), "{end}");
    eprintln!(
        "{} operations, {} of unknown outcome, {kills} kills, {} collections grew, {twice} of them twice, {lives} items in the end",
        run.done.load(Ordering::Relaxed),
        run.unknown.load(Ordering::Relaxed),
        grown.len(),
    );
}

fn name(collection: usize) -> String {
    format!("c{collection:03}")
}

/// What a variable says, or this.
fn number(name: &str, usual: usize) -> usize {
    let given = std::env::var(format!("DYNASHARD_E2E_{name}")).ok();
    given.map_or(usual, |given| given.parse().expect("a number"))
}

fn below(limit: usize) -> usize {
    let limit = u64::try_from(limit).expect("small");
    usize::try_from(OsEntropy.next_u64() % limit).expect("small")
}

impl Run {
    /// Until all is done, and on a busy machine, whose clients ask for less in a second, for some time more.
    fn goes_on(&self) -> bool {
        let done = self.done.load(Ordering::Relaxed);
        done < self.most
            || done < MOST_TIMES * self.most
                && (0..self.hot).filter(|it| self.has_grown(*it)).count() < self.hot / 2
    }

    fn has_grown(&self, collection: usize) -> bool {
        let shown = self.stack.get(&format!("/collection?pk={}", name(collection)));
        shown.status == 200 && shown.json()["number_of_shards"].as_u64() > Some(1)
    }

    /// How often its count has changed.
    fn growths(&self, collection: usize) -> Option<u64> {
        self.stack.get(&format!("/collection?pk={}", name(collection))).json()["generation"]
            .as_u64()
    }

    /// Has each hot collection grow once more when its first growth is over, and those that have not grown by half of the
    /// operations for the first time.
    fn grow_again(&self) {
        let mut left = (0..self.hot).map(name).collect::<Vec<_>>();
        while !self.is_over.load(Ordering::Relaxed) {
            thread::sleep(LOOK_EVERY);
            let is_late = self.done.load(Ordering::Relaxed) > self.most / 2;
            left.retain(|collection| {
                let shown = self.stack.get(&format!("/collection?pk={collection}"));
                let shown =
                    if shown.status == 200 { shown.json() } else { json!({ "generation": 0 }) };
                let (growths, shards) = (shown["generation"].as_u64(), &shown["number_of_shards"]);
                let is_due = match growths {
                    Some(0) => is_late,
                    _ => shown["state"] == "stable",
                };
                if growths < Some(2) && is_due {
                    let body = json!({ "number_of_shards": 2 * shards.as_u64().unwrap_or(1) });
                    // One that begins nothing is made again with the next look.
                    let path = format!("/collection/scale?pk={collection}");
                    self.stack.json("POST", &path, &body);
                }
                growths < Some(2)
            });
        }
    }

    fn client(&self, client: usize, items: &mut Items) {
        while self.goes_on() {
            let mut chosen = BTreeMap::new();
            for _ in 0..BATCH {
                let is_hot = below(10) < 8;
                let (collection, items_each) =
                    if is_hot { (below(self.hot), 200) } else { (below(self.collections), 4) };
                let sk = format!("{client}-{:03}", below(items_each));
                let version = (below(5) > 0).then(|| OsEntropy.next_u64() >> 12);
                chosen.insert((name(collection), sk), version);
            }
            chosen.retain(|key, _| items.get(key).is_none_or(|states| states.len() == 1));
            self.batch(chosen, items);
        }
    }

    fn batch(&self, chosen: BTreeMap<(String, String), State>, items: &mut Items) {
        let (mut puts, mut deletes) = (Vec::new(), Vec::new());
        for ((pk, sk), state) in &chosen {
            match state {
                Some(version) => puts.push(json!({ "pk": pk, "sk": sk, "item": { "v": version } })),
                None => deletes.push(json!({ "pk": pk, "sk": sk })),
            }
        }
        let body = json!({ "puts": puts, "deletes": deletes });
        let answer = self.stack.json("POST", "/batch-write", &body);
        self.done.fetch_add(chosen.len(), Ordering::Relaxed);
        let left = match answer.status {
            200 => {
                let answer = answer.json();
                let text =
                    |left: &Value, name: &str| left[name].as_str().expect("a text").to_owned();
                let left = answer["unprocessed"].as_array().expect("a list").iter();
                left.map(|left| ((text(left, "pk"), text(left, "sk")), text(left, "code")))
                    .collect()
            }
            // A gateway whose function was killed does not know what it did.
            500 | 502 | 503 | 504 => BTreeMap::new(),
            _ => panic!("a batch: {answer:?}"),
        };
        for (key, state) in chosen {
            let code = left.get(&key).map(String::as_str);
            let states = items.entry(key).or_insert_with(|| BTreeSet::from([None]));
            match code {
                None if answer.status == 200 => *states = BTreeSet::from([state]),
                None | Some("outcome_unknown") => {
                    self.unknown.fetch_add(1, Ordering::Relaxed);
                    states.insert(state);
                }
                Some(code) => assert!(common::PASSING_CODES.contains(&code), "{code}"),
            }
        }
    }

    /// Kills one environment after the other, and says how many.
    fn kill(&self) -> usize {
        let mut kills = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            thread::sleep(KILL_EVERY);
            let functions = ["WriteFunction", "RebalanceFunction", "ScaleFunction"];
            let environments = self.stack.environments(functions[below(functions.len())]);
            if !environments.is_empty() {
                let _ = kill_process(environments[below(environments.len())], Signal::KILL);
                kills += 1;
            }
        }
        kills
    }
}
