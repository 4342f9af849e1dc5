//! A managed table: where its collections lie, and what of an item is ours.

use std::sync::Arc;

use dynashard_aws::attributes::{FORWARDED, GENERATION, VERSION};
use dynashard_aws_operator::Operator;
use dynashard_core::ports::{CollectionCatalog, Existing, ListPage, NativeTerms};
use dynashard_core::{
    Deadline, Directory, Generation, KnownIndexes, NativeRequests, StackTold, TableSchema,
    Telemetry, Version,
};
use dynashard_keys::{
    ItemKey, PartitionKey, PhysicalPartitionKey, RESERVED_PREFIX, SortKey, SortKeyType,
};
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};

use crate::document::Members;
use crate::refusal::Refusal;

/// A table that dynashard manages.
pub struct ManagedTable {
    name: String,
    metadata_table: String,
    /// What the ARNs of tables of its account and region begin with, if that is known: those of others are of other tables.
    pub(crate) place: Option<String>,
    catalog: Box<dyn CollectionCatalog>,
    schema: TableSchema,
    /// By what the stack was last known to go by.
    requests: RwLock<Arc<NativeRequests>>,
    follows: Option<Follows>,
    telemetry: Option<Arc<dyn Telemetry>>,
    indexes: KnownIndexes,
}

/// By which names a table is found.
#[derive(Debug, Clone, Copy)]
pub struct TableNames<'a> {
    /// The table itself.
    pub main: &'a str,
    /// The table that lists its collections.
    pub metadata: &'a str,
    /// What the ARNs of tables of its account and region begin with, if that is known.
    pub place: Option<&'a str>,
}

/// How a table goes over to what its stack tells.
struct Follows {
    followed: Mutex<Followed>,
    /// What is known of the table by other words: nothing yet.
    directory: Box<dyn Fn(&StackTold) -> Directory + Send + Sync>,
}

/// What a table goes by.
struct Followed {
    told: StackTold,
    /// How often it has gone over to other words.
    times: usize,
}

/// What an item was before its own attributes were taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Its generation, 0 where it has none.
    pub(crate) generation: u64,
    /// Whether it only says that an item has moved.
    pub(crate) is_marker: bool,
}

impl ManagedTable {
    /// The table of this name. `directory` is what is known of its collections.
    pub fn new(operator: &Operator, names: TableNames<'_>, directory: Directory) -> Self {
        let TableNames { main, metadata, place } = names;
        let schema = directory.settings().schema.clone();
        Self {
            name: main.to_owned(),
            metadata_table: metadata.to_owned(),
            place: place.map(str::to_owned),
            catalog: Box::new(operator.records(metadata, &schema)),
            schema,
            requests: RwLock::new(Arc::new(NativeRequests::new(directory))),
            follows: None,
            telemetry: None,
            indexes: KnownIndexes::default(),
        }
    }

