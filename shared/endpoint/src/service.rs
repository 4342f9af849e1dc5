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
use crate::telemetry::TableTelemetry;
use crate::upstream::Upstream;
use crate::{batches, items, pages, parameters, transactions};

/// Answers calls as DynamoDB would.
pub struct Service {
    upstream: Upstream,
    metrics: Arc<Metrics>,
}

/// How calls are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceOptions {
    /// How long a throttled write of a managed table is held and tried again before its client is told.
    pub hold: Duration,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self { hold: Duration::from_secs(5) }
    }
}

/// For how long it is looked whether a table can be written to.
const CHECK_TIME: Duration = Duration::from_secs(5);

impl Service {
    /// A service of these tables, and of all others as they are.
    pub fn new(client: RawClient, tables: Vec<ManagedTable>, options: ServiceOptions) -> Self {
        let metrics = Arc::<Metrics>::default();
        let tables = tables.into_iter().map(|table| {
            let telemetry = TableTelemetry::new(table.name(), &metrics);
            table.reporting_to(telemetry)
        });
        let tables = tables.collect();
        let upstream = Upstream::new(client, tables, options.hold, Arc::clone(&metrics));
        Self { upstream, metrics }
    }

    /// Answers a call.
    pub async fn answer(&self, call: &Call) -> Answer {
        let gone_over = self.follow();
        let mut served = self.serve(call).await;
        // It may have gone by settings that are accepted no more: nothing was done then.
        if served.as_ref().is_err_and(Refusal::is_unavailable) && self.follow() != gone_over {
            served = self.serve(call).await;
        }
        let outcome = match served {
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
    ///
    /// # Errors
    /// What is in the way, in one line.
    pub async fn check(&self) -> Result<(), String> {
        let credentials = self.upstream.client().check_credentials().await;
        credentials.map_err(|error| error.to_string())?;
        for table in self.upstream.tables() {
            table.follow();
            let deadline = Deadline::after(table.requests().now(), CHECK_TIME);
            let held = table.requests().terms_of_all(deadline).await;
            held.map_err(|error| format!("table {}: {error}", table.name()))?;
        }
        Ok(())
    }

    /// Goes over to what the stacks of the tables tell now. Returns how often that was to other words.
    fn follow(&self) -> usize {
        self.upstream.tables().iter().map(ManagedTable::follow).sum()
    }

    /// Tells how many clients ask at present, each of which waits for an answer before it asks again.
    pub(crate) fn tell_clients(&self, clients: usize) {
        self.upstream
            .tables()
            .iter()
            .for_each(|table| table.requests().writer().tell_clients(clients));
    }

    /// The page that Prometheus reads.
    pub(crate) fn metrics_text(&self) -> String {
        let tables = self.upstream.tables().iter();
        let held = tables.map(|table| (table.name(), table.requests().writer().writes_held()));
        self.metrics.text(&held.collect::<Vec<_>>())
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
        if upstream.tables().is_empty() || upstream.is_of_others(&call.body) {
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
            _ if PARTIQL.contains(&operation) => {
                self.check_unnamed(&body, "PartiQL is not served for it; use expressions")?;
            }
            _ if !KNOWN.contains(&operation) => {
                self.check_unnamed(&body, &format!("{operation} is not known to be safe for it"))?;
            }
            _ => {}
        }
        let Some(table) = upstream.table_of(&body)? else { return upstream.pass(call).await };
        parameters::check(operation, &body)?;
        match operation {
            "GetItem" => items::get(upstream, table, call, body).await,
            "PutItem" | "UpdateItem" | "DeleteItem" => {
                items::write(upstream, table, operation, body, 1).await
            }
            "Query" | "Scan" => pages::page(upstream, table, call, body).await,
            "UpdateTable" if GLOBAL.iter().any(|member| body.contains_key(*member)) => {
                Err(Refusal::validation(format!(
                    "dynashard: the table {} is managed, and global tables cannot be: replicas are written to by other regions",
                    table.name()
                )))
            }
            "UpdateTimeToLive" | "DeleteTable" => Err(Refusal::validation(format!(
                "dynashard: the table {} is managed: use `dynashard settings` or `dynashard adopt --leave` first, and ask \
                 DynamoDB itself",
                table.name()
            ))),
            _ => upstream.pass(call).await,
        }
    }

    /// Refuses a request that names a managed table anywhere, whatever it says of it.
    fn check_unnamed(&self, body: &Members, why: &str) -> Result<(), Refusal> {
        let named = |table: &&ManagedTable| {
            let names = [table.name(), table.metadata_table()];
            body.values().any(|value| names.iter().any(|name| is_named(value, name)))
        };
        match self.upstream.tables().iter().find(named) {
            Some(table) => Err(Refusal::validation(format!(
                "dynashard: the table {} is managed, and {why}",
                table.name()
            ))),
            None => Ok(()),
        }
    }
}

/// The operations whose tables only a statement names.
const PARTIQL: [&str; 3] = ["ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction"];

/// The members of `UpdateTable` that make a table a global one.
const GLOBAL: [&str; 2] = ["ReplicaUpdates", "GlobalTableWitnessUpdates"];

/// The operations that are served, or that write no items of the table that they name (DynamoDB API). One that DynamoDB may add
/// is not among them, nor are those of global tables.
const KNOWN: &[&str] = &[
    "CreateBackup",
    "CreateTable",
    "DeleteBackup",
    "DeleteItem",
    "DeleteResourcePolicy",
    "DeleteTable",
    "DescribeBackup",
    "DescribeContinuousBackups",
    "DescribeContributorInsights",
    "DescribeEndpoints",
    "DescribeExport",
    "DescribeGlobalTable",
    "DescribeGlobalTableSettings",
    "DescribeImport",
    "DescribeKinesisStreamingDestination",
    "DescribeLimits",
    "DescribeTable",
    "DescribeTableReplicaAutoScaling",
    "DescribeTimeToLive",
    "DisableKinesisStreamingDestination",
    "EnableKinesisStreamingDestination",
    "ExportTableToPointInTime",
    "GetItem",
    "GetResourcePolicy",
    "ListBackups",
    "ListContributorInsights",
    "ListExports",
    "ListGlobalTables",
    "ListImports",
    "ListTables",
    "ListTagsOfResource",
    "PutItem",
    "PutResourcePolicy",
    "Query",
    "RestoreTableFromBackup",
    "RestoreTableToPointInTime",
    "Scan",
    "TagResource",
    "UntagResource",
    "UpdateContinuousBackups",
    "UpdateContributorInsights",
    "UpdateItem",
    "UpdateKinesisStreamingDestination",
    "UpdateTable",
    "UpdateTimeToLive",
];

/// Whether a text somewhere in a value names this table.
fn is_named(value: &Value, table: &str) -> bool {
    match value {
        Value::String(text) => is_named_in(text, table),
        Value::Array(values) => values.iter().any(|value| is_named(value, table)),
        Value::Object(members) => {
            members.iter().any(|(name, value)| name == table || is_named(value, table))
        }
        _ => false,
    }
}

/// Whether a text, such as a statement or an ARN, has the name of this table, and not just as a part of another name. What cannot
/// be told counts: `-` and `.` belong to names in quotes and in ARNs, and elsewhere may begin a comment or the name of an index.
fn is_named_in(text: &str, table: &str) -> bool {
    let is_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
    text.match_indices(table).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + table.len()..]);
        let is_whole_name = before.ends_with('"') || before.ends_with(":table/");
        let goes_on = |char| is_word(char) || (is_whole_name && matches!(char, '-' | '.'));
        let began = |char| is_word(char) || matches!(char, '-' | '.');
        !before.ends_with(began) && !after.starts_with(goes_on)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A statement on a table was refused whose name only contains that of a managed one.
    #[test]
    fn regression_a_part_of_another_name_counted_as_a_managed_table() {
        for (text, is_named) in [
            ("SELECT * FROM \"orders\"", true),
            ("SELECT * FROM orders WHERE pk = 'a'", true),
            ("SELECT * FROM\norders", true),
            ("SELECT * FROM \"orders\".\"by_date\"", true),
            ("SELECT * FROM orders.by_date", true),
            ("SELECT * FROM orders--", true),
            ("SELECT * FROM \"arn:aws:dynamodb:eu-west-1:1:table/orders\"", true),
            ("arn:aws:dynamodb:eu-west-1:1:table/orders/index/by_date", true),
            ("SELECT * FROM \"orders-archive\", orders", true),
            ("SELECT * FROM \"orders-archive\"", false),
            ("SELECT * FROM \"orders.archive\"", false),
            ("SELECT * FROM \"old-orders\"", false),
            ("SELECT * FROM \"old.orders\"", false),
            ("SELECT * FROM orders2", false),
            ("SELECT * FROM my_orders", false),
            ("arn:aws:dynamodb:eu-west-1:1:table/orders-archive", false),
        ] {
            assert_eq!(is_named_in(text, "orders"), is_named, "{text}");
        }
    }
}
