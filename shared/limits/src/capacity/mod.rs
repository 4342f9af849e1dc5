//! What an operation consumes (Developer Guide: "DynamoDB read and write operations").
//!
//! [`item_bytes`] gives sizes, [`read_units`], [`write_units`] and [`transactional_write_units`] give
//! units, and [`Index`] says what a write to the table costs in a secondary index. A size of zero
//! stands for an item that does not exist: a stored item has a key, so it is never empty.
//!
//! Batches need no function of their own: every item of a `BatchGetItem` or `BatchWriteItem` is
//! rounded up alone, as if it had been asked for alone, so a batch consumes the sum. Capacity does
//! not depend on what is returned: a projection, a filter or `Select: COUNT` change nothing.

mod index;
mod price;
mod size;

pub use index::{Index, IndexWrite, Projection, key_text};
pub use price::{Consistency, read_units, transactional_write_units, write_units};
pub use size::item_bytes;
