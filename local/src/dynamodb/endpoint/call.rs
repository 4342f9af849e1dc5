//! What one request does to which tables, parsed once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use dynashard_limits::capacity::{Consistency, key_text};
use http::HeaderMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The operation and tables of a request, as far as they can be read: of a malformed request none
/// are, and the engine says what is wrong with it.
#[derive(Debug)]
pub(super) struct Call {
    /// The last part of `X-Amz-Target`, such as `PutItem`; empty without one.
    pub(super) operation: String,
    /// Every table that the request names, each once.
    pub(super) tables: BTreeSet<String>,
    /// What it does to the tables.
    pub(super) request: Request,
}

impl Call {
    pub(super) fn read(headers: &HeaderMap, body: &[u8]) -> Self {
        let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok());
        let (_, operation) = target.and_then(|target| target.split_once('.')).unwrap_or_default();
        let (tables, request) = match operation {
            "BatchGetItem" => members::<BatchGet>(body).read(),
            "BatchWriteItem" => members::<BatchWrite>(body).read(),
            "TransactGetItems" | "TransactWriteItems" => members::<Transaction>(body).read(),
            "Query" | "Scan" => {
                let page: Box<PageRequest> = members(body);
                (table_of(page.table_name.as_deref()), Request::Page(page))
            }
            _ => {
                let item: ItemRequest = members(body);
                (table_of(item.table_name.as_deref()), item.request(operation))
            }
        };
        Self { operation: operation.to_owned(), tables, request }
    }
}

/// What a request does.
#[derive(Debug)]
pub(super) enum Request {
    /// Acts on items.
    Items(Vec<Action>, Unit),
    /// Reads a page of a table or index.
    Page(Box<PageRequest>),
    /// Creates, changes or deletes a table.
    TableChange,
    /// Nothing that the endpoint has to know more about.
    Other,
}

/// What is admitted or refused as a whole.
#[derive(Debug)]
pub(super) enum Unit {
    /// The one action that there is.
    Action,
    /// All actions together.
    Transaction,
    /// Each action by itself. All of them get or all write.
    Batch(BatchForm),
}

/// One thing that is done to one item.
#[derive(Debug)]
pub(super) struct Action {
    /// The table as the request names it.
    pub(super) table: String,
    pub(super) verb: Verb,
    /// The item of a put, and otherwise the key, in DynamoDB JSON.
    pub(super) image: Value,
}

impl Action {
    /// The table's name, also where the request has its ARN.
    pub(super) fn table_name(&self) -> &str {
        without_arn(&self.table)
    }
}

/// What is done to an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Get(Consistency),
    Put,
    Update,
    Delete,
    Check,
}

/// The shape of a batch on the wire.
#[derive(Debug)]
pub(super) enum BatchForm {
    /// `BatchGetItem`: by table as the request names it, the members beside its keys, such as
    /// `ConsistentRead`.
    Get(BTreeMap<String, Map<String, Value>>),
    /// `BatchWriteItem`
    Write,
}

impl BatchForm {
    /// The member of the answer that holds what was not processed.
    pub(super) const fn unprocessed(&self) -> &'static str {
        match self {
            Self::Get(_) => "UnprocessedKeys",
            Self::Write => "UnprocessedItems",
        }
    }

    /// The actions as `RequestItems`, and as what was not processed, which have the same shape.
    pub(super) fn request_items<'a>(&self, actions: impl Iterator<Item = &'a Action>) -> Value {
        let mut tables = BTreeMap::<&str, Vec<Value>>::new();
        for Action { table, verb, image } in actions {
            tables.entry(table).or_default().push(match verb {
                Verb::Put => json!({ "PutRequest": { "Item": image } }),
                Verb::Delete => json!({ "DeleteRequest": { "Key": image } }),
                Verb::Get(_) | Verb::Update | Verb::Check => image.clone(),
            });
        }
        match self {
            Self::Write => json!(tables),
            Self::Get(options) => tables
                .into_iter()
                .map(|(table, keys)| {
                    let mut entry = options.get(table).cloned().unwrap_or_default();
                    entry.insert("Keys".to_owned(), Value::Array(keys));
                    (table.to_owned(), Value::Object(entry))
                })
                .collect(),
        }
    }
}

