//! What becomes of a call.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dynashard_aws_operator::{RawAnswer, RawClient, RawError, RawRequest};
use dynashard_core::{Deadline, Lease};
use serde_json::Value;

use crate::document::{self, Members};
use crate::metrics::Metrics;
use crate::refusal::Refusal;
use crate::table::ManagedTable;

/// Answers calls as DynamoDB would.
pub struct Service {
    upstream: RawClient,
    tables: Vec<ManagedTable>,
    metrics: Arc<Metrics>,
}

/// What a client asks.
#[derive(Debug, Clone)]
pub struct Call {
    /// The operation, such as `PutItem`.
    pub operation: String,
    /// The body.
    pub body: Bytes,
}

/// What it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
    /// The id that DynamoDB gave the request, if it was asked.
    pub request_id: Option<String>,
    /// When, by DynamoDB's clock, if it was asked.
    pub date: Option<String>,
}

/// What the name of every operation begins with, in `X-Amz-Target`.
pub(crate) const TARGET_PREFIX: &str = "DynamoDB_20120810.";

/// The header by which an endpoint tells its own requests.
pub(crate) const MARK: &str = "x-dynashard-endpoint";

/// For how long a call is tried.
const TIMEOUT: Duration = Duration::from_secs(5);

/// For how long a batch or a transaction is tried.
const LONG_TIMEOUT: Duration = Duration::from_secs(10);

impl Service {
    /// A service of these tables, and of all others as they are.
    pub fn new(upstream: RawClient, tables: Vec<ManagedTable>) -> Self {
        Self { upstream, tables, metrics: Arc::default() }
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
        self.upstream.check_credentials().await.map_err(|error| error.to_string())?;
        for table in &self.tables {
            let deadline = Deadline::after(table.requests().now(), TIMEOUT);
            let held = table.requests().terms_of_all(deadline).await;
            held.map_err(|error| format!("table {}: {error}", table.name()))?;
        }
        Ok(())
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    pub(crate) fn upstream(&self) -> &RawClient {
        &self.upstream
    }

    async fn serve(&self, call: &Call) -> Result<Answer, Refusal> {
        let operation = call.operation.as_str();
        if self.tables.is_empty() {
            return self.pass(call).await;
        }
        let body = document::read(&call.body)
            .map_err(|error| Refusal::serialization(format!("the body cannot be read: {error}")))?;
        let body = document::without_nulls(body);
        match operation {
            "BatchGetItem" => return self.batch_get(call, body).await,
            "BatchWriteItem" => return self.batch_write(call, body).await,
            "TransactGetItems" => return self.transact_get(call, body).await,
            "TransactWriteItems" => return self.transact_write(call, body).await,
            _ if PARTIQL.contains(&operation) => self.check_statements(&body)?,
            _ => {}
        }
        let Some(table) = self.table_of(&body)? else { return self.pass(call).await };
        match operation {
            "GetItem" => self.get(table, call, body).await,
            "PutItem" | "UpdateItem" | "DeleteItem" => self.write(table, operation, body).await,
            "Query" | "Scan" => self.page(table, call, body).await,
            "UpdateTimeToLive" | "DeleteTable" => Err(Refusal::validation(format!(
                "dynashard: the table {} is managed: use `dynashard settings` or `dynashard adopt --leave` first, and ask \
                 DynamoDB itself",
                table.name()
            ))),
            _ => self.pass(call).await,
        }
    }

    /// The managed table that a request names, if it is one.
    pub(crate) fn table_of(&self, body: &Members) -> Result<Option<&ManagedTable>, Refusal> {
        body.get("TableName").and_then(Value::as_str).map_or(Ok(None), |name| self.table(name))
    }

    /// The managed table of this name, or of this ARN.
    pub(crate) fn table(&self, name: &str) -> Result<Option<&ManagedTable>, Refusal> {
        let name = name.rsplit_once(":table/").map_or(name, |(_, name)| name);
        if let Some(table) = self.tables.iter().find(|table| table.metadata_table() == name) {
            return Err(Refusal::validation(format!(
                "dynashard: the table {name} holds the metadata of {}, and nobody else writes or reads it here",
                table.name()
            )));
        }
        Ok(self.tables.iter().find(|table| table.name() == name))
    }

    /// Refuses statements that name a managed table, whatever they say of it.
    fn check_statements(&self, body: &Members) -> Result<(), Refusal> {
        let text = Value::Object(body.clone()).to_string();
        let named = |table: &&ManagedTable| {
            [table.name(), table.metadata_table()].iter().any(|name| text.contains(*name))
        };
        match self.tables.iter().find(named) {
            Some(table) => Err(Refusal::validation(format!(
                "dynashard: the table {} is managed, and PartiQL is not served for it; use expressions",
                table.name()
            ))),
            None => Ok(()),
        }
    }

    /// Sends a call as it came.
    pub(crate) async fn pass(&self, call: &Call) -> Result<Answer, Refusal> {
        let sent = self.exchange(&call.operation, call.body.to_vec(), None).await;
        sent.map(Answer::from).map_err(|error| refused(&error))
    }

    /// Sends a request, signed anew.
    pub(crate) async fn exchange(
        &self,
        operation: &str,
        body: Vec<u8>,
        lease: Option<Lease>,
    ) -> Result<RawAnswer, RawError> {
        let target = format!("{TARGET_PREFIX}{operation}");
        let mark = (MARK, "1");
        self.metrics.count_upstream(operation);
        self.upstream.send(RawRequest { target: &target, mark, body, lease }).await
    }

    pub(crate) fn deadline(table: &ManagedTable) -> Deadline {
        Deadline::after(table.requests().now(), TIMEOUT)
    }

    pub(crate) fn long_deadline(table: &ManagedTable) -> Deadline {
        Deadline::after(table.requests().now(), LONG_TIMEOUT)
    }

    /// The managed tables among these names.
    pub(crate) fn managed<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<BTreeSet<&'a str>, Refusal> {
        let mut managed = BTreeSet::new();
        for name in names {
            if self.table(name)?.is_some() {
                managed.insert(name);
            }
        }
        Ok(managed)
    }
}

