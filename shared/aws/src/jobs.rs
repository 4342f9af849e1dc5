//! How the metadata table stores the job of a reshard.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use dynashard_core::ports::StoreError;
use dynashard_core::{Claim, Generation, Job, LaneKey, ServerTime, ShardRange};
use dynashard_keys::{PartitionKey, ShardCount, ShardId, SortKey, SortKeyType};

use crate::attributes::{number, sort_key};

/// The top-level attributes of a job item beside its key: those that conditions and the stream's filter
/// read, and a map of the rest. Must be kept stable.
pub(crate) const GENERATION: &str = "generation";
pub(crate) const REV: &str = "rev";
const SLICE: &str = "slice";
const YIELDED: &str = "yielded";
const JOB: &str = "job";

/// The key of the job of a collection's reshard, as text.
pub(crate) fn job_key(partition: &PartitionKey) -> String {
    format!("{}{partition}", Job::KEY_PREFIX)
}

/// The key of the item by which a lane of a collection is called.
pub(crate) fn lane_key(partition: &PartitionKey, lane: u32) -> AttributeValue {
    AttributeValue::S(LaneKey { lane, partition: partition.as_str() }.to_string())
}

/// The item by which a lane is called, without its key. It passes the stream's filter as a job does whose
/// slice is over.
pub(crate) fn encode_call(call: u64) -> HashMap<String, AttributeValue> {
    HashMap::from([
        (SLICE.to_owned(), AttributeValue::S(YIELDED.to_owned())),
        ("call".to_owned(), number(call)),
    ])
}

/// The whole item without its key.
pub(crate) fn encode(job: &Job) -> HashMap<String, AttributeValue> {
    let shard = |shard: ShardId| number(u64::from(shard.get()));
    let count = |count: ShardCount| number(u64::from(count.get()));
    let mut fields = HashMap::from([
        ("from".to_owned(), count(job.from)),
        ("to".to_owned(), count(job.to)),
        ("started".to_owned(), number(job.started_secs)),
        ("closing".to_owned(), AttributeValue::Bool(job.closing)),
        ("scan".to_owned(), number(u64::from(job.scan))),
        ("items_moved".to_owned(), number(job.items_moved)),
    ]);
    let times = [
        ("forward_seen", job.forward_seen),
        ("move_seen", job.move_seen),
        ("scan_began", job.scan_began),
        ("called_until", job.called_until),
        ("scanned", job.scanned),
        ("closed_seen", job.closed_seen),
    ];
    let known = times.into_iter().filter_map(|(name, at)| Some((name.to_owned(), number(at?.0))));
    fields.extend(known);
    fields.extend(job.then.map(|then| ("then".to_owned(), count(then))));
    if let Some(ShardRange { first, last }) = job.marked {
        fields.insert("marked_first".to_owned(), shard(first));
        fields.insert("marked_last".to_owned(), shard(last));
    }
    if !job.done.is_empty() {
        let done = job.done.iter().map(ShardId::to_string).collect();
        fields.insert("done".to_owned(), AttributeValue::Ns(done));
    }
    let under_way = job.under_way.iter().map(|(shard, sort)| (shard.to_string(), sort_key(sort)));
    fields.insert("under_way".to_owned(), AttributeValue::M(under_way.collect()));
    if !job.spans.is_empty() {
        let spans = job.spans.iter().map(|(shard, span)| {
            let span = span.iter().map(sort_key).collect();
            (shard.to_string(), AttributeValue::L(span))
        });
        fields.insert("spans".to_owned(), AttributeValue::M(spans.collect()));
    }
    if !job.claims.is_empty() {
        let claims = job.claims.iter().map(|(shard, claim)| {
            let Claim { worker, lane, until, wcu } = *claim;
            let claim = [
                ("worker", worker),
                ("lane", u64::from(lane)),
                ("until", until.0),
                ("wcu", u64::from(wcu)),
            ];
            let claim = claim.map(|(name, value)| (name.to_owned(), number(value)));
            (shard.to_string(), AttributeValue::M(HashMap::from(claim)))
        });
        fields.insert("claims".to_owned(), AttributeValue::M(claims.collect()));
    }
    if !job.unmovable.is_empty() {
        let unmovable = job.unmovable.iter().map(|((at, sort), why)| {
            AttributeValue::M(HashMap::from([
                ("shard".to_owned(), shard(*at)),
                ("sort".to_owned(), sort_key(sort)),
                ("why".to_owned(), AttributeValue::S(why.clone())),
            ]))
        });
        fields.insert("unmovable".to_owned(), AttributeValue::L(unmovable.collect()));
    }
    if job.last_lane > 0 {
        fields.insert("last_lane".to_owned(), number(u64::from(job.last_lane)));
    }
    let slice = if job.yielded { YIELDED } else { "running" };
    HashMap::from([
        (GENERATION.to_owned(), number(job.generation.get())),
        (REV.to_owned(), number(job.rev)),
        (SLICE.to_owned(), AttributeValue::S(slice.to_owned())),
        (JOB.to_owned(), AttributeValue::M(fields)),
    ])
}

