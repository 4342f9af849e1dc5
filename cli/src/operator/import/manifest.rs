//! What DynamoDB exports to S3, as one downloads it: a directory with manifests and `data/*.json.gz`, or
//! the data alone (Amazon DynamoDB Developer Guide, "DynamoDB table export output format").

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::files::{Format, InputFile, bad, failed, format_of};
use crate::operator::Failure;

/// Whether a directory looks like an export.
pub(super) fn is_export(directory: &Path) -> bool {
    [SUMMARY, FILES, "data"].iter().any(|name| directory.join(name).exists())
}

/// The data files of an export. If it has its manifests, each file that they name has to be there.
pub(super) fn files(directory: &Path) -> Result<Vec<InputFile>, Failure> {
    if let Some(summary) = read(&directory.join(SUMMARY))? {
        check_summary(directory, &summary)?;
    }
    let data = directory.join("data");
    let data = if data.is_dir() { data } else { directory.to_owned() };
    let listed = read(&directory.join(FILES))?;
    let mut files = match &listed {
        Some(text) => listed_files(directory, &data, text)?,
        None => present_files(&data)?,
    };
    if files.is_empty() && listed.is_none() {
        return Err(bad(directory, "holds no data/*.json.gz of an export"));
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

const SUMMARY: &str = "manifest-summary.json";
const FILES: &str = "manifest-files.json";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    output_format: Option<String>,
    export_type: Option<String>,
}

/// A line of the list of files.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    item_count: Option<u64>,
    data_file_s3_key: String,
}

fn check_summary(directory: &Path, text: &str) -> Result<(), Failure> {
    let summary = serde_json::from_str::<Summary>(text)
        .map_err(|e| bad(&directory.join(SUMMARY), &format!("is not a manifest: {e}")))?;
    let is_other =
        |found: &Option<String>, wanted: &str| found.clone().filter(|found| found != wanted);
    if let Some(format) = is_other(&summary.output_format, "DYNAMODB_JSON") {
        return Err(bad(
            directory,
            &format!("was exported as {format}; export it as DYNAMODB_JSON"),
        ));
    }
    if let Some(kind) = is_other(&summary.export_type, "FULL_EXPORT") {
        let why = format!("is an export of the kind {kind}; only full exports can be imported");
        return Err(bad(directory, &why));
    }
    Ok(())
}

fn listed_files(directory: &Path, data: &Path, text: &str) -> Result<Vec<InputFile>, Failure> {
    let mut files = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let listed = serde_json::from_str::<Listed>(line)
            .map_err(|e| bad(&directory.join(FILES), &format!("is not a list of files: {e}")))?;
        let key = &listed.data_file_s3_key;
        let name = key.rsplit('/').next().unwrap_or(key);
        let path = data.join(name);
        let missing =
            |_| bad(&path, "is missing, and the manifest lists it: was everything downloaded?");
        let bytes = fs::metadata(&path).map_err(missing)?.len();
        files.push(InputFile { name: name.to_owned(), path, bytes, items: listed.item_count });
    }
    Ok(files)
}

fn present_files(data: &Path) -> Result<Vec<InputFile>, Failure> {
    let mut files = Vec::new();
    for entry in fs::read_dir(data).map_err(|e| failed(data, &e))? {
        let entry = entry.map_err(|e| failed(data, &e))?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let is_data = format_of(&path) == Some(Format::JsonLines);
        if is_data && !name.starts_with("manifest-") {
            let bytes = entry.metadata().map_err(|e| failed(&path, &e))?.len();
            files.push(InputFile { name, path, bytes, items: None });
        }
    }
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
