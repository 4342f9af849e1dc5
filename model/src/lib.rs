//! scratch
pub mod check;
pub mod config;
pub mod item;
pub mod mutation;
pub mod query;
pub mod schedule;
