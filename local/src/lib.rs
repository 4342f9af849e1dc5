//! The one-machine stack behind `dynashard local`: the application of a SAM template, without AWS.
//!
//! ```text
//!            api                      lambda
//!             |                          |
//!         [gateway]  HTTP events     [invoke]
//!             +------------+-------------+
//!                          |      [events]  streams, schedules, alarms
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
//! [`load_template`] reads the template that is deployed into a [`Plan`], and everything is made
//! from that, so that the stack cannot drift from it. Everything listens on 127.0.0.1, and the engine alone where it is told to.
//! [`Stack::start`] starts it all and [`Stack::shutdown`] ends it.
//!
//! The rooms form layers, and each may use those below it only:
//!
//! ```text
//!  stack
//!  events      streams, schedules, alarms: whatever invokes functions
//!  lambda      runtime, Invoke API, HTTP gateway, binaries
//!  cloudwatch  metrics, states of alarms, Contributor Insights
//!  dynamodb    the engine and the endpoint in front of it      template    YAML to a plan
//!  access      what the functions may do by their roles
//!  plan        what the template asks for, as plain data
//!  server, queues, clock, ids, error
//! ```

mod access;
mod clock;
mod cloudwatch;
mod dynamodb;
mod error;
mod events;
mod ids;
mod lambda;
mod plan;
mod queues;
mod server;
mod stack;
mod template;

pub use cloudwatch::AlarmState;
pub use dynamodb::endpoint::{Counters, OperationCount};
pub use dynamodb::{DynamoDb, DynamoDbOptions};
pub use dynashard_limits::partition::Limits;
pub use error::StartError;
pub use lambda::{Functions, Principals, User, build_functions};
pub use plan::Plan;
pub use stack::{Endpoints, Stack, StackOptions, signature_window};
pub use template::{TemplateSource, check_parameters, load_template};
