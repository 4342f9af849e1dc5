//! Any series of writes and moves, as docs/PROTOCOL.md has them, and what consumers of the stream make of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use dynashard_keys::{
    ItemKey, PartitionKey, Placement, Separator, ShardCount, SortKey, SortKeyType,
};
use dynashard_streams::{LogicalRecord, Position, Table};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

const ITEMS: u8 = 3;

/// What happens to one item, or to the collection.
#[derive(Debug, Clone, Copy)]
enum Step {
    Put(u8),
    Delete(u8),
    /// A delete, while DynamoDB rejects the item at its new home.
    DeleteUnmovable(u8),
    /// The mover, or whoever settles the item.
    Settle(u8),
    /// A put that was signed before the reshard, and is executed now. Its outcome is unknown.
    LatePut(u8),
    /// DynamoDB deletes the item where it lies.
    Expire(u8),
    RemoveMarkers(u8),
    Reshard(u32),
    Close,
}

fn usual() -> impl Strategy<Value = Step> {
    let item = 0..ITEMS;
    prop_oneof![
        4 => item.clone().prop_map(Step::Put),
        2 => item.clone().prop_map(Step::Delete),
        1 => item.clone().prop_map(Step::DeleteUnmovable),
        3 => item.clone().prop_map(Step::Settle),
        1 => item.prop_map(Step::RemoveMarkers),
        2 => prop_oneof![Just(1), Just(2), Just(4), Just(8)].prop_map(Step::Reshard),
        1 => Just(Step::Close),
    ]
}

fn accident() -> impl Strategy<Value = Step> {
    prop_oneof![(0..ITEMS).prop_map(Step::LatePut), (0..ITEMS).prop_map(Step::Expire)]
}

/// An item, or a marker, which has a version only if a delete has left it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stored {
    generation: u64,
    version: Option<u64>,
    is_marker: bool,
}

impl Stored {
    fn item(generation: u64, version: u64) -> Self {
        Self { generation, version: Some(version), is_marker: false }
    }

    fn marker(generation: u64, version: Option<u64>) -> Self {
        Self { generation, version, is_marker: true }
    }
}

/// The main table, its stream, and what clients see.
#[derive(Debug)]
struct World {
    table: BTreeMap<(String, u8), Stored>,
    stream: Vec<Value>,
    count: u32,
    moving_to: Option<u32>,
    generation: u64,
    writes: u64,
    clients_see: BTreeMap<u8, u64>,
}

impl World {
    fn new() -> Self {
        Self {
            table: BTreeMap::new(),
            stream: Vec::new(),
            count: 1,
            moving_to: None,
            generation: 0,
            writes: 0,
            clients_see: BTreeMap::new(),
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Put(item) => {
                let version = self.draw();
                self.store(&self.new_home(item), item, Stored::item(self.generation, version));
                self.clients_see.insert(item, version);
            }
            Step::Delete(item) => {
                if self.is_live(&self.old_home(item), item) {
                    self.settle(item);
                }
                self.remove_live(&self.new_home(item), item);
                self.clients_see.remove(&item);
            }
            Step::DeleteUnmovable(item) => {
                let (old, new) = (self.old_home(item), self.new_home(item));
                if old != new && self.is_live(&old, item) && !self.is_live(&new, item) {
                    let version = Some(self.draw());
                    self.store(&old, item, Stored::marker(self.generation, version));
                    self.clients_see.remove(&item);
                }
            }
            Step::Settle(item) => self.settle(item),
            Step::LatePut(item) if self.moving_to.is_some() => {
                let (old, before) = (self.old_home(item), self.generation - 1);
                let at_old = self.table.get(&(old.clone(), item));
                if at_old.is_some_and(|stored| stored.generation > before) {
                    return;
                }
                let version = self.draw();
                self.store(&old, item, Stored::item(before, version));
                if old == self.new_home(item) || !self.is_live(&self.new_home(item), item) {
                    self.clients_see.insert(item, version);
                }
            }
            Step::Expire(item) => {
                let (old, new) = (self.old_home(item), self.new_home(item));
                let is_hidden = old != new && self.is_live(&old, item) && self.is_live(&new, item);
                self.remove_live(if self.is_live(&old, item) { &old } else { &new }, item);
                if !is_hidden {
                    self.clients_see.remove(&item);
                }
            }
            Step::RemoveMarkers(item) if self.moving_to.is_none() => {
                for home in [1, 2, 4, 8].map(|count| home(item, count)) {
                    if !self.is_live(&home, item) {
                        self.remove(&home, item);
                    }
                }
            }
            Step::Reshard(to) if self.moving_to.is_none() && to != self.count => {
                self.moving_to = Some(to);
                self.generation += 1;
            }
            Step::Close => {
                for item in 0..ITEMS {
                    if self.is_live(&self.old_home(item), item) {
                        self.settle(item);
                    }
                }
                self.count = self.moving_to.take().unwrap_or(self.count);
            }
            Step::LatePut(_) | Step::RemoveMarkers(_) | Step::Reshard(_) => {}
        }
    }

