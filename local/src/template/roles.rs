//! Roles and their policies.

use super::named::Named;
use super::resource::Resource;
use super::yaml::{Problem, Value};
use crate::plan::{
    Effect, Role, Statement, TextPattern, is_known_action, resource_pattern, unchecked,
};

/// What a role may say. A boundary takes away and grants nothing: that of infra/deploy-role.yaml leaves what the template
/// asks for.
const PROPERTIES: &str =
    "AssumeRolePolicyDocument Description Path PermissionsBoundary Policies Tags";

/// Reads an `AWS::IAM::Role`. Who may assume it is without effect: the functions that name it have it.
pub(super) fn role(resource: &Resource) -> Result<Role, Problem> {
    let mut statements = Vec::new();
    if let Some(policies) = resource.properties(PROPERTIES)?.get("Policies") {
        for policy in policies.items()? {
            let document = policy.only("PolicyDocument PolicyName")?.require("PolicyDocument")?;
            for node in document.only("Statement Version")?.require("Statement")?.items()? {
                let what = format!("a statement of {}", resource.id);
                statements.push(statement(&Named { what, ..node }, &resource.id)?);
            }
        }
    }
    Ok(Role { name: resource.id.clone(), statements })
}

fn statement(node: &Named<'_>, role: &str) -> Result<Statement, Problem> {
    let node = node.only("Action Condition Effect Resource Sid")?;
    let effects = [("Allow", Effect::Allow), ("Deny", Effect::Deny)];
    let effect = node.require("Effect")?.choice(&effects)?;
    let mut actions = Vec::new();
    for action in one_or_more(node.require("Action")?)? {
        let text = action.text()?;
        if !is_known_action(text) {
            let text = format!("the local stack does not know the action {text} of {role}");
            return Err(action.problem(text));
        }
        actions.push(TextPattern::new(text));
    }
    let mut resources = Vec::new();
    for resource in one_or_more(node.require("Resource")?)? {
        let (what, text) = (&resource.what, resource.text()?);
        resources.push(
            resource_pattern(text).ok_or_else(|| {
                resource.problem(format!("{what} is neither * nor an ARN: {text}"))
            })?,
        );
    }
    let sid = node.optional("Sid", Named::owned)?;
    // What is not checked needs no condition either.
    let is_checked = actions.iter().any(|action| unchecked(&action.text).is_none());
    let condition = node.get("Condition").filter(|_| is_checked);
    let leading_keys = condition.as_ref().map(leading_keys).transpose()?;
    Ok(Statement { sid, effect, actions, resources, leading_keys })
}

/// The only condition that the stack knows: that all partition keys of a request match.
fn leading_keys(condition: &Named<'_>) -> Result<Vec<TextPattern>, Problem> {
    const OPERATOR: &str = "ForAllValues:StringLike";
    const KEY: &str = "dynamodb:LeadingKeys";
    let operator = condition.only(OPERATOR)?.require(OPERATOR)?;
    let patterns = one_or_more(operator.only(KEY)?.require(KEY)?)?;
    patterns.iter().map(|pattern| pattern.text().map(TextPattern::new)).collect()
}

/// A node that is one text, or a list of them.
fn one_or_more(node: Named<'_>) -> Result<Vec<Named<'_>>, Problem> {
    match node.node.value {
        Value::List(_) => node.items(),
        _ => Ok(vec![node]),
    }
}
