//! The SAM template, read into what the stack acts on.
//!
//! The stack runs from the template that is deployed, so that the two cannot drift apart. That
//! works only if nothing in the template is silently without effect: a resource type, property,
//! event or intrinsic that the stack neither acts on nor lists below as without effect on one
//! machine is an error that names it.

mod alarms;
mod events;
mod intrinsics;
mod parameters;
#[cfg(test)]
mod tests;
mod yaml;

use crate::StartError;
use crate::plan::{Alarm, Function, InsightsMode, Plan, Table};
use events::FunctionEvents;
use intrinsics::Scope;
use parameters::Parameter;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use yaml::{Node, Problem, Value};

/// Where a template comes from.
#[derive(Clone, Debug)]
pub enum TemplateSource {
    /// A file.
    Path(PathBuf),
    /// A text that the program carries.
    Text {
        /// What errors call it, such as `template.yaml`.
        name: String,
        /// The template itself.
        text: String,
    },
}

/// Reads a template and gives its parameters the values of `overrides`, pairs of a name and a
/// value.
///
/// # Errors
/// [`StartError::Template`] where the template cannot be read, parsed or run on one machine,
/// and [`StartError::Parameter`] where an override is unknown or not allowed.
pub fn load_template(
    source: &TemplateSource,
    overrides: &[(String, String)],
) -> Result<Plan, StartError> {
    let (name, text) = match source {
        TemplateSource::Text { name, text } => (name.clone(), text.clone()),
        TemplateSource::Path(path) => {
            let name = path.display().to_string();
            let text = fs::read_to_string(path).map_err(|error| {
                StartError::template(&name, None, format!("cannot be read: {error}"))
            })?;
            (name, text)
        }
    };
    let located = |problem: Problem| StartError::template(&name, problem.line, problem.text);
    let root = Node::parse(&text).map_err(located)?;
    let declared = declared_parameters(&root).map_err(located)?;
    let parameters = parameters::values(&declared, overrides, &name)?;
    read(&root, parameters).map_err(located)
}

fn read(root: &Node, parameters: BTreeMap<String, String>) -> Result<Plan, Problem> {
    root.only("the template", &SECTIONS)?;
    let transform = root.require("Transform", "the template")?;
    if transform.as_text("Transform")? != TRANSFORM {
        let text = format!("the local stack runs templates with the transform {TRANSFORM} only");
        return Err(Problem::at(transform.line, text));
    }
    let resources = root.require("Resources", "the template")?;
    let mut types = BTreeMap::new();
    for (id, node) in resources.entries("Resources")? {
        let kind = node.require("Type", id)?.as_text(&format!("Type of {id}"))?;
        types.insert(id.clone(), kind.to_owned());
    }
    let scope =
        Scope { parameters: &parameters, resources: &types, conditions: root.get("Conditions") };
    let globals = global_properties(root, &scope)?;
    let mut tables = Vec::new();
    let mut queues = Vec::new();
    let mut functions = Vec::new();
    let mut apis = Vec::new();
    let mut alarms: Vec<Alarm> = Vec::new();
    let mut permissions = Vec::new();
    for (id, node) in resources.entries("Resources")? {
        if let Some(condition) = node.get("Condition") {
            let name = condition.as_text(&format!("Condition of {id}"))?;
            if !scope.holds(name, condition.line)? {
                continue;
            }
        }
        let resource = Resource::read(id, node, &scope)?;
        match types[id].as_str() {
            "AWS::DynamoDB::Table" => tables.push(table(&resource)?),
            "AWS::SQS::Queue" => queues.push(queue(resource)?),
            FUNCTION => {
                functions.push(function(resource.with_defaults(&globals.function))?);
            }
            "AWS::Serverless::HttpApi" => {
                check_api(&resource.with_defaults(&globals.api))?;
                apis.push(id.as_str());
            }
            ALARM => {
                let alarm = alarms::alarm(&resource, &scope)?;
                if alarms.iter().any(|other| other.name == alarm.name) {
                    let text = format!("two alarms have the name {}", alarm.name);
                    return Err(Problem::at(node.line, text));
                }
                alarms.push(alarm);
            }
            "AWS::Lambda::Permission" => {
                permissions.push(alarms::permission(&resource, &scope)?);
            }
            kind if WITHOUT_EFFECT.contains(&kind) => {}
            kind => {
                let text =
                    format!("the local stack does not know the resource type {kind} of {id}");
                return Err(Problem::at(node.line, text));
            }
        }
    }
    check_routes(&functions, &apis)?;
    check_streams(&functions, &tables, &queues)?;
    if let Some(outputs) = root.get("Outputs") {
        scope.resolve(outputs)?;
    }
    Ok(Plan { parameters, tables, queues, functions, alarms, permissions })
}

