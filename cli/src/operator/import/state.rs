//! The file that says how far an import has come, so that one which ended early can go on.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::report::Counts;
use crate::operator::Failure;
use crate::operator::files::{is_special, replace, with_suffix};

/// What a state file holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// Of this form.
    version: u32,
    pub(super) identity: Identity,
    pub(super) counts: Counts,
    pub(super) position: Position,
}

/// What an import reads and writes, each by its name. One that goes on must have the same.
pub(super) type Identity = BTreeMap<String, String>;

/// How far the rows are written. Their numbers rise.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "Runs", try_from = "Runs")]
pub(super) struct Position {
    /// Rows behind this one were not read.
    last: u64,
    /// The rows up to there that are not certainly written, and whether each may have been sent.
    open: BTreeMap<u64, bool>,
}

impl Position {
    /// Whether a row may have been sent, unless it is certainly written.
    pub(super) fn may_be_sent(&self, number: u64) -> Option<bool> {
        let is_known = number <= self.last;
        self.open.get(&number).copied().or((!is_known).then_some(false))
    }

    /// A row was read.
    pub(super) fn read(&mut self, number: u64, in_doubt: bool) {
        self.last = self.last.max(number);
        self.open.insert(number, in_doubt);
    }

    /// A row may be sent from now on.
    pub(super) fn sent(&mut self, number: u64) {
        self.open.insert(number, true);
    }

    /// Nothing is left to do for a row: mostly it is certainly written.
    pub(super) fn done(&mut self, number: u64) {
        self.open.remove(&number);
    }
}

/// The last row, and runs of open rows: how many rows lie between it and the run before, how many it has, and whether
/// they may have been sent.
#[derive(Serialize, Deserialize)]
struct Runs(u64, Vec<(u64, u64, bool)>);

/// As many rows as are read ahead at most, and as many that wait.
const MOST_OPEN: u64 = 20_000_000;

impl From<Position> for Runs {
    fn from(position: Position) -> Self {
        let (mut runs, mut next) = (Vec::<(u64, u64, bool)>::new(), 0);
        for (number, is_sent) in position.open {
            match runs.last_mut() {
                Some((_, rows, sent)) if number == next && *sent == is_sent => *rows += 1,
                _ => runs.push((number - next, 1, is_sent)),
            }
            next = number + 1;
        }
        Self(position.last, runs)
    }
}

impl TryFrom<Runs> for Position {
    type Error = &'static str;

    fn try_from(Runs(last, runs): Runs) -> Result<Self, Self::Error> {
        let (mut open, mut next, mut left) = (BTreeMap::new(), 0_u64, MOST_OPEN);
        for (gap, rows, is_sent) in runs {
            left = left.checked_sub(rows).ok_or("it has too many open rows")?;
            let begin = next.saturating_add(gap);
            next = begin.saturating_add(rows);
            open.extend((begin..next).map(|number| (number, is_sent)));
        }
        Ok(Self { last, open })
    }
}

/// Of the form of the file.
const VERSION: u32 = 2;

impl State {
    pub(super) fn new(identity: Identity) -> Self {
        let (counts, position) = (Counts::default(), Position::default());
        Self { version: VERSION, identity, counts, position }
    }

    /// Refuses to go on with an import of another identity.
    pub(super) fn is_of(&self, identity: &Identity, path: &Path) -> Result<(), Failure> {
        let mut differing =
            identity.iter().filter(|(name, it)| self.identity.get(*name) != Some(it));
        let Some((name, _)) = differing.next() else { return Ok(()) };
        let path = path.display();
        let detail = format!(
            "{path} is the state of an import with another {name}; run that to its end, or remove the file to begin again"
        );
        Err(Failure { code: "state_mismatch", detail })
    }
}

/// The place of a state file, which no other import uses meanwhile.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    /// Held to the end, and by the system given up when the process ends.
    _lock: File,
}

const LOCK: &str = ".lock";

/// Holds the rows of `--from-table`, and while it lacks some of them has another suffix behind this one.
const COPY: &str = ".dynashard-rows";
const PART_OF_COPY: &str = ".dynashard-rows.partial";

