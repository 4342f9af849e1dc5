//! The side that is tested: the endpoint's service, over an engine of its own.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use dynashard_aws_operator::{Operator, RawClient};
use dynashard_core::ports::{RecordStore, StoreError};
use dynashard_core::{
    CollectionMetadata, Directory, Epoch, Epochs, KeyHash, Owner, Phase, Settings, TableSchema,
};
use dynashard_endpoint::{Call, ManagedTable, Service, ServiceOptions, TableNames};
use dynashard_keys::{PartitionKey, Placement, Separator, ShardCount, SortKey, SortKeyType};
use dynashard_testkit::enlist;
use serde_json::{Value, json};

use crate::moving::Mover;
use crate::program::Turn;
use crate::side::{Answer, Engine, Setting, Side, read_body};
use crate::table::{LOOKALIKE, PARTITIONS, SORTS, TABLE, key};

/// The metadata table of who answers the first operations of a program.
const FIRST_METADATA_TABLE: &str = "OrdersFirstMetadata";

const METADATA_TABLE: &str = "OrdersMetadata";

/// The endpoint in front of an engine, with the table as one that dynashard manages.
pub struct Endpoint {
    engine: Engine,
    answering: Mutex<Arc<Answering>>,
    /// Who answers the first operations of a program, with metadata by which no key has more than one shard: nobody else, where no
    /// key is resharded meanwhile.
    first: Option<Service>,
    is_at_first: AtomicBool,
    /// The item by which the table says whose it is. Where keys are resharded, each program has another one.
    owner: Option<Value>,
    reshards: Arc<AtomicU64>,
}

/// Who answers the operations of a program, and what reshards its keys meanwhile.
struct Answering {
    service: Service,
    mover: Option<Mover>,
}

impl Endpoint {
    /// An endpoint that knows nothing yet of an empty table in this setting.
    pub async fn start(setting: Setting) -> io::Result<Self> {
        let engine = Engine::start().await?;
        let first = if [Setting::Forward, Setting::Move, Setting::Behind].contains(&setting) {
            let first = service(&engine, FIRST_METADATA_TABLE, None).await?;
            // The other one is to claim the table for itself.
            engine.clear()?;
            Some(first)
        } else {
            None
        };
        let service = service(&engine, METADATA_TABLE, Some(setting)).await?;
        let found = engine.call("Scan", &json!({ "TableName": TABLE })).await;
        let owner = found.body["Items"][0].clone();
        if owner["pk"]["S"] != Owner::KEY {
            return Err(io::Error::other(format!("the table is not claimed: {found:?}")));
        }
        let owner = (setting != Setting::Moving).then_some(owner);
        let answering = Mutex::new(Arc::new(Answering { service, mover: None }));
        let (is_at_first, reshards) = (AtomicBool::new(false), Arc::default());
        Ok(Self { engine, answering, first, is_at_first, owner, reshards })
    }

    /// How many reshards were carried to their end between operations.
    pub fn reshards(&self) -> u64 {
        self.reshards.load(Ordering::Relaxed)
    }

    /// Begins a program whose keys are resharded: no key has metadata yet.
    async fn begin_cold(&self, is_owned: bool) -> io::Result<()> {
        self.engine.clear()?;
        self.engine.clear_of(METADATA_TABLE, &["pk"])?;
        let (operator, url) = operator(&self.engine).await;
        let settings = Settings {
            schema: schema(),
            lease_term: Duration::from_secs(2),
            request_lifetime: Duration::from_secs(3),
            ..Settings::default()
        };
        let reshards = Arc::clone(&self.reshards);
        let mover = Mover::start(&operator, METADATA_TABLE, settings, reshards).await?;
        let service = service_of(&operator, &url, METADATA_TABLE, mover.directory());
        ask_first(&service).await?;
        if !is_owned {
            self.engine.clear()?;
        }
        *self.lock() = Arc::new(Answering { service, mover: Some(mover) });
        Ok(())
    }

