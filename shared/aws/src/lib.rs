//! DynamoDB and CloudWatch behind the ports of `dynashard-core`. What only operators' commands ask of AWS is in
//! `dynashard-aws-operator`, which uses the modules of this crate; no other crate knows the types of the SDK.
//!
//! Each call of a store is one request, sent once: the SDK's retries are off, since a blind retry
//! turns a success into a failed condition or overwrites a later write. What may be sent again is
//! decided in the core. What asks about throttles and alarms may be sent again, and is by the SDK.

pub mod alarm;
pub mod attributes;
pub mod capacity;
pub mod client;
pub mod clock;
pub mod error;
pub mod heat;
mod indexes;
pub mod interceptors;
mod items;
pub mod owner;
pub mod pool;
mod records;
mod signing;

pub use aws_sdk_dynamodb::Client;
pub use capacity::DynamoTableCapacity;
pub use client::{connect, connect_local, connect_local_with_cloudwatch, connect_with_cloudwatch};
pub use clock::{OsEntropy, ServerClock, SystemClock};
pub use heat::{CloudWatchHeat, ThrottleAlarms};
pub use indexes::DynamoIndexStore;
pub use items::DynamoItemStore;
pub use records::{
    ACTIVE_INDEX, ACTIVE_INDEX_PARTITION, DECISIONS_INDEX, DECISIONS_INDEX_PARTITION,
    DynamoRecordStore,
};
