//! Answers of functions as HTTP responses, by the rules of the payload format 2.0.

use std::collections::BTreeMap;

use axum::body::{Body, Bytes};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, SET_COOKIE, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::Value;

use crate::server::{IntoResponse, Response, json_response};

/// The response that an answer describes; nothing where it makes no sense.
///
/// An answer with a `statusCode` describes a whole response. Any other valid JSON is itself the
/// body.
pub(super) fn decode(payload: Bytes) -> Option<Response> {
    let answer: Answer = match serde_json::from_slice(&payload) {
        Ok(answer) => answer,
        // No object, or one whose members are of other types.
        Err(_) => return inferred(payload),
    };
    let Some(code) = answer.status_code else {
        return inferred(payload);
    };
    let status = status(&code)?;
    let body = match answer.body {
        None => Bytes::new(),
        Some(_) if status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED => {
            Bytes::new()
        }
        Some(Value::String(text)) if answer.is_base64_encoded => STANDARD.decode(text).ok()?.into(),
        Some(Value::String(text)) => text.into(),
        Some(other) => other.to_string().into(),
    };
    let has_body = !body.is_empty();
    let mut response = (status, Body::from(body)).into_response();
    let headers = response.headers_mut();
    fill(headers, answer.headers, answer.cookies)?;
    if has_body {
        let text = HeaderValue::from_static("text/plain;charset=UTF-8");
        headers.entry(CONTENT_TYPE).or_insert(text);
    }
    Some(response)
}

/// A described response. Members are read leniently here and judged by [`decode`].
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    status_code: Option<Value>,
    #[serde(default)]
    headers: Option<BTreeMap<String, Value>>,
    #[serde(default)]
    cookies: Option<Vec<String>>,
    body: Option<Value>,
    #[serde(default)]
    is_base64_encoded: bool,
}

fn inferred(payload: Bytes) -> Option<Response> {
    let body = match serde_json::from_slice(&payload).ok()? {
        Value::String(text) => text.into(),
        Value::Object(object) if object.contains_key("statusCode") => return None,
        _ => payload,
    };
    Some(json_response(StatusCode::OK, body))
}

/// A status is a number, or a string of one.
fn status(code: &Value) -> Option<StatusCode> {
    let code = match code {
        Value::Number(code) => code.as_u64()?,
        Value::String(code) => code.parse().ok()?,
        _ => return None,
    };
    let code = u16::try_from(code).ok().filter(|code| (200..600).contains(code))?;
    StatusCode::from_u16(code).ok()
}

fn fill(
    headers: &mut HeaderMap,
    described: Option<BTreeMap<String, Value>>,
    cookies: Option<Vec<String>>,
) -> Option<()> {
    for (name, value) in described.into_iter().flatten() {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let value = match value {
            Value::String(text) => text,
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => return None,
        };
        // These are the gateway's own to say.
        let reserved = [CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING, UPGRADE];
        if !reserved.contains(&name) {
            headers.insert(name, HeaderValue::from_bytes(value.as_bytes()).ok()?);
        }
    }
    for cookie in cookies.into_iter().flatten() {
        headers.append(SET_COOKIE, HeaderValue::from_bytes(cookie.as_bytes()).ok()?);
    }
    Some(())
}
