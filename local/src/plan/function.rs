//! Functions, and what invokes them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::pattern::Pattern;
use super::with_names::{by_name, with_names};

/// A function of the template.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    /// The logical id, which is also the function's name.
    pub(crate) name: String,
    /// The binary that is its bootstrap.
    pub(crate) binary: String,
    pub(crate) environment: BTreeMap<String, String>,
    /// The name of its role, and the line that gives it. Without one it may do everything.
    pub(crate) role: Option<(String, usize)>,
    /// How long one invocation may take.
    pub(crate) timeout: Duration,
    pub(crate) memory_mb: u32,
    /// What becomes of an event that nobody waits for, if the function fails or has no environment.
    pub(crate) events: EventPolicy,
    /// How many environments Lambda keeps for this function, which are also its most.
    pub(crate) reserved_concurrency: Option<u32>,
    /// The value of `AWS_LAMBDA_LOG_FORMAT`: `Text` or `JSON`.
    pub(crate) log_format: String,
    /// The least severe of its lines that Lambda passes on, if the template sets a level.
    pub(crate) log_level: Option<LogLevel>,
    /// Whether Lambda begins a trace for an invocation that brings none (`Tracing: Active`).
    pub(crate) is_traced: bool,
    pub(crate) routes: Vec<Route>,
    pub(crate) streams: Vec<StreamMapping>,
    pub(crate) schedules: Vec<Schedule>,
}

/// How Lambda delivers an event that nobody waits for (`EventInvokeConfig`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventPolicy {
    /// How often the event is tried again after a failure, twice at most.
    pub(crate) max_retries: u32,
    /// How old it may grow.
    pub(crate) max_age: Duration,
}

impl Default for EventPolicy {
    /// As Lambda does it where nobody says otherwise.
    fn default() -> Self {
        Self { max_retries: 2, max_age: Duration::from_hours(6) }
    }
}

with_names! {
    /// How severe a line of a function's log is, by Lambda's names.
    #[derive(PartialOrd, Ord)]
    pub(crate) enum LogLevel {
        Trace = "TRACE",
        Debug = "DEBUG",
        Info = "INFO",
        Warn = "WARN",
        Error = "ERROR",
        Fatal = "FATAL",
    }
}

impl LogLevel {
    /// The level of a name, in capitals or not.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        by_name(Self::NAMES, &name.to_ascii_uppercase())
    }
}

/// A method and path of the HTTP API that lead to a function.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) method: String,
    pub(crate) path: String,
    /// How long the API waits for the function.
    pub(crate) timeout: Duration,
    pub(crate) authorization: Authorization,
}

/// Whom a route lets in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Authorization {
    /// Everybody.
    None,
    /// Whoever signs requests with AWS credentials.
    Iam,
    /// Whoever has a JSON Web Token.
    Jwt(JwtAuthorizer),
}

/// Which tokens a route takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JwtAuthorizer {
    pub(crate) issuer: String,
    /// A token is for one of these.
    pub(crate) audiences: Vec<String>,
}

/// An event source mapping: how the records of a table's stream reach a function.
///
/// The defaults and ranges are those of "Lambda parameters for Amazon DynamoDB event source
/// mappings" in Lambda's developer guide.
#[derive(Clone, Debug)]
pub(crate) struct StreamMapping {
    /// The table whose stream it reads.
    pub(crate) table: String,
    pub(crate) start: StartingPosition,
    /// The most records of one invocation.
    pub(crate) batch_size: usize,
    /// How long a batch that is not full waits for further records.
    pub(crate) window: Duration,
    /// How many batches of one stream shard may be under way at once (`ParallelizationFactor`).
    pub(crate) lanes: usize,
    pub(crate) retry: RetryPolicy,
    /// Whether the function says which records failed (`ReportBatchItemFailures`).
    pub(crate) reports_failures: bool,
    /// The queue that gets a message for each discarded batch.
    pub(crate) on_failure: Option<String>,
    /// A record passes if one of these matches it. Without filters every record passes.
    pub(crate) filters: Vec<Pattern>,
    /// Whether it invokes the function at all.
    pub(crate) is_enabled: bool,
    /// Its line in the template.
    pub(crate) line: usize,
}

/// Where the first reading of a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartingPosition {
    /// At its oldest record.
    TrimHorizon,
    /// After its newest record.
    Latest,
}

/// What a mapping does about records that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetryPolicy {
    /// How often a batch is tried again before it is discarded; without it until it is too old.
    pub(crate) max_retries: Option<u32>,
    /// How old a record may be that is given to the function.
    pub(crate) max_age: Duration,
    /// Whether a batch that failed is split in two.
    pub(crate) bisect: bool,
}

/// A rule of `EventBridge` that invokes a function at equal intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// What SAM calls the rule.
    pub(crate) id: String,
    /// The first interval begins when the rule is made.
    pub(crate) interval: Duration,
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A function of that name with a timeout of 3 seconds.
    pub(crate) fn function() -> Function {
        Function {
            name: "Function".to_owned(),
            binary: "function".to_owned(),
            environment: BTreeMap::new(),
            role: None,
            timeout: Duration::from_secs(3),
            memory_mb: 128,
            events: EventPolicy::default(),
            reserved_concurrency: None,
            log_format: "Text".to_owned(),
            log_level: None,
            is_traced: false,
            routes: Vec::new(),
            streams: Vec::new(),
            schedules: Vec::new(),
        }
    }
}
