//! How many writes of a batch are under way at first.

use async_lock::{Semaphore, SemaphoreGuard};

/// The slow start of the writes of a batch to one partition key.
///
/// Whether a shard is full shows with its first refusal. So few writes are under way before one is granted, and each that is
/// lets two more begin, as the slow start of a TCP connection does: a full shard refuses about as many as it grants, and not all
/// that may be under way. One that waits for its turn at the [pace](super::pacing) of its shard is under way, too.
#[derive(Debug)]
pub(crate) struct SlowStart(Semaphore);

/// The writes that are under way before any was answered.
const AT_FIRST: usize = 4;

impl SlowStart {
    pub(crate) fn new() -> Self {
        Self(Semaphore::new(AT_FIRST))
    }

    /// Waits until one more may begin. It is under way until what this returns is dropped.
    pub(super) async fn begin(&self) -> SemaphoreGuard<'_> {
        self.0.acquire().await
    }

    /// Takes note of a write that was granted.
    pub(super) fn granted(&self) {
        self.0.add_permits(1);
    }
}
