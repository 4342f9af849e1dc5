//! What the load goes to, and where everything is read back: the HTTP API of a stack, or the DynamoDB endpoint in front of its
//! tables.

use std::net::Ipv4Addr;

use dynashard_api::json::{AttributesJson, Format, attributes, object};
use dynashard_api::problem::Problem;
use dynashard_core::TableSchema;
use dynashard_core::query::MAX_LIMIT;
use dynashard_endpoint::Server;
use dynashard_local::Stack;
use futures_util::future::try_join_all;
use serde_json::{Map, Value, json};

use super::flights::Flight;
use super::{DemoError, MAIN_TABLE};
use crate::args::Through;
use crate::http::{Client, HttpError};
use crate::local::endpoint_of;
use crate::operator::settings_of;

/// Takes the load of a run, and gives it back.
pub(super) enum Target {
    /// The HTTP API, by which the functions write and read.
    Api(Client),
    /// DynamoDB's own protocol.
    Endpoint(Endpoint),
}

/// What was not written of a batch, or perhaps not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Unprocessed {
    /// The sort keys of the flights that are to be offered again.
    pub(super) sort_keys: Vec<String>,
    /// How many of them may have been stored all the same.
    pub(super) unknown: usize,
}

/// A page of a collection.
#[derive(Debug, PartialEq)]
pub(super) struct Page {
    /// The items in plain JSON.
    pub(super) items: Vec<Value>,
    /// The items that DynamoDB read for them, as the API reports them; an endpoint does not tell.
    pub(super) items_read: Option<u64>,
    /// Where the next page begins, unless this is the last.
    pub(super) next: Option<Value>,
}

impl Target {
    /// What takes the load of this stack.
    pub(super) async fn of(stack: &Stack, through: Through) -> Result<Self, crate::Failure> {
        if through == Through::Api {
            return Ok(Self::Api(Client::new(&stack.endpoints().api)));
        }
        let settings = settings_of(stack.parameters()).map_err(DemoError::Parameters)?;
        let listener = dynashard_serve::bind(Ipv4Addr::LOCALHOST.into(), Some(0)).await?;
        let server = endpoint_of(stack, listener).await?;
        let client = Client::new(&server.url());
        Ok(Self::Endpoint(Endpoint { client, schema: settings.schema, server }))
    }

    /// The address of the endpoint, if it is one.
    pub(super) fn endpoint_url(&self) -> Option<String> {
        match self {
            Self::Api(_) => None,
            Self::Endpoint(endpoint) => Some(endpoint.server.url()),
        }
    }

    /// Deletes what is not there.
    pub(super) async fn delete_nothing(&self) -> Result<(), DemoError> {
        match self {
            Self::Api(client) => {
                let nothing = json!({ "deletes": [{ "pk": "nobody", "sk": "0" }] });
                client.post("/batch-write", &nothing).await?;
            }
            Self::Endpoint(Endpoint { client, schema, .. }) => {
                let key = with_key(Map::new(), schema, "nobody", "0");
                let deletes = json!([{ "DeleteRequest": { "Key": key } }]);
                let body = json!({ "RequestItems": { MAIN_TABLE: deletes } });
                client.call("BatchWriteItem", &body).await?;
            }
        }
        Ok(())
    }

    /// Puts the flights of an airport. The same put twice stores the same item, so whatever was not carried out may be sent
    /// again.
    pub(super) async fn put(
        &self,
        airport: &str,
        flights: &[Flight],
    ) -> Result<Unprocessed, DemoError> {
        match self {
            Self::Api(client) => put_by_api(client, airport, flights).await,
            Self::Endpoint(endpoint) => {
                let batches = flights.chunks(MAX_WRITES);
                let batches = batches.map(|batch| endpoint.put_batch(airport, batch));
                let mut all = Unprocessed::default();
                for batch in try_join_all(batches).await? {
                    all.sort_keys.extend(batch.sort_keys);
                    all.unknown += batch.unknown;
                }
                Ok(all)
            }
        }
    }

