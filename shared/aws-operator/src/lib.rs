//! What is asked of AWS with the caller's own credentials: what operators' commands ask about whole tables and stacks, and
//! requests that the endpoint sends as they are.
//!
//! [`Operator`] connects, [`Inspector`] looks at tables, and each other thing to ask is made of an operator. Its stores are those of `dynashard-aws`, whose reading of
//! errors and whose clients it shares.

mod answer_watch;
mod client;
mod credentials;
mod index_shards;
mod insights;
mod inspection;
mod operator;
mod pinned;
mod plain;
mod raw;
mod read_meter;
mod scan;
mod series;
mod signature;
mod signing;
mod stack;
mod usage;

pub use credentials::ConnectError;
pub use index_shards::{lacking_shard, put_index_shard};
pub use insights::{KeyInsights, KeyReport, RankedKey, Ranking};
pub use inspection::{
    IndexState, Inspector, KeyAttribute, TableState, TrialRead, Unseen, schema_of,
};
pub use operator::{Caller, Operator, is_on_this_machine};
pub use pinned::{PinnedError, StackTables};
pub use plain::{Stripped, owner, release, strip};
pub use raw::{RawAnswer, RawClient, RawError, RawRequest};
pub use read_meter::ReadMeter;
pub use scan::{ScanPage, ScanSegment};
pub use series::{
    Bucket, BucketExport, BucketExports, LIKE_TAG, SERIES_TAG, SeriesTable, SeriesTables,
    world_of_plain_table,
};
pub use signature::{ProbeAnswer, SignatureProbe, SignatureVerdict};
pub use signing::RequestSigner;
pub use stack::Stack;
pub use usage::{CloudWatchUsage, MeasuredTables};
