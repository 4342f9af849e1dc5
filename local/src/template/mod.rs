//! Reads the SAM template into a [`Plan`].
//!
//! The stack runs from the template that is deployed, so that the two cannot drift apart. For that,
//! nothing in the template may be ignored silently: a resource type, property, event or intrinsic
//! that the stack neither acts on nor lists as without effect on one machine is an error that names
//! it and its line.

mod alarms;
mod api;
mod events;
mod function;
mod intrinsics;
mod named;
mod parameters;
mod resource;
mod roles;
mod table;
#[cfg(test)]
mod tests;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use api::ApiResources;
use events::{alias, mapping};
use function::function;
use intrinsics::{ALARM, FUNCTION, ROLE, Scope};
use parameters::Parameter;
use resource::{Resource, function_globals};
use roles::role;
use table::table;
use yaml::{Node, Problem};

use crate::StartError;
use crate::plan::{Alarm, Function, Plan, StreamMapping};

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
    load_template_for(source, overrides, &[])
}

/// Says what is wrong with these values for parameters of a template, of which nothing else has to be known here.
///
/// # Errors
/// Those of [`load_template`] that are about parameters, or about reading the file.
pub fn check_parameters(
    source: &TemplateSource,
    overrides: &[(String, String)],
) -> Result<(), StartError> {
    let (name, root) = parsed(source)?;
    let located = |problem: Problem| StartError::template(&name, problem.line, problem.text);
    let declared = declared_parameters(&root).map_err(located)?;
    parameters::values(&declared, overrides, &name).map(drop)
}

/// Loads a template, where parameters of these names, if the template declares them, have these values by default:
/// they say what this machine is like.
///
/// # Errors
/// Those of [`load_template`].
pub(crate) fn load_template_for(
    source: &TemplateSource,
    overrides: &[(String, String)],
    facts: &[(&str, String)],
) -> Result<Plan, StartError> {
    let (name, root) = parsed(source)?;
    let located = |problem: Problem| StartError::template(&name, problem.line, problem.text);
    let declared = declared_parameters(&root).map_err(located)?;
    let facts = facts.iter().filter(|(fact, _)| declared.iter().any(|p| p.name == *fact));
    let facts = facts.map(|(name, value)| ((*name).to_owned(), value.clone()));
    // Of two values the later one counts.
    let given = facts.chain(overrides.iter().cloned()).collect::<Vec<_>>();
    let parameters = parameters::values(&declared, &given, &name)?;
    read(&root, parameters).map_err(located)
}

/// The name of a template and what it holds.
fn parsed(source: &TemplateSource) -> Result<(String, Node), StartError> {
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
    let root = Node::parse(&text)
        .map_err(|problem| StartError::template(&name, problem.line, problem.text))?;
    Ok((name, root))
}

fn read(root: &Node, parameters: BTreeMap<String, String>) -> Result<Plan, Problem> {
    root.only("the template", &[SECTIONS, SECTIONS_WITHOUT_EFFECT].join(" "))?;
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
    let scope = Scope {
        parameters: &parameters,
        resources: &types,
        conditions: root.get("Conditions"),
        mappings: root.get("Mappings"),
    };
    let globals = function_globals(root, &scope)?;
    let mut tables = Vec::new();
    let mut queues = Vec::new();
    let mut functions = Vec::new();
    let mut api = ApiResources::default();
    let mut alarms: Vec<Alarm> = Vec::new();
    let mut roles = Vec::new();
    let mut permissions = Vec::new();
    let mut aliases = BTreeMap::new();
    let mut mappings = Vec::new();
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
            "AWS::SQS::Queue" => {
                // Its properties are without effect: nothing receives from it, and its messages end with the stack.
                resource.properties(QUEUE_PROPERTIES)?;
                queues.push(resource.id);
            }
            FUNCTION => functions.push(function(&resource.with_defaults(&globals))?),
            ALARM => {
                let alarm = alarms::alarm(&resource, &scope)?;
                if alarms.iter().any(|other| other.name == alarm.name) {
                    let text = format!("two alarms have the name {}", alarm.name);
                    return Err(Problem::at(node.line, text));
                }
                alarms.push(alarm);
            }
            ROLE => roles.push(role(&resource)?),
            "AWS::Lambda::Alias" => {
                let of = alias(&resource)?;
                aliases.insert(resource.id, of);
            }
            "AWS::Lambda::EventSourceMapping" => mappings.push((mapping(&resource)?, node.line)),
            "AWS::Lambda::Permission" => {
                permissions.push(alarms::permission(&resource, &scope)?);
            }
            kind if WITHOUT_EFFECT.contains(&kind) => {}
            kind => {
                let list = api.list(kind).ok_or_else(|| {
                    let text =
                        format!("the local stack does not know the resource type {kind} of {id}");
                    Problem::at(node.line, text)
                })?;
                list.push(resource);
            }
        }
    }
    add_mappings(&mut functions, &aliases, mappings)?;
    api.route(&mut functions, &permissions)?;
    if let Some(outputs) = root.get("Outputs") {
        scope.resolve(outputs)?;
    }
    let plan = Plan { parameters, tables, queues, functions, alarms, roles, permissions };
    check(&plan)?;
    Ok(plan)
}