    /// This table, which goes by what its stack has `told`, and over to a `directory` by other words once it tells them.
    #[must_use]
    pub fn following(
        self,
        told: StackTold,
        directory: impl Fn(&StackTold) -> Directory + Send + Sync + 'static,
    ) -> Self {
        let followed = Mutex::new(Followed { told, times: 0 });
        Self { follows: Some(Follows { followed, directory: Box::new(directory) }), ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// This table, with `telemetry` told of what comes of throttles.
    pub(crate) fn reporting_to(mut self, telemetry: impl Telemetry + 'static) -> Self {
        let telemetry: Arc<dyn Telemetry> = Arc::new(telemetry);
        let requests = Arc::into_inner(self.requests.into_inner());
        let requests = requests.expect("nobody has asked for it yet").with_telemetry(&telemetry);
        self.requests = RwLock::new(Arc::new(requests));
        Self { telemetry: Some(telemetry), ..self }
    }

    pub(crate) fn metadata_table(&self) -> &str {
        &self.metadata_table
    }

    pub(crate) fn requests(&self) -> Arc<NativeRequests> {
        Arc::clone(&self.requests.read())
    }

    /// Goes over to what the stack tells now, if that is another policy or another lease term. What is under way goes on by the old
    /// one. Returns how often it has done so.
    pub(crate) fn follow(&self) -> usize {
        let Some(Follows { followed, directory }) = &self.follows else { return 0 };
        let mut followed = followed.lock();
        let Some(told) = self.requests().told_otherwise(&followed.told) else {
            return followed.times;
        };
        let next = NativeRequests::new(directory(&told));
        let next = match &self.telemetry {
            Some(telemetry) => next.with_telemetry(telemetry),
            None => next,
        };
        *self.requests.write() = Arc::new(next);
        *followed = Followed { told, times: followed.times + 1 };
        tracing::info!(
            table = self.name,
            "the stack has told another policy or lease term to go by"
        );
        followed.times
    }

    /// The keys of the table.
    pub(crate) fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// What is known of its indexes.
    pub(crate) fn indexes(&self) -> &KnownIndexes {
        &self.indexes
    }

    pub(crate) fn partition_key_name(&self) -> &str {
        &self.schema.partition_key_name
    }

    pub(crate) fn sort_key_name(&self) -> &str {
        &self.schema.sort_key_name
    }

    /// The collection of an item or a key. `None` where the key is none that DynamoDB takes for this table: it says what is wrong.
    pub(crate) fn partition_of(&self, item: &Members) -> Result<Option<PartitionKey>, Refusal> {
        item.get(self.partition_key_name()).map_or(Ok(None), Self::partition)
    }

    /// The collection whose key is this value.
    pub(crate) fn partition(value: &Value) -> Result<Option<PartitionKey>, Refusal> {
        let text = scalar(value).filter(|(of_type, _)| *of_type == "S").map(|(_, text)| text);
        let Some(text) = text.filter(|text| (1..=MAX_KEY_BYTES).contains(&text.len())) else {
            return Ok(None);
        };
        PartitionKey::new(text)
            .map(Some)
            .map_err(|error| Refusal::validation(format!("dynashard: bad_key: {error}")))
    }

    /// The key of an item, or of a key. `None` where DynamoDB takes none such for this table: it says what is wrong.
    pub(crate) fn key_of(&self, item: &Members) -> Result<Option<ItemKey>, Refusal> {
        let Some(partition) = self.partition_of(item)? else { return Ok(None) };
        let sort = item.get(self.sort_key_name()).and_then(|value| self.sort_key(value));
        Ok(sort.map(|sort| ItemKey::new(partition, sort)))
    }

    /// The sort key that this value is, if it is one of this table.
    pub(crate) fn sort_key(&self, value: &Value) -> Option<SortKey> {
        let (of_type, text) = scalar(value)?;
        match (of_type, self.schema.sort_key_type) {
            ("S", SortKeyType::String) => SortKey::string(text).ok(),
            ("N", SortKeyType::Number) => SortKey::parse(text.trim(), SortKeyType::Number).ok(),
            _ => None,
        }
    }

    /// One page of the collections that are listed, from behind this key of the metadata table.
    pub(crate) async fn collections(
        &self,
        after: Option<&str>,
        deadline: Deadline,
    ) -> Result<ListPage<PartitionKey>, Refusal> {
        let page = self.requests().collections(&*self.catalog, after, deadline).await;
        page.map_err(|error| Refusal::of(&error))
    }

    /// Has the partition key of a key be what DynamoDB holds it under.
    pub(crate) fn put_at(&self, item: &mut Members, terms: &NativeTerms) {
        item.insert(self.partition_key_name().to_owned(), physical(terms));
    }

    /// Takes off what is ours of an item that DynamoDB has shown, or of a part of one.
    pub(crate) fn shown(&self, item: &mut Members) -> Shown {
        let generation = item.remove(GENERATION);
        let generation = generation.as_ref().and_then(|value| value["N"].as_str()?.parse().ok());
        let is_marker = item.contains_key(FORWARDED);
        item.retain(|name, _| !name.starts_with(RESERVED_PREFIX));
        self.name_logically(item);
        Shown { generation: generation.unwrap_or_default(), is_marker }
    }

    /// What an item is, its own attributes taken off.
    pub(crate) fn existing(&self, item: &mut Members) -> Existing {
        let version = item.get(VERSION).and_then(|value| value["N"].as_str()?.parse().ok());
        let shown = self.shown(item);
        Existing {
            generation: Generation::new(shown.generation),
            version: Version::new(version.unwrap_or_default()),
            is_marker: shown.is_marker,
        }
    }

    /// Has the partition key of a key be the client's again.
    pub(crate) fn name_logically(&self, key: &mut Members) {
        let separator = self.schema.separator;
        let text = key.get(self.partition_key_name()).and_then(|value| value["S"].as_str());
        let logical = text.and_then(|text| PhysicalPartitionKey::parse(text, separator).ok());
        if let Some((partition, _)) = logical {
            let value = json!({ "S": partition.as_str() });
            key.insert(self.partition_key_name().to_owned(), value);
        }
    }
}

/// The partition key as DynamoDB takes it.
pub(crate) fn physical(terms: &NativeTerms) -> Value {
    json!({ "S": terms.partition.as_str() })
}

/// The type and the text of a value that is a text or a number. DynamoDB counts no member that is null.
pub(crate) fn scalar(value: &Value) -> Option<(&str, &str)> {
    let mut members = value.as_object()?.iter().filter(|(_, value)| !value.is_null());
    let (of_type, value) = members.next().filter(|_| members.next().is_none())?;
    Some((of_type, value.as_str()?))
}

/// The longest partition key that DynamoDB takes (DynamoDB Developer Guide, "Quotas").
const MAX_KEY_BYTES: usize = 2_048;
