//! A table of the embedded engine.

use dynashard_expression::Placeholders;
use dynoxide::{Database, DynoxideError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Its condition held.
    Done,
    /// Its condition did not hold.
    Failed,
    /// It is malformed, or does not fit the item, in these words.
    Refused(String),
}

impl Outcome {
    /// Without the words.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Refused(_) => "refused",
        }
    }

    fn of<T>(result: dynoxide::Result<T>) -> Self {
        match result {
            Ok(_) => Self::Done,
            Err(DynoxideError::ConditionalCheckFailedException(..)) => Self::Failed,
            Err(error) => Self::Refused(error.to_string()),
        }
    }
}

/// A table in memory, of which one item is used, or those of one partition key.
pub(crate) struct Store {
    database: Database,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self::with_key(&["pk"])
    }

    /// A table that has a sort key, `sk`, with an item for each of these.
    pub(crate) fn sorted(sort_keys: &[&str]) -> Self {
        let store = Self::with_key(&["pk", "sk"]);
        for sort_key in sort_keys {
            let attributes = Map::from_iter([("sk".to_owned(), json!({"S": sort_key}))]);
            assert_eq!(store.put(&attributes, json!({})), Outcome::Done);
        }
        store
    }

    fn with_key(names: &[&str]) -> Self {
        let database = Database::memory().expect("a database");
        let attributes =
            names.iter().map(|name| json!({"AttributeName": name, "AttributeType": "S"}));
        let schema = names.iter().zip(["HASH", "RANGE"]);
        let schema = schema.map(|(name, of)| json!({"AttributeName": name, "KeyType": of}));
        let table = json!({
            "TableName": TABLE,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": attributes.collect::<Vec<_>>(),
            "KeySchema": schema.collect::<Vec<_>>(),
        });
        let table = serde_json::from_value(table).expect("a table");
        database.create_table(table).expect("it is well-formed");
        Self { database }
    }

    /// Makes the item that of these attributes, or none.
    pub(crate) fn reset(&self, attributes: Option<&Map<String, Value>>) {
        let outcome = match attributes {
            Some(attributes) => self.put(attributes, json!({})),
            None => answer("Key", &key(), json!({}), |request| self.database.delete_item(request)),
        };
        assert_eq!(outcome, Outcome::Done);
    }

    /// Puts the item, with these members beside it.
    pub(crate) fn put(&self, attributes: &Map<String, Value>, members: Value) -> Outcome {
        let mut item = key();
        item.extend(attributes.clone());
        answer("Item", &item, members, |request| self.database.put_item(request))
    }

    /// Updates the item, with these members beside its key.
    pub(crate) fn update(&self, members: Value) -> Outcome {
        answer("Key", &key(), members, |request| self.database.update_item(request))
    }

    /// The items that a scan with these members finds, or its refusal.
    pub(crate) fn scan(&self, members: Value) -> Result<Value, String> {
        items(members, |request| Ok(self.database.scan(request)?.items))
    }

    /// The items that a query with these members finds, or its refusal.
    pub(crate) fn query(&self, members: Value) -> Result<Value, String> {
        items(members, |request| Ok(self.database.query(request)?.items))
    }

    /// The item as it is now.
    pub(crate) fn item(&self) -> Option<Value> {
        let request = serde_json::from_value(json!({"TableName": TABLE, "Key": key()}));
        let found = self.database.get_item(request.expect("a request")).expect("it is well-formed");
        found.item.map(|item| json!(item))
    }
}

/// The members of a request with this expression, such as `ConditionExpression`, and its names and values.
pub(crate) fn members(which: &str, text: Option<&str>, placeholders: &Placeholders) -> Value {
    let mut members = json!({});
    if let Some(text) = text {
        members[which] = json!(text);
    }
    if !placeholders.names.is_empty() {
        members["ExpressionAttributeNames"] = json!(placeholders.names);
    }
    if !placeholders.values.is_empty() {
        members["ExpressionAttributeValues"] = json!(placeholders.values);
    }
    members
}

const TABLE: &str = "Items";

fn key() -> Map<String, Value> {
    Map::from_iter([("pk".to_owned(), json!({"S": "A"}))])
}

/// Sends a request with these members and this one.
fn answer<R: DeserializeOwned, T>(
    what: &str,
    of: &Map<String, Value>,
    mut members: Value,
    send: impl FnOnce(R) -> dynoxide::Result<T>,
) -> Outcome {
    members["TableName"] = json!(TABLE);
    members[what] = json!(of);
    match serde_json::from_value(members) {
        Ok(request) => Outcome::of(send(request)),
        Err(error) => Outcome::Refused(error.to_string()),
    }
}

fn items<R: DeserializeOwned, T: Serialize>(
    mut members: Value,
    send: impl FnOnce(R) -> dynoxide::Result<T>,
) -> Result<Value, String> {
    members["TableName"] = json!(TABLE);
    let request = serde_json::from_value(members).map_err(|error| error.to_string())?;
    let items = send(request).map_err(|error| error.to_string())?;
    Ok(json!(items))
}
