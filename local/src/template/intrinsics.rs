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
        let text = match name {
            "Ref" => match self.reference(argument.as_text("Ref")?, argument)? {
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
                return Err(argument.problem(text));
            }
        };
        Ok(Some(Node::text(argument.line, text)))
    }

    /// The value of `!Ref name`, which is `at` a node; `None` is `AWS::NoValue`.
    fn reference(&self, name: &str, at: &Node) -> Result<Option<String>, Problem> {
        let kind = self.resources.get(name).map(String::as_str);
        Ok(Some(match name {
            "AWS::NoValue" => return Ok(None),
            "AWS::AccountId" => ACCOUNT_ID.to_owned(),
            "AWS::Partition" => "aws".to_owned(),
            "AWS::Region" => REGION.to_owned(),
            "AWS::StackId" => {
                // A real one ends in a UUID that is drawn with the stack.
                const UUID: &str = "00000000-0000-4000-8000-000000000000";
                format!("arn:aws:cloudformation:{REGION}:{ACCOUNT_ID}:stack/dynashard/{UUID}")
            }
            "AWS::StackName" => "dynashard".to_owned(),
            "AWS::URLSuffix" => "amazonaws.com".to_owned(),
            _ if kind == Some(ALARM) => {
                return Err(at.problem(format!(
                    "the local stack does not know the !Ref of an alarm: write the AlarmName of \
                     {name} out"
                )));
            }
            _ => match (self.parameters.get(name), kind) {
                (Some(value), _) => value.clone(),
                (None, Some(QUEUE)) => {
                    format!("https://sqs.{REGION}.amazonaws.com/{ACCOUNT_ID}/{name}")
                }
                // The `!Ref` of every other resource that the stack knows is its logical id.
                (None, Some(_)) => name.to_owned(),
                (None, None) => {
                    return Err(at.problem(format!(
                        "{name} is not a parameter, resource or pseudo parameter that the local stack knows"
                    )));
                }
            },
        }))
    }

    /// The value of `!GetAtt`, written as `Id.Attribute` or as a list.
    fn attribute(&self, argument: &Node) -> Result<String, Problem> {
        let path = match &argument.value {
            Value::List(parts) => {
                let parts = parts.iter().map(|part| part.as_text("Fn::GetAtt"));
                parts.collect::<Result<Vec<_>, _>>()?.join(".")
            }
            _ => argument.as_text("Fn::GetAtt")?.to_owned(),
        };
        let Some((id, attribute)) = path.split_once('.') else {
            let text = format!("Fn::GetAtt takes Resource.Attribute, not {path}");
            return Err(argument.problem(text));
        };
        let Some(kind) = self.resources.get(id) else {
            return Err(argument.problem(format!("the template has no resource {id}")));
        };
        attribute_of(kind, id, attribute).ok_or_else(|| {
            argument.problem(format!(
                "the local stack does not know the attribute {attribute} of {id}, a {kind}"
            ))
        })
    }

    /// The value of `!Sub`, of the form that is a text.
    fn substitute(&self, argument: &Node) -> Result<String, Problem> {
        let mut rest = argument.as_text("Fn::Sub")?;
        let mut result = String::with_capacity(rest.len());
        while let Some((before, after)) = rest.split_once("${") {
            result.push_str(before);
            let Some((name, after)) = after.split_once('}') else {
                return Err(argument.problem("a ${ in Fn::Sub is not closed"));
            };
            rest = after;
            if let Some(literal) = name.strip_prefix('!') {
                result.extend(["${", literal, "}"]);
            } else if name.contains('.') {
                result.push_str(&self.attribute(&Node::text(argument.line, name))?);
            } else {
                let none = || argument.problem(format!("{name} has no value here"));
                result.push_str(&self.reference(name, argument)?.ok_or_else(none)?);
            }
        }
        result.push_str(rest);
        Ok(result)
    }

    fn choose(&self, argument: &Node) -> Result<Option<Node>, Problem> {
        let [condition, yes, no] = argument.items("Fn::If")? else {
            return Err(argument.problem("Fn::If takes a condition and two values"));
        };
        let name = condition.as_text("the condition of Fn::If")?;
        let holds = self.holds(name, condition.line)?;
        self.resolve(if holds { yes } else { no })
    }

    /// The texts that an intrinsic takes, so many of them, with their own intrinsics evaluated.
    fn operands<const N: usize>(
        &self,
        argument: &Node,
        name: &str,
        takes: &str,
    ) -> Result<[String; N], Problem> {
        let resolved = self.resolve(argument)?;
        let operands = resolved.as_ref().map_or(Ok(&[][..]), |node| node.items(name))?;
        let wrong = || argument.problem(format!("{name} takes {takes}"));
        let operands = <&[Node; N]>::try_from(operands).map_err(|_| wrong())?;
        let texts = operands.iter().map(|node| node.as_text(name).map(str::to_owned));
        texts.collect::<Result<Vec<_>, _>>()?.try_into().map_err(|_| wrong())
    }

    /// The parts of a text between separators.
    fn split(&self, argument: &Node) -> Result<Node, Problem> {
        const TAKES: &str = "a separator and a text";
        let [separator, text] = self.operands(argument, "Fn::Split", TAKES)?;
        if separator.is_empty() {
            return Err(argument.problem(format!("Fn::Split takes {TAKES}")));
        }
        let parts = text.split(&separator).map(|part| Node::text(argument.line, part));
        Ok(Node { line: argument.line, value: Value::List(parts.collect()) })
    }

    /// The value of a map of the section `Mappings`, by two keys.
    fn find_in_map(&self, argument: &Node) -> Result<Node, Problem> {
        let keys: [_; 3] = self.operands(argument, "Fn::FindInMap", "a map and two keys")?;
        let mut found = self.mappings;
        for key in keys {
            found = found.and_then(|node| node.get(&key));
            if found.is_none() {
                let text = format!("Mappings has no {key} where Fn::FindInMap looks for it");
                return Err(argument.problem(text));
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
            return Err(node.problem("the conditions refer to each other in a circle"));
        }
        let Some((name, argument)) = intrinsic(node) else {
            return Err(node.problem("a condition must be an intrinsic function"));
        };
        match name {
            "Condition" => self.condition(argument.as_text("Condition")?, argument.line, depth + 1),
            "Fn::Not" => match argument.items(name)? {
                [operand] => Ok(!self.test(operand, depth + 1)?),
                _ => Err(argument.problem("Fn::Not takes one condition")),
            },
            "Fn::And" | "Fn::Or" => {
                let operands = argument.items(name)?;
                if !(2..=10).contains(&operands.len()) {
                    return Err(argument.problem(format!("{name} takes two to ten conditions")));
                }
                // Each is evaluated, so that a mistake in one shows whatever the others say.
                let operands = operands.iter().map(|operand| self.test(operand, depth + 1));
                let held = operands.collect::<Result<Vec<_>, _>>()?;
                let decides = name == "Fn::Or";
                Ok(if held.contains(&decides) { decides } else { !decides })
            }
            "Fn::Equals" => {
                let [left, right] = self.operands(argument, name, "two values")?;
                Ok(left == right)
            }
            _ => {
                let text =
                    format!("the local stack does not know the intrinsic {name} in a condition");
                Err(node.problem(text))
            }
        }
    }
}