    fn settle(&mut self, item: u8) {
        let (old, new) = (self.old_home(item), self.new_home(item));
        if old == new {
            return;
        }
        match self.table.get(&(old.clone(), item)).copied() {
            Some(at_old) if at_old.is_marker && at_old.generation == self.generation => return,
            Some(Stored { version: Some(version), is_marker: false, .. })
                if !self.is_live(&new, item) =>
            {
                self.store(&new, item, Stored::item(self.generation, version));
            }
            _ => {}
        }
        self.store(&old, item, Stored::marker(self.generation, None));
    }

    fn draw(&mut self) -> u64 {
        self.writes += 1;
        self.writes
    }

    fn old_home(&self, item: u8) -> String {
        home(item, self.count)
    }

    fn new_home(&self, item: u8) -> String {
        home(item, self.moving_to.unwrap_or(self.count))
    }

    fn is_live(&self, home: &str, item: u8) -> bool {
        let stored = self.table.get(&(home.to_owned(), item));
        stored.is_some_and(|stored| !stored.is_marker)
    }

    fn store(&mut self, home: &str, item: u8, stored: Stored) {
        let before = self.table.insert((home.to_owned(), item), stored);
        if before != Some(stored) {
            self.tell(home, item, before, Some(stored));
        }
    }

    fn remove_live(&mut self, home: &str, item: u8) {
        if self.is_live(home, item) {
            self.remove(home, item);
        }
    }

    fn remove(&mut self, home: &str, item: u8) {
        if let Some(before) = self.table.remove(&(home.to_owned(), item)) {
            self.tell(home, item, Some(before), None);
        }
    }

    /// DynamoDB's own record.
    fn tell(&mut self, home: &str, item: u8, old: Option<Stored>, new: Option<Stored>) {
        let keys = json!({ "pk": { "S": home }, "sk": { "N": item.to_string() } });
        let image = |stored: Stored| {
            let mut image = keys.clone();
            if stored.generation > 0 {
                image["_ds_g"] = json!({ "N": stored.generation.to_string() });
            }
            if let Some(version) = stored.version {
                image["_ds_v"] = json!({ "N": version.to_string() });
            }
            match stored.version {
                Some(version) if !stored.is_marker => {
                    image["value"] = json!({ "N": version.to_string() });
                }
                _ => image["_ds_fwd"] = json!({ "BOOL": true }),
            }
            image
        };
        let event = match (old, new) {
            (None, _) => "INSERT",
            (_, None) => "REMOVE",
            _ => "MODIFY",
        };
        let mut record = json!({ "eventName": event, "dynamodb": { "Keys": keys } });
        for (name, stored) in [("OldImage", old), ("NewImage", new)] {
            if let Some(stored) = stored {
                record["dynamodb"][name] = image(stored);
            }
        }
        self.stream.push(record);
    }
}

