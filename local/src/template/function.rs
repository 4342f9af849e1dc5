//! Functions.

use std::collections::BTreeMap;
use std::time::Duration;

use super::events::events;
use super::named::Named;
use super::resource::Resource;
use super::yaml::Problem;
use crate::plan::{EventPolicy, Function, LogLevel};

/// What a function may say. Where one calls itself is not looked for here.
const PROPERTIES: &str = "Architectures CodeUri Description Environment EventInvokeConfig Events Handler \
    LoggingConfig MemorySize Policies RecursiveLoop ReservedConcurrentExecutions Role \
    Runtime Tags Timeout Tracing";

/// A function, without its routes. The defaults are Lambda's.
pub(super) fn function(resource: &Resource) -> Result<Function, Problem> {
    let properties = resource.properties(PROPERTIES)?;
    properties.require("Runtime")?.choice(&[("provided.al2023", ())])?;
    let within = |name: &str, range, usual: u32| {
        let number = properties.optional(name, |node| node.number_in(range))?;
        Ok::<_, Problem>(number.map_or(usual, i32::unsigned_abs))
    };
    // The ranges are Lambda's, too.
    let timeout_secs = within("Timeout", 1..=900, 3)?;
    let memory_mb = within("MemorySize", 128..=10_240, 128)?;
    let (streams, schedules) = events(resource, &properties)?;
    let logging = properties.get("LoggingConfig");
    let logging = |name: &str| logging.as_ref().and_then(|logging| logging.get(name));
    let traces = [("Active", true), ("PassThrough", false)];
    let is_traced = properties.optional("Tracing", |tracing| tracing.choice(&traces))?;
    Ok(Function {
        binary: binary(resource)?,
        environment: variables(&properties)?,
        role: properties.optional("Role", role)?,
        log_format: logging("LogFormat").map_or(Ok("Text".to_owned()), |it| it.owned())?,
        log_level: logging("ApplicationLogLevel").map(|it| log_level(&it)).transpose()?,
        timeout: Duration::from_secs(timeout_secs.into()),
        memory_mb,
        events: event_policy(&properties)?,
        reserved_concurrency: properties.optional("ReservedConcurrentExecutions", Named::number)?,
        is_traced: is_traced.unwrap_or(false),
        routes: Vec::new(),
        streams,
        schedules,
        name: resource.id.clone(),
    })
}

/// How often and for how long an event is tried that nobody waits for. The ranges are Lambda's.
fn event_policy(properties: &Named<'_>) -> Result<EventPolicy, Problem> {
    let mut policy = EventPolicy::default();
    let Some(config) = properties.get("EventInvokeConfig") else { return Ok(policy) };
    let config = config.only("MaximumEventAgeInSeconds MaximumRetryAttempts")?;
    let within = |name: &str, range| config.optional(name, |node| node.number_in(range));
    if let Some(secs) = within("MaximumEventAgeInSeconds", 60..=21_600)? {
        policy.max_age = Duration::from_secs(secs.unsigned_abs().into());
    }
    if let Some(retries) = within("MaximumRetryAttempts", 0..=2)? {
        policy.max_retries = retries.unsigned_abs();
    }
    Ok(policy)
}

/// The least severe lines that Lambda passes on.
fn log_level(level: &Named<'_>) -> Result<LogLevel, Problem> {
    LogLevel::parse(level.text()?).map_or_else(|| level.choice(LogLevel::NAMES), Ok)
}

/// The name of the role whose ARN the function has, and its line.
fn role(node: &Named<'_>) -> Result<(String, usize), Problem> {
    let arn = node.text()?;
    let name = arn.rsplit_once(":role/").map_or(arn, |(_, name)| name);
    Ok((name.to_owned(), node.line()))
}

fn binary(resource: &Resource) -> Result<String, Problem> {
    let metadata = resource.metadata();
    metadata.require("BuildMethod")?.choice(&[("rust-cargolambda", ())])?;
    metadata.require("BuildProperties")?.require("Binary")?.owned()
}

fn variables(properties: &Named<'_>) -> Result<BTreeMap<String, String>, Problem> {
    let Some(environment) = properties.get("Environment") else { return Ok(BTreeMap::new()) };
    let variables = environment.only("Variables")?.require("Variables")?;
    let entries = variables.node.entries(&variables.what)?.iter();
    entries.map(|(name, node)| Ok((name.clone(), node.as_text(name)?.to_owned()))).collect()
}
