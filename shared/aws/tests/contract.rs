//! The contract suite on DynamoDB's adapter, over an embedded DynamoDB engine.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue as Sdk, BillingMode, CreateGlobalSecondaryIndexAction,
    GlobalSecondaryIndexUpdate, KeySchemaElement, KeyType, Projection, ProjectionType,
    ScalarAttributeType,
};
use dynashard_aws::{
    ACTIVE_INDEX, ACTIVE_INDEX_PARTITION, DECISIONS_INDEX, DECISIONS_INDEX_PARTITION,
    DynamoItemStore, DynamoRecordStore, ServerClock, SystemClock, connect_local,
};
use dynashard_core::ports::{
    Action, Clock, CollectionCatalog, Condition, Consistency, Expected, ItemStore, List,
    RecordStore, StoreError, Write,
};
use dynashard_core::{
    AttributeValue, Attributes, CollectionMetadata, Generation, Lease, StoredItem, TableSchema,
    Version,
};
use dynashard_keys::{
    ItemKey, PartitionKey, PhysicalKey, Placement, Separator, ShardCount, ShardId, SortKey,
    SortKeyType,
};
use dynashard_testkit::contract::{self, Fixture};
use dynashard_testkit::enlist;
use tokio::net::TcpListener;

const MAIN_TABLE: &str = "main";
const METADATA_TABLE: &str = "metadata";

struct Engine {
    client: Client,
    clock: SystemClock,
    schema: TableSchema,
    items: DynamoItemStore,
    metadata: DynamoRecordStore,
}

impl Engine {
    /// An engine of its own, with empty tables. It ends with the test's runtime.
    async fn start(schema: TableSchema) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("the port that was bound");
        let database = dynoxide::Database::memory().expect("a database in memory");
        tokio::spawn(dynoxide::server::serve_on(listener, database));

        let server_clock = ServerClock::default();
        let clock = SystemClock::new(server_clock.clone());
        let client = connect_local(&format!("http://{address}"), server_clock).await;
        let sort_key_type = match schema.sort_key_type {
            SortKeyType::String => ScalarAttributeType::S,
            SortKeyType::Number => ScalarAttributeType::N,
        };
        let partition = (schema.partition_key_name.as_str(), ScalarAttributeType::S);
        let sort = (schema.sort_key_name.as_str(), sort_key_type);
        create_table(
            &client,
            MAIN_TABLE,
            [(partition.clone(), KeyType::Hash), (sort, KeyType::Range)],
        )
        .await;
        create_table(&client, METADATA_TABLE, [(partition, KeyType::Hash)]).await;
        for index in
            [(ACTIVE_INDEX, ACTIVE_INDEX_PARTITION), (DECISIONS_INDEX, DECISIONS_INDEX_PARTITION)]
        {
            create_index(&client, &schema.partition_key_name, index).await;
        }

        let items = DynamoItemStore::new(
            client.clone(),
            clock.clone(),
            MAIN_TABLE.to_owned(),
            schema.clone(),
        );
        let metadata = METADATA_TABLE.to_owned();
        let metadata = DynamoRecordStore::new(client.clone(), metadata, &schema);
        Self { client, clock, schema, items, metadata }
    }

    async fn with_string_keys() -> Self {
        Self::start(TableSchema::default()).await
    }

    /// A table whose keys are called by reserved words of DynamoDB's expressions.
    async fn with_number_keys() -> Self {
        Self::start(TableSchema {
            partition_key_name: "name".to_owned(),
            sort_key_name: "timestamp".to_owned(),
            sort_key_type: SortKeyType::Number,
            separator: Separator::Underscore,
        })
        .await
    }
}

impl Fixture for Engine {
    type Items = DynamoItemStore;
    type Metadata = DynamoRecordStore;
    type Clock = SystemClock;

    fn items(&self) -> &DynamoItemStore {
        &self.items
    }

    fn metadata(&self) -> &DynamoRecordStore {
        &self.metadata
    }

    fn clock(&self) -> &SystemClock {
        &self.clock
    }

    fn schema(&self) -> &TableSchema {
        &self.schema
    }
}

