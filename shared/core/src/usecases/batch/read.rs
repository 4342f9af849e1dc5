//! Many gets in one request.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use dynashard_keys::{ItemKey, PartitionKey, PhysicalKey, ShardId};
use futures_util::stream;
use futures_util::stream::StreamExt;

use crate::model::error::{Code, Error};
use crate::model::fields::Fields;
use crate::model::item::{MAX_ITEM_BYTES, StoredItem};
use crate::model::lease::Deadline;
use crate::model::throttle::Throttle;
use crate::model::version::Generation;
use crate::ports::{BatchPage, Consistency, MAX_KEYS_PER_BATCH_GET};
use crate::usecases::cost::Cost;
use crate::usecases::directory::{Directory, Known};
use crate::usecases::fan_out::FAN_OUT;
use crate::usecases::query::PageBudget;
use crate::usecases::read::{Lookup, possible_shards};
use crate::usecases::retry::{Attempts, refusal, within};

/// The most keys of one batch read.
pub const MAX_BATCH_GETS: usize = 100;

/// The result of a batch read: every key is found, absent, or listed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BatchGot {
    /// The items that exist, by key.
    pub items: Vec<(ItemKey, StoredItem)>,
    /// Keys that could not be looked up in time, and why.
    pub unprocessed: Vec<(ItemKey, Code)>,
    /// Keys that were not looked up, or whose items are not returned, because the answer was full.
    pub left_out: Vec<ItemKey>,
    /// The full errors that an operator has to look at, for logs.
    pub failures: Vec<(ItemKey, Error)>,
    /// The items that were read and paid for, markers and repetitions included.
    pub items_read: u64,
    /// The read units that DynamoDB reported. A key without an item takes some, too.
    pub consumed_rcu: f64,
    /// The write units that it reported for moving items which a strongly consistent read found before
    /// the mover did.
    pub consumed_wcu: f64,
}

/// How the keys of a batch are read.
#[derive(Clone, Copy)]
pub(crate) struct BatchRead<'a> {
    pub(crate) directory: &'a Directory,
    pub(crate) fields: Option<&'a Fields>,
    pub(crate) consistency: Consistency,
    pub(crate) deadline: Deadline,
}

/// What is known about the collections of a batch.
type Collections = BTreeMap<PartitionKey, Result<Known, Error>>;

