//! `dynashard adopt --watch`: who writes around the application, from the table's stream.
//!
//! Every write of the application, and of `dynashard serve`, leaves another `_ds_v` on the item. So a record whose new
//! image has none, or the one that was there before, is of somebody else. Whoever deletes around the application leaves no
//! trace of that.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Duration;

use dynashard_aws::attributes::{FORWARDED, VERSION};
use dynashard_aws_operator::{RawClient, RawRequest};
use dynashard_keys::RESERVED_PREFIX;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::output::{Activity, Output, printable};
use super::super::{Failure, shell};
use super::{AdoptArgs, Found, PROBLEMS_FOUND};
use crate::clock::Stopwatch;

/// How often each shard of the stream is read. DynamoDB takes five reads of a shard a second.
const READ_EVERY: Duration = Duration::from_millis(500);

/// How often it is looked whether the stream has other shards.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// How many keys are named one by one. What follows is counted.
const MOST_NAMED: usize = 100;

/// Watches until the time is over, or for ever.
pub(super) async fn run(args: &AdoptArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let found = Found::by(args).await?;
    let schema = found.schema()?;
    let client = RawClient::new(&found.operator, &found.operator.url().await?);
    let of_table = json!({ "TableName": args.table });
    let described = ask(&client, "DynamoDB_20120810.DescribeTable", &of_table);
    let stream = stream_of(&described.await?["Table"], args)?;
    let streams = RawClient::new(&found.operator, &streams_url(client.url()));
    let names = Names { partition: &schema.partition_key_name, sort: &schema.sort_key_name };
    let mut shards = Shards::default();
    // What was written before is not looked at: the application may have come later.
    shards.look(&streams, &stream, "LATEST").await?;
    output.event("watch", &json!({ "table": args.table, "stream": stream }));
    output.text(format!(
        "watching the stream of {}; each write that goes around the application is named, Ctrl-C ends it",
        args.table
    ));
    let activity = Activity::begin(!output.is_for_machines());
    let (began, mut looked) = (Stopwatch::start(), Stopwatch::start());
    let mut seen = Seen::default();
    while args.watch.watch_secs.is_none_or(|secs| began.elapsed() < Duration::from_secs(secs.get()))
    {
        if looked.elapsed() >= LOOK_EVERY || shards.iterators.is_empty() {
            shards.look(&streams, &stream, "TRIM_HORIZON").await?;
            looked = Stopwatch::start();
        }
        for record in shards.read(&streams).await? {
            seen.records += 1;
            if let Some(around) = judge(&record, &names) {
                seen.note(around, output);
            }
        }
        activity
            .says(|| format!("{} records, {} around the application", seen.records, seen.around));
        tokio::time::sleep(READ_EVERY).await;
    }
    drop(activity);
    output.event(
        "watched",
        &json!({ "records": seen.records, "around": seen.around, "keys": seen.keys.len() }),
    );
    output.text(format!(
        "{} records, of which {} went around the application, to {} keys",
        seen.records,
        seen.around,
        seen.keys.len()
    ));
    Ok(if seen.around > 0 { ExitCode::from(PROBLEMS_FOUND) } else { ExitCode::SUCCESS })
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
        output.text(format!("around    {} {}: {why}", printable(&pk), printable(&sk)));
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
    let why = match (new.get(VERSION), of["OldImage"].get(VERSION)) {
        (None, _) => "the item has no _ds_v",
        (Some(new), Some(old)) if new == old => "the item was changed, and kept its _ds_v",
        _ => return None,
    };
    Some(Around { pk, sk, why })
}

/// The shards of a stream that are open.
#[derive(Default)]
struct Shards {
    known: BTreeSet<String>,
    /// Where each goes on.
    iterators: BTreeMap<String, String>,
}

impl Shards {
    /// Begins to read the shards that are not known yet.
    async fn look(&mut self, streams: &RawClient, stream: &str, from: &str) -> Result<(), Failure> {
        let mut after = Value::Null;
        loop {
            let mut body = json!({ "StreamArn": stream });
            if !after.is_null() {
                body["ExclusiveStartShardId"] = after;
            }
            let described = ask(streams, "DynamoDBStreams_20120810.DescribeStream", &body).await?;
            let description = &described["StreamDescription"];
            for shard in description["Shards"].as_array().into_iter().flatten() {
                let Some(id) = shard["ShardId"].as_str() else { continue };
                if !self.known.insert(id.to_owned()) {
                    continue;
                }
                // One that has ended before the watch began has nothing to say.
                let has_ended = shard["SequenceNumberRange"].get("EndingSequenceNumber").is_some();
                if has_ended && from == "LATEST" {
                    continue;
                }
                let body = json!({ "StreamArn": stream, "ShardId": id, "ShardIteratorType": from });
                let iterator =
                    ask(streams, "DynamoDBStreams_20120810.GetShardIterator", &body).await?;
                if let Some(iterator) = iterator["ShardIterator"].as_str() {
                    self.iterators.insert(id.to_owned(), iterator.to_owned());
                }
            }
            after = description["LastEvaluatedShardId"].clone();
            if after.is_null() {
                return Ok(());
            }
        }
    }

    /// What has come since. A shard that has ended is left.
    async fn read(&mut self, streams: &RawClient) -> Result<Vec<Value>, Failure> {
        let mut records = Vec::new();
        let all =
            self.iterators.iter().map(|(id, at)| (id.clone(), at.clone())).collect::<Vec<_>>();
        for (id, iterator) in all {
            let body = json!({ "ShardIterator": iterator });
            let page = ask(streams, "DynamoDBStreams_20120810.GetRecords", &body).await?;
            if let Some(more) = page["Records"].as_array() {
                records.extend(more.iter().cloned());
            }
            match page["NextShardIterator"].as_str() {
                Some(next) => drop(self.iterators.insert(id, next.to_owned())),
                None => drop(self.iterators.remove(&id)),
            }
        }
        Ok(records)
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

async fn ask(client: &RawClient, target: &str, body: &Value) -> Result<Value, Failure> {
    let request = RawRequest {
        target,
        mark: ("x-dynashard-command", "watch"),
        body: body.to_string().into(),
        leases: Vec::new(),
    };
    let answer = client.send(request).await.map_err(|e| Failure::connection(e.to_string()))?;
    let members = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
    if answer.status == 200 {
        return Ok(members);
    }
    let kind = members["__type"].as_str().unwrap_or_default();
    let kind = kind.rsplit_once('#').map_or(kind, |(_, name)| name);
    let message = members["message"].as_str().or(members["Message"].as_str()).unwrap_or_default();
    let operation = target.rsplit_once('.').map_or(target, |(_, operation)| operation);
    Err(Failure::connection(format!("{operation}: {kind}: {message}")))
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
        assert_eq!(judged("a", version(1), version(1)), kept);
    }

    #[test]
    fn the_streams_of_a_region_are_elsewhere() {
        let url = "https://dynamodb.eu-west-1.amazonaws.com/";
        assert_eq!(streams_url(url), "https://streams.dynamodb.eu-west-1.amazonaws.com/");
        assert_eq!(streams_url("http://127.0.0.1:8000/"), "http://127.0.0.1:8000/");
    }
}
