//! Counters: an add is one write of one cell, in place; and what cells do for each other ([`decide::counter`](crate::decide::counter)).
//!
//! - Nothing of a counter is done but by guarded writes in place ([`mod@native`](crate::usecases::native)) and by transactions of
//!   them, which move room from one cell to another, or make cells that the first one then counts. Whoever dies half-way leaves a
//!   counter, and a request that is executed late does nothing unless the counter is as it was.
//! - Whoever adds to a cell needs it to be there, and cells are removed before the first one is. So an add that has been answered is
//!   in a cell that the first one counts, or the counter is being deleted.
//! - That the whole does not cover an add is known from two looks at all cells that have shown the same versions (invariant I36): between
//!   the two, all of them were so at one moment. The second look finds no cell in the middle of a transaction, of which plain reads may
//!   see a half (protocol: "Assumptions"). What is known so is believed for a second, as it takes some reads of each cell.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use dynashard_keys::{ItemKey, PhysicalKey, SortKey};
use lru::LruCache;
use parking_lot::Mutex;

use crate::decide::counter::{Borrow, borrow, choose, grown};
use crate::model::counter::{Adjustment, Bounds, CellChange, CellNumber, Shape, first_cell};
use crate::model::error::{Code, Error, Kind};
use crate::model::item::StoredItem;
use crate::model::lease::{Deadline, Lease, Moment};
use crate::model::throttle::Throttle;
use crate::model::version::Version;
use crate::ports::{
    Adjusted, Consistency, Existing, ItemStore, NativeGuard, NativeKind, NativeSent, NativeTerms,
    NativeWrite, StoreError,
};
use crate::usecases::cost::Cost;
use crate::usecases::directory::Directory;
use crate::usecases::fan_out::fan_out;
use crate::usecases::read::Lookup;
use crate::usecases::retry::{Attempts, Backoff, refusal, within};
use crate::usecases::write::{Deleted, Precondition, WriteContext, delete, native};

/// An add that is done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Added {
    /// The cell that took it.
    pub cell: u16,
    /// How many cells the counter has, as far as this environment knows.
    pub cells: u16,
    /// The write units that DynamoDB reported for it.
    pub consumed_wcu: f64,
}

/// What a counter comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CounterValue {
    /// The sum of its cells.
    pub value: i128,
    /// How many cells it has.
    pub cells: u16,
    /// Its bounds.
    pub bounds: Bounds,
    /// The read units that DynamoDB reported.
    pub consumed_rcu: f64,
}

/// What one environment knows of counters. All of it may be out of date: each write asks whether it holds. A frozen
/// environment's boot clock may stand, so all clocks are asked how old something is.
pub(crate) struct KnownCounters(Mutex<LruCache<ItemKey, Known>>);

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    shape: Option<Shape>,
    /// When somebody has looked for new cells.
    looked_at: Option<Moment>,
    lacks: Option<Lack>,
    /// How many adds of this environment were carried out.
    adds: u64,
}

/// How much room all cells had together, when an add was refused for that.
#[derive(Debug, Clone, Copy)]
struct Lack {
    number: CellNumber,
    room: i128,
    /// It was so at some moment since.
    since: Moment,
}

/// The counters of one environment that are known.
const KNOWN: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

/// What a write keeps of its time, to look whether it took effect.
const LOOK_TIME: Duration = Duration::from_millis(300);

/// How often an environment looks for new cells, or makes them, while its adds are throttled.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Over how long those are spread who are throttled at once, so that most of them find what the first one has done.
const SPREAD: Backoff =
    Backoff { base: Duration::from_millis(100), cap: Duration::from_millis(100) };

/// How long an answer is held at most while cells are made. A first cell that is hot refuses most requests.
const GROWING_TIME: Duration = Duration::from_millis(800);

/// How long adds are refused by what is known. When all is sold, most requests are such adds, and each would read every cell.
const REFUSED_FOR: Duration = Duration::from_secs(1);

impl Default for KnownCounters {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(KNOWN)))
    }
}

impl KnownCounters {}

/// Adds to a counter, and makes it where there is none.
pub(crate) async fn add(
    context: &WriteContext,
    known: &KnownCounters,
    key: &ItemKey,
    (amount, asked): (i64, Bounds),
    deadline: Deadline,
) -> Result<Added, Error> {
    let counter = Counter { context, known, key, deadline, is_hot: AtomicBool::new(false) };
    let added = counter.add(amount, asked).await;
    if counter.is_hot.load(Ordering::Relaxed) {
        counter.relieve().await;
    }
    added
}

