//! Acts on the events of the rebalance function.

use aws_lambda_events::dynamodb::{Event as StreamEvent, EventRecord};
use aws_lambda_events::streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse};
use dynashard_core::{
    Advance, Deadline, Job, Kind, LaneKey, Moment, Progress, Rebalancer, ReshardSlice, Slice, Sweep,
};
use dynashard_keys::{PartitionKey, RESERVED_PREFIX};
use dynashard_lambda::Event;
use dynashard_lambda::metrics::{Counter, Gauge, Metrics};
use futures_util::future::join_all;
use lambda_runtime::Error;
use serde_dynamo::AttributeValue;

pub(crate) struct RebalanceHandler {
    rebalancer: Rebalancer,
    metrics: Metrics,
}

impl RebalanceHandler {
    pub(crate) fn new(rebalancer: Rebalancer, metrics: Metrics) -> Self {
        Self { rebalancer, metrics }
    }

    /// Acts on one event by its deadline. An error makes Lambda send the event again.
    pub(crate) async fn handle(
        &self,
        event: Event,
        deadline: Deadline,
    ) -> Result<DynamoDbEventResponse, Error> {
        match event {
            Event::Stream(event) => Ok(self.batch(&serde_json::from_value(event)?, deadline).await),
            Event::Schedule => self.sweep(deadline).await,
            Event::Request(_) | Event::Alarm(_) => {
                Err("the event is neither a batch of stream records nor a schedule".into())
            }
        }
    }

    /// The time, for deadlines.
    pub(crate) fn now(&self) -> Moment {
        self.rebalancer.directory().now()
    }

    /// Advances the collections of a batch side by side, since each of them waits for leases to end.
    /// Lambda sends the batch again from the first record that failed.
    async fn batch(&self, event: &StreamEvent, deadline: Deadline) -> DynamoDbEventResponse {
        let records = event.records.iter();
        let attempts = records.map(|record| async move {
            let done = self.record(record, deadline).await;
            (!done).then(|| sequence_number(record).to_owned())
        });
        let failed = join_all(attempts.collect::<Vec<_>>()).await;
        let mut response = DynamoDbEventResponse::default();
        for sequence_number in failed.into_iter().flatten() {
            let mut failure = DynamoDbBatchItemFailure::default();
            failure.item_identifier = Some(sequence_number);
            response.batch_item_failures.push(failure);
        }
        let failed = response.batch_item_failures.len();
        self.metrics.count(self.now(), [(Counter::StreamRecordsRefused, failed)]);
        response
    }

    /// Advances the collection of one record, of which only the key counts: the items are read again.
    /// Whatever is wrong with the record is logged, and Lambda sends it again, at last to the failure
    /// queue.
    async fn record(&self, record: &EventRecord, deadline: Deadline) -> bool {
        let sequence_number = sequence_number(record);
        let name = &self.rebalancer.directory().settings().schema.partition_key_name;
        let Some(AttributeValue::S(key)) = record.change.keys.get(name) else {
            tracing::error!(sequence_number, "a stream record lacks the string key {name}");
            return false;
        };
        // A change of a job is about its collection, and so is the call of a lane. Other reserved items are
        // about none.
        let (key, lane) = match LaneKey::parse(key) {
            Some(LaneKey { lane, partition }) => (partition, lane),
            None => (key.strip_prefix(Job::KEY_PREFIX).unwrap_or(key), 0),
        };
        if key.starts_with(RESERVED_PREFIX) {
            return true;
        }
        let slice = match PartitionKey::new(key) {
            // The record of `move` comes by the other mapping, whose batches are small.
            Ok(partition) if begins(record) => self.rebalancer.relieve(&partition, deadline).await,
            Ok(partition) => self.rebalancer.advance(&partition, lane, deadline).await,
            Err(error) => Slice { advance: Err(error.into()), reshard: None },
        };
        self.report(key, Some(sequence_number), &slice);
        slice.advance.is_ok()
    }

