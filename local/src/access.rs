//! What the functions may do by the policies of their roles: checked for each request, and counted.
//!
//! A function signs with an access key of its own, whose id is the function's name, so the endpoints
//! know it by that. Requests that others sign are not checked: whoever has this machine has everything on it.

use std::collections::BTreeMap;

use http::header::AUTHORIZATION;
use http::request::Parts;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use crate::plan::{ACCOUNT_ID, Asked, Effect, Function, Role, Verdict, unchecked};

/// The roles of all functions.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// By the name of the function.
    roles: BTreeMap<String, Role>,
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    /// By role, statement and action, in the order of the template.
    used: BTreeMap<(String, usize, usize), u64>,
    /// By function, action and resource.
    denied: BTreeMap<(String, String, String), u64>,
}

/// A request that a function may not make, in IAM's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct AccessDenied(String);

impl Access {
    /// The access of these functions, each of which has one of these roles or none.
    pub(crate) fn new(functions: &[Function], roles: &[Role]) -> Self {
        let of = |function: &Function| {
            let (name, _) = function.role.as_ref()?;
            let role = roles.iter().find(|role| role.name == *name)?;
            Some((function.name.clone(), role.clone()))
        };
        Self { roles: functions.iter().filter_map(of).collect(), counted: Mutex::default() }
    }

    /// Checks everything that a request asks for if a function has signed it, and counts it.
    pub(crate) fn check_request(
        &self,
        parts: &Parts,
        asked: impl FnOnce() -> Vec<Asked>,
    ) -> Result<(), AccessDenied> {
        let function = access_key_id(parts).filter(|id| self.roles.contains_key(id));
        let Some(function) = function else { return Ok(()) };
        asked().iter().try_for_each(|asked| self.check(&function, asked))
    }

    /// Checks what is done in the name of a function, and counts it. A function without a role may do
    /// everything.
    pub(crate) fn check(&self, function: &str, asked: &Asked) -> Result<(), AccessDenied> {
        let Some(role) = self.roles.get(function) else { return Ok(()) };
        let why = match role.judge(asked) {
            Verdict::Allowed { statement, action } => {
                let key = (role.name.clone(), statement, action);
                *self.counted.lock().used.entry(key).or_default() += 1;
                return Ok(());
            }
            Verdict::Denied => "with an explicit deny in an identity-based policy".to_owned(),
            Verdict::NotAllowed => {
                format!("because no identity-based policy allows the {} action", asked.action)
            }
        };
        let Asked { action, resource, .. } = asked;
        let denied = (function.to_owned(), action.clone(), resource.clone());
        *self.counted.lock().denied.entry(denied).or_default() += 1;
        tracing::warn!(function, asked.action, asked.resource, "a function was denied access");
        Err(AccessDenied(format!(
            "User: arn:aws:sts::{ACCOUNT_ID}:assumed-role/{}/{function} is not authorized to perform: \
             {action} on resource: {resource} {why}",
            role.name
        )))
    }

    /// What `GET /_dynashard/permissions` tells: each role's statements with how often each action was
    /// used, and what was denied.
    pub(crate) fn report(&self) -> Value {
        let roles: BTreeMap<_, _> = self.roles.values().map(|role| (&role.name, role)).collect();
        let counted = self.counted.lock();
        let denied = counted.denied.iter().map(|((function, action, resource), times)| {
            json!({ "function": function, "action": action, "resource": resource, "times": times })
        });
        json!({
            "roles": roles.into_values().map(|role| counted.role(role)).collect::<Vec<_>>(),
            "denied": denied.collect::<Vec<_>>(),
        })
    }
}

impl Counted {
    fn role(&self, role: &Role) -> Value {
        let statements = role.statements.iter().enumerate().map(|(at, statement)| {
            let actions = statement.actions.iter().enumerate().map(|(action_at, action)| {
                let key = (role.name.clone(), at, action_at);
                let mut action_use = json!({ "used": self.used.get(&key).unwrap_or(&0) });
                if let Some(why) = unchecked(&action.text) {
                    action_use["unchecked"] = why.into();
                }
                (action.text.clone(), action_use)
            });
            let effect = match statement.effect {
                Effect::Allow => "Allow",
                Effect::Deny => "Deny",
            };
            let resources = statement.resources.iter().map(|resource| &resource.text);
            json!({
                "sid": statement.sid,
                "effect": effect,
                "resources": resources.collect::<Vec<_>>(),
                "actions": actions.collect::<Map<_, _>>(),
            })
        });
        json!({ "role": role.name, "statements": statements.collect::<Vec<_>>() })
    }
}

