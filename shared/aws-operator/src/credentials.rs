//! The caller's credentials: asked for once, whoever needs them, and renewed before they end.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use async_lock::Mutex as AsyncMutex;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future;
use aws_sdk_dynamodb::config::{Credentials, ProvideCredentials, SharedCredentialsProvider};
use dynashard_aws::error::causes;
use dynashard_aws::{ServerClock, SystemClock};
use dynashard_core::ports::Clock;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Why an operator's command could not reach the tables, in one line that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ConnectError(pub(crate) String);

/// Credentials, which are asked for anew before they end. One program asks for them once, whichever of its clients needs them.
#[derive(Debug)]
pub(crate) struct Keys {
    provider: Option<SharedCredentialsProvider>,
    held: Mutex<Held>,
    /// Whoever asks for others holds it, so that a server of credentials is asked once.
    turn: AsyncMutex<()>,
    /// For how long there is no other look.
    rest: Duration,
}

#[derive(Debug, Default)]
struct Held {
    /// The last ones, and when they were given, by the wall clock.
    keys: Option<(Credentials, Duration)>,
    /// Why there were no others, and when that was known.
    failed: Option<(ConnectError, Instant)>,
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

/// For how long there is no other look: all requests would wait for the same server.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long it may take to be given credentials. A profile with a second factor asks a person for it.
const LOAD_TIME: Duration = Duration::from_mins(1);

impl Keys {
    pub(crate) fn of(provider: Option<SharedCredentialsProvider>) -> Arc<Self> {
        Self::resting(provider, LOOK_AGAIN)
    }

    fn resting(provider: Option<SharedCredentialsProvider>, rest: Duration) -> Arc<Self> {
        Arc::new(Self { provider, held: Mutex::default(), turn: AsyncMutex::new(()), rest })
    }

    /// Credentials that count for a while yet, at this time of the wall clock. Those that end soon are renewed beside whoever asks.
    pub(crate) async fn current(
        self: &Arc<Self>,
        now: Duration,
    ) -> Result<Credentials, ConnectError> {
        match self.standing(now) {
            Standing::Good(keys) => return Ok(keys),
            Standing::Ending(keys) => {
                let is_renewing = self.turn.try_lock().is_none();
                if !is_renewing && self.failure().is_none() {
                    // What fails is tried again, and told once the old ones are over.
                    drop(self.renewal(now));
                }
                return Ok(keys);
            }
            Standing::Over => {}
        }
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let renewed = self.renewal(now).await;
        renewed.unwrap_or_else(|ended| {
            Err(ConnectError(format!("there are no AWS credentials: {ended}")))
        })
    }

    /// A renewal that goes on whoever stops waiting for it, such as a request whose time is over: a person may be typing a code.
    fn renewal(self: &Arc<Self>, now: Duration) -> JoinHandle<Result<Credentials, ConnectError>> {
        let keys = Arc::clone(self);
        tokio::spawn(async move {
            let _turn = keys.turn.lock().await;
            if let Standing::Good(given) = keys.standing(now) {
                return Ok(given);
            }
            match keys.failure() {
                Some(failure) => Err(failure),
                None => keys.renew(now).await,
            }
        })
    }

    fn standing(&self, now: Duration) -> Standing {
        let Some((keys, since)) = self.held.lock().keys.clone() else { return Standing::Over };
        let end = keys.expiry().and_then(|end| end.duration_since(UNIX_EPOCH).ok());
        let is_given_within = |time| now.checked_sub(since).is_some_and(|age| age < time);
        match end {
            Some(end) if now + UNUSED_BEFORE < end => {
                // A server may hand out what ends soon, and has nothing better a moment later.
                let is_good = now + RENEWED_BEFORE < end || is_given_within(LOOK_AGAIN);
                if is_good { Standing::Good(keys) } else { Standing::Ending(keys) }
            }
            None if is_given_within(WITHOUT_END) => Standing::Good(keys),
            _ => Standing::Over,
        }
    }

    /// Why there were no credentials a moment ago.
    fn failure(&self) -> Option<ConnectError> {
        let failed = self.held.lock().failed.clone();
        failed.filter(|(_, at)| at.elapsed() < self.rest).map(|(why, _)| why)
    }