    /// Reads a page of an airport's flights, with a strong read: the first, or the one that begins where another has ended.
    pub(super) async fn page(
        &self,
        airport: &str,
        start: Option<&Value>,
    ) -> Result<Page, DemoError> {
        match self {
            Self::Api(client) => {
                let query = json!({ "pk": airport, "limit": MAX_LIMIT, "consistent": true, "cursor": start });
                page_of_api(client.post("/query", &query).await?)
            }
            Self::Endpoint(Endpoint { client, schema, .. }) => {
                let query = endpoint_query(schema, airport, start);
                page_of_endpoint(&client.call("Query", &query).await?)
            }
        }
    }

    /// Ends the endpoint, if it is one, when it has answered what it was asked.
    pub(super) async fn stop(self) {
        if let Self::Endpoint(endpoint) = self {
            endpoint.server.stop().await;
        }
    }
}

/// An endpoint in front of the tables of a stack.
pub(super) struct Endpoint {
    client: Client,
    /// The keys of the main table.
    schema: TableSchema,
    server: Server,
}

/// The most writes of one request (DynamoDB API: `BatchWriteItem`).
const MAX_WRITES: usize = 25;

impl Endpoint {
    /// Puts flights by one request.
    async fn put_batch(&self, airport: &str, flights: &[Flight]) -> Result<Unprocessed, DemoError> {
        let puts = flights.iter().map(|flight| {
            let item = with_key(to_dynamodb(&flight.item)?, &self.schema, airport, &flight.sk);
            Ok(json!({ "PutRequest": { "Item": item } }))
        });
        let puts = puts.collect::<Result<Vec<_>, DemoError>>()?;
        let body = json!({ "RequestItems": { MAIN_TABLE: puts } });
        match self.client.call("BatchWriteItem", &body).await {
            Ok(answer) => unprocessed_of_endpoint(&answer, &self.schema),
            Err(error) => unprocessed_by(error, flights),
        }
    }
}

async fn put_by_api(
    client: &Client,
    airport: &str,
    flights: &[Flight],
) -> Result<Unprocessed, DemoError> {
    let puts = flights
        .iter()
        .map(|Flight { sk, item }| json!({ "pk": airport, "sk": sk, "item": item }))
        .collect::<Vec<_>>();
    let answer = match client.post("/batch-write", &json!({ "puts": puts })).await {
        Ok(answer) => answer,
        Err(error) => return unprocessed_by(error, flights),
    };
    let left = answer["unprocessed"].as_array().ok_or(DemoError::BadAnswer("unprocessed"))?;
    let sort_keys = left.iter().map(|left| left["sk"].as_str().map(str::to_owned));
    Ok(Unprocessed {
        sort_keys: sort_keys.collect::<Option<_>>().ok_or(NO_SORT_KEY)?,
        unknown: left.iter().filter(|left| left["code"] == OUTCOME_UNKNOWN).count(),
    })
}

const NO_SORT_KEY: DemoError = DemoError::BadAnswer("sort key in what is unprocessed");

/// The stable code of a write that may have been stored.
const OUTCOME_UNKNOWN: &str = "outcome_unknown";

/// What an error says about a batch that was refused as a whole.
fn unprocessed_by(error: HttpError, flights: &[Flight]) -> Result<Unprocessed, DemoError> {
    let is_unknown = error.says(OUTCOME_UNKNOWN);
    if !is_unknown && !error.is_busy() {
        return Err(error.into());
    }
    let sort_keys = flights.iter().map(|flight| flight.sk.clone()).collect();
    Ok(Unprocessed { sort_keys, unknown: if is_unknown { flights.len() } else { 0 } })
}