    /// Takes up all changes that have come to a halt. A collection that cannot go on is logged and counted,
    /// and fails nothing: Lambda would repeat the whole sweep, and the next one comes within a minute.
    async fn sweep(&self, deadline: Deadline) -> Result<DynamoDbEventResponse, Error> {
        // In a new stack it is the sweep that pins the settings, if no request does before. And a function
        // whose own differ says so here, whatever there is to do.
        if let Err(error) = self.rebalancer.directory().lease().hold(deadline).await {
            tracing::error!(%error, "the sweep was skipped: this function's settings differ from the pinned ones, or could not be compared with them");
            let counter = Counter::of_code(error.code());
            self.metrics.count(self.now(), counter.map(|counter| (counter, 1)));
            return Ok(DynamoDbEventResponse::default());
        }
        let Sweep { collections, left, damaged, unlisted } = self.rebalancer.sweep(deadline).await;
        for (partition, slice) in collections {
            self.report(partition.as_str(), None, &slice);
        }
        for detail in &damaged {
            tracing::error!(detail, "skipped a damaged entry of the index of running changes");
        }
        // The one metric that has data each minute, by which an alarm notices that no metric arrives.
        let finished = usize::from(unlisted.is_none());
        let counted = [(Counter::DamagedData, damaged.len()), (Counter::SweepsFinished, finished)];
        self.metrics.count(self.now(), counted);
        if left > 0 {
            tracing::warn!(
                left,
                "the sweep ran out of time; the next one takes up the collections that are left"
            );
        }
        unlisted.map_or(Ok(DynamoDbEventResponse::default()), |error| Err(error.into()))
    }

    /// Logs and counts what became of a collection that a record named, or the sweep found.
    fn report(&self, key: &str, sequence_number: Option<&str>, slice: &Slice) {
        match &slice.advance {
            Err(error) | Ok(Advance::Yielded { failed: Some(error) }) => {
                let (code, detail) = (error.code().as_str(), error.message());
                let shards = error.shard_list();
                tracing::error!(
                    partition_key = key,
                    sequence_number,
                    code,
                    detail,
                    shards,
                    "the collection could not be advanced"
                );
                let passes = matches!(error.kind(), Kind::Throttled | Kind::Unavailable);
                let other = (!passes).then_some(Counter::ChangesFailed);
                let counter = Counter::of_code(error.code()).or(other);
                self.metrics.count(self.now(), counter.map(|counter| (counter, 1)));
            }
            Ok(Advance::Finished(metadata)) => {
                let shards = metadata.number_of_shards.get();
                tracing::info!(
                    partition_key = key,
                    shards,
                    "the change of the shard count is over"
                );
                self.metrics.count(self.now(), [(Counter::ReshardsFinished, 1)]);
            }
            Ok(Advance::Waiting { until_secs }) => {
                tracing::info!(partition_key = key, until_secs, "the reshard waits");
            }
            Ok(Advance::Yielded { failed: None }) => {
                tracing::info!(
                    partition_key = key,
                    "the time slice ended, and the next one was requested"
                );
            }
            Ok(Advance::Nothing | Advance::Elsewhere) => {}
        }
        if let Some(reshard) = &slice.reshard {
            self.measure(key, reshard);
        }
    }

    fn measure(&self, key: &str, reshard: &ReshardSlice) {
        let ReshardSlice { items_moved, age_secs, progress, unmovable } = reshard;
        let (items_moved, age_secs) = (*items_moved, *age_secs);
        if let Some(progress) = progress {
            let Progress { source_shards, source_shards_done, percent_done, eta_secs, .. } =
                *progress;
            tracing::info!(
                partition_key = key,
                items_moved,
                source_shards,
                source_shards_done,
                percent_done,
                age_secs,
                eta_secs,
                "reshard progress"
            );
        }
        for ((shard, sort), reason) in unmovable {
            let (sort_key, shard) = (sort.to_string(), shard.get());
            tracing::error!(
                partition_key = key,
                sort_key,
                shard,
                reason,
                "DynamoDB rejects an item in the shard that it is to move to; the reshard does not close \
                 before the item is replaced or deleted, or the reason is gone"
            );
        }
        let moved = usize::try_from(items_moved).unwrap_or(usize::MAX);
        self.metrics.count(self.now(), [(Counter::ItemsMoved, moved)]);
        let progress = progress.as_ref();
        let percent = progress.map(|progress| u64::from(progress.percent_done));
        let percent = percent.map(|percent| (Gauge::ReshardProgress, percent));
        let eta = progress.and_then(|progress| progress.eta_secs);
        let eta = eta.map(|secs| (Gauge::ReshardEta, secs));
        let measured = [(Gauge::ReshardAge, age_secs)].into_iter().chain(percent);
        let unmovable = u64::try_from(unmovable.len()).ok().filter(|items| *items > 0);
        let unmovable = unmovable.map(|items| (Gauge::UnmovableItems, items));
        self.metrics.measure(self.now(), measured.chain(eta).chain(unmovable));
    }
}

