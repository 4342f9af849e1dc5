//! The part of a `Scan` behind the table: the collections that are listed.
//!
//! What DynamoDB shows of a table is what lies where the scan comes by, and an item that moves meanwhile could be missed. So a
//! scan leaves out the collections that are listed, and reads each of them in order behind the table, as a query does. None is ever
//! taken off the list, and the metadata table is read strongly: one that is listed while a scan is under way is read behind the
//! table if it was left out there, and comes twice at most.
//!
//! In a parallel scan whoever reads the segment of a collection's first shard reads it. DynamoDB says which that is.

use std::ops::ControlFlow;

use dynashard_core::Deadline;
use dynashard_core::ports::Consistency;
use dynashard_core::query::Query;
use dynashard_keys::PartitionKey;
use serde_json::{Value, json};

use crate::call::Answer;
use crate::cursor::{Position, first_shard};
use crate::document::Members;
use crate::evaluation::{Evaluation, Page, flag, not_understood};
use crate::guard::{PageExpressions, page_expressions};
use crate::items::Attempt;
use crate::judged::judged;
use crate::moving::read;
use crate::refusal::Refusal;
use crate::table::ManagedTable;
use crate::upstream::{Upstream, refused};

/// Answers a page that begins at this position.
pub(crate) async fn listed(
    upstream: &Upstream,
    table: &ManagedTable,
    body: &Members,
    position: Position,
    deadline: Deadline,
) -> Result<Attempt, Refusal> {
    let mut whole = body.clone();
    whole.remove("ExclusiveStartKey");
    let page = async |scan: Scan<'_>| scan.page(position).await.map(Attempt::Answered);
    let scan = Scan::of(upstream, table, &whole, deadline);
    judged(upstream, "Scan", &whole, scan, page).await
}

/// What a client asks for.
struct Scan<'a> {
    upstream: &'a Upstream,
    table: &'a ManagedTable,
    deadline: Deadline,
    consistency: Consistency,
    evaluation: Evaluation,
    /// Of a parallel scan.
    segment: Option<Segment>,
}

struct Segment {
    number: Value,
    total: Value,
}

impl<'a> Scan<'a> {
    /// Reads a scan that DynamoDB takes. What it does not take may be read, or not.
    fn of(
        upstream: &'a Upstream,
        table: &'a ManagedTable,
        body: &Members,
        deadline: Deadline,
    ) -> Result<Self, Refusal> {
        let PageExpressions { filter, projection, placeholders, .. } =
            page_expressions(body.clone())?;
        let (filter, projection) = (filter.as_deref(), projection.as_deref());
        let is_strong = flag(body, "ConsistentRead")?.unwrap_or(false);
        let is_parallel = |(_, total): &(&Value, &Value)| **total != 1;
        let segment = body.get("Segment").zip(body.get("TotalSegments")).filter(is_parallel);
        let segment =
            segment.map(|(number, total)| Segment { number: number.clone(), total: total.clone() });
        Ok(Self {
            upstream,
            table,
            deadline,
            consistency: if is_strong { Consistency::Strong } else { Consistency::Eventual },
            evaluation: Evaluation::of(body, filter, projection, &placeholders)?,
            segment,
        })
    }

    async fn page(&self, position: Position) -> Result<Answer, Refusal> {
        let mut page = Page::default();
        let end = self.read(&mut page, position).await?;
        let end = end.map(|end| end.key(self.table));
        let consumed = self.evaluation.consumed(self.table, None, page.consumed_rcu);
        Ok(self.evaluation.answer(page, end, consumed))
    }

    /// Takes what follows a position into a page, and returns where it ends. `None` at the end of the scan.
    async fn read(
        &self,
        page: &mut Page<Position>,
        from: Position,
    ) -> Result<Option<Position>, Refusal> {
        let began = self.table.requests().now();
        let mut behind = match from {
            Position::Within(partition, sort) => {
                let query = Query { start: Some(sort), ..Query::all(partition.clone()) };
                if self.read_collection(page, query).await?.is_break() {
                    return Ok(page.last.clone());
                }
                Some(partition.as_str().to_owned())
            }
            Position::Behind(key) => key,
        };
        loop {
            let listed = self.table.collections(behind.as_deref(), self.deadline).await?;
            for partition in listed.entries {
                // Half of the time is left for the collection that is begun.
                let left = self.deadline.remaining(self.table.requests().now());
                if left < self.deadline.remaining(began) / 2 {
                    return Ok(Some(Position::Behind(behind)));
                }
                if self.is_in_segment(&partition).await?
                    && self.read_collection(page, Query::all(partition.clone())).await?.is_break()
                {
                    return Ok(page.last.clone());
                }
                behind = Some(partition.as_str().to_owned());
            }
            match listed.next {
                Some(next) => behind = Some(next),
                None => return Ok(None),
            }
        }
    }

    async fn read_collection(
        &self,
        page: &mut Page<Position>,
        query: Query,
    ) -> Result<ControlFlow<bool>, Refusal> {
        let partition = query.partition.clone();
        let place = |sort| Some(Position::Within(partition.clone(), sort));
        let query = Query { consistency: self.consistency, ..query };
        let Self { upstream, table, evaluation, deadline, .. } = self;
        read(upstream, table, query, evaluation, page, place, *deadline).await
    }

    /// Whether the first shard of a collection lies in the segment that is asked for.
    async fn is_in_segment(&self, partition: &PartitionKey) -> Result<bool, Refusal> {
        let Some(Segment { number, total }) = &self.segment else { return Ok(true) };
        // A key that may have no item, of which the partition key alone counts.
        let mut start = Position::Behind(None).key(self.table);
        let first = json!({ "S": first_shard(self.table, partition) });
        start.insert(self.table.partition_key_name().to_owned(), first);
        let body = json!({
            "TableName": self.table.name(),
            "Segment": number,
            "TotalSegments": total,
            "ExclusiveStartKey": start,
            "Limit": 1,
        });
        let answer = self.upstream.exchange("Scan", body.to_string().into_bytes(), None).await;
        let answer = Answer::from(answer.map_err(|error| refused(&error))?);
        if answer.is_error("ValidationException") {
            return Ok(false);
        }
        let why = "DynamoDB does not say in which segment a key lies";
        if answer.is_passing() {
            return Err(Refusal::unavailable(format!("dynashard: {why}; ask again")));
        }
        if !answer.is_success() {
            return Err(not_understood(why));
        }
        Ok(true)
    }
}
