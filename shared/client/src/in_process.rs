//! A store by the tables themselves, with no API between.

use std::fmt;
use std::time::Duration;

use dynashard_api::body;
use dynashard_api::body::Document;
use dynashard_api::json::{Format, ItemJson};
use dynashard_api::problem::Problem;
use dynashard_aws_operator::{Caller, Operator};
use dynashard_core::ports::Consistency;
use dynashard_core::query::{MAX_PAGE_BYTES, PageBudget, Query};
use dynashard_core::{
    Bounds, Code, Deadline, Directory, Error, Precondition, Reader, Scaler, Settings, StoredItem,
    TableSchema, Version, Writer,
};
use dynashard_keys::{ItemKey, PartitionKey, Placement, ShardCount, SortKey};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::{ClientError, CollectionQuery, Condition, ETag, Found, Page, Store};

/// For how long an operation tries, unless [`InProcess::with_timeout`] says something else.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The tables of an application, by the use cases of its functions: every write carries the guard, acts on leased
/// metadata, and may run while a collection is resharded.
pub struct InProcess {
    writer: Writer,
    reader: Reader,
    scaler: Scaler,
    /// Where the scaler's settings are told, if not by whoever made this.
    stack: Option<Stack>,
    timeout: Duration,
}

/// A stack that runs elsewhere.
struct Stack {
    operator: Operator,
    main_table: String,
    metadata_table: String,
    /// What it has pinned.
    settings: Settings,
}

impl InProcess {
    /// Finds the tables, with the caller's credentials and region, and takes the settings that the stack has
    /// pinned. It needs the permissions of `WriteFunction` and `ReadFunction`, and to describe the tables.
    ///
    /// While `dynashard settings` changes one, it takes the new value; one that is connected with the old value answers
    /// `settings_mismatch` when the change is done.
    ///
    /// What its writes see of throttles begins no growth: the stack's alarms do. To scale like the functions,
    /// use [`InProcess::new`] with the settings of the stack.
    pub async fn connect(
        caller: &Caller,
        main_table: &str,
        metadata_table: &str,
    ) -> Result<Self, ClientError> {
        // The SDK's futures are large.
        Box::pin(Self::find(caller, main_table, metadata_table)).await
    }

    async fn find(
        caller: &Caller,
        main_table: &str,
        metadata_table: &str,
    ) -> Result<Self, ClientError> {
        let operator = Operator::connect(caller).await?;
        let tables = operator.stack_tables(main_table, Some(metadata_table), TIMEOUT).await?;
        let settings = tables.settings;
        let found = Self::new(|| operator.directory(main_table, metadata_table, settings.clone()));
        let [main_table, metadata_table] = [main_table, metadata_table].map(str::to_owned);
        Ok(Self { stack: Some(Stack { operator, main_table, metadata_table, settings }), ..found })
    }
}

impl InProcess {
    /// Over any stores. The use cases keep what they know of collections each for itself, so each gets a
    /// directory.
    pub fn new(directory: impl Fn() -> Directory) -> Self {
        Self {
            writer: Writer::new(directory()),
            reader: Reader::new(directory()),
            scaler: Scaler::new(directory()),
            stack: None,
            timeout: TIMEOUT,
        }
    }

    /// With another time after which an operation gives up.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    async fn page_of_index(&self, name: &str, query: Query) -> Result<Page, ClientError> {
        let (schema, deadline) = (self.schema(), self.deadline());
        let measure = |key: &ItemKey, item: &StoredItem| {
            ItemJson::plain(schema, &key.partition, &key.sort, item).payload_bytes()
        };
        let budget = PageBudget { max_bytes: MAX_PAGE_BYTES, measure: &measure };
        let index = self.reader.index(name, deadline).await?;
        let page = Box::pin(self.reader.query_index(&index, &query, budget, deadline)).await?;
        let items = page.items.iter();
        let items = items.map(|(key, item)| json(schema, &key.partition, &key.sort, item));
        Ok(Page { items: items.collect::<Result<_, _>>()?, cursor: page.cursor })
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.reader.directory().now(), self.timeout)
    }

    fn schema(&self) -> &TableSchema {
        &self.reader.directory().settings().schema
    }
}

