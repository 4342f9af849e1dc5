//! What DynamoDB does with the items of a page, for pages of several shards: it sees but one of them at a time.

use std::ops::ControlFlow;

use dynashard_expression::{Condition, Malformed, Placeholders, Projection};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::call::Answer;
use crate::document::{self, Members};
use crate::refusal::Refusal;
use crate::table::ManagedTable;

/// What a client asks to be done with the items.
#[derive(Debug, Clone)]
pub(crate) struct Evaluation {
    /// The most items that are evaluated.
    limit: usize,
    pub(crate) filter: Option<Condition>,
    pub(crate) projection: Option<Projection>,
    /// Whether the items are only counted.
    counts: bool,
    /// `ReturnConsumedCapacity`.
    capacity: Option<String>,
}

/// An item of a page, without what is ours of it.
pub(crate) enum Item {
    /// By its attributes.
    Read(Members),
    /// As DynamoDB has written it: most clients ask for whole items, which need not be read for that.
    Written(Box<RawValue>),
}

/// What a page has so far, of items that have their places by a `K`.
#[derive(Debug)]
pub(crate) struct Page<K> {
    items: Vec<Box<RawValue>>,
    /// The items that the filter has let through.
    count: usize,
    pub(crate) evaluated: usize,
    /// Of the evaluated items.
    bytes: usize,
    /// The place of the last item that was evaluated.
    pub(crate) last: Option<K>,
    /// The read units that DynamoDB has reported, of a page that is read by the core.
    pub(crate) consumed_rcu: f64,
}

/// A page as its client is told.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Body {
    #[serde(skip_serializing_if = "Option::is_none")]
    consumed_capacity: Option<Value>,
    count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Vec<Box<RawValue>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_evaluated_key: Option<Members>,
    scanned_count: usize,
}

/// The most bytes of the items of a page (DynamoDB Developer Guide, "Paginating table query results").
pub(crate) const MAX_PAGE_BYTES: usize = 1 << 20;

impl Evaluation {
    /// Reads what a page demands that DynamoDB takes. What it does not take may be read, or not.
    pub(crate) fn of(
        body: &Members,
        filter: Option<&str>,
        projection: Option<&str>,
        placeholders: &Placeholders,
    ) -> Result<Self, Refusal> {
        let filter = filter.map(|text| Condition::parse(text, placeholders));
        let projection = projection.map(|text| Projection::parse(text, placeholders));
        Ok(Self {
            limit: limit(body)?.unwrap_or(usize::MAX),
            filter: filter.transpose().map_err(|error| malformed(&error))?,
            projection: projection.transpose().map_err(|error| malformed(&error))?,
            counts: body.get("Select").is_some_and(|select| select == "COUNT"),
            capacity: body.get("ReturnConsumedCapacity").and_then(Value::as_str).map(str::to_owned),
        })
    }

    /// How many more items to read: as many as there is room for if they are as large as those before, of which `first` are read
    /// where nothing is known of them yet. Many large ones would be read in vain.
    pub(crate) fn wanted<K>(&self, page: &Page<K>, first: usize) -> usize {
        let fitting = match page.mean_bytes() {
            Some(mean) => page.room() / mean.max(1) + 1,
            None => first,
        };
        fitting.min(self.limit - page.evaluated)
    }

    /// Takes an item of so many bytes into the page, unless that is over. Says whether something may follow, then.
    pub(crate) fn take<K>(
        &self,
        page: &mut Page<K>,
        place: K,
        item: Item,
        bytes: usize,
    ) -> ControlFlow<bool> {
        if page.evaluated > 0 && page.bytes + bytes > MAX_PAGE_BYTES {
            return ControlFlow::Break(true);
        }
        page.evaluated += 1;
        page.bytes += bytes;
        page.last = Some(place);
        if let Some(item) = self.shown(item) {
            page.count += 1;
            if !self.counts {
                page.items.push(item.written());
            }
        }
        // DynamoDB does not look whether something follows.
        if page.evaluated == self.limit {
            ControlFlow::Break(true)
        } else {
            ControlFlow::Continue(())
        }
    }