/// Removes a counter. That there was none is success.
pub(crate) async fn delete_counter(
    context: &WriteContext,
    known: &KnownCounters,
    key: &ItemKey,
    deadline: Deadline,
) -> Result<Deleted, Error> {
    let counter = Counter { context, known, key, deadline, is_hot: AtomicBool::new(false) };
    counter.delete().await
}

/// The sum of a counter, by strongly consistent reads of all cells.
pub(crate) async fn sum(
    directory: &Directory,
    key: &ItemKey,
    deadline: Deadline,
) -> Result<CounterValue, Error> {
    let mut attempts = directory.attempts(deadline);
    loop {
        let (first, cost) = look_up(directory, &first_cell(key), deadline).await?;
        let Some(first) = first else {
            return Err(Error::new(Code::ItemNotFound, "the counter does not exist"));
        };
        let shape = Shape::of(&first)?;
        if shape.is_closing {
            return Err(closing());
        }
        let others = (1..shape.cells)
            .map(|cell| async move { look_up(directory, &shape.cell(key, cell), deadline).await });
        let mut total = cost;
        let mut value = Some(CellNumber::Value.in_every(&first)?);
        for (cell, cost) in fan_out(others.collect()).await? {
            total += cost;
            let part = cell.map(|cell| CellNumber::Value.in_every(&cell)).transpose()?;
            value = value.zip(part).map(|(sum, part)| sum + part);
        }
        let Some(value) = value else {
            attempts.pause(changed()).await?;
            continue;
        };
        let Shape { cells, bounds, .. } = shape;
        let (value, consumed_rcu) = (bounds.clamp(value), total.consumed_rcu);
        return Ok(CounterValue { value, cells, bounds, consumed_rcu });
    }
}

/// One operation on one counter.
struct Counter<'a> {
    context: &'a WriteContext,
    known: &'a KnownCounters,
    key: &'a ItemKey,
    deadline: Deadline,
    /// Whether a partition has refused a write of a cell.
    is_hot: AtomicBool,
}

/// What became of a change.
enum Changed {
    /// It is done: what the cell holds then, and the write units that DynamoDB reported.
    Done(StoredItem, f64),
    /// A condition did not hold of this.
    Refused(Option<StoredItem>),
}

