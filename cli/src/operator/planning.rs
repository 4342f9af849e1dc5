//! What `keys`, `plan` and `simulate` have in common, which work on figures and files alone: how they end, the prices, and
//! what they refuse.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use dynashard_planning::cost::{PriceList, Prices};
use serde::de::DeserializeOwned;

use super::Failure;
use super::output::Output;
use crate::streams::Unwritten;

/// How a command ended that did not fail.
pub(super) enum Ended {
    Done,
    /// Nothing was calculated, since rows could not be read. They were printed.
    BadRows,
}

/// The exit status for figures, keys and files that nothing can be made from.
const BAD_INPUT: u8 = 2;

/// The project's own prices.
const PRICES: &str = include_str!("../../../data/prices-us-east-1.json");

/// Reports a failure, and ends the command.
pub(super) fn end(mut output: Output, ended: Result<Ended, Failure>) -> ExitCode {
    if let Err(failure) = &ended {
        output.failure(None, failure);
    }
    output.end(match ended {
        Ok(Ended::Done) => ExitCode::SUCCESS,
        Err(failure) if failure.code == Unwritten::CODE => ExitCode::FAILURE,
        Ok(Ended::BadRows) | Err(_) => ExitCode::from(BAD_INPUT),
    })
}

/// The prices of a file, or the project's own.
pub(crate) fn prices(path: Option<&Path>) -> Result<Prices, Failure> {
    let (list, name) = match path {
        Some(path) => (json_file::<PriceList>(path)?, path.display().to_string()),
        None => (parsed::<PriceList>(PRICES, "the prices")?, "the prices".to_owned()),
    };
    Prices::of(&list).map_err(|error| unusable(&name, &error))
}

/// What a file of JSON holds.
pub(super) fn json_file<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| unusable(&name, &error))?;
    parsed(&text, &name)
}

/// For figures that no load has.
pub(super) fn refused(error: &dyn std::error::Error) -> Failure {
    Failure { code: "bad_parameter", detail: error.to_string() }
}

fn parsed<T: DeserializeOwned>(text: &str, name: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| unusable(name, &error))
}

fn unusable(name: &str, error: &dyn std::error::Error) -> Failure {
    Failure { code: "input_failed", detail: format!("{name} cannot be used: {error}") }
}