impl BatchRead<'_> {
    /// Reads items by their keys, as many as fit `budget`. What DynamoDB leaves unprocessed is asked
    /// for again until the deadline. Returns what was got, and what refused the rest.
    pub(crate) async fn get(
        self,
        keys: Vec<ItemKey>,
        budget: PageBudget<'_, ItemKey>,
    ) -> (BatchGot, Error) {
        let mut attempts = self.directory.attempts(self.deadline);
        let mut progress = Progress::new(budget);
        let left = self.get_in_rounds(keys, &mut progress, &mut attempts).await;
        // What DynamoDB leaves unprocessed has no reason. A report says what was asked for and not of whom, so that of
        // a partition does: nothing is decided here.
        let throttle = progress.throttle.take().unwrap_or_else(Throttle::of_a_partition);
        (progress.finish(left), Error::throttled(throttle))
    }

    /// Reads these keys until the deadline, and returns those that could not be read, and why.
    async fn get_in_rounds(
        self,
        mut keys: Vec<ItemKey>,
        progress: &mut Progress<'_>,
        attempts: &mut Attempts<'_>,
    ) -> BTreeMap<ItemKey, Code> {
        loop {
            let Left { keys: mut left, ahead } = self.read_round(keys, progress).await;
            // Keys that wait for something else than a partition are not given up with the throttled ones.
            let code = left.values().copied().find(|code| *code != Code::Throttled);
            let Some(code) = code.or(left.values().next().copied()).filter(|_| !progress.is_full())
            else {
                return left;
            };
            let another = if ahead.is_empty() {
                let why = "keys were left unprocessed";
                let refusal = match code {
                    Code::Unavailable => Error::fault(why),
                    code => Error::new(code, why),
                };
                attempts.pause(refusal).await
            } else {
                attempts.refresh().await
            };
            if let Err(refusal) = another {
                // Metadata that was not read again is not known to be behind.
                if refusal.code() == Code::MetadataBehind {
                    left.extend(ahead.into_iter().map(|key| (key, Code::MetadataBehind)));
                }
                return left;
            }
            keys = left.into_keys().collect();
        }
    }

    /// Tries each of `keys` once, unless the answer is full before, and returns those that are
    /// neither found nor known to be absent.
    async fn read_round(self, keys: Vec<ItemKey>, progress: &mut Progress<'_>) -> Left {
        let mut collections = self.collections_of(&keys, self.deadline).await;
        let mut left = Left::default();
        let (moving, mut at_rest): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| {
            let known = collections.get(&key.partition);
            matches!(known, Some(Ok(known)) if moves(known, key))
        });
        while !at_rest.is_empty() && !progress.is_full() {
            let rest = at_rest.split_off(progress.room().min(at_rest.len()));
            let wave = std::mem::replace(&mut at_rest, rest);
            // A request that is not answered must not take the time of the keys behind it.
            let deadline = match at_rest.len() + moving.len() {
                0 => self.deadline,
                _ => self.half_of(self.deadline),
            };
            let wave_read = Self { deadline, ..self };
            wave_read.read_wave(&wave, &mut collections, progress, &mut left).await;
        }
        progress.left_out.extend(at_rest);
        self.read_moving(moving, progress).await;
        left
    }

    /// The metadata of all collections of a batch, each looked up once.
    async fn collections_of(self, keys: &[ItemKey], deadline: Deadline) -> Collections {
        let mut distinct = HashSet::new();
        let partitions = keys.iter().map(|key| &key.partition);
        let partitions = partitions.filter(|partition| distinct.insert(*partition));
        // Metadata that does not come in half of the time leaves the rest to the others' items.
        let half = self.half_of(deadline);
        let reads = partitions.map(|partition| async move {
            (partition.clone(), self.directory.find(partition, half).await)
        });
        let reads = reads.collect::<Vec<_>>();
        stream::iter(reads).buffer_unordered(FAN_OUT).collect().await
    }

    /// Asks once, side by side, for all places where these items may be. None of their collections
    /// was being resharded when the round began.
    async fn read_wave(
        self,
        wave: &[ItemKey],
        collections: &mut Collections,
        progress: &mut Progress<'_>,
        left: &mut Left,
    ) {
        for key in wave {
            let now = self.directory.clock().now();
            // The first may have waited for the others for longer than their leases last.
            if let Some(read @ Ok(_)) = collections.get_mut(&key.partition)
                && !matches!(read, Ok(known) if known.lease.is_fresh(now))
            {
                *read = self.directory.find(&key.partition, self.deadline).await;
            }
        }
        let separator = self.directory.settings().schema.separator;
        let mut places = BTreeMap::<PhysicalKey, Place<'_>>::new();
        for key in wave {
            match collections.get(&key.partition) {
                Some(Ok(known)) if moves(known, key) => {
                    left.keys.insert(key.clone(), Code::Unavailable);
                }
                Some(Ok(known)) => {
                    let placement = known.metadata.placement;
                    for shard in progress.unread(key, known) {
                        let place = Place { key, known, shard };
                        places.insert(key.at(shard, placement, separator), place);
                    }
                }
                None => progress.conclude(key, None),
                // One collection's failure is not another's.
                Some(Err(error)) => progress.conclude(key, Some(Err(error.clone()))),
            }
        }
        self.read_places(&places, progress, left).await;
        for key in wave {
            if let Some(Ok(known)) = collections.get(&key.partition)
                && !moves(known, key)
                && progress.unread(key, known).is_empty()
            {
                // What a higher shard failed to answer does not matter any more.
                left.keys.remove(key);
                let copy = progress.searches.remove(key).and_then(|search| search.lowest);
                progress.conclude(key, copy.map(|(_, copy)| copy));
            }
        }
    }

    /// Notes what lies in these places, and in `left` the keys of those that did not answer.
    async fn read_places(
        self,
        places: &BTreeMap<PhysicalKey, Place<'_>>,
        progress: &mut Progress<'_>,
        left: &mut Left,
    ) {
        let Self { fields, consistency, deadline, .. } = self;
        let asked = places.keys().cloned().collect::<Vec<_>>();
        let requests = asked.chunks(MAX_KEYS_PER_BATCH_GET).map(|chunk| async move {
            let request = self.directory.context().items().batch_get(chunk, fields, consistency);
            let answer = within(self.directory.clock(), deadline, request).await;
            (chunk, answer, self.directory.clock().now())
        });
        let requests = requests.collect::<Vec<_>>();
        let mut answers = stream::iter(requests).buffer_unordered(FAN_OUT);
        while let Some((chunk, answer, answered_at)) = answers.next().await {
            let nothing = || BatchPage { unprocessed: chunk.to_vec(), ..BatchPage::default() };
            let (page, code) = match answer {
                Some(Ok(page)) => (page, Code::Throttled),
                Some(Err(error)) => match refusal(error) {
                    Ok(refused) => {
                        progress.was_refused(&refused);
                        (nothing(), refused.code())
                    }
                    Err(error) => {
                        for place in chunk.iter().filter_map(|at| places.get(at)) {
                            progress.note(place, Some(Err(error.clone())));
                        }
                        continue;
                    }
                },
                None => (nothing(), Code::DeadlineExceeded),
            };
            let items_read = page.items.len() + page.damaged.len();
            let items_read = u64::try_from(items_read).unwrap_or(u64::MAX);
            let consumed_rcu = page.consumed_rcu;
            progress.cost += Cost { items_read, consumed_rcu, ..Cost::default() };
            let unprocessed = page.unprocessed.iter().collect::<HashSet<_>>();
            let mut damaged = page.damaged.into_iter().collect::<HashMap<_, _>>();
            let mut items = page.items.into_iter().collect::<HashMap<_, _>>();
            for (at, place) in chunk.iter().filter_map(|at| places.get_key_value(at)) {
                let Place { key, known, .. } = place;
                let item = items.remove(at);
                if unprocessed.contains(at) {
                    left.keys.insert(ItemKey::clone(key), code);
                } else if !known.lease.is_live(answered_at) {
                    // What was read after the lease is thrown away (protocol: "Lease").
                    left.keys.insert(ItemKey::clone(key), Code::Unavailable);
                } else if let Some(why) = damaged.remove(at) {
                    progress.note(place, Some(Err(Error::new(Code::CorruptData, why))));
                } else if item.as_ref().is_some_and(|i| i.generation > known.metadata.generation) {
                    self.directory.forget(&key.partition);
                    left.ahead.push(ItemKey::clone(key));
                    left.keys.insert(ItemKey::clone(key), Code::DeadlineExceeded);
                } else {
                    progress.note(place, item.filter(StoredItem::is_live).map(Ok));
                }
            }
        }
    }

    /// Reads items of collections that are being resharded, each by itself, since it may take two
    /// requests to tell where one is. When the answer is full the others are left out.
    async fn read_moving(self, keys: Vec<ItemKey>, progress: &mut Progress<'_>) {
        let Self { directory, fields, consistency, deadline } = self;
        let at_once = progress.room().clamp(1, FAN_OUT);
        let mut unread = keys.iter().collect::<BTreeSet<_>>();
        let reads = keys.iter().map(|key| async move {
            (key, Lookup::new(directory, key, fields, consistency, deadline).find().await)
        });
        let reads = reads.collect::<Vec<_>>();
        let mut reads = stream::iter(reads).buffer_unordered(at_once);
        while !progress.is_full()
            && let Some((key, read)) = reads.next().await
        {
            unread.remove(key);
            let found = match read {
                Ok((item, cost)) => {
                    progress.cost += cost;
                    item.map(Ok)
                }
                Err(error) => Some(Err(error)),
            };
            progress.conclude(key, found);
        }
        progress.left_out.extend(unread.into_iter().cloned());
    }

    fn half_of(self, deadline: Deadline) -> Deadline {
        deadline.earlier_by(deadline.remaining(self.directory.clock().now()) / 2)
    }
}

