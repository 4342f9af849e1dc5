//! An endpoint that speaks DynamoDB's own protocol: an unmodified SDK talks to it, and it talks to DynamoDB.
//!
//! ```text
//!  SDK --- [server] --- [service] --- requests on other tables: unchanged, signed anew
//!                          |
//!                          +--- [items] [pages] [batches] [transactions]: requests on managed tables
//!                                 |          the guard goes in, our attributes stay out, one request each
//!                                 |          [merged]: a query of several shards, and of an index
//!                                 |          [moving]: of the table while items move, which the core reads
//!                                 |          [write_sharded]: of an index whose keys have shards of their own
//!                                 |          [whole], then [scan]: a whole table, where some keys have several shards
//!                                 |          [parts]: what batches and transactions ask of their collections is told
//!                               [table]      where a collection lies, and what its requests carry
//! ```
//!
//! [`Service`] answers calls and knows no socket; [`Server`] puts it behind a port. What a request may do is decided by
//! `dynashard-core`, its text is put together by `dynashard-expression`, and DynamoDB judges it.
//!
//! Keys of several shards, and those that are being resharded, are served like others.

mod batches;
mod call;
mod clients;
mod cursor;
mod document;
mod evaluation;
mod guard;
mod index;
mod items;
mod judged;
mod live;
mod merged;
mod metrics;
mod moving;
mod no_page;
mod outcome;
mod page_room;
mod pages;
mod parameters;
mod parts;
mod refusal;
mod scan;
mod server;
mod service;
mod shapes;
mod stored;
mod table;
mod telemetry;
mod terms;
mod transactions;
mod upstream;
mod value;
mod whole;
mod write_sharded;

pub use call::{Answer, Call};
pub use dynashard_wire::signature::User;
pub use server::{Access, Server};
pub use service::{Service, ServiceOptions};
pub use table::{ManagedTable, TableNames};