impl Counter<'_> {
    async fn add(&self, amount: i64, asked: Bounds) -> Result<Added, Error> {
        let mut attempts = self.attempts();
        // An add stays with its cell while that borrows.
        let mut chosen = None;
        loop {
            let shape = self.shape();
            if shape.is_some_and(|shape| !shape.bounds.agree_with(asked)) {
                // Somebody else may have deleted the counter, and made another.
                self.look().await?;
                refuse_other_bounds(self.shape(), asked)?;
                continue;
            }
            if self.is_known_to_lack(amount) {
                return Err(past_a_bound());
            }
            let draw = self.context.directory.context().entropy().next_u64();
            let drawn = shape.map_or(0, |shape| choose(shape.cells, draw));
            let cell = chosen
                .take()
                .filter(|cell| shape.is_some_and(|it| *cell < it.cells))
                .unwrap_or(drawn);
            let at = shape.map_or_else(|| first_cell(self.key), |it| it.cell(self.key, cell));
            let bounds = shape.map_or(asked, |shape| shape.bounds);
            match self.change(&at, bounds.add(amount, cell)).await? {
                Changed::Done(item, consumed_wcu) => {
                    if cell == 0 {
                        self.learn(&item)?;
                    }
                    self.note_added(amount);
                    let cells = self.shape().map_or(1, |shape| shape.cells);
                    return Ok(Added { cell, cells, consumed_wcu });
                }
                Changed::Refused(None) if cell == 0 => {
                    self.forget();
                    if let Some(added) = self.create(amount, asked).await? {
                        return Ok(added);
                    }
                }
                // The counter is being deleted.
                Changed::Refused(None) => self.forget(),
                Changed::Refused(Some(found)) => {
                    if cell == 0 {
                        let found = self.learn(&found)?;
                        if found.is_closing {
                            return Err(closing());
                        }
                        let is_as_known =
                            shape.is_some_and(|it| (it.id, it.bounds) == (found.id, found.bounds));
                        refuse_other_bounds(Some(found), asked)?;
                        if !is_as_known {
                            continue;
                        }
                        if found.cells == 1 {
                            return Err(past_a_bound());
                        }
                    }
                    if self.cover(cell, amount).await? {
                        chosen = Some(cell);
                        continue;
                    }
                }
            }
            attempts.pause(changed()).await?;
        }
    }

    /// What others change meanwhile is waited for as long as what is throttled.
    fn attempts(&self) -> Attempts<'_> {
        self.context.directory.attempts(self.deadline.of_throttled())
    }

    /// Makes the counter with this amount. `None` if somebody else has.
    async fn create(&self, amount: i64, asked: Bounds) -> Result<Option<Added>, Error> {
        let (item, _) = look_up(&self.context.directory, self.key, self.deadline).await?;
        if item.is_some() {
            let why = "an item lies at the key of the counter";
            return Err(Error::new(Code::NotACounter, why));
        }
        let id = self.context.draw_version().get();
        let first = asked.creation(amount, id).ok_or_else(past_a_bound)?;
        match self.change(&first_cell(self.key), first).await? {
            Changed::Done(item, consumed_wcu) => {
                self.learn(&item)?;
                Ok(Some(Added { cell: 0, cells: 1, consumed_wcu }))
            }
            Changed::Refused(_) => Ok(None),
        }
    }

    /// Brings room to a cell that has too little for this amount. `false` where it has to be looked at again after a while; an
    /// error where all cells together have too little.
    async fn cover(&self, cell: u16, amount: i64) -> Result<bool, Error> {
        let Some(shape) = self.shape() else { return Ok(false) };
        let number = room_for(amount);
        let since = self.context.clock().now();
        let adds = self.known.0.lock().get(self.key).map_or(0, |known| known.adds);
        let Some(seen) = self.rooms(shape, number).await? else {
            self.forget();
            return Ok(false);
        };
        let rooms = seen.iter().map(|(_, room)| *room).collect::<Vec<_>>();
        match borrow(&rooms, cell, i128::from(amount).abs()) {
            Borrow::From(from, room) => {
                let cells = [from, cell].map(|cell| shape.cell(self.key, cell));
                self.bring(number, room, cells).await
            }
            Borrow::TooLittle if self.settled_rooms(shape, number).await? == Some(seen) => {
                let lack = Lack { number, room: rooms.iter().sum(), since };
                let mut known = self.known.0.lock();
                let known = known.get_or_insert_mut(self.key.clone(), Known::default);
                // What was given meanwhile may be taken by the next one.
                if known.adds == adds {
                    known.lacks = Some(lack);
                }
                Err(past_a_bound())
            }
            Borrow::Enough | Borrow::TooLittle => Ok(false),
        }
    }

    /// How much room each cell has, with its version. `None` where the counter has other cells than these.
    async fn rooms(&self, shape: Shape, number: CellNumber) -> Result<Option<Rooms>, Error> {
        let directory = &self.context.directory;
        let cells = (0..shape.cells).map(|cell| async move {
            look_up(directory, &shape.cell(self.key, cell), self.deadline).await
        });
        let cells = fan_out(cells.collect()).await?;
        rooms_of(cells.into_iter().map(|(item, _)| item), shape, number)
    }

    /// As [`Self::rooms`], while no cell is in a transaction. Their count is even, as it has doubled.
    async fn settled_rooms(
        &self,
        shape: Shape,
        number: CellNumber,
    ) -> Result<Option<Rooms>, Error> {
        let directory = &self.context.directory;
        let mut keys = Vec::with_capacity(usize::from(shape.cells));
        for cell in 0..shape.cells {
            keys.push(self.place(&shape.cell(self.key, cell)).await?.0);
        }
        let (pairs, _) = keys.as_chunks::<2>();
        let reads = pairs.iter().map(|pair| async move {
            let mut attempts = self.attempts();
            let items = directory.context().items();
            let why_late = "the cells could not be read in time";
            attempts.make(|| items.get_both(pair.each_ref(), None), why_late).await
        });
        let cells = fan_out(reads.collect()).await?.into_iter().flat_map(|read| read.value);
        rooms_of(cells, shape, number)
    }

    /// Where a cell lies, and until when that may be believed.
    async fn place(&self, cell: &ItemKey) -> Result<(PhysicalKey, Lease), Error> {
        let directory = &self.context.directory;
        let known = directory.find(&cell.partition, self.deadline).await?;
        let (placement, separator) =
            (known.metadata.placement, directory.settings().schema.separator);
        Ok((cell.at(placement.first(), placement, separator), known.lease))
    }

    /// One transaction: room moves from one cell to another. Whatever becomes of it, the cells have as much as before. Whether it is
    /// known to be done.
    async fn bring(
        &self,
        number: CellNumber,
        room: i128,
        cells: [ItemKey; 2],
    ) -> Result<bool, Error> {
        let changes = cells.into_iter().zip([-room, room]).map(|(cell, by)| {
            let change = CellChange {
                adds: vec![(number, by)],
                at_least: vec![(number, (-by).max(0))],
                lacks: vec![CellNumber::Closing],
                ..CellChange::default()
            };
            (cell, change)
        });
        self.together(changes.collect()).await
    }

    /// All of these changes, or none: whether they are known to be done. A request that was certainly refused is sent again.
    async fn together(&self, changes: Vec<(ItemKey, CellChange)>) -> Result<bool, Error> {
        let directory = &self.context.directory;
        let mut attempts = self.attempts();
        loop {
            let mut lease = None;
            let mut adjustments = Vec::with_capacity(changes.len());
            for (cell, change) in &changes {
                let (key, lease_of_it) = self.place(cell).await?;
                // The one that was taken first.
                lease = lease.or(Some(lease_of_it));
                let (version, change) = (self.context.draw_version(), change.clone());
                adjustments.push(Adjustment { key, version, change });
            }
            let Some(lease) = lease else { return Ok(false) };
            let sent = directory.context().items().adjust(&adjustments, lease);
            match within(directory.clock(), self.deadline, sent).await {
                Some(Ok(_)) => return Ok(true),
                None
                | Some(Err(StoreError::ConditionFailed { .. } | StoreError::OutcomeUnknown(_))) => {
                    return Ok(false);
                }
                Some(Err(error)) => attempts.pause(refusal(error)?).await?,
            }
        }
    }

    /// Looks for new cells after a throttle, and makes some if nobody has.
    async fn relieve(&self) {
        let now = self.context.clock().now();
        {
            let mut known = self.known.0.lock();
            let known = known.get_or_insert_mut(self.key.clone(), Known::default);
            if known.looked_at.is_some_and(|at| now.perhaps_since(at) < LOOK_AGAIN) {
                return;
            }
            known.looked_at = Some(now);
        }
        let time = GROWING_TIME.min(self.deadline.remaining(now));
        let growing = Counter {
            deadline: Deadline::after(now, time),
            is_hot: AtomicBool::new(false),
            ..*self
        };
        // What fails here is tried again after another throttle, and whoever added is answered what became of that.
        drop(Box::pin(growing.grow()).await);
    }

    /// Doubles the cells of a counter that does not rest, in one transaction: no cell is there that the first one does not count.
    async fn grow(&self) -> Result<(), Error> {
        let draw = self.context.directory.context().entropy().next_u64();
        self.context.clock().sleep(SPREAD.delay(0, draw)).await;
        let Some(shape) = self.look().await?.filter(|shape| !shape.is_closing) else {
            return Ok(());
        };
        let now = self.context.directory.lease().epoch_secs();
        let Some(cells) = grown(shape.cells, shape.grown_at, now) else { return Ok(()) };
        let count = CellChange {
            adds: vec![
                (CellNumber::Cells, (cells - shape.cells).into()),
                (CellNumber::GrownAt, i128::from(now) - i128::from(shape.grown_at)),
            ],
            equals: vec![
                (CellNumber::Id, shape.id.into()),
                (CellNumber::Cells, shape.cells.into()),
            ],
            lacks: vec![CellNumber::Closing],
            ..CellChange::default()
        };
        let empty = shape.bounds.empty_cell();
        let new = (shape.cells..cells).map(|cell| (shape.cell(self.key, cell), empty.clone()));
        let changes = std::iter::once((first_cell(self.key), count)).chain(new);
        if self.together(changes.collect()).await? {
            self.keep(Shape { cells, grown_at: now, ..shape });
        }
        Ok(())
    }

    /// Once it is closed, or may be, no failure of the rest means that nothing happened.
    async fn delete(&self) -> Result<Deleted, Error> {
        let is_closed = AtomicBool::new(false);
        let deleted = close_and_delete(self, &is_closed).await;
        let is_closed = is_closed.load(Ordering::Relaxed);
        deleted.map_err(|error| if is_closed { error.of_the_rest() } else { error })
    }

    /// One guarded write of one cell. If its fate is unknown, one look may prove that it took effect.
    async fn change(&self, cell: &ItemKey, change: CellChange) -> Result<Changed, Error> {
        let write = CellWrite {
            items: self.context.directory.context().items(),
            sort: &cell.sort,
            change,
            version: AtomicU64::new(0),
            is_hot: &self.is_hot,
        };
        let answer_by = self.deadline.earlier_by(LOOK_TIME);
        match native(self.context, cell, &write, 1.0, answer_by).await {
            Err(error) if error.kind() == Kind::OutcomeUnknown => {
                let version = Version::new(write.version.load(Ordering::Relaxed));
                let found = look_up(&self.context.directory, cell, self.deadline).await;
                match found {
                    Ok((Some(item), _)) if item.version == version => Ok(Changed::Done(item, 0.0)),
                    _ => Err(error),
                }
            }
            Err(error) => {
                if error.throttle().is_some_and(Throttle::is_of_a_partition) {
                    self.is_hot.store(true, Ordering::Relaxed);
                }
                Err(error)
            }
            changed => changed,
        }
    }

    /// The shape of the counter as it is now.
    async fn look(&self) -> Result<Option<Shape>, Error> {
        let first = first_cell(self.key);
        let (item, _) = look_up(&self.context.directory, &first, self.deadline).await?;
        let Some(item) = item else {
            self.forget();
            return Ok(None);
        };
        self.learn(&item).map(Some)
    }

    fn shape(&self) -> Option<Shape> {
        self.known.0.lock().get(self.key)?.shape
    }

    fn learn(&self, first: &StoredItem) -> Result<Shape, Error> {
        let shape = Shape::of(first)?;
        self.keep(shape);
        Ok(shape)
    }

    fn keep(&self, shape: Shape) {
        let mut known = self.known.0.lock();
        known.get_or_insert_mut(self.key.clone(), Known::default).shape = Some(shape);
    }

    fn forget(&self) {
        if let Some(known) = self.known.0.lock().get_mut(self.key) {
            (known.shape, known.lacks) = (None, None);
        }
    }

    /// Whether an add of this amount was refused a moment ago, or a smaller one.
    fn is_known_to_lack(&self, amount: i64) -> bool {
        let now = self.context.clock().now();
        let lacks = self.known.0.lock().get(self.key).and_then(|known| known.lacks);
        lacks.is_some_and(|it| {
            it.number == room_for(amount)
                && i128::from(amount).abs() > it.room
                && now.perhaps_since(it.since) < REFUSED_FOR
        })
    }

    /// What one caller gives, another one of this environment may take at once.
    fn note_added(&self, amount: i64) {
        let mut known = self.known.0.lock();
        if let Some(known) = known.get_mut(self.key) {
            known.lacks = known.lacks.filter(|it| amount != 0 && it.number == room_for(amount));
            known.adds += 1;
        }
    }
}