impl StateFile {
    /// Takes the place, and reads what an earlier import has left there.
    pub(super) fn open(path: &Path) -> Result<(Self, Option<State>), Failure> {
        if is_special(path) {
            return Err(failed(path, "is no plain file"));
        }
        let lock = File::create(with_suffix(path, LOCK)).map_err(|e| {
            failed(path, &format!("cannot be made: {e}; --state FILE names another place"))
        })?;
        match lock.try_lock() {
            Ok(()) => {}
            // Some file systems have no locks.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::WouldBlock) => {
                return Err(failed(path, "is in use: another import of the same input is running"));
            }
            Err(TryLockError::Error(error)) => {
                return Err(failed(
                    path,
                    &format!("cannot be locked: {error}; --state FILE names another place"),
                ));
            }
        }
        let file = Self { path: path.to_owned(), _lock: lock };
        let state = match fs::read(path) {
            Ok(text) => Some(read(path, &text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(path, &format!("cannot be read: {error}"))),
        };
        Ok((file, state))
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
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed(&self.path, &format!("cannot be removed: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// Where the rows of another table are.
    pub(super) fn copy_path(&self) -> PathBuf {
        with_suffix(&self.path, COPY)
    }
}

impl Drop for StateFile {
    fn drop(&mut self) {
        if !self.path.exists() {
            // Without a state they are of no use, and mostly not there.
            for suffix in [COPY, PART_OF_COPY, LOCK] {
                let _ = fs::remove_file(with_suffix(&self.path, suffix));
            }
        }
    }
}

/// Where the state of an import is if nobody says so: beside the input, however that is named.
pub(super) fn default_path(input: &Path) -> PathBuf {
    // `dir/`, `.` and a link name the same as the path behind them. One that cannot be resolved cannot be
    // read either, which is reported where it is.
    let input = input.canonicalize().unwrap_or_else(|_| input.to_owned());
    with_suffix(&input, ".dynashard-import")
}

fn read(path: &Path, text: &[u8]) -> Result<State, Failure> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let damaged =
        |e: serde_json::Error| failed(path, &format!("is not the state of an import: {e}"));
    let Version { version } = serde_json::from_slice(text).map_err(damaged)?;
    if version != VERSION {
        let why = format!("is of version {version}, and this command writes version {VERSION}");
        return Err(failed(path, &why));
    }
    serde_json::from_slice(text).map_err(damaged)
}

fn failed(path: &Path, why: &str) -> Failure {
    Failure { code: "state_failed", detail: format!("the state file {} {why}", path.display()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::*;

    fn state(written: u64) -> State {
        let identity = Identity::from([("table".to_owned(), "MainTable".to_owned())]);
        let counts = Counts { written, ..Counts::default() };
        State { counts, ..State::new(identity) }
    }

    proptest! {
        #[test]
        fn what_was_noted_down_is_known_again(
            fates in prop::collection::vec(any::<[bool; 3]>(), 0..200),
        ) {
            let mut position = Position::default();
            let mut expected = Vec::new();
            for (number, [is_accepted, is_sent, is_done]) in (1_u64..).zip(&fates) {
                if !is_accepted {
                    continue;
                }
                position.read(number, false);
                if *is_sent {
                    position.sent(number);
                }
                if *is_sent && *is_done {
                    position.done(number);
                }
                expected.push((number, (!is_sent || !is_done).then_some(*is_sent)));
            }
            expected.push((position.last + 1, Some(false)));
            let text = serde_json::to_string(&position).expect("JSON");
            let again = serde_json::from_str::<Position>(&text).expect("the same");
            prop_assert_eq!(&again, &position);
            for (number, may_be_sent) in expected {
                prop_assert_eq!(again.may_be_sent(number), may_be_sent);
            }
        }
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
        fs::write(file.copy_path(), "rows").expect("it writes");
        drop(file);
        let (file, before) = StateFile::open(&path).expect("it opens");
        assert_eq!(before, Some(state(2)));
        assert!(file.copy_path().exists());
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
    fn an_import_goes_on_with_what_it_began() {
        let (before, path) = (state(1), Path::new("state"));
        let mut identity = before.identity.clone();
        assert_eq!(before.is_of(&identity, path), Ok(()));
        identity.insert("table".to_owned(), "OtherTable".to_owned());
        let refused = before.is_of(&identity, path).expect_err("refused");
        assert_eq!(refused.code, "state_mismatch");
        assert!(refused.detail.contains("another table"), "{refused}");
    }

    #[test]
    fn what_is_not_a_state_is_reported() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state");
        let whole = serde_json::to_string(&state(1)).expect("JSON");
        let endless = whole.replace("[0,[]]", "[0,[[0,18446744073709551615,true]]]");
        assert_ne!(endless, whole);
        for text in ["", "{", "{}", "{\"version\":1}", "{\"version\":2}", &endless] {
            fs::write(&path, text).expect("it writes");
            assert_eq!(StateFile::open(&path).expect_err(text).code, "state_failed", "{text}");
        }
        let special = StateFile::open(Path::new("/dev/null")).expect_err("refused");
        assert!(special.detail.contains("no plain file"), "{special}");
        let nowhere = directory.path().join("no/such/place");
        assert!(StateFile::open(&nowhere).expect_err("it fails").detail.contains("--state"));
    }
}
