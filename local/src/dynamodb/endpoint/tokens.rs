//! Transactions that carry a `ClientRequestToken`, and what became of them.
//!
//! The engine knows tokens too, but with each one it goes through all that it was sent within ten
//! minutes, and every transaction with a token waits for that. So the endpoint keeps them instead.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dynashard_wire::members::JsonMembers;
use http::response::Parts;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;

use super::refusal::Refusal;

/// The token of a `TransactWriteItems`, and what it belongs to.
#[derive(Debug)]
pub(super) struct Token {
    text: String,
    /// The hash of the actions. Nothing else has to be the same in a repetition.
    actions: u64,
}

impl Token {
    /// The token of this request, and the request without it. One that DynamoDB refuses stays in
    /// its request, for the engine to refuse it.
    pub(super) fn take(operation: &str, body: &Bytes) -> Option<(Self, Bytes)> {
        if operation != "TransactWriteItems" {
            return None;
        }
        let mut members = JsonMembers::of(body)?;
        let text: String = members.get("ClientRequestToken")?;
        let actions: Value = members.get("TransactItems")?;
        if !(1..=MAX_TOKEN).contains(&text.len()) {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        actions.to_string().hash(&mut hasher);
        members.remove("ClientRequestToken");
        Some((Self { text, actions: hasher.finish() }, members.to_body()?))
    }
}

/// The tokens of the last ten minutes, at most [`MAX_TOKENS`] of them.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_text: HashMap<String, Slot>,
    /// When each token came first, the oldest first.
    by_age: VecDeque<(Duration, String)>,
}

/// Locked by a transaction from before its execution until its end, so that a repetition waits.
/// `None` while no transaction with the token has succeeded.
type Slot = Arc<tokio::sync::Mutex<Option<Executed>>>;

#[derive(Debug)]
struct Executed {
    actions: u64,
    answer: Bytes,
}

/// What a token says of its transaction.
#[derive(Debug)]
pub(super) enum Claim {
    /// It is to be executed.
    First(First),
    /// It was executed, with this answer.
    Repeated(Bytes),
    /// Another transaction was executed with the token.
    Mismatch,
}

/// The transaction that executes with a token.
#[derive(Debug)]
pub(super) struct First {
    slot: OwnedMutexGuard<Option<Executed>>,
    actions: u64,
}

impl Tokens {
    /// Waits for a transaction that runs with the same token. `now` is the time since the Unix
    /// epoch.
    pub(super) async fn claim(&self, token: Token, now: Duration) -> Claim {
        let Token { text, actions } = token;
        let slot = self.slot(text, now).lock_owned().await;
        match &*slot {
            None => Claim::First(First { slot, actions }),
            Some(executed) if executed.actions == actions => {
                Claim::Repeated(executed.answer.clone())
            }
            Some(_) => Claim::Mismatch,
        }
    }

    fn slot(&self, text: String, now: Duration) -> Slot {
        let mut known = self.known.lock();
        let Known { by_text, by_age } = &mut *known;
        while by_age.len() >= MAX_TOKENS
            || by_age.front().is_some_and(|(first, _)| now.saturating_sub(*first) >= WINDOW)
        {
            let Some((_, oldest)) = by_age.pop_front() else { break };
            by_text.remove(&oldest);
        }
        if let Some(slot) = by_text.get(&text) {
            return Arc::clone(slot);
        }
        by_age.push_back((now, text.clone()));
        Arc::clone(by_text.entry(text).or_default())
    }
}

impl First {
    /// Keeps the answer if the transaction succeeded. One that did not may be sent again.
    pub(super) fn note(mut self, answer: &Result<(Parts, Bytes), Refusal>) {
        if let Ok((parts, body)) = answer
            && parts.status.is_success()
        {
            *self.slot = Some(Executed { actions: self.actions, answer: body.clone() });
        }
    }
}

/// How long DynamoDB knows a token (DynamoDB API: `TransactWriteItems`, `ClientRequestToken`).
const WINDOW: Duration = Duration::from_mins(10);

/// The longest token, in bytes.
const MAX_TOKEN: usize = 36;

/// Beyond this many the oldest is forgotten early; DynamoDB forgets none.
const MAX_TOKENS: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_forgotten_after_ten_minutes_or_when_there_are_too_many() {
        let tokens = Tokens::default();
        let first = tokens.slot("a".to_owned(), Duration::ZERO);
        let is_known =
            |text: &str, at: Duration| Arc::ptr_eq(&first, &tokens.slot(text.to_owned(), at));
        assert!(is_known("a", Duration::from_secs(599)));
        assert!(!is_known("a", WINDOW));
        for n in 0..MAX_TOKENS + 10 {
            tokens.slot(n.to_string(), WINDOW);
        }
        let known = tokens.known.lock();
        assert_eq!((known.by_text.len(), known.by_age.len()), (MAX_TOKENS, MAX_TOKENS));
    }
}
