//! Lists collections.

use crate::model::error::Error;
use crate::model::lease::Deadline;
use crate::ports::{CollectionCatalog, CollectionsPage};
use crate::usecases::directory::leased::Directory;

impl Directory {
    /// One page of the collections in which a reshard seems to run.
    pub async fn resharding(
        &self,
        after: Option<&str>,
        deadline: Deadline,
    ) -> Result<CollectionsPage, Error> {
        let mut attempts = self.attempts(deadline);
        attempts
            .make(
                || self.records().resharding(after),
                "the index of running reshards could not be read in time",
            )
            .await
    }

    /// One page of all collections.
    pub(crate) async fn collections(
        &self,
        catalog: &dyn CollectionCatalog,
        after: Option<&str>,
        deadline: Deadline,
    ) -> Result<CollectionsPage, Error> {
        let mut attempts = self.attempts(deadline);
        attempts
            .make(|| catalog.collections(after), "the metadata table could not be read in time")
            .await
    }
}