/// Whether the record is of metadata by which a change begins, as the table and the template's filters have it.
fn begins(record: &EventRecord) -> bool {
    let phase = record.change.new_image.get("phase");
    matches!(phase, Some(AttributeValue::S(phase)) if phase == "forward")
}

/// Where a record stands in its stream shard. Every record has one; if the list of failures names an
/// empty one, Lambda sends the whole batch again.
fn sequence_number(record: &EventRecord) -> &str {
    record.change.sequence_number.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::iter::repeat_with;
    use std::time::Duration;

    use dynashard_core::{CollectionMetadata, Directory, HistoryEntry, Phase, Scaler, Settings};
    use dynashard_keys::{Placement, ShardCount, ShardId, SortKey};
    use dynashard_testkit::{
        Fault, Faulty, ManualClock, MemoryStore, Operation, Output, SeededEntropy, block_on,
    };
    use serde_json::{Value, json};

    use dynashard_core::ports::{StoreError, World};

    use super::*;

    fn partition(name: &str) -> PartitionKey {
        PartitionKey::new(name).expect("pk")
    }

    /// Makes a collection of one shard that begins to grow to two.
    fn begin_growth(memory: &MemoryStore, clock: &ManualClock, name: &str) {
        begin(memory, clock, name, Placement::Random);
    }

    fn begin(memory: &MemoryStore, clock: &ManualClock, name: &str, placement: Placement) {
        let partition = partition(name);
        let created =
            CollectionMetadata::stable(partition.clone(), placement, ShardCount::ONE, 1_000);
        memory.place_metadata(created);
        let entropy = SeededEntropy::new(2);
        let directory = Directory::new(
            World::new(memory.clone(), memory.clone(), clock.clone(), entropy),
            Settings::default(),
        );
        let scaler = Scaler::new(directory);
        let deadline = Deadline::after(scaler.directory().now(), Duration::from_secs(10));
        let two = ShardCount::new(2).expect("count");
        block_on(scaler.request_count(&partition, two, deadline)).expect("it begins");
    }

    fn run(
        memory: &MemoryStore,
        clock: &ManualClock,
        event: &Value,
    ) -> Result<DynamoDbEventResponse, String> {
        run_printing(memory, clock, event, Output::default())
    }

    fn run_printing(
        memory: &MemoryStore,
        clock: &ManualClock,
        event: &Value,
        output: Output,
    ) -> Result<DynamoDbEventResponse, String> {
        let settings = Settings::default();
        let entropy = SeededEntropy::new(1);
        let metrics = Metrics::to("rebalance".to_owned(), output);
        let directory = Directory::new(
            World::new(memory.clone(), memory.clone(), clock.clone(), entropy),
            settings,
        );
        let rebalancer = Rebalancer::new(directory);
        let handler = RebalanceHandler::new(rebalancer, metrics);
        let deadline = Deadline::after(handler.now(), Duration::from_secs(50));
        block_on(handler.handle(Event::parse(&event.to_string()), deadline))
            .map_err(|e| e.to_string())
    }

    fn world() -> (MemoryStore, ManualClock) {
        let clock = ManualClock::new();
        (MemoryStore::new(clock.clone(), Settings::default().schema), clock)
    }

    fn record(keys: &Value, sequence_number: &str) -> Value {
        let change = json!({ "Keys": keys, "SequenceNumber": sequence_number, "SizeBytes": 26 });
        json!({
            "eventID": "1",
            "eventName": "MODIFY",
            "awsRegion": "eu-central-1",
            "dynamodb": change,
        })
    }

    fn shards(memory: &MemoryStore, name: &str) -> u32 {
        memory.stored_metadata(&partition(name)).expect("metadata").number_of_shards.get()
    }

    #[test]
    fn a_batch_advances_what_it_names_and_reports_what_it_cannot_read() {
        let (memory, clock) = world();
        begin_growth(&memory, &clock, "a");
        begin_growth(&memory, &clock, "b");
        let event = json!({ "Records": [
            record(&json!({ "pk": { "S": "a" } }), "1"),
            record(&json!({ "other": { "S": "a" } }), "2"),
            record(&json!({ "pk": { "S": "never written" } }), "3"),
            record(&json!({ "pk": { "S": "_ds_job#a" } }), "4"),
            record(&json!({ "pk": { "S": "_ds_lane#8#a" } }), "6"),
            record(&json!({ "pk": { "S": "b" } }), "5"),
        ]});
        let outcome = run(&memory, &clock, &event).expect("an outcome");
        let text = serde_json::to_string(&outcome).expect("JSON");
        assert_eq!(text, r#"{"batchItemFailures":[{"itemIdentifier":"2"}]}"#);
        assert_eq!((shards(&memory, "a"), shards(&memory, "b")), (2, 2));
    }

    /// What began to grow waited behind the moves of whatever shared its lane of the stream.
    #[test]
    fn regression_relief_waited_for_moves_of_others() {
        let (memory, clock) = world();
        begin(&memory, &clock, "a", Placement::Xxh64);
        let mut begins = record(&json!({ "pk": { "S": "a" } }), "1");
        begins["dynamodb"]["NewImage"] = json!({ "phase": { "S": "forward" } });
        let event = json!({ "Records": [begins] });
        for _ in 0..2 {
            assert_eq!(run(&memory, &clock, &event), Ok(DynamoDbEventResponse::default()));
            let phase = memory.stored_metadata(&partition("a")).expect("metadata").phase;
            assert!(matches!(phase, Phase::Move { .. }), "the new shards take writes: {phase:?}");
            let job = memory.stored_job(&partition("a")).expect("a job");
            assert_eq!(job.move_seen, None, "others move the items");
        }
        let moves = json!({ "Records": [record(&json!({ "pk": { "S": "a" } }), "2")] });
        assert_eq!(run(&memory, &clock, &moves), Ok(DynamoDbEventResponse::default()));
        let job = memory.stored_job(&partition("a")).expect("a job");
        assert!(job.move_seen.is_some(), "{job:?}");
    }

    #[test]
    fn a_record_of_a_lane_advances_its_collection() {
        let (memory, clock) = world();
        begin_growth(&memory, &clock, "a#b");
        let event =
            json!({ "Records": [record(&json!({ "pk": { "S": "_ds_lane#3#a#b" } }), "1")] });
        assert_eq!(run(&memory, &clock, &event), Ok(DynamoDbEventResponse::default()));
        assert_eq!(shards(&memory, "a#b"), 2);
    }

    #[test]
    fn what_is_finished_and_what_cannot_be_read_is_counted() {
        let (memory, clock) = world();
        let records = [
            record(&json!({ "pk": { "S": "a" } }), "1"),
            record(&json!({ "other": { "S": "a" } }), "2"),
            record(&json!({ "pk": { "N": "1" } }), "3"),
        ];
        let schedule = json!({ "source": "aws.events" });
        for (event, counted) in [
            (
                &json!({ "Records": records }),
                &["ReshardsFinished\":1", "StreamRecordsRefused\":2"][..],
            ),
            (&schedule, &["ReshardsFinished\":1", "SweepsFinished\":1"]),
            (&schedule, &["SweepsFinished\":1"]),
        ] {
            if counted[0].starts_with("Reshards") {
                begin_growth(&memory, &clock, "a");
            }
            let output = Output::default();
            run_printing(&memory, &clock, event, output.clone()).expect("an outcome");
            let text = output.text();
            let others = text.lines().filter(|line| !line.contains("ReshardAge"));
            assert_eq!(others.count(), counted.len(), "{text}");
            for count in counted {
                assert!(output.text().contains(count), "{}", output.text());
            }
        }
    }

    /// An alarm on the age saw nothing just where a reshard could not go on.
    #[test]
    fn regression_a_slice_that_failed_did_not_say_how_old_the_reshard_is() {
        let (memory, clock) = world();
        begin(&memory, &clock, "a", Placement::Xxh64);
        let job = memory.stored_job(&partition("a")).expect("a job");
        let ahead = Job { generation: job.generation.next(), ..job };
        memory.place_job(&partition("a"), Some(ahead));
        clock.advance(Duration::from_mins(30));
        let output = Output::default();
        let schedule = json!({ "source": "aws.events" });
        run_printing(&memory, &clock, &schedule, output.clone()).expect("a sweep");
        let text = output.text();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let value_of = |name| lines.clone().find_map(|line| line[name].as_u64());
        assert_eq!(value_of("DamagedData"), Some(1), "{text}");
        let age = value_of("ReshardAge").expect("it is measured");
        assert!((1_800..1_900).contains(&age), "half an hour: {age}");
    }

    /// Whoever paused it while it was cleared up and forgot that was told by nothing.
    #[test]
    fn regression_a_change_that_nobody_cleared_up_had_no_age() {
        let (memory, clock) = world();
        begin(&memory, &clock, "a", Placement::Xxh64);
        let seen = memory.stored_metadata(&partition("a")).expect("metadata");
        let two = ShardCount::new(2).expect("a count");
        let entry = HistoryEntry { at_secs: seen.last_updated_secs, count: two };
        memory.place_metadata(CollectionMetadata {
            rev: seen.rev + 2,
            number_of_shards: two,
            shard_history: [seen.shard_history.clone(), vec![entry]].concat(),
            phase: Phase::Stable,
            cleanup_pending: true,
            last_updated_secs: seen.last_updated_secs + 120,
            ..seen
        });
        let job = memory.stored_job(&partition("a")).expect("a job");
        memory.place_job(&partition("a"), Some(Job { paused: true, ..job }));
        clock.advance(Duration::from_mins(32));
        let output = Output::default();
        let schedule = json!({ "source": "aws.events" });
        run_printing(&memory, &clock, &schedule, output.clone()).expect("a sweep");
        let text = output.text();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let age = lines.clone().find_map(|line| line["ReshardAge"].as_u64());
        let age = age.unwrap_or_else(|| panic!("it is measured: {text}"));
        assert!((1_780..1_900).contains(&age), "half an hour since the close: {age}");
    }

    #[test]
    fn items_that_cannot_be_moved_are_counted() {
        let (memory, clock) = world();
        begin(&memory, &clock, "a", Placement::Xxh64);
        let job = memory.stored_job(&partition("a")).expect("a job");
        let sort = SortKey::string("UA1545").expect("sk");
        let unmovable = [((ShardId::new(0), sort), "no such type".to_owned())].into();
        // Nothing is done about a job that is ahead of its metadata.
        let job = Job { unmovable, generation: job.generation.next(), ..job };
        memory.place_job(&partition("a"), Some(job));
        let output = Output::default();
        let schedule = json!({ "source": "aws.events" });
        run_printing(&memory, &clock, &schedule, output.clone()).expect("a sweep");
        assert!(output.text().contains(r#""UnmovableItems":1"#), "{}", output.text());
    }

    /// The role had lost a permission while a change waited, so that the sweep alone came by: for two hours nothing was counted.
    #[test]
    fn regression_a_change_that_the_sweep_could_not_carry_on_was_counted_nowhere() {
        for (why, counted) in [
            (StoreError::Misconfigured("not authorized".to_owned()), 1),
            (StoreError::Unavailable("no answer".to_owned()), 0),
        ] {
            let (memory, clock) = world();
            begin(&memory, &clock, "a", Placement::Xxh64);
            let records = Faulty::new(memory.clone());
            records.script(Operation::JobSave, repeat_with(|| Fault::Refuse(why.clone())).take(99));
            let world = World::new(memory, records, clock, SeededEntropy::new(1));
            let output = Output::default();
            let metrics = Metrics::to("rebalance".to_owned(), output.clone());
            let directory = Directory::new(world, Settings::default());
            let handler = RebalanceHandler::new(Rebalancer::new(directory), metrics);
            let deadline = Deadline::after(handler.now(), Duration::from_secs(50));
            let schedule = json!({ "source": "aws.events" }).to_string();
            block_on(handler.handle(Event::parse(&schedule), deadline)).expect("a sweep");
            let text = output.text();
            assert_eq!(text.matches(r#""ChangesFailed":1"#).count(), counted, "{text}");
        }
    }

    #[test]
    fn a_slice_measures_how_far_the_reshard_is() {
        let (memory, clock) = world();
        begin(&memory, &clock, "a", Placement::Xxh64);
        let event = json!({ "Records": [record(&json!({ "pk": { "S": "a" } }), "1")] });
        let output = Output::default();
        run_printing(&memory, &clock, &event, output.clone()).expect("an outcome");
        let line = serde_json::from_str::<Value>(&output.text()).expect("one line of JSON");
        assert!(line["ReshardAge"].as_u64().is_some_and(|age| age >= 3), "{line}");
        assert_eq!(line["ReshardProgress"], 100, "the one source was scanned: {line}");
        assert!(line["ReshardEta"].as_u64().is_some_and(|eta| eta >= 960), "{line}");
    }

    #[test]
    fn a_damaged_reshard_is_counted_and_nothing_is_done() {
        let (memory, clock) = world();
        for (name, event) in [
            ("a", json!({ "Records": [record(&json!({ "pk": { "S": "a" } }), "1")] })),
            ("b", json!({ "source": "aws.events" })),
        ] {
            begin(&memory, &clock, name, Placement::Xxh64);
            memory.place_job(&partition(name), None);
            let before = memory.stored_metadata(&partition(name));
            let output = Output::default();
            let outcome = run_printing(&memory, &clock, &event, output.clone());
            let is_sweep = name == "b";
            assert_eq!(
                outcome == Ok(DynamoDbEventResponse::default()),
                is_sweep,
                "a record comes again"
            );
            assert!(output.text().contains("\"DamagedData\":1"), "{}", output.text());
            assert_eq!(memory.stored_metadata(&partition(name)), before);
            let at_rest =
                CollectionMetadata::stable(partition(name), Placement::Xxh64, ShardCount::ONE, 1);
            memory.place_metadata(at_rest);
        }
    }

    /// Lambda sent the event again, twice, and all was swept anew.
    #[test]
    fn regression_one_damaged_collection_failed_the_whole_sweep() {
        let (memory, clock) = world();
        for name in ["a", "b", "c"] {
            begin_growth(&memory, &clock, name);
        }
        memory.place_job(&partition("b"), None);
        let output = Output::default();
        let schedule = json!({ "source": "aws.events" });
        let outcome = run_printing(&memory, &clock, &schedule, output.clone());
        assert_eq!(outcome, Ok(DynamoDbEventResponse::default()));
        assert_eq!(["a", "b", "c"].map(|name| shards(&memory, name)), [2, 1, 2]);
        assert!(output.text().contains("\"DamagedData\":1"), "{}", output.text());
    }

    #[test]
    fn a_schedule_sweeps_all_collections() {
        let (memory, clock) = world();
        begin_growth(&memory, &clock, "a");
        let schedule = json!({ "source": "aws.events", "detail-type": "Scheduled Event" });
        assert_eq!(run(&memory, &clock, &schedule), Ok(DynamoDbEventResponse::default()));
        assert_eq!(shards(&memory, "a"), 2);
    }

    #[test]
    fn other_events_fail_and_change_nothing() {
        let (memory, clock) = world();
        begin_growth(&memory, &clock, "a");
        let before = memory.requests();
        for event in [
            json!({}),
            json!([]),
            json!({ "Records": 1 }),
            json!({ "Records": [{}] }),
            json!({ "source": "aws.s3" }),
        ] {
            assert!(run(&memory, &clock, &event).is_err(), "{event}");
        }
        assert_eq!(shards(&memory, "a"), 1);
        assert_eq!(memory.requests(), before);
    }
}
