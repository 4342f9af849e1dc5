//! Clients: each runs a random program of operations and writes down what it saw.

use std::sync::Arc;
use std::time::Duration;

use dynashard_core::ports::NativeGot;
use dynashard_core::query::PageBudget;
use dynashard_core::{
    BatchOperation, Code, Deleted, Error, NativeRequests, NewItem, Precondition, Reader, Version,
    Writer, Written,
};
use dynashard_keys::{ItemKey, SortKey};

use crate::environment::Role;
use crate::history::{Meaning, attributes, patch};
use crate::linearizability::{Call, Content, Expect, Step};
use crate::native::{Answered, Look, Request};
use crate::network::TO_BE_PUT_RIGHT;
use crate::queries::query;
use crate::scenario::Collection;
use crate::world::{Process, Reply, World};

/// One client, and the functions and the endpoint that serve it.
struct Client {
    world: World,
    writer: Process<Writer>,
    reader: Process<Reader>,
    native: Process<NativeRequests>,
}

/// What a client is to do next.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Put(Expect),
    Patch(Expect),
    Delete(Expect),
    Get,
    NativePut(Expect),
    NativeUpdate(Expect),
    NativeDelete(Expect),
    NativeGet,
    BatchGet,
    BatchWrite,
    Query,
}

/// The program of one client.
pub(crate) async fn run(world: World) {
    let mut client = Client {
        writer: start_writer(&world),
        reader: start_reader(&world),
        native: start_native(&world),
        world: world.clone(),
    };
    for _ in 0..world.scenario.operations {
        let thought = world.kernel.draw(|random| random.any_scale(world.scenario.longest_thought));
        world.rest(thought).await;
        client.replace_processes();
        world.history().calls += 1;
        client.next().await;
    }
}

fn start_writer(world: &World) -> Process<Writer> {
    world.start(Role::Function, Writer::new)
}

fn start_reader(world: &World) -> Process<Reader> {
    world.start(Role::Function, Reader::new)
}

fn start_native(world: &World) -> Process<NativeRequests> {
    world.start(Role::Function, NativeRequests::new)
}

impl Client {
    /// Another environment serves the client when the last one was killed, and now and then.
    fn replace_processes(&mut self) {
        let [writer, reader, native] =
            self.world.kernel.draw(|random| [(); 3].map(|()| random.chance(50_000)));
        if writer || self.world.is_killed(&self.writer) {
            self.writer = start_writer(&self.world);
        }
        if reader || self.world.is_killed(&self.reader) {
            self.reader = start_reader(&self.world);
        }
        if native || self.world.is_killed(&self.native) {
            self.native = start_native(&self.world);
        }
    }

    async fn next(&self) {
        let collections = &self.world.scenario.collections;
        let collection = &collections[self.world.kernel.draw(|r| r.index(collections.len()))];
        let is_calculated = collection.placement.is_calculated();
        let operation = self.draw_operation(is_calculated);
        match operation {
            Operation::Put(expect) => {
                // The items of a random collection are written once: two puts of one key would
                // leave it in two shards.
                let key = if is_calculated {
                    self.any_key(collection)
                } else {
                    Some(self.unused_key(collection))
                };
                if let Some(key) = key {
                    self.put(&key, expect).await;
                }
            }
            Operation::Patch(expect) => {
                if let Some(key) = self.any_key(collection) {
                    self.patch(&key, expect).await;
                }
            }
            Operation::Delete(expect) => {
                if let Some(key) = self.any_key(collection) {
                    self.delete(&key, expect).await;
                }
            }
            Operation::Get => {
                if let Some(key) = self.any_key(collection) {
                    self.get(&key).await;
                }
            }
            Operation::NativePut(expect) => {
                let content = self.new_content();
                self.native_write(collection, expect, |expect| Step::Put(expect, content)).await;
            }
            Operation::NativeUpdate(expect) => {
                let (writer, field, value) = self.new_field();
                let step = |expect| Step::Update(expect, writer, field, value);
                self.native_write(collection, expect, step).await;
            }
            Operation::NativeDelete(expect) => {
                self.native_write(collection, expect, Step::Delete).await;
            }
            Operation::NativeGet => {
                if let Some(key) = self.any_key(collection) {
                    self.native_get(&key).await;
                }
            }
            Operation::BatchGet => self.batch_get().await,
            Operation::BatchWrite => self.batch_write(collection).await,
            Operation::Query => query(&self.world, &self.reader, collection).await,
        }
    }

