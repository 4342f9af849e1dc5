//! What the use cases need from the world, in the terms of the domain.
//!
//! One call of a store is one request to DynamoDB: a store never retries, never fans out and never
//! decides. Its errors are what any implementation could suffer.

mod errors;
mod indexes;
mod items;
mod native;
mod records;
mod signals;
mod time;
mod world;

pub use crate::model::guard::{Action, Arrival, Condition, Expected, Transfer, Transferred, Write};
pub use crate::model::lease::Dated;
pub use crate::model::record::{Change, Record, RecordKey, Seen, Stored};
pub use errors::StoreError;
pub use indexes::{IndexEntry, IndexPart, IndexPlace, IndexRead, IndexStart, IndexStore};
pub use items::{
    Adjusted, BatchPage, Consistency, ItemStore, MAX_KEYS_PER_BATCH_GET, Metered, ShardPage,
    ShardQuery, SortRange,
};
pub use native::{
    Existing, NativeGot, NativeGuard, NativeKind, NativeRead, NativeSent, NativeTerms, NativeWrite,
    Required,
};
pub use records::{CollectionCatalog, List, ListPage, Listed, ReadRecords, RecordStore};
pub use signals::{
    AlarmControl, CapacityUpdate, HeatAlarms, HeatSource, TableCapacity, UsageSource,
};
pub use time::{Clock, Entropy};
pub use world::World;
