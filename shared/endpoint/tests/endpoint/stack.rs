//! A managed table in the embedded engine, and the endpoint in front of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, GlobalSecondaryIndex, KeySchemaElement,
    KeyType, LocalSecondaryIndex, Projection, ProjectionType, ScalarAttributeType,
};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use dynashard_aws::ServerClock;
use dynashard_aws_operator::{Operator, RawClient};
use dynashard_core::ports::RecordStore;
use dynashard_core::{
    CollectionMetadata, Deadline, Directory, Extent, KeyHash, Scaler, Settings, StackPolicy,
    StackTold, TableSchema,
};
use dynashard_endpoint::{Call, ManagedTable, Service, ServiceOptions, TableNames};
use dynashard_keys::{PartitionKey, ShardCount, SortKeyType};
use dynashard_local::{DynamoDb, DynamoDbOptions, Limits};
use dynashard_testkit::enlist;
use parking_lot::Mutex;
use serde_json::{Value, json};

pub(crate) const MAIN: &str = "main";
pub(crate) const METADATA: &str = "metadata";
/// A table that nobody manages.
pub(crate) const OTHER: &str = "other";
pub(crate) const LOCAL_INDEX: &str = "by-s";
pub(crate) const INVERTED_INDEX: &str = "inverted";
pub(crate) const ATTRIBUTE_INDEX: &str = "by-text";

/// The name of an index, its keys, and what it projects.
type Index = (&'static str, [&'static str; 2], ProjectionType);

/// Far longer than a test takes: nothing is read twice.
const LEASE: Duration = Duration::from_mins(10);

/// As short as leases are.
const SHORT_LEASE: Duration = Duration::from_secs(1);

pub(crate) struct Stack {
    pub(crate) database: DynamoDb,
    pub(crate) operator: Operator,
    settings: Settings,
    pub(crate) service: Arc<Service>,
}

impl Stack {
    pub(crate) async fn start() -> Self {
        Self::with(SortKeyType::String).await
    }

    /// With sort keys of this type.
    pub(crate) async fn with(sort_key_type: SortKeyType) -> Self {
        Self::start_with(sort_key_type, &[]).await
    }

    /// With a local index by the attribute `s`, a global one of the keys alone, inverted, and one by the attribute `text`.
    pub(crate) async fn start_with_indexes() -> Self {
        let inverted = (INVERTED_INDEX, ["sk", "pk"], ProjectionType::KeysOnly);
        let by_text = (ATTRIBUTE_INDEX, ["text", "sk"], ProjectionType::All);
        let indexes = [(LOCAL_INDEX, ["pk", "s"], ProjectionType::All), inverted, by_text];
        Self::start_with(SortKeyType::String, &indexes).await
    }

    /// With indexes of the table's partition key by attributes of all types.
    pub(crate) async fn start_with_indexes_of_a_key() -> Self {
        let (all, keys) = (ProjectionType::All, ProjectionType::KeysOnly);
        let indexes = [
            ("by-n", ["pk", "n"], all.clone()),
            ("by-b", ["pk", "b"], keys.clone()),
            ("global-by-s", ["pk", "s"], all),
            ("global-by-sk", ["pk", "sk"], keys.clone()),
            (INVERTED_INDEX, ["sk", "pk"], keys),
        ];
        Self::start_with(SortKeyType::String, &indexes).await
    }

    async fn start_with(sort_key_type: SortKeyType, indexes: &[Index]) -> Self {
        Self::start_of(sort_key_type, indexes, LEASE).await
    }

    /// With leases that end while a test runs.
    pub(crate) async fn start_with_short_leases() -> Self {
        Self::start_of(SortKeyType::String, &[], SHORT_LEASE).await
    }

    async fn start_of(sort_key_type: SortKeyType, indexes: &[Index], lease_term: Duration) -> Self {
        let partitions = Limits { are_enforced: false, ..Limits::default() };
        let options = DynamoDbOptions { partitions, ..DynamoDbOptions::default() };
        let database = DynamoDb::start(options).await.expect("an engine");
        let plain = dynashard_aws::connect_local(database.url(), ServerClock::default()).await;
        create_table(&plain, MAIN, &["pk", "sk"], sort_key_type, indexes).await;
        create_table(&plain, OTHER, &["pk", "sk"], sort_key_type, indexes).await;
        create_metadata_table(&plain).await;
        let operator = Operator::on_this_machine(database.url()).await;
        let schema = TableSchema { sort_key_type, ..TableSchema::default() };
        let settings = Settings { lease_term, schema, ..Settings::default() };
        let service = Arc::new(service(&operator, database.url(), &settings));
        Self { database, operator, settings, service }
    }

    /// Puts an endpoint in front that has asked nothing yet.
    pub(crate) fn restart(&mut self) {
        self.service = Arc::new(service(&self.operator, self.database.url(), &self.settings));
    }

