//! Intrinsic functions and conditions, evaluated as AWS would for one stack on this machine.

use std::collections::BTreeMap;

use super::yaml::{Node, Problem, Value};
use crate::plan::{
    ACCOUNT_ID, REGION, TEMPLATE_LABEL, function_arn, queue_arn, role_arn, stream_arn, table_arn,
};

pub(super) const ALARM: &str = "AWS::CloudWatch::Alarm";
pub(super) const FUNCTION: &str = "AWS::Serverless::Function";
pub(super) const ROLE: &str = "AWS::IAM::Role";

/// What the intrinsics of one template refer to.
#[derive(Debug)]
pub(super) struct Scope<'a> {
    pub(super) parameters: &'a BTreeMap<String, String>,
    /// The type of every resource, by logical id.
    pub(super) resources: &'a BTreeMap<String, String>,
    /// The section `Conditions`, if the template has one.
    pub(super) conditions: Option<&'a Node>,
    /// The section `Mappings`, if the template has one.
    pub(super) mappings: Option<&'a Node>,
}

impl Scope<'_> {
    /// `node` with every intrinsic replaced by its value; `None` for `AWS::NoValue`.
    pub(super) fn resolve(&self, node: &Node) -> Result<Option<Node>, Problem> {
        if let Some((name, argument)) = intrinsic(node) {
            return self.call(name, argument);
        }
        let value = match &node.value {
            scalar @ Value::Scalar { .. } => scalar.clone(),
            Value::List(items) => {
                let items = items.iter().filter_map(|item| self.resolve(item).transpose());
                Value::List(items.collect::<Result<_, _>>()?)
            }
            Value::Map(entries) => {
                let entries = entries.iter().filter_map(|(name, node)| {
                    let resolved = self.resolve(node).transpose()?;
                    Some(resolved.map(|node| (name.clone(), node)))
                });
                Value::Map(entries.collect::<Result<_, _>>()?)
            }
        };
        Ok(Some(Node { line: node.line, value }))
    }

    /// Whether the condition `name` holds.
    pub(super) fn holds(&self, condition: &str, line: usize) -> Result<bool, Problem> {
        self.condition(condition, line, 0)
    }

    fn call(&self, name: &str, argument: &Node) -> Result<Option<Node>, Problem> {
        let line = argument.line;
        let text = match name {
            "Ref" => match self.reference(argument.as_text("Ref")?, line)? {
                Some(text) => text,
                None => return Ok(None),
            },
            "Fn::GetAtt" => self.attribute(argument)?,
            "Fn::Sub" => self.substitute(argument)?,
            "Fn::If" => return self.choose(argument),
            "Fn::Split" => return self.split(argument).map(Some),
            "Fn::FindInMap" => return self.find_in_map(argument).map(Some),
            _ => {
                let text = format!("the local stack does not know the intrinsic {name} here");
                return Err(Problem::at(line, text));
            }
        };
        Ok(Some(Node::text(line, text)))
    }

    /// The value of `!Ref name`; `None` is `AWS::NoValue`.
    fn reference(&self, name: &str, line: usize) -> Result<Option<String>, Problem> {
        let pseudo = match name {
            "AWS::NoValue" => return Ok(None),
            "AWS::AccountId" => Some(ACCOUNT_ID.to_owned()),
            "AWS::Partition" => Some("aws".to_owned()),
            "AWS::Region" => Some(REGION.to_owned()),
            "AWS::StackId" => Some(stack_id()),
            "AWS::StackName" => Some("dynashard".to_owned()),
            "AWS::URLSuffix" => Some("amazonaws.com".to_owned()),
            _ => None,
        };
        if self.resources.get(name).is_some_and(|kind| kind == ALARM) {
            let text = format!(
                "the local stack does not know the !Ref of an alarm: write the AlarmName of \
                 {name} out"
            );
            return Err(Problem::at(line, text));
        }
        // The `!Ref` of every other resource that the stack knows is its logical id.
        let resource = || {
            let kind = self.resources.get(name)?;
            Some(if kind == QUEUE { queue_url(name) } else { name.to_owned() })
        };
        pseudo
            .or_else(|| self.parameters.get(name).cloned())
            .or_else(resource)
            .map(Some)
            .ok_or_else(|| {
                let text = format!(
                    "{name} is not a parameter, resource or pseudo parameter that the local stack knows"
                );
                Problem::at(line, text)
            })
    }

    /// The value of `!GetAtt`, written as `Id.Attribute` or as a list.
    fn attribute(&self, argument: &Node) -> Result<String, Problem> {
        let line = argument.line;
        let path = match &argument.value {
            Value::List(parts) => parts
                .iter()
                .map(|part| part.as_text("Fn::GetAtt"))
                .collect::<Result<Vec<_>, _>>()?
                .join("."),
            _ => argument.as_text("Fn::GetAtt")?.to_owned(),
        };
        let Some((id, attribute)) = path.split_once('.') else {
            let text = format!("Fn::GetAtt takes Resource.Attribute, not {path}");
            return Err(Problem::at(line, text));
        };
        let Some(kind) = self.resources.get(id) else {
            return Err(Problem::at(line, format!("the template has no resource {id}")));
        };
        attribute_of(kind, id, attribute).ok_or_else(|| {
            let text = format!(
                "the local stack does not know the attribute {attribute} of {id}, a {kind}"
            );
            Problem::at(line, text)
        })
    }

    /// The value of `!Sub`, of the form that is a text.
    fn substitute(&self, argument: &Node) -> Result<String, Problem> {
        let line = argument.line;
        let mut rest = argument.as_text("Fn::Sub")?;
        let mut result = String::with_capacity(rest.len());
        while let Some((before, after)) = rest.split_once("${") {
            result.push_str(before);
            let Some((name, after)) = after.split_once('}') else {
                return Err(Problem::at(line, "a ${ in Fn::Sub is not closed"));
            };
            rest = after;
            if let Some(literal) = name.strip_prefix('!') {
                result.push_str("${");
                result.push_str(literal);
                result.push('}');
            } else if name.contains('.') {
                result.push_str(&self.attribute(&Node::text(line, name))?);
            } else {
                let value = self.reference(name, line)?;
                result.push_str(&value.ok_or_else(|| Problem::at(line, no_value(name)))?);
            }
        }
        result.push_str(rest);
        Ok(result)
    }

    fn choose(&self, argument: &Node) -> Result<Option<Node>, Problem> {
        let [condition, yes, no] = argument.items("Fn::If")? else {
            let text = "Fn::If takes a condition and two values";
            return Err(Problem::at(argument.line, text));
        };
        let name = condition.as_text("the condition of Fn::If")?;
        let holds = self.holds(name, condition.line)?;
        self.resolve(if holds { yes } else { no })
    }

    /// The parts of a text between separators.
    fn split(&self, argument: &Node) -> Result<Node, Problem> {
        let resolved = self.resolve(argument)?;
        let operands = resolved.as_ref().map_or(Ok(&[][..]), |node| node.items("Fn::Split"))?;
        let [separator, text] = operands else {
            return Err(Problem::at(argument.line, "Fn::Split takes a separator and a text"));
        };
        let (separator, text) = (separator.as_text("Fn::Split")?, text.as_text("Fn::Split")?);
        if separator.is_empty() {
            return Err(Problem::at(argument.line, "Fn::Split takes a separator and a text"));
        }
        let parts = text.split(separator).map(|part| Node::text(argument.line, part));
        Ok(Node { line: argument.line, value: Value::List(parts.collect()) })
    }

    /// The value of a map of the section `Mappings`, by two keys.
    fn find_in_map(&self, argument: &Node) -> Result<Node, Problem> {
        let resolved = self.resolve(argument)?;
        let operands = resolved.as_ref().map_or(Ok(&[][..]), |node| node.items("Fn::FindInMap"))?;
        let [_, _, _] = operands else {
            return Err(Problem::at(argument.line, "Fn::FindInMap takes a map and two keys"));
        };
        let mut found = self.mappings;
        for key in operands {
            let key = key.as_text("Fn::FindInMap")?;
            found = found.and_then(|node| node.get(key));
            if found.is_none() {
                let text = format!("Mappings has no {key} where Fn::FindInMap looks for it");
                return Err(Problem::at(argument.line, text));
            }
        }
        let found = found.map(|node| node.as_text("a value of Mappings")).transpose()?;
        Ok(Node::text(argument.line, found.unwrap_or_default()))
    }

    fn condition(&self, name: &str, line: usize, depth: usize) -> Result<bool, Problem> {
        let node = self.conditions.and_then(|conditions| conditions.get(name));
        let node =
            node.ok_or_else(|| Problem::at(line, format!("the template has no condition {name}")))?;
        self.test(node, depth)
    }

    fn test(&self, node: &Node, depth: usize) -> Result<bool, Problem> {
        // Conditions may refer to each other, even in a circle.
        const MAX_DEPTH: usize = 32;
        if depth > MAX_DEPTH {
            return Err(Problem::at(node.line, "the conditions refer to each other in a circle"));
        }
        let Some((name, argument)) = intrinsic(node) else {
            return Err(Problem::at(node.line, "a condition must be an intrinsic function"));
        };
        match name {
            "Condition" => self.condition(argument.as_text("Condition")?, argument.line, depth + 1),
            "Fn::Not" => match argument.items(name)? {
                [operand] => Ok(!self.test(operand, depth + 1)?),
                _ => Err(Problem::at(argument.line, "Fn::Not takes one condition")),
            },
            "Fn::And" | "Fn::Or" => {
                let operands = argument.items(name)?;
                if !(2..=10).contains(&operands.len()) {
                    let text = format!("{name} takes two to ten conditions");
                    return Err(Problem::at(argument.line, text));
                }
                // Each is evaluated, so that a mistake in one shows whatever the others say.
                let operands = operands.iter().map(|operand| self.test(operand, depth + 1));
                let held = operands.collect::<Result<Vec<_>, _>>()?;
                let decides = name == "Fn::Or";
                Ok(if held.contains(&decides) { decides } else { !decides })
            }
            "Fn::Equals" => {
                let operands = self.resolve(argument)?;
                let operands = operands.as_ref().map_or(Ok(&[][..]), |node| node.items(name))?;
                match operands {
                    [left, right] => Ok(left.as_text(name)? == right.as_text(name)?),
                    _ => Err(Problem::at(argument.line, "Fn::Equals takes two values")),
                }
            }
            _ => {
                let text =
                    format!("the local stack does not know the intrinsic {name} in a condition");
                Err(Problem::at(node.line, text))
            }
        }
    }
}

