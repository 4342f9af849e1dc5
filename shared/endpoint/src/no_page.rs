//! Why a page could not be read.

use crate::call::Answer;
use crate::refusal::Refusal;

/// Why a page could not be read.
pub(crate) enum NoPage {
    /// What was known is out of date.
    Again,
    /// DynamoDB has refused a part of it.
    Refused(Answer),
    Failed(Refusal),
}

impl From<Refusal> for NoPage {
    fn from(refusal: Refusal) -> Self {
        Self::Failed(refusal)
    }
}
