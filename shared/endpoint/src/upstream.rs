//! DynamoDB, and which of its tables are managed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dynashard_aws_operator::{RawAnswer, RawClient, RawError, RawRequest};
use dynashard_core::{Deadline, Lease};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::call::{Answer, Call};
use crate::document::{self, Members};
use crate::metrics::Metrics;
use crate::page_room::PageRoom;
use crate::refusal::Refusal;
use crate::shapes::Shapes;
use crate::table::ManagedTable;

/// Where requests go.
pub(crate) struct Upstream {
    client: RawClient,
    tables: Vec<ManagedTable>,
    hold: Duration,
    metrics: Arc<Metrics>,
    shapes: Shapes,
    page_room: PageRoom,
}

/// What the name of every operation begins with, in `X-Amz-Target`.
pub(crate) const TARGET_PREFIX: &str = "DynamoDB_20120810.";

/// The header by which an endpoint tells its own requests.
pub(crate) const MARK: &str = "x-dynashard-endpoint";

/// For how long a call is tried.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What a write may take beyond the time for which it is held: it is sent once more at the end of that.
const BEYOND_HOLD: Duration = Duration::from_secs(2);

/// For how long DynamoDB is asked again that answers with faults, or not at all.
const FAULTY_TIME: Duration = Duration::from_secs(1);

/// For how long a read of one item is tried that is throttled: SDKs try it again themselves.
const THROTTLED_READ: Duration = Duration::from_millis(250);

/// For how long a batch or a transaction is tried.
const LONG_TIMEOUT: Duration = Duration::from_secs(10);

impl Upstream {
    pub(crate) fn new(
        client: RawClient,
        tables: Vec<ManagedTable>,
        hold: Duration,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (shapes, page_room) = (Shapes::default(), PageRoom::default());
        Self { client, tables, hold, metrics, shapes, page_room }
    }

    /// What pages of several shards may hold at once.
    pub(crate) fn page_room(&self) -> &PageRoom {
        &self.page_room
    }

    /// The time by which a write of one item is answered: what is throttled is held and tried again for as long as the
    /// endpoint is told to.
    pub(crate) fn write_deadline(&self, table: &ManagedTable) -> Deadline {
        let (now, hold) = (table.requests().now(), self.hold);
        let whole = Deadline::after(now, TIMEOUT.max(hold + BEYOND_HOLD));
        whole.if_throttled(Deadline::after(now, hold)).if_faulty(FAULTY_TIME)
    }

    pub(crate) fn client(&self) -> &RawClient {
        &self.client
    }

    pub(crate) fn tables(&self) -> &[ManagedTable] {
        &self.tables
    }

    /// The queries that DynamoDB has taken.
    pub(crate) fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    /// Whether a body certainly names no managed table, which is told without reading it as a document. A name may be written with
    /// escapes, and a body that is not UTF-8 has other bytes for it, or NULs in between: of those nothing is certain.
    pub(crate) fn is_of_others(&self, body: &[u8]) -> bool {
        let Ok(text) = std::str::from_utf8(body) else { return false };
        let names = |table: &ManagedTable| {
            text.contains(table.name()) || text.contains(table.metadata_table())
        };
        !text.contains(['\\', '\0']) && !self.tables.iter().any(names)
    }

    /// The managed table that a request names, if it is one.
    pub(crate) fn table_of(&self, body: &Members) -> Result<Option<&ManagedTable>, Refusal> {
        body.get("TableName").and_then(Value::as_str).map_or(Ok(None), |name| self.table(name))
    }

    /// The managed table of this name, or of this ARN.
    pub(crate) fn table(&self, name: &str) -> Result<Option<&ManagedTable>, Refusal> {
        let (place, name) =
            name.rsplit_once(":table/").map_or((None, name), |(place, name)| (Some(place), name));
        let mut tables = self.tables.iter().filter(|table| {
            place.is_none_or(|place| table.place.as_ref().is_none_or(|own| own == place))
        });
        if let Some(table) = tables.clone().find(|table| table.metadata_table() == name) {
            return Err(Refusal::validation(format!(
                "dynashard: the table {name} holds the metadata of {}, and nobody else writes or reads it here: \
                 commands of dynashard ask DynamoDB itself, without AWS_ENDPOINT_URL_DYNAMODB",
                table.name()
            )));
        }
        Ok(tables.find(|table| table.name() == name))
    }

