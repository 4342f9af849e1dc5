use dynashard_keys::PartitionKey;

use crate::directory::Known;
use crate::ports::{Clock, Consistency, Entropy, ItemStore, MetadataStore};
use crate::query::Query;
use crate::query::cursor::Position;
use crate::read::Reader;
use crate::{Code, CollectionMetadata, Deadline, Error, Job};

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Reader<I, M, C, E> {
    /// The metadata of a collection, and the job of a running reshard, as they are now: a client that has
    /// just asked for another count is to see it.
    pub async fn collection(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<(CollectionMetadata, Option<Job>), Error> {
        let known = self.directory().read_now(partition, deadline).await?;
        if !known.metadata.is_enlisted() && !self.holds_items(&known, deadline).await? {
            let why = "no item lies under this partition key";
            return Err(Error::new(Code::CollectionNotFound, why));
        }
        let job = match known.metadata.reshard() {
            Some(_) => self.directory().job(partition, deadline).await?.0,
            None => None,
        };
        let job = job.filter(|job| job.generation == known.metadata.generation);
        Ok((CollectionMetadata::clone(&known.metadata), job))
    }

    /// Whether anything lies in the first shard of a collection.
    async fn holds_items(&self, known: &Known, deadline: Deadline) -> Result<bool, Error> {
        let all = Query::all(known.metadata.partition.clone());
        let query = Query { consistency: Consistency::Strong, ..all };
        let first = (known.metadata.placement, known.metadata.placement.first());
        let page = self.lane_page(&query, first, &Position::Start, 1, deadline).await?;
        Ok(!page.items.is_empty())
    }
}
