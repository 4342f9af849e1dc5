//! What the processes print: passed on to the log of this process line by line, with the last of it
//! kept for the caller who asks.

use crate::cloudwatch::EmbeddedMetrics;
use serde::Deserialize;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tracing::Level;

/// The lines of one environment.
#[derive(Debug)]
pub(crate) struct Log {
    function: String,
    /// The newest bytes of the current invocation.
    tail: Mutex<VecDeque<u8>>,
}

impl Log {
    pub(super) fn new(function: &str) -> Self {
        Self { function: function.to_owned(), tail: Mutex::default() }
    }

    /// Forgets the tail, at the start of an invocation.
    pub(super) fn clear_tail(&self) {
        self.with_tail(VecDeque::clear);
    }

    /// The last 4 KB of the current invocation.
    pub(super) fn tail(&self) -> Vec<u8> {
        self.with_tail(|tail| tail.iter().copied().collect())
    }

    /// Adds a line that is for the tail only, such as Lambda's own.
    pub(super) fn note(&self, line: &str) {
        self.with_tail(|tail| {
            tail.extend(line.as_bytes());
            tail.push_back(b'\n');
            let excess = tail.len().saturating_sub(MAX_TAIL);
            tail.drain(..excess);
        });
    }

    /// Passes every line of `stream` on, until it ends; the metrics in it go to `metrics`.
    pub(super) async fn follow(&self, stream: impl AsyncRead + Unpin, metrics: &EmbeddedMetrics) {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        loop {
            line.clear();
            match reader.read_until(b'\n', &mut line).await {
                Ok(0) => return,
                Ok(_) => {
                    let line = String::from_utf8_lossy(&line);
                    let line = line.trim_end();
                    metrics.read(&self.function, line);
                    self.line(line);
                }
                Err(error) => {
                    tracing::warn!(function = self.function, %error, "the log was cut off");
                    return;
                }
            }
        }
    }

    fn line(&self, line: &str) {
        self.note(line);
        // One log for all, so that lines of several processes do not mix and whoever has the
        // terminal can hold all of them back.
        match level(line) {
            Level::ERROR => tracing::error!("[{}] {line}", self.function),
            Level::WARN => tracing::warn!("[{}] {line}", self.function),
            _ => tracing::info!("[{}] {line}", self.function),
        }
    }

    fn with_tail<T>(&self, change: impl FnOnce(&mut VecDeque<u8>) -> T) -> T {
        // A panic while they are held leaves the bytes valid.
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut tail)
    }
}

/// How severe a line is, by its member `level` if it is a line of JSON. What a function has chosen to log is shown, so that
/// nothing is below INFO, as Lambda takes everything else for.
fn level(line: &str) -> Level {
    #[derive(Deserialize)]
    struct Line {
        level: String,
    }
    let level = serde_json::from_str::<Line>(line).ok().map(|line| line.level);
    match level.as_deref() {
        Some("ERROR" | "FATAL") => Level::ERROR,
        Some("WARN") => Level::WARN,
        _ => Level::INFO,
    }
}

/// What `X-Amz-Log-Type: Tail` returns.
const MAX_TAIL: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::manual::ManualClock;
    use crate::cloudwatch::MetricStore;
    use std::sync::Arc;
    use std::time::SystemTime;

    fn metrics() -> (EmbeddedMetrics, Arc<MetricStore>) {
        let store = Arc::new(MetricStore::default());
        let clock = ManualClock::at(SystemTime::UNIX_EPOCH);
        (EmbeddedMetrics::new(Arc::clone(&store), clock), store)
    }

    #[tokio::test]
    async fn a_metric_among_the_lines_is_put_and_stays_a_line() {
        let log = Log::new("Function");
        let (metrics, store) = metrics();
        let metric = r#"{"_aws":{"Timestamp":7,"CloudWatchMetrics":[{"Namespace":"Test","Dimensions":[[]],"Metrics":[{"Name":"Sold"}]}]},"Sold":3}"#;
        let lines = format!("before\n{metric}\nafter\n");
        log.follow(lines.as_bytes(), &metrics).await;
        let listed: Vec<_> = store.list(0).into_iter().map(|metric| metric.name).collect();
        assert_eq!(listed, ["Sold"]);
        assert_eq!(log.tail(), lines.as_bytes());
    }

    #[test]
    fn regression_an_error_of_a_function_was_logged_as_information() {
        for (line, expected) in [
            (
                r#"{"timestamp":"2026","level":"ERROR","message":"the request failed"}"#,
                Level::ERROR,
            ),
            (r#"{"level":"FATAL"}"#, Level::ERROR),
            (r#"{"level":"WARN"}"#, Level::WARN),
            (r#"{"level":"DEBUG"}"#, Level::INFO),
            (r#"{"_aws":{}}"#, Level::INFO),
            ("thread 'main' panicked", Level::INFO),
        ] {
            assert_eq!(level(line), expected, "{line}");
        }
    }

    #[tokio::test]
    async fn the_tail_holds_the_newest_4_kilobytes_of_one_invocation() {
        let log = Log::new("Function");
        let (metrics, _) = metrics();
        log.follow(&b"before\n"[..], &metrics).await;
        log.clear_tail();
        log.follow(&b"first\nnot valid: \xff\nwithout an end"[..], &metrics).await;
        let tail = String::from_utf8(log.tail()).expect("text");
        assert_eq!(tail, "first\nnot valid: \u{fffd}\nwithout an end\n");
        log.note(&"x".repeat(5000));
        assert_eq!(log.tail().len(), MAX_TAIL);
        assert_eq!(log.tail().last(), Some(&b'\n'));
    }
}