    /// Sends a call as it came.
    pub(crate) async fn pass(&self, call: &Call) -> Result<Answer, Refusal> {
        let sent = self.exchange(&call.operation, call.body.clone(), None).await;
        sent.map(Answer::from).map_err(|error| refused(&error))
    }

    /// Sends a request, signed anew, while it stands on live leases.
    pub(crate) async fn exchange(
        &self,
        operation: &str,
        body: impl Into<Bytes>,
        leases: impl IntoIterator<Item = Lease>,
    ) -> Result<RawAnswer, RawError> {
        let target = format!("{TARGET_PREFIX}{operation}");
        let mark = (MARK, "1");
        self.metrics.count_upstream(operation);
        let (body, leases) = (body.into(), leases.into_iter().collect());
        self.client.send(RawRequest { target: &target, mark, body, leases }).await
    }

    /// Reads in a task of its own, in which `take_apart` is done with the answer, too: the shards of a page are work for all
    /// processors.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        body: Bytes,
        take_apart: impl FnOnce(&Answer) -> T + Send + 'static,
    ) -> Result<(Answer, T), RawError> {
        self.metrics.count_upstream(operation);
        let client = self.client.clone();
        let mut reading = JoinSet::new();
        reading.spawn(async move {
            let target = format!("{TARGET_PREFIX}{operation}");
            let request = RawRequest { target: &target, mark: (MARK, "1"), body, leases: vec![] };
            let answer = Answer::from(client.send(request).await?);
            let result = take_apart(&answer);
            Ok((answer, result))
        });
        // It ends with whoever waits for it.
        let read = reading.join_next().await.expect("it was spawned");
        read.unwrap_or_else(|ended| Err(RawError::NoAnswer(ended.to_string())))
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

/// The time by which a call on this table is answered.
pub(crate) fn deadline(table: &ManagedTable) -> Deadline {
    Deadline::after(table.requests().now(), TIMEOUT).if_faulty(FAULTY_TIME)
}

/// The time by which a read of one item is answered.
pub(crate) fn read_deadline(table: &ManagedTable) -> Deadline {
    let throttled = Deadline::after(table.requests().now(), THROTTLED_READ);
    deadline(table).if_throttled(throttled)
}

/// The time by which a batch or a transaction is.
pub(crate) fn long_deadline(table: &ManagedTable) -> Deadline {
    Deadline::after(table.requests().now(), LONG_TIMEOUT)
}

/// The members of an answer to a read that succeeded: one that cannot be understood is not taken for one that found nothing.
pub(crate) fn understood(answer: &Answer) -> Result<Members, Refusal> {
    document::read(&answer.body).map_err(|error| not_understood(&error))
}

/// What a client is told of such an answer. Where it ends is said, and nothing of what it holds.
pub(crate) fn not_understood(error: &serde_json::Error) -> Refusal {
    let (line, column) = (error.line(), error.column());
    Refusal::internal(format!(
        "dynashard: DynamoDB's answer was not understood, at line {line}, column {column} of it"
    ))
}

/// What a client is told of a request that was not answered.
pub(crate) fn refused(error: &RawError) -> Refusal {
    match error {
        RawError::LeaseExpired => Refusal::unavailable(format!("dynashard: {error}")),
        RawError::NotSent(_) => {
            Refusal::unavailable(format!("dynashard: DynamoDB was not asked: {error}"))
        }
        RawError::NoAnswer(_) => Refusal::internal(format!(
            "dynashard: DynamoDB was asked, and whether it has done it is unknown: {error}"
        )),
    }
}
