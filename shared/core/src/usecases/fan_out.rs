//! Asks several shards at once.

use std::future::Future;

use futures_util::stream;
use futures_util::stream::StreamExt;

use crate::model::error::Error;

/// How many shards are asked at once. More would not be faster on a function's share of a core,
/// and fewer would make 256 shards wait.
pub(crate) const FAN_OUT: usize = 32;

/// Awaits requests to several shards, [`FAN_OUT`] at once, and returns their answers in the order of
/// the requests.
///
/// A shard that gave up after its retries stops none of the others, so that the error names all that
/// are missing. An error that will not pass ends it at once.
pub(crate) async fn fan_out<T, F>(requests: Vec<F>) -> Result<Vec<T>, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let requests = requests.into_iter().enumerate();
    let requests = requests.map(|(at, request)| async move { Ok((at, request.await?)) });
    let mut answers = Vec::new();
    let missing = fan_out_each(requests.collect(), |answer| {
        answers.push(answer);
        Ok::<_, Error>(())
    });
    if let Some(missing) = missing.await? {
        return Err(missing);
    }
    answers.sort_unstable_by_key(|(at, _)| *at);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}

/// Sends requests to several shards at once, and takes each answer as it comes, so that no more than [`FAN_OUT`] of them are in
/// memory at once. Returns the error that names all shards that are missing, if any are.
pub(crate) async fn fan_out_each<T, F, X>(
    requests: Vec<F>,
    mut take: impl FnMut(T) -> Result<(), X>,
) -> Result<Option<Error>, X>
where
    F: Future<Output = Result<T, Error>>,
    X: From<Error>,
{
    let mut results = stream::iter(requests).buffer_unordered(FAN_OUT);
    let mut errors = Vec::new();
    while let Some(result) = results.next().await {
        match result {
            Ok(answer) => take(answer)?,
            Err(error) if error.is_passing() => errors.push(error),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Error::of_fan_out(errors))
}
