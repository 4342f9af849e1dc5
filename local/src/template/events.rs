//! The events of functions: table streams, whether a function or a resource of its own says so, and schedules.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::named::Named;
use super::resource::Resource;
use super::yaml::Problem;
use crate::plan::{
    ACCOUNT_ID, Pattern, REGION, RetryPolicy, Schedule, StartingPosition, StreamMapping, stream_arn,
};

/// Reads the streams and the schedules that invoke a function.
pub(super) fn events(
    function: &Resource,
    properties: &Named<'_>,
) -> Result<(Vec<StreamMapping>, Vec<Schedule>), Problem> {
    let (mut streams, mut schedules) = (Vec::new(), Vec::new());
    let Some(events) = properties.get("Events") else { return Ok((streams, schedules)) };
    for (name, event) in events.node.entries(&events.what)? {
        let what = format!("event {name} of {}", function.id);
        let event = Named::of(event, what.clone(), "Type Properties")?;
        let properties = Named { what, ..event.require("Properties")? };
        // SAM names the resource of an event like this.
        let id = format!("{}{name}", function.id);
        let kind = event.require("Type")?;
        match kind.text()? {
            "DynamoDB" => {
                let properties = properties.only(&[STREAM_PROPERTIES, "Stream"].join(" "))?;
                streams.push(stream_mapping(properties, "Stream")?);
            }
            "Schedule" => schedules.push(schedule(id, &properties)?),
            unknown => {
                let what = event.what;
                return Err(kind.problem(format!(
                    "the local stack does not know the event type {unknown} of {what}"
                )));
            }
        }
    }
    Ok((streams, schedules))
}

/// Reads a mapping that is a resource of its own: by which name of a function it is.
pub(super) fn mapping(resource: &Resource) -> Result<(String, StreamMapping), Problem> {
    let properties =
        resource.properties(&[STREAM_PROPERTIES, "EventSourceArn FunctionName"].join(" "))?;
    let name = properties.require("FunctionName")?.owned()?;
    Ok((name, stream_mapping(&properties, "EventSourceArn")?))
}

/// Reads an alias of a function, which stands for the function as it is.
pub(super) fn alias(resource: &Resource) -> Result<String, Problem> {
    let properties = resource.properties("Description FunctionName FunctionVersion Name")?;
    properties.require("FunctionVersion")?.choice(&[("$LATEST", ())])?;
    properties.require("FunctionName")?.owned()
}

/// What a mapping may say beside its source.
const STREAM_PROPERTIES: &str = "BatchSize BisectBatchOnFunctionError DestinationConfig Enabled FilterCriteria \
    FunctionResponseTypes MaximumBatchingWindowInSeconds MaximumRecordAgeInSeconds \
    MaximumRetryAttempts ParallelizationFactor StartingPosition";

fn stream_mapping(properties: &Named<'_>, source: &str) -> Result<StreamMapping, Problem> {
    let flag =
        |name: &str, default: bool| Ok(properties.optional(name, Named::flag)?.unwrap_or(default));
    let number = |name: &str, default: i32, range: RangeInclusive<i32>| {
        let given = properties.optional(name, |node| node.number_in(range))?;
        Ok::<_, Problem>(given.unwrap_or(default))
    };
    let count = |name: &str, default: i32, range: RangeInclusive<i32>| {
        // The ranges of counts begin at 0 or 1.
        Ok(usize::try_from(number(name, default, range)?).unwrap_or_default())
    };
    let secs = |secs: i32| Duration::from_secs(u64::try_from(secs).unwrap_or_default());
    let positions =
        [("TRIM_HORIZON", StartingPosition::TrimHorizon), ("LATEST", StartingPosition::Latest)];
    Ok(StreamMapping {
        is_enabled: flag("Enabled", true)?,
        table: source_table(&properties.require(source)?)?,
        start: properties.require("StartingPosition")?.choice(&positions)?,
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
        reports_failures: properties
            .optional("FunctionResponseTypes", reports_failures)?
            .unwrap_or(false),
        on_failure: properties.optional("DestinationConfig", failure_queue)?,
        filters: properties.optional("FilterCriteria", filters)?.unwrap_or_default(),
        line: properties.line(),
    })
}

fn schedule(id: String, properties: &Named<'_>) -> Result<Schedule, Problem> {
    let schedule = properties.only("Description Name Schedule")?.require("Schedule")?;
    let text = schedule.text()?;
    let interval = rate(text).ok_or_else(|| {
        schedule.problem(format!(
            "{}: the local stack knows rates only, such as rate(1 minute), rate(5 minutes), \
             rate(2 hours) or rate(1 day), not {text}",
            schedule.what
        ))
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

fn source_table(stream: &Named<'_>) -> Result<String, Problem> {
    let arn = stream.text()?;
    let name = arn.split('/').nth(1).unwrap_or_default();
    if arn == stream_arn(name, "local") {
        return Ok(name.to_owned());
    }
    let what = &stream.what;
    Err(stream.problem(format!("{what} must be !GetAtt Table.StreamArn of a table here")))
}

fn reports_failures(types: &Named<'_>) -> Result<bool, Problem> {
    let types = types.items()?;
    types.iter().try_for_each(|kind| kind.choice(&[("ReportBatchItemFailures", ())]))?;
    Ok(!types.is_empty())
}

fn failure_queue(config: &Named<'_>) -> Result<String, Problem> {
    let config = config.only("OnFailure")?.require("OnFailure")?;
    let destination = config.only("Destination Type")?.require("Destination")?;
    let prefix = format!("arn:aws:sqs:{REGION}:{ACCOUNT_ID}:");
    destination.text()?.strip_prefix(&prefix).map(str::to_owned).ok_or_else(|| {
        let what = &destination.what;
        destination.problem(format!("{what} must be !GetAtt Queue.Arn of a queue here"))
    })
}

fn filters(criteria: &Named<'_>) -> Result<Vec<Pattern>, Problem> {
    let filters = criteria.only("Filters")?.require("Filters")?.items()?;
    let pattern = |filter: Named<'_>| {
        let pattern = filter.only("Pattern")?.require("Pattern")?;
        Pattern::parse(pattern.text()?)
            .map_err(|problem| pattern.problem(format!("{}: {problem}", criteria.what)))
    };
    filters.into_iter().map(pattern).collect()
}
