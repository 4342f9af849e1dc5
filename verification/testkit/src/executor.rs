//! Runs futures without a runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Runs a future on this thread, for as long as it wakes itself.
///
/// # Panics
///
/// When the future waits for something that nothing is left to bring about: in a test over a manual
/// clock and memory stores it would wait for ever.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let woken = Arc::new(Woken(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    while woken.0.swap(false, Ordering::Relaxed) {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
    panic!("the future waits for something that will never happen");
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future;
    use futures_util::stream::{self, StreamExt};

    use super::*;

    #[test]
    fn a_future_that_wakes_itself_is_run_to_its_end() {
        // More futures than the stream polls in one turn.
        let sum = stream::iter(0..1_000).map(future::ready).buffer_unordered(500);
        assert_eq!(block_on(sum.fold(0, |sum, n| future::ready(sum + n))), 499_500);
    }

    #[test]
    #[should_panic(expected = "will never happen")]
    fn a_future_that_hangs_is_noticed() {
        block_on(future::pending::<()>());
    }
}
