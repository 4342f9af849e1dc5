//! Reads of one item in DynamoDB's own words, in every phase of its collection.

use dynashard_keys::ItemKey;

use crate::model::error::{Code, Error};
use crate::model::item::StoredItem;
use crate::model::lease::Deadline;
use crate::ports::{Consistency, NativeGot, NativeRead, NativeTerms};
use crate::usecases::directory::{Directory, Known};
use crate::usecases::read::Lookup;
use crate::usecases::retry::{refusal, within};

/// What is read of an item. What lies at its home and does not count is told as nothing.
///
/// While a reshard moves it, the new home is read strongly, whatever was asked for. Where nothing is live there, a look at both
/// homes moves what lies at the old one alone, and the new home is read again: DynamoDB alone projects what it returns. Of an
/// item that cannot be moved the old home is read, and counts if it still has the version that was seen.
pub(crate) async fn native_get<R: NativeRead>(
    directory: &Directory,
    key: &ItemKey,
    read: &R,
    deadline: Deadline,
) -> Result<NativeGot<R::Answer>, Error> {
    let mut attempts = directory.attempts(deadline);
    let mut unmovable = None;
    loop {
        let known = directory.find_for(key, deadline).await?;
        let homes = known.metadata.reshard().and_then(|reshard| reshard.homes(key));
        let mut terms = terms_at_home(directory, key, &known)?;
        let seen_at_old = unmovable.take().zip(homes);
        if let Some((_, (old, _))) = seen_at_old {
            let separator = directory.settings().schema.separator;
            terms.partition = key.at(old, known.metadata.placement, separator).partition;
        }
        let strong = read.is_strong() || known.metadata.reshard().is_some();
        let answered = within(directory.clock(), deadline, read.send(&terms, strong)).await;
        let got = match answered {
            Some(Ok(got)) => got,
            Some(Err(error)) => {
                attempts.pause(refusal(error)?).await?;
                continue;
            }
            None => {
                return Err(Error::new(Code::Unavailable, "the item could not be read in time"));
            }
        };
        let NativeGot::Read { answer, existing, consumed_rcu } = got else { return Ok(got) };
        if existing.is_some_and(|existing| existing.generation > known.metadata.generation) {
            directory.forget(&key.partition);
            attempts.refresh().await?;
            continue;
        }
        if !known.holds(directory, key, deadline).await? {
            let why = "the item could not be read within a metadata lease";
            attempts.pause(Error::new(Code::Unavailable, why)).await?;
            continue;
        }
        let existing = existing.filter(|existing| !existing.is_marker);
        if let Some((seen, _)) = seen_at_old {
            if existing.is_none_or(|existing| existing.version != seen) {
                let why = "the item was written again each time that it was looked for";
                attempts.pause(Error::new(Code::Unavailable, why)).await?;
                continue;
            }
        } else if homes.is_some()
            && existing.is_none()
            && let Some(found) = find_elsewhere(directory, key, deadline).await?
        {
            // A move raises the generation of its item.
            let is_at_old = found.generation < known.metadata.generation;
            unmovable = is_at_old.then_some(found.version);
            continue;
        }
        return Ok(NativeGot::Read { answer, existing, consumed_rcu });
    }
}

/// What a request on an item carries where it lies, or is to lie once it has moved.
pub(crate) fn terms_at_home(
    directory: &Directory,
    key: &ItemKey,
    known: &Known,
) -> Result<NativeTerms, Error> {
    let metadata = &known.metadata;
    let home = metadata.placement.home(key, metadata.layout().writable).ok_or_else(|| {
        let why = "the shard of an item has to be known, and the collection's placement is random";
        Error::new(Code::NotForPlacement, why)
    })?;
    let separator = directory.settings().schema.separator;
    Ok(NativeTerms {
        partition: key.at(home, metadata.placement, separator).partition,
        generation: metadata.generation,
        lease: known.lease,
        is_moving: metadata.reshard().is_some(),
    })
}

/// The item that was not found at its new home. It lies there now, if it can be moved.
async fn find_elsewhere(
    directory: &Directory,
    key: &ItemKey,
    deadline: Deadline,
) -> Result<Option<StoredItem>, Error> {
    let consistency = Consistency::Strong;
    let lookup = Lookup::new(directory, key, None, consistency, deadline);
    // It is large, and most reads hold it for nothing.
    let (found, _) = Box::pin(lookup.find()).await?;
    Ok(found)
}
