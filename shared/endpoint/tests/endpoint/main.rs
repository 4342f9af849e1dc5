//! The endpoint over the embedded engine: what an SDK sees through it, and what it asks of DynamoDB.

mod stack;

mod access;
mod guard;
mod phases;
mod requests;
mod sharded;
