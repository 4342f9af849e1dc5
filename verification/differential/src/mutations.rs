//! Sides with a fault of the kind that a translation may have.

use std::io;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::side::{Answer, Side};
use crate::table::LOCAL_INDEX;

/// What a side does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// The version that is written with each item is in what `ReturnValues` asks for.
    KeepsVersion,
    /// A filter lets everything pass.
    DropsFilter,
    /// `ReturnValues` is not passed on.
    IgnoresReturnValues,
    /// A condition that begins with a bracket always holds.
    LosesBracketedCondition,
    /// Legacy conditions are joined by `AND`, whatever `ConditionalOperator` says.
    JoinsByAnd,
    /// A failed condition shows the item to those who have not asked.
    ShowsFailedItem,
    /// `ScannedCount` is that of the items that passed the filter.
    CountsPassedAlone,
    /// `ScanIndexForward` is not passed on.
    ForgetsDirection,
    /// A page without items has no `LastEvaluatedKey`.
    EndsAtEmptyPage,
    /// `ClientRequestToken` is not passed on.
    ForgetsToken,
    /// A batch is written one by one until one is refused.
    WritesBatchInParts,
    /// A query shows its first two items in the wrong order, as one that merges shards might.
    SwapsItems,
    /// A query whose limit is met by its last item has no `LastEvaluatedKey`, as one that has read ahead might not.
    LooksAhead,
    /// A page of an index begins behind all entries that share the sort key of the last one, as one that merges by that key alone
    /// might.
    ForgetsTies,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::KeepsVersion,
        Self::DropsFilter,
        Self::IgnoresReturnValues,
        Self::LosesBracketedCondition,
        Self::JoinsByAnd,
        Self::ShowsFailedItem,
        Self::CountsPassedAlone,
        Self::ForgetsDirection,
        Self::EndsAtEmptyPage,
        Self::ForgetsToken,
        Self::WritesBatchInParts,
        Self::SwapsItems,
        Self::LooksAhead,
        Self::ForgetsTies,
    ];
}

/// A side that passes everything on, but for one fault.
pub struct Sketch<S> {
    inner: S,
    mutation: Mutation,
}

impl<S> Sketch<S> {
    /// A side over another one, with this fault.
    pub fn new(inner: S, mutation: Mutation) -> Self {
        Self { inner, mutation }
    }

    fn request(&self, operation: &str, body: &mut Value) {
        let Some(members) = body.as_object_mut() else { return };
        match self.mutation {
            Mutation::KeepsVersion if operation == "PutItem" => {
                if let Some(Value::Object(item)) = members.get_mut("Item") {
                    item.insert("_ds_v".to_owned(), json!({ "N": "1" }));
                }
            }
            Mutation::DropsFilter => weaken(body, "FilterExpression", |_| true),
            Mutation::IgnoresReturnValues => drop(members.remove("ReturnValues")),
            Mutation::LosesBracketedCondition => {
                weaken(body, "ConditionExpression", |condition| condition.starts_with('('));
            }
            Mutation::JoinsByAnd => drop(members.remove("ConditionalOperator")),
            Mutation::ShowsFailedItem if members.contains_key("ConditionExpression") => {
                members.insert("ReturnValuesOnConditionCheckFailure".to_owned(), json!("ALL_OLD"));
            }
            Mutation::ForgetsDirection => drop(members.remove("ScanIndexForward")),
            Mutation::ForgetsToken => drop(members.remove("ClientRequestToken")),
            _ => {}
        }
    }

    fn answer(&self, operation: &str, body: &mut Value) {
        let Some(members) = body.as_object_mut() else { return };
        let is_empty = members.get("Count") == Some(&json!(0));
        match self.mutation {
            Mutation::KeepsVersion
                if !["PutItem", "UpdateItem", "DeleteItem"].contains(&operation) =>
            {
                strip(body);
            }
            Mutation::CountsPassedAlone => {
                if let Some(count) = members.get("Count").cloned() {
                    members.insert("ScannedCount".to_owned(), count);
                }
            }
            Mutation::SwapsItems if operation == "Query" => {
                if let Some(Value::Array(items)) = members.get_mut("Items")
                    && items.len() > 1
                {
                    items.swap(0, 1);
                }
            }
            Mutation::EndsAtEmptyPage if is_empty => drop(members.remove("LastEvaluatedKey")),
            _ => {}
        }
    }

    /// Whether nothing follows the page that the request was answered with.
    async fn is_last(&self, request: &Value, answer: &Value, inner: &dyn Side) -> bool {
        let Some(last) = answer.get("LastEvaluatedKey") else { return true };
        let mut next = request.clone();
        next["ExclusiveStartKey"] = last.clone();
        inner.call("Query", &next).await.body["ScannedCount"] == 0
    }

    /// The first refusal of the writes of a batch, if there is one.
    async fn refusal_of_parts(&self, body: &Value, inner: &dyn Side) -> Option<Answer> {
        for (table, writes) in body.get("RequestItems")?.as_object()? {
            for write in writes.as_array()? {
                let mut single = body.clone();
                single["RequestItems"] = json!({ table: [write] });
                let answer = inner.call("BatchWriteItem", &single).await;
                if answer.status != 200 {
                    return Some(answer);
                }
            }
        }
        None
    }
}

#[async_trait]
impl<S: Side> Side for Sketch<S> {
    async fn call(&self, operation: &str, body: &Value) -> Answer {
        let mut body = body.clone();
        self.request(operation, &mut body);
        if self.mutation == Mutation::WritesBatchInParts
            && operation == "BatchWriteItem"
            && let Some(refusal) = self.refusal_of_parts(&body, &self.inner).await
        {
            return refusal;
        }
        let mut answer = self.inner.call(operation, &body).await;
        if self.mutation == Mutation::LooksAhead
            && operation == "Query"
            && self.is_last(&body, &answer.body, &self.inner).await
            && let Value::Object(members) = &mut answer.body
        {
            members.remove("LastEvaluatedKey");
        }
        if self.mutation == Mutation::ForgetsTies && body["IndexName"] == LOCAL_INDEX {
            forget_ties(&body["ExclusiveStartKey"]["n"], &mut answer.body);
        }
        self.answer(operation, &mut answer.body);
        answer
    }

    async fn begin(&self, is_owned: bool) -> io::Result<()> {
        self.inner.begin(is_owned).await
    }

    fn go_on(&self) {
        self.inner.go_on();
    }
}

/// Takes the entries out of a page whose sort key is this one.
fn forget_ties(sort: &Value, page: &mut Value) {
    let Some(Value::Array(items)) = page.get_mut("Items") else { return };
    let before = items.len();
    items.retain(|item| sort.is_null() || item["n"] != *sort);
    let forgotten = before - items.len();
    for count in ["Count", "ScannedCount"] {
        let counted = page[count].as_u64().and_then(|counted| usize::try_from(counted).ok());
        page[count] = json!(counted.unwrap_or_default() - forgotten);
    }
}

/// Lets the expression hold of everything, if it is one of these. What it says is still checked.
fn weaken(body: &mut Value, member: &str, is_meant: impl Fn(&str) -> bool) {
    let Some(text) = body.get(member).and_then(Value::as_str) else { return };
    if is_meant(text) {
        // Without brackets of its own: DynamoDB refuses those around a group.
        body[member] = json!(format!("attribute_not_exists(nothing_) OR {text}"));
    }
}

/// Removes the version wherever it is.
fn strip(value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(strip),
        Value::Object(members) => {
            members.remove("_ds_v");
            members.values_mut().for_each(strip);
        }
        _ => {}
    }
}
