//! What a request needs permission for, as "Actions, resources, and condition keys for Amazon DynamoDB"
//! in AWS's Service Authorization Reference lists it.

use std::slice;

use dynashard_limits::capacity::key_text;

use super::call::{Action, Call, PageRequest, Request, Unit, Verb};
use super::tables::{GlobalIndex, Table, Tables};
use crate::plan::{Asked, EVERY, table_arn};

/// Everything that one request needs, all of which must be allowed.
pub(super) fn asked(call: &Call, tables: &Tables) -> Vec<Asked> {
    let named = |operation: &str| format!("dynamodb:{operation}");
    match &call.request {
        Request::Items(actions, unit) => {
            let operation = |action: &Action| match unit {
                // A transaction has no permission of its own.
                Unit::Transaction => transacted(action.verb),
                Unit::Action | Unit::Batch(_) => &call.operation,
            };
            let of = |action| of_item(named(operation(action)), action, tables);
            actions.iter().map(of).collect()
        }
        Request::Page(page) => vec![of_page(named(&call.operation), page, tables)],
        Request::TableChange | Request::Other => {
            let of = |resource| Asked::of(named(&call.operation), resource);
            if call.tables.is_empty() {
                return vec![of(EVERY.to_owned())];
            }
            call.tables.iter().map(|table| of(table_arn(table))).collect()
        }
    }
}

/// The operation whose permission an action of a transaction takes.
const fn transacted(verb: Verb) -> &'static str {
    match verb {
        Verb::Get(_) => "GetItem",
        Verb::Put => "PutItem",
        Verb::Update => "UpdateItem",
        Verb::Delete => "DeleteItem",
        Verb::Check => "ConditionCheckItem",
    }
}

fn of_item(action: String, of: &Action, tables: &Tables) -> Asked {
    let table = of.table_name();
    let key = tables.get(table).and_then(|table| key_text(of.image.get(&table.partition_key)?));
    Asked { action, resource: table_arn(table), leading_keys: key.into_iter().collect() }
}

fn of_page(action: String, page: &PageRequest, tables: &Tables) -> Asked {
    let name = page.table_name();
    let (table, arn) = (tables.get(name), table_arn(name));
    let (resource, key) = match &page.index_name {
        None => {
            let key = |table: &Table| page.partition_key(slice::from_ref(&table.partition_key));
            (arn, table.as_deref().map(key))
        }
        Some(name) => {
            let is_it = |index: &&GlobalIndex| index.name == *name;
            let index = table.as_ref().and_then(|table| table.global_indexes.iter().find(is_it));
            let key = index.map(|index| page.partition_key(&index.index.partition_key));
            (format!("{arn}/index/{name}"), key)
        }
    };
    // A scan from the start has none.
    let leading_keys = key.into_iter().filter(|key| !key.is_empty()).collect();
    Asked { action, resource, leading_keys }
}
