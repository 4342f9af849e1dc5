//! What the endpoint counts, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use dynashard_core::{Decision, HeldWrites, Hindrance, Outcome};
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
    /// By table, diagnosis, action, outcome and hindrance, by the names that `dynashard decisions` has for them.
    decisions: BTreeMap<(String, [&'static str; 4]), u64>,
    /// By table and code.
    failures: BTreeMap<(String, &'static str), u64>,
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

    pub(crate) fn count_decision(&self, table: &str, decision: &Decision, outcome: Outcome) {
        let hindrance = decision.hindrance.map_or("", Hindrance::as_str);
        let what = [decision.code(), decision.action.as_str(), outcome.as_str(), hindrance];
        *self.counted.lock().decisions.entry((table.to_owned(), what)).or_default() += 1;
    }

    /// Counts that a load could not be reported or decided on.
    pub(crate) fn count_failure(&self, table: &str, code: &'static str) {
        *self.counted.lock().failures.entry((table.to_owned(), code)).or_default() += 1;
    }

    /// Counts a request as under way until what this returns is dropped.
    pub(crate) fn enter(&self) -> impl Drop + '_ {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(&self.in_flight)
    }

    /// The page that Prometheus reads. The writes that are held are given by table.
    pub(crate) fn text(&self, writes: &[(&str, HeldWrites)]) -> String {
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
        let of_table = |table: &str| format!("{{table=\"{table}\"}}");
        let now = writes.iter().map(|(table, held)| (of_table(table), whole(held.now)));
        let help = "Throttled writes that are held and tried again.";
        family("dynashard_endpoint_writes_held", "gauge", help, now.collect());
        let total = writes.iter().map(|(table, held)| (of_table(table), held.total));
        let help = "Throttled writes that were held, or are.";
        family("dynashard_endpoint_writes_held_total", "counter", help, total.collect());
        let decisions = counted.decisions.iter().map(|((table, what), count)| {
            let [diagnosis, action, outcome, hindrance] = what;
            let labels = format!(
                "{{table=\"{table}\",diagnosis=\"{diagnosis}\",action=\"{action}\",outcome=\"{outcome}\",hindrance=\"{hindrance}\"}}"
            );
            (labels, *count)
        });
        let help = "Decisions on shard counts that this endpoint has made, as `dynashard decisions` names them.";
        family("dynashard_endpoint_decisions_total", "counter", help, decisions.collect());
        let failures = counted.failures.iter().map(|((table, code), count)| {
            (format!("{{table=\"{table}\",code=\"{code}\"}}"), *count)
        });
        let help = "Loads that could not be reported or decided on, by code.";
        family("dynashard_endpoint_decisions_failed_total", "counter", help, failures.collect());
        text
    }
}

fn whole(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
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
        metrics.count_failure("orders", "internal");
        let text = metrics.text(&[("orders", HeldWrites { now: 2, total: 7 })]);
        for line in [
            "dynashard_endpoint_requests_total{operation=\"PutItem\",status=\"200\"} 2",
            "dynashard_endpoint_requests_total{operation=\"PutItem\",status=\"400\"} 1",
            "dynashard_endpoint_upstream_requests_total{operation=\"PutItem\"} 1",
            "dynashard_endpoint_refused_total{operation=\"Scan\",error=\"ValidationException\"} 1",
            "dynashard_endpoint_in_flight 1",
            "dynashard_endpoint_writes_held{table=\"orders\"} 2",
            "dynashard_endpoint_writes_held_total{table=\"orders\"} 7",
            "dynashard_endpoint_decisions_failed_total{table=\"orders\",code=\"internal\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in {text}");
        }
    }
}
