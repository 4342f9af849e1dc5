//! JSON Web Tokens, as the authorizers of HTTP APIs check them (API Gateway Developer Guide, "Control access to HTTP APIs
//! with JWT authorizers in API Gateway"): signed with RSA by a key that their `kid` names, of the issuer, for an audience,
//! and within their time. There is no leeway.

use std::collections::BTreeMap;
use std::time::SystemTime;

use http::request::Parts;
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::signature::{Error as SignatureError, Verifier};
use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind, EncodingKey, Validation, decode, decode_header,
};
use ring::signature::{
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents,
};
use serde_json::{Map, Value};

use super::authorization_header;
use crate::clock::epoch_millis;
use crate::plan::JwtAuthorizer;

type Claims = Map<String, Value>;

/// The claims of the token that the request carries, or why it is not taken.
pub(super) fn verify(
    parts: &Parts,
    authorizer: &JwtAuthorizer,
    keys: &JwkSet,
    now: SystemTime,
) -> Result<Claims, &'static str> {
    let header = authorization_header(parts)?.trim();
    // The scheme may be left out.
    let token = match header.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        Some(_) => return Err("the Authorization header is no bearer token"),
        None => header,
    };
    let claims = signed_claims(token, keys)?;
    if claims.get("iss").and_then(Value::as_str) != Some(&authorizer.issuer) {
        return Err("the token is of another issuer");
    }
    // Cognito's access tokens name their client in place of an audience.
    let audience = claims.get("aud").or_else(|| claims.get("client_id"));
    let is_ours = |value: &Value| {
        value.as_str().is_some_and(|text| authorizer.audiences.iter().any(|ours| ours == text))
    };
    let is_for_us = audience.is_some_and(|audience| match audience {
        Value::Array(audiences) => audiences.iter().any(is_ours),
        one => is_ours(one),
    });
    if !is_for_us {
        return Err("the token is for another audience");
    }
    check_time(&claims, now)?;
    Ok(claims)
}

fn signed_claims(token: &str, keys: &JwkSet) -> Result<Claims, &'static str> {
    // The process has one provider; another one that came first can do no less.
    let _ = PROVIDER.install_default();
    let header = decode_header(token).map_err(|_| "the Authorization header is no token")?;
    let kid = header.kid.as_deref().ok_or("the token names no key")?;
    let key = keys.find(kid).ok_or("no key of jwks has the kid of the token")?;
    if rsa(header.alg).is_none() {
        return Err("the token is not signed with RS256, RS384 or RS512");
    }
    let key = DecodingKey::from_jwk(key).map_err(|_| "the key of the token is not known")?;
    let mut validation = Validation::new(header.alg);
    // What they say is compared above, with the clock of the stack.
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    let token = decode::<Claims>(token, &key, &validation);
    token.map(|token| token.claims).map_err(|_| "the token is not signed by its key")
}

fn check_time(claims: &Claims, now: SystemTime) -> Result<(), &'static str> {
    // No claim is of a time at which the fraction counts.
    #[expect(
        clippy::cast_precision_loss,
        reason = "milliseconds of this age are whole in a double"
    )]
    let now_secs = epoch_millis(now) as f64 / 1000.0;
    let time = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or("a time of the token is not a number"),
    };
    match time("exp")? {
        None => return Err("the token has no exp"),
        Some(exp) if exp <= now_secs => return Err("the token has expired"),
        Some(_) => {}
    }
    for name in ["nbf", "iat"] {
        if time(name)?.is_some_and(|begin| begin > now_secs) {
            return Err("the token is not valid yet");
        }
    }
    Ok(())
}

/// The claims as API Gateway passes them on: each is a text, and a list is `[a b]`.
pub(super) fn as_texts(claims: &Claims) -> BTreeMap<&str, String> {
    let texts = claims.iter().filter(|(_, value)| !value.is_null());
    texts.map(|(name, value)| (name.as_str(), as_text(value))).collect()
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(members) => {
            let members = members.iter().map(as_text).collect::<Vec<_>>();
            format!("[{}]", members.join(" "))
        }
        other => other.to_string(),
    }
}

fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    match algorithm {
        Algorithm::RS256 => Some(&RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Some(&RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Some(&RSA_PKCS1_2048_8192_SHA512),
        _ => None,
    }
}

/// The signatures of RSA, by the library that the stack's TLS has anyway. HTTP APIs know no others.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: no_signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "jsonwebtoken names the type")]
fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "jsonwebtoken names the type")]
fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let parameters = rsa(*algorithm).ok_or(ErrorKind::InvalidAlgorithm)?;
    let DecodingKeyKind::RsaModulusExponent { n, e } = key.kind() else {
        return Err(ErrorKind::InvalidKeyFormat.into());
    };
    let key = RsaPublicKeyComponents { n: n.clone(), e: e.clone() };
    Ok(Box::new(Rsa { algorithm: *algorithm, parameters, key }))
}

struct Rsa {
    algorithm: Algorithm,
    parameters: &'static RsaParameters,
    key: RsaPublicKeyComponents<Vec<u8>>,
}

impl Verifier<Vec<u8>> for Rsa {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), SignatureError> {
        let verified = self.key.verify(self.parameters, message, signature);
        verified.map_err(|_| SignatureError::new())
    }
}

impl JwtVerifier for Rsa {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
