//! The files of an input, and what is wrong with one.

use std::fs::{self, Metadata};
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

/// A file of an import, or what else lies in its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InputFile {
    /// As messages call it.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// How many items it holds, where a manifest says so.
    pub(super) items: Option<u64>,
    /// That of its name, if it is a plain file.
    pub(super) format: Option<Format>,
}

/// What tells a file that is there from others, by whatever name. It is not opened: a pipe would wait for its other end.
#[cfg(unix)]
pub(super) fn id(path: &Path) -> Option<impl PartialEq + use<>> {
    use std::os::unix::fs::MetadataExt;

    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Windows tells files apart by what their links lead to.
#[cfg(windows)]
pub(super) fn id(path: &Path) -> Option<impl PartialEq + use<>> {
    path.canonicalize().ok()
}

/// What lies in a directory, in the order of the names. Hidden files are passed over: those whose names begin with a dot,
/// as of systems, and the marks of programs that write several files, as `_SUCCESS`.
pub(super) fn entries(directory: &Path) -> Result<Vec<InputFile>, Failure> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(|e| failed(directory, &e))? {
        let path = entry.map_err(|e| failed(directory, &e))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let format = format_of(&path);
        if name.starts_with('.') || (name.starts_with('_') && format.is_none()) {
            continue;
        }
        // Behind a link, which may lead to nothing.
        let metadata = fs::metadata(&path).ok();
        let format = format.filter(|_| metadata.as_ref().is_some_and(Metadata::is_file));
        let slash = if metadata.as_ref().is_some_and(Metadata::is_dir) { "/" } else { "" };
        found.push(InputFile { name: name + slash, path, items: None, format });
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
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
