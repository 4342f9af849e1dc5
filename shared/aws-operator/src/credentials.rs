//! The caller's credentials: asked for once, whoever needs them, and renewed before they end.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use async_lock::Mutex as AsyncMutex;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as Provided;
use aws_sdk_dynamodb::config::{Credentials, ProvideCredentials, SharedCredentialsProvider};
use dynashard_aws::error::causes;
use dynashard_core::Moment;
use dynashard_core::ports::Clock;
use futures_util::future::{Either, select};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::task::JoinHandle;

/// Why an operator's command could not reach the tables, in one line that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ConnectError(pub(crate) String);

/// Credentials, which are asked for anew before they end. All clients of one program share them.
pub(crate) struct Keys {
    provider: Option<SharedCredentialsProvider>,
    clock: Box<dyn Clock>,
    /// The last ones, and when they were given.
    held: Mutex<Option<(Credentials, Moment)>>,
    /// Whoever asks for others holds it, so that a server of credentials is asked once: why the last look failed, and when.
    renewal: AsyncMutex<Option<(ConnectError, Moment)>>,
}

/// What credentials that are held are good for.
enum Standing {
    Good(Credentials),
    /// They end soon.
    Ending(Credentials),
    Over,
}

/// How long before their end other credentials are asked for: what is signed with them by then is executed in time.
const RENEWED_BEFORE: Duration = Duration::from_mins(2);

/// How long before their end nothing is signed with them any more.
const UNUSED_BEFORE: Duration = Duration::from_secs(10);

/// For how long credentials count that name no end, as the SDK does it.
const WITHOUT_END: Duration = Duration::from_mins(15);

/// After what time a server of credentials is asked again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long it may take to be given credentials. A profile with a second factor asks a person for it.
const LOAD_TIME: Duration = Duration::from_mins(1);

impl Keys {
    pub(crate) fn of(
        provider: Option<SharedCredentialsProvider>,
        clock: impl Clock + 'static,
    ) -> Arc<Self> {
        let (held, renewal) = (Mutex::default(), AsyncMutex::default());
        Arc::new(Self { provider, clock: Box::new(clock), held, renewal })
    }

    /// Credentials that count for a while yet. Those that end soon are renewed beside whoever asks.
    pub(crate) async fn current(self: &Arc<Self>) -> Result<Credentials, ConnectError> {
        match self.standing() {
            Standing::Good(keys) => Ok(keys),
            Standing::Ending(keys) => {
                if self.renewal.try_lock().is_some() {
                    // What fails is told once these are over.
                    drop(self.renew());
                }
                Ok(keys)
            }
            Standing::Over => self.renew().await.unwrap_or_else(|ended| Err(none(&ended))),
        }
    }

    fn standing(&self) -> Standing {
        let Some((keys, since)) = self.held.lock().clone() else { return Standing::Over };
        let now = self.clock.now();
        let age = now.wall.checked_sub(since.wall);
        let Some(end) = keys.expiry().and_then(|end| end.duration_since(UNIX_EPOCH).ok()) else {
            let is_good = age.is_some_and(|age| age < WITHOUT_END);
            return if is_good { Standing::Good(keys) } else { Standing::Over };
        };
        match end.saturating_sub(now.wall) {
            left if left > RENEWED_BEFORE => Standing::Good(keys),
            left if left <= UNUSED_BEFORE => Standing::Over,
            // A server that hands out what ends soon has nothing better a moment later.
            _ if age.is_some_and(|age| age < LOOK_AGAIN) => Standing::Good(keys),
            _ => Standing::Ending(keys),
        }
    }

    /// Asks for other credentials, and goes on whoever stops waiting for them, such as a request whose time is over: a person may be
    /// typing a code.
    fn renew(self: &Arc<Self>) -> JoinHandle<Result<Credentials, ConnectError>> {
        let keys = Arc::clone(self);
        tokio::spawn(async move {
            let mut failed = keys.renewal.lock().await;
            if let Standing::Good(given) = keys.standing() {
                return Ok(given);
            }
            let now = keys.clock.now();
            match &*failed {
                Some((why, at)) if now.perhaps_since(*at) < LOOK_AGAIN => Err(why.clone()),
                _ => {
                    let given = keys.ask().await;
                    let at = keys.clock.now();
                    *failed = given.as_ref().err().map(|why| (why.clone(), at));
                    if let Ok(given) = &given {
                        *keys.held.lock() = Some((given.clone(), at));
                    }
                    given
                }
            }
        })
    }