/// The name and the argument of the intrinsic that `node` is, if it is one. The name may be unknown.
fn intrinsic(node: &Node) -> Option<(&str, &Node)> {
    match &node.value {
        Value::Map(entries) => match entries.as_slice() {
            [(name, argument)]
                if name == "Ref" || name == "Condition" || name.starts_with("Fn::") =>
            {
                Some((name, argument))
            }
            _ => None,
        },
        _ => None,
    }
}

const QUEUE: &str = "AWS::SQS::Queue";

/// The id of the stack. A real one ends in a UUID that is drawn with the stack.
fn stack_id() -> String {
    const UUID: &str = "00000000-0000-4000-8000-000000000000";
    format!("arn:aws:cloudformation:{REGION}:{ACCOUNT_ID}:stack/dynashard/{UUID}")
}

/// The value of `!Ref` for a queue.
fn queue_url(id: &str) -> String {
    format!("https://sqs.{REGION}.amazonaws.com/{ACCOUNT_ID}/{id}")
}

/// The value of `!GetAtt`, if the stack knows the attribute.
fn attribute_of(kind: &str, id: &str, attribute: &str) -> Option<String> {
    match (kind, attribute) {
        (_, "Arn") => arn(kind, id),
        // The label is not known before the engine has made the table, and nothing needs it: a
        // mapping finds its stream by the table.
        ("AWS::DynamoDB::Table", "StreamArn") => Some(stream_arn(id, TEMPLATE_LABEL)),
        (QUEUE, "QueueName") => Some(id.to_owned()),
        _ => None,
    }
}

/// The ARN of a resource in the shape that AWS gives it.
fn arn(kind: &str, id: &str) -> Option<String> {
    let place = format!("{REGION}:{ACCOUNT_ID}");
    match kind {
        "AWS::DynamoDB::Table" => Some(table_arn(id)),
        ROLE => Some(role_arn(id)),
        "AWS::Logs::LogGroup" => Some(format!("arn:aws:logs:{place}:log-group:{id}:*")),
        QUEUE => Some(queue_arn(id)),
        FUNCTION => Some(function_arn(id)),
        _ => None,
    }
}

/// The name of the function that has this ARN.
pub(super) fn function_of(arn: &str) -> Option<&str> {
    arn.rsplit(':').next().filter(|name| function_arn(name) == arn)
}

fn no_value(name: &str) -> String {
    format!("{name} has no value here")
}
