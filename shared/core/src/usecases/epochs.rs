//! Whether a collection may get another epoch, where it is to begin, and which one is merged at rest (protocol: "Epochs").

use std::time::Duration;

use dynashard_keys::{ShardCount, SortKey};
use futures_util::future::join;

use crate::decide::epochs::{
    BeginsBehind, at_most_doubled, begins_behind, behind_items, behind_writes, decide_merges,
    descends,
};
use crate::decide::shard_count::Evidence;
use crate::decide::shrink::{decide_shrink_of, is_count_due, is_estimated, most_moved};
use crate::model::decision::{CountChange, Decision, Diagnosis};
use crate::model::epochs::{Epochs, Extent, Interval};
use crate::model::error::{Code, Error};
use crate::model::fields::Fields;
use crate::model::lease::Deadline;
use crate::model::metadata::CollectionMetadata;
use crate::model::pinned::Pinned;
use crate::model::policy::Hindrance;
use crate::ports::{Consistency, SortRange};
use crate::usecases::directory::Directory;
use crate::usecases::main_table::has_local_indexes;
use crate::usecases::query::cursor::Cursor;
use crate::usecases::query::{MAX_LIMIT, PageBudget, Query, read_page};

/// So many of the newest items tell where an epoch is to begin.
const NEWEST: u32 = 30;

/// The most items that a boundary by the last writes may have behind it: those were written in the last seconds, if sort keys grow.
const MOST_BEHIND: u64 = 2_000;

/// So many items are counted before it is known how large they are.
const FIRST_COUNTED: u32 = 100;

/// Whoever decides has a second. What is not counted by then is not known.
pub(crate) const COUNTED_WITHIN: Duration = Duration::from_millis(400);

/// Whoever does not know whether sort keys grow lets others go first.
const OTHERS_FIRST: Duration = Duration::from_millis(250);

/// Refuses an epoch that cannot be, or that would begin in the past.
pub(crate) async fn check(
    directory: &Directory,
    metadata: &CollectionMetadata,
    boundary: &SortKey,
    deadline: Deadline,
) -> Result<(), Error> {
    let Epochs { older, .. } = &metadata.epochs;
    let refused = |code, why: String| Err(Error::new(code, why));
    if !metadata.placement.is_calculated() {
        let why =
            "a collection whose items are placed at random has no epochs: its growth moves nothing";
        return refused(Code::EpochsNotPossible, why.to_owned());
    }
    let newest = older.last().map(|last| &last.boundary);
    if let Some(newest) = newest.filter(|newest| !metadata.epochs.is_newer(boundary, newest)) {
        let why = format!(
            "{:?} lies in an older epoch, and the newest begins behind {:?}",
            boundary.to_string(),
            newest.to_string()
        );
        return refused(Code::BadParameter, why);
    }
    if older.len() + 1 >= Epochs::MAX {
        let most = Epochs::MAX;
        let why = format!(
            "the collection has {most} epochs, the most there may be: `dynashard scale --whole` merges them"
        );
        return refused(Code::EpochsNotPossible, why);
    }
    let root = directory.lease().last();
    if !root.is_some_and(|root| root.pinned.as_ref().is_some_and(Pinned::has_epochs)) {
        let why = "functions of an earlier version, which know no epochs, may run beside this one: when none are left, run \
                   `dynashard settings --convert-directory`";
        return refused(Code::EpochsNotPossible, why.to_owned());
    }
    if has_local_indexes(directory.context(), deadline).await? {
        let why = "the table has local secondary indexes, which bound a shard to 10 GB: what lies in the older shards would never \
                   leave them";
        return refused(Code::EpochsNotPossible, why.to_owned());
    }
    Ok(())
}