/// The operations whose tables only a statement names.
const PARTIQL: [&str; 3] = ["ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction"];

/// What a client is told of a request that was not answered.
pub(crate) fn refused(error: &RawError) -> Refusal {
    match error {
        RawError::LeaseExpired | RawError::NotSent(_) => {
            Refusal::unavailable(format!("dynashard: DynamoDB was not asked: {error}"))
        }
        RawError::NoAnswer(_) => Refusal::internal(format!(
            "dynashard: DynamoDB was asked, and whether it has done it is unknown: {error}"
        )),
    }
}

impl Answer {
    /// An answer that DynamoDB has no part in.
    pub(crate) fn own(status: u16, body: String) -> Self {
        Self { status, body: body.into_bytes(), request_id: None, date: None }
    }

    /// This answer with another body.
    pub(crate) fn with_body(self, body: Members) -> Self {
        Self { body: Value::Object(body).to_string().into_bytes(), ..self }
    }

    pub(crate) fn is_success(&self) -> bool {
        self.status == 200
    }

    /// The members of the body, none where it is no object.
    pub(crate) fn members(&self) -> Members {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Whether it is an error of this type.
    pub(crate) fn is_error(&self, name: &str) -> bool {
        let members = if self.status == 400 { self.members() } else { Members::new() };
        let kind = members.get("__type").and_then(Value::as_str).unwrap_or_default();
        kind.rsplit_once('#').map_or(kind, |(_, kind)| kind) == name
    }
}

impl From<RawAnswer> for Answer {
    fn from(answer: RawAnswer) -> Self {
        let RawAnswer { status, request_id, date, body } = answer;
        Self { status, body, request_id, date }
    }
}