    async fn renew(&self, now: Duration) -> Result<Credentials, ConnectError> {
        let given = tokio::time::timeout(LOAD_TIME, credentials_from(self.provider.as_ref())).await;
        let given = given.unwrap_or_else(|_| {
            let secs = LOAD_TIME.as_secs();
            Err(ConnectError(format!(
                "there are no AWS credentials: none were given within {secs} s"
            )))
        });
        let mut held = self.held.lock();
        match &given {
            Ok(keys) => *held = Held { keys: Some((keys.clone(), now)), failed: None },
            Err(why) => held.failed = Some((why.clone(), Instant::now())),
        }
        given
    }
}

/// These credentials, for clients of the SDK.
#[derive(Debug)]
pub(crate) struct HeldKeys {
    keys: Arc<Keys>,
    clock: SystemClock,
}

impl HeldKeys {
    pub(crate) fn of(keys: &Arc<Keys>) -> Self {
        Self { keys: Arc::clone(keys), clock: SystemClock::new(ServerClock::default()) }
    }
}

impl ProvideCredentials for HeldKeys {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async {
            let now = self.clock.now().wall;
            self.keys.current(now).await.map_err(CredentialsError::provider_error)
        })
    }
}

async fn credentials_from(
    provider: Option<&SharedCredentialsProvider>,
) -> Result<Credentials, ConnectError> {
    let none =
        |why: &dyn fmt::Display| ConnectError(format!("there are no AWS credentials: {why}"));
    let provider = provider.ok_or_else(|| none(&"no provider is configured"))?;
    provider.provide_credentials().await.map_err(|error| none(&causes(&error)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Gives credentials of one minute each, or nothing, and says how often it was asked.
    #[derive(Debug, Clone, Default)]
    struct Provider {
        asked: Arc<AtomicUsize>,
        hangs: bool,
        first: Duration,
    }

    impl ProvideCredentials for Provider {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            future::ProvideCredentials::new(async {
                let times = self.asked.fetch_add(1, Ordering::Relaxed);
                if times > 0 && self.hangs {
                    std::future::pending::<()>().await;
                }
                if times > 0 || self.first.is_zero() {
                    return Err(CredentialsError::provider_error("the server is busy"));
                }
                let end = UNIX_EPOCH + self.first;
                Ok(Credentials::new("id", "secret", None, Some(end), "test"))
            })
        }
    }

    const NOW: Duration = Duration::from_hours(500_000);

    fn keys(hangs: bool, lives: Duration) -> (Provider, Arc<Keys>) {
        let first = if lives.is_zero() { lives } else { NOW + lives };
        let provider = Provider { hangs, first, ..Provider::default() };
        let shared = SharedCredentialsProvider::new(provider.clone());
        // However long the machine takes.
        (provider, Keys::resting(Some(shared), Duration::from_hours(1)))
    }

    /// Two minutes before their end every request waited for new credentials, and failed where there were none, although the old ones
    /// were good.
    #[tokio::test]
    async fn regression_credentials_that_were_good_were_not_used_while_others_did_not_come() {
        for hangs in [true, false] {
            let (provider, keys) = keys(hangs, Duration::from_mins(1));
            for secs in 0..3 {
                let now = NOW + Duration::from_secs(secs);
                let given = keys.current(now).await.expect("they are good for a minute");
                assert_eq!(given.access_key_id(), "id");
                tokio::task::yield_now().await;
            }
            assert_eq!(provider.asked.load(Ordering::Relaxed), 2, "one other look for all");
            if !hangs {
                let over = keys.current(NOW + Duration::from_mins(2)).await;
                assert!(over.is_err(), "{over:?}");
            }
        }
    }

    /// Each of the requests that had waited asked the server again, one after the other.
    #[tokio::test]
    async fn regression_a_server_of_credentials_that_failed_was_asked_by_each_request() {
        let (provider, keys) = keys(false, Duration::ZERO);
        for _ in 0..5 {
            assert!(keys.current(NOW).await.is_err());
        }
        assert_eq!(provider.asked.load(Ordering::Relaxed), 1);
    }
}
