//! The list of the rows that cannot be taken.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;

use dynashard_api::json::SortKeyJson;
use dynashard_keys::ItemKey;
use serde::Serialize;

use crate::operator::Failure;

/// So many are shown where no file takes the list.
const SHOWN: u64 = 20;

/// Where the refused rows are listed, each as a line of JSON: all of them in a file, or the first on stderr.
#[derive(Default)]
pub(super) struct Refusals {
    file: Option<BufWriter<File>>,
    pub(super) count: u64,
    /// Since the list was ended last.
    of_phase: u64,
    /// The file could not be written to.
    failure: Option<Failure>,
}

/// Where a row stands; a row of a table stands nowhere.
#[derive(Debug, Clone, Copy, Default, Serialize)]
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
    /// Lists in this file and no more on stderr, behind what an earlier run has listed there or in place of
    /// it.
    pub(super) fn open(&mut self, path: &Path, appends: bool) -> Result<(), Failure> {
        let mut options = OpenOptions::new();
        options.create(true).write(true).append(appends).truncate(!appends);
        self.file = Some(BufWriter::new(options.open(path).map_err(|e| failed(&e))?));
        Ok(())
    }

    /// Lists a row.
    pub(super) fn add(&mut self, place: RowPlace<'_>, key: Option<&ItemKey>, failure: &Failure) {
        let (pk, sk) = key.map(|key| (key.partition.as_str(), SortKeyJson(&key.sort))).unzip();
        // What is serialized here are numbers and texts, which cannot fail.
        let line = serde_json::to_string(&Line { place, pk, sk, failure }).unwrap_or_default();
        self.count += 1;
        self.of_phase += 1;
        match &mut self.file {
            Some(file) => {
                let failure = writeln!(file, "{line}").err().map(|e| failed(&e));
                self.failure = self.failure.take().or(failure);
            }
            None if self.of_phase <= SHOWN => note!("{line}"),
            None => {}
        }
    }

    /// Writes out what is held back. A state that counts a row is saved after that.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        let flushed = self.file.as_mut().map_or(Ok(()), Write::flush).map_err(|e| failed(&e));
        self.failure.take().map_or(flushed, Err)
    }

    /// Ends the list of a phase: says how many more there are, or that the file does not hold all of them.
    /// The next phase shows its first rows again.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        let more = std::mem::take(&mut self.of_phase).saturating_sub(SHOWN);
        if more > 0 && self.file.is_none() {
            note!("dynashard: {more} more; --refused FILE lists all");
        }
        self.flush()
    }
}

fn failed(error: &std::io::Error) -> Failure {
    Failure { code: "output_failed", detail: format!("the list of refused rows: {error}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list of a run that went on began anew, and what was held back was not there when the state was
    /// saved.
    #[test]
    fn regression_the_list_of_an_earlier_run_was_lost() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("refused");
        let lines = || std::fs::read_to_string(&path).expect("a list").lines().count();
        let add = |appends| {
            let mut refusals = Refusals::default();
            refusals.open(&path, appends).expect("it opens");
            let place = RowPlace { file: None, line: Some(1) };
            refusals.add(place, None, &Failure { code: "bad_key", detail: String::new() });
            refusals.flush().expect("it writes");
            assert_eq!(refusals.count, 1);
            lines()
        };
        assert_eq!([add(true), add(true), add(false)], [1, 2, 1]);
    }

    /// Rows in doubt were hidden behind twenty that cannot be taken, and the others were told of twice.
    #[test]
    fn regression_rows_in_doubt_were_not_shown() {
        let mut refusals = Refusals::default();
        let failure = Failure { code: "bad_key", detail: String::new() };
        for _ in 0..=SHOWN {
            refusals.add(RowPlace { file: None, line: None }, None, &failure);
        }
        assert_eq!((refusals.count, refusals.of_phase), (SHOWN + 1, SHOWN + 1));
        refusals.finish().expect("it writes");
        assert_eq!((refusals.count, refusals.of_phase), (SHOWN + 1, 0));
    }
}
