//! How many collections the callers of one grant may have listed.

use std::num::NonZeroU32;

/// What lets a caller touch collections, and how many of them the caller may have enlisted: a collection that the
/// directory lists stays there for good, and every environment carries the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    key: String,
    most: NonZeroU32,
}

impl Grant {
    /// What its key in the metadata table begins with. Must be kept stable.
    const KEY_PREFIX: &str = "_ds_grant#";

    /// The grant of this digest, under which so many collections may be enlisted. Equal digests share one count.
    pub fn new(digest: &str, most: NonZeroU32) -> Self {
        Self { key: format!("{}{digest}", Self::KEY_PREFIX), most }
    }

    /// The key of its count in the metadata table.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How many collections may be enlisted under it.
    pub const fn most(&self) -> u32 {
        self.most.get()
    }
}
