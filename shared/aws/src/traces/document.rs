//! The document of a subsegment.

use std::time::Duration;

use super::Trace;
use super::seen::Outcome;
use serde::Serialize;

/// What is known of an attempt beside its outcome.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) id: u64,
    pub(super) service: &'a str,
    pub(super) operation: &'a str,
    /// Each that the request names, once.
    pub(super) tables: &'a [String],
    /// The first one is 1.
    pub(super) attempt: u32,
    /// Since the epoch.
    pub(super) began: Duration,
    pub(super) ended: Duration,
}

/// The line that a datagram begins with, and the subsegment.
pub(super) fn document(trace: &Trace, call: &Call<'_>, outcome: &Outcome) -> Vec<u8> {
    let subsegment = Subsegment {
        r#type: "subsegment",
        name: call.service,
        id: format!("{:016x}", call.id),
        trace_id: &trace.root,
        parent_id: &trace.parent,
        start_time: call.began.as_secs_f64(),
        end_time: call.ended.max(call.began).as_secs_f64(),
        namespace: "aws",
        aws: Aws {
            operation: call.operation,
            table_name: if let [table] = call.tables { Some(table) } else { None },
            table_names: call.tables,
            request_id: outcome.request_id.as_deref(),
            consumed_capacity: outcome.consumed_units,
        },
        http: outcome.status.map(|status| Http { response: Response { status } }),
        annotations: Annotations { attempt: call.attempt, error_code: outcome.code.as_deref() },
        error: outcome.is_error(),
        throttle: outcome.is_throttle(),
        fault: outcome.is_fault(),
    };
    let mut datagram = br#"{"format":"json","version":1}"#.to_vec();
    datagram.push(b'\n');
    // It holds nothing that JSON cannot.
    datagram.extend(serde_json::to_vec(&subsegment).unwrap_or_default());
    datagram
}

#[derive(Serialize)]
struct Subsegment<'a> {
    r#type: &'static str,
    name: &'a str,
    id: String,
    trace_id: &'a str,
    parent_id: &'a str,
    start_time: f64,
    end_time: f64,
    namespace: &'static str,
    aws: Aws<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<Http>,
    annotations: Annotations<'a>,
    error: bool,
    throttle: bool,
    fault: bool,
}

#[derive(Serialize)]
struct Aws<'a> {
    operation: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    table_name: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    table_names: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumed_capacity: Option<f64>,
}

#[derive(Serialize)]
struct Http {
    response: Response,
}

#[derive(Serialize)]
struct Response {
    status: u16,
}

#[derive(Serialize)]
struct Annotations<'a> {
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'a str>,
}
