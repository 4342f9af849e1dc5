//! What the processes print: passed on to the log of this process line by line, with the last of it
//! kept for the caller who asks.

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use crate::cloudwatch::EmbeddedMetrics;
use crate::plan::{Function, LogLevel};

/// The lines of one environment.
#[derive(Debug)]
pub(crate) struct Log {
    function: String,
    /// The least severe lines that are passed on.
    least: LogLevel,
    /// The newest bytes of the current invocation.
    tail: Mutex<VecDeque<u8>>,
}

impl Log {
    /// The log of an environment of this function. Lambda filters it only in its JSON format.
    pub(super) fn new(function: &Function) -> Self {
        let least = match function.log_format.as_str() {
            "JSON" => function.log_level.unwrap_or(LogLevel::Info),
            _ => LogLevel::Trace,
        };
        Self { function: function.name.clone(), least, tail: Mutex::default() }
    }

    /// Forgets the tail, at the start of an invocation.
    pub(super) fn clear_tail(&self) {
        self.tail.lock().clear();
    }

    /// The last 4 KB of the current invocation.
    pub(super) fn tail(&self) -> Vec<u8> {
        self.tail.lock().iter().copied().collect()
    }

    /// Adds a line that is for the tail only, such as Lambda's own.
    pub(super) fn note(&self, line: &str) {
        let mut tail = self.tail.lock();
        tail.extend(line.as_bytes());
        tail.push_back(b'\n');
        let excess = tail.len().saturating_sub(MAX_TAIL);
        tail.drain(..excess);
    }

    /// Passes the lines of `stream` on, until it ends, without those that Lambda drops for their level. The metrics in
    /// them go to `metrics`.
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
                    let level = level_of(line);
                    if self.least == LogLevel::Trace || self.least <= level {
                        metrics.read(&self.function, line);
                        self.pass_on(line, level);
                    }
                }
                Err(error) => {
                    tracing::warn!(function = self.function, %error, "the log was cut off");
                    return;
                }
            }
        }
    }

    fn pass_on(&self, line: &str, level: LogLevel) {
        self.note(line);
        // One log for all, so that lines of several processes do not mix and whoever has the
        // terminal can hold all of them back.
        match level {
            LogLevel::Error | LogLevel::Fatal => tracing::error!("[{}] {line}", self.function),
            LogLevel::Warn => tracing::warn!("[{}] {line}", self.function),
            _ => tracing::info!("[{}] {line}", self.function),
        }
    }
}

/// How severe Lambda takes a line to be: what it says, if it is JSON with a level and a time, or else `INFO`, plain text,
/// too ("Log-level filtering" in Lambda's developer guide).
fn level_of(line: &str) -> LogLevel {
    #[derive(Deserialize)]
    struct Line {
        level: String,
        timestamp: String,
    }
    let line = serde_json::from_str::<Line>(line).ok();
    let timed = line.filter(|line| OffsetDateTime::parse(&line.timestamp, &Rfc3339).is_ok());
    timed.and_then(|line| LogLevel::parse(&line.level)).unwrap_or(LogLevel::Info)
}

/// What `X-Amz-Log-Type: Tail` returns.
const MAX_TAIL: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use super::*;
    use crate::clock::manual::ManualClock;
    use crate::cloudwatch::MetricStore;
    use crate::plan::testing::function;

    fn metrics() -> (EmbeddedMetrics, Arc<MetricStore>) {
        let store = Arc::new(MetricStore::default());
        let clock = ManualClock::at(SystemTime::UNIX_EPOCH);
        (EmbeddedMetrics { store: Arc::clone(&store), clock }, store)
    }

    #[tokio::test]
    async fn a_metric_among_the_lines_is_put_and_stays_a_line() {
        let log = Log::new(&function());
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
        let timed = |level: &str| {
            format!(r#"{{"timestamp":"2026-11-20T09:30:00.49Z","level":"{level}","message":"m"}}"#)
        };
        for (line, expected) in [
            (timed("ERROR"), LogLevel::Error),
            (timed("WARN"), LogLevel::Warn),
            (r#"{"_aws":{}}"#.to_owned(), LogLevel::Info),
            ("thread 'main' panicked".to_owned(), LogLevel::Info),
        ] {
            assert_eq!(level_of(&line), expected, "{line}");
        }
    }

    /// Metrics that a function logged at `WARN` arrived here, and on Lambda none did.
    #[tokio::test]
    async fn regression_lines_that_lambda_drops_for_their_level_were_passed_on() {
        let metric = r#"{"_aws":{"Timestamp":7,"CloudWatchMetrics":[{"Namespace":"Test","Dimensions":[[]],"Metrics":[{"Name":"Sold"}]}]},"Sold":3}"#;
        let warning = r#"{"level":"warn","timestamp":"2026-11-20T09:30:00.49Z","message":"m"}"#;
        let timeless = r#"{"level":"ERROR","message":"m"}"#;
        let lines = format!("thread 'main' panicked\n{metric}\n{warning}\n{timeless}\n");
        for (format, level, passed) in [
            ("Text", Some(LogLevel::Error), 4),
            ("JSON", None, 4),
            ("JSON", Some(LogLevel::Trace), 4),
            ("JSON", Some(LogLevel::Info), 4),
            ("JSON", Some(LogLevel::Warn), 1),
            ("JSON", Some(LogLevel::Error), 0),
        ] {
            let log =
                Log::new(&Function { log_format: format.into(), log_level: level, ..function() });
            let (metrics, store) = metrics();
            log.follow(lines.as_bytes(), &metrics).await;
            let tail = String::from_utf8(log.tail()).expect("text");
            assert_eq!(tail.lines().count(), passed, "{format} {level:?}: {tail}");
            assert_eq!(store.list(0).len(), usize::from(passed == 4), "{format} {level:?}");
        }
    }

    #[tokio::test]
    async fn the_tail_holds_the_newest_4_kilobytes_of_one_invocation() {
        let log = Log::new(&function());
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
