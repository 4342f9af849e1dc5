//! The files of an input, and what is wrong with one.

use std::io;
use std::path::{Path, PathBuf};

use crate::operator::Failure;

/// The input cannot be read, or is not what it seems.
pub(super) const INPUT_FAILED: &str = "input_failed";

/// The form of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(in crate::operator) enum Format {
    /// One object in each line: plain JSON, or {"Item":{...}} with DynamoDB's types.
    JsonLines,
    /// A header line and a line for each item.
    Csv,
    /// What DynamoDB exports to S3, downloaded.
    DynamodbExport,
}

/// A file of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InputFile {
    /// As messages call it.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// How many items it holds, where a manifest says so.
    pub(super) items: Option<u64>,
}

/// The form that a file's name tells.
pub(in crate::operator) fn format_of(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    match name.rsplit_once('.')?.1 {
        "csv" => Some(Format::Csv),
        "jsonl" | "ndjson" | "json" => Some(Format::JsonLines),
        _ => None,
    }
}

/// A file cannot be read.
pub(in crate::operator) fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure { code: INPUT_FAILED, detail: format!("{} cannot be read: {error}", path.display()) }
}

/// A file is not what it should be.
pub(in crate::operator) fn bad(path: &Path, why: &str) -> Failure {
    Failure { code: INPUT_FAILED, detail: format!("{} {why}", path.display()) }
}
