//! The events of functions: routes of the HTTP API, table streams and schedules.

use super::yaml::{Node, Problem};
use super::{ACCOUNT_ID, REGION, Resource, stream_arn};
use crate::events::{Expression, Pattern};
use std::ops::RangeInclusive;
use std::time::Duration;

/// What invokes one function.
#[derive(Debug, Default)]
pub(super) struct FunctionEvents {
    pub(super) routes: Vec<Route>,
    pub(super) streams: Vec<StreamMapping>,
    pub(super) schedules: Vec<Schedule>,
}

impl FunctionEvents {
    /// Reads the events of a function; those that are disabled are left out.
    pub(super) fn read(function: &Resource) -> Result<Self, Problem> {
        let mut read = Self::default();
        let Some(events) = function.properties.get("Events") else {
            return Ok(read);
        };
        for (name, event) in events.entries(&format!("Events of {}", function.what))? {
            let what = &format!("event {name} of {}", function.id);
            event.only(what, &["Type", "Properties"])?;
            let kind = event.require("Type", what)?;
            let properties = event.require("Properties", what)?;
            // SAM names the resources of an event so.
            let id = format!("{}{name}", function.id);
            match kind.as_text(&format!("Type of {what}"))? {
                "HttpApi" => read.routes.push(Route::read(properties, what, event.line)?),
                "DynamoDB" => read.streams.extend(StreamMapping::read(properties, what)?),
                "Schedule" => read.schedules.extend(Schedule::read_rule(id, properties, what)?),
                "ScheduleV2" => {
                    read.schedules.extend(Schedule::read_scheduler(id, properties, what)?);
                }
                unknown => {
                    let text =
                        format!("the local stack does not know the event type {unknown} of {what}");
                    return Err(Problem::at(kind.line, text));
                }
            }
        }
        Ok(read)
    }
}

/// A method and path of the HTTP API that lead to a function.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) method: String,
    pub(crate) path: String,
    /// How long the API waits for the function.
    pub(crate) timeout: Duration,
    pub(super) api: String,
    pub(super) line: usize,
}

impl Route {
    /// A route of no template.
    #[cfg(test)]
    pub(crate) fn new(method: &str, path: &str, timeout: Duration) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            timeout,
            api: String::new(),
            line: 1,
        }
    }

    fn read(properties: &Node, what: &str, line: usize) -> Result<Self, Problem> {
        properties.only(
            what,
            &["ApiId", "Auth", "Method", "Path", "PayloadFormatVersion", "TimeoutInMillis"],
        )?;
        let text =
            |name: &str| properties.require(name, what)?.as_text(&format!("{name} of {what}"));
        let method = text("Method")?.to_ascii_uppercase();
        let path = text("Path")?;
        if method == "ANY" || path.contains(['{', '$']) {
            let text = format!(
                "the local stack knows routes of one method and a fixed path only, not {method} \
                 {path}"
            );
            return Err(Problem::at(properties.line, text));
        }
        if let Some(version) = properties.get("PayloadFormatVersion")
            && version.as_text("PayloadFormatVersion")? != "2.0"
        {
            let text = format!("the local stack knows the payload format 2.0 only, at {what}");
            return Err(Problem::at(version.line, text));
        }
        let timeout_ms = match properties.get("TimeoutInMillis") {
            Some(node) => node.as_number(&format!("TimeoutInMillis of {what}"))?,
            None => 30_000,
        };
        Ok(Self {
            method,
            path: path.to_owned(),
            timeout: Duration::from_millis(timeout_ms.into()),
            api: text("ApiId")?.to_owned(),
            line,
        })
    }
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
    /// The queue that hears of discarded records.
    pub(crate) on_failure: Option<String>,
    /// A record passes that one of these matches. None at all let everything pass.
    pub(crate) filters: Vec<Pattern>,
    /// Where it stands in the template.
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

