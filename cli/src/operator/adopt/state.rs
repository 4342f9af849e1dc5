//! The state of a scan in a small file, so that the next run of the command continues where this one
//! ended, however it did.

use std::path::PathBuf;
use std::{fs, io};

use dynashard_core::TableSchema;
use dynashard_keys::{KeyError, SortKey};
use serde::{Deserialize, Serialize};

use super::super::Failure;
use super::super::files::replace;
use super::super::scan::{Begin, all_segments, key_attributes};
use super::survey::{Example, Survey};

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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Progress {
    /// When the first run began to read, in epoch seconds.
    pub(super) begun: u64,
    /// One for each segment.
    pub(super) positions: Vec<Position>,
    pub(super) survey: Survey,
}

/// Where a segment is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Position {
    Start,
    /// Behind this key.
    After(Example),
    End,
}

impl Progress {
    pub(super) fn new(segments: u32, begun: u64) -> Self {
        let positions = (0..segments).map(|_| Position::Start).collect();
        Self { begun, positions, survey: Survey::default() }
    }

    /// The segments that are not at their ends, each with the key behind which it goes on.
    pub(super) fn begins(&self, schema: &TableSchema) -> Result<Vec<Begin>, KeyError> {
        let segments = all_segments(u32::try_from(self.positions.len()).unwrap_or(u32::MAX));
        let begins = segments.zip(&self.positions).filter_map(|((segment, _), position)| {
            let after = match position {
                Position::Start => Ok(None),
                Position::After(Example { pk, sk }) => SortKey::parse(sk, schema.sort_key_type)
                    .map(|sort| Some(key_attributes(pk.clone(), &sort, schema))),
                Position::End => return None,
            };
            Some(after.map(|after| (segment, after)))
        });
        begins.collect()
    }
}

/// The file, if one is wanted.
#[derive(Debug)]
pub(super) struct StateFile {
    pub(super) path: PathBuf,
    subject: Subject,
    schema: TableSchema,
}

/// What the file holds.
#[derive(Serialize, Deserialize)]
struct Stored<S, P> {
    #[serde(flatten)]
    subject: S,
    #[serde(flatten)]
    progress: P,
}

impl StateFile {
    pub(super) fn new(path: PathBuf, subject: Subject, schema: TableSchema) -> Self {
        Self { path, subject, schema }
    }

    /// What an earlier run has left; nothing without a file. Fails if the file is of another table or of
    /// other options, or too old at `now`, in epoch seconds, or cannot be read.
    pub(super) fn load(&self, now: u64) -> Result<Option<Progress>, Failure> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failure(&format!("cannot be read: {error}"))),
        };
        let Stored { subject, progress } = serde_json::from_str::<Stored<Subject, Progress>>(&text)
            .map_err(|error| self.failure(&format!("is not one of this command: {error}")))?;
        if subject != self.subject {
            return Err(self.failure("is of another table, or of a run with other options"));
        }
        if now.saturating_sub(progress.begun) > OLDEST_SECS {
            return Err(self.failure("was begun more than a day ago, and items have changed since"));
        }
        progress
            .begins(&self.schema)
            .map_err(|error| self.failure(&format!("holds a wrong key: {error}")))?;
        if progress.positions.len() != self.subject.segments as usize {
            return Err(self.failure("has another number of segments than it says"));
        }
        Ok(Some(progress))
    }

    /// Puts the file in place of the one before, as a whole.
    pub(super) fn save(&self, progress: &Progress) -> Result<(), Failure> {
        let stored = Stored { subject: &self.subject, progress };
        let text = serde_json::to_string(&stored).unwrap_or_default();
        replace(&self.path, text.as_bytes())
            .map_err(|error| self.failure(&format!("cannot be written: {error}")))
    }

    /// Removes the file: nothing is left to continue.
    pub(super) fn remove(&self) {
        // Its absence is what counts, and a file of a finished scan is refused by nobody.
        let _ = fs::remove_file(&self.path);
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
    use dynashard_core::AttributeValue;
    use dynashard_keys::SortKeyType;

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

    fn progress(at: &str) -> Progress {
        let mut progress = Progress::new(3, 7);
        progress.positions[1] = Position::After(Example { pk: "a".to_owned(), sk: at.to_owned() });
        progress.positions[2] = Position::End;
        progress.survey.items = 7;
        progress.survey.consumed_rcu = 0.5;
        progress
    }

    #[test]
    fn what_was_saved_is_continued() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state.json");
        for (sort_key_type, at, value) in [
            (SortKeyType::String, "x", AttributeValue::String("x".to_owned())),
            (SortKeyType::Number, "1000", AttributeValue::Number("1e3".parse().expect("a number"))),
        ] {
            let schema = schema(sort_key_type);
            let file = StateFile::new(path.clone(), subject("1"), schema.clone());
            assert_eq!(file.load(7), Ok(None));
            let progress = progress(at);
            file.save(&progress).expect("saved");
            file.save(&progress).expect("saved again");
            let begins = progress.begins(&schema).expect("keys");
            assert_eq!(begins.len(), 2, "the last segment is at its end");
            assert_eq!(begins[1].1.as_ref().expect("a key")["at"], value);
            assert_eq!(file.load(7), Ok(Some(progress)));
            file.remove();
            assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 0);
        }
    }

    #[test]
    fn regression_what_was_read_long_ago_was_continued() {
        let directory = tempfile::tempdir().expect("a directory");
        let schema = schema(SortKeyType::String);
        let file = StateFile::new(directory.path().join("state.json"), subject("1"), schema);
        file.save(&Progress::new(3, 100)).expect("saved");
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
        let file = StateFile::new(path.clone(), subject("1"), schema.clone());
        file.save(&Progress::new(3, 7)).expect("saved");
        for other in [
            subject("2"),
            Subject { segments: 4, ..subject("1") },
            Subject { grow_keys: "a".to_owned(), ..subject("1") },
            Subject { is_in_use: true, ..subject("1") },
            Subject { format: FORMAT + 1, ..subject("1") },
        ] {
            let refused =
                StateFile::new(path.clone(), other, schema.clone()).load(7).expect_err("another");
            assert!(refused.detail.contains("of another table, or of a run with other options"));
        }
        fs::write(&path, "{").expect("a damaged file");
        assert_eq!(file.load(7).expect_err("damaged").code, "state_unusable");
    }
}
