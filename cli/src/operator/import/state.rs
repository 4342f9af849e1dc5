//! The file that says how far an import has come, so that one which ended early can go on.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::counts::Counts;
use super::marks::Progress;
use crate::operator::Failure;
use crate::operator::files::{is_special, replace, with_suffix};

/// What a state file holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// Of this form.
    version: u32,
    pub(super) identity: Identity,
    pub(super) counts: Counts,
    pub(super) progress: Progress,
}

/// What an import reads and writes. One that goes on must have the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    /// The table, and where it is.
    pub(super) table: String,
    pub(super) source: Source,
    /// What decides which rows there are and how they are put.
    pub(super) options: Vec<String>,
}

/// What the rows come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Source {
    /// The size and the hash of each file.
    Files(Vec<(u64, u64)>),
    Table(String),
}

/// Of the form of the file.
const VERSION: u32 = 1;

/// The longest file that is read: that of 100,000 rows takes a tenth.
const MAX_BYTES: u64 = 100_000_000;

impl State {
    pub(super) fn new(identity: Identity, counts: Counts, progress: Progress) -> Self {
        Self { version: VERSION, identity, counts, progress }
    }
}

/// The place of a state file, which no other import uses meanwhile.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    lock_path: PathBuf,
    /// Held to the end, and by the system given up when the process ends.
    _lock: File,
}

impl StateFile {
    /// Takes the place, and reads what an earlier import has left there.
    pub(super) fn open(path: &Path) -> Result<(Self, Option<State>), Failure> {
        if is_special(path) {
            return Err(failed(path, "is no plain file"));
        }
        let lock_path = with_suffix(path, ".lock");
        let lock = File::create(&lock_path).map_err(|e| {
            failed(path, &format!("cannot be made: {e}; --state FILE names another place"))
        })?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(failed(path, "is in use: another import of the same input is running"));
            }
            Err(TryLockError::Error(error)) => {
                return Err(failed(path, &format!("cannot be locked: {error}")));
            }
        }
        let state = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(path, &format!("cannot be read: {error}"))),
            Ok(metadata) if metadata.len() > MAX_BYTES => {
                return Err(failed(path, "is not the state of an import"));
            }
            Ok(_) => Some(read(path)?),
        };
        Ok((Self { path: path.to_owned(), lock_path, _lock: lock }, state))
    }

    /// Puts this state in place of the last one. The file is whole at any time, also after a loss of
    /// power.
    pub(super) fn save(&self, state: &State) -> Result<(), Failure> {
        let text = serde_json::to_vec(state).map_err(io::Error::from);
        text.and_then(|text| replace(&self.path, &text))
            .map_err(|e| failed(&self.path, &format!("cannot be written: {e}")))
    }

    /// Removes the file: everything is written.
    pub(super) fn remove(self) -> Result<(), Failure> {
        for path in [&self.path, &self.lock_path] {
            match fs::remove_file(path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(path, &format!("cannot be removed: {error}"))),
            }
        }
        Ok(())
    }

    /// Gives the place up, and leaves what is there.
    pub(super) fn leave(self) {
        // Without a state it guards nothing.
        if !self.path.exists() {
            let _ = fs::remove_file(&self.lock_path);
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Where the state of an import is if nobody says so: beside the input, however that is named.
pub(super) fn default_path(input: &Path) -> PathBuf {
    // `dir/`, `.` and a link name the same as the path behind them. One that cannot be resolved cannot be
    // read either, which is reported where it is.
    let input = input.canonicalize().unwrap_or_else(|_| input.to_owned());
    with_suffix(&input, ".dynashard-import")
}

/// An import that goes on is not that which the state is of.
pub(super) fn mismatch(path: &Path, what: &str) -> Failure {
    let detail = format!(
        "{} is the state of an import {what}; run that to its end, or remove the file to begin again",
        path.display()
    );
    Failure { code: "state_mismatch", detail }
}

fn read(path: &Path) -> Result<State, Failure> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let text = fs::read(path).map_err(|e| failed(path, &format!("cannot be read: {e}")))?;
    let damaged =
        |e: serde_json::Error| failed(path, &format!("is not the state of an import: {e}"));
    let Version { version } = serde_json::from_slice(&text).map_err(damaged)?;
    if version != VERSION {
        let why = format!("is of version {version}, and this command writes version {VERSION}");
        return Err(failed(path, &why));
    }
    serde_json::from_slice(&text).map_err(damaged)
}

fn failed(path: &Path, why: &str) -> Failure {
    Failure { code: "state_failed", detail: format!("the state file {} {why}", path.display()) }
}

#[cfg(test)]
mod tests {
    use super::super::marks::{Marks, RowMarks};
    use super::*;

    fn state(written: u64) -> State {
        let identity = Identity {
            table: "MainTable".to_owned(),
            source: Source::Files(vec![(10, u64::MAX)]),
            options: vec!["csv".to_owned()],
        };
        let counts = Counts { written, ..Counts::default() };
        State::new(identity, counts, Marks::Rows(RowMarks::default()).progress())
    }

    #[test]
    fn a_state_is_replaced_as_a_whole_read_again_and_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = default_path(&directory.path().join("flights.csv"));
        let (file, before) = StateFile::open(&path).expect("it opens");
        assert_eq!(before, None);
        let busy = StateFile::open(&path).expect_err("another import runs");
        assert_eq!(busy.code, "state_failed");
        for written in [1, 2] {
            file.save(&state(written)).expect("it saves");
        }
        file.leave();
        let (file, before) = StateFile::open(&path).expect("it opens");
        assert_eq!(before, Some(state(2)));
        file.remove().expect("it is removed");
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 0);
    }

    /// A state lay where the input was said to be, so that another name of the input began from the first
    /// row.
    #[test]
    fn regression_another_name_of_an_input_had_another_state() {
        let directory = tempfile::tempdir().expect("a directory");
        let input = directory.path().join("input");
        fs::create_dir(&input).expect("a directory");
        std::os::unix::fs::symlink(&input, directory.path().join("link")).expect("a link");
        let expected = default_path(&input);
        for name in ["input/", "input/.", "input/../input", "link"] {
            assert_eq!(default_path(&directory.path().join(name)), expected, "{name}");
        }
    }

    #[test]
    fn what_is_not_a_state_is_reported() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state");
        for text in ["", "{", "{}", "{\"version\":2}", "{\"version\":1}"] {
            fs::write(&path, text).expect("it writes");
            assert_eq!(StateFile::open(&path).expect_err(text).code, "state_failed", "{text}");
        }
        let special = StateFile::open(Path::new("/dev/null")).expect_err("refused");
        assert!(special.detail.contains("no plain file"), "{special}");
        let nowhere = directory.path().join("no/such/place");
        assert!(StateFile::open(&nowhere).expect_err("it fails").detail.contains("--state"));
    }
}