async fn create_table(
    client: &Client,
    table: &str,
    keys: impl IntoIterator<Item = ((&str, ScalarAttributeType), KeyType)>,
) {
    let mut request =
        client.create_table().table_name(table).billing_mode(BillingMode::PayPerRequest);
    for ((name, r#type), key_type) in keys {
        let attribute = AttributeDefinition::builder().attribute_name(name).attribute_type(r#type);
        let element = KeySchemaElement::builder().attribute_name(name).key_type(key_type);
        request = request
            .attribute_definitions(attribute.build().expect("name and type"))
            .key_schema(element.build().expect("name and type"));
    }
    request.send().await.expect("a new table");
}

/// A sparse index, as the template has it.
async fn create_index(
    client: &Client,
    partition_key_name: &str,
    (index_name, index_partition): (&str, &str),
) {
    let attribute = |name: &str| {
        let attribute = AttributeDefinition::builder().attribute_name(name);
        attribute.attribute_type(ScalarAttributeType::S).build().expect("name and type")
    };
    let key = KeySchemaElement::builder().attribute_name(index_partition).key_type(KeyType::Hash);
    let index = CreateGlobalSecondaryIndexAction::builder()
        .index_name(index_name)
        .key_schema(key.build().expect("name and type"))
        .projection(Projection::builder().projection_type(ProjectionType::All).build());
    let update = GlobalSecondaryIndexUpdate::builder().create(index.build().expect("an index"));
    client
        .update_table()
        .table_name(METADATA_TABLE)
        .attribute_definitions(attribute(partition_key_name))
        .attribute_definitions(attribute(index_partition))
        .global_secondary_index_updates(update.build())
        .send()
        .await
        .expect("an index");
}

macro_rules! on_the_engine {
    ($($module:ident :: $test:ident),+) => {
        mod string_keys {
            use super::*;
            $(#[tokio::test] async fn $test() {
                contract::$module::$test(&Engine::with_string_keys().await).await;
            })+
        }

        mod number_keys {
            use super::*;
            $(#[tokio::test] async fn $test() {
                contract::$module::$test(&Engine::with_number_keys().await).await;
            })+
        }
    };
}

dynashard_testkit::contract_suite!(on_the_engine);

/// The key of a flight in the first shard.
fn flight() -> PhysicalKey {
    let partition = PartitionKey::new("EWR").expect("a valid partition key");
    let sort = SortKey::string("UA1545").expect("a valid sort key");
    ItemKey::new(partition, sort).at(ShardId::new(0), Placement::Xxh64, Separator::HashTilde)
}

/// An item that was in the table before the system was: it counts as of generation and version 0,
/// and every guard lets it be replaced.
#[tokio::test]
async fn an_item_without_the_systems_attributes_is_read_and_replaced() {
    let engine = Engine::with_string_keys().await;
    let key = flight();
    let text = |text: &str| Sdk::S(text.to_owned());
    let foreign = HashMap::from([
        ("pk".to_owned(), text(key.partition.as_str())),
        ("sk".to_owned(), text("UA1545")),
        ("dest".to_owned(), text("IAH")),
        // Of a later version of the system; it was shown to clients once.
        ("_ds_later".to_owned(), text("?")),
    ]);
    let put = engine.client.put_item().table_name(MAIN_TABLE).set_item(Some(foreign));
    put.send().await.expect("a put around the system");

    let found = StoredItem {
        attributes: Attributes::from([(
            "dest".to_owned(),
            AttributeValue::String("IAH".to_owned()),
        )]),
        generation: Generation::new(0),
        version: Version::new(0),
        forwarded: false,
    };
    let read = engine.items.get(&key, None, Consistency::Strong).await.expect("a read");
    assert_eq!(read.value, Some(found.clone()));

    let lease = Lease::new(engine.clock.now(), None, std::time::Duration::from_mins(1));
    let condition = Condition { generation: Generation::new(1), expected: Expected::Absent };
    let mut write = Write { key: key.clone(), action: Action::Delete, condition, lease };
    let existing = Some(Box::new(found));
    assert_eq!(engine.items.write(&write).await, Err(StoreError::ConditionFailed { existing }));
    write.condition.expected = Expected::Live;
    assert_eq!(engine.items.write(&write).await, Ok(1.0));
    let read = engine.items.get(&key, None, Consistency::Strong).await.expect("a read");
    assert_eq!(read.value, None);
}

