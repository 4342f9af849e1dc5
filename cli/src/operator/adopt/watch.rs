//! `dynashard adopt --watch`: who writes around the application, from the table's stream.
//!
//! Every write of the application, and of `dynashard serve`, leaves another `_ds_v` on the item. So a record whose new
//! image has none, or the one that was there before, is of somebody else. Whoever deletes around the application leaves no
//! trace of that.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Duration;

use dynashard_aws::attributes::{FORWARDED, VERSION};
use dynashard_aws::error::is_throttle;
use dynashard_aws_operator::{RawClient, RawRequest};
use dynashard_core::INDEX_SHARD;
use dynashard_core::ports::Clock;
use dynashard_keys::RESERVED_PREFIX;
use futures_util::{StreamExt, stream};
use serde::Serialize;
use serde_json::{Value, json};

use super::super::output::{Activity, Output, in_line};
use super::super::patience::Patience;
use super::super::{Failure, shell, until_interrupted};
use super::{AdoptArgs, Found, PROBLEMS_FOUND};
use crate::clock::Stopwatch;

/// How often each shard of the stream is read.
const READ_EVERY: Duration = Duration::from_millis(500);

/// When a shard is read again that may have more. DynamoDB takes five reads of a shard a second.
const READ_ON_AFTER: Duration = Duration::from_millis(200);

/// How many shards are read at once.
const SIDE_BY_SIDE: usize = 16;

/// How often it is looked whether the stream has other shards.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// How many keys are named one by one. What follows is counted.
const MOST_NAMED: usize = 100;

/// For how long a request of a watch that has begun is made again. DynamoDB keeps an iterator for fifteen minutes.
const PATIENCE: Duration = Duration::from_mins(10);

/// The error of what is older than a day, which DynamoDB forgets.
const TRIMMED: &str = "TrimmedDataAccessException";

/// The error of a shard that is read by too many.
const TOO_MANY_READERS: &str = "LimitExceededException";

/// Watches until the time is over, or for ever, and says at the end what it has seen. `None` if it was interrupted.
pub(super) async fn run(
    args: &AdoptArgs,
    output: &mut Output,
) -> Result<Option<ExitCode>, Failure> {
    args.form.of_endless("--watch", true)?;
    let mut seen = Seen::default();
    let ended = until_interrupted(Box::pin(watch(args, output, &mut seen))).await;
    if seen.has_begun {
        let (records, around, keys) = (seen.records, seen.around, seen.keys.len());
        output.event("watched", &json!({ "records": records, "around": around, "keys": keys }));
        output.text(format!(
            "{records} records, of which {around} went around the application, to {keys} keys"
        ));
    }
    let status = if seen.around > 0 { ExitCode::from(PROBLEMS_FOUND) } else { ExitCode::SUCCESS };
    Ok(ended?.map(|()| status))
}

async fn watch(args: &AdoptArgs, output: &mut Output, seen: &mut Seen) -> Result<(), Failure> {
    let found = Found::by(args).await?;
    let schema = found.schema()?;
    let client = RawClient::new(&found.operator, &found.operator.url().await?);
    let of_table = json!({ "TableName": args.table });
    let described = ask_once(&client, "DynamoDB_20120810.DescribeTable", &of_table).await?;
    let stream = stream_of(&described["Table"], args)?;
    let streams = RawClient::new(&found.operator, &streams_url(client.url()));
    let streams = Streams(streams);
    let names = Names { partition: &schema.partition_key_name, sort: &schema.sort_key_name };
    let began = found.operator.clock().now().server_secs.unwrap_or_default();
    let mut shards = Shards::default();
    // What was written before is not looked at: the application may have come later.
    shards.look(&streams, &stream, Some(began)).await?;
    output.event("watch", &json!({ "table": args.table, "stream": stream }));
    output.text(format!(
        "watching the stream of {}; each write that goes around the application is named, Ctrl-C ends it",
        args.table
    ));
    let activity = Activity::begin(!output.is_for_machines());
    let (since, mut looked) = (Stopwatch::start(), Stopwatch::start());
    seen.has_begun = true;
    let watched = args.watch.watch_secs.map(|secs| Duration::from_secs(secs.get()));
    loop {
        let is_over = watched.is_some_and(|watched| since.elapsed() >= watched);
        // What was written in time is looked at, however long that takes.
        let ends = watched.filter(|_| is_over).map(|watched| began + watched.as_secs());
        if looked.elapsed() >= LOOK_EVERY || shards.read.is_empty() {
            shards.look(&streams, &stream, None).await?;
            looked = Stopwatch::start();
        }
        let mut take = |record: &Value| {
            seen.records += 1;
            if let Some(around) = judge(record, &names) {
                seen.note(around, output);
            }
        };
        let has_more = shards.read(&streams, &stream, ends, &mut take).await?;
        if is_over && !has_more {
            return Ok(());
        }
        activity
            .says(|| format!("{} records, {} around the application", seen.records, seen.around));
        tokio::time::sleep(if has_more { READ_ON_AFTER } else { READ_EVERY }).await;
    }
}

