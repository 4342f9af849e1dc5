//! The endpoint over the embedded engine: what an SDK sees through it, and what it asks of DynamoDB.

mod canned;
mod stack;

mod access;
mod batches;
mod guard;
mod indexes;
mod meanwhile;
mod pages;
mod phases;
mod requests;
mod sharded;
mod transactions;
mod whole;
