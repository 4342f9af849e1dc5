//! Functions.

use super::events::FunctionEvents;
use super::resource::Resource;
use super::yaml::Problem;
use crate::plan::{EventPolicy, Function, LogLevel};
use std::collections::BTreeMap;
use std::time::Duration;

/// A function, without its routes.
pub(super) fn function(resource: Resource) -> Result<Function, Problem> {
    let what = &resource.what;
    let properties = &resource.properties;
    properties.only(
        what,
        &[
            "Architectures",
            "CodeUri",
            "Description",
            "Environment",
            "EventInvokeConfig",
            "Events",
            "Handler",
            "LoggingConfig",
            "MemorySize",
            "Policies",
            // Where a function calls itself is not looked for here.
            "RecursiveLoop",
            "ReservedConcurrentExecutions",
            "Role",
            "Runtime",
            "Tags",
            "Timeout",
            "Tracing",
        ],
    )?;
    let runtime = properties.require("Runtime", what)?;
    if runtime.as_text("Runtime")? != RUNTIME {
        let text = format!("the local stack runs functions of the runtime {RUNTIME} only");
        return Err(Problem::at(runtime.line, text));
    }
    // The defaults are Lambda's.
    let number = |name: &str, default: u32| {
        let node = properties.get(name);
        node.map_or(Ok(default), |node| node.as_number(&format!("{name} of {what}")))
    };
    let timeout_secs = number("Timeout", 3)?;
    if timeout_secs == 0 {
        let text = format!("Timeout of {what} must be at least one second");
        return Err(Problem::at(properties.line, text));
    }
    let FunctionEvents { streams, schedules } = FunctionEvents::read(&resource)?;
    Ok(Function {
        binary: binary(&resource)?,
        environment: variables(&resource)?,
        role: role(&resource)?,
        log_format: log_setting(&resource, "LogFormat")?.map_or("Text", |(of, _)| of).to_owned(),
        log_level: log_level(&resource)?,
        timeout: Duration::from_secs(timeout_secs.into()),
        memory_mb: number("MemorySize", 128)?,
        events: event_policy(&resource)?,
        reserved_concurrency: properties
            .get("ReservedConcurrentExecutions")
            .map(|node| node.as_number(&format!("ReservedConcurrentExecutions of {what}")))
            .transpose()?,
        is_traced: is_traced(&resource)?,
        routes: Vec::new(),
        streams,
        schedules,
        name: resource.id,
    })
}

/// How often and for how long an event is tried that nobody waits for. The ranges are Lambda's.
fn event_policy(resource: &Resource) -> Result<EventPolicy, Problem> {
    let what = format!("EventInvokeConfig of {}", resource.what);
    let mut policy = EventPolicy::default();
    let Some(config) = resource.properties.get("EventInvokeConfig") else { return Ok(policy) };
    config.only(&what, &["MaximumEventAgeInSeconds", "MaximumRetryAttempts"])?;
    if let Some(node) = config.get("MaximumEventAgeInSeconds") {
        let name = format!("MaximumEventAgeInSeconds in the {what}");
        let secs = node.as_number_in(&name, 60..=21_600)?;
        policy.max_age = Duration::from_secs(secs.unsigned_abs().into());
    }
    if let Some(node) = config.get("MaximumRetryAttempts") {
        let name = format!("MaximumRetryAttempts in the {what}");
        policy.max_retries = node.as_number_in(&name, 0..=2)?.unsigned_abs();
    }
    Ok(policy)
}

/// A text of the function's logging configuration, and its line.
fn log_setting<'a>(
    resource: &'a Resource,
    name: &str,
) -> Result<Option<(&'a str, usize)>, Problem> {
    let logging = resource.properties.get("LoggingConfig");
    let Some(node) = logging.and_then(|logging| logging.get(name)) else { return Ok(None) };
    Ok(Some((node.as_text(&format!("{name} of {}", resource.what))?, node.line)))
}

/// The least severe lines that Lambda passes on.
fn log_level(resource: &Resource) -> Result<Option<LogLevel>, Problem> {
    const NAME: &str = "ApplicationLogLevel";
    let Some((text, line)) = log_setting(resource, NAME)? else { return Ok(None) };
    let level = LogLevel::parse(text).ok_or_else(|| {
        let what = &resource.what;
        Problem::at(
            line,
            format!("{NAME} of {what} is TRACE, DEBUG, INFO, WARN, ERROR or FATAL, not {text}"),
        )
    })?;
    Ok(Some(level))
}

/// Whether Lambda begins traces itself.
fn is_traced(resource: &Resource) -> Result<bool, Problem> {
    let Some(node) = resource.properties.get("Tracing") else { return Ok(false) };
    match node.as_text("Tracing")? {
        "Active" => Ok(true),
        "PassThrough" => Ok(false),
        other => {
            let text =
                format!("Tracing of {} is Active or PassThrough, not {other}", resource.what);
            Err(Problem::at(node.line, text))
        }
    }
}

/// The name of the role whose ARN the function has.
fn role(resource: &Resource) -> Result<Option<(String, usize)>, Problem> {
    let Some(node) = resource.properties.get("Role") else { return Ok(None) };
    let arn = node.as_text(&format!("Role of {}", resource.what))?;
    let name = arn.rsplit_once(":role/").map_or(arn, |(_, name)| name);
    Ok(Some((name.to_owned(), node.line)))
}

const RUNTIME: &str = "provided.al2023";

fn binary(resource: &Resource) -> Result<String, Problem> {
    let what = format!("Metadata of {}", resource.what);
    let method = resource.metadata.require("BuildMethod", &what)?;
    if method.as_text("BuildMethod")? != "rust-cargolambda" {
        let text = format!(
            "the local stack builds functions with rust-cargolambda only, not {}",
            resource.what
        );
        return Err(Problem::at(method.line, text));
    }
    let build = resource.metadata.require("BuildProperties", &what)?;
    let binary = build.require("Binary", &format!("BuildProperties of {}", resource.what))?;
    binary.as_text("Binary").map(str::to_owned)
}

fn variables(resource: &Resource) -> Result<BTreeMap<String, String>, Problem> {
    let what = format!("Environment of {}", resource.what);
    let Some(environment) = resource.properties.get("Environment") else {
        return Ok(BTreeMap::new());
    };
    environment.only(&what, &["Variables"])?;
    let variables = environment.require("Variables", &what)?;
    variables
        .entries(&what)?
        .iter()
        .map(|(name, node)| Ok((name.clone(), node.as_text(name)?.to_owned())))
        .collect()
}