    fn draw_operation(&self, is_calculated: bool) -> Operation {
        self.world.kernel.draw(|random| {
            // A version is looked up when the key is known.
            let expects = [Expect::Anything, Expect::Absent, Expect::Exists, Expect::LeftBy(0)];
            let calculated = |from: &[Expect]| {
                if is_calculated { random.pick(from) } else { Expect::Anything }
            };
            // A condition of DynamoDB's may ask for more, and does so of half of the writes.
            let native = || {
                let more = [Expect::Has(0), Expect::Has(1), Expect::Lacks(0), Expect::Lacks(1)];
                let expects = [&expects[..], &more].concat();
                if random.chance(500_000) { random.pick(&expects) } else { Expect::Anything }
            };
            match random.below(100) {
                0..8 if is_calculated => Operation::NativePut(native()),
                8..22 if is_calculated => Operation::NativeUpdate(native()),
                0..36 => Operation::Put(calculated(&expects)),
                36..44 if is_calculated => {
                    Operation::Patch(random.pick(&[expects[0], expects[2], expects[3]]))
                }
                36..44 => Operation::Put(Expect::Anything),
                44..52 if is_calculated => Operation::NativeDelete(native()),
                44..60 => Operation::Delete(calculated(&[expects[0], expects[2], expects[3]])),
                60..66 if is_calculated => Operation::NativeGet,
                60..76 => Operation::Get,
                76..80 => Operation::BatchGet,
                80..86 => Operation::BatchWrite,
                _ => Operation::Query,
            }
        })
    }

    /// A key of the collection: of those that were written, in a random one.
    fn any_key(&self, collection: &Collection) -> Option<ItemKey> {
        let key = if collection.placement.is_calculated() {
            let number = self.world.kernel.draw(|random| random.below(collection.sort_keys));
            key(collection, &format!("k{number}"))
        } else {
            let history = self.world.history();
            let keys = history.keys().filter(|key| key.partition == collection.partition);
            let keys = keys.collect::<Vec<_>>();
            if keys.is_empty() {
                return None;
            }
            keys[self.world.kernel.draw(|random| random.index(keys.len()))].clone()
        };
        Some(key)
    }

    fn unused_key(&self, collection: &Collection) -> ItemKey {
        let number = self.world.history().number_write();
        let prefix = self.world.kernel.draw(|random| random.below(10));
        key(collection, &format!("k{prefix}-{number}"))
    }

    /// What is asked of the item, and how the API says it. One that was never seen has no version to
    /// ask for.
    fn precondition(&self, key: &ItemKey, expect: Expect) -> (Expect, Precondition) {
        match expect {
            Expect::Anything => (expect, Precondition::None),
            Expect::Absent => (expect, Precondition::Absent),
            Expect::Exists => (expect, Precondition::Exists),
            Expect::Has(_) | Expect::Lacks(_) | Expect::Is(_) => {
                (Expect::Anything, Precondition::None)
            }
            Expect::LeftBy(_) => {
                let history = self.world.history();
                let known = history
                    .last_seen(key)
                    .and_then(|writer| Some((writer, history.version(writer)?)));
                known.map_or((Expect::Anything, Precondition::None), |(writer, version)| {
                    (Expect::LeftBy(writer), Precondition::Version(version))
                })
            }
        }
    }

    fn new_content(&self) -> Content {
        let writer = self.world.history().number_write();
        let expires = self.world.scenario.items_expire
            && self.world.kernel.draw(|random| random.chance(400_000));
        Content { writer, fields: [Some(writer), expires.then_some(writer)] }
    }

    /// A new value of one field, or none, by the write of this number.
    fn new_field(&self) -> (u64, usize, Option<u64>) {
        let writer = self.world.history().number_write();
        let (field, remove) =
            self.world.kernel.draw(|random| (random.index(2), random.chance(300_000)));
        (writer, field, (!remove).then_some(writer))
    }

