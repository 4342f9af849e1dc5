//! Reads one stream shard, and passes what the filters let through to the lanes.

use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::ERROR_PAUSE;
use super::lane::Pages;
use super::record::{Record, shaped};
use super::source::{Page, Source, SourceError};
use crate::clock::SharedClock;
use crate::plan::StreamMapping;

#[derive(Debug)]
pub(super) struct Reader {
    pub(super) source: Source,
    pub(super) stream_arn: String,
    pub(super) shard: String,
    pub(super) mapping: StreamMapping,
    pub(super) clock: SharedClock,
    pub(super) lanes: Vec<Pages>,
}

impl Reader {
    /// Reads until the shard or the stack ends. Lanes that are busy make it wait.
    pub(super) async fn run(self) {
        let oldest = self.clock.now().checked_sub(self.mapping.retry.max_age);
        // The sequence number of the last record that was read.
        let mut after = None;
        let mut iterator = None;
        loop {
            let began = self.clock.now();
            let (records, next_iterator) = match self.read(iterator.take(), after.as_ref()).await {
                Ok(page) => page,
                Err(error) => {
                    let table = &self.mapping.table;
                    tracing::warn!(table, %error, "a stream was not read; it is read again");
                    self.clock.sleep(ERROR_PAUSE).await;
                    continue;
                }
            };
            let took = self.clock.now().duration_since(began).unwrap_or_default();
            let is_full = records.len() >= FULL_PAGE;
            if let Some(last) = records.last() {
                after = last["dynamodb"]["SequenceNumber"].as_str().map(str::to_owned).or(after);
            }
            if self.pass_on(records, oldest).await.is_break() {
                return;
            }
            iterator = next_iterator;
            if iterator.is_none() {
                return;
            }
            if !is_full {
                self.clock.sleep(pause_after(took)).await;
            }
        }
    }

    async fn read(
        &self,
        mut iterator: Option<String>,
        after: Option<&String>,
    ) -> Result<Page, SourceError> {
        if iterator.is_none() {
            let (shard, start) = (&self.shard, self.mapping.start);
            let found = self.source.iterator(&self.stream_arn, shard, start, after.cloned());
            iterator = Some(found.await?);
        }
        self.source.records(&iterator.unwrap_or_default()).await
    }

    /// Gives the records to their lanes. Those from before `oldest` were too old when this reader
    /// began: an earlier run of the stack has processed or discarded them, and has told of it.
    async fn pass_on(&self, records: Vec<Value>, oldest: Option<SystemTime>) -> ControlFlow<()> {
        let mut lanes = vec![Vec::new(); self.lanes.len()];
        for record in records {
            let record = shaped(record, &self.stream_arn);
            let filters = &self.mapping.filters;
            if !filters.is_empty() && !filters.iter().any(|filter| filter.matches(&record)) {
                continue;
            }
            let Some(record) = Record::read(&record) else {
                let table = &self.mapping.table;
                tracing::error!(table, "the engine returned a malformed record, which is left out");
                continue;
            };
            if oldest.is_none_or(|oldest| record.created >= oldest) {
                lanes[record.lane(self.lanes.len())].push(record);
            }
        }
        for (lane, records) in self.lanes.iter().zip(lanes) {
            // A lane that takes nothing any more has ended, as all do when the stack ends.
            if !records.is_empty() && lane.send(records).await.is_err() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

/// The most records that one call returns. A shorter page is the last one for now.
const FULL_PAGE: usize = 1000;

/// The pause before the stream is read again: one that is not noticed, and long enough that reading
/// takes at most a twentieth of the engine's time.
///
/// The engine looks at every record that its streams hold, each time, and carries out one request
/// after the other: without the second rule, a stream that has grown long would slow down writes.
/// The engine announces no writes, so the reader asks at intervals.
fn pause_after(took: Duration) -> Duration {
    const SHORTEST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(5);
    (took * 19).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;
    use crate::clock::manual::ManualClock;
    use crate::dynamodb::engine::Store;
    use crate::plan::Pattern;
    use crate::plan::{RetryPolicy, StartingPosition};

    #[tokio::test]
    async fn records_that_are_filtered_or_of_an_earlier_run_reach_no_lane_and_others_one() {
        let pattern = |name: &str| {
            let pattern = json!({ "eventName": [name] }).to_string();
            Pattern::parse(&pattern).expect("a pattern")
        };
        let retry = RetryPolicy { max_retries: None, max_age: Duration::MAX, bisect: false };
        let mapping = StreamMapping {
            table: "Table".to_owned(),
            start: StartingPosition::TrimHorizon,
            batch_size: 1,
            window: Duration::ZERO,
            lanes: 2,
            retry,
            reports_failures: false,
            on_failure: None,
            filters: vec![pattern("INSERT"), pattern("MODIFY")],
            is_enabled: true,
            line: 1,
        };
        let (first, mut first_pages) = mpsc::channel(1);
        let (second, mut second_pages) = mpsc::channel(1);
        let reader = Reader {
            source: Source {
                store: Store::in_memory().expect("memory"),
                table: mapping.table.clone(),
                function: "Function".to_owned(),
                access: Arc::default(),
            },
            stream_arn: "arn:stream".to_owned(),
            shard: "shardId-1".to_owned(),
            mapping,
            clock: ManualClock::at(SystemTime::UNIX_EPOCH),
            lanes: vec![first, second],
        };
        let record = |number: u32, name: &str, created_secs: u32| {
            json!({
                "eventName": name,
                "dynamodb": {
                    "ApproximateCreationDateTime": f64::from(created_secs),
                    "Keys": { "pk": { "S": number.to_string() } },
                    "SequenceNumber": number.to_string(),
                },
            })
        };
        let mut records: Vec<Value> = (1..=20).map(|item| record(item, "INSERT", 60)).collect();
        records.push(record(21, "REMOVE", 60));
        records.push(record(22, "MODIFY", 59));
        records.push(record(23, "MODIFY", 61));
        records.push(json!({ "eventName": "INSERT" }));
        let oldest = SystemTime::UNIX_EPOCH + Duration::from_mins(1);
        assert!(reader.pass_on(records, Some(oldest)).await.is_continue());

        let numbers = |page: Vec<Record>| -> Vec<u32> {
            page.iter().map(|record| record.sequence_number.parse().expect("a number")).collect()
        };
        let first = numbers(first_pages.try_recv().expect("a page"));
        let second = numbers(second_pages.try_recv().expect("a page"));
        assert!(first.is_sorted() && second.is_sorted(), "{first:?} {second:?}");
        let mut both = [first, second].concat();
        both.sort_unstable();
        assert_eq!(both, (1..=20).chain([23]).collect::<Vec<u32>>());

        drop((first_pages, second_pages));
        let late = vec![record(1, "INSERT", 60)];
        assert!(reader.pass_on(late, None).await.is_break(), "the lanes have ended");
    }

    #[test]
    fn reading_takes_at_most_a_twentieth_of_the_time_and_pauses_end() {
        for (took_ms, pause_ms) in [(0, 100), (5, 100), (10, 190), (100, 1900), (60_000, 5000)] {
            let pause = pause_after(Duration::from_millis(took_ms));
            assert_eq!(pause, Duration::from_millis(pause_ms), "{took_ms}");
        }
    }
}