/// DynamoDB executes a request until so long after its date. One from a machine whose clock is ahead, or whose SDK has misjudged the
/// difference, could be executed after the close of a reshard.
/// Invariants I4, I9.
#[tokio::test]
async fn regression_a_write_that_was_dated_ahead_was_sent() {
    let engine = Engine::with_string_keys().await;
    let key = flight();
    for (ahead, is_sent) in [(20, false), (2, true)] {
        let now = engine.clock.now();
        let server_secs = Some(now.epoch_secs() - ahead);
        let lease = Lease::new(now, server_secs, std::time::Duration::from_mins(1));
        let condition = Condition { generation: Generation::new(1), expected: Expected::Any };
        let write = Write { key: key.clone(), action: Action::Delete, condition, lease };
        match engine.items.write(&write).await {
            Ok(_) => assert!(is_sent, "{ahead} seconds"),
            Err(StoreError::Misconfigured(why)) => {
                assert!(!is_sent && why.contains("clock of this machine"), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Somebody wrote it by hand, and no sweep found anything any more.
#[tokio::test]
async fn regression_one_damaged_entry_hid_the_rest_of_the_index() {
    let engine = Engine::with_string_keys().await;
    let growing = |name: &str| {
        let partition = PartitionKey::new(name).expect("a valid partition key");
        let created = CollectionMetadata::stable(partition, Placement::Xxh64, ShardCount::ONE, 1);
        CollectionMetadata { cleanup_pending: true, ..created }
    };
    for name in ["A", "a"] {
        enlist(&engine.metadata, &growing(name)).await.expect("created");
    }
    let item = [
        ("pk", "_ds_by_hand"),
        (ACTIVE_INDEX_PARTITION, ACTIVE_INDEX_PARTITION),
        ("phase", "move"),
    ];
    let put = item
        .into_iter()
        .fold(engine.client.put_item().table_name(METADATA_TABLE), |put, (name, value)| {
            put.item(name, Sdk::S(value.to_owned()))
        });
    put.send().await.expect("a put by hand");
    let page = engine.metadata.list(List::Resharding, None).await.expect("a page");
    let names = page.entries.iter().map(|listed| listed.partition.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["A", "a"]);
    let [damaged] = &page.damaged[..] else { panic!("{:?}", page.damaged) };
    assert!(damaged.contains("_ds_by_hand"), "{damaged}");
}

/// `verify --all` ended at it, and no other collection was verified.
#[tokio::test]
async fn regression_a_damaged_metadata_item_hid_the_other_collections() {
    let engine = Engine::with_string_keys().await;
    for name in ["A", "a"] {
        let partition = PartitionKey::new(name).expect("a valid partition key");
        let grown = CollectionMetadata::stable(partition, Placement::Xxh64, ShardCount::ONE, 1);
        enlist(&engine.metadata, &grown).await.expect("created");
    }
    let by_hand = "k".repeat(PartitionKey::MAX_BYTES + 1);
    let put = engine.client.put_item().table_name(METADATA_TABLE);
    put.item("pk", Sdk::S(by_hand.clone())).send().await.expect("a put by hand");

    let page = engine.metadata.collections(None).await.expect("a page");
    let mut names = page.entries.iter().map(PartitionKey::as_str).collect::<Vec<_>>();
    names.sort_unstable();
    assert_eq!(names, ["A", "a"]);
    let [damaged] = &page.damaged[..] else { panic!("{:?}", page.damaged) };
    assert!(damaged.contains(&by_hand), "{damaged}");
}

/// PATCH went on reading and writing until its deadline: what was read as version 0 was never
/// found as version 0.
#[tokio::test]
async fn regression_an_item_without_a_version_could_not_be_written_by_its_version() {
    let engine = Engine::with_string_keys().await;
    let key = flight();
    let lease = Lease::new(engine.clock.now(), None, std::time::Duration::from_mins(1));
    let expected = Expected::Version(Version::new(0));
    let condition = Condition { generation: Generation::new(1), expected };
    let write = Write { key: key.clone(), action: Action::Delete, condition, lease };
    let nothing = Err(StoreError::ConditionFailed { existing: None });
    assert_eq!(engine.items.write(&write).await, nothing, "there is no item yet");

    let put = engine.client.put_item().table_name(MAIN_TABLE);
    let put = put.item("pk", Sdk::S(key.partition.as_str().to_owned()));
    put.item("sk", Sdk::S("UA1545".to_owned())).send().await.expect("a put around the system");
    assert_eq!(engine.items.write(&write).await, Ok(1.0));
}
