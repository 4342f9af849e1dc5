//! Who answers: the plain engine, or what stands in front of another one.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use async_trait::async_trait;
use bytes::Bytes;
use clap::ValueEnum;
use dynoxide::actions::create_table::CreateTableRequest;
use dynoxide::actions::delete_item::DeleteItemRequest;
use dynoxide::actions::delete_table::DeleteTableRequest;
use dynoxide::actions::describe_table::DescribeTableRequest;
use dynoxide::actions::put_item::PutItemRequest;
use dynoxide::actions::scan::ScanRequest;
use dynoxide::{Database, Item};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::program::Turn;
use crate::table::{TABLE, create_request};

/// How the keys of the second side's table are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Setting {
    /// No key has more than one shard.
    Cold,
    /// Every key has 16 shards.
    Sharded,
    /// Behind the first operations of a program, every key's reshard from 1 shard to 4 stays in `forward`.
    Forward,
    /// Behind the first operations of a program, every key's reshard from 1 shard to 4 stays in `move`. What they have written lies
    /// at its old home until it is written or read.
    Move,
    /// Every key has three epochs, of 1, 4 and 16 shards.
    Epochs,
    /// As `Move`, of what lies behind a sort key.
    Behind,
    /// Between any two operations of a program its keys are resharded, from 1 shard to 16, to 4, to 1, and so on.
    Moving,
}

impl Setting {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Cold,
        Self::Sharded,
        Self::Forward,
        Self::Move,
        Self::Epochs,
        Self::Behind,
        Self::Moving,
    ];

    /// Those in which keys have, or get, several shards.
    pub const GROWN: [Self; 6] =
        [Self::Sharded, Self::Forward, Self::Move, Self::Epochs, Self::Behind, Self::Moving];
}

/// What an operation came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// HTTP's status.
    pub status: u16,
    /// The body, or its text where it is no JSON.
    pub body: Value,
}

/// One who answers DynamoDB's operations.
#[async_trait]
pub trait Side: Send + Sync {
    /// The answer to an operation, such as `PutItem`.
    async fn call(&self, operation: &str, body: &Value) -> Answer;

    /// Makes the table empty for the next program, before its first operations. The item by which the table says whose it is
    /// stays where it `is_owned`.
    async fn begin(&self, is_owned: bool) -> io::Result<()>;

    /// The first operations of the program are over.
    fn go_on(&self) {}

    /// It is the turn of a reshard, where keys are resharded.
    async fn take_turn(&self, _turn: &Turn) {}
}

/// An embedded engine. It answers on a loopback port, where it checks requests as DynamoDB does, and ends with the runtime.
pub struct Engine {
    database: Database,
    address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Engine {
    /// An engine in memory, with the table.
    pub async fn start() -> io::Result<Self> {
        let database = Database::memory().map_err(io::Error::other)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        tokio::spawn(dynoxide::server::serve_on(listener, database.clone()));
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let engine = Self { database, address, client };
        engine.clear()?;
        Ok(engine)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Creates another table.
    pub fn create(&self, request: &Value) -> io::Result<()> {
        let request = CreateTableRequest::deserialize(request)?;
        self.database.create_table(request).map(drop).map_err(io::Error::other)
    }

    /// Puts an item, past the port.
    pub fn put(&self, item: &Value) -> io::Result<()> {
        let item = Item::deserialize(item)?;
        let put =
            PutItemRequest { table_name: TABLE.to_owned(), item, ..PutItemRequest::default() };
        self.database.put_item(put).map(drop).map_err(io::Error::other)
    }

    /// Makes the table empty, or makes it anew if it is gone, or if the engine holds an item
    /// without the key by which it could be deleted.
    pub fn clear(&self) -> io::Result<()> {
        let describe = DescribeTableRequest { table_name: TABLE.to_owned() };
        if self.database.describe_table(describe).is_err() {
            self.create(&create_request())?;
        }
        if self.clear_of(TABLE, &["pk", "sk"]).is_ok() {
            return Ok(());
        }
        let delete = DeleteTableRequest { table_name: TABLE.to_owned() };
        self.database.delete_table(delete).map_err(io::Error::other)?;
        self.create(&create_request())
    }

    /// Makes a table with these names of its key empty.
    pub fn clear_of(&self, table: &str, key: &[&str]) -> io::Result<()> {
        loop {
            let scan = ScanRequest { table_name: table.to_owned(), ..ScanRequest::default() };
            let page = self.database.scan(scan).map_err(io::Error::other)?;
            for item in page.items.unwrap_or_default() {
                let of_key = |name: &&str| Some(((*name).to_owned(), item.get(*name)?.clone()));
                let key = key.iter().map(of_key).collect::<Option<_>>();
                let wrong = || io::Error::other(format!("{table} holds {item:?}, without a key"));
                let delete = DeleteItemRequest {
                    table_name: table.to_owned(),
                    key: key.ok_or_else(wrong)?,
                    ..DeleteItemRequest::default()
                };
                self.database.delete_item(delete).map_err(io::Error::other)?;
            }
            if page.last_evaluated_key.is_none() {
                return Ok(());
            }
        }
    }

    async fn answer(&self, operation: &str, body: &Value) -> Result<Answer, String> {
        let authorization = "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/dynamodb/aws4_request, \
                             SignedHeaders=host, Signature=0";
        let request = Request::post(format!("http://{}/", self.address))
            .header("content-type", "application/x-amz-json-1.0")
            .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
            .header("x-amz-date", "20260101T000000Z")
            .header("authorization", authorization)
            .body(Full::new(Bytes::from(body.to_string())))
            .map_err(|error| error.to_string())?;
        let response = self.client.request(request).await.map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let read = response.into_body().collect().await.map_err(|error| error.to_string())?;
        Ok(Answer { status, body: read_body(&read.to_bytes()) })
    }
}

/// The JSON of a body, or its text where it is none.
pub(crate) fn read_body(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}

#[async_trait]
impl Side for Engine {
    async fn call(&self, operation: &str, body: &Value) -> Answer {
        self.answer(operation, body)
            .await
            .unwrap_or_else(|error| Answer { status: 0, body: Value::String(error) })
    }

    async fn begin(&self, _is_owned: bool) -> io::Result<()> {
        self.clear()
    }
}
