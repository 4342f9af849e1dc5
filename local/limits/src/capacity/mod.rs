//! What an operation consumes (Developer Guide: "DynamoDB read and write operations").
//!
//! Sizes come from [`item_bytes`], units from the functions below, and [`Index`] says what a write
//! to the table costs in a secondary index. A size of zero stands for an item that is not there: no
//! stored item is empty, since it has a key.
//!
//! Batches need no function of their own. Every item of a `BatchGetItem` or `BatchWriteItem` is
//! rounded up alone, as if it had been asked for alone, so a batch consumes the sum. Capacity does
//! not depend on what is returned: a projection, a filter or `Select: COUNT` change nothing.

mod index;
mod size;

pub use index::{Index, IndexWrite, Projection, key_text};
pub use size::{attribute_bytes, item_bytes};

use crate::Units;

/// A write unit writes up to this much of one item.
pub const WRITE_UNIT_BYTES: usize = 1_024;

/// A read unit reads up to this much, strongly consistent.
pub const READ_UNIT_BYTES: usize = 4_096;

/// What a `PutItem`, `UpdateItem` or `DeleteItem` consumes of the table, alone or in a
/// `BatchWriteItem`: a unit for each started kilobyte of the larger of the item before and after,
/// and at least one.
///
/// An update of one attribute therefore costs as much as the whole item, and a delete as much as
/// the item that goes. Deleting what is not there costs one unit.
pub fn write_units(before_bytes: usize, after_bytes: usize) -> Units {
    Units::whole(started(before_bytes.max(after_bytes), WRITE_UNIT_BYTES))
}

/// What a conditional write consumes whose condition was false: a write of the item as it is, and
/// one unit where there is none (Developer Guide: "Working with items and attributes", "Capacity
/// units consumed by conditional writes").
///
/// Older editions of the guide spoke of the size of the new item.
pub fn failed_condition_units(before_bytes: usize) -> Units {
    write_units(before_bytes, before_bytes)
}

/// What one action of a `TransactWriteItems` consumes of the table: twice the plain write, once to
/// prepare and once to commit (Developer Guide: "Amazon DynamoDB Transactions: How it works",
/// "Capacity management for transactions").
///
/// A `ConditionCheck` is a write that leaves the item as it is.
pub fn transactional_write_units(before_bytes: usize, after_bytes: usize) -> Units {
    write_units(before_bytes, after_bytes) * 2
}

/// How a read is consistent, which sets its price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// The default, and the only one of global secondary indexes: half a unit for each 4 KB.
    Eventual,
    /// `ConsistentRead: true`: one unit for each 4 KB.
    Strong,
    /// `TransactGetItems`: two units for each 4 KB, one to prepare and one to commit.
    Transactional,
}

impl Consistency {
    const fn of_4_kb(self) -> Units {
        match self {
            Self::Eventual => Units::halves(1),
            Self::Strong => Units::whole(1),
            Self::Transactional => Units::whole(2),
        }
    }
}

/// What reading one item consumes, by `GetItem` or as part of a `BatchGetItem` or
/// `TransactGetItems`: its size is rounded up to 4 KB alone. An item that is not there costs as
/// much as the smallest one.
pub fn read_units(item_bytes: usize, consistency: Consistency) -> Units {
    consistency.of_4_kb() * started(item_bytes, READ_UNIT_BYTES)
}

/// What one page of a `Query` or `Scan` consumes: the sizes of all items that it evaluated, those
/// that a filter dropped included, are summed and then rounded up to 4 KB once. A page that
/// evaluated nothing costs the smallest read.
///
/// In an index the sizes are those of its entries ([`Index::entry_bytes`]). A local secondary index
/// fetches attributes that it lacks from the table, and each such fetch is a [`read_units`] more
/// (Developer Guide: "Local Secondary Indexes", "Read capacity units").
pub fn page_units(
    evaluated_bytes: impl IntoIterator<Item = usize>,
    consistency: Consistency,
) -> Units {
    read_units(evaluated_bytes.into_iter().sum(), consistency)
}

/// How many steps of `step_bytes` a size begins; the first one always.
fn started(bytes: usize, step_bytes: usize) -> u64 {
    bytes.div_ceil(step_bytes).max(1) as u64
}