/// Gives functions the mappings that are resources of their own, each with its line. Lambda takes one mapping of a stream for each
/// name of a function (`ResourceConflictException` of `CreateEventSourceMapping`): its own, and those of its aliases.
fn add_mappings(
    functions: &mut [Function],
    aliases: &BTreeMap<String, String>,
    mappings: Vec<((String, StreamMapping), usize)>,
) -> Result<(), Problem> {
    let mut taken = BTreeSet::new();
    let mut take = |name: &str, mapping: &StreamMapping| {
        if taken.insert((name.to_owned(), mapping.table.clone())) {
            return Ok(());
        }
        let text = format!("{name} has two mappings of the stream of {}", mapping.table);
        Err(Problem::at(mapping.line, text))
    };
    for function in &*functions {
        function.streams.iter().try_for_each(|mapping| take(&function.name, mapping))?;
    }
    for ((name, mapping), line) in mappings {
        let of = aliases.get(&name).unwrap_or(&name);
        let Some(function) = functions.iter_mut().find(|function| function.name == *of) else {
            return Err(Problem::at(line, format!("the template has no function {of}")));
        };
        take(&name, &mapping)?;
        function.streams.push(mapping);
    }
    // One that is disabled has its place, and invokes nothing.
    for function in functions {
        function.streams.retain(|mapping| mapping.is_enabled);
    }
    Ok(())
}

const TRANSFORM: &str = "AWS::Serverless-2016-10-31";

const SECTIONS: &str = "AWSTemplateFormatVersion Conditions Description Globals Mappings Metadata Outputs \
    Parameters Resources Transform";

/// Rules guard what is deployed to an account: the template's own says which `RequestLifetimeSecs` is
/// safe on AWS. Here the `dynamodb` endpoint keeps to the value that the stack has.
const SECTIONS_WITHOUT_EFFECT: &str = "Rules";

/// Resources without effect on one machine: logs go to stderr, and nothing scales the capacity of tables but the functions.
const WITHOUT_EFFECT: [&str; 3] = [
    "AWS::ApplicationAutoScaling::ScalableTarget",
    "AWS::ApplicationAutoScaling::ScalingPolicy",
    "AWS::Logs::LogGroup",
];

fn declared_parameters(root: &Node) -> Result<Vec<Parameter>, Problem> {
    let parameters = root.get("Parameters").map(|node| node.entries("Parameters")).transpose()?;
    let parameters = parameters.into_iter().flatten();
    parameters.map(|(name, node)| Parameter::read(name, node)).collect()
}

const QUEUE_PROPERTIES: &str = "KmsMasterKeyId MessageRetentionPeriod SqsManagedSseEnabled Tags";

/// The role of a function must be of the template: the stack knows the policies of no other. A mapping must read a table
/// that has a stream, and discard into a queue of the template.
fn check(plan: &Plan) -> Result<(), Problem> {
    for function in &plan.functions {
        if let Some((role, line)) = &function.role
            && !plan.roles.iter().any(|known| known.name == *role)
        {
            let text =
                format!("the template has no role {role}, which {} is to have", function.name);
            return Err(Problem::at(*line, text));
        }
        for StreamMapping { table, on_failure, line, .. } in &function.streams {
            if !plan.tables.iter().any(|known| known.name == *table && known.has_stream()) {
                let text = format!("{table} is not a table with a StreamSpecification");
                return Err(Problem::at(*line, text));
            }
            if let Some(queue) = on_failure.as_ref().filter(|queue| !plan.queues.contains(queue)) {
                return Err(Problem::at(*line, format!("the template has no queue {queue}")));
            }
        }
    }
    Ok(())
}
