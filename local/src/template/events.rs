//! The events of functions: table streams and schedules.

use super::resource::Resource;
use super::yaml::{Node, Problem};
use crate::plan::{
    ACCOUNT_ID, Pattern, REGION, RetryPolicy, Schedule, StartingPosition, StreamMapping, stream_arn,
};
use std::ops::RangeInclusive;
use std::time::Duration;

/// What invokes one function, but for the HTTP API.
#[derive(Debug, Default)]
pub(super) struct FunctionEvents {
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
            // SAM names the resource of an event like this.
            let id = format!("{}{name}", function.id);
            match kind.as_text(&format!("Type of {what}"))? {
                "DynamoDB" => read.streams.extend(stream_mapping(properties, what)?),
                "Schedule" => read.schedules.push(schedule(id, properties, what)?),
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

fn stream_mapping(properties: &Node, what: &str) -> Result<Option<StreamMapping>, Problem> {
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
    let number = |name: &str, default: i32, range: RangeInclusive<i32>| match properties.get(name) {
        Some(node) => node.as_number_in(&format!("{name} of {what}"), range),
        None => Ok(default),
    };
    let count = |name: &str, default: i32, range: RangeInclusive<i32>| {
        // The ranges of counts begin at 0 or 1.
        Ok(usize::try_from(number(name, default, range)?).unwrap_or_default())
    };
    let secs = |secs: i32| Duration::from_secs(u64::try_from(secs).unwrap_or_default());
    let mapping = StreamMapping {
        table: source_table(properties.require("Stream", what)?, what)?,
        start: starting_position(properties.require("StartingPosition", what)?, what)?,
        batch_size: count("BatchSize", 100, 1..=10_000)?,
        window: secs(number("MaximumBatchingWindowInSeconds", 0, 0..=300)?),
        lanes: count("ParallelizationFactor", 1, 1..=10)?,
        retry: RetryPolicy {
            // -1 means no limit.
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

fn schedule(id: String, properties: &Node, what: &str) -> Result<Schedule, Problem> {
    properties.only(what, &["Description", "Name", "Schedule"])?;
    let expression = properties.require("Schedule", what)?;
    let what = &format!("Schedule of {what}");
    let text = expression.as_text(what)?;
    let interval = rate(text).ok_or_else(|| {
        let text = format!(
            "{what}: the local stack knows rates only, such as rate(1 minute), rate(5 minutes), \
             rate(2 hours) or rate(1 day), not {text}"
        );
        Problem::at(expression.line, text)
    })?;
    Ok(Schedule { id, interval })
}

/// The interval of `rate(5 minutes)`: the unit of one is singular, that of more is plural ("Rate
/// expressions" in `EventBridge`'s user guide).
fn rate(text: &str) -> Option<Duration> {
    let (value, unit) = text.strip_prefix("rate(")?.strip_suffix(')')?.split_once(' ')?;
    let value: u32 = value.parse().ok().filter(|value| *value > 0)?;
    let unit = match if value == 1 { unit } else { unit.strip_suffix('s')? } {
        "minute" => Duration::from_mins(1),
        "hour" => Duration::from_hours(1),
        "day" => Duration::from_hours(24),
        _ => return None,
    };
    unit.checked_mul(value)
}

/// How long a stream keeps its records: "Data retention limit for DynamoDB Streams" in DynamoDB's
/// developer guide. A function gets no older record, whatever the mapping says.
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
            let text = format!("StartingPosition of {what} is TRIM_HORIZON or LATEST, not {other}");
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
