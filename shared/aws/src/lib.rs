//! DynamoDB behind the ports of `dynashard-core`. The only crate that knows the types of the SDK.
//!
//! Each call of a store is one request, sent once: the SDK's retries are off, since a blind retry
//! turns a success into a failed condition or overwrites a later write. What may be sent again is
//! decided in the core.

mod attributes;
mod client;
mod clock;
mod error;
mod interceptors;
mod items;
mod jobs;
mod metadata;

pub use client::{connect, connect_local};
pub use clock::{OsEntropy, ServerClock, SystemClock};
pub use items::DynamoItemStore;
pub use metadata::{ACTIVE_INDEX_PARTITION, DynamoMetadataStore};
