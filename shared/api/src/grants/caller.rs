//! Who has sent a request, as its event says.

use std::collections::BTreeMap;

use serde_json::Value;

/// Who sent a request, as an authorizer of the API found out (API Gateway Developer Guide, "Create AWS Lambda proxy
/// integrations for HTTP APIs": `requestContext.authorizer` of payload format 2.0).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Caller {
    /// By a Signature Version 4.
    Iam { arn: String },
    /// By a JSON Web Token.
    Jwt { claims: BTreeMap<String, Claim> },
}

/// The value of a claim that is neither absent nor empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claim {
    One(String),
    Many(Vec<String>),
}

impl Caller {
    /// `None` if no authorizer has looked at the request.
    pub(super) fn of_authorizer(authorizer: &Value) -> Option<Self> {
        if let Some(arn) = authorizer.pointer("/iam/userArn").and_then(Value::as_str) {
            return Some(Self::Iam { arn: arn.to_owned() });
        }
        let claims = authorizer.pointer("/jwt/claims")?.as_object()?;
        let claims = claims
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), Claim::of_json(value)?)))
            .collect();
        Some(Self::Jwt { claims })
    }

    /// A claim that has one value.
    pub(super) fn claim(&self, name: &str) -> Option<&str> {
        match self {
            Self::Jwt { claims } => match claims.get(name)? {
                Claim::One(value) => Some(value),
                Claim::Many(_) => None,
            },
            Self::Iam { .. } => None,
        }
    }
}

impl Claim {
    fn of_json(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::of_text(text),
            Value::Array(members) => {
                let texts = members.iter().filter_map(scalar).filter(|text| !text.is_empty());
                Some(Self::Many(texts.collect()))
            }
            value => scalar(value).map(Self::One),
        }
    }

    /// HTTP APIs write every claim as a text, and a list as `[a b]`. What looks like a list is taken for one, so that no
    /// claim of one value passes for the list's text where a key is filled in.
    fn of_text(text: &str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        Some(match inner {
            Some(inner) => {
                let members = inner.split(' ').filter(|member| !member.is_empty());
                Self::Many(members.map(str::to_owned).collect())
            }
            None => Self::One(text.to_owned()),
        })
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &str> {
        let members = match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(members) => members,
        };
        members.iter().map(String::as_str)
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
