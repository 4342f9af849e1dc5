use std::future::Future;

use futures_util::stream::{self, StreamExt};

use crate::Error;

/// How many shards are asked at once. More would not be faster on a function's share of a core,
/// and fewer would make 256 shards wait.
pub(crate) const FAN_OUT: usize = 32;

/// What the shards of a fan-out answered, and why some did not.
pub(crate) struct Answers<T> {
    /// In the order of the requests.
    pub(crate) answers: Vec<T>,
    /// The one error of all the shards that are missing.
    pub(crate) missing: Option<Error>,
}

impl<T> Answers<T> {
    /// All of the answers, or the error of those that are missing.
    pub(crate) fn all(self) -> Result<Vec<T>, Error> {
        self.missing.map_or(Ok(self.answers), Err)
    }
}

/// Awaits requests to several shards, [`FAN_OUT`] at once.
///
/// A shard that gave up after its retries stops none of the others, so that the error names all that
/// are missing. An error that will not pass ends it at once.
pub(crate) async fn fan_out<T, F>(requests: Vec<F>) -> Result<Answers<T>, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let requests = requests.into_iter().enumerate().map(|(at, request)| async move {
        let answer = request.await;
        (at, answer)
    });
    let requests = requests.collect::<Vec<_>>();
    let mut results = stream::iter(requests).buffer_unordered(FAN_OUT);
    let mut answers = Vec::new();
    let mut errors = Vec::new();
    while let Some((at, result)) = results.next().await {
        match result {
            Ok(answer) => answers.push((at, answer)),
            Err(error) if error.is_passing() => errors.push(error),
            Err(error) => return Err(error),
        }
    }
    answers.sort_unstable_by_key(|(at, _)| *at);
    Ok(Answers {
        answers: answers.into_iter().map(|(_, answer)| answer).collect(),
        missing: Error::of_fan_out(errors),
    })
}
