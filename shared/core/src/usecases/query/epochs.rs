//! A page of a collection with several epochs: in order, of one epoch after the other (protocol: "Epochs").

use std::sync::Arc;

use dynashard_keys::SortKey;

use crate::model::epochs::Interval;
use crate::model::lease::Deadline;
use crate::model::metadata::CollectionMetadata;
use crate::ports::{Consistency, SortRange};
use crate::usecases::directory::{Directory, Known};
use crate::usecases::query::cursor::Cursor;
use crate::usecases::query::page::{PageBudget, PageRead, QueryPage};
use crate::usecases::query::strategy::Strategy;
use crate::usecases::query::{NoPage, Query, page_in_order};

/// An epoch, and what a query reads of it.
struct Part {
    epoch: Option<usize>,
    interval: Interval,
    query: Query,
}

/// The epochs that a query comes to behind `start`, in its order.
fn parts(query: &Query, metadata: &Arc<CollectionMetadata>, start: Option<&SortKey>) -> Vec<Part> {
    let mut epochs = metadata.epochs.ascending();
    if !query.ascending {
        epochs.reverse();
    }
    let ahead = match start {
        Some(start) if query.ascending => SortRange::From(start.clone()),
        Some(start) => SortRange::To(start.clone()),
        None => SortRange::All,
    };
    let part = |epoch| {
        let interval = metadata.epochs.interval(epoch);
        ahead.within(&interval)?;
        let range = query.range.within(&interval)?;
        let moves = metadata.epochs.changing == epoch && metadata.reshard().is_some();
        let consistency = if moves { Consistency::Strong } else { query.consistency };
        let query = Query { range, consistency, strategy: Strategy::Ordered, ..query.clone() };
        Some(Part { epoch, interval, query })
    };
    epochs.into_iter().filter_map(part).collect()
}

/// Reads a page. No request goes across the boundary of an epoch, so that each is read by its own shards, at rest or while its items
/// are moved (invariant I41).
pub(super) async fn page_of_epochs(
    directory: &Directory,
    query: &Query,
    start: Option<SortKey>,
    budget: PageBudget<'_>,
    known: Known,
    deadline: Deadline,
) -> Result<QueryPage, NoPage> {
    let parts = parts(query, &known.metadata, start.as_ref());
    let mut reading = PageRead::new(query, budget, known, deadline);
    let mut parts = parts.iter().peekable();
    let cursor = loop {
        let Some(Part { epoch, interval, query }) = parts.next() else { break None };
        reading = reading.of_epoch(*epoch, interval, query);
        // Behind what was returned, and behind what the epoch begins behind.
        let begins = interval.after.as_ref().filter(|_| query.ascending);
        let last = reading.page.last().or(start.as_ref());
        // DynamoDB refuses to begin outside of the range.
        let is_in_range = |key: &&SortKey| query.range.contains(key);
        let from = last.filter(is_in_range).max(begins.filter(is_in_range));
        let from = from.cloned().map(Cursor::Watermark);
        let read = page_in_order(directory, &mut reading, from.as_ref()).await;
        let last = || reading.page.last().cloned().map(Cursor::Watermark);
        match read {
            Ok(None) if reading.page.is_full() && parts.peek().is_some() => break last(),
            Ok(None) => {}
            Ok(more) => break more,
            // What was read of the epochs before is exact; the rest is for another page.
            Err(NoPage::Failed(error)) if error.is_passing() && last().is_some() => break last(),
            Err(abandon) => return Err(abandon),
        }
    };
    Ok(reading.finish(query, cursor))
}
