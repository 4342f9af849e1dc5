//! The operations of the public `cloudwatch` endpoint, over whichever protocol they are asked.

mod alarms;
mod data;
mod error;
mod insight;
mod list;
mod put;
#[cfg(test)]
mod tests;

pub(super) use error::{ApiError, Fault};

use super::wire::{Call, Document, MAX_BODY, Members, Protocol};
use super::{AlarmRegistry, MetricId, MetricStore, Metrics};
use crate::clock::SharedClock;
use crate::dynamodb::endpoint::Observed;
use crate::server::{BodyError, Handler, Response, read_body};
use http::Request;
use hyper::body::Incoming;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The endpoint.
#[derive(Debug)]
pub(crate) struct CloudWatchApi {
    metrics: Arc<Metrics>,
    put: Arc<MetricStore>,
    observed: Observed,
    alarms: Arc<dyn AlarmRegistry>,
    clock: SharedClock,
}

impl CloudWatchApi {
    /// An endpoint that puts metrics into `put`, and shows `metrics`, which contain them.
    pub(crate) fn new(
        metrics: Arc<Metrics>,
        put: Arc<MetricStore>,
        observed: Observed,
        alarms: Arc<dyn AlarmRegistry>,
        clock: SharedClock,
    ) -> Self {
        Self { metrics, put, observed, alarms, clock }
    }

    fn execute(&self, Call { operation, input }: &Call) -> Result<Document, ApiError> {
        let input = Members::of(input)?;
        match operation.as_str() {
            "DescribeAlarms" => alarms::describe(&*self.alarms, &input),
            "DescribeInsightRules" => insight::describe(&self.observed, &input),
            "GetInsightRuleReport" => insight::report(&self.observed, &input),
            "GetMetricData" => data::get(&*self.metrics, &input, self.since_epoch()),
            "GetMetricStatistics" => data::statistics(&*self.metrics, &input, self.since_epoch()),
            "ListMetrics" => list::list(&self.metrics, &input, self.since_epoch()),
            "PutMetricData" => put::put(&self.put, &input, self.since_epoch()),
            "SetAlarmState" => alarms::set_state(&*self.alarms, &input),
            other => {
                let text = format!("the local stack does not know the operation {other}");
                Err(ApiError::new(Fault::UnknownOperation, text))
            }
        }
    }

    fn since_epoch(&self) -> Duration {
        self.clock.now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }
}

impl Handler for CloudWatchApi {
    async fn handle(&self, request: Request<Incoming>, _peer: SocketAddr) -> Response {
        let (parts, body) = request.into_parts();
        let protocol = Protocol::of(&parts);
        let body = read_body(body, MAX_BODY).await.map_err(|error| match error {
            BodyError::TooLarge => ApiError::too_large(),
            BodyError::Broken => ApiError::unreadable("the connection broke"),
        });
        let answer = body.and_then(|body| {
            let call = protocol.read(&parts, &body)?;
            Ok(protocol.answer(&call.operation, &self.execute(&call)?))
        });
        answer.unwrap_or_else(|error| protocol.error(&error))
    }
}

/// The most dimensions of a metric.
const MAX_DIMENSIONS: usize = 30;

/// The metric of these names (`CloudWatch` API: `Metric`).
fn metric_id(namespace: &str, name: &str, members: &Members<'_>) -> Result<MetricId, ApiError> {
    let mut dimensions = BTreeMap::new();
    for dimension in members.structures("Dimensions")? {
        let name = dimension.require("Name", Members::text)?;
        let value = dimension.require("Value", Members::text)?;
        if dimensions.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(ApiError::invalid(&dimension.name("Name"), "is there twice"));
        }
    }
    if dimensions.len() > MAX_DIMENSIONS {
        let problem = format!("has more than {MAX_DIMENSIONS} members");
        return Err(ApiError::invalid(&members.name("Dimensions"), &problem));
    }
    Ok(MetricId { namespace: namespace.to_owned(), name: name.to_owned(), dimensions })
}

/// The dimensions of a metric, as answers have them.
fn dimensions(metric: &MetricId) -> Document {
    let dimensions = metric.dimensions.iter();
    Document::list(dimensions.map(|(name, value)| {
        super::wire::structure([("Name", name.into()), ("Value", value.into())])
    }))
}

/// Where a page begins, of what is counted from zero. Tokens are the counts themselves.
fn first_of_page(members: &Members<'_>) -> Result<usize, ApiError> {
    let token = members.text("NextToken")?;
    token.map_or(Ok(0), |token| {
        let text = "The value of NextToken is not valid".to_owned();
        token.parse().map_err(|_| ApiError::new(Fault::InvalidNextToken, text))
    })
}

/// How many items a page has, of which one more than `most` is refused.
fn page_size(members: &Members<'_>, name: &str, most: usize) -> Result<usize, ApiError> {
    match members.whole(name)?.map(usize::try_from) {
        None => Ok(most),
        Some(Ok(size)) if (1..=most).contains(&size) => Ok(size),
        Some(_) => Err(ApiError::invalid(&members.name(name), &format!("must be 1 to {most}"))),
    }
}

/// The items of a page, and the token of the next one.
fn page<T>(items: Vec<T>, first: usize, size: usize) -> (Vec<T>, Document) {
    let has_more = items.len() > first.saturating_add(size);
    let next = has_more.then(|| (first + size).to_string());
    (items.into_iter().skip(first).take(size).collect(), next.into())
}
