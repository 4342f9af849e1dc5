//! The state of a scan in a small file, so that the next run of the command continues where this one
//! ended, however it did.

use std::path::{Path, PathBuf};
use std::{fs, io};

use dynashard_core::{AttributeValue, Attributes, TableSchema};
use dynashard_keys::{SortKey, SortKeyType};
use serde::{Deserialize, Serialize};

use super::super::Failure;
use super::super::files::replace;
use super::source::Position;
use super::survey::{Example, Survey, example};

/// What a scan reads: positions and findings of one are of no use to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Subject {
    /// The version of the file's format.
    pub(super) format: u32,
    pub(super) table: String,
    /// Tells the table from another of its name.
    pub(super) identity: String,
    pub(super) segments: u32,
    pub(super) grow_keys: String,
    /// Whether what dynashard has written is the stack's own.
    pub(super) is_in_use: bool,
}

/// The present version of the file's format.
pub(super) const FORMAT: u32 = 2;

/// What was read before is of no use after a day.
const OLDEST_SECS: u64 = 24 * 60 * 60;

/// How far a scan has come, and what it has found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Progress {
    /// When the first run began to read, in epoch seconds.
    pub(super) begun: u64,
    /// One for each segment.
    pub(super) positions: Vec<Position>,
    pub(super) survey: Survey,
}

impl Progress {
    pub(super) fn new(segments: u32, begun: u64) -> Self {
        Self {
            begun,
            positions: (0..segments).map(|_| Position::Start).collect(),
            survey: Survey::default(),
        }
    }
}

/// The file, if one is wanted.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    subject: Subject,
    sort_key_type: SortKeyType,
    names: [String; 2],
}

#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(flatten)]
    subject: Subject,
    begun: u64,
    positions: Vec<StoredPosition>,
    survey: Survey,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredPosition {
    Start,
    After(Example),
    End,
}

impl StateFile {
    pub(super) fn new(path: PathBuf, subject: Subject, schema: &TableSchema) -> Self {
        let names = [schema.partition_key_name.clone(), schema.sort_key_name.clone()];
        Self { path, subject, sort_key_type: schema.sort_key_type, names }
    }

