//! The real command, functions and engine in tests that mostly wait: for leases, schedules and the mover. They run side by
//! side. What loads both cores, or measures how long something takes, is a test of its own.

#[path = "../common/mod.rs"]
mod common;

mod adopt;
mod auth;
mod caches;
mod client;
mod console;
mod counters;
mod dates;
mod decisions;
mod doctor;
mod existing_table;
mod extension;
mod growth;
mod indexes;
mod local;
mod metrics;
mod operator;
mod permissions;
mod replicas;
mod series;
mod settings;
mod streams;
mod tables;
mod throttling;
