//! What clients do to items: the face of the modules `write` and `batch`.

use std::sync::Arc;

use dynashard_keys::ItemKey;

use crate::model::counter::Bounds;
use crate::model::error::Error;
use crate::model::history::DecidedBy;
use crate::model::item::{Attributes, NewItem};
use crate::model::lease::Deadline;
use crate::model::version::Version;
use crate::ports::{NativeTerms, NativeWrite};
use crate::usecases::batch::{BatchOperation, BatchWritten, write};
use crate::usecases::counter::{Added, KnownCounters, add, delete_counter};
use crate::usecases::directory::Directory;
use crate::usecases::watch::Telemetry;
use crate::usecases::write::{
    Among, Deleted, Fate, HeldWrites, Precondition, WriteContext, Written, delete, native, note,
    patch, put, terms_of_item,
};

/// Puts, patches and deletes items.
///
/// Every write is one guarded request to the item's home (protocol: "The guard on every write").
/// What DynamoDB definitely refused is sent again, with full jitter, until the deadline; a write
/// whose fate is unknown never is.
pub struct Writer {
    context: WriteContext,
    counters: KnownCounters,
}

impl Writer {
    /// A writer over these stores.
    pub fn new(directory: impl Into<Arc<Directory>>) -> Self {
        Self::deciding_as(DecidedBy::Writer, directory.into())
    }

    /// That of an endpoint.
    pub(crate) fn of_endpoint(directory: Arc<Directory>) -> Self {
        Self::deciding_as(DecidedBy::Endpoint, directory)
    }

    fn deciding_as(by: DecidedBy, directory: Arc<Directory>) -> Self {
        Self { context: WriteContext::new(directory, by), counters: KnownCounters::default() }
    }

    /// This writer for a caller that paces itself: every write is sent, whatever its shard has refused.
    #[must_use]
    pub fn unpaced(mut self) -> Self {
        self.context.pacing = None;
        self
    }

    /// Reports to `telemetry` what this writer does about throttles.
    #[must_use]
    pub fn with_telemetry(mut self, telemetry: Arc<dyn Telemetry>) -> Self {
        self.context.watch.report_to(telemetry);
        self
    }

    /// What the writer knows about collections.
    pub fn directory(&self) -> &Directory {
        &self.context.directory
    }

    /// Stores an item in place of what is there.
    pub async fn put(
        &self,
        item: &NewItem,
        precondition: Precondition,
        deadline: Deadline,
    ) -> Result<Written, Error> {
        put(&self.context, item, self.context.draw_version(), precondition, None, deadline).await
    }

    /// Stores an item under a version that follows from its key and its attributes, so that whoever does not know the
    /// fate of such a put may send it again: where no item must lie ([`Precondition::Absent`]), one of
    /// this version may ([`Written::was_there`]).
    pub async fn put_as(
        &self,
        item: &NewItem,
        version: Version,
        precondition: Precondition,
        deadline: Deadline,
    ) -> Result<Written, Error> {
        put(&self.context, item, version, precondition, None, deadline).await
    }

    /// Merges `changes` into an item (RFC 7396): a strong read, and a write on condition that the
    /// version read is still there.
    pub async fn patch(
        &self,
        key: &ItemKey,
        changes: Attributes,
        precondition: Precondition,
        deadline: Deadline,
    ) -> Result<Written, Error> {
        patch(&self.context, key, changes, precondition, deadline).await
    }

    /// Removes an item. That there was none is success, unless the precondition asks for one.
    pub async fn delete(
        &self,
        key: &ItemKey,
        precondition: Precondition,
        deadline: Deadline,
    ) -> Result<Deleted, Error> {
        delete(&self.context, key, precondition, None, deadline).await
    }

    /// Adds to a counter, and makes it where there is none: between these bounds, if any are asked for, which then hold for good. An
    /// add that would take it past a bound is refused.
    pub async fn add_to_counter(
        &self,
        key: &ItemKey,
        amount: i64,
        bounds: Bounds,
        deadline: Deadline,
    ) -> Result<Added, Error> {
        add(&self.context, &self.counters, key, (amount, bounds), deadline).await
    }

    /// Removes a counter. That there was none is success.
    pub async fn delete_counter(
        &self,
        key: &ItemKey,
        deadline: Deadline,
    ) -> Result<Deleted, Error> {
        delete_counter(&self.context, &self.counters, key, deadline).await
    }

    /// Tells how many clients ask at present, each of which waits for an answer before it asks again: what they would ask for if none
    /// of their writes were held follows from that.
    pub fn tell_clients(&self, clients: usize) {
        self.context.held.tell(clients);
    }

    /// The writes that are held for their clients since DynamoDB has throttled them.
    pub fn writes_held(&self) -> HeldWrites {
        self.context.held.writes()
    }

    /// Carries out a write in DynamoDB's own words, which asks for so many write units.
    pub(crate) async fn native<W: NativeWrite>(
        &self,
        key: &ItemKey,
        write: &W,
        units: f64,
        deadline: Deadline,
    ) -> Result<W::Answer, Error> {
        native(&self.context, key, write, units, deadline).await
    }

    /// What a request on an item carries, in DynamoDB's own words, among others of a batch or a transaction.
    pub(crate) async fn terms_of_item(
        &self,
        key: &ItemKey,
        among: Among,
        deadline: Deadline,
    ) -> Result<NativeTerms, Error> {
        terms_of_item(&self.context, key, among, deadline).await
    }

    /// Takes note of a write of a transaction that somebody else has sent: of so many write units, and what came of it. The collection
    /// grows by it, and does not shrink, as by a single write.
    pub async fn took_part(&self, key: &ItemKey, units: f64, fate: Fate, deadline: Deadline) {
        note(&self.context, key, units, fate, deadline).await;
    }

    /// Carries out independent writes, interleaved over partition keys so that no collection waits
    /// for another's hot partition. Operations that were not begun by the deadline are listed.
    pub async fn batch(
        &self,
        operations: Vec<BatchOperation>,
        deadline: Deadline,
    ) -> Result<BatchWritten, Error> {
        write(&self.context, operations, deadline).await
    }
}