    async fn ask(&self) -> Result<Credentials, ConnectError> {
        let provider = self.provider.as_ref().ok_or_else(|| none(&"no provider is configured"))?;
        let given = pin!(provider.provide_credentials());
        match select(given, pin!(self.clock.sleep(LOAD_TIME))).await {
            Either::Left((given, _)) => given.map_err(|error| none(&causes(&error))),
            Either::Right(_) => {
                Err(none(&format!("none were given within {} s", LOAD_TIME.as_secs())))
            }
        }
    }
}

fn none(why: &dyn fmt::Display) -> ConnectError {
    ConnectError(format!("there are no AWS credentials: {why}"))
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

/// These credentials, for clients of the SDK.
#[derive(Debug)]
pub(crate) struct HeldKeys(pub(crate) Arc<Keys>);

impl ProvideCredentials for HeldKeys {
    fn provide_credentials<'a>(&'a self) -> Provided<'a>
    where
        Self: 'a,
    {
        Provided::new(async { self.0.current().await.map_err(CredentialsError::provider_error) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::SystemTime;

    use dynashard_testkit::ManualClock;

    use super::*;

    /// Gives credentials up to this time once, and nothing from then on; or hangs. It counts how often it is asked.
    #[derive(Debug, Clone)]
    struct Provider {
        asked: Arc<AtomicUsize>,
        until: Option<SystemTime>,
        hangs: bool,
    }

    impl ProvideCredentials for Provider {
        fn provide_credentials<'a>(&'a self) -> Provided<'a>
        where
            Self: 'a,
        {
            Provided::new(async {
                match (self.asked.fetch_add(1, Ordering::Relaxed), self.until) {
                    (0, Some(until)) => {
                        Ok(Credentials::new("id", "secret", None, Some(until), "test"))
                    }
                    _ if self.hangs => std::future::pending().await,
                    _ => Err(CredentialsError::provider_error("the server is busy")),
                }
            })
        }
    }

    fn keys(clock: &ManualClock, lives: Duration, hangs: bool) -> (Arc<AtomicUsize>, Arc<Keys>) {
        let until = UNIX_EPOCH + clock.now().wall + lives;
        let until = Some(until).filter(|_| !lives.is_zero());
        let provider = Provider { asked: Arc::default(), until, hangs };
        let asked = Arc::clone(&provider.asked);
        (asked, Keys::of(Some(SharedCredentialsProvider::new(provider)), clock.clone()))
    }

    /// Two minutes before their end every request waited for new credentials, and failed where there were none, although the old ones
    /// were good.
    #[tokio::test]
    async fn regression_credentials_that_were_good_were_not_used_while_others_did_not_come() {
        let clock = ManualClock::new();
        let (asked, keys) = keys(&clock, Duration::from_mins(1), false);
        for looks in 1..4 {
            let given = keys.current().await.expect("they are good for a minute");
            assert_eq!(given.access_key_id(), "id");
            tokio::task::yield_now().await;
            assert_eq!(asked.load(Ordering::Relaxed), looks, "one look a second beside them");
            clock.advance(LOOK_AGAIN);
        }
        clock.advance(Duration::from_mins(1));
        assert!(keys.current().await.is_err());
    }

    #[tokio::test]
    async fn a_server_of_credentials_that_never_answers_is_given_up() {
        let clock = ManualClock::new();
        let (_, keys) = keys(&clock, Duration::ZERO, true);
        let why = keys.current().await.expect_err("it is given up").to_string();
        assert!(why.ends_with("none were given within 60 s"), "{why}");
    }

    /// Each of the requests that had waited asked the server again, one after the other.
    #[tokio::test]
    async fn regression_a_server_of_credentials_that_failed_was_asked_by_each_request() {
        let clock = ManualClock::new();
        let (asked, keys) = keys(&clock, Duration::ZERO, false);
        for looks in 1..4 {
            for _ in 0..5 {
                assert!(keys.current().await.is_err());
            }
            assert_eq!(asked.load(Ordering::Relaxed), looks);
            clock.advance(LOOK_AGAIN);
        }
    }
}