impl StreamMapping {
    fn read(properties: &Node, what: &str) -> Result<Option<Self>, Problem> {
        properties.only(
            what,
            &[
                "BatchSize",
                "BisectBatchOnFunctionError",
                "DestinationConfig",
                "Enabled",
                "FilterCriteria",
                "FunctionResponseTypes",
                "MaximumBatchingWindowInSeconds",
                "MaximumRecordAgeInSeconds",
                "MaximumRetryAttempts",
                "ParallelizationFactor",
                "StartingPosition",
                "Stream",
            ],
        )?;
        let flag = |name: &str, default: bool| {
            let node = properties.get(name);
            node.map_or(Ok(default), |node| node.as_bool(&format!("{name} of {what}")))
        };
        let number =
            |name: &str, default: i32, range: RangeInclusive<i32>| match properties.get(name) {
                Some(node) => node.as_number_in(&format!("{name} of {what}"), range),
                None => Ok(default),
            };
        let count = |name: &str, default: i32, range: RangeInclusive<i32>| {
            // The ranges of counts begin at 0 or 1.
            Ok(usize::try_from(number(name, default, range)?).unwrap_or_default())
        };
        let secs = |secs: i32| Duration::from_secs(u64::try_from(secs).unwrap_or_default());
        let mapping = Self {
            table: source_table(properties.require("Stream", what)?, what)?,
            start: starting_position(properties.require("StartingPosition", what)?, what)?,
            batch_size: count("BatchSize", 100, 1..=10_000)?,
            window: secs(number("MaximumBatchingWindowInSeconds", 0, 0..=300)?),
            lanes: count("ParallelizationFactor", 1, 1..=10)?,
            retry: RetryPolicy {
                // -1 stands for no limit.
                max_retries: u32::try_from(number("MaximumRetryAttempts", -1, -1..=10_000)?).ok(),
                max_age: match number("MaximumRecordAgeInSeconds", -1, -1..=604_800)? {
                    -1 => RETENTION,
                    age => secs(age).min(RETENTION),
                },
                bisect: flag("BisectBatchOnFunctionError", false)?,
            },
            reports_failures: reports_failures(properties, what)?,
            on_failure: failure_queue(properties, what)?,
            filters: filters(properties, what)?,
            line: properties.line,
        };
        Ok(flag("Enabled", true)?.then_some(mapping))
    }
}

/// A function invoked by the time.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// What SAM calls the rule or schedule.
    pub(crate) id: String,
    pub(crate) scheduler: Scheduler,
    pub(crate) expression: Expression,
    /// The whole event, where the template gives one.
    pub(crate) input: Option<String>,
}

/// The service that keeps a schedule: their events differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduler {
    /// A rule of `EventBridge` (`Schedule`).
    Rule,
    /// `EventBridge` Scheduler (`ScheduleV2`).
    Scheduler,
}

impl Schedule {
    fn read_rule(id: String, properties: &Node, what: &str) -> Result<Option<Self>, Problem> {
        properties.only(what, &["Description", "Enabled", "Input", "Name", "Schedule", "State"])?;
        let schedule = Self {
            id,
            scheduler: Scheduler::Rule,
            expression: expression(properties.require("Schedule", what)?, what)?,
            input: input(properties, what)?,
        };
        let enabled = match properties.get("Enabled") {
            Some(node) => node.as_bool(&format!("Enabled of {what}"))?,
            None => is_enabled(properties, what)?,
        };
        Ok(enabled.then_some(schedule))
    }

    fn read_scheduler(id: String, properties: &Node, what: &str) -> Result<Option<Self>, Problem> {
        properties.only(
            what,
            &[
                "Description",
                "FlexibleTimeWindow",
                "Input",
                "Name",
                "OmitName",
                "PermissionsBoundary",
                "RoleArn",
                "ScheduleExpression",
                "ScheduleExpressionTimezone",
                "State",
            ],
        )?;
        let only = |node: Option<&Node>, name: &str, known: &str| match node {
            Some(node) if node.as_text(&format!("{name} of {what}"))? != known => {
                let text = format!("the local stack knows the {name} {known} only, at {what}");
                Err(Problem::at(node.line, text))
            }
            _ => Ok(()),
        };
        only(properties.get("ScheduleExpressionTimezone"), "ScheduleExpressionTimezone", "UTC")?;
        let window = properties.get("FlexibleTimeWindow");
        only(window.and_then(|window| window.get("Mode")), "Mode of FlexibleTimeWindow", "OFF")?;
        let schedule = Self {
            id,
            scheduler: Scheduler::Scheduler,
            expression: expression(properties.require("ScheduleExpression", what)?, what)?,
            input: input(properties, what)?,
        };
        Ok(is_enabled(properties, what)?.then_some(schedule))
    }
}

