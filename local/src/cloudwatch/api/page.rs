//! Answers that come in pages.

use super::super::error::{ApiError, Fault};
use super::super::wire::Members;

/// The index of the first item of a page. Tokens are these indexes.
pub(super) fn first_of_page(members: &Members<'_>) -> Result<usize, ApiError> {
    let token = members.text("NextToken")?;
    token.map_or(Ok(0), |token| {
        let text = "The value of NextToken is not valid".to_owned();
        token.parse().map_err(|_| ApiError::new(Fault::INVALID_NEXT_TOKEN, text))
    })
}

/// How many items a page has: at most, and by default, `most`.
pub(super) fn page_size(members: &Members<'_>, name: &str, most: usize) -> Result<usize, ApiError> {
    match members.whole(name)?.map(usize::try_from) {
        None => Ok(most),
        Some(Ok(size)) if (1..=most).contains(&size) => Ok(size),
        Some(_) => Err(ApiError::invalid(&members.name(name), &format!("must be 1 to {most}"))),
    }
}

/// The items of a page, and the token of the next one.
pub(super) fn page<T>(items: Vec<T>, first: usize, size: usize) -> (Vec<T>, Option<String>) {
    let has_more = items.len() > first.saturating_add(size);
    let next = has_more.then(|| (first + size).to_string());
    (items.into_iter().skip(first).take(size).collect(), next)
}