/// What of a collection a change is to be about that was decided on for one of its epochs, an older one or `None` for the newest.
/// `written` are the sort keys of the last writes, oldest first, as far as they are known.
///
/// Where sort keys grow, what the newest epoch is to get, what lies behind the last writes gets, or behind the newest items if none
/// are known. An operator or an earlier decision has told which way they grow, or else it is found out. `None` of a shrink that would
/// move items for too long, or for nobody knows how long.
pub(crate) async fn extent_of(
    directory: &Directory,
    metadata: &CollectionMetadata,
    (epoch, action): (Option<usize>, CountChange),
    written: &[SortKey],
    deadline: Deadline,
) -> Option<Extent> {
    if let Some(older) = epoch {
        return Some(Extent::Older(older));
    }
    let extent = match begins_behind(&metadata.epochs, action, !written.is_empty()) {
        Some(BeginsBehind::LastWrites { least }) => {
            let now = directory.now();
            let counted_by = Deadline::after(now, COUNTED_WITHIN.min(deadline.remaining(now)));
            match behind_last(directory, metadata, (written, least), counted_by).await {
                LastWrites::GoTo(extent) => Some(extent),
                LastWrites::GoAnywhere => None,
                LastWrites::AreNotKnown => {
                    directory.clock().sleep(OTHERS_FIRST).await;
                    None
                }
            }
        }
        Some(BeginsBehind::NewestItems) => behind_newest(directory, metadata, deadline).await,
        None => None,
    };
    match action {
        CountChange::Shrink(to) if extent.is_none() => {
            let is_short = is_short_shrink(directory, metadata, to, deadline).await;
            is_short.then_some(Extent::Newest)
        }
        // Without an epoch the change is the same, and dearer.
        _ => Some(extent.unwrap_or_default()),
    }
}

/// Whether the items that a shrink moves are moved before a load that comes back has waited for too long. As many as the last change
/// moved tell how many there are, with what was written since; where they do not tell, they are counted.
async fn is_short_shrink(
    directory: &Directory,
    metadata: &CollectionMetadata,
    to: ShardCount,
    deadline: Deadline,
) -> bool {
    let now = directory.now();
    if is_estimated(metadata, now.wall) {
        return true;
    }
    if !is_count_due(&metadata.partition, directory.settings().shrink.after, now.wall) {
        return false;
    }
    let most = most_moved(directory.settings(), metadata.number_of_shards, to);
    let counted = count_of(directory, metadata, None, most + 1, deadline).await;
    counted.is_some_and(|items| items <= most)
}

/// The decision on a shrink, by as many items as are counted where the estimate decides and may be wrong: each write since the last
/// change may have updated an item that was there, and what came before the writes that are known is not in it.
pub(crate) async fn by_counted_items(
    directory: &Directory,
    evidence: Evidence<'_>,
    decision: Decision,
    deadline: Deadline,
) -> Decision {
    let Evidence { metadata, now, .. } = evidence;
    let settings = directory.settings();
    let least = match decision.hindrance {
        Some(Hindrance::TooLong | Hindrance::TooDear) => {
            decide_shrink_of(metadata.estimated_items(), evidence, settings)
        }
        _ if settings.shrink.payback.is_some() && !is_estimated(metadata, now) => decision.clone(),
        _ => return decision,
    };
    let CountChange::Shrink(to) = least.action else { return decision };
    if !is_count_due(&metadata.partition, settings.shrink.after, now) {
        return decision;
    }
    let most = most_moved(settings, metadata.number_of_shards, to);
    match count_of(directory, metadata, None, most + 1, deadline).await {
        #[expect(clippy::cast_precision_loss, reason = "2 million at most")]
        Some(items) => decide_shrink_of(items as f64, evidence, settings),
        None => decision,
    }
}