/// Reads a job item. The error names the wrong field.
pub(crate) fn decode(
    partition: &PartitionKey,
    item: &HashMap<String, AttributeValue>,
) -> Result<Job, StoreError> {
    let whole = Fields { partition, fields: item };
    let Some(AttributeValue::M(fields)) = item.get(JOB) else {
        return Err(whole.wrong(JOB, "is missing or is not a map"));
    };
    let fields = Fields { partition, fields };
    let shard_text = |field: &str, text: &str| fields.shard(field, text);
    let done = match fields.fields.get("done") {
        None => Ok(Vec::new()),
        Some(AttributeValue::Ns(done)) => {
            done.iter().map(|text| shard_text("done", text)).collect::<Result<Vec<_>, _>>()
        }
        Some(_) => Err(fields.wrong("done", "is not a set of numbers")),
    }?;
    let Some(AttributeValue::M(positions)) = fields.fields.get("under_way") else {
        return Err(fields.wrong("under_way", "is missing or is not a map"));
    };
    let under_way = positions.iter().map(|(shard, sort)| {
        Ok((shard_text("under_way", shard)?, fields.sort_key("under_way", sort)?))
    });
    let under_way = under_way.collect::<Result<_, _>>()?;
    let spans = match fields.fields.get("spans") {
        None => BTreeMap::new(),
        Some(AttributeValue::M(spans)) => {
            let spans = spans.iter().map(|(shard, span)| match span {
                AttributeValue::L(span) if span.len() == 2 => {
                    let [first, last] =
                        [&span[0], &span[1]].map(|key| fields.sort_key("spans", key));
                    Ok((shard_text("spans", shard)?, [first?, last?]))
                }
                _ => Err(fields.wrong("spans", "holds what is not a list of two sort keys")),
            });
            spans.collect::<Result<_, _>>()?
        }
        Some(_) => return Err(fields.wrong("spans", "is not a map")),
    };
    let claims = fields.claims()?;
    let time = |field: &str| Ok::<_, StoreError>(fields.optional(field)?.map(ServerTime));
    Ok(Job {
        partition: partition.clone(),
        generation: Generation::new(whole.required(GENERATION)?),
        rev: whole.required(REV)?,
        from: fields.count("from")?,
        to: fields.count("to")?,
        then: fields.optional("then")?.map(|_| fields.count("then")).transpose()?,
        started_secs: fields.required("started")?,
        forward_seen: time("forward_seen")?,
        move_seen: time("move_seen")?,
        closing: match fields.fields.get("closing") {
            Some(AttributeValue::Bool(closing)) => *closing,
            _ => return Err(fields.wrong("closing", "is missing or is not a boolean")),
        },
        scan: fields.small("scan")?,
        done: done.into_iter().collect(),
        under_way,
        spans,
        scan_began: time("scan_began")?,
        claims,
        last_lane: fields.optional("last_lane")?.map_or(Ok(0), |_| fields.small("last_lane"))?,
        called_until: time("called_until")?,
        scanned: time("scanned")?,
        closed_seen: time("closed_seen")?,
        marked: match fields.optional("marked_first")? {
            None => None,
            Some(_) => Some(ShardRange {
                first: ShardId::new(fields.small("marked_first")?),
                last: ShardId::new(fields.small("marked_last")?),
            }),
        },
        items_moved: fields.required("items_moved")?,
        unmovable: fields.unmovable()?,
        yielded: match item.get(SLICE) {
            Some(AttributeValue::S(slice)) => slice == YIELDED,
            _ => return Err(whole.wrong(SLICE, "is missing or is not a string")),
        },
    })
}