fn unprocessed_of_endpoint(answer: &Value, schema: &TableSchema) -> Result<Unprocessed, DemoError> {
    let left = answer["UnprocessedItems"].as_object();
    let left = left.ok_or(DemoError::BadAnswer("UnprocessedItems"))?;
    let left = left.get(MAIN_TABLE).and_then(Value::as_array).into_iter().flatten();
    let sort_keys = left.map(|left| {
        let sort_key = &left["PutRequest"]["Item"][&schema.sort_key_name]["S"];
        sort_key.as_str().map(str::to_owned)
    });
    let sort_keys = sort_keys.collect::<Option<_>>().ok_or(NO_SORT_KEY)?;
    Ok(Unprocessed { sort_keys, unknown: 0 })
}

fn page_of_api(mut page: Value) -> Result<Page, DemoError> {
    let next = Some(page["cursor"].take()).filter(|cursor| !cursor.is_null());
    let items_read = page["items_read"].as_u64().ok_or(DemoError::BadAnswer("items_read"))?;
    match page["items"].take() {
        Value::Array(items) => Ok(Page { items, items_read: Some(items_read), next }),
        _ => Err(DemoError::BadAnswer("items")),
    }
}

fn page_of_endpoint(page: &Value) -> Result<Page, DemoError> {
    let items = page["Items"].as_array().ok_or(DemoError::BadAnswer("Items"))?;
    let next = page.get("LastEvaluatedKey").cloned();
    Ok(Page {
        items: items.iter().map(to_plain).collect::<Result<_, _>>()?,
        items_read: None,
        next,
    })
}

fn endpoint_query(schema: &TableSchema, airport: &str, start: Option<&Value>) -> Value {
    let mut query = json!({
        "TableName": MAIN_TABLE,
        "KeyConditionExpression": "#pk = :pk",
        "ExpressionAttributeNames": { "#pk": schema.partition_key_name },
        "ExpressionAttributeValues": { ":pk": { "S": airport } },
        "ConsistentRead": true,
        "Limit": MAX_LIMIT,
    });
    if let Some(start) = start {
        query["ExclusiveStartKey"] = start.clone();
    }
    query
}

/// Attributes in DynamoDB JSON with the key of their item.
fn with_key(
    mut attributes: Map<String, Value>,
    schema: &TableSchema,
    partition_key: &str,
    sort_key: &str,
) -> Map<String, Value> {
    let keys = [(&schema.partition_key_name, partition_key), (&schema.sort_key_name, sort_key)];
    attributes.extend(keys.map(|(name, text)| (name.clone(), json!({ "S": text }))));
    attributes
}

/// The item in DynamoDB JSON, as the API would store it.
fn to_dynamodb(item: &Map<String, Value>) -> Result<Map<String, Value>, DemoError> {
    let text = json!(item).to_string();
    match converted(&text, Format::Plain, Format::DynamoDb)? {
        Value::Object(item) => Ok(item),
        _ => Err(DemoError::Item("it is no object".to_owned())),
    }
}

/// The item in plain JSON, as the API would answer it.
fn to_plain(item: &Value) -> Result<Value, DemoError> {
    converted(&item.to_string(), Format::DynamoDb, Format::Plain)
}

