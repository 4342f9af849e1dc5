//! A typed client of sharded collections, for services in Rust.
//!
//! A type says its own key ([`Sharded`](dynashard_keys::Sharded)) and serde its attributes. [`Client`] stores,
//! finds and queries its values by way of a [`Store`], of which there are two:
//!
//! - [`InProcess`] works on the tables themselves, by the use cases of the functions: no gateway and no function
//!   stands between, and the service needs the permissions of the functions.
//! - [`HttpApi`] sends requests to the HTTP API, signed if it asks for IAM.
//!
//! Both store the same items. Values become plain JSON on the way, as clients of the API write it, so numbers keep
//! 38 digits, and neither binary values nor sets exist (docs/API.md).
//!
//! ```no_run
//! use dynashard_client::{Client, CollectionQuery, HttpApi};
//! use dynashard_keys::Sharded;
//! use futures_util::TryStreamExt;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, Sharded, Serialize, Deserialize)]
//! #[sharded(prefix = "user.v1.User", partition(tenant_id), sort(id), shards = 16)]
//! struct User {
//!     tenant_id: String,
//!     id: String,
//!     email: String,
//! }
//!
//! # async fn example() -> Result<(), dynashard_client::ClientError> {
//! let client = Client::new(HttpApi::new("http://127.0.0.1:3000")?);
//! let email = "ada@example.com".to_owned();
//! client.put(&User { tenant_id: "abc".to_owned(), id: "123".to_owned(), email }).await?;
//! let found = client.get::<User>(&User::item_key_of("abc", "123")?).await?;
//! let all = CollectionQuery::of(User::partition_key_of("abc")?);
//! let users = client.query::<User>(&all).try_collect::<Vec<_>>().await?;
//! # Ok(())
//! # }
//! ```

mod client;
mod error;
mod http_api;
mod in_process;
mod store;
mod whole_numbers;

pub use client::{Client, Stored};
pub use dynashard_core::Bounds;
pub use error::ClientError;
pub use http_api::HttpApi;
pub use in_process::InProcess;
pub use store::{CollectionQuery, Condition, ETag, Found, Page, Store};