    fn new_item(&self, key: &ItemKey, content: Content) -> Option<NewItem> {
        let schema = &self.world.settings().schema;
        let item = NewItem::new(key.clone(), attributes(content), schema);
        item.map_err(|error| self.world.history().violations.push(error.to_string())).ok()
    }

    async fn put(&self, key: &ItemKey, expect: Expect) {
        let (expect, precondition) = self.precondition(key, expect);
        let content = self.new_content();
        let Some(item) = self.new_item(key, content) else {
            return;
        };
        let begun = self.world.kernel.moment();
        let put = move |writer: Arc<Writer>, deadline| async move {
            writer.put(&item, precondition, deadline).await
        };
        let reply = self.world.call(&self.writer, self.world.draw_timeout(), put).await;
        let step = Step::Put(expect, content);
        self.wrote(key, begun, step, Step::Refused(expect), Some(content.writer), reply);
    }

    async fn patch(&self, key: &ItemKey, expect: Expect) {
        let (expect, precondition) = self.precondition(key, expect);
        // A patch needs an item, whatever else is asked.
        let expect = if expect == Expect::Anything { Expect::Exists } else { expect };
        let (writer, field, value) = self.new_field();
        let changes = patch(writer, field, value);
        let begun = self.world.kernel.moment();
        let (key_of_it, step) = (key.clone(), Step::Patch(expect, writer, field, value));
        let patch = move |writer: Arc<Writer>, deadline| async move {
            writer.patch(&key_of_it, changes, precondition, deadline).await
        };
        let reply = self.world.call(&self.writer, self.world.draw_timeout(), patch).await;
        self.wrote(key, begun, step, Step::Refused(expect), Some(writer), reply);
    }

    async fn delete(&self, key: &ItemKey, expect: Expect) {
        let (expect, precondition) = self.precondition(key, expect);
        let begun = self.world.kernel.moment();
        let key_of_it = key.clone();
        let delete = move |writer: Arc<Writer>, deadline| async move {
            writer.delete(&key_of_it, precondition, deadline).await
        };
        let reply = self.world.call(&self.writer, self.world.draw_timeout(), delete).await;
        self.wrote(key, begun, Step::Delete(expect), Step::Refused(expect), None, reply);
    }

    /// A write in DynamoDB's own words, of any item of the collection.
    async fn native_write(
        &self,
        collection: &Collection,
        expect: Expect,
        step: impl FnOnce(Expect) -> Step,
    ) {
        let Some(key) = self.any_key(collection) else { return };
        let expect = match expect {
            Expect::LeftBy(_) => {
                self.world.history().last_seen(&key).map_or(Expect::Anything, Expect::LeftBy)
            }
            expect => expect,
        };
        let step = step(expect);
        let shows = self.world.kernel.draw(|random| random.chance(300_000));
        let endpoint = self.world.network.endpoint(self.native.environment);
        let request = Request { endpoint, key: key.clone(), step, shows };
        let begun = self.world.kernel.moment();
        let write = move |native: Arc<NativeRequests>, deadline| async move {
            native.write(&request.key, &request, 1.0, deadline).await
        };
        let reply = self.world.call(&self.native, self.world.draw_timeout(), write).await;
        let (mut done, mut refused) = (step, Step::Refused(expect));
        let reply = match reply {
            Reply::Answer(Ok(Answered::Done { version, before })) => {
                if shows {
                    let before = self.world.history().content(&key, before.as_ref());
                    done = before.map_or(step, |before| step.of(before));
                }
                Reply::Answer(Ok(version))
            }
            Reply::Answer(Ok(Answered::Refused(existing))) => {
                let mut history = self.world.history();
                if let Ok(content) = history.content(&key, existing.as_ref()) {
                    refused = Step::Saw(content);
                    if step.can_happen_to(content) {
                        let what = format!("{step:?} of {key:?} was refused for {content:?}");
                        history.violations.push(what);
                    }
                }
                Reply::Answer(Err(Error::new(Code::PreconditionFailed, "its own condition")))
            }
            Reply::Answer(Ok(Answered::Invalid)) => {
                Reply::Answer(Err(Error::new(Code::RequestRejected, TO_BE_PUT_RIGHT)))
            }
            Reply::Answer(Err(error)) => Reply::Answer(Err(error)),
            Reply::Killed => Reply::Killed,
            Reply::GivenUp => Reply::GivenUp,
        };
        let writer = match step {
            Step::Put(_, Content { writer, .. }) | Step::Update(_, writer, ..) => Some(writer),
            _ => None,
        };
        self.wrote(&key, begun, done, refused, writer, reply);
    }

