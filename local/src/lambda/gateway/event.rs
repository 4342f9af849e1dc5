//! HTTP requests as events of the payload format 2.0 of API Gateway's HTTP APIs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_TYPE, COOKIE, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode;
use serde_json::{Value, json};
use time::macros::format_description;

use crate::clock::{self, epoch_millis};
use crate::plan::ACCOUNT_ID;

/// A request, and what the gateway knows of it.
#[derive(Debug)]
pub(super) struct Received<'a> {
    pub(super) route_key: &'a str,
    pub(super) parts: &'a Parts,
    pub(super) body: &'a Bytes,
    pub(super) peer: SocketAddr,
    pub(super) request_id: &'a str,
    pub(super) trace_header: &'a str,
    /// Who calls, if that was checked.
    pub(super) authorizer: Option<Value>,
    pub(super) now: SystemTime,
}

/// The event of a request.
pub(super) fn encode(received: &Received<'_>) -> Bytes {
    let parts = received.parts;
    let path = parts.uri.path();
    let query = parts.uri.query().unwrap_or_default();
    let source_ip = received.peer.ip().to_string();
    let host = text_of(&parts.headers, &HOST);
    let (domain, port) = host.rsplit_once(':').unwrap_or((&host, "80"));
    let (body, is_base64) = body(&parts.headers, received.body);
    let mut event = json!({
        "version": "2.0",
        "routeKey": received.route_key,
        "rawPath": path,
        "rawQueryString": query,
        "headers": headers(received, &source_ip, port),
        "requestContext": {
            "accountId": ACCOUNT_ID,
            "apiId": "local",
            "domainName": domain,
            "domainPrefix": domain.split('.').next(),
            "http": {
                "method": parts.method.as_str(),
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": source_ip,
                "userAgent": text_of(&parts.headers, &USER_AGENT),
            },
            "requestId": received.request_id,
            "routeKey": received.route_key,
            "stage": "$default",
            // As in an access log: `20/Nov/2026:10:00:00 +0000`.
            "time": clock::format(
                received.now,
                format_description!("[day]/[month repr:short]/[year]:[hour]:[minute]:[second] +0000"),
            ),
            "timeEpoch": epoch_millis(received.now),
        },
        "isBase64Encoded": is_base64,
    });
    let (cookies, parameters) = (cookies(&parts.headers), parameters(query));
    if !cookies.is_empty() {
        event["cookies"] = cookies.into();
    }
    if !parameters.is_empty() {
        event["queryStringParameters"] = json!(parameters);
    }
    if let Some(authorizer) = &received.authorizer {
        event["requestContext"]["authorizer"] = authorizer.clone();
    }
    if let Some(body) = body {
        event["body"] = body.into();
    }
    event.to_string().into()
}

/// The headers in lower case, those that came more than once joined, with those that the gateway
/// adds.
fn headers<'a>(received: &Received<'a>, source_ip: &str, port: &str) -> BTreeMap<&'a str, String> {
    let mut joined: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in &received.parts.headers {
        if *name == COOKIE || is_of_the_connection(name) {
            continue;
        }
        append(&mut joined, name.as_str(), String::from_utf8_lossy(value.as_bytes()).into_owned());
    }
    append(&mut joined, "x-forwarded-for", source_ip.to_owned());
    joined.insert("x-forwarded-port", port.to_owned());
    joined.insert("x-forwarded-proto", "http".to_owned());
    let trace = joined.entry("x-amzn-trace-id");
    trace.or_insert_with(|| received.trace_header.to_owned());
    joined
}

/// Adds a value, to those of its name if there are any.
fn append<K: Ord>(all: &mut BTreeMap<K, String>, name: K, value: String) {
    match all.get_mut(&name) {
        Some(joined) => joined.extend([",", &value]),
        None => drop(all.insert(name, value)),
    }
}

fn is_of_the_connection(name: &HeaderName) -> bool {
    [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE]
        .contains(name)
}

fn cookies(headers: &HeaderMap) -> Vec<String> {
    headers
        .get_all(COOKIE)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b';'))
        .map(|cookie| String::from_utf8_lossy(cookie).trim().to_owned())
        .filter(|cookie| !cookie.is_empty())
        .collect()
}

/// The decoded query parameters, those that came more than once joined.
fn parameters(query: &str) -> BTreeMap<String, String> {
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        append(&mut joined, decoded(name), decoded(value));
    }
    joined
}

fn decoded(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode(spaced.as_bytes()).decode_utf8_lossy().into_owned()
}

/// The body as text where its media type is one of text and it is valid UTF-8, otherwise in base64;
/// and which it is.
fn body<'a>(headers: &HeaderMap, body: &'a Bytes) -> (Option<Cow<'a, str>>, bool) {
    if body.is_empty() {
        return (None, false);
    }
    let media_type = text_of(headers, &CONTENT_TYPE);
    let text = is_text(&media_type).then(|| std::str::from_utf8(body).ok());
    match text.flatten() {
        Some(text) => (Some(Cow::Borrowed(text)), false),
        None => (Some(Cow::Owned(STANDARD.encode(body))), true),
    }
}

/// The media types that API Gateway passes on as text.
fn is_text(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    let Some((kind, subtype)) = essence.split_once('/') else {
        return false;
    };
    kind == "text"
        || kind == "application"
            && (matches!(subtype, "json" | "javascript" | "xml")
                || subtype.ends_with("+json")
                || subtype.ends_with("+xml"))
}

/// The first value of a header; empty where there is none.
fn text_of<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Cow<'a, str> {
    headers.get(name).map_or(Cow::Borrowed(""), |value| String::from_utf8_lossy(value.as_bytes()))
}
