//! The side that is tested: the endpoint's service, over an engine of its own.

use std::io;

use async_trait::async_trait;
use bytes::Bytes;
use dynashard_aws_operator::{Operator, RawClient};
use dynashard_core::{NativeRequests, Owner, Settings, TableSchema};
use dynashard_endpoint::{Call, ManagedTable, Service, ServiceOptions};
use dynashard_keys::{Separator, SortKeyType};
use serde_json::{Value, json};

use crate::side::{Answer, Engine, Setting, Side, read_body};
use crate::table::{TABLE, key};

const METADATA_TABLE: &str = "OrdersMetadata";

/// The endpoint in front of an engine, with the table as one that dynashard manages.
pub struct Endpoint {
    engine: Engine,
    service: Service,
    owner: Value,
}

impl Endpoint {
    /// An endpoint that knows nothing yet of an empty table.
    pub async fn start() -> io::Result<Self> {
        let engine = Engine::start().await?;
        engine.create(&json!({
            "TableName": METADATA_TABLE,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{ "AttributeName": "pk", "AttributeType": "S" }],
            "KeySchema": [{ "AttributeName": "pk", "KeyType": "HASH" }],
        }))?;
        let url = format!("http://{}", engine.address());
        let operator = Operator::on_this_machine(&url).await;
        let schema = TableSchema {
            partition_key_name: "pk".to_owned(),
            sort_key_name: "sk".to_owned(),
            sort_key_type: SortKeyType::String,
            separator: Separator::default(),
        };
        let settings = Settings { schema, ..Settings::default() };
        let directory = operator.directory(TABLE, METADATA_TABLE, settings).pinning();
        let requests = NativeRequests::new(directory);
        let table = ManagedTable::new(TABLE.to_owned(), METADATA_TABLE.to_owned(), requests);
        let service =
            Service::new(RawClient::new(&operator, &url), vec![table], ServiceOptions::default());
        // The stack claims the table with its first request.
        let first = json!({ "TableName": TABLE, "Key": key("hot", "a") });
        let mut endpoint = Self { engine, service, owner: Value::Null };
        let answer = endpoint.call("GetItem", &first).await;
        let found = endpoint.engine.call("Scan", &json!({ "TableName": TABLE })).await;
        endpoint.owner = found.body["Items"][0].clone();
        if answer.status == 200 && endpoint.owner["pk"]["S"] == Owner::KEY {
            Ok(endpoint)
        } else {
            Err(io::Error::other(format!("the table is not claimed: {answer:?}, {found:?}")))
        }
    }
}

#[async_trait]
impl Side for Endpoint {
    async fn call(&self, operation: &str, body: &Value) -> Answer {
        let body = Bytes::from(body.to_string());
        let answer = self.service.answer(&Call { operation: operation.to_owned(), body }).await;
        Answer { status: answer.status, body: read_body(&answer.body) }
    }

    async fn begin(&self, setting: Setting, is_owned: bool) -> io::Result<()> {
        if is_owned {
            self.engine.put(&self.owner)?;
        }
        match setting {
            Setting::Cold => self.engine.clear(|partition| is_owned && partition == Owner::KEY),
            other => Err(io::Error::other(format!("{other:?} cannot be made yet"))),
        }
    }
}
