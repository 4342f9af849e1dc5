//! Reads pages of secondary indexes.
//!
//! An index by the table's partition key ([`SecondaryIndex::is_by_collection`]) has the entries of a collection in as many
//! partitions as that has shards, which are merged in the order of the index's sort key and the table's. A write-sharded one
//! ([`SecondaryIndex::is_write_sharded`]) has the entries of one value in as many as the stack has shards of indexes, which are
//! merged by the sort key, and any other in one partition, with items of many collections.
//!
//! An item that moves is in an index at both homes for a while, since the item is: at the new one alone it counts, unless nothing
//! is live there yet, or what is at the old one is what was moved. The table tells, by strongly consistent reads (`judge`).

mod judge;
mod known;
mod page;

use dynashard_keys::{ItemKey, Number, SortKey, SortKeyType};

use crate::model::error::{Code, Error};
use crate::model::index::SecondaryIndex;
use crate::model::item::{AttributeValue, StoredItem};
use crate::ports::{Consistency, SortRange};
use crate::usecases::query::Query;
pub use known::KnownIndexes;
pub(crate) use page::{is_out_of_date, read_page};

/// A page of an index.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexPage {
    /// At most as many items as the limit, each with what the index has of it. There may be fewer, none even, and a cursor all
    /// the same.
    pub items: Vec<(ItemKey, StoredItem)>,
    /// Resumes the query; `None` at its end.
    pub cursor: Option<String>,
    /// How many partitions of the index were read: as many as the collection has shards, or the value of a write-sharded index,
    /// or one.
    pub shards: u32,
    /// The entries and items that were read and paid for, markers and repetitions included.
    pub items_read: u64,
    /// The read units that DynamoDB reported for them.
    pub consumed_rcu: f64,
    /// Whether items of a collection on this page are being moved: of a global index an item may be missing then, or come once
    /// more on another page.
    pub is_moving: bool,
}

/// Refuses a query that no page can be read of, and returns the value of the index's partition key that it asks for.
fn check(index: &SecondaryIndex, query: &Query) -> Result<AttributeValue, Error> {
    let bad = |why: &str| Err(Error::new(Code::BadParameter, why));
    let [partition, sort] = index.attributes()?;
    index.check_fields(query.fields.as_ref())?;
    if query.consistency == Consistency::Strong && !index.is_local {
        return bad("a global index has no strongly consistent reads: leave consistent out");
    }
    match sort {
        Some((_, r#type)) => query.check(r#type)?,
        None if query.range != SortRange::All => {
            return bad(
                "the index has no sort key, on which begins_with, from and to are conditions",
            );
        }
        None => query.check(SortKeyType::String)?,
    }
    let text = query.partition.as_str();
    Ok(match partition {
        Some((_, SortKeyType::Number)) => AttributeValue::Number(text.parse::<Number>()?),
        _ => AttributeValue::String(text.to_owned()),
    })
}

/// Whether an attribute of an entry is of this type.
fn is_of(key: Option<&SortKey>, r#type: Option<SortKeyType>) -> bool {
    match (key, r#type) {
        (Some(key), Some(r#type)) => key.is(r#type),
        (None, None) => true,
        _ => false,
    }
}
