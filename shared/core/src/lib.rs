//! The use cases of dynashard, over ports.
//!
//! What happens to an item on its way is decided here, and nothing else is: the wire belongs to
//! `dynashard-lambda`, DynamoDB to `dynashard-aws`. Time, chance and storage are [`ports`], so
//! every decision can be tested with a manual clock and a memory store.
//!
//! - [`Writer`] and [`Reader`] are what clients do to items, [`Directory`] is what they know about
//!   a collection and for how long they may believe it ([`Lease`]).
//! - [`AutoScaler`] is what an alarm on throttles leads to, and [`CapacityScaler`] what one on
//!   the table's own capacity does.
//! - [`CollectionMetadata`] is the state of one item collection.
//! - [`query`] reads a sharded collection back, in order.
//! - [`Verifier`] looks a whole collection over, for operators, and repairs it.

mod autoscaler;
mod batch;
mod capacity;
mod collection;
mod cost;
mod directory;
mod error;
mod fan_out;
mod fields;
mod grant;
mod guard;
mod heat;
mod item;
mod lease;
mod ledger;
mod merge_patch;
mod metadata;
mod pace;
mod pattern;
pub mod ports;
pub mod query;
mod read;
mod rebalance;
mod reshard;
mod retry;
mod scale;
mod scaling;
mod schema;
mod settings;
mod throttle;
mod usage;
mod verify;
mod version;
mod write;

pub use autoscaler::{AutoScaler, CollectionHeat, HeatOutcome, HeatReport, Rearm};
pub use batch::{BatchGot, BatchOperation, BatchWritten, MAX_BATCH_GETS, MAX_BATCH_OPERATIONS};
pub use capacity::{
    CapacityDecision, CapacityMetrics, CapacityOutcome, CapacityPeriod, CapacityPolicy,
    CapacityReport, CapacityScaler, CapacityScaling, CapacitySide, CapacityUnits, TableThroughput,
    decide_capacity,
};
pub use collection::Activity;
pub use directory::{
    ChangeableSetting, Directory, DirectoryItem, Known, Owner, Pinned, PinnedTime, SettingsChange,
};
pub use error::{Code, Error, Kind};
pub use fields::{Fields, MAX_FIELDS};
pub use grant::Grant;
pub use heat::{AlarmStatus, HeatWindow, HotKey, Throttles};
pub use item::{
    AttributeValue, Attributes, MAX_DEPTH, MAX_ITEM_BYTES, NewItem, StoredItem, check_values,
    checked_patch, item_bytes,
};
pub use lease::{Deadline, Lease, Reading, settle_time};
pub use ledger::{
    Addition, Bucket, Figure, Ledger, LedgerKind, Measures, Rates, Span, report_chance,
};
pub use merge_patch::merge_patch;
pub use metadata::{
    CollectionMetadata, Contradiction, HistoryEntry, Layout, MAX_HISTORY_ENTRIES, Phase, Reshard,
};
pub use pace::{MOVER_PART, most_moves_per_sec};
pub use pattern::{PatternPart, matches_pattern};
pub use read::{Got, Reader};
pub use rebalance::{Advance, Rebalancer, ReshardSlice, Slice, Sweep};
pub use reshard::{Claim, Job, LaneKey, MAX_UNMOVABLE, Progress, ServerTime, ShardRange, Waits};
pub use scale::{Scaler, ScalingStatus, Stage};
pub use scaling::{
    Access, Action, Bound, Cause, DecidedBy, Decision, DecisionHistory, DecisionRecord,
    DecisionsPage, Diagnosis, EmptyPattern, Evidence, Figures, GrowKeys, Hindrance, Outcome,
    PartitionLimits, Payback, ScalingMode, ScalingPolicy, ShrinkPolicy, Telemetry, decide,
    decide_shrink,
};
pub use schema::TableSchema;
pub use settings::Settings;
pub use throttle::{Throttle, ThrottleLimit};
pub use usage::{TableUnits, ThrottleCounts, Usage, UsagePeriod};
pub use verify::{
    Digest, Finding, FindingKind, Repair, Tally, Verification, Verifier, VerifyObserver,
    VerifyOptions,
};
pub use version::{Generation, Version};
pub use write::{Deleted, Precondition, Writer, Written};
