//! The directory item of an earlier version, which lists collections itself, becomes the root of segments.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::model::directory_item::DirectoryItem;
use crate::model::error::{Code, Error};
use crate::model::lease::Deadline;
use crate::model::pinned::Pinned;
use crate::model::segment::{KeyHash, Segment, SegmentId};
use crate::ports::{Change, CollectionCatalog, Dated, ReadRecords, StoreError};
use crate::usecases::directory::settings::{PinnedSettings, nothing_is_pinned};
use crate::usecases::records::Records;
use crate::usecases::retry::refusal;

/// How many segments are written at a time, each for a write unit or few.
const AT_A_TIME: usize = 16;

impl PinnedSettings<'_> {
    /// Brings what is stored to the newest format: segments list the collections that the directory item lists itself (protocol: "The
    /// directory"), and collections may have epochs. Functions that know only a format before do nothing from then on. May be
    /// begun again wherever it was interrupted, and by several at once.
    pub async fn convert(
        self,
        catalog: &dyn CollectionCatalog,
        deadline: Deadline,
    ) -> Result<Pinned, Error> {
        let (context, records) = (self.context(), Records::of(self.context()));
        let mut attempts = context.attempts(deadline);
        let (mut listed, mut is_converted) = (BTreeSet::new(), false);
        loop {
            let read = || context.record_store().get::<DirectoryItem>(&());
            let why = "the directory could not be read in time";
            let Dated { value, .. } = attempts.make(read, why).await?;
            let seen = value.unwrap_or_default();
            let pinned = seen.pinned.as_ref().ok_or_else(nothing_is_pinned)?;
            pinned.check_format()?;
            if pinned.has_epochs() {
                if is_converted {
                    // Who knows only a format before may act for so long on what it has read.
                    context.clock().sleep(pinned.waits().leases_end * 2).await;
                }
                return Ok(pinned.clone());
            }
            is_converted = true;
            let next = if pinned.has_segments() {
                seen.with_pinned(pinned.clone().converted())
            } else {
                // Whatever the item knows of shows by then. Whoever enlists another collection meanwhile changes the item.
                context.clock().sleep(pinned.waits().visible()).await;
                self.list_in_segments(catalog, &mut listed, deadline).await?;
                let groups = listed.iter().map(|hash: &KeyHash| hash.segment().group()).collect();
                seen.converted(groups).ok_or_else(nothing_is_pinned)?
            };
            match records.commit(&[Change::of_directory(&seen, next)], deadline).await {
                // The next read shows what has become of it.
                Ok(_) | Err(StoreError::OutcomeUnknown(_)) => {}
                Err(StoreError::ConditionFailed { .. }) => {
                    let why = "collections kept being enlisted; ask again";
                    attempts.pause(Error::new(Code::Contended, why)).await?;
                }
                Err(error) => attempts.pause(refusal(error)?).await?,
            }
        }
    }

    /// Has segments list all collections that have metadata, but those that they list already.
    async fn list_in_segments(
        self,
        catalog: &dyn CollectionCatalog,
        listed: &mut BTreeSet<KeyHash>,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let records = Records::of(self.context());
        let mut segments = BTreeMap::<SegmentId, Vec<KeyHash>>::new();
        let mut after = None;
        loop {
            let page = records.all(catalog, after.as_deref(), deadline).await?;
            if let Some(damage) = page.damaged.first() {
                return Err(Error::new(Code::CorruptData, damage.clone()));
            }
            let hashes = page.entries.iter().map(KeyHash::of);
            for hash in hashes.filter(|hash| !listed.contains(hash)) {
                segments.entry(hash.segment()).or_default().push(hash);
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let all = segments.iter().map(|(of, hashes)| (*of, Segment::of(hashes.iter().copied())));
        let all = all.collect::<Vec<_>>();
        let writes = all.into_iter().map(|(of, segment)| records.list_in(of, segment, deadline));
        stream::iter(writes).buffer_unordered(AT_A_TIME).try_collect::<()>().await?;
        listed.extend(segments.into_values().flatten());
        Ok(())
    }
}
