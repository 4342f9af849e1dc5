//! Roles and their policies.

use super::resource::Resource;
use super::yaml::{Node, Problem, Value};
use crate::plan::{
    Effect, ResourcePattern, Role, Statement, TextPattern, is_known_action, unchecked,
};

/// Reads an `AWS::IAM::Role`. Who may assume it is without effect: the functions that name it have it.
pub(super) fn role(resource: Resource) -> Result<Role, Problem> {
    let what = &resource.what;
    let properties = &resource.properties;
    // A boundary takes away and grants nothing: that of infra/deploy-role.yaml leaves what the template asks for.
    properties.only(
        what,
        &[
            "AssumeRolePolicyDocument",
            "Description",
            "Path",
            "PermissionsBoundary",
            "Policies",
            "Tags",
        ],
    )?;
    let mut statements = Vec::new();
    if let Some(policies) = properties.get("Policies") {
        for policy in policies.items("Policies")? {
            let what = format!("a policy of {}", resource.id);
            policy.only(&what, &["PolicyDocument", "PolicyName"])?;
            let document = policy.require("PolicyDocument", &what)?;
            document.only(&what, &["Statement", "Version"])?;
            for node in document.require("Statement", &what)?.items("Statement")? {
                statements.push(statement(node, &resource.id)?);
            }
        }
    }
    Ok(Role { name: resource.id, statements })
}

fn statement(node: &Node, role: &str) -> Result<Statement, Problem> {
    let what = format!("a statement of {role}");
    node.only(&what, &["Action", "Condition", "Effect", "Resource", "Sid"])?;
    let effect = node.require("Effect", &what)?;
    let effect = match effect.as_text("Effect")? {
        "Allow" => Effect::Allow,
        "Deny" => Effect::Deny,
        other => {
            let text = format!("Effect of {what} is Allow or Deny, not {other}");
            return Err(Problem::at(effect.line, text));
        }
    };
    let mut actions = Vec::new();
    for (line, action) in texts(node.require("Action", &what)?, "Action")? {
        if !is_known_action(action) {
            let text = format!("the local stack does not know the action {action} of {role}");
            return Err(Problem::at(line, text));
        }
        actions.push(TextPattern::new(action));
    }
    let mut resources = Vec::new();
    for (line, resource) in texts(node.require("Resource", &what)?, "Resource")? {
        let pattern = ResourcePattern::parse(resource).ok_or_else(|| {
            Problem::at(line, format!("Resource of {what} is neither * nor an ARN: {resource}"))
        })?;
        resources.push(pattern);
    }
    let sid = node.get("Sid").map(|sid| sid.as_text("Sid").map(str::to_owned)).transpose()?;
    // What is not checked needs no condition either.
    let is_checked = actions.iter().any(|action| unchecked(&action.text).is_none());
    let condition = node.get("Condition").filter(|_| is_checked);
    let leading_keys = condition.map(leading_keys).transpose()?;
    Ok(Statement { sid, effect, actions, resources, leading_keys })
}

/// The only condition that the stack knows: that all partition keys of a request match.
fn leading_keys(condition: &Node) -> Result<Vec<TextPattern>, Problem> {
    const OPERATOR: &str = "ForAllValues:StringLike";
    const KEY: &str = "dynamodb:LeadingKeys";
    condition.only("Condition", &[OPERATOR])?;
    let operator = condition.require(OPERATOR, "Condition")?;
    operator.only(OPERATOR, &[KEY])?;
    let patterns = texts(operator.require(KEY, OPERATOR)?, KEY)?;
    Ok(patterns.into_iter().map(|(_, text)| TextPattern::new(text)).collect())
}

/// One text or a list of them, each with its line.
fn texts<'a>(node: &'a Node, what: &str) -> Result<Vec<(usize, &'a str)>, Problem> {
    match &node.value {
        Value::List(items) => {
            items.iter().map(|item| Ok((item.line, item.as_text(what)?))).collect()
        }
        _ => Ok(vec![(node.line, node.as_text(what)?)]),
    }
}
