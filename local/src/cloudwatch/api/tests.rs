mod alarms;
mod bad_input;
mod insights;
mod metrics;
mod protocols;

use std::num::NonZeroU32;

use bytes::Bytes;
use dynashard_limits::partition::Limits;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::*;
use std::time::{Duration, SystemTime};

use crate::clock::manual::ManualClock;
use crate::dynamodb::endpoint::Observed;
use crate::server::{self, testing::send};

/// A whole minute: 2026-11-18T11:07:00Z.
const NOW: u64 = 1_795_000_020;

/// The endpoint on a socket, with a clock that does not move.
struct Served {
    observed: Arc<Observed>,
    alarms: Arc<Alarms>,
    url: String,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
}

impl Served {
    async fn start() -> Self {
        let write = NonZeroU32::new(2).expect("positive");
        let limits = Limits { partition_wcu: write, ..Limits::default() };
        let observed = Arc::new(Observed::of(limits));
        let metrics = Arc::new(Metrics { put: Arc::default(), observed: Arc::clone(&observed) });
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(NOW * 1000 + 250);
        let clock: SharedClock = ManualClock::at(now);
        let (alarms, _) = Alarms::new(alarms::two_alarms(), &clock);
        let alarms = Arc::new(alarms);
        let access = Arc::default();
        let api = CloudWatchApi { metrics, alarms: Arc::clone(&alarms), clock, access };
        let listener = server::bind_free().await.expect("a port");
        let url = server::url(&listener).expect("an address");
        let (stop, stopped) = watch::channel(false);
        let server = tokio::spawn(server::serve(listener, Arc::new(api), stopped));
        Self { observed, alarms, url, stop, server }
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        self.server.await.expect("the server ends");
    }

    async fn exchange(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> (http::response::Parts, Bytes) {
        let request = Request::post(format!("{}{path}", self.url));
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        send(request, body).await.expect("no panic")
    }

    /// Asks in AWS JSON.
    async fn json(&self, operation: &str, body: &Value) -> (StatusCode, Value) {
        let target = format!("GraniteServiceVersion20100801.{operation}");
        let headers = [("x-amz-target", target.as_str())];
        let (parts, body) = self.exchange("/", &headers, body.to_string()).await;
        (parts.status, serde_json::from_slice(&body).expect("JSON"))
    }

    /// Asks for what succeeds.
    async fn ok(&self, operation: &str, body: Value) -> Value {
        let (status, answer) = self.json(operation, &body).await;
        assert_eq!(status, StatusCode::OK, "{operation} {body}: {answer}");
        answer
    }

    async fn put(&self, at: u64, value: f64) {
        let datum = json!({ "MetricName": "Sold", "Timestamp": at, "Value": value });
        self.ok("PutMetricData", json!({ "Namespace": "Shop", "MetricData": [datum] })).await;
    }
}

fn sold(period: u64, statistic: &str) -> Value {
    json!({
        "Id": "sold",
        "MetricStat": {
            "Metric": { "Namespace": "Shop", "MetricName": "Sold" },
            "Period": period,
            "Stat": statistic,
        },
    })
}