/// The access key id of a request's signature, which is in a header or in the query.
fn access_key_id(parts: &Parts) -> Option<String> {
    let credential = match parts.headers.get(AUTHORIZATION) {
        Some(header) => {
            let (_, rest) = header.to_str().ok()?.split_once("Credential=")?;
            rest.to_owned()
        }
        None => parts.uri.query()?.split('&').find_map(|parameter| {
            let value = parameter.strip_prefix("X-Amz-Credential=")?;
            Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
        })?,
    };
    let (id, _) = credential.split_once('/')?;
    Some(id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Statement, TextPattern, resource_pattern};
    use http::Request;

    fn access() -> Access {
        let statement = |sid: &str, actions: &[&str], resource: &str| Statement {
            sid: Some(sid.to_owned()),
            effect: Effect::Allow,
            actions: actions.iter().map(|action| TextPattern::new(action)).collect(),
            resources: vec![resource_pattern(resource).expect("a resource")],
            leading_keys: None,
        };
        let statements = vec![
            statement("Items", &["dynamodb:GetItem", "dynamodb:PutItem"], "arn:a:b:c:d:table"),
            statement("Logs", &["logs:PutLogEvents"], "*"),
        ];
        let role = Role { name: "WriteRole".to_owned(), statements };
        Access { roles: [("WriteFunction".to_owned(), role)].into(), counted: Mutex::default() }
    }

    fn asked(action: &str) -> Vec<Asked> {
        let (action, resource) = (action.to_owned(), "arn:a:b:c:d:table".to_owned());
        vec![Asked { action, resource, leading_keys: Vec::new() }]
    }

    fn signed_by(id: &str) -> Parts {
        let credential = format!("{id}/20261120/us-east-1/dynamodb/aws4_request");
        let header = format!("AWS4-HMAC-SHA256 Credential={credential}, Signature=0");
        Request::post("/").header(AUTHORIZATION, header).body(()).expect("a request").into_parts().0
    }

    #[test]
    fn a_function_is_held_to_its_role_and_others_are_not() {
        let access = access();
        let scan = || asked("dynamodb:Scan");
        assert_eq!(access.check_request(&signed_by("local"), scan), Ok(()));
        let denied = access.check_request(&signed_by("WriteFunction"), scan).expect_err("denied");
        assert_eq!(
            denied.to_string(),
            "User: arn:aws:sts::123456789012:assumed-role/WriteRole/WriteFunction is not \
             authorized to perform: dynamodb:Scan on resource: arn:a:b:c:d:table because no \
             identity-based policy allows the dynamodb:Scan action"
        );
        let put = || asked("dynamodb:PutItem");
        assert_eq!(access.check_request(&signed_by("WriteFunction"), put), Ok(()));
        let presigned = "/?X-Amz-Credential=WriteFunction%2F20261120%2Fus-east-1";
        let (presigned, ()) = Request::get(presigned).body(()).expect("a request").into_parts();
        assert!(access.check_request(&presigned, scan).is_err());
        let (unsigned, ()) = Request::new(()).into_parts();
        assert_eq!(access.check_request(&unsigned, scan), Ok(()));
        assert_eq!(access.check("ReadFunction", &scan()[0]), Ok(()), "it has no role");
    }

    #[test]
    fn a_report_tells_what_was_used_and_denied_and_what_cannot_be_seen() {
        let access = access();
        let _ = access.check("WriteFunction", &asked("dynamodb:PutItem")[0]);
        let _ = access.check("WriteFunction", &asked("dynamodb:PutItem")[0]);
        let _ = access.check("WriteFunction", &asked("dynamodb:Scan")[0]);
        let report = access.report();
        let items = &report["roles"][0]["statements"][0];
        assert_eq!(items["sid"], "Items");
        assert_eq!(items["resources"], json!(["arn:a:b:c:d:table"]));
        let expected =
            json!({ "dynamodb:GetItem": { "used": 0 }, "dynamodb:PutItem": { "used": 2 } });
        assert_eq!(items["actions"], expected);
        let logs = &report["roles"][0]["statements"][1]["actions"]["logs:PutLogEvents"];
        assert!(logs["unchecked"].is_string(), "{logs}");
        assert_eq!(
            report["denied"],
            json!([{
                "function": "WriteFunction",
                "action": "dynamodb:Scan",
                "resource": "arn:a:b:c:d:table",
                "times": 1,
            }])
        );
    }
}
