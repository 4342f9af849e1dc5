//! Whether a request is valid, tried out beside the engine.

use dynoxide::actions::create_table::CreateTableRequest;
use dynoxide::actions::delete_item::DeleteItemRequest;
use dynoxide::actions::delete_table::DeleteTableRequest;
use dynoxide::actions::put_item::PutItemRequest;
use dynoxide::actions::query::QueryRequest;
use dynoxide::actions::scan::ScanRequest;
use dynoxide::{Database, DynoxideError, Item, Result};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::cost::{ItemWork, Target};
use super::job::Job;
use super::tables::Table;
use crate::dynamodb::engine::{Store, item};

/// Finds out whether the engine would refuse a request, and changes nothing in it.
///
/// A `Query` or `Scan` changes nothing anyway, so the engine itself reads a page of one item: it
/// looks at a filter only where it finds an item. Everything else runs in a second engine, with the
/// tables of the first and without their items. It runs the same code, so it refuses the same
/// requests. Nothing stays in it: before a request come the items that it updates, since some
/// updates are invalid only for what they find, and after it goes what it wrote.
#[derive(Debug)]
pub(super) struct DryRun {
    engine: Store,
    /// Held for a whole run, so that runs do not see each other's items.
    copy: Mutex<Store>,
}

impl DryRun {
    /// The copy has no tables yet.
    pub(super) fn new(engine: Store) -> Result<Self> {
        Ok(Self { engine, copy: Mutex::new(Store::in_memory()?) })
    }

    /// Creates or changes a table, or forgets one that is gone.
    pub(super) fn set_table(&self, name: &str, table: Option<&Table>) {
        let database = self.copy.lock();
        // The copy may not have had it.
        let _ = database.delete_table(DeleteTableRequest { table_name: name.to_owned() });
        let Some(table) = table else { return };
        let created = CreateTableRequest::deserialize(&table.create_request)
            .map_err(|error| error.to_string())
            .and_then(|request| database.create_table(request).map_err(|error| error.to_string()));
        if let Err(error) = created {
            tracing::error!(table = name, error, "invalid requests may be throttled");
        }
    }

    /// Whether the engine would refuse the request as invalid.
    pub(super) fn refuses(&self, operation: &str, body: &[u8], job: &Job) -> bool {
        let outcome = match (operation, job) {
            ("Query", _) => request(body).and_then(|request: QueryRequest| {
                let limit = Some(request.limit.map_or(1, |limit| limit.min(1)));
                self.engine.query(QueryRequest { limit, ..request }).map(drop)
            }),
            ("Scan", _) => request(body).and_then(|request: ScanRequest| {
                let limit = Some(request.limit.map_or(1, |limit| limit.min(1)));
                self.engine.scan(ScanRequest { limit, ..request }).map(drop)
            }),
            (_, Job::Items(items)) => self.run_in_copy(operation, body, &items.works, |_| {}),
            _ => return false,
        };
        outcome.is_err_and(|error| is_invalid(&error))
    }

    /// Tries the request out, and shows what each of its updates makes of its item: the update by its place among the
    /// actions, its table, and the item.
    pub(super) fn look_at_updates(
        &self,
        operation: &str,
        body: &[u8],
        works: &[ItemWork],
        mut each: impl FnMut(usize, &Table, &Value),
    ) {
        let _ = self.run_in_copy(operation, body, works, |database| {
            for (at, work) in works.iter().enumerate().filter(|(_, work)| work.is_update()) {
                if let Some(Target { table, key, .. }) = &work.target
                    && let Some(item) = item(database, &table.name, key)
                {
                    each(at, table, &item);
                }
            }
        });
    }

    /// Runs a request in the copy, and looks at what it left.
    fn run_in_copy(
        &self,
        operation: &str,
        body: &[u8],
        works: &[ItemWork],
        look: impl FnOnce(&Database),
    ) -> Result<()> {
        let database = self.copy.lock();
        for target in
            works.iter().filter(|work| work.is_update()).filter_map(|it| it.target.as_ref())
        {
            if let Some(Ok(item)) = target.before.as_ref().map(Item::deserialize) {
                let table_name = target.table.name.clone();
                let _ =
                    database.put_item(PutItemRequest { table_name, item, ..Default::default() });
            }
        }
        let outcome = run(&database, operation, body);
        look(&database);
        for Target { table, key, .. } in works.iter().filter_map(|work| work.target.as_ref()) {
            if let Ok(key) = Item::deserialize(key) {
                let table_name = table.name.clone();
                let _ = database.delete_item(DeleteItemRequest {
                    table_name,
                    key,
                    ..Default::default()
                });
            }
        }
        outcome
    }
}

fn run(database: &Database, operation: &str, body: &[u8]) -> Result<()> {
    match operation {
        "GetItem" => database.get_item(request(body)?).map(drop),
        "PutItem" => database.put_item(request(body)?).map(drop),
        "UpdateItem" => database.update_item(request(body)?).map(drop),
        "DeleteItem" => database.delete_item(request(body)?).map(drop),
        "BatchGetItem" => database.batch_get_item(request(body)?).map(drop),
        "BatchWriteItem" => database.batch_write_item(request(body)?).map(drop),
        "TransactGetItems" => database.transact_get_items(request(body)?).map(drop),
        "TransactWriteItems" => database.transact_write_items(request(body)?).map(drop),
        _ => Ok(()),
    }
}

fn request<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body)
        .map_err(|error| DynoxideError::SerializationException(error.to_string()))
}

/// Any other error is about what the engine holds, and this one does not.
fn is_invalid(error: &DynoxideError) -> bool {
    match error {
        DynoxideError::ValidationException(_)
        | DynoxideError::KeyEmptyValueValidation(_)
        | DynoxideError::EnvelopedValidation(_)
        | DynoxideError::SerializationException(_) => true,
        DynoxideError::TransactionCanceledException(_, reasons) => {
            reasons.iter().any(|reason| reason.code == "ValidationError")
        }
        _ => false,
    }
}
