//! DynamoDB and CloudWatch behind the ports of `dynashard-core`. The only crate that knows the types of the SDK.
//!
//! Each call of a store is one request, sent once: the SDK's retries are off, since a blind retry
//! turns a success into a failed condition or overwrites a later write. What may be sent again is
//! decided in the core. What asks about throttles and alarms may be sent again, and is by the SDK.

mod alarm;
mod attributes;
mod capacity;
mod client;
mod clock;
mod directory;
mod error;
mod heat;
mod inspection;
mod interceptors;
mod items;
mod jobs;
mod ledgers;
mod metadata;
mod operator;
mod owner;
mod plain;
mod pool;
mod read_meter;
mod scan;
mod signature;
mod signing;
mod stack;
mod usage;

pub use aws_sdk_dynamodb::Client;
pub use capacity::DynamoTableCapacity;
pub use client::{connect, connect_local, connect_local_with_cloudwatch, connect_with_cloudwatch};
pub use clock::{OsEntropy, ServerClock, SystemClock};
pub use heat::{CloudWatchHeat, ThrottleAlarms};
pub use inspection::{IndexState, KeyAttribute, TableState, TrialRead, Unseen, schema_of};
pub use items::DynamoItemStore;
pub use metadata::{
    ACTIVE_INDEX, ACTIVE_INDEX_PARTITION, DECISIONS_INDEX, DECISIONS_INDEX_PARTITION,
    DynamoMetadataStore,
};
pub use operator::{Caller, ConnectError, Operator, is_on_this_machine};
pub use plain::Stripped;
pub use read_meter::ReadMeter;
pub use scan::{ScanPage, ScanSegment};
pub use signature::{ProbeAnswer, SignatureProbe, SignatureVerdict};
pub use signing::RequestSigner;
pub use stack::Stack;
pub use usage::{CloudWatchUsage, MeasuredTables};
