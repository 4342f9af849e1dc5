//! What becomes of a call.

use std::sync::Arc;
use std::time::Duration;

use dynashard_aws_operator::RawClient;
use dynashard_core::Deadline;
use serde_json::Value;

use crate::call::{Answer, Call};
use crate::document::{self, Members};
use crate::metrics::Metrics;
use crate::refusal::Refusal;
use crate::table::ManagedTable;
use crate::upstream::Upstream;
use crate::{batches, items, pages, parameters, transactions};

/// Answers calls as DynamoDB would.
pub struct Service {
    upstream: Upstream,
    metrics: Arc<Metrics>,
}

/// For how long it is looked whether a table can be written to.
const CHECK_TIME: Duration = Duration::from_secs(5);

impl Service {
    /// A service of these tables, and of all others as they are.
    pub fn new(client: RawClient, tables: Vec<ManagedTable>) -> Self {
        let metrics = Arc::<Metrics>::default();
        Self { upstream: Upstream::new(client, tables, Arc::clone(&metrics)), metrics }
    }

    /// Answers a call.
    pub async fn answer(&self, call: &Call) -> Answer {
        let outcome = match self.serve(call).await {
            Ok(answer) => answer,
            Err(refusal) => {
                self.metrics.count_refusal(&call.operation, refusal.name());
                refusal.answer()
            }
        };
        self.metrics.count_answer(&call.operation, outcome.status);
        outcome
    }

    /// Whether requests can be signed, and every managed table is one to write to now.
    pub(crate) async fn check(&self) -> Result<(), String> {
        let credentials = self.upstream.client().check_credentials().await;
        credentials.map_err(|error| error.to_string())?;
        for table in self.upstream.tables() {
            let deadline = Deadline::after(table.requests().now(), CHECK_TIME);
            let held = table.requests().terms_of_all(deadline).await;
            held.map_err(|error| format!("table {}: {error}", table.name()))?;
        }
        Ok(())
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    async fn serve(&self, call: &Call) -> Result<Answer, Refusal> {
        let upstream = &self.upstream;
        let operation = call.operation.as_str();
        if upstream.tables().is_empty() {
            return upstream.pass(call).await;
        }
        let body = document::read(&call.body)
            .map_err(|error| Refusal::serialization(format!("the body cannot be read: {error}")))?;
        let body = document::without_nulls(body);
        match operation {
            "BatchGetItem" => return batches::get(upstream, call, body).await,
            "BatchWriteItem" => return batches::write(upstream, call, body).await,
            "TransactGetItems" => return transactions::get(upstream, call, body).await,
            "TransactWriteItems" => return transactions::write(upstream, call, body).await,
            _ if PARTIQL.contains(&operation) => self.check_statements(&body)?,
            _ => {}
        }
        let Some(table) = upstream.table_of(&body)? else { return upstream.pass(call).await };
        parameters::check(operation, &body)?;
        match operation {
            "GetItem" => items::get(upstream, table, call, body).await,
            "PutItem" | "UpdateItem" | "DeleteItem" => {
                items::write(upstream, table, operation, body).await
            }
            "Query" | "Scan" => pages::page(upstream, table, call, body).await,
            "UpdateTimeToLive" | "DeleteTable" => Err(Refusal::validation(format!(
                "dynashard: the table {} is managed: use `dynashard settings` or `dynashard adopt --leave` first, and ask \
                 DynamoDB itself",
                table.name()
            ))),
            _ => upstream.pass(call).await,
        }
    }

    /// Refuses statements that name a managed table, whatever they say of it.
    fn check_statements(&self, body: &Members) -> Result<(), Refusal> {
        let text = Value::Object(body.clone()).to_string();
        let named = |table: &&ManagedTable| {
            [table.name(), table.metadata_table()].iter().any(|name| text.contains(*name))
        };
        match self.upstream.tables().iter().find(named) {
            Some(table) => Err(Refusal::validation(format!(
                "dynashard: the table {} is managed, and PartiQL is not served for it; use expressions",
                table.name()
            ))),
            None => Ok(()),
        }
    }
}

/// The operations whose tables only a statement names.
const PARTIQL: [&str; 3] = ["ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction"];