    /// A read in DynamoDB's own words.
    async fn native_get(&self, key: &ItemKey) {
        let begun = self.world.kernel.moment();
        let (consistency, lag) = self.world.draw_consistency();
        let begun = begun.saturating_sub(lag);
        let endpoint = self.world.network.endpoint(self.native.environment);
        let look = Look { endpoint, key: key.clone(), consistency };
        let get = move |native: Arc<NativeRequests>, deadline| async move {
            native.get(&look.key, &look, deadline).await
        };
        let reply = self.world.call(&self.native, self.world.draw_timeout(), get).await;
        let ended = self.world.kernel.moment();
        self.world.kernel.trace(|| format!("native get {key:?}: {reply:?}"));
        let mut history = self.world.history();
        match reply {
            Reply::Answer(Ok(NativeGot::Read { answer, existing, .. })) => {
                let item = answer.filter(|_| existing.is_some());
                history.saw(key, item.as_ref(), begun, ended);
            }
            Reply::Answer(Err(error)) => {
                history.meaning("native get", &error);
            }
            _ => {}
        }
    }

    async fn get(&self, key: &ItemKey) {
        let begun = self.world.kernel.moment();
        let key_of_it = key.clone();
        let (consistency, lag) = self.world.draw_consistency();
        let begun = begun.saturating_sub(lag);
        let get = move |reader: Arc<Reader>, deadline| async move {
            reader.get(&key_of_it, None, consistency, deadline).await
        };
        let reply = self.world.call(&self.reader, self.world.draw_timeout(), get).await;
        let ended = self.world.kernel.moment();
        self.world.kernel.trace(|| format!("get {key:?}: {reply:?}"));
        let mut history = self.world.history();
        match reply {
            Reply::Answer(Ok(got)) => history.saw(key, Some(&got.item), begun, ended),
            Reply::Answer(Err(error)) if history.meaning("get", &error) == Meaning::Refused => {
                history.saw(key, None, begun, ended);
            }
            _ => {}
        }
    }

    /// A batch read of keys of all collections.
    async fn batch_get(&self) {
        let keys = self
            .world
            .scenario
            .collections
            .iter()
            .flat_map(|collection| [0, 1].map(|_| self.any_key(collection)));
        let keys = keys.flatten().collect::<std::collections::BTreeSet<_>>();
        if keys.is_empty() {
            return;
        }
        let begun = self.world.kernel.moment();
        let asked = keys.iter().cloned().collect::<Vec<_>>();
        let (consistency, lag) = self.world.draw_consistency();
        let begun = begun.saturating_sub(lag);
        let get = move |reader: Arc<Reader>, deadline| async move {
            reader.batch_get(asked, None, consistency, PageBudget::UNLIMITED, deadline).await
        };
        let reply = self.world.call(&self.reader, self.world.draw_timeout(), get).await;
        let ended = self.world.kernel.moment();
        self.world.kernel.trace(|| format!("batch get: {reply:?}"));
        let mut history = self.world.history();
        match reply {
            Reply::Answer(Ok(got)) => {
                let found = |key: &ItemKey| {
                    got.items.iter().find(|(found, _)| found == key).map(|(_, item)| item)
                };
                for key in keys {
                    if !got.unprocessed.iter().any(|(left, _)| *left == key) {
                        history.saw(&key, found(&key), begun, ended);
                    }
                }
                for (_, code) in &got.unprocessed {
                    history.meaning("batch get", &Error::new(*code, TO_BE_PUT_RIGHT));
                }
            }
            Reply::Answer(Err(error)) => {
                history.meaning("batch get", &error);
            }
            Reply::Killed | Reply::GivenUp => {}
        }
    }

