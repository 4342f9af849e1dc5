//! What DynamoDB exports to S3, as one downloads it: a directory with manifests and `data/*.json.gz`, or
//! the data alone (Amazon DynamoDB Developer Guide, "DynamoDB table export output format").

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::files::{Format, InputFile, bad, entries, failed};
use crate::operator::Failure;

/// Whether a directory looks like an export.
pub(super) fn is_export(directory: &Path) -> bool {
    [SUMMARY, FILES, "data"].iter().any(|name| directory.join(name).exists())
}

/// Finds the data files of an export, and how many items its summary says that they hold. If it has its manifests, these and
/// the files have to agree.
pub(super) fn find(directory: &Path) -> Result<(Vec<InputFile>, Option<u64>), Failure> {
    let summary = read(&directory.join(SUMMARY))?;
    let items = summary.map_or(Ok(None), |summary| check_summary(directory, &summary))?;
    let data = directory.join("data");
    let present = if data.is_dir() {
        let around = entries(directory)?.into_iter().filter(|entry| entry.name != "data/");
        refuse_others(directory, around)?;
        data_files(&data)?
    } else {
        data_files(directory)?
    };
    match read(&directory.join(FILES))? {
        Some(text) => Ok((listed_files(directory, present, &text)?, items)),
        None if present.is_empty() => Err(bad(directory, "holds no data/*.json.gz of an export")),
        None => Ok((present, items)),
    }
}

/// Refuses what DynamoDB does not write beside the data.
fn refuse_others(directory: &Path, others: impl Iterator<Item = InputFile>) -> Result<(), Failure> {
    let others = others.map(|entry| entry.name).filter(|name| !name.starts_with("manifest-"));
    let others = others.collect::<Vec<_>>().join(", ");
    if others.is_empty() {
        return Ok(());
    }
    Err(bad(directory, &format!("holds what is not of an export: {others}")))
}

pub(super) const SUMMARY: &str = "manifest-summary.json";
const FILES: &str = "manifest-files.json";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    output_format: Option<String>,
    export_type: Option<String>,
    item_count: Option<u64>,
}

/// A line of the list of files.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    item_count: Option<u64>,
    data_file_s3_key: String,
}

/// Refuses what cannot be imported. Returns how many items there are.
fn check_summary(directory: &Path, text: &str) -> Result<Option<u64>, Failure> {
    let summary = serde_json::from_str::<Summary>(text)
        .map_err(|e| bad(&directory.join(SUMMARY), &format!("is not a manifest: {e}")))?;
    let wrong = match (summary.output_format.as_deref(), summary.export_type.as_deref()) {
        (Some(format), _) if format != "DYNAMODB_JSON" => {
            format!("was exported as {format}; export it as DYNAMODB_JSON")
        }
        (_, Some(kind)) if kind != "FULL_EXPORT" => {
            format!("is an export of the kind {kind}; only full exports can be imported")
        }
        _ => return Ok(summary.item_count),
    };
    Err(bad(directory, &wrong))
}

/// Gives each file that is there its place in the list: both have the same files.
fn listed_files(
    directory: &Path,
    present: Vec<InputFile>,
    text: &str,
) -> Result<Vec<InputFile>, Failure> {
    let list = directory.join(FILES);
    let mut left =
        present.into_iter().map(|file| (file.name.clone(), file)).collect::<BTreeMap<_, _>>();
    let mut files = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let listed = serde_json::from_str::<Listed>(line)
            .map_err(|e| bad(&list, &format!("is not a list of files: {e}")))?;
        let key = &listed.data_file_s3_key;
        let name = key.rsplit('/').next().unwrap_or(key).to_owned();
        if files.contains_key(&name) {
            return Err(bad(&list, &format!("lists {name} twice")));
        }
        let file = left.remove(&name).ok_or_else(|| {
            bad(&list, &format!("lists {name}, which is missing: was everything downloaded?"))
        })?;
        files.insert(name, InputFile { items: listed.item_count, ..file });
    }
    match left.keys().next() {
        Some(name) => Err(bad(&list, &format!("does not list {name}: is it whole?"))),
        None => Ok(files.into_values().collect()),
    }
}

/// The files of lines of JSON in a directory, which holds nothing else.
fn data_files(data: &Path) -> Result<Vec<InputFile>, Failure> {
    let is_data = |entry: &InputFile| {
        entry.format == Some(Format::JsonLines) && !entry.name.starts_with("manifest-")
    };
    let (files, others) = entries(data)?.into_iter().partition::<Vec<_>, _>(is_data);
    refuse_others(data, others.into_iter())?;
    Ok(files)
}

/// The text of a file, if it exists.
fn read(path: &PathBuf) -> Result<Option<String>, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}