fn table(resource: &Resource) -> Result<Table, Problem> {
    let mut request = json!({ "TableName": resource.id });
    let mut insights = None;
    for (name, node) in resource.properties.entries(&resource.what)? {
        match name.as_str() {
            "AttributeDefinitions"
            | "KeySchema"
            | "BillingMode"
            | "DeletionProtectionEnabled"
            | "GlobalSecondaryIndexes"
            | "LocalSecondaryIndexes"
            | "ProvisionedThroughput" => {
                request[name] = node.to_json();
            }
            "StreamSpecification" => {
                request[name] = node.to_json();
                // CreateTable wants it said, where CloudFormation takes it from the view type.
                request[name]["StreamEnabled"] = true.into();
            }
            "ContributorInsightsSpecification" => insights = insights_mode(node)?,
            "PointInTimeRecoverySpecification" | "SSESpecification" | "Tags" => {}
            _ => return Err(resource.unknown_property(name, node)),
        }
    }
    Ok(Table { name: resource.id.clone(), create_request: request, insights })
}

/// `CloudFormation` enables every key where no mode is named, as DynamoDB does.
fn insights_mode(specification: &Node) -> Result<Option<InsightsMode>, Problem> {
    const WHAT: &str = "ContributorInsightsSpecification";
    specification.only(WHAT, &["Enabled", "Mode"])?;
    let mode =
        specification.get("Mode").map_or(Ok(InsightsMode::AccessedAndThrottledKeys), |node| {
            let name = node.as_text("Mode")?;
            InsightsMode::parse(name).ok_or_else(|| {
                let text = format!(
                    "Mode of {WHAT} is ACCESSED_AND_THROTTLED_KEYS or THROTTLED_KEYS, not {name}"
                );
                Problem::at(node.line, text)
            })
        })?;
    let is_enabled = specification.require("Enabled", WHAT)?.as_bool("Enabled")?;
    Ok(is_enabled.then_some(mode))
}

