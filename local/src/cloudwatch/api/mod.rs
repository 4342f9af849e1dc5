//! The operations of the public `cloudwatch` endpoint, in either protocol.

mod alarms;
mod data;
mod insight;
mod metrics;
mod put;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::Request;
use serde_json::Value;

use super::alarms::Alarms;
use super::error::{ApiError, Fault};
use super::metrics::Metrics;
use super::wire::{Call, MAX_BODY, Members, Protocol, unknown_protocol};
use crate::access::Access;
use crate::clock::{SharedClock, since_epoch};
use crate::plan::{Asked, EVERY, alarm_arn, insight_rule_arn};
use crate::server::{Handler, Response, read_body};

/// The endpoint.
#[derive(Debug)]
pub(crate) struct CloudWatchApi {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) alarms: Arc<Alarms>,
    pub(crate) clock: SharedClock,
    pub(crate) access: Arc<Access>,
}

impl CloudWatchApi {
    fn execute(&self, Call { operation, input }: &Call) -> Result<Value, ApiError> {
        let input = Members::of(input)?;
        let Self { metrics, alarms, .. } = self;
        let now = since_epoch(self.clock.now());
        match operation.as_str() {
            "DescribeAlarms" => alarms::describe(alarms, &input),
            "DescribeInsightRules" => insight::describe(&metrics.observed, &input),
            "GetInsightRuleReport" => insight::report(&metrics.observed, &input),
            "GetMetricData" => data::get(&**metrics, &input, now),
            "GetMetricStatistics" => data::statistics(&**metrics, &input, now),
            "ListMetrics" => metrics::list(metrics, &input, now),
            "PutMetricData" => put::put(&metrics.put, &input, now),
            "SetAlarmState" => alarms::set_state(alarms, &input),
            other => {
                let text = format!("the local stack does not know the operation {other}");
                Err(ApiError::new(Fault::UNKNOWN_OPERATION, text))
            }
        }
    }
}

/// What a call needs permission for, as "Actions, resources, and condition keys for Amazon CloudWatch" in
/// AWS's Service Authorization Reference lists it.
fn asked(Call { operation, input }: &Call) -> Asked {
    let text = |name| Members::of(input).and_then(|input| input.require(name, Members::text));
    // What names no resource is refused as invalid afterwards.
    let name = |member| text(member).unwrap_or_default();
    let resource = match operation.as_str() {
        // CloudWatch asks for the permission for all alarms, whichever are named.
        "DescribeAlarms" => alarm_arn("*"),
        "SetAlarmState" => alarm_arn(name("AlarmName")),
        "GetInsightRuleReport" => insight_rule_arn(name("RuleName")),
        _ => EVERY.to_owned(),
    };
    Asked::of(format!("cloudwatch:{operation}"), resource)
}

impl Handler for CloudWatchApi {
    async fn handle(&self, request: Request, _peer: SocketAddr) -> Response {
        let (parts, body) = request.into_parts();
        let body = read_body(body, MAX_BODY).await.map_err(|error| {
            error.pick(ApiError::too_large(), ApiError::unreadable("the connection broke"))
        });
        let Some(protocol) = Protocol::of(&parts) else { return unknown_protocol() };
        let answer = body.and_then(|body| {
            let call = protocol.read(&parts, &body)?;
            self.access
                .check_request(&parts, || vec![asked(&call)])
                .map_err(|denied| ApiError::new(Fault::ACCESS_DENIED, denied.to_string()))?;
            Ok(protocol.answer(self.execute(&call)?))
        });
        answer.unwrap_or_else(|error| protocol.error(&error))
    }
}
