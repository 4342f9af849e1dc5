//! Who may call the local HTTP API, by their keys.

use std::fs;
use std::path::Path;

use dynashard_wire::signature::User;
use jsonwebtoken::jwk::JwkSet;
use serde::Deserialize;

use crate::StartError;

/// Who may call the HTTP API of a stack that checks it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Principals {
    /// Who signs requests.
    #[serde(default)]
    pub users: Vec<User>,
    /// The public keys of the issuer of tokens (RFC 7517), each with a `kid`.
    #[serde(default = "no_keys")]
    pub jwks: JwkSet,
}

fn no_keys() -> JwkSet {
    JwkSet { keys: Vec::new() }
}

impl Default for Principals {
    /// One user, with the access key of AWS's own examples, and no keys of tokens.
    fn default() -> Self {
        let user = User {
            access_key_id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            arn: "arn:aws:iam::123456789012:user/local".to_owned(),
        };
        Self { users: vec![user], jwks: no_keys() }
    }
}

impl Principals {
    /// Reads them from a file of JSON: `{"users": [{"access_key_id", "secret_access_key", "arn"}], "jwks": {"keys": []}}`.
    ///
    /// # Errors
    /// [`StartError::Principals`] where it cannot be read or two users have the same access key.
    pub fn read(path: &Path) -> Result<Self, StartError> {
        let wrong = |problem: String| StartError::Principals { path: path.to_path_buf(), problem };
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let principals =
            serde_json::from_str::<Self>(&text).map_err(|error| wrong(error.to_string()))?;
        for (at, user) in principals.users.iter().enumerate() {
            if principals.users[..at].iter().any(|other| other.access_key_id == user.access_key_id)
            {
                let id = &user.access_key_id;
                return Err(wrong(format!("two users have the access_key_id {id}")));
            }
            if user.arn.split(':').count() < 6 || !user.arn.starts_with("arn:") {
                return Err(wrong(format!("the arn of {} is not an ARN", user.access_key_id)));
            }
        }
        if principals.jwks.keys.iter().any(|key| key.common.key_id.is_none()) {
            return Err(wrong("a key of jwks has no kid, by which tokens name it".to_owned()));
        }
        Ok(principals)
    }
}
