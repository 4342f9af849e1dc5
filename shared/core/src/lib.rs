//! The use cases of dynashard, over ports.
//!
//! What happens to an item on its way is decided here, and nothing else is: the wire belongs to
//! `dynashard-lambda`, DynamoDB to `dynashard-aws`. Time, chance and storage are [`ports`], so
//! every decision can be tested with a manual clock and a memory store.
//!
//! Four floors, of which each uses those below it only:
//!
//! - `usecases`: what clients, operators and the schedule ask for. [`Writer`] and [`Reader`] are what clients do to items,
//!   [`Directory`] is what they know about a collection and for how long they may believe it ([`Lease`]), [`query`] reads a
//!   sharded collection back in order, [`AutoScaler`] is what an alarm leads to, [`Rebalancer`] moves items, and [`Verifier`] looks
//!   whole collections over.
//! - [`ports`]: items, records, signals, clock and chance.
//! - `decide`: pure decisions.
//! - `model`: values and their laws. [`CollectionMetadata`] is the state of one item collection.

mod decide;
mod model;
pub mod ports;
mod usecases;

pub use decide::capacity::decide_capacity;
pub use decide::chance::under_throttle as report_chance;
pub use decide::digest::Digest;
pub use decide::epochs::{BeginsBehind, begins_behind, decide_merges, is_merge_due};
pub use decide::judge::FindingKind;
pub use decide::pace::{MOVER_PART, most_moves_per_sec};
pub use decide::rates::{Rates, tells_of_all};
pub use decide::shard_count::{Cause, Evidence, decide};
pub use decide::shrink::decide_shrink;
pub use model::capacity::{
    CapacityDecision, CapacityMetrics, CapacityPeriod, CapacityPolicy, CapacityScaling,
    CapacitySide, CapacityUnits, TableThroughput,
};
pub use model::contradiction::Contradiction;
pub use model::counter::{Adjustment, Bounds, CELL_PREFIX, CellChange, CellNumber, MAX_COUNTED};
pub use model::decision::{Bound, CountChange, Decision, Diagnosis, Figures, Outcome, Payback};
pub use model::directory_item::{Counters, DirectoryItem};
pub use model::epochs::{Epoch, Epochs, Extent, Interval};
pub use model::error::{Code, Error, Kind};
pub use model::fields::{Fields, MAX_FIELDS};
pub use model::grant::{Counted, Grant};
pub use model::grow_keys::{EmptyPattern, GrowKeys};
pub use model::heat::{AlarmStatus, HeatWindow, HotKey, Rearm, Throttles};
pub use model::history::{DecidedBy, DecisionHistory, DecisionRecord};
pub use model::index::{IndexAttribute, SecondaryIndex, Told};
pub use model::index_shards::{INDEX_SHARD, IndexShards};
pub use model::item::{
    AttributeValue, Attributes, MAX_DEPTH, MAX_ITEM_BYTES, NewItem, StoredItem, check_values,
    checked_patch, item_bytes, quoted,
};
pub use model::lease::{Deadline, Lease, Moment, NoServerTime, leases_end};
pub use model::ledger::{Addition, Bucket, Figure, Ledger, LedgerKind, Measures, Span};
pub use model::merge_patch::merge_patch;
pub use model::metadata::{
    CollectionMetadata, HistoryEntry, Layout, MAX_HISTORY_ENTRIES, Phase, Reshard,
};
pub use model::pattern::{PatternPart, matches_pattern};
pub use model::pinned::{Owner, Pinned, PinnedTime};
pub use model::policy::{
    Access, Hindrance, PartitionLimits, ScalingMode, ScalingPolicy, ShrinkPolicy, UnknownMode,
};
pub use model::replica::Replica;
pub use model::reshard::{
    Claim, Job, LaneKey, MAX_UNMOVABLE, Progress, ServerTime, ShardRange, Waits,
};
pub use model::schema::TableSchema;
pub use model::segment::{Group, KeyHash, Segment, SegmentId};
pub use model::settings::{ItemCacheLimits, Settings};
pub use model::stack_policy::{StackPolicy, StackTold};
pub use model::throttle::{Throttle, ThrottleLimit};
pub use model::usage::{TableUnits, ThrottleCounts, Usage, UsagePeriod};
pub use model::version::{Generation, Version};
pub use usecases::autoscaler::{AutoScaler, CollectionHeat, HeatOutcome, HeatReport};
pub use usecases::batch::{
    BatchGot, BatchOperation, BatchWritten, MAX_BATCH_GETS, MAX_BATCH_OPERATIONS,
};
pub use usecases::capacity::{CapacityOutcome, CapacityReport, CapacityScaler};
pub use usecases::collection::Activity;
pub use usecases::counter::{Added, CounterValue};
pub use usecases::directory::{Directory, Known, PaceChange, RequestDates};
pub use usecases::feeds::Feeds;
pub use usecases::index::{IndexPage, KnownIndexes};
pub use usecases::native::NativeRequests;
pub use usecases::native_shards::{NativeShards, Place};
pub use usecases::query;
pub use usecases::reader::{Got, Reader};
pub use usecases::rebalance::{Advance, Rebalancer, ReshardSlice, Slice, Sweep};
pub use usecases::scale::{RunningChange, Scaler, ScalingStatus, Stage};
pub use usecases::verify::{
    Finding, Repair, Tally, Verification, Verifier, VerifyObserver, VerifyOptions,
};
pub use usecases::watch::Telemetry;
pub use usecases::write::{Among, Deleted, Fate, HeldWrites, Precondition, Written};
pub use usecases::writer::Writer;
