use std::time::Duration;

use dynashard_keys::ShardId;

use crate::directory::{BeginOutcome, Directory};
use crate::growth::policy::{Growth, NoGrowth, ScalingMode, decide_growth};
use crate::ports::{Clock, Entropy, MetadataStore};
use crate::{CollectionMetadata, Deadline, Error, Settings};

impl<M: MetadataStore, C: Clock, E: Entropy> Directory<M, C, E> {
    /// Begins the growth of a collection with these throttled shards, if it may grow when it rests for
    /// `pause` after a change. Of all who try at the same time, one succeeds: the change is conditional on `seen`.
    /// Unless the mode is on, nothing is changed.
    pub(crate) async fn begin_growth(
        &self,
        seen: &CollectionMetadata,
        throttled: &[ShardId],
        pause: Duration,
        deadline: Deadline,
    ) -> Result<Growth, Error> {
        let Settings { scaling, max_shards, grow_keys, .. } = self.settings();
        if !grow_keys.allow(&seen.partition) {
            return Ok(Growth::Refused(NoGrowth::NotAllowed));
        }
        let now_secs = self.now().epoch_secs();
        let settle = self.waits().settle;
        let (from, to) = match decide_growth(seen, now_secs, settle, pause, *max_shards) {
            Ok(to) => (seen.number_of_shards, to),
            Err(reason) => return Ok(Growth::Refused(reason)),
        };
        if throttled.iter().all(|shard| seen.is_clearing_up(*shard)) {
            return Ok(Growth::Refused(NoGrowth::ClearingUp));
        }
        if scaling.mode != ScalingMode::On {
            return Ok(Growth::WouldBegin { from, to });
        }
        Ok(match self.begin(seen, to, None, deadline).await? {
            BeginOutcome::Begun(_) => Growth::Begun { from, to },
            BeginOutcome::Running => Growth::Refused(NoGrowth::Running),
            BeginOutcome::TooSoon { until_secs } => {
                Growth::Refused(NoGrowth::TooSoon { until_secs })
            }
            BeginOutcome::Overtaken => Growth::Overtaken,
        })
    }
}