    /// What an earlier run has left; nothing without a file. Fails if the file is of another table or of
    /// other options, or too old at `now`, in epoch seconds, or cannot be read.
    pub(super) fn load(&self, now: u64) -> Result<Option<Progress>, Failure> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failure(&format!("cannot be read: {error}"))),
        };
        let stored = serde_json::from_str::<Stored>(&text)
            .map_err(|error| self.failure(&format!("is not one of this command: {error}")))?;
        if stored.subject != self.subject {
            return Err(self.failure("is of another table, or of a run with other options"));
        }
        if now.saturating_sub(stored.begun) > OLDEST_SECS {
            return Err(self.failure("was begun more than a day ago, and items have changed since"));
        }
        let positions = stored.positions.into_iter().map(|position| self.position(position));
        let positions = positions.collect::<Result<Vec<_>, _>>()?;
        if positions.len() != self.subject.segments as usize {
            return Err(self.failure("has another number of segments than it says"));
        }
        Ok(Some(Progress { begun: stored.begun, positions, survey: stored.survey }))
    }

    /// Puts the file in place of the one before, as a whole.
    pub(super) fn save(&self, progress: &Progress, schema: &TableSchema) -> Result<(), Failure> {
        let position = |position: &Position| match position {
            Position::Start => StoredPosition::Start,
            Position::After(key) => StoredPosition::After(example(key, schema)),
            Position::End => StoredPosition::End,
        };
        let stored = Stored {
            subject: self.subject.clone(),
            begun: progress.begun,
            positions: progress.positions.iter().map(position).collect(),
            survey: progress.survey.clone(),
        };
        let text = serde_json::to_string(&stored).unwrap_or_default();
        replace(&self.path, text.as_bytes())
            .map_err(|error| self.failure(&format!("cannot be written: {error}")))
    }

    /// Removes the file: nothing is left to continue.
    pub(super) fn remove(&self) {
        // Its absence is what counts, and a file of a finished scan is refused by nobody.
        let _ = fs::remove_file(&self.path);
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn position(&self, stored: StoredPosition) -> Result<Position, Failure> {
        Ok(match stored {
            StoredPosition::Start => Position::Start,
            StoredPosition::End => Position::End,
            StoredPosition::After(Example { pk, sk }) => {
                let sort = SortKey::parse(&sk, self.sort_key_type)
                    .map_err(|error| self.failure(&format!("holds a wrong key: {error}")))?;
                let sort = match sort {
                    SortKey::String(text) => AttributeValue::String(text.to_string()),
                    SortKey::Number(number) => AttributeValue::Number(number),
                };
                let [partition_name, sort_name] = self.names.clone();
                let partition = AttributeValue::String(pk);
                Position::After(Attributes::from([(partition_name, partition), (sort_name, sort)]))
            }
        })
    }

    fn failure(&self, what: &str) -> Failure {
        let path = self.path.display();
        Failure {
            code: "state_unusable",
            detail: format!("the state file {path} {what}; remove it or name another"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(sort_key_type: SortKeyType) -> TableSchema {
        TableSchema {
            partition_key_name: "place".to_owned(),
            sort_key_name: "at".to_owned(),
            sort_key_type,
            ..TableSchema::default()
        }
    }

    fn subject(identity: &str) -> Subject {
        Subject {
            format: FORMAT,
            table: "arn:table/T".to_owned(),
            identity: identity.to_owned(),
            segments: 3,
            grow_keys: "*".to_owned(),
            is_in_use: false,
        }
    }

    fn progress(at: AttributeValue) -> Progress {
        let key =
            [("place".to_owned(), AttributeValue::String("a".to_owned())), ("at".to_owned(), at)];
        let mut progress = Progress::new(3, 7);
        progress.positions[1] = Position::After(Attributes::from(key));
        progress.positions[2] = Position::End;
        progress.survey.items = 7;
        progress.survey.consumed_rcu = 0.5;
        progress
    }

    #[test]
    fn what_was_saved_is_continued() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state.json");
        for (sort_key_type, at) in [
            (SortKeyType::String, AttributeValue::String("x".to_owned())),
            (SortKeyType::Number, AttributeValue::Number("1e3".parse().expect("a number"))),
        ] {
            let schema = schema(sort_key_type);
            let file = StateFile::new(path.clone(), subject("1"), &schema);
            assert_eq!(file.load(7), Ok(None));
            let progress = progress(at);
            file.save(&progress, &schema).expect("saved");
            file.save(&progress, &schema).expect("saved again");
            assert_eq!(file.load(7), Ok(Some(progress)));
            file.remove();
            assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 0);
        }
    }

    #[test]
    fn regression_what_was_read_long_ago_was_continued() {
        let directory = tempfile::tempdir().expect("a directory");
        let schema = schema(SortKeyType::String);
        let file = StateFile::new(directory.path().join("state.json"), subject("1"), &schema);
        file.save(&Progress::new(3, 100), &schema).expect("saved");
        assert_eq!(file.load(100 + OLDEST_SECS), Ok(Some(Progress::new(3, 100))));
        let refused = file.load(101 + OLDEST_SECS).expect_err("too old");
        assert_eq!(refused.code, "state_unusable");
        assert!(refused.detail.contains("more than a day ago"), "{}", refused.detail);
    }

    #[test]
    fn a_file_of_another_scan_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state.json");
        let schema = schema(SortKeyType::String);
        let file = StateFile::new(path.clone(), subject("1"), &schema);
        file.save(&Progress::new(3, 7), &schema).expect("saved");
        for other in [
            subject("2"),
            Subject { segments: 4, ..subject("1") },
            Subject { grow_keys: "a".to_owned(), ..subject("1") },
            Subject { is_in_use: true, ..subject("1") },
            Subject { format: FORMAT + 1, ..subject("1") },
        ] {
            let refused =
                StateFile::new(path.clone(), other, &schema).load(7).expect_err("another");
            assert!(refused.detail.contains("of another table, or of a run with other options"));
        }
        fs::write(&path, "{").expect("a damaged file");
        assert_eq!(file.load(7).expect_err("damaged").code, "state_unusable");
    }
}
