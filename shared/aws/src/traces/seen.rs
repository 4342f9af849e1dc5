//! What is seen of a request and its answer.

use aws_sdk_dynamodb::config::interceptors::FinalizerInterceptorContextRef;
use aws_sdk_dynamodb::operation::batch_get_item::{BatchGetItemInput, BatchGetItemOutput};
use aws_sdk_dynamodb::operation::delete_item::{DeleteItemInput, DeleteItemOutput};
use aws_sdk_dynamodb::operation::describe_contributor_insights::DescribeContributorInsightsInput;
use aws_sdk_dynamodb::operation::describe_table::DescribeTableInput;
use aws_sdk_dynamodb::operation::get_item::{GetItemInput, GetItemOutput};
use aws_sdk_dynamodb::operation::put_item::{PutItemInput, PutItemOutput};
use aws_sdk_dynamodb::operation::query::{QueryInput, QueryOutput};
use aws_sdk_dynamodb::operation::transact_get_items::{
    TransactGetItemsInput, TransactGetItemsOutput,
};
use aws_sdk_dynamodb::operation::transact_write_items::{
    TransactWriteItemsInput, TransactWriteItemsOutput,
};
use aws_sdk_dynamodb::operation::update_item::{UpdateItemInput, UpdateItemOutput};
use aws_sdk_dynamodb::operation::update_table::UpdateTableInput;
use aws_sdk_dynamodb::types::{
    ConditionCheck, ConsumedCapacity, Delete, Put, TransactWriteItem, Update,
};
use aws_smithy_runtime_api::client::interceptors::context::{Input, Output};
use serde::Deserialize;

use crate::error::is_throttle;

/// How an attempt ended.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// None where there was no answer.
    pub(super) status: Option<u16>,
    /// The name of the error of an answer.
    pub(super) code: Option<String>,
    pub(super) request_id: Option<String>,
    pub(super) consumed_units: Option<f64>,
}

impl Outcome {
    /// The outcome; `None` if the request was not sent.
    pub(super) fn of(context: &FinalizerInterceptorContextRef<'_>) -> Option<Self> {
        let Some(response) = context.response() else {
            let was_held_back =
                matches!(context.output_or_error(), Some(Err(e)) if e.is_interceptor_error());
            return (!was_held_back).then(Self::default);
        };
        let status = response.status().as_u16();
        let is_success = response.status().is_success();
        let body = response.body().bytes().unwrap_or_default();
        let output = context.output_or_error().and_then(Result::ok);
        Some(Self {
            status: Some(status),
            code: if is_success { None } else { error_code(body) },
            request_id: response.headers().get("x-amzn-requestid").map(str::to_owned),
            consumed_units: output.and_then(consumed_units),
        })
    }

    /// The client's fault, by X-Ray's division.
    pub(super) fn is_error(&self) -> bool {
        self.status.is_some_and(|status| (400..500).contains(&status))
    }

    pub(super) fn is_throttle(&self) -> bool {
        self.status == Some(429) || self.code.as_deref().is_some_and(is_throttle)
    }

    /// The server's or the network's.
    pub(super) fn is_fault(&self) -> bool {
        self.status.is_none_or(|status| status >= 500)
    }
}

/// The name of a DynamoDB error. CloudWatch's are in another format, and stay without.
fn error_code(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(rename = "__type")]
        kind: String,
    }
    let Named { kind } = serde_json::from_slice(body).ok()?;
    Some(kind.rsplit_once('#').map_or(kind.as_str(), |(_, name)| name).to_owned())
}

/// The tables that a request names, each once.
pub(super) fn tables(input: &Input) -> Vec<&str> {
    let mut tables = if let Some(batch) = input.downcast_ref::<BatchGetItemInput>() {
        batch.request_items().into_iter().flatten().map(|(table, _)| table.as_str()).collect()
    } else if let Some(gets) = input.downcast_ref::<TransactGetItemsInput>() {
        gets.transact_items().iter().filter_map(|it| Some(it.get()?.table_name())).collect()
    } else if let Some(writes) = input.downcast_ref::<TransactWriteItemsInput>() {
        writes.transact_items().iter().filter_map(table_of).collect()
    } else {
        table(input).into_iter().collect::<Vec<_>>()
    };
    tables.sort_unstable();
    tables.dedup();
    tables
}

/// The table of a request about one.
fn table(input: &Input) -> Option<&str> {
    macro_rules! of {
        ($($kind:ty),+ $(,)?) => {
            $(if let Some(input) = input.downcast_ref::<$kind>() {
                return input.table_name();
            })+
        };
    }
    of!(
        GetItemInput,
        PutItemInput,
        UpdateItemInput,
        DeleteItemInput,
        QueryInput,
        DescribeTableInput,
        UpdateTableInput,
        DescribeContributorInsightsInput,
    );
    None
}

fn table_of(item: &TransactWriteItem) -> Option<&str> {
    item.put()
        .map(Put::table_name)
        .or_else(|| item.update().map(Update::table_name))
        .or_else(|| item.delete().map(Delete::table_name))
        .or_else(|| item.condition_check().map(ConditionCheck::table_name))
}

/// The capacity units that an answer consumed, over all tables.
fn consumed_units(output: &Output) -> Option<f64> {
    macro_rules! of_one {
        ($($kind:ty),+ $(,)?) => {
            $(if let Some(output) = output.downcast_ref::<$kind>() {
                return output.consumed_capacity().and_then(ConsumedCapacity::capacity_units);
            })+
        };
    }
    macro_rules! of_several {
        ($($kind:ty),+ $(,)?) => {
            $(if let Some(output) = output.downcast_ref::<$kind>() {
                // A request that did not ask is not told.
                let all = output.consumed_capacity();
                return (!all.is_empty()).then(|| all.iter().filter_map(|it| it.capacity_units()).sum());
            })+
        };
    }
    of_one!(GetItemOutput, PutItemOutput, UpdateItemOutput, DeleteItemOutput, QueryOutput);
    of_several!(BatchGetItemOutput, TransactGetItemsOutput, TransactWriteItemsOutput);
    None
}