impl Store for InProcess {
    async fn get(
        &self,
        key: &ItemKey,
        consistency: Consistency,
    ) -> Result<Option<Found>, ClientError> {
        let got = Box::pin(self.reader.get(key, None, consistency, self.deadline())).await;
        let item = match got {
            Ok(got) => got.item,
            Err(error) if error.code() == Code::ItemNotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let json = json(self.schema(), &key.partition, &key.sort, &item)?;
        Ok(Some(Found { json, etag: etag(item.version) }))
    }

    async fn put(
        &self,
        key: &ItemKey,
        json: &str,
        condition: &Condition,
    ) -> Result<ETag, ClientError> {
        let item = Document::Body(json.as_bytes());
        let item = body::item(item, key.clone(), Format::Plain, self.schema())?;
        let written = Box::pin(self.writer.put(&item, precondition(condition), self.deadline()));
        Ok(etag(written.await?.version))
    }

    async fn delete(&self, key: &ItemKey, condition: &Condition) -> Result<(), ClientError> {
        if *condition == Condition::Absent {
            return Err(Problem::bad_header("what is absent cannot be deleted".to_owned()).into());
        }
        Box::pin(self.writer.delete(key, precondition(condition), self.deadline())).await?;
        Ok(())
    }

    async fn page(
        &self,
        query: &CollectionQuery,
        cursor: Option<&str>,
    ) -> Result<Page, ClientError> {
        if let Some(index) = query.index() {
            return self.page_of_index(index, query.page(cursor)).await;
        }
        let (schema, query) = (self.schema(), query.page(cursor));
        let measure = |sort: &SortKey, item: &StoredItem| {
            ItemJson::plain(schema, &query.partition, sort, item).payload_bytes()
        };
        let budget = PageBudget { max_bytes: MAX_PAGE_BYTES, measure: &measure };
        let page = Box::pin(self.reader.query(&query, budget, self.deadline())).await?;
        let items =
            page.items.iter().map(|(sort, item)| json(schema, &query.partition, sort, item));
        Ok(Page { items: items.collect::<Result<_, _>>()?, cursor: page.cursor })
    }

    async fn add_to_counter(
        &self,
        key: &ItemKey,
        amount: i64,
        bounds: Bounds,
    ) -> Result<(), ClientError> {
        // What the API refuses would make a counter that its clients cannot ask for.
        let asked = json!({ "add": amount, "min": bounds.min, "max": bounds.max }).to_string();
        let (amount, bounds) = body::add(asked.as_bytes())?;
        Box::pin(self.writer.add_to_counter(key, amount, bounds, self.deadline())).await?;
        Ok(())
    }

    async fn counter(&self, key: &ItemKey) -> Result<Option<i128>, ClientError> {
        match Box::pin(self.reader.counter(key, self.deadline())).await {
            Ok(counter) => Ok(Some(counter.value)),
            Err(error) if error.code() == Code::ItemNotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn create_collection(
        &self,
        partition: &PartitionKey,
        placement: Placement,
        count: ShardCount,
    ) -> Result<(), ClientError> {
        let deadline = self.deadline();
        let told = match &self.stack {
            Some(stack) => Some(Box::pin(stack.scaler(self.timeout)).await?),
            None => None,
        };
        let scaler = told.as_ref().unwrap_or(&self.scaler);
        scaler.create_collection(partition, Some(placement), count, deadline).await?;
        Ok(())
    }
}

impl Stack {
    /// A scaler that allows what the stack allows now. Writers of a key that the stack leaves alone would not find what lies in its
    /// other shards.
    async fn scaler(&self, within: Duration) -> Result<Scaler, ClientError> {
        let Self { operator, main_table, metadata_table, settings } = self;
        let policy = operator.stack_policy(main_table, metadata_table, settings, within).await?;
        let Some(policy) = policy else {
            let why = "the stack has not told which keys may get shards; its ScaleFunction does within a minute of its deployment";
            return Err(Error::new(Code::Unavailable, why).into());
        };
        let settings = policy.applied_to(settings.clone());
        Ok(Scaler::new(operator.directory(main_table, metadata_table, settings)))
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

fn json(
    schema: &TableSchema,
    partition: &PartitionKey,
    sort: &SortKey,
    item: &StoredItem,
) -> Result<Box<RawValue>, ClientError> {
    to_raw_value(&ItemJson::plain(schema, partition, sort, item))
        .map_err(|source| ClientError::Json { what: "the item does not become JSON", source })
}

/// As the API writes it, so that a version is the same by way of both stores.
fn etag(version: Version) -> ETag {
    ETag::new(format!("\"{:016x}\"", version.get()))
}

fn precondition(condition: &Condition) -> Precondition {
    match condition {
        Condition::None => Precondition::None,
        Condition::Absent => Precondition::Absent,
        Condition::Version(etag) => {
            let digits = etag.as_str().trim_matches('"');
            let version =
                (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok()).flatten();
            // A tag that no item ever had.
            version
                .map_or(Precondition::Never, |version| Precondition::Version(Version::new(version)))
        }
    }
}