/// A shard in which an item may be.
struct Place<'a> {
    key: &'a ItemKey,
    known: &'a Known,
    shard: ShardId,
}

/// What lies in a shard under a key: an item, or one that cannot be read.
type Copy = Result<StoredItem, Error>;

/// What is known of a key, under one layout.
struct Search {
    generation: Generation,
    answered: BTreeSet<ShardId>,
    /// Of an item that lies in several shards of a random collection, the one that every read
    /// returns.
    lowest: Option<(ShardId, Copy)>,
}

/// What a batch read knows so far.
struct Progress<'a> {
    budget: PageBudget<'a, ItemKey>,
    searches: BTreeMap<ItemKey, Search>,
    found: BTreeMap<ItemKey, StoredItem>,
    /// What the items found take of the budget.
    bytes: usize,
    /// How many keys were found, or found to be absent.
    concluded: usize,
    /// The keys that another attempt would not help, and why.
    failed: BTreeMap<ItemKey, Error>,
    left_out: Vec<ItemKey>,
    /// The limit that refused a request last.
    throttle: Option<Throttle>,
    cost: Cost,
}

impl<'a> Progress<'a> {
    fn new(budget: PageBudget<'a, ItemKey>) -> Self {
        Self {
            budget,
            searches: BTreeMap::new(),
            found: BTreeMap::new(),
            bytes: 0,
            concluded: 0,
            failed: BTreeMap::new(),
            left_out: Vec::new(),
            throttle: None,
            cost: Cost::default(),
        }
    }

