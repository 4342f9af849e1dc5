//! Whether a request for a page is one, which DynamoDB says itself: it is sent as its client has put it, a query to the first shard,
//! whose partition key is the client's.

use futures_util::future::try_join;

use crate::call::Answer;
use crate::document::{Members, written};
use crate::evaluation::limit;
use crate::items::Attempt;
use crate::refusal::Refusal;
use crate::shapes::Shape;
use crate::upstream::{Upstream, refused};

/// Reads a page of the request that was understood so, if DynamoDB takes it. What it refuses it refuses in its own words.
pub(crate) async fn judged<A>(
    upstream: &Upstream,
    operation: &str,
    body: &Members,
    asked: Result<A, Refusal>,
    page: impl AsyncFnOnce(A) -> Result<Attempt, Refusal>,
) -> Result<Attempt, Refusal> {
    let asked = match asked {
        Ok(asked) => asked,
        Err(refusal) => {
            let judged = judge(upstream, operation, body).await.err().unwrap_or(Err(refusal));
            return judged.map(Attempt::Answered);
        }
    };
    let shape = Shape::of(operation, body);
    if upstream.shapes().has(shape) {
        return page(asked).await;
    }
    let page = async { page(asked).await.map_err(Err) };
    match try_join(judge(upstream, operation, body), page).await {
        Ok((is_taken, attempt)) => {
            if is_taken {
                upstream.shapes().add(shape);
            }
            Ok(attempt)
        }
        Err(refused) => refused.map(Attempt::Answered),
    }
}

/// Has DynamoDB judge a request by one item: whether it takes it, which it does not say while it throttles. The error is what the
/// client is answered.
async fn judge(
    upstream: &Upstream,
    operation: &str,
    body: &Members,
) -> Result<bool, Result<Answer, Refusal>> {
    let mut body = body.clone();
    if limit(&body).is_ok() {
        body.insert("Limit".to_owned(), 1.into());
    }
    let sent = written(&body);
    let answer = upstream.exchange(operation, sent, None).await.map(Answer::from);
    let answer = answer.map_err(|error| Err(refused(&error)))?;
    if answer.is_success() || answer.is_passing() {
        Ok(answer.is_success())
    } else {
        Err(Ok(answer))
    }
}
