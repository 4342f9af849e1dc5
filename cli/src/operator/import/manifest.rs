//! What DynamoDB exports to S3, as one downloads it: a directory with manifests and `data/*.json.gz`, or
//! the data alone (Amazon DynamoDB Developer Guide, "DynamoDB table export output format").

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::files::{Format, INPUT_FAILED, InputFile, bad, entries, failed};
use crate::operator::Failure;

/// Whether a directory looks like an export.
pub(super) fn is_export(directory: &Path) -> bool {
    [SUMMARY, FILES, "data"].iter().any(|name| directory.join(name).exists())
}

/// What an export consists of.
pub(super) struct Export {
    /// The data files.
    pub(super) files: Vec<InputFile>,
    /// How many items the summary says that they hold.
    pub(super) items: Option<u64>,
}

/// Finds the data files of an export. If it has its manifests, these and the files have to agree.
pub(super) fn find(directory: &Path) -> Result<Export, Failure> {
    let items = match read(&directory.join(SUMMARY))? {
        Some(summary) => check_summary(directory, &summary)?,
        None => None,
    };
    let data = directory.join("data");
    let present = if data.is_dir() {
        let around = entries(directory)?.into_iter();
        let around = around.filter(|entry| !is_own(&entry.file.name) && entry.file.name != "data/");
        refuse_others(directory, &around.map(|entry| entry.file.name).collect::<Vec<_>>())?;
        data_files(&data)?
    } else {
        data_files(directory)?
    };
    let listed = read(&directory.join(FILES))?;
    let files = match &listed {
        Some(text) => listed_files(directory, present, text)?,
        None => present,
    };
    if files.is_empty() && listed.is_none() {
        return Err(bad(directory, "holds no data/*.json.gz of an export"));
    }
    let in_list = listed.and_then(|_| files.iter().map(|file| file.items).sum::<Option<u64>>());
    if let (Some(items), Some(in_list)) = (items, in_list)
        && items != in_list
    {
        let why = format!(
            "lists files of {in_list} items, and {SUMMARY} says {items}: was all of it downloaded?"
        );
        return Err(bad(&directory.join(FILES), &why));
    }
    Ok(Export { files, items })
}

/// The files hold more or fewer items than the summary says.
pub(super) fn incomplete(found: u64, items: u64) -> Failure {
    let detail = format!(
        "the data files hold {found} items, and {SUMMARY} says {items}: was everything downloaded?"
    );
    Failure { code: INPUT_FAILED, detail }
}

/// Whether a file is one that DynamoDB writes beside the data.
fn is_own(name: &str) -> bool {
    name.starts_with("manifest-")
}

fn refuse_others(directory: &Path, others: &[String]) -> Result<(), Failure> {
    if others.is_empty() {
        return Ok(());
    }
    Err(bad(directory, &format!("holds what is not of an export: {}", others.join(", "))))
}

const SUMMARY: &str = "manifest-summary.json";
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
    Ok(summary.item_count)
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
    let entries = entries(data)?.into_iter().filter(|entry| !is_own(&entry.file.name));
    let (files, others) =
        entries.partition::<Vec<_>, _>(|entry| entry.format == Some(Format::JsonLines));
    refuse_others(data, &others.into_iter().map(|entry| entry.file.name).collect::<Vec<_>>())?;
    Ok(files.into_iter().map(|entry| entry.file).collect())
}

/// The text of a file, if it exists.
fn read(path: &PathBuf) -> Result<Option<String>, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}
