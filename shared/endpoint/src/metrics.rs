//! What the endpoint counts, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    counted: Mutex<Counted>,
    in_flight: AtomicU64,
}

#[derive(Debug, Default)]
struct Counted {
    /// By operation and status.
    answers: BTreeMap<(String, u16), u64>,
    /// By operation.
    upstream: BTreeMap<String, u64>,
    /// By operation and name of the error.
    refusals: BTreeMap<(String, &'static str), u64>,
}

/// How many operations are told apart. Clients choose their names.
const MAX_OPERATIONS: usize = 100;

impl Metrics {
    pub(crate) fn count_answer(&self, operation: &str, status: u16) {
        let mut counted = self.counted.lock();
        let key = (operation.to_owned(), status);
        let has_room = counted.answers.len() < MAX_OPERATIONS;
        if has_room || counted.answers.contains_key(&key) {
            *counted.answers.entry(key).or_default() += 1;
        }
    }

    pub(crate) fn count_upstream(&self, operation: &str) {
        let mut counted = self.counted.lock();
        let has_room = counted.upstream.len() < MAX_OPERATIONS;
        if has_room || counted.upstream.contains_key(operation) {
            *counted.upstream.entry(operation.to_owned()).or_default() += 1;
        }
    }

    pub(crate) fn count_refusal(&self, operation: &str, name: &'static str) {
        let mut counted = self.counted.lock();
        let key = (operation.to_owned(), name);
        let has_room = counted.refusals.len() < MAX_OPERATIONS;
        if has_room || counted.refusals.contains_key(&key) {
            *counted.refusals.entry(key).or_default() += 1;
        }
    }

    /// Counts a request as under way until what this returns is dropped.
    pub(crate) fn enter(&self) -> impl Drop + '_ {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(&self.in_flight)
    }

    /// The page that Prometheus reads.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let counted = self.counted.lock();
        let mut family = |name: &str, kind: &str, help: &str, lines: Vec<(String, u64)>| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in lines {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let answers = counted.answers.iter().map(|((operation, status), count)| {
            (format!("{{operation=\"{}\",status=\"{status}\"}}", label(operation)), *count)
        });
        let help = "Requests of clients, by operation and status.";
        family("dynashard_endpoint_requests_total", "counter", help, answers.collect());
        let upstream = counted
            .upstream
            .iter()
            .map(|(operation, count)| (format!("{{operation=\"{}\"}}", label(operation)), *count));
        let help = "Requests to DynamoDB, by operation.";
        family("dynashard_endpoint_upstream_requests_total", "counter", help, upstream.collect());
        let refusals = counted.refusals.iter().map(|((operation, name), count)| {
            (format!("{{operation=\"{}\",error=\"{name}\"}}", label(operation)), *count)
        });
        let help = "Requests that the endpoint has refused itself, by operation and error.";
        family("dynashard_endpoint_refused_total", "counter", help, refusals.collect());
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        let help = "Requests under way.";
        family("dynashard_endpoint_in_flight", "gauge", help, vec![(String::new(), in_flight)]);
        text
    }
}

/// What a label can hold of a name that a client has chosen.
fn label(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).take(64).collect()
}

struct InFlight<'a>(&'a AtomicU64);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_line_for_each_counter() {
        let metrics = Metrics::default();
        metrics.count_answer("PutItem", 200);
        metrics.count_answer("PutItem", 200);
        metrics.count_answer("Put\"Item\n", 400);
        metrics.count_upstream("PutItem");
        metrics.count_refusal("Scan", "ValidationException");
        let _under_way = metrics.enter();
        let text = metrics.text();
        for line in [
            "dynashard_endpoint_requests_total{operation=\"PutItem\",status=\"200\"} 2",
            "dynashard_endpoint_requests_total{operation=\"PutItem\",status=\"400\"} 1",
            "dynashard_endpoint_upstream_requests_total{operation=\"PutItem\"} 1",
            "dynashard_endpoint_refused_total{operation=\"Scan\",error=\"ValidationException\"} 1",
            "dynashard_endpoint_in_flight 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in {text}");
        }
    }
}