/// The members of a `Query` or `Scan` that decide where it reads, and what it costs.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PageRequest {
    table_name: Option<String>,
    pub(super) index_name: Option<String>,
    consistent_read: Option<Value>,
    return_consumed_capacity: Option<String>,
    key_condition_expression: Option<String>,
    expression_attribute_names: Option<HashMap<String, String>>,
    expression_attribute_values: Option<HashMap<String, Value>>,
    /// The older form of [`Self::key_condition_expression`].
    key_conditions: Option<HashMap<String, Value>>,
    exclusive_start_key: Option<HashMap<String, Value>>,
    segment: Option<u32>,
}

impl PageRequest {
    pub(super) fn table_name(&self) -> &str {
        without_arn(self.table_name.as_deref().unwrap_or_default())
    }

    pub(super) fn consistency(&self) -> Consistency {
        consistency(self.consistent_read.as_ref())
    }

    /// Whether the client asked for `ConsumedCapacity`.
    pub(super) fn wants_capacity(&self) -> bool {
        self.return_consumed_capacity.as_deref().is_some_and(|level| level != "NONE")
    }

    /// The partition key where the page begins, of a table or index whose partition key has these
    /// attributes.
    ///
    /// A scan from the start does not name one. Its segments begin in different places, so the
    /// segment's number stands for it, or an empty text.
    pub(super) fn partition_key(&self, attributes: &[String]) -> String {
        let texts = attributes.iter().map(|name| {
            let start = self.exclusive_start_key.as_ref().and_then(|key| key.get(name));
            key_text(self.equals(name).or(start)?)
        });
        texts.collect::<Option<Vec<_>>>().map_or_else(
            || self.segment.map(|segment| segment.to_string()).unwrap_or_default(),
            |texts| texts.join(","),
        )
    }

    /// The value that the key condition demands of an attribute.
    fn equals(&self, attribute: &str) -> Option<&Value> {
        if let Some(conditions) = &self.key_conditions {
            return conditions.get(attribute)?["AttributeValueList"].get(0);
        }
        let tokens = tokens(self.key_condition_expression.as_deref()?);
        let placeholder = tokens.windows(3).find_map(|window| match window {
            [name, "=", value] | [value, "=", name]
                if value.starts_with(':') && self.resolve(name) == attribute =>
            {
                Some(*value)
            }
            _ => None,
        })?;
        self.expression_attribute_values.as_ref()?.get(placeholder)
    }

    fn resolve<'a>(&'a self, name: &'a str) -> &'a str {
        let names = self.expression_attribute_names.as_ref();
        names.and_then(|names| names.get(name)).map_or(name, String::as_str)
    }
}

/// The words and signs of a key condition. The engine checks its grammar.
fn tokens(expression: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    for word in expression.split_whitespace() {
        let mut rest = word;
        while let Some(at) = rest.find(SIGNS) {
            tokens
                .extend([&rest[..at], &rest[at..=at]].into_iter().filter(|part| !part.is_empty()));
            rest = &rest[at + 1..];
        }
        tokens.extend((!rest.is_empty()).then_some(rest));
    }
    tokens
}

const SIGNS: [char; 6] = ['=', '<', '>', '(', ')', ','];

/// The members of a request about one item, and of one action in a transaction.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ItemRequest {
    table_name: Option<String>,
    item: Option<Value>,
    key: Option<Value>,
    consistent_read: Option<Value>,
}

impl ItemRequest {
    fn request(self, operation: &str) -> Request {
        let verb = match operation {
            "GetItem" => Verb::Get(consistency(self.consistent_read.as_ref())),
            "PutItem" => Verb::Put,
            "UpdateItem" => Verb::Update,
            "DeleteItem" => Verb::Delete,
            "CreateTable" | "DeleteTable" | "UpdateTable" => return Request::TableChange,
            _ => return Request::Other,
        };
        let action = self.action(verb);
        action.map_or(Request::Other, |action| Request::Items(vec![action], Unit::Action))
    }

