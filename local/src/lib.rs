//! The one-machine stack behind `dynashard local`: the application of a SAM template, without AWS.
//!
//! ```text
//!            api                      lambda
//!             |                          |
//!         [gateway]  HTTP events   [lambda_api]
//!             +------------+-------------+
//!                          |      [events]  streams, schedules
//!                          +---------+
//!                      [runtime]  pools of environments
//!                          |      Lambda Runtime API
//!                 the real bootstraps, child processes
//!                          |
//!  any SDK --- dynamodb --[endpoint]  signature age, clock, throttles, counters
//!                          |   \
//!                          |    [cloudwatch]--- cloudwatch --- any SDK
//!                          |      metrics, alarms, Contributor Insights
//!                       [engine]   SQLite, in memory or in a directory
//! ```
//!
//! Everything is made from [`Template`], which is the template that is deployed, so that the stack
//! cannot drift from it. Everything listens on 127.0.0.1 only. [`Stack::start`] starts it all and
//! [`Stack::shutdown`] ends it.

mod binaries;
mod clock;
mod cloudwatch;
mod dynamodb;
mod error;
mod events;
mod gateway;
mod ids;
mod lambda_api;
mod runtime;
mod server;
mod stack;
mod template;

pub use binaries::{Functions, build_functions};
pub use cloudwatch::AlarmState;
pub use dynamodb::endpoint::{Counters, OperationCount};
pub use dynamodb::{DynamoDb, DynamoDbOptions};
pub use dynashard_limits::partition::{Limits, Partitions};
pub use error::StartError;
pub use stack::{Endpoints, Stack, StackOptions};
pub use template::{Template, TemplateSource};