/// How long a stream keeps its records: "Data retention limit for DynamoDB Streams" in DynamoDB's
/// developer guide. No record is given to a function later, whatever the mapping says.
const RETENTION: Duration = Duration::from_hours(24);

fn source_table(stream: &Node, what: &str) -> Result<String, Problem> {
    let arn = stream.as_text(&format!("Stream of {what}"))?;
    let name = arn.split('/').nth(1).unwrap_or_default();
    if arn == stream_arn(name, "local") {
        return Ok(name.to_owned());
    }
    let text = format!("Stream of {what} must be !GetAtt Table.StreamArn of a table here");
    Err(Problem::at(stream.line, text))
}

fn starting_position(node: &Node, what: &str) -> Result<StartingPosition, Problem> {
    match node.as_text(&format!("StartingPosition of {what}"))? {
        "TRIM_HORIZON" => Ok(StartingPosition::TrimHorizon),
        "LATEST" => Ok(StartingPosition::Latest),
        other => {
            let text =
                format!("StartingPosition of {what} is TRIM_HORIZON or LATEST, and not {other}");
            Err(Problem::at(node.line, text))
        }
    }
}

fn reports_failures(properties: &Node, what: &str) -> Result<bool, Problem> {
    let Some(node) = properties.get("FunctionResponseTypes") else {
        return Ok(false);
    };
    let what = format!("FunctionResponseTypes of {what}");
    let types = node.items(&what)?;
    for kind in types {
        if kind.as_text(&what)? != "ReportBatchItemFailures" {
            return Err(Problem::at(
                kind.line,
                format!("{what} knows ReportBatchItemFailures only"),
            ));
        }
    }
    Ok(!types.is_empty())
}

fn failure_queue(properties: &Node, what: &str) -> Result<Option<String>, Problem> {
    let Some(config) = properties.get("DestinationConfig") else {
        return Ok(None);
    };
    let what = &format!("DestinationConfig of {what}");
    config.only(what, &["OnFailure"])?;
    let on_failure = config.require("OnFailure", what)?;
    on_failure.only(what, &["Destination", "Type"])?;
    let destination = on_failure.require("Destination", what)?;
    let prefix = format!("arn:aws:sqs:{REGION}:{ACCOUNT_ID}:");
    let Some(queue) = destination.as_text(what)?.strip_prefix(&prefix) else {
        let text = format!("{what} must be !GetAtt Queue.Arn of a queue here");
        return Err(Problem::at(destination.line, text));
    };
    Ok(Some(queue.to_owned()))
}

fn filters(properties: &Node, what: &str) -> Result<Vec<Pattern>, Problem> {
    let Some(criteria) = properties.get("FilterCriteria") else {
        return Ok(Vec::new());
    };
    let what = &format!("FilterCriteria of {what}");
    criteria.only(what, &["Filters"])?;
    let filters = criteria.require("Filters", what)?.items(what)?.iter();
    filters
        .map(|filter| {
            filter.only(what, &["Pattern"])?;
            let pattern = filter.require("Pattern", what)?;
            Pattern::parse(pattern.as_text(what)?)
                .map_err(|problem| Problem::at(pattern.line, format!("{what}: {problem}")))
        })
        .collect()
}

fn expression(node: &Node, what: &str) -> Result<Expression, Problem> {
    Expression::parse(node.as_text(&format!("the schedule of {what}"))?)
        .map_err(|problem| Problem::at(node.line, format!("the schedule of {what}: {problem}")))
}

fn input(properties: &Node, what: &str) -> Result<Option<String>, Problem> {
    let Some(node) = properties.get("Input") else {
        return Ok(None);
    };
    let text = node.as_text(&format!("Input of {what}"))?;
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => Ok(Some(text.to_owned())),
        Err(error) => {
            Err(Problem::at(node.line, format!("Input of {what} is not valid JSON: {error}")))
        }
    }
}

fn is_enabled(properties: &Node, what: &str) -> Result<bool, Problem> {
    let Some(node) = properties.get("State") else {
        return Ok(true);
    };
    match node.as_text(&format!("State of {what}"))? {
        "ENABLED" => Ok(true),
        "DISABLED" => Ok(false),
        other => {
            let text = format!("State of {what} is ENABLED or DISABLED, and not {other}");
            Err(Problem::at(node.line, text))
        }
    }
}
