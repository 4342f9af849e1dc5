//! The lines of a report on what was looked at: `doctor`'s, and `adopt`'s.

use std::fmt;

use dynashard_aws_operator::Unseen;
use serde::Serialize;

use super::output::Output;

/// What was found out about one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// Its name, which stays.
    #[serde(rename = "check")]
    pub(super) name: &'static str,
    pub(super) status: Status,
    /// What was seen.
    pub(super) seen: String,
    /// What to do, if there is something.
    pub(super) advice: Option<String>,
}

/// How it stands with one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// As it should be.
    Ok,
    /// It works, but not as well, or not as safely, as the template would have it.
    Warning,
    /// The application does not work, or may lose writes.
    Problem,
    /// It could not be seen.
    Unknown,
}

impl Status {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
            Self::Unknown => "unknown",
        }
    }
}

impl Check {
    pub(super) fn new(name: &'static str, status: Status, seen: impl Into<String>) -> Self {
        Self { name, status, seen: seen.into(), advice: None }
    }

    pub(super) fn ok(name: &'static str, seen: impl Into<String>) -> Self {
        Self::new(name, Status::Ok, seen)
    }

    pub(super) fn warning(name: &'static str, seen: impl Into<String>) -> Self {
        Self::new(name, Status::Warning, seen)
    }

    pub(super) fn problem(name: &'static str, seen: impl Into<String>) -> Self {
        Self::new(name, Status::Problem, seen)
    }

    pub(super) fn unknown(name: &'static str, seen: impl Into<String>) -> Self {
        Self::new(name, Status::Unknown, seen)
    }

    pub(super) fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }

    /// What follows from what an operation has found of a table, or the permission that it lacks.
    pub(super) fn of<T>(
        name: &'static str,
        found: &Result<T, Unseen>,
        (operation, table): (&str, &str),
        judge: impl FnOnce(&T) -> Self,
    ) -> Self {
        let unseen = match found {
            Ok(found) => return judge(found),
            Err(unseen) => unseen,
        };
        match unseen {
            Unseen::NotPermitted => {
                Self::unknown(name, format!("the credentials do not allow {operation}"))
                    .advise(format!("allow dynamodb:{operation} on the table {table}"))
            }
            Unseen::NotSupported => {
                Self::unknown(name, format!("this server does not know {operation}"))
            }
            Unseen::NotFound => Self::problem(name, format!("the table {table} does not exist"))
                .advise("check the name of the table, --region and --profile"),
            Unseen::Unanswered(why) | Unseen::Failed(why) => {
                Self::unknown(name, format!("{operation} failed: {why}"))
                    .advise("run the command again")
            }
        }
    }
}

/// How many checks came out how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Totals {
    pub(super) problems: usize,
    pub(super) warnings: usize,
    pub(super) unknown: usize,
}

impl Totals {
    pub(super) fn of(checks: &[Check]) -> Self {
        let count = |status| checks.iter().filter(|check| check.status == status).count();
        Self {
            problems: count(Status::Problem),
            warnings: count(Status::Warning),
            unknown: count(Status::Unknown),
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: usize, word: &str| match count {
            1 => format!("1 {word}"),
            count => format!("{count} {word}s"),
        };
        let (problems, warnings) =
            (plural(self.problems, "problem"), plural(self.warnings, "warning"));
        write!(f, "{problems}, {warnings}, {} unknown", self.unknown)
    }
}

/// Prints checks for people: a line for each, and one for what to do about it.
pub(super) fn print(checks: &[Check], output: &mut Output) {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or_default();
    for Check { name, status, seen, advice } in checks {
        output.text(format_args!("{:<8} {name:<width$}  {seen}", status.as_str()));
        if let Some(advice) = advice {
            output.text(format_args!("{:<8} {:<width$}  -> {advice}", "", ""));
        }
    }
}