    /// What is shown of an item, `None` where the filter does not let it through.
    fn shown(&self, item: Item) -> Option<Item> {
        if self.filter.is_none() && (self.projection.is_none() || self.counts) {
            return Some(item);
        }
        let item = item.read();
        if self.filter.as_ref().is_some_and(|filter| !filter.holds(&item)) {
            return None;
        }
        let projected = self.projection.as_ref().map(|projection| projection.apply(&item));
        Some(Item::Read(projected.unwrap_or(item)))
    }

    /// The answer with this page, which ends behind the item of the key `last` if something may follow, and took so much.
    pub(crate) fn answer<K>(
        &self,
        page: Page<K>,
        last: Option<Members>,
        consumed: Option<Value>,
    ) -> Answer {
        let body = Body {
            consumed_capacity: consumed,
            count: page.count,
            items: (!self.counts).then_some(page.items),
            last_evaluated_key: last,
            scanned_count: page.evaluated,
        };
        Answer::own(200, serde_json::to_string(&body).expect("all of it is JSON"))
    }

    /// What a page of the table has consumed, or of this global index, if its client has asked for that.
    pub(crate) fn consumed(
        &self,
        table: &ManagedTable,
        index: Option<&str>,
        read_units: f64,
    ) -> Option<Value> {
        let mut consumed = json!({ "TableName": table.name(), "CapacityUnits": read_units });
        match self.capacity.as_deref()? {
            "TOTAL" => Some(consumed),
            "INDEXES" => {
                let of_table = if index.is_some() { 0.0 } else { read_units };
                consumed["Table"] = json!({ "CapacityUnits": of_table });
                if let Some(index) = index {
                    consumed["GlobalSecondaryIndexes"] =
                        json!({ index: { "CapacityUnits": read_units } });
                }
                Some(consumed)
            }
            _ => None,
        }
    }
}

impl Item {
    fn read(self) -> Members {
        match self {
            Self::Read(item) => item,
            Self::Written(text) => document::read(text.get().as_bytes()).unwrap_or_default(),
        }
    }

    fn written(self) -> Box<RawValue> {
        match self {
            Self::Read(item) => to_raw_value(&item).expect("all of it is JSON"),
            Self::Written(text) => text,
        }
    }
}

impl<K> Page<K> {
    /// What an evaluated item took, on average.
    pub(crate) fn mean_bytes(&self) -> Option<usize> {
        self.bytes.checked_div(self.evaluated)
    }

    /// How many bytes of items still fit.
    pub(crate) fn room(&self) -> usize {
        MAX_PAGE_BYTES.saturating_sub(self.bytes)
    }
}

impl<K> Default for Page<K> {
    fn default() -> Self {
        Self { items: Vec::new(), count: 0, evaluated: 0, bytes: 0, last: None, consumed_rcu: 0.0 }
    }
}

/// The most items that a client asks for, if it says so.
pub(crate) fn limit(body: &Members) -> Result<Option<usize>, Refusal> {
    let Some(limit) = body.get("Limit") else { return Ok(None) };
    let limit = limit.as_u64().filter(|limit| *limit > 0);
    let limit = limit
        .ok_or_else(|| Refusal::serialization("dynashard: Limit is not a whole number above 0"))?;
    Ok(Some(usize::try_from(limit).unwrap_or(usize::MAX)))
}

/// A member that is true or false, if it is there.
pub(crate) fn flag(body: &Members, name: &str) -> Result<Option<bool>, Refusal> {
    let Some(value) = body.get(name) else { return Ok(None) };
    // DynamoDB takes these texts, too.
    let flag = value.as_bool().or_else(|| value.as_str()?.parse().ok());
    flag.map(Some).ok_or_else(|| not_understood(&format!("{name} is neither true nor false")))
}

/// What a client is told of an expression that is none.
pub(crate) fn malformed(error: &Malformed) -> Refusal {
    not_understood(&error.to_string())
}

/// What a client is told of a page that DynamoDB takes and the endpoint does not understand.
pub(crate) fn not_understood(why: &str) -> Refusal {
    Refusal::internal(format!("dynashard: the page was not understood: {why}"))
}