    /// A batch of writes to one collection.
    async fn batch_write(&self, collection: &Collection) {
        let mut steps = std::collections::BTreeMap::new();
        let mut operations = Vec::new();
        for _ in 0..self.world.kernel.draw(|random| random.between(1, 4)) {
            let is_put = self.world.kernel.draw(|random| random.chance(600_000));
            let key = if is_put && !collection.placement.is_calculated() {
                Some(self.unused_key(collection))
            } else {
                self.any_key(collection)
            };
            let Some(key) = key.filter(|key| !steps.contains_key(key)) else {
                continue;
            };
            if is_put {
                let content = self.new_content();
                operations.extend(self.new_item(&key, content).map(BatchOperation::Put));
                steps.insert(key, Step::Put(Expect::Anything, content));
            } else {
                operations.push(BatchOperation::Delete(key.clone()));
                steps.insert(key, Step::Delete(Expect::Anything));
            }
        }
        let begun = self.world.kernel.moment();
        let batch = move |writer: Arc<Writer>, deadline| async move {
            writer.batch(operations, deadline).await
        };
        let reply = self.world.call(&self.writer, self.world.draw_timeout(), batch).await;
        for (key, step) in steps {
            let reply = match &reply {
                Reply::Killed => Reply::Killed,
                Reply::GivenUp => Reply::GivenUp,
                Reply::Answer(Err(error)) => Reply::Answer(Err(error.clone())),
                Reply::Answer(Ok(written)) => {
                    let left = written.unprocessed.iter().find(|(left, _)| *left == key);
                    // A batch tells no more than the code.
                    let error = left.map(|(_, code)| Error::new(*code, TO_BE_PUT_RIGHT));
                    Reply::Answer(error.map_or(Ok(()), Err))
                }
            };
            self.wrote(&key, begun, step, Step::Refused(Expect::Anything), None, reply);
        }
    }

    /// Writes down what became of a write.
    fn wrote<R: MayHaveVersion + std::fmt::Debug>(
        &self,
        key: &ItemKey,
        begun: Duration,
        step: Step,
        refused: Step,
        writer: Option<u64>,
        reply: Reply<Result<R, Error>>,
    ) {
        let ended = self.world.kernel.moment();
        self.world.kernel.trace(|| format!("{step:?} of {key:?}: {reply:?}"));
        let mut history = self.world.history();
        let certain = Call { begun, ended, is_certain: true, step };
        // What was sent before now is executed by then, or never.
        let until = ended + self.world.scenario.executed_within;
        let unknown = Call { is_certain: false, ended: until, ..certain };
        let call = match reply {
            Reply::Answer(Ok(written)) => {
                if let (Some(writer), Some(version)) = (writer, written.version()) {
                    history.note_version(writer, version);
                }
                certain
            }
            Reply::Answer(Err(error)) => match history.meaning("write", &error) {
                Meaning::Refused => Call { step: refused, ..certain },
                Meaning::NothingHappened => return,
                Meaning::Unknown => unknown,
            },
            Reply::Killed => unknown,
            Reply::GivenUp => Call { ended: Duration::MAX, ..unknown },
        };
        history.add(key, call);
    }
}

/// What a successful write may tell.
trait MayHaveVersion {
    fn version(&self) -> Option<Version>;
}

impl MayHaveVersion for Version {
    fn version(&self) -> Option<Version> {
        Some(*self)
    }
}

impl MayHaveVersion for Written {
    fn version(&self) -> Option<Version> {
        Some(self.version)
    }
}

impl MayHaveVersion for () {
    fn version(&self) -> Option<Version> {
        None
    }
}

impl MayHaveVersion for Deleted {
    fn version(&self) -> Option<Version> {
        None
    }
}

fn key(collection: &Collection, sort: &str) -> ItemKey {
    let sort = SortKey::string(sort).expect("a sort key of a few letters");
    ItemKey::new(collection.partition.clone(), sort)
}