/// A write that went around the application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Around {
    pk: String,
    sk: String,
    /// What shows it.
    why: &'static str,
}

/// What was seen so far.
#[derive(Default)]
struct Seen {
    has_begun: bool,
    records: u64,
    around: u64,
    keys: BTreeSet<(String, String)>,
}

impl Seen {
    fn note(&mut self, around: Around, output: &mut Output) {
        self.around += 1;
        if self.keys.len() >= MOST_NAMED
            || !self.keys.insert((around.pk.clone(), around.sk.clone()))
        {
            return;
        }
        output.event("around", &around);
        let Around { pk, sk, why } = around;
        output.text(format!("around    {} {}: {why}", in_line(&pk), in_line(&sk)));
    }
}

/// The names of the table's keys.
struct Names<'a> {
    partition: &'a str,
    sort: &'a str,
}

/// Whether a record of the stream is of a write that went around the application.
fn judge(record: &Value, names: &Names<'_>) -> Option<Around> {
    let of = &record["dynamodb"];
    let new = of["NewImage"].as_object()?;
    let text = |name: &str| {
        let value = of["Keys"].get(name)?.as_object()?.values().next()?;
        value.as_str().map(str::to_owned)
    };
    let (pk, sk) = (text(names.partition)?, text(names.sort)?);
    if new.contains_key(FORWARDED) || pk.starts_with(RESERVED_PREFIX) {
        return None;
    }
    let old = &of["OldImage"];
    let why = match (new.get(VERSION), old.get(VERSION)) {
        (None, _) => "the item has no _ds_v",
        (Some(version), Some(before)) if version == before => {
            // `indexes --rewrite` sets this, and nothing else.
            let but_for_shard = |image: &Value| {
                let mut image = image.as_object().cloned().unwrap_or_default();
                image.remove(INDEX_SHARD);
                image
            };
            if but_for_shard(old) == but_for_shard(&of["NewImage"]) {
                return None;
            }
            "the item was changed, and kept its _ds_v"
        }
        _ => return None,
    };
    Some(Around { pk, sk, why })
}

/// The shards of a stream that are open.
#[derive(Default)]
struct Shards {
    known: BTreeSet<String>,
    /// Where each goes on.
    read: BTreeMap<String, Reading>,
}

/// How far a shard was read.
struct Reading {
    iterator: String,
    /// The sequence number of the last record.
    last: Option<String>,
    /// Records from before this second, by DynamoDB's clock, are not of the watch.
    begins: Option<u64>,
}

impl Shards {
    /// Begins to read the shards that are not known yet: with the second in which the watch began from now on, and later from their
    /// beginning.
    async fn look(
        &mut self,
        streams: &Streams,
        stream: &str,
        begins: Option<u64>,
    ) -> Result<(), Failure> {
        let mut after = Value::Null;
        loop {
            let mut body = json!({ "StreamArn": stream });
            if !after.is_null() {
                body["ExclusiveStartShardId"] = after;
            }
            let described = streams.ask("DynamoDBStreams_20120810.DescribeStream", &body).await?;
            let description = &described["StreamDescription"];
            for shard in description["Shards"].as_array().into_iter().flatten() {
                let Some(id) = shard["ShardId"].as_str() else { continue };
                if !self.known.insert(id.to_owned()) {
                    continue;
                }
                // One that has ended before the watch began has nothing to say.
                let has_ended = shard["SequenceNumberRange"].get("EndingSequenceNumber").is_some();
                if has_ended && begins.is_some() {
                    continue;
                }
                let from = if begins.is_some() { "LATEST" } else { "TRIM_HORIZON" };
                let from = json!({ "ShardIteratorType": from });
                if let Some(iterator) = streams.iterator(stream, id, from).await? {
                    self.read.insert(id.to_owned(), Reading { iterator, last: None, begins });
                }
            }
            after = description["LastEvaluatedShardId"].clone();
            if after.is_null() {
                return Ok(());
            }
        }
    }