fn function(resource: Resource) -> Result<Function, Problem> {
    let what = &resource.what;
    let properties = &resource.properties;
    properties.only(
        what,
        &[
            "Architectures",
            "CodeUri",
            "Description",
            "Environment",
            "Events",
            "Handler",
            "LoggingConfig",
            "MemorySize",
            "Policies",
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
    let logging = properties.get("LoggingConfig");
    let log_setting = |name: &str| {
        let node = logging.and_then(|logging| logging.get(name));
        let text = node.map(|node| node.as_text(&format!("{name} of {what}")));
        Ok(text.transpose()?.map(str::to_owned))
    };
    let FunctionEvents { routes, streams, schedules } = FunctionEvents::read(&resource)?;
    Ok(Function {
        binary: binary(&resource)?,
        environment: variables(&resource)?,
        log_format: log_setting("LogFormat")?.unwrap_or_else(|| "Text".to_owned()),
        log_level: log_setting("ApplicationLogLevel")?,
        timeout: Duration::from_secs(timeout_secs.into()),
        memory_mb: number("MemorySize", 128)?,
        routes,
        streams,
        schedules,
        name: resource.id,
    })
}

const TRANSFORM: &str = "AWS::Serverless-2016-10-31";
const RUNTIME: &str = "provided.al2023";

const ALARM: &str = "AWS::CloudWatch::Alarm";
const FUNCTION: &str = "AWS::Serverless::Function";

const SECTIONS: [&str; 9] = [
    "AWSTemplateFormatVersion",
    "Conditions",
    "Description",
    "Globals",
    "Metadata",
    "Outputs",
    "Parameters",
    "Resources",
    "Transform",
];

/// Resources that mean nothing on one machine: no function is refused access there, and logs go to
/// stderr.
const WITHOUT_EFFECT: [&str; 2] = ["AWS::IAM::Role", "AWS::Logs::LogGroup"];

/// A resource with its intrinsics evaluated.
struct Resource {
    id: String,
    /// What errors call it.
    what: String,
    properties: Node,
    metadata: Node,
}

impl Resource {
    fn read(id: &str, node: &Node, scope: &Scope<'_>) -> Result<Self, Problem> {
        node.only(
            id,
            &[
                "Condition",
                "DeletionPolicy",
                "DependsOn",
                "Metadata",
                "Properties",
                "Type",
                "UpdateReplacePolicy",
            ],
        )?;
        let section = |name: &str| {
            let resolved = node.get(name).map(|node| scope.resolve(node)).transpose()?;
            Ok(resolved.flatten().unwrap_or_else(|| Node::empty_map(node.line)))
        };
        let kind = &scope.resources[id];
        Ok(Self {
            id: id.to_owned(),
            what: format!("{id}, a {kind}"),
            properties: section("Properties")?,
            metadata: section("Metadata")?,
        })
    }

    /// Puts in what `Globals` says, where the resource itself says nothing.
    fn with_defaults(mut self, globals: &Node) -> Self {
        self.properties = merged(globals, &self.properties);
        self
    }

    fn unknown_property(&self, name: &str, node: &Node) -> Problem {
        let text = format!("the local stack does not know the property {name} of {}", self.what);
        Problem::at(node.line, text)
    }
}

/// The sections of `Globals` that the stack knows, evaluated.
struct Globals {
    function: Node,
    api: Node,
}

fn global_properties(root: &Node, scope: &Scope<'_>) -> Result<Globals, Problem> {
    let empty = Node::empty_map(root.line);
    let globals = root.get("Globals").unwrap_or(&empty);
    globals.only("Globals", &["Function", "HttpApi"])?;
    let section = |name: &str| {
        let resolved = globals.get(name).map(|node| scope.resolve(node)).transpose()?;
        Ok(resolved.flatten().unwrap_or_else(|| empty.clone()))
    };
    Ok(Globals { function: section("Function")?, api: section("HttpApi")? })
}

/// SAM's rule for `Globals`: mappings are merged, lists are appended, and anything else the
/// resource overrides.
fn merged(global: &Node, own: &Node) -> Node {
    let value = match (&global.value, &own.value) {
        (Value::Map(global), Value::Map(own)) => {
            let mut entries = global.clone();
            for (name, node) in own {
                match entries.iter_mut().find(|(known, _)| known == name) {
                    Some((_, known)) => *known = merged(known, node),
                    None => entries.push((name.clone(), node.clone())),
                }
            }
            Value::Map(entries)
        }
        (Value::List(global), Value::List(own)) => {
            Value::List(global.iter().chain(own).cloned().collect())
        }
        _ => own.value.clone(),
    };
    Node { line: own.line, value }
}

fn declared_parameters(root: &Node) -> Result<Vec<Parameter>, Problem> {
    let Some(parameters) = root.get("Parameters") else {
        return Ok(Vec::new());
    };
    parameters
        .entries("Parameters")?
        .iter()
        .map(|(name, node)| Parameter::read(name, node))
        .collect()
}

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

/// The name of a queue. What its properties say of receivers and of its messages' end is without
/// effect: nothing receives from it, and it ends with the stack.
fn queue(resource: Resource) -> Result<String, Problem> {
    resource.properties.only(
        &resource.what,
        &["KmsMasterKeyId", "MessageRetentionPeriod", "SqsManagedSseEnabled", "Tags"],
    )?;
    Ok(resource.id)
}

/// What the API's properties say of who may call it and how often is without effect here, where
/// only this machine can.
fn check_api(resource: &Resource) -> Result<(), Problem> {
    resource.properties.only(
        &resource.what,
        &[
            "AccessLogSettings",
            "Auth",
            "DefaultRouteSettings",
            "Description",
            "RouteSettings",
            "StageName",
            "Tags",
        ],
    )?;
    match resource.properties.get("StageName") {
        Some(stage) if stage.as_text("StageName")? != "$default" => {
            let text =
                format!("the local stack knows the stage $default only, at {}", resource.what);
            Err(Problem::at(stage.line, text))
        }
        _ => Ok(()),
    }
}

/// One gateway serves one API, so every route must be of that API, and no two may be the same.
fn check_routes(functions: &[Function], apis: &[&str]) -> Result<(), Problem> {
    let mut seen = BTreeSet::new();
    for function in functions {
        for route in &function.routes {
            if apis != [route.api.as_str()] {
                let text =
                    format!("the local stack serves one HTTP API, and {} is not it", route.api);
                return Err(Problem::at(route.line, text));
            }
            if !seen.insert((&route.method, &route.path)) {
                let text = format!("two routes are {} {}", route.method, route.path);
                return Err(Problem::at(route.line, text));
            }
        }
    }
    Ok(())
}

/// A mapping reads the stream of a table that has one, and discards into a queue that there is.
fn check_streams(
    functions: &[Function],
    tables: &[Table],
    queues: &[String],
) -> Result<(), Problem> {
    for mapping in functions.iter().flat_map(|function| &function.streams) {
        if !tables.iter().any(|table| table.name == mapping.table && table.has_stream()) {
            let text = format!("{} is no table with a StreamSpecification", mapping.table);
            return Err(Problem::at(mapping.line, text));
        }
        if let Some(queue) = mapping.on_failure.as_ref().filter(|queue| !queues.contains(queue)) {
            return Err(Problem::at(mapping.line, format!("there is no queue {queue}")));
        }
    }
    Ok(())
}