struct Fields<'a> {
    partition: &'a PartitionKey,
    fields: &'a HashMap<String, AttributeValue>,
}

impl Fields<'_> {
    fn wrong(&self, field: &str, why: &str) -> StoreError {
        let Self { partition, .. } = self;
        StoreError::Corrupt(format!("the job item of {partition:?} is damaged: {field}: {why}"))
    }

    fn shard(&self, field: &str, text: &str) -> Result<ShardId, StoreError> {
        text.parse()
            .map(ShardId::new)
            .map_err(|_| self.wrong(field, &format!("{text:?} is not a shard")))
    }

    fn claims(&self) -> Result<BTreeMap<ShardId, Claim>, StoreError> {
        let claims = match self.fields.get("claims") {
            None => return Ok(BTreeMap::new()),
            Some(AttributeValue::M(claims)) => claims,
            Some(_) => return Err(self.wrong("claims", "is not a map")),
        };
        let claims = claims.iter().map(|(shard, claim)| {
            let AttributeValue::M(claim) = claim else {
                return Err(self.wrong("claims", "holds what is not a map"));
            };
            let claim = Fields { partition: self.partition, fields: claim };
            let wrong = |_| self.wrong("claims", "holds what is not a claim");
            let claim = Claim {
                worker: claim.required("worker").map_err(wrong)?,
                lane: claim.small("lane").map_err(wrong)?,
                until: ServerTime(claim.required("until").map_err(wrong)?),
                wcu: claim.small("wcu").map_err(wrong)?,
            };
            Ok((self.shard("claims", shard)?, claim))
        });
        claims.collect()
    }

    fn sort_key(&self, field: &str, value: &AttributeValue) -> Result<SortKey, StoreError> {
        let key = match value {
            AttributeValue::S(text) => SortKey::parse(text, SortKeyType::String),
            AttributeValue::N(text) => SortKey::parse(text, SortKeyType::Number),
            _ => return Err(self.wrong(field, "holds what is not a sort key")),
        };
        key.map_err(|error| self.wrong(field, &error.to_string()))
    }

    fn unmovable(&self) -> Result<BTreeMap<(ShardId, SortKey), String>, StoreError> {
        let wrong = || {
            let why = "is not a list of maps, each of a shard, a sort key and a reason";
            self.wrong("unmovable", why)
        };
        let entries = match self.fields.get("unmovable") {
            None => return Ok(BTreeMap::new()),
            Some(AttributeValue::L(entries)) => entries,
            Some(_) => return Err(wrong()),
        };
        let entries = entries.iter().map(|entry| {
            let AttributeValue::M(entry) = entry else { return Err(wrong()) };
            let (Some(sort), Some(AttributeValue::S(why))) = (entry.get("sort"), entry.get("why"))
            else {
                return Err(wrong());
            };
            let entry = Fields { partition: self.partition, fields: entry };
            let shard = ShardId::new(entry.small("shard").map_err(|_| wrong())?);
            Ok(((shard, self.sort_key("unmovable", sort)?), why.clone()))
        });
        entries.collect()
    }

    fn optional(&self, field: &str) -> Result<Option<u64>, StoreError> {
        match self.fields.get(field) {
            None => Ok(None),
            Some(AttributeValue::N(text)) => text
                .parse()
                .map(Some)
                .map_err(|_| self.wrong(field, &format!("{text} is not a whole number"))),
            Some(_) => Err(self.wrong(field, "is not a number")),
        }
    }

    fn required(&self, field: &str) -> Result<u64, StoreError> {
        self.optional(field)?.ok_or_else(|| self.wrong(field, "is missing"))
    }

    fn small(&self, field: &str) -> Result<u32, StoreError> {
        u32::try_from(self.required(field)?).map_err(|_| self.wrong(field, "is too large"))
    }

    fn count(&self, field: &str) -> Result<ShardCount, StoreError> {
        ShardCount::new(self.small(field)?).map_err(|e| self.wrong(field, &e.to_string()))
    }
}