    /// The type of the sort keys.
    pub(crate) fn sort_key_type(&self) -> SortKeyType {
        self.settings.schema.sort_key_type
    }

    /// An endpoint whose clients' requests go to this server, while it reads its metadata from the engine.
    pub(crate) fn in_front_of(&self, url: &str) -> Service {
        service(&self.operator, url, &self.settings)
    }

    /// Such an endpoint, of tables whose ARNs begin so.
    pub(crate) fn in_front_of_place(&self, url: &str, place: &str) -> Service {
        let names = TableNames { main: MAIN, metadata: METADATA, place: Some(place) };
        let directory = self.operator(self.settings.lease_term).pinning();
        let table = ManagedTable::new(&self.operator, names, directory);
        Service::new(RawClient::new(&self.operator, url), vec![table], ServiceOptions::default())
    }

    /// Such an endpoint that manages another table as well, with leases of this term.
    pub(crate) async fn in_front_of_two(&self, url: &str, lease_term: Duration) -> Service {
        const OTHER_METADATA: &str = "metadata-of-other";
        create_table(&self.plain().await, OTHER_METADATA, &["pk"], SortKeyType::String, &[]).await;
        let other = Settings { lease_term, ..self.settings.clone() };
        let tables = [(MAIN, METADATA, &self.settings), (OTHER, OTHER_METADATA, &other)];
        let tables = tables
            .map(|(name, metadata, settings)| table(&self.operator, name, metadata, settings));
        Service::new(RawClient::new(&self.operator, url), tables.into(), ServiceOptions::default())
    }

    /// An endpoint that follows what the stack decides by, and the policies that it has gone over to.
    pub(crate) fn following(&self) -> (Service, Arc<Mutex<Vec<StackTold>>>) {
        let followed = Arc::<Mutex<Vec<StackTold>>>::default();
        let (operator, settings) = (self.operator.clone(), self.settings.clone());
        let all = Arc::clone(&followed);
        let table = table(&self.operator, MAIN, METADATA, &self.settings);
        let told = StackTold { policy: None, lease_term: settings.lease_term };
        let table = table.following(told, move |told| {
            all.lock().push(told.clone());
            let settings = Settings { lease_term: told.lease_term, ..settings.clone() };
            let policy = told.policy.clone().unwrap_or_else(|| StackPolicy::of(&settings));
            operator.directory(MAIN, METADATA, policy.applied_to(settings))
        });
        let client = RawClient::new(&self.operator, self.database.url());
        (Service::new(client, vec![table], ServiceOptions::default()), followed)
    }

    /// What an operator knows of the table, with leases of this term.
    pub(crate) fn operator(&self, lease_term: Duration) -> Directory {
        let settings = Settings { lease_term, ..self.settings.clone() };
        self.operator.directory(MAIN, METADATA, settings)
    }

    /// Has the stack tell that it gives no collection more shards than these.
    pub(crate) async fn tell_most_shards(&self, max_shards: ShardCount) {
        let settings = Settings { max_shards, ..self.settings.clone() };
        let directory = self.operator.directory(MAIN, METADATA, settings);
        let deadline = Deadline::after(directory.now(), Duration::from_secs(5));
        directory.pinned().publish_policy(deadline).await.expect("it is told");
    }

    /// An SDK whose requests the endpoint answers, without a socket.
    pub(crate) fn sdk(&self) -> Client {
        sdk_of(Arc::clone(&self.service))
    }

    /// An SDK that asks the engine itself.
    pub(crate) async fn plain(&self) -> Client {
        dynashard_aws::connect_local(self.database.url(), ServerClock::default()).await
    }

    /// Lists a collection, as the one that begins its first change does.
    pub(crate) async fn list(&self, metadata: &CollectionMetadata) {
        let records = self.operator.records(METADATA, &self.settings.schema);
        enlist(&records, metadata).await.expect("a new collection");
        self.raise(&metadata.partition).await;
    }

    /// Has the root tell of a change of this collection, as whoever carries a change on does.
    pub(crate) async fn raise(&self, partition: &PartitionKey) {
        let records = self.operator.records(METADATA, &self.settings.schema);
        let hash = KeyHash::of(partition);
        let groups = [hash.segment().group(), hash.metadata_group()];
        records.raise(&groups).await.expect("a root");
    }

    /// Begins to give a collection another shard count, which no endpoint is told of.
    pub(crate) async fn scale(&self, pk: &str, count: ShardCount) {
        let directory = self.operator.directory(MAIN, METADATA, self.settings.clone());
        let deadline = Deadline::after(directory.now(), Duration::from_secs(10));
        let change = (&Extent::Newest, count);
        let begun =
            Scaler::new(directory).request_change(None, &partition(pk), change, deadline).await;
        begun.expect("it begins");
    }