fn home(item: u8, count: u32) -> String {
    let partition = PartitionKey::new("EWR").expect("a key");
    let sort = SortKey::parse(&item.to_string(), SortKeyType::Number).expect("a number");
    let key = ItemKey::new(partition, sort);
    let count = ShardCount::new(count).expect("a count");
    let shard = Placement::Xxh64.home(&key, count).expect("calculated");
    key.at(shard, Placement::Xxh64, Separator::HashTilde).partition.as_str().to_owned()
}

fn logical(record: &Value) -> Option<LogicalRecord> {
    let told = Table::default().logical(record.clone()).expect("a record of the table")?;
    let text = told.record.to_string();
    assert!(!text.contains("#~") && !text.contains("_ds_"), "{text}");
    assert_eq!(told.record["dynamodb"]["Keys"]["pk"]["S"], "EWR");
    Some(told)
}

/// What a consumer holds that does as it is told.
fn apply(held: &mut BTreeMap<u8, u64>, told: &LogicalRecord) {
    let change = &told.record["dynamodb"];
    let number =
        |value: &Value| value["N"].as_str().expect("a number").parse::<u64>().expect("one");
    let item = u8::try_from(number(&change["Keys"]["sk"])).expect("an item");
    match change.get("NewImage") {
        Some(image) => held.insert(item, number(&image["value"])),
        None => held.remove(&item),
    };
}

proptest! {
    /// In the order in which things happened, a consumer without a memory has at each moment what clients see.
    #[test]
    fn in_order_a_consumer_holds_what_clients_see(steps in prop::collection::vec(usual(), 1..60)) {
        let (mut world, mut held, mut told_of) = (World::new(), BTreeMap::new(), BTreeSet::new());
        for step in steps {
            let before = world.stream.len();
            world.take(step);
            for record in &world.stream[before..] {
                let Some(told) = logical(record) else { continue };
                let is_new = told.record["eventName"] == "REMOVE" || told_of.insert(told.version);
                prop_assert!(is_new || told.may_repeat, "{step:?}: a repeat says so: {told:?}");
                let is_of_clients = matches!(step, Step::Put(_) | Step::Delete(_) | Step::DeleteUnmovable(_));
                prop_assert!(is_of_clients || !is_new, "{step:?} told: {told:?}");
                apply(&mut held, &told);
            }
            prop_assert_eq!(&held, &world.clients_see, "after {:?}", step);
        }
    }

    /// Only the records of one place are in order. A consumer that keeps positions has in the end what clients see.
    #[test]
    fn in_any_order_a_consumer_that_keeps_positions_ends_with_what_clients_see(
        steps in prop::collection::vec(prop_oneof![3 => usual(), 1 => accident()], 1..60),
        turns in prop::collection::vec(any::<Index>(), 300),
    ) {
        let mut world = World::new();
        for step in steps.into_iter().chain([Step::Close]) {
            world.take(step);
        }
        let mut places = BTreeMap::<String, VecDeque<&Value>>::new();
        for record in &world.stream {
            places.entry(record["dynamodb"]["Keys"].to_string()).or_default().push_back(record);
        }
        let mut places = places.into_values().collect::<Vec<_>>();
        let (mut held, mut positions) = (BTreeMap::new(), BTreeMap::<String, Position>::new());
        let mut turns = turns.iter().cycle();
        while !places.is_empty() {
            let turn = turns.next().expect("a cycle").index(places.len());
            let Some(record) = places[turn].pop_front() else {
                places.swap_remove(turn);
                continue;
            };
            let Some(told) = logical(record) else { continue };
            let key = told.record["dynamodb"]["Keys"].to_string();
            if positions.get(&key).is_some_and(|kept| told.position.is_overtaken_by(kept)) {
                continue;
            }
            positions.insert(key, told.position.clone());
            apply(&mut held, &told);
        }
        prop_assert_eq!(held, world.clients_see);
    }
}