/// Deletes a counter, its first cell at last, and says when it is certainly closed.
async fn close_and_delete(counter: &Counter<'_>, is_closed: &AtomicBool) -> Result<Deleted, Error> {
    let directory = &counter.context.directory;
    let mut attempts = directory.attempts(counter.deadline);
    let first = first_cell(counter.key);
    let mut consumed_wcu = 0.0;
    loop {
        let (item, _) = look_up(directory, &first, counter.deadline).await?;
        counter.forget();
        let Some(mut item) = item else { return Ok(Deleted { consumed_wcu }) };
        let shape = Shape::of(&item)?;
        if !shape.is_closing {
            let close = CellChange {
                adds: vec![(CellNumber::Closing, 1)],
                equals: vec![(CellNumber::Id, shape.id.into())],
                lacks: vec![CellNumber::Closing],
                ..CellChange::default()
            };
            match counter.change(&first, close).await? {
                Changed::Done(closed, units) => {
                    item = closed;
                    consumed_wcu += units;
                }
                Changed::Refused(_) => {
                    attempts.pause(changed()).await?;
                    continue;
                }
            }
        }
        is_closed.store(true, Ordering::Relaxed);
        // It counts all that there are, and no more are made.
        let cells = Shape::of(&item)?.cells;
        let others = (1..cells).map(|cell| async move {
            let cell = shape.cell(counter.key, cell);
            delete(counter.context, &cell, Precondition::None, None, counter.deadline).await
        });
        let others = fan_out(others.collect()).await?;
        consumed_wcu += others.iter().map(|deleted| deleted.consumed_wcu).sum::<f64>();
        let as_seen = Precondition::Version(item.version);
        match delete(counter.context, &first, as_seen, None, counter.deadline).await {
            Ok(deleted) => {
                let consumed_wcu = consumed_wcu + deleted.consumed_wcu;
                return Ok(Deleted { consumed_wcu });
            }
            Err(error) if error.code() == Code::PreconditionFailed => {
                attempts.pause(changed()).await?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// A change of a cell, as a write in place.
struct CellWrite<'a> {
    items: &'a dyn ItemStore,
    sort: &'a SortKey,
    change: CellChange,
    /// That of the last request.
    version: AtomicU64,
    is_hot: &'a AtomicBool,
}

#[async_trait]
impl NativeWrite for CellWrite<'_> {
    type Answer = Changed;

    fn kind(&self) -> NativeKind {
        NativeKind::Depend
    }

    fn may_expire(&self, _: &BTreeSet<String>) -> bool {
        false
    }

    async fn send(
        &self,
        terms: &NativeTerms,
        guard: NativeGuard,
    ) -> Result<NativeSent<Changed>, StoreError> {
        self.version.store(guard.version.get(), Ordering::Relaxed);
        let key = PhysicalKey { partition: terms.partition.clone(), sort: self.sort.clone() };
        let adjustment = Adjustment { key, version: guard.version, change: self.change.clone() };
        match self.items.adjust(&[adjustment], terms.lease).await {
            Ok(Adjusted { item, consumed_wcu }) => {
                let item = item.ok_or_else(|| {
                    StoreError::Corrupt("a cell was changed, and is not there".to_owned())
                })?;
                Ok(NativeSent::Done { answer: Changed::Done(item, consumed_wcu), consumed_wcu })
            }
            Err(StoreError::ConditionFailed { existing }) => {
                let found = existing.map(|item| *item);
                let existing = found.as_ref().map(|item| Existing {
                    generation: item.generation,
                    version: item.version,
                    is_marker: !item.is_live(),
                });
                Ok(NativeSent::Refused { answer: Changed::Refused(found), existing })
            }
            Err(error) => {
                let is_hot = matches!(&error, StoreError::Throttled(it) if it.is_of_a_partition());
                self.is_hot.fetch_or(is_hot, Ordering::Relaxed);
                Err(error)
            }
        }
    }
}

/// The room of each cell, with its version.
type Rooms = Vec<(Version, i128)>;

/// What an add of this amount takes from.
fn room_for(amount: i64) -> CellNumber {
    if amount < 0 { CellNumber::Below } else { CellNumber::Above }
}

fn rooms_of(
    cells: impl Iterator<Item = Option<StoredItem>>,
    shape: Shape,
    number: CellNumber,
) -> Result<Option<Rooms>, Error> {
    let Some(cells) = cells.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let now = cells.first().map(Shape::of).transpose()?;
    if now.is_some_and(|now| now.id == shape.id && now.is_closing) {
        return Err(closing());
    }
    if now.is_none_or(|now| (now.id, now.cells) != (shape.id, shape.cells)) {
        return Ok(None);
    }
    let rooms = cells.iter().map(|cell| Ok((cell.version, number.in_every(cell)?)));
    rooms.collect::<Result<_, _>>().map(Some)
}

/// A strongly consistent read, and what it cost.
async fn look_up(
    directory: &Directory,
    key: &ItemKey,
    deadline: Deadline,
) -> Result<(Option<StoredItem>, Cost), Error> {
    let consistency = Consistency::Strong;
    Lookup::new(directory, key, None, consistency, deadline).find().await
}

fn refuse_other_bounds(shape: Option<Shape>, asked: Bounds) -> Result<(), Error> {
    let Some(Bounds { min, max }) =
        shape.map(|shape| shape.bounds).filter(|bounds| !bounds.agree_with(asked))
    else {
        return Ok(());
    };
    let bound = |bound: Option<i64>| bound.map_or_else(|| "none".to_owned(), |it| it.to_string());
    let why = format!("the counter was made with min: {}, max: {}", bound(min), bound(max));
    Err(Error::new(Code::CounterBounds, why))
}

fn past_a_bound() -> Error {
    let why = "the counter would be below its min or above its max";
    Error::new(Code::CounterLimit, why)
}

fn closing() -> Error {
    Error::new(Code::CounterClosing, "somebody has begun to delete the counter")
}

fn changed() -> Error {
    Error::new(Code::Contended, "the cells of the counter changed meanwhile")
}
