//! A deterministic simulation of the whole system (protocol: all of it).
//!
//! The use cases of `dynashard-core` run unchanged over a simulated DynamoDB, in virtual time, on one
//! thread. One number, the seed, decides everything else: which task goes on, how long each message
//! travels and whether it arrives, what the clocks of each process say, who is frozen, killed or
//! comes back, what clients and operators do. So a run can be repeated from its seed.
//!
//! - `kernel` is time and the tasks, `environment` is a process with clocks of its own, and `clock`
//!   reads them.
//! - `endpoint` is the ports, and `native` those of requests in DynamoDB's own words. `network` carries their requests to
//!   `tables`, which are what DynamoDB holds.
//! - `scenario` is what a seed draws before anything runs, `clients`, `queries` and `operators` are
//!   the programs.
//! - `counters` is a program of its own, of clients who count.
//! - `triggers` is a consumer of the main table's stream, who must end with what the table holds.
//! - `history` is what clients saw, `linearizability` whether that can have happened, and `run` puts
//!   it together and looks at what is left at the end.

pub mod linearizability;

mod clients;
mod clock;
mod counters;
mod endpoint;
mod environment;
mod history;
mod kernel;
mod native;
mod network;
mod operators;
mod queries;
mod random;
mod run;
mod scenario;
mod tables;
mod trace;
mod triggers;
mod world;

pub use counters::run_counters;
pub use run::{Report, run};
pub use scenario::Mutation;
