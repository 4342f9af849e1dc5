//! Lists collections.

use crate::model::error::Error;
use crate::model::lease::Deadline;
use crate::ports::{Clock, CollectionCatalog, CollectionsPage, Entropy, MetadataStore};
use crate::usecases::directory::leased::Directory;

impl<M: MetadataStore, C: Clock, E: Entropy> Directory<M, C, E> {
    /// One page of the collections in which a reshard seems to run.
    pub async fn resharding(
        &self,
        after: Option<&str>,
        deadline: Deadline,
    ) -> Result<CollectionsPage, Error> {
        let mut attempts = self.attempts(deadline);
        attempts
            .make(
                || self.store.resharding(after),
                "the index of running reshards could not be read in time",
            )
            .await
    }

    /// One page of all collections.
    pub(crate) async fn collections(
        &self,
        after: Option<&str>,
        deadline: Deadline,
    ) -> Result<CollectionsPage, Error>
    where
        M: CollectionCatalog,
    {
        let mut attempts = self.attempts(deadline);
        attempts
            .make(|| self.store.collections(after), "the metadata table could not be read in time")
            .await
    }
}