/// The decision on an older epoch as it may be carried out: growth that would move items for too long is refused, since nothing else of
/// the collection changes meanwhile. Where it is not known how long, somebody with more time decides.
pub(crate) async fn of_older(
    directory: &Directory,
    metadata: &CollectionMetadata,
    at: usize,
    decision: Decision,
    deadline: Deadline,
) -> Decision {
    let decision = at_most_doubled(decision);
    if !matches!(decision.action, CountChange::Grow(_)) {
        return decision;
    }
    let refused = Decision { action: CountChange::None, ..decision.clone() };
    match is_soon_moved(directory, metadata, at, deadline).await {
        Some(true) => decision,
        Some(false) => Decision { hindrance: Some(Hindrance::TooLong), ..refused },
        None => Decision { diagnosis: Diagnosis::TooLittleEvidence, ..refused },
    }
}

/// Whether an older epoch has so few items that they are soon moved, if they were counted in time.
async fn is_soon_moved(
    directory: &Directory,
    metadata: &CollectionMetadata,
    at: usize,
    deadline: Deadline,
) -> Option<bool> {
    let most = Epochs::MOST_ITEMS_MERGED;
    let items = count_of(directory, metadata, Some(at), most + 1, deadline).await;
    items.map(|items| items <= most)
}

/// Where the last writes to a collection went.
enum LastWrites {
    /// Nearly all of them behind nearly all that there is.
    GoTo(Extent),
    /// Not so, or there is little, or the collection cannot have another epoch.
    GoAnywhere,
    /// Too few are known, or what there is could not be counted in time.
    AreNotKnown,
}

/// Whether what lies behind the last writes is next to nothing, and what lies in front of them so much that to move it costs far more
/// than to ask.
///
/// A load that goes over its keys again and again looks like a log until it begins anew, and would then wait for the close of this
/// change. Until a collection is large the load that made it may be in its first round, and to move it takes seconds.
async fn behind_last(
    directory: &Directory,
    metadata: &CollectionMetadata,
    (written, least): (&[SortKey], u64),
    deadline: Deadline,
) -> LastWrites {
    if !metadata.placement.is_calculated() || written.is_empty() {
        return LastWrites::GoAnywhere;
    }
    let epochs = &metadata.epochs;
    let way = descends(written);
    let descending = way.unwrap_or(epochs.descending);
    let Some(boundary) = behind_writes(written, descending) else {
        return LastWrites::AreNotKnown;
    };
    if way.is_none() || !epochs.is_one() && descending != epochs.descending {
        return LastWrites::GoAnywhere;
    }
    // What refuses an epoch is asked for less than what would tell whether it pays.
    match check(directory, metadata, &boundary, deadline).await {
        Ok(()) => {}
        Err(error) if error.is_passing() => return LastWrites::AreNotKnown,
        Err(_) => return LastWrites::GoAnywhere,
    }
    let Interval { after, until } = epochs.interval(None);
    let range = match (after, until) {
        (Some(after), _) => SortRange::From(after),
        (_, Some(until)) => SortRange::To(until),
        (None, None) => SortRange::All,
    };
    let count = |is_newer: bool, enough| {
        let ascending = is_newer != descending;
        let query = keys_of(metadata, range.clone(), ascending);
        count_up_to(directory, query, Some(boundary.clone()), enough, deadline)
    };
    match join(count(true, MOST_BEHIND + 1), count(false, least)).await {
        (Some(behind), Some(before)) if behind <= MOST_BEHIND && before >= least => {
            LastWrites::GoTo(Extent::Behind { boundary, descending })
        }
        (Some(_), Some(_)) => LastWrites::GoAnywhere,
        _ => LastWrites::AreNotKnown,
    }
}

/// The sort keys of the items in a range, by pages.
fn keys_of(metadata: &CollectionMetadata, range: SortRange, ascending: bool) -> Query {
    let fields = Some(Fields::none());
    // Of each shard enough that what its answer takes at least is not most of what it takes.
    let shards = metadata.number_of_shards.get();
    let limit = (8 * shards).clamp(FIRST_COUNTED, MAX_LIMIT);
    Query { range, ascending, limit, fields, ..Query::all(metadata.partition.clone()) }
}

