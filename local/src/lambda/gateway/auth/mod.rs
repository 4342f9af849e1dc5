//! Who calls the HTTP API: what API Gateway checks before it invokes a function.

mod jwt;
mod principals;

pub use dynashard_wire::signature::User;
pub use principals::Principals;

use std::time::SystemTime;

use bytes::Bytes;
use dynashard_wire::signature::{self, Scope, authorization_header};
use http::request::Parts;
use serde_json::{Value, json};

use crate::plan::{Authorization, REGION};

/// Why a request is not let in. Clients are not told; the log is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    /// By its signature: 403.
    #[error("{0}")]
    Signature(&'static str),
    /// By its token: 401.
    #[error("{0}")]
    Token(&'static str),
}

/// What the event of a request says of its caller (API Gateway Developer Guide, "Create AWS Lambda proxy integrations for
/// HTTP APIs": `requestContext.authorizer` of payload format 2.0); nothing where the route lets everybody in.
pub(super) fn authorizer(
    authorization: &Authorization,
    principals: &Principals,
    parts: &Parts,
    body: &Bytes,
    now: SystemTime,
) -> Result<Option<Value>, Refused> {
    match authorization {
        Authorization::None => Ok(None),
        Authorization::Iam => {
            let scope = Scope { region: Some(REGION), service: "execute-api" };
            let user = signature::verify(parts, body, &principals.users, scope, now);
            user.map(|user| Some(iam(user))).map_err(Refused::Signature)
        }
        Authorization::Jwt(authorizer) => {
            let claims = jwt::verify(parts, authorizer, &principals.jwks, now);
            let claims = claims.map_err(Refused::Token)?;
            Ok(Some(json!({ "jwt": { "claims": jwt::as_texts(&claims), "scopes": null } })))
        }
    }
}

fn iam(user: &User) -> Value {
    // The account is the fifth part of an ARN. Users here have no unique id, so their access key stands in.
    json!({
        "iam": {
            "accessKey": user.access_key_id,
            "accountId": user.arn.split(':').nth(4),
            "callerId": user.access_key_id,
            "cognitoIdentity": null,
            "principalOrgId": null,
            "userArn": user.arn,
            "userId": user.access_key_id,
        }
    })
}

#[cfg(test)]
mod tests;
