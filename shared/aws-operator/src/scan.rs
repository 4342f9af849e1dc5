//! Reads a whole table, whatever its keys are called: for commands that look at tables which other
//! programs have written.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::types::{AttributeValue as Sdk, ReturnConsumedCapacity};
use dynashard_core::ports::StoreError;
use dynashard_core::{Attributes, CellNumber};

use dynashard_aws::attributes::{decode_attributes, encode_attributes};
use dynashard_aws::error::of_read;
use dynashard_aws::owner::OWNER_ID;

use crate::operator::Operator;

/// One of the parts into which a scan divides a table, to be read side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanSegment {
    /// Its number, from 0.
    pub number: u32,
    /// How many there are: 1 to 1,000,000.
    pub of: u32,
}

/// What a page of a scan has read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScanPage {
    /// Whole items, with their keys and the system's own attributes: in the order of their sort keys
    /// where they share a partition key. The item that names the table's owner is not among them, nor
    /// are cells.
    pub items: Vec<Attributes>,
    /// The cells of counters, with their keys.
    pub cells: Vec<Attributes>,
    /// The key behind which the next page begins; `None` at the end of the segment. It can be kept and
    /// used by another process.
    pub next: Option<Attributes>,
    /// The read units that DynamoDB reported.
    pub consumed_rcu: f64,
}

/// How long a page may take: it has a megabyte, and several come side by side to an operator whose line may be slow.
const PAGE_TIME: Duration = Duration::from_secs(30);

impl ScanPage {
    /// `Scan`: one page of one segment of a table, eventually consistent unless `is_strong`. Takes the
    /// permission `dynamodb:Scan`. It is sent once.
    pub async fn read(
        operator: &Operator,
        table: &str,
        segment: ScanSegment,
        after: Option<&Attributes>,
        is_strong: bool,
    ) -> Result<Self, StoreError> {
        let in_sdk = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let is_parallel = segment.of > 1;
        let timeout = TimeoutConfig::builder().operation_attempt_timeout(PAGE_TIME).build();
        let answer = operator
            .client
            .scan()
            .table_name(table)
            .set_segment(is_parallel.then(|| in_sdk(segment.number)))
            .set_total_segments(is_parallel.then(|| in_sdk(segment.of)))
            .set_exclusive_start_key(after.map(|key| encode_attributes(key).collect()))
            .consistent_read(is_strong)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .customize()
            .config_override(Builder::default().timeout_config(timeout))
            .send()
            .await
            .map_err(|e| of_read(&e))?;
        let decoded = |item: HashMap<String, Sdk>| decode_attributes(item.into_iter());
        let consumed = answer.consumed_capacity.and_then(|consumed| consumed.capacity_units);
        let items = answer.items.unwrap_or_default().into_iter();
        let items = items.filter(|item| !item.contains_key(OWNER_ID)).map(decoded);
        let items = items.collect::<Result<Vec<_>, _>>()?.into_iter();
        let (cells, items) = items.partition(|item| item.contains_key(CellNumber::Value.name()));
        Ok(Self {
            items,
            cells,
            next: answer.last_evaluated_key.map(decoded).transpose()?,
            consumed_rcu: consumed.unwrap_or_default(),
        })
    }
}