/// The older epoch that is to be merged with a neighbour, as an index, and what is decided about it. `None` where growth would wait too
/// long while it moves.
pub(crate) async fn merge_of(
    directory: &Directory,
    metadata: &CollectionMetadata,
    deadline: Deadline,
) -> Option<(usize, Decision)> {
    let few = with_few_items(directory, metadata, deadline).await;
    let mut merges = decide_merges(metadata, few, directory.settings());
    // To count is dear: more than the first are seldom tried.
    let (partition, window) = (&metadata.partition, directory.settings().shrink.after);
    if !is_count_due(partition, window, directory.now().wall) {
        merges.truncate(1);
    }
    for (at, merge) in merges {
        if is_soon_moved(directory, metadata, at, deadline).await == Some(true) {
            return Some((at, merge));
        }
    }
    None
}

/// The oldest epoch that has next to no items, as an index into the older ones: what was in it may have expired.
async fn with_few_items(
    directory: &Directory,
    metadata: &CollectionMetadata,
    deadline: Deadline,
) -> Option<usize> {
    for at in 0..metadata.epochs.older.len() {
        let items = count_of(directory, metadata, Some(at), Epochs::FEW_ITEMS, deadline).await?;
        if items < Epochs::FEW_ITEMS {
            return Some(at);
        }
    }
    None
}

/// Counts the items of an epoch, an older one or the newest, until there are enough.
async fn count_of(
    directory: &Directory,
    metadata: &CollectionMetadata,
    at: Option<usize>,
    enough: u64,
    deadline: Deadline,
) -> Option<u64> {
    let Interval { after, until } = metadata.epochs.interval(at);
    let range = until.map_or(SortRange::All, SortRange::To);
    count_up_to(directory, keys_of(metadata, range, true), after, enough, deadline).await
}

/// Counts the items of a query, from behind a sort key on where there is one, and stops where there are enough. Items of more than
/// 1 KB count for as many as are read, and so moved, for the same units. `None` where they could not be read.
async fn count_up_to(
    directory: &Directory,
    query: Query,
    behind: Option<SortKey>,
    enough: u64,
    deadline: Deadline,
) -> Option<u64> {
    let mut found = 0;
    let mut cursor = behind.map(Cursor::Watermark);
    let (mut query, first) = (query.clone(), query.limit);
    loop {
        let budget = PageBudget::UNLIMITED;
        let page = read_page(directory, &query, cursor.as_ref(), budget, deadline).await.ok()?;
        let items = page.items.len() as u64;
        let of_1_kb = items_of_1_kb(page.consumed_rcu);
        found += items.max(of_1_kb);
        if found >= enough || page.cursor.is_none() {
            return Some(found);
        }
        // A page of large items is as many requests as it has megabytes.
        query.limit = if of_1_kb > items { first } else { MAX_LIMIT };
        cursor = Some(Cursor::Watermark(page.items.last()?.0.clone()));
    }
}

/// How many items of 1 KB so many read units read, eventually consistent.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast to an integer saturates, and units are not below zero"
)]
fn items_of_1_kb(consumed_rcu: f64) -> u64 {
    (consumed_rcu * 8.0) as u64
}

/// What lies behind the newest items.
async fn behind_newest(
    directory: &Directory,
    metadata: &CollectionMetadata,
    deadline: Deadline,
) -> Option<Extent> {
    let descending = metadata.epochs.descending;
    let query = Query {
        ascending: descending,
        limit: NEWEST,
        consistency: Consistency::Strong,
        ..Query::all(metadata.partition.clone())
    };
    let page = read_page(directory, &query, None, PageBudget::UNLIMITED, deadline).await.ok()?;
    let newest = page.items.into_iter().map(|(sort, _)| sort).collect::<Vec<_>>();
    let boundary = behind_items(&newest)?;
    check(directory, metadata, &boundary, deadline).await.ok()?;
    Some(Extent::Behind { boundary, descending })
}