/// The name and the argument of the intrinsic that `node` is, if it is one. The name may be unknown.
fn intrinsic(node: &Node) -> Option<(&str, &Node)> {
    let Value::Map(entries) = &node.value else { return None };
    let [(name, argument)] = entries.as_slice() else { return None };
    let is_one = name == "Ref" || name == "Condition" || name.starts_with("Fn::");
    is_one.then_some((name, argument))
}

const QUEUE: &str = "AWS::SQS::Queue";

/// The value of `!GetAtt`, if the stack knows the attribute.
fn attribute_of(kind: &str, id: &str, attribute: &str) -> Option<String> {
    Some(match (kind, attribute) {
        ("AWS::DynamoDB::Table", "Arn") => table_arn(id),
        // The label is not known before the engine has made the table, and nothing needs it: a
        // mapping finds its stream by the table.
        ("AWS::DynamoDB::Table", "StreamArn") => stream_arn(id, TEMPLATE_LABEL),
        (ROLE, "Arn") => role_arn(id),
        ("AWS::Logs::LogGroup", "Arn") => {
            format!("arn:aws:logs:{REGION}:{ACCOUNT_ID}:log-group:{id}:*")
        }
        (QUEUE, "Arn") => queue_arn(id),
        (QUEUE, "QueueName") => id.to_owned(),
        (FUNCTION, "Arn") => function_arn(id),
        _ => return None,
    })
}

/// The name of the function that has this ARN.
pub(super) fn function_of(arn: &str) -> Option<&str> {
    arn.rsplit(':').next().filter(|name| function_arn(name) == arn)
}
