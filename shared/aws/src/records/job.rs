//! The job of a change of a shard count, as DynamoDB holds it. The names must be kept stable.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use dynashard_core::ports::StoreError;
use dynashard_core::{Claim, Interval, Job, ShardRange};
use dynashard_keys::{PartitionKey, ShardId, SortKey};

use crate::records::codec::{Field, Fill, Item, Reader, decode_map, member};

/// What must be as it was seen.
pub(super) const LOCK: &[&str] = &["generation", "rev"];

/// The top-level attributes of a job item beside its key are those that conditions and the stream's filter read, and
/// a map of the rest.
const SLICE: &str = "slice";
const YIELDED: &str = "yielded";
const JOB: &str = "job";

/// The ends of the intervals of sort keys.
const WITHIN: [&str; 2] = ["after", "until"];
const MARKED_WITHIN: [&str; 2] = ["marked_after", "marked_until"];

/// The item by which a lane is called, without its key. It passes the stream's filter as a job does whose
/// slice is over.
pub(super) fn encode_call(call: u64) -> Item {
    let mut item = Item::new();
    item.put(SLICE, &YIELDED.to_owned());
    item.put("call", &call);
    item
}

pub(super) fn encode(job: &Job) -> Item {
    let mut fields = Item::new();
    fields.put("from", &job.from);
    fields.put("to", &job.to);
    fields.put_if_any("then", job.then.as_ref());
    fields.put("started", &job.started_secs);
    fields.put("closing", &job.closing);
    fields.put("scan", &job.scan);
    fields.put("items_moved", &job.items_moved);
    fields.put_if_any("old_requests_secs", job.old_requests.as_ref());
    for (name, at) in [
        ("forward_seen", job.forward_seen),
        ("move_seen", job.move_seen),
        ("scan_began", job.scan_began),
        ("called_until", job.called_until),
        ("scanned", job.scanned),
        ("closed_seen", job.closed_seen),
    ] {
        fields.put_if_any(name, at.as_ref());
    }
    fields.put_if_any("marked_first", job.marked.as_ref().map(|range| &range.first));
    fields.put_if_any("marked_last", job.marked.as_ref().map(|range| &range.last));
    for ([after, until], interval) in [(WITHIN, &job.within), (MARKED_WITHIN, &job.marked_within)] {
        fields.put_if_any(after, interval.after.as_ref());
        fields.put_if_any(until, interval.until.as_ref());
    }
    fields.put_unless_default("done", &job.done);
    fields.put("under_way", &job.under_way);
    fields.put_unless_default("spans", &job.spans);
    fields.put_unless_default("claims", &job.claims);
    let unmovable = job.unmovable.iter().map(|((shard, sort), why)| Unmovable {
        shard: *shard,
        sort: sort.clone(),
        why: why.clone(),
    });
    fields.put_unless_default("unmovable", &unmovable.collect::<Vec<_>>());
    fields.put_unless_default("last_lane", &job.last_lane);
    fields.put_if_any("mover_wcu", job.mover_wcu.as_ref());
    fields.put_unless_default("paused", &job.paused);
    let mut item = Item::new();
    item.put("generation", &job.generation);
    item.put("rev", &job.rev);
    item.put(SLICE, &(if job.yielded { YIELDED } else { "running" }).to_owned());
    item.insert(JOB.to_owned(), AttributeValue::M(fields));
    item
}

pub(super) fn decode(partition: &PartitionKey, item: &Item) -> Result<Job, StoreError> {
    let what = format!("the job item of {partition:?}");
    let whole = Reader { what: &what, item };
    let fields = whole.map(JOB)?;
    let unmovable = fields.or_default::<Vec<Unmovable>>("unmovable")?.into_iter();
    let marked = match fields.optional("marked_first")? {
        None => None,
        Some(first) => Some(ShardRange { first, last: fields.get("marked_last")? }),
    };
    let interval = |[after, until]: [&str; 2]| -> Result<_, StoreError> {
        Ok(Interval { after: fields.optional(after)?, until: fields.optional(until)? })
    };
    Ok(Job {
        within: interval(WITHIN)?,
        marked_within: interval(MARKED_WITHIN)?,
        partition: partition.clone(),
        generation: whole.get("generation")?,
        rev: whole.get("rev")?,
        from: fields.get("from")?,
        to: fields.get("to")?,
        then: fields.optional("then")?,
        started_secs: fields.get("started")?,
        forward_seen: fields.optional("forward_seen")?,
        move_seen: fields.optional("move_seen")?,
        old_requests: fields.optional("old_requests_secs")?,
        closing: fields.get("closing")?,
        scan: fields.get("scan")?,
        done: fields.or_default("done")?,
        under_way: fields.get("under_way")?,
        spans: fields.or_default("spans")?,
        scan_began: fields.optional("scan_began")?,
        claims: fields.or_default::<BTreeMap<_, _>>("claims")?,
        last_lane: fields.or_default("last_lane")?,
        called_until: fields.optional("called_until")?,
        scanned: fields.optional("scanned")?,
        closed_seen: fields.optional("closed_seen")?,
        marked,
        items_moved: fields.get("items_moved")?,
        unmovable: unmovable.map(|Unmovable { shard, sort, why }| ((shard, sort), why)).collect(),
        mover_wcu: fields.optional("mover_wcu")?,
        paused: fields.or_default("paused")?,
        yielded: whole.get::<String>(SLICE)? == YIELDED,
    })
}

impl Field for Claim {
    fn encode(&self) -> AttributeValue {
        let Self { worker, lane, until, wcu } = self;
        let mut claim = Item::new();
        claim.put("worker", worker);
        claim.put("lane", lane);
        claim.put("until", until);
        claim.put("wcu", wcu);
        AttributeValue::M(claim)
    }

    fn decode(value: &AttributeValue) -> Result<Self, String> {
        decode_map(value, "holds what is not a claim", |claim| {
            let (worker, lane) = (member(claim, "worker")?, member(claim, "lane")?);
            Some(Self { worker, lane, until: member(claim, "until")?, wcu: member(claim, "wcu")? })
        })
    }
}

/// An item that cannot be moved.
#[derive(PartialEq)]
struct Unmovable {
    shard: ShardId,
    sort: SortKey,
    why: String,
}

impl Field for Unmovable {
    fn encode(&self) -> AttributeValue {
        let mut entry = Item::new();
        entry.put("shard", &self.shard);
        entry.put("sort", &self.sort);
        entry.put("why", &self.why);
        AttributeValue::M(entry)
    }

    fn decode(value: &AttributeValue) -> Result<Self, String> {
        decode_map(value, "holds what is not a shard, a sort key and a reason", |entry| {
            let (shard, sort) = (member(entry, "shard")?, member(entry, "sort")?);
            Some(Self { shard, sort, why: member(entry, "why")? })
        })
    }
}