    /// Sends a request by its text.
    pub(crate) async fn ask(&self, operation: &str, body: Value) -> (u16, Value) {
        self.ask_bytes(operation, body.to_string().as_bytes()).await
    }

    pub(crate) async fn ask_bytes(&self, operation: &str, body: &[u8]) -> (u16, Value) {
        ask(&self.service, operation, body).await
    }
}

/// Sends a request to this endpoint.
pub(crate) async fn ask(service: &Service, operation: &str, body: &[u8]) -> (u16, Value) {
    let call = Call { operation: operation.to_owned(), body: body.to_vec().into() };
    let answer = service.answer(&call).await;
    (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
}

pub(crate) fn item(pk: &str, sk: &str) -> Value {
    json!({ "pk": { "S": pk }, "sk": { "S": sk } })
}

pub(crate) fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

pub(crate) fn partition(name: &str) -> PartitionKey {
    PartitionKey::new(name).expect("a valid partition key")
}

fn service(operator: &Operator, url: &str, settings: &Settings) -> Service {
    let table = table(operator, MAIN, METADATA, settings);
    Service::new(RawClient::new(operator, url), vec![table], ServiceOptions::default())
}

fn table(operator: &Operator, name: &str, metadata: &str, settings: &Settings) -> ManagedTable {
    let directory = operator.directory(name, metadata, settings.clone()).pinning();
    let names = TableNames { main: name, metadata, place: None };
    ManagedTable::new(operator, names, directory)
}

/// An SDK whose requests this service answers.
pub(crate) fn sdk_of(service: Arc<Service>) -> Client {
    let connector = SharedHttpConnector::new(InProcess(service));
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("local"))
        .credentials_provider(Credentials::new("local", "local", None, None, "local"))
        .http_client(http_client_fn(move |_, _| connector.clone()))
        .build();
    Client::from_conf(config)
}

#[derive(Clone)]
struct InProcess(Arc<Service>);

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InProcess")
    }
}

impl HttpConnector for InProcess {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let service = Arc::clone(&self.0);
        let target = request.headers().get("x-amz-target").unwrap_or_default().to_owned();
        let operation = target.rsplit_once('.').map_or("", |(_, operation)| operation).to_owned();
        let body = request.body().bytes().unwrap_or_default().to_vec();
        HttpConnectorFuture::new(async move {
            let answer = service.answer(&Call { operation, body: body.into() }).await;
            let status = answer.status.try_into().expect("a status");
            Ok(HttpResponse::new(status, SdkBody::from(answer.body)))
        })
    }
}

/// Makes the metadata table, with nothing in it.
pub(crate) async fn create_metadata_table(client: &Client) {
    create_table(client, METADATA, &["pk"], SortKeyType::String, &[]).await;
}

async fn create_table(
    client: &Client,
    table: &str,
    keys: &[&str],
    sort_key_type: SortKeyType,
    indexes: &[Index],
) {
    let schema = |keys: &[&str]| {
        let elements = keys.iter().zip([KeyType::Hash, KeyType::Range]).map(|(name, key_type)| {
            let element = KeySchemaElement::builder().attribute_name(*name).key_type(key_type);
            element.build().expect("name and type")
        });
        Some(elements.collect::<Vec<_>>())
    };
    let mut request = client
        .create_table()
        .table_name(table)
        .billing_mode(BillingMode::PayPerRequest)
        .set_key_schema(schema(keys));
    let mut attributes = keys.iter().copied().collect::<BTreeSet<_>>();
    for (name, keys, projection) in indexes {
        attributes.extend(keys);
        let projection = Projection::builder().projection_type(projection.clone()).build();
        request = if keys[0] == "pk" && !name.starts_with("global") {
            let index = LocalSecondaryIndex::builder().index_name(*name).projection(projection);
            let index = index.set_key_schema(schema(keys)).build();
            request.local_secondary_indexes(index.expect("an index"))
        } else {
            let index = GlobalSecondaryIndex::builder().index_name(*name).projection(projection);
            let index = index.set_key_schema(schema(keys)).build();
            request.global_secondary_indexes(index.expect("an index"))
        };
    }
    for name in attributes {
        let attribute = AttributeDefinition::builder().attribute_name(name);
        let of_type = match sort_key_type {
            SortKeyType::Number if name == "sk" => ScalarAttributeType::N,
            _ if name == "n" => ScalarAttributeType::N,
            _ if name == "b" => ScalarAttributeType::B,
            _ => ScalarAttributeType::S,
        };
        let attribute = attribute.attribute_type(of_type);
        request = request.attribute_definitions(attribute.build().expect("name and type"));
    }
    request.send().await.expect("a new table");
}
