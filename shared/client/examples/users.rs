//! A service that keeps users, in the tables of a stack or by way of its API:
//!
//! ```sh
//! cargo run -p dynashard-client --example users -- http://127.0.0.1:3000
//! cargo run -p dynashard-client --example users -- http://127.0.0.1:8000 MainTable MetadataTable
//! ```
//!
//! The first line sends requests to the HTTP API. The second works on the tables themselves, of the DynamoDB at that
//! URL.

use std::error::Error;

use dynashard_aws_operator::Caller;
use dynashard_client::{Client, CollectionQuery, Condition, HttpApi, InProcess, Store};
use dynashard_keys::Sharded;
use futures_util::TryStreamExt;
use serde::{Deserialize, Serialize};

/// A user of a tenant, of which there may be very many.
#[derive(Debug, Clone, PartialEq, Sharded, Serialize, Deserialize)]
#[sharded(prefix = "user.v1.User", partition(tenant_id), sort(id), shards = 16)]
pub(crate) struct User {
    pub(crate) tenant_id: String,
    pub(crate) id: String,
    pub(crate) email: String,
    pub(crate) logins: u64,
}

/// Stores users of a tenant, changes one, and returns all in the order of their ids.
pub(crate) async fn tour<S: Store>(
    client: &Client<S>,
    tenant_id: &str,
) -> Result<Vec<User>, Box<dyn Error>> {
    for number in 0..20 {
        let id = format!("u{number:02}");
        let email = format!("{id}@example.com");
        let user = User { tenant_id: tenant_id.to_owned(), id, email, logins: 0 };
        client.put_if(&user, &Condition::Absent).await?;
    }

    // Two services that count a login at once: the later one is refused, and reads again.
    let key = User::item_key_of(tenant_id, "u07")?;
    let found = client.get_consistent::<User>(&key).await?.ok_or("it was just stored")?;
    let counted = User { logins: found.value.logins + 1, ..found.value };
    client.put_if(&counted, &Condition::Version(found.etag.clone())).await?;
    let late = client.put_if(&counted, &Condition::Version(found.etag)).await;
    assert_eq!(late.err().as_ref().and_then(|error| error.code()), Some("precondition_failed"));

    let gone = User::item_key_of(tenant_id, "u13")?;
    client.delete(&gone, &Condition::None).await?;
    assert_eq!(client.get_consistent::<User>(&gone).await?, None);

    // A stream that reads a page when it is asked for more.
    let all = CollectionQuery::of(User::partition_key_of(tenant_id)?).pages_of(7).consistent();
    Ok(client.query::<User>(&all).try_collect().await?)
}

#[allow(dead_code, reason = "a test runs the tour by itself")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let users = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [api] => tour(&Client::new(HttpApi::new(api)?), "abc").await?,
        [dynamodb, main, metadata] => {
            let endpoint_url = Some((*dynamodb).to_owned());
            let caller = Caller { endpoint_url, ..Caller::default() };
            tour(&Client::new(InProcess::connect(&caller, main, metadata).await?), "abc").await?
        }
        _ => return Err("users API-URL, or users DYNAMODB-URL MAIN-TABLE METADATA-TABLE".into()),
    };
    for user in users {
        println!("{user:?}");
    }
    Ok(())
}