    /// Whether an item did not fit any more.
    fn is_full(&self) -> bool {
        !self.left_out.is_empty()
    }

    /// For how many more items there is room, if they are as large as those before, and at first, if
    /// they are as large as items can be.
    fn room(&self) -> usize {
        let mean = self.bytes.checked_div(self.concluded).unwrap_or(MAX_ITEM_BYTES);
        let bytes_left = self.budget.max_bytes.saturating_sub(self.bytes);
        // The one that does not fit has to be read to know it.
        bytes_left.checked_div(mean).map_or(MAX_BATCH_GETS, |fit| fit.saturating_add(1))
    }

    /// The shards that still have to be read for an item: none above one that has it, since every
    /// read returns the copy in the lowest shard.
    fn unread(&self, key: &ItemKey, known: &Known) -> Vec<ShardId> {
        let search = self.searches.get(key);
        let search = search.filter(|search| search.generation == known.metadata.generation);
        let shards = possible_shards(key, known);
        let is_unread = |shard: &ShardId| {
            search.is_none_or(|Search { answered, lowest, .. }| {
                !answered.contains(shard)
                    && lowest.as_ref().is_none_or(|(lowest, _)| shard < lowest)
            })
        };
        shards.filter(is_unread).collect()
    }

    fn note(&mut self, place: &Place<'_>, copy: Option<Copy>) {
        let Place { key, known, shard } = *place;
        let generation = known.metadata.generation;
        let new = || Search { generation, answered: BTreeSet::new(), lowest: None };
        let search = self.searches.entry(key.clone()).or_insert_with(new);
        if search.generation != generation {
            *search = new();
        }
        search.answered.insert(shard);
        if let Some(copy) = copy
            && search.lowest.as_ref().is_none_or(|(lowest, _)| shard < *lowest)
        {
            search.lowest = Some((shard, copy));
        }
    }

    /// Takes note of the limit that refused a request, if one did.
    fn was_refused(&mut self, error: &Error) {
        self.throttle = error.throttle().cloned().or(self.throttle.take());
    }

    /// Takes in what was found of a key.
    fn conclude(&mut self, key: &ItemKey, found: Option<Copy>) {
        match found {
            None => self.concluded += 1,
            Some(Ok(item)) => {
                let bytes = (self.budget.measure)(key, &item);
                if self.budget.fits(self.bytes, bytes) || self.found.is_empty() {
                    self.concluded += 1;
                    self.bytes = self.bytes.saturating_add(bytes);
                    self.found.insert(key.clone(), item);
                } else {
                    self.left_out.push(key.clone());
                }
            }
            Some(Err(error)) => {
                self.was_refused(&error);
                self.failed.insert(key.clone(), error);
            }
        }
    }

    /// The result when `left` could not be read.
    fn finish(self, left: BTreeMap<ItemKey, Code>) -> BatchGot {
        let Self { found, failed, mut left_out, cost, .. } = self;
        let Cost { items_read, consumed_rcu, consumed_wcu } = cost;
        left_out.sort();
        let codes = failed.iter().map(|(key, error)| (key.clone(), error.code()));
        let unprocessed = left.into_iter().chain(codes).collect();
        let failures = failed.into_iter().filter(|(_, error)| error.needs_operator()).collect();
        let items = found.into_iter().collect();
        BatchGot { items, unprocessed, left_out, failures, items_read, consumed_rcu, consumed_wcu }
    }
}

/// Whether the items of this key's epoch are being moved.
fn moves(known: &Known, key: &ItemKey) -> bool {
    known.metadata.at(&key.sort).reshard().is_some()
}

/// The keys for which a round of requests was not enough, and why.
#[derive(Default)]
struct Left {
    keys: BTreeMap<ItemKey, Code>,
    /// Those of them whose items show that metadata is out of date.
    ahead: Vec<ItemKey>,
}
