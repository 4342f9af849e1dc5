//! Requests in DynamoDB's own words: the face of the modules that carry them out (protocol: "Updates in place").

use std::sync::Arc;
use std::time::Duration;

use dynashard_keys::{ItemKey, PartitionKey, ShardCount};

use crate::model::error::Error;
use crate::model::index_shards::IndexShards;
use crate::model::lease::{Deadline, Lease, Moment};
use crate::model::schema::TableSchema;
use crate::model::stack_policy::StackTold;
use crate::model::version::Version;
use crate::ports::{CollectionCatalog, ListPage, NativeGot, NativeRead, NativeTerms, NativeWrite};
use crate::usecases::directory::Directory;
use crate::usecases::index::is_out_of_date;
use crate::usecases::native_shards::NativeShards;
use crate::usecases::reader::Reader;
use crate::usecases::retry::drawn;
use crate::usecases::watch::Telemetry;
use crate::usecases::write::Among;
use crate::usecases::writer::Writer;

/// Carries out requests in DynamoDB's own words, or says what they have to carry. Their text is their sender's: whoever sends
/// one puts the guard and the version into it, and sends it only while the lease lives.
pub struct NativeRequests {
    directory: Arc<Directory>,
    writer: Writer,
    reader: Reader,
}

impl NativeRequests {
    /// Requests by what this directory knows.
    pub fn new(directory: Directory) -> Self {
        let directory = Arc::new(directory);
        Self {
            writer: Writer::of_endpoint(Arc::clone(&directory)),
            reader: Reader::new(Arc::clone(&directory)),
            directory,
        }
    }

    /// Reports to `telemetry` what comes of throttles.
    #[must_use]
    pub fn with_telemetry(self, telemetry: &Arc<dyn Telemetry>) -> Self {
        Self {
            writer: self.writer.with_telemetry(Arc::clone(telemetry)),
            reader: self.reader.with_telemetry(Arc::clone(telemetry)),
            ..self
        }
    }

    /// The keys of the main table.
    pub fn schema(&self) -> &TableSchema {
        &self.directory.settings().schema
    }

    /// What the stack has told last if that is something else than this, whether these requests may go by it or not.
    pub fn told_otherwise(&self, than: &StackTold) -> Option<StackTold> {
        self.directory.lease().told_otherwise(than)
    }

    /// The time, for deadlines and leases.
    pub fn now(&self) -> Moment {
        self.directory.now()
    }

    /// The epoch second by DynamoDB's clock, as far as it is known.
    pub fn epoch_secs(&self) -> u64 {
        self.directory.lease().epoch_secs()
    }

    /// Tells what became of writes that are held, or were part of a transaction.
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Carries out a write of one item, which asks for so many write units, in whatever phase its collection is.
    pub async fn write<W: NativeWrite>(
        &self,
        key: &ItemKey,
        write: &W,
        units: f64,
        deadline: Deadline,
    ) -> Result<W::Answer, Error> {
        self.writer.native(key, write, units, deadline).await
    }

    /// Reads one item, in whatever phase its collection is. What lies at its home and does not count is told as nothing.
    pub async fn get<R: NativeRead>(
        &self,
        key: &ItemKey,
        read: &R,
        deadline: Deadline,
    ) -> Result<NativeGot<R::Answer>, Error> {
        self.reader.native(key, read, deadline).await
    }

    /// Reads pages of what has several shards, in order.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The shards of a collection, in whatever phase it is, for a request that asks each of them.
    pub async fn shards_of(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<NativeShards, Error> {
        let known = self.directory.find(partition, deadline).await?;
        Ok(NativeShards::new(known, self.schema().separator))
    }

    /// Whether a collection is of another generation by now, by a strong read. A strongly consistent read of a local index has to
    /// ask: what has moved in a change that the reader did not know leaves no entry where it lay.
    pub async fn are_out_of_date(
        &self,
        shards: &NativeShards,
        deadline: Deadline,
    ) -> Result<bool, Error> {
        is_out_of_date(&self.directory, shards.known(), deadline).await
    }

    /// The shards of which each value of a write-sharded index is read, as far as they are known.
    pub fn index_shards(&self) -> ShardCount {
        let shards = self.directory.lease().last().and_then(|item| item.index_shards);
        shards.map_or(ShardCount::ONE, IndexShards::read)
    }

    /// One page of all collections that are listed, in no order, from behind the key where the page before has ended.
    pub async fn collections(
        &self,
        catalog: &dyn CollectionCatalog,
        after: Option<&str>,
        deadline: Deadline,
    ) -> Result<ListPage<PartitionKey>, Error> {
        self.directory.records().all(catalog, after, deadline).await
    }

    /// What a request on this item carries, among others of a batch or a transaction. One that is being moved is settled first as
    /// far as the request needs it, so that all of it happens at the new home.
    pub async fn terms_of_item(
        &self,
        key: &ItemKey,
        among: Among,
        deadline: Deadline,
    ) -> Result<NativeTerms, Error> {
        self.writer.terms_of_item(key, among, deadline).await
    }

    /// The lease under which no collection has ever had a second shard, so that the table as a whole may be read as it is. `None`
    /// where one has, or may have.
    pub async fn terms_of_all(&self, deadline: Deadline) -> Result<Option<Lease>, Error> {
        self.directory.lease().if_nothing_is_listed(deadline).await
    }

    /// Waits before what was refused or out of date is tried again: a time drawn evenly up to this one, so that requests that were
    /// refused together do not come back together.
    pub async fn pause(&self, at_most: Duration) {
        let draw = self.directory.context().entropy().next_u64();
        self.directory.clock().sleep(drawn(at_most, draw)).await;
    }

    /// A version for one write: no two writes may give an item the same (invariants I35 and I36).
    pub fn draw_version(&self) -> Version {
        Version::new(self.directory.context().entropy().next_u64())
    }

    /// Has what is known of all collections be read again: an item has shown that it is out of date.
    pub fn forget_all(&self) {
        self.directory.lease().drop();
    }

    /// Has what is known of a collection be read again: an item has shown that it is out of date.
    pub fn forget(&self, partition: &PartitionKey) {
        self.directory.forget(partition);
    }
}
