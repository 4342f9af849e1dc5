//! The list of the rows that cannot be taken.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use dynashard_keys::ItemKey;
use dynashard_lambda::json::SortKeyJson;
use serde::Serialize;

use crate::operator::Failure;

/// So many are shown where no file takes the list.
const SHOWN: u64 = 20;

/// Where the refused rows are listed, each as a line of JSON: all of them in a file, or the first on stderr.
pub(super) struct Refusals {
    file: Option<BufWriter<File>>,
    count: u64,
    /// The file could not be written to.
    failure: Option<Failure>,
}

/// Where a row stands.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct RowPlace<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u64>,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    place: RowPlace<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pk: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sk: Option<SortKeyJson<'a>>,
    #[serde(flatten)]
    failure: &'a Failure,
}

impl Refusals {
    /// A list in this file, or on stderr.
    pub(super) fn to(file: Option<&Path>) -> Result<Self, Failure> {
        let create = |path: &Path| File::create(path).map(BufWriter::new).map_err(|e| failed(&e));
        Ok(Self { file: file.map(create).transpose()?, count: 0, failure: None })
    }

    /// Lists a row.
    pub(super) fn add(&mut self, place: RowPlace<'_>, key: Option<&ItemKey>, failure: &Failure) {
        let pk = key.map(|key| key.partition.as_str());
        let sk = key.map(|key| SortKeyJson(&key.sort));
        // What is serialized here are numbers and texts, which cannot fail.
        let line = serde_json::to_string(&Line { place, pk, sk, failure }).unwrap_or_default();
        self.count += 1;
        match &mut self.file {
            Some(file) => {
                if let Err(error) = writeln!(file, "{line}") {
                    self.failure.get_or_insert(failed(&error));
                }
            }
            None if self.count <= SHOWN => eprintln!("{line}"),
            None => {}
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Ends the list: says how many more there are, or that the file does not hold all of them.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        match &mut self.file {
            Some(file) => {
                if let Err(error) = file.flush() {
                    self.failure.get_or_insert(failed(&error));
                }
            }
            None if self.count > SHOWN => {
                let more = self.count - SHOWN;
                eprintln!("dynashard: {more} more; --refused FILE lists all");
            }
            None => {}
        }
        self.failure.take().map_or(Ok(()), Err)
    }
}

fn failed(error: &std::io::Error) -> Failure {
    Failure { code: "output_failed", detail: format!("the list of refused rows: {error}") }
}
