//! Raises counters of the directory for all that ask at once.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;

use async_lock::OnceCell;
use futures_util::future::{Either, select};
use parking_lot::Mutex;

use crate::model::segment::Group;
use crate::ports::{Dated, StoreError};

/// What is to be raised. A hundred changes that begin side by side would write one item a hundred times, so what is asked for while
/// a request is under way waits for the next one, which raises all of it.
#[derive(Debug, Default)]
pub(crate) struct Raises {
    /// Held by the request that is under way.
    sending: async_lock::Mutex<()>,
    /// What the next one is to raise.
    open: Mutex<Arc<Raise>>,
}

/// One request.
#[derive(Debug, Default)]
struct Raise {
    groups: Mutex<BTreeSet<Group>>,
    outcome: OnceCell<Answer>,
}

/// What DynamoDB says, and when.
type Answer = Result<Dated<()>, StoreError>;

/// How many counters one request raises at most: each takes some 70 of the 4,096 bytes of an expression (DynamoDB Developer Guide,
/// "Quotas").
const MOST: usize = 48;

impl Raises {
    /// Raises the counters of these groups by `send`, which is called after this. A request is waited for until `patience` is over:
    /// one that is never answered holds nobody up.
    pub(crate) async fn raise(
        &self,
        groups: &[Group],
        send: impl AsyncFnOnce(&[Group]) -> Answer,
        patience: impl Future<Output = ()>,
    ) -> Answer {
        let raise = self.join(groups);
        let send = async || {
            let _turn = match select(pin!(self.sending.lock()), pin!(patience)).await {
                Either::Left((turn, _)) => Some(turn),
                Either::Right(_) => None,
            };
            let groups = self.close(&raise);
            send(&groups).await
        };
        // Whoever is first sends it, and another of them if that one gives up.
        raise.outcome.get_or_init(send).await.clone()
    }

    /// The request that is to raise them.
    fn join(&self, groups: &[Group]) -> Arc<Raise> {
        let mut open = self.open.lock();
        let taken = open.groups.lock().len();
        if taken > 0 && taken + groups.len() > MOST {
            *open = Arc::default();
        }
        open.groups.lock().extend(groups);
        Arc::clone(&open)
    }

    /// What a request raises that is about to be sent: nobody joins it any more.
    fn close(&self, raise: &Arc<Raise>) -> Vec<Group> {
        let mut open = self.open.lock();
        if Arc::ptr_eq(&open, raise) {
            *open = Arc::default();
        }
        raise.groups.lock().iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::task::{Context, Poll, Waker};

    use futures_util::future::join_all;

    use super::*;

    const ANSWER: Answer = Ok(Dated { value: (), server_secs: Some(1) });

    fn groups(of: std::ops::Range<usize>) -> Vec<Group> {
        Group::all().skip(of.start).take(of.len()).collect()
    }

    /// What was sent, of which nothing is answered while it is `held`.
    #[derive(Default)]
    struct Sent {
        requests: Mutex<Vec<Vec<Group>>>,
        held: async_lock::Mutex<()>,
    }

    impl Sent {
        async fn send(&self, groups: &[Group]) -> Answer {
            self.requests.lock().push(groups.to_vec());
            drop(self.held.lock().await);
            ANSWER
        }

        fn requests(&self) -> Vec<Vec<Group>> {
            self.requests.lock().clone()
        }
    }

    /// A hundred changes that began side by side wrote the root of the directory a hundred times, which takes a tenth of that.
    #[test]
    fn regression_each_change_that_began_wrote_the_root_by_itself() {
        let (raises, sent) = (Raises::default(), Sent::default());
        let held = sent.held.try_lock().expect("nobody else");
        let raise = |number: usize| {
            let (raises, sent) = (&raises, &sent);
            let groups = groups(number..number + 1);
            async move { raises.raise(&groups, async |all| sent.send(all).await, pending()).await }
        };
        let mut all = pin!(join_all((0..100).map(raise)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(all.as_mut().poll(&mut context).is_pending());
        assert_eq!(sent.requests(), [groups(0..1)], "the first waits for nobody");
        drop(held);
        let answers = loop {
            if let Poll::Ready(answers) = all.as_mut().poll(&mut context) {
                break answers;
            }
        };
        assert_eq!(answers, vec![ANSWER; 100]);
        let expected = [groups(0..1), groups(1..49), groups(49..97), groups(97..100)];
        assert_eq!(sent.requests(), expected);
    }

    #[test]
    fn a_request_that_is_given_up_or_never_answered_holds_nobody_up() {
        let (raises, sent) = (Raises::default(), Sent::default());
        let _held = sent.held.try_lock().expect("nobody else");
        let mut context = Context::from_waker(Waker::noop());
        let (first, second) = (groups(0..1), groups(1..2));
        let mut lost = Box::pin(raises.raise(&first, async |all| sent.send(all).await, pending()));
        assert!(lost.as_mut().poll(&mut context).is_pending());
        // One has no patience, one waits with it for the same request, and the first of them gives up.
        let mut sender =
            Box::pin(raises.raise(&second, async |all| sent.send(all).await, ready(())));
        assert!(sender.as_mut().poll(&mut context).is_pending());
        assert_eq!(sent.requests(), [first.clone(), second.clone()]);
        let third = groups(2..3);
        let mut gives_up =
            Box::pin(raises.raise(&third, async |all| sent.send(all).await, pending()));
        assert!(gives_up.as_mut().poll(&mut context).is_pending());
        let mut waits = Box::pin(raises.raise(&third, async |_| ANSWER, pending()));
        assert!(waits.as_mut().poll(&mut context).is_pending());
        drop((lost, gives_up));
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(ANSWER));
    }
}