    /// Gives what has come since to `take`, a page of each shard, and says whether there may be more: from before this second, if one
    /// is given. A shard that has ended is left.
    async fn read(
        &mut self,
        streams: &Streams,
        stream: &str,
        ends: Option<u64>,
        take: &mut impl FnMut(&Value),
    ) -> Result<bool, Failure> {
        let asked = self.read.iter().map(|(id, reading)| {
            let body = json!({ "ShardIterator": reading.iterator });
            let id = id.clone();
            async move {
                let page = streams.ask("DynamoDBStreams_20120810.GetRecords", &body).await;
                (id, page)
            }
        });
        let mut pages = stream::iter(asked.collect::<Vec<_>>()).buffer_unordered(SIDE_BY_SIDE);
        let mut has_more = false;
        while let Some((id, page)) = pages.next().await {
            let Some(reading) = self.read.get_mut(&id) else { continue };
            let next = match page {
                Ok(page) => {
                    has_more |= reading.take(&page, ends, take);
                    page["NextShardIterator"].as_str().map(str::to_owned)
                }
                // As after a machine slept.
                Err(refused) if refused.kind == "ExpiredIteratorException" => {
                    has_more = true;
                    reading.renewed(streams, stream, &id).await?
                }
                Err(refused) if refused.kind == TRIMMED => {
                    has_more = true;
                    reading.last = None;
                    note!(
                        "dynashard: the stream was not read for a day, and what was written before that was not seen"
                    );
                    reading.renewed(streams, stream, &id).await?
                }
                Err(refused) => return Err(refused.into()),
            };
            match next {
                Some(next) => reading.iterator = next,
                None => drop(self.read.remove(&id)),
            }
        }
        Ok(has_more)
    }
}

impl Reading {
    /// Gives the records of a page that are of the watch to `take`, and says whether there may be more from before the second in
    /// which the watch ends. A page that has none is the newest.
    fn take(&mut self, page: &Value, ends: Option<u64>, take: &mut impl FnMut(&Value)) -> bool {
        let mut has_more = false;
        for record in page["Records"].as_array().into_iter().flatten() {
            let of = &record["dynamodb"];
            self.last = of["SequenceNumber"].as_str().map(str::to_owned);
            let created = of["ApproximateCreationDateTime"].as_f64();
            let created = created.and_then(|at| Duration::try_from_secs_f64(at).ok());
            let is_of_before = |second: Option<u64>| {
                created.zip(second).is_some_and(|(at, second)| at.as_secs() < second)
            };
            has_more = ends.is_none() || is_of_before(ends);
            if !is_of_before(self.begins) {
                take(record);
            }
        }
        has_more
    }

    /// Another iterator that goes on behind the last record; `None` if DynamoDB no longer has the shard.
    async fn renewed(
        &self,
        streams: &Streams,
        stream: &str,
        shard: &str,
    ) -> Result<Option<String>, Failure> {
        if let Some(last) = &self.last {
            let after =
                json!({ "ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": last });
            match streams.iterator(stream, shard, after).await {
                Err(refused) if refused.kind == TRIMMED => {}
                other => return Ok(other?),
            }
        }
        let from = json!({ "ShardIteratorType": "TRIM_HORIZON" });
        Ok(streams.iterator(stream, shard, from).await?)
    }
}

/// The stream of a table, which has to show what items were and are.
fn stream_of(table: &Value, args: &AdoptArgs) -> Result<String, Failure> {
    let specification = &table["StreamSpecification"];
    let shows_both = specification["StreamViewType"] == "NEW_AND_OLD_IMAGES";
    match table["LatestStreamArn"].as_str().filter(|_| specification["StreamEnabled"] == true) {
        Some(arn) if shows_both => Ok(arn.to_owned()),
        found => {
            let table = shell::quoted(&args.table);
            let what = if found.is_some() {
                "has a stream without new and old images"
            } else {
                "has no stream"
            };
            Err(Failure::connection(format!(
                "the table {table} {what}; turn one on: aws dynamodb update-table --table-name {table} --stream-specification \
                 StreamEnabled=true,StreamViewType=NEW_AND_OLD_IMAGES"
            )))
        }
    }
}

/// Where the streams of a server's tables are.
fn streams_url(url: &str) -> String {
    url.replacen("://dynamodb.", "://streams.dynamodb.", 1)
}

/// The streams of tables, which are asked again for what they refuse for the moment.
struct Streams(RawClient);

