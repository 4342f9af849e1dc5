//! JSON Web Tokens, as the authorizers of HTTP APIs check them (API Gateway Developer Guide, "Control access to HTTP APIs
//! with JWT authorizers in API Gateway"): signed with RSA by a key that their `kid` names, of the issuer, for an audience,
//! and within their time. There is no leeway.

use std::collections::BTreeMap;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::request::Parts;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, decode_header};
use ring::signature::{
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RsaPublicKeyComponents,
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

/// What the token says, if it is signed by its key. Whether that is for us, and at this time, is not looked at here.
fn signed_claims(token: &str, keys: &JwkSet) -> Result<Claims, &'static str> {
    const NO_TOKEN: &str = "the Authorization header is no token";
    const NOT_SIGNED: &str = "the token is not signed by its key";
    let header = decode_header(token).map_err(|_| NO_TOKEN)?;
    let kid = header.kid.as_deref().ok_or("the token names no key")?;
    let key = keys.find(kid).ok_or("no key of jwks has the kid of the token")?;
    let parameters = match header.alg {
        Algorithm::RS256 => &RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &RSA_PKCS1_2048_8192_SHA512,
        _ => return Err("the token is not signed with RS256, RS384 or RS512"),
    };
    let key = DecodingKey::from_jwk(key).map_err(|_| "the key of the token is not known")?;
    let DecodingKeyKind::RsaModulusExponent { n, e } = key.kind() else { return Err(NOT_SIGNED) };
    let (message, signature) = token.rsplit_once('.').ok_or(NO_TOKEN)?;
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| NOT_SIGNED)?;
    // By the library that the stack's TLS has anyway.
    let verified =
        RsaPublicKeyComponents { n, e }.verify(parameters, message.as_bytes(), &signature);
    verified.map_err(|_| NOT_SIGNED)?;
    let claims =
        message.split_once('.').and_then(|(_, claims)| URL_SAFE_NO_PAD.decode(claims).ok());
    claims.and_then(|claims| serde_json::from_slice(&claims).ok()).ok_or(NOT_SIGNED)
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
