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
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

use crate::clock::epoch_millis;
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
    let event = Event {
        version: "2.0",
        route_key: received.route_key,
        raw_path: path,
        raw_query_string: query,
        cookies: cookies(&parts.headers),
        headers: headers(received, &source_ip, port),
        query_string_parameters: parameters(query),
        request_context: Context {
            account_id: ACCOUNT_ID,
            api_id: API_ID,
            authorizer: received.authorizer.as_ref(),
            domain_name: domain,
            domain_prefix: domain.split('.').next().unwrap_or(domain),
            http: Http {
                method: parts.method.as_str(),
                path,
                protocol: "HTTP/1.1",
                source_ip: &source_ip,
                user_agent: text_of(&parts.headers, &USER_AGENT),
            },
            request_id: received.request_id,
            route_key: received.route_key,
            stage: "$default",
            time: clf_time(received.now),
            time_epoch: epoch_millis(received.now),
        },
        body,
        is_base64_encoded: is_base64,
    };
    // An event has nothing that JSON cannot hold.
    serde_json::to_vec(&event).map(Bytes::from).unwrap_or_default()
}

const API_ID: &str = "local";

/// As in an access log: `20/Nov/2026:10:00:00 +0000`.
const CLF_FORMAT: StaticFormatDescription =
    format_description!("[day]/[month repr:short]/[year]:[hour]:[minute]:[second] +0000");

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    version: &'static str,
    route_key: &'a str,
    raw_path: &'a str,
    raw_query_string: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cookies: Vec<String>,
    headers: BTreeMap<&'a str, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    query_string_parameters: BTreeMap<String, String>,
    request_context: Context<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Cow<'a, str>>,
    is_base64_encoded: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Context<'a> {
    account_id: &'static str,
    api_id: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    authorizer: Option<&'a Value>,
    domain_name: &'a str,
    domain_prefix: &'a str,
    http: Http<'a>,
    request_id: &'a str,
    route_key: &'a str,
    stage: &'static str,
    time: String,
    time_epoch: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Http<'a> {
    method: &'a str,
    path: &'a str,
    protocol: &'static str,
    source_ip: &'a str,
    user_agent: Cow<'a, str>,
}

/// The headers in lower case, those that came more than once joined, with those that the gateway
/// adds.
fn headers<'a>(received: &Received<'a>, source_ip: &str, port: &str) -> BTreeMap<&'a str, String> {
    let mut joined: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in &received.parts.headers {
        if *name == COOKIE || is_of_the_connection(name) {
            continue;
        }
        append(&mut joined, name.as_str(), &String::from_utf8_lossy(value.as_bytes()));
    }
    append(&mut joined, "x-forwarded-for", source_ip);
    joined.insert("x-forwarded-port", port.to_owned());
    joined.insert("x-forwarded-proto", "http".to_owned());
    let trace = joined.entry("x-amzn-trace-id");
    trace.or_insert_with(|| received.trace_header.to_owned());
    joined
}

fn append<'a>(headers: &mut BTreeMap<&'a str, String>, name: &'a str, value: &str) {
    headers
        .entry(name)
        .and_modify(|joined| {
            joined.push(',');
            joined.push_str(value);
        })
        .or_insert_with(|| value.to_owned());
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
        let value = decoded(value);
        joined
            .entry(decoded(name))
            .and_modify(|joined| {
                joined.push(',');
                joined.push_str(&value);
            })
            .or_insert(value);
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

fn clf_time(time: SystemTime) -> String {
    let text = OffsetDateTime::from(time).format(CLF_FORMAT);
    text.expect("UTC has all components of the format")
}