/// No answer.
struct Refused {
    /// The name of DynamoDB's error, if it answered.
    kind: String,
    failure: Failure,
    may_pass: bool,
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        refused.failure
    }
}

impl Streams {
    async fn ask(&self, target: &str, body: &Value) -> Result<Value, Refused> {
        let mut patience = Patience::of(PATIENCE);
        loop {
            match ask_once(&self.0, target, body).await {
                Ok(answer) => return Ok(answer),
                Err(refused) => {
                    if !patience.pause(refused.may_pass).await {
                        return Err(refused);
                    }
                }
            }
        }
    }

    /// An iterator of a shard; `None` if DynamoDB no longer has the shard.
    async fn iterator(
        &self,
        stream: &str,
        shard: &str,
        from: Value,
    ) -> Result<Option<String>, Refused> {
        let mut body = from;
        body["StreamArn"] = stream.into();
        body["ShardId"] = shard.into();
        match self.ask("DynamoDBStreams_20120810.GetShardIterator", &body).await {
            Ok(answer) => Ok(answer["ShardIterator"].as_str().map(str::to_owned)),
            Err(refused) if refused.kind == "ResourceNotFoundException" => Ok(None),
            Err(refused) => Err(refused),
        }
    }
}

async fn ask_once(client: &RawClient, target: &str, body: &Value) -> Result<Value, Refused> {
    let request = RawRequest {
        target,
        mark: ("x-dynashard-command", "watch"),
        body: body.to_string().into(),
        leases: Vec::new(),
    };
    let answer = client.send(request).await.map_err(|error| Refused {
        kind: String::new(),
        failure: Failure::connection(error.to_string()),
        may_pass: true,
    })?;
    let members = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
    if answer.status == 200 {
        return Ok(members);
    }
    let kind = members["__type"].as_str().unwrap_or_default();
    let kind = kind.rsplit_once('#').map_or(kind, |(_, name)| name).to_owned();
    let message = members["message"].as_str().or(members["Message"].as_str());
    let message = message.unwrap_or_default();
    let operation = target.rsplit_once('.').map_or(target, |(_, operation)| operation);
    Err(Refused {
        failure: Failure::connection(format!("{operation}: {kind}: {message}")),
        may_pass: answer.status >= 500 || is_throttle(&kind) || kind == TOO_MANY_READERS,
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_around_the_application_is_named_and_nothing_else() {
        let names = Names { partition: "pk", sort: "sk" };
        let judged = |pk: &str, old: Value, new: Value| {
            let keys = json!({ "pk": { "S": pk }, "sk": { "N": "7" } });
            let mut record = json!({ "dynamodb": { "Keys": keys } });
            for (name, image) in [("OldImage", old), ("NewImage", new)] {
                if !image.is_null() {
                    record["dynamodb"][name] = image;
                }
            }
            judge(&record, &names).map(|around| (around.sk, around.why))
        };
        let version = |n: u64| json!({ "_ds_v": { "N": n.to_string() } });
        let marker = json!({ "_ds_fwd": { "BOOL": true }, "_ds_g": { "N": "1" } });
        let none = Value::Null;
        assert_eq!(judged("a", none.clone(), version(1)), None, "a put");
        assert_eq!(judged("a", version(1), version(2)), None, "an update");
        assert_eq!(judged("a", version(1), marker.clone()), None, "a move");
        assert_eq!(judged("a", marker, version(1)), None, "an arrival where a marker lay");
        assert_eq!(judged("a", version(1), none.clone()), None, "a delete");
        assert_eq!(judged("a", json!({}), version(1)), None, "an item from before");
        assert_eq!(judged("_ds_owner", none.clone(), json!({})), None, "the owner");
        let without = Some(("7".to_owned(), "the item has no _ds_v"));
        assert_eq!(judged("a", none.clone(), json!({})), without);
        assert_eq!(judged("a", version(1), json!({})), without);
        let kept = Some(("7".to_owned(), "the item was changed, and kept its _ds_v"));
        let with = |mut image: Value, name: &str| {
            image[name] = json!({ "N": "7" });
            image
        };
        assert_eq!(judged("a", version(1), with(version(1), "n")), kept);
        let rewritten = with(version(1), "_ds_index_shard");
        assert_eq!(judged("a", version(1), rewritten), None, "`indexes --rewrite`");
    }

    /// A watch of a week ended with the first request that was refused, and with it what it had seen.
    #[tokio::test]
    async fn regression_a_watch_ended_with_its_first_throttle() {
        let record = |number: &str, created: u64| json!({ "dynamodb": { "SequenceNumber": number, "ApproximateCreationDateTime": created } });
        let refused = |kind: &str| (400, json!({ "__type": format!("com.amazonaws#{kind}") }));
        let found = |records: Value, next: &str| {
            (200, json!({ "Records": records, "NextShardIterator": next }))
        };
        let iterator = |name: &str| (200, json!({ "ShardIterator": name }));
        let (url, asked) = canned(vec![
            (500, json!({})),
            refused("LimitExceededException"),
            found(json!([record("7", 200)]), "b"),
            refused("ExpiredIteratorException"),
            iterator("c"),
            refused("TrimmedDataAccessException"),
            iterator("d"),
            // One from before the watch.
            found(json!([record("8", 99), record("9", 201)]), "e"),
            refused("AccessDeniedException"),
        ])
        .await;
        let operator = dynashard_aws_operator::Operator::on_this_machine(&url).await;
        let client = RawClient::new(&operator, &url);
        let streams = Streams(client);
        let reading = Reading { iterator: "a".to_owned(), last: None, begins: Some(100) };
        let mut shards = Shards::default();
        shards.read.insert("shard".to_owned(), reading);
        let mut numbers = Vec::new();
        let mut take = |record: &Value| numbers.push(record["dynamodb"]["SequenceNumber"].clone());
        let failure = loop {
            if let Err(failure) = shards.read(&streams, "arn", None, &mut take).await {
                break failure;
            }
        };
        assert_eq!(numbers, ["7", "9"]);
        assert!(failure.detail.contains("AccessDeniedException"), "{}", failure.detail);
        let asked = asked.lock().clone();
        let of = |name: &str| asked.iter().map(|body| body[name].clone()).collect::<Vec<_>>();
        let (a, b, d, e) = (json!("a"), json!("b"), json!("d"), json!("e"));
        let none = Value::Null;
        let iterators = [&a, &a, &a, &b, &none, &json!("c"), &none, &d, &e];
        assert!(of("ShardIterator").iter().eq(iterators), "{asked:?}");
        assert_eq!(
            (&asked[4]["SequenceNumber"], &asked[6]["SequenceNumber"]),
            (&json!("7"), &none)
        );
        assert_eq!(asked[6]["ShardIteratorType"], "TRIM_HORIZON");
    }

    /// A watch ended when its time was over, whatever was written by then and not read yet.
    #[test]
    fn regression_a_watch_left_what_it_had_not_read_yet() {
        let page = |created: &[u64]| {
            let record = |at: &u64| json!({ "dynamodb": { "SequenceNumber": "1", "ApproximateCreationDateTime": at } });
            json!({ "Records": created.iter().map(record).collect::<Vec<_>>() })
        };
        let mut reading = Reading { iterator: "a".to_owned(), last: None, begins: Some(100) };
        let mut taken = 0;
        let mut take = |_: &Value| taken += 1;
        let mut has_more = |page: &Value, ends| reading.take(page, ends, &mut take);
        assert!(has_more(&page(&[99, 100]), None));
        assert!(has_more(&page(&[150, 199]), Some(200)), "as far as it was written in time");
        assert!(!has_more(&page(&[199, 200]), Some(200)));
        assert!(!has_more(&page(&[]), Some(200)));
        assert_eq!(taken, 5);
    }

    type Asked = std::sync::Arc<parking_lot::Mutex<Vec<Value>>>;

    /// A server that answers so, one after another, and what it is asked.
    async fn canned(answers: Vec<(u16, Value)>) -> (String, Asked) {
        let asked = Asked::default();
        let (noted, answers) = (Asked::clone(&asked), answers.into_iter());
        let answers = std::sync::Arc::new(parking_lot::Mutex::new(answers));
        let answer = move |body: String| {
            noted.lock().push(serde_json::from_str(&body).unwrap_or_default());
            let (status, body) = answers.lock().next().unwrap_or((400, Value::Null));
            let status = http::StatusCode::from_u16(status).expect("a status");
            std::future::ready((status, body.to_string()))
        };
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let app = axum::Router::new().fallback(answer);
        tokio::spawn(async move { axum::serve(listener, app).await });
        (url, asked)
    }

    #[test]
    fn the_streams_of_a_region_are_elsewhere() {
        let url = "https://dynamodb.eu-west-1.amazonaws.com/";
        assert_eq!(streams_url(url), "https://streams.dynamodb.eu-west-1.amazonaws.com/");
        assert_eq!(streams_url("http://127.0.0.1:8000/"), "http://127.0.0.1:8000/");
    }
}
