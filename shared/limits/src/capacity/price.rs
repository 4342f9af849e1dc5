//! What an operation costs, by the sizes of its items.

use crate::units::Units;

/// A write unit writes up to this much of one item.
const WRITE_UNIT_BYTES: usize = 1_024;

/// A read unit reads up to this much, strongly consistent.
const READ_UNIT_BYTES: usize = 4_096;

/// What a `PutItem`, `UpdateItem` or `DeleteItem` consumes of the table, alone or in a
/// `BatchWriteItem`: a unit for each started kilobyte of the larger of the item before and after,
/// and at least one.
///
/// An update of one attribute therefore costs as much as the whole item, and a delete as much as
/// the deleted item. Deleting an item that does not exist costs one unit.
///
/// A conditional write whose condition was false costs a write of the item as it is, and one unit
/// where there is none (Developer Guide: "Working with items and attributes", "Capacity units
/// consumed by conditional writes").
pub fn write_units(before_bytes: usize, after_bytes: usize) -> Units {
    Units::whole(started(before_bytes.max(after_bytes), WRITE_UNIT_BYTES))
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
/// `TransactGetItems`: its size is rounded up to 4 KB alone. An item that does not exist costs as
/// much as the smallest one, and so does a page of a `Query` or `Scan` that evaluated nothing.
pub fn read_units(item_bytes: usize, consistency: Consistency) -> Units {
    consistency.of_4_kb() * started(item_bytes, READ_UNIT_BYTES)
}

/// How many steps of `step_bytes` a size begins; the first one always.
fn started(bytes: usize, step_bytes: usize) -> u64 {
    bytes.div_ceil(step_bytes).max(1) as u64
}