    fn action(self, verb: Verb) -> Option<Action> {
        let image = if verb == Verb::Put { self.item } else { self.key };
        Some(Action { table: self.table_name?, verb, image: image? })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Transaction {
    /// Each entry holds one action under the action's name.
    transact_items: Option<Vec<HashMap<String, ItemRequest>>>,
}

impl Transaction {
    fn read(self) -> (BTreeSet<String>, Request) {
        let mut tables = BTreeSet::new();
        let mut actions = Vec::new();
        let mut makes_sense = true;
        for entry in self.transact_items.into_iter().flatten() {
            makes_sense &= entry.len() == 1;
            for (name, action) in entry {
                tables.extend(table_of(action.table_name.as_deref()));
                let verb = match name.as_str() {
                    "Get" => Some(Verb::Get(Consistency::Transactional)),
                    "Put" => Some(Verb::Put),
                    "Update" => Some(Verb::Update),
                    "Delete" => Some(Verb::Delete),
                    "ConditionCheck" => Some(Verb::Check),
                    _ => None,
                };
                let action = verb.and_then(|verb| action.action(verb));
                makes_sense &= action.is_some();
                actions.extend(action);
            }
        }
        let request = Request::Items(actions, Unit::Transaction);
        (tables, if makes_sense { request } else { Request::Other })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BatchGet {
    #[serde(default)]
    request_items: BTreeMap<String, KeysAndAttributes>,
}

#[derive(Debug, Deserialize)]
struct KeysAndAttributes {
    #[serde(rename = "Keys", default)]
    keys: Vec<Value>,
    #[serde(flatten)]
    options: Map<String, Value>,
}

impl BatchGet {
    fn read(self) -> (BTreeSet<String>, Request) {
        let tables = self.request_items.keys().map(|name| without_arn(name).to_owned()).collect();
        let mut actions = Vec::new();
        let mut all_options = BTreeMap::new();
        for (table, KeysAndAttributes { keys, options }) in self.request_items {
            let verb = Verb::Get(consistency(options.get("ConsistentRead")));
            let action = |image| Action { table: table.clone(), verb, image };
            actions.extend(keys.into_iter().map(action));
            all_options.insert(table, options);
        }
        (tables, Request::Items(actions, Unit::Batch(BatchForm::Get(all_options))))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BatchWrite {
    #[serde(default)]
    request_items: BTreeMap<String, Vec<WriteRequest>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WriteRequest {
    put_request: Option<ItemRequest>,
    delete_request: Option<ItemRequest>,
}

impl BatchWrite {
    fn read(self) -> (BTreeSet<String>, Request) {
        let tables = self.request_items.keys().map(|name| without_arn(name).to_owned()).collect();
        let writes = self.request_items.into_iter().flat_map(|(table, writes)| {
            writes.into_iter().map(move |write| {
                let (verb, image) = match (write.put_request, write.delete_request) {
                    (Some(put), None) => (Verb::Put, put.item?),
                    (None, Some(delete)) => (Verb::Delete, delete.key?),
                    _ => return None,
                };
                Some(Action { table: table.clone(), verb, image })
            })
        });
        let actions = writes.collect::<Option<_>>();
        let unit = Unit::Batch(BatchForm::Write);
        (tables, actions.map_or(Request::Other, |actions| Request::Items(actions, unit)))
    }
}

/// The members of a body; the default where it has another shape.
fn members<T: DeserializeOwned + Default>(body: &[u8]) -> T {
    serde_json::from_slice(body).unwrap_or_default()
}

fn consistency(consistent_read: Option<&Value>) -> Consistency {
    match consistent_read {
        Some(Value::Bool(true)) => Consistency::Strong,
        _ => Consistency::Eventual,
    }
}

fn table_of(name: Option<&str>) -> BTreeSet<String> {
    name.map(|name| without_arn(name).to_owned()).into_iter().collect()
}

/// A table may be named by its ARN as well.
pub(super) fn without_arn(name: &str) -> &str {
    name.rsplit_once(":table/").map_or(name, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn call(operation: &str, body: &str) -> Call {
        let mut headers = HeaderMap::new();
        let target = format!("DynamoDB_20120810.{operation}");
        headers.insert("x-amz-target", target.parse().expect("a header value"));
        Call::read(&headers, body.as_bytes())
    }

    fn tables(operation: &str, body: &str) -> Vec<String> {
        call(operation, body).tables.into_iter().collect()
    }

    #[test]
    fn tables_are_found_wherever_a_request_names_them() {
        let put = r#"{"TableName":"A","Item":{"TableName":{"S":"x"}}}"#;
        assert_eq!(tables("PutItem", put), ["A"]);
        let describe = r#"{"TableName":"arn:aws:dynamodb:us-east-1:123456789012:table/A"}"#;
        assert_eq!(tables("DescribeTable", describe), ["A"]);
        let write = r#"{"RequestItems":{"A":[{"PutRequest":{"Item":{}}}],"B":[]}}"#;
        assert_eq!(tables("BatchWriteItem", write), ["A", "B"]);
        let get = r#"{"RequestItems":{"A":{"Keys":[{}]},"B":{"Keys":[]}}}"#;
        assert_eq!(tables("BatchGetItem", get), ["A", "B"]);
        let transaction = r#"{"TransactItems":[{"Put":{"TableName":"A"}},{"Update":{"TableName":"B"}},{"Put":{"TableName":"A"}}]}"#;
        assert_eq!(tables("TransactWriteItems", transaction), ["A", "B"]);
    }

    #[test]
    fn a_malformed_request_names_no_table_and_does_nothing() {
        for operation in ["PutItem", "BatchGetItem", "TransactWriteItems", "Any"] {
            for body in ["", "[]", "{", r#"{"TableName":7}"#, "\u{0}"] {
                assert!(tables(operation, body).is_empty(), "{body}");
            }
        }
        assert_eq!(Call::read(&HeaderMap::new(), b"{}").operation, "");
        for (operation, body) in [
            ("PutItem", r#"{"TableName":"A","Key":{}}"#),
            ("GetItem", r#"{"TableName":"A","Item":{}}"#),
            ("TransactWriteItems", r#"{"TransactItems":[{"Put":{"TableName":"A"}}]}"#),
            ("TransactWriteItems", r#"{"TransactItems":[{}]}"#),
            ("BatchWriteItem", r#"{"RequestItems":{"A":[{}]}}"#),
        ] {
            assert!(matches!(call(operation, body).request, Request::Other), "{body}");
        }
    }

    #[test]
    fn a_query_tells_its_partition_key_in_every_form() {
        let partition_key = |body: &str, attributes: &[&str]| {
            let Request::Page(page) = call("Query", body).request else { panic!("{body}") };
            let attributes: Vec<_> = attributes.iter().map(|name| (*name).to_owned()).collect();
            page.partition_key(&attributes)
        };
        for condition in
            ["pk=:p", "#p = :p AND begins_with(sk, :s)", ":p=#p", "(sk > :s) and(pk = :p)"]
        {
            let body = json!({
                "TableName": "A",
                "KeyConditionExpression": condition,
                "ExpressionAttributeNames": { "#p": "pk" },
                "ExpressionAttributeValues": { ":p": { "S": "hot" }, ":s": { "S": "x" } },
            });
            assert_eq!(partition_key(&body.to_string(), &["pk"]), "hot", "{condition}");
        }
        let legacy = r#"{"KeyConditions":{"pk":{"ComparisonOperator":"EQ","AttributeValueList":[{"N":"1.0"}]}}}"#;
        assert_eq!(partition_key(legacy, &["pk"]), "1");
        let two = r#"{"KeyConditionExpression":"a = :a AND b = :b","ExpressionAttributeValues":{":a":{"S":"x"},":b":{"S":"y"}}}"#;
        assert_eq!(partition_key(two, &["a", "b"]), "x,y");
    }

    /// Puts parts together with any space between them, and with none where a sign allows it.
    fn spaced(parts: &[String], spaces: &[&str]) -> String {
        let mut text = String::new();
        for (at, part) in parts.iter().enumerate() {
            let needs_space = |it: Option<char>| it.is_some_and(|it| !SIGNS.contains(&it));
            let space = spaces[at % spaces.len()];
            let is_between_words =
                needs_space(text.chars().last()) && needs_space(part.chars().next());
            text.push_str(if space.is_empty() && is_between_words { " " } else { space });
            text.push_str(part);
        }
        text
    }

    /// A condition on `pk`, perhaps with one on `sk`, in any of the ways to write it. The names and
    /// placeholders of the two begin alike.
    fn key_condition() -> impl Strategy<Value = String> {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let partition = prop::sample::select(vec!["pk = :p", "#p = :p", ":p = pk", ":p = #p"]);
        let sort = prop::sample::select(vec![
            "pk2 = :p2",
            "#p2 = :p2",
            ":p2 = #p2",
            "#p2 < :p2",
            "pk2 < = :p2",
            "pk2 > = :p2",
            ":p2 > #p2",
            "pk2 BETWEEN :p2 AND :p3",
            "begins_with ( #p2 , :p2 )",
        ]);
        let space = prop::sample::select(vec!["", " ", "  ", "\t", "\n "]);
        let and = prop::sample::select(vec!["AND", "and", "And"]);
        let spaces = prop::collection::vec(space, 1..8);
        (partition, prop::option::of(sort), and, any::<[bool; 4]>(), spaces).prop_map(
            move |(partition, sort, and, [swap, one, other, all], spaces)| {
                let enclosed = |inner: Vec<String>, is_enclosed: bool| {
                    let signs = if is_enclosed { ["(", ")"].as_slice() } else { &[] };
                    let mut signs = signs.iter().map(|sign| vec![(*sign).to_owned()]);
                    let open = signs.next().unwrap_or_default();
                    [open, inner, signs.next().unwrap_or_default()].concat()
                };
                let mut clauses = vec![enclosed(words(partition), one)];
                clauses.extend(sort.map(|sort| enclosed(words(sort), other)));
                if swap {
                    clauses.reverse();
                }
                spaced(&enclosed(clauses.join(&and.to_owned()), all), &spaces)
            },
        )
    }

    proptest! {
        #[test]
        fn a_key_condition_tells_its_partition_key_however_it_is_written(
            condition in key_condition(),
        ) {
            let body = json!({
                "KeyConditionExpression": condition,
                "ExpressionAttributeNames": { "#p": "pk", "#p2": "pk2" },
                "ExpressionAttributeValues": {
                    ":p": { "S": "hot" }, ":p2": { "S": "x" }, ":p3": { "S": "y" },
                },
            });
            let Request::Page(page) = call("Query", &body.to_string()).request else {
                panic!("{body}")
            };
            prop_assert_eq!(page.partition_key(&["pk".to_owned()]), "hot", "{}", condition);
        }

        #[test]
        fn no_key_condition_and_no_body_is_too_odd_to_be_read(
            condition in any::<String>(),
            body in any::<Vec<u8>>(),
        ) {
            let page = json!({
                "KeyConditionExpression": condition,
                "ExpressionAttributeValues": { ":p": { "S": "hot" } },
            });
            let Request::Page(page) = call("Query", &page.to_string()).request else {
                panic!("{page}")
            };
            let partition_key = page.partition_key(&["pk".to_owned()]);
            prop_assert!(["", "hot"].contains(&partition_key.as_str()), "{}", condition);
            let mut headers = HeaderMap::new();
            for operation in ["PutItem", "Query", "BatchGetItem", "BatchWriteItem", "TransactWriteItems"] {
                let target = format!("DynamoDB_20120810.{operation}");
                headers.insert("x-amz-target", target.parse().expect("a header value"));
                prop_assert_eq!(Call::read(&headers, &body).operation, operation);
            }
        }
    }

    #[test]
    fn a_scan_begins_at_its_start_key_and_otherwise_by_segment() {
        let partition_key = |body: &str| {
            let Request::Page(page) = call("Scan", body).request else { panic!("{body}") };
            page.partition_key(&["pk".to_owned()])
        };
        assert_eq!(partition_key(r#"{"ExclusiveStartKey":{"pk":{"S":"a"}},"Segment":3}"#), "a");
        assert_eq!(partition_key(r#"{"Segment":3,"TotalSegments":4}"#), "3");
        assert_eq!(partition_key("{}"), "");
    }

    #[test]
    fn a_batch_is_written_down_again_as_it_came() {
        for (operation, body) in [
            (
                "BatchGetItem",
                json!({ "RequestItems": {
                    "A": { "Keys": [{ "pk": { "S": "1" } }, { "pk": { "S": "2" } }],
                           "ConsistentRead": true, "ProjectionExpression": "pk" },
                    "B": { "Keys": [{ "pk": { "S": "1" } }] },
                } }),
            ),
            (
                "BatchWriteItem",
                json!({ "RequestItems": { "arn:aws:dynamodb:us-east-1:1:table/A": [
                    { "PutRequest": { "Item": { "pk": { "S": "1" } } } },
                    { "DeleteRequest": { "Key": { "pk": { "S": "2" } } } },
                ] } }),
            ),
        ] {
            let request = call(operation, &body.to_string()).request;
            let Request::Items(actions, Unit::Batch(form)) = request else { panic!("{body}") };
            assert_eq!(form.request_items(actions.iter()), body["RequestItems"]);
        }
    }
}