fn converted(item: &str, from: Format, to: Format) -> Result<Value, DemoError> {
    let wrong = |problem: Problem| DemoError::Item(problem.log_detail().to_owned());
    let members = object(item.as_bytes()).map_err(wrong)?;
    let attributes = attributes(members, from).map_err(wrong)?;
    serde_json::to_value(AttributesJson(&attributes, to))
        .map_err(|error| DemoError::Item(error.to_string()))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::super::flights;
    use super::*;

    fn refused(status: StatusCode, body: &str) -> HttpError {
        let request = "BatchWriteItem at http://127.0.0.1:8017".to_owned();
        HttpError::Refused { request, status, body: body.to_owned() }
    }

    #[test]
    fn flights_are_stored_with_types_and_come_back_as_they_were() {
        let schema = TableSchema::default();
        for airport in flights::load().expect("data") {
            for number in 0..2_000 {
                let flight = airport.flight(number);
                let item = to_dynamodb(&flight.item).expect("an item");
                let item = Value::Object(with_key(item, &schema, &airport.code, &flight.sk));
                assert_eq!(item["sk"], json!({ "S": flight.sk }));
                assert_eq!(item["flight"], json!({ "N": flight.item["flight"].to_string() }));
                let page = json!({ "Items": [item], "Count": 1, "ScannedCount": 1 });
                let page = page_of_endpoint(&page).expect("a page");
                assert_eq!(page.items, [Value::Object(flight.item)]);
                assert_eq!(page.next, None);
            }
        }
    }

    #[test]
    fn a_page_begins_where_the_one_before_has_ended() {
        let schema = TableSchema::default();
        let last = json!({ "pk": { "S": "EWR" }, "sk": { "S": "a" } });
        let page = page_of_endpoint(&json!({ "Items": [], "LastEvaluatedKey": last }));
        let next = page.expect("a page").next;
        assert_eq!(next, Some(last.clone()));
        assert_eq!(endpoint_query(&schema, "EWR", next.as_ref())["ExclusiveStartKey"], last);
        let first = endpoint_query(&schema, "EWR", None);
        assert_eq!(first.get("ExclusiveStartKey"), None);
        assert_eq!(first["ConsistentRead"], true);

        let of_api = page_of_api(json!({ "items": [1], "items_read": 3, "cursor": "c" }));
        let expected = Page { items: vec![json!(1)], items_read: Some(3), next: Some(json!("c")) };
        assert_eq!(of_api.expect("a page"), expected);
        assert!(page_of_endpoint(&json!({})).is_err());
    }

    #[test]
    fn what_an_endpoint_leaves_unprocessed_is_offered_again() {
        let schema = TableSchema::default();
        let none = unprocessed_of_endpoint(&json!({ "UnprocessedItems": {} }), &schema);
        assert_eq!(none.expect("an answer"), Unprocessed::default());
        let item = json!({ "pk": { "S": "EWR" }, "sk": { "S": "a" } });
        let left = json!({ MAIN_TABLE: [{ "PutRequest": { "Item": item } }] });
        let left = unprocessed_of_endpoint(&json!({ "UnprocessedItems": left }), &schema);
        let expected = Unprocessed { sort_keys: vec!["a".to_owned()], unknown: 0 };
        assert_eq!(left.expect("an answer"), expected);
        assert!(unprocessed_of_endpoint(&json!({}), &schema).is_err());
    }

    #[test]
    fn a_batch_that_is_refused_as_a_whole_is_offered_again_unless_it_is_wrong() {
        let flights = [flights::load().expect("data")[0].flight(0)];
        let sort_keys = vec![flights[0].sk.clone()];
        let of = |status, body| unprocessed_by(refused(status, body), &flights);
        let throttled = "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException";
        let throttled = json!({ "__type": throttled, "message": "more" }).to_string();
        let expected = Unprocessed { sort_keys: sort_keys.clone(), unknown: 0 };
        for (status, body) in
            [(StatusCode::BAD_REQUEST, throttled.as_str()), (StatusCode::SERVICE_UNAVAILABLE, "")]
        {
            assert_eq!(of(status, body).expect("it may pass"), expected);
        }
        let unknown = json!({
            "__type": "com.amazonaws.dynamodb.v20120810#InternalServerError",
            "message": "dynashard: outcome_unknown: the connection broke",
        });
        let unknown = unknown.to_string();
        let unknown = of(StatusCode::INTERNAL_SERVER_ERROR, &unknown);
        assert_eq!(unknown.expect("it may pass"), Unprocessed { sort_keys, unknown: 1 });

        let invalid = r#"{"__type": "com.amazon.coral.validate#ValidationException"}"#;
        let error = of(StatusCode::BAD_REQUEST, invalid).expect_err("it is wrong").to_string();
        assert!(error.starts_with("BatchWriteItem at http://") && error.contains("400"), "{error}");
    }
}