    fn answering(&self) -> Arc<Answering> {
        Arc::clone(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Answering>> {
        self.answering.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Side for Endpoint {
    async fn call(&self, operation: &str, body: &Value) -> Answer {
        let is_at_first = self.is_at_first.load(Ordering::Relaxed);
        let answering = self.answering();
        let first = self.first.as_ref().filter(|_| is_at_first);
        ask(first.unwrap_or(&answering.service), operation, body).await
    }

    async fn begin(&self, is_owned: bool) -> io::Result<()> {
        self.is_at_first.store(true, Ordering::Relaxed);
        let Some(owner) = &self.owner else { return Box::pin(self.begin_cold(is_owned)).await };
        self.engine.clear()?;
        if is_owned {
            self.engine.put(owner)?;
        }
        Ok(())
    }

    fn go_on(&self) {
        self.is_at_first.store(false, Ordering::Relaxed);
    }

    async fn take_turn(&self, turn: &Turn) {
        if let Some(mover) = &self.answering().mover {
            mover.take(turn).await;
        }
    }
}

async fn ask(service: &Service, operation: &str, body: &Value) -> Answer {
    let body = Bytes::from(body.to_string());
    let answer = service.answer(&Call { operation: operation.to_owned(), body }).await;
    Answer { status: answer.status, body: read_body(&answer.body) }
}

/// The metadata of a key, if it has any.
fn metadata(setting: Setting, partition: PartitionKey) -> Option<CollectionMetadata> {
    let count = |shards| ShardCount::new(shards).unwrap_or(ShardCount::ONE);
    let epoch = |shards, boundary| {
        let boundary = SortKey::string(boundary).ok()?;
        Some(Epoch { count: count(shards), boundary })
    };
    let (from, to) = (ShardCount::ONE, count(4));
    let (shards, phase, older) = match setting {
        Setting::Cold | Setting::Moving => return None,
        Setting::Sharded => (16, Phase::Stable, vec![]),
        Setting::Forward => (1, Phase::Forward { from, to }, vec![]),
        Setting::Move => (4, Phase::Move { from, to }, vec![]),
        Setting::Epochs => (16, Phase::Stable, vec![epoch(1, SORTS[1])?, epoch(4, SORTS[3])?]),
        Setting::Behind => (4, Phase::Move { from, to }, vec![epoch(1, SORTS[2])?]),
    };
    let epochs = Epochs { older, ..Epochs::default() };
    let stable =
        CollectionMetadata::stable(partition, Placement::Xxh64, count(shards), 1_700_000_000);
    Some(CollectionMetadata { phase, epochs, ..stable })
}

/// An endpoint over a new metadata table, in which every key is kept in this way.
async fn service(
    engine: &Engine,
    metadata_table: &str,
    of_keys: Option<Setting>,
) -> io::Result<Service> {
    engine.create(&json!({
        "TableName": metadata_table,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{ "AttributeName": "pk", "AttributeType": "S" }],
        "KeySchema": [{ "AttributeName": "pk", "KeyType": "HASH" }],
    }))?;
    let (operator, url) = operator(engine).await;
    let schema = schema();
    let new = || {
        let settings = Settings { schema: schema.clone(), ..Settings::default() };
        let directory = operator.directory(TABLE, metadata_table, settings).pinning();
        service_of(&operator, &url, metadata_table, directory)
    };
    let service = new();
    ask_first(&service).await?;
    let failed = |error: StoreError| io::Error::other(format!("{error:?}"));
    let records = operator.records(metadata_table, &schema);
    for partition in PARTITIONS.into_iter().chain([LOOKALIKE]) {
        let partition = PartitionKey::new(partition).map_err(io::Error::other)?;
        let hash = KeyHash::of(&partition);
        let metadata = of_keys.and_then(|setting| metadata(setting, partition));
        let Some(metadata) = metadata else { return Ok(service) };
        enlist(&records, &metadata).await.map_err(failed)?;
        let groups = [hash.segment().group(), hash.metadata_group()];
        records.raise(&groups).await.map_err(failed)?;
    }
    // That one has read a directory without them.
    Ok(new())
}

/// An operator of an engine, and where that listens.
async fn operator(engine: &Engine) -> (Operator, String) {
    let url = format!("http://{}", engine.address());
    (Operator::on_this_machine(&url).await, url)
}

fn schema() -> TableSchema {
    TableSchema {
        partition_key_name: "pk".to_owned(),
        sort_key_name: "sk".to_owned(),
        sort_key_type: SortKeyType::String,
        separator: Separator::default(),
    }
}

fn service_of(
    operator: &Operator,
    url: &str,
    metadata_table: &str,
    directory: Directory,
) -> Service {
    let table = ManagedTable::new(
        operator,
        TableNames { main: TABLE, metadata: metadata_table, place: None },
        directory,
    );
    Service::new(RawClient::new(operator, url), vec![table], ServiceOptions::default())
}

/// Sends the first request, with which a stack pins its settings and claims the table.
async fn ask_first(service: &Service) -> io::Result<()> {
    let first = json!({ "TableName": TABLE, "Key": key("hot", "a") });
    let answer = ask(service, "GetItem", &first).await;
    if answer.status == 200 {
        return Ok(());
    }
    Err(io::Error::other(format!("the first request failed: {answer:?}")))
}
