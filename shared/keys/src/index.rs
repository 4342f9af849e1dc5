//! Keys of a global secondary index that is sharded itself.

use alloc::borrow::ToOwned;
use alloc::string::String;

use crate::{ShardId, WriteSharding};

/// How the shard gets into the partition key of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IndexForm {
    /// One attribute that the application writes beside the item's own: `USA-3`.
    Concatenated,
    /// Two attributes, the number of the shard and the item's own: a global secondary index takes up to four
    /// attributes as its partition key (["Multi-attribute keys
    /// pattern"](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.DesignPattern.MultiAttributeKeys.html),
    /// Amazon DynamoDB Developer Guide). The item's own attribute stays as it is, and of the number nothing has
    /// to be parsed.
    MultiAttribute,
}

/// The partition key that an item has in an index.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum IndexKey {
    /// The one attribute, of type `S`.
    Concatenated(String),
    /// The two attributes, in this order in the index's key schema.
    MultiAttribute {
        /// Of type `N`.
        shard: ShardId,
        /// The item's own attribute.
        value: String,
    },
}

/// Write sharding of a global secondary index whose partition key has few values, such as a country or a status:
/// the "random prefix range" of ["Choosing the Right DynamoDB Partition
/// Key"](https://aws.amazon.com/blogs/database/choosing-the-right-dynamodb-partition-key/) (AWS Database Blog).
///
/// The shard comes from the item's own key in the table and not from the indexed value, which all hot items share.
/// So whoever updates an item finds its shard again, and a changed value leaves the item in its shard. A reader of
/// one value sends a query for each of [`IndexSharding::keys`].
///
/// ```
/// use dynashard_keys::{
///     Affix, IndexForm, IndexKey, IndexSharding, Separator, ShardCount, ShardRule, WriteSharding,
/// };
///
/// let shards = WriteSharding::new(ShardRule::Md5, ShardCount::new(10)?)?
///     .with_separator(Separator::Dash)
///     .with_affix(Affix::Prefix);
/// let index = IndexSharding::new(shards, IndexForm::Concatenated);
/// assert_eq!(index.key("USA", "121212", "head", 0), IndexKey::Concatenated("10-USA".to_owned()));
/// assert_eq!(index.keys("USA").count(), 10);
/// # Ok::<(), dynashard_keys::KeyError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexSharding {
    shards: WriteSharding,
    form: IndexForm,
}

impl IndexSharding {
    /// An index with these shards.
    pub const fn new(shards: WriteSharding, form: IndexForm) -> Self {
        Self { shards, form }
    }

    /// The key under which the item of this table key lies in the index. `draw` is a uniformly random number,
    /// which only [`ShardRule::Random`](crate::ShardRule::Random) looks at.
    pub fn key(&self, value: &str, partition: &str, sort: &str, draw: u64) -> IndexKey {
        self.at(value, self.shards.place(partition, sort, draw))
    }

    /// The keys of all shards of a value, which a reader queries.
    pub fn keys(&self, value: &str) -> impl ExactSizeIterator<Item = IndexKey> {
        self.shards.shards().map(move |shard| self.at(value, shard))
    }

    fn at(&self, value: &str, shard: ShardId) -> IndexKey {
        match self.form {
            IndexForm::Concatenated => IndexKey::Concatenated(self.shards.at(value, shard)),
            IndexForm::MultiAttribute => {
                IndexKey::MultiAttribute { shard, value: value.to_owned() }
            }
        }
    }
}
