//! Many independent writes, or reads, in one request.

mod read;
mod write;

use std::collections::HashSet;

use dynashard_keys::ItemKey;

use crate::model::error::{Code, Error};

pub(crate) use read::BatchRead;
pub use read::{BatchGot, MAX_BATCH_GETS};
pub(crate) use write::write;
pub use write::{BatchOperation, BatchWritten, MAX_BATCH_OPERATIONS};

pub(crate) fn refuse_duplicates<'a>(keys: impl Iterator<Item = &'a ItemKey>) -> Result<(), Error> {
    let mut seen = HashSet::new();
    for key in keys {
        if !seen.insert(key) {
            let why = format!(
                "the key pk={:?} sk={:?} is in the batch twice",
                key.partition.as_str(),
                key.sort.to_string()
            );
            return Err(Error::new(Code::DuplicateKey, why));
        }
    }
    Ok(())
}
